"""The mean step as a tree of causes: busy and idle, categories, places and kernels, holders of the GIL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tracediff.comparison.cells import IdleKey, Measured
from tracediff.comparison.places import LEVELS, Judged
from tracediff.kernels.categories import category
from tracediff.kernels.matching import OpKey
from tracediff.model import CATEGORIES, Evidence
from tracediff.model.causes import BUSY
from tracediff.model.pictures import CauseNode

MOST = 12  # parts of one node
_LEAST = 0.002  # of the longer step: what is smaller on both sides is not a part of its own


@dataclass
class _Node:
    """A node before its numbers are known. `cell`: of a leaf; order: among its like; fields: of `CauseNode`."""

    fields: dict[str, Any]
    cell: int = -1
    order: int = 0
    parts: dict[Any, _Node] = field(default_factory=dict)

    def part(self, name: Any, /, cell: int = -1, order: int = 0, **fields: Any) -> _Node:
        """The part of this name, made where it is not there."""
        return self.parts.setdefault(name, _Node(fields, cell, order))


def cause_tree(measured: Measured, judged: Judged) -> list[CauseNode]:
    """The tree from its root, each node before its parts; parts in the order of categories, then those with the most time first."""
    tree = _skeleton(measured)
    least = _LEAST * max(float(measured.whole.baseline[0]), float(measured.whole.candidate[0]))
    found: list[CauseNode] = []
    _add(found, -1, _Sized(tree, measured, judged), least)
    return found


def _skeleton(measured: Measured) -> _Node:
    root = _Node({"kind": "step"})
    states = {
        name: root.part(name, order=order, kind="state", key=name)
        for order, name in enumerate(("busy", "idle"))
    }
    layout, matches = measured.layout, measured.kernels.rows
    of = {
        name: states["busy" if name in BUSY else "idle"].part(
            name, order=CATEGORIES.index(name), kind="category", key=name
        )
        for name in CATEGORIES
    }
    for cell, key in zip(layout.idle, layout.idle_keys, strict=True):
        _place(of[key.cause], key, cell)
    for cell, match in zip(layout.kernels, matches, strict=True):
        kind = layout.kinds[cell]
        before, after = (side[0] if side else OpKey("") for side in (match.baseline, match.candidate))
        parent = of[kind]
        if kind == "compute":
            name = category(after.name or before.name)
            parent = parent.part(name, kind="kernels", key=name)
        parent.part(
            cell, cell, kind="kernel", baseline_kernel=before.name, candidate_kernel=after.name,
            baseline_grid=before.grid, candidate_grid=after.grid,
        )  # fmt: skip

    return root


def _place(parent: _Node, key: IdleKey, cell: int) -> None:
    """A wait for the GIL is a part of its thread, by holders; anything else stands for itself."""
    if key.cause == "gil_wait":
        waiter = parent.part(key.thread, kind="place", thread=key.thread)
        waiter.part(key, cell, kind="holder", thread=key.holder, range=key.where)
    else:
        parent.part(key, cell, kind="place", thread=key.thread, range=key.where, copies=key.copy)


class _Sized:
    """A node with its numbers: its own, or the sums of its parts."""

    def __init__(self, node: _Node, measured: Measured, judged: Judged) -> None:
        self.fields, self.order = node.fields, node.order
        self.parts: list[_Sized] = []
        if node.cell >= 0:
            whole = measured.whole
            self.sizes = tuple(
                float(one[node.cell])
                for one in (whole.baseline, whole.candidate, whole.delta, whole.host_speed)
            )
            self.level: Evidence = judged.levels(node.cell)[0]
            return
        parts = [_Sized(one, measured, judged) for one in node.parts.values()]
        parts.sort(key=lambda one: (one.order, -one.size, one.text))
        self._sum([one for one in parts if any(one.sizes)])
        if self.fields["kind"] == "category":
            cell = measured.layout.categories[self.fields["key"]]
            noise = abs(self.sizes[2]) <= float(measured.whole.half[cell])  # as in the accounting
            self.level = "within_noise" if noise else judged.level_of_category(cell, self.sizes[2])

    def _sum(self, parts: list[_Sized]) -> None:
        self.parts = parts
        self.sizes = tuple(sum(one.sizes[column] for one in parts) for column in range(4))
        self.level = best_level([one.level for one in parts if one.sizes[2] * self.sizes[2] > 0])

    @classmethod
    def rest(cls, parts: list[_Sized]) -> _Sized:
        """Several parts as one that names none of them."""
        found = cls.__new__(cls)
        found.fields = {"kind": "rest", "rows": len(parts)}
        found._sum(parts)
        found.parts = []
        return found

    @property
    def size(self) -> float:
        """The time of the side that has more of it."""
        return max(self.sizes[:2])

    @property
    def text(self) -> str:
        """Apart from its size, what it is; the same whichever side is which."""
        return repr(sorted(map(str, self.fields.values())))


def best_level(levels: Sequence[Evidence]) -> Evidence:
    """The surest of some levels."""
    return min(levels, key=LEVELS.index, default="within_noise")


def _add(found: list[CauseNode], parent: int, node: _Sized, least: float) -> None:
    """Append a node and its parts; of many the smallest as one."""
    here = len(found)
    baseline, candidate, delta, host_speed = node.sizes
    found.append(
        CauseNode(
            parent=parent, baseline_ns=baseline, candidate_ns=candidate, delta_ns=delta, host_speed_ns=host_speed,
            level=node.level, **node.fields,
        )
    )  # fmt: skip
    by_size = sorted(node.parts, key=lambda one: -one.size)
    kept = [one for one in by_size[:MOST] if one.size >= least]
    rest = [one for one in node.parts if not any(one is other for other in kept)]
    if len(rest) == 1 and len(kept) < MOST:
        kept, rest = [*kept, *rest], []
    for part in node.parts:
        if any(part is other for other in kept):
            _add(found, here, part, least)
    if rest and kept:
        _add(found, here, _Sized.rest(rest), least)
