"""Queries that show a finding in the export itself, in SQLite's dialect: a user runs them, this program does not."""

from __future__ import annotations

import re

from tracediff.formats.database import quoted
from tracediff.kernels.names import is_kernel
from tracediff.model.causes import CAUSES
from tracediff.trace.ranges import STEP_PLACE, beside

_RANGES = """SELECT n.start, n."end", n."end" - n.start AS ns, coalesce(n.text, s.value) AS range
FROM NVTX_EVENTS AS n LEFT JOIN StringIds AS s ON s.id = n.textId
WHERE n.eventType IN (59, 60) AND coalesce(n.text, s.value) {test}
ORDER BY ns DESC LIMIT 20;"""
_CALLS = """SELECT s.value AS call, count(*) AS calls, sum(r."end" - r.start) AS ns, max(r."end" - r.start) AS longest
FROM CUPTI_ACTIVITY_KIND_RUNTIME AS r JOIN StringIds AS s ON s.id = r.nameId
WHERE s.value LIKE {pattern}
GROUP BY s.value ORDER BY ns DESC;"""
_KERNELS = """SELECT s.value AS kernel, k.gridX, k.gridY, k.gridZ, count(*) AS launches, avg(k."end" - k.start) AS mean_ns
FROM CUPTI_ACTIVITY_KIND_KERNEL AS k JOIN StringIds AS s ON s.id = k.demangledName
WHERE s.value IN ({names})
GROUP BY 1, 2, 3, 4 ORDER BY launches DESC;"""
_COPIES = """SELECT copyKind, count(*) AS copies, sum(bytes) AS bytes, sum("end" - start) AS ns
FROM CUPTI_ACTIVITY_KIND_MEMCPY GROUP BY copyKind ORDER BY ns DESC;"""
LABELS = """SELECT coalesce(n.text, s.value) AS label, count(*) AS steps
FROM NVTX_EVENTS AS n LEFT JOIN StringIds AS s ON s.id = n.textId
WHERE coalesce(n.text, s.value) LIKE '%_forward_step%'
GROUP BY 1 ORDER BY 1;"""


def kernel_sql(names: list[str]) -> str:
    """Kernels by demangled name, or copies where the names are those of copies."""
    kernels = [name for name in names if is_kernel(name)]
    if not kernels:
        return _COPIES
    return _KERNELS.format(names=", ".join(quoted(name) for name in kernels[:8]))


def idle_sql(cause: str, place: str, holder_place: str, *, copies: bool = False) -> str:
    """The host's side of idle time at a place."""
    row = CAUSES[cause]
    if row.query == "calls":
        return _CALLS.format(pattern=quoted("cu%Mem%" if copies else row.pattern))
    if row.query == "ranges":
        return _RANGES.format(test=f"LIKE {quoted(row.pattern)}")
    if row.query == "holder":
        if not holder_place or beside(holder_place) is not None:
            return _RANGES.format(test="= 'Waiting for GIL'")
        return range_sql(holder_place)
    return range_sql(next(iter(beside(place) or []), place))


def range_sql(place: str) -> str:
    """The ranges of a place: a lone N stood for a number, any of which is meant."""
    exact = re.sub(r"([\\%_])", r"\\\1", place)
    pattern = re.sub(r"(?<![A-Za-z])N(?![A-Za-z])", "%", exact)
    if place == STEP_PLACE:  # labels of several generations are called so
        pattern = f"%{pattern}%"
    return _RANGES.format(test=f"LIKE {quoted(pattern)} ESCAPE '\\'")
