"""What the pictures of a report are drawn from: small tables, whatever the captures hold."""

from __future__ import annotations

from typing import Literal

import msgspec

from tracediff.model.common import ABSENT


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


# Steps event by event, whole or in parts.


class TimelineLane(msgspec.Struct, frozen=True, omit_defaults=True):
    """Events of one row of a step, in order of start. Columns are integers in a string, apart by spaces.

    kind: gpu (a stream's work), idle (the GPU's idle time), api (outermost CUDA calls of the launching thread),
    range (its NVTX ranges, a lane a level), gil (its holds and waits), holders (other threads that held the GIL), gc.
    """

    kind: str
    name: str
    start: str  # ns from the start of the step
    length: str  # ns, clipped to the step
    what: str  # index into Timelines.names: a kernel, a place, a call, a range
    group: str  # index into Timelines.names: a category of GPU work, a cause of idle time, a kind of call
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
