"""Sentences of a result: titles, notes and advice of findings, the reason of the verdict, written from its data.

`with_words` fills them in once, when a result leaves the comparison; nothing reads them back.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from tracediff.model import Finding, Launch, Result, Step, WaitFact
from tracediff.model.causes import CAUSES as ROWS
from tracediff.model.show import IdleCause, Show
from tracediff.report.causes import CAUSES

OUTSIDE = "outside any range"
_SURE = ("exact", "confirmed", "likely")
# Titles of kernels where both sides are matched in a certain way, else that of the cause.
_MATCHED = {
    ("kernel_added", "added"): "new kernel {kernel}, {after} a step",
    ("kernel_removed", "removed"): "kernel gone: {kernel}, {before} a step",
    ("kernel_time", "exact"): "{kernel}: {times}, {numbers}",
}


def with_words(result: Result) -> Result:
    """The result with its sentences."""
    result = replace(
        result,
        step=replace(result.step, power_note=power_note(result.step)),
        findings=[_finding(one, result) for one in result.findings],
    )
    return replace(result, verdict_reason=_reason(result))


def with_titles(report: Show) -> Show:
    """The report of one side with the titles of its idle time."""
    host_only = report.coverage.baseline["kernels"] == "not_captured"
    idle = [
        replace(
            one,
            title=_idle_cause(one, host_only),
            longest=one.longest and replace(one.longest, what=longest(one.longest.step, one.cause)),
        )
        for one in report.idle
    ]
    return replace(report, idle=idle)


# Findings.


def _finding(finding: Finding, result: Result) -> Finding:
    moments = [
        replace(one, what="slowest step" if finding.facts.tail else longest(one.step, finding.cause))
        for one in finding.evidence.moments
    ]
    return replace(
        finding,
        title=_title(finding),
        note=_note(finding, result.launch),
        next=_advice(finding, result),
        evidence=replace(finding.evidence, moments=moments),
    )


def longest(step: int | None, cause: str) -> str:
    """What the moment of an idle cell is."""
    return f"{'a step' if step is None else f'step {step}'}, longest {cause}"


def _title(finding: Finding) -> str:
    facts, where = finding.facts, finding.where
    if facts.tail is not None:
        return (
            f"only the tail moved: p99 of {where.phase} steps {_change(finding.baseline_ns, finding.candidate_ns)} us,"
            f" median {_change(facts.tail.baseline_median_ns, facts.tail.candidate_median_ns)} us;"
            f" slow steps are slow by {facts.tail.category}"
        )
    kind = ROWS[finding.cause].kind
    if kind in ("idle", "mix"):
        text = f"{'more' if finding.delta_ns >= 0 else 'less'} " + (
            _mix(finding)
            if kind == "mix"
            else _idle(
                finding.cause, where.range or "", where.thread or "", where.holder_thread or "",
                where.holder_range or "", where.api or "", copies=facts.copies, host_only=facts.host_only,
            )
        )  # fmt: skip
        if facts.delta_all_ranks_ns is not None:
            text += f", on rank {where.rank} alone"
        if facts.counted_calls:
            before, after = finding.evidence.count_baseline, finding.evidence.count_candidate
            text += f": {before:.4g} -> {after:.4g} synchronising calls a step"
        return text
    return _kernel(finding)


def _mix(finding: Finding) -> str:
    shares = [
        f"{one.phase} {100 * one.baseline:.0f} % -> {100 * one.candidate:.0f} % of steps"
        for one in finding.facts.shares
    ]
    return CAUSES["batch_mix"].title.format(shares=", ".join(shares) or "other batch sizes")


def _kernel(finding: Finding) -> str:
    facts, where = finding.facts, finding.where
    kernel = where.kernel or ""
    if finding.cause == "memcpy":
        kernel = kernel.strip("[]")
    before, after = (
        _count(count or 0.0) for count in (finding.evidence.count_baseline, finding.evidence.count_candidate)
    )
    numbers = f"{before} -> {after} a step"
    if facts.late_rank is not None:
        return f"waiting for rank {where.rank} in {kernel}: {numbers}"
    title = _MATCHED.get((finding.cause, facts.match), CAUSES[finding.cause].title)
    text = title.format(
        kernel=kernel, before=before, after=after, numbers=numbers,
        times=f"{facts.baseline_mean_ns / 1e3:.2f} -> {facts.candidate_mean_ns / 1e3:.2f} us each",
    )  # fmt: skip
    return (
        text
        if facts.hidden_ns is None
        else f"{text}, {facts.hidden_ns / 1e3:.1f} us of it hidden behind kernels"
    )


def _idle_cause(one: IdleCause, host_only: bool) -> str:
    return _idle(
        one.cause, one.range, one.thread, one.holder_thread, one.holder_range, one.api,
        copies=one.copies, host_only=host_only,
    )  # fmt: skip


def _idle(
    cause: str,
    place: str,
    thread: str,
    holder: str,
    holder_place: str,
    api: str,
    *,
    copies: bool,
    host_only: bool,
) -> str:
    """What idle time of a cause at a place is; `api`: the CUDA function that its longest piece lies in."""
    held = f" ({_at(holder_place)})" if holder_place else ""
    return CAUSES[cause].title.format(
        lost="time" if host_only else "GPU idle time",
        thread=_the_thread(thread) if thread else "the host",
        place=_at(place),
        holder=(_the_thread(holder) if holder else "a thread that was not recorded") + held,
        launching="copying" if copies else "launching",
        called=f" ({api})" if api else "",
    )


def _the_thread(role: str) -> str:
    """`the executor thread`; a role that says so itself (thread without ranges) is no thread twice."""
    return f"the {role}" if role.startswith("thread ") else f"the {role} thread"


def _at(place: str) -> str:
    if not place:
        return OUTSIDE
    return place if place.startswith(OUTSIDE) else f"in {place}"


def _note(finding: Finding, launch: Launch) -> str:
    facts, where = finding.facts, finding.where
    notes = []
    if facts.late_rank is not None:
        notes.append(_waiting(facts.late_rank, where.rank))
    elif facts.delta_all_ranks_ns is not None:
        waiting = f"The other ranks wait for rank {where.rank}; the" if finding.delta_ns > 0 else "The"
        notes.append(f"{waiting} mean over all ranks is {facts.delta_all_ranks_ns / 1e3:+.1f} us.")
    elif facts.baseline_without_gc or facts.candidate_without_gc:
        side = "baseline" if facts.baseline_without_gc else "candidate"
        notes.append(f"No collection was recorded on the {side}: none ran there, or none was traced.")
    elif facts.tail is not None:
        notes.append("The delta is of the 99th percentile, not of the mean.")
    elif finding.cause == "batch_mix":
        notes.append("Not part of the step delta, which is measured at the baseline's mix.")
    elif facts.match not in ("", "exact", "added", "removed"):
        notes.append(f"Matched by {facts.match}, confidence {facts.confidence:.2f}.")
    if facts.follows_syncs:
        notes.append("The GPU is empty after each synchronising call: this follows from their number.")
    if facts.delta_mean_ns is not None and facts.late_rank is None:
        notes.append(
            f"One run lies apart; without it the delta is this, with it {facts.delta_mean_ns / 1e3:+.1f} us."
        )
    if facts.allocations:
        said = (
            f"{one.baseline.allocations_per_step:.2f} -> {one.candidate.allocations_per_step:.2f} allocations of"
            f" {one.kind} memory ({one.baseline.bytes_per_step / 1e6:.1f} -> {one.candidate.bytes_per_step / 1e6:.1f} MB)"
            for one in facts.allocations
        )
        notes.append(f"Also in a step: {'; '.join(said)}.")
    if facts.os_calls:
        said = (
            f"{_change(one.baseline_ns, one.candidate_ns)} us "
            + (f"in {one.call}" if one.call else "on no CPU and in no recorded OS call")
            for one in facts.os_calls
        )
        notes.append(f"A step, of this idle time: {'; '.join(said)}.")
    if facts.relaunched:
        notes.append(f"{_relaunched(launch)}.")
    return " ".join(notes)


def _waiting(wait: WaitFact, late: int | None) -> str:
    return (
        f"Rank {late} comes last: rank {wait.rank} waits {wait.delta_wait_ns / 1e3:+.1f} us a step for it in all collectives;"
        f" transfer itself changed by {wait.delta_transfer_ns / 1e3:+.1f} us."
    )


def _advice(finding: Finding, result: Result) -> str:
    """What to do next: nothing where it got faster, unless the work may have gone missing, or the recordings differ."""
    if result.verdict == "not_comparable":
        return ""
    if finding.facts.late_rank is not None:
        return f"find out what made rank {finding.where.rank} late"
    if finding.delta_ns > 0 or finding.facts.tail is not None or ROWS[finding.cause].check_faster:
        return CAUSES[finding.cause].next
    return ""


# The verdict.


def power_note(step: Step) -> str:
    """What these runs can detect, and how many a change of 2 % takes."""
    runs = min(step.runs.baseline, step.runs.candidate)
    if step.min_detectable_ns is None:
        more = step.runs_advised
        return f"Run-to-run noise is not measured with a single run on a side: record {more} or more a side."
    if not step.baseline_ns or not step.min_detectable_ns:
        return ""
    text = (
        f"With {runs} runs a side that scatter like these, the test finds a change of"
        f" {100 * step.min_detectable_ns / step.baseline_ns:.1f} % four times in five."
    )
    if step.runs_advised is None:
        return text
    more = step.runs_advised
    return f"{text} For 2 % take {more if more <= 50 else 'more than 50'} runs a side."


def _reason(result: Result) -> str:
    facts, step = result.verdict_facts, result.step
    if facts.basis == "checks":
        failed = [one for one in result.comparability.checks if one.status == "fail"]
        return "; ".join(
            f"{one.name}: {one.baseline} against {one.candidate}: {one.message}" for one in failed
        )
    if facts.basis == "identical":
        return "Every measured place is the same to the nanosecond on both sides."
    change = f"{step.delta_ns / 1e3:+,.1f} us a step ({_percent(step)})"
    if facts.delta_trimmed_ns is not None:
        change += (
            f", {facts.delta_trimmed_ns / 1e3:+,.1f} us without the fastest and slowest runs of each side"
        )
    places = [
        one
        for one in result.findings
        if one.level in _SURE and abs(one.delta_ns) > 0 and one.cause != "batch_mix"
    ]
    best = f"{_sized(places[0])}." if places else ""
    floor = f"{(step.noise_floor_ns or 0) / 1e3:,.1f} us"
    if facts.basis == "same":
        return f"{change}, within 1 % of the step." + (f" Yet within the step: {best}" if best else "")
    if facts.basis == "scatter":
        runs = min(step.runs.baseline, step.runs.candidate)
        noise = f"noise (floor {floor})"
        if abs(step.delta_ns) > (step.noise_floor_ns or 0.0):  # it is the test or the interval that says no
            noise = "the scatter of the runs" if runs > 1 else "the scatter of the steps"
            noise += ", which so few steps do not show" if facts.few_steps else ""
        return f"{change} cannot be told from {noise}.{_certain(places)}"
    if facts.basis == "test":
        p = "< 0.001" if step.p_value is not None and step.p_value < 0.001 else f"= {step.p_value:.3f}"
        text = f"{change}, p {p} over {step.runs.baseline} and {step.runs.candidate} runs."
    else:
        assumed = step.noise_source == "assumed"
        why = "run-to-run noise is assumed, not measured" if assumed else "too few runs to confirm it"
        text = f"{change}, beyond the noise floor of {floor}; {why}."
    if facts.relaunched is not None:
        text += (
            f" {_relaunched(result.launch)} ({_coverage(result.launch)} of them): {facts.relaunched.delta_ns / 1e3:+,.1f} us"
            f" in {facts.relaunched.findings} findings of launching and of the host that launches."
        )
    if best:
        text += f" Largest {'part' if facts.relaunched else 'cause'}: {best}"
    if facts.graph_coverage:
        text += f" Kernels launched by CUDA graphs: {_coverage(result.launch)}."
    if facts.median is not None:
        text += (
            f" It is not in every step: the median {facts.median.phase} step changed by"
            f" {facts.median.delta_ns / 1e3:+,.1f} us."
        )
    return text


def _certain(places: Sequence[Finding]) -> str:
    """What holds though the step's change may be noise: a place is sure only where it was counted or confirmed."""
    for word, levels in (("sure", ("exact", "confirmed")), ("likely", ("likely",))):
        for one in places:
            if one.level in levels:
                return f" But one thing is {word}: {_sized(one)}."
    return ""


def _sized(finding: Finding) -> str:
    return f"{finding.title} ({finding.delta_ns / 1e3:+,.1f} us)"


def _relaunched(launch: Launch) -> str:
    if launch.candidate.graph_coverage > launch.baseline.graph_coverage:
        return "CUDA graphs launch the kernels now"
    return "CUDA graphs no longer launch the kernels: they are launched one by one"


def _coverage(launch: Launch) -> str:
    return f"{100 * launch.baseline.graph_coverage:.0f} -> {100 * launch.candidate.graph_coverage:.0f} %"


# Numbers in sentences.


def _change(before_ns: float, after_ns: float) -> str:
    return f"{before_ns / 1e3:.1f} -> {after_ns / 1e3:.1f}"


def _count(value: float) -> str:
    return f"{value:.0f}" if abs(value - round(value)) < 0.005 else f"{value:.2f}"


def _percent(step: Step) -> str:
    """With as many digits as the reports give beside it."""
    if not step.baseline_ns:
        return "no baseline"
    percent = 100 * step.delta_ns / step.baseline_ns
    return f"{percent:+,.{0 if abs(percent) >= 100 else 1}f} %"
