"""Exports read on a real Dask cluster of two worker processes: the same bytes, the same errors, and those of a cluster."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import time

import pytest

from tests.comparison.test_ranks import ranks
from tests.tiny import ROOT, one_gap
from tracediff.errors import TracediffError
from tracediff.execution import executors
from tracediff.execution.cache import pack
from tracediff.execution.run import reduce_file, reduce_sides
from tracediff.execution.sides import Reading
from tracediff.formats.inputs import resolve

distributed = pytest.importorskip("distributed")
dask = pytest.importorskip("dask")

# An nsys that "exports" by copying what follows the mark of a report; the first time it is called, and always while `always` exists, it kills the worker.
# Called as: nsys export --type sqlite --force-overwrite true -o OUT IN
NSYS = """#!/bin/sh
here=$(dirname "$0")
if [ ! -e "$here/died" ] || [ -e "$here/always" ]; then echo died >> "$here/died"; kill -9 $PPID; sleep 5; exit 1; fi
tail -c +29 "$8" > "$7"
"""


@pytest.fixture(scope="module")
def nsys(tmp_path_factory):
    path = tmp_path_factory.mktemp("nsys") / "nsys"
    path.write_text(NSYS)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture(scope="module")
def cluster(nsys):
    before = dict(os.environ)  # all of it: Dask leaves OPENBLAS_NUM_THREADS=1 and the like behind
    os.environ.update(NSYS=str(nsys), PYTHONPATH=str(ROOT))
    try:
        with (
            dask.config.set({"distributed.scheduler.allowed-failures": 1}),
            distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as started,
        ):  # fmt: skip
            yield started
    finally:
        os.environ.clear()
        os.environ.update(before)


def tracediff(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tracediff", *words], capture_output=True, text=True, check=False, timeout=300,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TRACEDIFF_CACHE": "off", **env}, cwd=ROOT,
    )  # fmt: skip


@pytest.mark.slow
def test_here_in_processes_and_on_a_cluster_the_result_is_the_same_byte_for_byte(cluster, tmp_path):
    for name, late in (("one", 30), ("other", 60)):
        for run in range(2):
            (tmp_path / name / f"run{run}").mkdir(parents=True)
            for rank in range(2):
                ranks(1, late_us=late + rank + run).write(
                    tmp_path / name / f"run{run}" / f"r_rank{rank}.sqlite"
                )
    pair = [str(tmp_path / name) for name in ("one", "other")]
    (tmp_path / "force.py").write_text("import tracediff.execution.executors as executors\nexecutors._WORTH_PROCESSES = 0\nfrom tracediff.cli.main import main\nmain()\n")  # fmt: skip
    written = []
    for name, how in (
        ("threads", {}), ("processes", {}), ("cluster", {"TRACEDIFF_SCHEDULER": cluster.scheduler_address})
    ):  # fmt: skip
        out = tmp_path / f"{name}.json"
        words = ["compare", *pair, "--json", str(out), "-q"]
        if name == "processes":
            done = subprocess.run(
                [sys.executable, str(tmp_path / "force.py"), *words], capture_output=True, text=True, check=False,
                env={**os.environ, "PYTHONPATH": str(ROOT), "TRACEDIFF_CACHE": "off"},
            )  # fmt: skip
        else:
            done = tracediff(*words, **how)
        assert done.returncode == 0
        assert done.stderr == ""
        written.append(out.read_bytes())
    assert written[0] == written[1] == written[2]
    assert b"127.0.0.1" not in written[2] and b"scheduler" not in written[2]


@pytest.mark.slow
def test_both_workers_are_used_and_the_cache_is_filled_from_what_they_send(cluster, tmp_path, monkeypatch):
    monkeypatch.setenv("TRACEDIFF_CACHE", str(tmp_path / "cache"))
    (tmp_path / "side").mkdir()
    for rank in range(6):
        ranks(1).write(tmp_path / "side" / f"r_rank{rank}.sqlite")
    reading = Reading(cached=True, scheduler=cluster.scheduler_address)
    there = reduce_sides([resolve(str(tmp_path / "side"))], reading)[0]
    assert {tuple(sorted(one)) for one in cluster.scheduler.workers} and len(cluster.scheduler.workers) == 2
    here = [reduce_file(tmp_path / "side" / f"r_rank{rank}.sqlite", Reading()) for rank in range(6)]
    assert [pack(one) for one in there.parts] == [pack(one) for one in here]
    again = reduce_sides([resolve(str(tmp_path / "side"))], Reading(cached=True))[0]
    assert [pack(one) for one in again.parts] == [pack(one) for one in here]
    assert len(list((tmp_path / "cache").iterdir())) == 6


@pytest.mark.slow
def test_a_bad_export_is_named_as_here(cluster, tmp_path):
    (tmp_path / "side").mkdir()
    for rank in range(3):
        ranks(1).write(tmp_path / "side" / f"r_rank{rank}.sqlite")
    (tmp_path / "side" / "r_rank1.sqlite").write_bytes(b"SQLite format 3\0 and no more")
    said = []
    for scheduler in (None, cluster.scheduler_address):
        with pytest.raises(TracediffError) as raised:
            reduce_sides([resolve(str(tmp_path / "side"))], Reading(scheduler=scheduler))
        said.append((raised.value.slug, str(raised.value)))
    assert said[0] == said[1] and "r_rank1.sqlite" in said[0][1]
    side = reduce_sides([resolve(str(tmp_path / "side"))], Reading(scheduler=cluster.scheduler_address, skip_unreadable=True))[0]  # fmt: skip
    assert len(side.parts) == 2 and side.left_out[0].name == "r_rank1.sqlite"


def test_a_file_that_workers_do_not_see(cluster, tmp_path, monkeypatch):
    path = one_gap().write(tmp_path / "run.sqlite")
    monkeypatch.setattr(
        executors.Path, "resolve", lambda self, strict=False: self.parent / "elsewhere" / self.name
    )
    with pytest.raises(TracediffError, match=r"elsewhere/run\.sqlite: there is no such file") as raised:
        reduce_sides([resolve(str(path))], Reading(scheduler=cluster.scheduler_address))
    assert raised.value.slug == "not-a-file"


@pytest.mark.slow
def test_a_worker_that_dies_is_replaced_and_the_export_read_by_another(cluster, nsys, tmp_path):
    path = tmp_path / "run.nsys-rep"
    path.write_bytes(b"NVIDIA Tegra Profiler Report" + one_gap().write(tmp_path / "run.sqlite").read_bytes())
    reading = Reading(scheduler=cluster.scheduler_address)
    (side,) = reduce_sides([resolve(str(path))], reading)
    assert len(side.parts[0].periods) == 1
    assert nsys.with_name("died").read_text().splitlines() == ["died"]
    nsys.with_name("always").touch()
    try:
        with pytest.raises(TracediffError, match=r"run\.nsys-rep: 2 workers") as raised:
            reduce_sides([resolve(str(path))], reading)
    finally:
        nsys.with_name("always").unlink()
    assert raised.value.slug == "worker-died"


@pytest.mark.slow
def test_workers_of_other_code_are_refused(tmp_path):
    """The package in another folder, with one statement more."""
    shutil.copytree(
        ROOT / "tracediff", tmp_path / "other" / "tracediff", ignore=shutil.ignore_patterns("__pycache__")
    )
    changed = tmp_path / "other" / "tracediff" / "accounting" / "sweep.py"
    changed.write_text(changed.read_text() + "\nCHANGED = True\n")
    path = one_gap().write(tmp_path / "run.sqlite")
    file = tmp_path / "scheduler.json"
    commands = [
        (ROOT, ["scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(file)]),
        (tmp_path / "other", ["worker", "--scheduler-file", str(file), "--nthreads", "1", "--no-nanny", "--no-dashboard"]),
    ]  # fmt: skip
    children = []
    try:
        for where, words in commands:
            children.append(subprocess.Popen([sys.executable, "-P", "-m", "dask", *words], cwd=tmp_path, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": str(where)}))  # fmt: skip
            deadline = time.monotonic() + 60
            while not file.exists():
                assert time.monotonic() < deadline
                time.sleep(0.1)
        with distributed.Client(scheduler_file=str(file), set_as_default=False) as client:
            client.wait_for_workers(1, timeout=60)
        done = tracediff("show", str(path), TRACEDIFF_SCHEDULER=str(file))
    finally:
        for child in reversed(children):
            child.kill()
            child.wait()
    assert done.returncode == 1
    assert "[scheduler-other-version]" in done.stderr and "same tracediff-gpu" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "no-such-file.json", "nonsense://x"])
def test_no_cluster_there(address, tmp_path, monkeypatch):
    monkeypatch.setattr(executors, "_CONNECT_S", 0.3)
    path = one_gap().write(tmp_path / "run.sqlite")
    with pytest.raises(TracediffError) as raised:
        reduce_sides([resolve(str(path))], Reading(scheduler=address))
    assert raised.value.slug == "scheduler-unreachable" and address in raised.value.message


def test_a_cluster_without_workers(tmp_path):
    path = one_gap().write(tmp_path / "run.sqlite")
    with (
        distributed.LocalCluster(n_workers=0, processes=True, dashboard_address=":0") as empty,
        pytest.raises(TracediffError) as raised,
    ):
        reduce_sides([resolve(str(path))], Reading(scheduler=empty.scheduler_address))
    assert raised.value.slug == "scheduler-no-workers"


def test_dask_is_not_needed_without_it(tmp_path, monkeypatch):
    path = one_gap().write(tmp_path / "run.sqlite")
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert reduce_sides([resolve(str(path))], Reading())
    with pytest.raises(TracediffError) as raised:
        reduce_sides([resolve(str(path))], Reading(scheduler="tcp://127.0.0.1:9"))
    assert raised.value.slug == "dask-missing" and "tracediff-gpu[dask]" in raised.value.fix
