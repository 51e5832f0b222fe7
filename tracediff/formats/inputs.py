"""Words of the command line -> sides and the files of their runs.

FILE            one run
FOLDER OF TABLES  one run: an export of nsys as Parquet or Arrow files (parquetdir, arrowdir)
FOLDER          one run a file (or a folder of tables); files that differ only in `rank<N>` are the ranks of one run, and so are traces of
                torch.profiler that say so themselves; beside exports of nsys, .json files are left alone
FOLDER/…        a folder of folders: one run a subfolder
label=PATH      the same with a name for the report
BUNDLE          alone: what `tracediff capture` left, both sides of it
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from tracediff.errors import TracediffError
from tracediff.formats import columnar
from tracediff.formats.bundle import Bundle, is_bundle, read_bundle
from tracediff.formats.kineto import is_trace_name, one_run, rank_of
from tracediff.formats.recognise import Kind, recognise
from tracediff.formats.selection import ALL, Selection, own_label
from tracediff.formats.unpack import FOLDER_SUFFIXES, SUFFIXES, is_export
from tracediff.model import Note

if TYPE_CHECKING:
    from tracediff.capture.plan import SideName
    from tracediff.model import Note


_EXPORTS = (b"SQLite format 3\0", b"\xfd7zXZ\0")  # how they begin, plain and packed
_RANK = re.compile(r"[._-]?rank[_-]?(\d+)", re.IGNORECASE)


@dataclass(frozen=True)
class RunFiles:
    """The exports of one run: one, or one a rank.

    `ranks`: the rank of each file, where every file says it; else they count by their order.
    """

    name: str
    files: tuple[Path, ...]
    ranks: tuple[int, ...] | None = None


@dataclass(frozen=True)
class SideFiles:
    """One side of a comparison."""

    label: str
    runs: tuple[RunFiles, ...]
    only: Selection = ALL  # what is measured of it
    notes: tuple[Note, ...] = ()  # what of its folder was not taken, or taken as what it may not be


def resolve_pair(baseline: str, candidate: str | None) -> tuple[SideFiles, SideFiles, Bundle | None]:
    """Return both sides; a capture bundle alone holds both, and comes back as well.

    Raises `TracediffError`: candidate-missing, not-a-file, empty-folder, and those of `read_bundle`.
    """
    if candidate is not None:
        return resolve(baseline), resolve(candidate), None
    path = Path(baseline)
    if not path.exists():
        raise TracediffError("not-a-file", f"{path}: there is no such file or folder", fix="check the path")
    if not is_bundle(path):
        raise TracediffError(
            "candidate-missing",
            f"{baseline}: only a capture bundle can be compared alone",
            fix="tracediff compare BASELINE CANDIDATE",
            exit_code=2,
        )
    bundle = read_bundle(path)
    name = path.resolve().name
    return _side_of(bundle, "baseline", name), _side_of(bundle, "candidate", name), bundle


def _side_of(bundle: Bundle, side: SideName, name: str) -> SideFiles:
    return SideFiles(
        f"{name}/{side}", tuple(_one_run(run.name, run.exports) for run in bundle.profiled[side])
    )


def resolve(word: str) -> SideFiles:
    """The runs that a command-line word names, in a fixed order.

    Raises `TracediffError`: not-a-file, empty-folder, bundle-as-side, trtexec-as-side.
    """
    label, path = split_label(word)
    notes: list[Note] = []
    if is_bundle(path):
        raise TracediffError(
            "bundle-as-side",
            f"{path.name or path} is a capture bundle: it holds both sides",
            fix="compare it alone, or name folders of one side's exports",
            exit_code=2,
        )
    if columnar.form_of(path):
        _no_other_export(path)
        runs = [RunFiles(_named(path).name, (_named(path),))]
    elif path.is_dir():
        _no_bundle_inside(path)
        runs = _runs_of_folder(path)
        if not runs:
            from tracediff.companions.trtexec.read import refuse

            for one in sorted(path.iterdir()):
                refuse(one)
            _no_latencies(path, sorted(path.iterdir())[:20])
            refuse_folder(path)
            raise TracediffError(
                "empty-folder",
                f"{path.name or path}: no export in this folder ({', '.join(SUFFIXES)})",
                fix="nsys export --type sqlite REPORT.nsys-rep",
            )
        notes = _notes(path, runs)
    elif path.exists():
        _no_other_file(path)
        runs = [RunFiles(path.name, (path,))]
    else:
        raise TracediffError("not-a-file", f"{path}: there is no such file or folder", fix="check the path")
    return SideFiles(label, tuple(runs), notes=tuple(notes))


def _notes(folder: Path, runs: Sequence[RunFiles]) -> list[Note]:
    """What is to be said of how a folder was read."""
    unclear = [run for run in runs if len(run.files) > 1 and run.ranks is None]
    # the files of a folder of files are a run each, or differ in rank<N>: only those of subfolders become one run
    deeper = [run for run in unclear if any(file.parent != folder for file in run.files)]
    named = _named(folder)
    files = [file for run in runs for file in run.files]
    return [
        *as_ranks(named, [(f"{named.name}/{run.name}", len(run.files)) for run in deeper]),
        *not_taken(named, files),
    ]


def _no_other_file(path: Path) -> None:
    """Refuse a file of another kind. The readers of other kinds are imported where one may be there."""
    with suppress(OSError):
        if path.is_file() and is_export(path):
            with path.open("rb") as file:
                if file.read(16).startswith(_EXPORTS):
                    return
    from tracediff.companions.trtexec.read import refuse
    from tracediff.formats.recognise import refuse_other

    refuse(path)
    _no_latencies(path, [path])
    if not is_export(path):
        refuse_other(path)


def _no_latencies(word: Path, files: list[Path]) -> None:
    """Refuse plain measurements where a trace is wanted."""
    from tracediff.companions.latencies.read import recognise

    for file in files:
        if not is_export(file) and (kind := recognise(file)):
            raise TracediffError(
                "latencies-as-side",
                f"{word.name or word}: latencies ({kind}), not a trace",
                fix="tracediff latencies BASELINE CANDIDATE; beside traces: tracediff compare A B --latencies-baseline PATH"
                " --latencies-candidate PATH",
                exit_code=2,
            )


def _no_bundle_inside(folder: Path) -> None:
    """Refuse a folder whose runs are of both sides: the runs of a bundle, or a folder of bundles."""
    inside = [one for one in sorted(folder.iterdir()) if one.is_dir()]
    around = [folder.resolve().parent] if folder.resolve().name == "runs" else []
    for bundle in [*around, *inside]:
        if is_bundle(bundle) and _readable(bundle):
            raise TracediffError(
                "bundle-as-side",
                f"{folder.name or folder}: the runs of the capture bundle {bundle.name} are of both sides",
                fix=f"compare the bundle alone (tracediff compare {bundle.name}), or name folders of one side's exports",
                exit_code=2,
            )


def _no_other_export(folder: Path) -> None:
    """Refuse a folder of tables in which other exports lie, for nobody says which is meant."""
    others = sorted(one.name for one in folder.iterdir() if is_export(one) and not is_trace_name(one))
    if others:
        raise TracediffError(
            "mixed-folder",
            f"{_named(folder).name} holds the tables of an export as files, and beside them {others[0]}",
            fix="give each export a folder of its own, or name the one that is meant",
        )


def _readable(bundle: Path) -> bool:
    """Whether the manifest is one of ours, and not something else of that name."""
    try:
        read_bundle(bundle)
    except TracediffError:
        return False
    return True


def split_label(word: str) -> tuple[str, Path]:
    """A word of the command line -> what to call it in reports, and the path."""
    label, rest = own_label(word)
    if label is not None:
        return label, Path(rest)
    path = Path(word)
    name = _named(path).name
    for suffix in (*SUFFIXES, *FOLDER_SUFFIXES):
        name = name.removesuffix(suffix)
    return name, path


def _named(path: Path) -> Path:
    """The path with a name: `.` has none."""
    return path.resolve() if path.name in ("", ".", "..") else path


def _runs_of_folder(folder: Path) -> list[RunFiles]:
    files = sorted(
        path for path in folder.iterdir() if (path.is_file() or columnar.form_of(path)) and is_export(path)
    )
    exports = [path for path in files if not is_trace_name(path)]
    traces = [] if exports else files
    files = exports or traces
    # A report beside its own export is the same run; a scratch file of a running export is none.
    stems = {
        path.name.removesuffix(".xz").removesuffix(".sqlite") for path in files if ".sqlite" in path.name
    }
    files = [path for path in files if not (path.is_dir() and _stem(path) in stems)]
    stems |= {_stem(path) for path in files if path.is_dir()}
    files = [path for path in files if not (path.suffix == ".nsys-rep" and path.stem in stems)]
    if not files:
        subfolders = sorted(path for path in folder.iterdir() if path.is_dir())
        return [
            _one_run(sub.name, [file for run in runs for file in run.files])
            for sub in subfolders
            if (runs := _runs_of_folder(sub))
        ]
    groups: dict[str, list[Path]] = {}
    for path in files:
        groups.setdefault(_RANK.sub("", path.name), []).append(path)
    together = one_run(list(groups.values())) if traces else None
    if together:
        return [_one_run(folder.resolve().name, together)]
    return [
        _one_run(name, sorted(paths, key=lambda path: (_rank_number(path), path.name)))
        for name, paths in sorted(groups.items())
    ]


def _one_run(name: str, files: Sequence[Path]) -> RunFiles:
    """A run of these files, with their ranks where names or heads tell them all apart."""
    said = [_rank_number(path) for path in files]
    if min(said) < 0 and len(files) > 1 and all(is_trace_name(path) for path in files):
        said = [-1 if (rank := rank_of(path)) is None else rank for path in files]
    known = len(files) > 1 and min(said) >= 0 and len(set(said)) == len(said)
    order = sorted(range(len(files)), key=said.__getitem__) if known else range(len(files))
    ranks = tuple(said[one] for one in order) if known else None
    return RunFiles(name, tuple(files[one] for one in order), ranks)


def _stem(folder: Path) -> str:
    """What the report was called of which this is the export."""
    name = folder.name
    for suffix in FOLDER_SUFFIXES:
        name = name.removesuffix(suffix)
    return name


def _rank_number(path: Path) -> int:
    found = _RANK.search(path.name)
    return int(found.group(1)) if found else -1


# What is said of a folder given as a side: files of it that are not taken, and repeats that were taken as ranks.

_NAMED = 3
_LOOKED_INTO = 1000  # entries of a subfolder
TORCH, NSYS = "torch.profiler traces", "exports of nsys"
_FOLDERS = "folders with exports"


def as_ranks(folder: Path, runs: Sequence[tuple[str, int]]) -> list[Note]:
    """Warn of subfolders whose exports became ranks of one run, though their names tell no ranks apart.

    `runs`: the name of the subfolder and its number of exports.
    """
    if not runs:
        return []
    named = [f"the {count} exports of `{name}`" for name, count in runs[:_NAMED]]
    named += [f"those of {len(runs) - _NAMED} more folders"] if len(runs) > _NAMED else []
    ranks = "ranks of one run" if len(runs) == 1 else "ranks of one run a folder"
    give = f"folder `{runs[0][0]}` itself" if len(runs) == 1 else "folder with one export a run instead"
    return [
        Note(
            "taken-as-ranks",
            f"{folder.name}: {', '.join(named)}, whose names tell no rank<N> apart, were taken as {ranks}; if they are"
            f" repeats, give the {give}",
        )
    ]


def not_taken(folder: Path, taken: Iterable[Path]) -> list[Note]:
    """Warn of exports, traces and folders of them that lie beside those of `taken` in the same folder.

    A report of nsys beside an export of its name is not one of them: it is the same run.
    """
    used = set(taken)
    places = sorted({one.parent for one in used})
    left: dict[str, list[str]] = {}
    for place in places:
        stems = {one.name.split(".sqlite")[0] for one in used if one.parent == place}
        for path in sorted(place.iterdir()):
            if path in used or (path.suffix == ".nsys-rep" and path.stem in _stems(stems)):
                continue
            kind = _kind(path, places)
            if kind:
                left.setdefault(kind, []).append(path.name)
    if not left:
        return []
    said = "; ".join(
        f"{len(names)} {_plural(kind, len(names))} ({_some(names)})" for kind, names in sorted(left.items())
    )
    kind = TORCH if all(is_trace_name(one) for one in used) else NSYS
    return [
        Note(
            "files-not-taken",
            f"{folder.name}: only {len(used)} {_plural(kind, len(used))} of this folder {'is' if len(used) == 1 else 'are'}"
            f" taken, and not {said}: give those by name, or a folder of their own",
        )
    ]


def _stems(names: Iterable[str]) -> set[str]:
    """What the report was called of which an export is: without the suffix of a folder of tables too."""
    return {
        name.removesuffix(suffix)
        for name in names
        for suffix in ("", "_pqtdir", "_arwdir", ".parquetdir", ".arrowdir")
    }


def _kind(path: Path, places: Sequence[Path]) -> str:
    """What kind of input of a comparison an entry of a folder is; '' where it is none."""
    try:
        if path.is_dir() and columnar.form_of(path) is None:
            return _FOLDERS if path not in places and _holds_exports(path) else ""
        return "" if not is_export(path) else TORCH if is_trace_name(path) else NSYS
    except (TracediffError, OSError):
        return ""  # a folder of two exports, or one that may not be read


def _holds_exports(folder: Path) -> bool:
    return any(is_export(one) for one, _ in zip(folder.iterdir(), range(_LOOKED_INTO), strict=False))


def _plural(kind: str, count: int) -> str:
    if count != 1:
        return kind
    return {TORCH: "torch.profiler trace", NSYS: "export of nsys", _FOLDERS: "folder with exports"}[kind]


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


# What a folder without exports holds: files that other commands than a comparison of steps take.

_MOST = 256  # files that are looked into


def held(folder: Path) -> dict[Kind, list[Path]]:
    """The files of a folder by kind, of its subfolders where it has none itself; what is not known is left out."""
    entries = sorted(islice(folder.iterdir(), 10 * _MOST))
    found = _by_kind(one for one in entries if one.is_file())
    if found:
        return found
    return _by_kind(file for one in entries if one.is_dir() for file in _inside(one))


def said(found: dict[Kind, list[Path]]) -> str:
    """How many files of which kind, in words."""
    return ", ".join(f"{len(files)} {'file' if len(files) == 1 else 'files'} of the kind: {kind.title}"
                     for kind, files in found.items())  # fmt: skip


def refuse_folder(folder: Path) -> None:
    """Raise `TracediffError` (other-input) where the files of a folder are known and none is of a program's steps."""
    found = {kind: files for kind, files in held(folder).items() if not kind.side}
    if found:
        raise TracediffError(
            "other-input",
            f"{folder.resolve().name} holds no trace of a program's steps, but {said(found)}",
            fix="; ".join(dict.fromkeys(kind.use for kind in found)),
            exit_code=2,
        )


def _inside(folder: Path) -> list[Path]:
    try:
        return sorted(one for one in islice(folder.iterdir(), _MOST) if one.is_file())
    except OSError:
        return []


def _by_kind(files: Iterable[Path]) -> dict[Kind, list[Path]]:
    found: dict[Kind, list[Path]] = {}
    for file in islice(files, _MOST):
        try:
            kind = recognise(file)
        except (TracediffError, OSError):
            continue
        if kind is not None:
            found.setdefault(kind, []).append(file)
    return found
