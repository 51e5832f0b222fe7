"""The report of one capture in words, for every output: the step, single steps beside the typical one, and what it advises."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from tracediff.model.causes import BUSY, SURELY
from tracediff.model.show import Advice, IdleCause, Show, StepCategory, StepDiff, StepPlace
from tracediff.report import names, palette, units, words
from tracediff.report.amounts import NAMED
from tracediff.report.causes import idle_named, run_name
from tracediff.report.grammar import say
from tracediff.stats.rules import LITTLE, MOSTLY, NEARLY

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
    return f"{say('lost')} {said}" if words.calls_lost(report) else said


def _sentence(report: Show) -> str:
    step = report.step
    length, whole = _length(report)
    cause = report.idle[0] if report.idle else None
    prose = units.both(step.mean_ns, step.idle_ns)  # one unit with its length
    most = {"cause": idle_named(cause), "most": prose.size(cause.ns)} if cause else {}
    if not captured(report, "kernels"):
        return say("show_host_most" if cause else "show_host", length=length, **most)
    kernel = next((row.baseline for row in report.kernels if row.baseline), None)
    if kernel and step.idle_ns < LITTLE * step.mean_ns:
        share = units.share(1 - step.idle_ns / step.mean_ns)
        size = prose.size(kernel.ns_per_step)
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
    prose = units.both(step.mean_ns, step.idle_ns)
    size = prose.size(step.mean_ns)
    apart = step.median_ns and abs(step.mean_ns - step.median_ns) > LITTLE * step.median_ns
    if any(run.step_source == "whole-capture" for run in report.input.runs):
        return say("length_of_capture", label=label, size=size), "the mean" if apart else "it"
    if step.median_ns and apart:
        text = say("length_of_mean", label=label, size=size, median=prose.size(step.median_ns))
        return text + _stops(report), "the mean"
    return say("length_of_step", label=label, size=size) + _stops(report), "it"


def _stops(report: Show) -> str:
    """`; every 5th step takes 281 ms more`; of a phase, where steps are of several."""
    stops = report.stops
    if stops is None or stops.count * stops.stop_ns < LITTLE * stops.total * report.step.mean_ns:
        return ""
    step, stop = units.step(stops.phase if len(report.phases) > 1 else ""), units.spoken(stops.stop_ns)
    if stops.every:
        return say("show_regular", every=units.ordinal(stops.every), step=step, stop=stop)
    steps = step.replace("step", "steps", 1)
    return say("show_stops", count=f"{stops.count}", total=f"{stops.total}", steps=steps, stop=stop)


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
        parts.append(words.profiler(known["nsys"]))
    return ", ".join(parts)


def captured(report: Show, kind: str) -> bool:
    """Whether the captures hold a kind of trace."""
    return report.coverage.baseline.get(kind) == "captured"


def on_rank(cause: IdleCause) -> str:
    """Say which rank has most of a cause; '' where none has."""
    if cause.on_rank is None or cause.on_rank_ns is None:
        return ""
    size = units.exact(cause.on_rank_ns)
    return say("mostly_on_rank", rank=f"{cause.on_rank}", size=size)


# A single step beside the typical one of its class.


def step_sentence(report: Show, one: StepDiff) -> str:
    """Say `Step 117 took 98.2 ms, 97.2 ms longer than a typical generation step: Python GC in _schedule 96.8 ms`."""
    prose = units.prose([one.ns, one.typical_ns, one.delta_ns])
    slots = {"name": _step_name(report, one), "size": prose.size(one.ns), "typical": _typical(one)}
    if abs(one.delta_ns) < SURELY * one.typical_ns:
        return say("step_same", typical_size=prose.size(one.typical_ns), **slots)
    longer = one.delta_ns > 0
    said = _made_of(one, prose, longer=longer)
    slots |= {"change": prose.size(one.delta_ns), "longer": "longer" if longer else "shorter"}
    return say("step_apart_by", parts=", ".join(said), **slots) if said else say("step_apart", **slots)


def _made_of(one: StepDiff, prose: units.Spoken, *, longer: bool) -> list[str]:
    """The parts of the difference, and the largest one against it."""
    parts = _parts(one)
    more = [(part, ns) for part, ns in parts if (ns > 0) == longer]
    less = [(part, ns) for part, ns in parts if (ns > 0) != longer]
    said, covered = [], 0.0
    for part, ns in more[:NAMED]:
        if abs(ns) < LITTLE * abs(one.delta_ns) or covered >= NEARLY * abs(one.delta_ns):
            break
        covered += abs(ns)
        said.append(f"{part} {prose.size(ns)}" + " less" * (not longer))
    if less and abs(less[0][1]) > LITTLE * abs(one.delta_ns):
        part, ns = less[0]
        said.append(say("step_while", part=part, size=prose.size(ns), less="less" if longer else "more"))
    return said


def _step_name(report: Show, one: StepDiff) -> str:
    """`Step 117`, with its run and rank where there are several; one of warm-up is called so."""
    said = [f"Step {one.number}"]
    said += [f"of {run_name(one.run)}"] if len(report.input.runs) > 1 else []
    said += [f"on rank {one.rank}"] if one.ranks else []
    return " ".join([*said, *["(warm-up)"] * one.start_up])


def _typical(one: StepDiff) -> str:
    return "a typical " + units.step("" if one.like == "all" else one.phase)


def _parts(one: StepDiff) -> list[tuple[str, float]]:
    """What the difference is made of, the largest first: waits by place, GPU work by category or the kernel that holds most of it."""
    found = []
    for row in one.accounting:
        if row.category in BUSY:
            kernels = [place for place in one.places if place.cause == row.category]
            most = max(kernels, key=lambda place: abs(place.delta_ns), default=None)
            alone = most is not None and most.delta_ns * row.delta_ns > MOSTLY * row.delta_ns**2
            found.append((_kernel(most) if most and alone else words.cause(row.category), row.delta_ns))
    found += [(idle_named(place), place.delta_ns) for place in one.places if place.cause not in BUSY]
    return sorted((part for part in found if part[1]), key=lambda part: -abs(part[1]))


def _kernel(place: StepPlace) -> str:
    if place.kernel.startswith("["):
        return place.kernel
    more = place.count - place.typical_count
    if abs(more) < 0.5:
        return say("step_kernel", kernel=place.kernel)
    count, _, launches = units.launches(abs(more)).partition(" ")
    return say("step_launches", count=count, more="more" if more > 0 else "fewer", launches=launches, kernel=place.kernel)  # fmt: skip


_LIKE = {"workload": "like it", "sizes": "of its phase, of other batch sizes", "phase": "of its phase", "all": "of any kind"}  # fmt: skip


def step_facts(report: Show, one: StepDiff) -> list[str]:
    """Where and when it ran, and what it is beside: a line each."""
    workload = _workload(one) + f", rank {one.rank}" * bool(one.ranks)
    where = say(
        "step_where", run=run_name(one.run), workload=workload, viewer=words.viewer(report),
        start=_seconds(one.start_ns), end=_seconds(one.end_ns),
    )  # fmt: skip
    gpu = report.coverage.baseline["kernels"] == "captured"
    like = "sizes" if one.like == "phase" and one.ctx_reqs is not None else one.like
    lines = [say("step_gpu_work", where=where) if gpu else where]
    lines.append(say("step_like", steps=units.counted(one.typical_steps, "step"), like=_LIKE[like]))
    if one.start_up:
        lines.append(say("step_start_up"))
    longest = next(
        (place for place in one.places if place.longest and place.delta_ns > LITTLE * abs(one.delta_ns)), None
    )
    if longest is not None and longest.longest is not None:
        at = longest.longest
        ends = {"start": _seconds(at.start_ns), "end": _seconds(at.end_ns)}
        lines.append(say("step_longest", title=words.sentence(longest.title), **ends))
    if one.ranks:
        scale = units.prose([row.ns for row in one.ranks])
        said = (
            say(
                "step_rank", rank=f"{row.rank}", size=scale.size(row.ns), change=scale.delta(row.delta_ns),
                own=scale.delta(row.own_delta_ns),
            )
            for row in one.ranks
        )  # fmt: skip
        lines.append("; ".join(said))
    return lines


def _workload(one: StepDiff) -> str:
    """`generation step of 4 generation requests`."""
    said = []
    if one.ctx_reqs:
        requests = units.counted(one.ctx_reqs, "context request")
        tokens = "" if one.ctx_tokens is None else units.counted(one.ctx_tokens, "token")
        said.append(say("context", requests=requests, tokens=tokens) if tokens else requests)
    if one.gen_reqs:
        said.append(units.counted(one.gen_reqs, "generation request"))
    kind = units.step(one.phase)
    return f"{kind} of {' and '.join(said)}" if said else kind


def _seconds(ns: int) -> str:
    """Trace time as nsys writes it: `12.203456789 s`."""
    return f"{ns / 1e9:.6f} s"


def step_categories(one: StepDiff) -> list[StepCategory]:
    """The categories that differ, as they are shown; with the others together the rows add up to the step."""
    most = max((abs(row.delta_ns) for row in one.accounting), default=0.0)
    rows = [row for row in one.accounting if row.delta_ns and abs(row.delta_ns) >= SURELY * most]
    rows.sort(key=lambda row: -abs(row.delta_ns))
    lines = [replace(row, category=palette.category(row.category).label) for row in rows]
    rest = [row for row in one.accounting if row not in rows and (row.ns or row.typical_ns)]
    if rest:
        sums = [sum(getattr(row, field) for row in rest) for field in ("ns", "typical_ns", "delta_ns")]
        lines.append(StepCategory(units.counted(len(rest), "other"), *sums))
    return [*lines, StepCategory("step", one.ns, one.typical_ns, one.delta_ns)]


def step_places(one: StepDiff) -> list[StepPlace]:
    """The places that hold most of the difference."""
    most = max((abs(row.delta_ns) for row in one.places), default=0.0)
    return [row for row in one.places if row.delta_ns and abs(row.delta_ns) >= SURELY * most]


# What a capture advises.

_OUTSIDE = "outside"  # how the place of what lies in no range begins


def advised(one: Advice) -> str:
    """The sentences of an advice."""
    return _TEXTS[one.kind](one)


def _replayed(one: Advice) -> dict[str, str]:
    whole = one.before_ns or 0.0
    write = units.both(whole, one.after_ns or 0.0)
    gained = whole - (one.after_ns or 0.0)
    sizes = {name: write.size(getattr(one, f"{name}_ns") or 0.0) for name in ("after", "high")}
    sizes["low"] = write.number(one.low_ns or 0.0)
    gain = units.spoken(gained)
    return {
        "step": units.step(one.phase), "count": units.count(one.count_per_step),
        "times": units.counted(one.count_per_step, "time"), "gain": gain, "less": units.share(gained, whole), **sizes,
    }  # fmt: skip


def _fuse(one: Advice) -> str:
    together = units.prose([one.ns]).size(one.ns or 0.0)
    place = "" if one.range.startswith(_OUTSIDE) else f" in {one.range}"
    saved = units.counted(one.count_per_step * (len(one.kernels) - 1), "kernel")
    return say(
        "advice_fuse", kernels=chain(one.kernels) + place, together=together, saved=saved, **_replayed(one)
    )


def chain(kernels: Sequence[str]) -> str:
    """`add, 2 x mul, cast and 3 more`: short names, each once; of those that are left out every launch counts."""
    counts = Counter(map(names.short, kernels))
    said = names.counted(map(names.short, kernels))
    more = sum(list(counts.values())[NAMED:])
    return say("and_more", names=", ".join(said[:NAMED]), count=f"{more}") if more else ", ".join(said)


def _long(one: Advice) -> str:
    kernel, gemm = map(names.short, one.kernels)
    size, other = (units.prose([ns]).size(ns or 0.0) for ns in (one.ns, one.other_ns))
    share = units.share(one.share or 0.0)
    return say(
        "advice_long", kernel=kernel, category=one.category, gemm=gemm, size=size, other=other, share=share
    )


def _range_waits(one: Advice) -> str:
    write = units.prose([one.ns])
    whole, waits, calls = one.ns or 0.0, one.wait_ns or 0.0, one.calls_ns or 0.0
    sizes = {"whole": whole, "waits": waits, "calls": calls, "own": whole - waits - calls}
    pattern = "advice_waits" if one.calls_ns else "advice_waits_alone"
    return say(
        pattern, range=one.range, thread=one.thread, **{name: write.size(ns) for name, ns in sizes.items()}
    )


_TEXTS: dict[str, Callable[[Advice], str]] = {
    "graphs": lambda one: say("advice_graphs", share=units.share(one.share or 0.0), **_replayed(one)),
    "fuse": _fuse, "long_kernel": _long, "range_waits": _range_waits,
}  # fmt: skip
