"""Kernels that were asked for by name, in words and tables, for every output."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from tracediff.model import KernelAnswer, KernelRow, Result
from tracediff.model.causes import OWN
from tracediff.report import names, units, words
from tracediff.report.grammar import say


def with_answers(result: Result) -> Result:
    """The result with the sentences of its answers."""
    return replace(
        result, kernel_answers=[replace(one, text=sentence(result, one)) for one in result.kernel_answers]
    )


def sentence(result: Result, one: KernelAnswer) -> str:
    """Say `gemm takes 12.9 us more per mean step (132 -> 145 us, +9.8 %), likely: 16.2 launches, 8.17 -> 8.97 us each`."""
    name, unit, mean = _name(result, one), words.unit(result), _mean_step(result)
    prose, each = (
        units.prose([one.baseline_ns, one.candidate_ns]),
        units.prose([one.baseline_mean_ns, one.candidate_mean_ns]),
    )
    if not one.baseline_count or not one.candidate_count:
        new = bool(one.candidate_count)
        count, ns = (one.candidate_count, one.candidate_ns) if new else (one.baseline_count, one.baseline_ns)
        size = each.size(one.candidate_mean_ns if new else one.baseline_mean_ns)
        slots = {
            "name": name,
            "size": prose.size(ns),
            "mean": mean,
            "launches": units.launches(count),
            "each": size,
        }
        return say("answer_new" if new else "answer_gone", **slots)
    counts = units.arrow(dict.fromkeys(map(units.count, (one.baseline_count, one.candidate_count))))
    slots = {
        "name": name, "mean": mean, "unit": unit, "both": prose.both(one.baseline_ns, one.candidate_ns),
        "launches": units.launches(one.candidate_count, counts), "each": each.both(one.baseline_mean_ns, one.candidate_mean_ns),
        "size": prose.size(one.delta_ns), "change": units.change(one.delta_ns, one.baseline_ns), "level": words.LEVELS[one.level][0],
    }  # fmt: skip
    if one.level == "within_noise":
        return say("answer_within", **slots)
    return say("answer_more" if one.delta_ns > 0 else "answer_less", **slots)


def _mean_step(result: Result) -> str:
    """An answer counts all compared steps, rare ones too."""
    unit = words.unit(result)
    return f"mean {unit}" if unit == "step" else unit


def _name(result: Result, one: KernelAnswer) -> str:
    """The kernel; of several how many there are."""
    rows = [result.kernels[at] for at in one.rows]
    said = list(dict.fromkeys(names.kernel(row, width=120) for row in rows))
    if len(said) == 1 and one.partly:
        return one.asked
    return said[0] if len(said) == 1 else f"{one.asked} ({len(said)} kernels)"


def none_changed(rows: Sequence[KernelRow]) -> str:
    """Say how many kernels are shown not to have changed, and of how many that is not known."""
    still = sum(map(words.still, rows))
    unknown = sum(row.level == "within_noise" for row in rows) - still
    pattern = "kernels_some_still" if still and unknown else "kernels_still" if still else "kernels_unknown"
    return say(
        pattern,
        rows=units.counted(still, "kernel row"),
        unknown=units.counted(unknown, "kernel row"),
        others=f"{unknown:,}",
        limit=units.share(OWN),
    )
