"""What a point keeps of a result: values that follow from the steps of `serving`."""

from __future__ import annotations

import msgspec
import pytest

from benchmarks.history import kept
from tests.comparing import compare, show
from tests.history.test_analysis import NO_GIT
from tests.serving import run_of
from tracediff.execution.sides import Side
from tracediff.history.analysis import analyse
from tracediff.history.points import Point, of_result, of_show
from tracediff.model import Shares

WHEN = {"commit": "1234567", "time": "2026-01-01T12:00:00+00:00"}


def side(folder, name: str, schedule_us: float, **rest) -> Side:
    return Side(
        name, [run_of(folder, name, number, schedule_us, jitter_us=0.0, **rest) for number in range(2)]
    )


def values(point: Point) -> dict[str, tuple[float, float | None, float | None]]:
    own = point.measures
    return dict(zip(own.names, zip(own.value, own.baseline, own.delta, strict=True), strict=True))


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    """A step of 100 + 5 + 2 + 3 x 200 us, and one whose `_schedule` takes 130 us."""
    folder = tmp_path_factory.mktemp("points")
    return compare(side(folder, "main", 100), side(folder, "pr", 130))


def test_phases_categories_places_kernels_and_counts(result):
    found = values(of_result(result, **WHEN))
    assert found["generation"] == (737_000, 707_000, 30_000)
    assert found["generation.host_work"] == (130_000, 100_000, 30_000)
    assert found["generation.host_work@_schedule"] == (130_000, 100_000, 30_000)
    assert found["generation.compute"] == (600_000, 600_000, 0)
    assert found["kernel:gemm_1"] == (200_000, 200_000, 0)
    assert (found["launches"], found["kernels"], found["syncs"]) == ((1, 1, 0), (3, 3, 0), (1, 1, 0))


def test_errors_are_half_the_interval_and_runs_are_kept(result):
    own = of_result(result, **WHEN).measures
    typical = result.phases[0].typical
    error = own.error[own.names.index("generation")]
    assert error == pytest.approx((typical.ci_high_ns - typical.ci_low_ns) / 2 / 1.96, abs=0.01)
    assert own.runs["generation"] == [737_000, 737_000]


def test_a_result_that_is_not_comparable_has_values_but_no_deltas(result):
    refused = msgspec.structs.replace(result, verdict="not_comparable")
    point = of_result(refused, pinned="v1", **WHEN)
    assert values(point)["generation"] == (737_000, None, None)
    assert {value[1:] for value in values(point).values()} == {(None, None)}
    assert point.pinned == ""


def test_a_row_of_several_kernels_has_a_name_that_stays(result):
    """Two kernels of the candidate in one row: its name would change as soon as another joined them."""
    row = result.kernels[0]
    both = msgspec.structs.replace(row.candidate, names=["gemm_0", "gemm_x"])
    joined = msgspec.structs.replace(result, kernels=[msgspec.structs.replace(row, candidate=both)])
    kernels = [name for name in values(of_result(joined, **WHEN)) if name.startswith("kernel:")]
    assert kernels == [f"kernel:{row.family} {row.category}, several"]


def test_the_report_of_one_capture_has_values_alone(tmp_path):
    point = of_show(show(side(tmp_path, "main", 100)), **WHEN)
    assert values(point)["step"] == (707_000, None, None)
    assert values(point)["host_work"] == (100_000, None, None)
    assert values(point)["kernels"] == (3, None, None)
    assert point.configuration["report"] == "show"


def test_a_slower_phase_does_not_make_another_program(result):
    """All steps are of one phase. Whatever part of the time it takes, the points stay in one segment."""
    (phase,) = result.phases
    fast = msgspec.structs.replace(phase, time_share=Shares(0.05, 0.05))
    other = of_result(msgspec.structs.replace(result, phases=[fast]), **WHEN)
    assert other.program == of_result(result, **WHEN).program and other.program.phases == ("generation",)


def test_what_names_machine_and_program(result):
    point = of_result(result, program="llama", pinned="v1", **WHEN)
    assert (point.program.name, point.program.steps, point.program.phases) == (
        "llama",
        "tensorrt-llm",
        ("generation",),
    )
    assert point.machine["gpu"] == "NVIDIA H200"
    assert (point.baseline, point.candidate, point.pinned) == ("main", "pr", "v1")
    assert b"/" not in msgspec.json.encode(point).replace(b"http://", b"")


def at_day(result, day: int):
    """The result as it would be of a bundle that `tracediff capture` recorded on a day."""
    runs = [{"run": "001-baseline-1", "side": "baseline", "started": f"2026-01-0{day}T12:00:00+00:00"}]
    given = msgspec.structs.replace(result.inputs, options=result.inputs.options | {"recorded": runs})
    return msgspec.structs.replace(result, inputs=given)


def test_bundles_that_were_recorded_at_other_times_are_one_segment(result):
    made = [
        of_result(at_day(result, day), commit=f"{day}234567", time=f"2026-01-0{day}T12:00:00+00:00")
        for day in (1, 2, 3)
    ]
    (segment,) = analyse(kept(made), NO_GIT).segments
    assert segment.points == [0, 1, 2]
    assert segment.configuration == of_result(result, **WHEN).configuration
    assert segment.configuration["report"] == "compare"
