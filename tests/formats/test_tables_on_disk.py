"""The tables of a large export lie in a file of the scratch folder: the same numbers, and nothing left behind."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import duckdb
import polars as pl
import pytest

from tests.tiny import one_gap
from tracediff.errors import TracediffError
from tracediff.execution.run import reduce_file
from tracediff.execution.sides import Reading
from tracediff.formats import capture as captures
from tracediff.formats import nsys
from tracediff.formats.capture import load_capture

EAGER = Path(__file__).parents[2] / "fixtures/captures/eager_a1.sqlite.xz"


def test_numbers_are_the_same_from_a_file(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    in_memory = reduce_file(EAGER, Reading(keep=True))
    opened = []

    def noted(*args, **options):
        opened.append(options["file"].parent.parent)
        return connect(*args, **options)

    connect = captures.connect
    monkeypatch.setattr(captures, "connect", noted)
    monkeypatch.setattr(captures, "LARGE", 0)
    on_disk = reduce_file(EAGER, Reading(keep=True))
    for name in in_memory.__struct_fields__:
        here, there = getattr(in_memory, name), getattr(on_disk, name)
        assert here.equals(there) if isinstance(here, pl.DataFrame) else repr(here) == repr(there), name
    assert opened == [tmp_path]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("large", "free", "on_disk"), [(1, 1, True), (1, 0, False), (2, 2, False)])
def test_a_file_needs_a_large_export_and_room_on_the_disk(large, free, on_disk, tmp_path, monkeypatch):
    export = one_gap().write(tmp_path / "trace.sqlite")
    size = export.stat().st_size
    monkeypatch.setattr(captures, "LARGE", large * size)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(size, 0, free * size))
    capture = load_capture(export, tmp_path)
    files = capture.db.execute("SELECT count(*) FROM duckdb_databases() WHERE path IS NOT NULL").fetchone()
    capture.close()
    assert files == (1 if on_disk else 0,)


def test_a_full_disk_is_named(tmp_path, monkeypatch):
    def full(*_):
        raise duckdb.IOException('Could not write file "/tmp/x/tables.duckdb": No space left on device')

    monkeypatch.setattr(nsys, "run_sql", full)
    with pytest.raises(TracediffError) as raised:
        load_capture(one_gap().write(tmp_path / "a.sqlite"), tmp_path)
    assert (raised.value.slug, raised.value.fix) == ("disk-full", "set TMPDIR to a folder with space")
    assert "/tmp/x" not in str(raised.value)
