"""The post-mortem as a document: what the evidence says is written, what only its author knows is left to fill.

Sections: summary, impact, latencies and gates where there are any, timeline, what changed, causes, what was ruled out, how it was measured, root cause, actions.
"""

from __future__ import annotations

from tracediff.model import Result, RunInput
from tracediff.report import palette, units, waterfall, words
from tracediff.report.document import (
    Block,
    Code,
    Fill,
    Heading,
    Items,
    Number,
    Paragraph,
    Span,
    Strong,
    Table,
)
from tracediff.report.document import Waterfall as Figure
from tracediff.report.left_out import left_out
from tracediff.report.postmortem_beside import gates, latencies
from tracediff.report.postmortem_causes import CONFIDENCE, MOST, causes, sure_findings
from tracediff.report.ruled_out import ruled_out


def build(result: Result) -> list[Block]:
    """Return the document's blocks; the result is already free of control characters."""
    return [
        *_opening(result),
        *_summary(result),
        *_impact(result),
        *latencies(result),
        *gates(result),
        *_timeline(result),
        *_changed(result),
        *causes(result),
        *ruled_out(result),
        *_measured(result),
        *_conclusion(),
        *_actions(result),
    ]


def _opening(result: Result) -> list[Block]:
    head = words.headline(result)
    title = f"{words.VERDICTS[result.verdict].word}, step time {head.delta.signed} {head.delta.unit}"
    if head.delta.percent != units.NOISE:
        title += f" ({head.delta.percent})"
    blanks = ["Owner", "Service, model, hardware", "Change under suspicion (commit, pull request)"]
    blanks += ["Began", "Detected", "Resolved"]
    return [
        Heading(1, f"Post-mortem: {title}"),
        Table(["", ""], [["Status", "draft"], *([name, Fill("")] for name in blanks)]),
    ]


def _summary(result: Result) -> list[Block]:
    head, step = words.headline(result), result.step
    verdict = words.VERDICTS[result.verdict]
    sure = [
        f"{words.interval_name(result)} of the difference {head.interval}",
        f"{head.runs} runs, {head.steps} steps",
    ]
    if step.p_value is not None:
        sure.insert(1, f"p {units.probability(step.p_value)}")
    blocks: list[Block] = [
        Heading(2, "Summary"),
        Paragraph(
            [
                Strong(f"{verdict.word}."), f" {verdict.meaning} A step of ", Code(result.inputs.candidate.label),
                f" takes {head.candidate}, one of ", Code(result.inputs.baseline.label), f" {head.baseline}: {head.delta} (",
                "; ".join(sure), ").",
            ]
        ),
        Paragraph([result.verdict_reason]),
    ]  # fmt: skip
    found = sure_findings(result)
    if found:
        best = found[0]
        scale = words.finding_scale(found)
        share = "" if best.share is None else f", {units.share(best.share)} of the step's change"
        blocks.append(
            Paragraph(
                [
                    Strong("Largest cause: "),
                    f"{best.title} ({scale.delta(best.delta_ns)} a step{share}; confidence {CONFIDENCE[best.level]}).",
                ]
            )
        )
    else:
        blocks.append(Paragraph(["No cause could be told from noise."]))
    return [*blocks, Paragraph([Fill("What users noticed, in two sentences.")])]


def _impact(result: Result) -> list[Block]:
    blocks: list[Block] = [Heading(2, "Impact")]
    kpi, step = result.kpi, result.step
    if kpi and kpi.rows:
        rows: list[list[Span]] = [
            [
                row.metric + (f", {row.unit}" if row.unit else ""), Number(f"{row.baseline:,.6g}"), Number(f"{row.candidate:,.6g}"),
                Number(units.percent(row.delta, row.baseline)),
                "" if not row.delta else "better" if (row.delta > 0) == (row.better == "higher") else "worse",
                Number("" if row.explained is None else units.share(row.explained)),
            ]
            for row in kpi.rows
        ]  # fmt: skip
        header = ["Figure", "Baseline", "Candidate", "Change", "", "Explained by the step time"]
        blocks.append(Table(header, rows))
    else:
        blocks.append(
            Paragraph(
                [
                    "No benchmark figures were given (", Code("--baseline-kpi"), ", ", Code("--candidate-kpi"),
                    "): the impact on users is not measured here.",
                ]
            )
        )  # fmt: skip
    if kpi and kpi.note:
        blocks.append(Paragraph([kpi.note]))
    if step.baseline_ns > 0 and step.candidate_ns > 0:
        before, after = 1e9 / step.baseline_ns, 1e9 / step.candidate_ns
        change = units.percent(after - before, before)
        sure = result.verdict not in ("no_change", "inconclusive", "not_comparable")
        doubt = "" if sure else " This difference is not established (see the verdict)."
        blocks.append(
            Paragraph(
                [
                    f"By the mean step (of the workloads compared, at the baseline's mix) a rank does {before:,.1f} steps a second on"
                    f" the baseline and {after:,.1f} on the candidate ({change}). Where "
                    "serving is bound by the step, output tokens a second at the same batch change by as much, and time per output "
                    f"token by {units.percent(step.delta_ns, step.baseline_ns)}.{doubt}"
                ]
            )
        )  # fmt: skip
    blocks += _tails(result)
    return [*blocks, Paragraph([Fill("Requests, users, hours and cost affected.")])]


def _tails(result: Result) -> list[Block]:
    both = [(phase, phase.baseline, phase.candidate) for phase in result.phases]
    rows: list[list[Span]] = []
    for phase, before, after in both:
        if before is None or after is None:
            continue
        scale = units.scale_for([before.p99_ns, after.p99_ns])
        cells = [f"{scale.number(b)} → {scale.time(a)}" for b, a in (
            (before.mean_ns, after.mean_ns), (before.p50_ns, after.p50_ns), (before.p99_ns, after.p99_ns)
        )]  # fmt: skip
        rows.append([Code(phase.phase), Number(f"{before.steps} → {after.steps}"), *map(Number, cells)])
    if not rows:
        return []
    return [
        Paragraph(["All whole steps of a phase, whatever their workload:"]),
        Table(["Phase", "Steps", "Mean", "p50", "p99"], rows),
    ]


def _timeline(result: Result) -> list[Block]:
    events = ["change merged", "first sign", "alert", "cause found", "resolved"]
    return [
        Heading(2, "Timeline"),
        Table(["When (UTC)", "What happened"], [[Fill(""), Fill(event)] for event in events]),
        *_captures(result),
    ]


def _captures(result: Result) -> list[Block]:
    """The runs of both sides: in the order of recording where a capture bundle told it, else as they were given."""
    runs = [
        (side, run)
        for side, given in (("baseline", result.inputs.baseline), ("candidate", result.inputs.candidate))
        for run in given.runs
    ]
    times = _recorded(result)
    known = {(side, run.name) for side, run in runs} <= times.keys()
    header = ["Side", "Capture", "Length", "Whole steps", "Ranks"]
    rows: list[list[Span]] = []
    if known:
        order = list(times)
        runs.sort(key=lambda pair: order.index((pair[0], pair[1].name)))
        header.insert(0, "Recorded (UTC)")
    for side, run in runs:
        cells: list[Span] = [
            side,
            Code(run.name),
            Number(f"{run.duration_ns / 1e9:.3f} s"),
            Number(f"{run.steps:,}"),
            Number(str(run.ranks)),
        ]
        rows.append([times[side, run.name] or Fill(""), *cells] if known else cells)
    if known:
        return [Paragraph(["Captures, in the order in which they were recorded:"]), Table(header, rows)]
    return [
        Paragraph(["Captures, in the order in which they were given:"]),
        Table(header, rows),
        Paragraph([Fill("When and in which order these were recorded.")]),
    ]


def _recorded(result: Result) -> dict[tuple[str, str], str]:
    """(side, run) -> when it was recorded, in order; empty unless both sides came from one capture bundle."""
    given = result.inputs.options.get("recorded")
    out: dict[tuple[str, str], str] = {}
    for one in given if isinstance(given, list) else []:
        if isinstance(one, dict):
            out[str(one.get("side")), str(one.get("run"))] = str(one.get("started") or "")
    return out


def _changed(result: Result) -> list[Block]:
    books = result.accounting
    figure = waterfall.build(result)
    everything = [*books.baseline.values(), *books.candidate.values()]
    scale = units.scale_for(everything)
    rows: list[list[Span]] = []
    for key in palette.order(set(books.delta)):
        if key not in books.delta:
            continue
        level = books.level.get(key)
        cells = [
            "not captured" if one is None else scale.number(one)
            for one in (books.baseline.get(key), books.candidate.get(key))
        ]
        low, high = books.ci_low.get(key), books.ci_high.get(key)
        interval = "" if low is None or high is None else f"{scale.signed(low)} to {scale.signed(high)}"
        rows.append(
            [
                palette.category(key).label, *map(Number, cells), Number(scale.signed(books.delta[key])), Number(interval),
                words.LEVELS[level][0] if level else "",
            ]
        )  # fmt: skip
    header = [
        "Category",
        *(f"{name}, {scale.unit}" for name in ("Baseline", "Candidate", "Delta", "95 % CI")),
        "Evidence",
    ]
    return [
        Heading(2, "What changed"),
        Figure(waterfall.text_figure(figure)),
        Paragraph(
            [
                "Every instant of a step belongs to exactly one category: they add up to the step time"
                f" (largest residual over all steps: {books.residual_ns} ns)."
            ]
        ),
        Table(header, rows),
    ]


def _measured(result: Result) -> list[Block]:
    step, head = result.step, words.headline(result)
    compared = [stratum for stratum in result.strata if stratum.compared]
    items: list[list[Span]] = [
        [
            "Steps are compared with steps of like workload, and their means weighted by the baseline's mix: "
            f"{len(compared)} of {len(result.strata)} workloads were compared, {head.steps} steps."
        ],
        [
            "The unit of replication is the run: intervals resample runs, then steps; many places are corrected for (Benjamini-Hochberg)."
        ],
    ]
    if head.noise:
        items.append([f"Noise floor, {words.NOISE_FLOOR}: {head.noise}."])
    items += [[note] for note in (step.power_note, words.mix_note(result), *left_out(result)) if note]
    items += [[text] for kind in words.KINDS if (text := words.missing(result, kind))]
    items += [[f"{note.message} (", Code(note.slug), ")"] for note in result.warnings[:50]]
    limits: list[list[Span]] = [
        ["A capture slows the host: times under the profiler are longer than in production, on both sides."],
        [
            "Waiting is charged to the launching thread; which other thread caused it is known only for the GIL."
        ],
        ["Why a kernel is slower is a question for Nsight Compute."],
    ]
    sides = (("baseline", result.inputs.baseline), ("candidate", result.inputs.candidate))
    inputs = [_input(name, run) for name, side in sides for run in side.runs]
    return [
        Heading(2, "How it was measured, and its limits"),
        Items(items),
        Paragraph(["What it cannot say:"]),
        Items(limits),
        Table(["Side", "Capture", "Size", "Steps found by", "Fingerprint"], inputs),
        Paragraph([f"{result.tool.name} {result.tool.version}."]),
    ]


def _input(side: str, run: RunInput) -> list[Span]:
    return [side, Code(run.name), Number(units.size(run.bytes)), run.step_source, Code(run.fingerprint[:16])]


def _conclusion() -> list[Block]:
    blanks = [
        "Root cause",
        "Trigger",
        "Why it was not caught before release",
        "What limited the damage",
        "What we were lucky about",
    ]
    return [
        Heading(2, "Root cause and lessons"),
        Table(["", ""], [[blank, Fill("")] for blank in blanks]),
    ]


def _actions(result: Result) -> list[Block]:
    items: list[list[Span]] = []
    steps = dict.fromkeys(finding.next for finding in sure_findings(result) if finding.next)
    for text in list(steps)[:MOST]:
        items.append([f"{words.sentence(text)}: ", Fill("owner, by when")])
    gated = "step:+3%"
    items += [
        [
            f"Gate it in continuous integration ({gated}, or the cause's own metric; see docs/ci.md): ",
            Fill("owner, by when"),
        ],
        [Fill("What would have caught it earlier: owner, by when")],
        [Fill("What would have limited it: owner, by when")],
    ]
    return [Heading(2, "Action items"), Items(items, boxes=True)]
