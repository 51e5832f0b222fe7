"""Findings: one cause at one place each, ranked by the time that survives its uncertainty, whatever its level.

Judged places -> candidates of phases -> what belongs to what -> ranked findings -> what ranks, OS calls and memory add to them ->
what comes of another way of launching. Findings carry data; report/phrases.py writes their sentences.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
import polars as pl

from tracediff.accounting.intervals import Floats
from tracediff.comparison.cells import IdleKey, Measured
from tracediff.comparison.evidence import LABELS, idle_sql, kernel_sql
from tracediff.comparison.places import MATERIAL, PERMUTE, Judged, Judgement
from tracediff.comparison.strata import Strata
from tracediff.comparison.verdict import MOVED
from tracediff.execution.sides import Side, stacked
from tracediff.kernels.categories import category
from tracediff.kernels.matching import Match
from tracediff.kernels.names import short
from tracediff.model import (
    AllocationFact,
    ApiRow,
    Finding,
    FindingEvidence,
    FindingFacts,
    FindingPart,
    Held,
    HostWorkRow,
    Launch,
    MemoryRow,
    Mix,
    Moment,
    Note,
    OsCallFact,
    PhaseDelta,
    PhaseShare,
    RangeRow,
    RankRow,
    RareFact,
    Relaunched,
    System,
    ThreadRow,
    VerdictFacts,
    WaitFact,
    Where,
)
from tracediff.model.causes import CAUSES
from tracediff.stats.estimator import Sample, estimate
from tracediff.trace.ranges import STEP_PLACE, beside

SIDES: tuple[Literal["baseline"], Literal["candidate"]] = ("baseline", "candidate")
_SURE = ("exact", "confirmed", "likely")
_MOST = 60  # findings


class RankSize(NamedTuple):
    """A cell on one rank: ns per step of each run, and of each side."""

    baseline_runs: list[float]
    candidate_runs: list[float]
    baseline: float
    candidate: float

    @property
    def delta(self) -> float:
        """Candidate - baseline."""
        return self.candidate - self.baseline


@dataclass(frozen=True, eq=False)
class Candidate:
    """A place that changed in a phase, before it is ranked."""

    cause: str
    where: Where
    judged: Judgement
    sql: str
    facts: FindingFacts
    moments: list[Moment] = field(default_factory=list)
    count: tuple[float, float] | None = None  # events per step of the phase
    parts: tuple[FindingPart, ...] = ()
    elsewhere: tuple[PhaseDelta, ...] = ()
    level: str = ""
    explained: float = 0.0  # what of its time survives its uncertainty, with that of what follows from it
    differs: bool = False  # other numbers of kernels in every step
    of_rank: RankSize | None = None  # where one rank alone changed

    def with_facts(self, **facts: object) -> FindingFacts:
        """Its facts and some more."""
        return msgspec.structs.replace(self.facts, **facts)


def find(
    measured: Measured,
    judged: Judged,
    facts: VerdictFacts,
    launch: Launch,
    ranks: list[RankRow],
    system: System | None,
    mix: Mix,
    strata: Strata,
) -> tuple[list[Finding], Relaunched | None]:
    """All findings in order; second, what comes of another way of launching. `facts`: of the verdict, whose phase leads."""
    describe = _Describe(measured)
    candidates = [
        describe(one)
        for one in judged.rows
        if not np.isnan(one.q) and (_material(one) or describe.differs(one))
    ]
    candidates = with_consequences(with_synchronisation(candidates, launch.apis))
    candidates = [
        one
        for one in candidates
        if _material(one.judged) or any(part.follows for part in one.parts) or cancels(one)
    ]
    candidates = sorted(merged(candidates, facts.phase), key=_order)
    findings = [_finding(one, measured) for one in candidates[:_MOST]]
    findings = with_system(explain_collectives(findings, ranks), system)
    findings += mix_finding(measured, mix, strata)
    findings, relaunched = launched_otherwise(findings, launch)
    return [msgspec.structs.replace(one, rank=number) for number, one in enumerate(findings, 1)], relaunched


def _often(rare: RareFact | None) -> bool:
    """Whether a run has a step of the kind, on one side: less is no rare step but the noise of the others."""
    return rare is not None and max(rare.baseline_steps, rare.candidate_steps) >= 1


def _material(one: Judgement) -> bool:
    return abs(one.delta) >= MATERIAL * one.phase.step_ns


def cancels(one: Candidate) -> bool:
    """Whether counted kernels change by much more than their sum says."""
    least = MATERIAL * one.judged.phase.step_ns
    return one.level == "exact" and any(abs(part.delta_ns) >= least for part in one.parts)


def _order(one: Candidate) -> tuple[float, bool, float, str, str]:
    """The most explained time first; of what may all be noise, what is counted, then the largest."""
    return (
        -one.explained,
        one.level == "within_noise",
        -abs(one.judged.delta) * one.judged.phase.steps.share,
        one.cause,
        repr(one.where),
    )


def merged(candidates: list[Candidate], first: str) -> list[Candidate]:
    """One candidate for each place: in the phase of the verdict where it is more than noise there, else where it explains most."""
    by_place: dict[Any, list[Candidate]] = {}
    for one in candidates:
        by_place.setdefault(one.judged.place, []).append(one)
    out = []
    for group in by_place.values():
        group.sort(key=_order)
        own = [
            one
            for one in group
            if one.judged.phase.steps.phase == first and (one.explained > 0 or one.level in _SURE)
        ]
        lead = (own or group)[0]
        rest = [
            PhaseDelta(
                one.judged.phase.steps.phase, one.judged.part, one.judged.delta, one.judged.delta - one.judged.half,
                one.judged.delta + one.judged.half, one.judged.level,
            )
            for one in group
            if one is not lead
        ]  # fmt: skip
        out.append(replace(lead, elsewhere=tuple(rest)))
    return out


# What a candidate is of.


class _Describe:
    """Judgements -> candidates with cause, place and evidence."""

    def __init__(self, measured: Measured) -> None:
        self._m = measured
        sides, layout = measured.sides, measured.layout
        self._moments = stacked(sides, "moments").sort("end", descending=True)
        self._key = dict(zip(layout.idle, layout.idle_keys, strict=True))
        self._row = {cell: number for number, cell in enumerate(layout.kernels)}
        self._host_only = not all(side.captured("kernels") for side in sides)
        self._ranks = measured.frame.steps["rank"].n_unique()
        self._idle = layout.idle_rows.with_columns(
            phase=measured.frame.steps["phase"].gather(layout.idle_rows["step"])
        )

    def differs(self, one: Judgement) -> bool:
        """Whether every typical step launches another number of some kernel of the place."""
        if one.place.kind != "kernels" or one.part != "typical":
            return False
        counts = self._m.kernels.differs[one.phase.steps.phase]
        return any(counts[self._row[cell]] for cell in one.place.cells)

    def __call__(self, one: Judgement) -> Candidate:
        return self._of_idle(one) if one.place.kind == "idle" else self._of_kernels(one)

    def _of_idle(self, one: Judgement) -> Candidate:
        m, cell = self._m, one.place.cells[0]
        key = self._key[cell]
        phase = one.phase.steps.phase
        mine = self._idle.filter(pl.col("cell") == cell, pl.col("phase") == phase)
        weight = pl.Series(one.phase.steps.mean[mine["step"].to_numpy()])
        events = mine.with_columns(value=pl.col("count") * weight).group_by("side").agg(pl.col("value").sum())
        count = dict(events.iter_rows())
        place = idle_place(key, mine, m.idle.words)
        holder_place = key.where if key.cause == "gil_wait" else ""
        longest, apis = _moments(longest_first(self._moments, key), m.sides)
        after = one.delta >= 0
        api = (apis[after] or apis[not after]) if CAUSES[key.cause].calls else ""
        without_gc = [key.cause == "gc" and not side.captured("gc") for side in m.sides]
        facts = FindingFacts(
            host_only=self._host_only,
            copies=key.copy,
            baseline_without_gc=without_gc[0],
            candidate_without_gc=without_gc[1],
        )
        if one.part == "tail":
            facts = msgspec.structs.replace(facts, rare=self._rare(one, mine))
        candidate = Candidate(
            key.cause,
            Where(
                range=place or None,
                thread=key.thread or None,
                holder_thread=key.holder or None,
                holder_range=holder_place or None,
                api=api or None,
                phase=phase,
            ),
            one,
            idle_sql(key.cause, place, holder_place, copies=key.copy),
            facts,
            longest,
            (count.get(0, 0.0), count.get(1, 0.0)),
            level=one.level if one.part == "typical" or _often(facts.rare) else "within_noise",
            explained=one.score,
        )
        return self._of_one_rank(candidate, mine) if self._ranks > 1 else candidate

    def _rare(self, one: Judgement, mine: pl.DataFrame) -> RareFact | None:
        """How many steps per run have far more of the cell than the typical one. `mine`: rows of the cell in the phase."""
        frame, cell = self._m.frame, one.place.cells[0]
        typical = one.phase.typical.estimate
        usual = float(max(typical.baseline[cell], typical.candidate[cell]))
        far = usual + max(10_000.0, 0.5 * usual, 0.02 * one.phase.step_ns)
        spent = mine.group_by("step").agg(pl.col("ns").sum())
        steps = spent.filter(pl.col("ns") > far)["step"].to_numpy()
        side = frame.steps["side"].to_numpy()
        rest = one.phase.steps.rest > 0
        runs = one.phase.runs
        some = [float((rest[steps] & (side[steps] == at)).sum()) / runs[at] for at in (0, 1)]
        if not any(some):
            return None
        every = [float((rest & (side == at)).sum()) / runs[at] for at in (0, 1)]
        return RareFact(some[0], some[1], every[0], every[1], float(typical.delta[cell]))

    def _of_kernels(self, one: Judgement) -> Candidate:
        kernels, phase = self._m.kernels, one.phase.steps.phase
        rows = [self._row[cell] for cell in one.place.cells]
        part = one.phase.typical if one.part == "typical" else one.phase.tail
        sizes = [abs(float(part.estimate.delta[cell])) for cell in one.place.cells]
        order = sorted(range(len(rows)), key=lambda at: -sizes[at])
        described = [self._of_row(rows[at], one, part.estimate, one.place.cells[at]) for at in order]
        cause, where, facts, count, _ = described[0]
        structural = [item for item in described if item[0] in ("kernel_fused", "kernel_split")]
        if structural:  # what the block is about, whatever moved most in it
            cause, where, facts, count, _ = structural[0]
        parts = tuple(item[4] for item in described) if len(rows) > 1 else ()
        names = sorted(
            {op.name for row in rows for op in (*kernels.rows[row].baseline, *kernels.rows[row].candidate)}
        )
        where = msgspec.structs.replace(where, phase=phase)
        return Candidate(
            cause,
            where,
            one,
            kernel_sql(names),
            facts,
            count=count,
            parts=parts,
            level=one.level,
            explained=one.score,
            differs=self.differs(one),
        )

    def _of_row(
        self, row: int, one: Judgement, estimated: Any, cell: int
    ) -> tuple[str, Where, FindingFacts, tuple[float, float], FindingPart]:
        kernels, phase = self._m.kernels, one.phase.steps.phase
        match = kernels.rows[row]
        before, after = (float(count) for count in kernels.of_phase[phase][row])
        means = [
            float(kernels.walls[row, side]) / count if (count := float(kernels.counts[row, side])) else 0.0
            for side in (0, 1)
        ]
        hidden = abs(float(kernels.hidden[row, 1] - kernels.hidden[row, 0]))
        changed = bool(kernels.exact[phase][row]) or abs(after - before) > 0.02 * max(before, after)
        cause = _kernel_cause(match, (before, after), means, changed)
        where = Where(kernel=kernel_text(match))
        facts = FindingFacts(
            match=match.match,
            confidence=match.confidence,
            baseline_mean_ns=means[0],
            candidate_mean_ns=means[1],
            hidden_ns=hidden if cause == "memcpy" and changed and hidden > 500 else None,
        )
        delta, half = float(estimated.delta[cell]), float(estimated.half[cell])
        part = FindingPart(
            cause,
            where,
            delta,
            delta - half,
            delta + half,
            one.level,
            match=match.match,
            count_baseline=before,
            count_candidate=after,
        )
        return cause, where, facts, (before, after), part

    def _of_one_rank(self, candidate: Candidate, mine: pl.DataFrame) -> Candidate:
        """Where one rank alone changed, the finding is that rank's, with that rank's size: the others wait for it."""
        if candidate.level == "within_noise" or candidate.judged.part == "tail":
            return candidate
        phase, delta = candidate.judged.phase.steps, candidate.judged.delta
        ranks = sorted(self._m.frame.steps["rank"].unique().to_list())
        sizes = {rank: self._rank_size(mine, phase.phase, phase.mean, rank) for rank in ranks}
        moved = sum(abs(one.delta) for one in sizes.values())
        number, size = max(sizes.items(), key=lambda item: abs(item[1].delta))
        if not moved or abs(size.delta) < 0.75 * moved or size.delta * delta <= 0:
            return candidate
        return replace(
            candidate,
            where=msgspec.structs.replace(candidate.where, rank=number),
            of_rank=size,
            facts=candidate.with_facts(delta_all_ranks_ns=delta),
        )

    def _rank_size(self, mine: pl.DataFrame, phase: str, weight: Floats, rank: int) -> RankSize:
        frame = self._m.frame
        of_rank = np.where(frame.steps["rank"].to_numpy() == rank, weight, 0.0)
        steps = mine["step"].to_numpy()
        total = np.bincount(frame.run_number, weights=of_rank, minlength=sum(frame.runs))
        spent = np.bincount(
            frame.run_number[steps], weights=of_rank[steps] * mine["ns"].to_numpy(), minlength=sum(frame.runs)
        )
        first = frame.runs[0]
        runs = [
            [float(spent[at] / total[at]) for at in part if total[at]]
            for part in (range(first), range(first, first + frame.runs[1]))
        ]
        return RankSize(runs[0], runs[1], *(float(np.mean(one)) if one else 0.0 for one in runs))


def idle_place(key: IdleKey, mine: pl.DataFrame, words: pl.DataFrame) -> str:
    """Where the thread was: of what strikes anywhere (gc, gil_wait), for most of the cell's change.

    `mine`: side, piece, ns of the cell; `words`: of each piece.
    """
    if key.cause not in ("gc", "gil_wait"):
        return key.where
    signed = pl.when(pl.col("side") == 1).then(pl.col("ns")).otherwise(-pl.col("ns"))
    pieces = mine.group_by("piece", maintain_order=True).agg(signed.sum().alias("ns"))
    table = (
        pieces.with_columns(place=words["place"].gather(pieces["piece"]))
        .group_by("place", maintain_order=True)
        .agg(pl.col("ns").sum().abs())
        .sort("ns", "place", descending=[True, False])
    )
    return str(table["place"][0]) if len(table) else ""


def longest_first(moments: pl.DataFrame, key: IdleKey) -> pl.DataFrame:
    """The moments of one idle cell, the longest first."""
    chosen = moments.filter(
        pl.col("copy") == key.copy, pl.col("cause") == key.cause, pl.col("thread") == key.thread
    )
    if key.cause == "gil_wait":
        chosen = chosen.filter(pl.col("holder") == key.holder, pl.col("holder_place") == key.where)
    elif key.cause != "gc":
        chosen = chosen.filter(pl.col("place") == key.where)
    return chosen.sort(pl.col("end") - pl.col("start"), "start", descending=[True, False])


def _moments(longest: pl.DataFrame, sides: tuple[Side, Side]) -> tuple[list[Moment], list[str]]:
    """The longest piece on each side, the candidate's first, and the CUDA function that it lies in on both."""
    found, apis = [], ["", ""]
    for side in (1, 0):
        for row in longest.filter(pl.col("side") == side).head(1).iter_rows(named=True):
            run = sides[side].runs[row["run"]].name
            found.append(Moment(SIDES[side], run, row["start"], row["end"], step=row["number"]))
            apis[side] = row["api"]
    return found, apis


# Kernel rows.


def _kernel_cause(match: Match, counts: tuple[float, float], means: Sequence[float], changed: bool) -> str:
    """The cause of a row's change. `counts`: ops per step, `means`: ns of an op, `changed`: the counts differ."""
    names = sorted({op.name for op in (*match.baseline, *match.candidate)})
    kind = category((match.candidate or match.baseline)[0].name)
    if kind == "communication":
        return "comm"
    if kind in ("copy", "memset") and names[0].startswith("["):
        return "memcpy"
    if match.match in ("fused", "split", "added", "removed"):
        return f"kernel_{match.match}"
    by_count = (counts[1] - counts[0]) * means[0] if counts[0] else counts[1] * means[1]
    by_time = counts[1] * (means[1] - means[0]) if counts[0] and counts[1] else 0.0
    if changed and abs(by_count) >= abs(by_time):
        return "kernel_added" if counts[1] > counts[0] else "kernel_removed"
    return "kernel_time"


def kernel_text(match: Match) -> str:
    """The kernels of a row: `a -> 2 x b`, or one side's where both are called the same."""
    sides = [[short(op.name, 60) for op in ops] for ops in match.main]
    before, after = (_folded(names) for names in sides)
    if not before or not after or before == after:
        return before or after
    if {op.name for op in match.baseline} == {op.name for op in match.candidate}:
        return _folded(sides[0][:1])
    return f"{before} -> {after}"


def _folded(names: list[str]) -> str:
    """`a + a + b` -> `2 x a + b`."""
    counts = {name: names.count(name) for name in names}
    return " + ".join(name if count == 1 else f"{count} x {name}" for name, count in counts.items())


# What belongs to what.


def with_consequences(candidates: list[Candidate]) -> list[Candidate]:
    """Launch and graph gaps that moved with the number of kernels are parts of the finding of the kernels that explains most."""
    kernels = [
        one
        for one in candidates
        if one.count
        and (one.level in _SURE or one.differs)
        and (one.where.kernel and one.cause != "comm")
        and one.count[0] != one.count[1]
    ]
    out = candidates
    for phase in {one.judged.phase.steps.phase for one in kernels}:
        own = [
            one for one in kernels if one.judged.phase.steps.phase == phase and one.judged.part == "typical"
        ]
        if not own:
            continue
        change = sum(one.count[1] - one.count[0] for one in own if one.count)
        main = min(own, key=_order)
        ops = sum(one.count[0] for one in candidates if one.count and one.where.kernel)
        copies = any(one.cause == "memcpy" for one in own)
        followers = [
            one
            for one in out
            if one.judged.phase.steps.phase == phase
            and one.judged.part == "typical"
            and one not in own
            and abs(one.judged.delta) > one.judged.half
            and _follows(one, change, ops, copies=copies)
        ]
        out = _as_parts(out, main, followers)
    return out


def _follows(one: Candidate, change: float, ops: float, *, copies: bool) -> bool:
    delta = one.judged.delta
    between_nodes = one.cause == "graph_internal"
    if copies and (one.facts.copies or between_nodes):
        return True  # copies cost their own calls, and fill gaps that a graph left between its nodes
    if "kernels" not in CAUSES[one.cause].follows or delta * change <= 0:
        return False
    if between_nodes:
        return abs(delta) <= 5_000 * abs(change)
    # an eager launch costs the host 5 to 20 us: what is of that size follows from their number
    place = one.where.range or ""
    return ops > 0 and abs(delta) <= 20_000 * abs(change) and STEP_PLACE in (beside(place) or [place])


def _as_parts(candidates: list[Candidate], main: Candidate, followers: list[Candidate]) -> list[Candidate]:
    parts = tuple(
        FindingPart(
            one.cause, one.where, one.judged.delta, one.judged.delta - one.judged.half, one.judged.delta + one.judged.half,
            one.judged.level, follows=True,
        )
        for one in sorted(followers, key=_order)
    )  # fmt: skip
    explained = main.explained + sum(one.explained for one in followers)
    return [
        replace(one, parts=(*one.parts, *parts), explained=explained) if one is main else one
        for one in candidates
        if one not in followers
    ]


_AFTER_SYNC_NS = 60_000  # host work, launch and latency that one synchronising call exposes, at most


def with_synchronisation(candidates: list[Candidate], apis: list[ApiRow]) -> list[Candidate]:
    """More (or fewer) synchronising calls per step expose launching in their place: those are parts of the finding.

    After each such call the GPU is empty: the next launch, its latency and the host work before it are idle time that was hidden
    before. So those follow from the calls, where they moved the same way in the same range.
    """
    before, after = (
        sum(getattr(row, f"{side}_calls") for row in apis if row.kind == "sync") for side in SIDES
    )
    syncs = [
        one
        for one in candidates
        if one.cause == "host_sync"
        and abs(one.judged.delta) > one.judged.half
        and one.judged.delta * (after - before) > 0
    ]
    if abs(after - before) < 0.5 or not syncs:
        return candidates
    main = min(syncs, key=_order)
    followers = [
        one
        for one in candidates
        if one is not main
        and (one.where.range, one.where.thread, one.where.phase)
        == (main.where.range, main.where.thread, main.where.phase)
        and "syncs" in CAUSES[one.cause].follows
        and abs(one.judged.delta) > one.judged.half
        and abs(one.judged.delta) <= _AFTER_SYNC_NS * abs(after - before)
    ]
    counted = replace(main, count=(before, after), facts=main.with_facts(counted_calls=True))
    return _as_parts([counted if one is main else one for one in candidates], counted, followers)


def _finding(one: Candidate, measured: Measured) -> Finding:
    judged = one.judged
    size = one.of_rank or RankSize(
        judged.runs[0].tolist(), judged.runs[1].tolist(), judged.baseline, judged.candidate
    )
    delta, half = judged.delta, judged.half
    if one.of_rank is not None:
        # the other ranks add nothing but their own scatter: the interval grows as the size does
        delta, half = one.of_rank.delta, half * abs(one.of_rank.delta / judged.delta)
    total = float((judged.phase.typical if judged.part == "typical" else judged.phase.tail).estimate.delta[0])
    return Finding(
        rank=0,
        cause=one.cause,
        delta_ns=delta,
        ci_low_ns=delta - half,
        ci_high_ns=delta + half,
        share=judged.delta / total if total else None,
        title="",
        where=one.where,
        evidence=FindingEvidence(
            one.sql, one.moments, size.baseline_runs, size.candidate_runs, *(one.count or (None, None))
        ),
        next="",
        level=one.level,  # type: ignore[arg-type]
        baseline_ns=size.baseline,
        candidate_ns=size.candidate,
        p_value=_number(judged.p),
        q_value=_number(judged.q),
        facts=one.facts,
        part=judged.part,
        held=_held(judged, measured.sides),
        parts=list(one.parts),
        phases=list(one.elsewhere),
        host_speed_ns=judged.host_speed,
    )


def _held(judged: Judgement, sides: tuple[Side, Side]) -> Held:
    """In how many runs of each side the change holds: those on its side of the middle between the sides."""
    one, other = judged.runs
    middle = (float(one.mean()) + float(other.mean())) / 2
    sign = 1 if judged.delta > 0 else -1
    inside = [(middle - one) * sign >= 0, (other - middle) * sign >= 0]
    names = [
        sides[side].runs[int(judged.phase.run_numbers[side][at])].name
        for side in (0, 1)
        for at in np.flatnonzero(~inside[side])
    ]
    return Held(int(inside[0].sum()), int(inside[1].sum()), names)


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


# The mix of steps.

_MOST_LEFT_OUT = 0.5  # of a side's time: with more of it, a difference of raw means is not of the mix


def mix_finding(measured: Measured, mix: Mix, strata: Strata) -> list[Finding]:
    """That the mix of steps changed; it is no part of any delta, which are all at equal workload."""
    if abs(mix.batch_mix_ns) < max(0.01 * mix.baseline_raw_ns, 1000.0):
        return []
    steps, weight = measured.steps, measured.frame.weight[: len(measured.steps)]
    ns, side, run = (steps[name].to_numpy() for name in ("ns", "side", "run"))
    if any(ns[(side == at) & (weight > 0)].sum() < _MOST_LEFT_OUT * ns[side == at].sum() for at in (0, 1)):
        return []
    whole = measured.whole.values
    runs = [
        np.array(
            [
                ns[(side == at) & (run == number) & (weight > 0)].mean() - whole[at][row, 0]
                for row, number in enumerate(measured.frame.kept(at))
            ]
        )
        for at in (0, 1)
    ]
    found = estimate(
        Sample((runs[0][:, None], runs[1][:, None])),
        np.array([0.1 * max(mix.baseline_raw_ns, mix.candidate_raw_ns)]),
        np.zeros(1),
    )
    likely = min(measured.frame.runs[:2]) >= PERMUTE and found.p[0] < 0.01
    half = float(found.half[0])
    return [
        Finding(
            rank=0, cause="batch_mix", delta_ns=mix.batch_mix_ns, ci_low_ns=mix.batch_mix_ns - half,
            ci_high_ns=mix.batch_mix_ns + half, share=None, title="", where=Where(), evidence=FindingEvidence(LABELS, []),
            next="", level="likely" if likely else "within_noise", baseline_ns=mix.baseline_raw_ns,
            candidate_ns=mix.candidate_raw_ns, facts=FindingFacts(shares=_shares(strata)),
        )
    ]  # fmt: skip


def _shares(strata: Strata) -> list[PhaseShare]:
    """Share of each phase but generation in all whole steps, where it changed."""
    counts: dict[str, list[int]] = {}
    for row in strata.rows:
        sums = counts.setdefault(row.phase, [0, 0])
        sums[0] += row.baseline_steps
        sums[1] += row.candidate_steps
    totals = [sum(one[side] for one in counts.values()) for side in (0, 1)]
    shares = [
        PhaseShare(phase, *(one[side] / totals[side] for side in (0, 1))) for phase, one in counts.items()
    ]
    return [
        one
        for one in sorted(shares, key=lambda one: one.phase)
        if one.phase != "generation" and abs(one.baseline - one.candidate) > 0.005
    ]


# Collectives: which rank the others wait for, and how much of a change is waiting, how much transfer.


def explain_collectives(findings: list[Finding], ranks: list[RankRow]) -> list[Finding]:
    """Add to findings of communication who comes last; they go after the finding on that rank that made it late."""
    late = late_rank(ranks)
    if late is None:
        return findings
    waits, transfers = _changes(ranks, "comm_wait_ns"), _changes(ranks, "comm_transfer_ns")
    if abs(sum(waits.values())) < abs(sum(transfers.values())):
        return findings
    longest = max(waits, key=lambda rank: (waits[rank], -rank))
    fact = WaitFact(longest, waits[longest], max(transfers.values(), key=abs))
    explained = []
    for one in findings:
        if one.cause == "comm" and one.delta_ns > 0:
            where = msgspec.structs.replace(one.where, rank=late)
            facts = msgspec.structs.replace(one.facts, late_rank=fact)
            one = msgspec.structs.replace(one, where=where, facts=facts)
        explained.append(one)
    return _after_their_cause(explained, late)


def late_rank(ranks: list[RankRow]) -> int | None:
    """The rank for which the waiting of the others grew most; None where it did not grow or was not measured."""
    grown = _changes(ranks, "caused_wait_ns")
    if len(grown) < 2:
        return None
    late = max(grown, key=lambda one: (grown[one], -one))
    return late if grown[late] > 0 else None


def _changes(ranks: list[RankRow], name: str) -> dict[int, float]:
    pairs = ((row.rank, getattr(row, f"baseline_{name}"), getattr(row, f"candidate_{name}")) for row in ranks)
    return {rank: other - one for rank, one, other in pairs if one is not None and other is not None}


def _after_their_cause(findings: list[Finding], late: int) -> list[Finding]:
    """Waiting on other ranks follows from what slowed the late one."""
    waiting = [one for one in findings if one.cause == "comm" and one.where.rank == late]
    rest = [one for one in findings if one not in waiting]
    causes = [
        number
        for number, one in enumerate(rest)
        if one.level in _SURE and one.where.rank == late and one.delta_ns > 0
    ]
    if not causes:
        return findings
    return [*rest[: causes[-1] + 1], *waiting, *rest[causes[-1] + 1 :]]


# OS calls, context switches and CUDA's memory: where the time of findings lay, never why.

_PART = 0.1  # of a finding's delta: what moved less is not worth a word
_MAIN = 0.5  # of it: the OS call is the finding's place
_OS_CALLS = 3
_ALLOCATES = re.compile(r"Malloc|Free|^cuMem(Alloc|Create|Map|Unmap|Release)")


def with_system(findings: list[Finding], system: System | None) -> list[Finding]:
    """Findings of host work with the OS calls that they lie in, those of allocating calls with what was allocated."""
    if system is None:
        return findings
    return [_in_os_calls(_allocating(one, system.memory), system.host_work) for one in findings]


def _in_os_calls(finding: Finding, rows: list[HostWorkRow]) -> Finding:
    where = finding.where
    if finding.cause != "host_work" or where.rank is not None or not finding.delta_ns:
        return finding
    parts: list[tuple[float, HostWorkRow, OsCallFact]] = []
    for row in rows:
        if (row.thread, row.range) != (where.thread or "", where.range or "") or row.kind == "rest":
            continue
        if row.baseline_ns is None or row.candidate_ns is None:
            continue
        part = (row.candidate_ns - row.baseline_ns) / finding.delta_ns
        if part >= _PART:
            parts.append((part, row, OsCallFact(row.call, row.baseline_ns, row.candidate_ns)))
    if not parts:
        return finding
    parts.sort(key=lambda one: -one[0])
    part, row, _ = parts[0]
    if part >= _MAIN and row.kind == "os_call":
        where = msgspec.structs.replace(where, os_call=row.call)
    facts = msgspec.structs.replace(finding.facts, os_calls=[fact for *_, fact in parts[:_OS_CALLS]])
    return msgspec.structs.replace(finding, where=where, facts=facts)


def _allocating(finding: Finding, rows: list[MemoryRow]) -> Finding:
    if (
        finding.cause not in ("host_api", "host_sync")
        or finding.delta_ns <= 0
        or finding.level == "within_noise"
    ):
        return finding
    if finding.where.api and not _ALLOCATES.search(finding.where.api):
        return finding
    more = [
        AllocationFact(row.kind, row.baseline, row.candidate)
        for row in rows
        if row.baseline is not None
        and row.candidate is not None
        and row.candidate.allocations_per_step > row.baseline.allocations_per_step
    ]
    return msgspec.structs.replace(finding, facts=msgspec.structs.replace(finding.facts, allocations=more))


# Another way of launching.


def launched_otherwise(findings: list[Finding], launch: Launch) -> tuple[list[Finding], Relaunched | None]:
    """Kernels moved into or out of CUDA graphs: the findings that come of it, first and marked, and their sum.

    They are those of launching and of the host in the ranges that launch. The findings as they are where nothing moved,
    or something else explains more.
    """
    sure = [one for one in findings if one.level != "within_noise" and one.where.rank is None]
    places = {one.where.range for one in sure if one.cause == "launch_api"}
    group = [one for one in sure if "graphs" in CAUSES[one.cause].follows and one.where.range in places]
    together = sum(one.delta_ns for one in group)
    rest = [one for one in sure if one not in group and one.cause != "batch_mix"]
    moved = abs(launch.candidate.graph_coverage - launch.baseline.graph_coverage)
    if moved < MOVED or not group or any(abs(one.delta_ns) > abs(together) for one in rest):
        return findings, None
    marked = [
        msgspec.structs.replace(one, facts=msgspec.structs.replace(one.facts, relaunched=True))
        for one in group
    ]
    return [*marked, *(one for one in findings if one not in group)], Relaunched(together, len(group))


# Threads that changed without touching the step: worth a warning, not a finding.

_RATIO = 1.6  # host time of one program differs by this from run to run
_LEAST_NS = 50_000.0


def off_path_notes(
    threads: list[ThreadRow], ranges: list[RangeRow], launching: set[str], findings: list[Finding]
) -> list[Note]:
    """One warning for each thread role that launches nothing and whose ranges changed beyond host noise.

    None for a thread that a finding names as the holder of the GIL: what it did to the step is told there.
    """
    holders = {one.where.holder_thread for one in findings if one.level != "within_noise"}
    notes = []
    for thread in threads:
        one, other = thread.baseline_range_ns, thread.candidate_range_ns
        if thread.role in holders or thread.role in launching or not one or not other:
            continue
        if abs(other - one) < _LEAST_NS or max(one, other) < _RATIO * min(one, other):
            continue
        most = next((row for row in ranges if row.thread == thread.role), None)  # largest change first
        where = f", most of it in {most.range}" if most else ""
        notes.append(
            Note(
                "off-path-change",
                f"the {thread.role} thread spends {one / 1e3:,.1f} -> {other / 1e3:,.1f} us per step in its ranges{where};"
                " it launches no GPU work, so this changes the step only through what waits for it",
            )
        )
    return notes
