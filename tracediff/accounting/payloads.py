"""Numbers that a program gave to its NVTX ranges, as a table of the steps in which the ranges began."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracediff.accounting.grouping import stretches
from tracediff.accounting.windows import Windows
from tracediff.formats.capture import Capture
from tracediff.formats.database import frame
from tracediff.trace.ranges import Places
from tracediff.trace.threads import Thread

PAYLOADS = {
    "stratum": pl.Int64, "thread": pl.String, "place": pl.String, "domain": pl.String, "count": pl.Int64,
    "sum": pl.Float64, "low": pl.Float64, "high": pl.Float64,
}  # fmt: skip
_BY = ["stratum", "thread", "place", "domain"]
_TOTALS = (pl.col("count", "sum").sum(), pl.col("low").min(), pl.col("high").max())
_ROWS = """
SELECT p.start_ns, p.tid, p.label::BIGINT AS label, p.value, coalesce(d.name, '') AS domain
FROM payload AS p
LEFT JOIN nvtx_domain AS d ON d.pid = (p.tid >> 24 & 16777215)::INTEGER AND d.domain = p.domain
WHERE p.rowid >= ? AND p.rowid < ? ORDER BY p.rowid
"""


def payload_table(
    capture: Capture, windows: Windows, places: Places, threads: dict[int, Thread]
) -> pl.DataFrame:
    """PAYLOADS: of ranges of known threads, in the step in which each began."""
    names = np.array(places.names, object)
    parts = [pl.DataFrame(schema=PAYLOADS)]
    for low, high in stretches(capture.count("payload")):
        rows = frame(capture.db, _ROWS, [low, high])
        for (tid,), mine in rows.group_by("tid", maintain_order=True):
            thread = threads.get(int(str(tid)))
            if thread is None:
                continue
            value = mine["value"].to_numpy()
            table = pl.DataFrame(
                {
                    "stratum": windows.stratum(thread.pid, mine["start_ns"].to_numpy()),
                    "thread": [thread.role] * len(mine),
                    "place": names[places.ids(mine["label"].to_numpy())].tolist(), "domain": mine["domain"],
                    "count": np.ones(len(mine), np.int64), "sum": value, "low": value, "high": value,
                },
                schema=PAYLOADS,
            )  # fmt: skip
            parts.append(
                table.filter(pl.col("stratum") >= 0).group_by(_BY, maintain_order=True).agg(_TOTALS).sort(_BY)
            )
    return pl.concat(parts).group_by(_BY, maintain_order=True).agg(_TOTALS).sort(_BY)
