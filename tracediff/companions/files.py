"""Which files a side has beside its traces, or instead of traces: known by what they hold."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import TypeAlias

import tracediff
from tracediff.companions import are_latencies
from tracediff.companions.model import LatencyReport, NcuReport, TrtexecReport
from tracediff.errors import TracediffError, UsageError
from tracediff.formats.bundle import BundleRun, is_bundle
from tracediff.formats.files import missing
from tracediff.formats.inputs import SideFiles
from tracediff.formats.recognise import Kind, recognise
from tracediff.formats.selection import own_label
from tracediff.formats.unpack import is_export
from tracediff.model import Note, Tool

Sections: TypeAlias = dict[str, list[Path]]
"""Files and folders by the section of a result that they make: ncu, trtexec, latencies, kpi."""

_BY_FOLDER = ("trtexec", "latencies")  # whose readers take a folder as runs of a side
_LOOKED_AT = 1_000  # files of a folder
_LARGEST = 64 << 20  # bytes of a file that nobody named


def beside(paths: Iterable[Path]) -> Sections:
    """What was given beside the traces of a side. A folder is looked into, and what lies in its folders too.

    Raises `TracediffError`: not-a-file, with-unknown, with-unclear, and those of `recognise`.
    """
    found: Sections = {}
    for path in paths:
        if not path.exists():
            if not _with_column(str(path)):
                raise missing(path)
            found.setdefault("latencies", []).append(path)
            continue
        files = (one for one in _looked_into(path) if one.is_file())
        known = {file: kind for file in files if (kind := recognise(file)) and kind.beside}
        sections = {kind.beside: kind.title for kind in known.values()}
        if not sections:
            kind = None if path.is_dir() else recognise(path)
            what = (
                f"is {kind.title}, and stands beside no traces"
                if kind
                else "holds nothing that stands beside traces"
            )
            raise UsageError(
                "with-unknown",
                f"{path.name} {what}",
                fix="a benchmark's report or iteration log, latencies, files of trtexec, a profile of Nsight Compute: tracediff inputs PATH says what a file is",
            )
        if len(sections) > 1:
            titles = " and ".join(sorted(sections.values()))
            raise UsageError("with-unclear", f"{path.name} holds {titles}", fix="name each apart")
        (section,) = sections
        found.setdefault(section, []).extend([path] if section in _BY_FOLDER else known)
    if len(profiles := found.get("ncu", [])) > 1:
        names = ", ".join(one.name for one in profiles[:4])
        raise UsageError(
            "with-unclear", f"{len(profiles)} profiles of Nsight Compute on one side: {names}", fix="name one"
        )
    return found


def _looked_into(path: Path) -> list[Path]:
    """The file, or the folder with what is in it and in its folders."""
    return [path, *sorted(islice(chain(path.glob("*"), path.glob("*/*")), _LOOKED_AT))]


def _with_column(word: str) -> bool:
    """Whether a word is a file of latencies with a column or unit behind its name."""
    from tracediff.companions.latencies.read import split

    return split(word)[0].exists()


def within(side: SideFiles, word: str, known: Container[str] = ()) -> Sections:
    """What lies in the folder of a side beside its exports, and in those of its runs; of a file or a pattern nothing.

    `known`: sections that something else was given for.
    """
    folder = Path(own_label(word)[1])
    found: Sections = {}
    if not folder.is_dir() or is_export(folder):
        return found
    used = {file for run in side.runs for file in run.files}
    for place in sorted({folder, *(file.parent for file in used)}):
        for file, kind in _known(place, used):
            if kind.beside not in known:
                # the runs of trtexec are told by their folders
                found.setdefault(kind.beside, []).append(place if kind.beside == "trtexec" else file)
    return {section: list(dict.fromkeys(found[section])) for section in sorted(found)}


def _known(folder: Path, used: set[Path]) -> Iterator[tuple[Path, Kind]]:
    files = (one for one in sorted(folder.iterdir()) if one not in used and one.is_file())
    for file in islice(files, _LOOKED_AT):
        try:
            kind = recognise(file) if file.stat().st_size <= _LARGEST else None
        except (TracediffError, OSError):
            continue
        if kind is not None and kind.beside:
            yield file, kind


def unprofiled(controls: Iterable[BundleRun]) -> Sections:
    """The latencies that the runs of a bundle without the profiler left."""
    found = [path for run in controls for path in run.kpi if are_latencies(path)]
    return {"latencies": found} if found else {}


def of_both(one: Sections, other: Sections) -> tuple[Sections, Sections, list[Note]]:
    """What was found on both sides, and a note on what was not: it is compared with nothing."""
    lone = (
        "{file} lies beside the {side}, and nothing like it beside the {other}: it is compared with nothing"
    )
    notes = [
        Note("beside-one-side", lone.format(file=of[section][0].name, side=side, other=without))
        for section in sorted(one.keys() ^ other.keys())
        for of, side, without in ((one, "baseline", "candidate"), (other, "candidate", "baseline"))
        if section in of
    ]
    before, after = ({name: side[name] for name in one if name in other} for side in (one, other))
    return before, after, notes


# Two sides without traces: a report of their own.


_TRACES = "traces"


def alone(baseline: str, candidate: str) -> str | None:
    """The kind of report that two words of the command line make by themselves; None where one is of traces, or neither is known.

    Where only one is known the other is left to its reader, which says what is wrong with it.
    """
    kinds = [_kind(word) for word in (baseline, candidate)]
    if _TRACES in kinds:
        return None
    return next((kind for kind in kinds if kind in _REPORTS), None)


def report_alone(kind: str, baseline: str, candidate: str) -> NcuReport | TrtexecReport | LatencyReport:
    """The report of two words. Raises `TracediffError`: those of the readers."""
    return _REPORTS[kind](Tool("tracediff", tracediff.__version__), baseline, candidate)


def _kind(word: str) -> str | None:
    _, rest = own_label(word)
    path = Path(rest)
    if not path.exists():
        if Path(rest.partition(",")[0]).exists():
            return "trtexec"
        return "latencies" if _with_column(rest) else None
    if path.is_dir() and (is_bundle(path) or any(map(is_export, _looked_into(path)))):
        return _TRACES
    try:
        known = [kind for one in _looked_into(path) if one.is_file() and (kind := recognise(one))]
    except TracediffError:
        return None
    if any(kind.side for kind in known):
        return _TRACES
    sections = {kind.beside for kind in known}
    return next((name for name in _REPORTS if name in sections), None)


def _ncu(tool: Tool, baseline: str, candidate: str) -> NcuReport:
    from tracediff.companions.ncu.compare import compare_ncu
    from tracediff.companions.ncu.read import read_named

    return NcuReport(tool=tool, ncu=compare_ncu(read_named(baseline), read_named(candidate)))


def _trtexec(tool: Tool, baseline: str, candidate: str) -> TrtexecReport:
    from tracediff.companions.trtexec.compare import compare_trtexec
    from tracediff.companions.trtexec.read import read

    return TrtexecReport(tool=tool, trtexec=compare_trtexec(read(baseline), read(candidate)))


def _latencies(tool: Tool, baseline: str, candidate: str) -> LatencyReport:
    from tracediff.companions.latencies.compare import compare_words

    return LatencyReport(tool=tool, latencies=compare_words(baseline, candidate))


_REPORTS: dict[str, Callable[[Tool, str, str], NcuReport | TrtexecReport | LatencyReport]] = {
    "ncu": _ncu,
    "trtexec": _trtexec,
    "latencies": _latencies,
}
