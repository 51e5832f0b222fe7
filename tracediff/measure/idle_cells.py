"""Numbers for what a piece of idle time is: cause, thread's role, place, holder of the GIL, whether in a copying call."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from tracediff.align.places import Places
from tracediff.align.threads import Thread
from tracediff.measure.attribution import CODE, IDLE, IdlePieces
from tracediff.measure.grouping import Numbering
from tracediff.measure.hosts import Hosts
from tracediff.measure.intervals import Index, Ints

CELL = ("cause", "under", "thread", "place", "holder", "holder_place", "copy")
ENTRY = ("cause", "under", "thread", "place")

# A cell is coded in one number, from the right: place + 1 (25 bits), the thread's role + 1 (12), copy (1), cause (5;
# of a wait for the GIL: the number of causes + what it hides), the number of who held the GIL (20; 0 nobody).
_ROLE_AT, _COPY_AT, _CAUSE_AT, _HOLDER_AT = 25, 37, 38, 43
_PLACE_MASK, _ROLE_MASK, _CAUSE_MASK = (1 << 25) - 1, (1 << 12) - 1, (1 << 5) - 1
_ENTRY_MASK = (1 << _HOLDER_AT) - 1 - (1 << _COPY_AT)


@dataclass(frozen=True)
class Words:
    """The roles and places that the numbers in cells stand for."""

    roles: list[str]
    role_of: dict[int, int]  # thread -> position in roles
    places: Places
    hosts: Hosts

    @classmethod
    def of(cls, threads: dict[int, Thread], places: Places, hosts: Hosts) -> Words:
        """Number the roles of these threads."""
        roles = sorted({thread.role for thread in threads.values()})
        return cls(roles, {tid: roles.index(thread.role) for tid, thread in threads.items()}, places, hosts)

    def code(self, tid: int, label: Index, start: Ints) -> Ints:
        """Role and place of pieces of one thread, 0 without a thread; outside any range: between which ones."""
        code = self.places.ids(label) + 1
        code |= (self.role_of.get(tid, -1) + 1) << _ROLE_AT
        outside = np.flatnonzero(label < 0)
        if tid >= 0 and len(outside):
            ranges, labels = self.hosts.thread(tid).places
            code[outside] += self.places.outside(ranges.start, labels, start[outside]) + 1
        return code

    def spelled(self, code: Ints) -> tuple[pl.Series, pl.Series]:
        """Role and place of each code, '' where there is none; what else is in a cell's code is left alone."""
        roles, places = pl.Series(["", *self.roles]), pl.Series(["", *self.places.names])
        return roles.gather(code >> _ROLE_AT & _ROLE_MASK), places.gather(code & _PLACE_MASK)


class Cells:
    """The cells of an export, numbered as they turn up."""

    def __init__(self, words: Words, copy_calls: list[int]) -> None:
        """`copy_calls`: the CUDA functions that launch copies."""
        self._words = words
        self._copy_calls = copy_calls
        self._cells, self._entries, self._holders = Numbering(), Numbering(), Numbering()
        self._holders.numbers(np.array([-1]))  # 0: nobody, the piece is no wait for the GIL

    def numbers(self, pieces: IdlePieces) -> npt.NDArray[np.int32]:
        """The cell of each piece."""
        code = self._words.code(pieces.tid, pieces.label, pieces.start)
        if pieces.holder_label is None or pieces.under is None:
            code |= pieces.cause.astype(np.int64) << _CAUSE_AT
            launching = np.flatnonzero(pieces.cause == CODE["launch_api"])
            api = pieces.api[launching]
            for call in self._copy_calls:
                code[launching[api == call]] |= 1 << _COPY_AT
        else:
            holder = self._words.code(pieces.holder, pieces.holder_label, pieces.start)
            code |= (len(IDLE) + pieces.under.astype(np.int64)) << _CAUSE_AT
            code |= self._holders.numbers(holder).astype(np.int64) << _HOLDER_AT
        return self._cells.numbers(code)

    @property
    def size(self) -> int:
        """How many cells there are so far."""
        return len(self._cells.codes)

    def entries(self) -> npt.NDArray[np.int32]:
        """For each cell the number of its ENTRY: what it is but for the holder and copying."""
        return self._entries.numbers(self._codes() & _ENTRY_MASK)

    def causes(self) -> Ints:
        """For each cell the index of its cause in IDLE."""
        cause = self._codes() >> _CAUSE_AT & _CAUSE_MASK
        return np.where(cause >= len(IDLE), CODE["gil_wait"], cause)

    def table(self) -> pl.DataFrame:
        """CELL, a row a cell."""
        return self._spelled(self._codes())

    def in_order(self) -> tuple[pl.DataFrame, Index]:
        """CELL, each once and sorted by its words, and the row there of each cell."""
        table = self.table()
        words = table.unique().sort(CELL).with_row_index("number")
        number = table.join(words, on=CELL, how="left", maintain_order="left")["number"]
        return words.drop("number"), number.to_numpy()

    def entry_table(self) -> pl.DataFrame:
        """ENTRY, a row an entry."""
        return self._spelled(np.array(self._entries.codes, np.int64)).select(ENTRY)

    def _codes(self) -> Ints:
        return np.array(self._cells.codes, np.int64)

    def _spelled(self, code: Ints) -> pl.DataFrame:
        holder = np.maximum(np.array(self._holders.codes, np.int64)[code >> _HOLDER_AT], 0)
        cause = code >> _CAUSE_AT & _CAUSE_MASK
        waits = cause >= len(IDLE)
        causes = pl.Series(list(IDLE))
        thread, place = self._words.spelled(code)
        holder_thread, holder_place = self._words.spelled(holder)
        return pl.DataFrame(
            {
                "cause": causes.gather(np.where(waits, CODE["gil_wait"], cause)),
                "under": causes.gather(np.where(waits, cause - len(IDLE), cause)),
                "thread": thread,
                "place": place,
                "holder": holder_thread,
                "holder_place": holder_place,
                "copy": (code >> _COPY_AT & 1).astype(np.bool_),
            }
        )
