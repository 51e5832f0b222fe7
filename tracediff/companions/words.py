"""Figures in the sentences of companions: times in ns, bytes, counts; plain ASCII with three digits."""

from __future__ import annotations

_SIZES = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3))
_COUNTS = (("G", 1e9), ("M", 1e6), ("k", 1e3))
_TIMES = (("s", 1e9), ("ms", 1e6), ("us", 1e3))


def _digits(value: float) -> str:
    """Three digits, no exponent."""
    decimals = 0 if abs(value) >= 99.95 else 1 if abs(value) >= 9.995 else 2
    return f"{value:,.{decimals}f}"


def _scaled(value: float, units: tuple[tuple[str, float], ...], plain: str) -> str:
    for unit, size in units:
        if abs(value) >= size:
            return f"{_digits(value / size)} {unit}"
    number = _digits(value) if value % 1 else f"{value:.0f}"
    return f"{number} {plain}".rstrip()


def time(ns: float) -> str:
    """Write a duration."""
    return _scaled(ns, _TIMES, "ns")


def size(value: float) -> str:
    """Write bytes in decimal units."""
    return _scaled(value, _SIZES, "B")


def count(value: float) -> str:
    """Write a count of instructions."""
    return _scaled(value, _COUNTS, "")


def clock(hz: float) -> str:
    """Write a frequency."""
    return f"{hz / 1e9:.2f} GHz"


def percent(value: float) -> str:
    """Write a percentage: whole, with a digit below ten."""
    return f"{value:.0f}" if abs(value) >= 9.95 or value == 0 else f"{value:.1f}"


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
    return f" ({100 * delta / base:+.1f} %)" if base else ""


def signed(ns: float) -> str:
    """Write a difference of times."""
    return ("-" if ns < 0 else "+") + time(abs(ns))
