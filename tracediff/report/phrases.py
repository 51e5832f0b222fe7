"""Sentences of a result, written from its data: the headline, the reason of the verdict, titles, notes and advice of findings.

`with_words` fills them in once, when a result leaves the comparison; nothing reads them back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from tracediff.model import Finding, Insight, Moment, Result, Step, WaitFact
from tracediff.model.causes import CAUSES as ROWS
from tracediff.model.show import Show
from tracediff.report import show_words, units, words
from tracediff.report.causes import CAUSES, advice, idle_title, the_thread, title
from tracediff.report.first import headline, reason, untraced
from tracediff.report.grammar import say
from tracediff.report.kernel_words import with_answers
from tracediff.report.step_words import with_sentences


def with_words(result: Result) -> Result:
    """The result with its sentences."""
    result = replace(result, findings=[_finding(one, result) for one in result.findings])
    return with_answers(replace(result, headline=headline(result), verdict_reason=reason(result)))


def with_titles(report: Show) -> Show:
    """The report of one side with the titles of its idle time and the sentences of single steps."""
    host_only = report.coverage.baseline["kernels"] == "not_captured"
    idle = [
        replace(
            one,
            title=idle_title(one, host_only=host_only),
            longest=one.longest and replace(one.longest, what=longest(one.longest.step, one.cause)),
        )
        for one in report.idle
    ]
    report = with_sentences(replace(report, idle=idle))
    return replace(report, sentence=show_words.sentence(report))


def power_note(step: Step) -> str:
    """The smallest change that these runs can detect, and how many runs a change of 2 % takes."""
    more = step.runs_advised
    if step.min_detectable_ns is None:
        return f"With one run on a side run-to-run noise is unknown: record {more} or more per side."
    if not step.baseline_ns or not step.min_detectable_ns:
        return ""
    percent = f"{100 * step.min_detectable_ns / step.baseline_ns:.1f} %"
    text = f"The smallest change these runs can detect is {percent} (80 % power)."
    if more is None:
        return text
    if min(step.runs.baseline, step.runs.candidate) < _FEW:
        return f"{text} Record {more} runs per side: only they tell how many show 2 %."
    return f"{text} For 2 % record {more if more <= 50 else 'more than 50'} runs per side."


def moment(one: Moment, cause: str) -> str:
    """What a moment of a finding is, and why it is this one."""
    name, step = (
        CAUSES[cause].name if cause in CAUSES else cause,
        f"step {one.step}" if one.step is not None else "one step",
    )
    if one.kind == "typical":
        return f"{step}, near the typical size: {name}"
    if one.kind == "rare":
        return f"{step}, one of the rare steps: {name}"
    if one.kind == "beside":
        return f"{step}, the same place: no {name} there"
    return longest(one.step, cause)


def longest(step: int | None, cause: str) -> str:
    """What the moment of an idle cell is."""
    return f"{'one step' if step is None else f'step {step}'}, longest {CAUSES[cause].name if cause in CAUSES else cause}"


# Findings.

_FEW = 3  # runs a side: with fewer it is not known how far runs differ, and what is advised is a first number
_ALL_OF_IT = 0.8  # of a cause: where a step would gain less without it, that is said
_DOUBTFUL = 0.8  # confidence of a match below which a finding says so


def _finding(finding: Finding, result: Result) -> Finding:
    moments = [replace(one, what=moment(one, finding.cause)) for one in finding.evidence.moments]
    return replace(
        finding,
        title=title(finding, words.unit(result)),
        note=_note(finding),
        next=_advice(finding, result),
        evidence=replace(finding.evidence, moments=moments),
    )


def _note(finding: Finding) -> str:
    facts, where = finding.facts, finding.where
    notes = []
    if facts.late_rank is not None:
        notes.append(_waiting(facts.late_rank, where.rank))
    elif facts.delta_all_ranks_ns is not None:
        waiting = f"The other ranks wait for rank {where.rank}; the" if finding.delta_ns > 0 else "The"
        notes.append(f"{waiting} mean over all ranks is {facts.delta_all_ranks_ns / 1e3:+.1f} us.")
    elif facts.baseline_without_gc or facts.candidate_without_gc:
        side = "baseline" if facts.baseline_without_gc else "candidate"
        notes.append(f"The {side} recorded no collection: none ran there, or none was traced.")
    elif finding.cause == "batch_mix":
        notes.append("No other delta holds this time: all are at equal workload.")
    elif facts.match not in ("", "exact", "added", "removed", "replaced") and facts.confidence < _DOUBTFUL:
        notes.append(f"Which kernels belong together is uncertain (confidence {facts.confidence:.2f}).")
    if facts.rare is not None:
        notes.append(_rare(finding))
    if facts.allocations:
        said = (
            f"{one.baseline.allocations_per_step:.2f} -> {one.candidate.allocations_per_step:.2f} allocations of"
            f" {one.kind} memory ({one.baseline.bytes_per_step / 1e6:.1f} -> {one.candidate.bytes_per_step / 1e6:.1f} MB)"
            for one in facts.allocations
        )
        notes.append(f"Per step also: {'; '.join(said)}.")
    if facts.os_calls:
        said = (
            f"{_change(one.baseline_ns, one.candidate_ns)} us "
            + (f"in {one.call}" if one.call else "on no CPU and in no recorded OS call")
            for one in facts.os_calls
        )
        notes.append(f"Of this idle time, per step: {'; '.join(said)}.")
    return " ".join([*notes, *_without(finding)])


def _without(finding: Finding) -> Iterator[str]:
    """What a step would take without the cause, and without the first three; how much of the cause that is not."""
    for projected in (finding.without, finding.without_first):
        if projected is None:
            continue
        *most, last = map(str, projected.causes or [finding.rank])
        what = f"causes {', '.join(most)} and {last} together" if most else "it"
        write = units.prose([projected.step_ns, projected.without_ns, projected.high_ns])
        now, then = write.size(projected.step_ns), write.size(projected.without_ns)
        step = words.per_step(finding.where.phase or "", finding.part)
        yield (
            f"Replayed without {what}: {then} {f'{step}, as now' if now == then else f'instead of {now} {step}'}"
            f" (range {write.size(projected.low_ns)} to {write.size(projected.high_ns)})."
        )
    alone = finding.without
    if alone is not None and alone.step_ns - alone.without_ns < _ALL_OF_IT * finding.delta_ns:
        yield "Waits that the cause hides now would take the rest of its time."


def _rare(finding: Finding) -> str:
    """In how many steps per run, and what the typical step has of it."""
    rare = finding.facts.rare
    if rare is None:
        return ""
    runs = len(finding.evidence.runs_baseline_ns) or 1, len(finding.evidence.runs_candidate_ns) or 1
    return (
        f"Steps that it makes longer: {rare.baseline_steps * runs[0]:,.0f} of {rare.baseline_of * runs[0]:,.0f} on the baseline,"
        f" {rare.candidate_steps * runs[1]:,.0f} of {rare.candidate_of * runs[1]:,.0f} on the candidate;"
        f" the typical step changes by {units.prose([rare.typical_delta_ns]).signed(rare.typical_delta_ns)}."
    )


def _waiting(wait: WaitFact, late: int | None) -> str:
    return (
        f"Rank {late} comes last, and the others wait for it in collectives; the transfer itself changed by"
        f" {wait.delta_transfer_ns / 1e3:+.1f} us."
    )


def _advice(finding: Finding, result: Result) -> str:
    """What to do next: nothing where it got faster, unless the work may have gone missing, or the recordings differ."""
    if result.verdict == "not_comparable":
        return ""
    if finding.facts.late_rank is not None:
        return f"find out what made rank {finding.where.rank} late"
    if looks := untraced(result, finding):
        return looks
    coverage = finding.facts.graph_coverage
    if coverage is not None and coverage.candidate < coverage.baseline:
        return "find out why CUDA graphs no longer launch these kernels: a capture that failed, a shape without a graph, a setting"
    if finding.facts.match == "replaced":
        return "find out what selects these kernels (backend, flag, shape), and compare both sets in Nsight Compute"
    if finding.delta_ns > 0 or ROWS[finding.cause].check_faster:
        return advice(finding)
    return ""


def _change(before_ns: float, after_ns: float) -> str:
    return f"{before_ns / 1e3:.1f} -> {after_ns / 1e3:.1f}"


# What somebody who knows these programs would add to the causes: a sentence for each of `Result.insights`.


REMARK = "Worth knowing"


def remarks(result: Result) -> list[str]:
    """One or two sentences for each remark."""
    return [_WORDS[one.kind](result, one) for one in result.insights]


def _switch_interval(result: Result, one: Insight) -> str:
    return (
        f"{_waits(one)}: one or several times 5 ms, CPython's switch interval (sys.getswitchinterval)."
        " The holder runs Python code and lets go of the GIL only when it is asked to."
    )


def _holder_lets_go(result: Result, one: Insight) -> str:
    return (
        f"{_waits(one)}, less than CPython's switch interval (5 ms, sys.getswitchinterval): the holder keeps the GIL for its"
        " whole task, then lets go by itself."
    )


def _waits(one: Insight) -> str:
    return f"{one.count:,} of {one.total:,} waits for the GIL last {_span(one)}"


def _hidden_host(result: Result, one: Insight) -> str:
    change = one.candidate_exposed_ns - one.baseline_exposed_ns
    prose = units.prose([one.baseline_ns, one.candidate_ns, change])
    most = f", most of it in {one.api}" if one.api else ""
    what = "in launching calls" if one.cause == "launch_api" else "on its own work between CUDA calls"
    moved = "less" if change < 0 else "more"
    why = "the rest runs behind GPU work now" if change < 0 else "the GPU's work no longer hides it"
    if change < 0 and one.candidate_exposed_ns < 0.01 * one.candidate_ns:
        why = "all of it runs behind GPU work now"
    return (
        f"The host {'still ' * (change < 0)}spends {prose.size(one.candidate_ns)} {words.per_step('', unit=words.unit(result))} {what}{most}"
        f" ({prose.size(one.baseline_ns)} before), but the GPU waits {prose.size(change)} {moved} for it: {why}."
    )


def _slower_clock(result: Result, one: Insight) -> str:
    slower = one.low > 0
    low, high = sorted((abs(one.low), abs(one.high)))
    first, last = f"{100 * low:.1f}", f"{100 * high:.1f}"
    span = f"{first} %" if first == last else f"{first} to {last} %"
    return (
        f"All kernels take {span} {'longer' if slower else 'less time'}, {one.count:,} kernels of equal grids alike:"
        f" {'a lower' if slower else 'a higher'} clock or another power limit, not a change of the program."
    )


def _late_rank(result: Result, one: Insight) -> str:
    return (
        f"Rank {one.rank} comes last in {100 * one.share:.0f} % of the steps ({100 * one.other_share:.0f} % on the baseline);"
        f" the others wait for it. The cause is on rank {one.rank}, not in the network."
    )


def _off_path(result: Result, one: Insight) -> str:
    step = words.unit(result)
    prose, whole = units.prose([one.baseline_ns, one.candidate_ns]), units.prose([result.step.candidate_ns])
    thread = the_thread(one.thread)
    return say(
        one.kind, thread=thread[:1].upper() + thread[1:], range=one.range, step=step, before=prose.size(one.baseline_ns),
        after=prose.size(one.candidate_ns), whole=whole.size(result.step.candidate_ns),
    )  # fmt: skip


def _span(one: Insight) -> str:
    """`71.0 to 83.0 ms`, `2.04 ms` where both are written alike."""
    prose = units.prose([one.low_ns, one.high_ns])
    low, high = prose.size(one.low_ns), prose.size(one.high_ns)
    return low if low == high else f"{low.split()[0]} to {high}"


_WORDS: dict[str, Callable[[Result, Insight], str]] = {
    "switch_interval": _switch_interval,
    "holder_lets_go": _holder_lets_go,
    "hidden_host": _hidden_host,
    "slower_clock": _slower_clock,
    "late_rank": _late_rank,
    "falls_behind": _off_path,
    "off_path": _off_path,
}
