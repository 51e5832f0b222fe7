"""Gaps between the nodes of CUDA graphs: runs of one program have them of 0.1 or of 0.45 us, which is no cause of a change."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fixtures.builders import TraceBuilder
from tests.comparing import compare
from tests.serving import US
from tests.tiny import label, reduced
from tracediff.execution.sides import Run, Side
from tracediff.model import Finding


def graphs(gap_ns: int, nodes: int = 101) -> TraceBuilder:
    """Steps of one graph: 5 us of launching, kernels of 1 us with a gap between two of them, 20 us of the host."""
    trace = TraceBuilder().process(100).device(0).thread(100, 1)
    now = 0
    for number in range(24):
        trace.api(1, "cudaGraphLaunch", now, now + 5 * US, corr=number + 1)
        at = now + 7 * US
        for node in range(nodes):
            trace.kernel(number + 1, at, at + US, name="gemm", graph_node=100 + node)
            at += US + gap_ns
        end = at - gap_ns
        trace.api(1, "cudaStreamSynchronize", now + 5 * US, end)
        trace.range(1, label(number, 0, 0, 4), now, end)
        now = end + 20 * US
    return trace


@pytest.fixture
def gaps(tmp_path: Path) -> Callable[[TraceBuilder, TraceBuilder], Finding]:
    """The cause that holds the gaps; alone or with what they follow from."""

    def of(before: TraceBuilder, after: TraceBuilder) -> Finding:
        sides = []
        for name, trace in (("a", before), ("b", after)):
            (tmp_path / name).mkdir()
            sides.append(Side(name, [Run(name, [reduced(trace, tmp_path / name)])]))
        found = compare(*sides).findings
        return next(
            one for one in found if "graph_internal" in (one.cause, *(part.cause for part in one.parts))
        )

    return of


@pytest.mark.parametrize(("before", "after"), [(100, 450), (450, 100)])
def test_another_state_of_the_same_graph_is_not_sure(gaps, before: int, after: int) -> None:
    found = gaps(graphs(before), graphs(after))
    assert found.delta_ns == pytest.approx(100 * (after - before))  # as measured, 35 us of 163
    assert found.level == "within_noise" and found.ci_low_ns < 0 < found.ci_high_ns


def test_gaps_that_no_state_explains_are_sure(gaps) -> None:
    found = gaps(graphs(100), graphs(1_500))
    assert (found.delta_ns, found.level) == (pytest.approx(140 * US), "likely")
    assert 85 * US < found.ci_low_ns < 140 * US - 450 * 100 + US  # less what the other state would take


def test_gaps_of_more_nodes_follow_from_them(gaps) -> None:
    found = gaps(graphs(450), graphs(450, nodes=201))
    (follow,) = [part for part in found.parts if part.cause == "graph_internal"]
    assert (found.level, follow.follows, follow.delta_ns) == ("exact", True, pytest.approx(45 * US))
