"""The pictures: widths that sum, texts that are only text, files of their own."""

from __future__ import annotations

import re
from functools import partial
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest

from tests.report import sample
from tests.report.test_show import shown
from tests.steps.test_timelines import result_of
from tracediff.model import Result
from tracediff.model.common import OddRun
from tracediff.model.pictures import CauseNode, DivergencePoint, StepStrip, StripColumn
from tracediff.report import palette, pictures, units, waterfall
from tracediff.report.causes import run_name
from tracediff.report.escape import neutral
from tracediff.report.pictures import (
    cause_tree,
    distribution,
    divergence,
    fall,
    runs,
    scatter,
    step_strip,
    style,
)
from tracediff.report.pictures.style import (
    HALF,
    HALF_NARROW,
    NARROW,
    SIZE,
    WIDE,
    Sheet,
    fitting,
    marks,
    span,
    wrapped,
)

PAIRS = ("graph, gc", "two ranks")
BAD = "<script>alert(1)</script>"
HOSTILE = [BAD, "$x^2$", "a]](https://evil.example)", "\\frac{1}", '" onload="alert(1)', "#1b1f24; fill: red"]


def drawn(draw, layout=WIDE) -> ElementTree.Element:
    """A picture of a page as elements."""
    svg = style.Later(draw, layout).__html__()
    assert svg
    return ElementTree.fromstring(svg)


def texts(root: ElementTree.Element) -> list[str]:
    return ["".join(one.itertext()) for one in root.iter() if one.tag.endswith("text")]


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


def test_what_may_be_noise_is_listed_without_the_colour_of_a_change():
    unsure = node(5, "place", 5.0, 9.0, range="b", level="within_noise")
    report = msgspec.structs.replace(sample.full(), cause_tree=[*TREE, unsure])
    page = drawn(lambda layout: cause_tree.draw(report, layout))
    ink = {
        one.text: one.get("fill") or one.get("style") or one.get("class") for one in page.iter() if one.text
    }
    sizes = [text for text in ink if text.startswith("+")]
    assert ["slower" in str(ink[text]) for text in sizes] == [True, False], ink


def test_colour_is_the_change():
    assert cause_tree.tint(TREE[6], 30.0) == ("--slower", 0.5)
    assert cause_tree.tint(TREE[4], 30.0) == ("--rule", 1.0)
    assert cause_tree.tint(node(5, "place", 60.0, 30.0, level="within_noise"), 30.0) == ("--faster", 0.25)


def column(ns: int, parts: list[int], start: int = 0, steps: int = 1) -> StripColumn:
    return StripColumn(0, start, start + ns, steps, 7, "generation", ns, parts, ns)


def test_a_column_of_unlike_steps_is_logarithmic_and_holds_both():
    near = step_strip.heights([column(1000, [1000]), column(2000, [2000])])
    assert not near.log and near.low == 0 and near.at(2000) == pytest.approx(2 * near.at(1000))
    far = step_strip.heights([column(1_000_000, [1_000_000]), column(100_000_000, [100_000_000])])
    assert far.log and far.at(100_000_000) <= 1
    assert far.at(1_000_000) > 0.15  # one can see it


def test_layers_are_stacked():
    """Two categories, half of the step each: the last one is painted first, to the top, the first one over it to the middle."""
    strip = StepStrip(0, 0, 0, ["compute", "gc", "comm"], [column(1000, [500, 500, 0])], [])
    found = step_strip._layers(strip, strip.baseline, step_strip.Heights(0.0, 1000.0))
    assert found == [("gc", [1.0]), ("compute", [0.5])]


def test_columns_stand_beside_each_other_and_runs_apart():
    columns = [column(1, [1]), column(2, [2]), msgspec.structs.replace(column(3, [3]), run=1)]
    assert step_strip.lefts(columns) == [0, 1, 3]
    assert step_strip.outline([0, 1, 2, 4], [0.1, 0.2, 0.2, 0.3]) == [
        (0, 0), (0, 0.1), (1, 0.1), (1, 0.2), (3, 0.2), (3, 0), (4, 0), (4, 0.3), (5, 0.3), (5, 0)
    ]  # fmt: skip


def test_numbers_of_one_place_stand_beside_each_other(monkeypatch):
    """Right of the middle of 344 px (172) they go to the left, over it as well; left of it to the right."""
    sheet, written = Sheet(NARROW, "kernels"), []
    monkeypatch.setattr(sheet, "write", lambda x, *_, **__: written.append(x))
    for x, step in ((173.0, -SIZE), (171.0, SIZE)):
        written.clear()
        sheet.number(dict.fromkeys((1, 2, 3), (x, 40.0)))
        assert written == [x, x + step, x + 2 * step]


def test_a_telephone_shows_the_longest_of_neighbours():
    columns = [
        msgspec.structs.replace(column(ns, [ns]), run=at // 200) for at, ns in enumerate([5, 9] * 100 + [7])
    ]
    found = step_strip.merged(columns)
    assert [one.ns for one in found] == [9] * 100 + [7]
    assert [one.steps for one in found] == [2] * 100 + [1]
    assert {one.median_ns for one in found[:-1]} == {5}
    assert step_strip.merged(columns[:100]) == columns[:100]


def test_a_click_opens_the_step_that_was_drawn():
    result = result_of("graph, gc")
    assert result.timelines is not None and result.step_strip is not None
    links = [
        one.get("href")
        for one in drawn(lambda layout: step_strip.draw(result, layout)).iter()
        if one.tag == "a"
    ]
    strip = result.step_strip
    shown = {one.timeline for one in (*strip.baseline, *strip.candidate) if one.timeline is not None}
    assert "#timeline-0" in links and set(links) == {f"#timeline-{one}" for one in shown}
    typical = result.timelines.steps[0]
    for step, columns in ((typical.baseline, strip.baseline), (typical.candidate, strip.candidate)):
        (column,) = (one for one in columns if one.timeline == 0)
        assert step is not None and (column.start_ns, column.number) == (step.start_ns, step.number)
    narrow = drawn(lambda layout: step_strip.draw(result, layout), NARROW)
    assert not [one for one in narrow.iter() if one.tag == "a"]


def test_steps_that_are_equal_are_a_flat_line():
    result = result_of("graph, gc")
    one = result.divergences[0]
    flat = msgspec.structs.replace(
        one, candidate=one.baseline, points=[DivergencePoint(0, 0), DivergencePoint(9, 0)], causes=[]
    )
    root = drawn(lambda layout: divergence.draw(msgspec.structs.replace(result, divergences=[flat]), layout))
    assert "Both steps take equally long" in (root.findtext("desc") or "")
    assert "Both steps take equally long" in texts(root)


def test_a_distribution_holds_its_slowest_values_whatever_their_number():
    assert distribution.ecdf([3.0, 1.0, 2.0, 2.0]) == [(1.0, 0.25), (2.0, 0.5), (2.0, 0.75), (3.0, 1.0)]
    curve = distribution.ecdf([float(one) for one in range(1, 10_001)])
    assert len(curve) < 200
    assert [ns for ns, _ in curve[-3:]] == [9_998.0, 9_999.0, 10_000.0]
    assert all(part == ns / 10_000 for ns, part in curve)


def test_step_times_are_drawn_for_phases_with_steps_on_both_sides():
    result = sample.full()
    first = result.verdict_facts.phase
    root = drawn(lambda layout: distribution.of_steps(result, layout))
    bold = [one.text for one in root.iter() if "bold" in one.get("style", "")]
    assert bold and bold[0] == (first or bold[0])
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
    root = drawn(
        lambda layout: scatter.draw(msgspec.structs.replace(sample.full(), kernels=rows, launched=[]), layout)
    )
    assert "2 of 4 kernels changed beyond noise" in (root.findtext("desc") or "")
    assert "gone" in texts(root)
    dots = {one.get("style"): one.get("d", "").count("h0") for one in root.iter("path")}
    assert [many for style, many in dots.items() if style and "stroke-linecap:round" in style] == [2, 1, 1]


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


def test_a_strip_shows_every_run():
    result = sample.full()
    found = runs.runs_of(result, result.phases[1])
    assert [one.side for one in found] == ["baseline"] * 5 + ["candidate"] * 5
    assert sum(len(one.values) for one in found) == 290
    strip, left_out = runs.phase_strip(result, result.phases[1])
    assert left_out == 0
    root = ElementTree.fromstring(strip.__html__())
    dots = [one for one in root.iter("path") if "stroke-linecap:round" in one.get("style", "")]
    places = [float(x) for one in dots for x in re.findall(r"M([\d.]+) ", one.get("d", ""))]
    assert len(places) == 290 and min(places) >= 150 and max(places) <= 590


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("001-baseline-1/report.sqlite.xz", "001-baseline-1/report"),
        ("a.json.gz", "a"),
        ("tp2/.json.gz", "tp2"),
        (".json.gz", ".json.gz"),
        ("pr_1", "pr_1"),
    ],
)
def test_a_run_has_its_folder_and_no_ending(name: str, said: str):
    assert run_name(name) == said


def test_a_run_is_called_by_its_file_and_says_that_it_is_left_out():
    result = sample.full()
    odd = OddRun("candidate", "pr_r3.sqlite", 9e4, "host_work", 8e4, left_out=True)
    phases = [msgspec.structs.replace(result.phases[1], odd_runs=[odd])]
    found = runs.runs_of(msgspec.structs.replace(result, phases=phases), result.phases[1])
    assert [one.label for one in found][4:9] == ["main_r4", "pr_r0", "pr_r1", "pr_r2", "pr_r3, left out"]


def test_the_longest_step_has_a_mark_of_its_own_in_the_unit_of_the_others():
    strip = StepStrip(0, 0, 0, ["compute"], [column(9_897_000, [9_897_000]), column(4_000_000, [4_000_000])])
    page = drawn(partial(step_strip.draw, msgspec.structs.replace(shown("gc"), step_strip=strip)))
    assert [one for one in texts(page) if one.endswith("ms")] == ["5 ms", "9.90 ms"]


@pytest.mark.parametrize(
    ("layout", "axis"), [(HALF, ["950", "960", "980", "1,000"]), (HALF_NARROW, ["950", "1,000"])]
)
def test_a_cut_axis_has_a_mark_at_its_start(layout, axis):
    """The changes are 41 of 1,013 us; where there is little room, the last mark is the only other one."""
    bars = [
        waterfall.Bar("baseline", "baseline", "baseline", 0, 1_013_000),
        waterfall.Bar("category", "gc", "Python GC", 1_013_000, 972_000, level="likely"),
        waterfall.Bar("candidate", "candidate", "candidate", 0, 972_000),
    ]
    figure = waterfall.Waterfall(bars, units.Scale("us", 1000, 1))
    assert [one for one in texts(drawn(partial(fall.draw, figure), layout)) if one in axis] == axis


@pytest.mark.parametrize("pair", PAIRS)
def test_files_are_pictures_without_anything_to_load(pair):
    files = pictures.files(result_of(pair))
    assert sorted(files) == sorted(pictures.FILES)
    index = files.pop(pictures.INDEX).decode()
    assert re.findall(r"]\((.*)\)", index) == [name for name in files if name.endswith("svg")]
    for name, data in files.items():
        assert len(data) < 200_000
        if name.endswith("png"):
            assert data.startswith(b"\x89PNG\r\n") and b"Software" not in data and b"tIME" not in data
            continue
        root = ElementTree.fromstring(data)
        assert root.tag == "{http://www.w3.org/2000/svg}svg", name
        text = data.decode()
        assert not re.search(r"var\(|<a |href|url\(|<use|<style|<metadata| id=", text), name
        assert f"font:{SIZE}px" in text and SIZE >= 12


@pytest.mark.slow
def test_the_same_report_gives_the_same_bytes():
    result = result_of("graph, gc")
    assert pictures.files(result) == pictures.files(result)
    assert pictures.for_page(result) == pictures.for_page(result)


def test_settings_of_the_user_change_nothing_and_ours_stay_ours():
    import matplotlib

    plain = pictures.files(with_tree(), ["cause-tree"])
    with matplotlib.rc_context(
        {"font.size": 30, "svg.fonttype": "path", "lines.linewidth": 9, "axes.grid": False}
    ):
        assert pictures.files(with_tree(), ["cause-tree"]) == plain
        assert matplotlib.rcParams["font.size"] == 30


def test_colours_are_told_apart_by_their_values():
    """A page takes the colours of a picture back to the variables of the palette."""
    assert len(set(palette.LIGHT.values())) == len(palette.LIGHT)
    colours = {name: one for name, one in palette.LIGHT.items() if name != "--pale"}
    assert all(re.fullmatch("#[0-9a-f]{6}", one) for one in colours.values())
    page = pictures.for_page(result_of("graph, gc"))
    assert not [one.name for one in page.values() if re.search("#[0-9a-f]{6}", one.svg)]


def test_one_side_has_pictures_of_its_own():
    """Widths are its times, colours its categories; nothing is compared."""
    report = shown("gc")
    files = pictures.files(report)
    assert [name for name in files if not name.endswith("png")] == [
        "index.md", "cause-tree.svg", "step-strip.svg", "step-times.svg"
    ]  # fmt: skip
    tree = report.cause_tree
    assert tree[0].baseline_ns == pytest.approx(report.step.mean_ns)
    assert sum(one.baseline_ns for one in tree if one.kind == "state") == pytest.approx(report.step.mean_ns)
    top = cause_tree.largest(tree)
    times = [tree[one].baseline_ns for one in top]
    assert len(top) == 3 and times == sorted(times, reverse=True)
    strip = report.step_strip
    assert strip is not None
    assert sum(one.steps for one in strip.baseline) == report.step.all_steps


@pytest.mark.parametrize(
    "name", HOSTILE[:2] + [pytest.param(one, marks=pytest.mark.slow) for one in HOSTILE[2:]]
)
def test_names_are_only_text(name):
    place = msgspec.structs.replace(TREE[6], range=name)
    report = msgspec.structs.replace(sample.full(), cause_tree=[*TREE[:6], place])
    files = pictures.files(report, ["cause-tree"])
    page = pictures.for_page(neutral(report))["cause-tree"].svg
    assert files["cause-tree.png"].startswith(b"\x89PNG")
    for svg in (files["cause-tree.svg"].decode(), f"<div>{page}</div>"):
        root = ElementTree.fromstring(svg)
        tags = {one.tag.rpartition("}")[2] for one in root.iter()} - {"div"}
        assert tags <= {"svg", "g", "path", "text", "title", "desc", "rect", "a"}
        attributes = {key for one in root.iter() for key in one.attrib}
        assert not [one for one in attributes if one.startswith("on")]
        assert any(name in text for text in root.itertext())


def test_without_data_there_is_no_picture():
    assert pictures.for_page(sample.minimal()) == {}
    assert list(pictures.files(sample.minimal())) == ["index.md", "waterfall.svg", "waterfall.png"]


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("layout", [WIDE, NARROW], ids=lambda one: one.name)
def test_nothing_reaches_beyond_the_picture(pair, layout):
    for draw in pictures._OF_BOTH.values():
        root = drawn(lambda layout, draw=draw: draw(result_of(pair), layout), layout)
        _, _, width, height = map(float, root.get("viewBox", "").split())
        assert width == layout.width
        for one in root.iter("text"):
            assert 0 <= float(one.get("x", 0)) <= width and 0 < float(one.get("y", 0)) <= height
        for one in root.iter("path"):
            for x, y in re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", one.get("d", "")):
                assert -1 <= float(x) <= width + 1 and -1 <= float(y) <= height + 1


def test_bars_begin_at_zero_or_are_broken():
    """14 % more is drawn as 14 % more; only what is more than noise and could not be seen else is magnified, and its bars are broken."""
    from tracediff.report import waterfall

    def figure(after: int, level: Any = "likely") -> waterfall.Waterfall:
        bars = [
            waterfall.Bar("baseline", "baseline", "baseline", 0, 1_000_000),
            waterfall.Bar("category", "gc", "Python GC", 1_000_000, after, level=level),
            waterfall.Bar("candidate", "candidate", "candidate", 0, after),
        ]
        return waterfall.Waterfall(bars, style.units.scale_for([1e6]))

    assert figure(1_140_000).axis() == (0.0, 1_140_000.0)
    assert figure(1_010_000).axis()[0] > 900_000
    for after, broken in ((1_140_000, False), (1_010_000, True)):
        assert ("var(--paper)" in pictures.of_fall(figure(after)).__html__()) is broken
        bars = [
            line for line in waterfall.text_figure(figure(after)).splitlines() if "\u2588\u2571\u2588" in line
        ]
        assert len(bars) == 2 * broken
    assert figure(1_010_000, "within_noise").axis() == (0.0, 1_010_000.0)


def test_the_waterfall_shows_its_rows():
    from tracediff.report import waterfall

    figure = waterfall.build(sample.full())
    root = drawn(lambda layout: pictures.fall.draw(figure, layout), HALF)
    assert root.get("aria-label") == "Step-time waterfall"
    assert (root.findtext("desc") or "").startswith("baseline 1,038.6 \u00b5s; compute \u22121.3 \u00b5s")
    assert {bar.label for bar in figure.drawn} <= set(texts(root))
    assert {"+97.2", "\u22127.2"} <= set(texts(root))


def test_axis_of_equal_and_of_wild_values():
    low, high, log = span([5.0, 5.0])
    assert low < 5 < high and not log
    low, high, log = span([1e3, 1e9])
    assert log and 0 < low < 1e3 and high > 1e9
    assert not span([0.0, 1e9])[2]
    assert not span([1e-13, 1e6])[2]  # the rest of a sum of floats


def test_marks_of_an_axis_by_powers_are_no_more_than_asked_for():
    assert marks(0.9, 12.0, 6, log=True) == [1, 2, 5, 10]
    assert marks(0.9, 120.0, 6, log=True) == [1, 3, 10, 30, 100]
    assert marks(0.9, 1.2e5, 6, log=True) == [1, 10, 100, 1e3, 1e4, 1e5]
    assert marks(0.9, 1.2e7, 4, log=True) == [1, 100, 1e4, 1e6]
    assert marks(1.1, 1.9, 4, log=True) == []
    assert marks(0, 1000, 5) == [0, 200, 400, 600, 800, 1000]


def test_texts_fit():
    assert fitting("host work", 200) == "host work"
    assert fitting("_forward_step of the executor", 80) == "_forward_\u2026"
    assert fitting("host work", 20) == ""
    assert wrapped("one two three", 60, most=2) == ["one two", "three"]
