"""`tracediff trtexec`: two TensorRT engines compared by what trtexec measured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracediff.cli.outputs import trtexec_output_options, write_alone
from tracediff.cli.reading import complete_files

if TYPE_CHECKING:
    from rich.console import Console

    from tracediff.model.trtexec import TrtexecReport


@click.command(
    epilog="""
\b
Examples:
  tracediff trtexec runs/fp32 runs/fp16 --html engines.html
  tracediff trtexec before.log,before_profile.json after.log,after_profile.json
  tracediff compare main.sqlite pr.sqlite --trtexec-baseline runs/main --trtexec-candidate runs/pr

\b
Record a side, in a folder of its own (docs/trtexec.md):
  trtexec --loadEngine=E --exportTimes=times.json --exportProfile=profile.json
  --exportLayerInfo=layers.json --separateProfileRun --profilingVerbosity=detailed > log.txt

\b
Exit status: 0 done, 1 error, 2 usage.
"""
)
@click.argument("baseline", shell_complete=complete_files)
@click.argument("candidate", shell_complete=complete_files)
@trtexec_output_options
def trtexec(
    baseline: str, candidate: str, outputs: dict[str, Path], overwrite: bool, top: int, quiet: bool
) -> None:
    """Compare two engines by what trtexec measured: throughput, latencies, and which layers changed and how.

    A side is a folder with the files of one run, a folder of such folders (several runs), a file, or files with commas
    between them. Files are known by what they hold: log, --exportTimes, --exportProfile, --exportLayerInfo. label=PATH names a side.
    """
    import tracediff
    from tracediff.load.trtexec import read
    from tracediff.measure.trtexec import compare_trtexec
    from tracediff.model import Tool
    from tracediff.model.trtexec import TrtexecReport
    from tracediff.report.write import check_outputs

    check_outputs(outputs.values(), overwrite)
    found = compare_trtexec(read(baseline), read(candidate))
    report = TrtexecReport(tool=Tool("tracediff", tracediff.__version__), trtexec=found)
    write_trtexec(report, outputs, overwrite=overwrite, top=top, quiet=quiet)


def write_trtexec(
    report: TrtexecReport, outputs: dict[str, Path], *, overwrite: bool, top: int, quiet: bool
) -> None:
    """Render everything first, then write and print."""
    from tracediff.report.trtexec_terminal import render_trtexec_terminal

    def show(console: Console) -> None:
        render_trtexec_terminal(report, console, top=top)

    rendered = {name: _render(name, report, top) for name in outputs}
    write_alone(rendered, outputs, show, overwrite=overwrite, quiet=quiet)


def _render(name: str, report: TrtexecReport, top: int) -> bytes:
    if name == "html":
        from tracediff.report.trtexec_html import render_trtexec_html

        return render_trtexec_html(report).encode()
    if name == "md":
        from tracediff.report.trtexec_markdown import render_trtexec_markdown

        return render_trtexec_markdown(report, top=top).encode()
    from tracediff.model.trtexec import encode

    return encode(report)
