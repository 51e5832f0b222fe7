"""The bootstrap interval: hand-checked values, symmetries, coverage."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracediff.stats.bootstrap import RunSteps, bootstrap_ci

ONE = {0: 1.0}


def run(*steps: float) -> RunSteps:
    """A run of one stratum and one cell."""
    return RunSteps({0: np.array(steps, dtype=float)[:, None]})


def noisy_runs(
    rng: np.random.Generator, runs: int, *, steps: int = 30, cells: int = 2000, between: float, within: float
) -> list[RunSteps]:
    """Runs of one program, 1 ms a step: `between` is the sd of runs, `within` of steps, ns."""
    levels = 1e6 + rng.normal(0, between, (runs, 1, cells))
    return [RunSteps({0: level + rng.normal(0, within, (steps, cells))}) for level in levels]


def covered(low: np.ndarray, high: np.ndarray, truth: float = 0.0) -> float:
    return float(np.mean((low <= truth) & (truth <= high)))


def test_a_stratum_or_run_that_cannot_be_weighted_is_refused():
    with pytest.raises(ValueError, match="stratum 3 has a weight"):
        bootstrap_ci([run(1.0)], [run(1.0)], {3: 1.0})
    with pytest.raises(ValueError, match=r"runs \[1\] have no step"):
        bootstrap_ci([run(1.0), RunSteps({5: np.array([[1.0]])})], [run(1.0)], ONE)
    with pytest.raises(ValueError, match="stratum"):
        bootstrap_ci([run(1.0)], [run(1.0)], {})
    with pytest.raises(ValueError, match="same cells"):
        RunSteps({0: np.zeros((3, 2)), 1: np.zeros((3, 1))})
    with pytest.raises(ValueError, match="same cells"):
        RunSteps({0: np.zeros(3)})


# The interval


def test_zero_on_both_sides_is_zero_and_a_constant_difference_is_exact():
    b = [RunSteps({0: np.array([[0.0, 5.0]] * 8)})] * 3
    c = [RunSteps({0: np.array([[0.0, 9.0]] * 8)})] * 3
    for runs in (1, 3):
        low, high = bootstrap_ci(b[:runs], c[:runs], ONE)
        assert low.tolist() == high.tolist() == [0.0, 4.0]


def test_one_run_of_one_step_says_nothing():
    once = [RunSteps({0: np.array([[0.0, 1.0]])})]
    low, high = bootstrap_ci(once, once, ONE)
    assert (low[0], high[0]) == (0.0, 0.0)
    assert np.isnan(low[1]) and np.isnan(high[1])


def test_two_runs_a_side_by_hand():
    # Run means 10 and 12 v 20 and 22: each side's mean has sd 1 (variance 2 over 2 runs), the difference
    # sqrt(2); Welch df 2. Resampling gives -1, 0 or 1 a side, times sqrt(2/1); t over z is 4.303 / 1.960.
    low, high = bootstrap_ci([run(10.0), run(12.0)], [run(20.0), run(22.0)], ONE)
    half = 2 * np.sqrt(2) * 4.30265 / 1.95996
    np.testing.assert_allclose([low[0], high[0]], [10 - half, 10 + half], rtol=1e-4)


def test_steps_alike_need_blocks():
    """Neighbouring steps that are alike are less evidence: the interval of one run is wider."""
    rng = np.random.default_rng(1)
    noise = rng.normal(0, 1, (240, 200))
    slow = np.repeat(rng.normal(0, 1, (40, 200)), 6, axis=0)
    zero = RunSteps({0: np.zeros((240, 200))})
    widths = [np.subtract(*bootstrap_ci([zero], [RunSteps({0: x})], ONE)[::-1]).mean() for x in (noise, slow)]
    np.testing.assert_allclose(widths[0], 2 * 1.96 / np.sqrt(240), rtol=0.1)
    np.testing.assert_allclose(widths[1], 2 * 1.96 / np.sqrt(40), rtol=0.25)


@pytest.mark.parametrize(("rb", "rc"), [(2, 2), (3, 3), (5, 5), (2, 5), (1, 5)])
def test_coverage_where_runs_differ(rb: int, rc: int):
    rng = np.random.default_rng(rb * 10 + rc)
    b = noisy_runs(rng, rb, between=30_000, within=10_000)
    c = noisy_runs(rng, rc, between=30_000, within=10_000)
    assert 0.92 <= covered(*bootstrap_ci(b, c, ONE)) <= 0.99


@pytest.mark.parametrize(("runs", "most"), [(1, 0.97), (5, 0.995)])
def test_coverage_where_only_steps_differ(runs: int, most: float):
    rng = np.random.default_rng(runs)
    b, c = (noisy_runs(rng, runs, between=0, within=10_000) for _ in "bc")
    assert 0.93 <= covered(*bootstrap_ci(b, c, ONE)) <= most


def test_one_run_a_side_knows_nothing_of_other_runs():
    rng = np.random.default_rng(1)
    b, c = (noisy_runs(rng, 1, between=30_000, within=10_000) for _ in "bc")
    assert covered(*bootstrap_ci(b, c, ONE)) < 0.2


def test_coverage_of_unequal_strata():
    rng = np.random.default_rng(4)

    def side() -> list[RunSteps]:
        levels = 1e6 + rng.normal(0, 30_000, (3, 500))
        counts = [{0: 40, 1: 3}, {0: 25}, {0: 30, 1: 6}]  # the second run has no step of stratum 1
        return [
            RunSteps({s: level * (1 + s) + rng.normal(0, 10_000, (n, 500)) for s, n in strata.items()})
            for level, strata in zip(levels, counts, strict=True)
        ]

    assert 0.92 <= covered(*bootstrap_ci(side(), side(), {0: 0.9, 1: 0.1})) <= 0.99


@st.composite
def two_sides(draw: st.DrawFn) -> tuple[list[RunSteps], list[RunSteps]]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    cells = draw(st.integers(1, 7))
    sizes = st.tuples(st.integers(1, 90), st.integers(0, 9))

    def side() -> list[RunSteps]:
        shapes = draw(st.lists(sizes, min_size=1, max_size=4))
        shapes[0] = (shapes[0][0], shapes[0][1] + 1)  # some run of the side has stratum 1
        return [RunSteps(dict(enumerate(rng.exponential(1e5, (n, cells)) for n in ns))) for ns in shapes]

    return side(), side()


MIX = {0: 0.8, 1: 0.2}


@settings(deadline=None, max_examples=40)
@given(two_sides(), st.integers(0, 99))
def test_swapping_the_sides_negates_exactly(sides: tuple[list[RunSteps], list[RunSteps]], seed: int):
    low, high = bootstrap_ci(*sides, MIX, seed=seed, resamples=101)
    swapped_low, swapped_high = bootstrap_ci(*sides[::-1], MIX, seed=seed, resamples=101)
    np.testing.assert_array_equal(swapped_low, -high)
    np.testing.assert_array_equal(swapped_high, -low)
    assert np.all((low <= high) | np.isnan(low))


@settings(deadline=None, max_examples=40)
@given(two_sides(), st.randoms(use_true_random=False))
def test_order_of_runs_and_cells_is_irrelevant(sides: tuple[list[RunSteps], list[RunSteps]], random):
    low, high = bootstrap_ci(*sides, MIX, resamples=100)
    shuffled = tuple(random.sample(side, len(side)) for side in sides)
    for one, other in zip(bootstrap_ci(*shuffled, MIX, resamples=100), (low, high), strict=True):
        np.testing.assert_array_equal(one, other)
    order = random.sample(range(len(low)), len(low))
    permuted = [[RunSteps({s: x[:, order] for s, x in r.strata.items()}) for r in side] for side in sides]
    for one, other in zip(bootstrap_ci(*permuted, MIX, resamples=100), (low, high), strict=True):
        np.testing.assert_allclose(one, other[order], rtol=1e-9, atol=1e-4)


@settings(deadline=None, max_examples=20)
@given(two_sides(), st.sampled_from([0.001, 3.0, 1e6]))
def test_scaling_scales(sides: tuple[list[RunSteps], list[RunSteps]], scale: float):
    scaled = [[RunSteps({s: x * scale for s, x in r.strata.items()}) for r in side] for side in sides]
    for one, other in zip(bootstrap_ci(*scaled, MIX), bootstrap_ci(*sides, MIX), strict=True):
        np.testing.assert_allclose(one, other * scale, rtol=1e-9, atol=1e-4 * scale)


def test_cells_beyond_one_chunk_and_seeds():
    rng = np.random.default_rng(2)
    b, c = (noisy_runs(rng, 3, steps=5, cells=1500, between=1.0, within=1.0) for _ in "bc")
    low, high = bootstrap_ci(b, c, ONE, seed=1)
    assert low.shape == high.shape == (1500,)
    np.testing.assert_array_equal(low, bootstrap_ci(b, c, ONE, seed=1)[0])
    assert np.any(low != bootstrap_ci(b, c, ONE, seed=2)[0])
