"""What shows a finding: SQL for the export itself, and what to look at next."""

from __future__ import annotations

import re

from tracediff.formats.database import quoted

NEXT = {
    "kernel_time": "profile this kernel with Nsight Compute on both sides (ncu -k) and compare occupancy and traffic",
    "kernel_fused": "check that the fused kernel does the same work; compare it in Nsight Compute with the sum of the others",
    "kernel_split": "find out why one kernel became several (a fusion pass that no longer fires, a changed shape)",
    "kernel_added": "find who launches it: its range and the launching call are in the kernel table",
    "kernel_removed": "check that its work is done elsewhere, or was not needed",
    "comm": "compare ranks: time in a collective is mostly waiting for the rank that comes last",
    "memcpy": "find the copy's launching range; make it asynchronous from pinned memory, overlap it, or drop it",
    "launch_api": "count the launches a step: CUDA graphs or fewer, larger kernels cut this time",
    "launch_latency": "the GPU was empty when the work came: launch earlier (overlap scheduler) or use CUDA graphs",
    "dependency": "look at what the op waited for: another stream, an event, a peer",
    "graph_internal": "fewer nodes, or programmatic dependent launch, shorten the gaps inside a graph",
    "host_sync": "find the call in the range named here and remove the synchronisation or move it off the step's path",
    "host_api": "find the call (allocation, event, query) in the range named here and take it out of the step",
    "gc": "freeze or disable the collector in the executor (gc.freeze, TRTLLM_WORKER_DISABLE_GC=1), or collect between batches",
    "gil_wait": "move the holder's work to another process, or release the GIL in it",
    "host_work": "profile the Python code of the range named here (py-spy, or finer NVTX ranges)",
    "unattributed": "capture the CUDA API as well (nsys -t cuda) so that idle time finds its cause",
    "batch_mix": "run both sides with the same requests and arrival times before comparing totals",
}

_NVTX = """SELECT n.start, n."end", n."end" - n.start AS ns, coalesce(n.text, s.value) AS range
FROM NVTX_EVENTS AS n LEFT JOIN StringIds AS s ON s.id = n.textId
WHERE n.eventType IN (59, 60) AND coalesce(n.text, s.value) {test}
ORDER BY ns DESC LIMIT 20;"""
_API = """SELECT s.value AS call, count(*) AS calls, sum(r."end" - r.start) AS ns, max(r."end" - r.start) AS longest
FROM CUPTI_ACTIVITY_KIND_RUNTIME AS r JOIN StringIds AS s ON s.id = r.nameId
WHERE s.value {test}
GROUP BY s.value ORDER BY ns DESC;"""
_KERNEL = """SELECT s.value AS kernel, k.gridX, k.gridY, k.gridZ, count(*) AS launches, avg(k."end" - k.start) AS mean_ns
FROM CUPTI_ACTIVITY_KIND_KERNEL AS k JOIN StringIds AS s ON s.id = k.demangledName
WHERE s.value IN ({names})
GROUP BY 1, 2, 3, 4 ORDER BY launches DESC;"""
_COPY = """SELECT copyKind, count(*) AS copies, sum(bytes) AS bytes, sum("end" - start) AS ns
FROM CUPTI_ACTIVITY_KIND_MEMCPY GROUP BY copyKind ORDER BY ns DESC;"""


def range_sql(place: str) -> str:
    """SQL for the NVTX ranges of a place (masked numbers match any)."""
    return _NVTX.format(test=_matching(place))


def api_sql(pattern: str) -> str:
    """SQL for CUDA calls whose name matches a LIKE pattern."""
    return _API.format(test=f"LIKE {quoted(pattern)}")


def kernel_sql(names: list[str]) -> str:
    """SQL for kernels by demangled name, or for copies where the names are those of copies."""
    kernels = [name for name in names if not name.startswith("[")]
    if not kernels:
        return _COPY
    return _KERNEL.format(names=", ".join(quoted(name) for name in kernels[:8]))


def idle_sql(cause: str, place: str, holder_place: str) -> str:
    """SQL that shows the host side of an idle cause."""
    if cause == "gc":
        return _NVTX.format(test="LIKE 'Python GC%'")
    if cause == "gil_wait":
        shown = (
            _matching(holder_place)
            if holder_place and "outside" not in holder_place
            else "= 'Waiting for GIL'"
        )
        return _NVTX.format(test=shown)
    if cause in ("launch_api", "launch_latency", "graph_internal", "dependency"):
        return api_sql("cu%Launch%")
    if cause == "host_sync":
        return api_sql("cu%Synchronize%")
    if cause == "host_api":
        return api_sql("cu%")
    ranges = [
        part
        for part in place.replace("outside any range", "").replace(", between ", "").split(" and ")
        if part
    ]
    return range_sql(ranges[0] if "outside" in place and ranges else place)


def _matching(place: str) -> str:
    """The LIKE test of a masked place: a lone N stood for a number."""
    exact = re.sub(r"([\\%_])", r"\\\1", place)
    pattern = re.sub(r"(?<![A-Za-z])N(?![A-Za-z])", "%", exact)
    return f"LIKE {quoted(f'%{pattern}%' if '_forward_step' in place else pattern)} ESCAPE '\\'"
