"""The moment of a finding: its query adds up to what the accounting has of the cause in that step, by hand and on the pairs whose timelines are beside."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from fixtures.builders import TraceBuilder
from tests.comparing import compare
from tests.serving import serving
from tests.steps.test_timelines import PAIRS, column, result_of
from tests.tiny import FIXTURES, label, one_gap, reduced
from tracediff import compare as compare_files
from tracediff.comparison.evidence import Idle, idle_of_step, ops_of_step
from tracediff.comparison.moments import Span, middle
from tracediff.execution.run import reduce_sides
from tracediff.execution.sides import Reading, Run, Side
from tracediff.formats.inputs import resolve
from tracediff.model import Finding, Result
from tracediff.query.tables import Tables
from tracediff.steps import sample

US, MS = 1_000, 1_000_000


def answers(path: Path, *questions: str) -> list[pl.DataFrame]:
    """What `tracediff query` answers of one capture."""
    with Tables([resolve(str(path))]) as tables:
        return [tables.run(one)[0].frame for one in questions]


def test_the_causes_of_a_tiny_step(tmp_path) -> None:
    """The step and its idle time are those of `test_a_tiny_step` in tests/steps/test_timelines.py, by hand."""
    trace: TraceBuilder = one_gap()
    trace.gil(1, "wait", 200, 300).gil(2, "hold", 150, 320).gil(1, "hold", 320, 700)
    trace.gc(1, 400, 500, generation=2).api(1, "cudaMalloc", 600, 640)
    trace.range(1, "work 17", 350, 800)
    expected = {
        Idle("host_work", "executor"): 560,  # 100-200, 300-400, 500-600, 640-900
        Idle("host_work", "executor", ("work N",)): 310,  # 350-400, 500-600, 640-800
        Idle("gil_wait", "executor"): 100,
        Idle("gc", "executor", ("anywhere",)): 100,
        Idle("host_api", "executor"): 40,
        Idle("launch_api", "executor"): 50,
        Idle("launch_latency", "executor"): 50,
        Idle("dependency", "executor"): 0,
        Idle(
            "host_work", "executor", with_gil=False
        ): 660,  # without the GIL's trace the wait is work of the host
        Idle("host_work", "detokenizer"): 0,
    }
    found = answers(trace.write(tmp_path / "t.sqlite"), *(idle_of_step([one], 0, 0) for one in expected))
    assert [sum(one["idle_ns"]) for one in found] == list(expected.values())


def test_a_wait_is_that_of_its_holder_and_of_the_holders_range(tmp_path) -> None:
    """Thread 1 waits 200-600: thread 2 holds the GIL 150-350 in `serialize`, thread 3 holds it 350-600 outside ranges."""
    trace = one_gap().thread(100, 2).thread(100, 3)
    trace.gil(1, "wait", 200, 600).gil(2, "hold", 150, 350).gil(3, "hold", 350, 600)
    trace.range(2, "serialize", 100, 360).range(3, "elsewhere", 700, 800)
    every, by_two = answers(
        trace.write(tmp_path / "t.sqlite"),
        idle_of_step([Idle("gil_wait", "executor")], 0, 0),
        Idle("gil_wait", "executor", ["serialize"]).of_steps(),
    )
    assert sum(every["idle_ns"]) == 400 and by_two["idle_ns"].to_list() == [150]
    holder = every.filter(pl.col("idle_ns") == 250)["holder"].item()
    (by_three,) = answers(
        tmp_path / "t.sqlite", idle_of_step([Idle("gil_wait", "executor", holder=holder)], 0, 0)
    )
    assert by_three["idle_ns"].to_list() == [250]


def test_an_op_that_was_launched_before_the_gap_waited_for_something_else(tmp_path) -> None:
    trace = TraceBuilder().process(100).thread(100, 1)
    trace.range(1, label(1), -200, -100).range(1, label(2), 850, 960)
    trace.api(1, "cudaLaunchKernel", -150, -120, corr=1).kernel(1, 0, 100, name="first")
    trace.api(1, "cudaLaunchKernel", 20, 30, corr=3).kernel(3, 400, 500, name="second")
    trace.api(1, "cudaLaunchKernel", 900, 950, corr=2).kernel(2, 1000, 1100, name="third")
    waited, worked, second, other_grid = answers(
        trace.write(tmp_path / "t.sqlite"),
        idle_of_step([Idle("dependency", "executor")], 0, 0),
        idle_of_step([Idle("host_work", "executor")], 0, 0),
        ops_of_step([("second", "1,1,1")], 0, 0),
        ops_of_step([("second", "2,1,1")], 0, 0),
    )
    assert waited["idle_ns"].to_list() == [300]
    assert worked["idle_ns"].sort().to_list() == [50, 350]  # in the label of the next step, and before it
    assert second.select("start_ns", "duration_ns").rows() == [(400, 100)] and not len(other_grid)


def test_the_moment_of_a_kernel_is_its_launch(tmp_path) -> None:
    """A step is 107 us of the host and three kernels, of 200 us and of 240: the second step is the first that is typical."""
    sides = [run_of_a_side(tmp_path, name, kernel_us=us) for name, us in (("a", 200), ("b", 240))]
    (first,) = [one for one in compare(*sides).findings if one.where.called == ("gemm_0",)]
    assert [(one.side, one.start_ns, one.end_ns, one.cause_ns) for one in first.evidence.moments] == [
        ("candidate", 827_000 + 107_000, 827_000 + 347_000, 240_000),
        ("baseline", 707_000 + 107_000, 707_000 + 307_000, 200_000),
    ]


def test_where_a_side_lacks_the_kernel_its_moment_lasts_until_the_next_one(tmp_path) -> None:
    """A fourth kernel of 200 us in steps of 907 us; beside it the third one of a step of 707 us, and the gap behind it."""
    sides = [run_of_a_side(tmp_path, name, kernels=many) for name, many in (("a", 3), ("b", 4))]
    (added,) = compare(*sides).findings
    assert [(one.side, one.kind, one.start_ns, one.end_ns) for one in added.evidence.moments] == [
        ("candidate", "typical", 907_000 + 107_000 + 600_000, 907_000 + 107_000 + 800_000),
        ("baseline", "beside", 707_000 + 107_000 + 400_000, 2 * 707_000 + 107_000),
    ]


def test_kernels_that_replaced_another_are_pointed_at_and_not_what_both_sides_launch(tmp_path) -> None:
    """Of a step cast, rope, flash_fwd, proj that becomes cast, cast, rope, gemm_bmm, cast of other shape, softmax, proj: a cast takes longest."""
    lasts = {"cast": 90, "rope": 20, "flash_fwd": 40, "gemm_bmm": 50, "cast/": 10, "softmax": 30, "proj": 20}
    sides = []
    for name, kernels in (
        ("a", "cast rope flash_fwd proj"),
        ("b", "cast cast rope gemm_bmm cast/ softmax proj"),
    ):
        trace, now, corr = TraceBuilder().process(100).device(0).thread(100, 1), 0, 0
        for number in range(10):
            begun = now
            for kernel in kernels.split():
                corr, start = corr + 1, now + 10 * US
                now = start + lasts[kernel] * US
                trace.api(1, "cudaLaunchKernel", start - 8 * US, start - 3 * US, corr=corr)
                trace.kernel(corr, start, now, name=kernel.strip("/"), grid=(1 + kernel.count("/"), 1, 1))
            trace.range(1, label(number), begun, now)
        (tmp_path / name).mkdir()
        sides.append(Side(name, [Run(name, [reduced(trace, tmp_path / name, keep=True)])]))
    (found,) = [one for one in compare(*sides).findings if one.facts.match == "replaced"]
    lasting = [(one.side, one.end_ns - one.start_ns) for one in found.evidence.moments]
    assert lasting == [("candidate", 50 * US), ("baseline", 40 * US)]


@pytest.mark.parametrize("kept", [8_000, 0])
def test_kernels_that_a_range_launches_are_shown_in_it(tmp_path, monkeypatch, kept) -> None:
    """gemm and norm at 10 and 40 us of each step in `encode`, and again at 110 and 140 us in `check`: 20 us each, also where events were merged.

    Where the idle time has too many pieces the ops are held all the same.
    """
    monkeypatch.setattr(sample, "MOST_EVENTS", 0)
    monkeypatch.setattr(sample, "MOST_ALIGNED", {"gpu": 4, "idle": kept})

    def side(name: str, ranges: dict[str, int]) -> Side:
        trace = TraceBuilder().process(100).device(0).thread(100, 1)
        for number in range(13):
            now = number * MS
            trace.range(1, label(number), now, now + 900 * US)
            for place, at in ranges.items() if number < 12 else ():
                begin, corr = now + at * US, 1000 * number + at
                trace.range(1, place, begin - 5 * US, begin + 60 * US)
                for nth, kernel in enumerate((f"gemm_{kept}", "norm")):
                    start = begin + 30 * US * nth
                    trace.api(1, "cudaLaunchKernel", start - 2 * US, start - US, corr=corr + nth)
                    trace.kernel(corr + nth, start, start + 20 * US, kernel)
        (tmp_path / name).mkdir()
        return Side(name, [Run(name, [reduced(trace, tmp_path / name, keep=True)])])

    both = side("one", {"encode": 10}), side("two", {"encode": 10, "check": 110})
    found = next(one for one in compare(*both).findings if one.where.range == "check")
    moment = next(one for one in found.evidence.moments if one.side == "candidate")
    assert 110 * US <= moment.start_ns % MS < 170 * US
    assert moment.cause_ns == 80 * US


def test_the_same_gap_shows_the_cause_however_late_it_begins(tmp_path) -> None:
    """100 us of `_schedule` before the launch; then 700 us of a collection and 300 us of `_schedule`, in the gap behind the same kernel."""
    sides = [run_of_a_side(tmp_path, "a"), run_of_a_side(tmp_path, "b", schedule_us=1000, gc_us=700)]
    (work,) = [one for one in compare(*sides).findings if one.cause == "host_work"]
    assert [(one.side, one.kind, one.end_ns - one.start_ns) for one in work.evidence.moments] == [
        ("candidate", "typical", 300_000),
        ("baseline", "typical", 100_000),
    ]


def test_the_longest_moment_is_of_the_phase_of_its_cause(tmp_path) -> None:
    """No step is kept in full. `_schedule` takes 100 or 300 us, after the mixed step, and so in its time, 900 us."""
    sides = []
    for name, us in (("a", 100), ("b", 300)):
        trace, now = TraceBuilder().process(100).device(0).thread(100, 1), 0
        for number in range(10):
            mixed = number == 5
            launched = now + (900 if number == 6 else us) * 1000
            trace.range(1, "_schedule", now, launched)
            trace.api(1, "cudaLaunchKernel", launched, launched + 5000, corr=number + 1)
            trace.kernel(number + 1, launched + 7000, launched + 207_000)
            trace.api(1, "cudaStreamSynchronize", launched + 5000, launched + 207_000)
            trace.range(1, label(number, *((1, 10, 3) if mixed else ())), now, launched + 207_000)
            now = launched + 207_000
        (tmp_path / name).mkdir()
        sides.append(Side(name, [Run(name, [reduced(trace, tmp_path / name)])]))
    work = next(one for one in compare(*sides).findings if one.cause == "host_work")
    assert work.where.phase == "generation"
    assert [(one.kind, one.end_ns - one.start_ns) for one in work.evidence.moments] == [
        ("longest", 300_000),
        ("longest", 100_000),
    ]


def run_of_a_side(folder: Path, name: str, **more: int) -> Side:
    (folder / name).mkdir()
    return Side(name, [Run(name, [reduced(serving(8, **more), folder / name, keep=True)])])


# Real pairs.


def real(result: Result) -> list[Finding]:
    return [one for one in result.findings if one.level != "within_noise"]


TORCH = [FIXTURES / "torch" / f"{name}.json.gz" for name in ("eager_base", "eager_sleep")]


SLOW = [
    pytest.param(one, marks=pytest.mark.slow)
    for one in ("graph, gc", "eager, graph", "gil on one side", "torch")
]


@pytest.mark.slow
@pytest.mark.parametrize("pair", ["two ranks", *SLOW])
def test_the_evidence_is_there_and_adds_up_to_the_cause_in_its_step(pair: str) -> None:
    """Every query runs: of both sides it finds the cause, of a moment's step all of its time."""
    sides = [resolve(str(path)) for path in PAIRS.get(pair, TORCH)]
    result = result_of(pair) if pair in PAIRS else compare(*reduce_sides(sides, Reading(keep=True)))
    alone = [Tables([side]) for side in sides]
    checked = set()
    with alone[0], alone[1], Tables(sides, events=False) as both:
        for finding in result.findings:
            answers = both.run(finding.evidence.query)
            assert answers and all(len(one.frame) for one in answers), finding.evidence.query
            for moment in finding.evidence.moments:
                if not moment.query:
                    assert moment.step_start_ns is None  # none of the steps that are compared
                    continue
                (answer,) = alone[moment.side == "candidate"].run(moment.query)
                column = "idle_ns" if "idle_ns" in answer.frame.columns else "duration_ns"
                assert sum(answer.frame[column]) == pytest.approx(moment.cause_ns, abs=1), moment
                checked.add(finding.cause)
    assert len(checked) >= 2


@pytest.mark.parametrize("pair", PAIRS)
def test_a_moment_lies_in_its_step_and_the_crop_holds_it(pair: str) -> None:
    result = result_of(pair)
    for finding in result.findings:
        crop = finding.evidence.crop
        for moment in finding.evidence.moments:
            if moment.step_start_ns is None:
                continue
            assert moment.step_start_ns <= moment.start_ns < moment.end_ns <= moment.step_end_ns
            side = getattr(crop, moment.side) if crop else None
            if side is None or moment.kind in ("longest", "beside"):
                continue
            low, high = moment.start_ns - side.start_ns, moment.end_ns - side.start_ns
            marks = list(zip(side.starts, side.lengths, strict=True))
            assert any(
                start <= max(low, 0) < min(high, crop.length_ns) <= start + length for start, length in marks
            )
            assert (side.step_start_ns, side.step_end_ns) == (moment.step_start_ns, moment.step_end_ns)


@pytest.mark.parametrize("pair", PAIRS)
def test_crops_are_of_the_first_causes_beyond_noise_and_aligned(pair: str) -> None:
    result = result_of(pair)
    drawn = [one for one in result.findings if one.evidence.crop is not None]
    assert {one.rank for one in drawn} <= {one.rank for one in real(result)} and len(drawn) <= 5
    for finding in drawn:
        crop = finding.evidence.crop
        for side in (crop.baseline, crop.candidate):
            if side is None:
                continue
            for lane in side.lanes:
                start, length = column(lane.start), column(lane.length)
                assert (start >= 0).all() and (start + length <= crop.length_ns).all() and len(start) <= 60
            if crop.anchor < 0:
                assert side.start_ns + crop.anchor_ns == side.step_start_ns
                continue
            edges = [  # of the op that both sides are aligned at, if no merged one hides it
                (column(lane.start) + (column(lane.length) if crop.at_end else 0)).tolist()
                for lane in side.lanes
                if lane.kind == "gpu" and not lane.count
            ]
            if edges:
                assert crop.anchor_ns in [edge for one in edges for edge in one]


def test_the_moment_is_the_piece_at_which_half_of_the_time_lies_in_longer_ones() -> None:
    # 4 of 13 ns, then 7 of 13: the second longest, and of three that are alike the first
    assert middle([Span(0, 3), Span(10, 14), Span(20, 23), Span(30, 33)]) == Span(0, 3)
    assert middle([Span(0, 3), Span(10, 20), Span(30, 33)]) == Span(10, 20)  # 10 of 16
    assert middle([]) is None


@pytest.mark.slow
def test_a_side_whose_gpu_is_never_idle_has_no_moment_of_a_wait(tmp_path) -> None:
    """One kernel of 1000 us after the other, the next launched long before it; on the other side each is launched 300 us late."""
    sides = []
    for name, late in (("busy", 0), ("late", 300 * US)):
        trace = TraceBuilder().process(100).device(0).thread(100, 1)
        for number in range(13):
            begin = number * (MS + late)
            trace.range(1, label(number), begin, begin + MS + late)
            trace.api(1, "cudaLaunchKernel", begin + late, begin + late + 5 * US, corr=number + 1)
            start = begin + late + 10 * US
            trace.kernel(number + 1, start, start + MS, name="gemm")
        sides.append(trace.write(tmp_path / f"{name}.sqlite"))
    for one, other in (sides, sides[::-1]):
        result = compare_files(one, other).result
        (work,) = [found for found in result.findings if found.cause == "host_work"]
        moments = {found.side: found for found in work.evidence.moments}
        lead, rest = ("candidate", "baseline") if other is sides[1] else ("baseline", "candidate")
        assert (moments[lead].cause_ns, moments[rest].cause_ns) == (290 * US, 0)
