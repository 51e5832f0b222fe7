"""The program against the oracle on traces made by chance: periods, categories, places and kernels."""

from __future__ import annotations

from collections import Counter

import polars as pl
import pytest

from tests.oracle import load, periods
from tests.oracle.random_traces import trace
from tests.oracle.steps import find_steps, step_of_ops
from tests.tiny import STEP, reduced

REMOTE = (
    "launch_latency",
    "dependency",
    "graph_internal",
    "unattributed",
)  # by definition of the oracle without place


def in_order(capture) -> set[tuple[int, int]]:
    """Devices of processes on which steps begin in their order, at instants of their own.

    Where a step overtakes the one before it the contract defines no period, and the two readings differ.
    """
    found = set()
    for rank, device in {(op.rank, op.device) for op in capture.ops}:
        mine = (op for op in capture.ops if (op.rank, op.device) == (rank, device))
        ops = sorted(mine, key=lambda op: (op.start, op.end))
        first: dict[int, int] = {}
        for op, step in zip(ops, step_of_ops(capture, ops, find_steps(capture, rank)), strict=True):
            if step is not None:
                first.setdefault(step.number, op.start)
        starts = [first[number] for number in sorted(first)]
        if starts == sorted(set(starts)):
            found.add((rank >> 24 & 0xFFFFFF, device))
    return found


@pytest.mark.parametrize(
    "seed", [*range(6), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(6, 10))]
)
def test_the_program_agrees_with_the_oracle(seed, tmp_path):
    built = trace(seed)
    reduction = reduced(built, tmp_path)
    capture = load(tmp_path / "trace.sqlite")
    sure = in_order(capture)
    wanted = {
        (one.pid, one.device, one.number, one.start_ns, one.end_ns): one
        for one in periods(capture)
        if (one.pid, one.device) in sure
    }
    rows = {
        (row["pid"], row["device"], row["number"], row["start_ns"], row["end_ns"]): row
        for row in reduction.periods.iter_rows(named=True)
        if (row["pid"], row["device"]) in sure
    }
    assert rows.keys() == wanted.keys()
    assert len(rows) > 5
    assert reduction.residual_ns == 0
    names = {row["period"]: key for key, row in rows.items()}
    for key, one in wanted.items():
        assert {name: rows[key][name] for name in one.categories} == one.categories, key
    assert places(reduction, names) == {
        (key, cause, place_of(place)): ns
        for key, one in wanted.items()
        for (cause, place), ns in one.places.items()
        if ns
    }
    assert kernels(reduction, names) == {
        (key, name): (count, wall, pytest.approx(float(share), abs=1e-6))
        for key, one in wanted.items()
        for name, (count, wall, share) in one.kernels.items()
        if count or share
    }


def place_of(text: str) -> str:
    return STEP if "_forward_step" in text else text


def places(reduction, names) -> dict:
    found: Counter = Counter()
    for row in reduction.idle.iter_rows(named=True):
        if row["period"] in names:
            outside = row["cause"] in REMOTE or row["place"].startswith("outside any range")
            found[names[row["period"]], row["cause"], "" if outside else row["place"]] += row["ns"]
    return {key: ns for key, ns in found.items() if ns}


def kernels(reduction, names) -> dict:
    words = reduction.keys.select(pl.col("id").cast(pl.Int64).alias("key"), "short_name", "kind")
    table = reduction.kernels.with_columns(pl.col("key").cast(pl.Int64)).join(words, on="key")
    found: dict = {}
    for row in table.filter(pl.col("kind") == 0).iter_rows(named=True):
        if row["period"] in names and (row["count"] or row["share_ns"]):
            key = names[row["period"]], row["short_name"]
            count, wall, share = found.get(key, (0, 0, 0.0))
            found[key] = count + row["count"], wall + row["wall_ns"], share + row["share_ns"]
    return found
