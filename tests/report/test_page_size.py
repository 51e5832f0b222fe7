"""A page stays small whatever the steps hold, and the same input gives the same bytes."""

from __future__ import annotations

import pytest

from fixtures.builders import wide
from tests.comparing import compare
from tests.steps.test_timelines import result_of
from tests.tiny import bundled
from tracediff.companions.model import decode
from tracediff.execution.sides import Run, Side
from tracediff.formats.inputs import resolve
from tracediff.model import encode
from tracediff.report.html import render_html


@pytest.mark.slow
def test_a_pair_with_ten_thousand_ops_a_step_fits_into_a_page(tmp_path) -> None:
    sides = []
    for name, slower in (("baseline", 0), ("candidate", 300)):
        path = wide.trace(ops=10_000, steps=4, slower_ns=slower).write(tmp_path / f"{name}.sqlite")
        files = resolve(str(path))
        sides.append(Side(name, [Run(name, [bundled(files.runs[0].files[0], keep=True)])]))
    result = compare(*sides)
    assert result.timelines is not None
    drawn = [side for one in result.timelines.steps for side in (one.baseline, one.candidate) if side]
    assert drawn and all(step.events >= 20_000 for step in drawn)  # ops and gaps
    page = render_html(result).encode()
    assert len(page) < 1_500_000
    assert len(encode(result)) < 2_500_000


@pytest.mark.slow
@pytest.mark.parametrize("pair", ["graph, gc", "eager, graph", "two ranks"])
def test_pages_of_real_captures_fit(pair) -> None:
    assert len(render_html(result_of(pair)).encode()) < 1_500_000


@pytest.mark.slow
def test_the_result_read_back_from_json_gives_the_same_page() -> None:
    result = result_of("graph, gc")
    page = render_html(result)
    assert render_html(decode(encode(result))) == page
    assert render_html(result) == page
