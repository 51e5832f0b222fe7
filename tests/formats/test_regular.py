"""Files that are read as a whole: no pipe, no device, a bounded size, bounded nesting."""

from __future__ import annotations

import errno
import os

import pytest

from tracediff.errors import TracediffError
from tracediff.formats.bundle import read_manifest
from tracediff.formats.files import MOST_TEXT, open_regular, read_regular, read_toml


def test_a_file_is_read_up_to_its_bound(tmp_path):
    (tmp_path / "a").write_bytes(b"1234")
    assert read_regular(tmp_path / "a", 4) == b"1234"
    with pytest.raises(OSError, match="larger than 0 MiB") as caught:
        read_regular(tmp_path / "a", 3)
    assert caught.value.errno == errno.EFBIG


def test_what_is_no_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="is a pipe"):
        open_regular(tmp_path / "pipe")
    with pytest.raises(OSError, match="is a device"):
        open_regular("/dev/zero")
    with pytest.raises(IsADirectoryError):
        open_regular(tmp_path)
    with pytest.raises(FileNotFoundError):
        open_regular(tmp_path / "nothing")


@pytest.mark.parametrize(
    "text",
    [
        b"a = " + b"[" * 100_000,
        b"a = " + b"{a=" * 100_000,
        b"a" + b".a" * 100_000 + b" = 1",
        b"a" + b' . "\\"b" ' * 100 + b" = 1",
        b"[a" + b".'b'" * 100 + b"]",
        b"a = '\xff'",
        b"a = ",
    ],
    ids=["lists", "tables", "dotted", "quoted", "header", "bytes", "cut"],
)
def test_what_is_no_toml_or_too_deep_is_said_soon(tmp_path, text):
    (tmp_path / "a.toml").write_bytes(text)
    with pytest.raises(ValueError, match=r"\w"):
        read_toml(tmp_path / "a.toml")


def test_toml_as_people_write_it(tmp_path):
    text = "[tool.tracediff.x]\nfail-on = ['step:+3%']\nnote = '" + "." * 1000 + " a.b.c'\n"
    (tmp_path / "a.toml").write_text(text)
    assert read_toml(tmp_path / "a.toml")["tool"]["tracediff"]["x"]["fail-on"] == ["step:+3%"]
    (tmp_path / "a.toml").write_text("#" * (MOST_TEXT + 1))
    with pytest.raises(OSError, match="larger than 1 MiB"):
        read_toml(tmp_path / "a.toml")


def test_toml_as_editors_on_windows_write_it(tmp_path):
    (tmp_path / "a.toml").write_bytes(b'\xef\xbb\xbffail-on = ["step:+3%"]\r\n[[waiver]]\r\nreason = "x"\r\n')
    assert read_toml(tmp_path / "a.toml") == {"fail-on": ["step:+3%"], "waiver": [{"reason": "x"}]}


@pytest.mark.parametrize(
    "run", ['"kpi": 1.5', '"exports": [["a"]]', '"command": ' + "[" * 100_000], ids=["kpi", "exports", "deep"]
)
def test_a_manifest_of_another_shape(tmp_path, run):
    head = '{"tracediff_bundle": 1, "runs": [{"side": "baseline", "kind": "profiled", "folder": "a", "status": "done", '
    (tmp_path / "manifest.json").write_text(f"{head}{run}}}]}}")
    with pytest.raises(TracediffError) as caught:
        read_manifest(tmp_path)
    assert caught.value.slug == "bundle-manifest"
