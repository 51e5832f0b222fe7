"""Steps of a capture without step labels: what the host waits for, again and again."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from tracediff.formats.capture import Capture
from tracediff.formats.database import run_sql, sql
from tracediff.kernels.names import normalise
from tracediff.model import Note
from tracediff.trace.levels import (
    EVENTS,
    MAYBE_PARTS,
    RESULT,
    WINDOW,
    Choice,
    Found,
    Launched,
    Outer,
    choose,
    measure,
    same,
)
from tracediff.trace.segments import Flags, Ints, blocks, repeats

INFERRED = "inferred"  # how steps were found; a confidence follows
PHASE = "step"  # of all inferred steps: what kinds of work they hold is told by their ops
_MISSING = 0.02  # share of a process's ops without a recorded launch, beyond which cuts are doubted
_LONGEST = 50_000  # launches of a step that are searched for repetitions
_LISTED = 6  # levels that a refusal can name

# Kernels that run once in a step, by normalised name. A router's top-k runs in every layer.
_ANCHORS = {
    "sampling": re.compile(r"(?i)argmax|sampl|multinomial|gumbel"),
    "optimiser": re.compile(
        r"(?i)adam|sgd|optimi[sz]er|lamb(?!da)|adagrad|rmsprop|adafactor|multi_tensor_apply|amp_update_scale"
    ),
    "ranking": re.compile(r"(?i)^(?!.*(?:moe|expert|rout)).*top_?[kp]"),
    "embedding": re.compile(r"(?i)^(?!.*backward).*(?:embedding|indexselect|vectorized_gather|vocab|lookup)"),
}
# What parts of a step are called: layers, modules, operators of a library.
_PARTS = (
    r"(?i)\b(?:layers?|blocks?|attn|attention|mlp|moe|experts?)\b|layer_?norm|FSDP::|nn\.Module|^aten::|^h\.\d"
    r"|transformerblock|decoderlayer|encoderlayer"
)


@dataclass(frozen=True)
class Level:
    """One way to cut the launches of a process into segments, all of which something begins."""

    event: str  # result: the host waits for a copy to it; copy; sync; graph: a graph launch; launch
    producer: str  # kernel whose result is copied or waited for, or the launch itself; "" any
    segments: int
    launches: int  # of the median segment, 0 unknown
    confidence: float  # 0 to 1


@dataclass(frozen=True)
class Inference:
    """What inference found. The processes of one capture are cut by one rule; the least sure one is told."""

    source: str | None  # as `step_source` of a result; None where it refuses
    event: str  # of the level that was chosen, see Level; "" where it refuses
    confidence: float
    # why it refuses, "" where it does not. no-launches; nothing-repeats; few: too few repetitions; one-kernel;
    # launches-missing: over 2 % of the ops have no recorded launch; layers: segments are ranges that are named like
    # layers; may-be-layers: the host synchronises or launches a graph, and waits for no result; parts: segments
    # follow one another in a cycle and nothing larger repeats; unsure: under a confidence of 0.6
    refusal: str
    levels: tuple[Level, ...]  # of the process with the most ops, the surest first


@dataclass(frozen=True)
class _Process:
    pid: int
    tid: int  # the thread that launches most ops
    launched: Launched
    missing: float  # share of its ops whose launch was not recorded
    parts: list[Ints]  # first launches in ranges that are named like layers, by family


def infer_steps(capture: Capture) -> Inference:
    """Fill the tables `step` and `step_text`, where steps are found; say how, or why not.

    Adds the warning steps-inferred where steps are found. All processes are cut by the rule that fits the one
    with the most ops; where it does not fit, a process has no steps.
    """
    processes, names = _processes(capture)
    if not processes:
        return Inference(None, "", 0.0, "no-launches", ())
    processes.sort(key=lambda one: -int(one.launched.ops.sum()))
    main = processes[0]
    choice = _choose(main)
    if choice.level is None:
        every = _choose(main, all_events=True)
        return Inference(None, "", 0.0, choice.refusal, _levels(every, names))
    first = choice.level
    if choice.outer is not None:
        first = replace(first, confidence=min(first.confidence, MAYBE_PARTS))
    found = [(main, first)]
    for process in processes[1:]:
        level = measure(process.launched, choice.level.mark)
        if level is None or not level.sure:
            level = _choose(process).level
        if level is not None and level.mark.event == choice.level.mark.event:
            found.append((process, level))
    _fill(capture, found)
    capture.warnings.append(_note(capture, found, names, choice.outer))
    confidence = min(level.confidence for _, level in found)
    return Inference(
        f"{INFERRED} (confidence {confidence:.2f})", choice.level.mark.event, confidence, "",
        _levels(choice, names),
    )  # fmt: skip


def _choose(process: _Process, *, all_events: bool = False) -> Choice:
    """The step of a process; of a long one from the middle of it, then held against all of it."""
    launched = process.launched
    if process.missing > _MISSING:
        found = choose(launched.window(0, WINDOW), process.parts, all_events=True)
        return Choice(None, "launches-missing", found.found, found.results)
    count = len(launched.token)
    low = max((count - WINDOW) // 2, 0)
    parts = [one[(one >= low) & (one < low + WINDOW)] - low for one in process.parts]
    choice = choose(launched.window(low, low + WINDOW), parts, all_events=all_events)
    if choice.level is None or count <= WINDOW:
        return choice
    level = measure(launched, choice.level.mark)
    if level is None or not level.sure:
        return Choice(None, "unsure", choice.found, choice.results)
    return Choice(level, "", choice.found, choice.results, choice.outer)


# --- reading


def _processes(capture: Capture) -> tuple[list[_Process], list[str]]:
    """What each process launched, and the name of every token."""
    db = capture.db
    keys, tokens, names, reads_back = _tokens(capture)
    db.register("op_token", {"key": keys, "token": tokens, "reads_back": reads_back})
    try:
        rows = {
            name: np.asarray(values)
            for name, values in db.execute(sql("trace/step_launch")).fetchnumpy().items()
        }
        graphs = db.execute(sql("trace/step_graph")).fetchnumpy()
        waits = db.execute(sql("trace/step_sync")).fetchnumpy()
        all_ops = dict(db.execute(sql("trace/step_ops")).fetchall())
    finally:
        db.unregister("op_token")
        db.execute("DROP TABLE IF EXISTS launched")
    parts = run_sql(db, "trace/step_layer", pattern=_PARTS).fetchnumpy()
    token, inside = _dense(rows, graphs, names)
    anchors = {
        kind: [
            _times(number, inside, len(names)) for number, name in enumerate(names) if pattern.search(name)
        ]
        for kind, pattern in _ANCHORS.items()
    }
    repeated = np.zeros(len(names) + len(inside), np.bool_)
    for number, nodes in inside.items():
        repeated[number] = repeats(nodes[np.append(True, nodes[1:] != nodes[:-1])])
    edges = [0, *(np.flatnonzero(np.diff(rows["pid"])) + 1).tolist(), len(token)]
    found = []
    for low, high in pairwise(edges):
        if high > low:
            part = {name: values[low:high] for name, values in rows.items()}
            found.append(_process(part, token[low:high], waits, parts, anchors, repeated, all_ops))
    return found, [*names, *([""] * len(inside))]


def _tokens(capture: Capture) -> tuple[npt.NDArray[Any], npt.NDArray[Any], list[str], npt.NDArray[Any]]:
    """Of every op_key: its token, equal for kernels of one template; the name of each token."""
    rows = capture.db.execute("SELECT key, kind, name FROM op_key ORDER BY key").fetchall()
    number: dict[str, int] = {}
    tokens = [
        number.setdefault(normalise(name) if kind == 0 else name, len(number)) for _, kind, name in rows
    ]
    return (
        np.array([key for key, _, _ in rows], np.uint64), np.array(tokens, np.int32), list(number),
        np.array([name == "[memcpy DtoH]" for _, _, name in rows], np.bool_),
    )  # fmt: skip


def _dense(
    rows: dict[str, npt.NDArray[Any]], graphs: dict[str, Any], names: list[str]
) -> tuple[Ints, dict[int, Ints]]:
    """The token of each launch (that of a graph stands behind those of ops), and the nodes of each graph."""
    contents = np.asarray(graphs["content"], np.uint64)
    values, first = np.unique(contents, return_index=True)
    token = rows["token"].astype(np.int64)
    several = token < 0
    token[several] = len(names) + np.searchsorted(values, rows["content"][several].astype(np.uint64))
    nodes = np.split(np.asarray(graphs["token"], np.int64), first[1:])
    return token, {len(names) + number: nodes[number] for number in range(len(values))}


def _times(token: int, inside: dict[int, Ints], count: int) -> Ints:
    """How often each token's launch holds the kernel of one token."""
    times = np.zeros(count + len(inside), np.int64)
    times[token] = 1
    for number, nodes in inside.items():
        run = np.append(True, nodes[1:] != nodes[:-1])
        times[number] = int((nodes[run] == token).sum())
    return times


def _process(
    part: dict[str, npt.NDArray[Any]],
    token: Ints,
    waits: dict[str, Any],
    parts: dict[str, Any],
    anchors: dict[str, list[Ints]],
    repeated: Flags,
    all_ops: dict[int, int],
) -> _Process:
    pid = int(part["pid"][0])
    start, end = part["start_ns"].astype(np.int64), part["end_ns"].astype(np.int64)
    over = np.concatenate([
        np.asarray(waits["end_ns"], np.int64)[np.asarray(waits["pid"]) == pid], end[part["waits"].astype(np.bool_)]
    ])  # fmt: skip
    mine = np.asarray(parts["pid"]) == pid
    family = np.asarray(parts["family"], np.int64)[mine]
    inside = np.searchsorted(start, np.asarray(parts["start_ns"], np.int64)[mine])
    tids, number = np.unique(part["tid"], return_inverse=True)
    launched = Launched(
        start=start, end=end, token=token, ops=part["ops"].astype(np.int64), kernels=part["kernels"].astype(np.int64),
        graph=part["graph"].astype(np.bool_), reads_back=part["reads_back"].astype(np.bool_),
        waits=np.searchsorted(start, np.sort(over)).astype(np.int64),
        # what a graph holds that was recorded as a whole is not known
        anchors={} if part["closed"].any() else anchors,
        repeats=repeated,
    )  # fmt: skip
    return _Process(
        pid, int(tids[np.argmax(np.bincount(number.reshape(-1), weights=part["ops"]))]), launched,
        1 - int(launched.ops.sum()) / max(all_ops.get(pid, 0), 1),
        [np.unique(inside[family == one]) for one in np.unique(family)],
    )  # fmt: skip


# --- what is said


def _levels(choice: Choice, names: list[str]) -> tuple[Level, ...]:
    """The surest levels, each once; waits for a result that are too few for steps are told as well."""
    order = sorted(choice.found, key=lambda one: (EVENTS.index(one.mark.event), -one.confidence, one.count))
    kept: list[Found] = []
    for one in order:
        if len(kept) < _LISTED and not any(same(one.cut.start, other.cut.start) for other in kept):
            kept.append(one)
    levels = [_level(one, names) for one in kept]
    if choice.results and not any(one.event == RESULT for one in levels):
        levels.insert(0, Level(RESULT, "", choice.results, 0, 0.0))
    return tuple(levels)


def _level(found: Found, names: list[str]) -> Level:
    return Level(
        found.mark.event, names[found.mark.token] if 0 <= found.mark.token < len(names) else "", found.count,
        int(np.median(np.diff(found.cut.start))), round(found.confidence, 2),
    )  # fmt: skip


def _fill(capture: Capture, found: list[tuple[_Process, Found]]) -> None:
    starts = [process.launched.start[level.steps] for process, level in found]
    many = [len(one) for one in starts]
    columns = {
        "pid": np.repeat([process.pid for process, _ in found], many),
        "tid": np.repeat([process.tid for process, _ in found], many),
        "start_ns": np.concatenate(starts),
    }
    capture.db.register("inferred", columns)
    run_sql(capture.db, "trace/step_inferred", phase=PHASE)
    capture.db.unregister("inferred")


def _blocks(process: _Process, found: Found) -> int:
    """How many repetitions a step of the largest class holds, where no sampler or optimiser says that it is one."""
    mine = np.flatnonzero(found.cut.kind == 0)
    if found.anchored or not len(mine):
        return 1
    low = found.cut.start[mine[0]]
    high = np.append(found.cut.start, len(process.launched.token))[mine[0] + 1]
    return blocks(process.launched.token[low : min(high, low + _LONGEST)])


# What begins a step, by the event of its level.
BEGINS = {
    "result": "the host waits for a result", "copy": "a result is copied to the host", "sync": "the host synchronises",
    "graph": "a CUDA graph is launched", "launch": "a kernel is launched that recurs",
}  # fmt: skip


def _note(
    capture: Capture, found: list[tuple[_Process, Found]], names: list[str], outer: Outer | None
) -> Note:
    parts = []
    for process, one in found:
        level = _level(one, names)
        parts.append(
            (f"process {process.pid}: " if len(found) > 1 else "")
            + f"{len(one.steps) - 1} steps of about {level.launches} launches, each from where {BEGINS[level.event]}"
            + (f" ({level.producer})" if level.producer else "")
            + f" (confidence {one.confidence:.2f})"
        )
    several = {number for process, one in found if (number := _blocks(process, one)) > 1}
    if several:
        parts.append(f"each holds {max(several)} repetitions: these may be several steps")
    if outer is not None:
        level = _level(outer.level, names)
        many = " to ".join(dict.fromkeys((str(outer.least), str(outer.most))))
        parts.append(
            f"these may be parts of steps, {many} of them in each of {level.segments}, which begin where the host waits for"
            f" another result ({level.producer}): an NVTX range around each step settles it"
        )
    unsure = any(level.mark.event not in ("result", "copy") and not level.anchored for _, level in found)
    return Note(
        "steps-inferred",
        f"{capture.name}: no step labels; steps were inferred from what the program repeats: {'; '.join(parts)}"
        + (". The host waits for no result in them: these may be layers, or several steps" if unsure else ""),
    )
