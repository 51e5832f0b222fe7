"""The first screen: what changed, why, what differs by count, whether it would repeat, what to do. A line each, the same in every output."""

from __future__ import annotations

import math
from collections import Counter

from msgspec.structs import replace

from tracediff.kernels.names import short
from tracediff.model import Delta, Finding, Headline, Phase, Result, Step
from tracediff.model.causes import CAUSES as ROWS
from tracediff.model.causes import OWN, SURELY
from tracediff.model.observed import Observed, ObservedPart
from tracediff.report import structure, units, words
from tracediff.report.causes import advised as advised_of
from tracediff.report.causes import brief, mix_shares, named, run_name, the_thread
from tracediff.report.grammar import say
from tracediff.stats.rules import LITTLE, MOST_RUNS, MOSTLY, OTHER_CPU, PERMUTE
from tracediff.stats.tests import ALPHA, holm

# What to do about checks that forbid a comparison; of others, of how it was recorded, to record both sides alike.
_NEXT = dict.fromkeys(("programs", "step_labels", "batch_mix"), "next_program")


def headline(result: Result) -> Headline:
    """The first sentences and the cause that they name first."""
    observed = result.observed
    named_first = next((_finding(result, one) for one in observed.parts if one.share), None)
    lines = (what(result), why(result), counts(result))
    return Headline(
        text=" ".join(line for line in lines if line),
        cause=named_first.cause if named_first else "",
        delta_ns=observed.delta_ns,
        level=named_first.level if named_first else "within_noise",
        phase=observed.phase,
        what=lines[0],
        why=lines[1],
        counts=lines[2],
    )


def lines(result: Result) -> list[str]:
    """The first screen of a result with its sentences, without lines that say nothing; the first stands out."""
    said = result.headline
    first = said.what or said.text or f"{words.verdict(result).word}."
    lost = say("lost") if words.calls_lost(result) and result.verdict != "not_comparable" else ""
    repeat = (lost, result.verdict_reason, _doubts(result), *_odd_runs(result))
    return [line for line in (first, said.why, said.counts, *repeat, advice(result)) if line]


def _doubts(result: Result) -> str:
    """What limits belief beside noise: the programs, the work of a step, steps of which none is typical, processes without steps, the clock of the GPU, and the CPUs where a change of the host rests on them."""
    if result.verdict == "not_comparable" or result.verdict_facts.basis == "identical":
        return ""
    slugs, phase = {note.slug for note in result.warnings}, lead(result)
    other, doubted = words.other_grids(result), words.doubted(result)
    said = [
        structure.sentence(other) if other and one.name == "work" else one.message
        for one in result.comparability.checks
        if one.status != "ok" and one.name in doubted
    ]
    if "steps-do-not-repeat" in slugs and phase and not phase.repeated:
        said.append(say("none_repeats"))
    if words.process_left_out(result):
        said.append(say("process_left_out"))
    if unclear := _open(result):
        said.append(say("phase_open", step=step_of(result, unclear)))
    said += other_clock(result, result.observed.delta_ns)
    causes = [_finding(result, one) for one in result.observed.parts]
    of_host = result.verdict in words.MOVED and any(one and ROWS[one.cause].host for one in causes)
    # another CPU moves typical steps as well
    typical = phase.typical if phase else None
    against = typical is not None and typical.delta_ns * result.observed.delta_ns < 0
    if of_host and not against and "host-speed-unknown" in slugs:
        said.append(say("cpu_unknown", speed="slower" if result.observed.delta_ns > 0 else "faster"))
    return say("doubts", doubts="; ".join(said)) if said else ""


def other_clock(result: Result, delta_ns: float) -> list[str]:
    """That nearly all kernels take longer, or less time, where something else does so too: it is the GPU then, and no kernel."""
    said = []
    for one in (one for one in result.insights if one.kind == "slower_clock" and one.low * delta_ns > 0):
        low, high = (f"{100 * part:.1f}" for part in sorted((abs(one.low), abs(one.high))))
        span = f"{low} %" if low == high else f"{low} to {high} %"
        longer, lower = ("longer", "lower") if one.low > 0 else ("less time", "higher")
        said.append(say("other_clock", span=span, longer=longer, lower=lower, count=f"{one.count:,}"))
    return said


def _odd_runs(result: Result) -> list[str]:
    """Runs that are left out, apart from the others of their side."""
    said = []
    for phase in result.phases:
        for one in phase.odd_runs:
            slots = {"run": run_name(one.run), "side": one.side}
            if one.host_speed is not None and abs(math.log(one.host_speed)) > OTHER_CPU:
                said.append(say("odd_cpu", times=f"{one.host_speed:.2f}", **slots))
                continue
            slots |= {"step": step_of(result, phase.phase), "size": units.spoken(one.delta_ns)}
            said.append(say("odd_run", more="more" if one.delta_ns > 0 else "less", **slots))
    return said


def advice(result: Result) -> str:
    """What to do, as a sentence."""
    return say("next", advice=advised(result))


def advised(result: Result) -> str:
    """What to do: about what forbids a comparison, a cause that is named or counted, other work, or noise."""
    if result.verdict == "not_comparable" and (failed := words.failed(result)):
        kind = "graphs" if failed.name == "graph_mode" else failed.name.removeprefix("trace_")
        name = words.capture_with(result, kind) if kind in words.CAPTURE_WITH else failed.name
        return say(_NEXT.get(failed.name, "next_alike"), name=name)
    if result.verdict == "no_change":
        return say("next_same")
    if words.calls_lost(result) and result.verdict not in words.MOVED:
        return say("next_lost")
    if cause := _named(result) or _counted(result):
        return cause.next.rstrip(".")
    if words.other_work(result) or went_against(result):
        return say("next_work")
    if result.verdict_facts.rung.kind == "host" and words.sides_without(result, "kernels"):
        return say("next_no_kernels")
    runs = result.step.runs_advised
    if runs and (not _surely_faster(result) or _doubts(result)):
        return say("record" if runs <= MOST_RUNS else "next_noisy", runs=f"{min(runs, MOST_RUNS)}")
    better = result.verdict in ("improved", "likely_improved")
    return say("next_faster" if better else "next_causes", candidate=result.inputs.candidate.label)


def _named(result: Result) -> Finding | None:
    """The first cause of the first sentence that has an advice, unless it is kernels that may have other work, which take another time."""
    named = [(one, found) for one in result.observed.parts if (found := _finding(result, one)) and found.next]
    along = (found for one, found in named if found.delta_ns * one.delta_ns > 0)  # not of another phase
    own = next(along, None)
    if own and advised_of(own) == "one_graph":  # there is little to do: new synchronisations expose it
        phase = result.observed.phase
        calls = [one for one in result.findings if one.facts.counted_calls and one.where.phase == phase]
        own = next((one for one in calls if one.next and one.delta_ns * own.delta_ns > 0), own)
    return None if own and own.cause == "kernel_time" and words.other_grids(result) else own


def _counted(result: Result) -> Finding | None:
    """Where there is no verdict, the first cause with an advice that is counted, and large enough to tell."""
    if result.verdict in words.MOVED:
        return None
    for found in result.findings:
        counted = found.level == "exact" and found.where.phase == result.observed.phase
        grown = [one.delta_ns for one in found.parts] if words.opposed(found, result) else []
        if counted and found.next and max([found.delta_ns, *grown]) >= SURELY * result.observed.baseline_ns:
            return found
    return None


def _surely_faster(result: Result) -> bool:
    """Whether a repeat would show most of a gain."""
    observed = result.observed
    return result.verdict == "likely_improved" and observed.ci_high_ns < MOSTLY * observed.delta_ns


def in_stops(result: Result, finding: Finding) -> str:
    """What to look for where the first cause is host work in stops of the candidate: graphs that are made in them, or missing; else a collection that was not traced."""
    stops, first = result.observed.stops, [one.finding for one in result.observed.parts[:1]]
    if stops is None or stops.side != "candidate":
        return ""
    if finding.cause != "host_work" or advised_of(finding) or finding.rank not in first:
        return ""
    phase = result.observed.phase
    if structure.more(result, "graph_instantiations", phase) > 0:
        return say("graphs_made_next")
    if structure.more(result, "graph_launches", phase) < 0:
        return say("graphs_missing_next")
    if result.coverage.candidate.get("gc") == "captured" or stops.count == 1:
        return ""
    every = units.ordinal(stops.every) if stops.every else ""
    return say("regular_next" if every else "stops_next", every=every, step=step_of(result, phase))


def lead(result: Result) -> Phase | None:
    """The phase that the first sentence is of."""
    return next((one for one in result.phases if one.phase == result.observed.phase and one.typical), None)


def what(result: Result) -> str:
    """Direction, step, before and after, change: as measured."""
    observed, candidate = result.observed, result.inputs.candidate.label
    if result.verdict_facts.basis == "identical":
        return say("one_capture" if one_capture(result) else "identical", candidate=candidate)
    if not observed.baseline_ns and not observed.candidate_ns:
        return say("nothing", candidate=candidate)
    prose, step = words.page_unit(result), step_of(result, observed.phase)
    if result.verdict_facts.basis == "checks":
        failed = words.failed(result)
        return say(
            "checks", message=failed.message if failed else "", step=step[:1].upper() + step[1:], baseline=result.inputs.baseline.label,
            candidate=candidate, before=prose.time(observed.baseline_ns), after=prose.time(observed.candidate_ns),
        )  # fmt: skip
    change = _change(observed, prose)
    if _within_noise(result):
        change = say("within_noise", change=change)
    phase = lead(result)
    mean = phase.mean if phase else None
    if mean and _otherwise(observed, mean) and mean.ci_low_ns * mean.ci_high_ns > 0:
        of_mean = units.change(mean.delta_ns, mean.baseline_ns)
        change = say("mean_otherwise", change=change, mean=of_mean)
    shares = phase.time_share if phase else None
    every = units.change(result.step.delta_ns, result.step.baseline_ns)
    if result.step.ci_low_ns < 0 < result.step.ci_high_ns:
        every = say("within_noise", change=every)
    as_ran, against = _as_they_ran(result), went_against(result)
    every = as_ran or every
    share = max(shares.baseline, shares.candidate) if shares else 0.0
    little = 0 < share < MOSTLY
    if little:
        change = say("little_time", change=change, share=units.share(share))
    if not against and (little or as_ran or (not _open(result) and _otherwise(observed, result.step))):
        change = say("all_otherwise", change=change, all=every)
    if result.verdict_facts.rung.kind == "host" and words.sides_without(result, "kernels"):
        change = say("no_gpu_work", change=change)
    direction, title = words.verdict(result).word, _title(result, change)
    pattern, more = "what_against" if against else "what", _more(result, step)
    return say(pattern, direction=direction, candidate=candidate, title=title, more=more, all=every)


def _more(result: Result, step: str) -> str:
    """What the change as measured does not say of itself: which steps make a mean, how long a step of GPU time is."""
    of, stops = result.observed.of, result.observed.stops
    if of == "gpu":
        return say("more_gpu", step=step, length=_both(result.step))
    if of != "mean":
        return ""
    if stops is None:
        phase = lead(result)
        return say("more_rare", typical=_both(phase.typical) if phase and phase.typical else "")
    slots = {"side": stops.side, "stop": units.spoken(stops.stop_ns)}
    if stops.every:
        return say("more_regular", every=units.ordinal(stops.every), step=step, **slots)
    return say("more_stops", count=f"{stops.count:,}", total=f"{stops.total:,}", **slots)


def _open(result: Result) -> str:
    """The phase that leaves the verdict open where the first one is the same; else empty."""
    first = lead(result)
    if result.verdict != "inconclusive" or first is None or first.verdict != "no_change":
        return ""
    phases = sorted(result.phases, key=lambda one: -one.share)
    return next((one.phase for one in phases if one.verdict == "inconclusive"), "")


def _otherwise(observed: Observed, step: Delta | Step) -> bool:
    """Whether a mean changed by a tenth of a step more or less, and by twice or half as much: of the mean of both sides, so that either may be the baseline."""
    if observed.of not in ("typical", "mean") or not observed.delta_ns or not step.delta_ns:
        return False
    low, high = sorted(
        (one.delta_ns / (one.baseline_ns + one.delta_ns / 2) for one in (observed, step)), key=abs
    )
    return abs(high - low) >= LITTLE and low / high < MOSTLY


def _as_they_ran(result: Result) -> str:
    """How the mean of all steps changed as they ran, where other steps, or another mix of them, move it by a tenth, or steps are told apart by what they launch and it went the other way than at equal work; else empty.

    Where as much work takes other steps, how all of them together did; where the programs recorded others, unless by about as much.
    """
    mix, facts, observed = result.mix, result.verdict_facts, result.observed
    change = mix.candidate_raw_ns - mix.baseline_raw_ns
    if (steps := facts.other_steps or facts.recorded_steps) and (every := words.all_steps(result)):
        before, after = every
        # of what both were before, without a division: either may be 0
        apart = (after - before) * observed.baseline_ns - observed.delta_ns * before
        if not facts.other_steps and abs(apart) < LITTLE * before * observed.baseline_ns:
            return ""
        pattern = "for_same_results" if facts.other_steps else "as_recorded"
        counts = units.arrow(f"{one:,.0f}" for one in steps)
        return say(pattern, change=units.change(after - before, before), steps=counts)
    both = mix.baseline_raw_ns, mix.candidate_raw_ns
    moved = mix.batch_mix_ns + mix.not_compared_ns  # steps of one side alone may be what the program does now
    mixed = min(abs(moved), abs(change - result.step.delta_ns)) >= LITTLE * max(both)
    if not mixed and not (facts.by_launches and _opposite(result, *both)):
        return ""
    said = units.change(change, mix.baseline_raw_ns)
    found = [share for one in result.findings for share in mix_shares(one)[:1]]
    return say("as_they_ran_mixed" if found else "as_they_ran", change=said, share=", ".join(found))


def _opposite(result: Result, before: float, after: float) -> bool:
    """Whether all steps went the other way than the step of the first sentence, by a tenth or more."""
    change = after - before
    return change * result.observed.delta_ns < 0 and abs(change) >= LITTLE * before


def went_against(result: Result) -> bool:
    """Whether nothing is sure, and all steps as they ran went the other way: the sentence begins with them."""
    mix, steps = result.mix, words.all_steps(result)
    unclear = result.verdict == "inconclusive" and bool(_as_they_ran(result))
    by_launches = bool(steps) or result.verdict_facts.by_launches  # labels tell batches
    return (
        unclear and by_launches and _opposite(result, *(steps or (mix.baseline_raw_ns, mix.candidate_raw_ns)))
    )


def one_capture(result: Result) -> bool:
    """Whether both sides have the same files, and nothing else tells them apart."""
    if result.verdict_facts.basis != "identical":
        return False
    sides = (result.inputs.baseline, result.inputs.candidate)
    one, other = ({run.fingerprint for run in side.runs} for side in sides)
    return one == other and "" not in one


def change(result: Result) -> str:
    """`generation step 972 -> 1,344 us (+372 us, +38.2 %)`, without the direction."""
    return _title(result, _change(result.observed, words.page_unit(result)))


def _title(result: Result, change: str) -> str:
    """What the observed time is of, before and after; of captures that were cut by the launches of a kernel rounds; of a lone step with a label that step."""
    observed, rung, prose = result.observed, result.verdict_facts.rung, words.page_unit(result)
    lengths = {"round": "title_rounds", "capture": "title_length", "step": "title_typical"}
    return say(
        lengths[words.unit(result)] if observed.of == "length" else f"title_{observed.of}", step=step_of(result, observed.phase), kernel=brief(short(rung.kernel)),
        before=prose.number(observed.baseline_ns), after=prose.time(observed.candidate_ns), change=change,
    )  # fmt: skip


def _in_rare_steps(result: Result, one: ObservedPart, finding: Finding) -> bool:
    """Whether a part is what rare steps add, not what a typical step has of their cause."""
    return finding.part == "tail" and (result.observed.of != "typical" or one.delta_ns == finding.delta_ns)


def _pattern(result: Result, one: ObservedPart, finding: Finding, *, whole: bool) -> str:
    """The pattern of a part of the change; whole: it is as large as the change."""
    if finding.facts.waited_for:
        return "beside_rank"
    if one.share <= 0:
        return "against" if one.share else "of_phase"
    rare = _in_rare_steps(result, one, finding)
    return "part" if not rare and (one.share <= 1 or whole) else "beside"


def _called(result: Result, one: ObservedPart, finding: Finding, names: Counter[str]) -> str:
    """A part by its name, with what tells it from others of that name, and with what in it goes the other way."""
    cause, where = named(finding), finding.where
    if not finding.facts.waited_for:
        if where.rank is not None and finding.facts.late_rank is None:
            cause = say("on_rank", cause=cause, rank=f"{where.rank}")
        elif names[cause] > 1 and where.thread:
            cause = say("on_thread", cause=cause, thread=the_thread(where.thread))
    if _in_rare_steps(result, one, finding):
        cause = say("in_rare_steps", what=cause)
    if one.delta_ns == finding.delta_ns and (opposed := words.opposed(finding, result)):
        bracketed = cause.endswith(")") and " (" in cause  # not operator()
        cause = f"{cause[:-1]}: {opposed})" if bracketed else f"{cause} ({opposed})"
    return cause


def why(result: Result) -> str:
    """The largest parts of the change, with their signs."""
    observed, facts = result.observed, result.verdict_facts
    if facts.basis == "checks":  # what differs may be the recording
        return ""
    said, unsure, against, of_it = [], [], [], True
    prose = words.page_unit(result)
    parts = _alike(
        [(one, finding) for one in observed.parts if (finding := _finding(result, one)) is not None]
    )
    names = Counter(named(finding) for _, finding in parts)
    for one, finding in parts:
        cause, change = _called(result, one, finding, names), prose.delta(one.delta_ns)
        pattern = _pattern(result, one, finding, whole=change == prose.delta(observed.delta_ns))
        if finding.level == "within_noise":
            unsure.append(f"{cause} ({change})")
        elif pattern == "against":
            against.append({"change": change, "cause": _against(result, finding, cause)})
        else:
            slots = {"rank": f"{finding.where.rank}", "step": step_of(result, finding.where.phase or "")}
            of_it = of_it and pattern == "part"  # after a part that is larger, `of it` would be of that
            pattern = "beside" if pattern == "part" and not of_it else pattern
            said.append(say(pattern, change=change, cause=cause, **slots))
    if facts.load is not None:
        before, after = f"{facts.load.baseline:,.0f}", f"{facts.load.candidate:,.0f}"
        load = say("load", before=before, after=after, step=step_of(result, facts.load.phase))
        # what explains the step of the sentence comes before its causes
        said.insert(0 if facts.load.phase == observed.phase else len(said), load)
    if unsure:
        said.append(say("unsure", parts=", ".join(unsure)))
    if not said and result.verdict in words.MOVED:
        said.append(say("none"))
    said += [say("beside" if at or not said else "against", **one) for at, one in enumerate(against)]
    text = "; ".join(said)
    return f"{text[:1].upper()}{text[1:]}." if said else ""


def _against(result: Result, finding: Finding, cause: str) -> str:
    """A cause that moved against the change; of host time whether the GPU hides it now, or no longer does: then the program's own is as it was."""
    for one in result.insights:
        exposed = one.candidate_exposed_ns - one.baseline_exposed_ns
        if one.kind == "hidden_host" and one.cause == finding.cause and exposed * finding.delta_ns > 0:
            return say("hidden_now" if exposed < 0 else "exposed_now", cause=cause)
    return cause


def _alike(parts: list[tuple[ObservedPart, Finding]]) -> list[tuple[ObservedPart, Finding]]:
    """The parts, with those that the same words would name as one, at the place of the first: three GEMMs are slower."""
    found: dict[tuple[object, ...], tuple[ObservedPart, Finding]] = {}
    for one, finding in parts:
        unsure, where = finding.level == "within_noise", finding.where
        key = (named(finding), where.thread, where.rank, unsure, one.delta_ns > 0)
        before, first = found.get(key, (ObservedPart(one.finding, 0.0, 0.0), finding))
        of_all = replace(before, delta_ns=before.delta_ns + one.delta_ns, share=before.share + one.share)
        found[key] = of_all, first
    return list(found.values())


def counts(result: Result) -> str:
    """Up to three structural differences, the largest first."""
    phase, said = structure.brief_of(result) if result.verdict_facts.basis != "checks" else ("", [])
    pattern = "counts" if phase == result.observed.phase else "counts_of_phase"
    step = units.step(phase or "", words.unit(result))
    return say(pattern, counts="; ".join(said), step=step) if said else ""


def reason(result: Result) -> str:
    """What a repeat would show, and the one thing that most limits belief in it."""
    observed = result.observed
    if result.verdict_facts.basis == "checks" and (failed := words.failed(result)):
        both = failed.baseline, failed.candidate
        before, after = map(words.profiler, both) if failed.name == "nsys" else both
        return say("failed_alike" if before == after else "failed", baseline=before, candidate=after)
    if result.verdict_facts.basis in ("identical", "checks") or observed.ci_low_ns == observed.ci_high_ns:
        return ""
    prose = words.page_unit(result)
    low, high = prose.signed(observed.ci_low_ns), prose.delta(observed.ci_high_ns)
    limit, runs, shares = _limit(result), result.step.runs, result.step.time_share
    return say(
        f"repeat_{limit}", low=low, high=high, size=prose.size(abs(observed.host_speed_ns)),
        speed="slower" if observed.host_speed_ns > 0 else "faster", runs=f"{runs.baseline} + {runs.candidate}",
        share=units.share(min(shares.baseline, shares.candidate)),
    )  # fmt: skip


def _within_noise(result: Result) -> bool:
    """Whether identical runs differ by as much, and nothing says that it is more."""
    observed = result.observed
    return result.verdict not in words.MOVED and observed.ci_low_ns <= 0 <= observed.ci_high_ns


def _limit(result: Result) -> str:
    """What most limits belief: the first that applies, the severest before the others."""
    observed, runs, shares = result.observed, result.step.runs, result.step.time_share
    fewest, moved = min(runs.baseline, runs.candidate), result.verdict in words.MOVED
    if min(shares.baseline, shares.candidate) < MOSTLY:
        return "share"
    if moved and observed.ci_low_ns <= 0 <= observed.ci_high_ns:
        return "causes"
    host, noise = observed.host_speed_ns, _within_noise(result)
    large = host * observed.delta_ns > 0 and abs(host) > OWN * abs(observed.delta_ns)
    if result.verdict_facts.host or (large and not noise):
        return "host"
    if not moved and not noise and words.unit(result) == "capture":
        return "work"
    phase = lead(result)
    if not moved and not noise and phase and unclear_by(phase, result)[1] == "chance":
        return "phases"
    if fewest == 1:
        return "lone"
    if observed.hosts == "one":
        return "turns"
    return "few" if moved and fewest < PERMUTE else "runs"


def unclear_by(phase: Phase, result: Result) -> tuple[int, str]:
    """How many phases were tested, and why this one is unclear though its interval leaves out 0: of many phases one does so by chance, and other batches may be all of it."""
    steps = {one.phase: getattr(one, phase.verdict_of) for one in result.phases}
    p = {name: step.p_value for name, step in steps.items() if step is not None and step.p_value is not None}
    step = steps[phase.phase]
    if phase.verdict != "inconclusive" or phase.phase not in p or step.ci_low_ns <= 0 <= step.ci_high_ns:
        return len(p), ""
    corrected = dict(zip(p, holm(list(p.values())), strict=True))
    return len(p), "chance" if corrected[phase.phase] >= ALPHA else "other_batches"


def step_of(result: Result, phase: str) -> str:
    """A step of a phase; of programs that have none what was compared: `whole capture`."""
    step = units.step(phase, words.unit(result))
    if words.most_common(result, phase):
        step = say("most_common_step")
    return say("on_the_host", step=step) if result.verdict_facts.rung.kind == "host" else step


def _both(one: Delta | Step) -> str:
    both = one.baseline_ns, one.candidate_ns
    return units.both(*both).both(*both)


def _change(observed: Observed, prose: units.Spoken) -> str:
    """`+372 us, +38 %`; `12x` beyond ten times; the time alone without a base."""
    size = prose.delta(observed.delta_ns)
    base = observed.baseline_ns
    if not base or not math.isfinite(observed.delta_ns / base):
        return size
    return f"{size}, {units.change(observed.delta_ns, base)}"


def _finding(result: Result, part: ObservedPart) -> Finding | None:
    return next((one for one in result.findings if one.rank == part.finding), None)
