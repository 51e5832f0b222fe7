"""Findings: one cause each, ranked by the time that survives its uncertainty, whatever its level.

Judged places -> candidates of phases -> those that are one cause together -> ranked findings -> what ranks, OS calls and memory add
to them. Findings carry data; report/phrases.py writes their sentences.
"""

from __future__ import annotations

import re

import msgspec
import numpy as np

from tracediff.comparison.candidates import Candidate, Describe, RankSize
from tracediff.comparison.cells import Measured
from tracediff.comparison.evidence import LABELS
from tracediff.comparison.places import MATERIAL, PERMUTE, SURE, Judged, Judgement
from tracediff.comparison.related import cancels, related
from tracediff.comparison.strata import Strata
from tracediff.execution.sides import Side
from tracediff.model import (
    AllocationFact,
    Finding,
    FindingEvidence,
    FindingFacts,
    Held,
    HostWorkRow,
    Launch,
    MemoryRow,
    Mix,
    Note,
    OsCallFact,
    PhaseShare,
    RangeRow,
    RankRow,
    System,
    ThreadRow,
    VerdictFacts,
    WaitFact,
    Where,
)
from tracediff.stats.estimator import Sample, estimate

_MOST = 60  # findings


def find(
    measured: Measured,
    judged: Judged,
    facts: VerdictFacts,
    launch: Launch,
    ranks: list[RankRow],
    system: System | None,
    mix: Mix,
    strata: Strata,
) -> list[Finding]:
    """All findings in order. `facts`: of the verdict, whose phase leads."""
    describe = Describe(measured)
    candidates = [
        describe(one)
        for one in judged.rows
        if not np.isnan(one.q) and (_material(one) or describe.differs(one))
    ]
    causes = related(candidates, launch, facts.phase)
    causes = [one for one in causes if _material(one.judged) or cancels(one)]
    findings = [_finding(one, measured) for one in causes[:_MOST]]
    findings = with_system(explain_collectives(findings, ranks), system)
    findings += mix_finding(measured, mix, strata)
    return [msgspec.structs.replace(one, rank=number) for number, one in enumerate(findings, 1)]


def _material(one: Judgement) -> bool:
    return abs(one.delta) >= MATERIAL * one.phase.step_ns


def _finding(one: Candidate, measured: Measured) -> Finding:
    judged = one.judged
    size = one.of_rank or RankSize(
        judged.runs[0].tolist(), judged.runs[1].tolist(), judged.baseline, judged.candidate
    )
    delta, low, high = one.interval
    of = (judged.phase.typical if judged.part == "typical" else judged.phase.tail).estimate
    total = (
        float(of.delta[0]) if abs(of.delta[0]) > of.half[0] else 0.0
    )  # of what may be nothing there is no share
    return Finding(
        rank=0,
        cause=one.cause,
        delta_ns=delta,
        ci_low_ns=low,
        ci_high_ns=high,
        share=judged.delta / total if total else None,
        title="",
        where=one.where,
        evidence=FindingEvidence(
            one.sql, one.moments, size.baseline_runs, size.candidate_runs, *(one.count or (None, None))
        ),
        next="",
        level=one.level,
        baseline_ns=size.baseline,
        candidate_ns=size.candidate,
        p_value=_number(judged.p),
        q_value=_number(judged.q),
        facts=one.facts,
        part=judged.part,
        held=_held(judged, measured.sides),
        parts=list(one.parts or (one.alone if one.of_rank is None else ())),
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
        if one.level in SURE and one.where.rank == late and one.delta_ns > 0
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
