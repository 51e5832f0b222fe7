"""Sentences of a report, and the words that it explains, as report/grammar.txt and report/terms.txt list them. Which sentence applies is decided on data, in report/first.py."""

from __future__ import annotations

from pathlib import Path

from tracediff.model import Said


def _listed(file: str) -> dict[str, dict[str, str]]:
    """What a file lists: texts by name, under each of its [heads]; those before the first head are under ''. Raises ValueError for another line."""
    own: dict[str, str] = {}
    found = {"": own}
    for line in Path(__file__).with_name(file).read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            own = found[line[1:-1]] = {}
        elif line and not line.startswith("#"):
            name, text = line.split(" = ", 1)
            own[name] = text[1:-1]
    return found


PATTERNS = _listed("grammar.txt")[""]
TERMS = _listed("terms.txt")


def say(pattern: str, **slots: str) -> str:
    """A sentence. Raises KeyError for a pattern or a slot that is not there."""
    return PATTERNS[pattern].format_map(slots)


def told(said: Said | None) -> str:
    """The sentence that a struct carries as data; empty without one. Raises KeyError as `say` does."""
    return say(said.pattern, **said.slots) if said else ""
