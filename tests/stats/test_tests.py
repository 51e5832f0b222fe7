"""Corrections for many tests, power, the runs that a change takes, and trimmed means."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tracediff.stats.tests import benjamini_hochberg, counts_differ, detectable, holm, runs_for, trimmed


def test_holm_by_hand():
    """.01 * 3 = .03; .03 * 2 = .06; .04 * 1 = .04, but not below the one before: .06."""
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_the_detectable_change_is_found_four_times_in_five():
    """The difference over its error follows a noncentral t distribution around the change."""
    change = float(detectable(np.array([10.0]), 12)[0])
    beyond = stats.t.ppf(0.975, 12)
    power = stats.nct.sf(beyond, 12, change / 10) + stats.nct.cdf(-beyond, 12, change / 10)
    assert power == pytest.approx(0.8, abs=1e-4)


def test_the_example_of_the_1995_paper():
    # Section 3.2 of Benjamini and Hochberg 1995: 15 p-values, 4 hypotheses rejected at q = 0.05.
    p = np.array([
        0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459,
        0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0,
    ])  # fmt: skip
    q = benjamini_hochberg(p)
    assert np.count_nonzero(q <= 0.05) == 4
    np.testing.assert_allclose(q, stats.false_discovery_control(p))


def test_unknown_p_values_are_no_tests():
    q = benjamini_hochberg(np.array([0.04, np.nan, 0.01, 0.03]))
    np.testing.assert_allclose(q, [0.04, np.nan, 0.03, 0.04])
    assert np.isnan(benjamini_hochberg(np.array([np.nan]))).all()
    assert benjamini_hochberg(np.array([])).size == 0


@given(st.lists(st.floats(0, 1) | st.just(float("nan")), max_size=30), st.randoms(use_true_random=False))
def test_q_is_monotone_in_p_and_follows_its_row(values: list[float], random):
    p = np.array(values)
    q = benjamini_hochberg(p)
    np.testing.assert_array_equal(np.isnan(q), np.isnan(p))
    known = ~np.isnan(p)
    assert np.all(q[known] >= p[known] * (1 - 1e-12)) and np.all(q[known] <= 1)
    assert np.all(np.diff(q[known][np.argsort(p[known], kind="stable")]) >= 0)
    order = random.sample(range(len(p)), len(p))
    np.testing.assert_allclose(benjamini_hochberg(p[order]), q[order])


@pytest.mark.parametrize(("most", "other"), [(3, 0), (6, 1), (8, 2)])
def test_counts_differ_from_one_event_more_on(most: int, other: int):
    """Of 3 and 0 the roots, of three eighths more each, are 1.225 apart; of 4 and 0 they are 1.479: 1.96 / sqrt 2 is 1.386."""
    assert not counts_differ(most, other) and not counts_differ(other, most)
    assert counts_differ(most + 1, other) and counts_differ(other, most + 1)


def test_the_runs_that_a_change_takes():
    """5 + 5 runs gave an error of 10: a run scatters by 10 / sqrt(2 / 5) = 15.81, and at 80 % power a change is 2.9 errors or so.

    The usual scatter counts for four degrees of freedom.
    """
    runs = runs_for(10.0, (5, 5), 20.0, 4)
    assert runs is not None
    for many, shown in ((runs - 1, False), (runs, True)):
        error = np.array([15.811 * np.sqrt(2 / many)])
        assert (detectable(error, np.array([4.0 + 2 * many - 2]))[0] <= 20.0) == shown
    assert runs_for(10.0, (5, 5), 40.0, 4) is None  # what there is shows it
    assert runs_for(10.0, (5, 5), 1.0, 4) == 51  # no number that one would record


@pytest.mark.parametrize("runs", [(2, 2), (5, 3), (7, 10)])
def test_the_interval_of_trimmed_means_is_yuens(runs: tuple[int, int]):
    one, other = (np.random.default_rng(seed).normal(10, 1, size) for seed, size in enumerate(runs))
    change, back = trimmed(one, other), trimmed(other, one)
    assert change is not None and back is not None
    assert change.interval == pytest.approx((-back.interval[1], -back.interval[0]))
    known = stats.ttest_ind(other, one, equal_var=False, trim=0.2)
    assert change.interval == pytest.approx(tuple(known.confidence_interval()), rel=1e-9)
    assert change.p == pytest.approx(known.pvalue, rel=1e-9)
    cut = [np.sort(side)[len(side) // 5 : len(side) - len(side) // 5].mean() for side in (one, other)]
    assert change.delta == pytest.approx(cut[1] - cut[0])
    assert trimmed(one[:1], other) is None
    assert trimmed(np.array([1.0, np.nan]), other) is None
    still = trimmed(np.full(3, 2.0), np.full(4, 5.0))
    assert still is not None and still.interval == (3.0, 3.0) and np.isnan(still.p)
