"""Both sides must be cut into steps by one rule."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.builders import TraceBuilder
from tests.comparing import compare
from tests.tiny import label
from tracediff.execution.run import reduce_file
from tracediff.execution.sides import Reading, Run, Side


def side(*paths: Path) -> Side:
    return Side("side", [Run(path.name, [reduce_file(path, Reading(threads=1))]) for path in paths])


def loop(name: str, count: int = 8) -> TraceBuilder:
    """Range k at 1000 k .. 1000 k + 400, with a launch and its kernel."""
    trace = TraceBuilder().process(100).thread(100, 1).device(0)
    for number in range(count):
        begin = 1000 * number
        trace.range(1, name.format(number), begin, begin + 400, domain=None)
        trace.api(1, "cudaLaunchKernel", begin + 100, begin + 110, corr=number + 1)
        trace.kernel(number + 1, begin + 200, begin + 300)
    return trace


def check_of(tmp_path, *traces: TraceBuilder):
    sides = [side(trace.write(tmp_path / f"{number}.sqlite")) for number, trace in enumerate(traces)]
    result = compare(*sides)
    (check,) = [check for check in result.comparability.checks if check.name == "step_labels"]
    return result, check


@pytest.mark.parametrize(
    ("names", "counts", "values", "advice"),
    [
        (
            ("turn {}", "lap {}"),
            (8, 8),
            ("range 'turn N'", "range 'lap N'"),
            r"--step-regex '^lap (\d+)$' cuts all",
        ),
        (
            ("turn {}", "ProfilerStep#{}"),
            (8, 8),
            ("range 'turn N'", "profiler-step"),
            r"--step-regex '^turn (\d+)$' cuts all",
        ),
        (
            ("ProfilerStep#{}",) * 2,
            (1, 8),
            ("profiler-step, one step per run", "profiler-step"),
            "capture several steps on both",
        ),
    ],
)
def test_different_rules_are_not_comparable(names, counts, values, advice, tmp_path):
    result, check = check_of(tmp_path, *map(loop, names, counts))
    assert (check.status, check.baseline, check.candidate) == ("fail", *values)
    assert advice in check.message and result.verdict == "not_comparable"


def test_a_side_without_ranges_is_to_be_recorded_with_them(tmp_path):
    """The host waits for the last of three kernels, which cuts its steps; --step-regex could not, where nothing is labelled."""
    bare = TraceBuilder().process(100).thread(100, 1).device(0)
    for number in range(40):
        begin = 1000 * number
        for nth, name in enumerate(("gemm", "softmax", "sample")):
            bare.api(1, "cudaLaunchKernel", begin + 20 * nth, begin + 20 * nth + 10, corr=4 * number + nth)
            bare.kernel(4 * number + nth, begin + 100 + 100 * nth, begin + 200 + 100 * nth, name)
        bare.api(1, "cudaStreamSynchronize", begin + 70, begin + 410, corr=4 * number + 3)
    result, check = check_of(tmp_path, bare, loop("turn {}"))
    assert check.baseline.startswith("inferred") and result.verdict == "not_comparable"
    assert "record side with the same labels and nsys -t cuda,nvtx" in check.message
    assert "--whole-capture" in check.message and "--step-regex" not in check.message


def test_one_rule_is_comparable(tmp_path):
    _, check = check_of(tmp_path, loop("turn {}"), loop("turn {}"))
    assert (check.status, check.baseline, check.candidate) == ("ok", "range 'turn N'", "range 'turn N'")


def test_runs_of_a_side_are_cut_by_one_rule_too(tmp_path):
    mixed = []
    for number, name in enumerate(("turn {}", "lap {}")):
        mixed.append(loop(name).write(tmp_path / f"mixed{number}.sqlite"))
    sides = [side(*mixed), side(*mixed)]
    (check,) = [check for check in compare(*sides).comparability.checks if check.name == "step_labels"]
    assert (check.status, check.baseline) == ("fail", "range 'lap N' | range 'turn N'")


def test_one_step_on_each_side(tmp_path):
    """Both are measured, said to be one step per run, and never confirmed."""
    result, check = check_of(tmp_path, loop(label(3), 1), loop(label(3), 1))
    assert check.status == "ok"
    assert (result.step.baseline_ns, result.step.candidate_ns) == (100, 100)
    assert "one-step-per-run" in [note.slug for note in result.warnings]
    assert not {finding.level for finding in result.findings} & {"confirmed", "exact"}
