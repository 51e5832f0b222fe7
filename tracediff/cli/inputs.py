"""`tracediff inputs`: what files are, what is in them, and what a comparison could say of them."""

from __future__ import annotations

import sys
from pathlib import Path

import click


@click.command(
    epilog="""
\b
Examples:
  tracediff inputs run.sqlite
  tracediff inputs runs/main runs/pr
  tracediff inputs * --json

\b
Exit status: 0 every file is known and can be read, 1 one is not, 2 usage.
"""
)
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
@click.option("--json", "as_json", is_flag=True, help="JSON on stdout instead of text.")
@click.option("--tables", is_flag=True, help="List every table of an export, not only the largest.")
def inputs(files: tuple[Path, ...], as_json: bool, tables: bool) -> None:
    """Say of every FILE or folder what it is, what it holds, what is missing, and what to do with it.

    Of exports and traces: the kinds of trace with the nsys flag that would record what is missing, devices, steps and
    the rule that finds them, and what a comparison could say. Nothing of environment, host, user or command line is shown.
    """
    from tracediff.cli.outputs import print_guarded
    from tracediff.model import encode
    from tracediff.report.inputs import render_inputs_terminal
    from tracediff.trace.identify import identify

    report = identify(files)
    if as_json:
        click.echo(encode(report), nl=False)
    else:
        print_guarded(lambda console: render_inputs_terminal(report, console, tables=tables), highlight=False)
    sys.exit(0 if all(one.known for one in report.inputs) else 1)
