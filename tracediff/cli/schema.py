"""`tracediff schema`: the JSON Schema of the result."""

from __future__ import annotations

import inspect
import json
from typing import Any

import click

from tracediff.cli.outputs import ALONE, COMPARISON, named, version


@click.command(epilog="Example: tracediff schema > result.schema.json")
def schema() -> None:
    """Print the JSON Schema of what `tracediff compare --json` and `tracediff show --json` write."""
    click.echo(json.dumps(build_schema(), indent=1, ensure_ascii=False).encode() + b"\n", nl=False)


def build_schema() -> dict[str, Any]:
    """Return the schema (2020-12) of a comparison and of the other reports, from their structs; unknown keys are allowed, for a later version may add some."""
    import msgspec

    kinds = (COMPARISON, *ALONE)
    found, structs = msgspec.json.schema_components(
        [named(kind.struct) for kind in kinds], ref_template="#/$defs/{name}"
    )
    for struct in structs.values():
        if "description" in struct:  # Python 3.13 takes the indentation from docstrings by itself
            struct["description"] = inspect.cleandoc(struct["description"])
    for kind in kinds:
        fields = structs[named(kind.struct).__name__]["properties"]
        fields["format_version"] = {"const": version(kind)}
        if kind.name:
            fields["kind"] = {"const": kind.name}
    chosen: dict[str, Any] = found[0]
    for kind, struct in reversed(list(zip(ALONE, found[1:], strict=True))):
        chosen = {
            "if": {"properties": {"kind": {"const": kind.name}}, "required": ["kind"]},
            "then": struct,
            "else": chosen,
        }
    versions = "".join(f"; of {kind.short}, {version(kind)}" for kind in ALONE)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"tracediff result, format_version {version(COMPARISON)}{versions}",
        **chosen,
        "$defs": dict(sorted(structs.items())),
    }
