"""`tracediff latencies`: measurements without a profiler, compared by the statistics of the traces."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracediff.cli.latency_options import LatencyOptions, compare_sides, reading_options
from tracediff.cli.outputs import latency_output_options, print_guarded
from tracediff.cli.reading import complete_files
from tracediff.load.labels import own_label

if TYPE_CHECKING:
    from rich.console import Console

    from tracediff.model.latencies import LatencyReport


@click.command(
    epilog="""
\b
Examples:
  tracediff latencies before.csv after.csv --html latencies.html
  tracediff latencies runs/main runs/pr --unit ms --md comment.md
  tracediff latencies before.json after.json --column test_decode     (pytest-benchmark with several)
  tracediff compare main.sqlite pr.sqlite --latencies-baseline runs/main --latencies-candidate runs/pr

\b
Exit status: 0 done, 1 error, 2 usage.
"""
)
@click.argument("baseline", shell_complete=complete_files)
@click.argument("candidate", shell_complete=complete_files)
@reading_options
@latency_output_options
def latencies(
    baseline: str,
    candidate: str,
    column: str | None,
    unit: str | None,
    warmup: str,
    outputs: dict[str, Path],
    overwrite: bool,
    quiet: bool,
) -> None:
    """Compare latencies that were measured without a profiler: mean, median, p90, p99, and whether to believe them.

    Each side is a file (one run) or a folder with a file a run: CSV, JSON, JSON lines, a number a line, or what
    pytest-benchmark, hyperfine, vLLM and TensorRT-LLM write. With repeats a change can be confirmed; with one run a side it is likely
    at best. label=PATH names a side.
    """
    import tracediff
    from tracediff.model import Tool
    from tracediff.model.latencies import LatencyReport
    from tracediff.report.write import check_outputs

    check_outputs(outputs.values(), overwrite)
    (one, before), (other, after) = _named(baseline), _named(candidate)
    options = LatencyOptions(column, unit, warmup, (before,), (after,))
    found = compare_sides(options, (one, other))
    report = LatencyReport(tool=Tool("tracediff", tracediff.__version__), latencies=found)
    write_latencies(report, outputs, overwrite=overwrite, quiet=quiet)


def _named(word: str) -> tuple[str, Path]:
    """The label of a side, the path's name where none is given, and the path."""
    label, rest = own_label(word)
    path = Path(rest)
    return label or (path.name if path.name not in ("", "..") else path.resolve().name), path


def write_latencies(report: LatencyReport, outputs: dict[str, Path], *, overwrite: bool, quiet: bool) -> None:
    """Render everything first, then write and print."""
    from tracediff.report.latencies_terminal import render_latencies_terminal
    from tracediff.report.write import write_atomically

    rendered = {path: _render(name, report) for name, path in outputs.items()}
    for path, data in rendered.items():
        write_atomically(path, data, overwrite)

    def show(console: Console) -> None:
        render_latencies_terminal(report, console)

    if not quiet:
        print_guarded(show)
    for name, path in outputs.items():
        click.echo(f"wrote {path} ({name})", err=True)


def _render(name: str, report: LatencyReport) -> bytes:
    if name == "html":
        from tracediff.report.latencies_html import render_latencies_html

        return render_latencies_html(report).encode()
    if name == "md":
        from tracediff.report.latencies_markdown import render_latencies_markdown

        return render_latencies_markdown(report).encode()
    from tracediff.model.latencies import encode

    return encode(report)
