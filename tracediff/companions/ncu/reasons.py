"""Why a kernel got faster or slower: what bounds it, and rules over the counters of both sides (docs/result.md#nsight-compute has their sources)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Literal

import msgspec

from tracediff.companions.model import NcuKernel, NcuReason
from tracediff.companions.words import both, clock, count, points, size, times

Bound = Literal["compute", "memory", "compute_and_memory", "latency"]
Values = Mapping[str, float]

# Nsight Compute's rule SOLBottleneck: below 60 % of both peaks a kernel waits (latency); 10 points apart is balanced.
LATENCY_PCT = 60.0
BALANCED_POINTS = 10.0
# Its rule AchievedOccupancy takes 10 points for a difference; so do we, for every percentage.
POINTS = 10.0
# Its rule CPIStall: a stall counts from 30 % of the cycles between two instructions.
STALL_SHARE = 0.3
# Ours: a change of duration below this may be another clock, cache or moment; ncu's own repeatability is of that size.
CLEAR_CHANGE = 0.03
# Ours: a quantity explains a change when it makes this part of it up, on a scale of logarithms.
EXPLAINS = 0.3
# Ours: a ratio that is worth saying.
RATIO = 1.2

LIMITS = {
    "registers": "limit_registers", "shared_mem": "limit_shared_mem", "warps": "limit_warps", "blocks": "limit_blocks",
    "barriers": "limit_barriers",
}  # fmt: skip


def bound(values: Values) -> Bound | None:
    """What a kernel is bound by, from its throughputs in % of the peak; None where they were not collected."""
    compute, memory = values.get("compute_pct"), values.get("memory_pct")
    if compute is None or memory is None:
        return None
    if max(compute, memory) < LATENCY_PCT:
        return "latency"
    if abs(compute - memory) < BALANCED_POINTS:
        return "compute_and_memory"
    return "compute" if compute > memory else "memory"


def limits(values: Values) -> list[str]:
    """What keeps occupancy down: `grid` (less than one wave), and what allows the fewest blocks on an SM.

    Empty where the hardware's most warps fit, or where nothing was collected.
    """
    found = []
    waves = values.get("waves_per_sm")
    if waves is not None and waves < 1:
        found.append("grid")
    theoretical = values.get("theoretical_occupancy_pct")
    if theoretical is None or theoretical >= 99.95:
        return found
    blocks = {name: values[key] for name, key in LIMITS.items() if key in values}
    least = min(blocks.values(), default=None)
    return found + [name for name, value in blocks.items() if value == least]


_CAUSES, _EFFECTS = 2, 1  # the most of each that a sentence takes
_LIMIT_WORDS = {
    "registers": ("registers per thread", "registers_per_thread"),
    "shared_mem": ("shared memory per block", ""),
    "warps": ("threads per block", "block_threads"),
}
_STALL_WORDS = {"imc_miss": "constant-cache-miss", "lg_throttle": "LG-throttle", "mio_throttle": "MIO-throttle",
                "tex_throttle": "TEX-throttle", "gmma": "GMMA"}  # fmt: skip


class Change(msgspec.Struct, frozen=True):
    """Both sides of a kernel, and the logarithm of the ratio of their durations (negative: faster)."""

    before: NcuKernel
    after: NcuKernel
    log: float

    @property
    def slow(self) -> NcuKernel:
        """The side that takes longer."""
        return self.after if self.log > 0 else self.before

    def pair(self, key: str) -> tuple[float, float] | None:
        """The key on both sides; None where one lacks it."""
        one, other = self.before.values.get(key), self.after.values.get(key)
        return None if one is None or other is None else (one, other)

    def explained(self, key: str, power: int = 1) -> float:
        """Which part of the change the ratio of a key makes up; `power` -1 where more is faster. 0: not known."""
        found = self.pair(key)
        if found is None or min(found) <= 0 or not self.log:
            return 0.0
        return power * math.log(found[1] / found[0]) / self.log

    def points(self, key: str, more_is_faster: bool) -> float:
        """By how many points a percentage moved the way that goes with the change; negative: the other way."""
        found = self.pair(key)
        if found is None:
            return 0.0
        return (found[1] - found[0]) * (1 if (self.log < 0) == more_is_faster else -1)


_Fired = tuple[float, NcuReason]  # strength up to 1, and what to say


def _fired(strength: float, rule: str, words: str, kind: Literal["cause", "effect"] = "cause") -> _Fired:
    return min(strength, 1.0), NcuReason(rule, kind, words)


Rule = Callable[[Change], _Fired | None]


def factors(before: NcuKernel, after: NcuKernel) -> dict[str, float]:
    """What the ratio of durations is made of; the factors multiply to it. Empty where a counter is missing.

    duration = instructions x (cycles / instructions) / (cycles / duration)
    """
    keys = ("duration_ns", "cycles", "instructions")
    if any(side.values.get(key, 0.0) <= 0 for side in (before, after) for key in keys):
        return {}
    time, cycles, instructions = (after.values[key] / before.values[key] for key in keys)
    return {
        "instructions": instructions,
        "cycles_per_instruction": cycles / instructions,
        "clock": time / cycles,
    }


def reasons(before: NcuKernel, after: NcuKernel) -> list[NcuReason]:
    """The rules that fired, strongest causes first, then effects; as many as a sentence takes."""
    durations = before.values.get("duration_ns"), after.values.get("duration_ns")
    if not durations[0] or not durations[1] or durations[0] == durations[1]:
        return []
    change = Change(before, after, math.log(durations[1] / durations[0]))
    if by_clock := _clock(change):
        return [by_clock[1]]
    # where two are equally strong, the earlier rule goes first
    fired = sorted((found for rule in _RULES if (found := rule(change))), key=lambda one: -one[0])
    causes = [reason for _, reason in fired if reason.kind == "cause"]
    effects = [reason for _, reason in fired if reason.kind == "effect"]
    return causes[:_CAUSES] + effects[: _EFFECTS if causes else _EFFECTS + 1]


def _clock(change: Change) -> _Fired | None:
    """The SM ran at another clock, and that is most of it."""
    parts = factors(change.before, change.after)
    clocks = change.pair("sm_clock_hz")
    if not parts or clocks is None:
        return None
    share = math.log(parts["clock"]) / change.log
    if share < 0.5:
        return None
    return _fired(share, "clock", f"SM clock {both(*map(clock, clocks))}")


def _occupancy(change: Change) -> _Fired | None:
    if change.points("achieved_occupancy_pct", more_is_faster=True) < POINTS:
        return None
    pair = change.pair("achieved_occupancy_pct")
    assert pair is not None
    why = _why_occupancy(change)
    strength = 1.0 if change.slow.bound == "latency" else 0.6
    said = [f"occupancy {points(*pair)}", *([why] if why else [])]
    return _fired(strength, "occupancy", ": ".join(said))


def _why_occupancy(change: Change) -> str:
    """What let more or fewer warps in: the grid, or what limits the blocks on an SM."""
    theoretical = change.pair("theoretical_occupancy_pct")
    if theoretical is not None and abs(theoretical[0] - theoretical[1]) >= POINTS / 2:
        found = (_limit(change, name) for name in change.slow.limited_by if name in LIMITS)
        return next(filter(None, found), f"theoretical {points(*theoretical)}")
    waves, grid = change.pair("waves_per_sm"), change.pair("grid_blocks")
    if waves is not None and grid is not None and grid[0] != grid[1] and min(waves) < 2:
        return f"grid {grid[0]:,.0f} -> {grid[1]:,.0f} blocks"
    return ""


def _limit(change: Change, name: str) -> str:
    blocks = change.pair(LIMITS[name])
    if blocks is None or blocks[0] == blocks[1] or name not in _LIMIT_WORDS:
        return ""
    words, key = _LIMIT_WORDS[name]
    if name == "shared_mem":
        sizes = [
            sum(side.values.get(f"shared_{kind}_bytes", 0.0) for kind in ("static", "dynamic"))
            for side in (change.before, change.after)
        ]
        return f"{words} {both(*map(size, sizes))}"
    pair = change.pair(key)
    return f"{words} {pair[0]:.0f} -> {pair[1]:.0f}" if pair is not None and pair[0] != pair[1] else ""


def _instructions(change: Change) -> _Fired | None:
    share = change.explained("instructions")
    pair = change.pair("instructions")
    if pair is None or share < EXPLAINS or change.before.bound == change.after.bound == "memory":
        return None
    fewer = "fewer" if pair[1] < pair[0] else "more"
    return _fired(share, "instructions", f"{times(*pair)} {fewer} instructions ({both(*map(count, pair))})")


def _divergence(change: Change) -> _Fired | None:
    share, pair = change.explained("threads_per_instruction", -1), change.pair("threads_per_instruction")
    if pair is None or share < EXPLAINS or max(pair) < RATIO * min(pair):
        return None
    return _fired(
        share,
        "divergence",
        f"divergence: {pair[0]:.1f} -> {pair[1]:.1f} of 32 threads active per instruction",
    )


def _waves(change: Change) -> _Fired | None:
    """About the same blocks, but one more round of them over the SMs, most of which have nothing to do in it."""
    waves = _waves_of(change.before), _waves_of(change.after)
    slow = _waves_of(change.slow)
    if not all(waves) or not slow or max(waves) >= 1.5 * min(waves):
        return None
    whole = math.ceil(waves[0]), math.ceil(waves[1])
    last = slow - math.floor(slow)
    if (whole[1] > whole[0]) != (change.log > 0) or whole[0] == whole[1] or not 0 < last <= 0.5:
        return None
    share = math.log(whole[1] / whole[0]) / change.log
    if share < EXPLAINS:
        return None
    return _fired(
        share,
        "waves",
        f"waves {whole[0]} -> {whole[1]}: the last of {whole[change.log > 0]} was {100 * last:.1f} % full",
    )


def _waves_of(side: NcuKernel) -> float:
    """Blocks of the grid over those that run at once; the figure of ncu has two decimals. 0: not known."""
    blocks = min((side.values[key] for key in LIMITS.values() if key in side.values), default=0.0)
    return side.values.get("grid_blocks", 0.0) / (blocks * side.values.get("sms", 0.0) or math.inf)


def _loads(change: Change) -> _Fired | None:
    """Wider loads, and fewer of them."""
    bits, loads = change.pair("load_bits"), change.pair("global_loads")
    if bits is None or loads is None or min(*bits, *loads) <= 0 or (bits[1] > bits[0]) != (change.log < 0):
        return None
    wider, fewer = bits[1] / bits[0], loads[0] / loads[1]
    if min(max(one, 1 / one) for one in (wider, fewer)) < 1.5 or (wider > 1) != (fewer > 1):
        return None
    return _fired(0.75, "access-width", f"global loads {bits[0]:.0f} -> {bits[1]:.0f} bit per thread")


def _atomics(change: Change) -> _Fired | None:
    pair, total = change.pair("global_atomics"), change.slow.values.get("instructions", 0.0)
    if (
        pair is None
        or max(pair) < max(RATIO * min(pair), 0.02 * total)
        or not total
        or (pair[1] > pair[0]) != (change.log > 0)
    ):
        return None
    return _fired(0.9, "atomics", f"atomics on global memory {both(*map(count, pair))}")


def _special(change: Change) -> _Fired | None:
    """The pipe of exponentials, roots, sines and conversions, where the slower side is busy with it."""
    return _XU(change) if change.slow.values.get("xu_pct", 0.0) >= LATENCY_PCT else None


def _traffic(change: Change) -> _Fired | None:
    """Bytes of device memory, where memory is what the slower side is busy with."""
    read, written = change.pair("dram_read_bytes"), change.pair("dram_write_bytes")
    if read is None or written is None or change.slow.values.get("memory_pct", 0.0) < LATENCY_PCT:
        return None
    before, after = read[0] + written[0], read[1] + written[1]
    share = math.log(after / before) / change.log if before and after else 0.0
    if share < EXPLAINS:
        return None
    return _fired(share, "dram-traffic", f"DRAM traffic {both(size(before), size(after))}")


def _l2_traffic(change: Change) -> _Fired | None:
    """Bytes that the SMs ask of L2, where L2 is busy and device memory does not explain it."""
    share, pair = change.explained("l2_bytes"), change.pair("l2_bytes")
    if pair is None or share < EXPLAINS or change.slow.values.get("l2_pct", 0.0) < LATENCY_PCT:
        return None
    return _fired(share * 0.9, "l2-traffic", f"L2 traffic {both(*map(size, pair))}")


def _spills(change: Change) -> _Fired | None:
    """Local memory: registers spilled, or arrays that are not in registers."""
    found = [
        sum(side.values.get(key, 0.0) for key in ("local_loads", "local_stores"))
        for side in (change.before, change.after)
    ]
    if change.pair("local_loads") is None or (found[1] > found[0]) != (change.log > 0):
        return None
    total = change.slow.values.get("instructions", 0.0)
    if not total or abs(found[1] - found[0]) < 0.02 * total:
        return None
    # what goes through local memory comes back as traffic of L1, L2 and DRAM, and as stalls: these follow from it
    strength = 1.0 if abs(found[1] - found[0]) >= 0.1 * total else 0.9
    spilled = change.pair("spill_instructions")
    if spilled is not None and max(spilled) >= 0.5 * max(found):
        return _fired(strength, "local-memory", f"register spills {both(*map(count, spilled))} instructions")
    return _fired(strength, "local-memory", f"local-memory instructions {both(*map(count, found))}")


def _moved(
    rule: str,
    strength: float,
    *counters: tuple[str, str],
    more_is_faster: bool = True,
    least: float = POINTS,
    kind: Literal["cause", "effect"] = "cause",
) -> Rule:
    """A rule: the first of these percentages that moved by `least` points the way that goes with the change."""

    def rule_of(change: Change) -> _Fired | None:
        for key, words in counters:
            pair = change.pair(key)
            if pair is not None and change.points(key, more_is_faster) >= least:
                return _fired(strength, rule, words.format(points(*pair)), kind)
        return None

    return rule_of


_XU = _moved(
    "special-functions", 0.95, ("xu_pct", "special functions (XU pipe) {} of the peak"), more_is_faster=False
)
_SECTORS = _moved("coalescing", 0.75, ("sector_efficiency_pct", "sectors needed of those moved {}"))


def _coalescing(change: Change) -> _Fired | None:
    for op in ("load", "store"):
        pair = change.pair(f"{op}_bytes_per_sector")
        if pair is None or min(pair) <= 0:
            continue
        if (pair[1] > pair[0]) == (change.log < 0) and max(pair) / min(pair) >= RATIO:
            words = f"{op}s use {pair[0]:.0f} -> {pair[1]:.0f} of 32 bytes a sector"
            return _fired(0.75, "coalescing", words)
    return _SECTORS(change)


def _stall(change: Change) -> _Fired | None:
    """The warp state whose cycles moved most, of those that matter on one side at least."""
    one, other = change.before.stalls, change.after.stalls
    moved = []
    for name in one.keys() & other.keys() - {"selected", "not_selected"}:
        before, after = one[name], other[name]
        total = sum((one if before > after else other).values())
        matters = min(before, after) > 0 and max(before, after) >= STALL_SHARE * total
        if (
            matters
            and (after > before) == (change.log > 0)
            and max(before, after) / min(before, after) >= RATIO
        ):
            moved.append((abs(after - before), name, before, after))
    if not moved:
        return None
    _, name, before, after = max(moved)
    words = _STALL_WORDS.get(name, name.replace("_", "-"))
    less = "less" if after < before else "more"
    digits = [1 if value >= 0.95 else 2 for value in (before, after)]
    cycles = both(*(f"{value:.{some}f} cycles" for value, some in zip((before, after), digits, strict=True)))
    said = f"{words} stalls {times(before, after)} {less} ({cycles} per instruction)"
    return _fired(0.9, "stall", said, "effect")


def _issue(change: Change) -> _Fired | None:
    share, pair = change.explained("issued_per_cycle", -1), change.pair("issued_per_cycle")
    if pair is None or share < EXPLAINS:
        return None
    said = f"instructions per scheduler and cycle {pair[0]:.2f} -> {pair[1]:.2f}"
    return _fired(0.4, "issue-rate", said, "effect")


_RULES: tuple[Rule, ...] = (
    _spills, _occupancy, _waves, _divergence, _instructions, _special, _atomics, _traffic, _l2_traffic,
    _moved("bank-conflicts", 0.8, ("bank_conflict_pct", "bank conflicts {} of shared-memory wavefronts"), more_is_faster=False),
    _coalescing,
    _loads,
    _moved("hit-rate", 0.4, ("l2_hit_pct", "L2 hit rate {}"), ("l1_hit_pct", "L1 hit rate {}")),
    _stall,
    _moved("throughput", 0.5, ("dram_pct", "DRAM throughput {} of the peak"), ("memory_pct", "memory throughput {} of the peak"),
           ("compute_pct", "compute throughput {} of the peak"), kind="effect"),
    _issue,
)  # fmt: skip
