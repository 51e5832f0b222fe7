"""Run-level tests, multiple testing, noise floors and power: textbook values, calibration, outliers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tracediff.stats.tests import (
    benjamini_hochberg,
    min_detectable,
    permutation_p,
    run_level_interval,
    run_level_p,
    run_sd,
    runs_for,
    runs_needed,
    smallest_p,
)

US = 1_000.0
LAUNCH_SD = 30 * US  # run-to-run noise of the launch calls of a step
PLANTED = 95 * US  # new host work in every step
OUTLIER = 1_000 * US  # one run on a busy machine


def repeats(seed: int, runs: int, cells: int = 4000, change: float = 0.0) -> np.ndarray:
    """Run values of one program at 1 ms a step."""
    return 1e6 + change + np.random.default_rng(seed).normal(0, LAUNCH_SD, (runs, cells))


def column(*values: float) -> np.ndarray:
    return np.array(values, dtype=float)[:, None]


def called(p: np.ndarray, alpha: float = 0.05) -> float:
    return float(np.mean(p <= alpha))


# Yuen-Welch


@pytest.mark.parametrize(("rb", "rc"), [(2, 2), (3, 4), (4, 2)])
def test_below_five_runs_it_is_welch(rb: int, rc: int):
    b, c = repeats(1, rb, 50), repeats(2, rc, 50, PLANTED)
    np.testing.assert_allclose(run_level_p(b, c), stats.ttest_ind(b, c, equal_var=False).pvalue, rtol=1e-9)


@pytest.mark.parametrize(("rb", "rc"), [(5, 5), (5, 3), (7, 10), (11, 6)])
def test_from_five_runs_on_it_is_yuen(rb: int, rc: int):
    b, c = repeats(1, rb, 50), repeats(2, rc, 50, PLANTED)
    expected = stats.ttest_ind(b, c, equal_var=False, trim=0.2)
    np.testing.assert_allclose(run_level_p(b, c), expected.pvalue, rtol=1e-9)
    low, high = run_level_interval(b, c)
    interval = expected.confidence_interval(0.95)  # of b - c
    np.testing.assert_allclose([low, high], [-interval.high, -interval.low], rtol=1e-9)


@pytest.mark.parametrize(("rb", "rc"), [(2, 2), (3, 3), (5, 5), (10, 10), (2, 5), (5, 8)])
def test_the_same_program_is_rarely_called_a_change(rb: int, rc: int):
    assert called(run_level_p(repeats(1, rb, 10_000), repeats(2, rc, 10_000))) < 0.06


def test_heavy_tails_are_rarely_called_a_change():
    rng = np.random.default_rng(3)
    b, c = (1e6 + LAUNCH_SD * rng.standard_t(2, (5, 10_000)) for _ in "bc")
    assert called(run_level_p(b, c)) < 0.06


def test_one_outlying_run_of_five_does_not_make_a_change():
    b, c = repeats(1, 5), repeats(2, 5)
    c[3] += OUTLIER
    assert called(run_level_p(b, c)) < 0.05


@pytest.mark.parametrize("where", ["baseline", "candidate"])
def test_one_outlying_run_of_five_does_not_hide_a_change(where: str):
    b, c = repeats(1, 5), repeats(2, 5, change=PLANTED)
    clean = called(run_level_p(b, c))
    (b if where == "baseline" else c)[2] += OUTLIER
    assert clean > 0.8
    assert called(run_level_p(b, c)) > 0.75 * clean
    assert called(stats.ttest_ind(b, c, equal_var=False).pvalue) < 0.01  # which plain Welch hides


def test_an_outlying_run_by_hand():
    noise = np.array([-30.0, -10.0, 0.0, 15.0, 25.0]) * US
    b, c = 1e6 + noise, 1e6 + PLANTED - noise
    c[0] += OUTLIER
    assert run_level_p(b[:, None], c[:, None])[0] < 0.02
    low, high = run_level_interval(b[:, None], c[:, None])
    assert 0 < low[0] < PLANTED < high[0] < 3 * PLANTED
    assert run_level_p(b[:, None], (c - PLANTED)[:, None])[0] > 0.2


def test_without_scatter():
    three, two = column(5, 5, 5), column(5, 5)
    assert run_level_p(three, three) == [1.0]
    assert run_level_p(two, two) == [1.0]
    assert run_level_p(three, three + 1) == [0.0]
    assert np.isnan(run_level_p(three, two + 1))
    assert np.isnan(run_level_interval(three, two + 1)[0])
    assert [x.tolist() for x in run_level_interval(three, three + 1)] == [[1.0], [1.0]]
    # 0.1 + 0.2 is not 0.3: rounding is no evidence.
    assert run_level_p(column(0.3, 0.3, 0.3), column(0.1 + 0.2, 0.3, 0.3)) == [1.0]


def test_where_trimming_leaves_no_scatter_p_is_that_of_a_permutation():
    once = column(0, 0, 0, 0, 1000)
    assert run_level_p(once, column(0, 0, 0, 0, 0)) == [1.0]
    assert run_level_p(once, column(7, 7, 7, 7, 7)) == [4 / 252]


def test_one_run_a_side_has_no_p():
    for rb, rc in ((1, 5), (5, 1), (1, 1)):
        assert np.isnan(run_level_p(repeats(1, rb, 3), repeats(2, rc, 3))).all()
        assert np.isnan(run_level_interval(repeats(1, rb, 3), repeats(2, rc, 3))).all()


@settings(deadline=None)
@given(
    st.integers(0, 2**32),
    st.integers(2, 7),
    st.integers(2, 7),
    st.sampled_from([1e-3, 1.0, 1e6]),
    st.randoms(use_true_random=False),
)
def test_symmetries(seed: int, rb: int, rc: int, scale: float, random):
    rng = np.random.default_rng(seed)
    b, c = rng.exponential(1e5, (rb, 6)), rng.exponential(1e5, (rc, 6))
    p, (low, high) = run_level_p(b, c), run_level_interval(b, c)
    np.testing.assert_array_equal(run_level_p(c, b), p)
    np.testing.assert_array_equal(run_level_interval(c, b), [-high, -low])
    np.testing.assert_array_equal((low > 0) | (high < 0), p < 0.05)
    order = random.sample(range(rb), rb)
    cells = random.sample(range(6), 6)
    np.testing.assert_allclose(run_level_p(b[order][:, cells], c[:, cells]), p[cells], rtol=1e-9)
    np.testing.assert_allclose(run_level_p(b * scale, c * scale), p, rtol=1e-6)
    np.testing.assert_allclose(run_sd(b[order][:, cells] * scale), run_sd(b)[cells] * scale, rtol=1e-9)
    assert permutation_p(b[order, 0] * scale, c[:, 0] * scale) == permutation_p(b[:, 0], c[:, 0])
    assert permutation_p(c[:, 0], b[:, 0]) == permutation_p(b[:, 0], c[:, 0])


# Permutation


def test_three_against_three_is_a_tenth_at_best():
    assert permutation_p(np.array([1.0, 2.0, 3.0]), np.array([10.0, 11.0, 12.0])) == 2 / 20


def test_permutation_by_hand():
    # {1, 3} v {2, 5}: means 2 and 3.5. Of the six splits {1,2}, {1,3}, {2,5}, {3,5} differ by 1.5 or more;
    # {1,5} and {2,3} by 0.5.
    assert permutation_p(np.array([1.0, 3.0]), np.array([2.0, 5.0])) == 4 / 6
    assert permutation_p(np.array([0.1] * 3), np.array([0.1] * 2)) == 1.0
    assert permutation_p(np.array([1.0]), np.array([2.0, 3.0])) is None


def test_permutation_agrees_with_scipy():
    b, c = repeats(1, 4, 1)[:, 0], repeats(2, 6, 1, PLANTED)[:, 0]

    def difference(x: np.ndarray, y: np.ndarray) -> float:
        return abs(x.mean() - y.mean())

    expected = stats.permutation_test((b, c), difference, n_resamples=np.inf, alternative="greater").pvalue
    assert permutation_p(b, c) == pytest.approx(expected)


def test_from_five_runs_on_trimmed_means_are_permuted():
    b, c = repeats(1, 5, 1)[:, 0], repeats(2, 6, 1, PLANTED)[:, 0]

    def difference(x: np.ndarray, y: np.ndarray) -> float:
        return abs(stats.trim_mean(x, 0.2) - stats.trim_mean(y, 0.2))

    expected = stats.permutation_test((b, c), difference, n_resamples=np.inf, alternative="greater").pvalue
    assert permutation_p(b, c) == pytest.approx(expected)


def test_an_outlying_run_does_not_hide_five_against_five():
    # 5 and 11 are trimmed away on either side, so exchanging them changes nothing: 2 splits, and their mirrors
    calm, slow = np.array([1.0, 2.0, 3.0, 4.0, 5.0]), np.array([11.0, 12.0, 13.0, 14.0, 15.0])
    assert permutation_p(calm, slow) == 4 / 252
    assert permutation_p(np.array([1.0, 2.0, 3.0, 4.0, 900.0]), slow) < 0.05
    # and makes none: without it the sides overlap
    assert permutation_p(calm, np.array([1.5, 2.5, 3.5, 4.5, 900.0])) > 0.3


def test_many_runs_are_split_at_random():
    b, c = repeats(1, 10, 1)[:, 0], repeats(2, 10, 1)[:, 0]
    assert permutation_p(b, c) == pytest.approx(stats.ttest_ind(b, c, trim=0.2).pvalue, abs=0.06)
    # 12 splits of 184,756 are as extreme: of 20,000 random ones hardly more than the observed one
    assert permutation_p(b, c + 1e9) <= 5 / 20_000
    assert smallest_p(10, 10) == 1 / 20_000


def test_the_smallest_p_and_the_runs_it_takes():
    assert [smallest_p(n, n) for n in (1, 2, 3, 4, 5)] == [1.0, 2 / 6, 2 / 20, 2 / 70, 4 / 252]
    assert smallest_p(2, 3) == permutation_p(np.array([0.0, 1.0]), np.array([50.0, 51.0, 53.0])) == 1 / 10
    assert [runs_needed(alpha) for alpha in (0.5, 0.1, 0.05, 0.01, 0.001)] == [2, 3, 4, 6, 8]
    with pytest.raises(ValueError, match="alpha"):
        runs_needed(1e-9)


# Benjamini-Hochberg


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


def test_one_outlying_run_of_five_hardly_moves_the_scatter():
    values = repeats(1, 5, 2000)
    clean = np.median(run_sd(values))
    values[4] += OUTLIER
    assert 0.9 * clean < np.median(run_sd(values)) < 1.25 * clean


def test_the_only_sign_of_noise_is_kept():
    assert run_sd(column(0, 0, 0, 0, 1000)) == [np.std([0, 0, 0, 0, 1000], ddof=1)]
    np.testing.assert_allclose(run_sd(column(1, 2, 3, 4, 1000)), [np.std([1, 2, 3, 4], ddof=1)])


def test_two_outliers_of_ten_are_left_out():
    values = np.concatenate([repeats(1, 8, 200), repeats(2, 2, 200, OUTLIER)])  # neither stands out alone
    np.testing.assert_allclose(np.median(run_sd(values)), LAUNCH_SD, rtol=0.15)
    values[9] += 20 * OUTLIER
    np.testing.assert_allclose(np.median(run_sd(values)), LAUNCH_SD, rtol=0.15)


# Power


@pytest.mark.parametrize("change", [150, 95, 70, 60, 40])
def test_the_runs_proposed_show_the_change(change: float):
    runs = runs_for(change * US, LAUNCH_SD)
    shown = called(run_level_p(repeats(1, runs), repeats(2, runs, change=change * US)))
    assert shown > 0.77
    fewer = max(2, runs - 2)
    assert called(run_level_p(repeats(1, fewer), repeats(2, fewer, change=change * US))) < 0.8


def test_runs_for_small_changes_and_none():
    assert runs_for(-95 * US, LAUNCH_SD) == runs_for(95 * US, LAUNCH_SD) == 4
    assert runs_for(1.0, 0.0) == 2
    assert runs_for(0.3, 30.0) == pytest.approx(2 * 1.14 * 2.8016**2 * 100**2, rel=1e-3)
    assert 950 < runs_for(30 / 7.4, 30.0) < 1050  # the two ways meet
    with pytest.raises(ValueError, match="other than 0"):
        runs_for(0.0, 1.0)


@pytest.mark.parametrize("runs", [3, 5, 8])
def test_the_detectable_change_is_detected(runs: int):
    b, c = repeats(1, runs, 300), repeats(2, runs, 300)
    found = [min_detectable(b[:, i], c[:, i]) for i in range(300)]
    change = float(np.median([x for x in found if x is not None]))
    assert 0.65 <= called(run_level_p(repeats(3, runs), repeats(4, runs, change=change))) <= 0.9


def test_the_detectable_change_by_hand():
    # 1, 2, 3 a side: standard error sqrt(1/3 + 1/3), 4 degrees of freedom, noncentrality 3.761 for power 0.8.
    expected = 3.7611 * np.sqrt(2 / 3)
    assert min_detectable(np.array([1.0, 2, 3]), np.array([7.0, 8, 9])) == pytest.approx(expected, rel=1e-4)
    assert min_detectable(np.array([1.0]), np.array([1.0, 2.0])) is None
    assert min_detectable(np.array([1.0, 1.0]), np.array([1.0, 1.0])) == 0.0
