"""Latencies of two sides, measured without a profiler, by the statistics of the traces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from msgspec.structs import replace

from tracediff.arrays import Floats, known
from tracediff.companions.bench.compare import profiling_cost
from tracediff.companions.latencies.checks import Run, check_columns, check_sides, find_warm_up, outlying
from tracediff.companions.latencies.read import LatencyFile, read_side, split
from tracediff.companions.model import (
    Latencies,
    LatencyOutlier,
    LatencyRow,
    LatencyRun,
    LatencySide,
    LatencyTraced,
)
from tracediff.companions.verdict import (
    Figures,
    compare_runs,
    decide,
    independent,
    levels,
    odd,
    step_of,
    variance_of_mean,
)
from tracediff.companions.words import both, part, signed, time
from tracediff.formats.selection import own_label
from tracediff.model import Pair, Result, Step, Verdict
from tracediff.report.amounts import LISTED
from tracediff.report.grammar import say
from tracediff.report.phrases import power_note

QUANTILES = {"median": 0.5, "p90": 0.9, "p99": 0.99}
STATISTICS = ("mean", *QUANTILES, "min")
ASSUMED = {"mean": 0.05, "median": 0.05, "p90": 0.1, "p99": 0.2, "min": 0.05}
"""Half-width assumed of the difference of two runs of one program, as a part of the larger side, where no side has repeats."""
NEEDED = {"p90": 20, "p99": 100}
"""Iterations of a single run from which its quantile has an interval."""
LEAST = 5
"""Iterations of the only run of a side from which its figures have intervals: the first decides the mean of fewer."""
DRAWN = 200  # steps of probability of the quantiles that are drawn


def compare_words(baseline: str, candidate: str) -> Latencies:
    """Compare two words of the command line, which label=WORD names. Raises `TracediffError`: those of `read_side`."""
    (one, before), (other, after) = _named(baseline), _named(candidate)
    return compare_latencies(read_side([before]), read_side([after]), (one, other))


def _named(word: str) -> tuple[str, str]:
    label, rest = own_label(word)
    path, _ = split(rest)
    return label or (path.name if path.name not in ("", "..") else path.resolve().name), rest


def compare_latencies(
    baseline: Sequence[LatencyFile],
    candidate: Sequence[LatencyFile],
    labels: tuple[str, str] = ("baseline", "candidate"),
) -> Latencies:
    """Compare two sides, each file one run.

    A figure of a side is the mean over its runs of that figure in each run; runs that lie apart from the others are left out. The
    verdict is that of the mean, a test of its own.
    """
    files, doubles = zip(*(_without_copies(side) for side in (baseline, candidate)), strict=True)
    sides = [[_trimmed(file) for file in side] for side in files]
    odd_runs = [odd([float(run.values.mean()) for run in side]) for side in sides]
    kept = [
        [run for at, run in enumerate(side) if at not in far]
        for side, far in zip(sides, odd_runs, strict=True)
    ]
    of_mean, others = _figures(kept)
    level = levels(of_mean, float(max(of_mean.found.baseline[0], of_mean.found.candidate[0])))[0]
    verdict = decide(of_mean, level)
    step = step_of(of_mean, Pair(*(sum(len(run.values) for run in side) for side in kept)))
    step = replace(step, power_note=power_note(step))
    if np.isnan(of_mean.found.half[0]):
        verdict = "inconclusive"  # nothing is known of how much an iteration varies
    rows = _rows(of_mean, others)
    return Latencies(
        _side(labels[0], files[0], sides[0], odd_runs[0]),
        _side(labels[1], files[1], sides[1], odd_runs[1]),
        verdict,
        _reason(verdict, step, rows),
        step,
        rows,
        [*check_sides(sides, doubles, odd_runs), check_columns(*files)],
    )


def _without_copies(files: Sequence[LatencyFile]) -> tuple[list[LatencyFile], list[str]]:
    """Return the files without those that are copies of an earlier one, and the names of these."""
    kept: dict[str, LatencyFile] = {}
    doubles = []
    for file in files:
        if kept.setdefault(file.digest, file) is not file:
            doubles.append(file.name)
    return list(kept.values()), doubles


def _trimmed(file: LatencyFile) -> Run:
    found = find_warm_up(file.ns)
    return Run(file.name, file.ns[found.length :], found, file.digest)


def figures(values: Floats) -> Floats:
    """Return the figures of one run in the order of `STATISTICS`, ns; quantiles by linear interpolation."""
    return np.array([values.mean(), *np.quantile(values, list(QUANTILES.values())), values.min()])


def _figures(sides: Sequence[Sequence[Run]]) -> tuple[Figures, Figures]:
    """The mean, and the others: a table of tests, corrected for their number."""
    runs = [np.stack([figures(run.values) for run in side]) for side in sides]
    assumed = np.array([ASSUMED[name] for name in STATISTICS]) * np.maximum(
        *(one.mean(axis=0) for one in runs)
    )
    within = [_within(side) for side in sides]
    one, other = (
        compare_runs(runs[0][:, at], runs[1][:, at], assumed[at], (within[0][at], within[1][at]))
        for at in (slice(0, 1), slice(1, None))
    )
    return one, other


def _within(side: Sequence[Run]) -> Floats:
    """Variance of the figures of a side from the iterations of its runs, ns^2; nan of a lone run that does not tell."""
    if len(side) == 1 and len(side[0].values) < LEAST:
        return np.full(len(STATISTICS), np.nan)
    runs = np.stack([_variances(run.values) for run in side])
    return np.asarray((runs if len(side) == 1 else np.nan_to_num(runs)).sum(axis=0) / len(side) ** 2)


def _variances(values: Floats) -> Floats:
    """Squared standard errors of the figures of one run; nan of the minimum and of quantiles that so few iterations do not tell.

    Of a quantile: from its interval by order statistics (David and Nagaraja 2003, 7.1), of as many independent iterations.
    """
    from scipy.stats import binom

    n, out = independent(values), [variance_of_mean(values)]
    for name, at in QUANTILES.items():
        low, high = np.quantile(values, binom.ppf([0.025, 0.975], max(round(n), 1), at) / max(round(n), 1))
        out.append(((high - low) / 3.92) ** 2 if len(values) >= NEEDED.get(name, 2) else np.nan)
    return np.array([*out, np.nan])


def _rows(of_mean: Figures, others: Figures) -> list[LatencyRow]:
    largest = float(max(of_mean.found.baseline[0], of_mean.found.candidate[0]))
    rows: list[LatencyRow] = []
    for found, names in ((of_mean, STATISTICS[:1]), (others, STATISTICS[1:])):
        for at, (name, level) in enumerate(zip(names, levels(found, largest), strict=True)):
            change = {field: known(value) for field, value in found.found.change(at).items()}
            q = None if found is of_mean else known(found.q[at])
            rows.append(LatencyRow(name, **change, level=level, p_value=known(found.p[at]), q_value=q))  # type: ignore[arg-type]
    return rows


def _side(
    label: str, files: Sequence[LatencyFile], runs: Sequence[Run], left_out: Sequence[int]
) -> LatencySide:
    values = np.concatenate([run.values for at, run in enumerate(runs) if at not in left_out])
    drawn = np.quantile(values, np.linspace(0, 1, DRAWN + 1))
    described = [
        _run(file, run, at in left_out) for at, (file, run) in enumerate(zip(files, runs, strict=True))
    ]
    return LatencySide(label, described, len(values), drawn.tolist())


def _run(file: LatencyFile, run: Run, left_out: bool) -> LatencyRun:
    mean, median, p90, p99, least = figures(run.values).tolist()
    distance = np.abs(outlying(run.values))
    far = np.argsort(-distance, kind="stable")[: min(LISTED, int(np.count_nonzero(distance)))]
    return LatencyRun(
        name=file.name, format=file.format, column=file.column, unit=file.unit, unit_from=file.unit_from,
        iterations=len(run.values), trimmed=run.trimmed, mean_ns=mean, median_ns=median, p90_ns=p90, p99_ns=p99,
        min_ns=least, max_ns=float(run.values.max()), outliers=int(np.count_nonzero(distance)),
        largest=[LatencyOutlier(run.trimmed + int(at) + 1, float(run.values[at])) for at in far],
        left_out=left_out,
    )  # fmt: skip


def _reason(verdict: Verdict, step: Step, rows: Sequence[LatencyRow]) -> str:
    """The verdict in a sentence or two, with its figures."""
    if not any(row.delta_ns for row in rows):
        return say("latency_same")
    means, runs = both(time(step.baseline_ns), time(step.candidate_ns)), step.runs
    size = f"{signed(step.delta_ns)} per iteration{part(step.delta_ns, step.baseline_ns)}"
    slots = {
        "change": f"mean {means}, {size}",
        "floor": time(step.noise_floor_ns or 0.0),
        "least": f"{LEAST}",
    }
    if verdict in ("improved", "regressed"):
        p = "< 0.001" if step.p_value is not None and step.p_value < 0.001 else f"= {step.p_value:.3f}"
        return say(
            "latency_confirmed", p=p, baseline=f"{runs.baseline}", candidate=f"{runs.candidate}", **slots
        )
    if verdict in ("likely_improved", "likely_regressed"):
        return say("figure_one_run" if step.noise_source == "assumed" else "figure_few", **slots)
    if verdict == "no_change":
        within = "1 % of the iteration"
    elif rows[0].ci_low_ns is None:
        return say("latency_unknown", **slots)
    elif abs(step.delta_ns) <= (step.noise_floor_ns or 0.0):
        within = f"the noise floor of {slots['floor']}"
    else:
        kind = "run" if min(runs.baseline, runs.candidate) > 1 else "iteration"
        within = f"{kind}-to-{kind} variation"
    moved = [row for row in rows[1:] if row.level in ("confirmed", "likely")]
    told = [
        say("latency_but", statistic=row.statistic, both=both(time(row.baseline_ns), time(row.candidate_ns)))
        for row in moved[:1]
    ]
    return " ".join([say("figure_within", what=within, **slots), *told])


# Beside a comparison of traces: what profiling cost, and whether both say the same.

CORRESPOND = 2.0  # an iteration and a step this many times apart are not the same thing


def beside(latencies: Latencies, result: Result) -> Latencies:
    """Return the latencies with what the traces of the same programs say of them."""
    sides = {
        side: replace(getattr(latencies, side), label=getattr(result.inputs, side).label)
        for side in ("baseline", "candidate")
    }
    traced = [_traced(latencies, result, side) for side in ("baseline", "candidate")]
    return replace(latencies, **sides, traced=traced, note=_together(latencies, result, traced))


def _traced(latencies: Latencies, result: Result, side: Literal["baseline", "candidate"]) -> LatencyTraced:
    step, iteration = getattr(result.step, f"{side}_ns"), getattr(latencies.step, f"{side}_ns")
    runs = [run.mean_ns for run in getattr(latencies, side).runs if not run.left_out]
    alone = [one for phase in result.phases if (one := getattr(phase, side)) is not None]
    # Of one workload the runs of the trace are known each; of several only their mean at the baseline's mix.
    profiled = alone[0].run_means_ns if len(alone) == 1 else [step]
    cost = profiling_cost(profiled, runs)
    if cost is None or not 1 / CORRESPOND <= step / iteration <= CORRESPOND:
        return LatencyTraced(side, iteration, step, False)
    low, high = cost.ci_low_ns, cost.ci_high_ns
    return LatencyTraced(side, iteration, step, True, step - iteration, step / iteration - 1, low, high)


def _together(latencies: Latencies, result: Result, traced: list[LatencyTraced]) -> str:
    """Say whether the change of the trace is there without the profiler."""
    apart = [one for one in traced if not one.corresponds]
    none = len(apart) == len(traced)
    said = [
        say(
            "no_step_or_no_wait" if one.unprofiled_ns < one.traced_ns else "no_step",
            alone=time(one.unprofiled_ns), traced=time(one.traced_ns), side=one.side,
        )
        for one in apart[:1]
    ]  # fmt: skip
    # A side whose change alone put it so far apart must not hide that change: one side that fits is enough.
    return " ".join(said if none else [_changes(latencies, result), *said])


def _changes(latencies: Latencies, result: Result) -> str:
    ours, theirs = latencies.step, result.step
    undecided = latencies.verdict in ("no_change", "inconclusive")
    if undecided or result.verdict in ("no_change", "inconclusive", "not_comparable"):
        kind = "verdicts"
    elif (ours.delta_ns > 0) != (theirs.delta_ns > 0):
        kind = "contradict"
    else:
        kind = "agree" if ours.ci_low_ns <= theirs.delta_ns <= ours.ci_high_ns else "disagree"
    return say(
        f"latency_traces_{kind}", traced=_change(theirs), alone=_change(ours), of_trace=result.verdict, of_latencies=latencies.verdict
    )  # fmt: skip


def _change(step: Step) -> str:
    return f"{signed(step.delta_ns)}{part(step.delta_ns, step.baseline_ns)}"
