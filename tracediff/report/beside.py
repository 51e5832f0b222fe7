"""Sections that companions add to the report of a comparison: each names the module that writes it.

Such a module holds `section(found)`: its section of a report, whose first block is its first sentence, and `gist(found)`: a line of a comment;
where it has more to add, `kernel_notes(found)`. What has a report of its own has `sides(found)`, `tone(found)` and `TERMS` for that.
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
    found = (renderer(section).gist(section) for name in NAMES if (section := getattr(result, name)))
    return [text for text in found if text]


def kernel_notes(result: Result) -> dict[int, list[tuple[str, str]]]:
    """Row of the kernel table -> what sections say of it: anchor, sentence."""
    return renderer(result.ncu).kernel_notes(result.ncu) if result.ncu else {}
