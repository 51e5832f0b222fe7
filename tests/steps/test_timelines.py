"""Steps event by event: the events are the accounting's, and the steps are the ones the report says they are."""

from __future__ import annotations

import functools

import numpy as np
import polars as pl
import pytest

from fixtures.builders import TraceBuilder
from tests.comparing import compare
from tests.tiny import CAPTURES, FIXTURES, bundled, one_gap, reduced
from tracediff.accounting.intervals import union
from tracediff.accounting.reduction import Lane
from tracediff.companions.model import decode
from tracediff.execution.run import reduce_file
from tracediff.execution.sides import Reading, Run, Side
from tracediff.formats.inputs import resolve
from tracediff.model import Result, TimelineLane, TimelineStep, encode
from tracediff.steps.sample import MOST_EVENTS, bounded, choose_steps, merge

BUSY = ("compute", "comm", "memcpy")
PAIRS = {
    "graph, gc": (FIXTURES / "demo/graph_a", FIXTURES / "demo/graph_gc"),
    "eager, graph": (CAPTURES["eager_a1"], FIXTURES / "demo/graph_gc"),
    "two ranks": (FIXTURES / "pairs/tp2_1.sqlite.xz", FIXTURES / "pairs/tp2_strag_1.sqlite.xz"),
    "gil on one side": (FIXTURES / "pairs/hog300_1.sqlite.xz", FIXTURES / "pairs/nogil_1.sqlite.xz"),
}


@functools.cache
def result_of(pair: str) -> Result:
    baseline, candidate = (
        Side(files.label, [Run(run.name, [bundled(path, keep=True) for path in run.files]) for run in files.runs])
        for files in (resolve(str(path)) for path in PAIRS[pair])
    )  # fmt: skip
    return compare(baseline, candidate)


def column(text: str) -> np.ndarray:
    return np.array(text.split(), np.int64)


def steps_of(result: Result) -> list[TimelineStep]:
    assert result.timelines is not None
    return [
        side for one in result.timelines.steps for side in (one.baseline, one.candidate) if side is not None
    ]


def inside(lane: TimelineLane) -> np.ndarray:
    return column(lane.inside or lane.length)


@pytest.mark.parametrize("pair", PAIRS)
def test_idle_events_sum_to_the_accounting_of_their_own_step(pair: str) -> None:
    result = result_of(pair)
    assert len(steps_of(result)) >= 4
    for step in steps_of(result):
        assert sum(step.accounting.values()) == step.period_ns
        sums: dict[str, int] = {}
        for lane in step.lanes:
            if lane.kind == "idle":
                for group, ns in zip(column(lane.group).tolist(), inside(lane).tolist(), strict=True):
                    name = result.timelines.names[group]
                    sums[name] = sums.get(name, 0) + ns
        assert sums == {cause: ns for cause, ns in step.accounting.items() if cause not in BUSY}


@pytest.mark.parametrize("pair", PAIRS)
def test_gpu_events_cover_the_busy_time(pair: str) -> None:
    for step in steps_of(result_of(pair)):
        gpu = [lane for lane in step.lanes if lane.kind == "gpu"]
        busy = sum(step.accounting.get(kind, 0) for kind in BUSY)
        if step.merged_below_ns:  # merged extents hold gaps; what they cover is kept beside them
            assert len(gpu) > 1 or sum(inside(lane).sum() for lane in gpu) == busy
        else:
            start = np.concatenate([column(lane.start) for lane in gpu])
            length = np.concatenate([column(lane.length) for lane in gpu])
            assert union(start, start + length).total() == busy


@pytest.mark.parametrize("pair", PAIRS)
def test_events_lie_inside_their_step_and_columns_have_one_length(pair: str) -> None:
    result = result_of(pair)
    for step in steps_of(result):
        for lane in step.lanes:
            start, length = column(lane.start), column(lane.length)
            assert (np.diff(start) >= 0).all()
            assert start.min() >= 0 and (length > 0).all() and (start + length).max() <= step.period_ns
            for other in (
                lane.what,
                lane.group,
                *(one for one in (lane.row, lane.count, lane.inside) if one),
            ):
                assert len(column(other)) == len(start)
            assert max(column(lane.what).max(), column(lane.group).max()) < len(result.timelines.names)
            if lane.row:
                rows = column(lane.row)
                assert rows.max() < len(result.kernels)
        assert sum(len(column(lane.start)) for lane in step.lanes) <= MOST_EVENTS


def test_an_op_belongs_to_the_kernel_row_that_names_it() -> None:
    result = result_of("graph, gc")
    for one in result.timelines.steps:
        for name, step in (("baseline", one.baseline), ("candidate", one.candidate)):
            if not result.strata[one.stratum].compared:
                continue
            for lane in (lane for lane in step.lanes if lane.kind == "gpu"):
                for what, row in zip(column(lane.what).tolist(), column(lane.row).tolist(), strict=True):
                    assert result.timelines.names[what] in getattr(result.kernels[row], name).names


def test_the_typical_step_is_the_median_of_the_median_run_and_the_worst_the_longest() -> None:
    result = result_of("graph, gc")
    checked = 0
    for one in result.timelines.steps:
        phase = result.strata[one.stratum].phase  # one workload a phase in these captures
        for name, step in (("baseline", one.baseline), ("candidate", one.candidate)):
            runs: dict[int, list[int]] = {}
            for sample in result.samples:
                if (sample.side, sample.phase, sample.rank) == (name, phase, one.rank):
                    runs.setdefault(sample.run, []).append(sample.period_ns)
            assert one.exact
            if one.kind == "worst":
                assert step.period_ns == max(max(periods) for periods in runs.values())
            else:
                by_mean = sorted(runs.values(), key=lambda periods: sum(periods) / len(periods))
                median_run = sorted(by_mean[(len(by_mean) - 1) // 2])
                assert step.period_ns == median_run[(len(median_run) - 1) // 2]
            checked += 1
    assert checked >= 6


def test_nothing_is_sampled_where_nobody_asks() -> None:
    sides = [Side("a", [Run("a", [reduce_one(keep=False)])]) for _ in (0, 1)]
    assert sides[0].parts[0].sampled == []
    assert compare(*sides).timelines is None


@functools.cache
def reduce_one(keep: bool):
    return reduce_file(CAPTURES["graph_gc"], Reading(keep=keep))


def test_sampling_steps_changes_no_other_number() -> None:
    kept, plain = reduce_one(keep=True), reduce_one(keep=False)
    assert kept.periods.equals(plain.periods) and kept.idle.equals(plain.idle) and kept.gil.equals(plain.gil)
    assert kept.kernels.equals(plain.kernels) and kept.gaps.equals(plain.gaps)


def test_json_keeps_timelines() -> None:
    result = result_of("graph, gc")
    assert decode(encode(result)).timelines == result.timelines


def test_without_the_gil_on_one_side_no_wait_is_shown() -> None:
    result = result_of("gil on one side")
    for step in steps_of(result):
        assert "gil_wait" not in step.accounting
        assert {lane.kind for lane in step.lanes}.isdisjoint({"gil", "holders"})


def test_a_tiny_step(tmp_path) -> None:
    """The step is [0, 1000): a kernel 0-100, idle until 1000. By hand, from what `one_gap` says."""
    trace: TraceBuilder = one_gap()
    trace.gil(1, "wait", 200, 300).gil(2, "hold", 150, 320).gil(1, "hold", 320, 700)
    trace.gc(1, 400, 500, generation=2).api(1, "cudaMalloc", 600, 640)
    trace.range(1, "work 17", 350, 800)
    sampled = reduced(trace, tmp_path, keep=True).sampled
    assert [step.period for step in sampled] == [0]
    lanes = {lane.kind: lane for lane in sampled[0].lanes}

    def events(kind: str) -> list[tuple[int, int, str, str]]:
        lane = lanes[kind]
        return [
            (int(start), int(end), lane.groups[int(group)], lane.texts[int(what)] if lane.texts else "")
            for start, end, group, what in zip(lane.start, lane.end, lane.group, lane.what, strict=True)
        ]

    assert [event[:3] for event in events("gpu")] == [(0, 100, "compute")]
    # calls are cut at the end of the step, ranges too; the first label ended before it
    assert events("api") == [
        (600, 640, "host_api", "cudaMalloc"),
        (900, 950, "launch_api", "cudaLaunchKernel"),
    ]
    assert events("gil") == [
        (200, 300, "gil_wait", "waits for the GIL"),
        (320, 700, "gil_hold", "holds the GIL"),
    ]
    assert [event[:2] for event in events("holders")] == [(150, 320)]
    assert [event[:3] for event in events("gc")] == [(400, 500, "gc")]
    assert events("range")[0] == (350, 800, "range", "work 17")
    # the device idles from 100: by what thread 1 did, gc before a wait before calls before work
    by_cause = [(start, end, cause) for start, end, cause, _ in events("idle")]
    merged: list[list] = []
    for start, end, cause in by_cause:
        if merged and merged[-1][2] == cause and merged[-1][1] == start:
            merged[-1][1] = end
        else:
            merged.append([start, end, cause])
    assert merged == [
        [100, 200, "host_work"], [200, 300, "gil_wait"], [300, 400, "host_work"], [400, 500, "gc"],
        [500, 600, "host_work"], [600, 640, "host_api"], [640, 900, "host_work"], [900, 950, "launch_api"],
        [950, 1000, "launch_latency"],
    ]  # fmt: skip


def test_a_step_that_is_too_long_is_not_sampled(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("tracediff.steps.sample.LONGEST_STEP", 0)
    assert reduced(one_gap(), tmp_path, keep=True).sampled == []


def test_long_steps_are_sampled_beside_the_typical_and_the_longest() -> None:
    """40 steps of 100 us; every eighth is 50 us longer, the last one 900: that and start-up say nothing of the rare ones."""
    length = [150 if at % 8 == 3 else 100 for at in range(40)]
    length[39], length[0] = 1000, 400
    ends = np.cumsum(length) * 1000
    steps = pl.DataFrame(
        {
            "period": range(40), "rank": 0, "device": 0, "phase": "step", "ctx_reqs": None, "ctx_tokens": None, "gen_reqs": None,
            "start_ns": ends - np.array(length) * 1000, "end_ns": ends, "start_up": [at == 0 for at in range(40)],
            "stratum": [int(at == 0) for at in range(40)],
        },
        schema_overrides=dict.fromkeys(("ctx_reqs", "ctx_tokens", "gen_reqs"), pl.Int64),
    )  # fmt: skip
    chosen = choose_steps(steps, np.ones(40, np.int64))
    assert 39 in chosen  # the longest
    assert {3, 11, 19, 27, 35} & set(chosen) == {
        3,
        11,
        27,
        35,
    }  # the first, second, fourth, fifth of the six long ones
    assert 0 in chosen  # of a stratum of its own
    assert all(length[one] == 100 for one in set(chosen) - {0, 3, 11, 19, 27, 35, 39})


def test_merging_by_hand() -> None:
    # cells of 10: events 1-3 and 4-6 share one and are alike, 7-9 is of another group, 12-30 is long
    start, end = np.array([1, 4, 7, 12, 33]), np.array([3, 6, 9, 30, 35])
    first, owner = merge(start, end, np.array([0, 0, 1, 0, 0]), 10)
    assert first.tolist() == [0, 2, 3, 4]
    assert owner.tolist() == [0, 0, 1, 2, 3]


def test_a_long_step_is_bounded_and_keeps_its_sums() -> None:
    size = 30_000
    start = np.arange(size) * 10
    lane = Lane("idle", "x", "", start, start + 7, np.arange(size) % 3, np.arange(size) % 2, ["a", "b", "c"], ("p", "q"))  # fmt: skip
    (merged,), events, below = bounded([lane], size * 10)
    assert events == size and below > 7
    assert len(merged.start) <= MOST_EVENTS
    for group in (0, 1):
        assert merged.inside[merged.group == group].sum() == 7 * size // 2
    assert merged.count.sum() == size
    assert (np.diff(merged.start) >= 0).all()
