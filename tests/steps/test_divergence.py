"""Where two steps diverge: jumps and their causes, on steps that can be checked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from tests.steps.test_timelines import PAIRS, result_of
from tracediff.kernels.matching import Match, Matching, OpKey
from tracediff.steps import timelines
from tracediff.steps.timelines import StepOps, align, diverge, thinned


def step(ops: str, start: list[int], period: int, causes: dict[tuple[int, int], str]) -> StepOps:
    """Ops of 100 ns, a letter each; idle time from, to -> cause."""
    return StepOps(
        list(ops), [ord(one) for one in ops], ["compute"] * len(ops), np.array(start), np.full(len(ops), 100),
        np.array([begin for begin, _ in causes], np.int64), np.array([end - begin for begin, end in causes], np.int64),
        [(cause, "here") for cause in causes.values()], period,
    )  # fmt: skip


BASE = step("ab", [0, 200], 500, {(100, 200): "host_work", (300, 500): "host_work"})


def test_a_wait_that_is_longer_is_a_jump_before_the_op_after_it():
    waits = step("ab", [0, 260], 560, {(100, 160): "gc", (160, 260): "host_work", (360, 560): "host_work"})
    points, causes = diverge(BASE, waits, align(BASE, waits))
    assert points == [(0, 0), (0, 0), (1, 60), (2, 60)]
    assert causes == {("gc", -1, "here"): ([1], [60])}


def test_an_op_that_one_side_alone_has_is_the_cause_of_its_time():
    more = step("acb", [0, 100, 300], 600, {(200, 300): "host_work", (400, 600): "host_work"})
    assert align(BASE, more) == [(0, 0), (1, 2)]
    points, causes = diverge(BASE, more, align(BASE, more))
    assert points[-2:] == [(1, 100), (2, 100)]
    assert causes == {("compute", ord("c"), ""): ([1], [100])}


def test_the_other_way_round_is_the_negative():
    more = step("acb", [0, 100, 300], 600, {(200, 300): "host_work", (400, 600): "host_work"})
    points, causes = diverge(more, BASE, align(more, BASE))
    assert points[-1] == (2, -100)
    assert causes == {("compute", ord("c"), ""): ([1], [-100])}


def test_every_op_between_two_common_ones_has_its_own_time():
    """`a` takes 100 more, `c` 100 and `d` 100 are new: none of them is charged with another's time."""
    more = step("acdb", [0, 200, 300, 500], 800, {(400, 500): "host_work", (600, 800): "host_work"})
    more.length[0] = 200
    _, causes = diverge(BASE, more, align(BASE, more))
    assert causes == {("compute", ord(op), ""): ([1], [100]) for op in "acd"}


def test_of_ops_that_overlap_the_earlier_one_has_the_time():
    """`c` runs beside `a` for 60 of its 100, and on beside `b` for 20."""
    more = step("acb", [0, 40, 120], 420, {(220, 420): "host_work"})
    _, causes = diverge(BASE, more, align(BASE, more))
    assert causes == {
        ("compute", ord("c"), ""): ([1, 2], [20, 20]),
        ("compute", ord("b"), ""): ([2], [-20]),
        ("host_work", -1, "here"): ([1], [-100]),
    }


def test_a_step_is_not_apart_from_itself():
    points, causes = diverge(BASE, BASE, align(BASE, BASE))
    assert {lag for _, lag in points} == {0} and causes == {}


def test_thinned_points_keep_their_extremes(monkeypatch):
    monkeypatch.setattr(timelines, "MOST_POINTS", 8)
    points = [(number, 50 if number == 13 else -7 if number == 29 else 0) for number in range(40)]
    kept = thinned(points)
    assert len(kept) <= 8 and kept[0] == (0, 0) and kept[-1] == (39, 0)
    assert (13, 50) in kept and (29, -7) in kept


@pytest.mark.parametrize("pair", PAIRS)
def test_causes_sum_to_the_difference_of_the_two_steps(pair):
    result = result_of(pair)
    assert result.divergences
    for one in result.divergences:
        difference = one.candidate.period_ns - one.baseline.period_ns
        assert sum(cause.delta_ns for cause in one.causes) + one.rest_delta_ns == difference
        assert one.points[-1].delta_ns == difference
        assert len(one.points) <= timelines.MOST_POINTS and len(one.causes) <= timelines.MOST_CAUSES


def test_kernels_of_one_name_are_one_cause():
    """Rows 0 and 2 are `a` on two grids, row 1 is `b`; what has no row stays."""
    rows = [
        Match("exact", 1.0, (OpKey(name, grid),), (OpKey(name, grid),)) for name, grid in ("a1", "b1", "a2")
    ]
    causes = {
        ("compute", 0, ""): ([1, 4], [10, 10]),
        ("compute", 1, ""): ([2], [5]),
        ("compute", 2, ""): ([3], [30]),
        ("gc", -1, "here"): ([5], [7]),
    }
    assert timelines._by_name(causes, Matching(rows, {}, {})) == {
        ("compute", 0, ""): ([1, 4, 3], [10, 10, 30]),
        ("compute", 1, ""): ([2], [5]),
        ("gc", -1, "here"): ([5], [7]),
    }


def test_the_place_of_a_cause_is_where_it_pulls_the_way_of_the_whole():
    """+700, -1170, +600 and +70 are +200: most is lost before op 7, but it is gained before op 3; the other way round as well."""
    assert timelines._largest([3, 7, 9, 12], [700, -1170, 600, 70]) == (3, 700)
    assert timelines._largest([3, 7, 9, 12], [-700, 1170, -600, -70]) == (3, -700)
