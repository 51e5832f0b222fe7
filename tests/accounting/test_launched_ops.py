"""What a step launched: the key of its ops, first occurrences of kernels, and the common orders, on traces told op by op."""

from __future__ import annotations

import polars as pl
import pytest

from fixtures.builders import TraceBuilder
from tests.tiny import label, reduced
from tracediff.accounting.reduction import StepSequence


def steps(*launched: str, trace: TraceBuilder | None = None, pid: int = 100, device: int = 0) -> TraceBuilder:
    """Step k launches its ops, words of a text, in [1000 k, 1000 k + 1000), and they run in it, 100 ns apart.

    copy and memset are those, all else are names of kernels; a digit behind a name is its grid. The last step is cut.
    """
    tid, trace = pid + device, trace or TraceBuilder().process(pid)
    if not device:
        trace.thread(pid, tid)
    for number, text in enumerate(launched):
        if not device:
            trace.range(tid, label(number), 1000 * number, 1000 * number + 900)
        for place, name in enumerate(text.split()):
            at = 1000 * number + 100 * place + 5 * device
            trace.api(pid, "cudaLaunchKernel", at + 1, at + 3, corr=(corr := at + 1))
            where = {"device": device, "pid": pid}
            if name == "copy":
                trace.memcpy(corr, at + 10, at + 50, **where)
            elif name == "memset":
                trace.memset(corr, at + 10, at + 50, **where)
            else:
                grid = int(name.strip("abcdefgh") or 1), 1, 1
                trace.kernel(corr, at + 10, at + 50, name.rstrip("0123456789"), grid=grid, **where)
    return trace


def keys(folder, *launched: str) -> list[int]:
    return reduced(steps(*launched), folder).periods["op_key"].to_list()


# The key of the ops


def test_the_order_does_not_matter_and_all_else_does(tmp_path):
    found = keys(
        tmp_path, "a b copy", "copy b a", "a b2 copy", "a b memset", "a b b copy", "a b", "a c copy", "a"
    )
    assert found[0] == found[1]
    assert len(set(found)) == 6  # seven whole steps, two of them alike


def test_another_block_is_another_key(tmp_path):
    trace = TraceBuilder().thread(100, 1)
    for number, threads in enumerate((128, 256, 128, 128)):
        at = 1000 * number
        trace.range(1, label(number), at, at + 900).api(
            1, "cudaLaunchKernel", at + 1, at + 3, corr=number + 1
        )
        trace.kernel(number + 1, at + 10, at + 50, block=(threads, 1, 1))
    first, second, third = reduced(trace, tmp_path).periods["op_key"]
    assert first == third != second


def test_another_export_gives_the_same_key(tmp_path):
    """There the kernel `a` of the last step takes the first row of `keys`, and b and c move down by one."""
    (tmp_path / "other").mkdir()
    assert keys(tmp_path, "b c copy", "c") == keys(tmp_path / "other", "b c copy", "a")


def test_numbers_of_ops_and_copies(tmp_path):
    """An op counts where it starts: the kernel of step 0 runs on into step 1."""
    trace = steps("a copy memset", "b", "copy copy a", "a")
    trace.api(100, "cudaLaunchKernel", 500, 503, corr=9000).kernel(9000, 600, 1500, "c")
    periods = reduced(trace, tmp_path).periods
    assert periods.select("ops", "copies").rows() == [(4, 2), (1, 0), (3, 2)]
    assert periods.schema["op_key"] == pl.UInt64
    assert periods.schema["ops"] == periods.schema["copies"] == pl.Int64


# First occurrences


def test_the_first_step_and_steps_with_a_new_name_are_new(tmp_path):
    """Another grid of a known kernel is none, nor is a copy, nor a name seen before."""
    periods = reduced(steps("a", "a", "a b", "a2", "a copy", "b", "a"), tmp_path).periods
    assert periods["start_up"].to_list() == [True, False, True, False, False, False]


def test_what_ran_before_the_first_whole_step_is_known(tmp_path):
    warm = TraceBuilder().process(100).api(100, "cudaLaunchKernel", -90, -80, corr=8000)
    warm.kernel(8000, -70, -50, "b", pid=100)
    periods = reduced(steps("a", "a b", "a c", "a", trace=warm), tmp_path).periods
    assert periods["start_up"].to_list() == [True, False, True]


def test_devices_of_a_rank_know_the_same_kernels(tmp_path):
    """b runs on device 0 in step 1 and on device 1 in step 2; c on device 1 in step 1 and on device 0 in step 2."""
    trace = steps("a", "a b", "a c", "a", "a")
    steps("a", "a c", "a b", "d", "a", trace=trace, device=1)
    periods = reduced(trace, tmp_path).periods
    new = {device: mine["start_up"].to_list() for (device,), mine in periods.group_by("device")}
    assert new == {0: [True, True, False, False], 1: [True, True, False, True]}


@pytest.mark.parametrize(
    ("call", "start"),
    [
        ("cudaGraphInstantiate_v12000", True),
        ("cuStreamBeginCapture_v2", True),
        ("cuModuleLoadData", True),
        ("cudaLibraryLoadData", True),
        ("cudaGraphLaunch", False),
        ("cudaModuleUnload", False),
    ],
)
def test_making_a_graph_and_loading_code_is_part_of_the_start(tmp_path, call: str, start: bool):
    """In the third step, which launches what all do; the call ends in the fourth."""
    trace = steps("a", "a", "a", "a", "a")
    trace.api(100, call, 2_900, 3_900)
    assert reduced(trace, tmp_path).periods["start_up"].to_list() == [True, False, start, False]


@pytest.mark.parametrize(
    ("loading", "start"),
    [
        ([0, 2, 4, 6], [0]),  # a program that compiles anew in each second step
        ([2, 4, 6], [0, 2, 4, 6]),  # two equal distances may be chance
        ([1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5]),  # a warm-up goes on from step to step
        ([1, 3, 5, 7, 8], [0, 8]),  # what comes between them is a first use all the same
    ],
)
def test_code_that_is_loaded_at_a_regular_distance_is_no_start(
    tmp_path, loading: list[int], start: list[int]
):
    """Each load in the middle of its step; the first step of a capture is a start in any case."""
    trace = steps(*["a"] * 10)
    for number in loading:
        trace.api(100, "cuModuleLoadData", 1000 * number + 500, 1000 * number + 600)
    assert [at for at, new in enumerate(reduced(trace, tmp_path).periods["start_up"]) if new] == start


def test_each_rank_has_first_occurrences_of_its_own(tmp_path):
    trace = steps("a", "a b", "a", "a")
    steps("a", "a", "a b", "a", trace=trace.process(200), pid=200)
    periods = reduced(trace, tmp_path).periods
    new = {rank: mine["start_up"].to_list() for (rank,), mine in periods.group_by("rank")}
    assert new == {0: [True, True, False], 1: [True, False, True]}


# Common orders


def orders(reduction) -> list[tuple[int, str]]:
    """(steps, names of the ops) of the sequences of generation steps."""
    names = reduction.keys["name"]
    return [
        (one.steps, " ".join(names[key] for key in one.keys)) for one in reduction.sequences["generation"]
    ]


def test_the_most_common_order_comes_first_and_of_equal_ones_the_first_seen(tmp_path):
    reduction = reduced(steps("b", "a a", "a b", "a b", "a", "a a", "a b", "c"), tmp_path)
    assert orders(reduction) == [(3, "a b"), (2, "a a"), (1, "b"), (1, "a")]
    a, b = (reduction.keys["name"].to_list().index(name) for name in "ab")
    assert reduction.sequences["generation"][0] == StepSequence(3, [a, b])


def test_eight_orders_are_kept(tmp_path):
    """Ten orders, the last of them twice: it and the first seven of the others."""
    reduction = reduced(steps(*(f"{one} h" for one in "abcdefgh"), "h", "b a", "b a", "a"), tmp_path)
    assert orders(reduction) == [(2, "b a"), *((1, f"{one} h") for one in "abcdefg")]
