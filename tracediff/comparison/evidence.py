"""Queries that show a finding in the export itself, in SQLite's dialect: a user runs them, this program does not."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tracediff.formats.database import quoted
from tracediff.kernels.names import is_kernel
from tracediff.model.causes import CAUSES
from tracediff.trace.threads import STEP_PLACE, beside

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
    return _RANGES.format(test=f"LIKE {_like(place)}")


def _pattern(place: str) -> str:
    """The LIKE pattern of the texts of a place."""
    pattern = re.sub(r"(?<![A-Za-z])N(?![A-Za-z])", "%", _literal(place))
    # labels of several generations are called so
    return f"%{pattern}%" if place == STEP_PLACE else pattern


def _literal(text: str) -> str:
    """A text that stands for itself in a LIKE pattern."""
    return re.sub(r"([\\%_])", r"\\\1", text)


# The same of one step of one run: events that add up to what the accounting has of a cause in that step.


@dataclass(frozen=True)
class Window:
    """A step of one device in an export: [start_ns, end_ns). kinds: of its ops (kernel, memcpy, memset, graph): tables that are there.

    threads, holders: global thread ids; the holder's are of a wait for the GIL. nvtx: whether the export has ranges.
    """

    start_ns: int
    end_ns: int
    device: int
    kinds: tuple[str, ...]
    threads: tuple[int, ...]
    holders: tuple[int, ...] = ()
    nvtx: bool = True

    @property
    def process(self) -> int:
        """The globalPid of its threads."""
        return self.threads[0] & ~0xFFFFFF


KINDS = ("kernel", "memcpy", "memset", "graph")  # of ops, by the number of the kind
_TABLES = {
    "kernel": "CUPTI_ACTIVITY_KIND_KERNEL",
    "memcpy": "CUPTI_ACTIVITY_KIND_MEMCPY",
    "memset": "CUPTI_ACTIVITY_KIND_MEMSET",
    "graph": "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
}
_OPS = """SELECT start, "end", correlationId AS corr FROM {table}
  WHERE deviceId = {device} AND globalPid = {process} AND start <= {stop} AND "end" > {begin}"""
# Gaps of the GPU that end with an op which the thread launched; the launching call; what the threads did; all of it cut
# where anything changes.
_PIECES = """WITH op AS (
  {ops}
), free AS (
  SELECT start, corr, lag(corr) OVER turn = corr AS of_graph,
    max("end") OVER (ORDER BY start, "end" ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS idle_from
  FROM op WINDOW turn AS (ORDER BY start, "end")
), gap AS (
  SELECT f.idle_from AS start, f.start AS "end", max(coalesce(f.of_graph, 0)) AS of_graph, min(r.start) AS call_start, max(r."end") AS call_end
  FROM free AS f JOIN CUPTI_ACTIVITY_KIND_RUNTIME AS r ON r.correlationId = f.corr AND r.globalTid IN ({threads})
  WHERE f.start > f.idle_from GROUP BY 1, 2
), event AS (
  SELECT r.globalTid AS tid, 'call' AS kind, r.start, r."end", s.value AS name
  FROM CUPTI_ACTIVITY_KIND_RUNTIME AS r JOIN StringIds AS s ON s.id = r.nameId
  WHERE r.globalTid IN ({threads}) AND r.start < {stop} AND r."end" > {begin}{nvtx}
), edge AS (
  SELECT start AS t FROM event UNION SELECT "end" FROM event UNION SELECT start FROM gap
  UNION SELECT "end" FROM gap UNION SELECT call_start FROM gap UNION SELECT call_end FROM gap
), piece AS (
  SELECT e.start, e."end", g.of_graph, g.start AS gap_start, g.call_start, g.call_end
  FROM (SELECT t AS start, lead(t) OVER (ORDER BY t) AS "end" FROM edge) AS e JOIN gap AS g ON e.start >= g.start AND e."end" <= g."end"
), found AS (
  SELECT p.*,
    (SELECT name FROM event AS e WHERE kind = 'call' AND e.start <= p.start AND e."end" > p.start ORDER BY e.start, e."end" DESC LIMIT 1) AS call,
    (SELECT name FROM event AS e WHERE kind = 'range' AND tid IN ({threads}) AND e.start <= {at} AND e."end" > {at} ORDER BY e.start DESC, e."end" LIMIT 1) AS range,
    EXISTS (SELECT 1 FROM event AS e WHERE kind = 'gc' AND e.start <= p.start AND e."end" > p.start) AS gc,
    EXISTS (SELECT 1 FROM event AS e WHERE kind = 'wait' AND e.start <= p.start AND e."end" > p.start) AS wait{holder}
  FROM piece AS p
)
SELECT start, "end", "end" - start AS ns, range, call{holder_columns}
FROM found
WHERE {test}
ORDER BY start;"""
_NVTX = """
  UNION ALL
  SELECT n.globalTid, CASE WHEN n.globalTid NOT IN ({threads}) AND coalesce(n.text, s.value) = 'Waiting for GIL' THEN 'other'
      WHEN coalesce(n.text, s.value) = 'Waiting for GIL' THEN 'wait' WHEN coalesce(n.text, s.value) = 'Holding GIL' THEN 'hold'
      WHEN coalesce(n.text, s.value) LIKE 'Python GC%' THEN CASE WHEN n.globalTid IN ({threads}) THEN 'gc' ELSE 'other' END
      ELSE 'range' END, n.start, n."end", coalesce(n.text, s.value)
  FROM NVTX_EVENTS AS n LEFT JOIN StringIds AS s ON s.id = n.textId
  WHERE n.eventType IN (59, 60) AND {whose}
    AND n.start < {until} AND n."end" > (SELECT min({since}, min(call_start)) FROM gap)"""
_HOLDER = """,
    (SELECT tid FROM event AS e WHERE kind = 'hold' AND e.start <= p.start AND tid NOT IN ({threads}) ORDER BY e.start DESC LIMIT 1) AS holder,
    (SELECT name FROM event AS e WHERE kind = 'range' AND tid IN ({holders}) AND e.start <= p.start AND e."end" > p.start ORDER BY e.start DESC, e."end" LIMIT 1) AS holder_range"""
_STEP_KERNELS = """SELECT k.start, k."end", k."end" - k.start AS ns, s.value AS kernel, k.gridX, k.gridY, k.gridZ, k.streamId
FROM CUPTI_ACTIVITY_KIND_KERNEL AS k JOIN StringIds AS s ON s.id = k.demangledName
WHERE k.deviceId = {device}{process} AND k.start >= {begin} AND k.start < {stop}
  AND (s.value, k.gridX, k.gridY, k.gridZ) IN (VALUES {ops})
ORDER BY k.start;"""
_STEP_COPIES = """SELECT start, "end", "end" - start AS ns, {what}
FROM {table}
WHERE deviceId = {device}{process} AND start >= {begin} AND start < {stop}{kind}
ORDER BY start;"""
_COPY_KINDS = ("", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP",
               "unified HtoD", "unified DtoH", "unified DtoD")  # fmt: skip
_COPIES_OR_SETS = "(call LIKE 'cu%Memcpy%' OR call LIKE 'cu%Memset%')"
_LAUNCHES = "(call LIKE 'cu%Launch%' OR call LIKE 'cu%Memcpy%Async%' OR call LIKE 'cu%Memset%')"
_WAITS = "(call LIKE 'cu%Synchronize%' OR call LIKE 'cu%Memcpy%' AND call NOT LIKE '%Async%')"
_UNTIL_RETURN = "NOT of_graph AND call_end > gap_start AND start < call_end"
_OF_CALLS = f"{_UNTIL_RETURN} AND NOT gc AND NOT wait"
_BEFORE_CALL = f"{_OF_CALLS} AND start < call_start"
_TESTS = {
    "graph_internal": "of_graph",
    "dependency": "NOT of_graph AND call_end <= gap_start",
    "launch_latency": "NOT of_graph AND call_end > gap_start AND start >= call_end",
    "launch_api": f"{_OF_CALLS} AND (start >= call_start OR {_LAUNCHES})",
    "host_sync": f"{_BEFORE_CALL} AND {_WAITS}",
    "host_api": f"{_BEFORE_CALL} AND call IS NOT NULL AND NOT {_LAUNCHES} AND NOT {_WAITS}",
    "host_work": f"{_BEFORE_CALL} AND call IS NULL",
    "gc": f"{_UNTIL_RETURN} AND gc",
    "gil_wait": f"{_UNTIL_RETURN} AND wait AND NOT gc",
}
_AT_LAUNCH = (
    "graph_internal",
    "dependency",
    "launch_latency",
)  # named by the range in which the launching call began


def idle_of_step(
    cause: str,
    places: Sequence[str],
    holder_places: Sequence[str],
    window: Window,
    *,
    copies: bool | None = None,
    with_gil: bool = True,
) -> str:
    """The pieces of idle time of one cause in a step, on the export itself; '' where no such query is known.

    places, holder_places: the places of ranges that count, none: any. copies: of time in launching calls, those that copy, or the
    others. with_gil: waits for the GIL are a cause of their own, not what the time would be without the GIL's trace.
    """
    if cause not in _TESTS or not window.threads:
        return ""
    numbers: dict[str, Any] = {
        "begin": window.start_ns, "stop": window.end_ns, "device": window.device, "process": window.process,
        "threads": ", ".join(map(str, window.threads)), "holders": ", ".join(map(str, window.holders)),
    }  # fmt: skip
    length = window.end_ns - window.start_ns
    wide = length if any(beside(place) is not None for place in (*places, *holder_places)) else 0
    numbers |= {"since": window.start_ns - wide, "until": window.end_ns + wide}  # to see the ranges beside
    with_holder = cause == "gil_wait" and bool(window.holders)
    whose = "(n.globalTid & ~16777215) = {process}" if cause == "gil_wait" else "n.globalTid IN ({threads})"
    tests = [_TESTS[cause] if with_gil else _TESTS[cause].replace(" AND NOT wait", "")]
    if places:
        tests.append(_in_places("range", places, numbers["threads"]))
    if cause == "launch_api" and copies is not None:
        tests.append(_COPIES_OR_SETS if copies else f"NOT {_COPIES_OR_SETS}")
    if with_holder:
        tests.append("holder IN ({holders})".format(**numbers))
        if holder_places:
            tests.append(_in_places("holder_range", holder_places, numbers["holders"]))
    ops = "\n  UNION ALL ".join(_OPS.format(table=_TABLES[kind], **numbers) for kind in window.kinds)
    return _PIECES.format(
        ops=ops,
        nvtx=_NVTX.format(whose=whose.format(**numbers), **numbers) if window.nvtx else "",
        at="p.call_start" if cause in _AT_LAUNCH else "p.start",
        holder=_HOLDER.format(**numbers) if with_holder else "",
        holder_columns=", holder, holder_range" if with_holder else "",
        test=" AND ".join(tests),
        **numbers,
    )


_NEIGHBOUR = """(SELECT name FROM event AS e WHERE kind = 'range' AND tid IN ({tids}) AND {turn} LIMIT 1)"""
_BEFORE = 'e."end" <= found.start ORDER BY e."end" DESC, e.start'
_AFTER = 'e.start >= found."end" ORDER BY e.start, e."end" DESC'


def _in_places(column: str, places: Sequence[str], tids: str) -> str:
    tests = [_in_place(column, place, tids) for place in places]
    return tests[0] if len(tests) == 1 else f"({' OR '.join(tests)})"


def _in_place(column: str, place: str, tids: str) -> str:
    """A test that a column is a range of a place; outside all ranges it is NULL, and the ranges beside it are tested."""
    around = beside(place)
    if around is None:
        return f"{column} LIKE {_like(place)}"
    tests = [f"{column} IS NULL"]
    turns = [_BEFORE, _AFTER] if len(around) == 2 else [_AFTER if ", before " in place else _BEFORE]
    tests += [
        f"{_NEIGHBOUR.format(tids=tids, turn=turn)} LIKE {_like(name)}"
        for name, turn in zip(around, turns, strict=False)
    ]
    return " AND ".join(tests)


def _like(place: str) -> str:
    return f"{quoted(_pattern(place))} ESCAPE '\\'"


_MOST_OPS = 24  # that a query names


def ops_of_step(ops: Sequence[tuple[str, str]], window: Window) -> str:
    """The ops of a name and grid (`x,y,z`) that begin in a step, on the export itself: kernels, or copies where there are none."""
    numbers = {
        "begin": window.start_ns, "stop": window.end_ns, "device": window.device,
        "process": f" AND globalPid = {window.process}" if window.threads else "",
    }  # fmt: skip
    kernels = [(name, grid) for name, grid in ops if is_kernel(name) and grid]
    if kernels:
        wanted = ", ".join(
            f"({quoted(name)}, {grid.replace(',', ', ')})" for name, grid in kernels[:_MOST_OPS]
        )
        return _STEP_KERNELS.format(ops=wanted, **numbers)
    names = [name for name, _ in ops]
    copies = [_COPY_KINDS.index(name[8:-1]) for name in names if name[8:-1] in _COPY_KINDS]
    if "[memset]" in names and not copies:
        return _STEP_COPIES.format(table=_TABLES["memset"], what="bytes, streamId", kind="", **numbers)
    if not copies:
        return ""
    kind = f" AND copyKind IN ({', '.join(map(str, copies))})"
    return _STEP_COPIES.format(
        table=_TABLES["memcpy"], what="copyKind, bytes, streamId", kind=kind, **numbers
    )


# The same for `tracediff query`, whose tables have causes, roles and places.

_IDLE_QUERY = """SELECT p.number, p.period_ns, i.cause, i.thread, i.place, i.holder, i.holder_place, i.pieces, i.idle_ns
FROM idle AS i JOIN period AS p USING (capture, "rank", device, step)
WHERE p.start_ns = {begin} AND p.device = {device} AND i.{column} = {cause} AND i.thread = {thread}{more};"""
_OP_QUERY = """SELECT o.start_ns, o.duration_ns, o.short_name, o.grid, o.stream, o.name
FROM op AS o JOIN period AS p USING (capture, pid, device, step)
WHERE p.start_ns = {begin} AND p.device = {device} AND (o.name, coalesce(o.grid, '')) IN ({ops})
ORDER BY o.start_ns;"""


def idle_query(
    cause: str,
    thread: str,
    places: Sequence[str],
    holder: str,
    holder_places: Sequence[str],
    window: Window,
    *,
    with_gil: bool = True,
) -> str:
    """What `idle` has of a cause and its places in a step; none: any place. with_gil: as of `idle_of_step`."""
    named = (("place", places), ("holder", [holder] if holder else []), ("holder_place", holder_places))
    more = "".join(f" AND i.{name} IN ({', '.join(map(quoted, values))})" for name, values in named if values)
    return _IDLE_QUERY.format(
        begin=window.start_ns,
        device=window.device,
        cause=quoted(cause),
        thread=quoted(thread),
        more=more,
        column="cause" if with_gil else "cause_no_gil",
    )


def op_query(ops: Sequence[tuple[str, str]], window: Window) -> str:
    """The ops of a name and grid in a step."""
    wanted = ", ".join(f"({quoted(name)}, {quoted(grid)})" for name, grid in ops[:_MOST_OPS])
    return _OP_QUERY.format(begin=window.start_ns, device=window.device, ops=wanted)
