"""SQLite files that others wrote: nothing in them is run, and no damaged page gives a number."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from fixtures.builders import two_steps
from fixtures.builders.whole import whole
from tracediff.errors import TracediffError
from tracediff.execution.run import reduce_file
from tracediff.execution.sides import Reading
from tracediff.formats import untrusted
from tracediff.formats.schema import READ, inspect
from tracediff.formats.untrusted import DAMAGED, TOO_COSTLY, examine, open_export

ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)"
PAGE = 4096


@pytest.fixture
def export(tmp_path):
    return two_steps().write(tmp_path / "trace.sqlite")


def edit(path, *statements):
    with closing(sqlite3.connect(path)) as db:
        for one in statements:
            db.execute(one)
        db.commit()
    return path


@pytest.mark.parametrize(
    ("statements", "what"),
    [
        ((f"CREATE VIEW StringIds AS {ENDLESS} SELECT x AS id, 'k' AS value FROM c",), "StringIds is a view"),
        (("CREATE VIEW stringids AS SELECT hex(zeroblob(200000000)) AS value",), "stringids is a view"),
        (("CREATE VIRTUAL TABLE StringIds USING fts3(id, value)",), "StringIds is a virtual table"),
        (
            ("CREATE TABLE StringIds (id INTEGER, value AS (hex(zeroblob(100000000))))",),
            "StringIds has computed columns",
        ),
        (
            (
                "CREATE TABLE StringIds (id INTEGER, value TEXT)",
                "CREATE TRIGGER t AFTER INSERT ON StringIds BEGIN SELECT 1; END",
            ),
            "StringIds has a trigger",
        ),
    ],
    ids=["recursion", "other case", "virtual", "computed", "trigger"],
)
def test_nothing_of_a_table_that_nsys_writes_is_run(export, statements, what):
    edit(export, "ALTER TABLE StringIds RENAME TO hidden", *statements)
    with pytest.raises(TracediffError) as raised:
        reduce_file(export, Reading(threads=1))
    assert raised.value.slug == "not-plain-table" and f"trace.sqlite: {what};" in raised.value.message


@pytest.mark.parametrize("root", ["rootpage", "0"])
def test_a_view_that_says_it_is_a_table(export, root):
    edit(
        export,
        "PRAGMA writable_schema = ON",
        f"UPDATE sqlite_master SET rootpage = {root}, sql = 'CREATE VIEW StringIds AS {ENDLESS} SELECT x FROM c'"
        " WHERE name = 'StringIds'",
    )
    with pytest.raises(TracediffError) as raised:
        inspect(export)
    assert raised.value.slug in ("not-plain-table", "truncated")  # which, versions of SQLite see differently


def test_objects_of_other_tools_are_left_alone(export):
    edit(export, f"CREATE VIEW mine AS {ENDLESS} SELECT x FROM c", "CREATE VIRTUAL TABLE other USING fts3(a)")
    found = inspect(export).tables
    assert "StringIds" in found and not {"mine", "other"} & found.keys()


@pytest.mark.slow
def test_a_damaged_page_gives_no_number(export, tmp_path):
    """Every third page, filled with zeros and with ones in turns."""
    content, whole = export.read_bytes(), reduce_file(export, Reading(threads=1))
    damaged, refused = tmp_path / "damaged.sqlite", 0
    for page in range(0, len(content) // PAGE, 3):
        raw = bytearray(content)
        raw[page * PAGE : (page + 1) * PAGE] = bytes([page % 2 * 255]) * PAGE
        damaged.write_bytes(raw)
        try:
            found = reduce_file(damaged, Reading(threads=1))
        except TracediffError as error:
            assert error.slug in ("truncated", "not-sqlite") and "damaged.sqlite" in error.message
            refused += 1
        else:  # of a table that is not read
            assert found.periods.equals(whole.periods) and found.kernels.equals(whole.kernels)
    assert refused > 3


def test_a_table_whose_pages_go_round_in_a_circle(export):
    with closing(sqlite3.connect(export)) as db:
        (root,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'NVTX_EVENTS'").fetchone()
    raw = bytearray(export.read_bytes())
    # an interior page (5) without cells, whose only child is itself
    raw[(root - 1) * PAGE : (root - 1) * PAGE + 12] = (
        b"\5\0\0\0\0" + PAGE.to_bytes(2, "big") + b"\0" + root.to_bytes(4, "big")
    )
    export.write_bytes(raw)
    found = examine(export, ["NVTX_EVENTS"])
    assert found.problem == DAMAGED and found.said.startswith("NVTX_EVENTS: ")
    assert examine(export, ["StringIds"]).problem == ""  # nobody reads it


def test_a_row_of_zeros_is_damage(export):
    """A cell that is wiped is a row of NULL, where the table allows none."""
    with closing(sqlite3.connect(export)) as db:
        (made,) = db.execute("SELECT sql FROM sqlite_master WHERE name = 'NVTX_EVENTS'").fetchone()
    assert "NOT NULL" in made
    set_sql = "UPDATE sqlite_master SET sql = '{}' WHERE name = 'NVTX_EVENTS'"
    edit(export, "PRAGMA writable_schema = ON", set_sql.format(made.replace("NOT NULL", "")))
    edit(export, "UPDATE NVTX_EVENTS SET start = NULL WHERE rowid = 1")
    edit(export, "PRAGMA writable_schema = ON", set_sql.format(made))
    assert examine(export, list(READ)).problem == DAMAGED


def test_what_takes_too_long_is_broken_off(export, monkeypatch):
    monkeypatch.setattr(untrusted, "_STEPS", 2_000_000)
    monkeypatch.setattr(untrusted, "_STEPS_PER_BYTE", 0)
    with closing(open_export(export)) as db, pytest.raises(sqlite3.OperationalError, match="interrupted"):
        db.execute(f"{ENDLESS} SELECT max(x) FROM c").fetchall()
    with closing(open_export(export)) as db, pytest.raises(sqlite3.DataError, match="too big"):
        db.execute(f"SELECT zeroblob({untrusted.LONGEST_VALUE + 1})").fetchall()


def test_a_process_that_is_ended_is_an_error_of_the_file(export, monkeypatch, tmp_path):
    killed = tmp_path / "python"
    killed.write_text("#!/bin/sh\nkill -KILL $$\n")
    killed.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(killed))
    assert examine(export, []).problem == TOO_COSTLY
    with pytest.raises(TracediffError) as raised:
        inspect(export)
    assert raised.value.slug == "read-too-costly"
    killed.write_text("#!/bin/sh\nsleep 9\n")
    monkeypatch.setattr(untrusted, "WALL_S", 0.1)
    assert examine(export, []).problem == TOO_COSTLY


def test_a_whole_page_in_another_place(tmp_path):
    """Each table passes SQLite's own check: here those of copies and of memsets hold each other's rows."""
    export = whole().write(tmp_path / "export.sqlite")
    tables = ("CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET")
    with closing(sqlite3.connect(export)) as db:
        roots = [
            db.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (name,)).fetchone()[0]
            for name in tables
        ]
    raw = export.read_bytes()
    one, other = (raw[(root - 1) * PAGE : root * PAGE] for root in roots)

    def examined(first: bytes, second: bytes):
        content = bytearray(raw)
        for root, page in zip(roots, (first, second), strict=True):
            content[(root - 1) * PAGE : root * PAGE] = page
        export.write_bytes(content)
        return examine(export, tables)

    assert examined(one, other).problem == ""
    assert "rows of another table" in examined(other, one).said  # memsets have fewer columns
    assert "rows of another table" in examined(other, other).said
    assert "rows of another table" in examined(one, one).said
    export.write_bytes(raw)
    forged = f"UPDATE sqlite_master SET rootpage = {roots[0]} WHERE name = '{tables[1]}'"
    edit(export, "PRAGMA writable_schema = ON", forged)
    assert "is another table's too" in examine(export, tables).said


def test_columns_that_were_added_are_no_damage(export):
    edit(export, "ALTER TABLE NVTX_EVENTS ADD COLUMN newer INTEGER")
    assert examine(export, ["NVTX_EVENTS"]).problem == ""
