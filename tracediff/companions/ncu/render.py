"""Kernels compared by their counters as a section of a report: a table, and what each kernel opens to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec
from msgspec.structs import replace

from tracediff.companions import render
from tracediff.companions import words as text
from tracediff.companions.model import Ncu, NcuKernel, NcuRow, NcuSide
from tracediff.companions.ncu.metrics import BY_KEY, GROUPS, METRICS, Metric
from tracediff.companions.render import table
from tracediff.report import grammar, names, units, values
from tracediff.report.amounts import LIMIT
from tracediff.report.blocks import Block, Cell, Line, Section, Strong, Table, Tone, facts, notes, terms
from tracediff.report.grammar import say

_PRINTED = 2  # rows whose figures are in every format
TITLE = "Kernels by hardware counters"
NONE = "not collected"
APART = "does not add up"
SAME = "same"
# whose words are not those of their keys
LIMITS = {"grid": "grid (less than one wave)", "shared_mem": "shared memory"}
CHANGES = ("faster", "slower", "no_clear_change", "added", "removed", "not_collected")
MOVED = ("faster", "slower")
TERMS = terms(grammar.TERMS["ncu"].items())


class Figure(msgspec.Struct, frozen=True):
    """A line of a table: both sides and the change as text; widths: of bars, as a part of the widest, 0 to 1."""

    label: str
    before: str
    after: str
    change: str
    widths: tuple[float, float] | None = None


def section(ncu: Ncu) -> Section:
    """The kernels in a table, and a part for each with its figures and the rules that fired."""
    listed = table("ncu", ncu.rows, VALUES, limit=LIMIT, look="data sortable filterable")
    # each row leads to its part by its name
    linked = [
        replace(row, cells=[replace(row.cells[0], link=f"ncu-{number}"), *row.cells[1:]])
        for number, row in enumerate(listed.rows)
    ]
    files = f"{file_line('Baseline', ncu.baseline)}; {file_line('candidate', ncu.candidate)}."
    blocks: list[Block] = [
        render.headline(headline(ncu)),
        *notes(files),
        Line([say("lead_ncu")], "lead"),
        replace(listed, rows=linked),
        *(_part(row, number) for number, row in enumerate(ncu.rows[:LIMIT])),
        *render.warnings(ncu.warnings, lacks(ncu)),
    ]
    return Section("ncu", TITLE, blocks, depth=1, gist=summary(ncu), menu="Counters", printed=True)


def _part(row: NcuRow, number: int) -> Section:
    """What is known of a kernel: who it is, the rules that fired, every figure, what was not collected."""
    depth = 1 if number < _PRINTED and row.delta_ns is not None else 2
    none, kernel = missing(row), name(row).text(names.LONG)
    # what bounds several kernels is no word
    summed = any(side.summed for side in (row.baseline, row.candidate) if side)
    bounds = say("ncu_bound", kernel=kernel, bound=both(row, bound), limited=both(row, limited))
    tables = (("ncu_figures", figures(row)), ("ncu_stalls", stalls(row)))
    listed = [
        replace(
            table("ncu figures", lines, VALUES, limit=LIMIT, title=say(title, kernel=kernel), look="plain", depth=depth),
            field="ncu.rows",
        )
        for title, lines in tables
        if lines
    ]  # fmt: skip
    blocks: list[Block] = [
        _facts(row),
        *(Line([Strong(one.rule), f" ({one.kind}) {one.text}"], "aside") for one in row.reasons),
        *([] if summed else [Line([bounds])]),
        Section("", "", listed, columns=True, depth=depth),
        *([Line([say("ncu_ratio", factors=factors(row))])] if row.factors else []),
        *notes(f"Note: {row.note}." if row.note else ""),
        *([Line([say("ncu_none", keys=", ".join(none))], "aside")] if none else []),
    ]
    first = number == 0 and depth == 1
    return Section(f"ncu-{number}", kernel, blocks, depth=depth, folded=True, open=first)


def _facts(row: NcuRow) -> Table:
    """Names and launch shapes of both sides."""
    there = (("baseline", row.baseline), ("candidate", row.candidate))
    return facts("kernel", [
        (word, [*(Cell(one, code=True) for one in side.names[:4]), Cell(shape(side))])
        for word, side in there if side
    ])  # fmt: skip


def tone(ncu: Ncu) -> str:
    """The tone of the whole: good or bad where all clear changes are, unsure where they differ."""
    changes = {row.change for row in ncu.rows if row.change in MOVED}
    if len(changes) == 2:
        return "unsure"
    return {"faster": "good", "slower": "bad"}[changes.pop()] if changes else "neutral"


def value(key: str, number: float | None) -> str:
    """Write a value of a key."""
    if number is None:
        return NONE
    if write := _WRITTEN.get(BY_KEY[key].unit):
        return write(number)
    return f"{number:,.0f}" if number == int(number) and number < 100_000 else text.count(number)


_WRITTEN: dict[str, Callable[[float], str]] = {
    "ns": text.time, "byte": text.size, "hz": text.clock, "%": lambda number: f"{text.percent(number)} %",
}  # fmt: skip


def change(before: float | None, after: float | None, percentage: bool = False) -> str:
    """Write the change: points of a percentage, percent of anything else."""
    if before is None or after is None:
        return ""
    if before == after:
        return SAME
    if percentage:
        if abs(after - before) < 0.05:
            return SAME
        digits = 0 if abs(after - before) >= 9.95 else 1
        return f"{after - before:+.{digits}f} points"
    if not before:
        return ""
    return units.percent(after - before, before) if after < 10 * before else text.times(before, after)


def figures(row: NcuRow) -> list[Figure]:
    """The figures that one side at least has; those that are the same come last."""
    have = _have(row)
    found = (_figure(one, row) for group in GROUPS.values() for one in group if one.key in have)
    return sorted(found, key=lambda one: one.change == SAME)


def _have(row: NcuRow) -> set[str]:
    """Keys that one side at least has."""
    return {key for side in (row.baseline, row.candidate) if side for key in side.values}


def missing(row: NcuRow) -> list[str]:
    """Labels of what neither side of the row has."""
    have = _have(row)
    return [one.label for one in METRICS if one.key not in have]


def of_side(side: NcuKernel | None, write: Callable[[NcuKernel], str], *, additive: bool = False) -> str:
    """What a side says; of sums of several kernels only what adds up."""
    if side is None:
        return ""
    return APART if side.summed and not additive else write(side)


def side_value(side: NcuKernel | None, key: str) -> str:
    """Write a value of a side."""
    return of_side(side, lambda one: value(key, one.values.get(key)), additive=BY_KEY[key].additive)


def _figure(metric: Metric, row: NcuRow) -> Figure:
    before, after = (side.values.get(metric.key) if side else None for side in (row.baseline, row.candidate))
    said = [side_value(side, metric.key) for side in (row.baseline, row.candidate)]
    return Figure(metric.label, said[0], said[1], change(before, after, metric.unit == "%"))


def stalls(row: NcuRow, limit: int = 8) -> list[Figure]:
    """Warp states with the most cycles on either side, cycles per instruction."""
    sides = row.baseline, row.candidate
    one, other = (side.stalls if side else {} for side in sides)
    most = {name: max(one.get(name, 0.0), other.get(name, 0.0)) for name in {**one, **other}}
    shown = sorted((name for name in most if most[name] > 0), key=lambda name: (-most[name], name))[:limit]
    none = ["" if side is None else APART if side.summed else NONE for side in sides]
    bars = []
    for name in shown:
        # a side with a breakdown has every state: what is not in it is 0, not missing
        before, after = (found.get(name, 0.0) if found else None for found in (one, other))
        said = [
            no if it is None else units.three_digits(it) for it, no in zip((before, after), none, strict=True)
        ]
        widths = (before or 0.0) / most[shown[0]], (after or 0.0) / most[shown[0]]
        label = f"stall: {name.replace('_', ' ')}, cycles per instruction"
        bars.append(Figure(label, said[0], said[1], change(before, after), widths))
    return bars


def name(row: NcuRow) -> names.Name:
    """Name a row as kernels are named; with grids where only they differ."""
    one, other = _name(row.baseline), _name(row.candidate)
    grids = [side.grids for side in (row.baseline, row.candidate) if side]
    if one and one == other and grids[0] != grids[1]:
        return names.Name((one,), f", grid {units.arrow(' '.join(map(_grid, side[:2])) for side in grids)}")
    return names.name(one, other)


def _grid(grid: str) -> str:
    return grid.split(",")[0] if grid.endswith(",1,1") else grid.replace(",", "x")


def _name(side: NcuKernel | None) -> str:
    return " + ".join(names.counted(map(names.short, side.names))) if side else ""


def shape(side: NcuKernel) -> str:
    """Grid, block and launches of a side."""
    parts = [
        f"grid {' '.join(side.grids[:4])}" if side.grids else "",
        f"block {' '.join(side.blocks[:4])}" if side.blocks else "",
    ]
    spread = ""
    if side.launches > 1 and side.duration_min_ns is not None and side.duration_max_ns is not None:
        spread = f", {text.time(side.duration_min_ns)} to {text.time(side.duration_max_ns)}"
    return "; ".join([*filter(None, parts), f"{units.launches(side.launches)} profiled{spread}"])


def bound(side: NcuKernel | None) -> str:
    """What a side is bound by."""
    return of_side(side, lambda one: (one.bound or NONE).replace("_", " "))


def limited(side: NcuKernel | None) -> str:
    """What limits the occupancy of a side."""

    def names_of(one: NcuKernel) -> str:
        if "theoretical_occupancy_pct" not in one.values:
            return NONE
        return ", ".join(LIMITS.get(name, name) for name in one.limited_by) or "nothing: the most warps fit"

    return of_side(side, names_of)


def both(row: NcuRow, write: Callable[[NcuKernel | None], str]) -> str:
    """What both sides say in one cell."""
    return units.arrow(filter(None, map(write, (row.baseline, row.candidate))))


def occupancy(row: NcuRow) -> str:
    """Achieved occupancy of both sides."""
    sides = [side_value(side, "achieved_occupancy_pct") for side in (row.baseline, row.candidate)]
    if all(side.endswith(" %") for side in sides):
        return f"{sides[0].removesuffix(' %')} -> {sides[1]}"
    return units.arrow(filter(None, sides))


def percent(row: NcuRow) -> str:
    """Change of the duration."""
    if row.delta_ns is None or row.baseline is None:
        return ""
    return units.percent(row.delta_ns, row.baseline.values["duration_ns"])


def factors(row: NcuRow) -> str:
    """What the ratio of durations is made of."""
    return " x ".join(f"{number:.3g} ({key.replace('_', ' ')})" for key, number in row.factors.items())


def file_line(label: str, side: NcuSide) -> str:
    """What a side's file is."""
    launches = f"{units.launches(side.launches)} of {units.counted(side.kernels, 'kernel')}"
    return f"{label}: {side.file} ({', '.join(filter(None, (launches, side.device)))})"


def lacks(ncu: Ncu) -> list[str]:
    """What was not collected, and how to collect it; a line a side and option."""
    lines: dict[str, list[str]] = {}
    for word, side in (("baseline", ncu.baseline), ("candidate", ncu.candidate)):
        for group in side.missing:
            what = f"{', '.join(_labels(group.keys))}: collect with ncu {group.collect_with}"
            lines.setdefault(what, []).append(word)
    return [
        say("not_collected" if len(sides) > 1 else "not_collected_on", side=sides[0], what=what)
        for what, sides in lines.items()
    ]


def _labels(keys: Iterable[str]) -> Sequence[str]:
    found = [BY_KEY[key].label if key in BY_KEY else key for key in keys]
    return found if len(found) <= 6 else [*found[:5], f"{len(found) - 5} more"]


def headline(ncu: Ncu) -> str:
    """The first sentence: the kernel that changed most, by how much, why, how sure; then how many others changed."""
    row = next((one for one in ncu.rows if one.change in MOVED), None)
    if row is None or row.baseline is None or row.candidate is None:
        kernels = f"of {len(ncu.rows)} kernels" if len(ncu.rows) > 1 else "kernel"
        alone = [f"{number} {kind}" for kind in ("added", "removed") if (number := _count(ncu, kind))]
        said = f"No {kernels} is clearly faster or slower" + (f"; {', '.join(alone)}" if alone else "")
        if len(ncu.rows) == 1 and not alone:
            said += f": {ncu.rows[0].sentence.removeprefix('no clear change: ')}"
        return f"{said}."
    one, other = row.baseline, row.candidate
    launches = f"{one.launches} + {other.launches} launches"
    together = row.match in ("fused", "split")  # their durations are not compared one by one
    sure = f"{launches} were profiled"
    if min(one.launches, other.launches) < 2:
        sure = "one launch on a side, so its spread is not known"
    elif not together and one.duration_min_ns is not None and other.duration_min_ns is not None:
        sure = f"the durations of {launches} do not overlap"
    others = [
        f"{number} more {kind}" for kind in MOVED if (number := _count(ncu, kind) - (row.change == kind))
    ]
    more = f" Also {' and '.join(others)}." if others else ""
    pattern = "ncu_together" if together else "ncu_alone"
    return say(pattern, kernel=name(row).text(100), change=row.sentence, sure=sure) + more


def _count(ncu: Ncu, change: str) -> int:
    return sum(row.change == change for row in ncu.rows)


def summary(ncu: Ncu) -> str:
    """One line: how many kernels became faster and slower."""
    counts = [f"{number} {key.replace('_', ' ')}" for key in CHANGES if (number := _count(ncu, key))]
    return ", ".join(counts) or "no kernels"


def kernel_notes(ncu: Ncu) -> dict[int, list[tuple[str, str]]]:
    """Row of the step's kernel table -> anchor and sentence of each row here."""
    found: dict[int, list[tuple[str, str]]] = {}
    for number, row in enumerate(ncu.rows):
        if row.kernel is not None:
            found.setdefault(row.kernel, []).append((f"ncu-{number}", row.sentence))
    return found


def _change(row: NcuRow) -> Cell:
    tone: Tone = row.change if row.change in ("faster", "slower") else "noise"
    return Cell(percent(row) if row.delta_ns is not None else row.change.replace("_", " "), tone=tone)


def _time(side: NcuKernel | None) -> Cell | None:
    ns = side.values.get("duration_ns") if side else None
    return Cell(value("duration_ns", ns), ns) if side else None


VALUES: dict[str, values.Value] = {
    "kernel": lambda row, context: name(row).cell(names.LONG),
    "before_time": lambda row, context: _time(row.baseline),
    "after_time": lambda row, context: _time(row.candidate),
    "moved": lambda row, context: _change(row),
    "bound": lambda row, context: both(row, bound),
    "occupancy": lambda row, context: occupancy(row),
    "bars": lambda row, context: Cell(bars=row.widths) if row.widths else None,
}
