"""The post-mortem as a document: what the evidence says is written, what only its author knows is left to fill.

Sections: summary, impact, latencies and gates where there are any, timeline, what changed, causes, what was ruled out, how it was measured, root cause, actions.
"""

from __future__ import annotations

import math
from pathlib import Path
from urllib.parse import quote

from markupsafe import Markup

from tracediff.errors import TracediffError
from tracediff.model import Finding, FindingPart, PhaseDelta, Result, RunInput
from tracediff.report import (
    document,
    launch_words,
    palette,
    phase_table,
    sections,
    templates,
    units,
    waterfall,
    words,
)
from tracediff.report.document import (
    Block,
    Code,
    Figure,
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
from tracediff.report.escape import neutral, shorten
from tracediff.report.pictures import waterfall as drawn
from tracediff.report.pictures.shapes import HALF
from tracediff.report.words import left_out

MOST, LISTED = 12, 40  # causes told at length, and in the table
CONFIDENCE = {"exact": "certain", "confirmed": "high", "likely": "medium", "within_noise": "none"}
NEGLIGIBLE = 0.01  # of a step: what lies within it with its whole interval is ruled out; beyond it noise may hide a change
_MOST_GATES = 20
_LONGEST = 400  # characters of a name
_MARKDOWN, _HTML = (".md", ".markdown"), (".html", ".htm")


def file_names(path: Path) -> list[Path]:
    """Return the files that a post-mortem of this name consists of.

    Raises `TracediffError` (postmortem-format).
    """
    suffix = path.suffix.lower()
    if suffix in _HTML:
        return [path]
    if suffix in _MARKDOWN:
        return [path, _figure_path(path)]
    raise TracediffError(
        "postmortem-format",
        f"--postmortem {path.name}: the ending says neither Markdown nor HTML",
        fix="FILE.md or FILE.html",
        exit_code=2,
    )


def _figure_path(path: Path) -> Path:
    return path.with_name(f"{path.stem}-waterfall.svg")


def render_postmortem(result: Result, path: Path) -> dict[Path, bytes]:
    """Return every file and its content."""
    result = neutral(result)
    blocks = _build(result)
    chart = waterfall.build(result)
    files = file_names(path)
    if len(files) == 1:
        return {path: _html(blocks, drawn.draw(chart, HALF).svg()).encode()}
    figure = files[1]
    image = f"![Step-time waterfall, drawn]({quote(figure.name)})"
    text = document.markdown(blocks, _LONGEST, image) + "\n\n"
    return {path: text.encode(), figure: drawn.draw(chart, HALF).svg(alone=True).encode()}


def _html(blocks: list[document.Block], drawing: str) -> str:
    page = templates.html_environment().get_template("postmortem.html.j2")
    # The palette and a drawing of fixed words: the only text of the page that is not escaped.
    return page.render(
        blocks=blocks,
        style=document.style,
        longest=_LONGEST,
        shorten=shorten,
        title=next(block.text for block in blocks if isinstance(block, document.Heading)),
        stylesheet=Markup(palette.stylesheet() + "\n" + templates.text("postmortem.css")),
        drawing=Markup(drawing),
    )


# The sections, in their order.


def _build(result: Result) -> list[Block]:
    """Return the document's blocks; the result is already free of control characters."""
    return [
        *_opening(result),
        *_summary(result),
        *_impact(result),
        *(sections.renderer(result.latencies).document(result.latencies) if result.latencies else []),
        *_gates(result),
        *_timeline(result),
        *_changed(result),
        *_causes(result),
        *ruled_out(result),
        *_measured(result),
        *_conclusion(),
        *_actions(result),
    ]


def _opening(result: Result) -> list[Block]:
    line = _leading(result)
    title = words.VERDICTS[result.verdict].word
    if result.verdict != "not_comparable":
        unit = words.unit(result)
        step = f"{line.phase} {unit}" if line.phase not in ("", "step") else unit
        title += f", {step} time {_delta(line)}"
    blanks = ["Owner", "Service, model, hardware", "Change under suspicion (commit, pull request)"]
    blanks += ["Began", "Detected", "Resolved"]
    return [
        Heading(1, f"Post-mortem: {title}"),
        Table(["", ""], [["Status", "draft"], *([name, Fill("")] for name in blanks)]),
    ]


def _summary(result: Result) -> list[Block]:
    verdict, said = words.VERDICTS[result.verdict], result.headline.text
    blocks: list[Block] = [
        Heading(2, "Summary"),
        Paragraph(
            [
                Strong(said or f"{verdict.word}."), " Baseline ", Code(result.inputs.baseline.label), ", candidate ",
                Code(result.inputs.candidate.label), ".",
            ]
        ),
    ]  # fmt: skip
    if result.verdict_reason and result.verdict_reason != said:
        blocks.append(Paragraph([result.verdict_reason]))
    blocks.append(_phases(result))
    if not _sure_findings(result) and not launch_words.by_launch(result):
        blocks.append(Paragraph(["No cause is beyond noise."]))
    return [*blocks, Paragraph([Fill("What users noticed, in two sentences.")])]


def _leading(result: Result) -> phase_table.PhaseLine:
    """The row that the headline is of; the mean step where it is of none."""
    rows = phase_table.lines(result)
    return next(
        (row for row in rows if row.kind == "typical" and row.phase == result.headline.phase), rows[-1]
    )


def _delta(line: phase_table.PhaseLine) -> str:
    delta = units.delta(line.scale, line.change.delta_ns, line.base_ns, line.level)
    return f"{delta.signed} {delta.unit}" + ("" if delta.percent == units.NOISE else f" ({delta.percent})")


def _phases(result: Result) -> Table:
    """The table of phases: the typical step, what rare steps and first steps add, and the mean step."""
    rows: list[list[Span]] = []
    for line in phase_table.lines(result):
        scale, change, measured = line.scale, line.change, line.measured
        shown = line.verdict if result.verdict != "not_comparable" else None
        host = measured.host_speed_ns if measured else 0.0
        interval = least = ""
        if measured:
            interval = f"{scale.signed(measured.ci_low_ns)} to {scale.signed(measured.ci_high_ns)}"
            least = "" if measured.detectable_ns is None else scale.time(measured.detectable_ns)
        figures = [
            f"{scale.number(change.baseline_ns)} → {scale.time(change.candidate_ns)}",
            scale.delta(host) if host else "",
            _delta(line) if line.base_ns else scale.delta(change.delta_ns),
            interval,
            least,
            line.time_share.replace("->", "→"),
            line.steps,
        ]
        rows.append(
            [
                Code(line.phase) if line.phase else "",
                phase_table.NAMES[line.kind],
                line.unjudged if shown is None else words.VERDICTS[shown].word,
                *map(Number, figures),
            ]
        )
    header = [
        "Phase",
        "",
        "Verdict",
        f"Per {words.unit(result)}",
        "Host speed",
        "Delta",
        "95 % interval",
        "Smallest detectable",
    ]
    return Table([*header, "Of step time", "Steps"], rows)


def _impact(result: Result) -> list[Block]:
    blocks: list[Block] = [Heading(2, "Impact")]
    step = result.step
    figures = sections.renderer(result.kpi).document(result.kpi) if result.kpi else []
    if not any(isinstance(block, Table) for block in figures):
        blocks.append(
            Paragraph(
                [
                    "No benchmark figures were given (", Code("--baseline-kpi"), ", ", Code("--candidate-kpi"),
                    "): the impact on users is not measured here.",
                ]
            )
        )  # fmt: skip
    blocks += figures
    equal = step.baseline_ns + step.delta_ns
    if step.baseline_ns > 0 and equal > 0 and not words.whole_captures(result):
        before, after = 1e9 / step.baseline_ns, 1e9 / equal
        change = units.percent(after - before, before)
        sure = result.verdict not in ("no_change", "inconclusive", "not_comparable")
        doubt = "" if sure else " This difference is not established (see the verdict)."
        blocks.append(
            Paragraph(
                [
                    f"By the mean step (equal workload, equal host speed) a rank does {before:,.1f} steps per second on"
                    f" the baseline and {after:,.1f} on the candidate ({change}). Where serving is bound by the step, output tokens"
                    f" per second at the same batch change by as much.{doubt}"
                ]
            )
        )
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


def _gates(result: Result) -> list[Block]:
    """Return what became of the gates; nothing where none were judged."""
    found = result.gates
    if found is None or not found.outcomes:
        return []
    rows: list[list[Span]] = [
        [Code(one.text), one.outcome + (", warning only" if one.severity == "warning" else ""), one.message]
        for one in found.outcomes[:_MOST_GATES]
    ]
    left = len(found.outcomes) - _MOST_GATES
    notes: list[list[Span]] = [[note] for note in found.notes[:_MOST_GATES]]
    notes += [
        [Code(one.text), f": its failure is waived until {one.waiver.expires}: {one.waiver.reason}"]
        for one in found.outcomes
        if one.waiver is not None
    ][:_MOST_GATES]
    return [
        Heading(2, "Gates"),
        Table(["Gate", "Outcome", "What was measured"], rows),
        *([Paragraph([f"{left} more gates: see the JSON."])] if left > 0 else []),
        *([Items(notes)] if notes else []),
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
        host = books.host_speed.get(key, 0.0)
        rows.append(
            [
                palette.category(key).label, *map(Number, cells), Number(scale.signed(host) if host else ""),
                Number(scale.signed(books.delta[key])), Number(interval),
                words.LEVELS[level][0] if level else "",
            ]
        )  # fmt: skip
    header = [
        "Category",
        *(f"{name}, {scale.unit}" for name in ("Baseline", "Candidate", "Host speed", "Delta", "95 % CI")),
        "Evidence",
    ]
    return [
        Heading(2, "What changed"),
        Figure(waterfall.text_figure(figure)),
        Paragraph(
            [
                f"Every instant of a {figure.unit} belongs to exactly one category: they add up to the {figure.unit} time"
                f" (largest residual over all {figure.unit}s: {books.residual_ns} ns)."
            ]
        ),
        Table(header, rows),
    ]


def _sure_findings(result: Result) -> list[Finding]:
    """The findings beyond noise, in their order."""
    return [finding for finding in result.findings if finding.level != "within_noise"]


def _causes(result: Result) -> list[Block]:
    """Return the section: a table of all causes, then the largest with their evidence."""
    found = _sure_findings(result)
    blocks: list[Block] = [Heading(2, "Causes, ranked")]
    launched = launch_words.table(result, MOST, _LONGEST)
    if not found:
        return [*blocks, *(launched or [Paragraph(["No finding is beyond noise."])])]
    scale = words.finding_scale(found)
    rows: list[list[Span]] = [
        [
            Number(str(finding.rank)), words.sentence(finding.title), *_phase(finding), Number(scale.delta(finding.delta_ns)),
            Number("" if finding.share is None else units.share(finding.share)), Number(_held(result, finding)),
            f"{CONFIDENCE[finding.level]} ({words.LEVELS[finding.level][0]})",
        ]
        for finding in found[:LISTED]
    ]  # fmt: skip
    blocks.append(
        Table(
            ["", "Cause", "Phase", "", "Per step", "Of the phase's change", "Held in runs", "Confidence"],
            rows,
        )
    )
    for finding in found[:MOST]:
        blocks += _cause(
            finding, scale, words.interval_name(result), _held(result, finding), words.unit(result)
        )
    if len(found) > MOST:
        blocks.append(Paragraph([f"{len(found) - MOST} smaller causes are in the HTML report."]))
    return blocks


def _phase(finding: Finding) -> list[Span]:
    """The phase of a cause, and in which of its steps."""
    return [Code(finding.where.phase or ""), phase_table.NAMES[finding.part] if finding.where.phase else ""]


def _held(result: Result, finding: Finding) -> str:
    """In how many runs of each side the change holds."""
    if finding.held is None:
        return ""
    runs = phase_table.runs_of(result, finding.where.phase)
    return f"{finding.held.baseline} of {runs[0]} + {finding.held.candidate} of {runs[1]}"


def _parts(finding: Finding, scale: units.Scale) -> list[Block]:
    """What a cause nets, what follows from it, and the same cause in other phases."""
    blocks: list[Block] = []
    for follows, title in ((False, "Part"), (True, "Follows from it, not in its size")):
        rows: list[list[Span]] = [
            [
                words.cause(part.cause), Code(" ".join(value for name, value in words.place(part.where) if name != "phase")),
                *_sized(part, scale),
            ]
            for part in finding.parts
            if part.follows == follows
        ]  # fmt: skip
        if rows:
            blocks.append(Table([title, "", "Per step", "95 % interval", "Evidence"], rows))
    elsewhere: list[list[Span]] = [
        [Code(one.phase), phase_table.NAMES[one.part], *_sized(one, scale)] for one in finding.phases
    ]
    if elsewhere:
        blocks.append(Table(["Same cause in", "", "Per step", "95 % interval", "Evidence"], elsewhere))
    return blocks


def _sized(one: FindingPart | PhaseDelta, scale: units.Scale) -> list[Span]:
    interval = f"{scale.signed(one.ci_low_ns)} to {scale.signed(one.ci_high_ns)}"
    return [Number(scale.delta(one.delta_ns)), Number(interval), words.LEVELS[one.level][0]]


def _cause(finding: Finding, scale: units.Scale, interval: str, held: str, unit: str) -> list[Block]:
    evidence = finding.evidence
    tests = (
        ""
        if finding.q_value is None
        else f", q {units.probability(finding.q_value)} after correction for many places"
    )
    items: list[list[Span]] = [
        [
            f"{words.both_sides(finding, scale, '→')} per {unit}; {interval} of this difference "
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
        items.append([f"Each run, {scale.unit} per {unit}: baseline {runs[0]}; candidate {runs[1]}"])
    if evidence.count_baseline is not None and evidence.count_candidate is not None:
        items.append(
            [
                f"{words.sentence(words.what_is_counted(finding))}: {units.count(evidence.count_baseline)} → {units.count(evidence.count_candidate)}"
            ]
        )
    if held:
        odd = finding.held.odd if finding.held else []
        items.append([f"Held in {held} runs", *([": not in ", Code(", ".join(odd))] if odd else [])])
    if finding.note:
        items.append([finding.note])
    if finding.next:
        items.append([Strong("Next: "), finding.next])
    blocks: list[Block] = [Heading(3, f"Cause {finding.rank}: {words.sentence(finding.title)}"), Items(items)]
    blocks += _parts(finding, scale)
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


# What was ruled out, and what was not: a change that was not seen is not a change that is not there.


def ruled_out(result: Result) -> list[Block]:
    """Return the section: categories, kernels, the mix of steps, and the circumstances of both captures."""
    blocks: list[Block] = [Heading(2, "What was ruled out, and why")]
    if result.verdict == "not_comparable":
        blocks.append(
            Paragraph(
                [
                    "Nothing: the sides are not comparable, and any difference may be one of what differs below."
                ]
            )
        )
    else:
        within = f"{100 * NEGLIGIBLE:.0f} % of a step"
        blocks += [
            Paragraph(
                [
                    f"Ruled out means: the whole 95 % interval lies within {within}. Where noise could hide more than that, "
                    "nothing is ruled out."
                ]
            ),
            Table(["Possible cause", "Delta", "95 % CI", "", ""], _categories(result)),
        ]
    checks = result.comparability.checks
    same = [check for check in checks if check.status == "ok" and check.baseline == check.candidate]
    other = [check for check in checks if check not in same]
    if same:
        rows: list[list[Span]] = [[check.name, Code(check.baseline), check.message] for check in same]
        blocks += [
            Paragraph(["Circumstances that are the same on both sides:"]),
            Table(["", "Value", ""], rows),
        ]
    if other:
        harmless = {"ok": "no obstacle to comparing", "warn": "not ruled out", "fail": "not comparable"}
        rows = [
            [check.name, Code(check.baseline), Code(check.candidate), harmless[check.status], check.message]
            for check in other
        ]
        blocks += [
            Paragraph(["Circumstances that differ:"]),
            Table(["", "Baseline", "Candidate", "", ""], rows),
        ]
    return blocks


def _categories(result: Result) -> list[list[Span]]:
    books, step = result.accounting, result.step.baseline_ns
    scale = units.scale_for([*books.delta.values(), *books.ci_low.values(), *books.ci_high.values()])
    rows: list[list[Span]] = []
    for key in palette.order(set(books.delta)):
        label = palette.category(key).label
        if key not in books.baseline and key not in books.candidate:
            if flag := words.category_missing(result, key):
                rows.append(
                    [label, Number(""), Number(""), "not ruled out", f"not captured; {flag} shows it"]
                )
            continue
        if key not in books.delta or books.level.get(key, "within_noise") != "within_noise":
            continue  # it moved: it is among the causes
        delta, low, high = books.delta[key], books.ci_low.get(key), books.ci_high.get(key)
        absent = _absent(result, key)
        judged = _judged(scale, low, high, step, absent, repeated=_repeated(result))
        rows.append([label, Number(scale.delta(delta)), *judged])
    return [*rows, *_kernels(result), _mix(result)]


def _repeated(result: Result) -> bool:
    """Whether both sides have runs enough to know their run-to-run noise: an interval within one run does not."""
    return min(result.step.runs.baseline, result.step.runs.candidate) > 1


def _absent(result: Result, key: str) -> str:
    books = result.accounting
    sides = [
        name
        for name, values in (("baseline", books.baseline), ("candidate", books.candidate))
        if key not in values
    ]
    if sides:
        return f"not captured on the {sides[0]}"
    return (
        "nothing is charged to it on either side"
        if not books.baseline[key] and not books.candidate[key]
        else ""
    )


def _judged(
    scale: units.Scale, low: float | None, high: float | None, step: float, absent: str, *, repeated: bool
) -> list[Span]:
    if absent.startswith("not captured"):
        return [Number(""), "not ruled out", absent]
    if absent:
        return [Number(""), "ruled out", absent]
    if low is None or high is None:
        return [Number(""), "not ruled out", "its noise is not known"]
    interval = Number(f"{scale.signed(low)} to {scale.signed(high)} {scale.unit}")
    if not repeated:
        return [interval, "not ruled out", "one run on a side: run-to-run noise is not known"]
    reach = max(abs(low), abs(high))
    share = _at_most(reach, step)
    if reach <= NEGLIGIBLE * step:
        return [interval, "ruled out", f"at most {share} of a step"]
    return [interval, "not ruled out", f"noise may hide up to {share} of a step"]


def _at_most(part: float, whole: float) -> str:
    """Write a bound as a share, rounded up: a bound that is rounded down is none."""
    if not whole:
        return units.NO_BASE
    return f"{math.ceil(1000 * part / whole - 1e-9) / 10:,.1f} %"


def _kernels(result: Result) -> list[list[Span]]:
    """One row for all kernels that did not move; none where there are none."""
    still = [row for row in result.kernels if row.level == "within_noise"]
    if not still:
        return []
    worst = max(max(abs(row.ci_low_ns), abs(row.ci_high_ns)) for row in still)
    largest = max(still, key=lambda row: (abs(row.delta_ns), row.ci_high_ns))
    scale = units.scale_for([worst, largest.delta_ns])
    small = _repeated(result) and worst <= NEGLIGIBLE * result.step.baseline_ns
    text = f"{len(still)} of {len(result.kernels)} rows within noise, no interval beyond {scale.time(worst)}"
    delta = Number(f"largest {scale.delta(largest.delta_ns)}")
    return [["each of the other kernels", delta, Number(""), "ruled out" if small else "not ruled out", text]]


def _mix(result: Result) -> list[Span]:
    mix = result.mix
    scale = units.scale_for([mix.baseline_raw_ns, mix.batch_mix_ns])
    small = abs(mix.batch_mix_ns) <= NEGLIGIBLE * abs(mix.baseline_raw_ns)
    text = (
        "the sides ran the same mix of steps"
        if small
        else "different batch mix; kept apart from the step time above"
    )
    return [
        "another batch mix",
        Number(scale.delta(mix.batch_mix_ns)),
        Number(""),
        "ruled out" if small else "not ruled out",
        text,
    ]


# How it was measured, and what only the author knows.


def _measured(result: Result) -> list[Block]:
    step, head = result.step, words.headline(result)
    compared = [stratum for stratum in result.strata if stratum.compared]
    items: list[list[Span]] = [
        [
            "Steps are compared within their phase, at equal workload and at equal host speed: "
            f"{len(compared)} of {len(result.strata)} workloads were compared, {head.steps} steps."
        ],
        ["The unit of replication is the run; many places are corrected for (Benjamini-Hochberg)."],
    ]
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
    steps = dict.fromkeys(finding.next for finding in _sure_findings(result) if finding.next)
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
