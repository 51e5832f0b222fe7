"""Where the warm-up of a run ends: a stated, simple rule on its latencies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracediff.measure.bootstrap import Floats

MIN_ITERATIONS = 20  # fewer tell no warm-up from noise
BLOCK = 5  # iterations whose median is compared, or a fiftieth of the run
CLEAR = 0.01  # of the steady median: below it a block is no warm-up
_NORMAL = 1.4826  # standard deviation over median absolute deviation, normal data
_MEDIAN = 1.2533  # standard error of a median over that of a mean
_SLOW = 5.0  # robust standard deviations above the steady median that make single first iterations warm-up


@dataclass(frozen=True)
class WarmUp:
    """`length`: first iterations to leave out. `steady`: False where the run had not settled at its half."""

    length: int
    steady: bool
    extra: float  # how much longer their mean is than the steady median, as a part of it


def spread(values: Floats) -> tuple[float, float]:
    """Return the median, and the standard deviation told by the median absolute deviation."""
    middle = float(np.median(values))
    return middle, _NORMAL * float(np.median(np.abs(values - middle)))


def find_warm_up(values: Floats) -> WarmUp:
    """Return how many of the first iterations, (n,) ns, are warm-up: those that are slower than the second half.

    The run is cut into blocks of `BLOCK` iterations (a fiftieth of the run where that is more). Leading blocks whose median
    is above that of the second half by more than three standard errors and by more than 1 % of it are warm-up; then so are single
    first iterations more than five robust standard deviations (and 1 %) above. The rule is applied to what is left until it finds
    nothing. A warm-up beyond half of the run is none: the run never settled. Faster first iterations are no warm-up; they show
    as drift.
    """
    n = len(values)
    length = 0
    while more := _first(values[length:]):
        length += more
        if length > n // 2:
            return WarmUp(0, False, 0.0)
    if not length:
        return WarmUp(0, True, 0.0)
    middle = float(np.median(values[length:]))
    return WarmUp(length, True, float(values[:length].mean()) / middle - 1 if middle else 0.0)


def _first(values: Floats) -> int:
    """Return how many first iterations one pass of the rule takes."""
    n = len(values)
    if n < MIN_ITERATIONS:
        return 0
    middle, sd = spread(values[n // 2 :])
    block = max(BLOCK, n // 50)
    limit = middle + max(3 * _MEDIAN * sd / np.sqrt(block), CLEAR * middle)
    length = 0
    while length + block <= n and np.median(values[length : length + block]) > limit:
        length += block
    slow = middle + max(_SLOW * sd, CLEAR * middle)
    while length < n and values[length] > slow:
        length += 1
    return length
