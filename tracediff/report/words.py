"""The words every output shares: verdicts, levels of evidence, causes, places, what to capture."""

from __future__ import annotations

import math
import re
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from tracediff.model import (
    Check,
    Evidence,
    Finding,
    KernelRow,
    Result,
    SideInput,
    StructureRow,
    Verdict,
    Where,
    causes,
)
from tracediff.model.common import CALLS_LOST
from tracediff.model.show import Show
from tracediff.report import units
from tracediff.report.amounts import LISTED, NAMED
from tracediff.report.causes import CAUSES, at, kernel_sides, part_kinds, run_name
from tracediff.report.escape import shorten
from tracediff.report.grammar import say
from tracediff.stats.rules import LITTLE, MOSTLY, NEARLY
from tracediff.trace.threads import OUTSIDE


class VerdictWords(msgspec.Struct, frozen=True):
    """A verdict as a word, with the tone of its colour and a sign that survives without colour."""

    word: str
    tone: str  # bad | good | neutral | unsure | stop
    sign: str
    meaning: str


VERDICTS: dict[Verdict, VerdictWords] = {
    "regressed": VerdictWords("Slower", "bad", "▲", "Steps take longer in every test over runs."),
    "likely_regressed": VerdictWords(
        "Likely slower", "bad", "△", "Steps take longer beyond known noise; too few runs to confirm it."
    ),
    "improved": VerdictWords("Faster", "good", "▼", "Steps take less time in every test over runs."),
    "likely_improved": VerdictWords(
        "Likely faster", "good", "▽", "Steps take less time beyond known noise; too few runs to confirm it."
    ),
    "no_change": VerdictWords(
        "Same", "neutral", "=", "Step times differ by less than these runs scatter, and by less than 1 %."
    ),
    "inconclusive": VerdictWords(
        "Unclear",
        "unsure",
        "?",
        "Identical runs may differ by as much: a change is neither shown nor ruled out.",
    ),
    "not_comparable": VerdictWords(
        "Not comparable", "stop", "×", "The two sides differ in more than the change under test."
    ),
}

# The same of steps that may hold other work: how long they take says nothing of the program.
_OF_OTHER_WORK: dict[Verdict, str] = {
    "regressed": "Longer steps", "likely_regressed": "Likely longer steps", "improved": "Shorter steps",
    "likely_improved": "Likely shorter steps",
}  # fmt: skip

MOVED: tuple[Verdict, ...] = ("regressed", "likely_regressed", "improved", "likely_improved")
LEVELS: dict[Evidence, tuple[str, str]] = {
    "exact": (
        "exact count",
        "The number of launches, or of copies by their memory, is counted and needs no test; their time is measured, with its interval.",
    ),
    "confirmed": ("confirmed", "Tests over runs and their interval agree, after correction for many causes."),
    "likely": ("likely", "Beyond known noise, with too few runs to confirm it."),
    "within_noise": ("may be noise", "Runs of one program differ by as much."),
}
# The same where the interval leaves out 0.
UNSURE = (
    "not sure",
    "The interval leaves out 0, but so do some of so many places by chance, or less than 1 % of a step is sure.",
)

UNCHANGED = ("no change", "Both sides are the same here.")

KINDS: dict[str, str] = {
    "kernels": "GPU kernels", "cuda_api": "CUDA calls", "memcpy": "memory copies", "sync": "synchronisation",
    "nvtx": "NVTX ranges", "gil": "GIL", "gc": "Python GC", "graphs": "CUDA graphs",
}  # fmt: skip
# Kinds that few captures hold: said where one has them.
SYSTEM_KINDS: dict[str, str] = {
    "os_calls": "OS calls", "context_switches": "context switches", "gpu_memory": "CUDA's memory",
    "gpu_metrics": "GPU metrics",
    "mpi": "MPI calls", "nccl": "NCCL's ranges",
}  # fmt: skip


# Kind of trace -> what to add to the capture, as a command-line flag of nsys or a variable of the program.
CAPTURE_WITH: dict[str, str] = {
    "kernels": "-t cuda", "cuda_api": "-t cuda", "memcpy": "-t cuda", "sync": "-t cuda", "nvtx": "-t nvtx",
    "gil": "-t python-gil", "gc": "an NVTX range called Python GC around each collection (gc.callbacks)", "graphs": "--cuda-graph-trace=node",
    "os_calls": "-t osrt", "context_switches": "--cpuctxsw=process-tree", "gpu_memory": "--cuda-memory-usage=true",
    "gpu_metrics": "--gpu-metrics-devices=all, before nsys 2024.6 --gpu-metrics-device=all",
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
_WITH_TENSORRT_LLM: dict[str, str] = {**CAPTURE_WITH, "gc": "TLLM_PROFILE_RECORD_GC=1"}
_TORCH = "torch.profiler"


def capture_with(report: Result | Show, kind: str) -> str:
    """What to record with so that a kind of trace is there."""
    found = CAPTURE_WITH
    if by_torch(report):
        found = _WITH_TORCH
    elif kind == "gil" and any(note.slug == "torch-profiler" for note in report.warnings):
        found = _WITH_TORCH  # one side has it from nsys
    elif _by_tensorrt_llm(report):
        found = _WITH_TENSORRT_LLM
    return found.get(kind, "a wider -t")


def calls_lost(report: Result | Show) -> bool:
    """Whether the profiler left out CUDA calls of a capture for a while."""
    return any(note.slug == CALLS_LOST for note in report.warnings)


def other_work(result: Result) -> bool:
    """Whether the sides did other amounts of work per step, or in all."""
    return any(one.name == "work" and one.status != "ok" for one in result.comparability.checks)


def other_grids(result: Result, phase: str | None = None) -> StructureRow | None:
    """What says that the steps of a phase, of the first sentence's unless given, may hold other work: the blocks of their kernels."""
    phase = phase or result.observed.phase
    return next((one for one in result.structure if (one.kind, one.phase) == ("workload", phase)), None)


def all_steps(result: Result) -> tuple[float, float] | None:
    """What all steps of a run took on each side, ns, where as much work takes, or the programs recorded, other numbers of them."""
    mix, steps = result.mix, result.verdict_facts.other_steps or result.verdict_facts.recorded_steps
    return (mix.baseline_raw_ns * steps[0], mix.candidate_raw_ns * steps[1]) if steps else None


def _not_in_all(result: Result, of: Verdict, phase: str) -> bool:
    """Whether all steps together did not move as a verdict says, where there are others of them: they went against it, or took as long and hardly two launch the same work."""
    before, after = all_steps(result) or (0, 0)
    moved = after - before if of.endswith("regressed") else before - after
    if abs(moved) >= LITTLE * before:
        return moved < 0
    return any(one.phase == phase and not one.repeated for one in result.phases)


def verdict(result: Result, of: Verdict | None = None, phase: str | None = None) -> VerdictWords:
    """A verdict, that of the result unless given; of steps that may hold other work it is neither good nor bad."""
    of, phase = of or result.verdict, phase or result.observed.phase
    if of in _OF_OTHER_WORK and (other_grids(result, phase) or _not_in_all(result, of, phase)):
        return replace(VERDICTS[of], word=_OF_OTHER_WORK[of], tone="unsure")
    return VERDICTS[of]


def process_left_out(result: Result) -> bool:
    """Whether a process with GPU work is in no figure, as it has no steps."""
    return any(note.slug == "rank-without-steps" for note in result.warnings)


def _by_tensorrt_llm(report: Result | Show) -> bool:
    """Whether the steps of any run bear the labels of TensorRT-LLM."""
    sides = (report.input,) if isinstance(report, Show) else (report.inputs.baseline, report.inputs.candidate)
    return any(run.step_source.startswith("tensorrt-llm") for side in sides for run in side.runs)


# Kinds of which a program may have none: that none was seen does not say whether they were recorded.
_SILENT = ("gc", "nvtx")


def unseen(kind: str) -> str:
    """That a kind of trace is not there, in short."""
    return say("none_seen" if kind in _SILENT else "not_captured")


def absent(report: Result | Show, kind: str, where: str = "") -> str:
    """Say that a kind of trace is not there (`where`: on which side), and how it would be."""
    how = capture_with(report, kind)
    if (
        kind == "kernels"
        and isinstance(report, Result)
        and report.verdict_facts.rung.why == "kernels_missing"
    ):
        return "not looked at: one side lacks them."
    if kind == "kernels" and sides_without(report, "cuda_api") != sides_without(report, kind):
        return (
            f"not captured{where}, though CUDA calls were: the warning host-only says what may be the reason."
        )
    return say("absent_silent" if kind in _SILENT else "absent", at=where, how=how)


def by_torch(report: Result | Show) -> bool:
    """Whether torch.profiler recorded everything: then there is no export of nsys, nor SQL on one."""
    values = _versions(report)
    return bool(values) and all(value.startswith(_TORCH) for value in values)


def profiler(version: str) -> str:
    """What recorded a side, with its version: `nsys 2023.4.4.54`; torch.profiler says so itself."""
    return version if version.startswith(_TORCH) else f"nsys {version}"


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
    """Name what a finding's counts are counts of; idle time is counted in gaps."""
    if finding.cause == "memcpy":
        what = "copies"
    elif finding.cause == "comm" or finding.cause.startswith("kernel"):
        what = "kernels"
    else:
        what = "calls" if finding.facts.counted_calls else "idle gaps"
    return f"{what} per {finding.facts.per}"


def sides_without(result: Result | Show, kind: str) -> str:
    """Name who did not capture a kind of trace: '', 'baseline', 'candidate' or 'either side'."""
    missing = [
        side
        for side, kinds in (("baseline", result.coverage.baseline), ("candidate", result.coverage.candidate))
        if kinds and kinds.get(kind) == "not_captured"
    ]
    return "either side" if len(missing) == 2 else "".join(missing)


def all_missing(result: Result | Show, *, silent: bool = True) -> list[str]:
    """Say of every kind of trace that every capture can hold where it is missing; `silent`: of those too of which none may have run."""
    kinds = (kind for kind in KINDS if silent or kind not in _SILENT)
    return [text for kind in kinds if (text := missing(result, kind))]


def missing(result: Result | Show, kind: str) -> str:
    """Say that a kind was not captured and what to capture it with; empty where all sides have it."""
    side = sides_without(result, kind)
    if not side:
        return ""
    return f"{KINDS.get(kind, kind)}: {absent(result, kind, on_side(result, side))}"


def on_side(report: Result | Show, side: str) -> str:
    """` on the baseline`, ` on either side`; of one capture nothing."""
    on = "" if side == "either side" else "the "
    return f" on {on}{side}" if isinstance(report, Result) else ""


# Category that can be absent although GPU work and CUDA calls were captured -> its kind of trace.
OPTIONAL = {key: row.needs for key, row in causes.CAUSES.items() if row.needs in ("gc", "gil")}


def sentence(text: str) -> str:
    """Begin with a capital where the text begins with an ordinary word, not with a name."""
    return text[:1].upper() + text[1:] if re.match(r"[a-z-]+([ ,]|:(?!:))", text) else text


def place(where: Where) -> list[tuple[str, str]]:
    """List the parts of a finding's place that apply, as (name, value)."""
    inside = "" if where.range == OUTSIDE else where.range or ""
    parts = [
        ("place", at(inside)) if inside.startswith(OUTSIDE) else ("range", inside),
        ("kernel", units.arrow(kernel_sides(where))),
        ("layer", where.layer),
        ("API", where.api),
        ("call", where.os_call),
        ("thread", where.thread),
        ("GIL holder", where.holder_thread),
        ("holder's range", where.holder_range),
        ("phase", where.phase),
        ("rank", None if where.rank is None else str(where.rank)),
    ]
    return [(name, value) for name, value in parts if value]


def run_names(result: Result, side: Literal["baseline", "candidate"]) -> list[str]:
    """The captures that a side takes as repeats of one program, without the endings of their files, and which are left out; empty for a single one."""
    inputs: SideInput = getattr(result.inputs, side)
    odd = {one.run for phase in result.phases for one in phase.odd_runs if one.side == side and one.left_out}
    names = [shorten(run_name(run.name), 60) for run in inputs.runs]
    names = [
        say("run_odd", run=name) if run.name in odd else name
        for run, name in zip(inputs.runs, names, strict=True)
    ]
    if len(names) < 2:
        return []
    more = len(names) - LISTED
    return names if more <= 0 else [*names[:LISTED], f"{more} more"]


def both_sides(finding: Finding, scale: units.Scale) -> str:
    """Write a finding's time on both sides, and say where their difference is not the finding's size.

    A change on one rank alone is shown with the mean over all ranks, a different batch mix with the raw means. Empty where rare steps
    take less than typical ones of it: a negative time says nothing.
    """
    if finding.part == "tail" and min(finding.baseline_ns, finding.candidate_ns) < 0:
        return ""
    part = finding.candidate_ns - finding.baseline_ns
    of_one_rank = finding.where.rank is not None and abs(part - finding.delta_ns) > 1 + 1e-6 * abs(part)
    means = "mean over all ranks " if of_one_rank else ""
    if finding.cause == "batch_mix":
        means = "means as recorded "
    return means + scale.both(finding.baseline_ns, finding.candidate_ns)


def steps_note(result: Result) -> str:
    """What the table of phases is of: `typical: …; 4 + 5 runs, 520 + 650 steps`."""
    step = result.step
    runs = units.pair(step.runs.baseline, step.runs.candidate)
    if unit(result) != "step":
        return say("note_of_captures", runs=runs)
    steps = units.pair(step.steps.baseline, step.steps.candidate)
    slots = {"typical": typical(result), "runs": runs, "steps": steps}
    if len(result.ranks) < 2:
        return say("note_of_steps", **slots)
    return say("note_of_rank_steps", ranks=ranks(result), **slots)


def ranks(report: Result | Show) -> str:
    """How many there are: `2 ranks`, `2 devices` of one process."""
    return some_ranks(report, len(report.ranks))


def some_ranks(report: Result | Show, count: int) -> str:
    """So many ranks, or devices of one process."""
    return units.counted(count, _member(report))


def one_rank(report: Result | Show, rank: int, device: int) -> str:
    """Which of them: `rank 1`, or `device 1` of one process."""
    of = _member(report)
    number = rank if of == "rank" else device
    return f"{of} {number}"


def _member(report: Result | Show) -> str:
    return "rank" if len({one.rank for one in report.ranks}) > 1 else "device"


def typical(result: Result) -> str:
    """What a typical step is; of phases that are mostly first uses, how few steps have one."""
    few = [one for one in result.phases if one.typical and one.start_share >= MOSTLY]
    said = (say("typical_few", phase=one.phase, share=units.share(one.start_share)) for one in few)
    return "; ".join([say("typical_is"), *said])


def listed(result: Result) -> tuple[list[Finding], list[Finding]]:
    """Causes that are listed, and the smaller ones that may be noise alone, both in order; small are those of phases without a verdict too."""
    steps = {one.phase: max(one.mean.baseline_ns, one.mean.candidate_ns) for one in result.phases if one.mean}
    unjudged = {one.phase for one in result.phases if not one.judged and one.verdict not in MOVED}

    def counts(one: Finding) -> bool:
        step = steps.get(one.where.phase or "", result.step.baseline_ns)
        elsewhere = one.where.phase in unjudged and one.where.phase != result.observed.phase
        return one.level != "within_noise" or (abs(one.delta_ns) >= causes.SURELY * step and not elsewhere)

    found = [(one, counts(one)) for one in result.findings]
    return [one for one, yes in found if yes], [one for one, yes in found if not yes]


def level_words(level: Evidence, low: float, high: float) -> tuple[str, str]:
    """Word and meaning of a level of evidence, of a change with the ends of its interval."""
    word, meaning = UNSURE if level == "within_noise" and (low > 0 or high < 0) else LEVELS[level]
    return (say("exact_unsure", level=word) if level == "exact" and low < 0 < high else word), meaning


def evidence(finding: Finding, result: Result) -> str:
    """How sure a cause is: `confirmed`, `may be noise`."""
    if result.verdict == "not_comparable":
        return "not judged"
    facts, level = finding.facts, level_words(finding.level, finding.ci_low_ns, finding.ci_high_ns)[0]
    if finding.cause == "batch_mix":
        level = "as measured"
    if facts.late_rank is not None and finding.level == "within_noise":
        level = say("follows_unsure")
    guessed = facts.match in ("name", "template", "sequence", "fused", "split") and facts.confidence < NEARLY
    return say("matched", level=level) if guessed else level


def most_common(result: Result, phase: str) -> bool:
    """Whether a phase is the kind of step that most steps are of, which has no name, and a tenth of them or more are of others."""
    own = next((one.share for one in result.phases if one.phase == phase), 1.0)
    return phase == "step" and own < 1 - LITTLE


def finding_scale(findings: list[Finding], result: Result) -> units.Scale:
    """Choose the one scale of a list of findings, in the unit of the first screen."""
    times = [ns for one in findings for ns in (one.delta_ns, one.candidate_ns)]
    return units.scale_for(times, page_unit(result))


def page_unit(result: Result) -> units.Spoken:
    """The one unit of the first screen and of causes: that of the step."""
    return units.both(result.observed.baseline_ns, result.observed.candidate_ns)


def tested_level(row: Any) -> Evidence | None:
    """How sure a row is; None where it was not tested: it has neither p nor q, or one that has no q no interval."""
    test = getattr(row, "q_value", getattr(row, "ci_low_ns", 0.0))
    tested = test is not None or getattr(row, "p_value", None) is not None
    return row.level if tested or row.level != "within_noise" else None


def q_value(row: KernelRow | Finding) -> str:
    """Write `q 0.024`; nothing of what was not tested, or is counted and needs no test."""
    return "" if row.q_value is None or row.level == "exact" else f"q {units.probability(row.q_value)}"


def still(row: KernelRow) -> bool:
    """Whether a row is the same, or a tested one is shown to have changed by less than OWN; else it changed, or the runs cannot tell."""
    if not row.delta_ns and row.level == "within_noise":
        return True
    longest = max(side.ns_per_step for side in (row.baseline, row.candidate) if side)
    reach = max(abs(row.ci_low_ns), abs(row.ci_high_ns))
    return tested_level(row) == "within_noise" and reach <= causes.OWN * longest


def problems(result: Result) -> list[tuple[str, str]]:
    """List the comparability checks that did not pass, worst first, but for those that are a doubt of the first screen: status and sentence."""
    doubts = doubted(result)
    checks = sorted(result.comparability.checks, key=lambda check: ("fail", "warn", "ok").index(check.status))
    return [
        (
            check.status,
            say(
                "check",
                name=check.name,
                message=check.message,
                baseline=check.baseline,
                candidate=check.candidate,
            ),
        )
        for check in checks
        if check.status != "ok" and check.name not in doubts
    ]


def failed(result: Result) -> Check | None:
    """The first check that forbids a comparison."""
    return next((one for one in result.comparability.checks if one.status == "fail"), None)


def doubted(result: Result) -> set[str]:
    """Checks that the first screen says where they do not pass: the one that forbids a comparison, whether it is one program, and does the same work."""
    if result.verdict == "not_comparable":
        return {one.name for one in [failed(result)] if one is not None}
    return {"programs", "work"} if other_grids(result) else {"programs"}


# Phases. Their table is report/fields.py.

WORKLOADS = {
    "ops": "the same GPU work", "requests": "the same number of requests", "tokens": "similar numbers of tokens",
    "copies": "the same number of copies", "none": "any steps of the phase", "": "",
}  # fmt: skip
WHOLE = "all steps"
TOO_FEW = "too few similar steps"


def whole_captures(result: Result) -> bool:
    """Whether captures were compared as one step each, not cut."""
    sides = (result.inputs.baseline, result.inputs.candidate)
    return any(run.step_source == "whole-capture" for side in sides for run in side.runs)


def unit(report: Result | Show) -> str:
    """What times are of: a `step`, or where captures of a comparison were not cut a `capture`, or a `round` of the launches that both sides have."""
    if isinstance(report, Show):
        return "step"
    if report.verdict_facts.rung.kind == "rounds":
        return "round"
    return "capture" if whole_captures(report) else "step"


def mean_step(report: Result | Show) -> str:
    """What sums over all steps are the mean of, rare ones too; a capture that is one step is its own."""
    return "mean step" if unit(report) == "step" else unit(report)


# Findings.


def held(result: Result, finding: Finding) -> str:
    """`in 4 of 5 runs`: of the candidate; empty with one run on a side."""
    phase = next((one for one in result.phases if one.phase == finding.where.phase), None)
    found, runs = finding.held, (phase and phase.runs) or result.step.runs  # less those that are left out
    if found is None or min(runs.baseline, runs.candidate) < 2:
        return ""
    return say("held", count=f"{min(found.candidate, runs.candidate)}", runs=f"{runs.candidate}")


def of_first(finding: Finding, result: Result) -> bool:
    """Whether a finding is of the step that the first sentence is of: only these add up to its change."""
    observed = result.observed
    part = observed.of if observed.of in ("typical", "mean") else "typical"
    return finding.where.phase == observed.phase and finding.part == part


def explains(finding: Finding, result: Result) -> str:
    """What part of the first sentence's change a finding is; empty where it is of another step, may be noise or goes beyond or against it."""
    if finding.facts.late_rank is not None:
        return say("follows_rank", rank=f"{finding.where.rank}")
    if finding.level == "within_noise" or result.verdict in ("no_change", "not_comparable"):
        return ""
    if finding.share is None or finding.where.rank is not None or not of_first(finding, result):
        return ""
    share = finding.delta_ns / result.observed.delta_ns
    if not 0.005 <= share <= 1.05:
        return ""
    return "all of the change" if share >= 0.995 else f"{units.share(share)} of the change"


def size(finding: Finding, scale: units.Scale, unit: str = "step") -> str:
    """`+97.1 ± 2.3 us per generation step`."""
    per = per_step_of(finding, unit)
    if finding.ci_low_ns == finding.ci_high_ns:  # measured, without a test
        return f"{scale.delta(finding.delta_ns)} {per}"
    return f"{scale.interval(finding.delta_ns, finding.ci_low_ns, finding.ci_high_ns)} {scale.unit} {per}"


def brief_size(finding: Finding, result: Result) -> str:
    """`+97.1 ± 2.3 us per generation step`, with three digits."""
    ends = (finding.ci_low_ns, finding.ci_high_ns)
    prose = brief_unit(finding, result)
    size = prose.delta(finding.delta_ns) if ends[0] == ends[1] else prose.interval(finding.delta_ns, *ends)
    return f"{size} {per_step_of(finding, unit(result))}"


def brief_unit(finding: Finding, result: Result) -> units.Spoken:
    """The unit of the first screen; of a finding that would be 0 in it its own."""
    prose = page_unit(result)
    return prose if 2_000 * abs(finding.delta_ns) >= prose.factor else units.prose([finding.delta_ns])


def per_step(phase: str, part: str = "typical", unit: str = "step") -> str:
    """`per generation step`, `per mean generation step` of the mean, `per step` where steps have no phase."""
    return " ".join(["per", *["mean"] * (part != "typical"), units.step(phase, unit)])


def per_step_of(finding: Finding, unit: str = "step") -> str:
    """Per which step the size of a cause is; a different mix is one of all steps."""
    if finding.cause == "batch_mix":
        return say("in_all_steps")
    return per_step(finding.where.phase or "", finding.part, unit)


def parts(finding: Finding, scale: units.Scale) -> list[tuple[str, bool]]:
    """Write the parts of a finding, of one kind together, the largest first, which sum to its size; and whether each follows from the others."""
    sums: dict[tuple[str, bool], float] = {}
    for one in finding.parts:
        for kind, ns in part_kinds(one):
            sums[kind, one.follows] = sums.get((kind, one.follows), 0.0) + ns
    rows = sorted(sums.items(), key=lambda row: -abs(row[1]))
    if len(rows) == 1:
        return []
    seen = [row for row in rows if abs(row[1]) >= 0.5 * scale.factor / 10**scale.decimals]
    most = len(seen) if len(seen) == len(rows) <= NAMED + 1 else min(len(seen), NAMED)
    shown = rows[:most]
    own = [row for row in seen if not row[0][1]]
    if own and own[0] not in shown:  # what the others follow from has a name too
        shown[-1] = own[0]
    rest = [row for row in rows if row not in shown]
    written = [(f"{what} {scale.delta(ns)}", follows) for (what, follows), ns in shown]
    for follows in (False, True):
        group = [row for row in rest if row[0][1] is follows]
        what = group[0][0][0] if len(group) == 1 else units.counted(len(group), "other kind")
        others = scale.delta(math.fsum(ns for _, ns in group))
        written += [(f"{what} {others}", follows)] * bool(group)
    return written


def opposed(finding: Finding, result: Result) -> str:
    """The parts of a finding where they surely went both ways, each by more than their sum, which hides them; else empty. They add up to it."""
    clear = [one.delta_ns for one in finding.parts if not one.follows and one.ci_low_ns * one.ci_high_ns > 0]
    if not clear or min(max(clear), -min(clear)) <= abs(finding.delta_ns):
        return ""
    return ", ".join(text for text, _ in parts(finding, finding_scale([finding], result)))


def parts_line(finding: Finding, scale: units.Scale) -> str:
    """The parts in one line: `GEMM -22.2 us, silu +9.3 us; as a result: launch calls -108 us`."""
    rows = parts(finding, scale)
    both = (", ".join(text for text, of in rows if of is follows) for follows in (False, True))
    return "; as a result: ".join(text for text in both if text)


def places(finding: Finding) -> list[tuple[str, str]]:
    """The parts of its place that its title and its size do not say."""
    kernel = causes.CAUSES[finding.cause].kind == "kernel" or finding.cause in ("comm", "memcpy")
    return [
        (name, value)
        for name, value in place(finding.where)
        if value not in finding.title
        and name != "phase"
        and not (name == "kernel" and kernel)
        and name != "place"
    ]


def elsewhere(finding: Finding, scale: units.Scale) -> str:
    """What the same cause does in other phases, and in rare steps of its own, beyond noise: `+88.0 us per mixed step (likely)`."""
    said = []
    for one in finding.phases:
        again = one.phase == finding.where.phase and "tail" not in (one.part, finding.part)  # in another mean
        if one.level == "within_noise" or again:
            continue
        rare = ", in rare steps" if one.part == "tail" else ""
        step = per_step(one.phase, one.part)
        said.append(f"{scale.delta(one.delta_ns)} {step}{rare} ({LEVELS[one.level][0]})")
    return "; ".join(said)
