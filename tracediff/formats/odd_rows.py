"""Rows whose times cannot be: without a start or an end, or with an end before the start.

nsys writes none of them, but for ranges that were open when the recording ended. A few are set right and said; an export with more
of them is refused, for its sums would be too small. What is counted was read already: no row is read a second time for it.
"""

from __future__ import annotations

import duckdb

from tracediff.errors import TracediffError
from tracediff.model import Note

SLUG = "odd-rows"
_ONE_IN = 1000  # rows of a table: where more are odd, nothing that is measured of it is sure
_EDGE_NS = 10**9  # before and after the recording: nsys keeps what is going on at its ends
# step that makes a table of columns start_ns and end_ns -> the table, and the tables of the export that it is made of
_MADE = {
    "formats/op": ("op_row", ("KERNEL", "MEMCPY", "MEMSET", "GRAPH_TRACE")),
    "formats/api_call": ("api_call", ("RUNTIME",)),
}
# a call still open when the capture ended has no end: the last one of a thread
_OPEN = """
SELECT count(*) FROM (FROM api_call QUALIFY row_number() OVER (PARTITION BY tid ORDER BY start_ns DESC) = 1)
WHERE start_ns IS NOT NULL AND end_ns IS NULL
"""


def set_right(db: duckdb.DuckDBPyConnection, step: str, name: str) -> list[Note]:
    """Say what is odd in the rows that a step has just read, and set them right: without times they go, backward they have no length.

    `name`: what messages call the export. Raises `TracediffError`: bad-time.
    """
    if step == "formats/nvtx":
        return _of_ranges(db, name)
    if step in ("formats/os_call", "formats/mpi_call"):  # of which only those that take time are kept
        (found,) = db.execute("FROM odd_call").fetchall()
        db.execute("DROP TABLE odd_call")
        return _said(name, "OSRT_API" if step == "formats/os_call" else "MPI_*_EVENTS", *found)
    return _of_rows(db, name, *_MADE[step]) if step in _MADE else []


def outside(db: duckdb.DuckDBPyConnection, name: str) -> list[Note]:
    """Say how much began outside of the recording, as far as the export says how long that took.

    Its beginning is time 0, but where all times are of another clock. Ranges are left out: they may have begun before.
    """
    ((duration,),) = db.execute("SELECT max(duration) FROM staged_ANALYSIS_DETAILS").fetchall()
    if duration is None or not 0 < duration < 1 << 53:
        return []
    ((rows, beyond),) = db.execute(
        f"SELECT count(*), count(*) FILTER (start_ns NOT BETWEEN -{_EDGE_NS} AND {duration + _EDGE_NS})"
        " FROM (SELECT start_ns FROM op_row UNION ALL SELECT start_ns FROM api_call)"
    ).fetchall()
    if beyond in (0, rows):
        return []
    said = f"of {rows:,} kernels, copies and calls {beyond:,} began outside of its {duration / 1e9:,.3g} s of recording"
    return [Note(SLUG, f"{name}: {said}")]


def _of_rows(db: duckdb.DuckDBPyConnection, name: str, table: str, sources: tuple[str, ...]) -> list[Note]:
    odd = "start_ns IS NULL OR end_ns IS NULL OR end_ns < start_ns"
    if db.execute(f"SELECT 1 FROM {table} WHERE {odd} LIMIT 1").fetchone() is None:
        return []
    notes, calls = [], table == "api_call"
    for source in sources:
        ((rows, timeless, backward),) = db.execute(
            'SELECT count(*), count(*) FILTER ("start" IS NULL OR "end" IS NULL), count(*) FILTER ("end" < "start")'
            f" FROM staged_CUPTI_ACTIVITY_KIND_{source}"
        ).fetchall()
        if calls:
            timeless -= db.execute(_OPEN).fetchall()[0][0]
        notes += _said(name, f"CUPTI_ACTIVITY_KIND_{source}", rows, timeless, backward)
    timeless_row = "start_ns IS NULL" if calls else "start_ns IS NULL OR end_ns IS NULL"
    db.execute(f"DELETE FROM {table} WHERE {timeless_row}")
    db.execute(f"UPDATE {table} SET end_ns = start_ns WHERE end_ns IS NULL OR end_ns < start_ns")
    return notes


def _of_ranges(db: duckdb.DuckDBPyConnection, name: str) -> list[Note]:
    ((rows, still_open, torn, backward),) = db.execute("FROM odd_range").fetchall()
    db.execute("DROP TABLE odd_range")
    notes = _said(name, "NVTX_EVENTS", rows, torn, backward)
    if not torn and still_open * _ONE_IN > rows:
        said = f"{still_open:,} of {rows:,} ranges in NVTX_EVENTS were never closed, and are left out"
        notes.append(Note(SLUG, f"{name}: {said}"))
    return notes


def _said(name: str, table: str, rows: int, timeless: int, backward: int) -> list[Note]:
    if not timeless and not backward:
        return []
    found = ((timeless, "have no start or no end"), (backward, "end before they start"))
    said = " and ".join(f"{count:,} {words}" for count, words in found if count)
    message = f"{name}: of {rows:,} rows in {table} {said}"
    if (timeless + backward) * _ONE_IN > rows:
        raise TracediffError("bad-time", message, fix="export it again with the nsys that recorded it")
    return [Note(SLUG, message)]
