"""Threads are known by what they do, not by their ids."""

from __future__ import annotations

import pytest

from fixtures.builders import TraceBuilder
from tests.comparing import compare
from tests.tiny import label, reduced
from tracediff.execution.sides import Run, Side


def worker(executor: int = 1, pid: int = 100) -> TraceBuilder:
    """Three steps on the thread `executor` of process `pid`."""
    trace = TraceBuilder().process(pid).thread(pid, executor)
    for number in range(3):
        begin = 1000 * number
        trace.range(executor, label(number), begin, begin + 400).range(
            executor, "_schedule", begin + 500, begin + 600
        )
        trace.api(executor, "cudaLaunchKernel", begin + 100, begin + 110, corr=number).kernel(
            number, begin + 200, begin + 300
        )
    return trace


def roles(trace: TraceBuilder, folder) -> dict[int, tuple[str, str]]:
    return {thread.tid & 0xFFFFFF: (thread.role, thread.process) for thread in reduced(trace, folder).threads}


def test_the_executor_is_who_carries_the_labels(tmp_path):
    assert roles(worker(executor=77), tmp_path) == {77: ("executor", "worker")}


def test_roles_by_range(tmp_path):
    expected = {
        "await_response-12": "await-response",
        "handle_response": "dispatch-result",
        "proxy_dispatch_result_thread": "dispatch-result",
        "decode_incrementally": "detokenizer",
        "detokenize": "detokenizer",
        "detokenise 3": "detokenizer",
        "chat_stream_post_processor": "post-processor",
        "tokenize": "tokenizer",
        "LLM.generate_async": "request-submitter",
        "request_queue.put": "request-submitter",
        "my own range 7": "thread of my own range N",
    }
    trace = worker().process(200)
    for tid, text in enumerate(expected, 21):
        trace.thread(200, tid).range(tid, text, 0, 10)
    found = roles(trace, tmp_path)  # of another process, without a GPU
    assert [found[tid] for tid in range(21, 32)] == [(role, "host") for role in expected.values()]


def test_the_executor_keeps_its_role_whatever_else_it_does(tmp_path):
    assert roles(worker().range(1, "await_response-1", 800, 810), tmp_path)[1][0] == "executor"


def test_a_launching_thread_without_telling_ranges(tmp_path):
    trace = worker().thread(100, 2).api(2, "cudaLaunchKernel", 700, 710, corr=50).kernel(50, 720, 730)
    assert roles(trace, tmp_path)[2] == ("launcher of device 0", "worker")


def test_a_thread_that_launches_on_two_devices(tmp_path):
    trace = worker().thread(100, 2)
    for corr, device in ((50, 0), (51, 1)):
        trace.api(2, "cudaLaunchKernel", 700 + corr, 705 + corr, corr=corr).kernel(
            corr, 790 + corr, 795 + corr, device=device
        )
    assert roles(trace, tmp_path)[2][0] == "launcher of device 0+1"


@pytest.mark.parametrize(("labels", "role"), [(False, "launcher of device 0"), (True, "executor")])
def test_of_threads_with_a_gpu_each_none_is_the_executor_but_one_with_labels(tmp_path, labels, role):
    """Whose rounds are the steps differs from run to run: places are compared by device."""
    trace = TraceBuilder().process(100).device(0).device(1).thread(100, 1).thread(100, 2)
    for corr in range(240):
        number, at = divmod(corr, 12)
        for thread in (1, 2):
            begin, mine = 3_000 * number + 200 * at + 100 * thread, 2 * corr + thread
            if at < 10:
                trace.api(thread, "cudaLaunchKernel", begin, begin + 20, corr=mine)
                trace.kernel(mine, begin + 50, begin + 200, name=f"layer {at % 5}", device=thread - 1)
            elif at == 10:
                trace.api(thread, "cudaMemcpyAsync", begin, begin + 20, corr=mine)
                trace.memcpy(mine, begin + 50, begin + 90, kind="DtoH", bytes=64, device=thread - 1)
            else:
                trace.api(thread, "cudaStreamSynchronize", begin, begin + 300)
    for number in range(20 if labels else 0):
        trace.range(1, label(number), 3_000 * number, 3_000 * number + 2_900)
    assert roles(trace, tmp_path) == {1: (role, "worker"), 2: ("launcher of device 1", "worker")}


def test_names_of_the_system_tell_what_python_does_not(tmp_path):
    trace = worker().thread(100, 2, "nccl_watchdog").api(2, "cudaEventQuery", 700, 710)
    trace.thread(100, 3, "python3").api(3, "cudaEventQuery", 700, 710)
    trace.thread(100, 100, "python3").api(100, "cudaEventQuery", 700, 710)
    found = roles(trace, tmp_path)
    assert found[2][0] == "thread nccl_watchdog"
    assert found[3][0] == "thread without ranges"
    assert found[100][0] == "main"  # its number is that of the process


def test_threads_that_only_exist_are_left_out(tmp_path):
    assert set(roles(worker().thread(100, 2, "idle"), tmp_path)) == {1}


def test_a_thread_that_only_waits_for_the_gil_is_there(tmp_path):
    assert roles(worker().gil(2, "wait", 0, 5), tmp_path)[2] == ("thread without ranges", "worker")


def side(name: str, trace: TraceBuilder, folder) -> Side:
    (folder / name).mkdir()
    return Side(name, [Run(name, [reduced(trace, folder / name)])])


def test_threads_meet_by_role_whatever_their_ids(tmp_path):
    one = worker(executor=11).range(12, "await_response-1", 0, 50)
    other = worker(executor=98, pid=555).range(97, "await_response-900", 0, 70).range(97, "send", 60, 70)
    rows = {row.role: row for row in compare(side("a", one, tmp_path), side("b", other, tmp_path)).threads}
    assert set(rows) == {"executor", "await-response"}
    assert rows["executor"].score == 1
    assert rows["await-response"].score == pytest.approx(1 / 2)  # `await_response-N` of it and `send`
    assert rows["await-response"].candidate_ranges == ["await_response-N", "send"]


def test_a_thread_on_one_side_only(tmp_path):
    one, other = worker(), worker().range(3, "decode_incrementally", 0, 50)
    (row,) = [
        row
        for row in compare(side("a", one, tmp_path), side("b", other, tmp_path)).threads
        if row.role == "detokenizer"
    ]
    assert (row.score, row.baseline_range_ns, row.delta_ns, row.baseline_ranges) == (None, None, None, [])
