"""Tables that tell of the same time add up to each other."""

from __future__ import annotations

import msgspec
import pytest

from tests.comparing import compare
from tests.tiny import CAPTURES, FIXTURES, bundled
from tracediff.comparison.compare import Options
from tracediff.execution.run import reduce_sides
from tracediff.execution.sides import Reading, Run, Side
from tracediff.formats.inputs import resolve_pair

PAIRS = FIXTURES / "pairs"


def side(path) -> Side:
    return Side(path.name, [Run(path.name, [bundled(path)])])


@pytest.mark.parametrize("name", ["graph_a1", "tp2_a1"])
def test_the_gil_matrix_adds_up_to_the_waits_of_each_thread(name):
    one = side(CAPTURES[name])
    gil = compare(one, one).gil
    waits: dict[str, float] = {}
    for row in gil.rows:
        waits[row.thread] = waits.get(row.thread, 0.0) + (row.baseline_wait_ns or 0.0)
    held: dict[str, float] = {}
    for pair in gil.matrix:
        held[pair.waiter] = held.get(pair.waiter, 0.0) + (pair.baseline_ns or 0.0)
    assert max(waits.values()) > 10_000
    for thread, ns in waits.items():
        assert held.get(thread, 0.0) == pytest.approx(ns, abs=1e-3), thread


def test_ranks_are_compared_at_the_mix_of_the_step():
    """Another arrival rate: with one rank, its time is that of the step, whatever the mix."""
    both = side(PAIRS / "base_1.sqlite.xz"), side(PAIRS / "arr12_1.sqlite.xz")
    result = compare(*both, Options())
    assert len([row for row in result.strata if row.compared]) > 1
    (rank,) = result.ranks
    assert (rank.baseline_ns, rank.candidate_ns) == pytest.approx(
        (result.step.baseline_ns, result.step.candidate_ns)
    )


def test_the_same_sides_give_the_same_bits():
    """Sums of floats in an order that threads decide would differ in their last digits, and so would saved results."""
    sides = reduce_sides(
        resolve_pair(str(FIXTURES / "bundles" / "straggler"), None)[:2], Reading(keep=True, cached=True)
    )
    assert len({msgspec.json.encode(compare(*sides)) for _ in range(8)}) == 1
