"""Both sides must be cut into steps by one rule."""

from __future__ import annotations

from pathlib import Path

from fixtures.builders import TraceBuilder
from tests.comparing import compare
from tests.tiny import label, read
from tracediff.execution.sides import Run, Side


def side(*paths: Path) -> Side:
    return Side("side", [Run(path.name, [read(path)]) for path in paths])


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


def test_rules_whose_steps_hold_the_same_work_are_comparable(tmp_path):
    result, check = check_of(tmp_path, loop("turn {}"), loop("lap {}"))
    assert (check.status, check.baseline, check.candidate) == ("warn", "range 'turn N'", "range 'lap N'")
    assert result.comparability.comparable and result.step.delta_ns == 0


def test_rules_whose_steps_hold_other_work_are_not(tmp_path):
    """Every second turn of the other side begins a lap: its steps launch twice as much."""
    laps = loop("turn {}", 16)
    for number in range(0, 16, 2):
        laps.range(2, f"ProfilerStep#{number}", 1000 * number, 1000 * number + 1900, domain=None)
    result, check = check_of(tmp_path, loop("turn {}"), laps)
    assert (check.status, check.candidate) == ("fail", "profiler-step")
    assert "--step-regex names a range that all have" in check.message and result.verdict == "not_comparable"


def test_one_rule_is_comparable(tmp_path):
    _, check = check_of(tmp_path, loop("turn {}"), loop("turn {}"))
    assert (check.status, check.baseline, check.candidate) == ("ok", "range 'turn N'", "range 'turn N'")


def test_runs_of_a_side_are_cut_by_one_rule_too(tmp_path):
    mixed = []
    for number, name in enumerate(("turn {}", "lap {}")):
        mixed.append(loop(name).write(tmp_path / f"mixed{number}.sqlite"))
    sides = [side(*mixed), side(*mixed)]
    (check,) = [check for check in compare(*sides).comparability.checks if check.name == "step_labels"]
    assert (check.status, check.baseline) == ("warn", "range 'lap N' | range 'turn N'")


def test_one_step_on_each_side(tmp_path):
    """Both are measured, said to be one step per run, and never confirmed."""
    result, check = check_of(tmp_path, loop(label(3), 1), loop(label(3), 1))
    assert check.status == "ok"
    assert (result.step.baseline_ns, result.step.candidate_ns) == (100, 100)
    assert "one-step-per-run" in [note.slug for note in result.warnings]
    assert not {finding.level for finding in result.findings} & {"confirmed", "exact"}
