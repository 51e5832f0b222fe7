"""Steps that stop, on lists of step times: which do, for how long, and whether each so many-th does."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import pytest

from tracediff.comparison.observed import stops_of_one
from tracediff.model.observed import Stops

US = 1_000


def steps(times: Sequence[int]) -> pl.DataFrame:
    """Steps of one run, us each; one of 5 ms before them is its start."""
    ns = [5_000 * US, *(one * US for one in times)]
    starts = [sum(ns[:at]) for at in range(len(ns))]
    many = {name: [0] * len(ns) for name in ("side", "run", "part", "rank", "device")}
    phase = ["decode"] * len(ns)
    return pl.DataFrame({**many, "phase": phase, "period": range(len(ns)), "start_ns": starts, "ns": ns})


def comb(every: int, stop: int, many: int = 24) -> list[int]:
    return [stop if at % every == every - 1 else 100 for at in range(many)]


@pytest.mark.parametrize(("every", "count"), [(5, 4), (4, 6), (3, 8)])
def test_each_so_many_th_step_stops(every: int, count: int):
    """Of 24 steps of 100 us each fifth (fourth, third) takes 400."""
    assert stops_of_one(steps(comb(every, 400))) == Stops(
        "decode", "baseline", count, 24, 0, 0, every, 300 * US
    )


@pytest.mark.parametrize(
    "times",
    [
        comb(5, 115),  # 15 % longer is no stop
        comb(2, 400),  # what every second step does is how it runs
        [100] * 18
        + [160] * 5
        + [500],  # one step holds 400 of the 700 us: the others are longer in another way
    ],
)
def test_no_step_stops(times: list[int]):
    assert stops_of_one(steps(times)) is None


def test_stops_at_no_distance_are_counted():
    """3 of 24, after 2, 5 and 13 others; the one of 130 us is less than half as much longer as they are."""
    times = [100] * 24
    for at in (2, 8, 22):
        times[at] = 400
    times[12] = 130
    assert stops_of_one(steps(times)) == Stops("decode", "baseline", 3, 24, 0, 0, 0, 300 * US)
