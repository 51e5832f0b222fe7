"""The worked comparison of docs/method.md: every number of it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from tests.measuring import FIRST, measured, step
from tests.tiny import ROOT

A, B = 1, 2  # op keys
TEXT = (ROOT / "docs" / "method.md").read_text().split("### A worked comparison")[1].split("\n## ")[0]


def run(a: list[float], b: list[float], z_a: float, z_b: float) -> list[dict]:
    """Times in us of the steps A and B, and their host speed."""
    rows = [(A, ns, z_a) for ns in a] + [(B, ns, z_b) for ns in b]
    return [step(cells=[1000 * ns, z], ops=key) for key, ns, z in rows]


@pytest.fixture(scope="module")
def found():
    """Host speeds of steps such that those of the runs, weighted like their steps, are -0.1, 0.1, 0.0 and 0.2.

    Of baseline run 1: 2 (2 * -0.075 / 6 + 2 * -0.125 / 10) = -0.1, and so on.
    """
    baseline = [run([10, 11], [20, 19], -0.075, -0.125), run([15], [23, 24, 24], 0.15, 0.25 / 3)]
    candidate = [
        run([12, 13, 12], [23], 0.1 - 0.25 / 3, 0.1 - 0.15),
        run([16, 17], [27, 28], 0.1 + 0.125, 0.1 + 0.075),
    ]
    return measured(baseline, candidate, idle=1, speed=True)


def shown(value: float, text: str) -> None:
    """The text holds the number, and rounding it as there gives the value."""
    assert text in TEXT
    number = text.split()[-1]
    digits = len(number.partition(".")[2])
    assert round(value, digits) == pytest.approx(float(number))


def test_weights_means_and_runs(found):
    (phase,) = found.phases
    assert phase.steps.workload == "ops"
    weight, keys = phase.steps.typical, found.frame.steps["op_key"].to_numpy()
    side = found.frame.steps["side"].to_numpy()
    for at, of_a, of_b in ((0, 1 / 6, 1 / 10), (1, 1 / 10, 1 / 6)):
        assert weight[(side == at) & (keys == A)] == pytest.approx(of_a)
        assert weight[(side == at) & (keys == B)] == pytest.approx(of_b)
    sample = phase.typical.sample
    assert [one[:, FIRST].tolist() for one in sample.values] == [
        pytest.approx([15e3, 19e3]),
        pytest.approx([18e3, 22e3]),
    ]
    assert np.concatenate(sample.speed) == pytest.approx([-0.1, 0.1, 0, 0.2])


def test_host_speed_error_and_p(found):
    (phase,) = found.phases
    one, sample = phase.typical.estimate, phase.typical.sample
    shown(one.host_speed[FIRST] / 1e3, "host_speed = 1.81")
    shown(one.host_speed[FIRST] / 1e3 / 0.1, "/ 0.09 = 18.14")
    shown(one.delta[FIRST] / 1e3, "delta = 3 - 1.81 = 1.19")
    shown(phase.typical.scatter[FIRST] / 1e3, "s0 = 6 % of 20 + 0.5 = 1.7")
    residuals = np.concatenate([values[:, FIRST] - values[:, FIRST].mean() for values in one.values]) / 1e3
    shown(float((residuals**2).sum()), "SS = 0.139")
    for variance in sample.step_variance:
        shown(variance[FIRST] / 1e6, "5/4 = 0.858")
    shown(one.error[FIRST] / 1e3, "error = 2.196")
    shown((one.error[FIRST] / 1e3) ** 2, "0.01 / 0.09 = 4.823")
    shown(one.delta[FIRST] / one.error[FIRST], "t = 0.54")
    assert one.df == 6 and "6 degrees of freedom" in TEXT
    shown(one.p[FIRST], "p = 0.61")
    assert one.p[FIRST] == pytest.approx(2 * stats.t.sf(one.delta[FIRST] / one.error[FIRST], 6))
    shown(one.half[FIRST] / 1e3, "1.19 +- 5.37")
