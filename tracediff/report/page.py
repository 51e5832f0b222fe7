"""Every page of a report: what it says first, its sections, and what it needs to work offline: nothing is loaded, nothing can be sent."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec
from markupsafe import Markup

from tracediff.model import Tool
from tracediff.report import blocks, palette, templates
from tracediff.report.amounts import TEXT
from tracediff.report.blocks import Block, Section
from tracediff.report.escape import shorten


class Page(msgspec.Struct, frozen=True):
    """A page. sides: what is compared, each under what it is called; said: below the first sentence, measured: below that, columns: beside each other.

    folds: sections that are not open are folded; keys: of timelines of one side or two.
    """

    title: str
    heading: str
    tone: str
    sides: Sequence[tuple[str, str]]
    sections: Sequence[Section]
    tool: Tool
    comment: str
    sign: str = ""
    said: Sequence[Block] = ()
    measured: Sequence[Block] = ()
    columns: Sequence[Section] = ()
    lanes: str = ""
    folds: bool = False
    keys: Literal["", "one", "two"] = ""
    format: str = ""
    skip: str = "reading"


def render(page: Page, scripts: Iterable[str] = ()) -> str:
    """Write a page. scripts: files beside that of every page."""
    script = "".join(map(templates.text, ["report.js", *scripts]))
    return templates.html_environment().get_template("page.html.j2").render(
        page=page, style=Markup(palette.stylesheet() + "\n" + templates.text("report.css")), script=Markup(script), policy=_policy(script),
        lanes=Markup(page.lanes), **helpers(),
    )  # fmt: skip


def document(sections: Sequence[Section]) -> str:
    """Write sections whole, as a page without scripts."""
    style = Markup(palette.stylesheet() + "\n" + templates.text("document.css"))
    known = helpers() | {"full": False, "sections": sections, "stylesheet": style}
    return templates.html_environment().get_template("document.html.j2").render(known)


def _policy(script: str) -> str:
    """Forbid everything but the style sheet, images inside the file, and this one script."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


_TYPOGRAPHY: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"(?<![\w.])-(?=<?\d)"), "\u2212"),
    (re.compile(r"(?<=\d) %"), "\u202f%"),
    (re.compile(r"(?<=[\d)]) us\b(?!-)"), "\u00a0\u00b5s"),
    (re.compile(r"(?<=, )us\Z|\Aus(?= per )"), "\u00b5s"),
    (re.compile(r"(?<=[\d)]) (ns|ms|s)\b(?!-)"), "\u00a0\\1"),
    (re.compile(r" -> "), " \u2192\u00a0"),
)


def typography(text: object) -> str:
    """Set figures and units properly: a minus sign, thin space before a percent sign, \u00b5s."""
    out = str(text)
    for pattern, replacement in _TYPOGRAPHY:
        out = pattern.sub(replacement, out)
    return out


def _head(text: str, unit: str) -> str:
    """The head of a column with its unit."""
    return text.replace("{}", "\u00b5s" if unit == "us" else unit)


def _class_of(*names: str) -> Markup:
    """The attribute of an element that has some of these classes."""
    found = " ".join(name for name in names if name)
    return Markup(' class="{}"').format(found) if found else Markup()


def helpers() -> dict[str, Any]:
    """Return what templates may call; they compute nothing themselves."""
    return {
        "palette": palette,
        "typo": typography,
        "long": lambda name: shorten(name, TEXT),
        "shorten": shorten,
        "head": _head,
        "class_of": _class_of,
        "kind_of": blocks.span_kind,
        "part_names": blocks.PARTS,
        "full": True,  # the page has our styles and script
    }
