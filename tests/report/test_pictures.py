"""The pictures: widths that sum, texts that are only text, files of their own."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import msgspec
import pytest

from tests.report import sample
from tests.report.test_show import shown
from tests.steps.test_timelines import result_of
from tracediff.model import Result
from tracediff.model.pictures import CauseNode, DivergencePoint, StepStrip, StripColumn
from tracediff.report import pictures
from tracediff.report.drawing import NARROW, SIZE, WIDE, Axis, Rect, Text, fitting, spread, wrapped
from tracediff.report.pictures import cause_tree, distribution, divergence, scatter, step_strip

PAIRS = ("graph, gc", "two ranks")
BAD = "<script>alert(1)</script>"


def node(parent: int, kind: str, baseline: float, candidate: float, **more) -> CauseNode:
    return CauseNode(
        parent, kind, baseline, candidate, candidate - baseline, more.pop("level", "likely"), **more
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
    larger = [node(5, "place", 0.0, us, range="b", level="likely") for us in (10.0, 9.0, 8.0)]
    found = msgspec.structs.replace(sure, finding=1)
    assert cause_tree.largest([*TREE[:6], *larger, found]) == [9, 6, 7]
    assert cause_tree.largest([*TREE[:6], *larger, noise]) == [6, 7, 9]  # the largest of all is named


def test_colour_is_the_change():
    assert cause_tree.tint(TREE[6], 30.0) == ("--slower", 0.5)
    assert cause_tree.tint(TREE[4], 30.0) == ("--rule", 1.0)
    assert cause_tree.tint(node(5, "place", 60.0, 30.0, level="within_noise"), 30.0) == ("--faster", 0.25)


def column(ns: int, parts: list[int], start: int = 0, steps: int = 1) -> StripColumn:
    return StripColumn(0, start, start + ns, steps, 7, "generation", ns, parts, ns)


def test_a_column_of_unlike_steps_is_logarithmic_and_holds_both():
    near = step_strip.heights([column(1000, [1000]), column(2000, [2000])])
    assert not near.log and near.at(2000) == pytest.approx(2 * near.at(1000), abs=0.02)
    far = step_strip.heights([column(1_000_000, [1_000_000]), column(100_000_000, [100_000_000])])
    assert far.log and far.at(100_000_000) <= step_strip._HIGH
    assert far.at(1_000_000) > 10  # one can see it
    assert far.ticks(6) == [1e6, 3e6, 1e7, 3e7, 1e8]


def test_layers_are_stacked():
    """Two categories, half of the step each, in a column 76 px high over a line at 118: the second to 42, the first to 80."""
    strip = StepStrip(0, 0, 0, ["compute", "gc"], [column(1000, [500, 500])], [])
    of_ns = Axis(0.0, 1000.0, 0.0, 76.0)
    found = dict(step_strip._layers(strip, [(10.0, strip.baseline[0])], of_ns, 5.0, 118.0))
    assert found == {"gc": "M10.0 118V42H15.0V118z", "compute": "M10.0 118V80H15.0V118z"}


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


def test_a_distribution_holds_its_slowest_values_whatever_their_number():
    assert distribution.ecdf([3.0, 1.0, 2.0, 2.0]) == [(1.0, 0.25), (2.0, 0.5), (2.0, 0.75), (3.0, 1.0)]
    curve = distribution.ecdf([float(one) for one in range(1, 10_001)])
    assert len(curve) < 200
    assert [ns for ns, _ in curve[-3:]] == [9_998.0, 9_999.0, 10_000.0]
    assert all(part == ns / 10_000 for ns, part in curve)


def test_step_times_are_drawn_for_phases_with_steps_on_both_sides():
    result = sample.full()
    first = result.verdict_facts.phase
    drawing = distribution.of_steps(result, WIDE)
    assert drawing is not None
    titles = [one.text for one in drawing.shapes if isinstance(one, Text) and one.bold]
    assert titles and titles[0] == (first or titles[0])
    assert distribution.of_steps(msgspec.structs.replace(result, samples=[]), WIDE) is None


def kernel(before: float, after: float, level: str):
    """A row of so many ns per step on both sides, 0: not there."""
    row = sample.full().kernels[0]
    sides = [
        msgspec.structs.replace(row.baseline, names=["silu"], ns_per_step=ns) if ns else None
        for ns in (before, after)
    ]
    return msgspec.structs.replace(
        row, baseline=sides[0], candidate=sides[1], delta_ns=after - before, level=level
    )


def test_kernels_that_changed_for_sure_come_first_and_have_a_colour():
    rows = [
        kernel(9e4, 1e4, "within_noise"), kernel(1e4, 3e4, "exact"), kernel(5e4, 0.0, "confirmed"),
        kernel(1e4, 1e4, "exact"),
    ]  # fmt: skip
    found = scatter.dots(rows)
    assert [(one.baseline, one.candidate, one.colour) for one in found] == [
        (5e4, 0.0, "--faster"), (1e4, 3e4, "--slower"), (9e4, 1e4, "--muted"), (1e4, 1e4, "--muted"),
    ]  # fmt: skip
    drawing = scatter.draw(msgspec.structs.replace(sample.full(), kernels=rows, launched=[]), WIDE)
    assert drawing is not None
    assert "2 of 4 kernels changed beyond noise" in drawing.description
    assert "gone" in [one.text for one in drawing.shapes if isinstance(one, Text)]


def test_the_category_of_the_first_cause_stands_at_the_foot():
    result = sample.full()
    strip = StepStrip(
        0, 0, 0, ["compute", "host_work"], [column(1000, [400, 600])], [column(900, [400, 500])]
    )
    first = step_strip.named(result)
    assert first == result.findings[0].cause == "host_work"
    turned = step_strip._with_first(strip, first)
    assert turned.categories == ["host_work", "compute"]
    assert [one.parts for one in (*turned.baseline, *turned.candidate)] == [[600, 400], [500, 400]]


@pytest.mark.parametrize("pair", PAIRS)
def test_files_are_xml_without_anything_to_load(pair):
    files = pictures.files(result_of(pair))
    assert list(files) == list(pictures.FILES)
    index = files.pop(pictures.INDEX).decode()
    assert re.findall(r"]\((.*)\)", index) == list(files)
    for name, data in files.items():
        root = ElementTree.fromstring(data)
        assert root.tag == "{http://www.w3.org/2000/svg}svg", name
        text = data.decode()
        assert "var(" not in text and "<a " not in text and "href" not in text, name
        assert len(data) < 200_000
        sizes = re.findall(r"font:(?:bold )?([\d.]+)px", text)
        assert sizes and min(map(float, sizes)) >= 12


def test_one_side_has_pictures_of_its_own():
    """Widths are its times, colours its categories; nothing is compared."""
    report = shown("gc")
    files = pictures.files(report)
    assert list(files) == ["index.md", "cause-tree.svg", "step-strip.svg", "step-times.svg"]
    tree = report.cause_tree
    assert tree[0].baseline_ns == pytest.approx(report.step.mean_ns)
    assert sum(one.baseline_ns for one in tree if one.kind == "state") == pytest.approx(report.step.mean_ns)
    top = cause_tree.largest(tree)
    times = [tree[one].baseline_ns for one in top]
    assert len(top) == 3 and times == sorted(times, reverse=True)
    strip = report.step_strip
    assert strip is not None
    assert sum(one.steps for one in strip.baseline) == report.step.all_steps


def test_names_are_only_text():
    files = pictures.files(with_tree())
    assert BAD.encode() not in files["cause-tree.svg"]
    assert b"&lt;script&gt;" in files["cause-tree.svg"]
    assert BAD not in "".join(one.svg for one in pictures.for_page(with_tree()).values())


def test_without_data_there_is_no_picture():
    assert pictures.for_page(sample.minimal()) == {}
    assert list(pictures.files(sample.minimal())) == ["index.md", "waterfall.svg"]


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("layout", [WIDE, NARROW], ids=lambda one: one.name)
def test_nothing_reaches_beyond_the_picture(pair, layout):
    for draw in pictures._OF_BOTH.values():
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
