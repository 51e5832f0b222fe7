"""Two sides of trtexec compared: the figures of its summary, the layers of both engines, and a verdict."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias, TypeVar

import msgspec
import numpy as np
from msgspec.structs import replace

from tracediff.companions import words as text
from tracediff.companions.model import (
    Trtexec,
    TrtexecChange,
    TrtexecFigure,
    TrtexecGroup,
    TrtexecLayers,
    TrtexecRow,
    TrtexecRun,
    TrtexecSide,
)
from tracediff.companions.trtexec.read import Floats, LayerInfo, Log, Run, Side, Times
from tracediff.companions.verdict import compare_runs, decide, levels, variance_of_mean
from tracediff.kernels.myelin import decode, layer_set
from tracediff.model import Evidence, Note, Verdict
from tracediff.report.grammar import say

# The layers of two engines side by side: times, what became of them, and their sums by type and precision.


_FOREIGN = re.compile(r"ForeignNode\[(.*)\]", re.DOTALL)
_ASSUMED, _LEAST_NS = 0.02, 1_000.0  # what GPU time may differ by from run to run: a part of it, and at least
_OF_HOST, _HOST_NS = 0.375, 10_000.0  # the same of host time
_CUT = 60  # characters of a type in a sentence
_Key: TypeAlias = tuple[bool, tuple[str, ...]]
_Kind = TypeVar("_Kind")
_Value = TypeVar("_Value")
_Node: TypeAlias = tuple[int, int]  # side, number of the layer


class Pairing(msgspec.Struct, frozen=True):
    """Layers that do the same work, by their numbers on both sides."""

    match: str  # exact | normalised | similar | fused | split | regrouped | added | removed
    confidence: float
    baseline: tuple[int, ...]
    candidate: tuple[int, ...]


class Engine(msgspec.Struct, frozen=True, eq=False):
    """The layers of one side in the order of its files. `times`: (runs, layers), ns per query, nan where not profiled."""

    layers: list[LayerInfo]
    times: Floats
    left_out: int  # runs whose layers are others

    @property
    def profiled(self) -> bool:
        """Whether there is a profile."""
        return len(self.times) > 0

    def time(self, numbers: Iterable[int]) -> float | None:
        """Return the sum of the layers that were profiled, means over the runs; None where none was."""
        known = self.times[:, list(numbers)].mean(axis=0) if self.profiled else np.empty(0)
        known = known[~np.isnan(known)]
        return float(known.sum()) if len(known) else None


def engine_of(runs: Sequence[Run]) -> Engine | None:
    """Put the profiles and the layer info of a side's runs together, by name; None where there is neither.

    Runs whose profile has other layers than the first are left out: they are of another engine.
    """
    infos = next((run.layers for run in runs if run.layers is not None), ())
    profiles = [_by_name(run.profile) for run in runs if run.profile is not None]
    if not infos and not profiles:
        return None
    same = [profile for profile in profiles if profile.keys() == profiles[0].keys()]
    of_infos = _by_name((info.name, info) for info in infos)
    names = list(dict.fromkeys([*(profiles[0] if profiles else ()), *of_infos]))
    times = [[profile.get(name, np.nan) for name in names] for profile in same]
    return Engine(
        [of_infos.get(name, LayerInfo(name[0])) for name in names],
        np.array(times, np.float64).reshape(len(same), len(names)),
        len(profiles) - len(same),
    )


def _by_name(rows: Iterable[tuple[str, _Value]]) -> dict[tuple[str, int], _Value]:
    """Rows by name; those of one name are told apart by their order."""
    seen: Counter[str] = Counter()
    found = {}
    for name, value in rows:
        found[name, seen[name]] = value
        seen[name] += 1
    return found


def compare_layers(baseline: Engine, candidate: Engine) -> list[TrtexecRow]:
    """Return a row for each pairing, the largest change first."""
    pairings = pair(baseline.layers, candidate.layers)
    totals = [engine.time(range(len(engine.layers))) or 0.0 for engine in (baseline, candidate)]
    sure = _levels(pairings, baseline, candidate, max(totals))
    rows = [_row(pairing, level, baseline, candidate) for pairing, level in zip(pairings, sure, strict=True)]
    return sorted(rows, key=_rank)


def _rank(row: TrtexecRow) -> tuple[float, float, list[str]]:
    sides = [side for side in (row.baseline, row.candidate) if side]
    return -abs(row.delta_ns or 0.0), -max(side.time_ns or 0.0 for side in sides), sides[0].names


def _row(pairing: Pairing, level: Evidence | None, baseline: Engine, candidate: Engine) -> TrtexecRow:
    ones = [baseline.layers[number] for number in pairing.baseline]
    others = [candidate.layers[number] for number in pairing.candidate]
    one, other = _layers_at(baseline, pairing.baseline), _layers_at(candidate, pairing.candidate)
    before, after = (side.time_ns if side else None for side in (one, other))
    # a layer that the profile leaves out, though there is one, did not run
    timed = baseline.profiled and candidate.profiled and (before is not None or after is not None)
    delta = (after or 0.0) - (before or 0.0) if timed else None
    changes = _changes(ones[0], others[0]) if len(ones) == len(others) == 1 else []
    return TrtexecRow(
        match=pairing.match,  # type: ignore[arg-type]
        confidence=pairing.confidence,
        reformat=all(layer.reformat for layer in (*ones, *others)),
        baseline=one,
        candidate=other,
        delta_ns=delta,
        level=None if delta is None else level,
        sentence=_sentence(pairing, one, other, changes),
        changes=changes,
    )


def _layers_at(engine: Engine, numbers: Sequence[int]) -> TrtexecLayers | None:
    if not numbers:
        return None
    layers = [engine.layers[number] for number in numbers]
    return TrtexecLayers(
        names=[layer.name for layer in layers],
        types=_each(layers, lambda layer: layer.type),
        precisions=_each(layers, lambda layer: layer.precision),
        tactics=_each(layers, lambda layer: layer.tactic),
        time_ns=engine.time(numbers),
        places=list(numbers),
        times_ns=[engine.time([number]) for number in numbers],
        each_precision=[layer.precision for layer in layers],
    )


def _each(layers: Sequence[LayerInfo], get: Callable[[LayerInfo], str]) -> list[str]:
    return list(dict.fromkeys(filter(None, map(get, layers))))


def _changes(before: LayerInfo, after: LayerInfo) -> list[TrtexecChange]:
    one, other = (
        {
            "type": layer.subtype or layer.type,
            "precision": " -> ".join(filter(None, dict.fromkeys((layer.precision, layer.output_precision)))),
            "tactic": layer.tactic,
            "format": layer.format,
        }
        for layer in (before, after)
    )
    differ = [what for what in one if one[what] and other[what] and one[what] != other[what]]
    if "precision" in differ and "format" in differ:
        differ.remove("format")  # the layout names the precision as well
    return [TrtexecChange(what, one[what], other[what]) for what in differ]  # type: ignore[arg-type]


def _sentence(
    pairing: Pairing, one: TrtexecLayers | None, other: TrtexecLayers | None, changes: list[TrtexecChange]
) -> str:
    """Say what became of the layers, without their names."""
    if one is None or other is None:
        side, where = (other, "candidate") if one is None else (one, "baseline")
        took = f": {text.time(side.time_ns)}" if side and side.time_ns is not None else ""
        return f"only in the {where}{took}"
    parts = []
    counts = len(one.names), len(other.names)
    if pairing.match == "similar":
        parts.append("joined with other parts")
    elif counts != (1, 1):
        parts.append(f"{counts[0]} layer{'s' * (counts[0] > 1)} became {counts[1]}")
    if changes:
        named = [f"other {change.what}" if change.what in ("tactic", "format") else
                 f"{change.what} {change.before[:_CUT]} -> {change.after[:_CUT]}" for change in changes]  # fmt: skip
        parts.append(", ".join(named))
    before, after = one.time_ns, other.time_ns
    if before is not None and after is not None:
        same = "the same: " if before == after and not parts else ""
        by = text.part(after - before, before) if before != after else ""
        parts.append(same + text.both(text.time(before), text.time(after)) + by)
    return ", ".join(parts) or "the same"


def _levels(
    pairings: Sequence[Pairing], baseline: Engine, candidate: Engine, total_ns: float
) -> list[Evidence | None]:
    """How far each delta can be believed; None where a side has no time."""
    if not pairings or not baseline.profiled or not candidate.profiled:
        return [None] * len(pairings)
    one, other = (
        np.stack([np.nansum(times[:, list(numbers)], axis=1) for numbers in columns], axis=1)
        for times, columns in (
            (baseline.times, [one.baseline for one in pairings]),
            (candidate.times, [one.candidate for one in pairings]),
        )
    )
    return list(levels(compare_runs(one, other, assumed(one, other)), total_ns))


def assumed(baseline: Floats, candidate: Floats, *, host: bool | Sequence[bool] = False) -> Floats:
    """What the means of two runs of one program may differ by, of values (runs, cells). `host`: which vary as host time does."""
    larger = np.maximum(baseline.mean(axis=0), candidate.mean(axis=0))
    gpu = np.where(larger > 0, np.maximum(_ASSUMED * larger, _LEAST_NS), 0.0)
    return np.where(np.asarray(host), _OF_HOST * larger + _HOST_NS, gpu)


def groups(baseline: Engine, candidate: Engine) -> list[TrtexecGroup]:
    """Return the sums of all layers by type and by precision, the most time first."""
    found: list[TrtexecGroup] = []
    for kind in ("type", "precision"):
        one, other = (
            _gathered((getattr(layer, kind), number) for number, layer in enumerate(engine.layers))
            for engine in (baseline, candidate)
        )
        if not any({*one, *other}):
            continue
        rows = []
        for name in {**one, **other}:
            before = (baseline.time(one[name]) or 0.0) if baseline.profiled else None
            after = (candidate.time(other[name]) or 0.0) if candidate.profiled else None
            delta = None if before is None or after is None else after - before
            rows.append(TrtexecGroup(kind, name, len(one[name]), len(other[name]), before, after, delta))
        found += sorted(
            rows, key=lambda row: (-max(row.baseline_ns or 0.0, row.candidate_ns or 0.0), row.name)
        )
    return found


def _gathered(pairs: Iterable[tuple[_Kind, _Value]]) -> dict[_Kind, list[_Value]]:
    """Key -> its values, in their order; of other keys none."""
    found: dict[_Kind, list[_Value]] = defaultdict(list)
    for key, value in pairs:
        found[key].append(value)
    return found


# Layers of one engine to those of another, by what their names say they are made of.


def pair(baseline: Sequence[LayerInfo], candidate: Sequence[LayerInfo]) -> list[Pairing]:
    """Pair the layers of two engines; every layer is in exactly one pairing."""
    sides = baseline, candidate
    left = list(range(len(baseline))), list(range(len(candidate)))
    # The type is no part of the key: that it changed is to be said of the layer.
    found = _equal(sides, left, lambda layer: (layer.reformat, (layer.name,)), "exact", 1.0)
    # several kernels of Myelin bear one name: those of the same layers of the network first
    found += _equal(sides, left, lambda layer: _key(layer, layer.onnx), "normalised", 0.95)
    found += _equal(sides, left, lambda layer: _key(layer, ()), "normalised", 0.95)
    found += _linked(sides, left)
    found += [Pairing("removed", 0.8, (one,), ()) for one in left[0]]
    found += [Pairing("added", 0.8, (), (one,)) for one in left[1]]
    return found


def _key(layer: LayerInfo, onnx: Sequence[str]) -> _Key:
    named = tuple(sorted(layer_set(layer.name)))
    return layer.reformat, (*named, "", *sorted(onnx)) if named else ()


def _equal(
    sides: tuple[Sequence[LayerInfo], Sequence[LayerInfo]],
    left: tuple[list[int], list[int]],
    key: Callable[[LayerInfo], _Key],
    match: str,
    confidence: float,
) -> list[Pairing]:
    """Pair layers of the same key in their order, and take them out of `left`; less sure where one side has more of them."""
    groups = [
        _gathered((of, number) for number in numbers if (of := key(side[number]))[1])
        for side, numbers in zip(sides, left, strict=True)
    ]
    found = []
    for of, ones in groups[0].items():
        others = groups[1].get(of, [])
        sure = confidence if len(ones) == len(others) else min(confidence, 0.6)
        found += [Pairing(match, sure, (a,), (b,)) for a, b in zip(ones, others, strict=False)]
    left[0][:] = sorted({*left[0]} - {number for one in found for number in one.baseline})
    left[1][:] = sorted({*left[1]} - {number for one in found for number in one.candidate})
    return found


def _linked(
    sides: tuple[Sequence[LayerInfo], Sequence[LayerInfo]], left: tuple[list[int], list[int]]
) -> list[Pairing]:
    """Group what is left by the network layers that both sides name; take the groups out of `left`."""
    parts = [
        {number: _parts(side[number]) for number in numbers if not side[number].reformat}
        for side, numbers in zip(sides, left, strict=True)
    ]
    by_range = [_run_between(sides[side], parts[side], parts[1 - side]) for side in (0, 1)]
    owners = _gathered(
        (name, (side, number))
        for side in (0, 1)
        for number, of in parts[side].items()
        for name in of | by_range[side].get(number, set())
    )
    parent: dict[_Node, _Node] = {}

    def root(node: _Node) -> _Node:
        while parent.setdefault(node, node) != node:
            parent[node] = node = parent[parent[node]]
        return node

    for nodes in owners.values():
        if len({side for side, _ in nodes}) == 2:
            for node in nodes:
                parent[root(node)] = root(nodes[0])
    found = []
    for nodes in _gathered((root(node), node) for node in sorted(parent)).values():
        numbers = [tuple(number for of, number in nodes if of == side) for side in (0, 1)]
        names = [set[str]().union(*(parts[side][number] for number in numbers[side])) for side in (0, 1)]
        ranged = any(number in by_range[of] for of, number in nodes)
        sure = 0.6 if ranged else 0.5 + 0.45 * len(names[0] & names[1]) / len(names[0] | names[1])
        tier = _tier(len(numbers[0]), len(numbers[1]))
        found.append(Pairing(tier, round(sure, 2), numbers[0], numbers[1]))
    for side in (0, 1):
        left[side][:] = [number for number in left[side] if (side, number) not in parent]
    return found


def _tier(before: int, after: int) -> str:
    if before == after == 1:
        return "similar"
    return "fused" if after == 1 else "split" if before == 1 else "regrouped"


def _parts(layer: LayerInfo) -> set[str]:
    """Network layers of a name and of its metadata; not what numbers alone tell apart, nor a Myelin kernel's own name."""
    found = set(layer.onnx)
    for part in layer_set(layer.name):
        if ends := _ends(part):
            found |= set(ends)
        elif not part.startswith("unnamed ") and decode(part) is None:
            found.add(part)
    return found


def _ends(part: str) -> tuple[str, ...]:
    """The first and the last layer of `ForeignNode[first...last]`."""
    found = _FOREIGN.fullmatch(part)
    return tuple(one for one in found[1].split("...") if one) if found else ()


def _run_between(
    side: Sequence[LayerInfo], mine: dict[int, set[str]], theirs: dict[int, set[str]]
) -> dict[int, set[str]]:
    """For each {ForeignNode[a...b]} of a side: what the other side runs between a and b, in the order of its file."""
    found: dict[int, set[str]] = {}
    for number in mine:
        ends = [end for part in layer_set(side[number].name) for end in [_ends(part)] if len(end) == 2]
        if side[number].onnx or not ends:
            continue
        for first, last in ends:
            places = [place for place, names in theirs.items() if {first, last} & names]
            inside = [names for place, names in theirs.items() if places and places[0] <= place <= places[-1]]
            if len(places) > 1 and {first, last} <= set[str]().union(*inside):
                found[number] = found.get(number, set[str]()).union(*inside)
    return found


PERCENTILES = (90.0, 95.0, 99.0)  # trtexec's default
NAMES = {
    "gpu_compute": "GPU compute time", "latency": "latency", "throughput": "throughput", "end_to_end": "end-to-end host latency", "enqueue": "enqueue time",
    "h2d": "H2D latency", "d2h": "D2H latency", "layers": "sum of the layers", "build": "time of the whole build",
}  # fmt: skip
# what the verdict is of: the first that both sides have
_HEADLINES = ("gpu_compute", "latency", "layers", "build")
# parts: of a value with six significant digits; of a mean, that trtexec adds up in float32
_DIGIT, _SUMMED = (1.1e-5, 1e-3)
_ENQUEUE_BOUND = 0.8  # trtexec's own threshold (kENQUEUE_BOUND_REPORTING_THRESHOLD), of medians
_UNSTABLE = 1.0  # its kUNSTABLE_PERF_REPORTING_THRESHOLD, % coefficient of variation


class RunFigures(msgspec.Struct, frozen=True, eq=False):
    """Of one run: metric -> mean, min, max, median, p90, ... in ns; of throughput the mean, a second."""

    values: dict[str, dict[str, float]]
    source: dict[str, str]  # metric -> times | log | profile
    iterations: dict[str, Floats]  # metric -> a value an iteration, ns
    measured: int | None
    differ: list[str]  # what the log says otherwise


def compare_trtexec(baseline: Side, candidate: Side) -> Trtexec:
    """Compare two sides, each one run of trtexec or several."""
    sides = baseline, candidate
    figures = [[figures_of(run) for run in side.runs] for side in sides]
    one, other = engines = [engine_of(side.runs) for side in sides]
    rows = compare_layers(one, other) if one and other else []
    table, verdicts = _figures(figures, engines)
    verdict, reason = _verdict(table, verdicts, min(len(side.runs) for side in sides), rows)
    labels = [side.label for side in sides]
    if baseline.label == candidate.label:
        labels = [f"{baseline.label} (baseline)", f"{candidate.label} (candidate)"]
    return Trtexec(
        baseline=_side(labels[0], baseline, figures[0], one),
        candidate=_side(labels[1], candidate, figures[1], other),
        verdict=verdict,
        verdict_reason=reason,
        figures=table,
        rows=rows,
        groups=groups(one, other) if one and other else [],
        warnings=_warnings(sides, labels, figures, engines, rows),
    )


def _side(label: str, side: Side, figures: Sequence[RunFigures], engine: Engine | None) -> TrtexecSide:
    logs = [run.log for run in side.runs if run.log]
    layers = engine.layers if engine else []
    total = engine.time(range(len(layers))) if engine else None
    reformats = [number for number, layer in enumerate(layers) if layer.reformat]
    return TrtexecSide(
        label=label,
        runs=[
            TrtexecRun(run.name, list(run.files), one.measured)
            for run, one in zip(side.runs, figures, strict=True)
        ],
        version=", ".join(dict.fromkeys(log.version for log in logs if log.version)),
        device=", ".join(dict.fromkeys(log.device for log in logs if log.device)),
        layers=len(layers),
        reformats=len(reformats),
        total_ns=total,
        reformat_ns=(engine.time(reformats) or 0.0) if engine and total is not None else None,
    )


def _figures(
    sides: Sequence[Sequence[RunFigures]], engines: Sequence[Engine | None]
) -> tuple[list[TrtexecFigure], dict[str, Verdict]]:
    """All figures, and the verdicts on those that every run of both sides has."""
    columns = [_columns(runs, engine) for runs, engine in zip(sides, engines, strict=True)]
    found = {}
    for metric in NAMES:
        before, after = (_mean([one for one in column[metric] if one]) for column in columns)
        if before or after:
            delta = {key: after[key] - before[key] for key in before if key in after}
            source = [
                ", ".join(dict.fromkeys(run.source[metric] for run in runs if metric in run.source))
                if metric != "layers" else "profile" if any(column[metric]) else ""
                for runs, column in zip(sides, columns, strict=True)
            ]  # fmt: skip
            found[metric] = TrtexecFigure(metric, before, after, delta, source)  # type: ignore[arg-type]
    known = [name for name in found if all(_means(name, column[name]) for column in columns)]
    if not known:
        return list(found.values()), {}
    one, other = (
        np.array([_means(name, column[name]) for name in known], np.float64).T for column in columns
    )
    within = [np.array([_within(name, runs) for name in known]) for runs in sides]
    host = [_of_host(name, found) for name in known]
    figures = compare_runs(one, other, assumed(one, other, host=host), (within[0], within[1]))
    sure = levels(figures, max(float(one.mean(axis=0)[0]), float(other.mean(axis=0)[0])))
    for at, name in enumerate(known):
        low, high = figures.bounds(at)
        p = None if math.isnan(figures.p[at]) else float(figures.p[at])
        noise = float(figures.floor[at])
        found[name] = replace(
            found[name], level=sure[at], ci_low_ns=low, ci_high_ns=high, p_value=p, noise_ns=noise
        )
    return list(found.values()), {name: decide(figures, sure[at], at) for at, name in enumerate(known)}


def _columns(runs: Sequence[RunFigures], engine: Engine | None) -> dict[str, list[dict[str, float]]]:
    """Metric -> its figures in each run, none where a run has none."""
    sums = [{"mean": one} for one in np.nansum(engine.times, axis=1).tolist()] if engine else []
    found = {name: [run.values.get(name, {}) for run in runs] for name in NAMES}
    return found | {"layers": [*sums, *({} for _ in runs[len(sums) :])]}


def _mean(runs: Sequence[dict[str, float]]) -> dict[str, float]:
    """Means over runs of what all of them have."""
    keys = [key for key in runs[0] if all(key in run for run in runs)] if runs else []
    return {key: math.fsum(run[key] for run in runs) / len(runs) for key in keys}


def _means(metric: str, column: Sequence[dict[str, float]]) -> list[float]:
    """One value a run, ns (of throughput its reciprocal); empty where a run has none."""
    values = [one.get("mean", math.nan) for one in column]
    if metric == "throughput":
        values = [1e9 / value if value else math.nan for value in values]
    return values if np.isfinite(values).all() else []


def _within(metric: str, runs: Sequence[RunFigures]) -> float:
    """Variance of a side's mean from the iterations of its runs; 0 where a run has none."""
    own = [run.iterations[metric] for run in runs if metric in run.iterations]
    return sum(map(variance_of_mean, own)) / len(runs) ** 2 if len(own) == len(runs) else 0.0


def _of_host(metric: str, figures: dict[str, TrtexecFigure]) -> bool:
    """Whether a figure varies from run to run as host time does, not as GPU time."""
    if metric == "throughput" and "enqueue" in figures and "gpu_compute" in figures:
        enqueue, compute = figures["enqueue"], figures["gpu_compute"]
        return any(
            one.get("median", 0.0) > _ENQUEUE_BOUND * other.get("median", math.inf)
            for one, other in ((enqueue.baseline, compute.baseline), (enqueue.candidate, compute.candidate))
        )
    return metric in ("enqueue", "end_to_end", "build")


def _verdict(
    figures: Sequence[TrtexecFigure], verdicts: dict[str, Verdict], runs: int, rows: Sequence[TrtexecRow]
) -> tuple[Verdict, str]:
    """The verdict on the first figure of `_HEADLINES`, and its sentence."""
    metric = next((name for name in _HEADLINES if name in verdicts), None)
    if metric is None:
        if rows and all(row.match == "exact" and not row.changes and not row.delta_ns for row in rows):
            return "no_change", say("engines_alike")
        return "inconclusive", say("no_figure")
    best, verdict = next(one for one in figures if one.metric == metric), verdicts[metric]
    before, after, delta = best.baseline["mean"], best.candidate["mean"], best.delta["mean"]
    name = NAMES[metric][0].upper() + NAMES[metric][1:]
    slots = {
        "name": name,
        "both": text.both(text.time(before), text.time(after)),
        "part": text.part(delta, before),
    }
    change = say("build_time" if metric == "build" else "query_time", **slots)
    tactics = sum(any(one.what == "tactic" for one in row.changes) for row in rows)
    if metric == "build" and tactics:
        change = say("other_tactics", change=change, count=f"{tactics}", layers=f"{len(rows)}")
    if not any(value for one in figures for value in one.delta.values()) and not any(
        row.delta_ns for row in rows
    ):
        kind = "same"
    elif best.level == "confirmed":
        kind = "confirmed"
    elif best.level == "likely":
        kind = "one_run" if runs < 2 else "few"
    else:
        kind = "little" if verdict == "no_change" else "noise"
    return verdict, say(f"figure_{kind}", change=change, floor=text.time(best.noise_ns or 0.0))


def _warnings(
    sides: Sequence[Side],
    labels: Sequence[str],
    figures: Sequence[Sequence[RunFigures]],
    engines: Sequence[Engine | None],
    rows: Sequence[TrtexecRow],
) -> list[Note]:
    notes = []
    for side, label, of, engine in zip(sides, labels, figures, engines, strict=True):
        for run, one in zip(side.runs, of, strict=True):
            where = label if len(side.runs) == 1 else f"{label}, {run.name}"
            notes += [Note(slug, f"{where}: {message}") for slug, message in _of_run(run, one)]
        if engine and engine.left_out:
            notes.append(
                Note("trtexec-runs-differ", f"{label}: {engine.left_out} of {len(side.runs)} runs have other layers than the"
                     " first: they are of another engine, and their profiles were left out")
            )  # fmt: skip
    notes += _between(sides)
    if any(engines) and not all(engines):
        notes.append(
            Note("trtexec-layers-one-side", "layers were given for one side only, and are not compared")
        )
    if rows and not any(row.baseline and row.candidate for row in rows):
        notes.append(Note("trtexec-nothing-paired", "no layer of one engine is like one of the other"))
    return notes


def _of_run(run: Run, one: RunFigures) -> list[tuple[str, str]]:
    more = f"; {len(one.differ) - 3} more" if len(one.differ) > 3 else ""
    compute = one.iterations.get("gpu_compute")
    spread = (run.log.unstable if run.log else None) or 0.0
    if compute is not None and compute.any():
        spread = 100 * float(compute.std() / compute.mean())
    notes = (
        (one.differ, "trtexec-log-differs",
         f"the log is not of the same run as the times: {'; '.join(one.differ[:3])}{more}"),
        (run.times and run.times.with_warmups and not run.log, "trtexec-warmups",
         "this version of trtexec exports the warm-ups among the times, and without the log they cannot be told apart:"
         " they are in the figures"),
        (run.log and run.log.profiled, "trtexec-profiled",
         "the layers were profiled while the latencies were measured, which slows them down (--separateProfileRun"
         " measures them apart)"),
        (spread > _UNSTABLE, "trtexec-unstable",
         f"GPU compute time is unstable, its standard deviation {spread:.1f} % of the mean (lock the GPU's clocks, or"
         " --useSpinWait)"),
        (run.skipped, "trtexec-no-summary", f"{', '.join(run.skipped)} has no performance summary and was left out"),
    )  # fmt: skip
    return [(slug, message) for there, slug, message in notes if there]


def _between(sides: Sequence[Side]) -> list[Note]:
    """What the logs say that makes the sides differ in more than the engine."""
    notes = []
    logs = [[run.log for run in side.runs if run.log] for side in sides]
    one, other = (", ".join(sorted({log.device for log in of if log.device})) for of in logs)
    if one and other and one != other:
        notes.append(Note("trtexec-devices-differ", f"measured on {one} and on {other}"))
    before, after = (
        {name: ", ".join(sorted({log.options[name] for log in of if name in log.options})) for log in of for name in log.options}
        for of in logs
    )  # fmt: skip
    differ = [
        f"{name} {before[name]} -> {after[name]}"
        for name in before
        if name in after and before[name] != after[name]
    ]
    if differ:
        notes.append(Note("trtexec-options-differ", f"options differ: {'; '.join(differ)}"))
    return notes


# Figures of one run of trtexec, by its own rules, and whether its log says the same.


def percentile(ordered: Floats, percent: float) -> float:
    """Return a percentile of sorted values by trtexec's rule."""
    part = np.float32(1) - np.float32(percent) / np.float32(100)
    exclude = int(part * np.float32(len(ordered)))
    return float(ordered[max(len(ordered) - 1 - exclude, 0)])


def summarise(values: Floats, percents: tuple[float, ...] = PERCENTILES) -> dict[str, float]:
    """Return mean, min, max, median and percentiles of some values."""
    ordered = np.sort(values)
    found = {
        "mean": float(values.mean()), "min": float(ordered[0]), "max": float(ordered[-1]), "median": float(np.median(ordered)),
    }  # fmt: skip
    return found | {f"p{one:g}": percentile(ordered, one) for one in percents}


def figures_of(run: Run) -> RunFigures:
    """Return what a run's times and log say together.

    GPU compute time, latency and copies are taken from the times where they are given, enqueue time and throughput from the log:
    they are differences of time stamps, of which the file of times has six digits. Of times with warm-ups the log knows the others.
    """
    log, times = run.log, run.times
    if times is not None and times.with_warmups and log is not None:
        times = None
    iterations = times.values if times is not None else {}
    values = {metric: summarise(one) for metric, one in iterations.items()}
    source = dict.fromkeys(values, "times")
    differ = _differences(log, values) if log is not None else []
    if log is not None and not differ:
        stated = {name: figures for name, figures in log.figures.items() if "mean" in figures}
        if log.throughput:
            stated["throughput"] = {"mean": log.throughput}
        if log.build is not None:
            stated["build"] = {"mean": log.build}
        values = stated | values
        source = dict.fromkeys(stated, "log") | source
    if times is not None and "throughput" not in values and (rate := throughput(times)) is not None:
        values["throughput"], source["throughput"] = {"mean": rate}, "times"
    measured = len(times.start) if times is not None else log.queries if log is not None else None
    return RunFigures(values, source, iterations, measured, differ)


def throughput(times: Times) -> float | None:
    """Return iterations a second; None where the time stamps do not tell the wall time."""
    last = times.start == times.start[-1]
    wall = float(times.end[last].max() - times.start[0])
    return len(times.start) / wall * 1e9 if wall > 0 else None


def _differences(log: Log, values: dict[str, dict[str, float]]) -> list[str]:
    """Say which figures of the log are not those of the times, beyond what rounding explains."""
    found = []
    for metric, stated in log.figures.items():
        for key, value in stated.items():
            mine = values.get(metric, {}).get(key, value)
            if abs(mine - value) > (_SUMMED if key == "mean" else _DIGIT) * max(mine, value) + 1e-3:
                found.append(f"{NAMES[metric]}, {key}: {text.time(value)} in the log, {text.time(mine)} from the times")  # fmt: skip
    return found
