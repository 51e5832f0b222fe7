"""What is put into a capture is named by the first screen (benchmarks/plants.py)."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks.plants import PLANTS, longer, measured

CAPTURE = Path(__file__).parent.parent / "fixtures" / "captures" / "eager_a1.sqlite.xz"


def test_times_move_and_nothing_else(tmp_path: Path) -> None:
    """Instants of 10 ns and of 500: what begins and ends behind both is 510 later, what spans the second alone longer by that."""
    with closing(sqlite3.connect(tmp_path / "a.sqlite")) as db:
        db.execute("CREATE TABLE work (start, end, name)")
        db.executemany(
            "INSERT INTO work VALUES (?, ?, ?)", [(0, 99, "a"), (101, 999, "b"), (2000, None, "c")]
        )
        later = longer(db, [(1000, 500), (100, 10)])
        assert [later(time) for time in (100, 101, 1001, None)] == [100, 111, 1511, None]
        found = db.execute("SELECT * FROM work").fetchall()
        assert found == [(0, 99, "a"), (111, 1009, "b"), (2510, None, "c")]


@pytest.mark.slow
def test_every_plant_is_named_with_its_size() -> None:
    found = measured([str(CAPTURE)])
    assert len(found) == sum(len(one.often) for one in PLANTS)
    assert [(one.what, one.every, one.screen) for one in found if not (one.named and one.sized)] == []
