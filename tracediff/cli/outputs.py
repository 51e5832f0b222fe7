"""Options and writing that every command with a `Result` shares: any number of formats in one run."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from tracediff.measure.gates import GateOutcome
    from tracediff.model import Result

_FORMATS = {
    "html": "One offline page.",
    "md": "Markdown for a pull-request comment.",
    "json": "The result itself (see docs/result.md).",
    "junit": "JUnit XML of the gates.",
}


def output_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add --html, --md, --json, --junit, -f, --top and -q; the command gets `outputs`, `overwrite`, `top`, `quiet`."""

    @functools.wraps(command)
    def wrapped(**arguments: Any) -> None:
        outputs = {name: arguments.pop(f"out_{name}") for name in _FORMATS}
        command(outputs={name: path for name, path in outputs.items() if path is not None}, **arguments)

    decorated: Callable[..., None] = wrapped
    options = [
        *(
            click.option(
                f"--{name}",
                f"out_{name}",
                type=click.Path(path_type=Path, dir_okay=False),
                metavar="FILE",
                help=text,
            )
            for name, text in _FORMATS.items()
        ),
        click.option("-f", "--overwrite", is_flag=True, help="Overwrite output files."),
        click.option(
            "--top",
            type=click.IntRange(1),
            default=10,
            show_default=True,
            help="Rows of a table in the terminal and the comment.",
        ),
        click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors and gates."),
    ]
    for option in reversed(options):
        decorated = option(decorated)
    return decorated


def write_outputs(
    result: Result,
    outputs: dict[str, Path],
    gates: list[GateOutcome],
    *,
    overwrite: bool,
    top: int,
    quiet: bool,
) -> None:
    """Render everything first, then write: a failure in one format leaves no other half done."""
    from tracediff.report.write import write_atomically

    rendered = {name: _render(name, result, gates, top) for name in outputs}
    for name, path in outputs.items():
        write_atomically(path, rendered[name], overwrite)
    if not quiet:
        from rich.console import Console

        from tracediff.report.terminal import render_terminal

        render_terminal(result, Console(), top=top)
    for name, path in outputs.items():
        click.echo(f"wrote {path} ({name})", err=True)


def _render(name: str, result: Result, gates: list[GateOutcome], top: int) -> bytes:
    if name == "html":
        from tracediff.report.html import render_html

        return render_html(result).encode()
    if name == "md":
        from tracediff.report.markdown import render_markdown

        return render_markdown(result, top=top).encode()
    if name == "junit":
        from tracediff.report.junit import GateResult, render_junit

        passed = {"passed": True, "failed": False, "inconclusive": None}
        return render_junit([GateResult(one.gate.text, passed[one.outcome], one.message) for one in gates])
    from tracediff.report.jsonreport import render_json

    return render_json(result)
