"""Comparisons from arrays: what every step of every run spends, without a trace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from tracediff.comparison import cells
from tracediff.comparison.cells import IdleKey, Layout, Measured
from tracediff.comparison.frame import CellSums, Frame, Values, build_frame
from tracediff.kernels.matching import Match, OpKey
from tracediff.model import CATEGORIES
from tracediff.stats.noise import Hosts

Runs = Sequence[Sequence[dict]]
"""A side: its runs, each a list of steps as `step` gives them."""


def step(ns: float = 0, *, ops: int = 1, phase: str = "generation", new: bool = False, **columns) -> dict:
    """One step. ops: the key of what it launched. columns: `ctx_tokens`, `rank`, ...; `cells`: ns of each cell by its number."""
    row = {
        "ns": ns, "op_key": ops, "phase": phase, "start_up": new, "rank": 0, "part": 0, "device": 0,
        "ctx_reqs": 0, "ctx_tokens": None, "gen_reqs": 4, "copies": 2,
    }  # fmt: skip
    return row | columns


def run(*ns: float, **columns) -> list[dict]:
    """Steps that differ in their time alone."""
    return [step(one, **columns) for one in ns]


def table(*sides: Runs) -> pl.DataFrame:
    """All steps as `execution.sides.steps_table` gives them."""
    rows = [
        {key: one for key, one in row.items() if key != "cells"}
        | {"side": side, "run": number, "period": period, "start_ns": period}
        for side, runs in enumerate(sides)
        for number, steps in enumerate(runs)
        for period, row in enumerate(steps)
    ]
    return pl.DataFrame(
        rows, schema_overrides=dict.fromkeys(("ctx_reqs", "ctx_tokens", "gen_reqs"), pl.Int64)
    )


def framed(*sides: Runs, min_steps: int = 3, paired: bool = False) -> Frame:
    """The frame of sides of runs of steps. paired: run k of both sides had the same requests."""
    return build_frame(table(*sides), tuple(len(runs) for runs in sides), min_steps, paired=paired)


def steps_of(frame: Frame) -> CellSums:
    """The time of each step as cell 0."""
    return CellSums.of(
        [
            Values(
                np.arange(len(frame.steps)),
                np.zeros(len(frame.steps), np.int64),
                frame.steps["ns"].to_numpy(),
            )
        ],
        1,
    )


IDLE = [*CATEGORIES].index("host_work") + 1  # where idle cells count besides
COMPUTE = [*CATEGORIES].index("compute") + 1
FIRST = len(CATEGORIES) + 1  # the first idle cell


def measured(
    *sides: Runs,
    idle: int,
    kernels: int = 0,
    speed: bool | None = False,
    blocks: Sequence[int] = (),
    paired: bool = False,
    by_program: bool = False,
    recorded_ns: Sequence[float] = (),
) -> Measured:
    """Everything that is judged. Each step's `cells`: of the first `idle` places of host work, then of `kernels` rows, and its host speed last.

    A step lasts as long as its cells take; the host waits while kernels run. speed: False for runs in turns on one machine, None where it is not known. blocks: of each
    kernel row. by_program: the programs began the recording themselves. recorded_ns: how long it was on each side, where that is not what the steps take.
    """
    for runs in sides:
        for one in (row for steps in runs for row in steps):
            one["ns"] = float(sum(one["cells"][: idle + kernels]))
    frame = framed(*sides, paired=paired)
    order = {
        (side, number, period): row["cells"]
        for side, runs in enumerate(sides)
        for number, steps in enumerate(runs)
        for period, row in enumerate(steps)
    }
    spent = np.array([order[key] for key in frame.steps.select("side", "run", "period").iter_rows()], float)
    kinds = ["step", *CATEGORIES, *["host_work"] * idle, *["compute"] * kernels]
    every = np.arange(len(spent))

    def of(cell: int, ns: np.ndarray) -> Values:
        some = (
            every if cell < FIRST else np.flatnonzero(ns)
        )  # steps have no rows of what does not happen in them
        return Values(some, np.full(len(some), cell), ns[some])

    values = [of(0, frame.steps["ns"].to_numpy()), of(IDLE, spent[:, :idle].sum(axis=1))]
    values.append(of(COMPUTE, spent[:, idle : idle + kernels].sum(axis=1)))
    values += [of(FIRST + at, spent[:, at]) for at in range(idle + kernels)]
    values.append(of(len(kinds) + cells.WAITED, spent[:, idle : idle + kernels].sum(axis=1)))
    if speed:
        values.append(Values(every, np.full(len(every), len(kinds) + cells.SPEED), spent[:, idle + kernels]))
    layout = Layout(
        kinds,
        {name: at for at, name in enumerate(kinds[:FIRST]) if at},
        list(range(FIRST, FIRST + idle)),
        [IdleKey("host_work", "executor", "", f"place {at}", copy=False) for at in range(idle)],
        list(range(FIRST + idle, FIRST + idle + kernels)),
        pl.concat(
            [
                pl.DataFrame({"step": at.step, "cell": at.cell, "ns": at.ns})
                for at in values[3 : 3 + idle] or values[:1]
            ]
        ),
    )
    summed = CellSums.of(values, len(kinds) + cells.BESIDE)
    loose = np.zeros((2, kernels), np.bool_)
    hosts: Hosts = "measured" if speed else "unknown" if speed is None else "one"
    phases, whole = cells._estimates(frame, summed, layout, hosts, loose)
    rows = [
        Match("exact", 1.0, (OpKey(f"k{at}"),), (OpKey(f"k{at}"),), blocks[at] if blocks else -1)
        for at in range(kernels)
    ]
    exact = {one.phase: np.zeros(kernels, np.bool_) for one in frame.phases}
    lengths = recorded_ns or [sum(row["ns"] for steps in runs for row in steps) / len(runs) for runs in sides]
    return Measured(
        tuple(
            _Side([_Run(f"run {number}") for number in range(len(runs))], [_Part(by_program, ns)])
            for runs, ns in zip(sides[:2], lengths, strict=False)
        ),  # type: ignore[arg-type]
        frame, None, True, _Kernels(rows, exact), None, layout,  # type: ignore[arg-type]
        phases, whole, [], False,
    )  # fmt: skip


class _Run(NamedTuple):
    name: str


class _Part(NamedTuple):
    by_program: bool
    duration_ns: float


class _Side(NamedTuple):
    runs: list[_Run]
    parts: list[_Part]


class _Kernels:
    """What is judged of `KernelCells`."""

    def __init__(self, rows: list[Match], exact: dict[str, np.ndarray]) -> None:
        self.rows, self.exact = rows, exact
        self.open = exact  # as many launches in every step
        self.often = 1.0  # of the candidate

    def launches(self, phase: str, *, typical: bool) -> np.ndarray:
        return np.ones((len(self.rows), 2)) * [1.0, self.often]
