"""What a file or folder is, what is in it, and what to do with it: `tracediff inputs`."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import msgspec

import tracediff
from tracediff.capture.bundle import read_bundle
from tracediff.capture.nsys import find_nsys
from tracediff.errors import TracediffError
from tracediff.load import columnar
from tracediff.load.folder_kinds import held, said
from tracediff.load.inputs import resolve, split_label
from tracediff.load.kpi import read as read_kpi
from tracediff.load.latencies import read as read_latencies
from tracediff.load.ncu import read as read_ncu
from tracediff.load.recognise import Kind, head_of, recognise, report_version
from tracediff.load.report_file import refuse_no_report
from tracediff.load.scratch import scratch
from tracediff.load.trtexec import read as read_trtexec
from tracediff.load.trtexec import recognise as trtexec_of
from tracediff.measure.inputs import contents
from tracediff.model import Tool
from tracediff.model.contents import Contents, Input, Inputs, Problem

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
