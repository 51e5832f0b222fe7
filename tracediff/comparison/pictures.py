"""What the pictures of a report are drawn from: a step as a tree of causes, and every step in order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import polars as pl
from msgspec.structs import replace

from tracediff.accounting.reduction import STEP
from tracediff.arrays import Floats, Ints
from tracediff.comparison.candidates import kernels_of
from tracediff.comparison.cells import IdleKey, Layout, Measured, PhaseCells
from tracediff.comparison.frame import Frame
from tracediff.comparison.places import LEVELS, Judged
from tracediff.comparison.shown import PARTS, ROWS
from tracediff.kernels.matching import Match, OpKey
from tracediff.kernels.names import category
from tracediff.model import CATEGORIES, Evidence, Finding, KernelRow, Where
from tracediff.model.causes import BUSY
from tracediff.model.common import ABSENT
from tracediff.model.observed import Observed
from tracediff.model.pictures import CauseNode, StepStrip, StripColumn
from tracediff.stats.rules import MATERIAL
from tracediff.steps.timelines import Selected, most_changed

_SIZES = ("baseline_ns", "candidate_ns", "delta_ns")  # of one side the first alone


class _Node(msgspec.Struct):
    """A part of the step. `cells`: of a leaf; order: among its like; fields: of `CauseNode`; the rest is known once it is measured."""

    fields: dict[str, Any]
    cells: list[int] = msgspec.field(default_factory=list)
    order: int = 0
    parts: dict[Any, _Node] = msgspec.field(default_factory=dict)
    level: Evidence | None = None
    sizes: list[float] = msgspec.field(default_factory=list)  # see _SIZES

    def part(self, name: Any, /, cell: int = -1, order: int = 0, **fields: Any) -> _Node:
        """The part of this name, made where it is not there; what has a cell gets this one too."""
        found = self.parts.setdefault(name, _Node(fields, [], order))
        found.cells += [cell] * (cell >= 0)
        return found

    def every(self) -> list[_Node]:
        """Itself and all that it is made of."""
        found = [self]
        for node in found:
            found.extend(node.parts.values())
        return found

    def measure(self, numbers: _Numbers) -> None:
        """Sum its cells, or its parts, which come in order then; those without time are gone."""
        if self.cells:
            self.sizes = [float(sum(column[self.cells].tolist())) for column in numbers.columns]
            if self.level is None and numbers.level:
                self.level = best_level([numbers.level(cell) for cell in self.cells])
            return
        for one in self.parts.values():
            one.measure(numbers)
        parts = sorted(self.parts.items(), key=lambda one: (one[1].order, -one[1].size, one[1].text))
        self.parts = {name: one for name, one in parts if any(one.sizes)}
        self.add_up(list(self.parts.values()))
        if self.fields["kind"] == "category" and numbers.category and self.parts:
            self.level = numbers.category(self.fields["key"])

    def add_up(self, parts: Sequence[_Node]) -> None:
        """Take sums of some parts, and the best level of those that moved as the sum did."""
        self.sizes = [float(sum(column)) for column in zip(*(one.sizes for one in parts), strict=True)]
        if any(one.level is not None for one in parts):
            moved = [one.level for one in parts if one.level and one.sizes[2] * self.sizes[2] > 0]
            self.level = best_level(moved)

    @property
    def size(self) -> float:
        """The time of the side that has more of it."""
        return max(self.sizes[:2], default=0.0)

    @property
    def text(self) -> str:
        """Apart from its size, what it is; the same whichever side is which."""
        return repr(sorted(str(value) for name, value in self.fields.items() if name != "finding"))


class _Numbers(msgspec.Struct, frozen=True):
    """What a tree shows of its cells, and of categories. No levels: one side alone."""

    columns: Sequence[Floats]
    level: Callable[[int], Evidence] | None = None
    category: Callable[[str], Evidence] | None = None


def cause_tree(
    measured: Measured,
    judged: Judged,
    observed: Observed,
    findings: Sequence[Finding],
    launched: Sequence[KernelRow] = (),
) -> list[CauseNode]:
    """The step that the first sentence is of, from its root, each node before its parts.

    That is the typical step of its phase, or the mean one where rare steps hold the change. Parts come in the order of categories,
    then those with the most time first. launched: kernels by their names, judged by the launch.
    """
    phase = next(one for one in measured.phases if one.steps.phase == observed.phase)
    rare = observed.of == "mean"
    tree = _skeleton(measured.layout, measured.kernels.rows)
    tree.fields |= {"kind": "step" if rare else "typical", "key": observed.phase}
    _mark(tree, measured, [one for one in findings if one.where.phase == observed.phase])
    _judge_by_launch(tree, launched)
    return _flat(tree, _of_phase(measured, judged, phase, rare=rare))


def one_side(layout: Layout, kernels: Sequence[Match], mean: Floats) -> list[CauseNode]:
    """The mean step of one side. `mean`: of every cell, ns per step."""
    alone = [replace(match, candidate=()) for match in kernels]
    return _flat(_skeleton(layout, alone), _Numbers([mean]))


def _of_phase(measured: Measured, judged: Judged, phase: PhaseCells, *, rare: bool) -> _Numbers:
    part = phase.mean if rare else phase.typical
    levels: dict[int, Evidence] = {}
    for row in (*judged.rows, *judged.categories):
        if row.phase is phase and row.part == part.name:
            for cell in row.place.cells:
                levels[cell] = best_level([row.level, levels.get(cell, "within_noise")])

    def level(cell: int) -> Evidence:
        return levels.get(cell, "within_noise")

    return _Numbers(
        (part.estimate.baseline, part.estimate.candidate, part.estimate.delta),
        level,
        lambda key: level(measured.layout.categories[key]),
    )


def _mark(tree: _Node, measured: Measured, findings: Sequence[Finding]) -> None:
    """Give the nodes that a finding is of its rank; those of several have the first."""
    ranks: dict[Any, int] = {}
    for one in reversed(findings[:PARTS]):
        own = [(part.cause, part.where) for part in one.parts]
        for cause, where in ((one.cause, one.where), *own):
            ranks[where.kernels or _idle_key(cause, where)] = one.rank
    layout = measured.layout
    of_cell = {
        cell: ranks.get((key.cause, key.thread, key.holder, key.where), 0)
        for cell, key in zip(layout.idle, layout.idle_keys, strict=True)
    } | {
        cell: ranks.get(kernels_of(match), 0)
        for cell, match in zip(layout.kernels, measured.kernels.rows, strict=True)
    }
    for node in tree.every():
        if found := [rank for cell in node.cells if (rank := of_cell.get(cell, 0))]:
            node.fields["finding"] = min(found)


def _judge_by_launch(tree: _Node, launched: Sequence[KernelRow]) -> None:
    levels = {
        tuple(side.names[0] if side else "" for side in (row.baseline, row.candidate)): row.level
        for row in launched
    }
    for node in tree.every() if launched else ():
        if node.fields["kind"] == "kernel":
            node.level = levels.get((node.fields["baseline_kernel"], node.fields["candidate_kernel"]))


def _idle_key(cause: str, where: Where) -> tuple[str, str, str, str]:
    """As in `IdleKey`: a collection is its thread's, a wait for the GIL its holder's."""
    place = {"gc": None, "gil_wait": where.holder_range}.get(cause, where.range)
    return cause, where.thread or "", where.holder_thread or "", place or ""


def _skeleton(layout: Layout, matches: Sequence[Match]) -> _Node:
    root = _Node({"kind": "step"})
    states = {
        name: root.part(name, order=order, kind="state", key=name)
        for order, name in enumerate(("busy", "idle"))
    }
    of = {
        name: states["busy" if name in BUSY else "idle"].part(
            name, order=CATEGORIES.index(name), kind="category", key=name
        )
        for name in CATEGORIES
    }
    for cell, key in zip(layout.idle, layout.idle_keys, strict=True):
        _place(of[key.cause], key, cell)
    ends = [
        [side[0] if side else OpKey("") for side in (match.baseline, match.candidate)] for match in matches
    ]
    many = Counter(
        (kind, before.name, after.name)
        for kind, (before, after) in zip([layout.kinds[one] for one in layout.kernels], ends, strict=True)
    )
    for cell, (before, after) in zip(layout.kernels, ends, strict=True):
        kind = layout.kinds[cell]
        parent = of[kind]
        if kind == "compute":
            name = category(after.name or before.name)
            parent = parent.part(name, kind="kernels", key=name)
        named: dict[str, Any] = {"baseline_kernel": before.name, "candidate_kernel": after.name}
        rows = many[kind, before.name, after.name]
        if rows > PARTS:  # of many shapes: by its name alone
            parent.part(tuple(named.values()), cell, kind="kernel", **named, rows=rows)
        else:
            parent.part(
                cell, cell, kind="kernel", **named, baseline_grid=before.grid, candidate_grid=after.grid
            )
    return root


def _place(parent: _Node, key: IdleKey, cell: int) -> None:
    """A wait for the GIL is a part of its thread, by holders; anything else stands for itself."""
    if key.cause == "gil_wait":
        waiter = parent.part(key.thread, kind="place", thread=key.thread)
        waiter.part(key, cell, kind="holder", thread=key.holder, range=key.where)
    else:
        parent.part(key, cell, kind="place", thread=key.thread, range=key.where, copies=key.copy)


def best_level(levels: Sequence[Evidence]) -> Evidence:
    """The surest of some levels."""
    return min(levels, key=LEVELS.index, default="within_noise")


def _flat(root: _Node, numbers: _Numbers) -> list[CauseNode]:
    """Every node before its parts."""
    root.measure(numbers)
    found: list[CauseNode] = []
    if root.parts:
        _add(found, -1, root, MATERIAL * root.size)
    return found


def _add(found: list[CauseNode], parent: int, node: _Node, least: float) -> None:
    """Append a node and its parts; of many the smallest as one."""
    here = len(found)
    sizes: dict[str, Any] = dict(zip(_SIZES, node.sizes, strict=False))
    level = ABSENT if node.level is None else node.level
    found.append(CauseNode(parent=parent, level=level, **sizes, **node.fields))
    parts = list(node.parts.values())
    by_size = sorted(parts, key=lambda one: ("finding" not in one.fields, -one.size))
    kept = [one for one in by_size[:PARTS] if one.size >= least or "finding" in one.fields]
    rest = [one for one in parts if not any(one is other for other in kept)]
    if len(rest) == 1 and len(kept) < PARTS:
        kept, rest = parts, []
    for part in parts:
        if not any(part is other for other in rest):
            _add(found, here, part, least)
    if rest and kept:
        together = _Node({"kind": "rest", "rows": len(rest)})
        together.add_up(rest)
        _add(found, here, together, least)


# Every whole step of both sides in order, with what its time was: few columns, whatever the number of steps.


_UNIT = ["rank", "device"]

Place = tuple[int, int, int, int]  # of a step: STEP


def step_strip(
    frame: Frame, layout: Layout, drawn: Sequence[Selected] = (), *, sides: int = 2
) -> StepStrip | None:
    """The strip of the rank whose idle time changed most, or of the one side's that is idle longest.

    None where no rank has steps on every side. `drawn`: the steps of the timelines.
    """
    steps = _with_categories(frame, layout).filter(pl.col("side") < sides)
    shown = {
        (side, step.run, step.part, step.period): number
        for number, one in reversed(list(enumerate(drawn)))
        for side, step in enumerate(one.steps)
        if step is not None
    }
    units = most_changed(steps, _UNIT, sides)
    if not units:
        return None
    rank, device = units[0]
    left_out = len({one for one, _ in units}) - 1
    own = steps.filter(rank=rank, device=device).sort("side", "run", "part", "start_ns")
    known = [name for name in CATEGORIES if own[name].sum()]
    of_sides = [own.filter(pl.col("side") == side) for side in range(sides)]
    width = _width(*(one.group_by("run").len()["len"].to_list() for one in of_sides))
    columns = [
        [
            column
            for run in one.partition_by("run", maintain_order=True)
            for column in _columns(run, width, known, shown)
        ]
        for one in of_sides
    ]
    return StepStrip(rank, device, left_out, known, columns[0], columns[1] if sides > 1 else ABSENT)


def _with_categories(frame: Frame, layout: Layout) -> pl.DataFrame:
    """Every whole step with its ns by category."""
    rows, size = layout.idle_rows, len(frame.steps)
    names = [name for name in CATEGORIES if name not in BUSY]
    number = {name: at for at, name in enumerate(names)}
    of_cell = np.array([number.get(kind, 0) for kind in layout.kinds])
    at = rows["step"].to_numpy() * len(names) + of_cell[rows["cell"].to_numpy()]
    sums = np.zeros(size * len(names), np.int64)
    np.add.at(sums, at, rows["ns"].to_numpy())
    idle = sums.reshape(size, len(names))
    return frame.steps.with_columns([pl.Series(name, idle[:, place]) for name, place in number.items()])


def _width(*sides: list[int]) -> int:
    """How many steps share a column, so that the runs of each side have no more than `ROWS` columns."""
    width = max(max(-(-sum(runs) // ROWS) for runs in sides), 1)
    while any(sum(-(-steps // width) for steps in runs) > max(ROWS, len(runs)) for runs in sides):
        width += 1
    return width


def _columns(
    steps: pl.DataFrame, width: int, categories: list[str], shown: dict[Place, int]
) -> Iterator[StripColumn]:
    """The columns of the steps of a run, of `width` steps each."""
    ns, start = (steps[name].to_numpy() for name in ("ns", "start_ns"))
    places = steps.select(STEP).rows()
    firsts = range(0, len(steps), width)
    longest = [first + int(np.argmax(ns[first : first + width])) for first in firsts]
    for first, row in zip(firsts, steps[longest].iter_rows(named=True), strict=True):
        mine = slice(first, first + width)
        length: Ints = ns[mine]
        yield StripColumn(
            run=row["run"],
            start_ns=int(start[first]),
            end_ns=int(start[mine][-1] + length[-1]),
            steps=len(length),
            number=row["number"],
            phase=row["phase"],
            ns=row["ns"],
            parts=[int(row[name]) for name in categories],
            median_ns=int(np.sort(length)[(len(length) - 1) // 2]),
            timeline=next((shown[one] for one in places[mine] if one in shown), None),
        )
