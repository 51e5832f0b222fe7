"""What is kept between questions, how long an answer is waited for, and what a history says."""

from __future__ import annotations

import msgspec
import pytest

from benchmarks.history import points
from tests.serving import serving
from tracediff.agents import answers as a
from tracediff.agents.desk import Desk
from tracediff.agents.folders import Folders
from tracediff.errors import TracediffError
from tracediff.history.store import Store


@pytest.fixture
def runs(tmp_path):
    for name, schedule_us in (("one", 100), ("two", 130)):
        serving(steps=6, schedule_us=schedule_us).write(tmp_path / f"{name}.sqlite")
    return tmp_path


def test_long_work_goes_on_and_is_asked_for_again(runs):
    desk = Desk(Folders([runs]), cache=False, wait_s=0.001)
    asked, late = a.CompareAsked("one.sqlite", "two.sqlite"), 0
    while True:
        try:
            found = desk.compare(asked)
            break
        except TracediffError as error:
            assert error.slug == "still-running"
            late += 1
    desk.close()
    assert late > 0
    assert found.result == "r1"


@pytest.mark.slow
def test_only_the_last_results_are_kept_and_a_lost_one_is_made_again(runs, monkeypatch):
    monkeypatch.setattr("tracediff.agents.desk.KEPT", 2)
    desk = Desk(Folders([runs]), cache=False)
    asked = [a.ShowAsked("one.sqlite", steps=f"1-{last}") for last in (2, 3, 4)]
    assert [desk.show(one).result for one in asked] == ["r1", "r2", "r3"]
    with pytest.raises(TracediffError) as caught:
        desk.table(a.TableAsked("r1", "idle"))
    assert caught.value.slug == "no-such-result"
    assert [desk.show(one).result for one in asked[::-1]] == ["r3", "r2", "r4"]
    desk.close()


@pytest.mark.slow
def test_what_was_recorded_anew_is_read_anew(runs):
    desk = Desk(Folders([runs]), cache=False)
    before = desk.show(a.ShowAsked("one.sqlite")).step.mean_ns
    serving(steps=6, schedule_us=200).write(runs / "one.sqlite")
    after = desk.show(a.ShowAsked("one.sqlite")).step.mean_ns
    desk.close()
    assert after - before == pytest.approx(100_000, rel=0.01)


@pytest.mark.slow
def test_sql_that_takes_too_long_is_broken_off(runs, monkeypatch):
    monkeypatch.setattr("tracediff.agents.desk.QUERY_S", 4)
    desk = Desk(Folders([runs]), cache=False)
    many = "SELECT count(*) FROM " + ", ".join(f"range(100000) AS t{number}" for number in range(4))
    with pytest.raises(TracediffError) as caught:
        desk.query(a.QueryAsked("one.sqlite", many))
    assert caught.value.slug == "query-too-long"
    rows = desk.query(a.QueryAsked("one.sqlite", "SELECT 1 AS one")).rows
    desk.close()
    assert rows.rows == [[1]]


@pytest.mark.slow
def test_cells_and_rows_are_cut(runs):
    desk = Desk(Folders([runs]), cache=False)
    wide = desk.query(a.QueryAsked("one.sqlite", "SELECT repeat('x', 100000) AS x, range(1000) AS y")).rows
    long = desk.query(a.QueryAsked("one.sqlite", "SELECT repeat('x', 150) AS x FROM range(90)", limit=90))
    desk.close()
    (x, y) = wide.rows[0]
    assert len(x) == 160
    assert y[-2:] == [19, "and 980 more"]
    assert len(msgspec.json.encode(long)) < 7_000
    assert long.rows.left_out + len(long.rows.rows) == 90
    assert "there are more" in long.notes[0]


def test_a_history_says_what_changed(tmp_path):
    """From the 41st of 60 points on generation takes 2 % more: `points`."""
    store, made = Store(str(tmp_path / "kept")), points(60)
    for one in made:
        store.add(one)
    desk = Desk(Folders([tmp_path]), cache=False)
    found = desk.history(a.HistoryAsked("kept"))
    desk.close()
    assert (found.points, found.order) == (60, "time")
    (change,) = [dict(zip(found.changes.columns, row, strict=True)) for row in found.changes.rows]
    commits = [one.commit for one in made]
    assert change["measure"] == "generation"
    assert 38 <= commits.index(change["good"]) < commits.index(change["bad"]) <= 41
    assert change["delta"] == pytest.approx(0.02 * change["before"], rel=0.5)


def test_a_host_that_runs_ahead_is_replayed(runs):
    desk = Desk(Folders([runs]), cache=False)
    found = desk.what_if(a.WhatIfAsked("one.sqlite", ahead=True))
    desk.close()
    assert [one.kind for one in found.edits] == ["async"]
