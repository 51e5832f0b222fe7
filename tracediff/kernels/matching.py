"""Kernels of one side to kernels of the other, in tiers, within equal workloads.

1. A phase has several op sequences: one for each workload. Sequences that both sides have match op by op. The most
   alike of the others are paired and aligned: ops that stay the same, up to a compiler's number, are anchors, and a run
   between two anchors is aligned again by what the kernels are: replaced one by one (`name`, `template`, `sequence`),
   n -> 1 (`fused`), 1 -> n (`split`), `added`, `removed`. Unlike sequences are never aligned. A copy is only itself: it
   replaces nothing, and nothing is fused with it.
2. GEMMs that stand at the same place of one side's sequences are one role, for the library chooses the variant by
   shape: their rows become one row. What changed between the sides stays apart from it.
3. Ops that are left alone are renamed (`_renames`), or the same at another place: by name and grid, by name alone where
   both sides launch it equally often.
4. Ops outside the aligned sequences join their own kind: by key, role, name, template.

Each op of each side ends up in exactly one row; a kernel used in two roles is divided between rows by its uses.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain, product
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeAlias, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from tracediff.kernels import names as kernel_names

# A capture has few distinct names and runs of changes, and each is asked for again and again.
normalise = lru_cache(1 << 16)(kernel_names.normalise)
category = lru_cache(1 << 16)(kernel_names.category)

MAX_SEQUENCE = 4000  # longer sequences are not aligned, which takes quadratic time
# Sequences of a phase and side, those of most steps: each is aligned with one of the other side and one of its own.
MOST_SEQUENCES = 32
_CELLS = 4 * MAX_SEQUENCE**2  # of the tables that aligning them fills: a second or two
# Sequences are unlike where fewer of the longer one's ops are in both. Under real traffic steps of one program share up
# to 66 % of their ops with steps of other token counts, and 77 to 79 % with the same workload after a fusion.
ALIKE = 0.7
_NEARLY_ALL = 0.75  # of the steps of a phase: its work does not depend on the traffic
_FUSE = 6  # the most ops a fused or split run is looked for among
_RUN = 10_000  # cells of the table that aligning a run between two anchors fills, op by op


class OpKey(msgspec.Struct, frozen=True, order=True):
    """What an op is: name and launch shape ('' where it has none)."""

    name: str
    grid: str = ""
    block: str = ""


Ops: TypeAlias = tuple[OpKey, ...]
Pair: TypeAlias = tuple[Ops, Ops]
Shares: TypeAlias = dict[tuple[str, OpKey], list[tuple[int, float]]]
T = TypeVar("T", bound=Hashable)


class Used(NamedTuple):
    """How often a step launches an op, and the mean time of one, ns."""

    per_step: float
    mean_ns: float


class PhaseOps(NamedTuple):
    """One phase of one side.

    sequences: ops of a step, in order -> how many steps have them; ops: every op of the phase; used: of ops, where it is known.
    """

    sequences: Mapping[Ops, int]
    ops: Collection[OpKey]
    used: Mapping[OpKey, Used] = MappingProxyType({})


_NOTHING = PhaseOps({}, ())


class Match(msgspec.Struct, frozen=True):
    """One row of the kernel table: these ops of the baseline are those of the candidate.

    The most used op of a side comes first; ops that one op replaces stand as often as it replaces them.
    block: rows that changed between the same two anchors share a number >= 0; -1: unchanged, or outside the sequences.
    main: the ops that stand for the others where a row has many variants: those of its most used pair.
    pairs: what stands for what, as sequences were aligned.
    """

    match: str
    confidence: float
    baseline: Ops
    candidate: Ops
    block: int = -1
    main: Pair = ((), ())
    pairs: tuple[Pair, ...] = ()


class Matching(msgspec.Struct, frozen=True):
    """Rows, and for each side (phase, op) -> [(row, share of the op's time in that row)]; shares sum to 1."""

    rows: list[Match]
    baseline: Shares
    candidate: Shares


def pair_kernels(baseline: Mapping[str, PhaseOps], candidate: Mapping[str, PhaseOps]) -> Matching:
    """Pair the ops of both sides, in rows without a tier: comparison/alignment.py:match_kernels says how sure each is.

    Arguments: phase -> its ops. Of the sequences the `MOST_SEQUENCES` of most steps count, in whatever order they come.
    """
    phases = {
        phase: _Phase.of(baseline.get(phase, _NOTHING), candidate.get(phase, _NOTHING))
        for phase in sorted(baseline.keys() | candidate.keys())
    }
    aligned = {phase: _align_phase(one) for phase, one in phases.items()}
    own = _on_both_sides(chain.from_iterable(aligned.values()))
    own = own.union(*(one.settled for one in phases.values()))
    rows: list[Match] = []
    numbers: dict[frozenset[Pair], int] = {}
    blocks: Disjoint[int] = Disjoint()
    shares: tuple[Shares, Shares] = ({}, {})
    for phase, one in phases.items():
        books = _Books(one)
        books.add_aligned(aligned[phase], own)
        books.add_outside()
        for side in (0, 1):
            for variants in _variants(one.sequences[side]):
                books.one_role(side, *variants)
        books.find_moved()
        books.find_homes()
        row_of: dict[Pair, int] = {}
        for pairs in books.rows.groups():
            number = numbers.setdefault(frozenset(pairs), len(rows))
            if number == len(rows):
                rows.append(books.match(pairs))
            row_of.update(dict.fromkeys(pairs, number))
        for changed in books.changed_runs():
            for pair in changed:
                blocks.join(row_of[changed[0]], row_of[pair])
        for side in (0, 1):
            for op, counts in books.uses[side].items():
                shares[side][phase, op] = _shares(counts, row_of)
    for block, members in enumerate(blocks.groups()):
        for number in members:
            rows[number] = replace(rows[number], block=block)
    return Matching(rows, *shares)


def _shares(counts: Counter[Pair], row_of: Mapping[Pair, int]) -> list[tuple[int, float]]:
    rows: Counter[int] = Counter()
    for pair, count in counts.items():
        rows[row_of[pair]] += count
    return [(row, count / rows.total()) for row, count in sorted(rows.items())]


class Disjoint(Generic[T]):
    """Disjoint sets; the order of joining does not matter, only that of first mention orders the groups."""

    def __init__(self) -> None:
        self._parent: dict[T, T] = {}

    def find(self, one: T) -> T:
        """What stands for its set."""
        while self._parent.setdefault(one, one) != one:
            self._parent[one] = one = self._parent[self._parent[one]]
        return one

    def join(self, one: T, other: T) -> None:
        """Make one set of those of two elements."""
        self._parent[self.find(other)] = self.find(one)

    def groups(self) -> list[list[T]]:
        """The sets."""
        found: dict[T, list[T]] = {}
        for one in list(self._parent):
            found.setdefault(self.find(one), []).append(one)
        return list(found.values())


# The sequences of a phase.


class _Phase(msgspec.Struct, frozen=True):
    """A phase of both sides. several: no workload has nearly all steps; settled: ops that nothing replaces."""

    ops: tuple[set[OpKey], set[OpKey]]
    used: tuple[Mapping[OpKey, Used], Mapping[OpKey, Used]]
    sequences: tuple[dict[Ops, int], dict[Ops, int]]
    several: bool
    settled: set[OpKey]

    @classmethod
    def of(cls, one: PhaseOps, other: PhaseOps) -> _Phase:
        ops = tuple({*side.ops, *chain.from_iterable(side.sequences)} for side in (one, other))
        sequences = _most_common(one.sequences), _most_common(other.sequences)
        # Between steps of several workloads a count may differ for the workload alone, and a grid. GEMMs are told apart by role.
        several = any(max(each.values()) < _NEARLY_ALL * sum(each.values()) for each in sequences if each)
        settled = ops[0] & ops[1]
        if several:
            # nor does that of a kernel with one grid a side depend on the workload
            grids = [Counter(op.name for op in side) for side in ops]
            same = {
                name for name in _as_often(one.used, other.used) if not grids[0][name] == grids[1][name] == 1
            }
            settled |= {op for op in ops[0] | ops[1] if op.name in same}
        settled = {op for op in settled if several and category(op.name) != "gemm"}
        return cls((ops[0], ops[1]), (one.used, other.used), sequences, several, settled)


def _as_often(one: Mapping[OpKey, Used], other: Mapping[OpKey, Used]) -> set[str]:
    """Names of kernels that both sides launch equally often, in whatever grids."""
    often: tuple[Counter[str], Counter[str]] = Counter(), Counter()
    for counts, used in zip(often, (one, other), strict=True):
        for op, each in used.items():
            counts[op.name] += each.per_step  # type: ignore[assignment]
    return {
        name
        for name in often[0].keys() & often[1].keys()
        if abs(often[0][name] - often[1][name]) <= _SAME_COUNT * min(often[0][name], often[1][name])
    }


class _Use(NamedTuple):
    """A pair of an alignment. steps: of either side that have it; run: of changes between two anchors, -1: an anchor."""

    pair: Pair
    steps: tuple[int, int]
    run: int


def _most_common(sequences: Mapping[Ops, int]) -> dict[Ops, int]:
    """Most steps first; ties by content, so that the order of runs does not matter."""
    found: dict[Ops, int] = {}
    cells = 0
    for sequence, steps in sorted(sequences.items(), key=lambda one: (-one[1], one[0])):
        cells += len(sequence) ** 2 if len(sequence) <= MAX_SEQUENCE else 0
        if len(found) < MOST_SEQUENCES and cells <= _CELLS:
            found[sequence] = steps
    return found


def _align_phase(phase: _Phase) -> list[_Use]:
    one, other = phase.sequences
    uses = []
    run = 0
    for mine, theirs in _counterparts(one, other):
        steps = one[mine], other[theirs]
        pairs = [((op,), (op,)) for op in mine] if mine == theirs else _align(mine, theirs, phase.settled)
        for pair in pairs:
            anchor = _anchors(pair)
            run += anchor
            uses.append(_Use(pair, steps, -1 if anchor else run))
        run += 1
    return uses


def _counterparts(one: dict[Ops, int], other: dict[Ops, int]) -> list[tuple[Ops, Ops]]:
    """Sequences of equal workloads, each at most once.

    Of those that one side alone has, the most alike are paired first. What then is left of both sides, and is what nearly
    all their steps do, is one workload too, whatever was rewritten.
    """
    mine, theirs = ([each for each in side if len(each) <= MAX_SEQUENCE] for side in (one, other))
    mine, theirs = [each for each in mine if each not in other], [each for each in theirs if each not in one]
    most = [
        [number for number, each in enumerate(alone) if side[each] > _NEARLY_ALL * sum(side.values())]
        for alone, side in ((mine, one), (theirs, other))
    ]
    counts = [[Counter(each) for each in alone] for alone in (mine, theirs)]
    ranked = []
    for (i, a), (j, b) in product(enumerate(mine), enumerate(theirs)):
        overlap = _overlap(counts[0][i], counts[1][j])
        if overlap >= ALIKE:
            # ties by content, either side first
            ranked.append((-overlap, -min(one[a], other[b]), min(a, b), max(a, b), (i, j)))
    free = set(range(len(mine))), set(range(len(theirs)))
    found = [(each, each) for each in one if each in other]
    for i, j in [*(rank[-1] for rank in sorted(ranked)), *product(*most)]:
        if i in free[0] and j in free[1]:
            free[0].remove(i)
            free[1].remove(j)
            found.append((mine[i], theirs[j]))
    return found


def _overlap(one: Counter[T], other: Counter[T]) -> float:
    """The share of the longer sequence's elements that both have, wherever they stand."""
    return (one & other).total() / max(one.total(), other.total(), 1)


def _on_both_sides(uses: Iterable[_Use]) -> set[OpKey]:
    """Ops that one side alone has somewhere, and that the other side has too: their row's count changes."""
    lone: tuple[set[OpKey], set[OpKey]] = (set(), set())
    exact: set[OpKey] = set()
    for (one, other), *_ in uses:
        if one == other:
            exact.update(one)
        elif not one or not other:
            lone[bool(other)].update(one or other)
    return exact | (lone[0] & lone[1])


def _variants(sequences: Iterable[Ops]) -> list[tuple[OpKey, OpKey]]:
    """GEMMs that stand at the same place of sequences of one side, as pairs.

    Each sequence is aligned with the most alike before it, by template. A GEMM that both sequences launch equally often
    was not chosen by shape: it only stands elsewhere.
    """
    found: dict[tuple[OpKey, OpKey], None] = {}
    before: list[tuple[Ops, list[str], Counter[OpKey], Counter[str]]] = []
    for one in sequences:
        if len(one) > MAX_SEQUENCE:
            continue
        kinds = [role(op.name) for op in one]
        counts, of_kinds = Counter(one), Counter(kinds)
        alike = [(_overlap(of_kinds, theirs[3]), _overlap(counts, theirs[2])) for theirs in before]
        if alike and max(alike)[0] >= ALIKE:
            other, other_kinds, other_counts, _ = before[alike.index(max(alike))]
            for i, j in longest_common(kinds, other_kinds):
                pair = one[i], other[j]
                chosen = any(counts[op] != other_counts[op] for op in pair)
                if kinds[i] == "gemm" and one[i] != other[j] and chosen:
                    found[pair] = None
        before.append((one, kinds, counts, of_kinds))
    return list(found)


def role(name: str) -> str:
    """The template of a kernel, one for all GEMMs."""
    return "gemm" if category(name) == "gemm" else normalise(name)


# Rows of a phase.


class _Books:
    """The pairs of a phase.

    rows: pairs that are one row; uses: of each side, op -> the pairs that it stands in, with weights; runs: the changed
    pairs between two anchors.
    """

    def __init__(self, phase: _Phase) -> None:
        self._phase = phase
        self.rows: Disjoint[Pair] = Disjoint()
        self.uses: tuple[dict[OpKey, Counter[Pair]], dict[OpKey, Counter[Pair]]] = ({}, {})
        self.runs: dict[int, list[Pair]] = {}
        self._strays: dict[tuple[int, OpKey], None] = {}  # side, op: alone, without a sign of a change
        self._lone: dict[tuple[int, OpKey], None] = {}  # side, op: alone where it was aligned
        self._moved: set[Pair] = set()  # of these, those that are no change of the run they stand in

    def _use(self, side: int, op: OpKey, pair: Pair, weight: int) -> None:
        self.rows.find(pair)
        self.uses[side].setdefault(op, Counter())[pair] += weight

    def add_aligned(self, uses: Iterable[_Use], own: Collection[OpKey]) -> None:
        """Add the aligned sequences. `own`: ops that are never added or removed."""
        names = [{op.name for op in ops if self._phase.several} for ops in self._phase.ops]
        for pair, steps, run in uses:
            lone = pair[0] or pair[1]
            kept = (lone, lone) if not all(pair) and lone[0] in own else pair
            for side in (0, 1):
                for op in pair[side]:
                    self._use(side, op, kept, steps[side])
            if run >= 0 and kept[0] != kept[1]:
                self.runs.setdefault(run, []).append(kept)
            side = int(not kept[0])
            if not all(kept):
                self._lone[side, lone[0]] = None
                if lone[0].name in names[1 - side]:
                    self._strays[side, lone[0]] = None

    def add_outside(self) -> None:
        """Add the ops outside the aligned sequences: each with its own key where the other side has it, else alone."""
        known = [set(uses) for uses in self.uses]
        outside = [ops - seen for ops, seen in zip(self._phase.ops, known, strict=True)]
        for op in sorted(outside[0] | outside[1]):
            for side in (0, 1):
                if op not in outside[side]:
                    continue
                if op in outside[1 - side]:
                    self._use(side, op, ((op,), (op,)), 1)
                    continue
                self._use(side, op, _alone(side, op), 1)
                if op in known[1 - side]:
                    self.rows.join(self._main(1 - side, op), _alone(side, op))
                else:
                    self._strays[side, op] = None

    def one_role(self, side: int, one: OpKey, other: OpKey) -> None:
        """Make one row of the pairs of two ops of one side, each kind of change apart.

        An op that stands alone everywhere joins the other one's main pair.
        """
        ops = [op for op in (one, other) if any(map(_changes, self.uses[side][op]))]
        if len(ops) == 1:
            alone = other if ops[0] == one else one
            for pair in self.uses[side][alone]:
                self.rows.join(self._main(side, ops[0]), pair)
        first: dict[str, Pair] = {}
        kinds = [{_changes(pair) for pair in self.uses[side][op]} for op in (one, other)]
        for pair in chain(self.uses[side][one], self.uses[side][other]):
            if _changes(pair) in kinds[0] & kinds[1]:
                self.rows.join(first.setdefault(_changes(pair), pair), pair)

    def changed_runs(self) -> list[list[Pair]]:
        """The changed pairs of each run between two anchors."""
        runs = [[pair for pair in pairs if pair not in self._moved] for pairs in self.runs.values()]
        return [pairs for pairs in runs if pairs]

    def find_moved(self) -> None:
        """Join what is left alone on both sides and is the same kernel: at another place, or under another name."""
        settled = self._settled()
        left = [one for one in (self._lone | self._strays) if _alone(*one) not in settled]
        sides = [[op for at, op in left if at == side] for side in (0, 1)]
        renamed = _renames(sides[0], sides[1], self._phase.used)
        known = [{pair[side] for pair in renamed} for side in (0, 1)]
        same = _as_often(*self._phase.used)
        elsewhere = [
            pair
            for pair in _pairs(sides[0], sides[1], lambda op: (op.name, "" if op.name in same else op.grid))
            if pair[0] not in known[0] and pair[1] not in known[1]
        ]
        for one, other in (*renamed, *elsewhere):
            pairs = _alone(0, one), _alone(1, other)
            self.rows.join(*pairs)
            self._moved.update(pairs)

    def _settled(self) -> set[Pair]:
        """Pairs of rows that both sides have."""
        return {
            pair
            for pairs in self.rows.groups()
            if any(map(_changes, pairs)) or len({bool(one) for one, _ in pairs}) == 2
            for pair in pairs
        }

    def find_homes(self) -> None:
        """Join the ops outside that still stand alone to their own name, then their own template, of either side."""
        for key in (_name, _template):
            settled = self._settled()
            homeless = [one for one in self._strays if _alone(*one) not in settled]
            known = [self._by_key(side, key, homeless) for side in (0, 1)]
            groups: dict[str, tuple[list[Pair], list[Pair]]] = {}
            for side, op in homeless:
                groups.setdefault(key(op), ([], []))[side].append(_alone(side, op))
            for text, group in groups.items():
                alone = [*group[0], *group[1]]
                if not all(group):  # the other side has it inside its sequences, or nowhere
                    side = int(not group[0])
                    at = next((at for at in (side, 1 - side) if text in known[at]), None)
                    if at is not None:
                        alone.append(self._main(at, known[at][text]))
                    if at == side:
                        for pair in group[side]:
                            self._stand_like(side, pair[side][0], known[side][text])
                for pair in alone:
                    self.rows.join(alone[0], pair)

    def _stand_like(self, side: int, op: OpKey, known: OpKey) -> None:
        """Let an op stand for what another one of its side stands for, with the same share of each."""
        uses: Counter[Pair] = Counter()
        for pair, weight in self.uses[side][known].items():
            mine = tuple(op if one == known else one for one in pair[side])
            place = (pair[0], mine) if side else (mine, pair[1])
            self.rows.join(place, pair)
            uses[place] = weight
        self.uses[side][op] = uses

    def match(self, pairs: Sequence[Pair]) -> Match:
        """The row of some pairs."""
        weights = [{pair: self._weight(side, pair) for pair in pairs} for side in (0, 1)]
        parts: list[list[Ops]] = []
        for side in (0, 1):
            of_part: dict[Ops, float] = defaultdict(float)
            for pair in pairs:
                of_part[pair[side]] += weights[side][pair]
            parts.append(sorted(filter(None, of_part), key=lambda part: (-of_part[part], part)))
        one, other = (tuple(chain.from_iterable(of_side)) for of_side in parts)
        replaced = [pair for pair in pairs if all(pair)]
        main = max(
            replaced,
            key=lambda pair: (weights[0][pair] + weights[1][pair], sorted(pair)),
            default=(parts[0][0] if one else (), parts[1][0] if other else ()),
        )
        return Match("", 0.0, one, other, main=main, pairs=tuple(pairs))

    def _weight(self, side: int, pair: Pair) -> float:
        """Launches per step of the ops of a pair that stand in it, also of those outside the sequences."""
        launched = 0.0
        for op in sorted(set(pair[side]) & self.uses[side].keys()):
            uses, used = self.uses[side][op], self._phase.used[side].get(op)
            launched += uses[pair] / uses.total() * (used.per_step if used else uses.total())
        return launched

    def _main(self, side: int, op: OpKey) -> Pair:
        """Where an op stands most: with itself, if anywhere."""
        uses = self.uses[side][op]
        return max(uses, key=lambda pair: (pair[0] == pair[1], uses[pair], sorted(pair)))

    def _by_key(
        self, side: int, key: Callable[[OpKey], str], homeless: Sequence[tuple[int, OpKey]]
    ) -> dict[str, OpKey]:
        """Key -> the most used op of a side that has a row; by template only GEMMs, whose variants are many."""
        alone = {op for at, op in homeless if at == side}
        uses = self.uses[side]
        ops = [op for op in uses if op not in alone and (key is _name or category(op.name) == "gemm")]
        return {key(op): op for op in sorted(ops, key=lambda op: (uses[op].total(), op))}


def _name(op: OpKey) -> str:
    return op.name


def _template(op: OpKey) -> str:
    return normalise(op.name)


_RENAMED = 0.1  # relative: times of one kernel under two numbers of its compiler differ by less
_RENAMED_FREELY = 0.05  # the same under names that have nothing in common
_TELLING_NS = 2000  # shorter kernels of one launch shape take the same time whatever they do
_SAME_COUNT = 0.01  # relative


def _renames(
    one: Sequence[OpKey], other: Sequence[OpKey], used: tuple[Mapping[OpKey, Used], Mapping[OpKey, Used]]
) -> list[tuple[OpKey, OpKey]]:
    """Kernels of both sides that are one under two names: equal grid and block, as often, as long.

    Names of one template, or without such the only two of their category and launch shape.
    """
    found: list[tuple[float, OpKey, OpKey, bool]] = []
    for a, b in _pairs(one, other, lambda op: (op.grid, op.block)):
        mine, theirs = used[0].get(a), used[1].get(b)
        if mine is None or theirs is None or a == b or not a.grid:  # copies have no grid
            continue
        if abs(mine.per_step - theirs.per_step) > _SAME_COUNT * mine.per_step:
            continue
        apart = abs(mine.mean_ns - theirs.mean_ns) / max(mine.mean_ns, theirs.mean_ns, 1.0)
        alike = _template(a) == _template(b)
        if alike or category(a.name) == category(b.name):
            found.append((apart, a, b, alike))
    pairs: list[tuple[OpKey, OpKey]] = []
    taken: set[tuple[int, OpKey]] = set()
    many = [Counter(pair[side] for pair in found) for side in (1, 2)]
    for apart, a, b, alike in sorted(found, key=lambda pair: (not pair[3], pair[0], sorted(pair[1:3]))):
        long = min(used[0][a].mean_ns, used[1][b].mean_ns) >= _TELLING_NS
        only = many[0][a] == many[1][b] == 1 and long
        equal = apart <= _RENAMED if alike else only and apart <= _RENAMED_FREELY
        if equal and not taken & {(0, a), (1, b)}:
            taken |= {(0, a), (1, b)}
            pairs.append((a, b))
    return pairs


def _pairs(
    one: Sequence[OpKey], other: Sequence[OpKey], key: Callable[[OpKey], Hashable]
) -> Iterable[tuple[OpKey, OpKey]]:
    """Ops of both sides with one key, each with each."""
    by_key: dict[Hashable, list[OpKey]] = {}
    for op in other:
        by_key.setdefault(key(op), []).append(op)
    return ((op, same) for op in one for same in by_key.get(key(op), ()))


def _is_copy(*ops: OpKey) -> bool:
    """Whether one of these is no kernel: a copy, a memset, a whole graph."""
    return not all(kernel_names.is_kernel(op.name) for op in ops)


def _identity(op: OpKey) -> OpKey:
    """The op without the number that a compiler gave it."""
    return OpKey(_template(op), op.grid, op.block) if kernel_names.is_numbered(op.name) else op


def _anchors(pair: Pair) -> bool:
    """Whether nothing changed: the same op, up to a compiler's number."""
    one, other = pair
    return one == other or (len(one) == len(other) == 1 and _identity(one[0]) == _identity(other[0]))


def _alone(side: int, op: OpKey) -> Pair:
    return ((), (op,)) if side else ((op,), ())


def _changes(pair: Pair) -> str:
    """How the number of ops changes; '' where one side has none."""
    if not all(pair):
        return ""
    return "fused" if len(pair[0]) > 1 else "split" if len(pair[1]) > 1 else "single"


# One sequence to another.


def _align(one: Ops, other: Ops, settled: Collection[OpKey] = ()) -> list[Pair]:
    """Pairs in order, those of ops that only moved at the end. `settled`: ops that nothing else replaces."""
    if other < one:  # both ways round the same alignment: swapping the sides must only swap the pairs
        return [(a, b) for b, a in _align(other, one, settled)]
    anchors = longest_common(one, other, [_identity(op) for op in one], [_identity(op) for op in other])
    left = [Counter(ops) - Counter(one[a] for a, _ in anchors) for ops in (one, other)]
    moved = left[0] & left[1]
    still = moved.copy(), moved.copy()
    pairs: list[Pair] = []
    i = j = 0
    for a, b in [*anchors, (len(one), len(other))]:
        run: tuple[list[OpKey], list[OpKey]] = ([], [])
        for side, ops in enumerate((one[i:a], other[j:b])):
            for op in ops:
                if still[side][op]:
                    still[side][op] -= 1
                elif op in settled:
                    pairs.append(_alone(side, op))
                else:
                    run[side].append(op)
        pairs += _align_run(tuple(run[0]), tuple(run[1]))
        pairs += [((op,), (same,)) for op, same in zip(one[a : a + 1], other[b : b + 1], strict=True)]
        i, j = a + 1, b + 1
    return pairs + [((op,), (op,)) for op in sorted(moved.elements())]


def longest_common(
    one: Sequence[T],
    other: Sequence[T],
    kind: Sequence[T] | None = None,
    other_kind: Sequence[T] | None = None,
) -> list[tuple[int, int]]:
    """Positions of a longest common subsequence, by rows of whole vectors: quadratic, but never worse.

    With kinds, elements of one kind are common too; of as many pairs, those with more equal elements are taken.
    """
    a, b = _ids(one, other)
    a_kind, b_kind = (a, b) if kind is None or other_kind is None else _ids(kind, other_kind)

    def worth(i: int) -> npt.NDArray[np.int16]:
        return np.asarray(2 * (b_kind == a_kind[i]) + (b == a[i]), np.int16)

    # length[i][j]: of the longest common subsequence of one[i:] and other[j:]
    length = np.zeros((len(a) + 1, len(b) + 1), np.int16)
    for i in range(len(a) - 1, -1, -1):
        below = length[i + 1]
        best = np.maximum(below[:-1], below[1:] + worth(i))
        length[i, :-1] = np.maximum.accumulate(best[::-1])[::-1]
    found = []
    i = j = 0
    while i < len(a) and j < len(b):
        if a_kind[i] == b_kind[j] and length[i, j] == length[i + 1, j + 1] + 2 + (a[i] == b[j]):
            found.append((i, j))
            i, j = i + 1, j + 1
        elif length[i + 1, j] >= length[i, j + 1]:
            i += 1
        else:
            j += 1
    return found


def _ids(one: Sequence[T], other: Sequence[T]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    ids = {each: number for number, each in enumerate(dict.fromkeys((*one, *other)))}
    return (
        np.array([ids[each] for each in one], np.int32),
        np.array([ids[each] for each in other], np.int32),
    )


@lru_cache(1 << 12)
def _align_run(one: Ops, other: Ops) -> list[Pair]:
    """Cheapest way to turn one run into the other; costs say what an engineer would call it."""
    if not one or not other:
        return [_alone(0, op) for op in one] + [_alone(1, op) for op in other]
    if len(one) * len(other) > _RUN:
        return _align_long(one, other)
    best: dict[tuple[int, int], tuple[float, tuple[int, int]]] = {(0, 0): (0.0, (0, 0))}
    for i in range(len(one) + 1):
        for j in range(len(other) + 1):
            if i == j == 0:
                continue
            options = []
            if i:
                options.append((best[i - 1, j][0] + 1.0, (i - 1, j)))
            if j:
                options.append((best[i, j - 1][0] + 1.0, (i, j - 1)))
            if i and j:
                options.append((best[i - 1, j - 1][0] + _unlike(one[i - 1], other[j - 1]), (i - 1, j - 1)))
                for n in range(2, _FUSE + 1):
                    if n <= i:
                        cost = _merge_cost(one[i - n : i], other[j - 1])
                        options.append((best[i - n, j - 1][0] + cost, (i - n, j - 1)))
                    if n <= j:
                        cost = _merge_cost(other[j - n : j], one[i - 1])
                        options.append((best[i - 1, j - n][0] + cost, (i - 1, j - n)))
            best[i, j] = min(options)
    pairs = []
    at = (len(one), len(other))
    while at != (0, 0):
        back = best[at][1]
        pairs.append((one[back[0] : at[0]], other[back[1] : at[1]]))
        at = back
    return pairs[::-1]


def _align_long(one: Ops, other: Ops) -> list[Pair]:
    """A run too long for that: ops of one template are anchors, as where a library was updated. Without any it is a wholesale rewrite, in which position says nothing."""
    kinds = [[_template(op) for op in ops] for ops in (one, other)]
    anchors = longest_common(*kinds)
    if not anchors:
        return [_alone(0, op) for op in one] + [_alone(1, op) for op in other]
    pairs: list[Pair] = []
    i = j = 0
    for a, b in [*anchors, (len(one), len(other))]:
        pairs += _align_run(one[i:a], other[j:b])
        pairs += [((op,), (same,)) for op, same in zip(one[a : a + 1], other[b : b + 1], strict=True)]
        i, j = a + 1, b + 1
    return pairs


_NEVER = 2.5  # dearer than removing one and adding the other


def _unlike(one: OpKey, other: OpKey) -> float:
    """0 for the same op; removing one and adding the other costs 2."""
    if one == other:
        return 0.0
    if _is_copy(one, other):
        return _NEVER
    if one.name == other.name:
        return 0.1
    if normalise(one.name) == normalise(other.name):
        return 0.2
    if category(one.name) == category(other.name):
        return 0.5
    same = {category(one.name), category(other.name)}
    # kernels of pointwise kinds replace each other freely; a GEMM is not replaced by a softmax: dearer than both apart
    return (
        0.8
        if same <= {"elementwise", "activation", "norm", "quantisation", "copy", "other", "softmax"}
        else _NEVER
    )


# Work that does not disappear into a pointwise kernel: it can only be fused with its own kind.
_HEAVY = frozenset({"gemm", "attention", "moe", "communication"})


def _merge_cost(many: Ops, single: OpKey) -> float:
    """N -> 1 is likely where the one does what one of the n did; the same kind n times -> 1 is likeliest."""
    kinds = {category(op.name) for op in many}
    kind = category(single.name)
    impossible = 2.0 * len(many)
    if _is_copy(single, *many) or single in many or not kinds & _HEAVY <= {kind}:
        return impossible
    # the same code at another grid does its own work, not that of its neighbour as well
    if 0 < sum(op.name == single.name for op in many) < len(many):
        return impossible
    if kinds == {kind}:
        return 0.1 + 0.2 * len(many)
    if kind in kinds or kind == "other":
        return 0.4 + 0.25 * len(many)
    return impossible
