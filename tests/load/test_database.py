"""Databases that exports of one process share in turn: nothing of one export is left for the next."""

from __future__ import annotations

import os

import duckdb
import pytest

from tracediff.formats import database
from tracediff.formats.database import give_up, lend


@pytest.fixture(autouse=True)
def none_kept(monkeypatch):
    kept = []
    monkeypatch.setattr(database, "_idle", kept)
    yield kept
    for _, db in kept:
        db.close()


def open_still(db) -> bool:
    try:
        db.execute("SELECT 1")
    except duckdb.Error:
        return False
    return True


def test_what_was_given_back_is_lent_again_and_empty(tmp_path, none_kept):
    first = lend(threads=1, spill=tmp_path / "one")
    first.execute("CREATE TABLE op (a INTEGER); INSERT INTO op VALUES (7); CREATE VIEW v AS FROM op")
    give_up(first)
    assert [db for _, db in none_kept] == [first]
    again = lend(threads=2, spill=tmp_path / "two")
    assert again is first and not none_kept
    assert again.execute("SELECT count(*) FROM duckdb_tables()").fetchone() == (0,)
    assert again.execute("SELECT count(*) FROM duckdb_views() WHERE NOT internal").fetchone() == (0,)
    settings = "SELECT current_setting('threads'), current_setting('temp_directory'), current_setting('preserve_insertion_order')"
    assert again.execute(settings).fetchone() == (2, str(tmp_path / "two"), False)
    again.execute("CREATE TABLE op (b VARCHAR)")
    assert again.execute("SELECT count(*) FROM op").fetchone() == (0,)
    give_up(again)


@pytest.mark.parametrize(
    "left", ["CREATE TEMP TABLE t AS SELECT 1", "CREATE TABLE memory.t AS SELECT 1", "ATTACH ':memory:' AS other",
             "CREATE TEMP VIEW t AS SELECT 1"]
)  # fmt: skip
def test_what_is_not_empty_is_not_lent_again(left, none_kept):
    db = lend(threads=1)
    db.execute(left)
    give_up(db)
    assert not none_kept and not open_still(db)


def test_what_holds_much_memory_is_closed(none_kept, monkeypatch):
    monkeypatch.setattr(database, "_SMALL", 0)
    db = lend(threads=1)
    give_up(db)
    assert not none_kept and not open_still(db)


def test_few_are_kept(none_kept):
    several = [lend(threads=1) for _ in range(4)]
    for db in several:
        give_up(db)
    assert [db for _, db in none_kept] == several[:2]
    assert [open_still(db) for db in several] == [True, True, False, False]


def test_a_fork_opens_its_own(none_kept):
    parents = lend(threads=1)
    none_kept.append((os.getpid() + 1, parents))
    own = lend(threads=1)
    assert own is not parents
    give_up(own)
    assert [db for _, db in none_kept] == [parents, own] and open_still(parents)
    assert lend(threads=1) is own
    give_up(own)


def test_one_that_is_not_lent_is_closed(none_kept):
    db = database.connect(threads=1)
    give_up(db)
    assert not none_kept and not open_still(db)
