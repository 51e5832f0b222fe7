"""Programs compared with themselves and with a slower one, many times over: how often something false is sure, and a change found."""

from __future__ import annotations

import numpy as np
import pytest

from tests.measuring import FIRST, measured, step
from tracediff.comparison.places import judge
from tracediff.comparison.verdict import decide, judge_phases

US = 1_000.0
HOST = np.array([5, 10, 20, 40, 80, 120, 200]) * US  # places of host work
KERNELS = np.array([3, 10, 50, 200, 300]) * US
STEP = float(HOST.sum() + KERNELS.sum())


def program(rng: np.random.Generator, runs: int, more: float = 0.0) -> list[list[dict]]:
    """Runs on hosts whose speeds differ by 10 %; places scatter by 4 % from run to run and by 10 % from step to step.

    One step in ten is a longer prompt, with other ops and twice the kernels. `more`: of the step, in the fourth place of host work.
    """
    made = []
    for speed in rng.normal(0, 0.1, runs):
        own = HOST * (1 + rng.normal(0, 0.04, len(HOST)))
        own[3] += more * STEP
        gpu = KERNELS * (1 + rng.normal(0, 0.003, len(KERNELS)))
        steps = []
        for long in rng.random(20) < 0.1:
            z = speed + rng.normal(0, 0.05)
            host = own * np.exp(0.9 * z) * (1 + rng.normal(0, 0.1, len(HOST)))
            steps.append(step(cells=[*np.maximum(host, 0), *gpu * (1 + long), z], ops=int(long)))
        made.append(steps)
    return made


def judged(rng: np.random.Generator, more: float = 0.0):
    """Verdict, and the places that are sure."""
    found = measured(program(rng, 5), program(rng, 5, more), idle=len(HOST), kernels=len(KERNELS), speed=True)
    places = judge(found)
    verdict, _ = decide(found, places, judge_phases(found), comparable=True)
    return verdict, {one.place.cells[0] - FIRST for one in places.rows if one.level in ("exact", "confirmed")}


@pytest.mark.slow
def test_a_program_against_itself_is_rarely_called_a_change():
    rng = np.random.default_rng(1)
    found = [judged(rng) for _ in range(100)]
    assert sum(bool(sure) for _, sure in found) <= 5
    assert sum(verdict not in ("no_change", "inconclusive") for verdict, _ in found) <= 5


def test_a_change_of_five_percent_is_found_at_its_place():
    rng = np.random.default_rng(2)
    found = [judged(rng, 0.05) for _ in range(25)]
    assert sum(3 in sure and verdict == "regressed" for verdict, sure in found) >= 23
    assert (
        sum(bool(sure - {3}) for _, sure in found) <= 4
    )  # of places that are sure, one in twenty may be false
