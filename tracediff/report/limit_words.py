"""Rates that kernels reached against the GPU's peak, as tables and sentences, for every output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tracediff.model import KernelRow, Result
from tracediff.model.common import ABSENT
from tracediff.model.kernels import LimitsRow, PhaseUse, Reached
from tracediff.model.show import Show
from tracediff.report import names, units
from tracediff.report.document import TableOf

TITLE = "Limits of the hardware"
LEAD = (
    "Rates of launches whose shapes or bytes were recorded, against the peak of the data sheet (dense, at boost clock)."
    " Other kernels are not here: nothing is estimated."
)
_HEADS = ("Kernel", "Work", "Computes", "Of peak", "Moves", "Of bandwidth", "Of its time known")
_MOST = 2  # remarks of each bound
_NEAR = 0.6  # of a peak: as in Nsight Compute's rule SOLBottleneck
_WORTH = 0.02  # of the step: decode among long prefills is little of the mean one
_UNTYPED = (
    "The share of the compute peak is unknown where a kernel's name does not tell its data type."
    " torch.profiler with record_shapes=True records the type."
)
_WHOLE = 0.9  # of a kernel's time is known: the table of kernels then says what it reached


def tables(report: Result | Show) -> list[TableOf]:
    """Kernels and copies by their rates, and the FLOP utilisation of phases; none where nothing is known."""
    limits, listed = report.limits, _rows(report)
    if limits is None:
        return []
    rows = [report.kernels[row.kernel] for row in listed]
    cells = [[name, *_cells(row)] for name, row in zip(names.kernels(rows), listed, strict=True)]
    # what says nothing of any row is left out
    nothing = [{"-"}] * (len(_HEADS) - 1) + [{"-", "100 %"}]
    columns = [place for place, without in enumerate(nothing) if {row[place] for row in cells} - without]
    shown = {id(row): [text[place] for place in columns] for row, text in zip(listed, cells, strict=True)}
    found = [
        TableOf(
            TITLE, [_HEADS[place] for place in columns], "".join("npfffff"[place] for place in columns), listed,
            lambda row, scale: shown[id(row)], "limits.rows",
        ),
        TableOf(
            "Model FLOP utilisation (MFU)", ("Phase", "MFU", "Of the time in GEMMs and attention known"), "pff", limits.phases,
            lambda row, scale: [
                row.phase,
                _both([_share(one.mfu) if one else "-" for one in _sides(row)]),
                _both([_share(one.known) if one else "-" for one in _sides(row)]),
            ], "limits.phases",
        ),
    ]  # fmt: skip
    return [table for table in found if table.rows]


def _rows(report: Result | Show) -> list[LimitsRow]:
    """Those whose kernel is there: a saved result may be of anyone."""
    rows = report.limits.rows if report.limits else []
    return [row for row in rows if 0 <= row.kernel < len(report.kernels)]


def of_peak(report: Result | Show) -> dict[int, str]:
    """Row of `kernels` -> the part of the nearer peak that it reached, where nearly all of its time is known."""
    found = {}
    for row in _rows(report):
        sides = [_share(_nearer(one)) if one and one.known >= _WHOLE else "-" for one in _sides(row)]
        if any(side != "-" for side in sides):
            found[row.kernel] = _both(sides)
    return found


def notes(report: Result | Show) -> list[str]:
    """What kernels near a limit could still win, which types are unknown, and where the peaks are from."""
    if report.limits is None:
        return []
    gpus = dict.fromkeys(gpu.name for gpu in report.limits.gpus if gpu)
    peaks = f"{' and '.join(gpus)}, by the data sheet" if gpus else "unknown for this GPU"
    reached = [one for row in _rows(report) for one in _sides(row) if one]
    unknown = any(one.flop_per_s is not None and not one.dtype for one in reached)
    untyped = [_UNTYPED] if gpus and unknown else []
    return [*_remarks(report), *untyped, f"Peak rates: {peaks}"]


def _remarks(report: Result | Show) -> list[str]:
    step = report.step.mean_ns if isinstance(report, Show) else report.step.candidate_ns
    found: dict[str, list[tuple[float, str]]] = {}
    for row in _rows(report):
        kernel, one = report.kernels[row.kernel], _sides(row)[-1]
        side = kernel.candidate if isinstance(report, Result) else kernel.baseline
        if one and side and one.known >= _WHOLE and side.ns_per_step >= _WORTH * step:
            near = _nearer(one)
            if near is not None and near >= _NEAR and one.least is not None:
                bound = one.link if near == one.of_bandwidth else "compute"
                found.setdefault(bound, []).append((side.ns_per_step, _remark(kernel, one, bound)))
    longest = [one for each in found.values() for one in sorted(each, reverse=True)[:_MOST]]
    return [text for _, text in sorted(longest, reverse=True)]


def _remark(kernel: KernelRow, one: Reached, bound: str) -> str:
    near, most = (_share(part) for part in (_nearer(one), 1 - (one.least or 0)))
    what, win = f"{names.kernel(kernel, width=80)} reaches {near} of", "can win at most"
    if bound == "host":
        return f"{what} the bandwidth to the host: a faster copy {win} {most} of its time."
    faster = f"it is bound by {bound}, and a faster kernel for the same work {win}"
    if bound == "compute":
        return f"{what} the compute peak ({one.dtype}): {faster} {most} of its time."
    cached = f" ({most} if the L2 cache already held part of its operands)"
    least = _share(1 - (one.of_bandwidth or 0))
    return f"{what} the memory bandwidth: {faster} {least} of its time{cached if least != most else ''}."


def _nearer(one: Reached) -> float | None:
    """A small part of one peak says nothing where that of the other is unknown."""
    near = max((part for part in (one.of_flops, one.of_bandwidth) if part is not None), default=None)
    return near if near is None or near >= _NEAR or one.bytes_per_s is not None else None


def _cells(row: LimitsRow) -> list[str]:
    sides: list[Reached | None] = _sides(row)
    return [
        _both([text for one in sides if (text := _work(one)) != "-"] or ["-"]),
        _both([_rate(one.flop_per_s, 1e12, "TFLOP/s") if one else "-" for one in sides]),
        _both([_share(one.of_flops) if one else "-" for one in sides]),
        _both([_rate(one.bytes_per_s, 1e9, "GB/s") if one else "-" for one in sides]),
        _both([_share(one.of_bandwidth) if one else "-" for one in sides]),
        _both([_share(one.known) if one else "-" for one in sides]),
    ]


def _work(one: Reached | None) -> str:
    if one is None or not one.shapes:
        return "-"
    more = " ..." if len(one.shapes) > 1 else ""
    return f"{one.shapes[0]}{more}{f' {one.dtype}' if one.dtype else ''}"


def _rate(value: float | None, unit: float, name: str) -> str:
    return "-" if value is None else f"{units.three_digits(value / unit)} {name}"


def _share(part: float | None) -> str:
    return "-" if part is None else units.share(part)


def _sides(row: LimitsRow | PhaseUse) -> list[Any]:
    return [one for one in (row.baseline, row.candidate) if one is not ABSENT]


def _both(texts: Sequence[str]) -> str:
    return " -> ".join(dict.fromkeys(texts))
