"""The CSV of `ncu --csv`: `--page raw`, a column a metric, and `--page details`, a row a metric.

Numbers and units are those of a terminal: scaled, and written as the locale has it. What cannot be read without
a guess is an error.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tracediff.errors import TracediffError
from tracediff.load import ncu, ncu_metrics
from tracediff.load.ncu import Launch, Profile
from tracediff.load.ncu_details import metric_of
from tracediff.load.ncu_units import decimal_comma, factor, number

_FIELD = 1 << 26  # characters of one cell: instances of a metric can be many
_LEAST = ("ID", "Kernel Name")
_RAW_LEADS = frozenset({
    "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Kernel Time", "Context", "Stream", "Block Size",
    "Grid Size", "Device", "CC", "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg",
})  # fmt: skip


@dataclass
class _Rows:
    """One launch of the details page, while its rows come in."""

    name: str
    grid: str
    block: str
    raw: dict[str, float] = field(default_factory=dict)


def read_csv(path: Path) -> Profile:
    """Read the page, whichever it is.

    Raises `TracediffError`: ncu-csv-shape, ncu-csv-numbers, ncu-csv-unit.
    """
    csv.field_size_limit(_FIELD)
    with path.open("rb") as binary:
        binary.seek(-1, 2)
        if binary.read() not in (b"\n", b"\r"):
            raise _shape(path, "its last line does not end: cut short?")
    try:
        with path.open(encoding="utf-8", errors="replace", newline="") as file:
            rows = _rows(file)
            header = next(rows, None)
            if header is None or any(name not in header for name in _LEAST):
                raise _shape(path, "there is no header with ID and Kernel Name")
            if "Metric Name" in header and "Metric Value" in header:
                return _details(path, header, rows)
            if "Metric Name" in header:
                raise _shape(
                    path, "it is a summary over launches (--print-summary), which has no values of a launch"
                )
            return _raw(path, header, rows)
    except csv.Error as error:
        raise _shape(path, f"it is no CSV: {error}") from error


def _shape(path: Path, why: str) -> TracediffError:
    return TracediffError(
        "ncu-csv-shape",
        f"{path.name} is not a page of `ncu --csv` that can be compared: {why}",
        fix=ncu.EXPORT,
    )


def _rows(file: Iterator[str]) -> Iterator[list[str]]:
    """Rows from the header on: what ncu and the program printed before it is passed over, as are ncu's own lines."""
    begun = False

    def lines() -> Iterator[str]:
        nonlocal begun
        for line in file:
            begun = begun or line.startswith('"ID"')
            if begun and line.strip() and not line.startswith("=="):
                yield line

    yield from csv.reader(lines())


def _raw(path: Path, header: list[str], rows: Iterator[list[str]]) -> Profile:
    at = {name: column for column, name in enumerate(header)}
    if not any("__" in name for name in header if name not in _RAW_LEADS):
        raise _shape(path, "its columns are no metrics")
    units = next(rows, [])
    if len(units) != len(header) or units[at["ID"]].strip():
        raise _shape(path, "the row of units under the header is missing")
    columns = [(name, column) for name, column in at.items() if ncu_metrics.wanted(name)]
    factors = {column: _factor(path, name, units[column]) for name, column in columns}
    launches: list[Launch] = []
    device = ""
    for cells in rows:
        if len(cells) != len(header):
            raise _shape(
                path,
                f"launch {len(launches)} has {len(cells)} cells under a header of {len(header)}: cut short?",
            )
        raw = {}
        for name, column in columns:
            value = _number(path, name, cells[column])
            if value is not None:
                raw[name] = value * factors[column]
        launches.append(
            ncu.launch(
                cells[at["Kernel Name"]],
                raw,
                ncu.shape(cells[at["Grid Size"]]) if "Grid Size" in at else "",
                ncu.shape(cells[at["Block Size"]]) if "Block Size" in at else "",
            )
        )
        if ncu_metrics.DEVICE in at:
            device = device or cells[at[ncu_metrics.DEVICE]]
    return Profile(path.name, "csv-raw", device, tuple(launches))


def _details(path: Path, header: list[str], rows: Iterator[list[str]]) -> Profile:
    at = {name: column for column, name in enumerate(header)}
    least = 1 + max(at[name] for name in ("ID", "Kernel Name", "Metric Name", "Metric Value"))
    found: dict[str, _Rows] = {}
    for cells in rows:
        if len(cells) < least or not cells[at["ID"]].isdigit():
            continue  # tables of --print-details all that belong to no launch
        key = cells[at["ID"]]
        if key not in found:
            found[key] = _Rows(
                cells[at["Kernel Name"]],
                ncu.shape(cells[at["Grid Size"]]) if "Grid Size" in at else "",
                ncu.shape(cells[at["Block Size"]]) if "Block Size" in at else "",
            )
        label, unit = cells[at["Metric Name"]], cells[at["Metric Unit"]] if "Metric Unit" in at else ""
        name = metric_of(cells[at["Section Name"]] if "Section Name" in at else "", label, unit)
        if name is None or not ncu_metrics.wanted(name) or name in found[key].raw:
            continue
        value = _number(path, label, cells[at["Metric Value"]])
        if value is not None:
            found[key].raw[name] = value * _factor(path, label, unit)
    launches = tuple(ncu.launch(one.name, one.raw, one.grid, one.block) for one in found.values())
    return Profile(path.name, "csv-details", "", launches)


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
            fix=f"LC_ALL=C {ncu.EXPORT}",
        )
    return found
