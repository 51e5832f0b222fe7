"""Interval arithmetic: each function by hand and against a loop that looks at every instant by itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracediff.accounting.intervals import (
    EMPTY,
    Intervals,
    covered,
    cut,
    innermost,
    layers,
    outermost,
    subtract,
    union,
)

END = 40  # instants of the generated examples: 0 .. END - 1, both sides of zero by SHIFT
SHIFT = -15


def intervals(*pairs) -> Intervals:
    return Intervals(*(np.array([pair[side] for pair in pairs], np.int64) for side in (0, 1)))


def pairs(result) -> list[tuple[int, int]]:
    return list(zip(result.start.tolist(), result.end.tolist(), strict=True))


def pieces(result) -> list[tuple[int, int, int, int]]:
    return [tuple(int(value) for value in row) for row in zip(*result, strict=True)]


instant = st.integers(SHIFT, SHIFT + END)
any_intervals = st.lists(st.tuples(instant, instant).map(sorted).map(tuple), max_size=12)
partitions = st.lists(instant, unique=True, max_size=12).map(
    lambda cuts: list(zip(sorted(cuts)[::2], sorted(cuts)[1::2], strict=False))
)


def holds(pair, at: int) -> bool:
    return pair[0] <= at < pair[1]


def instants(*groups) -> range:
    ends = [end for group in groups for pair in group for end in pair]
    return range(min(ends, default=0), max(ends, default=0))


def owner_by_instant(found: Intervals, owner) -> dict[int, int]:
    table = {}
    for (start, end), one in zip(pairs(found), np.asarray(owner).tolist(), strict=True):
        for at in range(start, end):
            assert at not in table, "parts overlap"
            table[at] = one
    return table


# Intervals


def test_size_total_and_take():
    some = intervals((0, 3), (5, 5), (10, 12))
    assert (some.size, some.total()) == (3, 3 + 0 + 2)
    assert pairs(some.take(np.array([2, 0]))) == [(10, 12), (0, 3)]
    assert pairs(some.take(np.array([False, True, False]))) == [(5, 5)]
    assert (EMPTY.size, EMPTY.total()) == (0, 0)


# union


@pytest.mark.parametrize(
    ("given_pairs", "expected"),
    [
        ([], []),
        ([(1, 3), (2, 5), (5, 6), (8, 9)], [(1, 6), (8, 9)]),  # touching ones become one
        ([(8, 9), (1, 3)], [(1, 3), (8, 9)]),
        ([(0, 10), (2, 3)], [(0, 10)]),  # inside another
        ([(4, 4), (7, 2)], []),  # empty and reversed ones cover nothing
        ([(-5, -2), (-2, 1)], [(-5, 1)]),
    ],
)
def test_union_by_hand(given_pairs, expected):
    assert pairs(union(*intervals(*given_pairs))) == expected


@given(any_intervals)
def test_union_covers_the_same_instants(given_pairs):
    found = union(*intervals(*given_pairs))
    for at in instants(given_pairs):
        assert any(holds(pair, at) for pair in pairs(found)) == any(holds(pair, at) for pair in given_pairs)
    assert all(one[1] < other[0] for one, other in zip(pairs(found), pairs(found)[1:], strict=False))


# outermost


def test_outermost_by_hand():
    """[2,4) and [3,9) begin inside [1,5), and [8,9) inside [3,9); [5,6) begins inside that one, too; [9,10) when all are over."""
    found = outermost(*intervals((1, 5), (2, 4), (3, 9), (5, 6), (8, 9), (9, 10)))
    assert np.flatnonzero(found).tolist() == [0, 5]


@given(any_intervals)
def test_outermost_begin_when_all_before_are_over(given_pairs):
    ordered = sorted(given_pairs)
    expected = [all(end <= start for _, end in ordered[:at]) for at, (start, _) in enumerate(ordered)]
    assert outermost(*intervals(*ordered)).tolist() == expected


# cut


def test_cut_by_hand():
    #  query   0 |---------------------------| 10
    #  parts         2 |---| 4     6 |----------------| 20
    found = cut(intervals((0, 10)), intervals((2, 4), (6, 20)))
    assert pieces(found) == [(0, -1, 0, 2), (0, 0, 2, 4), (0, -1, 4, 6), (0, 1, 6, 10)]


def test_cut_of_overlapping_and_empty_queries():
    found = cut(intervals((3, 5), (4, 4), (0, 4)), intervals((0, 4), (4, 8)))
    assert pieces(found) == [(0, 0, 3, 4), (0, 1, 4, 5), (2, 0, 0, 4)]
    assert pieces(cut(EMPTY, intervals((0, 4)))) == []
    assert pieces(cut(intervals((1, 2), (2, 2)), EMPTY)) == [(0, -1, 1, 2)]


@given(any_intervals, partitions)
def test_cut_tiles_every_query_and_names_the_part(queries, parts):
    found = pieces(cut(intervals(*queries), intervals(*parts)))
    for number, query in enumerate(queries):
        mine = [piece for piece in found if piece[0] == number]
        at = query[0]
        for _, part, start, end in mine:
            assert start == at < end  # in order of time, without holes
            for moment in range(start, end):
                assert part == next((i for i, pair in enumerate(parts) if holds(pair, moment)), -1)
            at = end
        assert at == query[1]
    assert [piece[0] for piece in found] == sorted(piece[0] for piece in found)


# subtract, covered


def test_subtract_and_covered_by_hand():
    #  0-10 and 20-30, less 5-22 and 25-26
    left = subtract(intervals((0, 10), (20, 30)), intervals((5, 22), (25, 26)))
    assert pairs(left) == [(0, 5), (22, 25), (26, 30)]
    # 5-22 covers 5 of 0-10 and 2 of 20-30, 25-26 one more of the latter; a query of no length gets 0
    query = intervals((0, 10), (20, 30), (7, 7), (40, 50))
    assert covered(query, intervals((5, 22), (25, 26))).tolist() == [5, 3, 0, 0]
    assert covered(query, EMPTY).tolist() == [0, 0, 0, 0]


@given(partitions, partitions)
def test_subtract_leaves_what_the_other_does_not_cover(one, other):
    left = pairs(subtract(intervals(*one), intervals(*other)))
    for at in instants(one, other):
        wanted = any(holds(pair, at) for pair in one) and not any(holds(pair, at) for pair in other)
        assert any(holds(pair, at) for pair in left) == wanted


@given(any_intervals, partitions)
def test_covered_counts_instants(queries, parts):
    found = covered(intervals(*queries), intervals(*parts)).tolist()
    for query, ns in zip(queries, found, strict=True):
        assert ns == sum(any(holds(pair, at) for pair in parts) for at in range(*query))


# layers


def test_layers_by_hand():
    #  class 0      4--6     12-14
    #  class 1   0------8
    #  class 2        5-----------13
    found, owner = layers(intervals((4, 6), (12, 14)), intervals((0, 8)), intervals((5, 13)))
    named = [(*pair, int(one)) for pair, one in zip(pairs(found), owner, strict=True)]
    assert named == [(0, 4, 1), (4, 6, 0), (6, 8, 1), (8, 12, 2), (12, 14, 0)]
    found, owner = layers(EMPTY, EMPTY)
    assert (pairs(found), owner.tolist()) == ([], [])


@given(st.lists(partitions, min_size=1, max_size=4))
def test_layers_take_the_first_class_at_every_instant(classes):
    found = owner_by_instant(*layers(*(intervals(*one) for one in classes)))
    for at in instants(*classes):
        holding = [number for number, one in enumerate(classes) if any(holds(pair, at) for pair in one)]
        assert found.get(at) == (holding[0] if holding else None)


# innermost


def innermost_by_hand(given_pairs, **options):
    found, owner = innermost(*intervals(*given_pairs), **options)
    return [(*pair, int(one)) for pair, one in zip(pairs(found), owner, strict=True)]


def last_begun(given_pairs, at: int) -> int | None:
    """The rule: of the ranges that hold the instant the last begun, then shortest, then last given."""
    holding = [number for number, pair in enumerate(given_pairs) if holds(pair, at)]
    return max(holding, key=lambda n: (given_pairs[n][0], -given_pairs[n][1], n), default=None)


@pytest.mark.parametrize(
    ("given_pairs", "expected"),
    [
        ([], []),
        ([(5, 5)], []),
        # a child in the middle, a grandchild, a sibling after a hole
        (
            [(0, 10), (2, 8), (3, 4), (12, 15)],
            [(0, 2, 0), (2, 3, 1), (3, 4, 2), (4, 8, 1), (8, 10, 0), (12, 15, 3)],
        ),
        ([(0, 4), (0, 10)], [(0, 4, 0), (4, 10, 1)]),  # same start: the shorter is inside
        ([(6, 10), (0, 10)], [(0, 6, 1), (6, 10, 0)]),  # same end, given in any order
        ([(0, 5), (0, 5)], [(0, 5, 1)]),  # twice the same: the last given
        ([(0, 5), (5, 9)], [(0, 5, 0), (5, 9, 1)]),
    ],
)
def test_innermost_of_nested_ranges(given_pairs, expected):
    assert innermost_by_hand(given_pairs) == expected


@pytest.mark.parametrize(
    ("given_pairs", "expected"),
    [
        # 0 |-------A-------| 10
        #        5 |-------B-------| 15        B began last and rules until it ends
        ([(0, 10), (5, 15)], [(0, 5, 0), (5, 15, 1)]),
        # ... and again after a range inside it, though A had ended meanwhile
        #                    12 |C| 13
        ([(0, 10), (5, 15), (12, 13)], [(0, 5, 0), (5, 12, 1), (12, 13, 2), (13, 15, 1)]),
        # A 0-6, B 1-6, C 2-20 (begun at depth 2), D 10-15 (begun at depth 1, after C): D is innermost
        ([(0, 6), (1, 6), (2, 20), (10, 15)], [(0, 1, 0), (1, 2, 1), (2, 10, 2), (10, 15, 3), (15, 20, 2)]),
        # a staircase: each rules from its begin until the next begins
        ([(0, 10), (2, 12), (4, 14)], [(0, 2, 0), (2, 4, 1), (4, 14, 2)]),
    ],
)
def test_innermost_of_damaged_nesting(given_pairs, expected):
    assert innermost_by_hand(given_pairs) == expected


@settings(max_examples=400)
@given(any_intervals)
def test_innermost_is_the_last_begun_at_every_instant(given_pairs):
    found = owner_by_instant(*innermost(*intervals(*given_pairs)))
    for at in instants(given_pairs):
        assert found.get(at) == last_begun(given_pairs, at)


@given(st.lists(st.tuples(instant, instant, instant, instant).map(sorted), max_size=5))
def test_innermost_of_shells(corners):
    """Nested by construction: an outer and an inner range each, and all that interleave."""
    given_pairs = [pair for a, b, c, d in corners for pair in ((a, d), (b, c))]
    found = owner_by_instant(*innermost(*intervals(*given_pairs)))
    for at in instants(given_pairs):
        assert found.get(at) == last_begun(given_pairs, at)


def test_innermost_of_very_deep_nesting():
    """50 ranges inside each other, [0, 100), [1, 99) ...; deeper than the sweep by levels may go."""
    nested = [(level, 100 - level) for level in range(50)]
    # the ladder down: [n, n + 1) belongs to n; the middle [49, 51) to 49; up: [99 - n, 100 - n) to n
    expected = [(n, n + 1, n) for n in range(49)] + [(49, 51, 49)]
    expected += [(99 - n, 100 - n, n) for n in range(48, -1, -1)]
    assert innermost_by_hand(nested, max_depth=10) == innermost_by_hand(nested) == expected


def test_many_ranges_are_swept_in_reasonable_time():
    """200,000 ranges, a tenth of them damaged: no quadratic step may hide here."""
    start = np.arange(0, 2_000_000, 10, dtype=np.int64)
    end = start + np.where(np.arange(len(start)) % 10 == 0, 15, 8)
    found, owner = innermost(start, end)
    # nine of ten last 8 of every 10 ns; the tenth reaches 5 into the next, which cuts it: it has its 10
    assert found.total() == 20_000 * (10 + 9 * 8)
    assert len(np.unique(owner)) == 200_000
