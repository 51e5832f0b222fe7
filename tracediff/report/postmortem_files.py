"""The post-mortem as files: Markdown with a figure beside it, or one HTML page, by the name's ending."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote

from markupsafe import Markup

from tracediff.errors import TracediffError
from tracediff.model import Result
from tracediff.report import document, palette, postmortem, templates, waterfall
from tracediff.report.escape import Markdown, markdown_cell, markdown_code, markdown_prose, neutral, shorten
from tracediff.report.waterfall_svg import render_svg

_MARGIN = 12  # of a drawing in a file of its own
_LONGEST = 400  # characters of a name
_MARKDOWN, _HTML = (".md", ".markdown"), (".html", ".htm")


def file_names(path: Path) -> list[Path]:
    """Return the files that a post-mortem of this name consists of.

    Raises `TracediffError` (postmortem-format).
    """
    suffix = path.suffix.lower()
    if suffix in _HTML:
        return [path]
    if suffix in _MARKDOWN:
        return [path, _figure_path(path)]
    raise TracediffError(
        "postmortem-format",
        f"--postmortem {path.name}: the ending says neither Markdown nor HTML",
        fix="FILE.md or FILE.html",
        exit_code=2,
    )


def render_postmortem(result: Result, path: Path) -> dict[Path, bytes]:
    """Return every file and its content."""
    result = neutral(result)
    blocks = postmortem.build(result)
    drawing = render_svg(waterfall.build(result))
    files = file_names(path)
    if len(files) == 1:
        return {path: _html(blocks, drawing).encode()}
    figure = files[1]
    image = Markdown(f"![Step-time waterfall, drawn]({quote(figure.name)})")
    text = templates.markdown_environment().get_template("postmortem.md.j2")
    rendered = text.render(
        blocks=blocks, image=image, inline=_inline, cell=_cell, hashes=lambda level: Markdown("#" * level)
    )
    return {path: rendered.encode(), figure: standalone(drawing).encode()}


def _figure_path(path: Path) -> Path:
    return path.with_name(f"{path.stem}-waterfall.svg")


def _inline(span: document.Span, cell: bool = False) -> Markdown:
    kind = document.style(span)
    if kind == "code":
        return markdown_cell(span, _LONGEST) if cell else markdown_code(span, _LONGEST)
    text = markdown_prose(span)
    if kind == "strong":
        return _spaced(span, Markdown(f"**{text}**"))
    if kind == "fill":
        return Markdown(f"_to fill: {text}_" if text else "_to fill_")
    return _spaced(span, text)


def _spaced(span: str, text: Markdown) -> Markdown:
    """Escaping drops blanks at the ends, which part a span from its neighbours."""
    return Markdown(
        (" " if span[:1] == " " else "") + text + (" " if span[-1:] == " " and span.strip() else "")
    )


def _cell(span: document.Span) -> Markdown:
    return _inline(span, cell=True)


def _html(blocks: list[document.Block], drawing: str) -> str:
    page = templates.html_environment().get_template("postmortem.html.j2")
    # The palette and a drawing of fixed words: the only text of the page that is not escaped.
    return page.render(
        blocks=blocks,
        style=document.style,
        longest=_LONGEST,
        shorten=shorten,
        title=next(block.text for block in blocks if isinstance(block, document.Heading)),
        stylesheet=Markup(palette.stylesheet() + "\n" + templates.text("postmortem.css")),
        drawing=Markup(drawing),
    )


def standalone(drawing: str) -> str:
    """Make a drawing for a page into a file of its own: names for its colours become the colours, on white."""
    colours = {variable: colour for colour, variable in palette.BY_COLOUR.items()}
    body = re.sub(r"var\((--[\w-]+)\)", lambda found: colours.get(found[1], "sans-serif"), drawing)
    width, height = (float(one) for one in re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', body)[0])
    across, down = width + 2 * _MARGIN, height + 2 * _MARGIN
    opening = body.index(">") + 1
    size = f'viewBox="{-_MARGIN} {-_MARGIN} {across:g} {down:g}" width="{across:g}" height="{down:g}"'
    tag = body[:opening].replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
    tag = re.sub(r'viewBox="[^"]*"', size, tag)
    paper = f'<rect x="{-_MARGIN}" y="{-_MARGIN}" width="{across:g}" height="{down:g}" fill="{palette.PAPER_LIGHT}"/>'
    return f"{tag}{paper}{body[opening:]}"
