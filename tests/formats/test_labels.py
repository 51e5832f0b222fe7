"""What the sides are called."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest

from tracediff.errors import TracediffError
from tracediff.formats.inputs import resolve_pair

XZ = lzma.compress(b"SQLite format 3\0")


def test_two_sides_of_one_given_name_are_refused(tmp_path: Path):
    """A report could not say which is which; files of one name in two folders are called after these."""
    files = [tmp_path / folder / "run.sqlite" for folder in ("before", "after")]
    for file in files:
        file.parent.mkdir()
        file.write_bytes(b"SQLite format 3\0")
    with pytest.raises(TracediffError) as refused:
        resolve_pair(f"a={files[0]}", f"a={files[1]}")
    assert refused.value.slug == "same-label"
    assert called(*files) == ["before", "after"]


@pytest.mark.parametrize(
    ("files", "labels"),
    [
        (("runs/1/report_pqtdir", "runs/2/report_pqtdir"), ["1", "2"]),
        (("a/x/report1.sqlite", "b/x/report1.sqlite"), ["a", "b"]),
        (("run.sqlite", "run.sqlite.xz"), ["run.sqlite", "run.sqlite.xz"]),
        (("run.sqlite", "run.sqlite"), ["run", "run"]),
        (("old/run.sqlite", "new/other.sqlite"), ["run", "other"]),
    ],
)
def test_files_of_one_name_are_called_by_what_differs(tmp_path: Path, files, labels):
    paths = [tmp_path / file for file in files]
    for path in paths:
        if path.suffix:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(XZ if path.suffix == ".xz" else b"SQLite format 3\0")
        else:
            path.mkdir(parents=True)
            (path / "TARGET_INFO_GPU.parquet").write_bytes(b"PAR1")
    assert called(*paths) == labels


def called(one: Path, other: Path) -> list[str]:
    return [side.label for side in resolve_pair(str(one), str(other))[:2]]
