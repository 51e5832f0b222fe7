"""Causes as people read them: one row each, for every row of model/causes.py.

Four hues, one a group, in three shades each: GPU busy (blue, of which moving data is violet), GPU waiting on the
device, GPU waiting for CUDA calls, GPU waiting for Python. Shades of a group differ in lightness, for who cannot tell hues.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from math import inf
from pathlib import Path

import msgspec
from msgspec.structs import replace

from tracediff.formats.unpack import stem
from tracediff.kernels.names import GROUPS, category, collective
from tracediff.model import AwaitedFact, CallFact, Finding, FindingPart, Shares, Where
from tracediff.model.causes import ALONE_NS, SURELY
from tracediff.model.causes import CAUSES as ROWS
from tracediff.model.show import IdleCause, StepPlace
from tracediff.report.amounts import NAME, NAMED
from tracediff.report.escape import shorten
from tracediff.report.grammar import PATTERNS, say
from tracediff.report.names import counted as name_counts
from tracediff.report.units import arrow, both_shares, counted, kind, prose, size
from tracediff.stats.rules import MOSTLY
from tracediff.trace.threads import OUTSIDE, UNNAMED, awaits, beside


class CauseWords(msgspec.Struct, frozen=True):
    """Words and colours of a cause.

    label: on charts. name: in prose. light, dark: the colour of a category in both themes. What a finding of it is called, and what to
    do about it, are patterns of report/grammar.txt.
    """

    key: str
    label: str
    name: str
    group: str = ""
    light: str = ""
    dark: str = ""
    meaning: str = ""


_BUSY, _DEVICE, _CALLS, _HOST = "GPU busy", "GPU waits: device", "GPU waits: CUDA calls", "GPU waits: host"
CAUSES: dict[str, CauseWords] = {
    row.key: row
    for row in (
        CauseWords("compute", "compute", "compute", _BUSY, "#27548f", "#7fb0ee",
                   "A compute kernel was running."),
        CauseWords("comm", "exposed comm", "exposed communication", _BUSY, "#2f2a75", "#cdc9fb",
                   "Only communication kernels (NCCL, all-reduce) were running."),
        CauseWords("memcpy", "exposed copies", "exposed copies", _BUSY, "#a496cf", "#7f73ad",
                   "Only copies or memory sets were running."),
        CauseWords("launch_latency", "launch latency", "launch latency", _DEVICE, "#1c6e6a", "#6cc4bd",
                   "The launch had returned, nothing else was in the way, and the op had not started."),
        CauseWords("dependency", "dependency", "dependency wait", _DEVICE, "#45958f", "#499f98",
                   "The op had been launched; it waited for work before it in its stream or another, an event, a device or a rank."),
        CauseWords("graph_internal", "inside graphs", "inside graphs", _DEVICE, "#7bb3ae", "#3a837c",
                   "Between two nodes of one graph launch."),
        CauseWords("launch_api", "launch calls", "launch calls", _CALLS, "#8f5b0c", "#e3b463",
                   "The host was inside the launching call."),
        CauseWords("host_sync", "sync calls", "sync calls", _CALLS, "#b57f2e", "#bd8b3c",
                   "The host was inside a synchronising call that outlasted the GPU's work."),
        CauseWords("host_api", "other CUDA calls", "other CUDA calls", _CALLS, "#cfa460", "#9a702e",
                   "The host was inside another CUDA call: allocation, event, query."),
        CauseWords("gc", "Python GC", "Python GC", _HOST, "#74264e", "#e58fb6",
                   "The launching thread was in a garbage-collection pause."),
        CauseWords("gil_wait", "GIL wait", "GIL wait", _HOST, "#a04b77", "#d273a2",
                   "The launching thread was waiting for the GIL."),
        CauseWords("host_work", "host work", "host work", _HOST, "#c383a3", "#ae5e85",
                   "The launching thread was doing anything else, named by its innermost range."),
        CauseWords("unattributed", "unattributed", "unattributed", "unknown", "#858c96", "#7c848f",
                   "No launch row, or that kind of trace was not captured."),
        CauseWords("kernel_time", "kernel time", "kernel time"),
        CauseWords("kernel_fused", "kernels fused", "kernels fused"),
        CauseWords("kernel_split", "kernel split", "kernel split"),
        CauseWords("kernel_added", "kernels added", "kernels added"),
        CauseWords("kernel_removed", "kernels removed", "kernels removed"),
        CauseWords("batch_mix", "batch mix", "batch mix"),
    )
}  # fmt: skip


def advice(finding: Finding) -> str:
    """What to do next about the cause of a finding."""
    peer, doing = awaited(finding.facts.awaited) if finding.facts.awaited else ("", "")
    thread = the_thread(finding.where.thread or "launching")
    place = at(finding.where.range or "") or ("for it" if peer else say("thread_place", thread=thread))
    slow = finding.facts.slow_call
    call = finding.where.os_call or (slow.api if slow else finding.where.api) or "a synchronising function"
    # where reports cut a name, a command takes a pattern; a quote of a trace would end that of the shell
    name = re.sub("[\u2026']", "*", _largest(finding))
    return say(
        f"advise_{advised(finding) or finding.cause}", place=place, call=call, peer=peer, doing=doing, name=name, regex=_regex(name),
        holder=_holder(finding.where),
    )  # fmt: skip


def _regex(name: str) -> str:
    """What Nsight Compute finds a kernel by: its function without template arguments, of a long one both ends."""
    function = name.partition("<")[0].rpartition("::")[2]
    return re.sub(r"[^\w*]", ".", shorten(function, NAME).replace("\u2026", "*")).replace("*", ".*")


def advised(finding: Finding) -> str:
    """Which advice helps where the cause's own cannot; empty where it can."""
    return next(
        (kind for kind, cause, helps in _ADVISED if cause in ("", finding.cause) and helps(finding)), ""
    )


def _in_other_shapes(finding: Finding) -> bool:
    """Whether most of what kernels of the same names changed by is of other grids or blocks."""
    if not finding.parts:
        return finding.facts.match == "name"
    other = sum(abs(one.delta_ns) for one in finding.parts if one.match == "name")
    return other >= MOSTLY * sum(abs(one.delta_ns) for one in finding.parts)


def _same_again(finding: Finding) -> bool:
    """Whether launches of GEMMs and of kernels of two more kinds were added to those that the baseline has."""
    more = [
        one for one in finding.parts if one.count_baseline and (one.count_candidate or 0) > one.count_baseline
    ]
    kinds = {category(name) for one in more for name in one.where.called[:1]}
    return "gemm" in kinds and len(kinds) > 2


# Advice, the cause that it is of ('' any), and when it helps: the first that does is given.
_ADVISED: tuple[tuple[str, str, Callable[[Finding], object]], ...] = (
    ("code_loads", "", lambda one: one.facts.code_loads),
    ("migrates", "", lambda one: one.where.holds("unified")),
    ("pageable", "", lambda one: one.facts.memory[1:] == ["pageable"]),
    ("slow_call", "", lambda one: one.facts.overlap and one.facts.slow_call),
    ("overlap", "", lambda one: one.facts.overlap),
    ("awaits_peer", "", lambda one: one.facts.awaited),
    ("again", "kernel_added", _same_again),
    ("shapes", "kernel_time", _in_other_shapes),
    ("synchronises", "host_sync", lambda one: one.facts.counted_calls),
    ("other_device", "", lambda one: one.facts.other_device),
    ("awaits", "host_work", lambda one: awaits(one.where.range or "")),
    ("os_call", "host_work", lambda one: one.where.os_call),
    ("without_gil", "host_work", lambda one: one.facts.without_gil),
    ("collectives", "host_work", lambda one: (one.where.range or "").startswith("nccl")),
    ("holder", "gil_wait", lambda one: one.where.holder_thread == UNNAMED),
    ("shared", "launch_latency", lambda one: one.candidate_ns > ALONE_NS * (one.evidence.count_candidate or inf)),
    ("memset", "memcpy", lambda one: one.where.holds("memset")),
    ("copies", "memcpy", lambda one: (one.evidence.count_candidate or 0) >= 2 * (one.evidence.count_baseline or inf)),
    ("copies", "launch_api", lambda one: one.facts.copies),
    ("allocates", "host_api", lambda one: re.search(r"Malloc|Alloc|Free", one.where.api or "")),
    ("one_graph", "launch_api", lambda one: "GraphLaunch" in (one.where.api or "")),
)  # fmt: skip


def awaited(peer: AwaitedFact) -> tuple[str, str]:
    """The thread that a thread waited for, and what it did meanwhile."""
    name = the_thread(peer.thread)
    if peer.range and peer.thread.endswith(peer.range):  # called by what it does
        doing = say("peer_works")
    else:
        doing = say("peer_in" if peer.range else "peer_holds", range=peer.range)
    return name if peer.near else say("peer_far", thread=name), doing


# What causes are called: a short name in sentences, a title in lists.


_COPY = re.compile(r"\[(mem\w+[^\]]*)\]")  # an op that is no kernel
# What makes up most of a generated name: `vectorized_elementwise_kernel<silu_kernel>` does what its argument says.
_GENERIC = re.compile(r"elementwise|reduce_kernel|^Kernel\d*$|^device_kernel$")
_AFFIXES = re.compile(r"^CUDAFunctor(?:OnOther|OnSelf)?_|(?:_kernel(?:_cuda|_impl)?|Functor)$")
_MODULES = re.compile(r"^(?:[a-z_]\w*\.){2,}(?=\w+\.\w+$)")
KINDS = {kind: word for word, kind in GROUPS.items()}
# What waiting for a late rank is, by the kind of the group.
_LATE = {"pipeline": "bubble", "all-to-all": "uneven", "": "late"}


def late(finding: Finding) -> str:
    """The rank that others wait for, with its group: `3 of group tp`, `3 of ranks 0 to 3`."""
    rank, fact = f"{finding.where.rank}", finding.facts.late_rank
    if fact is not None and fact.group:
        return say("of_group", what=rank, group=shorten(fact.group, NAME))
    if fact is not None and fact.members:
        return say("rank_of_ranks", rank=rank, members=members(fact.members))
    return rank


def members(ranks: Sequence[int]) -> str:
    """Ranks in a sentence: `0 and 4`, `0 to 3`."""
    first, *_, last = ranks
    if len(ranks) > 2 and last - first == len(ranks) - 1:
        return say("ranks_from", first=f"{first}", last=f"{last}")
    return " and ".join([", ".join(map(str, ranks[:-1])), f"{last}"])


def title(finding: Finding, *, shortly: bool = False) -> str:
    """The title of a finding in a list, which shows its delta, thread and phase beside it: its name with all that is known of it.

    shortly: with kernels by what they do, where there is no room for whole names.
    """
    facts, where = finding.facts, finding.where
    idle = ROWS[finding.cause].kind == "idle"
    text = _by_count(finding, of_list=True)
    if not text:
        text = _idle_of(finding) if idle else named(finding) if shortly else _kernels_titled(finding)
    if finding.part == "tail" or (idle and facts.rare):
        text = say("in_rare_steps", what=text)
    if facts.delta_all_ranks_ns is not None:
        text = say("on_rank_alone", what=text, rank=f"{where.rank}")
    return text


def named(finding: Finding) -> str:
    """A finding in a sentence: `host work in _schedule`, `fused GEMMs, 16 -> 8 per step`."""
    if text := _by_count(finding):
        return text
    if ROWS[finding.cause].kind == "idle":
        return _idle_of(finding, short=True)
    where = finding.where
    kernel = _with_others(finding, spoken(where.called[:1] if _several(finding) else where.called))
    several = "kernels_gemm" if kernel == "GEMM" else "kernels_several" if " " in kernel else "kernels_of"
    sides = [_first_of(side) for side in _both_sides(where)]
    kernels, counted_too = say(several, kernel=kernel), is_counted(finding)
    if kernel == "GEMM" and counted_too:  # a step has others, which are not in the count
        kernel = say("kernels_some", kernels=kernels)
    name = _kernels_named(finding, kernel, kernels, sides)
    return f"{name}, {_numbers(finding)}" if counted_too else name


def is_counted(finding: Finding) -> bool:
    """Whether the name of a cause says how many kernels it had and has; not where several kernels take another time."""
    before, after = finding.evidence.count_baseline, finding.evidence.count_candidate
    if finding.cause == "kernel_time" and finding.facts.match != "mixed" and _several(finding):
        return False
    return finding.cause.startswith("kernel") and bool(before and after) and before != after


def _kernels_titled(finding: Finding) -> str:
    """Kernels or copies by their whole names, with their counts and times."""
    facts, sides = finding.facts, kernel_sides(finding.where, NAMED)
    kernel = _with_others(finding, arrow(sides))
    text = _kernels_named(finding, kernel, kernel, sides)
    times = f"{facts.baseline_mean_ns / 1e3:.2f} -> {facts.candidate_mean_ns / 1e3:.2f} us each"
    counts = _counts(finding)
    # of several kernels the times, and a count that stays, are the first one's
    alone = not _several(finding) or finding.cause not in ("kernel_time", "comm")
    # with idle time that follows from them they are not the kernels' own
    own = alone and facts.match not in ("mixed", "replaced") and not any(one.follows for one in finding.parts)
    said = [times] * (finding.cause == "kernel_time" and own)
    of_all = finding.cause == "kernel_time" and counts["before"] != counts["after"]
    told = facts.match not in ("more", "fewer", "replaced") and (alone or of_all)
    said += [_numbers(finding)] * told
    text = f"{text}: {', '.join(said)}" if said else text
    if facts.hidden_ns is None:
        return text
    more = "more" if facts.hidden_ns > 0 else "less"
    return say("hidden_too", text=text, size=prose([facts.hidden_ns]).size(facts.hidden_ns), more=more)


def _kernels_named(finding: Finding, kernel: str, kernels: str, sides: list[str]) -> str:
    """What a cause of kernels or copies is, by the pattern of its kind. sides: the kernels of both, where they are called otherwise."""
    facts, cause = finding.facts, finding.cause
    kernel = _other_memory(finding, kernel)
    if facts.overlap:
        return _overlap(finding, kernel)
    pattern = f"name_{cause}"
    if facts.late_rank is not None:
        pattern = f"name_{_LATE[facts.late_rank.kind]}"
    elif f"{pattern}_{facts.match}" in PATTERNS and (
        facts.match != "template" or (len(sides) < 2 and not _several(finding))
    ):
        pattern += f"_{facts.match}"
    elif cause == "kernel_time" and (_several(finding) or len(sides) < 2):
        pattern += "_slower" if finding.delta_ns > 0 else "_faster"
    elif cause == "comm" and any(part.cause != cause for part in finding.parts if not part.follows):
        return kernel or say("communication")
    elif cause == "memcpy" and finding.evidence.count_baseline == 0:
        pattern += "_new"
    elif cause == "memcpy" and finding.evidence.count_candidate == 0:
        pattern += "_removed"
    elif cause == "kernel_time" and sides[0] != sides[1]:
        return say("replaced_by", before=sides[0], after=sides[1])
    kernel = kernel or say("communication")
    return say(pattern, kernel=kernel, kernels=kernels, rank=late(finding), **_counts(finding))


def mix_shares(finding: Finding) -> list[str]:
    """The phases that are another part of the steps, those that changed most first."""
    largest = sorted(finding.facts.shares, key=lambda one: -abs(one.candidate - one.baseline))[:NAMED]
    return [
        say("mix_share", phase=kind(one.phase), shares=both_shares(one.baseline, one.candidate))
        for one in largest
    ]


def _by_count(finding: Finding, *, of_list: bool = False) -> str:
    """What a cause is that is told by its counts; '' of others. of_list: with its place and its call."""
    facts, where, place = finding.facts, finding.where, at(finding.where.range or "")
    if finding.cause == "batch_mix":
        shares = ", ".join(mix_shares(finding)) or say("mix_sizes")
        return say("title_batch_mix", shares=shares) if of_list else say("mix")
    if facts.graph_coverage:
        return _placed(say("named_graphs", **_percent(facts.graph_coverage)), place if of_list else "")
    if facts.early:
        return say("named_early", **_percent(facts.early))
    if facts.launched:
        slots = _both(facts.launched) | {"range": function_of(where.range or ""), "per": facts.per}
        text, calls = say("count_kernels_in", **slots), facts.synchronised
        if where.kernels and not _several(finding):
            kernel = spoken(where.called)
            # its own count is not that of the range
            own = "" if facts.match in ("more", "fewer") else facts.match
            alone = replace(finding, facts=replace(facts, match=own))
            sides = [_first_of(side) for side in _both_sides(where)]
            text = f"{text}, {_kernels_named(alone, kernel, kernel, sides)}"
        elif mostly := _mostly(finding):
            text = say("named_mostly", what=text, kernel=mostly)
        if calls is None:
            return text
        before, after = _count(calls.baseline), _count(calls.candidate)
        return say(
            "named_launched_calls", launched=text, api=calls.api, calls_before=before, calls_after=after
        )
    if facts.code_loads:
        loads = facts.code_loads
        slots = {"api": loads.api, "per": facts.per, **_both(loads)}
        if loads.each_ns is None:
            return say("named_loading", **slots)
        return say("named_loading_each", each=prose([loads.each_ns]).size(loads.each_ns), **slots)
    if facts.counted_calls:
        text = say("named_syncs", per=_of_whole(finding, facts.per), **_counts(finding))
        api = where.api if of_list else ""
        return _placed(say("idle_call", what=text, api=api) if api else text, place)
    return ""


def _both(fact: CallFact) -> dict[str, str]:
    return {"before": _count(fact.baseline), "after": _count(fact.candidate)}


def _percent(of: Shares) -> dict[str, str]:
    return {"before": f"{100 * of.baseline:.0f}", "after": f"{100 * of.candidate:.0f}"}


def _counts(finding: Finding) -> dict[str, str]:
    """How many there are per step on both sides; of a cause of time, means that differ by less than is ever sure are one."""
    before, after = float(finding.evidence.count_baseline or 0), float(finding.evidence.count_candidate or 0)
    cut = finding.cause in ("kernel_time", "memcpy", "comm") and not (
        before.is_integer() and after.is_integer()
    )
    if cut and abs(after - before) < SURELY * before:
        before = after = (before + after) / 2
    return {"before": _count(before), "after": _count(after)}


def _other_memory(finding: Finding, kernel: str) -> str:
    """`memcpy HtoD of pageable memory, pinned before` of copies that changed it."""
    before, after = finding.facts.memory or ("", "")
    return (
        say("of_memory", kernel=kernel, before=before, after=after)
        if before and after and before != after
        else kernel
    )


def _overlap(finding: Finding, kernel: str) -> str:
    facts = finding.facts
    overlaps, its = ("overlap", "their") if _several(finding) else ("overlaps", "its")
    shares = _percent(facts.overlap or Shares(0.0, 0.0))
    said = say("named_overlap", kernel=kernel, overlaps=overlaps, its=its, **shares)
    if facts.streams is not None:
        return say("named_streams", overlap=said, per=facts.per, **_both(facts.streams))
    if (slow := facts.slow_call) is not None:
        times = prose([slow.baseline_ns, slow.candidate_ns])
        both = arrow((times.number(slow.baseline_ns), times.time(slow.candidate_ns)))
        return say("named_slow_call", overlap=said, api=slow.api, times=both, per=facts.per)
    return said


def spoken(names: Sequence[str]) -> str:
    """Kernels in a sentence: `GEMM`, `mul and silu`."""
    return joined(list(dict.fromkeys(map(brief, names))))


def _with_others(finding: Finding, kernel: str) -> str:
    """`a and 9 more kernels` of kernels that changed together, where no fusion or split names them; a kind of them that changed twice as much goes first."""
    if not (rows := _several(finding)):
        return kernel
    of_kind = _kinds(finding)
    mine = [one for one in finding.parts if one.where.kernels == finding.where.kernels and not one.follows]
    own = {kind for part in mine for kind, _ in part_kinds(part)}
    most = max(of_kind, key=of_kind.__getitem__)
    if own and MOSTLY * of_kind[most] > max(abs(of_kind[kind]) for kind in own):
        kernel = most
    return say("and_kernels", kernel=kernel, more=counted(rows - 1, "more kernel"))


def _kinds(finding: Finding) -> dict[str, float]:
    """What kernels of each kind have of a cause, ns in its direction."""
    return _summed(finding, part_kinds)


def _summed(
    finding: Finding, named: Callable[[FindingPart], Iterable[tuple[str, float]]]
) -> dict[str, float]:
    """What each name has of a cause, ns in its direction; `named`: names of a part, with their ns."""
    found: dict[str, float] = {}
    for part in (one for one in finding.parts if not one.follows):
        for name, ns in named(part):
            found[name] = found.get(name, 0.0) + (ns if finding.delta_ns > 0 else -ns)
    return found


def _mostly(finding: Finding) -> str:
    """The kind of kernel that has most of the time of a cause; empty where none has."""
    of_kind = _kinds(finding)
    most = max(of_kind, key=of_kind.__getitem__, default="")
    return most if most and of_kind[most] > MOSTLY * abs(finding.delta_ns) else ""


def _largest(finding: Finding) -> str:
    """The kernel that has most of a cause, by its whole name; empty where no kernel has any."""
    found = _summed(
        finding, lambda part: (part.of or dict.fromkeys(part.where.called[:1], part.delta_ns)).items()
    )
    return max(found, key=found.__getitem__, default=next(iter(finding.where.called), ""))


def _several(finding: Finding) -> int:
    """How many rows of kernels changed together, of which the finding names one; 0 where it names all. Where they take another time, those that have some of it."""
    own = [one for one in finding.parts if not one.follows]
    if finding.cause == "kernel_time" and finding.facts.match != "mixed":
        own = [one for one in own if one.delta_ns * finding.delta_ns >= SURELY * finding.delta_ns**2]
    rows = len({one.where.kernels for one in own})
    named_by_block = finding.cause in ("kernel_fused", "kernel_split") or finding.facts.match == "replaced"
    of_kernels = finding.cause == "comm" or finding.cause.startswith("kernel")
    return rows if rows > 1 and of_kernels and not named_by_block else 0


def _first_of(names: Sequence[str]) -> str:
    """The first kernel of a side that has a kind, else the first, and how many more: `GEMM and 2 more kernels`."""
    telling = next((one for one in names if category(one) in KINDS), names[0])
    more, first = len(set(names)) - 1, brief(telling)
    return say("and_kernels", kernel=first, more=counted(more, "more kernel")) if more else first


def joined(names: list[str]) -> str:
    """`a`, `a and b`, `a, b and 3 more`."""
    if len(names) > NAMED:
        names = [*names[: NAMED - 1], f"{len(names) - NAMED + 1} more"]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def brief(name: str) -> str:
    """What a kernel does: `GEMM` and `NCCL's all-reduce` of those with a generated name, `silu`, else its name without arguments of its template."""
    name = _COPY.sub(r"\1", name)
    function, _, arguments = name.partition("<")
    word = function
    if arguments and _GENERIC.search(function):
        types = re.findall(r"[A-Za-z_]\w*", arguments)
        word = types[-1] if types else function
        word = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", _bare(word)).lower()
    word = _bare(word)
    kind = KINDS.get(category(name))
    if kind and (len(word) > 20 or word.startswith("nvjet") or word.endswith("::kernel")):
        what, _ = collective(name)
        return say("collective", library=kind, what=what) if what else kind
    return shorten(word, NAME)


def _bare(name: str) -> str:
    """A name without what all names of its kind begin and end with, where three letters are left: not `or` of or_kernel."""
    bare = _AFFIXES.sub("", name)
    return bare if len(bare) > 2 else name


def part_named(part: FindingPart) -> str:
    """A row of what belongs to a finding, by its cause and its place."""
    if ROWS[part.cause].kind == "idle":
        return _idle(part.cause, part.where)
    return arrow(kernel_sides(part.where, NAMED)) or CAUSES[part.cause].name


def part_kinds(part: FindingPart) -> list[tuple[str, float]]:
    """What a row of a cause is, as rows of one kind are summed, with its ns: `GEMM`, `launch calls`; each name of a row of several."""
    if ROWS[part.cause].kind == "idle":
        return [(CAUSES[part.cause].name, part.delta_ns)]
    if part.of:
        return [(brief(name), ns) for name, ns in part.of.items()]
    return [(spoken(part.where.called) or CAUSES[part.cause].name, part.delta_ns)]


def idle_title(one: IdleCause | StepPlace, *, host_only: bool) -> str:
    """The title of idle time in the report of one side; it names the thread, which no column does."""
    text = _idle(one.cause, where_of(one), copies=one.copies, host_only=host_only)
    if one.thread and one.cause in ("gc", "host_work", "gil_wait"):
        return say("idle_on_thread", what=text, thread=the_thread(one.thread))
    return text


def idle_named(one: IdleCause | StepPlace) -> str:
    """The same in a sentence: `host work in _schedule`, `waiting for the GIL held by the detokenizer thread`."""
    return _idle(one.cause, where_of(one), copies=one.copies, host_only=True, short=True)


def where_of(one: IdleCause | StepPlace) -> Where:
    """Its place, as causes of a comparison have theirs."""
    return Where(
        range=one.range, thread=one.thread, api=one.api, other_calls=one.other_calls,
        holder_thread=one.holder_thread, holder_range=one.holder_range,
    )  # fmt: skip


def run_name(name: str) -> str:
    """A run as sentences and pictures name it: its file without the ending, in the folder that it has."""
    folder, slash, file = name.rpartition("/")
    return f"{folder}{slash}{stem(Path(file))}".rstrip("/") or name


def _numbers(finding: Finding) -> str:
    """How many there are per step, and of copies their bytes: `16 -> 8 per step`."""
    of = "typical" if finding.part == "typical" else "mean"
    counts = _counts(finding) | {"unit": _of_whole(finding, finding.facts.per, of)}
    numbers = say("per_unit_same" if counts["before"] == counts["after"] else "per_unit", **counts)
    if sizes := finding.facts.copied_bytes:
        before, after = size(sizes.baseline), size(sizes.candidate)
        return say("per_unit_bytes", numbers=numbers, before=before, after=after)
    return numbers


def _of_whole(finding: Finding, unit: str, of: str = "mean") -> str:
    """The step that counts are of: where they differ from step to step, which one is said."""
    counts = (finding.evidence.count_baseline or 0.0, finding.evidence.count_candidate or 0.0)
    return unit if all(f"{one:.2f}".endswith(".00") for one in counts) else f"{of} {unit}"


def _idle(
    cause: str,
    where: Where,
    *,
    copies: bool = False,
    host_only: bool = False,
    short: bool = False,
    other_stream: float | None = None,
    other_device: bool = False,
) -> str:
    """What idle time of a cause at a place is; `short`: the CUDA function that has most of it is not named where a range says enough."""
    place, api = where.range or "", where.api or ""
    unannotated = cause == "host_work" and place.startswith(OUTSIDE)
    pattern = "idle_unannotated" if unannotated else f"idle_{cause}"
    if cause == "launch_api" and copies:
        pattern = "idle_memsets" if "Memset" in api else "idle_copies"
    elif host_only and cause == "host_sync":
        pattern = "idle_host_sync_of_host"
    elif other_device:
        pattern = f"idle_{cause}_on_device"
    elif cause == "dependency" and other_stream is not None:
        pattern = "idle_other_stream" if other_stream >= MOSTLY else "idle_in_order"
    what = say(pattern, holder=_holder(where))
    if cause == "gil_wait":
        return what
    if cause == "host_work" and where.os_call:
        what = say("idle_in_call", what=what, api=where.os_call)
    if ROWS[cause].calls and api and not (short and place and cause != "host_api"):
        called = say("and_other_calls", api=api) if where.other_calls else api
        what = say("idle_call" if cause == "host_sync" else "idle_in_call", what=what, api=called)
    return _placed(what, at(place))


def _placed(what: str, place: str) -> str:
    """Something at a place, where that is known."""
    return f"{what} {place}".rstrip()


def _idle_of(finding: Finding, *, short: bool = False) -> str:
    """`short`: in a sentence, where the range says enough of the place."""
    facts = finding.facts
    if facts.without_gil and not (facts.awaited or finding.where.os_call):
        return _placed(say("idle_without_gil"), at(finding.where.range or ""))
    if facts.awaited:
        waits = _placed(say("idle_waits"), at(finding.where.range or ""))
        return say("idle_awaited", waits=waits, peer=awaited(facts.awaited)[0])
    return _idle(
        finding.cause, finding.where, copies=facts.copies, host_only=facts.host_only, short=short,
        other_stream=facts.other_stream, other_device=facts.other_device,
    )  # fmt: skip


def _holder(where: Where) -> str:
    thread, place = where.holder_thread or "", where.holder_range or ""
    who = the_thread(thread) if thread else say("thread_unknown")
    return _placed(who, "" if place.startswith(OUTSIDE) else at(place))


def _both_sides(where: Where) -> list[tuple[str, ...]]:
    return [side for side in (where.called, where.replaced_by) if side]


def kernel_sides(where: Where, most: int | None = None) -> list[str]:
    """The kernels of each side that are called otherwise: `["2 x mul", "silu"]`; of many the first, where one more is none too many."""
    said = []
    for side in _both_sides(where):
        names = name_counts(_COPY.sub(r"\1", name) for name in side)
        more = len(names) - (most or len(names))
        said.append(" + ".join(names if more <= 1 else [*names[:most], f"{more} more"]))
    return said


def the_thread(role: str) -> str:
    """`the executor thread`; a role that says so itself is no thread twice."""
    if role == UNNAMED:
        return say("thread_unnamed")
    return say("thread_itself" if role.startswith(("thread ", "launcher ")) else "thread_of", role=role)


def place_name(place: str) -> str:
    """A place by itself: a range, `between A and B`, `no NVTX range`."""
    return say("no_range") if place == OUTSIDE else place.removeprefix(f"{OUTSIDE}, ")


def function_of(place: str) -> str:
    """A range in a sentence: of a Python function that nsys calls by all of its modules, its class and its own name."""
    return _MODULES.sub("", place)


def at(place: str) -> str:
    """`in RANGE`; of what lies in none `between A and B`, `between two A`, of what no range is around that."""
    if not place or place == OUTSIDE:
        return say("in_no_range") if place else ""
    around = beside(place)
    if around is None:
        return say("in_range", range=function_of(place))
    one, other = around[0], around[-1]
    return say("between_two", range=one) if len(around) > 1 and one == other else place_name(place)


def _count(value: float) -> str:
    return f"{value:,.0f}" if abs(value - round(value)) < 0.005 else f"{value:,.2f}"
