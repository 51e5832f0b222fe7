"""What a step worked on: the columns that say it, and classes of steps by what they launch where no label says it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from tracediff.arrays import Floats, Ints

Bags = npt.NDArray[np.floating[Any]]

SHAPE = ["phase", "ctx_reqs", "ctx_tokens", "gen_reqs"]
STEP = "step"  # phase of steps whose labels count nothing: those of the class that holds most steps
IRREGULAR = "irregular"  # phase of steps whose work does not recur: listed, never compared

# Bray-Curtis distances of what two steps launch. Duration counts nothing, for it would hide what changed.
ALIKE = 0.15  # of a step to the one that leads its class, at most
# of the sequences of three launches of a step to those of its class: beyond, the order is another
IN_ORDER = 0.4
COUNTERPART = 0.1  # of a class to its counterpart on the other side, on the kernels that both have
CHANGED = 0.3  # the same of two that are each other's nearest: a change may be in how often they launch
RECURS = 3  # steps of a class that recurs, and steps that hold a sequence of three that recurs, at least
_MOST_CLASSES = 64  # of an export: what is unlike all of them is of the nearest one


def bucket(column: str) -> pl.Expr:
    """Powers of two: 0, 1, 2, 3-4, 5-8, ...; stored as the upper bound."""
    value = pl.col(column)
    return (
        pl.when(value > 0)
        .then((2 ** (value - 1).clip(0).cast(pl.Float64).add(1).log(2).ceil()).cast(pl.Int64))
        .otherwise(value)
    )


def half_octave(column: str) -> pl.Expr:
    """Half powers of two: counts within a factor of 1.4 are alike. -1 of nothing, -2 of what is not known."""
    value = pl.col(column)
    return pl.when(value > 0).then((value.log(2) * 2).floor()).otherwise(-1).fill_null(-2)


def class_name(rank: int) -> str:
    """The phase of a class in its export, given its place among those of most steps: `step`, `class-2`, `class-3`, ...

    A comparison gives classes that both sides have a name that says what their steps do (comparison/classes.py).
    """
    return STEP if rank == 0 else f"class-{rank + 1}"


def is_class(phase: str) -> bool:
    """Whether a phase was told from others by what its steps launch."""
    return phase == STEP or phase.startswith(("class-", f"{STEP}-"))


def distance(bags: Bags, one: Bags) -> Bags:
    """Bray-Curtis distance of each row of `bags` to `one`: the part of both that only one of them has, 0 to 1.

    A bag has a column for each kernel name with the number of its launches. Two empty bags are alike.
    """
    mine = one > 0
    both = bags.sum(axis=-1) + one.sum()
    apart = both - 2 * np.minimum(bags[:, mine], one[mine]).sum(axis=-1)
    return np.asarray(np.divide(apart, both, out=np.zeros(len(bags), bags.dtype), where=both > 0))


def leaders(bags: Bags, most: int, *, nearest: bool) -> tuple[Ints, Bags]:
    """The class of each bag, and its distance to the bag that leads the class; the bags come in order of weight.

    Each joins a class within ALIKE that was founded before it, or founds one: the nearest one, else the heaviest, which costs less.
    Once there are `most` classes, what is unlike all of them joins the nearest as well, with a distance beyond ALIKE.
    O(classes * bags).
    """
    label = np.full(len(bags), -1, np.int64)
    apart = np.full(len(bags), np.inf, bags.dtype)
    settled = 0.0 if nearest else ALIKE
    for number in range(most):
        unlike = np.flatnonzero(apart > ALIKE)
        if not len(unlike):
            break
        lead = int(unlike[0])
        label[lead], apart[lead] = number, 0
        later = lead + 1 + np.flatnonzero(apart[lead + 1 :] > settled)
        found = distance(bags[later], bags[lead])
        nearer = found < apart[later]
        label[later[nearer]], apart[later[nearer]] = number, found[nearer]
    return label, apart


def heaviest_first(label: Ints, weight: npt.NDArray[np.number[Any]]) -> Ints:
    """The labels (dense, one a bag) renumbered: 0 the class of most weight; of equal ones the lower label first."""
    order = np.argsort(-np.bincount(label, weights=weight), kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return place[label]


def classes_of(bags: Floats, weight: Floats) -> Ints:
    """The class of each bag, 0 the one of most weight: the bags in order of weight each found or join a class (leader clustering).

    `weight`: how many steps each bag stands for. Bags of equal weight go in the order of their counts, so that the order of the rows
    changes nothing.
    """
    equal, where = np.unique(bags, axis=0, return_inverse=True)
    where = where.reshape(-1)
    total = np.bincount(where, weights=weight, minlength=len(equal))
    order = np.argsort(-total, kind="stable")
    label = np.empty(len(equal), np.int64)
    label[order] = leaders(equal[order], _MOST_CLASSES, nearest=True)[0]
    return heaviest_first(label, total)[where]
