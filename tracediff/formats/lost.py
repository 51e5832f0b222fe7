"""CUDA calls that the profiler lost: it goes on without a word where it fails, but CUPTI has numbered them."""

from __future__ import annotations

import duckdb

from tracediff.formats.database import sql
from tracediff.model import Note
from tracediff.model.common import CALLS_LOST

MOST = 0.5  # of the calls of a process: what is left tells nothing of the program
FLUSH = "--cuda-flush-interval=1000"  # ms; without it nsys 2023.4 lost nearly all calls of programs recorded to their end


def calls_lost(db: duckdb.DuckDBPyConnection, name: str) -> tuple[list[Note], float]:
    """What is said of processes whose calls were not recorded for a while, the one that lost the largest part of its calls first, and that part."""
    found = db.execute(sql("formats/call_lost")).fetchall()
    notes = [
        Note(
            CALLS_LOST,
            f"{name}: from {start / 1e9:.3f} to {end / 1e9:.3f} s CUDA calls of process {pid} were not recorded, {lost:,} of"
            f" {calls:,} by their numbers (CUPTI_ACTIVITY_KIND_RUNTIME.correlationId), nor what they launched:"
            f" record with {FLUSH}, a shorter window, or a newer nsys",
        )
        for pid, lost, calls, start, end, _ in found
    ]
    return notes, max((lost / calls for _, lost, calls, *_ in found), default=0.0)
