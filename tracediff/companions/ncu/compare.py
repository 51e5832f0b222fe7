"""Two profiles of Nsight Compute compared: kernels paired, measured side by side, and a sentence for each pair."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import gcd
from typing import Literal

import msgspec
from msgspec.structs import replace

from tracediff.companions import words as text
from tracediff.companions.model import Ncu, NcuKernel, NcuMissing, NcuReason, NcuRow, NcuSide
from tracediff.companions.ncu.metrics import BY_KEY, METRICS, Launch, Profile
from tracediff.companions.ncu.reasons import CLEAR_CHANGE, bound, factors, limits, reasons
from tracediff.comparison.alignment import match_kernels
from tracediff.kernels.matching import Match, OpKey, PhaseOps, normalise
from tracediff.kernels.names import category
from tracediff.model import KernelRow, Note
from tracediff.report.grammar import say
from tracediff.report.names import without_arguments

# Not of every GPU or version of ncu: their absence is no advice.
_RARE = frozenset({"limit_barriers", "spill_instructions", "load_bytes_per_sector", "store_bytes_per_sector",
                   "dram_clock_hz", "sector_efficiency_pct", "bank_conflict_pct", "wide_access_pct",
                   "load_sectors_per_request", "store_sectors_per_request", "tensor_pct", "sms", "xu_pct", "load_bits",
                   "global_atomics", "tma_pct", "cluster_blocks"})  # fmt: skip
_CLOCKS_DIFFER = 0.05
_ORDER = {"slower": 0, "faster": 0, "not_collected": 1, "no_clear_change": 2, "added": 3, "removed": 3}
_ANY = frozenset({"kernel", "kernels", "device", "global", "void", "cuda", "native", "impl", "detail", "launch", "std", "namespace", "unnamed", "anonymous"})  # fmt: skip
# of a template argument, in a name without spaces
_CAST = re.compile(r"(?<=[<,])\([A-Za-z_][\w:]*\)(?=-?\d)")
_LOGICAL = re.compile(r"(?<=[<,])(?:true|false)(?=[,>])")
LARGEST = 6  # as many kernels as a row of the step's table puts into one (kernels/matching.py)
_CONFIDENCE = 0.5  # of what names do not tell: one kernel on each side, or counts and work
_WORK = (("l2_bytes",), ("dram_read_bytes", "dram_write_bytes"))
_SHOWN = 4  # durations that a sentence adds up one by one


class Kernel(msgspec.Struct, frozen=True):
    """All launches of one kernel, as means; a key that one launch lacks is absent."""

    key: OpKey
    launches: int
    values: dict[str, float]
    stalls: dict[str, float]
    durations: tuple[float, ...]


Known = Mapping[OpKey, Kernel]


class Pairing(msgspec.Struct, frozen=True):
    """Kernels of the baseline that are those of the candidate; `kernel`: the row of the step's kernel table.

    A kernel that one of the other side's replaces several times is named as often.
    """

    match: str
    confidence: float
    baseline: tuple[OpKey, ...]
    candidate: tuple[OpKey, ...]
    kernel: int | None = None


def compare_ncu(baseline: Profile, candidate: Profile, rows: Sequence[KernelRow] = ()) -> Ncu:
    """Compare two profiles; `rows`: kernel rows of a comparison of steps, which then say what belongs together."""
    known = kernels(baseline.launches), kernels(candidate.launches)
    orders = [[key_of(launch) for launch in side.launches] for side in (baseline, candidate)]
    found = [
        _with_lines(_row(pairing, *known, rows), baseline, candidate)
        for pairing in pair(orders[0], orders[1], rows)
    ]
    return Ncu(
        baseline=_side(baseline, known[0]),
        candidate=_side(candidate, known[1]),
        rows=sorted(found, key=_rank),
        warnings=_warnings(baseline, candidate, found),
    )


def _rank(row: NcuRow) -> tuple[int, float, list[str]]:
    """Clear changes first, largest first; then the rest by time."""
    sides = [side for side in (row.baseline, row.candidate) if side]
    longest = max((side.values.get("duration_ns", 0.0) for side in sides), default=0.0)
    order = _ORDER[row.change]
    return order, -(abs(row.delta_ns or 0.0) if order == 0 else longest), sides[0].names + sides[0].grids


def _row(
    pairing: Pairing, before: dict[OpKey, Kernel], after: dict[OpKey, Kernel], rows: Sequence[KernelRow]
) -> NcuRow:
    taken = said = ""
    if pairing.baseline and pairing.candidate:
        pairing, taken, said = regrouped(pairing, before, after, rows)
    together = pairing.match in ("fused", "split")
    one = combine(pairing.baseline, before, together) if pairing.baseline else None
    other = combine(pairing.candidate, after, together) if pairing.candidate else None
    row = NcuRow(
        match=pairing.match,  # type: ignore[arg-type]
        confidence=pairing.confidence,
        change="not_collected",
        baseline=one,
        candidate=other,
        delta_ns=None,
        sentence=say("ncu_no_duration"),
        kernel=pairing.kernel,
    )
    if one is None and other is not None:
        return replace(row, change="added", sentence=say("ncu_added", size=_alone(other)))
    if other is None and one is not None:
        return replace(row, change="removed", sentence=say("ncu_removed", size=_alone(one)))
    assert one is not None and other is not None
    times = one.values.get("duration_ns"), other.values.get("duration_ns")
    if not times[0] or not times[1]:
        return row
    change = "no_clear_change" if said else _change(one, other)
    why = [] if change == "no_clear_change" else _why(pairing, one, other)
    if together:
        counts = f"{_kernels(len(pairing.baseline))} -> {len(pairing.candidate)}"
        sums = f"{counts}: {_added(pairing.baseline, before)} -> {_added(pairing.candidate, after)}"
        said = _of_sums(sums, change, times[0], times[1], why)
    return replace(
        row,
        change=change,
        delta_ns=times[1] - times[0],
        sentence=said or _sentence(change, times[0], times[1], why, one, other),
        reasons=why,
        factors=factors(one, other),
        note="; ".join(filter(None, (taken, _note(pairing, one, other)))),
    )


def _with_lines(row: NcuRow, baseline: Profile, candidate: Profile) -> NcuRow:
    """The row with the line of source that its kernel stalls in most, where a report says it."""
    said = []
    for word, side, profile in (
        ("baseline", row.baseline, baseline),
        ("candidate", row.candidate, candidate),
    ):
        line = profile.lines.get(side.names[0]) if side and len(side.names) == 1 else None
        if line is not None:
            of = f", {line.stall}" if line.stall else ""
            said.append(
                f"{word} {line.file}:{line.line} ({text.percent(100 * line.share)} % of the samples{of})"
            )
    if not said:
        return row
    return replace(row, note="; ".join(filter(None, (f"most stalls: {', '.join(said)}", row.note))))


def _change(one: NcuKernel, other: NcuKernel) -> Literal["faster", "slower", "no_clear_change"]:
    """Tell whether the durations differ: beyond the threshold, and beyond the spread of the launches where known."""
    before, after = one.values["duration_ns"], other.values["duration_ns"]
    if abs(after - before) < CLEAR_CHANGE * before or _overlap(one, other):
        return "no_clear_change"
    return "slower" if after > before else "faster"


def _overlap(one: NcuKernel, other: NcuKernel) -> bool:
    """The launches of both sides, at least two each, cover common ground."""
    if min(one.launches, other.launches) < 2:
        return False
    least, most = one.duration_min_ns, one.duration_max_ns
    if least is None or most is None or other.duration_min_ns is None or other.duration_max_ns is None:
        return False
    return least <= other.duration_max_ns and other.duration_min_ns <= most


def _why(pairing: Pairing, one: NcuKernel, other: NcuKernel) -> list[NcuReason]:
    found = reasons(one, other)
    if pairing.match not in ("fused", "split"):
        return found
    counts = len(pairing.baseline), len(pairing.candidate)
    return [NcuReason(pairing.match, "cause", f"{_kernels(counts[0])} -> {counts[1]}"), *found]


def _sentence(
    change: str, before: float, after: float, why: Sequence[NcuReason], one: NcuKernel, other: NcuKernel
) -> str:
    both = text.both(text.time(before), text.time(after))
    if change == "no_clear_change":
        return say("ncu_no_change", both=both, part=text.part(after - before, before))
    because = "; ".join(reason.text for reason in why)
    if not because:
        known = "achieved_occupancy_pct" in one.values and "memory_pct" in other.values
        because = say("ncu_unexplained" if known and one.stalls and other.stalls else "ncu_uncounted")
    return say("ncu_change", times=text.times(before, after), change=change, both=both, because=because)


def _of_sums(sums: str, change: str, before: float, after: float, why: Sequence[NcuReason]) -> str:
    """The sentence of kernels that became one, or several: what they take in all."""
    by = 100 * (after - before) / before
    if change == "no_clear_change":
        return say("ncu_sums_alike", sums=sums, percent=f"{by:+.1f}")
    less = "less" if by < 0 else "more"
    head = say("ncu_sums_changed", sums=sums, percent=text.percent(abs(by)), less=less)
    return "; ".join([head, *(reason.text for reason in why if reason.rule not in ("fused", "split"))])


def _alone(side: NcuKernel) -> str:
    duration = side.values.get("duration_ns")
    return say("ncu_each", size=text.time(duration)) if duration else say("ncu_alone_unknown")


def _note(pairing: Pairing, one: NcuKernel, other: NcuKernel) -> str:
    notes = []
    if pairing.match == "sequence" and not related(one.names[0], other.names[0]):
        kinds = {"one": category(one.names[0]), "other": category(other.names[0])}
        notes.append(say("ncu_by_place", **kinds))
    if min(one.launches, other.launches) < 2:
        notes.append(say("ncu_one_launch"))
    by_name = pairing.kernel is None and pairing.match not in ("exact", "fused", "split")
    if one.launches != other.launches and by_name:
        notes.append(say("ncu_launches", one=f"{one.launches}", other=f"{other.launches}"))
    return "; ".join(notes)


def _side(profile: Profile, known: Known) -> NcuSide:
    missing: dict[str, list[str]] = {}
    for metric in METRICS:
        if metric.key not in _RARE and any(metric.key not in kernel.values for kernel in known.values()):
            missing.setdefault(metric.section, []).append(metric.key)
    if any(not kernel.stalls for kernel in known.values()):
        missing.setdefault("WarpStateStats", []).append("stalls")
    groups = [NcuMissing(keys, f"--section {section}") for section, keys in missing.items()]
    if len(groups) > 3:
        groups = [NcuMissing([key for keys in missing.values() for key in keys], "--set full")]
    return NcuSide(profile.file, profile.source, profile.device, len(profile.launches), len(known), groups)  # type: ignore[arg-type]


def _warnings(baseline: Profile, candidate: Profile, rows: Sequence[NcuRow]) -> list[Note]:
    notes = []
    if baseline.device and candidate.device and baseline.device != candidate.device:
        what = f"profiled on {baseline.device} and on {candidate.device}: % of peak are of another peak"
        notes.append(Note("ncu-devices-differ", what))
    pairs = [(row.baseline.values, row.candidate.values) for row in rows if row.baseline and row.candidate]
    clocks = [sorted((one.get("sm_clock_hz", 0.0), other.get("sm_clock_hz", 0.0))) for one, other in pairs]
    differ = sum(low > 0 and high / low > 1 + _CLOCKS_DIFFER for low, high in clocks)
    if differ:
        notes.append(
            Note("ncu-clocks-differ", f"{differ} of {len(rows)} kernels ran at SM clocks that differ by more than"
                 f" {100 * _CLOCKS_DIFFER:.0f} %: durations compare clocks as well (ncu --clock-control)")
        )  # fmt: skip
    if not pairs:
        notes.append(Note("ncu-nothing-paired", "no kernel of one side is like one of the other"))
    return notes


# Which kernels of one profile are those of the other.


def pair(
    baseline: Sequence[OpKey], candidate: Sequence[OpKey], kernels: Sequence[KernelRow] = ()
) -> list[Pairing]:
    """Pair the kernels of two sequences of launches; the rows of a comparison of steps, where there are any, decide."""
    one, other = list(dict.fromkeys(baseline)), list(dict.fromkeys(candidate))
    pairings = []
    both = [
        (number, row, before, after)
        for number, row in enumerate(kernels)
        if (before := row.baseline) and (after := row.candidate)
    ]
    both.sort(key=lambda found: -max(found[2].ns_per_step, found[3].ns_per_step))
    for number, row, before, after in both:
        mine, theirs = linked(one, before.names, before.grids), linked(other, after.names, after.grids)
        if mine and theirs:
            counts = before.count_per_step, after.count_per_step
            times = _times(*counts) if row.match == "fused" and len(mine) == 1 else 1
            back = _times(*counts[::-1]) if row.match == "split" and len(theirs) == 1 else 1
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


def _times(above: float, below: float) -> int:
    """How many launches of one side a row puts into one of the other: by the counts per step."""
    times = above / below if below else 1.0
    return round(times) if times >= 1 and abs(times - round(times)) < 0.05 * times else 1


def _by_name(
    baseline: Sequence[OpKey], candidate: Sequence[OpKey], one: list[OpKey], other: list[OpKey]
) -> list[Pairing]:
    if len(one) == len(other) == 1 and one != other and normalise(one[0].name) != normalise(other[0].name):
        # A file of one kernel each was made to compare them, whatever their names.
        return [Pairing("sequence", _CONFIDENCE, (one[0],), (other[0],))]
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
    return [key for key in found if key.grid in grids] or found


def _squeeze(name: str) -> str:
    """A name as either tool's demangler writes it: without spaces, return type, the parameter list and casts of numbers.

    nsys writes `<(int)4, (bool)1>` where ncu writes `<4, true>` or `<4, 1>`.
    """
    text = re.sub(r"\s+", "", re.sub(r"^(?:static )?void\s+", "", name.strip()))
    text = without_arguments(text)
    text = _CAST.sub("", _LOGICAL.sub(lambda found: "1" if found[0] == "true" else "0", text))
    return text.replace("(anonymousnamespace)::", "").replace("<unnamed>::", "")


# One launch that does the work of several.


def regrouped(
    pairing: Pairing, before: Known, after: Known, rows: Sequence[KernelRow]
) -> tuple[Pairing, str, str]:
    """The pair as a fusion or a split where counts and work say so, with the note that says it; else as it is.

    The last: words for a pair of which nothing is known but counts, where launch by launch and in all say opposite things; else ''.
    `rows`: those of a comparison of steps, whose counts per step go before the numbers of profiled launches.
    """
    times = _launches_for_one(pairing, before, after, rows)
    if not times:
        return pairing, "", ""
    one, other = before[pairing.baseline[0]], after[pairing.candidate[0]]
    number = abs(times)
    small, large = (one, other) if times > 0 else (other, one)
    ratios = _work(small, large)
    if not ratios:
        single, all_ = one.values.get("duration_ns", 0.0), other.values.get("duration_ns", 0.0)
        in_all = (single * number < all_) if times > 0 else (single < all_ * number)
        undecided = say(
            "ncu_undecided", both=text.both(text.time(single), text.time(all_)), one=f"{one.launches}", other=f"{other.launches}",
            number=f"{number}",
        )  # fmt: skip
        return pairing, "", undecided if (single < all_) != in_all else ""
    if not related(pairing.baseline[0].name, pairing.candidate[0].name) or min(ratios) < (1 + number) / 2:
        return pairing, "", ""
    fused = times > 0
    sides = ("candidate", "baseline") if fused else ("baseline", "candidate")
    again = (number, 1) if fused else (1, number)
    note = say(
        "ncu_taken_by_launches" if pairing.kernel is None else "ncu_taken_by_step", before=_kernels(again[0]), after=f"{again[1]}",
        one=f"{one.launches}", other=f"{other.launches}", side=sides[0], beside=sides[1], ratio=f"{min(ratios):.1f}",
    )  # fmt: skip
    found = Pairing(
        "fused" if fused else "split", _CONFIDENCE, pairing.baseline * again[0], pairing.candidate * again[1],
        pairing.kernel,
    )  # fmt: skip
    return found, note, ""


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


# Launches of one side put together: means over the launches of a kernel, sums over the kernels of a row.


def key_of(launch: Launch) -> OpKey:
    """What a launch is."""
    return OpKey(launch.name, launch.grid, launch.block)


def kernels(launches: Iterable[Launch]) -> dict[OpKey, Kernel]:
    """Kernel -> means over its launches, in order of the first launch."""
    groups: dict[OpKey, list[Launch]] = {}
    for launch in launches:
        groups.setdefault(key_of(launch), []).append(launch)
    return {
        key: Kernel(
            key,
            len(group),
            _weighted([one.values for one in group]),
            _weighted([one.stalls for one in group]),
            tuple(one.values["duration_ns"] for one in group if "duration_ns" in one.values),
        )
        for key, group in groups.items()
    }


def combine(keys: Sequence[OpKey], known: Known, together: bool) -> NcuKernel:
    """One side of a row. `together`: the kernels (each as often as it is named) make one round; else any of them is it."""
    uses = Counter(keys)
    parts = [known[key] for key in uses]
    summed = together and len(keys) > 1
    if summed:
        values, stalls = _sum(parts, uses), {}
        durations = _sums(parts, uses)
    else:
        weights = [part.launches for part in parts]
        values = _weighted([part.values for part in parts], weights)
        stalls = _weighted([part.stalls for part in parts], weights)
        durations = [duration for part in parts for duration in part.durations]
    return NcuKernel(
        names=[key.name for key in keys] if together else list(dict.fromkeys(key.name for key in keys)),
        grids=list(dict.fromkeys(key.grid for key in keys if key.grid)),
        blocks=list(dict.fromkeys(key.block for key in keys if key.block)),
        launches=sum(part.launches for part in parts),
        values={name: values[name] for name in BY_KEY if name in values},
        duration_min_ns=min(durations, default=None),
        duration_max_ns=max(durations, default=None),
        bound=None if summed else bound(values),
        limited_by=[] if summed else limits(values),
        stalls=dict(sorted(stalls.items(), key=lambda one: (-one[1], one[0]))),
        summed=summed,
    )


def _sum(parts: Sequence[Kernel], uses: Counter[OpKey]) -> dict[str, float]:
    """Sums of what adds up over one round."""
    return {
        metric.key: sum(part.values[metric.key] * uses[part.key] for part in parts)
        for metric in METRICS
        if metric.additive and all(metric.key in part.values for part in parts)
    }


def _sums(parts: Sequence[Kernel], uses: Counter[OpKey]) -> list[float]:
    """The least and the most that one round can take; nothing where a kernel was profiled once only: its spread is not known."""
    if any(len(part.durations) < 2 for part in parts):
        return []
    return [sum(end(part.durations) * uses[part.key] for part in parts) for end in (min, max)]


def _weighted(rows: Sequence[dict[str, float]], weights: Sequence[int] = ()) -> dict[str, float]:
    """Means of what all rows have, which weigh alike where no weights are given."""
    if len(rows) == 1:
        return rows[0]
    weights = weights or [1] * len(rows)
    return {
        name: sum(row[name] * weight for row, weight in zip(rows, weights, strict=True)) / sum(weights)
        for name in rows[0]
        if all(name in row for row in rows)
    }
