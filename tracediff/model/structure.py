"""What differs between the sides by count: no clock is involved."""

from __future__ import annotations

from typing import Literal

import msgspec

StructureKind = Literal[
    "workload", "graph_kernels", "graph_launches", "early", "blocking", "kernels", "ahead", "synchronisations", "copies",
    "messages", "code_loads", "collections", "graph_instantiations", "allocations", "memory", "dtype", "algorithm",
    "kernel", "grid", "registers", "ranges", "streams", "ranks", "gpus", "calls"
]  # fmt: skip


class StructureRow(msgspec.Struct, frozen=True, kw_only=True):
    """A count that nearly all steps of a side hold, and another one on each: the program differs, or its configuration.

    kind, and what `baseline` and `candidate` count per step, the few steps that hold another value among them:
    workload              thread blocks of kernels that both sides launch in blocks of one size and in other grids, where less than half of
                          the launches have a grid of the other side: the work per step may differ, and rows after it may follow from that
    graph_kernels         kernels that CUDA graphs launch, of `baseline_of` and `candidate_of` kernels in all
    graph_launches        launches of CUDA graphs
    early                 kernels that begin before the op before them on their stream ends (programmatic dependent launch), of `baseline_of` and
                          `candidate_of` kernels in all
    blocking              kernels that end before the call that launches them returns, of the same: every launch waits, as with
                          CUDA_LAUNCH_BLOCKING=1
    kernels               kernels in all; with `range` those launched in it, innermost ('' all, or outside any; see `whole`)
    ahead                 calls that wait for the GPU, after which it still has work that was launched before them: the host runs
                          ahead; where those of the other side wait for all of it
    synchronisations      calls of `name`, which waits for the GPU
    copies                copies and memsets of `name` from or to host memory of the kind `memory`, with their bytes; the counts may agree.
                          Where the kind is another one on each side, `baseline_values` and `candidate_values` have it
    messages              calls of `name`, a function of NCCL, in the group `group` ('' all that have no name), as many on both sides, with the
                          bytes of all their messages
    code_loads            calls of `name`, which loads code
    collections           garbage collections
    graph_instantiations  calls of `name`, which makes or changes a CUDA graph
    allocations           calls of `name`, which allocates or frees memory
    memory                bytes: the most memory of the kind `name` that a process had on a device at once, within any step of any phase
    dtype                 kernels of the category `name`, or called so where they have none, in the data type of `baseline_values` that
                          went, and in that of `candidate_values` that came
    algorithm             launches of the collective `name` of NCCL, of `baseline_of` and `candidate_of` of it, by the algorithm of
                          `baseline_values` that went, and by that of `candidate_values` that came: RING TREE NVLS ..., with the protocol
                          where the kernel's name tells it; RING stands for all but trees from NCCL 2.19 on
    kernel                launches of the kernel `name`; 0: the side has none
    grid                  launches of the kernel `name`, as many on both sides, with the grids and blocks that the sides have instead of each
                          other in `baseline_values` and `candidate_values`
    registers             launches of the kernel `name` with the registers per thread of `baseline_values`, which went, and with those of
                          `candidate_values`, which came
    ranges                NVTX ranges `name` entered
    streams               streams with work
    ranks                 ranks of the program
    gpus                  GPUs that as many ranks use in steps
    calls                 calls of `name`, any other CUDA function

    per: step, or capture where each capture is one step, or round of the work that both repeat. certain: ten steps a side or more hold it. thread: the only role that does it, ''
    where several do. whole: of `kernels`, all kernels are launched in `range`. rate: the counts are means, and steps with any of it
    are more on one side (`baseline_any` and `candidate_any` of the steps, `p_value` of Fisher's exact test). varies: the counts are means
    of steps that differ, as with their load, and `baseline_values` and `candidate_values` have the least and the most, but for some
    steps at either end: those of the sides do not meet. every: the counts are of steps at that distance, as many as `baseline_any` and
    `candidate_any`; all others of both sides have as many as each other. workloads: the count holds
    in each of so many workloads by the labels, and is shown for that with the most steps; 1: all steps are of one.
    """

    kind: StructureKind
    phase: str
    name: str = ""
    range: str = ""
    thread: str = ""
    memory: str = ""
    group: str = ""
    rank: int | None = None  # the only one that differs, of several
    device: int | None = None  # the same of the devices of a rank
    baseline: float
    candidate: float
    baseline_of: float | None = None
    candidate_of: float | None = None
    baseline_bytes: float | None = None  # per step
    candidate_bytes: float | None = None
    baseline_values: list[str] = []
    candidate_values: list[str] = []
    per: Literal["step", "capture", "round"] = "step"
    certain: bool
    whole: bool = False
    rate: bool = False
    varies: bool = False
    every: int | None = None
    baseline_steps: int
    candidate_steps: int
    baseline_any: int  # steps with any of it
    candidate_any: int
    p_value: float | None = None
    workloads: int = 1
