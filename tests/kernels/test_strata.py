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


def test_strata_by_their_weight_are_the_row() -> None:
    """With all strata compared, a row's own numbers are the means of its strata, each by its share of the steps."""
    result = result_of("graph, gc")
    assert [stratum.compared for stratum in result.strata] == [True, True]
    assert [stratum.weight for stratum in result.strata] == pytest.approx([29 / 30, 1 / 30])
    checked = 0
    for row in result.kernels:
        if row.baseline and row.candidate and row.strata:

            def mean(column: str, parts=row.strata) -> float:
                return sum(result.strata[part.stratum].weight * getattr(part, column) for part in parts)

            assert row.baseline.ns_per_step == pytest.approx(mean("baseline_ns"))
            assert row.candidate.ns_per_step == pytest.approx(mean("candidate_ns"))
            assert row.baseline.count_per_step == pytest.approx(mean("baseline_count"))
            checked += 1
    assert checked > 5
