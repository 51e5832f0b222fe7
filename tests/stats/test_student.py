"""Student's t distribution, against scipy's and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from tracediff.stats.student import above, quantile, shift_for

DF = [1.0, 1.5, 2.0, 3.0, 5.0, 7.3, 12.0, 40.0, 1e3, 1e6]
T = np.array([0.0, 1e-9, 0.01, 0.5, 1.0, 2.5, 6.0, 20.0, 100.0, 1000.0])


@pytest.mark.parametrize("df", DF)
def test_the_chance_to_lie_above_is_scipys(df):
    known = stats.t.sf(T, df)
    at = known > 1e-14  # smaller ones are smaller here too
    np.testing.assert_allclose(above(df, T)[at], known[at], rtol=1e-9)
    assert (above(df, T)[~at] < 1e-13).all()


def test_the_ends():
    np.testing.assert_array_equal(above(5.0, [0.0, np.inf, -np.inf, np.nan]), [0.5, 0.0, 1.0, np.nan])


def test_the_quantile_is_scipys_for_each_number_of_degrees_of_freedom():
    for p in (0.5, 0.8, 0.975, 0.999):
        np.testing.assert_allclose(quantile(DF, p), stats.t.ppf(p, DF), rtol=1e-9, atol=1e-9)
    assert float(quantile(1.0, 0.75)) == pytest.approx(1.0)  # Cauchy: 1 is its upper quartile


def test_a_shift_gives_the_power_that_was_asked_for():
    """Of a noncentral t distribution; scipy's own inverse has eight digits, its distribution more."""
    df = np.array(DF[3:-1])
    t = quantile(df, 0.975)
    for power in (0.5, 0.8, 0.95):
        np.testing.assert_allclose(stats.nct.sf(t, df, shift_for(df, t, power)), power, rtol=1e-9)
