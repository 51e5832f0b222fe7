"""Cells and kernel rows -> drafts of findings: words, evidence, and which of them only follow from others."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from tracediff.align.kernel_categories import category
from tracediff.align.strata import Strata
from tracediff.measure.cells import Estimates, Frame
from tracediff.measure.evidence import NEXT
from tracediff.measure.findings import (
    Draft,
    IdleCell,
    RankSize,
    idle_draft,
    kernel_draft,
    robust_estimates,
    shown,
)
from tracediff.measure.kernel_table import KernelCells
from tracediff.measure.sides import Side, stacked
from tracediff.model import ApiRow, Evidence, Finding, FindingEvidence, Moment, Where

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
