"""Was it measured well? Where the warm-up of a run ends, and checks of runs; each check says its numbers, well or not."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from tracediff.arrays import Floats
from tracediff.companions.latencies.read import LatencyFile, quantity
from tracediff.companions.verdict import TELL_RELATED, related
from tracediff.companions.words import time
from tracediff.model import Check
from tracediff.model.causes import OWN, SURELY
from tracediff.stats.rules import ENOUGH
from tracediff.stats.tests import robust

# Where the warm-up of a run ends: a stated, simple rule on its latencies.

BLOCK = 5  # iterations whose median is compared, or a fiftieth of the run
_MEDIAN = 1.2533  # standard error of a median over that of a mean
_SLOW = 5.0  # robust standard deviations above the steady median that make single first iterations warm-up


class WarmUp(msgspec.Struct, frozen=True):
    """`length`: first iterations to leave out. `steady`: False where the run had not settled at its half."""

    length: int
    steady: bool
    extra: float  # how much longer their mean is than the steady median, as a part of it


def spread(values: Floats) -> tuple[float, float]:
    """Return the median, and the standard deviation told by the median absolute deviation."""
    middle = float(np.median(values))
    return middle, robust(values - middle)


def find_warm_up(values: Floats) -> WarmUp:
    """Return how many of the first iterations, (n,) ns, are warm-up: those that are slower than the second half.

    The run is cut into blocks of `BLOCK` iterations (a fiftieth of the run where that is more). Leading blocks whose median
    is above that of the second half by more than three standard errors and by more than 1 % of it are warm-up; then so are single
    first iterations more than five robust standard deviations (and 1 %) above. The rule is applied to what is left until it finds
    nothing. A warm-up beyond half of the run is none: the run never settled. Faster first iterations are no warm-up.
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
    if n < ENOUGH:
        return 0
    middle, sd = spread(values[n // 2 :])
    block = max(BLOCK, n // 50)
    limit = middle + max(3 * _MEDIAN * sd / np.sqrt(block), SURELY * middle)
    length = 0
    while length + block <= n and np.median(values[length : length + block]) > limit:
        length += block
    slow = middle + max(_SLOW * sd, SURELY * middle)
    while length < n and values[length] > slow:
        length += 1
    return length


# Was it measured well? Checks of one run's latencies, and of a side's runs; each says its numbers, ok or not.

FEW = 30  # iterations of a run
FAR = 3.5  # modified z-score of an outlier (Iglewicz and Hoaglin 1993)
MOVED_MEAN = 0.02  # of the mean, by outliers
RELATED = 0.3  # correlation of neighbours: above it few iterations count as independent
RATIO = 5.0  # medians further apart may be one program timed in two ways


class Run(msgspec.Struct, frozen=True):
    """One run as it is measured: its latencies without the warm-up, ns."""

    name: str
    values: Floats
    warm_up: WarmUp
    digest: str

    @property
    def trimmed(self) -> int:
        """Iterations before those that are kept."""
        return self.warm_up.length


Seen = tuple[bool, str]  # of a check on one side: whether it is well, and its numbers


def outlying(values: Floats) -> Floats:
    """Return the distance from the median in robust standard deviations where it makes an outlier, else 0; (n,).

    0.6745 (x - median) / MAD beyond 3.5 either way. Where more than half of the values are equal, those more than 1 % off.
    """
    middle, sd = spread(values)
    if sd > 0:
        distance = (values - middle) / sd
        return np.where(np.abs(distance) > FAR, distance, 0.0)
    return np.where(np.abs(values - middle) > SURELY * middle, values - middle, 0.0)


def check_sides(
    sides: Sequence[Sequence[Run]], doubles: Sequence[Sequence[str]], odd_runs: Sequence[Sequence[int]]
) -> list[Check]:
    """Return every check, and `ratio` where the sides are far apart.

    `doubles`: names of files of a side that are copies of another, `odd_runs`: runs of each side that are left out.
    """
    checks: tuple[tuple[str, Callable[[Sequence[Run]], Seen], str], ...] = (
        ("warm_up", _warm_up, "first iterations slower than the second half"),
        ("outliers", _outliers, f"counted and kept: beyond {FAR} robust standard deviations of the median"),
        ("autocorrelation", _related, f"of neighbours; above {RELATED} few iterations count as independent"),
        ("iterations", _few, f"fewer than {FEW} in a run say little; p99 needs 100"),
        ("runs", lambda side: (len(side) > 1, f"{len(side)}"), "noise between runs is known from repeats only"),
    )  # fmt: skip
    apart = [_apart(side, left_out) for side, left_out in zip(sides, odd_runs, strict=True)]
    return [
        *(_pair(name, [of(side) for side in sides], message) for name, of, message in checks),
        _pair("odd_runs", apart, "runs far from the others of their side are left out"),
        _copies(sides, doubles),
        *_ratio(sides),
    ]


def _ratio(sides: Sequence[Sequence[Run]]) -> list[Check]:
    """A warning where one side is so much shorter that it may have timed launches alone."""
    medians = [float(np.median(np.concatenate([run.values for run in side]))) for side in sides]
    if not 0 < RATIO * min(medians) <= max(medians):
        return []
    times = max(medians) / min(medians)
    message = f"{times:.0f}x apart: a call that does not wait for the GPU is as short; synchronise before each reading of the clock"
    return [Check("ratio", "warn", time(medians[0]), time(medians[1]), message)]


def _pair(name: str, seen: Sequence[Seen], message: str) -> Check:
    return Check(name, "ok" if all(well for well, _ in seen) else "warn", seen[0][1], seen[1][1], message)


def _worst(side: Sequence[Run], of: Callable[[Run], float]) -> Run:
    return max(side, key=lambda run: (of(run), run.name))


def _in(run: Run, side: Sequence[Run]) -> str:
    return f" in {run.name}" if len(side) > 1 else ""


def _warm_up(side: Sequence[Run]) -> Seen:
    trimmed, whole = sum(run.trimmed for run in side), sum(run.trimmed + len(run.values) for run in side)
    worst = _worst(side, lambda run: run.warm_up.extra)
    parts = [f"{trimmed:,} of {whole:,} trimmed"]
    if trimmed:
        parts.append(f"{100 * worst.warm_up.extra:+.0f} %{_in(worst, side)}")
    unsettled = next((run for run in side if not run.warm_up.steady), None)
    if unsettled:
        parts.append(f"{unsettled.name} has not settled at its half")
    if all(run.trimmed + len(run.values) < ENOUGH for run in side):
        parts.append(f"too few to find any (below {ENOUGH})")
    return unsettled is None and 5 * trimmed <= whole, "; ".join(parts)


def _outliers(side: Sequence[Run]) -> Seen:
    far = sum(int(np.count_nonzero(outlying(run.values))) for run in side)
    whole = sum(len(run.values) for run in side)
    if not far:
        return True, f"none of {whole:,}"
    most = max((_moved(run.values) for run in side), key=abs)
    text = f"{far:,} of {whole:,} ({100 * far / whole:.1f} %); they move the mean by {100 * most:+.1f} %"
    return far <= OWN * whole and abs(most) <= MOVED_MEAN, text


def _moved(values: Floats) -> float:
    """How much outliers move the mean, as a part of the mean without them."""
    kept = values[outlying(values) == 0]
    without = float(kept.mean()) if len(kept) else 0.0
    return float(values.mean()) / without - 1 if without else 0.0


def _related(side: Sequence[Run]) -> Seen:
    known = [run for run in side if len(run.values) >= TELL_RELATED]
    if not known:
        return True, "too few iterations to tell"
    worst = _worst(known, lambda run: related(run.values))
    value = related(worst.values)
    return value <= RELATED, f"{value:+.2f}{_in(worst, side)}"


def _few(side: Sequence[Run]) -> Seen:
    least = min(len(run.values) for run in side)
    return least >= FEW, f"{least:,}" + (" in the shortest run" if len(side) > 1 else "")


def _apart(side: Sequence[Run], left_out: Sequence[int]) -> Seen:
    names = [f"{side[at].name}, mean {time(float(side[at].values.mean()))}" for at in left_out]
    return not names, "; ".join(names) or "none"


def _copies(sides: Sequence[Sequence[Run]], doubles: Sequence[Sequence[str]]) -> Check:
    across = {run.digest for run in sides[0]} & {run.digest for run in sides[1]}
    also = f"; {len(across)} on both sides" if across else ""
    seen = [
        (
            not names and not across,
            (f"{len(names)} counted once: {', '.join(names[:4])}" if names else "none") + also,
        )
        for names in doubles
    ]
    return _pair("copies", seen, "files that are the same byte for byte are no repeats")


def check_columns(baseline: Sequence[LatencyFile], candidate: Sequence[LatencyFile]) -> Check:
    """Return whether both sides measured what is called the same, whatever its unit; numbers without a name say nothing."""
    names = [sorted({file.column for file in side if file.column}) for side in (baseline, candidate)]
    one, other = ({quantity(name) for name in side} for side in names)
    well = not one or not other or one == other
    seen = [(well, ", ".join(name[:60] for name in side[:3]) or "no name") for side in names]
    return _pair("columns", seen, "columns or keys of other names may be other quantities")
