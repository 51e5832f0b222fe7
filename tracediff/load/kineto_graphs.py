"""CUDA graphs in the tables that a torch.profiler trace became: which ops are nodes, and which of them are copies."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

from tracediff.load.kineto_names import driver_copy

_GPU = ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET")
_LAUNCHES = ("cudaGraphLaunch", "cuGraphLaunch")

# A row of the kernels as one of the copies or memsets; 8 is DtoD, 2 the device's memory. Sizes are not recorded.
_COMMON = '"start", "end", deviceId, streamId, correlationId, graphNodeId, globalPid'
_AS = {
    "memcpy": f"""
        INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY ({_COMMON}, bytes, copyKind, srcKind, dstKind)
        SELECT {_COMMON}, NULL, 8, 2, 2 FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE demangledName = ? AND graphNodeId <> 0""",
    "memset": f"""
        INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET ({_COMMON}, bytes)
        SELECT {_COMMON}, NULL FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE demangledName = ? AND graphNodeId <> 0""",
}


def mark_nodes(db: sqlite3.Connection, strings: Mapping[str, int]) -> None:
    """Give every op that a graph launch started a graphNodeId, where the trace gives it none.

    Kineto names nodes since 2026; before, the nodes of a graph are the ops that share its launch.
    """
    launches = [one for text, one in strings.items() if text.startswith(_LAUNCHES)]
    if not launches:
        return
    db.execute(
        "CREATE TEMP TABLE launched AS SELECT DISTINCT correlationId AS corr FROM CUPTI_ACTIVITY_KIND_RUNTIME"
        f" WHERE nameId IN ({', '.join(map(str, launches))}) AND correlationId IS NOT NULL"
    )
    db.execute("CREATE UNIQUE INDEX temp.launched_corr ON launched (corr)")
    for table in _GPU:
        db.execute(
            f"UPDATE {table} SET graphNodeId = rowid WHERE coalesce(graphNodeId, 0) = 0"
            " AND correlationId IN (SELECT corr FROM launched)"
        )


def driver_kernels_to_copies(db: sqlite3.Connection, strings: Mapping[str, int]) -> None:
    """Make copies and memsets of the kernels by which the driver does those of a graph. After `mark_nodes`.

    CUPTI reports such a node as a copy or as a kernel, by its version and by whether it was there when the graph was
    made: of one program, nsys reports copies and torch.profiler kernels.
    """
    for text, one in strings.items():
        what = driver_copy(text)
        if what is not None:
            db.execute(_AS[what], (one,))
            db.execute(
                "DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE demangledName = ? AND graphNodeId <> 0", (one,)
            )
