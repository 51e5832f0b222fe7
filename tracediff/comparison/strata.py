"""Steps by what their labels say they worked on: the list of what was compared, and what was not.

An exact workload (phase, requests, tokens) stands alone where both sides have it often enough; others are put together by powers of
two. How much each step counts for is not decided here but in frame.py; a row tells what became of its steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from tracediff.comparison.frame import Frame
from tracediff.formats.selection import MIN_STEPS
from tracediff.model import Mix, Note, Stratum
from tracediff.trace.workloads import IRREGULAR, SHAPE, bucket


@dataclass(frozen=True)
class Strata:
    """rows: of the report. keys: of each row, the value of `row` that its steps have in `steps`: every whole step of the sides."""

    rows: list[Stratum]
    keys: list[str]
    steps: pl.DataFrame


def build_strata(frame: Frame, min_steps: int = MIN_STEPS) -> Strata:
    """List the workloads of the sides, those with the most steps first."""
    sides = min(2, len(frame.runs))
    steps = frame.steps.with_columns(
        weight=pl.Series(frame.weight), klass=pl.Series(_classes(frame)), phased=pl.Series(_phased(frame))
    ).filter(pl.col("side") < 2)
    side = pl.col("side")
    often = [(side == number).sum().over(SHAPE) >= min_steps * frame.runs[number] for number in range(sides)]
    left_out = pl.any_horizontal(
        [pl.lit(False), *((side == one) & (pl.col("run") == run) for one, run in frame.left_out)]
    )
    steps = steps.filter(~left_out)  # said of the run as a whole
    steps = steps.with_columns(exact=pl.all_horizontal(often), compared=pl.col("weight") > 0)
    steps = steps.with_columns(why=_why())
    name = pl.concat_str(
        [
            "phase",
            *(
                pl.when("exact").then(column).otherwise(bucket(column)).cast(pl.String).fill_null("?")
                for column in SHAPE[1:]
            ),
            pl.col("exact").cast(pl.String),
            "why",
        ],
        separator="|",
    )
    steps = steps.with_columns(row=name)
    total = [float(steps["ns"].filter(steps["side"] == number).sum()) for number in (0, 1)]
    table = steps.group_by("row").agg(
        pl.col("phase", "exact", "compared", "why").first(),
        *(pl.col(column).min().alias(f"{column}_low") for column in SHAPE[1:]),
        *(pl.col(column).max().alias(f"{column}_high") for column in SHAPE[1:]),
        baseline_steps=(side == 0).sum(), candidate_steps=(side == 1).sum(),
        baseline_ns=pl.col("ns").filter(side == 0).mean(), candidate_ns=pl.col("ns").filter(side == 1).mean(),
        weight=pl.col("weight").sum() / sides,
    ).sort("baseline_steps", "candidate_steps", "row", descending=[True, True, False])  # fmt: skip
    rows = [_stratum(row, total) for row in table.iter_rows(named=True)]
    return Strata(rows, table["row"].to_list(), steps)


def _stratum(row: dict[str, Any], total: list[float]) -> Stratum:
    one, other = row["baseline_ns"], row["candidate_ns"]
    return Stratum(
        **{column: _span(row[f"{column}_low"], row[f"{column}_high"]) for column in SHAPE[1:]},
        phase=str(row["phase"]),
        level="exact" if row["exact"] else "bucket",
        baseline_steps=int(row["baseline_steps"]),
        candidate_steps=int(row["candidate_steps"]),
        baseline_ns=one,
        candidate_ns=other,
        delta_ns=other - one if one is not None and other is not None else None,
        weight=float(row["weight"]),
        compared=bool(row["compared"]),
        reason=_of_side(row["why"], row),
        baseline_share=_part(row["baseline_steps"], one, total[0]),
        candidate_share=_part(row["candidate_steps"], other, total[1]),
    )


def _part(steps: int, mean_ns: float | None, total_ns: float) -> float:
    return steps * mean_ns / total_ns if mean_ns is not None and total_ns else 0.0


def _phased(frame: Frame) -> list[bool]:
    """Whether a step is of a phase that both sides have."""
    return frame.steps["phase"].is_in([one.phase for one in frame.phases]).to_list()


def _classes(frame: Frame) -> list[int]:
    """The workload of each step within its phase."""
    found = np.zeros(len(frame.steps), np.int64)
    for one in frame.phases:
        found = np.where(frame.steps["phase"].to_numpy() == one.phase, one.klass, found)
    return found.tolist()


def _why() -> pl.Expr:
    """Why a step is in no mean, "" where it is in one. `one_side`: of a phase or of a shape that the other side lacks."""
    side = pl.col("side")
    alike = side.n_unique().over("phase", "klass") > 1
    shape = [pl.col("phase"), *(bucket(column) for column in SHAPE[1:])]
    return (
        pl.when("compared")
        .then(pl.lit(""))
        .when(pl.col("phase") == IRREGULAR)
        .then(pl.lit(IRREGULAR))
        .when(~pl.col("phased"))
        .then(pl.lit("one_side"))
        .when("start_up")  # the start of a side is compared where the other has one
        .then(pl.lit("first_use"))
        .when(alike)
        .then(pl.lit("none_typical"))
        .when(side.n_unique().over(shape) > 1)
        .then(pl.lit("other_ops"))
        .otherwise(pl.lit("one_side"))
    )


def _of_side(why: str, row: dict[str, Any]) -> str:
    if why != "one_side":
        return why
    return "candidate_only" if not row["baseline_steps"] else "baseline_only"


def _span(low: int | None, high: int | None) -> str:
    if low is None or high is None:
        return "?"
    return str(low) if low == high else f"{low}-{high}"


def mix(frame: Frame, baseline_ns: float, candidate_ns: float) -> Mix:
    """What the raw means of both sides differ by: `baseline_ns`, `candidate_ns` are the means at equal workload."""
    ns, side, run = (frame.steps[name].to_numpy() for name in ("ns", "side", "run"))
    kept = [(side == at) & np.isin(run, frame.kept(at)) for at in (0, 1)]
    raw = [float(ns[mine].mean()) for mine in kept]
    compared = [float(ns[mine & (frame.weight > 0)].mean()) for mine in kept]
    speed, of_compared = candidate_ns - baseline_ns, compared[1] - compared[0]
    return Mix(raw[0], raw[1], of_compared - speed, speed, raw[1] - raw[0] - of_compared)


_ENOUGH = 20  # steps a side, from which it is odd that none repeats


def notes_of(frame: Frame, min_steps: int) -> list[Note]:
    """Warnings of how steps were compared."""
    notes = []
    if "label-generation" in frame.notes:
        notes.append(
            Note(
                "label-generation",
                "only one side's step labels carry ctx tokens; steps were matched without them",
            )
        )
    if not frame.once and not any(one.judged for one in frame.phases):
        notes.append(
            Note(
                "thin-strata",
                f"no phase has {min_steps} repeated steps per run on both sides: no change stands out from chance",
            )
        )
    names = [
        one.phase for one in frame.phases if one.judged and not one.repeated and min(one.steps[:2]) >= _ENOUGH
    ]
    if names and len(frame.runs) > 1:
        notes.append(
            Note(
                "steps-do-not-repeat",
                f"{', '.join(names)}: hardly a step repeats what an earlier one launched, so that all count as typical but the first uses"
                " of kernels",
            )
        )
    if "coarse-strata" in frame.notes:
        notes.append(
            Note(
                "coarse-strata",
                "steps were matched by phase only: batch sizes differ between the sides, and part of a delta may be mix",
            )
        )
    return notes
