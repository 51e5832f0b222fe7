"""The user's own nsys: where it is, and its `export`."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tracediff.errors import TracediffError

_INSTALL = "install Nsight Systems and put nsys on PATH, or set NSYS to it; or give a .sqlite export"


def find_nsys() -> Path | None:
    """$NSYS, then PATH, then the newest of /opt/nvidia/nsight-systems*; None where there is none."""
    named = os.environ.get("NSYS")
    if named:
        return Path(named) if os.access(named, os.X_OK) else None
    on_path = shutil.which("nsys")
    if on_path:
        return Path(on_path)
    installed = (
        sorted(Path("/opt/nvidia").glob("nsight-systems*/**/bin/nsys"))
        if Path("/opt/nvidia").is_dir()
        else []
    )
    return installed[-1] if installed else None


def export_sqlite(report: Path, out: Path, *, timeout_s: float = 1800) -> Path:
    """Export a .nsys-rep to SQLite at `out`, with NVTX payloads as JSON (bytes of NCCL's calls) where this nsys writes them.

    Raises `TracediffError`: nsys-missing, nsys-export-failed.
    """
    nsys = find_nsys()
    if nsys is None:
        raise TracediffError("nsys-missing", f"{report.name} needs nsys to be exported", fix=_INSTALL)
    command = [
        str(nsys),
        "export",
        "--type",
        "sqlite",
        "--force-overwrite",
        "true",
        *(["--include-json=true"] if _writes_json(nsys) else []),
        "-o",
        str(out),
        str(report),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TracediffError("nsys-export-failed", f"nsys export of {report.name} failed: {error}") from error
    if done.returncode != 0 or not out.is_file():
        tail = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["no message"]
        raise TracediffError(
            "nsys-export-failed",
            f"nsys export of {report.name} failed: {tail[0]}",
            fix="export it with the nsys version that recorded it (an older nsys cannot read newer reports)",
        )
    return out


def _writes_json(nsys: Path) -> bool:
    """Whether its help names the option; an nsys of 2023 has none and refuses it."""
    try:
        done = subprocess.run(
            [str(nsys), "export", "--help"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return "--include-json" in done.stdout + done.stderr
