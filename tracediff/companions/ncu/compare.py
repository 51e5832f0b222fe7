"""Two profiles of Nsight Compute compared: kernels paired, measured side by side, and a sentence for each pair."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from msgspec.structs import replace

from tracediff.companions import words as text
from tracediff.companions.model import Ncu, NcuKernel, NcuMissing, NcuReason, NcuRow, NcuSide
from tracediff.companions.ncu.metrics import BY_KEY, METRICS, Launch, Profile
from tracediff.companions.ncu.pairing import Kernel, Pairing, in_all, pair, regrouped, related, undecided
from tracediff.companions.ncu.reasons import CLEAR_CHANGE, bound, factors, limits, reasons
from tracediff.kernels.categories import category
from tracediff.kernels.matching import OpKey
from tracediff.model import KernelRow, Note

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
    known = (
        one.stalls
        and other.stalls
        and "achieved_occupancy_pct" in one.values
        and "memory_pct" in other.values
    )
    if not known:
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
