"""Step times: the headline, phases, single steps, steps of like workload."""

from __future__ import annotations

from typing import Literal

import msgspec

from tracediff.model.common import Pair


class Step(msgspec.Struct, frozen=True):
    """The headline: mean step time over the compared strata, weighted by the baseline's mix."""

    baseline_ns: float
    candidate_ns: float
    delta_ns: float
    ci_low_ns: float
    ci_high_ns: float
    p_value: float | None  # run-level; None with one run a side
    runs: Pair
    steps: Pair  # steps that entered the mean
    noise_floor_ns: float | None = None  # what the same program run again shows (A/A), or the assumed prior
    noise_source: str = "assumed"  # repeats | given | assumed
    min_detectable_ns: float | None = None  # a change of this size would show with this many runs
    power_note: str = ""


class PhaseSide(msgspec.Struct, frozen=True):
    """Step times of one phase on one side, all whole steps of all runs."""

    steps: int
    mean_ns: float
    p50_ns: float
    p90_ns: float
    p99_ns: float
    run_means_ns: list[float]  # one a run, for plots


class Phase(msgspec.Struct, frozen=True):
    """Tails and distribution of one phase."""

    phase: str
    baseline: PhaseSide | None
    candidate: PhaseSide | None
    delta_mean_ns: float | None
    delta_p50_ns: float | None
    delta_p99_ns: float | None


class StepSample(msgspec.Struct, frozen=True):
    """One whole step, for distributions. Bounded in number; `samples_left_out` of the result says how many more."""

    side: Literal["baseline", "candidate"]
    run: int
    rank: int
    phase: str
    number: int | None
    period_ns: int


class Stratum(msgspec.Struct, frozen=True):
    """Steps of like workload. `compared` says whether it entered the mean, `reason` why not."""

    phase: str
    ctx_reqs: str
    ctx_tokens: str
    gen_reqs: str
    level: Literal["exact", "bucket", "phase", "all"]
    baseline_steps: int
    candidate_steps: int
    baseline_ns: float | None
    candidate_ns: float | None
    delta_ns: float | None
    weight: float
    compared: bool
    reason: str = ""
    baseline_share: float | None = None  # its part of the time of all whole steps of the side, 0 to 1
    candidate_share: float | None = None


class Mix(msgspec.Struct, frozen=True):
    """Raw means over all whole steps, and the part of their difference that is a different mix of steps."""

    baseline_raw_ns: float
    candidate_raw_ns: float
    batch_mix_ns: float
    speed_ns: float
