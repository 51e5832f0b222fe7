"""Reading an export ends within bounds of time and memory, whatever it is busy with."""

from __future__ import annotations

import hashlib
import time
from itertools import count

import duckdb
import pytest

from fixtures.builders import two_steps
from tracediff.errors import TracediffError
from tracediff.execution.run import reduce_file
from tracediff.execution.sides import Reading
from tracediff.formats import bounds
from tracediff.formats.bounds import bounded
from tracediff.formats.capture import load_capture

ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c"


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(bounds, "SECONDS", 0.2)


def forever() -> None:
    for _ in count():
        try:
            sum(range(100))
        except Exception:  # code of this kind must not keep it from ending
            continue


def too_costly(work, db=None) -> str:
    with pytest.raises(TracediffError) as raised:
        bounded(work, "run.sqlite", 1 << 20, db)
    assert raised.value.slug == "read-too-costly" and "run.sqlite" in raised.value.message
    assert "TRACEDIFF_READ_BOUNDS=10" in (raised.value.fix or "")
    return raised.value.message


@pytest.mark.slow
def test_a_loop_without_an_end(short):
    assert "more than 0 s of processor time, which no export of 1.0 MiB does" in too_costly(forever)


def test_a_query_without_an_end(short):
    with duckdb.connect() as db:
        too_costly(lambda: db.execute(ENDLESS).fetchall(), db)


def test_memory_without_an_end(monkeypatch):
    monkeypatch.setattr(bounds, "MEMORY", 64 << 20)
    kept = []

    def fill():
        for _ in range(1000):
            kept.append(bytearray(b"x" * (4 << 20)))
            time.sleep(0.01)

    assert "more than 70 MiB of memory" in too_costly(fill)  # 64 MiB and 6 of its own
    assert len(kept) < 250


@pytest.mark.slow
def test_what_hears_of_nothing_is_ended_by_who_owns_the_process(short, monkeypatch):
    ended = []
    monkeypatch.setattr(bounds, "_GRACE_S", 0.2)
    monkeypatch.setattr(bounds, "last_resort", ended.append)
    began = time.process_time()
    hashlib.pbkdf2_hmac("sha256", b"", b"", 100_000)
    long = int(100_000 * 1.5 / (time.process_time() - began))
    too_costly(lambda: hashlib.pbkdf2_hmac("sha256", b"", b"", long))  # without the interpreter, for 1.5 s
    assert ended[0].slug == "read-too-costly"


def test_nothing_is_raised_after_the_end(monkeypatch):
    monkeypatch.setattr(bounds, "SECONDS", 0.0)
    monkeypatch.setattr(bounds, "BYTES_PER_S", 1 << 60)
    monkeypatch.setattr(bounds, "_LOOK_S", 0.0)
    for _ in range(2000):
        try:
            bounded(lambda: sum(range(1000)), "run.sqlite", 1)
        except TracediffError as error:
            assert error.slug == "read-too-costly"
        sum(range(1000))


def test_bounds_can_be_lifted(short, monkeypatch):
    monkeypatch.setenv("TRACEDIFF_READ_BOUNDS", "0")
    bounded(lambda: sum(range(20_000_000)), "run.sqlite", 0)
    monkeypatch.setenv("TRACEDIFF_READ_BOUNDS", "much")
    with pytest.raises(TracediffError) as raised:
        bounded(time.monotonic, "run.sqlite", 0)
    assert raised.value.slug == "bad-limit"


@pytest.mark.parametrize(
    ("add", "what"),
    [
        (lambda trace, nth: trace.kernel(None, 100, 200, device=nth), "1,025 pairs of process and GPU"),
        (lambda trace, nth: trace.api(1000 + nth, "cudaFree", 100, 200), "1,026 threads"),
    ],
    ids=["GPUs", "threads"],
)
def test_more_than_any_machine_has_is_refused_with_its_number(add, what, tmp_path, monkeypatch):
    monkeypatch.setattr("tracediff.formats.nsys._MOST_THREADS", 1024)
    trace = two_steps()
    for nth in range(1025):
        add(trace, nth)
    with pytest.raises(TracediffError, match=what) as raised:
        reduce_file(trace.write(tmp_path / "run.sqlite"), Reading(threads=1))
    assert raised.value.slug == "too-many"


def test_a_name_longer_than_any_is_cut_and_stays_apart_from_others(tmp_path):
    """Kernels, registered and inline ranges: each name once, and none longer than 64 KiB."""
    names = [f"{'k' * 5_000_000}{one}" for one in "abcdef"]
    trace = two_steps()
    for number, name in enumerate(names):
        at = 1_500 + 10 * number
        if number < 2:
            trace.kernel(900 + number, at, at + 5, name=name)
        else:
            trace.range(101, name, at, at + 5, registered=number < 4)
    capture = load_capture(trace.write(tmp_path / "a.sqlite"), tmp_path / "scratch")
    found = [
        one
        for (one,) in capture.db.execute(
            "SELECT value FROM string UNION ALL SELECT text FROM range_text"
        ).fetchall()
    ]
    capture.close()
    long = {one for one in found if one.startswith("kkk")}
    assert len(long) == 6 and all(30_000 < len(one) < 65_536 for one in long)
