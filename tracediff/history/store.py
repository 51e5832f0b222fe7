"""Where points are kept: a folder, here or in an object store, with one small file per point.

A file is written whole under a name made of its content. So nothing is ever changed or appended to: two writers cannot lose anything
of each other's without a lock or a server, the same result added twice is one file, and a file that was cut short does not fit its name.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from tracediff.errors import TracediffError, not_installed
from tracediff.history.points import Point, fits

STORE_VERSION = 1
_ENDING = ".json"
_LETTERS = 32  # of the hash in a name: 128 bits


class Kept(msgspec.Struct, frozen=True):
    """A point as it lies in the store. `name`: of its file; source: the file it came from; link: where its report can be read."""

    name: str
    point: Point
    added: str  # ISO 8601 in UTC
    source: str = ""
    link: str = ""


class _File(msgspec.Struct, frozen=True):
    """A file. Its name is the hash of `point` alone: who added it, and when, makes no other point."""

    format_version: int
    point: msgspec.Raw
    added: str = ""
    source: str = ""
    link: str = ""


class _Version(msgspec.Struct):
    format_version: int


class Store:
    """A folder of points; `place`: its path, or a URL of any file system that fsspec knows."""

    def __init__(self, place: str) -> None:
        self.place = place
        self._folder: _Local | _Remote = _Remote(place) if "://" in place else _Local(Path(place))

    def add(
        self, point: Point, *, source: str = "", link: str = "", now: datetime | None = None
    ) -> tuple[str, bool]:
        """Keep a point; its name, and whether it is new: what lies there cut short is replaced. Raises `TracediffError`: history-not-writable."""
        data = msgspec.json.encode(point)
        name = _name(data)
        added = (now or datetime.now(UTC)).isoformat(timespec="seconds")
        file = _File(STORE_VERSION, msgspec.Raw(data), added, source, link)
        try:
            there = self._folder.get(name)
            if there is not None and self._decode(name, there) is not None:
                return name, False
            self._folder.write(name, msgspec.json.encode(file))
        except OSError as error:
            raise TracediffError(
                "history-not-writable",
                f"{self.place}: the point could not be written: {error.strerror or error}",
                fix="check the permissions of the store, or name another one with --store",
            ) from error
        return name, True

    def read(self) -> tuple[list[Kept], list[str]]:
        """All points, and the names of the files that are not whole, in no order that matters.

        Raises `TracediffError`: history-missing, history-version.
        """
        try:
            files = self._folder.read()
        except OSError as error:
            raise TracediffError(
                "history-missing",
                f"{self.place} is no store of points: {error.strerror or error}",
                fix="tracediff history add RESULT --commit SHA --store PATH makes one",
            ) from error
        found, torn = [], []
        for name, data in files:
            kept = self._decode(name, data)
            if kept is None:
                torn.append(name)
            else:
                found.append(kept)
        return found, sorted(torn)

    def _decode(self, name: str, data: bytes) -> Kept | None:
        try:
            file = msgspec.json.decode(data, type=_File)
            whole = file.format_version == STORE_VERSION and _name(bytes(file.point)) == name
            if whole:
                point = msgspec.json.decode(file.point, type=Point)
                if fits(point):
                    return Kept(name, point, file.added, file.source, file.link)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass
        try:
            version = msgspec.json.decode(data, type=_Version).format_version
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        if version > STORE_VERSION:
            raise TracediffError(
                "history-version",
                f"{self.place}: {name} has format {version}, this tracediff reads {STORE_VERSION}",
                fix="install a newer tracediff",
            )
        return None


def _name(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:_LETTERS] + _ENDING


def _is_point(name: str) -> bool:
    return name.endswith(_ENDING) and not name.startswith(".")


class _Local:
    """A folder of this machine, or one that it mounts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, name: str) -> bytes | None:
        try:
            return (self._folder / name).read_bytes()
        except FileNotFoundError:
            return None

    def read(self) -> Iterable[tuple[str, bytes]]:
        names = sorted(one.name for one in self._folder.iterdir() if _is_point(one.name))
        return ((name, (self._folder / name).read_bytes()) for name in names)

    def write(self, name: str, data: bytes) -> None:
        """Through a file beside it, so that a reader sees all of it or nothing."""
        self._folder.mkdir(parents=True, exist_ok=True)
        part = self._folder / f".{name}.{secrets.token_hex(6)}.part"
        try:
            with part.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            part.replace(self._folder / name)
        finally:
            part.unlink(missing_ok=True)


class _Remote:
    """A folder of an object store: what is put there is there whole or not at all."""

    def __init__(self, url: str) -> None:
        try:
            import fsspec
        except ModuleNotFoundError as error:
            raise not_installed("fsspec-missing", f"{url}: fsspec, which opens URLs,", "history") from error
        try:
            self._files: Any
            self._files, self._folder = fsspec.core.url_to_fs(url)
        except (ImportError, ValueError) as error:
            raise TracediffError(
                "history-url",
                f"{url}: {error}",
                fix="install what fsspec names, for example pip install s3fs",
            ) from error

    def get(self, name: str) -> bytes | None:
        try:
            data: bytes = self._files.cat_file(self._path(name))
            return data
        except FileNotFoundError:
            return None

    def _path(self, name: str) -> str:
        return f"{self._folder.rstrip('/')}/{name}"

    def _paths(self) -> list[str]:
        try:
            listed = self._files.ls(self._folder, detail=False)
        except FileNotFoundError:
            return []
        return [path for path in listed if _is_point(path.rpartition("/")[2])]

    def read(self) -> Iterable[tuple[str, bytes]]:
        paths = self._paths()
        if not paths:
            raise FileNotFoundError(2, os.strerror(2), self._folder)
        many = self._files.cat(paths) if len(paths) > 1 else {paths[0]: self._files.cat_file(paths[0])}
        return [(path.rpartition("/")[2], data) for path, data in sorted(many.items())]

    def write(self, name: str, data: bytes) -> None:
        self._files.makedirs(self._folder, exist_ok=True)
        self._files.pipe_file(self._path(name), data)
