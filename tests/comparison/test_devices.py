"""One process, two GPUs: a model cut in two, whose second half waits for the first."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.builders import TraceBuilder
from tests.comparing import compare
from tests.tiny import label, reduced
from tracediff.execution.sides import Run, Side
from tracediff.model.causes import CATEGORIES
from tracediff.report.causes import advice, named

US = 1_000


def side(name: str, first_us: int, folder: Path) -> Side:
    """20 steps of `first_us` on GPU 0 and then 100 us on GPU 1, all launched in the first 20 us; the host waits for GPU 1."""
    (folder / name).mkdir()
    trace = TraceBuilder().process(100).device(0).device(1).thread(100, 1)
    for number in range(20):
        now = number * (first_us + 150) * US
        end = now + (10 + first_us) * US
        trace.range(1, label(number), now, end + 120 * US)
        for device, (name_of, begin, finish) in enumerate(
            (("first_half", now + 10 * US, end), ("second_half", end, end + 100 * US))
        ):
            corr, call = 2 * number + device + 1, now + (1 + 10 * device) * US
            trace.api(1, "cudaLaunchKernel", call, call + 5 * US, corr=corr)
            trace.kernel(corr, begin, finish, name=name_of, device=device)
        trace.api(1, "cudaEventSynchronize", now + 20 * US, end + 105 * US)
    return Side(name, [Run(name, [reduced(trace, folder / name)])])


def test_a_slower_first_half_makes_the_other_gpu_wait(tmp_path) -> None:
    """GPU 1 has its launch from 16 us on and waits 94 -> 394 us for GPU 0, which works 300 us more: 150 us each of the mean of both."""
    sides = [side(name, first, tmp_path) for name, first in (("short", 100), ("long", 400))]
    result = compare(*sides)
    assert result.accounting.delta is not None
    moved = {name: ns for name in CATEGORIES if (ns := result.accounting.delta.get(name))}
    assert moved == pytest.approx({"compute": 150 * US, "dependency": 150 * US})
    waits = next(one for one in result.findings if one.cause == "dependency")
    assert named(waits).startswith("launched work waits for another GPU")
    assert advice(waits).startswith("compare what each GPU does in a step")


def graphs(name: str, nodes: tuple[int, int], plain: int, folder: Path) -> Side:
    """12 steps of 100 us: on each GPU a CUDA graph of so many nodes of 1 us, and on GPU 0 so many kernels more."""
    (folder / name).mkdir()
    trace = TraceBuilder().process(100).device(0).device(1).thread(100, 1)
    for number in range(12):
        now, corr = number * 100 * US, 10 * number
        trace.range(1, label(number), now, now + 90 * US)
        for device in (0, 1):
            trace.api(
                1, "cudaGraphLaunch", now + device * US, now + device * US + 500, corr=corr + device + 1
            )
            for node in range(nodes[device]):
                begin = now + (10 + 2 * node) * US
                trace.kernel(corr + device + 1, begin, begin + US, graph_node=node + 1, device=device)
        for one in range(plain):
            trace.api(
                1, "cudaLaunchKernel", now + (3 + one) * US, now + (3 + one) * US + 500, corr=corr + 3 + one
            )
            trace.kernel(corr + 3 + one, now + (50 + 2 * one) * US, now + (51 + 2 * one) * US, name="plain")
    return Side(name, [Run(name, [reduced(trace, folder / name)])])


@pytest.mark.slow
def test_kernels_in_graphs_are_counted_of_those_of_their_own_gpu(tmp_path) -> None:
    """GPU 1 has 3 of 3 -> 2 of 2 in graphs, GPU 0 2 of 2 -> 2 of 3: neither is 3 of 2."""
    sides = [graphs(*one, tmp_path) for one in (("all", (2, 3), 0), ("some", (2, 2), 1))]
    assert [row for row in compare(*sides).structure if row.kind == "graph_kernels"] == []
    sides = [graphs(*one, tmp_path) for one in (("whole", (2, 3), 0), ("part", (1, 3), 2))]
    row = next(row for row in compare(*sides).structure if row.kind == "graph_kernels")
    assert (row.baseline, row.baseline_of, row.candidate, row.candidate_of) == (2, 2, 1, 3)
