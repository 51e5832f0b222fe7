"""The folders that an agent may read, and its names for the files in them: no path of the machine goes in or out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from tracediff.errors import TracediffError, UsageError, visible

_MOST = 10_000  # files of a folder that is read
_LONGEST = 1_000  # characters of a name


class Found(msgspec.Struct, frozen=True):
    """A file or folder: its name for the agent, its path without symbolic links, and what changes when its content does."""

    name: str
    path: Path
    stamp: tuple[tuple[str, int, int], ...] = ()


class Folders:
    """Folders that may be read. Names are relative to the only one; of several they begin with the folder's own name."""

    def __init__(self, given: Sequence[Path]) -> None:
        """Raises `TracediffError`: root-invalid."""
        resolved = [folder.resolve() for folder in given]
        for folder, path in zip(given, resolved, strict=True):
            if not path.is_dir():
                raise UsageError(
                    "root-invalid", f"--root {folder}: there is no such folder", fix="check the path"
                )
        names = [path.name for path in resolved] if len(set(resolved)) > 1 else [""]
        self._roots = dict(zip(names, resolved, strict=False))
        if len(self._roots) < len(set(resolved)):
            raise UsageError(
                "root-invalid",
                "two folders of one name after --root: their files could not be told apart",
                fix="--root with a folder above both",
            )

    def find(self, name: str) -> Path:
        """The path of a file or folder, without symbolic links. Raises `TracediffError`: outside-root, not-a-file."""
        parts = name.split("/")
        if name.startswith(("/", "~")) or ".." in parts or "\0" in name or len(name) > _LONGEST:
            raise _outside(name)
        parts = [part for part in parts if part not in ("", ".")]
        root = self._roots.get("") or (self._roots.get(parts.pop(0)) if parts else None)
        try:
            path = root.joinpath(*parts).resolve() if root else None
            there = path is not None and path.exists()
        except (OSError, RuntimeError, ValueError):  # too long, links in a circle, half a character
            path, there = None, False
        if path is not None and not self._holds(path):
            raise _outside(name)
        if path is None or not there:
            raise TracediffError(
                "not-a-file", f"{name[:_LONGEST]}: there is no such file or folder", fix="`inputs` lists what is there"
            )  # fmt: skip
        return path

    def readable(self, name: str) -> Found:
        """The same, where everything that reading it may open lies under the folders too. Raises also too-many-files."""
        path = self.find(name)
        stamp: dict[Path, tuple[str, int, int]] = {}
        # What lies beside a file under its name may be opened with it: a log of SQLite, another form of the same report.
        stem = path.name.split(".")[0]
        todo = (
            [path] if path.is_dir() else [one for one in path.parent.iterdir() if one.name.startswith(stem)]
        )
        while todo:
            one = todo.pop().resolve()
            if not self._holds(one):
                raise _outside(name)
            if one in stamp or not one.exists():
                continue
            about = one.stat()
            stamp[one] = (str(one), about.st_size, about.st_mtime_ns)
            todo += one.iterdir() if one.is_dir() else ()
            if len(stamp) + len(todo) > _MOST:
                raise TracediffError(
                    "too-many-files", f"{name}: more than {_MOST:,} files", fix="name a folder in it"
                )
        return Found(name.strip("/") or ".", path, tuple(sorted(stamp.values())))

    def entries(self, name: str) -> Iterator[tuple[str, Path]]:
        """Names and paths of what lies in a folder and may be read, in order; "" the folders themselves where there are several."""
        if name.strip("/.") == "" and "" not in self._roots:
            yield from sorted(self._roots.items())
            return
        for path in sorted(self.find(name).iterdir()):
            there = "/".join(part for part in (name.strip("/"), path.name) if part not in ("", "."))
            if self._holds(path.resolve()):
                yield there, path

    def plain(self, text: str) -> str:
        """A message without the paths of the folders."""
        for name, root in self._roots.items():
            text = text.replace(f"{root}/", f"{name}/" if name else "").replace(str(root), name or ".")
        return visible(text, keep="\n")

    def _holds(self, path: Path) -> bool:
        return any(path == root or root in path.parents for root in self._roots.values())


def _outside(name: str) -> TracediffError:
    return TracediffError(
        "outside-root",
        f"{visible(name[:200])}: not under the folders that `tracediff mcp --root` was given, or holds a link that leaves them",
        fix="a name as `inputs` lists it; the user may name further folders with --root",
    )
