"""Several capture windows of one process: each its own export, with a clock of its own, and all of them one run."""

from __future__ import annotations

import pytest

from fixtures.builders import TraceBuilder
from tests.tiny import label
from tracediff import api
from tracediff.formats.inputs import resolve

US = 1000


def window(first: int, steps: int, kernel_us: int, pid: int = 100) -> TraceBuilder:
    """Steps of 1000 us from number `first` on, one kernel each, and one step more that closes the last period.

    us of a step   0         10-15    100
      host         |label    launch
      GPU                             |gemm, kernel_us|
    """
    trace = TraceBuilder().process(pid).thread(pid, 1)
    for number in range(steps + 1):
        begin = 1000 * US * number
        trace.range(1, label(first + number), begin, begin + 90 * US)
        trace.api(1, "cudaLaunchKernel", begin + 10 * US, begin + 15 * US, corr=number)
        trace.kernel(number, begin + 100 * US, begin + (100 + kernel_us) * US, name="gemm")
    return trace


@pytest.fixture
def sides(tmp_path):
    """Two windows a run, of 4 and of 8 steps; the kernel takes 100 us in the first and 250 in the second, the candidate's 50 us more."""
    for side, more in (("before", 0), ("after", 50)):
        (tmp_path / side / "run").mkdir(parents=True)
        window(100, 4, 100 + more).write(tmp_path / side / "run" / "report.1.sqlite")
        window(300, 8, 250 + more).write(tmp_path / side / "run" / "report.2.sqlite")
    return tmp_path


def compared(folder, **options):
    return api.compare(folder / "before", folder / "after", **options).result


def test_windows_are_in_order_of_their_numbers_and_have_one_rank(tmp_path):
    for name in ("report.1.sqlite", "report.10.sqlite", "report.2.sqlite"):
        (tmp_path / "run" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "run" / name).touch()
    side = resolve(str(tmp_path))
    (run,) = side.runs
    assert [file.name for file in run.files] == ["report.1.sqlite", "report.2.sqlite", "report.10.sqlite"]
    assert (run.ranks, side.notes) == ((0, 0, 0), ())


@pytest.mark.slow
def test_a_folder_of_windows_is_one_run_and_says_so(tmp_path):
    """What nsys -o before/report --capture-range-end=repeat leaves: one run, not two repeats."""
    for side, more in (("before", 0), ("after", 50)):
        (tmp_path / side).mkdir()
        window(100, 4, 100 + more).write(tmp_path / side / "report.1.sqlite")
        window(300, 8, 250 + more).write(tmp_path / side / "report.2.sqlite")
    result = compared(tmp_path)
    assert (result.step.runs.baseline, result.step.runs.candidate) == (1, 1)
    (run,) = result.inputs.baseline.runs
    assert (run.steps, run.windows) == (12, 2)
    said = [note.message for note in result.warnings if note.slug == "taken-as-windows"]
    assert (
        len(said) == 2
        and "before: report.1.sqlite to report.2.sqlite were read as 2 capture windows" in said[0]
    )


@pytest.mark.slow
def test_captures_of_several_processes_are_repeats_whatever_their_numbers(tmp_path):
    for side in ("before", "after"):
        (tmp_path / side).mkdir()
        for number in (1, 2, 3):
            window(100, 4, 100, pid=100 + number).write(tmp_path / side / f"run.{number}.sqlite")
    result = compared(tmp_path)
    assert [run.name for run in result.inputs.baseline.runs] == [f"run.{one}.sqlite" for one in (1, 2, 3)]
    assert result.step.runs.baseline == 3
    assert "taken-as-windows" not in {note.slug for note in result.warnings}


@pytest.mark.parametrize(
    "names", [("a.1", "b.2"), ("a.1", "a.3"), ("a.0", "a.1"), ("a-1", "a-2"), ("a.1", "a")], ids=" ".join
)
def test_names_that_nsys_gives_no_windows_are_repeats(names, tmp_path):
    for name in names:
        (tmp_path / f"{name}.sqlite").touch()
    side = resolve(str(tmp_path))
    assert [len(run.files) for run in side.runs] == [1, 1] and not side.notes


def test_ranks_have_windows_too(tmp_path):
    (tmp_path / "run").mkdir()
    for rank in (0, 1):
        for number in (1, 2):
            (tmp_path / "run" / f"report.rank{rank}.{number}.sqlite").touch()
    (run,) = resolve(str(tmp_path)).runs
    assert run.ranks == (0, 0, 1, 1)
    assert [file.name for file in run.files] == [
        f"report.rank{rank}.{number}.sqlite" for rank in (0, 1) for number in (1, 2)
    ]


def test_every_window_of_a_run_counts(sides):
    result = compared(sides)
    (run,) = result.inputs.baseline.runs
    assert (run.steps, run.windows, run.ranks) == (12, 2, 1)
    assert len(result.ranks) == 1
    # steps 1000 us apart in both windows: 4 x 100 us and 8 x 250 us of compute make 200 us a step
    assert result.step.baseline_ns == pytest.approx(1000 * US)
    assert result.accounting.baseline["compute"] == pytest.approx(200 * US)
    assert result.accounting.candidate["compute"] == pytest.approx(250 * US)
    # window by window, though both clocks begin at 0
    numbers = [one.number for one in result.samples if one.side == "baseline"]
    assert numbers == [*range(100, 104), *range(300, 308)]


def test_the_steps_of_one_window_can_be_chosen(sides):
    result = compared(sides, steps="300-")
    assert result.inputs.baseline.runs[0].steps == 8
    assert result.accounting.baseline["compute"] == pytest.approx(250 * US)


@pytest.mark.slow
def test_a_query_sees_both_windows_of_the_one_rank(sides):
    with api.open(sides / "before") as captures:
        rows = captures.sql(
            "SELECT capture, rank, count(*) AS steps FROM period GROUP BY ALL ORDER BY ALL"
        ).rows()
    assert rows == [(0, 0, 4), (1, 0, 8)]
