"""What the name of a column or key says: whether it is a latency, and in which unit. Nothing is guessed from values."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tracediff.errors import TracediffError

UNITS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
"""Unit as it is written in options and results -> ns."""

_WORDS = {
    "ns": ("ns", "nsec", "nsecs", "nanosecond", "nanoseconds", "nano", "nanos"),
    "us": ("us", "\u00b5s", "\u03bcs", "usec", "usecs", "microsecond", "microseconds", "micros"),
    "ms": ("ms", "msec", "msecs", "millisecond", "milliseconds", "millis"),
    "s": ("s", "sec", "secs", "second", "seconds"),
}
_UNIT_OF = {word: unit for unit, words in _WORDS.items() for word in words}
_LATENCY = {
    "latency",
    "latencies",
    "time",
    "times",
    "duration",
    "durations",
    "elapsed",
    "runtime",
    "runtimes",
}
# A number of one of these is no duration, whatever its unit: rates, moments, counters.
_OTHER = {
    "per", "throughput", "rate", "qps", "tok", "tokens", "req", "requests", "samples", "flops", "tflops", "bytes",
    "start", "end", "begin", "stop", "timestamp", "ts", "date", "wall", "clock", "since", "epoch",
    "iteration", "iter", "step", "index", "idx", "id", "i", "n", "run", "rank", "batch", "size", "seed", "count",
}  # fmt: skip
_COUNTERS = {
    "iteration",
    "iter",
    "step",
    "index",
    "idx",
    "id",
    "i",
    "n",
    "run",
    "rank",
    "",
    "timestamp",
    "ts",
}
_TOKEN = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z\u00b5\u03bc]+|\d+")


def words(name: str) -> list[str]:
    """Split a name: `latency_ms`, `Latency (ms)` and `latencyMs` all give latency, ms."""
    return [token.lower() for token in _TOKEN.findall(name)]


def unit_of(text: str) -> str | None:
    """Return the unit that a word names: `msec` -> ms; None where it is none."""
    return _UNIT_OF.get(text.strip().lower())


def unit_in(name: str) -> str | None:
    """Return the unit that a name ends in, `step_time_us` -> us; None for rates, moments and names without one."""
    found = words(name)
    if not found or (
        len(found) > 1 and set(found[:-1]) & _OTHER - {"step", "iteration", "iter", "wall", "clock"}
    ):
        return None
    return _UNIT_OF.get(found[-1])


def quantity(name: str) -> str:
    """Return what a name says is measured, without its unit: `Latency (ms)` and `latency_us` are the same, `ttft_ms` is not."""
    found = words(name)
    return " ".join(found[:-1] if len(found) > 1 and found[-1] in _UNIT_OF else found)


def is_latency(name: str) -> bool:
    """Whether a name speaks of a duration: by its unit, or by a word such as latency or time."""
    found = set(words(name))
    moments = {"start", "end", "begin", "stop", "timestamp", "date", "since", "epoch", "per"}
    return unit_in(name) is not None or (bool(found & _LATENCY) and not found & moments)


def choose(names: Sequence[str], wanted: str | None, where: str) -> str:
    """Return the one column or key that holds the latencies; `names`: those that hold numbers.

    `wanted` is what the user asked for. Else: the only one named as a duration, else the only one that is no counter.
    Raises `TracediffError`: latencies-column.
    """
    listed = ", ".join(name[:60] for name in names[:12]) or "none"
    if wanted is not None:
        if wanted in names:
            return wanted
        raise TracediffError(
            "latencies-column",
            f"{where}: no column or key {wanted[:60]!r} of numbers",
            fix=f"there are: {listed}",
        )
    durations = [name for name in names if is_latency(name)]
    rest = durations or [name for name in names if not set(words(name)) <= _COUNTERS]
    if len(rest) == 1:
        return rest[0]
    raise TracediffError(
        "latencies-column",
        f"{where}: {'several columns or keys' if rest else 'no column or key'} could be the latencies"
        f" (of numbers: {listed})",
        fix="--column NAME",
    )


def settle_unit(name: str, said: str | None, given: str | None, where: str) -> tuple[str, str]:
    """Return the unit and what told it: the option, the file, or the name of the column.

    `said`: a unit that the file states; `given`: --unit. Raises `TracediffError`: latencies-unit, also where they differ.
    """
    named = unit_in(name)
    known = {unit for unit in (said, named) if unit}
    if len(known) > 1:
        raise TracediffError(
            "latencies-unit",
            f"{where}: the file says {said} and the name {name[:60]} says {named}",
            fix="mend the file",
        )
    if given is not None:
        if known and given not in known:
            raise TracediffError(
                "latencies-unit",
                f"{where}: --unit {given} was given and the file says {known.pop()}",
                fix="leave --unit out, or mend the file",
            )
        return given, "--unit"
    if known:
        return known.pop(), "the file" if said else f"the name {name}"
    raise TracediffError(
        "latencies-unit",
        f"{where}: nothing says whether the numbers are ns, us, ms or s",
        fix="--unit ms (or ns, us, s), or name the column latency_ms",
    )
