"""Two sides of trtexec compared: the figures of its summary, the layers of both engines, and a verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np
from msgspec.structs import replace

from tracediff.arrays import Floats
from tracediff.companions import words as text
from tracediff.companions.model import Trtexec, TrtexecFigure, TrtexecRow, TrtexecRun, TrtexecSide
from tracediff.companions.trtexec.layers import Engine, assumed, compare_layers, engine_of, groups
from tracediff.companions.trtexec.read import Log, Run, Side, Times
from tracediff.companions.verdict import compare_runs, decide, levels, variance_of_mean
from tracediff.errors import some
from tracediff.model import Note, Verdict
from tracediff.report.grammar import say

PERCENTILES = (90.0, 95.0, 99.0)  # trtexec's default
NAMES = {
    "gpu_compute": "GPU compute time", "latency": "latency", "throughput": "throughput", "end_to_end": "end-to-end host latency", "enqueue": "enqueue time",
    "h2d": "H2D latency", "d2h": "D2H latency", "layers": "sum of the layers", "build": "time of the whole build",
}  # fmt: skip
# what the verdict is of: the first that both sides have
_HEADLINES = ("gpu_compute", "latency", "layers", "build")
# parts: of a value with six significant digits; of a mean, that trtexec adds up in float32
_DIGIT, _SUMMED = (1.1e-5, 1e-3)
_ENQUEUE_BOUND = 0.8  # trtexec's own threshold (kENQUEUE_BOUND_REPORTING_THRESHOLD), of medians
_UNSTABLE = 1.0  # its kUNSTABLE_PERF_REPORTING_THRESHOLD, % coefficient of variation


class RunFigures(msgspec.Struct, frozen=True, eq=False):
    """Of one run: metric -> mean, min, max, median, p90, ... in ns; of throughput the mean, a second."""

    values: dict[str, dict[str, float]]
    source: dict[str, str]  # metric -> times | log | profile
    iterations: dict[str, Floats]  # metric -> a value an iteration, ns
    measured: int | None
    differ: list[str]  # what the log says otherwise


def compare_trtexec(baseline: Side, candidate: Side) -> Trtexec:
    """Compare two sides, each one run of trtexec or several."""
    sides = baseline, candidate
    figures = [[figures_of(run) for run in side.runs] for side in sides]
    one, other = engines = [engine_of(side.runs) for side in sides]
    rows = compare_layers(one, other) if one and other else []
    table, verdicts = _figures(figures, engines)
    verdict, reason = _verdict(table, verdicts, min(len(side.runs) for side in sides), rows)
    labels = [side.label for side in sides]
    if baseline.label == candidate.label:
        labels = [f"{baseline.label} (baseline)", f"{candidate.label} (candidate)"]
    return Trtexec(
        baseline=_side(labels[0], baseline, figures[0], one),
        candidate=_side(labels[1], candidate, figures[1], other),
        verdict=verdict,
        verdict_reason=reason,
        figures=table,
        rows=rows,
        groups=groups(one, other) if one and other else [],
        warnings=_warnings(sides, labels, figures, engines, rows),
    )


def _side(label: str, side: Side, figures: Sequence[RunFigures], engine: Engine | None) -> TrtexecSide:
    logs = [run.log for run in side.runs if run.log]
    layers = engine.layers if engine else []
    total = engine.time(range(len(layers))) if engine else None
    reformats = [number for number, layer in enumerate(layers) if layer.reformat]
    return TrtexecSide(
        label=label,
        runs=[
            TrtexecRun(run.name, list(run.files), one.measured)
            for run, one in zip(side.runs, figures, strict=True)
        ],
        version=", ".join(dict.fromkeys(log.version for log in logs if log.version)),
        device=", ".join(dict.fromkeys(log.device for log in logs if log.device)),
        layers=len(layers),
        reformats=len(reformats),
        total_ns=total,
        reformat_ns=(engine.time(reformats) or 0.0) if engine and total is not None else None,
    )


def _figures(
    sides: Sequence[Sequence[RunFigures]], engines: Sequence[Engine | None]
) -> tuple[list[TrtexecFigure], dict[str, Verdict]]:
    """All figures, and the verdicts on those that every run of both sides has."""
    columns = [_columns(runs, engine) for runs, engine in zip(sides, engines, strict=True)]
    found = {}
    for metric in NAMES:
        before, after = (_mean([one for one in column[metric] if one]) for column in columns)
        if before or after:
            delta = {key: after[key] - before[key] for key in before if key in after}
            source = [
                ", ".join(dict.fromkeys(run.source[metric] for run in runs if metric in run.source))
                if metric != "layers" else "profile" if any(column[metric]) else ""
                for runs, column in zip(sides, columns, strict=True)
            ]  # fmt: skip
            found[metric] = TrtexecFigure(metric, before, after, delta, source)  # type: ignore[arg-type]
    known = [name for name in found if all(_means(name, column[name]) for column in columns)]
    if not known:
        return list(found.values()), {}
    one, other = (
        np.array([_means(name, column[name]) for name in known], np.float64).T for column in columns
    )
    within = [np.array([_within(name, runs) for name in known]) for runs in sides]
    host = [_of_host(name, found) for name in known]
    figures = compare_runs(one, other, assumed(one, other, host=host), (within[0], within[1]))
    sure = levels(figures, max(float(one.mean(axis=0)[0]), float(other.mean(axis=0)[0])))
    for at, name in enumerate(known):
        low, high = float(figures.found.low[at]), float(figures.found.high[at])
        p = None if math.isnan(figures.p[at]) else float(figures.p[at])
        noise = float(figures.floor[at])
        found[name] = replace(
            found[name], level=sure[at], ci_low_ns=low, ci_high_ns=high, p_value=p, noise_ns=noise
        )
    return list(found.values()), {name: decide(figures, sure[at], at) for at, name in enumerate(known)}


def _columns(runs: Sequence[RunFigures], engine: Engine | None) -> dict[str, list[dict[str, float]]]:
    """Metric -> its figures in each run, none where a run has none."""
    sums = [{"mean": one} for one in np.nansum(engine.times, axis=1).tolist()] if engine else []
    found = {name: [run.values.get(name, {}) for run in runs] for name in NAMES}
    return found | {"layers": [*sums, *({} for _ in runs[len(sums) :])]}


def _mean(runs: Sequence[dict[str, float]]) -> dict[str, float]:
    """Means over runs of what all of them have."""
    keys = [key for key in runs[0] if all(key in run for run in runs)] if runs else []
    return {key: math.fsum(run[key] for run in runs) / len(runs) for key in keys}


def _means(metric: str, column: Sequence[dict[str, float]]) -> list[float]:
    """One value a run, ns (of throughput its reciprocal); empty where a run has none."""
    values = [one.get("mean", math.nan) for one in column]
    if metric == "throughput":
        values = [1e9 / value if value else math.nan for value in values]
    return values if np.isfinite(values).all() else []


def _within(metric: str, runs: Sequence[RunFigures]) -> float:
    """Variance of a side's mean from the iterations of its runs; 0 where a run has none."""
    own = [run.iterations[metric] for run in runs if metric in run.iterations]
    return sum(map(variance_of_mean, own)) / len(runs) ** 2 if len(own) == len(runs) else 0.0


def _of_host(metric: str, figures: dict[str, TrtexecFigure]) -> bool:
    """Whether a figure varies from run to run as host time does, not as GPU time."""
    if metric == "throughput" and "enqueue" in figures and "gpu_compute" in figures:
        enqueue, compute = figures["enqueue"], figures["gpu_compute"]
        return any(
            one.get("median", 0.0) > _ENQUEUE_BOUND * other.get("median", math.inf)
            for one, other in ((enqueue.baseline, compute.baseline), (enqueue.candidate, compute.candidate))
        )
    return metric in ("enqueue", "end_to_end", "build")


def _verdict(
    figures: Sequence[TrtexecFigure], verdicts: dict[str, Verdict], runs: int, rows: Sequence[TrtexecRow]
) -> tuple[Verdict, str]:
    """The verdict on the first figure of `_HEADLINES`, and its sentence."""
    metric = next((name for name in _HEADLINES if name in verdicts), None)
    if metric is None:
        if rows and all(row.match == "exact" and not row.changes and not row.delta_ns for row in rows):
            return "no_change", say("engines_alike")
        return "inconclusive", say("no_figure")
    best, verdict = next(one for one in figures if one.metric == metric), verdicts[metric]
    before, after, delta = best.baseline["mean"], best.candidate["mean"], best.delta["mean"]
    name = NAMES[metric][0].upper() + NAMES[metric][1:]
    slots = {
        "name": name,
        "both": text.both(text.time(before), text.time(after)),
        "part": text.part(delta, before),
    }
    change = say("build_time" if metric == "build" else "query_time", **slots)
    tactics = sum(any(one.what == "tactic" for one in row.changes) for row in rows)
    if metric == "build" and tactics:
        change = say("other_tactics", change=change, count=f"{tactics}", layers=f"{len(rows)}")
    if not any(value for one in figures for value in one.delta.values()) and not any(
        row.delta_ns for row in rows
    ):
        kind = "same"
    elif best.level == "confirmed":
        kind = "confirmed"
    elif best.level == "likely":
        kind = "one_run" if runs < 2 else "few"
    else:
        kind = "within"
    floor = text.time(best.noise_ns or 0.0)
    what = "1 %" if verdict == "no_change" else f"run-to-run noise (floor {floor})"
    return verdict, say(f"figure_{kind}", change=change, floor=floor, what=what)


def _warnings(
    sides: Sequence[Side],
    labels: Sequence[str],
    figures: Sequence[Sequence[RunFigures]],
    engines: Sequence[Engine | None],
    rows: Sequence[TrtexecRow],
) -> list[Note]:
    notes = []
    for side, label, of, engine in zip(sides, labels, figures, engines, strict=True):
        for run, one in zip(side.runs, of, strict=True):
            where = label if len(side.runs) == 1 else f"{label}, {run.name}"
            notes += [Note(slug, f"{where}: {message}") for slug, message in _of_run(run, one)]
        if engine and engine.left_out:
            notes.append(
                Note("trtexec-runs-differ", f"{label}: {engine.left_out} of {len(side.runs)} runs have other layers than the"
                     " first: they are of another engine, and their profiles were left out")
            )  # fmt: skip
    notes += _between(sides)
    if any(engines) and not all(engines):
        notes.append(
            Note("trtexec-layers-one-side", "layers were given for one side only, and are not compared")
        )
    if rows and not any(row.baseline and row.candidate for row in rows):
        notes.append(Note("trtexec-nothing-paired", "no layer of one engine is like one of the other"))
    return notes


def _of_run(run: Run, one: RunFigures) -> list[tuple[str, str]]:
    compute = one.iterations.get("gpu_compute")
    spread = (run.log.unstable if run.log else None) or 0.0
    if compute is not None and compute.any():
        spread = 100 * float(compute.std() / compute.mean())
    notes = (
        (one.differ, "trtexec-log-differs",
         f"the log is not of the same run as the times: {some(one.differ, 3, '; ', '; ')}"),
        (run.times and run.times.with_warmups and not run.log, "trtexec-warmups",
         "this version of trtexec exports the warm-ups among the times, and without the log they cannot be told apart:"
         " they are in the figures"),
        (run.log and run.log.profiled, "trtexec-profiled",
         "the layers were profiled while the latencies were measured, which slows them down (--separateProfileRun"
         " measures them apart)"),
        (spread > _UNSTABLE, "trtexec-unstable",
         f"GPU compute time is unstable, its standard deviation {spread:.1f} % of the mean (lock the GPU's clocks, or"
         " --useSpinWait)"),
        (run.skipped, "trtexec-no-summary", f"{', '.join(run.skipped)} has no performance summary and was left out"),
    )  # fmt: skip
    return [(slug, message) for there, slug, message in notes if there]


def _between(sides: Sequence[Side]) -> list[Note]:
    """What the logs say that makes the sides differ in more than the engine."""
    notes = []
    logs = [[run.log for run in side.runs if run.log] for side in sides]
    one, other = (", ".join(sorted({log.device for log in of if log.device})) for of in logs)
    if one and other and one != other:
        notes.append(Note("trtexec-devices-differ", f"measured on {one} and on {other}"))
    before, after = (
        {name: ", ".join(sorted({log.options[name] for log in of if name in log.options})) for log in of for name in log.options}
        for of in logs
    )  # fmt: skip
    differ = [
        f"{name} {before[name]} -> {after[name]}"
        for name in before
        if name in after and before[name] != after[name]
    ]
    if differ:
        notes.append(Note("trtexec-options-differ", f"options differ: {'; '.join(differ)}"))
    return notes


# Figures of one run of trtexec, by its own rules, and whether its log says the same.


def percentile(ordered: Floats, percent: float) -> float:
    """Return a percentile of sorted values by trtexec's rule."""
    part = np.float32(1) - np.float32(percent) / np.float32(100)
    exclude = int(part * np.float32(len(ordered)))
    return float(ordered[max(len(ordered) - 1 - exclude, 0)])


def summarise(values: Floats) -> dict[str, float]:
    """Return mean, min, max, median and percentiles of some values."""
    ordered = np.sort(values)
    found = {
        "mean": float(values.mean()), "min": float(ordered[0]), "max": float(ordered[-1]), "median": float(np.median(ordered)),
    }  # fmt: skip
    return found | {f"p{one:g}": percentile(ordered, one) for one in PERCENTILES}


def figures_of(run: Run) -> RunFigures:
    """Return what a run's times and log say together.

    GPU compute time, latency and copies are taken from the times where they are given, enqueue time and throughput from the log:
    they are differences of time stamps, of which the file of times has six digits. Of times with warm-ups the log knows the others.
    """
    log, times = run.log, run.times
    if times is not None and times.with_warmups and log is not None:
        times = None
    iterations = times.values if times is not None else {}
    values = {metric: summarise(one) for metric, one in iterations.items()}
    source = dict.fromkeys(values, "times")
    differ = _differences(log, values) if log is not None else []
    if log is not None and not differ:
        stated = {name: figures for name, figures in log.figures.items() if "mean" in figures}
        if log.throughput:
            stated["throughput"] = {"mean": log.throughput}
        if log.build is not None:
            stated["build"] = {"mean": log.build}
        values = stated | values
        source = dict.fromkeys(stated, "log") | source
    if times is not None and "throughput" not in values and (rate := throughput(times)) is not None:
        values["throughput"], source["throughput"] = {"mean": rate}, "times"
    measured = len(times.start) if times is not None else log.queries if log is not None else None
    return RunFigures(values, source, iterations, measured, differ)


def throughput(times: Times) -> float | None:
    """Return iterations a second; None where the time stamps do not tell the wall time."""
    last = times.start == times.start[-1]
    wall = float(times.end[last].max() - times.start[0])
    return len(times.start) / wall * 1e9 if wall > 0 else None


def _differences(log: Log, values: dict[str, dict[str, float]]) -> list[str]:
    """Say which figures of the log are not those of the times, beyond what rounding explains."""
    found = []
    for metric, stated in log.figures.items():
        for key, value in stated.items():
            mine = values.get(metric, {}).get(key, value)
            if abs(mine - value) > (_SUMMED if key == "mean" else _DIGIT) * max(mine, value) + 1e-3:
                found.append(f"{NAMES[metric]}, {key}: {text.time(value)} in the log, {text.time(mine)} from the times")  # fmt: skip
    return found
