"""`python -m benchmarks.layers RECORDINGS PAIRS` or `--recorded DIR`: layers found inside CUDA graphs, held against the structure of programs that are known.

RECORDINGS and PAIRS have no modules labelled, so the labels are written into copies: into the eager capture of a program (to align its graphs with), or
around the making of a graph's nodes. Where a layer begins is known from its norms. The truth of a graph is read from its own kernels in the same way.
DIR is what benchmarks/record_layers.py recorded, with labels: what the making of a graph says is held against its alignment with the eager run.
"""

from __future__ import annotations

import argparse
import lzma
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path

import polars as pl

from tracediff.accounting.reduction import Reduction
from tracediff.errors import TracediffError
from tracediff.execution.run import reduce_file
from tracediff.execution.sides import Reading
from tracediff.kernels.matching import role
from tracediff.trace.layers import LayerSequence


@dataclass(frozen=True)
class Program:
    """What a pass through a model launches: `layers` with two norms each, and one before the head where `last_norm`.

    norm: a kernel of each norm; first: how many kernels of the norm come before it, by the kernel.
    """

    norm: str
    layers: int
    last_norm: bool = True
    first: tuple[tuple[str, int], ...] = ()


_TORCH_NORM = "pow_tensor_scalar"
EMULATOR = Program("vectorized_layer_norm", 8, last_norm=False)
ENGINE = Program("vectorized_layer_norm", 8)
QWEN = Program(rf"{_TORCH_NORM}|triton_(?:red|per)_fused.*rsqrt", 10, first=((_TORCH_NORM, 1),))
QWEN6 = replace(QWEN, layers=6)
LLAMA = Program(rf"{_TORCH_NORM}|triton_(?:red|per)_fused.*rsqrt", 8, first=((_TORCH_NORM, 1),))
LLAMA6 = replace(LLAMA, layers=6)


def truth(names: Sequence[str], program: Program) -> list[tuple[int, str]]:
    """Of each launch in order: which pass through the model, and its layer; '' before and behind the layers."""
    many = 2 * program.layers + program.last_norm
    starts = [
        at - next((before for text, before in program.first if text in name), 0)
        for at, name in enumerate(names)
        if re.search(program.norm, name)
    ]
    found = [(-1, "")] * len(names)
    for number, low in enumerate(range(0, len(starts) - many + 1, many)):
        norms = starts[low : low + many]
        ends = [*norms[1:], _behind(names, norms[-1], program)]
        for at, (start, end) in enumerate(zip(norms, ends, strict=True)):
            head = at == 2 * program.layers
            layer = "norm" if head else f"layers.{at // 2}.{('self_attn', 'mlp')[at % 2]}"
            found[start:end] = [(number, layer)] * (end - start)
    return found


def _behind(names: Sequence[str], norm: int, program: Program) -> int:
    """The end of what begins with the last norm: with the addition to the residual, or the GEMM of the head."""
    last = "gemm" if program.last_norm else "CUDAFunctor_add"
    return next((at + 1 for at in range(norm, len(names)) if last in role(names[at])), len(names))


# Labels written into a copy.

_LAUNCHED = """
    SELECT s.value, r.globalTid, min(r.start) AS called, max(r.end)
    FROM CUPTI_ACTIVITY_KIND_KERNEL AS k JOIN StringIds AS s ON s.id = k.demangledName
    JOIN CUPTI_ACTIVITY_KIND_RUNTIME AS r ON r.correlationId = k.correlationId AND r.globalTid >> 24 = k.globalPid >> 24
    WHERE k.graphNodeId IS NULL GROUP BY k.rowid ORDER BY called
"""
_MADE = """
    WITH node AS (
        SELECT graphNodeId AS id, globalPid, min(demangledName) AS name FROM CUPTI_ACTIVITY_KIND_KERNEL
        WHERE graphNodeId IS NOT NULL GROUP BY 1, 2
    )
    SELECT s.value, made.globalTid, made.start, made.start + 1, node.id >> 32
    FROM node JOIN StringIds AS s ON s.id = node.name
    JOIN CUDA_GRAPH_EVENTS AS copy ON copy.graphNodeId = node.id AND copy.originalGraphNodeId IS NOT NULL
    JOIN CUDA_GRAPH_EVENTS AS made ON made.graphNodeId = copy.originalGraphNodeId AND made.originalGraphNodeId IS NULL
    ORDER BY 5, made.start
"""


def labelled(source: Path, target: Path, program: Program, *, graphs: bool) -> Path:
    """A copy of an export with a range around each layer: where its kernels were launched, or where the nodes of graphs were made."""
    with (
        (lzma.open if source.suffix == ".xz" else Path.open)(source, "rb") as read,
        target.open("wb") as written,
    ):
        shutil.copyfileobj(read, written)
    db = sqlite3.connect(target)
    rows = db.execute(_MADE if graphs else _LAUNCHED).fetchall()
    for group in _grouped(rows, graphs=graphs):
        of = truth([row[0] for row in group], program)
        for (_, layer), part in groupby(zip(of, group, strict=True), key=lambda one: one[0]):
            mine = [row for _, row in part]
            if layer:
                db.execute(
                    "INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid, domainId) VALUES (?, ?, 59, ?, ?, 0)",
                    (mine[0][2], mine[-1][3], layer, mine[0][1]),
                )
    db.commit()
    db.close()
    return target


def _grouped(rows: Sequence[tuple[object, ...]], *, graphs: bool) -> Iterator[list[tuple[object, ...]]]:
    for _, group in groupby(rows, key=(lambda row: row[4]) if graphs else (lambda row: row[1])):
        yield list(group)


# What was found.


@dataclass(frozen=True)
class Score:
    """Shares of the time of graphs with a layer; of the time of layers that are right, and right up to their number; confidence of the alignment."""

    attributed: float
    right: float
    right_kind: float
    confidence: float


def score(found: Reduction, program: Program) -> Score:
    """Hold what was found against the kernels' own structure."""
    graph = found.layer_sources.filter(pl.col("graph"))
    known = graph.filter(pl.col("source") != "")
    time = max(int(graph["ns"].sum()), 1)
    total = right = kind = 0
    for one in found.layer_sequences:
        for (_, layer), mine, ns in zip(truth(one.names, program), one.layers, one.ns, strict=True):
            if mine:
                total += one.steps * ns
                right += one.steps * ns * (mine == layer)
                kind += one.steps * ns * (_kind(mine) == _kind(layer))
    return Score(
        int(known["ns"].sum()) / time, right / max(total, 1), kind / max(total, 1), float(graph["trusted_ns"].sum()) / time
    )  # fmt: skip


def _kind(layer: str) -> str:
    return re.sub(r"\d+", "*", layer)


def _cases(recordings: Path, pairs: Path) -> Iterator[tuple[str, Path, Program, Path, Program, bool]]:
    """Name, the labelled capture and its program, the capture without labels and its program, whether they are one program."""

    def fixture(name: str) -> Path:
        return pairs / f"{name}.sqlite.xz"

    def recording(name: str) -> Path:
        return recordings / f"{name}.sqlite"

    eager = {
        "emulator": (fixture("eager_1"), EMULATOR), "engine": (recording("engine_eager"), ENGINE),
        "compiled": (recording("gen_static_default"), LLAMA), "llama": (recording("gen_llama_flash"), LLAMA),
        "6 layers": (recording("gen_static_eager"), LLAMA6), "qwen, 6 layers": (recording("cb_qwen2_eager"), QWEN6),
    }  # fmt: skip
    graphs = {
        "emulator": [(fixture(name), EMULATOR) for name in ("base_1", "base_2", "piece_1", "fused_1", "split_1", "rsilu_1", "ratt_1", "slow_1")],
        "engine": [(recording(name), ENGINE) for name in ("engine_all", "engine_one", "engine_async_one", "engine_flash_all")],
        "compiled": [(recording("gen_static"), LLAMA)], "llama": [(recording("gen_static_flash"), LLAMA)],
        "qwen": [(recording("cb_qwen2"), QWEN)],
    }  # fmt: skip
    for key, (labels, program) in eager.items():
        for other, captures in graphs.items():
            for capture, theirs in captures if key == other else captures[:1]:
                yield (
                    f"{capture.name.split('.')[0]} by {labels.name.split('.')[0]}",
                    labels,
                    program,
                    capture,
                    theirs,
                    key == other,
                )


def main(arguments: Iterable[str] | None = None) -> None:
    """Print a row a pair of captures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("recordings", type=Path, nargs="?")
    parser.add_argument("pairs", type=Path, nargs="?")
    parser.add_argument("--recorded", type=Path)
    options = parser.parse_args(None if arguments is None else list(arguments))
    if options.recorded:
        _recorded(options.recorded)
    if not options.pairs:
        return
    print("capture | same program | graph time with a layer | right | right kind | confidence")
    with tempfile.TemporaryDirectory() as folder:
        known: dict[Path, Reading] = {}
        for name, labels, program, capture, theirs, same in _cases(options.recordings, options.pairs):
            if labels not in known:
                copy = labelled(labels, Path(folder) / "labelled.sqlite", program, graphs=False)
                lent = reduce_file(copy, Reading(collect_layers=True)).layer_sequences
                known[labels] = Reading(labelled=tuple(lent), collect_layers=True)
            _print(name, same, capture, theirs, known[labels])
        for name, program in (("engine_all", ENGINE), ("cb_qwen2", QWEN), ("gen_static", LLAMA)):
            copy = labelled(
                options.recordings / f"{name}.sqlite", Path(folder) / "made.sqlite", program, graphs=True
            )
            _print(f"{name} by its own graphs", True, copy, program, Reading(collect_layers=True))


def _recorded(folder: Path) -> None:
    """Time per layer and step: of the eager run, by the making of the graph, and aligned with either."""
    for program in ("emulator", "hooks"):
        read = partial(_read, folder / program)
        eager, creation = read("eager"), read("creation")
        found = {
            "eager": eager, "creation": creation, "creation by eager": read("creation", *eager.layer_sequences),
            "graph by eager": read("graph", *eager.layer_sequences), "graph by creation": read("graph", *creation.layer_sequences),
        }  # fmt: skip
        truth_ns = _per_step(creation)
        for name, one in found.items():
            graph = one.layer_sources
            known = int(graph.filter(pl.col("source") != "")["ns"].sum()) / max(int(graph["ns"].sum()), 1)
            mine = _per_step(one)
            moved = sum(abs(mine.get(layer, 0.0) - ns) for layer, ns in truth_ns.items()) / 2
            trust = float(graph["trusted_ns"].sum()) / max(int(graph["ns"].sum()), 1)
            print(
                f"{program}: {name} | known {known:.3f} | in other layers than by creation {moved / sum(truth_ns.values()):.3f} | {trust:.3f}"
            )
            print(one.layer_sources)


def _read(program: Path, name: str, *labelled: LayerSequence) -> Reduction:
    export = program.with_name(f"{program.name}_{name}.sqlite.xz")
    return reduce_file(export, Reading(labelled=labelled, collect_layers=True))


def _per_step(one: Reduction) -> dict[str, float]:
    """Layer -> ns per step of the step that most steps are."""
    most = max(one.layer_sequences, key=lambda sequence: sequence.steps)
    sums: dict[str, float] = {}
    for layer, ns in zip(most.layers, most.ns, strict=True):
        sums[layer] = sums.get(layer, 0.0) + ns
    return sums


def _print(name: str, same: bool, capture: Path, program: Program, reading: Reading) -> None:
    try:
        found = score(reduce_file(capture, reading), program)
    except TracediffError as error:
        print(f"{name} | {same} | {error}", flush=True)
        return
    figures = (found.attributed, found.right, found.right_kind, found.confidence)
    print(f"{name} | {same} | {' | '.join(f'{one:.3f}' for one in figures)}", flush=True)


if __name__ == "__main__":
    main()
