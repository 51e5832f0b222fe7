"""What one capture advises, in sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from tracediff.model.show import Advice, Show
from tracediff.report import names, units
from tracediff.report.amounts import NAMED
from tracediff.report.blocks import Block, Items, Line, Section
from tracediff.report.grammar import say

_OUTSIDE = "outside"  # how the place of what lies in no range begins


def section(report: Show) -> list[Section]:
    """The advice, what gains most first; nothing without any."""
    if not report.advice:
        return []
    replayed = any(one.after_ns is not None for one in report.advice)
    notes = [Line([say("advice_replayed")], "note")] if replayed else []
    said: list[Block] = [Items([[one.text] for one in report.advice]), *notes]
    return [Section("advice", say("advice"), said, depth=1, menu=say("advice"), printed=True)]


def text(one: Advice) -> str:
    """The sentences of an advice."""
    return _TEXTS[one.kind](one)


def _replayed(one: Advice) -> dict[str, str]:
    whole, write = one.before_ns or 0.0, units.prose([one.before_ns])
    gained = whole - (one.after_ns or 0.0)
    sizes = {name: write.size(getattr(one, f"{name}_ns") or 0.0) for name in ("after", "low", "high")}
    gain = units.spoken(gained)
    return {
        "step": units.step(one.phase), "count": units.count(one.count_per_step),
        "times": units.counted(one.count_per_step, "time"), "gain": gain, "less": units.share(gained, whole), **sizes,
    }  # fmt: skip


def _graphs(one: Advice) -> str:
    return say("advice_graphs", share=units.share(one.share or 0.0), **_replayed(one))


def _fuse(one: Advice) -> str:
    together = units.prose([one.ns]).size(one.ns or 0.0)
    pattern = "advice_fuse" if one.range.startswith(_OUTSIDE) else "advice_fuse_in"
    saved = units.counted(one.count_per_step * (len(one.kernels) - 1), "kernel")
    return say(
        pattern, kernels=chain(one.kernels), range=one.range, together=together, saved=saved, **_replayed(one)
    )


def chain(kernels: Sequence[str]) -> str:
    """`add, 2 x mul, cast and 3 more`: short names, each once; of those that are left out every launch counts."""
    counts = Counter(map(names.short, kernels))
    said = names.counted(map(names.short, kernels))
    more = sum(list(counts.values())[NAMED:])
    return say("and_more", names=", ".join(said[:NAMED]), count=f"{more}") if more else ", ".join(said)


def _long(one: Advice) -> str:
    kernel, gemm = map(names.short, one.kernels)
    size, other = (units.prose([ns]).size(ns or 0.0) for ns in (one.ns, one.other_ns))
    share = units.share(one.share or 0.0)
    return say(
        "advice_long", kernel=kernel, category=one.category, gemm=gemm, size=size, other=other, share=share
    )


def _waits(one: Advice) -> str:
    write = units.prose([one.ns])
    whole, waits, calls = one.ns or 0.0, one.wait_ns or 0.0, one.calls_ns or 0.0
    sizes = {"whole": whole, "waits": waits, "calls": calls, "own": whole - waits - calls}
    pattern = "advice_waits" if one.calls_ns else "advice_waits_alone"
    return say(
        pattern, range=one.range, thread=one.thread, **{name: write.size(ns) for name, ns in sizes.items()}
    )


_TEXTS: dict[str, Callable[[Advice], str]] = {
    "graphs": _graphs, "fuse": _fuse, "long_kernel": _long, "range_waits": _waits,
}  # fmt: skip
