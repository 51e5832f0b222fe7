"""The speed of the host of each step, from its CUDA calls."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

from tests.measuring import framed, run
from tracediff.comparison.cells import _known_speed, host_speed

NAMES = ("launch", "record", "query")


def sides_of(*sides: list[list[dict[str, tuple[int, float]]]]):
    """Sides of runs of steps: function -> calls and log of their length; and the frame of these steps, all alike."""
    made = []
    for runs in sides:
        parts = []
        for steps in runs:
            rows = [
                (period, api, count, log)
                for period, calls in enumerate(steps)
                for api, (count, log) in calls.items()
            ]
            calls = pl.DataFrame(
                rows,
                schema={"period": pl.Int64, "api": pl.String, "count": pl.Int64, "log_ns": pl.Float64},
                orient="row",
            )
            parts.append(SimpleNamespace(parts=[SimpleNamespace(host_speed=calls)]))
        made.append(SimpleNamespace(runs=parts))
    return made, framed(*[[run(*[10] * len(steps)) for steps in runs] for runs in sides], min_steps=1)


def step(slower: float = 0.0, **counts: int) -> dict[str, tuple[int, float]]:
    """One call of each function (or so many), usually of log 1, 2 and 3, all so much slower."""
    return {
        name: (counts.get(name, 1), at + slower) for at, name in enumerate(NAMES, 1) if counts.get(name, 1)
    }


def test_a_slower_host_is_slower_in_every_call():
    """Usual: of both sides alike, so the middle of 0 and 0.2."""
    made, frame = sides_of([[step()] * 4], [[step(0.2)] * 4])
    assert host_speed(made, frame) == pytest.approx([-0.1] * 4 + [0.1] * 4)


def test_calls_count_by_their_number_within_a_step():
    """Of a step only the launch is slower, by 0.4: a quarter of its calls, or two of five."""

    def odd(launches: int) -> dict[str, tuple[int, float]]:
        return step(launch=launches) | {"launch": (launches, 1.4), "record": (2, 2.0)}

    base = [step(record=2) for _ in range(4)]
    made, frame = sides_of([base], [[odd(1), *base[1:]]])
    found = host_speed(made, frame)
    # the candidate's mean of the launch is 1.1, the usual one 1.05
    assert found[4] == pytest.approx((0.35 * 1 + 0 * 3) / 4)
    assert found[0] == pytest.approx(-0.05 / 4)


def test_functions_that_one_side_calls_twice_as_often_say_nothing():
    """Four functions; one is called once and twice per step, and is slow where it is called twice."""

    def with_copy(count: int, log: float) -> dict[str, tuple[int, float]]:
        return step() | {"copy": (count, log)}

    made, frame = sides_of([[with_copy(1, 1.0)] * 4], [[with_copy(2, 5.0)] * 4])
    assert host_speed(made, frame) == pytest.approx([0] * 8)
    made, frame = sides_of([[with_copy(1, 1.0)] * 4], [[with_copy(1, 5.0)] * 4])
    assert host_speed(made, frame) == pytest.approx([-0.5] * 4 + [0.5] * 4)


def test_two_functions_are_enough():
    """The launch is called twice as often on one side: it says nothing, the other two do, which are half of the calls there."""
    made, frame = sides_of([[step(launch=1)] * 4], [[step(0.2, launch=2)] * 4])
    assert host_speed(made, frame) == pytest.approx([-0.1] * 4 + [0.1] * 4)
    made, frame = sides_of([[step(launch=1)] * 4], [[step(0.2, launch=3)] * 4])  # two of five
    assert host_speed(made, frame) is None
    rare = [step(0.2, launch=3), *[step(0.2, launch=0)] * 9]  # 0.3 a step
    made, frame = sides_of([[step(launch=0)] * 10], [rare])
    assert host_speed(made, frame) == pytest.approx([-0.1] * 10 + [0.1] * 10)


def test_with_fewer_than_two_functions_it_is_not_known():
    made, frame = sides_of([[step(query=0)] * 4], [[step(0.2, query=0)] * 4])
    assert host_speed(made, frame) == pytest.approx([-0.1] * 4 + [0.1] * 4)
    made, frame = sides_of([[step(query=0, record=0)] * 4], [[step(0.2, query=0, record=0)] * 4])
    assert host_speed(made, frame) is None
    made, frame = sides_of([[{}] * 4], [[{}] * 4])
    assert host_speed(made, frame) is None


def test_a_step_without_calls_has_the_speed_of_its_run_and_a_run_without_calls_the_usual_one():
    made, frame = sides_of([[step(), {}, step(0.2)], [step(0.1)] * 3], [[{}] * 3, [step(0.1)] * 3])
    found = host_speed(made, frame)
    assert np.isnan(found[[1, 6, 7, 8]]).all() and not np.isnan(found[[0, 2, 3, 4, 5]]).any()
    known = _known_speed(frame, found, 3)
    assert known.ns[1] == pytest.approx((found[0] + found[2]) / 2)
    assert known.ns[6:9].tolist() == [0, 0, 0]


def test_exchanging_the_sides_exchanges_their_speeds():
    rng = np.random.default_rng(0)
    one, other = ([[step(rng.normal()) for _ in range(4)] for _ in range(2)] for _ in range(2))
    forward, backward = (host_speed(*sides_of(*both)) for both in ((one, other), (other, one)))
    assert forward.tolist() == [*backward[8:], *backward[:8]]
