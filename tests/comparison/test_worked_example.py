"""The worked comparison of docs/method.md: every number of it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from tests.measuring import FIRST, measured, step
from tests.tiny import ROOT

A, B = 1, 2  # op keys
TEXT = (ROOT / "docs" / "method.md").read_text().split("### A worked comparison")[1].split("\n## ")[0]


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
    assert sorted(ns[phase.steps.start > 0] / 1e3) == [80, 85, 90, 95]
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


def test_host_speed_error_and_p(found):
    (phase,) = found.phases
    one, sample = phase.typical.estimate, phase.typical.sample
    shown(phase.typical.slope[FIRST] / 1e3, "0.9 x 17 = 15.3")
    shown(one.host_speed[FIRST] / 1e3, "host_speed = 1.74")
    shown(one.host_speed[FIRST] / 1e3 / 0.1, "/ 0.09 = 17.39")
    shown(one.delta[FIRST] / 1e3, "delta = 3 - 1.74 = 1.26")
    shown(phase.typical.scatter[FIRST] / 1e3, "s0 = 10 % of 20 + 1 = 3")
    residuals = np.concatenate([values[:, FIRST] - values[:, FIRST].mean() for values in one.values]) / 1e3
    squares = float((residuals**2).sum())
    shown(squares, "SS = 0.273")
    moderated = (4 * 9 + squares) / 6
    shown(moderated, "/ 6 = 6.045")
    of_slope = moderated * 0.01 / 0.09 * (17 / 20) ** 2
    shown(of_slope, "(17 / 20)^2 = 0.485")
    shown(9 + of_slope, "+ 0.485 = 9.485")
    for variance in sample.step_variance:
        shown(variance[FIRST] / 1e6, "x 0.858 = 3.605")
    of_steps = float(sum(variance[FIRST] for variance in sample.step_variance)) / 1e6
    shown(of_steps, "2 x 3.605 = 7.21")
    shown((one.error[FIRST] / 1e3) ** 2, "7.210 = 16.695")
    assert (one.error[FIRST] / 1e3) ** 2 == pytest.approx(9 + of_slope + of_steps)
    shown(one.error[FIRST] / 1e3, "error = 4.086")
    df = 16.695**2 / (9.485**2 / 6 + 7.210**2 / 7)
    shown(one.df[FIRST], "7.210^2 / 7) = 12.4")
    assert one.df[FIRST] == pytest.approx(df, rel=1e-3)
    shown(one.delta[FIRST] / one.error[FIRST], "t = 0.31")
    shown(one.p[FIRST], "p = 0.76")
    assert one.p[FIRST] == pytest.approx(2 * stats.t.sf(one.delta[FIRST] / one.error[FIRST], df), rel=1e-3)
    shown(one.half[FIRST] / 1e3, "1.26 +- 8.87")
