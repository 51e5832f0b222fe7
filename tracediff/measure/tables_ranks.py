"""The tables of ranks: step time of each, which one the others wait for, and kernels that are not alike on all of them.

A rank's own time of a step is the step less exposed communication. In programs that work in lock step all ranks have steps of one
length, and the rank that comes late is told by its own time: the others spend the difference inside their collectives. This needs no
common clock, so it holds for ranks that were exported apart.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from tracediff.measure.kernel_table import KernelCells
from tracediff.measure.sides import Side, parts_of, stacked
from tracediff.measure.tables import Weigher
from tracediff.model import KernelRanks, RankRow, RankSkew

MOST_KERNELS = 50
_FEWEST = 4  # ranks of which one can be called an outlier
_UNIT = ("side", "rank", "device")


def with_own(steps: pl.DataFrame) -> pl.DataFrame:
    """Steps with their `own_ns`."""
    return steps.with_columns(own_ns=pl.col("ns") - pl.col("comm"))


def joint_steps(steps: pl.DataFrame) -> pl.DataFrame:
    """The steps that several ranks share: side, run, step, rank, device, own_ns, last, behind_ns.

    Steps of one number belong together; where labels have none, or repeat, those of one place in the run do. Of the steps that at
    least half of the devices have. last: the device with the most own time, of equal ones the first, none where that is the
    median; behind_ns: by how much it is more than the median, 0 for the others.
    """
    run, unit = ["side", "run"], ["side", "run", "rank", "device"]
    ordered = with_own(steps).sort(*unit, "start_ns")
    place = pl.int_range(pl.len()).over(unit)
    counted = pl.col("number").is_not_null().all().over(run) & pl.struct(
        *unit, "number"
    ).is_unique().all().over(run)
    ordered = ordered.with_columns(
        step=pl.when(counted).then(pl.col("number")).otherwise(place),
        of=pl.struct("rank", "device").n_unique().over(run),
    )
    together = [*run, "step"]
    shared = ordered.filter((pl.len().over(together) >= 2) & (2 * pl.len().over(together) >= pl.col("of")))
    own = pl.col("own_ns")
    late = (own - own.median()).over(together)
    first = pl.int_range(pl.len()).over(together) == own.arg_max().over(together)
    return (
        shared.with_columns(last=first & (late > 0), late=late)
        .with_columns(behind_ns=pl.when("last").then("late").otherwise(0.0))
        .select(*run, "step", "rank", "device", "own_ns", "last", "behind_ns")
    )


def skews(joint: pl.DataFrame) -> list[RankSkew]:
    """How far the ranks of each side are apart, a row a side with joint steps."""
    rows = []
    for side, name in enumerate(("baseline", "candidate")):
        mine = joint.filter(pl.col("side") == side)
        if not len(mine):
            continue
        steps = mine.group_by("run", "step").agg(pl.col("behind_ns").sum())["behind_ns"]
        often = (
            mine.filter("last").group_by("rank").len().sort("len", "rank", descending=[True, False]).rows()
        )
        rank, times = often[0] if often else (None, 0)
        late = float(steps.sum()) / len(steps)
        rows.append(RankSkew(name, mine["rank"].n_unique(), len(steps), late, rank, times / len(steps)))  # type: ignore[arg-type]
    return rows


def ranks(
    sides: Sequence[Side],
    steps: pl.DataFrame,
    weights: dict[int, float],
    weigher: Weigher,
    joint: pl.DataFrame,
) -> list[RankRow]:
    """Step time, own time and collective waits of each rank at the baseline's mix, in order of ranks.

    `steps`: the compared ones with their group; `joint`: of these, see `joint_steps`.
    """
    means = (
        with_own(steps)
        .group_by("side", "run", "rank", "device", "group")
        .agg(pl.col("ns", "own_ns").mean())
        .sort("side", "run", "rank", "device", "group")  # floats are added up in a fixed order
        .with_columns(weight=pl.col("group").replace_strict(weights, return_dtype=pl.Float64))
        .group_by("side", "run", "rank", "device", maintain_order=True)
        .agg((pl.col(name) * pl.col("weight")).sum() / pl.col("weight").sum() for name in ("ns", "own_ns"))
        .group_by(_UNIT, maintain_order=True)
        .agg(pl.col("ns", "own_ns").mean())
    )
    of = {row[:3]: row[3:] for row in means.iter_rows()}
    late = {
        row[:3]: row[3:]
        for row in joint.group_by(_UNIT)
        .agg(pl.col("last").mean(), pl.col("behind_ns").filter(pl.col("last")).mean())
        .iter_rows()
    }
    waits = _waits(sides, weigher)
    units = sorted({row[1:3] for row in of})
    outlier = _outliers({unit: (of.get((0, *unit)), of.get((1, *unit))) for unit in units})
    rows = []
    for rank, device in units:
        (one_ns, one_own), (other_ns, other_own) = (
            of.get((side, rank, device), (None, None)) for side in (0, 1)
        )
        one, other = (waits.get((side, rank), (None,) * 3) for side in (0, 1))
        (one_last, one_behind), (other_last, other_behind) = (
            late.get((side, rank, device), (None, None)) for side in (0, 1)
        )
        rows.append(
            RankRow(
                rank, device, one_ns, other_ns, _less(other_ns, one_ns),
                one[0], other[0], one[1], other[1], one[2], other[2],
                one_own, other_own, _less(other_own, one_own), one_last, other_last, one_behind, other_behind,
                outlier.get((rank, device)),
            )
        )  # fmt: skip
    return rows


def _less(value: float | None, than: float | None) -> float | None:
    return None if value is None or than is None else value - than


def _waits(sides: Sequence[Side], weigher: Weigher) -> dict[tuple[int, int], tuple[float | None, ...]]:
    """Side and rank -> waiting, transfer, what the others waited for it, ns a step. Of ranks in one export."""
    firsts = [one for side in sides for run in side.runs for one in run.firsts()]
    collectives = stacked(sides, "collectives")
    parts = pl.DataFrame(
        [(*one[:3], first) for one, first in zip(parts_of(sides), firsts, strict=True)],
        schema=dict.fromkeys(("side", "run", "part", "first"), pl.Int64), orient="row",
    )  # fmt: skip
    collectives = collectives.join(parts, on=["side", "run", "part"], how="left", maintain_order="left")
    collectives = collectives.with_columns(pl.col("rank") + pl.col("first")).drop("first")
    if not len(collectives):
        return {}
    weighed = weigher.weigh(collectives, ["rank"], ["wait_ns", "transfer_ns", "caused_ns"])
    # the weigher divides by the steps of all ranks; a rank's own are their share
    many = dict(weighed.group_by("side").len().iter_rows())
    return {(row[0], row[1]): tuple(value * many[row[0]] for value in row[2:]) for row in weighed.iter_rows()}


_Own = tuple[float, float] | None


def _outliers(own: dict[tuple[int, int], tuple[_Own, _Own]]) -> dict[tuple[int, int], float]:
    """How far each rank's change of own time is from the median change, in robust standard deviations.

    With one side alone, or a rank on one side only, its own time takes the place of the change. The deviation is 1.4826 times the
    median distance from the median, and at least 0.01 % of the step: of ranks that are all alike, a rounding is no outlier.
    """
    both = {unit: (one[1], other[1]) for unit, (one, other) in own.items() if one and other}
    values = {unit: other - one for unit, (one, other) in both.items()}
    if not both:
        values = {unit: one[1] for unit, pair in own.items() if (one := pair[0] or pair[1])}
    if len(values) < _FEWEST:
        return {}
    array = np.array(list(values.values()))
    middle = float(np.median(array))
    step = max(pair[0] for pairs in own.values() for pair in pairs if pair is not None)
    spread = max(1.4826 * float(np.median(np.abs(array - middle))), 1e-4 * step, 1.0)
    return {unit: (value - middle) / spread for unit, value in values.items()}


def kernel_ranks(kernels: KernelCells, steps: pl.DataFrame) -> tuple[list[KernelRanks], int]:
    """Kernels that take longer on one rank than on the others, the most time first; second, how many were left out.

    `steps`: the compared ones with side, run, part, period, rank. Of programs with two ranks or more. Communication is not
    here: a rank's time in it is the other ranks' doing.
    """
    of_rank = steps.group_by("side", "rank").agg(pl.len().alias("steps"))
    if of_rank["rank"].n_unique() < 2:
        return [], 0
    located = kernels.values.join(
        steps.select("side", "run", "part", "period", "rank"), on=["side", "run", "part", "period"]
    )
    own = [row for row, kind in enumerate(kernels.kinds) if kind != "comm"]
    sums = (
        located.filter(pl.col("row").is_in(own))
        .sort("side", "run", "part", "period", "row")
        .group_by("side", "row", "rank", maintain_order=True)
        .agg(pl.col("share_ns").sum())
    )
    by = ["side", "row"]
    every = sums.select(by).unique().join(of_rank, on="side").join(sums, on=[*by, "rank"], how="left")
    ns = (pl.col("share_ns").fill_null(0.0) / pl.col("steps")).alias("ns")
    found = (
        every.select(*by, "rank", ns)
        .sort(*by, "rank")
        .group_by(by, maintain_order=True)
        .agg(pl.col("ns").mean().alias("mean"), pl.col("ns").max().alias("most"), pl.col("rank").get(pl.col("ns").arg_max()).alias("at"))
        .filter((pl.col("mean") > 0) & (pl.col("most") > pl.col("mean")))
        .with_columns(excess=pl.col("most") - pl.col("mean"))
    )  # fmt: skip
    rows = [
        KernelRanks(
            ("baseline", "candidate")[row["side"]],
            _names(kernels, row["row"], row["side"]), kernels.kinds[row["row"]], row["mean"], row["most"], row["at"],
            row["most"] / row["mean"],
        )
        for row in found.sort("excess", "side", "row", descending=[True, False, False]).head(MOST_KERNELS).iter_rows(named=True)
    ]  # fmt: skip
    return rows, max(len(found) - MOST_KERNELS, 0)


def _names(kernels: KernelCells, row: int, side: int) -> list[str]:
    match = kernels.rows[row]
    ops = match.candidate if side and match.candidate else match.baseline or match.candidate
    return [op.name for op in ops]
