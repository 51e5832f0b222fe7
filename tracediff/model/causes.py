"""Causes of the time of a step: one row each, from which the rest of the program takes what it knows of a cause.

A new category of idle time is a row here, its words and colours in report/causes.py, its walk in accounting/walk.py, a column of
query/sql/period.sql, the oracle, a capture that shows it and a line in docs/method.md: CONTRIBUTING.md lists the files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

# How far runs of one program are apart: standard deviation of the log of a category's time. Measured on 350 null pairs of single runs of
# seven programs (H100, H200, nsys 2023.4), Student's t with five degrees of freedom: kernels 0.2 %, copies 0.4, gaps in graphs 0.3; host
# work 4.4 to 6.8 %, launch calls 3.8, synchronisations 5.0, other calls 5.0; waits for the GIL 39 %, dependencies 13, launch latency 6 to 38.
GPU, HOST, WAIT = 0.004, 0.05, 0.3
CAPTURE = 0.02  # GPU time of captures that are one step each: so far apart are launches of one kernel in runs of one program
# Of a step, or of a launch. As the end of an interval nearer to 0 it is sure: smaller false ones were in 26 of 193 null pairs. A change of
# less is none, and not worth a word.
SURELY = 0.01
# Of a kernel's own time: a smaller change of it is not told. In 24 null pairs, one row of 1,490 changed surely by more.
OWN = 0.05
# Nor one of this per launch: kernels of 1 to 3 us took 0.07 to 0.5 us more in one of two runs, in 9 of 77 null pairs.
OWN_NS = 350
STEP = 0.025  # of the step: replicas of one program on like machines, three and four runs a side
# From the end of a launch to its work, on a GPU that the process left idle. Of processes alone on a GPU at most 12 us in 33 captures, beside
# another process 0.5 to 3 ms: slices of time.
ALONE_NS = 100_000
# Between two nodes of a CUDA graph: 0.45 us, and in 5 of 24 runs of seven programs 0.1 (H200, nsys 2023.4); which, no program chose.
NODE_NS = 450

# A change of the program from which a change of idle time follows: more or fewer kernels, synchronising calls, CUDA graphs.
Origin = Literal["kernels", "syncs", "graphs"]


class Row(msgspec.Struct, frozen=True):
    """What a cause is.

    kind: `busy` and `idle` are the categories of the accounting, which sum to the period of a step, in this order in every
    report; `kernel` and `mix` are causes of findings only. needs: the kind of trace without which the category is absent
    (gil, gc: always; kernels, cuda_api: where the host alone is measured). calls: a CUDA function is part of the place.
    follows: the changes that it can follow from. check_faster: worth a look where it got faster as well. short: its name where
    a measure is given (comparison/measures.py).
    """

    key: str
    kind: Literal["busy", "idle", "kernel", "mix"]
    needs: str = ""
    scatter: float = GPU
    host: bool = False  # it moves with the speed of the host
    calls: bool = False
    follows: tuple[Origin, ...] = ()
    check_faster: bool = False
    short: str = ""


CAUSES: dict[str, Row] = {
    row.key: row
    for row in (
        Row("compute", "busy", needs="kernels"),
        Row("comm", "busy", needs="kernels", scatter=WAIT),
        Row("memcpy", "busy", needs="kernels", short="copy"),
        Row("launch_latency", "idle", "kernels", WAIT, follows=("kernels", "syncs", "graphs")),
        Row("dependency", "idle", "kernels", WAIT, follows=("syncs", "graphs")),
        Row("graph_internal", "idle", "kernels", GPU, follows=("kernels", "syncs", "graphs")),
        Row("launch_api", "idle", "cuda_api", HOST, True, True, ("kernels", "syncs", "graphs"), short="launch"),
        Row("host_sync", "idle", "cuda_api", HOST, False, True, short="sync"),
        Row("host_api", "idle", "cuda_api", HOST, True, True, ("kernels", "graphs"), short="api"),
        Row("gc", "idle", "gc", WAIT),
        Row("gil_wait", "idle", needs="gil", scatter=WAIT, follows=("graphs",), short="gil"),
        Row("host_work", "idle", scatter=HOST, host=True, follows=("kernels", "syncs", "graphs"), short="host"),
        Row("unattributed", "idle", needs="kernels", scatter=WAIT),
        Row("kernel_time", "kernel"),
        Row("kernel_fused", "kernel", check_faster=True),
        Row("kernel_split", "kernel"),
        Row("kernel_added", "kernel"),
        Row("kernel_removed", "kernel", check_faster=True),
        Row("batch_mix", "mix", check_faster=True),
    )
}  # fmt: skip
BUSY = tuple(row.key for row in CAUSES.values() if row.kind == "busy")
IDLE = tuple(row.key for row in CAUSES.values() if row.kind == "idle")
CATEGORIES = BUSY + IDLE
if TYPE_CHECKING:
    Cause: TypeAlias = str
else:  # what a finding's cause may be: kernels' time is told apart further than compute
    Cause = Literal[tuple(key for key in CAUSES if key != "compute")]
