"""Two sides of trtexec compared: the figures of its summary, the layers of both engines, and a verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tracediff.companions import words as text
from tracediff.companions.model import Trtexec, TrtexecFigure, TrtexecRow, TrtexecRun, TrtexecSide
from tracediff.companions.trtexec.layers import Engine, assumed, compare_layers, engine_of, groups
from tracediff.companions.trtexec.read import Floats, Log, Run, Side, Times
from tracediff.companions.verdict import compare_runs, levels, variance_of_mean
from tracediff.model import Note, Verdict

PERCENTILES = (90.0, 95.0, 99.0)  # trtexec's default
METRICS = ("gpu_compute", "latency", "throughput", "enqueue", "h2d", "d2h")
NAMES = {
    "gpu_compute": "GPU compute time", "latency": "latency", "throughput": "throughput", "enqueue": "enqueue time",
    "h2d": "H2D latency", "d2h": "D2H latency", "layers": "sum of the layers",
}  # fmt: skip
_DIGIT = 1.1e-5  # of a value that both sides write with six significant digits
_ROUNDED = 0.05  # part of the enqueue time that its time stamps may be rounded to
_SUMMED = 1e-3  # of a mean: trtexec adds up in float32
_HEADLINES = ("gpu_compute", "latency", "layers")  # what the verdict is of: the first that both sides have
_ENQUEUE_BOUND = 0.8  # trtexec's own threshold (kENQUEUE_BOUND_REPORTING_THRESHOLD), of medians
_UNSTABLE = 1.0  # its kUNSTABLE_PERF_REPORTING_THRESHOLD, % coefficient of variation
_SAME = 0.01  # as in companions/verdict.py


@dataclass(frozen=True, eq=False)
class RunFigures:
    """Of one run: metric -> mean, min, max, median, p90, ... in ns; of throughput the mean, a second."""

    values: dict[str, dict[str, float]]
    source: dict[str, str]  # metric -> times | log
    iterations: dict[str, Floats]  # metric -> a value an iteration, ns
    measured: int | None
    warmups: int | None
    differ: list[str]  # what the log says otherwise
    warmups_unknown: bool
    rounded: float | None  # ns, rounding of the time stamps that left the enqueue time out


def compare_trtexec(baseline: Side, candidate: Side) -> Trtexec:
    """Compare two sides, each one run of trtexec or several."""
    sides = baseline, candidate
    figures = [[figures_of(run) for run in side.runs] for side in sides]
    engines = [engine_of(side.runs) for side in sides]
    one, other = engines
    rows = compare_layers(one, other) if one and other else []
    table = _figures(figures[0], figures[1], engines)
    verdict, reason = _verdict(table, min(len(side.runs) for side in sides), rows)
    labels = _labels(baseline, candidate)
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


def _labels(baseline: Side, candidate: Side) -> tuple[str, str]:
    """The sides' names, told apart where they are the same."""
    if baseline.label != candidate.label:
        return baseline.label, candidate.label
    return f"{baseline.label} (baseline)", f"{candidate.label} (candidate)"


def _side(label: str, side: Side, figures: Sequence[RunFigures], engine: Engine | None) -> TrtexecSide:
    logs = [run.log for run in side.runs if run.log]
    total = engine.time(range(len(engine.layers))) if engine else None
    reformats = [number for number, layer in enumerate(engine.keys) if layer.reformat] if engine else []
    return TrtexecSide(
        label=label,
        runs=[
            TrtexecRun(run.name, list(run.files), one.measured, one.warmups, run.iterations)
            for run, one in zip(side.runs, figures, strict=True)
        ],
        version=", ".join(dict.fromkeys(log.version for log in logs if log.version)),
        device=", ".join(dict.fromkeys(log.device for log in logs if log.device)),
        layers=len(engine.layers) if engine else 0,
        reformats=len(reformats),
        total_ns=total,
        reformat_ns=(engine.time(reformats) or 0.0) if engine and total is not None else None,
    )


def _figures(
    baseline: Sequence[RunFigures], candidate: Sequence[RunFigures], engines: Sequence[Engine | None]
) -> list[TrtexecFigure]:
    sides = baseline, candidate
    found = []
    for metric in METRICS:
        per_run = [[run.values[metric] for run in side if metric in run.values] for side in sides]
        if any(per_run):
            source = [
                ", ".join(dict.fromkeys(run.source[metric] for run in side if metric in run.source))
                for side in sides
            ]
            found.append(TrtexecFigure(metric, *_both(per_run), source))  # type: ignore[arg-type]
    totals = [
        [{"mean": one} for one in np.nansum(engine.times, axis=1).tolist()] if engine else []
        for engine in engines
    ]
    if any(totals):
        found.append(TrtexecFigure("layers", *_both(totals), ["profile" if side else "" for side in totals]))
    return _judged(found, sides, totals)


def _both(
    per_run: Sequence[Sequence[dict[str, float]]],
) -> tuple[dict[str, float], dict[str, float], dict[str, float]]:
    one, other = (_mean(side) for side in per_run)
    return one, other, {key: other[key] - one[key] for key in one if key in other}


def _mean(runs: Sequence[dict[str, float]]) -> dict[str, float]:
    """Means over runs of what all of them have."""
    keys = [key for key in runs[0] if all(key in run for run in runs)] if runs else []
    return {key: math.fsum(run[key] for run in runs) / len(runs) for key in keys}


def _judged(
    figures: list[TrtexecFigure],
    sides: Sequence[Sequence[RunFigures]],
    totals: Sequence[Sequence[dict[str, float]]],
) -> list[TrtexecFigure]:
    """Add what statistics say of the figures that every run of both sides has."""
    known = [
        one.metric
        for one in figures
        if all(_run_means(one.metric, side, of) is not None for side, of in zip(sides, totals, strict=True))
    ]
    if not known:
        return figures
    runs = [
        np.array([_run_means(metric, side, of) for metric in known], np.float64).T
        for side, of in zip(sides, totals, strict=True)
    ]
    host = [_of_host(metric, figures) for metric in known]
    found = compare_runs(runs[0], runs[1], assumed(runs[0], runs[1], host=host), _within(known, sides))
    largest = max(float(one.mean(axis=0)[0]) for one in runs)
    sure = levels(found, largest)
    place = {metric: number for number, metric in enumerate(known)}
    return [
        TrtexecFigure(
            one.metric, one.baseline, one.candidate, one.delta, one.source, sure[at], *found.bounds(at),
            None if math.isnan(found.p[at]) else float(found.p[at]), float(found.floor[at]),
        )
        if (at := place.get(one.metric)) is not None
        else one
        for one in figures
    ]  # fmt: skip


def _within(known: Sequence[str], sides: Sequence[Sequence[RunFigures]]) -> tuple[Floats, Floats]:
    """Variance of each side's figures from the iterations of its runs; 0 where a run has none."""
    one, other = (
        np.array(
            [
                sum(variance_of_mean(values) for values in own) / len(side) ** 2
                if len(own) == len(side)
                else 0.0
                for metric in known
                for own in [[run.iterations[metric] for run in side if metric in run.iterations]]
            ]
        )
        for side in sides
    )
    return one, other


def _run_means(
    metric: str, runs: Sequence[RunFigures], totals: Sequence[dict[str, float]]
) -> list[float] | None:
    """One value a run, ns (of throughput its reciprocal); None where a run has none."""
    of = list(totals) if metric == "layers" else [run.values.get(metric, {}) for run in runs]
    if len(of) != len(runs) or not all("mean" in one and math.isfinite(one["mean"]) for one in of):
        return None
    values = [one["mean"] for one in of]
    if metric != "throughput":
        return values
    return [1e9 / value for value in values] if all(values) else None


def _of_host(metric: str, figures: Sequence[TrtexecFigure]) -> bool:
    """Whether a figure varies from run to run as host time does, not as GPU time."""
    if metric == "throughput":
        return any(_enqueue_bound(figures, side) for side in (0, 1))
    return metric == "enqueue"


def _enqueue_bound(figures: Sequence[TrtexecFigure], side: int) -> bool:
    """Whether trtexec would say that throughput may be bound by enqueue time."""
    medians = {
        one.metric: (one.candidate if side else one.baseline).get("median", math.nan) for one in figures
    }
    return medians.get("enqueue", math.nan) > _ENQUEUE_BOUND * medians.get("gpu_compute", math.nan)


def _verdict(figures: Sequence[TrtexecFigure], runs: int, rows: Sequence[TrtexecRow]) -> tuple[Verdict, str]:
    by_metric = {one.metric: one for one in figures}
    best = next((by_metric[name] for name in _HEADLINES if name in by_metric and by_metric[name].level), None)
    if best is None or best.level is None or best.ci_low_ns is None or best.ci_high_ns is None:
        alike = bool(rows) and all(
            row.match == "exact" and not row.changes and not row.delta_ns for row in rows
        )
        return (("no_change", "The layers of both engines are the same; no times were given on both sides.") if alike else
                ("inconclusive", "No figure was given on both sides."))  # fmt: skip
    before, after, delta = best.baseline["mean"], best.candidate["mean"], best.delta["mean"]
    percent = f" ({100 * delta / before:+.1f} %)" if before else ""
    change = f"{NAMES[best.metric]} {text.both(text.time(before), text.time(after))} per query{percent}"
    change = change[0].upper() + change[1:]
    if all(not value for one in figures for value in one.delta.values()) and not any(
        row.delta_ns for row in rows
    ):
        return "no_change", f"{change}: every figure is the same on both sides."
    if best.level == "confirmed":
        return ("regressed" if delta > 0 else "improved"), f"{change}, confirmed over the runs."
    if best.level == "likely":
        why = (
            "one run per side: run-to-run noise is assumed, not measured"
            if runs < 2
            else "too few runs to confirm it"
        )
        return ("likely_regressed" if delta > 0 else "likely_improved"), (
            f"{change}, beyond the noise floor of {text.time(best.noise_ns or 0.0)}; {why}."
        )  # fmt: skip
    limit = _SAME * before
    if abs(delta) <= limit and max(abs(best.ci_low_ns), abs(best.ci_high_ns)) <= 3 * limit:
        return "no_change", f"{change}, within 1 %."
    return "inconclusive", f"{change}, within run-to-run noise (floor {text.time(best.noise_ns or 0.0)})."


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
            notes += _of_run(where, run, one)
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


def _of_run(where: str, run: Run, one: RunFigures) -> list[Note]:
    more = f"; {len(one.differ) - 3} more" if len(one.differ) > 3 else ""
    compute = one.iterations.get("gpu_compute")
    spread = 100 * float(compute.std() / compute.mean()) if compute is not None and compute.any() else None
    spread = spread if spread is not None else run.log.unstable if run.log else None
    notes = (
        (one.differ, Note("trtexec-log-differs",
         f"{where}: the log is not of the same run as the times: {'; '.join(one.differ[:3])}{more}")),
        (one.warmups_unknown, Note("trtexec-warmups",
         f"{where}: this version of trtexec exports the warm-ups among the times, and without the log they cannot be told apart:"
         " they are in the figures")),
        (run.log and run.log.profiled, Note("trtexec-profiled",
         f"{where}: the layers were profiled while the latencies were measured, which slows them down (--separateProfileRun"
         " measures them apart)")),
        (one.rounded is not None, Note("trtexec-rounded",
         f"{where}: the time stamps that the enqueue times are differences of are rounded to {text.time(one.rounded or 0.0)}:"
         " these times were left out; the log has them")),
        ((spread or 0.0) > _UNSTABLE, Note("trtexec-unstable",
         f"{where}: GPU compute time is unstable, its standard deviation {spread or 0.0:.1f} % of the mean (lock the GPU's"
         " clocks, or --useSpinWait)")),
        (run.skipped, Note("trtexec-no-summary",
         f"{where}: {', '.join(run.skipped)} has no performance summary and was left out")),
    )  # fmt: skip
    return [note for there, note in notes if there]


def _between(sides: Sequence[Side]) -> list[Note]:
    """What the logs say that makes the sides differ in more than the engine."""
    notes = []
    logs = [[run.log for run in side.runs if run.log] for side in sides]
    devices = [sorted({log.device for log in of if log.device}) for of in logs]
    if all(devices) and devices[0] != devices[1]:
        before, after = map(", ".join, devices)
        notes.append(Note("trtexec-devices-differ", f"measured on {before} and on {after}"))
    options = [
        {name: {log.options[name] for log in of if name in log.options} for log in of for name in log.options}
        for of in logs
    ]
    other = [
        f"{name} {', '.join(sorted(options[0][name]))} -> {', '.join(sorted(options[1][name]))}"
        for name in options[0]
        if name in options[1] and options[0][name] != options[1][name]
    ]
    if other:
        notes.append(Note("trtexec-options-differ", f"options differ: {'; '.join(other)}"))
    return notes


# Figures of one run of trtexec, by its own rules, and whether its log says the same.


def percentile(ordered: Floats, percent: float) -> float:
    """Return a percentile of sorted values by trtexec's rule."""
    part = np.float32(1) - np.float32(percent) / np.float32(100)
    exclude = int(part * np.float32(len(ordered)))
    return float(ordered[max(len(ordered) - 1 - exclude, 0)])


def summarise(values: Floats, percents: tuple[float, ...] = PERCENTILES) -> dict[str, float]:
    """Return mean, min, max, median and percentiles of some values."""
    ordered = np.sort(values)
    found = {
        "mean": float(values.mean()), "min": float(ordered[0]), "max": float(ordered[-1]), "median": float(np.median(ordered)),
    }  # fmt: skip
    return found | {f"p{one:g}": percentile(ordered, one) for one in percents}


def figures_of(run: Run) -> RunFigures:
    """Return what a run's times and log say together.

    GPU compute time, latency and copies are taken from the times where they are given. Enqueue time and throughput are
    differences of time stamps, which the file of times rounds to six digits: they are taken from the log where there is one.
    """
    log, values, source = run.log, dict[str, dict[str, float]](), dict[str, str]()
    times, warmups, batch = _measured(run.times, log)
    if times is not None:
        percents = tuple(sorted({*PERCENTILES, *_percents(log)}))
        for metric, one in times.values.items():
            values[metric], source[metric] = summarise(one, percents), "times"
        if (qps := throughput(times, batch)) is not None:
            values["throughput"], source["throughput"] = {"mean": qps}, "times"
    differ = _differences(times, log, values, batch)
    if log is not None:
        stated = {name: figures for name, figures in log.figures.items() if "mean" in figures}
        if log.throughput:
            stated["throughput"] = {"mean": log.throughput}
        for metric, figures in stated.items():
            if times is None or metric not in values or (metric in ("enqueue", "throughput") and not differ):
                values[metric], source[metric] = figures, "log"
    rounded = None
    of_stamps = times is not None and source.get("enqueue") == "times"
    if times is not None and of_stamps and times.rounding > _ROUNDED * values["enqueue"]["mean"]:
        rounded = times.rounding
        del values["enqueue"], source["enqueue"]
    return RunFigures(
        values=values,
        source=source,
        iterations={name: one for name, one in times.values.items() if name in values} if times else {},
        measured=len(times.start) if times else log.queries if log else None,
        warmups=warmups,
        differ=differ,
        warmups_unknown=times is not None and times.with_warmups and (log is None or log.queries is None),
        rounded=rounded,
    )


def _percents(log: Log | None) -> set[float]:
    keys = {key for figures in log.figures.values() for key in figures} if log else set()
    return {float(key[1:]) for key in keys if key[0] == "p" and float(key[1:]) <= 100}


def _measured(times: Times | None, log: Log | None) -> tuple[Times | None, int | None, int]:
    """Return the iterations without those to warm up, how many these were, and how many queries one is (implicit batch)."""
    if times is None or log is None or not log.queries:
        return times, None, 1
    stated = log.options.get("Batch", "")
    batch = int(stated) if stated.isdecimal() and len(stated) < 7 and int(stated) else 1
    rows, queries, before = len(times.start) * batch, log.queries, log.warmups or 0
    if rows == queries + before and before > 0 and before % batch == 0:
        return times.after(before // batch), before // batch, batch
    return times, None, batch


def throughput(times: Times, batch: int = 1) -> float | None:
    """Return queries a second; None where the time stamps do not tell the wall time."""
    last = times.start == times.start[-1]
    wall = float(times.end[last].max() - times.start[0])
    return batch * len(times.start) / wall * 1e9 if wall > 0 else None


def _differences(
    times: Times | None, log: Log | None, values: dict[str, dict[str, float]], batch: int
) -> list[str]:
    """Say which figures of the log are not those of the times, beyond what rounding explains."""
    if times is None or log is None:
        return []
    found = []
    if log.queries is not None and log.queries != batch * len(times.start):
        found.append(f"{log.queries:,} queries in the log, {batch * len(times.start):,} in the times")
    for metric, stated in log.figures.items():
        for key, value in stated.items():
            mine = values.get(metric, {}).get(key)
            if mine is None:
                continue
            near = (_SUMMED if key == "mean" else _DIGIT) * max(mine, value) + 1e-3
            if abs(mine - value) > near + (2 * times.rounding if metric == "enqueue" else 0.0):
                found.append(f"{NAMES[metric]}, {key}: {text.time(value)} in the log, {text.time(mine)} from the times")  # fmt: skip
    mine = values.get("throughput", {}).get("mean")
    if mine is not None and log.throughput:
        wall = batch * len(times.start) / mine * 1e9
        if abs(mine - log.throughput) > (_SUMMED + 4 * times.rounding / wall) * mine:
            found.append(f"throughput: {log.throughput:,.6g} a second in the log, {mine:,.6g} from the times")
    return found
