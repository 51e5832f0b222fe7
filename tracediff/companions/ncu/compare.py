"""Two files of Nsight Compute compared: kernels paired, measured side by side, and a sentence for each pair."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Literal

from msgspec.structs import replace

from tracediff.companions.ncu import reasons as text
from tracediff.companions.ncu.model import Ncu, NcuKernel, NcuMissing, NcuReason, NcuRow, NcuSide
from tracediff.companions.ncu.read import BY_KEY, METRICS, Launch, Profile
from tracediff.companions.ncu.reasons import CLEAR_CHANGE, bound, factors, limits, reasons
from tracediff.kernels.categories import category
from tracediff.kernels.matching import Match, OpKey, match_kernels, normalise
from tracediff.model import KernelRow, Note

# Kernels that Nsight Compute profiled: launches to kernels, kernels of one side to those of the other.

_ANY = frozenset({"kernel", "kernels", "device", "global", "void", "cuda", "native", "impl", "detail", "launch", "std", "namespace", "unnamed", "anonymous"})  # fmt: skip
_CAST = re.compile(
    r"(?<=[<,])\([A-Za-z_][\w:]*\)(?=-?\d)"
)  # of a template argument, in a name without spaces
_LOGICAL = re.compile(r"(?<=[<,])(?:true|false)(?=[,>])")
_CONFIDENCE_OF_PLACE = 0.5  # one kernel on each side, alike in nothing


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
    return pairings + _linked_lone(_alone_ncu(baseline, candidate, one, other), kernels)


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
    """How many launches of one side the row puts into one of the other: by the counts a step."""
    if row.match != ("split" if backwards else "fused") or not row.baseline or not row.candidate:
        return 1
    counts = row.baseline.count_per_step, row.candidate.count_per_step
    above, below = reversed(counts) if backwards else counts
    times = above / below if below else 1.0
    return round(times) if times >= 1 and abs(times - round(times)) < 0.05 * times else 1


def _alone_ncu(
    baseline: Sequence[OpKey], candidate: Sequence[OpKey], one: list[OpKey], other: list[OpKey]
) -> list[Pairing]:
    if len(one) == len(other) == 1 and one != other and normalise(one[0].name) != normalise(other[0].name):
        # A file of one kernel each was made to compare them, whatever their names.
        return [Pairing("sequence", _CONFIDENCE_OF_PLACE, (one[0],), (other[0],))]
    rounds = [
        _round([key for key in launches if key in keys])
        for launches, keys in ((baseline, set(one)), (candidate, set(other)))
    ]
    found = match_kernels({"": (rounds[0], set(one))}, {"": (rounds[1], set(other))})
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


def _linked_lone(pairings: list[Pairing], kernels: Sequence[KernelRow]) -> list[Pairing]:
    """Rows of the step's table for kernels that it does not pair: where either side's kernel is found."""
    done = []
    for pairing in pairings:
        number = next(
            (
                number
                for number, row in enumerate(kernels)
                if (row.baseline and linked(pairing.baseline, row.baseline.names, row.baseline.grids))
                or (row.candidate and linked(pairing.candidate, row.candidate.names, row.candidate.grids))
            ),
            None,
        )
        done.append(Pairing(pairing.match, pairing.confidence, pairing.baseline, pairing.candidate, number))
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


# SASS opcodes by class, for the instruction mix.

# The first pattern that an opcode begins with wins.
_CLASSES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("tensor", r"(?:H|I|B|D|Q|O)(?:G)?MMA|WGMMA|WARPGROUP|UTC\w*MMA|UT\w*MMA"),
        (
            "global memory",
            r"LDG|STG|LDGSTS|UBLKCP|UTMA|UBLKPF|UBLKRED|CCTL|LD(?!\w)|ST(?!\w)|LDGDEPBAR|DEPBAR",
        ),
        ("shared memory", r"LDS|STS|LDSM|STSM|ATOMS|LDTM|STTM"),
        ("local memory", r"LDL|STL"),
        ("atomics", r"ATOM|RED(?!UX)"),
        ("fp64", r"D(?:ADD|FMA|MUL|SETP|MNMX)"),
        ("half", r"H(?:ADD|FMA|MUL|SET|MNMX)"),
        ("fp32", r"F(?:ADD|FMA|MUL|SET|SETP|MNMX|CHK|SEL|SWZADD|RND)|MUFU"),
        ("conversion", r"F2F|F2I|I2F|I2I|F2FP|I2FP|I2IP|FRND"),
        ("barriers", r"BAR|SYNCS|MEMBAR|ERRBAR|WARPSYNC|FENCE|UCGABAR|ARRIVES|NANOSLEEP|YIELD|B2R"),
        (
            "control",
            r"BRA|BRX|JM|CALL|RET|EXIT|BSSY|BSYNC|BREAK|BREV_|BMOV|KILL|NOP|BPT|PREEXIT|ACQBULK|ELECT|VOTE|PLOP",
        ),
        (
            "integer",
            r"U?(?:IADD|IMAD|IMUL|ISETP|IMNMX|ISCADD|LEA|LOP|SHF(?!L)|SHL|SHR|POPC|FLO|BREV|IABS|IDP|VABSDIFF|PRMT|SGXT|BMSK|SEL|VIADD|VIMNMX)",
        ),
        ("moves", r"U?MOV|S2R|S2UR|CS2R|R2UR|R2P|P2R|LDC|ULDC|SHFL|MATCH|REDUX|UP2UR|MOVM|LEPC|CREDUX"),
    )
)


def classes(opcodes: Mapping[str, float]) -> dict[str, float]:
    """Class -> warp instructions, most first; what no class has is `other`."""
    found: dict[str, float] = {}
    for opcode, count in opcodes.items():
        name = next((name for name, pattern in _CLASSES if pattern.match(opcode)), "other")
        found[name] = found.get(name, 0.0) + count
    return dict(sorted(found.items(), key=lambda one: (-one[1], one[0])))


# Launches of one side put together: means over the launches of a kernel, sums over the kernels of a row.


@dataclass(frozen=True)
class Kernel:
    """All launches of one kernel, as means; a key that one launch lacks is absent."""

    key: OpKey
    launches: int
    values: dict[str, float]
    stalls: dict[str, float]
    opcodes: dict[str, float]
    durations: tuple[float, ...]


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
            _mean([one.values for one in group]),
            _mean([one.stalls for one in group]),
            _mean([one.opcodes for one in group], missing_is_zero=all(one.opcodes for one in group)),
            tuple(one.values["duration_ns"] for one in group if "duration_ns" in one.values),
        )
        for key, group in groups.items()
    }


def _mean(rows: Sequence[dict[str, float]], missing_is_zero: bool = False) -> dict[str, float]:
    names = dict.fromkeys(name for row in rows for name in row)
    if not missing_is_zero:
        names = dict.fromkeys(name for name in names if all(name in row for row in rows))
    return {name: sum(row.get(name, 0.0) for row in rows) / len(rows) for name in names}


def combine(keys: Sequence[OpKey], known: dict[OpKey, Kernel], together: bool) -> NcuKernel:
    """One side of a row. `together`: the kernels (each as often as it is named) make one round; else any of them is it."""
    uses = Counter(keys)
    parts = [known[key] for key in uses]
    durations = [duration for part in parts for duration in part.durations]
    only = parts[0] if len(parts) == 1 and uses[parts[0].key] == 1 else None
    if only is not None:
        values, stalls, opcodes = only.values, only.stalls, only.opcodes
    elif together:
        values, stalls = _sum(parts, uses), {}
        opcodes = _totals([(part.opcodes, uses[part.key]) for part in parts])
        durations = _sums(parts, uses)
    else:
        weights = [part.launches for part in parts]
        values = _weighted([part.values for part in parts], weights)
        stalls = _weighted([part.stalls for part in parts], weights)
        opcodes = _totals([(part.opcodes, part.launches) for part in parts])
        opcodes = {name: count / sum(weights) for name, count in opcodes.items()}
    whole = only is not None or not together
    return NcuKernel(
        names=[key.name for key in keys] if together else list(dict.fromkeys(key.name for key in keys)),
        grids=list(dict.fromkeys(key.grid for key in keys if key.grid)),
        blocks=list(dict.fromkeys(key.block for key in keys if key.block)),
        launches=sum(part.launches for part in parts),
        values=dict(sorted(values.items(), key=lambda one: list(BY_KEY).index(one[0]))),
        duration_min_ns=min(durations, default=None),
        duration_max_ns=max(durations, default=None),
        bound=bound(values) if whole else None,
        limited_by=limits(values) if whole else [],
        stalls=dict(sorted(stalls.items(), key=lambda one: (-one[1], one[0]))),
        instructions=classes(opcodes),
        per_launch={} if whole else _per_launch(parts),
    )


def _sums(parts: Sequence[Kernel], uses: Counter[OpKey]) -> list[float]:
    """The least and the most that one round can take; nothing where a kernel was profiled once only: its spread is not known."""
    if any(len(part.durations) < 2 for part in parts):
        return []
    return [sum(end(part.durations) * uses[part.key] for part in parts) for end in (min, max)]


def _sum(parts: Sequence[Kernel], uses: Counter[OpKey]) -> dict[str, float]:
    names = [
        name
        for name, metric in BY_KEY.items()
        if metric.additive and all(name in part.values for part in parts)
    ]
    return {name: sum(part.values[name] * uses[part.key] for part in parts) for name in names}


def _per_launch(parts: Sequence[Kernel]) -> dict[str, float | None]:
    """What does not add up, as a launch has it; None where the kernels differ."""
    found: dict[str, float | None] = {}
    for name, metric in BY_KEY.items():
        if not metric.additive and all(name in part.values for part in parts):
            alike = {part.values[name] for part in parts}
            found[name] = alike.pop() if len(alike) == 1 else None
    if all(part.stalls for part in parts):
        found["stalls"] = None
    return found


def _totals(parts: Sequence[tuple[dict[str, float], int]]) -> dict[str, float]:
    if not all(opcodes for opcodes, _ in parts):
        return {}
    found: dict[str, float] = {}
    for opcodes, times in parts:
        for name, count in opcodes.items():
            found[name] = found.get(name, 0.0) + times * count
    return found


def _weighted(rows: Sequence[dict[str, float]], weights: Sequence[int]) -> dict[str, float]:
    names = [name for name in rows[0] if all(name in row for row in rows)]
    return {
        name: sum(row[name] * weight for row, weight in zip(rows, weights, strict=True)) / sum(weights)
        for name in names
    }


# Several launches of one side that stand against fewer of the other: what became one, and the sums in words.

LARGEST = 6  # as many kernels as a row of the step's table puts into one (align/kernels.py)
_CONFIDENCE = 0.5
_WORK = (("l2_bytes",), ("dram_read_bytes", "dram_write_bytes"))
_SHOWN = 4  # durations that a sentence adds up one by one

Known = Mapping[OpKey, Kernel]


def regrouped(
    pairing: Pairing, before: Known, after: Known, rows: Sequence[KernelRow]
) -> tuple[Pairing, str]:
    """The pair as a fusion or a split where counts and work say so, and the note that says it; else as it is, and ''.

    `rows`: those of a comparison of steps, whose counts a step go before the numbers of profiled launches.
    """
    times = _times_ncu_fusion(pairing, before, after, rows)
    if abs(times) < 2:
        return pairing, ""
    if not related(pairing.baseline[0].name, pairing.candidate[0].name):
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
    if times > 0:
        return dataclasses.replace(
            pairing, match="fused", confidence=_CONFIDENCE, baseline=pairing.baseline * number
        ), note
    return dataclasses.replace(
        pairing, match="split", confidence=_CONFIDENCE, candidate=pairing.candidate * number
    ), note


def undecided(pairing: Pairing, before: Known, after: Known, rows: Sequence[KernelRow]) -> str:
    """Words for a pair of which nothing is known but counts, where launch by launch and in all say opposite things; else ''."""
    times = _times_ncu_fusion(pairing, before, after, rows)
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


def _times_ncu_fusion(pairing: Pairing, before: Known, after: Known, rows: Sequence[KernelRow]) -> int:
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


# Not of every GPU or version of ncu: their absence is no advice.
_RARE = frozenset({"limit_barriers", "spill_instructions", "load_bytes_per_sector", "store_bytes_per_sector",
                   "dram_clock_hz", "sector_efficiency_pct", "bank_conflict_pct", "wide_access_pct",
                   "load_sectors_per_request", "store_sectors_per_request", "tensor_pct", "sms"})  # fmt: skip
_CLOCKS_DIFFER = 0.05
_ORDER = {"slower": 0, "faster": 0, "not_collected": 1, "no_clear_change": 2, "added": 3, "removed": 3}


def compare_ncu(baseline: Profile, candidate: Profile, rows: Sequence[KernelRow] = ()) -> Ncu:
    """Compare two profiles; `rows`: kernel rows of a comparison of steps, which then say what belongs together."""
    known = kernels(baseline.launches), kernels(candidate.launches)
    orders = [[key_of(launch) for launch in side.launches] for side in (baseline, candidate)]
    found = [_row(pairing, *known, rows) for pairing in pair(orders[0], orders[1], rows)]
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
    said = undecided(pairing, before, after, rows) if pairing.baseline and pairing.candidate else ""
    pairing, taken = regrouped(pairing, before, after, rows)
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
        sentence="the duration was not collected (gpu__time_duration.sum)",
        kernel=pairing.kernel,
    )
    if one is None and other is not None:
        return replace(row, change="added", sentence=f"only in the candidate: {_alone(other)}")
    if other is None and one is not None:
        return replace(row, change="removed", sentence=f"only in the baseline: {_alone(one)}")
    assert one is not None and other is not None
    times = one.values.get("duration_ns"), other.values.get("duration_ns")
    if not times[0] or not times[1]:
        return row
    change = "no_clear_change" if said else _change(one, other)
    why = [] if change == "no_clear_change" else _why(pairing, one, other)
    if together:
        said = _of_sums(in_all(pairing, before, after), change, times[0], times[1], why)
    return replace(
        row,
        change=change,
        delta_ns=times[1] - times[0],
        sentence=said or _sentence(change, times[0], times[1], why, one, other),
        reasons=why,
        factors=factors(one, other),
        note="; ".join(filter(None, (taken, _note(pairing, one, other)))),
    )


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
    ends = one.duration_min_ns, one.duration_max_ns, other.duration_min_ns, other.duration_max_ns
    if ends[0] is None or ends[1] is None or ends[2] is None or ends[3] is None:
        return False
    return ends[0] <= ends[3] and ends[2] <= ends[1]


def _why(pairing: Pairing, one: NcuKernel, other: NcuKernel) -> list[NcuReason]:
    found = reasons(one, other)
    if pairing.match not in ("fused", "split"):
        return found
    counts = len(pairing.baseline), len(pairing.candidate)
    words = f"{counts[0]} kernel{'s' if counts[0] > 1 else ''} -> {counts[1]}"
    return [NcuReason(pairing.match, "cause", words), *found]


def _sentence(
    change: str, before: float, after: float, why: Sequence[NcuReason], one: NcuKernel, other: NcuKernel
) -> str:
    both = text.both(text.time(before), text.time(after))
    if change == "no_clear_change":
        return f"no clear change: {both} ({100 * (after - before) / before:+.1f} %)"
    head = f"{text.times(before, after)} {change} ({both})"
    if why:
        return f"{head}: {'; '.join(reason.text for reason in why)}"
    if (
        not one.stalls
        or not other.stalls
        or "achieved_occupancy_pct" not in one.values
        or "memory_pct" not in other.values
    ):
        return f"{head}: the counters that would say why were not collected (ncu --set full)"
    return f"{head}: no rule explains it; occupancy, instructions, traffic and stalls are alike"


def _of_sums(sums: str, change: str, before: float, after: float, why: Sequence[NcuReason]) -> str:
    """The sentence of kernels that became one, or several: what they take in all."""
    by = 100 * (after - before) / before
    if change == "no_clear_change":
        return f"{sums}, no clear change in all ({by:+.1f} %)"
    head = f"{sums}, {text.percent(abs(by))} % {'less' if by < 0 else 'more'} in all"
    return "; ".join([head, *(reason.text for reason in why if reason.rule not in ("fused", "split"))])


def _alone(side: NcuKernel) -> str:
    duration = side.values.get("duration_ns")
    return f"{text.time(duration)} a launch" if duration else "its duration was not collected"


def _note(pairing: Pairing, one: NcuKernel, other: NcuKernel) -> str:
    notes = []
    if pairing.match == "sequence" and not related(one.names[0], other.names[0]):
        notes.append(
            f"another kind of kernel ({category(one.names[0])}, {category(other.names[0])}) with no word of its name in common:"
            " paired by its place alone"
        )
    if min(one.launches, other.launches) < 2:
        notes.append("one launch on a side: how much its duration varies is not known")
    if (
        one.launches != other.launches
        and pairing.kernel is None
        and pairing.match not in ("exact", "fused", "split")
    ):
        notes.append(
            f"{one.launches} launches were profiled against {other.launches}: times are those of one launch each,"
            " so a kernel that does the work of several looks slower than it is"
        )
    return "; ".join(notes)


def _side(profile: Profile, known: dict[OpKey, Kernel]) -> NcuSide:
    missing: dict[str, list[str]] = {}
    for metric in METRICS:
        if metric.key not in _RARE and any(metric.key not in kernel.values for kernel in known.values()):
            missing.setdefault(metric.section, []).append(metric.key)
    if any(not kernel.stalls for kernel in known.values()):
        missing.setdefault("WarpStateStats", []).append("stalls")
    groups = [NcuMissing(keys, f"--section {section}") for section, keys in missing.items()]
    if profile.source == "csv-details" and groups:
        keys = [key for group in groups for key in group.keys]
        groups = [NcuMissing(keys, "--page raw (the details page holds a part of what was collected)")]
    elif len(groups) > 3:
        groups = [NcuMissing([key for group in groups for key in group.keys], "--set full")]
    return NcuSide(profile.file, profile.source, profile.device, len(profile.launches), len(known), groups)  # type: ignore[arg-type]


def _warnings(baseline: Profile, candidate: Profile, rows: Sequence[NcuRow]) -> list[Note]:
    notes = []
    if baseline.device and candidate.device and baseline.device != candidate.device:
        notes.append(
            Note(
                "ncu-devices-differ",
                f"profiled on {baseline.device} and on {candidate.device}: % of peak are of another peak",
            )
        )
    differ = [row for row in rows if _clocks_differ(row)]
    if differ:
        notes.append(
            Note("ncu-clocks-differ", f"{len(differ)} of {len(rows)} kernels ran at SM clocks that differ by more than"
                 f" {100 * _CLOCKS_DIFFER:.0f} %: durations compare clocks as well (ncu --clock-control)")
        )  # fmt: skip
    if not any(row.baseline and row.candidate for row in rows):
        notes.append(Note("ncu-nothing-paired", "no kernel of one side is like one of the other"))
    return notes


def _clocks_differ(row: NcuRow) -> bool:
    if row.baseline is None or row.candidate is None:
        return False
    clocks = [side.values.get("sm_clock_hz", 0.0) for side in (row.baseline, row.candidate)]
    return min(clocks) > 0 and max(clocks) / min(clocks) > 1 + _CLOCKS_DIFFER
