"""What was compared: workloads and their names, what is in no mean and why, and what share of the step time the numbers speak of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tracediff.model import Result, Stratum
from tracediff.model.causes import SURELY
from tracediff.model.common import SIDES
from tracediff.model.show import Show
from tracediff.report import units, words
from tracediff.report.amounts import NAMED
from tracediff.report.causes import run_name
from tracediff.report.grammar import say


class _Why(NamedTuple):
    """Why steps of a workload are in no mean: as a clause, and of several workloads."""

    clause: str
    several: str


_WHY = {
    "irregular": _Why(", without a regular phase", "without a regular phase"),
    "baseline_only": _Why(", which the candidate never ran", "of workloads that the candidate never ran"),
    "candidate_only": _Why(", which the baseline never ran", "of workloads that the baseline never ran"),
    "other_ops": _Why(", whose GPU work no step of the other side has", "of workloads whose GPU work no step of one side has"),
    "none_typical": _Why(", of whose workload a side has no typical step", "of workloads of which one side has no typical step"),
    "first_use": _Why(
        ", in which kernels run for the first time", "in which kernels run for the first time"),
    "": _Why("", "of several workloads"),
}  # fmt: skip
_LACKING = {"baseline_only", "candidate_only", "other_ops", "none_typical"}


def workload(stratum: Stratum, kind: str) -> str:
    """Say in words which step of a stratum this is."""
    return say("median_step" if kind == "typical" else "longest_step", workload=workload_name(stratum))


def workload_name(stratum: Stratum, between: str = ": ") -> str:
    """Say in words what the steps of a stratum have in common."""
    said = []
    if stratum.ctx_reqs not in ("0", "?"):
        requests, tokens = _of(stratum.ctx_reqs, "context request"), _of(stratum.ctx_tokens, "token")
        said.append(say("context", requests=requests, tokens=tokens))
    if stratum.gen_reqs not in ("0", "?"):
        said.append(_of(stratum.gen_reqs, "generation request"))
    name = units.step(stratum.phase)
    return name + (f"{between}{' and '.join(said)}" if said else "")


def _of(label: str, noun: str) -> str:
    """`1 token`, `2 tokens`, `129-256 tokens`."""
    return f"{label} {noun}" if label == "1" else f"{label} {noun}s"


def left_out(report: Result | Show) -> list[str]:
    """One sentence per workload, those with the most step time first, one for all small ones, and what runs begin with; empty where every step counts."""
    two = isinstance(report, Result)
    out = [one for one in report.strata if not one.compared]
    out.sort(key=lambda one: -most_of(one))
    size = _of_both if two else _of_one
    named = min(NAMED, sum(most_of(one) >= SURELY for one in out))
    if len(out) - named == 1 and not named:
        named = 1
    texts = [f"{size([one])}{_called(one)}{_why(one).clause}" for one in out[:named]]
    if named and out[named:]:
        more = units.counted(len(out) - named, "more workload")
        texts.append(say("more_workloads", size=size(out[named:]), workloads=more))
    elif out[named:]:
        texts.append(f"{size(out)} {_summed(out)}")
    said = [say("not_compared" if two else "not_in_the_mean", text=text) for text in texts]
    return [*said, *_begun(report)]


def _begun(report: Result | Show) -> list[str]:
    """The steps that runs begin with, which are in no mean."""
    if isinstance(report, Show):
        many, times = [report.step.begins], [report.step.begin_ns]
    elif report.mix.begins is None or report.mix.begin is None:
        return []
    else:
        begins, begin = report.mix.begins, report.mix.begin
        many, times = [begins.baseline, begins.candidate], [begin.baseline_ns, begin.candidate_ns]
    ns = [time for steps, time in zip(many, times, strict=True) if steps]
    steps = f"{units.pair(*many)} steps" if len(many) > 1 else units.counted(many[0], "step")
    return [say("begun", steps=steps, time=units.prose(ns).both(ns[0], ns[-1]))] if ns else []


def _called(stratum: Stratum) -> str:
    name = workload_name(stratum, ", ")
    return "" if name == "step" else f" ({name})"


def _why(stratum: Stratum) -> _Why:
    """A result from elsewhere may have other reasons."""
    return _WHY.get(stratum.reason, _WHY[""])


def _summed(strata: Sequence[Stratum]) -> str:
    """Why the steps of several workloads are in no mean."""
    reasons = {one.reason for one in strata}
    if len(reasons) == 1:
        return _why(strata[0]).several
    return "of workloads that one side lacks" if reasons <= _LACKING else "without a counterpart"


def most_of(stratum: Stratum) -> float:
    """Its part of the step time of the side that has more of it."""
    return max(_share(stratum, side) for side in SIDES)


def _of_one(strata: Sequence[Stratum]) -> str:
    steps = units.counted(sum(one.baseline_steps for one in strata), "step")
    return say("of_all_steps", share=units.share(sum(_share(one, "baseline") for one in strata)), steps=steps)


def _of_both(strata: Sequence[Stratum]) -> str:
    """Step time and steps of some strata, on the sides that have any."""
    sides = [(side, sum(getattr(one, f"{side}_steps") for one in strata)) for side in SIDES]
    there = [(side, steps) for side, steps in sides if steps]
    steps = " + ".join(f"{steps:,}" for _, steps in there)
    steps = f"{steps} step" if steps == "1" else f"{steps} steps"
    shares = [units.share(sum(_share(one, side) for one in strata)) for side, _ in there]
    if len(shares) > len(set(shares)):
        return say("of_both_sides", share=shares[0], steps=steps)
    said = (say(f"{side}_s", share=share) for (side, _), share in zip(there, shares, strict=True))
    return say("of_step_time", shares=" and ".join(said), steps=steps)


def _share(stratum: Stratum, side: str) -> float:
    """Its part of a side's step time; 0 where that is not known."""
    share = getattr(stratum, f"{side}_share")
    return share if isinstance(share, float) else 0.0


def mix_note(result: Result) -> str:
    """The means as recorded, and what their difference is made of; empty where they read as the means at equal work."""
    mix, step = result.mix, result.step
    prose, page = units.both(mix.baseline_raw_ns, mix.candidate_raw_ns), words.page_unit(result)
    shown = [(mix.baseline_raw_ns, step.baseline_ns), (mix.candidate_raw_ns, step.candidate_ns)]
    if all(prose.size(raw) == prose.size(equal) for raw, equal in shown):
        return ""
    parts = {
        "raw_mix": mix.batch_mix_ns,
        "raw_first_uses": mix.first_uses_ns,
        "raw_left": mix.not_compared_ns,
    }
    said = [
        say(pattern, size=page.delta(value))
        for pattern, value in parts.items()
        if prose.size(mix.baseline_raw_ns + value) != prose.size(mix.baseline_raw_ns)
    ]
    if not said:
        return ""
    both = page.both(mix.baseline_raw_ns, mix.candidate_raw_ns)
    change = page.delta(mix.candidate_raw_ns - mix.baseline_raw_ns)
    equal = page.delta(mix.speed_ns)
    return say("raw_means", both=both, change=change, equal=equal, parts=", ".join(said))


def compared(result: Result) -> list[str]:
    """What the numbers speak of, and what they leave out; a sentence too where that is nothing."""
    said = [text for text in (step_share(result), *left_out(result)) if text]
    whole = result.verdict != "not_comparable" and not words.process_left_out(result)
    return said or [say("all_compared")] * whole


def step_share(result: Result) -> str:
    """How much of all step time the comparison speaks of; empty where it is nearly all."""
    share = result.step.time_share
    if min(share.baseline, share.candidate) >= 0.95:
        return ""
    said = []
    for side in SIDES:
        text, runs = say(f"{side}_s", share=f"{100 * getattr(share, side):.0f} %"), _odd_runs(result, side)
        said.append(say("without_runs", whose=text, names=", ".join(sorted(runs))) if runs else text)
    return say("compared", shares=" and ".join(said))


def _odd_runs(result: Result, side: str) -> list[str]:
    """Names of the runs of a side that are left out."""
    odd = [run for phase in result.phases for run in phase.odd_runs if run.side == side and run.left_out]
    return list(dict.fromkeys(run_name(one.run) for one in odd))
