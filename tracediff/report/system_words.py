"""What the operating system, communication, CUDA's memory and the GPU's counters did in a step, as short rows for Markdown and the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from tracediff.model import (
    CommCallRow,
    GpuMetricMean,
    GpuMetricRow,
    GpuSampling,
    GpuSamplingSide,
    MemorySide,
    PayloadSide,
    RankRow,
    RankSkew,
    Result,
    System,
)
from tracediff.model.common import ABSENT
from tracediff.report import units, words
from tracediff.report.document import Code, Number, Table
from tracediff.report.rows import OUTLIER, rank_order

KINDS = {"off_cpu": "on no CPU, in no recorded OS call", "rest": "neither"}
# field of a side of a row of memory, and whether it counts bytes
MEMORY = (
    ("allocations_per_step", False), ("bytes_per_step", True), ("frees_per_step", False),
    ("freed_bytes_per_step", True), ("peak_bytes", True),
)  # fmt: skip
NOT_CAPTURED = "not captured"
_NONE = "none"


def menu(system: System) -> str:
    """Name the section in a menu: by its one part where it has no other."""
    parts = {
        "OS calls": system.os_calls, "Communication": system.comm_calls, "Scheduling": system.off_cpu,
        "CUDA's memory": system.memory, "GPU metrics": system.gpu_metrics, "Payloads": system.payloads,
    }  # fmt: skip
    there = [name for name, rows in parts.items() if rows]
    return there[0] if len(there) == 1 else "System"


def missing(result: Result) -> list[str]:
    """Say which kinds one side alone recorded: what neither has is said in the HTML report."""
    sides = {kind: words.sides_without(result, kind) for kind in words.SYSTEM_KINDS}
    return [words.missing(result, kind) for kind, side in sides.items() if side not in ("", "either side")]


def tables(system: System, limit: int) -> list[Table]:
    """Host work by call, calls of communication, payloads and CUDA's memory on both sides; what changed most comes first."""
    work = [row for row in system.host_work if row.kind != "rest"][:limit]
    calls = system.comm_calls[:limit]
    memory = [(row.kind, of_memory(row.baseline), of_memory(row.candidate)) for row in system.memory]
    scales = [
        units.scale_for([ns for row in rows for ns in (row.baseline_ns, row.candidate_ns)])
        for rows in (work, calls)
    ]
    sides = ("Baseline, per step", "Candidate, per step")
    found = [
        Table(
            ("Host work in", "of it", *sides),
            [
                [Code(row.range or row.thread), Code(what(row.kind, row.call)),
                 *(Number(NOT_CAPTURED if ns is None else scales[0].time(ns)) for ns in (row.baseline_ns, row.candidate_ns))]
                for row in work
            ],
            title="Host work by call (per step)",
        ),
        Table(
            ("Call", "Thread", *sides),
            [
                [Code(row.call), Code(row.thread),
                 comm_side(scales[1], row.baseline_count, row.baseline_ns, row.baseline_bytes, row.baseline_bytes_per_call),
                 comm_side(scales[1], row.candidate_count, row.candidate_ns, row.candidate_bytes, row.candidate_bytes_per_call)]
                for row in calls
            ],
            notes=[text] if (text := no_bytes(system.comm_calls)) else (),
            title="Calls of MPI and NCCL (host, per step)",
        ),
        Table(
            ("Payload of range", "Thread", "Baseline, mean", "Candidate, mean"),
            [
                [Code(row.range), Code(row.thread), Number(payload_side(row.baseline)), Number(payload_side(row.candidate))]
                for row in system.payloads[:limit]
            ],
            title="Payloads of NVTX ranges (mean)",
        ),
        Table(
            ("Memory", *sides),
            [row for row in memory if row[1] != row[2] or not row[1].startswith(_NONE)],
            title="CUDA's memory (per step)",
        ),
        Table(
            ("Metric", "Device", *(part.capitalize() for part in METRIC_PARTS.values())),
            [
                [Code(row.metric), metric_device(row), *(Number(" -> ".join(metric_sides(row, part))) for part in METRIC_PARTS)]
                for row in system.gpu_metrics[: min(limit, _METRICS)]
            ],
            title="GPU metrics (means of samples)",
            notes=sampling(system)[:limit],
        ),
    ]  # fmt: skip
    return [table for table in found if table.rows or table.notes]


def what(kind: str, call: str) -> str:
    """A part of host work as people read it: the call, or what else was recorded."""
    return call or KINDS[kind]


def comm_side(
    scale: units.Scale, count: float | None, ns: float | None, size: float | None, per_call: float | None
) -> str:
    """Calls, host time and, where they are known, bytes of a step and of a call."""
    if count is None or ns is None:
        return NOT_CAPTURED
    called = f"{units.counted(count, 'call')}, {scale.time(ns)}"
    return called if size is None else f"{called}, {comm_bytes(size, per_call)}"


def comm_bytes(size: float, per_call: float | None) -> str:
    """Bytes of a step, and of a call where that is another number."""
    said = units.size(round(size))
    return (
        said
        if per_call is None or round(per_call) == round(size)
        else f"{said} ({units.size(round(per_call))} a call)"
    )


def no_bytes(calls: Sequence[CommCallRow]) -> str:
    """What would export the bytes of NCCL's calls, where a side has such calls and no bytes; else empty."""
    sides = [
        side
        for row in calls
        if row.library == "NCCL"
        for side in (
            (row.baseline_count, row.baseline_bytes),
            (row.candidate_count, row.candidate_bytes),
        )
    ]
    return NCCL_BYTES if any(count and size is None for count, size in sides) else ""


NCCL_BYTES = (
    "Bytes of NCCL's calls that are not shown are not in the export: nsys export --include-json=true (nsys 2024 and later)"
    " writes them."
)


def payload_side(side: PayloadSide | None) -> str:
    """Mean, range and how many a step; `none` where a side has no such payload."""
    if side is None:
        return _NONE
    spread = "" if side.min == side.max else f" ({number(side.min)} to {number(side.max)})"
    return f"{number(side.mean)}{spread}, {units.count(side.count_per_step)} per step"


def number(value: float) -> str:
    """A number of the program, of no known unit: whole ones in full."""
    return f"{value:,.0f}" if value == round(value) and abs(value) < 2**53 else f"{value:,.6g}"


def change(delta: float | None) -> str:
    """A difference of such numbers with its sign; empty where there is none."""
    return "" if delta is None else "0" if not delta else f"{'+' if delta > 0 else '-'}{number(abs(delta))}"


def of_memory(side: MemorySide | None) -> str:
    """What a step allocates and frees of one kind, and the peak."""
    if side is None:
        return NOT_CAPTURED
    flow = [
        f"{units.count(count)} {what} ({units.size(round(size))})"
        for count, what, size in (
            (side.allocations_per_step, "allocations", side.bytes_per_step),
            (side.frees_per_step, "frees", side.freed_bytes_per_step),
        )
        if count
    ]
    return f"{', '.join(flow) or _NONE}; peak {units.size(side.peak_bytes)}"


_METRICS = 6  # the well-known ones of one device
FEW = "few samples"
METRIC_PARTS = {"steps": "whole steps", "busy": "while kernels run", "idle": "while nothing runs"}


def metric_device(row: GpuMetricRow | GpuSampling) -> str:
    """Where a metric was sampled."""
    return f"rank {row.rank}, device {row.device}"


def metric_sides(row: GpuMetricRow, part: str) -> tuple[str, str]:
    """Both means of a part of a row: a number of its unit, `few samples` or `not captured`."""
    mean: GpuMetricMean = getattr(row, part)
    one, other = (
        FEW if side and value is None else f"{value:.1f}" if side else NOT_CAPTURED
        for side, value in ((row.baseline, mean.baseline), (row.candidate, mean.candidate))
    )
    return one, other


def metric_delta(mean: GpuMetricMean) -> str:
    """The difference, with its interval where runs give one; empty where there is none."""
    if mean.delta is None:
        return ""
    said = _signed(mean.delta)
    if mean.ci_low is not None and mean.ci_high is not None:
        said += f" [{_signed(mean.ci_low)}, {_signed(mean.ci_high)}]"
    return said


def _signed(value: float) -> str:
    return f"{value:+.1f}" if abs(value) >= 0.05 else "0.0"


def sampling(system: System) -> list[str]:
    """How each device was sampled, a line a side where the sides differ, and what is not shown of it."""
    lines = []
    for row in system.gpu_sampling:
        said = [
            _sampled(side, _a_step(system.gpu_metrics, row, name))
            for name, side in (("baseline", row.baseline), ("candidate", row.candidate))
            if side is not ABSENT
        ]
        if said[0] == said[-1]:
            lines.append(f"{metric_device(row)}: {said[0]}")
        else:
            lines += [
                f"{metric_device(row)}, {name}: {text}"
                for name, text in zip(("baseline", "candidate"), said, strict=True)
            ]
    return lines


def _a_step(rows: Sequence[GpuMetricRow], device: GpuSampling, side: str) -> float | None:
    found = [
        one.samples_per_step
        for row in rows
        if (row.rank, row.device) == (device.rank, device.device) and (one := getattr(row, side)) is not None
    ]
    return max(found, default=None)


def _sampled(side: GpuSamplingSide | None, a_step: float | None) -> str:
    if side is None:
        return NOT_CAPTURED
    if not side.told or side.interval_ns is None:
        return "not shown: the export does not say which of the sampled GPUs this device is"
    gpu = "" if side.gpu is None else f"GPU {side.gpu} of nsys, "
    said = f"{gpu}a sample each {side.interval_ns / 1e3:.1f} us, {units.count(a_step or 0.0)} per step"
    if side.unread_metrics:
        said += f"; metrics in other units than % and MHz, not read: {side.unread_metrics}"
    return said


# Ranks in words: which of them stand out, and which one the others wait for.


_RANKS_NAMED = 3


def rank_outliers(result: Result) -> list[str]:
    """A sentence for each of the ranks that changed otherwise than the rest, and one for those that are not named."""
    found = [
        row
        for row in sorted(result.ranks, key=rank_order)
        if row.outlier is not None and abs(row.outlier) >= OUTLIER
    ]
    out = [_outlier(row) for row in found[:_RANKS_NAMED]]
    if more := len(found[_RANKS_NAMED:]):
        of = f"{units.counted(more, 'more rank')} of {len(result.ranks)}"
        out.append(f"{of} changed otherwise than the rest.")
    return out


def _outlier(row: RankRow) -> str:
    scale = units.scale_for([row.delta_own_ns or 0.0, row.candidate_own_ns or 0.0])
    text = f"Rank {row.rank} changed otherwise than the rest"
    if row.delta_own_ns is not None:
        text += f": its own time by {scale.signed(row.delta_own_ns)} {scale.unit} per step"
    return text + (f"; {late}." if (late := _late_rank(row)) else ".")


def _late_rank(row: RankRow) -> str:
    if not row.candidate_last or row.candidate_behind_ns is None:
        return ""
    behind = units.scale_for([row.candidate_behind_ns]).time(row.candidate_behind_ns)
    return f"the last one in {units.share(row.candidate_last)} of the candidate's steps, by {behind}"


def rank_skew(one: RankSkew, two: bool = True) -> str:
    """How far the ranks of a side are apart; `two`: there are two sides."""
    late = units.scale_for([one.late_ns]).time(one.late_ns)
    text = f"{f'{one.side}: ' if two else ''}the last of {one.ranks} ranks is {late} after the median one"
    if one.slowest is not None:
        text += f"; rank {one.slowest} most often, in {units.share(one.slowest_share)} of {one.steps:,} steps"
    return text + "."
