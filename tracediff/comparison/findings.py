"""Findings: one cause at one place each, ranked by the time of a step that they explain.

Cells -> candidates -> what follows from what -> ranked findings -> what ranks, OS calls and memory add to them -> tails ->
what comes of another way of launching. Idle cells and kernel rows partition the step, so their deltas add up to the step's.
Findings carry data; report/phrases.py writes their sentences.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import msgspec
import numpy as np
import polars as pl

from tracediff.accounting.intervals import Floats
from tracediff.comparison.cells import IdleKey, IdleRows, Measured
from tracediff.comparison.evidence import LABELS, idle_sql, kernel_sql, window_sql
from tracediff.comparison.frame import Frame
from tracediff.comparison.strata import Strata
from tracediff.comparison.verdict import MOVED
from tracediff.execution.sides import Side, stacked
from tracediff.kernels.categories import category
from tracediff.kernels.matching import Match
from tracediff.kernels.names import short
from tracediff.model import (
    AllocationFact,
    ApiRow,
    Evidence,
    Finding,
    FindingEvidence,
    FindingFacts,
    HostWorkRow,
    Launch,
    MemoryRow,
    Moment,
    Note,
    OsCallFact,
    PhaseShare,
    RangeRow,
    RankRow,
    Relaunched,
    System,
    TailFact,
    ThreadRow,
    WaitFact,
    Where,
)
from tracediff.model.causes import BUSY, CATEGORIES, CAUSES
from tracediff.stats.estimates import Estimates, Robust, Shown, levels, robust_estimates, shown
from tracediff.trace.ranges import STEP_PLACE, beside

SIDES: tuple[Literal["baseline"], Literal["candidate"]] = ("baseline", "candidate")
_SURE = ("exact", "confirmed", "likely")
_MOST = 60  # findings of the mean


class Judged(NamedTuple):
    """The estimates of idle cells and kernel rows, in this order, with the level and q value of each."""

    cells: Estimates
    level: list[Evidence]
    q: Floats
    idle: int  # how many of them are idle cells

    @property
    def of_kernels(self) -> tuple[list[Evidence], Floats]:
        """Level and q value of each kernel row."""
        return self.level[self.idle :], self.q[self.idle :]


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


@dataclass(frozen=True)
class Candidate:
    """A cell that changed or matters, before it is ranked."""

    cause: str
    where: Where
    cell: int  # column of the estimates
    level: Evidence
    sql: str
    facts: FindingFacts
    moments: list[Moment] = field(default_factory=list)
    count: tuple[float, float] | None = None  # events per step
    follows: bool = False  # a consequence of other findings
    material: bool = True
    of_rank: RankSize | None = None  # where one rank alone changed

    def with_facts(self, **facts: object) -> FindingFacts:
        """Its facts and some more."""
        return msgspec.structs.replace(self.facts, **facts)


def judge(measured: Measured) -> Judged:
    """How far each cell can be believed, corrected for their number."""
    cells = measured.cells.take([*measured.layout.idle, *measured.layout.kernels])
    return Judged(cells, *levels(cells, measured.step_ns), len(measured.layout.idle))


def find(
    measured: Measured,
    judged: Judged,
    launch: Launch,
    ranks: list[RankRow],
    system: System | None,
    total_delta: float,
    noise_ns: float,
) -> tuple[list[Finding], Relaunched | None]:
    """All findings in order; second, what comes of another way of launching. `noise_ns`: of the step."""
    candidates = idle_candidates(measured, judged) + kernel_candidates(measured, judged)
    candidates = mark_consequences(mark_synchronisation(candidates, judged.cells, launch.apis), judged.cells)
    findings = rank(candidates, judged, total_delta)
    findings = [
        one
        for one in _before_noise(findings, mix_finding(measured.strata))
        if one.level != "within_noise" or abs(one.delta_ns) >= 0.001 * measured.step_ns
    ][:_MOST]
    known = {one.cause for one in findings if one.level != "within_noise"}
    findings = with_system(explain_collectives(findings, ranks), system)
    findings = [*findings, *tail_findings(measured, noise_ns, known)]
    findings.sort(key=lambda one: one.level == "within_noise")  # stable: the order within each part stays
    findings, relaunched = launched_otherwise(findings, launch)
    return [msgspec.structs.replace(one, rank=number) for number, one in enumerate(findings, 1)], relaunched


def _before_noise(findings: list[Finding], extra: Finding | None) -> list[Finding]:
    if extra is None:
        return findings
    at = sum(one.level != "within_noise" for one in findings)
    return [*findings[:at], extra, *findings[at:]]


# Idle cells.


def idle_candidates(measured: Measured, judged: Judged) -> list[Candidate]:
    """One for each idle cell that changed or matters."""
    sides, frame, cells = measured.sides, measured.frame, judged.cells
    idle = measured.layout.idle_rows
    moments = stacked(sides, "moments").sort("end", descending=True)
    steps = [int((frame.steps["side"] == side).sum()) for side in (0, 1)]
    counts = idle.group_by("side", "cell").agg(pl.col("count").sum())
    events = {(side, cell): count / steps[side] for side, cell, count in counts.iter_rows()}
    ranks = frame.steps["rank"].n_unique()
    floor = 0.0005 * float(max(cells.baseline.sum(), cells.candidate.sum(), 1.0))
    robust = robust_estimates(cells)
    host_only = not all(side.captured("kernels") for side in sides)
    found = []
    for column, (cell, key) in enumerate(zip(measured.layout.idle, measured.layout.idle_keys, strict=True)):
        level, mean = judged.level[column], float(cells.delta[column])
        if level == "within_noise" and abs(mean) < floor:
            continue
        mine = idle.filter(pl.col("cell") == cell)
        place = idle_place(key, mine, measured.idle.words)
        holder_place = key.where if key.cause == "gil_wait" else ""
        longest, apis = _moments(longest_first(moments, key), sides)
        after = shown(cells, column, level, robust).delta >= 0
        api = (apis[after] or apis[not after]) if CAUSES[key.cause].calls else ""
        without_gc = [key.cause == "gc" and not side.captured("gc") for side in sides]
        candidate = Candidate(
            key.cause,
            Where(
                range=place or None,
                thread=key.thread or None,
                holder_thread=key.holder or None,
                holder_range=holder_place or None,
                api=api or None,
            ),
            column,
            level,
            idle_sql(key.cause, place, holder_place, copies=key.copy),
            FindingFacts(
                host_only=host_only,
                copies=key.copy,
                baseline_without_gc=without_gc[0],
                candidate_without_gc=without_gc[1],
            ),
            longest,
            (events.get((0, cell), 0.0), events.get((1, cell), 0.0)),
        )
        found.append(_of_one_rank(candidate, mine, frame, mean) if ranks > 1 else candidate)
    return found


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


def _of_one_rank(candidate: Candidate, mine: pl.DataFrame, frame: Frame, delta: float) -> Candidate:
    """Where one rank alone changed, the finding is that rank's, with that rank's size: the others wait for it."""
    if candidate.level == "within_noise":
        return candidate
    steps = frame.steps.filter(pl.col("side") < 2).group_by("side", "rank").agg(pl.len().alias("steps"))
    means = (
        mine.group_by("side", "rank", maintain_order=True)
        .agg(pl.col("ns").sum())
        .join(steps, on=["side", "rank"], how="right")
        .sort("side", "rank")
        .with_columns(mean=pl.col("ns").fill_null(0) / pl.col("steps"))
    )
    deltas: dict[int, float] = {}
    for side, number, mean in means.select("side", "rank", "mean").iter_rows():
        deltas[number] = deltas.get(number, 0.0) + (mean if side == 1 else -mean)
    moved = sum(abs(one) for one in deltas.values())
    number, largest = max(sorted(deltas.items()), key=lambda item: abs(item[1]))
    if not moved or abs(largest) < 0.75 * moved or largest * delta <= 0:
        return candidate
    size = RankSize(*frame.runs_of_rank(mine, number))
    if size.delta * delta <= 0:  # the mix of steps turns it round
        return candidate
    return replace(
        candidate,
        where=msgspec.structs.replace(candidate.where, rank=number),
        of_rank=size,
        facts=candidate.with_facts(delta_all_ranks_ns=delta),
    )


# Kernel rows.


def kernel_candidates(measured: Measured, judged: Judged) -> list[Candidate]:
    """One for each kernel row that changed or matters."""
    kernels, cells, first = measured.kernels, judged.cells, judged.idle
    total = float(max(cells.baseline.sum(), cells.candidate.sum(), 1.0))
    found = []
    for number, match in enumerate(kernels.rows):
        before, after = (float(count) for count in kernels.counts[number])
        delta, level = float(cells.delta[first + number]), judged.level[first + number]
        change = abs(after - before) if kernels.exact[number] else 0.0
        odd = match.match not in ("exact", "name") and (before or after)
        if change <= 0.005 and not odd and level == "within_noise" and abs(delta) < 0.0005 * total:
            continue
        changed = change > 1e-9
        means = [
            float(kernels.walls[number, side]) / count if count else 0.0
            for side, count in enumerate((before, after))
        ]
        hidden = abs(float(kernels.hidden[number, 1] - kernels.hidden[number, 0]))
        cause = _kernel_cause(match, (before, after), means, changed)
        structural = changed or match.match in ("fused", "split", "added", "removed")
        candidate = Candidate(
            cause,
            Where(kernel=_kernel_text(match)),
            first + number,
            "exact" if structural else level,
            kernel_sql(sorted({op.name for op in (*match.baseline, *match.candidate)})),
            FindingFacts(
                match=match.match,
                confidence=match.confidence,
                baseline_mean_ns=means[0],
                candidate_mean_ns=means[1],
                hidden_ns=hidden if cause == "memcpy" and changed and hidden > 500 else None,
            ),
            count=(before, after),
            material=abs(delta) >= max(500.0, 0.001 * total),
        )
        found.append(candidate)
    return found


def _kernel_cause(match: Match, counts: tuple[float, float], means: Sequence[float], changed: bool) -> str:
    """The cause of a row's change. `counts`: ops per step, `means`: ns of an op, `changed`: counts that are facts differ."""
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


def _kernel_text(match: Match) -> str:
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


# What follows from what, and the order.


def mark_consequences(candidates: list[Candidate], cells: Estimates) -> list[Candidate]:
    """Launch and graph gaps that shrank or grew with the number of kernels follow from the kernels' change."""
    structural = [
        one
        for one in candidates
        if CAUSES[one.cause].query == "kernels" and one.cause != "comm" and one.level == "exact" and one.count
    ]
    change = sum(one.count[1] - one.count[0] for one in structural if one.count)
    ops = sum(one.count[0] for one in candidates if one.count and one.where.kernel)
    if not change:
        return candidates
    copies = any(one.cause == "memcpy" for one in structural)

    def follows(one: Candidate) -> bool:
        between_nodes = one.cause == "graph_internal"
        if copies and (one.facts.copies or between_nodes):
            return True  # copies cost their own calls, and fill gaps that a graph left between its nodes
        delta = float(cells.delta[one.cell])
        if "kernels" not in CAUSES[one.cause].follows or delta * change <= 0:
            return False
        if between_nodes:
            return abs(delta) <= 5_000 * abs(change)
        # an eager launch costs the host 5 to 20 us: what is of that size follows from their number
        place = one.where.range or ""
        return ops > 0 and abs(delta) <= 20_000 * abs(change) and STEP_PLACE in (beside(place) or [place])

    return [replace(one, follows=one.follows or follows(one)) for one in candidates]


def mark_synchronisation(
    candidates: list[Candidate], cells: Estimates, apis: list[ApiRow]
) -> list[Candidate]:
    """More (or fewer) synchronising calls per step are counted, not tested; they expose launching in their place.

    After each such call the GPU is empty: the next launch, its latency and the host work before it are idle time
    that was hidden before. So those follow from the calls, where they moved the same way in the same range.
    """
    before, after = (
        sum(getattr(row, f"{side}_calls") for row in apis if row.kind == "sync") for side in SIDES
    )
    syncs = [
        one
        for one in candidates
        if one.cause == "host_sync"
        and one.level != "within_noise"
        and float(cells.delta[one.cell]) * (after - before) > 0
    ]
    if abs(after - before) < 0.5 or not syncs:
        return candidates
    main = max(syncs, key=lambda one: (abs(float(cells.delta[one.cell])), one.where.range or ""))
    out = []
    for one in candidates:
        same = one.where.range == main.where.range and one.where.thread == main.where.thread
        if one is main:
            facts = one.with_facts(counted_calls=True)
            out.append(replace(one, level="exact", count=(before, after), facts=facts))
        elif same and "syncs" in CAUSES[one.cause].follows:
            out.append(replace(one, follows=True, facts=one.with_facts(follows_syncs=True)))
        else:
            out.append(one)
    return out


def rank(candidates: list[Candidate], judged: Judged, total_delta: float) -> list[Finding]:
    """Findings in order: what is sure before what may be noise; of that, causes before what follows from them."""
    robust = robust_estimates(judged.cells)

    def order(pair: tuple[Candidate, Finding]) -> tuple[int, float, str, str]:
        candidate, finding = pair
        tier = 3
        if finding.level in _SURE:
            tier = 2 if not candidate.material else 1 if candidate.follows else 0
        return tier, -abs(finding.delta_ns), finding.cause, repr(finding.where)

    pairs = ((one, _finding(one, judged, robust, total_delta)) for one in candidates)
    return [finding for _, finding in sorted(pairs, key=order)]


def _finding(one: Candidate, judged: Judged, robust: Robust | None, total_delta: float) -> Finding:
    cells = judged.cells
    size = one.of_rank or RankSize(
        cells.baseline_runs[:, one.cell].tolist(),
        cells.candidate_runs[:, one.cell].tolist(),
        float(cells.baseline[one.cell]),
        float(cells.candidate[one.cell]),
    )
    delta, low, high, apart = _shown(one, cells, robust)
    return Finding(
        rank=0,
        cause=one.cause,
        delta_ns=delta,
        ci_low_ns=low,
        ci_high_ns=high,
        share=delta / total_delta if total_delta else None,
        title="",
        where=one.where,
        evidence=FindingEvidence(
            one.sql, one.moments, size.baseline_runs, size.candidate_runs, *(one.count or (None, None))
        ),
        next="",
        level=one.level,
        baseline_ns=size.baseline,
        candidate_ns=size.candidate,
        p_value=_number(cells.p[one.cell]),
        q_value=_number(judged.q[one.cell]),
        facts=one.with_facts(delta_mean_ns=float(cells.delta[one.cell])) if apart else one.facts,
    )


def _shown(one: Candidate, cells: Estimates, robust: Robust | None) -> Shown:
    if one.of_rank is None:
        return shown(cells, one.cell, one.level, robust)
    mean = shown(cells, one.cell, one.level, None)
    # the other ranks add nothing but their own scatter: the interval grows as the size does
    scale = one.of_rank.delta / mean.delta
    return Shown(one.of_rank.delta, scale * mean.low, scale * mean.high)


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


# The mix of steps.


def mix_finding(strata: Strata) -> Finding | None:
    """The finding that the mix of steps changed; it is no part of the step delta, which is at equal mix."""
    mix = strata.mix
    if abs(mix.batch_mix_ns) < max(0.01 * mix.baseline_raw_ns, 1000.0):
        return None
    return Finding(
        rank=0, cause="batch_mix", delta_ns=mix.batch_mix_ns, ci_low_ns=mix.batch_mix_ns,
        ci_high_ns=mix.batch_mix_ns, share=None, title="", where=Where(), evidence=FindingEvidence(LABELS, []),
        next="", level="exact", baseline_ns=mix.baseline_raw_ns, candidate_ns=mix.candidate_raw_ns,
        facts=FindingFacts(shares=_shares(strata)),
    )  # fmt: skip


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


# Tails: the slow steps got slower while the typical step did not.

_MIN_STEPS = 20  # steps of a phase on each side below which a p90 is one or two steps
_SLOW = 0.9  # the tail: steps above this quantile of their side
_KEYS = ["side", "run", "part", "period"]


def tail_findings(measured: Measured, noise_ns: float, known: set[str]) -> list[Finding]:
    """One finding for each phase whose p99 moved beyond the noise while its median moved less than a quarter of that.

    The cause is the category with the largest change of (mean over the slow steps - mean over all steps); one that the
    mean already shows (`known`) is not said twice. A tail is few steps: with fewer than three runs a side, or runs
    whose p99 overlap, it may be noise and is called so.
    """
    idle, findings = measured.idle, []
    for phase in sorted(measured.compared["phase"].unique()):
        mine = measured.compared.filter(pl.col("phase") == phase)
        parts = [mine.filter(pl.col("side") == side) for side in (0, 1)]
        if min(len(part) for part in parts) < _MIN_STEPS:
            continue
        p50, p99 = ([float(part["ns"].quantile(q, "linear") or 0.0) for part in parts] for q in (0.5, 0.99))
        moved, middle = p99[1] - p99[0], p50[1] - p50[0]
        if abs(moved) <= max(noise_ns, 0.2 * min(p50)) or abs(middle) > 0.25 * abs(moved):
            continue
        excess = [_excess(part, idle) for part in parts]
        change = {name: excess[1].get(name, 0.0) - excess[0].get(name, 0.0) for name in CATEGORIES}
        main = max(change, key=lambda name: change[name] * (1 if moved > 0 else -1))
        cause = "kernel_time" if main == "compute" else main
        if cause in known:
            continue
        side = 1 if moved > 0 else 0
        slowest = parts[side].sort("ns", "start_ns", descending=[True, False]).row(0, named=True)
        start, end = slowest["start_ns"], slowest["start_ns"] + slowest["ns"]
        moment = Moment(SIDES[side], measured.sides[side].runs[slowest["run"]].name, start, end)
        findings.append(
            Finding(
                rank=0,
                cause=cause,
                delta_ns=moved,
                ci_low_ns=moved - noise_ns,
                ci_high_ns=moved + noise_ns,
                share=None,
                title="",
                where=Where(phase=phase, range=_place(idle, slowest, main) or None),
                evidence=FindingEvidence(window_sql(start, end), [moment]),
                next="",
                level="likely" if _apart(parts) else "within_noise",
                baseline_ns=p99[0],
                candidate_ns=p99[1],
                facts=FindingFacts(tail=TailFact(p50[0], p50[1], main)),
            )
        )
    return findings


def _apart(parts: list[pl.DataFrame]) -> bool:
    """Three runs a side or more, and every run's p99 on one side above every one of the other."""
    tails = [
        part.group_by("run").agg(pl.col("ns").quantile(0.99, "linear"))["ns"].to_list() for part in parts
    ]
    if min(len(one) for one in tails) < 3:
        return False
    return bool(max(tails[0]) < min(tails[1]) or max(tails[1]) < min(tails[0]))


def _excess(part: pl.DataFrame, idle: IdleRows) -> dict[str, float]:
    """Category -> mean over the slow steps minus mean over all steps, ns."""
    limit = part["ns"].quantile(_SLOW, "linear")
    tagged = part.with_columns(slow=pl.col("ns") > limit)
    slow = max(int(tagged["slow"].sum()), 1)
    out = {
        name: float((tagged.filter(pl.col("slow"))[name].sum()) / slow - tagged[name].mean())  # type: ignore[operator]
        for name in BUSY
    }
    located = idle.rows.join(tagged.select(*_KEYS, "slow"), on=_KEYS, how="inner")
    sums = (
        idle.spelled(pl.col("cause").is_not_null(), located)
        .group_by("cause")
        .agg(slow_ns=pl.col("ns").filter(pl.col("slow")).sum(), all_ns=pl.col("ns").sum())
    )
    for cause, slow_ns, all_ns in sums.iter_rows():
        out[cause] = slow_ns / slow - all_ns / len(tagged)
    return out


def _place(idle: IdleRows, step: dict[str, int], category: str) -> str:
    """Where the thread was for most of a step's idle time of a category."""
    rows = idle.rows.filter(*(pl.col(key) == step[key] for key in _KEYS))
    pieces = idle.spelled(pl.col("cause") == category, rows)
    mine = pieces.group_by("place").agg(pl.col("ns").sum()).sort("ns", "place", descending=[True, False])
    return str(mine["place"][0]) if len(mine) else ""


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
                f"the {thread.role} thread spends {one / 1e3:,.1f} -> {other / 1e3:,.1f} us a step in its ranges{where};"
                " it launches no GPU work, so this changes the step only through what waits for it",
            )
        )
    return notes
