"""What the readers of latencies share: the values as a file has them, and the check that each is a time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tracediff.errors import TracediffError
from tracediff.load.latency_names import UNITS

MAX_VALUES = 2_000_000
LONGEST_NS = 1e16  # 116 days: beyond it the unit is wrong
_SHOWN = 40


@dataclass(frozen=True)
class Found:
    """A list of values in a file; `unit`: what the format or the file says, None where only the name can tell."""

    format: str
    name: str  # of the column, key or benchmark; '' where there is none
    values: Sequence[object]
    unit: str | None = None
    place: str = "value"  # what is counted in messages: value, line
    first: int = 1  # number of the first one
    note: str = ""  # what was left out


def bad_value(
    where: str, what: str, fix: str = "leave out, or mend, what is no measurement"
) -> TracediffError:
    """The error for a value that is no time."""
    return TracediffError("latencies-bad-value", f"{where}: {what}", fix=fix)


def in_ns(found: Found, unit: str, where: str) -> npt.NDArray[np.float64]:
    """Return the values as ns. Raises `TracediffError`: latencies-empty, latencies-bad-value, latencies-unreadable."""
    if not len(found.values):
        raise TracediffError(
            "latencies-empty", f"{where}: there is no latency in it", fix="give a file with measurements"
        )
    if len(found.values) > MAX_VALUES:
        raise TracediffError(
            "latencies-unreadable",
            f"{where}: {len(found.values):,} latencies, the most that is read is {MAX_VALUES:,}",
            fix="give fewer of them, such as every tenth",
        )
    out = np.fromiter(_numbers(found, where), dtype=np.float64, count=len(found.values)) * UNITS[unit]
    largest = int(out.argmax())
    if out[largest] > LONGEST_NS:
        raise bad_value(
            where,
            f"{found.place} {found.first + largest} is {found.values[largest]} {unit}: longer than 100 days",
            fix="check the unit",
        )
    return out


def _numbers(found: Found, where: str) -> Iterable[float]:
    for place, value in enumerate(found.values, found.first):
        number = as_number(value)
        if number is None or not math.isfinite(number) or number < 0:
            why = (
                "negative"
                if number is not None and number < 0
                else "not finite"
                if number is not None
                else "no number"
            )
            raise bad_value(where, f"{found.place} {place} is {shown(value)}: {why}")
        yield number


def as_number(value: object) -> float | None:
    """Return a number of JSON as a float, None for anything else: a text is no number there."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf


def shown(value: object) -> str:
    """Write a value of the file into a message."""
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
