"""Reports of companions in every format, and what holds of each of them whatever its names."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import msgspec
from markdown_it import MarkdownIt
from rich.console import Console

from tests.report import sample
from tests.report.tags import tags
from tracediff.companions import render
from tracediff.model import encode

# Of a file, a kernel or a layer.
NAMES = (sample.SCRIPT, sample.PIPE, sample.MARKUP, "a\nb\u202e", '"quoted" + \\', "x" * 50_000)


def terminal(report: Any, width: int = 160, **more: Any) -> str:
    out = io.StringIO()
    render.render_terminal(report, Console(file=out, width=width, color_system=None), **more)
    return out.getvalue()


def markdown(text: str) -> list[Any]:
    return MarkdownIt("commonmark", {"html": True}).enable("table").parse(text)


def comes_back(report: Any) -> bool:
    """Whether JSON holds all of it."""
    return msgspec.json.decode(encode(report), type=type(report)) == report


def names_are_harmless(of: Callable[[str], Any], name: str) -> None:
    """`of`: a report whose names are all this one."""
    harmful, tame = of(name), of("".join(one if one.isalnum() else "x" for one in name))
    page, twin = render.render_html(harmful), render.render_html(tame)
    # a cell has one more tag where a name is long
    assert set(tags(page)) <= {*tags(twin), ("small", ())} and len(page) < 400_000
    text = terminal(harmful)
    assert "\x1b" not in text and "\u202e" not in text and len(text) < 40_000
    shown = render.render_markdown(harmful)
    assert len(shown) < 60_000
    assert all("alert" not in token.content for token in markdown(shown) if token.type == "html_block")
