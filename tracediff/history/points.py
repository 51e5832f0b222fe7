"""One point of a history: what a result says of one commit, small enough to keep thousands of."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from tracediff.comparison.measures import COUNTS, KERNEL, STEP, Measure, Measured, measured
from tracediff.model import Accounting, Check, KernelRow, Result
from tracediff.model.causes import CAUSES
from tracediff.model.common import ABSENT
from tracediff.model.show import Show

_MOST = 80  # places, and kernels, of a point: those with the most time
_MAIN = 0.1  # of the steps, as a share of the time changes with a slowdown: the phases that make a program what it is
_SIDE = 1.96  # standard errors from the middle of an interval to its end
_LONGEST = 200  # characters of a name
# What a check says of the machine, and of how it was recorded. Both sides of a comparable result agree in them.
_MACHINE = ("gpu", "gpu_count", "driver", "cuda", "cpu_cores")
_RECORDED = ("nsys", "schema", "graph_mode", "ranks")
# Seen or not seen from capture to capture, with the same options: without a collection in it, a capture does not tell whether it records them.
SEEN = ("gc",)


class Measures(msgspec.Struct, frozen=True):
    """What was measured, a list a column and as long as `names`, ns or a count per step, of the candidate.

    names: in the grammar of comparison/measures.py. delta: to the baseline that was measured with it; None where there is none.
    error: standard error of `delta`, or of `value` without one; 0 where it is not known. runs: name -> values of the runs.
    """

    names: list[str]
    value: list[float]
    error: list[float]
    baseline: list[float | None]
    delta: list[float | None]
    runs: dict[str, list[float]] = {}


class _Value(NamedTuple):
    """One of them."""

    value: float
    error: float = 0.0
    baseline: float | None = None
    delta: float | None = None
    runs: Sequence[float] = ()


class Program(msgspec.Struct, frozen=True, order=True):
    """What was measured: the user's name for it, how its steps were found, and its main phases."""

    name: str
    steps: str
    phases: tuple[str, ...]


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One result. time: of the commit, ISO 8601 in UTC. pinned: the program that the baseline is, where that was said; else ''.

    machine, configuration: points that differ in any of them are never compared. captures: fingerprints of the candidate's files.
    """

    commit: str
    time: str
    program: Program
    machine: dict[str, str]
    configuration: dict[str, str]
    baseline: str = ""  # label
    pinned: str = ""
    candidate: str = ""
    verdict: str = ""
    captures: list[str] = []
    measures: Measures


def of_result(result: Result, *, commit: str, time: str, program: str = "", pinned: str = "") -> Point:
    """The point of a comparison. A result that is not comparable has values, but no deltas."""
    checks = {check.name: check for check in result.comparability.checks}
    comparable = result.verdict != "not_comparable"
    runs = result.inputs.candidate.runs
    shares = {one.phase: one.share for one in result.phases if one.typical}
    return Point(
        commit=commit,
        time=time,
        program=Program(program, _candidate(checks, "step_labels"), _main(shares)),
        machine={name: _candidate(checks, name) for name in _MACHINE},
        configuration=_configuration(
            "compare",
            {name: _candidate(checks, name) for name in _RECORDED},
            result.coverage.candidate,
            result.inputs.options,
        ),
        baseline=result.inputs.baseline.label,
        pinned=pinned if comparable else "",
        candidate=result.inputs.candidate.label,
        verdict=result.verdict,
        captures=[run.fingerprint[:16] for run in runs],
        measures=_measures(_of_comparison(result), deltas=comparable),
    )


def of_show(show: Show, *, commit: str, time: str, program: str = "") -> Point:
    """The point of the report of one capture: values without a baseline."""
    facts = {fact.name: fact.value for fact in show.machine}
    steps = sum(phase.baseline.steps for phase in show.phases if phase.baseline) or 1
    shares = {one.phase: one.baseline.steps / steps for one in show.phases if one.baseline}
    runs = show.input.runs
    return Point(
        commit=commit,
        time=time,
        program=Program(program, ", ".join(sorted({run.step_source for run in runs})), _main(shares)),
        machine={name: facts[name] for name in _MACHINE if name in facts},
        configuration=_configuration(
            "show",
            {name: facts[name] for name in _RECORDED if name in facts},
            show.coverage.baseline,
            show.options,
        ),
        candidate=show.input.label,
        captures=[run.fingerprint[:16] for run in runs],
        measures=_measures(_of_one(show)),
    )


def _measures(found: Iterable[tuple[str, _Value]], *, deltas: bool = True) -> Measures:
    each = {name: one if deltas else _Value(one.value, runs=one.runs) for name, one in found}
    sides = [[one.baseline for one in each.values()], [one.delta for one in each.values()]]
    baseline, delta = ([None if one is None else _rounded(one) for one in side] for side in sides)
    return Measures(
        list(each),
        [_rounded(one.value) for one in each.values()],
        [_rounded(one.error) for one in each.values()],
        baseline,
        delta,
        {name: [_rounded(run) for run in one.runs] for name, one in each.items() if one.runs},
    )


def fits(point: Point) -> bool:
    """Whether the parts of a point that was read belong together: columns of one length, and a time that is one."""
    own = point.measures
    columns = (own.value, own.error, own.baseline, own.delta)
    try:
        datetime.fromisoformat(point.time)
    except ValueError:
        return False
    return all(len(one) == len(own.names) for one in columns)


def _candidate(checks: Mapping[str, Check], name: str) -> str:
    return checks[name].candidate if name in checks else "?"


def _main(shares: Mapping[str, float]) -> tuple[str, ...]:
    return tuple(sorted(name for name, share in shares.items() if share >= _MAIN))


def _configuration(
    kind: str, recorded: Mapping[str, str], coverage: Mapping[str, str], options: Mapping[str, Any]
) -> dict[str, str]:
    captured = sorted(name for name, what in coverage.items() if what == "captured" and name not in SEEN)
    # A list is no option but what was seen, such as the times at which the runs of a bundle were recorded.
    given = {
        name: str(value) for name, value in sorted(options.items()) if isinstance(value, (str, int, float))
    }
    return {"report": kind, **recorded, "captured": ", ".join(captured), **given}


def _of_comparison(result: Result) -> Iterator[tuple[str, _Value]]:
    """Every measure by its name in the grammar of comparison/measures.py."""
    for measure, now, runs in _of_steps(result):
        found = measured(measure, result)
        if isinstance(found, Measured):
            error = _error(found.low, found.high)
            yield measure.text, _Value(now, error, found.baseline, found.delta, runs)
    rows = sorted(result.places, key=lambda row: -max(row.baseline_ns, row.candidate_ns))
    places: dict[str, _Value] = {}
    for row in rows:
        name = Measure(
            row.cause, row.phase, place=_named(row.holder_range or row.range or row.holder or row.thread)
        )
        if name.place and (len(places) < _MOST or name.text in places):
            one = _Value(
                row.candidate_ns, _error(row.ci_low_ns, row.ci_high_ns), row.baseline_ns, row.delta_ns
            )
            places[name.text] = _sum(places.get(name.text), one)
    yield from places.items()
    yield from _kernels(result.kernels)


def _of_steps(result: Result) -> Iterator[tuple[Measure, float, list[float]]]:
    """Measure, the candidate's value, and that of its runs."""
    yield Measure(STEP), result.step.candidate_ns, []
    yield from _categories("", result.accounting)
    for phase in result.phases:
        if phase.typical is None:
            continue
        runs = phase.candidate.run_means_ns if phase.candidate else []
        yield Measure(STEP, phase.phase), phase.typical.candidate_ns, runs
        if phase.accounting is not None:
            yield from _categories(phase.phase, phase.accounting)
    for name in COUNTS:
        found = measured(Measure(name), result)
        if isinstance(found, Measured):
            yield Measure(name), found.baseline + found.delta, []


def _categories(phase: str, books: Accounting) -> Iterator[tuple[Measure, float, list[float]]]:
    for name, value in books.candidate.items():
        if name in CAUSES:
            yield Measure(name, phase), value, []


def _of_one(show: Show) -> Iterator[tuple[str, _Value]]:
    yield STEP, _Value(show.step.mean_ns, _scatter(show.step.runs_ns), runs=show.step.runs_ns)
    for row in show.accounting:
        yield row.category, _Value(row.ns, _scatter(row.runs_ns), runs=row.runs_ns)
    for phase in show.phases:
        if phase.baseline is not None:
            runs = phase.baseline.run_means_ns
            yield Measure(STEP, phase.phase).text, _Value(phase.baseline.mean_ns, _scatter(runs), runs=runs)
    launch = show.launch.baseline
    yield "launches", _Value(launch.calls_per_step)
    yield "graph_launches", _Value(launch.graph_launches_per_step)
    yield "kernels", _Value(launch.kernels_per_step)
    places: dict[str, _Value] = {}
    for place in show.idle[:_MOST]:
        where = _named(place.holder_range or place.range or place.holder_thread or place.thread)
        if where:
            name = Measure(place.cause, place=where).text
            places[name] = _sum(places.get(name), _Value(place.ns, _scatter(place.runs_ns)))
    yield from places.items()
    yield from _kernels(show.kernels)


def _kernels(rows: Sequence[KernelRow]) -> Iterator[tuple[str, _Value]]:
    """Kernels by name, all launch shapes together, those with the most time.

    A row of several names would have another one as soon as one of them comes or goes: those of a family and category are one.
    """
    found: dict[str, _Value] = {}
    for row in rows:
        if row.delta_ns is ABSENT:
            side, one = row.baseline, _Value(row.baseline.ns_per_step if row.baseline else 0.0)
        else:
            side = row.candidate or row.baseline
            now, before = (own.ns_per_step if own else 0.0 for own in (row.candidate, row.baseline))
            one = _Value(now, baseline=before, delta=row.delta_ns)
        names = dict.fromkeys(side.names if side else ())
        name = _named(next(iter(names))) if len(names) == 1 else f"{row.family} {row.category}, several"
        found[name] = _sum(found.get(name), one)
    most = sorted(found, key=lambda name: -max(found[name].value, found[name].baseline or 0.0))
    yield from ((f"{KERNEL}:{name}", found[name]) for name in most[:_MOST])


def _sum(one: _Value | None, other: _Value) -> _Value:
    """Errors of parts add up: too wide, never too narrow."""
    if one is None:
        return other
    baseline, delta = (
        None if a is None or b is None else a + b
        for a, b in ((one.baseline, other.baseline), (one.delta, other.delta))
    )
    return _Value(one.value + other.value, one.error + other.error, baseline, delta)


def _error(low: float | None, high: float | None) -> float:
    return 0.0 if low is None or high is None else (high - low) / 2 / _SIDE


def _scatter(runs: list[float]) -> float:
    """Standard error of a mean of runs; 0 of a single one, which tells nothing of it."""
    return statistics.stdev(runs) / len(runs) ** 0.5 if len(runs) > 1 else 0.0


def _rounded(value: float) -> float:
    """To hundredths of a ns, and of a count: a point stays small."""
    return round(value, 2)


def _named(text: str) -> str:
    return " ".join(text.split())[:_LONGEST]
