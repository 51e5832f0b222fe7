"""What one capture advises: each only where its evidence is in the capture, and with what it would gain.

| advice | where it is given |
| graphs | the GPU waits, most kernels are launched one by one, and the replay with CUDA graphs is surely shorter |
| fuse | small kernels that follow one another on a stream in one range; the replay with them as one, at the time of all, is shorter |
| long_kernel | a kernel that only moves data or does arithmetic by element takes as long as the GEMM with the most time |
| range_waits | a range whose thread spends a part of it worth telling on waits for the GIL |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from msgspec.structs import replace

from tracediff.accounting.reduction import EventGraph, Reduction
from tracediff.comparison.shown import FIRST, PARTS
from tracediff.comparison.what_if import phases
from tracediff.execution.sides import Side
from tracediff.kernels.names import category
from tracediff.model.causes import OWN, SURELY
from tracediff.model.host import RangeRow
from tracediff.model.kernels import LaunchSide
from tracediff.model.result import WhatIfPhase
from tracediff.model.show import Advice, ShowKernel
from tracediff.stats.rules import LITTLE, MOSTLY
from tracediff.whatif.graph import CAUSE, RUN
from tracediff.whatif.replay import Edit, Fuse, Graph, chained, following, project, runs

# whose time is that of their bytes
_LIGHT = frozenset(
    ("norm", "activation", "elementwise", "quantisation", "softmax", "rope", "reduction", "copy", "memset")
)


def advice(
    side: Side,
    kernels: Sequence[ShowKernel],
    ranges: Sequence[RangeRow],
    launch: LaunchSide,
    step_ns: float,
    idle_ns: float,
) -> list[Advice]:
    """What would make the step shorter, or says where to look: the largest gain first. `step_ns`, `idle_ns`: of the mean step."""
    found = [*_waits(ranges, step_ns), *_long(kernels)]
    if all(part.events is not None and len(part.events.period) for part in side.parts):
        found += [*_graphs(side.parts, launch, idle_ns / step_ns if step_ns else 0.0), *_fused(side.parts)]
    return sorted(found, key=_gain, reverse=True)


def _gain(one: Advice) -> float:
    """What it may take off a step, ns."""
    if one.before_ns is not None and one.after_ns is not None:
        return one.before_ns - one.after_ns
    return one.wait_ns or one.count_per_step * ((one.ns or 0.0) - (one.other_ns or 0.0))


def _replayed(parts: Sequence[Reduction], edit: Edit) -> WhatIfPhase:
    """The phase with the most time."""
    return phases(parts, [project(part, [edit]) for part in parts])[0]


def _graphs(parts: Sequence[Reduction], launch: LaunchSide, idle: float) -> Iterator[Advice]:
    if launch.graph_coverage > 1 - MOSTLY:
        return
    found = _replayed(parts, Graph())
    if found.high_ns < found.before_ns:
        alone = launch.kernels_per_step * (1 - launch.graph_coverage)
        yield _with(found, Advice(kind="graphs", count_per_step=alone, share=1 - idle))


def _with(found: WhatIfPhase, advice: Advice) -> Advice:
    """The advice with the step that was replayed."""
    return replace(
        advice, phase=found.phase, before_ns=found.before_ns, after_ns=found.after_ns, low_ns=found.low_ns, high_ns=found.high_ns
    )  # fmt: skip


def _fused(parts: Sequence[Reduction]) -> Iterator[Advice]:
    chains, place = Counter[tuple[str, ...]](), dict[tuple[str, ...], str]()
    for part in parts:
        assert part.events is not None
        for names, where in _small(part.events, part.keys["name"].to_list(), part.keys["kind"].to_list()):
            chains[names] += len(names) - 1
            place.setdefault(names, where)
    for names in _apart(chains):
        found = _replayed(parts, Fuse(names))
        if found.before_ns - found.after_ns >= SURELY * found.before_ns:
            count, ns = _per_step(parts, names, found.phase)
            fused = Advice(kind="fuse", kernels=list(names), range=place[names], count_per_step=count, ns=ns)
            yield _with(found, fused)


def _apart(chains: Counter[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Those that save most launches; none is a part of another, whose launches would be saved twice."""
    found: list[tuple[str, ...]] = []
    for names, _ in chains.most_common():
        if len(found) < FIRST and not any(_holds(*sorted((names, one), key=len)) for one in found):
            found.append(names)
    return found


def _holds(short: tuple[str, ...], long: tuple[str, ...]) -> bool:
    size = len(short)
    return any(long[at : at + size] == short for at in range(len(long) - size + 1))


def _per_step(parts: Sequence[Reduction], names: Sequence[str], phase: str) -> tuple[float, float]:
    """How often the replay makes the chain one in a step of the phase, also as a part of a longer one; the time of all these, ns."""
    steps, times = 0, list[int]()
    for part in parts:
        graph = part.events
        assert graph is not None
        run, of = runs(graph), (part.periods["phase"] == phase).to_numpy()[graph.period]
        inside = np.append(of, False)[graph.step]
        found = [one for one in chained(graph, part.keys["name"].to_list(), names) if inside[one[0]]]
        times += [int(graph.lag[run[one]].sum()) for one in found]
        steps += int(of.sum())
    return len(times) / steps, sum(times) / steps


def _small(
    graph: EventGraph, names: Sequence[str], kinds: Sequence[int]
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Chains of small kernels of one stream and range: names, the range."""
    edges, run = np.flatnonzero(graph.kind == RUN), runs(graph)
    light = np.array(
        [kind == 0 and category(name) in _LIGHT for name, kind in zip(names, kinds, strict=True)]
    )
    small = np.zeros(len(graph.key) + 1, np.bool_)
    small[graph.op[edges]] = (
        light[graph.key[graph.op[edges]]] & (graph.cause[edges] == CAUSE["compute"])
    )  # fmt: skip
    small[:-1] &= graph.step >= 0
    begins = np.isin(graph.source[run], graph.start)  # a step
    after = following(graph)
    inner = np.zeros(len(graph.key) + 1, np.bool_)  # what follows another of its chain
    linked = np.full(len(graph.key) + 1, -1)
    for op in np.flatnonzero(small).tolist():
        then = int(after[op])
        if (
            then >= 0
            and small[then]
            and not begins[then]
            and _place(graph, run[op]) == _place(graph, run[then])
        ):
            linked[op], inner[then] = then, True
    for op in np.flatnonzero(small & ~inner).tolist():
        chain = [op]
        while linked[chain[-1]] >= 0 and len(chain) < PARTS:
            chain.append(int(linked[chain[-1]]))
        if len(chain) > 1:
            yield tuple(names[graph.key[one]] for one in chain), _place(graph, run[op])


def _place(graph: EventGraph, edge: int) -> str:
    return str(graph.words[graph.word[edge]][0])


def _long(kernels: Sequence[ShowKernel]) -> Iterator[Advice]:
    gemm = next((row.baseline for row in kernels if row.category == "gemm" and row.baseline), None)
    for row in kernels:
        mine = row.baseline
        light = row.category in _LIGHT and row.accounting == "compute" and row.share >= SURELY
        if light and gemm and mine and mine.mean_ns >= gemm.mean_ns:
            yield Advice(
                kind="long_kernel", kernels=[mine.names[0], gemm.names[0]], category=row.category, share=row.share,
                count_per_step=mine.count_per_step, ns=mine.mean_ns, other_ns=gemm.mean_ns,
            )  # fmt: skip
            return


def _waits(ranges: Sequence[RangeRow], step_ns: float) -> Iterator[Advice]:
    """The innermost of the ranges that hold most of the waits."""
    known = [(row, row.baseline, row.baseline.gil_wait_ns or 0.0) for row in ranges if row.baseline]
    long = [one for one in known if one[2] >= max(OWN * step_ns, LITTLE * one[1].ns_per_step) and one[2] > 0]
    for row, side, waits in sorted(long, key=lambda one: (-one[2], one[1].ns_per_step))[:1]:
        yield Advice(
            kind="range_waits", range=row.range, thread=row.thread, count_per_step=side.count_per_step,
            ns=side.ns_per_step, wait_ns=waits, calls_ns=side.calls_ns,
        )  # fmt: skip
