"""What differs by count, in words: one pattern each."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection

from msgspec.structs import replace

from tracediff.kernels.names import category, collective, short
from tracediff.model import Finding, Kernels, Phase, Result, StructureRow
from tracediff.model.structure import StructureKind
from tracediff.report import units, words
from tracediff.report.amounts import NAME, NAMED
from tracediff.report.causes import KINDS, brief, function_of, is_counted, named
from tracediff.report.escape import shorten
from tracediff.report.grammar import say
from tracediff.stats.rules import MOSTLY

# The grammar of each kind; of those of which one row says it all, one is said.
_ONCE = (
    "graph_kernels", "early", "blocking", "streams", "kernel", "grid", "registers", "ranges", "calls",
)  # fmt: skip
# These follow from others that are said.
_FOLLOWS = {"kernel": "workload", "grid": "workload", "registers": "grid", "ranges": "kernels"}
_MEMSET = "[memset]"


def brief_of(result: Result) -> tuple[str | None, list[str]]:
    """A phase and its most telling differences, three at most, without what causes that were said say.

    That of the first sentence; where it has none, of the others that with most step time in which some are certain.
    """
    own = result.observed.phase
    others = sorted((one for one in result.phases if one.phase != own), key=_step_time, reverse=True)
    for phase in (own, *(one.phase for one in others)):
        rows = [one for one in result.structure if one.phase == phase and (one.certain or phase == own)]
        if said := _brief(result, rows):
            return phase, said
    return own, []


def _step_time(phase: Phase) -> float:
    return phase.share * sum(side.mean_ns for side in (phase.baseline, phase.candidate) if side)


def _brief(result: Result, every: list[StructureRow]) -> list[str]:
    """Differences of one phase in words."""
    ranks = [part.finding for part in result.observed.parts]
    rows = _unsaid(every, [one for one in result.findings if one.rank in ranks])
    retuned = _retuned(rows)
    brief = _Brief(result, _graphs_first([one for one in rows if one not in retuned]), ranks)
    return brief.said() or [_instances(retuned, one) for one in retuned[:1]]


def _unsaid(every: list[StructureRow], causes: list[Finding]) -> list[StructureRow]:
    """Those of them that no cause says, kernels in all only where no range has most of them."""
    mine = [one for one in every if not any(_said_by(cause, one) for cause in causes)]
    placed = max((_size(one) for one in mine if one.kind == "kernels" and one.range), default=0.0)
    return [one for one in mine if one.kind != "kernels" or one.range or placed < MOSTLY * _size(one)]


class _Brief:
    """The first differences in words, with the time of the causes that they are of. `ranks`: of the causes that were said."""

    def __init__(self, result: Result, rows: list[StructureRow], ranks: Collection[int]) -> None:
        self._result, self._rows = result, rows
        self._kinds = {one.kind for one in rows}
        self._alike = _alike(result) if "kernel" in self._kinds else set()
        phases = {one.phase for one in rows}
        others = (one for one in result.findings if one.rank not in ranks and one.where.phase in phases)
        self._causes = [one for one in others if one.level != "within_noise"]
        self._seen: set[str] = set()
        self._alone: StructureRow | None = None  # a kernel that came or went, in nothing's place

    def said(self) -> list[str]:
        """What is said of the rows, of as many as there is room for."""
        said: list[str] = []
        for row in self._rows:
            # what memory is set for and calls are about, the others say
            beside = bool(said) and (row.kind == "calls" or row.name == _MEMSET)
            # other work is a doubt, and said there
            if len(said) < NAMED and row.kind != "workload" and not beside and not self._follows(row):
                self._seen.add(row.kind)
                said.append(self._sentence(row))
        return said

    def _follows(self, row: StructureRow) -> bool:
        """Whether another row says it: that of which it is the consequence, or the first of its kind."""
        once = row.kind in _ONCE and row.kind in self._seen
        return _FOLLOWS.get(row.kind) in self._kinds or (once and not _opposite(self._alone, row))

    def _sentence(self, row: StructureRow) -> str:
        again = row.kind == "kernel" and not row.rate and _again(self._result, row)
        other = "" if again or row.rate else _counterpart(self._result, row)
        timed = next((one for one in self._causes if _holds(one, row)), None)
        if row.kind == "kernel":
            taken = again or other or (timed and timed.where.replaced_by)
            self._alone = None if taken or self._alone else row
        counted, of_cause = self._counted(row, other, again=again), timed and self._of_cause(row, timed)
        # a copy more takes no time away: the time is of what went with it
        if timed is None or not (of_cause or timed.delta_ns * (row.candidate - row.baseline) >= 0):
            return counted
        self._causes.remove(timed)
        change = words.opposed(timed, self._result) or words.page_unit(self._result).delta(timed.delta_ns)
        return f"{of_cause or counted} ({change})"

    def _counted(self, row: StructureRow, other: str, *, again: bool) -> str:
        """A row by its own counts. `other`: the kernel in its place."""
        if other:
            names = [_own(name, self._alike) for name in (row.name, other)]
            before, after = names if row.baseline else reversed(names)
            return say("replaced_by", before=before, after=after)
        return sentence(_net(row, self._rows) if again else row, self._alike, again=again)

    def _of_cause(self, row: StructureRow, cause: Finding) -> str:
        """A row as its cause counts, where that says more: the kernels of several names, copies of whatever memory; else empty."""
        if row.kind == "kernel":
            return named(cause) if cause.where.kernels != Kernels((short(row.name),)) else ""
        if row.kind != "copies" or row.varies or not _size(row) or not _has_all(cause, row):
            return ""
        before, after = cause.evidence.count_baseline or 0.0, cause.evidence.count_candidate or 0.0
        memory = row.memory if before == row.baseline else ""
        return sentence(replace(row, memory=memory, baseline=before, candidate=after))


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
    """How many launches of a kernel are of other instances of its template, or of another kernel that is called nearly so."""
    own = [one.candidate - one.baseline for one in rows if _own(one.name) == _own(of.name)]
    count = units.launches(sum(one for one in own if one > 0))
    # torch.compile names kernels after what they do, and has no templates
    pattern = "count_instances" if "<" in of.name else "count_variants"
    return say(pattern, count=count, name=_own(of.name), per=of.per)


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
    """What the kernel table has in place of a kernel that one side lacks, of several one of its kind; empty where it has none."""
    if row.kind != "kernel" or (row.baseline and row.candidate):
        return ""
    for one in result.kernels:
        mine, other = (one.baseline, one.candidate) if row.baseline else (one.candidate, one.baseline)
        if mine and other and mine.names == [row.name] and row.name not in other.names:
            like = [name for name in other.names if category(name) == category(row.name)]
            return next(iter(like), other.names[0] if len(other.names) == 1 else "")
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
    text = _counts(row, alike, again=again)
    if row.rank is not None:
        return say("on_rank", cause=text, rank=str(row.rank))
    return text if row.device is None else say("on_device", cause=text, device=str(row.device))


def _counts(row: StructureRow, alike: Collection[str], *, again: bool) -> str:
    """What a difference counts, wherever, and in which steps."""
    text = _in_a_step(row, alike, again=again)
    return say("count_every", counts=text, every=units.ordinal(row.every), per=row.per) if row.every else text


def _in_a_step(row: StructureRow, alike: Collection[str], *, again: bool) -> str:
    if row.rate or (row.kind == "ranges" and _rarer(row)):
        return _rate(row)
    before, after = units.count(row.baseline), units.count(row.candidate)
    if row.varies:
        before, after = (units.between(*ends) for ends in (row.baseline_values, row.candidate_values))
    slots = {
        "before": before,
        "after": after,
        "name": row.name,
        "range": function_of(row.range),
        "per": row.per,
    }
    if row.kind == "kernel":
        pattern = "new" if not row.baseline else "gone" if not row.candidate else "kernel"
        slots |= {"name": _own(row.name, alike), "launches": units.launches(_size(row))}
        return say(f"count_{pattern}_again" if again else f"count_{pattern}", **slots)
    if of_kind := _OF_KIND.get(row.kind):
        return of_kind(row, slots)
    return say("count_other", **slots | {"name": _plain(row)})


def _rate(row: StructureRow) -> str:
    """In what part of the steps something is, of which one step has as many as another."""
    sides = ((row.baseline_any, row.baseline_steps), (row.candidate_any, row.candidate_steps))
    name = _copied(row) if row.kind == "copies" else _plain(row)
    if row.baseline_values:
        (one,), (other,) = row.baseline_values, row.candidate_values
        share = units.share(*max(sides))
        return say("count_rate_memory", name=name, one=one, other=other, share=share)
    shares = units.arrow(units.share(*one) for one in sides)
    return say("count_rate", name=name, shares=shares)


def _rarer(row: StructureRow) -> bool:
    """Whether most steps of a side lack it and some have it, where responses come every n-th step: not "1 -> 0.1 times"."""
    sides = ((row.baseline_any, row.baseline_steps), (row.candidate_any, row.candidate_steps))
    return any(0 < some < MOSTLY * steps for some, steps in sides)


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
    "gpus": "GPUs",
    "graph_launches": "graph launches",
    "synchronisations": "synchronisations",
}


def _plain(row: StructureRow) -> str:
    return _own(row.name) if row.kind == "kernel" else row.name or _PLAIN[row.kind]


def _copied(row: StructureRow) -> str:
    kind = row.name.strip("[]").replace("memcpy unified", "migrations of managed memory")
    return f"{kind} ({row.memory})" if row.memory else kind


def _workload(row: StructureRow, slots: dict[str, str]) -> str:
    before, after = (f"{blocks:,.0f}" for blocks in (row.baseline, row.candidate))
    return say("check_other_work", **slots | {"before": before, "after": after})


def _part_of(row: StructureRow, slots: dict[str, str]) -> str:
    before_of, after_of = (units.count(of or 0.0) for of in (row.baseline_of, row.candidate_of))
    return say(f"count_{row.kind}", before_of=before_of, after_of=after_of, **slots)


def _blocking(row: StructureRow, _: dict[str, str]) -> str:
    parts = ((row.baseline, row.baseline_of), (row.candidate, row.candidate_of))
    before, after = (f"{100 * one / (of or 1):.0f}" for one, of in parts)
    return say("count_blocking", before=before, after=after)


def _kernels(row: StructureRow, slots: dict[str, str]) -> str:
    if row.every is not None:
        return say("count_kernels_of", **slots)
    return say("count_kernels_in" if row.range else "count_kernels", **slots)


def _made_of(row: StructureRow, slots: dict[str, str]) -> str:
    """Another data type or algorithm."""
    before, after = ("/".join(values) for values in (row.baseline_values, row.candidate_values))
    counts = {"count": slots["after"], "of": units.count(row.candidate_of or 0.0)}
    named = {"name": shorten(row.name, NAME), "before": before, "after": after}
    return say(f"count_{row.kind}", **slots | counts | named)


def _grid(row: StructureRow, _: dict[str, str]) -> str:
    """Other blocks in the same grids, one grid for another, or several others; other channels of a collective."""
    sides = (row.baseline_values, row.candidate_values)
    shapes = [{tuple(one.split(" x ")) for one in values} for values in sides]
    if of := collective(row.name)[0]:
        return _shaped("count_channels", of, *({" x ".join(one) for one in side} for side in shapes))
    (grids, blocks), (others, other_blocks) = (map(set, zip(*side, strict=True)) for side in shapes)
    if grids == others:
        return _shaped("count_block", _own(row.name), blocks, other_blocks)
    gone, new = grids - others, others - grids
    pattern = "count_grid" if len(gone) == len(new) == 1 else "count_grids"
    return _shaped(pattern, _own(row.name), gone, new)


def _shaped(pattern: str, name: str, *shapes: Collection[str]) -> str:
    before, after = (re.sub(r"(,1)+(?![\d,])", "", "/".join(sorted(side))) for side in shapes)
    return say(pattern, name=name, before=before.replace(",", " x "), after=after.replace(",", " x "))


def _registers(row: StructureRow, slots: dict[str, str]) -> str:
    (before,), (after,) = row.baseline_values, row.candidate_values
    return say("count_registers", **slots | {"name": _own(row.name), "before": before, "after": after})


def _messages(row: StructureRow, _: dict[str, str]) -> str:
    name = say("of_group", what=row.name, group=shorten(row.group, NAME)) if row.group else row.name
    change = units.sizes(row.baseline_bytes or 0.0, row.candidate_bytes or 0.0)
    calls = units.counted(row.baseline, "call")
    return say("count_messages", name=name, change=change, per=row.per, calls=calls)


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


_OF_KIND: dict[StructureKind, Callable[[StructureRow, dict[str, str]], str]] = {
    "workload": _workload,
    "graph_kernels": _part_of,
    "early": _part_of,
    "blocking": _blocking,
    "kernels": _kernels,
    "dtype": _made_of,
    "algorithm": _made_of,
    "grid": _grid,
    "registers": _registers,
    "copies": _copies,
    "messages": _messages,
    "memory": lambda row, slots: say("count_peak", change=units.sizes(row.baseline, row.candidate), **slots),
    "ranges": lambda row, slots: say("count_range", **slots),
}
