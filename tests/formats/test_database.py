"""Databases that exports of one process have side by side: nothing of one is left, nor seen by another."""

from __future__ import annotations

import duckdb
import pytest

from fixtures.builders import TraceBuilder
from tracediff.formats import database
from tracediff.formats.database import attached, connect, free, in_memory


@pytest.fixture(autouse=True)
def none_shared(monkeypatch):
    monkeypatch.setattr(database, "_shared", None)


def _names(db):
    return {
        name
        for (name,) in db.execute(
            "SELECT database_name FROM duckdb_databases() WHERE NOT internal"
        ).fetchall()
    }


def test_tables_are_of_one_and_gone_with_it():
    first, second = in_memory(), in_memory()
    first.execute("CREATE TABLE op (a INTEGER); INSERT INTO op VALUES (7); CREATE VIEW v AS FROM op")
    second.execute("CREATE TABLE op (b VARCHAR)")
    assert first.execute("FROM op").fetchall() == [(7,)] and second.execute("FROM op").fetchall() == []
    assert len(_names(second)) == 3  # both, and the engine's own
    free(first)
    with pytest.raises(duckdb.Error):
        first.execute("SELECT 1")
    assert len(_names(second)) == 2
    assert second.execute("SELECT count(*) FROM duckdb_tables()").fetchone() == (1,)


def test_a_file_that_is_still_attached_is_let_go(tmp_path):
    export = TraceBuilder().write(tmp_path / "a.sqlite")
    db, other = in_memory(), in_memory()
    name = attached(db, export)
    assert name in _names(other)
    free(db)
    assert name not in _names(other)
    assert attached(other, export) != name


def test_an_engine_that_an_error_ended_is_not_used_again():
    in_memory()
    database._shared.close()
    assert in_memory().execute("SELECT 1").fetchone() == (1,)


def test_any_other_is_closed(tmp_path):
    for db in (connect(threads=1), connect(file=tmp_path / "tables.duckdb")):
        free(db)
        with pytest.raises(duckdb.Error):
            db.execute("SELECT 1")
