"""Findings: one cause at one place each, ranked by the time of a step that they explain.

Idle cells and kernel rows partition the step, so their deltas add up to the step's. Findings that can be told from
noise come first; among them causes before what merely follows from them (fewer gaps between fewer kernels).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import numpy as np

from tracediff.align.kernel_names import short
from tracediff.align.kernels import Match
from tracediff.measure.cells import TRIM_RUNS, Estimates, finite
from tracediff.measure.evidence import NEXT, api_sql, idle_sql, kernel_sql
from tracediff.measure.intervals import Floats
from tracediff.measure.statistics import run_level_interval
from tracediff.model import Evidence, Finding, FindingEvidence, Moment, Where

_SURE = ("exact", "confirmed", "likely")
Robust: TypeAlias = tuple[Floats, Floats, Floats]


# What is worth a look where it got faster as well: the same work must still be done, with the same requests.
_CHECK_ANYWAY = {"kernel_fused", "kernel_removed", "batch_mix"}


class RankSize(NamedTuple):
    """A cell on one rank: ns a step of each run, and of each side."""

    baseline_runs: list[float]
    candidate_runs: list[float]
    baseline: float
    candidate: float

    @property
    def delta(self) -> float:
        """Candidate - baseline, ns a step."""
        return self.candidate - self.baseline


@dataclass(frozen=True)
class Draft:
    """A finding before it has a rank."""

    cause: str
    title: str
    where: Where
    cell: int  # column of the estimates
    level: Evidence
    sql: str
    moments: list[Moment]
    count: tuple[float, float] | None = None
    note: str = ""
    follows: bool = False  # a consequence of other findings
    copy: bool = False  # time inside calls that copy
    material: bool = True
    of_rank: RankSize | None = None  # where one rank alone changed


@dataclass(frozen=True)
class IdleCell:
    """What a finding of idle time is about."""

    cause: str
    thread: str
    place: str
    holder: str
    holder_place: str
    copy: bool = False  # launch_api inside a call that copies


def rank_findings(drafts: list[Draft], cells: Estimates, q: Floats, total_delta: float) -> list[Finding]:
    """Order the drafts and number them."""
    robust = robust_estimates(cells)
    deltas = {id(draft): _shown(draft, cells, robust) for draft in drafts}

    def order(draft: Draft) -> tuple[int, float, str, str]:
        sure = draft.level in _SURE
        tier = (
            0
            if sure and draft.material and not draft.follows
            else 1
            if sure and draft.material
            else 2
            if sure
            else 3
        )
        return tier, -abs(deltas[id(draft)].delta), draft.cause, draft.title

    findings = []
    for rank, draft in enumerate(sorted(drafts, key=order), 1):
        delta, low, high, apart = deltas[id(draft)]
        runs = draft.of_rank or RankSize(
            [float(one) for one in cells.baseline_runs[:, draft.cell]],
            [float(one) for one in cells.candidate_runs[:, draft.cell]],
            float(cells.baseline[draft.cell]),
            float(cells.candidate[draft.cell]),
        )
        note = draft.note
        if apart:
            mean = float(cells.delta[draft.cell])
            note = f"{note} One run lies apart; without it the delta is this, with it {mean / 1e3:+.1f} us.".strip()
        findings.append(
            Finding(
                rank=rank,
                cause=draft.cause,  # type: ignore[arg-type]
                delta_ns=delta,
                ci_low_ns=low,
                ci_high_ns=high,
                share=delta / total_delta if total_delta else None,
                title=draft.title,
                where=draft.where,
                evidence=FindingEvidence(
                    draft.sql,
                    draft.moments,
                    runs.baseline_runs,
                    runs.candidate_runs,
                    draft.count[0] if draft.count else None,
                    draft.count[1] if draft.count else None,
                ),
                next=NEXT[draft.cause] if delta > 0 or draft.cause in _CHECK_ANYWAY else "",
                level=draft.level,
                baseline_ns=runs.baseline,
                candidate_ns=runs.candidate,
                p_value=_number(cells.p[draft.cell]),
                q_value=_number(q[draft.cell]),
                note=note,
            )
        )
    return findings


class Shown(NamedTuple):
    """The delta and interval that a finding shows; `apart`: one outlying run was left out of them."""

    delta: float
    low: float
    high: float
    apart: bool = False


def shown(cells: Estimates, column: int, level: Evidence, robust: Robust | None) -> Shown:
    """Return the mean's delta, or from five runs a side the trimmed one where an outlying run moves the mean."""
    delta = float(cells.delta[column])
    if robust is not None and level in ("confirmed", "likely"):
        middle, low, high = (float(one[column]) for one in robust)
        if abs(middle - delta) > 0.1 * abs(middle):
            return Shown(middle, low, high, apart=True)
    return Shown(delta, finite(cells.low[column], delta), finite(cells.high[column], delta))


def _shown(draft: Draft, cells: Estimates, robust: Robust | None) -> Shown:
    if draft.of_rank is None:
        return shown(cells, draft.cell, draft.level, robust)
    one = shown(cells, draft.cell, draft.level, None)
    # the other ranks add nothing but their own scatter: the interval grows as the size does
    scale = draft.of_rank.delta / one.delta
    return Shown(draft.of_rank.delta, scale * one.low, scale * one.high)


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def robust_estimates(cells: Estimates) -> Robust | None:
    """Return middle, low and high of the trimmed difference of every cell; None with too few runs to trim."""
    if min(len(cells.baseline_runs), len(cells.candidate_runs)) < TRIM_RUNS:
        return None
    low, high = run_level_interval(cells.baseline_runs, cells.candidate_runs)
    return (low + high) / 2, low, high


def idle_draft(
    cell: IdleCell,
    column: int,
    level: Evidence,
    moments: list[Moment],
    count: tuple[float, float],
    delta: float,
    apis: str,
    lost: str = "GPU idle time",
) -> Draft:
    """The finding of an idle cell; `lost`: what the time is called that a pause costs."""
    where = Where(
        range=cell.place or None,
        thread=cell.thread or None,
        holder_thread=cell.holder or None,
        holder_range=cell.holder_place or None,
        api=apis or None,
    )
    return Draft(
        cell.cause, _idle_title(cell, delta, apis, lost), where, column, level,
        api_sql("cu%Mem%") if cell.copy else idle_sql(cell.cause, cell.place, cell.holder_place), moments, count,
        copy=cell.copy,
    )  # fmt: skip


def _idle_title(cell: IdleCell, delta: float, apis: str, lost: str) -> str:
    return f"{'more' if delta >= 0 else 'less'} {idle_words(cell, apis, lost)}"


def idle_words(cell: IdleCell, apis: str, lost: str = "GPU idle time") -> str:
    """What an idle cell is, in words; `apis`: the CUDA function that its longest piece lies in, '' where none."""
    place = _at(cell.place)
    thread = _the_thread(cell.thread) if cell.thread else "the host"
    if cell.cause == "gc":
        return f"{lost} while {thread} collects garbage {place}"
    if cell.cause == "gil_wait":
        holder = _the_thread(cell.holder) if cell.holder else "a thread that was not recorded"
        held = f" ({_at(cell.holder_place)})" if cell.holder_place else ""
        return f"{lost} while {thread} waits for the GIL held by {holder}{held}"
    called = f" ({apis})" if apis else ""
    return {
        "host_work": f"host work {place} on {thread}",
        "launch_api": f"time inside {'copying' if cell.copy else 'launching'} calls{called} {place}",
        "launch_latency": f"time between launching call and start of the work, launched {place}",
        "dependency": f"waiting of launched work for other streams, events or peers, launched {place}",
        "graph_internal": f"idle time between the nodes of CUDA graphs launched {place}",
        "host_sync": f"idle time until synchronising calls return{called} {place}",
        "host_api": f"time in other CUDA calls{called} {place}",
        "unattributed": "idle time without a recorded launching call",
    }[cell.cause]


def _the_thread(role: str) -> str:
    """`the executor thread`; a role that says so itself (thread without ranges) is no thread twice."""
    return f"the {role}" if role.startswith("thread ") else f"the {role} thread"


def _at(place: str) -> str:
    if not place:
        return "outside any range"
    return place if place.startswith("outside any range") else f"in {place}"


def kernel_draft(
    match: Match,
    column: int,
    level: Evidence,
    category: str,
    counts: tuple[float, float],
    means: tuple[float, float],
    exact: bool,
    moments: list[Moment],
    hidden: float,
) -> Draft:
    """The finding of a kernel row. `counts` a step, `means` ns an op, `hidden` delta of copy time behind kernels."""
    names = sorted({op.name for op in (*match.baseline, *match.candidate)})
    shown = _kernel_text(match)
    changed = exact and abs(counts[1] - counts[0]) > 1e-9
    by_count = (counts[1] - counts[0]) * means[0] if counts[0] else counts[1] * means[1]
    by_time = counts[1] * (means[1] - means[0]) if counts[0] and counts[1] else 0.0
    numbers = f"{_count(counts[0])} -> {_count(counts[1])} a step"
    if category == "communication":
        cause, title = "comm", f"communication {shown}: {numbers}"
    elif category in ("copy", "memset") and names and names[0].startswith("["):
        cause, title = "memcpy", f"{shown.strip('[]')}: {numbers}"
        if changed and abs(hidden) > 500:
            title += f", {abs(hidden) / 1e3:.1f} us of it hidden behind kernels"
    elif match.match == "fused":
        cause, title = "kernel_fused", f"kernels fused: {shown}, {numbers}"
    elif match.match == "split":
        cause, title = "kernel_split", f"kernel split: {shown}, {numbers}"
    elif match.match == "added" or (changed and counts[1] > counts[0] and abs(by_count) >= abs(by_time)):
        cause, title = "kernel_added", f"{shown}: launched more often, {numbers}"
        title = f"new kernel {shown}, {_count(counts[1])} a step" if match.match == "added" else title
    elif match.match == "removed" or (changed and counts[1] < counts[0] and abs(by_count) >= abs(by_time)):
        cause, title = "kernel_removed", f"{shown}: launched less often, {numbers}"
        title = f"kernel gone: {shown}, {_count(counts[0])} a step" if match.match == "removed" else title
    elif match.match == "exact":
        cause, title = (
            "kernel_time",
            f"{shown}: {means[0] / 1e3:.2f} -> {means[1] / 1e3:.2f} us each, {numbers}",
        )
    else:
        cause = "kernel_time"
        title = f"kernel replaced: {shown}, {means[0] / 1e3:.2f} -> {means[1] / 1e3:.2f} us each"
    structural = changed or match.match in ("fused", "split", "added", "removed")
    draft = Draft(
        cause,
        title,
        Where(kernel=shown),
        column,
        "exact" if structural else level,
        kernel_sql(names),
        moments,
        counts,
    )
    return replace(draft, note=_matched_note(match))


def _kernel_text(match: Match) -> str:
    sides = [[short(op.name, 60) for op in ops] for ops in (match.baseline, match.candidate)]
    texts = [_folded(names) for names in sides]
    if not texts[0] or not texts[1] or texts[0] == texts[1]:
        return texts[0] or texts[1]
    if {op.name for op in match.baseline} == {op.name for op in match.candidate}:
        return _folded(sides[0][:1])
    return f"{texts[0]} -> {texts[1]}"


def _folded(names: list[str]) -> str:
    """`a + a + b` -> `2 x a + b`."""
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    return " + ".join(name if count == 1 else f"{count} x {name}" for name, count in counts.items())


def _matched_note(match: Match) -> str:
    if match.match in ("exact", "added", "removed"):
        return ""
    return f"Matched by {match.match}, confidence {match.confidence:.2f}."


def _count(value: float) -> str:
    return f"{value:.0f}" if abs(value - round(value)) < 0.005 else f"{value:.2f}"
