"""What may come of a comparison of damaged input: a whole result, or an error that the documentation lists."""

from __future__ import annotations

import math
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import msgspec
import pytest

from tests.tiny import ROOT
from tracediff.companions.model import decode
from tracediff.errors import TracediffError
from tracediff.model import Result

SLUGS = frozenset(
    re.findall(r"^\| `([a-z0-9-]+)` \|", (ROOT / "docs/messages.md").read_text(encoding="utf-8"), re.M)
)
SECONDS = 60  # an example takes less than one, on a machine that does other things as well some ten
BUSY = ("compute", "comm", "memcpy")
_T = TypeVar("_T")


class TooLong(BaseException):
    """An example that does not end."""


@contextmanager
def bounded(seconds: int = SECONDS) -> Iterator[None]:
    """Break off what takes too long."""

    def stop(number: int, frame: object) -> None:
        raise TooLong(f"not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def outcome(work: Callable[[], _T]) -> _T | TracediffError:
    """What the work returns, or its error, which is one that the documentation lists and says what to do."""
    with bounded():
        try:
            return work()
        except TracediffError as error:
            assert error.slug in SLUGS and error.message
            check_said(str(error))
            return error


def check_said(text: str) -> None:
    """A message is harmless and short."""
    assert "\x00" not in text and "\x1b" not in text and "Traceback" not in text
    assert len(text) < 5_000


def check_result(result: Result) -> None:
    """The accounting closes, rows sum to their totals, every number is one, and the file can be read again."""
    books, step = result.accounting, result.step
    assert books.residual_ns == 0
    for side, total in (
        ("baseline", step.baseline_ns),
        ("candidate", step.candidate_ns),
        ("delta", step.delta_ns),
    ):
        scale = max(abs(step.baseline_ns), abs(step.candidate_ns), 1.0)
        assert math.fsum(getattr(books, side).values()) == pytest.approx(total, abs=1e-9 * scale)
        busy = math.fsum(getattr(books, side).get(name, 0.0) for name in BUSY)
        rows = [row.delta_ns if side == "delta" else getattr(row, side) for row in result.kernels]
        times = [row if side == "delta" else row.ns_per_step for row in rows if row is not None]
        assert math.fsum(times) == pytest.approx(busy, abs=1e-9 * scale)
        if side != "delta":
            assert all(value >= 0 for value in getattr(books, side).values())
    plain = msgspec.to_builtins(result)
    assert not [path for path, value in numbers(plain) if not math.isfinite(value)]
    assert msgspec.to_builtins(decode(msgspec.json.encode(result))) == plain


def numbers(value: object, path: str = "") -> Iterator[tuple[str, float]]:
    """Every number of a plain structure, with where it is."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield from numbers(one, f"{path}.{key}")
    elif isinstance(value, list):
        for number, one in enumerate(value):
            yield from numbers(one, f"{path}[{number}]")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path, value
