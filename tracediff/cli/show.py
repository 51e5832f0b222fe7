"""`tracediff show`: what is in the time of a step of one capture."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracediff.cli.options import complete_files, measured_options, progress
from tracediff.cli.outputs import check, output_options_of, write_outputs
from tracediff.report.kinds import BY_NAME

if TYPE_CHECKING:
    from tracediff.formats.selection import Selection


@click.command(
    epilog="""
\b
Examples:
  tracediff show run.sqlite
  tracediff show main=runs/main --html report.html --json report.json
  tracediff show run.sqlite --kpi bench.json --tables tables

\b
Exit status: 0 done, 1 error, 2 usage.
"""
)
@click.argument("capture", shell_complete=complete_files)
@output_options_of("show")
@measured_options("Steps a run that a workload needs to be in the mean.")
@click.option(
    "--kpi",
    "kpis",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Benchmark report or iteration log of the program; repeatable.",
)
@click.option(
    "--host-only", is_flag=True, help="Captures without GPU kernels: host time between step labels."
)
def show(
    capture: str,
    outputs: dict[str, Path],
    overwrite: bool,
    top: int,
    quiet: bool,
    step_regex: str | None,
    whole_capture: bool,
    min_steps: int,
    kpis: tuple[Path, ...],
    host_only: bool,
    memory_limit: str | None,
    threads: int | None,
    cached: bool,
    only: tuple[Selection, Selection],
    skip_unreadable: bool,
    scheduler: str | None,
) -> None:
    """Show what is in the time of a step of CAPTURE: GPU work, and what the GPU waited for.

    CAPTURE is an nsys export (.sqlite, .sqlite.xz), a report (.nsys-rep, with nsys at hand), a folder that nsys
    exported (parquetdir, arrowdir), or a folder of repeated runs of one program, and may be named: label=PATH.
    """
    from tracediff.companions.bench.read import read
    from tracediff.compare.compare import Options
    from tracediff.compare.session import reading_of, selected
    from tracediff.compare.show import show as show_side
    from tracediff.execution.run import reduce_sides
    from tracediff.formats.inputs import resolve

    check(outputs, overwrite, BY_NAME["show"])
    if host_only and whole_capture:
        raise click.UsageError("--host-only needs step labels: it goes without --whole-capture")
    if only[0] != only[1]:
        raise click.UsageError("--steps and --window of two sides: there is one")
    files = replace(resolve(capture), only=only[0])
    reports = [read(path) for path in kpis]
    keep = bool({"html", "json", "tables"} & outputs.keys())  # what draws steps
    reading = reading_of(
        step_regex, whole_capture, host_only, memory_limit, threads, keep=keep, cached=cached, only=only,
        skip_unreadable=skip_unreadable, scheduler=scheduler,
    )  # fmt: skip
    said = {
        "step_regex": step_regex, "whole_capture": whole_capture, "host_only": host_only, **selected(only[:1]),
    }  # fmt: skip
    side = reduce_sides([files], reading, progress(quiet))[0]
    options = Options(min_steps, extra={name: value for name, value in said.items() if value})
    report = show_side(side, options, kpi=reports)
    write_outputs(report, outputs, overwrite=overwrite, top=top, quiet=quiet)
