"""A whole capture bundle for sharing: every export scrubbed and packed, and of the manifest what tells nothing private.

What a program wrote itself (logs, benchmark reports) cannot be cleaned by rule, and stays behind unless asked for.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tracediff.capture import manifest
from tracediff.capture.scrub import scrub
from tracediff.errors import TracediffError
from tracediff.formats.bundle import folder_of

_PRIVATE_OF_SIDE = ("command", "client", "launcher")


@dataclass
class BundleReport:
    """What became of a bundle."""

    exports: int = 0
    rows: int = 0
    bytes: int = 0
    left_out: list[str] = field(default_factory=list)  # benchmark reports


def scrub_bundle(source: Path, target: Path, *, keep_kpi: bool = False) -> BundleReport:
    """Write a scrubbed copy of a bundle, which `tracediff compare` takes like the bundle itself.

    Kept of the manifest: machine, versions, commits, order, times, clocks, how each run ended. Command lines go.
    Raises `TracediffError`: output-exists, bundle-manifest, bundle-version, and those of `scrub`.
    """
    data = manifest.read(source)
    if target.exists():
        raise TracediffError(
            "output-exists", f"{target.name} exists", fix="name another folder, or remove it"
        )
    part = target.with_name(f".{target.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    report = BundleReport()
    try:
        part.mkdir(parents=True)
        for run in data["runs"]:
            if isinstance(run, dict):
                _scrub_run(source, part, run, report, keep_kpi)
        for side in data.get("sides", {}).values():
            side.update({name: [] for name in _PRIVATE_OF_SIDE})
        _shorten_kernel(data.get("host"))
        manifest.write(part, data)
        part.rename(target)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return report


def _shorten_kernel(host: object) -> None:
    """Keep 6.18 of 6.18.44-acme-lab7: the rest of a kernel's name tells who built it."""
    if isinstance(host, dict) and isinstance(host.get("kernel"), str):
        number = re.match(r"\d+\.\d+", host["kernel"])
        host["kernel"] = number[0] if number else None


def _scrub_run(source: Path, part: Path, run: dict[str, Any], report: BundleReport, keep_kpi: bool) -> None:
    """Copy a run; its entry of the manifest is changed to what is in the copy."""
    folder = folder_of(source, run)
    into = part / folder.relative_to(source)
    into.mkdir(parents=True)
    names = []
    for name in run.get("exports", []):
        packed = into / f"{Path(name).name.removesuffix('.xz')}.xz"
        proof = scrub(folder / Path(name).name, packed)
        report.exports += 1
        report.rows += sum(table.rows_kept for table in proof.tables)
        report.bytes += packed.stat().st_size
        names.append(packed.name)
    kpi = [Path(name).name for name in run.get("kpi", [])]
    for name in kpi if keep_kpi else []:
        shutil.copyfile(folder / name, into / name)
    if not keep_kpi:
        report.left_out += [f"{folder.name}/{name}" for name in kpi]
    error = run.get("error")
    run |= {
        "command": [],
        "exports": names,
        "reports": [],
        "kpi": kpi if keep_kpi else [],
        "error": {"slug": error.get("slug"), "message": ""} if isinstance(error, dict) else None,
    }
