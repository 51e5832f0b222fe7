"""What a user may give by mistake: one message with its name and a way out, an exit code, nothing written."""

from __future__ import annotations

import json
import lzma
import os
import sqlite3
import subprocess
import sys

import pytest

from fixtures.builders import BROKEN, TraceBuilder, two_steps
from tests.cli.checks import expect_error, files
from tests.serving import serving
from tests.tiny import CAPTURES, ROOT, label


def test_good_files_compare(run, good, tmp_path):
    code, out, err = run("compare", good, good, "--json", "out.json")
    assert code == 0, err
    assert "no change" in out.lower().replace("_", " ")
    assert (tmp_path / "out.json").is_file()


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
    another = serving(steps=6, schedule_us=101).write(tmp_path / "another.sqlite")
    assert run("compare", good, another, "--json", "two.json", "-q")[0] == 0
    assert "same-capture" not in (tmp_path / "two.json").read_text()


# Inputs


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("not_sqlite", "not-sqlite"),
        ("empty_file", "empty-file"),
        ("truncated", "truncated"),
        ("zero_tables", "not-nsys"),
        ("no_kernels", "no-kernels"),
        ("nvtx_only", "no-kernels"),
        ("runtime_without_kernel", "no-kernels"),
    ],
)
def test_a_file_that_cannot_be_used(name, slug, side, run, good, tmp_path):
    bad = BROKEN[name](tmp_path / "bad.sqlite")
    before = files(tmp_path)
    words = (bad, good) if side == 0 else (good, bad)
    text = expect_error(run("compare", *words, "--html", "out.html", "--json", "out.json"), slug)
    assert "bad.sqlite" in text and "fix:" in text
    assert files(tmp_path) == before  # no report, no half of one, no journal beside the export


def test_no_such_file(run, good, tmp_path):
    text = expect_error(run("compare", good, tmp_path / "nowhere.sqlite"), "not-a-file")
    assert "nowhere.sqlite" in text


def test_a_folder_without_exports(run, good, tmp_path):
    (tmp_path / "empty").mkdir()
    text = expect_error(run("compare", tmp_path / "empty", good), "empty-folder")
    assert "fix: nsys export" in text


def test_another_sqlite_database(run, good, tmp_path):
    other = tmp_path / "history.sqlite"
    with sqlite3.connect(other) as db:
        db.execute("CREATE TABLE urls (id INTEGER, url TEXT)")
    db.close()
    expect_error(run("compare", good, other), "not-nsys")


def test_damaged_inside(run, good, tmp_path):
    content = bytearray(good.read_bytes())
    content[4096:] = b"\xa5" * (len(content) - 4096)  # every page but the first
    bad = tmp_path / "bad.sqlite"
    bad.write_bytes(content)
    code, _, err = run("compare", good, bad)
    assert code == 1 and "Traceback" not in err
    assert "[truncated]" in err or "[not-nsys]" in err


def test_damaged_xz(run, good, tmp_path):
    (tmp_path / "bad.sqlite.xz").write_bytes(b"\xfd7zXZ\x00 and then nothing of the kind")
    text = expect_error(run("compare", good, tmp_path / "bad.sqlite.xz"), "bad-xz")
    assert "bad.sqlite.xz" in text


def test_a_report_without_nsys(run, good, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("NSYS", str(tmp_path / "nowhere"))
    (tmp_path / "a.nsys-rep").write_bytes(b"NVIDIA Tegra Profiler Report 2023@4@4@54")
    text = expect_error(run("compare", good, tmp_path / "a.nsys-rep"), "nsys-missing")
    assert "fix:" in text


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


@pytest.mark.parametrize(
    ("name", "slug"), [("truncated", "truncated"), ("not_sqlite", "not-sqlite"), ("zero_tables", "not-nsys")]
)
def test_a_packed_file_keeps_its_name_in_messages(name, slug, run, good, tmp_path):
    """Not the name of the scratch copy, which tells the user nothing."""
    packed = tmp_path / "mine.sqlite.xz"
    packed.write_bytes(lzma.compress(BROKEN[name](tmp_path / "x.sqlite").read_bytes()))
    text = expect_error(run("compare", good, packed), slug)
    assert "mine.sqlite.xz" in text


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
    "name", ["it's.sqlite", "a b#c%20?.sqlite", 'quo"te.sqlite', "x;--.sqlite", "\u00e9\u6838.sqlite"]
)
def test_odd_file_names(name, run, good, tmp_path):
    other = serving(steps=6).write(tmp_path / name)
    code, _, err = run("compare", f"one={good}", f"other={other}", "-q")
    assert code == 0, err


@pytest.mark.parametrize("limit", ["1MB", "3MB"])
def test_too_little_memory_is_called_by_its_name(limit, run):
    capture = CAPTURES["eager_a1"]
    code, _, err = run("compare", capture, capture, "-q", "--memory-limit", limit)
    assert code == 1 and "Traceback" not in err
    assert "memory" in err.lower() and "[bad-column]" not in err and "fix:" in err


# Steps


def unlabelled() -> TraceBuilder:
    """GPU work without any range: nothing says where a step begins, and nothing repeats."""
    trace = TraceBuilder().process(100).thread(100, 1)
    return trace.api(1, "cudaLaunchKernel", 0, 5, corr=1).kernel(1, 10, 20)


def test_no_steps(run, good, tmp_path):
    bad = unlabelled().write(tmp_path / "bad.sqlite")
    text = expect_error(run("compare", good, bad), "no-steps")
    assert "--step-regex" in text and "--whole-capture" in text


def test_one_step(run, good, tmp_path):
    trace = TraceBuilder().process(100).thread(100, 1).range(1, label(1), 0, 50)
    bad = trace.api(1, "cudaLaunchKernel", 1, 5, corr=1).kernel(1, 10, 20).write(tmp_path / "bad.sqlite")
    text = expect_error(run("compare", good, bad), "one-step")
    assert "fix:" in text


def test_a_capture_of_labels_whose_work_is_missing(run, good, tmp_path):
    trace = two_steps().without("CUPTI_ACTIVITY_KIND_RUNTIME")
    text = expect_error(run("compare", good, trace.write(tmp_path / "bad.sqlite")), "no-whole-step")
    assert "fix:" in text


def test_no_steps_in_common(run, good, tmp_path):
    trace = TraceBuilder().process(100).thread(100, 1)
    for number in range(6):
        begin = 1000 * number
        trace.range(1, label(number, ctx=2, tokens=100, gen=0), begin, begin + 90)
        trace.api(1, "cudaLaunchKernel", begin + 10, begin + 20, corr=number).kernel(
            number, begin + 30, begin + 400
        )
    text = expect_error(
        run("compare", good, trace.write(tmp_path / "ctx.sqlite"), "--json", "out.json"),
        "no-common-strata",
        4,
    )
    assert "fix:" in text and not (tmp_path / "out.json").exists()


@pytest.mark.parametrize("regex", ["(", "[a-", "(?=step)", r"(a)\1"])
def test_a_bad_regex(regex, run, good):
    text = expect_error(run("compare", good, good, "--step-regex", regex), "bad-step-regex")
    assert repr(regex)[1:-1] in text


def test_a_regex_without_a_match(run, good):
    text = expect_error(run("compare", good, good, "--step-regex", "nothing"), "no-steps")
    assert "nothing" in text


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
