"""What differs by count, on tiny traces: a step of 1 ms is a list of actions, and every count is that of the list."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from msgspec.structs import replace

from fixtures.builders import TraceBuilder
from tests.comparing import compare
from tests.swapping import plain, swapped
from tests.tiny import STEP, label, reduced
from tracediff.comparison.structure import _way, data_type
from tracediff.execution.sides import Run, Side
from tracediff.model import StructureRow
from tracediff.report.structure import sentence
from tracediff.stats.tests import fisher_exact

US, STEP_NS = 1000, 1_000_000
Action = Callable[[TraceBuilder, int, int], None]  # trace, when, an id of its own


def kernel(
    name: str = "gemm",
    *,
    stream: int = 7,
    grid: int = 1,
    text: str = "",
    device: int = 0,
    registers: int = 32,
) -> Action:
    def act(trace: TraceBuilder, at: int, corr: int) -> None:
        trace.api(1, "cudaLaunchKernel", at, at + US, corr=corr)
        trace.kernel(
            corr,
            at + 2 * US,
            at + 4 * US,
            name=name,
            stream=stream,
            grid=(grid, 1, 1),
            device=device,
            registers=registers,
        )
        if text:
            trace.range(1, text, at - US, at + 2 * US)

    return act


def graph(*names: str) -> Action:
    def act(trace: TraceBuilder, at: int, corr: int) -> None:
        trace.api(1, "cudaGraphLaunch", at, at + US, corr=corr)
        for node, name in enumerate(names):
            start = at + (2 + 2 * node) * US
            trace.kernel(corr, start, start + US, name=name, graph_node=100 + node)

    return act


def copy(many: int, memory: str, kind: str = "HtoD") -> Action:
    def act(trace: TraceBuilder, at: int, corr: int) -> None:
        trace.api(1, "cudaMemcpyAsync", at, at + US, corr=corr)
        trace.memcpy(corr, at + 2 * US, at + 3 * US, kind=kind, bytes=many, src=memory)

    return act


def call(name: str, inside: str = "") -> Action:
    def act(trace: TraceBuilder, at: int, corr: int) -> None:
        trace.api(1, name, at, at + 3 * US)
        if inside:
            trace.api(1, inside, at + US, at + 2 * US)

    return act


def sends(many: int, group: str = "", call: str = "ncclAllReduce") -> Action:
    def act(trace: TraceBuilder, at: int, corr: int) -> None:
        said = f'{{"Message size [bytes]": {many}, "NCCL communicator ID": 7, "Process Group Description": "{group}"}}'
        trace.range(1, call, at - US, at + US, domain="NCCL", payload={"jsonText": said})

    return act


def entered(text: str) -> Action:
    return lambda trace, at, corr: trace.range(1, text, at, at + US) and None


def collection() -> Action:
    return lambda trace, at, corr: trace.gc(1, at, at + US) and None


def side(
    folder: Path, steps: int, actions: Callable[[int], list[Action]], *, gen: Callable[[int], int] = lambda _: 4,
    ctx: Callable[[int], int] = lambda _: 0, backwards: bool = False, **reading: object,
) -> Side:  # fmt: skip
    """So many whole steps: the label of one more ends the last. The first is a start: its kernels are new."""
    folder.mkdir()
    trace = TraceBuilder().process(100).device(0).thread(100, 1)
    numbers = list(range(steps + 1))
    for number in reversed(numbers) if backwards else numbers:
        now = number * STEP_NS
        trace.range(1, label(number, ctx=ctx(number), gen=gen(number)), now, now + 900 * US)
        for place, act in enumerate(actions(number) if number < steps else [kernel()]):
            act(trace, now + (5 + 20 * place) * US, number * 1000 + place + 1)
    return Side(folder.name, [Run(folder.name, [reduced(trace, folder, **reading)])])


def rows(tmp_path: Path, before: list[Action], after: list[Action], steps: int = 12) -> list[StructureRow]:
    sides = [
        side(tmp_path / name, steps, lambda _, acts=acts: acts)
        for name, acts in (("a", before), ("b", after))
    ]
    return compare(*sides).structure


def told(row: StructureRow) -> tuple:
    return row.kind, row.name, row.baseline, row.candidate


LAUNCH = ("calls", "cudaLaunchKernel")
CASES = {
    "a kernel more, in a range": (
        [kernel(), kernel("norm", text="layer")],
        [kernel(), kernel(), kernel("norm", text="layer"), kernel("norm", text="layer")],
        [
            ("kernels", "", 3, 5), ("kernels", "", 2, 3), ("kernels", "", 1, 2), ("kernel", "gemm", 2, 3),
            ("kernel", "norm", 1, 2), ("ranges", "layer", 1, 2), (*LAUNCH, 3, 5),
        ],
    ),
    "a kernel instead of another": (
        [kernel("silu")],
        [kernel("swish")],
        [("kernel", "silu", 1, 0), ("kernel", "swish", 0, 1)],
    ),
    "another data type": (
        [kernel("cutlass_bf16_gemm")],
        [kernel("cutlass_tf32_gemm")],
        [("dtype", "gemm", 1, 1), ("kernel", "cutlass_bf16_gemm", 1, 0), ("kernel", "cutlass_tf32_gemm", 0, 1)],
    ),
    "another data type of a kernel of no known kind": (
        [kernel("mlp<float>")],
        [kernel("mlp<double>")],
        [("dtype", "mlp", 1, 1), ("kernel", "mlp<double>", 0, 1), ("kernel", "mlp<float>", 1, 0)],
    ),
    "another algorithm of NCCL": (
        [kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL"), kernel("ncclDevKernel_AllGather_RING_LL")],
        [kernel("ncclDevKernel_AllReduce_Sum_bf16_TREE_LL"), kernel("ncclDevKernel_AllGather_RING_LL")],
        [("algorithm", "all-reduce", 1, 1)],
    ),
    "graphs": (
        [kernel("gemm"), kernel("norm")],
        [graph("gemm", "norm")],
        [("graph_kernels", "", 0, 2), ("graph_launches", "", 0, 1), (*LAUNCH, 3, 1)],
    ),
    "a synchronisation, once though the driver is called in it": (
        [],
        [call("cudaStreamSynchronize", inside="cuStreamSynchronize")],
        [("synchronisations", "cudaStreamSynchronize", 0, 1)],
    ),
    "pinned memory no more": (
        [copy(64, "pinned")],
        [copy(64, "pageable")],
        [("copies", "[memcpy HtoD]", 1, 1)],
    ),
    "two copies of pinned memory for one of pageable, beside one of pageable on both sides": (
        [copy(64, "pageable"), copy(64, "pinned")],
        [copy(64, "pageable"), copy(64, "pageable")],
        [("copies", "[memcpy HtoD]", 1, 2), ("copies", "[memcpy HtoD]", 1, 0)],
    ),
    "larger copies": (
        [copy(64, "pinned")],
        [copy(256, "pinned")],
        [("copies", "[memcpy HtoD]", 1, 1)],
    ),
    "larger messages": (
        [sends(1000), sends(2000)],
        [sends(1000), sends(4000)],
        [("messages", "ncclAllReduce", 2, 2)],
    ),
    "larger messages in one of two groups": (
        [sends(1000, "tp"), sends(2000, "dp")],
        [sends(1000, "tp"), sends(4000, "dp")],
        [("messages", "ncclAllReduce", 1, 1)],
    ),
    "messages that a side does not say the size of": (
        [sends(1000, call="ncclBroadcast")],
        [sends(-1, call="ncclBroadcast")],
        [],
    ),
    "twice as many messages of half the size are other calls": (
        [sends(2000)],
        [sends(1000), sends(1000)],
        [("ranges", "ncclAllReduce", 1, 2)],
    ),
    "code that a launch loads": (
        [call("cudaFuncGetAttributes")],
        [call("cudaFuncGetAttributes", inside="cuLibraryLoadData")],
        [("code_loads", "cuLibraryLoadData", 0, 1)],
    ),
    "graphs made": (
        [], [call("cudaGraphInstantiate")], [("graph_instantiations", "cudaGraphInstantiate", 0, 1)],
    ),
    "memory": (
        [call("cudaMalloc"), call("cudaFree")],
        [call("cudaMallocAsync"), call("cudaFree")],
        [("allocations", "cudaMalloc", 1, 0), ("allocations", "cudaMallocAsync", 0, 1)],
    ),
    "collections": ([], [collection(), collection()], [("collections", "", 0, 2)]),
    "a range": ([], [entered("cleanup")], [("ranges", "cleanup", 0, 1)]),
    "streams": ([kernel()], [kernel(stream=13)], [("streams", "", 1, 2)]),
    "another grid": ([kernel("norm")], [kernel("norm", grid=2)], [("grid", "norm", 1, 1)]),
    "more registers": (
        [kernel("mlp_spills")],
        [kernel("mlp_spills", registers=255)],
        [("registers", "mlp_spills", 1, 1)],
    ),
    "more registers of what a compiler numbers": (
        [kernel("loop_add_fusion_3")], [kernel("loop_add_fusion_3", registers=255)], [],
    ),
    "polling": ([], [call("cudaEventQuery")], []),
    "asking": ([], [call("cudaStreamIsCapturing"), call("cuKernelGetAttribute"), call("hipGetLastError")], []),
    "the free memory": ([], [call("cudaMemGetInfo")], [("calls", "cudaMemGetInfo", 0, 1)]),
    "another call": ([], [call("cudaEventRecord")], [("calls", "cudaEventRecord", 0, 1)]),
}  # fmt: skip


# What others follow from comes first.
ORDER = (
    "graph_kernels", "graph_launches", "kernels", "dtype", "algorithm", "synchronisations", "code_loads", "collections", "copies", "messages",
    "graph_instantiations", "allocations", "kernel", "grid", "registers", "ranges", "streams", "calls",
)  # fmt: skip
# Those that have nothing to do with each other are parts of one step, which launches a kernel besides.
GROUPS = (
    (
        "a synchronisation, once though the driver is called in it", "code that a launch loads", "collections", "pinned memory no more",
        "larger messages", "graphs made", "memory", "another grid", "more registers", "more registers of what a compiler numbers", "a range", "another call", "polling", "asking",
    ),
    (
        "a kernel instead of another", "another data type", "another data type of a kernel of no known kind", "another algorithm of NCCL", "larger copies",
        "larger messages in one of two groups", "streams", "the free memory",
    ),
    (
        "a kernel more, in a range", "twice as many messages of half the size are other calls", "messages that a side does not say the size of",
        "two copies of pinned memory for one of pageable, beside one of pageable on both sides",
    ),
    ("graphs",),
)  # fmt: skip
assert sorted(CASES) == sorted(one for group in GROUPS for one in group)


def group_of(cases: tuple[str, ...], part: int) -> list[Action]:
    return [kernel(), *(one for case in cases for one in CASES[case][part])]


@pytest.mark.parametrize("cases", GROUPS, ids="; ".join)
def test_each_kind_of_count(cases, tmp_path):
    found = rows(tmp_path, group_of(cases, 0), group_of(cases, 1))
    said = [told(row) for row in found]
    for case in cases:
        expected = CASES[case][2]
        assert [one for one in said if one in expected] == expected, case
    assert len(said) == sum(len(CASES[case][2]) for case in cases)
    assert [row.kind for row in found] == sorted((row.kind for row in found), key=ORDER.index)
    assert all(row.phase == "generation" and row.per == "step" for row in found)


def test_a_kernel_more_in_a_graph_is_no_other_use_of_graphs(tmp_path):
    found = rows(tmp_path, [graph("gemm", "norm")], [graph("gemm", "norm", "norm")])
    assert [told(row) for row in found] == [("kernels", "", 2, 3), ("kernel", "norm", 1, 2)]


def test_a_copy_of_each_sequence_for_one_of_all(tmp_path):
    """2 or 3 copies from pinned memory, by the step, where one from pageable memory was: 2.5 in the mean of 12 whole steps."""
    sides = [
        side(tmp_path / "a", 13, lambda _: [kernel(), copy(64, "pageable")]),
        side(tmp_path / "b", 13, lambda number: [kernel(), *[copy(64, "pinned")] * (2 + number % 2)]),
    ]
    (row,) = (one for one in compare(*sides).structure if one.kind == "copies")
    assert (row.baseline, row.candidate) == (1, pytest.approx(2.5, abs=0.05))
    assert (row.baseline_values, row.candidate_values) == (["pageable"], ["pinned"])


def test_what_a_row_says_besides(tmp_path):
    one, *_ = rows(tmp_path, [kernel(), copy(64, "pinned")], [kernel(), copy(256, "pageable")])
    # 12 whole steps, without the first, in which the kernel is new
    assert (one.baseline_steps, one.candidate_steps, one.certain, one.baseline_any, one.candidate_any) == (
        11,
        11,
        True,
        11,
        11,
    )
    assert (one.baseline_values, one.baseline_bytes) == (["pinned"], 64)
    assert (one.candidate_values, one.candidate_bytes, one.memory) == (["pageable"], 256, "")


def test_messages_say_their_group_and_the_bytes_of_all(tmp_path):
    before, after = ([kernel(), sends(1000, "tp"), sends(many, "dp"), sends(many, "dp")] for many in (8, 16))
    (row,) = rows(tmp_path, before, after)
    assert (row.group, row.baseline, row.baseline_bytes, row.candidate_bytes) == ("dp", 2, 16, 32)


def test_kernels_of_a_range_and_of_all(tmp_path):
    before = [kernel(), kernel("adam", text="optimizer"), kernel("adam", text="optimizer")]
    (tmp_path / "some").mkdir()
    some = rows(tmp_path / "some", before, before[:2])
    assert [(row.range, row.whole, row.baseline, row.candidate) for row in some if row.kind == "kernels"] == [
        ("", False, 3, 2), ("optimizer", False, 2, 1),
    ]  # fmt: skip
    # the range of the label holds all kernels: one row says both
    whole, *_ = rows(tmp_path, [kernel(), kernel()], [kernel()])
    assert (whole.kind, whole.range, whole.whole, whole.thread) == ("kernels", STEP, True, "")


def test_no_range_has_more_kernels_than_on_a_side_without_ranges(tmp_path):
    acts = [kernel(), kernel("adam", text="optimizer")]
    one, other = (side(tmp_path / name, 12, lambda _: acts) for name in "ab")
    (part,) = one.runs[0].parts
    bare = replace(part, coverage={**part.coverage, "nvtx": "not_captured"})
    bare = replace(bare, counted=bare.counted.with_columns(name=pl.lit("")))
    one = replace(one, runs=[replace(one.runs[0], parts=[bare])])
    assert not [row for row in compare(one, other).structure if row.range]


def test_ranges_about_the_same_kernels_launch_no_others(tmp_path):
    """A profiler's range takes one of two kernels over from the label: as many run in the step."""
    (row,) = rows(tmp_path, [kernel(), kernel("norm")], [kernel(), kernel("norm", text="aten::norm")])
    assert told(row) == ("ranges", "aten::norm", 0, 1)


def test_graphs_say_of_how_many_kernels(tmp_path):
    row, *_ = rows(
        tmp_path, [kernel(), kernel("norm"), kernel("head")], [graph("gemm", "norm"), kernel("head")]
    )
    assert (row.baseline, row.baseline_of, row.candidate, row.candidate_of) == (0, 3, 2, 3)


def test_what_one_device_alone_has_more_of_is_said_of_it(tmp_path):
    both = [*[kernel()] * 3, *[kernel(device=1)] * 3]
    found = rows(tmp_path, both, [*both, kernel(device=1), call("cudaDeviceSynchronize")])
    assert {(*told(row), row.device) for row in found if row.name != "cudaLaunchKernel"} == {
        ("kernels", "", 3, 4, 1), ("kernel", "gemm", 3, 4, 1), ("synchronisations", "cudaDeviceSynchronize", 0, 1, None),
    }  # fmt: skip
    assert sentence(found[0]) == "3 -> 4 kernels per step in [Executor] _forward_step on device 1"


def test_a_gpu_that_no_step_uses_any_more(tmp_path):
    found = rows(tmp_path, [kernel(), kernel(device=1)], [kernel(), kernel()])
    assert [sentence(row) for row in found if row.kind == "gpus"] == ["GPUs 2 -> 1"]


def test_work_that_moves_from_one_device_to_another(tmp_path):
    before, after = ([*[kernel()] * one, *[kernel(device=1)] * (6 - one)] for one in (3, 4))
    found = [row for row in rows(tmp_path, before, after) if row.kind == "kernels"]
    assert [(row.device, row.baseline, row.candidate) for row in found] == [(0, 3, 4), (1, 3, 2)]


@pytest.mark.parametrize(
    ("steps", "size", "found"),
    [
        ((20, 40), (64, 32), True),
        ((20, 40), (64, 29), True),  # 1,280 bytes and 1,160
        ((20, 40), (64, 28), False),  # 1,120
        ((20, 27), (64, 47), True),  # 20 are 74 % of 27
        ((20, 26), (64, 49), False),  # and 77 % of 26
        ((20, 40), (0, 0), False),
    ],
)
def test_results_of_as_many_bytes_in_other_steps(tmp_path, steps, size, found):
    acts = [[kernel(), copy(one, "device", "DtoH")] for one in size]
    one, other = (side(tmp_path / name, steps[at], lambda _, at=at: acts[at]) for at, name in enumerate("ab"))
    assert compare(one, other).verdict_facts.other_steps == (steps if found else None)


def test_steps_are_those_of_a_rank_that_has_results(tmp_path):
    """The first of two ranks has: 20 steps and 40 of it, not of both."""
    sides = []
    for many, size in ((20, 64), (40, 32)):
        acts = [[kernel(), copy(size, "device", "DtoH")], [kernel()]]
        ranks = [side(tmp_path / f"{many}_{at}", many, lambda _, own=own: own) for at, own in enumerate(acts)]
        sides.append(Side(f"{many}", [Run("run", [one.runs[0].parts[0] for one in ranks])]))
    assert compare(*sides).verdict_facts.other_steps == (20, 40)


def test_results_that_come_once_a_run_are_not_of_its_steps(tmp_path):
    end = [kernel(), copy(64, "device", "DtoH")]
    one, other = (
        side(tmp_path / f"{many}", many, lambda number: [kernel()] if number else end) for many in (20, 40)
    )
    assert compare(one, other).verdict_facts.other_steps is None


def test_grids_and_data_types_are_named(tmp_path):
    (tmp_path / "grid").mkdir()
    (row,) = rows(tmp_path / "grid", [kernel(), kernel("norm")], [kernel(), kernel("norm", grid=2)])
    assert (row.baseline_values, row.candidate_values) == (["1,1,1 x 128,1,1"], ["2,1,1 x 128,1,1"])
    row, *_ = rows(tmp_path, [kernel(), kernel("cutlass_bf16_gemm")], [kernel(), kernel("cutlass_tf32_gemm")])
    assert (row.baseline_values, row.candidate_values) == (["bf16"], ["tf32"])


def test_a_data_type_is_that_of_a_kind_of_kernels_whichever_variant_a_step_takes(tmp_path):
    """Lengths choose the tile, so that no kernel of the baseline comes in most of its steps."""
    tiles = [kernel(f"nvjet_sm90_hsh_{tile}x64_64x8_2x1_v_bz_TNT") for tile in (64, 128, 192, 256)]
    before = side(tmp_path / "a", 16, lambda number: [tiles[number % 4], kernel("norm")])
    after = side(tmp_path / "b", 16, lambda _: [kernel("ampere_sgemm_128x64_tn"), kernel("norm")])
    (row,) = [one for one in compare(before, after).structure if one.kind == "dtype"]
    assert (row.name, row.baseline, row.candidate) == ("gemm", 1, 1)
    assert (row.baseline_values, row.candidate_values) == (["fp16"], ["fp32"])


def test_other_work_is_said_first_and_is_a_check_that_does_not_pass(tmp_path):
    """Of three kernels two have four times the blocks: 1 + 3 and 4 + 12; those of `early`, 5 and 5, say nothing."""
    before, after = [kernel(), kernel("norm", grid=3)], [kernel(grid=4), kernel("norm", grid=12)]
    early = kernel("early", grid=5)
    one, again, other = (
        side(tmp_path / name, 12, lambda _, acts=acts: [early, *acts])
        for name, acts in (("one", before), ("again", before), ("other", after))
    )
    result = compare(one, other)
    first, *rest = result.structure
    assert told(first) == ("workload", "", 4, 16)
    assert [row.kind for row in rest] == ["grid", "grid"]
    (check,) = [found for found in result.comparability.checks if found.name == "work"]
    assert (check.status, check.baseline, check.candidate) == ("warn", "generation 4", "generation 16")
    assert (
        check.message == "4 -> 16 CUDA blocks per step in kernels of both sides: a step may hold other work"
    )
    assert "work" not in [found.name for found in compare(one, again).comparability.checks]


@pytest.mark.parametrize(("longer", "found"), [(0, []), (2, [("workload", "", 5, 9)])])
def test_other_work_is_found_where_every_step_has_another_length(longer, found, tmp_path):
    """Grids of 1 to 4 in turns, and of 3 to 6: half of the launches have a shape of the other side, and each kernel has 2.5 and 4.5 blocks."""
    sides = [
        side(tmp_path / name, 13, lambda at, more=more: [kernel(name, grid=1 + at % 4 + more) for name in ("gemm", "norm")])
        for name, more in (("short", 0), ("long", longer))
    ]  # fmt: skip
    assert [told(row) for row in compare(*sides).structure if row.kind == "workload"] == found


@pytest.mark.parametrize(
    ("sides", "way"), [((10, 11.2), 1), ((11.2, 10), -1), ((3.7, 0.9 * 3.7), 0), ((0.9 * 3.7, 3.7), 0)]
)
def test_a_side_has_more_by_more_than_a_tenth_whatever_the_last_bit(sides, way):
    """3.7 - 0.9 * 3.7 is more than 0.1 * 3.7 by the last bit."""
    assert _way(np.array(sides)) == way


def test_half_the_blocks_in_seven_launches_of_eight_are_other_work(tmp_path):
    """As where a scan by doubling has half the length: a level less, and each over half as much."""
    long, short = [kernel(grid=4)] * 8, [kernel(grid=2)] * 7
    sides = [
        side(tmp_path / name, 12, lambda _, acts=acts: acts)
        for name, acts in (("long", long), ("short", short))
    ]
    first, *_ = compare(*sides).structure
    assert told(first) == ("workload", "", 32, 14)
    more = side(tmp_path / "more", 12, lambda _: [*long, kernel(grid=64)])  # the same work, and some besides
    assert "workload" not in [row.kind for row in compare(sides[0], more).structure]


@pytest.mark.parametrize("grid", [8, 5])
def test_other_blocks_in_fewer_launches_are_no_other_work(grid, tmp_path):
    """Two batches of 4 and 12 blocks, or one of 8 and 24; or what is left of them once others were fused."""
    sides = [
        side(tmp_path / name, 12, lambda _, acts=acts: acts)
        for name, acts in (
            ("two", [kernel(grid=4), kernel("norm", grid=12)] * 2),
            ("one", [kernel(grid=grid), kernel("norm", grid=3 * grid)]),
        )
    ]
    assert {row.kind for row in compare(*sides).structure} == {"kernels", "kernel", "calls"}


def test_a_kernel_that_both_sides_happen_to_have_says_nothing_of_the_work(tmp_path):
    """Two GEMMs of another type and one fill, in another grid: as much work in wider numbers."""
    sides = [
        side(tmp_path / name, 12, lambda _, acts=acts: acts)
        for name, acts in (
            ("half", [kernel("hgemm"), kernel("hgemm"), kernel("fill")]),
            ("whole", [kernel("sgemm"), kernel("sgemm"), kernel("fill", grid=2)]),
        )
    ]
    assert [row.kind for row in compare(*sides).structure][:1] == ["dtype"]


def test_a_number_that_a_compiler_gave_a_kernel_is_no_other_kernel(tmp_path):
    """XLA numbers its fusions over: of three two are called as before, one of them in another number."""
    before = [kernel("loop_add_fusion_3"), kernel("loop_add_fusion_4"), kernel("gemm_fusion_dot_7")]
    after = [kernel("loop_add_fusion_4"), kernel("loop_add_fusion_5"), kernel("gemm_fusion_dot_9")]
    assert rows(tmp_path, before, after) == []
    (tmp_path / "own").mkdir()
    own = [kernel("layer_norm_3")], [kernel("layer_norm_4")]  # of a program
    assert [told(row) for row in rows(tmp_path / "own", *own)] == [
        ("kernel", "layer_norm_3", 1, 0),
        ("kernel", "layer_norm_4", 0, 1),
    ]


def test_a_data_type_is_another_however_often_a_step_launches(tmp_path):
    """1, 2 or 3 GEMMs per step in turn, in fp16 and in fp32: no count holds, but none is of the other type."""
    sides = [
        side(tmp_path / name, 12, lambda n, name=name: [kernel()] + [kernel(name)] * (1 + n % 3))
        for name in ("hgemm_layer", "sgemm_layer")
    ]
    row = compare(*sides).structure[0]
    assert (row.kind, row.baseline_values, row.candidate_values) == ("dtype", ["fp16"], ["fp32"])


@pytest.mark.parametrize("cases", [GROUPS[0], GROUPS[1], GROUPS[3]], ids="; ".join)
def test_swapped_sides_mirror(cases, tmp_path):
    before, after = group_of(cases, 0), group_of(cases, 1)
    (tmp_path / "swapped").mkdir()
    found, other = rows(tmp_path, before, after), rows(tmp_path / "swapped", after, before)
    mirrored = swapped(plain(found), "structure")

    def order(row: dict) -> tuple:
        return row["kind"], row["name"], row["memory"], row["range"]

    assert sorted(mirrored, key=order) == sorted(plain(other), key=order)
    assert found


def test_a_side_beside_itself_has_no_row(tmp_path):
    acts = [
        kernel(),
        graph("norm", "norm"),
        copy(64, "pageable"),
        call("cudaMalloc"),
        collection(),
        entered("cleanup"),
    ]
    assert rows(tmp_path, acts, acts) == []


def test_the_order_of_rows_in_the_export_does_not_matter(tmp_path):
    first = side(tmp_path / "first", 12, lambda _: [kernel()])
    more = [
        side(tmp_path / f"more{back}", 12, lambda _: [kernel(), kernel("norm")], backwards=back)
        for back in (False, True)
    ]
    found = [compare(first, one).structure for one in more]
    assert found[0] == found[1] != []


@pytest.mark.parametrize(
    ("more", "turns", "told"), [(2, 4, False), (3, 4, True), (2, 1, True), (1, 1, True), (0, 1, False)]
)
def test_counts_that_vary_are_told_where_those_of_the_sides_lie_apart_or_follow_each_other(
    tmp_path, more: int, turns: int, told: bool
):
    """1 to 3 kernels in turns, and so many more, each number for so many steps: 1-3 and 3-5 meet, 1-3 and 4-6 do not. In the same order each step has more."""
    one = side(tmp_path / "one", 13, lambda n: [kernel()] * (1 + n % 3))
    other = side(tmp_path / "other", 13, lambda n: [kernel()] * (1 + more + n // turns % 3))
    found = compare(one, other).structure
    assert [(row.kind, row.varies, row.certain) for row in found] == (
        [("kernels", True, False)] if told else []
    )
    if told:
        (row,) = found
        assert (row.baseline_values, row.candidate_values) == (["1", "3"], [f"{1 + more}", f"{3 + more}"])
        assert row.candidate - row.baseline == more
        assert sentence(row) == f"1-3 -> {1 + more}-{3 + more} kernels per step"


def test_a_count_that_is_constant_in_each_workload_is_a_fact(tmp_path):
    def gen(number: int) -> int:
        return 4 if number % 3 else 64

    def made(folder: str, more: int) -> Side:
        return side(tmp_path / folder, 18, lambda n: [kernel()] * ((2 if gen(n) == 4 else 6) + more), gen=gen)

    found = compare(made("one", 0), made("other", 1)).structure
    kernels = next(row for row in found if row.kind == "kernels")
    # of the 17 steps after the start 12 have 4 requests and 5 have 64; those with most steps are shown
    assert (kernels.baseline, kernels.candidate, kernels.workloads, kernels.baseline_steps) == (2, 3, 2, 17)
    assert compare(made("again", 0), made("once more", 0)).structure == []


@pytest.mark.parametrize(
    ("steps", "facts", "certain"), [(4, 0, False), (5, 1, False), (10, 1, False), (11, 1, True)]
)
def test_how_many_steps_it_takes(steps, facts, certain, tmp_path):
    # the first of them is the start
    found = [row for row in rows(tmp_path, [kernel()], [kernel()] * 2, steps=steps) if row.kind == "kernels"]
    assert len(found) == facts
    assert [row.certain for row in found] == [certain] * facts


def test_programs_that_load_code_in_every_step_keep_their_steps(tmp_path):
    (row,) = rows(tmp_path, [kernel(), call("cuLibraryLoadData")], [kernel()])
    assert told(row) == ("code_loads", "cuLibraryLoadData", 1, 0)
    assert (row.baseline_steps, row.candidate_steps) == (12, 12)


def test_what_happens_now_and_then_is_a_rate(tmp_path):
    one = side(tmp_path / "one", 31, lambda n: [kernel(), *([collection()] if n == 7 else [])])
    other = side(tmp_path / "other", 31, lambda n: [kernel(), *([collection()] if n % 3 == 0 else [])])
    (row,) = compare(one, other).structure
    # of 30 steps 1 has a collection, and 10 (3, 6, ..., 30) of the candidate's
    assert (row.kind, row.rate, row.baseline_any, row.candidate_any, row.certain) == (
        "collections",
        True,
        1,
        10,
        True,
    )
    assert (row.baseline, row.candidate) == (1 / 30, 10 / 30)
    assert row.p_value == fisher_exact(1, 30, 10, 30) < 0.01
    rarely = side(tmp_path / "rarely", 31, lambda n: [kernel(), *([collection()] if n in (7, 8, 9) else [])])
    assert compare(one, rarely).structure == []


def test_steps_without_their_graph_are_counted(tmp_path):
    """All 30 steps launch one, or all but 10."""
    acts = {False: [graph("gemm", "norm")], True: [kernel("gemm"), kernel("norm")]}
    one = side(tmp_path / "one", 31, lambda _: acts[False])
    other = side(tmp_path / "other", 31, lambda n: acts[n % 3 == 0])
    (row,) = [row for row in compare(one, other).structure if row.kind == "graph_launches"]
    assert (row.rate, row.baseline_any, row.candidate_any) == (True, 30, 20)


def test_a_rate_is_not_told_by_its_ends_as_well(tmp_path):
    """Steps of 4 requests have no graph any more, of those of 16 every second one has: 10 of 60, from 1 and 1 to 0 and 0 at the ends."""
    acts = {False: [graph("gemm", "norm")], True: [kernel("gemm"), kernel("norm")]}
    eager = {"one": lambda n: False, "other": lambda n: bool(n % 6)}
    sides = [
        side(tmp_path / name, 61, lambda n, of=of: acts[of(n)], gen=lambda n: 4 if n % 3 else 16)
        for name, of in eager.items()
    ]
    (row,) = [row for row in compare(*sides).structure if row.kind == "graph_launches"]
    assert (row.rate, row.baseline_any, row.candidate_any) == (True, 60, 10)


def test_what_one_side_does_at_a_regular_distance_is_a_rate_however_rare(tmp_path):
    """Code is loaded in steps 5, 11, 17, 23 and 29 of 30: five steps lie so in 30^2 / (2 * 4) of 142,506 ways, at most."""
    one = side(tmp_path / "one", 31, lambda _: [kernel()])
    load = call("cuModuleLoadData")
    other = side(tmp_path / "other", 31, lambda n: [kernel(), *([load] if n % 6 == 5 else [])])
    (row,) = [row for row in compare(one, other).structure if row.kind == "code_loads"]
    assert (row.rate, row.baseline_any, row.candidate_any) == (True, 0, 5)
    assert row.p_value == pytest.approx(112.5 / 142_506)
    now_and_then = side(
        tmp_path / "then", 31, lambda n: [kernel(), *([load] if n in (5, 9, 17, 18, 29) else [])]
    )
    assert not [row for row in compare(one, now_and_then).structure if row.kind == "code_loads"]


def test_copies_of_other_memory_in_some_steps_are_one_difference(tmp_path):
    """Each step copies from pageable memory, and each sixth once more from pinned memory, or from pageable memory too."""
    every = copy(64, "pageable")
    pinned, pageable = (
        side(
            tmp_path / memory,
            31,
            lambda n, memory=memory: [kernel(), every, *[copy(64, memory)] * (n % 6 == 5)],
        )
        for memory in ("pinned", "pageable")
    )
    (row,) = [row for row in compare(pinned, pageable).structure if row.kind == "copies"]
    assert sentence(row) == "memcpy HtoD with pinned -> pageable memory in 17 % of steps"
    (row,) = [row for row in compare(pageable, pinned).structure if row.kind == "copies"]
    assert sentence(row) == "memcpy HtoD with pageable -> pinned memory in 17 % of steps"


def test_what_every_second_of_many_steps_does_is_a_rate(tmp_path):
    """Of 1,100 steps 550 copy to the host: they lie so in fewer ways than any float can count."""
    one = side(tmp_path / "one", 1101, lambda _: [kernel()])
    other = side(tmp_path / "other", 1101, lambda n: [kernel(), *([copy(64, "pinned")] if n % 2 else [])])
    (row,) = [row for row in compare(one, other).structure if row.kind == "copies"]
    assert (row.rate, row.baseline_any, row.candidate_any, row.p_value) == (True, 0, 550, 0.0)


def test_what_goes_with_the_load_is_a_rate_at_a_regular_distance_alone(tmp_path):
    """Steps 3, 7, ..., 27 of 30 copy to the host and enter a range: 7 steps lie so in 30^2 / (2 * 6) = 75 of 2,035,800 ways, at most."""

    def of(name: str, when: Callable[[int], bool]) -> Side:
        acts = [copy(64, "pinned"), entered("respond")]
        return side(tmp_path / name, 31, lambda n: [kernel(), *(acts if when(n) else [])])

    never, always = of("never", lambda _: False), of("always", lambda _: True)
    fourth, some = of("fourth", lambda n: n % 4 == 3), of("some", lambda n: n in (3, 4, 11, 17, 18, 25, 30))

    def rates(one: Side, other: Side) -> list[tuple]:
        found = [row for row in compare(one, other).structure if row.rate]
        return [(row.kind, row.name, row.memory, row.baseline_any, row.candidate_any) for row in found]

    assert rates(never, fourth) == [
        ("copies", "[memcpy HtoD]", "pinned", 0, 7),
        ("ranges", "respond", "", 0, 7),
    ]
    assert rates(fourth, always) == [
        ("copies", "[memcpy HtoD]", "pinned", 7, 30),
        ("ranges", "respond", "", 7, 30),
    ]
    assert rates(never, some) == rates(some, always) == []
    (row, _) = [row for row in compare(never, fourth).structure if row.rate]
    assert row.p_value == pytest.approx(75 / 2_035_800)


def test_what_steps_of_a_phase_of_one_side_hold_is_not_missing_there(tmp_path):
    """Every fourth step copies to the host and enters a range; those of one side are of another phase, with a prompt."""

    def of(name: str, prompts: int) -> Side:
        acts = [copy(64, "pinned"), entered("decode")]
        return side(
            tmp_path / name, 31, lambda n: [kernel(), *(acts if n % 4 == 3 else [])],
            ctx=lambda n: prompts if n % 4 == 3 else 0,
        )  # fmt: skip

    assert not [row for row in compare(of("of one", 0), of("another", 1)).structure if row.rate]


@pytest.mark.parametrize(
    ("acts", "more", "found"),
    [
        ([copy(64, "pinned")] * 3, 0, [("copies", False, 7 / 30, 21 / 30)]),
        ([copy(64, "pinned"), call("cudaDeviceSynchronize")], 0, [("synchronisations", True, 0, 7 / 30)]),
        ([copy(128, "pinned")], 0, [("copies", False, 7 / 30, 7 / 30)]),
        ([copy(100, "pinned")], 0, []),  # fewer bytes than twice as many: other lengths, perhaps
        ([copy(64, "pinned")] * 3, 1, []),  # and a kernel more in step 5: other work
    ],
)
def test_what_some_steps_do_is_told_where_both_sides_did_the_same_work(acts, more, found, tmp_path):
    """1 to 4 kernels in turns, 75 in 30 steps; steps 3, 4, 11, 17, 18, 25 and 30 copy 64 bytes."""

    def of(name: str, own: list[Action], more: int = 0) -> Side:
        some = (3, 4, 11, 17, 18, 25, 30)
        kernels = [1 + n % 4 + more * (n == 5) for n in range(31)]
        return side(tmp_path / name, 31, lambda n: [kernel()] * kernels[n] + own * (n in some))

    rows = compare(of("one", [copy(64, "pinned")]), of("other", acts, more)).structure
    counts = [(row.kind, row.rate, row.baseline, row.candidate) for row in rows if row.kind != "calls"]
    assert counts == [(kind, rate, *map(pytest.approx, both)) for kind, rate, *both in found]


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        (1, 4, [("kernels", 1, 4, 0, 5)]),  # of one side alone
        (3, 4, [("kernels", 3, 4, 5, 5)]),
        (3, 3, []),
    ],
)
def test_kernels_of_every_sixth_step_are_told_by_themselves(before: int, after: int, found, tmp_path):
    """A step has one kernel, but for the steps 5, 11, 17, 23 and 29 of 30."""

    def of(name: str, many: int, when: Callable[[int], bool] = lambda n: n % 6 == 5) -> Side:
        return side(tmp_path / name, 31, lambda n: [kernel()] * (many if when(n) else 1))

    sides = of("one", before), of("other", after)
    every = [row for row in compare(*sides).structure if row.every]
    counts = [(row.kind, row.baseline, row.candidate, row.baseline_any, row.candidate_any) for row in every]
    assert counts == found
    assert all(sentence(row) == f"{before} -> {after} kernels in every 6th step" for row in every)
    mirrored = [row for row in compare(*reversed(sides)).structure if row.every]
    assert [(row.baseline, row.candidate) for row in mirrored] == [(b, a) for _, a, b, _, _ in found]
    later = side(
        tmp_path / "later", 31, lambda n: [kernel()] * (after if n % 6 == 1 else 1)
    )  # begun elsewhere
    assert len([row for row in compare(sides[0], later).structure if row.every]) == len(found)
    irregular = of("irregular", after, lambda n: n in (5, 9, 17, 18, 29))
    assert not [row for row in compare(sides[0], irregular).structure if row.every]
    odd = of("odd", 7, lambda n: n in (3, 4, 20))  # three odd steps are no kind of steps
    told = [
        (row.baseline, row.candidate, row.baseline_any)
        for row in compare(odd, sides[1]).structure
        if row.every
    ]
    assert told == [(1, after, 0)]


@pytest.mark.parametrize("usual", [1, 0])
def test_copies_of_every_sixth_step_are_told_by_their_number(usual: int, tmp_path):
    """One copy a step, and four in the steps 5, 11, 17, 23 and 29 of 30 of one side; where no other step has any, in how many steps says more."""

    def of(name: str, many: int) -> Side:
        return side(
            tmp_path / name, 31, lambda n: [kernel(), *[copy(64, "pinned")] * (many if n % 6 == 5 else usual)]
        )

    one, other = of("one", usual), of("other", 4)
    for sides, counts in (((one, other), (1, 4)), ((other, one), (4, 1))):
        every = [row for row in compare(*sides).structure if row.every]
        assert [(row.kind, row.baseline, row.candidate) for row in every] == [("copies", *counts)] * usual
        assert all(
            sentence(row) == f"memcpy HtoD (pinned) {counts[0]} -> {counts[1]} in every 6th step"
            for row in every
        )


def test_kernels_of_every_second_step_are_told(tmp_path):
    """Thirty steps, of which fifteen have one kernel and fifteen three."""
    one = side(tmp_path / "one", 31, lambda _: [kernel()])
    other = side(tmp_path / "other", 31, lambda n: [kernel()] * (1 + 2 * (n % 2)))
    (row,) = [row for row in compare(one, other).structure if row.kind == "kernels"]
    assert sentence(row) == "1 -> 3 kernels in every 2nd step"


def test_a_kernel_that_every_sixth_step_of_one_side_launches_is_a_rate(tmp_path):
    """Steps 11, 17, 23 and 29 of 30 launch it in place of another, and so does step 5, where it is new: that one is a start, and of no count."""
    one = side(tmp_path / "one", 31, lambda _: [kernel("gemm"), kernel("norm")])
    other = side(
        tmp_path / "other", 31, lambda n: [kernel("gemm"), kernel("norm" if n % 6 != 5 else "resize")]
    )
    (row,) = [row for row in compare(one, other).structure if row.kind == "kernel"]
    assert (row.name, row.rate, row.baseline_any, row.candidate_any) == ("resize", True, 0, 4)
    assert sentence(row) == "resize in 0 % -> 14 % of steps"  # 4 of 29


def test_collections_that_one_side_may_not_have_recorded_are_not_certain(tmp_path):
    (row,) = rows(tmp_path, [kernel()], [kernel(), collection()])
    assert (row.baseline, row.candidate, row.certain) == (0, 1, False)


def test_whole_captures(tmp_path):
    def made(folder: str, syncs: int, gemms: int = 100) -> Side:
        acts = [*[kernel()] * gemms, *[call("cudaDeviceSynchronize")] * syncs]
        return side(tmp_path / folder, 1, lambda _: acts[:40], whole_capture=True)

    one, other = made("one", 0, 30), made("other", 3, 30)
    (row,) = compare(one, other).structure
    assert told(row) == ("synchronisations", "cudaDeviceSynchronize", 0, 3)
    assert (row.per, row.certain, row.baseline_steps) == ("capture", False, 1)
    # captures of one side that do not agree say nothing
    mixed = Side("mixed", [*other.runs, *made("third", 4, 30).runs])
    assert compare(one, mixed).structure == []
    # nor do those of another amount of work
    assert compare(one, made("more", 3, 36)).structure == []


def test_fisher_by_hand():
    # the lady and her eight cups of tea: 1 of 70 ways is all right, 16 have one pair wrong
    assert fisher_exact(4, 4, 0, 4) == pytest.approx(2 / 70)
    assert fisher_exact(3, 4, 1, 4) == pytest.approx(34 / 70)
    assert fisher_exact(0, 5, 0, 9) == 1


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128", "bf16"),
        ("ampere_fp16_s16816gemm_fp16_128x128", "fp16"),
        ("cudnn_generated_fort_native_sdpa_sm80_flash_fprop_wmma_f16_knob_35", ""),
        ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128_4x1x1", ""),
        ("void f<c10::BFloat16, float>()", "bf16"),
        (
            "void f<float16_copy_kernel_cuda(at::TensorIteratorBase &)::[lambda(float) (instance 1)]>(int)",
            "fp16",
        ),
        ("cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x64_32x6_tn_align4>", "tf32"),
        ("sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize64x64x32_execute_kernel__5x_cublas", "tf32"),
        ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_ffma_kernel", "fp32"),
        ("cutlass::Kernel2<cutlass_75_tensorop_s1688gemm_f16_128x64_32x6_tn_align4>", "fp16"),
        ("ampere_sgemm_128x64_tn", "fp32"),
        ("void implicit_convolve_sgemm<__nv_bfloat16, __nv_bfloat16, 1024>(int)", "bf16"),
        ("nvjet_tst_64x8", "bf16"),
        ("void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16, float>(int)", ""),
        (
            "void gemmSN_TN_kernel<float, 128, 16, cublasGemvTensorStridedBatched<const __nv_bfloat16>>(int)",
            "bf16",
        ),
        ("void gemmSN_TN_kernel<float, 128, 16, cublasGemvTensorStridedBatched<const float>>(int)", "fp32"),
        ("nvjet_sm90_hsh_128x256_64x4_2x1_v_bz_coopA_bias_TNT", "fp16"),
        ("nvjet_sm90_qqtst_128x160_128x5_2x1_v_bz_TNT", "fp8"),
    ],
)
def test_data_types_in_names(name, dtype):
    assert data_type(name) == dtype


def test_a_kernel_that_is_gone_or_new_in_every_step_is_exact_where_no_step_repeats(tmp_path: Path):
    """A cache grows: each step launches `cat` in a grid of its own. 2 x sdpa per step against 1 x mask, in twelve steps a side."""
    sides = [
        side(tmp_path / name, 12, lambda number, own=own: [kernel("cat", grid=number + 1), *own])
        for name, own in (("a", [kernel("sdpa"), kernel("sdpa")]), ("b", [kernel("mask")]))
    ]
    found = compare(*sides)
    rows = {tuple((one.baseline or one.candidate).names): one for one in found.kernels}
    assert (rows["sdpa",].candidate, rows["sdpa",].level) == (None, "exact")
    assert (rows["mask",].baseline, rows["mask",].level) == (None, "exact")
    assert {row.level for names, row in rows.items() if names == ("cat",)} == {"within_noise"}
    typical = {row.baseline.names[0]: row.phases[0] for row in found.kernels if row.candidate is None}
    assert (typical["sdpa"].baseline_count, typical["sdpa"].candidate_count) == (2, 0)


def test_a_kernel_of_which_some_launches_went_is_not_removed(tmp_path: Path):
    """3 x copy in grid 1 went, 2 x copy in grid 2 stay: 3 fewer launches; swapped they are 3 more."""
    own = [kernel(), kernel("copy", grid=2), kernel("copy", grid=2)]
    sides = [
        side(tmp_path / "a", 12, lambda number: [*own, *(3 * [kernel("copy", grid=1)])]),
        side(tmp_path / "b", 12, lambda number: own),
    ]
    titles = [one.title for one in compare(*sides).findings if one.cause.startswith("kernel")]
    assert titles == ["3 fewer launches of copy"], titles
    titles = [one.title for one in compare(*sides[::-1]).findings if one.cause.startswith("kernel")]
    assert titles == ["3 more launches of copy"], titles


def test_counts_are_of_all_steps_and_one_in_every_table(tmp_path):
    """Every tenth step of 21 logs: steps 5 and 15, which are 2 of the 20 after the start. The candidate also waits once in each step."""
    wait = call("cudaStreamSynchronize")

    def made(name: str, always: list[Action]) -> Side:
        return side(tmp_path / name, 21, lambda n: [kernel(), *always, *([wait] if n % 10 == 5 else [])])

    result = compare(made("one", []), made("other", [wait]))
    (row,) = result.structure
    assert told(row) == ("synchronisations", "cudaStreamSynchronize", 2 / 20, 22 / 20)
    (phase,) = result.launch.by_phase
    assert (phase.baseline.syncs_per_step, phase.candidate.syncs_per_step) == pytest.approx((2 / 21, 23 / 21))
    (calls,) = (one for one in phase.apis if one.api == row.name)
    assert (calls.baseline_calls, calls.candidate_calls) == pytest.approx((2 / 21, 23 / 21))
