"""Exports read in processes: the same bytes, the same errors, nothing left behind, and how many are read at once."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.tiny import ROOT, one_gap
from tracediff.errors import TracediffError
from tracediff.execution import executors
from tracediff.execution.cache import pack
from tracediff.execution.executors import workers
from tracediff.execution.run import reduce_file, reduce_sides
from tracediff.execution.sides import Reading
from tracediff.formats.inputs import resolve


@pytest.fixture
def paths(tmp_path):
    folder = tmp_path / "runs"
    folder.mkdir()
    return [one_gap().write(folder / f"run{number}.sqlite") for number in range(3)]


@pytest.fixture
def in_processes(monkeypatch, tmp_path):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    monkeypatch.setattr(executors, "_WORTH_PROCESSES", 0)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    return scratch


@pytest.mark.slow
def test_sides_are_the_same_in_processes_and_in_threads(paths, monkeypatch, request):
    side = resolve(str(paths[0].parent))
    here = reduce_sides([side, side], Reading(keep=True))
    request.getfixturevalue("in_processes")
    there = reduce_sides([side, side], Reading(keep=True))
    assert [side.label for side in there] == [side.label for side in here]
    packed = [[pack(part) for one in found for part in one.parts] for found in (here, there)]
    assert packed[0] == packed[1]


def test_processes_end_with_the_block_and_leave_nothing(paths, in_processes):
    with workers(paths, Reading()) as using:
        found = using.executor.submit(reduce_file, paths[0], Reading()).result()
        assert multiprocessing.active_children()
        assert list(in_processes.iterdir())
    assert pack(found) == pack(reduce_file(paths[0], Reading()))
    assert not multiprocessing.active_children()
    assert not list(in_processes.iterdir())


def test_an_error_arrives_as_it_was_raised(paths, in_processes):
    paths[0].write_bytes(b"SQLite format 3\0 and no more")
    with pytest.raises(TracediffError) as here:
        reduce_file(paths[0], Reading())
    with workers(paths, Reading()) as using, pytest.raises(TracediffError) as there:
        using.executor.submit(reduce_file, paths[0], Reading()).result()
    assert vars(there.value) == vars(here.value) and str(there.value) == str(here.value)


@pytest.mark.slow
def test_an_export_that_ends_every_process_is_named_and_the_others_are_read(
    paths, in_processes, tmp_path, monkeypatch
):
    nsys = tmp_path / "nsys"
    nsys.write_text("#!/bin/sh\nkill -9 $PPID\n")
    nsys.chmod(0o755)
    monkeypatch.setenv("NSYS", str(nsys))
    (paths[1].parent / "killer.nsys-rep").write_bytes(b"NVIDIA Tegra Profiler Report")
    side = resolve(str(paths[0].parent))
    with pytest.raises(TracediffError, match=r"killer\.nsys-rep: the process .* memory") as raised:
        reduce_sides([side], Reading())
    assert raised.value.slug == "worker-died"
    (found,) = reduce_sides([side], Reading(skip_unreadable=True))
    assert [(one.name, one.slug) for one in found.left_out] == [("killer.nsys-rep", "worker-died")]
    assert [run.name for run in found.runs] == ["run0.sqlite", "run1.sqlite", "run2.sqlite"]
    assert not multiprocessing.active_children() and not list(in_processes.iterdir())


SCRIPT = """
import tracediff.execution.executors as executors
executors._WORTH_PROCESSES = 0
from tracediff.execution.sides import Reading
from tracediff.execution.run import reduce_sides
from tracediff.formats.inputs import resolve
print(len(reduce_sides([resolve(SIDE)], Reading())[0].runs))
"""


@pytest.mark.slow
def test_a_script_without_a_guard_is_not_run_again_nor_what_lies_beside_it(paths, tmp_path):
    """multiprocessing would import the script in each process, and its own modules from the current folder."""
    script = tmp_path / "script.py"
    script.write_text(f"SIDE = {str(paths[0].parent)!r}\n{SCRIPT}")
    here = tmp_path / "here"
    here.mkdir()
    (here / "multiprocessing.py").write_text("raise SystemExit('imported from the current folder')")
    done = subprocess.run([sys.executable, str(script)], cwd=here, capture_output=True, text=True, check=False, timeout=120,
                          env={**os.environ, "PYTHONPATH": str(ROOT)})  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "3\n", "")


# Ends some processes at their start, by their number, while the one that asked is still starting the next.
KILLER = """
import os, signal, sys
if "--multiprocessing-fork" in sys.orig_argv:
    numbers = iter(range(100))
    while os.path.exists(folder := f"{os.environ['STARTED']}/{next(numbers)}"):
        pass
    os.mkdir(folder)
    if os.environ["KILLED"] in ("all", os.path.basename(folder)):
        os.kill(os.getpid(), signal.SIGKILL)
"""
SLOWLY = """
import time
from multiprocessing.context import SpawnProcess
start = SpawnProcess.start
SpawnProcess.start = lambda process: (start(process), time.sleep(1))
"""


@pytest.mark.parametrize("killed", ["0", "1", "all"])
@pytest.mark.slow
def test_processes_killed_at_their_start_are_replaced_or_named(killed, paths, tmp_path):
    for name in ("started", "site", "scratch"):
        (tmp_path / name).mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(KILLER)
    script = tmp_path / "script.py"
    script.write_text(f"SIDE = {str(paths[0].parent)!r}\n{SLOWLY}{SCRIPT}")
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False, timeout=120,
        env={**os.environ, "PYTHONPATH": f"{tmp_path / 'site'}:{ROOT}", "TMPDIR": str(tmp_path / "scratch"),
             "STARTED": str(tmp_path / "started"), "KILLED": killed},
    )  # fmt: skip
    assert (tmp_path / "started" / "2").exists()  # one more than are read at once
    assert not list((tmp_path / "scratch").iterdir())
    if killed == "all":
        assert done.returncode == 1 and "worker-died" in done.stderr and "run0.sqlite" in done.stderr
    else:
        assert (done.returncode, done.stdout, done.stderr) == (0, "3\n", "")


@pytest.mark.parametrize(
    ("mib", "reading", "at_once", "threads"),
    [
        ([1, 1], Reading(), 1, True),  # one database for both
        ([1] * 6, Reading(), 3, True),
        ([1], Reading(), 1, True),
        ([4, 4], Reading(), 2, True),
        ([100, 100], Reading(), 2, True),
        ([300, 300], Reading(), 2, False),  # more than half a GiB together
        ([100, 100], Reading(memory_limit="1GiB"), 1, True),
        ([1000, 1000], Reading(), 1, True),  # together more than is asked of any machine
        ([1] * 40, Reading(), 4, False),
    ],
)
def test_how_many_exports_are_read_at_once_and_where(mib, reading, at_once, threads, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setattr(os, "sysconf", lambda name: 2**13 if name == "SC_PAGE_SIZE" else 2**20)
    files = [tmp_path / f"{number}.sqlite" for number in range(len(mib))]
    for path, size in zip(files, mib, strict=True):
        path.touch()
        os.truncate(path, size * 2**20)
    with workers(files, reading) as using:
        assert using.at_once == at_once
        assert (type(using.executor) is ThreadPoolExecutor) == threads
