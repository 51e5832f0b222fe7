"""Kernels that begin before the last one ends (programmatic dependent launch), recorded on an H200: fixtures/system/README.md;
and those that end before their launch returns."""

from __future__ import annotations

import itertools
import lzma
import sqlite3
from functools import cache

import pytest

from fixtures.builders import TraceBuilder
from tests.comparing import compare
from tests.tiny import FIXTURES, bundled, label, reduced
from tracediff.comparison.compare import Options
from tracediff.execution.sides import Run, Side
from tracediff.model import Result
from tracediff.report.causes import named
from tracediff.report.sections import answered


@cache
def pair(one: str, other: str) -> Result:
    sides = [
        Side(name, [Run(name, [bundled(FIXTURES / f"system/{name}.sqlite.xz")])]) for name in (one, other)
    ]
    return compare(*sides)


def early(result: Result) -> list[tuple[float, ...]]:
    return [
        (row.baseline, row.baseline_of, row.candidate, row.candidate_of)
        for row in result.structure
        if row.kind == "early"
    ]


def test_recorded_kernels_are_counted_as_a_plain_loop_does(tmp_path) -> None:
    """36 kernels per step in 44 whole steps: all but the first follow the last one at once, and one behind a copy does not."""
    path = tmp_path / "pdl.sqlite"
    path.write_bytes(lzma.decompress((FIXTURES / "system/pdl_on.sqlite.xz").read_bytes()))
    with sqlite3.connect(path) as db:
        ops = db.execute(
            "SELECT start, end, 1 FROM CUPTI_ACTIVITY_KIND_KERNEL UNION ALL SELECT start, end, 0 FROM CUPTI_ACTIVITY_KIND_MEMCPY ORDER BY 1"
        ).fetchall()
    follows = [
        kernel and start - before <= 1 for (_, before, _), (start, _, kernel) in itertools.pairwise(ops)
    ]
    assert sum(follows) == 45 * 34
    assert early(pair("pdl_off", "pdl_on")) == [(0, 36, 34, 36)]


def test_what_they_gain_is_one_cause_though_single_kernels_moved_both_ways() -> None:
    """Without the profiler a step took 185.2 us without such launches and 150.2 us with them: 35 us less."""
    first = pair("pdl_off", "pdl_on").findings[0]
    assert named(first) == "programmatic dependent launch overlaps 0 -> 94 % of all kernels"
    assert -35_000 < first.delta_ns < -30_000
    own = {part.where.called: round(part.delta_ns / 1e3) for part in first.parts if not part.follows}
    assert own == {("gemm_kernel",): -48, ("act_kernel",): 36, ("norm_kernel",): -19}
    assert sum(part.delta_ns for part in first.parts) == pytest.approx(first.delta_ns)


def test_it_is_named_where_it_was_lost_and_the_accounting_is_closed() -> None:
    lost = pair("pdl_on", "pdl_off")
    assert lost.accounting.residual_ns == 0
    assert lost.findings[0].next.startswith(
        "find out what switches programmatic dependent launch (PDL) on or off"
    )
    assert "programmatic dependent launch overlaps 94 -> 0 % of all kernels" in lost.headline.why
    assert pair("pdl_off", "pdl_on").findings[0].next == ""


def test_the_time_of_one_kernel_is_told_with_the_doubt() -> None:
    sides = [
        Side(name, [Run(name, [bundled(FIXTURES / f"system/{name}.sqlite.xz")])])
        for name in ("pdl_off", "pdl_on")
    ]
    (said,) = answered(compare(*sides, Options(kernels=("gemm_kernel",))))
    assert "Kernels that overlap share their time" in str(said.blocks)


def test_branches_of_a_graph_have_streams_of_their_own() -> None:
    branches = pair("pdl_off", "pdl_branches")
    assert early(branches) == []
    assert not any(one.facts.early for one in branches.findings)
    assert [(row.baseline, row.candidate) for row in branches.structure if row.kind == "streams"] == [(1, 13)]


def side(folder, gap: int, *, streams: int = 1, first: int = 10, late: int = 0) -> Side:
    """Steps of ten kernels of 10 us, each `gap` ns after the last one's end, but the `first` alone where given. late: kernels that are launched 2 us after the last one ended."""
    folder.mkdir()
    trace = TraceBuilder().process(100).device(0).thread(100, 1)
    for number in range(13):
        now, corr = number * 1_000_000, number * 100
        trace.range(1, label(number), now, now + 900_000)
        at = now + 50_000
        for kernel in range(10):
            called = now + 1_000 * kernel
            if kernel >= 10 - late:
                at, called = at + 8_000, at + 5_000
            trace.api(1, "cudaLaunchKernel", called, called + 500, corr=corr + kernel + 1)
            trace.kernel(corr + kernel + 1, at, at + 10_000, name="gemm", stream=7 + kernel % streams)
            at += 10_000 + (gap if kernel < first else 500)
    return Side(folder.name, [Run(folder.name, [reduced(trace, folder)])])


@pytest.mark.parametrize(
    ("after", "found"),
    [
        ({"gap": -3_000}, [(0, 10, 9, 10)]),
        ({"gap": 1}, [(0, 10, 9, 10)]),  # as older CUPTI writes an overlap
        ({"gap": 2}, []),
        ({"gap": -3_000, "first": 5}, [(0, 10, 5, 10)]),
        ({"gap": -3_000, "first": 4}, []),  # a graph that has its GPU to itself does so with a third
        ({"gap": -3_000, "streams": 2}, []),
    ],
)
def test_only_of_one_stream_and_of_many_kernels_it_is_a_difference(tmp_path, after, found) -> None:
    result = compare(side(tmp_path / "a", 500), side(tmp_path / "b", **after))
    assert early(result) == found
    assert result.accounting.residual_ns == 0


def test_kernels_that_a_slow_host_launches_late_cannot_begin_early(tmp_path) -> None:
    """9 of the 9 that follow another begin early, and 4 of the 4 that are launched in time: 9 -> 4 of 10 kernels, by time alone."""
    assert early(compare(side(tmp_path / "a", -3_000), side(tmp_path / "b", -3_000, late=5))) == []


def waited(folder, held: int) -> Side:
    """Steps of ten kernels of 10 us, of which the launches of the first `held` return 1 us after the end of their kernel."""
    folder.mkdir()
    trace = TraceBuilder().process(100).device(0).thread(100, 1)
    for number in range(13):
        now, corr = number * 1_000_000, number * 100
        trace.range(1, label(number), now, now + 900_000)
        for kernel in range(10):
            at = now + 20_000 * kernel
            trace.api(
                1, "cudaLaunchKernel", at, at + (14_000 if kernel < held else 3_000), corr=corr + kernel + 1
            )
            trace.kernel(corr + kernel + 1, at + 3_000, at + 13_000, name="gemm")
    return Side(folder.name, [Run(folder.name, [reduced(trace, folder)])])


@pytest.mark.parametrize(
    ("before", "after", "found"), [(0, 10, [(0, 10)]), (10, 0, [(10, 0)]), (0, 4, []), (10, 10, [])]
)
def test_launches_that_wait_for_their_kernels_are_a_difference_by_count(
    tmp_path, before, after, found
) -> None:
    """With CUDA_LAUNCH_BLOCKING=1 all do; without it at most 16 % of a capture did, of 225."""
    result = compare(waited(tmp_path / "a", before), waited(tmp_path / "b", after))
    rows = [row for row in result.structure if row.kind == "blocking"]
    assert [(row.baseline, row.candidate) for row in rows] == found
    assert all((row.baseline_of, row.candidate_of) == (10, 10) for row in rows)


@pytest.mark.slow
def test_a_graph_whose_launch_outlasts_its_first_kernels_waits_for_none(tmp_path) -> None:
    """Of a graph of ten kernels of 10 us, half end before its launch of 65 us returns: only a launch that outlasts all waits."""

    def graphs(folder, call: int) -> Side:
        folder.mkdir()
        trace = TraceBuilder().process(100).device(0).thread(100, 1)
        for number in range(13):
            now = number * 1_000_000
            trace.range(1, label(number), now, now + 900_000)
            trace.api(1, "cudaGraphLaunch", now, now + call, corr=number + 1)
            for kernel in range(10):
                at = now + 3_000 + 12_000 * kernel
                trace.kernel(number + 1, at, at + 10_000, name="gemm", graph_node=kernel + 1)
        return Side(folder.name, [Run(folder.name, [reduced(trace, folder)])])

    base = graphs(tmp_path / "a", 3_000)
    for name, call, found in (("b", 65_000, []), ("c", 130_000, [(0, 10)])):
        result = compare(base, graphs(tmp_path / name, call))
        assert [(row.baseline, row.candidate) for row in result.structure if row.kind == "blocking"] == found


def looped(folder, host: str, beside: tuple[int, int] | None = None) -> Side:
    """Steps of 1 ms. The host launches a kernel and waits: ahead, for the one before; behind, for this one; idle, when the GPU is done.

    beside: when another thread's kernel on another GPU begins and ends, us.
    """
    folder.mkdir()
    trace = TraceBuilder().process(100).device(0).device(1).thread(100, 1).thread(100, 2)
    start, end, called, waited = {
        "ahead": (450, 1_350, 10, 402), "behind": (5, 905, 10, 907), "idle": (5, 905, 910, 912),
    }[host]  # fmt: skip
    for number in range(13):
        now = number * 1_000_000
        trace.range(1, label(number), now, now + 950_000)
        trace.api(1, "cudaLaunchKernel", now, now + 3_000, corr=number + 1)
        trace.kernel(number + 1, now + start * 1_000, now + end * 1_000, name="gemm")
        trace.api(1, "cudaStreamSynchronize", now + called * 1_000, now + waited * 1_000)
        if beside:
            trace.api(2, "cudaLaunchKernel", now + 1_000, now + 4_000, corr=1_000 + number)
            trace.kernel(1_000 + number, now + beside[0] * 1_000, now + beside[1] * 1_000, device=1)
        # the driver's part of the same wait
        trace.api(1, "cuStreamSynchronize", now + called * 1_000 + 500, now + waited * 1_000 - 500)
    return Side(host, [Run(host, [reduced(trace, folder)])])


@pytest.mark.slow
def test_a_host_that_no_longer_runs_ahead_is_a_difference_by_count(tmp_path) -> None:
    """The kernel of 450 to 1,350 us is on the GPU when the wait ends at 402 us; that of 5 to 905 us is over at 907 us.

    A wait that begins at 910 us waits for nothing: a slow host may do that, whether it runs ahead or not.
    """
    ahead, behind, idle = (looped(tmp_path / host, host) for host in ("ahead", "behind", "idle"))
    pairs = (
        ((ahead, behind), [(1, 0)]),
        ((behind, ahead), [(0, 1)]),
        ((ahead, idle), []),
        ((behind, idle), []),
    )
    for sides, found in pairs:
        rows = [row for row in compare(*sides).structure if row.kind in ("ahead", "drained")]
        assert [(row.baseline, row.candidate) for row in rows] == found


def test_what_another_thread_has_on_another_gpu_does_not_run_ahead(tmp_path) -> None:
    """When the wait ends at 907 us, that is over in one run and goes on in the other."""
    spans = {"over": (200, 800), "goes on": (800, 1_100)}
    sides = [looped(tmp_path / name, "behind", beside=span) for name, span in spans.items()]
    assert [row for row in compare(*sides).structure if row.kind in ("ahead", "drained")] == []
