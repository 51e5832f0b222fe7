"""Which kernels of one profile are those of the other, also where one does the work of several."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd

from tracediff.companions import words as text
from tracediff.kernels.categories import category
from tracediff.kernels.matching import Match, OpKey, PhaseOps, match_kernels, normalise
from tracediff.model import KernelRow

_ANY = frozenset({"kernel", "kernels", "device", "global", "void", "cuda", "native", "impl", "detail", "launch", "std", "namespace", "unnamed", "anonymous"})  # fmt: skip
_CAST = re.compile(
    r"(?<=[<,])\([A-Za-z_][\w:]*\)(?=-?\d)"
)  # of a template argument, in a name without spaces
_LOGICAL = re.compile(r"(?<=[<,])(?:true|false)(?=[,>])")
_CONFIDENCE_OF_PLACE = 0.5  # one kernel on each side, alike in nothing
LARGEST = 6  # as many kernels as a row of the step's table puts into one (kernels/matching.py)
_CONFIDENCE = 0.5
_WORK = (("l2_bytes",), ("dram_read_bytes", "dram_write_bytes"))
_SHOWN = 4  # durations that a sentence adds up one by one


@dataclass(frozen=True)
class Kernel:
    """All launches of one kernel, as means; a key that one launch lacks is absent."""

    key: OpKey
    launches: int
    values: dict[str, float]
    stalls: dict[str, float]
    opcodes: dict[str, float]
    durations: tuple[float, ...]


Known = Mapping[OpKey, Kernel]


@dataclass(frozen=True)
class Pairing:
    """Kernels of the baseline that are those of the candidate; `kernel`: the row of the step's kernel table.

    A kernel that one of the other side's replaces several times is named as often.
    """

    match: str
    confidence: float
    baseline: tuple[OpKey, ...]
    candidate: tuple[OpKey, ...]
    kernel: int | None = None


def pair(
    baseline: Sequence[OpKey], candidate: Sequence[OpKey], kernels: Sequence[KernelRow] = ()
) -> list[Pairing]:
    """Pair the kernels of two sequences of launches; the rows of a comparison of steps, where there are any, decide."""
    one, other = list(dict.fromkeys(baseline)), list(dict.fromkeys(candidate))
    pairings = []
    for number, row in _by_time(kernels):
        mine = linked(one, row.baseline.names, row.baseline.grids) if row.baseline else []
        theirs = linked(other, row.candidate.names, row.candidate.grids) if row.candidate else []
        if mine and theirs:
            times = _times(row) if len(mine) == 1 else 1
            back = _times(row, backwards=True) if len(theirs) == 1 else 1
            pairings.append(
                Pairing(row.match, row.confidence, tuple(mine) * times, tuple(theirs) * back, number)
            )
            one = [key for key in one if key not in mine]
            other = [key for key in other if key not in theirs]
    return pairings + _with_rows(_by_name(baseline, candidate, one, other), kernels)


def related(one: str, other: str) -> bool:
    """Whether one kernel may do the work of another: of one category, or with a word of their names in common."""
    return category(one) == category(other) or bool(_words(one) & _words(other))


def _words(name: str) -> set[str]:
    """Words of three letters or more of a kernel's template, without those that any kernel may have."""
    found = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", normalise(name))
    return {word.lower() for word in found if len(word) > 2} - _ANY


def _by_time(kernels: Sequence[KernelRow]) -> list[tuple[int, KernelRow]]:
    rows = [(number, row) for number, row in enumerate(kernels) if row.baseline and row.candidate]
    return sorted(
        rows,
        key=lambda one: -max(side.ns_per_step for side in (one[1].baseline, one[1].candidate) if side),
    )


def _times(row: KernelRow, backwards: bool = False) -> int:
    """How many launches of one side the row puts into one of the other: by the counts per step."""
    if row.match != ("split" if backwards else "fused") or not row.baseline or not row.candidate:
        return 1
    counts = row.baseline.count_per_step, row.candidate.count_per_step
    above, below = reversed(counts) if backwards else counts
    times = above / below if below else 1.0
    return round(times) if times >= 1 and abs(times - round(times)) < 0.05 * times else 1


def _by_name(
    baseline: Sequence[OpKey], candidate: Sequence[OpKey], one: list[OpKey], other: list[OpKey]
) -> list[Pairing]:
    if len(one) == len(other) == 1 and one != other and normalise(one[0].name) != normalise(other[0].name):
        # A file of one kernel each was made to compare them, whatever their names.
        return [Pairing("sequence", _CONFIDENCE_OF_PLACE, (one[0],), (other[0],))]
    rounds = [
        _round([key for key in launches if key in keys])
        for launches, keys in ((baseline, set(one)), (candidate, set(other)))
    ]
    found = match_kernels(
        {"": PhaseOps({tuple(rounds[0]): 1}, one)}, {"": PhaseOps({tuple(rounds[1]): 1}, other)}
    )
    return [pairing for row in found.rows for pairing in _unmerged(row)]


def _unmerged(row: Match) -> list[Pairing]:
    """A kernel is not fused from, or split into, one of its own name and others: those are others."""
    many, single = (row.baseline, row.candidate) if row.match == "fused" else (row.candidate, row.baseline)
    same = [key for key in many if normalise(key.name) == normalise(single[0].name)] if single else []
    if row.match not in ("fused", "split") or not same or len(same) == len(many):
        return [Pairing(row.match, row.confidence, row.baseline, row.candidate)]
    tier, confidence = ("name", 0.95) if same[0].name == single[0].name else ("template", 0.85)
    fused = row.match == "fused"
    kept = (same[0],)
    pairings = [Pairing(tier, confidence, kept if fused else single, single if fused else kept)]
    for key in dict.fromkeys(key for key in many if key != same[0]):
        pairings.append(Pairing("removed", 0.8, (key,), ()) if fused else Pairing("added", 0.8, (), (key,)))
    return pairings


def _round(launches: list[OpKey]) -> list[OpKey]:
    """One round of a sequence that repeats; else each kernel once, in order of its first launch."""
    if not launches:
        return []
    rounds = gcd(*Counter(launches).values())
    length = len(launches) // rounds
    first = launches[:length]
    distinct = list(dict.fromkeys(launches))
    return first if first * rounds == launches and len(distinct) > 1 else distinct


def _with_rows(pairings: list[Pairing], kernels: Sequence[KernelRow]) -> list[Pairing]:
    """Rows of the step's table for kernels that it does not pair: where either side's kernel is found."""
    done = []
    for pairing in pairings:
        found = (
            number
            for number, row in enumerate(kernels)
            if (row.baseline and linked(pairing.baseline, row.baseline.names, row.baseline.grids))
            or (row.candidate and linked(pairing.candidate, row.candidate.names, row.candidate.grids))
        )
        done.append(replace(pairing, kernel=next(found, None)))
    return done


def linked(keys: Sequence[OpKey], names: Sequence[str], grids: Sequence[str]) -> list[OpKey]:
    """Those of the keys that are kernels of these names: of these grids if any has one of them, else of any grid."""
    squeezed = {_squeeze(name) for name in names}
    found = [key for key in dict.fromkeys(keys) if _squeeze(key.name) in squeezed]
    same_grid = [key for key in found if key.grid in grids]
    return same_grid or found


def _squeeze(name: str) -> str:
    """A name as either tool's demangler writes it: without spaces, return type, the parameter list and casts of numbers.

    nsys writes `<(int)4, (bool)1>` where ncu writes `<4, true>` or `<4, 1>`.
    """
    text = re.sub(r"\s+", "", re.sub(r"^(?:static )?void\s+", "", name.strip()))
    if text.endswith(")"):
        depth = 0
        for at in range(len(text) - 1, 0, -1):
            depth += {")": 1, "(": -1}.get(text[at], 0)
            if depth == 0:
                text = text[:at]
                break
    text = _CAST.sub("", _LOGICAL.sub(lambda found: "1" if found[0] == "true" else "0", text))
    return text.replace("(anonymousnamespace)::", "").replace("<unnamed>::", "")


# One launch that does the work of several.


def regrouped(
    pairing: Pairing, before: Known, after: Known, rows: Sequence[KernelRow]
) -> tuple[Pairing, str]:
    """The pair as a fusion or a split where counts and work say so, and the note that says it; else as it is, and ''.

    `rows`: those of a comparison of steps, whose counts per step go before the numbers of profiled launches.
    """
    times = _launches_for_one(pairing, before, after, rows)
    if not times or not related(pairing.baseline[0].name, pairing.candidate[0].name):
        return pairing, ""
    one, other = before[pairing.baseline[0]], after[pairing.candidate[0]]
    small, large = (one, other) if times > 0 else (other, one)
    ratios = _work(small, large)
    number = abs(times)
    if not ratios or min(ratios) < (1 + number) / 2:
        return pairing, ""
    counts = (
        f"{one.launches} launches were profiled against {other.launches}"
        if pairing.kernel is None
        else "so they stand in a step"
    )
    sides = ("candidate", "baseline") if times > 0 else ("baseline", "candidate")
    note = (
        f"taken for {_kernels(number) if times > 0 else _kernels(1)} -> {1 if times > 0 else number}: {counts}, and a launch of the"
        f" {sides[0]} moves {min(ratios):.1f} x the bytes of one of the {sides[1]}"
    )
    found = replace(pairing, match="fused" if times > 0 else "split", confidence=_CONFIDENCE)
    if times > 0:
        return replace(found, baseline=pairing.baseline * number), note
    return replace(found, candidate=pairing.candidate * number), note


def undecided(pairing: Pairing, before: Known, after: Known, rows: Sequence[KernelRow]) -> str:
    """Words for a pair of which nothing is known but counts, where launch by launch and in all say opposite things; else ''."""
    times = _launches_for_one(pairing, before, after, rows)
    if abs(times) < 2:
        return ""
    one, other = before[pairing.baseline[0]], after[pairing.candidate[0]]
    if _work(one, other):
        return ""
    single, all_ = one.values.get("duration_ns", 0.0), other.values.get("duration_ns", 0.0)
    in_all = (single * times, all_) if times > 0 else (single, all_ * -times)
    if (single < all_) == (in_all[0] < in_all[1]):
        return ""
    return (
        f"{text.both(text.time(single), text.time(all_))} a launch, {one.launches} launches against {other.launches}: whether one does"
        f" the work of {abs(times)} was not collected (ncu --section MemoryWorkloadAnalysis_Tables, or --set full)"
    )


def in_all(pairing: Pairing, before: Known, after: Known) -> str:
    """The launches of both sides added up: `2 kernels -> 1: 2 x 12.1 us -> 21.0 us`."""
    counts = len(pairing.baseline), len(pairing.candidate)
    return f"{_kernels(counts[0])} -> {counts[1]}: {_added(pairing.baseline, before)} -> {_added(pairing.candidate, after)}"


def _kernels(number: int) -> str:
    return "1 kernel" if number == 1 else f"{number} kernels"


def _added(keys: Sequence[OpKey], known: Known) -> str:
    uses = Counter(keys)
    times = {key: known[key].values["duration_ns"] for key in uses}
    if len(uses) > _SHOWN:
        return f"{text.time(sum(times[key] * count for key, count in uses.items()))} in all"
    parts = [
        text.time(times[key]) if count == 1 else f"{count} x {text.time(times[key])}"
        for key, count in uses.items()
    ]
    return " + ".join(parts)


def _launches_for_one(pairing: Pairing, before: Known, after: Known, rows: Sequence[KernelRow]) -> int:
    """How many launches of the baseline stand against one of the candidate; negative the other way; 0: neither a whole number.

    Only of two kernels with other names: a kernel that keeps its name does what it did.
    """
    if len(pairing.baseline) != 1 or len(pairing.candidate) != 1 or pairing.match in ("fused", "split"):
        return 0
    if pairing.baseline[0].name == pairing.candidate[0].name:
        return 0
    counts: tuple[float, float] = (before[pairing.baseline[0]].launches, after[pairing.candidate[0]].launches)
    if pairing.kernel is not None:
        row = rows[pairing.kernel]
        if row.baseline is None or row.candidate is None:
            return 0
        counts = row.baseline.count_per_step, row.candidate.count_per_step
    if min(counts) <= 0:
        return 0
    ratio = max(counts) / min(counts)
    if abs(ratio - round(ratio)) > 0.05 or not 2 <= round(ratio) <= LARGEST:
        return 0
    return round(ratio) if counts[0] > counts[1] else -round(ratio)


def _work(small: Kernel, large: Kernel) -> list[float]:
    """How many times the bytes of one launch another moves, at L2 and at DRAM, as far as collected."""
    found = []
    for keys in _WORK:
        sums = [
            sum(kernel.values[key] for key in keys)
            for kernel in (small, large)
            if all(key in kernel.values for key in keys)
        ]
        if len(sums) == 2 and min(sums) > 0:
            found.append(sums[1] / sums[0])
    return found
