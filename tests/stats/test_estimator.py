"""Differences of many cells: slope of host speed, moderated error, permutations, by hand and as properties."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tracediff.stats.estimator import (
    LONE_RUN,
    PRIOR,
    RIDGE,
    SPLITS,
    Lone,
    Sample,
    benjamini_hochberg,
    detectable,
    estimate,
    holm,
    paired,
    permutation_p,
    permuted_t,
    runs_for,
    slopes,
    splits,
    trimmed_interval,
)

NONE = np.zeros(1)


def column(*values: float) -> np.ndarray:
    return np.array(values, float)[:, None]


# Host speed


SPEED = (np.array([-0.1, 0.1]), np.array([0.0, 0.2]))
HOST = Sample((column(100, 120), column(112, 128)), SPEED)


def test_a_slope_by_hand():
    """Within the sides: S_zy = 0.1 * 10 * 2 + 0.1 * 8 * 2 = 3.6; S_zz = 4 * 0.01 = 0.04. RIDGE 0.05, usual slope 90: 4.5."""
    assert slopes(HOST, np.array([90.0]), {})[0] == pytest.approx((3.6 + 4.5) / (0.04 + 0.05))
    assert slopes(HOST, np.array([0.0]), {})[0] == pytest.approx(3.6 / 0.09)


def test_a_slope_is_at_most_twice_the_time_of_the_smaller_side():
    """Runs 20, 220 and 20, 228: S_zy = 0.1 * 100 * 2 + 0.1 * 104 * 2 = 40.8; / (0.04 + 0.05) = 453; means 120 and 124: 240."""
    steep = Sample((column(20, 220), column(20, 228)), SPEED)
    assert slopes(steep, np.array([0.0]), {})[0] == pytest.approx(240)
    falling = Sample((column(220, 20), column(228, 20)), SPEED)
    assert slopes(falling, np.array([0.0]), {})[0] == pytest.approx(-240)


def test_gpu_time_and_sides_without_host_speed_have_no_slope():
    assert slopes(HOST, np.array([np.nan]), {}).tolist() == [0]
    assert slopes(Sample(HOST.values), np.array([90.0]), {}).tolist() == [0]


def test_the_slope_of_a_sum_is_the_sum_of_the_slopes():
    """Cell 0 = cell 1 (host work) + cell 2 (GPU time, which follows the host by chance alone)."""
    one, other = np.array([[0, 100, 40], [0, 120, 44]], float), np.array([[0, 112, 40], [0, 128, 44]], float)
    for side in (one, other):
        side[:, 0] = side[:, 1] + side[:, 2]
    found = slopes(Sample((one, other), SPEED), np.array([0.0, 90.0, np.nan]), {0: np.array([1, 2])})
    assert found == pytest.approx([90, 90, 0])


def test_what_a_slower_host_costs_is_no_change():
    """Means 110 and 120; the candidate's host is 0.1 slower: at a slope of 40, 4 of the 10 are the host's."""
    found = estimate(HOST, NONE + 1, np.array([40.0]))
    assert (found.delta[0], found.host_speed[0]) == (pytest.approx(6), pytest.approx(4))
    assert found.candidate[0] - found.baseline[0] == pytest.approx(found.delta[0] + found.host_speed[0])
    # As if all hosts had the mean speed of the sides, 0.05: -0.15, 0.05, -0.05, 0.15 times 40
    assert found.values[0][:, 0] == pytest.approx([106, 118])
    assert found.values[1][:, 0] == pytest.approx([114, 122])


# Errors


def test_a_moderated_error_by_hand():
    """Runs 8, 10, 12 and 15, 17, 19: squares 8 + 8, 4 df. s0 = 3: (4 * 9 + 16) / 8 = 6.5; error sqrt(6.5 * 2/3) = 2.0817."""
    found = estimate(Sample((column(8, 10, 12), column(15, 17, 19))), NONE + 3, NONE)
    assert found.delta[0] == 7
    assert found.error[0] == pytest.approx(np.sqrt(6.5 * 2 / 3))
    assert found.df == 8
    assert found.half[0] == pytest.approx(2.3060 * 2.0817, rel=1e-4)  # t of 8 df
    assert found.p[0] == pytest.approx(2 * stats.t.sf(7 / 2.0816660, 8))


def test_without_usual_scatter_and_slope_it_is_student_with_more_freedom():
    rng = np.random.default_rng(1)
    one, other = rng.normal(10, 1, (6, 30)), rng.normal(10, 1, (4, 30))
    found = estimate(Sample((one, other)), np.zeros(30), np.zeros(30))
    pooled = stats.ttest_ind(other, one)
    # the usual scatter of nothing counts for four runs: the variance is 8 / (8 + 4) of the pooled one
    assert found.delta / found.error == pytest.approx(pooled.statistic * np.sqrt((8 + PRIOR) / 8))


def test_an_uncertain_slope_adds_to_the_error():
    """Residuals at slope 40: 106, 118 and 114, 122: squares 72 + 32, 2 df; s0 = 1: (4 + 104) / 6 = 18. Gap 0.1: 0.01 / 0.09.

    The means are 110 and 120: of the larger one (110 / 120)^2 may move with the host.
    """
    found = estimate(HOST, NONE + 1, np.array([40.0]))
    assert found.error[0] == pytest.approx(np.sqrt(18 * (1 / 2 + 1 / 2 + 0.01 / 0.09 * (11 / 12) ** 2)))
    without = estimate(HOST, NONE + 1, NONE)  # no slope, nothing to be uncertain of: squares 200 + 128
    assert without.error[0] == pytest.approx(np.sqrt((4 + 328) / 6))


def test_what_one_side_alone_has_cannot_move_with_the_host():
    """Nothing on the baseline, 100 and 102 on the candidate, gap 0.1: squares 2, 2 df, s0 = 1: (4 + 2) / 6 = 1, and nothing for the slope."""
    one_sided = Sample((column(0, 0), column(100, 102)), (np.array([0.0, 0.0]), np.array([0.1, 0.1])))
    assert estimate(one_sided, NONE + 1, np.array([40.0])).error[0] == pytest.approx(1)
    # both have the same: all of it may, S_zz = 0: 0.01 / 0.05
    both = Sample((column(100, 102), column(100, 102)), one_sided.speed)
    assert estimate(both, NONE + 1, np.array([40.0])).error[0] == pytest.approx(np.sqrt((4 + 4) / 6 * 1.2))


def test_two_runs_that_agree_by_chance_have_the_usual_scatter_and_that_of_their_steps():
    """Runs 10, 10 and 14, 14; s0 = 3: the moderated variance 36 / 6 = 6 is less than 9, so 9 / 2 a side; the steps add 1 and 2."""
    steps = np.array([1.0]), np.array([2.0])
    found = estimate(
        Sample((column(10, 10), column(14, 14)), step_variance=steps, step_df=11), NONE + 3, NONE
    )
    assert found.error[0] == pytest.approx(np.sqrt(9 / 2 + 1 + 9 / 2 + 2))
    # 9 of the runs with 4 + 2 degrees of freedom, 3 of the steps with 11: 12^2 / (81 / 6 + 9 / 11) = 144 / 14.318
    assert found.df[0] == pytest.approx(10.057, abs=1e-3)
    assert found.p[0] == pytest.approx(2 * stats.t.sf(4 / np.sqrt(12), 144 / (81 / 6 + 9 / 11)))


def test_cells_have_their_own_freedom():
    """The steps of the second cell do not scatter: 4 + 2."""
    steps = np.array([1.0, 0.0]), np.array([2.0, 0.0])
    values = np.array([[10.0, 5.0]] * 2), np.array([[14.0, 5.0]] * 2)
    found = estimate(Sample(values, step_variance=steps, step_df=11), np.array([3.0, 3.0]), np.zeros(2))
    assert found.df == pytest.approx([144 / (81 / 6 + 9 / 11), 6])


def test_with_one_run_a_side_the_usual_variance_counts_more():
    steps = np.array([1.0]), np.array([2.0])
    found = estimate(Sample((column(10), column(14, 14)), step_variance=steps, step_df=2), NONE + 3, NONE)
    assert found.error[0] == pytest.approx(np.sqrt(LONE_RUN * 9 + 1 + LONE_RUN * 9 / 2 + 2))
    # 30.375 of the runs with 4 + 1 degrees of freedom, 3 of the steps with 2
    assert found.df[0] == pytest.approx(33.375**2 / (30.375**2 / (PRIOR + 1) + 9 / 2))


def test_of_one_run_a_side_the_interval_is_of_each_side_and_the_test_of_sides_that_are_alike():
    """Times 10 and 40. Interval: sqrt(2) x 5 x 2.776 (t of 4 df). Test: 30 / (sqrt(2) x 3)."""
    sample = Sample((column(10), column(40)), step_variance=(np.zeros(1), np.zeros(1)))
    found = estimate(sample, NONE + 99, NONE, Lone(NONE + 5, NONE + 3))
    assert found.half[0] == pytest.approx(np.sqrt(2) * 5 * 2.7764, rel=1e-4)
    assert found.error[0] == pytest.approx(np.sqrt(2) * 3)
    assert found.p[0] == pytest.approx(2 * stats.t.sf(30 / (np.sqrt(2) * 3), 4))
    two = Sample((column(10, 10), column(40, 40)), step_variance=sample.step_variance)
    assert estimate(two, NONE + 3, NONE, Lone(NONE, NONE)).p == estimate(two, NONE + 3, NONE).p


@pytest.mark.parametrize(("slope", "of_slope"), [(1.0, 3.2), (90.0, 18.0**2)])
def test_with_one_run_a_side_the_usual_slope_may_be_wrong_by_half(slope: float, of_slope: float):
    """s0 = 1, gap 0.4: 0.16 / 0.05 = 3.2 of the scatter, or (0.5 x 90 x 0.4)^2 = 18^2 of the slope, whichever is more."""
    speed, no_steps = (np.array([0.0]), np.array([0.4])), (np.zeros(1), np.zeros(1))
    lone = Sample((column(100), column(100)), speed, step_variance=no_steps)
    assert estimate(lone, NONE + 1, np.array([slope])).error[0] == pytest.approx(
        np.sqrt(2 * LONE_RUN + of_slope)
    )


def test_from_three_runs_on_the_steps_say_nothing():
    values = column(8, 10, 12), column(15, 17, 19)
    with_steps = Sample(values, step_variance=(np.array([1e6]), np.array([1e6])))
    assert estimate(with_steps, NONE + 3, NONE).error == estimate(Sample(values), NONE + 3, NONE).error


def test_further_repeats_tell_of_the_scatter_alone():
    """As above 16 of squares and 4 df, and repeats 0, 6: 18 more and one df. (36 + 34) / 9."""
    values = column(8, 10, 12), column(15, 17, 19)
    found = estimate(Sample(values, more=column(0, 6)), NONE + 3, NONE)
    assert found.error[0] == pytest.approx(np.sqrt((36 + 34) / 9 * 2 / 3))
    assert (found.df, found.delta[0]) == (9, 7)


@pytest.mark.parametrize("more", [np.zeros((0, 1)), column(5)])
def test_repeats_without_such_steps_or_one_alone_change_nothing(more: np.ndarray):
    values = column(8, 10, 12), column(15, 17, 19)
    known, unknown = (estimate(Sample(values, more=one), NONE + 3, NONE) for one in (None, more))
    assert (known.error, known.df) == (unknown.error, unknown.df)
    dealt = splits((3, 3))
    with_more = permuted_t(Sample(values, more=more), NONE + 3, NONE, {}, dealt)
    assert with_more == pytest.approx(permuted_t(Sample(values), NONE + 3, NONE, {}, dealt))


def test_nothing_on_either_side_is_no_change_and_a_change_without_scatter_is_sure():
    values = np.array([[0.0, 5.0]] * 4), np.array([[0.0, 6.0]] * 4)
    found = estimate(Sample(values), np.zeros(2), np.zeros(2))
    assert found.delta.tolist() == [0, 1] and found.error.tolist() == [0, 0]
    assert found.p.tolist() == [1, 0]


def test_a_number_that_is_unknown_stays_so_and_spoils_no_other():
    values = np.array([[np.nan, 5.0], [1.0, 7.0]]), np.array([[1.0, 6.0], [1.0, 8.0]])
    found = estimate(Sample(values), np.ones(2), np.zeros(2))
    assert np.isnan(found.p[0]) and found.delta[1] == 1 and not np.isnan(found.p[1])
    t = permuted_t(Sample(values), np.ones(2), np.zeros(2), {}, splits((2, 2)))
    assert np.isnan(t[0, 0]) and permutation_p(t)[0] == 1


def test_cells_are_taken_with_their_runs():
    values = np.array([[1.0, 5.0], [2.0, 7.0]]), np.array([[1.0, 6.0], [1.0, 8.0]])
    found = estimate(Sample(values), np.ones(2), np.zeros(2)).take([1])
    assert (found.baseline.tolist(), found.candidate.tolist(), found.delta.tolist()) == ([6], [7], [1])
    assert found.values[0].tolist() == [[5], [7]]


# Properties


@st.composite
def samples(draw: st.DrawFn) -> Sample:
    cells = draw(st.integers(1, 4))
    runs = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    number = st.floats(-1e6, 1e6).map(lambda one: round(one, 3))
    values = [
        np.array(draw(st.lists(number, min_size=many * cells, max_size=many * cells))).reshape(many, cells)
        for many in runs
    ]
    speed = None
    if draw(st.booleans()):
        small = st.floats(-0.5, 0.5).map(lambda one: round(one, 3))
        speed = tuple(np.array(draw(st.lists(small, min_size=many, max_size=many))) for many in runs)
    variance = tuple(
        np.array(draw(st.lists(st.floats(0, 1e6), min_size=cells, max_size=cells))) for _ in runs
    )
    return Sample((values[0], values[1]), speed, variance)  # type: ignore[arg-type]


def exchanged(sample: Sample) -> Sample:
    def other(pair):
        return None if pair is None else pair[::-1]

    return Sample(sample.values[::-1], other(sample.speed), other(sample.step_variance))


def found_of(sample: Sample):
    cells = sample.values[0].shape[1]
    usual = np.linspace(0, 1000, cells)
    return estimate(sample, np.full(cells, 100.0), slopes(sample, usual, {}))


@given(samples())
def test_exchanging_the_sides_changes_every_sign_and_nothing_else(sample: Sample):
    one, other = found_of(sample), found_of(exchanged(sample))
    assert (one.delta == -other.delta).all() and (one.host_speed == -other.host_speed).all()
    assert one.baseline.tolist() == other.candidate.tolist()
    assert (one.half.tolist(), one.p.tolist()) == (other.half.tolist(), other.p.tolist())
    assert one.df.tolist() == other.df.tolist()


@given(samples())
def test_a_side_against_itself_is_exactly_nothing(sample: Sample):
    speed = None if sample.speed is None else (sample.speed[0], sample.speed[0])
    found = found_of(Sample((sample.values[0], sample.values[0]), speed))
    assert not found.delta.any() and not found.host_speed.any()
    assert (found.p == 1).all()


@given(samples())
def test_candidate_minus_baseline_is_delta_and_host_speed(sample: Sample):
    found = found_of(sample)
    assert found.candidate - found.baseline == pytest.approx(found.delta + found.host_speed, abs=1e-6)
    runs = found.values[1].mean(axis=0) - found.values[0].mean(axis=0)
    assert runs == pytest.approx(found.delta, abs=1e-6)


@given(samples(), st.randoms(use_true_random=False))
def test_the_order_of_runs_is_irrelevant(sample: Sample, random):
    order = [random.sample(range(many), many) for many in sample.runs]
    values = tuple(one[at] for one, at in zip(sample.values, order, strict=True))
    speed = (
        None if sample.speed is None else tuple(one[at] for one, at in zip(sample.speed, order, strict=True))
    )
    one, other = found_of(sample), found_of(Sample(values, speed, sample.step_variance))  # type: ignore[arg-type]
    assert other.delta == pytest.approx(one.delta, abs=1e-6)
    assert other.error == pytest.approx(one.error, rel=1e-6)


# Permutation


def test_four_against_four_have_seventy_splits():
    dealt = splits((4, 4))
    assert dealt.shape == (70, 8)
    assert dealt[0].tolist() == [False] * 4 + [True] * 4  # the true one
    assert len({tuple(one) for one in dealt.tolist()}) == 70
    assert (dealt.sum(axis=1) == 4).all()


def test_beyond_the_limit_splits_are_drawn_at_random():
    dealt = splits((8, 7))  # 6,435 ways
    assert dealt.shape == (SPLITS, 15) and (dealt.sum(axis=1) == 7).all()
    assert dealt[0].tolist() == [False] * 8 + [True] * 7
    assert (dealt == splits((8, 7))).all()


def test_a_permutation_of_four_against_four_by_hand():
    """1 2 3 4 against 5 6 7 8: only this split and its mirror image are as extreme, 2 of 70. 1 2 3 5 against 4 6 7 8: so are four."""
    dealt = splits((4, 4))
    wide = permuted_t(Sample((column(1, 2, 3, 4), column(5, 6, 7, 8))), NONE + 1, NONE, {}, dealt)
    assert permutation_p(wide)[0] == pytest.approx(2 / 70)
    near = permuted_t(Sample((column(1, 2, 3, 5), column(4, 6, 7, 8))), NONE + 1, NONE, {}, dealt)
    assert permutation_p(near)[0] == pytest.approx(4 / 70)


def test_equal_runs_are_no_evidence():
    t = permuted_t(Sample((column(5, 5, 5, 5), column(5, 5, 5, 5))), NONE + 1, NONE, {}, splits((4, 4)))
    assert permutation_p(t)[0] == 1


@pytest.mark.parametrize("with_speed", [False, True])
def test_every_split_is_what_an_estimate_of_it_would_say(with_speed: bool):
    rng = np.random.default_rng(2)
    values, speed = rng.normal(100, 10, (7, 3)), rng.normal(0, 0.2, 7)
    usual, scatter = np.array([50.0, np.nan, 0.0]), np.array([2.0, 3.0, 4.0])
    dealt = splits((4, 3))
    more = rng.normal(0, 5, (2, 3))

    def sample(other: np.ndarray) -> Sample:
        z = (speed[~other], speed[other]) if with_speed else None
        return Sample((values[~other], values[other]), z, more=more)

    t = permuted_t(sample(dealt[0]), scatter, usual, {2: np.array([0, 1])}, dealt)
    for row, other in zip(t, dealt, strict=True):
        one = sample(other)
        found = estimate(one, scatter, slopes(one, usual, {2: np.array([0, 1])}))
        assert row == pytest.approx(np.abs(found.delta) / found.error)


@settings(max_examples=30)
@given(st.integers(0, 10**6))
def test_the_p_of_a_permutation_is_that_of_the_exchanged_sides(seed: int):
    rng = np.random.default_rng(seed)
    one = Sample(
        (rng.normal(0, 1, (4, 2)), rng.normal(0.5, 1, (5, 2))), (rng.normal(0, 1, 4), rng.normal(0, 1, 5))
    )
    p = [
        permutation_p(permuted_t(sample, np.ones(2), np.ones(2), {}, splits(sample.runs)))
        for sample in (one, exchanged(one))
    ]
    assert p[0] == pytest.approx(p[1])


# Pairs of runs that had the same requests


def test_of_pairs_only_their_differences_scatter():
    """Pairs 10 13, 50 52, 90 96: differences 3, 2, 6, squares about 11/3 are 26/3; half of them scatter, with 2 df.

    s0 = 1: (4 + 13/3) / 6 = 25/18; error^2 = 25/18 * 2/3. Unpaired the runs scatter by some 40.
    """
    apart = Sample((column(10, 50, 90), column(13, 52, 96)))
    found = estimate(paired(apart), NONE + 1, NONE)
    assert (found.delta[0], found.df) == (pytest.approx(11 / 3), 6)
    assert found.error[0] == pytest.approx(np.sqrt(25 / 18 * 2 / 3))
    assert (found.baseline[0], found.candidate[0]) == (pytest.approx(50), pytest.approx(161 / 3))
    assert estimate(apart, NONE + 1, NONE).error[0] > 20


def test_without_usual_scatter_pairs_are_a_paired_t_test():
    rng = np.random.default_rng(4)
    common = rng.normal(0, 50, (6, 20))
    one, other = common + rng.normal(10, 1, (6, 20)), common + rng.normal(10, 1, (6, 20))
    found = estimate(paired(Sample((one, other))), np.zeros(20), np.zeros(20))
    test = stats.ttest_rel(other, one)
    assert found.delta / found.error == pytest.approx(test.statistic * np.sqrt((5 + PRIOR) / 5))


def test_what_a_pair_has_in_common_is_no_host_speed():
    """Both runs of a pair are 0.3 slower in z and 100 in time; within pairs 0.1 of z costs 4. S_zy = 2 * 0.05 * 2 * ..., by differences."""
    z = (np.array([0.0, 0.3]), np.array([0.1, 0.2]))
    y = (column(100, 200), column(104, 196))
    # differences of z: 0.1, -0.1; of time: 4, -4. Half of sum dz dy = 0.4, half of sum dz^2 = 0.01
    assert slopes(paired(Sample(y, z)), np.array([20.0]), {})[0] == pytest.approx(
        (0.4 + 0.05 * 20) / (0.01 + 0.05)
    )


def test_pairs_are_dealt_out_pair_by_pair():
    dealt = splits((6, 6), pairs=True)
    assert dealt.shape == (64, 12) and len({tuple(one) for one in dealt.tolist()}) == 64
    assert dealt[0].tolist() == [False] * 6 + [True] * 6
    assert (dealt[:, :6] != dealt[:, 6:]).all()
    # all six differences have one sign: 2 of 64
    one = paired(Sample((column(0, 10, 20, 30, 40, 50), column(1, 12, 21, 33, 41, 52))))
    assert permutation_p(permuted_t(one, NONE + 1, NONE, {}, dealt))[0] == pytest.approx(2 / 64)


def test_every_split_of_pairs_is_what_an_estimate_of_it_would_say():
    rng = np.random.default_rng(5)
    values, speed = rng.normal(100, 10, (2, 4, 2)), rng.normal(0, 0.2, (2, 4))
    usual, scatter = np.array([50.0, np.nan]), np.array([2.0, 3.0])
    dealt = splits((4, 4), pairs=True)
    whole = paired(Sample((values[0], values[1]), (speed[0], speed[1])))
    t = permuted_t(whole, scatter, usual, {}, dealt)
    for row, kept in zip(t, dealt[:, 4:], strict=True):
        one, other = (np.where(kept[:, None], values[at], values[1 - at]) for at in (0, 1))
        z = tuple(np.where(kept, speed[at], speed[1 - at]) for at in (0, 1))
        sample = paired(Sample((one, other), z))  # type: ignore[arg-type]
        found = estimate(sample, scatter, slopes(sample, usual, {}))
        assert row == pytest.approx(np.abs(found.delta) / found.error)


# Corrections and power


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


def test_intervals_cover_as_often_as_they_say_where_the_usual_scatter_is_right():
    """2,000 null samples of 4 + 4 runs whose time follows the host; 95 % of the intervals hold 0."""
    rng = np.random.default_rng(3)
    inside = 0
    for _ in range(200):
        speed = rng.normal(0, 0.1, 4), rng.normal(0, 0.1, 4)
        values = [1000 + 900 * one[:, None] + rng.normal(0, 30, (4, 10)) for one in speed]
        sample = Sample((values[0], values[1]), speed)
        found = estimate(sample, np.full(10, 30.0), slopes(sample, np.full(10, 900.0), {}))
        inside += int((np.abs(found.delta) <= found.half).sum())
    assert 0.93 <= inside / 2000 <= 0.98


def test_all_ways_to_deal_out_are_those_of_combinations():
    assert {tuple(np.flatnonzero(one)) for one in splits((3, 2))} == set(combinations(range(5), 2))
    assert RIDGE > 0  # without it, hosts of one speed would divide by zero


# Benjamini-Hochberg, runs that a change takes, intervals of trimmed means


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


def test_the_runs_that_a_change_takes():
    """5 + 5 runs gave an error of 10: a run scatters by 10 / sqrt(2 / 5) = 15.81, and at 80 % power a change is 2.9 errors or so."""
    runs = runs_for(10.0, (5, 5), 20.0)
    assert runs is not None
    for many, shown in ((runs - 1, False), (runs, True)):
        error = np.array([15.811 * np.sqrt(2 / many)])
        assert (detectable(error, np.array([4.0 + 2 * many - 2]))[0] <= 20.0) == shown
    assert runs_for(10.0, (5, 5), 40.0) is None  # what there is shows it
    assert runs_for(10.0, (5, 5), 1.0) == 51  # no number that one would record


@pytest.mark.parametrize("runs", [(2, 2), (5, 3), (7, 10)])
def test_the_interval_of_trimmed_means_is_yuens(runs: tuple[int, int]):
    one, other = (np.random.default_rng(seed).normal(10, 1, size) for seed, size in enumerate(runs))
    interval = trimmed_interval(one, other)
    back = trimmed_interval(other, one)
    assert interval is not None and back is not None
    assert interval == pytest.approx((-back[1], -back[0]))
    cut = [np.sort(side)[len(side) // 5 : len(side) - len(side) // 5].mean() for side in (one, other)]
    assert sum(interval) / 2 == pytest.approx(cut[1] - cut[0])
    assert trimmed_interval(one[:1], other) is None
    assert trimmed_interval(np.full(3, 2.0), np.full(4, 5.0)) == (3.0, 3.0)
