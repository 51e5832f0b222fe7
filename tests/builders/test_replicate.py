"""A capture that was repeated holds the same thing again and again, and its steps go on counting."""

import sqlite3
from collections import Counter
from pathlib import Path

import pytest

from fixtures.builders import two_steps
from fixtures.builders.replicate import TIMED, replicate
from tests.oracle import load, periods
from tests.oracle.real import captures, unpacked

REAL = captures().get("graph_a1")


@pytest.fixture(params=["tiny", "unregistered", pytest.param("real", marks=pytest.mark.slow)])
def export(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Three captures: a small one, one whose labels are not registered strings, and a real one."""
    path = tmp_path / "one.sqlite"
    if request.param == "tiny":
        return two_steps().gil(102, "wait", -5000, 160).write(path)
    if request.param == "unregistered":
        trace = two_steps()
        for row in trace._rows["NVTX_EVENTS"]:
            texts = {number: text for text, number in trace._strings.items()}
            row["text"], row["textId"] = row.get("text") or texts[row["textId"]], None
        return trace.write(path)
    if REAL is None:
        pytest.skip("no capture graph_a1 here")
    return unpacked(REAL)


def per_copy(path: Path, sql: str, begin: int, length: int) -> list[Counter[tuple[object, ...]]]:
    """Rows (start, end, key...) by the copy that they start in, cut off where the capture begins."""
    db = sqlite3.connect(path)
    copies: dict[int, Counter[tuple[object, ...]]] = {}
    for start, end, *key in db.execute(sql):
        if end <= begin:
            continue
        start = max(start, begin)
        number = (start - begin) // length
        shift = begin + number * length
        copies.setdefault(number, Counter())[(start - shift, end - shift, *key)] += 1
    db.close()
    return [copies[number] for number in sorted(copies)]


def test_three_copies_hold_the_same(export: Path, tmp_path: Path) -> None:
    out = tmp_path / "three.sqlite"
    db = sqlite3.connect(export)
    present = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
    timed = [table for table in TIMED if table in present]
    (kernels,) = db.execute("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchone()
    (begin,) = db.execute("SELECT min(start) FROM CUPTI_ACTIVITY_KIND_RUNTIME").fetchone()
    end = max(db.execute(f'SELECT max("end") FROM {table}').fetchone()[0] for table in timed)
    assert replicate(export, out, 2 * kernels + 1) == 3
    for table in timed:
        where = "eventType IN (34, 59, 60)" if table == "NVTX_EVENTS" else "1"
        key = {"CUPTI_ACTIVITY_KIND_KERNEL": "shortName, graphNodeId, gridX", "NVTX_EVENTS": "globalTid"}
        sql = f'SELECT start, "end", {key.get(table, "1")} FROM {table} WHERE {where}'
        copies = per_copy(out, sql, begin, end - begin)
        assert len(copies) == 3 and copies[0] and copies[0] == copies[1] == copies[2], table
        original = db.execute(f"SELECT count(*) FROM {table} WHERE NOT ({where})").fetchone()
        repeated = (
            sqlite3.connect(out).execute(f"SELECT count(*) FROM {table} WHERE NOT ({where})").fetchone()
        )
        assert original == repeated, table
    db.close()


def test_steps_go_on_counting_and_ids_stay_unique(export: Path, tmp_path: Path) -> None:
    out = tmp_path / "three.sqlite"
    one = periods(load(export))
    (kernels,) = sqlite3.connect(export).execute("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchone()
    replicate(export, out, 3 * kernels)
    three = periods(load(out))
    steps = len(one) + 1  # the last step of a capture has no end of its own
    assert [period.number for period in three] == list(range(one[0].number, one[0].number + 3 * steps - 1))
    assert all(period.residual_ns == 0 for period in three)
    for number, period in enumerate(three):
        if number % steps < len(one):
            same = one[number % steps]
            assert (period.categories, period.kernels) == (same.categories, same.kernels), period.number
    db = sqlite3.connect(out)
    sql = "SELECT count(*), count(DISTINCT correlationId) FROM CUPTI_ACTIVITY_KIND_RUNTIME"
    total, distinct = db.execute(sql).fetchone()
    assert total == distinct
    db.close()


def test_a_capture_that_is_large_enough_stays_one(tmp_path: Path) -> None:
    export = two_steps().write(tmp_path / "one.sqlite")
    assert replicate(export, tmp_path / "out.sqlite", 1) == 1
    one, out = (sqlite3.connect(path) for path in (export, tmp_path / "out.sqlite"))
    assert list(one.iterdump()) == list(out.iterdump())
    one.close()
    out.close()


def test_a_capture_without_kernels_is_refused(tmp_path: Path) -> None:
    trace = two_steps().write(tmp_path / "one.sqlite")
    db = sqlite3.connect(trace)
    db.execute("DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL")
    db.commit()
    db.close()
    with pytest.raises(ValueError, match="holds no kernels to repeat"):
        replicate(trace, tmp_path / "out.sqlite", 10)
