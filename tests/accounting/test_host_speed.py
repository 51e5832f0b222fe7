"""The speed of the host: medians of the logarithms of the lengths of CUDA calls, by step and function."""

from __future__ import annotations

from math import log

import polars as pl
import pytest

from fixtures.builders import TraceBuilder
from tests.tiny import label, one_gap, reduced

SCHEMA = {"period": pl.Int64, "api": pl.String, "count": pl.Int64, "log_ns": pl.Float64}


def speed(reduction) -> dict[tuple[int, str], tuple[int, float]]:
    """(period, api) -> count, and the length in ns whose logarithm is the median."""
    assert reduction.host_speed.schema == SCHEMA
    rows = reduction.host_speed.rows()
    assert rows == sorted(rows)
    return {(period, api): (count, pytest.approx(2.718281828459045**ns)) for period, api, count, ns in rows}


def test_medians_of_logarithms(tmp_path):
    """The window of the whole step is -200 to 850, with one launch of 30 ns in it; others: 100, 400 and 20, 40, 1000."""
    trace = one_gap()
    for start, ns in ((-190, 100), (300, 400)):
        trace.api(1, "cudaEventRecord", start, start + ns)
    for start, ns in ((200, 20), (230, 1000), (280, 40)):
        trace.api(1, "cuLaunchKernelEx", start, start + ns)
    reduction = reduced(trace, tmp_path)
    assert speed(reduction) == {
        (0, "cudaEventRecord"): (2, 200),  # half of log(100) + log(400) = log(200)
        (0, "cudaLaunchKernel"): (1, 30),  # without the suffix _v7000; the second launch began at 900
        (0, "cuLaunchKernelEx"): (3, 40),
    }
    assert reduction.host_speed.filter(api="cudaEventRecord")["log_ns"].item() == pytest.approx(log(200))


def test_calls_that_wait_or_take_no_time_are_left_out(tmp_path):
    trace = one_gap()
    left_out = (
        "cudaStreamSynchronize cuCtxSynchronize cudaMalloc cudaMallocAsync cuMemAlloc_v2 cudaHostAlloc cudaFree cudaFreeHost"
        " cudaGraphLaunch cuGraphLaunch cudaGraphInstantiate cuModuleLoadData cudaStreamWaitEvent"
        " cudaMemcpy cuMemcpyDtoH_v2 cudaMemcpyAsync cuMemcpyDtoHAsync_v2 cudaMemset cuMemsetD8_v2 cuLibraryLoadData"
    )
    for place, name in enumerate(left_out.split()):
        trace.api(1, name, 200 + 10 * place, 205 + 10 * place)
    trace.api(1, "cudaEventQuery", 500, 500)
    trace.api(1, "cudaMemsetAsync", 600, 607)
    assert speed(reduced(trace, tmp_path)) == {
        (0, "cudaLaunchKernel"): (1, 30),
        (0, "cudaMemsetAsync"): (1, 7),
    }


def test_calls_count_in_the_step_in_which_they_began_whatever_the_thread(tmp_path):
    """Windows of 1000 from 0, 1000 and 2000, the last not whole; calls of thread 2 at -5, 999, 1000 and 2000."""
    trace = TraceBuilder().thread(100, 1).thread(100, 2)
    for number in range(3):
        at = 1000 * number
        trace.range(1, label(number), at, at + 900).api(
            1, "cudaLaunchKernel", at + 10, at + 30, corr=number + 1
        )
        trace.kernel(number + 1, at + 40, at + 50)
    for start, ns in ((-5, 60), (999, 70), (1000, 80), (2000, 90)):
        trace.api(2, "cudaEventQuery", start, start + ns)
    trace.range(2, "detokenize", 10, 20)
    assert speed(reduced(trace, tmp_path)) == {
        (0, "cudaEventQuery"): (1, 70),
        (0, "cudaLaunchKernel"): (1, 20),
        (1, "cudaEventQuery"): (1, 80),
        (1, "cudaLaunchKernel"): (1, 20),
    }


def test_devices_of_a_rank_share_its_calls_and_other_ranks_do_not(tmp_path):
    """Rank 0 launches on two devices, in 20 and 80 ns; rank 1 in 30 ns on one."""
    trace = TraceBuilder().process(100).thread(100, 1).process(200).thread(200, 2)
    for number in range(2):
        at = 1000 * number
        trace.range(1, label(number), at, at + 900).range(2, label(number), at, at + 900)
        trace.api(1, "cudaLaunchKernel", at + 10, at + 30, corr=at + 1).kernel(
            at + 1, at + 40, at + 50, pid=100
        )
        trace.api(1, "cudaLaunchKernel", at + 100, at + 180, corr=at + 2)
        trace.kernel(at + 2, at + 190, at + 200, device=1, pid=100)
        trace.api(2, "cudaLaunchKernel", at + 10, at + 40, corr=at + 3)
        trace.kernel(at + 3, at + 50, at + 60, device=2, pid=200)
    reduction = reduced(trace, tmp_path)
    assert reduction.periods.select("rank", "device").rows() == [(0, 0), (0, 1), (1, 2)]
    assert speed(reduction) == {
        (0, "cudaLaunchKernel"): (2, 40),  # half of log(20) + log(80)
        (1, "cudaLaunchKernel"): (2, 40),
        (2, "cudaLaunchKernel"): (1, 30),
    }


def test_without_calls_the_table_is_empty(tmp_path):
    trace = TraceBuilder().thread(100, 1).kernel(1, 0, 100, pid=100)
    assert speed(reduced(trace, tmp_path, whole_capture=True)) == {}
