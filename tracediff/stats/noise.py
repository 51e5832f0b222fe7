"""Run-to-run noise assumed where it cannot be measured: with one run a side.

A prior half-width for each category of the accounting, from repeats of two programs on one machine (H200,
nsys 2023.4, CUDA-graph and eager decoding). It is no substitute for repeats: a verdict that rests on it is at
best `likely`. All values are ns a step; every function is symmetric in the two sides.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tracediff.stats.bootstrap import Floats

Means: TypeAlias = Mapping[str, float]
"""Category of the accounting -> mean, ns a step."""


@dataclass(frozen=True)
class _Prior:
    """Half-width = relative * larger side + plus_ns, and at least at_least_ns."""

    relative: float
    plus_ns: float = 0.0
    at_least_ns: float = 0.0


# Host time: up to a ratio of 1.6 between two runs is noise. The same program's launch_api was 121 and 183 us
# a step (1.50), its host_work 56 and 81 us (1.45), the eager step 2.07 to 3.38 ms unprofiled (1.63) and 3.4
# to 5.1 ms profiled (1.50). A few us of a small kind come and go at any ratio: so 10 us are added.
_HOST = _Prior(relative=1 - 1 / 1.6, plus_ns=10_000)

# GPU time: compute 719.5, 719.7, 719.9, 720.0 us a step in four runs (0.1 %) and 717.4, 716.7 eager; at most
# 1 % elsewhere. memcpy 3.0 to 3.1 us; graph_internal 68.4 to 68.6 us. Twice the worst of them.
_GPU = _Prior(relative=0.02, at_least_ns=1_000)

# Waits for a peer or another stream: their length is set by host noise on the other side of the wait.
# dependency was 7.4 and 7.6 us where nothing shook it; no repeats of a multi-GPU program were measured, so
# this is a guess on the wide side.
_WAIT = _Prior(relative=0.3, at_least_ns=1_000)

# A collection is an event, not a rate: none in the quiet captures, 12.8 ms a step in the noisy one. One short
# collection falls into the window of a run or not: 0.6 ms (assumed, not measured) over 30 steps.
_GC = _Prior(relative=0.0, plus_ns=20_000)

HOST_CATEGORIES = (
    "launch_api", "launch_latency", "host_sync", "host_api", "host_work", "gil_wait", "unattributed",
)  # fmt: skip
"""Host time: one slow run is slow in all of them."""

_PRIORS: dict[str, _Prior] = {
    "compute": _GPU,
    "memcpy": _GPU,
    "graph_internal": _GPU,
    "comm": _WAIT,
    "dependency": _WAIT,
    "gc": _GC,
    **dict.fromkeys(HOST_CATEGORIES, _HOST),
}


def assumed_half_width(category: str, baseline_ns: npt.ArrayLike, candidate_ns: npt.ArrayLike) -> Floats:
    """Return the half-width of the noise of a difference, ns, for means of one category.

    Takes numbers or arrays of them (any shape, the places of a category say). Where both sides are 0 so is
    the noise.
    """
    prior = _PRIORS[category]
    larger = np.maximum(np.abs(np.asarray(baseline_ns, float)), np.abs(np.asarray(candidate_ns, float)))
    width = np.maximum(prior.relative * larger + prior.plus_ns, prior.at_least_ns)
    return np.where(larger > 0, width, 0.0)


def assumed_noise(baseline_means: Means, candidate_means: Means) -> dict[str, float]:
    """Return the half-width of each category, ns; a category that one side lacks counts as 0 there."""
    names = sorted({*baseline_means, *candidate_means})
    sides = ((name, baseline_means.get(name, 0.0), candidate_means.get(name, 0.0)) for name in names)
    return {name: float(assumed_half_width(name, b, c)) for name, b, c in sides}


def assumed_noise_total(baseline_means: Means, candidate_means: Means) -> float:
    """Return the half-width of the sum of all categories, ns.

    Host categories move together, so theirs add up; that sum and each of the others are independent and add
    in quadrature.
    """
    widths = assumed_noise(baseline_means, candidate_means)
    host = sum(width for category, width in widths.items() if category in HOST_CATEGORIES)
    others = (width for category, width in widths.items() if category not in HOST_CATEGORIES)
    return math.hypot(host, *others)
