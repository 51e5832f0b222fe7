"""`python -m benchmarks.plants CAPTURE[=OTHER]...`: does the first screen name what makes a capture longer, in all steps or in every 12th?

The steps are made longer where the GPU has nothing to do and the thread that launches is in no call: all later times move, and new rows
fill the room. A capture with a plant is compared with itself as it was, and with another run of its program where one is given.
"""

from __future__ import annotations

import argparse
import lzma
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from benchmarks.inputs import ROOT
from benchmarks.nulls import PAGE, fill
from benchmarks.splits import program
from tracediff.comparison.compare import compare
from tracediff.execution.run import reduce_sides
from tracediff.execution.sides import Reading
from tracediff.formats.inputs import resolve
from tracediff.report.first import lines
from tracediff.report.phrases import with_words

FIXTURES = ROOT / "fixtures"
CAPTURES = [
    f"{FIXTURES / one}={FIXTURES / other}"
    for one, other in (
        ("pairs/base_1.sqlite.xz", "pairs/base_2.sqlite.xz"),
        ("captures/eager_a1.sqlite.xz", "captures/eager_a2.sqlite.xz"),
        ("demo/graph_a/graph_a1.sqlite.xz", "demo/graph_a/graph_a2.sqlite.xz"),
    )
]
BEGIN, END = "<!-- plants: python -m benchmarks.plants -->", "<!-- /plants -->"
MORE = 0.25  # of all steps together
RARELY = 12  # steps from one that has it all to the next
SAID = 0.4  # of what was put in: a first screen without as large a change is silent
_KERNELS = 24  # put into a step; what rare steps have is four times as much
_CALL, _KERNEL, _COPY = (f"CUPTI_ACTIVITY_KIND_{kind}" for kind in ("RUNTIME", "KERNEL", "MEMCPY"))
_NEW = "planted_kernel"
_RANGE = "NVTX_EVENTS"
Row = dict[str, Any]


class Step(NamedTuple):
    """When a step begins and ends in the capture, ns."""

    start: int
    end: int


class Trace:
    """A capture that is written to. steps: in order. thread: globalTid of the one with most launches."""

    def __init__(self, path: Path, db: sqlite3.Connection) -> None:
        (run,) = program(str(path)).runs
        periods = run.parts[0].periods.filter(device=0).sort("start_ns")
        self.db, self.steps = db, [Step(*row) for row in periods.select("start_ns", "end_ns").iter_rows()]
        launches = f"SELECT globalTid FROM {_CALL} JOIN StringIds ON id = nameId WHERE value LIKE '%Launch%'"
        (self.thread,) = db.execute(f"{launches} GROUP BY 1 ORDER BY count(*) DESC").fetchone()
        # work that is launched, and waits, is something to do
        launched = f"LEFT JOIN {_CALL} c ON c.correlationId = w.correlationId AND c.globalTid >> 24 = w.globalPid >> 24"
        work = " UNION ALL ".join(
            f"SELECT coalesce(c.start, w.start) AS start, w.end FROM {name} w {launched}"
            for name in (_KERNEL, _COPY)
        )
        calls = f"SELECT start, end FROM {_CALL} WHERE globalTid = {self.thread}"
        self._busy = [self._intervals(f"{query} ORDER BY start") for query in (work, calls)]

    def _intervals(self, query: str) -> tuple[Any, Any]:
        starts, ends = np.array(self.db.execute(query).fetchall()).T
        return starts, np.maximum.accumulate(ends)

    def free(self, step: Step) -> int | None:
        """The first instant of the second half of a step, else of all of it, at which nothing is going on, or about to."""
        for at in ((step.start + step.end) // 2, step.start):
            while at < step.end:
                before = [
                    (np.searchsorted(starts, at, side="right") - 1, ends) for starts, ends in self._busy
                ]
                until = max(int(ends[row]) if row >= 0 else 0 for row, ends in before)
                if until <= at:
                    return at + 1
                at = until
        return None

    def text(self, value: str) -> int:
        """The number of a string."""
        found = self.db.execute("SELECT id FROM StringIds WHERE value = ?", (value,)).fetchone()
        if not found:
            found = self.db.execute("SELECT max(id) + 1 FROM StringIds").fetchone()
            self.db.execute("INSERT INTO StringIds VALUES (?, ?)", (*found, value))
        return int(found[0])

    def like(self, table: str, order: str = "1", **values: object) -> Row:
        """The first row of a table, of the thread that launches where it is of calls, with other values in the columns that it has. Raises `LookupError` without one."""
        if not self.db.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone():
            raise LookupError(f"there is no {table}")
        where = f"WHERE globalTid = {self.thread}" if table == _CALL else ""
        found = self.db.execute(f"SELECT * FROM {table} {where} ORDER BY {order} LIMIT 1")
        first = found.fetchone()
        if first is None:
            raise LookupError(f"{table} has no rows")
        row = dict(zip((one[0] for one in found.description), first, strict=True))
        return row | {name: value for name, value in values.items() if name in row}

    def add(self, table: str, row: Row, **values: object) -> None:
        """Add a row like another."""
        row = row | values
        marks = ", ".join("?" * len(row))
        self.db.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", tuple(row.values()))

    def renumber(self) -> None:
        """Number the calls of each process in order, as the profiler does, and what the GPU did for them."""
        numbers: dict[int, dict[int, int]] = {}
        calls = f"SELECT globalTid >> 24, correlationId FROM {_CALL} ORDER BY start"
        for process, number in self.db.execute(calls).fetchall():
            mine = numbers.setdefault(process, {})
            mine.setdefault(number, len(mine) + 1)
        self.db.create_function("number", 2, lambda process, one: numbers.get(process, {}).get(one, one))
        names = {row[0] for row in self.db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        whose = {_CALL: "globalTid"} | {
            f"CUPTI_ACTIVITY_KIND_{kind}": "globalPid"
            for kind in ("KERNEL", "MEMCPY", "MEMSET", "SYNCHRONIZATION")
        }
        for table in names & whose.keys():
            change = f"UPDATE {table} SET correlationId = number({whose[table]} >> 24, correlationId)"
            self.db.execute(change)


def longer(db: sqlite3.Connection, points: Sequence[tuple[int, int]]) -> Callable[[int | None], int | None]:
    """Make each instant as long as it says, in every table; where times went."""
    at, ns = np.array(sorted(points)).T
    moved = np.concatenate([[0], np.cumsum(ns)])

    def later(time: int | None) -> int | None:
        return None if time is None else int(time) + int(moved[np.searchsorted(at, time, side="left")])

    db.create_function("later", 1, later)
    for (table,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        names = {row[1] for row in db.execute(f"PRAGMA table_info({table})")} & {"start", "end"}
        if "start" in names:
            columns = ", ".join(f"{name} = later({name})" for name in sorted(names))
            db.execute(f"UPDATE {table} SET {columns}")
    return later


def room(trace: Trace, at: Sequence[int], ns: int) -> list[int]:
    """Make each of some instants `ns` long; when each begins now."""
    later = longer(trace.db, [(one, ns) for one in at])
    return [start for one in at if (start := later(one)) is not None]


Put: TypeAlias = Callable[[Trace, Sequence[int], int, int], None]

# Each puts `ns` into the steps that have one of the instants, `kernels` of them where it launches some.


def _slower(trace: Trace, at: Sequence[int], ns: int, kernels: int) -> None:
    """The kernels of most time in all steps take as much longer as all instants together have."""
    name = f"SELECT shortName FROM {_KERNEL} GROUP BY 1 ORDER BY sum(end - start) DESC"
    (number,) = trace.db.execute(name).fetchone()
    mine = f"SELECT start, end FROM {_KERNEL} WHERE shortName = ? AND start >= ? AND end <= ?"
    found = trace.db.execute(mine, (number, trace.steps[0].start, trace.steps[-1].end)).fetchall()
    part = ns * len(at) / sum(end - start for start, end in found)
    longer(trace.db, [((start + end) // 2, int(part * (end - start))) for start, end in found])


def _host(trace: Trace, at: Sequence[int], ns: int, kernels: int) -> None:
    room(trace, at, ns)


def _launch(trace: Trace, at: Sequence[int], ns: int, kernels: int, **kernel: object) -> None:
    starts = room(trace, at, ns)
    call = trace.like(_CALL, nameId=trace.text("cudaLaunchKernel_v7000"))
    row = trace.like(_KERNEL, "end - start DESC", graphNodeId=None, **kernel)
    each = ns // kernels
    for number, start in enumerate(starts):
        for place in range(kernels):
            begin, own = start + place * each + 100, 10**9 + number * kernels + place
            trace.add(_CALL, call, start=begin, end=begin + min(4000, each // 5), correlationId=own)
            trace.add(_KERNEL, row, start=begin + each // 4, end=begin + each - 200, correlationId=own)


def _new(trace: Trace, at: Sequence[int], ns: int, kernels: int) -> None:
    short, whole = trace.text(_NEW), trace.text(f"void {_NEW}<float>(float*, int)")
    _launch(trace, at, ns, kernels, shortName=short, demangledName=whole, mangledName=None)


def _calling(name: str) -> Put:
    """A call that waits for nothing, or for what the GPU had done."""

    def put(trace: Trace, at: Sequence[int], ns: int, kernels: int) -> None:
        starts = room(trace, at, ns)
        call = trace.like(_CALL, nameId=trace.text(name))
        for number, start in enumerate(starts):
            trace.add(_CALL, call, start=start + 50, end=start + ns - 50, correlationId=10**9 + number)

    return put


def _collect(trace: Trace, at: Sequence[int], ns: int, kernels: int) -> None:
    starts = room(trace, at, ns)
    row = trace.like(_RANGE, eventType=59, globalTid=trace.thread, text="Python GC", textId=None, domainId=0)
    for start in starts:
        trace.add(_RANGE, row, start=start + 100, end=start + ns - 100)


def _copy(trace: Trace, at: Sequence[int], ns: int, kernels: int) -> None:
    starts = room(trace, at, ns)
    call = trace.like(_CALL, nameId=trace.text("cudaMemcpyAsync_v3020"))
    row = trace.like(_COPY, copyKind=1, srcKind=0, dstKind=2, bytes=10 * ns, graphNodeId=None)
    for number, start in enumerate(starts):
        own = 10**9 + number
        trace.add(_CALL, call, start=start + 50, end=start + ns - 50, correlationId=own)
        trace.add(_COPY, row, start=start + 500, end=start + ns - 200, correlationId=own)


class Plant(NamedTuple):
    """What is put in. named: the pattern of what a first screen says of it."""

    what: str
    put: Put
    named: str
    often: tuple[int, ...] = (1, RARELY)


PLANTS = (
    Plant("a kernel takes longer", _slower, r"slower", (1,)),
    Plant("the host stops", _host, r"host (work|code|time)|launch latency"),
    Plant(
        "more launches of a kernel", _launch, r"\d kernels (per step|in every)|launches|-> [\d.,]+ per mean"
    ),
    Plant("a new kernel", _new, _NEW.removesuffix("_kernel")),
    Plant("a synchronisation", _calling("cudaDeviceSynchronize_v3020"), r"synchronis|cudaDeviceSynchronize"),
    Plant("an allocation", _calling("cudaMalloc_v3020"), r"cudaMalloc"),
    Plant("a garbage collection", _collect, r"Python GC"),
    Plant("a copy of pageable memory", _copy, r"memcpy HtoD"),
)


class Said(NamedTuple):
    """What is said of a plant. beside: whether its capture was compared with another run."""

    capture: str
    what: str
    every: int
    beside: bool
    screen: str
    named: bool
    sized: bool


def plant(path: Path, out: Path, one: Plant, every: int, more: float) -> None:
    """Write a capture with a plant in each of `every` steps, `more` of the time of all of them."""
    shutil.copy(path, out)
    with closing(sqlite3.connect(out, isolation_level=None)) as db:
        db.execute("BEGIN")
        trace = Trace(path, db)
        mine = [free for step in trace.steps[every // 2 :: every] if (free := trace.free(step)) is not None]
        if not mine:
            raise LookupError("the GPU always has something to do")
        ns = int(more * sum(step.end - step.start for step in trace.steps) / len(mine))
        one.put(trace, mine, ns, _KERNELS * (1 if every == 1 else 4))
        trace.renumber()
        db.execute("COMMIT")


def said(capture: Path, other: Path, one: Plant, every: int, planted: Path, more: float) -> Said:
    """Compare the planted capture with the capture as it was, or with another run."""
    files = [resolve(str(path)) for path in (other, planted)]
    before, after = reduce_sides(files, Reading(cached=True))
    screen = " ".join(lines(with_words(compare(before, after))))
    change = max((int(found) for found in re.findall(r"\+(\d+)(?:\.\d+)? %", screen)), default=0)
    named = re.search(one.named, screen) is not None
    return Said(capture.stem, one.what, every, other != capture, screen, named, change >= 100 * SAID * more)


def measured(words: Sequence[str], more: float = MORE) -> list[Said]:
    """All plants in all captures."""
    found: list[Said] = []
    with tempfile.TemporaryDirectory(prefix="tracediff-plants-") as name:
        for word in words:
            capture, *others = [_unpacked(Path(part), Path(name)) for part in word.split("=")]
            for one in PLANTS:
                for every in one.often:
                    planted = Path(name) / f"longer_{len(found)}.sqlite"
                    try:
                        plant(capture, planted, one, every, more)
                    except LookupError as error:  # of a capture without ranges, say
                        print(f"{capture.stem}, {one.what}: {error}")
                        continue
                    found += [said(capture, other, one, every, planted, more) for other in (capture, *others)]
                    planted.unlink()
    return found


def _unpacked(path: Path, folder: Path) -> Path:
    if path.suffix != ".xz":
        return path
    out = folder / path.stem
    out.write_bytes(lzma.decompress(path.read_bytes()))
    return out


def table(found: Sequence[Said], more: float) -> list[str]:
    """What the page shows, in Markdown."""
    both = sum(one.named and one.sized for one in found)
    captures = len({one.capture for one in found})
    out = [
        f"{captures} captures, {100 * more:.0f} % longer: {both} of {len(found)} first screens name what was put in, and a change of"
        f" {100 * more * SAID:.0f} % or more.",
        "",
        "| planted | steps | first screens | with the change | with its cause |",
        "|-|-|-|-|-|",
    ]
    for one in PLANTS:
        for every in one.often:
            mine = [row for row in found if (row.what, row.every) == (one.what, every)]
            steps = "all" if every == 1 else f"every {every}th"
            counts = len(mine), sum(row.sized for row in mine), sum(row.named for row in mine)
            out.append(f"| {one.what} | {steps} | {' | '.join(map(str, counts))} |")
    return out


def main() -> None:
    """Plant, compare, print, write."""
    options = argparse.ArgumentParser(prog="python -m benchmarks.plants", description=__doc__)
    options.add_argument("captures", nargs="*", default=CAPTURES, metavar="CAPTURE[=OTHER]")
    options.add_argument("--more", type=float, default=MORE, help="how much longer, as a part of all steps")
    options.add_argument(
        "--out", type=Path, nargs="?", const=PAGE, help="write into this page, docs/nulls.md"
    )
    chosen = options.parse_args()
    found = measured(chosen.captures, chosen.more)
    for one in found:
        if not (one.named and one.sized):
            print(
                f"{one.capture}, {one.what}, every {one.every}, {'other' if one.beside else 'itself'}: {one.screen}"
            )
    print(*table(found, chosen.more), sep="\n")
    if chosen.out:
        fill(chosen.out, BEGIN, END, table(found, chosen.more))


if __name__ == "__main__":
    main()
