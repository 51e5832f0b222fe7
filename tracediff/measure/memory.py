"""How many exports may be in memory at once: as many as a budget holds, and always one."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from tracediff.load import columnar
from tracediff.load.capture import LARGE

# Two large exports side by side use both halves of a processor; more than this is asked of no machine for it. Two of
# 5 million kernels each fit.
_MOST = 2 * 2**30
_BASE = 350 * 2**20  # the interpreter, DuckDB, polars

# Bytes a row; measured. What counts are arrays of ops and calls, and ranges, most of which are the GIL's trace and go before
# gaps are cut. Tables of a large export lie in a file (load/capture.py), of which little is in memory.
_KERNELS, _CALLS, _RANGES = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS"
_LOADED = {_RANGES: 40, _KERNELS: 125, _CALLS: 40}
_LOADED_IN_FILE = {**_LOADED, _RANGES: 8}
_REDUCED = {_RANGES: 2, _KERNELS: 125, _CALLS: 30}
_PACKED = 20  # an export grows by this when it is unpacked or made from a report
# Traces of torch.profiler: some 300 bytes of text an event, of which gzip leaves some 20.
_PACKED_TRACE = {".json": 0.5, ".gz": 8.0}


class Budget:
    """Memory that exports share: `lease` waits until there is room, or until nobody else holds any."""

    def __init__(self, total: int | None = None) -> None:
        self._total = _default() if total is None else total
        self._used = 0
        self._changed = threading.Condition()

    def together(self, size: int) -> int:
        """How many leases of a size can be held at once, at least one."""
        return max(self._total // size, 1) if size else 1 << 16

    def holds(self, size: int) -> bool:
        """Whether a lease of a size stays within the budget."""
        return size <= self._total

    @contextmanager
    def lease(self, size: int) -> Iterator[Lease]:
        """Hold `size` bytes until the end of the block; `Lease.shrink` gives a part back before."""
        with self._changed:
            self._changed.wait_for(lambda: self._used == 0 or self._used + size <= self._total)
            self._used += size
        held = Lease(self, size)
        try:
            yield held
        finally:
            held.shrink(0)

    def _give_back(self, size: int) -> None:
        with self._changed:
            self._used -= size
            self._changed.notify_all()


class Lease:
    """A part of a budget."""

    def __init__(self, budget: Budget, size: int) -> None:
        self._budget, self.size = budget, size

    def shrink(self, size: int) -> None:
        """Keep at most `size` bytes of it."""
        less = max(self.size - size, 0)
        self.size -= less
        self._budget._give_back(less)


def needed(path: Path) -> tuple[int, int]:
    """Bytes of memory that an export takes while it is loaded, and once its tables are read: an estimate."""
    rows = _row_counts(path)
    if rows is None:
        grows = _PACKED_TRACE.get(path.suffix, _PACKED)
        size = int(path.stat().st_size * grows) if path.is_file() else 0
        return size, size
    loaded = _LOADED_IN_FILE if columnar.size(path) >= LARGE else _LOADED
    return _size(rows, loaded), _size(rows, _REDUCED)


def _size(rows: dict[str, int], cost: dict[str, int]) -> int:
    return sum(rows[table] * bytes_a_row for table, bytes_a_row in cost.items())


def _row_counts(path: Path) -> dict[str, int] | None:
    """Highest row number of each table, which SQLite finds without reading it; None where it is no plain export."""
    counts = dict.fromkeys(_REDUCED, 0)
    if path.is_dir():
        return _row_counts_of_folder(path)
    if not path.is_file() or path.suffix != ".sqlite":
        return None
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as db:
            present = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            for table in present & _REDUCED.keys():
                counts[table] = int(
                    db.execute(f'SELECT coalesce(max(rowid), 0) FROM "{table}"').fetchone()[0]
                )
    except sqlite3.Error:
        return None  # the loader says what is wrong with it
    return counts


def _row_counts_of_folder(folder: Path) -> dict[str, int] | None:
    import polars as pl

    files = columnar.tables(folder)
    try:
        return {table: columnar.estimated_rows(files[table]) if table in files else 0 for table in _REDUCED}
    except (OSError, pl.exceptions.PolarsError):
        return None  # the loader says what is wrong with it


def _default() -> int:
    try:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        free = 0
    return max(min(_MOST, free // 2) - _BASE, 0)
