"""What Nsight Compute measured, from a report (.ncu-rep) or the CSV of `ncu --csv --page raw`, a column a metric."""

from __future__ import annotations

import csv
import json
import math
import re
import struct
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from importlib.util import find_spec
from itertools import dropwhile
from pathlib import Path
from typing import Any, BinaryIO

from tracediff.companions.ncu.metrics import DEVICE, EXPORT, OPCODES, Launch, Profile, factor, launch, wanted
from tracediff.errors import TracediffError
from tracediff.formats.files import open_regular
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
        "ncu-csv-shape",
        f"{path.name} is not a page of `ncu --csv` that can be compared: {why}",
        fix=EXPORT,
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


# Reports (.ncu-rep) through NVIDIA's package `ncu-report`. It is native code that answers a damaged file with an empty report, or
# with some of its kernels. So the container is walked first, the file is read in a process of its own, and the kernels
# are counted. Only the metrics of metrics.py leave that process: a report also holds paths, the command line and sources.

_SECONDS = 600
_MAX_HEADER = 1 << 28
# Fields of a block's header.
_RESULTS, _PAYLOAD = 2, 5


def read_report(path: Path) -> Profile:
    """Read a report.

    Raises `TracediffError`: ncu-package-missing, ncu-damaged.
    """
    if find_spec("ncu_report") is None:
        raise TracediffError(
            "ncu-package-missing",
            f"{path.name} is a report, and NVIDIA's package that reads it is not installed",
            fix=f"pip install 'tracediff-gpu[ncu]', or give its CSV: {EXPORT}",
        )
    expected = results(path)
    try:
        # -P: a module of that name in the working folder must not be run.
        done = subprocess.run(
            [sys.executable, "-P", "-m", "tracediff.companions.ncu.read", str(path)],
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
        found = json.loads(done.stdout) if done.returncode == 0 else None
    except (subprocess.TimeoutExpired, json.JSONDecodeError, UnicodeDecodeError):
        found = None
    if found is None:
        raise _damaged(path, "NVIDIA's reader ended without an answer")
    if len(found["launches"]) < expected:
        raise _damaged(path, f"{len(found['launches'])} of {expected} results can be read")
    if not all(one["values"] for one in found["launches"]):
        raise _damaged(path, "a result has no metric at all")
    launches = tuple(Launch(**one) for one in found["launches"])
    return Profile(path.name, "report", found["device"], launches)


def _damaged(path: Path, why: str) -> TracediffError:
    return TracediffError(
        "ncu-damaged", f"{path.name} is cut short, damaged or too new: {why}",
        fix="copy it whole, profile again, or export it with the ncu that wrote it: " + EXPORT,
    )  # fmt: skip


def results(path: Path) -> int:
    """Count the results that the blocks of the file announce; raises ncu-damaged where they do not fit the file."""
    size = path.stat().st_size
    with path.open("rb") as file:
        try:
            if file.read(4) != MAGIC:
                raise ValueError("no report")
            file.seek(_uint32(file), 1)
            total = 0
            while file.tell() < size:
                length = _uint32(file)
                if length > _MAX_HEADER:
                    raise ValueError("header of a block")
                header = file.read(length)
                if len(header) < length:
                    raise ValueError("header of a block")
                numbers = dict(_numbers(header))
                total += numbers.get(_RESULTS, 0)
                file.seek(numbers.get(_PAYLOAD, 0), 1)
            if file.tell() != size:
                raise ValueError("its last block is longer than the file")
        except (ValueError, IndexError, struct.error, OSError) as error:
            raise _damaged(path, f"the structure of the file does not hold ({error})") from error
    return total


def _uint32(file: BinaryIO) -> int:
    return int(struct.unpack("<I", file.read(4))[0])


def _numbers(message: bytes) -> Iterator[tuple[int, int]]:
    """Field and value of the integers of a protocol-buffer message; others are passed over."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(message, at)
            yield key >> 3, value
            continue
        if kind == 2:
            length, at = _varint(message, at)
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
        else:
            raise ValueError("field of a header")
        at += length
        if at > len(message):
            raise ValueError("field of a header")


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("number of a header")


def extract(context: Any) -> dict[str, Any]:
    """The launches of a report that `ncu_report.load_report` opened, as plain data."""
    launches = []
    device = ""
    for part in context:
        for action in part:
            found = {
                name: _value(action.metric_by_name(name)) for name in action.metric_names() if wanted(name)
            }
            raw = {name: value for name, value in found.items() if value is not None}
            model = action.metric_by_name(DEVICE)
            device = device or (str(model.value() or "") if model is not None else "")
            name = action.name(action.NameBase_DEMANGLED) or action.name()
            made = launch(name, raw, opcodes=_opcodes(action.metric_by_name(OPCODES)))
            launches.append(asdict(made))
    return {"device": device, "launches": launches}


def _value(metric: Any) -> float | None:
    value = metric.value()
    scale = factor(metric.unit() or "")
    if isinstance(value, bool) or not isinstance(value, int | float) or scale is None:
        return None
    return float(value) * scale if math.isfinite(value) else None


def _opcodes(metric: Any) -> dict[str, float]:
    if metric is None or not metric.has_correlation_ids():
        return {}
    names = metric.correlation_ids()
    found: dict[str, float] = {}
    for at in range(metric.num_instances()):
        name, value = names.value(at), metric.value(at)
        if isinstance(name, str) and isinstance(value, int | float) and math.isfinite(value):
            found[name] = found.get(name, 0.0) + float(value)
    return found


def _main() -> None:
    import os

    import ncu_report

    # The reader writes its complaints to stdout's descriptor: the answer must be alone there.
    answer = os.dup(1)
    os.dup2(2, 1)
    found = extract(ncu_report.load_report(sys.argv[1]))
    with os.fdopen(answer, "w", encoding="utf-8") as out:
        json.dump(found, out)


if __name__ == "__main__":
    _main()
