"""The pictures: columns that sum, texts that are only text, files of their own."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest

from tests.report import sample
from tests.report.test_show import shown
from tests.steps.test_timelines import result_of
from tracediff.model.pictures import StepStrip, StripColumn
from tracediff.report import palette, pictures
from tracediff.report.escape import neutral
from tracediff.report.pictures import runs, step_strip, style
from tracediff.report.pictures.style import HALF, NARROW, SIZE, WIDE, fitting, marks, span, wrapped

PAIRS = ("graph, gc", "two ranks")
BAD = "<script>alert(1)</script>"
HOSTILE = [
    BAD,
    "$x^2$",
    "a]](https://evil.example)",
    "\\frac{1}",
    '" onload="alert(1)',
    "#1b1f24; fill: red",
]


def drawn(draw, layout=WIDE) -> ElementTree.Element:
    """A picture of a page as elements."""
    svg = style.for_page(draw, layout)
    assert svg
    return ElementTree.fromstring(svg)


def texts(root: ElementTree.Element) -> list[str]:
    return ["".join(one.itertext()) for one in root.iter() if one.tag.endswith("text")]


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
    strip = runs.phase_strip(result, result.phases[1])
    assert strip is not None and strip.left_out == 0
    root = ElementTree.fromstring(strip.svg.__html__())
    dots = [one for one in root.iter("path") if "stroke-linecap:round" in one.get("style", "")]
    places = [float(x) for one in dots for x in re.findall(r"M([\d.]+) ", one.get("d", ""))]
    assert len(places) == 290 and min(places) >= 150 and max(places) <= 590


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


def test_the_same_report_gives_the_same_bytes():
    result = result_of("graph, gc")
    assert pictures.files(result) == pictures.files(result)
    assert pictures.strip(result) == pictures.strip(result)


def test_settings_of_the_user_change_nothing_and_ours_stay_ours():
    import matplotlib

    plain = pictures.files(result_of("graph, gc"), [pictures.STRIP])
    with matplotlib.rc_context(
        {"font.size": 30, "svg.fonttype": "path", "lines.linewidth": 9, "axes.grid": False}
    ):
        assert pictures.files(result_of("graph, gc"), [pictures.STRIP]) == plain
        assert matplotlib.rcParams["font.size"] == 30


def test_colours_are_told_apart_by_their_values():
    """A page takes the colours of a picture back to the variables of the palette."""
    assert len(set(palette.LIGHT.values())) == len(palette.LIGHT)
    assert all(re.fullmatch("#[0-9a-f]{6}", one) for one in palette.LIGHT.values())
    page = pictures.strip(result_of("graph, gc"))
    assert page is not None and not re.search("#[0-9a-f]{6}", page.svg)


def test_one_side_has_pictures_of_its_own():
    """Every step of the one side; nothing is compared."""
    report = shown("gc")
    files = pictures.files(report)
    assert [name for name in files if not name.endswith("png")] == ["index.md", "step-strip.svg"]
    strip = report.step_strip
    assert strip is not None
    assert sum(one.steps for one in strip.baseline) == report.step.all_steps


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_only_text(name):
    columns = [msgspec.structs.replace(column(1000, [1000]), phase=name)]
    strip = StepStrip(0, 0, 0, ["compute"], columns, columns)
    report = msgspec.structs.replace(sample.full(), step_strip=strip)
    files = pictures.files(report, [pictures.STRIP])
    page = pictures.strip(neutral(report))
    assert files["step-strip.png"].startswith(b"\x89PNG") and page is not None
    for svg in (files["step-strip.svg"].decode(), f"<div>{page.svg}</div>"):
        root = ElementTree.fromstring(svg)
        tags = {one.tag.rpartition("}")[2] for one in root.iter()} - {"div"}
        assert tags <= {"svg", "g", "path", "text", "title", "desc", "rect", "a"}
        attributes = {key for one in root.iter() for key in one.attrib}
        assert not [one for one in attributes if one.startswith("on")]
        assert any(name in text for text in root.itertext())


def test_without_data_there_is_no_picture():
    assert pictures.strip(sample.minimal()) is None
    assert list(pictures.files(sample.minimal())) == ["index.md", "waterfall.svg", "waterfall.png"]


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("layout", [WIDE, NARROW], ids=lambda one: one.name)
def test_nothing_reaches_beyond_the_picture(pair, layout):
    root = drawn(lambda layout: step_strip.draw(result_of(pair), layout), layout)
    _, _, width, height = map(float, root.get("viewBox", "").split())
    assert width == layout.width
    for one in root.iter("text"):
        assert 0 <= float(one.get("x", 0)) <= width and 0 < float(one.get("y", 0)) <= height
    for one in root.iter("path"):
        for x, y in re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", one.get("d", "")):
            assert -1 <= float(x) <= width + 1 and -1 <= float(y) <= height + 1


def test_bars_begin_at_zero_or_are_broken():
    """14 % more is drawn as 14 % more; only what is more than noise and could not be seen else is magnified, and its axis says so."""
    from tracediff.report import waterfall

    def figure(after: int, level: Any = "likely") -> waterfall.Waterfall:
        bars = [
            waterfall.Bar("baseline", "baseline", "baseline", 0, 1_000_000),
            waterfall.Bar("category", "gc", "Python GC", 1_000_000, after, level=level),
            waterfall.Bar("candidate", "candidate", "candidate", 0, after),
        ]
        return waterfall.Waterfall(bars, style.units.scale_for([1e6]))

    assert figure(1_140_000).axis() == (0.0, 1_140_000.0)
    assert "axis cut" not in pictures.of_fall(figure(1_140_000))
    assert figure(1_010_000).axis()[0] > 900_000
    assert "axis cut" in pictures.of_fall(figure(1_010_000))
    assert figure(1_010_000, "within_noise").axis() == (0.0, 1_010_000.0)


def test_the_waterfall_shows_its_rows():
    from tracediff.report import waterfall

    figure = waterfall.build(sample.full())
    root = drawn(lambda layout: pictures.fall.draw(figure, layout), HALF)
    assert root.get("aria-label") == "Step-time waterfall"
    assert (root.findtext("desc") or "").startswith("baseline 1,038.6 us; compute -1.3 us")
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
