"""The candidate's figures for github-action-benchmark (`tool: customSmallerIsBetter`): a chart over commits."""

from __future__ import annotations

import json

from tracediff.model import CATEGORIES, PhaseSide, Result
from tracediff.report import words
from tracediff.report.escape import neutral


def render_benchmark(result: Result) -> bytes:
    """Return a JSON list of {name, unit, value, range, extra}; times in us per step, all smaller is better."""
    result = neutral(result)
    step, launch = result.step, result.launch.candidate
    extra = (
        f"{result.headline.text or words.VERDICTS[result.verdict].word} "
        f"Delta to its baseline {step.delta_ns / 1e3:+.1f} us, 95 % CI {step.ci_low_ns / 1e3:+.1f} to "
        f"{step.ci_high_ns / 1e3:+.1f}."
    )
    entries: list[dict[str, object]] = [_entry("step time", "us", step.candidate_ns / 1e3, extra=extra)]
    books = result.accounting.candidate
    entries += [_entry(f"step/{key}", "us", books[key] / 1e3) for key in CATEGORIES if key in books]
    for phase in result.phases:
        if phase.candidate:
            entries += _phase(phase.phase, phase.candidate)
    entries += [
        _entry("launching calls", "per step", launch.calls_per_step),
        _entry("kernels", "per step", launch.kernels_per_step),
    ]
    return json.dumps(entries, indent=1, ensure_ascii=False).encode() + b"\n"


def _phase(name: str, side: PhaseSide) -> list[dict[str, object]]:
    """Mean over all whole steps with half the spread of the runs' own means, and the tail."""
    means = side.run_means_ns
    spread = {"range": f"± {(max(means) - min(means)) / 2e3:.1f}"} if len(means) > 1 else {}
    return [
        _entry(f"{name} mean", "us", side.mean_ns / 1e3, **spread),
        _entry(f"{name} p50", "us", side.p50_ns / 1e3),
        _entry(f"{name} p99", "us", side.p99_ns / 1e3),
    ]


def _entry(name: str, unit: str, value: float, **more: str) -> dict[str, object]:
    return {"name": name, "unit": unit, "value": round(value, 3), **more}
