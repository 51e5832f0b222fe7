"""What was measured: kept as JSON, shown as Markdown. Names of hosts and paths are nowhere in it."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import math
import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.contenders import CONTENDERS, FLOORS
from benchmarks.inputs import ABOUT


@dataclass(frozen=True)
class Row:
    """One contender on one pair: wall seconds, processor seconds and MiB, or a note that says why there are none."""

    contender: str
    seconds: float | None = None
    cpu_s: float | None = None
    peak_mib: float | None = None
    note: str = ""


@dataclass
class Group:
    """All contenders on one pair of inputs, in one run on one machine. `size`: million kernels per side; `megabytes`: of both files."""

    shape: str
    size: float
    megabytes: float
    machine: dict[str, Any]
    rows: list[Row] = field(default_factory=list)

    def row(self, contender: str) -> Row | None:
        return next((row for row in self.rows if row.contender == contender), None)

    def seconds(self, contenders: Iterable[str]) -> float | None:
        """Of the first of them that was measured."""
        rows = (self.row(name) for name in contenders)
        return next((row.seconds for row in rows if row is not None and row.seconds is not None), None)


def machine() -> dict[str, Any]:
    """Facts that figures depend on."""
    model = [line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    memory, swap = memory_mib()
    packages = ("duckdb", "polars", "numpy")
    return {
        "cores": len(os.sched_getaffinity(0)), "processor": model[0] if model else platform.machine(), "memory_gib": round(memory / 1024), "swap_gib": round(swap / 1024),
        "python": platform.python_version(), **{name: importlib.metadata.version(name) for name in packages},
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(), "load_before": round(os.getloadavg()[0], 1),
    }  # fmt: skip


def memory_mib() -> tuple[float, float]:
    """Memory of the machine, and what it has besides on disk."""
    swaps = [int(line.split()[1]) for line in _lines("/proc/meminfo") if line.startswith("SwapTotal:")]
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**20, sum(swaps) / 1024


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []


def load(path: Path) -> list[Group]:
    """The groups of a file, none where there is no file."""
    if not path.exists():
        return []
    raw = json.loads(path.read_text(encoding="utf-8"))
    return [Group(**{**one, "rows": [Row(**row) for row in one["rows"]]}) for one in raw["groups"]]


def merged(old: Sequence[Group], new: Sequence[Group]) -> list[Group]:
    """Groups measured anew replace those of the same pair: ratios are always of one run."""
    kept = {(one.shape, one.size): one for one in (*old, *new)}
    return [kept[key] for key in sorted(kept, key=lambda key: (list(ABOUT).index(key[0]), key[1]))]


def save(path: Path, groups: Sequence[Group]) -> None:
    """Write JSON, and Markdown beside it."""
    path.write_text(
        json.dumps({"groups": [asdict(one) for one in groups]}, indent=1) + "\n", encoding="utf-8"
    )
    path.with_suffix(".md").write_text(render(groups) + "\n", encoding="utf-8")


def slope(points: Sequence[tuple[float, float]]) -> float | None:
    """Exponent of the power law through points of size and seconds, by least squares of their logarithms."""
    if len(points) < 2:
        return None
    xs, ys = ([math.log(value) for value in column] for column in zip(*points, strict=True))
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / sum(
        (x - mean_x) ** 2 for x in xs
    )


def points(groups: Iterable[Group], shape: str, contender: str) -> list[tuple[float, float]]:
    """Sizes and seconds at which a contender was measured."""
    found = []
    for group in groups:
        row = group.row(contender)
        if group.shape == shape and row is not None and row.seconds is not None:
            found.append((group.size, row.seconds))
    return sorted(found)


def expected(groups: Iterable[Group], shape: str, contender: str, size: float) -> float | None:
    """Seconds that a contender would take: from its two largest measurements below, linear from one; None from nothing."""
    known = [point for point in points(groups, shape, contender) if point[0] < size][-2:]
    if not known:
        return None
    at, seconds = known[-1]
    return seconds * (size / at) ** max(slope(known) or 1.0, 0.0)


def table(group: Group) -> Iterable[str]:
    """The rows of one pair in Markdown; ratios are of its bare scan or parse, and of tracediff cold."""
    floor, ours = group.seconds(FLOORS), group.seconds(["tracediff"])
    for row in group.rows:
        cells = [group.shape, f"{group.size:g}", CONTENDERS[row.contender].title]
        if row.seconds is None or row.cpu_s is None or row.peak_mib is None:
            yield f"| {' | '.join(cells)} | {row.note} | | | | |"
            continue
        cells += [f"{row.seconds:,.2f}", _ratio(row.seconds, floor), _ratio(row.seconds, ours)]
        cells += [f"{row.cpu_s:,.1f}", f"{row.peak_mib:,.0f}"]
        yield f"| {' | '.join(cells)} |"


def _ratio(seconds: float, of: float | None) -> str:
    return f"{seconds / of:.2f}" if of else ""


HEAD = (
    "| shape | M kernels per side | | s | / floor | / tracediff | CPU s | peak MiB |",
    "|-|-|-|-|-|-|-|-|",
)


def growth(groups: Sequence[Group]) -> Iterable[str]:
    """The scaling exponents in Markdown: over all sizes, and between the two largest."""
    lines = []
    for shape in dict.fromkeys(one.shape for one in groups):
        for name, contender in CONTENDERS.items():
            found = points(groups, shape, name)
            over_all, last = slope(found), slope(found[-2:])
            if over_all is not None and last is not None:
                sizes = ", ".join(f"{size:g}" for size, _ in found)
                lines.append(f"| {shape} | {contender.title} | {sizes} | {over_all:.2f} | {last:.2f} |")
    if lines:
        yield from (
            "",
            "| shape | | M kernels per side | seconds grow as size ^ | between the two largest |",
            "|-|-|-|-|-|",
        )
        yield from lines


def render(groups: Sequence[Group]) -> str:
    """Everything as Markdown."""
    lines = []
    for facts in dict.fromkeys(_facts(one.machine) for one in groups):
        lines.append(
            f"- {facts}; "
            + ", ".join(f"{one.shape} {one.size:g}" for one in groups if _facts(one.machine) == facts)
            + "."
        )
    lines += ["", *HEAD]
    for group in groups:
        lines += table(group)
    return "\n".join([*lines, *growth(groups)])


def _facts(one: dict[str, Any]) -> str:
    tools = {**{name: one[name] for name in ("python", "duckdb", "polars", "numpy")}, **one.get("tools", {})}
    versions = ", ".join(f"{name} {version}" for name, version in tools.items())
    swap = f" and {one['swap_gib']} of swap" if one.get("swap_gib") else ""
    return f"{one['cores']} cores ({one['processor']}), {one['memory_gib']} GiB{swap}; {versions}; {one['date']}, load {one['load_before']} before"
