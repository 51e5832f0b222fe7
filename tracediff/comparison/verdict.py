"""The verdict of each phase and of the whole; report/phrases.py writes the sentences.

| runs a side | a phase is called |
| 4 or more | improved, regressed: permutation of whole runs over all phases, P <= .03 (.015 in phases after the first), own t test p < .05 (.01),
  0.5 % of its step |
| 3 | likely: p < .02 after Holm's correction for the phases |
| 1 or 2 | likely: p < .05 (.01 in phases after the first), the scatter of the steps and the usual scatter of runs added |

The whole follows from the phases, the one that users feel first; then from sure causes, where nothing else can have moved the other
way; then from rare steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from msgspec.structs import replace

from tracediff.accounting.intervals import Floats
from tracediff.comparison.cells import STEP, Measured, PhaseCells, host_of_start
from tracediff.comparison.places import LARGE_RARE, Judged, Judgement
from tracediff.model import (
    Change,
    Delta,
    Finding,
    Launch,
    Load,
    OddRun,
    Pair,
    Phase,
    Shares,
    Step,
    Verdict,
    VerdictFacts,
)
from tracediff.model.causes import BUSY, CATEGORIES, CAUSES
from tracediff.stats.estimator import Estimate, Sample, detectable, estimate, holm, runs_for

PERMUTE = 4  # runs a side from which permutations decide
FEW = 3
SAME = 0.01  # a delta within this part of the step, and an interval within three times that, is no change
LEAST = 0.005  # of the step: a smaller change of a phase is no verdict
ALONG = 0.5  # of a change in GPU time: the length must have moved by as much
CARRIES = 0.01  # of the step: sure causes of this size carry the verdict
CARRIES_ALONE = 0.05  # the same of a phase after the first
AGAINST = 0.75  # of them: so much another cause may have moved the other way without being noticed
JOINT, ALONE, HOLM, ALPHA = 0.03, 0.015, 0.02, 0.05
P_ALONE = 0.01  # p of a phase after the first
RARE = 0.05  # p of what rare steps add, with one or two runs a side
ROUNDING = 1e-6  # ns: sums of the same numbers in another order differ by less
WANTED = 0.02  # of the step: the change for which the advised number of runs is
MOVED = 0.5  # so much of the kernels changed the way in which they are launched
SIDES: tuple[Literal["baseline"], Literal["candidate"]] = ("baseline", "candidate")
ORDER = ("generation", "step", "mixed", "context")  # what users feel first


def in_order(phases: Sequence[PhaseCells]) -> list[PhaseCells]:
    """Phases with what users feel first before the others."""
    return sorted(
        phases,
        key=lambda one: (
            ORDER.index(one.steps.phase) if one.steps.phase in ORDER else len(ORDER),
            one.steps.phase,
        ),
    )


def judge_phases(measured: Measured) -> dict[str, Verdict]:
    """The verdict on the typical step of every phase that is compared."""
    judged = [one for one in measured.phases if one.steps.judged]
    joint = _joint_p(judged)
    corrected = holm([float(one.typical.estimate.p[STEP]) for one in judged])
    verdicts: dict[str, Verdict] = {one.steps.phase: "inconclusive" for one in measured.phases}
    for one, adjusted in zip(judged, corrected, strict=True):
        verdicts[one.steps.phase] = _phase_verdict(
            one, joint.get(one.steps.phase, 1.0), adjusted, main=one is in_order(judged)[0]
        )
    return verdicts


def _phase_verdict(one: PhaseCells, joint: float, adjusted: float, *, main: bool) -> Verdict:
    found, runs = one.typical.estimate, min(one.runs)
    if _identical(one.typical.estimate) and _identical(one.tail.estimate):
        return "no_change"
    if load_explains(one):
        return "inconclusive"
    delta, half, p = (float(values[STEP]) for values in (found.delta, found.half, found.p))
    if abs(delta) >= LEAST * one.step_ns:
        # so few pairs that dealing them out shows nothing are judged as three runs are, and sure where they are four or more
        passed = adjusted < HOLM if one.typical.dealt() is None else joint <= JOINT and p < ALPHA
        # steps that users feel less are fewer and less alike: alone they decide only where that is far from chance
        if runs >= PERMUTE and passed and (main or (joint <= ALONE and p < P_ALONE)):
            return "regressed" if delta > 0 else "improved"
        if (runs == FEW and passed) or (runs < FEW and p < (ALPHA if main else P_ALONE)):
            return "likely_regressed" if delta > 0 else "likely_improved"
    # of the typical step: rare steps may be many times as long, and what they take does not make it known any better
    limit = SAME * float(max(found.baseline[STEP], found.candidate[STEP]))
    return "no_change" if abs(delta) <= limit and abs(delta) + half <= 3 * limit else "inconclusive"


def _identical(found: Estimate) -> bool:
    """Whether both sides are the same in every cell."""
    return not any((np.abs(one) > ROUNDING).any() for one in (found.delta, found.host_speed))


def load_explains(one: PhaseCells) -> bool:
    """Whether other batches may be all that changed: a step with r times the requests and tokens takes r times as long at most."""
    if one.steps.load is None:
        return False
    found = one.typical.estimate
    load = math.log(one.steps.load[1] / one.steps.load[0])
    base = float(found.baseline[STEP])
    step = math.log(max((base + float(found.delta[STEP])) / base, 1e-9)) if base > 0 else 0.0
    return step * load > 0 and abs(step) <= abs(load)


def _joint_p(phases: Sequence[PhaseCells]) -> dict[str, float]:
    """Of each phase, the part of the ways to deal the runs out in which the largest |t| of any phase is as large as its own.

    Westfall and Young (1993). Runs are dealt out whole; phases that other runs have are dealt out by themselves.
    """
    found: dict[str, float] = {}
    groups: dict[tuple[bytes, bytes], list[PhaseCells]] = {}
    for one in phases:
        if one.typical.dealt() is not None:
            key = one.run_numbers[0].tobytes(), one.run_numbers[1].tobytes()
            groups.setdefault(key, []).append(one)
    for group in groups.values():
        dealt = group[0].typical.dealt()
        assert dealt is not None
        t = np.stack([one.typical.permuted_step(dealt) for one in group], axis=1)
        most = t.max(axis=1)
        for column, one in enumerate(group):
            found[one.steps.phase] = float((most >= t[0, column] * (1 - 1e-9)).mean())
    return found


# The whole.


_VERDICTS: tuple[tuple[Verdict, Verdict], ...] = (
    ("regressed", "improved"),
    ("likely_regressed", "likely_improved"),
)
_CARRY: tuple[tuple[Literal["part", "rare"], str], ...] = (("part", "typical"), ("rare", "tail"))


def decide(
    measured: Measured,
    judged: Judged,
    verdicts: dict[str, Verdict],
    *,
    comparable: bool,
    gpu: float | None = None,
) -> tuple[Verdict, VerdictFacts]:
    """The verdict of the whole and its basis. `gpu`: see `gpu_change`, where no phase is judged."""
    if not comparable:
        return "not_comparable", VerdictFacts("checks")
    verdict, facts = _decided(measured, judged, verdicts, gpu)
    return cautious(verdict, time_share(measured), raw_change(measured)), facts


PART = 0.5  # of a side's step time: with less compared, what was not compared is part of the verdict
_WEAKER: dict[Verdict, Verdict] = {
    "regressed": "likely_regressed", "likely_regressed": "likely_regressed", "improved": "likely_improved",
    "likely_improved": "likely_improved",
}  # fmt: skip


def cautious(verdict: Verdict, shares: Shares, raw: float) -> Verdict:
    """The verdict of captures of which less than half is compared: likely at best, and none against the raw means.

    `raw`: what the mean over all steps changed by, as a part of the baseline's.
    """
    if min(shares.baseline, shares.candidate) >= PART or verdict == "not_comparable":
        return verdict
    if verdict == "no_change" and abs(raw) <= SAME:
        return verdict
    along = raw > 0 if verdict.endswith("regressed") else raw < 0
    return _WEAKER.get(verdict, "inconclusive") if along else "inconclusive"


def time_share(measured: Measured) -> Shares:
    """The part of each side's step time that is compared."""
    side, ns = (measured.steps[name].to_numpy() for name in ("side", "ns"))
    compared = measured.frame.weight[: len(side)] > 0
    shares = [float(ns[(side == one) & compared].sum() / max(ns[side == one].sum(), 1)) for one in (0, 1)]
    return Shares(*shares)


def raw_change(measured: Measured) -> float:
    """What the mean of all steps of the runs that count changed by, as a part of the baseline's."""
    side, run, ns = (measured.steps[name].to_numpy() for name in ("side", "run", "ns"))
    one, other = (float(ns[(side == at) & np.isin(run, measured.frame.kept(at))].mean()) for at in (0, 1))
    return (other - one) / one if one else 0.0


def _decided(
    measured: Measured, judged: Judged, verdicts: dict[str, Verdict], gpu: float | None
) -> tuple[Verdict, VerdictFacts]:
    """The verdict of what is compared."""
    phases = in_order([one for one in measured.phases if one.steps.judged])
    if _identical(measured.whole):
        return "no_change", VerdictFacts("identical")
    for wanted in _VERDICTS:
        certain = wanted[0] == "regressed"
        sure = ("exact", "confirmed") if certain else ("exact", "confirmed", "likely")
        # what users feel first decides first, in its typical steps, in causes, in rare steps
        for one in phases:
            if verdicts[one.steps.phase] in wanted:
                return verdicts[one.steps.phase], VerdictFacts("phase", one.steps.phase)
            if (certain and min(one.runs) < PERMUTE) or load_explains(
                one
            ):  # of few runs everything is likely at best
                continue
            for basis, part in _CARRY:
                least = CARRIES if one is phases[0] else CARRIES_ALONE
                if basis == "rare" and min(one.runs) == 1:
                    least = LARGE_RARE
                carried = _carried(one, judged, part, sure, least)
                if not certain and basis == "rare":
                    carried = carried or _rare_total(one)
                if carried:
                    verdict = wanted[0] if carried > 0 else wanted[1]
                    return verdict, VerdictFacts(basis, one.steps.phase, carried)
    if gpu is not None and not phases:
        return "likely_regressed" if gpu > 0 else "likely_improved", VerdictFacts("gpu", carried_ns=gpu)
    main = phases[0].steps.phase if phases else ""
    moved = any(_sure(judged, one, "typical", ("exact", "confirmed")) for one in phases)
    host = any(_only_host(one) for one in phases[:1])
    quiet = all(verdicts[one.steps.phase] == "no_change" and _quiet(one) for one in phases)
    if phases and (_same(measured.whole) or quiet):
        return "no_change", VerdictFacts("same", main, host=host, moved=moved)
    load = phases[0].steps.load if phases and load_explains(phases[0]) else None
    return "inconclusive", VerdictFacts(
        "scatter", main, host=host, moved=moved, load=Load(*load) if load else None
    )


def gpu_change(measured: Measured) -> float | None:
    """What captures of one step each and of the same work differ by in GPU time, ns, where that carries a verdict; else None.

    It is 1 % of a capture, beyond what runs of one program differ by, and the captures' length moved along.
    """
    cells, whole = [measured.layout.categories[name] for name in BUSY], measured.whole
    one, other = (side[:, cells].sum(axis=1, keepdims=True) for side in whole.values)
    usual, nothing = CAUSES["compute"].scatter, np.zeros(1)
    scatter = usual.relative * max(float(one.mean()), float(other.mean())) + usual.plus_ns
    found = estimate(Sample((one, other), step_variance=(nothing, nothing)), np.array([scatter]), nothing)
    delta = float(found.delta[0])
    large = abs(delta) >= CARRIES * max(whole.baseline[STEP], whole.candidate[STEP])
    along = float(whole.candidate[STEP] - whole.baseline[STEP]) * np.sign(delta) >= ALONG * abs(delta)
    return delta if large and along and found.p[0] < ALPHA else None


def _sure(judged: Judged, phase: PhaseCells, part: str, levels: Sequence[str]) -> list[Judgement]:
    return [one for one in judged.rows if one.phase is phase and one.part == part and one.level in levels]


def _carried(
    phase: PhaseCells, judged: Judged, part: str, levels: Sequence[str], least: float
) -> float | None:
    """The sum of sure causes of a phase where it carries the verdict: large enough, and nothing else can have moved against it."""
    # of an exact count, the time may be unsure
    sure = [one for one in _sure(judged, phase, part, levels) if abs(one.delta) > one.half]
    total = sum(one.delta for one in sure)
    if abs(total) < least * phase.step_ns:
        return None
    rest = [one for one in judged.rows if one.phase is phase and one.part == part and one not in sure]
    against = [
        one
        for one in rest
        if (one.delta - one.half if total > 0 else -one.delta - one.half) <= -AGAINST * abs(total)
    ]
    return None if against else total


def _rare_total(phase: PhaseCells) -> float | None:
    """What rare steps add to a phase, of few runs, whose causes are too many to test.

    Slow steps of a lone run follow one another: they may be one bad spell of its machine, which their scatter does not tell. Only
    what is far larger than such spells were counts there. None where the typical step goes the other way by as much.
    """
    found = phase.tail.estimate
    delta, runs = float(found.delta[STEP]), min(phase.runs)
    least = (CARRIES if runs > 1 else LARGE_RARE) * phase.step_ns
    if (delta + float(phase.typical.estimate.delta[STEP])) * delta <= 0:
        return None
    return delta if runs < FEW and found.p[STEP] < RARE and abs(delta) >= least else None


def _quiet(phase: PhaseCells) -> bool:
    """Whether rare steps, too, are about the same."""
    return abs(float(phase.tail.estimate.delta[STEP])) <= 3 * SAME * phase.step_ns


def _same(whole: Estimate) -> bool:
    delta, half = abs(float(whole.delta[STEP])), float(whole.half[STEP])
    limit = SAME * float(max(whole.baseline[STEP], whole.candidate[STEP]))
    return delta <= limit and delta + half <= 3 * limit


def _only_host(phase: PhaseCells) -> bool:
    """Whether the step differs for sure only as long as the speed of the hosts is not taken out."""
    part = phase.typical
    if part.sample.speed is None or min(phase.runs) < 2:
        return False
    one, other = part.sample.values
    cell = [STEP]
    raw = estimate(Sample((one[:, cell], other[:, cell])), part.scatter[cell], np.zeros(1))
    gap = float(part.estimate.host_speed[STEP])
    return bool(raw.p[0] < ALPHA and part.estimate.p[STEP] >= ALPHA and abs(gap) >= LEAST * phase.step_ns)


def launched(facts: VerdictFacts, launch: Launch, findings: Sequence[Finding]) -> VerdictFacts:
    """With the way of launching, where it changed and no finding says so."""
    moved = abs(launch.candidate.graph_coverage - launch.baseline.graph_coverage) >= MOVED
    if not moved or facts.basis not in ("phase", "part") or any(one.facts.graph_coverage for one in findings):
        return facts
    return replace(facts, graph_coverage=True)


# Numbers of the result.


def delta_of(found: Estimate, cell: int = STEP) -> Delta:
    """One cell of an estimate."""
    delta, half = float(found.delta[cell]), float(found.half[cell])
    error = float(found.error[cell])
    return Delta(
        baseline_ns=float(found.baseline[cell]),
        candidate_ns=float(found.candidate[cell]),
        delta_ns=delta,
        ci_low_ns=delta - half,
        ci_high_ns=delta + half,
        host_speed_ns=float(found.host_speed[cell]),
        p_value=float(found.p[cell]),
        noise_floor_ns=half,
        detectable_ns=float(detectable(np.array([error]), found.df[[cell]])[0]) if error else 0.0,
    )


def step_of(measured: Measured, *, decided: bool) -> Step:
    """The mean over all compared steps. `decided`: no more runs are needed."""
    whole = measured.whole
    found = delta_of(whole)
    runs = measured.frame.runs
    steps = measured.frame.compared
    source = "repeats" if max(runs[:2]) > 1 else "assumed"
    return Step(
        baseline_ns=found.baseline_ns,
        candidate_ns=found.candidate_ns,
        delta_ns=found.delta_ns,
        ci_low_ns=found.ci_low_ns,
        ci_high_ns=found.ci_high_ns,
        p_value=found.p_value,
        runs=Pair(len(measured.frame.kept(0)), len(measured.frame.kept(1))),
        steps=Pair(*(int((steps["side"] == one).sum()) for one in (0, 1))),
        noise_floor_ns=found.noise_floor_ns,
        noise_source="given" if len(runs) > 2 else source,
        min_detectable_ns=found.detectable_ns,
        runs_advised=None if decided else _runs_advised(measured),
        host_speed_ns=found.host_speed_ns,
        time_share=time_share(measured),
    )


def _runs_advised(measured: Measured) -> int | None:
    """Runs a side with which the main phase would show a change of 2 %."""
    judged = in_order([one for one in measured.phases if one.steps.judged])
    if not judged or min(judged[0].runs) < FEW:  # how far runs are apart is not known
        return 5
    one = judged[0]
    return runs_for(float(one.typical.estimate.error[STEP]), one.runs, WANTED * one.step_ns)


def phase_fields(measured: Measured, one: PhaseCells, verdict: Verdict) -> dict[str, Any]:
    """What `model.Phase` says of a compared phase."""
    every = measured.steps
    side, mine = every["side"].to_numpy(), every["phase"].to_numpy() == one.steps.phase
    ns = every["ns"].to_numpy()
    share = [float(ns[mine & (side == at)].sum() / max(ns[side == at].sum(), 1)) for at in (0, 1)]
    start = None
    if one.steps.start_share:
        before, after = (float(one.start[at, STEP]) for at in (0, 1))
        host = host_of_start(one, measured.layout)[:, STEP]
        start = Change(before, after, after - before - float(host[1] - host[0]))
    return {
        "verdict": verdict,
        "typical": delta_of(one.typical.estimate),
        "tail": delta_of(one.tail.estimate),
        "start": start,
        "share": one.steps.share,
        "start_share": one.steps.start_share,
        "time_share": Shares(*share),
        "runs": Pair(*one.runs),
        "steps": Pair(*one.steps.steps[:2]),
        "workload": one.steps.workload,
        "repeated": one.steps.repeated,
        "judged": one.steps.judged,
        "host_speed": None if one.speed is None else math.exp(one.speed),
        "odd_runs": measured.odd if one is in_order(measured.phases)[0] else [],
    }


_ODD = 6.0  # robust standard deviations from the other runs of its side
_ODD_PART = 0.03  # of the step, at least
_ODD_SPEED = 0.4  # log ratio: a host half as fast again is no longer taken out by a slope
_LEAST_LEFT = 4  # runs of a side that stay for each one that is left out


def odd_runs(measured: Measured) -> dict[tuple[int, int], OddRun]:
    """Runs whose typical step, in the phase that users feel first, lies apart from the others of their side: (side, run) -> what is odd.

    The speed of its host is taken out before, where that is not far off itself. One run of five at most: with more, nobody can say
    which are odd.
    """
    judged = in_order([one for one in measured.phases if one.steps.judged])
    if not judged:
        return {}
    one, found = judged[0], {}
    values, speed = one.typical.estimate.values, one.typical.sample.speed
    residual = np.concatenate([side[:, STEP] - np.median(side[:, STEP]) for side in values])
    spread = max(1.4826 * float(np.median(np.abs(residual))), 0.005 * one.step_ns)
    for side in (0, 1):
        own = values[side]
        if len(own) <= _LEAST_LEFT:
            continue
        apart, slower = _from_others(own), np.zeros(len(own))
        if speed is not None:
            slower = _from_others(speed[side][:, None])[:, 0]
        far = np.abs(apart[:, STEP]) > max(_ODD * spread, _ODD_PART * one.step_ns)
        far |= np.abs(slower) > _ODD_SPEED
        if far.sum() > len(own) // (_LEAST_LEFT + 1):
            continue
        for run in np.flatnonzero(far).tolist():
            sign = np.sign(apart[run, STEP])
            cells = measured.layout.categories
            most = max(CATEGORIES, key=lambda name, run=run, sign=sign: apart[run, cells[name]] * sign)  # type: ignore[misc]
            number = int(one.run_numbers[side][run])
            found[side, number] = OddRun(
                SIDES[side],
                measured.sides[side].runs[number].name,
                float(apart[run, STEP]),
                most,
                float(apart[run, cells[most]]),
                None if speed is None else math.exp(float(slower[run])),
                left_out=True,
            )
    return found


def _from_others(values: Floats) -> Floats:
    """How far each run is from the median of the others, (runs, cells)."""
    return np.asarray(
        [own - np.median(np.delete(values, run, axis=0), axis=0) for run, own in enumerate(values)]
    )


def phases_of(measured: Measured, rows: list[Phase], verdicts: dict[str, Verdict]) -> list[Phase]:
    """The phases of the result with what was found of each. `rows`: their distributions."""
    known = {one.steps.phase: one for one in measured.phases}
    return [
        replace(row, **phase_fields(measured, known[row.phase], verdicts[row.phase]))
        if row.phase in known
        else row
        for row in rows
    ]
