"""What few captures hold, of one side: OS calls, communication, context switches, CUDA's memory, GPU metrics."""

from __future__ import annotations

from tracediff.measure import tables_system
from tracediff.measure.sides import Side
from tracediff.measure.tables import Weigher
from tracediff.model.show_system import (
    ShowCall,
    ShowHostWork,
    ShowMemory,
    ShowMetric,
    ShowOffCpu,
    ShowPayload,
    ShowSystem,
)


def show_system(side: Side, weigher: Weigher) -> ShowSystem | None:
    """The tables of a comparison, of one side, the most time first; None where nothing of it was captured."""
    found = tables_system.system((side,), weigher, with_gil=True)
    if found is None:
        return None
    calls = [
        ShowCall("OS", row.call, row.thread, row.baseline_count or 0.0, row.baseline_ns or 0.0)
        for row in found.os_calls
    ] + [
        ShowCall(
            row.library, row.call, row.thread, row.baseline_count or 0.0, row.baseline_ns or 0.0, row.baseline_bytes,
            row.baseline_bytes_per_call,
        )
        for row in found.comm_calls
    ]  # fmt: skip
    return ShowSystem(
        [
            ShowHostWork(
                row.thread, row.range, row.kind, row.call, row.baseline_ns or 0.0, row.baseline_off_cpu_ns
            )
            for row in found.host_work
        ],
        sorted(calls, key=lambda row: (-row.ns, row.library, row.thread, row.call)),
        [ShowOffCpu(row.thread, row.baseline_count or 0.0, row.baseline_ns or 0.0) for row in found.off_cpu],
        [ShowMemory(row.kind, row.baseline) for row in found.memory if row.baseline is not None],
        [
            ShowMetric(
                row.rank,
                row.device,
                row.metric,
                row.unit,
                row.baseline.samples_per_step,
                row.steps.baseline,
                row.busy.baseline,
                row.idle.baseline,
            )
            for row in found.gpu_metrics
            if row.baseline is not None
        ],
        [
            ShowPayload(row.range, row.domain, row.thread, row.baseline)
            for row in found.payloads
            if row.baseline is not None
        ],
    )
