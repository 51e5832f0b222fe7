from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console

from tests.report import sample
from tests.report.golden import check
from tracediff.model import Result
from tracediff.report.terminal import render_terminal

RESULTS = {
    "full": sample.full(),
    "minimal": sample.minimal(),
    "one_sided": sample.one_sided(),
    "large": sample.large(50),
}


def render(result: Result, width: int = 80, colour: bool = False, encoding: str = "utf-8") -> str:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding, newline="\n")
    console = Console(
        file=file,
        width=width,
        force_terminal=colour,
        color_system="truecolor" if colour else None,
        no_color=not colour,
    )
    render_terminal(result, console)
    file.flush()
    return raw.getvalue().decode(encoding)


@pytest.mark.parametrize("width", [60, 80, 200])
@pytest.mark.parametrize("result", RESULTS.values(), ids=RESULTS)
def test_no_line_is_wider_than_the_terminal(result: Result, width: int) -> None:
    assert max(cell_len(line) for line in render(result, width).splitlines()) <= width


@pytest.mark.parametrize("colour", [False, True])
def test_no_control_sequence_of_a_name_gets_through(colour: bool) -> None:
    text = render(sample.full(), colour=colour)
    assert "\x1b[31mred" not in text
    assert "\\x1b[31mred" in text
    if not colour:
        assert "\x1b" not in text


def test_markup_in_names_is_text() -> None:
    assert sample.MARKUP in render(sample.full(), 200)
    assert sample.LINK in render(sample.full(), 200)


def test_the_verdict_is_a_word_and_the_numbers_are_the_results() -> None:
    text = render(sample.full())
    first = text.splitlines()[0]
    assert "Regressed" in first
    for figure in (
        "1,038.6 us -> 1,167.9 us",
        "+129.3 us (+12.4 %) slower",
        "+110.9 to +150.4 us",
        "5 + 5 runs",
    ):
        assert figure in text
    for figure in ("+97.2 us", "+23.5 us", "-7.2 us"):
        assert figure in text


def test_what_was_not_captured_is_said_with_the_flag() -> None:
    text = render(sample.minimal(), 200)
    assert "GIL: not captured on either side. Capture with -t python-gil" in text
    assert "TLLM_PROFILE_RECORD_GC=1" in text


def test_a_terminal_without_unicode() -> None:
    plain = sample.minimal()
    text = render(plain, encoding="ascii")
    assert "####" in text
    assert "Inconclusive" in text


def test_more_findings_on_request() -> None:
    assert "2 more: in the HTML report" in render(sample.full())


def test_golden() -> None:
    check(Path("terminal.txt"), render(sample.full()))
