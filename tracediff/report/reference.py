"""docs/sql.md: the tables that SQL can be asked of, from what their definitions say of themselves."""

from __future__ import annotations

import re

from tracediff.accounting import definitions
from tracediff.query.reference import Table, tables
from tracediff.report import templates


def render_reference() -> bytes:
    """Return the page."""
    found = tables()
    index = "\n".join(
        f"| [`{one.name}`](#{one.name}) | {_marked(one)}{_escaped(_first_sentence(one.text))} |"
        for one in found
    )
    parts = [templates.text("sql.md"), "\n| table | a row is |\n|-|-|\n", index, "\n"]
    return ("".join(parts) + "".join(_section(one) for one in found) + _definitions()).encode()


def _definitions() -> str:
    rows = "".join(
        f"| `{file}.sql` | `{name}` | {_escaped(_first_sentence(text).rstrip('.'))} |\n"
        for file, name, text in definitions.tables()
    )
    return f"{templates.text('definitions.md')}\n| file | table | a row is |\n|-|-|-|\n{rows}"


def _section(table: Table) -> str:
    rows = "\n".join(f"| `{one.name}` | {one.type} | {_escaped(one.text)} |" for one in table.columns)
    return f"\n## {table.name}\n\n{_marked(table)}{_escaped(table.text)}\n\n| column | type | |\n|-|-|-|\n{rows}\n"


def _marked(table: Table) -> str:
    return "*Measured.* " if table.measured else ""


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=[.:]) ", text, maxsplit=1)[0].rstrip(":")


def _escaped(text: str) -> str:
    return re.sub(r"([|\[\]<>*_])", r"\\\1", text)
