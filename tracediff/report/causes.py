"""Causes as people read them: one row each, for every row of model/causes.py.

Four hues, one a group, in three shades each: GPU busy (blue, of which moving data is violet), GPU waiting on the
device, GPU waiting for CUDA calls, GPU waiting for Python. Shades of a group differ in lightness, for who cannot tell hues.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tracediff.kernels.names import GROUPS, category
from tracediff.model import CallFact, Finding, FindingPart, Shares
from tracediff.model.causes import CAUSES as ROWS
from tracediff.model.show import IdleCause
from tracediff.report.escape import shorten
from tracediff.report.grammar import say
from tracediff.report.units import counted


@dataclass(frozen=True)
class CauseWords:
    """Words and colours of a cause.

    label: on charts. name: in prose. light, dark: the colour of a category in both themes. title: what a finding of it is
    called, with the fields that report/causes.py fills. next: what to do about it.
    """

    key: str
    label: str
    name: str
    group: str = ""
    light: str = ""
    dark: str = ""
    meaning: str = ""
    title: str = ""
    next: str = ""


_BUSY, _DEVICE, _CALLS, _HOST = "GPU busy", "GPU waits: device", "GPU waits: CUDA calls", "GPU waits: host"
CAUSES: dict[str, CauseWords] = {
    row.key: row
    for row in (
        CauseWords("compute", "compute", "compute", _BUSY, "#27548f", "#7fb0ee",
                   "A compute kernel was running."),
        CauseWords("comm", "exposed comm", "exposed communication", _BUSY, "#2f2a75", "#cdc9fb",
                   "Only communication kernels (NCCL, all-reduce) were running.",
                   "communication {kernel}: {numbers}",
                   "compare ranks: time in a collective is mostly waiting for the rank that comes last"),
        CauseWords("memcpy", "exposed copies", "exposed copies", _BUSY, "#a496cf", "#7f73ad",
                   "Only copies or memory sets were running.",
                   "{kernel}: {numbers}",
                   "find the copy's launching range; overlap it, or drop it"),
        CauseWords("launch_latency", "launch latency", "launch latency", _DEVICE, "#1c6e6a", "#6cc4bd",
                   "The launch had returned, nothing else was in the way, and the op had not started.",
                   "launch latency {place}",
                   "the GPU was empty when the work came: launch earlier (overlap scheduler) or use CUDA graphs"),
        CauseWords("dependency", "dependency", "dependency wait", _DEVICE, "#45958f", "#499f98",
                   "The op had been launched; it waited for work before it in its stream or another, an event, a device or a rank.",
                   "launched work waits {waits} {place}",
                   "look at what the op waited for: the work before it, another stream, an event, a peer"),
        CauseWords("graph_internal", "inside graphs", "inside graphs", _DEVICE, "#7bb3ae", "#347670",
                   "Between two nodes of one graph launch.",
                   "gaps inside CUDA graphs launched {place}",
                   "fewer nodes, or programmatic dependent launch, shorten the gaps inside a graph"),
        CauseWords("launch_api", "launch calls", "launch calls", _CALLS, "#8f5b0c", "#e3b463",
                   "The host was inside the launching call.",
                   "{launching}{called} {place}",
                   "count the launches per step: CUDA graphs or fewer, larger kernels cut this time"),
        CauseWords("host_sync", "sync calls", "sync calls", _CALLS, "#b57f2e", "#bd8b3c",
                   "The host was inside a synchronising call that outlasted the GPU's work.",
                   "{synchronising}{called} {place}",
                   "find the call {place} and remove the synchronisation or move it off the step's path"),
        CauseWords("host_api", "other CUDA calls", "other CUDA calls", _CALLS, "#cfa460", "#8d672a",
                   "The host was inside another CUDA call: allocation, event, query.",
                   "other CUDA calls{called} {place}",
                   "find the call (allocation, event, query) {place} and take it out of the step"),
        CauseWords("gc", "Python GC", "Python GC", _HOST, "#74264e", "#e58fb6",
                   "The launching thread was in a garbage-collection pause.",
                   "Python GC {place}",
                   "freeze or disable the collector in the executor (gc.freeze, TRTLLM_WORKER_DISABLE_GC=1),"
                   " or collect between batches"),
        CauseWords("gil_wait", "GIL wait", "GIL wait", _HOST, "#a04b77", "#bd6892",
                   "The launching thread was waiting for the GIL.",
                   "{idle}{thread} waits for the GIL, held by {holder}",
                   "move the holder's work to another process, or release the GIL in it"),
        CauseWords("host_work", "host work", "host work", _HOST, "#c383a3", "#8b4a6a",
                   "The launching thread was doing anything else, named by its innermost range.",
                   "host work {place}",
                   "profile the host code {place} (for Python: py-spy), or add finer ranges there"),
        CauseWords("unattributed", "unattributed", "unattributed", "unknown", "#858c96", "#7c848f",
                   "No launch row, or that kind of trace was not captured.",
                   "idle time without a recorded launching call {place}",
                   "capture the CUDA API as well (nsys -t cuda, ProfilerActivity.CUDA) so that idle time finds its cause"),
        CauseWords("kernel_time", "kernel time", "kernel time",
                   title="kernel replaced: {kernel}, {times}",
                   next="profile this kernel with Nsight Compute on both sides (ncu -k) and compare occupancy and traffic"),
        CauseWords("kernel_fused", "kernels fused", "kernels fused",
                   title="kernels fused: {kernel}, {numbers}",
                   next="check that the fused kernel does the same work; compare it in Nsight Compute with the sum of the others"),
        CauseWords("kernel_split", "kernel split", "kernel split",
                   title="kernel split: {kernel}, {numbers}",
                   next="find out why one kernel became several (a fusion pass that no longer fires, a changed shape)"),
        CauseWords("kernel_added", "kernels added", "kernels added",
                   title="more launches of {kernel}: {numbers}",
                   next="find who launches it: its range and the launching call are in the kernel table"),
        CauseWords("kernel_removed", "kernels removed", "kernels removed",
                   title="fewer launches of {kernel}: {numbers}",
                   next="check that its work is done elsewhere, or was not needed"),
        CauseWords("batch_mix", "batch mix", "batch mix",
                   title="different batch mix ({shares})",
                   next="run both sides with the same requests and arrival times before comparing totals"),
    )
}  # fmt: skip


# Advice where the cause's own cannot help.

_AWAITS = re.compile(r"(?i)(?<![a-z])(recv|receive|wait|await|poll|join|barrier)(?![a-z])")
_NEXT = {
    "awaits": "find what the thread waits for {place}: look at the process or thread at the other end",
    "code_loads": "find what loads code in every step (a plan for each new shape): warm these shapes up, or keep what was loaded",
    "one_graph": "one call launches each graph already: only fewer or smaller graphs, or a faster CPU, cut this time",
    "pageable": "find the copy's launching range; make it asynchronous from pinned memory, overlap it, or drop it",
    "copies": "count the copies per step: fewer and larger ones cut this time",
}


def advice(finding: Finding) -> str:
    """What to do next about the cause of a finding."""
    where, facts = finding.where, finding.facts
    awaits = not (where.range or "").startswith(OUTSIDE) and _AWAITS.search(where.range or "")
    text = CAUSES[finding.cause].next
    if facts.code_loads:
        text = _NEXT["code_loads"]
    elif facts.memory[1:] == ["pageable"]:
        text = _NEXT["pageable"]
    elif finding.cause == "host_work" and awaits:
        text = _NEXT["awaits"]
    elif finding.cause == "launch_api" and facts.copies:
        text = _NEXT["copies"]
    elif finding.cause == "launch_api" and "GraphLaunch" in (where.api or ""):
        text = _NEXT["one_graph"]
    return text.format(place=at(where.range or "") or "of this thread")


# What causes are called: a short name in sentences, a title in lists.


OUTSIDE = "outside any range"
_LONGEST = 30  # characters of a kernel in a sentence
_NAMED = 3  # kernels of a side in a title
_SPOKEN = 2  # kernels in a sentence
_CROSSED = 0.5  # of the waiting time followed an op of another stream: that is what was waited for
_COPY = re.compile(r"\[(mem\w+[^\]]*)\]")  # an op that is no kernel
# Titles of kernels where both sides are matched in a certain way, else that of the cause.
_MATCHED = {
    ("kernel_added", "added"): "new kernel {kernel}: {after} per {unit}",
    ("kernel_removed", "removed"): "kernel removed: {kernel}, {before} per {unit}",
    ("kernel_time", "exact"): "{kernel}: {times}, {numbers}",
    ("kernel_time", "name"): "{kernel} in another launch shape: {times}, {numbers}",
    ("kernel_time", "replaced"): "kernels replaced: {kernel}",
}
# An op whose own time is unchanged: it ran beside other work before, or does now.
_OVERLAP = "{kernel} overlaps with other work for {before:.0f} -> {after:.0f} % of its time"
_LAUNCHED = "{range} launches {before} -> {after} kernels per step"
_ON_STREAMS = "{overlap} ({before} -> {after} streams per step)"
_IN_SENTENCES = {
    "kernel_fused": "fused {kernels}, {before} -> {after} launches",
    "kernel_split": "split {kernels}, {before} -> {after} launches",
    "kernel_added": "more launches of {kernel}, {before} -> {after}",
    "kernel_removed": "fewer launches of {kernel}, {before} -> {after}",
    "kernel_time": "{change} {kernels}",
    "memcpy": "{new}{kernel}",
    "comm": "communication ({kernel})",
}
# What makes up most of a generated name: `vectorized_elementwise_kernel<silu_kernel>` does what its argument says.
_GENERIC = re.compile(r"elementwise|reduce_kernel|^Kernel\d*$|^device_kernel$")
_AFFIXES = re.compile(r"^CUDAFunctor(?:OnOther|OnSelf)?_|(?:_kernel(?:_cuda|_impl)?|Functor)$")
KINDS = {kind: word for word, kind in GROUPS.items()}


def title(finding: Finding, unit: str = "step") -> str:
    """The title of a finding in a list, which shows its delta, thread and phase beside it."""
    if finding.cause == "batch_mix":
        return CAUSES["batch_mix"].title.format(shares=_shares(finding))
    if finding.facts.launched:
        return _launched(finding, finding.facts.launched)
    if ROWS[finding.cause].kind != "idle":
        return _kernel(finding, unit) + (", in rare steps" if finding.part == "tail" else "")
    rare = ", in rare steps" if finding.part == "tail" or finding.facts.rare else ""
    if finding.facts.code_loads:
        return _loading(finding.facts.code_loads) + rare
    if finding.facts.graph_coverage:
        return f"{_graphs(finding)} {at(finding.where.range or '')}".rstrip() + rare
    if finding.facts.counted_calls:
        called = f" ({finding.where.api})" if finding.where.api else ""
        return f"{_synchronisations(finding)}{called} {at(finding.where.range or '')}".rstrip() + rare
    text = _idle_of(finding) + rare
    if finding.facts.delta_all_ranks_ns is not None:
        text += f", on rank {finding.where.rank} alone"
    return text


def _other_memory(finding: Finding) -> str:
    """` of pageable memory, pinned before` of copies that changed it."""
    before, after = finding.facts.memory or ("", "")
    return f" of {after} memory, {before} before" if before and after and before != after else ""


def _overlap(finding: Finding, kernel: str) -> str:
    behind, streams = finding.facts.overlap or Shares(0.0, 0.0), finding.facts.streams
    said = _OVERLAP.format(kernel=kernel, before=100 * behind.baseline, after=100 * behind.candidate)
    if streams is None:
        return said
    return _ON_STREAMS.format(
        overlap=said, before=f"{streams.baseline:.0f}", after=f"{streams.candidate:.0f}"
    )


def _launched(finding: Finding, launched: CallFact) -> str:
    before, after = _count(launched.baseline), _count(launched.candidate)
    return _LAUNCHED.format(range=finding.where.range, before=before, after=after)


def _loading(load: CallFact) -> str:
    return f"loading code and host work around it ({load.api} {load.baseline:.0f} -> {load.candidate:.0f} per step)"


def named(finding: Finding) -> str:
    """A finding in a sentence: `host work in _schedule`, `fused kernels (a + b -> c)`."""
    facts, where = finding.facts, finding.where
    if finding.cause == "gil_wait":
        return f"waiting for the GIL held by {_holder(where.holder_thread or '', where.holder_range or '')}"
    if facts.graph_coverage:
        return _graphs(finding)
    if facts.launched:
        return _launched(finding, facts.launched)
    if facts.code_loads:
        return _loading(facts.code_loads)
    if facts.counted_calls:
        return f"{_synchronisations(finding)} {at(where.range or '')}".rstrip()
    if ROWS[finding.cause].kind == "idle":
        return _idle_of(finding, short=True)
    if finding.cause == "batch_mix":
        return "different batch mix"
    kernel = spoken(where.kernel or "") + _others(finding) + _other_memory(finding)
    if facts.overlap:
        return _overlap(finding, kernel)
    if facts.match == "replaced":
        after = (where.kernel or "").partition(" -> ")[2]
        return f"{_first_of(where.kernel or '')} replaced by {_first_of(after)}"
    if facts.late_rank is not None:
        return f"waiting for rank {where.rank} in {kernel or 'communication'}"
    if facts.match in ("added", "removed") and finding.cause == f"kernel_{facts.match}":
        return say(f"kernel_{facts.match}", kernel=kernel)
    text = _IN_SENTENCES.get(finding.cause, "{kernel}")
    slower = "slower" if finding.delta_ns > 0 else "faster"
    counts = (finding.evidence.count_baseline, finding.evidence.count_candidate)
    before, after = (_count(one or 0.0) for one in counts)
    return text.format(
        before=before,
        after=after,
        kernel=kernel,
        kernels="GEMMs"
        if kernel == "GEMM"
        else f"kernels ({kernel})"
        if " " in kernel
        else f"{kernel} kernels",
        change="replaced" if facts.match not in ("", "exact", "name") else slower,
        new="a new " if finding.evidence.count_baseline == 0 else "",
    )


def spoken(text: str) -> str:
    """Kernels in a sentence, those of the baseline where both sides are called otherwise: `GEMM`, `mul and silu`."""
    names = list(dict.fromkeys(brief(name) for name in text.partition(" -> ")[0].split(" + ") if name))
    return joined(names)


def _others(finding: Finding) -> str:
    """` and 9 more kernels` of kernels that changed together, where no fusion or split names them."""
    rows = len({one.where.kernel for one in finding.parts if not one.follows})
    named_by_block = finding.cause in ("kernel_fused", "kernel_split") or finding.facts.match == "replaced"
    if rows < 2 or named_by_block or not finding.cause.startswith("kernel"):
        return ""
    return f" and {counted(rows - 1, 'more kernel')}"


def _first_of(text: str) -> str:
    """The first kernel of a side, and how many more: `flash_fwd and 2 more kernels`."""
    names = text.partition(" -> ")[0].split(" + ")
    more = len(names) - 1
    return brief(names[0]) + (f" and {counted(more, 'more kernel')}" if more else "")


def joined(names: list[str]) -> str:
    """`a`, `a and b`, `a, b and 3 more`."""
    if len(names) > _SPOKEN + 1:
        names = [*names[:_SPOKEN], f"{len(names) - _SPOKEN} more"]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def brief(name: str) -> str:
    """What a kernel does: `GEMM` of those with a generated name, `silu`, else its name without arguments of its template."""
    name = re.sub(r"^\d+ x ", "", _COPY.sub(r"\1", name))
    function, _, arguments = name.partition("<")
    word = function
    if arguments and _GENERIC.search(function):
        types = re.findall(r"[A-Za-z_]\w*", arguments)
        word = types[-1] if types else function
        word = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", _bare(word)).lower()
    word = _bare(word)
    kind = KINDS.get(category(name))
    if kind and (len(word) > 20 or word.startswith("nvjet")):
        return kind
    return shorten(word, _LONGEST)


def _bare(name: str) -> str:
    """A name without what all names of its kind begin and end with, where three letters are left: not `or` of or_kernel."""
    bare = _AFFIXES.sub("", name)
    return bare if len(bare) > 2 else name


def part_named(part: FindingPart) -> str:
    """A row of what belongs to a finding, by its cause and its place."""
    where = part.where
    if ROWS[part.cause].kind == "idle":
        return _idle(
            part.cause, where.range or "", where.thread or "", where.holder_thread or "", where.holder_range or "",
            where.api or "", copies=False, host_only=False,
        )  # fmt: skip
    return _kernels(where.kernel or "") or CAUSES[part.cause].name


def part_kinds(part: FindingPart) -> list[tuple[str, float]]:
    """What a row of a cause is, as rows of one kind are summed, with its ns: `GEMM`, `launch calls`; each name of a row of several."""
    if ROWS[part.cause].kind == "idle":
        return [(CAUSES[part.cause].name, part.delta_ns)]
    if part.of:
        return [(brief(name), ns) for name, ns in part.of.items()]
    return [(spoken(part.where.kernel or "") or CAUSES[part.cause].name, part.delta_ns)]


def idle_title(one: IdleCause, *, host_only: bool) -> str:
    """The title of idle time in the report of one side; it names the thread, which no column does."""
    text = _idle(
        one.cause, one.range, one.thread, one.holder_thread, one.holder_range, one.api, copies=one.copies,
        host_only=host_only,
    )  # fmt: skip
    return f"{text}, on {the_thread(one.thread)}" if one.thread and one.cause in ("gc", "host_work") else text


def idle_named(one: IdleCause) -> str:
    """The same in a sentence: `host work in _schedule`, `waiting for the GIL held by the detokenizer thread`."""
    if one.cause == "gil_wait":
        return f"waiting for the GIL held by {_holder(one.holder_thread, one.holder_range)}"
    return _idle(
        one.cause, one.range, one.thread, one.holder_thread, one.holder_range, one.api, copies=one.copies,
        host_only=True, short=True,
    )  # fmt: skip


def run_name(name: str) -> str:
    """A run as sentences name it: its file without the ending."""
    for ending in (".xz", ".zst", ".gz"):
        name = name.removesuffix(ending)
    return name.removesuffix(".sqlite").removesuffix(".nsys-rep")


def _graphs(finding: Finding) -> str:
    """`CUDA graphs launch 0 -> 98 % of all kernels`: of the mean step over all phases."""
    shares = finding.facts.graph_coverage
    assert shares is not None
    return f"CUDA graphs launch {100 * shares.baseline:.0f} -> {100 * shares.candidate:.0f} % of all kernels"


def _synchronisations(finding: Finding) -> str:
    """Of the typical step of its phase; for rare steps, of the mean over all."""
    before, after = (
        _count(count or 0.0) for count in (finding.evidence.count_baseline, finding.evidence.count_candidate)
    )
    return f"{before} -> {after} synchronisations per {'mean ' * (finding.part != 'typical')}step"


def _shares(finding: Finding) -> str:
    shares = [
        f"{one.phase} {100 * one.baseline:.0f} % -> {100 * one.candidate:.0f} % of steps"
        for one in finding.facts.shares
    ]
    return ", ".join(shares) or "other batch sizes"


def _kernel(finding: Finding, unit: str) -> str:
    facts, where = finding.facts, finding.where
    kernel = _kernels(where.kernel or "") + _other_memory(finding)
    before, after = (
        _count(count or 0.0) for count in (finding.evidence.count_baseline, finding.evidence.count_candidate)
    )
    unit = _of_whole(finding, unit)
    numbers = f"{before} per {unit}" if before == after else f"{before} -> {after} per {unit}"
    if facts.late_rank is not None:
        return f"waiting for rank {where.rank} in {kernel}: {numbers}"
    text = _MATCHED.get((finding.cause, facts.match), CAUSES[finding.cause].title)
    text = text.format(
        kernel=kernel + _others(finding), before=before, after=after, numbers=numbers, unit=unit,
        times=f"{facts.baseline_mean_ns / 1e3:.2f} -> {facts.candidate_mean_ns / 1e3:.2f} us each",
    )  # fmt: skip
    if facts.hidden_ns is None:
        return text
    pattern = "hidden_more" if facts.hidden_ns > 0 else "hidden_less"
    return say(pattern, text=text, size=f"{abs(facts.hidden_ns) / 1e3:,.0f} us")


def _of_whole(finding: Finding, unit: str) -> str:
    """The step that counts are of: where they differ from step to step, which steps' mean they are is said."""
    counts = (finding.evidence.count_baseline or 0.0, finding.evidence.count_candidate or 0.0)
    if finding.part == "tail" or all(f"{one:.2f}".endswith(".00") for one in counts):
        return unit
    return f"{finding.part} {unit}"


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
    short: bool = False,
    other_stream: float | None = None,
) -> str:
    """What idle time of a cause at a place is; `api`: the CUDA function that its longest piece lies in, not named where `short` and a range says enough."""
    if cause == "host_work" and place.startswith(OUTSIDE):
        return f"un-annotated host code {_between(place.removeprefix(OUTSIDE).removeprefix(', '))}".rstrip()
    copying = "memset calls" if "Memset" in api else "copying calls"
    if short and place and cause != "host_api":
        api = ""
    text = CAUSES[cause].title.format(
        idle="" if host_only else "GPU idle: ",
        synchronising="synchronising calls" if host_only else "GPU idle after synchronisation",
        thread=the_thread(thread) if thread else "the host",
        place=at(place),
        holder=_holder(holder, holder_place),
        waits="for a stream, event or peer"
        if other_stream is None
        else "for another stream, event or peer"
        if other_stream >= _CROSSED
        else "in stream order or for an event",
        launching=copying if copies else "launch calls",
        called=f" (time in {api})"
        if api and cause in ("launch_api", "host_api")
        else f" ({api})"
        if api
        else "",
    )
    return " ".join(text.split()) if not place else text


def _idle_of(finding: Finding, *, short: bool = False) -> str:
    """`short`: in a sentence, where the range says enough of the place."""
    where = finding.where
    return _idle(
        finding.cause, where.range or "", where.thread or "", where.holder_thread or "", where.holder_range or "",
        where.api or "", copies=finding.facts.copies, host_only=finding.facts.host_only, short=short,
        other_stream=finding.facts.other_stream,
    )  # fmt: skip


def _holder(thread: str, place: str) -> str:
    at = f" in {place}" if place and not place.startswith(OUTSIDE) else ""
    return (the_thread(thread) if thread else "a thread that was not recorded") + at


def _between(place: str) -> str:
    """`between one step N and the next` where both ranges are called the same."""
    one, _, other = place.removeprefix("between ").partition(" and ")
    return f"between one {one} and the next" if place.startswith("between ") and one == other else place


def _kernels(text: str) -> str:
    """Kernels of both sides, of many the first."""
    sides = []
    for side in text.split(" -> "):
        names = [_COPY.sub(r"\1", name) for name in side.split(" + ")]
        more = len(names) - _NAMED
        sides.append(" + ".join(names if more <= 1 else [*names[:_NAMED], f"{more} more"]))
    return " -> ".join(sides)


def the_thread(role: str) -> str:
    """`the executor thread`; a role that says so itself is no thread twice."""
    if role == "thread without ranges":
        return "an unnamed thread"
    return f"the {role}" if role.startswith("thread ") else f"the {role} thread"


def at(place: str) -> str:
    """`in RANGE`, `between A and B` of what lies outside any range."""
    if not place:
        return ""
    if place.startswith(OUTSIDE):
        return place.removeprefix(f"{OUTSIDE}, ")
    return f"in {place}"


def _count(value: float) -> str:
    return f"{value:,.0f}" if abs(value - round(value)) < 0.005 else f"{value:,.2f}"
