"""`label=PATH`: a name for the report before a path of the command line."""

from __future__ import annotations

from pathlib import Path


def own_label(word: str) -> tuple[str | None, str]:
    """Return the label, None where there is none, and the rest of the word.

    A path with `=` in it is a path: where it exists (the first of several with commas), or has a `/` before the `=`.
    """
    label, equals, rest = word.partition("=")
    there = Path(word).exists() or Path(word.partition(",")[0]).exists()
    return (label, rest) if equals and label and "/" not in label and not there else (None, word)
