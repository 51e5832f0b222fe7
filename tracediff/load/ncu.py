"""What Nsight Compute measured, from any of its files: a report (.ncu-rep) or the CSV of `ncu --csv`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from tracediff.errors import TracediffError
from tracediff.load import ncu_metrics
from tracediff.load.labels import own_label

MAGIC = b"NVR\x00"
EXPORT = "ncu --import FILE.ncu-rep --csv --page raw > FILE.csv"


@dataclass(frozen=True)
class Launch:
    """One profiled launch. `values`, `stalls`: see ncu_metrics.py; `opcodes`: SASS opcode -> warp instructions."""

    name: str
    grid: str  # 'x,y,z', '' where it is not in the file
    block: str
    values: dict[str, float]
    stalls: dict[str, float] = field(default_factory=dict)
    opcodes: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Profile:
    """All launches of one file, in the order in which they were profiled."""

    file: str  # base name, or the label that was given
    source: str  # report | csv-raw | csv-details
    device: str  # GPU model, '' where it is not in the file
    launches: tuple[Launch, ...]


def launch(
    name: str,
    raw: Mapping[str, float],
    grid: str = "",
    block: str = "",
    opcodes: dict[str, float] | None = None,
) -> Launch:
    """Make a launch of its metrics; grid and block from the metrics where they are not given."""
    return Launch(
        name,
        grid or _shape(raw, "grid"),
        block or _shape(raw, "block"),
        ncu_metrics.values(raw),
        ncu_metrics.stalls(raw),
        opcodes or {},
    )


def _shape(raw: Mapping[str, float], kind: str) -> str:
    sizes = [raw.get(f"launch__{kind}_dim_{axis}") for axis in "xyz"]
    return ",".join(str(int(size)) for size in sizes if size is not None) if None not in sizes else ""


def shape(text: str) -> str:
    """Write a shape of the CSV, `(132, 1, 1)`, as `132,1,1`; '' where it is none."""
    sizes = re.findall(r"\d+", text)
    return ",".join(sizes) if len(sizes) == 3 else ""


def read_named(word: str) -> Profile:
    """Read a file that a word of the command line names; `label=PATH` gives it the label in place of its name."""
    label, path = own_label(word)
    profile = read(Path(path))
    return profile if label is None else replace(profile, file=label)


def read(path: Path) -> Profile:
    """Read a file by what it holds, whatever its name.

    Raises `TracediffError`: ncu-no-file, ncu-unknown-file, ncu-empty, other-input, and those of ncu_csv and ncu_report.
    """
    from tracediff.load.ncu_csv import read_csv
    from tracediff.load.ncu_report import read_report

    try:
        with path.open("rb") as file:
            head = file.read(65536)
    except OSError as error:
        what, fix = str(error.strerror or error), "check the path"
        if path.is_dir():
            what, fix = "a folder, and a profile is one file", "name the .ncu-rep or .csv in it"
        raise TracediffError("ncu-no-file", f"{path}: {what}", fix=fix) from error
    if not head.strip():
        raise TracediffError("ncu-empty", f"{path.name} is empty", fix=EXPORT)
    if head.startswith(MAGIC):
        profile = read_report(path)
    elif b'"ID"' in head or b"==PROF==" in head:
        profile = read_csv(path)
    else:
        from tracediff.load.recognise import refuse_other

        refuse_other(path, lambda kind: kind.slug.startswith("ncu-"), "no profile of Nsight Compute")
        raise TracediffError(
            "ncu-unknown-file",
            f"{path.name} is neither a report of Nsight Compute (.ncu-rep) nor what `ncu --csv` prints",
            fix=EXPORT,
        )
    if not profile.launches:
        raise TracediffError(
            "ncu-empty",
            f"{path.name} holds no profiled kernel",
            fix="check what ncu printed: `No kernels were profiled`, or a missing permission (ERR_NVGPUCTRPERM)",
        )
    return profile
