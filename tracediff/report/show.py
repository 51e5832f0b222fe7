"""The report of one capture as a page, as Markdown and on a terminal: the page of a comparison with one side.

Markdown and the terminal show the same tables, which are described here once.
"""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from tracediff.model import System
from tracediff.model.show import Show
from tracediff.report import (
    measured,
    names,
    pictures,
    show_words,
    step_words,
    system_words,
    templates,
    timelines,
    units,
    words,
    workloads,
)
from tracediff.report.console import (
    has_unicode,
    print_heading,
    print_line,
    print_more,
    print_table,
    print_tables,
    print_warnings,
)
from tracediff.report.document import TableOf, markdown
from tracediff.report.escape import markdown_cell, markdown_code, markdown_figure, neutral, shorten
from tracediff.report.html import helpers, own_files
from tracediff.report.markdown import LIMIT, cut_to_limit, length
from tracediff.report.rows import RANKS, rank_order
from tracediff.report.templates import markdown_environment


def render_show_html(report: Show) -> str:
    """Return the page."""
    report = neutral(report)
    places = {id(row): place for place, row in enumerate(report.kernels)}
    known: dict[str, Any] = {
        **own_files(["timelines.js"], ["show.css"]),
        **helpers(),
        "two": False,
        "r": report,
        "books": show_words.books(report),
        "show_words": show_words,
        "step_words": step_words,
        "left_out": workloads.left_out(report),
        "comment": render_show_markdown(report),
        "timelines": timelines.build(report),
        "pictures": pictures.for_page(report),
        "kernel_number": lambda row: places[id(row)],
        "kernel_first": lambda row: True,
        "kernel_notes": {},
        "parts": measured.parts(report),
        "of_peak": measured.of_peak(report),
    }
    return templates.html_environment().get_template("show.html.j2").render(known)


def _time(scale: units.Scale, *values: float | None) -> list[str]:
    return ["-" if ns is None else scale.number(ns) for ns in values]


def _yes(known: bool | None) -> str:
    return "yes" if known else "no"


def kernel_table(report: Show) -> TableOf:
    """Kernels, those with the most time first."""
    rows = [row for row in report.kernels if row.baseline]
    called = dict(zip(map(id, rows), names.kernels(rows), strict=True))
    peaks = {id(report.kernels[place]): text for place, text in measured.of_peak(report).items()}
    layer = ["Layer"] if report.layers else []
    return TableOf(
        "Kernels with the most time",
        ("Kernel", "Category", *layer, "Count per step", "{} per step", "% of the step", "Each", *["Of peak"] * bool(peaks)),
        "np" + "p" * len(layer) + "ffff" + "f" * bool(peaks),
        rows,
        lambda row, s: [
            called[id(row)], row.category, *[measured.layers_of(row) for _ in layer], units.count(row.baseline.count_per_step),
            s.number(row.baseline.ns_per_step), units.share(row.share), units.scale_for([row.baseline.mean_ns]).time(row.baseline.mean_ns),
            *[peaks.get(id(row), "-")] * bool(peaks),
        ],
        "kernels",
        lambda row: [row.baseline.ns_per_step],
    )  # fmt: skip


def detail_tables(report: Show) -> list[TableOf]:
    """What the host, Python, the ranks and the system did, and the steps."""
    system = report.system or System()
    return [
        table
        for table in (
            *measured.tables(report),
            TableOf(
                "CUDA calls", ("Call", "Kind", "Calls per step", "Host {} per step"), "npff", [] if report.host else report.launch.apis,
                lambda row, s: [row.api, row.kind, units.count(row.baseline_calls), s.number(row.baseline_ns)],
                "launch.apis", lambda row: [row.baseline_ns], notes=[f"{words.sentence(show_words.launches(report))}."],
            ),
            TableOf(
                "GIL, per step", ("Thread", "Phase", "Holds, {}", "Waits, {}", "Exposed, {}"), "npfff", report.gil.rows,
                lambda row, s: [row.thread, row.phase, *_time(s, row.baseline_hold_ns, row.baseline_wait_ns, row.baseline_exposed_ns)],
                "gil.rows", lambda row: [row.baseline_hold_ns, row.baseline_wait_ns],
            ),
            TableOf(
                "GIL waits by holder, per step", ("Waiter", "Holder", "Holder's range", "{} per step"), "nnnf", report.gil.matrix,
                lambda row, s: [row.waiter, row.holder, row.holder_range or "-", *_time(s, row.baseline_ns)],
                "gil.matrix", lambda row: [row.baseline_ns], on_terminal=False,
            ),
            TableOf(
                "Python garbage collection, per step", ("Thread", "Generation", "Pauses per step", "{} per step", "Exposed, {}"), "npfff",
                report.gc.rows,
                lambda row, s: [
                    row.thread, row.generation, units.count(row.baseline_count or 0.0), *_time(s, row.baseline_ns, row.baseline_exposed_ns)
                ],
                "gc.rows", lambda row: [row.baseline_ns, row.baseline_exposed_ns],
            ),
            TableOf(
                "Response path", ("Stage", "Thread", "Host {} per step", "Keeps up"), "pnfp",
                [row for row in report.response_path if row.baseline_ns is not None],
                lambda row, s: [row.stage, row.thread, *_time(s, row.baseline_ns), _yes(row.keeps_up_baseline)],
                "response_path", lambda row: [row.baseline_ns],
            ),
            TableOf(
                "Host work by call", ("Range", "Thread", "What", "{} per step"), "nnnf",
                system.host_work,
                lambda row, s: [row.range or "-", row.thread, system_words.what(row.kind, row.call), *_time(s, row.baseline_ns)],
                "system.host_work", lambda row: [row.baseline_ns],
            ),
            TableOf(
                "Calls of MPI and NCCL", ("Call", "Library", "Thread", "Calls per step", "Host {} per step", "Bytes per step"), "npnfff",
                system.comm_calls,
                lambda row, s: [
                    row.call, row.library, row.thread, units.count(row.baseline_count or 0.0), *_time(s, row.baseline_ns),
                    "-" if row.baseline_bytes is None else system_words.comm_bytes(row.baseline_bytes, row.baseline_bytes_per_call),
                ],
                "system.comm_calls", lambda row: [row.baseline_ns],
                notes=list(filter(None, [system_words.no_bytes(system.comm_calls)])),
            ),
            TableOf(  # threads that wait for work are in OS calls all the time: not on the terminal
                "OS calls", ("Call", "Thread", "Calls per step", "Host {} per step"), "nnff", system.os_calls,
                lambda row, s: [row.call, row.thread, units.count(row.baseline_count or 0.0), *_time(s, row.baseline_ns)],
                "system.os_calls", lambda row: [row.baseline_ns], on_terminal=False,
            ),
            TableOf(
                "Time on no CPU", ("Thread", "Times per step", "{} per step"), "nff", system.off_cpu,
                lambda row, s: [row.thread, units.count(row.baseline_count or 0.0), *_time(s, row.baseline_ns)],
                "system.off_cpu", lambda row: [row.baseline_ns], on_terminal=False,
            ),
            TableOf(
                "Payloads of NVTX ranges", ("Range", "Thread", "Mean"), "nnf", system.payloads,
                lambda row, s: [row.range, row.thread, system_words.payload_side(row.baseline)], "system.payloads",
            ),
            TableOf(
                "CUDA's memory", ("Kind", "A step"), "nf", system.memory,
                lambda row, s: [row.kind, system_words.of_memory(row.baseline)], "system.memory",
            ),
            TableOf(
                "GPU metrics, means of samples", ("Metric", "Device", *(part.capitalize() for part in system_words.METRIC_PARTS.values())), "nffff",
                [row for row in system.gpu_metrics if row.baseline],
                lambda row, s: [
                    row.metric, system_words.metric_device(row), *(system_words.metric_sides(row, part)[0] for part in system_words.METRIC_PARTS)
                ],
                "system.gpu_metrics",
            ),
            TableOf(
                "Ranks, per step",
                ("Rank", "Device", "Step, {}", "Own time, {}", "Last in", "Waits for peers, {}", "Transfers, {}", "Made others wait, {}"),
                "ffffffff", sorted(report.ranks, key=rank_order)[:RANKS] if len(report.ranks) > 1 else [],
                lambda row, s: [
                    f"rank {row.rank}", str(row.device), *_time(s, row.baseline_ns, row.baseline_own_ns),
                    "-" if row.baseline_last is None else units.share(row.baseline_last),
                    *_time(s, row.baseline_comm_wait_ns, row.baseline_comm_transfer_ns, row.baseline_caused_wait_ns),
                ],
                "ranks", lambda row: [row.baseline_ns],
            ),
            TableOf(
                "Step time by phase", ("Phase", "Steps", "Mean, {}", "p50", "p90", "p99"), "pfffff",
                [row for row in report.phases if row.baseline],
                lambda row, s: [
                    row.phase, units.count(row.baseline.steps),
                    *_time(s, row.baseline.mean_ns, row.baseline.p50_ns, row.baseline.p90_ns, row.baseline.p99_ns),
                ],
                "phases", lambda row: [row.baseline.p50_ns, row.baseline.mean_ns],
            ),
            TableOf(
                "Step time by workload", ("Workload", "Steps", "Mean, {}", "Of the time", "In the mean"), "pfffp", report.strata,
                lambda row, s: [
                    workloads.workload_name(row), units.count(row.baseline_steps), *_time(s, row.baseline_ns), units.share(row.baseline_share),
                    "yes" if row.compared else f"no: {row.reason}",
                ],
                "strata", lambda row: [row.baseline_ns], on_terminal=False,
            ),
            TableOf(
                f"Benchmark figures ({report.kpi.source if report.kpi else ''})", ("Figure", "Value"), "pp",
                report.kpi.rows if report.kpi else [],
                lambda row, s: [row.metric, f"{row.value:,.5g} {row.unit}".strip()], "kpi.rows",
            ),
        )
        if table.rows
    ]  # fmt: skip


# Markdown: the step and what is in it first, the rest folded, within a comment's limit.


def render_show_markdown(report: Show, top: int = 10) -> str:
    """Return the report; `top` is how many idle causes and kernels it shows."""
    report = neutral(report)
    if report.chosen:
        text = _steps_markdown(report, top)
        return text if length(text) < LIMIT else cut_to_limit(text)
    text = ""
    for rows, width in ((100, 160), (50, 160), (20, 120), (10, 80), (5, 60)):
        text = _markdown(report, min(top, 10 * rows), rows, width)
        if length(text) < LIMIT:
            return text
    return cut_to_limit(text)


def _steps_markdown(report: Show, top: int) -> str:
    template = markdown_environment().get_template("show_steps.md.j2")
    return template.render(r=report, words=step_words, top=top, table=lambda table: markdown([table], 120))


def _markdown(report: Show, top: int, rows: int, width: int) -> str:
    causes = report.idle[:top]
    return (
        markdown_environment()
        .get_template("show.md.j2")
        .render(
            r=report,
            books=show_words.books(report),
            left_out=workloads.left_out(report),
            words=show_words,
            base=words,
            units=units,
            rows=rows,
            top=top,
            figure=markdown_figure,
            code=lambda value: markdown_code(value, width),
            cell=lambda value: markdown_cell(value, width),
            idle_scale=units.scale_for([cause.ns for cause in causes]),
            causes=causes,
            causes_left=len(report.idle) + report.idle_left_out - len(causes),
            kernels=kernel_table(report),
            tables=detail_tables(report),
            table=lambda table, most: markdown([table.first(most)], width),
        )
    )


# The terminal: the step, what is in it, what the GPU waited for, what to doubt.

_BAR = 40  # columns of the longest bar


def render_show_terminal(report: Show, console: Console, top: int = 5) -> None:
    """Print the report; `top` is how many rows of a list are shown."""
    report = neutral(report)
    if report.chosen:
        _steps(report, console, top)
        return
    books = show_words.books(report)
    print_line(console, (report.sentence, "bold"), indent=0)
    if show_words.captured(report, "kernels"):
        print_line(console, f"GPU busy {books.busy}, idle {books.idle}")
    print_line(
        console,
        (
            f"{show_words.what_a_step_is(report)}; {show_words.runs(report)}; {show_words.spread(report)}",
            "dim",
        ),
    )
    print_line(console, (show_words.machine(report), "dim"))
    for text in workloads.left_out(report):
        print_line(console, (text, "yellow"))
    _accounting(report, books, console)
    _idle(report, console, top)
    most = {"ranks": RANKS, "kpi.rows": 2 * top}
    tables = [
        table for table in (kernel_table(report), *detail_tables(report)) if table.rows and table.on_terminal
    ]
    print_tables(console, [table.first(most.get(table.field, top)) for table in tables])
    print_warnings(report.warnings, words.all_missing(report), console)


def _steps(report: Show, console: Console, top: int) -> None:
    """The steps that were asked for, and nothing else."""
    for number, one in enumerate(report.chosen):
        if number:
            console.print()
        print_line(console, (one.text, "bold"), indent=0)
        for text in step_words.facts(report, one):
            print_line(console, (text, "dim"))
        for table in (step_words.categories(one), step_words.places(one, top)):
            if table.rows:
                print_tables(console, [table])
    print_warnings(report.warnings, [], console)


def _accounting(report: Show, books: show_words.Books, console: Console) -> None:
    print_heading(console, "What is in the time of a step")
    full = "█" if has_unicode(console) else "#"
    sd = bool(books.lines and books.lines[0].sd)
    rows: list[list[str | Text]] = [
        [line.label, f"{line.time} {books.scale.unit}", line.share, *[Text(f"sd {line.sd}", "dim")] * sd]
        for line in books.lines
    ]
    total = ("step", f"{books.total} {books.scale.unit}", "100.00 %", *[""] * sd)
    rows.append([Text(cell, "bold") for cell in total])
    widths = [max(len(str(row[column])) for row in rows) for column in range(len(rows[0]))]
    bar = max(6, min(_BAR, console.width - sum(widths) - 10))
    for row, line in zip(rows, books.lines, strict=False):
        row.append(Text(full * round(bar * line.bar), "cyan"))
    rows[-1].append("")
    print_table(console, (), rows, left=(0, len(rows[0]) - 1))
    hidden = [
        f"{words.cause(row.category)} {units.scale_for([row.hidden_ns]).time(row.hidden_ns)}"
        for row in report.accounting
        if row.hidden_ns
    ]
    if hidden:
        print_line(console, (f"hidden behind GPU work: {', '.join(hidden)} per step", "dim"))


def _idle(report: Show, console: Console, top: int) -> None:
    if not report.idle:
        return
    shown = report.idle[:top]
    scale = units.scale_for([cause.ns for cause in shown])
    print_heading(console, show_words.waits(report))
    for cause in shown:
        print_line(console, (f"{cause.rank}. {words.sentence(cause.title)}", "bold"), hang=3)
        facts = [f"{units.share(cause.share)} of the step", *show_words.facts(cause)]
        print_line(console, (scale.time(cause.ns), "cyan"), f"; {'; '.join(facts)}", indent=5)
        rest = [f"{name} {shorten(value, 120)}" for name, value in show_words.elsewhere(cause)]
        if rest:
            print_line(console, ("at: ", "dim"), ", ".join(rest), indent=5)
    print_more(console, len(report.idle) + report.idle_left_out - len(shown))
