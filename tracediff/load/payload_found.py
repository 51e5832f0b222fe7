"""Whether an export has numbers in its NVTX ranges: asked of SQLite itself, for most exports have none."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import duckdb

from tracediff.load.database import identifier
from tracediff.load.nsys_schema import Schema, open_export

# a number may be the GIL's trace in one process and something else in another
_GIL_DOMAINS = "SELECT domain FROM nvtx_text GROUP BY domain HAVING bool_and(starts_with(meaning, 'gil_'))"
_PAYLOADS = {
    "uint64value", "int64value", "uint32value", "int32value", "doublevalue", "floatvalue", "jsontext", "jsontextid",
}  # fmt: skip
_WORTH_THREADS = 1_000_000  # rows: a tenth of a second


def has_payloads(db: duckdb.DuckDBPyConnection, path: Path, schema: Schema) -> bool:
    """Whether an NVTX range has one. Asked of SQLite itself: where none has, that takes a third of a scan by DuckDB.

    The GIL's trace, which is most rows of an export that has it, carries none: its domains are left out.
    """
    spelled = {name.lower(): name for name in schema.tables.get("NVTX_EVENTS", ())}
    columns = [name for lower, name in spelled.items() if lower in _PAYLOADS]
    if path.is_dir() or not columns:
        return bool(columns)
    known = " OR ".join(f"{identifier(name)} IS NOT NULL" for name in columns)
    of_gil = [int(domain) for (domain,) in db.execute(_GIL_DOMAINS).fetchall()]
    if of_gil and "domainid" in spelled:
        domain = f"coalesce({identifier(spelled['domainid'])}, 0)"
        known = f"{domain} NOT IN ({', '.join(map(str, of_gil))}) AND ({known})"

    def among(rows: str) -> bool:
        with closing(open_export(path)) as source:
            query = f"SELECT EXISTS (SELECT 1 FROM NVTX_EVENTS WHERE ({known}) AND {rows})"
            return bool(source.execute(query).fetchone()[0])

    setting = db.execute("SELECT current_setting('threads')").fetchone()
    assert setting is not None
    many = int(setting[0])
    parts = ["1"] if many == 1 or "rowid" in spelled else _parts(path, many)
    if len(parts) == 1:
        return among(parts[0])
    with ThreadPoolExecutor(len(parts)) as pool:
        return any(pool.map(among, parts))


def _parts(path: Path, many: int) -> list[str]:
    """Conditions for stretches of NVTX_EVENTS, to be read by as many threads; one for all of it where it is short."""
    with closing(open_export(path)) as source:
        try:
            # each by itself: both at once would be a scan of all rows
            low, high = source.execute(
                "SELECT (SELECT min(rowid) FROM NVTX_EVENTS), (SELECT max(rowid) FROM NVTX_EVENTS)"
            ).fetchone()
        except sqlite3.OperationalError:  # no table of rows with numbers, but one that another tool wrote
            return ["1"]
    if low is None or high - low < _WORTH_THREADS:  # a view's rows have none in older SQLite
        return ["1"]
    edges = [low + (high - low) * part // many for part in range(1, many)]
    ranges = pairwise([f"{low}", *map(str, edges), f"{high + 1}"])
    return [f"rowid >= {begin} AND rowid < {end}" for begin, end in ranges]
