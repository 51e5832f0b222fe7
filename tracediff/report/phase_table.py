"""The table of phases as data: the typical step of each phase, its mean where that differs, then the mean of all steps.

`lines` has a row for each of these, for pages; `main` those of the terminal, Markdown and notebooks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from tracediff.model import Change, Delta, Evidence, Pair, Phase, Result, Shares, Verdict
from tracediff.model.causes import SURELY
from tracediff.model.common import Interval
from tracediff.report import units, words

Kind = Literal["typical", "mean", "all"]
NAMES: dict[str, str] = {
    "typical": "typical step",
    "tail": "rare steps add",
    "mean": "its mean",
    "all": words.WHOLE,
}


@dataclass(frozen=True)
class PhaseLine:
    """One row; a text is '' where it says nothing of this row. time_share, steps, runs: of both sides."""

    phase: str
    kind: Kind
    change: Change
    verdict: Verdict | None = None
    level: Evidence | None = None  # None: not tested
    time_share: str = ""
    steps: str = ""
    runs: str = ""
    unjudged: str = ""  # why there is no verdict

    @property
    def name(self) -> str:
        """What the row is of."""
        return self.phase if self.kind == "typical" else NAMES[self.kind]

    @property
    def delta_ns(self) -> float:
        """What the row changed by."""
        return self.change.delta_ns

    @property
    def measured(self) -> Interval | None:
        """The change with its interval, where it has one."""
        return self.change if isinstance(self.change, Interval) else None


def lines(result: Result) -> list[PhaseLine]:
    """Return the rows: the phase that the verdict is of, then those with the most steps, each followed by its parts."""
    out = [line for phase in _ordered(result) for line in _of_phase(phase)]
    if words.whole_captures(result):
        # their one row has the verdict of the result, which also weighs whether both did the same amount of work
        out = [
            replace(line, phase=words.unit(result), unjudged="", verdict=line.verdict and result.verdict)
            for line in out
        ]
    step = result.step
    return [
        *out,
        PhaseLine(
            "",
            "all",
            step,
            None,
            _beyond(step),
            _shares(step.time_share),
            _pair(step.steps),
            _pair(step.runs),
        ),
    ]


def main(result: Result) -> list[PhaseLine]:
    """Return the rows that text formats have: each phase, its mean where that differs, all steps where there are several."""
    every = lines(result)
    found = [line for line in every if line.kind in ("typical", "mean")]
    return found if len({line.phase for line in found}) == 1 else [*found, every[-1]]


def scale(result: Result) -> units.Scale:
    """Choose the unit of all rows: that in which the shortest step still has its digits."""
    sizes = [max(one.typical.baseline_ns, one.typical.candidate_ns) for one in result.phases if one.typical]
    return units.scale_for([min(sizes, default=result.step.baseline_ns)])


def _ordered(result: Result) -> list[Phase]:
    first = result.verdict_facts.phase
    return sorted(result.phases, key=lambda one: (one.phase != first, -one.share))


def _of_phase(phase: Phase) -> list[PhaseLine]:
    typical, mean = phase.typical, phase.mean
    if typical is None:
        return []
    verdict = phase.verdict if phase.judged or phase.verdict in words.MOVED else None
    moved: Evidence = "likely" if verdict in words.MOVED else "within_noise"
    of_mean = phase.verdict_of == "mean" and mean is not None
    out = [
        PhaseLine(
            phase.phase, "typical", typical, None if of_mean else verdict, _beyond(typical) if of_mean else moved, _shares(phase.time_share), _pair(phase.steps),
            _pair(phase.runs), "" if verdict else words.TOO_FEW,
        )
    ]  # fmt: skip
    if mean is not None and (of_mean or _differs(mean, typical)):
        out.append(PhaseLine(phase.phase, "mean", mean, verdict if of_mean else None, _beyond(mean)))
    return out


def _differs(mean: Delta, typical: Delta) -> bool:
    sides = ((mean.baseline_ns, typical.baseline_ns), (mean.candidate_ns, typical.candidate_ns))
    return any(abs(one - other) > SURELY * other for one, other in sides)


def _beyond(change: Interval) -> Evidence | None:
    """Within noise where the interval holds 0; else nothing was tested."""
    return "within_noise" if change.ci_low_ns <= 0 <= change.ci_high_ns else None


def _pair(of: Pair | None) -> str:
    return "" if of is None else units.pair(of.baseline, of.candidate)


def _shares(of: Shares | None) -> str:
    return "" if of is None else units.both_shares(of.baseline, of.candidate)
