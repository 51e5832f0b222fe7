"""`tracediff history`: results over time, what changed between them, and whether the newest is all right."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracediff.cli import outputs
from tracediff.cli.options import takes, web_address
from tracediff.cli.outputs import BY_NAME, Output, not_of, read_saved, write_outputs
from tracediff.cli.say import say
from tracediff.errors import TracediffError, UsageError
from tracediff.request import option

if TYPE_CHECKING:
    from tracediff.comparison.measures import Measure
    from tracediff.history.model import History
    from tracediff.history.points import Point
    from tracediff.model import Result


@dataclass(frozen=True, kw_only=True)
class Where:
    """Where points and commits are."""

    branch: str = option(
        "HEAD", "Whose first-parent history orders the points.", metavar="REF", show_default=True
    )
    store: str = option(
        "tracediff-history", "Folder of the points, here or on anything that fsspec opens.", metavar="PATH|URL", show_default=True
    )  # fmt: skip
    repo: Path = option(Path(), "Git repository of the commits.", path=True, show_default=True)
    program: str | None = option(None, "Of several programs in one store, this one.", metavar="NAME")

    def analysed(self, measures: Sequence[str], limits: Iterable[Measure] = ()) -> History:
        """What changed over all points."""
        from tracediff.history.analysis import read_commits
        from tracediff.session import history_of

        return history_of(self.store, read_commits(self.repo, self.branch), measures, self.program, limits)


@click.group()
def history() -> None:
    """Keep results over time and find what changed: since which commit, by how much, and which cause."""


@history.command(
    epilog="""
\b
Examples:
  tracediff history add result.json --commit $(git rev-parse HEAD) --pinned v1.0
  tracediff history add tracediff-bundle --commit 1a2b3c4 --store s3://bucket/history

\b
The same result added twice is one point. See docs/investigate.md#since-which-commit.
"""
)
@click.argument(
    "results", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RESULT|BUNDLE..."
)
@click.option("--commit", metavar="SHA", help="Commit that the candidate was built from.  [required]")
@click.option("--time", "when", metavar="ISO", help="Time of the commit. [default: as git says]")
@click.option(
    "--pinned",
    default="",
    metavar="NAME",
    help="The baseline is the pinned program NAME (a commit or label): drift is measured against it.",
)
@click.option(
    "--link",
    default="",
    metavar="URL",
    callback=web_address,
    help="Where the report of this result can be read.",
)
@takes(where=Where, omit={"branch"})
def add(
    results: tuple[Path, ...], commit: str | None, when: str | None, pinned: str, link: str, where: Where
) -> None:
    """Add each RESULT (the JSON of `compare` or `show`) or BUNDLE (compared first) as a point of a commit."""
    from tracediff.history.store import Store

    if commit is None:
        raise click.UsageError(
            "Missing option '--commit'. A point is a saved result of a commit: tracediff compare BASELINE CANDIDATE --json result.json,"
            " then tracediff history add result.json --commit $(git rev-parse HEAD)"
        )
    opened = Store(where.store)
    name, time = _dated(commit, when, where.repo)
    points = [(path, _point(path, name, time, where.program or "", pinned)) for path in results]
    for path, point in points:
        _, new = opened.add(point, source=path.name, link=link)
        done = "added" if new else "is there already"
        say(f"{path.name}: {done} as a point of {name[:10]}", err=False)


@history.command(
    epilog="""
\b
Examples:
  tracediff history show
  tracediff history show gil_wait kernel:fmha --html history.html
"""
)
@click.argument("measures", nargs=-1, metavar="[MEASURE]...")
@takes(output=Output, where=Where, omit=not_of("history"))
def show(measures: tuple[str, ...], output: Output, where: Where) -> None:
    """Say what changed, since which commit and why, what drifts, and where each measure stands.

    MEASURE: what to look at beside the times of steps, [PHASE.]QUANTITY[@PLACE]: generation.host_work@_schedule, gil_wait, launches.
    """
    outputs.check(output, BY_NAME["history"])
    write_outputs(where.analysed(measures), output)


@history.command(
    epilog="""
\b
Examples:
  tracediff history check
  tracediff history check --fail-on generation:+2% --fail-on gil_wait:+20us

\b
Exit status: 0 nothing against the newest point, 3 a change for the worse or a limit exceeded, 4 cannot be told.
"""
)
@click.argument("measures", nargs=-1, metavar="[MEASURE]...")
@click.option(
    "--fail-on",
    multiple=True,
    metavar="MEASURE:+LIMIT",
    help="Limit against the pinned baseline; repeatable.",
)
@click.option(
    "--recent",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    metavar="N",
    help="A change for the worse fails for its first N points.",
)
@takes(where=Where)
def check(measures: tuple[str, ...], fail_on: tuple[str, ...], recent: int, where: Where) -> None:
    """Fail where the newest point comes after a recent change for the worse of a step time, or of a MEASURE, or where a limit is exceeded."""
    from tracediff.comparison.gates import parse_gate
    from tracediff.history.policy import exit_code, judge
    from tracediff.report.history import drift, headline, judged, notes, outcome

    gates = [parse_gate(text) for text in fail_on]
    found = where.analysed(measures, [gate.measure for gate in gates])
    said = judge(found, gates, recent)
    if found.segments:
        say(outcome(found, said))
    for one in said:
        say(f"{one.outcome}: {judged(found, one)}")
    drifts = [drift(found, one) for segment in found.segments for one in segment.drifts]
    for text in (*drifts, *notes(found)):
        say(f"note: {text}")
    if not said:
        say(headline(found))
    sys.exit(exit_code(said))


def _dated(commit: str, when: str | None, repo: Path) -> tuple[str, str]:
    """Full name of the commit where git knows it, and its time in UTC."""
    from tracediff.history.analysis import COMMIT, identify

    known = identify(repo, commit)
    if known is None and not COMMIT.match(commit):
        raise UsageError(
            "history-commit",
            f"{commit!r} is no commit of the repository in {repo}, and not 7 to 64 hexadecimal digits",
            fix="--commit $(git rev-parse HEAD), or --repo PATH",
        )
    if when is not None:
        return (known[0] if known else commit), _utc(when)
    if known is None:
        raise UsageError(
            "history-time",
            f"the time of {commit} is not known: it is no commit of the repository in {repo}",
            fix="--time 2026-01-31T12:00:00Z, or --repo PATH",
        )
    return known


def _utc(text: str) -> str:
    try:
        found = datetime.fromisoformat(text)
        found = found if found.tzinfo else found.replace(tzinfo=UTC)
        return found.astimezone(UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError):
        raise click.BadParameter("a time such as 2026-01-31T12:00:00Z", param_hint="--time") from None


def _point(path: Path, commit: str, time: str, program: str, pinned: str) -> Point:
    from tracediff.history.points import of_result, of_show
    from tracediff.model import Result
    from tracediff.model.show import Show

    found = _compared(path) if path.is_dir() else read_saved(path)
    if isinstance(found, Result):
        return of_result(found, commit=commit, time=time, program=program, pinned=pinned)
    if isinstance(found, Show):
        return of_show(found, commit=commit, time=time, program=program)
    raise TracediffError(
        "not-a-result",
        f"{path.name} is no comparison of steps and no report of one capture",
        fix="tracediff compare A B --json FILE",
    )


def _compared(bundle: Path) -> Result:
    from tracediff.request import CompareRequest
    from tracediff.session import compare_request

    return compare_request(CompareRequest(baseline=bundle), warn=lambda text: say(f"warning: {text}"))
