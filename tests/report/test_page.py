"""The page in Chromium: what a reader does with it, and what a trace cannot do to it."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from tests.report import hostile, sample
from tests.report.browser import Watched, check_looks, launched, opened
from tests.steps.test_timelines import result_of
from tracediff.report.html import render_html


@pytest.fixture(scope="module")
def browser():
    with launched() as one:
        yield one


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A page of every kind: real captures with timelines, made-up results."""
    folder = tmp_path_factory.mktemp("pages")
    results = {
        "real": lambda: result_of("graph, gc"),
        "ranks": lambda: result_of("two ranks"),
        "full": sample.full,
        "minimal": sample.minimal,
        "one_sided": sample.one_sided,
        "hostile": lambda: hostile.result(folder, harm=True),
    }

    def file(name: str) -> Path:
        path = folder / f"{name}.html"
        if not path.exists():
            path.write_text(render_html(results[name]()), encoding="utf-8")
        return path

    return file


@pytest.fixture
def page(browser, files):
    one = Watched(browser, files("real"))
    open_all(one.page)
    yield one.page
    one.close()


def open_all(page) -> None:
    page.evaluate("for (const one of document.querySelectorAll('.fold')) one.open = true")


ALL = ("real", "ranks", "full", "minimal", "one_sided", "hostile")


# axe takes its time: the large pages once a width
LOOKS = [("real", 1280, "light"), ("real", 390, "dark")] + [
    (name, width, scheme)
    for name in ("full", "minimal", "hostile")
    for width, scheme in ((1280, "dark"), (390, "light"))
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "width", "scheme"), LOOKS)
def test_axe_finds_nothing(browser, files, name, width, scheme) -> None:
    check_looks(browser, files(name), width, scheme, "#kernels details")


@pytest.mark.parametrize("name", ALL)
@pytest.mark.slow
def test_nothing_is_asked_for_and_nothing_is_said(browser, files, name) -> None:
    Watched(browser, files(name)).close()


def test_the_policy_stops_what_is_not_ours(browser, files) -> None:
    one = Watched(browser, files("real"))
    failures: list[str] = []
    one.page.on("requestfailed", lambda request: failures.append(request.failure))
    outcome = one.page.evaluate(
        """async () => {
          const script = document.createElement("script");
          script.textContent = "window.harmed = 1";
          document.body.append(script);
          const image = new Image();
          const seen = new Promise((done) => { image.onload = () => done("loaded"); image.onerror = () => done("stopped"); });
          image.src = "https://tracediff.invalid/x.png";
          let asked = "asked";
          try { await fetch("https://tracediff.invalid/"); } catch { asked = "stopped"; }
          return [window.harmed === undefined, await seen, asked];
        }"""
    )
    assert outcome == [True, "stopped", "stopped"]
    assert any("Content Security Policy" in line for line in one.said)
    # what Chromium's tools show as a request is one that its policy refused before it was made
    assert failures == ["csp"] * len(one.requests[1:])
    one.context.close()


def column(page, table: str, number: int) -> list[str]:
    return page.locator(f'table[data-name="{table}"] > tbody > tr:visible').evaluate_all(
        "(rows, n) => rows.map((row) => { const cell = row.cells[n]; const data = cell.querySelector('data');"
        " return data ? data.value : (cell.querySelector('summary') || cell).textContent.trim(); })",
        number,
    )


def test_sorting(page) -> None:
    header = page.locator('table[data-name="kernels"] > thead > tr:last-child > th')
    names = [text.strip() for text in header.all_text_contents()]
    delta, base = names.index("Delta"), names.index("Baseline")
    before = [float(value) for value in column(page, "kernels", delta)]
    assert before == sorted(before, key=abs, reverse=True)  # as it comes: by the size of the change
    header.nth(base).get_by_role("button").click()
    values = [float(value) for value in column(page, "kernels", base)]
    assert values == sorted(values, reverse=True)
    assert header.nth(base).get_attribute("aria-sort") == "descending"
    assert header.nth(delta).get_attribute("aria-sort") is None
    header.nth(base).get_by_role("button").press("Enter")
    values = [float(value) for value in column(page, "kernels", base)]
    assert values == sorted(values)
    assert header.nth(base).get_attribute("aria-sort") == "ascending"
    header.nth(names.index("Kernel")).get_by_role("button").click()
    texts = column(page, "kernels", 0)
    assert texts == sorted(texts, key=str.lower) or texts[0].lower() <= texts[-1].lower()
    assert len(texts) == len(before)


@pytest.mark.slow
def test_filtering(page) -> None:
    everything = len(column(page, "kernels", 0))
    page.get_by_role("searchbox", name="Filter kernels").fill("gemm nvjet")
    shown = column(page, "kernels", 0)
    assert 0 < len(shown) < everything
    assert all("nvjet" in name for name in shown)
    assert f"{len(shown)} of {everything} rows" in page.locator("#kernels .bar-tools").inner_text()
    page.keyboard.press("Escape")
    assert len(column(page, "kernels", 0)) == everything
    page.get_by_role("searchbox", name="Filter kernels").fill("no such kernel")
    assert column(page, "kernels", 0) == []


def test_copy_as_markdown(browser, files) -> None:
    one = Watched(browser, files("real"), permissions=["clipboard-read", "clipboard-write"])
    open_all(one.page)
    rows = len(column(one.page, "kernels", 0))
    one.page.get_by_role("button", name="Copy kernels as Markdown").click()
    one.page.get_by_role("button", name="Copy kernels as Markdown").get_by_text("Copied").wait_for()
    text = one.page.evaluate("navigator.clipboard.readText()")
    tokens = [token.type for token in MarkdownIt("commonmark").enable("table").parse(text)]
    assert tokens.count("table_open") == 1
    assert tokens.count("tr_open") == rows + 1
    one.close()


def luminance(page) -> float:
    red, green, blue = page.evaluate(
        "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number)"
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.slow
def test_dark_follows_the_system_and_the_button(browser, files) -> None:
    one = Watched(browser, files("real"), color_scheme="dark")
    assert luminance(one.page) < 60
    button = one.page.get_by_role("button", name="Theme:")
    assert button.inner_text() == "Theme: auto"
    button.click()
    assert (button.inner_text(), luminance(one.page) > 200) == ("Theme: light", True)
    one.page.reload()
    assert one.page.get_by_role("button", name="Theme:").inner_text() == "Theme: light"
    one.requests.pop()
    one.page.emulate_media(media="print")
    assert luminance(one.page) > 200
    one.close()


def test_keys(page) -> None:
    page.keyboard.press("j")
    for _ in range(100):  # scrolling is smooth
        if page.evaluate("Math.abs(document.querySelector('#findings').getBoundingClientRect().top) < 80"):
            break
        page.wait_for_timeout(50)
    else:
        pytest.fail("j did not go to the first section")
    page.locator("#kernels").scroll_into_view_if_needed()
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.type") == "search"
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.tagName") == "BODY"


def lanes_of(page, number: int = 0) -> tuple[int, list[list[dict]]]:
    """How long the axis of a timeline is, and the events of its lanes as the page's data has them."""
    data = json.loads(page.locator("script#lanes").text_content())
    figure = data["figures"][number]
    lanes = []
    for side in figure["sides"]:
        for lane in side["lanes"]:
            at, events = 0, []
            columns = ([10 * one for one in lane[name]] for name in ("after", "length"))  # ns
            for after, length, event in zip(*columns, lane["event"], strict=True):
                text, _, row = data["events"][event]
                events.append({"side": side["side"], "lane": ", ".join(filter(None, (lane["name"], lane["of"]))), "begin": at + after, "length": length, "row": row, "text": data["texts"][text]})  # fmt: skip
                at += after + length
            lanes.append(events)
    return figure["length"], lanes


def point_at(page, event: dict, length: int) -> None:
    """Put the pointer on an event of the first stream of the baseline."""
    page.locator("#timeline-0").scroll_into_view_if_needed()
    box = page.locator("#timeline-0 canvas").bounding_box()
    middle = (event["begin"] + event["length"] / 2) / length
    page.mouse.move(box["x"] + box["width"] * middle, box["y"] + 29)


@pytest.mark.slow
def test_the_keyboard_reaches_every_event_of_a_timeline(page) -> None:
    plot = page.locator("#timeline-0 .tl-plot")
    _, lanes = lanes_of(page)
    assert sum(map(len, lanes)) > 300
    plot.focus()  # one tab stop for the whole drawing
    at = "(() => { const one = document.activeElement.dataset; return [Number(one.lane), Number(one.event)]; })()"
    seen = []
    for lane in filter(None, lanes):
        page.keyboard.press("Home")
        for _ in lane[1:]:
            page.keyboard.press("ArrowRight")
        seen.append(page.evaluate(at))
        page.keyboard.press("ArrowDown")
    assert seen == [[number, len(lane) - 1] for number, lane in enumerate(lanes) if lane]
    assert page.locator("#timeline-0 .tl-read").inner_text().startswith("candidate ")
    page.keyboard.press("Tab")
    assert page.evaluate("!document.activeElement.closest('.tl-plot')")


def test_pointing_at_work_shows_its_partner_and_enter_opens_its_kernel(page) -> None:
    figure = page.locator("#timeline-0")
    length, lanes = lanes_of(page)
    event = max((one for one in lanes[0] if one["row"] >= 0), key=lambda one: one["length"])
    point_at(page, event, length)
    words = figure.locator(".tl-read").inner_text()
    assert words.startswith(f"baseline {event['lane']}, ") and event["text"] in words
    assert "matched in the candidate" in words
    page.mouse.down()
    page.mouse.up()
    page.keyboard.press("Enter")
    row = page.locator(f"#kernel-{event['row']}")
    assert row.locator("details").first.get_attribute("open") is not None
    assert "grid" in row.inner_text()


def seen(figure) -> tuple[float, float]:
    """From where, and how much of a drawing is seen."""
    length, _ = lanes_of(figure.page)
    return tuple(float(figure.locator("canvas").get_attribute(f"data-{name}")) / length for name in ("from", "wide"))  # fmt: skip


@pytest.mark.slow
def test_zoom(page) -> None:
    figure = page.locator("#timeline-0")
    figure.get_by_role("button", name="Zoom in").click()
    assert seen(figure) == pytest.approx((0.25, 0.5), abs=1e-3)  # the middle half
    figure.locator(".tl-plot").focus()
    page.keyboard.press("-")
    assert seen(figure) == (0, 1)
    # a drag from a quarter to three quarters selects the same
    box = figure.locator(".tl-plot").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 4, box["y"] + 5)
    page.mouse.down()
    page.mouse.move(box["x"] + 3 * box["width"] / 4, box["y"] + 5, steps=3)
    page.mouse.up()
    assert seen(figure) == pytest.approx((0.25, 0.5), abs=0.005)
    figure.get_by_role("button", name="Show the whole step").click()
    assert seen(figure) == (0, 1)


def wait_until(page, holds) -> None:
    """The page's own policy lets nothing be evaluated in it that is asked again and again."""
    for _ in range(200):
        if holds():
            return
        page.wait_for_timeout(50)
    assert holds()


def test_the_wheel_scrolls_the_page_until_the_drawing_is_clicked(page) -> None:
    figure = page.locator("#timeline-0")
    length, lanes = lanes_of(page)
    point_at(page, lanes[0][3], length)
    top = page.evaluate("scrollY")
    page.mouse.wheel(0, 40)
    wait_until(page, lambda: page.evaluate("scrollY") > top)
    assert seen(figure) == (0, 1)
    point_at(page, lanes[0][3], length)
    page.mouse.down()
    page.mouse.up()
    top = page.evaluate("scrollY")
    page.mouse.wheel(0, -100)
    wait_until(page, lambda: seen(figure)[1] < 1)
    assert page.evaluate("scrollY") == top


def test_both_sides_can_be_aligned_at_a_kernel(page) -> None:
    """The k-th launch of a kernel that both sides launch equally often lies over the other side's k-th."""
    length, lanes = lanes_of(page)
    of = {
        side: [one for lane in lanes for one in lane if one["side"] == side]
        for side in ("baseline", "candidate")
    }
    alike = {}
    for row in {one["row"] for one in lanes[0]} - {-1}:
        own, others = ([one for one in of[side] if one["row"] == row] for side in of)
        if len(own) == len(others):
            alike[row] = (own, others)
    event, partner = max(
        ((one, other) for own, others in alike.values() for one, other in zip(own, others, strict=True)),
        key=lambda pair: pair[0]["length"],
    )
    point_at(page, event, length)
    page.mouse.down()
    page.mouse.up()
    page.locator("#timeline-0").get_by_role("button", name="Align both sides").click()
    shift = page.locator("#timeline-0 canvas").get_attribute("data-shift")
    assert int(shift) == event["begin"] - partner["begin"]


def test_timelines_of_other_workloads_open_on_demand(page) -> None:
    closed = page.locator("#timelines > details").first
    assert closed.locator("canvas").count() == 0
    closed.locator("summary").first.click()
    opened(closed.locator("canvas"))


def test_the_longest_events_are_a_table_too(page) -> None:
    details = page.locator("#timeline-0 details.numbers").first
    details.locator("summary").click()
    opened(details.locator("table"))
    _, lanes = lanes_of(page)
    longest = sorted((one for lane in lanes for one in lane), key=lambda one: -one["length"])[:20]
    rows = details.locator("tbody tr").evaluate_all(
        "(rows) => rows.map((row) => [...row.cells].map((cell) => cell.textContent))"
    )
    assert [row[1] for row in rows] == [one["lane"] for one in longest]
    assert all(one["text"] in row[2] for row, one in zip(rows, longest, strict=True))


def test_a_timeline_has_the_colours_of_the_theme(page) -> None:
    """Every theme paints it anew."""
    picture = "document.querySelector('#timeline-0 canvas').toDataURL()"
    light = page.evaluate(picture)
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    page.wait_for_timeout(200)
    dark = page.evaluate(picture)
    page.evaluate("document.documentElement.dataset.theme = 'light'")
    page.wait_for_timeout(200)
    assert page.evaluate(picture) == light != dark


@pytest.mark.slow
def test_without_javascript_everything_is_there(browser, files) -> None:
    one = Watched(browser, files("real"), java_script_enabled=False)
    for part in ("findings", "timelines", "steps"):
        assert one.page.locator(f"#{part}").is_visible(), part
    for part in ("accounting", "kernels", "gaps", "launch", "gil", "reading"):
        assert not one.page.locator(f"#{part}").is_visible(), part
        # browsers open what a link leads into; a click may miss a page that still scrolls to the link before
        one.page.locator(f'.contents [href="#{part}"]').press("Enter")
        opened(one.page.locator(f"#{part}"))
    figure = one.page.locator("#timeline-0")
    assert figure.get_by_text("Drawn by the script of this page.").is_visible()
    assert one.page.locator("#timelines table").first.locator("tbody tr").count() > 5  # the step in numbers
    one.page.locator("#kernels .long summary").first.click()
    opened(one.page.locator("#kernels dl.kernel").first)
    one.close()


@pytest.mark.slow
def test_a_link_opens_what_it_leads_to(browser, files) -> None:
    """The contents list, and a link to a row of a section that is closed."""
    one = Watched(browser, files("real"))
    row = one.page.locator("#kernels tbody > tr[id]").first
    for link in one.page.locator(".contents a").all():
        link.press("Enter")
        opened(one.page.locator(link.get_attribute("href")))
    address = f"{one.address}#{row.get_attribute('id')}"
    one.context.close()
    other = browser.new_context().new_page()
    other.goto(address)
    opened(other.locator(f"{address[len(one.address) :]} dl"))
    other.context.close()


@pytest.mark.slow
def test_print_has_no_tools_and_keeps_colours(browser, files) -> None:
    one = Watched(browser, files("real"))
    one.page.emulate_media(media="print")
    for tool in (".contents", ".tools", ".bar-tools", ".tl-zoom"):
        assert not one.page.locator(tool).first.is_visible(), tool
    assert one.page.locator("#timeline-0 canvas").is_visible()
    assert not one.page.get_by_text("Idle gaps of the GPU").first.is_visible()  # closed, and not for paper
    one.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert one.page.locator("#comparability").is_visible()
    assert one.page.pdf()[:5] == b"%PDF-"
    one.close()


class Shape(HTMLParser):
    """Elements and the names of their attributes, without any text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, tuple[str, ...]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, tuple(name for name, _ in attrs)))


@pytest.mark.slow
def test_hostile_names_change_nothing_but_text(browser, files, tmp_path) -> None:
    one = Watched(browser, files("hostile"))
    assert one.page.evaluate("window.harmed") is None
    assert one.page.locator("script:not([type='application/json'])").count() == 1
    assert one.page.locator("img").count() == 0
    text = one.page.locator("#kernels").text_content()
    for name in (
        "<script>window.harmed = 1</script>",
        '"onload="window.harmed = 1',
        "nul \\x00 byte",
        "\\u202e",
    ):
        assert name in text, name
    one.close()
    page = files("hostile").read_text(encoding="utf-8")
    assert not set("\x00\u202e\u2066\u200f\u200d") & set(page)
    harmful = sorted(Shape(page).found)
    assert harmful == sorted(Shape(render_html(hostile.result(tmp_path, harm=False))).found)
