"""The three pictures: widths that sum, texts that are only text, files of their own."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import msgspec
import pytest

from tests.report import sample
from tests.steps.test_timelines import result_of
from tracediff.model import Result
from tracediff.model.pictures import CauseNode, DivergencePoint, StepStrip, StripColumn
from tracediff.report import pictures
from tracediff.report.pictures import cause_tree, divergence, step_strip
from tracediff.report.pictures.shapes import NARROW, SIZE, WIDE, Rect, Text, fitting, spread, wrapped

PAIRS = ("graph, gc", "two ranks")
BAD = "<script>alert(1)</script>"


def node(parent: int, kind: str, baseline: float, candidate: float, **more) -> CauseNode:
    return CauseNode(
        parent, kind, baseline, candidate, candidate - baseline, 0.0, more.pop("level", "likely"), **more
    )


TREE = [
    node(-1, "step", 100.0, 130.0),
    node(0, "state", 60.0, 60.0, key="busy"),
    node(1, "category", 60.0, 60.0, key="compute"),
    node(0, "state", 40.0, 70.0, key="idle"),
    node(3, "category", 10.0, 10.0, key="launch_api"),
    node(3, "category", 30.0, 60.0, key="host_work"),
    node(5, "place", 30.0, 60.0, thread="executor", range=BAD),
]


def with_tree() -> Result:
    return msgspec.structs.replace(sample.full(), cause_tree=TREE)


def test_parts_lie_side_by_side_under_their_node():
    found = {one.number: (one.depth, one.x, one.width) for one in cause_tree.cells(TREE, "candidate")}
    assert found == {
        0: (-1, 0, 130), 1: (0, 0, 60), 2: (1, 0, 60), 3: (0, 60, 70), 4: (1, 60, 10), 5: (1, 70, 60), 6: (2, 70, 60),
    }  # fmt: skip


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("side", ["baseline", "candidate"])
def test_widths_of_parts_sum_to_the_width_of_their_node(pair, side):
    cells = cause_tree.cells(result_of(pair).cause_tree, side)
    assert len(cells) > 20
    for cell in cells:
        parts = [one for one in cells if one.node.parent == cell.number]
        if parts:
            assert sum(one.width for one in parts) == pytest.approx(cell.width, abs=1e-3)
            assert parts[0].x == cell.x


def test_what_changed_most_is_named_and_what_is_sure_comes_first():
    sure = node(5, "place", 5.0, 9.0, thread="executor", range="b", level="confirmed")
    noise = node(5, "place", 20.0, 40.0, thread="executor", range="a", level="within_noise")
    small = node(5, "place", 5.0, 5.5, thread="executor", range="c", level="within_noise")
    assert cause_tree.largest([*TREE[:6], noise, sure, small]) == [7, 6]
    assert cause_tree.largest([node(-1, "step", 1.0, 1.0)]) == []


def test_colour_is_the_change():
    assert cause_tree.tint(TREE[6], 30.0) == ("--slower", 0.5)
    assert cause_tree.tint(TREE[4], 30.0) == ("--rule", 1.0)
    assert cause_tree.tint(node(5, "place", 60.0, 30.0, level="within_noise"), 30.0) == ("--faster", 0.25)


def column(ns: int, parts: list[int], start: int = 0, steps: int = 1) -> StripColumn:
    return StripColumn(0, start, start + ns, steps, 7, "generation", ns, parts, ns)


def test_a_column_of_unlike_steps_is_logarithmic_and_holds_both():
    near = step_strip.height([column(1000, [1000]), column(2000, [2000])])
    assert not near.log and near.of(2000) == pytest.approx(2 * near.of(1000))
    far = step_strip.height([column(1_000_000, [1_000_000]), column(100_000_000, [100_000_000])])
    assert far.log and far.of(100_000_000) <= 118
    assert far.of(1_000_000) > 15  # one can see it
    assert far.ticks() == [1e6, 3e6, 1e7, 3e7, 1e8]


def test_layers_are_stacked():
    """Two categories, half of the step each, in a column 118 px high: the second to 0, the first to half of it."""
    strip = StepStrip(0, 0, 0, ["compute", "gc"], [column(1000, [500, 500])], [])
    of_ns = step_strip.Height(0.0, 1000.0, log=False)
    found = dict(step_strip._layers(strip, [(10.0, strip.baseline[0])], of_ns, 5.0, 118.0))
    assert found == {"gc": "M10.0 118V0H15.0V118z", "compute": "M10.0 118V59H15.0V118z"}


def test_a_click_opens_the_step_that_was_drawn():
    result = result_of("graph, gc")
    drawing = step_strip.draw(result, WIDE)
    assert drawing is not None and result.timelines is not None
    links = {one.href: one.title for one in drawing.shapes if isinstance(one, Rect) and one.href}
    assert "#timeline-0" in links
    typical = result.timelines.steps[0]
    strip = result.step_strip
    assert strip is not None
    for step, columns in ((typical.baseline, strip.baseline), (typical.candidate, strip.candidate)):
        (column,) = (one for one in columns if one.timeline == 0)
        assert step is not None and (column.start_ns, column.number) == (step.start_ns, step.number)
    narrow = step_strip.draw(result, NARROW)
    assert narrow is not None and not narrow.linked


def test_steps_that_are_equal_are_a_flat_line():
    result = result_of("graph, gc")
    one = result.divergences[0]
    flat = msgspec.structs.replace(
        one, candidate=one.baseline, points=[DivergencePoint(0, 0), DivergencePoint(9, 0)], causes=[]
    )
    drawing = divergence.draw(msgspec.structs.replace(result, divergences=[flat]), WIDE)
    assert drawing is not None
    assert "Both steps take equally long" in drawing.description


@pytest.mark.parametrize("pair", PAIRS)
def test_files_are_xml_without_anything_to_load(pair):
    files = pictures.files(result_of(pair))
    assert set(files) == set(pictures.FILES)
    for name, data in files.items():
        root = ElementTree.fromstring(data)
        assert root.tag == "{http://www.w3.org/2000/svg}svg", name
        text = data.decode()
        assert "var(" not in text and "<a " not in text and "href" not in text, name
        assert len(data) < 200_000
        sizes = re.findall(r"font:(?:bold )?([\d.]+)px", text)
        assert sizes and (name == "waterfall.svg" or min(map(float, sizes)) >= 12)


def test_names_are_only_text():
    files = pictures.files(with_tree())
    assert BAD.encode() not in files["cause-tree.svg"]
    assert b"&lt;script&gt;" in files["cause-tree.svg"]
    assert BAD not in "".join(one.svg for one in pictures.for_page(with_tree()).values())


def test_without_data_there_is_no_picture():
    assert pictures.for_page(sample.minimal()) == {}
    assert list(pictures.files(sample.minimal())) == ["waterfall.svg"]


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("layout", [WIDE, NARROW], ids=lambda one: one.name)
def test_nothing_reaches_beyond_the_picture(pair, layout):
    for draw in (cause_tree.draw, step_strip.draw, divergence.draw):
        drawing = draw(result_of(pair), layout)
        assert drawing is not None
        for one in drawing.shapes:
            if isinstance(one, Rect):
                assert one.x >= 0 and one.x + one.width <= layout.width + 0.5
                assert one.y + one.height <= drawing.height
            elif isinstance(one, Text):
                assert 0 <= one.x <= layout.width and one.y <= drawing.height
    assert SIZE >= 12


def test_texts_fit():
    assert fitting("host work", 200) == "host work"
    assert fitting("_forward_step of the executor", 80) == "_forward_\u2026"
    assert fitting("host work", 20) == ""
    assert wrapped("one two three", 60, most=2) == ["one two", "three"]
    assert spread([10.0, 11.0, 300.0], 12, 5, 295) == [10.0, 22.0, 295.0]
