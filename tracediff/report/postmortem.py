"""The post-mortem as a document to hand on: what the evidence says is written, what only its author knows is left to fill.

Its first page is for those who decide: summary, impact, causes, certainty, actions. Then the sections of a report that are evidence, what
was ruled out, and as an appendix small causes, queries and how it was measured.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from msgspec.structs import replace

from tracediff.errors import UsageError
from tracediff.model import Finding, Result
from tracediff.model.causes import CAUSES as ROWS
from tracediff.model.causes import OWN, SURELY
from tracediff.report import (
    beside,
    document,
    fields,
    findings,
    first,
    kernels,
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
from tracediff.report.amounts import LISTED, NAMED, PAGE, TEXT
from tracediff.report.blocks import (
    Block,
    Code,
    Figure,
    Fill,
    Items,
    Line,
    Section,
    Span,
    Strong,
    Table,
    flattened,
    grid,
    part,
    printed,
    without,
)
from tracediff.report.escape import neutral
from tracediff.report.grammar import say
from tracediff.report.kernels import kernels_by_phase

_MARKDOWN, _HTML = (".md", ".markdown"), (".html", ".htm")
_FALL, _STRIP = _DRAWN = ("waterfall", "step-strip")


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
    raise UsageError(
        "postmortem-format",
        f"--postmortem {path.name}: the ending says neither Markdown nor HTML",
        fix="FILE.md or FILE.html",
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


def build(result: Result, stem: str = "") -> list[Section]:
    """The document of a result without control characters; stem: the name that its pictures begin with, where they lie beside it."""
    first_page: list[Block] = [
        _opening(result), _summary(result), _impact(result), _timeline(result), _cause(result), _certainty(result), _actions(result),
    ]  # fmt: skip
    gates = [one for one in sections.asked(result) if one.id == "gates"]
    evidence: list[Block] = [
        _where(result, stem),
        *_every_step(result, stem),
        *_evidence(result),
        *(_as_told(one, 1) for one in (*beside.sections(result), *gates)),
        ruled_out(result),
        part("Root cause and lessons", [grid("blanks", ["", ""], _LESSONS, look="facts")]),
    ]
    title = say(_TITLES.get(result.verdict, "post_mortem"), change=first.change(result))
    return [
        part(title, first_page),
        part("Evidence", evidence),
        part("Appendix", [*_small_causes(result), *_queries(result), _measured(result)]),
    ]


_TITLES = {
    "no_change": "post_mortem_same",
    "inconclusive": "post_mortem_unclear",
    "not_comparable": "post_mortem_not_comparable",
}
_LESSONS: list[list[Span]] = [
    [name, Fill("")] for name in ("Root cause", "Trigger", "Why it was not caught before release", "What limited the damage")
]  # fmt: skip


def _line(*spans: Span) -> Line:
    return Line(spans)


def _as_told(of: Section, depth: int, title: str = "") -> Section:
    """What text formats show of a section down to a depth, under its title; of tables the first rows."""
    return part(title or of.title, [_told(one, of.title) for one in printed(of, depth)])


def _told(block: Block, title: str) -> Block:
    """The first rows of a table, whose caption does not repeat the title over it."""
    if not isinstance(block, Table):
        return block
    caption = "" if block.caption == title else block.caption
    return replace(flattened(block, PAGE), caption=caption, look="plain")


# The first page.


def _opening(result: Result) -> Table:
    """What the document is of: what the captures say of the machine is filled in."""
    blanks = ["Owner", "Service and model", "Change under suspicion (commit, pull request)"]
    rows: list[Sequence[Span]] = [["Status", "draft"], *([name, Fill("")] for name in blanks)]
    found = {check.name: check for check in result.comparability.checks}
    for label, name in _MACHINE:
        sides = (found[name].baseline, found[name].candidate) if name in found else ()
        known = [one for one in sides if one not in _UNKNOWN]
        if said := units.arrow(map(words.profiler, known) if name == "nsys" else known):
            rows.append([label, said])
    return grid("opening", ["", ""], rows, look="facts")


_MACHINE = (
    ("GPU", "gpu"), ("GPUs of a run", "gpu_count"), ("Driver", "driver"), ("CUDA", "cuda"), ("CPU cores", "cpu_cores"),
    ("Profiler", "nsys"),
)  # fmt: skip
_UNKNOWN = ("", "?", "unknown")


def _summary(result: Result) -> Section:
    what, *others = first.lines(result)
    inputs = result.inputs
    labels = _line(
        "Baseline: ", Code(inputs.baseline.label), ". Candidate: ", Code(inputs.candidate.label), "."
    )
    said = [_line(Strong(what)), *map(_line, others), labels]
    return part("Summary", [*said, _line(Fill("What users noticed, in two sentences."))])


def _impact(result: Result) -> Section:
    blocks: list[Block] = []
    if result.kpi:
        blocks.append(_line(beside.gist(result.kpi)))
    elif result.verdict not in ("no_change", "not_comparable"):
        blocks.append(_line(say("no_benchmark")))
    if result.phases and result.verdict != "not_comparable":
        blocks.append(_told(without(sections.phases_in_text(result), "judged"), ""))
        blocks.append(_line(f"{words.sentence(words.steps_note(result))}."))
    return part("Impact", [*blocks, _line(Fill("Requests, users, hours and cost affected."))])


def _timeline(result: Result) -> Section:
    """What happened when: the captures' times are known, the rest is the author's."""
    last = ["cause found", "resolved"] if result.verdict in words.MOVED else ["measured again"]
    rows: list[list[Span]] = [
        [Fill(""), Fill(one)] for one in ("change merged", "first sign", "alert", *last)
    ]
    runs = result.step.runs
    said = say("recorded", runs=f"{runs.baseline} + {runs.candidate}")
    if when := _recorded(result):
        rows.insert(3, [when, said])
    return part("Timeline", [grid("timeline", ["When (UTC)", "What happened"], rows)])


def _recorded(result: Result) -> str:
    """From when to when the runs were recorded, where a capture bundle tells it; else empty."""
    given = result.inputs.options.get("recorded")
    runs = [one for one in given if isinstance(one, dict)] if isinstance(given, list) else []
    times = sorted(str(one["started"])[:19].replace("T", " ") for one in runs if one.get("started"))
    return units.arrow((times[0], times[-1]), " to ") if times else ""


def _main(result: Result) -> tuple[list[Finding], list[Finding]]:
    """Causes: the first and those of 5 % of the change or more, and the smaller ones."""
    listed, _ = words.listed(result)
    main = [one for one in listed if one is listed[0] or one.share is None or abs(one.share) >= OWN]
    return main, [one for one in listed if one not in main]


def _cause(result: Result) -> Section:
    main, _ = _main(result)
    blocks: list[Block] = [findings.in_lines(result, main[:NAMED], 140)] if main else []
    if not main and not kernels.by_launch(result):
        blocks.append(_line(say("none_large")))
    blocks += [_line(f"{phrases.REMARK}: {text}") for text in phrases.remarks(result)]
    moved = result.verdict in words.MOVED
    last = Fill("What in the code explains this.") if moved else say("no_change_shown")
    return part("Cause", [*blocks, _line(last)])


def _certainty(result: Result) -> Section:
    said = [words.VERDICTS[result.verdict].meaning, workloads.step_share(result)]
    return part("Certainty", [_line(" ".join(one for one in said if one))])


def _actions(result: Result) -> Section:
    moved = _main(result)[0][:NAMED] if result.verdict in words.MOVED else []
    advised = [one.next for one in moved] or [first.advised(result)]
    steps = dict.fromkeys(text.rstrip(".") for text in advised if text)
    items: list[list[Span]] = [[f"{words.sentence(text)}: ", Fill("owner, by when")] for text in steps]
    if moved:
        items.append(["Gate it in continuous integration (docs/gate.md): ", Fill("owner, by when")])
    items.append([Fill("What would have caught it earlier, what would have limited it: owner, by when")])
    return part("Action", [Items(items, "boxes")])


# Evidence.


def _where(result: Result, stem: str) -> Section:
    figure = waterfall.build(result)
    drawn = Figure(
        pictures.of_fall(figure),
        "Step-time waterfall, drawn",
        waterfall.text_figure(figure),
        _file(stem, _FALL),
    )
    tiles = say("tiles", unit=figure.unit, residual=f"{result.accounting.residual_ns}")
    return part(say("fall_title", step=figure.of_what), [drawn, _line(tiles)])


def _file(stem: str, name: str) -> str:
    return quote(f"{stem}-{name}.png") if stem else ""


def _every_step(result: Result, stem: str) -> list[Section]:
    """The steps in their order, where rare ones make the change: which they are is seen there alone."""
    if result.observed.stops is None or (drawn := pictures.one(result, _STRIP)) is None:
        return []
    figure = Figure(drawn.svg, drawn.title, drawn.described, _file(stem, _STRIP))
    return [part(drawn.title, [figure])]


def _evidence(result: Result) -> list[Section]:
    """All that is known of the causes; before them kernels that were judged by their launches."""
    found = []
    if kernels.by_launch(result):
        table = sections.table(result, "launches", kernels.ordered(result))
        found.append(part(table.caption, [_told(table, table.caption)]))
    for one in _main(result)[0][:LISTED]:
        of = findings.cause(result, one, words.finding_scale([one], result))
        found.append(_as_told(of, 2, say("cause_of", rank=f"{one.rank}", title=of.title)))
    return found


# What was ruled out, and what was not: a change that was not seen is not a change that is not there.


def ruled_out(result: Result) -> Section:
    """Return the section: categories, kernels, and the circumstances of both captures."""
    blocks: list[Block] = [_line(say("ruled_not_comparable"))]
    if result.verdict != "not_comparable":
        heads = ["Possible cause", "Change (95 %)", "", ""]
        blocks = [
            _line(say("ruled_means", within=units.share(SURELY))),
            grid("ruled out", heads, _categories(result), right=(1,)),
            *([_line(kernels.none_changed(kernels_by_phase(result)[0].rows))] if result.kernels else []),
        ]
    return part("What was ruled out, and why", [*blocks, *_circumstances(result)])


def _circumstances(result: Result) -> list[Block]:
    """Which checks found both sides alike, and a row for each that says more than that."""
    checks = result.comparability.checks
    alike = [
        one for one in checks if one.status == "ok" and one.baseline == one.candidate and not one.message
    ]
    rest = sections.table(result, "comparability", [one for one in checks if one not in alike])
    names = ", ".join(one.name.replace("_", " ") for one in alike)
    told = [_line(say("alike", checks=names))] if alike else []
    return [*told, *([_told(rest, "")] if rest.rows else [])]


def _categories(result: Result) -> list[list[Span]]:
    """A row for each category that is no cause: what it changed by, and whether more can be ruled out."""
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
            if key in words.OPTIONAL and (flag := words.capture_with(result, words.OPTIONAL[key])):
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
    return rows


def _judged(low: float, high: float, step: float) -> list[Span]:
    """Whether a change is ruled out; the bound is rounded up: one that is rounded down is none."""
    reach = max(abs(low), abs(high))
    share = f"{math.ceil(1000 * reach / step - 1e-9) / 10:,.1f} %" if step else units.NO_BASE
    if reach <= SURELY * step:
        return [say("ruled_out"), say("ruled_at_most", share=share)]
    return [say("not_ruled_out"), say("ruled_hides", share=share)]


# The appendix.


def _small_causes(result: Result) -> list[Section]:
    """Causes of less than 5 % of the change, and those that are not told above."""
    main, small = _main(result)
    rest = [*main[LISTED:], *small]
    if not rest:
        return []
    return [part("Smaller causes", [_told(findings.smaller(result, rest, PAGE), "Smaller causes")])]


def _queries(result: Result) -> list[Section]:
    """SQL that shows the causes."""
    found = [
        part(say("cause_numbered", rank=f"{one.rank}"), findings.queries(one, words.unit(result)))
        for one in _main(result)[0][:LISTED]
        if one.evidence.query
    ]
    return [part("Queries", found)] if found else []


def _measured(result: Result) -> Section:
    steps = result.step.steps
    compared = sum(stratum.compared for stratum in result.strata)
    slots = {"compared": f"{compared}", "all": f"{len(result.strata)}"}
    said = [say("measured_by", steps=units.pair(steps.baseline, steps.candidate), **slots), say("replicated")]
    said += [workloads.mix_note(result), *workloads.left_out(result), *words.all_missing(result)]
    items: list[list[Span]] = [[text] for text in said if text]
    items += [[f"{note.message} (", Code(note.slug), ")"] for note in result.warnings[:50]]
    limits = [[say(one)] for one in ("limit_profiler", "limit_waiting", "limit_kernels")]
    tool = _line(f"{result.tool.name} {result.tool.version}.")
    blocks: list[Block] = [
        Items(items),
        _line(say("limits_are")),
        Items(limits),
        _told(sections.table(result, "captures", fields.captures(result)), ""),
        tool,
    ]
    return part("How it was measured, and its limits", blocks)
