"""What the sides are called."""

from __future__ import annotations

from pathlib import Path

import pytest

from tracediff.errors import TracediffError
from tracediff.formats.inputs import resolve_pair


def test_two_sides_of_one_given_name_are_refused(tmp_path: Path):
    """A report could not say which is which; files of one name in two folders are no mistake."""
    files = [tmp_path / folder / "run.sqlite" for folder in ("before", "after")]
    for file in files:
        file.parent.mkdir()
        file.write_bytes(b"SQLite format 3\0")
    with pytest.raises(TracediffError) as refused:
        resolve_pair(f"a={files[0]}", f"a={files[1]}")
    assert refused.value.slug == "same-label"
    assert [side.label for side in resolve_pair(*map(str, files))[:2]] == ["run", "run"]
