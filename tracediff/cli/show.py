"""`tracediff show`: what is in the time of a step of one capture."""

from __future__ import annotations

import click

from tracediff.cli.options import Grouped, progress, takes
from tracediff.cli.outputs import BY_NAME, Output, check, not_of, write_outputs
from tracediff.request import ShowRequest, paths


@click.command(
    cls=Grouped,
    first=("html", "md", "json", "step", "worst", "steps"),
    epilog="""
\b
Examples:
  tracediff show run.sqlite
  tracediff show main=runs/main --html report.html --json report.json
  tracediff show run.sqlite --kpi bench.json --tables tables

\b
Exit status: 0 done, 1 error, 2 usage.
""",
)
@takes(output=Output, request=ShowRequest, omit=not_of("show"))
def show(request: ShowRequest, output: Output) -> None:
    """Show what is in the time of a step of CAPTURE: GPU work, and what the GPU waited for.

    CAPTURE is an nsys export (.sqlite, .sqlite.xz, parquetdir), a report (.nsys-rep, with nsys at hand), or a
    trace of torch.profiler (.json, .json.gz). A folder of these holds repeated runs. label=PATH names it.
    """
    from tracediff.session import show_request

    check(output, BY_NAME["show"], [request.capture, *paths(request.kpi)])
    write_outputs(show_request(request, keep=output.draws_steps, progress=progress(output.quiet)), output)
