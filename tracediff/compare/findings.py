"""Findings: one cause at one place each, ranked by the time of a step that they explain.

Idle cells and kernel rows partition the step, so their deltas add up to the step's. Findings that can be told from
noise come first; among them causes before what merely follows from them (fewer gaps between fewer kernels).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import msgspec
import numpy as np
import polars as pl

from tracediff.accounting.intervals import Floats
from tracediff.accounting.reduction import Reduction
from tracediff.compare import tables
from tracediff.compare.cells import TRIM_RUNS, Estimates, Frame, IdleRows, KernelCells, finite
from tracediff.compare.evidence import NEXT, api_sql, idle_sql, kernel_sql
from tracediff.compare.sides import Side, stacked
from tracediff.compare.strata import Strata
from tracediff.kernels.categories import category
from tracediff.kernels.matching import Match
from tracediff.kernels.names import short
from tracediff.model import (
    CATEGORIES,
    Accounting,
    ApiRow,
    Evidence,
    Finding,
    FindingEvidence,
    HostWorkRow,
    Launch,
    MemoryRow,
    Moment,
    Note,
    Phase,
    RangeRow,
    RankRow,
    Step,
    System,
    ThreadRow,
    Verdict,
    Where,
)
from tracediff.stats.tests import run_level_interval

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


# Cells and kernel rows -> drafts of findings: words, evidence, and which of them only follow from others.

_SIDES = ("baseline", "candidate")


def idle_drafts(
    sides: tuple[Side, Side],
    frame: Frame,
    cells: Estimates,
    level: list[Evidence],
    keys: list[tuple[str, str, str, str, bool]],
    idle: pl.DataFrame,
    words: pl.DataFrame,
) -> list[Draft]:
    """One draft for each idle cell that changed or matters.

    `idle`: side, run, rank, group, piece, cell -> ns, count (see compare.Layout); `words`: of each piece.
    """
    moments = stacked(sides, "moments").sort("end", descending=True)
    counts = idle.group_by("side", "cell").agg(pl.col("count").sum())
    steps = [int((frame.steps["side"] == side).sum()) for side in (0, 1)]
    ranks = frame.steps["rank"].n_unique()
    first = int(idle["cell"].min() or 0) if len(idle) else 0  # type: ignore[arg-type]
    events = {(side, cell): count / steps[side] for side, cell, count in counts.iter_rows()}
    drafts = []
    floor = 0.0005 * float(max(cells.baseline.sum(), cells.candidate.sum(), 1.0))
    robust = robust_estimates(cells)
    lost = "GPU idle time" if all(side.captured("kernels") for side in sides) else "time"
    for column, (cause, thread, holder, where, copy) in enumerate(keys):
        if level[column] == "within_noise" and abs(float(cells.delta[column])) < floor:
            continue
        delta = shown(
            cells, column, level[column], robust
        ).delta  # what the finding will say decides its words
        mine = idle.filter(pl.col("cell") == column + first)
        place = main_place(mine, words) if cause in ("gc", "gil_wait") else where
        cell = IdleCell(cause, thread, place, holder, where if cause == "gil_wait" else "", copy)
        chosen = moments.filter(pl.col("copy") == copy)
        found, apis = _moments(
            chosen, sides, cause, thread, holder, place if cause != "gil_wait" else None, where
        )
        api = apis[1 if delta >= 0 else 0] or apis[0 if delta >= 0 else 1]
        draft = idle_draft(
            cell, column, level[column], found,
            (events.get((0, column + first), 0.0), events.get((1, column + first), 0.0)), delta, api, lost,
        )  # fmt: skip
        unseen = [
            name
            for name, side in zip(_SIDES, sides, strict=True)
            if cause == "gc" and not side.captured("gc")
        ]
        if unseen:
            draft = replace(
                draft,
                note=f"No collection was recorded on the {unseen[0]}: none ran there, or none was traced.",
            )
        drafts.append(_of_one_rank(draft, mine, frame, float(cells.delta[column])) if ranks > 1 else draft)
    return drafts


def main_place(mine: pl.DataFrame, words: pl.DataFrame) -> str:
    """Where the thread was for most of a cell's change."""
    signed = pl.when(pl.col("side") == 1).then(pl.col("ns")).otherwise(-pl.col("ns"))
    pieces = mine.group_by("piece", maintain_order=True).agg(signed.sum().alias("ns"))
    table = (
        pieces.with_columns(place=words["place"].gather(pieces["piece"]))
        .group_by("place", maintain_order=True)
        .agg(pl.col("ns").sum().abs())
        .sort("ns", "place", descending=[True, False])
    )
    return str(table["place"][0]) if len(table) else ""


def _moments(
    moments: pl.DataFrame,
    sides: tuple[Side, Side],
    cause: str,
    thread: str,
    holder: str,
    place: str | None,
    holder_place: str,
) -> tuple[list[Moment], list[str]]:
    """The longest piece on each side, and the CUDA function that it lies in (baseline, candidate)."""
    chosen = longest_first(moments, cause, thread, holder, place, holder_place)
    out, api = [], ["", ""]
    for side, label in ((1, _SIDES[1]), (0, _SIDES[0])):
        for row in chosen.filter(pl.col("side") == side).head(1).iter_rows(named=True):
            number = f"step {row['number']}" if row["number"] is not None else "a step"
            out.append(
                Moment(
                    label,  # type: ignore[arg-type]
                    sides[side].runs[row["run"]].name,
                    row["start"],
                    row["end"],
                    f"{number}, longest {cause}",
                )
            )
            api[side] = row["api"] if cause in ("host_sync", "host_api", "launch_api") else ""
    return out, api


def longest_first(
    moments: pl.DataFrame, cause: str, thread: str, holder: str, place: str | None, holder_place: str
) -> pl.DataFrame:
    """The moments of one idle cell, the longest first."""
    chosen = moments.filter((pl.col("cause") == cause) & (pl.col("thread") == thread))
    if cause == "gil_wait":
        chosen = chosen.filter((pl.col("holder") == holder) & (pl.col("holder_place") == holder_place))
    elif cause != "gc":
        chosen = chosen.filter(pl.col("place") == place)
    return chosen.sort(pl.col("end") - pl.col("start"), "start", descending=[True, False])


def _of_one_rank(draft: Draft, mine: pl.DataFrame, frame: Frame, delta: float) -> Draft:
    """Where one rank alone changed, the finding is that rank's, with that rank's size: the others wait for it."""
    if draft.level == "within_noise":
        return draft
    steps = frame.steps.filter(pl.col("side") < 2).group_by("side", "rank").agg(pl.len().alias("steps"))
    means = (
        mine.group_by("side", "rank", maintain_order=True)
        .agg(pl.col("ns").sum())
        .join(steps, on=["side", "rank"], how="right")
        .sort("side", "rank")
    )
    means = means.with_columns(mean=pl.col("ns").fill_null(0) / pl.col("steps"))
    deltas: dict[int, float] = {}
    for side, rank, mean in means.select("side", "rank", "mean").iter_rows():
        deltas[rank] = deltas.get(rank, 0.0) + (mean if side == 1 else -mean)
    moved = sum(abs(one) for one in deltas.values())
    rank, largest = max(sorted(deltas.items()), key=lambda item: abs(item[1]))
    if not moved or abs(largest) < 0.75 * moved or largest * delta <= 0:
        return draft
    where = Where(**{**{name: getattr(draft.where, name) for name in Where.__struct_fields__}, "rank": rank})
    size = RankSize(*frame.runs_of_rank(mine, rank))
    if size.delta * delta <= 0:  # the mix of steps turns it round
        return draft
    waiting = f"The other ranks wait for rank {rank}; the" if size.delta > 0 else "The"
    return replace(
        draft, where=where, of_rank=size, title=f"{draft.title}, on rank {rank} alone",
        note=f"{waiting} mean over all ranks is {delta / 1e3:+.1f} us.",
    )  # fmt: skip


def kernel_drafts(
    sides: tuple[Side, Side], kernels: KernelCells, cells: Estimates, level: list[Evidence], first: int
) -> list[Draft]:
    """One draft for each kernel row that changed, and the marking of what follows from changed counts."""
    drafts = []
    total = float(max(cells.baseline.sum(), cells.candidate.sum(), 1.0))
    for number, match in enumerate(kernels.rows):
        counts = (float(kernels.counts[number, 0]), float(kernels.counts[number, 1]))
        delta = float(cells.delta[first + number])
        changed = kernels.exact[number] and abs(counts[1] - counts[0]) > 0.005
        odd = match.match not in ("exact", "name") and any(counts)
        if not changed and not odd and level[number] == "within_noise" and abs(delta) < 0.0005 * total:
            continue
        means = tuple(
            float(kernels.walls[number, side]) / counts[side] if counts[side] else 0.0 for side in (0, 1)
        )
        name = (match.candidate or match.baseline)[0].name
        draft = kernel_draft(
            match, first + number, level[number], category(name), counts, means, kernels.exact[number], [],  # type: ignore[arg-type]
            float(kernels.hidden[number, 1] - kernels.hidden[number, 0]),
        )  # fmt: skip
        drafts.append(replace(draft, material=abs(delta) >= max(500.0, 0.001 * total)))
    return drafts


def mark_consequences(drafts: list[Draft], cells: Estimates) -> list[Draft]:
    """Launch and graph gaps that shrank or grew with the number of kernels follow from the kernels' change."""
    structural = [
        draft for draft in drafts
        if draft.cause in ("kernel_fused", "kernel_split", "kernel_added", "kernel_removed", "memcpy", "kernel_time")
        and draft.level == "exact" and draft.count is not None
    ]  # fmt: skip
    change = sum(draft.count[1] - draft.count[0] for draft in structural if draft.count)
    ops = sum(draft.count[0] for draft in drafts if draft.count and draft.where.kernel)
    if not change or not structural:
        return drafts
    copies = any(draft.cause == "memcpy" for draft in structural)
    out = []
    for draft in drafts:
        # copies cost their own calls, and fill gaps that a graph left between its nodes
        follows = copies and (draft.copy or draft.cause == "graph_internal")
        delta = float(cells.delta[draft.cell])
        if draft.cause == "graph_internal" and delta * change > 0:
            follows = follows or abs(delta) <= 5_000 * abs(change)
        elif (
            draft.cause in ("launch_api", "launch_latency", "host_work", "host_api")
            and delta * change > 0
            and ops
        ):
            # an eager launch costs the host 5 to 20 us: what is of that size follows from their number
            follows = follows or (
                abs(delta) <= 20_000 * abs(change) and "_forward_step" in (draft.where.range or "")
            )
        out.append(replace(draft, follows=follows or draft.follows))
    return out


def mark_synchronisation(drafts: list[Draft], cells: Estimates, apis: list[ApiRow]) -> list[Draft]:
    """More (or fewer) synchronising calls a step are counted, not tested; they expose launching in their place.

    After each such call the GPU is empty: the next launch, its latency and the host work before it are idle time
    that was hidden before. So those follow from the calls, where they moved the same way in the same range.
    """
    counts = [sum(getattr(row, f"{side}_calls") for row in apis if row.kind == "sync") for side in _SIDES]
    change = counts[1] - counts[0]
    syncs = [
        draft for draft in drafts
        if draft.cause == "host_sync" and draft.level != "within_noise" and float(cells.delta[draft.cell]) * change > 0
    ]  # fmt: skip
    if abs(change) < 0.5 or not syncs:
        return drafts
    main = max(syncs, key=lambda draft: (abs(float(cells.delta[draft.cell])), draft.title))
    exposed = ("launch_api", "launch_latency", "host_work", "dependency", "graph_internal")
    out = []
    for draft in drafts:
        if draft is main:
            title = f"{draft.title}: {counts[0]:.4g} -> {counts[1]:.4g} synchronising calls a step"
            out.append(replace(draft, level="exact", title=title, count=(counts[0], counts[1])))
        elif (
            draft.cause in exposed
            and draft.where.range == main.where.range
            and draft.where.thread == main.where.thread
        ):
            note = f"{draft.note} The GPU is empty after each synchronising call: this follows from their number.".strip()
            out.append(replace(draft, follows=True, note=note))
        else:
            out.append(draft)
    return out


def mix_draft(strata: Strata, rank: int) -> Finding | None:
    """The finding that the mix of steps changed; it is no part of the step delta, which is at equal mix."""
    mix = strata.mix
    if abs(mix.batch_mix_ns) < max(0.01 * mix.baseline_raw_ns, 1000.0):
        return None
    more = "more" if mix.batch_mix_ns > 0 else "less"
    return Finding(
        rank=rank + 1, cause="batch_mix", delta_ns=mix.batch_mix_ns, ci_low_ns=mix.batch_mix_ns,
        ci_high_ns=mix.batch_mix_ns, share=None,
        title=f"{more} time a step because of another mix of steps ({_shares(strata)}), not because of speed",
        where=Where(), evidence=FindingEvidence(_MIX_SQL, []), next=NEXT["batch_mix"], level="exact",
        baseline_ns=mix.baseline_raw_ns, candidate_ns=mix.candidate_raw_ns,
        note="Not part of the step delta, which is measured at the baseline's mix.",
    )  # fmt: skip


def _shares(strata: Strata) -> str:
    """Share of each phase in all whole steps, where it changed: `mixed 3 % -> 7 %`."""
    counts: dict[str, list[int]] = {}
    for row in strata.rows:
        sums = counts.setdefault(row.phase, [0, 0])
        sums[0] += row.baseline_steps
        sums[1] += row.candidate_steps
    totals = [sum(one[side] for one in counts.values()) for side in (0, 1)]
    parts = [
        f"{phase} {100 * one[0] / totals[0]:.0f} % -> {100 * one[1] / totals[1]:.0f} % of steps"
        for phase, one in sorted(counts.items())
        if phase != "generation" and abs(one[0] / totals[0] - one[1] / totals[1]) > 0.005
    ]
    return ", ".join(parts) or "other batch sizes"


_MIX_SQL = """SELECT coalesce(n.text, s.value) AS label, count(*) AS steps
FROM NVTX_EVENTS AS n LEFT JOIN StringIds AS s ON s.id = n.textId
WHERE coalesce(n.text, s.value) LIKE '%_forward_step%'
GROUP BY 1 ORDER BY 1;"""

# Findings of tails: the slow steps got slower while the typical step did not.

_MIN_STEPS = 20  # steps of a phase on each side below which a p90 is one or two steps
_SLOW = 0.9  # the tail: steps above this quantile of their side
_LABELS = ("baseline", "candidate")
_SQL = """SELECT n.start, n."end", coalesce(n.text, s.value) AS label
FROM NVTX_EVENTS AS n LEFT JOIN StringIds AS s ON s.id = n.textId
WHERE n.start BETWEEN {start} AND {end} AND n."end" IS NOT NULL
ORDER BY n.start;"""


def tail_findings(
    sides: tuple[Side, Side], steps: pl.DataFrame, idle: IdleRows, noise_ns: float, known: set[str]
) -> list[Finding]:
    """One finding for each phase whose p99 moved beyond the noise while its median moved less than a quarter of that.

    `steps`: the compared whole steps with ns and busy categories; `idle`: their idle pieces. The cause is the
    category with the largest change of (mean over the slow steps - mean over all steps); one that the mean
    already shows (`known`) is not said twice. A tail is few steps: with fewer than three runs a side, or runs
    whose p99 overlap, it may be noise and is called so.
    """
    findings = []
    for phase in sorted(steps["phase"].unique()):
        mine = steps.filter(pl.col("phase") == phase)
        parts = [mine.filter(pl.col("side") == side) for side in (0, 1)]
        if min(len(part) for part in parts) < _MIN_STEPS:
            continue
        p50, p99 = ([float(part["ns"].quantile(q, "linear") or 0.0) for part in parts] for q in (0.5, 0.99))
        moved, middle = p99[1] - p99[0], p50[1] - p50[0]
        if abs(moved) <= max(noise_ns, 0.2 * min(p50)) or abs(middle) > 0.25 * abs(moved):
            continue
        excess = [_excess(part, idle) for part in parts]
        change = {name: excess[1].get(name, 0.0) - excess[0].get(name, 0.0) for name in CATEGORIES}
        category = max(change, key=lambda name: change[name] * (1 if moved > 0 else -1))
        cause = {"compute": "kernel_time"}.get(category, category)
        if cause in known:
            continue
        side = 1 if moved > 0 else 0
        slowest = parts[side].sort("ns", "start_ns", descending=[True, False]).row(0, named=True)
        start, end = slowest["start_ns"], slowest["start_ns"] + slowest["ns"]
        place = _place(idle, slowest, category)
        findings.append(
            Finding(
                rank=0,  # given when the findings are put together
                cause=cause,  # type: ignore[arg-type]
                delta_ns=moved,
                ci_low_ns=moved - noise_ns,
                ci_high_ns=moved + noise_ns,
                share=None,
                title=f"only the tail moved: p99 of {phase} steps {p99[0] / 1e3:.1f} -> {p99[1] / 1e3:.1f} us,"
                f" median {p50[0] / 1e3:.1f} -> {p50[1] / 1e3:.1f} us; slow steps are slow by {category}",
                where=Where(phase=phase, range=place or None),
                evidence=FindingEvidence(
                    _SQL.format(start=start, end=end),
                    [
                        Moment(
                            _LABELS[side],  # type: ignore[arg-type]
                            sides[side].runs[slowest["run"]].name,
                            start,
                            end,
                            "slowest step",
                        )
                    ],
                ),
                next=NEXT[cause],
                level="likely" if _apart(parts) else "within_noise",
                baseline_ns=p99[0],
                candidate_ns=p99[1],
                note="The delta is of the 99th percentile, not of the mean.",
            )
        )
    return findings


def _apart(parts: list[pl.DataFrame]) -> bool:
    """Three runs a side or more, and every run's p99 on one side above every one of the other."""
    tails = [
        part.group_by("run").agg(pl.col("ns").quantile(0.99, "linear"))["ns"].to_list() for part in parts
    ]
    if min(len(one) for one in tails) < 3:
        return False
    return bool(max(tails[0]) < min(tails[1]) or max(tails[1]) < min(tails[0]))


def _excess(part: pl.DataFrame, idle: IdleRows) -> dict[str, float]:
    """Category -> mean over the slow steps minus mean over all steps, ns."""
    limit = part["ns"].quantile(_SLOW, "linear")
    tagged = part.with_columns(slow=pl.col("ns") > limit)
    slow = max(int(tagged["slow"].sum()), 1)
    out = {
        name: float((tagged.filter(pl.col("slow"))[name].sum()) / slow - tagged[name].mean())  # type: ignore[operator]
        for name in ("compute", "comm", "memcpy")
    }
    keys = ["side", "run", "part", "period"]
    located = idle.rows.join(tagged.select(*keys, "slow"), on=keys, how="inner")
    sums = (
        idle.spelled(pl.col("cause").is_not_null(), located)
        .group_by("cause")
        .agg(slow_ns=pl.col("ns").filter(pl.col("slow")).sum(), all_ns=pl.col("ns").sum())
    )
    for cause, slow_ns, all_ns in sums.iter_rows():
        out[cause] = slow_ns / slow - all_ns / len(tagged)
    return out


def _place(idle: IdleRows, step: dict[str, int], category: str) -> str:
    rows = idle.rows.filter(
        (pl.col("side") == step["side"]) & (pl.col("run") == step["run"])
        & (pl.col("part") == step["part"]) & (pl.col("period") == step["period"])
    )  # fmt: skip
    pieces = idle.spelled(pl.col("cause") == category, rows)
    mine = pieces.group_by("place").agg(pl.col("ns").sum()).sort("ns", "place", descending=[True, False])
    return str(mine["place"][0]) if len(mine) else ""


# What a verdict on the mean leaves unsaid: a change of a few steps only, another way of launching.

_CALLED = ("improved", "regressed", "likely_improved", "likely_regressed")
_FEW = 0.25  # the median step changed by less than this part of what the mean did
# What another way of launching changes, in the ranges that launch.
_LAUNCHING = {
    "launch_api",
    "launch_latency",
    "dependency",
    "graph_internal",
    "host_api",
    "host_work",
    "gil_wait",
}
_MOVED = 0.5  # so much of the kernels changed the way in which they are launched


def repeated_captures(sides: Sequence[Side]) -> list[Note]:
    """Warn where a side counts one capture as several runs: copies scatter like nothing that was measured.

    Copies that are packed, scrubbed or exported again have other bytes: their steps begin and end at the same ns.
    """
    notes = []
    for side in sides:
        copies: list[tuple[str, str]] = []
        seen: dict[object, str] = {}
        for run in side.runs:
            for part in run.parts:
                same = _identities(part)
                first = next((seen[one] for one in same if one in seen), None)
                if first is None:
                    seen.update(dict.fromkeys(same, run.name))
                else:
                    copies.append((first, run.name))
        if copies:
            named = ", ".join(f"{other} of {one}" for one, other in copies[:3])
            more = f" and {len(copies) - 3} more" if len(copies) > 3 else ""
            notes.append(
                Note(
                    "repeated-capture",
                    f"{side.label} holds captures more than once (a copy: {named}{more}): copies"
                    " are no repeats, so noise, interval and p are not to be believed. Leave them out",
                )
            )
    return notes


def captures_of_both(baseline: Side, candidate: Side) -> list[Note]:
    """Warn where one capture stands on both sides: of two programs it says nothing."""
    before, after = (
        [(run.name, part) for run in side.runs for part in run.parts] for side in (baseline, candidate)
    )
    known = {identity: name for name, part in reversed(before) for identity in _identities(part)}
    found = (
        (next((known[one] for one in _identities(part) if one in known), None), name) for name, part in after
    )
    both = [(name, other) for name, other in found if name is not None]
    if not both:
        return []
    named = ", ".join(f"{other} is {name}" if other != name else name for name, other in both[:3])
    more = f" and {len(both) - 3} more" if len(both) > 3 else ""
    return [
        Note(
            "same-capture",
            f"{baseline.label} and {candidate.label} hold the same capture ({named}{more}): with itself it has not changed,"
            " whatever the programs did. Give another file where two were meant",
        )
    ]


def _identities(part: Reduction) -> list[object]:
    """What copies of a capture share: equal bytes, or every step at the same instants of the trace's clock."""
    table = part.periods.select("rank", "device", "start_ns", "end_ns")
    instants = hashlib.sha256(b"".join(table[name].to_numpy().tobytes() for name in table.columns)).digest()
    return [part.fingerprint, *([instants] if len(table) else [])]


def launched_otherwise(findings: Sequence[Finding], launch: Launch) -> tuple[list[Finding], str]:
    """Kernels moved into or out of CUDA graphs: the findings that come of it, first and marked, and their sum in words.

    They are those of launching and of the host in the ranges that launch. ('' and the findings as they are where
    nothing moved, or something else explains more.)
    """
    before, after = launch.baseline.graph_coverage, launch.candidate.graph_coverage
    sure = [one for one in findings if one.level != "within_noise" and one.where.rank is None]
    places = {one.where.range for one in sure if one.cause == "launch_api"}
    group = [one for one in sure if one.cause in _LAUNCHING and one.where.range in places]
    together = sum(one.delta_ns for one in group)
    rest = [one for one in sure if one not in group and one.cause != "batch_mix"]
    if abs(after - before) < _MOVED or not group or any(abs(one.delta_ns) > abs(together) for one in rest):
        return list(findings), ""
    cause = (
        "CUDA graphs launch the kernels now"
        if after > before
        else "CUDA graphs no longer launch the kernels: they are launched one by one"
    )
    marked = [msgspec.structs.replace(one, note=f"{one.note} {cause}.".strip()) for one in group]
    ordered = [*marked, *(one for one in findings if one not in group)]
    said = (
        f"{cause} ({100 * before:.0f} -> {100 * after:.0f} % of them): {together / 1e3:+,.1f} us in {len(group)} findings of"
        " launching and of the host that launches."
    )
    return [msgspec.structs.replace(one, rank=rank) for rank, one in enumerate(ordered, 1)], said


def asides(
    verdict: Verdict, step: Step, phases: Sequence[Phase], launch: Launch, *, explained: bool = False
) -> str:
    """Sentences to follow the reason of a verdict, each with a space before it; '' where there is nothing to say.

    explained: the reason says already that kernels moved into or out of graphs.
    """
    if verdict not in _CALLED:
        return ""
    out = ""
    before, after = launch.baseline.graph_coverage, launch.candidate.graph_coverage
    if abs(after - before) >= _MOVED and not explained:
        out += f" Kernels launched by CUDA graphs: {100 * before:.0f} -> {100 * after:.0f} %."
    both = [
        (phase.baseline.steps + phase.candidate.steps, phase.phase, phase.delta_p50_ns)
        for phase in phases
        if phase.baseline and phase.candidate and phase.delta_p50_ns is not None
    ]
    if both:
        _, name, median = max(both)
        if abs(median) < _FEW * abs(step.delta_ns):
            out += f" It is not in every step: the median {name} step changed by {median / 1e3:+,.1f} us."
    return out


# Threads that changed without touching the step: worth a note, not a finding.

_RATIO = 1.6  # host time of one program differs by this from run to run (see assumed_noise.py)
_LEAST_NS = 50_000.0


def off_path_notes(
    threads: list[ThreadRow], ranges: list[RangeRow], launching: set[str], findings: list[Finding]
) -> list[Note]:
    """One note for each thread role that launches nothing and whose ranges changed beyond host noise.

    None for a thread that a finding names as the holder of the GIL: what it did to the step is told there.
    """
    holders = {one.where.holder_thread for one in findings if one.level != "within_noise"}
    notes = []
    for thread in threads:
        if thread.role in holders:
            continue
        one, other = thread.baseline_range_ns, thread.candidate_range_ns
        if thread.role in launching or not one or not other:
            continue
        if abs(other - one) < _LEAST_NS or max(one, other) < _RATIO * min(one, other):
            continue
        most = next((row for row in ranges if row.thread == thread.role), None)  # largest change first
        where = f", most of it in {most.range}" if most else ""
        notes.append(
            Note(
                "off-path-change",
                f"the {thread.role} thread spends {one / 1e3:,.1f} -> {other / 1e3:,.1f} us a step in its ranges{where};"
                " it launches no GPU work, so this changes the step only through what waits for it",
            )
        )
    return notes


# What OS calls, context switches and CUDA's memory add to findings: where the time lay, never why.

_PART = 0.1  # of a finding's delta: what moved less is not worth a word
_MOST = 0.5  # of it: the OS call is the finding's place
_WORDS = 3
_ALLOCATES = re.compile(r"Malloc|Free|^cuMem(Alloc|Create|Map|Unmap|Release)")


def with_system(findings: list[Finding], system: System | None) -> list[Finding]:
    """Findings of host work with the OS calls that they lie in, those of allocating calls with what was allocated."""
    if system is None:
        return findings
    return [_host_work(_memory(one, system.memory), system.host_work) for one in findings]


def _host_work(finding: Finding, rows: list[HostWorkRow]) -> Finding:
    where = finding.where
    if finding.cause != "host_work" or where.rank is not None or not finding.delta_ns:
        return finding
    moved: list[tuple[float, HostWorkRow]] = []
    for row in rows:
        if row.thread != (where.thread or "") or row.range != (where.range or "") or row.kind == "rest":
            continue
        if row.baseline_ns is None or row.candidate_ns is None:
            continue
        part = (row.candidate_ns - row.baseline_ns) / finding.delta_ns
        if part >= _PART:
            moved.append((part, row))
    if not moved:
        return finding
    moved.sort(key=lambda one: -one[0])
    said = "; ".join(_said(row) for _, row in moved[:_WORDS])
    part, first = moved[0]
    if part >= _MOST and first.kind == "os_call":
        where = msgspec.structs.replace(where, os_call=first.call)
    return msgspec.structs.replace(
        finding, where=where, note=f"{finding.note} A step, of this idle time: {said}.".strip()
    )


def _said(row: HostWorkRow) -> str:
    assert row.baseline_ns is not None
    assert row.candidate_ns is not None
    what = f"in {row.call}" if row.call else "on no CPU and in no recorded OS call"
    return f"{row.baseline_ns / 1e3:.1f} -> {row.candidate_ns / 1e3:.1f} us {what}"


def _memory(finding: Finding, rows: list[MemoryRow]) -> Finding:
    if (
        finding.cause not in ("host_api", "host_sync")
        or finding.delta_ns <= 0
        or finding.level == "within_noise"
    ):
        return finding
    if finding.where.api and not _ALLOCATES.search(finding.where.api):
        return finding
    said = []
    for row in rows:
        if row.baseline is None or row.candidate is None:
            continue
        one, other = row.baseline, row.candidate
        if other.allocations_per_step > one.allocations_per_step:
            said.append(
                f"{one.allocations_per_step:.2f} -> {other.allocations_per_step:.2f} allocations of {row.kind} memory"
                f" ({one.bytes_per_step / 1e6:.1f} -> {other.bytes_per_step / 1e6:.1f} MB)"
            )
    if not said:
        return finding
    return msgspec.structs.replace(finding, note=f"{finding.note} Also in a step: {'; '.join(said)}.".strip())


# Time in collectives, explained: which rank the others wait for, and how much of a change is waiting, how much transfer.

_SURE_stragglers = ("exact", "confirmed", "likely")


def explain_collectives(findings: list[Finding], ranks: list[RankRow]) -> list[Finding]:
    """Say in findings of communication who came late; they go after the finding on that rank that made it late."""
    late = late_rank(ranks)
    if late is None:
        return findings
    waits = _changes(ranks, "comm_wait_ns")
    transfers = _changes(ranks, "comm_transfer_ns")
    told = []
    for finding in findings:
        if (
            finding.cause != "comm"
            or finding.delta_ns <= 0
            or abs(sum(waits.values())) < abs(sum(transfers.values()))
        ):
            told.append(finding)
            continue
        longest = max(waits, key=lambda rank: (waits[rank], -rank))
        note = (
            f"Rank {late} comes last: rank {longest} waits {waits[longest] / 1e3:+.1f} us a step for it in all collectives;"
            f" transfer itself changed by {max(transfers.values(), key=abs) / 1e3:+.1f} us."
        )
        where = msgspec.structs.replace(finding.where, rank=late)
        title = f"waiting for rank {late} in {finding.title.removeprefix('communication ')}"
        told.append(
            msgspec.structs.replace(
                finding, title=title, where=where, note=note, next=f"find out what made rank {late} late"
            )
        )
    return _after_their_cause(told, late)


def late_rank(ranks: list[RankRow]) -> int | None:
    """The rank for which the waiting of the others grew most; None where it did not grow or was not measured."""
    grown = _changes(ranks, "caused_wait_ns")
    if len(grown) < 2:
        return None
    rank = max(grown, key=lambda one: (grown[one], -one))
    return rank if grown[rank] > 0 else None


def _changes(ranks: list[RankRow], name: str) -> dict[int, float]:
    pairs = ((row.rank, getattr(row, f"baseline_{name}"), getattr(row, f"candidate_{name}")) for row in ranks)
    return {rank: other - one for rank, one, other in pairs if one is not None and other is not None}


def _after_their_cause(findings: list[Finding], late: int) -> list[Finding]:
    """Waiting on other ranks follows from what slowed the late one."""
    causes = [
        number for number, one in enumerate(findings)
        if one.level in _SURE_stragglers and one.where.rank == late and one.cause != "comm" and one.delta_ns > 0
    ]  # fmt: skip
    if not causes:
        return findings
    waiting = [one for one in findings if one.cause == "comm" and one.where.rank == late]
    rest = [one for one in findings if one not in waiting]
    at = max(rest.index(findings[number]) for number in causes) + 1
    return [*rest[:at], *waiting, *rest[at:]]


# Garbage collection and GIL waits of launching threads: what kept a GPU idle, and what fell behind its work.


def exposed(frame: Frame, idle: IdleRows) -> dict[str, dict[str, tuple[float, float]]]:
    """Cause -> thread -> (baseline, candidate) idle ns a step, for gc and gil_wait."""
    out: dict[str, dict[str, tuple[float, float]]] = {}
    for cause in ("gc", "gil_wait"):
        table = _weighed(frame, idle.spelled(pl.col("cause") == cause), ["thread"])
        out[cause] = {row["thread"]: (row["b"], row["c"]) for row in table.iter_rows(named=True)}
    return out


def gil_exposed(frame: Frame, idle: IdleRows, steps: pl.DataFrame) -> pl.DataFrame:
    """thread, phase -> exposed_b, exposed_c: waits for the GIL that kept a GPU idle, ns a step."""
    waits = idle.spelled(pl.col("cause") == "gil_wait").join(
        steps.select("side", "run", "part", "period", "phase"),
        on=["side", "run", "part", "period"],
        how="left",
    )
    return _weighed(frame, waits, ["thread", "phase"]).rename({"b": "exposed_b", "c": "exposed_c"})


def _weighed(frame: Frame, idle: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    """Mean ns a compared step by some columns, both sides: *by, b, c."""
    located = idle.join(frame.steps, on=["side", "run", "part", "period"], how="inner", maintain_order="left")
    summed = (
        located.join(frame.factors(), on=["side", "run", "group"], how="inner", maintain_order="left")
        .with_columns(value=pl.col("ns") * pl.col("factor"))
        .group_by(by, maintain_order=True)  # added up in a fixed order: the same input gives the same bits
        .agg(
            b=pl.col("value").filter(pl.col("side") == 0).sum(),
            c=pl.col("value").filter(pl.col("side") == 1).sum(),
        )
    )
    return summed.sort(by)


def with_hidden(
    accounting: Accounting,
    sides: Sequence[Side],
    weigher: tables.Weigher,
    exposed: dict[str, dict[str, tuple[float, float]]],
) -> Accounting:
    """The accounting with its hidden time."""
    one, other = hidden_time(sides, weigher, exposed)
    return msgspec.structs.replace(accounting, hidden_baseline=one, hidden_candidate=other)


def hidden_time(
    sides: Sequence[Side], weigher: tables.Weigher, exposed: dict[str, dict[str, tuple[float, float]]]
) -> list[dict[str, float]]:
    """Time of launching threads in GC and in GIL waits that fell behind GPU work, a side: host total - idle part."""
    hidden: list[dict[str, float]] = [{} for _ in sides]
    for cause, table, column in (("gc", "gc", "ns"), ("gil_wait", "gil", "wait_ns")):
        totals = weigher.weigh(weigher.of_host(table, values=(column,)).fill_null(0), ["thread"], [column])
        for side, captures in enumerate(sides):
            if not captures.captured("gil" if cause == "gil_wait" else "gc"):
                continue
            launching = {"executor", *exposed[cause]}
            value = sum(
                max(row[column] - exposed[cause].get(row["thread"], (0.0, 0.0))[side], 0.0)
                for row in totals.filter(pl.col("side") == side).iter_rows(named=True)
                if row["thread"] in launching
            )
            hidden[side][cause] = value
    return hidden
