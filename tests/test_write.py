from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tests.failing import failing
from tracediff.errors import TracediffError
from tracediff.write import check_outputs, write_all, write_atomically


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def slug(path: Path, force: bool = False) -> str:
    with pytest.raises(TracediffError) as caught:
        write_atomically(path, b"new", force)
    return caught.value.slug


def test_writes_with_ordinary_permissions_and_leaves_nothing_else(tmp_path: Path) -> None:
    write_atomically(tmp_path / "a.json", b"data")
    (tmp_path / "plain").touch()
    assert (tmp_path / "a.json").read_bytes() == b"data"
    assert (tmp_path / "a.json").stat().st_mode == (tmp_path / "plain").stat().st_mode
    assert files(tmp_path) == ["a.json", "plain"]


def test_refuses_to_overwrite(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b"old")
    assert slug(path) == "output-exists"
    assert path.read_bytes() == b"old"
    write_atomically(path, b"new", force=True)
    assert path.read_bytes() == b"new"


def test_names_the_missing_folder_and_the_folder_itself(tmp_path: Path) -> None:
    assert slug(tmp_path / "no" / "a.json") == "output-folder-missing"
    assert slug(tmp_path, force=True) == "output-is-folder"


def test_a_failure_leaves_the_old_file_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b"old")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert slug(path, force=True) == "output-not-writable"
    assert path.read_bytes() == b"old"
    assert files(tmp_path) == ["a.json"]


def test_an_interruption_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(handle: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "a.json", b"data")
    assert files(tmp_path) == []


def test_a_link_keeps_pointing_at_its_file(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    assert slug(link) == "output-exists"
    write_atomically(link, b"new", force=True)
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_a_device_is_written_in_place() -> None:
    write_atomically(Path(os.devnull), b"data")
    check_outputs([Path(os.devnull), Path(os.devnull)])


def test_outputs_are_checked_before_the_work(tmp_path: Path) -> None:
    check_outputs([tmp_path / "a.html", tmp_path / "a.md"])
    with pytest.raises(TracediffError) as caught:
        check_outputs([tmp_path / "a.html", tmp_path / "." / "a.html"])
    assert caught.value.slug == "output-twice"
    (tmp_path / "a.md").touch()
    with pytest.raises(TracediffError) as caught:
        check_outputs([tmp_path / "a.html", tmp_path / "a.md"])
    assert caught.value.slug == "output-exists"
    assert "-f" in (caught.value.fix or "")
    check_outputs([tmp_path / "a.md"], force=True)


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_of_several_files_none_is_changed_by_a_failure_of_any_write(tmp_path: Path, number: int) -> None:
    def folder(name: str) -> dict[Path, bytes]:
        (tmp_path / name).mkdir()
        (tmp_path / name / "b").write_bytes(b"old")
        return {tmp_path / name / one: one.encode() * 10_000 for one in "abc"}

    whole = folder("whole")
    with failing(tmp_path, 0, number) as disk:
        write_all(whole, force=True)
    renames = 3
    assert disk.changes > 3 * renames  # to open, to write and to sync each of three
    for nth in range(1, disk.changes + 1):
        new = folder(str(nth))
        with failing(tmp_path / str(nth), nth, number), pytest.raises(TracediffError) as caught:
            write_all(new, force=True)
        assert caught.value.slug == "output-not-writable" and os.strerror(number) in caught.value.message
        there = {path: path.read_bytes() for path in (tmp_path / str(nth)).iterdir()}
        if nth <= disk.changes - renames:
            assert there == {tmp_path / str(nth) / "b": b"old"}
        else:  # on disk they are all: some have their names, each is whole
            assert (
                there.items() <= {**new, tmp_path / str(nth) / "b": there[tmp_path / str(nth) / "b"]}.items()
            )
        write_all(new, force=True)
        assert {path: path.read_bytes() for path in (tmp_path / str(nth)).iterdir()} == new


def test_an_input_is_never_written_over(tmp_path: Path) -> None:
    export, saved = tmp_path / "a.sqlite", tmp_path / "result.json"
    export.write_bytes(b"SQLite format 3\0")
    saved.write_text('{"format_version": 1, "kind": "show"}')
    link = tmp_path / "link.sqlite"
    link.symlink_to(export)
    for words in ([export], [f"main={export}"], [tmp_path], [f"{tmp_path}/*.sqlite"], [f"{export}:ms"]):
        for output in (export, link):
            with pytest.raises(TracediffError) as caught:
                check_outputs([output], True, words)
            assert caught.value.slug == "output-is-input"
    check_outputs([saved, tmp_path / "new.html"], True, [tmp_path])  # results may lie beside the exports
    with pytest.raises(TracediffError):
        check_outputs([saved], True, [saved])
