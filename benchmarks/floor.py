"""Floors: what any program must do that reads these files. `python -m benchmarks.floor bytes|scan|parse FILE...`"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

from tracediff.formats.database import connect, identifier, quoted
from tracediff.formats.schema import STAGED, inspect


def read(path: Path) -> None:
    """Every byte once, in order."""
    with path.open("rb", buffering=0) as file:
        while file.read(1 << 22):
            pass


def scan(path: Path) -> None:
    """Every column of STAGED that the export has into memory, through the same DuckDB scanner with the same settings."""
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


def parse(path: Path) -> None:
    """A trace of torch.profiler through Python's own JSON parser."""
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
        json.load(file)


if __name__ == "__main__":
    act = {"bytes": read, "scan": scan, "parse": parse}[sys.argv[1]]
    for name in sys.argv[2:]:
        act(Path(name))
