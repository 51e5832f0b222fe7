"""The words every output shares: verdicts, levels of evidence, causes, places, what to capture."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tracediff.model import (
    Evidence,
    Finding,
    GapRow,
    KernelRow,
    RangeRow,
    Result,
    SideInput,
    Step,
    Stratum,
    Verdict,
    Where,
    causes,
)
from tracediff.model.show import Show
from tracediff.report import units
from tracediff.report.causes import CAUSES


@dataclass(frozen=True)
class VerdictWords:
    """A verdict as a word, with the tone of its colour and a sign that survives without colour."""

    word: str
    tone: str  # bad | good | neutral | unsure | stop
    sign: str
    meaning: str


VERDICTS: dict[Verdict, VerdictWords] = {
    "regressed": VerdictWords("Regressed", "bad", "▲", "The step is slower, confirmed over runs."),
    "likely_regressed": VerdictWords(
        "Likely regressed", "bad", "△", "The step is slower beyond known noise; too few runs to confirm."
    ),
    "improved": VerdictWords("Improved", "good", "▼", "The step is faster, confirmed over runs."),
    "likely_improved": VerdictWords(
        "Likely improved", "good", "▽", "The step is faster beyond known noise; too few runs to confirm."
    ),
    "no_change": VerdictWords("No change", "neutral", "=", "Any difference in step time is within noise."),
    "inconclusive": VerdictWords(
        "Inconclusive", "unsure", "?", "The runs at hand cannot tell a change from noise."
    ),
    "not_comparable": VerdictWords(
        "Not comparable", "stop", "×", "The two sides differ in more than the change under test."
    ),
}

LEVELS: dict[Evidence, tuple[str, str]] = {
    "exact": ("exact", "A counted quantity: no test is needed."),
    "confirmed": ("confirmed", "The test over runs and the interval agree, after correction for many rows."),
    "likely": ("likely", "Beyond the noise known or assumed, with too few runs to confirm."),
    "within_noise": ("within noise", "Not to be told from run-to-run noise."),
}

KINDS: dict[str, str] = {
    "kernels": "GPU kernels", "cuda_api": "CUDA calls", "memcpy": "memory copies", "sync": "synchronisation",
    "nvtx": "NVTX ranges", "gil": "GIL", "gc": "Python GC", "graphs": "CUDA graph nodes",
}  # fmt: skip
# Kinds that few captures hold: said where one has them.
SYSTEM_KINDS: dict[str, str] = {
    "os_calls": "OS calls", "context_switches": "context switches", "gpu_memory": "CUDA's memory",
    "gpu_metrics": "GPU metrics",
    "mpi": "MPI calls", "nccl": "NCCL's calls (its NVTX ranges)",
}  # fmt: skip


# Kind of trace -> what to add to the capture, as a command-line flag of nsys or a variable of the program.
CAPTURE_WITH: dict[str, str] = {
    "kernels": "-t cuda", "cuda_api": "-t cuda", "memcpy": "-t cuda", "sync": "-t cuda", "nvtx": "-t nvtx",
    "gil": "-t python-gil", "gc": "TLLM_PROFILE_RECORD_GC=1", "graphs": "--cuda-graph-trace=node",
    "os_calls": "-t osrt", "context_switches": "--cpuctxsw=process-tree", "gpu_memory": "--cuda-memory-usage=true",
    "gpu_metrics": "--gpu-metrics-devices=all (before nsys 2024.6: --gpu-metrics-device=all)",
    "mpi": "-t mpi", "nccl": "-t nvtx",
}  # fmt: skip
# The same where torch.profiler recorded all.
_WITH_TORCH: dict[str, str] = {
    **dict.fromkeys(("kernels", "cuda_api", "memcpy", "sync", "graphs"), "ProfilerActivity.CUDA"),
    "nvtx": "record_function", "gil": "nsys -t python-gil", "gc": "record_python_gc_info=True",
    "os_calls": "nsys -t osrt", "context_switches": "nsys --cpuctxsw=process-tree",
    "gpu_memory": "nsys --cuda-memory-usage=true", "gpu_metrics": "nsys --gpu-metrics-devices=all",
    "mpi": "nsys -t mpi", "nccl": "nsys -t nvtx",
}  # fmt: skip
_TORCH = "torch.profiler"


def capture_with(report: Result | Show, kind: str) -> str:
    """What to record with so that a kind of trace is there."""
    found = CAPTURE_WITH
    if by_torch(report):
        found = _WITH_TORCH
    elif kind == "gil" and any(note.slug == "torch-profiler" for note in report.warnings):
        found = _WITH_TORCH  # one side has it from nsys
    return found.get(kind, "a wider -t")


def absent(report: Result | Show, kind: str, where: str = "") -> str:
    """Say that a kind of trace is not there (`where`: on which side), and how it would be.

    Collections and NCCL's ranges leave no trace where none ran, so that one cannot be told from the other.
    """
    at = f" {where}" if where else ""
    how = capture_with(report, kind)
    if kind not in ("gc", "nccl"):
        return f"not captured{at}. Capture with {how} to see it."
    program = " (in TensorRT-LLM)" if kind == "gc" and not by_torch(report) else ""
    return f"none seen{at}: none ran, or none was recorded. Capture with {how}{program} to see it."


def by_torch(report: Result | Show) -> bool:
    """Whether torch.profiler recorded everything: then there is no export of nsys, nor SQL on one."""
    values = _versions(report)
    return bool(values) and all(value.startswith(_TORCH) for value in values)


def viewer(report: Result | Show) -> str:
    """The program that shows the moments of a trace, by their ns from its start."""
    if by_torch(report):
        return "Perfetto"
    return "nsys and Perfetto" if any(value.startswith(_TORCH) for value in _versions(report)) else "nsys"


def _versions(report: Result | Show) -> list[str]:
    """What both sides, or the one, say of their profiler; several of one side are one text."""
    if isinstance(report, Show):
        said = [fact.value for fact in report.machine if fact.name == "nsys"]
    else:
        said = [
            text
            for one in report.comparability.checks
            if one.name == "nsys"
            for text in (one.baseline, one.candidate)
        ]
    return [value for text in said for value in text.split(" | ")]


def cause(key: str) -> str:
    """Return a cause or category as people read it."""
    return CAUSES[key].name if key in CAUSES else key.replace("_", " ")


def what_is_counted(finding: Finding) -> str:
    """Name what a finding's counts are counts of; the time of idle cells is counted in pieces of gaps."""
    if finding.cause in ("comm", "memcpy"):
        return "copies a step" if finding.cause == "memcpy" else "kernels a step"
    if finding.cause.startswith("kernel"):
        return "kernels a step"
    if finding.cause == "host_sync" and finding.level == "exact":
        return "calls a step"
    return "pieces of gaps a step"


def sides_without(result: Result | Show, kind: str) -> str:
    """Name who did not capture a kind of trace: '', 'baseline', 'candidate' or 'either side'."""
    missing = [
        side
        for side, kinds in (("baseline", result.coverage.baseline), ("candidate", result.coverage.candidate))
        if kinds and kinds.get(kind) == "not_captured"
    ]
    return "either side" if len(missing) == 2 else "".join(missing)


def all_missing(result: Result | Show) -> list[str]:
    """Say of every kind of trace that every capture can hold where it is missing."""
    return [text for kind in KINDS if (text := missing(result, kind))]


def missing(result: Result | Show, kind: str) -> str:
    """Say that a kind was not captured and what to capture it with; empty where all sides have it."""
    side = sides_without(result, kind)
    if not side:
        return ""
    where = (
        "on either side" if side == "either side" else f"on the {side}" if isinstance(result, Result) else ""
    )
    return f"{({**KINDS, **SYSTEM_KINDS}).get(kind, kind)}: {absent(result, kind, where)}"


# Category that can be absent although GPU work and CUDA calls were captured -> its kind of trace.
OPTIONAL = {key: row.needs for key, row in causes.CAUSES.items() if row.needs in ("gc", "gil")}


def category_missing(report: Result | Show, key: str) -> str:
    """Return the flag that captures a category which can be absent; empty for the others."""
    return capture_with(report, OPTIONAL[key]) if key in OPTIONAL else ""


def sentence(text: str) -> str:
    """Begin with a capital where the text begins with an ordinary word, not with a name."""
    return text[:1].upper() + text[1:] if re.match(r"[a-z]+[ :,]", text) else text


def place(where: Where) -> list[tuple[str, str]]:
    """List the parts of a finding's place that apply, as (name, value)."""
    parts = [
        ("range", where.range),
        ("kernel", where.kernel),
        ("API", where.api),
        ("OS call", where.os_call),
        ("thread", where.thread),
        ("GIL holder", where.holder_thread),
        ("holder's range", where.holder_range),
        ("phase", where.phase),
        ("rank", None if where.rank is None else str(where.rank)),
    ]
    return [(name, value) for name, value in parts if value]


@dataclass(frozen=True)
class Headline:
    """The step time in words, ready for any output."""

    baseline: str
    candidate: str
    delta: units.Delta
    interval: str
    runs: str
    steps: str
    noise: str
    detectable: str
    scale: units.Scale


def headline(result: Result) -> Headline:
    """Write the step time, its difference and how sure it is."""
    step = result.step
    scale = units.scale_for([step.baseline_ns, step.candidate_ns])
    level: Evidence | None = "within_noise" if result.verdict in ("no_change", "inconclusive") else None
    noise = ""
    if step.noise_floor_ns is not None:
        noise = f"{scale.time(step.noise_floor_ns)} ({_noise_source(step)})"
    return Headline(
        baseline=scale.time(step.baseline_ns),
        candidate=scale.time(step.candidate_ns),
        delta=units.delta(scale, step.delta_ns, step.baseline_ns, level),
        interval=f"{scale.signed(step.ci_low_ns)} to {scale.signed(step.ci_high_ns)} {scale.unit}",
        runs=f"{step.runs.baseline} + {step.runs.candidate}",
        steps=f"{step.steps.baseline:,} + {step.steps.candidate:,}",
        noise=noise,
        detectable="" if step.min_detectable_ns is None else scale.time(step.min_detectable_ns),
        scale=scale,
    )


def _noise_source(step: Step) -> str:
    """Say what the noise floor was learned from: a single run repeats nothing."""
    if step.noise_source != "repeats":
        return {"given": "from the repeats given", "assumed": "assumed"}.get(
            step.noise_source, step.noise_source
        )
    runs = {"baseline": step.runs.baseline, "candidate": step.runs.candidate}
    repeated = [side for side, count in runs.items() if count > 1]
    return f"from the repeats of {'both sides' if len(repeated) == 2 else f'the {repeated[0]} alone'}, steadied by an assumed one"


def noise_floor(result: Result) -> str:
    """Say what the noise floor is and where it comes from; empty where it is not known."""
    step, scale = result.step, headline(result).scale
    if step.noise_floor_ns is None:
        return ""
    return f"one program against itself may differ by {scale.time(step.noise_floor_ns)} (noise floor, {_noise_source(step)})"


NOISE_FLOOR = "what one program against itself, with so many runs, may differ by; it decides where runs are too few to confirm"


_RUNS_NAMED = 8


def run_names(side: SideInput) -> list[str]:
    """The captures that a side takes as repeats of one program, as their folder names them; empty for a single one."""
    names = [run.name for run in side.runs]
    if len(names) < 2:
        return []
    more = len(names) - _RUNS_NAMED
    return names if more <= 0 else [*names[:_RUNS_NAMED], f"{more} more"]


def interval_name(result: Result) -> str:
    """Name the interval for what it holds: with one run on a side it knows nothing of noise between runs."""
    repeated = min(result.step.runs.baseline, result.step.runs.candidate) > 1
    return "95 % CI" if repeated else "95 % CI within the runs, noise between runs left out,"


def of_one_rank(finding: Finding) -> bool:
    """Whether the finding's size is one rank's, while both sides' times and the interval are means over all ranks."""
    part = finding.candidate_ns - finding.baseline_ns
    return finding.where.rank is not None and abs(part - finding.delta_ns) > 1 + 1e-6 * abs(part)


def both_sides(finding: Finding, scale: units.Scale, arrow: str) -> str:
    """Write a finding's time on both sides, and say where their difference is not the finding's size.

    A change on one rank alone is shown with the mean over all ranks, another mix of steps with the raw means.
    """
    return f"{sides_are(finding)}{scale.time(finding.baseline_ns)} {arrow} {scale.time(finding.candidate_ns)}"


def sides_are(finding: Finding) -> str:
    """Say what the times of both sides are where their difference is not the finding's size; else empty."""
    if finding.cause == "batch_mix":
        return "raw means "
    return "mean over all ranks " if of_one_rank(finding) else ""


def finding_scale(findings: list[Finding]) -> units.Scale:
    """Choose the one scale of a list of findings."""
    return units.scale_for([f.delta_ns for f in findings] + [f.candidate_ns for f in findings])


def category_of_both(result: Result, category: str, arrow: str) -> str:
    """Write a category of both sides: `719.9 us -> 718.0 us`; empty where it is not known."""
    sides = [books.get(category) for books in (result.accounting.baseline, result.accounting.candidate)]
    scale = units.scale_for(sides)
    return "" if None in sides else f" {arrow} ".join(scale.time(value or 0.0) for value in sides)


def matched_scale(rows: Sequence[KernelRow | GapRow | RangeRow]) -> units.Scale:
    """Choose the one scale of rows of both sides."""
    sides = [side for row in rows for side in (row.baseline, row.candidate) if side]
    return units.scale_for([side.ns_per_step for side in sides] + [row.delta_ns for row in rows])


def matched_figures(row: KernelRow | GapRow | RangeRow, scale: units.Scale, arrow: str) -> list[str]:
    """Write a row of both sides: count, time of each side, difference and percentage."""
    sides = (row.baseline, row.candidate)
    counts = [units.count(side.count_per_step) if side else "0" for side in sides]
    times = [scale.number(side.ns_per_step) if side else "-" for side in sides]
    level = row.level if isinstance(row, KernelRow) else None
    delta = units.delta(scale, row.delta_ns, row.baseline.ns_per_step if row.baseline else 0.0, level)
    return [arrow.join(dict.fromkeys(counts)), *times, delta.signed, delta.percent]


def problems(result: Result) -> list[tuple[str, str]]:
    """List the comparability checks that did not pass, worst first: status and sentence."""
    checks = sorted(result.comparability.checks, key=lambda check: ("fail", "warn", "ok").index(check.status))
    return [
        (
            check.status,
            f"{check.name}: {check.message} (baseline {check.baseline}, candidate {check.candidate})",
        )
        for check in checks
        if check.status != "ok"
    ]


def mix_note(result: Result) -> str:
    """Say how much of the raw difference is a different mix of steps; empty where that is next to nothing."""
    mix = result.mix
    raw = mix.candidate_raw_ns - mix.baseline_raw_ns
    if abs(mix.batch_mix_ns) <= 0.005 * abs(mix.baseline_raw_ns):
        return ""
    scale = units.scale_for([mix.baseline_raw_ns, mix.candidate_raw_ns])
    return (
        f"Raw means differ by {scale.delta(raw)}: {scale.delta(mix.batch_mix_ns)} is a different mix of "
        f"steps, {scale.delta(mix.speed_ns)} is speed."
    )


# Workloads, and those that are in no mean: a step time says nothing about them.

_WORKLOADS_NAMED = 3  # further ones are summed up


def workload(stratum: Stratum, kind: str) -> str:
    """Say in words which step of a stratum this is."""
    return f"{'Typical' if kind == 'typical' else 'Longest'} {workload_name(stratum)}"


def workload_name(stratum: Stratum) -> str:
    """Say in words what the steps of a stratum have in common."""
    words = []
    if stratum.ctx_reqs not in ("0", "?"):
        words.append(f"{_of(stratum.ctx_reqs, 'context request')} with {_of(stratum.ctx_tokens, 'token')}")
    if stratum.gen_reqs not in ("0", "?"):
        words.append(_of(stratum.gen_reqs, "generation request"))
    name = "step" if stratum.phase == "step" else f"{stratum.phase} step"
    return name + (f": {' and '.join(words)}" if words else "")


def _of(label: str, noun: str) -> str:
    """`1 token`, `2 tokens`, `129-256 tokens`."""
    return f"{label} {noun}" if label == "1" else f"{label} {noun}s"


def left_out(result: Result | Show) -> list[str]:
    """One sentence per workload, those with the most step time first; empty where every step counts."""
    two = isinstance(result, Result)
    out = [one for one in result.strata if not one.compared]
    out.sort(key=lambda one: -max(one.baseline_share or 0.0, (one.candidate_share or 0.0) if two else 0.0))
    size = _of_both if two else _of_one
    texts = [f"{size([one])} ({workload_name(one)}): {one.reason}" for one in out[:_WORKLOADS_NAMED]]
    if out[_WORKLOADS_NAMED:]:
        texts.append(f"{size(out[_WORKLOADS_NAMED:])} of {len(out) - _WORKLOADS_NAMED} more workloads")
    return [f"{'Left out of the comparison' if two else 'Not in the mean'}: {text}." for text in texts]


def _of_one(strata: Sequence[Stratum]) -> str:
    share = units.share(sum(one.baseline_share or 0.0 for one in strata))
    return f"{share} of the time of all steps, {units.counted(sum(one.baseline_steps for one in strata), 'step')}"


def _of_both(strata: Sequence[Stratum]) -> str:
    """Steps and step time of some strata, on both sides; no time where an older result does not know it."""
    steps = f"{sum(one.baseline_steps for one in strata):,} + {sum(one.candidate_steps for one in strata):,} steps"
    if any(one.baseline_share is None for one in strata):
        return steps
    one, other = (
        units.share(sum(share or 0.0 for share in shares))
        for shares in zip(*((one.baseline_share, one.candidate_share) for one in strata), strict=True)
    )
    both = (
        f"{one} of both sides'" if one == other else f"{one} of the baseline's and {other} of the candidate's"
    )
    return f"{both} step time, {steps}"
