"""What is said behind a verdict: changes of a few steps only, and of the way in which kernels are launched."""

from __future__ import annotations

import pytest

from tests.comparing import compare
from tests.tiny import CAPTURES
from tracediff.execution.reading import Reading
from tracediff.execution.run import reduce_file
from tracediff.execution.sides import Run, Side


@pytest.fixture(scope="module")
def result():
    sides = {
        name: Side(name, [Run(name, [reduce_file(CAPTURES[name], Reading())])])
        for name in ("graph_a1", "graph_a2", "graph_gc", "graph_sleep", "eager_a1")
    }
    return lambda one, other: compare(sides[one], sides[other])


def test_a_collection_every_fifth_step_is_not_in_every_step(result):
    found = result("graph_a1", "graph_gc")
    assert "It is not in every step: the median generation step changed by" in found.verdict_reason


def test_two_milliseconds_in_every_step_are(result):
    found = result("graph_a1", "graph_sleep")
    assert found.verdict == "likely_regressed"
    assert "not in every step" not in found.verdict_reason


@pytest.mark.parametrize(
    ("one", "other", "said"), [("eager_a1", "graph_a1", "0 -> 100 %"), ("graph_a1", "eager_a1", "100 -> 0 %")]
)
def test_another_way_of_launching_is_named(result, one, other, said):
    found = result(one, other)
    assert (
        f"({said} of them)" in found.verdict_reason
        and "Kernels launched by CUDA graphs:" not in found.verdict_reason
    )


@pytest.mark.parametrize(("one", "other"), [("eager_a1", "graph_a1"), ("graph_a1", "eager_a1")])
def test_graphs_lead_and_gather_what_comes_of_them(result, one, other):
    found = result(one, other)
    group = [finding for finding in found.findings if "CUDA graphs" in finding.note]
    assert [finding.rank for finding in group] == list(range(1, len(group) + 1)) and len(group) > 3
    assert {finding.where.range for finding in group} == {"[Executor] _forward_step"}
    together = sum(finding.delta_ns for finding in group) / 1e3
    assert f"{together:+,.1f} us in {len(group)} findings" in found.verdict_reason
    assert abs(together) > 0.9 * abs(found.step.delta_ns) / 1e3
    now = "CUDA graphs launch the kernels now" if other == "graph_a1" else "CUDA graphs no longer launch"
    assert found.verdict_reason.index(now) < found.verdict_reason.index("Largest part:")


def test_nothing_is_gathered_where_nothing_moved(result):
    assert not any("CUDA graphs" in finding.note for finding in result("graph_a1", "graph_sleep").findings)


def test_no_change_has_no_asides(result):
    found = result("graph_a1", "graph_a2")
    assert "CUDA graphs:" not in found.verdict_reason and "every step" not in found.verdict_reason


def test_advice_is_for_what_got_slower(result):
    slower, faster = result("graph_a1", "graph_gc"), result("graph_gc", "graph_a1")
    assert "gc.freeze" in slower.findings[0].next
    assert faster.findings[0].cause == "gc" and faster.findings[0].next == ""
