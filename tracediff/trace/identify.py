"""What files and folders are, what is in them, and what a comparison could say of them.

Everything is said from counts: nothing is loaded or measured. What is wrong with one input is said there and raised nowhere.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import msgspec
from msgspec.structs import replace

import tracediff
from tracediff.errors import TracediffError
from tracediff.formats import columnar
from tracediff.formats.bundle import read_bundle
from tracediff.formats.contents import Seen, looked_into
from tracediff.formats.files import MOST_RESULT, read_regular, scratch
from tracediff.formats.inputs import count_kinds, held, resolve, split_label
from tracediff.formats.lost import MOST, calls_lost
from tracediff.formats.recognise import Kind, counted, head_of, recognise, report_version
from tracediff.formats.reports import find_nsys, refuse_no_report
from tracediff.kernels.names import category
from tracediff.model import Note, Tool
from tracediff.model.contents import Answer, Contents, Input, Inputs, Problem, Steps, Trace
from tracediff.trace.labels import PRESETS, SOURCES

_MOST_FILES = 256  # of a folder
_COUNTED = 10_000  # entries of a folder whose bytes are summed
_KNOWN = (
    "tracediff inputs takes exports of nsys, traces of torch.profiler, profiles of Nsight Compute, bundles,"
    " saved results, files of trtexec, latencies and benchmark reports"
)


def identify(paths: Sequence[Path]) -> Inputs:
    """Every path in turn."""
    return Inputs(
        tool=Tool("tracediff", tracediff.__version__),
        inputs=[_describe(split_label(str(path))[1]) for path in paths],
    )


def _describe(path: Path) -> Input:
    name = path.name if path.name not in ("", ".", "..") else path.resolve().name
    kind = None
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
        if path.suffix == ".nsys-rep":
            refuse_no_report(path)
        if path.stat().st_size == 0:
            raise TracediffError("empty-file", f"{name} is empty (0 bytes)", fix="copy or export it again")
        raise TracediffError("unknown-input", f"{name} is nothing that is known here", fix=_KNOWN)
    except TracediffError as error:
        problem = Problem(error.slug, error.message, error.fix)
    except OSError as error:
        problem = Problem("no-permission", f"{name} cannot be read: {error.strerror or error}")
    slug, title = (kind.slug, kind.title) if kind else ("unknown", "not known")
    return Input(name=name, kind=slug, title=title, bytes=_size(path), known=False, problem=problem)


def _size(path: Path) -> int:
    try:
        if path.is_dir() and not columnar.is_folder(path):
            return sum(one.stat().st_size for one in islice(path.rglob("*"), _COUNTED) if one.is_file())
        return columnar.size(path) if path.is_dir() or path.is_file() else 0
    except (OSError, TracediffError):
        return 0


def _known(path: Path, name: str, kind: Kind) -> Input:
    found: Contents | None = None
    warnings: list[Note] = []
    options, title = "", kind.title
    facts = _facts(path, kind)
    if kind.facts is not None:
        facts, options = kind.facts(path)
    if kind.slug == "nsys-report" and find_nsys() is None:
        facts.append("nsys is not at hand: what the report holds is not known before it is exported")
    elif kind.side:
        with scratch() as folder, looked_into(path, folder) as seen:
            found = _contents(seen)
            warnings, lost = calls_lost(seen.db, name)
        if lost > MOST:
            found = replace(found, answers=[Answer(_STEPS, False, "most CUDA calls were not recorded")])
        title = "an export of Nsight Systems (SQLite)" if kind.slug == "sqlite" else title
    for suffix, program in ((".xz", "xz"), (".gz", "gzip")) if path.is_file() else ():
        if path.name.endswith(suffix):
            title += f", packed with {program}"
    return Input(
        name=name, kind=kind.slug, title=title, bytes=_size(path), known=True, facts=facts, contents=found, warnings=warnings,
        next=_next(_word(path) + options, kind, found),
    )  # fmt: skip


def _facts(path: Path, kind: Kind) -> list[str]:
    """Short words on the core's own kinds. Raises `TracediffError` where the file is broken."""
    if kind.slug == "nsys-report":
        version = report_version(head_of(path))
        return [f"recorded by nsys {version}"] if version else []
    if kind.slug == "bundle":
        bundle = read_bundle(path)
        return [
            f"{side}: {counted(len(bundle.profiled[side]), 'profiled run')}, {len(bundle.controls[side])} without profiler"
            for side in bundle.profiled
        ]
    return _result_facts(path) if kind.slug.endswith("result") else []


class _Head(msgspec.Struct):
    """What is said of a saved result."""

    format_version: int
    tool: Tool | None = None
    verdict: str = ""


def _result_facts(path: Path) -> list[str]:
    try:
        head = msgspec.json.decode(read_regular(path, MOST_RESULT), type=_Head)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise TracediffError(
            "not-a-result", f"{path.name} is damaged: {error}", fix="write it again with --json"
        ) from error
    facts = [f"format {head.format_version}"]
    facts += [f"written by {head.tool.name} {head.tool.version}"] if head.tool is not None else []
    return [*facts, f"verdict {head.verdict}"] if head.verdict else facts


def _word(path: Path) -> str:
    """The path as a word of the shell."""
    word = shlex.quote(str(path))
    return f"./{word}" if word.startswith("-") else word


def _next(word: str, kind: Kind, found: Contents | None) -> str:
    if found is None:
        place = next(one for one in ("BASELINE", "FOLDER", "FILE") if one in kind.use)
        return kind.use.replace(place, word, 1)
    if any(one.name in ("kernels", *_HOST) and one.captured for one in found.traces):
        return f"tracediff show {word}; tracediff compare {word} CANDIDATE"
    return ""


def _folder(path: Path, name: str) -> Input:
    """A folder of exports: its runs and ranks, and what each of its files is; else of files that other commands take."""
    try:
        side = resolve(str(path))
    except TracediffError as error:
        found = held(path)
        if found and error.slug in {"empty-folder", "other-input", *(kind.refusal for kind in found)}:
            return _other_folder(path, name, found)
        raise
    files = [file for run in side.runs for file in run.files]
    ranks = Counter(len(set(run.places)) for run in side.runs)
    facts = [counted(len(side.runs), "run")]
    facts += [
        f"{counted(times, 'run')} with {number} ranks"
        for number, times in sorted(ranks.items())
        if number > 1
    ]
    if len(files) > _MOST_FILES:
        facts.append(f"the first {_MOST_FILES} of {len(files)} files are looked into")
    members = [_describe(file) for file in files[:_MOST_FILES]]
    alone = " (with one run a side, noise from run to run is not known)" if len(side.runs) == 1 else ""
    return Input(
        name=name, kind="folder", title="a folder of exports", bytes=sum(_size(file) for file in files),
        known=all(one.known for one in members), facts=facts, members=members,
        warnings=list(side.notes), next=f"tracediff compare {_word(path)} CANDIDATE{alone}",
    )  # fmt: skip


def _other_folder(path: Path, name: str, found: dict[Kind, list[Path]]) -> Input:
    """A folder of files that other commands take; those that refuse to be a side are given as the folder itself."""
    members = [_describe(file) for files in found.values() for file in files]
    known = all(one.known for one in members)
    whole = [_next(_word(path), kind, None) for kind in found if kind.refusal != "other-input"]
    return Input(
        name=name, kind="folder", title="a folder without exports", bytes=sum(one.bytes for one in members), known=known,
        facts=[count_kinds(found)], members=members, next="; ".join(whole) if known else "",
    )  # fmt: skip


# What is in an export or a trace.

_GC_FLAG = "-t nvtx, with the program labelling its collections (TensorRT-LLM: TLLM_PROFILE_RECORD_GC=1; docs/record.md)"
_INSIDE = "kernels inside CUDA graphs"
_STEPS = "time per step, closed accounting"
_CUDA = "-t cuda"
# Kind of trace -> (what is counted, what of nsys profile records it). Flags of 2024.6 and newer behind "or".
_TRACES = {
    "kernels": ("kernels", _CUDA),
    _INSIDE: ("nodes", "--cuda-graph-trace=node"),
    "CUDA calls": ("calls", _CUDA),
    "copies": ("copies", _CUDA),
    "memsets": ("memsets", _CUDA),
    "synchronisation": ("waits", _CUDA),
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
    **dict.fromkeys(
        ("kernels", _INSIDE, "CUDA calls", "copies", "memsets", "synchronisation"),
        "activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]",
    ),
    "NVTX ranges": "record_function, or profile.step()",
    "Python garbage collection": 'experimental_config=_ExperimentalConfig(record_python_gc_info=True), or record_function("Python GC")',
}


def _contents(seen: Seen) -> Contents:
    recorder = "torch.profiler" if seen.torch else "Nsight Systems"
    launches = seen.graph_launches()
    traces = _traces(seen, launches)
    # in the order in which a comparison tries them; labels of other stacks are believed from the second on
    sources = [*((source, 1) for source in SOURCES), *((source, 2) for source in PRESETS)]
    labels = (seen.steps(one.name, one.pattern, bool(one.ctx), least) for one, least in sources)
    steps = next(filter(None, labels), None)
    start, end = seen.span()
    driver = seen.one("NvDriverVersion")
    return Contents(
        recorder=recorder,
        recorder_version=seen.one("EXPORT_PRODUCT_VERSION").removeprefix(recorder).strip(" ,"),
        schema_version=seen.schema.version,
        driver_version="" if driver == "0" else driver,  # no driver
        start_ns=start,
        end_ns=end,
        devices=seen.devices(),
        processes=seen.processes(),
        traces=list(traces.values()),
        domains=[] if seen.torch else seen.domains(),
        graph_mode="node" if traces[_INSIDE].captured
        else "graph" if seen.any_rows("whole graphs") or launches
        else seen.one("CUDA_GRAPH_TRACE_OPTIONS:MODE").lower(),
        steps=steps,
        tables=seen.tables(),
        answers=_answers(seen, traces, steps, launches),
    )  # fmt: skip


def _traces(seen: Seen, launches: int) -> dict[str, Trace]:
    """Every kind of trace; without launches of CUDA graphs no flag would record kernels inside of them."""
    counts = seen.counts()
    found = {}
    for name, (unit, flag) in _TRACES.items():
        number = counts[name] if name in counts else seen.any_rows(name)
        how = _TORCH_FLAGS.get(name, "nsys") if seen.torch else flag
        if number or (counts["kernels"] and (flag == _CUDA or (name == _INSIDE and not launches))):
            how = ""  # it was recorded, and none ran
        shown = "ranges" if seen.torch and name == "NVTX ranges" else name
        found[name] = Trace(shown, number > 0, number, unit, how)
    return found


def _answers(seen: Seen, traces: dict[str, Trace], steps: Steps | None, launches: int) -> list[Answer]:
    """What a comparison could say, in the order of a report."""
    has = {name: one.captured for name, one in traces.items()}

    def needs(question: str, *kinds: str, reason: str) -> Answer:
        missing = [traces[name] for name in kinds if not has[name]]
        said = [f"no {one.name}" + f", which {one.flag} records" * bool(one.flag) for one in missing]
        return Answer(question, not missing, "; ".join(said) or reason)

    labelled = (
        f"{steps.labels} step labels ({steps.rule})" if steps
        else "no known step labels: steps come from ranges chosen by evidence, or are inferred; or --step-regex"
    )  # fmt: skip
    names = seen.kernel_names()
    comm = sum(category(name) == "communication" for name in names)
    phases = bool(steps and steps.phases)
    if has[_INSIDE]:
        inside = counted(traces[_INSIDE].count, "node")
    elif not launches:
        inside = "no graph was launched"
    else:
        many = "1 launch" if launches == 1 else f"{launches} launches"
        inside = f"{many} without nodes: --cuda-graph-trace=node"
    table = needs("kernel table", "kernels", reason=_names(len(names), "kernels"))
    if launches and has["kernels"] and not has[_INSIDE]:
        table = Answer("kernel table", True, "without the kernels of CUDA graphs")
    answers = [
        needs(_STEPS, "kernels", "CUDA calls", reason=labelled),
        table,
        Answer("phases (context, generation)", phases,
               "the labels say the requests" if phases else "no labels that say the requests"),
        Answer(_INSIDE, has[_INSIDE], inside),
        Answer("exposed communication", comm > 0,
               _names(comm, "communication kernels") if comm else "no communication kernels in it"),
        needs("copies", "copies", reason="their time and bytes"),
        needs("idle time by cause on the host", "kernels", "CUDA calls", reason="from the calls of the launching thread"),
        needs("host work by name", "CUDA calls", "NVTX ranges", reason=f"from {traces['NVTX ranges'].name}"),
        needs("waiting for the GIL", "Python's GIL", reason="who waited, and who held it"),
        needs("garbage collection", "Python garbage collection", reason="pauses by generation"),
    ]  # fmt: skip
    if not has["kernels"]:
        reason = labelled if steps else "no step labels: per capture"
        has_host = any(has[name] for name in _HOST)
        answers.append(
            Answer(
                "host time by CUDA call and NVTX range",
                has_host,
                reason if has_host else "none of them was recorded",
            )
        )
    return answers


_HOST = ("CUDA calls", "NVTX ranges")  # what is compared where there are no kernels


def _names(number: int, of: str) -> str:
    return f"{counted(number, 'name')} of {of}"
