"""The tables of what few captures hold: OS calls, context switches, communication, CUDA's memory, GPU metrics."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tracediff.measure.sides import Side, parts_of, stacked
from tracediff.measure.tables import Weigher
from tracediff.measure.tables_metrics import metric_rows
from tracediff.measure.tables_payloads import payload_rows
from tracediff.model import CommCallRow, HostWorkRow, MemoryRow, MemorySide, OffCpuRow, OsCallRow, System

KINDS = ("os_calls", "context_switches", "gpu_memory", "gpu_metrics", "mpi", "nccl")
_MEMORY = ("allocations", "bytes", "frees", "freed_bytes")
_Row = dict[str, float | None]


def system(sides: Sequence[Side], weigher: Weigher, with_gil: bool) -> System | None:
    """All of them; None where no side recorded any. Of one side alone: as if the other had not recorded them."""
    held = {kind: _both(sides, kind) for kind in KINDS}
    payloads = payload_rows(sides, weigher)
    if not payloads and not any(any(one) for one in held.values()):
        return None
    calls, switches, memory, metrics, mpi, nccl = (held[kind] for kind in KINDS)
    metric_table, sampling = metric_rows(sides, weigher, metrics) if any(metrics) else ([], [])
    return System(
        _os_calls(weigher, calls) if any(calls) else [],
        _off_cpu(weigher, switches) if any(switches) else [],
        _host_work(sides, weigher, (calls, switches, mpi), with_gil) if any(calls + switches + mpi) else [],
        _memory(sides, weigher, memory) if any(memory) else [],
        gpu_metrics=metric_table,
        gpu_sampling=sampling,
        comm_calls=_comm_calls(weigher, {"MPI": mpi, "NCCL": nccl}),
        payloads=payloads,
    )


def _both(sides: Sequence[Side], kind: str) -> tuple[bool, bool]:
    one, *other = (side.captured(kind) for side in sides[:2])
    return one, other == [True]


def _values(row: _Row, names: Sequence[str], held: tuple[bool, bool]) -> list[float | None]:
    """Baseline's values, then the candidate's: None where not captured, 0 where there is no such row."""
    return [
        (row[name + suffix] or 0.0) if shown else None
        for suffix, shown in zip(("_b", "_c"), held, strict=True)
        for name in names
    ]


def _os_calls(weigher: Weigher, held: tuple[bool, bool]) -> list[OsCallRow]:
    table = weigher.pivot(
        weigher.of_host("os_calls", values=("count", "ns")), ["call", "thread"], ["count", "ns"]
    )
    rows = [
        OsCallRow(row["call"], row["thread"], *_values(row, ("count", "ns"), held))
        for row in table.iter_rows(named=True)
    ]
    return sorted(rows, key=lambda row: (*_size(row.baseline_ns, row.candidate_ns), row.thread, row.call))


def _comm_calls(weigher: Weigher, held: dict[str, tuple[bool, bool]]) -> list[CommCallRow]:
    values = ("count", "ns", "sized", "bytes")
    table = weigher.pivot(
        weigher.of_host("comm_calls", values=values), ["library", "call", "thread"], list(values)
    )
    rows = [
        CommCallRow(
            row["library"], row["call"], row["thread"], *_values(row, ("count", "ns"), held[row["library"]]),
            *(row["bytes" + suffix] if row["sized" + suffix] else None for suffix in ("_b", "_c")),
            *(row["bytes" + suffix] / row["sized" + suffix] if row["sized" + suffix] else None for suffix in ("_b", "_c")),
        )
        for row in table.iter_rows(named=True)
    ]  # fmt: skip
    return sorted(
        rows,
        key=lambda row: (*_size(row.baseline_ns, row.candidate_ns), row.library, row.thread, row.call),
    )


def _off_cpu(weigher: Weigher, held: tuple[bool, bool]) -> list[OffCpuRow]:
    table = weigher.pivot(weigher.of_host("off_cpu", values=("count", "ns")), ["thread"], ["count", "ns"])
    rows = [
        OffCpuRow(row["thread"], *_values(row, ("count", "ns"), held)) for row in table.iter_rows(named=True)
    ]
    return sorted(rows, key=lambda row: (*_size(row.baseline_ns, row.candidate_ns), row.thread))


def _size(baseline: float | None, candidate: float | None) -> tuple[float, float]:
    """What changed most comes first, then what is longest."""
    one, other = baseline or 0.0, candidate or 0.0
    changed = abs(other - one) if baseline is not None and candidate is not None else 0.0
    return -changed, -max(one, other)


def _host_work(
    sides: Sequence[Side],
    weigher: Weigher,
    held: tuple[tuple[bool, bool], tuple[bool, bool], tuple[bool, bool]],
    with_gil: bool,
) -> list[HostWorkRow]:
    """What is in no call is told apart by switches only on a side that has them; a call is known of a side with calls.

    `held`: which sides have OS calls, switches, MPI calls.
    """
    calls, switches, mpi = held
    work = stacked(sides, "host_work")
    if with_gil:  # a wait for the GIL is no host work then
        work = work.filter(~pl.col("gil"))
    kind = (
        pl.when(pl.col("mpi")).then(pl.lit("mpi_call"))
        .when(pl.col("call") != "").then(pl.lit("os_call"))
        .when(pl.col("off_cpu")).then(pl.lit("off_cpu"))
        .otherwise(pl.lit("rest"))
    )  # fmt: skip
    work = work.with_columns(kind=kind, off_ns=pl.when(pl.col("off_cpu")).then(pl.col("ns")).otherwise(0))
    table = weigher.pivot(work, ["thread", "place", "kind", "call"], ["ns", "off_ns"])
    rows = []
    for row in table.iter_rows(named=True):
        known = {
            "mpi_call": mpi,
            "os_call": calls,
            "off_cpu": switches,
            "rest": (calls[0] or switches[0] or mpi[0], calls[1] or switches[1] or mpi[1]),
        }[row["kind"]]
        off = tuple(one and other for one, other in zip(known, switches, strict=True))
        times, offs = _values(row, ("ns",), known), _values(row, ("off_ns",), (off[0], off[1]))
        rows.append(HostWorkRow(row["thread"], row["place"], row["kind"], row["call"], *times, *offs))
    return sorted(
        rows,
        key=lambda row: (
            *_size(row.baseline_ns, row.candidate_ns), row.thread, row.range, row.kind, row.call,
        ),
    )  # fmt: skip


def _memory(sides: Sequence[Side], weigher: Weigher, held: tuple[bool, bool]) -> list[MemoryRow]:
    table = weigher.pivot(stacked(sides, "memory"), ["kind"], list(_MEMORY))
    flow = {row["kind"]: row for row in table.iter_rows(named=True)}
    peaks: list[dict[str, int]] = [{}, {}]
    for side, _, _, part in parts_of(sides[:2]):
        for kind, size in part.memory_peaks.iter_rows():
            peaks[side][kind] = max(size, peaks[side].get(kind, 0))
    return [
        MemoryRow(
            kind,
            *(
                _memory_side(flow.get(kind, {}), suffix, peak.get(kind, 0)) if shown else None
                for suffix, shown, peak in zip(("_b", "_c"), held, peaks, strict=True)
            ),
        )
        for kind in sorted(flow.keys() | peaks[0].keys() | peaks[1].keys())
    ]


def _memory_side(row: _Row, suffix: str, peak: int) -> MemorySide:
    allocations, size, frees, freed = (row.get(name + suffix) or 0.0 for name in _MEMORY)
    return MemorySide(allocations, size, frees, freed, peak)
