"""What belongs to one cause: places that changed for one reason are one candidate, with their time together and each as a part.

| related | because |
| kernels of all phases | one is named after a kernel that the other holds too |
| kernels and what the host did in a range | the kernels that came or went are those of that range alone: a library does its work otherwise |
| a kernel that came or went alone | one of its kind went or came as often |
| waits for the GIL | one thread held it |
| host work, launch calls and latency | another number of synchronising calls in their range exposes or hides them |
| launching | another number of kernels, or of copies |
| launching and host work | kernels moved into or out of CUDA graphs |
| kernels and the gaps before them | they begin before the last one ends, or no longer do: only the sum of their times is one |

The same place in several phases, or in typical and in rare steps, is one cause as well: the phase of the verdict leads.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from msgspec.structs import replace

from tracediff.comparison.candidates import Candidate, as_often, of_launches, replacement
from tracediff.comparison.cells import STEP, PartName
from tracediff.comparison.places import LEVELS, Judgement, joined
from tracediff.comparison.structure import APART
from tracediff.model import CallFact, FindingPart, Kernels, Launch, Pair, PhaseDelta, Shares, StructureRow
from tracediff.model.causes import CAUSES, SURELY
from tracediff.stats.rules import LITTLE, MATERIAL, MOSTLY
from tracediff.trace.threads import beside

# Of the host, at most: an eager launch costs it 5 to 21 us, the Python before it included, and one launch is what a synchronising call exposes.
_LAUNCH_NS = 25_000
_KERNEL_CAUSES = ("kernel_time", "kernel_fused", "kernel_split", "kernel_added", "kernel_removed")
_NAMING = ("kernel_fused", "kernel_split")
# of the change of launches
_SIGN = {"kernel_added": 1, "kernel_removed": -1, "kernel_split": 1, "kernel_fused": -1}


def related(
    candidates: list[Candidate],
    launch: Launch,
    structure: Sequence[StructureRow],
    first: tuple[str, PartName],
) -> list[Candidate]:
    """One candidate for each cause, in order. `first`: the phase and the part of it that the first sentence is of."""
    judged = [one.judged for one in candidates]
    candidates = of_related_kernels(launched_early(candidates, structure))
    candidates = of_one_range(candidates, structure)
    candidates = launched_otherwise(candidates, launch)
    candidates = with_synchronisation(candidates, launch, structure)
    candidates = with_consequences(candidates, launch)
    candidates = of_one_holder(candidates)
    found = map(with_counts_of_all, merged(candidates, first, judged))

    def rank(one: Candidate) -> tuple[bool, bool, bool, tuple[float, float, str, str]]:
        """What is more than noise comes first; then what may be noise, in another phase than that of the verdict last; then what is not listed."""
        small = not one.sure and abs(one.interval[0]) < SURELY * one.judged.phase.step_ns
        return small, not one.sure, not one.sure and one.phase != first[0], order(one)

    return sorted(found, key=rank)


def order(one: Candidate) -> tuple[float, float, str, str]:
    """What took most time first; what may be noise goes before what is not where it is twice as large."""
    score = one.judged.score
    return (-score * (1.0 if one.sure else MOSTLY), -score, one.cause, repr(one.where))


def cancels(one: Candidate) -> bool:
    """Whether counted kernels change by much more than their sum says."""
    least = MATERIAL * one.judged.phase.step_ns
    return one.level == "exact" and any(abs(part.delta_ns) >= least for part in one.parts)


def united(main: Candidate, own: Sequence[Candidate] = (), followers: Sequence[Candidate] = ()) -> Candidate:
    """Several candidates of one part of one phase as one, called as `main` is. followers: what comes of the others."""
    if not own and not followers:
        return main
    judged = joined([one.judged for one in (main, *own, *followers)])
    level = min((one.level for one in (main, *own)), key=LEVELS.index)
    unsure = sum(one.judged.delta for one in followers if _doubtful(one))
    doubtful = abs(unsure) > MOSTLY * abs(judged.delta)  # its counts may be certain, its size is not
    if doubtful or level == "within_noise":
        # the time of all places together may be beyond noise, though that of none of them is
        least = MOSTLY * abs(judged.delta) if doubtful and not judged.leads else 0.0
        level = "likely" if judged.near >= max(least, SURELY * judged.phase.step_ns) else "within_noise"
    elif level != "exact" and not judged.clear:  # each of them is sure, and their sum is not
        level = "within_noise"
    parts = [part for one in sorted((main, *own), key=order) for part in one.as_parts()]
    parts += [part for one in sorted(followers, key=order) for part in one.as_parts(follows=True)]
    return replace(
        main,
        judged=judged,
        level=level,
        parts=tuple(parts),
        differs=any(one.differs for one in (main, *own)),
        idle=tuple(asked for one in (main, *own, *followers) for asked in one.idle),
        ops=main.ops.union(*(one.ops for one in (*own, *followers))),
        names=main.names.union(*(one.names for one in own)),
        leading=main.leading.union(*(one.leading for one in own)),
        key=main.key or main.judged.place,
        own=tuple(place for one in (main, *own) for place in one.own or (one.judged.place,)),
        follow=(*main.follow, *(one.judged.place for one in followers)),
    )


def _doubtful(one: Candidate) -> bool:
    """Whether what follows may not have moved; what is too small to be sure of is not held against a cause."""
    large = abs(one.judged.delta) >= SURELY * one.judged.phase.step_ns
    return not one.moved or (large and not one.sure)


def _gather(
    candidates: Iterable[Candidate],
    main: Candidate,
    own: Sequence[Candidate] = (),
    followers: Sequence[Candidate] = (),
    named: Candidate | None = None,
) -> list[Candidate]:
    """All candidates with `main`, or what it is called now, in the place of those that it takes in: `own`, whether it is one of them or not."""
    others = [one for one in own if one is not main]
    whole = united(named or main, others, followers)
    return [whole if one is main else one for one in candidates if one not in others and one not in followers]


def _typical(candidates: Iterable[Candidate], phase: str) -> list[Candidate]:
    """Those of the typical step of a phase, of all ranks."""
    return [
        one
        for one in candidates
        if (one.phase, one.judged.part) == (phase, "typical") and one.of_rank is None
    ]


def _parts_of_phases(candidates: Iterable[Candidate]) -> list[tuple[str, str]]:
    """Parts of phases, in order of their names."""
    return sorted({(one.phase, one.judged.part) for one in candidates})


# Kernels.


def of_related_kernels(candidates: list[Candidate]) -> list[Candidate]:
    """Kernels that changed for one reason are one candidate in each part of each phase, and have one key."""
    kernels = [one for one in candidates if one.cause in _KERNEL_CAUSES and one.judged.part == "typical"]
    changed = [one for one in kernels if one.sure or one.differs or one.cause in _NAMING]
    # launches that a kernel has more in one shape it may have fewer in another: only all of its rows tell
    rows = Counter((one.phase, one.ops) for one in kernels if one.ops)
    groups = _groups([one for one in kernels if one in changed or rows[one.phase, one.ops] > 1])
    key_of: dict[Any, str] = {}
    for number, group in enumerate(groups):
        for one in group:
            key_of[one.judged.place] = f"kernels {number}"
    marked = [replace(one, key=key_of.get(one.judged.place)) for one in candidates]
    out = marked
    for key in sorted(set(key_of.values())):
        for phase, part in _parts_of_phases(marked):
            mine = [one for one in marked if one.key == key and (one.phase, one.judged.part) == (phase, part)]
            if len(mine) > 1:
                out = [_renamed(one) for one in _gather(out, _naming(mine), mine)]
    return out


def _naming(mine: list[Candidate]) -> Candidate:
    """The one that kernels of one change are named after: a fusion or a split that is no small part, else what explains most."""
    large = MOSTLY * max(abs(one.judged.delta) for one in mine)
    known = [one for one in mine if one.cause in _NAMING and abs(one.judged.delta) >= large]
    return min(known or mine, key=order)


def _renamed(one: Candidate) -> Candidate:
    """A cause whose kernels replace each other is called so; one whose name came back with other arguments after the next."""
    replaced = replacement(one.parts) if one.key and one.cause not in _NAMING else None
    if not replaced:
        return _after_net(one) if one.key and one.cause not in _NAMING else one
    return _replaced(one, replaced)


def _replaced(one: Candidate, kernels: Kernels | None) -> Candidate:
    """A cause of kernels that others replace."""
    facts, where = replace(one.facts, match="replaced"), replace(one.where, kernels=kernels)
    return replace(one, cause="kernel_time", facts=facts, where=where, count=None)


def _after_net(one: Candidate) -> Candidate:
    """Named after the kernel that changed most with all rows of its name together."""
    net: dict[Kernels | None, float] = {}
    for part in one.parts:
        net[part.where.kernels] = net.get(part.where.kernels, 0.0) + part.delta_ns
    largest = max(one.parts, key=lambda part: abs(net[part.where.kernels]), default=None)
    mine = [abs(part.delta_ns) for part in one.parts if part.where.kernels == one.where.kernels]
    if largest is None or abs(net.get(one.where.kernels, 0.0)) >= MOSTLY * max(mine, default=0.0):
        return one
    return replace(
        one,
        cause=largest.cause,
        where=replace(one.where, kernels=largest.where.kernels),
        facts=replace(one.facts, match=largest.match),
        count=(largest.count_baseline or 0.0, largest.count_candidate or 0.0),
    )


def _groups(changed: list[Candidate]) -> list[list[Candidate]]:
    """Candidates that are related, directly or through others."""
    left, groups = list(changed), []
    while left:
        group = [left.pop(0)]
        for one in group:  # it grows
            more = [other for other in left if _same_change(one, other)]
            left = [other for other in left if other not in more]
            group += more
        groups.append(group)
    return groups


def with_counts_of_all(one: Candidate) -> Candidate:
    """Kernels that changed together, with the counts of all of them."""
    every = [part for part in one.parts if not part.follows]
    rows = [part for part in every if _gain(part)]
    known = one.facts.match == "replaced" or one.facts.launched  # that has the count of its range
    if one.cause not in _KERNEL_CAUSES or known or len(rows) < 2:
        return one
    # a fusion and a split have the launches that they changed, a group of kernels those of all its kernels
    named = one.cause in _NAMING
    before, after = _launches(rows if named else every)
    return _block_of(one, every, before, after) if named else _group_of(one, every, before, after)


def _group_of(one: Candidate, every: Sequence[FindingPart], before: float, after: float) -> Candidate:
    """Kernels with their launches; of which some came, and as many or more of others went: of one kernel in other shapes, of one template, or of several.

    Kernels that together take another time for being launched more or less often, rather than for longer or less, are so many more or fewer.
    """
    judged = one.judged
    along = bool(before) and (after - before) * judged.delta > 0
    if along and one.cause in ("kernel_time", "kernel_added", "kernel_removed"):
        means = judged.baseline / before, judged.candidate / (after or 1.0)
        called = of_launches([((before, after), means)])
        if "kernel_time" in (one.cause, called):  # more of some and fewer of others are neither
            one = replace(one, cause=called)
    if one.cause not in _SIGN or (after - before) * _SIGN[one.cause] > 0:
        both = before and after  # together they are neither new nor gone
        return replace(one, count=(before, after), facts=replace(one.facts, match="") if both else one.facts)
    facts = replace(one.facts, match="mixed")
    if len({name for part in every for name in part.where.called}) == 1:
        facts = replace(
            one.facts,
            match="name" if len(one.ops) == 1 else "template",
            baseline_mean_ns=one.judged.baseline / before,
            candidate_mean_ns=one.judged.candidate / after,
        )
    return replace(one, cause="kernel_time", facts=facts, count=(before, after))


def _block_of(one: Candidate, every: Sequence[FindingPart], before: float, after: float) -> Candidate:
    """A fusion or a split with its launches; one with more launches, or fewer, is none."""
    if abs(after - before) <= LITTLE * max(before, after):  # so many more or fewer explain nothing
        return _replaced(one, replacement(every) or one.where.kernels)
    changed = after - before
    own = sum(_gain(part) for part in every if part.cause == one.cause)
    # most of the launches that changed; where others have them, the step launches more or fewer of many kernels
    if changed * _SIGN[one.cause] > 0 and own / changed >= MOSTLY:
        return replace(one, count=(before, after))
    if replaced := replacement(every):
        return _replaced(one, replaced)
    most = max(every, key=lambda part: (part.delta_ns * one.judged.delta, part.where.called))
    facts, where = replace(one.facts, match=""), replace(one.where, kernels=most.where.kernels)
    if _gain(most) * changed > 0 and changed * one.judged.delta > 0:
        cause = "kernel_added" if changed > 0 else "kernel_removed"
        return replace(one, cause=cause, where=where, facts=facts, count=(before, after))
    # the number of launches is not what changed the time: a kernel of both sides takes another, or others do its work
    count = most.count_baseline or 0.0, most.count_candidate or 0.0
    if not all(count):
        facts, count = replace(facts, match="mixed"), (before, after)
    return replace(one, cause="kernel_time", where=where, facts=facts, count=count)


def _launches(parts: Sequence[FindingPart]) -> tuple[float, float]:
    """Launches per step of each side."""
    both = [(part.count_baseline or 0.0, part.count_candidate or 0.0) for part in parts]
    return sum(before for before, _ in both), sum(after for _, after in both)


def _gain(part: FindingPart) -> float:
    """Launches per step that the candidate has more."""
    return (part.count_candidate or 0.0) - (part.count_baseline or 0.0)


def _same_change(one: Candidate, other: Candidate) -> bool:
    if one.leading & other.names or other.leading & one.names:
        return True
    if _swapped(one, other):
        return True
    # libraries name kernels of other shapes otherwise
    alike = one.cause == other.cause and one.cause in _NAMING and one.phase != other.phase
    return alike and one.kinds == other.kinds


def _swapped(one: Candidate, other: Candidate) -> bool:
    """Whether of two kernels of one kind one is new and the other gone, launched about as often."""
    if one.phase != other.phase or one.kinds != other.kinds or "other" in one.kinds:
        return False
    (gone, came), (went, new) = one.count or (0.0, 0.0), other.count or (0.0, 0.0)
    pairs = [(gone, new)] * (came == went == 0) + [(came, went)] * (gone == new == 0)
    return any(as_often(*pair) for pair in pairs)


def launched_early(candidates: list[Candidate], structure: Sequence[StructureRow]) -> list[Candidate]:
    """Kernels that begin before the last one ends on one side alone are one cause, with the gaps between them.

    Their times overlap, and recorders cut them at each other's ends: what one gains by that the next one loses.
    """
    out = candidates
    for row in structure:
        if row.kind != "early" or not row.baseline_of or not row.candidate_of:
            continue
        mine = _typical(out, row.phase)
        own = [one for one in mine if one.cause == "kernel_time" and not one.differs]
        if not own:
            continue
        shares = Shares(row.baseline / row.baseline_of, row.candidate / row.candidate_of)
        change = row.candidate - row.baseline
        gaps = [
            one
            for one in mine
            if (one.cause == "graph_internal" or (one.cause == "dependency" and one.moved))
            and one.judged.delta * change < 0
        ]
        main = min(own, key=order)
        where = replace(main.where, kernels=None, layer=None)
        named = replace(
            main,
            where=where,
            facts=main.with_facts(early=shares),
            parts=main.as_parts(),
            count=None,
            key="early",
        )
        out = _gather(out, main, own, gaps, named)
    return out


def of_one_range(candidates: list[Candidate], structure: Sequence[StructureRow]) -> list[Candidate]:
    """Where the kernels of one range came or went, and no others, they are one cause with what the host did there, called by the range.

    A fused optimizer or attention is one, and so is what a program does more in it.
    """
    out = candidates
    for phase in sorted({one.phase for one in candidates}):
        rows = [row for row in structure if row.kind == "kernels" and row.phase == phase and row.range]
        mine = _typical(out, phase)
        own = [one for one in mine if one.cause in _KERNEL_CAUSES and one.differs]
        if len(rows) != 1 or rows[0].whole or not own:
            continue
        (row,) = rows
        change = row.candidate - row.baseline
        if abs(sum(map(_more, own)) - change) > MOSTLY:
            continue
        calls = [other for other in structure if (other.kind, other.phase) == ("synchronisations", phase)]
        waits = any(one.cause == "host_sync" and one.moved and one.where.range == row.range for one in mine)
        # a kernel beside 26 such calls: what the host did there follows from these
        if waits and any(_rises_as_much(other, row) for other in calls):
            continue
        followers = [
            one
            for one in mine
            if one.where.range == row.range
            and one.moved
            and "kernels" in CAUSES[one.cause].follows
            and 0 < one.judged.delta / change <= _LAUNCH_NS
        ]
        main = _naming(own)
        called = main.cause in _NAMING or main.facts.match == "replaced"
        if not called and sum(one.judged.delta for one in own) * change < 0:
            continue  # fewer take longer: which are launched is not what changed the time
        named = replace(
            main,
            cause=main.cause if called else "kernel_added" if change > 0 else "kernel_removed",
            where=replace(main.where, range=row.range),
            facts=main.with_facts(launched=CallFact("kernels", row.baseline, row.candidate)),
            count=(row.baseline, row.candidate),
            parts=main.as_parts() if followers or len(own) > 1 else main.parts,  # with its own count
        )
        out = _gather(out, main, own, followers, named)
    return out


def with_consequences(candidates: list[Candidate], launch: Launch) -> list[Candidate]:
    """Launch calls and gaps of graphs that moved with the number of kernels belong to the kernels that explain most.

    Where these have less than half of the launches that changed, they belong to all kernels that have some of them. Collectives, most of whose
    time is waiting, explain the gaps where nothing else does.
    """
    out = candidates
    for of in launch.by_phase:
        mine = [one for one in out if (one.phase, one.judged.part) == (of.phase, "typical")]
        out = _with_consequences(out, mine, abs(of.candidate.calls_per_step - of.baseline.calls_per_step))
    return out


def _with_consequences(candidates: list[Candidate], mine: list[Candidate], calls: float) -> list[Candidate]:
    """Those of the typical step of a phase. calls: how many launch calls it has more, or fewer."""
    every = [one for one in mine if (one.sure or one.differs) and one.where.kernels and _more(one)]
    kernels = [one for one in every if one.cause != "comm"]
    own = kernels or every
    if not own:
        return candidates
    change = sum(_more(one) for one in own)
    eager = min(abs(change), calls)  # the others are nodes of graphs
    copied = [abs(one.judged.delta) for one in own if one.cause == "memcpy"]
    launching = {one.where.range for one in mine if one.cause == "launch_api"}
    followers = [
        one
        for one in mine
        if one not in own
        and (one.moved or (copied and one.cause == "graph_internal"))
        and one.of_rank is None
        and (kernels or one.cause == "graph_internal")
        and _follows(one, change, _LAUNCH_NS * eager, launching, copied)
    ]
    main = min(own, key=order)
    copying = [one.where.range for one in sorted(followers, key=order) if one.facts.copies]
    named = main
    if main.cause == "memcpy" and copying:  # who copies is known from its calls
        named = replace(main, where=replace(main.where, range=copying[0]))
    shared = main.cause in _KERNEL_CAUSES and abs(_more(main)) < MOSTLY * abs(change)
    others = [one for one in own if one.cause in _KERNEL_CAUSES and _more(one) * change > 0]
    return _gather(candidates, main, others if shared and followers else [], followers, named)


def _more(one: Candidate) -> float:
    """Ops per step that the candidate launches more."""
    rows = [part for part in one.parts if not part.follows]
    if rows:
        return sum(map(_gain, rows))
    return one.count[1] - one.count[0] if one.count else 0.0


def _follows(
    one: Candidate, change: float, most: float, launching: AbstractSet[str | None], copied: list[float]
) -> bool:
    """Whether it follows from `change` more ops per step. copied: what copies among them take."""
    delta = one.judged.delta
    between_nodes = one.cause == "graph_internal"
    if copied and (one.facts.copies or between_nodes):
        # copies cost their own calls, and fill gaps that a graph left between its nodes: no more of these than they take
        return delta * change > 0 or (between_nodes and abs(delta) <= sum(copied))
    if "kernels" not in CAUSES[one.cause].follows or delta * change <= 0:
        return False
    if between_nodes:
        return True
    place = one.where.range or ""
    near = any(one in launching for one in beside(place) or [place])
    return abs(delta) <= most and near


# The host.


def with_synchronisation(
    candidates: list[Candidate], launch: Launch, structure: Sequence[StructureRow]
) -> list[Candidate]:
    """More (or fewer) synchronising calls per step expose (or hide) what the host does in their place.

    After each such call the GPU is empty: the next launch, its latency and the host work before it are idle time that was hidden
    before. So those follow from the calls, where they moved the same way in the same range. With half the calls or fewer the host
    may run ahead of the GPU for good, so that any time of it may be hidden: no more than a step of the side with fewer of the calls. Where
    the range launches as many times more kernels, and no fewer than calls, its host does more: nothing was hidden.
    """
    of_phases = {one.phase: one for one in launch.by_phase}
    out = candidates
    for phase, part in _parts_of_phases(candidates):
        own = of_phases[phase]
        before, after = own.baseline.syncs_per_step, own.candidate.syncs_per_step
        calls = {row.api: (row.baseline_calls, row.candidate_calls) for row in own.apis if row.kind == "sync"}
        for row in structure:  # of a process with several devices those are per step of a device
            if (row.kind, row.phase, row.rank) == ("synchronisations", phase, None) and row.name in calls:
                (one, other), calls[row.name] = calls[row.name], (row.baseline, row.candidate)
                before, after = before + row.baseline - one, after + row.candidate - other
        mine = [one for one in out if (one.phase, one.judged.part) == (phase, part) and one.of_rank is None]
        syncs = [
            one
            for one in mine
            if one.cause == "host_sync"
            and one.judged.delta * (after - before) > 0
            # a place whose function is called as often as before has no other number of them
            and ((one.where.api or "") not in calls or _changed_calls(calls, one.where.api, after - before))
        ]
        if abs(after - before) < MOSTLY or not syncs:
            continue
        main = min(syncs, key=order)
        launched = (row for row in structure if row.kind == "kernels" and row.range == main.where.range)
        followers = []
        if not any(row.phase == phase and _as_much_more(row, before, after) for row in launched):
            followers = [one for one in mine if one not in syncs and _hidden_by(one, main, before, after)]
        named = _with_calls(main, calls, (before, after))
        out = _gather(out, main, followers=followers, named=named)
    return out


def _hidden_by(one: Candidate, main: Candidate, before: float, after: float) -> bool:
    """Whether a cause may be what synchronising calls beside it expose or hide. `before`, `after`: such calls per step."""
    steps = main.judged.phase.part(main.judged.part).estimate
    hidden_in = float((steps.baseline if after > before else steps.candidate)[STEP])
    fewer = max(before, after) >= 2 * min(before, after)
    return (
        (one.where.range, one.where.thread) == (main.where.range, main.where.thread)
        and "syncs" in CAUSES[one.cause].follows
        and one.judged.delta * main.judged.delta > 0
        and abs(one.judged.delta) <= (hidden_in if fewer else _LAUNCH_NS * abs(after - before))
    )


def _with_calls(
    main: Candidate, calls: Mapping[str, tuple[float, float]], every: tuple[float, float]
) -> Candidate:
    """A cause with the number of its synchronising calls. `calls`: per step of each function, `every`: of all.

    They are counted by function, not by place: the waits of the place are its calls where as many came or went, and where it has no
    others, as those of synchronous copies.
    """
    changed = [api for api, (one, other) in calls.items() if abs(other - one) >= MOSTLY]
    count = every
    if changed:
        count = sum(calls[name][0] for name in changed), sum(calls[name][1] for name in changed)
    if main.count and main.count[0] - count[0] < MOSTLY:
        more = count[1] - count[0]
        alike = abs(main.count[1] - main.count[0] - more) <= LITTLE * abs(more)
        count = main.count if alike else count
    api = changed[0] if len(changed) == 1 else None
    where = replace(main.where, api=api, other_calls=False)
    return replace(main, count=count, where=where, facts=main.with_facts(counted_calls=True))


def _as_much_more(row: StructureRow, before: float, after: float) -> bool:
    """Whether a count grew or fell by as large a factor, and as far, as another one did, from `before` to `after`."""
    counts, change = (row.baseline, row.candidate), row.candidate - row.baseline
    along = change * (after - before) > 0 and abs(change) >= abs(after - before)
    return along and max(counts) * min(before, after) >= min(counts) * max(before, after)


def _rises_as_much(one: StructureRow, other: StructureRow) -> bool:
    """Whether a count grew or fell as far as another one did, the same way."""
    change, least = one.candidate - one.baseline, other.candidate - other.baseline
    return change * least > 0 and abs(change) >= abs(least)


def _changed_calls(calls: dict[str, tuple[float, float]], api: str | None, change: float) -> bool:
    """Whether the function is called more (or less) often, as all of them together are."""
    before, after = calls[api or ""]
    return abs(after - before) >= MOSTLY and (after - before) * change > 0


def of_one_holder(candidates: list[Candidate]) -> list[Candidate]:
    """Waits for the GIL that one thread held, wherever it was, are one cause."""
    waits = [
        one
        for one in candidates
        if one.cause == "gil_wait" and one.where.holder_thread and one.of_rank is None
    ]
    groups: dict[tuple[str | None, ...], list[Candidate]] = {}
    for one in waits:
        groups.setdefault((one.phase, one.judged.part, one.where.thread, one.where.holder_thread), []).append(
            one
        )
    out = candidates
    for group in groups.values():
        main = min(group, key=order)
        out = _gather(out, main, [one for one in group if one.judged.delta * main.judged.delta > 0])
    return out


def launched_otherwise(candidates: list[Candidate], launch: Launch) -> list[Candidate]:
    """Kernels moved into or out of CUDA graphs: launching, and the host in the ranges that launch, are one cause.

    It comes before what they might follow from: synchronisations that came along expose no launch calls, a fusion saves none. Not where something else explains more.
    """
    if _in_graphs_now(launch) < APART:
        return candidates
    before, after = launch.baseline.graph_coverage, launch.candidate.graph_coverage
    out = candidates
    for phase in sorted({one.phase for one in candidates}):
        mine = _typical(out, phase)
        places = {one.where.range for one in mine if one.cause == "launch_api"}
        group = [one for one in mine if "graphs" in CAUSES[one.cause].follows and one.where.range in places]
        together = sum(one.judged.delta for one in group)
        if not group or any(abs(one.judged.delta) > abs(together) for one in mine if one not in group):
            continue
        main = max(group, key=lambda one: abs(one.judged.delta))
        marked = replace(main, facts=main.with_facts(graph_coverage=Shares(before, after)), key="graphs")
        out = _gather(out, main, group, named=marked)
    return out


def _in_graphs_now(launch: Launch) -> float:
    """The part of the kernels that moved into CUDA graphs or out of them: there are more of one kind for fewer of the other."""
    sides = (launch.baseline, launch.candidate)
    inside = [one.kernels_per_step * one.graph_coverage for one in sides]
    alone = [one.kernels_per_step * (1 - one.graph_coverage) for one in sides]
    gained, lost = inside[1] - inside[0], alone[0] - alone[1]
    most = max(one.kernels_per_step for one in sides)
    return min(abs(gained), abs(lost)) / most if gained * lost > 0 else 0.0


def loading_code(
    candidates: list[Candidate], structure: Sequence[StructureRow], launch: Launch
) -> list[Candidate]:
    """Where one side loads code in every step, that is what its largest host work along it is about."""
    out = list(candidates)
    for row in structure:
        if row.kind != "code_loads":
            continue
        more = row.candidate - row.baseline
        at = next(
            (
                at
                for at, one in enumerate(out)
                if one.cause in ("host_work", "host_api")
                and one.phase == row.phase
                and one.judged.delta * more > 0
                and (one.where.thread == row.thread or not row.thread)
            ),
            None,
        )
        if at is not None and out[at].facts.code_loads is None:
            calls = [
                (one.baseline_calls, one.baseline_ns) if more < 0 else (one.candidate_calls, one.candidate_ns)
                for one in launch.apis
                if one.api == row.name
            ]
            each = [ns / count for count, ns in calls if count]
            fact = CallFact(row.name, row.baseline, row.candidate, each[0] if each else None)
            out[at] = replace(out[at], facts=out[at].with_facts(code_loads=fact))
    return out


def synchronising(
    candidates: list[Candidate], structure: Sequence[StructureRow], waits: Mapping[tuple[str, str], float]
) -> list[Candidate]:
    """A range that launches other kernels synchronises otherwise as well, where the GPU waits for that there: `waits`, by phase and range."""
    called = {row.phase: row for row in structure if row.kind == "synchronisations"}
    told = {(one.phase, one.where.range) for one in candidates if one.facts.counted_calls}  # as a cause
    out = []
    for one in candidates:
        alone = one.facts.launched and (one.phase, one.where.range) not in told
        row = called.get(one.phase) if alone else None
        change = waits.get((one.phase, one.where.range or ""), 0.0)
        if row and change * (row.candidate - row.baseline) > 0:
            fact = CallFact(row.name, row.baseline, row.candidate)
            one = replace(one, facts=one.with_facts(synchronised=fact))
        out.append(one)
    return out


def beside_other_work(
    candidates: list[Candidate], structure: Sequence[StructureRow], launch: Launch
) -> list[Candidate]:
    """Ops that lost or won their overlap with others, with the streams per step where their number changed; else with the call that keeps the host from launching beside them."""
    streams = {
        row.phase: CallFact("streams", row.baseline, row.candidate)
        for row in structure
        if row.kind == "streams"
    }
    calls = [row for row in launch.apis if row.kind == "other"]

    def known(one: Candidate) -> Candidate:
        if not one.facts.overlap:
            return one
        if one.phase in streams:
            return replace(one, facts=one.with_facts(streams=streams[one.phase]))
        way = math.copysign(1.0, one.judged.delta)
        slow = max(calls, key=lambda row: way * row.delta_ns, default=None)
        if slow and way * slow.delta_ns >= MOSTLY * abs(one.judged.delta) > 0:
            return replace(one, facts=one.with_facts(slow_call=slow))
        return one

    return [known(one) for one in candidates]


def sized(candidates: list[Candidate], structure: Sequence[StructureRow]) -> list[Candidate]:
    """Copies that are as many as they were, with their bytes per step where these differ."""
    rows = [row for row in structure if row.kind == "copies" and row.baseline == row.candidate]
    sizes = {
        (row.phase, row.name): Pair(round(row.baseline_bytes), round(row.candidate_bytes))
        for row in rows
        if row.baseline_bytes is not None and row.candidate_bytes not in (None, row.baseline_bytes)
    }
    return [
        replace(
            one, facts=one.with_facts(copied_bytes=sizes.get((one.phase, next(iter(one.where.called), ""))))
        )
        if one.cause == "memcpy"
        else one
        for one in candidates
    ]


def in_graphs(candidates: list[Candidate], structure: Sequence[StructureRow]) -> list[Candidate]:
    """What CUDA graphs launch in each step of the phase, where that is a fact; else it is the part in the mean of all steps."""
    parts = {
        row.phase: Shares(row.baseline / row.baseline_of, row.candidate / row.candidate_of)
        for row in structure
        if row.kind == "graph_kernels" and row.baseline_of and row.candidate_of
    }
    return [
        replace(one, facts=one.with_facts(graph_coverage=parts[one.phase]))
        if one.facts.graph_coverage and one.phase in parts
        else one
        for one in candidates
    ]


# Phases.


def merged(
    candidates: list[Candidate], first: tuple[str, PartName], judged: Sequence[Judgement]
) -> list[Candidate]:
    """One candidate for each cause: in the step of the first sentence where it has more than little of its change, else where it is surest.

    judged: every place alone.
    """
    # what belongs to a cause in the typical step does so in the mean and in rare steps of the phase
    least_first = sorted(candidates, key=order, reverse=True)
    own = {(one.phase, place): one.key for one in least_first for place in one.own}
    follow = {(one.phase, place): one.key for one in least_first for place in one.follow}
    by_cause: dict[Any, dict[tuple[str, PartName], list[Candidate]]] = {}
    for one in candidates:
        at = one.phase, one.judged.place
        # what may not have moved there follows from nothing
        key = one.key or own.get(at) or (follow.get(at) if one.moved else None) or one.judged.place
        by_cause.setdefault(key, {}).setdefault((one.phase, one.judged.part), []).append(one)
    out = []
    for parts in by_cause.values():
        group = [_as_typical(rows, parts.get((phase, "typical"), [])) for (phase, _), rows in parts.items()]
        group.sort(
            key=lambda one: (
                _place_of(one) != first or not _carries(one), not one.sure, _place_of(one) != first, one.phase != first[0], order(one),
            )
        )  # fmt: skip
        lead = group[0]
        rest = [_elsewhere(lead, one, judged) for one in group if one is not lead]
        out.append(replace(lead, elsewhere=tuple(rest)))
    return out


def _elsewhere(lead: Candidate, one: Candidate, judged: Sequence[Judgement]) -> PhaseDelta:
    """What a cause changed in another phase, or its own places in another part of its phase: there other places may follow from it."""
    part, cells = one.judged.part, frozenset(lead.judged.place.cells)
    same = [
        row
        for row in judged
        if (row.phase.steps.phase, row.part) == (lead.phase, part) and cells.issuperset(row.place.cells)
    ]
    if one.phase != lead.phase or cells == frozenset(one.judged.place.cells) or not same:
        return PhaseDelta(one.phase, part, *one.interval, one.level)
    whole = joined(same)
    level = min(
        (row.level for row in same if row.place not in lead.follow), key=LEVELS.index, default=one.level
    )
    return PhaseDelta(one.phase, part, whole.delta, whole.low, whole.high, level)


def _carries(one: Candidate) -> bool:
    """Whether it has more than little of the change of its step."""
    change = float(one.judged.phase.part(one.judged.part).estimate.delta[0])
    return abs(one.judged.delta) >= LITTLE * abs(change) and one.judged.delta * change > 0


def _place_of(one: Candidate) -> tuple[str, PartName]:
    return one.phase, one.judged.part


def _as_typical(rows: Sequence[Candidate], typical: Sequence[Candidate]) -> Candidate:
    """Candidates of one cause in one part of a phase as one: the mean step's named and put together as the typical step's is, where it has much of it."""
    first, *others = sorted(rows, key=order)
    if first.judged.part != "mean" or not typical:
        return united(first, others)
    model = min(typical, key=order)
    followers = [one for one in (first, *others) if one.judged.place in model.follow]
    own = [one for one in (first, *others) if one not in followers] or followers
    whole = united(own[0], own[1:], [one for one in followers if one not in own])
    if any(one.facts.rare for one in rows):
        return whole
    return replace(
        model, judged=whole.judged, level=whole.level, parts=whole.parts, idle=whole.idle, ops=whole.ops
    )
