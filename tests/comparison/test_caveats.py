"""What is said behind a verdict: changes of a few steps only, and of the way in which kernels are launched."""

from __future__ import annotations

import pytest

from tests.comparing import compare
from tests.test_scoreboard import FOLDER
from tests.tiny import CAPTURES, bundled
from tracediff.execution.sides import Run, Side


@pytest.fixture(scope="module")
def result():
    sides = {
        name: Side(name, [Run(name, [bundled(CAPTURES[name])])])
        for name in ("graph_a1", "graph_a2", "graph_gc", "graph_sleep", "eager_a1")
    }
    return lambda one, other: compare(sides[one], sides[other])


@pytest.mark.parametrize(("one", "other"), [("eager_a1", "graph_a1"), ("graph_a1", "eager_a1")])
def test_another_way_of_launching_is_named(result, one, other):
    """Where findings come of it, the verdict has them and their sum; else that the launches changed."""
    found = result(one, other)
    facts, launch = found.verdict_facts, found.launch
    # mixed steps launch their kernels one by one
    shares = sorted([launch.baseline.graph_coverage, launch.candidate.graph_coverage])
    assert shares[0] == 0 and 0.9 < shares[1] < 1
    group = [finding for finding in found.findings if finding.facts.graph_coverage]
    assert facts.graph_coverage is (not group)
    for finding in group:
        assert finding.rank == 1 and finding.where.range == "[Executor] _forward_step"
        coverage = finding.facts.graph_coverage
        # of generation steps: mixed ones are in the shares of all
        assert sorted([coverage.baseline, coverage.candidate]) == [0, 1]
        assert (coverage.candidate > coverage.baseline) is (
            launch.candidate.graph_coverage > launch.baseline.graph_coverage
        )
        assert sum(part.delta_ns for part in finding.parts) == pytest.approx(finding.delta_ns)


def test_graphs_lead_and_gather_what_comes_of_them(compared):
    found = compared(("eager_a1", "eager_a2"), ("graph_a1", "graph_a2", "graph_a3"))
    assert found.verdict == "likely_improved"
    first = found.findings[0]
    assert first.facts.graph_coverage and first.delta_ns < -1_000_000
    assert {"launch_api", "host_work"} <= {part.cause for part in first.parts}
    assert "of it: CUDA graphs launch 0 -> 100 % of all kernels." in found.headline.text


@pytest.mark.parametrize("other", ["eager_1", "eager_sync_1"])
def test_launching_that_left_graphs_is_not_exposed_by_synchronisations(other):
    """Eager steps take 1.7 ms more, and eager ones with a synchronisation after each of eight layers 0.24 ms more than these, by the
    program's own clock (fixtures/pairs): 8 calls do not explain 0.77 ms of launches and their latency."""
    sides = [Side(name, [Run(name, [bundled(FOLDER / f"{name}.sqlite.xz")])]) for name in ("base_1", other)]
    found = compare(*sides)
    graphs = found.findings[0]
    assert graphs.facts.graph_coverage and graphs.share > 0.95
    assert {"launch_api", "launch_latency", "host_work"} <= {part.cause for part in graphs.parts}
    synchronised = [one for one in found.findings if one.facts.counted_calls]
    assert sum(abs(one.delta_ns) for one in synchronised) < 240_000


def test_nothing_is_gathered_where_nothing_moved(result):
    assert not any("CUDA graphs" in finding.title for finding in result("graph_a1", "graph_sleep").findings)


def test_no_change_has_no_asides(result):
    found = result("graph_a1", "graph_a2")
    assert "CUDA graphs:" not in found.verdict_reason and "every step" not in found.verdict_reason


def test_advice_is_for_what_got_slower(result):
    slower, faster = result("graph_a1", "graph_gc"), result("graph_gc", "graph_a1")
    assert "gc.freeze" in slower.findings[0].next
    assert faster.findings[0].cause == "gc" and faster.findings[0].next == ""
