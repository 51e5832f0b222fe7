"""Thresholds of the rules on counters, and what bounds a kernel. docs/ncu.md explains each with its source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

Bound = Literal["compute", "memory", "compute_and_memory", "latency"]
Values = Mapping[str, float]

# Nsight Compute's rule SOLBottleneck: below 60 % of both peaks a kernel waits (latency); 10 points apart is balanced.
LATENCY_PCT = 60.0
BALANCED_POINTS = 10.0
# Its rule AchievedOccupancy takes 10 points for a difference; so do we, for every percentage.
POINTS = 10.0
# Its rule CPIStall: a stall counts from 30 % of the cycles between two instructions.
STALL_SHARE = 0.3
# Ours: a change of duration below this may be another clock, cache or moment; ncu's own repeatability is of that size.
CLEAR_CHANGE = 0.03
# Ours: a quantity explains a change when it makes this part of it up, on a scale of logarithms.
EXPLAINS = 0.3
# Ours: a ratio that is worth saying.
RATIO = 1.2

LIMITS = {
    "registers": "limit_registers", "shared_mem": "limit_shared_mem", "warps": "limit_warps", "blocks": "limit_blocks",
    "barriers": "limit_barriers",
}  # fmt: skip


def bound(values: Values) -> Bound | None:
    """What a kernel is bound by, from its throughputs in % of the peak; None where they were not collected."""
    compute, memory = values.get("compute_pct"), values.get("memory_pct")
    if compute is None or memory is None:
        return None
    if max(compute, memory) < LATENCY_PCT:
        return "latency"
    if abs(compute - memory) < BALANCED_POINTS:
        return "compute_and_memory"
    return "compute" if compute > memory else "memory"


def limits(values: Values) -> list[str]:
    """What keeps occupancy down: `grid` (less than one wave), and what allows the fewest blocks on an SM.

    Empty where the hardware's most warps fit, or where nothing was collected.
    """
    found = []
    waves = values.get("waves_per_sm")
    if waves is not None and waves < 1:
        found.append("grid")
    theoretical = values.get("theoretical_occupancy_pct")
    if theoretical is None or theoretical >= 99.95:
        return found
    blocks = {name: values[key] for name, key in LIMITS.items() if key in values}
    least = min(blocks.values(), default=None)
    return found + [name for name, value in blocks.items() if value == least]
