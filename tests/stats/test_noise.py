"""Differences of many cells under one noise model: by hand in us, and as properties."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from scipy import stats

from tracediff.stats.noise import (
    BETA,
    FLOOR,
    NU,
    SPLITS,
    TAU,
    Estimate,
    Groups,
    Noise,
    Sample,
    estimate,
    paired,
    permutation_p,
    permuted_t,
    splits,
)

US = 1_000.0
Q = 2.5706  # Student's t with 5 degrees of freedom, 97.5 %: one run a side
GPU, HOST, WAIT = 0.004, 0.05, 0.3


def us(*runs: float) -> np.ndarray:
    """Runs of one cell."""
    return np.array(runs, float)[:, None] * US


def noise_of(sample: Sample, *usual: float, host: bool = True) -> Noise:
    """Usual scatter as a part of each cell's mean."""
    means = np.stack([values.mean(axis=0) for values in sample.values])
    return Noise(np.array(usual) * np.abs(means), np.full(means.shape[1], host))


def found_of(sample: Sample, *usual: float, **rest) -> Estimate:
    return estimate(sample, noise_of(sample, *usual, **rest))


def interval(found: Estimate, cell: int = 0) -> tuple[float, float]:
    return float(found.low[cell]) / US, float(found.high[cell]) / US


# One run a side


def test_three_cells_and_their_sum_by_hand():
    """Kernels 800 -> 760, host work 40 -> 140, a wait 0 -> 60 in all 20 steps; 1.4 times the errors of their steps: 1, 1; 2, 3; 0, 6.

    The candidate's host is 0.10 slower in log: g = 0.09, and (e^0.09 - 1) min(40, 140 e^-0.09) = 3.77 of the host work may be of that.
    Host work, q s = 2.571 * 0.05 = 0.1285:
      candidate down 140 (1 - exp(-hypot(0.1285, 2.571 * 1.4 * 3 / 140))) = 19.5, up hypot(140 (e^0.1285 - 1), 10.8) = 22.0
      baseline down 40 (1 - exp(-hypot(0.1285, 2.571 * 1.4 * 2 / 40))) = 7.94, up hypot(40 * 0.1372, 7.20) = 9.05
      a slope that is off by 0.3: 2.571 * 0.3 * 0.1 * 41.8 = 3.23, of what both have at the mean speed, 40 e^0.045
      from (100 - 3.77) - sqrt(9.05^2 + 19.5^2 + 3.23^2) = 74.5 to 100 + sqrt(22.0^2 + 7.94^2 + 3.23^2) = 123.6
    Wait: candidate down 60 (1 - exp(-hypot(0.771, 0.360))) = 34.4, up hypot(60 (e^0.771 - 1), 21.6) = 73.0; the baseline may have
      3.7 of 20 steps with 60, 11.1: from 60 - sqrt(34.4^2 + 11.1^2) = 23.9 to 133.0
    Kernels: -40, 12.4 either way. Step: 840 -> 960, from 116.2 - sqrt(12.4^2 + 21.5^2 + 36.1^2 + 3.2^2) = 72.3
      to 120 + sqrt(12.4^2 + 23.4^2 + 73.0^2 + 3.2^2) = 197.7
    """
    one, other = np.array([[800.0, 40.0, 0.0]]) * US, np.array([[760.0, 140.0, 60.0]]) * US
    errors = np.array([[1.0, 2.0, 0.0], [1.0, 3.0, 6.0]]) * US
    sample = Sample(
        (one, other),
        (np.array([0.0]), np.array([0.1])),
        ((1.4 * errors[0]) ** 2, (1.4 * errors[1]) ** 2),
        (np.array([0.0, 0.0, 11.1]) * US, np.zeros(3)),
    )
    noise = Noise(np.array([GPU, HOST, WAIT]) * np.concatenate([one, other]), np.array([False, True, False]))
    found = estimate(sample, noise, Groups.build([[0], [1], [2], [0, 1, 2]]))
    assert found.baseline / US == pytest.approx([800, 40, 0, 840])
    assert found.delta / US == pytest.approx([-40, 100, 60, 120])
    assert found.host_speed / US == pytest.approx([0, 3.77, 0, 3.77], abs=0.01)
    assert found.low / US == pytest.approx([-52.4, 74.5, 23.9, 72.3], abs=0.06)
    assert found.high / US == pytest.approx([-27.6, 123.6, 133.0, 197.7], abs=0.06)
    assert found.clear.all() and found.near / US == pytest.approx([27.6, 74.5, 23.9, 72.3], abs=0.06)


def test_p_is_of_the_quantile_at_which_the_interval_touches_nothing():
    """80 -> 160 us, of which the candidate alone scatters, by 0.2: 160 (1 - e^-0.2q) = 80 at q = ln 2 / 0.2."""
    sample = Sample((us(80), us(160)))
    found = estimate(sample, Noise(np.array([[0.0], [32.0]]) * US, np.array([False])))
    assert found.p[0] == pytest.approx(2 * stats.t.sf(math.log(2) / 0.2, 5), rel=1e-3)


@pytest.mark.parametrize("usual", [GPU, HOST, WAIT])
def test_what_was_seen_cannot_be_less_than_nothing(usual: float):
    """1 -> 18 ms is slower whatever is known of the hosts, and what is gone is gone."""
    values = us(1_000), us(18_000)
    apart = np.array([0.0]), np.array([math.log(2)])
    for sample in (Sample(values), Sample(values, hosts="unknown"), Sample(values, apart)):
        found = found_of(sample, usual)
        assert found.clear[0] and found.low[0] > 0 and found.p[0] < 0.05
    gone = found_of(Sample((us(18_000), us(0))), usual)
    assert gone.high[0] < 0


def test_only_what_both_sides_have_moves_with_the_host():
    """A gap of 0.2: nothing of what is new, e^0.18 - 1 of 100 that both have; without a host, or on one machine, no reading but one."""
    speed = np.array([0.0]), np.array([0.2])
    assert found_of(Sample((us(0), us(100)), speed), 0.0).host_speed[0] == 0
    both = found_of(Sample((us(100), us(200)), speed), 0.0)
    assert both.host_speed[0] / US == pytest.approx(100 * math.expm1(0.9 * 0.2))
    assert both.delta[0] == 100 * US  # as measured
    kernels = found_of(Sample((us(100), us(200)), speed), 0.0, host=False)
    assert kernels.host_speed[0] == 0 and kernels.low[0] > 99 * US


@pytest.mark.parametrize(
    ("hosts", "host", "half"),
    [
        ("one", True, 0.0),
        ("unknown", True, 2.5706 * 0.25 * 100),  # beta z scatters by 0.25
        ("unknown", False, 0.0),
    ],
)
def test_an_unknown_host_may_explain_what_both_sides_have(hosts, host: bool, half: float):
    """100 us on both sides that do not scatter; besides, 50 ns a side that nobody can measure."""
    found = found_of(Sample((us(100), us(100)), hosts=hosts), 0.0, host=host)
    assert found.half[0] / US == pytest.approx(math.hypot(half, Q * 0.05 * math.sqrt(2)), rel=1e-4)
    assert (found.delta[0], found.p[0]) == (0, 1)


# Several runs


def test_runs_replace_the_usual_scatter_by_hand():
    """98, 100, 102 and 108, 110, 112, usually 3 apart: SS = 16, 4 df, (5 * 9 + 16) / (5 + 4) = 6.778, of a mean of three 1.503.

    q of 9 df is 2.262, q s = 3.400. Down: candidate 110 (1 - e^(-3.400 / 110)) = 3.348, baseline up 100 (e^0.03400 - 1) = 3.459: 4.81.
    Up: candidate 3.453, baseline down 3.343: 4.81. A fourth side of repeats, 97 and 103, adds 18 and one df: (45 + 34) / 10.
    """
    sample = Sample((us(98, 100, 102), us(108, 110, 112)))
    noise = Noise(np.full((2, 1), 3 * US), np.array([True]))
    found = estimate(sample, noise)
    assert (found.df, found.delta[0]) == (NU + 4, 10 * US)
    assert interval(found) == pytest.approx((10 - 4.81, 10 + 4.81), abs=0.01)
    more = estimate(replace(sample, more=us(97, 103)), noise)
    assert (more.df, more.delta[0]) == (NU + 5, 10 * US)
    assert more.half[0] / US == pytest.approx(2.2281 * math.sqrt(7.9 * 2 / 3), rel=2e-3)
    for none in (np.zeros((0, 1)), us(5)):  # one repeat alone tells of no scatter
        same = estimate(replace(sample, more=none), noise)
        assert (same.df, interval(same)) == (found.df, interval(found))


def test_with_many_runs_the_interval_is_students():
    """And 5 % that the cell usually scatters by count for five runs of two hundred."""
    rng = np.random.default_rng(1)
    one, other = (rng.normal(1_000, 50, (100, 30)) * US for _ in range(2))
    found = found_of(Sample((one, other)), 0.05)
    test = stats.ttest_ind(other, one).confidence_interval()
    assert found.low == pytest.approx(test.low, abs=0.05 * float(np.mean(test.high - test.low)))
    assert found.high == pytest.approx(test.high, abs=0.05 * float(np.mean(test.high - test.low)))


@pytest.mark.parametrize("usual", [GPU, HOST, WAIT])
def test_more_runs_narrow_the_interval(usual: float):
    halves = [
        found_of(Sample((np.full((many, 1), 100 * US), np.full((many, 1), 150 * US))), usual).half[0]
        for many in (1, 2, 3, 5, 10)
    ]
    assert (np.diff(halves) < 0).all()


def test_the_runs_of_a_side_tell_its_slope():
    """Hosts at -0.1, 0.1 and 0.1, 0.3: 90, 110 and 110, 130, usually 5 % apart; z about the mean of a side 0.1 either way.

    1 / 0.3^2 = 11.1 for 0.9; each side 400 * 0.02 = 8 for its own: sum of z y = 0.02 and 0.1 * 2 * 10 / 120 = 0.0167.
    (10 + 8 + 6.67) / 27.1 = 0.910. At the mean speed, 0.1, both have 109.5 us; the runs are e^-0.182, 1 and 1, e^0.182 of it: 20.0 of
    the 20 us are the host's. How far the slope may be off: 1 / sqrt(27.1) * 0.2 * 109.5 = 4.21 us.
    """
    sample = Sample((us(90, 110), us(110, 130)), (np.array([-0.1, 0.1]), np.array([0.1, 0.3])))
    found = found_of(sample, HOST)
    assert (found.delta[0], found.host_speed[0]) == (20 * US, pytest.approx(20.04 * US, abs=30))
    assert found.p[0] == 1  # what it would be at equal speed has the other sign
    assert found.even[0][:, 0] / US == pytest.approx([90 + 18.2, 110], abs=0.1)


def test_steps_that_scatter_tell_no_slope():
    """80 and 120 us on hosts that differ by 0.2, in steps whose mean is known to 50 us: as far as anybody knows it is the usual slope.

    Its precision is 11.1 of before and 0.02 / (0.05^2 + 0.5^2 * 2) = 0.04 a side, with a slope of 2. At the mean speed both have
    100 e^-0.09 = 91.4 us at least.
    """
    speed = np.array([-0.1, 0.1]), np.array([0.1, 0.3])
    known = Sample((us(80, 120), us(80, 120)), speed, (np.zeros(1), np.zeros(1)))
    unsure = replace(known, step_variance=(np.full(1, (50 * US) ** 2),) * 2)
    usual = 91.4 * np.mean(np.expm1(BETA * np.array([0.0, 0.2])) - np.expm1(BETA * np.array([-0.2, 0.0])))
    assert found_of(unsure, HOST).host_speed[0] / US == pytest.approx(usual, rel=0.02)
    assert found_of(known, HOST).host_speed[0] / US > 1.4 * usual


def test_a_sum_scatters_at_least_by_so_much_of_it():
    """Four runs a side of 1,000 us that are alike: 25 us each, (5 * 25^2 + 0) / (5 + 6) -> 16.9; q of 11 df 2.201: 37.1 / 2, both sides."""
    sample = Sample((us(1_000, 1_000, 1_000, 1_000),) * 2)
    least = estimate(sample, noise_of(sample, GPU), least=np.array([0.025]))
    assert least.half[0] / US == pytest.approx(18.55 * math.sqrt(2), rel=1e-3)
    wild = Sample((us(1_000, 2_000, 9_000), us(400, 500, 600)))
    found = estimate(wild, noise_of(wild, GPU), least=np.array([0.025]))
    nothing = Sample((wild.values[0], us(0, 0, 0)))
    worst = estimate(nothing, noise_of(nothing, GPU), least=np.array([0.025]))
    assert found.low[0] > worst.low[0]  # a candidate that takes no time at all


def test_pairs_scatter_by_their_differences():
    """Pairs 10 13, 50 52, 90 96: differences 3, 2, 6, squares about 11/3 are 26/3; half of them scatter, with 2 df.

    Usually 1 us: (5 + 13/3) / 7 = 4/3, error sqrt(4/3 * 2/3) = 0.943; q of 7 df is 2.365: 2.23. Unpaired the runs scatter by some 40.
    """
    apart = Sample((us(10, 50, 90), us(13, 52, 96)))
    noise = Noise(np.full((2, 1), US), np.array([False]))
    found = estimate(paired(apart), noise)
    assert (found.df, found.delta[0]) == (NU + 2, pytest.approx(11 / 3 * US))
    assert (found.baseline[0], found.candidate[0]) == (pytest.approx(50 * US), pytest.approx(161 / 3 * US))
    assert found.half[0] / US == pytest.approx(2.23, abs=0.02)
    assert estimate(apart, noise).half[0] > 20 * US
    # what both runs of a pair have in common is no host speed
    assert paired(replace(apart, speed=(np.array([0.0, 0.3, 0.6]),) * 2)).speed[0] == pytest.approx([0.3] * 3)


# Properties


@st.composite
def samples(draw: st.DrawFn) -> tuple[Sample, Noise]:
    cells = draw(st.integers(1, 4))
    runs = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    number = st.integers(0, 10**7).map(float)

    def table(many: int) -> np.ndarray:
        return np.array(draw(st.lists(number, min_size=many * cells, max_size=many * cells))).reshape(
            many, cells
        )

    def per_cell() -> np.ndarray:
        return np.array(draw(st.lists(st.floats(0, 1e6), min_size=cells, max_size=cells)))

    small = st.integers(-500, 500).map(lambda one: one / 1000)
    hosts = draw(st.sampled_from(["measured", "unknown", "one"]))
    speed = tuple(np.array(draw(st.lists(small, min_size=many, max_size=many))) for many in runs)
    sample = Sample(
        (table(runs[0]), table(runs[1])), speed if hosts == "measured" else None, (per_cell() ** 1.5, per_cell()),
        (per_cell(), per_cell()) if draw(st.booleans()) else None, hosts=hosts,
    )  # fmt: skip
    usual = draw(st.lists(st.sampled_from([GPU, HOST, WAIT]), min_size=cells, max_size=cells))
    noise = noise_of(sample, *usual)
    return sample, replace(noise, host=np.array([one == HOST for one in usual]))


def summed(sample: Sample, noise: Noise, **rest) -> Estimate:
    """Every cell, and the sum of all."""
    cells = sample.values[0].shape[1]
    return estimate(sample, noise, Groups.build([*([at] for at in range(cells)), list(range(cells))]), **rest)


def exchanged(sample: Sample) -> Sample:
    def other(pair):
        return None if pair is None else pair[::-1]

    return replace(
        sample, values=sample.values[::-1], speed=other(sample.speed),
        step_variance=other(sample.step_variance), unseen=other(sample.unseen),
    )  # fmt: skip


@given(samples(), st.sampled_from([None, 0.025]))
def test_exchanging_the_sides_mirrors_everything(both, part: float | None):
    sample, noise = both
    least = None if part is None else np.full(sample.values[0].shape[1] + 1, part)
    one = summed(sample, noise, least=least)
    other = summed(exchanged(sample), replace(noise, scatter=noise.scatter[::-1]), least=least)
    assert (one.delta == -other.delta).all() and (one.host_speed == -other.host_speed).all()
    assert (one.low.tolist(), one.high.tolist()) == ((-other.high).tolist(), (-other.low).tolist())
    assert one.p.tolist() == other.p.tolist() and one.baseline.tolist() == other.candidate.tolist()


@given(samples())
def test_a_difference_is_as_measured_and_its_interval_holds_both_readings(both):
    sample, noise = both
    found = summed(sample, noise)
    assert (found.delta == found.candidate - found.baseline).all()
    here = replace(sample, speed=None, hosts="one")
    assert (found.delta == summed(here, noise).delta).all()  # whatever the hosts
    for reading in (found.delta, found.delta - found.host_speed):
        assert (found.low <= reading + 1e-6).all() and (reading - 1e-6 <= found.high).all()
    assert ((found.p < 0.05 - 1e-9) <= found.clear).all() and (found.clear <= (found.p < 0.05 + 1e-9)).all()


@given(samples())
def test_sums_close_and_their_interval_lies_in_the_sum_of_the_intervals(both):
    """With one run a side; with more, the runs of a sum may agree less or more than those of its cells."""
    sample, noise = both
    found = summed(sample, noise)
    for values in (found.baseline, found.candidate, found.delta, found.host_speed):
        assert values[:-1].sum() == pytest.approx(values[-1], abs=1e-6)
    lone = replace(
        sample,
        values=(sample.values[0][:1], sample.values[1][:1]),
        speed=None if sample.speed is None else (sample.speed[0][:1], sample.speed[1][:1]),
    )
    found = summed(lone, noise)
    assert found.low[:-1].sum() <= found.low[-1] + 1e-6
    assert found.high[-1] <= found.high[:-1].sum() + 1e-6


@given(samples())
def test_a_candidate_that_takes_no_time_is_the_lowest_end(both):
    """And a baseline of nothing the highest, on one host; 50 ns aside."""
    sample, noise = both
    lone = Sample(
        (sample.values[0][:1], sample.values[1][:1]), step_variance=sample.step_variance, unseen=None
    )
    nothing = np.zeros_like(lone.values[0])
    found = estimate(lone, noise)
    gone = estimate(replace(lone, values=(lone.values[0], nothing)), noise)
    new = estimate(replace(lone, values=(nothing, lone.values[1])), noise)
    slack = 2 * Q * FLOOR
    assert (found.low >= gone.low - slack).all() and (found.high <= new.high + slack).all()
    assert (new.low >= -slack - Q * np.sqrt(sample.step_variance[0])).all()


@given(samples())
def test_a_side_against_itself_is_exactly_nothing(both):
    sample, noise = both
    speed = None if sample.speed is None else (sample.speed[0], sample.speed[0])
    found = summed(Sample((sample.values[0], sample.values[0]), speed, hosts=sample.hosts), noise)
    assert not found.delta.any() and not found.host_speed.any() and (found.p == 1).all()


@given(samples(), st.randoms(use_true_random=False))
def test_the_order_of_runs_is_irrelevant(both, random):
    sample, noise = both
    order = [random.sample(range(many), many) for many in sample.runs]
    values = tuple(one[at] for one, at in zip(sample.values, order, strict=True))
    speed = (
        None if sample.speed is None else tuple(one[at] for one, at in zip(sample.speed, order, strict=True))
    )
    one, other = summed(sample, noise), summed(replace(sample, values=values, speed=speed), noise)
    assert other.delta == pytest.approx(one.delta, abs=1e-6)
    assert other.low == pytest.approx(one.low, rel=1e-6, abs=1e-3)


def test_intervals_of_one_run_a_side_cover_where_the_usual_scatter_is_right():
    """2,000 null pairs whose log times follow t of 5 df and their hosts; 95 % or a little more of the intervals hold 0."""
    rng = np.random.default_rng(3)
    inside = 0
    for _ in range(200):
        z, beta = rng.normal(0, 0.2, 2), rng.normal(BETA, TAU)
        logs = beta * z[:, None] + HOST * rng.standard_t(NU, (2, 10))
        values = 1_000 * US * np.exp(logs)
        found = found_of(Sample((values[:1], values[1:]), (z[:1], z[1:])), *[HOST] * 10)
        inside += int((~found.clear).sum())
    assert 0.94 <= inside / 2000 <= 1


def test_cells_are_taken_with_their_runs():
    sample = Sample((np.array([[1.0, 5.0], [2.0, 7.0]]), np.array([[1.0, 6.0], [1.0, 8.0]])))
    found = found_of(sample, 0.1, 0.1).take([1])
    assert (found.baseline.tolist(), found.candidate.tolist(), found.delta.tolist()) == ([6], [7], [1])
    assert found.values[0].tolist() == [[5], [7]]
    assert found.change(0) == {
        "baseline_ns": 6, "candidate_ns": 7, "delta_ns": 1, "ci_low_ns": found.low[0], "ci_high_ns": found.high[0],
    }  # fmt: skip


# Permutation


def p_of(one: np.ndarray, other: np.ndarray, *, pairs: bool = False) -> float:
    sample = paired(Sample((one, other))) if pairs else Sample((one, other))
    found = estimate(sample, Noise(np.full((2, 1), US), np.array([False])))
    return float(permutation_p(permuted_t(found, splits(sample.runs, pairs=pairs), pairs=pairs))[0])


def test_four_against_four_have_seventy_splits():
    dealt = splits((4, 4))
    assert dealt.shape == (70, 8)
    assert dealt[0].tolist() == [False] * 4 + [True] * 4  # the true one
    assert len({tuple(one) for one in dealt.tolist()}) == 70
    assert {tuple(np.flatnonzero(one)) for one in splits((3, 2))} == set(combinations(range(5), 2))


def test_beyond_the_limit_splits_are_drawn_at_random():
    dealt = splits((8, 7))  # 6,435 ways
    assert dealt.shape == (SPLITS, 15) and (dealt.sum(axis=1) == 7).all()
    assert dealt[0].tolist() == [False] * 8 + [True] * 7
    assert (dealt == splits((8, 7))).all()


def test_a_permutation_of_four_against_four_by_hand():
    """1 2 3 4 against 5 6 7 8: only this split and its mirror image are as extreme, 2 of 70. 1 2 3 5 against 4 6 7 8: so are four."""
    assert p_of(us(1, 2, 3, 4), us(5, 6, 7, 8)) == pytest.approx(2 / 70)
    assert p_of(us(1, 2, 3, 5), us(4, 6, 7, 8)) == pytest.approx(4 / 70)
    assert p_of(us(5, 5, 5, 5), us(5, 5, 5, 5)) == 1
    assert permutation_p(np.array([[np.nan], [1.0]]))[0] == 1  # what is unknown is no evidence


def test_pairs_are_dealt_out_pair_by_pair():
    dealt = splits((6, 6), pairs=True)
    assert dealt.shape == (64, 12) and len({tuple(one) for one in dealt.tolist()}) == 64
    assert dealt[0].tolist() == [False] * 6 + [True] * 6
    assert (dealt[:, :6] != dealt[:, 6:]).all()
    # all six differences have one sign: 2 of 64
    assert p_of(us(0, 10, 20, 30, 40, 50), us(1, 12, 21, 33, 41, 52), pairs=True) == pytest.approx(2 / 64)


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.booleans())
def test_every_split_has_the_t_of_its_sides(seed: int, pairs: bool):
    """Without usual scatter it is Student's, whose variance the five degrees of freedom of nothing make smaller."""
    rng = np.random.default_rng(seed)
    one, other = (rng.normal(1e9, 1e8, (4, 2)) for _ in range(2))
    sample = paired(Sample((one, other))) if pairs else Sample((one, other))
    found = estimate(sample, Noise(np.zeros((2, 2)), np.zeros(2, np.bool_)))
    dealt = splits((4, 4), pairs=pairs)
    df = 3 if pairs else 6
    values = np.concatenate([one, other])
    for t, candidate in zip(permuted_t(found, dealt, pairs=pairs), dealt, strict=True):
        if pairs:
            back = np.where(candidate[4:, None], 1, -1) * (other - one)
            expected = stats.ttest_1samp(back, 0).statistic
        else:
            expected = stats.ttest_ind(values[candidate], values[~candidate]).statistic
        assert t == pytest.approx(np.abs(expected) * math.sqrt((NU + df) / df), rel=1e-6)


def test_host_code_behind_gpu_work_moves_with_the_host_too():
    """8 ms of a host per step, of which 4 ms run behind the GPU, and one 0.3 faster that takes 5.9: 4 -> 1.9 ms are seen.

    g = 0.9 * -0.3: of what both have at the mean speed, min(8 e^-0.135, 5.9 e^0.135) = 6.75, 2 sinh(0.135) are 1.83 of the 2.1 ms.
    Without the time behind the GPU it is min(4 e^-0.135, 1.9 e^0.135) = 2.17, so 0.59.
    """
    sample = Sample((us(4_000), us(1_900)), (np.array([0.0]), np.array([-0.3])))
    alone, levered = (
        estimate(sample, Noise(np.array([[200.0], [95.0]]) * US, np.array([True]), lever))
        for lever in ((1.0, 1.0), (2.0, 5.9 / 1.9))
    )
    assert alone.host_speed / US == pytest.approx([-589], abs=1)
    assert levered.host_speed / US == pytest.approx([-1829], abs=1)
    assert alone.clear[0] and not levered.clear[0]
    assert levered.delta == alone.delta


@pytest.mark.parametrize(("after", "explained"), [(2_200, 1_860), (1_000, 700), (320, 303)])
def test_a_slower_host_may_bring_to_light_what_it_did_behind_the_gpu_and_no_more_than_came(after, explained):
    """6 ms of a host per step, 0.3 of them seen, and one 0.3 slower: g = 0.27, of 6 e^0.135 = 6.87 ms 2 sinh(0.135) are 1.86.

    Of 0.7 ms more it may explain all. Of 20 us it is what counts in any case: of four times 0.32 e^-0.135 ms, 303 us.
    """
    sample = Sample((us(300), us(after)), (np.array([0.0]), np.array([0.3])))
    noise = Noise(np.array([[15.0], [50.0]]) * US, np.array([True]), (20.0, 8_000 / after))
    assert estimate(sample, noise).host_speed / US == pytest.approx([explained], abs=1)
