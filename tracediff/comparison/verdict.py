"""The verdict of each phase and of the whole: whether what was observed would repeat.

A step is slower or faster where the 95 % interval of its change leaves out 0, corrected for the number of phases (Holm 1979): likely so
with up to three runs a side, surely with four or more where dealing the runs out anew says the same. The mean speaks instead of the
typical step where rare steps hold the change. The whole follows from the phases: the one that users feel first, unless another lost
or gained twice the time, ten times where they moved against each other; then from sure causes, where nothing else can have moved the other
way.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import polars as pl
from msgspec.structs import replace

from tracediff.arrays import Floats
from tracediff.comparison.cells import STEP, Measured, Part, PhaseCells
from tracediff.comparison.places import Judged, Judgement
from tracediff.execution.sides import parts_of
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
from tracediff.model.causes import BUSY, CATEGORIES, SURELY
from tracediff.model.common import SIDES
from tracediff.stats.noise import NU, Estimate
from tracediff.stats.rules import LEAST, LITTLE, MOSTLY, NEARLY, OTHER_CPU, PERMUTE
from tracediff.stats.tests import ALPHA, ODD, WANTED, detectable, holm, robust, runs_for
from tracediff.trace.workloads import IRREGULAR, is_class

WORTH = 0.005  # of the step: a smaller change of a phase is no verdict, a smaller part of one no cause in a sentence
ROUNDING = 1e-6  # ns: sums of the same numbers in another order differ by less
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


def judge_phases(measured: Measured) -> dict[str, dict[str, Verdict]]:
    """Phase -> verdict of its typical step and of its mean."""
    phases = measured.phases
    found: dict[str, dict[str, Verdict]] = {one.steps.phase: {} for one in phases}
    for name in ("typical", "mean"):
        parts: list[Part] = [getattr(one, name) for one in phases]
        joint = _joint_p(phases, parts)
        corrected = holm([float(part.estimate.p[STEP]) for part in parts])
        for one, part, p in zip(phases, parts, corrected, strict=True):
            of = _verdict(one, part, joint.get(one.steps.phase, 1.0), p)
            found[one.steps.phase][name] = of if measured.tested(one) else "inconclusive"
    return found


def moved(verdicts: dict[str, dict[str, Verdict]]) -> set[tuple[str, str]]:
    """The phases and parts of which the step is slower or faster, likely or surely."""
    sure = (*_CERTAIN, *_LIKELY)
    return {(phase, part) for phase, of in verdicts.items() for part, one in of.items() if one in sure}


def _verdict(one: PhaseCells, part: Part, joint: float, p: float) -> Verdict:
    found = part.estimate
    if _identical(one.typical.estimate) and _identical(one.tail.estimate):
        return "no_change"
    if load_explains(one):
        return "inconclusive"
    delta = float(found.delta[STEP])
    if abs(delta) >= WORTH * max(found.baseline[STEP], found.candidate[STEP]) and p < ALPHA:
        sure = min(one.runs) >= PERMUTE and joint <= ALPHA and one.steps.judged
        if delta > 0:
            return "regressed" if sure else "likely_regressed"
        return "improved" if sure else "likely_improved"
    return "no_change" if found.about_same(STEP, SURELY) else "inconclusive"


def _identical(found: Estimate) -> bool:
    """Whether both sides are the same in every cell."""
    return not (np.abs(found.delta) > ROUNDING).any()


def load_explains(one: PhaseCells) -> bool:
    """Whether other batches may be all that changed: a step with r times the requests and tokens takes r times as long at most."""
    if one.steps.load is None:
        return False
    found = one.typical.estimate
    load = math.log(one.steps.load[1] / one.steps.load[0])
    base = float(found.baseline[STEP])
    step = math.log(max((base + float(found.delta[STEP])) / base, 1e-9)) if base > 0 else 0.0
    return step * load > 0 and abs(step) <= abs(load)


def _joint_p(phases: Sequence[PhaseCells], parts: Sequence[Part]) -> dict[str, float]:
    """Of each phase, the part of the ways to deal the runs out in which the largest |t| of any phase is as large as its own.

    Westfall and Young (1993). Runs are dealt out whole; phases that other runs have are dealt out by themselves.
    """
    found: dict[str, float] = {}
    groups: dict[tuple[bytes, bytes], list[tuple[PhaseCells, Part]]] = {}
    for one, part in zip(phases, parts, strict=True):
        if part.dealt() is not None:
            numbers = (
                one.run_numbers if part.name == "typical" else [np.arange(many) for many in part.sample.runs]
            )
            groups.setdefault((numbers[0].tobytes(), numbers[1].tobytes()), []).append((one, part))
    for group in groups.values():
        dealt = group[0][1].dealt()
        assert dealt is not None
        t = np.stack([part.permuted(part.estimate.take([STEP]), dealt)[:, 0] for _, part in group], axis=1)
        most = t.max(axis=1)
        for column, (one, _) in enumerate(group):
            found[one.steps.phase] = float((most >= t[0, column] * (1 - 1e-9)).mean())
    return found


# The whole.


_CERTAIN: tuple[Verdict, ...] = ("regressed", "improved")
_LIKELY: tuple[Verdict, ...] = ("likely_regressed", "likely_improved")


def decide(
    measured: Measured,
    judged: Judged,
    verdicts: dict[str, dict[str, Verdict]],
    *,
    comparable: bool,
    gpu: float | None = None,
    steps: tuple[float, float] | None = None,
) -> tuple[Verdict, VerdictFacts]:
    """The verdict of the whole and its basis. `gpu`: see `gpu_change`, where no phase is judged; `steps`: see `other_steps`."""
    if not comparable:
        return "not_comparable", VerdictFacts("checks")
    verdict, facts = _decided(measured, judged, verdicts, gpu)
    classes = measured.frame.regular["phase"].unique().to_list()
    by_launches = len(classes) > 1 and all(one == IRREGULAR or is_class(one) for one in classes)
    raw = raw_change(measured)
    if steps is not None:
        raw = (1 + raw) * steps[1] / steps[0] - 1
    said = cautious(
        verdict, time_share(measured), raw, by_launches=by_launches, other_steps=steps is not None
    )
    recorded = None if steps else recorded_steps(measured)
    if recorded is not None:
        every = (1 + raw) * recorded[1] / recorded[0] - 1
        against = said.endswith("improved" if every > 0 else "regressed")
        said = "inconclusive" if against and abs(every) >= LITTLE else said
    if facts.basis == "identical" and said != verdict:  # only what is compared is
        facts = VerdictFacts("scatter", in_order(measured.phases)[0].steps.phase)
    return said, replace(facts, by_launches=by_launches, other_steps=steps, recorded_steps=recorded)


_WEAKER: dict[Verdict, Verdict] = {
    "regressed": "likely_regressed", "likely_regressed": "likely_regressed", "improved": "likely_improved",
    "likely_improved": "likely_improved",
}  # fmt: skip


def cautious(
    verdict: Verdict, shares: Shares, raw: float, *, by_launches: bool = False, other_steps: bool = False
) -> Verdict:
    """The verdict of captures of which less than half is compared: likely at best, and none against the raw means.

    `raw`: what the mean over all steps changed by, as a part of the baseline's; their sum, where as much work takes other steps. by_launches: as in
    `VerdictFacts`: no verdict against what moved far. other_steps: that is so: no verdict but of a sum that moved far.
    """
    if verdict == "not_comparable":
        return verdict
    along = raw > 0 if verdict.endswith("regressed") else raw < 0
    if other_steps and not (along and abs(raw) >= LITTLE):
        return "inconclusive"
    if min(shares.baseline, shares.candidate) >= MOSTLY:
        against = by_launches and abs(raw) >= LITTLE and not (along and verdict in _WEAKER)
        return "inconclusive" if against else verdict
    if verdict == "no_change" and abs(raw) <= SURELY:
        return verdict
    return _WEAKER.get(verdict, "inconclusive") if along else "inconclusive"


def time_share(measured: Measured) -> Shares:
    """The part of each side's step time that is compared, of all but what its runs begin with."""
    side, ns, weight = (measured.frame.regular[name].to_numpy() for name in ("side", "ns", "weight"))
    shares = [float(ns[(side == one) & (weight > 0)].sum() / max(ns[side == one].sum(), 1)) for one in (0, 1)]
    return Shares(*shares)


def raw_change(measured: Measured) -> float:
    """What the mean of all steps of the runs that count, but for what these begin with, changed by, as a part of the baseline's."""
    side, run, ns = (measured.frame.regular[name].to_numpy() for name in ("side", "run", "ns"))
    one, other = (float(ns[(side == at) & np.isin(run, measured.frame.kept(at))].mean()) for at in (0, 1))
    return (other - one) / one if one else 0.0


def other_steps(measured: Measured) -> tuple[float, float] | None:
    """The steps of a run of each side, where results of as many bytes in all come to the host in other steps: the same work in a third more, or in a quarter fewer.

    Of the ranks that have results, and of the devices of these, on average. They come in most steps of the side that has fewer, and in as many of the other.
    """
    sums = np.zeros((4, 2))  # ranks and devices, their steps, those with results, the bytes of these
    for side, run, _, part in parts_of(measured.sides[:2]):
        if run in measured.frame.kept(side):
            results = pl.col("what").is_in(
                np.flatnonzero((part.counted["name"] == "[memcpy DtoH]").to_numpy())
            )
            size = part.counts.filter(results).group_by("period").agg(pl.col("bytes").sum())
            units = part.periods.join(size, on="period", how="left").group_by("rank", "device")
            found = units.agg(steps=pl.len(), told=pl.col("bytes").count(), size=pl.col("bytes").sum())
            found = found.filter(pl.col("told") > 0).select(pl.len(), pl.col("steps", "told", "size").sum())
            sums[:, side] += found.to_numpy()[0]
    if not sums.all():
        return None
    steps, with_some = sums[1:3] / sums[0]
    size = sums[3] / [len(measured.frame.kept(side)) for side in (0, 1)]
    as_many = np.ptp(size) <= LITTLE * size.max() and (with_some >= NEARLY * steps.min()).all()
    return (float(steps[0]), float(steps[1])) if as_many and steps.min() <= NEARLY * steps.max() else None


def recorded_steps(measured: Measured) -> tuple[float, float] | None:
    """The steps of a run of each side, where the programs themselves began to record and recorded other numbers of steps.

    A program that stops after so many steps has as many on both sides, and one that stops after a time takes as long: what is left is one that
    stops when its work is done. All steps together then changed by what the recordings did, to a tenth: else some are missing, whose calls were
    lost, or whose labels are another thread's.
    """
    if measured.frame.once or not all(part.by_program for side in measured.sides[:2] for part in side.parts):
        return None
    of_runs = measured.frame.regular.group_by("side", "run", "unit").agg(pl.len(), pl.col("ns").sum())
    of_sides = of_runs.group_by("side").agg(pl.col("len", "ns").mean()).sort("side")
    (before, after), (ns_before, ns_after) = (of_sides[name].to_list() for name in ("len", "ns"))
    one, other = (
        sum(part.duration_ns for part in side.parts) / len(side.parts) for side in measured.sides[:2]
    )
    as_long = abs(ns_after * one - ns_before * other) < LITTLE * ns_before * other
    return (before, after) if as_long and abs(after - before) >= LITTLE * min(before, after) else None


def _decided(
    measured: Measured, judged: Judged, verdicts: dict[str, dict[str, Verdict]], gpu: float | None
) -> tuple[Verdict, VerdictFacts]:
    """The verdict of what is compared."""
    phases = in_order(measured.phases)
    if _identical(measured.whole):
        return "no_change", VerdictFacts("identical")
    main = phases[0].steps.phase
    if measured.frame.once and not phases[0].steps.judged:
        if gpu is None:
            return "inconclusive", VerdictFacts("scatter", main)
        return "likely_regressed" if gpu > 0 else "likely_improved", VerdictFacts("gpu", carried_ns=gpu)
    for wanted in (_CERTAIN, _LIKELY):
        found = [(one, *said) for one in phases if (said := _moved(one, judged, verdicts, wanted))]
        if found:
            most, largest, _ = max(found, key=lambda moved: _gained(moved[0]))
            return next(
                (said, facts)
                for one, said, facts in found
                if _gained(one) >= (MOSTLY if said == largest else LITTLE) * _gained(most)
            )
    moved = any(_sure(judged, one, ("exact", "confirmed")) for one in phases)
    host = _only_host(phases[0])
    quiet = all(verdicts[one.steps.phase]["typical"] == "no_change" and _quiet(one) for one in phases)
    if measured.whole.about_same(STEP, SURELY) or quiet:
        return "no_change", VerdictFacts("same", main, host=host, moved=moved)
    load = next(
        (
            Load(*one.steps.load, one.steps.phase)
            for one in phases
            if one.steps.load and load_explains(one) and (one is phases[0] or one.steps.loads_apart)
        ),
        None,
    )
    basis: Literal["rare", "scatter"] = "rare" if phases[0].rare else "scatter"
    return "inconclusive", VerdictFacts(basis, main, host=host, moved=moved, load=load)


def _moved(
    one: PhaseCells, judged: Judged, verdicts: dict[str, dict[str, Verdict]], wanted: tuple[Verdict, ...]
) -> tuple[Verdict, VerdictFacts] | None:
    """The verdict of one phase where it is as sure as is wanted, and its basis."""
    of, name = verdicts[one.steps.phase], one.steps.phase
    if one.rare and of["mean"] in wanted:
        return of["mean"], VerdictFacts("rare", name)
    if of["typical"] in wanted:
        return of["typical"], VerdictFacts("phase", name)
    carried = None if load_explains(one) else _carried(one, judged, sure=wanted is _CERTAIN)
    return (wanted[carried < 0], VerdictFacts("part", name, carried)) if carried else None


def _gained(one: PhaseCells) -> float:
    """What a mean step of all phases gained or lost by those of one, ns."""
    return one.steps.share * abs(float(one.mean.estimate.delta[STEP]))


Spoken: TypeAlias = Mapping[str, Literal["typical", "mean"]]  # phase -> the step that is spoken of


def spoken_of(
    measured: Measured, verdicts: Mapping[str, Mapping[str, Verdict]], facts: VerdictFacts
) -> Spoken:
    """Of each phase the surer step, the mean before the typical one where rare steps hold the change; where causes of a typical step carry the verdict, that one."""

    def of(one: PhaseCells) -> Literal["typical", "mean"]:
        mine = verdicts[one.steps.phase]
        if facts.basis == "part" and one.steps.phase == facts.phase:
            return "typical"
        for wanted in (_CERTAIN, _LIKELY):
            if one.rare and mine["mean"] in wanted:
                return "mean"
            if mine["typical"] in wanted:
                return "typical"
        return "mean" if one.rare else "typical"

    return {one.steps.phase: of(one) for one in measured.phases}


def first_of(measured: Measured, spoken: Spoken, facts: VerdictFacts) -> tuple[PhaseCells, Part]:
    """The phase and its step that the first sentence is of."""
    phases = in_order(measured.phases)
    one = next((phase for phase in phases if phase.steps.phase == facts.phase), phases[0])
    return one, one.part(spoken[one.steps.phase])


def gpu_change(measured: Measured) -> float | None:
    """What captures of one step each and of the same work differ by in GPU time, ns, where that is beyond noise; else None."""
    part = measured.phases[0].mean
    found = part.grouped([[measured.layout.categories[name] for name in BUSY]])
    large = abs(float(found.delta[0])) >= SURELY * float(
        max(measured.whole.baseline[STEP], measured.whole.candidate[STEP])
    )
    return float(found.delta[0]) if large and found.p[0] < ALPHA else None


def _sure(judged: Judged, phase: PhaseCells, levels: Sequence[str]) -> list[Judgement]:
    return [
        one for one in judged.rows if one.phase is phase and one.part == "typical" and one.level in levels
    ]


def _carried(phase: PhaseCells, judged: Judged, *, sure: bool) -> float | None:
    """The sum of sure causes of a typical step where it carries the verdict: large enough, as the step moved, and no cause, sure or not, can be as far against it."""
    if sure and min(phase.runs) < PERMUTE:  # of few runs everything is likely at best
        return None
    # of an exact count, the time may be unsure
    levels = ("exact", "confirmed") if sure else ("exact", "confirmed", "likely")
    rows = [one for one in _sure(judged, phase, levels) if one.clear]
    total = sum(one.delta for one in rows)
    if abs(total) < SURELY * phase.step_ns:
        return None
    rest = [one for one in judged.rows if one.phase is phase and one.part == "typical" and one not in rows]
    # what the sum has, by how far it moved; of the rest, how far it may have
    most = [(one.delta, one.delta) for one in rows] + [(one.low, one.high) for one in rest]
    against = any((low if total > 0 else -high) <= -NEARLY * abs(total) for low, high in most)
    step = float(phase.typical.estimate.delta[STEP])
    return None if against or total * step <= 0 else total


def _quiet(phase: PhaseCells) -> bool:
    """Whether rare steps, too, are about the same."""
    return abs(float(phase.tail.estimate.delta[STEP])) <= 3 * SURELY * phase.step_ns


def _only_host(phase: PhaseCells) -> bool:
    """Whether the interval holds 0 only because hosts of unlike speed may explain the change."""
    found = phase.typical.estimate
    delta, host = float(found.delta[STEP]), float(found.host_speed[STEP])
    if abs(host) < WORTH * phase.step_ns or delta * host <= 0 or found.clear[STEP]:
        return False
    arm = (
        float(found.low[STEP] - min(delta, delta - host))
        if delta > 0
        else float(max(delta, delta - host) - found.high[STEP])
    )
    return bool(abs(delta) > abs(arm))


def launched(facts: VerdictFacts, launch: Launch, findings: Sequence[Finding]) -> VerdictFacts:
    """With the way of launching, where it changed and no finding says so."""
    moved = abs(launch.candidate.graph_coverage - launch.baseline.graph_coverage) >= MOSTLY
    if not moved or facts.basis not in ("phase", "part") or any(one.facts.graph_coverage for one in findings):
        return facts
    return replace(facts, graph_coverage=True)


# Numbers of the result.


def delta_of(found: Estimate) -> Delta:
    """The step of an estimate."""
    half = float(found.half[STEP])
    return Delta(
        **found.change(STEP),
        host_speed_ns=float(found.host_speed[STEP]),
        p_value=float(found.p[STEP]),
        noise_floor_ns=half,
        detectable_ns=float(detectable(found.error(STEP), found.df)) if half else 0.0,
    )


def step_of(measured: Measured, *, decided: bool) -> Step:
    """The mean over all compared steps. `decided`: no more runs are needed."""
    found, runs, steps = delta_of(measured.whole), measured.frame.runs, measured.frame.compared
    source = "repeats" if max(runs[:2]) > 1 else "assumed"
    return Step(
        **measured.whole.change(STEP),
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
    one = in_order(measured.phases)[0]
    if min(one.runs) < PERMUTE - 1:  # how far runs are apart is not known
        return 5
    return runs_for(one.typical.estimate.error(STEP), one.runs, WANTED * one.step_ns, NU)


def phase_fields(
    measured: Measured, one: PhaseCells, verdict: Mapping[str, Verdict], of: Literal["typical", "mean"]
) -> dict[str, Any]:
    """What `model.Phase` says of a compared phase. `of`: the step that its verdict is of."""
    every = measured.frame.regular
    side, mine = every["side"].to_numpy(), every["phase"].to_numpy() == one.steps.phase
    ns = every["ns"].to_numpy()
    share = [float(ns[mine & (side == at)].sum() / max(ns[side == at].sum(), 1)) for at in (0, 1)]
    start = None
    if one.steps.start_share:
        before, after = (float(one.start[at, STEP]) for at in (0, 1))
        start = Change(before, after, after - before)
    return {
        "verdict": verdict[of],
        "verdict_of": of,
        "typical": delta_of(one.typical.estimate),
        "mean": delta_of(one.mean.estimate),
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


def odd_runs(measured: Measured) -> dict[tuple[int, int], OddRun]:
    """Runs whose typical step, in the phase that users feel first, lies apart from the others of their side: (side, run) -> what is odd.

    The speed of its host is taken out before, where that is not far off itself. One run of five at most: with more, nobody can say
    which are odd.
    """
    judged = in_order([one for one in measured.phases if one.steps.judged])
    if not judged:
        return {}
    one, found = judged[0], {}
    values, speed = one.typical.estimate.even, one.typical.sample.speed
    residual = np.concatenate([side[:, STEP] - np.median(side[:, STEP]) for side in values])
    limit = max(ODD * robust(residual), 3 * SURELY * one.step_ns)
    for side in (0, 1):
        own = values[side]
        if len(own) <= LEAST:
            continue
        apart, slower = _from_others(own), np.zeros(len(own))
        if speed is not None:
            slower = _from_others(speed[side][:, None])[:, 0]
        far = np.abs(apart[:, STEP]) > limit
        far |= np.abs(slower) > OTHER_CPU
        if far.sum() > len(own) // (LEAST + 1):
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


def phases_of(
    measured: Measured,
    rows: list[Phase],
    verdicts: Mapping[str, Mapping[str, Verdict]],
    spoken: Spoken,
    whole: tuple[Verdict, VerdictFacts],
) -> list[Phase]:
    """The phases of the result with what was found of each. `rows`: their distributions; `whole`: its verdict, which a phase bears that carries it by its parts."""
    verdict, facts = whole
    if facts.basis == "part":
        verdicts = {**verdicts, facts.phase: {**verdicts[facts.phase], spoken[facts.phase]: verdict}}
    known = {one.steps.phase: one for one in measured.phases}
    return [
        replace(row, **phase_fields(measured, known[row.phase], verdicts[row.phase], spoken[row.phase]))
        if row.phase in known
        else row
        for row in rows
    ]
