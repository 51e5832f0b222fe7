"""Reports of latencies: what is in them, and that names from a file are harmless in each."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from tests.companions.latencies.test_compare import noisy, run
from tests.companions.reports import NAMES, comes_back, markdown, names_are_harmless, terminal
from tests.report import sample
from tests.report.browser import Watched, check_looks, launched
from tracediff.companions import render as companion
from tracediff.companions.latencies import render as words
from tracediff.companions.latencies.compare import compare_latencies
from tracediff.companions.model import LatencyReport
from tracediff.model import Tool
from tracediff.report.blocks import Table
from tracediff.report.html import render_html


def report(name: str = "before", factor: float = 1.1, runs: int = 5) -> LatencyReport:
    sides = [noisy(np.random.default_rng(seed), runs, factor=one) for seed, one in ((1, 1.0), (2, factor))]
    sides[0][0] = run(np.append(sides[0][0].ns, 9e7), name)
    return LatencyReport(tool=Tool("tracediff", "0"), latencies=compare_latencies(*sides, (name, "after")))


def test_the_terminal():
    text = terminal(report())
    assert (
        "Slower" in text
        and "confirmed" in text
        and "2 of 8 checks of the measurement did not pass: outliers, odd runs." in text
    )
    assert "Far out in the baseline: iteration 61 of before 90.00 ms" in text
    single = terminal(report(runs=1))
    assert "the intervals are within the runs" in " ".join(single.split())
    assert "runs: baseline 1, candidate 1" in single


def test_the_mean_that_a_verdict_tests_was_tested():
    """The medians have a q, the mean a p alone; what is within the floor may be noise."""
    quiet = compare_latencies(*(noisy(np.random.default_rng(seed)) for seed in (1, 2)))
    text = terminal(LatencyReport(tool=Tool("", ""), latencies=quiet))
    assert quiet.rows[0].level == "within_noise" and quiet.rows[0].p_value is not None
    assert "may be noise" in text and "not tested" not in text
    assert "iterations without the warm-up" in " ".join(text.split())


def test_what_did_not_pass_is_said_first():
    quiet = compare_latencies(*(noisy(np.random.default_rng(seed)) for seed in (1, 2)))
    assert words.doubtful(quiet) == []
    assert "All 8 checks of the measurement passed." in terminal(
        LatencyReport(tool=Tool("", ""), latencies=quiet)
    )
    said = "2 of 8 checks of the measurement did not pass: outliers, runs."
    single = report(runs=1)
    assert words.doubts(single.latencies) == said
    page = companion.render_html(single)
    assert f'<a href="#measured">{said}</a>' in page.partition("<table")[0] and 'id="measured"' in page
    for text in (page, terminal(single), companion.render_markdown(single)):
        assert text.count("2 of 8 checks") == (
            2 if text == page else 1
        )  # a page holds its Markdown to be copied


def test_rows_as_text():
    found = report().latencies
    table = next(one for one in words.section(found).blocks if isinstance(one, Table))
    lines = [[cell.text for cell in row.cells] for row in table.rows]
    assert [line[0] for line in lines] == ["mean", "median", "p90", "p99", "minimum"]
    row = found.rows[1]
    assert lines[1][1] == f"{row.baseline_ns / 1e6:.2f}" and lines[1][3] == f"{row.delta_ns / 1e6:+.2f}"
    assert lines[1][5] == f"{row.ci_low_ns / 1e6:+.2f} to {row.ci_high_ns / 1e6:+.2f}"
    assert lines[0][7] == "" and lines[1][7]


def test_markdown_is_a_table_with_the_checks_below():
    text = companion.render_markdown(report(runs=1))
    tokens = markdown(text)
    kinds = [token.type for token in tokens]
    assert kinds.count("table_open") == 1 and kinds.count("tr_open") == 6
    assert "- runs: baseline 1, candidate 1" in text


def test_curves_are_their_quantiles():
    """201 quantiles a side, of which those up to 99.5 % are drawn."""
    found = report().latencies
    curves = words.distributions(found).curves
    assert list(curves) == ["baseline", "candidate"]
    for curve, one in zip(curves.values(), (found.baseline, found.candidate), strict=True):
        assert len(one.quantiles_ns) == 201 and len(curve) == 200
        assert (curve[0], curve[100]) == ((one.quantiles_ns[0], 0.0), (one.quantiles_ns[100], 0.5))
        assert [ns for ns, _ in curve] == sorted(ns for ns, _ in curve)
    assert words.tail_left_out(found)  # the iteration of 90 ms


def test_the_page_says_what_was_checked():
    page = companion.render_html(report())
    for text in (
        "Slower",
        "Was it measured well?",
        "autocorrelation",
        'aria-label="Distribution of the latencies"',
    ):
        assert text in page, text


def test_the_json_comes_back():
    assert comes_back(report())


def test_in_the_report_of_a_comparison():
    full = sample.full()
    page = render_html(msgspec.structs.replace(full, latencies=report().latencies))
    assert '<a href="#latencies">' in page and 'id="latencies"' in page
    assert 'aria-label="Distribution of the latencies"' in page
    assert "latencies" not in sample.page()


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_names_are_harmless(name):
    names_are_harmless(lambda one: report(one[:255]), name)  # as long as a name of a file may be


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_the_page_in_a_browser(tmp_path, width, scheme):
    path = tmp_path / "page.html"
    path.write_text(companion.render_html(report(sample.SCRIPT)), encoding="utf-8")
    with launched() as browser:
        one = Watched(browser, path)
        assert one.page.locator("#latencies tbody tr").first.is_visible()
        assert one.page.locator("#latencies figure svg").count() == 2
        one.close()
        check_looks(browser, path, width, scheme)
