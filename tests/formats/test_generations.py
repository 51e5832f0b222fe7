"""From one trace every generation of the schema gives one set of numbers."""

from __future__ import annotations

import pytest

from fixtures.builders import SCHEMAS
from fixtures.builders.whole import STEPS, whole
from tests.fuzz.outcomes import check_result
from tests.fuzz.targets import READING, side
from tracediff.comparison.compare import compare
from tracediff.execution.run import reduce_file

# nsys wrote no node of a graph before 2020: the time between two nodes is that of a launch that had returned.
OLDEST = {"graph_internal": -100, "dependency": 100}


@pytest.fixture(scope="module")
def newest(tmp_path_factory):
    """The trace of the newest generation, and the same with longer kernels."""
    folder = tmp_path_factory.mktemp("newest")
    made = {"newest": whole("3.24"), "longer": whole("3.24", more=100)}
    return [
        side(name, reduce_file(one.write(folder / f"{name}.sqlite"), READING)) for name, one in made.items()
    ]


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param(one, marks=[] if one in (SCHEMAS[0], SCHEMAS[-1]) else [pytest.mark.slow])
        for one in SCHEMAS
    ],
)
def test_every_generation_of_the_schema_compares_with_the_newest(schema, newest, tmp_path):
    """From one trace all give one set of numbers, and the newest sees what changes in each: here 700 ns of compute."""
    newest, longer = newest
    old = side("old", reduce_file(whole(schema).write(tmp_path / "old.sqlite"), READING))
    result = compare(newest, old)
    check_result(result)
    assert result.step.baseline_ns == result.step.candidate_ns == 10_000
    moved = {name: ns for name, ns in result.accounting.delta.items() if ns}
    assert moved == (OLDEST if schema == "2019" else {})
    assert len(old.runs[0].parts[0].periods) == 2 * STEPS
    assert all(row.match == "exact" and row.delta_ns == 0 for row in result.kernels)
    result = compare(old, longer)
    assert result.accounting.delta["compute"] == 100  # of the idle 100 ns before the first node of the graph
