"""`tracediff comment`: the pull-request comment, posted or updated in place."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracediff.cli.options import Gating, judge, takes, web_address
from tracediff.cli.outputs import read_result
from tracediff.cli.say import say
from tracediff.errors import not_installed
from tracediff.request import option

if TYPE_CHECKING:
    from tracediff.cli.forges import Forge
    from tracediff.model import Result


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Where the comment goes, and what is in it."""

    github: bool = option(False, "Comment on a pull request of GitHub.")
    gitlab: bool = option(False, "Comment on a merge request of GitLab.")
    repo: str | None = option(
        None, "OWNER/NAME; on GitLab the project's ID or path. [default: that of the CI job]", metavar="NAME"
    )
    pr: int | None = option(
        None, "Pull or merge request. [default: that of the CI job]", metavar="NUMBER", minimum=1
    )
    key: str = option("", "Keeps several comments apart, e.g. one a GPU model.", metavar="WORD")
    link: str = option("", "Where the HTML report can be read.", metavar="URL", callback=web_address)
    pictures: Path | None = option(
        None, "Pictures as SVG and PNG; of several results in folders 1, 2, ... of DIR, in their order.", metavar="DIR",
        type=click.Path(path_type=Path),
    )  # fmt: skip
    pictures_at: str = option(
        "", "Where the files of --pictures can be read: the comment shows the waterfall.", metavar="URL", callback=web_address
    )  # fmt: skip
    top: int = option(10, "Rows of a folded table, at most.", minimum=1)
    dry_run: bool = option(False, "Print the comment instead of posting it.")


@click.command(
    epilog="""
\b
Example, in a job for pull requests:
  tracediff compare runs/main runs/pr --json result.json --fail-on step:+3%
  tracediff comment result.json --github
  tracediff comment decode.json prefill.json --github

\b
Several results make one comment: a sentence for each, the worst first.
The gates are in the result. The token comes from GITHUB_TOKEN or GH_TOKEN, on GitLab from GITLAB_TOKEN. The exit status is 0 once the comment is
there, whatever the gates say. See docs/gate.md.
"""
)
@click.argument("results", nargs=-1, required=True, type=click.Path(path_type=Path))
@takes(asked=Asked, gating=Gating, omit={"annotations"})
def comment(results: tuple[Path, ...], asked: Asked, gating: Gating) -> None:
    """Post RESULTS, the JSON of `tracediff compare --json`, as one comment, or update the comment that is there."""
    from tracediff.report.markdown import marker, render_many, render_markdown
    from tracediff.report.pictures import FIRST

    policy = gating.read()
    try:
        first = marker(asked.key)
    except ValueError:
        raise click.BadParameter(
            "letters, digits, dots, dashes and underscores", param_hint="--key"
        ) from None
    if asked.github and asked.gitlab:
        raise click.UsageError("--github and --gitlab exclude each other: one comment goes to one forge")
    forge = "github" if asked.github else "gitlab" if asked.gitlab else _forge_of_job()
    if forge is None and not asked.dry_run:
        raise click.UsageError("--github or --gitlab? --dry-run prints the comment without either")
    found = {name: judge(policy, read_result(path)) for name, path in _named(results).items()}
    folders = {name: f"{number}/" for number, name in enumerate(found, 1)} if len(found) > 1 else {}
    shown = {
        name: f"{asked.pictures_at.rstrip('/')}/{folders.get(name, '')}{FIRST}"
        for name in found
        if asked.pictures_at
    }
    same: dict[str, Any] = {"top": asked.top, "key": asked.key, "link": asked.link}
    if len(found) == 1:
        ((name, single),) = found.items()
        body = render_markdown(single, **same, picture=shown.get(name, ""))
    else:
        body = render_many(found, **same, shown=shown)
    if asked.pictures:
        for name, result in found.items():
            _draw(asked.pictures / folders.get(name, ""), result)
    if asked.dry_run:
        click.echo(body, nl=False)
        return
    opened = _open(forge or "", asked.repo, asked.pr)
    if not opened.api.is_private():
        say("warning: the API's address is http: the token is sent in the clear")
    posted = opened.post(body, first)
    say(f"{posted.done}: {posted.place}", err=False)


def _draw(folder: Path, result: Result) -> None:
    """Write the pictures of a result in place of those that are there."""
    from tracediff.report.pictures import FILES, files
    from tracediff.write import write_all

    folder.mkdir(parents=True, exist_ok=True)
    drawn = {folder / name: data for name, data in files(result).items()}
    write_all(drawn, force=True, of_others=[folder / name for name in FILES])


def _named(results: tuple[Path, ...]) -> dict[str, Path]:
    """The files by their names without .json, or by their paths where two have the same name."""
    stems = {path.stem: path for path in results}
    named = stems if len(stems) == len(results) else {str(path.with_suffix("")): path for path in results}
    if len(named) < len(results):
        raise click.UsageError("a result was given twice")
    return named


def _open(name: str, repo: str | None, pr: int | None) -> Forge:
    try:
        from tracediff.cli import forges
    except ModuleNotFoundError as error:
        raise not_installed("httpx-missing", "httpx, which posts comments,", "comment") from error
    open_forge = forges.github if name == "github" else forges.gitlab
    return open_forge(os.environ, repo, pr)


def _forge_of_job() -> str | None:
    for variable, forge in (("GITHUB_ACTIONS", "github"), ("GITLAB_CI", "gitlab")):
        if os.environ.get(variable) == "true":
            return forge
    return None
