"""Quantiles by group, against numpy's of each group by itself."""

from __future__ import annotations

import numpy as np
import pytest

from tracediff.accounting.intervals import count_by, quantiles


@pytest.mark.parametrize(
    ("low", "high", "dtype"),
    [(0, 100, np.int32), (-500, 90_000, np.int64), (0, 1 << 32, np.int64), (-(1 << 40), 1 << 40, np.int64)],
    ids=["narrow", "negative", "33 bits", "wide"],
)
def test_quantiles_are_those_of_each_group(low, high, dtype):
    random = np.random.default_rng(3)
    values = np.append(random.integers(low, high, 999), [low, high]).astype(dtype)
    group = random.integers(0, 7, len(values)).astype(np.int32)
    group[group == 4] = 5  # no value in group 4
    p50, p99 = quantiles(group, values, count_by(group, 7), (0.5, 0.99))
    for number in (0, 1, 2, 3, 5, 6):
        expected = np.quantile(values[group == number], (0.5, 0.99))
        assert (p50[number], p99[number]) == pytest.approx(tuple(expected), rel=1e-12)
    assert (p50[4], p99[4]) == (0, 0)


def test_of_two_values_the_median_lies_between():
    assert [
        one.tolist()
        for one in quantiles(np.array([1, 0, 1]), np.array([10, 7, -4]), np.array([1, 2]), (0.5, 1.0))
    ] == [[7, 3], [7, 10]]


def test_no_values():
    nothing = np.empty(0, np.int64)
    assert quantiles(nothing, nothing, nothing, (0.5,))[0].tolist() == []
