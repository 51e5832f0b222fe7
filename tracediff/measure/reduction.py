"""What one export is reduced to: small tables that runs are compared by. Nothing here grows with the kernels of a step.

Every table carries names, not ids of the export: reductions of different exports can be put side by side.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl

from tracediff.align.selected import Kept
from tracediff.align.threads import Thread
from tracediff.measure.kept_steps import KeptStep
from tracediff.model import Captured, Note


@dataclass(frozen=True)
class Reduction:
    """One export.

    periods    a row a whole period: period, rank, device, number, phase, ctx_reqs, ctx_tokens, gen_reqs, stratum,
               start_ns, end_ns, and a column of ns for each category of the accounting
    cells      what a piece of idle time is, a row a number: cause, under (the cause had the GIL not been traced), thread,
               place, holder, holder_place, copy (launch_api inside a call that copies)
    idle_ns    period, cell (row of `cells`) -> ns, count
    kernels    period, key -> count, wall_ns, share_ns (ns of the accounting)
    keys       key -> name, short_name, kind, grid, block, registers, shared_bytes
    gaps       stratum, cause, under, thread, place, previous, next -> count, ns, p50_ns, p99_ns
    worst      the longest single gaps: start_ns, ns, cause, thread, place, previous, next, phase
    moments    cause, thread, place -> the longest piece of it: start_ns, end_ns, number
    ranges     stratum, thread, place, domain -> count, ns
    apis       stratum, api, kind, thread -> count, ns
    launch     stratum -> calls, graph_launches, kernels, graph_kernels, delay_mean_ns, delay_p50_ns, delay_p99_ns
    transitions stratum, name -> eager, graph (kernels a launch way)
    gil        stratum, thread -> hold_ns, wait_ns
    gil_pairs  stratum, waiter, holder, holder_place -> ns
    gc         stratum, thread, generation -> count, ns
    os_calls   stratum, thread, call -> count, ns; like the next six, empty where it was not recorded
    comm_calls stratum, library (MPI, NCCL), thread, call -> count, ns, sized (calls whose bytes are known), bytes
    payloads   stratum, thread, place, domain -> count, sum, low, high: numbers of NVTX ranges
    off_cpu    stratum, thread -> count, ns on no CPU
    host_work  stratum, thread, place, gil (a wait for the GIL), call ('' none), mpi (the call is one of MPI), off_cpu -> idle ns of host work
    memory     stratum, kind -> allocations, bytes, frees, freed_bytes
    memory_peaks kind -> bytes: the most that one process had on one device at once within the steps
    gpu_metrics stratum, rank, device, metric, unit, state -> samples, sum, refused (values that cannot be), see `reduce_metrics`
    gpu_sampling rank, device -> gpu (null: cannot be told), interval_ns, unread (metrics whose scale is unknown)
    served     stratum, thread -> windows: the steps in which threads of a role worked, see `windows.served`
    strata     stratum, phase, ctx_reqs, ctx_tokens, gen_reqs, steps
    collectives stratum, rank -> wait_ns, transfer_ns, count, caused_ns (waits of others for this rank)
    sequences  phase -> the most common sequence of kernel keys of a step
    kept       steps with all their events, to be drawn; empty where nobody asked
    """

    name: str
    fingerprint: str
    bytes: int
    duration_ns: int
    step_source: str
    graph_mode: str
    meta: dict[str, tuple[str, ...]]
    schema_version: str
    coverage: dict[str, Captured]
    devices: list[tuple[int, str, int, int]]  # device, name, SMs, clock Hz
    threads: list[Thread]
    warnings: list[Note]
    residual_ns: int
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
    launch: pl.DataFrame
    transitions: pl.DataFrame
    gil: pl.DataFrame
    gil_pairs: pl.DataFrame
    gc: pl.DataFrame
    os_calls: pl.DataFrame
    comm_calls: pl.DataFrame
    payloads: pl.DataFrame
    off_cpu: pl.DataFrame
    host_work: pl.DataFrame
    memory: pl.DataFrame
    memory_peaks: pl.DataFrame
    gpu_metrics: pl.DataFrame
    gpu_sampling: pl.DataFrame
    served: pl.DataFrame
    collectives: pl.DataFrame
    strata: pl.DataFrame
    sequences: dict[str, list[int]]
    kept: list[KeptStep] = field(default_factory=list)

    @property
    def idle(self) -> pl.DataFrame:
        """Idle time in words: period and the columns of `cells` -> ns, count."""
        words = self.cells[self.idle_ns["cell"]]
        return pl.concat([self.idle_ns.drop("cell"), words], how="horizontal")
