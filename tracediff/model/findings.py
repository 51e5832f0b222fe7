"""Ranked causes of the change, each with its place and its evidence."""

from __future__ import annotations

from typing import Literal

import msgspec

from tracediff.model.common import Cause, Evidence


class Moment(msgspec.Struct, frozen=True):
    """A place to jump to in nsys: trace time in ns of the named run."""

    side: Literal["baseline", "candidate"]
    run: str
    start_ns: int
    end_ns: int
    what: str


class FindingEvidence(msgspec.Struct, frozen=True):
    """What shows the finding: SQL to run on the export itself, and the moments to look at."""

    sql: str
    moments: list[Moment]
    runs_baseline_ns: list[float] = []  # the cell's mean in each run
    runs_candidate_ns: list[float] = []
    count_baseline: float | None = None  # events a step, where counting them means something
    count_candidate: float | None = None


class Where(msgspec.Struct, frozen=True):
    """The place of a finding; empty fields do not apply."""

    range: str | None = None
    kernel: str | None = None
    thread: str | None = None
    holder_thread: str | None = None
    holder_range: str | None = None
    api: str | None = None
    phase: str | None = None
    rank: int | None = None
    os_call: str | None = None  # the OS call in which most of the change lies


class Finding(msgspec.Struct, frozen=True):
    """One cause at one place and what it explains of the step-time delta."""

    rank: int
    cause: Cause
    delta_ns: float
    ci_low_ns: float
    ci_high_ns: float
    share: float | None  # of the total delta; None where the total is 0
    title: str
    where: Where
    evidence: FindingEvidence
    next: str
    level: Evidence
    baseline_ns: float
    candidate_ns: float
    p_value: float | None = None
    q_value: float | None = None  # Benjamini-Hochberg over the findings
    note: str = ""
