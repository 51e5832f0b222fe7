"""Single steps of one side, each beside the typical step of its class.

The class of a step is what its label says it worked on: its phase, rank, requests, and tokens by half powers of two; where fewer than
`LEAST` are alike, its phase on its rank. The typical step is the mean of the class without its slowest and its fastest quarter, and
without start-up steps. Both are sums over the same cells, so every difference adds up to that of their lengths.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Literal

import msgspec
import numpy as np
import polars as pl

from tracediff.arrays import Bools, Floats, Ints
from tracediff.comparison.candidates import idle_place, longest_first
from tracediff.comparison.cells import STEP, IdleKey, Layout
from tracediff.comparison.frame import CellSums, Frame
from tracediff.comparison.kernel_table import KernelCells
from tracediff.comparison.shown import PARTS
from tracediff.errors import TracediffError, UsageError, some
from tracediff.execution.sides import Side, stacked
from tracediff.formats.selection import Pick
from tracediff.kernels.names import short
from tracediff.model import Moment, Note
from tracediff.model.causes import BUSY, CAUSES, SURELY
from tracediff.model.show import StepCategory, StepDiff, StepPlace, StepRank
from tracediff.stats.rules import LEAST, MOSTLY
from tracediff.stats.workload import Steps, trimmed
from tracediff.trace.workloads import IRREGULAR, half_octave

_SAME = ("rank", "device", "phase", "ctx_reqs", "ctx_tokens", "gen_reqs", "start_ns", "ns")

Like = Literal["workload", "phase", "all"]


class Cells(msgspec.Struct, frozen=True):
    """One side, measured. words: of the pieces of the layout's idle rows."""

    frame: Frame
    sums: CellSums
    layout: Layout
    words: pl.DataFrame
    kernels: KernelCells


def chosen_steps(
    side: Side, cells: Cells, known: set[str], picks: Sequence[Pick], worst: int
) -> tuple[list[StepDiff], list[Note]]:
    """The steps that were asked for, then the `worst` ones: those furthest above the typical step of their class; what is to be said of them.

    known: categories that the side's traces can tell. Steps whose class is too small are beside their phase: of these the idle time
    ranks them, because batch sizes differ. Steps of a phase that hardly occurs are like no other, and not ranked. Raises `TracediffError`: no-such-run, no-such-step, step-of-which-run,
    step-number-repeats, no-typical-step.
    """
    steps = _Steps(side, cells.frame)
    asked = [(pick.text, steps.find(pick)) for pick in picks]
    asked += [(f"worst {place}", rows) for place, rows in enumerate(steps.worst(worst), 1)]
    diff = _Diff(side, cells, steps, known)
    return [diff(text, rows) for text, rows in asked], steps.notes() if worst else []


class _Steps:
    """Every whole step with its class and what it takes more than the typical step of it."""

    def __init__(self, side: Side, frame: Frame) -> None:
        self._runs = [run.name for run in side.runs]
        numbers = [
            part.periods.select("period", place=pl.col("number").fill_null(pl.col("step") + 1)).with_columns(
                run=pl.lit(run, pl.Int64), part=pl.lit(at, pl.Int64)
            )
            for run, one in enumerate(side.runs)
            for at, part in enumerate(one.parts)
        ]
        by = ["run", "part", "period"]
        occurrence = pl.int_range(1, pl.len() + 1).over(
            "run", "rank", "device", "place", order_by=["part", "start_ns"]
        )
        self.table = frame.steps.join(pl.concat(numbers), on=by, how="left", maintain_order="left")
        self.table = self.table.with_columns(occurrence=occurrence)
        self.ns = self.table["ns"].to_numpy().astype(np.float64)
        idle = self.ns - self.table.select(pl.sum_horizontal(BUSY)).to_series().to_numpy()
        own = self.ns - self.table["comm"].to_numpy()
        self.typical: list[tuple[Like, Ints]] = []  # of each class
        self.of = self._classes()
        alike = np.array([like == "workload" for like, _ in self.typical], np.bool_)
        # in steps of other batch sizes the GPU works longer: what they wait longer is no matter of their size
        self.excess, self.own, waits = (
            values
            - np.array([values[rows].mean() if len(rows) else np.nan for _, rows in self.typical])[self.of]
            for values in (self.ns, own, idle)
        )
        self.rank_by = np.where(alike[self.of], self.excess, waits)

    def _classes(self) -> Ints:
        """The class of each step, with its typical steps."""
        steps, size = self.table, len(self.table)
        # programs that load code in every second step or more have no starts
        self.starts_are_few = bool(steps["start_up"].to_numpy().mean() < MOSTLY)
        starts = steps["start_up"] & self.starts_are_few
        regular = ~(starts | (steps["phase"] == IRREGULAR)).to_numpy()
        if not regular.any():
            regular = np.ones(size, np.bool_)
        counts = [half_octave(name) for name in ("ctx_tokens", "gen_reqs")]
        unit = ["rank", "device"]
        ways: list[tuple[Like, list[str | pl.Expr]]] = [
            ("workload", [*unit, "phase", "ctx_reqs", *(one.name.suffix("_like") for one in counts)]),
            ("phase", [*unit, "phase"]),
            ("all", [*unit]),
        ]
        of = np.full(size, -1, np.int64)
        every = Steps(np.zeros(size, np.int64), np.zeros(size, np.int64), self.ns)
        for like, by in ways:
            klass = steps.select(pl.struct(*by).rank("dense") - 1).to_series().to_numpy().astype(np.int64)
            middle = trimmed(every, regular, klass, klass)
            least = LEAST if like != "all" else 1
            enough = np.bincount(klass[regular], minlength=int(klass.max()) + 1) >= least
            for one in np.unique(klass[(of < 0) & enough[klass]]).tolist():
                of[(of < 0) & (klass == one)] = len(self.typical)
                self.typical.append((like, np.flatnonzero(middle & (klass == one))))
        if (of < 0).any():
            self.typical.append(("all", np.empty(0, np.int64)))
            of[of < 0] = len(self.typical) - 1
        return of

    def worst(self, most: int) -> list[Ints]:
        """Rows of the steps with the largest excess, a step of several ranks once."""
        if not most:
            return []
        by = ["run", "place", "occurrence"]
        together = self.table.select(
            *by, row=pl.int_range(pl.len()), excess=pl.Series(self.rank_by), own=pl.Series(self.own)
        ).filter(pl.Series(~self._unlike))
        found = (
            together.group_by(by)
            # the rank that the step is shown of
            .agg(pl.col("row").sort(), excess=pl.col("excess").sort_by("own", -pl.col("row")).last())
            .filter(pl.col("excess") > 0)
            .sort("excess", *by, descending=[True, False, False, False])
        )
        return [np.array(rows, np.int64) for rows in found["row"].head(most).to_list()]

    @cached_property
    def _unlike(self) -> Bools:
        """Steps that are like no other, and so not ranked."""
        unlike = np.array([like == "all" for like, _ in self.typical], np.bool_)[self.of]
        return unlike & ~unlike.all()

    def notes(self) -> list[Note]:
        """Say which steps are not ranked."""
        left = self.table.filter(pl.Series(self._unlike)).sort(
            "ns", "run", "start_ns", descending=[True, False, False]
        )
        if not len(left):
            return []
        many = len(left.unique(["run", "place", "occurrence"]))
        longest = left.row(0, named=True)
        text = (
            f"steps of phases with fewer than {LEAST} regular ones are not ranked, {many} in all; the longest is step {longest['place']} of"
            f" {_stem(self._runs[longest['run']])}, {longest['phase']}, {longest['ns'] / 1e6:.3f} ms"
        )
        return [Note("steps-not-ranked", text)]

    def find(self, pick: Pick) -> Ints:
        """Rows of one step, one a rank."""
        there = self.table.with_row_index("row")
        if pick.run:
            run = self._run(pick)
            there = there.filter(pl.col("run") == run)
        mine = there.filter(pl.col("place") == pick.number)
        if not len(mine):
            low, high = there["place"].min(), there["place"].max()
            where = f"{self._runs[run]} has" if pick.run else "there are"
            raise UsageError(
                "no-such-step",
                f"no whole step {pick.number}: {where} steps {low!s} to {high!s}, of which the first and the last are left out if cut",
                fix="tracediff show CAPTURE --worst 3 names steps",
            )
        runs = mine["run"].unique().sort().to_list()
        if len(runs) > 1:
            choices = [f"{_stem(self._runs[run])}:{pick.number}" for run in runs]
            lengths = [_length(mine.filter(pl.col("run") == run)) for run in runs]
            said = [f"{one} ({length})" for one, length in zip(choices, lengths, strict=True)]
            raise UsageError(
                "step-of-which-run",
                f"step {pick.number} is in {len(runs)} runs: {some(said, PARTS, ', ')}",
                fix=f"--step {choices[0]}",
            )
        many = int(mine["occurrence"].max())  # type: ignore[arg-type]
        if many > 1 and not pick.occurrence:
            said = [
                f"{pick.number}#{one} ({_length(own)}, {own['start_ns'].min() / 1e9:.6f} s)"  # type: ignore[operator]
                for one in range(1, many + 1)
                if len(own := mine.filter(pl.col("occurrence") == one))
            ]
            raise UsageError(
                "step-number-repeats",
                f"{many} steps of {self._runs[runs[0]]} have the number {pick.number}: {some(said, PARTS, ', ')}",
                fix=f"--step {pick.text}#1",
            )
        mine = mine.filter(pl.col("occurrence") == (pick.occurrence or 1))
        if not len(mine):
            raise UsageError(
                "no-such-step",
                f"there is no {pick.text}: how many steps have the number {pick.number}: {many}",
                fix=f"--step {pick.number}#{many}",
            )
        return mine["row"].to_numpy().astype(np.int64)

    def _run(self, pick: Pick) -> int:
        named = [at for at, name in enumerate(self._runs) if pick.run in (name, _stem(name))]
        named = named or [at for at in range(len(self._runs)) if pick.run == f"{at + 1}"]
        if len(named) != 1:
            there = some([f"{at} {_stem(name)}" for at, name in enumerate(self._runs, 1)], PARTS, ", ")
            raise UsageError(
                "no-such-run",
                f"{len(named) or 'no'} runs are called {pick.run}: name one",
                fix=f"--step RUN:N, RUN one of {there}",
            )
        return named[0]


def _length(steps: pl.DataFrame) -> str:
    return f"{steps['ns'].max() / 1e6:.3f} ms"  # type: ignore[operator]


def _stem(name: str) -> str:
    """A run as it is named on the command line: its file without endings."""
    for ending in (".xz", ".zst", ".gz", ".sqlite", ".nsys-rep", ".json"):
        name = name.removesuffix(ending)
    return name


def described(
    side: Side, key: IdleKey, rows: pl.DataFrame, words: pl.DataFrame, moments: pl.DataFrame
) -> dict[str, Any]:
    """What a row says of idle time at a place: fields of `IdleCause` and `StepPlace`. rows: of the cell; moments: the pieces to choose from."""
    pieces = longest_first(moments, key)
    longest = next(iter(pieces.head(1).to_dicts()), None)
    called = pieces.group_by("api").agg(pl.col("ns").sum()).sort("ns", "api", descending=[True, False])
    calls = bool(longest) and CAUSES[key.cause].calls
    return {
        "cause": key.cause,
        "title": "",
        "range": idle_place(key, rows, words),
        "thread": key.thread,
        "holder_thread": key.holder,
        "holder_range": key.where if key.cause == "gil_wait" else "",
        "api": called["api"][0] if calls else "",
        "other_calls": calls and bool(called["ns"][0] < (1 - SURELY) * float(called["ns"].sum())),
        "copies": key.copy,
        "longest": Moment(
            "baseline",
            side.runs[longest["run"]].name,
            longest["start"],
            longest["end"],
            step=longest["number"],
        )
        if longest
        else None,
    }


class _Diff:
    """Steps -> what they spent beside what their class spends."""

    def __init__(self, side: Side, cells: Cells, steps: _Steps, known: set[str]) -> None:
        self._side, self._c, self._steps, self._known = side, cells, steps, known
        self._moments = stacked([side], "moments")
        self._launches = cells.kernels.values.select("row", "count", "step")
        self._kernel = [short((row.baseline or row.candidate)[0].name) for row in cells.kernels.rows]

    def __call__(self, asked: str, rows: Ints) -> StepDiff:
        steps = self._steps
        row = int(rows[np.argmax(steps.own[rows])]) if len(rows) > 1 else int(rows[0])
        like, typical = steps.typical[steps.of[row]]
        one = steps.table.row(row, named=True)
        if not len(typical) or typical.tolist() == [row]:
            raise TracediffError(
                "no-typical-step",
                f"{self._side.runs[one['run']].name} has no other regular step on rank {one['rank']}: nothing is typical",
                fix="capture a longer window",
            )
        spent, usual = self._of(np.array([row])), self._of(typical)
        layout = self._c.layout
        places = self._idle(one, row, typical, spent, usual) + self._busy(row, typical, spent, usual)
        places.sort(key=lambda place: (-abs(place.delta_ns), place.cause, place.range, place.kernel))
        return StepDiff(
            asked=asked,
            text="",
            run=self._side.runs[one["run"]].name,
            number=one["place"],
            end_ns=one["start_ns"] + one["ns"],
            **{name: one[name] for name in _SAME},
            start_up=one["start_up"] and steps.starts_are_few,
            typical_ns=float(usual[STEP]),
            delta_ns=float(spent[STEP] - usual[STEP]),
            like=like,
            typical_steps=len(typical),
            accounting=[
                StepCategory(name, round(spent[cell]), float(usual[cell]), float(spent[cell] - usual[cell]))
                for name, cell in layout.categories.items()
                if name in self._known
            ],
            places=places[:PARTS],
            places_left_out=max(0, len(places) - PARTS),
            places_left_out_ns=float(sum(place.delta_ns for place in places[PARTS:])),
            ranks=[
                StepRank(
                    steps.table["rank"][at],
                    steps.table["device"][at],
                    steps.table["ns"][at],
                    float(steps.excess[at]),
                    float(steps.own[at]),
                )
                for at in (rows.tolist() if len(rows) > 1 else ())
            ],
        )

    def _of(self, steps: Ints) -> Floats:
        """Mean of every cell over some steps."""
        weight = np.zeros(len(self._c.frame.steps))
        weight[steps] = 1 / len(steps)
        klass = np.zeros(len(weight), np.int64)
        return np.asarray(self._c.frame.sums(self._c.sums, weight, klass, variance=False).means[0])

    def _idle(
        self, one: dict[str, Any], row: int, typical: Ints, spent: Floats, usual: Floats
    ) -> list[StepPlace]:
        layout = self._c.layout
        rows = layout.idle_rows.filter(pl.col("step").is_in([row, *typical.tolist()]))
        mine = rows.filter(pl.col("step") == row)
        counts, usually = (
            dict(table.group_by("cell").agg(pl.col("count").sum()).iter_rows())
            for table in (mine, rows.filter(pl.col("step").is_in(typical.tolist())))
        )
        # the longest piece of the run, where it lies in this step; another step's piece may lie in another call
        moments = self._moments.filter(
            pl.col("run") == one["run"], pl.col("part") == one["part"],
            pl.col("start") >= one["start_ns"], pl.col("end") <= one["start_ns"] + one["ns"],
        ).with_columns(number=pl.lit(one["place"], pl.Int64))  # fmt: skip
        found = []
        for cell, key in zip(layout.idle, layout.idle_keys, strict=True):
            if not spent[cell] and not usual[cell]:
                continue
            here = mine if spent[cell] else rows
            place = described(self._side, key, here.filter(pl.col("cell") == cell), self._c.words, moments)
            found.append(
                StepPlace(
                    **place,
                    ns=round(spent[cell]),
                    typical_ns=float(usual[cell]),
                    delta_ns=float(spent[cell] - usual[cell]),
                    count=counts.get(cell, 0),
                    typical_count=usually.get(cell, 0) / len(typical),
                )
            )
        return found

    def _busy(self, row: int, typical: Ints, spent: Floats, usual: Floats) -> list[StepPlace]:
        """GPU work by the name of the kernels: in other batches the same kernels run with other grids."""
        layout, kernels = self._c.layout, self._c.kernels
        launches = self._launches.filter(pl.col("step").is_in([row, *typical.tolist()]))
        size = len(kernels.rows)
        own = launches["step"].to_numpy() == row
        step_rows, count = launches["row"].to_numpy(), launches["count"].to_numpy()
        usually = np.isin(launches["step"].to_numpy(), typical)
        counts = np.bincount(step_rows[own], weights=count[own], minlength=size)
        many = np.bincount(step_rows[usually], weights=count[usually], minlength=size) / len(typical)
        by_name: dict[tuple[str, str], list[int]] = {}
        for number, cell in enumerate(layout.kernels):
            if spent[cell] or usual[cell] or counts[number] or many[number]:
                by_name.setdefault((kernels.kinds[number], self._kernel[number]), []).append(number)
        found = []
        for (kind, name), numbers in by_name.items():
            cells = [layout.kernels[number] for number in numbers]
            ns, typical_ns = float(spent[cells].sum()), float(usual[cells].sum())
            found.append(
                StepPlace(
                    cause=kind,
                    title="",
                    ns=round(ns),
                    typical_ns=typical_ns,
                    delta_ns=ns - typical_ns,
                    count=round(counts[numbers].sum()),
                    typical_count=float(many[numbers].sum()),
                    kernel=name,
                )
            )
        return found
