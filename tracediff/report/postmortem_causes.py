"""The causes of a post-mortem, ranked, each with what shows it."""

from __future__ import annotations

from tracediff.model import Finding, Result
from tracediff.report import units, words
from tracediff.report.document import (
    Block,
    Code,
    Fill,
    Heading,
    Items,
    Listing,
    Number,
    Paragraph,
    Span,
    Strong,
    Table,
)

MOST, LISTED = 12, 40  # causes told at length, and in the table
CONFIDENCE = {"exact": "certain", "confirmed": "high", "likely": "medium", "within_noise": "none"}


def sure_findings(result: Result) -> list[Finding]:
    """The findings beyond noise, in their order."""
    return [finding for finding in result.findings if finding.level != "within_noise"]


def causes(result: Result) -> list[Block]:
    """Return the section: a table of all causes, then the largest with their evidence."""
    found = sure_findings(result)
    blocks: list[Block] = [Heading(2, "Causes, ranked")]
    if not found:
        return [*blocks, Paragraph(["No finding is beyond noise."])]
    scale = words.finding_scale(found)
    rows: list[list[Span]] = [
        [
            Number(str(finding.rank)), words.sentence(finding.title), Number(scale.delta(finding.delta_ns)),
            Number("" if finding.share is None else units.share(finding.share)),
            f"{CONFIDENCE[finding.level]} ({words.LEVELS[finding.level][0]})",
        ]
        for finding in found[:LISTED]
    ]  # fmt: skip
    blocks.append(Table(["", "Cause", "A step", "Of the step's change", "Confidence"], rows))
    # The parts of the mean over ranks: of a change on one rank alone, the finding's own size is that rank's.
    parts = [finding.candidate_ns - finding.baseline_ns for finding in found if finding.cause != "batch_mix"]
    explained = sum(parts)
    blocks.append(
        Paragraph(
            [
                f"Together {scale.delta(explained)} of {scale.delta(result.step.delta_ns)} a step; the rest is spread over places "
                "whose change cannot be told from noise."
            ]
        )
    )
    for finding in found[:MOST]:
        blocks += _cause(finding, scale, words.interval_name(result))
    if len(found) > MOST:
        blocks.append(Paragraph([f"{len(found) - MOST} smaller causes are in the HTML report."]))
    return blocks


def _cause(finding: Finding, scale: units.Scale, interval: str) -> list[Block]:
    evidence = finding.evidence
    tests = (
        ""
        if finding.q_value is None
        else f", q {units.probability(finding.q_value)} after correction for many places"
    )
    items: list[list[Span]] = [
        [
            f"{words.both_sides(finding, scale, '→')} a step; {interval} of this difference "
            f"{scale.signed(finding.ci_low_ns)} to {scale.signed(finding.ci_high_ns)} {scale.unit}{tests}"
        ],
        [Strong(f"Confidence {CONFIDENCE[finding.level]}: "), words.LEVELS[finding.level][1]],
    ]
    place: list[Span] = ["At "]
    for name, value in words.place(finding.where):
        place += [f"{', ' if len(place) > 1 else ''}{name} ", Code(value)]
    if len(place) > 1:
        items.append(place)
    if evidence.runs_baseline_ns and evidence.runs_candidate_ns:
        runs = [
            ", ".join(map(scale.number, values))
            for values in (evidence.runs_baseline_ns, evidence.runs_candidate_ns)
        ]
        items.append([f"Each run, {scale.unit} a step: baseline {runs[0]}; candidate {runs[1]}"])
    if evidence.count_baseline is not None and evidence.count_candidate is not None:
        items.append(
            [
                f"{words.sentence(words.what_is_counted(finding))}: {units.count(evidence.count_baseline)} → {units.count(evidence.count_candidate)}"
            ]
        )
    if finding.note:
        items.append([finding.note])
    if finding.next:
        items.append([Strong("Next: "), finding.next])
    blocks: list[Block] = [Heading(3, f"Cause {finding.rank}: {words.sentence(finding.title)}"), Items(items)]
    if evidence.moments:
        blocks += [Paragraph(["Where to look in Nsight Systems:"]), _moments(finding)]
    if evidence.sql:
        blocks += [
            Paragraph(["What shows it, as a query on the export itself:"]),
            Listing(evidence.sql, "sql"),
        ]
    return [*blocks, Paragraph([Fill("What in the code explains this.")])]


def _moments(finding: Finding) -> Table:
    rows = [
        [
            moment.side, Code(moment.run), Number(f"{moment.start_ns / 1e9:.6f} s"), Number(f"{moment.end_ns / 1e9:.6f} s"),
            Number(f"{(moment.end_ns - moment.start_ns) / 1e3:,.1f} us"), moment.what,
        ]
        for moment in finding.evidence.moments
    ]  # fmt: skip
    return Table(["Side", "Capture", "From", "To", "Length", ""], rows)
