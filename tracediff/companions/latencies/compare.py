"""Latencies of two sides, measured without a profiler, by the statistics of the traces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from msgspec.structs import replace

from tracediff.companions.figures import both, signed, time
from tracediff.companions.latencies.model import (
    Latencies,
    LatencyOutlier,
    LatencyRow,
    LatencyRun,
    LatencySide,
)
from tracediff.companions.latencies.options import LatencyOptions
from tracediff.companions.latencies.read import LatencyFile, quantity, read_side
from tracediff.compare.verdict import decide, step_estimate
from tracediff.errors import TracediffError
from tracediff.model import Check, Evidence, Pair, Step, Verdict
from tracediff.report.phrases import power_note
from tracediff.stats.bootstrap import Floats, RunSteps, bootstrap_ci, quantile_interval
from tracediff.stats.estimates import Estimates, levels, robust_estimates, shown
from tracediff.stats.noise import moderated_noise
from tracediff.stats.tests import run_level_p, trimmed_means

# Where the warm-up of a run ends: a stated, simple rule on its latencies.

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


# Was it measured well? Checks of one run's latencies, and of a side's runs; each says its numbers, ok or not.

FEW = 30  # iterations of a run
DRIFT = 0.02  # of the median, from the first to the last iteration
DRIFT_P = 0.01
DRIFT_BLOCKS = 100  # medians of neighbours that stand for a longer run
FAR = 3.5  # modified z-score of an outlier (Iglewicz and Hoaglin 1993)
MANY_OUTLIERS = 0.05  # of the iterations
MOVED_MEAN = 0.02  # of the mean, by outliers
RELATED = 0.3  # correlation of neighbours that the blocks do not cover
COARSE = 0.005  # of the median: a clock's tick
MODE_SHARE, MODE_VALLEY, MODE_APART = 0.1, 0.03, 0.02
QUEUED_MEAN, QUEUED_SHARE = 3.0, 0.5


@dataclass(frozen=True)
class Run:
    """One run as it is measured: its latencies without the warm-up, ns, and what was left out before them."""

    name: str
    values: Floats
    trimmed: int
    found: WarmUp  # what the rule says of the whole run
    left: WarmUp  # what it says of the iterations that are kept
    digest: str


@dataclass(frozen=True)
class _Seen:
    """What a check finds on one side: whether it is well, and its numbers."""

    well: bool
    text: str


def outlying(values: Floats) -> Floats:
    """Return the distance from the median in robust standard deviations where it makes an outlier, else 0; (n,).

    0.6745 (x - median) / MAD beyond 3.5 either way. Where more than half of the values are equal, those more than 1 % off.
    """
    middle, sd = spread(values)
    if sd > 0:
        distance = (values - middle) / sd
        return np.where(np.abs(distance) > FAR, distance, 0.0)
    return np.where(np.abs(values - middle) > 0.01 * middle, values - middle, 0.0)


def drift(values: Floats) -> tuple[float, float]:
    """Return the change from the first to the last iteration as a part of the median, and its p value.

    Theil-Sen slope and Mann-Kendall test (as Kendall's tau against time), of at most `DRIFT_BLOCKS` medians of neighbours.
    """
    from scipy.stats import kendalltau, theilslopes

    edges = np.arange(min(len(values), DRIFT_BLOCKS)) * len(values) // min(len(values), DRIFT_BLOCKS)
    medians = np.array([np.median(part) for part in np.split(values, edges[1:])])
    middle = float(np.median(values))
    if len(medians) < 8 or not middle or np.ptp(medians) == 0:
        return 0.0, 1.0
    at = np.arange(len(medians))
    slope = float(theilslopes(medians, at)[0])
    p = float(kendalltau(at, medians).pvalue)
    return slope * (len(medians) - 1) / middle, p


def related(values: Floats) -> float:
    """Return the correlation of neighbouring iterations, by ranks (Spearman): outliers do not decide it."""
    from scipy.stats import rankdata

    ranks = rankdata(values)
    one, other = ranks[:-1] - ranks[:-1].mean(), ranks[1:] - ranks[1:].mean()
    size = float(np.sqrt((one @ one) * (other @ other)))
    return float(one @ other) / size if size else 0.0


def modes(values: Floats) -> tuple[float, float, float] | None:
    """Return two modes as (lower, higher, share of the higher), None where there is one.

    The best split of the sorted values in two (Otsu 1979; outliers left out, unless they are so many that they are a mode); two modes where each part has a tenth of them,
    their means are 2 % of the median and two ticks of the clock apart, and less than 3 % of all lie in the middle third between.
    """
    near = outlying(values) == 0
    kept = np.sort(values[near] if np.count_nonzero(~near) < MODE_SHARE * len(values) else values)
    n = len(kept)
    if n < FEW or kept[0] == kept[-1]:
        return None
    left = np.arange(1, n)
    sums = np.cumsum(kept)
    means = sums[:-1] / left, (sums[-1] - sums[:-1]) / (n - left)
    cut = int((left * (n - left) * (means[1] - means[0]) ** 2).argmax())
    low, high, share = float(means[0][cut]), float(means[1][cut]), 1 - (cut + 1) / n
    third = (high - low) / 3
    between = np.count_nonzero((kept > low + third) & (kept < high - third)) / n
    apart = high - low >= max(MODE_APART * float(np.median(values)), 2 * tick(values))
    if min(share, 1 - share) < MODE_SHARE or between >= MODE_VALLEY or not apart:
        return None
    return low, high, share


def tick(values: Floats) -> float:
    """Return the smallest difference of two values that are not the same, ns; 0 where all are."""
    steps = np.diff(np.unique(values))
    return float(steps.min()) if len(steps) else 0.0


def check_sides(
    sides: Sequence[Sequence[Run]], doubles: Sequence[Sequence[str]], warm_up: str
) -> list[Check]:
    """Return every check; `doubles`: names of files of a side that are copies of another, `warm_up`: the option as given."""
    found = [
        _pair(name, [of(side) for side in sides], message)
        for name, of, message in (
            ("warm_up", lambda side: _warm_up(side, warm_up), "first iterations slower than the second half (--warmup)"),
            ("drift", _drift, f"change over a run: warned of from {100 * DRIFT:.0f} % with p < {DRIFT_P} (Theil-Sen, Mann-Kendall)"),
            ("outliers", _outliers, f"counted and kept: beyond {FAR} robust standard deviations of the median"),
            ("autocorrelation", _related, f"of neighbours; blocks are resampled, and above {RELATED} the intervals are too narrow"),
            ("modes", _modes, "two groups of iterations with nothing between them"),
            ("iterations", _few, f"fewer than {FEW} in a run say little; p99 needs 100"),
            ("clock", _clock, f"a tick of {100 * COARSE:.1f} % of the median or more hides what is smaller"),
            ("synchronised", _queued, "calls that return before the GPU is done; a file alone cannot prove that it was waited for"),
            ("runs", _runs, "noise between runs is known from repeats only"),
        )
    ]  # fmt: skip
    return [*found, _copies(sides, doubles)]


def _pair(name: str, seen: Sequence[_Seen], message: str) -> Check:
    return Check(name, "ok" if all(one.well for one in seen) else "warn", seen[0].text, seen[1].text, message)


def _worst(side: Sequence[Run], of: Callable[[Run], float]) -> Run:
    return max(side, key=lambda run: (of(run), run.name))


def _in(run: Run, side: Sequence[Run]) -> str:
    return f" in {run.name}" if len(side) > 1 else ""


def _warm_up(side: Sequence[Run], option: str) -> _Seen:
    trimmed, whole = sum(run.trimmed for run in side), sum(run.trimmed + len(run.values) for run in side)
    worst = _worst(side, lambda run: run.found.extra)
    parts = [f"{trimmed:,} of {whole:,} trimmed"]
    if trimmed and worst.found.length and option == "auto":
        parts.append(f"{100 * worst.found.extra:+.0f} %{_in(worst, side)}")
    unsettled = [run for run in side if not run.found.steady]
    left = [run for run in side if run.left.length]
    if unsettled:
        parts.append(f"{unsettled[0].name} has not settled at its half")
    elif left:
        one = left[0]
        parts.append(
            f"{one.left.length} more look like warm-up{_in(one, side)} ({100 * one.left.extra:+.0f} %)"
        )
    if all(run.trimmed + len(run.values) < MIN_ITERATIONS for run in side):
        parts.append(f"too few to find any (below {MIN_ITERATIONS})")
    return _Seen(not unsettled and not (left and option != "auto") and 5 * trimmed <= whole, "; ".join(parts))


def _drift(side: Sequence[Run]) -> _Seen:
    found = {id(run): drift(run.values) for run in side}
    sure = [run for run in side if abs(found[id(run)][0]) >= DRIFT and found[id(run)][1] < DRIFT_P]
    worst = _worst(sure or side, lambda run: abs(found[id(run)][0]))
    change, p = found[id(worst)]
    return _Seen(
        not sure,
        f"{100 * change:+.1f} % over the run{_in(worst, side)}, p {'< 0.001' if p < 0.001 else f'{p:.3f}'}",
    )


def _outliers(side: Sequence[Run]) -> _Seen:
    far = [int(np.count_nonzero(outlying(run.values))) for run in side]
    whole = sum(len(run.values) for run in side)
    moved = [_moved(run.values) for run in side]
    most = max(moved, key=abs)
    text = f"{sum(far):,} of {whole:,} ({100 * sum(far) / whole:.1f} %); they move the mean by {100 * most:+.1f} %"
    return _Seen(
        sum(far) <= MANY_OUTLIERS * whole and abs(most) <= MOVED_MEAN,
        text if sum(far) else f"none of {whole:,}",
    )


def _moved(values: Floats) -> float:
    """How much outliers move the mean, as a part of the mean without them."""
    kept = values[outlying(values) == 0]
    without = float(kept.mean()) if len(kept) else 0.0
    return float(values.mean()) / without - 1 if without else 0.0


def _related(side: Sequence[Run]) -> _Seen:
    known = [run for run in side if len(run.values) >= 8]
    if not known:
        return _Seen(True, "too few iterations to tell")
    worst = _worst(known, lambda run: related(run.values))
    value = related(worst.values)
    return _Seen(value <= RELATED, f"{value:+.2f}{_in(worst, side)}")


def _modes(side: Sequence[Run]) -> _Seen:
    for run in side:
        found = modes(run.values)
        if found:
            low, high, share = found
            return _Seen(
                False,
                f"{100 * share:.0f} % around {time(high)}, the others around {time(low)}{_in(run, side)}",
            )
    return _Seen(True, "one")


def _few(side: Sequence[Run]) -> _Seen:
    least = min(len(run.values) for run in side)
    return _Seen(least >= FEW, f"{least:,}" + (" in the shortest run" if len(side) > 1 else ""))


def _clock(side: Sequence[Run]) -> _Seen:
    worst = _worst(side, lambda run: tick(run.values) / (float(np.median(run.values)) or 1.0))
    step, middle, different = tick(worst.values), float(np.median(worst.values)), len(np.unique(worst.values))
    same = different == 1 and len(worst.values) > 1
    text = (
        f"{different:,} different values of {len(worst.values):,}; tick {time(step)}"
        if step
        else f"all {time(middle)}"
    )
    return _Seen(not same and not (different < len(worst.values) and step >= COARSE * middle), text)


def _queued(side: Sequence[Run]) -> _Seen:
    for run in side:
        ordered = np.sort(run.values)
        slow = max(1, len(ordered) // 20)
        middle, total = float(np.median(ordered)), float(ordered.sum())
        if (
            len(ordered) >= 20
            and ordered.mean() > QUEUED_MEAN * middle
            and ordered[-slow:].sum() > QUEUED_SHARE * total
        ):
            share = 100 * float(ordered[-slow:].sum()) / total
            return _Seen(
                False,
                f"the slowest twentieth holds {share:.0f} % of the time{_in(run, side)}, as if a queue was filled",
            )
    return _Seen(True, "no sign of calls that only enqueue")


def _runs(side: Sequence[Run]) -> _Seen:
    return _Seen(len(side) > 1, f"{len(side)}")


def _copies(sides: Sequence[Sequence[Run]], doubles: Sequence[Sequence[str]]) -> Check:
    across = {run.digest for run in sides[0]} & {run.digest for run in sides[1]}
    texts = [f"{len(names)} counted once: {', '.join(names[:4])}" if names else "none" for names in doubles]
    if across:
        texts = [f"{text}; {len(across)} on both sides" for text in texts]
    status = "warn" if across or any(doubles) else "ok"
    return Check("copies", status, texts[0], texts[1], "files that are the same byte for byte are no repeats")  # type: ignore[arg-type]


def check_columns(baseline: Sequence[LatencyFile], candidate: Sequence[LatencyFile]) -> Check:
    """Return whether both sides measured what is called the same, whatever its unit; numbers without a name say nothing."""
    names = [sorted({file.column for file in side if file.column}) for side in (baseline, candidate)]
    seen = [{quantity(name) for name in side} for side in names]
    texts = [", ".join(name[:60] for name in side[:3]) or "no name" for side in names]
    status: Literal["ok", "warn"] = "warn" if seen[0] and seen[1] and seen[0] != seen[1] else "ok"
    return Check(
        "columns", status, texts[0], texts[1], "columns or keys of other names may be other quantities"
    )


QUANTILES = {"median": 0.5, "p90": 0.9, "p99": 0.99}
STATISTICS = ("mean", *QUANTILES, "min")
ASSUMED = {"mean": 0.05, "median": 0.05, "p90": 0.1, "p99": 0.2, "min": 0.05}
"""Half-width assumed of the difference of two runs of one program, as a part of the larger side, where no side has repeats."""
NEEDED = {"p90": 20, "p99": 100}
"""Iterations of a single run from which its quantile has an interval."""
LEAST = 5
"""Iterations of the only run of a side from which its figures have intervals: the first decides the mean of fewer."""
DRAWN = 200  # steps of probability of the quantiles that are drawn
_LISTED = 10  # outliers of a run


def compare_files(options: LatencyOptions, labels: tuple[str, str]) -> Latencies:
    """Read and compare both sides. Raises `TracediffError`: those of `read_side` and of `compare_latencies`."""
    baseline, candidate = (read_side(paths, options) for paths in (options.baseline, options.candidate))
    return compare_latencies(baseline, candidate, labels, options.warm_up, options.prefix)


def compare_latencies(
    baseline: Sequence[LatencyFile],
    candidate: Sequence[LatencyFile],
    labels: tuple[str, str] = ("baseline", "candidate"),
    warm_up: str = "auto",
    prefix: str = "",
) -> Latencies:
    """Compare two sides, each file one run. `warm_up`: auto, or how many first iterations of each run are left out.

    A figure of a side is the mean over its runs of that figure in each run. Intervals: the mean by `bootstrap_ci` over runs and
    iterations; the others over runs, or within single runs by `quantile_interval`. p is of runs, None with a single one.
    The verdict is that of the mean, by the rules of the traces (`decide`). Raises `TracediffError`: latencies-warmup.
    """
    kept, doubles = zip(*(_without_copies(side) for side in (baseline, candidate)), strict=True)
    sides = [[_trimmed(file, warm_up, prefix) for file in side] for side in kept]
    cells = _estimates(sides)
    counts = [sum(len(run.values) for run in side) for side in sides]
    step = step_estimate(cells, 0, float(cells.noise[0]), Pair(*counts))
    verdict, _ = decide(step, cells, 0, comparable=True)
    step = replace(step, power_note=power_note(step))
    if np.isnan(cells.low[0]):
        verdict = "inconclusive"  # nothing is known of how much an iteration varies
    rows = _rows(cells, step, verdict)
    return Latencies(
        _side(labels[0], kept[0], sides[0]),
        _side(labels[1], kept[1], sides[1]),
        verdict,
        _reason(verdict, step, rows),
        step,
        rows,
        [*check_sides(sides, doubles, warm_up), check_columns(*kept)],
    )


def _without_copies(files: Sequence[LatencyFile]) -> tuple[list[LatencyFile], list[str]]:
    """Return the files without those that are copies of an earlier one, and the names of these."""
    kept: dict[str, LatencyFile] = {}
    doubles = []
    for file in files:
        if kept.setdefault(file.digest, file) is not file:
            doubles.append(file.name)
    return list(kept.values()), doubles


def _trimmed(file: LatencyFile, warm_up: str, prefix: str) -> Run:
    found = find_warm_up(file.ns)
    trimmed = found.length if warm_up == "auto" else int(warm_up)
    if trimmed >= len(file.ns):
        raise TracediffError(
            "latencies-warmup",
            f"{file.name} has {len(file.ns):,} iterations: none is left without the first {trimmed:,}",
            fix=f"--{prefix}warmup with a smaller number, or auto",
        )
    values = file.ns[trimmed:]
    return Run(file.name, values, trimmed, found, find_warm_up(values), file.digest)


def figures(values: Floats) -> Floats:
    """Return the figures of one run in the order of `STATISTICS`, ns; quantiles by linear interpolation."""
    return np.array([values.mean(), *np.quantile(values, list(QUANTILES.values())), values.min()])


def _estimates(sides: Sequence[Sequence[Run]]) -> Estimates:
    runs_b, runs_c = (np.stack([figures(run.values) for run in side]) for side in sides)
    # sorted, so that the order of the runs cannot move the last bit
    baseline, candidate = (np.sort(runs, axis=0).mean(axis=0) for runs in (runs_b, runs_c))
    low, high = _intervals(sides, runs_b, runs_c)
    repeats = [runs for runs in (runs_b, runs_c) if len(runs) > 1]
    assumed = np.array([ASSUMED[name] for name in STATISTICS]) * np.maximum(baseline, candidate)
    noise = moderated_noise(repeats, assumed, len(runs_b), len(runs_c)) if repeats else assumed
    return Estimates(
        baseline, candidate, low, high, run_level_p(runs_b, runs_c), runs_b, runs_c,
        noise, "repeats" if repeats else "assumed", repeats,
    )  # fmt: skip


def _intervals(sides: Sequence[Sequence[Run]], runs_b: Floats, runs_c: Floats) -> tuple[Floats, Floats]:
    """Bounds of the difference of each figure, nan where they cannot be said.

    Repeats of one side do not say how the few iterations of the other's only run vary.
    """
    iterations = [[RunSteps({0: run.values[:, None]}) for run in side] for side in sides]
    low, high = np.full(len(STATISTICS), np.nan), np.full(len(STATISTICS), np.nan)
    if any(len(side) == 1 and len(side[0].values) < LEAST for side in sides):
        return low, high
    if max(len(runs_b), len(runs_c)) > 1:
        by_run = [[RunSteps({0: run[None, :]}) for run in runs] for runs in (runs_b, runs_c)]
        low, high = bootstrap_ci(by_run[0], by_run[1], {0: 1.0})
    else:
        one, other = sides[0][0].values, sides[1][0].values
        at = [
            place
            for place, name in enumerate(STATISTICS)
            if min(len(one), len(other)) >= NEEDED.get(name, 2) and name in QUANTILES
        ]
        bounds = quantile_interval(one, other, [QUANTILES[STATISTICS[place]] for place in at])
        low[at], high[at] = bounds
    means = bootstrap_ci(iterations[0], iterations[1], {0: 1.0})
    low[0], high[0] = means[0][0], means[1][0]
    return low, high


def _rows(cells: Estimates, step: Step, verdict: Verdict) -> list[LatencyRow]:
    """The mean is what the verdict tests, by itself; the others are a table of tests, and corrected for it."""
    others = list(range(1, len(STATISTICS)))
    largest = float(max(cells.baseline[0], cells.candidate[0]))
    level, q = levels(cells.take(others), largest, least_ns=0.0)
    of_mean: Evidence = (
        "likely"
        if verdict.startswith("likely")
        else "confirmed"
        if verdict in ("improved", "regressed")
        else "within_noise"
    )
    said = zip(STATISTICS, [of_mean, *level], [step.p_value, *cells.p[1:]], [np.nan, *q], strict=True)
    robust = robust_estimates(cells)
    rows = []
    for at, (name, one, p, corrected) in enumerate(said):
        size = shown(cells, at, one, robust)
        if size.apart:
            means = (trimmed_means(runs)[at] for runs in (cells.baseline_runs, cells.candidate_runs))
            low, high = size.low, size.high
        else:
            means = (side[at] for side in (cells.baseline, cells.candidate))
            low, high = cells.low[at], cells.high[at]
        before, after = map(float, means)
        rows.append(
            LatencyRow(
                name,  # type: ignore[arg-type]
                before,
                after,
                after - before,
                _known(low),
                _known(high),
                one,
                None if p is None else _known(p),
                _known(corrected),
                cells.baseline_runs[:, at].tolist(),
                cells.candidate_runs[:, at].tolist(),
                size.apart,
            )
        )
    return rows


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _side(label: str, files: Sequence[LatencyFile], runs: Sequence[Run]) -> LatencySide:
    values = np.concatenate([run.values for run in runs])
    drawn = np.quantile(values, np.linspace(0, 1, DRAWN + 1))
    return LatencySide(
        label, [_run(file, run) for file, run in zip(files, runs, strict=True)], len(values), drawn.tolist()
    )


def _run(file: LatencyFile, run: Run) -> LatencyRun:
    mean, median, p90, p99, least = figures(run.values).tolist()
    distance = np.abs(outlying(run.values))
    far = np.argsort(-distance, kind="stable")[: min(_LISTED, int(np.count_nonzero(distance)))]
    return LatencyRun(
        name=file.name, format=file.format, column=file.column, unit=file.unit, unit_from=file.unit_from,
        iterations=len(run.values), trimmed=run.trimmed, mean_ns=mean, median_ns=median, p90_ns=p90, p99_ns=p99,
        min_ns=least, max_ns=float(run.values.max()), outliers=int(np.count_nonzero(distance)),
        largest=[LatencyOutlier(run.trimmed + int(at) + 1, float(run.values[at])) for at in far], note=file.note,
    )  # fmt: skip


def _reason(verdict: Verdict, step: Step, rows: Sequence[LatencyRow]) -> str:
    """The verdict in a sentence or two, with its figures."""
    if not any(row.delta_ns for row in rows):
        return "Mean and quantiles are the same on both sides."
    change = (
        f"mean {both(time(step.baseline_ns), time(step.candidate_ns))}, {signed(step.delta_ns)} an iteration"
    )
    change += f" ({100 * step.delta_ns / step.baseline_ns:+.1f} %)" if step.baseline_ns else ""
    if rows[0].trimmed:
        change += (
            f", {signed(rows[0].delta_ns)} without the fastest and slowest fifth of the runs of each side"
        )
    runs = step.runs
    floor = f"the noise floor of {time(step.noise_floor_ns or 0.0)}"
    if verdict in ("improved", "regressed"):
        p = "< 0.001" if step.p_value is not None and step.p_value < 0.001 else f"= {step.p_value:.3f}"
        return f"{change}, p {p} over {runs.baseline} and {runs.candidate} runs."
    if verdict in ("likely_improved", "likely_regressed"):
        why = (
            "run-to-run noise is assumed, not measured"
            if step.noise_source == "assumed"
            else "too few runs to confirm it"
        )
        return f"{change}, beyond {floor}; {why}."
    sure = next(
        (row for row in rows if row.statistic != "mean" and row.level in ("confirmed", "likely")), None
    )
    tail = (
        f" But the {sure.statistic} moved: {both(time(sure.baseline_ns), time(sure.candidate_ns))}."
        if sure
        else ""
    )
    if verdict == "no_change":
        return f"{change}, within 1 % of the iteration.{tail}"
    if rows[0].ci_low_ns is None:
        return f"{change}; a side is a single run of fewer than {LEAST} iterations: how much they vary is not known, so no more can be said."
    beyond = abs(step.delta_ns) > (step.noise_floor_ns or 0.0)
    noise = (
        f"the scatter of the {'runs' if min(runs.baseline, runs.candidate) > 1 else 'iterations'}"
        if beyond
        else floor
    )
    return f"{change}, cannot be told from {noise}.{tail}"
