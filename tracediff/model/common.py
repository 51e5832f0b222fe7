"""Small structs that several sections use."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, NamedTuple

import msgspec

# The default of a field that a result with one side (`show`) does not have: JSON and tables leave it out.
ABSENT: Any = msgspec.UNSET
SIDES: tuple[Literal["baseline"], Literal["candidate"]] = ("baseline", "candidate")

NO_STEPS = "steps-not-found"  # the slug of a warning: the whole capture was measured
CALLS_LOST = "cuda-calls-lost"  # the slug of a warning: of a while no CUDA call was recorded

Verdict = Literal[
    "improved",
    "regressed",
    "likely_improved",
    "likely_regressed",
    "no_change",
    "inconclusive",
    "not_comparable",
]

# How far a delta can be believed. `exact`: a counted quantity, no test needed. `confirmed`: run-level test and
# CI agree after correction. `likely`: beyond the noise known or assumed, too few runs to confirm.
# `within_noise`: not to be told from run-to-run noise.
Evidence = Literal["exact", "confirmed", "likely", "within_noise"]

Captured = Literal["captured", "not_captured"]

# What is a step of a capture without labels, where parts come in a cycle.
Repeats = Literal["cycle", "part"]

Outcome = Literal["passed", "failed", "inconclusive", "waived"]

Severity = Literal["error", "warning"]


class Tool(msgspec.Struct, frozen=True):
    """What made the result."""

    name: str
    version: str


class Note(msgspec.Struct, frozen=True):
    """A warning carried as data; its slug is explained in docs/messages.md."""

    slug: str
    message: str


class Figure(NamedTuple):
    """A figure that a gate limits, as a time: more is worse. Interval and level are None where the runs do not tell them."""

    name: str  # in words
    baseline_ns: float
    delta_ns: float
    low_ns: float | None
    high_ns: float | None
    level: Evidence | None


class Section(msgspec.Struct, frozen=True):
    """What a companion adds to a result. The core carries it; `renderer` names the module that writes it into a report."""

    renderer: ClassVar[str]

    def figure(self, measure: str) -> Figure | None:
        """What a measure of that name is here; None where it is nothing."""
        return None


class Pair(msgspec.Struct, frozen=True):
    """A count on both sides."""

    baseline: int
    candidate: int


def encode(report: msgspec.Struct) -> bytes:
    """A report as JSON, keys in the order of the structs: the same report gives the same bytes."""
    text = msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n"
    return text.replace(b"##", b"#\\u0023")  # the same text, and no command to a runner of CI that prints it


# Whether the sides can be compared, and which traces each holds.


class Said(msgspec.Struct, frozen=True, omit_defaults=True):
    """A sentence as data: the name of its pattern in report/grammar.txt, and what fills its slots."""

    pattern: str
    slots: dict[str, str] = {}


class Check(msgspec.Struct, frozen=True):
    """One comparability check with both values. `message` is '' until report/phrases.py writes it from `said`; None: nothing to say."""

    name: str
    status: Literal["ok", "warn", "fail"]
    baseline: str
    candidate: str
    message: str = ""
    said: Said | None = None


class Comparability(msgspec.Struct, frozen=True):
    """Whether the two sides can be compared at all; any `fail` says no unless forced."""

    comparable: bool
    checks: list[Check]


class Coverage(msgspec.Struct, frozen=True):
    """Which kinds of trace each side holds."""

    baseline: dict[str, Captured]
    candidate: dict[str, Captured] = ABSENT


# Step times: the headline, phases, single steps, steps of like workload.


class Change(msgspec.Struct, frozen=True):
    """A time on both sides, ns per step. delta_ns = candidate_ns - baseline_ns."""

    baseline_ns: float
    candidate_ns: float
    delta_ns: float


class Interval(Change, frozen=True):
    """The same with the 95 % interval of delta_ns."""

    ci_low_ns: float
    ci_high_ns: float


class Delta(Interval, frozen=True):
    """What is known of a change. delta_ns = candidate_ns - baseline_ns, as measured; the interval says what a repeat would show.

    host_speed_ns: the part of it that a slower or faster host may explain, as short CUDA calls tell it; the interval holds the change with and without it. noise_floor_ns: identical runs differ by
    up to this much, in 95 of 100 cases. detectable_ns: the smallest change that these runs show in 80 of 100 cases.
    """

    host_speed_ns: float = 0.0
    p_value: float | None = None
    noise_floor_ns: float | None = None
    detectable_ns: float | None = None


class Shares(msgspec.Struct, frozen=True):
    """A part of something on both sides, 0 to 1."""

    baseline: float
    candidate: float


class OddRun(msgspec.Struct, frozen=True):
    """A run whose typical step lies far from the others of its side; `host_speed`: of its CUDA calls to the other runs', 1: alike."""

    side: Literal["baseline", "candidate"]
    run: str
    delta_ns: float  # to the median of the other runs of its side
    cause: str  # the category in which it differs most
    cause_ns: float
    host_speed: float | None = None
    left_out: bool = False


class Step(Interval, frozen=True):
    """The mean step over all compared steps, phases weighted by the mean of both sides' mixes. Fields as those of `Delta`."""

    p_value: float | None  # run-level; None with one run a side
    runs: Pair
    steps: Pair  # steps that entered the mean
    noise_floor_ns: float | None = None  # what the same program run again shows (A/A), or the assumed prior
    noise_source: str = "assumed"  # repeats | given | assumed
    min_detectable_ns: float | None = None  # a change of this size would show with this many runs
    power_note: str = ""  # min_detectable_ns and runs_advised in words
    runs_advised: int | None = None  # runs a side to record, where these are too few to show a change of 2 %
    host_speed_ns: float = 0.0
    time_share: Shares = Shares(1.0, 1.0)  # of the time of all whole steps, that the compared ones have


class PhaseSide(msgspec.Struct, frozen=True):
    """Step times of one phase on one side, all whole steps of all runs."""

    steps: int
    mean_ns: float
    p50_ns: float
    p90_ns: float
    p99_ns: float
    run_means_ns: list[float]  # one a run, for plots


class PhaseTimes(msgspec.Struct, frozen=True):
    """One phase: step times of all its whole steps."""

    phase: str
    baseline: PhaseSide | None
    candidate: PhaseSide | None = ABSENT
    delta_mean_ns: float | None = ABSENT
    delta_p50_ns: float | None = ABSENT
    delta_p99_ns: float | None = ABSENT


class Accounting(msgspec.Struct, frozen=True):
    """Category -> ns per step. A category that was not captured is absent, never zero. delta = candidate - baseline; host_speed: of it, what hosts may explain.

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
    host_speed: dict[str, float] = {}


class Phase(PhaseTimes, frozen=True):
    """One phase: its distribution, its verdict, and what changed in its typical step, its rare steps (tail) and its start.

    Typical and tail add up to the mean of all steps but the start; typical_ns of the whole is weighted by share, see `Result.step`.
    verdict: of the typical step, of the mean where rare steps hold the change (verdict_of); None where the phase was not compared. workload: what makes steps alike: ops, requests, tokens,
    copies, none. repeated: the typical steps had been launched before; false where there are too few such steps.
    judged: enough steps to say anything. host_speed: time of a CUDA call on the candidate to that on the baseline.
    """

    verdict: Verdict | None = None
    verdict_of: Literal["typical", "mean"] = "typical"
    typical: Delta | None = None
    mean: Delta | None = None
    tail: Delta | None = None
    start: Change | None = None
    share: float = 0.0  # of the compared steps
    start_share: float = 0.0  # of the phase's steps
    time_share: Shares | None = None  # of the time of all whole steps
    runs: Pair | None = None
    steps: Pair | None = None  # that are compared
    workload: str = ""
    repeated: bool = True
    judged: bool = False
    host_speed: float | None = None
    odd_runs: list[OddRun] = []
    accounting: Accounting | None = None  # of the typical step
    mean_accounting: Accounting | None = None  # of its mean


class StepSample(msgspec.Struct, frozen=True):
    """One whole step, for distributions. Bounded in number; `samples_left_out` of the result says how many more."""

    side: Literal["baseline", "candidate"]
    run: int
    rank: int
    phase: str
    number: int | None
    period_ns: int


class Stratum(msgspec.Struct, frozen=True, kw_only=True):
    """Steps of like workload. `compared`: in the mean; `reason` why not: irregular | baseline_only | candidate_only | other_ops | none_typical | first_use."""

    phase: str
    ctx_reqs: str
    ctx_tokens: str
    gen_reqs: str
    level: Literal["exact", "bucket"]
    baseline_steps: int
    candidate_steps: int = ABSENT
    baseline_ns: float | None
    candidate_ns: float | None = ABSENT
    delta_ns: float | None = ABSENT
    weight: float
    compared: bool
    reason: str = ""
    baseline_share: float | None = None  # its part of the time of all whole steps of the side, 0 to 1
    candidate_share: float | None = ABSENT


class Mix(msgspec.Struct, frozen=True):
    """Raw means over all whole steps of the runs that count, but for those that begin a run, and what their difference is made of.

    speed_ns: of the compared steps, at equal workload. batch_mix_ns: the compared steps are of other workloads on each side.
    first_uses_ns: first uses of kernels occur more or less often; in the other means both sides have them equally often. starts: so
    many steps that are compared have some.
    not_compared_ns: the steps that were not compared move the means; the same workload may have become slower in them, so that no
    part of it is called a mix.
    begins: one or two long steps a run that it begins with, which are in no mean; begin: their own means, 0 of none.
    """

    baseline_raw_ns: float
    candidate_raw_ns: float
    batch_mix_ns: float
    speed_ns: float
    not_compared_ns: float = 0.0
    first_uses_ns: float = 0.0
    starts: Pair | None = None
    begins: Pair | None = None
    begin: Change | None = None


# What somebody who knows these programs would add to the causes: facts, from which report/phrases.py writes sentences.


class Insight(msgspec.Struct, frozen=True, omit_defaults=True):
    """One remark; `kind` says which fields hold something. Times in ns.

    hidden_host      time of the launching thread by `cause` (launch_api: inside the calls, most in `api`; host_work), per step, and
                     the part of it for which the GPU was idle, on both sides
    slower_clock     `count` kernels, `share` of the compute time, take a part of low to high longer (less: shorter)
    falls_behind     `thread` launches nothing and is busy for nearly all of a step on the candidate alone (ns per step, most of the change
                     in `range`)
    off_path         it works longer or shorter than before, and is done before the next step
    late_rank        `rank` comes last in `share` of the steps of the candidate, in other_share of the baseline's
    """

    kind: Literal["hidden_host", "slower_clock", "late_rank", "falls_behind", "off_path"]
    cause: str = ""
    api: str = ""
    thread: str = ""
    range: str = ""
    rank: int = -1
    count: int = 0
    baseline_ns: float = 0.0
    candidate_ns: float = 0.0
    baseline_exposed_ns: float = 0.0
    candidate_exposed_ns: float = 0.0
    low: float = 0.0
    high: float = 0.0
    share: float = 0.0
    other_share: float = 0.0
