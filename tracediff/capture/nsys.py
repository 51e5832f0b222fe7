"""What the user's nsys can do, read from its own help, and what it left behind when it did not import."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tracediff.errors import TracediffError
from tracediff.formats.reports import find_nsys

TRACES = ("cuda", "nvtx", "python-gil")  # osrt is left out on purpose: it writes gigabytes in seconds
_EXPORTS = ("sqlite", "hdf", "text", "json", "jsonlines", "info", "arrow", "arrowdir", "parquetdir")
_VERSION = re.compile(r"version\s+(\d{4}\.\d+(?:\.\d+)*)")
_METRICS_FLAG = re.compile(r"^\s+(--gpu-metrics-devices?)=", re.MULTILINE)
_FUNCTIONS_FLAG = re.compile(r"^\s+(--python-(?:functions-trace|nvtx-annotations))=", re.MULTILINE)
_QUOTED = re.compile(r"'([a-z0-9-]+)'")
_IMPORT_S = 1800.0
# beside nsys in NVIDIA's packages; Debian has nsys under lib/ARCHITECTURE and the importer under lib
_IMPORTERS = (
    "QdstrmImporter",
    "host-linux-*/QdstrmImporter",
    "nsight-systems*/host-linux-*/QdstrmImporter",
)


@dataclass(frozen=True)
class Features:
    """What an nsys can do, as far as a command line depends on it."""

    traces: frozenset[str] = frozenset(TRACES)
    graph_trace: bool = True
    fork_before_exec: bool = True
    gpu_metrics_flag: str | None = "--gpu-metrics-device"
    functions_flag: str | None = "--python-functions-trace"


@dataclass(frozen=True)
class Nsys:
    """An nsys that answers."""

    path: Path
    version: str | None
    features: Features
    export_kinds: tuple[str, ...] = ()


def need_nsys() -> Nsys:
    """Find nsys and read what it can do. Raises `TracediffError`: nsys-missing, nsys-broken."""
    path = find_nsys()
    if path is None:
        raise TracediffError(
            "nsys-missing",
            "nsys was not found on PATH, in $NSYS or under /opt/nvidia",
            fix="install Nsight Systems (part of the CUDA toolkit) and put nsys on PATH, or set NSYS to it",
        )
    said = _ask(path, "--version")
    match = _VERSION.search(said)
    if match is None:
        raise TracediffError(
            "nsys-broken",
            f"{path.name} --version says no version: {said.strip()[:80] or 'nothing'}",
            fix="set NSYS to the nsys binary of an Nsight Systems installation",
        )
    kinds = _ask(path, "export", "--help").partition("--type=")[2]
    exports = tuple(kind for kind in _EXPORTS if re.search(rf"\b{kind}\b", kinds))
    return Nsys(path, match[1], _features(_ask(path, "profile", "--help")), exports)


def _ask(path: Path, *words: str) -> str:
    try:
        done = subprocess.run(
            [str(path), *words], capture_output=True, text=True, timeout=60, check=False, errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TracediffError(
            "nsys-broken", f"{path.name} does not run: {error}", fix="set NSYS to an nsys that runs here"
        ) from error
    return done.stdout + done.stderr


def _features(help_text: str) -> Features:
    flags = re.split(r"^\s+(?=(?:-\w, )?--\w)", help_text, flags=re.MULTILINE)
    trace = next((part for part in flags if part.startswith("-t, --trace=")), "")
    metrics = _METRICS_FLAG.search(help_text)
    functions = _FUNCTIONS_FLAG.search(help_text)
    return Features(
        traces=frozenset(_QUOTED.findall(trace)),
        graph_trace="--cuda-graph-trace" in help_text,
        fork_before_exec="--trace-fork-before-exec" in help_text,
        gpu_metrics_flag=metrics[1] if metrics else None,
        functions_flag=functions[1] if functions else None,
    )


def import_raw(nsys: Path, raw: Path) -> Path:
    """Turn a .qdstrm, which an nsys without its host part leaves, into a .nsys-rep beside it.

    Raises `TracediffError`: nsys-import-failed.
    """
    report = raw.with_suffix(".nsys-rep")
    importer = _importer(nsys)
    said = "its importer (QdstrmImporter) is not installed"
    if importer is not None:
        try:
            done = subprocess.run(
                [str(importer), "-i", str(raw), "-o", str(report)],
                capture_output=True, text=True, timeout=_IMPORT_S, check=False, errors="replace",
            )  # fmt: skip
            said = ((done.stderr or done.stdout).strip().splitlines() or ["no message"])[-1]
        except (OSError, subprocess.TimeoutExpired) as error:
            said = str(error)
    if not report.is_file():
        raise TracediffError(
            "nsys-import-failed",
            f"nsys left {raw.name} and no report: {said}",
            fix="install the whole of Nsight Systems (host part too), or import the file where "
            "the same version is whole: QdstrmImporter -i FILE.qdstrm",
        )
    raw.unlink()
    return report


def _importer(nsys: Path) -> Path | None:
    places = (
        path for folder in list(nsys.resolve().parents)[:4] for name in _IMPORTERS for path in sorted(folder.glob(name))
    )  # fmt: skip
    return next((path for path in places if os.access(path, os.X_OK)), None)
