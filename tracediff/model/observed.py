"""What differs between the captures as measured, and what a repeat would show: the data of the first screen."""

from __future__ import annotations

from typing import Literal

import msgspec


class Stops(msgspec.Struct, frozen=True):
    """Steps of a phase that stop: `count` of the `total` on `side`, `other_count` of `other_total` on the other side.

    every: each so many-th step stops, 0: at no regular distance. stop_ns: what the middle one of them takes more than the typical step.
    """

    phase: str
    side: Literal["baseline", "candidate"]
    count: int
    total: int
    other_count: int
    other_total: int
    every: int
    stop_ns: float


class ObservedPart(msgspec.Struct, frozen=True):
    """What one cause has of the observed change: the rank of its finding, ns, and its share, negative where it goes against the change; 0: of another phase."""

    finding: int
    delta_ns: float
    share: float


class Observed(msgspec.Struct, frozen=True):
    """The change that the first sentence is of, as measured: nothing is taken out of it, and nothing is left out for being unsure.

    of: typical (the middle half of the steps of `phase` by their length) | mean (all steps of the phase, where rare ones hold the change) | length
    (of captures of one step each) | gpu (their GPU time). ci_low_ns, ci_high_ns: what a repeat would show, in 95 of 100 cases. parts: the
    largest causes, until they hold 80 to 120 % of the change, three at most, none of less than 10 %.
    """

    phase: str
    of: Literal["typical", "mean", "length", "gpu"]
    baseline_ns: float
    candidate_ns: float
    delta_ns: float
    ci_low_ns: float
    ci_high_ns: float
    parts: list[ObservedPart] = []
    stops: Stops | None = None
    host_speed_ns: float = 0.0  # of the change, what hosts of unlike speed may explain; it is in delta_ns
    hosts: Literal["measured", "unknown", "one"] = "unknown"  # one: both sides ran in turns on one machine


NOTHING = Observed("", "length", 0.0, 0.0, 0.0, 0.0, 0.0)
