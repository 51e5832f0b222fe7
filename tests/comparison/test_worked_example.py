"""The worked comparison of worked_example.md: every number of it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from tests.measuring import FIRST, measured, step
from tests.tiny import ROOT

A, B = 1, 2  # op keys
TEXT = (ROOT / "tests" / "comparison" / "worked_example.md").read_text()


def run(first: list[float], cut: list[float], a: list[float], b: list[float], z: list[float]) -> list[dict]:
    """Times in us: of the start (A) and the first B, of steps that are cut (A B A B), of the typical A and B, whose host speeds are z."""
    rows = [(A, first[0], 0.5), (B, first[1], 0.5)]
    rows += [(A, us, z[0]) for us in a] + [(B, us, z[1]) for us in b]
    rows += [(key, us, 0.5) for key, us in zip((A, B, A, B), cut, strict=True)]
    return [
        step(cells=[1000 * us, speed], ops=key, new=number == 0)
        for number, (key, us, speed) in enumerate(rows)
    ]


@pytest.fixture(scope="module")
def found():
    """Host speeds of typical steps such that those of the runs, weighted like their steps, are -0.1, 0.1, 0.0 and 0.2.

    Of baseline run 1: 2 (2 * -0.075 / 6 + 2 * -0.125 / 10) = -0.1, and so on. Those of other steps do not matter.
    """
    baseline = [
        run([90, 40], [6, 18, 19, 42], [10, 11], [20, 19], [-0.075, -0.125]),
        run([80, 41], [9, 20, 18, 30], [15], [23, 24, 24], [0.15, 0.25 / 3]),
    ]
    candidate = [
        run([95, 45], [10, 20, 15, 28], [12, 13, 12], [23], [0.1 - 0.25 / 3, 0.1 - 0.15]),
        run([85, 39], [10, 21, 18, 30], [16, 17], [27, 28], [0.1 + 0.125, 0.1 + 0.075]),
    ]
    return measured(baseline, candidate, idle=1, speed=True)


def shown(value: float, text: str) -> None:
    """The text holds the number, and rounding it as there gives the value."""
    assert text in TEXT
    number = text.split()[-1]
    digits = len(number.partition(".")[2])
    assert round(value, digits) == pytest.approx(float(number))


def test_groups_weights_means_and_runs(found):
    (phase,) = found.phases
    assert phase.steps.workload == "ops" and phase.steps.repeated
    steps = found.frame.steps
    weight, keys, side = phase.steps.typical, steps["op_key"].to_numpy(), steps["side"].to_numpy()
    ns = steps["ns"].to_numpy()
    assert sorted(ns[found.frame.begins] / 1e3) == [80, 85, 90, 95] and not phase.steps.start.any()
    again = (phase.steps.rest > 0) & ~np.isin(ns / 1e3, [40, 41, 45, 39])
    assert [np.median(ns[again & (keys == key)]) / 1e3 for key in (A, B)] == [12.5, 23.5]
    assert "12.5 for A and 23.5 for B" in TEXT
    assert len(steps) == 40 and (phase.steps.rest > 0).sum() == 36 and (weight > 0).sum() == 16
    for run, row in enumerate(("10 11 | 20 19", "15 | 23 24 24", "12 13 12 | 23", "16 17 | 27 28")):
        assert f"| {row} |" in TEXT
        mine = ns[(found.frame.run_number == run) & (weight > 0)] / 1e3
        assert sorted(mine) == sorted(float(one) for one in row.replace("|", "").split())
    for at, of_a, of_b in ((0, 1 / 6, 1 / 10), (1, 1 / 10, 1 / 6)):
        assert weight[(side == at) & (keys == A) & (weight > 0)] == pytest.approx(of_a)
        assert weight[(side == at) & (keys == B) & (weight > 0)] == pytest.approx(of_b)
    sample = phase.typical.sample
    assert [one[:, FIRST].tolist() for one in sample.values] == [
        pytest.approx([15e3, 19e3]),
        pytest.approx([18e3, 22e3]),
    ]
    assert np.concatenate(sample.speed) == pytest.approx([-0.1, 0.1, 0, 0.2])


def test_host_speed_interval_and_p(found):
    (phase,) = found.phases
    one, sample = phase.typical.estimate, phase.typical.sample
    for variance in sample.step_variance:
        shown(variance[FIRST] / 1.4**2 / 1e6, "variance 0.1216")
        shown(variance[FIRST] / 1e6, "it is 0.238")
    steps = float(sample.step_variance[0][FIRST]) / 1e6
    usual = [scatter[FIRST] ** 2 / 1e6 + 2 * steps + 0.05**2 for scatter in phase.typical.noise.scatter]
    shown(usual[0], "+ 0.05^2 = 1.202")
    shown(usual[1], "on the baseline, 1.479")
    weights = [0.02 * mean**2 / variance for mean, variance in zip((17, 20), usual, strict=True)]
    shown(weights[0], "/ 1.202 = 4.81")
    shown(weights[1], "/ 1.479 = 5.41")
    precision = 1 / 0.3**2 + sum(weights)
    # z of -0.1 and 0.1 about the mean, 15 and 19 of 17, 18 and 22 of 20
    beta = (
        0.9 / 0.3**2 + weights[0] * (0.2 * 2 / 17) / 0.02 + weights[1] * (0.2 * 2 / 20) / 0.02
    ) / precision
    shown(beta, "beta = 0.988")
    shown(precision**-0.5, "known to 0.217")
    common = 17 * np.exp(beta * 0.05)
    shown(common, "e^0.049 = 17.86")
    shown(one.host_speed[FIRST] / 1e3, "host_speed = 1.77")
    shown((one.delta - one.host_speed)[FIRST] / 1e3, "at equal speed 1.23")
    apart = [float(values[1, FIRST] - values[0, FIRST]) / 2e3 for values in one.even]
    shown(apart[0], "they lie 0.318")
    shown(apart[1], "0.318 and 0.144")
    squares = sum(2 * half**2 / variance for half, variance in zip(apart, usual, strict=True))
    shown(squares, "/ 1.479 = 0.196")
    shown((5 + squares) / 7, "/ 7 = 0.742")
    assert one.df == 7
    q = stats.t.ppf(0.975, 7)
    shown(q, "t(7) = 2.365")
    scale = q * np.sqrt((5 + squares) / 7)
    shown(scale, "times that is 2.037")
    shown(scale * 0.85 / np.sqrt(2), "sqrt(2) = 1.22")
    shown(scale * np.sqrt(steps), "0.488 = 0.99")
    more = [np.hypot(mean * np.expm1(scale * 0.05 / np.sqrt(2)), scale * np.sqrt(steps)) for mean in (17, 20)]
    less = [
        mean * -np.expm1(-np.hypot(scale * 0.05 * mean / np.sqrt(2), scale * np.sqrt(steps)) / mean)
        for mean in (17, 20)
    ]
    shown(more[0], "0.99) = 1.61")
    shown(less[0], "e^-0.093) = 1.51")
    shown(more[1], "Candidate: 1.79")
    shown(less[1], "more or 1.68")
    slope = q * precision**-0.5 * 0.1 * common
    shown(slope, "x 17.86 = 0.91")
    shown(np.sqrt(more[0] ** 2 + less[1] ** 2 + slope**2), "0.91) = 2.50")
    shown(one.low[FIRST] / 1e3, "the interval is -1.27")
    shown(one.high[FIRST] / 1e3, "-1.27 to 5.52")
    shown(one.p[FIRST], "p = 0.29")
