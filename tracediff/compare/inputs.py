"""What a file holds and what a comparison could say of it, from its counts: nothing is loaded or measured."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import duckdb
import msgspec

import tracediff
from tracediff.companions.bench.read import read as read_kpi
from tracediff.companions.latencies.read import read as read_latencies
from tracediff.companions.ncu.read import read as read_ncu
from tracediff.companions.trtexec.read import read as read_trtexec
from tracediff.companions.trtexec.read import recognise as trtexec_of
from tracediff.errors import TracediffError
from tracediff.formats import columnar
from tracediff.formats.bundle import read_bundle
from tracediff.formats.contents import Seen, looked_into
from tracediff.formats.database import quoted
from tracediff.formats.inputs import held, resolve, said, split_label
from tracediff.formats.recognise import Kind, head_of, recognise, report_version
from tracediff.formats.scratch import scratch
from tracediff.formats.unpack import find_nsys, refuse_no_report
from tracediff.kernels.categories import category
from tracediff.model import Tool
from tracediff.model.contents import (
    Answer,
    Contents,
    Device,
    Domain,
    Input,
    Inputs,
    Problem,
    Steps,
    Table,
    Trace,
)
from tracediff.trace.labels import PRESETS, SOURCES, StepLabels

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


# What a file or folder is, what is in it, and what to do with it: `tracediff inputs`.

_MOST_FILES = 256  # of a folder
_COUNTED = 10_000  # entries of a folder whose bytes are summed
_CHECKED = 64 << 20  # bytes of a file that the command's own loader reads here
_HOST_ONLY = " --host-only"
_KNOWN = (
    "tracediff inputs takes exports of nsys, traces of torch.profiler, profiles of Nsight Compute, bundles,"
    " saved results, files of trtexec, latencies and benchmark reports"
)


def identify(paths: Sequence[Path]) -> Inputs:
    """Every path in turn; what is wrong with one is said there and raised nowhere."""
    return Inputs(
        tool=Tool("tracediff", tracediff.__version__),
        inputs=[describe(split_label(str(path))[1]) for path in paths],
    )


def describe(path: Path) -> Input:
    """One file or folder."""
    name = path.name if path.name not in ("", ".", "..") else path.resolve().name
    try:
        if not path.exists():
            raise TracediffError(
                "not-a-file", f"{path}: there is no such file or folder", fix="check the path"
            )
        kind = recognise(path)
        if kind is not None:
            return _known(path, name, kind)
        if path.is_dir():
            return _folder(path, name)
        if not path.is_file():
            raise TracediffError("not-a-file", f"{path} is no plain file", fix="give a file or a folder")
        raise _unknown(path, name)
    except TracediffError as error:
        return _broken(path, name, "unknown", "not known", error)
    except OSError as error:
        problem = TracediffError("no-permission", f"{name} cannot be read: {error.strerror or error}")
        return _broken(path, name, "unknown", "not known", problem)


def _unknown(path: Path, name: str) -> TracediffError:
    if path.suffix == ".nsys-rep":
        refuse_no_report(path)
    if path.stat().st_size == 0:
        return TracediffError("empty-file", f"{name} is empty (0 bytes)", fix="copy or export it again")
    return TracediffError("unknown-input", f"{name} is nothing that is known here", fix=_KNOWN)


def _broken(path: Path, name: str, kind: str, title: str, error: TracediffError) -> Input:
    return Input(
        name=name, kind=kind, title=title, bytes=_size(path), known=False,
        problem=Problem(error.slug, error.message, error.fix),
    )  # fmt: skip


def _size(path: Path) -> int:
    try:
        if path.is_dir() and columnar.form_of(path) is None:
            return sum(one.stat().st_size for one in islice(path.rglob("*"), _COUNTED) if one.is_file())
        return columnar.size(path) if path.is_dir() or path.is_file() else 0
    except (OSError, TracediffError):
        return 0


def _known(path: Path, name: str, kind: Kind) -> Input:
    found: Contents | None = None
    facts: list[str] = []
    options = ""
    title = kind.title
    try:
        if kind.side:
            facts = _report_facts(path) if kind.slug == "nsys-report" else []
            if kind.slug != "nsys-report" or find_nsys() is not None:
                with scratch() as folder:
                    found = contents(path, folder)
                title = "an export of Nsight Systems (SQLite)" if kind.slug == "sqlite" else title
            else:
                facts.append("nsys is not at hand: what the report holds is not known before it is exported")
        elif kind.slug == "latencies":
            facts, options = _latencies(path)
        else:
            facts = _facts(path, kind)
    except TracediffError as error:
        return _broken(path, name, kind.slug, title, error)
    packed = next((text for suffix, text in ((".xz", ", packed with xz"), (".gz", ", packed with gzip"))
                   if path.is_file() and path.name.endswith(suffix)), "")  # fmt: skip
    return Input(
        name=name, kind=kind.slug, title=title + packed, bytes=_size(path), known=True, facts=facts, contents=found,
        next=_next(_word(path), kind, found) + options,
    )  # fmt: skip


def _report_facts(path: Path) -> list[str]:
    version = report_version(head_of(path))
    return [f"recorded by nsys {version}"] if version else []


def _facts(path: Path, kind: Kind) -> list[str]:
    """Short words on what holds no trace. Raises `TracediffError` where the file is broken."""
    if kind.slug == "bundle":
        bundle = read_bundle(path)
        return [
            f"{side}: {len(bundle.profiled[side])} profiled runs, {len(bundle.controls[side])} runs without profiler"
            for side in bundle.profiled
        ]
    if kind.slug in ("ncu-csv", "ncu-report"):
        if kind.slug == "ncu-report":
            return []  # read by NVIDIA's own module, where that is installed
        profile = read_ncu(path)
        names = len({launch.name for launch in profile.launches})
        return [
            f"{len(profile.launches)} launch{'es' if len(profile.launches) != 1 else ''} of {_count(names, 'kernel')}"
        ] + ([f"on {profile.device}"] if profile.device else [])
    if kind.slug == "benchmark":
        report = read_kpi(path)
        return [
            f"format: {report.kind}", _count(len(report.metrics), "figure") + ", " + _count(len(report.iterations), "iteration"),
        ]  # fmt: skip
    if kind.slug == "trtexec":
        if path.stat().st_size <= _CHECKED:
            read_trtexec(str(path))
        return [f"file: {trtexec_of(head_of(path))}"]
    return _result_facts(path)


def _latencies(path: Path) -> tuple[list[str], str]:
    """What is said of a file of latencies, and the options that its command needs. Raises `TracediffError`."""
    try:
        found = read_latencies(path)
    except TracediffError as error:
        if (error.fix or "").startswith("--unit"):
            return [error.message], " --unit ns|us|ms|s"
        if (error.fix or "").startswith("--column"):
            return [error.message], " --column NAME"
        raise
    return [
        f"format: {found.format}",
        f"{len(found.ns)} {'latency' if len(found.ns) == 1 else 'latencies'}",
    ], ""


class _Head(msgspec.Struct):
    """What is said of a saved result."""

    format_version: int
    tool: Tool | None = None
    verdict: str = ""


def _result_facts(path: Path) -> list[str]:
    try:
        head = msgspec.json.decode(path.read_bytes(), type=_Head)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise TracediffError(
            "not-a-result", f"{path.name} is damaged: {error}", fix="write it again with --json"
        ) from error
    facts = [f"format {head.format_version}"]
    if head.tool is not None:
        facts.append(f"written by {head.tool.name} {head.tool.version}")
    return [*facts, f"verdict {head.verdict}"] if head.verdict else facts


def _word(path: Path) -> str:
    """The path as a word of the shell."""
    word = shlex.quote(str(path))
    return f"./{word}" if word.startswith("-") else word


def _next(word: str, kind: Kind, found: Contents | None) -> str:
    if found is None:
        place = next(one for one in ("BASELINE", "FOLDER", "FILE") if one in kind.use)
        return kind.use.replace(place, word, 1)
    has = {one.name: one.captured for one in found.traces}
    if not has["kernels"]:
        return f"tracediff show {word}{_HOST_ONLY}" if found.steps else ""
    return f"tracediff show {word}; tracediff compare {word} CANDIDATE"


def _folder(path: Path, name: str) -> Input:
    """A folder of exports: its runs and ranks, and what each of its files is."""
    try:
        side = resolve(str(path))
    except TracediffError as error:
        if error.slug not in ("empty-folder", "trtexec-as-side", "latencies-as-side", "other-input"):
            raise
        if found := held(path):
            return _other_folder(path, name, found)
        raise
    files = [file for run in side.runs for file in run.files]
    ranks = Counter(len(run.files) for run in side.runs)
    facts = [_count(len(side.runs), "run")]
    facts += [f"{count} of {size} ranks" for size, count in sorted(ranks.items()) if size > 1]
    if len(files) > _MOST_FILES:
        facts.append(f"the first {_MOST_FILES} of {len(files)} files are looked into")
    members = [describe(file) for file in files[:_MOST_FILES]]
    return Input(
        name=name, kind="folder", title="a folder of exports", bytes=sum(_size(file) for file in files),
        known=all(one.known for one in members), facts=facts, members=members,
        warnings=list(side.notes), next=f"tracediff compare {_word(path)} CANDIDATE" + (
            "" if len(side.runs) > 1 else " (with one run a side, noise from run to run is not known)"
        ),
    )  # fmt: skip


def _other_folder(path: Path, name: str, found: dict[Kind, list[Path]]) -> Input:
    """A folder of files that other commands take; those of trtexec and of latencies are given as the folder itself."""
    members = [describe(file) for files in found.values() for file in files]
    whole = [kind for kind in found if kind.slug in ("trtexec", "latencies")]
    known = all(one.known for one in members)
    return Input(
        name=name, kind="folder", title="a folder without exports", bytes=sum(one.bytes for one in members), known=known,
        facts=[said(found)], members=members,
        next="; ".join(_next(_word(path), kind, None) for kind in whole) if known else "",
    )  # fmt: skip


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
