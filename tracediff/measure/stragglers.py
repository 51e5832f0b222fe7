"""Time in collectives, explained: which rank the others wait for, and how much of a change is waiting, how much transfer."""

from __future__ import annotations

import msgspec

from tracediff.model import Finding, RankRow

_SURE = ("exact", "confirmed", "likely")


def explain_collectives(findings: list[Finding], ranks: list[RankRow]) -> list[Finding]:
    """Say in findings of communication who came late; they go after the finding on that rank that made it late."""
    late = late_rank(ranks)
    if late is None:
        return findings
    waits = _changes(ranks, "comm_wait_ns")
    transfers = _changes(ranks, "comm_transfer_ns")
    told = []
    for finding in findings:
        if (
            finding.cause != "comm"
            or finding.delta_ns <= 0
            or abs(sum(waits.values())) < abs(sum(transfers.values()))
        ):
            told.append(finding)
            continue
        longest = max(waits, key=lambda rank: (waits[rank], -rank))
        note = (
            f"Rank {late} comes last: rank {longest} waits {waits[longest] / 1e3:+.1f} us a step for it in all collectives;"
            f" transfer itself changed by {max(transfers.values(), key=abs) / 1e3:+.1f} us."
        )
        where = msgspec.structs.replace(finding.where, rank=late)
        title = f"waiting for rank {late} in {finding.title.removeprefix('communication ')}"
        told.append(
            msgspec.structs.replace(
                finding, title=title, where=where, note=note, next=f"find out what made rank {late} late"
            )
        )
    return _after_their_cause(told, late)


def late_rank(ranks: list[RankRow]) -> int | None:
    """The rank for which the waiting of the others grew most; None where it did not grow or was not measured."""
    grown = _changes(ranks, "caused_wait_ns")
    if len(grown) < 2:
        return None
    rank = max(grown, key=lambda one: (grown[one], -one))
    return rank if grown[rank] > 0 else None


def _changes(ranks: list[RankRow], name: str) -> dict[int, float]:
    pairs = ((row.rank, getattr(row, f"baseline_{name}"), getattr(row, f"candidate_{name}")) for row in ranks)
    return {rank: other - one for rank, one, other in pairs if one is not None and other is not None}


def _after_their_cause(findings: list[Finding], late: int) -> list[Finding]:
    """Waiting on other ranks follows from what slowed the late one."""
    causes = [
        number for number, one in enumerate(findings)
        if one.level in _SURE and one.where.rank == late and one.cause != "comm" and one.delta_ns > 0
    ]  # fmt: skip
    if not causes:
        return findings
    waiting = [one for one in findings if one.cause == "comm" and one.where.rank == late]
    rest = [one for one in findings if one not in waiting]
    at = max(rest.index(findings[number]) for number in causes) + 1
    return [*rest[:at], *waiting, *rest[at:]]
