"""`tracediff ncu`: kernels compared by their hardware counters."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracediff.cli.outputs import ncu_output_options, write_alone
from tracediff.cli.reading import complete_files

if TYPE_CHECKING:
    from rich.console import Console

    from tracediff.model.ncu import NcuReport


@click.command(
    epilog="""
\b
Examples:
  tracediff ncu before.ncu-rep after.ncu-rep
  tracediff ncu before.csv after.csv --html kernels.html --md kernels.md
  tracediff compare main.sqlite pr.sqlite --ncu-baseline main.ncu-rep --ncu-candidate pr.ncu-rep

\b
A file is a report (.ncu-rep, with the package of `pip install 'tracediff-gpu[ncu]'`), or its CSV:
  ncu --import FILE.ncu-rep --csv --page raw > FILE.csv

\b
Exit status: 0 done, 1 error, 2 usage.
"""
)
@click.argument("baseline", shell_complete=complete_files)
@click.argument("candidate", shell_complete=complete_files)
@ncu_output_options
def ncu(
    baseline: str, candidate: str, outputs: dict[str, Path], overwrite: bool, top: int, quiet: bool
) -> None:
    """Compare two profiles of Nsight Compute: which kernels got faster or slower, and by which rule why.

    Duration, throughput, occupancy and what limits it, stalls, traffic, instructions; what was not collected is said,
    with the option of ncu that collects it. label=FILE names a side.
    """
    import tracediff
    from tracediff.load.ncu import read_named
    from tracediff.measure.ncu import compare_ncu
    from tracediff.model import Tool
    from tracediff.model.ncu import NcuReport
    from tracediff.report.write import check_outputs

    check_outputs(outputs.values(), overwrite)
    found = compare_ncu(read_named(baseline), read_named(candidate))
    report = NcuReport(tool=Tool("tracediff", tracediff.__version__), ncu=found)
    write_ncu(report, outputs, overwrite=overwrite, top=top, quiet=quiet)


def write_ncu(report: NcuReport, outputs: dict[str, Path], *, overwrite: bool, top: int, quiet: bool) -> None:
    """Render everything first, then write and print."""
    from tracediff.report.ncu_terminal import render_ncu_terminal

    def show(console: Console) -> None:
        render_ncu_terminal(report, console, top=top)

    rendered = {name: _render(name, report, top) for name in outputs}
    write_alone(rendered, outputs, show, overwrite=overwrite, quiet=quiet)


def _render(name: str, report: NcuReport, top: int) -> bytes:
    if name == "html":
        from tracediff.report.ncu_html import render_ncu_html

        return render_ncu_html(report).encode()
    if name == "md":
        from tracediff.report.ncu_markdown import render_ncu_markdown

        return render_ncu_markdown(report, top=top).encode()
    from tracediff.model.ncu import encode

    return encode(report)
