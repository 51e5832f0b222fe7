"""What causes are called: a short name in sentences, a title in lists."""

from __future__ import annotations

import re

from tracediff.kernels.categories import category
from tracediff.model import Finding, FindingPart
from tracediff.model.causes import CAUSES as ROWS
from tracediff.model.show import IdleCause
from tracediff.report.causes import CAUSES
from tracediff.report.escape import shorten

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
_IN_SENTENCES = {
    "kernel_fused": "fused {kernels}",
    "kernel_split": "split {kernels}",
    "kernel_added": "more launches of {kernel}",
    "kernel_removed": "fewer launches of {kernel}",
    "kernel_time": "{change} {kernels}",
    "memcpy": "{new}{kernel}",
    "comm": "communication ({kernel})",
}
# What makes up most of a generated name: `vectorized_elementwise_kernel<silu_kernel>` does what its argument says.
_GENERIC = re.compile(r"elementwise|reduce_kernel|^Kernel\d*$|^device_kernel$")
_AFFIXES = re.compile(r"^CUDAFunctor(?:OnOther|OnSelf)?_|(?:_kernel(?:_cuda|_impl)?|Functor)$")
_KINDS = {"gemm": "GEMM", "attention": "attention", "communication": "NCCL"}


def title(finding: Finding, unit: str = "step") -> str:
    """The title of a finding in a list, which shows its delta, thread and phase beside it."""
    if finding.cause == "batch_mix":
        return CAUSES["batch_mix"].title.format(shares=_shares(finding))
    if ROWS[finding.cause].kind != "idle":
        return _kernel(finding, unit) + (", in rare steps" if finding.part == "tail" else "")
    rare = ", in rare steps" if finding.part == "tail" else ""
    if finding.facts.graph_coverage:
        return f"{_graphs(finding)} {at(finding.where.range or '')}".rstrip() + rare
    if finding.facts.counted_calls:
        called = f" ({finding.where.api})" if finding.where.api else ""
        return f"{_synchronisations(finding)}{called} {at(finding.where.range or '')}".rstrip() + rare
    text = _idle_of(finding) + rare
    if finding.facts.delta_all_ranks_ns is not None:
        text += f", on rank {finding.where.rank} alone"
    return text


def named(finding: Finding) -> str:
    """A finding in a sentence: `host work in _schedule`, `fused kernels (a + b -> c)`."""
    facts, where = finding.facts, finding.where
    if finding.cause == "gil_wait":
        return f"waiting for the GIL held by {_holder(where.holder_thread or '', where.holder_range or '')}"
    if facts.graph_coverage:
        return _graphs(finding)
    if facts.counted_calls:
        return f"{_synchronisations(finding)} {at(where.range or '')}".rstrip()
    if ROWS[finding.cause].kind == "idle":
        return _idle_of(finding, short=True)
    if finding.cause == "batch_mix":
        return "different batch mix"
    kernel = spoken(where.kernel or "") + _others(finding)
    if facts.match == "replaced":
        after = (where.kernel or "").partition(" -> ")[2]
        return f"{_first_of(where.kernel or '')} replaced by {_first_of(after)}"
    if facts.late_rank is not None:
        return f"waiting for rank {where.rank} in {kernel or 'communication'}"
    if facts.match in ("added", "removed") and finding.cause == f"kernel_{facts.match}":
        return f"{'the new' if facts.match == 'added' else 'the removed'} kernel {kernel}"
    text = _IN_SENTENCES.get(finding.cause, "{kernel}")
    slower = "slower" if finding.delta_ns > 0 else "faster"
    return text.format(
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
    names = list(dict.fromkeys(_brief(name) for name in text.partition(" -> ")[0].split(" + ") if name))
    return joined(names)


def _others(finding: Finding) -> str:
    """` and 9 more kernels` of kernels that changed together, where no fusion or split names them."""
    rows = len({one.where.kernel for one in finding.parts if not one.follows})
    named_by_block = finding.cause in ("kernel_fused", "kernel_split") or finding.facts.match == "replaced"
    if rows < 2 or named_by_block or not finding.cause.startswith("kernel"):
        return ""
    return f" and {rows - 1} more kernel{'s' if rows > 2 else ''}"


def _first_of(text: str) -> str:
    """The first kernel of a side, and how many more: `flash_fwd and 2 more kernels`."""
    names = text.partition(" -> ")[0].split(" + ")
    more = len(names) - 1
    return _brief(names[0]) + (f" and {more} more kernel{'s' if more > 1 else ''}" if more else "")


def joined(names: list[str]) -> str:
    """`a`, `a and b`, `a, b and 3 more`."""
    if len(names) > _SPOKEN + 1:
        names = [*names[:_SPOKEN], f"{len(names) - _SPOKEN} more"]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _brief(name: str) -> str:
    """What a kernel does: `GEMM` of those with a generated name, `silu`, else its name without arguments of its template."""
    name = re.sub(r"^\d+ x ", "", _COPY.sub(r"\1", name))
    function, _, arguments = name.partition("<")
    word = function
    if arguments and _GENERIC.search(function):
        types = re.findall(r"[A-Za-z_]\w*", arguments)
        word = types[-1] if types else function
        word = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", _bare(word)).lower()
    word = _bare(word)
    kind = _KINDS.get(category(name))
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
        return [(_brief(name), ns) for name, ns in part.of.items()]
    return [(spoken(part.where.kernel or "") or CAUSES[part.cause].name, part.delta_ns)]


def idle_title(one: IdleCause, *, host_only: bool) -> str:
    """The title of idle time in the report of one side; it names the thread, which no column does."""
    text = _idle(
        one.cause, one.range, one.thread, one.holder_thread, one.holder_range, one.api, copies=one.copies,
        host_only=host_only,
    )  # fmt: skip
    return (
        f"{text}, on {_the_thread(one.thread)}" if one.thread and one.cause in ("gc", "host_work") else text
    )


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
    """`CUDA graphs launch 0 -> 98 % of the kernels`."""
    shares = finding.facts.graph_coverage
    assert shares is not None
    return f"CUDA graphs launch {100 * shares.baseline:.0f} -> {100 * shares.candidate:.0f} % of the kernels"


def _synchronisations(finding: Finding) -> str:
    """Of the typical step of its phase; for rare steps, of the mean over all: calls are counted by function, not by place."""
    before, after = (
        _count(count or 0.0) for count in (finding.evidence.count_baseline, finding.evidence.count_candidate)
    )
    return f"{before} -> {after} synchronisations per {'mean ' * (finding.part == 'tail')}step"


def _shares(finding: Finding) -> str:
    shares = [
        f"{one.phase} {100 * one.baseline:.0f} % -> {100 * one.candidate:.0f} % of steps"
        for one in finding.facts.shares
    ]
    return ", ".join(shares) or "other batch sizes"


def _kernel(finding: Finding, unit: str) -> str:
    facts, where = finding.facts, finding.where
    kernel = _kernels(where.kernel or "")
    before, after = (
        _count(count or 0.0) for count in (finding.evidence.count_baseline, finding.evidence.count_candidate)
    )
    numbers = f"{before} per {unit}" if before == after else f"{before} -> {after} per {unit}"
    if facts.late_rank is not None:
        return f"waiting for rank {where.rank} in {kernel}: {numbers}"
    text = _MATCHED.get((finding.cause, facts.match), CAUSES[finding.cause].title)
    text = text.format(
        kernel=kernel, before=before, after=after, numbers=numbers, unit=unit,
        times=f"{facts.baseline_mean_ns / 1e3:.2f} -> {facts.candidate_mean_ns / 1e3:.2f} us each",
    ) + _others(finding).replace(" and", ", and")  # fmt: skip
    return (
        text
        if facts.hidden_ns is None
        else f"{text}, {abs(facts.hidden_ns) / 1e3:,.0f} us {'more' if facts.hidden_ns > 0 else 'less'} hidden behind kernels"
    )


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
    if short and place:
        api = ""
    text = CAUSES[cause].title.format(
        idle="" if host_only else "GPU idle: ",
        synchronising="synchronising calls" if host_only else "GPU idle after synchronisation",
        thread=_the_thread(thread) if thread else "the host",
        place=at(place),
        holder=_holder(holder, holder_place),
        waits="for a stream, event or peer"
        if other_stream is None
        else "for another stream, event or peer"
        if other_stream >= _CROSSED
        else "in stream order or for an event",
        launching=copying if copies else "launch overhead",
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
    return (_the_thread(thread) if thread else "a thread that was not recorded") + at


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


def _the_thread(role: str) -> str:
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
    return f"{value:.0f}" if abs(value - round(value)) < 0.005 else f"{value:.2f}"
