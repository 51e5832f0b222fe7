"""The closed accounting on tiny traces, continued: shares, bounds of periods, joins, coverage, time.

See test_accounting_tiny.py for the frame `one_gap` and its numbers.
"""

from __future__ import annotations

import polars as pl
import pytest

from fixtures.builders import TraceBuilder, two_steps
from tests.tiny import STEP, idle, label, one_gap, only, reduced, spent

PLAIN = {"compute": 100, "host_work": 800, "launch_api": 50, "launch_latency": 50}


# Busy time


def test_overlaps_are_shared_and_compute_hides_the_rest(tmp_path):
    #        0    50 60    90 100      160       250  300   350
    # first  |--------------------|                              compute 0-160
    # left   |-------|                                           comm    160-300
    # right       |--------------------|                         memcpy  300-350
    # nccl                  |--------------------------|
    # copy                                        |----------|
    trace = one_gap().kernel(1, 0, 60, name="left", stream=8).kernel(1, 50, 160, name="right", stream=9)
    trace.kernel(1, 90, 300, name="ncclDevKernel_AllReduce_Sum", stream=10).memcpy(1, 250, 350, stream=11)
    reduction = reduced(trace, tmp_path)
    found = spent(reduction)
    assert (found["compute"], found["comm"], found["memcpy"]) == (160, 140, 50)
    names = reduction.keys.select(pl.col("id").cast(pl.Int64).alias("key"), "name")
    table = reduction.kernels.with_columns(pl.col("key").cast(pl.Int64)).join(names, on="key")
    shares = {
        row["name"]: (row["count"], row["wall_ns"], row["share_ns"]) for row in table.iter_rows(named=True)
    }
    # 0-50 first and left, 50-60 first, left and right, 60-100 first and right, 100-160 right alone
    assert shares == {
        "first": (1, 100, pytest.approx(50 / 2 + 10 / 3 + 40 / 2)),
        "left": (1, 60, pytest.approx(50 / 2 + 10 / 3)),
        "right": (1, 110, pytest.approx(10 / 3 + 40 / 2 + 60)),
        "ncclDevKernel_AllReduce_Sum": (1, 210, pytest.approx(140)),
        "[memcpy HtoD]": (1, 100, pytest.approx(50)),
    }
    assert sum(share for _, _, share in shares.values()) == pytest.approx(160 + 140 + 50)


def test_an_op_that_crosses_a_period_s_bound(tmp_path):
    # `long` 1050-2550 belongs to step 2 (1000-2500), its last 50 ns fall into step 3 (2500-3500)
    trace = one_gap().range(1, label(3), 2000, 2010).range(1, label(4), 3000, 3010)
    trace.kernel(2, 1050, 2550, name="long", stream=8)
    trace.api(1, "cudaLaunchKernel", 2001, 2005, corr=3).kernel(3, 2500, 2520, name="third")
    trace.api(1, "cudaLaunchKernel", 3001, 3005, corr=4).kernel(4, 3500, 3600, name="fourth")
    reduction = reduced(trace, tmp_path)
    assert reduction.residual_ns == 0
    # step 3: `third` 2500-2520, the rest of `long` until 2550; then 451 of the host, 4 the call, 495 latency
    assert [spent(reduction, period) for period in (0, 1, 2)] == [
        PLAIN,
        {"compute": 1500},
        {"compute": 50, "host_work": 451, "launch_api": 4, "launch_latency": 495},
    ]


def test_two_ops_that_cross_a_bound_into_two_others(tmp_path):
    """Busy time on both sides of a bound, crowded on both: none of it may move over."""
    #  step 1: 0-1000   a 900-1040, b 950-1020 (both of step 1) reach into step 2: 1000-1100, c 1000-1100
    #  compute of step 1: 0-100 and 900-1000 = 200; of step 2 (until 2000): 1000-1100 = 100
    trace = one_gap().range(1, label(3), 1850, 1960)
    trace.kernel(1, 900, 1040, name="a", stream=8).kernel(1, 950, 1020, name="b", stream=9)
    trace.api(1, "cudaLaunchKernel", 1900, 1950, corr=3).kernel(3, 2000, 2100, name="third")
    reduction = reduced(trace, tmp_path)
    assert [spent(reduction, period)["compute"] for period in (0, 1)] == [200, 100]
    assert reduction.residual_ns == 0


def test_zero_length_ops(tmp_path):
    # an op of no length splits the gap: 100-500 ends with it (orphan), 500-1000 as ever
    reduction = reduced(one_gap().kernel(77, 500, 500, name="empty"), tmp_path)
    assert spent(reduction) == {
        "compute": 100, "unattributed": 400, "host_work": 400, "launch_api": 50, "launch_latency": 50,
    }  # fmt: skip
    assert reduction.residual_ns == 0


def test_zero_length_ops_at_the_edges_of_others(tmp_path):
    trace = (
        one_gap().kernel(1, 0, 0, name="e1").kernel(1, 100, 100, name="e2").kernel(2, 1000, 1000, name="e3")
    )
    assert only(trace, tmp_path) == PLAIN


# Joins


def test_a_runtime_call_and_the_driver_call_under_it_are_one_launch(tmp_path):
    trace = one_gap().api(1, "cuLaunchKernelEx", 910, 940, corr=2)
    reduction = reduced(trace, tmp_path)
    assert spent(reduction) == PLAIN
    assert reduction.launch["calls"].sum() == 1  # the whole step launched `first` alone


def test_correlation_ids_are_those_of_a_process(tmp_path):
    # two processes, the same ids 1 and 2 in both; process 200 launches 300 ns later and has 400 ns of latency
    trace = TraceBuilder()
    for pid, shift, latency in ((100, 0, 100), (200, 300, 400)):
        trace.process(pid).thread(pid, pid + 1)
        for number in (1, 2, 3):
            base = 1000 * number + shift
            trace.range(pid + 1, label(number), base, base + 50)
            trace.api(pid + 1, "cudaLaunchKernel", base + 10, base + 20, corr=number)
            trace.kernel(number, base + 20 + latency, base + 20 + latency + 100, device=pid // 100 - 1)
    reduction = reduced(trace, tmp_path)
    rows = reduction.periods.select(
        "rank", "pid", "device", "launch_latency", "launch_api", "host_work"
    ).rows()
    # gap of a rank: from kernel end to the next label start + 10, the call's 10, then the latency
    assert rows == [
        (0, 100, 0, 100, 10, 1010 - 220),
        (0, 100, 0, 100, 10, 1010 - 220),
        (1, 200, 1, 400, 10, 1010 - 520),
        (1, 200, 1, 400, 10, 1010 - 520),
    ]


def test_a_blocking_copy(tmp_path):
    # cudaMemcpy 300-400 copies 350-380 to pageable memory: 300-350 it launches, 380-400 it waits
    trace = one_gap().api(1, "cudaMemcpy", 300, 400, corr=9).memcpy(9, 350, 380, kind="DtoH", dst="pageable")
    assert only(trace, tmp_path) == {
        "compute": 100, "memcpy": 30,
        "host_work": 200 + 500, "launch_api": 50 + 50, "host_sync": 20, "launch_latency": 50,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "dst", "waits"), [("DtoH", "pageable", 20), ("DtoH", "pinned", 0), ("HtoD", None, 0)]
)
def test_an_async_copy_to_pageable_memory_blocks(kind, dst, waits, tmp_path):
    # cudaMemcpyAsync 300-400, the copy 350-380: until 400 the thread waits (pageable), or still launches
    trace = one_gap().api(1, "cudaMemcpyAsync", 300, 400, corr=9).memcpy(9, 350, 380, kind=kind, dst=dst)
    found = only(trace, tmp_path)
    assert found.get("host_sync", 0) == waits
    assert found["launch_api"] == 50 + 50 + (20 - waits)


# Coverage and time


def test_what_was_not_captured_is_said(tmp_path):
    plain = reduced(one_gap(), tmp_path)
    assert (plain.coverage["gil"], plain.coverage["gc"]) == ("not_captured", "not_captured")
    traced = reduced(one_gap().gil(2, "hold", 0, 10).gc(2, 20, 30), tmp_path)
    assert (traced.coverage["gil"], traced.coverage["gc"]) == ("captured", "captured")


def test_negative_timestamps(tmp_path):
    # the same trace 5000 ns earlier: rows may begin before the session
    trace = TraceBuilder().process(100).thread(100, 1)
    trace.range(1, label(1), -5200, -5100).range(1, label(2), -4150, -4040)
    trace.api(1, "cudaLaunchKernel", -5150, -5120, corr=1).kernel(1, -5000, -4900)
    trace.api(1, "cudaLaunchKernel", -4100, -4050, corr=2).kernel(2, -4000, -3900)
    reduction = reduced(trace, tmp_path)
    assert reduction.periods.select("start_ns", "end_ns").rows() == [(-5000, -4000)]
    assert spent(reduction) == PLAIN


def test_a_period_across_zero(tmp_path):
    trace = TraceBuilder().process(100).thread(100, 1)
    trace.range(1, label(1), -700, -600).range(1, label(2), 350, 460)
    trace.api(1, "cudaLaunchKernel", -650, -620, corr=1).kernel(1, -500, -400)
    trace.api(1, "cudaLaunchKernel", 400, 450, corr=2).kernel(2, 500, 600)
    assert only(trace, tmp_path) == PLAIN


def test_the_sample_of_the_builders(tmp_path):
    # fixtures/builders/samples.py: kernel 200-500, copy 500-540, sync 450-600, next launch 1100-1150, 1200
    reduction = reduced(two_steps(), tmp_path)
    assert reduction.periods["number"].to_list() == [20, 21]
    for period in (0, 1):
        assert spent(reduction, period) == {
            "compute": 300,
            "memcpy": 40,
            "host_sync": 60,
            "host_work": 500,
            "launch_api": 50,
            "launch_latency": 50,
        }
    # 600-700 outside, 700-900 _schedule, 900-1000 outside, 1000-1100 in the label; twice
    assert idle(reduction, "place", cause="host_work") == {
        f"outside any range, between {STEP} and _schedule": 200,
        "_schedule": 400,
        f"outside any range, between _schedule and {STEP}": 200,
        STEP: 200,
    }
