"""Databases that exports of one process use in turn: nothing of one export is left for the next."""

from __future__ import annotations

import duckdb
import numpy as np
import polars as pl
import pytest

from tracediff.formats import database
from tracediff.formats.database import connect, create_table, frame, in_memory, reuse


@pytest.fixture(autouse=True)
def none_idle(monkeypatch):
    monkeypatch.setattr(database, "_idle", [])


def test_one_that_was_used_is_used_again_and_empty():
    first = in_memory()
    first.execute("CREATE TABLE op (a INTEGER); INSERT INTO op VALUES (7); CREATE VIEW v AS FROM op")
    reuse(first)
    again = in_memory()
    assert again is first and in_memory() is not first
    assert again.execute("SELECT count(*) FROM duckdb_tables()").fetchone() == (0,)
    assert again.execute("SELECT count(*) FROM duckdb_views() WHERE NOT internal").fetchone() == (0,)


def test_any_other_is_closed(tmp_path):
    for db in (connect(threads=1), connect(file=tmp_path / "tables.duckdb")):
        reuse(db)
        with pytest.raises(duckdb.Error):
            db.execute("SELECT 1")


def test_a_frame_has_four_types_and_a_hash_keeps_its_bits():
    query = "SELECT 18446744073709551615::UBIGINT AS hash, sum(a)::HUGEINT AS total, true AS yes, 'x' AS word, NULL::INTEGER AS none FROM range(3) t(a)"
    found = frame(connect(threads=1), query)
    assert found.row(0) == (-1, 3.0, True, "x", None)
    assert found.dtypes == [pl.Int64, pl.Float64, pl.Boolean, pl.String, pl.Int64]


def test_a_table_of_arrays_has_their_types():
    db = connect(threads=1)
    words = pl.Series(["a\0b", None], dtype=pl.String)
    create_table(db, "made", {"number": np.array([1, 2], np.int32), "word": words})
    assert db.execute("FROM made ORDER BY number").fetchall() == [(1, "a\0b"), (2, None)]
    assert [kind for _, kind, *_ in db.execute("DESCRIBE made").fetchall()] == ["INTEGER", "VARCHAR"]
