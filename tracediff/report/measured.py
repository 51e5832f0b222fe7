"""What only some captures hold, as tables and notes for every output: GPU time by layer, rates against the GPU's peak, time of the host."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tracediff.model import KernelRow, Result
from tracediff.model.common import ABSENT
from tracediff.model.host import HostRow, HostSide, HostTime
from tracediff.model.kernels import LayerRow, Layers, LayerSide, LimitsRow, PhaseUse, Reached
from tracediff.model.show import Show
from tracediff.report import names, units, words
from tracediff.report.document import TableOf

LIMITS = "Limits of the hardware"
_LIMITS_LEAD = (
    "Rates of launches whose shapes or bytes were recorded, against the peak of the data sheet (dense, at boost clock)."
    " Other kernels are not here: nothing is estimated."
)


@dataclass(frozen=True)
class Part:
    """A section of a report; `lead` stands above its tables on a page."""

    key: str
    title: str
    lead: str
    tables: list[TableOf]


def parts(report: Result | Show) -> list[Part]:
    """The sections that the captures have something for."""
    found = [_limits(report), _layers(report), _host(report)]
    return [part for part in found if part is not None and part.tables]


def tables(report: Result | Show) -> list[TableOf]:
    """Those of all sections."""
    return [table for part in parts(report) for table in part.tables]


# Layers of the model.


def _layers(report: Result | Show) -> Part | None:
    layers, two = report.layers, isinstance(report, Result)
    if layers is None:
        return None
    lead = "GPU time of the mean step, by the layer of the model that launched it."
    if two:
        lead += " Rows add up to the GPU time of the mean step of all phases."
    per_kind = Counter(row.kind for row in layers.rows)

    def count(row: LayerRow) -> list[str]:
        return [str(per_kind[row.kind]) if row.kind else "-"]

    tables = [
        _layer_table("Time by layer, mean step", ("Kind of layer", "Layers"), layers.kinds, count, "layers.kinds", two=two),
        _layer_table("Each layer, mean step", ("Layer",), layers.rows, lambda row: [], "layers.rows", two=two),
    ]  # fmt: skip
    return Part(
        "layers", "Time by layer", lead, [replace(tables[0], notes=_layer_notes(report, layers)), tables[1]]
    )


def _layer_table(
    title: str, heads: tuple[str, ...], rows: list[LayerRow], more: Callable[[LayerRow], list[str]], field: str, *, two: bool
) -> TableOf:  # fmt: skip
    total = sum(row.baseline_ns for row in rows)

    def figures(row: LayerRow, scale: units.Scale) -> list[str]:
        if not two:
            return [scale.number(row.baseline_ns), units.share(row.baseline_ns, total)]
        level = words.tested_level(row)
        return [
            scale.number(row.baseline_ns),
            scale.number(row.candidate_ns),
            scale.interval(row.delta_ns, row.ci_low_ns, row.ci_high_ns),
            words.LEVELS[level][0] if level else "not tested",
        ]

    columns: tuple[str, ...] = ("{} per step", "% of GPU time")
    if two:
        columns = ("Baseline, {}", "Candidate, {}", "Change, {}", "Certainty")
    return TableOf(
        title,
        (*heads, *columns),
        "n" + "f" * (len(heads) - 1) + ("fffp" if two else "ff"),
        rows,
        lambda row, scale: [row.layer or "in no known layer", *more(row), *figures(row, scale)],
        field,
        lambda row: [row.baseline_ns, row.candidate_ns] if two else [row.baseline_ns],
        on_terminal=field == "layers.kinds",
    )


def _layer_notes(report: Result | Show, layers: Layers) -> list[str]:
    """What the rows of a comparison say, and how the layers of each side are known."""
    if isinstance(report, Show):
        return [_known_by("", layers.baseline)]
    return [
        "± 95 %; ~ may be noise, all rows tested at once, or under 0.1 % of the step.",
        _known_by("the baseline's ", layers.baseline),
        _known_by("the candidate's ", layers.candidate),
    ]


def _known_by(whose: str, side: LayerSide) -> str:
    known = {
        "by the range of their launch": side.by_range,
        "by the range in which their graph was captured": side.by_graph,
    }
    ways = [(share, how) for how, share in known.items() if share]
    said = "; ".join(how if len(ways) == 1 else f"{units.share(share)} {how}" for share, how in ways)
    graphs = "" if side.of_graphs is None else f" (in CUDA graphs {units.share(side.of_graphs)})"
    return f"{units.share(side.attributed)} of {whose}GPU time is in a known layer{graphs}, {said}."


def layers_of(row: KernelRow) -> str:
    """The kinds of layer that a kernel runs in."""
    return ", ".join(row.layers) or "-"


# Limits of the hardware.

_MOST = 2  # remarks of each bound
_NEAR = 0.6  # of a peak: as in Nsight Compute's rule SOLBottleneck
_WORTH = 0.02  # of the step: decode among long prefills is little of the mean one
_UNTYPED = (
    "The share of the compute peak is unknown where a kernel's name does not tell its data type."
    " torch.profiler with record_shapes=True records the type."
)
_WHOLE = 0.9  # of a kernel's time is known: the table of kernels then says what it reached
# Head of a column, its kind, what its cells say where it says nothing, and its text of one side.
_LIMIT_COLUMNS: tuple[tuple[str, str, set[str], Callable[[Reached], str]], ...] = (
    ("Work", "p", {"-"}, lambda one: _work(one)),
    ("Computes", "f", {"-"}, lambda one: _rate(one.flop_per_s, 1e12, "TFLOP/s")),
    ("Of peak", "f", {"-"}, lambda one: _share(one.of_flops)),
    ("Moves", "f", {"-"}, lambda one: _rate(one.bytes_per_s, 1e9, "GB/s")),
    ("Of bandwidth", "f", {"-"}, lambda one: _share(one.of_bandwidth)),
    ("Of its time known", "f", {"-", "100 %"}, lambda one: _share(one.known)),
)


def _limits(report: Result | Show) -> Part | None:
    limits = report.limits
    if limits is None:
        return None
    rows = _limit_rows(report)
    called = dict(
        zip(map(id, rows), names.kernels([report.kernels[row.kernel] for row in rows]), strict=True)
    )
    # what says nothing of any row is left out
    columns = [
        one for one in _LIMIT_COLUMNS if {_both(row, one[3], skip=one[0] == "Work") for row in rows} - one[2]
    ]
    tables = [
        TableOf(
            LIMITS,
            ["Kernel", *(head for head, *_ in columns)],
            "n" + "".join(kind for _, kind, *_ in columns),
            rows,
            lambda row, scale: [
                called[id(row)],
                *(_both(row, text, skip=head == "Work") for head, _, _, text in columns),
            ],
            "limits.rows",
        ),
        TableOf(
            "Model FLOP utilisation (MFU)",
            ("Phase", "MFU", "Of the time in GEMMs and attention known"),
            "pff",
            limits.phases,
            lambda row, scale: [
                row.phase, _both(row, lambda one: _share(one.mfu)), _both(row, lambda one: _share(one.known))
            ],
            "limits.phases",
        ),
    ]  # fmt: skip
    sources = dict.fromkeys(f"{gpu.name}: {gpu.source}." for gpu in limits.gpus if gpu)
    gpus = dict.fromkeys(gpu.name for gpu in limits.gpus if gpu)
    peaks = f"{' and '.join(gpus)}, by the data sheet" if gpus else "unknown for this GPU"
    reached = [one for row in rows for one in _sides(row) if one]
    unknown = any(one.flop_per_s is not None and not one.dtype for one in reached)
    notes = [*_remarks(report), *([_UNTYPED] if gpus and unknown else []), f"Peak rates: {peaks}"]
    shown = [table for table in tables if table.rows]
    shown[:1] = [replace(table, notes=notes) for table in shown[:1]]
    return Part("limits", LIMITS, " ".join([_LIMITS_LEAD, *sources]), shown)


def _limit_rows(report: Result | Show) -> list[LimitsRow]:
    """Those whose kernel is there: a saved result may be of anyone."""
    rows = report.limits.rows if report.limits else []
    return [row for row in rows if 0 <= row.kernel < len(report.kernels)]


def of_peak(report: Result | Show) -> dict[int, str]:
    """Row of `kernels` -> the part of the nearer peak that it reached, where nearly all of its time is known."""
    found = {}
    for row in _limit_rows(report):
        said = _both(row, lambda one: _share(_nearer(one)) if one.known >= _WHOLE else "-")
        if said != "-":
            found[row.kernel] = said
    return found


def _remarks(report: Result | Show) -> list[str]:
    """What kernels near a limit could still win."""
    step = report.step.mean_ns if isinstance(report, Show) else report.step.candidate_ns
    found: dict[str, list[tuple[float, str]]] = {}
    for row in _limit_rows(report):
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


def _work(one: Reached) -> str:
    if not one.shapes:
        return "-"
    more = " ..." if len(one.shapes) > 1 else ""
    return f"{one.shapes[0]}{more}{f' {one.dtype}' if one.dtype else ''}"


def _rate(value: float | None, unit: float, name: str) -> str:
    return "-" if value is None else f"{units.three_digits(value / unit)} {name}"


def _share(part: float | None) -> str:
    return "-" if part is None else units.share(part)


def _sides(row: LimitsRow | PhaseUse) -> list[Any]:
    return [one for one in (row.baseline, row.candidate) if one is not ABSENT]


def _both(row: LimitsRow | PhaseUse, text: Callable[[Any], str], *, skip: bool = False) -> str:
    """The texts of both sides; `skip`: a side that says nothing is left out."""
    said = [text(one) if one else "-" for one in _sides(row)]
    return units.arrow([one for one in said if not skip or one != "-"] or ["-"])


# Host time by CUDA call and by NVTX range, where there are no GPU kernels.


def _host(report: Result | Show) -> Part | None:
    host = report.host
    if host is None:
        return None
    lead = "No GPU kernels were recorded: this is the time of host threads, children included."
    notes = (
        ["± 95 %, over runs; ~ may be noise, all rows tested at once"] if isinstance(report, Result) else []
    )
    if isinstance(report, Result) and min(report.step.runs.baseline, report.step.runs.candidate) < 2:
        notes = ["± 95 %, from the calls of one run per side: what differs from run to run is not in it"]
    tables = [
        _host_table(f"Host time by {title}, per {host.per}", head, rows, two=isinstance(report, Result))
        for kind, title, head in (
            ("call", "CUDA call", "Call"),
            ("range", "NVTX range", "Range"),
            ("os_call", "OS call", "Call"),
        )
        if (rows := [row for row in host.rows if row.kind == kind])
    ]
    tables[-1:] = [replace(table, notes=notes) for table in tables[-1:]]
    return Part("host", "Host time", lead, tables)


def _host_table(title: str, head: str, rows: list[HostRow], *, two: bool) -> TableOf:
    called = (head,) if rows[0].kind == "call" else (head, "Thread")
    heads: tuple[str, ...] = ("Count", "Each", "{}")
    if two:
        heads = ("Count", "Each", "Change of one", "{}, baseline", "{}, candidate", "Delta", "Change")
    cells = _host_both if two else _host_one
    return TableOf(
        title,
        (*called, *heads),
        "n" * len(called) + "f" * len(heads),
        rows,
        lambda row, scale: [*[row.name, row.thread][: len(called)], *cells(row, scale)],
        "host.rows",
        lambda row: [side.ns for side in _host_sides(row) if side],
    )


def _host_sides(row: HostRow) -> list[HostSide | None]:
    return [side if isinstance(side, HostSide) else None for side in (row.baseline, row.candidate)]


def _host_one(row: HostRow, scale: units.Scale) -> list[str]:
    side = next(side for side in _host_sides(row) if side)
    each = units.scale_for([side.mean_ns])
    return [units.count(side.count), each.time(side.mean_ns), scale.number(side.ns)]


def _host_both(row: HostRow, scale: units.Scale) -> list[str]:
    sides = _host_sides(row)
    each = units.scale_for([side.mean_ns for side in sides if side])
    means = [each.number(side.mean_ns) if side else "-" for side in sides]
    totals = [scale.number(side.ns) if side else "-" for side in sides]
    delta = units.delta(scale, row.delta_ns, sides[0].ns if sides[0] else 0.0, row.level)
    of_one = "-"
    if isinstance(row.mean_delta_ns, float):
        of_one = each.interval(row.mean_delta_ns, row.mean_ci_low_ns, row.mean_ci_high_ns)
    return [
        units.arrow(units.count(side.count) if side else "0" for side in sides),
        f"{' -> '.join(means)} {each.unit}",
        of_one,
        *totals,
        scale.interval(row.delta_ns, row.ci_low_ns, row.ci_high_ns),
        delta.percent,
    ]


def largest_of_host(host: HostTime) -> str:
    """The row that changed most, for the first sentence; empty without rows."""
    if not host.rows:
        return ""
    row = host.rows[0]
    before, after = (side.ns if side else 0.0 for side in _host_sides(row))
    prose = units.prose([before, after])
    level = "" if row.level == "within_noise" else f", {words.LEVELS[row.level][0]}"
    what = "range" if row.kind == "range" else "time in"
    return f"{what} {row.name} {prose.size(before)} -> {prose.size(after)} per {host.per}{level}"
