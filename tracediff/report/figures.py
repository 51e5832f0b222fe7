"""Small figures as data: stacked categories, step times of every run, values of a finding in every run.

Positions are in the units of the figure's own viewBox; the templates draw them.
"""

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import polars as pl
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from tracediff.model import Phase, Result
from tracediff.report import palette, tables, units
from tracediff.report.escape import markdown_cell, markdown_prose, shorten, visible
from tracediff.report.waterfall import nice_ticks

_MOST_DOTS = 240  # of one run in one figure
_MOST_RUNS = 40  # rows of one figure
_LEAST_FOR_A_BOX = 8  # values of a run
_LOG_FROM = 12  # a range wider than this factor gets a logarithmic axis


@dataclass(frozen=True)
class Segment:
    """One category of a stacked bar."""

    category: palette.Category
    ns: float
    start: float  # share of the longer bar, 0 to 1
    width: float


@dataclass(frozen=True)
class Stack:
    """One side's categories end to end."""

    side: str
    total_ns: float
    segments: list[Segment]


def stacks(result: Result) -> list[Stack]:
    """Lay both sides' categories end to end on one scale."""
    sides = [("baseline", result.accounting.baseline), ("candidate", result.accounting.candidate)]
    longest = max([math.fsum(values.values()) for _, values in sides] + [1.0])
    out = []
    for side, values in sides:
        at, segments = 0.0, []
        for key in palette.order(set(values)):
            if values.get(key, 0.0) > 0:
                width = values[key] / longest
                segments.append(Segment(palette.category(key), values[key], at, width))
                at += width
        out.append(Stack(side, math.fsum(values.values()), segments))
    return out


@dataclass(frozen=True)
class Axis:
    """A mapping of times to positions, with its ticks as (position, text)."""

    low: float
    high: float
    left: float
    width: float
    log: bool
    ticks: list[tuple[float, str]]
    unit: str  # as typography has it

    def x(self, ns: float) -> float:
        """Return the position of a time."""
        return round(self.left + self.width * _place(ns, self.low, self.high, self.log), 2)


def _place(ns: float, low: float, high: float, log: bool) -> float:
    if high <= low:
        return 0.5
    if log:
        return math.log(max(ns, low) / low) / math.log(high / low)
    return (ns - low) / (high - low)


def axis(values: Sequence[float], left: float, width: float) -> Axis:
    """Choose an axis that holds all values: logarithmic where they spread over more than a decade."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    log = low > 0 and high / low > _LOG_FROM
    if log:
        low, high = low / 1.1, high * 1.1
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        marks = [factor * 10.0**power for power in powers for factor in (1, 2, 5)]
        if high / low > 1_000:
            marks = [10.0**power for power in powers]
    else:
        room = 0.04 * (high - low) or 0.05 * abs(high) or 1.0
        low, high = low - room, high + room
        marks = nice_ticks(low, high)
    scale = units.scale_for(values)
    empty = Axis(low, high, left, width, log, [], units.symbol(scale))
    ticks = [(empty.x(mark), f"{mark / scale.factor:,.6g}") for mark in marks if low <= mark <= high]
    return Axis(low, high, left, width, log, ticks, units.symbol(scale))


@dataclass(frozen=True)
class StripRow:
    """One run's values."""

    side: str
    label: str
    y: float
    mean: float | None
    dots: list[tuple[float, float]]
    box: tuple[float, float] | None = None  # middle half of the values: where it begins, and its width


@dataclass(frozen=True)
class Strip:
    """All runs' values on one axis."""

    axis: Axis
    rows: list[StripRow]
    height: float
    left_out: int


def phase_strip(result: Result, phase: Phase, width: float = 900.0) -> Strip | None:
    """Plot the step times of a phase: a line of dots a run, with its mean; None where there is nothing."""
    groups: list[tuple[str, str, float, list[int]]] = []
    for side, values in (("baseline", phase.baseline), ("candidate", phase.candidate)):
        for run, mean in enumerate(values.run_means_ns if values else ()):
            periods = [
                sample.period_ns
                for sample in result.samples
                if sample.side == side and sample.run == run and sample.phase == phase.phase
            ]
            groups.append((side, _run_label(result, side, run), mean, periods))
    return strip_of(groups, width)


def strip_of(groups: list[tuple[str, str, float, list[int]]], width: float = 900.0) -> Strip | None:
    """Plot runs of step times: side, label, mean and the steps of each, ns."""
    left, row_height, top = 150.0, 15.0, 4.0
    if not groups:
        return None
    shown = groups[:_MOST_RUNS]
    left_out = sum(len(periods) for *_, periods in groups[_MOST_RUNS:])
    everything = [mean for _, _, mean, _ in shown] + [float(p) for *_, periods in shown for p in periods]
    scale = axis(everything, left, width - left - 12)
    rows, y, last = [], top, ""
    for side, label, mean, periods in shown:
        y += 6.0 if last and last != side else 0.0
        stride = max(1, math.ceil(len(periods) / _MOST_DOTS))
        left_out += len(periods) - len(periods[::stride])
        middle = y + row_height / 2
        spread = 0.75 if len(periods) > 8 else 0.0
        dots = [
            (scale.x(period), round(middle + ((number * 7) % 11 - 5) * spread, 2))
            for number, period in enumerate(periods[::stride])
        ]
        rows.append(StripRow(side, label, middle, scale.x(mean), dots, _box(scale, periods)))
        y, last = y + row_height, side
    return Strip(scale, rows, y + 22.0, left_out)


def _box(scale: Axis, values: Sequence[float]) -> tuple[float, float] | None:
    if len(values) < _LEAST_FOR_A_BOX:
        return None
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return scale.x(low), round(scale.x(high) - scale.x(low), 2)


def _run_label(result: Result, side: str, run: int) -> str:
    runs = (result.inputs.baseline if side == "baseline" else result.inputs.candidate).runs
    return runs[run].name if run < len(runs) else f"run {run + 1}"


def run_strip(before: Sequence[float], after: Sequence[float], width: float = 340.0) -> Strip | None:
    """Plot one value a run: baseline above, candidate below; None where there is nothing."""
    if not before and not after:
        return None
    scale = axis([*before, *after], 62.0, width - 74.0)
    rows = [
        StripRow(side, side, y, None, [(scale.x(value), y) for value in values])
        for side, values, y in (("baseline", before, 9.0), ("candidate", after, 25.0))
    ]
    return Strip(scale, rows, 50.0, 0)


# The GIL matrix: who waits for whom, summed over the holder's ranges.

_MOST = 8  # threads a way: those with the most time
_DARKEST = 0.55  # share of the colour where the wait is the longest; the figures stay readable on it


@dataclass(frozen=True)
class Cell:
    """One waiting and one holding thread, ns a step; None: that side did not capture it."""

    baseline: float | None
    candidate: float | None
    heat: float


@dataclass(frozen=True)
class Grid:
    """Waiting threads down, holding threads across."""

    waiters: list[str]
    holders: list[str]
    rows: list[tuple[str, list[Cell | None]]]
    scale: units.Scale


def gil_grid(result: Result) -> Grid:
    """Sum the pairs of the result by thread; the longest first."""
    rows = result.gil.matrix
    return grid_of([(row.waiter, row.holder, row.baseline_ns, row.candidate_ns) for row in rows])


def grid_of(pairs: Iterable[tuple[str, str, float | None, float | None]]) -> Grid:
    """Sum waiter, holder, ns of the baseline (or of the one side that there is), ns of the candidate."""
    sums: dict[tuple[str, str], list[float | None]] = {}
    for waiter, holder, *times in pairs:
        cell = sums.setdefault((waiter, holder), [None, None])
        for side, value in enumerate(times):
            if value is not None:
                cell[side] = (cell[side] or 0.0) + value
    size = {pair: max(value or 0.0 for value in cell) for pair, cell in sums.items()}
    waiters = _largest({pair[0] for pair in sums}, size, 0)
    holders = _largest({pair[1] for pair in sums}, size, 1)
    longest = max(size.values(), default=0.0) or 1.0
    rows: list[tuple[str, list[Cell | None]]] = []
    for waiter in waiters:
        cells: list[Cell | None] = []
        for holder in holders:
            pair = (waiter, holder)
            if pair not in sums:
                cells.append(None)
                continue
            baseline, candidate = sums[pair]
            cells.append(Cell(baseline, candidate, _DARKEST * size[pair] / longest))
        rows.append((waiter, cells))
    return Grid(waiters, holders, rows, units.scale_for(size.values()))


def _largest(names: set[str], size: dict[tuple[str, str], float], part: int) -> list[str]:
    total = {name: sum(ns for pair, ns in size.items() if pair[part] == name) for name in names}
    return sorted(names, key=lambda name: (-total[name], name))[:_MOST]


# Rows of any query as text, CSV, JSON or Markdown; Parquet is that of the other tables.

LONGEST = 80  # of a text
_NARROW = 24  # to which texts are shortened before rows are given lines of their own
_NULL = "NULL"
# What json.dumps leaves as it is and nobody sees.
_UNSEEN = re.compile("[\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")


def print_grid(
    frame: pl.DataFrame, console: Console, *, width: int | None, longest: int | None = LONGEST
) -> None:
    """Print rows in aligned columns, or one value a line where they do not fit into `width` columns.

    Texts are cut in their middle to `longest` columns, None: not at all; numbers never are. `width` None: any.
    """
    heads = [visible(name) for name in frame.columns]
    numeric = [kind.is_numeric() for kind in frame.dtypes]
    rows = list(zip(*(_cells(column) for column in frame.iter_columns()), strict=True))
    for limit in dict.fromkeys((longest, min(longest or _NARROW, _NARROW))):
        shown = [
            [_short(cell, limit, is_number) for cell, is_number in zip(row, numeric, strict=True)]
            for row in rows
        ]
        widths = [max(map(cell_len, column)) for column in zip(heads, *shown, strict=True)]
        if width is None or sum(widths) + 2 * (len(widths) - 1) <= width:
            _columns(heads, shown, widths, numeric, console)
            return
        if longest is None:
            break
    _records(heads, [[_short(cell, longest, False) for cell in row] for row in rows], console)


def _columns(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    widths: Sequence[int],
    numeric: Sequence[bool],
    console: Console,
) -> None:
    def line(cells: Sequence[str], style: str) -> None:
        text = Text()
        for number, (cell, width, right) in enumerate(zip(cells, widths, numeric, strict=True)):
            space = " " * (width - cell_len(cell))
            text.append("  " if number else "")
            text.append(
                space + cell if right else cell + space, "dim" if cell == _NULL and not style else style
            )
        text.rstrip()
        console.print(text, soft_wrap=True)

    line(heads, "bold")
    console.print(Text("  ".join("-" * width for width in widths), style="dim"), soft_wrap=True)
    for row in rows:
        line(row, "")


def _records(heads: Sequence[str], rows: Sequence[Sequence[str]], console: Console) -> None:
    width = max(map(cell_len, heads), default=0)
    for number, row in enumerate(rows, 1):
        console.print(Text(f"row {number}", style="dim"), soft_wrap=True)
        for head, cell in zip(heads, row, strict=True):
            name = (f"  {head}{' ' * (width - cell_len(head))}  ", "bold")
            console.print(Text.assemble(name, (cell, "dim" if cell == _NULL else "")), soft_wrap=True)


def _cell(value: Any) -> str:
    if value is None:
        return _NULL
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list | dict):
        return visible(json.dumps(_plain(value), ensure_ascii=False))
    return visible(str(value))


def _cells(column: pl.Series) -> list[str]:
    """The cells of a column, numbers with as many decimals as the column needs."""
    values = column.to_list()
    if column.dtype.is_float() and all(
        one is None or (one.is_integer() and abs(one) < 1e15) for one in values
    ):
        return [_NULL if one is None else f"{one:.0f}" for one in values]
    return [_cell(one) for one in values]


def _float(value: float) -> str:
    """Enough digits to tell what matters; CSV and JSON have them all."""
    return f"{value:.3f}" if 100 <= abs(value) < 1e15 else f"{value:.6g}"


def _short(cell: str, longest: int | None, is_number: bool) -> str:
    return cell if is_number or longest is None or cell_len(cell) <= longest else shorten(cell, longest)


def csv(frame: pl.DataFrame) -> bytes:
    """Return rows as CSV: control characters by their escapes, and nothing a spreadsheet would take for a formula."""
    return tables.csv(_flat(frame))


def json_rows(frame: pl.DataFrame) -> bytes:
    """Return rows as a JSON array of objects, one a line; what JSON has no number for is null."""
    lines = [
        json.dumps(_plain(row), ensure_ascii=False, separators=(", ", ": "))
        for row in frame.iter_rows(named=True)
    ]
    text = "[\n" + ",\n".join(lines) + "\n]\n" if lines else "[]\n"
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode()


def markdown(frame: pl.DataFrame, note: str = "") -> bytes:
    """Return rows as a table of Markdown, texts as code; `note` follows it."""
    numeric = [kind.is_numeric() for kind in frame.dtypes]
    lines = [
        "| " + " | ".join(markdown_prose(name) for name in frame.columns) + " |",
        "|" + "|".join("-:" if is_number else "-" for is_number in numeric) + "|",
    ]
    for row in frame.iter_rows():
        cells = [
            ""
            if value is None
            else _cell(value)
            if isinstance(value, int | float)
            else markdown_cell(_cell(value))
            for value in row
        ]
        lines.append("| " + " | ".join(cells) + " |")
    if note:
        lines += ["", markdown_prose(note)]
    return ("\n".join(lines) + "\n").encode()


def parquet(frame: pl.DataFrame) -> bytes:
    """Return rows as Parquet: types and texts as they are."""
    return tables.parquet(frame)


def _flat(frame: pl.DataFrame) -> pl.DataFrame:
    """Texts and nested values as visible text; numbers, times and booleans as they are."""
    columns = []
    for column in frame.iter_columns():
        plain = (
            column.dtype.is_numeric() or column.dtype.is_temporal() or column.dtype in (pl.Boolean, pl.Null)
        )
        if plain:
            columns.append(column)
            continue
        words = [None if value is None else _cell(value) for value in column.to_list()]
        columns.append(pl.Series(column.name, words, dtype=pl.String))
    flat = pl.DataFrame(columns)
    return flat.rename({name: visible(name) for name in flat.columns})


def _plain(value: Any) -> Any:
    """What JSON can hold."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, bytes):
        return value.hex()
    return value if value is None or isinstance(value, bool | int | str) else str(value)
