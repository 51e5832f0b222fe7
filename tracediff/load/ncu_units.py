"""Units of Nsight Compute's output to one form: ns, byte, per second, and every other unit unscaled.

`ncu` scales values for people (`Mbyte`, `usecond`, `cycle/nsecond`); prefixes are decimal. The spelling changed
over the years (nsecond, ns), so both are known.
"""

from __future__ import annotations

import re

_TIMES = {
    "nsecond": 1.0, "ns": 1.0, "usecond": 1e3, "us": 1e3, "msecond": 1e6, "ms": 1e6, "second": 1e9, "s": 1e9,
    "sec": 1e9, "minute": 60e9, "hour": 3600e9,
}  # fmt: skip
_PREFIXES = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
# What a prefix may stand before, and what goes without one.
_SCALED = (
    "byte",
    "hz",
    "inst",
    "sector",
    "cycle",
    "request",
    "warp",
    "thread",
    "block",
    "wavefront",
    "flop",
    "op",
)
_PLAIN = frozenset(
    {
        "",
        "%",
        "inst",
        "register",
        "sectors",
        "pass",
        "sample",
        "branches",
        "blocks",
        "warps",
        "bytes",
        "SM",
        "us/1",
    }
)
_WORD = re.compile(rf"([KMGT]?)({'|'.join(_SCALED)})s?\Z", re.IGNORECASE)
# One number: digits, perhaps in groups of three, perhaps with a fraction or an exponent.
_NUMBER = re.compile(r"[-+]?(?:\d+|\d{1,3}(?:,\d{3})+)(?:\.\d+)?(?:[eE][-+]?\d+)?\Z")
# `1,5` or `1.234,5`: a decimal comma, of a machine with another locale.
_DECIMAL_COMMA = re.compile(
    r"[-+]?\d[\d.]*,(?:\d{1,2}|\d{4,})\Z|[-+]?\d{1,3}(?:\.\d{3})+,\d+\Z|[-+]?\d{1,3}(?:\.\d{3}){2,}\Z"
)


def factor(unit: str) -> float | None:
    """What a value in this unit is multiplied with: to ns, byte, hz, or per second; None where it is not known."""
    top, slash, below = unit.strip().partition("/")
    upper = _factor_of_word(top)
    if upper is None:
        return None
    if not slash:
        return upper
    if below in _TIMES:  # a rate: per second
        return upper * 1e9 / _TIMES[below]
    return upper if _factor_of_word(below) == 1.0 else None


def _factor_of_word(word: str) -> float | None:
    if word in _TIMES:
        return _TIMES[word]
    if word in _PLAIN:
        return 1.0
    found = _WORD.match(word)
    if found is None:
        return None
    return _PREFIXES[found[1].upper()]


def number(text: str) -> float | None:
    """Read a number as `ncu` writes it; None where it is not one (`n/a`, a name)."""
    text = text.strip()
    if not _NUMBER.match(text):
        return None
    return float(text.replace(",", ""))


def decimal_comma(text: str) -> bool:
    """Tell whether the text is a number that only a locale with a decimal comma writes."""
    return _DECIMAL_COMMA.match(text.strip()) is not None
