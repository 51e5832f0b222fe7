"""Two sides of reduced runs -> the `Result` that every report is made from; report/phrases.py adds its sentences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import msgspec
import numpy as np
import polars as pl
from msgspec.structs import replace

import tracediff
from tracediff.comparison import tables
from tracediff.comparison.alignment import Alignment
from tracediff.comparison.cells import (
    Measured,
    Part,
    PhaseCells,
    exposed,
    hidden_time,
    measure,
    observable,
    side_by_side,
)
from tracediff.comparison.classes import (
    Strata,
    build_strata,
    mix,
    notes_of,
    notes_of_classes,
    one_phase,
    with_classes,
)
from tracediff.comparison.comparability import (
    captures_of_both,
    check,
    how_counted,
    need_calls,
    need_one_program,
    repeated_captures,
)
from tracediff.comparison.findings import find
from tracediff.comparison.frame import Frame, build_frame
from tracediff.comparison.host_time import host_only_notes, host_time
from tracediff.comparison.insights import insights, with_changes
from tracediff.comparison.kernel_answer import kernel_answer
from tracediff.comparison.kernel_table import kernel_result_rows, launched_rows
from tracediff.comparison.ladder import counterparts, rounds, rung_notes, rung_of, shared_work
from tracediff.comparison.launches import Launches, amount_of_work, launch_changes, launches_of, same_work
from tracediff.comparison.layers import layer_notes
from tracediff.comparison.limits import limits
from tracediff.comparison.moments import with_moments
from tracediff.comparison.observed import observe
from tracediff.comparison.pictures import cause_tree, step_strip
from tracediff.comparison.places import Judged, compared_layers, judge, kernel_phases, place_rows
from tracediff.comparison.structure import structure
from tracediff.comparison.verdict import (
    Spoken,
    decide,
    first_of,
    gpu_change,
    judge_phases,
    launched,
    moved,
    odd_runs,
    other_steps,
    phases_of,
    spoken_of,
    step_of,
)
from tracediff.comparison.what_if import with_projections
from tracediff.errors import TracediffError
from tracediff.execution.clocks import with_waits
from tracediff.execution.ladder import Shared
from tracediff.execution.sides import (
    Side,
    outside_alike,
    ranges_alike,
    same_traffic,
    side_input,
    steps_table,
    warnings_of,
)
from tracediff.model import (
    CATEGORIES,
    Accounting,
    Comparability,
    Coverage,
    Evidence,
    Inputs,
    KernelRow,
    Note,
    Phase,
    Result,
    Step,
    StructureRow,
    Tool,
    Verdict,
    VerdictFacts,
)
from tracediff.stats.noise import Estimate
from tracediff.steps.timelines import StepWriter, divergences, timelines

KINDS = ("kernels", "cuda_api", "nvtx", "gil", "gc", "graphs", "memcpy", "sync", *tables.KINDS)


class Options(msgspec.Struct, frozen=True):
    """What changes numbers, and is recorded in the result."""

    force: bool = False
    kernels: tuple[str, ...] = ()  # names to tell everything of
    what_if: bool = False  # project the candidate without its first causes
    in_turns: bool = False  # both sides were recorded in turns on one machine
    # recorded in the result: step regex, steps, ...
    extra: dict[str, Any] = msgspec.field(default_factory=dict)


def compare(
    baseline: Side, candidate: Side, options: Options | None = None, *, noise: Side | None = None
) -> Result:
    """Compare two sides; `noise`: repeats of the baseline's program that the noise floor is taken from.

    Raises `TracediffError`: cuda-calls-lost, mixed-programs, no-common-strata where no step of one has a counterpart, noise-too-few, no-such-kernel.
    """
    options = options or Options()
    if not options.force:
        given = [baseline, candidate, *([noise] if noise else [])]
        need_calls(given)
        need_one_program(given)
    baseline, measured, work = _prepared(baseline, candidate, noise, options)
    strata = build_strata(measured.frame)
    round_of = work.rarest if work and measured.frame.rounds else ""
    counted = structure(measured.sides, measured.frame, round_of)
    measured, decided = _decided(measured, work, strata, counted, force=options.force)

    sides, frame, steps = measured.sides, measured.frame, measured.steps
    kernels, with_gil = measured.kernels, measured.with_gil
    judged, spoken, step = decided.judged, decided.spoken, decided.step
    standardised = side_by_side(sides, frame, measured.waits, with_gil=with_gil, kernels=kernels)
    accounting = _accounting(measured, measured.whole, judged.level_of_all)
    if decided.facts.basis == "gpu":
        accounting = replace(accounting, level=accounting.level | {"compute": "likely"})
    whole = (decided.verdict, decided.facts)
    phases = phases_of(measured, tables.phases(standardised), decided.verdicts, spoken, whole)
    phases = _of_phases(measured, judged, phases)
    means = {one.phase: one.mean_accounting for one in phases if one.mean_accounting}
    launch = tables.launch(
        standardised,
        (accounting.baseline, accounting.candidate),
        {phase: (of.baseline, of.candidate) for phase, of in means.items()},
    )
    ranks, groups = tables.ranks(standardised), tables.groups(standardised)
    system = tables.system(sides, standardised)
    ranges = tables.range_rows(standardised)
    threads = with_changes(
        tables.threads(standardised), standardised, measured.idle.threads(), one_host=measured.one_host
    )
    gaps, gaps_left_out = tables.gap_rows(standardised)
    compared = frame.compared.filter(pl.col("side") < 2)
    uneven, uneven_left_out = tables.kernel_ranks(kernels, compared)
    samples, samples_left_out = tables.samples(steps)
    places, places_left_out = place_rows(measured, judged, spoken)

    steps_mix = mix(frame, step.baseline_ns, step.candidate_ns)
    first = first_of(measured, spoken, decided.facts)
    findings = find(measured, judged, first, launch, ranks, groups, system, steps_mix, strata, counted)
    facts = launched(decided.facts, launch, findings)
    observed = observe(measured, first, facts, findings)
    if not decided.comparable:  # what differs may be the recording: nothing is sure
        findings = [replace(one, level="within_noise") for one in findings]

    if all(side.captured("kernels") for side in sides):
        hidden = hidden_time(sides, standardised, exposed(frame, measured.waits))
        accounting = replace(accounting, hidden_baseline=hidden[0], hidden_candidate=hidden[1])
    kernel_rows, launched_kernels = _kernel_rows(measured, decided, strata)
    result_kernels = [row for _, row in kernel_rows]
    skews = tables.skews(standardised.joint)
    remarks = insights(
        measured, standardised, step, accounting, findings, result_kernels, ranks, skews, threads, ranges
    )
    if options.what_if:
        findings = with_projections(findings, (sides[0], sides[1]), kernels.rows)

    runs = ([run.parts for run in sides[0].runs], [run.parts for run in sides[1].runs])
    shown_as = (kernels.matching, [number for number, _ in kernel_rows], with_gil)
    writer = StepWriter(*shown_as)
    findings = with_moments(findings, measured, strata.steps, writer)
    drawn, selected = timelines(runs, strata.steps, strata.keys, writer, first=facts.phase)
    return Result(
        tool=Tool("tracediff", tracediff.__version__),
        inputs=Inputs(side_input(baseline), side_input(sides[1]), options.extra),
        verdict=decided.verdict,
        verdict_reason="",
        verdict_facts=facts,
        observed=observed,
        step=step,
        phases=phases,
        accounting=accounting,
        mix=steps_mix,
        findings=findings,
        structure=counted,
        insights=remarks if decided.comparable else [],
        kernels=result_kernels,
        kernel_answers=[
            kernel_answer(name, measured, judged, kernel_rows, launched_kernels) for name in options.kernels
        ],
        launched=launched_kernels,
        layers=compared_layers(measured),
        ranges=ranges,
        gaps=gaps,
        worst_gaps=tables.worst_gaps(sides),
        launch=launch,
        gil=tables.gil(sides, standardised),
        gc=tables.gc(sides, standardised),
        graphs=tables.graphs(sides, launch),
        threads=threads,
        response_path=tables.response_path(
            ranges, threads, measured.idle.threads(), (step.baseline_ns, step.candidate_ns)
        ),
        strata=strata.rows,
        ranks=ranks,
        rank_skew=skews,
        rank_groups=groups,
        rank_clocks=[side.clock for side in sides],
        kernel_ranks=uneven,
        kpi=None,
        comparability=decided.comparability,
        coverage=Coverage(
            *(
                {kind: "captured" if side.captured(kind) else "not_captured" for kind in KINDS}
                for side in sides
            )
        ),
        warnings=[
            *_warnings(
                sides,
                rung_notes(facts.rung) + notes_of(frame) + notes_of_classes(sides),
                with_gil=with_gil,
                with_speed=measured.one_host or any(one.speed is not None for one in measured.phases),
            ),
            *layer_notes(sides),
        ],
        system=system,
        limits=limits(sides, standardised, kernels, kernel_rows, step.baseline_ns),
        host=host_time(sides),
        samples=samples,
        samples_left_out=samples_left_out,
        gaps_left_out=gaps_left_out,
        kernel_ranks_left_out=uneven_left_out,
        places=places,
        places_left_out=places_left_out,
        cause_tree=cause_tree(measured, judged, observed, findings, launched_kernels),
        step_strip=step_strip(frame, measured.layout, selected),
        timelines=drawn,
        divergences=divergences(
            runs, selected, strata.keys, *shown_as, kind="worst" if facts.basis == "rare" else "typical"
        ),
    )


class _Decided(msgspec.Struct, frozen=True):
    """What is sure of all cells, and the verdict. unlike: a kernel that tells that captures of one step did other work, and its launches on each side."""

    judged: Judged
    verdicts: dict[str, dict[str, Verdict]]  # phase -> typical, mean
    verdict: Verdict
    facts: VerdictFacts
    spoken: Spoken
    step: Step
    comparability: Comparability
    comparable: bool
    launches: Launches
    unlike: tuple[str, float, float] | None


def _decided(
    measured: Measured, work: Shared | None, strata: Strata, counted: list[StructureRow], *, force: bool
) -> tuple[Measured, _Decided]:
    """What the cells are judged by, and what was decided; of captures of other work nothing is judged."""
    sides, frame, kernels = measured.sides, measured.frame, measured.kernels
    rung = rung_of(sides, frame, work)
    launches = launches_of(frame, kernels.values, len(kernels.rows))
    unlike = amount_of_work(kernels.rows, launches) if frame.once and rung.kind != "rounds" else None
    same = frame.once and not unlike and same_work(kernels.rows, launches)
    if frame.once:
        measured = _of_captures(measured, same=same)
    comparability = check(sides, strata, unlike, counterparts(kernels, work, rung), work, counted)
    comparable = comparability.comparable or force
    verdicts = judge_phases(measured)
    judged = judge(measured, moved(verdicts))
    gpu = gpu_change(measured) if same else None
    steps = other_steps(measured)
    verdict, facts = decide(measured, judged, verdicts, comparable=comparable, gpu=gpu, steps=steps)
    facts = replace(facts, same_work=same, rung=rung)
    spoken = spoken_of(measured, verdicts, facts)
    step = step_of(measured, decided=verdict in ("regressed", "improved"))
    return measured, _Decided(
        judged, verdicts, verdict, facts, spoken, step, comparability, comparable, launches, unlike
    )


def _kernel_rows(
    measured: Measured, decided: _Decided, strata: Strata
) -> tuple[list[tuple[int, KernelRow]], list[KernelRow]]:
    """Kernels with their numbers in the matching; and by name, judged by their launches, where no step is judged."""
    kernels, cells = measured.kernels, measured.layout.kernels
    levels = [decided.judged.levels(cell) for cell in cells]
    by_launch = not any(one.steps.judged for one in measured.phases) or measured.frame.once
    alone = [[number] for number in range(len(kernels.rows))] if by_launch else []
    changes = launch_changes(kernels.rows, decided.launches, alone, alike=not decided.unlike)
    rows = kernel_result_rows(
        kernels,
        measured.whole.take(cells),
        [level for level, _ in levels],
        np.array([q for _, q in levels]),
        strata,
        decided.launches,
        changes or [None] * len(kernels.rows),
    )
    phases, layers = kernel_phases(measured, decided.judged), measured.layers
    rows = [
        (at, replace(row, phases=phases.get(at, []), layers=layers.kinds_of(at) if layers else []))
        for at, row in rows
    ]
    by_name = launched_rows(kernels, rows, decided.launches, alike=not decided.unlike) if by_launch else []
    return rows, by_name


def align(baseline: Side, candidate: Side) -> Alignment:
    """Both sides side by side, as `compare` has them. Raises `TracediffError`: no-common-strata."""
    _, measured, _ = _prepared(baseline, candidate, None, Options())
    return side_by_side(
        measured.sides, measured.frame, measured.waits, with_gil=measured.with_gil, kernels=measured.kernels
    ).aligned


def _prepared(
    baseline: Side, candidate: Side, noise: Side | None, options: Options
) -> tuple[Side, Measured, Shared | None]:
    """The baseline as it was read, all cells of the sides as they are compared, and the work that they share."""
    every = [with_waits(baseline), with_waits(candidate), *([noise] if noise else [])]
    every = outside_alike(ranges_alike(every))
    baseline, candidate, *repeats = with_classes(every)
    sides, noise = (baseline, candidate), next(iter(repeats), None)
    if noise is not None and len(noise.runs) < 2:
        raise TracediffError(
            "noise-too-few",
            "--with noise=PATH needs two runs or more of one program",
            fix="give a folder of repeats",
        )
    paired = same_traffic(*sides)
    if paired is not None:
        sides = (baseline, paired)
    work = shared_work(sides)
    return baseline, _measured(sides, noise, work, options, paired=paired is not None), work


def _of_captures(measured: Measured, *, same: bool) -> Measured:
    """Captures that are one step each: of other work neither their length nor their kernels say anything."""
    phases = [
        replace(one, steps=replace(one.steps, judged=one.steps.judged and same, steady=same))
        for one in measured.phases
    ]
    return replace(measured, phases=phases)


def _measured(
    sides: tuple[Side, Side], noise: Side | None, work: Shared | None, options: Options, *, paired: bool
) -> Measured:
    """All cells; a run that lies apart from the others of its side is left out, and measured without.

    Sides of which one does only what the other does not are compared as one phase.
    """
    every = list(sides if noise is None else (*sides, noise))
    of_runs = rounds(every, work)

    def framed(**more: Any) -> Frame:
        runs = tuple(len(side.runs) for side in every)
        return build_frame(steps_table(every), runs, paired=paired, rounds=of_runs, **more)

    try:
        frame = framed()
    except TracediffError as error:
        if error.slug != "no-common-strata":
            raise
        every = one_phase(every)
        frame = framed()
    sides, noise = (every[0], every[1]), next(iter(every[2:]), None)
    measured = measure(sides, noise, frame, in_turns=options.in_turns)
    odd = odd_runs(measured)
    if not odd:
        return measured
    left_out = frozenset(odd)
    if paired:  # and the run that had the same requests
        left_out |= {(1 - side, run) for side, run in odd}
    frame = framed(left_out=left_out)
    return measure(sides, noise, frame, list(odd.values()), in_turns=options.in_turns)


def _of_phases(measured: Measured, judged: Judged, phases: list[Phase]) -> list[Phase]:
    """Phases with the accounting of their typical and of their mean step."""
    levels = {(one.phase.steps.phase, one.part, one.place.cells[0]): one for one in judged.categories}

    def of(phase: PhaseCells, part: Part) -> Accounting:
        def level(cell: int, delta: float) -> Evidence:
            of_it = ("typical", "tail") if part.name == "mean" and not phase.rare else (part.name,)
            found = [levels[key] for name in of_it if (key := (phase.steps.phase, name, cell)) in levels]
            along = [one.level for one in found if one.delta * delta > 0]
            return min(along, key=get_args(Evidence).index, default="within_noise")

        return _accounting(measured, part.estimate, level)

    known = {one.steps.phase: [of(one, part) for part in (one.typical, one.mean)] for one in measured.phases}
    return [
        replace(row, accounting=known[row.phase][0], mean_accounting=known[row.phase][1])
        if row.phase in known
        else row
        for row in phases
    ]


def _accounting(measured: Measured, whole: Estimate, level: Callable[[int, float], Evidence]) -> Accounting:
    """The categories of an estimate. level: of a category's cell and its change."""
    layout = measured.layout
    values: list[dict[str, float]] = []
    for side, numbers in zip(measured.sides, (whole.baseline, whole.candidate), strict=True):
        known = observable(side, measured.with_gil)
        values.append(
            {name: float(numbers[cell]) for name, cell in layout.categories.items() if name in known}
        )
    names = [name for name in CATEGORIES if name in values[0] or name in values[1]]
    cells = [layout.categories[name] for name in names]
    found = whole.take(cells)
    return Accounting(
        values[0],
        values[1],
        dict(zip(names, found.delta.tolist(), strict=True)),
        max(part.residual_ns for side in measured.sides for part in side.parts),
        dict(zip(names, found.low.tolist(), strict=True)),
        dict(zip(names, found.high.tolist(), strict=True)),
        {
            # a level is of a phase; here only where the mean of all shows the same
            name: level(cell, float(found.delta[at])) if found.clear[at] else "within_noise"
            for at, (name, cell) in enumerate(zip(names, cells, strict=True))
        },
        host_speed=dict(zip(names, found.host_speed.tolist(), strict=True)),
    )


def _warnings(
    sides: tuple[Side, Side], of_steps: list[Note], *, with_gil: bool, with_speed: bool
) -> list[Note]:
    notes = warnings_of(sides) + of_steps
    notes += host_only_notes(sides)
    if not with_speed:
        notes.append(
            Note("host-speed-unknown", "both sides call too few CUDA functions alike to compare the speed of their CPUs:"
                 " a slower CPU looks like a slower program, so the intervals are wider")
        )  # fmt: skip
    notes += how_counted((part for side in sides for part in side.parts), with_gil=with_gil)
    return notes + repeated_captures(sides) + captures_of_both(*sides)
