"""Several ranks in one export: their steps, their collectives, and the threads that serve them all."""

from __future__ import annotations

import pytest

from fixtures.builders import TraceBuilder
from tests.tiny import label, reduced, spent
from tracediff.comparison.compare import compare
from tracediff.execution.sides import Run, Side

US = 1000
STEPS = 6


def ranks(count: int = 2, *, late_us: int = 30, detokenise_us: int = 400) -> TraceBuilder:
    """Steps of 1000 us on every rank; rank 1 comes late to the collective; process 900 detokenises.

    us of a step    0        100    150           250+late  300+late
      rank 0 host   |label 0-90, launch 10-20
      rank 0 GPU             |gemm 100-200|nccl 200 ............ 300 + late|
      rank 1 GPU             |gemm 100-(200+late)   |nccl 200+late .. 300+late|
      process 900   |decode_incrementally 0-400|
    """
    trace = TraceBuilder()
    for rank in range(count):
        pid, late = 100 + rank, (late_us if rank == 1 else 0) * US
        trace.process(pid).thread(pid, 10 * pid)
        for number in range(STEPS + 1):
            begin = 1000 * US * number
            trace.range(10 * pid, label(number), begin, begin + 90 * US)
            for part in (0, 1):
                at = begin + (10 + 5 * part) * US
                trace.api(10 * pid, "cudaLaunchKernel", at, at + 5 * US, corr=2 * number + part)
            trace.kernel(2 * number, begin + 100 * US, begin + 200 * US + late, name="gemm", device=rank)
            end = begin + (300 + late_us) * US
            trace.kernel(
                2 * number + 1, begin + 200 * US + late, end, name="ncclDevKernel_AllReduce_Sum", device=rank
            )
    trace.process(900).thread(900, 9001)
    for number in range(STEPS + 1):
        trace.range(9001, "decode_incrementally", 1000 * US * number, (1000 * number + detokenise_us) * US)
    return trace


def side(folder, name: str = "side", **options) -> Side:
    (folder / name).mkdir()
    return Side(name, [Run(name, [reduced(ranks(**options), folder / name)])])


def test_every_rank_has_its_periods(tmp_path):
    reduction = reduced(ranks(), tmp_path)
    assert reduction.periods.group_by("rank", "device").len().sort("rank").rows() == [
        (0, 0, STEPS),
        (1, 1, STEPS),
    ]
    # rank 0: gemm 100, nccl 130; then idle until 1100: host work until 1010, the launch 5, latency 85
    assert spent(reduction, 0) == {
        "compute": 100 * US,
        "comm": 130 * US,
        "host_work": 680 * US,
        "launch_api": 5 * US,
        "launch_latency": 85 * US,
    }
    assert spent(reduction, STEPS)["comm"] == 100 * US and spent(reduction, STEPS)["compute"] == 130 * US


def test_waiting_in_collectives_is_told_from_moving_data(tmp_path):
    result = compare(side(tmp_path, "a", late_us=30), side(tmp_path, "b", late_us=80))
    first, second = result.ranks
    # rank 0 waits from its own start until rank 1's: 30, then 80 us; the transfer is 100 us on both
    assert (first.baseline_comm_wait_ns, first.candidate_comm_wait_ns) == pytest.approx((30 * US, 80 * US))
    assert (second.baseline_comm_wait_ns, second.candidate_comm_wait_ns) == pytest.approx((0, 0))
    assert (first.baseline_comm_transfer_ns, second.candidate_comm_transfer_ns) == pytest.approx(
        (100 * US, 100 * US)
    )
    assert first.baseline_ns == second.baseline_ns == pytest.approx(1000 * US)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_thread_that_serves_all_ranks_takes_the_time_that_it_takes(count, tmp_path):
    """One detokenising thread, 400 us a step: as much with four ranks as with one."""
    both = side(tmp_path, count=count)
    result = compare(both, both)
    (row,) = [row for row in result.ranges if row.range == "decode_incrementally"]
    assert row.baseline.ns_per_step == pytest.approx(400 * US)
    assert row.baseline.count_per_step == pytest.approx(1)


@pytest.mark.parametrize("count", [1, 4])
def test_a_stage_that_cannot_keep_up_says_so_with_any_number_of_ranks(count, tmp_path):
    both = side(tmp_path, count=count, detokenise_us=1100)  # a step lasts 1000
    (stage,) = [one for one in compare(both, both).response_path if one.range == "decode_incrementally"]
    assert stage.baseline_ns == pytest.approx(1100 * US)
    assert stage.keeps_up_baseline is False


def test_an_executor_of_each_rank_counts_once(tmp_path):
    both = side(tmp_path, count=4)
    (row,) = [row for row in compare(both, both).ranges if row.thread == "executor"]
    assert (row.baseline.count_per_step, row.baseline.ns_per_step) == pytest.approx((1, 90 * US))


def test_launches_are_those_of_a_rank(tmp_path):
    both = side(tmp_path, count=4)
    launch = compare(both, both).launch.baseline
    assert (launch.calls_per_step, launch.kernels_per_step) == pytest.approx((2, 2))
    # launch calls of 5 us at 10 and 15, kernels at 100 and 200 (230 on rank 1): delays 85 and 180 (210) us
    delays = [85, 180] * 3 + [85, 210]
    assert launch.queue_delay_mean_ns == pytest.approx(sum(delays) / 8 * US)


def test_ranks_in_files_of_their_own_are_the_ranks_of_one_run(tmp_path):
    parts = []
    for rank in range(2):
        trace = TraceBuilder().process(100).thread(100, 1)  # the same process id on another machine
        for number in range(STEPS + 1):
            begin = 1000 * US * number
            trace.range(1, label(number), begin, begin + 90 * US)
            trace.api(1, "cudaLaunchKernel", begin + 10 * US, begin + 15 * US, corr=number)
            trace.kernel(number, begin + 100 * US, begin + (200 + 100 * rank) * US, name="gemm")
        (tmp_path / str(rank)).mkdir()
        parts.append(reduced(trace, tmp_path / str(rank)))
    both = Side("two files", [Run("run", parts)])
    result = compare(both, both)
    assert [row.rank for row in result.ranks] == [0, 1]
    assert [row.baseline_ns for row in result.ranks] == pytest.approx([1000 * US] * 2)
    assert result.accounting.baseline["compute"] == pytest.approx(150 * US)  # the mean of 100 and 200
    assert result.inputs.baseline.runs[0].ranks == 2
    assert [row.baseline.ns_per_step for row in result.ranges if row.thread == "executor"] == pytest.approx(
        [90 * US]
    )
