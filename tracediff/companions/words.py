"""Figures in the sentences of companions: times in ns, bytes, counts; plain ASCII with three digits, as those of the core."""

from __future__ import annotations

from tracediff.report import units

time, signed = units.spoken, units.spoken_delta  # a duration, a difference of two
_COUNTS = (("G", 1e9), ("M", 1e6), ("k", 1e3))


def size(value: float) -> str:
    """Write bytes in decimal units."""
    return units.sizes(value, value)


def count(value: float) -> str:
    """Write a count of instructions."""
    unit, factor = next(((unit, factor) for unit, factor in _COUNTS if abs(value) >= factor), ("", 1.0))
    return f"{units.three_digits(value / factor)} {unit}".rstrip()


def clock(hz: float) -> str:
    """Write a frequency."""
    return f"{hz / 1e9:.2f} GHz"


def percent(value: float) -> str:
    """Write a percentage: whole, with a digit below ten."""
    return units.share(value, 100).removesuffix(" %")


def both(before: str, after: str) -> str:
    """Write a change; the unit once where both have the same."""
    one, _, unit = before.rpartition(" ")
    if one and unit == after.rpartition(" ")[2] and unit.isalpha():
        before = one
    return f"{before} -> {after}"


def points(before: float, after: float) -> str:
    """Write a change of a percentage."""
    return f"{percent(before)} -> {percent(after)} %"


def times(before: float, after: float) -> str:
    """Write how often the smaller goes into the larger."""
    ratio = max(before, after) / min(before, after)
    return f"{ratio:,.0f} x" if ratio >= 9.95 else f"{ratio:.1f} x" if ratio >= 1.095 else f"{ratio:.2f} x"


def part(delta: float, base: float) -> str:
    """Write a change as a part of its base, in brackets after a blank; empty without a base."""
    return f" ({units.percent(delta, base)})" if base else ""
