"""Changes of level and drift in series whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.history import NOISES, drift_power, false_alarms, noise, power, series
from tracediff.history import changes
from tracediff.history.changes import Series


def noisy(seed: int, many: int = 60) -> np.ndarray:
    return noise("normal", many, np.random.default_rng(seed))


def test_the_means_of_both_levels_are_said():
    """Twelve points of 10 and twelve of 13, each off by 0.1 up or down in turn: means 10 and 13, exactly."""
    values = np.where(np.arange(24) < 12, 10.0, 13.0) + np.tile([0.1, -0.1], 12)
    (one,) = changes.changes(series(values, error=0.1))
    assert one.at == 12
    assert (one.before, one.after, one.delta) == pytest.approx((10.0, 13.0, 3.0))
    assert one.low < 3.0 < one.high


def test_a_step_of_two_percent_among_sixty_points_is_found_where_it_is():
    values = 1000 + 5 * noisy(1)
    values[40:] += 20
    (one,) = changes.changes(series(values, error=5.0), tests=12)
    assert abs(one.at - 40) <= 1
    assert one.p < 0.001
    drift = changes.drift(series(values, error=5.0), [one])
    assert drift is None or drift.p > 0.05


def test_two_steps_are_two_changes_though_one_level_is_short():
    """Four points at the end on top of a small step: a short part has too few ranks to tell anything by itself."""
    values = 100 + noisy(2, 18)
    values[10:] += 15
    values[14:] += 200
    assert [one.at for one in changes.changes(series(values), tests=2)] == [10, 14]


def test_a_slow_drift_is_a_drift_and_no_step():
    one = series(1000 + 5 * noisy(3) + np.linspace(0, 30, 60), error=5.0)
    assert changes.changes(one, tests=12) == []
    drift = changes.drift(one, [], tests=12)
    assert drift.p < 0.001
    assert drift.low < 30 < drift.high


@pytest.mark.parametrize("many", [12, 17, 25, 40, 60])
def test_three_points_far_beyond_the_others_are_a_change(many):
    """Ten standard deviations. Of one step time three points tell; of six, in a history of some lengths, only four."""
    values = 100 + noisy(7, many)
    values[-3:] += 10
    assert [one.at for one in changes.changes(series(values), tests=2)] == [many - 3]
    values[-4] += 10
    assert [one.at for one in changes.changes(series(values), tests=12)] == [many - 4]


@pytest.mark.parametrize("at", [0, 30, 59])
def test_one_odd_point_is_no_change(at):
    values = 100 + noisy(4)
    values[at] += 50
    assert changes.changes(series(values)) == []


def test_the_last_point_alone_is_told_as_such():
    values = 100 + noisy(5)
    assert changes.newest(series(values)).p > 0.05
    values[-1] += 10
    assert changes.changes(series(values)) == []
    alone = changes.newest(series(values))
    assert alone.p < 0.001
    assert alone.delta == pytest.approx(values[-1] - 100, abs=1)
    values[-2] += 10
    assert changes.changes(series(values)) == []
    assert changes.newest(series(values), tests=12).p < 0.001, "two of them: still no change, and no less odd"


def test_no_change_lies_within_one_commit():
    """Points of one commit have one level, whatever they show: here every pair, and the step falls inside a pair."""
    values = np.where(np.arange(40) < 21, 10.0, 20.0) + 0.1 * noisy(6, 40)
    found = changes.changes(Series(values, np.full(40, 0.1), np.arange(40) // 2))
    assert found
    assert all(one.at % 2 == 0 for one in found)


def test_what_a_point_is_known_to_scatter_by_counts():
    """Six points that agree by chance say little where each is known to be off by 20."""
    values = np.array([100.0, 100.1, 100.0, 100.1, 100.0, 100.1] * 2)
    values[6:] += 5
    assert changes.changes(series(values, error=0.1))
    assert not changes.changes(series(values, error=20.0))


def test_counts_that_never_differ_show_the_smallest_step():
    values = np.array([300.0] * 12 + [301.0] * 12)
    (one,) = changes.changes(series(values, error=0.0), tests=400)
    assert one.at == 12
    assert changes.changes(series(np.full(24, 300.0), error=0.0), tests=400) == []


@pytest.mark.parametrize("many", range(8))
def test_short_series_say_nothing_and_do_not_fail(many):
    values = np.arange(many, dtype=float) ** 2
    assert changes.changes(series(values)) == []
    assert changes.drift(series(values), []) is None


@pytest.mark.parametrize("kind", [one for one in NOISES if not one.startswith("neighbours")])
def test_false_alarms_in_a_history_of_two_hundred_series(kind):
    """At most 1 history in 20 may hold any; of five, two would be far beyond it (p < 0.03)."""
    changed, drifted = false_alarms(kind, histories=5)
    assert changed <= 1
    assert drifted <= 1


def test_power():
    assert power(3, at=30, family=12, histories=20) >= 0.9
    assert power(6, at=57, family=12, histories=20) >= 0.9
    assert drift_power(5, histories=20) >= 0.9
