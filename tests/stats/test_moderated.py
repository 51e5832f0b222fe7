"""Figures with one value per run: moderated t statistics by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tracediff.stats.moderated import LONE_RUN, PRIOR, moderated
from tracediff.stats.noise import dealt_t, permutation_p, splits

NONE = np.zeros(1)


def column(*values: float) -> np.ndarray:
    return np.array(values, float)[:, None]


def test_a_moderated_error_by_hand():
    """Runs 8, 10, 12 and 15, 17, 19: squares 8 + 8, 4 df. s0 = 3: (4 * 9 + 16) / 8 = 6.5; error sqrt(6.5 * 2/3) = 2.0817."""
    found = moderated((column(8, 10, 12), column(15, 17, 19)), NONE + 3)
    assert (found.baseline[0], found.candidate[0], found.delta[0], found.df[0]) == (10, 17, 7, 8)
    assert found.error[0] == pytest.approx(np.sqrt(6.5 * 2 / 3))
    assert found.half[0] == pytest.approx(2.3060 * 2.0817, rel=1e-4)  # t of 8 df
    assert found.p[0] == pytest.approx(2 * stats.t.sf(7 / 2.0816660, 8))
    # from three runs on, the scatter within them says nothing
    within = moderated((column(8, 10, 12), column(15, 17, 19)), NONE + 3, (NONE + 1e6, NONE + 1e6), 5)
    assert within.error == found.error


def test_without_usual_scatter_it_is_student_with_more_freedom():
    rng = np.random.default_rng(1)
    one, other = rng.normal(10, 1, (6, 30)), rng.normal(10, 1, (4, 30))
    found = moderated((one, other), np.zeros(30))
    pooled = stats.ttest_ind(other, one)
    # the usual scatter of nothing counts for four runs: the variance is 8 / (8 + 4) of the pooled one
    assert found.delta / found.error == pytest.approx(pooled.statistic * np.sqrt((8 + PRIOR) / 8))


def test_two_runs_that_agree_by_chance_have_the_usual_scatter_and_that_within_them():
    """Runs 10, 10 and 14, 14; s0 = 3: the moderated variance 36 / 6 = 6 is less than 9, so 9 / 2 a side; within them 1 and 2.

    The second figure does not scatter within its runs, the third not at all: 4 + 2 degrees of freedom.
    """
    values = np.array([[10.0, 5.0, 5.0]] * 2), np.array([[14.0, 5.0, 5.0]] * 2)
    within = np.array([1.0, 0.0, 0.0]), np.array([2.0, 0.0, 0.0])
    found = moderated(values, np.array([3.0, 3.0, 0.0]), within, 11)
    assert found.error[0] == pytest.approx(np.sqrt(9 / 2 + 1 + 9 / 2 + 2))
    # 9 of the runs with 4 + 2 degrees of freedom, 3 of the steps with 11: 12^2 / (81 / 6 + 9 / 11) = 144 / 14.318
    assert found.df == pytest.approx([10.057, 6, 6], abs=1e-3) and found.half[2] == 0
    assert found.p[0] == pytest.approx(2 * stats.t.sf(4 / np.sqrt(12), 144 / (81 / 6 + 9 / 11)))


def test_with_one_run_a_side_the_usual_variance_counts_more():
    found = moderated((column(10), column(14, 14)), NONE + 3, (NONE + 1, NONE + 2), 2)
    assert found.error[0] == pytest.approx(np.sqrt(LONE_RUN * 9 + 1 + LONE_RUN * 9 / 2 + 2))
    # 30.375 of the runs with 4 + 1 degrees of freedom, 3 of the steps with 2
    assert found.df[0] == pytest.approx(33.375**2 / (30.375**2 / (PRIOR + 1) + 9 / 2))


def test_no_scatter_at_all_and_numbers_that_are_unknown():
    found = moderated((np.array([[0.0, 5.0, np.nan]] * 4), np.array([[0.0, 6.0, 1.0]] * 4)), np.zeros(3))
    assert found.delta[:2].tolist() == [0, 1] and found.error[:2].tolist() == [0, 0]
    assert found.p[:2].tolist() == [1, 0] and np.isnan(found.p[2])


@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(1, 5))
def test_exchanging_the_sides_changes_the_sign_and_nothing_else(seed: int, runs: int, others: int):
    rng = np.random.default_rng(seed)
    values, within = (rng.normal(10, 1, (runs, 3)), rng.normal(9, 1, (others, 3))), (np.ones(3), NONE + 2)
    one = moderated(values, np.ones(3), within, 6)
    other = moderated(values[::-1], np.ones(3), within[::-1], 6)
    assert (one.delta == -other.delta).all()
    assert (one.half.tolist(), one.p.tolist()) == (other.half.tolist(), other.p.tolist())


def test_every_way_to_deal_the_runs_out_has_the_t_of_its_sides():
    """The first is the true one; 1 2 3 4 against 5 6 7 8: this and its mirror image, 2 of 70."""
    values, dealt = np.random.default_rng(2).normal(100, 10, (7, 3)), splits((4, 3))
    t = dealt_t((values[:4], values[4:]), np.array([2.0, 3.0, 4.0]) ** 2, PRIOR, dealt, len(values) - 2)
    for row, other in zip(t, dealt, strict=True):
        found = moderated((values[~other], values[other]), np.array([2.0, 3.0, 4.0]))
        assert row == pytest.approx(np.abs(found.delta) / found.error)
    apart = dealt_t((column(1, 2, 3, 4), column(5, 6, 7, 8)), NONE + 1, PRIOR, splits((4, 4)), 6)
    assert permutation_p(apart)[0] == pytest.approx(2 / 70)
