"""`tracediff timeline`: both runs of a comparison in one trace for Perfetto."""

from __future__ import annotations

from pathlib import Path

import click

from tracediff.cli.options import Grouped, progress, takes
from tracediff.cli.say import say
from tracediff.request import TimelineRequest

FIRST = 20  # pairs of steps that are shown unless told otherwise


@click.command(
    cls=Grouped,
    epilog="""
\b
Examples:
  tracediff timeline before.sqlite after.sqlite -o both.pftrace
  tracediff timeline main=runs/main pr=runs/pr -o both.pftrace --steps 100-120 --run 2
  tracediff timeline tracediff-bundle -o both.pftrace

\b
Exit status: 0 done, 1 error, 2 usage, 4 no steps of like workload on both sides.
""",
)
@click.option(
    "-o", "--output", required=True, metavar="FILE", help="The trace, by custom named .pftrace.",
    type=click.Path(path_type=Path, dir_okay=False),
)  # fmt: skip
@click.option("-f", "--overwrite", is_flag=True, help="Overwrite the output file.")
@takes(request=TimelineRequest)
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors and warnings.")
def timeline(request: TimelineRequest, output: Path, overwrite: bool, quiet: bool) -> None:
    """Write steps of BASELINE and CANDIDATE into one trace, to be opened at ui.perfetto.dev.

    Sides are given as for `tracediff compare`. Of each one run is shown: steps, GPU work by stream, idle time by cause,
    CUDA calls, NVTX ranges, the GIL, garbage collections; and the difference of each pair of steps.

    The k-th step of a workload (phase, requests, tokens) of the baseline is paired with the k-th of the candidate, in
    order of time on the first device of the first rank. Both begin at the same point of the time axis; the next pair begins
    where the longer of the two ended. Further devices and ranks keep their distance to the first one of their export.
    Events are cut at the bounds of their step.
    """
    from tracediff.comparison.timeline import Window, read_paired_runs
    from tracediff.formats.inputs import resolve_pair
    from tracediff.report.perfetto import render_perfetto
    from tracediff.request import word
    from tracediff.session import selected
    from tracediff.write import check_outputs, write_atomically

    check_outputs([output], overwrite, [one for one in (request.baseline, request.candidate) if one])
    *files, _ = resolve_pair(str(request.baseline), word(request.candidate))
    before, after = selected(files, request.selections())
    shown = read_paired_runs(
        (before, after),
        request.reading(),
        Window(
            *(request.window_of_pairs() or (1, FIRST)), request.max_events, asked=request.pairs is not None
        ),
        runs=request.runs(),
        progress=progress(quiet),
    )
    data = render_perfetto(shown)
    write_atomically(output, data, overwrite)
    for note in shown.warnings:
        say(f"warning: {note.message} [{note.slug}]")
    if not quiet:
        first, last = shown.pairs[0].number, shown.pairs[-1].number
        say(
            f"wrote {output}: pairs of steps {first} to {last} of {shown.all_pairs}, {shown.events:,} events,"
            f" {len(data) / 1e6:,.1f} MB"
        )
        for name, side in zip(("baseline", "candidate"), shown.sides, strict=True):
            say(f"  {name}: {side.label}, run {side.name}")
        say("  open it at https://ui.perfetto.dev: the page reads it in the browser, nothing is sent")
