"""A search for a commit as text: what caused the change, how sure, and every commit that was measured."""

from __future__ import annotations

import math
from typing import Protocol

from rich.console import Console

from tracediff.formats.recognise import counted
from tracediff.model.bisect import Bisect, BisectCommit, BisectProbe
from tracediff.report import units
from tracediff.report.blocks import Block, Code, Items, Line, Section, Span, Strong, grid
from tracediff.report.console import print_document
from tracediff.report.document import markdown
from tracediff.report.escape import neutral, shorten


class _Difference(Protocol):
    """What a probe and a look at it have."""

    @property
    def delta_ns(self) -> float | None: ...
    @property
    def low_ns(self) -> float | None: ...
    @property
    def high_ns(self) -> float | None: ...


_SUBJECT = 50  # letters of a subject in a table
_NAMED = 20  # commits that are left
_WHOLE = 0.7  # of the difference, below which other commits have a part in it
_HEAD = ("commit", "answer", "pairs", "difference", "interval", "minutes", "subject")
_VERDICTS = {"good": "good", "bad": "bad", "skip": "skipped"}


def name(one: BisectCommit) -> str:
    """A commit in a sentence."""
    return f'{one.commit[:12]} "{shorten(one.subject, _SUBJECT)}"'


def difference(one: _Difference) -> str:
    """A difference with its interval: `+48.2 us (+45.1 us to +51.3 us)`."""
    if one.delta_ns is None:
        return "not measured"
    write = units.prose([one.delta_ns])
    if one.low_ns is None or one.high_ns is None or not math.isfinite(one.low_ns):
        return f"{write.signed(one.delta_ns)} (too few pairs for an interval)"
    write = units.prose([one.delta_ns, one.low_ns, one.high_ns])
    low, high = (write.signed(bound) for bound in (one.low_ns, one.high_ns))
    return f"{write.signed(one.delta_ns)} ({low} to {high})"


def headline(found: Bisect) -> list[str]:
    """The first sentence."""
    if found.outcome != "found":
        return [Strong(_unfinished(found))]
    culprit, beside = found.culprits[0], found.parent
    said = ""
    if beside is not None and beside.delta_ns is not None:
        said = f": {found.measure} {units.prose([beside.delta_ns]).signed(beside.delta_ns)} per step beside its parent"
    return [
        Strong("Culprit: "),
        Code(culprit.commit[:12]),
        Strong(f' "{shorten(culprit.subject, _SUBJECT)}"{said}.'),
    ]


def _unfinished(found: Bisect) -> str:
    left, ends = counted(len(found.culprits) or found.commits, "commit"), found.ends
    if ends is not None and found.outcome in ("no_difference", "noise"):
        measured = f"{difference(ends)} after {counted(ends.pairs, 'pair')}"
        if found.outcome == "noise":
            return f"Noise hides where {found.measure} changed: GOOD and BAD differ by {measured}."
        limit = ""
        if found.limit_given and found.limit_ns is not None:
            limit = f" by more than {units.prose([found.limit_ns]).size(found.limit_ns)} per step"
        return f"GOOD and BAD do not differ in {found.measure}{limit}: {measured} of runs."
    if found.outcome == "budget":
        return f"The budget is spent: the culprit is one of {left}."
    if found.outcome == "ambiguous":
        return f"The culprit is one of {left}: those between them could not be measured."
    return f"The search is not at its end: {left} are left."


def evidence(found: Bisect) -> list[str]:
    """What the answer rests on, a sentence or two each."""
    said = []
    if found.parent is not None:
        confirmed = {
            "bad": "confirmed", "good": "refuted: its parent has the change already", "skip": "not confirmed",
        }[found.parent.verdict]  # fmt: skip
        why = f": {skipped(found.parent)}" if found.parent.reason else ""
        said.append(f"Beside its parent: {difference(found.parent)}, {confirmed}{why}.")
    if found.ends is not None:
        said.append(f"BAD beside GOOD: {difference(found.ends)}.")
        part = _part(found)
        if part is not None and part < _WHOLE:
            said.append(
                f"This commit explains {units.share(part)} of that: other commits changed it too."
                f" Search again from {found.culprits[0].commit[:12]} to BAD."
            )
    if found.limit_ns is not None:
        source = "" if found.limit_given else ", half of the difference between GOOD and BAD"
        said.append(
            f"Limit: {units.prose([found.limit_ns]).signed(found.limit_ns)} per step beside GOOD{source}."
        )
    said.append(
        f"All answers together are right with a probability of {100 * (1 - found.error):.0f} % or more."
    )
    measured = _measured(found)
    said.append(
        f"Builds and runs: {found.seconds / 60:.1f} minutes for {counted(len(measured), 'commit')} of {found.commits} beside GOOD, "
        f"{counted(sum(one.pairs for one in measured), 'pair')}."
    )
    return said


def _part(found: Bisect) -> float | None:
    """The part of the difference between GOOD and BAD that the culprit has."""
    beside, ends = found.parent, found.ends
    if found.outcome != "found" or not (beside and beside.delta_ns is not None and ends and ends.delta_ns):
        return None
    return beside.delta_ns / ends.delta_ns


def skipped(one: BisectProbe) -> str:
    """Why a commit was skipped; empty where it was not."""
    if one.reason == "noise":
        return f"noise decides after {counted(one.pairs, 'pair')}"
    return f"{one.message} [{one.reason}]" if one.reason else ""


def _rows(found: Bisect) -> list[list[Span]]:
    return [
        [
            Code(one.candidate.commit[:12]), _VERDICTS[one.verdict], f"{one.pairs}",
            "" if one.delta_ns is None else units.prose([one.delta_ns]).signed(one.delta_ns),
            _interval(one), f"{one.seconds / 60:.1f}", shorten(one.candidate.subject, _SUBJECT),
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
    return f"{write.signed(one.low_ns)} to {write.signed(one.high_ns)}"


def document(found: Bisect) -> Section:
    """Which commit it is, how sure, and every commit that was measured."""
    parts: list[Block] = [Line(headline(found), "first"), Items([[line] for line in evidence(found)])]
    if len(found.culprits) > 1:
        left = len(found.culprits) - _NAMED
        named = [[Code(one.commit[:12]), " ", one.subject] for one in found.culprits[:_NAMED]]
        more: list[list[Span]] = [[f"and {left} more"]] if left > 0 else []
        parts.append(Section("", "Commits that are left", [Items([*named, *more])]))
    if rows := _rows(found):
        parts.append(Section("", "Commits beside GOOD", [grid("commits", _HEAD, rows, right=(2, 3, 5))]))
    why = [f"{one.candidate.commit[:12]}: {skipped(one)}" for one in _measured(found) if one.reason]
    if why:
        parts.append(Section("", "Why commits were skipped", [Items([[line] for line in why])]))
    return Section("", "Which commit", parts)


def render_bisect_markdown(report: Bisect) -> str:
    """Return the report."""
    return markdown([document(neutral(report))])


def render_bisect_terminal(report: Bisect, console: Console) -> None:
    """Print the report."""
    print_document(console, document(neutral(report)))
