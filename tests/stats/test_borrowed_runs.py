"""One run against several: what the interval takes from the side that has repeats, and what it must not."""

from __future__ import annotations

import numpy as np
import pytest

from tests.stats.test_bootstrap import ONE, covered, noisy_runs, run
from tracediff.stats.bootstrap import RunSteps, bootstrap_ci


@pytest.mark.parametrize(
    ("one", "other", "between", "within"),
    [
        (1, 2, 30_000, 10_000),
        (1, 3, 30_000, 10_000),
        (1, 3, 5_000, 60_000),
        (1, 2, 10_000, 50_000),
        (3, 1, 10_000, 50_000),
    ],
)
def test_coverage_whichever_noise_dominates(one, other, between, within):
    rng = np.random.default_rng(one * 7 + other)
    b = noisy_runs(rng, one, between=between, within=within)
    c = noisy_runs(rng, other, between=between, within=within)
    assert 0.92 <= covered(*bootstrap_ci(b, c, ONE)) <= 0.99


def test_more_repeats_of_a_calm_baseline_do_not_widen_the_interval():
    """An event of 80 ms in every fifth of 30 steps of one run; the baseline's runs agree to 0.01 ms.

    The event's own scatter is that of 30 steps: mean 16 ms, sd of a step 32 ms, so about 16 +- 1.96 * 5.9 ms.
    """
    rng = np.random.default_rng(3)
    calm = [RunSteps({0: 1e6 + rng.normal(0, 1e4, (30, 1))}) for _ in range(3)]
    bursts = RunSteps({0: np.where(np.arange(30) % 5 == 0, 81e6, 1e6)[:, None]})
    widths = []
    for runs in (1, 2, 3):
        low, high = bootstrap_ci(calm[:runs], [bursts], ONE)
        assert low[0] > 0, (
            "an event in every fifth step is told from none, however often the quiet program was run"
        )
        widths.append(high[0] - low[0])
    assert widths[1] == pytest.approx(widths[0], rel=0.1)
    assert widths[2] == pytest.approx(widths[0], rel=0.1)


def test_scatter_of_runs_is_borrowed_with_its_few_degrees_of_freedom():
    # Runs at 10 and 12 deviate by -1 and 1, times sqrt(2/1). The mean of two draws moves by -sqrt(2), 0 or
    # sqrt(2), the lone run, which borrows one draw, by -sqrt(2) or sqrt(2): at the ends 2 sqrt(2), in one of
    # eight of the resamples each. One degree of freedom: t over z is 12.7062 / 1.95996.
    low, high = bootstrap_ci([run(10.0), run(12.0)], [run(20.0)], ONE)
    half = 2 * np.sqrt(2) * 12.7062 / 1.95996
    np.testing.assert_allclose([low[0], high[0]], [9 - half, 9 + half], rtol=1e-4)
