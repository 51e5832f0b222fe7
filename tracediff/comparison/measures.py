"""Measures: what a gate limits, a search for a commit asks for and a history keeps: `[PHASE.]QUANTITY[@PLACE]`.

QUANTITY    step, the change that the first sentence is of; a phase alone (generation, step-with-topk), for its typical step, or its mean where rare
            steps hold the change; idle, busy; a category of the accounting, or its short
            name (gil: gil_wait); response, what the threads that hand responses on work; kernel:NAME, the kernels in whose name NAME occurs (`*`: anything; kernel~NAME is the same);
            ttft, tpot, itl, throughput of the benchmark's reports, in the mean; ttft.p99, ... a percentile of them
            launches, graph_launches, kernels, copies, copied_bytes, syncs: counts per step; p50, p90, p99 of the steps of a phase
PHASE.      in the step of that phase that its verdict is of, of kernels in the typical one, of counts in the mean one. Without it: the mean over all steps that are compared
@PLACE      of idle time only what lies at places of which the range, the thread, the holder of the GIL or the CUDA function holds PLACE:
            letters of any case, and `-`, `_` and a space are the same. host_work@PLACE where only a thread that launches nothing is so
            called: what it works, whether or not the GPU waits
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from tracediff.comparison.kernel_answer import in_their_place, named_rows
from tracediff.comparison.places import SURE
from tracediff.comparison.shown import PARTS
from tracediff.errors import TracediffError, UsageError
from tracediff.model import (
    CATEGORIES,
    Accounting,
    Delta,
    Evidence,
    KernelTypical,
    Launch,
    LaunchPhase,
    Phase,
    PlaceRow,
    Result,
    Said,
    ThreadRow,
    Verdict,
)
from tracediff.model.causes import BUSY, CAUSES, IDLE
from tracediff.model.observed import Observed
from tracediff.stats.rules import RUNS_TELL
from tracediff.trace.threads import OUTSIDE, RESPONSE_ROLES

STEP: Final = "step"
KERNEL: Final = "kernel"
RESPONSE: Final = "response"
QUANTILES = ("p50", "p90", "p99")
# Sums of categories: their name -> the categories.
SUMS = {"idle": IDLE, "busy": BUSY}
# What is counted -> the kinds of trace that it is counted in: without one of them there is no count, not even none.
# A graph of which no node was recorded may hold kernels and copies.
_COUNTED_IN = {
    "launches": ("graphs", "cuda_api", "kernels"), "graph_launches": ("cuda_api", "kernels"),
    "kernels": ("graphs", "kernels"), "copies": ("graphs", "memcpy", "kernels"),
    "copied_bytes": ("graphs", "memcpy", "kernels"), "syncs": ("cuda_api",),
}  # fmt: skip
COUNTS = tuple(_COUNTED_IN)
PHASES = ("generation", "context", "mixed", STEP)
BENCHMARK = ("ttft", "tpot", "itl", "throughput")  # figures of a benchmark's own reports
TIMES = (STEP, *PHASES[:-1], *SUMS, *CATEGORIES, RESPONSE)
SHORT = {row.short: row.key for row in CAUSES.values() if row.short}

PHASE = rf"(?:{'|'.join(PHASES)}(?:-(?:with|of)-[\w-]+)?)"  # classes of steps: comparison/classes.py
_PHASE = re.compile(rf"{PHASE}\Z", re.ASCII)
_KERNELS = re.compile(r"(?:(?P<phase>[^.:~@]*)\.)?kernel[:~](?P<name>.*)\Z", re.DOTALL)
_NAME = re.compile(r"[^\n]*(\w|\*)[^\n]*\Z")  # of a kernel or a place
_SLOWER = ("regressed", "likely_regressed")
# in the name of a place: the thread of the range `await_response` is `await-response`
_ALIKE = str.maketrans("- ", "__")


@dataclass(frozen=True)
class Measure:
    """What is measured. phase: '' for all; quantity: one of TIMES, COUNTS and QUANTILES, or kernel; place: '' for all.

    Two spellings of one measure are equal.
    """

    quantity: str
    phase: str = ""
    kernel: str = ""  # NAME of kernel:NAME
    place: str = field(default="", compare=False)
    _place: str = field(init=False, repr=False, default="")

    def __post_init__(self) -> None:
        object.__setattr__(self, "_place", _folded(self.place))

    @property
    def text(self) -> str:
        """Its one spelling, which `parse` reads."""
        if self.quantity == STEP and self.phase not in ("", STEP):
            return self.phase
        quantity = f"{KERNEL}:{self.kernel}" if self.quantity == KERNEL else self.quantity
        return f"{self.phase}{'.' * bool(self.phase)}{quantity}{'@' * bool(self.place)}{self.place}"

    @property
    def unit(self) -> Literal["ns", "count"]:
        """Of its values per step: `count` or `ns`."""
        return "count" if self.quantity in COUNTS else "ns"

    @property
    def categories(self) -> tuple[str, ...]:
        """The categories of the accounting that it sums; none of a measure that is no such sum."""
        return SUMS.get(self.quantity, (self.quantity,) if self.quantity in CATEGORIES else ())

    @property
    def needs(self) -> tuple[str, ...]:
        """The kinds of trace without which there is no such measure; the one to record first stands first."""
        if self.quantity in COUNTS:
            return _COUNTED_IN[self.quantity]
        if self.quantity == KERNEL or (self.categories and set(self.categories) <= set(BUSY)):
            return _COUNTED_IN["kernels"]
        return (CAUSES[self.quantity].needs,) if self.quantity in CAUSES else ()

    def at(self, names: Iterable[str]) -> bool:
        """Whether a place is the measure's. `names`: of its range, thread, holder, CUDA functions.

        What lies between two ranges is in neither: only a PLACE that begins with `outside` finds it.
        """
        inside = (name for name in names if self._place.startswith("outside") or not name.startswith(OUTSIDE))
        return not self._place or any(_holds(_folded(name), self._place.split("*")) for name in inside)


def _folded(place: str) -> str:
    return place.casefold().translate(_ALIKE)


def _holds(text: str, parts: Sequence[str]) -> bool:
    """Whether the parts occur in a text one after the other."""
    at = 0
    for part in parts:
        found = text.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return True


def parse(text: str) -> Measure:
    """Read a measure. Raises `TracediffError`: bad-measure."""
    given = text.strip()
    kernels = _KERNELS.match(given)
    if kernels:
        name, phase = kernels["name"].strip(), kernels["phase"] or ""
        if not _NAME.match(name):
            raise _bad(text, "kernel: is followed by a part of the kernel's name")
        return Measure(KERNEL, _phase_named(text, phase) if phase else "", name)
    what, at, place = given.partition("@")
    if at and not _NAME.match(place):
        raise _bad(text, "@ is followed by a part of the name of a range, thread or CUDA function")
    before, dot, name = what.rpartition(".")
    if before in BENCHMARK[:-1] and name in QUANTILES:
        return Measure(name, before)
    if not dot and _PHASE.match(name) and name != STEP:
        before, dot, name = name, ".", STEP
    phase = _phase_named(text, before) if dot else ""
    quantity = _quantity(text, name)
    if quantity in QUANTILES and not phase:
        raise _bad(text, f"{quantity} is of the steps of one phase", f"generation.{quantity}")
    if quantity in (RESPONSE, *BENCHMARK) and phase:
        raise _bad(text, f"{quantity} is of no phase", quantity)
    found = Measure(quantity, phase, place=place.strip())
    if at and not (found.categories and set(found.categories) <= set(IDLE)):
        raise _bad(text, "only idle time has places", f"idle@{place.strip()}")
    return found


def _phase_named(text: str, name: str) -> str:
    if not _PHASE.match(name):
        raise _bad(text, f"{name!r} is no phase", *get_close_matches(name, PHASES), "step-with-KERNEL")
    return name


def _quantity(text: str, name: str) -> str:
    names = (*TIMES, *COUNTS, *QUANTILES, *BENCHMARK)
    if name in names and not _PHASE.match(name):
        return name
    if name == STEP:
        return STEP
    if name in SHORT:
        return SHORT[name]
    like = [one for one in names if name and name in one]
    near = like or get_close_matches(name.lower(), [*names, *SHORT], n=3)
    several, whole = len(like) > 1, text == name
    why = f"{name!r} is part of several names" if several else "" if whole else f"{name!r} is not known"
    raise _bad(text, why, *near)


def _bad(text: str, why: str, *near: str) -> TracediffError:
    meant = f"did you mean {' or '.join(dict.fromkeys(near))}?" if near else ""
    said = ": ".join(filter(None, (f"{text!r} is no measure", why)))
    short = ", ".join(f"{one} = {key}" for one, key in SHORT.items())
    return UsageError(
        "bad-measure",
        "; ".join(filter(None, (said, meant))),
        fix=f"[PHASE.]QUANTITY[@PLACE], for example gil@_schedule; times: {', '.join(TIMES)}, step-with-KERNEL, kernel:NAME, PHASE.p50, PHASE.p90,"
        f" PHASE.p99, {', '.join(BENCHMARK)}, ttft.p99; counts: {', '.join(COUNTS)}; short: {short}",
    )


def by_run(measure: Measure) -> Measure:
    """The measure, where every run has a mean of it. Raises `TracediffError`: measure-by-run."""
    if measure.quantity in (*COUNTS, *QUANTILES, *BENCHMARK, RESPONSE):
        raise UsageError(
            "measure-by-run",
            f"{measure.text} is no mean time of a run's steps",
            fix="step, a phase, a category or kernel:NAME",
        )
    return measure


class Measured(msgspec.Struct, frozen=True):
    """A measure on both sides, ns or a count per step. sure: the part of the delta that is more than noise; least: what a repeat would show of it. of: the step that it is of."""

    baseline: float
    delta: float
    sure: float
    least: float
    unseen: float = 0.0  # a change of up to this much would not have shown with the runs at hand
    low: float | None = None  # interval of the delta, where there is one
    high: float | None = None
    places: tuple[str, ...] = ()  # that it sums, the longest first
    of: Said | None = None  # whose time it is, where the measure does not say it
    steps: Said | None = None  # the steps that it is counted in, where `of` does not say them


def measured(measure: Measure, result: Result) -> Measured | Said:
    """The measure in a result, or why it cannot be judged.

    Where it is a sum of several places, its interval is the sum of theirs: too wide, never too narrow. Kernels of several rows have none.
    Raises `TracediffError` where neither side has anything of its name: no-such-kernel, no-such-place.
    """
    found = _measured(measure, result)
    if isinstance(found, Said) or found.of or measure.quantity in QUANTILES:
        return found
    return replace(found, steps=_steps(measure, result))


def _steps(measure: Measure, result: Result) -> Said:
    """The steps that a measure is counted in."""
    if not measure.phase:
        return Said("in_all_steps")
    mean = any(one.phase == measure.phase and one.verdict_of == "mean" for one in result.phases)
    of_mean = measure.quantity in COUNTS or (mean and measure.quantity != KERNEL)
    return Said("in_mean" if of_mean else "in_typical", {"step": _step_of(measure.phase)})


def _measured(measure: Measure, result: Result) -> Measured | Said:
    if measure.quantity in BENCHMARK or measure.phase in BENCHMARK:
        return _of_benchmark(measure, result)
    if measure.quantity in QUANTILES:
        return _tail(measure, result) or Said("no_measure", {"measure": measure.text})
    phase = next((one for one in result.phases if one.phase == measure.phase and one.typical), None)
    if measure.phase and phase is None:
        known = " and ".join(one.phase for one in result.phases if one.typical)
        return Said("no_phase" if known else "no_phases", {"phase": measure.phase, "known": known})
    if measure.quantity in COUNTS:
        return _count(measure, result)
    if measure.quantity == KERNEL:
        return _kernel(measure, result)
    if measure.quantity == STEP:
        return _of_phase(phase, result) if phase else _step(result)
    if measure.quantity == RESPONSE:
        handing_on = [row for row in result.threads if row.role in RESPONSE_ROLES]
        return _work(handing_on) or Said("no_response_thread")
    books: Accounting | None = result.accounting
    if phase is not None:  # of the step that the phase's verdict is of
        books = phase.mean_accounting if phase.verdict_of == "mean" else phase.accounting
    if books is None:
        return Said("no_accounting", {"phase": measure.phase})
    if measure.place:
        return _at_place(measure, books, result)
    return _category(measure, books, result)


def _of_benchmark(measure: Measure, result: Result) -> Measured | Said:
    found = result.kpi.figure(measure.text) if result.kpi else None
    if found is None:
        return Said("not_in_benchmark", {"measure": measure.text})
    of = Said("of_figure", {"figure": found.name})
    if found.low_ns is None or found.high_ns is None:
        return Measured(found.baseline_ns, found.delta_ns, 0.0, 0.0, of=of)
    half = (found.high_ns - found.low_ns) / 2
    sure, _ = _sure([(found.level, found.delta_ns, found.low_ns, found.high_ns)])
    # an interval is that of repeats, however many traces there are
    return Measured(found.baseline_ns, found.delta_ns, sure, sure, half, found.low_ns, found.high_ns, of=of)


def _category(measure: Measure, books: Accounting, result: Result) -> Measured | Said:
    names = measure.categories
    if measure.quantity in SUMS:
        names = tuple(name for name in names if name in books.delta)
    bare = set(names) <= set(BUSY) and _lacks(measure, result)
    if bare or not names or not all(name in books.delta for name in names):
        return Said("no_measure", {"measure": measure.quantity})
    return Measured(
        sum(books.baseline.get(name, 0.0) for name in names),
        sum(books.delta[name] for name in names),
        *_sure(
            (books.level.get(name), books.delta[name], books.ci_low.get(name), books.ci_high.get(name))
            for name in names
        ),
        low=books.ci_low.get(measure.quantity),  # a sum of categories has no interval of its own
        high=books.ci_high.get(measure.quantity),
    )


def _at_place(measure: Measure, books: Accounting, result: Result) -> Measured | Said:
    names = [name for name in measure.categories if name in books.delta]
    if not names:
        return Said("no_measure", {"measure": measure.quantity})
    rows = [row for row in result.places if row.cause in names and row.phase == measure.phase]
    mine = [row for row in rows if measure.at(names_of(row))]
    if not mine and measure.categories == ("host_work",) and not measure.phase:
        aside = _work([row for row in result.threads if measure.at([row.role])])
        if aside:
            return aside
    if not mine:
        every = _names(result)
        if not measure.at(every):
            raise no_such_place(measure, _named(rows), every)
        slots = {"measure": measure.quantity, "place": measure.place, "places": there(measure, _named(rows))}
        if result.places_left_out:
            return Said("no_large_place", slots | {"count": f"{len(result.places)}"})
        return Said("no_place", slots)
    return replace(_sum(mine), places=tuple(_named(mine)))


def _work(threads: Sequence[ThreadRow]) -> Measured | None:
    """What threads that launch nothing work per step, those that both sides have; None without one."""
    known = [row for row in threads if row.level is not None]
    places = tuple(row.role for row in sorted(known, key=lambda row: -(row.candidate_range_ns or 0.0)))
    return replace(_sum(known, "baseline_range_ns"), places=places) if known else None


def _sum(rows: Sequence[PlaceRow | KernelTypical | ThreadRow], baseline: str = "baseline_ns") -> Measured:
    return Measured(
        sum(getattr(row, baseline) or 0.0 for row in rows),
        sum(row.delta_ns or 0.0 for row in rows),
        *_sure((row.level, row.delta_ns or 0.0, row.ci_low_ns, row.ci_high_ns) for row in rows),
        low=sum(row.ci_low_ns or 0.0 for row in rows),
        high=sum(row.ci_high_ns or 0.0 for row in rows),
    )


_Change: TypeAlias = tuple[Evidence | None, float, float | None, float | None]


def _sure(changes: Iterable[_Change]) -> tuple[float, float]:
    """What of some changes (level, delta, interval) is more than noise, and what a repeat would show of that: the ends of their intervals nearer to 0."""
    sure = least = 0.0
    for level, delta, low, high in changes:
        end = low if delta > 0 else high
        if level in SURE:
            sure += delta
            least += delta if end is None else end if end * delta > 0 else 0.0
    return sure, least


def names_of(row: PlaceRow) -> Sequence[str]:
    """The names by which a place is found."""
    return (row.range, row.thread, row.holder, row.holder_range, *row.calls)


def _named(rows: Sequence[PlaceRow]) -> list[str]:
    """What the places are called, those with the most time first."""
    most = sorted(rows, key=lambda row: -max(row.baseline_ns, row.candidate_ns))
    return list(dict.fromkeys(name for row in most if (name := row.holder_range or row.range or row.thread)))


def _names(result: Result) -> list[str]:
    """Every name of a range, thread, holder or CUDA function that a result holds, of whatever cause."""
    found = [name for row in result.places for name in names_of(row)]
    found += [name for row in result.ranges for name in (row.range, row.thread)]
    found += [row.role for row in result.threads] + [row.api for row in result.launch.apis]
    return list(dict.fromkeys(found))


def there(measure: Measure, places: Sequence[str]) -> str:
    """The places that a measure has, in words."""
    if not places:
        return f"there is no {measure.quantity}"
    anywhere = "gc strikes anywhere and has no place but its thread; " if measure.quantity == "gc" else ""
    return f"{anywhere}its places: {', '.join(map(repr, places[:PARTS]))}"


def no_such_place(measure: Measure, places: Sequence[str], names: Iterable[str]) -> TracediffError:
    """Of a PLACE that neither side has. places: that the measure has; names: among which it may be misspelt."""
    alike = {_folded(name): name for name in names if name}
    near = get_close_matches(_folded(measure.place), alike, n=1, cutoff=0.5)
    meant = f"; did you mean {alike[near[0]]!r}?" if near else ""
    return UsageError(
        "no-such-place",
        f"nothing of either side is called {measure.place!r}, which {measure.text} names; {there(measure, places)}{meant}",
        fix="a part of the name of a range, thread or CUDA function; * stands for anything",
    )


def _step(result: Result) -> Measured:
    """The change that the first sentence is of."""
    found = result.observed
    return _of_step(
        found, result.verdict, _whose(STEP, found.phase, of_mean=found.of == "mean"), result.verdict_facts.carried_ns
    )  # fmt: skip


def _of_step(found: Observed | Delta, verdict: Verdict | None, of: Said, carried: float | None) -> Measured:
    """Of a step whose interval holds 0 the causes that carry its verdict are more than noise; a repeat would show the end of the interval."""
    level: Evidence | None = "likely" if verdict in _SLOWER else None
    sure, least = _sure([(level, found.delta_ns, found.ci_low_ns, found.ci_high_ns)])
    if level and found.ci_low_ns <= 0:
        sure, least = max(carried or 0.0, 0.0), found.ci_low_ns
    unseen = (found.ci_high_ns - found.ci_low_ns) / 2
    return Measured(
        found.baseline_ns, found.delta_ns, sure, least, unseen, found.ci_low_ns, found.ci_high_ns, of=of
    )


def _whose(name: str, phase: str, *, of_mean: bool) -> Said:
    return Said("of_mean", {"step": _step_of(phase)}) if of_mean else Said("of_figure", {"figure": name})


def _step_of(phase: str) -> str:
    return f"{phase} {STEP}" if phase not in ("", STEP) else STEP


def _of_phase(phase: Phase, result: Result) -> Measured | Said:
    """The typical step of a phase; its mean where rare steps hold the change, as in the first sentence."""
    of_mean = phase.verdict_of == "mean"
    found = phase.mean if of_mean else phase.typical
    if found is None:
        return Said("no_phases", {"phase": phase.phase})
    of = _whose(phase.phase, phase.phase, of_mean=of_mean)
    carried = result.verdict_facts.carried_ns if result.verdict_facts.phase == phase.phase else None
    return _of_step(found, phase.verdict, of, carried)


def _lacks(measure: Measure, result: Result) -> bool:
    """Whether a side did not capture what the measure needs."""
    sides = result.coverage.baseline, result.coverage.candidate
    return any(side.get(kind) == "not_captured" for kind in measure.needs for side in sides)


def _count(measure: Measure, result: Result) -> Measured | Said:
    """A count per step. Counted, not estimated: no test applies."""
    quantity = measure.quantity
    if _lacks(measure, result):
        return Said("no_count", {"measure": quantity})
    of: Launch | LaunchPhase | None = result.launch
    if measure.phase:
        of = next((one for one in result.launch.by_phase if one.phase == measure.phase), None)
    if of is None:
        return Said("no_phases", {"phase": measure.phase})
    if quantity == "syncs":
        rows = [row for row in of.apis if row.kind == "sync"]
        before, after = sum(row.baseline_calls for row in rows), sum(row.candidate_calls for row in rows)
    else:
        name = "calls_per_step" if quantity == "launches" else f"{quantity}_per_step"
        before, after = getattr(of.baseline, name), getattr(of.candidate, name)
        if before is None or after is None:
            return Said("no_count", {"measure": quantity})
    return Measured(before, after - before, after - before, after - before)


def _kernel(measure: Measure, result: Result) -> Measured | Said:
    """All kernels that bear the name, on either side, and what replaced them: a kernel that was replaced stays in its gate."""
    if _lacks(measure, result):
        return Said("no_count", {"measure": "kernels"})
    found = named_rows(measure.kernel, result.kernels)
    found += in_their_place(found, result.kernels)
    if all(result.kernels[one.number].match == "removed" for one in found):
        return Said("kernel_gone", {"kernel": measure.kernel})
    whole = all(one.whole for one in found)
    alone = whole and len(found) == 1  # the bounds of many rows add up to an interval that says nothing
    if measure.phase:
        if not whole:
            return Said("kernel_shares_row", {"kernel": measure.kernel})
        every = [
            row for one in found for row in result.kernels[one.number].phases if row.phase == measure.phase
        ]
        if not every:
            return Said("kernel_too_small", {"kernel": measure.kernel, "phase": measure.phase})
        return _sum(every) if alone else replace(_sum(every), low=None, high=None)
    rows = [(one, result.kernels[one.number]) for one in found]
    return Measured(
        sum(one.baseline_ns for one in found),
        sum(one.delta_ns for one in found),
        *_sure(
            (
                row.level if one.delta_ns * row.delta_ns > 0 else None,
                one.delta_ns,
                row.ci_low_ns,
                row.ci_high_ns,
            )
            for one, row in rows
        ),
        low=rows[0][1].ci_low_ns if alone else None,
        high=rows[0][1].ci_high_ns if alone else None,
    )


def _tail(measure: Measure, result: Result) -> Measured | None:
    """A quantile of a phase; sure where it is higher in every run of the candidate than in any of the baseline, by more than a slower host.

    Three runs a side that part so do it by chance in one of twenty pairs of sides; fewer say nothing of a tail.
    """
    import numpy as np

    one = next((one for one in result.phases if one.phase == measure.phase), None)
    if one is None or not one.baseline or not one.candidate:
        return None
    quantile = measure.quantity
    baseline, candidate = (float(getattr(side, f"{quantile}_ns")) for side in (one.baseline, one.candidate))
    runs: dict[str, dict[int, list[int]]] = {"baseline": {}, "candidate": {}}
    for sample in result.samples:
        if sample.phase == measure.phase:
            runs[sample.side].setdefault(sample.run, []).append(sample.period_ns)
    before, after = (
        [float(np.quantile(times, int(quantile[1:]) / 100)) for times in side.values()]
        for side in runs.values()
    )
    slower = max(one.host_speed or 1.0, 1.0)  # the times of steps are not at equal host speed
    apart = min(len(before), len(after)) >= RUNS_TELL and min(after) > max(before) * slower
    sure = candidate - baseline if apart else 0.0
    return Measured(baseline, candidate - baseline, sure, sure)
