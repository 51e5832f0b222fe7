"""What is asked of a stretch of a long capture costs what lies in the stretch: no copy of a column of all of it.

A capture is gone through in stretches, so that each copy of a whole column would make the time grow as the square of its
length. numpy tells tracemalloc what it allocates.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import duckdb
import numpy as np
import pytest

from tracediff.accounting.intervals import Intervals, cut
from tracediff.accounting.sweep import rows_of
from tracediff.trace.ranges import Places

LONG = 1_000_000  # rows: a column takes 8 MB
STARTS = np.arange(LONG, dtype=np.int64) * 10


def _allocated(act: Callable[[], object]) -> int:
    act()  # what is remembered once
    tracemalloc.start()
    try:
        act()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.fixture
def places() -> Places:
    db = duckdb.connect()
    db.execute("CREATE TABLE range_text AS SELECT * FROM (VALUES (0, 'work'), (1, 'wait')) AS t(label, text)")
    return Places(db)


def test_cutting_a_few_queries_along_many_parts():
    parts, query = (
        Intervals(STARTS, STARTS + 5),
        Intervals(STARTS[500_000:500_002] + 2, STARTS[500_000:500_002] + 12),
    )
    pieces = cut(query, parts)
    assert pieces.part.tolist() == [500_000, -1, 500_001, 500_001, -1, 500_002]
    assert (pieces.end - pieces.start).tolist() == [3, 5, 2, 3, 5, 2]
    assert _allocated(lambda: cut(query, parts)) < 100_000


def test_places_between_ranges_of_few_instants(places):
    labels = np.arange(LONG) % 2
    instants = STARTS[700_000:700_003] + 7
    names = [places.name(one) for one in places.outside(STARTS, labels, instants)]
    assert names == [
        "outside any range, between work and wait",
        "outside any range, between wait and work",
        "outside any range, between work and wait",
    ]
    assert _allocated(lambda: places.outside(STARTS, labels, instants)) < 100_000


def test_rows_of_a_few_periods():
    period = np.repeat(np.arange(LONG // 4, dtype=np.int32), 4)
    assert rows_of(period, 100, 102) == slice(400, 408)
    assert _allocated(lambda: rows_of(period, 100, 102)) < 100_000
