"""Strata: steps of like workload on both sides, so that a faster mix of steps is not taken for faster steps.

Exact values of (phase, ctx_reqs, ctx_tokens, gen_reqs) first. Steps whose exact stratum is missing or thin on one
side are pooled into wider buckets (powers of two), and into their phase only where the phase would otherwise not
be compared at all. What is left over is listed with the reason. Means are weighted by the baseline's mix.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from tracediff.errors import TracediffError
from tracediff.formats.selection import MIN_STEPS
from tracediff.model import Mix, Note, Stratum
from tracediff.trace.workloads import IRREGULAR, SHAPE, bucket


@dataclass(frozen=True)
class Strata:
    """Which exact stratum belongs to which compared one.

    members: SHAPE columns -> group (id of a compared stratum, or -1). weights: group -> share of the baseline's
    compared steps. rows: every group and every left-over exact stratum, for the report.
    """

    members: pl.DataFrame
    weights: dict[int, float]
    rows: list[Stratum]
    keys: list[str]  # of each row: the value of ROW that its steps have
    mix: Mix
    warnings: list[Note]
    without_tokens: bool = False  # one side's labels carry no token count

    def locate(self, table: pl.DataFrame) -> pl.DataFrame:
        """Add the column group (-1: not compared, null: a workload the sides do not have) to a table with SHAPE columns."""
        if self.without_tokens:
            table = table.with_columns(ctx_tokens=pl.lit(None, dtype=pl.Int64))
        return table.join(self.members, on=SHAPE, how="left", nulls_equal=True)

    def by_workload(self, steps: pl.DataFrame) -> pl.DataFrame:
        """Add the column row: the one of `keys` that each step is of."""
        return self.locate(steps).with_columns(pl.col("group").fill_null(-1)).with_columns(row=ROW)


def build_strata(steps: pl.DataFrame, runs: tuple[int, int], min_steps: int = MIN_STEPS) -> Strata:
    """Group the whole steps of both sides.

    `steps`: side (0 baseline, 1 candidate), SHAPE columns, ns. `runs`: runs a side.
    """
    warnings: list[Note] = []
    steps, note = _common_labels(steps)
    if note is not None:
        warnings.append(note)
    exact = _counts(steps, SHAPE)
    members, groups = _assign(exact, runs, min_steps)
    if not groups:
        members, groups = _assign(exact, runs, 0)
        if groups:
            warnings.append(
                Note(
                    "thin-strata",
                    f"no stratum has {min_steps} whole steps a run on both sides; all were compared, with little behind them",
                )
            )
    pooled = [level for level in groups.values() if level == "phase"]
    if pooled:
        warnings.append(
            Note(
                "coarse-strata",
                "steps were matched by phase only: batch sizes differ between the sides, and part of a delta may be mix",
            )
        )
    located = steps.join(members, on=SHAPE, how="left", nulls_equal=True)
    weights = _weights(located)
    rows, keys = _rows(located, groups, weights, runs, min_steps)
    return Strata(members, weights, rows, keys, _mix(located), warnings, without_tokens=note is not None)


def need_common(strata: Strata) -> None:
    """Raise TracediffError `no-common-strata` (exit code 4) where no stratum is compared."""
    if not strata.weights:
        raise TracediffError(
            "no-common-strata",
            "the two sides have no steps of like workload in common (phase, requests, tokens)",
            fix="run both sides with the same requests, or capture a longer window",
            exit_code=4,
        )


def _common_labels(steps: pl.DataFrame) -> tuple[pl.DataFrame, Note | None]:
    """Older step labels carry no token count: then tokens separate no strata on either side."""
    known = steps.group_by("side").agg(pl.col("ctx_tokens").is_not_null().any().alias("known"))
    if known["known"].all() or not known["known"].any():
        return steps, None
    note = Note(
        "label-generation",
        "only one side's step labels carry ctx tokens; steps were matched without them",
    )
    return steps.with_columns(ctx_tokens=pl.lit(None, dtype=pl.Int64)), note


def _counts(steps: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    return (
        steps.group_by(by)
        .agg(
            baseline=(pl.col("side") == 0).sum().cast(pl.Int64),
            candidate=(pl.col("side") == 1).sum().cast(pl.Int64),
        )
        .sort(by, nulls_last=True)
    )


def _assign(
    exact: pl.DataFrame, runs: tuple[int, int], min_steps: int
) -> tuple[pl.DataFrame, dict[int, str]]:
    def enough(phase: str) -> pl.Expr:
        return (
            (pl.col(phase) != IRREGULAR)
            & (pl.col("baseline") >= max(min_steps * runs[0], 1))
            & (pl.col("candidate") >= max(min_steps * runs[1], 1))
        )

    levels: dict[int, str] = {}
    table = exact.with_columns(
        group=pl.when(enough("phase")).then(pl.int_range(pl.len())).otherwise(-1).cast(pl.Int64)
    )
    levels.update({group: "exact" for group in table["group"].to_list() if group >= 0})
    for level, keys in (
        (
            "bucket",
            [
                pl.col("phase").alias("a"),
                pl.col("ctx_reqs").alias("b"),
                bucket("ctx_tokens").alias("c"),
                bucket("gen_reqs").alias("d"),
            ],
        ),
        (
            "phase",
            [pl.col("phase").alias("a"), pl.lit(0).alias("b"), pl.lit(0).alias("c"), pl.lit(0).alias("d")],
        ),
    ):
        rest = pl.col("group") < 0
        if level == "phase":
            rest = rest & (pl.col("group").max().over("phase") < 0)
        left = table.filter(rest).with_columns(*keys)
        sums = (
            left.group_by("a", "b", "c", "d").agg(pl.col("baseline", "candidate").sum()).filter(enough("a"))
        )
        first = max(levels, default=-1) + 1
        sums = sums.sort("a", "b", "c", "d", nulls_last=True).with_columns(
            wide=pl.int_range(pl.len()) + first
        )
        levels.update(dict.fromkeys(sums["wide"].to_list(), level))
        wide = left.join(
            sums.select("a", "b", "c", "d", "wide"), on=["a", "b", "c", "d"], how="left", nulls_equal=True
        )
        table = (
            table.join(
                wide.select(*SHAPE, "wide"), on=SHAPE, how="left", nulls_equal=True, maintain_order="left"
            )
            .with_columns(group=pl.coalesce("wide", "group").cast(pl.Int64))
            .drop("wide")
        )
    return table.select(*SHAPE, "group"), levels


def _weights(located: pl.DataFrame) -> dict[int, float]:
    counts = (
        located.filter((pl.col("side") == 0) & (pl.col("group") >= 0)).group_by("group").len().sort("group")
    )
    total = int(counts["len"].sum())
    return {int(group): count / total for group, count in counts.iter_rows()}


# What the steps of one row of the table of strata have in common, in a table with SHAPE columns and group.
ROW = (
    pl.when(pl.col("group") >= 0)
    .then(pl.format("g{}", "group"))
    .otherwise(
        pl.format(
            "x{}-{}-{}-{}",
            "phase",
            pl.col("ctx_reqs").fill_null(-1),
            pl.col("ctx_tokens").fill_null(-1),
            pl.col("gen_reqs").fill_null(-1),
        )
    )
)


def _rows(
    located: pl.DataFrame,
    groups: dict[int, str],
    weights: dict[int, float],
    runs: tuple[int, int],
    min_steps: int,
) -> tuple[list[Stratum], list[str]]:
    by_group = located.with_columns(row=ROW)
    side = pl.col("side")
    table = by_group.group_by("row").agg(
        pl.col("group").first(), pl.col("phase").first(),
        *(pl.col(name).min().alias(f"{name}_low") for name in SHAPE[1:]),
        *(pl.col(name).max().alias(f"{name}_high") for name in SHAPE[1:]),
        baseline_steps=(side == 0).sum(), candidate_steps=(side == 1).sum(),
        baseline_ns=pl.col("ns").filter(side == 0).mean(), candidate_ns=pl.col("ns").filter(side == 1).mean(),
    ).sort("baseline_steps", "candidate_steps", "row", descending=[True, True, False])  # fmt: skip
    total = [float(located["ns"].filter(located["side"] == number).sum()) for number in (0, 1)]
    out = []
    for row in table.iter_rows(named=True):
        group = int(row["group"])
        both = row["baseline_ns"] is not None and row["candidate_ns"] is not None
        out.append(
            Stratum(
                phase=row["phase"],
                ctx_reqs=_span(row["ctx_reqs_low"], row["ctx_reqs_high"]),
                ctx_tokens=_span(row["ctx_tokens_low"], row["ctx_tokens_high"]),
                gen_reqs=_span(row["gen_reqs_low"], row["gen_reqs_high"]),
                level=groups.get(group, "exact"),  # type: ignore[arg-type]
                baseline_steps=int(row["baseline_steps"]),
                candidate_steps=int(row["candidate_steps"]),
                baseline_ns=row["baseline_ns"],
                candidate_ns=row["candidate_ns"],
                delta_ns=row["candidate_ns"] - row["baseline_ns"] if both else None,
                weight=weights.get(group, 0.0),
                compared=group >= 0,
                reason="" if group >= 0 else _why(row, runs, min_steps),
                baseline_share=_part(row["baseline_steps"], row["baseline_ns"], total[0]),
                candidate_share=_part(row["candidate_steps"], row["candidate_ns"], total[1]),
            )
        )
    return out, table["row"].to_list()


def _part(steps: int, mean_ns: float | None, total_ns: float) -> float:
    return steps * mean_ns / total_ns if mean_ns is not None and total_ns else 0.0


def _why(row: dict[str, object], runs: tuple[int, int], min_steps: int) -> str:
    if row["phase"] == IRREGULAR:
        return "other ops than the repeating step: not known to be like one another"
    if not row["baseline_steps"]:
        return "only in the candidate"
    if not row["candidate_steps"]:
        return "only in the baseline"
    return f"fewer than {min_steps} steps a run: too thin to tell a change from scatter (--min-steps)"


def _span(low: int | None, high: int | None) -> str:
    if low is None or high is None:
        return "?"
    return str(low) if low == high else f"{low}-{high}"


def _mix(located: pl.DataFrame) -> Mix:
    """Raw means of all whole steps and the part of their difference that is mix (Kitagawa 1955).

    With shares p and means m of each stratum: mix = sum (p_c - p_b) (m_b + m_c) / 2; where a side lacks a
    stratum, the other side's mean stands for both. Swapping the sides changes the sign of every term.
    """
    cells = located.with_columns(
        cell=pl.when(pl.col("group") >= 0)
        .then(pl.format("g{}", "group"))
        .otherwise(
            pl.concat_str([pl.col(name).cast(pl.String).fill_null("?") for name in SHAPE], separator="|")
        )
    )
    side = pl.col("side")
    table = cells.group_by("cell").agg(
        nb=(side == 0).sum(), nc=(side == 1).sum(),
        mb=pl.col("ns").filter(side == 0).mean(), mc=pl.col("ns").filter(side == 1).mean(),
    ).sort("cell")  # fmt: skip
    steps_b, steps_c = int(table["nb"].sum()), int(table["nc"].sum())
    mix = speed = raw_b = raw_c = 0.0
    for nb, nc, mb, mc in table.select("nb", "nc", "mb", "mc").iter_rows():
        pb, pc = nb / steps_b, nc / steps_c
        one, other = (mb if mb is not None else mc), (mc if mc is not None else mb)
        mix += (pc - pb) * (one + other) / 2
        speed += (pb + pc) / 2 * (other - one)
        raw_b += pb * (mb or 0.0)
        raw_c += pc * (mc or 0.0)
    return Mix(raw_b, raw_c, mix, speed)
