"""The report of one capture: worked out by hand on tiny traces, and on real ones what a comparison says of the same side."""

from __future__ import annotations

import functools
import math

import msgspec
import pytest

from fixtures.builders import TraceBuilder
from tests.accounting.test_host_only import hosts
from tests.accounting.test_host_only import side as host_side
from tests.comparing import compare, show
from tests.serving import US, run_of, runs_of, serving
from tests.steps.test_timelines import column, inside
from tests.tiny import CAPTURES, FIXTURES, bundled, one_gap, reduced
from tracediff.execution.sides import Run, Side
from tracediff.formats.inputs import resolve
from tracediff.model import Result, encode
from tracediff.model.show import Show

BUSY = ("compute", "comm", "memcpy")
REAL = {
    "graph": FIXTURES / "demo/graph_a",
    "fused": FIXTURES / "demo/graph_fused",
    "gc": FIXTURES / "demo/graph_gc",
    "eager": CAPTURES["eager_a1"],
    "hog": FIXTURES / "pairs/hog300_1.sqlite.xz",
    "straggler": FIXTURES / "pairs/tp2_strag_1.sqlite.xz",
    "two ranks": FIXTURES / "pairs/tp2_1.sqlite.xz",
}
PAIRS = [("graph", "fused"), ("fused", "gc"), ("gc", "graph"), ("straggler", "straggler")]

# weighted means in floating point
near = functools.partial(pytest.approx, rel=1e-12, abs=1e-6)


@functools.cache
def real(name: str) -> Side:
    files = resolve(str(REAL[name]))
    return Side(
        files.label, [Run(run.name, [bundled(path, keep=True) for path in run.files]) for run in files.runs]
    )


@functools.cache
def shown(name: str) -> Show:
    return show(real(name))


def spent(report: Show) -> dict[str, float]:
    return {row.category: row.ns for row in report.accounting if row.ns}


def test_a_step_worked_out_by_hand(tmp_path) -> None:
    """A step of `serving` is 100 us in `_schedule`, 5 us of launching, 2 us until the first of three kernels of 200 us.

    The host synchronises until the last kernel ends, and the next step begins there: nothing else is idle.
    """
    report = show(runs_of(tmp_path, "a", [100.0], jitter_us=0))
    assert (report.step.mean_ns, report.step.idle_ns) == near((707 * US, 107 * US))
    assert spent(report) == near(
        {"compute": 600 * US, "host_work": 100 * US, "launch_api": 5 * US, "launch_latency": 2 * US}
    )
    assert [row.share for row in report.accounting if row.category == "compute"] == near([600 / 707])
    causes = [
        (one.cause, round(one.ns, 6), one.range, one.thread, one.api, one.count_per_step)
        for one in report.idle
    ]
    assert causes == [
        ("host_work", 100 * US, "_schedule", "executor", "", 1.0),
        ("launch_api", 5 * US, "[Executor] _forward_step", "executor", "cudaGraphLaunch", 1.0),
        ("launch_latency", 2 * US, "[Executor] _forward_step", "executor", "", 1.0),
    ]
    longest = report.idle[0].longest
    assert longest is not None and longest.end_ns - longest.start_ns == 100 * US
    kernels = [(row.baseline.names, round(row.baseline.count_per_step, 9), round(row.baseline.ns_per_step, 6), round(row.baseline.mean_ns, 3), row.accounting)
               for row in report.kernels]  # fmt: skip
    assert kernels == [([f"gemm_{node}"], 1.0, 200.0 * US, 200.0 * US, "compute") for node in range(3)]
    totals = report.launch.baseline
    assert (totals.kernels_per_step, totals.calls_per_step, totals.graph_launches_per_step) == near((3, 1, 1))
    assert [(row.api, round(row.baseline_calls, 9)) for row in report.launch.apis] == [
        ("cudaStreamSynchronize", 1.0),
        ("cudaGraphLaunch", 1.0),
    ]
    assert {row.range: row.baseline.ns_per_step for row in report.ranges}["_schedule"] == near(100 * US)
    assert [(row.rank, round(row.baseline_ns, 6)) for row in report.ranks] == [(0, 707 * US)]
    assert report.step.sd_ns is None and report.step.runs_ns == near([707 * US])
    assert (
        report.gil.rows == report.gil.matrix == report.gc.rows == []
        and report.coverage.baseline["gil"] == "not_captured"
    )
    assert not {"gil_wait", "gc"} & {row.category for row in report.accounting}


def test_several_runs_have_a_mean_and_a_spread(tmp_path) -> None:
    """Steps of 707 and 727 us: the mean is 717, the standard deviation 20 / sqrt(2); the kernels do not differ."""
    report = show(runs_of(tmp_path, "a", [100.0, 120.0], jitter_us=0))
    assert report.step.mean_ns == near(717 * US) and report.step.runs_ns == near([707 * US, 727 * US])
    assert report.step.sd_ns == pytest.approx(20 * US / math.sqrt(2))
    rows = {row.category: row for row in report.accounting}
    assert rows["host_work"].ns == near(110 * US) and rows["host_work"].runs_ns == near([100 * US, 120 * US])
    assert rows["host_work"].sd_ns == pytest.approx(20 * US / math.sqrt(2))
    assert rows["compute"].sd_ns == near(0.0)
    assert report.idle[0].runs_ns == near([100 * US, 120 * US])


def test_a_run_counts_once_whatever_its_steps(tmp_path) -> None:
    """12 steps of 707 us and 4 of 747: the mean of the runs is 727, of the steps it would be 717."""
    runs = [
        run_of(tmp_path, "a", n, us, jitter_us=0, steps=steps) for n, us, steps in ((0, 100, 12), (1, 140, 4))
    ]
    assert show(Side("a", runs)).step.mean_ns == near(727 * US)


def test_collections_and_waits_for_the_gil(tmp_path) -> None:
    """10 us of `_schedule` are a collection; the wait for the GIL is [10, 30) us of it, so 20 us are that."""
    report = show(runs_of(tmp_path, "a", [100.0], jitter_us=0, gil=True, gc_us=10.0))
    assert spent(report) == near(
        {
            "compute": 600 * US, "host_work": 70 * US, "launch_api": 5 * US, "launch_latency": 2 * US, "gc": 10 * US,
            "gil_wait": 20 * US,
        }
    )  # fmt: skip
    assert [
        (
            row.generation,
            *(round(one, 6) for one in (row.baseline_count, row.baseline_ns, row.baseline_exposed_ns)),
        )
        for row in report.gc.rows
    ] == [("2", 1.0, 10 * US, 10 * US)]
    assert [
        (row.thread, round(row.baseline_wait_ns, 6), round(row.baseline_exposed_ns, 6))
        for row in report.gil.rows
    ] == [("executor", 20 * US, 20 * US)]
    assert {row.category: row.hidden_ns for row in report.accounting if row.hidden_ns is not None} == {
        "gc": 0.0,
        "gil_wait": 0.0,
    }


@pytest.mark.parametrize("name", REAL)
def test_everything_adds_up_to_the_step(name: str) -> None:
    report = shown(name)
    step = report.step.mean_ns
    assert report.residual_ns == 0
    assert math.fsum(row.ns for row in report.accounting) == pytest.approx(step, abs=1e-6)
    assert math.fsum(row.share for row in report.accounting) == pytest.approx(1, abs=1e-12)
    idle = math.fsum(one.ns for one in report.idle) + report.idle_left_out_ns
    assert idle == pytest.approx(report.step.idle_ns, abs=1e-6)
    busy = math.fsum(row.baseline.ns_per_step for row in report.kernels)
    assert busy == pytest.approx(step - report.step.idle_ns, abs=1e-6)
    for row in report.accounting:
        if row.category in BUSY:
            own = math.fsum(
                one.baseline.ns_per_step for one in report.kernels if one.accounting == row.category
            )
            assert own == pytest.approx(row.ns, abs=1e-6), row.category
    for row in report.accounting:
        assert math.fsum(row.runs_ns) / len(row.runs_ns) == pytest.approx(row.ns, abs=1e-6)
    assert math.fsum(row.weight for row in report.strata) == pytest.approx(1)
    assert math.fsum(row.baseline_share for row in report.strata) == pytest.approx(1)
    counted = math.fsum(row.baseline_share for row in report.strata if row.compared)
    assert counted == pytest.approx(report.step.time_in_mean)
    assert sum(row.baseline_steps for row in report.strata if row.compared) == report.step.steps


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_the_numbers_are_those_of_a_comparison(one: str, other: str) -> None:
    report, result = shown(one), compare(real(one), real(other))
    assert report.step.mean_ns == near(result.step.baseline_ns)
    rows = {row.category: row for row in report.accounting}
    for category, ns in result.accounting.baseline.items():
        assert rows[category].ns == near(ns), category
    for category, ns in result.accounting.hidden_baseline.items():
        assert rows[category].hidden_ns == near(ns), category
    assert by_kernel(report) == {key: near(value) for key, value in by_kernel(result).items()}
    assert {(row.range, row.domain, row.thread): row.baseline.ns_per_step for row in report.ranges} == {
        (row.range, row.domain, row.thread): near(row.baseline.ns_per_step) for row in result.ranges if row.baseline
    }  # fmt: skip
    assert {row.api: (row.baseline_calls, row.baseline_ns) for row in report.launch.apis} == {
        row.api: near((row.baseline_calls, row.baseline_ns)) for row in result.launch.apis if row.baseline_calls
    }  # fmt: skip
    assert report.launch.baseline.queue_delay_p99_ns == near(result.launch.baseline.queue_delay_p99_ns)
    assert {
        (row.thread, row.phase): (row.baseline_hold_ns, row.baseline_wait_ns, row.baseline_exposed_ns)
        for row in report.gil.rows
    } == {
        (row.thread, row.phase): near((row.baseline_hold_ns, row.baseline_wait_ns, row.baseline_exposed_ns))
        for row in result.gil.rows
        if row.baseline_hold_ns or row.baseline_wait_ns
    }
    assert {row.rank: row.baseline_ns for row in report.ranks} == {
        row.rank: near(row.baseline_ns) for row in result.ranks
    }
    assert {row.rank: row.baseline_caused_wait_ns for row in report.ranks} == {
        row.rank: row.baseline_caused_wait_ns for row in result.ranks
    }
    assert {row.phase: (row.baseline.steps, row.baseline.p99_ns) for row in report.phases} == {
        row.phase: (row.baseline.steps, row.baseline.p99_ns) for row in result.phases if row.baseline
    }
    assert report.input == result.inputs.baseline


def by_kernel(report: Show | Result) -> dict[str, float]:
    """Name -> ns a step, of the baseline. Rows of several kernels are matched to others, so names are what both have."""
    out: dict[str, float] = {}
    if isinstance(report, Show):
        sides = [row.baseline for row in report.kernels]
    else:
        sides = [row.baseline for row in report.kernels if row.baseline]
        merged = {name for side in sides if len(side.names) > 1 for name in side.names}
        assert not merged, "a pair whose baseline is not fused into fewer kernels is easier to check"
    for side in sides:
        out[side.names[0]] = out.get(side.names[0], 0.0) + side.ns_per_step
    return out


@pytest.mark.parametrize("name", ["graph", "straggler"])
def test_steps_event_by_event(name: str) -> None:
    report = shown(name)
    assert report.timelines is not None and len(report.timelines.steps) >= 4
    for one in report.timelines.steps:
        assert sum(one.baseline.accounting.values()) == one.baseline.period_ns
        idle = [lane for lane in one.baseline.lanes if lane.kind == "idle"]
        waits = sum(ns for key, ns in one.baseline.accounting.items() if key not in BUSY)
        assert sum(int(inside(lane).sum()) for lane in idle) == waits
        rows = {row for lane in one.baseline.lanes if lane.kind == "gpu" for row in column(lane.row).tolist()}
        assert max(rows) < len(report.kernels)
    first = report.timelines.steps[0]
    of_rank = [
        step.period_ns for step in report.samples
        if step.rank == first.rank and step.phase == report.strata[first.stratum].phase
    ]  # fmt: skip
    worst = max(one.baseline.period_ns for one in report.timelines.steps if one.kind == "worst" and one.rank == first.rank
                and one.stratum == first.stratum)  # fmt: skip
    assert worst == max(of_rank) and min(of_rank) < first.baseline.period_ns < max(of_rank)


def test_the_straggler_is_the_rank_that_the_others_wait_for() -> None:
    ranks = {row.rank: row for row in shown("straggler").ranks}
    assert (
        ranks[1].baseline_caused_wait_ns
        == ranks[0].baseline_comm_wait_ns
        > 5 * (ranks[1].baseline_comm_wait_ns or 0)
    )
    assert shown("straggler").timelines.steps[0].rank == 1


def test_a_cause_of_one_rank_says_so() -> None:
    """Rank 1 sleeps in `_schedule`; the mean over both ranks is half of what it takes there, or a little more."""
    found = next(one for one in shown("straggler").idle if one.range == "_schedule")
    assert (found.cause, found.on_rank) == ("host_work", 1)
    part = real("straggler").runs[0].parts[0]
    own = part.idle.filter(cause="host_work", place="_schedule").join(
        part.periods.filter(rank=1), on="period"
    )
    assert found.on_rank_ns == pytest.approx(own["ns"].sum() / len(part.periods.filter(rank=1)), rel=1e-3)
    assert 0.75 < found.on_rank_ns / (2 * found.ns) <= 1
    assert all(one.on_rank is None for one in shown("graph").idle)


def test_every_phase_is_in_the_mean() -> None:
    """Three runs with 30 steps each, of which one is mixed: the mean of the runs is that of all steps."""
    report = shown("graph")
    assert (report.step.steps, report.step.all_steps, report.step.time_in_mean) == (90, 90, near(1))
    assert [row.baseline_steps for row in report.strata if row.phase == "mixed"] == [3]
    assert all(row.compared for row in report.strata)
    periods = [step.period_ns for step in report.samples]
    assert report.step.mean_ns == near(sum(periods) / len(periods))


def test_a_single_step_is_counted(tmp_path) -> None:
    report = show(Side("one", [Run("one", [reduced(one_gap(), tmp_path)])]))
    assert (report.step.steps, report.step.mean_ns) == (1, 1000)
    assert report.warnings == []


def test_runs_of_other_batch_sizes_count_alike(tmp_path) -> None:
    """Steps of 707 us with 4 requests, of 727 with 64: the mean of the runs."""
    runs = [
        run_of(tmp_path, "a", 0, 100, gen=4, jitter_us=0),
        run_of(tmp_path, "a", 1, 120, gen=64, steps=3, jitter_us=0),
    ]
    assert show(Side("a", runs)).step.mean_ns == near(717 * US)


def test_the_host_alone(tmp_path) -> None:
    """Periods of 1000 ns on the host, 100 of them a wait for the GIL and 50 a collection: see `hosts`."""
    report = show(host_side("a", hosts(), tmp_path))
    assert report.step.mean_ns == 1000
    assert spent(report) == {"gc": 50, "gil_wait": 100, "host_work": 850}
    assert not {"compute", "launch_latency"} & {row.category for row in report.accounting}
    assert "host-only" in {note.slug for note in report.warnings}


def test_it_is_read_back_as_it_was(tmp_path) -> None:
    report = shown("straggler")
    assert msgspec.json.decode(encode(report), type=Show) == report
    again = show(Side("tp2_strag_1", real("straggler").runs))
    assert encode(again) == encode(report)


def test_the_order_of_runs_changes_no_mean(tmp_path) -> None:
    side = real("graph")
    turned = show(Side(side.label, side.runs[::-1]))
    report = shown("graph")
    assert turned.step.mean_ns == near(report.step.mean_ns) and turned.step.runs_ns == near(
        report.step.runs_ns[::-1]
    )
    assert [row.ns for row in turned.accounting] == near([row.ns for row in report.accounting])


def test_jitter_between_steps_is_no_spread_between_runs(tmp_path) -> None:
    """One run has no spread, whatever its steps do."""
    trace = serving(jitter_us=30.0, seed=1)
    report = show(Side("a", [Run("a", [reduced(trace, tmp_path)])]))
    assert report.step.sd_ns is None and all(row.sd_ns is None for row in report.accounting)
    assert report.phases[0].baseline.p99_ns > report.phases[0].baseline.p50_ns


@pytest.mark.parametrize(
    ("every", "of", "context", "said"),
    [
        (5, 41, 0, "; every 5th step takes 400 us more"),  # 8 of 40, after the first: 80 of 180 us on average
        (5, 41, 8, "; every 5th generation step takes 400 us more"),  # 320 of 800 us in eight more steps
        (50, 41, 0, ""),
    ],
)
def test_a_side_alone_says_that_each_so_many_th_step_stops(
    every: int, of: int, context: int, said: str, tmp_path
):
    """Steps of 100 us, of which each so many-th takes 500; some of another phase come after them."""
    trace = TraceBuilder().process(100).device(0).thread(100, 1)
    now = 0
    for number in range(of + context + 1):
        work = (
            "0 ctx reqs, 0 ctx tokens, 4 gen reqs" if number <= of else "1 ctx reqs, 8 ctx tokens, 0 gen reqs"
        )
        trace.range(1, f"[Executor] _forward_step {number}: {work}", now, now + 50_000)
        trace.api(1, "cudaLaunchKernel", now + 1_000, now + 2_000, corr=number + 1)
        trace.kernel(number + 1, now + 3_000, now + 13_000, name="gemm")
        now += 500_000 if number and number <= of and number % every == 0 else 100_000
    found = show(Side("a", [Run("a", [reduced(trace, tmp_path)])]))
    assert (found.stops is None) == (not said)
    assert found.sentence.partition(". ")[0].endswith(said) if said else "stops" not in found.sentence
