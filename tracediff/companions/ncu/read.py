"""What Nsight Compute measured, from a report (.ncu-rep) or the CSV of `ncu --csv --page raw`, a column a metric."""

from __future__ import annotations

import csv
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import dropwhile
from pathlib import Path

from msgspec.structs import replace

from tracediff.companions.ncu.metrics import DEVICE, EXPORT, Launch, Profile, factor, launch, wanted
from tracediff.companions.ncu.source import OPTIONS, hottest
from tracediff.errors import TracediffError
from tracediff.formats.files import open_regular, scratch
from tracediff.formats.selection import own_label

MAGIC: bytes = b"NVR\x00"
_CELL = 1 << 26  # characters of one cell: instances of a metric can be many
_LEAST = ("ID", "Kernel Name")
_RAW_LEADS = frozenset({
    "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Kernel Time", "Context", "Stream", "Block Size",
    "Grid Size", "Device", "CC", "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg",
})  # fmt: skip
# One number: digits, perhaps in groups of three, perhaps with a fraction or an exponent.
_NUMBER = re.compile(r"[-+]?(?:\d+|\d{1,3}(?:,\d{3})+)(?:\.\d+)?(?:[eE][-+]?\d+)?\Z")
# `1,5` or `1.234,5`: a decimal comma, of a machine with another locale.
_DECIMAL_COMMA = re.compile(
    r"[-+]?\d[\d.]*,(?:\d{1,2}|\d{4,})\Z|[-+]?\d{1,3}(?:\.\d{3})+,\d+\Z|[-+]?\d{1,3}(?:\.\d{3}){2,}\Z"
)


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

    Raises `TracediffError`: ncu-no-file, ncu-unknown-file, ncu-empty, other-input, and those of `read_csv` and `read_report`.
    """
    try:
        with open_regular(path) as file:
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
        from tracediff.formats.recognise import refuse_other

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


def read_csv(path: Path) -> Profile:
    """Read the page, whichever it is.

    Raises `TracediffError`: ncu-csv-shape, ncu-csv-numbers, ncu-csv-unit.
    """
    csv.field_size_limit(_CELL)
    with path.open("rb") as binary:
        binary.seek(-1, 2)
        if binary.read() not in (b"\n", b"\r"):
            raise _not_a_page(path, "its last line does not end: cut short?")
    try:
        with path.open(encoding="utf-8", errors="replace", newline="") as file:
            rows = _rows(file)
            header = next(rows, None)
            if header is None or any(name not in header for name in _LEAST):
                raise _not_a_page(path, "there is no header with ID and Kernel Name")
            if "Metric Name" in header:
                raise _not_a_page(path, "it is the page of details, or a summary, and not --page raw")
            return _raw(path, header, rows)
    except csv.Error as error:
        raise _not_a_page(path, f"it is no CSV: {error}") from error


def _not_a_page(path: Path, why: str) -> TracediffError:
    return TracediffError(
        "ncu-csv-shape", f"{path.name} is not a page of `ncu --csv` that can be compared: {why}", fix=EXPORT
    )


def _rows(file: Iterable[str]) -> Iterator[list[str]]:
    """Rows from the header on: what ncu and the program printed before it is passed over, as are ncu's own lines."""
    lines = dropwhile(lambda line: not line.startswith('"ID"'), file)
    return csv.reader(line for line in lines if line.strip() and not line.startswith("=="))


def _raw(path: Path, header: list[str], rows: Iterator[list[str]]) -> Profile:
    at = {name: column for column, name in enumerate(header)}
    if not any("__" in name for name in header if name not in _RAW_LEADS):
        raise _not_a_page(path, "its columns are no metrics")
    units = next(rows, [])
    if len(units) != len(header) or units[at["ID"]].strip():
        raise _not_a_page(path, "the row of units under the header is missing")
    columns = [(name, column) for name, column in at.items() if wanted(name)]
    factors = {column: _factor(path, name, units[column]) for name, column in columns}
    launches: list[Launch] = []
    device = ""
    for cells in rows:
        if len(cells) != len(header):
            why = f"launch {len(launches)} has {len(cells)} cells under a header of {len(header)}: cut short?"
            raise _not_a_page(path, why)
        found = {name: _number(path, name, cells[column]) for name, column in columns}
        raw = {name: value * factors[at[name]] for name, value in found.items() if value is not None}
        grid, block = (shape(cells[at[name]]) if name in at else "" for name in ("Grid Size", "Block Size"))
        launches.append(launch(cells[at["Kernel Name"]], raw, grid, block))
        device = device or (cells[at[DEVICE]] if DEVICE in at else "")
    return Profile(path.name, "csv-raw", device, tuple(launches))


def _factor(path: Path, name: str, unit: str) -> float:
    found = factor(unit)
    if found is None:
        raise TracediffError(
            "ncu-csv-unit",
            f"{path.name}: the unit {unit[:40]!r} of {name} is not known",
            fix="export it with --print-units base",
        )
    return found


def _number(path: Path, name: str, text: str) -> float | None:
    """The value of a cell; with instances, `5916528 (1125008; ...)`, that before them."""
    text = text.partition(" (")[0].strip()
    found = number(text)
    if found is None and decimal_comma(text):
        raise TracediffError(
            "ncu-csv-numbers",
            f"{path.name}: {name} is {text[:40]!r}: numbers with a decimal comma cannot be told from thousands",
            fix=f"LC_ALL=C {EXPORT}",
        )
    return found


def number(text: str) -> float | None:
    """Read a number as `ncu` writes it; None where it is not one (`n/a`, a name)."""
    text = text.strip()
    if not _NUMBER.match(text):
        return None
    return float(text.replace(",", ""))


def decimal_comma(text: str) -> bool:
    """Tell whether the text is a number that only a locale with a decimal comma writes."""
    return _DECIMAL_COMMA.match(text.strip()) is not None


# Reports (.ncu-rep) through the user's own ncu, as reports of Nsight Systems through nsys.


_SECONDS = 600


def read_report(path: Path) -> Profile:
    """Read a report, by its raw page, and by its source where it says that.

    Raises `TracediffError`: ncu-missing, ncu-damaged, and those of `read_csv`.
    """
    ncu = shutil.which(os.environ.get("NCU") or "ncu")
    if ncu is None:
        raise TracediffError(
            "ncu-missing",
            f"{path.name} is a report, and there is no ncu that reads it",
            fix=f"put ncu on PATH, or set NCU to it; or give its CSV: {EXPORT}",
        )
    with scratch() as folder:
        page, source = folder / "raw.csv", folder / "source.csv"
        try:
            done = _print(ncu, path, ("--csv", "--page", "raw", "--print-units", "base"), page)
            failed = done.stderr.decode(errors="replace").strip() if done.returncode else ""
            if done.returncode or b'"ID"' not in page.read_bytes():
                raise _damaged(path, (failed or "it prints no page of kernels").splitlines()[-1])
            profile = replace(read_csv(page), file=path.name, source="report")
            _print(ncu, path, OPTIONS, source)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise _damaged(path, f"{Path(ncu).name} did not answer") from error
        with source.open(encoding="utf-8", errors="replace", newline="") as file, suppress(csv.Error):
            return replace(profile, lines=hottest(file))
        return profile


def _print(ncu: str, report: Path, options: Iterable[str], page: Path) -> subprocess.CompletedProcess[bytes]:
    with page.open("wb") as out:
        return subprocess.run(
            [ncu, "--import", str(report.absolute()), *options],
            stdout=out,
            stderr=subprocess.PIPE,
            timeout=_SECONDS,
            check=False,
            env={**os.environ, "LC_ALL": "C"},
        )


def _damaged(path: Path, why: str) -> TracediffError:
    return TracediffError(
        "ncu-damaged",
        f"{path.name} cannot be read by ncu: {why}",
        fix="copy it whole, or export it with the ncu that wrote it: " + EXPORT,
    )
