"""Which counts are facts: values that nearly all steps of a side hold, at equal workload."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tests.measuring import framed, step
from tracediff.comparison.frame import Frame
from tracediff.comparison.held import Counted, Held, held, kinds_of


def counted(frame: Frame, count: np.ndarray) -> Held | None:
    """What the steps hold of one item that occurs so often in each of them."""
    table = pl.DataFrame({"step": np.arange(len(count)), "item": 0, "count": count, "bytes": 0})
    kind, rows = kinds_of(table.filter(pl.col("count") > 0), "step", len(count))
    return held(frame, frame.phases[0], Counted([kind], rows, [0]), 1)


def sides(common: int, steps: int = 20):
    """Three runs a side: so many steps of 8 requests, the others of 4 on the baseline and of 16 on the candidate."""
    return framed(*(
        [[step(100, gen_reqs=8 if at < common else others) for at in range(steps)] for _ in range(3)]
        for others in (4, 16)
    ))  # fmt: skip


@pytest.mark.parametrize(("common", "fact"), [(9, False), (10, True), (20, True)])
def test_a_count_that_follows_the_load_is_compared_at_equal_load(common: int, fact: bool):
    """Of 8 requests 12 ops and 14; of 4 requests 20, of 16 requests 10. Half of the steps must be of equal load: 30 of 60."""
    frame = sides(common)
    requests, late = frame.steps["gen_reqs"].to_numpy(), frame.steps["side"].to_numpy()
    found = counted(frame, np.select([requests == 4, requests == 16], [20, 10], 12 + 2 * late))
    assert found is not None and (found.differs.tolist(), found.certain.tolist()) == ([fact], [fact])
    if fact:
        assert (found.before.tolist(), found.after.tolist()) == ([12], [14])


@pytest.mark.parametrize(("odd", "fact"), [(9, True), (10, False)])
def test_a_value_holds_in_85_percent_of_the_steps(odd: int, fact: bool):
    """60 steps a side; in so many of the baseline's the program logs, and launches another kernel."""
    frame = sides(20)
    late = frame.steps["side"].to_numpy()
    count = 12 + 2 * late
    count[np.flatnonzero(late == 0)[:odd]] = 13
    found = counted(frame, count)
    assert found is not None and found.differs.tolist() == [fact]


@pytest.mark.parametrize(("without", "seen", "fact"), [(9, 0, True), (10, 0, False), (9, 1, False)])
def test_what_one_side_alone_has_in_85_percent_of_its_steps_is_a_fact_however_often(without, seen, fact):
    """60 steps a side. The candidate's launch a kernel once, twice or three times in turn, but for so many; the baseline's in so many."""
    frame = sides(20)
    late = frame.steps["side"].to_numpy()
    count = np.where(late == 1, 1 + np.arange(len(late)) % 3, 0)
    count[np.flatnonzero(late == 1)[:without]] = 0
    count[np.flatnonzero(late == 0)[:seen]] = 1
    found = counted(frame, count)
    assert found is not None and found.differs.tolist() == [fact]


@pytest.mark.parametrize(
    ("steps", "fact", "certain"), [(3, None, None), (4, True, False), (9, True, False), (10, True, True)]
)
def test_four_steps_a_side_make_a_fact_and_ten_a_certain_one(steps: int, fact, certain):
    frame = framed(*([[step(100) for _ in range(steps)]] for _ in range(2)), min_steps=1)
    found = counted(frame, np.where(frame.steps["side"].to_numpy() == 0, 0, 1))
    if fact is None:
        assert found is None
    else:
        assert found is not None and (found.differs.tolist(), found.certain.tolist()) == ([fact], [certain])


def test_more_at_one_load_and_less_at_another_is_no_fact():
    """Half of the steps have 8 requests and go from 12 to 14, the others 4 and from 12 to 10; or all of them to 14."""
    frame = framed(*([[step(100, gen_reqs=8 if at % 2 else 4) for at in range(20)]] for _ in range(2)))
    requests, late = frame.steps["gen_reqs"].to_numpy(), frame.steps["side"].to_numpy()
    for other, fact in ((-2, False), (2, True)):
        found = counted(frame, 12 + np.where(requests == 8, 2, other) * late)
        assert found is not None and found.differs.tolist() == [fact]


@pytest.mark.parametrize(("more", "apart"), [(3, False), (4, True), (-4, True)])
def test_what_varies_with_the_load_of_both_sides_is_no_fact_and_may_lie_apart(more: int, apart: bool):
    """12 to 15 in turns, and so many more: from 12 to 15 on, five of twenty steps at each end."""
    frame = framed(*([[step(100) for _ in range(20)]] for _ in range(2)))
    found = counted(frame, 12 + np.arange(40) % 4 + more * frame.steps["side"].to_numpy())
    assert found is not None and (found.differs.tolist(), found.apart.tolist()) == ([False], [apart])
    assert found.spread[:, :, 0].tolist() == [[12, 15], [12 + more, 15 + more]]


@pytest.mark.parametrize(("odd", "apart"), [(3, True), (4, False)])
def test_15_percent_of_the_steps_at_either_end_may_be_as_on_the_other_side(odd: int, apart: bool):
    """0 to 3 in turns against 10 to 13, but for so many of these twenty steps, which have none; 3 are 15 %."""
    frame = framed(*([[step(100) for _ in range(20)]] for _ in range(2)))
    count = np.arange(40) % 4 + 10 * frame.steps["side"].to_numpy()
    count[20 : 20 + odd] = 0
    found = counted(frame, count)
    assert found is not None and found.apart.tolist() == [apart]
    assert found.spread[1, 0, 0] == (10 if apart else 0)


@pytest.mark.parametrize(
    ("where", "odd", "fact"), [("device", 0, True), ("device", 9, False), ("rank", 0, True)]
)
def test_one_device_or_rank_alone_may_have_it(where: str, odd: int, fact: bool):
    """18 steps of the second of three devices or ranks, the only ones with a count, beside 20 of each of the others; on the candidate 3 for 2, but in so many."""
    frame = framed(*(
        [[step(100, **{where: at}) for at in range(3) for _ in range(18 if at == 1 else 20)]] for _ in range(2)
    ))  # fmt: skip
    count = np.where(frame.steps[where].to_numpy() == 1, 2 + frame.steps["side"].to_numpy(), 0)
    count[np.flatnonzero(count == 3)[:odd]] = 2
    found = counted(frame, count)
    assert found is not None and found.differs.tolist() == [fact]
    if fact:
        assert (found.before.tolist(), found.after.tolist()) == ([2], [3])
