"""The report of one capture in words, for every output."""

from __future__ import annotations

from collections.abc import Sequence

from tracediff.model.causes import SURELY
from tracediff.model.common import CALLS_LOST
from tracediff.model.show import IdleCause, Show
from tracediff.report import names, units, words
from tracediff.report.causes import idle_named
from tracediff.report.grammar import say
from tracediff.stats.rules import LITTLE

FACTS = {
    "gpu": "GPU", "gpu_count": "GPUs", "driver": "driver", "cuda": "CUDA", "nsys": "nsys", "schema": "export schema",
    "clocks": "maximum clocks", "graph_mode": "CUDA graphs traced by",
}  # fmt: skip


def busy(report: Show) -> str:
    """The time of a step with GPU work, and its part of it."""
    return _part(report, report.step.mean_ns - report.step.idle_ns)


def idle(report: Show) -> str:
    """The time of a step without."""
    return _part(report, report.step.idle_ns)


def _part(report: Show, ns: float) -> str:
    scale = units.scale_for([report.step.mean_ns])
    return f"{scale.time(ns)} ({units.share(ns, report.step.mean_ns)})"


def waits(report: Show) -> str:
    """The heading of what idle time is made of; without GPU kernels it is the step's own."""
    return "What the GPU waited for" if captured(report, "kernels") else "What the time went to"


def spread(report: Show) -> str:
    """How far the runs are apart, in words; their means as they ran beside those at equal workload, where they differ."""
    step = report.step
    if step.sd_ns is None:
        return say("spread_unknown")
    slots = {
        "sd": units.scale_for([step.mean_ns]).time(step.sd_ns),
        "runs": f"{len(step.runs_ns)}",
        "span": _between(report, step.runs_ns),
    }
    raw = raw_means(report)
    return say("spread_raw", raw=raw, **slots) if raw else say("spread", **slots)


def raw_means(report: Show) -> str:
    """The means of the runs over all their steps; '' where they are those at equal workload."""
    means, raw = report.step.runs_ns, report.step.raw_runs_ns
    apart = len(raw) > 1 and any(
        abs(one - other) > SURELY * one for one, other in zip(means, raw, strict=True)
    )
    return _between(report, raw) if apart else ""


def _between(report: Show, values: Sequence[float]) -> str:
    scale = units.scale_for([report.step.mean_ns])
    return f"{scale.number(min(values))} to {scale.time(max(values))}"


def sentence(report: Show) -> str:
    """The first sentences: how long a step is, and where most of its idle time goes; before that, whether calls of it were lost."""
    said = _sentence(report)
    lost = any(note.slug == CALLS_LOST for note in report.warnings)
    return say("show_lost", sentence=said) if lost else said


def _sentence(report: Show) -> str:
    step = report.step
    length, whole = _length(report)
    cause = report.idle[0] if report.idle else None
    prose = units.prose([step.idle_ns])
    most = {"cause": idle_named(cause), "most": prose.size(cause.ns)} if cause else {}
    if not captured(report, "kernels"):
        return say("show_host_most" if cause else "show_host", length=length, **most)
    kernel = next((row.baseline for row in report.kernels if row.baseline), None)
    if kernel and step.idle_ns < LITTLE * step.mean_ns:
        share = units.share(1 - step.idle_ns / step.mean_ns)
        size = units.spoken(kernel.ns_per_step)
        return say(
            "show_busy",
            length=length,
            share=share,
            whole=whole,
            kernel=names.short(kernel.names[0]),
            size=size,
        )
    idle = {"idle": prose.size(step.idle_ns), "share": units.share(step.idle_ns, step.mean_ns)}
    return say("show_idle_most" if cause else "show_idle", length=length, whole=whole, **idle, **most)


def _length(report: Show) -> tuple[str, str]:
    """How long a step is, and what that is called after it."""
    step, label = report.step, report.input.label
    prose = units.prose([step.mean_ns])
    size = prose.size(step.mean_ns)
    apart = step.median_ns and abs(step.mean_ns - step.median_ns) > LITTLE * step.median_ns
    if any(run.step_source == "whole-capture" for run in report.input.runs):
        return say("length_of_capture", label=label, size=size), "the mean" if apart else "it"
    if step.median_ns and apart:
        text = say("length_of_mean", label=label, size=size, median=prose.size(step.median_ns))
        return text + _stops(report), "the mean"
    return say("length_of_step", label=label, size=size) + _stops(report), "it"


def _stops(report: Show) -> str:
    """`; every 5th step stops for 281 ms`."""
    stops = report.stops
    if stops is None or stops.count * stops.stop_ns < LITTLE * stops.total * report.step.mean_ns:
        return ""
    stop = units.spoken(stops.stop_ns)
    if stops.every:
        return say("show_regular", every=units.ordinal(stops.every), stop=stop)
    return say("show_stops", count=f"{stops.count}", total=f"{stops.total}", stop=stop)


def what_a_step_is(report: Show) -> str:
    """Say how steps were told apart."""
    source = report.input.runs[0].step_source
    kinds = {"whole-capture": "whole", "inferred": "inferred", "step-regex:": "regex", "range ": "range"}
    kind = next((kind for begins, kind in kinds.items() if source.startswith(begins)), "labels")
    return say(f"steps_{kind}", source=source.removeprefix("step-regex:"))


def runs(report: Show) -> str:
    """Count runs and steps: `3 runs, 87 of 90 steps`."""
    return f"{units.counted(len(report.input.runs), 'run')}, {steps(report)}"


def steps(report: Show) -> str:
    """Count the steps of the mean."""
    step = report.step
    if step.steps < step.all_steps:
        return say("steps_of", steps=f"{step.steps:,}", all=f"{step.all_steps:,}")
    return units.counted(step.steps, "step")


def ranks(report: Show) -> str:
    """Count ranks, of every run: `2`, or `1 | 2` where runs differ."""
    return " | ".join(str(one) for one in sorted({run.ranks for run in report.input.runs}))


def machine(report: Show) -> str:
    """The devices, in a line."""
    known = {fact.name: fact.value for fact in report.machine if fact.value != "?"}
    parts = [known.get("gpu", "GPU not recorded")]
    if known.get("gpu_count", "1") != "1":
        parts[0] = f"{known['gpu_count']} x {parts[0]}"
    parts.append("1 rank" if ranks(report) == "1" else f"{ranks(report)} ranks")
    if "driver" in known:
        parts.append(f"driver {known['driver']}")
    if "nsys" in known:
        parts.append(known["nsys"] if words.by_torch(report) else f"nsys {known['nsys']}")
    return ", ".join(parts)


def captured(report: Show, kind: str) -> bool:
    """Whether the captures hold a kind of trace."""
    return report.coverage.baseline.get(kind) == "captured"


def place(cause: IdleCause) -> list[tuple[str, str]]:
    """The parts of an idle cause's place that apply, as (name, value)."""
    parts = [
        ("range", cause.range),
        ("thread", cause.thread),
        ("API", cause.api),
        ("GIL holder", cause.holder_thread),
        ("holder's range", cause.holder_range),
    ]
    return [(name, value) for name, value in parts if value]


def on_rank(cause: IdleCause) -> str:
    """Say which rank has most of a cause; '' where none has."""
    if cause.on_rank is None or cause.on_rank_ns is None:
        return ""
    size = units.exact(cause.on_rank_ns)
    return say("mostly_on_rank", rank=f"{cause.on_rank}", size=size)
