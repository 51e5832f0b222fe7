"""Student's t distribution, central and noncentral, by one sum.

T is above t where Z + shift is above t S, with Z normal and S = chi(df) / sqrt(df): the chance is the mean of Phi(shift - t S) over S,
and the trapezoidal rule on log S gives it to 11 digits. `scipy.special` has all of this, and takes as long to import as two small
exports to read; tests hold the two together.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from tracediff.arrays import Floats

_ERFC = np.frompyfunc(math.erfc, 1, 1)
_NODES = np.arange(-60.0, 12.0, 0.3)  # in standard deviations of log S; so far down for one degree of freedom
_ROUNDS = 100  # of Newton's method at most: each doubles the digits, once it is near


def above(df: npt.ArrayLike, t: npt.ArrayLike, shift: npt.ArrayLike = 0.0) -> Floats:
    """The chance that T is above t, elementwise. `df`: 1 or more; `shift`: the noncentrality."""
    s, weight = _scale(_array(df))
    beyond = _array(t)[..., None] * s - _array(shift)[..., None]
    return _mean(_array(_ERFC(beyond / math.sqrt(2))), weight) / 2


def quantile(df: npt.ArrayLike, p: float) -> Floats:
    """What T is below with the chance p, from 0.5 on, of the shape of `df`."""
    df = _array(df)
    s, weight = _scale(df)
    return _root(  # from below, where the chance is convex: no step goes too far
        lambda t: above(df, t) - (1 - p),
        lambda t: -_mean(s * _density(t[..., None] * s), weight),
        np.full(df.shape, NormalDist().inv_cdf(p)),
    )


def shift_for(df: npt.ArrayLike, t: npt.ArrayLike, power: float) -> Floats:
    """The noncentrality with which T is above t with the chance `power`, from 0.5 on; elementwise. `df`: 2 or more."""
    df, t = np.broadcast_arrays(_array(df), _array(t))
    s, weight = _scale(df)
    return _root(  # from below, where the chance is concave
        lambda shift: above(df, t, shift) - power,
        lambda shift: _mean(_density(t[..., None] * s - shift[..., None]), weight),
        t,
    )


def _root(of: Callable[[Floats], Floats], slope: Callable[[Floats], Floats], at: Floats) -> Floats:
    for _ in range(_ROUNDS):
        step = of(at) / slope(at)
        at = at - step
        if not (np.abs(step) > 1e-14 * np.abs(at)).any():
            break
    return at


def _scale(df: Floats) -> tuple[Floats, Floats]:
    """Values of S and their weights, (..., nodes)."""
    df = df[..., None]
    log_s = _NODES / np.sqrt(2 * df)
    return np.exp(log_s), np.exp(df * (log_s + 0.5 - np.exp(2 * log_s) / 2))


def _mean(values: Floats, weight: Floats) -> Floats:
    return np.asarray((weight * values).sum(axis=-1) / weight.sum(axis=-1))  # exactly 1 of ones


def _density(z: Floats) -> Floats:
    return np.asarray(np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi))


def _array(values: npt.ArrayLike) -> Floats:
    return np.asarray(values, dtype=np.float64)
