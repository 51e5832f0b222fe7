"""What belongs to one cause: places that changed for one reason are one candidate, with their time together and each as a part.

| related | because |
| kernels of all phases | one is named after a kernel that the other holds too |
| a kernel that came or went alone | a block of the same phase replaces kernels of its kind |
| waits for the GIL | one thread held it |
| host work, launch calls and latency | another number of synchronising calls in their range exposes or hides them |
| launching | another number of kernels, or of copies |
| launching and host work | kernels moved into or out of CUDA graphs |

The same place in several phases, or in typical and in rare steps, is one cause as well: the phase of the verdict leads.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any

import msgspec

from tracediff.comparison.candidates import SIDES, Candidate, replacement
from tracediff.comparison.places import FEW, LARGE, LEVELS, MATERIAL, STRICT, Judgement, joined
from tracediff.comparison.verdict import MOVED
from tracediff.kernels.categories import category
from tracediff.model import Evidence, Launch, PhaseDelta, Shares
from tracediff.model.causes import CAUSES
from tracediff.trace.ranges import beside

_AFTER_SYNC_NS = 60_000  # host work, launch and latency that one synchronising call exposes, at most
_LAUNCH_NS = 20_000  # an eager launch costs the host 5 to 20 us
_NODE_NS = 5_000  # between two nodes of a graph
_KERNEL_CAUSES = ("kernel_time", "kernel_fused", "kernel_split", "kernel_added", "kernel_removed")
_NAMING = ("kernel_fused", "kernel_split")


def related(candidates: list[Candidate], launch: Launch, first: str) -> list[Candidate]:
    """One candidate for each cause, in order. `first`: the phase of the verdict."""
    candidates = of_related_kernels(candidates)
    candidates = with_synchronisation(candidates, launch)
    candidates = with_consequences(candidates)
    candidates = of_one_holder(candidates)
    candidates = launched_otherwise(candidates, launch)
    return sorted(merged(candidates, first), key=order)


def order(one: Candidate) -> tuple[bool, float, float, str, str]:
    """What is more than noise first, of it what explains most; of what may all be noise the largest."""
    return (
        one.level == "within_noise",
        -one.explained,
        -abs(one.judged.delta) * one.judged.phase.steps.share,
        one.cause,
        repr(one.where),
    )


def cancels(one: Candidate) -> bool:
    """Whether counted kernels change by much more than their sum says."""
    least = MATERIAL * one.judged.phase.step_ns
    return one.level == "exact" and any(abs(part.delta_ns) >= least for part in one.parts)


def united(main: Candidate, own: Sequence[Candidate] = (), followers: Sequence[Candidate] = ()) -> Candidate:
    """Several candidates of one part of one phase as one, called as `main` is. followers: what comes of the others."""
    if not own and not followers:
        return main
    judged = joined([one.judged for one in (main, *own, *followers)])
    level = min((*(one.level for one in (main, *own)), _level_of(judged)), key=LEVELS.index)
    unsure = sum(one.judged.delta for one in followers if not one.sure)
    if level in ("exact", "confirmed") and abs(unsure) > 0.5 * abs(judged.delta):
        level = "likely"
    parts = [part for one in sorted((main, *own), key=order) for part in one.as_parts()]
    parts += [part for one in sorted(followers, key=order) for part in one.as_parts(follows=True)]
    return replace(
        main,
        judged=judged,
        level=level,
        parts=tuple(parts),
        explained=max(judged.score, main.explained),
        differs=any(one.differs for one in (main, *own)),
        names=main.names.union(*(one.names for one in own)),
        leading=main.leading.union(*(one.leading for one in own)),
        key=main.key or main.judged.place,
        follow=(*main.follow, *(one.judged.place for one in followers)),
    )


def _level_of(judged: Judgement) -> Evidence:
    """Likely where the time of all places together is beyond noise, though that of none of them is."""
    few = (
        min(judged.phase.runs) < FEW
        and judged.p < STRICT
        and abs(judged.delta) >= LARGE * judged.phase.step_ns
    )
    clear = judged.phase.steps.judged and (few or abs(judged.delta) > judged.wide)
    return "likely" if clear else "within_noise"


def _gather(
    candidates: Iterable[Candidate],
    main: Candidate,
    own: Sequence[Candidate] = (),
    followers: Sequence[Candidate] = (),
) -> list[Candidate]:
    """All candidates with `main` in the place of those that it takes in."""
    whole = united(main, own, followers)
    if main.moved and not whole.moved and main.level != "exact":
        return list(candidates)  # together they say less than alone
    return [whole if one is main else one for one in candidates if one not in own and one not in followers]


def _parts_of_phases(candidates: Iterable[Candidate]) -> list[tuple[str, str]]:
    """Parts of phases, in order of their names."""
    return sorted({(one.phase, one.judged.part) for one in candidates})


# Kernels.


def of_related_kernels(candidates: list[Candidate]) -> list[Candidate]:
    """Kernels that changed for one reason are one candidate in each part of each phase, and have one key."""
    changed = [
        one for one in candidates if one.cause in _KERNEL_CAUSES and one.sure and one.judged.part == "typical"
    ]
    groups = _groups(changed)
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
                main = _naming(mine)
                out = [_renamed(one) for one in _gather(out, main, [one for one in mine if one is not main])]
    return out


def _naming(mine: list[Candidate]) -> Candidate:
    """The one that kernels of one change are named after: a fusion or a split that is no small part, else what explains most."""
    large = 0.5 * max(abs(one.judged.delta) for one in mine)
    known = [one for one in mine if one.cause in _NAMING and abs(one.judged.delta) >= large]
    return min(known or mine, key=order)


def _renamed(one: Candidate) -> Candidate:
    """A cause whose kernels replace each other is called so; one whose name came back with other arguments after the next."""
    replaced = replacement(one.parts) if one.key and one.cause not in _NAMING else ""
    if not replaced:
        return _after_net(one) if one.key and one.cause not in _NAMING else one
    facts = msgspec.structs.replace(one.facts, match="replaced")
    return replace(
        one,
        cause="kernel_time",
        facts=facts,
        count=None,
        where=msgspec.structs.replace(one.where, kernel=replaced),
    )


def _after_net(one: Candidate) -> Candidate:
    """Named after the kernel that changed most with all rows of its name together."""
    net: dict[str | None, float] = {}
    for part in one.parts:
        net[part.where.kernel] = net.get(part.where.kernel, 0.0) + part.delta_ns
    largest = max(one.parts, key=lambda part: abs(net[part.where.kernel]), default=None)
    mine = [abs(part.delta_ns) for part in one.parts if part.where.kernel == one.where.kernel]
    if largest is None or abs(net.get(one.where.kernel, 0.0)) >= 0.5 * max(mine, default=0.0):
        return one
    return replace(
        one,
        cause=largest.cause,
        where=msgspec.structs.replace(one.where, kernel=largest.where.kernel),
        facts=msgspec.structs.replace(one.facts, match=largest.match),
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


def _same_change(one: Candidate, other: Candidate) -> bool:
    if one.leading & other.names or other.leading & one.names:
        return True
    return one.phase == other.phase and (_belongs(one, other) or _belongs(other, one))


def _belongs(lone: Candidate, block: Candidate) -> bool:
    """Whether a kernel that came or went alone is of a kind that came or went in a block that replaces kernels."""
    if lone.count is None or block.facts.match != "replaced" or 0 not in lone.count:
        return False
    side = lone.count.index(0)
    kinds = {
        category((part.where.kernel or "").split(" + ")[0])
        for part in block.parts
        if (part.count_baseline, part.count_candidate)[side] == 0
    }
    return category((lone.where.kernel or "").split(" + ")[0]) in kinds


def with_consequences(candidates: list[Candidate]) -> list[Candidate]:
    """Launch calls and gaps of graphs that moved with the number of kernels belong to the kernels that explain most."""
    out = candidates
    for phase in sorted({one.phase for one in candidates}):
        mine = [one for one in out if (one.phase, one.judged.part) == (phase, "typical")]
        own = [
            one
            for one in mine
            if (one.sure or one.differs) and one.where.kernel and one.cause != "comm" and _more(one)
        ]
        if not own:
            continue
        change = sum(_more(one) for one in own)
        ops = sum(_before(one) for one in mine if one.where.kernel)
        copies = any(one.cause == "memcpy" for one in own)
        launching = {one.where.range for one in mine if one.cause == "launch_api"}
        followers = [
            one
            for one in mine
            if one not in own
            and one.moved
            and one.of_rank is None
            and _follows(one, change, ops, launching, copies=copies)
        ]
        main = min(own, key=order)
        calls = [one.where.range for one in sorted(followers, key=order) if one.facts.copies]
        if main.cause == "memcpy" and calls:  # who copies is known from its calls
            here = replace(main, where=msgspec.structs.replace(main.where, range=calls[0]))
            out = [here if one is main else one for one in out]
            main = here
        out = _gather(out, main, followers=followers)
    return out


def _more(one: Candidate) -> float:
    """Ops per step that the candidate launches more."""
    rows = [part for part in one.parts if not part.follows]
    if rows:
        return sum((part.count_candidate or 0.0) - (part.count_baseline or 0.0) for part in rows)
    return one.count[1] - one.count[0] if one.count else 0.0


def _before(one: Candidate) -> float:
    """Ops per step of the baseline."""
    if one.parts:
        return sum(part.count_baseline or 0.0 for part in one.parts if not part.follows)
    return one.count[0] if one.count else 0.0


def _follows(
    one: Candidate, change: float, ops: float, launching: AbstractSet[str | None], *, copies: bool
) -> bool:
    delta = one.judged.delta
    between_nodes = one.cause == "graph_internal"
    if copies and (one.facts.copies or between_nodes):
        return (
            delta * change > 0 or between_nodes
        )  # copies cost their own calls, and fill gaps that a graph left between its nodes
    if "kernels" not in CAUSES[one.cause].follows or delta * change <= 0:
        return False
    if between_nodes:
        return abs(delta) <= _NODE_NS * abs(change)
    place = one.where.range or ""
    near = any(one in launching for one in beside(place) or [place])
    return ops > 0 and abs(delta) <= _LAUNCH_NS * abs(change) and near


# The host.


def with_synchronisation(candidates: list[Candidate], launch: Launch) -> list[Candidate]:
    """More (or fewer) synchronising calls per step expose (or hide) what the host does in their place.

    After each such call the GPU is empty: the next launch, its latency and the host work before it are idle time that was hidden
    before. So those follow from the calls, where they moved the same way in the same range. With half the calls or fewer the host
    may run ahead of the GPU for good, so that any time of it may be hidden.
    """
    typical = {one.phase: (one.baseline.syncs, one.candidate.syncs) for one in launch.phases}
    of_all = [
        sum(getattr(row, f"{side}_calls") for row in launch.apis if row.kind == "sync") for side in SIDES
    ]
    out = candidates
    for phase, part in _parts_of_phases(candidates):
        before, after = typical[phase] if part == "typical" else of_all
        if abs(after - before) < 0.5:
            continue
        fewer = max(before, after) >= 2 * min(before, after)
        most = float("inf") if fewer else _AFTER_SYNC_NS * abs(after - before)
        mine = [
            one
            for one in out
            if (one.phase, one.judged.part) == (phase, part) and one.moved and one.of_rank is None
        ]
        syncs = [one for one in mine if one.cause == "host_sync" and one.judged.delta * (after - before) > 0]
        if not syncs:
            continue
        main = min(syncs, key=order)
        followers = [
            one
            for one in mine
            if one not in syncs
            and (one.where.range, one.where.thread) == (main.where.range, main.where.thread)
            and "syncs" in CAUSES[one.cause].follows
            and one.judged.delta * main.judged.delta > 0
            and abs(one.judged.delta) <= most
        ]
        counted = replace(main, count=(before, after), facts=main.with_facts(counted_calls=True))
        out = _gather([counted if one is main else one for one in out], counted, followers=followers)
    return out


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
        own = [
            one for one in group if one is not main and one.moved and one.judged.delta * main.judged.delta > 0
        ]
        if main.sure and own:
            out = _gather(out, main, own)
    return out


def launched_otherwise(candidates: list[Candidate], launch: Launch) -> list[Candidate]:
    """Kernels moved into or out of CUDA graphs: launching, and the host in the ranges that launch, are one cause.

    Not where something else explains more.
    """
    before, after = launch.baseline.graph_coverage, launch.candidate.graph_coverage
    if abs(after - before) < MOVED:
        return candidates
    out = candidates
    for phase in sorted({one.phase for one in candidates}):
        sure = [
            one
            for one in out
            if one.sure and one.of_rank is None and (one.phase, one.judged.part) == (phase, "typical")
        ]
        places = {one.where.range for one in sure if one.cause == "launch_api"}
        group = [one for one in sure if "graphs" in CAUSES[one.cause].follows and one.where.range in places]
        together = sum(one.judged.delta for one in group)
        if not group or any(abs(one.judged.delta) > abs(together) for one in sure if one not in group):
            continue
        main = min(group, key=order)
        marked = replace(main, facts=main.with_facts(graph_coverage=Shares(before, after)), key="graphs")
        out = _gather(
            [marked if one is main else one for one in out], marked, [one for one in group if one is not main]
        )
    return out


# Phases.


def merged(candidates: list[Candidate], first: str) -> list[Candidate]:
    """One candidate for each cause: in the phase of the verdict where it is more than noise there, else where it explains most."""
    # what follows from a cause in the typical step does so in rare steps of the phase
    follow = {
        (one.phase, place): one.key
        for one in sorted(candidates, key=order, reverse=True)
        for place in one.follow
    }
    by_cause: dict[Any, dict[tuple[str, str], list[Candidate]]] = {}
    for one in candidates:
        key = one.key or follow.get((one.phase, one.judged.place), one.judged.place)
        by_cause.setdefault(key, {}).setdefault((one.phase, one.judged.part), []).append(one)
    out = []
    for parts in by_cause.values():
        group = [united(rows[0], rows[1:]) for rows in (sorted(rows, key=order) for rows in parts.values())]
        group.sort(key=order)
        own = [one for one in group if one.phase == first and (one.explained > 0 or one.sure)]
        lead = (own or group)[0]
        rest = [
            PhaseDelta(
                one.phase, one.judged.part, *one.interval, one.level,
            )
            for one in group
            if one is not lead
        ]  # fmt: skip
        out.append(replace(lead, elsewhere=tuple(rest)))
    return out
