"""Kernel rows by workload."""

from __future__ import annotations

import pytest

from tests.steps.test_timelines import result_of


def test_kernels_of_a_workload_add_up_to_its_gpu_time() -> None:
    """In every stratum the rows' parts sum to the mean GPU busy time of its steps, unless a row shows its largest only."""
    result = result_of("graph, gc")
    assert len(result.strata) == 2
    for number, stratum in enumerate(result.strata):
        parts = [part for row in result.kernels for part in row.strata if part.stratum == number]
        for side in ("baseline", "candidate"):
            steps = [
                one
                for one in result.timelines.steps
                if one.stratum == number and getattr(one, side) is not None
            ]
            busy = sum(
                getattr(steps[0], side).accounting.get(kind, 0) for kind in ("compute", "comm", "memcpy")
            )
            total = sum(getattr(part, f"{side}_ns") for part in parts)
            if stratum.compared:  # GPU time of one program is steady: a step has the mean to a per cent
                assert total == pytest.approx(busy, rel=0.01)


def test_the_compared_stratum_is_the_row() -> None:
    """With one compared stratum a row's own numbers are those of that stratum."""
    result = result_of("graph, gc")
    (compared,) = [number for number, stratum in enumerate(result.strata) if stratum.compared]
    checked = 0
    for row in result.kernels:
        for part in row.strata:
            if part.stratum == compared and row.baseline and row.candidate:
                # both sides' runs have as many steps each, so the mean of steps is the mean of runs
                assert part.baseline_ns == pytest.approx(row.baseline.ns_per_step)
                assert part.candidate_ns == pytest.approx(row.candidate.ns_per_step)
                assert part.baseline_count == pytest.approx(row.baseline.count_per_step)
                checked += 1
    assert checked > 5
