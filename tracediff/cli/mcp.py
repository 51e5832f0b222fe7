"""`tracediff mcp`: the tools for agents, over the Model Context Protocol."""

from __future__ import annotations

from pathlib import Path

import click

from tracediff.errors import not_installed


@click.command(
    epilog="""
\b
Examples:
  tracediff mcp --root runs
  tracediff mcp --root runs --root history
  tracediff mcp --skill > SKILL.md

\b
A client starts it and speaks to it over stdin and stdout; see docs/extend.md#agents. It needs the extra: pip install 'tracediff-gpu[mcp]'.
"""
)
@click.option(
    "--root",
    "roots",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Folder that may be read, with all below it; repeatable.",
)
@click.option("--skill", is_flag=True, help="Print how an agent uses the tools (SKILL.md), and stop.")
def mcp(roots: tuple[Path, ...], skill: bool) -> None:
    """Let an agent read captures: compare, show, explain, SQL and history as tools of an MCP server.

    The tools read files below the folders of --root and nothing else. They write nothing but the cache that every command keeps.
    """
    if skill:
        from tracediff.report.templates import text

        click.echo(text("SKILL.md"), nl=False)
        return
    if not roots:
        raise click.UsageError("--root FOLDER: which folder may be read?")
    try:
        from tracediff.agents.server import serve
    except ModuleNotFoundError as error:
        raise not_installed("mcp-missing", "the package mcp, which speaks to agents,", "mcp") from error
    from tracediff.agents.desk import Desk
    from tracediff.agents.folders import Folders

    desk = Desk(Folders(roots))
    try:
        serve(desk)
    finally:
        desk.close()
