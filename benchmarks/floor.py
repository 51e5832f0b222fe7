"""The floor: a bare scan of the columns that a comparison reads, through the same DuckDB scanner with the same settings."""

from __future__ import annotations

import sys
from pathlib import Path

from tracediff.load.database import connect, identifier, quoted
from tracediff.load.nsys_schema import STAGED, inspect


def scan(path: Path) -> None:
    """Read every column of STAGED that the export has into memory."""
    schema = inspect(path)
    db = connect()
    db.execute(f"ATTACH {quoted(str(path))} AS source (TYPE sqlite, READ_ONLY)")
    for table, columns in STAGED.items():
        names = [column for column in columns if column in schema.tables.get(table, frozenset())]
        if names:
            chosen = ", ".join(identifier(name) for name in names)
            db.execute(
                f"CREATE TABLE {identifier('floor_' + table)} AS SELECT {chosen} FROM source.{identifier(table)}"
            )
    db.close()


if __name__ == "__main__":
    for name in sys.argv[1:]:
        scan(Path(name))
