"""Causes of the time of a step: one row each, from which the rest of the program takes what it knows of a cause.

A new category of idle time is a row here, its words and colours in report/causes.py, its SQL and its walk in accounting/, a column of
query/sql/period.sql, the oracle, a capture that shows it and a line in docs/method.md: CONTRIBUTING.md lists the files.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias


@dataclass(frozen=True)
class Scatter:
    """How far runs of one program are apart: standard deviation relative * time + plus_ns.

    slope: what of the category's time moves with the speed of the host, as seen in its CUDA calls; None: nothing, it is GPU time.
    lone: times the deviation with one run a side, whose own scatter nobody sees.
    """

    relative: float
    plus_ns: float
    slope: float | None
    lone: float = 1.5


# Measured on an H200 with nsys 2023.4: repeats of a serving loop, of continuous batching and of steady decoding, each run with its
# own requests. They count for four runs (stats/estimator.py), so what a capture's own runs say soon outweighs them.
_GPU = Scatter(0.004, 50, None)
_HOST = Scatter(0.1, 1_000, 0.9, lone=1.0)
_WAIT = Scatter(0.2, 1_000, 0.0)
_GRAPH = Scatter(0.2, 1_000, None)  # between nodes of a graph: it differs from process to process
_PEER = Scatter(0.2, 1_000, None)  # a collective waits for another rank
STEP = Scatter(0.025, 500, None)  # the whole step; its slope is the sum of those of its parts

# What a query for evidence looks for: kernels by name, CUDA calls or NVTX ranges whose name is LIKE a pattern, the ranges
# of the finding's place or of the GIL's holder, step labels.
Query = Literal["kernels", "calls", "ranges", "place", "holder", "labels"]
# A change of the program from which a change of idle time follows: more or fewer kernels, synchronising calls, CUDA graphs.
Origin = Literal["kernels", "syncs", "graphs"]


@dataclass(frozen=True)
class Row:
    """What a cause is.

    kind: `busy` and `idle` are the categories of the accounting, which sum to the period of a step, in this order in every
    report; `kernel` and `mix` are causes of findings only. needs: the kind of trace without which the category is absent
    (gil, gc: always; kernels, cuda_api: where the host alone is measured). calls: a CUDA function is part of the place.
    follows: the changes that it can follow from. check_faster: worth a look where it got faster as well. short: its name where
    a measure is given (comparison/measures.py).
    """

    key: str
    kind: Literal["busy", "idle", "kernel", "mix"]
    query: Query
    pattern: str = ""
    needs: str = ""
    scatter: Scatter = _GPU
    calls: bool = False
    follows: tuple[Origin, ...] = ()
    check_faster: bool = False
    short: str = ""


CAUSES: dict[str, Row] = {
    row.key: row
    for row in (
        Row("compute", "busy", "kernels", needs="kernels"),
        Row("comm", "busy", "kernels", needs="kernels", scatter=_PEER),
        Row("memcpy", "busy", "kernels", needs="kernels", short="copy"),
        Row("launch_latency", "idle", "calls", "cu%Launch%", "kernels", _WAIT, follows=("kernels", "syncs", "graphs")),
        Row("dependency", "idle", "calls", "cu%Launch%", "kernels", _WAIT, follows=("syncs", "graphs")),
        Row("graph_internal", "idle", "calls", "cu%Launch%", "kernels", _GRAPH, follows=("kernels", "syncs", "graphs")),
        Row("launch_api", "idle", "calls", "cu%Launch%", "cuda_api", _HOST, True, ("kernels", "syncs", "graphs"), short="launch"),
        Row("host_sync", "idle", "calls", "cu%Synchronize%", "cuda_api", _WAIT, True, short="sync"),
        Row("host_api", "idle", "calls", "cu%", "cuda_api", _HOST, True, ("kernels", "graphs"), short="api"),
        Row("gc", "idle", "ranges", "Python GC%", "gc", _WAIT),
        Row("gil_wait", "idle", "holder", needs="gil", scatter=_WAIT, follows=("graphs",), short="gil"),
        Row("host_work", "idle", "place", scatter=_HOST, follows=("kernels", "syncs", "graphs"), short="host"),
        Row("unattributed", "idle", "place", needs="kernels", scatter=_WAIT),
        Row("kernel_time", "kernel", "kernels"),
        Row("kernel_fused", "kernel", "kernels", check_faster=True),
        Row("kernel_split", "kernel", "kernels"),
        Row("kernel_added", "kernel", "kernels"),
        Row("kernel_removed", "kernel", "kernels", check_faster=True),
        Row("batch_mix", "mix", "labels", check_faster=True),
    )
}  # fmt: skip
BUSY = tuple(row.key for row in CAUSES.values() if row.kind == "busy")
IDLE = tuple(row.key for row in CAUSES.values() if row.kind == "idle")
CATEGORIES = BUSY + IDLE
if TYPE_CHECKING:
    Cause: TypeAlias = str
else:  # what a finding's cause may be: kernels' time is told apart further than compute
    Cause = Literal[tuple(key for key in CAUSES if key != "compute")]
