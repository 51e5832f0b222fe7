"""A search for a commit as text: what caused the change, how sure, and every commit that was measured."""

from __future__ import annotations

import math
from typing import Protocol

from tracediff.formats.recognise import counted
from tracediff.model.bisect import Bisect, BisectCommit, BisectProbe
from tracediff.report import units
from tracediff.report.amounts import COMMIT, NAME, PAGE
from tracediff.report.blocks import Block, Code, Items, Line, Section, Span, Strong, grid
from tracediff.report.escape import shorten
from tracediff.report.grammar import say
from tracediff.stats.rules import NEARLY


class _Difference(Protocol):
    """What a probe and a look at it have."""

    @property
    def delta_ns(self) -> float | None: ...
    @property
    def low_ns(self) -> float | None: ...
    @property
    def high_ns(self) -> float | None: ...


_HEAD = ("commit", "answer", "pairs", "difference", "interval", "minutes", "subject")
_VERDICTS = {"good": "good", "bad": "bad", "skip": "skipped"}


def name(one: BisectCommit) -> str:
    """A commit in a sentence."""
    return f'{one.commit[:COMMIT]} "{shorten(one.subject, NAME)}"'


def difference(one: _Difference) -> str:
    """A difference with its interval: `+48.2 us (+45.1 us to +51.3 us)`."""
    if one.delta_ns is None:
        return say("bisect_unmeasured")
    write = units.prose([one.delta_ns])
    if one.low_ns is None or one.high_ns is None or not math.isfinite(one.low_ns):
        return say("bisect_few_pairs", size=write.delta(one.delta_ns))
    write = units.prose([one.delta_ns, one.low_ns, one.high_ns])
    low, high = (write.delta(bound) for bound in (one.low_ns, one.high_ns))
    return say("bisect_difference", size=write.delta(one.delta_ns), low=low, high=high)


def headline(found: Bisect) -> list[str]:
    """The first sentence."""
    if found.outcome != "found":
        return [Strong(_unfinished(found))]
    culprit, beside = found.culprits[0], found.parent
    said = say("culprit", subject=shorten(culprit.subject, NAME))
    if beside is not None and beside.delta_ns is not None:
        size = units.spoken_delta(beside.delta_ns)
        said = say("culprit_beside", subject=shorten(culprit.subject, NAME), measure=found.measure, size=size)
    return [Strong("Culprit: "), Code(culprit.commit[:COMMIT]), Strong(said)]


def _unfinished(found: Bisect) -> str:
    left, ends = counted(len(found.culprits) or found.commits, "commit"), found.ends
    if ends is not None and found.outcome in ("no_difference", "noise"):
        slots = {
            "measure": found.measure,
            "difference": difference(ends),
            "pairs": counted(ends.pairs, "pair"),
        }
        if found.outcome == "noise":
            return say("bisect_noise", **slots)
        if found.limit_given and found.limit_ns is not None:
            limit = units.spoken(found.limit_ns)
            return say("bisect_alike_limit", limit=limit, **slots)
        return say("bisect_alike", **slots)
    told = found.outcome if found.outcome in ("budget", "ambiguous") else "open"
    return say(f"bisect_{told}", left=left)


def evidence(found: Bisect) -> list[str]:
    """What the answer rests on, a sentence or two each."""
    said = []
    if found.parent is not None:
        pattern = f"bisect_confirmed_{found.parent.verdict}"
        said.append(say(pattern, difference=difference(found.parent), why=skipped(found.parent)))
    if found.ends is not None:
        said.append(say("bisect_ends", difference=difference(found.ends)))
        part = _part(found)
        if part is not None and part < NEARLY:
            again = found.culprits[0].commit[:COMMIT]
            said.append(say("bisect_part", share=units.share(part), commit=again))
    if found.limit_ns is not None:
        limit = units.spoken_delta(found.limit_ns)
        said.append(say("bisect_limit" if found.limit_given else "bisect_limit_half", limit=limit))
    said.append(say("bisect_sure", percent=f"{100 * (1 - found.error):.0f} %"))
    measured = _measured(found)
    cost = say(
        "bisect_cost", minutes=f"{found.seconds / 60:.1f}", measured=counted(len(measured), "commit"), all=f"{found.commits}",
        pairs=counted(sum(one.pairs for one in measured), "pair"),
    )  # fmt: skip
    return [*said, cost]


def _part(found: Bisect) -> float | None:
    """The part of the difference between GOOD and BAD that the culprit has."""
    beside, ends = found.parent, found.ends
    if found.outcome != "found" or not (beside and beside.delta_ns is not None and ends and ends.delta_ns):
        return None
    return beside.delta_ns / ends.delta_ns


def skipped(one: BisectProbe) -> str:
    """Why a commit was skipped; empty where it was not."""
    if one.reason == "noise":
        return say("bisect_decides_noise", pairs=counted(one.pairs, "pair"))
    return f"{one.message} [{one.reason}]" if one.reason else ""


def _rows(found: Bisect) -> list[list[Span]]:
    return [
        [
            Code(one.candidate.commit[:COMMIT]), _VERDICTS[one.verdict], f"{one.pairs}",
            "" if one.delta_ns is None else units.spoken_delta(one.delta_ns),
            _interval(one), f"{one.seconds / 60:.1f}", shorten(one.candidate.subject, NAME),
        ]
        for one in _measured(found)
    ]  # fmt: skip


def _measured(found: Bisect) -> list[BisectProbe]:
    """BAD and the commits that git asked for."""
    return [one for one in (found.ends, *found.probes) if one is not None]


def _interval(one: BisectProbe) -> str:
    if one.low_ns is None or one.high_ns is None:
        return ""
    write = units.prose([one.low_ns, one.high_ns])
    return f"{write.delta(one.low_ns)} to {write.delta(one.high_ns)}"


def document(found: Bisect) -> Section:
    """Which commit it is, how sure, and every commit that was measured."""
    parts: list[Block] = [Line(headline(found), "first"), Items([[line] for line in evidence(found)])]
    if len(found.culprits) > 1:
        left = len(found.culprits) - PAGE
        named = [[Code(one.commit[:COMMIT]), " ", one.subject] for one in found.culprits[:PAGE]]
        more: list[list[Span]] = [[f"and {left} more"]] if left > 0 else []
        parts.append(Section("", "Commits that are left", [Items([*named, *more])]))
    if rows := _rows(found):
        parts.append(Section("", "Commits beside GOOD", [grid("commits", _HEAD, rows, right=(2, 3, 5))]))
    why = [f"{one.candidate.commit[:COMMIT]}: {skipped(one)}" for one in _measured(found) if one.reason]
    if why:
        parts.append(Section("", "Why commits were skipped", [Items([[line] for line in why])]))
    return Section("", "Which commit", parts)
