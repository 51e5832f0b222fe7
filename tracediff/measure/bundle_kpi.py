"""The benchmark reports that a capture bundle holds, for a comparison of the bundle."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tracediff.errors import TracediffError
from tracediff.load.kpi import KpiReport, read
from tracediff.measure.kpi import compare_kpi, profiling_cost
from tracediff.model import Kpi, Note

if TYPE_CHECKING:
    from tracediff.capture.bundle import Bundle, BundleRun
    from tracediff.model import Result

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
    baseline, candidate = (_read(bundle.kpi(side), warn) for side in ("baseline", "candidate"))
    kpi = None
    if baseline and candidate:
        kpi = compare_kpi(
            baseline, candidate,
            step_baseline_ns=result.step.baseline_ns, step_candidate_ns=result.step.candidate_ns,
        )  # fmt: skip
    note = _cost_note(bundle, warn)
    if note:
        kpi = kpi or Kpi("", "", [])
        kpi = msgspec.structs.replace(kpi, note=f"{kpi.note} {note}".strip())
    return result if kpi is None else msgspec.structs.replace(result, kpi=kpi)


def _adaptive_note(bundle: Bundle) -> Note | None:
    """Say how many runs `--until` made and what its interval is; nothing of a manifest that says it otherwise."""
    looks = bundle.adaptive.get("looks") or [{}]
    numbers = [looks[-1].get(name) for name in ("pairs", "baseline_ns", "low_ns", "high_ns")]
    pairs, baseline, low, high = (one if isinstance(one, int | float) else None for one in numbers)
    if not pairs or not baseline or low is None or high is None:
        return None
    return Note(
        "adaptive-runs",
        f"runs were added pair by pair ({bundle.adaptive.get('until')}), {pairs} of them. The interval that allows for looking"
        f" after every pair is {100 * low / baseline:+.2f} to {100 * high / baseline:+.2f} % of the step; p and interval above"
        " are those of a number of runs fixed beforehand, and somewhat too sure",
    )


def _read(paths: Iterable[Path], warn: Callable[[str], None]) -> list[KpiReport]:
    reports = []
    for path in paths:
        try:
            reports.append(read(path))
        except TracediffError as error:
            warn(f"{path.parent.name}/{path.name} was left out: {error.message}")
    return reports


def _cost_note(bundle: Bundle, warn: Callable[[str], None] = lambda _: None) -> str:
    parts = []
    for side in ("baseline", "candidate"):
        times = [_step_times(runs, warn) for runs in (bundle.profiled[side], bundle.controls[side])]
        metric = next((name for name in _STEP_METRICS if all(name in one for one in times)), None)
        if metric is None:
            continue
        cost = profiling_cost(times[0][metric], times[1][metric])
        if cost is not None:
            interval = ""
            if cost.ci_low_ns is not None and cost.ci_high_ns is not None:
                interval = f" (95 % CI {cost.ci_low_ns / 1e6:+.3f} to {cost.ci_high_ns / 1e6:+.3f})"
            parts.append(
                f"{side} {metric.removesuffix('_ms')} {cost.unprofiled_ns / 1e6:.3f} ms without and"
                f" {cost.profiled_ns / 1e6:.3f} ms with the profiler: {cost.cost_ns / 1e6:+.3f} ms,"
                f" {cost.share:+.1%}{interval}"
            )
    return f"Cost of profiling: {'; '.join(parts)}." if parts else ""


def _step_times(runs: Iterable[BundleRun], warn: Callable[[str], None]) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {}
    for run in runs:
        for report in _read(run.kpi, warn):
            for name, metric in report.metrics.items():
                if name in _STEP_METRICS:
                    times.setdefault(name, []).append(metric.value * 1e6)
    return times
