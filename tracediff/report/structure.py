"""What differs by count, in words: one pattern each."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection

from msgspec.structs import replace

from tracediff.kernels.names import category, collective, short
from tracediff.model import Finding, Kernels, Result, StructureRow
from tracediff.model.structure import StructureKind
from tracediff.report import units, words
from tracediff.report.amounts import NAME, NAMED
from tracediff.report.causes import KINDS, brief, is_counted, named
from tracediff.report.escape import shorten
from tracediff.report.grammar import say
from tracediff.stats.rules import MOSTLY

# The grammar of each kind; of those of which one row says it all, one is said.
_ONCE = ("graph_kernels", "early", "blocking", "streams", "workload", "kernel", "grid", "ranges", "calls")
# These follow from others that are said.
_FOLLOWS = {"kernel": "workload", "grid": "workload", "ranges": "kernels"}
_MEMSET = "[memset]"


def brief_of(result: Result) -> list[str]:
    """The most telling differences of the phase that the first sentence is of, three at most, without what the first cause says."""
    ranks = [part.finding for part in result.observed.parts]
    named_first = [one for one in result.findings if one.rank in ranks]
    mine = [
        one
        for one in result.structure
        if one.phase == result.observed.phase and not any(_said_by(cause, one) for cause in named_first)
    ]
    placed = max((_size(one) for one in mine if one.kind == "kernels" and one.range), default=0.0)
    mine = [one for one in mine if one.kind != "kernels" or one.range or placed < MOSTLY * _size(one)]
    retuned = _retuned(mine)
    mine = _graphs_first([one for one in mine if one not in retuned])
    kinds = {one.kind for one in mine}
    alike = _alike(result) if "kernel" in kinds else set()
    causes = [
        one
        for one in result.findings
        if one.level != "within_noise" and one.rank not in ranks and one.where.phase == result.observed.phase
    ]
    prose = words.page_unit(result)
    said: list[str] = []
    seen: set[str] = set()
    alone: StructureRow | None = None  # a kernel that came or went, in nothing's place
    for one in mine:
        if len(said) == NAMED:
            break
        if _FOLLOWS.get(one.kind) in kinds or (
            one.kind in _ONCE and one.kind in seen and not _opposite(alone, one)
        ):
            continue
        if said and (one.kind == "calls" or one.name == _MEMSET):
            continue  # what they are about, the others say
        seen.add(one.kind)
        again = one.kind == "kernel" and _again(result, one)
        other = "" if again else _counterpart(result, one)
        if other:
            names = [_own(name, alike) for name in (one.name, other)][:: 1 if one.baseline else -1]
            text = say("replaced_by", before=names[0], after=names[1])
        else:
            text = sentence(_net(one, mine) if again else one, alike, again=again)
        timed = next((finding for finding in causes if _holds(finding, one)), None)
        if one.kind == "kernel":
            replaced = bool(timed and timed.where.replaced_by)
            alone = None if again or other or replaced or alone else one
        if timed:
            causes.remove(timed)
            several = one.kind == "kernel" and timed.where.kernels != Kernels((short(one.name),))
            text = named(timed) if several else text  # the counts of a cause are said once
            if one.kind == "copies" and _size(one) and _has_all(timed, one):  # of whatever memory
                before, after = timed.evidence.count_baseline or 0.0, timed.evidence.count_candidate or 0.0
                memory = one.memory if before == one.baseline else ""
                text = sentence(replace(one, memory=memory, baseline=before, candidate=after))
            change = words.opposed(timed, result) or prose.delta(timed.delta_ns)
            text = f"{text} ({change})"
        said.append(text)
    return said or [_instances(retuned, one) for one in retuned[:1]]


def more(result: Result, kind: StructureKind, phase: str | None) -> float:
    """How often more the candidate does something in a step of a phase; the largest where several differ."""
    mine = (row for row in result.structure if row.kind == kind and row.phase == phase)
    return max((row.candidate - row.baseline for row in mine), default=0.0)


def other_type(result: Result, finding: Finding) -> tuple[str, str] | None:
    """The data types before and after of the kernels that a slower cause is named after, where they have another."""
    kinds = {category(name) for name in finding.where.called} if finding.cause == "kernel_time" else set()
    mine = (row for row in result.structure if row.kind == "dtype" and row.phase == finding.where.phase)
    found = (row for row in mine if row.name in kinds and finding.delta_ns > 0)
    return next(((row.baseline_values[0], row.candidate_values[0]) for row in found), None)


def _holds(finding: Finding, row: StructureRow) -> bool:
    """Whether the time of a difference is that of a cause."""
    facts, where = finding.facts, finding.where
    if row.kind == "kernels":
        return facts.launched is not None and where.range == row.range
    if row.kind == "messages":
        return where.holds(row.name.removeprefix("nccl"))
    if row.kind in ("kernel", "copies"):
        return where.holds(short(row.name))
    return row.kind == "synchronisations" and facts.counted_calls and where.api == row.name


def _retuned(rows: list[StructureRow]) -> list[StructureRow]:
    """Kernels of one name that are launched as often in all: other instances of a template, neither new nor gone."""
    more: dict[str, float] = defaultdict(float)
    for one in rows:
        if one.kind == "kernel":
            more[_own(one.name)] += one.candidate - one.baseline
    return [one for one in rows if one.kind == "kernel" and units.count(more[_own(one.name)]) == "0"]


def _instances(rows: list[StructureRow], of: StructureRow) -> str:
    """How many launches of a kernel are of other instances of its template."""
    own = [one.candidate - one.baseline for one in rows if _own(one.name) == _own(of.name)]
    count = units.launches(sum(one for one in own if one > 0))
    return say("count_instances", count=count, name=_own(of.name), per=of.per)


def _graphs_first(rows: list[StructureRow]) -> list[StructureRow]:
    """Another number of graph launches brings its kernels; where one side has none, the kernels in graphs say so."""
    graphs = [one for one in rows if one.kind == "graph_launches"]
    moved = any(one.kind == "graph_kernels" for one in rows)
    first = [one for one in graphs if not moved or (one.baseline and one.candidate)]
    return [*first, *(one for one in rows if one not in graphs)]


def _alike(result: Result) -> set[str]:
    """Names that several kernels go by."""
    sides = (side for row in result.kernels for side in (row.baseline, row.candidate) if side)
    many = Counter(map(_own, {name for side in sides for name in side.names}))
    return {name for name, count in many.items() if count > 1}


def _again(result: Result, row: StructureRow) -> bool:
    """Whether the side that lacks a kernel has another one of its name, with other arguments of its template."""
    if row.baseline and row.candidate:
        return False
    lacking = [one.candidate if row.baseline else one.baseline for one in result.kernels]
    others = {name for side in lacking if side for name in side.names} - {row.name}
    return short(row.name) in map(short, others)


def _opposite(kernel: StructureRow | None, row: StructureRow) -> bool:
    """Whether one side lacks a kernel, and the other one another."""
    if kernel is None or row.kind != "kernel" or _own(kernel.name) == _own(row.name):
        return False
    return not any((kernel.baseline and row.baseline, kernel.candidate and row.candidate))


def _counterpart(result: Result, row: StructureRow) -> str:
    """What the kernel table has in place of a kernel that one side lacks; empty where it has nothing."""
    if row.kind != "kernel" or (row.baseline and row.candidate):
        return ""
    for one in result.kernels:
        mine, other = (one.baseline, one.candidate) if row.baseline else (one.candidate, one.baseline)
        if mine and other and mine.names == [row.name] and row.name not in other.names:
            return other.names[0]
    return ""


def _net(row: StructureRow, rows: list[StructureRow]) -> StructureRow:
    """A kernel with what all of its name have more, or fewer: instances of a template come and go."""
    own = [one for one in rows if one.kind == "kernel" and short(one.name) == short(row.name)]
    more = sum(one.candidate - one.baseline for one in own)
    return replace(row, baseline=max(-more, 0.0), candidate=max(more, 0.0))


def _said_by(cause: Finding, row: StructureRow) -> bool:
    """Whether the name of a cause says a difference."""
    if row.kind == "code_loads":
        return cause.facts.code_loads is not None
    if row.kind == "early":
        return cause.facts.early is not None
    if row.kind == "kernels":
        told = cause.facts.launched is not None and row.range in ("", cause.where.range)
        return told or (is_counted(cause) and not row.range and _has_all(cause, row))
    # what replaced another is new, and the other gone
    told = is_counted(cause) or (bool(cause.where.replaced_by) and not (row.baseline and row.candidate))
    return row.kind == "kernel" and told and _holds(cause, row)


def _has_all(cause: Finding, row: StructureRow) -> bool:
    """Whether a cause gains as many as a difference, whatever else either of them counts."""
    gained = (cause.evidence.count_candidate or 0.0) - (cause.evidence.count_baseline or 0.0)
    return units.count(gained - (row.candidate - row.baseline)) == "0"


def _size(row: StructureRow) -> float:
    return abs(row.candidate - row.baseline)


def sentence(row: StructureRow, alike: Collection[str] = (), *, again: bool = False) -> str:
    """One difference: `cudaStreamSynchronize 1 -> 2`.

    alike: names that several kernels go by, which are told by longer ones. again: the side that lacks a kernel has another one of its name.
    """
    before, after = units.count(row.baseline), units.count(row.candidate)
    if row.varies:
        before, after = (units.between(*ends) for ends in (row.baseline_values, row.candidate_values))
    slots = {
        "before": before,
        "after": after,
        "name": row.name,
        "range": row.range,
        "per": row.per,
        "memory": row.memory,
    }
    if row.rate or (row.kind == "ranges" and _rarer(row)):
        sides = ((row.baseline_any, row.baseline_steps), (row.candidate_any, row.candidate_steps))
        shares = units.arrow(units.share(*one) for one in sides)
        name = _copied(row) if row.kind == "copies" else row.name
        return say("count_rate", name=name or _PLAIN[row.kind], shares=shares)
    if row.kind == "workload":
        return say("check_other_work", percent=units.share(1 - min(row.baseline, row.candidate)))
    if row.kind in ("graph_kernels", "early"):
        before_of, after_of = (units.count(of or 0.0) for of in (row.baseline_of, row.candidate_of))
        return say(f"count_{row.kind}", before_of=before_of, after_of=after_of, **slots)
    if row.kind == "blocking":
        parts = ((row.baseline, row.baseline_of), (row.candidate, row.candidate_of))
        before, after = (f"{100 * one / (of or 1):.0f}" for one, of in parts)
        return say("count_blocking", before=before, after=after)
    if row.kind == "kernels":
        return say("count_kernels_in" if row.range else "count_kernels", **slots)
    if row.kind == "kernel":
        pattern = "new" if not row.baseline else "gone" if not row.candidate else "kernel"
        pattern = f"count_{pattern}_again" if again else f"count_{pattern}"
        return say(pattern, **slots | {"name": _own(row.name, alike)})
    if row.kind in ("dtype", "grid", "algorithm"):
        one, other = ("/".join(values) for values in (row.baseline_values, row.candidate_values))
        kernel = _own(row.name) if row.kind == "grid" else shorten(row.name, NAME)
        pattern = f"count_{row.kind}"
        if row.kind == "grid" and collective(row.name)[0]:
            kernel, pattern = collective(row.name)[0], "count_channels"
        elif row.kind == "grid" and (blocks := _blocks(row)):
            (one, other), pattern = blocks, "count_block"
        one, other = (text.replace(",1,1", "") for text in (one, other))
        slots |= {
            "name": kernel,
            "before": one,
            "after": other,
            "count": after,
            "of": units.count(row.candidate_of or 0.0),
        }
        return say(pattern, **slots)
    if row.kind == "copies":
        return _copies(row, slots)
    if row.kind == "messages":
        name = say("of_group", what=row.name, group=shorten(row.group, NAME)) if row.group else row.name
        change = units.sizes(row.baseline_bytes or 0.0, row.candidate_bytes or 0.0)
        return say(
            "count_messages", name=name, change=change, per=row.per, calls=units.counted(row.baseline, "call")
        )
    if row.kind == "memory":
        return say("count_peak", name=row.name, change=units.sizes(row.baseline, row.candidate))
    if row.kind == "ranges":
        return say("count_range", **slots)
    return say("count_other", **slots | {"name": row.name or _PLAIN[row.kind]})


def _rarer(row: StructureRow) -> bool:
    """Whether most steps of a side lack it and some have it, where responses come every n-th step: not "1 -> 0.1 times"."""
    sides = ((row.baseline_any, row.baseline_steps), (row.candidate_any, row.candidate_steps))
    return any(0 < some < MOSTLY * steps for some, steps in sides)


def _blocks(row: StructureRow) -> tuple[str, str] | None:
    """The blocks of both sides, where a kernel has others in the same grids."""
    sides = [
        [set(part) for part in zip(*(shape.split(" x ") for shape in values), strict=True)]
        for values in (row.baseline_values, row.candidate_values)
    ]
    (grids, before), (others, after) = sides
    return ("/".join(sorted(before)), "/".join(sorted(after))) if grids == others else None


def _own(name: str, alike: Collection[str] = ()) -> str:
    """A kernel by a name of its own: a word for its kind, such as GEMM, is that of several, and so are those of `alike`."""
    said = brief(short(name))
    own = shorten(short(name), NAME)
    if said in KINDS.values() and said != own:
        return f"{said} {own}"
    return own if said in alike else said


_PLAIN = {
    "ahead": "synchronisations after which the GPU has work left",
    "collections": "garbage collections",
    "streams": "streams",
    "ranks": "ranks",
    "graph_launches": "graph launches",
    "synchronisations": "synchronisations",
}


def _copied(row: StructureRow) -> str:
    kind = row.name.strip("[]").replace("memcpy unified", "migrations of managed memory")
    return f"{kind} ({row.memory})" if row.memory else kind


def _copies(row: StructureRow, slots: dict[str, str]) -> str:
    name = _copied(row)
    if row.baseline_values and not row.varies:
        (one,), (other,) = row.baseline_values, row.candidate_values
        sizes = [units.size(round(size)) for size in (row.baseline_bytes or 0.0, row.candidate_bytes or 0.0)]
        pattern = "count_memory" if sizes[0] == sizes[1] else "count_memory_bytes"
        counts = units.arrow((slots["before"], slots["after"]))
        slots |= {"name": name, "one": one, "other": other, "counts": counts, "bytes": units.arrow(sizes)}
        return say(pattern, **slots)
    if row.baseline == row.candidate and row.baseline_bytes is not None and row.candidate_bytes is not None:
        one, other = (units.size(round(size)) for size in (row.baseline_bytes, row.candidate_bytes))
        return say("count_other", **slots | {"name": name, "before": one, "after": other})
    return say("count_other", **slots | {"name": name})
