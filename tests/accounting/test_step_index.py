"""Looking up steps by arrays gives what a join gives."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from tracediff.accounting.reduction import STEP, StepIndex

small = st.integers(0, 3)
steps = st.lists(st.tuples(small, small, small, st.integers(0, 9)), max_size=30)


def table(rows: list[tuple[int, int, int, int]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=dict.fromkeys(STEP, pl.Int64), orient="row")


@given(steps, steps)
def test_it_is_a_left_join(known, asked):
    known = list(dict.fromkeys(known))
    expected = [known.index(one) if one in known else -1 for one in asked]
    assert StepIndex(table(known)).rows(table(asked)).tolist() == expected
