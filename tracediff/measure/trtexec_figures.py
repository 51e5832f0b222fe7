"""Figures of one run of trtexec, by its own rules, and whether its log says the same.

Rules as in samples/common/sampleReporting.cpp of NVIDIA/TensorRT: `findPercentile` takes the value at
max(all - 1 - int((1 - p / 100) * all), 0) of the sorted ones, computed in float32 (99 % of 100 iterations is their
maximum); `findMedian` halves an even count; throughput is the iterations over the time from the start of the first copy of
inputs to the end of the last copy of outputs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracediff.load.trtexec import Floats, Log, Run, Times
from tracediff.measure import ncu_text as text

PERCENTILES = (90.0, 95.0, 99.0)  # trtexec's default
METRICS = ("gpu_compute", "latency", "throughput", "enqueue", "h2d", "d2h")
NAMES = {
    "gpu_compute": "GPU compute time", "latency": "latency", "throughput": "throughput", "enqueue": "enqueue time",
    "h2d": "H2D latency", "d2h": "D2H latency", "layers": "sum of the layers",
}  # fmt: skip
_DIGIT = 1.1e-5  # of a value that both sides write with six significant digits
_ROUNDED = 0.05  # part of the enqueue time that its time stamps may be rounded to
_SUMMED = 1e-3  # of a mean: trtexec adds up in float32


@dataclass(frozen=True, eq=False)
class RunFigures:
    """Of one run: metric -> mean, min, max, median, p90, ... in ns; of throughput the mean, a second."""

    values: dict[str, dict[str, float]]
    source: dict[str, str]  # metric -> times | log
    iterations: dict[str, Floats]  # metric -> a value an iteration, ns
    measured: int | None
    warmups: int | None
    differ: list[str]  # what the log says otherwise
    warmups_unknown: bool
    rounded: float | None  # ns, rounding of the time stamps that left the enqueue time out


def percentile(ordered: Floats, percent: float) -> float:
    """Return a percentile of sorted values by trtexec's rule."""
    part = np.float32(1) - np.float32(percent) / np.float32(100)
    exclude = int(part * np.float32(len(ordered)))
    return float(ordered[max(len(ordered) - 1 - exclude, 0)])


def summarise(values: Floats, percents: tuple[float, ...] = PERCENTILES) -> dict[str, float]:
    """Return mean, min, max, median and percentiles of some values."""
    ordered = np.sort(values)
    found = {
        "mean": float(values.mean()),
        "min": float(ordered[0]),
        "max": float(ordered[-1]),
        "median": float(np.median(ordered)),
    }
    return found | {f"p{one:g}": percentile(ordered, one) for one in percents}


def figures_of(run: Run) -> RunFigures:
    """Return what a run's times and log say together.

    GPU compute time, latency and copies are taken from the times where they are given. Enqueue time and throughput are
    differences of time stamps, which the file of times rounds to six digits: they are taken from the log where there is one.
    """
    log, values, source = run.log, dict[str, dict[str, float]](), dict[str, str]()
    times, warmups, batch = _measured(run.times, log)
    if times is not None:
        percents = tuple(sorted({*PERCENTILES, *_percents(log)}))
        for metric, one in times.values.items():
            values[metric], source[metric] = summarise(one, percents), "times"
        if (qps := throughput(times, batch)) is not None:
            values["throughput"], source["throughput"] = {"mean": qps}, "times"
    differ = _differences(times, log, values, batch)
    if log is not None:
        stated = {name: figures for name, figures in log.figures.items() if "mean" in figures}
        if log.throughput:
            stated["throughput"] = {"mean": log.throughput}
        for metric, figures in stated.items():
            if times is None or metric not in values or (metric in ("enqueue", "throughput") and not differ):
                values[metric], source[metric] = figures, "log"
    rounded = None
    if (
        times is not None
        and source.get("enqueue") == "times"
        and times.rounding > _ROUNDED * values["enqueue"]["mean"]
    ):
        rounded = times.rounding
        del values["enqueue"], source["enqueue"]
    return RunFigures(
        values=values,
        source=source,
        iterations={name: one for name, one in times.values.items() if name in values} if times else {},
        measured=len(times.start) if times else log.queries if log else None,
        warmups=warmups,
        differ=differ,
        warmups_unknown=times is not None and times.with_warmups and (log is None or log.queries is None),
        rounded=rounded,
    )


def _percents(log: Log | None) -> set[float]:
    keys = {key for figures in log.figures.values() for key in figures} if log else set()
    return {float(key[1:]) for key in keys if key[0] == "p" and float(key[1:]) <= 100}


def _measured(times: Times | None, log: Log | None) -> tuple[Times | None, int | None, int]:
    """Return the iterations without those to warm up, how many these were, and how many queries one is (implicit batch)."""
    if times is None or log is None or not log.queries:
        return times, None, 1
    stated = log.options.get("Batch", "")
    batch = int(stated) if stated.isdecimal() and len(stated) < 7 and int(stated) else 1
    rows, queries, before = len(times.start) * batch, log.queries, log.warmups or 0
    if rows == queries + before and before > 0 and before % batch == 0:
        return times.after(before // batch), before // batch, batch
    return times, None, batch


def throughput(times: Times, batch: int = 1) -> float | None:
    """Return queries a second; None where the time stamps do not tell the wall time."""
    last = times.start == times.start[-1]
    wall = float(times.end[last].max() - times.start[0])
    return batch * len(times.start) / wall * 1e9 if wall > 0 else None


def _differences(
    times: Times | None, log: Log | None, values: dict[str, dict[str, float]], batch: int
) -> list[str]:
    """Say which figures of the log are not those of the times, beyond what rounding explains."""
    if times is None or log is None:
        return []
    found = []
    if log.queries is not None and log.queries != batch * len(times.start):
        found.append(f"{log.queries:,} queries in the log, {batch * len(times.start):,} in the times")
    for metric, stated in log.figures.items():
        for key, value in stated.items():
            mine = values.get(metric, {}).get(key)
            if mine is None:
                continue
            near = (_SUMMED if key == "mean" else _DIGIT) * max(mine, value) + 1e-3
            if abs(mine - value) > near + (2 * times.rounding if metric == "enqueue" else 0.0):
                found.append(f"{NAMES[metric]}, {key}: {text.time(value)} in the log, {text.time(mine)} from the times")  # fmt: skip
    mine = values.get("throughput", {}).get("mean")
    if mine is not None and log.throughput:
        wall = batch * len(times.start) / mine * 1e9
        if abs(mine - log.throughput) > (_SUMMED + 4 * times.rounding / wall) * mine:
            found.append(f"throughput: {log.throughput:,.6g} a second in the log, {mine:,.6g} from the times")
    return found
