"""Kernels judged by their own launches: whole captures and programs with a single step."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.builders import TraceBuilder
from tests.comparing import compare
from tests.tiny import reduced
from tracediff.comparison.launches import _sd
from tracediff.execution.sides import Run, Side
from tracediff.report.markdown import render_markdown

US = 1000


def capture(folder: Path, name: str, kernels: dict[str, tuple[int, float]]) -> Side:
    """One run without labels: of each kernel so many launches of so many us, every second one 1 us longer, in turns, 5 us apart."""
    trace = TraceBuilder().process(100).device(0).thread(100, 1)
    now, corr = 0, 0
    for number in range(max(many for many, _ in kernels.values())):
        for kernel, (many, us) in kernels.items():
            if number >= many:
                continue
            corr += 1
            ns = int((us + number % 2) * US)
            trace.api(1, "cudaLaunchKernel", now, now + US, corr=corr)
            trace.kernel(corr, now + 2 * US, now + 2 * US + ns, name=kernel)
            now += 5 * US + ns
    (folder / name).mkdir()
    return Side(name, [Run(name, [reduced(trace, folder / name, whole_capture=True)])])


def rows(result) -> dict:
    return {row.baseline.names[0]: row for row in result.kernels if row.baseline}


@pytest.fixture
def base(tmp_path):
    return capture(tmp_path, "base", {"gemm": (200, 10), "norm": (200, 3), "copy_out": (40, 7)})


def test_a_kernel_that_is_80_percent_faster_changed_by_its_own_launches(base, tmp_path):
    fast = capture(tmp_path, "fast", {"gemm": (200, 1.7), "norm": (200, 3), "copy_out": (40, 7)})
    result = compare(base, fast)
    assert result.headline.text == (
        "Inconclusive: no phase has enough matching steps on both sides; a launch of gemm changed by -79.0 % (likely)."
    )
    gemm, norm = rows(result)["gemm"], rows(result)["norm"]
    # 10 and 11 us in turns: 10.5 us with a standard deviation of half a us; 1.7 and 2.7 us: 2.2 us
    assert (gemm.baseline.launches, gemm.candidate.launches) == (200, 200)
    assert (gemm.per_launch.baseline_ns, gemm.per_launch.candidate_ns) == (10_500, 2_200)
    assert gemm.baseline.sd_ns == pytest.approx(500 * (200 / 199) ** 0.5)
    # of one run a side nothing is confirmed
    assert gemm.per_launch.level == "likely" and norm.per_launch.level == "within_noise"
    assert (
        "Likely, by their own launches: gemm -79.0 % (10.5 us -> 2.20 us each, 200 launches)."
        in result.verdict_reason
    )
    text = render_markdown(result)
    assert "No kernel changed" not in text and "Nothing changed" not in text
    assert "| `gemm` | 200 | 10.50 ± 0.50 | 2.20 ± 0.50 | -79.0 % |" in text


def test_captures_of_different_amounts_of_work_are_named_and_compared_by_launch(base, tmp_path):
    longer = capture(tmp_path, "longer", {"gemm": (400, 10), "norm": (400, 3), "copy_out": (40, 7)})
    result = compare(base, longer)
    (check,) = (one for one in result.comparability.checks if one.name == "work")
    assert check.status == "warn"
    assert "the captures hold different amounts of work: 200 and 400 launches of gemm" in check.message
    found = rows(result)
    assert found["gemm"].per_launch.delta_ns == found["norm"].per_launch.delta_ns == 0
    # launched as often on both sides, where all else is launched twice as often: it did another work
    assert found["copy_out"].per_launch is None


def test_as_much_work_is_not_mentioned(base, tmp_path):
    other = capture(tmp_path, "other", {"gemm": (200, 10), "norm": (200, 3), "copy_out": (200, 7)})
    assert not [one for one in compare(base, other).comparability.checks if one.name == "work"]


def test_exchanging_the_sides_changes_signs_alone(base, tmp_path):
    fast = capture(tmp_path, "fast", {"gemm": (200, 2), "norm": (200, 3), "copy_out": (40, 7)})
    one, two = rows(compare(base, fast)), rows(compare(fast, base))
    for name, row in one.items():
        assert row.per_launch.delta_ns == -two[name].per_launch.delta_ns
        assert (row.per_launch.q_value, row.per_launch.level) == (
            two[name].per_launch.q_value,
            two[name].per_launch.level,
        )


def test_a_capture_against_itself_differs_nowhere(base):
    assert {row.per_launch.delta_ns for row in compare(base, base).kernels} == {0.0}


def test_three_runs_a_side_confirm(tmp_path):
    sides = []
    for name, us in (("slow", 10.0), ("fast", 5.0)):
        runs = [capture(tmp_path, f"{name}{n}", {"gemm": (20, us + 0.01 * n)}).runs[0] for n in range(3)]
        sides.append(Side(name, runs))
    assert rows(compare(*sides))["gemm"].per_launch.level == "confirmed"


def test_the_deviation_of_launches():
    import numpy as np

    # 1, 2 and 3: mean 2, variance 1; a single launch has none
    assert _sd(np.array([3.0, 1.0]), np.array([6.0, 5.0]), np.array([14.0, 25.0]))[0] == pytest.approx(1.0)
    assert np.isnan(_sd(np.array([1.0]), np.array([5.0]), np.array([25.0]))[0])
