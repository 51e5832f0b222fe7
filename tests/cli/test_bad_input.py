"""What a user may give by mistake: one message with its name and a way out, an exit code, nothing written."""

from __future__ import annotations

import json
import lzma
import os
import sqlite3
import subprocess
import sys

import pytest

from tests.cli.checks import expect_error
from tests.serving import serving
from tests.tiny import CAPTURES, ROOT
from tracediff.cli.main import COMMANDS


@pytest.mark.parametrize("copy", ["the file", "its bytes", "packed"])
def test_one_capture_on_both_sides_is_said(copy, run, good, tmp_path):
    """Given twice by mistake it would read as no change of the programs; it is still no change."""
    other = good
    if copy != "the file":
        other = tmp_path / ("copy.sqlite" if copy == "its bytes" else "copy.sqlite.xz")
        other.write_bytes(good.read_bytes() if copy == "its bytes" else lzma.compress(good.read_bytes()))
    code, _, err = run("compare", good, other, "--json", "out.json", "-q")
    assert code == 0, err
    result = json.loads((tmp_path / "out.json").read_text())
    assert result["verdict"] == "no_change"
    assert [note["slug"] for note in result["warnings"]].count("same-capture") == 1


def test_captures_alike_are_not_one(run, good, tmp_path):
    another = serving(steps=6, schedule_us=101).write(tmp_path / "another.sqlite")
    assert run("compare", good, another, "--json", "two.json", "-q")[0] == 0
    assert "same-capture" not in (tmp_path / "two.json").read_text()


# Inputs


def test_damaged_inside(run, good, tmp_path):
    content = bytearray(good.read_bytes())
    content[4096:] = b"\xa5" * (len(content) - 4096)  # every page but the first
    bad = tmp_path / "bad.sqlite"
    bad.write_bytes(content)
    code, _, err = run("compare", good, bad)
    assert code == 1 and "Traceback" not in err
    assert "[truncated]" in err or "[not-nsys]" in err


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "is a PNG picture"),
        ("Nothing but a note: Messwerte in \u00b5s\n".encode(), "is text"),
        (b"SQLite format 3\0" + bytes(84), "is a SQLite file"),
        (b"NVR\0" + bytes(40), "is a report of Nsight Compute"),
    ],
)
def test_what_is_no_report_is_named_with_and_without_nsys(run, good, tmp_path, monkeypatch, content, what):
    monkeypatch.setenv("NSYS", str(tmp_path / "nowhere"))
    report = tmp_path / "a.nsys-rep"
    report.write_bytes(content)
    text = " ".join(expect_error(run("compare", good, report), "not-a-report").split())
    assert f"a.nsys-rep {what}" in text
    monkeypatch.setenv("NSYS", "/bin/false")
    assert f"a.nsys-rep {what}" in " ".join(expect_error(run("show", report), "not-a-report").split())


def test_an_unknown_binary_is_left_to_nsys(run, good, tmp_path, monkeypatch):
    """Another release of nsys may begin its reports with other bytes."""
    monkeypatch.setenv("NSYS", str(tmp_path / "nowhere"))
    (tmp_path / "a.nsys-rep").write_bytes(b"\0\1 of a later nsys")
    expect_error(run("compare", good, tmp_path / "a.nsys-rep"), "nsys-missing")


@pytest.mark.slow
def test_a_file_that_another_program_is_writing(run, good, tmp_path):
    """`nsys export` is not done yet: that is no damage."""
    other = serving(steps=6).write(tmp_path / "busy.sqlite")
    writer = sqlite3.connect(other, isolation_level=None)
    writer.execute("BEGIN EXCLUSIVE")
    try:
        text = expect_error(run("compare", good, other), "locked")
    finally:
        writer.execute("ROLLBACK")
        writer.close()
    assert "busy.sqlite" in text and "fix:" in text


@pytest.mark.parametrize(
    "names",
    [("it's.sqlite", "a b#c%20?.sqlite"), ('quo"te.sqlite', "x;--.sqlite"), ("\u00e9\u6838.sqlite", "a b#c%20?.sqlite")],
)  # fmt: skip
def test_odd_file_names(names, run, tmp_path):
    one, other = (serving(steps=6).write(tmp_path / name) for name in names)
    code, _, err = run("compare", f"one={one}", f"other={other}", "-q")
    assert code == 0, err


@pytest.mark.parametrize("limit", ["1MB", "3MB"])
def test_too_little_memory_is_called_by_its_name(limit, run, monkeypatch, no_cache):
    monkeypatch.setenv("TRACEDIFF_MEMORY", limit)
    capture = CAPTURES["eager_a1"]
    code, _, err = run("compare", capture, capture, "-q")
    assert code == 1 and "Traceback" not in err
    assert "memory" in err.lower() and "[bad-column]" not in err and "fix:" in err


# Steps


# The process


def test_a_process_of_its_own(good, tmp_path):
    """No handler in this test: what a shell would see."""
    command = [sys.executable, "-m", "tracediff", "compare", str(good), "nowhere.sqlite"]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert (
        done.stderr.splitlines()[0] == "error: nowhere.sqlite: there is no such file or folder [not-a-file]"
    )


@pytest.mark.parametrize(
    ("before", "after", "slug"),
    [
        (b'"start": "', b'"start": "x ', "not-rendered"),
        (b'"what": "0', b'"what": "99999 0', "not-rendered"),
        (b'"verdict_reason": "', b'"verdict_reason": "\x80', "not-a-result"),
    ],
)
def test_a_saved_result_that_does_not_fit_together(before, after, slug, run, good, tmp_path):
    assert run("compare", good, good, "--json", "saved.json", "-q")[0] == 0
    content = (tmp_path / "saved.json").read_bytes()
    assert before in content
    (tmp_path / "odd.json").write_bytes(content.replace(before, after, 1))
    expect_error(run("report", "odd.json", "--html", "odd.html", "-q"), slug)
    assert not (tmp_path / "odd.html").exists()


# Near misses


@pytest.mark.parametrize(
    ("words", "fix"),
    [
        (("god.sqlite", "good.sqlite"), "check the path"),
        (("gool.sqlite", "other.sqlite"), "did you mean good.sqlite?"),
        (("good.sqlite", "good.sqlit"), "check the path"),  # what it is like is the other side
        (("good.sqlite", "unlike.sqlite"), "check the path"),
        (("new_*.sqlite", "good.sqlite"), "check the pattern"),
    ],
)
def test_a_path_where_nothing_is_names_what_may_be_meant(words, fix, run, good):
    assert f"fix: {fix}" in expect_error(run("compare", *words), "not-a-file")


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("comapre", "compare"),
        ("cmp", "compare"),
        ("diff", "compare"),
        ("good.sqlite", "compare BASELINE CANDIDATE"),
    ],
)
def test_what_is_no_command_names_what_may_be_meant(word, meant, run, good):
    code, _, err = run(word, "other")
    assert code == 2 and f"No such command {word!r}. Did you mean tracediff {meant}?" in err


def test_every_command_is_in_the_help(run):
    _, out, _ = run("--help")
    assert [name for name in COMMANDS if f"\n  {name} " not in out] == []
