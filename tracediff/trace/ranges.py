"""Places: NVTX texts with their numbers masked, so that step 31 of one run meets step 44 of another."""

from __future__ import annotations

import re

import duckdb
import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
_NUMBER = re.compile(r"0x[0-9a-fA-F]+|\d+(?:\.\d+)?")
_OPERANDS = re.compile(
    r", (?:seq|op_id) = [0-9]+(?:, .*)?\Z", re.DOTALL
)  # `aten::mm, op_id = 7, sizes = [[16, 16], ...`

# All generations of a step label are one place.
STEP_PLACE = "[Executor] _forward_step"
OUTSIDE = "outside any range"


def mask(text: str) -> str:
    """`layer 12: 0x7f3a` -> `layer N: N`; of an operator that PyTorch's `emit_nvtx` labels, its name alone."""
    return _NUMBER.sub("N", _OPERANDS.sub("", text))


class Places:
    """Label of range_text -> place, as dense ids."""

    def __init__(self, db: duckdb.DuckDBPyConnection) -> None:
        rows = db.execute("SELECT label, text FROM range_text ORDER BY label").fetchall()
        found = db.execute("SELECT count(*) FROM duckdb_tables() WHERE table_name = 'step_text'").fetchone()
        known = db.execute("SELECT label FROM step_text").fetchall() if found and found[0] else []
        steps = {label for (label,) in known}
        names: dict[str, int] = {}
        self._of_label = np.full(max((row[0] for row in rows), default=-1) + 2, -1, np.int64)
        for label, text in rows:
            place = STEP_PLACE if label in steps and "_forward_step" in text else mask(text)
            self._of_label[label] = names.setdefault(place, len(names))
        self.names: list[str] = list(names)
        self._ids = names
        self._outside: dict[int, int] = {}  # the places before and after, in one number -> place

    @property
    def size(self) -> int:
        """How many labels there are."""
        return len(self._of_label) - 1

    def ids(self, label: npt.NDArray[np.integer]) -> Ints:
        """Labels -> place ids; -1 stays -1."""
        return np.asarray(self._of_label[label], np.int64)  # its last entry, that of -1, is -1

    def of_label(self, label: int) -> str:
        """The place of one label."""
        return self.name(int(self._of_label[label]))

    def name(self, place: int) -> str:
        """The text of a place; '' for -1."""
        return self.names[place] if place >= 0 else ""

    def outside(self, ranges_start: Ints, labels: Ints, instant: Ints) -> npt.NDArray[np.int64]:
        """For instants outside any range of a thread: a place id that says between which ranges they fall.

        `ranges_start`, `labels`: the thread's partition by innermost range.
        """
        following, which = np.unique(
            np.searchsorted(ranges_start, instant, side="right"), return_inverse=True
        )
        around = []
        for at in (following - 1, following):
            place = np.full(len(at), -1, np.int64)  # before the first range and after the last
            inside = (at >= 0) & (at < len(labels))
            place[inside] = self.ids(labels[at[inside]])
            around.append(place + 1)
        pairs, each = np.unique(around[0] << 32 | around[1], return_inverse=True)
        ids = np.array([self._between(pair) for pair in pairs.tolist()], np.int64)
        return np.asarray(ids[each.reshape(-1)][which.reshape(-1)], np.int64)

    def _between(self, pair: int) -> int:
        """The place id for the places before and after, each plus one, in one number."""
        if pair not in self._outside:
            text = outside_text(self.name((pair >> 32) - 1), self.name((pair & 0xFFFFFFFF) - 1))
            if text not in self._ids:
                self._ids[text] = len(self.names)
                self.names.append(text)
            self._outside[pair] = self._ids[text]
        return self._outside[pair]


def outside_text(previous: str, following: str) -> str:
    """How a place outside any range is called."""
    if previous and following:
        return f"{OUTSIDE}, between {previous} and {following}"
    if previous or following:
        return f"{OUTSIDE}, " + (f"after {previous}" if previous else f"before {following}")
    return OUTSIDE


def beside(place: str) -> list[str] | None:
    """The ranges before and after a place that `outside_text` made; None for a range."""
    if not place.startswith(OUTSIDE):
        return None
    side, _, text = place.removeprefix(OUTSIDE).removeprefix(", ").partition(" ")
    return text.split(" and ", 1) if side == "between" else [text] if text else []
