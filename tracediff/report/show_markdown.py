"""The report of one capture as Markdown: the step and what is in it first, the rest folded, within a comment's limit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tracediff.model.show import Show
from tracediff.report import names, show_words, system_words, units, words
from tracediff.report.escape import Markdown, markdown_cell, markdown_code, markdown_prose, neutral
from tracediff.report.markdown import LIMIT, cut_to_limit, length
from tracediff.report.rows import rank_order
from tracediff.report.templates import markdown_environment
from tracediff.report.timelines import workload_name


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
