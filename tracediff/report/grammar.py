"""Sentences of a report: the patterns of report/grammar.txt. Which one applies is decided on data, in report/first.py."""

from __future__ import annotations

from pathlib import Path

from tracediff.model import Said


def _listed(file: Path) -> dict[str, str]:
    """The patterns by name. Raises ValueError for a line that is none."""
    lines = file.read_text(encoding="utf-8").splitlines()
    pairs = (line.split(" = ", 1) for line in lines if line and not line.startswith("#"))
    return {name: text[1:-1] for name, text in pairs}


PATTERNS = _listed(Path(__file__).with_name("grammar.txt"))


def say(pattern: str, **slots: str) -> str:
    """A sentence. Raises KeyError for a pattern or a slot that is not there."""
    return PATTERNS[pattern].format_map(slots)


def told(said: Said | None) -> str:
    """The sentence that a struct carries as data; empty without one. Raises KeyError as `say` does."""
    return say(said.pattern, **said.slots) if said else ""
