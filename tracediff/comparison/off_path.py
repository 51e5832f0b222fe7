"""Threads that launch nothing: whether what they work per step changed, and whether they are done before the next step begins."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from msgspec.structs import replace

from tracediff.comparison.tables import BUSY, StandardisedMeans, load
from tracediff.model import Finding, RangeRow, Step, ThreadRow
from tracediff.model.causes import HOST, SURELY
from tracediff.model.common import SIDES, Insight
from tracediff.stats.noise import Noise, Sample, estimate


def with_changes(
    threads: Sequence[ThreadRow],
    standardised: StandardisedMeans,
    launching: Collection[str],
    *,
    in_turns: bool,
) -> list[ThreadRow]:
    """The rows with interval and level of the change of those that launch nothing and have ranges on both sides.

    Of their work in each run, per compared step; it moves with the speed of the host, which only runs in turns on one machine share.
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
    sample = Sample(values, hosts="one" if in_turns else "unknown")
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
