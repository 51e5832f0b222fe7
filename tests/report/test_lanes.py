"""Steps event by event as the page's data: every event of the model or, of many, what they add up to."""

from __future__ import annotations

import json
from itertools import pairwise

import msgspec
import pytest

from tests.report import sample
from tests.steps.test_timelines import PAIRS, column, inside, result_of
from tracediff.model.pictures import Crop, CropSide
from tracediff.report import drawn, lanes
from tracediff.report.blocks import Section, Table
from tracediff.report.html import render_html


def decoded(lane: dict) -> list[tuple[int, int]]:
    """Begin and length of every event, ns."""
    found, at = [], 0
    for after, length in zip(lane["after"], lane["length"], strict=True):
        found.append((10 * (at + after), 10 * length))
        at += after + length
    return found


def sides(pair: str):
    """Both forms of every side of every step that is drawn, and its figure."""
    result = result_of(pair)
    data = json.loads(lanes.data(result))
    for timeline, figure in zip(lanes.drawn(result), data["figures"], strict=True):
        steps = [one for one in (timeline.baseline, timeline.candidate) if one is not None]
        for step, side in zip(steps, figure["sides"], strict=True):
            yield data, figure, step, side


@pytest.mark.parametrize("pair", ["graph, gc", "two ranks"])
@pytest.mark.slow
def test_small_steps_are_told_event_by_event(pair):
    names = result_of(pair).timelines.names
    seen = 0
    for data, figure, step, side in sides(pair):
        drawn = {(one["kind"], one["name"], one["of"]): one for one in side["lanes"]}
        for lane in step.lanes if not figure["below"] else ():
            if (found := drawn.get((lane.kind, lane.name, lane.of))) is None:
                continue
            begins, lengths = zip(*decoded(found), strict=True)
            assert begins == pytest.approx(column(lane.start), abs=10)  # numbers are tens of ns
            assert lengths == pytest.approx(column(lane.length), abs=10)
            groups = [data["events"][one][1] for one in found["event"]]
            assert groups == [names[one] for one in column(lane.group)]
            seen += len(groups)
    assert seen > 500


@pytest.mark.parametrize("pair", PAIRS)
def test_what_is_merged_adds_up_by_group_and_stays_in_its_step(pair):
    result = result_of(pair)
    for data, figure, step, side in sides(pair):
        assert side["period"] == step.period_ns <= figure["length"]
        drawn = {(one["kind"], one["name"], one["of"]): one for one in side["lanes"]}
        for lane in step.lanes:
            if (found := drawn.get((lane.kind, lane.name, lane.of))) is None:  # of ranges less than 3 px wide
                assert lane.kind == "range" and column(lane.length).max() <= 0.003 * figure["length"]
                continue
            merged = iter(found.get("covered", []))
            counts = found.get("count", [1] * len(found["event"]))
            sums, wanted = {}, {}
            for event, length, count in zip(found["event"], found["length"], counts, strict=True):
                group = data["events"][event][1]
                sums[group] = sums.get(group, 0) + 10 * (next(merged) if count > 1 else length)
            assert next(merged, None) is None
            for group, ns in zip(column(lane.group).tolist(), inside(lane).tolist(), strict=True):
                name = result.timelines.names[group]
                wanted[name] = wanted.get(name, 0) + ns
            assert sums == pytest.approx(wanted, rel=1e-3, abs=10 * len(counts))
            assert all(
                begin >= 0 and begin + length <= step.period_ns + 10 for begin, length in decoded(found)
            )


@pytest.mark.parametrize("pair", PAIRS)
def test_sides_have_the_same_lanes_and_pages_stay_small(pair):
    data = json.loads(lanes.data(result_of(pair)))
    for figure in data["figures"]:
        orders = [
            [(one["kind"], one["name"], one["of"]) for one in side["lanes"]] for side in figure["sides"]
        ]
        assert all(order == orders[0] for order in orders)
        events = sum(len(lane["event"]) for side in figure["sides"] for lane in side["lanes"])
        assert 0 < events < 6_000
    assert len(lanes.data(result_of(pair))) < 300_000


def test_crops_are_aligned_and_small():
    result = result_of("eager, graph")
    crops = json.loads(lanes.data(result))["crops"]
    cropped = {str(one.rank): one.evidence.crop for one in result.findings if one.evidence.crop}
    assert crops.keys() == cropped.keys() != set()
    for rank, crop in cropped.items():
        found = crops[rank]
        assert (found["length"], found["anchor"]) == (crop.length_ns, crop.anchor_ns)
        given = [one for one in (crop.baseline, crop.candidate) if one is not None]
        for side, shown in zip(given, found["sides"], strict=True):
            for start, length in zip(side.starts, side.lengths, strict=True):
                assert any(at <= start and start + length <= at + wide for at, wide in shown["marks"])
            for (at, wide), (after, _) in pairwise(shown["marks"]):
                assert after - at - wide >= 0.001 * crop.length_ns
            assert (shown["from"], shown["to"]) == (
                side.step_start_ns - side.start_ns,
                side.step_end_ns - side.start_ns,
            )
        assert len(json.dumps(found)) < 15_000


@pytest.mark.parametrize(
    ("marks", "frames"),
    [
        ([(400, 100), (0, 100)], [(0, 100), (400, 100)]),
        ([(0, 100), (101, 50)], [(0, 151)]),  # 1 of 1000 apart, which is 1 px
        (
            [(0, 10), (13, 10), (26, 10)],
            [(0, 10), (13, 10), (26, 10)],
        ),  # small kernels with idle time between
        ([(0, 300), (100, 50)], [(0, 300)]),  # one in the other
        ([(0, 600), (500, 300)], []),  # 800 of 1000
    ],
)
def test_frames_that_touch_are_one_and_those_of_everything_none(marks, frames):
    starts, lengths = map(list, zip(*marks, strict=True))
    side = CropSide("run", 0, None, 0, 0, 1000, [], starts, lengths)
    assert lanes.frames(Crop(1000, 0, -1, False, side, None)) == [frames]


def test_names_cannot_end_the_data():
    result = result_of("graph, gc")
    harm = "</script><script>window.harmed = 1</script>"
    names = [harm, *result.timelines.names[1:]]
    bad = msgspec.structs.replace(result, timelines=msgspec.structs.replace(result.timelines, names=names))
    text = lanes.data(bad)
    assert "<" not in text
    assert any("<script>" in one for one in json.loads(text)["texts"])
    assert render_html(bad).count("<script") == 2


def test_without_steps_there_is_nothing():
    assert lanes.data(sample.minimal()) == ""
    assert lanes.drawn(sample.minimal()) == []


@pytest.mark.parametrize("pair", list(PAIRS)[:1])
def test_steps_in_numbers_differ_by_their_times(pair):
    """The table under the timelines: of each category what the candidate's step has more than the baseline's, and of the step."""
    result = result_of(pair)
    first = lanes.drawn(result)[0]
    (section,) = (one for one in drawn.sections(result) if one.id == "timelines")
    (table,) = (one for one in tables(section) if one.name == "timeline")
    deltas = [row.cells[3].value for row in [*table.rows, table.foot]]
    assert deltas[-1] == first.candidate.period_ns - first.baseline.period_ns
    assert sum(deltas[:-1]) == deltas[-1]


def tables(section):
    """The first figure's tables."""
    figure = next(one for one in section.blocks if isinstance(one, Section))
    for block in [one for part in figure.blocks if isinstance(part, Section) for one in part.blocks]:
        if isinstance(block, Table):
            yield block
