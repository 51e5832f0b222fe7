"""`tracediff report`: any format from a saved result, without the traces."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from tracediff.cli.gating import Gating, gate_options
from tracediff.cli.outputs import check, output_options, read_result


@click.command(epilog="Example: tracediff report result.json --html report.html --postmortem incident.md")
@click.argument("result", type=click.Path(path_type=Path))
@output_options
@gate_options
def report(
    result: Path, outputs: dict[str, Path], overwrite: bool, top: int, quiet: bool, gating: Gating
) -> None:
    """Render RESULT, the JSON that `tracediff compare --json` wrote, in any format."""
    from tracediff.cli.compare import finish

    check(outputs, overwrite)
    sys.exit(finish(read_result(result), outputs, gating, overwrite=overwrite, top=top, quiet=quiet))
