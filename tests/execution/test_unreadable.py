"""Exports that cannot be read: all named at once, left out only when asked, and then said to be."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing

import pytest
from msgspec.structs import replace

from tests.comparison.test_ranks import ranks
from tracediff.comparison.compare import compare
from tracediff.comparison.show import show
from tracediff.errors import TracediffError
from tracediff.execution import run
from tracediff.execution.run import reduce_file, reduce_sides
from tracediff.execution.sides import Reading, Run, Side, steps_table, warnings_of
from tracediff.formats.inputs import resolve
from tracediff.model import encode

pytestmark = pytest.mark.usefixtures("once")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "side").mkdir()
    for rank in range(5):
        ranks(1).write(tmp_path / "side" / f"run_rank{rank}.sqlite")
    return tmp_path / "side"


def read(folder, **how):
    return reduce_sides([resolve(str(folder))], Reading(threads=1, **how))[0]


def test_one_is_an_error_of_its_own(folder):
    (folder / "run_rank3.sqlite").write_bytes(b"")
    with pytest.raises(TracediffError, match=r"run_rank3\.sqlite") as raised:
        read(folder)
    assert raised.value.slug == "empty-file"


def test_several_are_named_at_once(folder):
    (folder / "run_rank3.sqlite").write_bytes(b"")
    (folder / "run_rank1.sqlite").write_bytes(b"no export, but long enough to look like something" * 9)
    with pytest.raises(TracediffError) as raised:
        read(folder)
    error = raised.value
    assert (
        error.slug == "exports-unreadable"
        and "2 of 5 exports" in error.message
        and "--skip-unreadable" in error.fix
    )
    assert error.message.index("run_rank1.sqlite") < error.message.index("run_rank3.sqlite")
    assert "[not-sqlite]" in error.message and "[empty-file]" in error.message


def test_several_of_one_kind_keep_its_slug(folder):
    for rank in (1, 4):
        (folder / f"run_rank{rank}.sqlite").write_bytes(b"")
    with pytest.raises(TracediffError) as raised:
        read(folder)
    assert raised.value.slug == "empty-file"
    assert "the same of run_rank4.sqlite (2 of 5 exports)" in raised.value.message


@pytest.mark.slow
def test_left_out_when_asked_and_said_so(folder):
    (folder / "run_rank3.sqlite").write_bytes(b"")
    side = read(folder, skip_unreadable=True)
    # the rank that is missing leaves a hole: the one after it keeps its number
    assert sorted(set(steps_table([side])["rank"])) == [0, 1, 2, 4]
    for report in (compare(side, side), show(side)):
        (note,) = [note for note in report.warnings if note.slug == "exports-left-out"]
        assert "1 of 5 exports" in note.message and "run_rank3.sqlite: empty-file" in note.message
    (left,) = compare(side, side).inputs.candidate.left_out
    assert (left.name, left.slug) == ("run_rank3.sqlite", "empty-file") and left.message
    assert [row.rank for row in compare(side, side).ranks] == [0, 1, 2, 4]


def test_one_with_a_damaged_page_is_left_out_alone(folder):
    path = folder / "run_rank3.sqlite"
    with closing(sqlite3.connect(path)) as db:
        (root,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'NVTX_EVENTS'").fetchone()
    content = bytearray(path.read_bytes())
    content[(root - 1) * 4096 : root * 4096] = bytes(4096)
    path.write_bytes(content)
    (left,) = read(folder, skip_unreadable=True).left_out
    assert (left.name, left.slug) == ("run_rank3.sqlite", "truncated")


def test_many_empty_files_open_no_database(folder, monkeypatch):
    for path in folder.iterdir():
        path.write_bytes(b"")
    monkeypatch.setattr("tracediff.formats.capture.in_memory", lambda: pytest.fail("opened"))
    with pytest.raises(TracediffError, match=r"5 of 5 exports"):
        read(folder)


def test_a_whole_run_may_be_left_out(tmp_path):
    (tmp_path / "side").mkdir()
    for number in range(3):
        ranks(1).write(tmp_path / "side" / f"run{number}.sqlite")
    (tmp_path / "side" / "run1.sqlite").write_bytes(b"")
    side = read(tmp_path / "side", skip_unreadable=True)
    assert [run.name for run in side.runs] == ["run0.sqlite", "run2.sqlite"]


def test_a_side_of_nothing_is_an_error_all_the_same(folder):
    for path in folder.iterdir():
        path.write_bytes(b"")
    with pytest.raises(TracediffError, match=r"5 of 5 exports") as raised:
        read(folder, skip_unreadable=True)
    assert raised.value.slug == "empty-file" and "--skip-unreadable" not in (raised.value.fix or "")


def test_a_mistake_of_the_command_is_no_fault_of_an_export(folder):
    with pytest.raises(TracediffError) as raised:
        read(folder, skip_unreadable=True, step_regex="(")
    assert raised.value.slug == "bad-step-regex"


@pytest.mark.slow
def test_an_export_that_is_being_written_is_named(folder, monkeypatch):
    monkeypatch.setattr(run, "reduce_file", reduce_file)  # whatever was read of its like
    writer = sqlite3.connect(folder / "run_rank2.sqlite", isolation_level=None)
    try:
        writer.execute("BEGIN EXCLUSIVE")
        with pytest.raises(TracediffError, match=r"run_rank2\.sqlite") as raised:
            read(folder)
        assert raised.value.slug == "locked"
        side = read(folder, skip_unreadable=True, cached=True)
        assert [one.slug for one in side.left_out] == ["locked"]
    finally:
        writer.execute("ROLLBACK")
        writer.close()
    assert not read(folder, skip_unreadable=True, cached=True).left_out  # nothing of the failure is kept


def test_files_of_one_name_are_named_with_their_folders(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        trace = ranks(1)
        trace.kernel(999, 2_350_000, 2_360_000, name="orphan")  # without a launching call
        trace.write(tmp_path / name / "run.sqlite")
    sides = reduce_sides([resolve(str(tmp_path / name)) for name in ("a", "b")], Reading(threads=1))
    (note,) = [one for one in warnings_of(sides) if one.slug == "kernels-without-launch"]
    assert note.message.startswith("a/run.sqlite, b/run.sqlite: 1 of 15 kernels")
    parts = [
        replace(side.parts[0], name=f"{name}/run.sqlite") for name, side in zip("ab", sides, strict=True)
    ]
    bundle = [Side("both", [Run(part.name, [part])]) for part in parts]  # a name with its run's folder
    (same,) = [one for one in warnings_of(bundle) if one.slug == "kernels-without-launch"]
    assert same.message == note.message


@pytest.mark.slow
@pytest.mark.parametrize("alike", [True, False])
def test_many_warnings_of_one_kind_are_counted(alike, tmp_path):
    """Eight exports with a kernel without a launching call each are said at once; with one to eight, five of them are."""
    (tmp_path / "side").mkdir()
    for rank in range(8):
        trace = ranks(1)
        for orphan in range(1 if alike else rank + 1):
            begin = 2_350_000 + 1_000 * orphan
            trace.kernel(999 + orphan, begin, begin + 900, name="orphan")
        trace.write(tmp_path / "side" / f"run_rank{rank}.sqlite")
    side = read(tmp_path / "side")
    notes = [note.message for note in show(side).warnings if note.slug == "kernels-without-launch"]
    assert notes[0].startswith("run_rank0.sqlite")
    if alike:
        assert len(notes) == 1 and "run_rank4.sqlite and 3 more: 1 of 15 kernels" in notes[0]
    else:
        assert len(notes) == 6 and notes[5].endswith("further exports: 3")


@pytest.mark.parametrize("cached", [False, True])
def test_one_whose_name_is_no_text_is_left_out_alone(folder, cached, monkeypatch, tmp_path):
    monkeypatch.setenv("TRACEDIFF_CACHE", str(tmp_path / "cache"))
    odd = folder / os.fsdecode(b"run_rank3\xff.sqlite")
    (folder / "run_rank3.sqlite").rename(odd)
    with pytest.raises(TracediffError) as raised:
        read(folder, cached=cached)
    assert raised.value.slug == "name-not-utf8" and r"run_rank3\udcff.sqlite: its name" in str(raised.value)
    side = read(folder, skip_unreadable=True, cached=cached)
    (left,) = side.left_out
    assert (left.name, left.slug) == (r"run_rank3\udcff.sqlite", "name-not-utf8")
    assert encode(show(side))
