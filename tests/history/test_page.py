"""What a history says on a terminal and on its page."""

from __future__ import annotations

import io
import re

import msgspec
import pytest
from click.testing import CliRunner
from rich.console import Console

from benchmarks.history import kept
from tests.history.test_analysis import NO_GIT, at_40, history, late
from tests.report import hostile
from tests.report.browser import Watched, check_looks, launched
from tracediff.cli.main import cli
from tracediff.comparison.gates import parse_gate
from tracediff.history.analysis import analyse
from tracediff.history.model import CauseChange
from tracediff.history.points import Point
from tracediff.history.policy import judge
from tracediff.model import encode
from tracediff.report.document import render_terminal
from tracediff.report.escape import markdown_prose
from tracediff.report.history import called, causes, headline, outcome, render_html, signed


def with_machines(points: list[Point]) -> list[Point]:
    """The first ten on another driver."""
    return [
        msgspec.structs.replace(one, machine=one.machine | {"driver": "570.1"}) if at < 10 else one
        for at, one in enumerate(points)
    ]


def renamed(points: list[Point], names: dict[str, str]) -> list[Point]:
    def new(name: str) -> str:
        for old, other in names.items():
            name = name.replace(old, other)
        return name

    return [
        msgspec.structs.replace(
            one,
            measures=msgspec.structs.replace(one.measures, names=[new(name) for name in one.measures.names]),
        )
        for one in points
    ]


def printed(points: list[Point], **more) -> str:
    out = io.StringIO()
    render_terminal(analyse(kept(points), NO_GIT, **more), Console(file=out, width=120, force_terminal=False))
    return out.getvalue()


def test_the_first_sentence_says_what_since_when_and_why():
    said = " ".join(printed(history(plant=at_40)).split())
    points = history()
    good, bad = points[39].commit[:10], points[40].commit[:10]
    assert re.match(
        rf"generation is [12]\.\d % slower \(\+[\d.]+ us\) between {good} and {bad}; largest part: generation\.host_work",
        said,
    )
    assert "launches +3.00 (+1.0 %)" in said
    assert "open: tracediff report 40.json --html report.html" in said


def test_a_cause_of_other_steps_than_the_change_says_per_which():
    """Under the mean step, 6.87 ms per step with prompt are no part of 5.48 ms: three steps in ten are of that class."""
    (segment,) = analyse(kept(history(plant=at_40)), NO_GIT).segments
    of = {
        name: CauseChange(name, "ns", 1e6, 2e6, 1e6, 0.001)
        for name in ("step-with-prompt.gil_wait", "step.compute", "kernel:a.b")
    }

    def said(measure: str, cause: str, *phases: str) -> str:
        own = msgspec.structs.replace(
            segment, program=msgspec.structs.replace(segment.program, phases=phases)
        )
        change = msgspec.structs.replace(segment.changes[0], measure=measure, causes=[of[cause]])
        (text,) = causes(change, own)
        return text.removeprefix(f"{cause} +1,000 us (+100 %)")

    assert (
        said("step", "step-with-prompt.gil_wait", "step-with-topk", "step-with-prompt")
        == " per step with prompt"
    )
    assert said("step-with-prompt", "step-with-prompt.gil_wait", "step-with-topk", "step-with-prompt") == ""
    assert said("step-with-prompt", "kernel:a.b", "step-with-topk", "step-with-prompt") == " per mean step"
    assert said("step", "kernel:a.b", "step-with-topk", "step-with-prompt") == ""
    assert said("step", "step.compute", "step") == "", "one phase: its step is the mean step"
    assert said("step-with-topk", "kernel:a.b", "step-with-topk") == ""
    mean = msgspec.structs.replace(segment.standings[0], measure="step")  # beside rare steps of other phases
    segment = msgspec.structs.replace(segment, standings=[mean])
    assert said("step-with-topk", "kernel:a.b", "step-with-topk") == " per mean step"


def test_segments_say_in_what_they_differ():
    assert "10 points" in printed(with_machines(history())) and "unlike the first: driver 570.1" in printed(
        with_machines(history())
    )


def test_what_was_left_out_is_said():
    said = " ".join(printed(history(12), torn=["0123.json"]).split())
    assert "Left out, not whole: 1 file (0123.json)" in said
    other = [
        msgspec.structs.replace(one, pinned="v0" if at < 2 else "v1") for at, one in enumerate(history(12))
    ]
    assert (
        "Not in its drift, measured against another baseline than the pinned v1: 2 points (v0)"
        in " ".join(printed(other).split())
    )


@pytest.fixture(scope="module")
def browser():
    with launched() as one:
        yield one


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A change, two segments, and names that would do harm."""
    points = renamed(
        with_machines(history(plant=at_40)),
        {
            "_schedule": hostile.NAMES[0],
            "_sample": hostile.NAMES[4],
            "gemm": hostile.NAMES[7],
            "fmha": hostile.NAMES[2],
        },
    )
    links = [msgspec.structs.replace(one, link="javascript:window.harmed=1") for one in kept(points)]
    file = tmp_path_factory.mktemp("history") / "history.html"
    file.write_text(render_html(analyse(links, NO_GIT)), encoding="utf-8")
    return file


def test_its_json_is_rendered_again(tmp_path):
    saved, page, text = (tmp_path / name for name in ("history.json", "history.html", "history.md"))
    found = analyse(kept(history(plant=at_40)), NO_GIT)
    saved.write_bytes(encode(found))
    done = CliRunner().invoke(cli, ["report", str(saved), "--html", str(page), "--md", str(text), "-q"])
    assert done.exit_code == 0, done.output
    assert page.read_text(encoding="utf-8") == render_html(found)
    assert f"\n\n**{markdown_prose(headline(found))}**\n" in text.read_text(encoding="utf-8")


def test_segments_and_links_are_on_the_page(page):
    text = page.read_text(encoding="utf-8")
    assert "unlike the first: driver 570.1" in text
    assert (
        'href="javascript' not in text and "<code>tracediff report 40.json --html report.html</code>" in text
    )
    good = [msgspec.structs.replace(one, link="https://ci.example/7") for one in kept(history(plant=at_40))]
    assert 'href="https://ci.example/7"' in render_html(analyse(good, NO_GIT))


@pytest.mark.slow
def test_two_points_stand_beside_each_other_around_the_newest_change(browser, page):
    one = Watched(browser, page)
    table = one.page.locator("table[data-name=points]").first
    points = history()
    heads = table.locator("thead th").all_inner_texts()
    assert heads[1:3] == [points[39].commit[:10], points[40].commit[:10]]
    row = table.locator("tbody tr", has_text="launches").first
    assert row.locator("td").all_text_contents() == ["300", "303", "+3.00 (+1.0\u202f%)"]
    assert one.page.evaluate("window.harmed") is None
    one.close()


def test_the_page_is_whole_without_scripts(browser, page):
    one = Watched(browser, page, java_script_enabled=False)
    assert one.page.locator("table[data-name=points] tbody tr").count() >= 6
    assert one.page.locator(".chart svg").count() >= 2
    one.close()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
@pytest.mark.slow
def test_nothing_to_complain_about(browser, page, width, scheme):
    check_looks(browser, page, width, scheme)


def test_where_it_stands_adds_up_and_says_how_many_points_its_level_is_of():
    """Twelve points, the last four 20 % slower: the level is theirs, and the newest stands apart from it."""

    def plant(values) -> None:
        values[:, 0] = [1e6] * 8 + [1.2e6, 1.2e6, 1.2e6, 1.21e6]

    found = analyse(kept(history(12, plant=plant)), NO_GIT)
    (standing,) = [one for one in found.segments[0].standings if one.measure == "generation"]
    assert standing.points == 4 and standing.last == pytest.approx(1.21e6, rel=0.01)
    assert standing.level == pytest.approx(1.2e6, rel=0.01)
    assert standing.baseline + standing.delta == pytest.approx(standing.level), "they stand side by side"
    row = next(line.split() for line in printed(history(12, plant=plant)).splitlines() if " to +" in line)
    assert row[0] == "generation" and row[-3:] == ["4", "1,210", "us"], row


def test_names_of_measures_are_for_readers():
    assert called("step.step") == "typical step", "steps without labels are of no phase"
    assert called("generation.step-with-topk") == "generation.step-with-topk"
    full = "void at::native::elementwise_kernel<128, 4, at::native::direct_copy_kernel_cuda(at::TensorIteratorBase &)::[lambda()]>(int, T3)"
    assert called(f"kernel:{full}") == "kernel:elementwise_kernel<direct_copy_kernel_cuda>"


def test_a_check_begins_with_how_it_ends():
    found = analyse(kept(history(plant=late)), NO_GIT)
    assert outcome(found, judge(found)).startswith("history check failed")
    newest = found.points[-1].commit[:10]
    assert outcome(found, []) == f"history check passed: nothing speaks against the newest point, {newest}"
    unsure = judge(found, [parse_gate("kernel:nothing:+1%")])[-1:]
    assert "cannot tell" in outcome(found, unsure)


def test_a_count_that_does_not_change_has_no_sign():
    assert [signed(value, "count") for value in (-0.001, 0.0, -1.5, 12.0)] == ["0", "0", "-1.50", "+12.00"]
