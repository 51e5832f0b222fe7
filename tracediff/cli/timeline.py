"""`tracediff timeline`: both runs of a comparison in one trace for Perfetto."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracediff.cli.options import complete_files, measured_options, progress

if TYPE_CHECKING:
    from tracediff.formats.selection import Selection

FIRST = 20  # pairs of steps that are shown unless told otherwise
MOST_EVENTS = 500_000


def _window(ctx: click.Context, option: click.Parameter, value: str | None) -> tuple[int, int] | None:
    """N: the first N; A-B: the A-th to the B-th, counted from 1."""
    if value is None:
        return None
    found = re.fullmatch(r"(?:(\d{1,9})-)?(\d{1,9})", value)
    first, last = (int(found[1] or 1), int(found[2])) if found else (0, 0)
    if not 1 <= first <= last:
        raise click.BadParameter(
            f"{value!r} is neither a number of steps nor a range A-B of them, counted from 1"
        )
    return first, last


def _runs(ctx: click.Context, option: click.Parameter, value: str | None) -> tuple[int | None, int | None]:
    """N: the N-th run of each side; N,M: the N-th of the baseline and the M-th of the candidate. Returned from 0."""
    if value is None:
        return None, None
    found = re.fullmatch(r"(\d{1,6})(?:,(\d{1,6}))?", value)
    runs = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
    if min(runs) < 1:
        raise click.BadParameter(
            f"{value!r} is neither the number of a run nor two of them as N,M, counted from 1"
        )
    return runs[0] - 1, runs[1] - 1


@click.command(
    epilog="""
\b
Examples:
  tracediff timeline before.sqlite after.sqlite -o both.pftrace
  tracediff timeline main=runs/main pr=runs/pr -o both.pftrace --steps 100-120 --run 2
  tracediff timeline tracediff-bundle -o both.pftrace

\b
Exit status: 0 done, 1 error, 2 usage, 4 no steps of like workload on both sides.
"""
)
@click.argument("baseline", shell_complete=complete_files)
@click.argument("candidate", required=False, shell_complete=complete_files)
@click.option(
    "-o", "--output", required=True, metavar="FILE", help="The trace, by custom named .pftrace.",
    type=click.Path(path_type=Path, dir_okay=False),
)  # fmt: skip
@click.option("-f", "--overwrite", is_flag=True, help="Overwrite the output file.")
@click.option(
    "--steps", "pairs", metavar="N|A-B", callback=_window,
    help=f"Which pairs of steps: the first N, or the A-th to the B-th.  [default: {FIRST}]",
)  # fmt: skip
@click.option(
    "--max-events", type=click.IntRange(1), default=MOST_EVENTS, show_default=True,
    help="Events of both sides together; pairs of steps beyond them are left out, with a warning.",
)  # fmt: skip
@click.option(
    "--run", "runs", metavar="N|N,M", callback=_runs,
    help="Which run of each side, counted from 1.  [default: that with the median step time]",
)  # fmt: skip
@measured_options("Steps a run that a workload needs to be compared.", steps=False)
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors and warnings.")
def timeline(
    baseline: str,
    candidate: str | None,
    output: Path,
    overwrite: bool,
    pairs: tuple[int, int] | None,
    max_events: int,
    runs: tuple[int | None, int | None],
    step_regex: str | None,
    whole_capture: bool,
    min_steps: int,
    memory_limit: str | None,
    threads: int | None,
    cached: bool,
    quiet: bool,
    only: tuple[Selection, Selection],
    skip_unreadable: bool,
    scheduler: str | None,
) -> None:
    """Write steps of BASELINE and CANDIDATE into one trace, to be opened at ui.perfetto.dev.

    Sides are given as for `tracediff compare`. Of each one run is shown: steps, GPU work by stream, idle time by cause,
    CUDA calls, NVTX ranges, the GIL, garbage collections; and the difference of each pair of steps.

    The k-th step of a workload (phase, requests, tokens) of the baseline is paired with the k-th of the candidate, in
    order of time on the first device of the first rank. Both begin at the same point of the time axis; the next pair begins
    where the longer of the two ended. Further devices and ranks keep their distance to the first one of their export.
    Events are cut at the bounds of their step.
    """
    from tracediff.compare.session import reading_of
    from tracediff.formats.inputs import resolve_pair
    from tracediff.report.perfetto import render_perfetto
    from tracediff.report.write import check_outputs, write_atomically
    from tracediff.steps.traced import Window, trace_pair

    check_outputs([output], overwrite)
    before, after, _ = resolve_pair(baseline, candidate)
    traced = trace_pair(
        (replace(before, only=only[0]), replace(after, only=only[1])),
        reading_of(
            step_regex,
            whole_capture,
            False,
            memory_limit,
            threads,
            cached=cached,
            only=only,
            skip_unreadable=skip_unreadable,
            scheduler=scheduler,
        ),
        Window(*(pairs or (1, FIRST)), max_events, asked=pairs is not None),
        runs=runs,
        min_steps=min_steps,
        progress=progress(quiet),
    )
    data = render_perfetto(traced)
    write_atomically(output, data, overwrite)
    for note in traced.warnings:
        click.echo(f"warning: {note.message} [{note.slug}]", err=True)
    if not quiet:
        first, last = traced.pairs[0].number, traced.pairs[-1].number
        click.echo(
            f"wrote {output}: pairs of steps {first} to {last} of {traced.all_pairs}, {traced.events:,} events,"
            f" {len(data) / 1e6:,.1f} MB\n  baseline: {traced.labels[0]}, run {traced.runs[0]}\n"
            f"  candidate: {traced.labels[1]}, run {traced.runs[1]}\n  open it at https://ui.perfetto.dev: the page reads it"
            " in the browser, nothing is sent",
            err=True,
        )
