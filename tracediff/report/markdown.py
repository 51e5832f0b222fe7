"""The result as a pull-request comment: verdict first, the rest folded, always within GitHub's limit."""

from __future__ import annotations

from dataclasses import dataclass

from tracediff.model import Finding, GapRow, GapSide, KernelRow, KernelSide, RangeRow, RangeSide, Result
from tracediff.report import names, units, waterfall, words
from tracediff.report.escape import Markdown, markdown_cell, markdown_code, neutral
from tracediff.report.rows import gap_order, kernel_order, range_order
from tracediff.report.templates import markdown_environment

MARKER = "<!-- tracediff -->"  # the first line, by which a bot finds its own comment again
LIMIT = 65_536  # characters of a GitHub comment
_TRUNCATED = "\n\n_Truncated: the comment reached its limit. The HTML report and the JSON hold everything._\n"


@dataclass(frozen=True)
class _Budget:
    """How much a comment shows; each later one is smaller."""

    findings: int
    rows: int  # of each folded table
    width: int  # of a name


def render_markdown(result: Result, top: int = 10) -> str:
    """Return the comment; `top` is how many findings and unfolded kernel rows it shows."""
    result = neutral(result)
    text = ""
    for rows, width in ((200, 160), (50, 160), (20, 120), (10, 80), (5, 60)):
        shown = min(top, 10 * rows)
        text = _render(result, _Budget(min(shown, max(10, rows)), rows, width), min(shown, max(5, rows)))
        if len(text) < LIMIT:
            return text
    return _cut(text)


def _cut(text: str) -> str:
    """Cut at a line, close what is folded and say so; only a result with huge prose comes here."""
    kept = text[: LIMIT - len(_TRUNCATED) - 200]
    kept = kept[: kept.rfind("\n")]
    kept += "\n\n</details>" * (kept.count("\n<details>") - kept.count("\n</details>"))
    return kept + _TRUNCATED


def _render(result: Result, budget: _Budget, top: int) -> str:
    figure = waterfall.build(result)
    kernels = sorted(result.kernels, key=kernel_order)
    ranges = sorted(result.ranges, key=range_order)
    gaps = sorted(result.gaps, key=gap_order)
    template = markdown_environment().get_template("comment.md.j2")
    return template.render(
        r=result,
        marker=Markdown(MARKER),
        verdict=words.VERDICTS[result.verdict],
        head=words.headline(result),
        mix=words.mix_note(result),
        figure=waterfall.text_figure(figure),
        unchanged=", ".join(bar.label for bar in figure.unchanged),
        noisy=any(bar.level == "within_noise" for bar in figure.shown),
        findings=_findings(result.findings[: budget.findings]),
        findings_left=len(result.findings) - budget.findings,
        kernels=_kernels(kernels, budget.width),
        ranges=_ranges(ranges[: budget.rows], budget.width),
        gaps=_gaps(gaps[: budget.rows], budget.width),
        top=top,
        rows=budget.rows,
        problems=words.problems(result)[: budget.rows],
        missing=[text for kind in words.KINDS if (text := words.missing(result, kind))],
        units=units,
        words=words,
        code=lambda value: markdown_code(value, budget.width),
        cell=lambda value: markdown_cell(value, budget.width),
    )


def _findings(findings: list[Finding]) -> list[dict[str, object]]:
    scale = words.finding_scale(findings)
    rows: list[dict[str, object]] = []
    for finding in findings:
        delta = units.delta(scale, finding.delta_ns, finding.baseline_ns, finding.level)
        noise = finding.level == "within_noise"
        facts = [f"{scale.time(finding.baseline_ns)} → {scale.time(finding.candidate_ns)}"]
        if finding.share is not None:
            facts.append(f"{units.share(finding.share)} of the change")
        rows.append(
            {
                "finding": finding,
                "delta": str(delta) if noise else f"{delta.signed} {scale.unit} {delta.word}",
                "level": "" if noise else words.LEVELS[finding.level][0],
                "facts": facts,
                "place": words.place(finding.where),
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


_Side = KernelSide | RangeSide | GapSide | None


def _sides(
    before: _Side, after: _Side, delta_ns: float, scale: units.Scale, delta: units.Delta
) -> list[Markdown]:
    counts = [units.count(side.count_per_step) if side else "0" for side in (before, after)]
    times = [scale.number(side.ns_per_step) if side else "-" for side in (before, after)]
    count = counts[0] if counts[0] == counts[1] else " → ".join(counts)
    return [_number(text) for text in (count, *times, delta.signed, delta.percent)]


def _table_scale(rows: list[KernelRow] | list[RangeRow] | list[GapRow]) -> units.Scale:
    sides = [side for row in rows for side in (row.baseline, row.candidate) if side]
    return units.scale_for([side.ns_per_step for side in sides] + [row.delta_ns for row in rows])


def _kernels(rows: list[KernelRow], width: int) -> _Table:
    scale = _table_scale(rows)
    out = []
    for row in rows:
        base = row.baseline.ns_per_step if row.baseline else 0.0
        delta = units.delta(scale, row.delta_ns, base, row.level)
        match = (
            row.match if row.match in ("exact", "added", "removed") else f"{row.match} {row.confidence:.2f}"
        )
        name = names.kernel(row, width=width)
        cells = [markdown_cell(name, width), _number(match)]
        out.append(cells + _sides(row.baseline, row.candidate, row.delta_ns, scale, delta))
    return _Table(scale.unit, out)


def _ranges(rows: list[RangeRow], width: int) -> _Table:
    scale = _table_scale(rows)
    out = []
    for row in rows:
        delta = units.delta(scale, row.delta_ns, row.baseline.ns_per_step if row.baseline else 0.0)
        cells = [markdown_cell(row.range, width), markdown_cell(row.thread, width)]
        out.append(cells + _sides(row.baseline, row.candidate, row.delta_ns, scale, delta))
    return _Table(scale.unit, out)


def _gaps(rows: list[GapRow], width: int) -> _Table:
    scale = _table_scale(rows)
    out = []
    for row in rows:
        delta = units.delta(scale, row.delta_ns, row.baseline.ns_per_step if row.baseline else 0.0)
        around = f"{names.short(row.previous)} → {names.short(row.next)}"
        cells = [markdown_cell(words.cause(row.cause)), markdown_cell(row.range or row.thread or "-", width)]
        cells.append(markdown_cell(around, width))
        out.append(cells + _sides(row.baseline, row.candidate, row.delta_ns, scale, delta))
    return _Table(scale.unit, out)
