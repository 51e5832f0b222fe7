"""Arguments of the command line -> sides and the files of their runs.

FILE            one run
FOLDER OF TABLES  one run: an export of nsys as Parquet files (parquetdir)
FOLDER          one run per file (or folder of tables); files that differ only in `rank<N>` are the ranks of one run, and so are traces of
                torch.profiler that say so themselves; beside exports of nsys, .json files are left alone
FOLDER/…        a folder of folders: one run per subfolder
PATTERN         with *, ? or [...]: what it matches, as if it lay in a folder of its own
label=PATH      the same with a name for the report
BUNDLE          alone: what `tracediff capture` left, both sides of it
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from glob import glob
from itertools import islice
from pathlib import Path

import msgspec
from msgspec.structs import replace

from tracediff.errors import TracediffError, UsageError, some
from tracediff.formats import columnar
from tracediff.formats.bundle import MANIFEST, Bundle, SideName, is_bundle, read_bundle, read_manifest
from tracediff.formats.files import missing
from tracediff.formats.kineto import is_trace_name, rank_of
from tracediff.formats.recognise import Kind, counted, recognise, refuse_other
from tracediff.formats.selection import ALL, Selection, own_label
from tracediff.formats.unpack import SUFFIXES, is_export, stem
from tracediff.model import Note

_RANK = re.compile(r"[._-]?rank[_-]?(\d+)", re.IGNORECASE)
_NAMED = 3  # files or folders that a message names
WINDOWS = "taken-as-windows"  # the slug of a warning
_WINDOW = re.compile(r"\.(\d{1,9})\Z")
"""How nsys numbers the reports of one session (--capture-range-end=repeat)."""
_LOOKED_INTO = 1000  # entries of a subfolder in which exports are looked for
_MOST = 256  # files of a folder without exports that are looked into
TORCH, NSYS, FOLDER = "torch.profiler trace", "export of nsys", "folder with exports"
_PLURAL = {TORCH: "torch.profiler traces", NSYS: "exports of nsys", FOLDER: "folders with exports"}


class RunFiles(msgspec.Struct, frozen=True):
    """The exports of one run: one, or one per rank and capture window.

    `ranks`: the rank of each file, where every file says it; else they count by their order. Files of one rank are windows of the
    same processes, in order. `traffic`: number of the requests that
    the run was given, where a bundle says it: runs of both sides with one number had the same.
    """

    name: str
    files: tuple[Path, ...]
    ranks: tuple[int, ...] | None = None
    traffic: int | None = None

    @property
    def places(self) -> tuple[int, ...]:
        """Of each file the place of its rank among those of the run."""
        ranks = self.ranks or tuple(range(len(self.files)))
        known = sorted(set(ranks))
        return tuple(known.index(rank) for rank in ranks)


class SideFiles(msgspec.Struct, frozen=True):
    """One side of a comparison."""

    label: str
    runs: tuple[RunFiles, ...]
    only: Selection = ALL  # what is measured of it
    notes: tuple[Note, ...] = ()  # what of its folder was not taken, or taken as what it may not be


def resolve_pair(baseline: str, candidate: str | None) -> tuple[SideFiles, SideFiles, Bundle | None]:
    """Both sides; a capture bundle alone holds both, and comes back as well.

    Raises `TracediffError`: candidate-missing, same-label, other-input and those of `resolve` and `read_bundle`.
    """
    if candidate is not None:
        one, other = split_label(baseline)[1], split_label(candidate)[1]
        label = own_label(baseline)[0]
        if label is not None and label == own_label(candidate)[0]:
            what = f"both sides are called {label}"
            raise UsageError("same-label", what, fix="a name for each: main=BASELINE pr=CANDIDATE")
        first, second = resolve(baseline, other), resolve(candidate, one)
        if first.label == second.label and one.resolve() != other.resolve():
            names = _apart(one, other)
            first, second = replace(first, label=names[0]), replace(second, label=names[1])
        return first, second, None
    path = _existing(Path(baseline))
    if not is_bundle(path):
        refuse_other(path)
        raise UsageError(
            "candidate-missing",
            f"{baseline}: only a capture bundle can be compared alone",
            fix="give two: BASELINE CANDIDATE",
        )
    bundle = read_bundle(path)
    notes = (Note("bundle-unfinished", bundle.unfinished),) if bundle.unfinished else ()

    def side(name: SideName) -> SideFiles:
        runs = tuple(
            replace(one_run(run.name, run.exports), traffic=run.traffic.seed if run.traffic else None)
            for run in bundle.profiled[name]
        )
        return SideFiles(f"{path.resolve().name}/{name}", runs, notes=notes)

    return side("baseline"), side("candidate"), bundle


def resolve(word: str, other: Path | None = None) -> SideFiles:
    """The runs that an argument names, in a fixed order. `other`: the path of the other side, which is not meant.

    Raises `TracediffError`: not-a-file, empty-folder, bundle-as-side, mixed-folder, ranks-unclear, other-input and what
    companions refuse their files with.
    """
    label, path = split_label(word)
    found = [] if path.exists() else sorted(glob(str(path)))  # noqa: PTH207 as a shell does, without hidden files
    matched = [one for one in map(Path, found) if one.exists()]
    if matched:
        return _side_of(label, path, matched)
    _existing(path, other)
    named = _named(path)
    if is_bundle(path):
        raise UsageError(
            "bundle-as-side",
            f"{path.name or path} is a capture bundle: it holds both sides",
            fix=f"compare it alone, or name the runs of one side: '{path}/runs/*-candidate-*'",
        )
    if columnar.is_folder(path):
        _no_other_export(path)
        return SideFiles(label, (RunFiles(named.name, (named,)),))
    if not path.is_dir():
        if not is_export(path):
            refuse_other(path)
        return SideFiles(label, (RunFiles(path.name, (path,)),))
    return _side_of(label, path, sorted(path.iterdir()))


def _side_of(label: str, path: Path, entries: Sequence[Path]) -> SideFiles:
    """The runs of a folder, or of what a pattern matches."""
    _no_bundle_inside(path, entries)
    runs = _runs_of(path, entries)
    if not runs:
        raise _without_exports(path, entries)
    return SideFiles(
        label,
        tuple(runs),
        notes=(
            *_taken_as_ranks(path, runs),
            *_taken_as_windows(path, runs),
            *_not_taken(path, runs, entries),
        ),
    )


def is_given(path: Path, words: Iterable[str]) -> bool:
    """Whether a file is one that words of the command line name, or an input in a folder that they name.

    A saved result in such a folder is an output.
    """
    if not path.is_file():
        return False
    for word in words:
        for text in {word, *(part for part in own_label(word)[1].split(","))}:
            named = (text, text.partition(":")[0])  # FILE:COLUMN:UNIT
            found = [Path(one) for name in named for one in (name, *glob(name))]  # noqa: PTH207 as in `resolve`
            if any(one.exists() and _holds(one, path) for one in found):
                return True
    return False


def _holds(given: Path, path: Path) -> bool:
    if not given.is_dir():
        return given.samefile(path)
    if not path.resolve().is_relative_to(given.resolve()):
        return False
    try:
        kind = recognise(path)
    except TracediffError:
        return True  # a damaged one
    is_input = kind is not None and not kind.slug.endswith("result")
    return is_input or path.name == MANIFEST or (path.suffix == ".parquet" and columnar.is_folder(given))


def split_label(word: str) -> tuple[str, Path]:
    """An argument -> what to call it in reports, and the path. A pattern of wildcards alone bears the name of its folder."""
    label, rest = own_label(word)
    if label is not None:
        return label, Path(rest)
    name = stem(_named(Path(word)))
    return (name if name.strip("*?") else Path(word).resolve().parent.name), Path(word)


def _apart(*paths: Path) -> tuple[str, str]:
    """What two paths that are called alike are called: by the last names that differ, before/report1 and after/report1 by their folders."""
    one, other = (path.resolve().parts[::-1] for path in paths)
    pairs = list(zip(one, other, strict=False))
    alike = [stem(Path(first)) == stem(Path(second)) for first, second in pairs]
    if False in alike:
        return pairs[alike.index(False)]
    return pairs[0]  # of two kinds: run.sqlite and run.nsys-rep


def _existing(path: Path, other: Path | None = None) -> Path:
    if not path.exists():
        raise missing(path, other)
    return path


def _named(path: Path) -> Path:
    """The path with a name: `.` has none."""
    return path.resolve() if path.name in ("", ".", "..") else path


# Runs of a folder


def _runs_of(folder: Path, entries: Sequence[Path]) -> list[RunFiles]:
    """The runs of sorted entries of a folder, or of those that a pattern matches."""
    files = [path for path in entries if (path.is_file() or columnar.is_folder(path)) and is_export(path)]
    exports = [path for path in files if not is_trace_name(path)]
    files = _without_copies(exports) or files
    if not files:
        found = ((sub, _runs_of(sub, sorted(sub.iterdir()))) for sub in entries if sub.is_dir())
        return [
            one_run(sub.name, [file for run in runs for file in run.files]) for sub, runs in found if runs
        ]
    groups: dict[str, list[Path]] = {}
    for path in files:
        name = _RANK.sub("", path.name)
        groups.setdefault(name if stem(Path(name)) else folder.resolve().name, []).append(path)
    if not exports and _ranks_of_one_run(list(groups.values())):
        return [one_run(folder.resolve().name, files)]
    return [
        one_run(name, sorted(paths, key=lambda path: (_rank_number(path), path.name)))
        for name, paths in sorted(_windows_joined(groups).items())
    ]


def _windows_joined(groups: Mapping[str, list[Path]]) -> dict[str, list[Path]]:
    """The files by run: those whose names differ in nsys's number of a window alone, from 1 on, are of one."""
    alike: dict[str, dict[int, str]] = {}
    for name in groups:
        if found := _WINDOW.search(stem(Path(name))):
            alike.setdefault(_WINDOW.sub("", stem(Path(name))), {})[int(found[1])] = name
    runs = dict(groups)
    for base, names in alike.items():
        if len(names) > 1 and sorted(names) == list(range(1, len(names) + 1)):
            runs[base] = [path for name in names.values() for path in runs.pop(name)]
    return runs


def _without_copies(files: Sequence[Path]) -> list[Path]:
    """Of exports of one name only the SQLite file, else the folder of tables, else the report: they are the same run."""

    def order(path: Path) -> int:
        return 1 if path.is_dir() else 2 if path.suffix == ".nsys-rep" else 0

    best: dict[str, int] = {}
    for path in files:
        best[stem(path)] = min(best.get(stem(path), 2), order(path))
    return [path for path in files if order(path) == best[stem(path)]]


def _ranks_of_one_run(groups: Sequence[Sequence[Path]]) -> bool:
    """Whether traces of torch.profiler, grouped by their names, are one per rank of one run, as their heads say.

    Raises `TracediffError`: ranks-unclear.
    """
    if len(groups) < 2 or any(len(group) > 1 for group in groups):
        return False
    ranks = [rank_of(path) for (path,) in groups]
    known = {rank for rank in ranks if rank is not None}
    if len(known) < 2:
        return False  # repeats of one rank, or of programs without ranks
    if len(known) < len(ranks):
        raise TracediffError(
            "ranks-unclear",
            f"{groups[0][0].parent.name}: {len(ranks)} traces of {len(known)} ranks: which belong to one run is"
            " not told",
            fix="a folder for each run, or names that differ within a run in rank<N> only",
        )
    return True


def one_run(name: str, files: Sequence[Path]) -> RunFiles:
    """A run of these files, with their ranks and windows where names or heads tell them all apart."""
    ranks = [_rank_number(path) for path in files]
    if min(ranks) < 0 and len(files) > 1 and all(is_trace_name(path) for path in files):
        ranks = [-1 if (rank := rank_of(path)) is None else rank for path in files]
    windows = [_WINDOW.search(stem(path)) for path in files]
    numbers = [int(found[1]) if found else 0 for found in windows]
    if max(ranks) < 0 and all(windows) and len({_WINDOW.sub("", stem(path)) for path in files}) == 1:
        ranks = [0 for _ in files]
    places = sorted(zip(ranks, numbers, files, strict=True))
    if len(files) == 1 or min(ranks) < 0 or len({place[:2] for place in places}) < len(files):
        return RunFiles(name, tuple(files))
    return RunFiles(name, tuple(file for *_, file in places), tuple(rank for rank, *_ in places))


def _rank_number(path: Path) -> int:
    found = _RANK.search(path.name)
    return int(found.group(1)) if found else -1


# Folders that are no side


def _no_bundle_inside(folder: Path, entries: Sequence[Path]) -> None:
    """Refuse a folder whose runs are of both sides: the runs of a bundle, or a folder of bundles."""
    inside = [one for one in entries if one.is_dir()]
    around = [folder.resolve().parent] if folder.resolve().name == "runs" else []
    for bundle in filter(is_bundle, [*around, *inside]):
        try:
            read_manifest(bundle)
        except TracediffError:
            continue  # something else of that name
        raise UsageError(
            "bundle-as-side",
            f"{folder.name or folder}: the runs of the capture bundle {bundle.name} are of both sides",
            fix=f"compare the bundle alone (tracediff compare {bundle}), or name folders of one side's exports",
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


def _without_exports(folder: Path, entries: Sequence[Path]) -> TracediffError:
    others = {kind: files for kind, files in _held(entries).items() if not kind.side}
    if not others:
        files = ", ".join(SUFFIXES)
        return TracediffError(
            "empty-folder",
            f"{folder.name or folder}: no export in this folder ({files}; nsys's tables as .parquet)",
            fix="nsys export --type sqlite REPORT.nsys-rep",
        )
    return UsageError(
        next((kind.refusal for kind in others if kind.refusal != "other-input"), "other-input"),
        f"{folder.resolve().name} holds no trace of a program's steps, but {count_kinds(others)}",
        fix="; ".join(dict.fromkeys(kind.instead or kind.use for kind in others)),
    )


def held(folder: Path) -> dict[Kind, list[Path]]:
    """The files of a folder by kind, of its subfolders where it has none itself; what is not known is left out."""
    return _held(sorted(islice(folder.iterdir(), 10 * _MOST)))


def _held(entries: Sequence[Path]) -> dict[Kind, list[Path]]:
    inside = (file for sub in entries if sub.is_dir() for file in _files(sub))
    return _by_kind(one for one in entries if one.is_file()) or _by_kind(inside)


def _files(folder: Path) -> Iterator[Path]:
    try:
        yield from sorted(one for one in islice(folder.iterdir(), _MOST) if one.is_file())
    except OSError:
        return


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


def count_kinds(found: dict[Kind, list[Path]]) -> str:
    """How many files of which kind, in words."""
    return ", ".join(
        f"{counted(len(files), 'file')} of the kind: {kind.title}" for kind, files in found.items()
    )


# What is said of a folder given as a side: repeats that were taken as ranks, and files that were not taken.


def _taken_as_ranks(folder: Path, runs: Sequence[RunFiles]) -> list[Note]:
    """Warn of subfolders whose exports became ranks of one run, though their names tell no ranks apart."""
    found = [
        (f"{_named(folder).name}/{run.name}", len(run.files))
        for run in runs
        # the files of a folder of files are a run each, or differ in rank<N>: only those of subfolders become one run
        if len(run.files) > 1 and run.ranks is None and any(file.parent != folder for file in run.files)
    ]
    if not found:
        return []
    listed = [f"the {count} exports of `{name}`" for name, count in found[:_NAMED]]
    listed += [f"those of {len(found) - _NAMED} more folders"] if len(found) > _NAMED else []
    taken, give = "ranks of one run a folder", "folder with one export a run instead"
    if len(found) == 1:
        taken, give = "ranks of one run", f"folder `{found[0][0]}` itself"
    text = f"whose names tell no rank<N> apart, were taken as {taken}; if they are repeats, give the {give}"
    return [Note("taken-as-ranks", f"{_named(folder).name}: {', '.join(listed)}, {text}")]


def _taken_as_windows(folder: Path, runs: Sequence[RunFiles]) -> list[Note]:
    """Say which files of a folder of files were read as windows of one run: repeats may be named so too."""
    found = [
        run
        for run in runs
        if run.ranks and len(run.files) > len(set(run.ranks)) and run.files[0].parent == folder
    ]
    return [
        Note(
            WINDOWS,
            f"{_named(folder).name}: {run.files[0].name} to {run.files[-1].name} were read as {len(run.files) // len(set(run.ranks or ()))}"
            " capture windows of one run, as nsys numbers them; if they are repeats, give each a folder or another name",
        )
        for run in found[:_NAMED]
    ]


def _not_taken(folder: Path, runs: Sequence[RunFiles], entries: Sequence[Path]) -> list[Note]:
    """Warn of exports, traces and folders of them that lie beside those that were taken, in the entries.

    A report of nsys beside an export of its name is not one of them: it is the same run.
    """
    folder, given = _named(folder), set(entries)
    used = {file for run in runs for file in run.files}
    places = sorted({one.parent for one in used})
    stems = {(one.parent, stem(one)) for one in used}
    left: dict[str, list[str]] = {}
    for path in (path for place in places for path in sorted(place.iterdir())):
        if path in used or (path.suffix == ".nsys-rep" and (path.parent, path.stem) in stems):
            continue
        if given.isdisjoint((path, *path.parents)):
            continue  # a pattern does not match it
        kind = _kind(path, places)
        if kind:
            left.setdefault(kind, []).append(path.name)
    if not left:
        return []
    others = "; ".join(
        f"{_counted(len(names), kind)} ({some(names, _NAMED)})"
        for kind, names in sorted(left.items(), key=lambda one: _PLURAL[one[0]])
    )
    kind = TORCH if all(is_trace_name(one) for one in used) else NSYS
    verb = "is" if len(used) == 1 else "are"
    text = f"only {_counted(len(used), kind)} of this folder {verb} taken, and not {others}: give those by name, or a folder of their own"
    return [Note("files-not-taken", f"{folder.name}: {text}")]


def _kind(path: Path, places: Sequence[Path]) -> str:
    """What kind of input of a comparison an entry of a folder is; '' where it is none."""
    try:
        if path.is_dir() and not columnar.is_folder(path):
            exports = path not in places and any(map(is_export, islice(path.iterdir(), _LOOKED_INTO)))
            return FOLDER if exports else ""
        return "" if not is_export(path) else TORCH if is_trace_name(path) else NSYS
    except (TracediffError, OSError):
        return ""  # a folder of two exports, or one that may not be read


def _counted(number: int, kind: str) -> str:
    noun = kind if number == 1 else _PLURAL[kind]
    return f"{number} {noun}"
