"""The report of one capture in every format: figures, names that harm nothing, words that belong."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from html.parser import HTMLParser

import jsonschema
import msgspec
import polars as pl
import pytest
from markdown_it import MarkdownIt
from rich.console import Console

import tracediff
from tests.comparing import show
from tests.comparison.test_show import shown
from tests.report import hostile
from tests.serving import US, runs_of
from tests.tiny import FIXTURES
from tracediff.cli.schema import build_schema
from tracediff.model import Coverage, Gc, Gil, Note, encode
from tracediff.model.show import Show
from tracediff.report import show_words, tables, words
from tracediff.report.show import render_show_html, render_show_markdown, render_show_terminal
from tracediff.report.workloads import left_out

NAMES = ("graph", "gc", "straggler")
NOT_SAID = re.compile(
    r"(?i)\b(baseline|candidate|delta|verdict|significan\w*|regress\w*|slower|noise|both sides)\b"
)


def terminal(report: Show, width: int = 120) -> str:
    console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: PTH123, SIM115
    render_show_terminal(report, console, top=10)
    return console.export_text()


@pytest.fixture(scope="module")
def harmful(tmp_path_factory) -> Show:
    return show(hostile.sides(tmp_path_factory.mktemp("harm"), harm=True)[0])


# Figures


def test_spread_and_counts_in_words() -> None:
    report = shown("graph")
    low, high = min(report.step.runs_ns) / US, max(report.step.runs_ns) / US
    assert show_words.spread(report).endswith(f"over 3 runs ({low:,.1f} to {high:,.1f} us)")
    assert show_words.runs(report) == "3 runs, 90 steps"
    assert show_words.runs(shown("straggler")) == "1 run, 60 steps"
    assert "2 x NVIDIA H200, 2 ranks" in show_words.machine(shown("straggler"))
    assert left_out(report) == []
    assert words.all_missing(report) == [
        "Python GC: none seen: there was none, or it was not recorded. Capture with TLLM_PROFILE_RECORD_GC=1 to see it."
    ]


def test_runs_of_other_work_have_two_spreads(tmp_path) -> None:
    """Runs of the same steps have one; where means as they ran are others, both are said."""
    same = show(runs_of(tmp_path, "a", [100.0, 110.0], jitter_us=0))
    assert show_words.raw_means(same) == "" and "at equal workload" not in show_words.spread(same)
    step = msgspec.structs.replace(
        same.step, runs_ns=[707.0 * US, 717.0 * US], raw_runs_ns=[600.0 * US, 900.0 * US]
    )
    other = msgspec.structs.replace(same, step=step)
    assert show_words.spread(other).endswith(
        "over 2 runs at equal workload (707.0 to 717.0 us); as they ran 600.0 to 900.0 us"
    )


# Words


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_said_that_needs_two_sides(name: str) -> None:
    report = shown(name)
    page = render_show_html(report)
    page = re.sub(r"(?s)<(script|style)>.*?</\1>|<[^>]*>", "", page)  # what is read, not how it is marked
    for text in (page, render_show_markdown(report), terminal(report)):
        assert NOT_SAID.findall(text) == []
    keys = re.findall(r'"(\w+)":', encode(report).decode())
    # the one side has the fields that the baseline of a comparison has
    assert set(NOT_SAID.findall(" ".join(keys).replace("_", " "))) <= {"baseline"}


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_terminal(width: int) -> None:
    report = shown("straggler")
    text = terminal(report, width)
    lines = text.splitlines()
    mean = report.step.mean_ns / US
    assert " ".join(lines[:3]).startswith(f"{report.sentence[:100]}")
    assert report.sentence.startswith(f"tp2_strag_1: a step takes {mean:,.0f} us in the mean, ")
    assert f"The GPU is idle for {report.step.idle_ns / US:.0f} us of the mean" in report.sentence
    assert f"from host work in [Executor] _forward_step ({report.idle[0].ns / US:.0f} us)." in report.sentence
    step = next(line for line in lines if line.startswith("  step "))
    assert step.split()[1:] == [f"{mean:,.1f}", "100", "%"]
    for part in ("What is in the time of a step", "What the GPU waited for", "Kernels with the most time", "CUDA calls",
                 "GIL by thread and phase, in the mean of all steps", "Python garbage collection", "Response path", "Ranks"):  # fmt: skip
        assert any(line.startswith(part) for line in lines), part
    assert any("Host work in _schedule" in line for line in lines)
    prose = lines[lines.index("What the GPU waited for") : lines.index("Kernels with the most time")]
    assert max(map(len, prose)) <= width


def test_markdown_is_whole_and_within_a_comments_limit() -> None:
    report = shown("straggler")
    text = render_show_markdown(report)
    assert len(text) < 65_536
    tokens = [token.type for token in MarkdownIt("commonmark").enable("table").parse(text)]
    assert tokens.count("table_open") >= 10
    assert text.count("<details>") == text.count("</details>") >= 6
    assert f"| step | {report.step.mean_ns / US:,.1f} | 100 % |" in text


# Pages, names


class Page(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.shape: list[tuple[str, tuple[str, ...]]] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.shape.append((tag, tuple(name for name, _ in attrs)))
        found = dict(attrs)
        if found.get("id"):
            self.ids.append(found["id"] or "")
        if tag == "a":
            self.links.append(found.get("href") or "")


@pytest.mark.parametrize("name", NAMES)
def test_a_page_loads_nothing_and_its_links_lead_somewhere(name: str) -> None:
    text = render_show_html(shown(name))
    page = Page(text)
    assert len(page.ids) == len(set(page.ids))
    assert {link.removeprefix("#") for link in page.links} <= set(page.ids) and page.links
    assert not {"src", "srcset", "href"} & {name for tag, names in page.shape for name in names if tag != "a"}
    script = re.search(r"(?s)<script>(.*)</script>", text)
    assert script is not None
    digest = base64.b64encode(hashlib.sha256(script[1].encode()).digest()).decode()
    assert f"'sha256-{digest}'" in html.unescape(text)


def test_hostile_names_change_nothing_but_text(harmful: Show, tmp_path) -> None:
    harmless = show(hostile.sides(tmp_path, harm=False)[0])
    page, twin = render_show_html(harmful), render_show_html(harmless)
    assert sorted(Page(page).shape) == sorted(Page(twin).shape)
    assert not set("\x00\u202e\u2066\u200f\u200d") & set(page)
    for text in (terminal(harmful), render_show_markdown(harmful)):
        assert not set("\x00\x1b\u202e\u2066\u200f\u200d") & set(text)
    markdown = render_show_markdown(harmful)
    rendered = MarkdownIt("commonmark", {"html": True}).enable("table").render(markdown)
    assert not re.search(r"<(script|img|svg)\b", rendered)


def test_a_report_without_most_of_it(harmful: Show) -> None:
    """What an export can lack is left out of every format, not an error."""
    bare = msgspec.structs.replace(
        harmful, accounting=harmful.accounting[:1], idle=[], kernels=[], phases=[], strata=[], ranges=[], gaps=[],
        worst_gaps=[], gil=Gil([], []), gc=Gc([]), threads=[], response_path=[], ranks=[], samples=[], timelines=None,
        machine=[], warnings=[], coverage=Coverage(dict.fromkeys(harmful.coverage.baseline, "not_captured")),
    )  # fmt: skip
    assert "not captured" in render_show_html(bare)
    assert "not captured" in render_show_markdown(bare) and "not captured" in terminal(bare)
    assert tables.frames(bare)["kernels"].is_empty()


# Data


@pytest.mark.parametrize("name", NAMES)
def test_reports_keep_the_schema(name: str) -> None:
    data = json.loads(encode(shown(name)))
    validator = jsonschema.Draft202012Validator(build_schema())
    validator.validate(data)
    assert data["kind"] == "show" and data["format_version"] == 2
    for path, value in (("kernels", None), ("format_version", 1), ("step", {})):
        wrong = [error.absolute_path[0] for error in validator.iter_errors(data | {path: value})]
        assert set(wrong) == {path}
    # without its kind it is taken for the result of a comparison, which it is not
    assert not validator.is_valid({key: value for key, value in data.items() if key != "kind"})


def test_tables(harmful: Show) -> None:
    report = shown("straggler")
    found = tables.frames(report)
    assert list(found) == tables.names(Show) == list(tables.frames(harmful))
    assert {name: frame.schema for name, frame in found.items()} == {
        name: frame.schema for name, frame in tables.frames(harmful).items()
    }
    assert found["accounting"]["category"].to_list() == [row.category for row in report.accounting]
    assert found["accounting"]["ns"].sum() == pytest.approx(report.step.mean_ns)
    assert found["kernels"]["baseline_ns_per_step"].to_list() == [
        row.baseline.ns_per_step for row in report.kernels
    ]
    events = found["timeline_events"]
    assert report.timelines is not None and set(events["row"]) == set(range(len(report.timelines.steps)))
    first = report.timelines.steps[0].baseline
    idle = events.filter((pl.col("row") == 0) & (pl.col("kind") == "idle"))
    waits = sum(ns for key, ns in first.accounting.items() if key not in ("compute", "comm", "memcpy"))
    assert idle["inside_ns"].fill_null(idle["length_ns"]).sum() == waits
    summary = dict(found["summary"].select("key", "value").iter_rows())
    assert summary["step.mean_ns"] == report.step.mean_ns


def test_steps_of_the_host_alone_are_a_sentence_of_their_own() -> None:
    first, second = tracediff.show(FIXTURES / "system" / "os_plain.sqlite.xz").sentence.split(". ")
    assert first.startswith("os_plain: a step takes ") and "host" not in first
    assert second.startswith("No GPU kernels were recorded: that is on the host")


def test_what_was_not_captured_is_no_warning(harmful: Show) -> None:
    """The page counts warnings alone, and so does its text to copy."""
    gone = Coverage({**harmful.coverage.baseline, "gil": "not_captured"})
    text = render_show_markdown(
        msgspec.structs.replace(harmful, warnings=[Note("steps-by-evidence", "one")], coverage=gone)
    )
    assert "<summary>1 warning</summary>" in text
    after = text.partition("<summary>Not captured</summary>")[2]
    assert "GIL: not captured." in after
