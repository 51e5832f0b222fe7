"""Several ranks in one export: their steps, their collectives, and the threads that serve them all."""

from __future__ import annotations

import pytest

from fixtures.builders import TraceBuilder
from tests.comparing import compare
from tests.tiny import label, reduced, spent
from tracediff.execution.sides import Run, Side
from tracediff.report.remarks import group_waits

US = 1000
STEPS = 6


def ranks(
    count: int = 2,
    *,
    late_us: int = 30,
    detokenise_us: int = 400,
    first_gpu: int = 0,
    ctx: int = 0,
    pids: tuple[int, ...] = (100, 101, 102, 103),
) -> TraceBuilder:
    """Steps of 1000 us on every rank; rank 1 comes late to the collective; process 900 detokenises. ctx: prompts of rank 0.

    us of a step    0        100    150           250+late  300+late
      rank 0 host   |label 0-90, launch 10-20
      rank 0 GPU             |gemm 100-200|nccl 200 ............ 300 + late|
      rank 1 GPU             |gemm 100-(200+late)   |nccl 200+late .. 300+late|
      process 900   |decode_incrementally 0-400|
    """
    trace = TraceBuilder()
    for rank in range(count):
        pid, gpu, late = pids[rank], first_gpu + rank, (late_us if rank == 1 else 0) * US
        trace.process(pid).thread(pid, 10 * pid)
        for number in range(STEPS + 1):
            begin = 1000 * US * number
            trace.range(10 * pid, label(number, ctx=ctx * (rank == 0)), begin, begin + 90 * US)
            for part in (0, 1):
                at = begin + (10 + 5 * part) * US
                trace.api(10 * pid, "cudaLaunchKernel", at, at + 5 * US, corr=2 * number + part)
            trace.kernel(2 * number, begin + 100 * US, begin + 200 * US + late, name="gemm", device=gpu)
            end = begin + (300 + late_us) * US
            trace.kernel(
                2 * number + 1, begin + 200 * US + late, end, name="ncclDevKernel_AllReduce_Sum", device=gpu
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


def test_ranks_are_numbered_by_their_devices_whichever_process_came_first(tmp_path):
    """Process 101 of rank 0 is on device 0, process 100 of rank 1 on device 1."""
    reduction = reduced(ranks(pids=(101, 100)), tmp_path)
    assert reduction.periods.select("rank", "pid", "device").unique().sort("rank").rows() == [
        (0, 101, 0),
        (1, 100, 1),
    ]
    assert spent(reduction, 0)["comm"] == 130 * US and spent(reduction, STEPS)["comm"] == 100 * US


@pytest.mark.parametrize("count", [1, 2])
def test_runs_on_other_gpus_are_compared_as_on_the_same(count, tmp_path):
    there = compare(side(tmp_path, "a", count=count), side(tmp_path, "b", count=count, first_gpu=4))
    (tmp_path / "same").mkdir()
    here = compare(side(tmp_path / "same", "a", count=count), side(tmp_path / "same", "b", count=count))
    assert [(row.rank, row.baseline_ns, row.candidate_ns) for row in there.ranks] == [
        (rank, 1000 * US, 1000 * US) for rank in range(count)
    ]
    assert (there.accounting, there.structure) == (here.accounting, here.structure)
    assert [(row.role, row.score) for row in there.threads] == [(row.role, row.score) for row in here.threads]


def test_a_program_on_more_ranks_is_compared_by_their_means(tmp_path):
    """Rank 0 computes 100 us of a step and rank 1 130: 115 in the mean, beside 100 on one rank; nothing is of rank 1 alone."""
    result = compare(side(tmp_path, "a", count=1), side(tmp_path, "b", count=2))
    assert result.verdict != "not_comparable"
    assert result.accounting.baseline["compute"] == pytest.approx(100 * US)
    assert result.accounting.candidate["compute"] == pytest.approx(115 * US)
    assert (result.step.steps.baseline, result.step.steps.candidate) == (STEPS, 2 * STEPS)
    assert all(one.where.rank is None for one in result.findings)
    assert [(row.baseline, row.candidate) for row in result.structure if row.kind == "ranks"] == [(1, 2)]
    assert [row.baseline_ns is None for row in result.ranks] == [False, True]
    (check,) = [one for one in result.comparability.checks if one.name == "ranks"]
    assert (check.status, check.baseline, check.candidate) == ("warn", "1", "2")


def split_over_two(folder, name: str, second_us: int) -> Side:
    """Sixteen steps of one process: 100 us on device 0, then `second_us` (every other step one more) on device 1, then 50 us of the host."""
    trace, at = TraceBuilder().process(100).thread(100, 1), 0
    for number in range(17):
        us = second_us + number % 2
        trace.range(1, label(number), at, at + 15 * US)
        for device, (begin, long) in enumerate(((20, 100), (120, us))):
            corr = 2 * number + device
            trace.api(1, "cudaLaunchKernel", at + 5 * device * US, at + 5 * (device + 1) * US, corr=corr)
            trace.kernel(
                corr, at + begin * US, at + (begin + long) * US, name=f"gemm_{device}", device=device
            )
        at += (170 + us) * US
    (folder / name).mkdir()
    return Side(name, [Run(name, [reduced(trace, folder / name)])])


def test_devices_of_one_process_are_compared_each_with_itself(tmp_path):
    """The second half of the model takes 400 us for 300: each device's step is 100 us longer, and half of that is compute in the mean."""
    result = compare(split_over_two(tmp_path, "a", 300), split_over_two(tmp_path, "b", 400))
    assert result.step.delta_ns == pytest.approx(100 * US)
    assert result.accounting.delta["compute"] == pytest.approx(50 * US)
    assert [row.delta_ns for row in result.ranks] == pytest.approx([100 * US] * 2)
    (slower,) = [one for one in result.findings if one.cause == "kernel_time"]
    assert slower.delta_ns == pytest.approx(50 * US)
    assert slower.level == "likely"


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


def in_groups(named: bool, late_us: int = 60) -> TraceBuilder:
    """Four ranks, steps of 1000 us. Ranks 0 and 1 reduce in one communicator, 2 and 3 in another; the export names them or not.

    rank 0 nccl 200-330, rank 1 nccl 230-330 | rank 2 nccl (440+late)-600, rank 3 nccl 440-600
    """
    trace = TraceBuilder()
    for rank, start in enumerate((200, 230, 440 + late_us, 440)):
        pid, tid = 100 + rank, 10 * (100 + rank)
        payload = {"jsonText": f'{{"NCCL communicator ID": {7000 + rank // 2}}}'} if named else None
        trace.process(pid).thread(pid, tid)
        for number in range(STEPS + 1):
            begin = 1000 * US * number
            trace.range(tid, label(number), begin, begin + 90 * US)
            trace.range(
                tid, "ncclAllReduce", begin + 14 * US, begin + 25 * US, domain="NCCL", payload=payload
            )
            for part in (0, 1):
                at = begin + (10 + 5 * part) * US
                trace.api(tid, "cudaLaunchKernel", at, at + 5 * US, corr=2 * number + part)
            trace.kernel(2 * number, begin + 100 * US, begin + start * US, name="gemm", device=rank)
            end = begin + (330 if rank < 2 else 600) * US
            trace.kernel(
                2 * number + 1, begin + start * US, end, name="ncclDevKernel_AllReduce_Sum", device=rank
            )
    return trace


def test_ranks_of_one_communicator_wait_for_each_other_alone(tmp_path):
    sides = []
    for name, late in (("a", 60), ("b", 100)):
        (tmp_path / name).mkdir()
        sides.append(Side(name, [Run(name, [reduced(in_groups(True, late), tmp_path / name)])]))
    result = compare(*sides)
    first, second = result.rank_groups
    assert (first.members, first.calls, second.members) == ([0, 1], "ncclAllReduce", [2, 3])
    assert (first.baseline_wait_ns, first.candidate_wait_ns) == pytest.approx((30 * US, 30 * US))
    assert (second.baseline_wait_ns, second.candidate_wait_ns) == pytest.approx((60 * US, 100 * US))
    assert (first.candidate_late, second.candidate_late) == (1, 2)
    waits = [row.candidate_comm_wait_ns for row in result.ranks]
    assert waits == pytest.approx([30 * US, 0, 0, 100 * US])
    assert group_waits(result, "candidate", "step") == [
        "Ranks 2 and 3 (ncclAllReduce) wait 100 us per step in sum, 100 us of it for rank 2.",
        "Ranks 0 and 1 (ncclAllReduce) wait 30.0 us per step in sum, 30.0 us of it for rank 1.",
    ]


def test_without_communicators_nothing_is_said_of_groups(tmp_path):
    both = Side("one", [Run("one", [reduced(in_groups(False), tmp_path)])])
    assert compare(both, both).rank_groups == []


@pytest.mark.parametrize(
    "text", ["[1]", "{", '{"NCCL communicator ID": {"a": 1}}', '{"NCCL communicator ID": "' + "x" * 99 + '"}']
)
def test_what_is_no_communicator_makes_no_group(text, tmp_path):
    trace = in_groups(False)
    trace.range(1000, "ncclAllReduce", 26 * US, 27 * US, domain="NCCL", payload={"jsonText": text})
    both = Side("one", [Run("one", [reduced(trace, tmp_path)])])
    assert compare(both, both).rank_groups == []


def test_a_kernel_that_is_slower_on_one_rank_is_that_ranks(tmp_path):
    """The GEMM of rank 1 takes 230 us for 130, that of rank 0 takes 100: no mean of both ranks stands for it."""
    result = compare(side(tmp_path, "a"), side(tmp_path, "b", late_us=130))
    one = next(finding for finding in result.findings if finding.cause == "kernel_time")
    assert (one.where.rank, one.delta_ns) == (1, pytest.approx(100 * US))
    assert (one.facts.baseline_mean_ns, one.facts.candidate_mean_ns) == pytest.approx((130 * US, 230 * US))
    assert (one.evidence.count_baseline, one.facts.delta_all_ranks_ns) == (1, pytest.approx(50 * US))
    assert "slower gemm kernels on rank 1" in result.headline.why


def test_what_is_slower_is_of_no_rank_where_the_other_has_no_such_steps(tmp_path):
    """Rank 0 has prompts alone on one side: what its GEMM takes in a step of generation there is not known, be it as slow as rank 1's."""
    result = compare(side(tmp_path, "a"), side(tmp_path, "b", late_us=130, ctx=1))
    found = [one for one in result.findings if one.where.phase == "generation" and one.cause == "kernel_time"]
    assert [one.where.rank for one in found] == [None]
