"""The report of one capture as one HTML file that works offline, in the look of the page of a comparison."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.text import Text

from tracediff.compare.evidence import kernel_sql
from tracediff.model.show import Show, ShowPhase, ShowSystem
from tracediff.report import figures, show_words, system_words, templates, timelines, units, words
from tracediff.report import words as names
from tracediff.report.console import has_unicode, print_heading, print_line, print_warnings
from tracediff.report.escape import Markdown, markdown_cell, markdown_code, markdown_prose, neutral, shorten
from tracediff.report.figures import grid_of
from tracediff.report.html import helpers, own_files
from tracediff.report.markdown import LIMIT, cut_to_limit, length
from tracediff.report.tables import RANKS, rank_order
from tracediff.report.templates import markdown_environment
from tracediff.report.timelines import workload_name

# The report of one capture as Markdown: the step and what is in it first, the rest folded, within a comment's limit.


@dataclass(frozen=True)
class _Table:
    """Rows of cells that are Markdown already, the unit of their times, and how many rows are left out."""

    unit: str
    rows: list[list[Markdown]]
    left: int


def render_show_markdown(report: Show, top: int = 10) -> str:
    """Return the report; `top` is how many idle causes and kernels it shows."""
    report = neutral(report)
    text = ""
    for rows, width in ((100, 160), (50, 160), (20, 120), (10, 80), (5, 60)):
        text = _render(report, min(top, 10 * rows), rows, width)
        if length(text) < LIMIT:
            return text
    return cut_to_limit(text)


def _figure(text: str) -> Markdown:
    """Only digits, signs and units, which cannot start any markup inside a cell."""
    return Markdown(text.replace("<", "\\<").replace("~", "\\~"))


def _table(
    rows: Sequence[Any],
    most: int,
    times: Callable[[Any], Iterable[float | None]],
    cells: Callable[[Any, units.Scale], list[Markdown]],
) -> _Table:
    shown = rows[:most]
    scale = units.scale_for([ns for row in shown for ns in times(row)])
    return _Table(scale.unit, [cells(row, scale) for row in shown], len(rows) - len(shown))


def _time(scale: units.Scale, *values: float | None) -> list[Markdown]:
    return [_figure("-" if ns is None else scale.number(ns)) for ns in values]


def _render(report: Show, top: int, rows: int, width: int) -> str:
    def name(text: str) -> Markdown:
        return markdown_cell(text, width)

    def count(value: float) -> Markdown:
        return _figure(units.count(value))

    books = show_words.books(report)
    causes = report.idle[:top]
    each = units.scale_for([row.kernel.mean_ns for row in report.kernels[:top]])
    return (
        markdown_environment()
        .get_template("show.md.j2")
        .render(
            r=report,
            books=books,
            words=show_words,
            base=words,
            units=units,
            facts=show_words.FACTS,
            rows=rows,
            figure=_figure,
            code=lambda value: markdown_code(value, width),
            cell=name,
            line=lambda cells: Markdown(f"| {' | '.join(cells)} |"),
            spread=report.step.sd_ns is not None,
            hidden=any(row.hidden_ns is not None for row in report.accounting),
            not_counted=show_words.not_counted(report),
            missing=show_words.all_missing(report),
            idle_scale=units.scale_for([cause.ns for cause in causes]),
            causes=[
                {
                    "cause": cause,
                    "facts": [f"{units.count(cause.count_per_step)} a step", *filter(None, [show_words.on_rank(cause), show_words.longest(cause)])],
                    "place": [pair for pair in show_words.place(cause) if pair[1] not in cause.title],
                }
                for cause in causes
            ],
            causes_left=len(report.idle) + report.idle_left_out - len(causes),
            kernels=_table(
                report.kernels, top, lambda row: [row.kernel.ns_per_step],
                lambda row, s: [
                    name(" + ".join(map(names.short, row.kernel.names))), markdown_prose(row.category, width),
                    count(row.kernel.count_per_step), *_time(s, row.kernel.ns_per_step),
                    _figure(units.share(row.share)), _figure(each.time(row.kernel.mean_ns)),
                ],
            ),
            launch=_table(
                report.launch.apis, rows, lambda row: [row.ns],
                lambda row, s: [name(row.api), markdown_prose(row.kind, width), count(row.calls), *_time(s, row.ns)],
            ),
            gil=_table(
                report.gil, rows, lambda row: [row.hold_ns, row.wait_ns],
                lambda row, s: [
                    name(row.thread), markdown_prose(row.phase, width), *_time(s, row.hold_ns, row.wait_ns, row.exposed_ns)
                ],
            ),
            pairs=_table(
                report.gil_matrix, rows, lambda row: [row.ns],
                lambda row, s: [name(row.waiter), name(row.holder), name(row.holder_range or "-"), *_time(s, row.ns)],
            ),
            gc=_table(
                report.gc, rows, lambda row: [row.ns, row.exposed_ns],
                lambda row, s: [
                    name(row.thread), markdown_prose(row.generation, width), count(row.count), *_time(s, row.ns, row.exposed_ns)
                ],
            ),
            path=_table(
                report.response_path, rows, lambda row: [row.ns],
                lambda row, s: [
                    markdown_prose(row.stage, width), name(row.thread), *_time(s, row.ns), markdown_prose("yes" if row.keeps_up else "no", width)
                ],
            ),
            host_work=_table(
                report.system.host_work if report.system else [], rows, lambda row: [row.ns],
                lambda row, s: [
                    name(row.range or "-"), name(row.thread), name(system_words.what(row.kind, row.call)), *_time(s, row.ns)
                ],
            ),
            calls=_table(
                report.system.calls if report.system else [], rows, lambda row: [row.ns],
                lambda row, s: [
                    name(row.call), markdown_prose(row.library, width), name(row.thread), count(row.count), *_time(s, row.ns),
                    _figure("-" if row.bytes is None else system_words.comm_bytes(row.bytes, row.bytes_per_call)),
                ],
            ),
            off_cpu=_table(
                report.system.off_cpu if report.system else [], rows, lambda row: [row.ns],
                lambda row, s: [name(row.thread), count(row.count), *_time(s, row.ns)],
            ),
            payloads=_table(
                report.system.payloads if report.system else [], rows, lambda row: [],
                lambda row, s: [name(row.range), name(row.thread), _figure(system_words.payload_side(row.payload))],
            ),
            memory=_table(
                report.system.memory if report.system else [], rows, lambda row: [],
                lambda row, s: [name(row.kind), _figure(system_words.of_memory(row.memory))],
            ),
            metrics=_table(
                report.system.gpu_metrics if report.system else [], rows, lambda row: [],
                lambda row, s: [
                    name(row.metric), _figure(system_words.metric_device(row)), *map(_figure, system_words.of_metric(row)),
                ],
            ),
            ranks=_table(
                sorted(report.ranks, key=rank_order), rows, lambda row: [row.ns],
                lambda row, s: [
                    count(row.rank), count(row.device),
                    *_time(s, row.ns, row.own_ns), _figure("-" if row.last is None else units.share(row.last)),
                    *_time(s, row.comm_wait_ns, row.comm_transfer_ns, row.caused_wait_ns),
                ],
            ),
            phases=_table(
                report.phases, rows, lambda row: [row.p50_ns, row.mean_ns],
                lambda row, s: [
                    markdown_prose(row.phase, width), count(row.steps), *_time(s, row.mean_ns, row.p50_ns, row.p90_ns, row.p99_ns)
                ],
            ),
            strata=_table(
                report.strata, rows, lambda row: [row.ns],
                lambda row, s: [
                    markdown_prose(workload_name(row), width), count(row.steps), *_time(s, row.ns),
                    _figure(units.share(row.time_share)), markdown_prose("yes" if row.counted else f"no: {row.reason}", width),
                ],
            ),
            kpi=_table(
                report.kpi.rows if report.kpi else [], rows, lambda row: [],
                lambda row, s: [
                    markdown_prose(row.metric, 200), markdown_prose(f"{row.value:,.5g} {row.unit}".strip(), 80)
                ],
            ),
        )
    )  # fmt: skip


def render_show_html(report: Show) -> str:
    """Return the page."""
    report = neutral(report)
    places = {id(row): place for place, row in enumerate(report.kernels)}
    return (
        templates.html_environment()
        .get_template("show.html.j2")
        .render(
            r=report,
            books=show_words.books(report),
            show_words=show_words,
            comment=render_show_markdown(report),
            timelines=timelines.build_show(report),
            kernel_number=lambda row: places[id(row)],
            one_kernel_sql=lambda row: kernel_sql(row.kernel.names),
            grid=grid_of((row.waiter, row.holder, row.ns, None) for row in report.gil_matrix),
            short_names=lambda found: " + ".join(names.short(name) for name in found),
            phase_strip=lambda phase: _strip(report, phase),
            **own_files(["timelines.js"], ["show.css"]),
            **helpers(),
        )
    )


def _strip(report: Show, phase: ShowPhase) -> figures.Strip | None:
    """Step times of a phase: a line of dots a run."""
    runs = []
    for number, mean in zip(phase.runs, phase.runs_ns, strict=False):
        own = [one.period_ns for one in report.samples if one.run == number and one.phase == phase.phase]
        name = report.input.runs[number].name if number < len(report.input.runs) else f"run {number + 1}"
        runs.append(("run", name, mean, own))
    return figures.strip_of(runs)


# The report of one capture on a terminal: the step, what is in it, what the GPU waited for, what to doubt.

_BAR = 40  # columns of the longest bar
_WIDE = 110  # columns from which a name and its figures share a line


def render_show_terminal(report: Show, console: Console, top: int = 5) -> None:
    """Print the report; `top` is how many rows of a list are shown."""
    report = neutral(report)
    books = show_words.books(report)
    print_line(
        console, (report.input.label, "bold"), "  ", (f"{books.step} a step", "bold cyan"), indent=0
    )  # fmt: skip
    if show_words.captured(report, "kernels"):
        print_line(
            console, f"GPU busy {books.busy}, idle {books.idle}"
        )  # fmt: skip
    print_line(console, (f"{show_words.runs(report)}; {show_words.spread(report)}", "dim"))
    print_line(console, (show_words.machine(report), "dim"))
    for text in show_words.not_counted(report):
        print_line(console, (text, "yellow"))
    _accounting(report, books, console)
    _idle(report, console, top)
    _kernels(report, console, top)
    _host(report, console, top)
    if report.system:
        _system(report.system, console, top)
    _ranks(report, console)
    _benchmark(report, console, top)
    print_warnings(report.warnings, show_words.all_missing(report), console)


def _accounting(report: Show, books: show_words.Books, console: Console) -> None:
    print_heading(console, "What is in the time of a step")
    full = "█" if has_unicode(console) else "#"
    sds = [f"sd {line.sd}" if line.sd else "" for line in books.lines]
    cells = [
        (line.label, f"{line.time} {books.scale.unit}", line.share, sd) for line, sd in zip(books.lines, sds, strict=True)
    ]  # fmt: skip
    cells.append(("step", f"{books.total} {books.scale.unit}", "100.00 %", ""))
    widths = [max(len(row[column]) for row in cells) for column in range(4)]
    room = max(6, min(_BAR, console.width - sum(widths) - 10))
    for number, (label, time, share, sd) in enumerate(cells):
        total = number == len(books.lines)
        text = Text("  ")
        text.append(
            f"{label:<{widths[0]}}  {time:>{widths[1]}}  {share:>{widths[2]}}", "bold" if total else ""
        )
        if widths[3]:
            text.append(f"  {sd:>{widths[3]}}", "dim")
        if not total:
            text.append("  " + full * round(room * books.lines[number].bar), "cyan")
        text.rstrip()
        console.print(text, soft_wrap=True)
    hidden = [
        f"{words.cause(row.category)} {units.scale_for([row.hidden_ns]).time(row.hidden_ns)}"
        for row in report.accounting
        if row.hidden_ns
    ]
    if hidden:
        print_line(console, (f"hidden behind GPU work: {', '.join(hidden)} a step", "dim"))


def _idle(report: Show, console: Console, top: int) -> None:
    if not report.idle:
        return
    shown = report.idle[:top]
    scale = units.scale_for([cause.ns for cause in shown])
    print_heading(console, show_words.waits(report))
    for cause in shown:
        print_line(console, (f"{cause.rank}. {words.sentence(cause.title)}", "bold"), hang=3)
        facts = [
            f"{units.share(cause.share)} of the step",
            f"{units.count(cause.count_per_step)} a step",
            show_words.on_rank(cause),
            show_words.longest(cause),
        ]
        print_line(console, (scale.time(cause.ns), "cyan"), f"; {'; '.join(filter(None, facts))}", indent=5)
        rest = [
            f"{name} {shorten(value, 120)}"
            for name, value in show_words.place(cause)
            if value not in cause.title
        ]
        if rest:
            print_line(console, ("at: ", "dim"), ", ".join(rest), indent=5)
    _more(len(report.idle) + report.idle_left_out - len(shown), console)


def _more(left: int, console: Console) -> None:
    if left > 0:
        print_line(console, (f"{left} more: in the HTML report and the JSON, or with --top", "dim"))


def _kernels(report: Show, console: Console, top: int) -> None:
    shown = report.kernels[:top]
    if not shown:
        return
    scale = units.scale_for([row.kernel.ns_per_step for row in shown])
    each = units.scale_for([row.kernel.mean_ns for row in shown])
    rows = [
        (
            row.category,
            units.count(row.kernel.count_per_step),
            scale.number(row.kernel.ns_per_step),
            units.share(row.share),
            each.time(row.kernel.mean_ns),
        )
        for row in shown
    ]
    print_heading(console, f"Kernels with the most time ({scale.unit} a step)")
    labels = [" + ".join(names.short(name) for name in row.kernel.names) for row in shown]
    _table_show_terminal(console, "kernel", labels, [("category", "count", scale.unit, "%", "each"), *rows])
    _more(len(report.kernels) - len(shown), console)


def _table_show_terminal(
    console: Console, name: str, labels: Sequence[str], cells: Sequence[tuple[str, ...]]
) -> None:
    """Print a table; on a narrow terminal each name has a line of its own. `cells`: the header, then the rows."""
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    lines = [
        "  ".join(f"{cell:<{w}}" if n == 0 else f"{cell:>{w}}" for n, (cell, w) in enumerate(zip(row, widths, strict=True)))
        for row in cells
    ]  # fmt: skip
    wide = console.width >= _WIDE
    room = max(20, console.width - (4 + len(lines[0]) if wide else 2))
    short = [name, *(shorten(label, room) for label in labels)]
    widest = max(len(label) for label in short)
    for number, (label, line) in enumerate(zip(short, lines, strict=True)):
        text = (
            f"  {label:<{widest}}  {line}" if wide else f"  {label}\n    {line}" if number else f"    {line}"
        )
        console.print(Text(text.rstrip(), "" if number else "dim"), soft_wrap=True)


def _host(report: Show, console: Console, top: int) -> None:
    """Launches and CUDA calls, the GIL, garbage collection, the response path."""
    totals = report.launch.totals
    scale = units.scale_for([totals.api_ns_per_step])
    if report.launch.apis:
        print_heading(console, f"CUDA calls (host {scale.unit} a step)")
        print_line(
            console,
            f"{units.counted(totals.kernels_per_step, 'kernel')} by {units.counted(totals.calls_per_step, 'launching call')}, "
            f"{units.count(totals.graph_launches_per_step)} of graphs; {scale.time(totals.api_ns_per_step)} in them, "
            f"GPU idle for {scale.time(totals.exposed_ns_per_step)} of it and of launch latency",
        )
        apis = report.launch.apis[:top]
        own = units.scale_for([row.ns for row in apis])
        cells = [(row.kind, units.count(row.calls), own.time(row.ns)) for row in apis]
        _table_show_terminal(console, "call", [row.api for row in apis], [("kind", "calls", "time"), *cells])
    if report.gil:
        scale = units.scale_for([max(row.hold_ns, row.wait_ns) for row in report.gil])
        print_heading(console, f"GIL ({scale.unit} a step)")
        shown = report.gil[:top]
        gil = [
            (row.phase, scale.number(row.hold_ns), scale.number(row.wait_ns), scale.number(row.exposed_ns))
            for row in shown
        ]
        _table_show_terminal(
            console, "thread", [row.thread for row in shown], [("phase", "holds", "waits", "exposed"), *gil]
        )
    if report.gc:
        scale = units.scale_for([row.ns for row in report.gc])
        print_heading(console, "Python garbage collection (a step)")
        gc = [
            (row.generation, units.count(row.count), scale.time(row.ns), scale.time(row.exposed_ns))
            for row in report.gc[:top]
        ]
        _table_show_terminal(
            console,
            "thread",
            [row.thread for row in report.gc[:top]],
            [("generation", "pauses", "time", "exposed"), *gc],
        )
    if report.response_path:
        scale = units.scale_for([row.ns for row in report.response_path])
        print_heading(console, f"Response path (host {scale.unit} a step)")
        stages = [
            (row.thread, scale.number(row.ns), "yes" if row.keeps_up else "no")
            for row in report.response_path
        ]
        _table_show_terminal(
            console,
            "stage",
            [row.stage for row in report.response_path],
            [("thread", "time", "keeps up"), *stages],
        )


def _system(system: ShowSystem, console: Console, top: int) -> None:
    """Print which calls host work lay in, the calls of communication, what was allocated."""
    parts = [row for row in system.host_work if row.kind != "rest"][:top]
    if parts:
        scale = units.scale_for([row.ns for row in parts])
        print_heading(console, f"Host work by call ({scale.unit} a step)")
        cells = [(system_words.what(row.kind, row.call), scale.number(row.ns)) for row in parts]
        _table_show_terminal(
            console, "range", [row.range or row.thread for row in parts], [("what", "time"), *cells]
        )
    comm = [
        row for row in system.calls if row.library != "OS"
    ]  # threads that wait are in OS calls all the time
    calls = comm[:top]
    if calls:
        scale = units.scale_for([row.ns for row in calls])
        print_heading(console, "Calls of MPI and NCCL (host, a step)")
        named = [
            (row.library, system_words.comm_side(scale, row.count, row.ns, row.bytes, row.bytes_per_call))
            for row in calls
        ]
        _table_show_terminal(
            console, "call", [f"{row.call}, {row.thread}" for row in calls], [("", "a step"), *named]
        )
    _more(len(comm) - len(calls), console)
    if calls and system_words.no_bytes(comm):
        print_line(console, (system_words.no_bytes(comm), "dim"), hang=3)
    payloads = system.payloads[:top]
    if payloads:
        print_heading(console, "Payloads of NVTX ranges (mean)")
        _table_show_terminal(
            console, "range", [f"{row.range}, {row.thread}" for row in payloads],
            [("value", ""), *((system_words.payload_side(row.payload), "") for row in payloads)],
        )  # fmt: skip
    _more(len(system.payloads) - len(payloads), console)
    if system.memory:
        print_heading(console, "CUDA's memory (a step)")
    for row in system.memory:
        print_line(console, f"{row.kind}: {system_words.of_memory(row.memory)}", hang=3)
    metrics = system.gpu_metrics[:top]
    if metrics:
        print_heading(console, "GPU metrics (means of samples)")
        heads = tuple(system_words.METRIC_PARTS.values())
        _table_show_terminal(
            console, "metric", [f"{row.metric}, {system_words.metric_device(row)}" for row in metrics],
            [heads, *(tuple(system_words.of_metric(row)) for row in metrics)],
        )  # fmt: skip
    _more(len(system.gpu_metrics) - len(metrics), console)


def _ranks(report: Show, console: Console) -> None:
    if len(report.ranks) < 2:
        return
    shown = sorted(report.ranks, key=rank_order)[:RANKS]
    scale = units.scale_for([row.ns for row in shown])

    def number(ns: float | None) -> str:
        return "-" if ns is None else scale.number(ns)

    cells = [
        (
            f"device {row.device}",
            scale.number(row.ns),
            number(row.own_ns),
            "-" if row.last is None else units.share(row.last),
            number(row.comm_wait_ns),
            number(row.comm_transfer_ns),
            number(row.caused_wait_ns),
        )
        for row in shown
    ]
    print_heading(console, f"Ranks ({scale.unit} a step)")
    header = ("", "step", "own time", "last in", "waits for peers", "transfers", "made others wait")
    _table_show_terminal(console, "rank", [f"rank {row.rank}" for row in shown], [header, *cells])
    _more(len(report.ranks) - len(shown), console)


def _benchmark(report: Show, console: Console, top: int) -> None:
    if report.kpi is None:
        return
    print_heading(console, f"Benchmark figures ({report.kpi.source})")
    for row in report.kpi.rows[: 2 * top]:
        print_line(console, f"{row.metric}  {row.value:,.5g} {row.unit}".rstrip())
    _more(len(report.kpi.rows) - 2 * top, console)
