"""`tracediff doctor`: says whether this machine can capture."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click
from msgspec.structs import asdict

from tracediff.cli.say import say


@click.command()
@click.option("--json", "as_json", is_flag=True, help="JSON on stdout instead of a table.")
@click.option(
    "--python", metavar="PATH", help="The interpreter that your program runs in.  [default: this one]"
)
@click.option(
    "--folder", type=click.Path(path_type=Path, exists=True), default=Path(), help="Where bundles go."
)
def doctor(as_json: bool, python: str | None, folder: Path) -> None:
    """Check nsys, GPU, NVTX, the GIL trace and disk, with a trial capture of a tiny program.

    Exit status: 0 captures work, 1 something that they need is missing. Nothing is changed.
    """
    from tracediff.capture.doctor import can_capture, examine, summary

    checks = examine(folder, python or sys.executable)
    works = can_capture(checks)
    if as_json:
        said = {
            "can_capture": works,
            "summary": summary(checks),
            "checks": [asdict(check) for check in checks],
        }
        click.echo(f"{json.dumps(said, indent=1)}\n", nl=False)
    else:
        width = max(len(check.name) for check in checks)
        for check in checks:
            say(f"{check.status:4}  {check.name:{width}}  {check.message}", err=False)
            if check.fix and check.status != "ok":
                say(f"{'':{width + 6}}  fix: {check.fix}", err=False)
        say("", err=False)
        say(summary(checks), err=False)
    sys.exit(0 if works else 1)
