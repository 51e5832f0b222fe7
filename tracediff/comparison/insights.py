"""What somebody who knows these programs would add to the causes: each only where its evidence is strong, three at most.

| insight | where it is said |
| hidden_host | launch calls or host work whose idle part changed for sure, mostly since it runs behind the GPU, or no longer does |
| slower_clock | nearly all kernels of the same name, grid and block take longer, or less time |
| late_rank | a sure cause of one rank, which comes last in nearly all steps, and did not in most before |
| falls_behind, off_path | a thread that launches nothing and works longer or shorter than before: it is not done before the next step, or it is |
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import polars as pl
from msgspec.structs import replace

from tracediff.comparison.cells import Measured
from tracediff.comparison.places import SURE
from tracediff.comparison.shown import FIRST
from tracediff.comparison.tables import BUSY, StandardisedMeans, load
from tracediff.execution.sides import stacked
from tracediff.model import Accounting, Finding, KernelRow, RangeRow, RankRow, RankSkew, Step, ThreadRow
from tracediff.model.causes import CAUSES, HOST, SURELY
from tracediff.model.common import SIDES, Insight
from tracediff.stats.noise import Noise, Sample, estimate
from tracediff.stats.rules import ENOUGH, LEAST, LITTLE, MOSTLY, NEARLY


def insights(
    measured: Measured,
    standardised: StandardisedMeans,
    step: Step,
    accounting: Accounting,
    findings: Sequence[Finding],
    kernels: Sequence[KernelRow],
    ranks: Sequence[RankRow],
    skews: Sequence[RankSkew],
    threads: Sequence[ThreadRow],
    ranges: Sequence[RangeRow],
) -> list[Insight]:
    """All remarks, those on the largest causes first, those on other threads last."""
    found = [
        late_rank(findings, ranks, skews, step),
        slower_clock(
            kernels, *(side.get("compute", 0.0) for side in (accounting.baseline, accounting.candidate))
        ),
        *hidden_host(measured, standardised, step, accounting),
        *off_path(threads, ranges, step, findings),
    ]
    return [one for one in found if one is not None][:FIRST]


# Host time that the GPU hides.


def hidden_host(
    measured: Measured, standardised: StandardisedMeans, step: Step, accounting: Accounting
) -> list[Insight]:
    """Launch calls and host work that run behind the GPU now, or no longer do."""
    told = [
        one
        for one in ("host_work", "launch_api")
        if accounting.level.get(one, "within_noise") != "within_noise"
    ]
    totals, api = _host_totals(measured, standardised, step) if told else ({}, "")
    found = []
    for cause in (one for one in told if one in totals):
        before, after = totals[cause]
        sides = accounting.baseline.get(cause, 0.0), accounting.candidate.get(cause, 0.0)
        if hides((before, after), (sides[0], sides[1]), SURELY * step.baseline_ns):
            found.append(
                Insight(
                    kind="hidden_host",
                    cause=cause,
                    api=api if cause == "launch_api" else "",
                    baseline_ns=before,
                    candidate_ns=after,
                    baseline_exposed_ns=sides[0],
                    candidate_exposed_ns=sides[1],
                )
            )
    return found


def hides(host: tuple[float, float], idle: tuple[float, float], least: float) -> bool:
    """Whether the idle part of the host's time changed mostly because it runs behind the GPU, or no longer does.

    At the part that was idle before, the candidate's host time would have had so much idle time: what is missing from it is hidden.
    """
    change = idle[1] - idle[0]
    if min(host) <= MOSTLY * max(host) or abs(change) < least:
        return False
    moved = idle[1] - min(idle[0] / host[0], 1.0) * host[1]
    return moved * change > 0 and abs(moved) >= max(MOSTLY * abs(change), least)


def _host_totals(
    measured: Measured, standardised: StandardisedMeans, step: Step
) -> tuple[dict[str, tuple[float, float]], str]:
    """Host time of the launching thread, ns per step of both sides: in no call, and inside launching calls where one API has most of it on both; that API."""
    layout = measured.layout
    launching = sorted({key.thread for key in layout.idle_keys if key.cause == "launch_api"})
    if len(launching) != 1 or not all(side.captured("cuda_api") for side in measured.sides):
        return {}, ""
    calls = stacked(measured.sides, "apis").filter(pl.col("thread") == launching[0])
    rows = standardised.weigh(standardised.of_host(calls), ["api", "kind"], ["ns"])
    sums = [
        {kind: float(own.filter(pl.col("kind") == kind)["ns"].sum()) for kind in ("launch", "sync", "other")}
        for own in (rows.filter(pl.col("side") == at) for at in (0, 1))
    ]
    steps = step.baseline_ns, step.candidate_ns
    work = [max(whole - sum(own.values()), 0.0) for whole, own in zip(steps, sums, strict=True)]
    totals = {"host_work": (work[0], work[1])}
    launches = rows.filter(kind="launch").sort("ns", descending=True)
    most = [str(next(iter(launches.filter(side=at)["api"]), "")) for at in (0, 1)]
    # else the time of one call, as a copy that waits, is gone, and that of another came
    if most[0] == most[1]:
        totals["launch_api"] = (sums[0]["launch"], sums[1]["launch"])
    return totals, most[1]


# Kernels that are all slower.


def slower_clock(rows: Sequence[KernelRow], before_ns: float, after_ns: float) -> Insight | None:
    """Whether kernels of the same name, grid and block all take longer, or less time, and all kernels together do.

    In 71 pairs of one clock the median kernel repeats within 0.8 %, and a tenth of their time at least moved by less than 1 %, or the other way.
    before_ns, after_ns: time of a step in which a kernel runs, on both sides.
    """
    compute = [row for row in rows if row.category not in ("communication", "copy", "memset")]
    total = sum(row.baseline.ns_per_step for row in compute if row.baseline)
    known = [
        (row.candidate.mean_ns / row.baseline.mean_ns - 1, row.baseline.ns_per_step)
        for row in compute
        if row.match == "exact"
        and row.baseline
        and row.candidate
        and min(row.baseline.launches, row.candidate.launches) >= ENOUGH
        and row.baseline.mean_ns
    ]
    if len(known) < LEAST or sum(time for _, time in known) < MOSTLY * total:
        return None
    factor, time = (np.array(values) for values in zip(*known, strict=True))
    order = np.argsort(factor)
    running = np.cumsum(time[order]) / time.sum()
    low, middle, high = (
        float(factor[order][np.searchsorted(running, part)]) for part in (LITTLE, 0.5, 1 - LITTLE)
    )
    busy = after_ns / before_ns - 1 if before_ns else 0.0
    if busy * middle <= 0 or not 0.5 * abs(middle) <= abs(busy) <= 2 * abs(middle):
        return None  # kernels that run beside each other take longer each, and not together
    if low * high <= 0 or min(abs(low), abs(high)) < SURELY:
        return None  # some kernels are as they were, so that it is not the clock
    return Insight("slower_clock", count=len(known), share=float(time.sum() / total), low=low, high=high)


# A rank that comes last.


def late_rank(
    findings: Sequence[Finding], ranks: Sequence[RankRow], skews: Sequence[RankSkew], step: Step
) -> Insight | None:
    """The rank that the others wait for on the candidate, where it has a sure cause of its own."""
    after = next((one for one in skews if one.side == "candidate"), None)
    if after is None or after.slowest is None or after.slowest_share < NEARLY:
        return None
    row = next((one for one in ranks if one.rank == after.slowest), None)
    own = any(
        one.level in SURE
        and one.where.rank == after.slowest
        and one.delta_ns > 0
        and one.cause != "comm"
        and CAUSES[one.cause].kind != "mix"
        for one in findings
    )
    if row is None or not own or row.baseline_last is None or row.candidate_caused_wait_ns is None:
        return None
    more = row.candidate_caused_wait_ns - (row.baseline_caused_wait_ns or 0.0)
    if row.baseline_last > MOSTLY or more < SURELY * step.baseline_ns:
        return None
    return Insight(
        kind="late_rank", rank=after.slowest, share=after.slowest_share, other_share=row.baseline_last
    )


# Threads that launch nothing: whether what they work per step changed, and whether they are done before the next step begins.


def with_changes(
    threads: Sequence[ThreadRow],
    standardised: StandardisedMeans,
    launching: Collection[str],
    *,
    one_host: bool,
) -> list[ThreadRow]:
    """The rows with interval and level of the change of those that launch nothing and have ranges on both sides.

    Of their work in each run, per compared step; it moves with the speed of the host, where that is not one.
    """
    mine = [
        row
        for row in threads
        if row.role not in launching and row.baseline_range_ns and row.candidate_range_ns
    ]
    if not mine:
        return list(threads)
    values = standardised.by_run("ranges", "outer_ns", [row.role for row in mine])
    scatter = HOST * np.array([side.mean(axis=0) for side in values])
    sample = Sample(values, hosts="one" if one_host else "unknown")
    found = estimate(sample, Noise(scatter, np.ones(len(mine), np.bool_)))
    changed = {
        row.role: replace(
            row,
            ci_low_ns=float(found.low[at]),
            ci_high_ns=float(found.high[at]),
            level="likely" if found.clear[at] else "within_noise",
        )
        for at, row in enumerate(mine)
    }
    return [changed.get(row.role, row) for row in threads]


def off_path(
    threads: Sequence[ThreadRow], ranges: Sequence[RangeRow], step: Step, findings: Sequence[Finding]
) -> list[Insight]:
    """A remark on each thread that no longer finishes within a step, then on those that work longer or shorter than before.

    None on a thread that a finding names as the holder of the GIL: what it did to the step is told there.
    """
    holders = {one.where.holder_thread for one in findings if one.level != "within_noise"}
    behind, changed = [], []
    for row in threads:
        if row.level != "likely":
            continue
        before, after = (load(row, side) for side in SIDES)
        most = next((one.range for one in ranges if one.thread == row.role), "")  # the largest change first
        said = Insight("off_path", thread=row.role, range=most, baseline_ns=before, candidate_ns=after)
        if after >= BUSY * step.candidate_ns and before < BUSY * step.baseline_ns:
            behind.append(replace(said, kind="falls_behind"))
        elif abs(after - before) >= SURELY * step.candidate_ns and row.role not in holders:
            changed.append(said)
    return [*behind, *changed]
