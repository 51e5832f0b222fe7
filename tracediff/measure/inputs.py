"""What a file holds and what a comparison could say of it, from its counts: nothing is loaded or measured."""

from __future__ import annotations

from pathlib import Path

import duckdb

from tracediff.align.kernel_categories import category
from tracediff.align.step_sources import PRESETS, SOURCES, StepLabels
from tracediff.load.contents import Seen, looked_into
from tracediff.load.database import quoted
from tracediff.model.contents import Answer, Contents, Device, Domain, Steps, Table, Trace

_GC_FLAG = "-t nvtx, with the program labelling its collections (TensorRT-LLM: TLLM_PROFILE_RECORD_GC=1; docs/capture.md)"
# Kind of trace -> (what is counted, what of nsys profile records it). Flags of 2024.6 and newer behind "or".
_TRACES = {
    "kernels": ("kernels", "-t cuda"),
    "kernels inside CUDA graphs": ("nodes", "--cuda-graph-trace=node"),
    "CUDA calls": ("calls", "-t cuda"),
    "copies": ("copies", "-t cuda"),
    "memsets": ("memsets", "-t cuda"),
    "synchronisation": ("waits", "-t cuda"),
    "NVTX ranges": ("ranges", "-t nvtx"),
    "Python's GIL": ("holds and waits", "-t python-gil"),
    "Python garbage collection": ("collections", _GC_FLAG),
    "GPU metrics": ("samples", "--gpu-metrics-device=all, or --gpu-metrics-devices=all"),
    "GPU memory usage": ("events", "--cuda-memory-usage=true"),
    "GPU context switches": ("switches", "--gpuctxsw=true"),
    "operating system calls": ("calls", "-t osrt (gigabytes in seconds)"),
    "CPU context switches": ("switches", "--cpuctxsw=process-tree"),
    "CPU samples": ("samples", "--sample=process-tree"),
}
_TORCH_FLAGS = {
    "kernels": "activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]",
    "CUDA calls": "activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]",
    "NVTX ranges": "record_function, or profile.step()",
    "Python garbage collection": 'experimental_config=_ExperimentalConfig(record_python_gc_info=True), or record_function("Python GC")',
}
_SEPARATE = ("kernels", "CUDA calls", "NVTX ranges", "Python's GIL", "Python garbage collection")
_INSIDE = "kernels inside CUDA graphs"


def contents(path: Path, scratch: Path) -> Contents:
    """What an export of nsys or a trace of torch.profiler holds. Raises `TracediffError`: those of `load_capture`."""
    with looked_into(path, scratch) as seen:
        recorder = "torch.profiler" if seen.torch else "Nsight Systems"
        steps = _steps(seen)
        graphs = seen.number(
            "SELECT sum(calls) FROM call_seen WHERE regexp_matches(name, '^cu(da)?GraphLaunch')"
        )
        traces = _traces(seen, graphs)
        start, end = _span(seen)
        return Contents(
            recorder=recorder,
            recorder_version=_one(seen, "EXPORT_PRODUCT_VERSION").removeprefix(recorder).strip(" ,"),
            schema_version=seen.schema.version,
            driver_version="" if (driver := _one(seen, "NvDriverVersion")) == "0" else driver,  # no driver
            start_ns=start,
            end_ns=end,
            devices=_devices(seen),
            processes=seen.number(
                "SELECT count(DISTINCT pid) FROM (SELECT pid FROM kernel_seen UNION SELECT pid FROM call_seen"
                " UNION SELECT (tid >> 24 & 16777215)::INTEGER FROM range_seen)"
            ),
            traces=traces,
            domains=_domains(seen),
            graph_mode=_graph_mode(seen, graphs, traces),
            steps=steps,
            tables=[Table(name, count) for name, count in sorted(seen.rows.items()) if count],
            answers=_answers(seen, {one.name: one for one in traces}, steps, graphs),
        )


def _one(seen: Seen, name: str) -> str:
    return ", ".join(seen.meta.get(name, ()))


def _text(raw: bytes) -> str:
    """A text of an export, which need not be UTF-8: DuckDB gives those as bytes alone."""
    return raw.decode("utf-8", "replace")


def _span(seen: Seen) -> tuple[int | None, int | None]:
    row = seen.db.execute(
        "SELECT min(start_ns), max(end_ns) FROM (SELECT start_ns, end_ns FROM kernel_seen"
        " UNION ALL SELECT start_ns, end_ns FROM call_seen UNION ALL SELECT start_ns, end_ns FROM range_seen)"
    ).fetchone()
    return (None, None) if row is None else (row[0], row[1])


def _devices(seen: Seen) -> list[Device]:
    """GPUs with kernels; where there are none, those of the machine."""
    used = seen.db.execute(
        "SELECT DISTINCT k.device, encode(coalesce(d.name, '')) FROM kernel_seen AS k LEFT JOIN device AS d USING (device) ORDER BY 1"
    ).fetchall()
    if not used:
        used = seen.db.execute("SELECT device, encode(coalesce(name, '')) FROM device ORDER BY 1").fetchall()
    return [Device(number, _text(model)) for number, model in used if number is not None]


def _domains(seen: Seen) -> list[Domain]:
    rows = seen.db.execute(
        "SELECT encode(domain), sum(ranges)::BIGINT FROM range_seen GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 100"
    ).fetchall()
    return [Domain(_text(name), ranges) for name, ranges in rows]


def _traces(seen: Seen, graphs: int) -> list[Trace]:
    """Every kind of trace; `graphs`: launches of CUDA graphs, without which no flag would record kernels inside of them."""
    counts = {
        "kernels": seen.number("SELECT sum(kernels) FROM kernel_seen"),
        _INSIDE: seen.number("SELECT sum(kernels) FROM kernel_seen WHERE node"),
        "CUDA calls": seen.number("SELECT sum(calls) FROM call_seen"),
        "NVTX ranges": seen.number("SELECT sum(ranges) FROM range_seen WHERE NOT gil AND NOT gc"),
        "Python's GIL": seen.number("SELECT sum(ranges) FROM range_seen WHERE gil"),
        "Python garbage collection": seen.number("SELECT sum(ranges) FROM range_seen WHERE gc"),
    }
    found = []
    for name, (unit, flag) in _TRACES.items():
        count = counts[name] if name in counts else seen.any_rows(name)
        how = _TORCH_FLAGS.get(name, "nsys: torch.profiler does not record it") if seen.torch else flag
        if name == _INSIDE and not graphs and counts["kernels"]:
            how = ""
        found.append(Trace(name, count > 0, count, unit, "" if count else how))
    return found


def _graph_mode(seen: Seen, launches: int, traces: list[Trace]) -> str:
    """Node, graph, '' where no graph was launched and nothing says how one would have been traced."""
    if any(one.name == _INSIDE and one.captured for one in traces):
        return "node"
    if seen.any_rows("whole graphs") or launches:
        return "graph"
    return _one(seen, "CUDA_GRAPH_TRACE_OPTIONS:MODE").lower()


def _steps(seen: Seen) -> Steps | None:
    """The first source of labels that matches, in the order in which a comparison tries them."""
    for source in SOURCES:
        found = _labels(seen, source, least=1)
        if found:
            return found
    for source in PRESETS:
        found = _labels(seen, source, least=2)
        if found:
            return found
    return None


def _labels(seen: Seen, source: StepLabels, least: int) -> Steps | None:
    try:
        row = seen.db.execute(
            "WITH threads AS (SELECT tid, sum(ranges)::BIGINT AS labels FROM range_seen"
            f" WHERE NOT gil AND NOT gc AND regexp_matches(text, {quoted(source.pattern)}) GROUP BY tid)"
            " SELECT max(labels), count(DISTINCT tid >> 24 & 16777215) FROM threads"
        ).fetchone()
    except duckdb.Error:
        return None
    if row is None or not row[0] or row[0] < least:
        return None
    return Steps(source.name, int(row[0]), int(row[1]), bool(source.ctx))


def _names(count: int, of: str) -> str:
    return f"{count} {'name' if count == 1 else 'names'} of {of}"


def _answers(seen: Seen, traces: dict[str, Trace], steps: Steps | None, graph_launches: int) -> list[Answer]:
    """What a comparison could say, in the order of a report."""
    has = {name: one.captured for name, one in traces.items()}

    def needs(question: str, *kinds: str, reason: str) -> Answer:
        missing = [name for name in kinds if not has[name]]
        if not missing:
            return Answer(question, True, reason)
        return Answer(question, False, "; ".join(f"no {name}: {traces[name].flag}" for name in missing))

    labelled = (
        f"{steps.labels} step labels ({steps.rule})" if steps
        else "no step labels: steps are inferred from launches that repeat, or --step-regex, --whole-capture"
    )  # fmt: skip
    names = [
        _text(name) for (name,) in seen.db.execute("SELECT DISTINCT encode(name) FROM kernel_seen").fetchall()
    ]
    comm = sum(category(name) == "communication" for name in names)
    bare = graph_launches > 0 and not has[_INSIDE] and has["kernels"]
    answers = [
        needs("time of a step, closed accounting", "kernels", "CUDA calls", reason=labelled),
        needs("kernel table", "kernels", reason=_names(len(names), "kernels")),
        Answer("phases (context, generation)", bool(steps and steps.phases),
               "the labels say the requests" if steps and steps.phases else "no labels that say the requests"),
        Answer("kernels inside CUDA graphs", has[_INSIDE] or (has["kernels"] and not graph_launches),
               f"{traces[_INSIDE].count} {'node' if traces[_INSIDE].count == 1 else 'nodes'}" if has[_INSIDE]
               else "no graph was launched" if not graph_launches
               else f"{graph_launches} {'launch' if graph_launches == 1 else 'launches'} without nodes: --cuda-graph-trace=node"),
        Answer("exposed communication", comm > 0,
               _names(comm, "communication kernels") if comm else "no communication kernels in it"),
        needs("copies", "copies", reason="their time and bytes"),
        needs("idle time by cause on the host", "kernels", "CUDA calls", reason="from the calls of the launching thread"),
        needs("host work by name", "CUDA calls", "NVTX ranges", reason="from NVTX ranges"),
        needs("waiting for the GIL", "Python's GIL", reason="who waited, and who held it"),
        needs("garbage collection", "Python garbage collection", reason="pauses by generation"),
    ]  # fmt: skip
    if bare:
        answers[1] = Answer("kernel table", True, "without the kernels of CUDA graphs")
    if not has["kernels"]:
        answers.append(
            Answer("host time of a step (--host-only)", steps is not None,
                   labelled if steps else "no step labels")
        )  # fmt: skip
    return answers
