"""Which iterations of a run are worth capturing, by a log of its iterations."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

import msgspec

from tracediff.companions.bench.read import Iteration

LONGEST = 50  # iterations of a window: enough for a median
SHORT = 10  # of a window of what a run does in few iterations

Why = Literal["context", "generation", "largest_batch"]


class Window(msgspec.Struct, frozen=True):
    """Successive iterations; means over them, None where the log does not say.

    Releases read `last` as the last one or as the one after: of several it is their last, of one the next.
    """

    why: Why
    first: int
    last: int
    ctx_reqs: float | None
    ctx_tokens: float | None
    gen_tokens: float | None
    host_ms: float | None


def propose(iterations: Sequence[Iteration]) -> list[Window]:
    """The windows of the first rank, in order and apart.

    context: the stretch of iterations with context requests that has the most context tokens (requests, where the log has no
    tokens). generation: the middle of the longest stretch that only generates, of equal ones that with the most requests.
    largest_batch: the longest stretch with as many requests as any iteration, where the other two have none of those.
    """
    rank = min((one.rank for one in iterations), default=0)
    known = [one for one in iterations if one.rank == rank and not one.idle]
    context = _most(known, lambda one: bool(one.ctx_reqs), _context)
    steady = _most(known, lambda one: one.generation, lambda some: (min(len(some), LONGEST), _requests(some)))
    aside = max(len(steady) - LONGEST, 0) // 2
    found: dict[Why, list[Iteration]] = {
        "context": context[:SHORT],
        "generation": steady[aside : aside + LONGEST],
    }
    most = max((_requests([one]) for one in known), default=0)
    if most and all(_requests([one]) < most for some in found.values() for one in some):
        found["largest_batch"] = _most(known, lambda one: _requests([one]) == most, len)[:SHORT]
    windows: list[Window] = []
    for why, some in sorted(found.items(), key=lambda item: item[1][0].number if item[1] else 0):
        before = windows[-1].last if windows else -1
        if apart := [one for one in some if one.number > before]:
            windows.append(_window(why, apart))
    return windows


def _most(
    iterations: Sequence[Iteration],
    kind: Callable[[Iteration], bool],
    size: Callable[[list[Iteration]], float | tuple[float, ...]],
) -> list[Iteration]:
    """The largest stretch of successive numbers whose iterations are of a kind, the first of equal ones; empty without one."""
    stretches: list[list[Iteration]] = [[]]
    for one in filter(kind, iterations):
        if stretches[-1] and stretches[-1][-1].number + 1 != one.number:
            stretches.append([])
        stretches[-1].append(one)
    return max(stretches, key=size)


def _context(some: Sequence[Iteration]) -> float:
    return sum(one.ctx_tokens or one.ctx_reqs or 0 for one in some)


def _requests(some: Sequence[Iteration]) -> float:
    return sum(one.scheduled_reqs or (one.ctx_reqs or 0) + (one.gen_tokens or 0) for one in some)


def _window(why: Why, some: Sequence[Iteration]) -> Window:
    def mean(values: Iterable[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return math.fsum(known) / len(known) if known else None

    return Window(
        why, some[0].number, max(some[-1].number, some[0].number + 1),
        mean([one.ctx_reqs for one in some]), mean([one.ctx_tokens for one in some]),
        mean([one.gen_tokens for one in some]), mean([one.host_ms for one in some]),
    )  # fmt: skip
