"""`tracediff report`: any format from a saved result, without the traces."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from tracediff.cli.options import Gating, gate_options
from tracediff.cli.outputs import check, output_options, read_saved, write_outputs
from tracediff.errors import TracediffError
from tracediff.report.kinds import Kind, kind_of


@click.command(epilog="Example: tracediff report result.json --html report.html --postmortem incident.md")
@click.argument("result", type=click.Path(path_type=Path))
@output_options
@gate_options
def report(
    result: Path, outputs: dict[str, Path], overwrite: bool, top: int, quiet: bool, gating: Gating
) -> None:
    """Render RESULT, the JSON that `tracediff compare`, `show`, `ncu`, `trtexec` or `latencies` wrote with --json, in any format."""
    try:
        _render(result, outputs, gating, overwrite=overwrite, top=top, quiet=quiet)
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
        # what tracediff wrote fits together: numbers of rows, lists of one length
        raise TracediffError(
            "not-a-result",
            f"{result.name} holds values that do not fit together ({type(error).__name__})",
            fix="tracediff compare A B --json FILE",
        ) from error


def _render(
    result: Path, outputs: dict[str, Path], gating: Gating, *, overwrite: bool, top: int, quiet: bool
) -> None:
    """Everything is rendered before anything is written."""
    from tracediff.cli.compare import finish
    from tracediff.model import Result

    found = read_saved(result)
    kind = kind_of(found)
    if isinstance(found, Result):
        check(outputs, overwrite)
        sys.exit(finish(found, outputs, gating, overwrite=overwrite, top=top, quiet=quiet))
    _refuse(result.name, outputs, kind)
    check(outputs, overwrite, kind)
    write_outputs(found, outputs, overwrite=overwrite, top=top, quiet=quiet)


def _refuse(name: str, outputs: dict[str, Path], kind: Kind) -> None:
    """Raise `TracediffError` (one-capture) for an option that only a comparison of steps has."""
    given = click.get_current_context().params
    options = [f"--{one}" for one in outputs if one not in kind.formats]
    options += [
        f"--{one.replace('_', '-')}" for one in ("fail_on", "warn_on", "annotations") if given.get(one)
    ]
    if options:
        raise TracediffError(
            "one-capture",
            f"{name} {kind.says}: {', '.join(options)} needs a comparison of steps",
            fix="tracediff compare A B --json FILE",
            exit_code=2,
        )
