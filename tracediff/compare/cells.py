"""Cells: the places where time goes, measured at every whole step, and their statistics between the sides.

A cell is a category, a (cause, place) of idle time, or a row of the kernel table. Values are ns a step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import msgspec
import numpy as np
import polars as pl

from tracediff.accounting.grouping import count_by, float_sum_by, grouped, sum_by
from tracediff.accounting.intervals import Floats, Index, Ints
from tracediff.accounting.reduction import StepIndex
from tracediff.compare.sides import Side, kernel_rows, parts_of, tagged
from tracediff.compare.strata import ROW, Strata
from tracediff.errors import TracediffError
from tracediff.kernels.categories import is_communication
from tracediff.kernels.matching import Match, Matching
from tracediff.model import CATEGORIES, Evidence, KernelRow, KernelSide, KernelStratum
from tracediff.stats.bootstrap import RunSteps, Summed, block_edges, bootstrap_ci, run_values, side_means
from tracediff.stats.noise import assumed_half_width
from tracediff.stats.tests import benjamini_hochberg, run_level_interval, run_level_p, run_sd

ALPHA = 0.05
_SIDE_NAMES = ("baseline", "candidate", "A/A repeats")
MIN_CONFIRM = 3  # runs a side below which nothing is confirmed
TRIM_RUNS = 5  # runs a side from which trimmed means stand against one outlying run


@dataclass(frozen=True)
class Estimates:
    """Statistics of many cells, arrays over cells, ns a step; p and q are nan where they cannot be said."""

    baseline: Floats
    candidate: Floats
    low: Floats
    high: Floats
    p: Floats
    baseline_runs: Floats  # (runs, cells)
    candidate_runs: Floats
    noise: Floats  # half-width of run-to-run noise: from repeats, else assumed
    noise_source: str
    kinds: list[str]  # accounting category of each cell, for the assumed noise
    repeats: list[Floats]  # (runs, cells) that the noise was taken from; empty where it is assumed

    @property
    def delta(self) -> Floats:
        """Candidate - baseline."""
        return self.candidate - self.baseline

    def take(self, index: list[int]) -> Estimates:
        """Some of the cells, in this order."""
        columns = np.asarray(index, np.intp)
        return Estimates(
            self.baseline[columns],
            self.candidate[columns],
            self.low[columns],
            self.high[columns],
            self.p[columns],
            self.baseline_runs[:, columns],
            self.candidate_runs[:, columns],
            self.noise[columns],
            self.noise_source,
            [self.kinds[one] for one in index],
            [runs[:, columns] for runs in self.repeats],
        )


class Values(NamedTuple):
    """What steps spend in cells: arrays of one length. A step and cell may turn up more than once."""

    step: Ints  # row of `Frame.steps`, -1: not compared
    cell: Index
    ns: Floats | Ints


@dataclass
class Frame:
    """The compared steps in a fixed order: for each side and run, group -> positions of its steps."""

    steps: pl.DataFrame  # side, run, part, period, group, rank
    runs: tuple[int, ...]  # runs of the baseline, the candidate and, where given, the A/A repeats
    weights: dict[int, float]

    def factors(self) -> pl.DataFrame:
        """side, run, group -> factor: what a step counts for in the standardised mean of its side."""
        steps = self.steps.group_by("side", "run", "group").agg(pl.len().alias("steps"))
        runs = steps.group_by("side", "group").agg(pl.len().alias("runs"))
        weights = pl.DataFrame(
            {"group": list(self.weights), "weight": list(self.weights.values())},
            schema={"group": pl.Int64, "weight": pl.Float64},
        )
        return steps.join(runs, on=["side", "group"]).join(weights, on="group").select(
            "side", "run", "group", factor=pl.col("weight") / (pl.col("steps") * pl.col("runs"))
        )  # fmt: skip

    def runs_of_rank(self, cell: pl.DataFrame, rank: int) -> tuple[list[float], list[float], float, float]:
        """Time a step on one rank, ns: of each run of the baseline and of the candidate, and their means.

        `cell`: side, run, rank, group, ns of one cell in compared steps. Standardised like all means, over the
        groups that the rank has.
        """
        keys = ["side", "run", "group"]
        steps = self.steps.filter(pl.col("rank") == rank).group_by(keys).agg(pl.len().alias("steps"))
        sums = cell.filter(pl.col("rank") == rank).group_by(keys, maintain_order=True).agg(pl.col("ns").sum())
        table = steps.join(sums, on=keys, how="left").sort(keys)
        runs: list[list[float]] = [[], []]
        for side in (0, 1):
            for run in range(self.runs[side]):
                mine = table.filter((pl.col("side") == side) & (pl.col("run") == run))
                if not len(mine):
                    continue  # the rank has no compared step in that run
                weights = np.array([self.weights[group] for group in mine["group"]])
                means = (mine["ns"].fill_null(0) / mine["steps"]).to_numpy()
                runs[side].append(float(weights @ means / weights.sum()))
        sides = [float(np.mean(one)) if one else 0.0 for one in runs]
        return runs[0], runs[1], sides[0], sides[1]

    @cached_property
    def index(self) -> StepIndex:
        """Where the compared steps are."""
        return StepIndex(self.steps)

    @cached_property
    def _blocks(self) -> tuple[Ints, dict[tuple[int, int, int], tuple[slice, int]]]:
        """Neighbouring steps of a run and group in blocks (see bootstrap.block_edges).

        The block of each step, and of each (side, run, group) its blocks and how many steps they have.
        """
        code = self.steps.select(pl.struct("side", "run", "group").rank("dense") - 1).to_series().to_numpy()
        order = np.argsort(code, kind="stable")  # steps of a run come in order of time
        block = np.empty(len(code), np.int64)
        found: dict[tuple[int, int, int], tuple[slice, int]] = {}
        first = 0
        for mine in np.split(order, np.flatnonzero(np.diff(code[order])) + 1):
            edges = block_edges(len(mine), len(self.weights))
            block[mine] = first + np.repeat(np.arange(len(edges)), np.diff(edges, append=len(mine)))
            key = self.steps.select("side", "run", "group").row(int(mine[0]))
            found[key] = slice(first, first + len(edges)), len(mine)
            first += len(edges)
        return block, found

    def sums(self, values: Sequence[Values], cells: int) -> list[list[RunSteps]]:
        """What steps spend in cells -> for each run the sums of its blocks of steps, by group."""
        block, found = self._blocks
        size = max((where.stop for where, _ in found.values()), default=0)
        table = np.zeros(size * cells)
        for one in values:
            inside = one.step >= 0
            at = block[one.step[inside]] * cells + one.cell[inside]
            table += np.bincount(at, weights=one.ns[inside], minlength=size * cells)
        rows = table.reshape(size, cells)
        sides: list[list[RunSteps]] = [[] for _ in self.runs]
        for side, many in enumerate(self.runs):
            for run in range(many):
                mine = {key[2]: value for key, value in found.items() if key[:2] == (side, run)}
                sides[side].append(
                    RunSteps({group: Summed(rows[where], steps) for group, (where, steps) in mine.items()})
                )
        return sides


def values_of_steps(frame: Frame, steps: pl.DataFrame, column: str = "ns", cell: int = 0) -> Values:
    """A column of a table of steps (side, run, part, period, ...) as the values of one cell."""
    return Values(frame.index.rows(steps), np.full(len(steps), cell), steps[column].to_numpy())


def build_frame(steps: pl.DataFrame, strata: Strata, runs: tuple[int, ...]) -> Frame:
    """Fix the order of the compared steps: by run, rank, device and time."""
    located = (
        strata.locate(steps).filter(pl.col("group") >= 0).sort("side", "run", "rank", "device", "start_ns")
    )
    for side in range(len(runs)):
        for run in sorted(set(range(runs[side])) - set(located.filter(pl.col("side") == side)["run"])):
            raise TracediffError(
                "run-without-steps",
                f"run {run + 1} of the {_SIDE_NAMES[side]} has no step of a workload that is compared",
                fix="leave that run out, or capture a longer window",
            )
    return Frame(located.select("side", "run", "part", "period", "group", "rank"), runs, strata.weights)


def estimate(frame: Frame, values: Sequence[Values], kinds: list[str], *, seed: int = 0) -> Estimates:
    """Means, interval, p and noise of each cell."""
    cells = len(kinds)
    one, other, *repeats = frame.sums(values, cells)
    baseline, candidate = side_means(one, frame.weights), side_means(other, frame.weights)
    low, high = bootstrap_ci(one, other, frame.weights, seed=seed) if cells else (baseline, candidate)
    runs_b, runs_c = run_values(one, frame.weights), run_values(other, frame.weights)
    p = run_level_p(runs_b, runs_c) if min(len(one), len(other)) >= 2 else np.full(cells, np.nan)
    given = [run_values(runs, frame.weights) for runs in repeats]
    noise, source = _noise(runs_b, runs_c, baseline, candidate, kinds, given)
    sources = [runs for runs in (given or [runs_b, runs_c]) if len(runs) >= 2]
    return Estimates(baseline, candidate, low, high, p, runs_b, runs_c, noise, source, kinds, sources)


def _noise(
    runs_b: Floats, runs_c: Floats, baseline: Floats, candidate: Floats, kinds: list[str], given: list[Floats]
) -> tuple[Floats, str]:
    """Half-width within which a delta may be run-to-run noise: given, from repeats of either side, or assumed."""
    assumed = np.array(
        [float(assumed_half_width(kind, b, c)) for kind, b, c in zip(kinds, baseline, candidate, strict=True)]
    )
    repeats = [runs for runs in (given or (runs_b, runs_c)) if len(runs) >= 2]
    if not repeats:
        return assumed, "assumed"
    return moderated_noise(repeats, assumed, len(runs_b), len(runs_c)), "given" if given else "repeats"


PRIOR_RUNS = 4  # how many degrees of freedom the assumed noise counts for


def moderated_noise(
    repeats: list[Floats], assumed: Floats, baseline_runs: int, candidate_runs: int
) -> Floats:
    """A/A floor from few repeats, steadied by the assumed noise (moderated t, Smyth 2004).

    Two runs say almost nothing of their own scatter: by themselves they would give a floor of 12.7 standard
    errors, or of none where they happen to agree. So the variance is that of the repeats and of the assumed
    half-width (95 % of the difference of two runs), weighted by degrees of freedom.
    """
    from scipy.special import stdtrit

    prior = (assumed / (1.96 * np.sqrt(2))) ** 2
    freedom = [len(runs) - 1 for runs in repeats]
    measured = sum(df * run_sd(runs) ** 2 for df, runs in zip(freedom, repeats, strict=True))
    df = PRIOR_RUNS + sum(freedom)
    variance = (PRIOR_RUNS * prior + measured) / df
    return np.asarray(stdtrit(df, 0.975) * np.sqrt(variance * (1 / baseline_runs + 1 / candidate_runs)))


def levels(cells: Estimates, total_ns: float, least_ns: float = 500.0) -> tuple[list[Evidence], Floats]:
    """How far each delta can be believed, and its q value (Benjamini-Hochberg over the cells).

    confirmed: >= 3 runs a side, q < 0.05 and the interval excludes 0. likely: fewer than 5 runs a side, and the
    delta exceeds the noise; with one run a side also the interval within the runs excludes 0. A delta under 0.1 % of the step (and under `least_ns`) is never more than noise.
    """
    q = benjamini_hochberg(cells.p)
    low_of, high_of = decisive_interval(cells)
    runs = min(len(cells.baseline_runs), len(cells.candidate_runs))
    floor = max(least_ns, 0.001 * total_ns)
    out: list[Evidence] = []
    for delta, low, high, one_q, noise in zip(cells.delta, low_of, high_of, q, cells.noise, strict=True):
        apart = low > 0 or high < 0
        if abs(delta) < floor:
            out.append("within_noise")
        elif apart and runs >= MIN_CONFIRM and one_q < ALPHA:  # nan compares false
            out.append("confirmed")
        elif abs(delta) > noise and runs < TRIM_RUNS and (apart or runs > 1):
            out.append("likely")
        else:
            out.append("within_noise")
    return out, q


def decisive_interval(cells: Estimates) -> tuple[Floats, Floats]:
    """The interval that decides: from five runs a side on the trimmed one, which one outlying run cannot widen."""
    if min(len(cells.baseline_runs), len(cells.candidate_runs)) < TRIM_RUNS:
        return cells.low, cells.high
    low, high = run_level_interval(cells.baseline_runs, cells.candidate_runs)
    return np.where(np.isnan(low), cells.low, low), np.where(np.isnan(high), cells.high, high)


def of_means(level: Sequence[Evidence], cells: Estimates) -> list[Evidence]:
    """Levels for a table that shows differences of means, which sum up as trimmed ones do not.

    Where one outlying run turns a mean against what the other runs say, the difference shown is that run's: noise.
    """
    low, high = decisive_interval(cells)
    against = cells.delta * (low + high) < 0  # nan compares false
    return ["within_noise" if other else one for one, other in zip(level, against, strict=True)]


def finite(value: float, instead: float) -> float:
    """A bound of an interval, or `instead` where it cannot be said (one step, nothing repeats)."""
    return float(instead) if np.isnan(value) else float(value)


# The idle time of all runs, by the numbers of one list of words: there may be millions of rows.

WORDS = ("cause", "thread", "place", "holder", "holder_place", "copy")


@dataclass(frozen=True)
class IdleRows:
    """rows: side, run, part, period, cell -> ns, count. words: a row a cell: WORDS, in their order."""

    rows: pl.DataFrame
    words: pl.DataFrame

    def of_sides(self, sides: int) -> IdleRows:
        """Those of the first sides."""
        return IdleRows(self.rows.filter(pl.col("side") < sides), self.words)

    def spelled(self, which: pl.Expr, rows: pl.DataFrame | None = None) -> pl.DataFrame:
        """The rows whose words fulfil a condition, with these words."""
        rows = self.rows if rows is None else rows
        chosen = self.words.select(which).to_series().to_numpy()
        mine = rows.filter(pl.Series(chosen[rows["cell"].to_numpy()], dtype=pl.Boolean))
        return pl.concat([mine, self.words[mine["cell"]]], how="horizontal")

    def threads(self) -> set[str]:
        """The threads that any of the rows is of."""
        return set(self.words[self.rows["cell"].unique()]["thread"].unique())


def idle_rows(sides: Sequence[Side], *, with_gil: bool) -> IdleRows:
    """The idle time of all runs.

    Without `with_gil` (one side was captured without it) waits for the GIL are counted as what they would be called had
    the GIL not been traced, on both sides.
    """
    parts = parts_of(sides)
    named = []
    for *_, part in parts:
        cells = part.cells
        if not with_gil:
            cells = cells.with_columns(cause=pl.col("under"), holder=pl.lit(""), holder_place=pl.lit(""))
        named.append(cells.select(WORDS))
    words = pl.concat(named).unique().sort(WORDS)
    numbered = words.with_row_index("number")
    frames = []
    for (side, run, number, part), cells in zip(parts, named, strict=True):
        place = cells.join(numbered, on=WORDS, how="left", maintain_order="left")["number"].to_numpy()
        cell = place.astype(np.int32)[part.idle_ns["cell"].to_numpy()]
        frames.append(
            tagged(part.idle_ns.with_columns(cell=pl.Series(cell, dtype=pl.Int32)), side, run, number)
        )
    return IdleRows(pl.concat(frames), words)


# The kernel table: matched rows of both sides with their time, counts and launch shapes.


@dataclass(frozen=True)
class KernelCells:
    """Rows and their measurements.

    values: side, run, part, period, row, share_ns. counts, walls: (rows, 2) ops and their wall ns a step.
    exact: whether both sides launch the same number in every step of a group, so that counts are facts.
    hidden: (rows, 2) wall time that was not the accounting's: behind ops of another kind, ns a step.
    """

    matching: Matching
    rows: list[Match]
    kinds: list[str]
    values: pl.DataFrame
    counts: Floats
    walls: Floats
    exact: list[bool]
    hidden: Floats
    shapes: dict[
        tuple[str, str, str], tuple[int | None, int | None]
    ]  # (name, grid, block) -> registers, shared


def kernel_cells(sides: Sequence[Side], frame: Frame) -> KernelCells:
    """Match and measure the kernels of both sides, or of one alone."""
    matching, by_row = kernel_rows(sides)
    step = frame.index.rows(by_row)
    inside = np.flatnonzero((step >= 0) & (by_row["side"].to_numpy() < 2))
    step, located = step[inside], by_row[inside]
    factors = frame.steps.join(
        frame.factors(), on=["side", "run", "group"], how="left", maintain_order="left"
    )
    factor = factors["factor"].to_numpy()[step]
    at = located["row"].to_numpy() * 2 + located["side"].to_numpy()

    def a_step(column: str) -> Floats:
        """Weighted sums by (row, side), added up in a fixed order: the same input gives the same bits."""
        sums = np.bincount(at, weights=located[column].to_numpy() * factor, minlength=2 * len(matching.rows))
        return sums.astype(np.float64).reshape(-1, 2)

    size = len(matching.rows)
    counts, walls, shares = np.round(a_step("count"), 9), a_step("wall_ns"), a_step("share_ns")
    unsteady = _unsteady(frame, step, located, size)
    shapes = {
        (row["name"], row["grid"] or "", row["block"] or ""): (row["registers"], row["shared_bytes"])
        for side in sides
        for part in side.parts
        for row in part.keys.iter_rows(named=True)
    }
    return KernelCells(
        matching,
        matching.rows,
        [_kind(match) for match in matching.rows],
        by_row,
        counts,
        walls,
        [row not in unsteady for row in range(size)],
        walls - shares,
        shapes,
    )


def _unsteady(frame: Frame, step: Ints, located: pl.DataFrame, rows: int) -> set[int]:
    """Rows that are not launched equally often in all steps of some group. `located`: the measurements, `step`: the step of each."""
    group_of = frame.steps["side"].to_numpy() + len(frame.runs) * frame.steps["group"].to_numpy()
    code, position = grouped(group_of[step] * rows + located["row"].to_numpy())
    count = located["count"].to_numpy()
    low, high = np.full(len(code), np.inf), np.zeros(len(code))
    np.minimum.at(low, position, count)
    np.maximum.at(high, position, count)
    present, every = count_by(position, len(code)), np.bincount(group_of)
    odd = (high - low > 0.01) | (present < every[code // max(rows, 1)])
    return set((code[odd] % max(rows, 1)).tolist())


def _kind(match: Match) -> str:
    """The accounting category of a row's time."""
    names = [op.name for op in (*match.baseline, *match.candidate)]
    if all(name.startswith(("[memcpy", "[memset")) for name in names):
        return "memcpy"
    return "comm" if all(is_communication(name) for name in names) else "compute"


def kernel_result_rows(
    kernels: KernelCells,
    cells: Estimates,
    judged: tuple[list[Evidence], Floats],
    category: Callable[[str], str],
    family: Callable[[str], str],
) -> list[tuple[int, KernelRow]]:
    """Rows for the result, largest change first, with their numbers; every op of the compared steps is in exactly one."""
    rows, level = [], of_means(judged[0], cells)
    for number, match in enumerate(kernels.rows):
        if not kernels.counts[number].any() and not (cells.baseline[number] or cells.candidate[number]):
            continue  # seen only in steps that were not compared
        name = (match.candidate or match.baseline)[0].name
        found = KernelRow(
            match=match.match,  # type: ignore[arg-type]
            confidence=match.confidence,
            category=category(name),
            family=family(name),
            baseline=kernel_side(kernels, number, 0, float(cells.baseline[number])),
            candidate=kernel_side(kernels, number, 1, float(cells.candidate[number])),
            delta_ns=float(cells.delta[number]),
            ci_low_ns=finite(cells.low[number], cells.delta[number]),
            ci_high_ns=finite(cells.high[number], cells.delta[number]),
            level=level[number],
            q_value=None if np.isnan(judged[1][number]) else float(judged[1][number]),
        )
        rows.append((number, found))
    return sorted(rows, key=lambda one: (-abs(one[1].delta_ns), -_time(one[1]), _names(one[1])))


def _time(row: KernelRow) -> float:
    return max(side.ns_per_step for side in (row.baseline, row.candidate) if side is not None)


def _names(row: KernelRow) -> str:
    return repr(
        [(side.names, side.grids, side.blocks) for side in (row.baseline, row.candidate) if side is not None]
    )


def kernel_side(kernels: KernelCells, number: int, side: int, share: float) -> KernelSide | None:
    """One side of a row; None where that side has none of its kernels in the steps of the mean. `share`: ns a step."""
    match = kernels.rows[number]
    ops = match.candidate if side else match.baseline
    count = float(kernels.counts[number, side])
    if not ops or (not count and not share):
        return None
    shape = kernels.shapes.get((ops[0].name, ops[0].grid, ops[0].block), (None, None))
    return KernelSide(
        names=list(dict.fromkeys(op.name for op in ops)),
        count_per_step=count,
        ns_per_step=share,
        mean_ns=float(kernels.walls[number, side]) / count if count else 0.0,
        grids=list(dict.fromkeys(op.grid for op in ops if op.grid)),
        blocks=list(dict.fromkeys(op.block for op in ops if op.block)),
        registers=shape[0],
        shared_bytes=shape[1],
    )


# Every cell of every step: the step itself, the categories, the places of idle time, the kernel rows.

# Categories that need GPU rows, and those that need CUDA calls, to be told at all.
_OF_GPU = ("compute", "comm", "memcpy", "launch_latency", "dependency", "graph_internal", "unattributed")
_OF_CALLS = ("launch_api", "host_sync", "host_api")


@dataclass(frozen=True)
class Layout:
    """Which columns of the estimates are what: 0 is the step, then categories, idle cells, kernel rows.

    idle_rows: idle time of the compared steps of the (first) two sides, side, run, rank, group, piece (number in the words of the
    idle rows), cell (column) -> ns, count.
    """

    categories: dict[str, int]
    idle: list[int]
    idle_keys: list[tuple[str, str, str, str, bool]]  # cause, thread, holder, where (see idle_groups), copy
    kernels: list[int]
    idle_rows: pl.DataFrame


def cell_table(
    frame: Frame, steps: pl.DataFrame, idle: IdleRows, kernels: KernelCells
) -> tuple[list[Values], list[str], Layout]:
    """What every step spends in every cell; then the accounting category of each cell, and what the cells are."""
    kinds = ["host_work", *CATEGORIES]  # of the step, whose noise is assumed apart
    categories = {name: column for column, name in enumerate(kinds) if column}
    values = [values_of_steps(frame, steps)]
    values += [
        values_of_steps(frame, steps, name, categories[name]) for name in ("compute", "comm", "memcpy")
    ]
    step, piece, ns = (
        frame.index.rows(idle.rows), idle.rows["cell"].to_numpy(), idle.rows["ns"].to_numpy(),
    )  # fmt: skip
    of_cause = np.array([categories[cause] for cause in idle.words["cause"]], np.int64)
    values.append(Values(step, of_cause[piece], ns))
    keys, group = idle_groups(idle, sum_by(piece, len(idle.words), ns))
    first = len(kinds)
    kinds += [key[0] for key in keys]
    values.append(Values(step, first + group[piece], ns))
    kernel_first = len(kinds)
    kinds += kernels.kinds
    values.append(
        Values(
            frame.index.rows(kernels.values),
            kernel_first + kernels.values["row"].to_numpy(),
            kernels.values["share_ns"].to_numpy(),
        )
    )
    inside = np.flatnonzero(step >= 0)
    located = frame.steps.select("side", "run", "rank", "group")[step[inside]].with_columns(
        piece=pl.Series(piece[inside]),
        cell=pl.Series(first + group[piece[inside]], dtype=pl.Int64),
        ns=pl.Series(ns[inside]),
        count=idle.rows["count"][inside],
    )
    layout = Layout(
        categories,
        list(range(first, kernel_first)),
        keys,
        list(range(kernel_first, len(kinds))),
        located.filter(pl.col("side") < 2),
    )
    return values, kinds, layout


def idle_groups(idle: IdleRows, ns: Ints) -> tuple[list[tuple[str, str, str, str, bool]], Ints]:
    """Idle time with the grain of a finding: (cause, thread, holder, where, copy), those with the most time first.

    Second, of each row of words its group. `ns`: time of each row of words. A wait for the GIL belongs to its holder and
    the holder's range, a collection to its thread: both strike wherever the waiting thread happens to be. Everything
    else belongs to its place.
    """
    by = ["cause", "thread", "holder", "where", "copy"]
    named = idle.words.with_columns(
        where=pl.when(pl.col("cause") == "gil_wait")
        .then(pl.col("holder_place"))
        .when(pl.col("cause") == "gc")
        .then(pl.lit(""))
        .otherwise(pl.col("place")),
        ns=pl.Series(ns),
    )
    order = named.group_by(by).agg(pl.col("ns").sum()).filter(pl.col("ns") > 0)
    order = order.sort("ns", *by, descending=[True] + [False] * 5).with_row_index("number")
    number = named.join(order.drop("ns"), on=by, how="left", maintain_order="left")["number"]
    return list(order.select(by).iter_rows()), number.fill_null(0).to_numpy().astype(np.int64)


def told(side: Side, with_gil: bool) -> set[str]:
    """The categories that a side's traces can tell: the others are absent from its accounting, never zero."""
    held = {"gil_wait": side.captured("gil") and with_gil, "gc": side.captured("gc")}
    if not side.captured("kernels"):  # measured on the host alone
        held |= dict.fromkeys(_OF_GPU, False) | dict.fromkeys(_OF_CALLS, side.captured("cuda_api"))
    return {name for name in CATEGORIES if held.get(name, True)}


# Kernel rows workload by workload: what a step of each stratum holds of them.

STRATA = 4  # of a kernel row: those with the most of its time


def with_strata(
    rows: Sequence[tuple[int, KernelRow]], kernels: KernelCells, steps: pl.DataFrame, strata: Strata
) -> list[tuple[int, KernelRow]]:
    """Add to each row its counts and times a step in every stratum, compared or not; nothing where there is one stratum."""
    found = strata_of_rows(kernels, steps, strata)
    return [(row, msgspec.structs.replace(one, strata=found.get(row, []))) for row, one in rows]


def strata_of_rows(
    kernels: KernelCells, steps: pl.DataFrame, strata: Strata
) -> dict[int, list[KernelStratum]]:
    """Row of the matching -> its counts and times by stratum; empty where there is one stratum.

    `steps`: every whole step of the sides. A mean is over all steps of the side in the stratum, as in its row.
    """
    if len(strata.rows) < 2:
        return {}
    number = {key: place for place, key in enumerate(strata.keys)}
    located = strata.locate(steps).with_columns(pl.col("group").fill_null(-1)).with_columns(stratum=ROW)
    steps_of = located.group_by("side", "stratum").agg(pl.len())
    many = {(number[key], side): count for side, key, count in steps_of.iter_rows()}
    values = kernels.values.filter(pl.col("side") < 2)
    place = located["stratum"].replace_strict(number, return_dtype=pl.Int64).to_numpy()
    place = place[StepIndex(located).rows(values)]
    code = (values["row"].to_numpy() * len(number) + place) * 2 + values["side"].to_numpy()
    distinct, position = grouped(code)
    counts, shares = (
        float_sum_by(position, len(distinct), values[name].to_numpy()) for name in ("count", "share_ns")
    )
    total: dict[tuple[int, int], float] = {}
    cells: dict[tuple[int, int], list[float]] = {}
    for one, count, ns in zip(distinct.tolist(), counts.tolist(), shares.tolist(), strict=True):
        key, side = divmod(one, 2)
        row, stratum = divmod(key, len(number))
        size = many[stratum, side]
        cell = cells.setdefault((row, stratum), [0.0, 0.0, 0.0, 0.0])
        cell[2 * side : 2 * side + 2] = [round(count / size, 9), ns / size]
        total[row, stratum] = total.get((row, stratum), 0.0) + ns
    found: dict[int, list[KernelStratum]] = {}
    for row, stratum in sorted(cells, key=lambda one: (one[0], -total[one], one[1])):
        parts = found.setdefault(row, [])
        if len(parts) < STRATA:
            parts.append(KernelStratum(stratum, *cells[row, stratum]))
    return found
