"""The sections of a report below its first screen: of a comparison, and of one capture, which has the same with one side.

A section says what is in it and how deep it lies, and nothing of formats.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec.structs import replace

from tracediff.model import KernelAnswer, KernelRow, LaunchSide, Result
from tracediff.model.causes import SURELY
from tracediff.model.show import IdleCause, Show, StepDiff
from tracediff.report import (
    beside,
    fields,
    kernels,
    names,
    palette,
    remarks,
    show_words,
    units,
    values,
    words,
    workloads,
)
from tracediff.report.amounts import LIMIT, NAMED, PAGE
from tracediff.report.blocks import (
    Block,
    Cell,
    Code,
    Figure,
    Items,
    Line,
    Listing,
    Section,
    Span,
    Strong,
    Table,
    aside,
    lead,
    part,
    terms,
    without,
)
from tracediff.report.blocks import facts as facts_of
from tracediff.report.blocks import notes as _notes
from tracediff.report.causes import where_of
from tracediff.report.grammar import TERMS, say
from tracediff.report.pictures import runs
from tracediff.stats.rules import LITTLE, MATERIAL

Report = Result | Show
LISTED = values.listed(Path(__file__).with_name("columns.txt"))


def _two(report: Report) -> bool:
    return isinstance(report, Result)


def _deep(report: Report) -> int:
    """Where only pages of a comparison have a table that is told of one capture in every format."""
    return 2 if _two(report) else 1


def _last_side(report: Report) -> tuple[Literal["baseline", "candidate"], float]:
    """The side that a report is about, and its step, ns."""
    if isinstance(report, Result):
        return "candidate", report.step.candidate_ns
    return "baseline", report.step.mean_ns


_TITLES = {  # of a section, and its name in the contents of a page
    "chosen": ("Steps asked for, beside the typical step of their class", "Steps asked for"),
    "steps": ("Steps", "Steps"), "strata": ("Workloads", "Workloads"), "kernels": ("Kernels", "Kernels"),
    "limits": ("Limits of the hardware", "Limits"), "layers": ("Time by layer", "Layers"), "host": ("Host time", "Host time"),
    "gaps": ("Idle gaps of the GPU", "Idle gaps"), "launch": ("Launch overhead", "Launch"), "gil": ("GIL", "GIL"),
    "gc": ("Python garbage collection", "GC"), "threads": ("Threads", "Threads"), "ranks": ("Ranks", "Ranks"),
}  # fmt: skip


def table(report: Report, name: str, found: Sequence[Any], *, per: str = "", known: dict[str, Any] | None = None, size: Callable[[Any], float] | None = None, **settings: Any) -> Table:  # fmt: skip
    """A table of the core, its first rows; size: of a row, the largest first, where rows are listed from 0.1 % of a step on."""
    step = words.unit(report)
    context = values.Context(report, _two(report), fields.VALUES, step, per or f"per {step}", known or {})
    limit = settings.pop("limit", PAGE if _two(report) else LIMIT)
    if size:
        least = MATERIAL * _last_side(report)[1]
        limit = max(NAMED, min(limit, sum(size(row) >= least for row in found)))
    return values.table(LISTED[name], found, context, limit, **settings)


def _section(key: str, blocks: Sequence[Block], depth: int = 2, **more: Any) -> Section:
    title, menu = _TITLES[key]
    return Section(key, title, blocks, depth=depth, menu=menu, **more)


def _told(report: Report, name: str, found: Sequence[Any], what: str, notes: Sequence[str] = (), **settings: Any) -> list[Block]:  # fmt: skip
    """What a table is, the table, and what to know of it; nothing without rows and notes. what: a pattern."""
    made: list[Block] = [table(report, name, found, **settings)] if found else []
    said = [lead(say(what, step=words.unit(report)))] if what and (found or notes) else []
    return [*said, *made, *_notes(*notes)]


def _own_part(report: Report, name: str, found: Sequence[Any], **settings: Any) -> list[Block]:
    """A table as a part with its title; nothing without rows."""
    return [part(LISTED[name].title, [table(report, name, found, **settings)])] if found else []


def sections(report: Report) -> list[Section]:
    """All that hold something, in the order of a page."""
    parts: Sequence[Callable[[Any], Section | None]] = (
        _steps, _host, _strata, _kernels, _limits, _layers, _gaps, _launch, _python, _threads, _system, _ranks,
    )  # fmt: skip
    of_steps = words.unit(report) == "step"
    found = [write(report) if of_steps or write not in (_steps, _strata) else None for write in parts]
    if isinstance(report, Result):
        found.insert(3, accounting(report))
        found += [*beside.sections(report), _comparability(report)]
    else:
        found += [_benchmark(report), _capture(report)]
    found += [_warnings(report), _inputs(report) if isinstance(report, Result) else None, _reading(report)]
    return [one for one in found if one is not None and one.blocks]


# What was asked for


def asked(report: Report) -> list[Section]:
    """Kernels or steps that were asked for, and gates."""
    if isinstance(report, Show):
        return [_chosen(report)] if report.chosen else []
    return [one for one in (_answers(report), _gates(report)) if one is not None]


def _answers(report: Result) -> Section | None:
    if not report.kernel_answers:
        return None
    parts = [
        Section(f"kernel-answer-{number}", one.text, answer(report, one), depth=0)
        for number, one in enumerate(report.kernel_answers, 1)
    ]
    return Section("kernel-answers", "Kernels asked for", parts, depth=0)


def answered(report: Result) -> list[Section]:
    """What was asked of kernels as documents; the last says the verdict on all."""
    *others, last = [Section("", one.text, answer(report, one)) for one in report.kernel_answers]
    verdict = Line([f"Of all: {report.headline.text or words.verdict(report).word}"])
    return [*others, replace(last, blocks=[*last.blocks, verdict])]


def answer(report: Result, one: KernelAnswer) -> list[Block]:
    """What is known of the kernels of a name: by phase, by match and launch shape, and who launches them."""
    own = [report.kernels[at] for at in one.rows]
    found: list[Block] = _notes(*_answer_notes(report, one, own))
    for name, listed in (
        ("answer phases", one.phases),
        ("answer shapes", own),
        ("answer origins", one.origins),
    ):
        if listed:
            found.append(table(report, name, listed, limit=12, depth=0, look="plain"))
    return found


def _answer_notes(report: Result, one: KernelAnswer, own: Sequence[KernelRow]) -> list[str]:
    mean = words.mean_step(report)
    if one.baseline_hidden_ns > 0.5 or one.candidate_hidden_ns > 0.5:
        prose = units.prose([one.baseline_hidden_ns, one.candidate_hidden_ns])
        sizes = (prose.size(max(ns, 0.0)) for ns in (one.baseline_hidden_ns, one.candidate_hidden_ns))
        said = [say("answer_hidden", both=units.arrow(sizes), mean=mean)]
    else:
        said = [say("answer_exposed")]
    whole = kernels.kernel_time(report.kernels)
    shares = (
        units.share(one.baseline_ns, whole["baseline"]),
        units.share(one.candidate_ns, whole["candidate"]),
    )
    said.append(say("answer_share", both=units.arrow(shares), mean=mean))
    if any(row.kind == "early" for row in report.structure):
        said.append(say("only_the_sum"))
    if one.instead:
        said.append(say("answer_instead", kernels=", ".join(one.instead)))
    if one.partly:
        said.append(say("answer_partly", count=f"{len(one.partly)}"))
    elif any(len(side.names) > 1 for row in own for _, side in fields.side_of(row)):
        said.append(say("answer_several"))
    return said


def _gates(report: Result) -> Section | None:
    gates = report.gates
    if gates is None or not gates.outcomes:
        return None
    found: list[Block] = [lead(say("lead_gates"))]
    if gates.policy:
        found.append(aside(say("lead_policy", policy=gates.policy)))
    found += [table(report, "gates", gates.outcomes, look="data fixed"), *_notes(*gates.notes[:20])]
    return Section("gates", "Gates", found, depth=0)


def _chosen(report: Show) -> Section:
    parts = [
        Section(f"chosen-{number}", one.text, chosen(report, one), depth=0)
        for number, one in enumerate(report.chosen, 1)
    ]
    return _section("chosen", parts, 0)


def chosen(report: Show, one: StepDiff, top: int = 12) -> list[Block]:
    """A single step: where it is, the categories that differ, and the places that hold most of the difference."""
    found: list[Block] = [Items([[text] for text in show_words.step_facts(report, one)], "facts")]
    for name, listed in (
        ("chosen categories", show_words.step_categories(one)),
        ("chosen places", show_words.step_places(one)),
    ):
        if listed:
            found.append(
                table(report, name, listed, limit=max(top, len(listed) * (name != "chosen places")), depth=0)
            )
    return found


# The step and its steps


def accounting(report: Result) -> Section:
    """The categories of the step."""
    listed, whole = fields.categories(report)
    made = table(report, "accounting", [*listed, whole], limit=len(listed) + 1, look="data", depth=2)
    residual = f"{report.accounting.residual_ns}"
    found: list[Block] = [lead(say("lead_accounting", step=words.unit(report), residual=residual))]
    foot = replace(made.rows[-1], level="")
    found.append(replace(made, rows=[replace(row, level="") for row in made.rows[:-1]], foot=foot))
    if any(one.hidden_baseline_ns or one.hidden_candidate_ns for one in listed):
        found.append(aside(say("lead_hidden")))
    return Section(
        "accounting", say("accounting_of", step=words.mean_step(report)), found, menu="Accounting", printed=True,
        gist="Every instant in one category: GPU work, or the cause of idle time",
    )  # fmt: skip


def waits(report: Show) -> Section | None:
    """Idle time of one capture by cause and place."""
    if not report.idle:
        return None
    cells = {one.rank: _wait(one) for one in report.idle}
    found: list[Block] = [
        lead(say("lead_waits" if show_words.captured(report, "kernels") else "lead_waits_host"))
    ]
    if report.idle_left_out:
        left = units.exact(report.idle_left_out_ns)
        found.append(aside(say("lead_waits_left", count=f"{report.idle_left_out}", size=left)))
    found.append(table(
        report, "waits", report.idle, known={"cells": cells}, ids=lambda one: f"idle-{one.rank}", size=lambda one: one.ns, depth=2,
    ))  # fmt: skip
    return Section("idle", show_words.waits(report), found, menu="Waits")


def _wait(one: IdleCause) -> Cell:
    facts = [(name, [Cell(value, code=True)]) for name, value in words.place(where_of(one))]
    if one.on_rank is not None:
        facts.append(("rank", [Cell(show_words.on_rank(one))]))
    if one.longest:
        at = one.longest
        size = units.exact(at.end_ns - at.start_ns)
        facts.append(("longest", [Cell(f"{size} in {at.run}, from {at.start_ns} to {at.end_ns} ns")]))
    more: list[Block] = [facts_of("place", facts)]
    if one.query:
        more.append(Listing(one.query, "sql"))
    return Cell(words.sentence(one.title), more=more)


def _steps(report: Report) -> Section | None:
    if not report.phases:
        return None
    unit = words.page_unit(report) if isinstance(report, Result) else units.both(report.step.mean_ns, 0.0)
    found: list[Block] = [
        lead(say("lead_steps")),
        table(report, "phase", report.phases, scale=unit, look="data fixed", depth=_deep(report)),
    ]
    for one in report.phases:
        if any(side.run_means_ns for _, side in fields.side_of(one)):
            strip, left = runs.phase_strip(report, one)
            caption = say("strip_left", phase=one.phase, count=f"{left:,}") if left else one.phase
            found.append(Figure(strip, caption))
    few = [one.phase for one in report.phases if any(side.steps < 100 for _, side in fields.side_of(one))]
    if few:
        found.append(aside(say("few_steps", phases=", ".join(few))))
    if report.samples_left_out:
        found.append(aside(say("samples_left", count=f"{report.samples_left_out:,}")))
    return _section("steps", found, _deep(report), open=True)


def _strata(report: Report) -> Section:
    parts: list[Block] = []
    if report.strata:
        if isinstance(report, Result):
            parts += [Line([text]) for text in workloads.left_out(report)]
        else:
            parts.append(lead(say("lead_strata", step="step", share=units.share(report.step.time_in_mean))))
        parts.append(table(report, "strata", report.strata, look="data sortable", depth=2))
    if isinstance(report, Result):
        judged = [one for one in report.phases if one.typical]
        made = _told(report, "matching", judged, "", look="data fixed", depth=2)
        parts += [Section("matching", LISTED["matching"].title, made)] if made else []
    alike = sum(one.compared for one in report.strata)
    gist = f"{alike:,} of {len(report.strata):,} kinds of steps compared"
    return _section("strata", parts, gist=gist)


def phases(report: Result) -> Table:
    """Verdict, typical step of both sides, change and what a repeat would show, of each phase and of its mean; of sides that are not comparable their times alone."""
    lines = fields.phase_lines(report)
    made = table(report, "phases", lines, scale=words.page_unit(report), look="data cards", depth=2)
    change = next(at for at, head in enumerate(made.heads) if head.part == "change")
    listed = []
    for row, line in zip(made.rows, lines, strict=True):
        cells, of = list(row.cells), line.change
        cells[change] = replace(cells[change], text=units.change(of.delta_ns, of.baseline_ns))
        if line.first:
            cells[0] = replace(cells[0], text=Strong(cells[0].text))
        listed.append(replace(row, cells=cells, look=" ".join([line.kind, *["spoken"] * line.first])))
    heads = [
        replace(
            head, look=_PHASE_LOOKS.get(head.text or head.part, head.look), title=EXPLAINED.get(head.text, "")
        )
        for head in made.heads
    ]
    made = replace(made, rows=listed, heads=heads)
    if report.verdict != "not_comparable":
        return made
    heads = [head if {head.text, head.part} & _TIMES else replace(head, look="judged") for head in heads]
    return without(replace(made, heads=heads), "judged")


_TIMES = {"Phase", "baseline", "candidate", "Steps", "Runs"}
_PHASE_LOOKS = {"Verdict": "judged", **dict.fromkeys(("Of step time", "Steps", "Runs"), "page")}


def phases_in_text(report: Result) -> Table:
    """The same for text formats."""
    return replace(without(phases(report), "page"), caption="")


# Kernels


def _kernels(report: Report) -> Section | None:
    if not report.kernels:
        return None
    found: list[Block] = [
        lead(say("lead_kernels", step=words.unit(report)) if _two(report) else say("lead_kernels_of_one"))
    ]
    gist = f"{len(report.kernels):,} rows"
    if isinstance(report, Result):
        by_phase = kernels.kernels_by_phase(report)
        judged = report.launched or by_phase[0].rows
        beyond = sum(row.level != "within_noise" for row in judged)
        gist = f"{beyond:,} of {len(judged):,} rows beyond noise"
        if kernels.by_launch(report):
            made = table(report, "launches", kernels.ordered(report))
            found += [made, Line([say("lead_launches", step=words.unit(report))])]
        for number, one in enumerate(by_phase):
            found += _kernels_of(report, one, first=number == 0)
    else:
        every = kernels.of_phase("", list(enumerate(report.kernels)))
        made = kernel_table(report, report.kernels, every, LIMIT)
        found.append(replace(made, caption=say("kernels_of_one")))
    return _section("kernels", found, 1, gist=gist)


def _kernels_of(report: Result, one: kernels.PhaseKernels, *, first: bool) -> list[Block]:
    """Kernels of a phase: those that changed, then the others, each with how sure that is. Text formats have the first phase's, of others those never tested."""
    per = words.per_step(one.phase, unit=words.unit(report))
    text = first and not kernels.by_launch(report)
    tested = any(row.q_value is not None for row in one.rows)

    beyond = [row for row in one.rows if row.level != "within_noise"]
    others = [row for row in one.rows if row.level == "within_noise"]

    def made(found: Sequence[KernelRow], name: str, most: int, *, told: bool) -> Table:
        out = kernel_table(report, found, one, most, anchors=first, depth=1 if told else 2)
        caption = remarks.kernels_listed(report, found[:most], one.phase)
        return replace(out, name=name if first else f"{name} {per}", caption=caption)

    found: list[Block] = [] if first else [Line([words.sentence(per)], "head")]
    # of what was not tested, text formats list what would be worth a word
    told = text and not (beyond or tested) and kernels.size_of(others[0]) >= SURELY * max(one.gpu_ns.values())
    if beyond:
        found.append(made(beyond, "kernels", 2 * PAGE, told=text))
    elif tested or (text and not told):
        found.append(Line([kernels.none_changed(one.rows)], "text" if text else "aside"))
    if others:
        title = say("kernels_others", rows=units.counted(len(others), "kernel"))
        listed = made(others, "kernels others" if beyond else "kernels", PAGE, told=told)
        found.append(part(title, [listed], 1 if told else 2, folded=True, open=not beyond))
    left = [whole - kernels.kernel_time(one.rows)[side] for side, whole in one.gpu_ns.items()]
    if any(round(ns) for ns in left):
        times, whole = units.both(*one.gpu_ns.values()), list(one.gpu_ns.values())
        found.append(
            aside(
                say("kernels_left", left=times.both(*left), whole=times.both(*whole), step=words.unit(report))
            )
        )
    return found


def kernel_table(
    report: Report, found: Sequence[KernelRow], of: kernels.PhaseKernels, limit: int, *, anchors: bool = True, depth: int = 1
) -> Table:  # fmt: skip
    """Kernels with what they open to. of: all kernels of that step."""
    number = of.places
    listed = {number[id(row)] for row in found[:limit]}
    others = [row for at, row in enumerate(report.kernels) if at not in listed]
    called, peaks = names.kernels(found[:limit], names.LONG, others), remarks.of_peak(report)
    notes = beside.kernel_notes(report) if isinstance(report, Result) else {}
    cells = {
        id(row): replace(name.cell(names.LONG), more=_kernel(report, row, notes.get(number[id(row)], ())))
        for row, name in zip(found, called, strict=False)
    }
    known = {
        "cells": cells,
        "of_peak": {key: peaks[at] for key, at in number.items() if at in peaks},
        "kernel_time": of.gpu_ns,
    }
    return table(
        report, "kernels", found, known=known, limit=limit, ordered=True, depth=depth,
        ids=lambda row: f"kernel-{number[id(row)]}" if anchors else "",
    )  # fmt: skip


def _kernel(report: Report, row: KernelRow, notes: Sequence[tuple[str, str]]) -> list[Block]:
    """Both sides' names and launch shapes, those of the candidate where they are others, and its interval."""
    two = _two(report)
    facts: list[tuple[str, list[Cell]]] = []
    known: list[object] = []
    for side, of in fields.side_of(row):
        shapes = [
            *([f"grid {' '.join(of.grids[:6])}"] if of.grids else []),
            *([f"block {' '.join(of.blocks[:6])}"] if of.blocks else []),
            *([] if of.registers is None else [f"{of.registers} registers"]),
            *([] if of.shared_bytes is None else [f"{of.shared_bytes:,} B shared"]),
        ]
        total = sum(of.ns_of)
        shares = [f"{units.share(ns, total)} of the row" for ns in of.ns_of] or [""] * len(of.names)
        called = [
            Cell(name, code=True, small=share) for name, share in zip(of.names[:PAGE], shares, strict=False)
        ] * (of.names not in known)
        said = "; ".join([f"{units.exact(of.mean_ns)} each", *(shapes if shapes not in known else [])])
        known = [of.names, shapes]
        facts.append((side if two else "kernel", [*called, Cell(said)]))
    if two:
        scale = units.scale_for([row.ci_low_ns, row.ci_high_ns])
        q = words.q_value(row)
        facts.append(
            ("interval", [Cell(f"{scale.span(row.ci_low_ns, row.ci_high_ns)} {scale.unit}{q and f', {q}'}")])
        )
    facts.append(("family", [Cell(row.family)]))
    if isinstance(report, Show):
        facts.append(("counts as", [Cell(palette.category(row.accounting).label)]))  # type: ignore[attr-defined]
    facts += [("counters", [Cell(text, link=anchor)]) for anchor, text in notes]
    return [facts_of("kernel", facts)]


def _limits(report: Report) -> Section | None:
    limits = report.limits
    found = remarks.limit_rows(report)
    if limits is None or not found:
        return None
    called = names.kernels([report.kernels[row.kernel] for row in found], names.LONG)
    cells = (one.cell(names.LONG) for one in called)
    known = {"cells": dict(zip((row.kernel for row in found), cells, strict=True))}
    made = _told(report, "limits", found, "lead_limits", remarks.limits(report), known=known)
    made += _told(report, "MFU", limits.phases, "", look="data fixed")
    return _section("limits", made, 1, printed=True)


def _layers(report: Report) -> Section | None:
    layers = report.layers
    if layers is None:
        return None
    made = _told(report, "layers", layers.kinds, "lead_layers", remarks.layers_known(report))
    return _section("layers", [*made, table(report, "each layer", layers.rows, depth=2)], 1, printed=True)


# The host


def _host(report: Report) -> Section | None:
    host = report.host
    if host is None:
        return None
    per, made = f"per {host.per}", list[Block]()
    for kind, name in (("call", "host calls"), ("range", "host ranges"), ("os_call", "host OS calls")):
        listed = [row for row in host.rows if row.kind == kind]
        title = say(f"host_per_{host.per}", title=LISTED[name].title)
        made += _told(report, name, listed, "", per=per, title=title)
    if isinstance(report, Result) and made and min(report.step.runs.baseline, report.step.runs.candidate) < 2:
        made += _notes(say("host_one_run"))
    return _section("host", [lead(say("lead_host")), *made] if made else [], 1, printed=True, open=True)


def _gaps(report: Report) -> Section | None:
    if report.host is not None:  # nothing is known of the GPU
        return None
    listed = sorted(
        report.gaps,
        key=lambda row: (-kernels.size_of(row), row.cause, row.thread, row.range, row.previous, row.next),
    )
    made = _told(report, "gaps", listed, "lead_gaps", ordered=True, depth=2, size=kernels.size_of)
    longest = sorted(report.worst_gaps, key=lambda gap: -gap.duration_ns)
    alike = sum(gap.duration_ns >= LITTLE * longest[0].duration_ns for gap in longest)
    made += _own_part(report, "worst gaps", longest, limit=min(PAGE, alike))
    return _section("gaps", made, gist="By cause and place, and the longest single ones")


def _launch(report: Report) -> Section | None:
    launch, per = report.launch, words.per_step("", unit=words.unit(report))
    of: Any = launch
    if isinstance(report, Result):
        phase = kernels.kernels_by_phase(report)[0].phase
        of = next((one for one in launch.by_phase if one.phase == phase), launch)
        per = words.per_step(phase, "mean") if of is not launch else per
    sides = [of.baseline, of.candidate] if _two(report) else [of.baseline]
    made: list[Block] = []
    if any(side.kernels_per_step or side.calls_per_step for side in sides):
        modes = [report.graphs.mode_baseline, *([report.graphs.mode_candidate] if _two(report) else [])]
        pattern = "lead_launch" if _two(report) else "lead_launch_of_one"
        made.append(lead(say(pattern, baseline=modes[0], candidate=modes[-1])))
        if "graph" in modes and any(side.graph_launches_per_step for side in sides):
            made.append(aside(say("whole_graphs")))
        made.append(_launches(report, sides, per))
        made.append(aside(say("queue_delay")))
    else:
        made.append(Line([say("no_launches")], "lead"))
    if of.apis:
        depth = 2 if _two(report) or report.host else 1
        made.append(part("CUDA calls", [table(report, "CUDA calls", of.apis, per=per, depth=depth)], depth))
    made += _own_part(report, "transitions", launch.transitions)
    return _section("launch", made, _deep(report), gist="Launching calls, graphs, queue delay, CUDA calls")


_COUNTED = {
    "kernels": "kernels_per_step", "launching calls": "calls_per_step", "graph launches": "graph_launches_per_step",
    "synchronisations": "syncs_per_step",
}  # fmt: skip
_LAUNCH_TIMES = {
    "host time in launching calls": "api_ns_per_step", "GPU idle in these calls and by launch latency": "exposed_ns_per_step",
    "queue delay, mean": "queue_delay_mean_ns", "queue delay, p50": "queue_delay_p50_ns", "queue delay, p99": "queue_delay_p99_ns",
}  # fmt: skip


def _launches(report: Report, sides: Sequence[LaunchSide], per: str) -> Table:
    rows = [(label, [units.count(getattr(side, name)) for side in sides]) for label, name in _COUNTED.items()]
    nodes = [
        units.count(side.kernels_per_step * side.graph_coverage / side.graph_launches_per_step)
        if side.graph_launches_per_step
        else ""
        for side in sides
    ]
    rows.append(("nodes per graph launch", nodes))
    rows.append(("kernels launched by graphs", [units.share(side.graph_coverage) for side in sides]))
    for label, name in _LAUNCH_TIMES.items():
        both = [getattr(side, name) for side in sides]
        rows.append((label, [units.scale_for(both).time(ns) for ns in both]))
    listed = [fields.Both(label, *both) for label, both in rows if any(both)]
    return table(report, "launch", listed, per=per, look="data fixed", depth=2)


def missing(report: Report, kind: str) -> list[Block]:
    """That a side did not record a kind of trace, and what would."""
    text = words.missing(report, kind)
    return [Line([text], "missing")] if text else []


def _python(report: Report) -> Section:
    deep = _deep(report)
    gil = [*missing(report, "gil"), *_told(report, "GIL", report.gil.rows, "lead_gil", depth=deep)]
    if report.gil.matrix:
        gil.append(part("Who waited for whom", [table(report, "GIL waits", report.gil.matrix, depth=2)]))
    gc = missing(report, "gc")
    gc += [aside(say("gc_missing"))] if gc else []
    gc += _told(report, "GC", report.gc.rows, "", look="data sortable", depth=deep)
    if report.gc.rows:
        gc.append(aside(say("gc_edges")))
    parts = [
        _section("gil", gil or [lead(say("gil_none"))], deep),
        _section("gc", gc or [lead(say("gc_none"))], deep),
    ]
    gist = "Who held the interpreter lock, who waited, what was collected"
    return Section("", "GIL and garbage collection", parts, depth=deep, gist=gist)


def _threads(report: Report) -> Section:
    deep, own = _deep(report), list[Block]()
    if report.response_path:
        side, step_ns = _last_side(report)
        told: list[Block] = [lead(say("lead_response", step=words.unit(report)))]
        for row in report.threads:
            told += map(aside, remarks.bursts(row, side, step_ns, words.unit(report)))
        told += _told(report, "response path", report.response_path, "", look="data", depth=deep)
        own.append(part("Response path", told, deep))
    if report.threads:
        own.append(part("Threads by role", _told(report, "threads", report.threads, "lead_threads", depth=2)))
    parts: list[Block] = [_section("threads", own, deep)] if own else []
    other = {one.call for one in report.system.comm_calls} if report.system else set()  # in a table of theirs
    other |= {one.name for one in report.host.rows} if report.host else set()
    own_ranges = [row for row in report.ranges if row.range not in other]
    listed = sorted(own_ranges, key=lambda row: (-kernels.size_of(row), row.range, row.domain, row.thread))
    ranges = _told(report, "ranges", listed, "lead_ranges", ordered=True, depth=2) or missing(report, "nvtx")
    if ranges:
        parts.append(Section("ranges", "NVTX ranges", ranges, menu="Ranges" if report.ranges else ""))
    gist = "Threads by role, NVTX ranges by host time"
    return Section("", "Threads and ranges", parts, depth=deep, gist=gist)


# What the system recorded


def _system(report: Report) -> Section | None:
    system, there, menus = report.system, list[Section](), list[str]()
    if system is None:
        return None
    metrics = [row for row in system.gpu_metrics if _two(report) or row.baseline]
    parts: Sequence[tuple[str, str, Sequence[Any], str, list[str], int]] = (
        ("", "host work", system.host_work, "lead_host_work", [], 1),
        ("Communication", "communication", system.comm_calls, "lead_communication", remarks.no_bytes(system.comm_calls), 1),
        ("OS calls", "OS calls", system.os_calls, "lead_os_calls", [], 2),
        ("Scheduling", "Time on no CPU", system.off_cpu, "lead_off_cpu", [], 2),
        ("Payloads", "payloads", system.payloads, "lead_payloads", [], 1),
        ("Memory", "memory", system.memory, "lead_memory", [], 1),
        ("GPU metrics", "GPU metrics", metrics, "lead_metrics", remarks.unplaced(system)[:PAGE], 1),
    )  # fmt: skip
    for menu, name, listed, what, notes, depth in parts:
        if told := _told(report, name, listed, what, notes, depth=depth):
            there.append(part(LISTED[name].title, told, depth))
            menus += [menu] if menu else []
    menu = menus[0] if len(menus) == 1 else "System"
    if len(there) == 1:  # whose title says it all
        return replace(there[0], id="system", menu=menu)
    title = "OS calls, communication, scheduling, CUDA's memory, GPU metrics, payloads"
    return Section("system", title, there, depth=1, menu=menu)


def _ranks(report: Report) -> Section | None:
    if len(report.ranks) < 2:
        return None
    found: list[Block] = [lead(say("lead_ranks"))]
    waits_known = any(
        row.baseline_comm_wait_ns or (_two(report) and row.candidate_comm_wait_ns) for row in report.ranks
    )
    if waits_known:
        found.append(aside(say("lead_rank_waits")))
        found += map(aside, remarks.rank_clocks(report))
    outliers = remarks.rank_outliers(report) if isinstance(report, Result) else []
    found += [Line([text]) for text in outliers]
    skew = [remarks.rank_skew(one, _two(report)) for one in report.rank_skew]
    found += _notes(*skew) if outliers else map(aside, skew)
    listed = sorted(report.ranks, key=remarks.rank_order)
    found.append(table(report, "ranks", listed, look="data sortable", depth=_deep(report)))
    if report.rank_groups:
        told = [say("lead_groups"), *remarks.group_waits(report, _last_side(report)[0], words.unit(report))]
        groups = table(report, "rank groups", report.rank_groups)
        found.append(part(LISTED["rank groups"].title, [*map(lead, told), groups]))
    found += _own_part(report, "kernels by rank", report.kernel_ranks)
    return _section("ranks", found, 1, gist=words.ranks(report), printed=True)


# What was read


def _comparability(report: Result) -> Section:
    checks = report.comparability.checks
    passed = f"{sum(one.status == 'ok' for one in checks)}"
    found: list[Block] = [lead(say("no_checks"))]
    if checks:
        pattern = "comparable" if report.comparability.comparable else "incomparable"
        found = [
            lead(say(pattern, passed=passed, checks=f"{len(checks)}")),
            table(report, "comparability", checks, look="data sortable", depth=2),
        ]
    found += _not_seen(report)
    gist = f"{passed} of {len(checks)} checks passed"
    return Section("comparability", "Comparability", found, gist=gist, menu="Comparability", printed=True)


def _not_seen(report: Report) -> list[Block]:
    """Kinds of trace that few captures hold, where they are not there."""
    return [Line([text], "missing") for text in remarks.missing(report).values()]


def _warnings(report: Report) -> Section | None:
    found: list[Sequence[Span]] = [[Code(one.slug), f" {one.message}"] for one in report.warnings]
    shown = found[: PAGE if _two(report) else LIMIT]
    if not found:
        return None
    blocks: list[Block] = [Items(shown, "warn")]
    if len(found) > len(shown):
        blocks += _notes(say("rows_left_short", left=f"{len(found) - len(shown)}", field="warnings"))
    gist = units.counted(len(found), "warning")
    return Section("warnings", "Warnings", blocks, gist=gist, menu="Warnings", printed=True)


def _inputs(report: Result) -> Section:
    found: list[Block] = [
        table(report, "inputs", fields.captures(report), limit=LIMIT, look="data fixed", depth=2),
        *_options(report.inputs.options),
    ]
    counts = units.pair(len(report.inputs.baseline.runs), len(report.inputs.candidate.runs))
    return Section("inputs", "Inputs", found, gist=f"{counts} runs, options", menu="Inputs", printed=True)


def _options(options: dict[str, Any]) -> list[Block]:
    said = ", ".join(f"{key} = {value}" for key, value in sorted(options.items()) if key != "recorded")
    return [aside(say("options", options=said))] if said else []


def _benchmark(report: Show) -> Section | None:
    if report.kpi is None:
        return None
    found: list[Block] = [
        lead(say("lead_benchmark", source=report.kpi.source)),
        table(report, "benchmark figures", report.kpi.rows, look="data sortable fixed"),
    ]
    return Section("kpi", "Benchmark figures", found, depth=1, menu="Benchmark")


def _capture(report: Show) -> Section:
    means = report.step.runs_ns
    listed = [
        fields.Run(f"run {number}", run, means[number - 1] if number <= len(means) else None)
        for number, run in enumerate(report.input.runs, 1)
    ]
    states = report.coverage.baseline
    traces = [
        fields.Trace(name, words.unseen(kind) if states[kind] == "not_captured" else states[kind], words.capture_with(report, kind))
        for kind, name in words.KINDS.items()
        if kind in states
    ]  # fmt: skip
    machine = table(report, "machine", report.machine, look="data fixed")
    coverage = table(report, "coverage", traces, look="data fixed", depth=2)
    found: list[Block] = [
        Section("", "", [machine, coverage], columns=True, depth=1),
        table(report, "inputs", listed, limit=LIMIT, look="data", depth=2),
        *_not_seen(report),
        *_options(report.options),
    ]
    return Section("capture", "The capture", found, depth=2, menu="Capture")


def _reading(report: Report) -> Section:
    kinds = [
        (Cell(one.label, swatch=one.key), Cell(one.meaning, small=one.key)) for one in palette.BY_KEY.values()
    ]
    parts = {
        "Words": terms(TERMS["words" if _two(report) else "words of one capture"].items()),
        "Categories": terms(kinds),
    }
    if _two(report):
        verdicts = [(f"{one.sign} {one.word}", one.meaning) for one in words.VERDICTS.values()]
        levels = terms([*words.LEVELS.values(), words.UNSURE])
        parts = {
            "Signs": terms(TERMS["signs"].items()),
            "Evidence": levels,
            "Verdict": terms(verdicts),
            **parts,
        }
    return Section(
        "reading", "How to read this", [Section("", "", [part(title, [one]) for title, one in parts.items()], columns=True)],
        gist="Signs, words, categories, keys", menu="How to read", printed=True,
    )  # fmt: skip


# of the lines of the first screen, by what they begin with
EXPLAINED = {"By count": TERMS["signs"]["by count"], **dict.fromkeys(("A repeat", "A repeat, 95 %"), TERMS["signs"]["a repeat"])}  # fmt: skip
