"""The page of one capture in Chromium: nothing asked for, nothing said, nothing that axe finds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.comparing import show
from tests.comparison.test_show import shown
from tests.report import hostile
from tests.report.browser import Watched, check_looks, launched
from tests.report.test_page import column, lanes_of, point_at
from tracediff.report.show import render_show_html


@pytest.fixture(scope="module")
def browser():
    with launched() as one:
        yield one


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    reports = {
        "runs": lambda: shown("graph"),
        "ranks": lambda: shown("straggler"),
        "hostile": lambda: show(hostile.sides(folder, harm=True)[0]),
    }

    def file(name: str) -> Path:
        path = folder / f"{name}.html"
        if not path.exists():
            path.write_text(render_show_html(reports[name]()), encoding="utf-8")
        return path

    return file


# axe takes its time: each page once
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "width", "scheme"), [("runs", 1280, "light"), ("ranks", 390, "dark"), ("hostile", 390, "light")]
)
def test_axe_finds_nothing(browser, files, name, width, scheme) -> None:
    check_looks(browser, files(name), width, scheme, "main .long")


@pytest.mark.parametrize("name", ["runs", "ranks", "hostile"])
def test_nothing_is_asked_for_and_nothing_is_said(browser, files, name) -> None:
    one = Watched(browser, files(name))
    assert one.page.evaluate("window.harmed") is None
    for part in ("idle", "timelines", "steps", "kernels", "gaps", "launch", "gil", "gc", "capture"):
        assert one.page.locator(f"#{part}").is_visible(), part
    one.close()


def test_rows_add_up_as_they_are_shown(browser, files) -> None:
    one = Watched(browser, files("runs"))
    texts = one.page.locator(".bars tbody td.n:nth-child(2)").all_inner_texts()
    total = one.page.locator(".bars tfoot td.n").first.inner_text()
    figures = [float(text.replace(",", "").lstrip("<")) for text in texts]
    assert sum(figures) == pytest.approx(float(total.replace(",", "")), abs=0.1 * len(figures))
    one.close()


def test_pointing_at_work_and_opening_its_kernel(browser, files) -> None:
    one = Watched(browser, files("runs"))
    figure = one.page.locator("#timeline-0")
    length, lanes = lanes_of(one.page)
    event = max((event for event in lanes[0] if event["row"] >= 0), key=lambda event: event["length"])
    point_at(one.page, event, length)
    words = figure.locator(".tl-read").inner_text()
    assert words.startswith("step stream ") and event["text"] in words and "matched" not in words
    assert figure.get_by_role("button", name="Align").count() == 0
    one.page.mouse.down()
    one.page.mouse.up()
    one.page.keyboard.press("Enter")
    row = one.page.locator(f"#kernel-{event['row']}")
    assert row.locator("details").first.get_attribute("open") is not None
    assert "grid" in row.inner_text()
    one.page.keyboard.press("j")
    one.page.get_by_role("searchbox", name="Filter kernels").fill("nvjet")
    assert all("nvjet" in name for name in column(one.page, "kernels", 0))
    one.close()
