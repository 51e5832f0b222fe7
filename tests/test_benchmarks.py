"""The benchmark measures what it says: whole process trees, bounded in time, and every gap is named."""

from __future__ import annotations

import gzip
import importlib
import json
import sys
import time
import tomllib
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks import against, results, what_if
from benchmarks.contenders import CONTENDERS, FLOORS
from benchmarks.inputs import SHAPES
from benchmarks.measuring import Figure, NotMeasuredError, measure
from benchmarks.results import Group, Row
from fixtures.builders.replicate_torch import replicate_trace
from tests.tiny import FIXTURES, ROOT

MACHINE = {
    "cores": 2, "processor": "some", "memory_gib": 8, "python": "3.11", "duckdb": "1", "polars": "1", "numpy": "2",
    "date": "2026-01-01", "load_before": 0.1,
}  # fmt: skip
ALL = {"limit_s": 60.0, "most_mib": 10_000.0}


@pytest.mark.parametrize(
    "name",
    sorted(path.stem for path in (ROOT / "benchmarks").glob("*.py") if not path.stem.endswith("_script")),
)
def test_every_benchmark_knows_the_code_of_today(name):
    assert importlib.import_module(f"benchmarks.{name}").__doc__


@pytest.mark.slow
def test_a_projection_comes_near_the_step_that_was_measured():
    """benchmarks/what_if.md: garbage collections scaled to those of the other side, 981 us for 982."""
    (case,) = (one for one in tomllib.loads(what_if.CASES.read_text())["case"] if one["name"] == "gc5fused")
    row = what_if.measure(what_if.Case(**case))
    assert abs(row.error) < 0.01 and row.covered and row.candidate > 1.6 * row.baseline


def group(size: float, **seconds: float | None) -> Group:
    rows = [Row(name.replace("_", "-"), value, value, 1.0) for name, value in seconds.items()]
    return Group("graph", size, 1.0, MACHINE, rows)


@pytest.mark.slow
def test_memory_is_of_all_processes_together(tmp_path):
    """A child that holds 150 MiB, and its child that holds 150 MiB more."""
    hold = "import time; x = bytearray(150 << 20); time.sleep(1.5)"
    code = f"import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', {hold!r}]); {hold}; p.wait()"
    found = measure([sys.executable, "-c", code], tmp_path, **ALL)
    assert 300 < found.peak_mib < 400
    assert found.seconds > 1.5


@pytest.mark.slow
def test_processor_time_is_not_that_of_waiting(tmp_path):
    code = "import time; time.sleep(1)\nwhile time.process_time() < 0.5: pass"
    found = measure([sys.executable, "-c", code], tmp_path, **ALL)
    assert 0.5 <= found.cpu_s < 1.0 and found.seconds >= 1.5


@pytest.mark.slow
def test_a_command_that_takes_too_long_ends_with_its_children(tmp_path):
    pids = tmp_path / "pids"
    code = (
        "import subprocess, sys, time; p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(300)']);"
        f"open({str(pids)!r}, 'w').write(str(p.pid)); time.sleep(300)"
    )
    with pytest.raises(NotMeasuredError, match="stopped after 3 s"):
        measure([sys.executable, "-c", code], tmp_path, limit_s=3, most_mib=10_000)
    deadline = time.monotonic() + 10
    while (stat := Path("/proc", pids.read_text(), "stat")).exists() and ") Z " not in stat.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_command_that_takes_too_much_or_fails_has_no_figure(tmp_path):
    with pytest.raises(NotMeasuredError, match="of memory"):
        measure(
            [sys.executable, "-c", "x = bytearray(200 << 20); input()\nimport time; time.sleep(9)"],
            tmp_path,
            limit_s=60,
            most_mib=5,
        )
    with pytest.raises(NotMeasuredError, match="exit status 3"):
        measure([sys.executable, "-c", "raise SystemExit(3)"], tmp_path, **ALL)


def test_the_exponent_of_a_power_law():
    """3 x^1.5 at 1, 4 and 16 is 3, 24 and 192."""
    assert results.slope([(1, 3), (4, 24), (16, 192)]) == pytest.approx(1.5)
    assert results.slope([(1, 3)]) is None
    # not on one line: logs to base 2 are (0, 0), (1, 1), (2, 0), whose least-squares line is flat
    assert results.slope([(1, 1), (2, 2), (4, 1)]) == pytest.approx(0)


def test_what_a_larger_size_would_take():
    known = [group(1, nsys_ai=10), group(2, nsys_ai=40)]
    assert results.expected(known, "graph", "nsys-ai", 8) == pytest.approx(640)  # as the square
    assert results.expected(known[:1], "graph", "nsys-ai", 3) == pytest.approx(30)  # linear, from one
    assert results.expected(known, "graph", "nsys-ai", 1) is None
    assert results.expected(known, "eager", "nsys-ai", 8) is None


def test_what_would_take_too_long_is_not_run_and_says_so():
    bounds = command.Bounds(limit_s=100, end=time.monotonic() + 1000)
    assert bounds.allowed(99) == 100 and bounds.allowed(None) == 100
    with pytest.raises(NotMeasuredError, match="not run: would take about 41 min, 100 s allowed"):
        bounds.allowed(41 * 60)
    with pytest.raises(NotMeasuredError, match="whole run was up"):
        command.Bounds(limit_s=100, end=time.monotonic()).allowed(None)


def test_ratios_are_of_the_floor_and_of_this_project_in_the_same_group():
    one = group(5, scan=8, tracediff=20)
    one.rows.append(Row("nsys-ai", note="not run: would take about 9 h"))
    lines = list(results.table(one))
    assert lines[1] == "| graph | 5 | tracediff, cold | 20.00 | 2.50 | 1.00 | 20.0 | 1 |"
    assert lines[0] == "| graph | 5 | bare scan | 8.00 | 1.00 | 0.40 | 8.0 | 1 |"
    assert lines[2] == "| graph | 5 | nsys-ai diff, cold | not run: would take about 9 h | | | | |"
    assert {line.count("|") for line in [*lines, *results.HEAD]} == {9}


def test_results_are_kept_and_replaced_by_pair(tmp_path):
    file = tmp_path / "results.json"
    results.save(file, results.merged([group(1, scan=1), group(5, scan=5)], [group(1, scan=2)]))
    assert [(one.size, one.seconds(FLOORS)) for one in results.load(file)] == [(1, 2), (5, 5)]
    assert "| graph | bare scan | 1, 5 |" in file.with_suffix(".md").read_text()


def test_the_pages_are_those_of_the_committed_results():
    """docs/performance.md quotes some of the rows."""
    kept = command.KEPT.with_suffix(".md").read_text(encoding="utf-8")
    assert kept == results.render(results.load(command.KEPT)) + "\n"
    page = (ROOT / "docs/performance.md").read_text(encoding="utf-8").splitlines()
    quoted = [line for line in page if line.startswith(("| graph |", "| eager |", "| torch |"))]
    assert len(quoted) > 5 and set(quoted) <= set(kept.splitlines())


def test_every_shape_has_a_floor_this_project_and_another_tool():
    for shape in SHAPES:
        here = {name for name, one in CONTENDERS.items() if shape in one.shapes}
        assert here & set(FLOORS) and {"bytes", "tracediff", "tracediff-warm"} <= here
        assert any(CONTENDERS[name].needs for name in here)


@pytest.mark.slow
def test_tools_that_are_not_there_are_named(tmp_path, monkeypatch, capsys):
    """A whole run of the command on the smallest pair, without nsys."""
    monkeypatch.setenv("NSYS", str(tmp_path / "none"))
    out = tmp_path / "results.json"
    words = [
        "--shapes",
        "graph",
        "--sizes",
        "0.001",
        "--contenders",
        "bytes",
        "scan",
        "tracediff",
        "tracediff-warm",
        "nsys-kernels",
    ]
    monkeypatch.setattr("sys.argv", ["benchmarks", *words, "--out", str(out)])
    command.main()
    (found,) = results.load(out)
    assert [row.contender for row in found.rows] == words[5:]
    assert found.row("nsys-kernels").note == "no nsys on PATH or in $NSYS"
    assert all(row.seconds > 0 and row.peak_mib > 1 for row in found.rows[:-1])
    assert found.row("bytes").seconds < found.row("scan").seconds < found.row("tracediff").seconds
    assert str(tmp_path) not in out.read_text()
    assert "| graph | 0.001 | tracediff, cold |" in capsys.readouterr().out


def test_a_trace_is_repeated_in_time(tmp_path):
    plain, out = tmp_path / "plain.json", tmp_path / "out.json"
    plain.write_bytes(gzip.decompress((FIXTURES / "torch/loop_a.json.gz").read_bytes()))
    one = json.loads(plain.read_text())["traceEvents"]
    kernels = sum(event.get("cat") == "kernel" for event in one)
    assert replicate_trace(plain, out, kernels + 1) == 2
    two = json.loads(out.read_text())["traceEvents"]
    kept = [event for event in one if event.get("cat") != "Trace"]
    assert two[: len(kept)] == kept and len(two) == 2 * len(kept)
    begin, end = min(event["ts"] for event in kept), max(event["ts"] + event["dur"] for event in kept)
    assert min(event["ts"] for event in two[len(kept) :]) == pytest.approx(end, abs=0.001)
    assert max(event["ts"] + event["dur"] for event in two) == pytest.approx(end + end - begin, abs=0.002)
    steps = sorted(event["name"] for event in two if event["name"].startswith("ProfilerStep"))
    assert len(set(steps)) == len(steps) == 24
    launched = [event["args"]["correlation"] for event in two if event.get("cat") == "kernel"]
    assert len(set(launched)) == len(launched) == 2 * kernels


def test_a_ratio_may_rise_by_a_quarter():
    assert against.verdict(1.25, 1.0) is None
    assert "1.26 times" in (against.verdict(1.26, 1.0) or "")


def test_the_least_of_all_rounds_counts():
    figures = {
        against.SCAN: [Figure(4.0, 2.0, 90.0), Figure(2.0, 3.0, 80.0)],
        against.HERE: [Figure(6.0, 9.0, 300.0), Figure(5.0, 3.0, 400.0)],
    }
    assert against.ratio(figures) == 1.5
    assert against.table(figures)[-1] == "| this tree | 5.00 | 2.50 | 3.00 | 1.50 | 300 |"


@pytest.mark.slow
def test_a_tree_against_the_scan_and_an_older_one(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(against, "RECORDED", tmp_path / "against.json")
    few = ["--size", "0.002", "--rounds", "1"]
    assert against.main([*few, "--check"]) == 2  # nothing is recorded
    assert against.main([*few, "--record"]) == 0
    assert set(json.loads((tmp_path / "against.json").read_text())) == {"0.002 M"}
    (tmp_path / "against.json").write_text('{"0.002 M": 0.01}')
    assert against.main([*few, "--check"]) == 1
    assert "0.01 is recorded" in capsys.readouterr().out
