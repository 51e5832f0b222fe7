"""The JSON Schema of the result of a comparison and of the other reports, generated from their structs."""

from __future__ import annotations

import inspect
import json
import re
from typing import Any

import msgspec

from tracediff.query.reference import Table, tables
from tracediff.report import templates
from tracediff.report.kinds import ALONE, COMPARISON, named, version


def build_schema() -> dict[str, Any]:
    """Return the schema (2020-12); unknown keys are allowed, for a later version may add some."""
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


def render_schema() -> bytes:
    """Return the schema as text."""
    return json.dumps(build_schema(), indent=1, ensure_ascii=False).encode() + b"\n"


# docs/sql.md: the tables that SQL can be asked of, from what their definitions say of themselves.


def render_reference() -> bytes:
    """Return the page."""
    found = tables()
    index = "\n".join(
        f"| [`{one.name}`](#{one.name}) | {_marked(one)}{_escaped(_first_sentence(one.text))} |"
        for one in found
    )
    parts = [templates.text("sql.md"), "\n| table | a row is |\n|-|-|\n", index, "\n"]
    return ("".join(parts) + "".join(_section(one) for one in found)).encode()


def _section(table: Table) -> str:
    rows = "\n".join(f"| `{one.name}` | {one.type} | {_escaped(one.text)} |" for one in table.columns)
    return f"\n## {table.name}\n\n{_marked(table)}{_escaped(table.text)}\n\n| column | type | |\n|-|-|-|\n{rows}\n"


def _marked(table: Table) -> str:
    return "*Measured.* " if table.measured else ""


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=[.:]) ", text, maxsplit=1)[0].rstrip(":")


def _escaped(text: str) -> str:
    return re.sub(r"([|\[\]<>*_])", r"\\\1", text)
