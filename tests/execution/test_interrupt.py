"""A comparison that is broken off ends at once, with the processes that it started, and leaves nothing behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tests.tiny import ROOT, one_gap
from tracediff.formats import files

# The command line with a reduction that takes longer than anybody waits.
IN_THREADS = """
import sys, time
import tracediff.accounting.reduce as reduce
reduce.reduce_capture = lambda *args, **options: time.sleep(300)
from tracediff.cli.main import main
sys.argv = ["tracediff", *sys.argv[1:]]
main()
"""
# As for large exports: what an nsys does for a worker takes so long.
IN_PROCESSES = """
import sys
import tracediff.execution.executors as executors
executors._WORTH_PROCESSES = executors._TINY = 0
from tracediff.cli.main import main
sys.argv = ["tracediff", *sys.argv[1:]]
main()
"""
NSYS = """#!/bin/sh
echo $$ > "$STARTED/$$"; echo $PPID > "$STARTED/$PPID"
sleep 300
"""

both_signals = pytest.mark.parametrize(
    ("number", "status", "said"), [(signal.SIGINT, 130, "aborted"), (signal.SIGTERM, 143, "terminated")]
)


def broken_off(code, words, number, folder, until, **env) -> tuple[int, str]:
    """Exit status and what is said, of a command that gets a signal when `until` holds files."""
    scratch = folder / "scratch"
    scratch.mkdir()
    child = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, words)], stderr=subprocess.PIPE, text=True,
        env={**os.environ, "TMPDIR": str(scratch), "PYTHONPATH": str(ROOT), **env},
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 60
        while not until.exists() or not list(until.iterdir()):
            assert time.monotonic() < deadline and child.poll() is None, child.poll()
            time.sleep(0.05)
        time.sleep(0.5)
        child.send_signal(number)
        _, errors = child.communicate(timeout=60)  # far less than the 300 s that the work would take
    finally:
        child.kill()
    assert not list(scratch.iterdir())
    return child.returncode, errors.strip()


@both_signals
def test_in_threads(number, status, said, tmp_path):
    out = tmp_path / "out.json"
    path = one_gap().write(tmp_path / "trace.sqlite")
    words = ["compare", path, path, "--json", out]
    assert broken_off(IN_THREADS, words, number, tmp_path, tmp_path / "scratch") == (status, said)
    assert not out.exists()


@pytest.fixture
def slow_reports(tmp_path):
    """Two reports, and what makes a worker wait for an nsys that notes its process and the worker's in a folder."""
    nsys = tmp_path / "nsys"
    nsys.write_text(NSYS)
    nsys.chmod(0o755)
    (tmp_path / "started").mkdir()
    reports = [tmp_path / "one.nsys-rep", tmp_path / "other.nsys-rep"]
    for report in reports:
        report.write_bytes(b"NVIDIA Tegra Profiler Report" + bytes(100))
    return reports, {"NSYS": str(nsys), "STARTED": str(tmp_path / "started")}


def _ended(pid: int) -> bool:
    """Whether a process is gone, or a zombie that nobody has waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def all_ended(started: Path) -> bool:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if all(_ended(int(path.name)) for path in started.iterdir()):
            return True
        time.sleep(0.05)
    return False


@both_signals
def test_in_processes(number, status, said, tmp_path, slow_reports):
    reports, env = slow_reports
    started = tmp_path / "started"
    words = ["compare", *reports, "--json", tmp_path / "out.json"]
    assert broken_off(IN_PROCESSES, words, number, tmp_path, started, **env) == (status, said)
    assert all_ended(started)


def test_processes_of_a_killed_command_end(tmp_path, slow_reports):
    reports, env = slow_reports
    started = tmp_path / "started"
    child = subprocess.Popen(
        [sys.executable, "-c", IN_PROCESSES, "compare", *map(str, reports)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path), **env},
    )
    deadline = time.monotonic() + 60
    while not list(started.iterdir()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    child.kill()
    child.wait()
    assert all_ended(started)


@both_signals
def test_exports_in_threads_end_with_what_they_started(number, status, said, tmp_path, slow_reports):
    """nsys is a script that starts a program: both end. A report is exported in a thread of the command itself."""
    reports, env = slow_reports
    started = tmp_path / "started"
    Path(env["NSYS"]).write_text(
        '#!/bin/sh\necho $$ > "$STARTED/$$"\nsleep 300 & echo $! > "$STARTED/$!"\nwait\n'
    )
    words = ["compare", *reports, "--json", tmp_path / "out.json"]
    code = "from tracediff.cli.main import main\nimport sys\nsys.argv = ['tracediff', *sys.argv[1:]]\nmain()"
    assert broken_off(code, words, number, tmp_path, started, **env) == (status, said)
    assert len(list(started.iterdir())) >= 2 and all_ended(started)
    assert not (tmp_path / "out.json").exists()


def test_a_folder_into_which_a_thread_still_writes_is_removed_at_the_end(monkeypatch, tmp_path):
    """What removes it fails once, as where a file is made meanwhile; the end of the process tries again."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(files, "_open", set())  # those of other tests stay
    remove, busy = shutil.rmtree, [True]
    monkeypatch.setattr(shutil, "rmtree", lambda *args, **more: busy.pop() if busy else remove(*args, **more))
    with files.scratch() as folder:
        pass
    assert folder.exists()
    files.discard_all()
    assert not folder.exists()
