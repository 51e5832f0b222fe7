"""The definitions in SQL give the numbers of the engine, on every bundled capture: equal integers, shares of ns as floats."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from _pytest.mark import ParameterSet
from polars.testing import assert_frame_equal

from tests.oracle.random_traces import trace
from tests.tiny import FIXTURES
from tracediff.accounting.definitions import FILES, define
from tracediff.accounting.reduce import is_host_only, reduce_capture
from tracediff.accounting.reduction import Reduction
from tracediff.formats.capture import load_capture
from tracediff.formats.database import frame, sql
from tracediff.formats.files import scratch
from tracediff.trace.steps import find_steps

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
    for name in FILES:
        text = sql(f"accounting/{name}")
        for statement in text.split("CREATE TABLE accounting.")[1:]:
            assert f"-- {statement.split()[0]}: " in text
