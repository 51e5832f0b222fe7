"""The confidence sequence of `--until`: its formula, and by simulation that looking often does not make it err."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tracediff.comparison.sequential import ALPHA, confidence_sequence, look

MOST = 20  # pairs


def bayes_factor(values: np.ndarray, mean: float, prior: float) -> float:
    """The g-prior Bayes factor of the one-sample t test (Gonen et al. 2005; Rouder et al. 2009)."""
    n = len(values)
    v = n - 1
    t2 = n * (values.mean() - mean) ** 2 / values.var(ddof=1)
    wide = 1 + n * prior
    return wide**-0.5 * ((1 + t2 / v) / (1 + t2 / (v * wide))) ** (n / 2)


@pytest.mark.parametrize("n", [5, 8, 20])
def test_the_bounds_are_where_the_bayes_factor_is_one_over_alpha(n: int) -> None:
    values = np.random.default_rng(n).normal(3, 2, n)
    low, high = confidence_sequence(values, alpha=0.05, prior=4)
    assert low + high == pytest.approx(2 * values.mean())
    for bound in (low, high):
        assert bayes_factor(values, bound, 4) == pytest.approx(20)
    assert bayes_factor(values, values.mean() + 0.99 * (high - low) / 2, 4) < 20


def test_two_pairs_say_nothing() -> None:
    assert confidence_sequence([1.0]) == (-math.inf, math.inf)
    assert confidence_sequence([1.0, 1.1]) == (-math.inf, math.inf)
    assert all(map(math.isfinite, confidence_sequence([1.0, 1.1, 1.2, 1.0])))


def test_equal_differences_leave_no_width() -> None:
    assert confidence_sequence([2.0] * 6) == (2.0, 2.0)


def test_more_pairs_narrow_it() -> None:
    """The same scatter in 6 and in 24 pairs."""
    few, many = [1.0, -1.0] * 3, [1.0, -1.0] * 12
    assert confidence_sequence(many)[1] < 0.6 * confidence_sequence(few)[1]


def noise(kind: str, rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Run-to-run noise of one side: mean 0."""
    if kind == "heavy tails":
        return rng.standard_t(3, shape)
    if kind == "now and then slow":  # one run in ten is slower by five times the scatter
        return rng.normal(size=shape) + 5 * (rng.random(shape) < 0.1) - 0.5
    return rng.normal(size=shape)


def ever_excludes(differences: np.ndarray, truth: float, looks: range) -> float:
    """Share of the experiments in which the interval excludes the truth at any look."""
    wrong = 0
    for row in differences:
        wrong += any(not low <= truth <= high for low, high in (confidence_sequence(row[:n]) for n in looks))
    return wrong / len(differences)


@pytest.mark.parametrize("kind", ["normal", "heavy tails", "now and then slow"])
@pytest.mark.parametrize("first", [2, 5])
def test_the_error_rate_is_kept_however_often_one_looks(kind: str, first: int) -> None:
    """Type I error of `changed` under no difference: at most alpha, with 3 standard errors of 2000 experiments."""
    rng = np.random.default_rng(11)
    experiments = 2000
    differences = noise(kind, rng, (experiments, MOST)) - noise(kind, rng, (experiments, MOST))
    tolerance = 3 * math.sqrt(ALPHA * (1 - ALPHA) / experiments)
    assert ever_excludes(differences, 0.0, range(first, MOST + 1)) <= ALPHA + tolerance


def test_the_fixed_interval_would_not_keep_it() -> None:
    """What the simulation must be able to see: the usual t interval, looked at after every pair, errs thrice as often."""
    from scipy.special import stdtrit

    rng = np.random.default_rng(11)
    wrong = 0
    for row in rng.normal(size=(2000, MOST)):
        wrong += any(
            abs(row[:n].mean()) > stdtrit(n - 1, 0.975) * row[:n].std(ddof=1) / math.sqrt(n)
            for n in range(2, MOST + 1)
        )
    assert wrong / 2000 > 3 * ALPHA


def test_the_interval_at_the_stop_holds_the_truth() -> None:
    """Stopping by the rule itself (changed, or narrow) must not spoil the coverage where there is a difference."""
    rng = np.random.default_rng(5)
    missed, stopped = 0, []
    for _ in range(1000):
        baseline = rng.normal(100, 1, MOST)
        candidate = rng.normal(101, 1, MOST)
        for n in range(5, MOST + 1):
            seen = look(baseline[:n], candidate[:n], wanted=0.01, relative=True)
            if seen.answer:
                break
        stopped.append(n)
        missed += not seen.low_ns <= 1 <= seen.high_ns
    assert missed / 1000 <= ALPHA + 3 * math.sqrt(ALPHA * (1 - ALPHA) / 1000)
    assert min(stopped) < 8 < max(stopped)  # it does stop early, and not always


def test_drift_of_the_machine_cancels_in_pairs() -> None:
    """A B B A: the clock falls by 1 % a run, the sides are the same."""
    rng = np.random.default_rng(3)
    order = [0, 1, 1, 0] * (MOST // 2)
    times = [100 * 1.01**place + rng.normal() for place in range(2 * MOST)]
    sides = [np.array([t for t, one in zip(times, order, strict=True) if one == side]) for side in (0, 1)]
    for n in range(2, MOST + 1, 2):
        seen = look(sides[0][:n], sides[1][:n], wanted=0.0, relative=True)
        assert seen.answer is None
        assert seen.low_ns < 0 < seen.high_ns


@pytest.mark.parametrize(
    ("shift", "scatter", "answer"), [(10.0, 0.5, "changed"), (0.0, 0.2, "narrow"), (0.0, 5.0, None)]
)
def test_what_ends_it(shift: float, scatter: float, answer: str | None) -> None:
    """Steps of 100 ns, 1 % wanted: 1 ns."""
    wiggle = np.tile([1.0, -1.0, 0.0], 3) * scatter
    seen = look(np.full(9, 100.0), 100 + shift + wiggle, wanted=0.01, relative=True)
    assert seen.answer == answer
    assert (seen.pairs, seen.baseline_ns, seen.wanted_ns) == (9, 100, pytest.approx(1))
    assert seen.delta_ns == pytest.approx(shift)
    assert look(np.full(9, 100.0), 100 + wiggle, wanted=1e9, relative=False).answer == "narrow"
