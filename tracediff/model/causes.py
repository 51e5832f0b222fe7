"""Causes of the time of a step: one row each, from which the rest of the program takes what it knows of a cause.

A new category of idle time is a row here, its words and colours in report/causes.py, its SQL and its walk in accounting/, a column of
query/sql/period.sql, the oracle, a capture that shows it and a line in docs/method.md: CONTRIBUTING.md lists the files.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias


@dataclass(frozen=True)
class Noise:
    """Half-width of run-to-run noise where it is not measured: relative * larger side + plus_ns, at least at_least_ns.

    `together`: the host slows all such categories down at once, so their noise adds up.
    """

    relative: float = 0.0
    plus_ns: float = 0.0
    at_least_ns: float = 0.0
    together: bool = False


# Measured on one machine (H200, nsys 2023.4) with repeats of two programs, CUDA-graph and eager decoding.
# Host time: up to a ratio of 1.6 between two runs is noise. The same program's launch_api was 121 and 183 us
# per step (1.50), its host_work 56 and 81 us (1.45), the eager step 2.07 to 3.38 ms unprofiled (1.63) and 3.4
# to 5.1 ms profiled (1.50). A few us of a small kind come and go at any ratio: so 10 us are added.
_HOST = Noise(relative=1 - 1 / 1.6, plus_ns=10_000, together=True)
# GPU time: compute 719.5, 719.7, 719.9, 720.0 us per step in four runs (0.1 %) and 717.4, 716.7 eager; at most
# 1 % elsewhere. memcpy 3.0 to 3.1 us; graph_internal 68.4 to 68.6 us. Twice the worst of them.
_GPU = Noise(relative=0.02, at_least_ns=1_000)
# Waits for a peer or another stream last as long as host noise on the other side of the wait. dependency was 7.4
# and 7.6 us where nothing shook it; no repeats of a multi-GPU program were measured: a guess on the wide side.
_WAIT = Noise(relative=0.3, at_least_ns=1_000)
# A collection is an event, not a rate: none in the quiet captures, 12.8 ms per step in the noisy one. One short
# collection falls into the window of a run or not: 0.6 ms (assumed, not measured) over 30 steps.
_GC = Noise(plus_ns=20_000)

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
    follows: the changes that it can follow from. check_faster: worth a look where it got faster as well.
    """

    key: str
    kind: Literal["busy", "idle", "kernel", "mix"]
    query: Query
    pattern: str = ""
    needs: str = ""
    noise: Noise = _GPU
    calls: bool = False
    follows: tuple[Origin, ...] = ()
    check_faster: bool = False


CAUSES: dict[str, Row] = {
    row.key: row
    for row in (
        Row("compute", "busy", "kernels", needs="kernels"),
        Row("comm", "busy", "kernels", needs="kernels", noise=_WAIT),
        Row("memcpy", "busy", "kernels", needs="kernels"),
        Row("launch_latency", "idle", "calls", "cu%Launch%", "kernels", _HOST, follows=("kernels", "syncs", "graphs")),
        Row("dependency", "idle", "calls", "cu%Launch%", "kernels", _WAIT, follows=("syncs", "graphs")),
        Row("graph_internal", "idle", "calls", "cu%Launch%", "kernels", _GPU, follows=("kernels", "syncs", "graphs")),
        Row("launch_api", "idle", "calls", "cu%Launch%", "cuda_api", _HOST, True, ("kernels", "syncs", "graphs")),
        Row("host_sync", "idle", "calls", "cu%Synchronize%", "cuda_api", _HOST, True),
        Row("host_api", "idle", "calls", "cu%", "cuda_api", _HOST, True, ("kernels", "graphs")),
        Row("gc", "idle", "ranges", "Python GC%", "gc", _GC),
        Row("gil_wait", "idle", "holder", needs="gil", noise=_HOST, follows=("graphs",)),
        Row("host_work", "idle", "place", noise=_HOST, follows=("kernels", "syncs", "graphs")),
        Row("unattributed", "idle", "place", needs="kernels", noise=_HOST),
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
