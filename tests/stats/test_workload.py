"""What each step counts for: trimming, classes, overlap weights, and which workload is chosen."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracediff.stats import workload
from tracediff.stats.workload import (
    Steps,
    choose,
    class_shares,
    shared,
    shared_time,
    stop_of,
    trimmed,
    variance_of_difference,
    weights,
)

A, B, C = 0, 1, 2
# Baseline: run 0 has classes A, A, B and run 1 has A, B, C, C. Candidate: run 2 has A, B and run 3 has A, A, B, B.
SIDE = np.repeat([0, 0, 1, 1], [3, 4, 2, 4])
RUN = np.repeat([0, 1, 2, 3], [3, 4, 2, 4])
KLASS = np.array([A, A, B, A, B, C, C, A, B, A, A, B, B])
ALL = np.ones(13, np.bool_)
NS = np.array([10, 12, 30, 16, 34, 90, 90, 20, 40, 18, 22, 38, 42], float)
STEPS = Steps(SIDE, RUN, NS)


def steps_of(*runs: list[float], sides: tuple[int, ...]) -> Steps:
    """One list of step times a run, and the side of each run."""
    many = [len(one) for one in runs]
    return Steps(
        np.repeat(sides, many), np.repeat(np.arange(len(runs)), many), np.concatenate(runs).astype(float)
    )


# The typical steps


def test_steps_that_stop_are_never_typical_however_many_there_are():
    """Every third of twelve steps takes 400, not 100 to 104: a quarter of twelve at either end would leave one of four. Of eight, two go."""
    times = [100, 101, 400, 102, 103, 400, 104, 100, 400, 101, 102, 400]
    steps = steps_of(times, sides=(0,))
    every, one = np.ones(12, np.bool_), np.zeros(12, np.int64)
    # 100 100 101 101 102 102 103 104, without two at either end
    assert sorted(steps.ns[trimmed(steps, every, one, one)].tolist()) == [101, 101, 102, 102]
    # another run takes 400 in every step: none of these stops
    both = steps_of(times, [400.0] * 12, sides=(0, 1))
    kept = trimmed(both, np.ones(24, np.bool_), np.zeros(24, np.int64), both.run)
    assert sorted(both.ns[kept & (both.side == 0)].tolist()) == [101, 101, 102, 102] and kept[12:].all()


# Weights


def test_a_step_that_stops_takes_half_as_much_more_as_those_that_hold_most_of_it():
    """Beyond 2 us: 3, 10, 10 and 12 of 35 us. Half of them, 17.5, lie in what is 10 or longer: 5 us are a stop, 3 are none."""
    more = np.array([-1.0, 0.0, 1.0, 3.0, 10.0, 10.0, 12.0])
    assert stop_of(more, 2.0) == 5.0
    assert stop_of(more, 20.0) == np.inf


def test_weights_of_three_classes_and_two_runs_by_hand():
    """Parts of the runs: A 2/3 + 1/4 = 11/12 and 1, B 1/3 + 1/4 = 7/12 and 1, C 1/2 and 0.

    Overlap: A 11/12 / (23/12) = 11/23, B 7/12 / (19/12) = 7/19; of their sum 370/437, A is 209/370 and B is 161/370.
    """
    found = class_shares(STEPS, ALL, KLASS)
    assert found * 370 == pytest.approx([209, 161, 0])
    # A step of run 0 in class A: 209/370 / (3 * 11/12) = 76/370; of run 1: 209/370 / (4 * 11/12) = 57/370. 76 + 76 + 57 = 209
    # B: 161/370 / (3 * 7/12) = 92/370 and 161/370 / (4 * 7/12) = 69/370. Candidate: 209/370 / (2 * 1), 209/370 / (4 * 1), ...
    weight = weights(STEPS, ALL, KLASS, found)
    by_hand = [76, 76, 92, 57, 69, 0, 0, 104.5, 80.5, 52.25, 52.25, 40.25, 40.25]
    assert weight * 370 == pytest.approx(by_hand)


def test_shares_of_what_both_sides_have():
    # Of the baseline's two runs 11/12 + 7/12 = 3/2 are of A and B: 3/4
    assert shared(STEPS, ALL, KLASS) == pytest.approx((0.75, 1.0))


def test_one_class_counts_every_run_alike():
    steps = steps_of([1, 2, 3], [10], [5, 5], sides=(0, 0, 1))
    same = np.zeros(6, np.int64)
    weight = weights(steps, np.ones(6, np.bool_), same, np.ones(1))
    assert weight.tolist() == pytest.approx([1 / 6, 1 / 6, 1 / 6, 1 / 2, 1 / 2, 1 / 2])


def test_steps_that_are_not_chosen_count_nothing():
    chosen = KLASS != C
    weight = weights(STEPS, chosen, KLASS, class_shares(STEPS, chosen, KLASS))
    assert not weight[KLASS == C].any()
    # Run 1 now has 1/2 of A and 1/2 of B: 7/6 and 5/6 of the baseline against 1 and 1; A: 7/13, B: 5/11 of their sum
    assert weight[SIDE == 0][KLASS[SIDE == 0] == A].sum() == pytest.approx((7 / 13) / (7 / 13 + 5 / 11))


def test_sides_without_a_class_in_common_have_no_weights():
    steps = steps_of([1, 2], [3, 4], sides=(0, 1))
    apart = np.array([A, A, B, B])
    every = np.ones(4, np.bool_)
    assert class_shares(steps, every, apart).tolist() == [0, 0]
    assert weights(steps, every, apart, class_shares(steps, every, apart)).tolist() == [0, 0, 0, 0]
    assert shared(steps, every, apart) == (0, 0)


def test_one_side_alone_has_the_shares_of_its_steps():
    steps = steps_of([1, 2, 3, 4], sides=(0,))
    assert class_shares(steps, np.ones(4, np.bool_), np.array([A, A, A, B])).tolist() == [0.75, 0.25]


def test_a_third_side_gives_the_share_of_a_class_it_lacks_to_the_others():
    steps = steps_of([1, 2], [3, 4], [5, 6], sides=(0, 1, 2))
    klass = np.array([A, B, A, B, A, A])
    every = np.ones(6, np.bool_)
    found = class_shares(steps, every, klass)
    assert found.tolist() == [0.5, 0.5]  # the third side has no say
    assert weights(steps, every, klass, found).tolist() == [0.5] * 6


@st.composite
def dealt(draw: st.DrawFn) -> tuple[Steps, np.ndarray]:
    """One to three runs a side of one to nine steps each, of up to four classes."""
    counts = [draw(st.lists(st.integers(1, 9), min_size=1, max_size=3)) for _ in range(2)]
    runs = np.repeat(np.arange(sum(map(len, counts))), np.concatenate(counts))
    side = (runs >= len(counts[0])).astype(np.int64)
    klass = np.array(draw(st.lists(st.integers(0, 3), min_size=len(runs), max_size=len(runs))), np.int64)
    ns = np.array(draw(st.lists(st.integers(1, 10**6), min_size=len(runs), max_size=len(runs))), float)
    return Steps(side, runs, ns), klass


@given(dealt())
def test_both_sides_have_the_same_classes_with_the_same_shares(case):
    steps, klass = case
    every = np.ones(len(klass), np.bool_)
    found = class_shares(steps, every, klass)
    weight = weights(steps, every, klass, found)
    for side in (0, 1):
        of = np.bincount(klass, weights=weight * (steps.side == side), minlength=len(found))
        assert of == pytest.approx(found)
    assert found.sum() == pytest.approx(1 if min(shared(steps, every, klass)) else 0)


@given(dealt())
def test_exchanging_the_sides_changes_no_weight(case):
    steps, klass = case
    other = Steps(1 - steps.side, steps.run, steps.ns)
    every = np.ones(len(klass), np.bool_)
    found = class_shares(steps, every, klass)
    assert class_shares(other, every, klass).tolist() == found.tolist()
    assert weights(other, every, klass, found).tolist() == weights(steps, every, klass, found).tolist()


@given(dealt(), st.randoms(use_true_random=False))
def test_the_order_of_rows_is_irrelevant(case, random):
    steps, klass = case
    order = np.array(random.sample(range(len(klass)), len(klass)))
    other = Steps(steps.side[order], steps.run[order], steps.ns[order])
    every = np.ones(len(klass), np.bool_)
    found = weights(steps, every, klass, class_shares(steps, every, klass))
    moved = weights(other, every, klass[order], class_shares(other, every, klass[order]))
    assert moved == pytest.approx(found[order])


# Trimming


def test_a_quarter_of_a_run_goes_at_either_end():
    """Of ten steps the two slowest (9, 8) and the two fastest (1, 2); of three a quarter is none."""
    steps = steps_of([5, 9, 1, 5, 8, 2, 5, 5, 5, 5], [7, 3, 3], sides=(0, 1))
    kept = trimmed(steps, np.ones(13, np.bool_), np.zeros(13, np.int64), steps.run)
    assert np.flatnonzero(~kept).tolist() == [1, 2, 4, 5]


def test_steps_are_slow_beside_the_median_of_their_class_over_both_sides():
    """Medians: A 10, 11, 12, 14, 30: 12; B 100, 104, 106, 108, 112, 120: 107. A run of four loses one step at either end, one of seven too.

    Run 0 is -2, -1 (A), -7, -3 (B): without -7 and -1. Run 1 is 0, 2, 18 (A), -1, 1, 5, 13 (B): without -1 and 18. No B is too long.
    """
    steps = steps_of([10, 11, 100, 104], [12, 14, 30, 106, 108, 112, 120], sides=(0, 1))
    klass = np.array([A, A, B, B, A, A, A, B, B, B, B])
    kept = trimmed(steps, np.ones(11, np.bool_), klass, steps.run)
    assert steps.ns[~kept].tolist() == [11, 100, 30, 106]


def test_equal_steps_stay_or_go_together():
    """Of 1, 2, 2, 2, 2, 2, 9, 9 two would go at either end: 1 and one of five equal ones, which all stay; 9 and 9."""
    steps = steps_of([2, 2, 9, 2, 1, 2, 9, 2], [3] * 8, sides=(0, 1))
    kept = trimmed(steps, np.ones(16, np.bool_), np.zeros(16, np.int64), steps.run)
    assert np.flatnonzero(~kept).tolist() == [2, 4, 6]


def test_every_unit_is_cut_by_itself():
    """One run of two ranks: 1 and 4 of the first, 11 and 14 of the second; as one unit, 1 and 2, 13 and 14."""
    steps = steps_of([1, 2, 3, 4, 11, 12, 13, 14], sides=(0,))
    every, same = np.ones(8, np.bool_), np.zeros(8, np.int64)
    assert steps.ns[trimmed(steps, every, same, np.repeat([0, 1], 4))].tolist() == [2, 3, 12, 13]
    assert steps.ns[trimmed(steps, every, same, same)].tolist() == [3, 4, 11, 12]


def test_only_eligible_steps_are_trimmed_and_kept():
    steps = steps_of([100, *range(10), 200], sides=(0,))
    eligible = np.ones(12, np.bool_)
    eligible[[0, 11]] = False
    same = np.zeros(12, np.int64)
    kept = trimmed(steps, eligible, same, steps.run)
    assert steps.ns[kept].tolist() == [2, 3, 4, 5, 6, 7]
    assert not trimmed(steps, np.zeros(12, np.bool_), same, steps.run).any()


# The choice of a workload


def test_the_variance_of_a_difference_by_hand():
    """Six steps a side, classes A and B at 10 and 20, each step 1 above or below its class or on it.

    Within classes and sides: 4 groups of (-1, 0, 1), squares 8, 12 - 4 = 8 degrees of freedom: too few for LEAST_FREEDOM. Twice the steps:
    squares 16, 24 - 4 = 20 degrees of freedom, 0.8. A step weighs 1/12: 24 / 144 of 0.8.
    """
    one = [9, 10, 11, 19, 20, 21]
    few, many = steps_of(one, one, sides=(0, 1)), steps_of(one * 2, one * 2, sides=(0, 1))
    klass = np.array([A, A, A, B, B, B])
    assert variance_of_difference(few, np.ones(12, np.bool_), np.tile(klass, 2)) == np.inf
    assert variance_of_difference(many, np.ones(24, np.bool_), np.tile(klass, 4)) == pytest.approx(
        0.8 * 24 / 144
    )


def options_of(klass: np.ndarray) -> dict[str, np.ndarray]:
    return {"ops": klass, "none": np.zeros_like(klass)}


def mixed_steps(candidate_b: int) -> tuple[Steps, np.ndarray]:
    """20 steps a side near 10 (A) and near 20 (B): the baseline has 10 of each, the candidate so many of B."""

    def side(b: int) -> list[float]:
        return [10 + at % 3 for at in range(20 - b)] + [20 + at % 3 for at in range(b)]

    klass = [np.repeat([A, B], [20 - b, b]) for b in (10, candidate_b)]
    return steps_of(side(10), side(candidate_b), sides=(0, 1)), np.concatenate(klass)


def test_the_workload_that_explains_the_scatter_is_chosen():
    steps, klass = mixed_steps(4)
    every = np.ones(40, np.bool_)
    name, found, typical = choose(steps, every, steps.run, options_of(klass))
    assert name == "ops" and found is klass
    assert typical.tolist() == trimmed(steps, every, klass, steps.run).tolist()
    # At equal workload nothing differs but the jitter, though the plain means differ by 3
    weight = weights(steps, np.ones(40, np.bool_), found, class_shares(steps, np.ones(40, np.bool_), found))
    means = [float((weight * steps.ns)[steps.side == side].sum()) for side in (0, 1)]
    plain = [float(steps.ns[steps.side == side].mean()) for side in (0, 1)]
    assert abs(means[1] - means[0]) < 0.5 < 2.5 < abs(plain[1] - plain[0])


def test_a_workload_that_explains_nothing_gives_way_to_the_simplest():
    steps, _ = mixed_steps(10)
    arbitrary = np.tile([A, B], 20)
    assert choose(steps, np.ones(40, np.bool_), steps.run, options_of(arbitrary))[0] == "none"
    still = Steps(steps.side, steps.run, np.ones(40))
    assert choose(still, np.ones(40, np.bool_), still.run, options_of(mixed_steps(10)[1]))[0] == "none"


@pytest.mark.parametrize(("both", "chosen"), [(5, "none"), (6, "ops")])
def test_classes_of_one_side_alone_would_absorb_the_change(both: int, chosen: str):
    """The candidate is 5 faster in all but `both` of its 20 steps, which alone have the baseline's key."""
    base = [10.0, 11.0, 12.0, 11.0] * 5
    after = base[:both] + [one - 5 for one in base[both:]]
    steps = steps_of(base, after, sides=(0, 1))
    klass = np.repeat([A, A, B], [20, both, 20 - both])
    every = np.ones(40, np.bool_)
    assert min(shared(steps, every, klass)) == both / 20  # SHARED is 0.3
    assert choose(steps, every, steps.run, options_of(klass))[0] == chosen


def test_too_many_classes_say_nothing():
    steps, klass = mixed_steps(4)
    options = options_of(klass + workload.MOST_CLASSES)
    assert choose(steps, np.ones(40, np.bool_), steps.run, options)[0] == "none"


def test_classes_that_share_few_of_the_time_do_not_count():
    """Ten steps of 100 on one side; on the other four of them and six of 10,000 that launch something else."""
    steps = Steps(np.repeat([0, 1], 10), np.repeat([0, 1], 10), np.array([100.0] * 14 + [10_000.0] * 6))
    every, klass = np.ones(20, np.bool_), np.array([0] * 14 + [1] * 6)
    assert shared(steps, every, klass) == (1.0, 0.4)
    assert shared_time(steps, every, klass) == pytest.approx((1.0, 400 / 60_400))
    assert choose(steps, every, steps.run, {"ops": klass, "none": klass * 0})[0] == "none"
