"""Can this machine capture? Each check says what it saw, and the fix. Nothing is changed."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tracediff.capture import machine
from tracediff.capture.nsys import Nsys, import_raw, need_nsys
from tracediff.errors import TracediffError
from tracediff.formats.unpack import export_sqlite

Status = Literal["ok", "warn", "fail"]
_MARK = "tracediff doctor"
_MIN_FREE_GIB = 10.0
_PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
_DRIVER = Path("/proc/driver/nvidia/params")

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


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    name: str
    status: Status
    message: str
    fix: str = ""


def examine(folder: Path, python: str = sys.executable) -> list[Check]:
    """Return every check; `python` is the interpreter whose NVTX is tried, `folder` where bundles go."""
    nsys: Nsys | None = None
    checks: list[Check] = []
    try:
        nsys = need_nsys()
    except TracediffError as error:
        checks.append(Check("nsys", "fail", error.message, error.fix or ""))
    if nsys is not None:
        checks += _features(nsys)
    checks += _gpu()
    checks += _software(python)
    if nsys is not None and shutil.which(python):
        checks += _probe(nsys, python)
    return [*checks, _disk(folder), _perf()]


def can_capture(checks: list[Check]) -> bool:
    """Return whether nothing failed."""
    return all(check.status != "fail" for check in checks)


def summary(checks: list[Check]) -> str:
    """What works on this machine, in a sentence."""
    failed = [check.name for check in checks if check.status == "fail"]
    if not failed:
        return "captures work here"
    if failed == ["GPU"]:
        return "only the host can be captured here, not kernels (compare such captures with --host-only); comparing needs no GPU"
    return f"captures do not work here ({', '.join(failed)}); comparing does: it needs neither nsys nor a GPU"


def _features(nsys: Nsys) -> Iterator[Check]:
    yield Check("nsys", "ok", f"{nsys.version} at {nsys.path}")
    features = nsys.features
    newer = "a newer Nsight Systems"
    missing = sorted({"cuda", "nvtx"} - features.traces)
    if missing:
        yield Check("traces", "fail", f"cannot trace {', '.join(missing)}", newer)
    else:
        yield Check("traces", "ok", "cuda, nvtx")
    if "python-gil" in features.traces:
        yield Check("python-gil", "ok", "can be traced")
    else:
        yield Check("python-gil", "warn", "cannot be traced: waits for the GIL will read as host work", newer)
    if features.graph_trace:
        yield Check("graph trace", "ok", "--cuda-graph-trace")
    else:
        yield Check("graph trace", "warn", "kernels of CUDA graphs cannot be seen one by one", newer)
    if "sqlite" in nsys.export_kinds:
        yield Check("export", "ok", ", ".join(nsys.export_kinds))
    else:
        yield Check("export", "fail", f"no SQLite export ({', '.join(nsys.export_kinds) or 'none'})", newer)


def _gpu() -> Iterator[Check]:
    gpus = machine.gpus()
    if not gpus:
        yield Check(
            "GPU",
            "fail",
            "nvidia-smi is missing or lists no GPU: NVTX and Python can be traced here, kernels cannot",
            "run on a machine with an NVIDIA GPU and driver (in a container: --gpus all)",
        )
        return
    names = sorted({str(gpu["name"]) for gpu in gpus})
    yield Check("GPU", "ok", f"{len(gpus)} x {', '.join(names)}")
    yield Check("driver", "ok", f"{gpus[0]['driver']}")
    cuda = machine.cuda_version()
    yield Check("CUDA", "ok" if cuda else "warn", f"up to {cuda}" if cuda else "nvidia-smi tells no version")
    yield _clocks(gpus)
    yield _counters()


def _counters() -> Check:
    """Whether GPU metrics can be sampled (`--gpu-metrics`); nothing else here needs them."""
    try:
        said = re.search(r"RmProfilingAdminOnly: (\d)", _DRIVER.read_text(encoding="ascii", errors="replace"))
    except OSError:
        said = None
    if said is None:
        return Check(
            "GPU counters", "ok", "the driver does not tell who may read them; only --gpu-metrics does"
        )
    if said[1] == "0" or os.geteuid() == 0:
        return Check("GPU counters", "ok", "may be read: --gpu-metrics can be used")
    return Check(
        "GPU counters",
        "warn",
        "only administrators may read them: --gpu-metrics cannot be used (ERR_NVGPUCTRPERM)",
        "load the driver with NVreg_RestrictProfilingToAdminUsers=0; captures without --gpu-metrics work",
    )


def _clocks(gpus: list[dict[str, Any]]) -> Check:
    said = "; ".join(f"SM {gpu['sm_clock_mhz']} of {gpu['max_sm_clock_mhz']} MHz" for gpu in gpus)
    locked = machine.clocks_locked()
    if locked:
        return Check("clocks", "ok", f"locked: {said}")
    state = "no sign that they are locked" if locked is False else "nvidia-smi tells nothing of locks"
    return Check(
        "clocks",
        "warn",
        f"{state}: {said}",
        "for steadier kernel times: nvidia-smi --lock-gpu-clocks (needs root; not done here)",
    )


def _software(python: str) -> Iterator[Check]:
    version = platform.python_version()
    yield Check("Python", "ok", f"{version} runs tracediff")
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
    told = ", ".join(f"{name} {value}" for name, value in found.items())
    without = [name for name in _TELLING if name not in found]
    yield Check("packages", "ok", told + (f"; no {', no '.join(without)}" if without else ""))


# What a program to be captured most often has: that it is missing there says which interpreter was asked.
_TELLING = ("torch", "tensorrt_llm", "nvtx")


def _probe(nsys: Nsys, python: str) -> Iterator[Check]:
    traces = [name for name in ("nvtx", "python-gil") if name in nsys.features.traces]
    with tempfile.TemporaryDirectory(prefix="tracediff-doctor-") as name:
        folder = Path(name)
        command = [
            str(nsys.path), "profile", "-o", str(folder / "report"), "-f", "true", "-t", ",".join(traces),
            "--sample=none", "--cpuctxsw=none", python, "-c", _PROBE,
        ]  # fmt: skip
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=180, check=False, errors="replace",
                stdin=subprocess.DEVNULL,
            )  # fmt: skip
            for raw in folder.glob("*.qdstrm"):
                import_raw(nsys.path, raw)
            reports = sorted(folder.glob("*.nsys-rep"))
            if not reports:
                said = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["no message"]
                yield Check(
                    "trial", "fail", f"nsys wrote no report: {said[0][:200]}", "run nsys profile by hand"
                )
                return
            export = export_sqlite(reports[0], folder / "report.sqlite", timeout_s=180)
            ranges, gil = _seen(export)
        except TracediffError as error:
            yield Check("trial", "fail", error.message, error.fix or "")
            return
        except (OSError, subprocess.TimeoutExpired, sqlite3.DatabaseError) as error:
            yield Check("trial", "fail", f"a trial capture failed: {error}", "run nsys profile by hand")
            return
    yield Check("trial", "ok", "a Python program was profiled and exported")
    binding = _binding(done.stdout)
    yield _nvtx_check(ranges, binding)
    if "python-gil" in traces:
        if gil:
            yield Check("GIL trace", "ok", f"{gil} holds and waits seen")
        else:
            fix = "a python that nsys knows (dynamically linked CPython)"
            yield Check("GIL trace", "warn", "two threads fought for the GIL and nsys saw nothing of it", fix)


def _binding(said: str) -> str:
    lines = [line for line in said.splitlines() if line.startswith(("nvtx ", "torch.cuda.nvtx", "none"))]
    return lines[-1] if lines else "none"


def _nvtx_check(ranges: int, binding: str) -> Check:
    if ranges:
        return Check("NVTX", "ok", f"a range of {binding} arrived in the export")
    if binding == "none":
        return Check(
            "NVTX",
            "warn",
            "no binding in this Python (nvtx or torch): it was not tried",
            "--python PATH names the interpreter that your program runs in",
        )
    return Check(
        "NVTX",
        "fail",
        f"a range of {binding} got lost: steps would have no labels",
        "pip install 'nvtx<=0.2.10' (later ones lose every range under older nsys), or a newer nsys",
    )


def _seen(export: Path) -> tuple[int, int]:
    database = sqlite3.connect(f"file:{export}?mode=ro", uri=True)
    try:
        tables = {row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if "NVTX_EVENTS" not in tables:
            return 0, 0
        text = "SELECT count(*) FROM NVTX_EVENTS e LEFT JOIN StringIds s ON s.id = e.textId WHERE "
        name = "coalesce(e.text, s.value)"
        (ranges,) = database.execute(f"{text} e.eventType IN (59, 60) AND {name} = ?", (_MARK,)).fetchone()
        (gil,) = database.execute(f"{text} e.eventType = 59 AND {name} LIKE '% GIL%'").fetchone()
        return int(ranges), int(gil)
    finally:
        database.close()


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


def _perf() -> Check:
    try:
        level = int(_PARANOID.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return Check(
            "perf events", "ok", "perf_event_paranoid cannot be read; captures here do not sample the CPU"
        )
    if level <= 2:
        return Check("perf events", "ok", f"perf_event_paranoid is {level}")
    return Check(
        "perf events", "ok", f"perf_event_paranoid is {level}: no CPU sampling (captures here use none)"
    )


# Why a run failed, where its logs say so in words that are known: missing GPU, missing permissions.

_TAIL = 1 << 16  # bytes of a log that are looked at: what ended a program is at its end


def _counters_denied() -> TracediffError:
    return TracediffError(
        "gpu-counters-denied",
        "the driver lets only administrators read the GPU's performance counters (ERR_NVGPUCTRPERM)",
        fix="leave --gpu-metrics out; or load the driver with NVreg_RestrictProfilingToAdminUsers=0, or run as root,"
        " in a container with CAP_SYS_ADMIN",
    )


def _metrics_unsupported() -> TracediffError:
    return TracediffError(
        "gpu-metrics-unsupported",
        "this nsys cannot sample metrics of the GPUs of this machine",
        fix="leave --gpu-metrics out; `nsys profile --gpu-metrics-device=help` lists the GPUs that it can sample",
    )


def _perf_denied() -> TracediffError:
    return TracediffError(
        "perf-events-denied",
        "the kernel does not let nsys sample the CPU (perf_event_paranoid)",
        fix="leave --sample and --cpuctxsw out of nsys_flags; or, as root, sysctl kernel.perf_event_paranoid=2",
    )


def _no_gpu() -> TracediffError:
    return TracediffError(
        "gpu-missing",
        "the program found no GPU that it can use",
        fix="run where nvidia-smi lists one (in a container: --gpus all; on Slurm: --gres=gpu:1), and look at"
        " CUDA_VISIBLE_DEVICES; `tracediff doctor` tells more",
    )


def _no_nsys() -> TracediffError:
    return TracediffError(
        "nsys-missing",
        "nsys was not found where a rank was started",
        fix="have nsys at the same path on every node, or set NSYS to one that all of them see",
    )


def _not_writable() -> TracediffError:
    return TracediffError(
        "bundle-not-writable",
        "nsys may not write into the bundle",
        fix="-o on a folder that the user of the program may write to, on every node",
    )


# The first that fits: what nsys or the driver says is closer to the cause than what a program makes of it.
_SIGNS: tuple[tuple[str, Callable[[], TracediffError]], ...] = (
    (r"ERR_NVGPUCTRPERM", _counters_denied),
    (r"Illegal --gpu-metrics-device|None of the installed GPUs are supported", _metrics_unsupported),
    (r"perf_event_paranoid|perf_event_open.*(?:not permitted|denied)", _perf_denied),
    (r"Failed to create '.*\.(?:qdstrm|nsys-rep)': Permission denied", _not_writable),
    (r"nsys: (?:command )?not found|(?:execve|exec|execvp).*nsys.*No such file", _no_nsys),
    (
        r"no CUDA-capable device|No CUDA GPUs are available|Found no NVIDIA driver|no CUDA device"
        r"|libcuda\.so\.1: cannot open|CUDA driver version is insufficient|CUDA_ERROR_NO_DEVICE|cudaErrorNoDevice",
        _no_gpu,
    ),
)


def diagnose(folder: Path) -> TracediffError | None:
    """Return what the logs of a failed run say of its cause; None where nothing known is in them."""
    said = "\n".join(_end(log) for log in sorted(folder.glob("*.log")))
    for pattern, error in _SIGNS:
        if re.search(pattern, said):
            return error()
    return None


def _end(log: Path) -> str:
    with log.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _TAIL))
        return file.read().decode("utf-8", errors="replace")
