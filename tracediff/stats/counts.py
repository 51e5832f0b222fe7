"""Tests of counts."""

from __future__ import annotations

import math

import numpy as np


def fisher_exact(some: int, of: int, others: int, of_others: int) -> float:
    """Two-sided p value of `some` of `of` against `others` of `of_others` (scipy.stats has it too, and takes long to import)."""

    def log_choose(n: int, some: np.ndarray) -> np.ndarray:
        return np.array([math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) for k in some])

    total = some + others
    possible = np.arange(max(0, total - of_others), min(of, total) + 1)
    logs = log_choose(of, possible) + log_choose(of_others, total - possible)
    weight = np.exp(logs - logs.max())
    seen = weight[some - possible[0]]
    return float(min(weight[weight <= seen * (1 + 1e-9)].sum() / weight.sum(), 1.0))
