"""A whole capture bundle for sharing: every export scrubbed and packed, and of the manifest what tells nothing private.

What a program wrote itself (logs, benchmark reports) cannot be cleaned by rule, and stays behind unless asked for.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from tracediff.capture import manifest
from tracediff.capture.scrub import scrub
from tracediff.errors import TracediffError
from tracediff.formats.bundle import Run, folder_of, read_manifest
from tracediff.formats.unpack import stem

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
    data = read_manifest(source)
    if target.exists():
        raise TracediffError(
            "output-exists", f"{target.name} exists", fix="name another folder, or remove it"
        )
    part = target.with_name(f".{target.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    report = BundleReport()
    try:
        part.mkdir(parents=True)
        for run in data.runs:
            _scrub_run(source, part, run, report, keep_kpi)
        for side in data.sides.values():
            side.update({name: [] for name in _PRIVATE_OF_SIDE})
        # 6.18 of 6.18.44-acme-lab7: the rest of a kernel's name tells who built it
        number = re.match(r"\d+\.\d+", str(data.host.get("kernel")))
        data.host["kernel"] = number[0] if number else None
        manifest.write(part, data)
        part.rename(target)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return report


def _scrub_run(source: Path, part: Path, run: Run, report: BundleReport, keep_kpi: bool) -> None:
    """Copy a run; its entry of the manifest is changed to what is in the copy."""
    folder = folder_of(source, run)
    into = part / folder.relative_to(source)
    into.mkdir(parents=True)
    names = []
    for name in run.exports:
        packed = into / f"{stem(Path(name))}.sqlite.xz"
        proof = scrub(folder / Path(name).name, packed)
        report.exports += 1
        report.rows += sum(table.rows_kept for table in proof.tables)
        report.bytes += packed.stat().st_size
        names.append(packed.name)
    kpi = [Path(name).name for name in run.kpi]
    if keep_kpi:
        for name in kpi:
            shutil.copyfile(folder / name, into / name)
    else:
        report.left_out += [f"{folder.name}/{name}" for name in kpi]
    run.command, run.reports, run.exports = [], [], names
    run.kpi = kpi if keep_kpi else []
    run.error = {"slug": run.error.get("slug"), "message": ""} if run.error else None
