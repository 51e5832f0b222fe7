"""The closed accounting on traces that a reader adds up: each category, priorities, shares, bounds.

The frame of most tests is `tiny.one_gap`: device busy [0, 100), idle [100, 1000), next step's kernel at 1000,
launched by thread 1 in [900, 950). Without anything else on the thread the gap is
host_work [100, 900) = 800, launch_api [900, 950) = 50, launch_latency [950, 1000) = 50.
"""

from __future__ import annotations

from itertools import combinations

import polars as pl
import pytest

from fixtures.builders import TraceBuilder
from tests.tiny import STEP, idle, label, one_gap, only, reduced, spent

PLAIN = {"compute": 100, "host_work": 800, "launch_api": 50, "launch_latency": 50}


def test_the_plain_gap(tmp_path):
    assert only(one_gap(), tmp_path) == PLAIN


def test_period_and_shape_of_the_step(tmp_path):
    row = reduced(one_gap(), tmp_path).periods.row(0, named=True)
    assert (row["start_ns"], row["end_ns"]) == (0, 1000)  # first op of step 1 to first op of step 2
    assert (row["number"], row["phase"], row["ctx_reqs"], row["ctx_tokens"], row["gen_reqs"]) == (
        1, "generation", 0, 0, 4,
    )  # fmt: skip


# What the launch had done when the gap began


def test_launch_latency_is_from_the_call_s_return(tmp_path):
    # launch 40..60 returns while the first kernel still runs until 50: gap 50-1000 begins inside the call
    trace = TraceBuilder().thread(100, 1).range(1, label(1), 0, 10).range(1, label(2), 30, 70)
    trace.api(1, "cudaLaunchKernel", 1, 5, corr=1).kernel(1, 10, 50)
    trace.api(1, "cudaLaunchKernel", 40, 60, corr=2).kernel(2, 100, 110)
    assert only(trace, tmp_path) == {"compute": 40, "launch_api": 10, "launch_latency": 40}


def crossed(reduction) -> int:
    """ns of gaps whose two ops are of different streams."""
    return int(reduction.gaps["crossed_ns"].sum())


def test_dependency_on_the_same_stream(tmp_path):
    # both launched before the GPU began; the second waits 200-300 behind the first, on its own stream
    trace = TraceBuilder().thread(100, 1).range(1, label(1), 0, 10).range(1, label(2), 20, 60)
    trace.api(1, "cudaLaunchKernel", 1, 5, corr=1).kernel(1, 100, 200)
    trace.api(1, "cudaLaunchKernel", 30, 40, corr=2).kernel(2, 300, 400)
    reduction = reduced(trace, tmp_path)
    assert spent(reduction) == {"compute": 100, "dependency": 100}
    assert idle(reduction, "cause", "place") == {("dependency", STEP): 100}  # the range it was launched in
    assert crossed(reduction) == 0


def test_dependency_on_another_stream(tmp_path):
    # stream 8's kernel (launched at 30-40) waits for an event of stream 7's copy, which ends at 250
    #   stream 7  |first 100-200|   |copy 220-250|
    #   stream 8                                  |  idle 250-300  |second 300-400
    # 200-220: the copy had been launched too: dependency as well
    trace = TraceBuilder().thread(100, 1).range(1, label(1), 0, 15).range(1, label(2), 20, 60)
    trace.api(1, "cudaLaunchKernel", 1, 5, corr=1).kernel(1, 100, 200)
    trace.api(1, "cudaMemcpyAsync", 6, 9, corr=3).memcpy(3, 220, 250)
    trace.api(1, "cudaLaunchKernel", 30, 40, corr=2).kernel(2, 300, 400, stream=8)
    reduction = reduced(trace, tmp_path)
    assert spent(reduction) == {"compute": 100, "memcpy": 30, "dependency": 20 + 50}
    assert crossed(reduction) == 50  # the copy is of the first kernel's stream


@pytest.mark.parametrize(
    ("name", "until", "cause", "theirs"),
    [
        (
            "gemm",
            98,
            "dependency",
            36 + 10,
        ),  # for 36 of the 40 ns; device 1 then waits itself, for 10 while device 0 works
        ("gemm", 80, "launch_latency", 18),
        ("ncclDevKernel_AllReduce", 98, "launch_latency", 0),  # that may wait for this device itself
    ],
)
def test_launched_work_may_wait_for_another_device(name: str, until: int, cause: str, theirs: int, tmp_path):
    # as above: device 0 is idle from 50, the call returns at 60, its kernel begins at 100; device 1 works from 62
    trace = TraceBuilder().thread(100, 1).range(1, label(1), 0, 10).range(1, label(2), 30, 70)
    trace.api(1, "cudaLaunchKernel", 1, 3, corr=1).kernel(1, 10, 50)
    trace.api(1, "cudaLaunchKernel", 4, 6, corr=3).kernel(3, 62, until, name=name, device=1)
    trace.api(1, "cudaLaunchKernel", 40, 60, corr=2).kernel(2, 100, 110)
    trace.api(1, "cudaLaunchKernel", 61, 62, corr=4).kernel(4, 120, 130, device=1)
    reduction = reduced(trace, tmp_path)
    assert spent(reduction, 0) == {"compute": 40, "launch_api": 10, cause: 40}
    assert reduction.gaps.filter(cause=cause)["elsewhere_ns"].sum() == theirs


def test_a_call_that_returns_as_the_gap_begins_had_launched(tmp_path):
    trace = TraceBuilder().thread(100, 1).range(1, label(1), 0, 10).range(1, label(2), 20, 60)
    trace.api(1, "cudaLaunchKernel", 1, 5, corr=1).kernel(1, 100, 200)
    trace.api(1, "cudaLaunchKernel", 30, 200, corr=2).kernel(2, 300, 400)
    assert only(trace, tmp_path) == {"compute": 100, "dependency": 100}


def test_the_host_may_run_ahead_of_its_gpu(tmp_path):
    # the host is done with steps 1 to 3 by 38; the GPU works on them from 1000, 2000 and 3000
    trace = TraceBuilder().thread(100, 1)
    for number in (1, 2, 3):
        trace.range(1, label(number), 10 * number, 10 * number + 8)
        trace.api(1, "cudaLaunchKernel", 10 * number + 1, 10 * number + 3, corr=number)
        trace.kernel(number, 1000 * number, 1000 * number + 900)
    reduction = reduced(trace, tmp_path)
    assert reduction.periods.select("number", "start_ns", "end_ns").rows() == [
        (1, 1000, 2000),
        (2, 2000, 3000),
    ]
    assert spent(reduction, 0) == spent(reduction, 1) == {"compute": 900, "dependency": 100}


# Graphs


def graph_step() -> TraceBuilder:
    #  nodes 100-110, 120-130, 160-170, a copy node 200-210, launched by one call 1..130; next graph at 1000
    trace = TraceBuilder().thread(100, 1).range(1, label(1), 0, 10).range(1, label(2), 900, 950)
    trace.api(1, "cudaGraphLaunch", 1, 130, corr=1)
    for node, start in enumerate((100, 120, 160)):
        trace.kernel(1, start, start + 10, graph_node=node + 1)
    trace.memcpy(1, 200, 210, kind="DtoD", graph_node=4)
    return trace.api(1, "cudaGraphLaunch", 910, 930, corr=2).kernel(2, 1000, 1010, graph_node=1)


def test_gaps_between_the_nodes_of_a_graph(tmp_path):
    # inside: 110-120, 130-160, 170-200 = 10 + 30 + 30, although the launch call lasts until 130;
    # 210-910 host work, 910-930 the call, charged once, 930-1000 latency
    assert only(graph_step(), tmp_path) == {
        "compute": 30,
        "memcpy": 10,
        "graph_internal": 70,
        "host_work": 700,
        "launch_api": 20,
        "launch_latency": 70,
    }


def test_the_gap_before_a_graph_s_first_node_is_its_launch(tmp_path):
    # a kernel of its own 40-50 before the first node at 100: 50-100 lies in the graph launch 1-130
    trace = (
        graph_step()
        .api(1, "cudaLaunchKernel", -30, -20, corr=9)
        .kernel(9, 40, 50)
        .range(1, label(0), -40, -10)
    )
    reduction = reduced(trace, tmp_path)
    first, second = spent(reduction, 0), spent(reduction, 1)
    assert first == {"compute": 10, "launch_api": 50}  # period of step 0: 40-100
    assert second["graph_internal"] == 70


# The launching thread before its call: one state each, 100 ns or what the comment says


CLASSES = {
    "host_sync": "cudaStreamSynchronize cudaEventSynchronize cudaDeviceSynchronize cuStreamSynchronize"
    " cudaMemcpy cuMemcpyDtoH_v2",
    "host_api": "cudaMalloc cudaFree cudaEventQuery cudaEventRecord cudaStreamWaitEvent cudaFuncGetAttributes"
    " cudaGraphInstantiate cudaStreamBeginCapture cudaMallocAsync",
    "launch_api": "cudaMemcpyAsync cudaMemsetAsync cudaLaunchKernelExC cuLaunchKernelEx cuGraphLaunch",
}


def test_class_of_a_call(tmp_path):
    """A process for each call, which lasts from 300 to 400 in its gap."""
    calls = [(name, category) for category, names in CLASSES.items() for name in names.split()]
    trace = TraceBuilder()
    for pid, (name, _) in enumerate(calls, 100):
        one_gap(trace, pid=pid, tid=10 * pid).api(10 * pid, name, 300, 400)
    # one more process, whose graph has a row: else graphs would be missing in this capture, and its host alone be measured
    one_gap(trace, pid=999, tid=9990).api(9990, "cudaGraphLaunch", 100, 110, corr=3).kernel(3, 150, 160)
    reduction = reduced(trace, tmp_path)
    assert {name: spent(reduction, period) for period, (name, _) in enumerate(calls)} == {
        name: PLAIN | {"host_work": 700, category: PLAIN.get(category, 0) + 100} for name, category in calls
    }


def test_host_sync_counts_from_the_gpu_going_idle_to_the_return(tmp_path):
    # the call 40-250 waits for the kernel that ends at 100: only 100-250 are idle time
    found = only(one_gap().api(1, "cudaStreamSynchronize", 40, 250), tmp_path)
    assert found == PLAIN | {"host_work": 650, "host_sync": 150}


def test_gc_on_the_launching_thread(tmp_path):
    reduction = reduced(one_gap().gc(1, 300, 400, generation=2), tmp_path)
    assert spent(reduction) == PLAIN | {"host_work": 700, "gc": 100}
    assert reduction.coverage["gc"] == "captured"
    # step 1's host window is -200..850: the collection began in it
    assert reduction.gc.select("thread", "generation", "count", "ns").rows() == [("executor", "2", 1, 100)]
    # the step lasts on the host from its label to the next one, at 850
    late = reduced(one_gap().gc(1, 300, 400).gc(1, 850, 855), tmp_path)
    counts = late.counts.join(late.counted.with_row_index("what").cast({"what": pl.Int64}), on="what")
    assert counts.filter(kind="collections")["count"].to_list() == [1]


def test_a_start_end_gc_range_counts_too(tmp_path):
    assert only(one_gap().gc(1, 300, 400), tmp_path)["gc"] == 100


def test_gc_inside_an_api_call_counts_as_gc(tmp_path):
    # collector 910-930 inside the launching call 900-950, and 320-340 inside cudaMalloc 300-400
    trace = one_gap().gc(1, 910, 930).api(1, "cudaMalloc", 300, 400).gc(1, 320, 340, generation=0)
    assert only(trace, tmp_path) == {
        "compute": 100,
        "host_work": 700,
        "host_api": 80,
        "gc": 20 + 20,
        "launch_api": 30,
        "launch_latency": 50,
    }


def test_gc_of_another_thread_is_nobody_s_idle_time(tmp_path):
    assert only(one_gap().gc(2, 300, 400), tmp_path) == PLAIN


def test_gil_wait_names_the_holder_and_its_range(tmp_path):
    #  thread 1 waits 300-400; thread 2 holds 250-360 inside `detokenize` 320-380, thread 3 holds 360-390
    #    300-320 thread 2 outside any range (before its first), 320-360 thread 2 in detokenize,
    #    360-390 thread 3, 390-400 nobody: handing over, which belongs to who held it last
    trace = one_gap().gil(1, "wait", 300, 400).gil(2, "hold", 250, 360).gil(3, "hold", 360, 390)
    trace.range(2, "detokenize", 320, 380).range(3, "handle_response", 0, 999)
    reduction = reduced(trace, tmp_path)
    assert spent(reduction) == PLAIN | {"host_work": 700, "gil_wait": 100}
    assert idle(reduction, "holder", "holder_place", cause="gil_wait") == {
        ("detokenizer", "outside any range, before detokenize"): 20,
        ("detokenizer", "detokenize"): 40,
        ("dispatch-result", "handle_response"): 30 + 10,
    }


def test_a_gil_wait_keeps_the_name_it_would_have_without_a_gil_trace(tmp_path):
    # 300-350 in cudaMalloc, 350-400 in Python; with another side that has no GIL trace they count as that
    reduction = reduced(one_gap().gil(1, "wait", 300, 400).api(1, "cudaMalloc", 300, 350), tmp_path)
    assert idle(reduction, "under", cause="gil_wait") == {"host_api": 50, "host_work": 50}


def test_gil_waits_of_other_threads_cost_the_gpu_nothing(tmp_path):
    assert only(one_gap().gil(2, "wait", 300, 400), tmp_path) == PLAIN


def test_host_work_is_named_by_the_innermost_range(tmp_path):
    #  100         200        300         400        500      600        850      900
    #  |- before ---|-_schedule-|-_prepare 3-|-_schedule|- none --|- none --|-label 2-|
    trace = one_gap().range(1, "_schedule", 200, 500).range(1, "_prepare 3", 300, 400)
    found = idle(reduced(trace, tmp_path), "place", cause="host_work")
    assert found == {
        f"outside any range, between {STEP} and _schedule": 100,
        "_schedule": 100 + 100,
        "_prepare N": 100,
        f"outside any range, between _schedule and {STEP}": 350,
        STEP: 50,
    }


def test_start_end_ranges_name_no_place(tmp_path):
    trace = one_gap().range(1, "request", 150, 800, kind="start_end")
    assert "request" not in idle(reduced(trace, tmp_path), "place")


def test_unattributed_without_a_launch_row(tmp_path):
    trace = one_gap().kernel(77, 400, 500, name="orphan")
    reduction = reduced(trace, tmp_path)
    # 100-400 before the orphan nobody knows; 500-1000 as ever: 400 host_work, 50, 50
    assert spent(reduction) == {
        "compute": 200, "unattributed": 300, "host_work": 400, "launch_api": 50, "launch_latency": 50,
    }  # fmt: skip
    assert [note.slug for note in reduction.warnings] == ["kernels-without-launch"]


# Priority where states overlap: gc > gil_wait > launch_api > host_sync > host_api > host_work


def test_priorities(tmp_path):
    #  sync     50 --------- 200
    #  malloc            150 ------- 300          sync > api:    150-200 sync
    #  memset                    280 ----- 350    launch > api:  280-300 launch
    #  gil wait                        340 -- 400 gil > launch:  340-350 gil
    #  gc                                 390-450 gc > gil:      390-400 gc
    trace = one_gap().api(1, "cudaStreamSynchronize", 50, 200).api(1, "cudaMalloc", 150, 300)
    trace.api(1, "cudaMemsetAsync", 280, 350).gil(1, "wait", 340, 400).gc(1, 390, 450)
    assert only(trace, tmp_path) == {
        "compute": 100,
        "host_sync": 100,  # 100-200
        "host_api": 80,  # 200-280
        "launch_api": 60 + 50,  # 280-340, 900-950
        "gil_wait": 50,  # 340-390
        "gc": 60,  # 390-450
        "host_work": 450,  # 450-900
        "launch_latency": 50,
    }


def test_each_pair_of_states(tmp_path):
    """A process for each pair: the higher 300-400, the lower 350-500, so 50 of its 150 under the other."""
    calls = {"launch_api": "cudaMemsetAsync", "host_sync": "cudaDeviceSynchronize", "host_api": "cudaMalloc"}
    pairs = list(combinations(("gc", "gil_wait", *calls), 2))
    trace, wanted = TraceBuilder(), []
    for pid, pair in enumerate(pairs, 100):
        one_gap(trace, pid=pid, tid=10 * pid)
        sums = dict(PLAIN, host_work=600)
        for state, start, end in zip(pair, (300, 350), (400, 500), strict=True):
            sums[state] = sums.get(state, 0) + 100
            if state == "gc":
                trace.gc(10 * pid, start, end)
            elif state == "gil_wait":
                trace.gil(10 * pid, "wait", start, end)
            else:
                trace.api(10 * pid, calls[state], start, end)
        wanted.append(sums)
    reduction = reduced(trace, tmp_path)
    assert [spent(reduction, period) for period in range(len(pairs))] == wanted
    assert len(pairs) == 10


def test_inside_the_launching_call_waiting_counts_as_launching(tmp_path):
    # the launch call 900-950 allocates 910-940 inside: it was launching all the same
    assert only(one_gap().api(1, "cuMemAlloc_v2", 910, 940), tmp_path) == PLAIN
