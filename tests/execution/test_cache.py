"""The cache: the same numbers as without it, never those of another file, and no harm from what happens to it."""

from __future__ import annotations

import os
import threading
import time

import pytest

from fixtures.builders import two_steps
from tests.tiny import one_gap
from tracediff.execution import cache
from tracediff.execution import run as runs
from tracediff.execution.cache import pack
from tracediff.execution.run import reduce_sides
from tracediff.execution.sides import Reading
from tracediff.formats.inputs import resolve

KEPT = Reading(threads=1, cached=True)


@pytest.fixture(autouse=True)
def where(once, tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("TRACEDIFF_CACHE", str(folder))
    return folder


@pytest.fixture
def path(tmp_path):
    return one_gap().write(tmp_path / "run.sqlite")


@pytest.fixture
def reads(monkeypatch):
    """Every file that is really read."""
    found = []
    real = runs.reduce_file
    monkeypatch.setattr(runs, "reduce_file", lambda path, *args, **more: found.append(path.name) or real(path, *args, **more))  # fmt: skip
    return found


def reduced(path, reading=KEPT) -> bytes:
    (side,) = reduce_sides([resolve(str(path))], reading)
    return pack(side.parts[0])


def test_the_second_time_nothing_is_read(path, reads):
    plain = reduced(path, Reading(threads=1))
    assert [reduced(path), reduced(path)] == [plain, plain]
    assert reads == ["run.sqlite"] * 2  # without the cache, and once with it


def test_a_changed_file_is_read_again_though_size_and_time_are_as_before(path, reads):
    first = reduced(path)
    before = path.stat()
    raw = bytearray(path.read_bytes())
    at = raw.rindex(b"second")  # the name of a kernel
    raw[at : at + 6] = b"secund"
    path.write_bytes(raw)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size and path.stat().st_mtime_ns == before.st_mtime_ns
    assert reduced(path) != first
    assert len(reads) == 2


def test_large_files_are_told_by_their_last_change(path, reads, monkeypatch):
    """As above, but nothing of the change is in the sample: it is told by ctime."""
    monkeypatch.setattr(cache, "_HASHED_WHOLE", 0)
    monkeypatch.setattr(cache, "fingerprint", lambda _: "same")
    monkeypatch.setattr(cache, "_RACY_NS", 0)
    reduced(path)
    before = path.stat()
    time.sleep(0.02)  # more than a tick of the file system's clock
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    reduced(path)
    assert len(reads) == 2
    reduced(path)
    assert len(reads) == 2


def test_a_large_file_changed_just_now_is_not_kept(path, reads, monkeypatch, where):
    monkeypatch.setattr(cache, "_HASHED_WHOLE", 0)
    reduced(path)
    assert not where.exists()


def test_what_changes_the_numbers_is_another_entry(path, reads):
    for reading in (
        KEPT,
        Reading(cached=True, keep=True),
        Reading(cached=True, step_regex=r"_forward_step (\d+)"),
    ):
        reduced(path, reading)
        reduced(path, reading)
    reduced(path, Reading(threads=2, cached=True))  # does not change them
    assert len(reads) == 3


def test_other_code_reads_again(path, reads, monkeypatch):
    reduced(path)
    monkeypatch.setattr(cache, "code_version", lambda: "another")
    reduced(path)
    assert len(reads) == 2


def test_another_name_is_another_entry(path, reads, tmp_path):
    """Messages name the file."""
    (tmp_path / "other.sqlite").write_bytes(path.read_bytes())
    reduced(path)
    reduced(tmp_path / "other.sqlite")
    assert reads == ["run.sqlite", "other.sqlite"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda raw: raw[:-1],
        lambda raw: b"",
        lambda raw: raw[:999] + bytes([raw[999] ^ 1]) + raw[1000:],
        lambda raw: b"ARROW1 of another tool",
    ],
)
def test_a_damaged_or_foreign_entry_is_replaced(path, reads, where, damage):
    plain = reduced(path)
    (entry,) = where.iterdir()
    entry.write_bytes(damage(entry.read_bytes()))
    assert [reduced(path), reduced(path)] == [plain, plain]
    assert len(reads) == 2


@pytest.mark.parametrize("kind", ["pipe", "device", "nothing"])
def test_an_entry_that_is_no_file_is_not_waited_for(path, reads, where, kind):
    first = reduced(path)
    (entry,) = where.glob("*.arrow")
    entry.unlink()
    os.mkfifo(entry) if kind == "pipe" else entry.symlink_to(
        "/dev/zero" if kind == "device" else where / "nothing"
    )
    assert reduced(path) == first and reduced(path) == first
    assert reads == ["run.sqlite"] * 2 and entry.is_file() and not entry.is_symlink()  # replaced


def test_an_entry_under_the_name_of_another_is_not_believed(path, reads, where, tmp_path):
    plain = reduced(path)
    (entry,) = where.iterdir()
    other = two_steps().write(tmp_path / "other.sqlite")
    assert reduced(other) != plain
    for one in where.iterdir():
        if one != entry:
            one.replace(entry)
    assert [reduced(path), reduced(path)] == [plain, plain]
    assert len(reads) == 3


def test_a_folder_that_others_may_write_to_is_not_used(path, reads, where):
    where.mkdir()
    where.chmod(0o777)
    (side,) = reduce_sides([resolve(str(path))], KEPT)
    (note,) = side.notes
    assert note.slug == "cache-not-private" and "chmod go-w" in note.message
    assert not list(where.iterdir())


def test_a_folder_of_another_user_is_not_used(path, reads, where, monkeypatch):
    where.mkdir()
    monkeypatch.setattr(cache.os, "geteuid", lambda: os.getuid() + 1)
    (side,) = reduce_sides([resolve(str(path))], KEPT)
    assert [note.slug for note in side.notes] == ["cache-not-private"]
    assert not list(where.iterdir())


def test_rows_beside_the_file_are_not_kept(path, reads, where):
    path.with_name(path.name + "-wal").write_bytes(b"rows")
    assert cache.key_of(path, KEPT) is None


def test_a_file_that_changes_while_it_is_read_is_not_kept(path, where, monkeypatch):
    real = runs.reduce_file

    def reading(path, *args, **more):
        found = real(path, *args, **more)
        with path.open("ab") as file:
            file.write(b"more")
        return found

    monkeypatch.setattr(runs, "reduce_file", reading)
    reduced(path)
    assert not where.exists()


def test_a_folder_that_cannot_be_written_to_is_no_error(path, reads, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TRACEDIFF_CACHE", str(tmp_path / "file" / "folder"))
    assert reduced(path) == reduced(path)
    assert len(reads) == 2


def test_a_full_disk_leaves_no_part_behind(path, where, monkeypatch):
    def full(*_args, **_more):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache.Path, "replace", full)
    reduced(path)
    assert list(where.iterdir()) == []


@pytest.mark.slow
def test_it_holds_a_bounded_size_and_drops_what_was_not_used_for_longest(tmp_path, where, monkeypatch):
    for number in range(4):
        (tmp_path / f"{number}.sqlite").write_bytes(one_gap().write(tmp_path / "any.sqlite").read_bytes())
        reduced(tmp_path / f"{number}.sqlite")
        time.sleep(0.02)
    reduced(tmp_path / "0.sqlite")  # used again
    *_, latest = kept = [one.path.name for one in cache.entries(where)]
    assert cache.key_of(tmp_path / "0.sqlite", KEPT) == latest.removesuffix(".arrow")
    monkeypatch.setattr(cache, "MOST_BYTES", 2 * max(one.bytes for one in cache.entries(where)))
    one_gap().write(tmp_path / "4.sqlite")
    reduced(tmp_path / "4.sqlite")
    left = {one.path.name for one in cache.entries(where)}
    assert left & set(kept) == {latest}
    assert len(left) == 2


def test_many_at_once_agree(path, where):
    found = []
    threads = [threading.Thread(target=lambda: found.append(reduced(path))) for _ in range(6)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(found) == 6 and len(set(found)) == 1
    assert len(list(where.iterdir())) == 1


def test_clear(path, where):
    reduced(path)
    (where / ".x.arrow.part").write_bytes(b"left by a process that was killed")
    (where / "another.txt").write_text("not ours")
    count, size = cache.remove_all(where)
    assert count == 1 and size > 0
    assert [one.name for one in where.iterdir()] == ["another.txt"]


@pytest.mark.parametrize("word", ["", "0", "off"])
def test_it_can_be_switched_off(path, reads, word, monkeypatch):
    monkeypatch.setenv("TRACEDIFF_CACHE", word)
    assert cache.folder() is None
    assert reduced(path) == reduced(path)
    assert len(reads) == 2
