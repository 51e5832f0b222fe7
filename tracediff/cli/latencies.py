"""`tracediff latencies`: measurements without a profiler, compared by the statistics of the traces."""

from __future__ import annotations

from pathlib import Path

import click

from tracediff.cli.options import takes
from tracediff.cli.outputs import BY_NAME, Output, check, not_of, write_outputs
from tracediff.formats.selection import own_label
from tracediff.request import LatenciesRequest


@click.command(
    epilog="""
\b
Examples:
  tracediff latencies before.csv after.csv --html latencies.html
  tracediff latencies runs/main runs/pr --unit ms --md comment.md
  tracediff latencies before.json after.json --column test_decode     (pytest-benchmark with several)
  tracediff compare main.sqlite pr.sqlite --with baseline=runs/main --with candidate=runs/pr

\b
Exit status: 0 done, 1 error, 2 usage.
"""
)
@takes(request=LatenciesRequest, output=Output, omit=not_of("latencies"))
def latencies(request: LatenciesRequest, output: Output) -> None:
    """Compare latencies that were measured without a profiler: mean, median, p90, p99, and whether to believe them.

    Each side is a file (one run) or a folder with a file per run: CSV, JSON, a number a line, also what
    pytest-benchmark and hyperfine write. With repeats a change can be confirmed; with one run per side it is likely
    at best. label=PATH names a side.
    """
    import tracediff
    from tracediff.companions.latencies.compare import compare_files
    from tracediff.companions.model import LatencyReport
    from tracediff.model import Tool

    check(output, BY_NAME["latencies"])
    (one, before), (other, after) = _named(request.baseline), _named(request.candidate)
    found = compare_files(request.options((before,), (after,)), (one, other))
    report = LatencyReport(tool=Tool("tracediff", tracediff.__version__), latencies=found)
    write_outputs(report, output)


def _named(word: str) -> tuple[str, Path]:
    """The label of a side, the path's name where none is given, and the path."""
    label, rest = own_label(word)
    path = Path(rest)
    return label or (path.name if path.name not in ("", "..") else path.resolve().name), path
