"""Where templates are, in a wheel or a checkout, and the Jinja environments that render them."""

from __future__ import annotations

import html
import sys
from contextlib import suppress
from functools import cache
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

import jinja2
from jinja2.bccache import Bucket

from tracediff.errors import TracediffError
from tracediff.report.blocks import Cell, Code, Fill, Link, Span, Strong, flattened
from tracediff.report.escape import (
    Markdown,
    markdown_block,
    markdown_cell,
    markdown_code,
    markdown_figure,
    markdown_prose,
    visible,
)


def folder() -> Path:
    """Return the folder of the templates: packed into the wheel, or at the top of the checkout."""
    package = Path(__file__).resolve().parent.parent
    for place in (package / "_templates", package.parent / "templates"):
        if (place / "page.html.j2").is_file():
            return place
    raise TracediffError(
        "templates-missing", "the report templates are not in this installation", fix="reinstall tracediff"
    )


def text(name: str) -> str:
    """Return a template folder's file as it is: a style sheet or script to inline."""
    return (folder() / name).read_text(encoding="utf-8")


class _Compiled(jinja2.FileSystemBytecodeCache):
    """Compiled templates, beside Python's own compiled modules and written where and when those are."""

    def __init__(self) -> None:
        super().__init__(str(Path(cache_from_source(__file__)).parent))

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep one for the next run; where that fails, it is compiled again."""
        if not sys.dont_write_bytecode:
            with suppress(OSError):
                super().dump_bytecode(bucket)


def _environment(**escaping: Any) -> jinja2.Environment:
    """An environment in which an unknown name is an error."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder()),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        bytecode_cache=_Compiled(),
        **escaping,
    )


@cache
def html_environment() -> jinja2.Environment:
    """Return the environment for HTML: every value is escaped."""
    return _environment(autoescape=True)


def _escape_unless_markdown(value: object) -> object:
    return value if isinstance(value, Markdown | jinja2.Undefined) else markdown_prose(value)


def _span(span: Span, width: int = 160) -> Markdown:
    """A span; escaping drops blanks at the ends of prose, which part it from its neighbours."""
    if isinstance(span, Link):
        text = markdown_prose(span.text)
        if span.page and not span.to:
            return Markdown(f"[{text}]({span.page})")
        return Markdown(f"[**{text}**]({span.page}#{span.to})") if span.page else text
    if isinstance(span, Cell):
        return markdown_prose(f"{span.text} {span.small}")
    if isinstance(span, Code):
        return markdown_code(span, width)
    text = markdown_prose(span)
    if isinstance(span, Fill):
        return Markdown(f"_to fill: {text}_" if text else "_to fill_")
    if isinstance(span, Strong):
        text = Markdown(f"**{text}**")
    return Markdown(
        (" " if span[:1] == " " else "") + text + (" " if span[-1:] == " " and span.strip() else "")
    )


def _summary(text: str) -> Markdown:
    """What stands in an HTML element, where nothing of Markdown is read."""
    return Markdown(html.escape(visible(" ".join(text.split())), quote=False))


def _cell(cell: Cell, width: int) -> Markdown:
    if cell.code:
        return markdown_cell(cell.text, width)
    if isinstance(cell.text, Fill | Strong):
        return _span(cell.text)
    if cell.text in ("-", "~"):  # no list, no markup in a cell
        return markdown_figure(cell.text)
    return markdown_prose(cell.text)


@cache
def markdown_environment() -> jinja2.Environment:
    """Return the environment for Markdown: what a filter did not make Markdown is escaped as running text."""
    # HTML escapes are not Markdown's: `finalize` is this format's autoescape
    environment = _environment(autoescape=False, finalize=_escape_unless_markdown, keep_trailing_newline=True)
    environment.filters.update(
        code=markdown_code,
        block=markdown_block,
        prose=markdown_prose,
        ready=Markdown,
        span=_span,
        cell=_cell,
        summary=_summary,
    )
    environment.globals.update(flattened=flattened)
    return environment
