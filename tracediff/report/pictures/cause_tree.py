"""The cause tree: the mean step of both sides as icicles on one scale, coloured by what changed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tracediff.model import FindingPart, Result, Where
from tracediff.model.pictures import CauseNode
from tracediff.report import names, palette, units, words
from tracediff.report.escape import shorten
from tracediff.report.pictures.shapes import Drawing, Layout, cut, fitting, room, spread, wrapped
from tracediff.report.titles import OUTSIDE, part_named

TITLE = "Causes of the step time"
_ROW, _BAND = 24.0, 4.0  # of a level; of the colour of a category
_NAMED = 3  # largest changes
_LEAST, _NOTABLE = (
    0.02,
    0.1,
)  # of the largest change: what changed less is drawn as unchanged, is not named where it may be noise
_FAINT, _STRONG = 0.14, 0.5  # of the colour of a change; letters stay readable on it
_WORDS = {"busy": "GPU busy", "idle": "GPU idle", "gemm": "GEMM", "moe": "MoE"}


@dataclass(frozen=True)
class Cell:
    """A node on one side. x, width: ns of the step; depth: 0 for busy and idle."""

    number: int
    node: CauseNode
    depth: int
    x: float
    width: float


def cells(tree: Sequence[CauseNode], side: str) -> list[Cell]:
    """Every node of one side: parts lie under their node, from its left end on."""
    ends: dict[int, float] = {-1: 0.0}
    depth: dict[int, int] = {-1: -2}
    found = []
    for number, node in enumerate(tree):
        width = getattr(node, f"{side}_ns")
        x = ends[node.parent]
        ends[node.parent] = x + width
        ends[number], depth[number] = x, depth[node.parent] + 1
        found.append(Cell(number, node, depth[number], x, width))
    return found


def largest(tree: Sequence[CauseNode]) -> list[int]:
    """The parts without further parts to be named: the largest change of all, and the largest that are more than noise."""
    whole = {node.parent for node in tree}
    leaves = [
        number
        for number, node in enumerate(tree)
        if number not in whole and node.kind not in ("rest", "step") and node.delta_ns
    ]
    leaves.sort(key=lambda number: (-abs(tree[number].delta_ns), number))
    first = leaves[:1]
    others = sorted(leaves[1:], key=lambda number: tree[number].level == "within_noise")[: _NAMED - 1]
    least = max([_NOTABLE * abs(tree[number].delta_ns) for number in first], default=0.0)
    kept = [one for one in others if tree[one].level != "within_noise" or abs(tree[one].delta_ns) >= least]
    return sorted([*first, *kept], key=lambda number: tree[number].level == "within_noise")


def name(node: CauseNode) -> str:
    """A node in its cell."""
    if node.kind == "category":
        return palette.category(node.key).label
    if node.kind == "kernel":
        return _kernel(node)
    if node.kind == "holder":
        at = f" in {node.range}" if node.range and not node.range.startswith(OUTSIDE) else ""
        return f"held by {node.thread or 'an unrecorded thread'}{at}"
    if node.kind == "rest":
        return f"{node.rows} smaller"
    return _WORDS.get(node.key, node.key) or node.range or node.thread or "step"


def _kernel(node: CauseNode) -> str:
    both = dict.fromkeys(names.short(one) for one in (node.baseline_kernel, node.candidate_kernel) if one)
    return " -> ".join(both)


def said(tree: Sequence[CauseNode], number: int) -> str:
    """A node in a sentence."""
    node = tree[number]
    category = node
    while category.kind != "category" and category.parent >= 0:
        category = tree[category.parent]
    if node.kind == "kernel":
        alike = [one for one in tree if one.kind == "kernel" and _kernel(one) == _kernel(node)]
        grids = dict.fromkeys(one for one in (node.baseline_grid, node.candidate_grid) if one)
        return _kernel(node) + (f" [{' -> '.join(grids)}]" if len(alike) > 1 and grids else "")
    if node.kind not in ("place", "holder") or not category.key:
        return name(node)
    if node.kind == "holder":
        return f"{palette.category(category.key).label}, {name(node)}"
    where = Where(range=node.range, thread=node.thread)
    named = part_named(FindingPart(category.key, where, node.delta_ns, 0.0, 0.0, node.level))
    return named.removeprefix("GPU idle: ")


def draw(result: Result, layout: Layout) -> Drawing | None:
    """Lay out both sides above each other; None where there is nothing to draw."""
    tree = result.cause_tree
    step_ns = max(tree[0].baseline_ns, tree[0].candidate_ns) if tree else 0.0
    if step_ns <= 0:
        return None
    top = largest(tree)
    out = Drawing(layout, TITLE)
    per_ns = layout.width / step_ns
    scale = units.scale_for([node.delta_ns for node in tree])
    times = units.scale_for([step_ns])
    most = max((abs(tree[number].delta_ns) for number in top), default=0.0)
    y = 0.0
    for side in ("baseline", "candidate"):
        out.write(0, y + 9, side, bold=True)
        out.write(
            76,
            y + 9,
            f"{times.time(getattr(tree[0], f'{side}_ns'))} per {words.unit(result)}",
            colour="--muted",
        )
        y += 20
        deepest = 0
        for cell in cells(tree, side):
            if cell.depth >= 0 and cell.width * per_ns >= 0.4:
                deepest = max(deepest, cell.depth)
                _draw_cell(out, cell, per_ns, y, most, scale, times)
        y += (deepest + 1) * _ROW
        y = _marks(out, [one for one in cells(tree, side) if one.number in top], top, per_ns, y) + 8
    y = _list(out, tree, top, scale, times, y)
    y = _legend(out, y)
    out.height = round(y + 4, 1)
    out.description = _description(tree, top, scale)
    return out


def _draw_cell(
    out: Drawing, cell: Cell, per_ns: float, top: float, most: float, scale: units.Scale, times: units.Scale
) -> None:
    node = cell.node
    x, width, y = cell.x * per_ns, cell.width * per_ns, top + cell.depth * _ROW
    gap = 1.0 if width > 3 else 0.0
    fill, opacity = tint(node, most)
    change = scale.delta(node.delta_ns)
    title = f"{name(node)}: {times.time(node.baseline_ns)} -> {times.time(node.candidate_ns)}, {change}"
    if node.level == "within_noise" and node.delta_ns:
        title += ", within noise"
    out.rect(x, y, width - gap, _ROW - 1, fill, opacity, shorten(title, 200))
    if node.kind == "category":
        out.rect(x, y + _ROW - 1 - _BAND, width - gap, _BAND, palette.variable(node.key))
    middle = y + (_ROW - 1 - (_BAND if node.kind == "category" else 0)) / 2
    label = name(node)
    if fill != "--rule" and len(label) + len(change) + 1 <= room(width):
        label = f"{label} {change}"
    if node.kind != "rest" or len(label) <= room(width):
        out.write(x + 4, middle, fitting(label, width))


def tint(node: CauseNode, most: float) -> tuple[str, float]:
    """Colour of a change and how strong it is; half as strong within noise."""
    if not most or abs(node.delta_ns) < _LEAST * most:
        return "--rule", 1.0
    part = math.sqrt(min(abs(node.delta_ns) / most, 1.0))
    opacity = _FAINT + (_STRONG - _FAINT) * part
    return "--slower" if node.delta_ns > 0 else "--faster", opacity / (
        2 if node.level == "within_noise" else 1
    )


def _marks(out: Drawing, found: list[Cell], top: list[int], per_ns: float, y: float) -> float:
    """The numbers of the largest changes under their cells."""
    seen = [one for one in found if one.width * per_ns >= 1]
    wanted = [(one.x + one.width / 2) * per_ns for one in seen]
    if not seen:
        return y
    for cell, x, place in zip(seen, wanted, spread(wanted, 12, 5, out.layout.width - 5), strict=True):
        begin = y - (3 - cell.depth) * _ROW if cell.depth < 3 else y
        out.line(f"M{x:.1f} {begin:.1f}V{y + 2:.1f}L{place:.1f} {y + 6:.1f}", "--ink", 1)
        out.write(place, y + 13, str(top.index(cell.number) + 1), "middle", bold=True)
    return y + 22


def _list(
    out: Drawing, tree: Sequence[CauseNode], top: list[int], scale: units.Scale, times: units.Scale, y: float
) -> float:
    """The largest changes in words."""
    if not top:
        out.write(0, y + 9, "Nothing changed.", colour="--muted")
        return y + 22
    for number, at in enumerate(top, start=1):
        node = tree[at]
        change = f"{scale.delta(node.delta_ns)}"
        both = f"{times.time(node.baseline_ns)} -> {times.time(node.candidate_ns)}"
        if abs(node.host_speed_ns) >= _NOTABLE * abs(node.delta_ns):
            both += f", {scale.delta(node.host_speed_ns)} of it host speed"
        noise = ", within noise" if node.level == "within_noise" else ""
        colour = "--slower" if node.delta_ns > 0 else "--faster"
        out.write(0, y + 9, str(number), bold=True)
        if out.layout.narrow:
            for line in wrapped(said(tree, at), out.layout.width - 16):
                out.write(16, y + 9, line)
                y += 17
            out.write(16, y + 9, f"{change} ({both}{noise})", colour=colour)
            y += 21
        else:
            out.write(110, y + 9, change, "end", colour, bold=True)
            after = f": {both}{noise}"
            out.write(122, y + 9, cut(said(tree, at), after, out.layout.width - 122))
            y += 19
    return y + 4


def _legend(out: Drawing, y: float) -> float:
    x = 0.0
    for colour, word in (("--slower", "slower"), ("--faster", "faster"), ("--rule", "unchanged")):
        out.rect(x, y + 3, 12, 12, colour, 1.0 if colour == "--rule" else _STRONG)
        out.write(x + 17, y + 9, word, colour="--muted")
        x += 36 + 7.3 * len(word)
    if out.layout.narrow:
        out.write(0, y + 27, "paler: within noise", colour="--muted")
        return y + 36
    out.write(x, y + 9, "paler: within noise. Widths are time, both sides on one scale.", colour="--muted")
    return y + 18


def _description(tree: Sequence[CauseNode], top: list[int], scale: units.Scale) -> str:
    changes = "; ".join(f"{said(tree, at)} {scale.delta(tree[at].delta_ns)}" for at in top)
    return f"The largest changes: {changes}" if changes else "Nothing changed"
