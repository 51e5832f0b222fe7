"""The report of a search for the commit that caused a change. It is also the state that a search goes on from.

Differences are those of the measure between two commits, candidate less baseline, ns per step. Intervals are always valid: with
probability 1 - `error` all answers of a search are right, whatever decided how many pairs of runs were made.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from tracediff.model.common import Tool

BISECT_VERSION = 1

BisectVerdict = Literal["good", "bad", "skip"]
# open: not at its end. noise: GOOD and BAD differ, but noise hides from which commit on. ambiguous: commits were skipped.
BisectOutcome = Literal["open", "no_difference", "noise", "budget", "ambiguous", "found"]


class BisectCommit(msgspec.Struct, frozen=True):
    """A commit: its full hash and the first line of its message."""

    commit: str
    subject: str = ""


class BisectProbe(msgspec.Struct, kw_only=True):
    """Pairs of runs of two commits and what they answer. Figures are absent where no pair was measured."""

    baseline: BisectCommit
    candidate: BisectCommit
    folder: str  # of its bundle and its logs, in the folder of the search
    verdict: BisectVerdict = "skip"
    reason: str = ""  # why it was skipped: build-failed, noise, or the slug of an error
    message: str = ""  # of that error, or the last line of the build
    pairs: int = 0
    baseline_ns: float | None = None
    delta_ns: float | None = None
    low_ns: float | None = None  # of the difference; None: too few pairs for an interval
    high_ns: float | None = None
    sd_ns: float | None = None  # of the differences of the pairs
    seconds: float = 0.0  # of its builds and all its runs by the clock, with profiler and export


class Bisect(msgspec.Struct, kw_only=True):
    """The object of `tracediff bisect`."""

    format_version: int = BISECT_VERSION
    kind: Literal["bisect"] = "bisect"
    tool: Tool
    measure: str  # see docs/gate.md
    # a commit is bad beyond it; negative where BAD is faster. None: not known yet
    limit_ns: float | None = None
    limit_given: bool = False  # else it is half of the difference between GOOD and BAD
    good: BisectCommit
    bad: BisectCommit
    commits: int  # after GOOD up to BAD: one of them is the culprit
    error: float  # probability that any answer is wrong, at most
    max_pairs: int
    fingerprint: str = ""  # of what may not change when a search goes on
    outcome: BisectOutcome = "open"
    ends: BisectProbe | None = None  # BAD beside GOOD
    probes: list[BisectProbe] = []  # in the order in which git asked for them
    culprits: list[BisectCommit] = []  # what is left: one where it was found
    parent: BisectProbe | None = None  # the culprit beside its parent

    @property
    def seconds(self) -> float:
        """Of all builds and runs by the clock."""
        probes = (one for one in (self.ends, *self.probes, self.parent) if one is not None)
        return sum({one.folder: one.seconds for one in probes}.values())  # the parent may be GOOD: one bundle
