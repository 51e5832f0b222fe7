"""A torch.profiler trace gives what an nsys export of the same program gives, and says what it lacks."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import msgspec
import polars as pl
import pytest

from fixtures.builders import TraceBuilder
from fixtures.builders.torch_trace import TorchTrace
from tests.tiny import idle, label, read, spent
from tracediff.comparison.comparability import facts
from tracediff.comparison.compare import compare
from tracediff.comparison.host_time import host_only_notes
from tracediff.errors import TracediffError
from tracediff.execution.run import reduce_file, reduce_sides
from tracediff.execution.sides import Reading, Run, Side
from tracediff.formats.capture import load_capture
from tracediff.formats.inputs import resolve
from tracediff.formats.kineto import (
    convert,
    copy_kinds,
    driver_copy,
    frame_name,
    nanoseconds,
    peek,
    rank_of,
    short_kernel_name,
)
from tracediff.formats.recognise import recognise
from tracediff.report.grammar import told

PID, EXECUTOR = 100, 101
# see `steps`: of every 1000 ns 300 of a kernel, 40 of a copy, 60 in the synchronising call after it, then 500 of the
# host until the next launching call of 50 begins, and 50 from its return to the kernel
STEP = {
    "compute": 300,
    "memcpy": 40,
    "host_sync": 60,
    "host_work": 500,
    "launch_api": 50,
    "launch_latency": 50,
}


def steps(trace, count: int = 3, *, kernel_ns: int = 300):
    """Label 0 to 400, launch at 100, kernel at 200, copy after it, synchronise 450 to 600, `_schedule` 700 to 900.

    The program of `fixtures.builders.two_steps`, for either builder. A longer kernel moves all that follows.
    """
    nsys = isinstance(trace, TraceBuilder)
    if nsys:
        trace.process(PID).device(0).thread(PID, EXECUTOR)
    period = 700 + kernel_ns
    later = kernel_ns - 300
    for step in range(count):
        base, corr = period * step, 10 * step
        trace.range(EXECUTOR, label(step + 20), base, base + 400)
        trace.api(EXECUTOR, "cudaLaunchKernel", base + 100, base + 150, corr=corr + 1)
        trace.kernel(corr + 1, base + 200, base + 200 + kernel_ns, name="gemm", grid=(132, 1, 1))
        if step < count - 1:
            trace.api(EXECUTOR, "cudaMemcpyAsync", base + 410, base + 440, corr=corr + 2)
            trace.memcpy(
                corr + 2,
                base + later + 500,
                base + later + 540,
                kind="DtoH",
                **({} if nsys else {"memory": "Device -> Pinned"}),
            )
            trace.api(EXECUTOR, "cudaStreamSynchronize", base + 450, base + later + 600, corr=corr + 3)
            trace.range(EXECUTOR, "_schedule", base + later + 700, base + later + 900)
    return trace


def torch_trace(folder, trace: TorchTrace, name: str = "t.json"):
    return trace.write(folder / name)


def reduced(folder, trace: TorchTrace, name: str = "t.json", **reading):
    return read(torch_trace(folder, trace, name), **reading)


def tables(folder, trace: TorchTrace, **options) -> sqlite3.Connection:
    return sqlite3.connect(convert(torch_trace(folder, trace), folder / "out.sqlite", **options))


def slug(folder, trace: TorchTrace) -> str:
    with pytest.raises(TracediffError) as error:
        reduced(folder, trace)
    return error.value.slug


# The same program, the same numbers


@pytest.mark.parametrize("name", ["t.json", "t.json.gz", "host_1.17000.pt.trace.json.gz"])
def test_a_step_is_accounted_for_as_from_nsys(name, tmp_path):
    reduction = reduced(tmp_path, steps(TorchTrace()), name)
    assert reduction.periods["number"].to_list() == [20, 21]
    assert [spent(reduction, period) for period in (0, 1)] == [STEP] * 2
    assert reduction.residual_ns == 0
    assert idle(reduction, "place", cause="host_work")["_schedule"] == 400
    assert reduction.step_source == "tensorrt-llm"
    assert reduction.devices == [(0, "NVIDIA H200", 132, 0)]


def test_every_table_is_that_of_nsys(tmp_path):
    reading = Reading(threads=1, two_profilers=True)  # without domains, which torch.profiler does not know
    nsys = reduce_file(steps(TraceBuilder()).write(tmp_path / "t.sqlite"), reading)
    torch = reduced(tmp_path, steps(TorchTrace()), two_profilers=True)
    for table in ("periods", "strata", "idle", "kernels", "keys", "ranges"):
        one, other = (getattr(reduction, table) for reduction in (nsys, torch))
        assert one.sort(one.columns).equals(other.sort(other.columns)), table


def test_what_is_captured_is_told_apart_from_what_is_not(tmp_path):
    reduction = reduced(tmp_path, steps(TorchTrace()))
    captured = {kind for kind, state in reduction.coverage.items() if state == "captured"}
    assert captured == {"kernels", "cuda_api", "nvtx", "graphs", "memcpy", "sync"}
    assert set(reduction.coverage.values()) == {"captured", "not_captured"}
    assert reduction.graph_mode == "node"
    assert reduction.meta["CudaDriverVersion"] == ("13000",)
    assert dict(facts(Side("a", [Run("a", [reduction])])))["cuda"] == "13.0"
    assert reduction.meta["EXPORT_PRODUCT_VERSION"] == ("torch.profiler, CUPTI 28",)
    assert [note.slug for note in reduction.warnings] == ["torch-profiler"]


def test_one_profiler_against_the_other(tmp_path):
    """The candidate's kernel is 100 ns longer; what nsys has no ranges for names nothing on either side."""
    before = steps(TraceBuilder(), 6).write(tmp_path / "before.sqlite")
    trace = steps(TorchTrace(), 6, kernel_ns=400)
    for step in range(5):
        trace.range(EXECUTOR, "aten::item", 1100 * step + 900, 1100 * step + 950, cat="cpu_op")
    after = torch_trace(tmp_path, trace)
    sides = reduce_sides([resolve(str(before)), resolve(str(after))], Reading(threads=1))
    assert "aten::item" not in idle(sides[1].parts[0], "place")
    result = compare(sides[0], sides[1])
    assert (result.step.baseline_ns, result.step.candidate_ns) == (1000, 1100)
    assert {name: ns for name, ns in result.accounting.delta.items() if ns} == {"compute": 100}
    checks = {check.name: check for check in result.comparability.checks}
    assert (checks["nsys"].status, checks["clocks"].status, checks["gpu"].status) == ("fail", "ok", "ok")
    assert result.verdict == "not_comparable"
    assert checks["gpu_count"].status == "ok"
    assert result.coverage.candidate["gil"] == "not_captured"


def test_the_operators_of_torch_name_host_work_where_both_sides_have_them(tmp_path):
    trace = steps(TorchTrace()).range(EXECUTOR, "aten::item", 750, 850, cat="cpu_op")
    found = idle(reduced(tmp_path, trace), "place", cause="host_work")
    assert (found["_schedule"], found["aten::item"]) == (300, 100)


@pytest.mark.slow
def test_the_same_warning_of_many_traces_is_given_once(tmp_path):
    sides = []
    for side in ("a", "b"):
        (tmp_path / side).mkdir()
        for run in range(2):
            torch_trace(tmp_path / side, steps(TorchTrace(), 4 + run), f"{run}.json")
        sides.append(resolve(str(tmp_path / side)))
    before, after = reduce_sides(sides, Reading(threads=1))
    result = compare(before, after)
    assert [note.slug for note in result.warnings].count("torch-profiler") == 1


# Steps


def test_profiler_steps_are_steps_where_there_are_no_labels(tmp_path):
    trace = TorchTrace()
    for step in range(3):
        base = 1000 * step
        trace.range(EXECUTOR, f"ProfilerStep#{step + 4}", base, base + 1000)
        trace.event(
            "gpu_user_annotation",
            f"ProfilerStep#{step + 4}",
            base + 199,
            base + 502,
            0,
            7,
            {"External id": 9},
        )
        trace.api(EXECUTOR, "cudaLaunchKernel", base + 100, base + 150, corr=step + 1)
        trace.kernel(step + 1, base + 200, base + 500)
    reduction = reduced(tmp_path, trace)
    assert reduction.step_source == "profiler-step"
    assert reduction.periods["number"].to_list() == [4, 5]
    assert spent(reduction)["compute"] == 300  # gpu_user_annotation is no work


# Times


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("4399230783764.964", 4399230783764964),
        ("1712195512345678.123", 1712195512345678123),  # a float would end in 250
        ("0.001", 1),
        ("-0.002", -2),
        ("12", 12000),
        ("12.5", 12500),
        ("12.0005", 12000),  # half to even
        ("12.0015", 12002),
        ("1.5e3", 1500000),
        ('"7.25"', 7250),
        ("1e999999999", None),
        ("12345678901234567890.5", None),
        ("null", None),
        ("NaN", None),
        ("", None),
    ],
)
def test_decimals_are_read_exactly(text, ns):
    assert nanoseconds(msgspec.Raw(text.encode())) == ns


def test_whole_microseconds_are_said(tmp_path):
    """Kineto before PyTorch 2.4: epoch time in whole microseconds, capital categories, streams as texts."""
    trace = TorchTrace()
    for step in range(8):
        ts, corr = 1621401187223197 + 100 * step, step + 1
        trace.raw(
            {
                "ph": "X",
                "cat": "Operator",
                "name": f"ProfilerStep#{step}",
                "pid": 24572,
                "tid": "24572",
                "ts": ts,
                "dur": 90,
            }
        )
        trace.raw({"ph": "X", "cat": "Runtime", "name": "cudaLaunchKernel", "pid": 24572, "tid": 24572, "ts": ts + 10, "dur": 5,
                   "args": {"correlation": corr}})  # fmt: skip
        trace.raw({"ph": "X", "cat": "Kernel", "name": "gemm", "pid": 0, "tid": "stream 7", "ts": ts + 20, "dur": 30,
                   "args": {"device": "0", "correlation": corr, "grid": [1, 2, 3], "block": "odd"}})  # fmt: skip
    reduction = reduced(tmp_path, trace)
    assert spent(reduction) == {
        "compute": 30_000,
        "host_work": 60_000,
        "launch_api": 5_000,
        "launch_latency": 5_000,
    }
    assert [note.slug for note in reduction.warnings] == ["torch-profiler", "whole-microseconds"]
    assert reduction.keys.select("grid", "block").rows() == [("1,2,3", "")]


def test_times_begin_at_the_earliest_event_as_in_viewers(tmp_path):
    """The span of the profiler itself begins first and is written last."""
    trace = TorchTrace().range(EXECUTOR, "one", 500, 600).kernel(1, 650, 700)
    trace.event("gpu_user_annotation", "one", 450, 700, 0, 7)
    trace.event("Trace", "PyTorch Profiler (0)", 200, 900, "Spans", "PyTorch Profiler")
    with closing(tables(tmp_path, trace)) as db:
        found = [db.execute(f'SELECT "start", "end" FROM {table}').fetchall() for table in (
            "NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_KERNEL"
        )]  # fmt: skip
    assert found == [[(300, 400)], [(450, 500)]]


# What is what


def test_python_gc_is_a_pause_where_it_was_recorded(tmp_path):
    trace = steps(TorchTrace()).range(EXECUTOR, "Python GC", 750, 850, cat="python_function")
    reduction = reduced(tmp_path, trace)
    assert spent(reduction) == {**STEP, "host_work": 400, "gc": 100}
    assert reduction.coverage["gc"] == "captured"


@pytest.mark.parametrize("named", [True, False])
def test_the_nodes_of_a_graph_are_known_by_name_or_by_their_launch(named, tmp_path):
    trace = TorchTrace()
    for step in range(2):
        base, corr = 1000 * step, step + 1
        trace.range(EXECUTOR, label(step), base, base + 400)
        trace.api(EXECUTOR, "cudaGraphLaunch", base + 100, base + 150, corr=corr)
        for node, (start, end) in enumerate([(200, 300), (320, 400)]):
            trace.kernel(
                corr, base + start, base + end, name=f"k{node}", graph_node=node + 5 if named else None
            )
        trace.memset(corr, base + 430, base + 450)
    assert spent(reduced(tmp_path, trace)) == {
        "compute": 180, "memcpy": 20, "graph_internal": 50, "host_work": 650, "launch_api": 50, "launch_latency": 50,
    }  # fmt: skip


def test_a_kernel_outside_a_graph_is_no_node(tmp_path):
    trace = TorchTrace().api(1, "cudaGraphLaunch", 0, 5, corr=1).api(1, "cudaLaunchKernel", 6, 9, corr=2)
    trace.kernel(1, 10, 20).kernel(2, 30, 40, graph_node=0)
    with closing(tables(tmp_path, trace)) as db:
        nodes = dict(
            db.execute("SELECT correlationId, graphNodeId FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchall()
        )
    assert nodes[1] > 0
    assert nodes[2] == 0  # 0 is none, as in nsys


@pytest.mark.parametrize("named", [True, False])
def test_the_drivers_kernels_for_the_copies_of_a_graph_are_copies(named, tmp_path):
    """A graph of a kernel (100), a copy (20) and a memset (10) with gaps of 10; the same names outside stay kernels."""
    trace = TorchTrace()
    for step in range(3):
        base, corr, node = 1000 * step, 10 * step, (5, 6, 7) if named else (None,) * 3
        trace.range(EXECUTOR, label(step), base, base + 400)
        trace.api(EXECUTOR, "cudaGraphLaunch", base + 100, base + 150, corr=corr + 1)
        trace.kernel(corr + 1, base + 200, base + 300, graph_node=node[0])
        trace.kernel(corr + 1, base + 310, base + 330, name="memcpy32_post", graph_node=node[1])
        trace.kernel(corr + 1, base + 340, base + 350, name="memset32", graph_node=node[2])
        trace.api(EXECUTOR, "cudaLaunchKernel", base + 160, base + 170, corr=corr + 2)
        trace.kernel(corr + 2, base + 350, base + 400, name="memcpy32_post", graph_node=0 if named else None)
    reduction = reduced(tmp_path, trace)
    assert spent(reduction) | {"host_work": 0} == {
        "compute": 150, "memcpy": 30, "graph_internal": 20, "launch_api": 50, "launch_latency": 50, "host_work": 0,
    }  # fmt: skip
    counts = reduction.kernels.join(reduction.keys, left_on="key", right_on="id").filter(period=0)
    assert dict(counts.select("name", "count").rows()) == {
        "kernel": 1, "[memcpy DtoD]": 1, "[memset]": 1, "memcpy32_post": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "what"),
    [("memcpy32_post", "memcpy"), ("memcpy128", "memcpy"), ("memset32", "memset"), ("memcpy32_post_mine", None),
     ("my::memcpy32", None), ("memcpy_kernel", None)],
)  # fmt: skip
def test_which_kernels_are_the_drivers(name, what):
    assert driver_copy(name) == what


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("Memcpy HtoD (Pageable -> Device)", (1, 0, 2)),
        ("Memcpy DtoH (Device -> Pageable)", (2, 2, 0)),
        ("Memcpy DtoD (Device -> Device)", (8, 2, 2)),
        ("Memcpy PtoP (Device -> Device)", (10, 2, 2)),
        ("Memcpy DtoH (Device -> Pinned)", (2, 2, 1)),
        ("Memcpy XtoY (Moon -> Device)", (0, None, 2)),
        ("a copy", (0, None, None)),
    ],
)
def test_copies_by_their_names(name, kinds):
    assert copy_kinds(name) == kinds


def test_a_copy_to_pageable_memory_blocks(tmp_path):
    trace = TorchTrace().api(1, "cudaMemcpyAsync", 0, 50, corr=1)
    trace.memcpy(1, 10, 40, kind="DtoH", memory="Device -> Pageable", nbytes=77)
    capture = load_capture(torch_trace(tmp_path, trace), tmp_path)
    assert capture.db.execute("SELECT bytes, pageable_dtoh, stream, device FROM op").fetchall() == [
        (77, True, 7, 0)
    ]
    capture.close()


@pytest.mark.parametrize(
    ("name", "short"),
    [
        (
            "void at::native::vectorized_gather_kernel<16, long>(char*, char*, long)",
            "vectorized_gather_kernel",
        ),
        ("void at::native::(anonymous namespace)::norm_kernel<float, true>(int, float)", "norm_kernel"),
        ("std::enable_if<(1 > 0), void>::type a::b<int>::run<2>(int)", "run"),
        ("triton_poi_fused_add_0", "triton_poi_fused_add_0"),
        ("", ""),
        ("(odd)", "(odd)"),
    ],
)
def test_short_names(name, short):
    assert short_kernel_name(name) == short


@pytest.mark.parametrize(
    ("frame", "name"),
    [
        ("/home/jane/secret/serve/loop.py(12): step", "serve/loop.py(12): step"),
        ("C:\\Users\\jane\\loop.py(12): step", "jane/loop.py(12): step"),
        ("torch/nn/modules/linear.py(130): forward", "torch/nn/modules/linear.py(130): forward"),
        ("<built-in method linear of type object at 0x7ff2db2bc100>", "<built-in method linear of type>"),
        ("nn.Module: Linear_0", "nn.Module: Linear_0"),
    ],
)
def test_frames_of_python_name_no_home_folder_and_no_address(frame, name):
    assert frame_name(frame) == name


def test_threads_that_nsys_has_no_bits_for(tmp_path):
    trace = TorchTrace(pid=4194303)
    for tid in (1_987_654_321, 5, "odd", 16777215):
        trace.range(tid, f"on {tid}", 0, 10)  # type: ignore[arg-type]
    with closing(tables(tmp_path, trace)) as db:
        found = db.execute("SELECT globalTid >> 24, globalTid & 16777215 FROM NVTX_EVENTS").fetchall()
    assert found == [(4194303, 16777215), (4194303, 5), (4194303, 16777214), (4194303, 16777213)]


def test_rows_that_are_no_work_on_the_gpu(tmp_path):
    trace = TorchTrace().kernel(1, 0, 10)
    trace.event("cuda_sync", "Stream Synchronize", 10, 20, 0, 7, {"correlation": 3})
    trace.event("gpu_user_annotation", "step", 0, 30, 0, 7)
    trace.event("overhead", "Activity Buffer Request", 0, 30, -1, 0)
    trace.event("Trace", "PyTorch Profiler (0)", 0, 30, "Spans", "PyTorch Profiler")
    trace.raw({"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": 1.0})
    with closing(tables(tmp_path, trace)) as db:
        rows = [db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in (
            "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS"
        )]  # fmt: skip
    assert rows == [1, 0, 0, 0]


def test_nothing_of_the_machine_is_kept(tmp_path):
    trace = steps(TorchTrace())
    path = torch_trace(tmp_path, trace)
    out = convert(path, tmp_path / "out.sqlite").read_bytes()
    assert b"secret-host" in path.read_bytes()
    assert b"/home/someone" in path.read_bytes()
    assert b"secret-host" not in out
    assert b"/home/someone" not in out
    assert b"142BAB1F" not in out


# What cannot be read


def test_traces_of_several_processes_in_one_file(tmp_path):
    trace = TorchTrace(pid=100).api(1, "cudaLaunchKernel", 0, 5, corr=1).kernel(1, 10, 20)
    trace.event("cuda_runtime", "cudaLaunchKernel", 0, 5, 200, 1, {"correlation": 1})
    assert slug(tmp_path, trace) == "kineto-merged"


def without(trace: TorchTrace, *keys: str) -> TorchTrace:
    """The trace with these arguments of GPU work taken away."""
    for at, text in enumerate(trace.events):
        event = json.loads(text)
        if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"):
            event["args"] = {key: value for key, value in event["args"].items() if key not in keys}
            trace.events[at] = json.dumps(event)
    return trace


def as_hip(trace: TorchTrace) -> TorchTrace:
    """The trace as ROCm's: calls of HIP, and names of kernels with the suffix of their descriptor.

    Fields as in pytorch/kineto, libkineto/src/RocprofActivity_inl.h; head as of an MI300X (AMD-AGI/TraceLens).
    """
    trace.events = [
        text.replace('"cudaLaunch', '"hipLaunch').replace('"cuda', '"hip').replace('"hip_runtime"', '"cuda_runtime"')
        .replace('"name": "gemm"', '"name": "gemm.kd"') for text in trace.events
    ]  # fmt: skip
    trace.head = {
        "schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "AMD Instinct MI300X", "warpSize": 64, "numSms": 304}],
        "roctracer_version": "4.1", "hip_runtime_version": "60131199",
    }  # fmt: skip
    return trace


def test_a_trace_of_an_amd_gpu_is_read_like_one_of_cuda(tmp_path):
    hip, cuda = (
        reduced(tmp_path, made, name)
        for made, name in ((as_hip(steps(TorchTrace())), "hip.json"), (steps(TorchTrace()), "cuda.json"))
    )
    assert spent(hip) == spent(cuda)
    assert {column: ns for column, ns in spent(hip).items() if ns} == STEP
    assert hip.keys["name"].to_list() == cuda.keys["name"].to_list()  # without .kd
    assert [name for _, name, *_ in hip.devices] == ["AMD Instinct MI300X"]
    assert hip.meta["EXPORT_PRODUCT_VERSION"] == ("torch.profiler, roctracer 4.1",)


def test_calls_of_hip_have_a_category_of_their_own_since_2026(tmp_path):
    made = as_hip(steps(TorchTrace()))
    made.events = [text.replace('"cuda_runtime"', '"hip_runtime"') for text in made.events]
    assert spent(reduced(tmp_path, made)) == spent(reduced(tmp_path, steps(TorchTrace()), "cuda.json"))


def test_an_amd_trace_whose_kernels_say_not_what_launched_them(tmp_path):
    made = without(as_hip(steps(TorchTrace())), "correlation")
    path = torch_trace(tmp_path, made)
    with pytest.raises(TracediffError) as error:
        convert(path, tmp_path / "out.sqlite")
    assert error.value.slug == "kineto-rocm"
    assert "no correlation" in str(error.value)


def test_annotations_on_the_gpu_are_no_kernels(tmp_path):
    made = steps(TorchTrace())
    made.event("gpu_user_annotation", "ProfilerStep#3", 100, 1000, 0, 7, {"External id": 1})
    with tables(tmp_path, made) as db:
        assert db.execute("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchone() == (3,)


def test_odd_times_cost_an_event_at_most(tmp_path):
    # floats as Python writes them, a length below zero, no number
    made = TorchTrace(zero=0).api(1, "cuLaunchKernel", 0, 5_000, corr=1, cat="cuda_driver")
    for ts, dur in (("12.5", "1e1"), ("40", "-3.5"), ("NaN", "1"), ("60.0", "NaN")):
        made.raw(f'{{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": {ts}, "dur": {dur},'
                 ' "args": {"correlation": 1, "device": 0, "stream": 7}}')  # fmt: skip
    with tables(tmp_path, made) as db:
        found = db.execute('SELECT start, "end" FROM CUPTI_ACTIVITY_KIND_KERNEL ORDER BY 1').fetchall()
    assert found == [(12_500, 22_500), (40_000, 40_000), (60_000, 60_000)]


# What is said behind the events


def metadata_first(trace: TorchTrace) -> str:
    """The trace as a program writes it that adds a key of its own: Kineto's keys come behind the events (AMD-AGI/TraceLens)."""
    return json.dumps(
        {"metadata": {"num_errors": 0}, "traceEvents": [json.loads(text) for text in trace.events]}
        | trace.head
    )


def test_a_trace_that_begins_with_metadata_is_recognised_and_read(tmp_path):
    path = tmp_path / "t.json"
    path.write_text(metadata_first(steps(of_rank(1, 4))))
    kind = recognise(path)
    assert kind is not None and kind.slug == "torch-trace"
    assert rank_of(path) == 1
    found = reduce_file(path, Reading(threads=1))
    assert spent(found) == spent(reduced(tmp_path, steps(TorchTrace()), "plain.json"))
    assert [name for _, name, *_ in found.devices] == ["NVIDIA H200"]
    assert found.meta["RANK"] == ("1 of 4",)


def test_a_long_trace_without_marks_is_told_by_its_first_events(tmp_path):
    # the first megabyte ends within an event
    made = TorchTrace()
    for number in range(8000):
        made.range(EXECUTOR, f"operator {number}", 10 * number, 10 * number + 5, cat="cpu_op")
    text = metadata_first(made)
    assert len(text) > 1 << 20
    (tmp_path / "t.json").write_text(text)
    assert peek(tmp_path / "t.json") is not None


def test_other_chrome_traces_are_still_none(tmp_path):
    path = tmp_path / "t.json"
    path.write_text(
        '{"metadata": {}, "traceEvents": [{"ph": "X", "cat": "v8", "name": "GC", "ts": 1, "dur": 2, "pid": 1, "tid": 1}]}'
    )
    assert peek(path) is None
    path.write_text('{"metadata": {}, "traceEvents": [{"ph": "s", "cat": "ac2g", "ts": 1')
    assert peek(path) is None


def test_a_chrome_trace_of_another_tool(tmp_path):
    trace = TorchTrace().event("disabled-by-default-v8", "V8.GC", 0, 5, 1, 1)
    assert slug(tmp_path, trace) == "not-kineto"


def test_a_trace_of_the_host_alone(tmp_path):
    trace = TorchTrace()
    for step in range(4):
        trace.range(EXECUTOR, label(step), 1000 * step, 1000 * step + 400)
    reduction = reduced(tmp_path, trace)
    assert reduction.periods["number"].to_list() == [0, 1, 2]
    assert {column for column, ns in spent(reduction).items() if ns} == {"host_work"}


# Folders


def of_rank(rank: int, size: int) -> TorchTrace:
    trace = TorchTrace(pid=100 + rank)
    trace.head["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": size}
    return trace


def files(side) -> list[list[str]]:
    return [[path.name for path in run.files] for run in side.runs]


def test_traces_that_name_their_rank_are_one_run(tmp_path):
    for name, rank in (
        ("h_11.171.pt.trace.json", 1),
        ("h_12.169.pt.trace.json.gz", 0),
        ("h_13.170.pt.trace.json", 2),
    ):
        torch_trace(tmp_path, of_rank(rank, 3), name)
    (tmp_path / "notes.json").write_text('{"about": "something else"}')
    side = resolve(str(tmp_path))
    assert files(side) == [["h_12.169.pt.trace.json.gz", "h_11.171.pt.trace.json", "h_13.170.pt.trace.json"]]


def test_repeats_of_one_rank_are_runs(tmp_path):
    for run in range(3):
        torch_trace(tmp_path, of_rank(0, 1), f"r{run}.json")
    assert files(resolve(str(tmp_path))) == [["r0.json"], ["r1.json"], ["r2.json"]]


def test_names_that_tell_runs_and_ranks_are_believed(tmp_path):
    for run in range(2):
        for rank in range(2):
            torch_trace(tmp_path, of_rank(rank, 2), f"run{run}.rank{rank}.json")
    assert files(resolve(str(tmp_path))) == [
        ["run0.rank0.json", "run0.rank1.json"], ["run1.rank0.json", "run1.rank1.json"],
    ]  # fmt: skip


def test_ranks_of_several_runs_in_one_heap_are_not_guessed_at(tmp_path):
    for name, rank in (("a", 0), ("b", 1), ("c", 0), ("d", 1)):
        torch_trace(tmp_path, of_rank(rank, 2), f"{name}.json")
    with pytest.raises(TracediffError) as error:
        resolve(str(tmp_path))
    assert error.value.slug == "ranks-unclear"


def test_json_beside_exports_of_nsys_is_left_alone(tmp_path):
    torch_trace(tmp_path, TorchTrace())
    steps(TraceBuilder()).write(tmp_path / "a.sqlite")
    assert files(resolve(str(tmp_path))) == [["a.sqlite"]]


@pytest.mark.parametrize("name", ["x.json", "x.json.gz", "x.pt.trace.json", "x.pt.trace.json.gz"])
def test_the_label_of_a_trace(name, tmp_path):
    assert resolve(str(torch_trace(tmp_path, TorchTrace(), name))).label == "x"


@pytest.mark.slow
def test_ranks_of_a_run_are_compared_as_ranks(tmp_path):
    for side in ("a", "b"):
        (tmp_path / side).mkdir()
        for rank in range(2):
            torch_trace(tmp_path / side, steps(of_rank(rank, 2), 5), f"h_{rank}.json")
    before, after = reduce_sides([resolve(str(tmp_path / side)) for side in ("a", "b")], Reading(threads=1))
    result = compare(before, after)
    assert [(len(side.runs), len(side.parts)) for side in (before, after)] == [(1, 2)] * 2
    assert {check.name: check.baseline for check in result.comparability.checks}["ranks"] == "2"
    assert pl.concat([part.periods for part in before.parts])["pid"].unique().sort().to_list() == [100, 101]


@pytest.mark.parametrize(
    ("before", "after", "status", "message"),
    [
        ((0, 2), (0, 2), "ok", ""),
        ((0, 2), (1, 2), "fail", "other ranks of the program: compare each rank with itself, or all of them"),
        ((0, 2), (0, 4), "warn", "other numbers of ranks: figures are means over the ranks of each side"),
    ],
)
def test_other_ranks_are_not_compared_and_other_world_sizes_are_told(
    before, after, status, message, tmp_path
):
    paths = [
        torch_trace(tmp_path, steps(of_rank(*one), 5), f"{name}.json")
        for name, one in (("a", before), ("b", after))
    ]
    result = compare(*reduce_sides([resolve(str(path)) for path in paths], Reading(threads=1)))
    (check,) = [one for one in result.comparability.checks if one.name == "ranks"]
    assert (check.status, told(check.said)) == (status, message)
    if status == "fail":
        assert (check.baseline, check.candidate) == tuple(
            f"rank {rank} of {size}" for rank, size in (before, after)
        )
    assert (result.verdict == "not_comparable") == (status == "fail")


# Advice


def test_what_lacks_kernels_or_steps_is_told_how_torch_records_them(tmp_path):
    host = TorchTrace()
    for step in range(4):
        host.range(EXECUTOR, label(step), 1000 * step, 1000 * step + 400)
    # one label before all of the work
    before = TorchTrace().range(EXECUTOR, "warm up 3", 0, 5)
    before.api(EXECUTOR, "cudaLaunchKernel", 10, 20, corr=1).kernel(1, 100, 200)
    once = TorchTrace().api(EXECUTOR, "cudaLaunchKernel", 10, 20, corr=1).kernel(1, 100, 200)
    cases = (
        (before, r"warm up (\d+)", "one-step", "profile.step()"),
        (once, None, "no-steps", "profile.step()"),
        (steps(TorchTrace()), r"no such (\d+)", "no-steps", ""),
        (once, r"no such (\d+)", "no-steps", "record_function"),
    )  # fmt: skip
    for number, (made, pattern, expected, advice) in enumerate(cases):
        if pattern is None:  # nobody asked for steps: the capture is one, and a warning says why
            (note,) = reduced(tmp_path, made, f"{number}.json").warnings[:1]
            assert note.slug == "steps-not-found" and expected == "no-steps"
            said = note.message
        else:
            with pytest.raises(TracediffError) as error:
                reduced(tmp_path, made, f"{number}.json", step_regex=pattern)
            assert error.value.slug == expected
            said = f"{error.value} {error.value.fix}"
        assert advice in said
        assert "nvtx" not in said.lower() and "nsys" not in said.lower() and "TLLM" not in said
    side = Side("host", [Run("host", [reduced(tmp_path, host)])])
    (note,) = host_only_notes([side])
    assert "ProfilerActivity.CUDA" in note.message
    said = note.message
    assert "nvtx" not in said.lower() and "nsys" not in said.lower() and "TLLM" not in said
