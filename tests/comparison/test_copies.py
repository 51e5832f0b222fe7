"""Copies of one capture are no repeats, whatever they are packed in."""

from __future__ import annotations

import lzma
import shutil
import sqlite3

import pytest

from tests.serving import serving
from tracediff.comparison.comparability import repeated_captures
from tracediff.execution.run import reduce_sides
from tracediff.execution.sides import Reading
from tracediff.formats.inputs import resolve


@pytest.fixture
def folder(tmp_path):
    """Two runs of one program: other times, so no copies."""
    place = tmp_path / "side"
    place.mkdir()
    for number in (1, 2):
        serving(jitter_us=2, seed=number).write(place / f"run{number}.sqlite")
    return place


def said(folder) -> list[str]:
    return [
        note.message for note in repeated_captures(reduce_sides([resolve(str(folder))], Reading(threads=1)))
    ]


def packed(folder):
    (folder / "run1.sqlite.xz").write_bytes(lzma.compress((folder / "run1.sqlite").read_bytes()))


def renamed(folder):
    shutil.copy(folder / "run1.sqlite", folder / "again.sqlite")


def exported_again(folder):
    """The same rows in a file of other bytes."""
    shutil.copy(folder / "run1.sqlite", folder / "again.sqlite")
    with sqlite3.connect(folder / "again.sqlite") as db:
        db.execute("CREATE TABLE something_else (x)")


def test_repeats_are_not_copies(folder):
    assert said(folder) == []


@pytest.mark.parametrize("copied", [packed, renamed, exported_again])
def test_a_copy_is_named_and_nothing_is_dropped(copied, folder):
    copied(folder)
    assert len(resolve(str(folder)).runs) == 3
    (message,) = said(folder)
    assert "run1.sqlite" in message and "run2" not in message and "no repeats" in message
