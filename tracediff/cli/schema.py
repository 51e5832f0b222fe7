"""`tracediff schema`: the JSON Schema of the result."""

from __future__ import annotations

import click


@click.command(epilog="Example: tracediff schema > result.schema.json")
def schema() -> None:
    """Print the JSON Schema of what `tracediff compare --json` and `tracediff show --json` write."""
    from tracediff.report.schema import render_schema

    click.echo(render_schema(), nl=False)
