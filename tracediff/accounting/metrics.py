"""Tables of what nsys sampled of the GPUs in the steps; empty where it was not.

Sources. Columns: the schema in NVIDIA's user guide (GPU_METRICS: "Event timestamp (ns)", "Counter data value"; TARGET_INFO_GPU_METRICS:
metric ids are "not assumed to be stable"). The low byte of typeId as the GPU, and percent values: NVIDIA's recipe gpu_metric_util_map of
2023.3 (`typeId & 0xFF AS gpu`). Which device of a process a GPU is: TARGET_INFO_CUDA_DEVICE (gpuId, cudaId, pid). Whether a sample stands
for the time before or after it is not documented. That recipe takes the time after it, and so it is on an H200 under nsys 2025.3
(tests/comparison/test_metrics_real.py); the rule below holds either way.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from tracediff.accounting.grouping import float_sum_by
from tracediff.accounting.intervals import Intervals, Ints, covered, union
from tracediff.formats.capture import Capture
from tracediff.trace.periods import MEMCPY, Unit

METRICS = {
    "stratum": pl.Int64, "rank": pl.Int64, "device": pl.Int64, "metric": pl.String, "unit": pl.String,
    "state": pl.String, "samples": pl.Int64, "sum": pl.Float64, "refused": pl.Int64,
}  # fmt: skip
SAMPLING = {
    "rank": pl.Int64, "device": pl.Int64, "gpu": pl.Int64, "interval_ns": pl.Int64, "unread": pl.Int64,
}  # fmt: skip
STATES = ("busy", "idle", "mixed")
# The time from the sample before to the sample after is two intervals: with 95 % of both, each is busy for at least 90 %.
SURE = 0.95
_TORN = 3  # intervals without a sample: what lies around such a hole is known of neither side
_MOST = 256  # metrics that are read of a GPU; sets of nsys have some 40


def metric_tables(capture: Capture, units: Sequence[Unit], periods: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """gpu_metrics and gpu_sampling of `Reduction`.

    A sample counts in the period that its instant lies in. busy: from the sample before to the sample after, kernels ran on the GPU for at
    least `SURE` of the time; idle: nothing ran, copies neither, but for the rest; mixed: neither, or a sample beside it is missing.
    """
    metrics, sampling = [pl.DataFrame(schema=METRICS)], [pl.DataFrame(schema=SAMPLING)]
    if capture.coverage["gpu_metrics"] == "captured":
        gpus = _gpus(capture, units)
        for gpu in sorted(set(gpus) - {None}, key=lambda one: one or 0):
            assert gpu is not None
            mine = [unit for unit, its in zip(units, gpus, strict=True) if its == gpu]
            found = _of_gpu(capture, gpu, mine, periods)
            metrics += found[0]
            sampling.append(found[1])
        unknown = [unit for unit, its in zip(units, gpus, strict=True) if its is None]
        sampling.append(_sampling(unknown, None, 0, 0))
    return {"gpu_metrics": pl.concat(metrics), "gpu_sampling": pl.concat(sampling).sort("rank", "device")}


def _gpus(capture: Capture, units: Sequence[Unit]) -> list[int | None]:
    """The sampled GPU of each unit; None where the export does not say which it is.

    Numbers of devices are a process's own (CUDA_VISIBLE_DEVICES), so they are no GPU's unless a table says so. A machine
    with one GPU needs none.
    """
    sampled = {int(gpu) for (gpu,) in capture.db.execute("SELECT DISTINCT gpu FROM gpu_sample").fetchall()}
    said = {
        (int(pid), int(device)): int(gpu)
        for pid, device, gpu in capture.db.execute("SELECT pid, device, gpu FROM gpu_of").fetchall()
    }
    only = next(iter(sampled)) if len(sampled) == 1 and capture.count("device") == 1 else None
    if len({unit.device for unit in units}) > 1:
        only = None
    found = [said.get((unit.pid, unit.device), only) for unit in units]
    return [gpu if gpu in sampled else None for gpu in found]


def _of_gpu(
    capture: Capture, gpu: int, units: Sequence[Unit], periods: pl.DataFrame
) -> tuple[list[pl.DataFrame], pl.DataFrame]:
    rows = capture.db.execute(
        "SELECT DISTINCT time_ns FROM gpu_sample WHERE gpu = ? ORDER BY time_ns", [gpu]
    ).fetchnumpy()
    time = np.asarray(rows["time_ns"], np.int64)
    interval = int(np.median(np.diff(time))) if len(time) > 1 else 0
    state = _states(time, interval, units)
    names = capture.db.execute(
        "SELECT metric, unit FROM gpu_sample WHERE gpu = ? GROUP BY ALL ORDER BY metric, unit LIMIT ?",
        [gpu, _MOST],
    ).fetchall()
    row = capture.db.execute(
        "SELECT count(DISTINCT metric) FROM gpu_metric WHERE gpu = ? AND unit IS NULL", [gpu]
    ).fetchone()
    strata = [_strata(unit, periods, time) for unit in units]
    tables = []
    for metric, unit_of in names:
        found = capture.db.execute(
            "SELECT time_ns, avg(value) AS value, count(*) FILTER (value IS NULL) AS refused FROM gpu_sample"
            " WHERE gpu = ? AND metric = ? GROUP BY time_ns ORDER BY time_ns",
            [gpu, metric],
        ).fetchnumpy()
        at = np.searchsorted(time, np.asarray(found["time_ns"], np.int64))
        value = np.ma.filled(np.ma.asarray(found["value"], np.float64), np.nan)
        refused = np.asarray(found["refused"], np.int64)
        for unit, stratum in zip(units, strata, strict=True):
            tables.append(_sums(unit, metric, unit_of, stratum[at], state[at], value, refused))
    return tables, _sampling(units, gpu, interval, int(row[0]) if row else 0)


def _states(time: Ints, interval: int, units: Sequence[Unit]) -> npt.NDArray[np.int64]:
    """Of each instant its place in `STATES`."""
    state = np.full(len(time), STATES.index("mixed"), np.int64)
    if len(time) < 3:
        return state
    around = Intervals(time[:-2], time[2:])
    length = around.end - around.start
    start, end = (np.concatenate([getattr(unit, name) for unit in units]) for name in ("start", "end"))
    kernel = np.concatenate([unit.kind for unit in units]) != MEMCPY
    whole = np.maximum(np.diff(time)[:-1], np.diff(time)[1:]) <= _TORN * interval
    inner = state[1:-1]
    inner[whole & (covered(around, union(start[kernel], end[kernel])) >= SURE * length)] = STATES.index(
        "busy"
    )
    inner[whole & (covered(around, union(start, end)) <= (1 - SURE) * length)] = STATES.index("idle")
    return state


def _strata(unit: Unit, periods: pl.DataFrame, time: Ints) -> Ints:
    """The stratum of the period that each instant lies in, -1 outside all."""
    mine = periods.filter((pl.col("rank") == unit.rank) & (pl.col("device") == unit.device)).sort("start_ns")
    start, end, stratum = (mine[name].to_numpy() for name in ("start_ns", "end_ns", "stratum"))
    at = np.searchsorted(start, time, side="right") - 1
    return np.where((at >= 0) & (time < end[at]), stratum[at], -1)


def _sums(
    unit: Unit,
    metric: str,
    of: str,
    stratum: Ints,
    state: Ints,
    value: npt.NDArray[np.float64],
    refused: Ints,
) -> pl.DataFrame:
    inside = stratum >= 0
    code, position = np.unique(stratum[inside] * len(STATES) + state[inside], return_inverse=True)
    position = position.reshape(-1)
    known = ~np.isnan(value[inside])
    count = len(code)
    return pl.DataFrame(
        {
            "stratum": code // len(STATES), "rank": [unit.rank] * count, "device": [unit.device] * count,
            "metric": [metric] * count, "unit": [of] * count,
            "state": [STATES[one] for one in (code % len(STATES)).tolist()],
            "samples": np.bincount(position, known, count).astype(np.int64),
            "sum": float_sum_by(position, count, np.where(known, value[inside], 0.0)),
            "refused": np.bincount(position, refused[inside], count).astype(np.int64),
        },
        schema=METRICS,
    )  # fmt: skip


def _sampling(units: Sequence[Unit], gpu: int | None, interval: int, unread: int) -> pl.DataFrame:
    return pl.DataFrame(
        [(unit.rank, unit.device, gpu, interval, unread) for unit in units], schema=SAMPLING, orient="row"
    )
