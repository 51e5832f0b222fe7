"""The result of a comparison of steps: all its sections in one object.

FORMAT_VERSION history
    1  first published form; `gates`, `ncu`, `trtexec`, `latencies`, `system` were added without a new version
    2  deltas at equal host speed; a verdict per phase; findings of phases, with parts; the mix of both sides
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from tracediff.model.causes import Cause
from tracediff.model.common import (
    ABSENT,
    Accounting,
    Comparability,
    Coverage,
    Evidence,
    HostTime,
    Insight,
    Mix,
    Note,
    Outcome,
    Phase,
    Section,
    Severity,
    Shares,
    Step,
    StepSample,
    Stratum,
    Tool,
    Verdict,
)
from tracediff.model.layers import Layers
from tracediff.model.limits import Limits
from tracediff.model.pictures import CauseNode, Divergence, StepStrip

# What was compared: the files of both sides, and the options that change numbers.


class RunInput(msgspec.Struct, frozen=True):
    """One capture of a side. `name` is the file's base name: no directory of the machine enters a result."""

    name: str
    fingerprint: str  # of the file's content, see formats/unpack.py
    bytes: int
    duration_ns: int
    ranks: int
    steps: int  # whole steps, before strata
    step_source: (
        str  # tensorrt-llm | vllm | ... | step-regex:... | inferred (confidence 0.93) | whole-capture
    )


class LeftOut(msgspec.Struct, frozen=True):
    """An export of a side that was left out: it could not be read, and the comparison was to go on without it."""

    name: str
    slug: str  # docs/messages.md
    message: str


class SideInput(msgspec.Struct, frozen=True):
    """One side: its label and its runs."""

    label: str
    runs: list[RunInput]
    left_out: list[LeftOut] = []


class Inputs(msgspec.Struct, frozen=True):
    """Both sides' inputs and the options that change numbers."""

    baseline: SideInput
    candidate: SideInput
    options: dict[str, Any] = {}


# The closed accounting of the time of a step.


# Ranked causes of the change, each with its place and its evidence.


class Moment(msgspec.Struct, frozen=True):
    """A place to jump to in nsys: trace time in ns of the named run.

    kind: longest (of the cause, where the step's events were not kept) | typical (half of the cause's time in its step lies in longer
    pieces) | rare (the same in a rare step) | beside (where the other side's moment would be: the cause is not there).
    """

    side: Literal["baseline", "candidate"]
    run: str
    start_ns: int
    end_ns: int
    what: str = ""
    step: int | None = None  # its number, where the steps have one
    kind: Literal["longest", "typical", "rare", "beside"] = "longest"
    rank: int | None = None
    step_start_ns: int | None = None
    step_end_ns: int | None = None
    cause_ns: int | None = None  # of the cause in that step
    sql: str = ""  # the cause's events in that step: SQLite on the export itself
    query: str = ""  # the same for `tracediff query`


class TimelineLane(msgspec.Struct, frozen=True, omit_defaults=True):
    """Events of one row of a step, in order of start. Columns are integers in a string, apart by spaces.

    kind: gpu (a stream's work), idle (the GPU's idle time), api (outermost CUDA calls of the launching thread),
    range (its NVTX ranges, a lane a level), gil (its holds and waits), holders (other threads that held the GIL), gc.
    """

    kind: str
    name: str
    start: str  # ns from the start of the step
    length: str  # ns, clipped to the step
    what: str  # index into Timelines.names: a kernel, a place, a call, a range
    group: str  # index into Timelines.names: a category of GPU work, a cause of idle time, a kind of call
    row: str = ""  # of gpu: index into Result.kernels, -1 none
    count: str = ""  # events merged into one, where any were
    inside: str = ""  # ns that they really cover, where any were merged


class CropSide(msgspec.Struct, frozen=True):
    """A part of one side's step. Events of the lanes start at the crop's start, and so do `starts` of what is the cause, ns."""

    run: str
    rank: int
    number: int | None
    start_ns: int  # trace time of the named run
    step_start_ns: int
    step_end_ns: int
    lanes: list[TimelineLane]
    starts: list[int]
    lengths: list[int]


class Crop(msgspec.Struct, frozen=True):
    """A part of a step of both sides that shows a cause, of one length and aligned `anchor_ns` after its start.

    anchor: the op there, an index into Timelines.names: its start, or its end (`at_end`), is aligned; -1: the start of the step.
    """

    length_ns: int
    anchor_ns: int
    anchor: int
    at_end: bool
    baseline: CropSide | None
    candidate: CropSide | None


class FindingEvidence(msgspec.Struct, frozen=True):
    """What shows the finding: SQL to run on the export itself, and the moments to look at."""

    sql: str
    moments: list[Moment]
    runs_baseline_ns: list[float] = []  # the cell's mean in each run
    runs_candidate_ns: list[float] = []
    count_baseline: float | None = None  # events per step, where counting them means something
    count_candidate: float | None = None
    crop: Crop | None = None  # of the first causes, where steps were kept event by event


class Where(msgspec.Struct, frozen=True):
    """The place of a finding; empty fields do not apply."""

    range: str | None = None
    kernel: str | None = None
    thread: str | None = None
    holder_thread: str | None = None
    holder_range: str | None = None
    api: str | None = None
    phase: str | None = None
    rank: int | None = None
    os_call: str | None = None  # the OS call in which most of the change lies
    layer: str | None = None  # the layer or kind of layer that has most of the time of the kernels


class PhaseShare(msgspec.Struct, frozen=True):
    """Share of a phase in all whole steps of each side, 0 to 1."""

    phase: str
    baseline: float
    candidate: float


class OsCallFact(msgspec.Struct, frozen=True):
    """Part of the idle time of a finding that lies in an OS call; '': on no CPU and in no recorded call. ns per step."""

    call: str
    baseline_ns: float
    candidate_ns: float


class AllocationFact(msgspec.Struct, frozen=True):
    """Allocations per step of one kind of CUDA memory."""

    kind: str
    baseline: MemorySide
    candidate: MemorySide


class WaitFact(msgspec.Struct, frozen=True):
    """Waiting in collectives: `rank` waits longest for the rank of the finding; changes in ns per step."""

    rank: int
    delta_wait_ns: float
    delta_transfer_ns: float


class Held(msgspec.Struct, frozen=True):
    """In how many runs of each side a change holds: those on its side of the middle between both sides. `odd`: the others."""

    baseline: int
    candidate: int
    odd: list[str] = []


class RareFact(msgspec.Struct, frozen=True):
    """Rare steps: how many of a side's steps of the phase have the cause at all, per run, and what the typical step changed by."""

    baseline_steps: float
    candidate_steps: float
    baseline_of: float
    candidate_of: float
    typical_delta_ns: float


class PhaseDelta(msgspec.Struct, frozen=True):
    """The same cause in another phase."""

    phase: str
    part: Literal["typical", "tail"]
    delta_ns: float
    ci_low_ns: float
    ci_high_ns: float
    level: Evidence


class FindingPart(msgspec.Struct, frozen=True):
    """What belongs to a cause: one of the rows that it sums, or what follows from those (`follows`)."""

    cause: str
    where: Where
    delta_ns: float
    ci_low_ns: float
    ci_high_ns: float
    level: Evidence
    follows: bool = False
    match: str = ""  # of kernels
    count_baseline: float | None = None
    count_candidate: float | None = None
    of: dict[
        str, float
    ] = {}  # where kernels of several names are one row: what each name gains, ns; sums to delta_ns


class FindingFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """What title, note and advice are written from, beside cause, place and numbers; only what applies is there."""

    host_only: bool = False  # no kernels were captured: the time is the host's, not idle time of a GPU
    copies: bool = False  # launch calls that copy
    match: str = ""  # how the kernels of both sides were matched
    confidence: float = 0.0
    baseline_mean_ns: float = 0.0  # wall time of one op
    candidate_mean_ns: float = 0.0
    hidden_ns: float | None = None  # change of copies' time that is hidden behind kernels
    baseline_without_gc: bool = False  # the side shows no collection
    candidate_without_gc: bool = False
    delta_all_ranks_ns: float | None = None  # mean over all ranks, where one rank alone changed
    counted_calls: bool = False  # the counts are of synchronising calls
    late_rank: WaitFact | None = None  # the finding's rank comes last
    shares: list[PhaseShare] = []  # phases whose share of the steps changed
    rare: RareFact | None = None
    allocations: list[AllocationFact] = []
    os_calls: list[OsCallFact] = []
    graph_coverage: Shares | None = None  # of kernels that CUDA graphs launch, where that is what changed
    other_stream: float | None = (
        None  # share of the waiting time, 0 to 1, in which the op before was of another stream
    )


class Projected(msgspec.Struct, frozen=True):
    """The candidate's step as it was replayed, and what it would take with causes (their ranks) at the baseline's level, ns; the range is that of what-if."""

    step_ns: float
    without_ns: float
    low_ns: float
    high_ns: float
    causes: list[int] = []


class Finding(msgspec.Struct, frozen=True):
    """One cause at one place in one phase (`where.phase`), and what it explains of that phase's change, ns per step of the phase.

    part: in the typical step, or in what rare steps add to the mean. share: of the phase's change. `parts`, where there are some, sum
    to delta_ns. `title`, `next` and `note` are '' until report/phrases.py writes them from `facts`.
    """

    rank: int
    cause: Cause
    delta_ns: float
    ci_low_ns: float
    ci_high_ns: float
    share: float | None  # of the change of its phase; None where that may be 0
    title: str
    where: Where
    evidence: FindingEvidence
    next: str
    level: Evidence
    baseline_ns: float
    candidate_ns: float
    p_value: float | None = None
    q_value: float | None = None  # Benjamini-Hochberg over all causes and phases
    note: str = ""
    facts: FindingFacts = FindingFacts()
    part: Literal["typical", "tail"] = "typical"
    held: Held | None = None
    parts: list[FindingPart] = []
    phases: list[PhaseDelta] = []  # the same cause elsewhere
    host_speed_ns: float = 0.0
    without: Projected | None = None  # with --what-if, of the first three causes that made a step longer
    without_first: Projected | None = None  # of the first that can be undone: without all of them


class Load(msgspec.Struct, frozen=True):
    """Generation requests and context tokens per typical step of a phase."""

    baseline: float
    candidate: float


class VerdictFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the verdict rests on, from which the sentences are written.

    basis: checks (not comparable) | identical | phase (the typical step of `phase`) | part (sure causes carry it, see `carried_ns`) |
    rare (rare steps of `phase`) | gpu (the GPU time of captures of one step each, see `carried_ns`) | same | scatter. moved: a sure change whose time may only have moved between causes.
    host: the sides differ by more than noise only as long as the speed of their hosts is not taken out. load: the sides ran other
    batches, which may be all that changed in `phase`. same_work: each run is one step, and most kernels were launched exactly as often
    in all of them.
    """

    basis: Literal["checks", "identical", "phase", "part", "rare", "gpu", "same", "scatter"] = "checks"
    phase: str = ""
    carried_ns: float | None = None
    graph_coverage: bool = False  # changed, and no findings come of it
    moved: bool = False
    host: bool = False
    load: Load | None = None
    same_work: bool = False


class Headline(msgspec.Struct, frozen=True):
    """The first sentence and what it is about; the same in every report."""

    text: str
    cause: str  # '' without one
    delta_ns: float  # of the phase that the verdict is of
    level: Evidence
    phase: str


# Idle gaps of the GPU.


class GapSide(msgspec.Struct, frozen=True):
    """One side of an idle-gap row. A gap with several causes counts once in each, with that cause's part."""

    count_per_step: float
    ns_per_step: float
    mean_ns: float
    p50_ns: float
    p99_ns: float


class GapRow(msgspec.Struct, frozen=True):
    """Idle time by cause, launching thread, innermost range and the kernels around the gap."""

    cause: str
    thread: str
    range: str
    previous: str
    next: str
    baseline: GapSide | None
    candidate: GapSide | None = ABSENT
    delta_ns: float = ABSENT


class WorstGap(msgspec.Struct, frozen=True):
    """One of the longest single gaps."""

    side: Literal["baseline", "candidate"]
    run: str
    start_ns: int
    duration_ns: int
    cause: str  # the largest part
    range: str
    thread: str
    previous: str
    next: str
    phase: str


# Idle time by place, for what is asked of one place.


class PlaceRow(msgspec.Struct, frozen=True):
    """Idle time of one cause at one place, ns per step. phase: its typical step; '' the mean over all compared steps.

    range: the place, '' of a wait for the GIL or a collection, which strike anywhere: a wait belongs to the holder and its range. calls: the CUDA
    functions of the longest pieces.
    """

    phase: str
    cause: str
    thread: str
    range: str
    holder: str
    holder_range: str
    calls: list[str]
    baseline_ns: float
    candidate_ns: float
    delta_ns: float
    ci_low_ns: float
    ci_high_ns: float
    level: Evidence


# Gates and what became of them.


class GateOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a gate. Numbers are ns per step, or a count per step where `unit` is count; None: not measured."""

    text: str  # as it was given: METRIC:+LIMIT
    metric: str
    severity: Severity = "error"  # a warning never changes the exit status
    outcome: Outcome
    message: str
    unit: Literal["ns", "count"] = "ns"
    limit: float | None = None  # the growth allowed; of a limit in percent, that part of the baseline
    baseline: float | None = None
    delta: float | None = None
    ci_low: float | None = (
        None  # of delta; None where it is counted, or a sum or quantile without an interval
    )
    ci_high: float | None = None
    waiver: GateWaiver | None = None  # the one that took the failure


class GateWaiver(msgspec.Struct, frozen=True):
    """A failure accepted for a time."""

    reason: str
    expires: str  # the last day (UTC) on which it holds, YYYY-MM-DD


class Gates(msgspec.Struct, frozen=True):
    """All gates, as they were judged."""

    outcomes: list[GateOutcome]
    notes: list[str] = []  # on waivers of the policy
    policy: str = ""  # base name of the policy's file; empty where there is none
    pass_inconclusive: bool = False


# Host threads: their roles, their NVTX ranges, the response path.


class RangeSide(msgspec.Struct, frozen=True):
    """One side of a range row."""

    count_per_step: float
    ns_per_step: float
    mean_ns: float


class RangeRow(msgspec.Struct, frozen=True):
    """An NVTX range (numbers masked) on a thread role: host wall time, inclusive of children."""

    range: str
    domain: str
    thread: str
    baseline: RangeSide | None
    candidate: RangeSide | None = ABSENT
    delta_ns: float = ABSENT


class ThreadRow(msgspec.Struct, frozen=True, kw_only=True):
    """A thread role on both sides, why it has that role, and how alike the two are (0 to 1)."""

    role: str
    process: str
    score: float | None = ABSENT
    baseline_ranges: list[str]
    candidate_ranges: list[str] = ABSENT
    baseline_range_ns: float | None  # top-level range time per step
    candidate_range_ns: float | None = ABSENT
    delta_ns: float | None = ABSENT


class ResponseStage(msgspec.Struct, frozen=True, kw_only=True):
    """One stage of the response path (executor -> ... -> respond), host time per step."""

    stage: str
    thread: str
    range: str
    baseline_ns: float | None
    candidate_ns: float | None = ABSENT
    delta_ns: float | None = ABSENT
    keeps_up_baseline: bool | None  # stage time <= step time
    keeps_up_candidate: bool | None = ABSENT


# Kernels of both sides, matched to each other.


class KernelSide(msgspec.Struct, frozen=True):
    """One side of a kernel row. `ns_per_step` is its share of the compute (or comm) time: rows sum to the total."""

    names: list[str]
    count_per_step: float
    ns_per_step: float
    mean_ns: float  # wall time of one op, overlaps not shared out
    grids: list[str] = []
    blocks: list[str] = []
    registers: int | None = None
    shared_bytes: int | None = None
    launches: int = 0  # in the compared steps of all runs
    sd_ns: float | None = None  # of the wall time of one op among them; None of fewer than two
    ns_of: list[float] = []  # what of ns_per_step each of several names has


class LaunchChange(msgspec.Struct, frozen=True):
    """One launch of a kernel on both sides, ns: means of every run's launches, where steps are too few to say anything."""

    baseline_ns: float
    candidate_ns: float
    delta_ns: float
    ci_low_ns: float
    ci_high_ns: float
    p_value: float
    q_value: float
    level: Evidence


class KernelStratum(msgspec.Struct, frozen=True):
    """A kernel row in one stratum: ops and ns of the accounting a step of it; 0 where a side has none."""

    stratum: int  # index into Result.strata
    baseline_count: float
    baseline_ns: float
    candidate_count: float = ABSENT
    candidate_ns: float = ABSENT


class KernelTypical(msgspec.Struct, frozen=True):
    """A kernel row in the typical step of a phase, ns of the accounting. counted: its launches differ in every compared step."""

    phase: str
    baseline_ns: float
    candidate_ns: float
    delta_ns: float
    ci_low_ns: float
    ci_high_ns: float
    level: Evidence
    baseline_count: float = 0.0
    candidate_count: float = 0.0
    q_value: float | None = None  # None: not tested
    counted: bool = False


class KernelRow(msgspec.Struct, frozen=True, kw_only=True):
    """Kernels of both sides matched to each other, in the mean of all compared steps; every op is in exactly one row."""

    match: Literal["exact", "name", "template", "sequence", "fused", "split", "added", "removed"] = ABSENT
    confidence: float = ABSENT
    category: str  # gemm, attention, norm, ..., communication
    family: str  # cutlass, nvjet, cudnn, nccl, pytorch, ...
    baseline: KernelSide | None
    candidate: KernelSide | None = ABSENT
    delta_ns: float = ABSENT
    ci_low_ns: float = ABSENT
    ci_high_ns: float = ABSENT
    level: Evidence = ABSENT
    q_value: float | None = None
    range: str | None = None
    block: int = -1  # rows of one changed block between kernels that stayed the same
    strata: list[KernelStratum] = []  # those with the most of its time, where steps are of several workloads
    per_launch: LaunchChange | None = None  # where no phase is judged, and each run has some launches
    phases: list[KernelTypical] = []  # those in which it has 0.1 % of the typical step, or is counted
    layers: list[str] = []  # the kinds of layer with the most of its time, where layers are known


# Kernels that were asked for by name.


class KernelPhase(msgspec.Struct, frozen=True):
    """The kernels of an answer in the typical step of a phase: launches, and ns of the accounting."""

    phase: str
    baseline_count: float
    candidate_count: float
    baseline_ns: float
    candidate_ns: float
    delta_ns: float
    ci_low_ns: float
    ci_high_ns: float
    level: Evidence  # the surest of its rows


class LaunchOrigin(msgspec.Struct, frozen=True):
    """Who launches the kernels of an answer: shares of their launches in all whole steps of a side, 0 to 1; '' not recorded."""

    thread: str
    range: str
    api: str
    baseline_share: float
    candidate_share: float


class KernelAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known of the kernels of a name, in a mean step. hidden: their time behind GPU work of another kind or each other."""

    asked: str
    text: str  # the sentence
    rows: list[int]  # of Result.kernels: a row per launch shape, the largest change first
    partly: list[
        int
    ] = []  # those in which kernels of other names are too: of these rows only the kernels of the name are counted
    baseline_count: float
    candidate_count: float
    baseline_ns: float  # of the accounting: exposed
    candidate_ns: float
    delta_ns: float
    baseline_mean_ns: float  # wall time of one launch
    candidate_mean_ns: float
    baseline_hidden_ns: float
    candidate_hidden_ns: float
    level: Evidence  # the surest of the rows
    phases: list[KernelPhase]
    origins: list[LaunchOrigin]  # the most launches first


# Launch overhead and CUDA graphs.


class LaunchSide(msgspec.Struct, frozen=True):
    """Launch overhead of one side."""

    calls_per_step: float  # launching API calls
    graph_launches_per_step: float
    kernels_per_step: float
    graph_coverage: float  # share of kernels that came from a graph launch, 0 to 1
    api_ns_per_step: float  # host time inside launching calls
    exposed_ns_per_step: float  # launch_api + launch_latency of the accounting
    queue_delay_mean_ns: float  # API return -> op start; negative where the op began first
    queue_delay_p50_ns: float
    queue_delay_p99_ns: float


class ApiRow(msgspec.Struct, frozen=True, kw_only=True):
    """Calls of one CUDA API function per step."""

    api: str
    kind: str  # launch | sync | other
    baseline_calls: float
    candidate_calls: float = ABSENT
    baseline_ns: float
    candidate_ns: float = ABSENT
    delta_ns: float = ABSENT


class TransitionRow(msgspec.Struct, frozen=True):
    """Kernels that were launched one by one on one side and by a graph on the other."""

    kernel: str
    eager_per_step_baseline: float
    graph_per_step_baseline: float
    eager_per_step_candidate: float
    graph_per_step_candidate: float


class LaunchCounts(msgspec.Struct, frozen=True):
    """What a step launches, of each kind how many; calls by the step in which they began."""

    kernels: float
    calls: float  # launching calls, those of graphs among them
    graph_launches: float
    syncs: float  # synchronising calls


class LaunchTypical(msgspec.Struct, frozen=True):
    """Launches in the typical step of a phase."""

    phase: str
    baseline: LaunchCounts
    candidate: LaunchCounts
    apis: list[ApiRow]


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """Launch overhead of both sides, by API, and what moved between eager and graph; in the mean of all compared steps."""

    baseline: LaunchSide
    candidate: LaunchSide = ABSENT
    apis: list[ApiRow]
    transitions: list[TransitionRow] = ABSENT
    phases: list[LaunchTypical] = []


class Graphs(msgspec.Struct, frozen=True, kw_only=True):
    """CUDA graph use of both sides."""

    mode_baseline: str  # node | graph | none | unknown
    mode_candidate: str = ABSENT
    launches_per_step_baseline: float
    launches_per_step_candidate: float = ABSENT
    nodes_per_launch_baseline: float | None
    nodes_per_launch_candidate: float | None = ABSENT


# What Python's interpreter did: the GIL and garbage collections.


class GilRow(msgspec.Struct, frozen=True):
    """GIL time of a thread role. `exposed` is the part that kept a GPU idle; `hidden` the rest of the wait."""

    thread: str
    phase: str
    baseline_hold_ns: float | None
    baseline_wait_ns: float | None
    baseline_exposed_ns: float | None
    candidate_hold_ns: float | None = ABSENT
    candidate_wait_ns: float | None = ABSENT
    candidate_exposed_ns: float | None = ABSENT


class GilPairRow(msgspec.Struct, frozen=True):
    """Who waited for the GIL while whom held it; ns per step."""

    waiter: str
    holder: str
    holder_range: str
    baseline_ns: float | None
    candidate_ns: float | None = ABSENT


class Gil(msgspec.Struct, frozen=True):
    """GIL tables; empty where not captured (see coverage)."""

    rows: list[GilRow]
    matrix: list[GilPairRow]


class GcRow(msgspec.Struct, frozen=True):
    """Garbage-collection pauses of a thread role and generation ('?' where the range does not say)."""

    thread: str
    generation: str
    baseline_count: float | None
    baseline_ns: float | None
    baseline_exposed_ns: float | None
    candidate_count: float | None = ABSENT
    candidate_ns: float | None = ABSENT
    candidate_exposed_ns: float | None = ABSENT


class Gc(msgspec.Struct, frozen=True):
    """GC table; empty where no `Python GC` range was recorded (see coverage)."""

    rows: list[GcRow]


# Ranks: how far they are apart, and who waits for whom.


class RankRow(msgspec.Struct, frozen=True):
    """One rank (process with a GPU)."""

    rank: int
    device: int
    baseline_ns: float | None
    candidate_ns: float | None = ABSENT
    delta_ns: float | None = ABSENT
    baseline_comm_wait_ns: float | None = None  # NCCL time spent waiting for the last rank to arrive
    candidate_comm_wait_ns: float | None = ABSENT
    baseline_comm_transfer_ns: float | None = None
    candidate_comm_transfer_ns: float | None = ABSENT
    baseline_caused_wait_ns: float | None = (
        None  # what the other ranks waited, in sum, while this one was the last
    )
    candidate_caused_wait_ns: float | None = ABSENT
    baseline_own_ns: float | None = None  # the step less exposed communication: what the rank itself took
    candidate_own_ns: float | None = ABSENT
    delta_own_ns: float | None = ABSENT
    baseline_last: float | None = (
        None  # share of the steps of all ranks in which its own time was the longest
    )
    candidate_last: float | None = ABSENT
    baseline_behind_ns: float | None = None  # in those, by how much it was longer than the median rank's
    candidate_behind_ns: float | None = ABSENT
    outlier: float | None = (
        None  # how far delta_own_ns is from the median rank's, in robust standard deviations
    )


class RankSkew(msgspec.Struct, frozen=True):
    """How far the ranks of a side are apart, by their own time of the steps that they share."""

    side: Literal["baseline", "candidate"]
    ranks: int
    steps: int
    late_ns: float  # the last rank after the median one, mean of the steps
    slowest: int | None  # the rank that was last most often; None where all are alike
    slowest_share: float  # in which part of the steps


class KernelRanks(msgspec.Struct, frozen=True):
    """A kernel that takes longer on one rank than on the others; ns per step."""

    side: Literal["baseline", "candidate"]
    names: list[str]
    kind: str  # compute | comm | memcpy
    mean_ns: float  # over all ranks
    most_ns: float
    most_on: int  # the rank
    imbalance: float  # most / mean, 1: alike


# What the system did where it was recorded: OS calls, communication, context switches, memory, GPU metrics.


class OsCallRow(msgspec.Struct, frozen=True):
    """Outermost calls of one OS function on a thread role per step, whether the GPU was idle or not."""

    call: str
    thread: str
    baseline_count: float | None
    baseline_ns: float | None
    candidate_count: float | None = ABSENT
    candidate_ns: float | None = ABSENT


class CommCallRow(msgspec.Struct, frozen=True):
    """Outermost calls of a thread role into a library of communication, host time per step, the GPU idle or not."""

    library: Literal["MPI", "NCCL"]
    call: str
    thread: str
    baseline_count: float | None  # None: not captured
    baseline_ns: float | None
    candidate_count: float | None = ABSENT
    candidate_ns: float | None = ABSENT
    baseline_bytes: float | None = None  # as the capture counts them; None where it does not hold them
    candidate_bytes: float | None = ABSENT
    baseline_bytes_per_call: float | None = None  # mean of the calls whose bytes are known
    candidate_bytes_per_call: float | None = ABSENT


class PayloadSide(msgspec.Struct, frozen=True):
    """Numbers that a range carried in the compared steps of a side, in the program's own unit."""

    count_per_step: float
    sum_per_step: float
    mean: float
    min: float
    max: float


class PayloadRow(msgspec.Struct, frozen=True):
    """Numeric NVTX payloads of a range of a thread role; None: no such payload there, which is not zero."""

    range: str
    domain: str
    thread: str
    baseline: PayloadSide | None
    candidate: PayloadSide | None = ABSENT
    delta_mean: float | None = ABSENT


class OffCpuRow(msgspec.Struct, frozen=True):
    """How often and how long a thread role was on no CPU per step, whether the GPU was idle or not."""

    thread: str
    baseline_count: float | None
    baseline_ns: float | None
    candidate_count: float | None = ABSENT
    candidate_ns: float | None = ABSENT


class HostWorkRow(msgspec.Struct, frozen=True):
    """A part of the host work of a place: idle time of the GPU by what the launching thread's system recorded.

    mpi_call: inside the named call into MPI, with the OS calls that it makes. os_call: inside the named call and in none
    of MPI. off_cpu: in no recorded call and on no CPU. rest: neither. The rows of a place add up to its host work on a
    side that recorded any of it; None: not recorded on that side.
    """

    thread: str
    range: str
    kind: Literal["mpi_call", "os_call", "off_cpu", "rest"]
    call: str  # of mpi_call, os_call
    baseline_ns: float | None
    candidate_ns: float | None = ABSENT
    baseline_off_cpu_ns: float | None = None  # the part of it on no CPU; None without context switches
    candidate_off_cpu_ns: float | None = ABSENT


class MemorySide(msgspec.Struct, frozen=True):
    """Memory that CUDA allocated and freed: of a step, and the most that a process had on a device within any step."""

    allocations_per_step: float
    bytes_per_step: float
    frees_per_step: float
    freed_bytes_per_step: float
    peak_bytes: int


class MemoryRow(msgspec.Struct, frozen=True):
    """One kind of memory: device, pinned, managed, ..."""

    kind: str
    baseline: MemorySide | None
    candidate: MemorySide | None = ABSENT


class GpuMetricMean(msgspec.Struct, frozen=True):
    """Means of samples, in the unit of the metric; None: some run of the side has fewer than 20 samples of the kind.

    The interval is of one row alone, at 95 % over runs; None with fewer than two runs a side, where nothing says how much runs differ.
    """

    baseline: float | None
    candidate: float | None = ABSENT
    delta: float | None = ABSENT
    ci_low: float | None = ABSENT
    ci_high: float | None = ABSENT


class GpuMetricSide(msgspec.Struct, frozen=True):
    """Samples of a metric in the compared steps of a side: in a step, and in all by what the GPU did around them."""

    samples_per_step: float
    busy_samples: int
    idle_samples: int
    mixed_samples: int  # in neither mean
    refused_samples: int  # values that cannot be (a percentage above 100), in no mean


class GpuMetricRow(msgspec.Struct, frozen=True, kw_only=True):
    """One metric that nsys sampled on one device of a rank: the GPU's, whichever process used it."""

    rank: int
    device: int
    metric: str
    unit: str  # % (of the peak) or MHz
    baseline: GpuMetricSide | None
    candidate: GpuMetricSide | None = ABSENT
    steps: GpuMetricMean  # over the compared steps
    busy: GpuMetricMean  # while kernels ran
    idle: GpuMetricMean  # while nothing ran


class GpuSamplingSide(msgspec.Struct, frozen=True):
    """How a device was sampled on a side."""

    told: bool  # whether the export holds samples and says which are of this device; else its metrics are not shown
    gpu: int | None  # nsys's number of the GPU; None where not told, or where runs differ
    interval_ns: int | None  # between samples: median, the longest of the runs
    unread_metrics: int = 0  # in a unit whose scale is documented nowhere


class GpuSampling(msgspec.Struct, frozen=True):
    """How GPU metrics of a rank's device were sampled; None: not captured."""

    rank: int
    device: int
    baseline: GpuSamplingSide | None
    candidate: GpuSamplingSide | None = ABSENT


class System(msgspec.Struct, frozen=True):
    """What the operating system, communication, CUDA's memory and the GPU's counters did in a step; empty where not captured (see coverage)."""

    os_calls: list[OsCallRow] = []
    off_cpu: list[OffCpuRow] = []
    host_work: list[HostWorkRow] = []
    memory: list[MemoryRow] = []
    gpu_metrics: list[GpuMetricRow] = []
    gpu_sampling: list[GpuSampling] = []
    comm_calls: list[CommCallRow] = []
    payloads: list[PayloadRow] = []


# Steps to look at event by event.


class TimelineStep(msgspec.Struct, frozen=True):
    """One step of one side with all its events. `accounting`: its own categories, ns; they sum to period_ns."""

    run: str
    rank: int
    device: int
    number: int | None
    start_ns: int  # trace time of the named run
    period_ns: int
    thread: str  # role of the launching thread
    accounting: dict[str, int]
    lanes: list[TimelineLane]
    events: int
    merged_below_ns: int = 0  # neighbours of one group shorter than this are one event; 0: none are


class Timeline(msgspec.Struct, frozen=True):
    """A typical or the longest step of a stratum, both sides.

    typical: the median step of the run with the median mean, on this rank; `exact` says whether it is that very
    step or, in a stratum pooled from several workloads, the nearest one that was kept.
    """

    stratum: int  # index into Result.strata
    kind: Literal["typical", "worst"]
    rank: int
    exact: bool
    baseline: TimelineStep | None
    candidate: TimelineStep | None = ABSENT


class Timelines(msgspec.Struct, frozen=True):
    """Steps to look at event by event. `names` holds every text once."""

    names: list[str]
    steps: list[Timeline]
    strata_left_out: int = 0  # with steps on both sides, and less time than those shown
    ranks_left_out: int = 0


FORMAT_VERSION = 2


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a report needs."""

    format_version: int = FORMAT_VERSION
    tool: Tool
    inputs: Inputs
    verdict: Verdict
    verdict_reason: str
    verdict_facts: VerdictFacts = VerdictFacts()
    headline: Headline = Headline("", "", 0.0, "within_noise", "")
    step: Step
    phases: list[Phase]
    accounting: Accounting
    mix: Mix
    findings: list[Finding]
    insights: list[Insight] = []  # what is worth knowing beside them, three at most
    kernels: list[KernelRow]
    launched: list[
        KernelRow
    ] = []  # those of one name together, where each run is one step, or steps are too few to be judged
    kernel_answers: list[KernelAnswer] = []  # where kernels were asked for by name
    ranges: list[RangeRow]
    gaps: list[GapRow]
    worst_gaps: list[WorstGap]
    launch: Launch
    gil: Gil
    gc: Gc
    graphs: Graphs
    threads: list[ThreadRow]
    response_path: list[ResponseStage]
    strata: list[Stratum]
    ranks: list[RankRow]  # in order of ranks; reports show outliers first
    kpi: Section | None  # of companions, like `ncu`, `trtexec`, `latencies`: companions/model.py
    comparability: Comparability
    coverage: Coverage
    warnings: list[Note]
    samples: list[StepSample] = []
    samples_left_out: int = 0
    gaps_left_out: int = 0  # rows with the smallest changes
    places: list[PlaceRow] = []  # the most time first, by phase
    places_left_out: int = 0  # those with the least time
    kernel_ranks_left_out: int = 0
    timelines: Timelines | None = None  # where asked for
    cause_tree: list[CauseNode] = []  # the step that the verdict is of, each node before its parts
    step_strip: StepStrip | None = None
    divergences: list[
        Divergence
    ] = []  # of typical steps, where timelines were asked for; the workload with the most time first
    gates: Gates | None = None  # where any were judged
    rank_skew: list[RankSkew] = []  # a row a side with several ranks
    kernel_ranks: list[KernelRanks] = []  # the most time first
    host: HostTime | None = None  # where a side has no GPU kernels
    layers: Layers | None = None  # where those of both sides are known
    ncu: Section | None = None
    trtexec: Section | None = None
    latencies: Section | None = None
    system: System | None = (
        None  # where a side recorded OS calls, context switches, CUDA's memory or GPU metrics
    )
    limits: Limits | None = None  # where the part of a peak that some kernel reached is known
