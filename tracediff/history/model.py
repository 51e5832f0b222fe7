"""What `tracediff history` reports: points in order, the segments that may be compared, and what changed in each. ns or counts per step."""

from __future__ import annotations

from typing import Literal

import msgspec

from tracediff.history.points import Program
from tracediff.model import Tool

HISTORY_VERSION = 2

Basis = Literal["pinned", "value"]
Apart = Literal["", "side_branch", "unreachable"]


class PointRow(msgspec.Struct, frozen=True, kw_only=True):
    """A point. place: of its commit in the first-parent history of the branch, None where git did not order them.

    apart: why it is in no series. file: its name in the store; source: the file that it was made of.
    """

    commit: str
    time: str
    added: str
    place: int | None
    apart: Apart
    file: str
    source: str
    link: str
    baseline: str
    pinned: str
    verdict: str


class CauseChange(msgspec.Struct, frozen=True):
    """A measure that changed at the same point: means before and after it."""

    measure: str
    unit: str
    before: float
    after: float
    delta: float
    p: float


class ChangeFound(msgspec.Struct, frozen=True, kw_only=True):
    """A change of level. good, bad: indices of the points on both sides of it; unmeasured: commits between them, None where git cannot say.

    low, high: 95 % interval of delta; p: with the search over all places and series paid for; points: of the level after it.
    """

    measure: str
    unit: str
    good: int
    bad: int
    unmeasured: int | None
    before: float
    after: float
    delta: float
    low: float
    high: float
    p: float
    points: int
    causes: list[CauseChange] = []


class DriftFound(msgspec.Struct, frozen=True, kw_only=True):
    """A slow rise or fall that no single step shows: from the first point to the last, beside all changes of level."""

    measure: str
    unit: str
    first: int
    last: int
    days: float
    level: float  # mean of the series, of which `total` is a part
    total: float
    low: float
    high: float
    p: float
    causes: list[CauseChange] = []


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """Where a measure stands: the level of the `points` since its last change, less the pinned baseline; and the newest point."""

    measure: str
    unit: str
    level: float  # mean of these points
    baseline: float | None  # of the pinned program; None without one
    delta: float | None
    low: float | None
    high: float | None
    points: int
    last: float
    stands_out: float | None = None  # by how much the newest point alone is beyond its level


class SeriesRow(msgspec.Struct, frozen=True, kw_only=True):
    """A measure over the points of a segment. basis pinned: the pinned baseline's mean plus each point's delta to it; value: as measured."""

    measure: str
    unit: str
    basis: Basis
    points: list[int]
    values: list[float]
    errors: list[float]


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """Points of one program, machine and configuration, in order. left_out: of another pinned baseline, in no drift."""

    program: Program
    machine: dict[str, str]
    configuration: dict[str, str]
    points: list[int]
    pinned: str
    left_out: list[int]
    searched: int  # series
    series: list[SeriesRow]
    changes: list[ChangeFound]
    drifts: list[DriftFound]
    standings: list[Standing]


class History(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a report of a history needs. order: git (first parents of a branch) or time; why: why not git."""

    kind: Literal["history"] = "history"
    format_version: int = HISTORY_VERSION
    tool: Tool
    order: Literal["git", "time"]
    why: str
    points: list[PointRow]
    segments: list[Segment]  # that of the newest point first
    torn: list[str]  # files of the store that are not whole
    asked: list[str] = []
