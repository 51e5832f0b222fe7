"""The layers of two engines side by side: times, what became of them, and their sums by type and precision."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias, TypeVar

import msgspec
import numpy as np

from tracediff.arrays import Floats
from tracediff.companions import words as text
from tracediff.companions.model import TrtexecChange, TrtexecGroup, TrtexecLayers, TrtexecRow
from tracediff.companions.trtexec.read import LayerInfo, Run
from tracediff.companions.verdict import compare_runs, levels
from tracediff.kernels.matching import Disjoint
from tracediff.kernels.myelin import decode, layer_set
from tracediff.model import Evidence

_FOREIGN = re.compile(r"ForeignNode\[(.*)\]", re.DOTALL)
_ASSUMED, _LEAST_NS = 0.02, 1_000.0  # what GPU time may differ by from run to run: a part of it, and at least
_OF_HOST, _HOST_NS = 0.375, 10_000.0  # the same of host time
_CUT = 60  # characters of a type in a sentence
_Key: TypeAlias = tuple[bool, tuple[str, ...]]
_Kind = TypeVar("_Kind")
_Value = TypeVar("_Value")
_Node: TypeAlias = tuple[int, int]  # side, number of the layer


class Pairing(msgspec.Struct, frozen=True):
    """Layers that do the same work, by their numbers on both sides."""

    match: str  # exact | normalised | similar | fused | split | regrouped | added | removed
    confidence: float
    baseline: tuple[int, ...]
    candidate: tuple[int, ...]


class Engine(msgspec.Struct, frozen=True, eq=False):
    """The layers of one side in the order of its files. `times`: (runs, layers), ns per query, nan where not profiled."""

    layers: list[LayerInfo]
    times: Floats
    left_out: int  # runs whose layers are others

    @property
    def profiled(self) -> bool:
        """Whether there is a profile."""
        return len(self.times) > 0

    def time(self, numbers: Iterable[int]) -> float | None:
        """Return the sum of the layers that were profiled, means over the runs; None where none was."""
        known = self.times[:, list(numbers)].mean(axis=0) if self.profiled else np.empty(0)
        known = known[~np.isnan(known)]
        return float(known.sum()) if len(known) else None


def engine_of(runs: Sequence[Run]) -> Engine | None:
    """Put the profiles and the layer info of a side's runs together, by name; None where there is neither.

    Runs whose profile has other layers than the first are left out: they are of another engine.
    """
    infos = next((run.layers for run in runs if run.layers is not None), ())
    profiles = [_by_name(run.profile) for run in runs if run.profile is not None]
    if not infos and not profiles:
        return None
    same = [profile for profile in profiles if profile.keys() == profiles[0].keys()]
    of_infos = _by_name((info.name, info) for info in infos)
    names = list(dict.fromkeys([*(profiles[0] if profiles else ()), *of_infos]))
    times = [[profile.get(name, np.nan) for name in names] for profile in same]
    return Engine(
        [of_infos.get(name, LayerInfo(name[0])) for name in names],
        np.array(times, np.float64).reshape(len(same), len(names)),
        len(profiles) - len(same),
    )


def _by_name(rows: Iterable[tuple[str, _Value]]) -> dict[tuple[str, int], _Value]:
    """Rows by name; those of one name are told apart by their order."""
    seen: Counter[str] = Counter()
    found = {}
    for name, value in rows:
        found[name, seen[name]] = value
        seen[name] += 1
    return found


def compare_layers(baseline: Engine, candidate: Engine) -> list[TrtexecRow]:
    """Return a row for each pairing, the largest change first."""
    pairings = pair(baseline.layers, candidate.layers)
    totals = [engine.time(range(len(engine.layers))) or 0.0 for engine in (baseline, candidate)]
    sure = _levels(pairings, baseline, candidate, max(totals))
    rows = [_row(pairing, level, baseline, candidate) for pairing, level in zip(pairings, sure, strict=True)]
    return sorted(rows, key=_rank)


def _rank(row: TrtexecRow) -> tuple[float, float, list[str]]:
    sides = [side for side in (row.baseline, row.candidate) if side]
    return -abs(row.delta_ns or 0.0), -max(side.time_ns or 0.0 for side in sides), sides[0].names


def _row(pairing: Pairing, level: Evidence | None, baseline: Engine, candidate: Engine) -> TrtexecRow:
    ones = [baseline.layers[number] for number in pairing.baseline]
    others = [candidate.layers[number] for number in pairing.candidate]
    one, other = _side(baseline, pairing.baseline), _side(candidate, pairing.candidate)
    before, after = (side.time_ns if side else None for side in (one, other))
    # a layer that the profile leaves out, though there is one, did not run
    timed = baseline.profiled and candidate.profiled and (before is not None or after is not None)
    delta = (after or 0.0) - (before or 0.0) if timed else None
    changes = _changes(ones[0], others[0]) if len(ones) == len(others) == 1 else []
    return TrtexecRow(
        match=pairing.match,  # type: ignore[arg-type]
        confidence=pairing.confidence,
        reformat=all(layer.reformat for layer in (*ones, *others)),
        baseline=one,
        candidate=other,
        delta_ns=delta,
        level=None if delta is None else level,
        sentence=_sentence(pairing, one, other, changes),
        changes=changes,
    )


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
        places=list(numbers),
        times_ns=[engine.time([number]) for number in numbers],
        each_precision=[layer.precision for layer in layers],
    )


def _each(layers: Sequence[LayerInfo], get: Callable[[LayerInfo], str]) -> list[str]:
    return list(dict.fromkeys(filter(None, map(get, layers))))


def _changes(before: LayerInfo, after: LayerInfo) -> list[TrtexecChange]:
    one, other = (
        {
            "type": layer.subtype or layer.type,
            "precision": " -> ".join(filter(None, dict.fromkeys((layer.precision, layer.output_precision)))),
            "tactic": layer.tactic,
            "format": layer.format,
        }
        for layer in (before, after)
    )
    differ = [what for what in one if one[what] and other[what] and one[what] != other[what]]
    if "precision" in differ and "format" in differ:
        differ.remove("format")  # the layout names the precision as well
    return [TrtexecChange(what, one[what], other[what]) for what in differ]  # type: ignore[arg-type]


def _sentence(
    pairing: Pairing, one: TrtexecLayers | None, other: TrtexecLayers | None, changes: list[TrtexecChange]
) -> str:
    """Say what became of the layers, without their names."""
    if one is None or other is None:
        side, where = (other, "candidate") if one is None else (one, "baseline")
        took = f": {text.time(side.time_ns)}" if side and side.time_ns is not None else ""
        return f"only in the {where}{took}"
    parts = []
    counts = len(one.names), len(other.names)
    if pairing.match == "similar":
        parts.append("joined with other parts")
    elif counts != (1, 1):
        parts.append(f"{counts[0]} layer{'s' * (counts[0] > 1)} became {counts[1]}")
    if changes:
        named = [f"other {change.what}" if change.what in ("tactic", "format") else
                 f"{change.what} {change.before[:_CUT]} -> {change.after[:_CUT]}" for change in changes]  # fmt: skip
        parts.append(", ".join(named))
    before, after = one.time_ns, other.time_ns
    if before is not None and after is not None:
        same = "the same: " if before == after and not parts else ""
        by = text.part(after - before, before) if before != after else ""
        parts.append(same + text.both(text.time(before), text.time(after)) + by)
    return ", ".join(parts) or "the same"


def _levels(
    pairings: Sequence[Pairing], baseline: Engine, candidate: Engine, total_ns: float
) -> list[Evidence | None]:
    """How far each delta can be believed; None where a side has no time."""
    if not pairings or not baseline.profiled or not candidate.profiled:
        return [None] * len(pairings)
    one, other = (
        np.stack([np.nansum(times[:, list(numbers)], axis=1) for numbers in columns], axis=1)
        for times, columns in (
            (baseline.times, [one.baseline for one in pairings]),
            (candidate.times, [one.candidate for one in pairings]),
        )
    )
    return list(levels(compare_runs(one, other, assumed(one, other)), total_ns))


def assumed(baseline: Floats, candidate: Floats, *, host: bool | Sequence[bool] = False) -> Floats:
    """What the means of two runs of one program may differ by, of values (runs, cells). `host`: which vary as host time does."""
    larger = np.maximum(baseline.mean(axis=0), candidate.mean(axis=0))
    gpu = np.where(larger > 0, np.maximum(_ASSUMED * larger, _LEAST_NS), 0.0)
    return np.where(np.asarray(host), _OF_HOST * larger + _HOST_NS, gpu)


def groups(baseline: Engine, candidate: Engine) -> list[TrtexecGroup]:
    """Return the sums of all layers by type and by precision, the most time first."""
    found: list[TrtexecGroup] = []
    for kind in ("type", "precision"):
        one, other = (
            _gathered((getattr(layer, kind), number) for number, layer in enumerate(engine.layers))
            for engine in (baseline, candidate)
        )
        if not any({*one, *other}):
            continue
        rows = []
        for name in {**one, **other}:
            before = (baseline.time(one[name]) or 0.0) if baseline.profiled else None
            after = (candidate.time(other[name]) or 0.0) if candidate.profiled else None
            delta = None if before is None or after is None else after - before
            rows.append(TrtexecGroup(kind, name, len(one[name]), len(other[name]), before, after, delta))
        found += sorted(
            rows, key=lambda row: (-max(row.baseline_ns or 0.0, row.candidate_ns or 0.0), row.name)
        )
    return found


def _gathered(pairs: Iterable[tuple[_Kind, _Value]]) -> dict[_Kind, list[_Value]]:
    """Key -> its values, in their order; of other keys none."""
    found: dict[_Kind, list[_Value]] = defaultdict(list)
    for key, value in pairs:
        found[key].append(value)
    return found


# Layers of one engine to those of another, by what their names say they are made of.


def pair(baseline: Sequence[LayerInfo], candidate: Sequence[LayerInfo]) -> list[Pairing]:
    """Pair the layers of two engines; every layer is in exactly one pairing."""
    sides = baseline, candidate
    left = list(range(len(baseline))), list(range(len(candidate)))
    # The type is no part of the key: that it changed is to be said of the layer.
    found = _equal(sides, left, lambda layer: (layer.reformat, (layer.name,)), "exact", 1.0)
    # several kernels of Myelin bear one name: those of the same layers of the network first
    found += _equal(sides, left, lambda layer: _key(layer, layer.onnx), "normalised", 0.95)
    found += _equal(sides, left, lambda layer: _key(layer, ()), "normalised", 0.95)
    found += _linked(sides, left)
    found += [Pairing("removed", 0.8, (one,), ()) for one in left[0]]
    found += [Pairing("added", 0.8, (), (one,)) for one in left[1]]
    return found


def _key(layer: LayerInfo, onnx: Sequence[str]) -> _Key:
    named = tuple(sorted(layer_set(layer.name)))
    return layer.reformat, (*named, "", *sorted(onnx)) if named else ()


def _equal(
    sides: tuple[Sequence[LayerInfo], Sequence[LayerInfo]],
    left: tuple[list[int], list[int]],
    key: Callable[[LayerInfo], _Key],
    match: str,
    confidence: float,
) -> list[Pairing]:
    """Pair layers of the same key in their order, and take them out of `left`; less sure where one side has more of them."""
    groups = [
        _gathered((of, number) for number in numbers if (of := key(side[number]))[1])
        for side, numbers in zip(sides, left, strict=True)
    ]
    found = []
    for of, ones in groups[0].items():
        others = groups[1].get(of, [])
        sure = confidence if len(ones) == len(others) else min(confidence, 0.6)
        found += [Pairing(match, sure, (a,), (b,)) for a, b in zip(ones, others, strict=False)]
    left[0][:] = sorted({*left[0]} - {number for one in found for number in one.baseline})
    left[1][:] = sorted({*left[1]} - {number for one in found for number in one.candidate})
    return found


def _linked(
    sides: tuple[Sequence[LayerInfo], Sequence[LayerInfo]], left: tuple[list[int], list[int]]
) -> list[Pairing]:
    """Group what is left by the network layers that both sides name; take the groups out of `left`."""
    parts = [
        {number: _parts(side[number]) for number in numbers if not side[number].reformat}
        for side, numbers in zip(sides, left, strict=True)
    ]
    by_range = [_within(sides[side], parts[side], parts[1 - side]) for side in (0, 1)]
    owners = _gathered(
        (name, (side, number))
        for side in (0, 1)
        for number, of in parts[side].items()
        for name in of | by_range[side].get(number, set())
    )
    together: Disjoint[_Node] = Disjoint()
    for nodes in owners.values():
        if len({side for side, _ in nodes}) == 2:
            for node in nodes:
                together.join(nodes[0], node)
    found = []
    groups = sorted(map(sorted, together.groups()))
    for nodes in groups:
        numbers = [tuple(number for of, number in nodes if of == side) for side in (0, 1)]
        names = [set[str]().union(*(parts[side][number] for number in numbers[side])) for side in (0, 1)]
        ranged = any(number in by_range[of] for of, number in nodes)
        sure = 0.6 if ranged else 0.5 + 0.45 * len(names[0] & names[1]) / len(names[0] | names[1])
        tier = _tier(len(numbers[0]), len(numbers[1]))
        found.append(Pairing(tier, round(sure, 2), numbers[0], numbers[1]))
    for side in (0, 1):
        left[side][:] = sorted(
            {*left[side]} - {number for nodes in groups for of, number in nodes if of == side}
        )
    return found


def _tier(before: int, after: int) -> str:
    if before == after == 1:
        return "similar"
    return "fused" if after == 1 else "split" if before == 1 else "regrouped"


def _parts(layer: LayerInfo) -> set[str]:
    """Network layers of a name and of its metadata; not what numbers alone tell apart, nor a Myelin kernel's own name."""
    found = set(layer.onnx)
    for part in layer_set(layer.name):
        if ends := _ends(part):
            found |= set(ends)
        elif not part.startswith("unnamed ") and decode(part) is None:
            found.add(part)
    return found


def _ends(part: str) -> tuple[str, ...]:
    """The first and the last layer of `ForeignNode[first...last]`."""
    found = _FOREIGN.fullmatch(part)
    return tuple(one for one in found[1].split("...") if one) if found else ()


def _within(
    side: Sequence[LayerInfo], mine: dict[int, set[str]], theirs: dict[int, set[str]]
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
