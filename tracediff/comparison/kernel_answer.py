"""Kernels asked for by name: what the tables of a comparison hold of them, put together."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np

from tracediff.comparison.cells import Measured, PhaseCells
from tracediff.comparison.places import LEVELS, Judged
from tracediff.errors import TracediffError
from tracediff.kernels.matching import OpKey
from tracediff.kernels.names import short
from tracediff.model import Evidence, KernelAnswer, KernelPhase, KernelRow, LaunchOrigin

_SAID = 6  # kernels that an error names


def rows_named(name: str, rows: Sequence[KernelRow]) -> list[int]:
    """The numbers of the rows in whose kernels a name occurs, on either side: see `named`."""
    sides = [[side for side in (row.baseline, row.candidate) if side] for row in rows]
    return named(name, [[text for side in one for text in side.names] for one in sides])


def named(name: str, texts: Sequence[Sequence[str]]) -> list[int]:
    """Which of some lists of kernels' names have one in which a name occurs (`*`: anything).

    Reports shorten names: where nothing holds the text itself, its words in their order stand for it.
    """
    literal = [re.compile(re.escape(part)) for part in name.split("*")]
    words = [re.compile(rf"\b{re.escape(word)}") for word in re.findall(r"\w+", name)]
    for parts in (literal, words):
        found = [at for at, own in enumerate(texts) if parts and any(_in_order(one, parts) for one in own)]
        if found:
            return found
    return []


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
    found = rows_named(asked, [row for _, row in rows])
    if not found:
        there = sorted(
            rows, key=lambda one: -max(s.ns_per_step for s in (one[1].baseline, one[1].candidate) if s)
        )
        every = (short((row.candidate or row.baseline).names[0], 60) for _, row in there)  # type: ignore[union-attr]
        names = list(dict.fromkeys(every))[:_SAID]
        raise TracediffError(
            "no-such-kernel",
            f"no kernel of either side has {asked!r} in its name; those with the most time: {', '.join(names)}",
            fix="--kernel NAME: a part of the name as reports show it; * stands for anything",
            exit_code=2,
        )
    mine = [rows[at] for at in found]
    together = [launched[at] for at in rows_named(asked, launched)]
    numbers = [number for number, _ in mine]
    kernels = measured.kernels
    counts, walls, hidden = (
        table[numbers].sum(axis=0) for table in (kernels.counts, kernels.walls, kernels.hidden)
    )
    means = np.divide(walls, counts, out=np.zeros(2), where=counts > 0)
    return KernelAnswer(
        asked=asked,
        text="",
        rows=found,
        baseline_count=float(counts[0]),
        candidate_count=float(counts[1]),
        baseline_ns=math.fsum(row.baseline.ns_per_step for _, row in mine if row.baseline),
        candidate_ns=math.fsum(row.candidate.ns_per_step for _, row in mine if row.candidate),
        delta_ns=math.fsum(row.delta_ns for _, row in mine),
        baseline_mean_ns=float(means[0]),
        candidate_mean_ns=float(means[1]),
        baseline_hidden_ns=float(hidden[0]),
        candidate_hidden_ns=float(hidden[1]),
        level=min((row.level for row in [*(row for _, row in mine), *together]), key=LEVELS.index),
        phases=_phases(measured, judged, numbers),
        origins=_origins(measured, numbers),
    )


def _phases(measured: Measured, judged: Judged, numbers: list[int]) -> list[KernelPhase]:
    """The typical step of each phase that has any of the kernels."""
    cells = [measured.layout.kernels[number] for number in numbers]
    values = measured.kernels.values
    step = measured.frame.index.rows(values)
    inside = np.flatnonzero(
        (step >= 0) & (values["side"].to_numpy() < 2) & np.isin(values["row"].to_numpy(), numbers)
    )
    side, count = values["side"].to_numpy()[inside], values["count"].to_numpy()[inside]
    found = []
    for phase in measured.phases:
        weight = phase.steps.typical[step[inside]]
        launches = np.bincount(side, weights=count * weight, minlength=2).astype(np.float64)
        of = phase.typical.grouped([cells]).estimate
        before, after, delta, half = (float(one[0]) for one in (of.baseline, of.candidate, of.delta, of.half))
        if before or after or launches.any():
            level = _level(judged, phase, cells)
            found.append(
                KernelPhase(
                    phase.steps.phase, round(float(launches[0]), 9), round(float(launches[1]), 9), before, after, delta,
                    delta - half, delta + half, level,
                )
            )  # fmt: skip
    return found


def _level(judged: Judged, phase: PhaseCells, cells: list[int]) -> Evidence:
    levels = [
        one.level
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
            keys = [
                at
                for at, key in enumerate(part.keys.select("name", "grid", "block").iter_rows())
                if OpKey(key[0], key[1] or "", key[2] or "") in ops
            ]
            chosen = part.origins.filter(part.origins["key"].is_in(keys))
            for thread, place, api, count in chosen.select("thread", "place", "api", "count").iter_rows():
                counts.setdefault((thread, place, api), [0.0, 0.0])[number] += count
    totals = [sum(own[side] for own in counts.values()) or 1.0 for side in (0, 1)]
    shares = {origin: (own[0] / totals[0], own[1] / totals[1]) for origin, own in counts.items()}
    order = sorted(shares, key=lambda origin: (-max(shares[origin]), origin))
    return [LaunchOrigin(*origin, *shares[origin]) for origin in order]
