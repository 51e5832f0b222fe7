"""`tracediff bisect`: git bisect asks, paired captures answer."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracediff.cli.options import Grouped, takes
from tracediff.cli.outputs import BY_NAME, Output, check, not_of, write_outputs
from tracediff.cli.say import say
from tracediff.formats.recognise import counted
from tracediff.request import BisectRequest, CompareRequest

if TYPE_CHECKING:
    from tracediff.bisect.probe import Watch
    from tracediff.model.bisect import Bisect, BisectProbe


@click.command(
    cls=Grouped,
    first=("build", "capture", "cause", "folder", "page"),
    epilog="""
\b
Examples:
  tracediff bisect v1.2 main --build 'pip install -e .' --capture 'python serve.py'
  tracediff bisect v1.2 main --cause 'host_work@_schedule:+50us' --build ./build.sh --capture plan.toml
  tracediff bisect v1.2 main --cause generation:+3% --capture plan.toml --budget 120 --md bisect.md

\b
Ctrl-C at any time: the same command goes on. Runs that were made are not made again.
Exit status: 0 the culprit is found, 1 error, 2 usage, 4 no culprit, several, or one that its parent does not confirm.
""",
)
@takes(request=BisectRequest, output=Output, omit=not_of("bisect"))
@click.option(
    "-o", "--output", "folder", type=click.Path(path_type=Path), default=Path("tracediff-bisect"), metavar="DIR",
    help="The folder of the search.  [default: tracediff-bisect]",
)  # fmt: skip
@click.option(
    "--html", "page", type=click.Path(path_type=Path), metavar="FILE",
    help="The comparison of the culprit with its parent as a page.",
)  # fmt: skip
def bisect(request: BisectRequest, output: Output, folder: Path, page: Path | None) -> None:
    """Find the commit after GOOD, up to BAD, that caused a change: git bisect asks, paired captures answer.

    Each commit that git asks for is built in a worktree of its own and captured in pairs beside GOOD. It is bad once the
    interval of the difference is beyond the limit, good once it is below. A commit that does not build, that cannot be
    compared or where noise decides is skipped. Your checkout stays as it is.
    """
    from tracediff.capture.machine import forget_tokens
    from tracediff.session import bisect_request, compare_request

    forget_tokens()
    check(output, BY_NAME["bisect"])
    comparison = Output(html=page, overwrite=output.overwrite, quiet=True)
    check(comparison)
    found = bisect_request(request, folder, _watch())
    write_outputs(found, output)
    if found.outcome == "found" and found.parent is not None and found.parent.pairs:
        bundle = folder / found.parent.folder
        if page is not None:
            write_outputs(compare_request(CompareRequest(baseline=bundle), keep=True), comparison)
            say(f"wrote {page} (html)")
        say(f"next: tracediff compare {bundle} --html culprit.html")
    sys.exit(_status(found))


def _status(found: Bisect) -> int:
    confirmed = found.parent is not None and found.parent.verdict == "bad"
    return 0 if found.outcome == "found" and confirmed else 4


def _watch() -> Watch:
    """Say on stderr how it goes."""
    from tracediff.bisect.probe import Watch
    from tracediff.report.bisect import difference, name, skipped

    def probed(one: BisectProbe) -> None:
        verdict = f"skipped: {skipped(one)}" if one.reason else one.verdict
        say(f"  {verdict}; {one.seconds / 60:.1f} minutes of builds and runs")

    return Watch(
        building=lambda one: say(f"  building {one.commit[:12]}"),
        probing=lambda before, after: say(f"{name(after)} beside {before.commit[:12]}"),
        seen=lambda now: say(f"  after {counted(now.pairs, 'pair')}: {difference(now)}"),
        probed=probed,
    )
