"""The table of phases as data: the typical step of each phase, what rare steps add to its mean, its start, then the mean step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tracediff.model import Change, Delta, Evidence, OddRun, Pair, Phase, Result, Shares, Verdict
from tracediff.report import units, words

Kind = Literal["typical", "tail", "start", "mean"]
NAMES: dict[Kind, str] = {
    "typical": "typical step",
    "tail": "rare steps add",
    "start": "first steps",
    "mean": words.WHOLE,
}
_UNSURE = ("no_change", "inconclusive", "not_comparable")


@dataclass(frozen=True)
class PhaseLine:
    """One row; a text is '' where it says nothing of this row. time_share, steps, runs: of both sides."""

    phase: str
    kind: Kind
    change: Delta | Change
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
    def measured(self) -> Delta | None:
        """The change with its interval, where it has one."""
        return self.change if isinstance(self.change, Delta) else None

    @property
    def base_ns(self) -> float:
        """What percentages are of; 0: of nothing, as what rare steps add is no time of a step."""
        return 0.0 if self.kind == "tail" else self.change.baseline_ns


def lines(result: Result) -> list[PhaseLine]:
    """Return the rows: the phase that the verdict is of, then those with the most steps, each followed by its parts."""
    out = [line for phase in _ordered(result) for line in _of_phase(phase)]
    step = result.step
    mean = Delta(
        step.baseline_ns, step.candidate_ns, step.delta_ns, step.ci_low_ns, step.ci_high_ns, step.host_speed_ns, step.p_value,
        step.noise_floor_ns, step.min_detectable_ns,
    )  # fmt: skip
    return [
        *out,
        PhaseLine(
            "", "mean", mean, units.scale_for([mean.baseline_ns, mean.candidate_ns]), None, _beyond(mean), _shares(step.time_share),
            _pair(step.steps), _pair(step.runs),
        ),
    ]  # fmt: skip


def odd_runs(result: Result) -> list[tuple[str, OddRun]]:
    """Runs apart from the others of their side, each with its phase."""
    return [(phase.phase, run) for phase in _ordered(result) for run in phase.odd_runs]


def runs_of(result: Result, phase: str | None) -> tuple[int, int]:
    """Runs of each side that have steps of a phase; all runs where the phase is not known."""
    found = next((one.runs for one in result.phases if one.phase == phase and one.runs is not None), None)
    pair = found or result.step.runs
    return pair.baseline, pair.candidate


def _ordered(result: Result) -> list[Phase]:
    first = result.verdict_facts.phase
    return sorted(result.phases, key=lambda one: (one.phase != first, -one.share))


def _of_phase(phase: Phase) -> list[PhaseLine]:
    typical, tail, start = phase.typical, phase.tail, phase.start
    if typical is None:
        return []
    scale = units.scale_for([typical.baseline_ns, typical.candidate_ns])
    verdict = phase.verdict if phase.judged else None
    level: Evidence = "within_noise" if verdict is None or verdict in _UNSURE else "likely"
    out = [
        PhaseLine(
            phase.phase, "typical", typical, scale, verdict, level, _shares(phase.time_share), _pair(phase.steps),
            _pair(phase.runs), "" if phase.judged else words.TOO_FEW,
        )
    ]  # fmt: skip
    if tail is not None and (tail.baseline_ns or tail.candidate_ns):
        out.append(PhaseLine(phase.phase, "tail", tail, scale, level=_beyond(tail)))
    if start is not None:
        part = f"{units.share(phase.start_share)} of steps"
        out.append(PhaseLine(phase.phase, "start", start, scale, steps=part))
    return out


def _beyond(change: Delta) -> Evidence | None:
    """Within noise where the interval holds 0; else nothing was tested."""
    return "within_noise" if change.ci_low_ns <= 0 <= change.ci_high_ns else None


def _pair(of: Pair | None) -> str:
    return "" if of is None else units.pair(of.baseline, of.candidate)


def _shares(of: Shares | None) -> str:
    return "" if of is None else units.both_shares(of.baseline, of.candidate)
