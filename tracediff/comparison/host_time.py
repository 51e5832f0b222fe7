"""Captures without GPU kernels: host time by CUDA call, by NVTX range and by OS call, and why the kernels may be missing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import polars as pl
from msgspec.structs import replace

from tracediff.accounting.reduction import Reduction
from tracediff.arrays import Floats
from tracediff.execution.sides import Side, stacked
from tracediff.formats.capture import recording
from tracediff.model import Evidence, Note
from tracediff.model.host import HostRow, HostSide, HostTime
from tracediff.stats.rules import ENOUGH
from tracediff.stats.student import quantile
from tracediff.stats.tests import ALPHA, benjamini_hochberg, trimmed
from tracediff.trace.steps import WHOLE_CAPTURE

_KEY = ["kind", "name", "domain", "thread"]


def host_time(sides: Sequence[Side]) -> HostTime | None:
    """The rows of one side or two; None where every side has GPU kernels."""
    if all(side.captured("kernels") for side in sides):
        return None
    whole = any(part.step_source == WHOLE_CAPTURE.source for side in sides for part in side.parts)
    per: Literal["step", "capture"] = "capture" if whole else "step"
    table = _totals(sides)
    found = [_row(key, table, sides) for key, table in table.group_by(_KEY, maintain_order=True)]
    rows = [row for row, _ in found]
    if len(sides) > 1:
        levels = _levels([p for _, p in found])
        rows = [replace(row, level=level) for row, level in zip(rows, levels, strict=True)]
    return HostTime(per, sorted(rows, key=_order))


def _totals(sides: Sequence[Side]) -> pl.DataFrame:
    """side, run, _KEY -> count, ns, squares (ns2 of single calls), units (steps, of all ranks together)."""

    def rows(table: str, kind: str, name: str, *own: str) -> pl.DataFrame:
        """Those of a table. own: of what not every table has."""
        known = {"squares": pl.lit(None, pl.Float64), "domain": pl.lit(""), "thread": pl.lit("")}
        known |= {one: pl.col(one) for one in own}
        return stacked(sides, table).select(
            "side", "run", "count", "ns", kind=pl.lit(kind), name=name, **known
        )

    calls = rows("apis", "call", "api", "squares")
    ranges = rows("ranges", "range", "place", "squares", "domain", "thread")
    of_os = rows("os_calls", "os_call", "call", "thread")
    # most of them wait for others: they are rows only where nothing else is known
    other = any(side.captured(kind) for side in sides for kind in ("cuda_api", "nvtx"))
    both = pl.concat([calls, ranges, *([] if other else [of_os])], how="diagonal_relaxed")
    units = pl.DataFrame(
        [
            (number, at, sum(len(part.periods) for part in run.parts))
            for number, side in enumerate(sides)
            for at, run in enumerate(side.runs)
        ],
        schema={"side": pl.Int64, "run": pl.Int64, "units": pl.Int64},
        orient="row",
    )
    sums = both.group_by("side", "run", *_KEY).agg(
        pl.col("count", "ns").sum(),
        pl.when(pl.col("squares").is_not_null().all()).then(pl.col("squares").sum()),
    )
    return sums.join(units, on=["side", "run"]).sort(*_KEY, "side", "run")


def _row(key: tuple[Any, ...], table: pl.DataFrame, sides: Sequence[Side]) -> tuple[HostRow, float]:
    """A row, and the p-value of the change of its total; nan where it cannot be tested."""
    found = [_Sums(table.filter(pl.col("side") == number), side) for number, side in enumerate(sides)]
    row = HostRow(
        kind=key[0], name=key[1], domain=key[2], thread=key[3], baseline=found[0].side(),
    )  # fmt: skip
    if len(found) == 1:
        return row, math.nan
    one, other = found
    row = replace(row, candidate=other.side(), delta_ns=other.ns - one.ns, mean_delta_ns=None)
    p = math.nan
    if change := trimmed(one.per_run, other.per_run):
        p, (low, high) = change.p, change.interval
        row = replace(row, ci_low_ns=low, ci_high_ns=high)
    if row.baseline and row.candidate:
        row = replace(row, mean_delta_ns=row.candidate.mean_ns - row.baseline.mean_ns)
        of_runs = trimmed(one.means, other.means)
        means = of_runs.interval if of_runs else _of_calls(one, other)
        if means is not None:
            row = replace(row, mean_ci_low_ns=means[0], mean_ci_high_ns=means[1])
    return row, p


class _Sums:
    """A row of one side: `per_run` ns per step of each run, `means` of one call in each run that has some."""

    def __init__(self, table: pl.DataFrame, side: Side) -> None:
        self.per_run = np.zeros(len(side.runs))
        counts = np.zeros(len(side.runs))
        at = table["run"].to_numpy()
        units = table["units"].to_numpy()
        self.per_run[at] = table["ns"].to_numpy() / units
        counts[at] = table["count"].to_numpy() / units
        self.means: Floats = table["ns"].to_numpy() / table["count"].to_numpy()
        self.ns, self.count = float(self.per_run.mean()), float(counts.mean())
        self.calls = int(table["count"].sum())
        squares = table["squares"].cast(pl.Float64).fill_null(math.nan).sum()
        self.total, self.squares = float(table["ns"].sum()), float(squares)

    def side(self) -> HostSide | None:
        return HostSide(self.count, self.ns, self.ns / self.count) if self.count else None

    def error_squared(self) -> float:
        """Of the mean of the calls, as if each were by chance."""
        spread = max(self.squares - self.total**2 / self.calls, 0.0) / (self.calls - 1)
        return spread / self.calls


def _of_calls(one: _Sums, other: _Sums) -> tuple[float, float] | None:
    if min(one.calls, other.calls) < ENOUGH or math.isnan(one.squares + other.squares):
        return None
    delta = other.total / other.calls - one.total / one.calls
    half = float(quantile(one.calls + other.calls - 2, 1 - ALPHA / 2)) * math.sqrt(
        one.error_squared() + other.error_squared()
    )
    return delta - half, delta + half


def _levels(p: Sequence[float]) -> list[Evidence]:
    """Likely where the change of the total survives all rows being tested at once (Benjamini-Hochberg)."""
    values = np.array(p, np.float64)
    known = np.isfinite(values)
    q = np.ones(len(values))
    if known.any():
        q[known] = benjamini_hochberg(values[known])
    return ["likely" if one <= ALPHA else "within_noise" for one in q.tolist()]


def _order(row: HostRow) -> tuple[float, float, str, str, str, str]:
    sides = [side.ns for side in (row.baseline, row.candidate) if isinstance(side, HostSide)]
    delta = row.delta_ns if isinstance(row.delta_ns, float) else 0.0
    return -abs(delta), -max(sides, default=0.0), row.kind, row.name, row.domain, row.thread


# Why there are no kernels, as far as the captures show it.


def host_only_notes(sides: Sequence[Side]) -> list[Note]:
    """The warning of captures whose host alone is measured; none where every side has GPU kernels."""
    without = [side for side in sides if not side.captured("kernels")]
    if not without:
        return []
    parts = [part for side in without for part in side.parts]
    whole = any(part.step_source == WHOLE_CAPTURE.source for part in parts)
    per = "times are per whole capture" if whole else "a step is measured on the host"
    return [Note("host-only", f"host time only, because GPU kernels are missing: {per}{_why(parts)}")]


def _why(parts: Sequence[Reduction]) -> str:
    if any(note.slug == "graph-kernels-missing" for part in parts for note in part.warnings):
        return ""  # said there
    by = dict.fromkeys(recording(part.meta.get("EXPORT_PRODUCT_VERSION", ())) for part in parts)
    launched = sum(int(part.apis.filter(pl.col("kind") == "launch")["count"].sum()) for part in parts)
    if launched:
        graphs = any(part.apis["api"].str.contains("GraphLaunch").any() for part in parts)
        reasons = "; ".join(one.not_collected for one in by)
        nodes = "; kernels inside CUDA graphs need --cuda-graph-trace=node" if graphs else ""
        return f". {launched:,} CUDA calls that launch work were recorded, but CUPTI gave none of the work. Likely {reasons}{nodes}"
    if any(part.coverage["cuda_api"] == "captured" for part in parts):
        reasons = "; ".join(one.not_inside for one in by)
        return f". CUDA calls were recorded, but none that launches work: {reasons}"
    return f". No CUDA calls were recorded either. Where the program uses a GPU, {'; '.join(one.gpu_work for one in by)}"
