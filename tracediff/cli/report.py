"""`tracediff report`: any format from a saved result, without the traces."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from tracediff.cli.compare import finish, refuse_without_steps
from tracediff.cli.options import Gating, takes
from tracediff.cli.outputs import Output, check, kind_of, read_saved, write_outputs
from tracediff.errors import TracediffError


@click.command(epilog="Example: tracediff report result.json --html report.html --postmortem incident.md")
@click.argument("result", type=click.Path(path_type=Path))
@takes(output=Output, gating=Gating)
def report(result: Path, output: Output, gating: Gating) -> None:
    """Render RESULT, the JSON that `tracediff compare`, `show` or `history show` wrote with --json, in any format."""
    try:
        sys.exit(_render(result, output, gating))
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        # what tracediff wrote fits together: numbers of rows, lists of one length
        raise TracediffError(
            "not-rendered",
            f"{result.name} cannot be rendered ({type(error).__name__}): it was changed after tracediff wrote it, or this is a fault of tracediff",
            fix="tracediff compare A B --json FILE; if that file fails too, report it (TRACEDIFF_DEBUG=1 shows the traceback)",
        ) from error


def _render(result: Path, output: Output, gating: Gating) -> int:
    """Everything is rendered before anything is written."""
    from tracediff.model import Result

    policy = gating.read()
    found = read_saved(result)
    kind = kind_of(found)
    if isinstance(found, Result):
        check(output, inputs=[result, gating.policy])
        return finish(found, output, policy)
    refuse_without_steps(result.name, output, gating, kind)
    check(output, kind, [result])
    write_outputs(found, output)
    return 0
