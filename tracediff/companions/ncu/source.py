"""The line of a kernel's source with the most stall samples, of `ncu --page source --csv --print-source cuda,sass`.

A section is a function's part of one file; its own file comes first, then those of inlined headers. In it the row of a line is followed by
the instructions that were made of it. A line that calls an inlined function has the instructions of that as well.
"""

from __future__ import annotations

import csv
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import PurePosixPath

import msgspec

from tracediff.stats.rules import MOSTLY

OPTIONS = ("--csv", "--page", "source", "--print-source", "cuda,sass")
_NO_STALLS = ("selected", "not_selected")
_STALL = re.compile(r"stall_([a-z_]{1,40})")
_WORDS = {
    "long_sb": "long scoreboard", "short_sb": "short scoreboard", "imc": "constant-cache miss", "lg": "LG throttle",
    "mio": "MIO throttle", "tex": "TEX throttle", "math": "math pipe", "no_inst": "no instruction", "branch_resolving": "branch resolving",
}  # fmt: skip


class SourceLine(msgspec.Struct, frozen=True):
    """Where a kernel's warps stall most. share: of the kernel's samples, 0 to 1. stall: the warp state that most of them have, '' none."""

    file: str  # base name
    line: int
    share: float
    stall: str


class _Function(msgspec.Struct):
    file: str
    samples: dict[str, int] = msgspec.field(default_factory=dict)  # by address
    lines: dict[int, int] = msgspec.field(default_factory=lambda: defaultdict(int))
    stalls: dict[int, Counter[str]] = msgspec.field(default_factory=lambda: defaultdict(Counter))


def hottest(page: Iterable[str]) -> dict[str, SourceLine]:
    """Function -> its line in the first launch; without those whose lines or samples are not known. Rows that cannot be read are passed over."""
    found: dict[str, _Function] = {}
    done: dict[str, set[str]] = defaultdict(set)
    file, function, columns = "", None, dict[str, int]()
    for cells in csv.reader(page):
        if len(cells) == 2 and cells[0] == "File Path":
            file = PurePosixPath(cells[1]).name
        elif len(cells) == 2 and cells[0] == "Function Name":
            seen = cells[1] in found and file in done[cells[1]]  # of another launch
            function = None if seen else found.setdefault(cells[1], _Function(file))
            done[cells[1]].add(file)
            columns = {}
        elif cells[:1] == ["Line No"]:
            columns = {name: at for at, name in reversed(list(enumerate(cells)))}
        elif function is not None and len(cells) == len(columns) + 1:  # `Source` is there twice
            _take(function, file, cells, columns)
    lines = {name: _hottest_of(one) for name, one in found.items()}
    return {name: line for name, line in lines.items() if line is not None}


def _take(function: _Function, file: str, cells: list[str], columns: dict[str, int]) -> None:
    samples = cells[columns["# Samples"]] if "# Samples" in columns else ""
    line, address = cells[columns["Line No"]], cells[columns.get("Address", 0)]
    if not samples.isdecimal() or len(samples) > 15:
        return
    if address.startswith("0x"):
        function.samples[address] = max(function.samples.get(address, 0), int(samples))
    elif line.isdecimal() and len(line) < 9 and file == function.file:
        function.lines[int(line)] += int(samples)
        for name, at in columns.items():
            if (stall := _STALL.fullmatch(name)) and cells[at].isdecimal() and len(cells[at]) <= 15:
                function.stalls[int(line)][stall[1]] += int(cells[at])


def _hottest_of(function: _Function) -> SourceLine | None:
    most, total = max(function.lines.values(), default=0), sum(function.samples.values())
    if not most or not total:
        return None
    line = min((samples, -line) for line, samples in function.lines.items() if samples >= MOSTLY * most)[1]
    stalls = [
        (number, name) for name, number in function.stalls[-line].items() if name not in _NO_STALLS and number
    ]
    stall = max(stalls)[1] if stalls else ""
    return SourceLine(
        function.file,
        -line,
        min(function.lines[-line] / total, 1.0),
        _WORDS.get(stall, stall.replace("_", " ")),
    )
