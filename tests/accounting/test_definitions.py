"""The definitions in SQL give the numbers of the engine, on every bundled capture: equal integers, shares of ns as floats."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from _pytest.mark import ParameterSet
from polars.testing import assert_frame_equal

from tests.oracle.random_traces import trace
from tests.tiny import FIXTURES
from tracediff.accounting.reduce import is_host_only, reduce_capture
from tracediff.accounting.reduction import Reduction
from tracediff.formats.capture import Capture, load_capture
from tracediff.formats.database import create_table, frame, sql
from tracediff.formats.files import scratch
from tracediff.kernels.names import is_communication
from tracediff.query.reference import DEFINITIONS
from tracediff.trace.steps import find_steps
from tracediff.trace.threads import Thread

# Classes of steps by what they launch are no SQL: in `shapes` they are other phases than those of the definition.
CAPTURES = sorted(
    {*FIXTURES.rglob("*.sqlite.xz"), *FIXTURES.glob("torch/*.json.gz")}
    - {FIXTURES / "torch" / "shapes.json.gz"}
)
BUSY = ["compute", "comm", "memcpy"]
PLACE = ["cause", "under", "thread", "place"]
# table of the definitions -> its columns that name a row
TABLES = {
    "period": ["period"],
    "busy": ["period", "kind"],
    "kernel": ["period", "key"],
    "idle": ["period", *PLACE, "holder", "holder_place", "copy"],
    "launch_of_shape": ["pid", "device", "stratum"],
    "gap_of_shape": ["stratum", *PLACE, "previous", "next", "ns", "count", "p50_ns", "p99_ns"],
}


def _marked(path: Path) -> ParameterSet:
    """Some folders hold many captures of one kind: they are looked at where there is time."""
    many = any(path.is_relative_to(FIXTURES / folder) for folder in ("pairs", "bundles", "traffic"))
    name = str(path.relative_to(FIXTURES)).partition(".")[0]
    return pytest.param(path, id=name, marks=[pytest.mark.slow] if many else [])


def define(capture: Capture, threads: Iterable[Thread]) -> None:
    """Make the tables of the definitions in the schema `accounting` of a capture whose steps were found.

    What SQL cannot tell is made first: op_class (which kernels communicate, by name) and role (of threads).
    """
    db = capture.db
    rows = db.execute("SELECT key, kind, name FROM op_key").fetchall()
    kinds = [_class(kind, name) for _, kind, name in rows]
    keys = np.array([key for key, _, _ in rows], np.uint64)
    create_table(db, "op_class", {"key": keys, "kind": np.array(kinds, object)})
    roles = {thread.tid: thread.role for thread in threads}
    tids = np.array(list(roles), np.int64)
    create_table(db, "role", {"tid": tids, "role": np.array(list(roles.values()), object)})
    db.execute("CREATE SCHEMA accounting")
    for name in DEFINITIONS:
        db.execute(sql(name))


def _class(kind: int, name: str) -> str:
    if kind in (1, 2):
        return "memcpy"
    return "comm" if kind == 0 and is_communication(name) else "compute"


def both(path: Path) -> tuple[Reduction, dict[str, pl.DataFrame]] | None:
    """What the engine and the definitions say; None of a capture without GPU work."""
    with scratch() as folder:
        capture = load_capture(path, folder)
        if is_host_only(capture):
            return None
        reduction = reduce_capture(capture)
        capture.close()
    with scratch() as folder:
        capture = load_capture(path, folder)
        find_steps(capture)
        define(capture, reduction.threads)
        found = {name: frame(capture.db, f"FROM accounting.{name}") for name in TABLES}
        capture.close()
    return reduction, found


def of_engine(reduction: Reduction) -> dict[str, pl.DataFrame]:
    units = reduction.periods.select("pid", "device").unique(maintain_order=True)
    wide = reduction.periods.select("period", *BUSY)
    busy = wide.unpivot(index="period", variable_name="kind", value_name="ns").filter(pl.col("ns") > 0)
    strata = reduction.periods.select("pid", "device", "stratum").unique(maintain_order=True)
    by_unit = [strata.join(unit, on=["pid", "device"]).sort("stratum") for unit in units.iter_slices(1)]
    return {
        "period": reduction.periods.select(
            "period", "pid", "device", "step", "start_ns", "end_ns", "phase", "stratum"
        ),
        "busy": busy,
        "kernel": reduction.kernels.rename({"count": "ops"}),
        "idle": reduction.idle,
        "launch_of_shape": pl.concat(by_unit).hstack(reduction.launch.drop("stratum")),
        "gap_of_shape": reduction.gaps,
    }


def assert_equal(path: Path) -> None:
    found = both(path)
    if found is None:
        pytest.skip("recorded without a GPU")
    reduction, defined = found
    names = reduction.keys["name"]
    defined["gap_of_shape"] = defined["gap_of_shape"].with_columns(
        previous=names.gather(defined["gap_of_shape"]["previous"]),
        next=names.gather(defined["gap_of_shape"]["next"]),
    )
    for name, wanted in of_engine(reduction).items():
        table = defined[name].select(wanted.columns)
        wanted = wanted.cast(dict(table.schema))
        by = TABLES[name]
        assert_frame_equal(table.sort(by), wanted.sort(by), check_exact=False, rel_tol=1e-12, abs_tol=1e-3)
        whole = [one for one in wanted.columns if not wanted[one].dtype.is_float()]
        assert table.select(whole).sort(whole).equals(wanted.select(whole).sort(whole)), name


@pytest.mark.parametrize("path", [_marked(path) for path in CAPTURES])
def test_the_definitions_give_the_numbers_of_the_engine(path):
    assert_equal(path)


@pytest.mark.parametrize("seed", range(6))
def test_the_definitions_give_the_numbers_of_the_engine_on_traces_made_by_chance(seed, tmp_path):
    path = tmp_path / "trace.sqlite"
    trace(seed).write(path)
    assert_equal(path)


def test_every_definition_says_what_its_columns_are():
    for name in DEFINITIONS:
        text = sql(name)
        for statement in text.split("CREATE TABLE accounting.")[1:]:
            assert f"-- {statement.split()[0]}: " in text
