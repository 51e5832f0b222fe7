"""Can this machine capture? Each check says what it saw, and the fix. Nothing is changed."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

import msgspec

from tracediff.capture import machine
from tracediff.capture.machine import Nsys, import_raw, need_nsys
from tracediff.errors import TracediffError
from tracediff.formats import children
from tracediff.formats.reports import export_report

Status = Literal["ok", "warn", "fail"]
_MARK = "tracediff doctor"
_MIN_FREE_GIB = 10.0
_TRIAL_S = 180
_ATTEMPTS = 2  # on a busy machine nsys may not reach its own agent: once is no finding
_DRIVER = Path("/proc/driver/nvidia/params")
# What a program to be captured most often has: that it is missing there says which interpreter was asked.
_EXPECTED = ("torch", "tensorrt_llm", "nvtx")

# Emits one range, and lets two threads fight for the GIL. Says which binding of NVTX carried the range.
_PROBE = f"""
import sys, threading
def spin(n):
    x = 0
    for i in range(n):
        x += i
def fight():
    threads = [threading.Thread(target=spin, args=(1500000,)) for _ in range(2)]
    for one in threads: one.start()
    for one in threads: one.join()
try:
    import nvtx, importlib.metadata
    name = "nvtx " + importlib.metadata.version("nvtx")
    with nvtx.annotate({_MARK!r}): fight()
except ImportError:
    try:
        import torch
        name = "torch.cuda.nvtx"
        torch.cuda.nvtx.range_push({_MARK!r}); fight(); torch.cuda.nvtx.range_pop()
    except Exception:
        name = "none"
        fight()
print(name)
"""


class Check(msgspec.Struct, frozen=True):
    """One thing that was looked at."""

    name: str
    status: Status
    message: str
    fix: str = ""


def examine(folder: Path, python: str = sys.executable) -> list[Check]:
    """Every check; `python` is the interpreter whose NVTX is tried, `folder` where bundles go."""
    try:
        nsys = need_nsys()
    except TracediffError as error:
        missing = Check("nsys", "fail", error.message, error.fix or "")
        return [missing, *_gpu(), *_software(python), _disk(folder)]
    trial = _trial(nsys, python) if shutil.which(python) else ()
    return [*_features(nsys), *_gpu(), *_software(python), *trial, _disk(folder)]


def can_capture(checks: list[Check]) -> bool:
    """Whether nothing failed."""
    return all(check.status != "fail" for check in checks)


def summary(checks: list[Check]) -> str:
    """What works on this machine, in a sentence."""
    failed = [check.name for check in checks if check.status == "fail"]
    if not failed:
        return "captures work here"
    if failed == ["GPU"]:
        return "only the host can be captured here, not kernels (such captures are compared by host time); comparing needs no GPU"
    return f"captures do not work here ({', '.join(failed)}); comparing does: it needs neither nsys nor a GPU"


def _features(nsys: Nsys) -> Iterator[Check]:
    features, newer = nsys.features, "a newer Nsight Systems"
    missing = sorted({"cuda", "nvtx"} - features.traces)

    def check(name: str, good: bool, message: str, otherwise: Status, lacks: str) -> Check:
        return Check(name, "ok", message) if good else Check(name, otherwise, lacks, newer)

    yield Check("nsys", "ok", f"{nsys.version} at {nsys.path}")
    yield check("traces", not missing, "cuda, nvtx", "fail", f"cannot trace {', '.join(missing)}")
    yield check("python-gil", "python-gil" in features.traces, "can be traced",
                "warn", "cannot be traced: waits for the GIL will read as host work")  # fmt: skip
    yield check("graph trace", features.graph_trace, "--cuda-graph-trace",
                "warn", "kernels of CUDA graphs cannot be seen one by one")  # fmt: skip
    kinds = ", ".join(nsys.export_kinds)
    yield check(
        "export", "sqlite" in nsys.export_kinds, kinds, "fail", f"no SQLite export ({kinds or 'none'})"
    )


def _gpu() -> Iterator[Check]:
    gpus = machine.gpus()
    if not gpus:
        lacks = "nvidia-smi is missing or lists no GPU: NVTX and Python can be traced here, kernels cannot"
        fix = "run on a machine with an NVIDIA GPU and driver (in a container: --gpus all)"
        yield Check("GPU", "fail", lacks, fix)
        return
    names = sorted({str(gpu["name"]) for gpu in gpus})
    yield Check("GPU", "ok", f"{len(gpus)} x {', '.join(names)}")
    yield Check("driver", "ok", f"{gpus[0]['driver']}")
    cuda = machine.cuda_version()
    yield Check("CUDA", "ok" if cuda else "warn", f"up to {cuda}" if cuda else "nvidia-smi tells no version")
    yield _clocks(gpus)
    yield _counters()


def _clocks(gpus: list[dict[str, Any]]) -> Check:
    said = "; ".join(f"SM {gpu['sm_clock_mhz']} of {gpu['max_sm_clock_mhz']} MHz" for gpu in gpus)
    locked = machine.clocks_locked()
    if locked:
        return Check("clocks", "ok", f"locked: {said}")
    state = "no sign that they are locked" if locked is False else "nvidia-smi tells nothing of locks"
    fix = "for steadier kernel times: nvidia-smi --lock-gpu-clocks (needs root; not done here)"
    return Check("clocks", "warn", f"{state}: {said}", fix)


def _counters() -> Check:
    """Whether GPU metrics can be sampled (`--gpu-metrics`); nothing else here needs them."""
    try:
        said = re.search(r"RmProfilingAdminOnly: (\d)", _DRIVER.read_text(encoding="ascii", errors="replace"))
    except OSError:
        said = None
    if said is None:
        unknown = "the driver does not tell who may read them; only --gpu-metrics does"
        return Check("GPU counters", "ok", unknown)
    if said[1] == "0" or os.geteuid() == 0:
        return Check("GPU counters", "ok", "may be read: --gpu-metrics can be used")
    lacks = "only administrators may read them: --gpu-metrics cannot be used (ERR_NVGPUCTRPERM)"
    fix = "load the driver with NVreg_RestrictProfilingToAdminUsers=0; captures without --gpu-metrics work"
    return Check("GPU counters", "warn", lacks, fix)


def _software(python: str) -> Iterator[Check]:
    yield Check("Python", "ok", f"{platform.python_version()} runs tracediff")
    if shutil.which(python) is None:
        yield Check(
            "--python", "fail", f"{python} is no program that can be run",
            "name the interpreter that your program runs in, for example /opt/venv/bin/python",
        )  # fmt: skip
        return
    found = machine.versions([python], os.environ)
    if not found:
        yield Check("packages", "warn", f"{python} does not answer as a Python", "--python PATH")
        return
    there = ", ".join(f"{name} {value}" for name, value in found.items())
    without = [name for name in _EXPECTED if name not in found]
    yield Check("packages", "ok", there + (f"; no {', no '.join(without)}" if without else ""))


def _trial(nsys: Nsys, python: str) -> Iterator[Check]:
    """Capture a tiny program and look for its range and its fight for the GIL."""
    traces = sorted(nsys.features.traces & {"nvtx", "python-gil"})
    try:
        ranges, gil, binding = _captured(nsys, python, traces)
    except TracediffError as error:
        yield Check("trial", "fail", error.message, error.fix or "")
        return
    except (OSError, sqlite3.DatabaseError) as error:
        yield Check("trial", "fail", f"a trial capture failed: {error}", "run nsys profile by hand")
        return
    yield Check("trial", "ok", "a Python program was profiled and exported")
    if ranges:
        yield Check("NVTX", "ok", f"a range of {binding} arrived in the export")
    elif binding == "none":
        lacks = "no binding in this Python (nvtx or torch): it was not tried"
        yield Check("NVTX", "warn", lacks, "--python PATH names the interpreter that your program runs in")
    else:
        lacks = f"a range of {binding} got lost: steps would have no labels"
        fix = "pip install 'nvtx<=0.2.10' (later ones lose every range under older nsys), or a newer nsys"
        yield Check("NVTX", "fail", lacks, fix)
    if "python-gil" in traces and gil:
        yield Check("GIL trace", "ok", f"{gil} holds and waits seen")
    elif "python-gil" in traces:
        fix = "a python that nsys knows (dynamically linked CPython)"
        yield Check("GIL trace", "warn", "two threads fought for the GIL and nsys saw nothing of it", fix)


def _captured(nsys: Nsys, python: str, traces: list[str]) -> tuple[int, int, str]:
    """Ranges and GIL events of a trial capture, and the binding of NVTX that its program used."""
    with tempfile.TemporaryDirectory(prefix="tracediff-doctor-") as name:
        folder = Path(name)
        command = [
            str(nsys.path), "profile", "-o", str(folder / "report"), "-f", "true", "-t", ",".join(traces),
            "--sample=none", "--cpuctxsw=none", python, "-c", _PROBE,
        ]  # fmt: skip
        for _ in range(_ATTEMPTS):
            done = children.run(command, _TRIAL_S)
            for raw in folder.glob("*.qdstrm"):
                import_raw(nsys.path, raw)
            if reports := sorted(folder.glob("*.nsys-rep")):
                break
        else:
            said = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["no message"]
            raise TracediffError(
                "nsys-no-report", f"nsys wrote no report: {said[0][:200]}", fix="run nsys profile by hand"
            )
        return *_seen(export_report(reports[0], folder, "report", "sqlite", timeout_s=_TRIAL_S)), _binding(
            done.stdout
        )


def _binding(said: str) -> str:
    lines = [line for line in said.splitlines() if line.startswith(("nvtx ", "torch.cuda.nvtx", "none"))]
    return lines[-1] if lines else "none"


def _seen(export: Path) -> tuple[int, int]:
    """The trial's own ranges, and events of the GIL, in an export."""
    with closing(sqlite3.connect(f"file:{export}?mode=ro", uri=True)) as db:
        if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'NVTX_EVENTS'").fetchone():
            return 0, 0
        ranges, gil = db.execute(
            "SELECT count(*) FILTER (WHERE e.eventType IN (59, 60) AND coalesce(e.text, s.value) = ?),"
            " count(*) FILTER (WHERE e.eventType = 59 AND coalesce(e.text, s.value) LIKE '% GIL%')"
            " FROM NVTX_EVENTS e LEFT JOIN StringIds s ON s.id = e.textId",
            (_MARK,),
        ).fetchone()
        return int(ranges), int(gil)


def _disk(folder: Path) -> Check:
    if not os.access(folder, os.W_OK | os.X_OK):
        return Check(
            "disk", "fail", "bundles cannot be written here", "--folder, and -o of tracediff capture"
        )
    free = shutil.disk_usage(folder).free / 2**30
    said = f"{free:.0f} GiB free where bundles go"
    if free < _MIN_FREE_GIB:
        return Check("disk", "warn", said, "free space, or -o on another disk")
    return Check("disk", "ok", said)
