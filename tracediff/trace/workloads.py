"""What a step worked on: the columns that say it, and how near ones are put together."""

from __future__ import annotations

import polars as pl

SHAPE = ["phase", "ctx_reqs", "ctx_tokens", "gen_reqs"]
IRREGULAR = "irregular"  # phase of inferred steps that are unlike the repeating one: listed, never compared


def bucket(column: str) -> pl.Expr:
    """Powers of two: 0, 1, 2, 3-4, 5-8, ...; stored as the upper bound."""
    value = pl.col(column)
    return (
        pl.when(value > 0)
        .then((2 ** (value - 1).clip(0).cast(pl.Float64).add(1).log(2).ceil()).cast(pl.Int64))
        .otherwise(value)
    )
