"""Several exports in memory at once: as many as a budget holds."""

from __future__ import annotations

import tempfile
import threading

import pytest

from tests.tiny import one_gap
from tracediff.errors import TracediffError
from tracediff.execution import run as memory
from tracediff.execution.run import Budget, Reading, needed, reduce_sides
from tracediff.formats.inputs import resolve


class Waiting:
    """Asks for a lease in a thread of its own."""

    def __init__(self, budget: Budget, size: int) -> None:
        self.got, self._done = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._hold, args=(budget, size), daemon=True)
        self._thread.start()

    def _hold(self, budget: Budget, size: int) -> None:
        with budget.lease(size):
            self.got.set()
            self._done.wait(30)

    def finish(self) -> None:
        self._done.set()
        self._thread.join(30)


def test_a_lease_waits_until_enough_was_given_back():
    budget = Budget(100)
    with budget.lease(60) as first:
        second = Waiting(budget, 50)
        assert not second.got.wait(0.2)  # 60 + 50 > 100
        first.shrink(55)
        assert not second.got.wait(0.2)  # 55 + 50 > 100
        first.shrink(50)
        assert second.got.wait(30)
    second.finish()


def test_shrinking_never_takes_more():
    budget = Budget(100)
    with budget.lease(40) as held:
        held.shrink(90)
        assert held.size == 40


def test_what_exceeds_the_budget_runs_alone():
    budget = Budget(100)
    with budget.lease(10):
        large = Waiting(budget, 500)
        assert not large.got.wait(0.2)
    assert large.got.wait(30)
    small = Waiting(budget, 1)
    assert not small.got.wait(0.2)
    large.finish()
    assert small.got.wait(30)
    small.finish()


def test_how_many_fit_together():
    assert [Budget(100).together(size) for size in (0, 33, 34, 50, 51, 101)] == [1 << 16, 3, 2, 2, 1, 1]


@pytest.mark.parametrize(("large", "a_range"), [(1 << 30, 40), (1, 8)])
def test_needed_counts_the_rows_of_the_large_tables(large, a_range, tmp_path, monkeypatch):
    """Tables of a large export lie in a file."""
    monkeypatch.setattr(memory, "LARGE", large)
    path = one_gap().write(tmp_path / "trace.sqlite")
    # two kernels, two calls, and two ranges with the name of their domain
    assert needed(path) == (3 * a_range + 2 * 125 + 2 * 40, 3 * 2 + 2 * 125 + 2 * 30)


def test_needed_leaves_complaints_to_the_loader(tmp_path):
    bad = tmp_path / "bad.sqlite"
    bad.write_bytes(b"no database")
    assert needed(bad) == (11 * 20, 11 * 20)
    assert needed(tmp_path / "missing.sqlite") == (0, 0)


def test_the_first_bad_file_is_the_one_that_is_named(tmp_path, monkeypatch):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    runs = tmp_path / "runs"
    runs.mkdir()
    one_gap().write(runs / "a.sqlite")
    for name in ("b.sqlite", "c.sqlite"):
        (runs / name).write_bytes(b"SQLite format 3\0" + bytes(100))
    with pytest.raises(TracediffError) as caught:
        reduce_sides([resolve(str(runs))], Reading())
    assert "b.sqlite" in str(caught.value)
    assert not list(scratch.iterdir())
