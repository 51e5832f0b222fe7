"""The proof of a scrub: rows and a content hash of every table, taken before and after."""

from __future__ import annotations

import hashlib
import marshal
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

Row = tuple[Any, ...]


@dataclass(slots=True)
class TableProof:
    """What was compared between the source and the result for one table."""

    name: str
    rows_read: int
    rows_kept: int
    digest: str
    texts_changed: int = 0

    @property
    def untouched(self) -> bool:
        """Whether every row is there, byte for byte."""
        return self.rows_read == self.rows_kept and not self.texts_changed


@dataclass(slots=True)
class ScrubReport:
    """What `scrub` kept, changed and left out."""

    tables: list[TableProof] = field(default_factory=list)
    dropped_tables: list[str] = field(default_factory=list)
    strings_dropped: int = 0
    processes_dropped: int = 0
    records_dropped: int = 0
    arguments_removed: int = 0


class Digest:
    """A hash of rows, the same for the same values of the same types in the same order."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        self.rows = 0

    def add(self, rows: Iterable[Row]) -> None:
        """Take some rows in."""
        for row in rows:
            self._hash.update(marshal.dumps(row, 2))  # version 2 has no back references
            self.rows += 1

    def hex(self) -> str:
        """The hash so far."""
        return self._hash.hexdigest()
