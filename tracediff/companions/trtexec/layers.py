"""The layers of two engines side by side: times, what became of them, and their sums by type and precision."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from tracediff.companions import words as text
from tracediff.companions.model import TrtexecChange, TrtexecGroup, TrtexecLayers, TrtexecRow
from tracediff.companions.trtexec.read import Floats, LayerInfo, Run
from tracediff.companions.verdict import compare_runs, levels
from tracediff.kernels.myelin import decode, layer_set
from tracediff.model import Evidence

_FOREIGN = re.compile(r"ForeignNode\[(.*)\]", re.DOTALL)
_REFORMAT = "reformat "
_NAMELESS = "unnamed "
_ASSUMED, _LEAST_NS = 0.02, 1_000.0  # what GPU time may differ by from run to run: a part of it, and at least
_OF_HOST, _HOST_NS = 0.375, 10_000.0  # the same of host time
_CUT = 60  # characters of a type in a sentence
_WHATS = ("type", "precision", "tactic", "format")
_Key: TypeAlias = tuple[bool, tuple[str, ...]]


@dataclass(frozen=True)
class Layer:
    """What is known of a layer before it is paired. `onnx`: the layers of the network in it, where metadata tells."""

    name: str
    type: str = ""
    onnx: tuple[str, ...] = ()

    @property
    def reformat(self) -> bool:
        """Whether the layer only changes the layout of a tensor."""
        return self.type == "Reformat" or any(part.startswith(_REFORMAT) for part in layer_set(self.name))


@dataclass(frozen=True)
class Pairing:
    """Layers that do the same work, by their numbers on both sides."""

    match: str  # exact | normalised | similar | fused | split | regrouped | added | removed
    confidence: float
    baseline: tuple[int, ...]
    candidate: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Engine:
    """The layers of one side in the order of its files. `times`: (runs, layers), ns per query, nan where not profiled."""

    layers: list[LayerInfo]
    keys: list[Layer]
    times: Floats
    medians: list[float | None]
    left_out: int  # runs whose layers are others
    unprofiled: int  # layers of the layer info that no profile has

    @property
    def means(self) -> Floats:
        """Mean over the runs of each layer; nan where no run has it."""
        return self.times.mean(axis=0) if len(self.times) else np.full(len(self.layers), np.nan)

    def time(self, numbers: Sequence[int]) -> float | None:
        """Return the sum of the layers that were profiled; None where none was."""
        known = self.means[list(numbers)]
        known = known[~np.isnan(known)]
        return float(known.sum()) if len(known) else None


def engine_of(runs: Sequence[Run]) -> Engine | None:
    """Put the profiles and the layer info of a side's runs together, by name; None where there is neither.

    Runs whose profile has other layers than the first are left out: they are of another engine.
    """
    infos = next((run.layers for run in runs if run.layers is not None), ())
    profiles = [run.profile for run in runs if run.profile is not None]
    if not infos and not profiles:
        return None
    named = [_numbered(layer.name for layer in profile) for profile in profiles]
    same = [position for position, names in enumerate(named) if sorted(names) == sorted(named[0])]
    of_infos = dict(zip(_numbered(info.name for info in infos), infos, strict=True))
    names = list(dict.fromkeys([*(named[0] if named else ()), *of_infos]))
    times = np.full((len(same), len(names)), np.nan)
    place = {name: number for number, name in enumerate(names)}
    medians: list[list[float]] = [[] for _ in names]
    for row, position in enumerate(same):
        for name, layer in zip(named[position], profiles[position], strict=True):
            times[row, place[name]] = layer.mean
            if layer.median is not None:
                medians[place[name]].append(layer.median)
    layers = [of_infos.get(name, LayerInfo(name[0])) for name in names]
    return Engine(
        layers,
        [Layer(one.name, one.type, one.onnx) for one in layers],
        times,
        [sum(one) / len(one) if len(one) == len(same) else None for one in medians] if same else [None] * len(names),
        len(profiles) - len(same),
        len(names) - len(named[0]) if named else 0,
    )  # fmt: skip


def _numbered(names: Iterable[str]) -> list[tuple[str, int]]:
    """Tell layers of one name apart by their order."""
    seen: dict[str, int] = defaultdict(int)
    found = []
    for name in names:
        found.append((name, seen[name]))
        seen[name] += 1
    return found


def compare_layers(baseline: Engine, candidate: Engine) -> list[TrtexecRow]:
    """Return a row for each pairing, the largest change first."""
    pairings = pair(baseline.keys, candidate.keys)
    totals = [engine.time(range(len(engine.layers))) or 0.0 for engine in (baseline, candidate)]
    sure = _levels(pairings, baseline, candidate, max(totals))
    rows = [_row(pairing, level, baseline, candidate) for pairing, level in zip(pairings, sure, strict=True)]
    return sorted(rows, key=_rank)


def _rank(row: TrtexecRow) -> tuple[float, float, list[str]]:
    sides = [side for side in (row.baseline, row.candidate) if side]
    return -abs(row.delta_ns or 0.0), -max(side.time_ns or 0.0 for side in sides), sides[0].names


def _row(pairing: Pairing, level: Evidence | None, baseline: Engine, candidate: Engine) -> TrtexecRow:
    one = _side(baseline, pairing.baseline)
    other = _side(candidate, pairing.candidate)
    delta = _delta(pairing, baseline, candidate)
    changes: list[TrtexecChange] = []
    if len(pairing.baseline) == len(pairing.candidate) == 1:
        changes = _changes(baseline.layers[pairing.baseline[0]], candidate.layers[pairing.candidate[0]])
    layers = [baseline.keys[number] for number in pairing.baseline]
    layers += [candidate.keys[number] for number in pairing.candidate]
    return TrtexecRow(
        match=pairing.match,  # type: ignore[arg-type]
        confidence=pairing.confidence,
        reformat=all(layer.reformat for layer in layers),
        baseline=one,
        candidate=other,
        delta_ns=delta,
        level=None if delta is None else level,
        sentence=_sentence(pairing, one, other, changes),
        changes=changes,
    )


def _delta(pairing: Pairing, baseline: Engine, candidate: Engine) -> float | None:
    before, after = baseline.time(pairing.baseline), candidate.time(pairing.candidate)
    if pairing.match == "added":
        return after if len(baseline.times) else None
    if pairing.match == "removed":
        return -before if before is not None and len(candidate.times) else None
    if before is None and after is None:
        return None
    # a layer that the profile leaves out, though there is one, did not run
    if (before is None and not len(baseline.times)) or (after is None and not len(candidate.times)):
        return None
    return (after or 0.0) - (before or 0.0)


def _side(engine: Engine, numbers: Sequence[int]) -> TrtexecLayers | None:
    if not numbers:
        return None
    layers = [engine.layers[number] for number in numbers]
    return TrtexecLayers(
        names=[layer.name for layer in layers],
        types=_each(layers, lambda layer: layer.type),
        precisions=_each(layers, lambda layer: layer.precision),
        tactics=_each(layers, lambda layer: layer.tactic),
        time_ns=engine.time(numbers),
        median_ns=engine.medians[numbers[0]] if len(numbers) == 1 else None,
    )


def _each(layers: Sequence[LayerInfo], get: Callable[[LayerInfo], str]) -> list[str]:
    return list(dict.fromkeys(filter(None, map(get, layers))))


def _changes(before: LayerInfo, after: LayerInfo) -> list[TrtexecChange]:
    values = [
        {
            "type": layer.subtype or layer.type,
            "precision": " -> ".join(filter(None, dict.fromkeys((layer.precision, layer.output_precision)))),
            "tactic": layer.tactic,
            "format": layer.format,
        }
        for layer in (before, after)
    ]
    found = [
        TrtexecChange(what, values[0][what], values[1][what])  # type: ignore[arg-type]
        for what in _WHATS
        if values[0][what] and values[1][what] and values[0][what] != values[1][what]
    ]
    # the layout names the precision as well
    precision = any(change.what == "precision" for change in found)
    return [change for change in found if change.what != "format" or not precision]


def _sentence(
    pairing: Pairing, one: TrtexecLayers | None, other: TrtexecLayers | None, changes: list[TrtexecChange]
) -> str:
    """Say what became of the layers, without their names."""
    times = [side.time_ns if side else None for side in (one, other)]
    if one is None or other is None:
        side, where = (other, "candidate") if one is None else (one, "baseline")
        took = f": {text.time(side.time_ns)}" if side and side.time_ns is not None else ""
        return f"only in the {where}{took}"
    counts = len(pairing.baseline), len(pairing.candidate)
    head = f"{counts[0]} layer{'s' * (counts[0] > 1)} became {counts[1]}" if counts != (1, 1) else ""
    if pairing.match == "similar":
        head = "joined with other parts"
    parts = [head] if head else []
    if changes:
        named = [f"other {change.what}" if change.what in ("tactic", "format") else
                 f"{change.what} {change.before[:_CUT]} -> {change.after[:_CUT]}" for change in changes]  # fmt: skip
        parts.append(", ".join(named))
    if times[0] is not None and times[1] is not None:
        percent = (
            f" ({100 * (times[1] - times[0]) / times[0]:+.1f} %)" if times[0] and times[0] != times[1] else ""
        )
        same = "" if parts or times[0] != times[1] else "the same: "
        parts.append(same + text.both(text.time(times[0]), text.time(times[1])) + percent)
    return ", ".join(parts) or "the same"


def _levels(
    pairings: Sequence[Pairing], baseline: Engine, candidate: Engine, total_ns: float
) -> list[Evidence | None]:
    """How far each delta can be believed; None where a side has no time."""
    if not pairings or not len(baseline.times) or not len(candidate.times):
        return [None] * len(pairings)
    runs = [
        np.stack([np.nansum(times[:, list(numbers)], axis=1) for numbers in columns], axis=1)
        for times, columns in (
            (baseline.times, [one.baseline for one in pairings]),
            (candidate.times, [one.candidate for one in pairings]),
        )
    ]
    return list(levels(compare_runs(runs[0], runs[1], assumed(runs[0], runs[1])), total_ns))


def assumed(baseline: Floats, candidate: Floats, *, host: bool | Sequence[bool] = False) -> Floats:
    """What the means of two runs of one program may differ by, of values (runs, cells). `host`: which vary as host time does."""
    larger = np.maximum(baseline.mean(axis=0), candidate.mean(axis=0))
    gpu = np.where(larger > 0, np.maximum(_ASSUMED * larger, _LEAST_NS), 0.0)
    return np.where(np.asarray(host), _OF_HOST * larger + _HOST_NS, gpu)


def groups(baseline: Engine, candidate: Engine) -> list[TrtexecGroup]:
    """Return the sums of all layers by type and by precision, the most time first."""
    found = []
    kinds: tuple[tuple[str, Callable[[LayerInfo], str]], ...] = (
        ("type", lambda layer: layer.type),
        ("precision", lambda layer: layer.precision),
    )
    for kind, get in kinds:
        numbers = [_by(engine, get) for engine in (baseline, candidate)]
        if not any(name for side in numbers for name in side):
            continue
        rows = []
        for name in dict.fromkeys([*numbers[0], *numbers[1]]):
            mine = [side.get(name, []) for side in numbers]
            times = [
                None if not len(engine.times) else engine.time(of) or 0.0
                for engine, of in zip((baseline, candidate), mine, strict=True)
            ]
            delta = None if times[0] is None or times[1] is None else times[1] - times[0]
            rows.append(TrtexecGroup(kind, name, len(mine[0]), len(mine[1]), times[0], times[1], delta))  # type: ignore[arg-type]
        found += sorted(
            rows, key=lambda row: (-max(row.baseline_ns or 0.0, row.candidate_ns or 0.0), row.name)
        )
    return found


def _by(engine: Engine, get: Callable[[LayerInfo], str]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for number, layer in enumerate(engine.layers):
        found[get(layer)].append(number)
    return found


# Layers of one engine to those of another, by what their names say they are made of.


def pair(baseline: Sequence[Layer], candidate: Sequence[Layer]) -> list[Pairing]:
    """Pair the layers of two engines; every layer is in exactly one pairing."""
    sides = list(baseline), list(candidate)
    left = list(range(len(sides[0]))), list(range(len(sides[1])))
    found: list[Pairing] = []
    # The type is no part of the key: that it changed is to be said of the layer.
    keys: list[list[_Key]] = [[(layer.reformat, (layer.name,)) for layer in side] for side in sides]
    found += _equal(keys, left, "exact", 1.0)
    for onnx in (True, False):  # several kernels of Myelin bear one name: those of the same layers first
        keys = [[_key(layer, onnx) for layer in side] for side in sides]
        found += _equal(keys, left, "normalised", 0.95)
    found += _linked(sides, left)
    found += [Pairing("removed", 0.8, (one,), ()) for one in left[0]]
    found += [Pairing("added", 0.8, (), (one,)) for one in left[1]]
    return found


def _key(layer: Layer, onnx: bool) -> _Key:
    named = tuple(sorted(layer_set(layer.name)))
    return layer.reformat, (*named, "", *sorted(layer.onnx)) if named and onnx else named


def _equal(
    keys: Sequence[Sequence[_Key]],
    left: tuple[list[int], list[int]],
    match: str,
    confidence: float,
) -> list[Pairing]:
    """Pair layers of the same key in their order; less sure where one side has more of them."""
    groups: list[dict[_Key, list[int]]] = [defaultdict(list), defaultdict(list)]
    for side, group in enumerate(groups):
        for number in left[side]:
            if keys[side][number][1]:
                group[keys[side][number]].append(number)
    found = []
    for key, ones in groups[0].items():
        others = groups[1].get(key, [])
        sure = confidence if len(ones) == len(others) else min(confidence, 0.6)
        found += [Pairing(match, sure, (a,), (b,)) for a, b in zip(ones, others, strict=False)]
    for side in (0, 1):
        gone = {number for one in found for number in (one.candidate if side else one.baseline)}
        left[side][:] = [number for number in left[side] if number not in gone]
    return found


def _linked(sides: tuple[list[Layer], list[Layer]], left: tuple[list[int], list[int]]) -> list[Pairing]:
    """Group what is left by the network layers that both sides name; take the groups out of `left`."""
    parts = [
        {number: _parts(side[number]) for number in numbers if not side[number].reformat}
        for side, numbers in zip(sides, left, strict=True)
    ]
    by_range = [_within(sides[side], parts[side], parts[1 - side]) for side in (0, 1)]
    parent: dict[tuple[int, int], tuple[int, int]] = {}

    def root(node: tuple[int, int]) -> tuple[int, int]:
        while parent.setdefault(node, node) != node:
            parent[node] = node = parent[parent[node]]
        return node

    owners: dict[str, list[list[tuple[int, int]]]] = defaultdict(lambda: [[], []])
    for side in (0, 1):
        for number, of in parts[side].items():
            for name in of | by_range[side].get(number, set()):
                owners[name][side].append((side, number))
    for ones, others in owners.values():
        if ones and others:
            for node in [*ones, *others]:
                parent[root(node)] = root(ones[0])
    groups: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for node in sorted(parent):
        groups[root(node)].append(node)
    found = []
    for nodes in groups.values():
        numbers = [[number for of, number in nodes if of == side] for side in (0, 1)]
        names = [set[str]().union(*(parts[side][number] for number in numbers[side])) for side in (0, 1)]
        ranged = any(number in by_range[of] for of, number in nodes)
        sure = 0.6 if ranged else 0.5 + 0.45 * len(names[0] & names[1]) / len(names[0] | names[1])
        tier = _tier(len(numbers[0]), len(numbers[1]))
        found.append(Pairing(tier, round(sure, 2), tuple(numbers[0]), tuple(numbers[1])))
    for side in (0, 1):
        left[side][:] = [number for number in left[side] if (side, number) not in parent]
    return found


def _tier(before: int, after: int) -> str:
    if before == after == 1:
        return "similar"
    return "fused" if after == 1 else "split" if before == 1 else "regrouped"


def _parts(layer: Layer) -> set[str]:
    """Network layers of a name and of its metadata; not what numbers alone tell apart, nor a Myelin kernel's own name."""
    found = set(layer.onnx)
    for part in layer_set(layer.name):
        if ends := _ends(part):
            found |= set(ends)
        elif not part.startswith(_NAMELESS) and decode(part) is None:
            found.add(part)
    return found


def _ends(part: str) -> tuple[str, ...]:
    """The first and the last layer of `ForeignNode[first...last]`."""
    found = _FOREIGN.fullmatch(part)
    return tuple(one for one in found[1].split("...") if one) if found else ()


def _within(
    side: Sequence[Layer], mine: dict[int, set[str]], theirs: dict[int, set[str]]
) -> dict[int, set[str]]:
    """For each {ForeignNode[a...b]} of a side: what the other side runs between a and b, in the order of its file."""
    found: dict[int, set[str]] = {}
    for number in mine:
        ends = [end for part in layer_set(side[number].name) for end in [_ends(part)] if len(end) == 2]
        if side[number].onnx or not ends:
            continue
        for first, last in ends:
            places = [place for place, names in theirs.items() if {first, last} & names]
            inside = [names for place, names in theirs.items() if places and places[0] <= place <= places[-1]]
            if len(places) > 1 and {first, last} <= set[str]().union(*inside):
                found[number] = found.get(number, set[str]()).union(*inside)
    return found
