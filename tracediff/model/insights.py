"""What somebody who knows these programs would add to the causes: facts, from which report/insight_words.py writes sentences."""

from __future__ import annotations

from typing import Literal

import msgspec


class Insight(msgspec.Struct, frozen=True, omit_defaults=True):
    """One remark; `kind` says which fields hold something. Times in ns.

    switch_interval  waits for the GIL of `side` last one CPython switch interval or several: `count` of `total`, low_ns to high_ns
    holder_lets_go   they last equally long, less than a switch interval: `count` of `total`, low_ns to high_ns
    rare_stops       `count` of the `total` steps of `phase` on `side` stop for low_ns to high_ns by `cause`, `other_count` of
                     `other_total` on the other side; at each `period`-th step, 0: at none
    few_steps_hide   the mean of all steps of `phase` changed by mean_ns, the typical step by typical_ns; `count` steps of `side`,
                     low_ns to high_ns long, make the difference; start_up: each is the start of a capture
    hidden_host      time of the launching thread by `cause` (launch_api: inside the calls, most in `api`; host_work), per step, and
                     the part of it for which the GPU was idle, on both sides
    slower_clock     `count` kernels, `share` of the compute time, take a part of low to high longer (less: shorter)
    late_rank        `rank` comes last in `share` of the steps of the candidate, in other_share of the baseline's
    """

    kind: Literal[
        "switch_interval",
        "holder_lets_go",
        "rare_stops",
        "few_steps_hide",
        "hidden_host",
        "slower_clock",
        "late_rank",
    ]
    cause: str = ""
    side: Literal["baseline", "candidate"] = "candidate"
    phase: str = ""
    api: str = ""
    rank: int = -1
    count: int = 0
    total: int = 0
    other_count: int = 0
    other_total: int = 0
    low_ns: float = 0.0
    high_ns: float = 0.0
    period: int = 0
    mean_ns: float = 0.0
    typical_ns: float = 0.0
    start_up: bool = False
    baseline_ns: float = 0.0
    candidate_ns: float = 0.0
    baseline_exposed_ns: float = 0.0
    candidate_exposed_ns: float = 0.0
    low: float = 0.0
    high: float = 0.0
    share: float = 0.0
    other_share: float = 0.0
