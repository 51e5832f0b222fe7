"""Which calls of a thread lie in no other one, in any stretch of time: against a plain loop over all of them."""

from __future__ import annotations

import duckdb
import numpy as np
import pytest

from tracediff.accounting.intervals import EMPTY
from tracediff.accounting.walk import HostThread
from tracediff.trace.threads import LAUNCH, Calls

TID = 7
Spans = list[tuple[int, int]]


def thread_of(calls: Spans) -> HostThread:
    start, end = (np.array([call[side] for call in calls], np.int64) for side in (0, 1))
    name = np.arange(len(calls), dtype=np.int32)  # of each its place
    kind = np.full(len(calls), LAUNCH, np.int8)
    return HostThread(
        duckdb.connect(), TID, Calls(start, end, name, kind, {TID: slice(0, len(calls))}), EMPTY
    )


def by_hand(calls: Spans, begin: int, end: int) -> list[int]:
    """Places of the outermost calls that touch [begin, end), themselves or with what began in them."""
    nests: list[list[int]] = []  # place, begin, end
    reach = None
    for place, (low, high) in enumerate(calls):
        if high > low and (reach is None or low >= reach):
            nests.append([place, low, high])
        elif nests:
            nests[-1][2] = max(nests[-1][2], high)
        reach = high if reach is None else max(reach, high)
    return [place for place, low, high in nests if high > begin and low < end]


def random_calls(random: np.random.Generator) -> Spans:
    starts = np.sort(random.integers(0, 300, 60))
    lengths = random.choice([0, 1, 3, 8, 40, 90], len(starts), p=[0.1, 0.3, 0.3, 0.2, 0.08, 0.02])
    spans = [(int(one), int(one + length)) for one, length in zip(starts, lengths, strict=True)]
    return sorted(spans, key=lambda span: (span[0], -span[1]))  # as `Calls` has them


@pytest.mark.parametrize("seed", range(8))
def test_they_are_those_of_a_loop(seed):
    random = np.random.default_rng(seed)
    calls = random_calls(random)
    thread = thread_of(calls)
    for begin in range(-5, 400, 3):
        for end in (begin, begin + 1, begin + 20, begin + 400):
            found, names, _ = thread.outer_calls(begin, end)
            assert names.tolist() == by_hand(calls, begin, end)
            assert [*zip(found.start.tolist(), found.end.tolist(), strict=True)] == [
                calls[one] for one in names
            ]


def test_one_call_around_very_many():
    inner = [(10 * one + 1, 10 * one + 5) for one in range(5000)]
    thread = thread_of([(0, 100_000), *inner, (100_000, 100_001)])
    assert thread.outer_calls(40_000, 40_010)[1].tolist() == [0]
    assert thread.outer_calls(100_000, 100_002)[1].tolist() == [5001]
    assert thread.outer_calls(99_999, 100_001)[1].tolist() == [0, 5001]


def test_calls_side_by_side_are_all_outermost():
    thread = thread_of([(0, 5), (5, 9), (20, 21)])
    assert [thread.outer_calls(*when)[1].tolist() for when in ((0, 5), (4, 6), (9, 20), (9, 21))] == [
        [0],
        [0, 1],
        [],
        [2],
    ]


def test_a_thread_without_calls():
    assert thread_of([]).outer_calls(0, 10)[1].tolist() == []
