"""Databases that exports of one process use in turn: nothing of one export is left for the next."""

from __future__ import annotations

import duckdb
import pytest

from tracediff.formats import database
from tracediff.formats.database import connect, in_memory, reuse


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
