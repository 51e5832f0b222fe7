"""Sections that companions add to the report of a comparison: each names the module that writes it.

Such a module holds `STYLE` (its style sheet, "" for none), `gist(section)`: a line of a comment, what the templates call, `print_section(section, console, top)`,
and where it has more to add `kernel_notes(section)` and `document(section)`.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

from tracediff.model import Result, Section
from tracediff.report import blocks

NAMES = ("kpi", "ncu", "trtexec", "latencies")


def renderer(section: Section) -> ModuleType:
    """The module that writes a section."""
    return importlib.import_module(section.renderer)


def context(result: Result) -> dict[str, Any]:
    """For templates: each section under its name, None where it is not there, and its module as NAME_words."""
    found: dict[str, Any] = {}
    for name in NAMES:
        section = getattr(result, name)
        found |= {name: section, f"{name}_words": renderer(section) if section else None}
    return found


def sections(result: Result) -> list[blocks.Section]:
    """Those that are blocks."""
    return [
        renderer(section).section(section)
        for name in NAMES[:1]
        if (section := getattr(result, name)) is not None
    ]


def gists(result: Result) -> list[str]:
    """One line for each section that is there; empty ones are left out."""
    found = (renderer(section).gist(section) for name in NAMES if (section := getattr(result, name)))
    return [text for text in found if text]


def styles(result: Result) -> list[str]:
    """The style sheets of the sections that are there."""
    used = [renderer(section).STYLE for name in NAMES if (section := getattr(result, name))]
    return [style for style in dict.fromkeys(used) if style]


def kernel_notes(result: Result) -> dict[int, list[tuple[str, str]]]:
    """Row of the kernel table -> what sections say of it: anchor, sentence."""
    return renderer(result.ncu).kernel_notes(result.ncu) if result.ncu else {}
