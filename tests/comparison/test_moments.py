"""The moment of a finding: its SQL adds up to what the accounting has of the cause in that step, by hand and on real pairs."""

from __future__ import annotations

import functools
import lzma
import shutil
import sqlite3
from pathlib import Path

import pytest

from fixtures.builders import TraceBuilder
from tests.steps.test_timelines import PAIRS, column, result_of
from tests.tiny import FIXTURES, label, one_gap, reduced
from tracediff.accounting.reduction import Reduction
from tracediff.comparison.evidence import Window, idle_of_step, ops_of_step
from tracediff.comparison.moments import Span, middle
from tracediff.model import Finding, Result
from tracediff.report import timelines

MAIN = 100 << 24 | 1


def window(reduction: Reduction, holders: tuple[int, ...] = ()) -> Window:
    period = reduction.periods.row(0, named=True)
    thread = next(one.tid for one in reduction.threads if one.role == "executor")
    return Window(period["start_ns"], period["end_ns"], period["device"], ("kernel",), (thread,), holders)


def found(folder: Path, sql: str) -> list[tuple[int, int]]:
    """Start and end of the rows, which say their length as well."""
    with sqlite3.connect(folder / "trace.sqlite") as db:
        rows = db.execute(sql).fetchall()
    db.close()
    assert all(end - start == ns for start, end, ns, *_ in rows)
    return [(start, end) for start, end, *_ in rows]


def joined(rows: list[tuple[int, int]]) -> list[tuple[int, int]]:
    out: list[tuple[int, int]] = []
    for start, end in rows:
        out[-1:] = [(out[-1][0], end)] if out and out[-1][1] == start else [*out[-1:], (start, end)]
    return out


def test_the_causes_of_a_tiny_step(tmp_path) -> None:
    """The step and its idle time are those of `test_a_tiny_step` in tests/steps/test_timelines.py, by hand."""
    trace: TraceBuilder = one_gap()
    trace.gil(1, "wait", 200, 300).gil(2, "hold", 150, 320).gil(1, "hold", 320, 700)
    trace.gc(1, 400, 500, generation=2).api(1, "cudaMalloc", 600, 640)
    trace.range(1, "work 17", 350, 800)
    reduction = reduced(trace, tmp_path)
    step = window(reduction)

    def of(cause: str, place: str = "", **more: bool) -> list[tuple[int, int]]:
        return joined(found(tmp_path, idle_of_step(cause, [place] if place else [], [], step, **more)))

    assert of("host_work") == [(100, 200), (300, 400), (500, 600), (640, 900)]
    assert of("host_work", "work N") == [(350, 400), (500, 600), (640, 800)]
    assert of("gil_wait") == [(200, 300)]
    assert of("gc") == [(400, 500)]
    assert of("host_api") == [(600, 640)]
    assert of("launch_api") == [(900, 950)]
    assert of("launch_api", copies=True) == [] and of("launch_api", copies=False) == [(900, 950)]
    assert of("launch_latency") == [(950, 1000)]
    assert of("dependency") == [] and of("graph_internal") == [] and of("host_sync") == []
    # without the GIL's trace the wait is work of the host
    assert of("host_work", with_gil=False) == [(100, 400), (500, 600), (640, 900)]


def test_a_wait_is_that_of_its_holder_and_of_the_holders_range(tmp_path) -> None:
    """Thread 1 waits 200-600: thread 2 holds the GIL 150-350 in `serialize`, thread 3 holds it 350-600 outside ranges."""
    trace = one_gap().thread(100, 2).thread(100, 3)
    trace.gil(1, "wait", 200, 600).gil(2, "hold", 150, 350).gil(3, "hold", 350, 600)
    trace.range(2, "serialize", 100, 360).range(3, "elsewhere", 700, 800)
    reduction = reduced(trace, tmp_path)
    two, three = sorted(one.tid for one in reduction.threads)[1:]
    by_two = idle_of_step("gil_wait", [], ["serialize"], window(reduction, (two,)))
    assert joined(found(tmp_path, by_two)) == [(200, 350)]
    by_three = idle_of_step("gil_wait", [], [], window(reduction, (three,)))
    assert joined(found(tmp_path, by_three)) == [(350, 600)]


def test_an_op_that_was_launched_before_the_gap_waited_for_something_else(tmp_path) -> None:
    trace = TraceBuilder().process(100).thread(100, 1)
    trace.range(1, label(1), -200, -100).range(1, label(2), 850, 960)
    trace.api(1, "cudaLaunchKernel", -150, -120, corr=1).kernel(1, 0, 100, name="first")
    trace.api(1, "cudaLaunchKernel", 20, 30, corr=3).kernel(3, 400, 500, name="second")
    trace.api(1, "cudaLaunchKernel", 900, 950, corr=2).kernel(2, 1000, 1100, name="third")
    step = window(reduced(trace, tmp_path))
    assert joined(found(tmp_path, idle_of_step("dependency", [], [], step))) == [(100, 400)]
    assert joined(found(tmp_path, idle_of_step("host_work", [], [], step))) == [(500, 900)]
    assert found(tmp_path, ops_of_step([("second", "1,1,1")], step)) == [(400, 500)]
    assert found(tmp_path, ops_of_step([("second", "2,1,1")], step)) == []


# Real pairs.


@functools.cache
def export(run: str) -> sqlite3.Connection:
    """The export of a run of the pairs, read only."""
    packed = next(FIXTURES.rglob(run))
    target = Path(_FOLDER) / run.removesuffix(".xz")
    with lzma.open(packed) as source, target.open("wb") as out:
        shutil.copyfileobj(source, out)
    return sqlite3.connect(f"file:{target}?mode=ro", uri=True)


_FOLDER = ""


@pytest.fixture(autouse=True, scope="module")
def _folder(tmp_path_factory):
    global _FOLDER
    _FOLDER = str(tmp_path_factory.mktemp("exports"))
    yield
    export.cache_clear()


def real(result: Result) -> list[Finding]:
    return [one for one in result.findings if one.level != "within_noise"]


@pytest.mark.parametrize("pair", ["graph, gc", "two ranks", "gil on one side"])
def test_the_rows_of_a_query_add_up_to_the_cause_in_its_step(pair: str) -> None:
    checked = set()
    for finding in result_of(pair).findings:
        for moment in finding.evidence.moments:
            if not moment.sql or moment.kind == "longest":
                continue
            rows = export(moment.run).execute(moment.sql).fetchall()
            # copies to pageable memory block, which their call does not say
            assert sum(row[2] for row in rows) == pytest.approx(moment.cause_ns, rel=0.15, abs=200), finding
            assert all(moment.step_start_ns <= row[0] < moment.step_end_ns for row in rows)
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
        picture = timelines.crop(result, finding)
        assert picture is not None and 0 <= picture.anchor <= 100


def test_the_moment_is_the_piece_at_which_half_of_the_time_lies_in_longer_ones() -> None:
    # 4 of 13 ns, then 7 of 13: the second longest, and of three that are alike the first
    assert middle([Span(0, 3), Span(10, 14), Span(20, 23), Span(30, 33)]) == Span(0, 3)
    assert middle([Span(0, 3), Span(10, 20), Span(30, 33)]) == Span(10, 20)  # 10 of 16
    assert middle([]) is None
