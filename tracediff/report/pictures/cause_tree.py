"""The cause tree: a step as icicles on one scale, of both sides coloured by what changed, of one side by category."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from tracediff.model import FindingPart, Result, Where
from tracediff.model.causes import SURELY
from tracediff.model.common import ABSENT
from tracediff.model.pictures import CauseNode
from tracediff.model.show import Show
from tracediff.report import names, palette, units, words
from tracediff.report.amounts import NAMED
from tracediff.report.causes import part_named, place_name
from tracediff.report.escape import shorten
from tracediff.report.pictures.style import (
    FAINT,
    LINE,
    ROW,
    SIZE,
    Change,
    Layout,
    Sheet,
    areas,
    box,
    colour,
    fitting,
    room,
)
from tracediff.stats.rules import LITTLE
from tracediff.trace.threads import OUTSIDE

TITLE = "Causes of the step time"
STEPS = ("step", "typical")  # kinds of the root
_WORDS = {"busy": "GPU busy", "idle": "GPU idle", "gemm": "GEMM", "moe": "MoE"}
_LARGEST = 0.5  # opacity of the largest change: letters lie on it


class Cell(msgspec.Struct, frozen=True):
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
    """The parts without further parts to be named, at most three.

    Of both sides the largest change of the first finding, then the largest that are more than noise, then any; of one side those with
    the most time.
    """
    whole = {node.parent for node in tree}
    leaves = [
        number
        for number, node in enumerate(tree)
        if number not in whole and node.kind not in (*STEPS, "rest")
    ]
    if tree and tree[0].candidate_ns is ABSENT:
        return sorted(leaves, key=lambda number: -tree[number].baseline_ns)[:NAMED]
    leaves = sorted((one for one in leaves if tree[one].delta_ns), key=lambda one: -abs(tree[one].delta_ns))
    sure = [one for one in leaves if tree[one].level != "within_noise"]
    first = min((tree[one].finding for one in sure if tree[one].finding), default=0)
    cause = [one for one in sure if first and tree[one].finding == first][:1]
    found = [*cause, *(one for one in sure if one not in cause)][:NAMED]
    unsure = [one for one in leaves if one not in sure]
    if unsure and (not found or unsure[0] == leaves[0]):  # what is largest is named, whatever it is worth
        found = [*found[: NAMED - 1], unsure.pop(0)]
    least = LITTLE * abs(tree[leaves[0]].delta_ns) if leaves else 0.0
    return (found + [one for one in unsure if abs(tree[one].delta_ns) >= least])[:NAMED]


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
    return _WORDS.get(node.key, node.key) or place_name(node.range) or node.thread or "step"


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
        if node.rows:
            return f"{_kernel(node)}, {node.rows} shapes"
        return _kernel(node) + (f" [{' -> '.join(grids)}]" if len(alike) > 1 and grids else "")
    if node.kind not in ("place", "holder") or not category.key:
        return name(node)
    if node.kind == "holder":
        return f"{palette.category(category.key).label}, {name(node)}"
    where = Where(range=node.range, thread=node.thread)
    delta = 0.0 if node.delta_ns is ABSENT else node.delta_ns
    return part_named(FindingPart(category.key, where, delta, 0.0, 0.0, "within_noise"))


def per_step(report: Result | Show) -> str:
    """What the times of the tree are of: `per generation step`."""
    root = report.cause_tree[0]
    unit = words.unit(report)
    return words.per_step(root.key, "mean" if root.kind == "step" and root.key else "typical", unit)


def draw(report: Result | Show, layout: Layout) -> Sheet | None:
    """Lay out the sides above each other; None where there is nothing to draw."""
    tree = report.cause_tree
    if not tree:
        return None
    two = tree[0].candidate_ns is not ABSENT
    step_ns = max(tree[0].baseline_ns, tree[0].candidate_ns) if two else tree[0].baseline_ns
    if step_ns <= 0:
        return None
    top = largest(tree)
    out = Sheet(layout, TITLE)
    most = max((abs(tree[number].delta_ns) for number in top), default=0.0) if two else 0.0
    ink = _Ink(tree, top, layout.width / step_ns, most, units.scale_for([step_ns]))
    ranks = f", mean of {words.ranks(report)}" if len(report.ranks) > 1 else ""
    y = 0.0
    for side in ("baseline", "candidate")[: 1 + two]:
        out.write(0, y + 9, side * two, bold=True)
        size = ink.times.time(getattr(tree[0], f"{side}_ns"))
        per = "" if layout.narrow and ranks else f" {per_step(report)}"
        out.write(76 * two, y + 9, f"{size}{per}{ranks}", ink="--muted")
        y = _draw_side(out, cells(tree, side), ink, y + 20) + 8
    y = _list(out, ink, y)
    if two:
        colours = (
            ("--slower", _LARGEST, "slower"),
            ("--faster", _LARGEST, "faster"),
            ("--rule", 1.0, "unchanged"),
        )
        x, y = out.legend(((*one, False) for one in colours), 0, y)
        how = "fainter: may be noise"
        if layout.narrow:
            x, y = 0.0, y + 18
        else:
            how += "; framed: a listed cause. Widths are time, both sides on one scale."
        y = out.paragraph(x, y, how, "--muted", most=1) + 1
    out.height = round(y + 4, 1)
    out.description = _description(ink)
    return out


class _Ink(msgspec.Struct, frozen=True):
    """How the nodes of a tree are drawn: those that are named, px per ns, the largest change of them, the scale of all times."""

    tree: Sequence[CauseNode]
    top: list[int]
    per_ns: float
    most: float
    times: units.Scale

    def change(self, node: CauseNode) -> str:
        """Its change; of one side its time."""
        if node.delta_ns is ABSENT:
            return self.times.time(node.baseline_ns)
        return self.times.delta(node.delta_ns)

    def sizes(self, node: CauseNode) -> str:
        """Its time on both sides, and whether its change is noise; of one side its share of the step."""
        if node.delta_ns is ABSENT:
            return f"{units.share(node.baseline_ns, self.tree[0].baseline_ns)} of the step"
        both = self.times.both(node.baseline_ns, node.candidate_ns)
        return both + (", may be noise" if node.level == "within_noise" and node.delta_ns else "")

    def cell(self, cell: Cell, top: float, bottom: float) -> list[tuple[float, float]]:
        """A part of a cell, px from the top of its row; a px lies between neighbours wide enough."""
        wide = cell.width - (1 if cell.width * self.per_ns > 3 else 0) / self.per_ns
        return box(cell.x, cell.x + wide, cell.depth * ROW + top, cell.depth * ROW + bottom)

    def row(self, number: int) -> Change:
        """A named part in the list."""
        node = self.tree[number]
        if node.delta_ns is ABSENT:
            colour = "--ink"
        elif node.level == "within_noise":
            colour = "--muted"
        else:
            colour = "--slower" if node.delta_ns > 0 else "--faster"
        return Change(said(self.tree, number), self.change(node), colour, f": {self.sizes(node)}")

    def fill(self, number: int) -> tuple[str, float]:
        """Of both sides the colour of the change, of one side that of the category."""
        node = self.tree[number]
        if node.delta_ns is not ABSENT:
            return tint(node, self.most)
        while node.kind != "category" and node.parent >= 0:
            node = self.tree[node.parent]
        return (palette.variable(node.key), 0.25) if node.kind == "category" else ("--rule", 1.0)


def _draw_side(out: Sheet, found: list[Cell], ink: _Ink, top: float) -> float:
    shown = [one for one in found if one.depth >= 0 and one.width * ink.per_ns >= 0.4]
    y = top + (max((one.depth for one in shown), default=0) + 1) * ROW
    axes = out.axes(0, top, out.layout.width, y)
    axes.set(xlim=(0, out.layout.width / ink.per_ns), ylim=(y - top, 0))
    shapes = [ink.cell(one, 0.0, ROW - 1) for one in shown]
    inks = [ink.fill(one.number) for one in shown]
    if out.layout.narrow:
        areas(axes, shapes, inks)
    else:
        titles = [shorten(f"{name(one.node)}: {ink.change(one.node)} ({ink.sizes(one.node)})", 200) for one in shown]  # fmt: skip
        links = [f"#finding-{one.node.finding}" if one.node.finding else "" for one in shown]
        areas(axes, shapes, inks, titles, links)
    bands = [one for one in shown if one.node.kind == "category"]
    colours = [(palette.variable(one.node.key), 1.0) for one in bands]
    areas(axes, [ink.cell(one, ROW - 1 - LINE / 4, ROW - 1) for one in bands], colours)
    for one in shown:
        if one.number in ink.top and one.node.finding and one.width * ink.per_ns > 3:
            corners = ink.cell(one, 0.8, ROW - 1.8)
            axes.plot(*zip(*corners, corners[0], strict=True), color=colour("--ink"), linewidth=1.6)
        _name(out, one, ink, top)
    return y


def _name(out: Sheet, cell: Cell, ink: _Ink, top: float) -> None:
    """Its name, of one that is listed after its number, which stands alone where there is no room for more."""
    node, width = cell.node, cell.width * ink.per_ns
    text, change = name(node), ink.change(node)
    number = f"{ink.top.index(cell.number) + 1}" if cell.number in ink.top else ""
    if ink.fill(cell.number)[0] != "--rule" and len(text) + len(change) + 1 <= room(width):
        text = f"{text} {change}"
    if node.kind != "rest" or len(text) <= room(width):
        band = LINE / 4 if node.kind == "category" else 0.0
        middle = top + cell.depth * ROW + (ROW - 1 - band) / 2
        alone = number if width >= SIZE / 2 else ""  # as wide as a digit: neighbours do not touch
        said = fitting(f"{number} {text}".strip(), width) or alone
        out.write(cell.x * ink.per_ns + 4, middle, said, bold=said == number)


def tint(node: CauseNode, most: float) -> tuple[str, float]:
    """Colour of a change and how strong it is; half as strong within noise."""
    if not most or abs(node.delta_ns) < SURELY * most:
        return "--rule", 1.0
    part = math.sqrt(min(abs(node.delta_ns) / most, 1.0))
    opacity = (FAINT + (_LARGEST - FAINT) * part) / (2 if node.level == "within_noise" else 1)
    return "--slower" if node.delta_ns > 0 else "--faster", opacity


def _list(out: Sheet, ink: _Ink, y: float) -> float:
    """The named parts in words."""
    if not ink.top:
        out.write(0, y + 9, "Nothing changed.", ink="--muted")
        return y + 22
    return out.changes((ink.row(at) for at in ink.top), y)


def _description(ink: _Ink) -> str:
    changes = "; ".join(f"{said(ink.tree, at)} {ink.change(ink.tree[at])}" for at in ink.top)
    if not changes:
        return "Nothing changed"
    what = "most time" if ink.tree[0].delta_ns is ABSENT else "largest changes"
    return f"The {what}: {changes}"
