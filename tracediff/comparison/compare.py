"""Two sides of reduced runs -> the `Result` that every report is made from; report/phrases.py adds its sentences."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from msgspec.structs import replace

import tracediff
from tracediff.comparison import tables
from tracediff.comparison.cells import (
    Measured,
    exposed,
    gil_exposed,
    hidden_time,
    idle_rows,
    measure,
    observable,
)
from tracediff.comparison.comparability import captures_of_both, check, repeated_captures
from tracediff.comparison.findings import find, judge, off_path_notes
from tracediff.comparison.kernel_table import kernel_result_rows
from tracediff.comparison.strata import Strata, build_strata, need_common
from tracediff.comparison.verdict import caveats, decide, step_estimate
from tracediff.errors import TracediffError
from tracediff.execution.sides import Side, side_input, steps_table, warnings_of
from tracediff.formats.selection import MIN_STEPS
from tracediff.model import CATEGORIES, Accounting, Coverage, Inputs, Note, Pair, Result, Tool
from tracediff.stats.estimates import finite, levels, of_means
from tracediff.stats.noise import assumed_noise_total, moderated_noise
from tracediff.steps.timelines import timelines

KINDS = ("kernels", "cuda_api", "nvtx", "gil", "gc", "graphs", "memcpy", "sync", *tables.KINDS)


@dataclass(frozen=True)
class Options:
    """What changes numbers, and is recorded in the result."""

    min_steps: int = MIN_STEPS
    force: bool = False
    seed: int = 0
    extra: dict[str, Any] = field(default_factory=dict)  # recorded in the result: step regex, steps, ...


def compare(
    baseline: Side,
    candidate: Side,
    options: Options | None = None,
    *,
    noise: Side | None = None,
) -> Result:
    """Compare two sides; `noise`: repeats of the baseline's program that the noise floor is taken from.

    Raises `TracediffError`: no-common-strata where no step of one has a counterpart, noise-too-few.
    """
    options = options or Options()
    sides = (baseline, candidate)
    if noise is not None and len(noise.runs) < 2:
        raise TracediffError(
            "noise-too-few", "--noise needs two runs or more of one program", fix="give a folder of repeats"
        )
    all_steps = steps_table(sides if noise is None else (*sides, noise))
    steps = all_steps.filter(pl.col("side") < 2)
    strata = build_strata(steps, (len(baseline.runs), len(candidate.runs)), options.min_steps)
    comparability = check(sides, strata)
    need_common(strata)

    measured = measure(sides, noise, all_steps, strata, options.seed)
    frame, kernels, with_gil = measured.frame, measured.kernels, measured.with_gil
    accounting = _accounting(measured)
    noise_ns = _step_noise(measured, accounting)
    counts = Pair(*(int((frame.steps["side"] == side).sum()) for side in (0, 1)))
    step = step_estimate(measured.cells, noise_ns, counts)

    standardised = tables.StandardisedMeans(sides, strata)
    launch = tables.launch(sides, standardised, (accounting.baseline, accounting.candidate))
    joint = tables.joint_steps(measured.compared)
    ranks = tables.ranks(sides, measured.compared, frame.weights, standardised, joint)
    system = tables.system(sides, standardised, with_gil)
    phases = tables.phases(steps)
    ranges = tables.range_rows(sides, standardised)
    threads = tables.threads(sides, ranges)
    gaps, gaps_left_out = tables.gap_rows(sides, standardised, with_gil)
    uneven, uneven_left_out = tables.kernel_ranks(kernels, measured.compared)
    samples, samples_left_out = tables.samples(steps)

    judged = judge(measured)
    findings, relaunched = find(measured, judged, launch, ranks, system, step.delta_ns, noise_ns)
    comparable = comparability.comparable or options.force
    verdict, facts = decide(step, measured.cells, comparable=comparable)
    facts = caveats(facts, step, phases, launch, relaunched)
    if verdict in ("regressed", "improved"):  # confirmed: no more runs are needed
        step = replace(step, runs_advised=None)
    if not comparable:  # what differs may be the recording: nothing is sure
        findings = [replace(one, level="within_noise") for one in findings]
    if all(one for side in sides for one in side.by_torch()):  # no export of nsys to ask
        findings = [replace(one, evidence=replace(one.evidence, sql="")) for one in findings]

    # what was waited for the GIL is known of a side that traced it, whatever it is counted as in the accounting
    waits = measured.idle if with_gil else idle_rows(sides, with_gil=True)
    python = exposed(frame, waits)
    if all(side.captured("kernels") for side in sides):
        hidden = hidden_time(sides, standardised, python)
        accounting = replace(accounting, hidden_baseline=hidden[0], hidden_candidate=hidden[1])
    kernel_list = kernel_result_rows(
        kernels, measured.cells.take(measured.layout.kernels), judged.of_kernels, measured.steps, strata
    )
    return Result(
        tool=Tool("tracediff", tracediff.__version__),
        inputs=Inputs(
            side_input(baseline), side_input(candidate), {"min_steps": options.min_steps, **options.extra}
        ),
        verdict=verdict,
        verdict_reason="",
        verdict_facts=facts,
        step=step,
        phases=phases,
        accounting=accounting,
        mix=strata.mix,
        findings=findings,
        kernels=[row for _, row in kernel_list],
        ranges=ranges,
        gaps=gaps,
        worst_gaps=tables.worst_gaps(sides),
        launch=launch,
        gil=tables.gil(sides, standardised, gil_exposed(frame, waits, steps)),
        gc=tables.gc(sides, standardised, python.get("gc", {})),
        graphs=tables.graphs(sides, launch),
        threads=threads,
        response_path=tables.response_path(ranges, (step.baseline_ns, step.candidate_ns)),
        strata=strata.rows,
        ranks=ranks,
        rank_skew=tables.skews(joint),
        kernel_ranks=uneven,
        kpi=None,
        comparability=comparability,
        coverage=Coverage(
            *(
                {kind: "captured" if side.captured(kind) else "not_captured" for kind in KINDS}
                for side in sides
            )
        ),
        warnings=[
            *_warnings(sides, strata, with_gil),
            *_left_out(gaps_left_out, uneven_left_out),
            *off_path_notes(threads, ranges, measured.idle.threads(), findings),
        ],
        system=system,
        samples=samples,
        samples_left_out=samples_left_out,
        timelines=timelines(
            ([run.parts for run in sides[0].runs], [run.parts for run in sides[1].runs]),
            strata.by_workload(steps),
            strata.keys,
            kernels.matching,
            [row for row, _ in kernel_list],
            with_gil,
        ),
    )


def _accounting(measured: Measured) -> Accounting:
    cells, layout = measured.cells, measured.layout
    values: list[dict[str, float]] = []
    for side, numbers in zip(measured.sides, (cells.baseline, cells.candidate), strict=True):
        known = observable(side, measured.with_gil)
        values.append(
            {name: float(numbers[column]) for name, column in layout.categories.items() if name in known}
        )
    names = [name for name in CATEGORIES if name in values[0] or name in values[1]]
    mine = cells.take([layout.categories[name] for name in names])
    level = of_means(levels(mine, measured.step_ns)[0], mine)
    return Accounting(
        values[0],
        values[1],
        {name: values[1].get(name, 0.0) - values[0].get(name, 0.0) for name in names},
        max(part.residual_ns for side in measured.sides for part in side.parts),
        {name: finite(*pair) for name, *pair in zip(names, mine.low, mine.delta, strict=True)},
        {name: finite(*pair) for name, *pair in zip(names, mine.high, mine.delta, strict=True)},
        dict(zip(names, level, strict=True)),
    )


def _step_noise(measured: Measured, accounting: Accounting) -> float:
    """Half-width of the noise of the step: host categories move together, so it is no cell's own."""
    cells = measured.cells
    assumed = assumed_noise_total(accounting.baseline, accounting.candidate)
    if not cells.repeats:
        return assumed
    repeats = [runs[:, [0]] for runs in cells.repeats]
    runs = len(cells.baseline_runs), len(cells.candidate_runs)
    return float(moderated_noise(repeats, np.array([assumed]), *runs)[0])


def _warnings(sides: tuple[Side, Side], strata: Strata, with_gil: bool) -> list[Note]:
    runs = [len(side.runs) for side in sides]
    notes = warnings_of(sides) + strata.warnings
    if min(runs) == 1:
        single = "one run a side"
        if max(runs) > 1:
            single = f"one run of the {'baseline' if runs[0] == 1 else 'candidate'}"
        notes.append(
            Note("single-run", f"{single}: run-to-run noise is unknown there, and no change can be confirmed."
                 " Record 5 runs a side")
        )  # fmt: skip
    elif min(runs) < 4:
        notes.append(Note("few-runs", f"{min(runs)} runs a side: 5 make the interval and the test reliable"))
    if not all(side.captured("kernels") for side in sides):
        notes.append(
            Note("host-only", "no GPU kernels were captured: a step is the time between two step labels on the host, and what"
                 " a GPU would have hidden of a pause is not known")
        )  # fmt: skip
    if not with_gil:
        notes.append(
            Note("gil-one-side", "the GIL was traced on one side only: waits for it are counted as the host work or"
                 " call they fell into, on both sides. Capture both with nsys -t python-gil")
        )  # fmt: skip
    if any(part.step_source == "whole-capture" for side in sides for part in side.parts):
        text = "each capture was counted as one step: captures of different length cannot be compared"
        notes.append(Note("whole-capture", text))
    return notes + repeated_captures(sides) + captures_of_both(*sides)


def _left_out(gaps: int, kernels: int) -> list[Note]:
    notes = []
    if gaps:
        text = f"{gaps} idle-gap rows with the smallest changes are not listed"
        notes.append(Note("gap-rows-left-out", text))
    if kernels:
        what = (
            "kernels that differ least between ranks are"
            if kernels > 1
            else "kernel that differs least between ranks is"
        )
        notes.append(Note("kernel-rank-rows-left-out", f"{kernels} {what} not listed"))
    return notes
