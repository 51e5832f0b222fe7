"""GPU metrics that nsys samples, on hand-built tables whose numbers a reader works out."""

from __future__ import annotations

import sqlite3
from io import StringIO

import polars as pl
import pytest
from rich.console import Console

from fixtures.builders import TraceBuilder
from tests.comparing import compare, show
from tests.serving import US, serving
from tests.swapping import close, plain, swapped
from tests.tiny import one_gap, reduced
from tracediff.comparison.compare import Options
from tracediff.execution.cache import pack, unpack
from tracediff.execution.run import reduce_file
from tracediff.execution.sides import Reading, Run, Side
from tracediff.model import Result
from tracediff.report.html import render_html
from tracediff.report.show import render_show_html, render_show_markdown, render_show_terminal
from tracediff.report.terminal import render_terminal

SMS = "SMs Active [Throughput %]"


def sampled(trace: TraceBuilder, name: str = SMS, **rest) -> TraceBuilder:
    """one_gap() sampled each 10 ns from 0 on: 80 at 10..90, 41 at 0 and 100, 2 at 110..990, 80 from 1000 on."""
    at = range(0, 1101, 10)
    values = {t: 41 if t in (0, 100) else 80 if t < 100 or t >= 1000 else 2 for t in at}
    return trace.gpu_metric(name, values, **rest)


def states(reduction, metric: str = SMS) -> dict:
    """state -> (samples, sum, refused)."""
    rows = reduction.gpu_metrics.filter(pl.col("metric") == metric)
    return {row["state"]: (row["samples"], row["sum"], row["refused"]) for row in rows.iter_rows(named=True)}


def sampling(reduction) -> list[tuple]:
    return reduction.gpu_sampling.select("rank", "device", "gpu", "interval_ns", "unread").rows()


# one_gap(): one period [0, 1000); the kernel runs from 0 to 100, then the device is idle until 1000


def test_samples_by_what_the_gpu_did_around_them(tmp_path):
    reduction = reduced(sampled(one_gap()), tmp_path)
    # 0 has no sample before it; 100 has 10 ns of kernel before and 10 ns of nothing after it; 1000 is the next step's
    assert states(reduction) == {"busy": (9, 9 * 80, 0), "idle": (89, 89 * 2, 0), "mixed": (2, 82, 0)}
    assert sampling(reduction) == [(0, 0, 0, 10, 0)]
    assert reduction.coverage["gpu_metrics"] == "captured"


def test_nothing_else_changes_with_them_and_they_survive_storage(tmp_path):
    bare, full = reduced(one_gap(), tmp_path), reduced(sampled(one_gap()), tmp_path)
    assert bare.coverage["gpu_metrics"] == "not_captured"
    assert bare.gpu_metrics.is_empty() and bare.gpu_sampling.is_empty()
    assert bare.periods.equals(full.periods) and bare.cells.equals(full.cells)
    again = unpack(pack(full))
    assert again.gpu_metrics.equals(full.gpu_metrics) and again.gpu_sampling.equals(full.gpu_sampling)


def test_a_copy_is_neither_a_kernel_nor_idle(tmp_path):
    trace = one_gap().api(1, "cudaMemcpyAsync", -110, -105, corr=9).memcpy(9, 300, 500, "HtoD", 64)
    # 310..490 lie within the copy, 300 and 500 at its ends: 21 samples of the 89 are idle no more
    assert {state: one[0] for state, one in states(reduced(sampled(trace), tmp_path)).items()} == {
        "busy": 9,
        "idle": 68,
        "mixed": 23,
    }


def test_a_kernel_of_a_tenth_of_the_time_makes_no_sample_busy_or_idle(tmp_path):
    # 600..602: 2 of the 20 ns around 600 (10 %), and of those around 610 and 590 (2 and 0 ns)
    trace = one_gap().api(1, "cudaLaunchKernel", -110, -105, corr=9).kernel(9, 600, 602, name="short")
    found = states(reduced(sampled(trace), tmp_path))
    assert (found["busy"][0], found["idle"][0], found["mixed"][0]) == (9, 87, 4)


def test_around_a_hole_nothing_is_known(tmp_path):
    values = {t: 2 for t in range(0, 1101, 10) if not 500 < t < 600}
    found = states(reduced(one_gap().gpu_metric(SMS, values), tmp_path))
    # of the 89 idle ones 510..590 are not there, and 500 and 600 have the hole beside them
    assert (found["busy"][0], found["idle"][0], found["mixed"][0]) == (9, 89 - 9 - 2, 4)


def test_values_that_cannot_be_are_in_no_mean(tmp_path):
    values = dict.fromkeys(range(0, 1101, 10), 2.0) | {200: -5, 210: 101, 220: None}
    found = states(reduced(one_gap().gpu_metric(SMS, values), tmp_path))
    assert found["idle"] == (86, 172, 3)


def test_a_table_of_other_types_costs_the_metrics_and_nothing_else(tmp_path):
    trace = sampled(one_gap()).gpu_metric(SMS, {2000: float("inf")})
    reduction = reduced(trace, tmp_path)
    assert "gpu-metrics-unreadable" in {note.slug for note in reduction.warnings}
    assert reduction.coverage["gpu_metrics"] == "not_captured" and reduction.gpu_metrics.is_empty()
    assert reduction.periods.equals(reduced(one_gap(), tmp_path).periods)


def test_clocks_are_stored_in_hz_whatever_their_name_says(tmp_path):
    clock = "GPC Clock Frequency [MHz]"
    values = dict.fromkeys(range(0, 1101, 10), 1_980_000_000)
    found = states(reduced(one_gap().gpu_metric(clock, values), tmp_path), clock)
    assert found["busy"][:2] == (9, 9 * 1980)


def test_metrics_of_unknown_scale_are_counted_and_not_read(tmp_path):
    trace = sampled(sampled(one_gap()), "Compute Warps in Flight [Avg]", number=2)
    reduction = reduced(trace, tmp_path)
    assert reduction.gpu_metrics["metric"].unique().to_list() == [SMS]
    assert sampling(reduction) == [(0, 0, 0, 10, 1)]


def test_the_older_names_without_a_unit(tmp_path):
    assert states(reduced(sampled(one_gap(), "SM Active"), tmp_path), "SM Active")["busy"] == (9, 720, 0)


# Which GPU a device is


def with_devices(path, rows):
    with sqlite3.connect(path) as db:
        db.execute("DROP TABLE IF EXISTS TARGET_INFO_CUDA_DEVICE")
        db.execute("CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INT, cudaId INT, pid INT)")
        db.executemany("INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (?, ?, ?)", rows)
    return reduce_file(path, Reading(threads=1))


def two_gpus(tmp_path):
    """GPU 0 at 7 %, GPU 1 as `sampled`; the process calls the one that it uses device 0."""
    trace = sampled(one_gap().device(0).device(1), gpu=1)
    return trace.gpu_metric(SMS, dict.fromkeys(range(0, 1101, 10), 7)).write(tmp_path / "two.sqlite")


def test_the_table_of_devices_says_which_gpu_a_process_sees(tmp_path):
    reduction = with_devices(two_gpus(tmp_path), [(1, 0, 100), (0, 0, 101)])
    assert sampling(reduction) == [(0, 0, 1, 10, 0)]
    assert states(reduction)["busy"] == (9, 720, 0)


@pytest.mark.parametrize(
    "rows", [[], [(1, 0, 101)], [(0, 0, 100), (1, 0, 100)], [(None, 0, 100)], [(5, 0, 100)]]
)
def test_a_gpu_is_never_guessed(tmp_path, rows):
    reduction = with_devices(two_gpus(tmp_path), rows)
    assert sampling(reduction) == [(0, 0, None, 0, 0)]
    assert reduction.gpu_metrics.is_empty()


def test_numbers_of_metrics_are_those_of_their_gpu(tmp_path):
    trace = one_gap().gpu_metric(SMS, dict.fromkeys(range(0, 1101, 10), 10), number=1)
    trace.gpu_metric("Tensor Active [Throughput %]", dict.fromkeys(range(0, 1101, 10), 20), number=1, gpu=1)
    reduction = with_devices(trace.write(tmp_path / "t.sqlite"), [(1, 0, 100)])
    assert reduction.gpu_metrics["metric"].unique().to_list() == ["Tensor Active [Throughput %]"]


def test_without_names_nothing_is_read(tmp_path):
    path = sampled(one_gap()).write(tmp_path / "t.sqlite")
    with sqlite3.connect(path) as db:
        db.execute("DROP TABLE TARGET_INFO_GPU_METRICS")
    reduction = reduce_file(path, Reading(threads=1))
    assert reduction.gpu_metrics.is_empty()


# Comparisons. serving(): of each 707 us, kernels run for 600 and nothing for 107


def sampled_serving(busy: float, idle: float = 1, *, every_us: int = 10, steps: int = 12) -> TraceBuilder:
    """`busy` where a kernel runs at the instant of the sample, else `idle`."""
    values = {at * US: busy if at % 707 >= 107 else idle for at in range(107, 707 * (steps + 1), every_us)}
    return serving(steps=steps).gpu_metric(SMS, values)


@pytest.fixture
def compared_traces(tmp_path):
    def compared(baseline, candidate) -> Result:
        sides = []
        for name, traces in (("baseline", baseline), ("candidate", candidate)):
            runs = []
            for number, trace in enumerate(traces if isinstance(traces, list) else [traces]):
                folder = tmp_path / f"{name}{number}"
                folder.mkdir(exist_ok=True)
                runs.append(Run(f"{name}{number}", [reduced(trace, folder)]))
            sides.append(Side(name, runs))
        return compare(*sides)

    return compared


def only_row(result: Result):
    (row,) = result.system.gpu_metrics
    return row


def means(mean) -> tuple:
    return mean.baseline, mean.candidate, mean.delta


def test_means_of_both_sides(compared_traces):
    row = only_row(result := compared_traces(sampled_serving(60), sampled_serving(75, 3)))
    assert (row.metric, row.unit, row.rank, row.device) == (SMS, "%", 0, 0)
    assert means(row.busy) == pytest.approx((60, 75, 15))
    assert means(row.idle) == pytest.approx((1, 3, 2))
    assert row.busy.ci_low is None and row.steps.ci_high is None  # one run a side says nothing of runs
    # 12 steps of 707 us from 107 us on, a sample each 10 us: 849 instants below 8591
    assert row.baseline.samples_per_step == pytest.approx(849 / 12)
    assert row.baseline.busy_samples + row.baseline.idle_samples + row.baseline.mixed_samples == 849
    inside = [at % 707 >= 107 for at in range(107, 107 + 707 * 12, 10)]
    assert len(inside) == 849
    assert row.steps.baseline == pytest.approx((60 * sum(inside) + (849 - sum(inside))) / 849)
    (how,) = result.system.gpu_sampling
    assert (how.baseline.told, how.baseline.gpu, how.baseline.interval_ns) == (True, 0, 10 * US)
    assert result.verdict == "no_change" or not result.findings  # a metric makes no finding


@pytest.mark.slow
def test_too_few_samples_are_said_and_not_averaged(compared_traces):
    # one each 400 us: windows of 800 us are longer than a step, so none is wholly busy or idle; 22 in 12 steps
    row = only_row(compared_traces(sampled_serving(60, every_us=400), sampled_serving(75, every_us=400)))
    assert (row.baseline.busy_samples, row.baseline.idle_samples) == (0, 0)
    assert row.baseline.mixed_samples == 22  # 107, 507, ..., 8507 us: below 107 + 12 * 707 = 8591
    assert row.busy.baseline is None and row.busy.delta is None and row.steps.baseline is not None
    few = only_row(compared_traces(sampled_serving(60, every_us=500), sampled_serving(75, every_us=500)))
    assert few.baseline.mixed_samples == 17 and few.steps.baseline is None and few.steps.delta is None


@pytest.mark.slow
def test_runs_give_an_interval_and_one_run_does_not(compared_traces):
    row = only_row(
        compared_traces(
            [sampled_serving(v) for v in (59, 60, 61)], [sampled_serving(v) for v in (69, 70, 71)]
        )
    )
    assert means(row.busy) == pytest.approx((60, 70, 10))
    # Welch: standard error sqrt(1/3 + 1/3), 4 degrees of freedom, t = 2.776
    assert row.busy.ci_low == pytest.approx(10 - 2.776 * (2 / 3) ** 0.5, abs=1e-3)
    assert row.busy.ci_high == pytest.approx(10 + 2.776 * (2 / 3) ** 0.5, abs=1e-3)
    lone = only_row(compared_traces([sampled_serving(v) for v in (59, 61)], sampled_serving(70)))
    assert lone.busy.delta == pytest.approx(10) and lone.busy.ci_low is None


@pytest.mark.slow
def test_ranks_exported_apart_have_rows_of_their_own(tmp_path):
    sides = []
    for name, values in (("baseline", (60, 40)), ("candidate", (66, 44))):
        parts = []
        for rank, value in enumerate(values):
            folder = tmp_path / f"{name}{rank}"
            folder.mkdir()
            parts.append(reduced(sampled_serving(value), folder))
        sides.append(Side(name, [Run(name, parts)]))
    rows = compare(*sides).system.gpu_metrics
    assert [(row.rank, row.device) for row in rows] == [(0, 0), (1, 0)]
    assert means(rows[0].busy) == pytest.approx((60, 66, 6)) and means(rows[1].busy) == pytest.approx(
        (40, 44, 4)
    )
    assert [row.baseline.samples_per_step for row in rows] == pytest.approx([849 / 12] * 2)


def test_one_side_without_them(compared_traces):
    result = compared_traces(serving(), sampled_serving(60))
    row = only_row(result)
    assert row.baseline is None and row.busy.baseline is None
    assert row.busy.candidate == pytest.approx(60)
    assert row.busy.delta is None
    (check,) = [one for one in result.comparability.checks if one.name == "trace_gpu_metrics"]
    assert (check.status, check.baseline) == ("warn", "not captured")
    assert "--gpu-metrics-devices=all" in render_html(result)


@pytest.mark.slow
def test_exchanged_sides_exchange_all_of_it(compared_traces):
    one, other = [sampled_serving(60), sampled_serving(62)], [sampled_serving(75, 3), sampled_serving(74)]
    there, back = plain(compared_traces(one, other).system), plain(compared_traces(other, one).system)
    assert close(swapped(there), back) == []


def test_against_itself_nothing_moved(compared_traces):
    row = only_row(compared_traces(sampled_serving(60), sampled_serving(60)))
    assert row.busy.delta == row.idle.delta == row.steps.delta == 0 and row.baseline == row.candidate


def test_the_order_of_rows_does_not_matter(tmp_path):
    path = sampled(sampled(one_gap()), "Tensor Active [Throughput %]", number=2).write(
        tmp_path / "one.sqlite"
    )
    other = tmp_path / "other.sqlite"
    other.write_bytes(path.read_bytes())
    with sqlite3.connect(other) as db:
        for table in ("GPU_METRICS", "TARGET_INFO_GPU_METRICS"):
            db.execute(f"CREATE TEMP TABLE turned AS SELECT * FROM {table} ORDER BY rowid DESC")
            db.execute(f"DELETE FROM {table}")
            db.execute(f"INSERT INTO {table} SELECT * FROM turned")
            db.execute("DROP TABLE turned")
    one, two = (reduce_file(file, Reading(threads=1)) for file in (path, other))
    assert one.gpu_metrics.equals(two.gpu_metrics) and not one.gpu_metrics.is_empty()
    assert one.gpu_sampling.equals(two.gpu_sampling)


def reports(result: Result) -> list[str]:
    console = Console(file=StringIO(), width=100)
    render_terminal(result, console)
    return [render_html(result), console.file.getvalue()]


@pytest.mark.slow
def test_every_report_says_means(compared_traces):
    result = compared_traces(sampled_serving(60), sampled_serving(75, 3))
    for text in reports(result):
        assert "SMs Active" in text and "60.0" in text and "75.0" in text, text[:200]
    few = compared_traces(sampled_serving(60, every_us=500), sampled_serving(75, every_us=500))
    assert all("few samples" in text for text in reports(few))


def test_names_of_metrics_are_text_in_every_report(compared_traces):
    evil = "NVLink <script>alert(1)</script> | `x`\n\x1b[31m [Throughput %]"
    values = dict.fromkeys(range(0, 707 * 13 * US, 10 * US), 5)
    texts = reports(compared_traces(serving().gpu_metric(evil, values), serving().gpu_metric(evil, values)))
    assert all("alert(1)" in text for text in texts)
    assert "<script>alert" not in texts[0] and not any("\x1b[31m" in text for text in texts)


def test_one_capture_alone_shows_them_in_every_form(tmp_path):
    side = Side("one", [Run("run", [reduced(sampled(one_gap()), tmp_path)])])
    report = show(side, Options())
    assert report.system is not None
    (row,) = report.system.gpu_metrics
    # the one step [0, 1000): 9 samples of 80 are too few for a mean while kernels run; 89 of 2, and 2 of 41
    assert (row.metric, row.baseline.samples_per_step, row.busy.baseline, row.idle.baseline) == (
        SMS,
        100.0,
        None,
        2.0,
    )
    assert row.steps.baseline == (9 * 80 + 89 * 2 + 2 * 41) / 100
    out = StringIO()
    render_show_terminal(report, Console(file=out, width=100))
    for text in (out.getvalue(), render_show_markdown(report), render_show_html(report)):
        assert "SMs Active" in text and "few samples" in text and "9.8" in text
