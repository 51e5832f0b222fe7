"""Why a run failed, where its logs say so in words that are known: missing GPU, missing permissions."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from tracediff.errors import TracediffError

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
