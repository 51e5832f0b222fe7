"""The closed accounting of the time of a step."""

from __future__ import annotations

import msgspec

from tracediff.model.common import Evidence

# The closed accounting: these sum to the period of a step, in this order in every report.
CATEGORIES: tuple[str, ...] = (
    "compute", "comm", "memcpy", "launch_latency", "dependency", "graph_internal", "launch_api", "host_sync",
    "host_api", "gc", "gil_wait", "host_work", "unattributed",
)  # fmt: skip


class Accounting(msgspec.Struct, frozen=True):
    """Category -> ns a step. A category that was not captured is absent, never zero.

    `residual_ns` is the largest |period - sum of categories| over all periods of all runs: it is 0.
    `hidden_*` is host time of a cause that fell behind GPU work: free today, not once the GPU is faster.
    """

    baseline: dict[str, float]
    candidate: dict[str, float]
    delta: dict[str, float]
    residual_ns: int
    ci_low: dict[str, float] = {}
    ci_high: dict[str, float] = {}
    level: dict[str, Evidence] = {}
    hidden_baseline: dict[str, float] = {}
    hidden_candidate: dict[str, float] = {}
