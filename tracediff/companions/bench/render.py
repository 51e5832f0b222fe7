"""The benchmark's own figures on a terminal, beside the trace."""

from __future__ import annotations

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from tracediff.model import Result
from tracediff.report.escape import shorten
from tracediff.report.tables import benchmark_rows
from tracediff.report.terminal import print_heading, print_line

_HEAD = ["", "baseline", "candidate", "delta", "change", "by step"]


def print_benchmark(result: Result, console: Console, top: int) -> None:
    """Print the first `2 * top` figures, each with the share that the step's change explains, and the note on all.

    On a narrow terminal a figure has a line of its own.
    """
    if result.kpi is None:
        return
    print_heading(console, "Benchmark figures")
    rows = benchmark_rows(result)
    table = [_HEAD, *([shorten(text, 40) for text in row] for row in rows[: 2 * top])] if rows else []
    widths = [max(map(cell_len, column)) for column in zip(*table, strict=True)]
    wide = sum(widths) + 2 * len(widths) <= console.width
    for number, (figure, *cells) in enumerate(table):
        numbers = "  ".join(
            " " * (width - cell_len(cell)) + cell for cell, width in zip(cells, widths[1:], strict=True)
        )
        label = (
            figure + " " * (widths[0] - cell_len(figure)) + "  "
            if wide
            else f"{figure}\n    "
            if figure
            else "  "
        )
        console.print(Text(f"  {label}{numbers}".rstrip(), "" if number else "dim"), soft_wrap=True)
    if result.kpi.note:
        print_line(console, result.kpi.note)
    if len(rows) > 2 * top:
        print_line(console, (f"{len(rows) - 2 * top} more in the HTML report and the JSON", "dim"))
