"""Kernels asked for by name: what the tables of a comparison hold of them, put together."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import NamedTuple

import numpy as np
import polars as pl

from tracediff.comparison.cells import Measured, PhaseCells
from tracediff.comparison.kernel_table import KernelCells, op_keys
from tracediff.comparison.places import LEVELS, Judged
from tracediff.comparison.shown import PARTS
from tracediff.errors import TracediffError, UsageError
from tracediff.kernels.names import GROUPS, category, short
from tracediff.model import Evidence, KernelAnswer, KernelPhase, KernelRow, KernelSide, LaunchOrigin

CUT = "\u2026"  # where reports cut a long name
_WIDTH = 60  # characters of a kernel in a message


class NamedRow(NamedTuple):
    """What the kernels of a name have of a row. number: of the row; mine: their names; whole: the row is theirs alone.

    A row is theirs alone where a side has no others: what replaced them, or what they replace, is counted with them. Else their
    own ops count, on either side.
    """

    number: int
    mine: frozenset[str]
    whole: bool
    baseline_ns: float
    candidate_ns: float
    delta_ns: float


def rows_named(name: str, rows: Sequence[KernelRow]) -> list[NamedRow]:
    """The rows in whose kernels a name occurs, on either side."""
    found = []
    mine = bearing(name, (text for row in rows for side in _sides(row) for text in side.names))
    for number, row in enumerate(rows):
        own = frozenset(text for side in _sides(row) for text in side.names) & mine
        if not own:
            continue
        whole = any(own.issuperset(side.names) for side in _sides(row))
        before, after = (
            0.0 if side is None else side.ns_per_step if whole else _ns_of(side, own)
            for side in (row.baseline, row.candidate)
        )
        found.append(NamedRow(number, own, whole, before, after, row.delta_ns if whole else after - before))
    return found


def named_rows(name: str, rows: Sequence[KernelRow]) -> list[NamedRow]:
    """The same of a name that there has to be. Raises `TracediffError`: no-such-kernel."""
    found = rows_named(name, rows)
    if not found:
        there = sorted(rows, key=lambda row: -max(side.ns_per_step for side in _sides(row)))
        raise no_such_kernel(name, (side.names[0] for row in there for side in _sides(row)[-1:]))
    return found


def no_such_kernel(asked: str, names: Iterable[str]) -> TracediffError:
    """Of a name that no kernel has, or several where it was cut. names: of the kernels, those with the most time first."""
    there = list(dict.fromkeys(short(name, _WIDTH) for name in names))
    # people misspell one word of a long name
    alike = {word: name for name in reversed(there) for word in (*re.findall(r"[^\W_]+", name), name)}
    near = get_close_matches(asked, alike, n=1, cutoff=0.7)
    meant = f"; did you mean {alike[near[0]]}?" if near else ""
    one = "one " * (CUT in asked)
    said = "kernels were not recorded on both sides: none is compared"
    if there:
        most = f"those with the most time: {', '.join(there[:PARTS])}"
        said = f"no {one}kernel of either side has {asked!r} in its name; {most}{meant}"
    return UsageError(
        "no-such-kernel", said, fix="a part of the name as reports show it; * stands for anything"
    )


def in_their_place(found: Sequence[NamedRow], rows: Sequence[KernelRow]) -> list[NamedRow]:
    """The rows of new kernels that stand between the same unchanged kernels as those of a name that are gone from there."""
    gone = set()
    for one in found:
        left = rows[one.number].candidate
        if left is None or not one.mine.intersection(left.names):
            gone.add(rows[one.number].block)
    known = {one.number for one in found}
    return [
        NamedRow(number, frozenset(), True, 0.0, row.candidate.ns_per_step, row.delta_ns)
        for number, row in enumerate(rows)
        if row.match == "added"
        and row.block >= 0
        and row.block in gone
        and number not in known
        and row.candidate
    ]


def _sides(row: KernelRow) -> list[KernelSide]:
    return [side for side in (row.baseline, row.candidate) if side]


def _ns_of(side: KernelSide, names: frozenset[str]) -> float:
    if len(side.names) == 1:
        return side.ns_per_step if side.names[0] in names else 0.0
    return math.fsum(ns for name, ns in zip(side.names, side.ns_of, strict=True) if name in names)


def bearing(name: str, texts: Iterable[str]) -> frozenset[str]:
    """The kernels' names in which a name occurs (`*`: anything), and those of the group that reports call so: GEMM.

    Reports shorten names: where nothing holds the text itself, its words in their order stand for it. They cut long ones in their middle:
    such a name stands for one kernel. Where still nothing is found, the name may be that of a category.
    """
    every = frozenset(texts)
    group = GROUPS.get(name.removesuffix(" kernels").removesuffix("s"), "")
    found = _of_category(every, group)
    pieces = re.split(f"[*{CUT}]", name)
    literal = [re.compile(re.escape(part)) for part in pieces]
    words: list[re.Pattern[str]] = []
    for piece in pieces:
        for at, word in enumerate(re.findall(r"\w+", piece)):
            cut = not at and words  # it may begin within a word
            words.append(re.compile(re.escape(word) if cut else rf"\b{re.escape(word)}"))
    for parts in (literal, words):
        found |= frozenset(text for text in every if parts and _in_order(text, parts))
        if found:
            return found if CUT not in name or len(found) == 1 else frozenset()
    return _of_category(every, name)


def _of_category(texts: frozenset[str], wanted: str) -> frozenset[str]:
    return frozenset(text for text in texts if wanted and category(text) == wanted)


def _in_order(text: str, parts: list[re.Pattern[str]]) -> bool:
    """Whether the parts occur one after the other: each looked for once, however long a name a trace holds."""
    at = 0
    for part in parts:
        found = part.search(text, at)
        if not found:
            return False
        at = found.end()
    return True


def kernel_answer(
    asked: str,
    measured: Measured,
    judged: Judged,
    rows: Sequence[tuple[int, KernelRow]],
    launched: Sequence[KernelRow],
) -> KernelAnswer:
    """Everything about the kernels of a name.

    rows: of the result, each with its number in the matching. launched: those of one name together, where steps are too few to be judged.
    Raises `TracediffError`: no-such-kernel.
    """
    found = named_rows(asked, [row for _, row in rows])
    mine = [rows[one.number] for one in found]
    together = [launched[one.number] for one in rows_named(asked, launched)]
    numbers = [number for number, _ in mine]
    sizes = np.array(
        [_of_row(measured.kernels, number, one) for (number, _), one in zip(mine, found, strict=True)]
    )
    counts, walls, hidden = sizes.sum(axis=0)
    means = np.divide(walls, counts, out=np.zeros(2), where=counts > 0)
    return KernelAnswer(
        asked=asked,
        text="",
        rows=[one.number for one in found],
        partly=[one.number for one in found if not one.whole],
        instead=sorted(
            {
                short(name, _WIDTH)
                for (_, row), one in zip(mine, found, strict=True)
                if one.whole
                for side in _sides(row)
                for name in side.names
                if name not in one.mine
            }
        ),
        baseline_count=float(counts[0]),
        candidate_count=float(counts[1]),
        baseline_ns=math.fsum(one.baseline_ns for one in found),
        candidate_ns=math.fsum(one.candidate_ns for one in found),
        delta_ns=math.fsum(one.delta_ns for one in found),
        baseline_mean_ns=float(means[0]),
        candidate_mean_ns=float(means[1]),
        baseline_hidden_ns=float(hidden[0]),
        candidate_hidden_ns=float(hidden[1]),
        level=min((row.level for row in [*(row for _, row in mine), *together]), key=LEVELS.index),
        phases=_phases(measured, judged, numbers),
        origins=_origins(measured, numbers),
    )


def _of_row(kernels: KernelCells, number: int, one: NamedRow) -> list[list[float]]:
    """Ops, wall ns and hidden ns per step of the kernels of a name in a row: of both sides each."""
    if one.whole:
        tables = (kernels.counts, kernels.walls, kernels.hidden)
        return [[float(value) for value in table[number]] for table in tables]
    found: list[list[float]] = []
    ops = kernels.rows[number]
    for side, names in enumerate(({op.name for op in ops.baseline}, {op.name for op in ops.candidate})):
        of_names = kernels.of_names.get((number, side), {})
        own = [of_names[name] for name in sorted(one.mine & names) if name in of_names]
        count, wall, share = (
            (math.fsum(values) for values in zip(*own, strict=True)) if own else (0.0, 0.0, 0.0)
        )
        found.append([round(count, 9), wall, wall - share])
    return [list(values) for values in zip(*found, strict=True)]


def _phases(measured: Measured, judged: Judged, numbers: list[int]) -> list[KernelPhase]:
    """The typical step of each phase that has any of the kernels."""
    cells = [measured.layout.kernels[number] for number in numbers]
    values = measured.kernels.values.select("step", "side", "row", "count").filter(
        pl.col("step") >= 0, pl.col("side") < 2, pl.col("row").is_in(numbers)
    )
    step, side, count = (values[name].to_numpy() for name in ("step", "side", "count"))
    found = []
    for phase in measured.phases:
        weight = phase.steps.typical[step]
        launches = np.bincount(side, weights=count * weight, minlength=2).astype(np.float64)
        of = phase.typical.grouped([cells])
        if of.baseline[0] or of.candidate[0] or launches.any():
            before, after = (round(count, 9) for count in launches.tolist())
            level = _level(judged, phase, cells)
            found.append(KernelPhase(phase.steps.phase, before, after, **of.change(0), level=level))
    return found


def _level(judged: Judged, phase: PhaseCells, cells: list[int]) -> Evidence:
    levels = [
        one.of_row
        for one in judged.rows
        if one.phase is phase and one.part == "typical" and set(cells) & set(one.place.cells)
    ]
    return min(levels, key=LEVELS.index, default="within_noise")


def _origins(measured: Measured, numbers: list[int]) -> list[LaunchOrigin]:
    """Who launches them: of all whole steps, as captures hold them."""
    counts: dict[tuple[str, str, str], list[float]] = {}
    for number, side in enumerate(measured.sides):
        matches = [measured.kernels.rows[row] for row in numbers]
        ops = {op for match in matches for op in (match.candidate if number else match.baseline)}
        for part in side.parts:
            keys = [at for at, key in enumerate(op_keys(part)) if key in ops]
            chosen = part.origins.filter(part.origins["key"].is_in(keys))
            for thread, place, api, count in chosen.select("thread", "place", "api", "count").iter_rows():
                counts.setdefault((thread, place, api), [0.0, 0.0])[number] += count
    totals = [sum(own[side] for own in counts.values()) or 1.0 for side in (0, 1)]
    shares = {origin: (own[0] / totals[0], own[1] / totals[1]) for origin, own in counts.items()}
    order = sorted(shares, key=lambda origin: (-max(shares[origin]), origin))
    return [LaunchOrigin(*origin, *shares[origin]) for origin in order]
