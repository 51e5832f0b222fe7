"""Exports that are not as nsys writes them load with right numbers or fail with a word, whatever is wrong with them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.builders import SCHEMAS
from fixtures.builders.whole import STEPS, whole
from tests.fuzz.mutations import loose, moderate, mutate, mutations
from tests.fuzz.outcomes import check_result, outcome
from tests.fuzz.profile import examples
from tests.oracle import load, periods
from tests.oracle.test_random import in_order
from tracediff.comparison.compare import compare
from tracediff.errors import TracediffError
from tracediff.execution.reading import Reading
from tracediff.execution.run import reduce_file
from tracediff.execution.sides import Run, Side
from tracediff.model import encode
from tracediff.report.markdown import render_markdown

READING = Reading(threads=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("exports")


@pytest.fixture(scope="module")
def base(folder):
    return loose(whole().write(folder / "strict.sqlite"), folder / "loose.sqlite")


@pytest.fixture(scope="module")
def intact(base):
    return side("intact", reduce_file(base, READING))


def side(name, reduction):
    return Side(name, [Run(name, [reduction])])


@given(changes=st.lists(mutations, min_size=1, max_size=4))
@examples(40)
def test_a_mutated_export(changes, base, intact, folder):
    path = mutate(base, folder / "mutated.sqlite", changes)
    reduction = outcome(lambda: reduce_file(path, READING))
    if isinstance(reduction, TracediffError):
        assert "mutated.sqlite" in str(reduction) and reduction.fix
        return
    assert reduction.residual_ns == 0
    result = outcome(lambda: compare(intact, side("mutated", reduction)))
    if not isinstance(result, TracediffError):
        check_result(result)
        encode(result)
        render_markdown(result)


@given(changes=st.lists(moderate, min_size=1, max_size=4))
@examples(30)
def test_the_oracle_reads_the_same_of_what_still_makes_sense(changes, base, folder):
    path = mutate(base, folder / "moderate.sqlite", changes)
    reduction = outcome(lambda: reduce_file(path, READING))
    if isinstance(reduction, TracediffError) or "correlation-ids-repeat" in {
        note.slug for note in reduction.warnings
    }:
        return
    capture = load(path)
    sure = in_order(capture)
    wanted = {
        (one.pid, one.device, one.number, one.start_ns, one.end_ns): one.categories
        for one in periods(capture)
        if one.pid in sure and one.start_ns < one.end_ns
    }
    found = {
        (row["pid"], row["device"], row["number"], row["start_ns"], row["end_ns"]): row
        for row in reduction.periods.iter_rows(named=True)
        if row["pid"] in sure
    }
    assert found.keys() == wanted.keys()
    for key, categories in wanted.items():
        assert {name: found[key][name] for name in categories} == categories, key


# nsys wrote no node of a graph before 2020: the time between two nodes is that of a launch that had returned.
OLDEST = {"graph_internal": -100, "dependency": 100}


@pytest.mark.parametrize("schema", SCHEMAS)
def test_every_generation_of_the_schema_compares_with_the_newest(schema, folder):
    """From one trace all give one set of numbers, and the newest sees what changes in each: here 700 ns of compute."""
    newest = side("newest", reduce_file(whole("3.24").write(folder / "newest.sqlite"), READING))
    old = side("old", reduce_file(whole(schema).write(folder / "old.sqlite"), READING))
    result = compare(newest, old)
    check_result(result)
    assert result.step.baseline_ns == result.step.candidate_ns == 10_000
    moved = {name: ns for name, ns in result.accounting.delta.items() if ns}
    assert moved == (OLDEST if schema == "2019" else {})
    assert len(old.runs[0].parts[0].periods) == 2 * STEPS
    assert all(row.match == "exact" and row.delta_ns == 0 for row in result.kernels)
    longer = whole("3.24", more=100).write(folder / "longer.sqlite")
    result = compare(old, side("longer", reduce_file(longer, READING)))
    assert result.accounting.delta["compute"] == 100  # of the idle 100 ns before the first node of the graph
