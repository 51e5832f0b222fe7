"""Findings: one cause each, ranked by the time that its interval leaves where it is more than noise.

Judged places -> candidates of phases -> those that are one cause together (related.py) -> ranked findings -> what ranks, OS calls and
memory add to them. Findings carry data; report/phrases.py writes their sentences.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from tracediff.arrays import known
from tracediff.comparison.candidates import Candidate, Describe, RankSize
from tracediff.comparison.cells import STEP, Measured, Part, PhaseCells
from tracediff.comparison.classes import Strata
from tracediff.comparison.evidence import MIX, of_both
from tracediff.comparison.frame import typical_of
from tracediff.comparison.places import SURE, Judged, Judgement
from tracediff.comparison.related import (
    beside_other_work,
    cancels,
    in_graphs,
    loading_code,
    related,
    sized,
    synchronising,
)
from tracediff.comparison.shown import FIRST, ROWS
from tracediff.comparison.verdict import time_share
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
    OsCallFact,
    PhaseShare,
    RankGroup,
    RankRow,
    Shares,
    StructureRow,
    System,
    WaitFact,
    Where,
)
from tracediff.model.causes import SURELY
from tracediff.stats.rules import LITTLE, MATERIAL, MOSTLY


def find(
    measured: Measured,
    judged: Judged,
    first: tuple[PhaseCells, Part],
    launch: Launch,
    ranks: list[RankRow],
    groups: list[RankGroup],
    system: System | None,
    mix: Mix,
    strata: Strata,
    structure: Sequence[StructureRow],
) -> list[Finding]:
    """All findings in order. `first`: the phase and the part of it that the first sentence is of."""
    describe = Describe(measured)
    candidates = [
        describe(one)
        for one in judged.rows
        # kernels that go with the shapes of the steps are not tested, but a step that surely changed is theirs to explain, and a tenth of any change
        if (measured.frame.once or one.moved or not np.isnan(one.q) or one.level == "exact" or _much(one))
        and (_material(one) or describe.differs(one))
    ]
    candidates = sized(beside_other_work(candidates, structure, launch), structure)
    found = related(candidates, launch, structure, (first[0].steps.phase, first[1].name))
    found = synchronising(found, structure, describe.synchronising(judged))
    causes = in_graphs(loading_code(found, structure, launch), structure)
    causes = [one for one in causes if _material(one.judged) or cancels(one)]
    findings = [_finding(one, measured) for one in causes[:ROWS]]
    findings = with_system(explain_collectives(_waited_for(findings, ranks), ranks, groups), system)
    sure = next((at for at, one in enumerate(findings) if one.level == "within_noise"), len(findings))
    findings[sure:sure] = mix_finding(measured, mix, strata)
    return [replace(one, rank=number) for number, one in enumerate(findings, 1)]


def _material(one: Judgement) -> bool:
    return abs(one.delta) >= MATERIAL * one.phase.step_ns


def _much(one: Judgement) -> bool:
    """Whether a place holds much of what its step changed by."""
    step = float(one.phase.part(one.part).estimate.delta[STEP])
    return one.delta * math.copysign(1, step) > LITTLE * abs(step)


def _finding(one: Candidate, measured: Measured) -> Finding:
    judged, phase = one.judged, one.where.phase or ""
    size = one.of_rank or RankSize(
        judged.runs[0].tolist(), judged.runs[1].tolist(), judged.baseline, judged.candidate
    )
    delta, low, high = one.interval
    of = judged.phase.part(judged.part).estimate
    total = (
        float(of.delta[0]) if of.clear[0] and one.sure else 0.0
    )  # of what may be nothing, and of nothing, there is no share
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
            of_both(one.idle, sorted(one.ops), typical_of(phase) if judged.part == "typical" else phase),
            one.moments,
            size.baseline_runs,
            size.candidate_runs,
            *(one.count or (None, None)),
        ),
        next="",
        level=one.level,
        baseline_ns=size.baseline,
        candidate_ns=size.candidate,
        p_value=known(judged.p),
        q_value=known(judged.q),
        facts=replace(one.facts, per=measured.frame.unit),
        part=judged.part,
        held=_held(judged, measured),
        parts=list(one.parts or (one.alone if one.of_rank is None else ())),
        phases=list(one.elsewhere),
        host_speed_ns=judged.host_speed,
    )


def _held(judged: Judgement, measured: Measured) -> Held:
    """In how many runs of each side the change holds: those on its side of the middle between the sides. A mean has runs without such steps as well."""
    one, other = judged.runs
    middle = (float(one.mean()) + float(other.mean())) / 2
    sign = 1 if judged.delta > 0 else -1
    inside = [(middle - one) * sign >= 0, (other - middle) * sign >= 0]
    kept = measured.frame.kept(0), measured.frame.kept(1)
    numbers = kept if judged.part == "mean" else judged.phase.run_numbers
    names = [
        measured.sides[side].runs[int(numbers[side][at])].name
        for side in (0, 1)
        for at in np.flatnonzero(~inside[side])
    ]
    return Held(int(inside[0].sum()), int(inside[1].sum()), names)


# The mix of steps.


def mix_finding(measured: Measured, mix: Mix, strata: Strata) -> list[Finding]:
    """That the mix of steps changed, or one side has some of a phase that the other never ran; it is no part of any delta, which are all at equal workload."""
    changed = _shares(strata)
    alone = any(not one.baseline or not one.candidate for one in changed)
    delta = mix.batch_mix_ns + (mix.not_compared_ns if alone else 0.0)
    if abs(delta) < SURELY * mix.baseline_raw_ns:
        return []
    shares = time_share(measured)
    if min(shares.baseline, shares.candidate) < MOSTLY:
        return []
    return [
        Finding(
            rank=0, cause="batch_mix", delta_ns=delta, ci_low_ns=delta, ci_high_ns=delta,
            share=None, title="", where=Where(), evidence=FindingEvidence(MIX, []),
            next="", level="within_noise", baseline_ns=mix.baseline_raw_ns,
            candidate_ns=mix.candidate_raw_ns, facts=FindingFacts(shares=changed),
        )
    ]  # fmt: skip


def _shares(strata: Strata) -> list[PhaseShare]:
    """Share of each phase but the usual ones in all whole steps, where it changed."""
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
        if one.phase not in ("generation", "step") and abs(one.baseline - one.candidate) > 0.005
    ]


# Collectives: which rank the others wait for, and how much of a change is waiting, how much transfer.


def _waited_for(findings: list[Finding], ranks: list[RankRow]) -> list[Finding]:
    """Tell of findings of one rank alone whether others wait longer for it: another rank may still be the last."""
    grown = _changes(ranks, "caused_wait_ns")

    def more(one: Finding) -> bool:
        waits = grown.get(one.where.rank, 0.0) if one.where.rank is not None else 0.0
        return one.facts.delta_all_ranks_ns is not None and 0 < MOSTLY * one.delta_ns <= waits

    return [replace(one, facts=replace(one.facts, waited_for=more(one))) for one in findings]


def explain_collectives(
    findings: list[Finding], ranks: list[RankRow], groups: Sequence[RankGroup] = ()
) -> list[Finding]:
    """Add to findings of communication who comes last; they go after the finding on that rank that made it late."""
    late = late_rank(ranks)
    if late is None:
        return findings
    waits, transfers = _changes(ranks, "comm_wait_ns"), _changes(ranks, "comm_transfer_ns")
    if abs(sum(waits.values())) < abs(sum(transfers.values())):
        return findings
    longest = max(waits, key=lambda rank: (waits[rank], -rank))
    fact = WaitFact(longest, max(transfers.values(), key=abs))
    explained = []
    for one in findings:
        if one.cause == "comm" and one.delta_ns > 0:
            where = replace(one.where, rank=late)
            facts = replace(one.facts, late_rank=_of_group(fact, late, one, ranks, groups))
            one = replace(one, where=where, facts=facts)
        explained.append(one)
    return _after_their_cause(explained, late)


def _of_group(
    fact: WaitFact, late: int, finding: Finding, ranks: list[RankRow], groups: Sequence[RankGroup]
) -> WaitFact:
    """With the group that waits for the late rank in the finding's kernel: that in which waiting for a rank grew most."""
    sends = finding.where.holds("SendRecv")
    mine = [one for one in groups if late in one.members and bool(one.kind) == sends]
    if not mine:
        return fact
    group = max(mine, key=lambda one: (one.candidate_caused_ns or 0.0) - (one.baseline_caused_ns or 0.0))
    members = group.members if len(group.members) < len(ranks) else []
    sent = (
        _sent(late, [one for one in ranks if one.rank in group.members])
        if group.kind == "all-to-all"
        else None
    )
    return replace(fact, kind=group.kind, group=group.name, members=members, sent=sent)


def _sent(rank: int, ranks: list[RankRow]) -> Shares | None:
    """The part of what some ranks send that one of them does."""
    parts = []
    for side in ("baseline", "candidate"):
        sent = {one.rank: getattr(one, f"{side}_sent_bytes") for one in ranks}
        if None in sent.values() or not sum(sent.values()):
            return None
        parts.append(sent[rank] / sum(sent.values()))
    return Shares(*parts)


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
        if part >= LITTLE:
            parts.append((part, row, OsCallFact(row.call, row.baseline_ns, row.candidate_ns)))
    if not parts:
        return finding
    parts.sort(key=lambda one: -one[0])
    part, row, _ = parts[0]
    if part >= MOSTLY and row.call:
        where = replace(where, os_call=row.call)
    facts = replace(finding.facts, os_calls=[fact for *_, fact in parts[:FIRST]])
    return replace(finding, where=where, facts=facts)


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
    return replace(finding, facts=replace(finding.facts, allocations=more))
