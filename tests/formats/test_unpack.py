"""From what the user gave to a plain SQLite file: .xz, .nsys-rep through the user's nsys, damaged ones."""

from __future__ import annotations

import gzip
import lzma
import os
import sqlite3
import stat
import sys
from contextlib import closing

import pytest

from fixtures.builders import two_steps
from tracediff.errors import TracediffError
from tracediff.formats.capture import load_capture
from tracediff.formats.unpack import fingerprint, is_export, unpack


@pytest.fixture
def export(tmp_path):
    return two_steps().write(tmp_path / "trace.sqlite")


@pytest.fixture
def scratch(tmp_path):
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


def packed(export, name: str = "trace.sqlite.xz"):
    path = export.parent / name
    path.write_bytes(lzma.compress(export.read_bytes()))
    return path


@pytest.mark.parametrize(
    ("name", "yes"),
    [
        ("a.sqlite", True),
        ("a.sqlite.xz", True),
        ("a.nsys-rep", True),
        ("a.db", True),
        ("a.sqlite3", True),
        ("a.txt", False),
        ("a.sqlite-journal", False),
        ("a.sqlite.gz", False),
        ("sqlite", False),
        ("a.xz", False),
    ],
)
def test_what_can_be_opened_by_its_name(name, yes, tmp_path):
    assert is_export(tmp_path / name) is yes


def test_a_plain_file_is_taken_where_it_is(export, scratch):
    assert unpack(export, scratch) == export
    assert list(scratch.iterdir()) == []


def test_xz_is_unpacked_beside_nothing(export, scratch):
    path = packed(export)
    out = unpack(path, scratch)
    assert out.parent == scratch and out.read_bytes() == export.read_bytes()
    assert sorted(one.name for one in path.parent.iterdir()) == ["scratch", "trace.sqlite", "trace.sqlite.xz"]


def test_the_unpacked_copy_is_gone_after_loading(export, scratch):
    capture = load_capture(packed(export), scratch)
    assert capture.count("op") == 5
    capture.close()
    assert [one for one in scratch.iterdir() if one.suffix == ".sqlite"] == []


@pytest.mark.parametrize(
    "damage",
    [
        lambda b: b[: len(b) // 2],
        lambda b: b[:-1],
        lambda b: b"not xz at all" * 10,
        lambda b: b[:40] + b"\x00" * 40 + b[80:],
        lambda b: b"\xfd7zXZ\x00",
    ],
    ids=["half", "a byte short", "text", "overwritten", "only the magic"],
)
def test_damaged_xz(damage, export, scratch):
    path = packed(export)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(TracediffError) as raised:
        unpack(path, scratch)
    assert raised.value.slug == "bad-xz" and "trace.sqlite.xz" in raised.value.message
    assert list(scratch.iterdir()) == []  # nothing half unpacked


@pytest.fixture
def small_bounds(monkeypatch):
    monkeypatch.setattr("tracediff.formats.files.ALWAYS", 1 << 20)


def test_xz_that_holds_something_else_is_not_unpacked(scratch, tmp_path):
    path = tmp_path / "bomb.sqlite.xz"
    path.write_bytes(lzma.compress(bytes(4 << 20)))
    with pytest.raises(TracediffError) as raised:
        unpack(path, scratch)
    assert raised.value.slug == "not-sqlite" and list(scratch.iterdir()) == []


def test_xz_of_gigabytes_is_broken_off(scratch, tmp_path, small_bounds, monkeypatch):
    path = tmp_path / "bomb.sqlite.xz"
    path.write_bytes(lzma.compress(b"SQLite format 3\0" + bytes(4 << 20)))
    with pytest.raises(TracediffError) as raised:
        unpack(path, scratch)
    assert raised.value.slug == "unpacks-too-large" and "more than 1 MiB" in raised.value.message
    assert "TRACEDIFF_MAX_UNPACKED=" in raised.value.fix and list(scratch.iterdir()) == []
    monkeypatch.setenv("TRACEDIFF_MAX_UNPACKED", "5 MiB")
    assert unpack(path, scratch).stat().st_size == 16 + (4 << 20)
    monkeypatch.setenv("TRACEDIFF_MAX_UNPACKED", "much")
    with pytest.raises(TracediffError, match="is no size"):
        unpack(path, scratch)


def test_gzip_of_gigabytes_is_broken_off(scratch, tmp_path, small_bounds):
    path = tmp_path / "bomb.json.gz"
    event = b'{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1,"dur":1},'
    path.write_bytes(gzip.compress(b'{"schemaVersion":1,"traceEvents":[' + event * 100_000 + b"{}]}"))
    with pytest.raises(TracediffError) as raised:
        unpack(path, scratch)
    assert raised.value.slug == "unpacks-too-large" and "bomb.json.gz" in raised.value.message


def test_an_empty_xz(export, scratch):
    path = packed(export)
    path.write_bytes(b"")
    with pytest.raises(TracediffError) as raised:
        load_capture(path, scratch)
    assert raised.value.slug == "empty-file" and "trace.sqlite.xz is empty (0 bytes)" in raised.value.message


def test_two_packed_files_of_one_name_do_not_meet(tmp_path, scratch):
    outs = set()
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        trace = two_steps() if folder == "one" else two_steps().api(101, "cudaFree", 3000, 3010)
        outs.add(unpack(packed(trace.write(tmp_path / folder / "trace.sqlite")), scratch))
    assert len(outs) == 2


def test_what_is_not_there(tmp_path, scratch):
    for name in ("no.sqlite", "no.sqlite.xz", "no.nsys-rep"):
        with pytest.raises(TracediffError) as raised:
            unpack(tmp_path / name, scratch)
        assert raised.value.slug == "not-a-file"


# .nsys-rep

FAKE = """#!{python}
import pathlib, shutil, sys
pathlib.Path({log!r}).write_text(repr(sys.argv[1:]))
sys.stderr.write({message!r})
if {copy!r}:
    shutil.copy({source!r}, sys.argv[sys.argv.index("-o") + 1])
sys.exit({code})
"""


@pytest.fixture
def nsys(tmp_path, monkeypatch, export):
    """Put an nsys on PATH that exports the sample trace, or fails with a code and a message."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("NSYS", raising=False)

    def make(code: int = 0, message: str = "", copy: bool = True, name: str = "nsys"):
        path = folder / name
        path.write_text(
            FAKE.format(
                python=sys.executable,
                log=str(tmp_path / "called"),
                message=message,
                copy=copy,
                source=str(export),
                code=code,
            )
        )
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    return make


@pytest.fixture
def report(tmp_path):
    path = tmp_path / "it's a report.nsys-rep"
    path.write_bytes(b"NVIDIA Tegra Profiler Report 2023@4@4@54 and what only nsys reads")
    return path


def test_a_report_without_nsys(report, scratch, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("NSYS", raising=False)
    monkeypatch.setattr("tracediff.formats.unpack.Path.is_dir", lambda self: False)  # none in /opt either
    with pytest.raises(TracediffError) as raised:
        unpack(report, scratch)
    assert raised.value.slug == "nsys-missing"
    assert "PATH" in raised.value.fix and "NSYS" in raised.value.fix


def test_a_report_is_exported_by_nsys_on_path(nsys, report, scratch, tmp_path, export):
    nsys()
    out = unpack(report, scratch)
    assert out.parent == scratch and out.read_bytes() == export.read_bytes()
    called = (tmp_path / "called").read_text()
    assert called.startswith("['export', '--type', 'sqlite'") and repr(str(report))[1:-1] in called
    assert "json" not in called  # its help does not name the option: nsys 2023 refuses it
    capture = load_capture(report, scratch)
    assert (capture.name, capture.count("op")) == (report.name, 5)
    capture.close()


def test_payloads_as_json_are_asked_of_an_nsys_that_knows_them(nsys, report, scratch, tmp_path):
    nsys(message="  --include-json=\n     Possible values are 'true' or 'false'.\n")
    unpack(report, scratch)
    assert "'--include-json=true'" in (tmp_path / "called").read_text()


def test_nsys_named_by_the_environment_comes_first(nsys, report, scratch, monkeypatch):
    nsys(code=1, message="the one on PATH\n", copy=False)
    monkeypatch.setenv("NSYS", str(nsys(name="other")))
    assert unpack(report, scratch).is_file()


def test_nsys_named_by_the_environment_and_not_there(nsys, report, scratch, monkeypatch, tmp_path):
    nsys()
    monkeypatch.setenv("NSYS", str(tmp_path / "nowhere"))
    with pytest.raises(TracediffError) as raised:
        unpack(report, scratch)
    assert raised.value.slug == "nsys-missing"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"code": 1, "message": "line one\nThe report is newer than this nsys.\n", "copy": False},
            "newer than this nsys",
        ),
        ({"code": 0, "message": "", "copy": False}, "no message"),  # said it succeeded and wrote nothing
        ({"code": 3, "message": "half done", "copy": True}, "half done"),
    ],
)
def test_an_export_that_fails(options, words, nsys, report, scratch):
    nsys(**options)
    with pytest.raises(TracediffError) as raised:
        unpack(report, scratch)
    assert raised.value.slug == "nsys-export-failed" and words in raised.value.message


@pytest.mark.skipif(os.geteuid() == 0, reason="root may execute and read everything")
def test_an_nsys_that_may_not_be_run(nsys, report, scratch):
    nsys().chmod(0o644)
    with pytest.raises(TracediffError) as raised:
        unpack(report, scratch)
    assert raised.value.slug == "nsys-missing"


# Identity


def test_fingerprints_tell_contents_apart(export, tmp_path):
    same = tmp_path / "copy.sqlite"
    same.write_bytes(export.read_bytes())
    assert fingerprint(export) == fingerprint(same)
    content = bytearray(export.read_bytes())
    content[-1] ^= 1
    same.write_bytes(content)
    assert fingerprint(export) != fingerprint(same)


def test_fingerprints_of_large_files_see_both_ends_and_the_size(tmp_path):
    block = bytes(range(256)) * 256  # 64 KiB
    path = tmp_path / "large"
    path.write_bytes(block * 100)
    whole = fingerprint(path)
    for at in (0, 100 * len(block) - 1):
        content = bytearray(block * 100)
        content[at] ^= 1
        path.write_bytes(content)
        assert fingerprint(path) != whole
    path.write_bytes(block * 100 + b"\x00")
    assert fingerprint(path) != whole


def test_an_export_in_wal_mode_is_refused_with_the_way_out_of_it(export, scratch):
    with closing(sqlite3.connect(export)) as db:
        db.execute("PRAGMA journal_mode = WAL")
    before = export.read_bytes(), sorted(one.name for one in export.parent.iterdir())
    with pytest.raises(TracediffError, match="PRAGMA journal_mode = DELETE") as raised:
        load_capture(export, scratch)
    assert raised.value.slug == "wal-mode" and list(scratch.iterdir()) == []
    assert (export.read_bytes(), sorted(one.name for one in export.parent.iterdir())) == before
    with closing(sqlite3.connect(export)) as db:
        db.execute("PRAGMA journal_mode = DELETE")
    capture = load_capture(export, scratch)
    assert capture.count("op") == 5
    capture.close()
