"""The table of phases as data: the typical step of each phase, what rare steps add to its mean, its start, then the mean step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tracediff.model import Change, Delta, Evidence, OddRun, Phase, Result, Step, Verdict
from tracediff.report import units

Kind = Literal["typical", "tail", "start", "mean"]
NAMES: dict[Kind, str] = {
    "typical": "typical step",
    "tail": "rare steps add",
    "start": "first steps",
    "mean": "mean step",
}
ORDER = ("generation", "step", "mixed", "context")  # what users feel first
_UNSURE = ("no_change", "inconclusive", "not_comparable")


@dataclass(frozen=True)
class PhaseLine:
    """One row. time_share: of both sides' step time; steps: of both sides; each only where it says something of this row."""

    phase: str
    kind: Kind
    verdict: Verdict | None
    change: Delta | Change
    low_ns: float | None
    high_ns: float | None
    noise_floor_ns: float | None
    detectable_ns: float | None
    host_speed_ns: float
    p_value: float | None
    level: Evidence | None  # None: not tested
    time_share: str
    steps: str
    scale: units.Scale  # of all rows of the phase

    @property
    def name(self) -> str:
        """What the row is of."""
        return self.phase if self.kind == "typical" else NAMES[self.kind]

    @property
    def base_ns(self) -> float:
        """What a percentage is of."""
        return self.change.baseline_ns


def lines(result: Result) -> list[PhaseLine]:
    """Return the rows: the compared phases in the order in which users feel them, each followed by its parts."""
    compared = sorted((one for one in result.phases if one.typical is not None), key=_place)
    out = [line for phase in compared for line in _of_phase(phase)]
    step = result.step
    out.append(
        PhaseLine(
            "", "mean", None, Change(step.baseline_ns, step.candidate_ns, step.delta_ns), step.ci_low_ns, step.ci_high_ns,
            step.noise_floor_ns, step.min_detectable_ns, step.host_speed_ns, step.p_value, _level(step),
            units.both_shares(step.time_share.baseline, step.time_share.candidate), units.pair(step.steps.baseline, step.steps.candidate),
            units.scale_for([step.baseline_ns, step.candidate_ns]),
        )
    )  # fmt: skip
    return out


def odd_runs(result: Result) -> list[tuple[str, OddRun]]:
    """Runs apart from the others of their side, each with its phase."""
    return [(phase.phase, run) for phase in sorted(result.phases, key=_place) for run in phase.odd_runs]


def runs_of(result: Result, phase: str | None) -> tuple[int, int]:
    """Runs of each side that have steps of a phase; all runs where the phase is not known."""
    found = next((one.runs for one in result.phases if one.phase == phase and one.runs is not None), None)
    pair = found or result.step.runs
    return pair.baseline, pair.candidate


def _place(phase: Phase) -> tuple[int, str]:
    known = phase.phase in ORDER
    return (ORDER.index(phase.phase) if known else len(ORDER)), phase.phase


def _of_phase(phase: Phase) -> list[PhaseLine]:
    typical, tail, start = phase.typical, phase.tail, phase.start
    assert typical is not None
    share = phase.time_share
    scale = units.scale_for([typical.baseline_ns, typical.candidate_ns])
    steps = "" if phase.steps is None else units.pair(phase.steps.baseline, phase.steps.candidate)
    level: Evidence | None = "within_noise" if phase.verdict in _UNSURE else "likely"
    out = [
        _line(phase.phase, "typical", phase.verdict, typical, level, "" if share is None else units.both_shares(share.baseline, share.candidate), steps, scale)
    ]  # fmt: skip
    if tail is not None and (tail.baseline_ns or tail.candidate_ns or tail.delta_ns):
        inside = tail.ci_low_ns <= 0 <= tail.ci_high_ns
        out.append(_line(phase.phase, "tail", None, tail, "within_noise" if inside else None, "", "", scale))
    if start is not None:
        out.append(
            PhaseLine(phase.phase, "start", None, start, *(None,) * 4, 0.0, None, None, "", f"{units.share(phase.start_share)} of steps", scale)
        )  # fmt: skip
    return out


def _line(
    phase: str, kind: Kind, verdict: Verdict | None, change: Delta, level: Evidence | None, time_share: str, steps: str, scale: units.Scale
) -> PhaseLine:  # fmt: skip
    return PhaseLine(
        phase, kind, verdict, change, change.ci_low_ns, change.ci_high_ns, change.noise_floor_ns, change.detectable_ns,
        change.host_speed_ns, change.p_value, level, time_share, steps, scale,
    )  # fmt: skip


def _level(step: Step) -> Evidence | None:
    return "within_noise" if step.ci_low_ns <= 0 <= step.ci_high_ns else None
