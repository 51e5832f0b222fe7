"""The tables of GPU metrics that nsys sampled: a row a metric and device, and how each device was sampled.

Means are of samples: those of all runs' compared steps at the baseline's mix, each run for itself, then averaged over runs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from tracediff.measure.reduce_metrics import STATES
from tracediff.measure.sides import Side, stacked
from tracediff.measure.statistics import run_level_interval
from tracediff.measure.tables import Weigher
from tracediff.model import GpuMetricMean, GpuMetricRow, GpuMetricSide, GpuSampling, GpuSamplingSide

# Samples that a run needs for its mean to be given: of 20, its standard error is about a fifth of their scatter.
MIN_SAMPLES = 20
# What is looked at first, as the beginning of a name in small letters.
KEY = (
    "sms active", "sm active", "sm issue", "tensor active", "dram read", "dram write", "nvlink", "pcie", "gpc clock",
)  # fmt: skip
_UNIT = ["rank", "device"]
_ROW = [*_UNIT, "metric", "unit"]
_PARTS = {"steps": STATES, "busy": ("busy",), "idle": ("idle",)}
_Means = dict[int, list[float | None]]  # side -> of each run, None with too few samples


def metric_rows(
    sides: Sequence[Side], weigher: Weigher, held: tuple[bool, bool]
) -> tuple[list[GpuMetricRow], list[GpuSampling]]:
    """Rows of metrics, the well-known ones first, and of how each rank's device was sampled."""
    both = sides[:2]
    table = weigher.compared(_ranked(both, "gpu_metrics"))
    weighed = weigher.weigh(table, ["run", *_ROW, "state"], ["samples", "sum"])
    counted = table.group_by("side", "run", *_ROW, "state").agg(pl.col("samples", "refused").sum())
    found = weighed.join(
        counted.rename({"samples": "raw"}),
        on=["side", "run", *_ROW, "state"],
        how="left",
        maintain_order="left",
    )
    rows: dict[tuple[int, int, str, str], list[dict[str, object]]] = defaultdict(list)
    for row in found.iter_rows(named=True):
        rows[row["rank"], row["device"], row["metric"], row["unit"]].append(row)
    runs = [len(side.runs) for side in both]
    periods = weigher.compared(_ranked(both, "periods").select("side", "run", "part", "stratum", *_UNIT))
    steps = {row[:3]: row[3] for row in periods.group_by("side", *_UNIT).len().iter_rows()}
    metrics = [
        _row(key, pl.DataFrame(mine, infer_schema_length=None), runs, held, steps)
        for key, mine in rows.items()
    ]
    return sorted(metrics, key=_order), _sampling(both, held)


def _order(row: GpuMetricRow) -> tuple[int, str, int, int]:
    name = row.metric.lower()
    place = next((at for at, start in enumerate(KEY) if name.startswith(start)), len(KEY))
    return place, row.metric, row.rank, row.device


def _ranked(sides: Sequence[Side], table: str) -> pl.DataFrame:
    """A table of all exports with the rank counted over those of a run."""
    firsts = pl.DataFrame(
        [
            (side, run, part, first)
            for side, one in enumerate(sides)
            for run, its in enumerate(one.runs)
            for part, first in enumerate(its.firsts())
        ],
        schema=dict.fromkeys(("side", "run", "part", "first"), pl.Int64),
        orient="row",
    )
    joined = stacked(sides, table).join(firsts, on=["side", "run", "part"], how="left", maintain_order="left")
    return joined.with_columns(pl.col("rank") + pl.col("first")).drop("first")


def _row(
    key: tuple[int, int, str, str],
    mine: pl.DataFrame,
    runs: list[int],
    held: tuple[bool, bool],
    steps: Mapping[tuple[int, ...], int],
) -> GpuMetricRow:
    means = {name: _means(mine, states, runs) for name, states in _PARTS.items()}
    sides = []
    for side, shown in enumerate(held):
        its = mine.filter(pl.col("side") == side)
        raw = {state: int(its.filter(pl.col("state") == state)["raw"].sum()) for state in STATES}
        sides.append(
            GpuMetricSide(
                sum(raw.values()) / max(steps.get((side, *key[:2]), 0), 1),
                raw["busy"],
                raw["idle"],
                raw["mixed"],
                int(its["refused"].sum()),
            )
            if shown
            else None
        )
    parts = [_mean(means[name]) for name in _PARTS]
    return GpuMetricRow(*key, sides[0], sides[1], *parts)


def _means(mine: pl.DataFrame, states: Sequence[str], runs: list[int]) -> _Means:
    """The mean of each run's samples in these states; None for a run with fewer than `MIN_SAMPLES`."""
    found: _Means = {0: [], 1: []} | {side: [None] * count for side, count in enumerate(runs)}
    sums = (
        mine.filter(pl.col("state").is_in(states))
        .group_by("side", "run", maintain_order=True)
        .agg(pl.col("raw", "samples", "sum").sum())
    )
    for side, run, raw, samples, total in sums.iter_rows():
        if raw >= MIN_SAMPLES:
            found[side][run] = total / samples
    return found


def _mean(means: _Means) -> GpuMetricMean:
    """A side's mean is that of its runs, where each has enough samples; the interval needs two runs a side."""
    one, other = (
        [value for value in means[side] if value is not None] if None not in means[side] else []
        for side in (0, 1)
    )
    values = [float(np.mean(runs)) if runs else None for runs in (one, other)]
    delta = None if values[0] is None or values[1] is None else values[1] - values[0]
    low = high = None
    if min(len(one), len(other)) >= 2:
        bounds = run_level_interval(np.array(one)[:, None], np.array(other)[:, None])
        if not np.isnan(bounds[0][0]):
            low, high = float(bounds[0][0]), float(bounds[1][0])
    return GpuMetricMean(values[0], values[1], delta, low, high)


def _sampling(sides: Sequence[Side], held: tuple[bool, bool]) -> list[GpuSampling]:
    table = _ranked(sides, "gpu_sampling")
    rows = []
    for (rank, device), mine in sorted(
        table.group_by(_UNIT), key=lambda one: tuple(map(int, map(str, one[0])))
    ):
        found: list[GpuSamplingSide | None] = []
        for side, shown in enumerate(held):
            its = mine.filter(pl.col("side") == side)
            gpus = set(its["gpu"].to_list())
            known = len(its) > 0 and None not in gpus
            gpu = gpus.pop() if known and len(gpus) == 1 else None
            found.append(
                GpuSamplingSide(
                    known, gpu, int(its["interval_ns"].max()) if known else None, int(its["unread"].max()) if known else 0  # type: ignore[arg-type]
                )
                if shown
                else None
            )  # fmt: skip
        rows.append(GpuSampling(int(str(rank)), int(str(device)), found[0], found[1]))
    return rows
