"""How inferred steps are held against labels."""

from __future__ import annotations

import numpy as np

from benchmarks.steps import score

START = np.arange(0, 4000, 10)  # 400 launches, 10 ns apart
OPS = np.ones(400, np.int64)
LABELS = np.arange(0, 4000, 1000)  # a step of 100 ops each


def test_the_same_boundaries():
    one = score(LABELS, LABELS, START, OPS)
    assert (one.precision, one.recall, one.ok) == (1.0, 1.0, True)


def test_five_percent_of_a_step_are_the_same_place():
    assert score(LABELS + 50, LABELS, START, OPS).ok, "5 of 100 ops later"
    assert score(LABELS + 60, LABELS, START, OPS).recall == 0.0, "6 of 100 ops later"


def test_twice_as_many_steps():
    """Of 7 boundaries up to the last label, 4 are labels."""
    one = score(np.arange(0, 4000, 500), LABELS, START, OPS)
    assert (one.precision, one.recall) == (4 / 7, 1.0)


def test_every_second_step():
    """Of the three labels behind the first launch, one is found."""
    one = score(LABELS[::2], LABELS, START, OPS)
    assert (one.precision, one.recall, one.ok) == (1.0, 1 / 3, False)
