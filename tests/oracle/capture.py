"""Read one nsys SQLite export into plain lists."""

import re
import sqlite3
from collections import defaultdict
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PUSH_POP, START_END, DOMAIN_CREATE = 59, 60, 75
DEVICE_TO_HOST, PAGEABLE = 2, 0
FOREVER = 2**63 - 1
GIL_STATES = {"Waiting for GIL": "gil_wait", "Holding GIL": "gil_hold"}


def mask_numbers(text: str) -> str:
    """Replace every run of digits by N: `step 12 of 40` -> `step N of N`; of PyTorch's operators the name alone."""
    return re.sub(r"\d+", "N", re.sub(r"(?s), (seq|op_id) = [0-9]+(, .*)?\Z", "", text))


def process_of(thread: int) -> int:
    """Return a thread's process: globalTid with its 24 bits of thread id cleared."""
    return thread >> 24 << 24


@dataclass(frozen=True)
class Op:
    """One activity of one device: kernel, memcpy, memset, or a whole graph traced as one row."""

    kind: str
    name: str
    start: int
    end: int
    rank: int  # the process, as nsys's globalPid
    device: int
    stream: int
    correlation: int | None
    node: int | None
    comm: bool
    blocking_copy: bool  # device to host, with pageable memory at one end

    @property
    def launch(self) -> tuple[int, int | None]:
        """The key of the API call that launched it: (process, correlationId)."""
        return self.rank, self.correlation


@dataclass(frozen=True)
class Call:
    """One CUDA runtime or driver call of one host thread; the name has lost its version suffix."""

    name: str
    start: int
    end: int
    thread: int
    correlation: int | None

    @property
    def launch(self) -> tuple[int, int | None]:
        """The key that its ops carry too: (process, correlationId)."""
        return process_of(self.thread), self.correlation


@dataclass(frozen=True)
class Range:
    """One NVTX range; one that was never closed lasts for ever. `row` is its place in the table."""

    text: str
    start: int
    end: int
    thread: int
    row: int
    what: str  # gil_wait, gil_hold, gc, or place: any range that says where in the program a thread is


class Capture:
    """All that the accounting needs of one export, with the lookups made from it."""

    def __init__(self, ops: list[Op], calls: list[Call], ranges: list[Range], gil_captured: bool) -> None:
        self.ops, self.calls, self.ranges = ops, calls, ranges
        self.gil_captured = gil_captured
        self.gc_captured = any(item.what == "gc" for item in ranges)
        self.ops_of: dict[tuple[int, int | None], list[Op]] = defaultdict(list)
        self.calls_on: dict[int, list[Call]] = defaultdict(list)
        self.ranges_on: dict[tuple[int, str], list[Range]] = defaultdict(list)
        self.launching_call: dict[tuple[int, int | None], Call] = {}
        self.ops_on: dict[tuple[int, int], list[Op]] = defaultdict(list)
        for op in ops:
            self.ops_on[op.rank, op.device].append(op)
            if op.correlation is not None:
                self.ops_of[op.launch].append(op)
        for item in ranges:
            self.ranges_on[item.thread, item.what].append(item)
        for call in calls:
            self.calls_on[call.thread].append(call)
            known = self.launching_call.get(call.launch, call)
            if call.correlation is not None and (call.start, -call.end) <= (known.start, -known.end):
                self.launching_call[call.launch] = call  # the outermost: earliest start, then latest end

    def around(self, start: int, end: int) -> "Capture":
        """The same with those calls and ranges of a thread alone that reach into [start, end)."""
        found = copy(self)
        for name in ("calls_on", "ranges_on"):
            near = defaultdict(list)
            for key, items in getattr(self, name).items():
                near[key] = [item for item in items if item.start < end and item.end > start]
            setattr(found, name, near)
        return found


def _rows(db: sqlite3.Connection, table: str) -> list[dict[str, Any]]:
    """Return every row of a table as a dict, or nothing if the export does not have the table."""
    if not db.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (table,)).fetchone():
        return []
    cursor = db.execute(f'SELECT * FROM "{table}" ORDER BY rowid')
    columns = [column[0] for column in cursor.description]
    return [dict(zip(columns, row, strict=True)) for row in cursor]


def _read_ops(db: sqlite3.Connection, strings: dict[int | None, str]) -> list[Op]:
    ops = []
    for kind, table in (("kernel",) * 2, ("memcpy",) * 2, ("memset",) * 2, ("graph", "graph_trace")):
        for row in _rows(db, f"CUPTI_ACTIVITY_KIND_{table.upper()}"):
            short, full = (strings.get(row.get(column), "") for column in ("shortName", "demangledName"))
            pageable = PAGEABLE in (row.get("srcKind"), row.get("dstKind"))
            op = Op(
                kind=kind,
                name=short if kind == "kernel" else kind,
                start=row["start"],
                end=row["end"],
                rank=row.get("globalPid") or 0,
                device=row["deviceId"],
                stream=row["streamId"],
                correlation=row["correlationId"],
                node=row.get("graphNodeId"),
                comm=re.search(r"nccl|all_?reduce", f"{short} {full}", re.IGNORECASE) is not None,
                blocking_copy=row.get("copyKind") == DEVICE_TO_HOST and pageable,
            )
            ops.append(op)
    return ops


def _read_calls(db: sqlite3.Connection, strings: dict[int | None, str]) -> list[Call]:
    calls = []
    rows = _rows(db, "CUPTI_ACTIVITY_KIND_RUNTIME")
    for row in (row for row in rows if row["globalTid"] is not None):
        name = re.sub(r"(_pt(sz|ds))?(_v\d+)?$", "", strings.get(row["nameId"], ""))
        calls.append(Call(name, row["start"], row["end"], row["globalTid"], row["correlationId"]))
    return calls


def _read_ranges(db: sqlite3.Connection, strings: dict[int | None, str]) -> tuple[list[Range], bool]:
    """Read the ranges, and whether the GIL was traced: its domain exists even where no thread waited."""
    rows = [row for row in _rows(db, "NVTX_EVENTS") if row["globalTid"] is not None]
    domains, ranges = {}, []
    for row in rows:
        row["text"] = row["text"] if row["text"] is not None else strings.get(row.get("textId"), "")
        row["domain"] = process_of(row["globalTid"]), row["domainId"]
        if row["eventType"] == DOMAIN_CREATE:
            domains[row["domain"]] = row["text"]
    for number, row in enumerate(rows):
        if row["eventType"] in (PUSH_POP, START_END):
            what = "gc" if row["text"].startswith("Python GC") else "place"
            if domains.get(row["domain"]) == "GIL Trace":
                what = GIL_STATES.get(row["text"], "gil_other")
            end = FOREVER if row["end"] is None else row["end"]
            ranges.append(Range(row["text"], row["start"], end, row["globalTid"], number, what))
    return ranges, "GIL Trace" in domains.values()


def load(path: str | Path) -> Capture:
    """Read an export. Missing tables are empty; missing columns are null."""
    db = sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True)
    db.text_factory = lambda raw: raw.decode(errors="replace")  # names need not be UTF-8
    try:
        strings: dict[int | None, str] = {row["id"]: row["value"] for row in _rows(db, "StringIds")}
        ranges, gil_captured = _read_ranges(db, strings)
        return Capture(_read_ops(db, strings), _read_calls(db, strings), ranges, gil_captured)
    finally:
        db.close()
