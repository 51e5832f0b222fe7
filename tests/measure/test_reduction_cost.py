"""What reducing an export costs in Python: nothing for a row, little for a step. Rows are handled by DuckDB, numpy and polars.

Lines run are counted, not timed, of a real capture and of four copies of it one after the other. Each step's label is a text
of its own, which takes some 90 lines, and 50 more where the step is one to measure: for the 164 kernels of a step that is
0.55 and 0.85 lines a kernel. A loop over any of the large tables would add one or more for each kernel.
"""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest

from fixtures.builders.replicate import replicate
from tests.line_count import lines_run
from tracediff.execution.run import Reading, reduce_file

FIXTURES = Path(__file__).parents[2] / "fixtures"
SHAPES = {
    "graph": FIXTURES / "demo/graph_a/graph_a1.sqlite.xz",
    "eager": FIXTURES / "captures/eager_a1.sqlite.xz",
}
KERNELS = 5083  # of either capture


@pytest.fixture(scope="module", params=SHAPES)
def exports(request, tmp_path_factory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp(request.param)
    one, four = folder / "one.sqlite", folder / "four.sqlite"
    one.write_bytes(lzma.decompress(SHAPES[request.param].read_bytes()))
    assert replicate(one, four, 4 * KERNELS) == 4
    return one, four


@pytest.mark.parametrize(
    ("whole", "a_kernel"), [(True, 0.8), (False, 1.2)], ids=["as one step", "step by step"]
)
def test_no_line_is_run_for_a_row(exports, whole, a_kernel):
    one, four = exports
    reading = Reading(threads=1, whole_capture=whole)
    reduce_file(one, reading)  # what is imported and remembered once
    few, small = lines_run(reduce_file, one, reading)
    many, large = lines_run(reduce_file, four, reading)
    assert len(large.periods) == (1 if whole else len(small.periods) * 4 + 3)
    assert many - few < a_kernel * 3 * KERNELS
