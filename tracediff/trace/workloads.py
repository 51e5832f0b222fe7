"""What a step worked on: the columns that say it, and classes of steps by what they launch where no label says it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

SHAPE = ["phase", "ctx_reqs", "ctx_tokens", "gen_reqs"]
STEP = "step"  # phase of steps whose labels count nothing: those of the class that holds most steps
IRREGULAR = "irregular"  # phase of steps whose work does not recur: listed, never compared
WITHIN = 0.15  # distance up to which steps are of one class; duration counts nothing, for it would hide what changed
_MOST_CLASSES = 64  # of an export: what is unlike all of them is of the last one


def bucket(column: str) -> pl.Expr:
    """Powers of two: 0, 1, 2, 3-4, 5-8, ...; stored as the upper bound."""
    value = pl.col(column)
    return (
        pl.when(value > 0)
        .then((2 ** (value - 1).clip(0).cast(pl.Float64).add(1).log(2).ceil()).cast(pl.Int64))
        .otherwise(value)
    )


def class_name(rank: int) -> str:
    """The phase of a class, given its place among the classes of most steps: `step`, `class-2`, `class-3`, ..."""
    return STEP if rank == 0 else f"class-{rank + 1}"


def is_class(phase: str) -> bool:
    """Whether a phase was told from others by what its steps launch."""
    return phase == STEP or phase.startswith("class-")


def distance(bags: Floats, one: Floats) -> Floats:
    """Bray-Curtis distance of each row of `bags` to `one`: the part of both that only one of them has, 0 to 1.

    A bag has a column for each kernel name with the number of its launches. Two empty bags are alike.
    """
    both = (bags + one).sum(axis=-1)
    apart = np.abs(bags - one).sum(axis=-1)
    return np.asarray(np.divide(apart, both, out=np.zeros(len(bags)), where=both > 0))


def classes_of(bags: Floats, weight: Floats, most: int = _MOST_CLASSES) -> Ints:
    """The class of each bag, 0 the one of most weight: the bags in order of weight each found or join a class (leader clustering).

    `weight`: how many steps each bag stands for. Bags of equal weight go in the order of their counts, so that the order of the rows
    changes nothing.
    """
    equal, where = np.unique(bags, axis=0, return_inverse=True)
    where = where.reshape(-1)
    total = np.bincount(where, weights=weight, minlength=len(equal))
    leaders: list[int] = []
    found = np.zeros(len(equal), np.int64)
    for one in np.argsort(-total, kind="stable").tolist():
        apart = distance(equal[leaders], equal[one]) if leaders else np.ones(1)
        if leaders and (apart.min() <= WITHIN or len(leaders) == most):
            found[one] = int(apart.argmin())
        else:
            found[one] = len(leaders)
            leaders.append(one)
    held = np.bincount(found, weights=total, minlength=len(leaders))
    place = np.empty(len(leaders), np.int64)
    place[np.argsort(-held, kind="stable")] = np.arange(len(leaders))
    return place[found][where]
