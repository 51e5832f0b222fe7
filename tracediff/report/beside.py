"""Sections that companions add to the report of a comparison: each names the module that writes it.

Such a module holds `section(found)`: its section of a report, whose first block is its first sentence; `TITLE` and `headline(found)`, or
`gist(found)`: a line of a comment; where it has more to add, `kernel_notes(found)`. What has a report of its own has `TERMS` for that, and
without a verdict `tone(found)`.
"""

from __future__ import annotations

import importlib
from types import ModuleType

from tracediff.model import Result, Section
from tracediff.report import blocks

NAMES = ("kpi", "latencies", "ncu", "trtexec")


def renderer(section: Section) -> ModuleType:
    """The module that writes a section."""
    return importlib.import_module(section.renderer)


def sections(result: Result) -> list[blocks.Section]:
    """Those that are there."""
    return [renderer(one).section(one) for name in NAMES if (one := getattr(result, name)) is not None]


def gists(result: Result) -> list[str]:
    """One line for each section that is there; empty ones are left out."""
    return [text for name in NAMES if (one := getattr(result, name)) is not None and (text := gist(one))]


def gist(section: Section) -> str:
    """The first sentence of a section in a line of a comment."""
    module = renderer(section)
    own = getattr(module, "gist", None)
    return own(section) if own else f"{module.TITLE}: {module.headline(section)}"


def kernel_notes(result: Result) -> dict[int, list[tuple[str, str]]]:
    """Row of the kernel table -> what sections say of it: anchor, sentence."""
    return renderer(result.ncu).kernel_notes(result.ncu) if result.ncu else {}
