"""Two sides of reduced runs -> the `Result` that every report is made from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import polars as pl

import tracediff
from tracediff.accounting.intervals import Floats
from tracediff.compare import tables
from tracediff.compare import tables as tables_python
from tracediff.compare import tables as tables_system
from tracediff.compare.cells import (
    Estimates,
    Frame,
    IdleRows,
    KernelCells,
    Layout,
    build_frame,
    cell_table,
    estimate,
    finite,
    idle_rows,
    kernel_cells,
    kernel_result_rows,
    levels,
    moderated_noise,
    of_means,
    told,
    with_strata,
)
from tracediff.compare.comparability import check
from tracediff.compare.findings import (
    asides,
    captures_of_both,
    explain_collectives,
    exposed,
    gil_exposed,
    idle_drafts,
    kernel_drafts,
    launched_otherwise,
    mark_consequences,
    mark_synchronisation,
    mix_draft,
    off_path_notes,
    rank_findings,
    repeated_captures,
    tail_findings,
    with_hidden,
    with_system,
)
from tracediff.compare.sides import Side, side_input, steps_table
from tracediff.compare.strata import Strata, build_strata, need_common
from tracediff.compare.tables import joint_steps, kernel_ranks, skews
from tracediff.compare.tables import ranks as rank_table
from tracediff.compare.verdict import decide, step_estimate, without_advice
from tracediff.errors import TracediffError
from tracediff.execution.run import warnings_of
from tracediff.formats.selection import MIN_STEPS
from tracediff.kernels.categories import category
from tracediff.kernels.names import family
from tracediff.model import (
    CATEGORIES,
    Accounting,
    Check,
    Comparability,
    Coverage,
    Finding,
    Inputs,
    Launch,
    Note,
    Pair,
    Result,
    Tool,
)
from tracediff.stats.noise import assumed_noise_total
from tracediff.steps.timelines import timelines


@dataclass(frozen=True)
class Options:
    """What changes numbers, and is recorded in the result."""

    min_steps: int = MIN_STEPS
    force: bool = False
    seed: int = 0
    extra: dict[str, Any] = field(default_factory=dict)  # said in the result: step regex, steps, ...


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
    runs = (len(baseline.runs), len(candidate.runs))
    measured = sides if noise is None else (*sides, noise)
    if noise is not None and len(noise.runs) < 2:
        raise TracediffError(
            "noise-too-few", "--noise needs two runs or more of one program", fix="give a folder of repeats"
        )
    all_steps = steps_table(measured)
    steps = all_steps.filter(pl.col("side") < 2)
    strata = build_strata(steps, runs, options.min_steps)
    comparability = check(sides, strata)
    need_common(strata)
    frame = build_frame(all_steps, strata, tuple(len(side.runs) for side in measured))
    with_gil = len({side.captured("gil") for side in measured}) == 1
    all_idle = idle_rows(measured, with_gil=with_gil)
    idle = all_idle.of_sides(2)
    kernels = kernel_cells(measured, frame)
    cells, layout = _estimates(frame, all_steps, all_idle, kernels, options.seed)
    accounting = _accounting(sides, cells, layout, with_gil)
    total_noise = _total_noise(cells, accounting)
    step = step_estimate(
        cells, 0, total_noise, Pair(*(int((frame.steps["side"] == side).sum()) for side in (0, 1)))
    )
    weigher = tables.Weigher(sides, strata)
    launch = tables.launch(sides, weigher, (accounting.baseline, accounting.candidate))
    findings, kernel_levels = _findings(
        sides, frame, cells, layout, (idle, kernels), strata, step.delta_ns, launch
    )
    compared = steps.join(frame.steps.select(*_KEYS, "group"), on=_KEYS, maintain_order="left")
    known: set[str] = {one.cause for one in findings if one.level != "within_noise"}
    joint = joint_steps(compared)
    ranks = rank_table(sides, compared, frame.weights, weigher, joint)
    uneven, uneven_left_out = kernel_ranks(kernels, compared)
    findings = explain_collectives(findings, ranks)
    system = tables_system.system(sides, weigher, with_gil)
    findings = with_system(findings, system)
    findings = _with_tails(findings, tail_findings(sides, compared, idle, total_noise, known))
    findings, moved = launched_otherwise(findings, launch)
    verdict, reason = decide(
        step,
        cells,
        0,
        findings,
        comparable=comparability.comparable or options.force,
        reason=_failed(comparability),
        lead=moved,
    )
    step = without_advice(step, verdict)
    phases = tables.phases(steps)
    reason += asides(verdict, step, phases, launch, explained=bool(moved))
    if (
        verdict == "not_comparable"
    ):  # what differs may be the recording: nothing is said to be sure, or to be mended
        findings = [msgspec.structs.replace(one, level="within_noise", next="") for one in findings]
    if all(one for side in sides for one in side.by_torch()):  # no export of nsys to ask
        findings = [
            msgspec.structs.replace(one, evidence=msgspec.structs.replace(one.evidence, sql=""))
            for one in findings
        ]
    ranges = tables.range_rows(sides, weigher)
    gaps, gaps_left_out = tables.gap_rows(sides, weigher, with_gil)
    samples, left_out = tables.samples(steps)
    warnings = _warnings(sides, strata, runs, with_gil) + repeated_captures(sides) + captures_of_both(*sides)
    if gaps_left_out:
        warnings.append(
            Note(
                "gap-rows-left-out", f"{gaps_left_out} idle-gap rows with the smallest changes are not listed"
            )
        )
    if uneven_left_out:
        warnings.append(
            Note(
                "kernel-rank-rows-left-out",
                f"{uneven_left_out} {'kernels that differ' if uneven_left_out > 1 else 'kernel that differs'} least between ranks"
                f" {'are' if uneven_left_out > 1 else 'is'} not listed",
            )
        )
    # what was waited for the GIL is known of a side that traced it, whatever it is counted as in the accounting
    waits = idle if with_gil else idle_rows(sides, with_gil=True)
    idle_of_python = exposed(frame, waits)
    threads = tables.threads(sides, ranges)
    with_gpu = all(side.captured("kernels") for side in sides)
    kernel_list = with_strata(
        kernel_result_rows(kernels, cells.take(layout.kernels), kernel_levels, category, family),
        kernels,
        steps,
        strata,
    )
    warnings += off_path_notes(threads, ranges, idle.threads(), findings)
    return Result(
        tool=Tool("tracediff", tracediff.__version__),
        inputs=Inputs(
            side_input(baseline), side_input(candidate), {"min_steps": options.min_steps, **options.extra}
        ),
        verdict=verdict,
        verdict_reason=reason,
        step=step,
        phases=phases,
        accounting=with_hidden(accounting, sides, weigher, idle_of_python) if with_gpu else accounting,
        mix=strata.mix,
        findings=findings,
        kernels=[row for _, row in kernel_list],
        ranges=ranges,
        gaps=gaps,
        worst_gaps=tables.worst_gaps(sides),
        launch=launch,
        gil=tables_python.gil(sides, weigher, gil_exposed(frame, waits, steps)),
        gc=tables_python.gc(sides, weigher, idle_of_python.get("gc", {})),
        graphs=tables.graphs(sides, launch),
        threads=threads,
        response_path=tables.response_path(ranges, (step.baseline_ns, step.candidate_ns)),
        strata=strata.rows,
        ranks=ranks,
        rank_skew=skews(joint),
        kernel_ranks=uneven,
        kpi=None,
        comparability=comparability,
        coverage=Coverage(
            *(
                {kind: "captured" if side.captured(kind) else "not_captured" for kind in KINDS}
                for side in sides
            )
        ),
        warnings=warnings,
        system=system,
        samples=samples,
        samples_left_out=left_out,
        timelines=timelines(
            ([run.parts for run in sides[0].runs], [run.parts for run in sides[1].runs]),
            strata.by_workload(steps),
            strata.keys,
            kernels.matching,
            [row for row, _ in kernel_list],
            with_gil,
        ),
    )


_KEYS = ["side", "run", "part", "period"]
KINDS = ("kernels", "cuda_api", "nvtx", "gil", "gc", "graphs", "memcpy", "sync", *tables_system.KINDS)


def _estimates(
    frame: Frame, steps: pl.DataFrame, idle: IdleRows, kernels: KernelCells, seed: int
) -> tuple[Estimates, Layout]:
    """All cells in one pass, so that they are resampled together."""
    values, kinds, layout = cell_table(frame, steps, idle, kernels)
    return estimate(frame, values, kinds, seed=seed), layout


def _accounting(sides: tuple[Side, Side], cells: Estimates, layout: Layout, with_gil: bool) -> Accounting:
    values: list[dict[str, float]] = []
    for side, numbers in zip(sides, (cells.baseline, cells.candidate), strict=True):
        known = told(side, with_gil)
        values.append(
            {name: float(numbers[column]) for name, column in layout.categories.items() if name in known}
        )
    names = [name for name in CATEGORIES if name in values[0] or name in values[1]]
    delta = {name: values[1].get(name, 0.0) - values[0].get(name, 0.0) for name in names}
    residual = max(part.residual_ns for side in sides for part in side.parts)
    columns = [layout.categories[name] for name in names]
    chosen = cells.take(columns)
    level, _ = levels(chosen, float(max(cells.baseline[0], cells.candidate[0])))
    low = {
        name: finite(cells.low[column], cells.delta[column])
        for name, column in zip(names, columns, strict=True)
    }
    high = {
        name: finite(cells.high[column], cells.delta[column])
        for name, column in zip(names, columns, strict=True)
    }
    return Accounting(
        values[0],
        values[1],
        delta,
        residual,
        low,
        high,
        dict(zip(names, of_means(level, chosen), strict=True)),
    )


def _total_noise(cells: Estimates, accounting: Accounting) -> float:
    repeats = [runs[:, [0]] for runs in cells.repeats]
    assumed = float(assumed_noise_total(accounting.baseline, accounting.candidate))
    if not repeats:
        return assumed
    return float(
        moderated_noise(repeats, np.array([assumed]), len(cells.baseline_runs), len(cells.candidate_runs))[0]
    )


def _findings(
    sides: tuple[Side, Side],
    frame: Frame,
    cells: Estimates,
    layout: Layout,
    measured: tuple[IdleRows, KernelCells],
    strata: Strata,
    total_delta: float,
    launch: Launch,
) -> tuple[list[Finding], tuple[list[Any], Floats]]:
    idle, kernels = measured
    columns = [*layout.idle, *layout.kernels]
    chosen = cells.take(columns)
    level, q = levels(chosen, float(max(cells.baseline[0], cells.candidate[0])))
    idle_count = len(layout.idle)
    drafts = idle_drafts(
        sides, frame, chosen, level[:idle_count], layout.idle_keys, layout.idle_rows, idle.words
    )
    drafts += kernel_drafts(sides, kernels, chosen, level[idle_count:], idle_count)
    drafts = mark_consequences(mark_synchronisation(drafts, chosen, launch.apis), chosen)
    findings = rank_findings(drafts, chosen, q, total_delta)
    extra = mix_draft(strata, len(findings))
    if extra is not None:
        sure = [one for one in findings if one.level != "within_noise"]
        at = len(sure)
        findings = [*findings[:at], extra, *findings[at:]]
    step = float(max(cells.baseline[0], cells.candidate[0]))
    kept = [
        one for one in findings
        if one.level != "within_noise" or abs(one.delta_ns) >= 0.001 * step
    ][:60]  # fmt: skip
    ranked = [msgspec.structs.replace(one, rank=rank) for rank, one in enumerate(kept, 1)]
    return ranked, (level[idle_count:], q[idle_count:])


def _with_tails(findings: list[Finding], tails: list[Finding]) -> list[Finding]:
    """What is sure comes first, of the mean before tails; what may be noise comes last."""
    merged = [*findings, *tails]
    merged.sort(key=lambda one: one.level == "within_noise")  # stable: the order within each part stays
    return [msgspec.structs.replace(one, rank=rank) for rank, one in enumerate(merged, 1)]


def _failed(comparability: Comparability) -> str:
    failed: list[Check] = [one for one in comparability.checks if one.status == "fail"]
    return "; ".join(f"{one.name}: {one.baseline} against {one.candidate}: {one.message}" for one in failed)


def _warnings(sides: tuple[Side, Side], strata: Strata, runs: tuple[int, int], with_gil: bool) -> list[Note]:
    notes = warnings_of(sides)
    notes += strata.warnings
    if min(runs) == 1:
        notes.append(
            Note("single-run", f"{_few(runs)}: run-to-run noise is unknown there, and no change can be confirmed."
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
        notes.append(
            Note(
                "whole-capture",
                "each capture was counted as one step: captures of different length cannot be compared",
            )
        )
    return notes


def _few(runs: tuple[int, int]) -> str:
    """Which side has a single run, in words."""
    if runs == (1, 1):
        return "one run a side"
    return "one run of the baseline" if runs[0] == 1 else "one run of the candidate"
