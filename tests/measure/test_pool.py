"""Exports reduced in other processes: the same bytes, the same errors, nothing left behind."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from tests.tiny import one_gap
from tracediff.errors import TracediffError
from tracediff.load.inputs import resolve
from tracediff.measure import pool as pools
from tracediff.measure.pool import pool
from tracediff.measure.run import Reading, reduce_file, reduce_sides
from tracediff.measure.store import pack


@pytest.fixture
def paths(tmp_path):
    folder = tmp_path / "runs"
    folder.mkdir()
    return [one_gap().write(folder / f"run{number}.sqlite") for number in range(3)]


def test_a_worker_gives_the_same_bytes(paths):
    told = []
    with pool() as workers:
        found = [
            workers.reduce(path, Reading(keep=True, threads=1), lambda: told.append(1)) for path in paths
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
        monkeypatch.setattr(f"tracediff.measure.run.{name}", value)
    started = []
    take = pools.Pool._take
    monkeypatch.setattr(pools.Pool, "_take", lambda self: started.append(1) or take(self))
    processes = reduce_sides([side, side], Reading())
    assert len(started) == 6
    assert [side.label for side in processes] == [side.label for side in threads]
    packed = [[pack(part) for one in side for part in one.parts] for side in (threads, processes)]
    assert packed[0] == packed[1]


def test_an_error_arrives_as_it_was_raised(paths):
    paths[0].write_bytes(b"SQLite format 3\0 and no more")
    with pytest.raises(TracediffError) as here:
        reduce_file(paths[0], Reading())
    with pool() as workers, pytest.raises(TracediffError) as there:
        workers.reduce(paths[0], Reading(), lambda: None)
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
            workers.reduce(paths[0], Reading(), lambda: None)
    assert raised.value.slug == "worker-died"


def test_workers_end_with_the_block_and_leave_nothing(paths, tmp_path, monkeypatch):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    with pool() as workers:
        workers.reduce(paths[0], Reading(), lambda: None)
        (child,) = pools._running
        assert child.poll() is None
    assert child.poll() is not None
    assert list(scratch.iterdir()) == []


def test_a_worker_ends_when_nobody_listens(paths):
    with pool() as workers:
        workers.reduce(paths[0], Reading(), lambda: None)
        (child,) = pools._running
        child.stdin.close()
        deadline = time.monotonic() + 30
        while child.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert child.returncode == 0


def test_pools_beside_each_other_leave_each_other_alone(paths):
    with pool() as workers:
        workers.reduce(paths[0], Reading(), lambda: None)
        with pool() as others:
            others.reduce(paths[1], Reading(), lambda: None)
        workers.reduce(paths[2], Reading(), lambda: None)
    assert not pools._running
