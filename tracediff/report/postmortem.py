"""The post-mortem as a document to hand on: what the evidence says is written, what only its author knows is left to fill.

Its first page is for those who decide: summary, impact, causes, certainty, actions. Then the evidence, what was ruled out, the timeline; queries, small
causes and how it was measured are an appendix.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from markupsafe import Markup

from tracediff.errors import TracediffError
from tracediff.model import Finding, KernelRow, Result, RunInput
from tracediff.model.causes import CAUSES as ROWS
from tracediff.report import (
    beside,
    document,
    first,
    launch_words,
    palette,
    phase_table,
    phrases,
    pictures,
    sections,
    templates,
    units,
    waterfall,
    words,
    workloads,
)
from tracediff.report.blocks import Code, Fill, Strong
from tracediff.report.document import (
    Block,
    Figure,
    Heading,
    Items,
    Listing,
    Number,
    Paragraph,
    Span,
    Table,
    of_section,
    plain,
)
from tracediff.report.escape import neutral, shorten

FIRST, MOST, LISTED = 3, 6, 40  # causes on the first page, with their evidence, and in the appendix
SMALL = 0.05  # of the change: a smaller cause is in the appendix
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
        return [path, *(path.with_name(f"{path.stem}-waterfall.{kind}") for kind in pictures.KINDS)]
    raise TracediffError(
        "postmortem-format",
        f"--postmortem {path.name}: the ending says neither Markdown nor HTML",
        fix="FILE.md or FILE.html",
        exit_code=2,
    )


def render_postmortem(result: Result, path: Path) -> dict[Path, bytes]:
    """Return every file and its content."""
    result = neutral(result)
    blocks = _build(result)
    names = file_names(path)
    if len(names) == 1:
        return {path: page(blocks, pictures.of_fall(waterfall.build(result))).encode()}
    drawn = pictures.files(result, ["waterfall"])
    files = {one: drawn[f"waterfall{one.suffix}"] for one in names[1:]}
    image = f"![Step-time waterfall, drawn]({quote(names[-1].name)})"
    text = document.markdown(blocks, _LONGEST, image) + "\n\n"
    return {path: text.encode(), **files}


def page(blocks: Sequence[document.Block], drawing: str = "") -> str:
    """Return a document as a page; `drawing`: of its figure."""
    template = templates.html_environment().get_template("postmortem.html.j2")
    # The palette and a drawing of fixed words: the only text of the page that is not escaped.
    return template.render(
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
        *_cause(result),
        *_certainty(result),
        *_actions(result),
        Heading(1, "Evidence"),
        *_where(result),
        *_evidence(result),
        *_sections(result),
        *_gates(result),
        *ruled_out(result),
        *_timeline(),
        *_conclusion(),
        Heading(1, "Appendix"),
        *_small_causes(result),
        *_queries(result),
        *_measured(result),
    ]


# The first page.


def _opening(result: Result) -> list[Block]:
    blanks = ["Owner", "Service, model, hardware", "Change under suspicion (commit, pull request)"]
    blanks += ["Began, detected, resolved"]
    return [
        Heading(1, f"Post-mortem: {_title(result)}"),
        Table(["", ""], [["Status", "draft"], *([name, Fill("")] for name in blanks)]),
    ]


def _title(result: Result) -> str:
    """`generation step 972 -> 1,344 us (+372 us, +38.2 %)`, as the first sentence says."""
    moved = result.observed.delta_ns and result.verdict != "not_comparable"
    return first.change(result) if moved else words.VERDICTS[result.verdict].word


def _summary(result: Result) -> list[Block]:
    what, *others = first.lines(result)
    labels: list[Span] = [
        "Baseline: ", Code(result.inputs.baseline.label), ". Candidate: ", Code(result.inputs.candidate.label), ".",
    ]  # fmt: skip
    return [
        Heading(2, "Summary"),
        Paragraph([Strong(what)]),
        *(Paragraph([line]) for line in others),
        Paragraph(labels),
        Paragraph([Fill("What users noticed, in two sentences.")]),
    ]


def _impact(result: Result) -> list[Block]:
    blocks: list[Block] = [Heading(2, "Impact")]
    if result.kpi:
        blocks.append(Paragraph([beside.renderer(result.kpi).gist(result.kpi)]))
    elif result.verdict not in ("no_change", "not_comparable"):
        blocks.append(Paragraph(["No benchmark was given, so the effect on users is not measured here."]))
    blocks += [*_phases(result), *_throughput(result)]
    return [*blocks, Paragraph([Fill("Requests, users, hours and cost affected.")])]


def _phases(result: Result) -> list[Block]:
    """The typical step of each phase, and its mean where that differs."""
    if not result.phases or result.verdict == "not_comparable":
        return []
    found = phase_table.table(result)
    rows: list[list[Span]] = [
        [f"{row.phase}: {row.word}" if row.word else row.phase, Number(f"{row.baseline} → {row.candidate}"), Number(f"{row.delta} ({row.percent})"), Number(row.repeat)]
        for row in found.rows
    ]  # fmt: skip
    header = [f"{found.unit} per {words.unit(result)}", "Before → after", "Change", "A repeat (95 %)"]
    return [Table(header, rows)]


def _throughput(result: Result) -> list[Block]:
    """What the change of the typical step means for tokens per second, where it would repeat."""
    phase = first.lead(result)
    if (
        phase is None
        or phase.typical is None
        or result.verdict not in words.MOVED
        or result.verdict_facts.basis != "phase"
    ):
        return []
    before, after = phase.typical.baseline_ns, phase.typical.baseline_ns + phase.typical.delta_ns
    if phase.phase not in ("generation", "step") or min(before, after) <= 0 or words.whole_captures(result):
        return []
    change = units.percent(before - after, after)
    return [
        Paragraph(
            [f"Where this step bounds serving, output per second at the same batch changes by {change}."]
        )
    ]


def _main(result: Result) -> tuple[list[Finding], list[Finding]]:
    """Causes: the first and those of 5 % of the change or more, and the smaller ones."""
    listed, _ = words.listed(result)
    main = [one for one in listed if one is listed[0] or one.share is None or abs(one.share) >= SMALL]
    return main, [one for one in listed if one not in main]


def _cause(result: Result) -> list[Block]:
    blocks: list[Block] = [Heading(2, "Cause")]
    main, _ = _main(result)
    items: list[list[Span]] = []
    for finding in main[:FIRST]:
        held = words.held(result, finding) if finding.level != "within_noise" else ""
        facts = (words.explains(finding, result), words.evidence(finding, result), held)
        said = "; ".join(one for one in facts if one)
        size = words.brief_size(finding, words.unit(result))
        items.append([Strong(f"{words.sentence(shorten(finding.title, 140))}: "), f"{size}; {said}."])
    if items:
        blocks.append(Items(items))
    elif not launch_words.by_launch(result):
        blocks.append(Paragraph(["No single cause holds 1 % of the step."]))
    blocks += [Paragraph([f"{phrases.REMARK}: {text}"]) for text in phrases.remarks(result)]
    return [*blocks, Paragraph([Fill("What in the code explains this.")])]


def _certainty(result: Result) -> list[Block]:
    runs, steps = result.step.runs, result.step.steps
    said = [
        words.VERDICTS[result.verdict].meaning,
        f"{units.pair(runs.baseline, runs.candidate)} runs and {units.pair(steps.baseline, steps.candidate)} steps were compared.",
        workloads.step_share(result),
    ]  # fmt: skip
    return [Heading(2, "Certainty"), Paragraph([" ".join(one for one in said if one)])]


def _actions(result: Result) -> list[Block]:
    main, _ = _main(result)
    advised = main[:FIRST] if result.verdict not in ("no_change", "not_comparable") else []
    steps = dict.fromkeys(finding.next.rstrip(".") for finding in advised if finding.next)
    items: list[list[Span]] = [[f"{words.sentence(text)}: ", Fill("owner, by when")] for text in steps]
    items += [
        ["Gate it in continuous integration (docs/ci.md): ", Fill("owner, by when")],
        [Fill("What would have caught it earlier, what would have limited it: owner, by when")],
    ]
    return [Heading(2, "Action"), Items(items, boxes=True)]


# Evidence.


def _where(result: Result) -> list[Block]:
    figure = waterfall.build(result)
    return [
        Heading(2, f"Where the time of a {figure.of_what} went"),
        Figure(waterfall.text_figure(figure)),
        Paragraph(
            [
                f"Every instant of a {figure.unit} belongs to exactly one category"
                f" (largest residual: {result.accounting.residual_ns} ns)."
            ]
        ),
    ]


def _evidence(result: Result) -> list[Block]:
    main, _ = _main(result)
    blocks = [block for finding in main[:MOST] for block in _evidence_of(finding, result)]
    if launch_words.by_launch(result):
        table = plain(sections.table(result, "launches", launch_words.ordered(result)), MOST)
        blocks = [Heading(2, table.title), table, *blocks]
    return blocks


def _evidence_of(finding: Finding, result: Result) -> list[Block]:
    evidence, unit = finding.evidence, words.unit(result)
    scale = words.finding_scale([finding])
    items: list[list[Span]] = []
    if both := words.both_sides(finding, scale, "→"):
        tests = (
            ""
            if finding.q_value is None
            else f"; q {units.probability(finding.q_value)}, corrected for many places"
        )
        low, high = scale.signed(finding.ci_low_ns), scale.delta(finding.ci_high_ns)
        items.append([f"{both} per {unit}; a repeat would show {low} to {high} (95 %){tests}"])
    items.append(
        [Strong(f"{words.evidence(finding, result).capitalize()}: "), words.LEVELS[finding.level][1]]
    )
    place: list[Span] = []
    for name, value in words.place(finding.where):
        place += [f"{', ' if place else 'At '}{name} ", Code(value)]
    if place:
        items.append(place)
    if parts := words.parts_line(finding, scale):
        items.append([f"Parts: {parts}"])
    if elsewhere := words.elsewhere(finding, scale):
        items.append([f"The same cause elsewhere: {elsewhere}"])
    if evidence.runs_baseline_ns and evidence.runs_candidate_ns:
        runs = (
            ", ".join(map(scale.number, of)) for of in (evidence.runs_baseline_ns, evidence.runs_candidate_ns)
        )
        items.append([f"Each run, {scale.unit} per {unit}: baseline {next(runs)}; candidate {next(runs)}"])
    if evidence.count_baseline is not None and evidence.count_candidate is not None:
        counts = " → ".join(map(units.count, (evidence.count_baseline, evidence.count_candidate)))
        items.append([f"{words.sentence(words.what_is_counted(finding))}: {counts}"])
    if finding.note:
        items.append([finding.note])
    blocks: list[Block] = [Heading(2, f"Cause {finding.rank}: {words.sentence(finding.title)}"), Items(items)]
    if evidence.moments:
        blocks += [Paragraph([f"Where to look in {words.viewer(result)}:"]), _moments(finding)]
    return blocks


def _moments(finding: Finding) -> Table:
    rows: list[list[Span]] = [
        [
            moment.side, Code(moment.run), Number(f"{moment.start_ns / 1e9:.6f} s"),
            f"{moment.what}, {(moment.end_ns - moment.start_ns) / 1e3:,.1f} us",
        ]
        for moment in finding.evidence.moments
    ]  # fmt: skip
    return Table(["Side", "Capture", "From", ""], rows)


def _sections(result: Result) -> list[Block]:
    """What was measured beside the traces."""
    blocks: list[Block] = []
    if result.kpi:
        blocks += of_section(beside.renderer(result.kpi).section(result.kpi), LISTED)
    if result.latencies:
        blocks += beside.renderer(result.latencies).document(result.latencies)
    return blocks


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
            Table(["Possible cause", "Change (95 %)", "", ""], _categories(result)),
        ]
    checks = result.comparability.checks
    same = [check for check in checks if check.status == "ok" and check.baseline == check.candidate]
    other = [check for check in checks if check not in same]
    if same:
        rows: list[list[Span]] = [[check.name, Code(check.baseline)] for check in same]
        blocks += [
            Paragraph(["Circumstances that are the same on both sides:"]),
            Table(["", "Value"], rows),
        ]
    if other:
        harmless = {"ok": "no obstacle to comparing", "warn": "not ruled out", "fail": "not comparable"}
        rows = [
            [
                check.name,
                Code(check.baseline),
                Code(check.candidate),
                f"{harmless[check.status]}: {check.message}",
            ]
            for check in other
        ]
        blocks += [
            Paragraph(["Circumstances that differ:"]),
            Table(["", "Baseline", "Candidate", ""], rows),
        ]
    return blocks


def _categories(result: Result) -> list[list[Span]]:
    books, step, _, _ = waterfall.spoken_of(result)
    scale = units.scale_for([*books.delta.values(), *books.ci_low.values(), *books.ci_high.values()])
    named = {one.finding for one in result.observed.parts}
    causes = [
        cause
        for one in result.findings
        if one.rank in named or one.level != "within_noise"  # a place or the rare steps of it
        for cause in (one.cause, *(part.cause for part in one.parts))
    ]
    found = {"compute" if ROWS[cause].kind == "kernel" else cause for cause in causes}
    rows: list[list[Span]] = []
    for key in palette.order(set(books.delta)):
        label = palette.category(key).label
        if key not in books.baseline and key not in books.candidate:
            if flag := words.category_missing(result, key):
                rows.append([label, Number(""), "not ruled out", f"not captured; {flag} shows it"])
            continue
        if key not in books.delta or key in found or books.level.get(key, "within_noise") != "within_noise":
            continue  # it moved: it is among the causes
        delta, low, high = books.delta[key], books.ci_low.get(key), books.ci_high.get(key)
        absent = _absent(result, key)
        judged = _judged(low, high, step, absent)
        interval = (
            "" if absent or low is None or high is None else f" ({scale.signed(low)} to {scale.signed(high)})"
        )
        rows.append([label, Number(f"{scale.delta(delta)}{interval}"), *judged])
    return [*rows, *_kernels(result), _mix(result)]


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


def _judged(low: float | None, high: float | None, step: float, absent: str) -> list[Span]:
    if absent:
        return ["not ruled out" if absent.startswith("not captured") else "ruled out", absent]
    if low is None or high is None:
        return ["not ruled out", "its noise is not known"]
    reach = max(abs(low), abs(high))
    share = _at_most(reach, step)
    if reach <= NEGLIGIBLE * step:
        return ["ruled out", f"at most {share} of a step"]
    return ["not ruled out", f"noise may hide up to {share} of a step"]


def _at_most(part: float, whole: float) -> str:
    """Write a bound as a share, rounded up: a bound that is rounded down is none."""
    if not whole:
        return units.NO_BASE
    return f"{math.ceil(1000 * part / whole - 1e-9) / 10:,.1f} %"


def _kernels(result: Result) -> list[list[Span]]:
    """A row for the kernels that are shown not to have changed, and one for those of which that is not known."""
    still = [row for row in result.kernels if words.still(row)]
    unknown = [row for row in result.kernels if row.level == "within_noise" and not words.still(row)]
    found: list[list[Span]] = []
    of = f"of {units.counted(len(result.kernels), 'row')}"
    worst = max((max(abs(row.ci_low_ns), abs(row.ci_high_ns)) for row in still), default=0.0)
    scale = units.scale_for([worst, *(row.delta_ns for row in unknown)])

    def largest(rows: Sequence[KernelRow]) -> Number:
        return Number(f"largest {scale.delta(max((row.delta_ns for row in rows), key=abs))}")

    if still:
        small = worst <= NEGLIGIBLE * result.step.baseline_ns
        text = f"{len(still):,} {of} changed by less than {units.share(words.STILL)} each, {scale.time(worst)} at most"
        found.append(["unchanged kernels", largest(still), "ruled out" if small else "not ruled out", text])
    if unknown:
        text = f"{len(unknown):,} {of} scatter too much to say whether they changed, or were not tested"
        found.append(["other kernels", largest(unknown), "not ruled out", text])
    return found


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
        "ruled out" if small else "not ruled out",
        text,
    ]


def _timeline() -> list[Block]:
    events = ["change merged", "first sign", "alert", "cause found", "resolved"]
    return [
        Heading(2, "Timeline"),
        Table(["When (UTC)", "What happened"], [[Fill(""), Fill(event)] for event in events]),
    ]


def _conclusion() -> list[Block]:
    blanks = ["Root cause", "Trigger", "Why it was not caught before release", "What limited the damage"]
    return [
        Heading(2, "Root cause and lessons"),
        Table(["", ""], [[blank, Fill("")] for blank in blanks]),
    ]


# The appendix.


def _small_causes(result: Result) -> list[Block]:
    """Causes of less than 5 % of the change, and those that are not told above."""
    main, small = _main(result)
    rest = [*main[MOST:], *small]
    if not rest:
        return []
    rows: list[list[Span]] = [
        [
            Number(str(one.rank)), words.sentence(one.title), words.brief_size(one, words.unit(result)),
            words.evidence(one, result),
        ]
        for one in rest[:LISTED]
    ]  # fmt: skip
    left = len(rest) - LISTED
    return [
        Heading(2, "Smaller causes"),
        Table(["", "Cause", "Change", "Evidence"], rows),
        *([Paragraph([f"{left} more are in the HTML report."])] if left > 0 else []),
    ]


def _queries(result: Result) -> list[Block]:
    main, _ = _main(result)
    blocks: list[Block] = []
    for finding in main[:MOST]:
        if finding.evidence.query:
            blocks += [Heading(3, f"Cause {finding.rank}"), Listing(finding.evidence.query, "sql")]
    said = Paragraph(
        [
            Code("tracediff query BASELINE CANDIDATE"),
            " and one of these shows what both sides have of a cause.",
        ]
    )
    return [Heading(2, "Queries"), said, *blocks] if blocks else []


def _measured(result: Result) -> list[Block]:
    steps = result.step.steps
    compared = [stratum for stratum in result.strata if stratum.compared]
    items: list[list[Span]] = [
        [
            f"Steps are compared within their phase, at equal workload: "
            f"{len(compared)} of {len(result.strata)} workloads were compared, {units.pair(steps.baseline, steps.candidate)} steps."
        ],
        ["The unit of replication is the run; many places are corrected for (Benjamini-Hochberg)."],
    ]
    items += [[note] for note in (workloads.mix_note(result), *workloads.left_out(result)) if note]
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
    started = _recorded(result)
    inputs = [
        _input(name, run, started.get((name, run.name), "")) for name, side in sides for run in side.runs
    ]
    return [
        Heading(2, "How it was measured, and its limits"),
        Items(items),
        Paragraph(["What it cannot say:"]),
        Items(limits),
        Table(["Side", "Capture", "Length, whole steps, found by", "Size, fingerprint"], inputs),
        Paragraph([f"{result.tool.name} {result.tool.version}."]),
    ]


def _recorded(result: Result) -> dict[tuple[str, str], str]:
    """(side, run) -> when it was recorded, where a capture bundle tells it."""
    given = result.inputs.options.get("recorded")
    runs = [one for one in given if isinstance(one, dict)] if isinstance(given, list) else []
    return {(str(one.get("side")), str(one.get("run"))): str(one.get("started") or "") for one in runs}


def _input(side: str, run: RunInput, started: str) -> list[Span]:
    when = f"recorded {started}, " if started else ""
    ranks = f" on {run.ranks} ranks" if run.ranks > 1 else ""
    steps = f"{units.counted(run.steps, 'step')}{ranks}, by {run.step_source}"
    fingerprint = f"{units.size(run.bytes)}, {run.fingerprint[:16]}"
    return [side, Code(run.name), f"{when}{run.duration_ns / 1e9:.3f} s, {steps}", Code(fingerprint)]
