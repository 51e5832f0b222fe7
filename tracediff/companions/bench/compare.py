"""A benchmark's own figures on both sides, and how much of their change the trace explains."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from tracediff.companions import are_latencies
from tracediff.companions.bench.read import KpiReport, Metric, read
from tracediff.companions.model import Kpi, KpiRow, KpiVerdict
from tracediff.errors import TracediffError
from tracediff.formats.bundle import SIDES
from tracediff.model import Evidence, Note
from tracediff.model.causes import SURELY
from tracediff.model.show import ShowFigure, ShowKpi
from tracediff.report.grammar import say
from tracediff.stats.rules import PERMUTE
from tracediff.stats.tests import ALPHA, benjamini_hochberg, trimmed

if TYPE_CHECKING:
    from tracediff.companions.model import Result
    from tracediff.formats.bundle import Bundle, BundleRun


NO_CHANGE = 0.005  # below this part of the larger side a figure has not moved: a share of it would be noise

# One of these a step and request, and a mean like the step time of the trace: neither a tail nor the median is made of
# mean steps (a pause in every fifth step moves the mean and leaves the median).
_PER_STEP = re.compile(r"(tpot|itl|host_step_time|device_step_time)_(generation_)?mean_ms\Z")
_UNKNOWN = (math.nan, math.nan)
_ORDER = ("request_throughput", "output_throughput", "total_throughput", "ttft", "tpot", "itl", "e2e",
          "host_step_time", "device_step_time")  # fmt: skip


def compare_kpi(
    baseline: Sequence[KpiReport], candidate: Sequence[KpiReport], step_ns: Mapping[str, tuple[float, float]]
) -> Kpi:
    """Return the figures that both sides have; with several reports a side, the mean of those that have it, and its interval over reports.

    `step_ns`: mean step times of the trace, baseline and candidate, of all steps ("") and of phases. `explained` is the share of a
    figure's delta that the trace's step-time delta makes up:

        explained = (step_candidate - step_baseline) / tokens a step / (figure_candidate - figure_baseline)

    of means that are one step long: TPOT, ITL, host and device step time. `tokens a step` is 1, but for TPOT with speculative
    decoding: the baseline's `tokens_per_step`, where its reports have it. None for other figures, where the figure moved by
    less than `NO_CHANGE`, and where a step time is not finite. A figure of generation steps is explained by those.
    """
    sides = (_means(baseline), _means(candidate))
    tokens = sides[0].get("tokens_per_step")
    rows = []
    for name in sorted(sides[0].keys() & sides[1].keys(), key=_sort_key):
        before, after = sides[0][name], sides[1][name]
        before_ns, after_ns = step_ns.get("generation" if "_generation_" in name else "", _UNKNOWN)
        per_step = (after_ns - before_ns) / 1e6
        if tokens and name.startswith("tpot_"):
            per_step /= tokens.value
        rows.append(
            KpiRow(
                name, before.unit, before.better, before.value, after.value, after.value - before.value,
                _explained(name, before.value, after.value, per_step),
            )
        )  # fmt: skip
    rows = _judged(rows, baseline, candidate)
    verdict, named = _verdict(rows)
    return Kpi(
        source_baseline=_sources(baseline),
        source_candidate=_sources(candidate),
        rows=rows,
        note=_note(baseline, candidate, sides),
        verdict=verdict,
        named=tuple(row.metric for row in named),
    )


# What users notice: the first figure of a line tells as much as the others of it.
_NOTICED = (
    (("ttft_mean_ms", "ttft_p99_ms"),),
    (("tpot_mean_ms", "tpot_p99_ms"), ("itl_mean_ms", "itl_p99_ms")),
    (("output_throughput_tok_s",), ("request_throughput_req_s",)),
)


def _verdict(rows: Sequence[KpiRow]) -> tuple[KpiVerdict, list[KpiRow]]:
    """The verdict on what users notice, and the rows that it is of; where a report has nothing of it, on what is one step long."""
    known = {row.metric: row for row in rows}
    lines = [
        [some for names in line if (some := [known[name] for name in names if name in known])]
        for line in _NOTICED
    ]
    if not any(lines):
        lines = [[sorted(rows, key=lambda row: row.explained is None)[:1]]]
    named = [row for line in lines for row in next(filter(None, map(_moved, line)), [])]
    if not named:
        first = [line[0][0] for line in lines if line and line[0]]
        same = all(abs(row.delta) <= SURELY * max(row.baseline, row.candidate) for row in first)
        return ("no_change" if first and same else "inconclusive"), first
    if any(row.level is None for row in named):
        return "inconclusive", named
    worse = {(row.delta > 0) == (row.better == "lower") for row in named}
    if len(worse) > 1:
        return "mixed", named
    sure = any(row.level == "confirmed" for row in named)
    if worse == {True}:
        return ("regressed" if sure else "likely_regressed"), named
    return ("improved" if sure else "likely_improved"), named


def _moved(rows: Sequence[KpiRow]) -> list[KpiRow]:
    return [
        row
        for row in rows
        if row.level != "within_noise" and abs(row.delta) > NO_CHANGE * max(row.baseline, row.candidate)
    ]


def _judged(
    rows: Sequence[KpiRow], baseline: Sequence[KpiReport], candidate: Sequence[KpiReport]
) -> list[KpiRow]:
    """The rows with interval and level, of figures that two reports or more of both sides have."""
    values = [
        [
            np.array([one.metrics[row.metric].value for one in side if row.metric in one.metrics])
            for row in rows
        ]
        for side in (baseline, candidate)
    ]
    changes = [trimmed(one, other) for one, other in zip(*values, strict=True)]
    q = benjamini_hochberg(np.array([math.nan if change is None else change.p for change in changes]))
    judged = []
    for row, change, own, runs in zip(rows, changes, q.tolist(), zip(*values, strict=True), strict=True):
        if change is None or not change.error:
            judged.append(row)
            continue
        sure: Evidence = "confirmed" if min(map(len, runs)) >= PERMUTE else "likely"
        low, high = change.interval
        level = sure if own <= ALPHA else "within_noise"
        judged.append(msgspec.structs.replace(row, ci_low=low, ci_high=high, level=level))
    return judged


def with_kpi(result: Result, baseline: Sequence[KpiReport], candidate: Sequence[KpiReport]) -> Result:
    """The result with the figures of both sides' reports, and what was odd in the reports among its warnings."""
    odd = [note for report in (*baseline, *candidate) for note in report.warnings]
    kpi = compare_kpi(baseline, candidate, step_times(result))
    return msgspec.structs.replace(result, kpi=kpi, warnings=[*result.warnings, *odd])


def step_times(result: Result) -> dict[str, tuple[float, float]]:
    """Mean step times of a comparison, baseline and candidate, ns: of all steps (""), and of each phase that was compared."""
    means = {one.phase: one.mean for one in result.phases}
    phases = {phase: (mean.baseline_ns, mean.candidate_ns) for phase, mean in means.items() if mean}
    return phases | {"": (result.step.baseline_ns, result.step.candidate_ns)}


def show_kpi(reports: Sequence[KpiReport]) -> ShowKpi | None:
    """The figures of one side's reports; of several reports, the mean of those that have one. None without reports."""
    if not reports:
        return None
    found = _means(reports)
    rows = [
        ShowFigure(name, one.unit, one.better, one.value)
        for name, one in sorted(found.items(), key=lambda item: _sort_key(item[0]))
    ]
    return ShowKpi(_sources(reports), rows)


def _by_name(reports: Iterable[KpiReport]) -> dict[str, list[Metric]]:
    values: dict[str, list[Metric]] = {}
    for report in reports:
        for name, metric in report.metrics.items():
            values.setdefault(name, []).append(metric)
    return values


def _means(reports: Sequence[KpiReport]) -> dict[str, Metric]:
    return {
        name: Metric(math.fsum(one.value for one in found) / len(found), found[0].unit, found[0].better)
        for name, found in _by_name(reports).items()
    }


def _explained(name: str, before: float, after: float, per_step_ms: float) -> float | None:
    delta = after - before
    unmoved = abs(delta) <= NO_CHANGE * max(before, after)
    if unmoved or not _PER_STEP.match(name) or not math.isfinite(per_step_ms):
        return None
    return per_step_ms / delta


def _sort_key(name: str) -> tuple[int, str, int, float, str]:
    order = next((place for place, word in enumerate(_ORDER) if name.startswith(word)), len(_ORDER))
    family, _, statistic = name.removesuffix("_ms").rpartition("_")
    percentile = re.match(r"p(\d+(?:\.\d+)?)\Z", statistic)
    return order, family, statistic != "mean", float(percentile[1]) if percentile else 0.0, name


def _sources(reports: Sequence[KpiReport]) -> str:
    return ", ".join(report.source for report in reports)


def _note(
    baseline: Sequence[KpiReport],
    candidate: Sequence[KpiReport],
    sides: tuple[dict[str, Metric], dict[str, Metric]],
) -> str:
    parts = []
    kinds = [sorted({report.kind for report in side}) for side in (baseline, candidate)]
    if all(kinds) and kinds[0] != kinds[1]:
        tools = [", ".join(kind) for kind in kinds]
        parts.append(say("kpi_tools", one=tools[0], other=tools[1]))
    if max(len(baseline), len(candidate)) > 1:
        parts.append(f"Means of {len(baseline)} baseline and {len(candidate)} candidate reports.")
    for word, own, other in (("baseline", sides[0], sides[1]), ("candidate", sides[1], sides[0])):
        alone = sorted(own.keys() - other.keys(), key=_sort_key)
        if alone:
            parts.append(f"Only in the {word}: {', '.join(alone)}.")
    return " ".join(parts)


class ProfilingCost(msgspec.Struct, frozen=True):
    """What the profiler added to a step, ns.

    Means over runs; from five runs on without the highest and the lowest fifth, so that one outlying run does
    not decide. The 95 % interval of the cost is None with fewer than two runs of either kind.
    """

    profiled_ns: float
    unprofiled_ns: float
    cost_ns: float
    share: float  # of the unprofiled step
    ci_low_ns: float | None = None
    ci_high_ns: float | None = None


def profiling_cost(profiled_ns: Sequence[float], unprofiled_ns: Sequence[float]) -> ProfilingCost | None:
    """Return what profiling costs, from mean step times a run with and without it; None without runs of both.

    Example: 11.0 ms profiled and 10.0 ms unprofiled cost 1.0 ms, a share of 0.1. Where the cost is of the
    size of the difference between two sides, their traces say little about unprofiled runs.
    """
    sides = [np.asarray(values, dtype=np.float64) for values in (profiled_ns, unprofiled_ns)]
    if any(not len(side) or not np.isfinite(side).all() or side.min() <= 0 for side in sides):
        return None
    profiled, unprofiled = (
        float(np.sort(side)[len(side) // 5 : len(side) - len(side) // 5].mean()) for side in sides
    )
    change = trimmed(sides[1], sides[0])
    cost, interval = profiled - unprofiled, change.interval if change else (None, None)
    return ProfilingCost(profiled, unprofiled, cost, cost / unprofiled, *interval)


# The benchmark reports that a capture bundle holds, for a comparison of the bundle.

# What a run without the profiler can tell of a step, best first.
_STEP_METRICS = ("host_step_time_generation_p50_ms", "host_step_time_p50_ms", "host_step_time_mean_ms",
                 "itl_p50_ms", "itl_mean_ms", "tpot_p50_ms", "tpot_mean_ms")  # fmt: skip


def with_bundle_kpi(result: Result, bundle: Bundle, warn: Callable[[str], None] = lambda _: None) -> Result:
    """Return the result with the figures of both sides' benchmark reports, and what the profiler cost.

    `warn` is told of reports that cannot be read and are left out.
    """
    added = _adaptive_note(bundle)
    if added is not None:
        result = msgspec.structs.replace(result, warnings=[*result.warnings, added])
    reports = _read(bundle, warn)
    baseline, candidate = (_of(reports, bundle.profiled[side]) for side in SIDES)
    if baseline and candidate:
        result = with_kpi(result, baseline, candidate)
    note = _cost_note(bundle, reports)
    if note:
        kpi = result.kpi or Kpi(source_baseline="", source_candidate="", rows=[])
        kpi = msgspec.structs.replace(kpi, note=f"{kpi.note} {note}".strip())
        result = msgspec.structs.replace(result, kpi=kpi)
    return result


def _adaptive_note(bundle: Bundle) -> Note | None:
    """Say how many runs `--until` made and what its interval is; nothing of a manifest that says it otherwise."""
    looks = bundle.adaptive.get("looks") or [{}]
    numbers = [looks[-1].get(name) for name in ("pairs", "baseline_ns", "low_ns", "high_ns")]
    pairs, baseline, low, high = (one if isinstance(one, int | float) else None for one in numbers)
    if not pairs or baseline is None or low is None or high is None:
        return None
    until = str(bundle.adaptive.get("until"))
    interval = f"{low / 1e3:+.1f} to {high / 1e3:+.1f} us per step"
    if until.startswith("step:") and baseline:
        interval = f"{100 * low / baseline:+.2f} to {100 * high / baseline:+.2f} % of the step"
    return Note(
        "adaptive-runs",
        f"runs were added pair by pair ({until}), {pairs} of them. The interval that allows for looking"
        f" after every pair is {interval}; p and interval above"
        " are those of a number of runs fixed beforehand, and somewhat too sure",
    )


def _read(bundle: Bundle, warn: Callable[[str], None]) -> dict[Path, KpiReport]:
    """The benchmark reports of all runs. What cannot be read is told once for files of one name; latencies of controls are a section of their own."""
    reports = {}
    left_out: dict[tuple[str, str], list[str]] = {}
    for run in chain(*bundle.profiled.values(), *bundle.controls.values()):
        for path in run.kpi:
            try:
                reports[path] = read(path)
            except TracediffError as error:
                why = error.message.removeprefix(f"{path.name}: ")
                if are_latencies(path):
                    if any(bundle.controls.values()):
                        continue
                    why = "latencies are compared of runs without a profiler: tracediff capture --controls 2"
                left_out.setdefault((path.name, why), []).append(run.name)
    for (name, why), runs in left_out.items():
        more = f" and {len(runs) - 1} more runs" if len(runs) > 1 else ""
        warn(f"{name} of {runs[0]}{more} was left out: {why}")
    return reports


def _of(reports: Mapping[Path, KpiReport], runs: Iterable[BundleRun]) -> list[KpiReport]:
    return [reports[path] for run in runs for path in run.kpi if path in reports]


def _cost_note(bundle: Bundle, reports: Mapping[Path, KpiReport]) -> str:
    parts = []
    for side in SIDES:
        both = [_by_name(_of(reports, runs)) for runs in (bundle.profiled[side], bundle.controls[side])]
        metric = next((name for name in _STEP_METRICS if all(name in one for one in both)), None)
        if metric is None:
            continue
        cost = profiling_cost(*([one.value * 1e6 for one in found[metric]] for found in both))
        if cost is not None:
            interval = ""
            if cost.ci_low_ns is not None and cost.ci_high_ns is not None:
                interval = f" (95 % CI {cost.ci_low_ns / 1e6:+.3f} to {cost.ci_high_ns / 1e6:+.3f})"
            parts.append(
                f"{side} {metric.removesuffix('_ms')} {cost.unprofiled_ns / 1e6:.3f} ms without and"
                f" {cost.profiled_ns / 1e6:.3f} ms with the profiler: {cost.cost_ns / 1e6:+.3f} ms,"
                f" {100 * cost.share:+.1f} %{interval}"
            )
    return f"Cost of profiling: {'; '.join(parts)}." if parts else ""
