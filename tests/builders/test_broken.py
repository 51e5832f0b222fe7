"""The broken files are broken in the way that their names say."""

import sqlite3
from pathlib import Path

import pytest

from fixtures.builders import BROKEN, HOSTILE_NAMES

KERNEL, RUNTIME = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME"


def names(path: Path) -> set[str]:
    db = sqlite3.connect(path)
    found = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
    db.close()
    return found


def count(path: Path, sql: str) -> int:
    db = sqlite3.connect(path)
    (number,) = db.execute(sql).fetchone()
    db.close()
    return int(number)


@pytest.mark.parametrize("name", BROKEN)
def test_each_writes_the_file_it_returns(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.sqlite"
    assert BROKEN[name](path) == path
    assert path.exists()


@pytest.mark.parametrize("name", ["not_sqlite", "truncated"])
def test_these_are_no_databases(name: str, tmp_path: Path) -> None:
    path = BROKEN[name](tmp_path / "t.sqlite")
    with pytest.raises(sqlite3.DatabaseError):
        count(path, f"SELECT sum(start) FROM {KERNEL}")


def test_these_have_no_tables(tmp_path: Path) -> None:
    assert names(BROKEN["zero_tables"](tmp_path / "zero.sqlite")) == set()
    assert (tmp_path / "zero.sqlite").read_bytes().startswith(b"SQLite format 3")
    assert BROKEN["empty_file"](tmp_path / "empty.sqlite").stat().st_size == 0


def test_what_is_missing(tmp_path: Path) -> None:
    assert count(BROKEN["no_kernels"](tmp_path / "a.sqlite"), f"SELECT count(*) FROM {KERNEL}") == 0
    assert not {
        name for name in names(BROKEN["nvtx_only"](tmp_path / "b.sqlite")) if "CUPTI_ACTIVITY" in name
    }
    found = names(BROKEN["runtime_without_kernel"](tmp_path / "c.sqlite"))
    assert RUNTIME in found and KERNEL not in found


def test_what_is_too_much(tmp_path: Path) -> None:
    found = names(BROKEN["foreign_tables"](tmp_path / "t.sqlite"))
    assert {"my_kernels", "_cache", 'odd "name"; --', "kernels", "_kernel_start", KERNEL} <= found


def test_some_kernels_have_no_launch(tmp_path: Path) -> None:
    path = BROKEN["kernels_without_launch"](tmp_path / "t.sqlite")
    launched = f"SELECT count(*) FROM {KERNEL} JOIN {RUNTIME} USING (correlationId)"
    assert (count(path, launched), count(path, f"SELECT count(*) FROM {KERNEL}")) == (3, 6)


def test_hostile_names_are_written_as_they_are(tmp_path: Path) -> None:
    path = BROKEN["hostile_names"](tmp_path / "t.sqlite")
    db = sqlite3.connect(path)
    db.text_factory = bytes
    written = {value for (value,) in db.execute("SELECT value FROM StringIds")}
    db.close()
    expected = {name.encode() for name in HOSTILE_NAMES} - {b"../../etc/passwd"} | {b"k\xfff\xfe"}
    assert expected <= written
