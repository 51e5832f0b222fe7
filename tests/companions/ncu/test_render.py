"""Reports of counters: what is in them, and that names from a profile are harmless in each."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.companions.ncu.test_compare import FAST, LESS
from tests.companions.reports import NAMES, comes_back, markdown, names_are_harmless, terminal
from tests.report import sample
from tests.report.browser import Watched, check_looks, launched
from tracediff.companions import render as companion
from tracediff.companions.model import NcuReport
from tracediff.companions.ncu import render as words
from tracediff.companions.ncu.compare import compare_ncu
from tracediff.companions.ncu.metrics import BY_KEY
from tracediff.model import Tool
from tracediff.report.html import render_html

from .counters import launch, profile

SENTENCE = "occupancy 12 -> 74 %: grid 132 -> 1,056 blocks"


def report(*names: str) -> NcuReport:
    names = names or ("quantize(float*)",)
    before = [launch(name) for name in names]
    after = [launch(name, grid="1056,1,1", stalls=LESS, **FAST) for name in names]
    found = compare_ncu(
        profile(*before, file="before.csv"),
        profile(*after, launch("only_here(int)", l2_bytes=None), file="after.csv"),
    )
    return NcuReport(tool=Tool("tracediff", "0"), ncu=found)


def test_every_key_is_explained_in_the_docs():
    text = (Path(__file__).parents[3] / "docs/result.md").read_text(encoding="utf-8")
    assert [key for key in BY_KEY if f"`{key}`" not in text] == []


@pytest.mark.parametrize(
    ("key", "number", "text"),
    [("duration_ns", 41_540.0, "41.5 us"), ("duration_ns", 1_420_000.0, "1.42 ms"), ("dram_read_bytes", 256e6, "256 MB"),
     ("sm_clock_hz", 1.98e9, "1.98 GHz"), ("achieved_occupancy_pct", 73.7, "74 %"), ("achieved_occupancy_pct", 1.24, "1.2 %"),
     ("grid_blocks", 1056.0, "1,056"), ("instructions", 5.92e6, "5.92 M"), ("waves_per_sm", 0.125, "0.125"), ("l2_bytes", None, "not collected")],
)  # fmt: skip
def test_figures(key, number, text):
    assert words.value(key, number) == text


@pytest.mark.parametrize(
    ("before", "after", "percentage", "text"),
    [(10.0, 12.0, False, "+20.0 %"), (10.0, 5.0, False, "-50.0 %"), (1.0, 25.0, False, "25 x"), (0.0, 5.0, False, ""),
     (12.4, 73.7, True, "+61 points"), (50.0, 48.2, True, "-1.8 points"), (50.0, 50.01, True, "same"), (7.0, 7.0, False, "same"),
     (None, 5.0, False, ""), (5.0, None, True, "")],
)  # fmt: skip
def test_changes(before, after, percentage, text):
    assert words.change(before, after, percentage) == text


def test_the_terminal():
    text = terminal(report())
    assert SENTENCE in text and "grid 132 -> 1056" in text
    first = " ".join(text.split())
    assert first.startswith(
        "quantize, grid 132 -> 1056 is 4.0 x faster (40.0 -> 10.0 us): occupancy 12 -> 74 %"
    )
    assert "Its occupancy is limited by grid (less than one wave)" in first
    assert "Figures of quantize, grid 132 -> 1056" in text  # a page has them under the name of the kernel
    assert (
        "not collected on the candidate" in text
        and "ncu --section" not in text.split("not collected on the baseline")[0][:50]
    )
    assert "stall: long scoreboard" in text


def test_markdown_is_a_table_and_the_figures_of_the_first_kernel():
    text = companion.render_markdown(report())
    tokens = markdown(text)
    assert [token.type for token in tokens].count("table_open") == 3
    assert "| memory throughput, of peak |" in text and "is bound by latency" in text
    assert "**Warp states of quantize, grid 132 -> 1056**" in text


def test_the_page_says_what_the_numbers_are():
    page = companion.render_html(report())
    for text in (
        "4.0 x faster",
        "grid 132 →\u00a01,056 blocks",
        "not collected",
        "long scoreboard",
        "<b>occupancy</b> (cause)",
    ):
        assert text in page, text
    assert "Below 60\u202f% of the peak" in page or "Below 60 % of the peak" in page


def test_the_json_comes_back():
    assert comes_back(report())


def test_in_the_report_of_a_comparison_the_kernel_links_to_its_counters():
    full = sample.full()
    name = full.kernels[0].baseline.names[0]
    found = compare_ncu(profile(launch(name, grid="")), profile(launch(name, grid="", **FAST)), full.kernels)
    (row,) = found.rows
    assert row.kernel is not None
    page = render_html(msgspec.structs.replace(full, ncu=found))
    assert '<a href="#ncu-0">' in page and f'id="kernel-{row.kernel}"' in page
    assert 'id="ncu-0"' in page and '<a href="#ncu">' in page
    assert "#ncu" not in sample.page() and "hardware counters" not in sample.page()


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_names_are_harmless(name):
    names_are_harmless(report, name)


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_the_page_in_a_browser(tmp_path, width, scheme):
    path = tmp_path / "page.html"
    names = ("quantize<1>(int)", "quantize<2>(int)", sample.SCRIPT)
    path.write_text(companion.render_html(report(*names)), encoding="utf-8")
    with launched() as browser:
        one = Watched(browser, path)
        assert one.page.locator("#ncu tbody tr").first.is_visible()
        assert one.page.locator("details.numbers").count() == 4
        one.close()
        check_looks(browser, path, width, scheme)


def test_a_side_that_is_added_up_says_what_does_not_add_up():
    """39 figures of a fused row were once called not collected, though the file has them."""
    from tests.companions.ncu.test_compare import _gemms

    found = compare_ncu(*_gemms(2, 90, 169))
    one = NcuReport(tool=Tool("tracediff", "0"), ncu=found)
    for text in (companion.render_html(one), companion.render_markdown(one), terminal(one)):
        assert "does not add up" in text and "bound by does not" not in text
    (row,) = found.rows
    assert row.baseline.summed and not row.candidate.summed
    assert [line.label for line in words.figures(row) if words.NONE in line.before] == []
    assert {bar.before for bar in words.stalls(row)} == {words.bound(row.baseline)} == {words.APART}
