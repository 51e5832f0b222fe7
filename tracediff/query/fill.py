"""One export -> rows of the query's tables, in a database file of DuckDB."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from tracediff.align.kernel_categories import category
from tracediff.align.kernel_names import family
from tracediff.align.places import Places
from tracediff.align.steps import find_steps
from tracediff.align.threads import thread_roles
from tracediff.errors import TracediffError
from tracediff.load.capture import Capture, load_capture
from tracediff.load.database import create_table, identifier, quoted, run_sql, sql
from tracediff.load.scratch import scratch
from tracediff.measure.host_only import is_host_only, reduce_host
from tracediff.measure.reduce import reduce_capture
from tracediff.measure.reduction import Reduction
from tracediff.measure.run import Reading

# Tables that are stored, those of `rows` before their names are spelled out. The other tables are views of these.
_ROWS = {
    "window": "query/rows_window",
    "op": "query/rows_op",
    "api_name": "query/rows_api_name",
    "api_call": "query/rows_api_call",
    "range": "query/rows_range",
    "range_text": "query/rows_range_text",
    "domain": "query/rows_domain",
}
_STORED = ("kernel", "gil", "gc", "thread", "process", "device", "step", "capture")
_MEASURED = ("period", "idle", "kernel_by_step")
VIEWS = ("op", "api_call", "range", "launch")
MEASURED_VIEWS = ("idle_by_step", "range_by_step", "api_by_step", "gil_wait_by_step")

# What a capture may lack without the rest of its tables being of less use.
WITHOUT_STEPS = frozenset({"no-steps", "one-step", "no-whole-step", "no-kernels"})
_KINDS = ("kernels", "cuda_api", "nvtx", "gil", "gc", "graphs", "memcpy", "sync")


@dataclass(frozen=True)
class Place:
    """Where an export goes: schema of its side, numbers of the export and of the run within the side."""

    schema: str
    capture: int
    run: int
    run_name: str
    first_rank: int


def rows_schema(schema: str) -> str:
    """The schema of the tables that views of `schema` are made of."""
    return "stored" if schema == "main" else f"stored_{schema}"


def fill(
    database: Path, path: Path, place: Place, reading: Reading, *, measured: bool
) -> tuple[int, TracediffError | None]:
    """Add the rows of the export at `path`; the ranks it holds, and why it could not be measured if so.

    `measured`: also the tables that take a measurement. Raises `TracediffError`: those of `load_capture` and of
    `reduce_capture`, other than WITHOUT_STEPS.
    """
    with scratch() as folder:
        capture = load_capture(path, folder, memory_limit=reading.memory_limit, threads=reading.threads)
        try:
            return _fill(capture, database, folder, place, reading, measured)
        finally:
            capture.close()


def _fill(
    capture: Capture, database: Path, folder: Path, place: Place, reading: Reading, measured: bool
) -> tuple[int, TracediffError | None]:
    db = capture.db
    source, problem = _steps(capture, reading)
    _words(capture)
    row: dict[str, list[object]] = {
        "run": [place.run], "run_name": [place.run_name], "file": [capture.name],
        "schema_version": [capture.schema.version], "step_source": [source],
    }  # fmt: skip
    row |= {kind: [capture.coverage[kind] == "captured"] for kind in _KINDS}
    _frame(capture, folder, "query_capture", pl.DataFrame(row))
    db.execute(f"ATTACH {quoted(str(database))} AS out")
    db.execute("SET preserve_insertion_order = true")  # rows come in the order that the queries say
    db.execute(f"CREATE SCHEMA IF NOT EXISTS out.{identifier(place.schema)}")
    db.execute(f"CREATE SCHEMA IF NOT EXISTS out.{identifier(rows_schema(place.schema))}")
    numbers = {"capture": place.capture, "run": place.run, "first_rank": place.first_rank}
    for name, path in _ROWS.items():
        _insert(capture, rows_schema(place.schema), name, path, numbers)
    for name in _STORED:
        _insert(capture, place.schema, name, f"query/{name}", numbers)
    ranks = 0
    if measured and problem is None:
        try:
            reduction = _reduce(capture, reading)
        except TracediffError as error:
            if error.slug not in WITHOUT_STEPS:
                raise
            problem = error
        else:
            ranks = reduction.periods["rank"].n_unique()
            _measured(capture, folder, reduction)
            for name in _MEASURED:
                _insert(capture, place.schema, name, f"query/{name}", numbers)
    db.execute("DETACH out")
    return ranks, problem


def _steps(capture: Capture, reading: Reading) -> tuple[str, TracediffError | None]:
    """Tables step, step_text and query_window; where the steps came from, and why there are none if so."""
    if reading.whole_capture:
        run_sql(capture.db, "query/whole_capture", whole=1)
        return "whole-capture", None
    try:
        source = find_steps(capture, reading.step_regex)
    except TracediffError as error:
        if error.slug not in WITHOUT_STEPS:
            raise
        run_sql(capture.db, "query/whole_capture", whole=0)
        return "", error
    run_sql(capture.db, "query/window")
    return source, None


def _words(capture: Capture) -> None:
    """Tables of what SQL cannot tell: categories of kernels, places of ranges, roles of threads."""
    db = capture.db
    run_sql(db, "query/kernel_number")
    names = [str(name) for (name,) in db.execute("SELECT DISTINCT name FROM op_key ORDER BY name").fetchall()]
    _text_table(
        capture,
        "query_word",
        {
            "name": names,
            "category": [category(one) for one in names],
            "family": [family(one) for one in names],
        },
    )
    places = Places(db)
    texts = db.execute("SELECT label, text FROM range_text ORDER BY label").fetchall()
    labels = [int(label) for label, _ in texts]
    _text_table(
        capture,
        "query_place",
        {"text": [str(text) for _, text in texts], "place": [places.of_label(label) for label in labels]},
        {"label": labels},
    )
    launchers: dict[int, list[int]] = {}
    for tid, device in db.execute(sql("query/launcher")).fetchall():
        launchers.setdefault(int(tid), []).append(int(device))
    roles = thread_roles(capture, places, launchers)
    _text_table(
        capture, "query_role", {"role": [thread.role for thread in roles.values()]}, {"tid": list(roles)}
    )


def _text_table(
    capture: Capture,
    name: str,
    texts: Mapping[str, list[str]],
    numbers: Mapping[str, list[int]] | None = None,
) -> None:
    columns = ", ".join([*(f"{one} BIGINT" for one in numbers or {}), *(f"{one} VARCHAR" for one in texts)])
    capture.db.execute(f"CREATE OR REPLACE TEMP TABLE {name} ({columns})")
    if next(iter(texts.values())):
        arrays = {one: np.array(values, np.int64) for one, values in (numbers or {}).items()}
        words = {one: np.array(values, object) for one, values in texts.items()}
        create_table(capture.db, f"{name}_filled", {**arrays, **words})
        capture.db.execute(f"INSERT INTO {name} BY NAME FROM {name}_filled; DROP TABLE {name}_filled")


def _insert(capture: Capture, schema: str, name: str, path: str, numbers: Mapping[str, int]) -> None:
    """Add the rows of one file of sql/query/ to a table of the database file."""
    query = re.sub(r"\{\{(\w+)\}\}", lambda word: str(numbers[word[1]]), sql(path))
    target = f"out.{identifier(schema)}.{identifier(name)}"
    found = capture.db.execute(
        "SELECT count(*) FROM duckdb_tables() WHERE database_name = 'out' AND schema_name = ? AND table_name = ?",
        [schema, name],
    ).fetchone()
    capture.db.execute(
        f"INSERT INTO {target} {query}" if found and found[0] else f"CREATE TABLE {target} AS {query}"
    )


def _reduce(capture: Capture, reading: Reading) -> Reduction:
    if reading.host_only and is_host_only(capture):
        return reduce_host(capture, step_regex=reading.step_regex)
    return reduce_capture(capture, step_regex=reading.step_regex, whole_capture=reading.whole_capture)


def _measured(capture: Capture, folder: Path, reduction: Reduction) -> None:
    """Views of a reduction's tables."""
    _frame(capture, folder, "query_period", reduction.periods)
    _frame(capture, folder, "query_idle", reduction.idle)
    _frame(capture, folder, "query_kernel_time", reduction.kernels)
    _frame(capture, folder, "query_key", reduction.keys)


def _frame(capture: Capture, folder: Path, name: str, frame: pl.DataFrame) -> None:
    """A view of a frame, by way of a file: handing it over in memory would need pyarrow."""
    path = folder / f"{name}.parquet"
    frame.write_parquet(path, compression="uncompressed")
    capture.db.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS FROM read_parquet({quoted(str(path))})")
