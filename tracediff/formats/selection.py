"""Which part of a side is measured: steps, by number or time, and ranks. Spelled as on the command line.

STEPS    20-50, 20- or 20: by the number in the step's label, else by its place among the labels of its process, from 1;
         1.5s-2.5s, 1.5s- or -2.5s: the time of the trace, as nsys shows it (of torch.profiler: from the earliest event); units s, ms, us, ns
RANKS    0,3-7
STEPS/STEPS: the first for the baseline, the second for the candidate
STEP     17, RUN:17 or RUN:17#2: one step, of one of several runs (its name, or its number from 1), the second of that number
"""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

ENDLESS = (1 << 62) - 1
_UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_TIME = r"(\d{1,12}(?:\.\d{1,9})?)(s|ms|us|ns)"
MIN_STEPS = 3  # whole steps a run, on average, below which a stratum says nothing about its scatter


class Selection(NamedTuple):
    """What is kept. Both ends of steps and ranks are in it; a step is in a window of time if all of its period is, ns."""

    steps: tuple[int, int] | None = None
    window: tuple[int, int] | None = None
    ranks: tuple[tuple[int, int], ...] | None = None

    @property
    def cuts_steps(self) -> bool:
        """Whether steps may be left out."""
        return self.steps is not None or self.window is not None

    def has_rank(self, rank: int) -> bool:
        """Whether a rank is kept."""
        return self.ranks is None or any(low <= rank <= high for low, high in self.ranks)


ALL = Selection()


class Pick(NamedTuple):
    """One step. run: '' any; occurrence: which of the steps of this number in the run, from 1; 0: there is one."""

    text: str
    run: str
    number: int
    occurrence: int = 0


def read_pick(text: str) -> Pick:
    """Raises ValueError."""
    run, _, step = text.strip().rpartition(":")
    found = re.fullmatch(r"(\d{1,15})(?:#([1-9]\d{0,5}))?", step.strip(), re.ASCII)
    if not found:
        raise ValueError(f"{text!r} is no step: 17, RUN:17, or 17#2 for the second step of that number")
    return Pick(text.strip(), run, int(found[1]), int(found[2] or 0))


def read_steps(text: str) -> Selection:
    """Steps of one side, by number or by time. Raises ValueError."""
    found = re.fullmatch(r"(\d{1,15})(?:(-)(\d{1,15})?)?", text.strip(), re.ASCII)
    if found:
        low = int(found[1])
        high = int(found[3]) if found[3] else ENDLESS if found[2] else low
        return Selection(steps=_ordered(low, high, text))
    found = re.fullmatch(rf"(?:{_TIME})?-(?:{_TIME})?", text.strip(), re.ASCII)
    if not found or (found[1] is None and found[3] is None):
        raise ValueError(f"{text!r} is neither a step, nor steps 20-50, nor a time 1.5s-2.5s")
    first = _ns(found[1], found[2]) if found[1] is not None else 0
    last = _ns(found[3], found[4]) if found[3] is not None else ENDLESS
    return Selection(window=_ordered(first, last, text))


def read_ranks(text: str) -> tuple[tuple[int, int], ...]:
    """Ranks, as ranges in order. Raises ValueError."""
    ranges = []
    for part in text.split(","):
        found = re.fullmatch(r"(\d{1,7})(?:-(\d{1,7}))?", part.strip(), re.ASCII)
        if not found:
            raise ValueError(f"{text!r} is no list of ranks, as 0,3-7")
        ranges.append(_ordered(int(found[1]), int(found[2] or found[1]), text))
    return tuple(sorted(set(ranges)))


def selections(steps: str | None, ranks: str | None) -> tuple[Selection, Selection]:
    """What is kept of the baseline and of the candidate. Raises ValueError."""
    of_ranks = read_ranks(ranks) if ranks is not None else None
    sides = steps.split("/") if steps is not None else []
    if len(sides) > 2:
        raise ValueError(f"{steps!r} names more than two sides")
    found = [read_steps(one)._replace(ranks=of_ranks) for one in sides] or [Selection(ranks=of_ranks)]
    return found[0], found[-1]


def spell_steps(only: Selection) -> str:
    """As on the command line; '' where all are kept."""
    if only.window is not None:
        return "-".join(_seconds(one) if 0 < one < ENDLESS else "" for one in only.window)
    if only.steps is None:
        return ""
    low, high = only.steps
    return f"{low}" if low == high else f"{low}-" if high == ENDLESS else f"{low}-{high}"


def spell_ranks(only: Selection) -> str:
    """As on the command line; '' where all are kept."""
    return ",".join(f"{low}" if low == high else f"{low}-{high}" for low, high in only.ranks or ())


def _seconds(ns: int) -> str:
    whole, rest = divmod(ns, 10**9)
    return f"{whole}.{rest:09}".rstrip("0").rstrip(".") + "s"


def _ordered(low: int, high: int, text: str) -> tuple[int, int]:
    if low > high:
        raise ValueError(f"{text!r} ends before it begins")
    return low, high


def _ns(number: str, unit: str) -> int:
    value = Decimal(number) * _UNITS[unit]
    if value > ENDLESS:
        raise ValueError(f"{number}{unit} is beyond every trace")
    return int(value)


# `label=PATH`: a name for the report before a path of the command line.


def own_label(word: str) -> tuple[str | None, str]:
    """The label, None where there is none, and the rest of the word.

    A path with `=` in it is a path: where it exists (the first of several with commas), or has a `/` before the `=`.
    """
    label, equals, rest = word.partition("=")
    there = Path(word).exists() or Path(word.partition(",")[0]).exists()
    return (label, rest) if equals and label and "/" not in label and not there else (None, word)
