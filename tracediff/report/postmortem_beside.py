"""Parts of the post-mortem on what was given beside the captures: gates, latencies without a profiler."""

from __future__ import annotations

from tracediff.model import Result
from tracediff.report import latencies_words, words
from tracediff.report.document import Block, Code, Heading, Items, Number, Paragraph, Span, Strong, Table

_MOST = 20  # rows and notes


def gates(result: Result) -> list[Block]:
    """Return what became of the gates; nothing where none were judged."""
    found = result.gates
    if found is None or not found.outcomes:
        return []
    rows: list[list[Span]] = [
        [Code(one.text), one.outcome + (", warning only" if one.severity == "warning" else ""), one.message]
        for one in found.outcomes[:_MOST]
    ]
    left = len(found.outcomes) - _MOST
    notes: list[list[Span]] = [[note] for note in found.notes[:_MOST]]
    notes += [
        [Code(one.text), f": its failure is waived until {one.waiver.expires}: {one.waiver.reason}"]
        for one in found.outcomes
        if one.waiver is not None
    ][:_MOST]
    return [
        Heading(2, "Gates"),
        Table(["Gate", "Outcome", "What was measured"], rows),
        *([Paragraph([f"{left} more gates: see the JSON."])] if left > 0 else []),
        *([Items(notes)] if notes else []),
    ]


def latencies(result: Result) -> list[Block]:
    """Return the latencies that were measured without a profiler; nothing where none were given."""
    found = result.latencies
    if found is None:
        return []
    unit = latencies_words.scale(found).unit
    rows: list[list[Span]] = [
        [
            line.label, Number(line.before), Number(line.after), Number(line.delta), Number(line.change),
            Number(line.interval), line.level,
        ]
        for line in latencies_words.lines(found)
    ]  # fmt: skip
    header = [
        f"{unit} an iteration", "Baseline", "Candidate", "Delta", "Change", latencies_words.interval_name(found), "Level",
    ]  # fmt: skip
    notes = [f"Profiling, {line}." for line in latencies_words.traced(found)] + (
        [found.note] if found.note else []
    )
    notes += [
        f"{check.name.replace('_', ' ')}: baseline {check.baseline}, candidate {check.candidate}: {check.message}"
        for check in found.checks
        if check.status != "ok"
    ]
    return [
        Heading(2, "Latencies without a profiler"),
        Paragraph([Strong(f"{words.VERDICTS[found.verdict].word}. "), words.sentence(found.verdict_reason)]),
        Table(header, rows),
        Paragraph([f"{latencies_words.facts(found)}."]),
        *([Items([[note] for note in notes[:_MOST]])] if notes else []),
    ]
