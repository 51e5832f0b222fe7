"""The table of phases as data: the typical step of each phase, its mean where that differs, then the mean of all steps.

Every output has these rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from tracediff.model import Change, Delta, Evidence, Pair, Phase, Result, Shares, Verdict
from tracediff.model.causes import SURELY
from tracediff.model.common import Interval
from tracediff.report import units, words
from tracediff.report.first import one_capture, unclear_by
from tracediff.report.grammar import say

Kind = Literal["typical", "mean", "all"]
_ALONE = {"typical": "typical step", "mean": "mean step", "all": "all steps, mean"}


class PhaseLine(msgspec.Struct, frozen=True):
    """One row; a text is '' where it says nothing of this row.

    time_share, steps, runs: of both sides. first: the first sentence is of it. compared: not where a check forbids a comparison, or both sides are
    one capture: what a repeat would show is not known of one run.
    """

    phase: str
    kind: Kind
    change: Change
    verdict: Verdict | None = None
    level: Evidence | None = None  # None: not tested
    time_share: str = ""
    steps: str = ""
    runs: str = ""
    unjudged: str = ""  # why there is no verdict, or an unclear one though the interval leaves out 0
    first: bool = False
    compared: bool = True
    common: bool = False  # of the kind of step without a name, where others have one

    @property
    def name(self) -> str:
        """What the row is of: `generation, typical`, `typical step` where labels tell no phases, `capture` of whole ones."""
        if self.phase in ("capture", "round"):
            return self.phase
        if self.phase in ("", "step") and not self.common:
            return _ALONE[self.kind]
        phase = say("most_common") if self.common else self.phase
        return f"{phase}, {self.kind}"

    @property
    def delta_ns(self) -> float:
        """What the row changed by."""
        return self.change.delta_ns

    @property
    def measured(self) -> Interval | None:
        """The change with its interval, where it was judged, the first sentences say it, or it says something: not of too few steps, or noise as large as a whole step."""
        change = self.change
        if not isinstance(change, Interval) or (self.unjudged and not self.verdict) or not self.compared:
            return None
        beyond = change.ci_low_ns < -change.baseline_ns or change.ci_high_ns > change.candidate_ns
        said = self.first or self.verdict
        return None if beyond and change.ci_low_ns <= 0 <= change.ci_high_ns and not said else change


def lines(result: Result) -> list[PhaseLine]:
    """Return the rows: the phase that the verdict is of, then those with the most steps, each followed by its mean where that differs; all steps where there are several phases."""
    leads = result.verdict_facts.phase
    ordered = sorted(result.phases, key=lambda one: (one.phase != leads, -one.share))
    out = [line for phase in ordered for line in _of_phase(phase, result)]
    out = [replace(line, common=words.most_common(result, line.phase)) for line in out]
    if words.whole_captures(result):
        # their one row has the verdict of the result, which also weighs whether both did the same amount of work
        out = [
            replace(line, phase=words.unit(result), unjudged="", verdict=line.verdict and result.verdict)
            for line in out
        ]
    step = result.step
    if len({line.phase for line in out}) != 1:
        out.append(PhaseLine("", "all", step, None, _beyond(step), "", _pair(step.steps), _pair(step.runs)))
    if result.verdict == "not_comparable":
        return [replace(line, verdict=None, level=None, compared=False) for line in out]
    return [replace(line, compared=False) for line in out] if one_capture(result) else out


def _of_phase(phase: Phase, result: Result) -> list[PhaseLine]:
    typical, mean = phase.typical, phase.mean
    if typical is None:
        return []
    verdict = phase.verdict if phase.judged or phase.verdict in words.MOVED else None
    moved: Evidence = "likely" if verdict in words.MOVED else "within_noise"
    of_mean = phase.verdict_of == "mean" and mean is not None
    spoken = result.observed.of if result.observed.phase == phase.phase else ""
    out = [
        PhaseLine(
            phase.phase, "typical", typical, None if of_mean else verdict, _beyond(typical) if of_mean else moved, _pair(phase.time_share, units.both_shares), _pair(phase.steps),
            _pair(phase.runs), "" if verdict else words.TOO_FEW, first=spoken not in ("", "mean"),
        )
    ]  # fmt: skip
    if mean is not None and (of_mean or _differs(mean, typical)):
        shown = verdict if of_mean else None
        level = moved if of_mean else _beyond(mean)
        out.append(PhaseLine(phase.phase, "mean", mean, shown, level, first=spoken == "mean"))
    tested, unclear = unclear_by(phase, result)
    why = say(unclear, phases=f"{tested}") if unclear else ""
    return [replace(line, unjudged=why) if why and line.verdict else line for line in out]


def _differs(mean: Delta, typical: Delta) -> bool:
    sides = ((mean.baseline_ns, typical.baseline_ns), (mean.candidate_ns, typical.candidate_ns))
    return any(abs(one - other) > SURELY * other for one, other in sides)


def _beyond(change: Interval) -> Evidence | None:
    """Within noise where the interval holds 0; else nothing was tested."""
    return "within_noise" if change.ci_low_ns <= 0 <= change.ci_high_ns else None


def _pair(of: Pair | Shares | None, write: Callable[[Any, Any], str] = units.pair) -> str:
    return "" if of is None else write(of.baseline, of.candidate)
