"""The result as a pull-request comment: verdict first, the rest folded, always within GitHub's limit."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from tracediff.model import Finding, GapRow, KernelRow, RangeRow, Result
from tracediff.report import names, rank_words, sections, system_words, units, waterfall, words
from tracediff.report.escape import Markdown, markdown_cell, markdown_code, markdown_prose, neutral
from tracediff.report.left_out import left_out
from tracediff.report.tables import gap_order, kernel_order, range_order
from tracediff.report.templates import markdown_environment

LIMIT = 65_536  # characters of a GitHub comment
_TRUNCATED = "\n\n_Truncated: the comment reached its limit. The HTML report and the JSON hold everything._\n"
_SMALL = 0.001  # of a step: idle gaps and ranges that changed less are counted, not listed
_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")


@dataclass(frozen=True)
class _Budget:
    """How much a comment shows; each later one is smaller."""

    findings: int
    rows: int  # of each folded table
    width: int  # of a name


def marker(key: str = "") -> str:
    """Return the first line of a comment, by which a bot finds its own again; a key keeps several apart.

    Raises `ValueError` for a key that is more than letters, digits, dots, dashes and underscores.
    """
    if key and not _KEY.match(key):
        raise ValueError(key)
    return f"<!-- tracediff:{key} -->" if key else "<!-- tracediff -->"


MARKER = marker()


def length(text: str) -> int:
    """Count as GitHub may at worst: a character beyond the basic plane as two."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def render_markdown(result: Result, top: int = 10, key: str = "", link: str = "") -> str:
    """Return the comment; `top` is how many findings and unfolded kernel rows it shows.

    `link` is the address of the HTML report, already checked by `report_link`.
    """
    result = neutral(result)
    text = ""
    for rows, width in ((100, 160), (50, 160), (20, 120), (10, 80), (5, 60)):
        shown = min(top, 10 * rows)
        budget = _Budget(min(shown, max(10, rows)), rows, width)
        text = _render(result, budget, min(shown, max(5, rows)), marker(key), link)
        if length(text) < LIMIT:
            return text
    return cut_to_limit(text)


def report_link(address: str) -> str:
    """Return the address where it is one that a comment may link to. Raises `ValueError`."""
    if not re.fullmatch(r"https?://[^\s<>()\[\]\\`\"']{1,2000}", address) or not address.isascii():
        raise ValueError(address)
    return address


def cut_to_limit(text: str) -> str:
    """Cut at a line, close what is folded and say so; only a result with huge prose comes here."""
    shown = text
    while length(shown) > LIMIT - len(_TRUNCATED) - 200:
        shown = shown[: min(len(shown) - 1, LIMIT - len(_TRUNCATED) - 200) * 9 // 10]
    shown = shown[: shown.rfind("\n")]
    shown += "\n\n</details>" * (shown.count("\n<details>") - shown.count("\n</details>"))
    return shown + _TRUNCATED


def _render(result: Result, budget: _Budget, top: int, first: str, link: str) -> str:
    figure = waterfall.build(result)
    gates = result.gates.outcomes if result.gates else []
    sure = [finding for finding in result.findings if finding.level != "within_noise"]
    more = sure[budget.findings :] + [f for f in result.findings if f.level == "within_noise"]
    scale = words.finding_scale(result.findings)
    small = _SMALL * result.step.baseline_ns
    gaps, small_gaps = _worth(sorted(result.gaps, key=gap_order), small)
    ranges, small_ranges = _worth(sorted(result.ranges, key=range_order), small)
    kernels = sorted(result.kernels, key=kernel_order)
    changed = [row for row in kernels if row.level != "within_noise"]
    others = changed[top:] + [row for row in kernels if row.level == "within_noise"]
    template = markdown_environment().get_template("comment.md.j2")
    return template.render(
        r=result,
        marker=Markdown(first),
        link=Markdown(f"[HTML report]({link})") if link else "",
        verdict=words.VERDICTS[result.verdict],
        head=words.headline(result),
        mix=words.mix_note(result),
        left_out=left_out(result),
        gates=gates[:50],
        gates_left=max(0, len(gates) - 50),
        figure=waterfall.text_figure(figure),
        unchanged=", ".join(bar.label for bar in figure.unchanged),
        noisy=any(bar.level == "within_noise" for bar in figure.shown),
        sure=_findings(sure[: budget.findings], scale),
        more=_findings(more[: budget.rows], scale),
        more_left=max(0, len(more) - budget.rows),
        kernels=_kernels(changed[:top], budget.width),
        kernels_noise=_kernels(others[: budget.rows], budget.width),
        kernels_sure=len(changed) > top,
        kernels_left=max(0, len(others) - budget.rows),
        compute=words.category_of_both(result, "compute", "→"),
        ranges=_ranges(ranges[: budget.rows], budget.width),
        ranges_left=max(0, len(ranges) - budget.rows),
        gaps=_gaps(gaps[: budget.rows], budget.width),
        gaps_left=max(0, len(gaps) - budget.rows),
        hidden=_hidden(small_gaps, small_ranges, small),
        phases=[phase for phase in result.phases if phase.baseline or phase.candidate][: budget.rows],
        top=top,
        rows=budget.rows,
        problems=[f"{status}: {text}" for status, text in words.problems(result)[: budget.rows]],
        missing=[text for kind in words.KINDS if (text := words.missing(result, kind))]
        + system_words.missing(result),
        system_words=system_words,
        units=units,
        words=words,
        kpi_rows=_kpi(result, budget.rows),
        **sections.context(result),
        rank_rows=rank_words.ordered(result.ranks),
        rank_outliers=rank_words.outliers(result),
        line=lambda cells: Markdown(f"| {' | '.join(cells)} |"),
        code=lambda value: markdown_code(value, budget.width),
        cell=lambda value: markdown_cell(value, budget.width),
    )


_Row = TypeVar("_Row", KernelRow, GapRow, RangeRow)


def _worth(rows: list[_Row], least_ns: float) -> tuple[list[_Row], int]:
    """The rows that changed by at least so much, and how many did not."""
    large = [row for row in rows if abs(row.delta_ns) >= least_ns]
    return large, len(rows) - len(large)


def _hidden(gaps: int, ranges: int, small_ns: float) -> list[str]:
    least = units.scale_for([small_ns]).time(small_ns)
    parts = [(gaps, "idle gaps"), (ranges, "NVTX ranges")]
    return [
        f"{count} {what} that changed by less than {least} a step (0.1 %)" for count, what in parts if count
    ]


def _kpi(result: Result, most: int) -> list[list[Markdown]]:
    """Write a benchmark's figures; those that the step time explains come first."""
    rows = sections.renderer(result.kpi).rows(result.kpi)[:most] if result.kpi else []
    return [[markdown_prose(text, 200) for text in texts] for texts in rows]


def _findings(findings: list[Finding], scale: units.Scale) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for finding in findings:
        delta = units.delta(scale, finding.delta_ns, finding.baseline_ns, finding.level)
        noise = finding.level == "within_noise"
        facts = [words.both_sides(finding, scale, "→")]
        if finding.share is not None:
            facts.append(f"{units.share(finding.share)} of the step's change")
        rows.append(
            {
                "finding": finding,
                "signed": f"{delta.signed} {scale.unit}",
                "delta": str(delta) if noise else f"{delta.signed} {scale.unit} {delta.word}",
                "level": "" if noise else words.LEVELS[finding.level][0],
                "facts": facts,
                "place": [
                    (name, value) for name, value in words.place(finding.where) if value not in finding.title
                ],
            }
        )
    return rows


@dataclass(frozen=True)
class _Table:
    """Rows of cells that are Markdown already, and the unit of their times."""

    unit: str
    rows: list[list[Markdown]]


def _number(text: str) -> Markdown:
    """Write a figure: only digits, signs and units, which cannot start any markup inside a cell."""
    return Markdown(text.replace("<", "\\<").replace("~", "\\~"))


def _table(rows: list[_Row], cells: Callable[[_Row], list[Markdown]]) -> _Table:
    """The cells that name each row, then counts, times and the change on one scale."""
    both = [side for row in rows for side in (row.baseline, row.candidate) if side]
    scale = units.scale_for([side.ns_per_step for side in both] + [row.delta_ns for row in rows])
    out = []
    for row in rows:
        sides = (row.baseline, row.candidate)
        counts = [units.count(side.count_per_step) if side else "0" for side in sides]
        count = counts[0] if counts[0] == counts[1] else " → ".join(counts)
        times: list[str] = [scale.number(side.ns_per_step) if side else "-" for side in sides]
        base = row.baseline.ns_per_step if row.baseline else 0.0
        level = row.level if isinstance(row, KernelRow) else None
        delta = units.delta(scale, row.delta_ns, base, level)
        out.append(cells(row) + [_number(text) for text in (count, *times, delta.signed, delta.percent)])
    return _Table(scale.unit, out)


def _kernels(rows: list[KernelRow], width: int) -> _Table:
    def cells(row: KernelRow) -> list[Markdown]:
        sure = row.match in ("exact", "added", "removed")
        match = row.match if sure else f"{row.match} {row.confidence:.2f}"
        return [markdown_cell(names.kernel(row, width=width), width), _number(match)]

    return _table(rows, cells)


def _ranges(rows: list[RangeRow], width: int) -> _Table:
    return _table(rows, lambda row: [markdown_cell(row.range, width), markdown_cell(row.thread, width)])


def _gaps(rows: list[GapRow], width: int) -> _Table:
    def cells(row: GapRow) -> list[Markdown]:
        around = f"{names.short(row.previous)} → {names.short(row.next)}"
        place = markdown_cell(row.range or row.thread or "-", width)
        return [markdown_cell(words.cause(row.cause)), place, markdown_cell(around, width)]

    return _table(rows, cells)
