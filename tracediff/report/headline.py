"""The first sentence of a comparison, and those that follow it: what changed, by how much, the largest cause, how sure."""

from __future__ import annotations

import math

from msgspec.structs import replace

from tracediff.model import Finding, Headline, Launch, OddRun, Phase, Result, Verdict
from tracediff.model.causes import CAUSES as ROWS
from tracediff.report import launch_words, measured, units, words, workloads
from tracediff.report.causes import CAUSES, joined, named, run_name, spoken

SPEAKS_OF_PART = 0.5  # of a side's step time: with less compared, the first sentence says so
HOST_SPEED = 0.03  # a host that is so much slower or faster is named
_CERTAIN = ("exact", "confirmed")
_SURE = (*_CERTAIN, "likely")
_SMALL = 0.05  # of a change: a smaller cause is no explanation of it
_AGAINST = 0.25  # of a change: what goes the other way with this size is named
WORTH = 0.01  # of a step: a certain cause of this size is in the first sentence even where the step did not change
ESTIMATE = 0.02  # of a step: an uncertain cause of this size is named where nothing is certain
_SAME = 0.05  # of a step: a wider interval cannot show that it is unchanged
_ODD_RUNS = 3
_CONFIRM = 3  # runs a side from which a cause may be certain
_LARGE_RARE = 0.5  # of the typical step's change: so much in rare steps is in the first sentence
_MOSTLY_START = 0.4  # of the longer mean step: so much in first uses is said
_OTHERWISE = 0.15  # of what causes carry: where the total is as far from it, both are said
_NEW = 2.0  # times as much time in one place is not a slower host
_FAR_SPEED = 0.4  # log ratio: a run whose host is so much slower or faster is apart for that alone
_FIRST = ("generation", "step")  # phases that users feel before the others


def headline(result: Result) -> Headline:
    """The first sentence of a result and what it is about."""
    facts = result.verdict_facts
    phase = lead(result)
    of = _typical(phase)
    cause = _cause(result) or _worth_a_headline(result)
    level = cause.level if cause else "within_noise"
    delta = facts.carried_ns if facts.carried_ns is not None else of[0]
    text = ""
    if facts.basis == "checks":
        failed = next((one for one in result.comparability.checks if one.status == "fail"), None)
        text += (
            f": {failed.message} ({failed.name})"
            if failed
            else ": the captures differ in more than the change"
        )
    elif facts.basis == "identical":
        text += ": both sides are identical"
    elif launch_words.once(result):
        text += f": {launch_words.whole(result)}"
        level = "likely" if facts.basis == "gpu" else level
    elif facts.basis == "same":
        said = _only_host(result, phase) if facts.host and phase else _every_phase(result)
        text += f": {said}{_yet(result)}"
    elif phase is None:
        largest = measured.largest_of_host(result.host) if result.host else ""
        text += (
            f": host time only; most changed: {largest}"
            if largest
            else f": no phase has enough matching steps on both sides{launch_words.largest(result)}"
        )
    elif facts.basis == "scatter":
        certain = _yet(result)
        text += f"{certain}{';' if certain else ':'} {_scatter(result, phase)}"
    elif facts.basis == "part":
        text += _part(result, phase, cause) + _large_in_rare(result, phase)
    elif facts.basis == "rare":
        text += _rare(result, phase, cause)
    else:
        text += _phase(result, phase, cause) + _unknown_host(result, phase) + _large_in_rare(result, phase)
    return Headline(
        f"{_verdict(result.verdict)}{_in_part(result, text)}{_first_uses(result)}.",
        cause.cause if cause else "",
        delta,
        level,
        facts.phase,
    )


def _first_uses(result: Result) -> str:
    """What first uses of kernels make of the mean of all steps, where that is most of it: no verdict is of them."""
    mix = result.mix
    if result.verdict_facts.basis not in ("phase", "part", "rare", "same", "scatter"):
        return ""
    longer = math.fsum(one.share * one.start_share * one.start.delta_ns for one in result.phases if one.start)
    change, before, after = longer + mix.first_uses_ns, mix.baseline_raw_ns, mix.candidate_raw_ns
    if abs(change) < _MOSTLY_START * max(before, after) or change * (after - before) <= 0:
        return ""
    prose = units.prose([before, after, change])
    did = f"add {prose.size(change)} to" if change > 0 else f"take {prose.size(change)} off"
    often = workloads.first_uses(result) if abs(mix.first_uses_ns) > _AGAINST * abs(change) else ""
    return f"; first uses of kernels{often} {did} the mean of all steps ({prose.size(before)} -> {prose.size(after)})"


def reason(result: Result) -> str:
    """The sentences after the first: in how many runs, where else, what is certain, what to doubt."""
    facts = result.verdict_facts
    if facts.basis == "checks":
        failed = [one for one in result.comparability.checks if one.status == "fail"]
        return " ".join(
            f"{one.name}: {one.baseline} against {one.candidate}: {one.message.rstrip('.')}."
            for one in failed
        )
    phase, cause = lead(result), _cause(result)
    said = [_strata_of_both(result)]
    if facts.basis in ("phase", "part", "rare"):
        if phase:
            said.append(_felt_first(result, phase))
        if cause:
            said += [
                _against(result, cause),
                _themselves(cause),
                _held(result, cause),
                *_elsewhere(result, cause),
            ]
        if facts.graph_coverage:
            said.append(f"{relaunched(result.launch)} ({graph_share(result.launch)} of them).")
        if facts.basis != "rare" and phase:
            said.append(_also_rare(result, phase))
    elif facts.basis in ("same", "scatter"):
        said += [_certain(result), _estimate(result)]
    if phase:
        said.append(_host_speed(result, phase))
        said += _odd_runs(result)
    said += [launch_words.sentence(result), _unlike_work(result), _few_runs(result)]
    return " ".join(one for one in said if one)


def _unlike_work(result: Result) -> str:
    """That the captures do not hold the same work, so that their length says nothing."""
    found = next((one for one in result.comparability.checks if one.name == "work"), None)
    return f"{words.sentence(found.message)}." if found else ""


def lead(result: Result) -> Phase | None:
    """The phase that the verdict is of."""
    wanted = result.verdict_facts.phase
    return next((one for one in result.phases if one.phase == wanted and one.typical), None)


def per_step(result: Result, phase: str) -> str:
    """`per generation step`; `per step` where there is only one phase."""
    return words.per_step(phase if len(result.phases) > 1 else "", unit=words.unit(result))


def graph_share(launch: Launch) -> str:
    """The part of the kernels that CUDA graphs launch, on both sides."""
    return f"{100 * launch.baseline.graph_coverage:.0f} -> {100 * launch.candidate.graph_coverage:.0f} %"


def relaunched(launch: Launch) -> str:
    """How the way of launching changed."""
    if launch.candidate.graph_coverage > launch.baseline.graph_coverage:
        return "CUDA graphs launch the kernels now"
    return "CUDA graphs no longer launch the kernels"


def detectable(phase: Phase | None) -> str:
    """The smallest change that these runs can show, in percent, a time beyond 100 %; empty where it is not known."""
    typical = phase.typical if phase else None
    if typical is None or not typical.detectable_ns or not typical.baseline_ns:
        return ""
    if typical.detectable_ns > typical.baseline_ns:
        return units.prose([typical.detectable_ns]).size(typical.detectable_ns)
    return f"{100 * typical.detectable_ns / typical.baseline_ns:.1f} %"


# First sentences.


def _phase(result: Result, phase: Phase, cause: Finding | None) -> str:
    delta, base = _typical(phase)
    prose = units.prose([delta])
    text = f": {_change(delta, base, prose, _half(phase))} {per_step(result, phase.phase)}"
    if cause and cause.facts.graph_coverage and cause.delta_ns * delta > 0:
        return f"{text}, {_of_it(cause.delta_ns, delta, prose)} because {relaunched(result.launch)}"
    if cause is None or cause.delta_ns * delta < 0:
        rows = [one for one in _rows(result, phase.phase, "typical") if one.delta_ns * delta > 0]
        largest = max(rows, key=lambda one: abs(one.delta_ns), default=None)
        known = any(one.level in _SURE for one in rows) and cause is None
        of = (
            f"certain causes explain less than {100 * _SMALL:.0f} % of it"
            if known
            else "no cause of it is certain"
        )
        unsure = largest if largest and largest.level == "within_noise" else None
        return f"{text}, {of}" + (f"; {_largest(unsure, prose)}" if unsure else "")
    return text + _cause_clause(result, phase.phase, cause, delta, _half(phase), prose)


def _unknown_host(result: Result, phase: Phase) -> str:
    """That hosts of unlike speed may make most of a change: their speed is not known, and the time is of what both sides do."""
    books, delta = phase.accounting, _typical(phase)[0]
    if phase.host_speed is not None or books is None:
        return ""
    on_host = [name for name in books.delta if ROWS[name].host]
    new = [
        one.delta_ns
        for one in _rows(result, phase.phase, "typical")
        if one.cause in on_host and max(one.baseline_ns, one.candidate_ns) > _NEW * min(one.baseline_ns, one.candidate_ns)
    ]  # fmt: skip
    may = math.fsum(books.delta[name] for name in on_host) - math.fsum(new)
    return "; most of it may be the speed of the hosts, which is not known" if may / delta >= 0.5 else ""


def _cause_clause(
    result: Result, phase: str, cause: Finding, total: float, half: float, prose: units.Prose
) -> str:
    """What part of a change a cause is, what goes the other way, and a larger estimate that is not certain."""
    rows = _rows(result, phase, cause.part)
    size = cause.delta_ns
    share = size / total if total else 0.0
    verdict = result.verdict in ("regressed", "improved")
    doubt = _mostly_doubtful(cause) or (cause.level == "likely" and verdict)
    hedge = "likely " if doubt and verdict else ""
    of = ""
    if cause.where.rank is not None:  # the size is of that rank, the total of all
        text = f"; {hedge}{_named(cause, prose)} on rank {cause.where.rank}: {prose.signed(size)}"
    elif share <= 1.15:
        text = f", {hedge}{_of_it(size, total, prose, sure=not _mostly_doubtful(cause))} from {_named(cause, prose)}"
        of = _second(rows, cause, total, prose, _CERTAIN if verdict else _SURE) if share <= 0.5 else ""
    else:
        text = f"; {hedge}{_named(cause, prose)} {_adds(cause, size, prose)}"
    text += of
    against = [
        one
        for one in rows
        if one.level in _SURE and one.delta_ns * total < 0 and abs(one.delta_ns) >= _AGAINST * abs(total)
    ]
    if against:
        together = math.fsum(one.delta_ns for one in against)
        more = f" and {len(against) - 1} more" if len(against) > 1 else ""
        text += f", while {_named(against[0], prose)}{more} {_adds(against[0], together, prose, several=bool(more))}"
    elif cause.where.rank is None and share > 1.15:
        rest = total - size
        text += (
            ", other causes are within noise"
            if abs(rest) <= half
            else f", other causes {f'take {prose.size(rest)} off' if rest < 0 else f'add {prose.size(rest)}'}"
        )
    unsure = max(
        (one for one in rows if one.level == "within_noise"), key=lambda one: abs(one.delta_ns), default=None
    )
    if unsure and abs(unsure.delta_ns) > abs(size):
        text += f"; {_largest(unsure, prose)}"
    return text


def _adds(cause: Finding, size: float, prose: units.Prose, *, several: bool = False) -> str:
    """`adds 62.4 us`, `takes 105 us off`; the verb of one or of several."""
    ending = "" if several or _plural(cause) else "s"
    return f"add{ending} {prose.size(size)}" if size > 0 else f"take{ending} {prose.size(size)} off"


def _second(
    rows: list[Finding], cause: Finding, total: float, prose: units.Prose, levels: tuple[str, ...]
) -> str:
    """The next sure cause of a change of which the first explains less than half."""
    along = [
        one
        for one in rows
        if one.level in levels and one is not cause and one.where.rank is None and one.delta_ns * total > 0
    ]
    one = max(along, key=lambda row: abs(row.delta_ns), default=None)
    if one is None or abs(one.delta_ns) < 0.1 * abs(total):
        return ""
    return f", {prose.size(one.delta_ns)} from {_named(one, prose)}"


def _largest(one: Finding, prose: units.Prose) -> str:
    """The largest estimate that is not certain: one of many places may be beyond its own interval by chance."""
    apart = one.ci_low_ns > 0 or one.ci_high_ns < 0
    size = f"{_named(one, prose)} ({prose.signed(one.delta_ns)})"
    return f"the largest estimate is {size}" if apart else f"the largest estimate, {size}, is within noise"


def _part(result: Result, phase: Phase, cause: Finding | None) -> str:
    delta, base = _typical(phase)
    half = _half(phase)
    carried = result.verdict_facts.carried_ns or 0.0
    prose = units.prose([carried, delta, half])
    per = per_step(result, phase.phase)
    if cause and abs(cause.delta_ns - carried) <= 0.15 * abs(carried):
        text = f" by {_named(cause, prose)}: {_change(cause.delta_ns, base, prose)} {per}"
    else:
        text = f": certain causes add up to {_change(carried, base, prose)} {per}"
        text += f", {_of_it(cause.delta_ns, carried, prose)} from {_named(cause, prose)}" if cause else ""
    total = f"{prose.signed(delta)} ± {prose.size(half)}"
    if abs(delta) > half:
        return f"{text}; the total, {total}, is of too few runs to be sure"
    return f"{text}; the total, {total}, is too noisy to show it"


def _rare(result: Result, phase: Phase, cause: Finding | None) -> str:
    carried = result.verdict_facts.carried_ns or 0.0
    tail = phase.tail
    prose = units.prose([carried])
    text = f" in rare steps: {prose.signed(carried)} per mean {_step(phase)}"
    if cause and tail and abs(tail.delta_ns - carried) > _OTHERWISE * abs(carried):
        prose = units.prose([carried, tail.delta_ns])
        half = (tail.ci_high_ns - tail.ci_low_ns) / 2
        text = (
            f" in rare steps: {_named(cause, prose)} {_adds(cause, cause.delta_ns, prose)} per mean {_step(phase)}{_in_steps(phase, cause)};"
            f" all that rare steps add is {prose.signed(tail.delta_ns)} ± {prose.size(half)}"
        )
    elif cause:
        text += (
            f", {_of_it(cause.delta_ns, carried, prose)} from {_named(cause, prose)}{_in_steps(phase, cause)}"
        )
    else:
        rows = [one for one in _rows(result, phase.phase, "tail") if one.delta_ns * carried > 0]
        one = max(rows, key=lambda row: abs(row.delta_ns), default=None)
        text += ", no cause of it is certain"
        if one:
            text += f"; the largest estimate is {_named(one, prose)} ({prose.signed(one.delta_ns)})"
            text += _in_steps(phase, one).replace(" (", ", ").removesuffix(")")
    return f"{text}; the typical {_step(phase)} {'is unchanged' if _unchanged(phase) else 'does not change beyond noise'}"


def _in_steps(phase: Phase, cause: Finding) -> str:
    """` (in 5 of about 70 generation steps per run, up from 2)`: how many steps have far more of the cause than usual."""
    rare = cause.facts.rare
    if rare is None:
        return ""
    place = "in" if cause.cause in ("gc", "gil_wait") else "long in"
    before, after = _often(rare.baseline_steps), _often(rare.candidate_steps)
    was = f"{'up' if rare.candidate_steps > rare.baseline_steps else 'down'} from {before}"
    if before in ("none", after):
        was = f"{before} before"
    return f" ({place} {after} of about {rare.candidate_of:.0f} {_step(phase)}s per run, {was})"


def _step(phase: Phase) -> str:
    return "step" if phase.phase == "step" else f"{phase.phase} step"


def _unchanged(phase: Phase) -> bool:
    """Whether the typical step is known to be about the same."""
    return phase.verdict == "no_change" and _half(phase) <= _SAME * _typical(phase)[1]


def _often(count: float) -> str:
    if count < 0.05:
        return "none"
    return f"{count:.0f}" if abs(count - round(count)) < 0.05 or count >= 10 else f"{count:.1f}"


def _worth_a_headline(result: Result) -> Finding | None:
    """The first certain cause of a step that did not change for sure, where it or a part of it is 1 % of the step.

    Of few runs, of which nothing is certain, the first likely one, unless the sides ran different batches.
    """
    if result.verdict_facts.basis not in ("same", "scatter"):
        return None
    base = {one.phase: _typical(one)[1] for one in result.phases}
    likely = [one for one in result.findings if one.level == "likely" and one.cause != "batch_mix"]
    certain = _certain_of(result) or (
        likely if _runs(result) < _CONFIRM and not result.verdict_facts.load else []
    )
    lead_first = sorted(certain, key=lambda one: one.where.phase != result.verdict_facts.phase)
    worth = (
        one for one in lead_first if _largest_part(one) >= WORTH * base.get(one.where.phase or "", math.inf)
    )
    return next(worth, None)


def _certain_of(result: Result) -> list[Finding]:
    """Certain causes; of one that is uncertain for what follows from it, what is certain by itself."""
    found = []
    for one in result.findings:
        own = [part for part in one.parts if not part.follows]
        if one.level == "likely" and own and all(part.level in _CERTAIN for part in own):
            one = replace(
                one, parts=own, delta_ns=math.fsum(part.delta_ns for part in own), level=own[0].level
            )
        if one.level in _CERTAIN and one.cause != "batch_mix":
            found.append(one)
    return found


def _yet(result: Result) -> str:
    one = _worth_a_headline(result)
    if one is None:
        return ""
    prose = units.prose([one.delta_ns, *(row.delta_ns for row in one.parts)])
    per = per_step(result, one.where.phase or "")
    net = _net(one, prose)
    size = prose.signed(one.delta_ns)
    if one.ci_low_ns <= 0 <= one.ci_high_ns:  # their number is certain, not their time
        size += f" ± {prose.size((one.ci_high_ns - one.ci_low_ns) / 2)}"
    word = "likely" if one.level == "likely" else "certain"
    return (
        f"; {word}: {named(one)} {size} net {per} ({net})" if net else f"; {word}: {named(one)} {size} {per}"
    )


def _scatter(result: Result, phase: Phase) -> str:
    facts = result.verdict_facts
    if facts.host:
        return _only_host(result, phase)
    if facts.load:
        what = {"generation": "generation requests", "context": "context tokens"}.get(
            phase.phase, "requests and tokens"
        )
        before, after = (f"{value:.3g}" for value in (facts.load.baseline, facts.load.candidate))
        batches = (
            f"the sides ran different batches ({before} -> {after} {what} {per_step(result, phase.phase)})"
        )
        return f"{batches}, which may explain {_every_phase(result, first=phase.phase)}"
    least = detectable(phase)
    name = "step" if phase.phase == "step" else phase.phase
    text = _every_phase(result, first=phase.phase)
    if abs(_typical(phase)[0]) > _half(phase):  # beyond its interval, and no verdict all the same
        return f"{text}; this may still be chance" + (": record 5 runs per side" if _runs(result) < 5 else "")
    return text + (f"; a {name} change below {least} would not show" if least else "")


def _only_host(result: Result, phase: Phase) -> str:
    speed = _speed_words(phase)
    text = f"{speed} in short CUDA calls (machine or contention)" if speed else "the hosts differ in speed"
    return f"{text}; at equal host speed {_every_phase(result, equal=False)}"


def _every_phase(result: Result, first: str = "", *, equal: bool = True) -> str:
    """`generation -0.7 % ± 2.4 %, mixed -2.6 % ± 5.0 % at equal host speed`."""
    phases = sorted(
        (one for one in result.phases if one.typical and one.judged),
        key=lambda one: (one.phase != first, -one.share),
    )
    if not phases:
        return "no phase has enough matching steps"
    said = [f"{one.phase} {_with_interval(one)}" for one in phases if _typical(one)[1]]
    adjusted = any(one.typical and one.typical.host_speed_ns for one in phases)
    return ", ".join(said) + (" at equal host speed" if equal and adjusted else "")


def _with_interval(phase: Phase) -> str:
    """`-0.7 % ± 2.4 %`; times where the interval is wider than the step itself."""
    (delta, base), half = _typical(phase), _half(phase)
    if half > base:
        prose = units.prose([delta, half])
        return f"{prose.signed(delta)} ± {prose.size(half)}"
    return f"{units.percent(delta, base)} ± {100 * half / base:.1f} %"


def _in_part(result: Result, text: str) -> str:
    """Of captures of which less than half is compared: what the whole of them changed by, before what the compared part did."""
    shares = result.step.time_share
    small = [
        f"{units.share(value)} of the {side}'s"
        for side, value in (("baseline", shares.baseline), ("candidate", shares.candidate))
        if value < SPEAKS_OF_PART
    ]
    if not small or result.verdict == "not_comparable":
        return text
    means = [("the mean of all steps goes", result.mix.baseline_raw_ns, result.mix.candidate_raw_ns)]
    if len(result.phases) > 1:
        means += [
            (f"{_step(one)}s", one.baseline.mean_ns, one.candidate.mean_ns)
            for one in result.phases
            if one.baseline and one.candidate
        ]
    prose = units.prose([value for _, *sides in means for value in sides])
    said = [
        f"{name} from {prose.size(before)} to {prose.size(after)} ({units.change(after - before, before)})"
        for name, before, after in means
    ]
    of = f"in the compared part ({' and '.join(small)} step time)"
    return f": {', '.join(said)}; {of}{text.replace(':', ',', 1) if text.startswith(':') else text}"


_STRATA_NAMED = 3


def _strata_of_both(result: Result) -> str:
    """The step times of workloads that both sides have, compared or not, where less than half of a side is compared."""
    shares = result.step.time_share
    if min(shares.baseline, shares.candidate) >= SPEAKS_OF_PART:
        return ""
    both = [
        (one, one.baseline_ns, one.candidate_ns)
        for one in result.strata
        if one.baseline_ns is not None and one.candidate_ns is not None
    ]
    both.sort(key=lambda row: -max(row[0].baseline_share or 0.0, row[0].candidate_share or 0.0))
    prose = units.prose([value for _, *sides in both[:_STRATA_NAMED] for value in sides])
    said = [
        f"{workloads.workload_name(one, ', ')} {prose.size(before)} -> {prose.size(after)}"
        f" ({units.pair(one.baseline_steps, one.candidate_steps)} steps)"
        for one, before, after in both[:_STRATA_NAMED]
    ]
    more = len(both) - len(said)
    end = f"; {more} more in the HTML report and the JSON" if more > 0 else ""
    return f"Mean steps of workloads that both sides have: {'; '.join(said)}{end}." if said else ""


# Sentences after the first.


def _against(result: Result, cause: Finding) -> str:
    """A certain cause that goes against the change, where none goes along with it."""
    phase = lead(result)
    if result.verdict_facts.basis != "phase" or cause.delta_ns * _typical(phase)[0] >= 0:
        return ""
    prose = units.prose([cause.delta_ns])
    word = "certain" if cause.level in _CERTAIN else "likely"
    per = per_step(result, cause.where.phase or "")
    return f"Only {_named(cause, prose)} {'are' if _plural(cause) else 'is'} {word}: {prose.signed(cause.delta_ns)} {per}."


def _felt_first(result: Result, lead: Phase) -> str:
    """What a certain change of kernels does in the phase that users feel first, where the verdict is of another."""
    phase = next((one for one in result.phases if one.phase in _FIRST and one.judged), None)
    if phase is None or phase.typical is None or phase.phase == lead.phase:
        return ""
    rows = [
        one
        for one in _rows(result, phase.phase, "typical")
        if one.level in _CERTAIN
        and ROWS[one.cause].kind != "idle"
        and _largest_part(one) >= WORTH * _typical(phase)[1]
    ]
    if not rows:
        return ""
    prose = units.prose([phase.typical.delta_ns, *(part.delta_ns for part in rows[0].parts)])
    state = "is unchanged" if _unchanged(phase) else "shows no certain change"
    of = f"{prose.signed(phase.typical.delta_ns)} ± {prose.size(_half(phase))}"
    if phase.verdict not in ("no_change", "inconclusive"):
        state = f"has {words.VERDICTS[phase.verdict].word.lower()}" if phase.verdict else state
    text = _net(rows[0], prose) or prose.signed(rows[0].delta_ns)
    return f"{phase.phase.capitalize()} {state} ({of} per step): {named(rows[0])} {text}."


def _themselves(cause: Finding) -> str:
    """Of kernels that are named with what follows from them, what got faster and what slower."""
    rows = [one.delta_ns for one in cause.parts if not one.follows]
    net = _net(cause, units.prose(rows)) if _follows(cause) else ""
    return f"The kernels themselves: {net}." if net else ""


def _held(result: Result, cause: Finding) -> str:
    """In how many runs a change holds, where it is not in all of them; kernels are counted, their time is small."""
    runs, found = result.step.runs, cause.held
    if found is None or ROWS[cause.cause].kind != "idle":
        return ""
    text = words.held(result, cause)
    if text.startswith("in all") and "baseline" not in text:
        return ""
    subject = named(cause)
    return f"{subject[:1].upper()}{subject[1:]} shows {text}." if text and runs else ""


def _elsewhere(result: Result, cause: Finding) -> list[str]:
    """What the same cause does for certain in other phases, whose total cannot show it."""
    said = []
    for one in cause.phases if cause.where.rank is None else []:
        if one.level not in _CERTAIN or one.part != "typical" or one.phase == cause.where.phase:
            continue
        prose = units.prose([one.delta_ns])
        text = f"The same cause is {prose.signed(one.delta_ns)} per {one.phase} step"
        other = next((row for row in result.phases if row.phase == one.phase), None)
        if other is not None and other.verdict == "inconclusive":
            said.append(f"{text}, whose total is too noisy for a verdict.")
    return said


def _large_in_rare(result: Result, phase: Phase) -> str:
    """`; rare steps add +232 us per mean generation step (Python GC in _schedule)`, where that is no small thing beside the typical step's change."""
    rows = [one for one in _rows(result, phase.phase, "tail") if one.level in _CERTAIN]
    if not rows or abs(rows[0].delta_ns) < _LARGE_RARE * abs(_typical(phase)[0]):
        return ""
    prose = units.prose([rows[0].delta_ns])
    return f"; rare steps add {prose.signed(rows[0].delta_ns)} per mean {_step(phase)} ({_named(rows[0], prose)})"


def _also_rare(result: Result, lead: Phase) -> str:
    """What rare steps add for sure: those of the phase of the verdict, else of the phase that users feel first."""
    if _large_in_rare(result, lead):
        return ""  # the first sentence has it
    first = next((one for one in result.phases if one.phase in _FIRST and one.judged), None)
    for phase in (lead, first):
        if phase is None:
            continue
        levels = _CERTAIN if phase is lead else _SURE
        rows = [
            one
            for one in _rows(result, phase.phase, "tail")
            if one.level in levels and (phase is lead or abs(one.delta_ns) >= WORTH * _typical(phase)[1])
        ]
        if rows:
            prose = units.prose([rows[0].delta_ns])
            steps = "steps" if phase is lead else f"{_step(phase)}s"
            likely = ", likely" if rows[0].level == "likely" else ""
            size = prose.signed(rows[0].delta_ns)
            return f"Rare {steps} add {size} per mean {_step(phase)}{likely}: {_named(rows[0], prose)}."
    return ""


def _certain(result: Result) -> str:
    """What is certain although the step's change is not."""
    first = _worth_a_headline(result)
    rows = [one for one in _certain_of(result) if first is None or one.rank != first.rank]
    likely = [
        one
        for one in result.findings
        if one.level == "likely" and one.cause != "batch_mix" and (first is None or one.rank != first.rank)
    ]
    word, rows = ("Certain" if first is None else "Also certain", rows) if rows else ("Likely", likely)
    known = bool(rows and word != "Likely") or first is not None
    moved = (
        " The step as a whole may not gain or lose that time." if result.verdict_facts.moved and known else ""
    )
    if not rows:
        return moved.strip()
    prose = units.prose([one.delta_ns for one in rows[:3]])
    said = [
        f"{_named(one, prose)} {prose.signed(one.delta_ns)} {per_step(result, one.where.phase or '')}"
        f"{' on average' if one.part == 'tail' else ''}"
        for one in rows[:3]
    ]
    text = f"{word}: {'; '.join(said)}"
    text += f"; {len(rows) - 3} more below." if len(rows) > 3 else "."
    return text + moved


def _estimate(result: Result) -> str:
    """The largest cause of an inconclusive result, and whether few runs make it."""
    phase = lead(result)
    if result.verdict_facts.basis != "scatter" or result.verdict_facts.host or phase is None:
        return ""
    rows = [one for one in _rows(result, phase.phase, "typical") if one.level == "within_noise"]
    one = max(rows, key=lambda row: abs(row.delta_ns), default=None)
    if one is None or abs(one.delta_ns) < ESTIMATE * _typical(phase)[1]:
        return ""
    prose = units.prose([one.delta_ns])
    runs = words.held(result, one)
    rare = [row for row in _rows(result, phase.phase, "tail") if row.level == "within_noise"]
    larger = any(abs(row.delta_ns) > abs(one.delta_ns) for row in rare)
    apart = one.ci_low_ns > 0 or one.ci_high_ns < 0
    text = (
        f"The largest estimate{' of the typical step' if larger else ''}{'' if apart else ' within noise'} is {_named(one, prose)}:"
        f" {prose.signed(one.delta_ns)} {per_step(result, phase.phase)}"
    )
    return f"{text}{f', {runs}' if runs else ''}."


def _host_speed(result: Result, phase: Phase) -> str:
    speed = _speed_words(phase)
    if not speed or result.verdict_facts.host:
        return ""
    moved = phase.typical.host_speed_ns if phase.typical else 0.0
    prose = units.prose([moved])
    assert phase.host_speed is not None
    more = "more" if phase.host_speed > 1 else "less"  # also where it explains nothing
    text = (
        f"Short CUDA calls took {100 * abs(phase.host_speed - 1):.0f} % {more} time on the candidate's host; the"
        f" {prose.size(moved)} {per_step(result, phase.phase)} that this explains are not in the change"
        " (if the change itself loads the CPU, they belong to it)."
    )
    runs = result.step.runs
    if min(runs.baseline, runs.candidate) == 1 and abs(math.log(phase.host_speed)) > _FAR_SPEED:
        text += " Between such hosts one run per side shows large changes only: record both sides in turns, on one machine."
    return text


def _speed_words(phase: Phase) -> str:
    """`the candidate's host was 8 % slower`; empty where the hosts differ by less than 3 %."""
    speed = phase.host_speed
    if speed is None or abs(math.log(speed)) <= HOST_SPEED:
        return ""
    return f"the candidate's host was {_slower(speed)}"


def _slower(speed: float) -> str:
    """`8 % slower` of a ratio of times."""
    return f"{100 * abs(speed - 1):.0f} % {'slower' if speed > 1 else 'faster'}"


def _odd_runs(result: Result) -> list[str]:
    """Runs that lie apart from the others of their side, each once, and in what."""
    found: dict[tuple[str, str], tuple[Phase, OddRun]] = {}
    for phase in result.phases:
        for one in phase.odd_runs:
            found.setdefault((one.side, one.run), (phase, one))
    said = []
    for phase, one in list(found.values())[:_ODD_RUNS]:
        if one.host_speed is not None and abs(math.log(one.host_speed)) > _FAR_SPEED:
            text = (
                f"Run {run_name(one.run)} of the {one.side} {'is left out' if one.left_out else 'lies apart'}"
            )
            said.append(f"{text}: its CUDA calls are {_slower(one.host_speed)} than those of the other runs.")
            continue
        prose = units.prose([one.delta_ns, one.cause_ns])
        where = "above" if one.delta_ns > 0 else "below"
        text = (
            f"Run {run_name(one.run)} of the {one.side} lies {prose.size(one.delta_ns)} {per_step(result, phase.phase)}"
            f" {where} the others at equal host speed: {_category(one.cause)} {prose.signed(one.cause_ns)}"
        )
        if one.host_speed is not None and abs(math.log(one.host_speed)) > HOST_SPEED:
            text += f", and its CUDA calls are {_slower(one.host_speed)}"
        said.append(f"{text}{'; it is left out' if one.left_out else ''}.")
    more = len(found) - _ODD_RUNS
    return [*said, f"{more} more runs lie apart."] if more > 0 else said


def _runs(result: Result) -> int:
    """Runs of the side that has fewer."""
    return min(result.step.runs.baseline, result.step.runs.candidate)


def _few_runs(result: Result) -> str:
    runs = _runs(result)
    if result.verdict_facts.basis == "identical":
        return ""
    if runs == 1:
        return "With one run on a side run-to-run noise is not measured: the interval assumes the usual one."
    if runs < 4 and result.verdict in ("likely_regressed", "likely_improved"):
        side = "of the candidate" if runs < result.step.runs.baseline else "of the baseline"
        where = "per side" if result.step.runs.baseline == result.step.runs.candidate else side
        return f"{runs} runs {where} are too few to confirm it: record 5."
    return ""


# What sentences are made of.


def _rows(result: Result, phase: str, part: str) -> list[Finding]:
    """Causes in one part of one phase: findings of it, then what findings of other phases are in it."""
    own = [one for one in result.findings if (one.where.phase, one.part) == (phase, part)]
    of = next((one for one in result.phases if one.phase == phase), None)
    whole = of and (of.typical if part == "typical" else of.tail)
    also = [
        replace(
            one,
            where=replace(one.where, phase=phase), part=here.part, delta_ns=here.delta_ns, ci_low_ns=here.ci_low_ns,
            ci_high_ns=here.ci_high_ns, level=here.level, held=None, parts=[], phases=[], facts=replace(one.facts, rare=None),
            share=here.delta_ns / whole.delta_ns if whole and whole.delta_ns else None,
        )
        for one in result.findings
        for here in one.phases
        if (here.phase, here.part) == (phase, part)
    ]  # fmt: skip
    return own + sorted(also, key=lambda one: -abs(one.delta_ns))


def _cause(result: Result) -> Finding | None:
    """The cause that the first sentence names: the first sure one that goes the way of the change and is a part of it to speak of."""
    facts = result.verdict_facts
    phase = lead(result)
    if phase is None or facts.basis not in ("phase", "part", "rare"):
        return None
    rows = _rows(result, phase.phase, "tail" if facts.basis == "rare" else "typical")
    total = facts.carried_ns if facts.carried_ns is not None else _typical(phase)[0]
    along = [one for one in rows if one.level in _SURE and one.delta_ns * total > 0]
    for levels in (_CERTAIN, ("likely",)):
        for one in along:
            if one.level in levels and max(abs(one.delta_ns), _largest_part(one)) >= _SMALL * abs(total):
                return one
    return None if along else next((one for one in rows if one.level in _SURE), None)


def _verdict(verdict: Verdict) -> str:
    return "No change found" if verdict == "no_change" else words.VERDICTS[verdict].word


def _typical(phase: Phase | None) -> tuple[float, float]:
    """Change and baseline of the typical step, ns."""
    return (phase.typical.delta_ns, phase.typical.baseline_ns) if phase and phase.typical else (0.0, 0.0)


def _half(phase: Phase) -> float:
    return (phase.typical.ci_high_ns - phase.typical.ci_low_ns) / 2 if phase.typical else 0.0


def _change(delta: float, base: float, prose: units.Prose, half: float = 0.0) -> str:
    """`+92.0 us (+9.2 %)`; no percentage where the interval is wider than the step itself."""
    part = units.change(delta, base) if half <= base else ""
    return prose.signed(delta) + (f" ({part})" if part else "")


def _of_it(part: float, whole: float, prose: units.Prose, *, sure: bool = True) -> str:
    """`all of it`, `most of it (354 us)`, `52.1 us of it`; nothing that is not sure is all of it."""
    share = part / whole if whole else 0.0
    if 0.85 <= share <= 1.15 and sure:
        return "all of it"
    return f"most of it ({prose.size(part)})" if 0.5 < share <= 1.15 else f"{prose.size(part)} of it"


def _follows(finding: Finding) -> float:
    """Time of what follows from a cause, where it goes the same way, ns per step."""
    after = math.fsum(one.delta_ns for one in finding.parts if one.follows)
    return after if after * finding.delta_ns > 0 else 0.0


def _mostly_doubtful(finding: Finding) -> bool:
    """Whether most of what a cause explains is within noise by itself."""
    unsure = [one.delta_ns for one in finding.parts if one.follows and one.level == "within_noise"]
    return bool(_follows(finding)) and abs(math.fsum(unsure)) > 0.5 * abs(finding.delta_ns)


def _named(finding: Finding, prose: units.Prose) -> str:
    """A cause in a sentence: with what follows from it, or of kernels that replace others what got faster and what slower."""
    text = named(finding)
    if _with_consequence(finding):
        return f"{text} and {_consequence(finding)}"
    net = _net(finding, prose)
    return f"{text} ({net})" if net else text


def _with_consequence(finding: Finding) -> bool:
    return abs(_follows(finding)) > 0.1 * abs(finding.delta_ns)


def _consequence(finding: Finding) -> str:
    if finding.facts.counted_calls:
        return (
            "the host work that now overlaps with the GPU"
            if finding.delta_ns < 0
            else "the host work that they expose"
        )
    causes = {one.cause for one in finding.parts if one.follows}
    if not finding.cause.startswith("kernel") or "graph_internal" in causes:
        return "what follows"
    return "the launches that they save" if finding.delta_ns < 0 else "their launches"


def _plural(finding: Finding) -> bool:
    if _with_consequence(finding) or finding.facts.counted_calls:
        return True
    several = ("kernel_fused", "kernel_split", "kernel_added", "kernel_removed")
    slower = finding.cause == "kernel_time" and finding.facts.match != "replaced"  # `slower kernels add`
    one = finding.cause == f"kernel_{finding.facts.match}" and finding.facts.match in ("added", "removed")
    alone = one and len({part.where.kernel for part in finding.parts if not part.follows}) < 2
    return slower or (finding.cause in several and not alone)  # `the new kernel adds`


def _net(finding: Finding, prose: units.Prose) -> str:
    """`-22.1 us, but +20.8 us in mul and silu`; empty where nothing much goes against what the change is about."""
    own = [one for one in finding.parts if not one.follows]
    sizes: dict[str, float] = {}
    for one in own:
        name = spoken(one.where.kernel or "") or CAUSES[one.cause].name
        sizes[name] = sizes.get(name, 0.0) + one.delta_ns
    down, up = (math.fsum(size for size in sizes.values() if (size < 0) is less) for less in (True, False))
    if min(-down, up) <= _AGAINST * max(-down, up):
        return ""
    mine = next((one for one in own if one.cause == finding.cause), own[0])
    first, second = (up, down) if mine.delta_ns > 0 else (down, up)
    names = sorted((name for name in sizes if sizes[name] * second > 0), key=lambda name: -abs(sizes[name]))
    return f"{prose.signed(first)}, but {prose.signed(second)} in {joined(names)}"


def _largest_part(finding: Finding) -> float:
    """The size of a cause, or of the largest row that it nets, ns per step."""
    return max(
        abs(one) for one in (finding.delta_ns, *(row.delta_ns for row in finding.parts if not row.follows))
    )


def _category(key: str) -> str:
    return CAUSES[key].name if key in CAUSES else key
