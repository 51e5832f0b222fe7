"""Two files of Nsight Compute compared: kernels paired, measured side by side, and a sentence for each pair."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec.structs import replace

from tracediff.align.kernel_categories import category
from tracediff.align.kernels import OpKey
from tracediff.align.ncu import Pairing, pair, related
from tracediff.load.ncu import Profile
from tracediff.load.ncu_metrics import METRICS
from tracediff.measure import ncu_text as text
from tracediff.measure.ncu_fusion import in_all, regrouped, undecided
from tracediff.measure.ncu_kernels import Kernel, combine, kernels, key_of
from tracediff.measure.ncu_reasons import factors, reasons
from tracediff.measure.ncu_rules import CLEAR_CHANGE
from tracediff.model import KernelRow, Ncu, NcuKernel, NcuMissing, NcuReason, NcuRow, NcuSide, Note

# Not of every GPU or version of ncu: their absence is no advice.
_RARE = frozenset({"limit_barriers", "spill_instructions", "load_bytes_per_sector", "store_bytes_per_sector",
                   "dram_clock_hz", "sector_efficiency_pct", "bank_conflict_pct", "wide_access_pct",
                   "load_sectors_per_request", "store_sectors_per_request", "tensor_pct", "sms"})  # fmt: skip
_CLOCKS_DIFFER = 0.05
_ORDER = {"slower": 0, "faster": 0, "not_collected": 1, "no_clear_change": 2, "added": 3, "removed": 3}


def compare_ncu(baseline: Profile, candidate: Profile, rows: Sequence[KernelRow] = ()) -> Ncu:
    """Compare two profiles; `rows`: kernel rows of a comparison of steps, which then say what belongs together."""
    known = kernels(baseline.launches), kernels(candidate.launches)
    orders = [[key_of(launch) for launch in side.launches] for side in (baseline, candidate)]
    found = [_row(pairing, *known, rows) for pairing in pair(orders[0], orders[1], rows)]
    return Ncu(
        baseline=_side(baseline, known[0]),
        candidate=_side(candidate, known[1]),
        rows=sorted(found, key=_rank),
        warnings=_warnings(baseline, candidate, found),
    )


def _rank(row: NcuRow) -> tuple[int, float, list[str]]:
    """Clear changes first, largest first; then the rest by time."""
    sides = [side for side in (row.baseline, row.candidate) if side]
    longest = max((side.values.get("duration_ns", 0.0) for side in sides), default=0.0)
    order = _ORDER[row.change]
    return order, -(abs(row.delta_ns or 0.0) if order == 0 else longest), sides[0].names + sides[0].grids


def _row(
    pairing: Pairing, before: dict[OpKey, Kernel], after: dict[OpKey, Kernel], rows: Sequence[KernelRow]
) -> NcuRow:
    said = undecided(pairing, before, after, rows) if pairing.baseline and pairing.candidate else ""
    pairing, taken = regrouped(pairing, before, after, rows)
    together = pairing.match in ("fused", "split")
    one = combine(pairing.baseline, before, together) if pairing.baseline else None
    other = combine(pairing.candidate, after, together) if pairing.candidate else None
    row = NcuRow(
        match=pairing.match,  # type: ignore[arg-type]
        confidence=pairing.confidence,
        change="not_collected",
        baseline=one,
        candidate=other,
        delta_ns=None,
        sentence="the duration was not collected (gpu__time_duration.sum)",
        kernel=pairing.kernel,
    )
    if one is None and other is not None:
        return replace(row, change="added", sentence=f"only in the candidate: {_alone(other)}")
    if other is None and one is not None:
        return replace(row, change="removed", sentence=f"only in the baseline: {_alone(one)}")
    assert one is not None and other is not None
    times = one.values.get("duration_ns"), other.values.get("duration_ns")
    if not times[0] or not times[1]:
        return row
    change = "no_clear_change" if said else _change(one, other)
    why = [] if change == "no_clear_change" else _why(pairing, one, other)
    if together:
        said = _of_sums(in_all(pairing, before, after), change, times[0], times[1], why)
    return replace(
        row,
        change=change,
        delta_ns=times[1] - times[0],
        sentence=said or _sentence(change, times[0], times[1], why, one, other),
        reasons=why,
        factors=factors(one, other),
        note="; ".join(filter(None, (taken, _note(pairing, one, other)))),
    )


def _change(one: NcuKernel, other: NcuKernel) -> Literal["faster", "slower", "no_clear_change"]:
    """Tell whether the durations differ: beyond the threshold, and beyond the spread of the launches where known."""
    before, after = one.values["duration_ns"], other.values["duration_ns"]
    if abs(after - before) < CLEAR_CHANGE * before or _overlap(one, other):
        return "no_clear_change"
    return "slower" if after > before else "faster"


def _overlap(one: NcuKernel, other: NcuKernel) -> bool:
    """The launches of both sides, at least two each, cover common ground."""
    if min(one.launches, other.launches) < 2:
        return False
    ends = one.duration_min_ns, one.duration_max_ns, other.duration_min_ns, other.duration_max_ns
    if ends[0] is None or ends[1] is None or ends[2] is None or ends[3] is None:
        return False
    return ends[0] <= ends[3] and ends[2] <= ends[1]


def _why(pairing: Pairing, one: NcuKernel, other: NcuKernel) -> list[NcuReason]:
    found = reasons(one, other)
    if pairing.match not in ("fused", "split"):
        return found
    counts = len(pairing.baseline), len(pairing.candidate)
    words = f"{counts[0]} kernel{'s' if counts[0] > 1 else ''} -> {counts[1]}"
    return [NcuReason(pairing.match, "cause", words), *found]


def _sentence(
    change: str, before: float, after: float, why: Sequence[NcuReason], one: NcuKernel, other: NcuKernel
) -> str:
    both = text.both(text.time(before), text.time(after))
    if change == "no_clear_change":
        return f"no clear change: {both} ({100 * (after - before) / before:+.1f} %)"
    head = f"{text.times(before, after)} {change} ({both})"
    if why:
        return f"{head}: {'; '.join(reason.text for reason in why)}"
    if (
        not one.stalls
        or not other.stalls
        or "achieved_occupancy_pct" not in one.values
        or "memory_pct" not in other.values
    ):
        return f"{head}: the counters that would say why were not collected (ncu --set full)"
    return f"{head}: no rule explains it; occupancy, instructions, traffic and stalls are alike"


def _of_sums(sums: str, change: str, before: float, after: float, why: Sequence[NcuReason]) -> str:
    """The sentence of kernels that became one, or several: what they take in all."""
    by = 100 * (after - before) / before
    if change == "no_clear_change":
        return f"{sums}, no clear change in all ({by:+.1f} %)"
    head = f"{sums}, {text.percent(abs(by))} % {'less' if by < 0 else 'more'} in all"
    return "; ".join([head, *(reason.text for reason in why if reason.rule not in ("fused", "split"))])


def _alone(side: NcuKernel) -> str:
    duration = side.values.get("duration_ns")
    return f"{text.time(duration)} a launch" if duration else "its duration was not collected"


def _note(pairing: Pairing, one: NcuKernel, other: NcuKernel) -> str:
    notes = []
    if pairing.match == "sequence" and not related(one.names[0], other.names[0]):
        notes.append(
            f"another kind of kernel ({category(one.names[0])}, {category(other.names[0])}) with no word of its name in common:"
            " paired by its place alone"
        )
    if min(one.launches, other.launches) < 2:
        notes.append("one launch on a side: how much its duration varies is not known")
    if (
        one.launches != other.launches
        and pairing.kernel is None
        and pairing.match not in ("exact", "fused", "split")
    ):
        notes.append(
            f"{one.launches} launches were profiled against {other.launches}: times are those of one launch each,"
            " so a kernel that does the work of several looks slower than it is"
        )
    return "; ".join(notes)


def _side(profile: Profile, known: dict[OpKey, Kernel]) -> NcuSide:
    missing: dict[str, list[str]] = {}
    for metric in METRICS:
        if metric.key not in _RARE and any(metric.key not in kernel.values for kernel in known.values()):
            missing.setdefault(metric.section, []).append(metric.key)
    if any(not kernel.stalls for kernel in known.values()):
        missing.setdefault("WarpStateStats", []).append("stalls")
    groups = [NcuMissing(keys, f"--section {section}") for section, keys in missing.items()]
    if profile.source == "csv-details" and groups:
        keys = [key for group in groups for key in group.keys]
        groups = [NcuMissing(keys, "--page raw (the details page holds a part of what was collected)")]
    elif len(groups) > 3:
        groups = [NcuMissing([key for group in groups for key in group.keys], "--set full")]
    return NcuSide(profile.file, profile.source, profile.device, len(profile.launches), len(known), groups)  # type: ignore[arg-type]


def _warnings(baseline: Profile, candidate: Profile, rows: Sequence[NcuRow]) -> list[Note]:
    notes = []
    if baseline.device and candidate.device and baseline.device != candidate.device:
        notes.append(
            Note(
                "ncu-devices-differ",
                f"profiled on {baseline.device} and on {candidate.device}: % of peak are of another peak",
            )
        )
    differ = [row for row in rows if _clocks_differ(row)]
    if differ:
        notes.append(
            Note("ncu-clocks-differ", f"{len(differ)} of {len(rows)} kernels ran at SM clocks that differ by more than"
                 f" {100 * _CLOCKS_DIFFER:.0f} %: durations compare clocks as well (ncu --clock-control)")
        )  # fmt: skip
    if not any(row.baseline and row.candidate for row in rows):
        notes.append(Note("ncu-nothing-paired", "no kernel of one side is like one of the other"))
    return notes


def _clocks_differ(row: NcuRow) -> bool:
    if row.baseline is None or row.candidate is None:
        return False
    clocks = [side.values.get("sm_clock_hz", 0.0) for side in (row.baseline, row.candidate)]
    return min(clocks) > 0 and max(clocks) / min(clocks) > 1 + _CLOCKS_DIFFER
