"""The step-time waterfall: baseline, one delta per category, candidate; adds up to the nanosecond. As text here."""

from __future__ import annotations

import math
import textwrap
from collections import defaultdict
from collections.abc import Sequence
from typing import Literal

import msgspec
from msgspec.structs import replace

from tracediff.model import Accounting, Evidence, Finding, FindingPart, Result, causes
from tracediff.model.causes import OWN
from tracediff.model.common import SIDES
from tracediff.report import palette, units, words
from tracediff.report.blocks import Cell, Head, Row, Table
from tracediff.report.first import lead
from tracediff.report.grammar import say
from tracediff.stats.rules import LITTLE, MOSTLY

NOISE: Evidence = "within_noise"
OTHERS = "others"
# Where the time of a category goes when that kind of trace is missing: the thread's own work.
_FALLBACK = "host_work"


class Bar(msgspec.Struct, frozen=True):
    """One row. `start_ns` and `end_ns` are running totals: a delta starts where the row above ended."""

    kind: Literal["baseline", "category", "residual", "candidate"]
    key: str
    label: str
    start_ns: int
    end_ns: int
    captured: bool = True  # False: no delta, because a side (or both) did not capture it
    note: str = ""
    level: Evidence | None = None

    @property
    def total(self) -> bool:
        """Whether it is a side, not a change."""
        return self.kind in ("baseline", "candidate")

    @property
    def delta_ns(self) -> int:
        """What the row adds; for a total, the total itself."""
        return self.end_ns - self.start_ns


class Waterfall(msgspec.Struct, frozen=True):
    """All rows in order, and the unit they share."""

    bars: list[Bar]
    scale: units.Scale
    unit: str = "step"
    of_what: str = "mean step"  # what it is the time of

    @property
    def of(self) -> str:
        """Heads the percentages: of the baseline's step time, not of the row's own."""
        return f"of {self.unit}"

    @property
    def shown(self) -> list[Bar]:
        """The rows worth a line: totals, changes, and what was not captured."""
        return [bar for bar in self.bars if bar.kind != "category" or bar.delta_ns or not bar.captured]

    @property
    def unchanged(self) -> list[Bar]:
        """The categories left out of `shown` because their delta is zero."""
        return [bar for bar in self.bars if bar.kind == "category" and bar.captured and not bar.delta_ns]

    @property
    def small(self) -> list[Bar]:
        """The categories that a drawing adds up in one row: a twentieth of the largest change or less, and within noise or 0.0 % of the step."""
        changes, large, step = _changes(self.bars), _large(self.bars), self.bars[0].end_ns
        found = [
            bar
            for bar in changes
            if abs(bar.delta_ns) <= large
            and (bar.level == NOISE or not round(100 * bar.delta_ns / max(step, 1), 1))
        ]
        return found if len(found) > 1 else []

    @property
    def drawn(self) -> list[Bar]:
        """The rows of a drawing: `shown` without what was not captured, `small` added up after the other categories."""
        small, running, out = self.small, self.bars[0].end_ns, [self.bars[0]]
        rows = [bar for bar in self.shown[1:-1] if bar.captured and bar not in small]
        place = sum(bar.kind == "category" for bar in rows)
        if small:
            total = sum(bar.delta_ns for bar in small)
            rows.insert(place, Bar("category", OTHERS, f"{len(small)} others", 0, total, level=NOISE))
        for bar in rows:
            out.append(replace(bar, start_ns=running, end_ns=running + bar.delta_ns))
            running += bar.delta_ns
        return [*out, self.bars[-1]]

    def axis(self) -> tuple[float, float]:
        """Choose the window of step time to show: from zero, unless changes that are more than noise would be too small to see."""
        totals = [self.bars[0].end_ns, self.bars[-1].end_ns]
        points = totals + [point for bar in self.bars[1:-1] for point in (bar.start_ns, bar.end_ns)]
        low, high = min(points), max(max(points), 1)
        unsure = all(bar.level == NOISE for bar in self.bars[1:-1] if bar.delta_ns)
        if unsure or low <= 0 or high == low or high - low > LITTLE * high:
            return min(0.0, float(low)), float(high)
        width = max(float(high - low), 0.02 * high)
        step = 10 ** math.floor(math.log10(width))
        start = math.floor((low - 0.35 * width) / step) * step
        return (float(start), float(high)) if start > 0 else (0.0, float(high))


def _changes(bars: Sequence[Bar]) -> list[Bar]:
    """The categories that changed."""
    return [bar for bar in bars if bar.kind == "category" and bar.captured and bar.delta_ns]


def _large(bars: Sequence[Bar]) -> float:
    """The size beyond which a change has a row of its own, however sure it is, ns."""
    return OWN * max((abs(bar.delta_ns) for bar in _changes(bars)), default=0)


def build(result: Result) -> Waterfall:
    """Build the waterfall of a result.

    A category is shown with the accounting's own delta. One that only one side captured, and for which the
    accounting gives no delta, cannot be compared: its time joins host work, where the other side's went. It is of the step
    that the first sentence is of: the typical one of its phase, or the mean one where rare steps hold the change.
    """
    accounting, start, end, of_what = spoken_of(result)
    if len(result.ranks) > 1:
        of_what = say("fall_of_ranks", step=of_what, ranks=words.ranks(result))
    baseline, candidate, given = accounting.baseline, accounting.candidate, accounting.delta
    deltas: dict[str, float] = dict(given)
    notes: dict[str, str] = {}
    for key in palette.order(baseline.keys() | candidate.keys()):
        if key in baseline and key in candidate:
            deltas.setdefault(key, candidate[key] - baseline[key])
        elif key in baseline or key in candidate:
            side, other = ("baseline", "candidate") if key in baseline else ("candidate", "baseline")
            notes[key] = say("fall_elsewhere", unseen=words.unseen(causes.CAUSES[key].needs), side=other)
            if key not in given:
                extra = candidate.get(key, 0.0) - baseline.get(key, 0.0)
                deltas[_FALLBACK] = deltas.get(_FALLBACK, 0.0) + extra
                label, into = palette.category(key).label, palette.category(_FALLBACK).label
                notes[key] = say("fall_counted_in", side=side, other=into)
                notes[_FALLBACK] = say("fall_includes", label=label, side=side)
            continue
        unseen = words.OPTIONAL.get(key, "")
        side = words.sides_without(result, unseen)
        # what was not recorded is not unchanged
        if unseen and not deltas.get(key) and (side or key not in deltas):
            deltas.pop(key, None)
            said = words.unseen(unseen)
            notes[key] = say("unseen_on", unseen=said, side=side) if side in SIDES else said
    sure = [one for one in result.findings if one.level != NOISE]
    named = {one.cause for one in sure} | {part.cause for one in sure for part in one.parts}
    for key, level in accounting.level.items():  # idle time that no cause of the list explains
        if key in causes.IDLE and level != NOISE and key not in named and deltas.get(key):
            notes.setdefault(key, say("fall_spread"))
    for key, ns in _of_causes(sure, result).items():
        if (delta := deltas.get(key)) and ns / delta > 1 + causes.SURELY:
            notes.setdefault(key, say("fall_less"))
    bars = _carried(_stack(accounting, start, end, deltas, notes), result)
    return Waterfall(bars, units.scale_for([start, end, *deltas.values()]), words.unit(result), of_what)


def _of_causes(sure: Sequence[Finding], result: Result) -> dict[str, float]:
    """What causes have of each category of the step, ns; one on one rank alone is no part of the mean of ranks."""
    held: defaultdict[str, float] = defaultdict(float)
    for cause in sure:
        parts: Sequence[Finding | FindingPart] = cause.parts or [cause]
        for part in parts if cause.where.rank is None and words.of_first(cause, result) else ():
            held["compute" if causes.CAUSES[part.cause].kind == "kernel" else part.cause] += part.delta_ns
    return held


def _carried(bars: Sequence[Bar], result: Result) -> list[Bar]:
    """The rows, without calling noise what mostly belongs to a cause of the first sentence that is more: a cause is tested as one."""
    spoken = {one.finding for one in result.observed.parts}
    held: defaultdict[str, float] = defaultdict(float)
    for cause in result.findings:
        if cause.rank in spoken and cause.level != NOISE:
            parts: Sequence[Finding | FindingPart] = cause.parts or [cause]
            for part in parts:
                held[part.cause] += part.delta_ns
    large = _large(bars)
    return [
        replace(bar, level="likely")
        if bar.level == NOISE and abs(bar.delta_ns) > large and held[bar.key] / bar.delta_ns > MOSTLY
        else bar
        for bar in bars
    ]


def spoken_of(result: Result) -> tuple[Accounting, float, float, str]:
    """The accounting of the step that the first sentence is of, its time on both sides, and what it is."""
    phase, step = lead(result), result.step
    of, books = (phase.typical, phase.accounting) if phase else (None, None)
    if phase is None or of is None or books is None:
        return result.accounting, step.baseline_ns, step.candidate_ns, f"mean {words.unit(result)}"
    name = f"typical {units.step(phase.phase)}"
    if words.whole_captures(result):
        name = words.unit(result)
    elif result.observed.of == "mean" and phase.mean and phase.mean_accounting:
        of, books, name = phase.mean, phase.mean_accounting, f"mean {units.step(phase.phase)}"
    return books, of.baseline_ns, of.candidate_ns, name


def _stack(
    accounting: Accounting, start: float, end: float, deltas: dict[str, float], notes: dict[str, str]
) -> list[Bar]:
    bars = [Bar("baseline", "baseline", "baseline", 0, round(start))]
    running = start
    for key in palette.order(deltas.keys() | notes.keys()):
        if key not in deltas and key not in notes:
            continue
        running, before = running + deltas.get(key, 0.0), round(running)
        label, level = palette.category(key).label, accounting.level.get(key)
        note = notes.get(key, "")
        bars.append(Bar("category", key, label, before, round(running), key in deltas, note, level))
    if abs(end - running) > max(0.5, 1e-9 * abs(end)):
        bars.append(Bar("residual", "unattributed", "not accounted for", round(running), round(end)))
    elif round(running) != round(end):  # a half that fell the other way: one nanosecond, kept on the last row
        bars[-1] = replace(bars[-1], end_ns=round(end))
    bars.append(Bar("candidate", "candidate", "candidate", 0, round(end)))
    return bars


def notes(waterfall: Waterfall) -> list[str]:
    """What stands under the figure: where its axis begins, what is added up in a row, and what has none."""
    start = waterfall.axis()[0]
    said = [say("fall_axis", time=waterfall.scale.time(start))] if start > 0 else []
    for pattern, bars in (("fall_others", waterfall.small), ("fall_unchanged", waterfall.unchanged)):
        if bars:
            said.append(say(pattern, labels=", ".join(bar.label for bar in bars)))
    noted = [bar for bar in waterfall.shown if bar.note]
    for note in dict.fromkeys(bar.note for bar in noted):
        said.append(f"{', '.join(bar.label for bar in noted if bar.note == note)}: {note}.")
    if any(bar.level == NOISE for bar in waterfall.drawn):
        said.append(say("fall_noise", sign=units.NOISE))
    return said


def text_table(waterfall: Waterfall, columns: int) -> Table:
    """The waterfall as a table of at most so many columns of text, the last of which are bars."""
    base, scale, drawn = waterfall.bars[0].end_ns, waterfall.scale, waterfall.drawn
    rows = [["", f"per {waterfall.unit}", waterfall.of, ""]]
    for bar in drawn:
        size = scale.time(bar.end_ns) if bar.total else scale.delta(bar.delta_ns)
        percent = "" if bar.total else units.percent(bar.delta_ns, base, bar.level)
        rows.append([bar.label, size, percent])
    room = columns - 1 - sum(2 + max(len(row[at]) for row in rows) for at in range(3))
    width = max(8, min(60, room))
    cells = [
        [*map(Cell, row), Cell(_bar(waterfall, bar, width), tone="noise" if bar.level == NOISE else "")]
        for row, bar in zip(rows[1:], drawn, strict=True)
    ]
    heads = [Head(text, right=at in (1, 2)) for at, text in enumerate(rows[0])]
    return Table("waterfall", "", heads, [Row(row) for row in cells], look="plain")


def _bar(waterfall: Waterfall, bar: Bar, width: int) -> str:
    """A row on so many cells; a change too small for a cell is a line in one, what may be noise is fainter."""
    low, high = waterfall.axis()
    per_ns = width / (high - low)
    left, right = sorted((max(bar.start_ns, low), max(bar.end_ns, low)))
    offset = min(int((left - low) * per_ns), width - 1)
    length = max(1, min(round((right - low) * per_ns), width) - offset)
    thin = (right - left) * per_ns < 0.5
    mark = "\u2588" if bar.total else "\u258f" if thin else "\u2591" if bar.level == NOISE else "\u2593"
    drawn = " " * offset + mark * length
    cut = bar.total and low > 0  # it does not begin at zero
    return f"{drawn[0]}\u2571{drawn[2:]}" if cut else drawn


def text_figure(waterfall: Waterfall) -> str:
    """Draw the waterfall as plain text, with what stands under it."""
    made = text_table(waterfall, 72)
    rows = [[head.text for head in made.heads], *([cell.text for cell in row.cells] for row in made.rows)]
    wide = [max(len(row[at]) for row in rows) for at in range(3)]
    lines = [
        f"{one:<{wide[0]}}  {size:>{wide[1]}}  {part:>{wide[2]}}  {bar}".rstrip()
        for one, size, part, bar in rows
    ]
    return "\n".join([*lines, *textwrap.wrap(" ".join(notes(waterfall)), 79)])
