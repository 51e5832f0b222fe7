"""Exports reduced in other processes: the same bytes, the same errors, nothing left behind."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest
from tracediff.execution.pool import pool

from tests.tiny import one_gap
from tracediff.errors import TracediffError
from tracediff.execution import pool as pools
from tracediff.execution.cache import pack
from tracediff.execution.run import Budget, Reading, needed, reduce_file, reduce_sides
from tracediff.formats.inputs import resolve


@pytest.fixture
def paths(tmp_path):
    folder = tmp_path / "runs"
    folder.mkdir()
    return [one_gap().write(folder / f"run{number}.sqlite") for number in range(3)]


def test_a_worker_gives_the_same_bytes(paths):
    told = []
    with pool() as workers:
        found = [
            workers.reduce(path, Reading(keep=True, threads=1), emptied=lambda: told.append(1))
            for path in paths
        ]
        assert len(pools._running) == 1  # used again
    assert not pools._running
    assert len(told) == 3
    assert [pack(one) for one in found] == [pack(reduce_file(path, Reading(keep=True))) for path in paths]


@pytest.mark.parametrize("worth", [{"_WORTH_PROCESSES": 0}, {"_MANY": 6}])
def test_sides_are_the_same_in_processes_and_in_threads(worth, paths, monkeypatch):
    """Exports are read in processes where they are large, and where they are many."""
    side = resolve(str(paths[0].parent))
    threads = reduce_sides([side, side], Reading())
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    for name, value in worth.items():
        monkeypatch.setattr(f"tracediff.execution.run.{name}", value)
    started = []
    take = pools.Pool._take
    monkeypatch.setattr(pools.Pool, "_take", lambda self: started.append(1) or take(self))
    processes = reduce_sides([side, side], Reading())
    assert len(started) == 6
    assert [side.label for side in processes] == [side.label for side in threads]
    packed = [[pack(part) for one in side for part in one.parts] for side in (threads, processes)]
    assert packed[0] == packed[1]


def read_alone(paths):
    return [pack(reduce_file(path, Reading())) for path in paths]


@pytest.fixture
def one_at_a_time(monkeypatch):
    """Exports as large as those whose tables lie in a file, and room for what comes after the tables of one of them."""
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr("tracediff.execution.run.in_file", lambda *_: True)
    monkeypatch.setattr("tracediff.execution.run.Budget", lambda: Budget(1))


def test_large_exports_are_loaded_while_another_one_is_reduced(paths, one_at_a_time, monkeypatch):
    side = resolve(str(paths[0].parent))
    beside, reducing, most, began = [], [], [], [threading.Event() for _ in range(4)]
    reduce, take, started = pools.Pool.reduce, pools.Pool._take, []
    monkeypatch.setattr(pools.Pool, "_take", lambda self: started.append(take(self)) or started[-1])

    def told(self, path, reading, *, emptied, loaded):
        began[len(beside)].set()
        beside.append(path)
        number = len(beside)

        def granted():
            loaded()  # from here on the memory is this export's, and it is the next one's turn to load
            reducing.append(path)
            most.append(len(reducing))
            if number < 3:
                assert began[number].wait(30)

        try:
            return reduce(self, path, reading, emptied=emptied, loaded=granted)
        finally:
            reducing.remove(path)

    monkeypatch.setattr(pools.Pool, "reduce", told)
    (found,) = reduce_sides([side], Reading())
    assert beside == paths
    assert most == [1, 1, 1]
    # a worker keeps memory: the next export has a fresh one
    assert len({child.pid for child in started}) == 3
    assert [pack(run.parts[0]) for run in found.runs] == read_alone(paths)


def test_large_exports_that_fit_one_at_a_time_are_read_one_after_the_other(paths, one_at_a_time, monkeypatch):
    monkeypatch.setattr("tracediff.execution.run.Budget", lambda: Budget(needed(paths[0])[0]))
    reading, most, waited, workers = [], [], [], set()
    reduce, take = pools.Pool.reduce, pools.Pool._take

    def told(self, path, how, *, emptied, loaded=None):
        reading.append(path)
        most.append(len(reading))
        waited.append(loaded)
        try:
            return reduce(self, path, how, emptied=emptied, loaded=loaded)
        finally:
            reading.remove(path)

    def taken(self):
        child = take(self)
        workers.add(child.pid)
        return child

    monkeypatch.setattr(pools.Pool, "reduce", told)
    monkeypatch.setattr(pools.Pool, "_take", taken)
    (found,) = reduce_sides([resolve(str(paths[0].parent))], Reading())
    assert (most, waited, len(workers)) == ([1, 1, 1], [None] * 3, 1)
    assert [pack(run.parts[0]) for run in found.runs] == read_alone(paths)


def test_a_large_export_that_cannot_be_loaded_gives_its_turn_to_the_next(paths, one_at_a_time):
    paths[0].write_bytes(b"SQLite format 3\0 and no more")
    side = resolve(str(paths[0].parent))
    (found,) = reduce_sides([side], Reading(skip_unreadable=True))
    assert [left.name for left in found.left_out] == ["run0.sqlite"]
    assert [pack(run.parts[0]) for run in found.runs] == read_alone(paths[1:])


def test_an_export_that_is_gone_by_now_is_named(paths, monkeypatch):
    """Its size is asked before it is read, to know whether its tables go into a file."""
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr("tracediff.execution.run.Budget", lambda: Budget(1))
    side = resolve(str(paths[0].parent))
    paths[0].unlink()
    (found,) = reduce_sides([side], Reading(skip_unreadable=True))
    assert [(left.name, left.slug) for left in found.left_out] == [("run0.sqlite", "not-a-file")]
    assert len(found.runs) == len(paths) - 1


def test_an_error_arrives_as_it_was_raised(paths):
    paths[0].write_bytes(b"SQLite format 3\0 and no more")
    with pytest.raises(TracediffError) as here:
        reduce_file(paths[0], Reading())
    with pool() as workers, pytest.raises(TracediffError) as there:
        workers.reduce(paths[0], Reading())
    assert (there.value.slug, str(there.value), there.value.exit_code) == (
        here.value.slug, str(here.value), here.value.exit_code
    )  # fmt: skip


def test_a_killed_worker_is_named_with_its_export(paths, monkeypatch):
    with pool() as workers:
        child = workers._take()
        os.killpg(child.pid, signal.SIGSTOP)  # it never answers
        monkeypatch.setattr(workers, "_take", lambda: child)
        threading.Timer(0.3, os.killpg, (child.pid, signal.SIGKILL)).start()
        with pytest.raises(TracediffError, match=r"run0\.sqlite.*killed by signal 9.*memory") as raised:
            workers.reduce(paths[0], Reading())
    assert raised.value.slug == "worker-died"


def test_workers_end_with_the_block_and_leave_nothing(paths, tmp_path, monkeypatch):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    with pool() as workers:
        workers.reduce(paths[0], Reading())
        (child,) = pools._running
        assert child.poll() is None
    assert child.poll() is not None
    assert list(scratch.iterdir()) == []


def test_a_worker_ends_when_nobody_listens(paths):
    with pool() as workers:
        workers.reduce(paths[0], Reading())
        (child,) = pools._running
        child.stdin.close()
        deadline = time.monotonic() + 30
        while child.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert child.returncode == 0


def test_pools_beside_each_other_leave_each_other_alone(paths):
    with pool() as workers:
        workers.reduce(paths[0], Reading())
        with pool() as others:
            others.reduce(paths[1], Reading())
        workers.reduce(paths[2], Reading())
    assert not pools._running
