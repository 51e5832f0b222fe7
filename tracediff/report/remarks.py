"""Sentences that stand beside tables: what few captures hold, how it is known, and which rank stands out. Their patterns are in report/grammar.txt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from tracediff.model import KernelRow, RankRow, RankSkew, Result, System, ThreadRow
from tracediff.model.host import CommCallRow
from tracediff.model.kernels import LimitsRow, Reached
from tracediff.model.show import Show
from tracediff.report import units, words
from tracediff.report.amounts import NAME, NAMED
from tracediff.report.causes import members, the_thread
from tracediff.report.escape import shorten
from tracediff.report.fields import reached
from tracediff.report.grammar import say
from tracediff.stats.rules import NEAR_PEAK, NEARLY, OUTLIER
from tracediff.trace.threads import RESPONSE_ROLES

# Kernels


def kernels_listed(result: Result, listed: Sequence[KernelRow], phase: str) -> str:
    """What the rows with the largest differences are: of one side alone, changed, within noise, or never tested; in which step of a phase, '' all."""
    sides = (("baseline", result.coverage.baseline), ("candidate", result.coverage.candidate))
    recorded = [name for name, kinds in sides if kinds.get("kernels") != "not_captured"]
    if len(recorded) == 1:
        return say("kernels_of_side", side=recorded[0])
    levels = {words.tested_level(row) for row in listed}
    pattern = "kernels_untested" if any(one.judged for one in result.phases) else "kernels_few_steps"
    if levels - {"within_noise", None}:
        pattern = "kernels_changed"
    elif "within_noise" in levels:
        pattern = "kernels_within"
    unit = words.unit(result)
    if unit != "step":
        return say(pattern, step=say("whole_unit", unit=unit))
    return say(pattern, step=say("typical_of" if phase else "mean_of", step=units.step(phase)))


# Layers of the model


def layers_known(report: Result | Show) -> list[str]:
    """Of how much GPU time of each side the layer is known."""
    layers = report.layers
    if layers is None:
        return []
    if isinstance(report, Show):
        return [say("layers_known", attributed=units.share(layers.baseline.attributed), time="GPU time")]
    sides = (("baseline", layers.baseline), ("candidate", layers.candidate))
    return [
        say("layers_known", attributed=units.share(of.attributed), time=f"{name}'s GPU time")
        for name, of in sides
    ]


# Limits of the hardware


def limit_rows(report: Result | Show) -> list[LimitsRow]:
    """Those whose kernel is there: a saved result may be of anyone."""
    rows = report.limits.rows if report.limits else []
    return [row for row in rows if 0 <= row.kernel < len(report.kernels)]


def of_peak(report: Result | Show) -> dict[int, str]:
    """Row of `kernels` -> the part of the nearer peak that it reached, where nearly all of its time is known."""
    found = {}
    for row in limit_rows(report):
        sides = [_nearer(one) for one in reached(row) if one.known >= NEARLY]
        if shares := [units.share(near) for near in sides if near is not None]:
            found[row.kernel] = units.arrow(shares)
    return found


def limits(report: Result | Show) -> list[str]:
    """Where peaks are from, and why the part of one is not known."""
    if report.limits is None:
        return []
    gpus = [gpu for gpu in report.limits.gpus if gpu]
    sides = (one for row in limit_rows(report) for one in reached(row))
    untyped = bool(gpus) and any(one.flop_per_s is not None and not one.dtype for one in sides)
    said = [say("peak", gpu=gpu.name, source=gpu.source) for gpu in gpus] or [say("no_peak")]
    return [*[say("untyped")] * untyped, *dict.fromkeys(said)]


def _nearer(one: Reached) -> float | None:
    """A small part of one peak says nothing where that of the other is unknown."""
    near = max((part for part in (one.of_flops, one.of_bandwidth) if part is not None), default=None)
    return near if near is None or near >= NEAR_PEAK or one.bytes_per_s is not None else None


# What the system recorded


def missing(report: Result | Show) -> dict[str, str]:
    """Side, or either -> which kinds that few captures hold it did not record, and what would."""
    lacking: dict[str, list[str]] = {}
    for kind, name in sorted(words.SYSTEM_KINDS.items()):
        if side := words.sides_without(report, kind):
            lacking.setdefault(side, []).append(f"{name} ({words.capture_with(report, kind)})")
    return {
        side: say("not_seen", at=words.on_side(report, side), kinds=", ".join(kinds))
        for side, kinds in lacking.items()
    }


def no_bytes(calls: Sequence[CommCallRow]) -> list[str]:
    """What would export the bytes of NCCL's calls, where a side has such calls and no bytes."""
    sides = [
        side
        for row in calls
        if row.library == "NCCL"
        for side in ((row.baseline_count, row.baseline_bytes), (row.candidate_count, row.candidate_bytes))
    ]
    return [say("nccl_bytes")] if any(count and size is None for count, size in sides) else []


def unplaced(system: System) -> list[str]:
    """Devices whose metrics are not shown: the export does not say which of the sampled GPUs they are."""
    known = ((row, side) for row in system.gpu_sampling for side in reached(row))
    unsure = ((row.rank, row.device) for row, side in known if not side.told or side.interval_ns is None)
    return [say("unplaced", rank=f"{rank}", device=f"{device}") for rank, device in dict.fromkeys(unsure)]


# Ranks: which of them stand out, and which one the others wait for


def rank_order(row: RankRow) -> tuple[float, int, int]:
    """Order ranks: outliers first, those that are furthest from the others; then by their number."""
    far = abs(row.outlier or 0.0)
    return (-far if far >= OUTLIER else 0.0), row.rank, row.device


def rank_outliers(result: Result) -> list[str]:
    """A sentence for each of the ranks that changed otherwise than the rest, and one for those that are not named."""
    found = [
        row
        for row in sorted(result.ranks, key=rank_order)
        if row.outlier is not None and abs(row.outlier) >= OUTLIER
    ]
    out = [_outlier(row) for row in found[:NAMED]]
    if more := len(found[NAMED:]):
        out.append(say("ranks_apart_more", count=f"{more}", ranks=f"{len(result.ranks)}"))
    return out


def _outlier(row: RankRow) -> str:
    scale = units.scale_for([row.delta_own_ns or 0.0, row.candidate_own_ns or 0.0])
    slots = {"rank": f"{row.rank}", "size": scale.delta(row.delta_own_ns or 0.0)}
    if not row.candidate_last or row.candidate_behind_ns is None:
        return say("rank_apart", **slots)
    behind = units.exact(row.candidate_behind_ns)
    return say("rank_apart_last", share=units.share(row.candidate_last), behind=behind, **slots)


def rank_skew(one: RankSkew, two: bool = True) -> str:
    """How far the ranks of a side are apart; `two`: there are two sides."""
    slots = {
        "ranks": f"{one.ranks}",
        "late": units.exact(one.late_ns),
        "middle": say("rank_middle_of_two" if one.ranks == 2 else "rank_middle"),
    }
    most = {"slowest": f"{one.slowest}", "share": units.share(one.slowest_share), "steps": f"{one.steps:,}"}
    text = say("rank_late" if one.slowest is None else "rank_late_most", **slots, **most)
    return words.sentence(f"{one.side}: {text}" if two else text)


def bursts(row: ThreadRow, side: Literal["baseline", "candidate"], step_ns: float, step: str) -> list[str]:
    """Of a thread that hands responses on in every n-th step only: what it then works, beside n steps."""
    every, burst_ns = getattr(row, f"{side}_every"), getattr(row, f"{side}_burst_ns")
    if not every or row.role not in RESPONSE_ROLES:
        return []
    work, whole = (units.spoken(ns) for ns in (burst_ns, step_ns))
    slots = {"every": units.ordinal(every), "work": work, "count": f"{every}", "whole": whole, "step": step}
    return [say("bursts", thread=the_thread(row.role), **slots)]


def rank_clocks(report: Result | Show) -> list[str]:
    """How the clocks of ranks were aligned that were exported apart, and how well that worked: a sentence a side."""
    names = ("Baseline", "Candidate") if len(report.rank_clocks) > 1 else ("Capture",)
    return [
        say(
            f"clocks_by_{one.by}",
            side=side,
            exports=f"{one.exports}",
            count=f"{one.shared:,}",
            kind=one.kind,
            apart=units.spoken(one.apart_ns),
        )
        for side, one in zip(names, report.rank_clocks, strict=False)
        if one is not None
    ]


def group_waits(report: Result | Show, side: Literal["baseline", "candidate"], step: str) -> list[str]:
    """How long the ranks of a group wait for each other, and for which of them most; the longest first."""
    said = []
    waiting = ((getattr(one, f"{side}_wait_ns") or 0.0, one) for one in report.rank_groups)
    for wait, one in sorted(waiting, key=lambda row: -row[0])[:NAMED]:
        if wait:
            caused, late = getattr(one, f"{side}_caused_ns") or 0.0, getattr(one, f"{side}_late")
            prose = units.prose([wait, caused])
            who = members(one.members)
            if one.name:
                who = say("of_group", what=who, group=shorten(one.name, NAME))
            slots = {"wait": prose.size(wait), "caused": prose.size(caused), "late": f"{late}"}
            said.append(say("group_waits", members=who, calls=one.calls, step=step, **slots))
    return said
