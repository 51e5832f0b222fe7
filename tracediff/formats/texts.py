"""Tables with names that are not UTF-8: DuckDB reads none of their rows. What can be read of such a name is kept.

The texts are read as bytes; those that are UTF-8 are themselves, of the others Python makes texts with replacement characters.
"""

from __future__ import annotations

from pathlib import Path

import duckdb

from tracediff.formats.database import identifier, quoted
from tracediff.formats.parquet_text import without_texts
from tracediff.formats.schema import STAGED, Schema


def mend(db: duckdb.DuckDBPyConnection, path: Path, table: str, schema: Schema, folder: Path) -> int:
    """Have `schema.relation(table)` give texts for all rows; how many different texts had bytes that are not UTF-8.

    `folder` takes a copy of a table's file, to be there as long as the relation. Raises what DuckDB raises.
    """
    present = {column.lower(): column for column in schema.tables.get(table, frozenset())}
    known = {
        identifier(present[column.lower()]): kind == "VARCHAR"
        for column, kind in STAGED[table].items()
        if column.lower() in present
    }
    texts = [column for column, is_text in known.items() if is_text]
    others = [column for column, is_text in known.items() if not is_text]
    if schema.relations:
        source, raw = path / f"{table}.parquet", folder / f"{table}.parquet"
        without_texts(source, raw)
        rows, read = schema.relation(table).replace(quoted(str(source)), quoted(str(raw))), "{}"
    else:
        # its scanner knows no text as bytes, so SQLite spells them
        hexed = (f"CASE WHEN {one} IS NOT NULL THEN hex({one}) END AS {one}" for one in texts)
        query = f"SELECT {', '.join([*others, *hexed])} FROM {identifier(table)}"
        rows, read = f"sqlite_query('source', {quoted(query)})", "unhex({})"
    mended, count = identifier(f"mended_{table}"), 0
    db.execute(f"CREATE OR REPLACE TEMP TABLE {mended} (raw BLOB, said VARCHAR)")
    for column in texts:
        as_bytes = read.format(column)
        odd = db.execute(
            f"SELECT DISTINCT {as_bytes} FROM {rows} WHERE {column} IS NOT NULL AND try(decode({as_bytes})) IS NULL"
        ).fetchall()
        values = [(raw, raw.decode("utf-8", "replace")) for (raw,) in odd]
        if values:
            db.executemany(f"INSERT INTO {mended} VALUES (?, ?)", values)
        count += len(values)
    parts, joins = [f"t.{one}" for one in others], []
    for number, column in enumerate(texts):
        as_bytes = read.format(f"t.{column}")
        parts.append(f"coalesce(try(decode({as_bytes})), m{number}.said) AS {column}")
        joins.append(
            f"LEFT JOIN (SELECT raw, any_value(said) AS said FROM {mended} GROUP BY raw) AS m{number} ON m{number}.raw = {as_bytes}"
        )
    schema.mended[table] = f"(SELECT {', '.join(parts)} FROM {rows} AS t {' '.join(joins)})"
    return count
