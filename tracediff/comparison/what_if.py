"""What the steps of one side would take with changes applied: the words of edits, and the replays of all runs together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import polars as pl
from msgspec.structs import replace

import tracediff
from tracediff.accounting.reduction import Reduction
from tracediff.comparison.candidates import kernels_of
from tracediff.comparison.classes import with_classes
from tracediff.comparison.measures import KERNEL, SUMS, Measure, parse
from tracediff.comparison.shown import FIRST, PARTS
from tracediff.errors import TracediffError, UsageError
from tracediff.execution.sides import Side, side_input, warnings_of
from tracediff.kernels.matching import Match
from tracediff.model import Coverage, Finding, FindingPart, Kernels, Projected, Tool, Where
from tracediff.model.causes import BUSY, CATEGORIES, CAUSES, STEP
from tracediff.model.result import WhatIf, WhatIfEdit, WhatIfKind, WhatIfPhase
from tracediff.stats.rules import MOSTLY
from tracediff.whatif.replay import Ahead, At, Edit, Fuse, Graph, Scale, Steps, project

_MOST_FACTOR = 100.0  # a larger one is a slip of the hand
# Half the range, 80 %: two captures of one program differ by their usual scatter, and a projection misses a part of what changes: of
# what the step gains, measured on pairs in which the change was made (docs/nulls.md#what-if).
_OF_STEP, _OF_GAIN, _Z = math.sqrt(2) * STEP, 0.15, 1.28


class Asked(msgspec.Struct, frozen=True):
    """An edit as it was given, and what it means."""

    kind: WhatIfKind
    text: str
    edit: Edit

    @property
    def option(self) -> str:
        """The same on the command line."""
        return f"--{self.kind}" + (f" {self.text!r}" if self.text else "")


def parse_edits(
    without: Sequence[str] = (),
    scale: Sequence[str] = (),
    fuse: Sequence[str] = (),
    graph: bool = False,
    ahead: bool = False,
) -> list[Asked]:
    """Read the edits of a command. Raises `TracediffError`: bad-what-if, bad-measure, no-what-if."""
    found = [Asked("without", text, _scale(text, text, 0.0)) for text in without]
    for text in scale:
        name, equals, factor = text.rpartition("=")
        if not equals or not name.strip():
            raise _bad(f"{text!r}: a factor is missing", "--scale 'fmha*=0.5'")
        found.append(Asked("scale", text, _scale(text, name.strip(), _factor(text, factor))))
    for text in fuse:
        names, equals, factor = text.rpartition("=")
        names, by = (names, _factor(text, factor)) if equals else (text, 1.0)
        parts = tuple(one.strip() for one in names.split("+"))
        if len(parts) < 2 or not all(parts):
            raise _bad(f"{text!r}: two kernels or more are joined by +", "--fuse 'gemm*+gelu*'")
        found.append(Asked("fuse", text, Fuse(parts, by)))
    if graph:
        found.append(Asked("graph", "", Graph()))
    if ahead:
        found.append(Asked("async", "", Ahead()))
    if not found:
        raise UsageError(
            "no-what-if",
            "nothing is to be different",
            fix="--without gc, --scale 'fmha*=0.5', --fuse 'A+B', --graph or --async",
        )
    return found


def _factor(text: str, factor: str) -> float:
    try:
        value = float(factor)
    except ValueError:
        value = math.nan
    if not 0 <= value <= _MOST_FACTOR:
        raise _bad(
            f"{text!r}: {factor.strip()!r} is no factor from 0 to {_MOST_FACTOR:.0f}", "--scale 'fmha*=0.5'"
        )
    return value


def _scale(text: str, name: str, factor: float) -> Scale:
    """The edit of a cause or of kernels; without a cause of that name, of kernels with it."""
    what, at, place = name.partition("@")
    try:
        where = parse(f"idle@{place}").at if at else None
        measure = parse(what)
    except TracediffError as error:
        if factor == 0 or at:
            raise _bad(error.message, "--without gil_wait@await_response") from error
        measure = Measure(KERNEL, kernel=what)
    if measure.phase or not (measure.categories or measure.quantity == KERNEL):
        raise _bad(f"{text!r} is no cause and no kernel", "--without gil_wait@await_response")
    if measure.quantity == KERNEL:
        return Scale(BUSY, factor, where, measure.kernel)
    if measure.quantity in ("unattributed", *SUMS):
        raise _bad(
            f"{text!r}: of {measure.quantity} nothing can be replayed", "--without host_work@_schedule"
        )
    if factor not in (0, 1) and measure.quantity == "host_sync":
        raise _bad(
            f"{text!r}: a wait for the GPU ends with the GPU's work, whatever its factor",
            f"--without {name}, or --scale of the kernels",
        )
    return Scale(measure.categories, factor, where)


def _bad(message: str, example: str) -> TracediffError:
    return UsageError(
        "bad-what-if", message, fix=f"for example {example}; causes: {', '.join(_CAUSES)}, kernel:NAME"
    )


_CAUSES = tuple(name for name in CATEGORIES if name != "unattributed")


def what_if(side: Side, asked: Sequence[Asked], options: dict[str, Any] | None = None) -> WhatIf:
    """Replay the steps of a side. Its reductions hold graphs of events, unless nothing of a GPU was measured.

    Raises `TracediffError`: what-if-no-gpu, what-if-not-captured, what-if-nothing.
    """
    (side,) = with_classes([side])
    _check(side, asked)
    parts = side.parts
    replayed = [project(part, [one.edit for one in asked]) for part in parts]
    steps = sum(len(one.row) for one in replayed)
    found = [sum(one.meant[number] for one in replayed) for number in range(len(asked))]
    for one, count in zip(asked, found, strict=True):
        if not count:
            raise _nothing(one, parts)
    of_phases = phases(parts, replayed)
    return WhatIf(
        tool=Tool("tracediff", tracediff.__version__),
        input=side_input(side),
        options=options or {},
        edits=[
            WhatIfEdit(one.kind, one.text, count / steps) for one, count in zip(asked, found, strict=True)
        ],
        steps=sum(one.steps for one in of_phases),
        all_steps=sum(len(part.periods) for part in parts),
        phases=of_phases,
        coverage=Coverage(
            dict(sorted(parts[0].coverage.items()))
        ),  # what is kept of a reduction has another order
        warnings=warnings_of([side]),
    )


def _counting(parts: Sequence[Reduction], replayed: Sequence[Steps]) -> pl.DataFrame:
    """A row per step that was replayed. Those at the start of a program count where a phase has no others."""
    frames = []
    for part, one in zip(parts, replayed, strict=True):
        columns = {"before": one.before, "after": one.after, "removed": one.removed}
        for side, deciding in zip(("b", "a"), one.deciding, strict=True):
            columns |= {f"{side}_{name}": deciding[:, number] for number, name in enumerate(CATEGORIES)}
        rows = part.periods[one.row].select("phase", "start_up")
        frames.append(rows.with_columns(pl.Series(name, values) for name, values in columns.items()))
    table = pl.concat(frames)
    return table.filter(~pl.col("start_up") | pl.col("start_up").all().over("phase"))


def phases(parts: Sequence[Reduction], replayed: Sequence[Steps]) -> list[WhatIfPhase]:
    """The phases that were replayed, those with the most time first."""
    found = []
    means = (
        _counting(parts, replayed)
        .group_by("phase")
        .agg(
            pl.len().alias("steps"),
            pl.all().exclude("phase", "start_up", "steps").mean(),
            total=pl.col("before").sum(),
        )
    )
    for row in means.sort("total", "phase", descending=[True, False]).iter_rows(named=True):
        before, after = float(row["before"]), float(row["after"])
        low, high = _range(before, after, sum(row[f"a_{name}"] for name in BUSY))
        found.append(
            WhatIfPhase(
                row["phase"], row["steps"], before, after, low, high, row["removed"],
                *({name: row[f"{side}_{name}"] for name in CATEGORIES if row[f"{side}_{name}"]} for side in ("b", "a")),
            )
        )  # fmt: skip
    return found


def level(side: Side, edit: Scale, phase: str = "") -> float:
    """What threads and GPUs of a side take per step (of a phase) of what an edit is about, ns."""
    taken = [project(part, [replace(edit, factor=0.0)]) for part in side.parts]
    inside = [
        (part.periods["phase"][one.row] == phase).to_numpy() if phase else slice(None)
        for part, one in zip(side.parts, taken, strict=True)
    ]
    found = np.concatenate([one.removed[kept] for one, kept in zip(taken, inside, strict=True)])
    return float(found.mean()) if len(found) else 0.0


# Of the first causes of a comparison: what the candidate's step would take with each at the baseline's level.

# Of the kernels of a finding: their names on the baseline, and on the candidate.
_Names = dict[Kernels | None, tuple[frozenset[str], frozenset[str]]]
_NOT_SCALED = ("host_sync", "unattributed")


def with_projections(
    findings: list[Finding], sides: tuple[Side, Side], matches: Sequence[Match]
) -> list[Finding]:
    """The findings, with what the candidate's step would take without each of the first three slower ones, and without all of them.

    Only causes that are beyond noise, of one phase, and that can be undone.
    """
    if any(part.events is None for side in sides for part in side.parts):  # no GPU work
        return findings
    slower = [one for one in findings if one.delta_ns > 0 and one.level != "within_noise"]
    slower = [
        one for one in slower if one.where.phase == slower[0].where.phase and one.part == slower[0].part
    ][:FIRST]
    names = _names(matches)
    edits = {one.rank: _undone(one, sides, names) for one in slower}
    known = [one for one in slower if edits[one.rank]]
    together = [edit for one in known for edit in edits[one.rank]]
    found = {}
    for one in known:
        all_of_them = _projected(sides[1], together, known) if one is known[0] and len(known) > 1 else None
        found[one.rank] = replace(
            one, without=_projected(sides[1], edits[one.rank], [one]), without_first=all_of_them
        )
    return [found.get(one.rank, one) for one in findings]


def _names(matches: Sequence[Match]) -> _Names:
    """What the kernels of a finding are called; of several rows with one text, all."""
    found: _Names = {}
    for match in matches:
        one, other = found.get(kernels_of(match), (frozenset(), frozenset()))
        found[kernels_of(match)] = (
            one.union(op.name for op in match.baseline),
            other.union(op.name for op in match.candidate),
        )
    return found


def _undone(finding: Finding, sides: tuple[Side, Side], names: _Names) -> list[Scale]:
    """The edits that take a finding, and what follows from it, to the baseline's level; none where it cannot be replayed."""
    own = FindingPart(
        finding.cause, finding.where, finding.delta_ns, finding.ci_low_ns, finding.ci_high_ns, finding.level
    )
    parts, phase = finding.parts or [own], finding.where.phase or ""
    found, undone = [], 0.0
    kernels = [part for part in parts if part.where.kernels]
    if kernels:
        called = [names.get(part.where.kernels, (frozenset(), frozenset())) for part in kernels]
        theirs, mine = (frozenset().union(*(one[number] for one in called)) for number in (0, 1))
        edit = Scale(BUSY, 0.5, names=mine)
        before, after = (level(side, edit, phase) for side in sides)
        if not mine or not after:
            return []
        undone = sum(part.delta_ns for part in kernels)
        # other kernels may be called the same on either side: these stay
        left = max(after - undone, 0.0) if theirs or before else 0.0
        found.append(replace(edit, factor=left / after))
    for part in parts:
        if part.where.kernels:
            continue
        if part.cause not in CATEGORIES or part.cause in _NOT_SCALED:
            if part.follows:
                continue
            return []
        edit = Scale((part.cause,), 0.5, _exactly(part.where))
        before, after = (level(side, edit, phase) for side in sides)
        undone += max(after - before, 0.0)
        found.append(replace(edit, factor=min(before / after, 1.0) if after else 1.0))
    # else threads and GPUs do not do more, but what they did came out of hiding
    return [one for one in found if one.factor < 1] if undone >= MOSTLY * finding.delta_ns else []


def _exactly(where: Where) -> At:
    """The place of a finding."""
    given = (where.range, where.thread, where.holder_thread, where.holder_range)
    return lambda words: all(one in (None, there) for one, there in zip(given, words, strict=False))


def _projected(candidate: Side, edits: Sequence[Edit], undone: Sequence[Finding]) -> Projected | None:
    """The step with the edits that undo some findings of one phase. Typical steps are those in the middle: a tenth at either end is left out."""
    finding = undone[0]
    table = _counting(candidate.parts, [project(part, edits) for part in candidate.parts])
    table = table.filter(pl.col("phase") == finding.where.phase)
    if finding.part == "typical" and len(table):
        table = table.filter(pl.col("before").is_between(*np.quantile(table["before"], (0.1, 0.9))))
    if not len(table):
        return None
    busy = pl.sum_horizontal(f"a_{name}" for name in BUSY)
    now, then, gpu = table.select("before", "after", busy=busy).mean().row(0)
    return Projected(now, then, *_range(now, then, gpu), [one.rank for one in undone])


def _range(before: float, after: float, busy: float) -> tuple[float, float]:
    """The range of a projected step, ns. GPU work that decides the step (busy) stays: only the scatter of runs goes below it."""
    half = range_half(before, after)
    return max(after - half, min(busy, after - range_half(after, after))), after + half


def range_half(before: float, after: float) -> float:
    """Half the 80 % range of a projected step time, ns: runs of one program differ, and a projection misses a part of what changes."""
    return _Z * math.hypot(_OF_STEP * after, _OF_GAIN * (before - after))


def _check(side: Side, asked: Sequence[Asked]) -> None:
    if any(part.events is None or not len(part.events.period) for part in side.parts):
        raise TracediffError(
            "what-if-no-gpu",
            f"{side.label}: no GPU work was measured, so there are no steps to replay",
            fix="a capture with GPU kernels (nsys -t cuda)",
        )
    for one in asked:
        causes = one.edit.causes if isinstance(one.edit, Scale) else ()
        for kind in sorted({CAUSES[cause].needs for cause in causes} - {""}):
            if not side.captured(kind):
                raise TracediffError(
                    "what-if-not-captured",
                    f"{one.option}: {kind} was not captured in {side.label}, so nothing of it can be taken away",
                    fix="capture it: nsys -t cuda,nvtx,python-gil; ranges named `Python GC` for collections",
                )


# Why changes that are about all of a step change nothing.
_ALREADY: dict[type[Edit], str] = {
    Graph: "the kernels between two waits are launched by one call already",
    Ahead: "no synchronising call is in the steps",
}


def _nothing(one: Asked, parts: Sequence[Reduction]) -> TracediffError:
    """The error of an edit that is about nothing; what it could be about is named."""
    near: list[str] = []
    if isinstance(one.edit, Scale) and not one.edit.kernel:
        near = _places(parts, one.edit.causes)
    elif isinstance(one.edit, Scale | Fuse):
        kernels = [part.keys.filter(pl.col("kind") == 0)["short_name"] for part in parts]
        near = list(dict.fromkeys(name for one in kernels for name in one))
    else:
        why = _ALREADY[type(one.edit)]
        return TracediffError(
            "what-if-nothing", f"{one.option}: {why}", fix="ask for another change: tracediff what-if --help"
        )
    said = f"; there are: {', '.join(near[:PARTS])}" if near else ""
    return TracediffError(
        "what-if-nothing",
        f"{one.option}: nothing of the kind is in the steps{said}",
        fix="tracediff show CAPTURE lists causes, places and kernels",
    )


def _places(parts: Sequence[Reduction], causes: Sequence[str]) -> list[str]:
    """The places with the most time of some causes."""
    total: dict[str, int] = {}
    for part in parts:
        graph = part.events
        assert graph is not None
        mine = np.isin(graph.cause, [CATEGORIES.index(one) for one in causes])
        length = (graph.time[graph.target] - graph.time[graph.source])[mine]
        sums = np.bincount(graph.word[mine], length, len(graph.words))
        for words, ns in zip(graph.words, sums.tolist(), strict=True):
            if ns and words[0]:
                total[words[0]] = total.get(words[0], 0) + int(ns)
    return sorted(total, key=lambda name: -total[name])
