"""The table of phases as data: the typical step of each phase, its mean where that differs, its start, then the mean of all steps.

`lines` has a row for each of these, for pages; `main` those of the terminal, Markdown and notebooks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from tracediff.model import Change, Delta, Evidence, OddRun, Pair, Phase, Result, Shares, Verdict
from tracediff.model.causes import SURELY
from tracediff.model.common import Interval
from tracediff.report import units, words
from tracediff.report.grammar import say

Kind = Literal["typical", "mean", "start", "all"]
NAMES: dict[str, str] = {
    "typical": "typical step",
    "tail": "rare steps add",
    "mean": "its mean",
    "start": "first steps",
    "all": words.WHOLE,
}


@dataclass(frozen=True)
class PhaseLine:
    """One row; a text is '' where it says nothing of this row. time_share, steps, runs: of both sides."""

    phase: str
    kind: Kind
    change: Change
    scale: units.Scale  # of all rows of the phase
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
    step, begins, begin = result.step, result.mix.begins, result.mix.begin
    if begin is not None and begins is not None and begins.baseline and begins.candidate:
        scale = units.scale_for([begin.baseline_ns, begin.candidate_ns])
        out.append(PhaseLine("", "start", begin, scale, steps=say("begun_row", steps=_pair(begins))))
    return [
        *out,
        PhaseLine(
            "", "all", step, units.scale_for([step.baseline_ns, step.candidate_ns]), None, _beyond(step), _shares(step.time_share),
            _pair(step.steps), _pair(step.runs),
        ),
    ]  # fmt: skip


def short(rows: list[PhaseLine]) -> list[PhaseLine]:
    """Return the rows of the first screen: all but first steps."""
    return [row for row in rows if row.kind != "start"]


def main(result: Result) -> tuple[list[PhaseLine], units.Scale]:
    """Return the rows that text formats have, and the one scale of all: each phase, its mean where that differs, all steps where there are several."""
    every = lines(result)
    found = [line for line in every if line.kind in ("typical", "mean")]
    sizes = [max(line.change.baseline_ns, line.change.candidate_ns) for line in found]
    scale = units.scale_for([min(sizes, default=result.step.baseline_ns)])
    return found if len({line.phase for line in found}) == 1 else [*found, every[-1]], scale


def odd_runs(result: Result) -> list[tuple[str, OddRun]]:
    """Runs apart from the others of their side, each with its phase."""
    return [(phase.phase, run) for phase in _ordered(result) for run in phase.odd_runs]


def _ordered(result: Result) -> list[Phase]:
    first = result.verdict_facts.phase
    return sorted(result.phases, key=lambda one: (one.phase != first, -one.share))


def _of_phase(phase: Phase) -> list[PhaseLine]:
    typical, mean, start = phase.typical, phase.mean, phase.start
    if typical is None:
        return []
    scale = units.scale_for([typical.baseline_ns, typical.candidate_ns])
    verdict = phase.verdict if phase.judged or phase.verdict in words.MOVED else None
    moved: Evidence = "likely" if verdict in words.MOVED else "within_noise"
    of_mean = phase.verdict_of == "mean" and mean is not None
    out = [
        PhaseLine(
            phase.phase, "typical", typical, scale, None if of_mean else verdict, _beyond(typical) if of_mean else moved, _shares(phase.time_share), _pair(phase.steps),
            _pair(phase.runs), "" if verdict else words.TOO_FEW,
        )
    ]  # fmt: skip
    if mean is not None and (of_mean or _differs(mean, typical)):
        out.append(PhaseLine(phase.phase, "mean", mean, scale, verdict if of_mean else None, _beyond(mean)))
    if start is not None:
        part = f"{units.share(phase.start_share)} of steps"
        out.append(PhaseLine(phase.phase, "start", start, scale, steps=part))
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
