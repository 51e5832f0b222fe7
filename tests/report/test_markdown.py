from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from markdown_it import MarkdownIt

from tests.report import sample
from tests.report.golden import check
from tracediff.model import Note, Result
from tracediff.report.markdown import LIMIT, MARKER, render_markdown

RESULTS = {
    "full": sample.full(),
    "minimal": sample.minimal(),
    "one_sided": sample.one_sided(),
    "large": sample.large(),
}
MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])


@pytest.mark.parametrize("result", RESULTS.values(), ids=RESULTS)
def test_the_comment_begins_with_its_marker_and_the_verdict(result: Result) -> None:
    lines = render_markdown(result).splitlines()
    assert lines[0] == MARKER
    assert lines[1].startswith("## ")
    assert "step time" in lines[1]


@pytest.mark.parametrize("result", RESULTS.values(), ids=RESULTS)
@pytest.mark.parametrize("top", [1, 10, 100_000])
def test_nothing_of_a_name_is_live(result: Result, top: int) -> None:
    tokens = MARKDOWN.parse(render_markdown(result, top))
    html = []
    for token in tokens:
        if token.type == "html_block":
            html.append(token.content.strip())
        for child in token.children or []:
            assert child.type not in ("link_open", "image", "s_open", "em_open"), child
            assert child.type != "html_inline", child.content
            if child.type == "text":
                assert "@everyone" not in child.content
                assert "https:" not in child.content
    allowed = re.compile(r"<!-- tracediff -->|<details><summary>[\w ,():+]+</summary>|</details>")
    assert all(allowed.fullmatch(block) for block in html), html
    assert sum(block == "</details>" for block in html) == sum(
        block.startswith("<details>") for block in html
    )


@pytest.mark.parametrize("result", RESULTS.values(), ids=RESULTS)
def test_every_row_has_as_many_cells_as_its_header(result: Result) -> None:
    for line_set in re.split(r"\n\n", render_markdown(result)):
        rows = [line for line in line_set.splitlines() if line.startswith("|")]
        cells = {len(re.findall(r"(?<!\\)\|", row)) for row in rows}
        assert len(cells) <= 1, rows


def test_names_are_shown_literally() -> None:
    codes = [
        child.content
        for token in MARKDOWN.parse(render_markdown(sample.full()))
        for child in token.children or []
        if child.type == "code_inline"
    ]
    assert sample.SCRIPT in codes
    assert f"{sample.TICK} + {sample.MENTION} -> {sample.JINJA}" in codes
    assert sample.PIPE in codes
    assert f"{sample.CDATA} + {sample.MARKUP}" in codes


def test_the_numbers_are_the_results() -> None:
    text = render_markdown(sample.full())
    for figure in (
        "1,038.6 us → 1,167.9 us",
        "+129.3 us, +12.4 % slower",
        "+97.2 us",
        "| 212.3 | 211.0 | -1.3 |",
    ):
        assert figure in text


@pytest.mark.parametrize("top", [1, 10, 100_000])
def test_a_huge_result_fits_and_says_what_is_left_out(top: int) -> None:
    text = render_markdown(sample.large(), top)
    assert len(text) < LIMIT
    assert "Truncated" in text
    assert "in the JSON" in text


def test_huge_prose_is_cut_at_a_line() -> None:
    prose = "word @everyone <b> " * 5_000
    result = sample.full()
    findings = [msgspec.structs.replace(f, title=prose, note=prose, next=prose) for f in result.findings * 3]
    result = msgspec.structs.replace(
        result, findings=findings, verdict_reason=prose, warnings=[Note("many", prose)] * 50
    )
    text = render_markdown(result)
    assert len(text) < LIMIT
    assert text.rstrip().endswith("hold everything._")
    assert text.count("<details>") == text.count("</details>")


def test_the_same_result_gives_the_same_text() -> None:
    assert render_markdown(sample.full()) == render_markdown(sample.full())


def test_golden() -> None:
    check(Path("comment.md"), render_markdown(sample.full()))
