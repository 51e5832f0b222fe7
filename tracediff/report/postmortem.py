"""The post-mortem as a document to hand on: what the evidence says is written, what only its author knows is left to fill.

Its first page is for those who decide: summary, impact, causes, certainty, actions. Then the evidence, what was ruled out, the timeline; queries, small
causes and how it was measured are an appendix.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from tracediff.errors import TracediffError
from tracediff.model import Finding, KernelRow, Result, RunInput
from tracediff.model.causes import CAUSES as ROWS
from tracediff.model.causes import OWN, SURELY
from tracediff.report import (
    beside,
    document,
    findings,
    first,
    launch_words,
    page,
    palette,
    phrases,
    pictures,
    sections,
    units,
    waterfall,
    words,
    workloads,
)
from tracediff.report.amounts import LISTED, PAGE, TEXT
from tracediff.report.blocks import (
    Block,
    Code,
    Figure,
    Fill,
    Items,
    Line,
    Listing,
    Section,
    Span,
    Strong,
    Table,
    flattened,
    grid,
    printed,
    without,
)
from tracediff.report.escape import neutral
from tracediff.report.grammar import say
from tracediff.report.rows import kernels_by_phase

_MARKDOWN, _HTML = (".md", ".markdown"), (".html", ".htm")
_DRAWN = ("waterfall", "step-strip")


def file_names(path: Path) -> list[Path]:
    """Return the files that a post-mortem of this name consists of.

    Raises `TracediffError` (postmortem-format).
    """
    suffix = path.suffix.lower()
    if suffix in _HTML:
        return [path]
    if suffix in _MARKDOWN:
        return [
            path,
            *(path.with_name(f"{path.stem}-{name}.{kind}") for name in _DRAWN for kind in pictures.KINDS),
        ]
    raise TracediffError(
        "postmortem-format",
        f"--postmortem {path.name}: the ending says neither Markdown nor HTML",
        fix="FILE.md or FILE.html",
        exit_code=2,
    )


def render_postmortem(result: Result, path: Path) -> dict[Path, bytes]:
    """Return every file and its content."""
    result = neutral(result)
    names = file_names(path)
    if len(names) == 1:
        return {path: page.document(build(result)).encode()}
    drawn = pictures.files(result, _DRAWN)
    files = {
        path.with_name(f"{path.stem}-{name}"): data for name, data in drawn.items() if name != pictures.INDEX
    }
    text = document.markdown(build(result, path.stem), width=TEXT)
    return {path: text.encode(), **files}


# The sections, in their order.


def build(result: Result, stem: str = "") -> list[Section]:
    """The document of a result without control characters; stem: the name that its pictures begin with, where they lie beside it."""
    head, *opening = _opening(result)
    first_page: list[Block] = [
        *opening, _summary(result), _impact(result), _timeline(result), _cause(result), _certainty(result), _actions(result),
    ]  # fmt: skip
    evidence: list[Block] = [
        _where(result, stem),
        *_every_step(result, stem),
        *_evidence(result),
        *_measurements(result),
    ]
    appendix: list[Block] = [*_small_causes(result), *_queries(result), _measured(result)]
    return [
        _part(head, first_page),
        _part("Evidence", [*evidence, *_gates(result), ruled_out(result), _conclusion()]),
        _part("Appendix", appendix),
    ]


def _part(title: str, blocks: Sequence[Block]) -> Section:
    return Section("", title, blocks)


def _line(*spans: Span) -> Line:
    return Line(spans)


# The first page.


def _opening(result: Result) -> tuple[str, Table]:
    """The title, and what the document is of: what the captures say of the machine is filled in."""
    blanks = ["Owner", "Service and model", "Change under suspicion (commit, pull request)"]
    rows: list[Sequence[Span]] = [["Status", "draft"], *([name, Fill("")] for name in blanks)]
    rows += [[name, _of_both(result, check)] for name, check in _MACHINE if _of_both(result, check)]
    if started := sorted(one for one in _recorded(result).values() if one):
        rows.append(["Recorded (UTC)", units.arrow((started[0], started[-1]), " to ")])
    return _title(result), grid("opening", ["", ""], rows, look="facts")


_MACHINE = (
    ("GPU", "gpu"), ("GPUs of a run", "gpu_count"), ("Driver", "driver"), ("CUDA", "cuda"), ("CPU cores", "cpu_cores"),
    ("Nsight Systems", "nsys"),
)  # fmt: skip
_UNKNOWN = ("", "?", "unknown")


def _of_both(result: Result, name: str) -> str:
    """What a check found on both sides; empty where neither is known."""
    found = next((one for one in result.comparability.checks if one.name == name), None)
    sides = (found.baseline, found.candidate) if found else ()
    return units.arrow(one for one in sides if one not in _UNKNOWN)


_TITLES = {
    "no_change": "post_mortem_same",
    "inconclusive": "post_mortem_unclear",
    "not_comparable": "post_mortem_not_comparable",
}


def _title(result: Result) -> str:
    """`Post-mortem: generation step 972 -> 1,344 us (+372 us, +38.2 %)`, as the first sentence says."""
    return say(_TITLES.get(result.verdict, "post_mortem"), change=first.change(result))


def _summary(result: Result) -> Section:
    what, *others = first.lines(result)
    inputs = result.inputs
    labels = _line(
        "Baseline: ", Code(inputs.baseline.label), ". Candidate: ", Code(inputs.candidate.label), "."
    )
    said = [_line(Strong(what)), *map(_line, others), labels]
    return _part("Summary", [*said, _line(Fill("What users noticed, in two sentences."))])


def _impact(result: Result) -> Section:
    blocks: list[Block] = []
    if result.kpi:
        blocks.append(_line(beside.renderer(result.kpi).gist(result.kpi)))
    elif result.verdict not in ("no_change", "not_comparable"):
        blocks.append(_line("No benchmark was given, so the effect on users is not measured here."))
    if result.phases and result.verdict != "not_comparable":
        blocks.append(without(sections.phases_in_text(result), "spare"))
    blocks += _throughput(result)
    return _part("Impact", [*blocks, _line(Fill("Requests, users, hours and cost affected."))])


def _throughput(result: Result) -> list[Block]:
    """What the change of the typical step that generates tokens means for tokens per second, where it would repeat."""
    phase = first.lead(result)
    if (
        phase is None
        or phase.typical is None
        or phase.phase != "generation"
        or result.verdict not in words.MOVED
        or result.verdict_facts.basis != "phase"
    ):
        return []
    before, after = phase.typical.baseline_ns, phase.typical.baseline_ns + phase.typical.delta_ns
    if min(before, after) <= 0:
        return []
    change = units.percent(before - after, after)
    return [
        _line(f"Where this step bounds serving, output per second at the same batch changes by {change}.")
    ]


def _timeline(result: Result) -> Section:
    """What happened when: the captures' times are known, the rest is the author's."""
    rows: list[list[Span]] = [
        [started, f"{side} recorded: {run}"] for (side, run), started in sorted(_recorded(result).items(), key=lambda one: one[1])[:LISTED] if started
    ]  # fmt: skip
    last = ["cause found", "resolved"] if result.verdict in words.MOVED else ["measured again"]
    events = ["change merged", "first sign", "alert", *last]
    rows += [[Fill(""), Fill(event)] for event in events]
    return _part("Timeline", [grid("timeline", ["When (UTC)", "What happened"], rows)])


def _main(result: Result) -> tuple[list[Finding], list[Finding]]:
    """Causes: the first and those of 5 % of the change or more, and the smaller ones."""
    listed, _ = words.listed(result)
    main = [one for one in listed if one is listed[0] or one.share is None or abs(one.share) >= OWN]
    return main, [one for one in listed if one not in main]


def _cause(result: Result) -> Section:
    main, _ = _main(result)
    blocks: list[Block] = [findings.in_lines(result, findings.at_once(main), 140)] if main else []
    if not main and not launch_words.by_launch(result):
        blocks.append(_line("No single cause holds 1 % of the step."))
    blocks += [_line(f"{phrases.REMARK}: {text}") for text in phrases.remarks(result)]
    if result.verdict not in words.MOVED:
        return _part("Cause", [*blocks, _line(say("no_change_shown"))])
    return _part("Cause", [*blocks, _line(Fill("What in the code explains this."))])


def _certainty(result: Result) -> Section:
    runs, steps = result.step.runs, result.step.steps
    said = [
        words.VERDICTS[result.verdict].meaning,
        f"{units.pair(runs.baseline, runs.candidate)} runs and {units.pair(steps.baseline, steps.candidate)} steps were compared.",
        workloads.step_share(result),
    ]  # fmt: skip
    return _part("Certainty", [_line(" ".join(one for one in said if one))])


def _actions(result: Result) -> Section:
    main, _ = _main(result)
    advised = (
        [one.next for one in findings.at_once(main)]
        if result.verdict in words.MOVED
        else [first.advised(result)]
    )
    steps = dict.fromkeys(text.rstrip(".") for text in advised if text)
    items: list[list[Span]] = [[f"{words.sentence(text)}: ", Fill("owner, by when")] for text in steps]
    items += [
        ["Gate it in continuous integration (docs/gate.md): ", Fill("owner, by when")],
        [Fill("What would have caught it earlier, what would have limited it: owner, by when")],
    ]
    return _part("Action", [Items(items, "boxes")])


# Evidence.


def _where(result: Result, stem: str) -> Section:
    figure = waterfall.build(result)
    drawn = Figure(
        pictures.of_fall(figure),
        "Step-time waterfall, drawn",
        waterfall.text_figure(figure),
        _file(stem, "waterfall"),
    )
    residual = result.accounting.residual_ns
    tiles = (
        f"Every instant of a {figure.unit} belongs to exactly one category (largest residual: {residual} ns)."
    )
    return _part(f"Where the time of a {figure.of_what} went", [drawn, _line(tiles)])


def _file(stem: str, name: str) -> str:
    return quote(f"{stem}-{name}.png") if stem else ""


def _every_step(result: Result, stem: str) -> list[Section]:
    """The steps in their order, where rare ones make the change: which they are is seen there alone."""
    if result.observed.stops is None or (drawn := pictures.one(result, "step-strip")) is None:
        return []
    return [_part(drawn.title, [Figure(drawn.svg, drawn.title, drawn.described, _file(stem, "step-strip"))])]


def _evidence(result: Result) -> list[Section]:
    main, _ = _main(result)
    found = [_evidence_of(finding, result) for finding in main[:LISTED]]
    if launch_words.by_launch(result):
        table = sections.table(result, "launches", launch_words.ordered(result))
        found.insert(0, _part(table.caption, [_told(table, table.caption)]))
    return found


def _evidence_of(finding: Finding, result: Result) -> Section:
    of = findings.cause(result, finding, words.finding_scale([finding]))
    return _part(f"Cause {finding.rank}: {of.title}", [_told(one, of.title) for one in printed(of, 2)])


def _measurements(result: Result) -> list[Section]:
    """What was measured beside the traces."""
    return [
        _part(one.title, [_told(block, one.title) for block in printed(one, 1)])
        for one in beside.sections(result)
    ]


def _told(block: Block, title: str) -> Block:
    """The first rows of a table, whose caption does not repeat the title over it."""
    if not isinstance(block, Table):
        return block
    return replace(
        flattened(block, PAGE), caption="" if block.caption == title else block.caption, look="plain"
    )


def _gates(result: Result) -> list[Section]:
    """Return what became of the gates; nothing where none were judged."""
    return [
        _part(one.title, [_told(each, one.title) for each in printed(one, 1)])
        for one in sections.asked(result)
        if one.id == "gates"
    ]


# What was ruled out, and what was not: a change that was not seen is not a change that is not there.


def ruled_out(result: Result) -> Section:
    """Return the section: categories, kernels, the mix of steps, and the circumstances of both captures."""
    if result.verdict == "not_comparable":
        text = "Nothing: the sides are not comparable, and any difference may be one of what differs below."
        blocks: list[Block] = [_line(text)]
    else:
        within = f"{100 * SURELY:.0f} % of a step"
        blocks = [
            _line(
                f"Ruled out means: the whole 95 % interval lies within {within}. Where noise could hide more than that, "
                "nothing is ruled out."
            ),
            grid("ruled out", ["Possible cause", "Change (95 %)", "", ""], _categories(result), right=(1,)),
        ]
    checks = result.comparability.checks
    same = [check for check in checks if check.status == "ok" and check.baseline == check.candidate]
    other = [check for check in checks if check not in same]
    if same:
        rows: list[list[Span]] = [[check.name, Code(check.baseline)] for check in same]
        blocks += [_line("Circumstances that are the same on both sides:"), grid("same", ["", "Value"], rows)]
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
            _line("Circumstances that differ:"),
            grid("other", ["", "Baseline", "Candidate", ""], rows),
        ]
    return _part("What was ruled out, and why", blocks)


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
                absent = words.unseen(words.OPTIONAL[key])
                rows.append([label, "", say("not_ruled_out"), say("unseen_shows", unseen=absent, flag=flag)])
            continue
        if key not in books.delta or key in found or books.level.get(key, "within_noise") != "within_noise":
            continue  # it moved: it is among the causes
        delta, low, high = books.delta[key], books.ci_low.get(key), books.ci_high.get(key)
        if missing := [side for side in ("baseline", "candidate") if key not in getattr(books, side)]:
            absent = words.unseen(ROWS[key].needs)
            judged = [say("not_ruled_out"), say("unseen_on", unseen=absent, side=missing[0])]
        elif not books.baseline[key] and not books.candidate[key]:
            judged = [say("ruled_out"), say("ruled_nothing")]
        elif low is None or high is None:
            judged = [say("not_ruled_out"), say("ruled_unknown")]
        else:
            rows.append([label, f"{scale.delta(delta)} ({scale.span(low, high)})", *_judged(low, high, step)])
            continue
        rows.append([label, scale.delta(delta), *judged])
    return [*rows, *_kernels(result), _mix(result)]


def _judged(low: float, high: float, step: float) -> list[Span]:
    reach = max(abs(low), abs(high))
    share = _at_most(reach, step)
    if reach <= SURELY * step:
        return [say("ruled_out"), say("ruled_at_most", share=share)]
    return [say("not_ruled_out"), say("ruled_hides", share=share)]


def _at_most(part: float, whole: float) -> str:
    """Write a bound as a share, rounded up: a bound that is rounded down is none."""
    if not whole:
        return units.NO_BASE
    return f"{math.ceil(1000 * part / whole - 1e-9) / 10:,.1f} %"


def _kernels(result: Result) -> list[list[Span]]:
    """A row for the kernels that are shown not to have changed, and one for those of which that is not known."""
    kernels = kernels_by_phase(result)[0].rows  # of the phase that the categories above are of
    still = [row for row in kernels if words.still(row)]
    unknown = [row for row in kernels if row.level == "within_noise" and not words.still(row)]
    found: list[list[Span]] = []
    worst = max((max(abs(row.ci_low_ns), abs(row.ci_high_ns)) for row in still), default=0.0)
    scale = units.scale_for([worst, *(row.delta_ns for row in unknown)])

    def row(pattern: str, mine: Sequence[KernelRow], *judged: str) -> list[Span]:
        largest = scale.delta(max((one.delta_ns for one in mine), key=abs))
        count = say(pattern, rows=f"{len(mine):,}", all=f"{len(kernels):,}")
        return [count, say("ruled_largest", size=largest), *judged]

    if still:
        judged = "ruled_out" if worst <= SURELY * result.step.baseline_ns else "not_ruled_out"
        reason = say("ruled_kernels", limit=units.share(OWN), most=scale.time(worst))
        found.append(row("ruled_rows", still, say(judged), reason))
    if unknown:
        found.append(row("ruled_others", unknown, say("not_ruled_out"), say("ruled_scatter")))
    return found


def _mix(result: Result) -> list[Span]:
    mix = result.mix
    scale = units.scale_for([mix.baseline_raw_ns, mix.batch_mix_ns])
    judged = [say("not_ruled_out"), say("ruled_mixes")]
    if not round(mix.batch_mix_ns):
        judged = [say("ruled_out"), say("ruled_one_mix")]
    elif abs(mix.batch_mix_ns) <= SURELY * abs(mix.baseline_raw_ns):
        share = _at_most(abs(mix.batch_mix_ns), mix.baseline_raw_ns)
        judged = [say("ruled_out"), say("ruled_at_most", share=share)]
    return [say("ruled_mix"), scale.delta(mix.batch_mix_ns), *judged]


def _conclusion() -> Section:
    blanks = ["Root cause", "Trigger", "Why it was not caught before release", "What limited the damage"]
    rows: list[list[Span]] = [[blank, Fill("")] for blank in blanks]
    return _part("Root cause and lessons", [grid("lessons", ["", ""], rows, look="facts")])


# The appendix.


def _small_causes(result: Result) -> list[Section]:
    """Causes of less than 5 % of the change, and those that are not told above."""
    main, small = _main(result)
    rest = [*main[LISTED:], *small]
    if not rest:
        return []
    return [_part("Smaller causes", [_told(findings.smaller(result, rest, PAGE), "Smaller causes")])]


def _queries(result: Result) -> list[Section]:
    main, _ = _main(result)
    found = [
        _part(f"Cause {finding.rank}", [Listing(finding.evidence.query, "sql")])
        for finding in main[:LISTED]
        if finding.evidence.query
    ]
    said = _line(
        Code("tracediff query BASELINE CANDIDATE"),
        " and one of these shows what both sides have of a cause.",
    )
    return [_part("Queries", [said, *found])] if found else []


def _measured(result: Result) -> Section:
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
    table = grid(
        "captures", ["Side", "Capture", "Length, whole steps, found by", "Size, fingerprint"], inputs
    )
    tool = _line(f"{result.tool.name} {result.tool.version}.")
    blocks: list[Block] = [Items(items), _line("What it cannot say:"), Items(limits), table, tool]
    return _part("How it was measured, and its limits", blocks)


def _recorded(result: Result) -> dict[tuple[str, str], str]:
    """(side, run) -> when it was recorded, where a capture bundle tells it."""
    given = result.inputs.options.get("recorded")
    runs = [one for one in given if isinstance(one, dict)] if isinstance(given, list) else []
    return {(str(one.get("side")), str(one.get("run"))): str(one.get("started") or "") for one in runs}


def _input(side: str, run: RunInput, started: str) -> list[Span]:
    when = f"recorded {started}, " if started else ""
    ranks = f" on {run.ranks} ranks" if run.ranks > 1 else ""
    windows = f" in {run.windows} windows" if run.windows > 1 else ""
    steps = f"{units.counted(run.steps, 'step')}{windows}{ranks}, by {run.step_source}"
    fingerprint = f"{units.size(run.bytes)}, {run.fingerprint[:16]}"
    return [side, Code(run.name), f"{when}{run.duration_ns / 1e9:.3f} s, {steps}", Code(fingerprint)]
