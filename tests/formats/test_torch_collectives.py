"""What torch.distributed says of its collectives in a trace of torch.profiler: calls into NCCL, with the size of their message and their group."""

from __future__ import annotations

import gzip
import json
from contextlib import closing

import pytest

from fixtures.builders.torch_trace import TorchTrace
from tests.comparing import compare
from tests.formats.test_kineto import EXECUTOR, steps, torch_trace
from tests.tiny import FIXTURES, label
from tracediff.capture.scrub import scrub_trace
from tracediff.execution.run import reduce_file, reduce_sides
from tracediff.execution.sides import Reading
from tracediff.formats.capture import load_capture
from tracediff.formats.inputs import resolve
from tracediff.report.first import headline
from tracediff.report.html import render_html
from tracediff.report.markdown import render_markdown

US = 1000
HOSTILE = "<img src=x>|`tp`\n@here"


def calls(folder, trace: TorchTrace) -> list[tuple]:
    """Call, bytes, whether the communicator is known, group; in their order."""
    with closing(load_capture(torch_trace(folder, trace), folder)) as capture:
        if capture.coverage["nccl"] != "captured":
            return []
        return capture.db.execute(
            'SELECT text, bytes, comm IS NOT NULL, "group" FROM nccl_call JOIN range_text ON label = name ORDER BY start_ns'
        ).fetchall()


def test_each_collective_is_the_call_that_it_makes(tmp_path):
    """Two bytes an element: what a rank sends, of a reduce-scatter what it gets."""
    cases = [
        ("allreduce", 8, 8, "ncclAllReduce", 16),
        ("_allgather_base", 8, 16, "ncclAllGather", 16),
        ("all_gather", 8, 16, "ncclAllGather", 16),
        ("_reduce_scatter_base", 16, 8, "ncclReduceScatter", 16),
        ("all_to_allv", 24, 8, "ncclAlltoAll", 48),
        ("broadcast", 8, 8, "ncclBroadcast", 16),
        ("reduce", 8, 8, "ncclReduce", 16),
        ("send", 8, 8, "ncclSend", 16),
        ("recv", 8, 8, "ncclRecv", 16),
        ("barrier", 0, 0, "ncclAllReduce", None),
    ]
    trace = steps(TorchTrace())
    for at, (name, sent, received, *_) in enumerate(cases):
        trace.collective(
            EXECUTOR,
            160 + 20 * at,
            170 + 20 * at,
            name,
            **{"In msg nelems": sent, "Out msg nelems": received},
        )
    assert calls(tmp_path, trace) == [(call, size, True, "tp") for *_, call, size in cases]


def test_what_is_no_collective_stays_a_range(tmp_path):
    trace = steps(TorchTrace())
    for at, name in enumerate(["wait", "init", "ALLREDUCE", "allreduce; DROP", "", "x" * 99]):
        trace.collective(EXECUTOR, 160 + 20 * at, 170 + 20 * at, name)
    assert calls(tmp_path, trace) == []
    ranges = reduce_file(torch_trace(tmp_path, trace), Reading(threads=1)).ranges
    assert ranges.filter(place="record_param_comms")["count"].sum() == 6


def test_an_odd_field_costs_what_it_says_alone(tmp_path):
    cases = [
        ({"dtype": "acme"}, ("ncclAllReduce", None, True, "tp")),
        ({"In msg nelems": -5}, ("ncclAllReduce", None, True, "tp")),
        ({"In msg nelems": 2**62}, ("ncclAllReduce", None, True, "tp")),
        ({"Process Group Name": ""}, ("ncclAllReduce", 2048, False, "tp")),
        ({"Process Group Description": "undefined"}, ("ncclAllReduce", 2048, True, "")),
        ({"Process Group Description": "default_pg"}, ("ncclAllReduce", 2048, True, "")),
        ({"Process Group Description": "y" * 500}, ("ncclAllReduce", 2048, True, "y" * 64)),
        ({"Process Group Description": HOSTILE}, ("ncclAllReduce", 2048, True, HOSTILE)),
        ({"Process Group Ranks": [0, 1]}, ("ncclAllReduce", 2048, True, "tp")),
        ({"Process Group Ranks": {"a": 1}}, ("ncclAllReduce", 2048, True, "tp")),
        # a field of another type makes it a plain range
        ({"In msg nelems": "many"}, None),
        ({"dtype": 3}, None),
        ({"In msg nelems": 2**70}, None),
    ]
    trace = steps(TorchTrace())
    for at, (said, _) in enumerate(cases):
        trace.collective(EXECUTOR, 160 + 20 * at, 170 + 20 * at, **said)
    assert calls(tmp_path, trace) == [found for _, found in cases if found]


def test_sends_that_are_one_launch_belong_to_the_group_of_the_last(tmp_path):
    trace = steps(TorchTrace()).collective(EXECUTOR, 60, 80, "send", description="pp")
    trace.range(EXECUTOR, "nccl:coalesced", 90, 160)
    assert calls(tmp_path, trace) == [("ncclSend", 2048, True, "pp"), ("ncclGroupEnd", None, False, "")]
    reduction = reduce_file(torch_trace(tmp_path, trace), Reading(threads=1))
    assert reduction.comm_calls.select("call", "sized", "bytes").rows() == [
        ("ncclGroupEnd", 0, 0),
        ("ncclSend", 1, 2048),
    ]


def test_a_scrubbed_trace_says_the_same_of_them_and_nothing_of_its_owner(tmp_path):
    trace = steps(TorchTrace())
    trace.collective(
        EXECUTOR, 90, 160, description="tp of /home/jane/acme", **{"Global rank start": "hunter2"}
    )
    source, target = torch_trace(tmp_path, trace), tmp_path / "out.json"
    scrub_trace(source, target)
    assert "hunter2" not in target.read_text() and "jane" not in target.read_text()
    before, after = (reduce_file(one, Reading(threads=1)) for one in (source, target))
    assert before.comm_calls.equals(after.comm_calls) and before.comm_calls["bytes"].to_list() == [2048]


STEPS = 12
GROUPS = ((0, 1), (2, 3))


def four_ranks(folder, name: str, late_us: int, description: str, *, exchange: bool = False):
    """Two groups of two ranks reduce from 200 to 400 us of a step of 1000; rank 3 comes `late_us` later, and so all of it ends.

    The export of rank r is r s ahead. exchange: each rank sends 1024 elements to others instead, late rank 3 three times as many.
    """
    (folder / name).mkdir()
    for rank in range(4):
        group = GROUPS[rank // 2]
        trace = TorchTrace(zero=10**18 + rank * 10**9)
        trace.head["distributedInfo"] = {"rank": rank, "world_size": 4}
        for number in range(STEPS + 1):
            base = (1000 + late_us) * US * number
            trace.range(EXECUTOR, label(number), base, base + 90 * US)
            for part in (0, 1):
                at = base + (10 + 20 * part) * US
                trace.api(EXECUTOR, "cudaLaunchKernel", at, at + 5 * US, corr=2 * number + part)
            trace.collective(
                EXECUTOR,
                base + 26 * US,
                base + 40 * US,
                "all_to_allv" if exchange else "allreduce",
                elements=3072 if exchange and late_us and rank == 3 else 1024,
                group=f"{rank // 2}",
                description=description,
                ranks=group,
            )
            start = base + (200 + late_us * (rank == 3)) * US
            trace.kernel(2 * number, base + 100 * US, start, name="gemm")
            trace.kernel(
                2 * number + 1,
                start,
                base + (400 + late_us * (rank > 1)) * US,
                name="ncclDevKernel_SendRecv" if exchange else "ncclDevKernel_AllReduce_Sum_bf16_RING_LL",
            )
        trace.write(folder / name / f"rank{rank}.json")
    return resolve(str(folder / name))


@pytest.mark.parametrize(
    ("description", "name", "said"),
    [
        (HOSTILE, HOSTILE, "waiting for rank 3 of group"),
        pytest.param("undefined", "", "waiting for rank 3 of ranks 2 and 3 in", marks=pytest.mark.slow),
    ],
)
def test_the_late_rank_is_named_with_its_group_which_is_text_in_every_report(
    tmp_path, description, name, said
):
    inputs = [four_ranks(tmp_path, f"late{late}", late, description) for late in (0, 150)]
    result = compare(*reduce_sides(inputs, Reading(threads=1)))
    first, second = result.rank_groups
    assert (first.members, second.members) == ([0, 1], [2, 3])
    assert {one.name for one in result.rank_groups} == {name}
    # rank 2 waits 150 us for rank 3
    assert (first.candidate_wait_ns, second.candidate_wait_ns) == pytest.approx((0, 150 * US))
    assert (second.baseline_wait_ns, second.candidate_late) == (0, 3)
    assert "+150 us: slower gemm kernels on rank 3, and others wait for it." in headline(result).text
    assert any(said in one.title for one in result.findings if one.facts.late_rank)
    if name:
        assert "&lt;img" in render_html(result) and "<img" not in render_html(result)
        assert "\\<img" in render_markdown(result) and "<img" not in render_markdown(result).replace(
            "\\<", ""
        )


@pytest.mark.slow
def test_a_rank_with_more_of_the_experts_tokens_sends_more(tmp_path):
    inputs = [four_ranks(tmp_path, f"late{late}", late, "ep", exchange=True) for late in (0, 150)]
    result = compare(*reduce_sides(inputs, Reading(threads=1)))
    assert [(one.baseline_sent_bytes, one.candidate_sent_bytes) for one in result.ranks] == [
        (2048, 2048), (2048, 2048), (2048, 2048), (2048, 3 * 2048)
    ]  # fmt: skip
    (waiting,) = [one for one in result.findings if one.facts.late_rank]
    assert "waiting for rank 3 of group ep in the all-to-all" in waiting.title
    # of what ranks 2 and 3 send to each other
    assert waiting.note.endswith("It sends 50 % -> 75 % of the bytes.")


RECORDED = FIXTURES / "torch"


@pytest.mark.slow
def test_groups_that_two_ranks_recorded():
    """Eight all-reduces in the group tp and one in dp a step (fixtures/torch/README.md)."""
    with gzip.open(RECORDED / "tp_dp_16" / "rank0.json.gz") as file:
        events = json.load(file)["traceEvents"]
    kernels = [one for one in events if one["cat"] == "kernel" and one["name"].startswith("nccl")]
    inputs = [resolve(str(RECORDED / name)) for name in ("tp_dp_16", "tp_dp_32")]
    sides = reduce_sides(inputs, Reading(threads=1))
    arrived = sides[0].parts[0].arrivals
    assert 0 < len(arrived) <= len(kernels)
    assert arrived.group_by("group").len().sort("group").rows() == [
        ("dp", len(arrived) // 9),
        ("tp", len(arrived) // 9 * 8),
    ]
    result = compare(*sides)
    assert [(one.name, one.members, one.calls) for one in result.rank_groups] == [
        ("dp", [0, 1], "ncclAllReduce"), ("tp", [0, 1], "ncclAllReduce")
    ]  # fmt: skip
    (call,) = result.system.comm_calls
    # 16 or 32 tokens of 4096 bf16 in eight, 32 MiB in one
    assert call.baseline_bytes_per_call == pytest.approx((8 * 16 * 8192 + 2**25) / 9)
    assert call.candidate_bytes_per_call == pytest.approx((8 * 32 * 8192 + 2**25) / 9)
    (row,) = [one for one in result.structure if one.kind == "messages"]
    assert (row.name, row.group, row.baseline, row.certain) == ("ncclAllReduce", "tp", 8, True)
    assert (row.baseline_bytes, row.candidate_bytes) == (8 * 16 * 8192, 8 * 32 * 8192)
    assert "ncclAllReduce of group tp 1.05 -> 2.10 MB per step in 8 calls" in headline(result).counts


@pytest.mark.slow
def test_groups_of_some_of_four_ranks():
    """Eight all-reduces in one of two groups tp and one all-gather in one of two groups dp a step and rank (fixtures/torch/README.md)."""
    inputs = [resolve(str(RECORDED / name)) for name in ("tp2_dp2_256", "tp2_dp2_1024", "tp2_dp2_late")]
    base, more, late = reduce_sides(inputs, Reading(threads=1))
    for part in base.parts:
        counts = dict(part.arrivals.group_by("group").len().iter_rows())
        assert counts == {"tp": 8 * part.periods.height, "dp": part.periods.height}
    result = compare(base, more)
    assert sorted((one.name, one.members, one.calls) for one in result.rank_groups) == [
        ("dp", [0, 2], "ncclAllGather"), ("dp", [1, 3], "ncclAllGather"),
        ("tp", [0, 1], "ncclAllReduce"), ("tp", [2, 3], "ncclAllReduce"),
    ]  # fmt: skip
    (row,) = [one for one in result.structure if one.kind == "messages"]
    # what a rank sends: 256 or 1024 rows of 4096 bf16
    assert (row.name, row.group, row.baseline, row.candidate) == ("ncclAllGather", "dp", 1, 1)
    assert (row.baseline_bytes, row.candidate_bytes) == (256 * 8192, 1024 * 8192)
    assert "ncclAllGather of group dp 2.10 -> 8.39 MB per step in 1 call" in headline(result).counts
    result = compare(base, late)
    (found,) = [one for one in result.findings if one.cause == "host_work" and one.where.rank == 3]
    assert found.where.range == "schedule"
    assert found.delta_ns == pytest.approx(800 * US, rel=0.05)  # planted
    # rank 1 was the last one before, rank 0 is now: for rank 3 the others wait less
    waits = next(
        (one.baseline_caused_wait_ns, one.candidate_caused_wait_ns) for one in result.ranks if one.rank == 3
    )
    assert waits == pytest.approx((1982 * US, 1786 * US), rel=0.001)
    assert headline(result).why.endswith("host work in schedule on rank 3.")
    assert found.note == "The mean over all ranks is +193 us."
