"""Quantiles by group, against numpy's of each group by itself; numbers of codes, against a dictionary."""

from __future__ import annotations

import numpy as np
import pytest

from tracediff.accounting.grouping import Numbering, Samples, count_by, quantiles


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


@pytest.mark.parametrize("most", [90, (1 << 32) - 1, 1 << 32, 1 << 42])
@pytest.mark.parametrize("expected", [0, 100, 10_000])
def test_samples_are_those_of_each_group(most, expected):
    random = np.random.default_rng(7)
    samples = Samples(expected)
    group, ns = random.integers(0, 9, 5000).astype(np.int32), random.integers(0, most, 5000, endpoint=True)
    ns[4321] = most
    group[group == 3] = 4
    for low in range(0, 5000, 700):
        samples.add(group[low : low + 700], ns[low : low + 700])
    counts, sums, (p25, p99) = samples.take(10, (0.25, 0.99))
    for number in range(10):
        mine = ns[group == number]
        assert (counts[number], sums[number]) == (len(mine), sum(mine.tolist()))
        if len(mine):
            found = (p25[number], p99[number])
            assert found == pytest.approx(tuple(np.quantile(mine, (0.25, 0.99))), rel=1e-12)
    assert counts[3] == counts[9] == 0


def test_no_samples():
    counts, sums, (median,) = Samples(0).take(2, (0.5,))
    assert (counts.tolist(), sums.tolist(), median.tolist()) == ([0, 0], [0, 0], [0, 0])


def test_numbers_of_codes_are_those_of_a_dictionary():
    """More codes than places by hash, in stretches that repeat and add some."""
    random = np.random.default_rng(5)
    pool = np.concatenate(([-1, 0, (1 << 62) + 1], random.integers(0, 1 << 62, 40_000)))
    numbering, expected = Numbering(), {}
    for size in (3, 50, 500, 40_000, 40_003):
        code = pool[random.integers(0, size, 20_000)]
        found = numbering.numbers(code)
        assert numbering.numbers(code).tolist() == found.tolist()
        for one, number in zip(code.tolist(), found.tolist(), strict=True):
            assert expected.setdefault(one, number) == number
    assert sorted(expected.values()) == list(range(len(expected)))
    assert [expected[code] for code in numbering.codes] == list(range(len(expected)))


def test_numbers_of_no_codes():
    assert Numbering().numbers(np.empty(0, np.int64)).tolist() == []
