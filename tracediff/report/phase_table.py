"""The table of phases as data: the typical step of each phase, what rare steps add to its mean, its start, then the mean step.

`lines` has a row for each of these, for pages; `table` one for each phase, in words and in one unit, for the terminal and Markdown.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
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
    if words.whole_captures(result):
        out = [
            replace(line, phase="capture", unjudged=words.TOO_FEW_RUNS if line.unjudged else "")
            for line in out
        ]
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


def short(rows: list[PhaseLine]) -> list[PhaseLine]:
    """Return the rows of the first screen: typical steps and all steps, and what rare steps add where that is no noise."""
    return [row for row in rows if row.kind in ("typical", "mean") or (row.kind == "tail" and not row.level)]


@dataclass(frozen=True)
class PhaseRow:
    """A phase, or all compared steps together, in words without unit; empty where it does not apply."""

    phase: str
    verdict: words.VerdictWords | None
    baseline: str  # of the typical step
    candidate: str
    delta: str
    percent: str
    half: str  # of the 95 % interval
    detectable: str  # smallest change that these runs can show, in percent
    rare: str  # what rare steps add to the change of the mean
    host_speed: str  # what the speed of the hosts explains, not in delta
    time: str  # of all step time, both sides
    unjudged: str  # why there is no verdict, or a doubtful one

    @property
    def word(self) -> str:
        """`Regressed`, `Inconclusive, too few runs`."""
        return ", ".join(filter(None, [self.verdict.word if self.verdict else "", self.unjudged]))


@dataclass(frozen=True)
class PhaseTable:
    """Phases in the order of `lines`, and all steps together as the last row where there are several."""

    unit: str
    rows: list[PhaseRow]


def table(result: Result) -> PhaseTable:
    """Return a row for each phase: verdict, typical step on both sides, change, interval, what could have been seen."""
    every = lines(result)
    rare = {line.phase: line.measured for line in every if line.kind == "tail"}
    main = [line for line in every if line.kind == "typical"]
    sizes = [max(line.change.baseline_ns, line.change.candidate_ns) for line in main]
    scale = units.scale_for([min(sizes, default=result.step.baseline_ns)])
    shown = main if len(main) == 1 else [*main, every[-1]]
    return PhaseTable(scale.unit, [_row(line, rare.get(line.phase), scale) for line in shown])


def _row(line: PhaseLine, rare: Delta | None, scale: units.Scale) -> PhaseRow:
    found = line.measured
    assert found is not None  # typical steps and the mean step have an interval
    least = found.detectable_ns
    return PhaseRow(
        phase=line.name,
        verdict=words.VERDICTS[line.verdict] if line.verdict else None,
        baseline=scale.number(found.baseline_ns),
        candidate=scale.number(found.candidate_ns),
        delta=scale.signed(found.delta_ns),
        percent=units.percent(found.delta_ns, found.baseline_ns),
        half=scale.number(_half(found)),
        detectable=f"{100 * least / found.baseline_ns:.1f} %" if least and found.baseline_ns else "",
        rare=f"{scale.signed(rare.delta_ns)} ± {scale.number(_half(rare))}" if rare else "",
        host_speed=scale.signed(found.host_speed_ns) if found.host_speed_ns else "",
        time=line.time_share,
        unjudged=line.unjudged,
    )


def _half(found: Delta) -> float:
    return (found.ci_high_ns - found.ci_low_ns) / 2


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
    level: Evidence = "within_noise" if verdict is None or verdict in words.UNSURE else "likely"
    out = [
        PhaseLine(
            phase.phase, "typical", typical, scale, verdict, level, _shares(phase.time_share), _pair(phase.steps),
            _pair(phase.runs), _doubt(phase, typical),
        )
    ]  # fmt: skip
    if tail is not None and (tail.baseline_ns or tail.candidate_ns):
        out.append(PhaseLine(phase.phase, "tail", tail, scale, level=_beyond(tail)))
    if start is not None:
        part = f"{units.share(phase.start_share)} of steps"
        out.append(PhaseLine(phase.phase, "start", start, scale, steps=part))
    return out


_FEW_RUNS = 5  # from which on the test of a phase after the first can decide


def _doubt(phase: Phase, typical: Delta) -> str:
    """Why there is no verdict, or an inconclusive one though the interval leaves out zero."""
    if not phase.judged:
        return words.TOO_FEW
    clear = typical.ci_low_ns > 0 or typical.ci_high_ns < 0
    few = phase.runs is not None and min(phase.runs.baseline, phase.runs.candidate) < _FEW_RUNS
    return words.TOO_FEW_RUNS if phase.verdict == "inconclusive" and clear and few else ""


def _beyond(change: Delta) -> Evidence | None:
    """Within noise where the interval holds 0; else nothing was tested."""
    return "within_noise" if change.ci_low_ns <= 0 <= change.ci_high_ns else None


def _pair(of: Pair | None) -> str:
    return "" if of is None else units.pair(of.baseline, of.candidate)


def _shares(of: Shares | None) -> str:
    return "" if of is None else units.both_shares(of.baseline, of.candidate)
