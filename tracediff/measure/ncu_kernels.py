"""Launches of one side put together: means over the launches of a kernel, sums over the kernels of a row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tracediff.align.kernels import OpKey
from tracediff.load.ncu import Launch
from tracediff.load.ncu_metrics import BY_KEY
from tracediff.measure.ncu_instructions import classes
from tracediff.measure.ncu_rules import bound, limits
from tracediff.model import NcuKernel


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
