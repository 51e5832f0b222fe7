"""What is said of a folder given as a side: files of it that are not taken, and repeats that were taken as ranks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from tracediff.errors import TracediffError
from tracediff.load import columnar
from tracediff.load.kineto_names import is_trace_name
from tracediff.load.unpack import is_export
from tracediff.model import Note

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
