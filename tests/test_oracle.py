"""The program against an independent plain-Python oracle, on every bundled capture, to the nanosecond."""

from __future__ import annotations

import lzma
from collections import Counter
from fractions import Fraction
from pathlib import Path

import polars as pl
import pytest

from tests.oracle import load, periods
from tracediff.execution.run import reduce_file
from tracediff.execution.sides import Reading

FIXTURES = Path(__file__).parent.parent / "fixtures"
FOLDERS = ("demo/*/*", "captures/*", "system/metrics_*", "system/nccl_*")
CAPTURES = sorted(path for folder in FOLDERS for path in FIXTURES.glob(f"{folder}.sqlite.xz"))
STEP = "[Executor] _forward_step"


def _place(text: str) -> str:
    """The oracle names a step by its masked label and says '' outside ranges."""
    return STEP if "_forward_step" in text else text


REPEATS = (
    "eager_a2",
    "graph_a2",
    "graph_a3",
    "graph_fused_2",
    "graph_fused_3",
)  # of programs that others are of as well


def named(path: Path) -> str:
    return path.name.removesuffix(".sqlite.xz")


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(path, marks=[pytest.mark.slow] if named(path) in REPEATS else []) for path in CAPTURES
    ],
    ids=named,
)
def both(request, tmp_path_factory):
    path = request.param
    plain = tmp_path_factory.mktemp("oracle") / "capture.sqlite"
    plain.write_bytes(lzma.decompress(path.read_bytes()))
    expected = sorted(periods(load(plain)), key=lambda one: (one.pid, one.device, one.start_ns))
    return reduce_file(path, Reading()), expected


def test_every_capture_is_here():
    assert len(CAPTURES) >= 17


def test_periods_and_categories(both):
    reduction, expected = both
    rows = reduction.periods.sort("pid", "device", "start_ns").to_dicts()
    assert len(rows) == len(expected)
    assert reduction.residual_ns == 0
    for row, one in zip(rows, expected, strict=True):
        assert (row["number"], row["phase"], row["ctx_reqs"], row["ctx_tokens"], row["gen_reqs"]) == (
            one.number, one.phase, one.ctx_reqs, one.ctx_tokens, one.gen_reqs,
        )  # fmt: skip
        assert (row["start_ns"], row["end_ns"]) == (one.start_ns, one.end_ns)
        for name, value in one.categories.items():
            assert row[name] == value, (one.number, name)
        absent = {"gc", "gil_wait"} - one.categories.keys()
        assert all(row[name] == 0 for name in absent)
        assert sum(one.categories.values()) == one.period_ns


def test_places_of_idle_time(both):
    reduction, expected = both
    order = {
        row: number
        for number, row in enumerate(reduction.periods.sort("pid", "device", "start_ns")["period"])
    }
    found: Counter[tuple[int, str, str]] = Counter()
    for row in reduction.idle.iter_rows(named=True):
        place = "" if row["place"].startswith("outside any range") else row["place"]
        if row["cause"] in ("launch_latency", "dependency", "graph_internal", "unattributed"):
            place = ""  # by definition of the oracle: places are where a host thread was
        found[order[row["period"]], row["cause"], place] += row["ns"]
    wanted: Counter[tuple[int, str, str]] = Counter()
    for number, one in enumerate(expected):
        for (cause, place), ns in one.places.items():
            if ns:
                wanted[number, cause, _place(place)] += ns
    assert {key: ns for key, ns in found.items() if ns} == dict(wanted)


def test_kernels(both):
    reduction, expected = both
    names = reduction.keys.select(pl.col("id").cast(pl.Int64).alias("key"), "name", "short_name", "kind")
    table = reduction.kernels.with_columns(pl.col("key").cast(pl.Int64)).join(names, on="key")
    order = reduction.periods.sort("pid", "device", "start_ns")["period"].to_list()
    by_period = {number: part for (number,), part in table.group_by("period")}
    for period, one in zip(order, expected, strict=True):
        found: dict[str, tuple[int, int, float]] = {}
        for row in by_period[period].filter(pl.col("kind") == 0).iter_rows(named=True):
            count, wall, share = found.get(row["short_name"], (0, 0, 0.0))
            found[row["short_name"]] = (count + row["count"], wall + row["wall_ns"], share + row["share_ns"])
        assert found.keys() == one.kernels.keys()
        for name, (count, wall, share) in one.kernels.items():
            assert found[name][:2] == (count, wall)
            assert found[name][2] == pytest.approx(float(Fraction(share)), abs=1e-3)


def test_gil_and_gc_of_the_host_windows(both):
    reduction, expected = both
    wanted = Counter()
    for one in {(one.pid, one.number): one for one in expected}.values():
        for times in one.host_gil.values():
            wanted["gc"] += times.gc
    found = int(reduction.gc["ns"].sum())
    # an event counts whole in the window in which it starts; the oracle cuts it at the window's edges
    assert found == pytest.approx(wanted["gc"], rel=0.02)
