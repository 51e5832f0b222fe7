"""The runs of a side are repeats of one program, or a comparison says whose they are not."""

from __future__ import annotations

import pytest

from tests.tiny import FIXTURES, bundled
from tracediff.comparison.comparability import need_one_program
from tracediff.comparison.compare import compare
from tracediff.errors import TracediffError
from tracediff.execution.sides import Run, Side


def side(*names: str) -> Side:
    return Side("folder", [Run(name, [bundled(FIXTURES / "pairs" / f"{name}.sqlite.xz")]) for name in names])


def test_graphs_and_none_are_no_repeats_of_one_another():
    """The fewer are named first, whichever comes first in the folder."""
    with pytest.raises(TracediffError) as refused:
        compare(side("base_1"), side("eager_1", "base_1", "base_2"))
    assert (refused.value.slug, refused.value.exit_code) == ("mixed-programs", 4)
    assert "eager_1 against base_1, base_2: CUDA graphs launch 0 % of the kernels of some and 91 %" in str(
        refused.value
    )


def test_scatter_and_small_changes_are_no_other_program():
    """One run carries 400 us of host work more, one has its norms fused, one launches more kernels."""
    need_one_program([side("base_1", "outlier_1", "fused_1", "more_1")])


def test_kernels_of_a_run_are_those_of_all_its_captures():
    """Graphs launch 91 % of the kernels of one of three captures of a run and none of the others': 38 % of all."""
    eager, graphs = (bundled(FIXTURES / "pairs" / f"{name}.sqlite.xz") for name in ("eager_1", "base_1"))
    need_one_program([Side("folder", [Run("three", [eager, eager, graphs]), Run("eager", [eager])])])
