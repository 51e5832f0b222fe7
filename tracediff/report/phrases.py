"""Sentences of a result, written from its data: the headline, the reason of the verdict, titles, notes and advice of findings.

`with_words` fills them in once, when a result leaves the comparison; nothing reads them back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from tracediff.comparison.measures import parse
from tracediff.errors import some
from tracediff.model import AllocationFact, Finding, GateOutcome, Insight, Result, Step, WaitFact
from tracediff.model.causes import CAUSES as ROWS
from tracediff.model.show import Show
from tracediff.report import remarks as remarks_of
from tracediff.report import show_words, structure, units, words
from tracediff.report.amounts import NAMED
from tracediff.report.causes import advice, awaited, idle_title, late, the_thread, title
from tracediff.report.first import headline, in_stops, other_clock, reason
from tracediff.report.grammar import say, told
from tracediff.report.kernels import sentence as answer
from tracediff.stats.rules import MOST_RUNS, NEARLY, RUNS_TELL


def with_words(result: Result) -> Result:
    """The result with its sentences."""
    checks = [replace(one, message=told(one.said)) for one in result.comparability.checks]
    result = replace(result, comparability=replace(result.comparability, checks=checks))
    findings = result.findings
    if _no_ranges(result):
        findings = [replace(one, where=replace(one.where, range=None)) for one in findings]
    result = replace(result, findings=[_finding(one, result) for one in findings])
    result = replace(result, headline=headline(result), verdict_reason=reason(result))
    answers = [replace(one, text=answer(result, one)) for one in result.kernel_answers]
    return replace(result, kernel_answers=answers)


def with_titles(report: Show) -> Show:
    """The report of one side with the titles of its idle time and of the places of single steps, and their sentences."""
    host_only = report.coverage.baseline["kernels"] == "not_captured"
    placed = [replace(one, range="") for one in report.idle] if _no_ranges(report) else report.idle
    idle = [
        replace(
            one,
            title=idle_title(one, host_only=host_only),
            longest=one.longest and replace(one.longest, what=moment("longest", one.longest.step, one.cause)),
        )
        for one in placed
    ]
    told = [replace(one, text=show_words.advised(one)) for one in report.advice]
    chosen = [
        replace(
            one,
            places=[
                replace(place, title=place.kernel or idle_title(place, host_only=host_only))
                for place in one.places
            ],
        )
        for one in report.chosen
    ]
    chosen = [replace(one, text=show_words.step_sentence(report, one)) for one in chosen]
    report = replace(report, idle=idle, advice=told, chosen=chosen)
    return replace(report, sentence=show_words.sentence(report))


def _no_ranges(report: Result | Show) -> bool:
    """Whether no ranges were recorded: then none says that a place lies in none."""
    return words.sides_without(report, "nvtx") == ("baseline" if isinstance(report, Show) else "either side")


def power_note(step: Step) -> str:
    """The smallest change that these runs can detect, and how many runs a change of 2 % takes."""
    more = step.runs_advised
    if step.min_detectable_ns is None:
        return say("power_unknown", runs=f"{more}")
    if not step.baseline_ns or not step.min_detectable_ns:
        return ""
    percent = f"{100 * step.min_detectable_ns / step.baseline_ns:.1f} %"
    text = say("power", percent=percent)
    if more is None:
        return text
    if min(step.runs.baseline, step.runs.candidate) < RUNS_TELL:
        return say("power_few", text=text, runs=f"{more}")
    runs = f"{more}" if more <= MOST_RUNS else f"more than {MOST_RUNS}"
    return say("power_more", text=text, runs=runs)


def moment(kind: str, step: int | None, cause: str) -> str:
    """What a moment of a cause is, and why it is this one."""
    of = "one step" if step is None else f"step {step}"
    return say(f"moment_{kind}", step=of, cause=words.cause(cause))


# Findings.


def _finding(finding: Finding, result: Result) -> Finding:
    moments = [
        replace(one, what=moment(one.kind, one.step, finding.cause)) for one in finding.evidence.moments
    ]
    return replace(
        finding,
        title=title(finding),
        note=_note(finding, words.unit(result)),
        next=_advice(finding, result),
        evidence=replace(finding.evidence, moments=moments),
    )


def _note(finding: Finding, unit: str) -> str:
    facts, where = finding.facts, finding.where
    notes = []
    if facts.late_rank is not None:
        notes.append(_waiting(facts.late_rank, late(finding)))
        if sent := facts.late_rank.sent:
            shares = units.arrow(units.share(one) for one in (sent.baseline, sent.candidate))
            notes.append(say("late_sends", share=shares))
    elif facts.delta_all_ranks_ns is not None:
        pattern = "waited_for" if facts.waited_for else "mean_of_ranks"
        notes.append(say(pattern, rank=f"{where.rank}", size=units.spoken_delta(facts.delta_all_ranks_ns)))
    elif facts.baseline_without_gc or facts.candidate_without_gc:
        side = "baseline" if facts.baseline_without_gc else "candidate"
        notes.append(say("no_collection", side=side))
    elif finding.cause == "batch_mix":
        notes.append(say("apart_from_others"))
    if facts.early is not None:
        notes.append(say("only_the_sum"))
    # steps with more calls are not all among the long ones
    if facts.rare is not None and not facts.counted_calls:
        notes.append(_rare(finding))
    if facts.allocations:
        notes.append(say("allocated", kinds="; ".join(map(_allocated, facts.allocations))))
    if facts.awaited is not None:
        peer, doing = awaited(facts.awaited)
        ns = facts.awaited.baseline_ns, facts.awaited.candidate_ns
        both = units.prose(ns).both(*ns)
        notes.append(say("awaited", peer=peer, doing=doing, both=both, step="step"))
    if facts.os_calls:
        said = (
            say(
                "of_idle_call" if one.call else "of_idle_off_cpu",
                size=units.prose([one.baseline_ns, one.candidate_ns]).both(one.baseline_ns, one.candidate_ns),
                call=one.call,
            )
            for one in facts.os_calls
        )
        notes.append(say("of_idle", unit=unit, parts="; ".join(said)))
    return " ".join([*notes, *_without(finding)])


def _without(finding: Finding) -> Iterator[str]:
    """What a step would take without the cause, and without the first three; how much of the cause that is not."""
    for projected in (finding.without, finding.without_first):
        if projected is None:
            continue
        *most, last = map(str, projected.causes or [finding.rank])
        what = f"causes {', '.join(most)} and {last} together" if most else "it"
        after = (projected.without_ns, projected.low_ns, projected.high_ns)
        delta, low, high = (ns - projected.step_ns for ns in after)
        write = units.prose([delta, low, high])
        step = words.per_step(finding.where.phase or "", finding.part)
        slots = {"delta": write.delta(delta), "low": write.signed(low), "high": write.delta(high)}
        yield say("replayed", what=what, step=step, **slots)
    alone = finding.without
    if alone is not None and alone.step_ns - alone.without_ns < NEARLY * finding.delta_ns:
        yield say("hides_waits")


def _rare(finding: Finding) -> str:
    """In which part of the steps, and what the typical step has of it."""
    rare = finding.facts.rare
    if rare is None:
        return ""
    sides = ((rare.baseline_steps, rare.baseline_of), (rare.candidate_steps, rare.candidate_of))
    before, after = (steps / of if of else 0.0 for steps, of in sides)
    if (after - before) * finding.delta_ns < 0:  # other steps than the long ones hold the change
        return ""
    shares = units.arrow(units.share(*one) for one in sides)
    typical = units.spoken_delta(rare.typical_delta_ns)
    return say("rare_steps", shares=shares, typical=typical)


def _waiting(wait: WaitFact, rank: str) -> str:
    patterns = {"pipeline": "late_in_pipeline", "all-to-all": "late_in_exchange"}
    return say(
        patterns.get(wait.kind, "late_in_collectives"),
        rank=rank,
        size=units.spoken_delta(wait.delta_transfer_ns),
    )


def _advice(finding: Finding, result: Result) -> str:
    """What to do next: nothing where it got faster, unless the work may have gone missing, or the recordings differ."""
    if result.verdict == "not_comparable":
        return ""
    # of what may be noise the first line's advice is about that; calls that are counted can be found without a repeat
    counted = finding.cause == "host_sync" and finding.facts.counted_calls
    if finding.level == "within_noise" and not counted:
        return ""
    if finding.facts.late_rank is not None:
        if finding.facts.late_rank.kind == "pipeline":
            return say("next_bubble")
        return say("next_late_rank", rank=late(finding))
    if looks := in_stops(result, finding):
        return looks
    coverage = finding.facts.graph_coverage
    if coverage is not None and coverage.candidate < coverage.baseline:
        return say("next_no_graphs")
    if finding.facts.early is not None and finding.delta_ns > 0:
        return say("next_early")
    if (
        finding.cause == "launch_api"
        and structure.more(result, "graph_instantiations", finding.where.phase) > 0
    ):
        return say("graphs_made_next")
    waits = structure.more(result, "blocking", finding.where.phase) > 0  # for their kernels
    if finding.cause in ("host_work", "launch_api") and finding.delta_ns > 0 and waits:
        return say("next_blocking")
    drained = structure.more(result, "ahead", finding.where.phase) < 0
    if ROWS[finding.cause].host and finding.delta_ns > 0 and drained:
        return say("next_ahead")
    if computes := structure.other_type(result, finding):
        if set(computes) == {"tf32", "fp32"}:
            return say("next_precision")
        return say("next_dtype", before=computes[0], after=computes[1])
    if finding.cause == "kernel_time" and other_clock(result, finding.delta_ns):
        return say("next_clock")
    others = finding.cause == "kernel_time" and finding.where.replaced_by
    if others or finding.facts.match in ("replaced", "mixed", "template"):
        return say("next_replaced")
    if not counted and 2 * finding.host_speed_ns > finding.delta_ns > 0:
        size = units.prose([finding.host_speed_ns]).size(min(finding.host_speed_ns, finding.delta_ns))
        return say("next_host", size=size)
    if finding.delta_ns > 0 or ROWS[finding.cause].check_faster:
        return advice(finding)
    return ""


def _allocated(one: AllocationFact) -> str:
    before, after = one.baseline, one.candidate
    counts = units.arrow(units.count(side.allocations_per_step) for side in (before, after))
    change = units.sizes(before.bytes_per_step, after.bytes_per_step)
    return say("allocated_kind", counts=counts, kind=one.kind, change=change)


# What somebody who knows these programs would add to the causes: a sentence for each of `Result.insights`.


REMARK = "Worth knowing"


def remarks(result: Result) -> list[str]:
    """One or two sentences for each remark; another clock is a doubt of the first screen."""
    return [_WORDS[one.kind](result, one) for one in result.insights if one.kind in _WORDS]


def _hidden_host(result: Result, one: Insight) -> str:
    change = one.candidate_exposed_ns - one.baseline_exposed_ns
    prose = units.prose([one.baseline_ns, one.candidate_ns, change])
    where = say("in_launches" if one.cause == "launch_api" else "on_its_own")
    every = one.candidate_exposed_ns < 0.01 * one.candidate_ns
    return say(
        "host_hidden" if change < 0 else "host_exposed", rest="all of it" if every else "the rest", now=prose.size(one.candidate_ns), before=prose.size(one.baseline_ns), change=prose.size(change),
        step=words.per_step("", "mean", words.unit(result)), where=say("most_in", where=where, api=one.api) if one.api else where,
    )  # fmt: skip


def _off_path(result: Result, one: Insight) -> str:
    step = words.unit(result)
    prose, whole = units.prose([one.baseline_ns, one.candidate_ns]), units.prose([result.step.candidate_ns])
    thread = the_thread(one.thread)
    in_bursts = [
        text
        for row in result.threads
        if row.role == one.thread
        for text in remarks_of.bursts(row, "candidate", result.step.candidate_ns, step)
    ]
    text = say(
        one.kind, ones="responses come" if in_bursts else "one begins", thread=thread[:1].upper() + thread[1:], range=one.range, step=step, before=prose.size(one.baseline_ns),
        after=prose.size(one.candidate_ns), whole=whole.size(result.step.candidate_ns),
    )  # fmt: skip
    return " ".join([*in_bursts, text])


_WORDS: dict[str, Callable[[Result, Insight], str]] = {
    "hidden_host": _hidden_host,
    "late_rank": lambda _, one: say(
        "late_rank",
        rank=f"{one.rank}",
        share=f"{100 * one.share:.0f} %",
        other=f"{100 * one.other_share:.0f} %",
    ),
    "falls_behind": _off_path,
    "off_path": _off_path,
}


# What a gate says of what it measured, written from the facts of its outcome.

_MILLISECONDS = 1e7  # ns, from which a gate's times are in ms


def with_messages(result: Result) -> Result:
    """The result with what its gates say; those that were stored with a result keep theirs."""
    if result.gates is None:
        return result
    outcomes = [
        replace(one, message=_aside(one, _message(one, result), result)) if one.facts else one
        for one in result.gates.outcomes
    ]
    return replace(result, gates=replace(result.gates, outcomes=outcomes))


def _aside(gate: GateOutcome, text: str, result: Result) -> str:
    """The message with what the result knows: how to capture what was not, and that its policy lets the gate pass."""
    assert gate.facts is not None and result.gates is not None
    if gate.facts.why == "not_measured":
        lacks = list(filter(None, (words.missing(result, kind) for kind in parse(gate.metric).needs)))
        text = say("gate_missing", text=text, missing=lacks[0].removesuffix(".")) if lacks else text
    let = result.gates.pass_inconclusive and gate.severity == "error" and result.verdict != "not_comparable"
    if let and gate.outcome == "inconclusive":
        text = say("gate_let_pass", text=text, policy=result.gates.policy)
    return text


def _message(gate: GateOutcome, result: Result) -> str:
    facts = gate.facts
    assert facts is not None
    limit, unseen = (_amount(gate, value, "") for value in (gate.limit or 0.0, facts.unseen))
    sure, least = (_amount(gate, value) for value in (facts.sure, facts.least))
    failed = words.failed(result)
    text = told(facts.said) or say(
        f"gate_{facts.why}", reason=failed.message if failed else "", change=_change(gate), limit=limit, unseen=unseen, sure=sure, least=least
    )  # fmt: skip
    if facts.places:
        text = say("gate_places", text=text, places=some([repr(one) for one in facts.places], NAMED))
    if facts.waived_to:
        text = say("gate_waived_to", text=text, limit=facts.waived_to)
    for pattern, waiver in (("gate_waived", gate.waiver), ("gate_waiver_ended", facts.ended)):
        if waiver is not None:
            text = say(pattern, text=text, expires=waiver.expires, reason=waiver.reason)
    return text


def _change(gate: GateOutcome) -> str:
    """`step +12.4 us (+3.1 %) in the mean of all steps`."""
    if gate.facts is None or gate.delta is None:
        return ""
    text = f"{told(gate.facts.of) or gate.metric} {_amount(gate, gate.delta)}"
    if gate.baseline:
        text += f" ({units.percent(gate.delta, gate.baseline)})"
    return f"{text} {told(gate.facts.steps)}".rstrip()


def _amount(gate: GateOutcome, value: float, plus: str = "+") -> str:
    """An amount of the gate: all in one unit, that of the larger of change and limit."""
    if gate.facts and gate.facts.bytes:
        sign = "-" if value < 0 else plus
        return say("gate_count", size=f"{sign}{units.size(round(abs(value)))}")
    if gate.unit == "count":
        return say("gate_count", size=f"{value:{plus}.2f}".rstrip("0").rstrip("."))
    if max(abs(gate.delta or 0.0), gate.limit or 0.0) >= _MILLISECONDS:
        return f"{value / 1e6:{plus},.3f} ms"
    return f"{value / 1e3:{plus},.1f} us"
