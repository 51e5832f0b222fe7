"""What one export is reduced to: small tables that runs are compared by. Nothing here grows with the kernels of a step.

Every table carries names, not ids of the export: reductions of different exports can be put side by side.
"""

from __future__ import annotations

from functools import cached_property

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec.structs import replace

from tracediff.arrays import Ints
from tracediff.model import Captured, Note
from tracediff.trace.periods import Kept
from tracediff.trace.steps import StepRule
from tracediff.trace.threads import Thread


class Lane(msgspec.Struct, frozen=True):
    """Events of one kind in a step, as arrays of one length in order of (start, longest first).

    of: the thread or level of nesting of lanes with one name. start, end: ns from the step's start, cut to the step.
    what: index into `texts` (of kind gpu: row of `Reduction.keys`). group: index into `groups`. under: of idle time, the group had the GIL not been traced. source: the stream or thread, -1
    where they are several. columns: further facts of each event (see steps/sample.py); empty in lanes for the page.
    inside: ns really covered, less than end - start where short events were merged; count: how many of them.
    """

    kind: str
    name: str
    of: str
    start: Ints
    end: Ints
    what: Ints
    group: Ints
    texts: list[str]
    groups: tuple[str, ...]
    under: Ints | None = None
    source: int = -1
    columns: dict[str, Ints] = msgspec.field(default_factory=dict)
    inside: Ints = msgspec.field(default_factory=lambda: np.empty(0, np.int64))
    count: Ints = msgspec.field(default_factory=lambda: np.empty(0, np.int64))

    def take(self, index: Ints) -> Lane:
        """Some of the events of a lane in which none are merged."""
        return replace(
            self,
            start=self.start[index],
            end=self.end[index],
            what=self.what[index],
            group=self.group[index],
            under=None if self.under is None else self.under[index],
            columns={name: values[index] for name, values in self.columns.items()},
        )


class SampledStep(msgspec.Struct, frozen=True):
    """One period with its events. `period`: row of `Reduction.periods`; `thread`: role of the launching thread.

    whole: where lanes hold merged events, all ops of the step in order of start, and its idle time, each where they are not too many.
    """

    period: int
    thread: str
    lanes: list[Lane]
    events: int  # before any were merged
    merged_below_ns: int = 0  # neighbours of one group shorter than this were merged; 0: none were
    whole: list[Lane] = msgspec.field(default_factory=list)


class EventGraph(msgspec.Struct, frozen=True):
    """What whatif/graph.py makes of the events of some stretches of successive steps: points in time, and edges between them.

    time: of each point, ns; every edge leads to a later place in it. Edges, in order of their target: source, target, lag (ns), kind
    (whatif/graph.py), cause (index into CATEGORIES), word (index into `words`: range, thread, GIL holder, its range, CUDA function), op
    and call (numbers, -1 none). Of each op: key (row of `Reduction.keys`) and step (the place among the steps, -1 where it begins in
    none of its stretch). Steps: period (row of `Reduction.periods`), the points at which it starts and ends, and its stretch.
    """

    time: Ints
    source: npt.NDArray[np.int32]
    target: npt.NDArray[np.int32]
    lag: Ints
    kind: npt.NDArray[np.int8]
    cause: npt.NDArray[np.int8]
    word: npt.NDArray[np.int32]
    op: npt.NDArray[np.int32]
    call: npt.NDArray[np.int32]
    key: npt.NDArray[np.int32]
    step: npt.NDArray[np.int32]
    words: list[list[str]]
    period: Ints
    start: Ints
    end: Ints
    stretch: Ints


class StepSequence(msgspec.Struct, frozen=True):
    """The ops that some steps launched: `steps` of them had just these `keys` (rows of `Reduction.keys`), in order of start."""

    steps: int
    keys: list[int]


# one is equal to itself alone
class Reduction(msgspec.Struct, frozen=True, eq=False):
    """One export.

    periods    a row a whole period: period, rank, device, number, phase, ctx_reqs, ctx_tokens, gen_reqs, stratum,
               start_ns, end_ns, and a column of ns for each category of the accounting; of the ops that start in it
               ops (how many), copies (those of them that are memcpy or memset), op_key (hash of the multiset of their names,
               grids, blocks and kinds, equal in all exports) and start_up (a kernel's name occurs for the first time on
               the rank in the capture, CUDA graphs are made or code is loaded, or the period is the first of its rank and device)
    cells      what a piece of idle time is, a row a number: cause, under (the cause had the GIL not been traced), thread,
               place, holder, holder_place, copy (launch_api inside a call that copies)
    idle_ns    period, cell (row of `cells`) -> ns, count
    kernels    period, key -> count, wall_ns, wall_square (sum of squared lengths, ns^2), share_ns (ns of the accounting)
    keys       key -> name, short_name, kind, grid, block, registers, shared_bytes
    gaps       stratum, cause, under, thread, place, previous, next -> count, ns, crossed_ns (of ns, where the ops before and after are of different streams),
               elsewhere_ns (of ns, while other devices of the process worked on more than communication), p50_ns, p99_ns
    worst      the longest single gaps: start_ns, ns, cause, thread, place, previous, next, phase
    moments    cause, thread, place, holder, holder_place, copy, api (CUDA function of pieces inside one, else ''), phase -> ns; of the longest piece start, end, number, rank
    ranges     stratum, thread, place, domain -> count, ns, squares (of the ns of each), outer_ns (in which no earlier range of the thread was open),
               wait_ns (in waits for the GIL), call_ns (in CUDA calls outside of those), after_ns (sum over steps: from the first range of the thread to the first of these)
    apis       period (of the first device of a rank), stratum, api, kind, thread -> count, nested (of count, calls inside another call), ns, squares
    counts     period, what (row of `counted`) -> count, bytes: see accounting/counts.py; of threads' rows the period of the first device of a rank
    counted    what is counted in `counts`, a row a number: kind, name, thread, memory, group
    host_speed period, api -> count, log_ns (median of ln(ns)): CUDA calls that wait for nothing and began in the host window
               of the step, those of no length left out; the devices of a rank share their windows
    launch     stratum -> calls, graph_launches, kernels, graph_kernels, delay_mean_ns, delay_p50_ns, delay_p99_ns
    origins    key, thread, place, api -> count: who launched the ops of whole periods, '' where that was not recorded
    transitions stratum, name -> eager, graph (kernels a launch way)
    gil        stratum, thread -> hold_ns, wait_ns
    awaited    stratum, thread, place, peer, peer_place, near -> ns: of waits of a launching thread, what other threads did meanwhile; see `host.awaited_table`
    gil_pairs  stratum, waiter, holder, holder_place -> ns
    gc         stratum, thread, generation -> count, ns
    os_calls   stratum, thread, call -> count, ns; like the next six, empty where it was not recorded
    comm_calls stratum, library (MPI, NCCL), thread, call -> count, ns, sized (calls whose bytes are known), bytes
    payloads   stratum, thread, place, domain -> count, sum, low, high: numbers of NVTX ranges
    work       stratum, key, kind (gemm, attention, copy), dtype, shape -> count, ns, flop, bytes: launches whose work is known, see `limits.work`
    off_cpu    stratum, thread -> count, ns on no CPU
    host_work  stratum, thread, place, gil (a wait for the GIL), call ('' none), mpi (the call is one of MPI), off_cpu -> idle ns of host work
    memory     stratum, kind -> allocations, bytes, frees, freed_bytes
    memory_peaks kind -> bytes, least: the most and the least that one process had on one device at once within the steps
    gpu_metrics stratum, rank, device, metric, unit, state -> samples, sum, refused (values that cannot be), see `system.metric_tables`
    gpu_sampling rank, device -> gpu (null: cannot be told), interval_ns, unread (metrics whose scale is unknown)
    active_windows stratum, thread -> windows: the steps in which threads of a role worked, see `walk.active_windows`
    strata     stratum, phase, ctx_reqs, ctx_tokens, gen_reqs, steps
    arrivals   rank, step, number, stratum, comm ('' not known), group, calls, reduces (an all-reduce), start, end: every communication kernel of whole
               periods, in order of rank and start; empty where ranks of the export were left out
    collectives stratum, rank, members (ranks of its group), group (its name), calls (of NCCL in it) -> wait_ns, transfer_ns, count, caused_ns (waits of others for this rank)
    layers     period, key, layer -> count, share_ns: `kernels` divided by layer, '' where none is known; empty where none is of the export
    layer_sources graph (of graphs, or launched alone), source (accounting.layers.SOURCES) -> count, ns (share_ns)
    sequences  phase -> the most common op sequences of its steps on the first device, most steps first, 8 at most
    sampled    some steps with their events; empty where nobody asked
    events     the graph of events that a what-if replays; None where nobody asked
    """

    name: str
    fingerprint: str
    bytes: int
    duration_ns: int
    step_source: str
    step_rule: StepRule
    graph_mode: str
    meta: dict[str, tuple[str, ...]]
    schema_version: str
    coverage: dict[str, Captured]
    devices: list[tuple[int, str, int, int]]  # device, name, SMs, clock Hz
    threads: list[Thread]
    warnings: list[Note]
    residual_ns: int
    lost: float  # the part of a process's CUDA calls that was not recorded, the largest
    by_program: bool  # the program itself started the recording (cudaProfilerStart)
    measured: Kept  # of how many ranks and steps
    periods: pl.DataFrame
    cells: pl.DataFrame
    idle_ns: pl.DataFrame
    kernels: pl.DataFrame
    keys: pl.DataFrame
    gaps: pl.DataFrame
    worst: pl.DataFrame
    moments: pl.DataFrame
    ranges: pl.DataFrame
    apis: pl.DataFrame
    counts: pl.DataFrame
    counted: pl.DataFrame
    host_speed: pl.DataFrame
    launch: pl.DataFrame
    origins: pl.DataFrame
    transitions: pl.DataFrame
    gil: pl.DataFrame
    awaited: pl.DataFrame
    gil_pairs: pl.DataFrame
    gc: pl.DataFrame
    os_calls: pl.DataFrame
    comm_calls: pl.DataFrame
    payloads: pl.DataFrame
    work: pl.DataFrame
    off_cpu: pl.DataFrame
    host_work: pl.DataFrame
    memory: pl.DataFrame
    memory_peaks: pl.DataFrame
    gpu_metrics: pl.DataFrame
    gpu_sampling: pl.DataFrame
    active_windows: pl.DataFrame
    arrivals: pl.DataFrame
    collectives: pl.DataFrame
    strata: pl.DataFrame
    layers: pl.DataFrame
    layer_sources: pl.DataFrame
    sequences: dict[str, list[StepSequence]]
    sampled: list[SampledStep] = msgspec.field(default_factory=list)
    events: EventGraph | None = None

    @property
    def idle(self) -> pl.DataFrame:
        """Idle time in words: period and the columns of `cells` -> ns, count."""
        words = self.cells[self.idle_ns["cell"]]
        return pl.concat([self.idle_ns.drop("cell"), words], how="horizontal")

    def counts_of(self, kind: str) -> pl.DataFrame:
        """The rows of `counts` of one kind, with the words of `counted`."""
        words = self.counted.with_row_index("what").cast({"what": pl.Int64}).filter(kind=kind)
        return self.counts.join(words, on="what")


# Where the steps of a table are in another one: by arrays, for joins of millions of rows are slow.

STEP = ("side", "run", "part", "period")  # what names a step


class StepIndex:
    """The rows of a table with the columns of STEP, each step once."""

    def __init__(self, steps: pl.DataFrame) -> None:
        self._steps = steps

    @cached_property
    def _places(self) -> tuple[tuple[int, int, int], Ints, Ints, Ints]:
        """Sides, runs and parts; of each (side, run, part) its first place, and how many; of each place the row or -1."""
        side, run, part, period = (self._steps[name].to_numpy().astype(np.int64) for name in STEP)
        sides, runs, parts = (int(one.max(initial=0)) + 1 for one in (side, run, part))
        export = (side * runs + run) * parts + part
        many = np.zeros(sides * runs * parts, np.int64)
        np.maximum.at(many, export, period + 1)
        first = np.cumsum(many) - many
        row = np.full(int(many.sum()), -1, np.int64)
        row[first[export] + period] = np.arange(len(period))
        return (sides, runs, parts), first, many, row

    def rows(self, table: pl.DataFrame) -> Ints:
        """For each row of a table with the columns of STEP: the row of that step here, -1 where it is not."""
        (sides, runs, parts), first, many, row = self._places
        if not len(row):
            return np.full(len(table), -1, np.int64)
        side, run, part, period = (table[name].to_numpy() for name in STEP)
        export = (side * runs + run) * parts + part
        known = (side < sides) & (run < runs) & (part < parts)
        if not known.all():
            export = np.where(known, export, 0)
        known &= period < many[export]
        if not known.all():
            return np.where(known, row[np.where(known, first[export] + period, 0)], -1)
        return np.asarray(row[first[export] + period], np.int64)
