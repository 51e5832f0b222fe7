"""An NVTX range with a number is found wherever it lies, by one thread or several."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from tracediff.formats import nsys as payload_found
from tracediff.formats.nsys import has_payloads
from tracediff.formats.schema import Schema

COLUMNS = ("domainId", "uint64Value", "jsonTextId")
SCHEMA = Schema({"NVTX_EVENTS": frozenset(COLUMNS)}, "")
ROWS = 40


def export(path: Path, *rows: tuple[int | None, ...]) -> Path:
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE NVTX_EVENTS (domainId INT, uint64Value INT, jsonTextId INT)")
        db.executemany("INSERT INTO NVTX_EVENTS VALUES (?, ?, ?)", rows)
        db.commit()
    return path


@pytest.fixture
def db() -> duckdb.DuckDBPyConnection:
    """Domain 7 is the GIL's trace; three threads, of which each is worth its while."""
    db = duckdb.connect(config={"threads": 3})
    db.execute("CREATE TABLE nvtx_text AS FROM (VALUES (0, 'range'), (7, 'gil_hold')) AS t(domain, meaning)")
    return db


@pytest.mark.parametrize("worth", [1, 1_000_000], ids=["threads", "one"])
@pytest.mark.parametrize("column", [1, 2])
def test_any_row_is_found(db, tmp_path, monkeypatch, worth, column):
    monkeypatch.setattr(payload_found, "_WORTH_THREADS", worth)
    assert not has_payloads(db, export(tmp_path / "none.sqlite", *[(0, None, None)] * ROWS), SCHEMA)
    for at in range(ROWS):
        rows: list[tuple[int | None, ...]] = [(0, None, None)] * ROWS
        rows[at] = (0, 64, None) if column == 1 else (0, None, 3)
        assert has_payloads(db, export(tmp_path / f"{at}.sqlite", *rows), SCHEMA)


def test_the_trace_of_the_gil_is_left_out(db, tmp_path):
    assert not has_payloads(db, export(tmp_path / "a.sqlite", (7, 1, None)), SCHEMA)
    assert has_payloads(db, export(tmp_path / "b.sqlite", (7, 1, None), (None, 1, None)), SCHEMA)


def test_the_stretches_are_all_rows_once(tmp_path, monkeypatch):
    monkeypatch.setattr(payload_found, "_WORTH_THREADS", 1)
    path = export(tmp_path / "a.sqlite", *[(0, None, None)] * ROWS)
    parts = payload_found._parts(path, 3)
    assert len(parts) == 3
    with closing(sqlite3.connect(path)) as source:
        source.execute("DELETE FROM NVTX_EVENTS WHERE rowid % 5 = 0")
        count = sum(
            source.execute(f"SELECT count(*) FROM NVTX_EVENTS WHERE {part}").fetchone()[0] for part in parts
        )
    assert count == ROWS - ROWS // 5


def test_a_table_without_row_numbers(db, tmp_path, monkeypatch):
    monkeypatch.setattr(payload_found, "_WORTH_THREADS", 1)
    path = tmp_path / "a.sqlite"
    with closing(sqlite3.connect(path)) as source:
        source.execute(
            "CREATE TABLE NVTX_EVENTS (domainId INT, uint64Value INT, jsonTextId INT, n INTEGER PRIMARY KEY) WITHOUT ROWID"
        )
        source.execute("INSERT INTO NVTX_EVENTS VALUES (0, NULL, NULL, 1), (0, 5, NULL, 2)")
        source.commit()
    assert has_payloads(db, path, SCHEMA)


def test_a_column_that_hides_the_row_numbers(db, tmp_path, monkeypatch):
    monkeypatch.setattr(payload_found, "_WORTH_THREADS", 1)
    path = tmp_path / "a.sqlite"
    with closing(sqlite3.connect(path)) as source:
        source.execute("CREATE TABLE NVTX_EVENTS (domainId INT, uint64Value INT, jsonTextId INT, rowid TEXT)")
        source.executemany("INSERT INTO NVTX_EVENTS VALUES (0, ?, NULL, ?)", [(None, "a"), (5, None)])
        source.commit()
    schema = Schema({"NVTX_EVENTS": frozenset((*COLUMNS, "rowid"))}, "")
    assert has_payloads(db, path, schema)
