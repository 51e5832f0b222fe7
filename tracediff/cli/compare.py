"""`tracediff compare`: the main job."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracediff.cli.options import (
    Gating,
    beside_options,
    complete_files,
    gate_options,
    measured_options,
    print_gates,
    progress,
)
from tracediff.cli.outputs import check, output_options, write_outputs

if TYPE_CHECKING:
    from tracediff.compare.session import LatencyOptions
    from tracediff.formats.selection import Selection
    from tracediff.model import Result


@click.command(
    epilog="""
\b
Examples:
  tracediff compare before.sqlite after.sqlite
  tracediff compare main=runs/main pr=runs/pr --html report.html --md comment.md
  tracediff compare runs/main runs/pr --fail-on step:+3% --fail-on launches:+10 --junit gate.xml
  tracediff compare runs/main runs/pr --json result.json --postmortem incident.md
  tracediff compare tracediff-bundle --html report.html
  tracediff compare runs/main runs/pr --steps 100-150 --ranks 0,3-7

\b
Exit status: 0 done, 1 error, 2 usage, 3 a gate failed, 4 not comparable, or a gate that noise decides.
"""
)
@click.argument("baseline", shell_complete=complete_files)
@click.argument("candidate", required=False, shell_complete=complete_files)
@output_options
@gate_options
@measured_options("Steps a run that a stratum needs to be compared.")
@click.option(
    "--noise",
    metavar="PATH",
    help="Repeats of the baseline's program (a folder): the A/A noise floor is taken from them.",
)
@click.option(
    "--baseline-kpi",
    "kpi_baseline",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Benchmark report or iteration log of the baseline; repeatable.",
)
@click.option(
    "--candidate-kpi",
    "kpi_candidate",
    multiple=True,
    type=click.Path(path_type=Path),
    help="The same of the candidate.",
)
@click.option(
    "--host-only", is_flag=True, help="Captures without GPU kernels: compare host time between step labels."
)
@click.option(
    "--ncu-baseline",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Profile of Nsight Compute of the baseline's kernels (.ncu-rep, or CSV: docs/ncu.md).",
)
@click.option(
    "--ncu-candidate", metavar="FILE", type=click.Path(path_type=Path), help="The same of the candidate."
)
@click.option(
    "--trtexec-baseline",
    metavar="PATH",
    shell_complete=complete_files,
    help="Files of trtexec of the baseline's engine (a folder, or files with commas: docs/trtexec.md).",
)
@click.option(
    "--trtexec-candidate", metavar="PATH", shell_complete=complete_files, help="The same of the candidate."
)
@beside_options
@click.option("--force", is_flag=True, help="Give a verdict even where the captures are not comparable.")
def compare(
    baseline: str,
    candidate: str | None,
    outputs: dict[str, Path],
    overwrite: bool,
    top: int,
    quiet: bool,
    gating: Gating,
    step_regex: str | None,
    whole_capture: bool,
    min_steps: int,
    noise: str | None,
    kpi_baseline: tuple[Path, ...],
    kpi_candidate: tuple[Path, ...],
    host_only: bool,
    ncu_baseline: Path | None,
    ncu_candidate: Path | None,
    trtexec_baseline: str | None,
    trtexec_candidate: str | None,
    latencies: LatencyOptions,
    force: bool,
    memory_limit: str | None,
    threads: int | None,
    cached: bool,
    only: tuple[Selection, Selection],
    skip_unreadable: bool,
    scheduler: str | None,
) -> None:
    """Compare BASELINE with CANDIDATE: what changed in the time of a step, and why.

    Each side is an nsys export (.sqlite, .sqlite.xz), a report (.nsys-rep, with nsys at hand), a folder that
    nsys exported (parquetdir, arrowdir), a trace of torch.profiler (.json, .json.gz), or a folder of repeats of these, and
    may be named: label=PATH. A bundle of `tracediff capture` holds both
    sides and stands alone.
    """
    from tracediff.compare.session import Asked, Beside, compare_inputs

    check(outputs, overwrite)
    result = compare_inputs(
        Asked(
            baseline, candidate, step_regex, whole_capture, min_steps, noise, kpi_baseline, kpi_candidate, host_only,
            force, memory_limit, threads, cached, only, skip_unreadable, scheduler,
            Beside((ncu_baseline, ncu_candidate), (trtexec_baseline, trtexec_candidate), latencies),
        ),
        keep=bool({"html", "json", "tables"} & outputs.keys()),  # what draws steps
        progress=progress(quiet),
        warn=lambda text: click.echo(f"warning: {text}", err=True),
    )  # fmt: skip
    sys.exit(finish(result, outputs, gating, overwrite=overwrite, top=top, quiet=quiet))


def finish(
    result: Result, outputs: dict[str, Path], gating: Gating, *, overwrite: bool, top: int, quiet: bool
) -> int:
    """Judge the gates, write and print every output; the exit status."""
    from tracediff.compare.gates import exit_code

    result = gating.judge(result)
    write_outputs(result, outputs, overwrite=overwrite, top=top, quiet=quiet)
    print_gates(gating, result)
    if quiet and result.verdict == "not_comparable" and not result.gates:
        from tracediff.report.escape import visible

        click.echo(visible(f"not comparable: {result.verdict_reason}"), err=True)
    return exit_code(result)
