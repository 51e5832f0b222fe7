"""Launches whose work is known, from the tables of a capture: large copies, and the kernels of operators whose shapes are told."""

from __future__ import annotations

import re

import numpy as np
import polars as pl

from tracediff.formats.capture import Capture
from tracediff.formats.database import create_table, frame, run_sql, sql
from tracediff.kernels.categories import category
from tracediff.limits.shapes import Work, math_type, work_of
from tracediff.trace.periods import Unit

WORK = {
    "stratum": pl.Int64, "key": pl.Int64, "kind": pl.String, "dtype": pl.String, "shape": pl.String, "count": pl.Int64, "ns": pl.Int64,
    "flop": pl.Float64, "bytes": pl.Float64,
}  # fmt: skip
_OF = ["kind", "dtype", "shape", "flop", "bytes"]
_LAUNCH = {"start_ns": pl.Int64, "ns": pl.Int64, "pid": pl.Int64, "device": pl.Int64, "key": pl.Int64} | {
    name: WORK[name] for name in _OF
}
# what adds up the parts of a split K or of split keys: the operator's work is all in the kernel before
_HELPER = re.compile(r"splitkreduce|combine", re.IGNORECASE)


def launches_with_work(capture: Capture) -> pl.DataFrame:
    """One row a launch: start_ns, ns, pid, device, key (of op_key), kind, dtype, shape, flop, bytes; before `build_timeline`.

    bytes: null where not known. A kernel that adds up parts has flop 0.
    """
    return pl.concat([_copies(capture), _kernels(capture)])


def work_table(
    capture: Capture, launches: pl.DataFrame, units: list[Unit], periods: pl.DataFrame
) -> pl.DataFrame:
    """The columns of `WORK`: launches that start in whole periods, summed by stratum, kernel and shape; after `build_timeline`."""
    if not len(launches):
        return pl.DataFrame(schema=WORK)
    ids = frame(capture.db, "SELECT key, id FROM key_id")
    launches = launches.join(ids, on="key", maintain_order="left").with_columns(key="id")
    stratum, found, first = periods["stratum"].to_numpy(), [], 0
    for unit in units:
        mine = launches.filter(pid=unit.pid, device=unit.device)
        place = np.searchsorted(unit.bounds, mine["start_ns"].to_numpy(), side="right") - 1
        inside = (place >= 0) & (place < len(unit.step))
        found.append(
            mine.filter(pl.Series(inside)).with_columns(stratum=pl.Series(stratum[first + place[inside]]))
        )
        first += len(unit.step)
    by = ["stratum", "key", "kind", "dtype", "shape"]
    return (
        pl.concat(found)
        .group_by(by)
        .agg(
            pl.len().alias("count"),
            pl.col("ns", "flop").sum(),
            bytes=pl.when(pl.col("bytes").is_not_null().all()).then(pl.col("bytes").sum()),
        )
        .cast(WORK)  # type: ignore[arg-type]
        .select(list(WORK))
        .sort(by)
    )


# of a copy within a device every byte is read and written
_COPIES = {"[memcpy HtoD]": 1.0, "[memcpy DtoH]": 1.0, "[memcpy DtoD]": 2.0}


def _copies(capture: Capture) -> pl.DataFrame:
    """Which way a copy between two GPUs takes is recorded nowhere: these are left out."""
    found = frame(capture.db, sql("limits/copies"))
    return (
        found.filter(pl.col("name").is_in(list(_COPIES)))
        .with_columns(
            kind=pl.lit("copy"),
            dtype=pl.lit(""),
            shape=pl.lit(""),
            flop=pl.lit(0.0),
            bytes=pl.col("bytes") * pl.col("name").replace_strict(_COPIES, return_dtype=pl.Float64),
        )
        .select(list(_LAUNCH))
        .cast(_LAUNCH)  # type: ignore[arg-type]
    )


def _kernels(capture: Capture) -> pl.DataFrame:
    db, none = capture.db, pl.DataFrame(schema=_LAUNCH)
    if not db.execute(
        "SELECT 1 FROM range_text WHERE text LIKE 'aten::%, sizes = [[%' UNION ALL SELECT 1 FROM shape_payload LIMIT 1"
    ).fetchone():
        return none
    run_sql(db, "limits/operators")
    works: dict[tuple[str, str | None], Work | None] = {
        (text, json): work_of(text, json)
        for text, json in db.execute("SELECT DISTINCT text, json FROM operator").fetchall()
    }
    operators = db.execute("SELECT text, json, start_ns, end_ns, tid FROM operator ORDER BY ALL").fetchall()
    db.execute("DROP TABLE operator")
    runs = [(work, *row[2:]) for row in operators if (work := works[row[0], row[1]]) is not None]
    if not runs:
        return none
    times = np.array([row[1:] for row in runs], np.int64)
    columns = {"run": np.arange(len(runs)), **dict(zip(("start_ns", "end_ns", "tid"), times.T, strict=True))}
    create_table(db, "known", columns)
    found = frame(db, sql("limits/kernels_of_operators"))
    db.execute("DROP TABLE known")
    return _main_kernels(found, [row[0] for row in runs])


def _main_kernels(found: pl.DataFrame, runs: list[Work]) -> pl.DataFrame:
    """The kernel that does the work of each operator, where just one of its category does, and what adds up its parts."""
    distinct = list(dict.fromkeys(runs))
    number = {work: place for place, work in enumerate(distinct)}
    of_run = pl.DataFrame({"run": range(len(runs)), "work": [number[work] for work in runs]})
    found = found.join(of_run, on="run", maintain_order="left")
    rows = []
    for work_number, name in found.select("work", "name").unique(maintain_order=True).iter_rows():
        work, helps = distinct[work_number].of_kernel(name), bool(_HELPER.search(name))
        if work and category(name) == work.kind:
            dtype = "" if helps else math_type(work.dtype, name)
            told = ("", "", 0.0, None) if helps else (dtype, work.shape, work.flop, work.moved(dtype))
            rows.append((work_number, name, helps, work.kind, *told))
    schema = {"work": pl.Int64, "name": pl.String, "helps": pl.Boolean} | {name: WORK[name] for name in _OF}
    kinds = pl.DataFrame(rows, schema=schema, orient="row")
    return (
        found.join(kinds, on=["work", "name"], maintain_order="left")
        .filter((~pl.col("helps")).sum().over("run") == 1)
        .select(list(_LAUNCH))
    )
