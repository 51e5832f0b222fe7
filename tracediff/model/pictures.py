"""What the pictures of a report are drawn from: small tables, whatever the captures hold."""

from __future__ import annotations

from typing import Literal

import msgspec

from tracediff.model.common import ABSENT, Evidence


class CauseNode(msgspec.Struct, frozen=True, omit_defaults=True):
    """A part of a step, ns per step; what it is made of names it as `parent`, and adds up to it in every column.

    kind: step (the mean one) or typical, of the phase `key` or of all,
    state (key: busy or idle), category (key), kernels (of one kind, key: gemm, norm, ...), kernel (of `rows` shapes), place (thread and range), holder
    (of the GIL, on `thread` in `range`), rest: the smallest parts of a node, `rows` of them. copies: launch calls that copy. level:
    of a sum the best of the parts that changed as it did. finding: the rank of the one that it is of, 0 none.
    """

    parent: int  # index of the node that it is a part of; -1: the step
    kind: Literal["step", "typical", "state", "category", "kernels", "kernel", "place", "holder", "rest"]
    baseline_ns: float
    candidate_ns: float = ABSENT
    delta_ns: float = ABSENT
    level: Evidence = ABSENT
    key: str = ""
    thread: str = ""
    range: str = ""
    baseline_kernel: str = ""
    candidate_kernel: str = ""
    baseline_grid: str = ""  # of that kernel
    candidate_grid: str = ""
    copies: bool = False
    rows: int = 0
    finding: int = 0


class StripColumn(msgspec.Struct, frozen=True):
    """Neighbouring steps of one run, by the longest of them. `parts`: its ns by `StepStrip.categories`; they add up to `ns`."""

    run: int  # index into the runs of the side's input
    start_ns: int  # trace time: from the first step of the column
    end_ns: int  # to the end of its last
    steps: int
    number: int | None  # of the longest step, like the next three
    phase: str
    ns: int
    parts: list[int]
    median_ns: int  # of all its steps, of two the lower
    timeline: int | None = None  # index into Timelines.steps of one that shows a step of the column


class StepStrip(msgspec.Struct, frozen=True):
    """Every whole step of one device of one rank, in order of runs and time; at most 400 columns a side.

    A column holds as many steps on both sides; only the last of a run may hold fewer.
    """

    rank: int
    device: int
    ranks_left_out: int
    categories: list[str]
    baseline: list[StripColumn]
    candidate: list[StripColumn] = ABSENT


class DivergencePoint(msgspec.Struct, frozen=True):
    """By how much the candidate lags behind the baseline (ns, negative: it leads) where an op of both begins."""

    op: int  # its number among the ops of both; the end of the step comes after the last
    delta_ns: int


class DivergenceCause(msgspec.Struct, frozen=True):
    """What of the difference of two steps comes of one cause: idle time at a place, or GPU time of a kernel.

    delta_ns: in all places between two ops of both, of which there are `places`; jump_delta_ns: the largest of them in
    that direction, before `op`.
    """

    cause: str  # a category
    kernel: int  # index into Result.kernels, -1: none
    place: str  # of idle time
    delta_ns: int
    places: int
    op: int
    jump_delta_ns: int


class DivergentStep(msgspec.Struct, frozen=True):
    """One of the two steps."""

    run: str
    number: int | None
    start_ns: int  # trace time
    period_ns: int
    ops: int


class Divergence(msgspec.Struct, frozen=True):
    """Where the typical or the longest steps of both sides diverge, along the ops that both have in the same order (`matched` of them).

    The causes and `rest_delta_ns` add up to candidate.period_ns - baseline.period_ns, which is the last point. At most 400 points.
    """

    stratum: int  # index into Result.strata
    rank: int
    matched: int
    baseline: DivergentStep
    candidate: DivergentStep
    points: list[DivergencePoint]
    causes: list[DivergenceCause]  # the largest first, 8 at most
    rest_delta_ns: int
    kind: Literal["typical", "worst"] = "typical"


# Steps event by event, whole or in parts.


class TimelineLane(msgspec.Struct, frozen=True, omit_defaults=True):
    """Events of one row of a step, in order of start. Columns are integers in a string, apart by spaces.

    kind: gpu (a stream's work), idle (the GPU's idle time), api (outermost CUDA calls of the launching thread),
    range (its NVTX ranges, a lane a level), gil (its holds and waits), holders (other threads that held the GIL), gc.
    of: the thread or level that tells lanes of one name apart.
    """

    kind: str
    name: str
    start: str  # ns from the start of the step
    length: str  # ns, clipped to the step
    what: str  # index into Timelines.names: a kernel, a place, a call, a range
    group: str  # index into Timelines.names: a category of GPU work, a cause of idle time, a kind of call
    of: str = ""
    row: str = ""  # of gpu: index into Result.kernels, -1 none
    count: str = ""  # events merged into one, where any were
    inside: str = ""  # ns that they really cover, where any were merged


class CropSide(msgspec.Struct, frozen=True):
    """A part of one side's step. Events of the lanes start at the crop's start, and so do `starts` of what is the cause, ns."""

    run: str
    rank: int
    number: int | None
    start_ns: int  # trace time of the named run
    step_start_ns: int
    step_end_ns: int
    lanes: list[TimelineLane]
    starts: list[int]
    lengths: list[int]


class Crop(msgspec.Struct, frozen=True):
    """A part of a step of both sides that shows a cause, of one length and aligned `anchor_ns` after its start.

    anchor: the op there, an index into Timelines.names: its start, or its end (`at_end`), is aligned; -1: the start of the step.
    """

    length_ns: int
    anchor_ns: int
    anchor: int
    at_end: bool
    baseline: CropSide | None
    candidate: CropSide | None


class TimelineStep(msgspec.Struct, frozen=True):
    """One step of one side with all its events. `accounting`: its own categories, ns; they sum to period_ns."""

    run: str
    rank: int
    device: int
    number: int | None
    start_ns: int  # trace time of the named run
    period_ns: int
    thread: str  # role of the launching thread
    accounting: dict[str, int]
    lanes: list[TimelineLane]
    events: int
    merged_below_ns: int = 0  # neighbours of one group shorter than this are one event; 0: none are


class Timeline(msgspec.Struct, frozen=True):
    """A typical or the longest step of a stratum, both sides.

    typical: the median step of the run with the median mean, on this rank; `exact` says whether it is that very
    step or, in a stratum pooled from several workloads, the nearest one that was kept.
    """

    stratum: int  # index into Result.strata
    kind: Literal["typical", "worst"]
    rank: int
    exact: bool
    baseline: TimelineStep | None
    candidate: TimelineStep | None = ABSENT


class Timelines(msgspec.Struct, frozen=True):
    """Steps to look at event by event. `names` holds every text once."""

    names: list[str]
    steps: list[Timeline]
    strata_left_out: int = 0  # with steps on both sides, and less time than those shown
    ranks_left_out: int = 0
