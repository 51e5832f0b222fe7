"""The oracle on traces that a reader can check by hand."""

import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from fixtures.builders import BROKEN, SCHEMAS, TraceBuilder, global_pid, global_tid, two_steps
from tests.oracle import Period, load, mask_numbers, periods, thread_totals


def label(number: int, ctx: int = 0, tokens: int = 0, gen: int = 4) -> str:
    return f"[Executor] _forward_step {number}: {ctx} ctx reqs, {tokens} ctx tokens, {gen} gen reqs"


def only(trace: TraceBuilder, folder: Path) -> Period:
    """The one whole period of a trace of two steps."""
    (period,) = periods(load(trace.write(folder / "trace.sqlite")))
    assert period.residual_ns == 0
    return period


def spent(period: Period) -> dict[str, int]:
    return {category: ns for category, ns in period.categories.items() if ns}


def one_gap() -> TraceBuilder:
    """A kernel [0, 100), a gap, and the kernel of step 2 at 1000, launched by thread 1 in [900, 950)."""
    trace = TraceBuilder().process(100).thread(100, 1)
    trace.range(1, label(1), -200, -100).range(1, label(2), 850, 960)
    trace.api(1, "cudaLaunchKernel", -150, -120, corr=1).kernel(1, 0, 100, name="first")
    return trace.api(1, "cudaLaunchKernel", 900, 950, corr=2).kernel(2, 1000, 1100, name="second")


def test_numbers_in_a_text_are_masked() -> None:
    assert mask_numbers("step 12 of layer3.0") == "step N of layerN.N"


def test_a_gap_is_divided_at_the_launch_call(tmp_path: Path) -> None:
    period = only(one_gap(), tmp_path)
    assert (period.number, period.phase, period.start_ns, period.end_ns) == (1, "generation", 0, 1000)
    assert spent(period) == {"compute": 100, "host_work": 800, "launch_api": 50, "launch_latency": 50}
    assert period.places["host_work", ""] == 750
    assert period.places["host_work", mask_numbers(label(2))] == 50
    assert period.kernels == {"first": (1, 100, Fraction(100))}


def test_what_was_not_captured_is_absent_and_not_zero(tmp_path: Path) -> None:
    without = only(one_gap(), tmp_path).categories
    assert "gil_wait" not in without and "gc" not in without
    traced = only(one_gap().gil(1, "hold", 0, 10).gc(1, 5000, 5001), tmp_path).categories
    assert traced["gil_wait"] == traced["gc"] == 0


def test_an_op_launched_before_the_gap_began_waited_for_something(tmp_path: Path) -> None:
    trace = TraceBuilder().thread(100, 1).range(1, label(1), 0, 10).range(1, label(2), 20, 60)
    trace.api(1, "cudaLaunchKernel", 1, 5, corr=1).kernel(1, 100, 200)
    trace.api(1, "cudaLaunchKernel", 30, 40, corr=2).kernel(2, 300, 400)
    assert spent(only(trace, tmp_path)) == {"compute": 100, "dependency": 100}


def test_a_call_that_returns_as_the_gap_begins_has_launched(tmp_path: Path) -> None:
    trace = TraceBuilder().thread(100, 1).range(1, label(1), 0, 10).range(1, label(2), 20, 60)
    trace.api(1, "cudaLaunchKernel", 1, 5, corr=1).kernel(1, 100, 200)
    trace.api(1, "cudaLaunchKernel", 30, 200, corr=2).kernel(2, 300, 400)
    assert spent(only(trace, tmp_path)) == {"compute": 100, "dependency": 100}


def test_states_of_the_thread_by_priority(tmp_path: Path) -> None:
    trace = one_gap()
    trace.api(1, "cudaStreamSynchronize", 50, 200)  # host_sync 100..200
    trace.api(1, "cudaMalloc", 150, 300)  # host_api 200..300
    trace.api(1, "cudaMemsetAsync", 280, 350)  # launch_api 280..350
    trace.gil(1, "wait", 340, 400)  # gil_wait 340..400, less the collection
    trace.gc(1, 390, 450)  # gc 390..450
    trace.gil(2, "wait", 450, 850)  # another thread: nobody's business here
    assert spent(only(trace, tmp_path)) == {
        "compute": 100,
        "host_sync": 100,
        "host_api": 80,
        "launch_api": 60 + 50,
        "gil_wait": 50,
        "gc": 60,
        "host_work": 450,
        "launch_latency": 50,
    }


def test_gc_and_gil_inside_the_launch_call_count_as_themselves(tmp_path: Path) -> None:
    trace = one_gap().gc(1, 910, 920, generation=2).gil(1, "wait", 915, 930)
    categories = only(trace, tmp_path).categories
    assert (categories["launch_api"], categories["gc"], categories["gil_wait"]) == (30, 10, 10)


@pytest.mark.parametrize(
    ("name", "category"),
    [
        ("cudaDeviceSynchronize", "host_sync"),
        ("cudaEventSynchronize", "host_sync"),
        ("cuCtxSynchronize", "host_sync"),
        ("cudaMemcpy", "host_sync"),
        ("cuMemcpyDtoH_v2", "host_sync"),
        ("cudaMemcpyAsync", "launch_api"),
        ("cuMemsetD8Async", "launch_api"),
        ("cuLaunchKernelEx", "launch_api"),
        ("cudaLaunchCooperativeKernel", "launch_api"),
        ("cuGraphLaunch", "launch_api"),
        ("cudaLaunchKernel_ptsz_v7000", "launch_api"),
        ("cudaFree", "host_api"),
        ("cudaEventQuery", "host_api"),
        ("cudaStreamIsCapturing", "host_api"),
        ("cudaMallocAsync", "host_api"),
        ("cudaMemset", "host_api"),
    ],
)
def test_the_class_of_a_call(name: str, category: str, tmp_path: Path) -> None:
    plain = only(one_gap(), tmp_path).categories
    called = only(one_gap().api(1, name, 300, 400), tmp_path).categories
    assert called[category] - plain[category] == 100
    assert called["host_work"] - plain["host_work"] == -100


def test_any_call_that_owns_gpu_work_launches(tmp_path: Path) -> None:
    trace = one_gap().api(1, "cudaMemset", 110, 150, corr=9).memset(9, 120, 140)
    assert spent(only(trace, tmp_path))["launch_api"] == 50 + 10 + 10


def test_a_copy_to_pageable_memory_blocks_unless_it_ends_the_gap(tmp_path: Path) -> None:
    trace = one_gap().api(1, "cudaMemcpyAsync", 110, 200, corr=9)
    trace.memcpy(9, 130, 150, kind="DtoH", dst="pageable")
    period = only(trace, tmp_path)
    assert period.categories["memcpy"] == 20
    assert period.categories["host_sync"] == 50  # after the copy, until its call returned
    assert period.categories["launch_api"] == 20 + 50  # before it, the same call is the one that launches


def test_the_outermost_call_is_the_launch(tmp_path: Path) -> None:
    trace = one_gap().api(1, "cuLaunchKernelEx", 910, 940, corr=2)
    assert spent(only(trace, tmp_path)) == spent(only(one_gap(), tmp_path))


def test_gaps_between_nodes_of_one_graph(tmp_path: Path) -> None:
    trace = TraceBuilder().thread(100, 1).range(1, label(1), 0, 10).range(1, label(2), 900, 950)
    trace.api(1, "cudaGraphLaunch", 1, 130, corr=1)
    for node, start in enumerate((100, 120, 160)):
        trace.kernel(1, start, start + 10, graph_node=node)
    trace.memcpy(1, 200, 210, kind="DtoD", graph_node=3)
    trace.api(1, "cudaGraphLaunch", 910, 930, corr=2).kernel(2, 1000, 1010, graph_node=0)
    assert spent(only(trace, tmp_path)) == {
        "compute": 30,
        "memcpy": 10,
        "graph_internal": 10 + 30 + 30,
        "host_work": 700,
        "launch_api": 20,
        "launch_latency": 70,
    }


def test_overlapped_compute_is_shared_and_hides_the_rest(tmp_path: Path) -> None:
    trace = one_gap()
    trace.kernel(1, 0, 60, name="left", stream=8).kernel(1, 50, 160, name="right", stream=9)
    trace.kernel(1, 90, 300, name="ncclDevKernel_AllReduce_Sum", stream=10)
    trace.memcpy(1, 250, 350, stream=11)
    period = only(trace, tmp_path)
    assert period.busy_ns == 350
    assert [period.categories[name] for name in ("compute", "comm", "memcpy")] == [160, 140, 50]
    shares = {name: share for name, (_, _, share) in period.kernels.items()}
    assert shares == {
        "first": Fraction(50, 2) + Fraction(10, 3) + Fraction(40, 2),
        "left": Fraction(50, 2) + Fraction(10, 3),
        "right": Fraction(10, 3) + Fraction(40, 2) + 60,
        "ncclDevKernel_AllReduce_Sum": 140,
    }
    assert (period.kernel_count, period.kernel_wall_ns) == (4, 100 + 60 + 110 + 210)


def test_a_kernel_that_runs_on_is_counted_where_it_starts(tmp_path: Path) -> None:
    trace = one_gap().range(1, label(3), 2000, 2010)
    trace.kernel(2, 1050, 2550, name="long", stream=8)
    trace.api(1, "cudaLaunchKernel", 2001, 2005, corr=3).kernel(3, 2500, 2600, name="third")
    first, second = periods(load(trace.write(tmp_path / "trace.sqlite")))
    assert first.kernels["first"][0] == 1 and "long" not in first.kernels
    assert second.kernels["long"] == (1, 1500, Fraction(50, 2) + 1400)
    assert spent(second) == {"compute": 1500}


def test_steps_follow_the_launch_and_not_the_clock(tmp_path: Path) -> None:
    trace = TraceBuilder().thread(100, 1)
    for number in (1, 2, 3):  # the host is done with all steps before the GPU begins
        trace.range(1, label(number), 10 * number, 10 * number + 8)
        trace.api(1, "cudaLaunchKernel", 10 * number + 1, 10 * number + 3, corr=number)
        trace.kernel(number, 1000 * number, 1000 * number + 900)
    found = periods(load(trace.write(tmp_path / "trace.sqlite")))
    assert [(period.number, period.start_ns, period.end_ns) for period in found] == [
        (1, 1000, 2000),
        (2, 2000, 3000),
    ]
    assert all(spent(period) == {"compute": 900, "dependency": 100} for period in found)


def test_correlation_ids_belong_to_their_process(tmp_path: Path) -> None:
    trace = TraceBuilder()
    for pid, device, shift in ((100, 0, 0), (200, 1, 5000)):
        trace.process(pid).thread(pid, pid + 1)
        for number in (1, 2):
            base = 1000 * number + shift
            trace.range(pid + 1, label(number), base, base + 50)
            trace.api(pid + 1, "cudaLaunchKernel", base + 10, base + 20, corr=number)
            trace.kernel(number, base + 100, base + 200, device=device)
    found = periods(load(trace.write(tmp_path / "trace.sqlite")))
    assert [(p.rank, p.pid, p.device, p.start_ns, p.end_ns) for p in found] == [
        (global_pid(100), 100, 0, 1100, 2100),
        (global_pid(200), 200, 1, 6100, 7100),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[Executor] _forward_step: 2 ctx reqs, 0 gen reqs", (0, 2, None, 0, "context")),
        ("[Executor] _forward_step 7: 2 ctx reqs, 3 gen reqs", (7, 2, None, 3, "mixed")),
        ("[Executor] _forward_step 7: 0 ctx reqs, 0 ctx tokens, 3 gen reqs", (7, 0, 0, 3, "generation")),
        ("ProfilerStep#7", (7, None, None, None, "step")),
    ],
)
def test_labels(text: str, expected: tuple[object, ...], tmp_path: Path) -> None:
    trace = TraceBuilder().thread(100, 1).range(1, text, 0, 10).range(1, text, 20, 30)
    for corr, start in ((1, 1), (2, 21)):
        trace.api(1, "cudaLaunchKernel", start, start + 1, corr=corr).kernel(corr, start + 2, start + 3)
    found = only(trace, tmp_path)
    assert (found.number, found.ctx_reqs, found.ctx_tokens, found.gen_reqs, found.phase) == expected


def test_without_labels_the_whole_capture_is_one_step(tmp_path: Path) -> None:
    trace = TraceBuilder().thread(100, 1).api(1, "cudaLaunchKernel", 0, 5, corr=1)
    trace.kernel(1, 10, 20).kernel(None, 30, 70)
    period = only(trace, tmp_path)
    assert (period.phase, period.start_ns, period.end_ns) == ("step", 10, 70)
    assert spent(period) == {"compute": 50, "unattributed": 10}


def test_an_op_without_a_launch_row_takes_its_neighbours_step(tmp_path: Path) -> None:
    trace = one_gap().kernel(77, 400, 500, name="orphan")
    period = only(trace, tmp_path)
    assert period.kernels["orphan"] == (1, 100, Fraction(100))
    assert spent(period)["unattributed"] == 300


def test_gil_and_gc_of_threads(tmp_path: Path) -> None:
    trace = one_gap().gil(1, "hold", -50, 500).gil(1, "hold", 400, 600).gil(2, "wait", 900, 1200)
    trace.gc(1, 0, 10).gc(1, 0, 10, generation=0)
    capture = load(trace.write(tmp_path / "trace.sqlite"))
    one, two = global_tid(100, 1), global_tid(100, 2)
    totals = thread_totals(capture, global_pid(100))
    assert (totals[one].hold, totals[one].wait, totals[one].gc) == (650, 0, 10)
    (period,) = periods(capture)
    assert (period.gil[one].hold, period.gil[two].wait) == (600, 100)
    assert period.host_gil[two].wait == 0  # the host's window of step 1 ended at 850


@pytest.mark.parametrize("schema", SCHEMAS)
def test_every_schema_reads_alike(schema: str, tmp_path: Path) -> None:
    found = periods(load(two_steps(schema).write(tmp_path / "trace.sqlite")))
    assert [period.number for period in found] == [20, 21]
    for period in found:
        assert spent(period) == {
            "compute": 300,
            "memcpy": 40,
            "host_sync": 60,
            "host_work": 500,
            "launch_api": 50,
            "launch_latency": 50,
        }
        assert period.places["host_work", "_schedule"] == 200


def test_the_command_prints_the_means(tmp_path: Path) -> None:
    path = two_steps().write(tmp_path / "trace.sqlite")
    command = [sys.executable, "-m", "tests.oracle", str(path)]
    root = Path(__file__).parents[2]
    printed = subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=root
    ).stdout.splitlines()
    assert printed[0] == "process 100 device 0: 2 generation periods, us a step"
    assert printed[1].split() == ["period", "1.0"]
    assert "  gc               not captured" in printed
    assert printed[-1].split() == ["worst", "residual", "0", "ns"]


@pytest.mark.parametrize(
    "name",
    ["foreign_tables", "hostile_names", "kernels_without_launch", "no_kernels", "nvtx_only",
     "runtime_without_kernel", "zero_tables"],
)  # fmt: skip
def test_poor_exports_load(name: str, tmp_path: Path) -> None:
    found = periods(load(BROKEN[name](tmp_path / "trace.sqlite")))
    counts = {"foreign_tables": 2, "hostile_names": 2, "kernels_without_launch": 2, "no_kernels": 1}
    assert len(found) == counts.get(name, 0)
    assert all(period.residual_ns == 0 for period in found)
