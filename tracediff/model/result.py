"""The result of a comparison of steps: all its sections in one object.

FORMAT_VERSION history
    1  first published form; `gates`, `ncu`, `trtexec`, `latencies`, `system` were added without a new version
    2  deltas at equal host speed; a verdict per phase; findings of phases, with parts; the mix of both sides
    3  deltas as measured; what is observed, what differs by count and what a repeat would show are apart
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
    Insight,
    Mix,
    Note,
    Outcome,
    Pair,
    Phase,
    Said,
    Section,
    Severity,
    Shares,
    Step,
    StepSample,
    Stratum,
    Tool,
    Verdict,
)
from tracediff.model.host import (
    Gc,
    Gil,
    HostTime,
    KernelRanks,
    MemorySide,
    RangeRow,
    RankClock,
    RankGroup,
    RankRow,
    RankSkew,
    ResponseStage,
    System,
    ThreadRow,
)
from tracediff.model.kernels import ApiRow, Graphs, KernelAnswer, KernelRow, Launch, Layers, Limits
from tracediff.model.observed import NOTHING, Observed
from tracediff.model.pictures import CauseNode, Crop, Divergence, StepStrip, Timelines
from tracediff.model.structure import StructureRow

# What was compared: the files of both sides, and the options that change numbers.


class RunInput(msgspec.Struct, frozen=True):
    """One capture of a side. `name` is the file's base name: no directory of the machine enters a result."""

    name: str
    fingerprint: str  # of the file's content, see formats/unpack.py
    bytes: int
    duration_ns: int
    ranks: int
    steps: int  # whole steps, before strata
    # tensorrt-llm | vllm | ... | step-regex:... | inferred (confidence 0.93) | whole-capture
    step_source: str
    windows: int = 1  # capture windows of each process; `duration_ns` is the longest


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
    query: str = ""  # SQL for `tracediff query`: what that step has of the cause


class FindingEvidence(msgspec.Struct, frozen=True):
    """What shows the finding: SQL for `tracediff query` on both sides, and the moments to look at."""

    query: str
    moments: list[Moment]
    runs_baseline_ns: list[float] = []  # the cell's mean in each run
    runs_candidate_ns: list[float] = []
    count_baseline: float | None = None  # events per step, where counting them means something
    count_candidate: float | None = None
    crop: Crop | None = None  # of the first causes, where steps were kept event by event


class Kernels(msgspec.Struct, frozen=True):
    """The kernels of a row by their shortened names, in order; a name as often as it is launched."""

    names: tuple[str, ...]
    replaced_by: tuple[str, ...] = ()  # those of the candidate, where they are called otherwise


class Where(msgspec.Struct, frozen=True):
    """The place of a finding; empty fields do not apply."""

    range: str | None = None
    kernels: Kernels | None = None
    thread: str | None = None
    holder_thread: str | None = None
    holder_range: str | None = None
    api: str | None = None
    phase: str | None = None
    rank: int | None = None
    os_call: str | None = None  # the call, of the OS or of MPI, in which most of the change lies
    layer: str | None = None  # the layer or kind of layer that has most of the time of the kernels
    other_calls: bool = False  # CUDA functions other than `api` have more than a trifle of the time

    @property
    def called(self) -> tuple[str, ...]:
        """The names of its kernels, those of the baseline where others replaced them; none of idle time."""
        return self.kernels.names if self.kernels else ()

    @property
    def replaced_by(self) -> tuple[str, ...]:
        """The names of its kernels on the candidate, where they are called otherwise."""
        return self.kernels.replaced_by if self.kernels else ()

    def holds(self, word: str) -> bool:
        """Whether the name of one of its kernels, on either side, holds a word."""
        return any(word in name for name in self.called + self.replaced_by)


class CallFact(msgspec.Struct, frozen=True):
    """Calls of one CUDA function per step."""

    api: str
    baseline: float
    candidate: float
    each_ns: float | None = None  # of a call, on the side with more of them


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
    delta_transfer_ns: float
    # of the group that waits, see RankGroup
    kind: Literal["pipeline", "all-to-all", ""] = ""
    group: str = ""  # its name
    members: list[int] = []  # its ranks, where they are not all
    sent: Shares | None = (
        None  # of what its ranks send to each other, what the rank of the finding sends; None: not known
    )


class AwaitedFact(msgspec.Struct, frozen=True):
    """What `thread`, of another process or near, did while the finding's thread waited: in `range`, or where it has none held its GIL; ns per step."""

    thread: str
    range: str
    near: bool  # of the same process
    baseline_ns: float
    candidate_ns: float


class Held(msgspec.Struct, frozen=True):
    """In how many runs of each side a change holds: those on its side of the middle between both sides. `odd`: the others."""

    baseline: int
    candidate: int
    odd: list[str] = []


class RareFact(msgspec.Struct, frozen=True):
    """Rare steps: how many of a side's steps of the phase, starts apart, stop for the cause, per run, and what the typical step changed by."""

    baseline_steps: float
    candidate_steps: float
    baseline_of: float
    candidate_of: float
    typical_delta_ns: float


class PhaseDelta(msgspec.Struct, frozen=True):
    """The same cause in another phase, or in another part of its own."""

    phase: str
    part: Literal["typical", "tail", "mean"]
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
    # where kernels of several names are one row: what each name gains, ns; sums to delta_ns
    of: dict[str, float] = {}


class FindingFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """What title, note and advice are written from, beside cause, place and numbers; only what applies is there."""

    per: Literal["step", "capture", "round"] = "step"  # what counts and times are per
    host_only: bool = False  # no kernels were captured: the time is the host's, not idle time of a GPU
    copies: bool = False  # launch calls that copy
    # part of an op's own time, which hardly changed, that lies behind other work, 0 to 1: that is what changed
    overlap: Shares | None = None
    launched: CallFact | None = (
        None  # kernels per step of the cause's range, where its kernels alone came or went
    )
    synchronised: CallFact | None = None  # with them synchronising calls of that range
    streams: CallFact | None = None  # per step, where an op's overlap came or went with their number
    # or with the time of a call, which explains half of it: until it returns nothing is launched beside the op
    slow_call: ApiRow | None = None
    memory: list[str] = []  # of copies, that of most bytes on each side; '' not told
    copied_bytes: Pair | None = None  # of copies per step, where these differ and their number does not
    match: str = ""  # how the kernels of both sides were matched
    confidence: float = 0.0
    baseline_mean_ns: float = 0.0  # wall time of one op, in the step that the cause is of
    candidate_mean_ns: float = 0.0
    hidden_ns: float | None = None  # change of copies' time that is hidden behind kernels
    baseline_without_gc: bool = False  # the side shows no collection
    candidate_without_gc: bool = False
    delta_all_ranks_ns: float | None = None  # mean over all ranks, where one rank alone changed
    waited_for: bool = False  # that rank is what others wait longer for, in sum by half of its change or more
    counted_calls: bool = False  # the counts are of synchronising calls
    late_rank: WaitFact | None = None  # the finding's rank comes last
    shares: list[PhaseShare] = []  # phases whose share of the steps changed
    rare: RareFact | None = None
    allocations: list[AllocationFact] = []
    os_calls: list[OsCallFact] = []
    awaited: AwaitedFact | None = None  # whom a wait for another process was for, where that changed with it
    without_gil: bool = False  # the thread, which runs Python, did not hold the GIL for the time that changed
    code_loads: CallFact | None = (
        None  # code that one side loads in every step; the host work around it is the cause's
    )
    graph_coverage: Shares | None = None  # of kernels that CUDA graphs launch, where that is what changed
    early: Shares | None = (
        None  # of kernels that begin before the one before them ends, where that is what changed
    )
    # share of the waiting time, 0 to 1, in which the op before was of another stream
    other_stream: float | None = None
    other_device: bool = False  # for most of the waiting time another device of the process worked


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
    part: Literal["typical", "tail", "mean"] = "typical"
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
    phase: str


class Rung(msgspec.Struct, frozen=True, omit_defaults=True):
    """By what the sides are compared: the best that both have.

    kind: labels (labelled steps, of which like ones recur) | steps (labelled steps, each of which is another) | inferred (steps, from what
    repeats) | rounds (whole captures, by the launches of a kernel that both have, see `kernel`) | captures (whole) | host (whole captures or
    steps of the host, without GPU work). why: not the better one: labels_missing, other_rules, other_work, steps_missing or kernels_missing on
    a side. rounds: of the mean capture of each side.
    """

    kind: Literal["labels", "steps", "inferred", "rounds", "captures", "host"] = "labels"
    why: Literal["", "labels_missing", "other_rules", "other_work", "steps_missing", "kernels_missing"] = ""
    baseline_rounds: float | None = None
    candidate_rounds: float | None = None
    kernel: str = ""


class VerdictFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the verdict rests on, from which the sentences are written.

    basis: checks (not comparable) | identical | phase (the typical step of `phase`) | part (sure causes carry it, see `carried_ns`) |
    rare (rare steps of `phase`) | gpu (the GPU time of captures of one step each, see `carried_ns`) | same | scatter. moved: a sure change whose time may only have moved between causes.
    host: the sides differ by more than noise only as long as the speed of their hosts is not taken out. load: the sides ran other
    batches, which may be all that changed in `phase`. same_work: each run is one step, and most kernels were launched exactly as often
    in all of them. by_launches: steps are told apart by what they launch alone, so that other steps may be what the program does now. other_steps:
    of a run of each side, where results of as many bytes in all come to the host in a third more steps, or in a quarter fewer. recorded_steps: of a run of each side,
    where the programs themselves began to record and recorded other numbers of steps.
    """

    basis: Literal["checks", "identical", "phase", "part", "rare", "gpu", "same", "scatter"] = "checks"
    phase: str = ""
    carried_ns: float | None = None
    graph_coverage: bool = False  # changed, and no findings come of it
    moved: bool = False
    host: bool = False
    load: Load | None = None
    same_work: bool = False
    by_launches: bool = False
    other_steps: tuple[float, float] | None = None
    recorded_steps: tuple[float, float] | None = None
    rung: Rung = Rung()


class Headline(msgspec.Struct, frozen=True):
    """The first sentences and the cause that they name first; the same in every report. text: what, why and counts together."""

    text: str
    cause: str  # '' without one
    delta_ns: float  # of the phase that the verdict is of
    level: Evidence
    phase: str
    what: str = ""  # the change as measured
    why: str = ""  # its largest parts
    counts: str = ""  # what differs by count


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
    """Idle time of one cause at one place, ns per step. phase: in the step of it that its verdict is of; '' in the mean over all compared steps.

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


class GateWaiver(msgspec.Struct, frozen=True):
    """A failure accepted for a time."""

    reason: str
    expires: str  # the last day (UTC) on which it holds, YYYY-MM-DD


class GateFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the message of a gate is written from, beside its numbers; those here are ns or a count per step, as they are.

    said: why nothing can be measured. of, steps: what was measured, where it is not the measure, and in which steps. places: that were summed.
    """

    why: Literal[
        "not_comparable", "not_measured", "passed", "passed_blind", "may_be_noise", "may_repeat", "failed", "failed_part"
    ]  # fmt: skip
    said: Said | None = None
    of: Said | None = None
    steps: Said | None = None
    places: list[str] = []
    sure: float = 0.0  # of the change, what is more than noise
    least: float = 0.0  # what a repeat would show of it
    unseen: float = 0.0  # a change of up to this much may not show
    bytes: bool = False  # the count is one of bytes
    waived_to: str = ""  # the wider limit of a waiver, where the change exceeds it as well
    ended: GateWaiver | None = None  # a waiver that holds no more


class GateOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a gate. Numbers are ns per step, or a count per step where `unit` is count; None: not measured.

    `message` is '' until report/phrases.py writes it from `facts`.
    """

    text: str  # as it was given: METRIC:+LIMIT
    metric: str
    severity: Severity = "error"  # a warning never changes the exit status
    outcome: Outcome
    message: str = ""
    facts: GateFacts | None = None
    unit: Literal["ns", "count"] = "ns"
    limit: float | None = None  # the growth allowed; of a limit in percent, that part of the baseline
    baseline: float | None = None
    delta: float | None = None
    # of delta; None where it is counted, or a sum or quantile without an interval
    ci_low: float | None = None
    ci_high: float | None = None
    waiver: GateWaiver | None = None  # the one that took the failure


class Gates(msgspec.Struct, frozen=True):
    """All gates, as they were judged."""

    outcomes: list[GateOutcome]
    notes: list[str] = []  # on waivers of the policy
    policy: str = ""  # base name of the policy's file; empty where there is none
    pass_inconclusive: bool = False


FORMAT_VERSION = 3


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a report needs."""

    format_version: int = FORMAT_VERSION
    tool: Tool
    inputs: Inputs
    verdict: Verdict
    verdict_reason: str
    verdict_facts: VerdictFacts = VerdictFacts()
    headline: Headline = Headline("", "", 0.0, "within_noise", "")
    observed: Observed = NOTHING
    step: Step
    phases: list[Phase]
    accounting: Accounting
    mix: Mix
    findings: list[Finding]
    structure: list[StructureRow] = []  # what differs by count; the phase with the most steps first
    insights: list[Insight] = []  # what is worth knowing beside them, three at most
    kernels: list[KernelRow]
    # those of one name together, where each run is one step, or steps are too few to be judged
    launched: list[KernelRow] = []
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
    # of typical steps, where timelines were asked for; the workload with the most time first
    divergences: list[Divergence] = []
    gates: Gates | None = None  # where any were judged
    rank_skew: list[RankSkew] = []  # a row a side with several ranks
    rank_groups: list[RankGroup] = []
    rank_clocks: list[
        RankClock | None
    ] = []  # of each side; null where it has no ranks apart, or they cannot be aligned
    kernel_ranks: list[KernelRanks] = []  # the most time first
    host: HostTime | None = None  # where a side has no GPU kernels
    layers: Layers | None = None  # where those of both sides are known
    ncu: Section | None = None
    trtexec: Section | None = None
    latencies: Section | None = None
    # where a side recorded OS calls, context switches, CUDA's memory or GPU metrics
    system: System | None = None
    limits: Limits | None = None  # where the part of a peak that some kernel reached is known


# What a step would take if something were different: the object of `tracediff what-if`.
#
# Times are ns per step, means over the steps that were replayed. `deciding` is what decided how long a step took: the time on the
# longest chain of events that wait for one another, by category of the accounting; it sums to the step.


WHAT_IF_VERSION = 1
WhatIfKind = Literal["without", "scale", "fuse", "graph", "async"]


class WhatIfEdit(msgspec.Struct, frozen=True):
    """A change that was applied. found: events per step that it is about; kind, text: as it was given."""

    kind: WhatIfKind
    text: str
    found: float


class WhatIfPhase(msgspec.Struct, frozen=True):
    """Steps of one phase before and after. The range holds the step time of a program that was really changed in 8 of 10 cases.

    removed_ns: time that the edits took from threads and GPUs; what of it the step did not gain was hidden.
    """

    phase: str
    steps: int
    before_ns: float
    after_ns: float
    low_ns: float
    high_ns: float
    removed_ns: float
    deciding_before: dict[str, float]
    deciding_after: dict[str, float]


class WhatIf(msgspec.Struct, kw_only=True):
    """The object."""

    format_version: int = WHAT_IF_VERSION
    kind: Literal["what-if"] = "what-if"
    tool: Tool
    input: SideInput
    options: dict[str, Any]
    edits: list[WhatIfEdit]
    steps: int  # that were replayed and count: those of `phases`
    all_steps: int
    phases: list[WhatIfPhase]
    coverage: Coverage
    warnings: list[Note] = []
