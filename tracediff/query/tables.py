"""`Tables`: the captures of one or two sides as tables that SQL can be asked of."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import polars as pl

from tracediff.accounting.reduce import is_host_only, reduce_capture, reduce_host
from tracediff.accounting.reduction import Reduction
from tracediff.errors import TracediffError
from tracediff.execution.run import Reading
from tracediff.formats.bundle import is_bundle
from tracediff.formats.capture import Capture, load_capture
from tracediff.formats.database import create_table, identifier, quoted, run_sql, sql
from tracediff.formats.inputs import SideFiles, resolve, resolve_pair
from tracediff.formats.scratch import scratch
from tracediff.kernels.categories import category
from tracediff.kernels.names import family
from tracediff.query import guard
from tracediff.query.guard import Answer, in_thread
from tracediff.query.reference import MEASURED, TABLES
from tracediff.trace.ranges import Places
from tracediff.trace.steps import find_steps
from tracediff.trace.threads import thread_roles

if TYPE_CHECKING:
    import polars as pl


# One export -> rows of the query's tables, in a database file of DuckDB.

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


SCHEMAS = ("baseline", "candidate")


class Tables:
    """Tables of captures, to be closed when done: they are a database file in a scratch folder.

    One side has its tables in the schema `main`, where they need no prefix; two have theirs in `baseline` and
    `candidate`. Nothing else can be read, and nothing written: see guard.
    """

    def __init__(
        self,
        sides: Sequence[SideFiles],
        reading: Reading | None = None,
        *,
        measured: bool = True,
        progress: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Read one side, or baseline and candidate.

        `measured`: also the tables that take a measurement as `compare` makes it. Raises `TracediffError` as loading
        does; an export without steps or kernels only lacks the tables that need them (see `missing`).
        """
        assert 1 <= len(sides) <= 2
        reading = reading or Reading()
        self.schemas = _schemas(len(sides))
        self.missing: dict[str, TracediffError] = {}  # schema -> why its measured tables are not there
        self.measured = measured
        self._open = ExitStack()
        try:
            folder = self._open.enter_context(scratch())
            path = folder / "tables.duckdb"

            def read() -> None:
                for schema, side in zip(self.schemas, sides, strict=True):
                    problem = _fill_side(path, schema, side, reading, measured, progress)
                    if problem is not None:
                        self.missing[schema] = problem
                _make_views(path, [(one, measured and one not in self.missing) for one in self.schemas])

            in_thread(read)
            self._db = guard.connect(path, memory_limit=reading.memory_limit, threads=reading.threads)
            self._open.callback(self._db.close)
        except BaseException:
            self._open.close()
            raise

    def close(self) -> None:
        """Forget the tables and remove the scratch folder."""
        self._open.close()

    def __enter__(self) -> Tables:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, text: str, limit: int | None = None) -> list[Answer]:
        """Run SQL; the answer of each statement that has one, at most `limit` rows of it. Errors: see `guard.run`.

        Raises also what kept a table from being made where the SQL names it: no-steps, no-kernels, ...
        """
        if self.missing and needs_measuring(text):
            raise next(iter(self.missing.values()))
        return guard.run(self._db, text, limit)

    def names(self) -> list[str]:
        """The tables that are there, in the order of the documentation, without their schema."""
        gone = set(MEASURED) if not self.measured or len(self.missing) == len(self.schemas) else set()
        return [name for name in TABLES if name not in gone]

    def table(self, name: str, schema: str = "main") -> pl.DataFrame:
        """A whole table as a frame."""
        (answer,) = self.run(f"FROM {identifier(schema)}.{identifier(name)}")
        return answer.frame

    def not_captured(self, text: str) -> list[str]:
        """What to say of tables that the SQL names and that are empty because nothing of the kind was captured."""
        notes = []
        for schema in self.schemas:
            for table, kind in (
                ("gil", "gil"),
                ("gil_wait_by_step", "gil"),
                ("gc", "gc"),
                ("api_call", "cuda_api"),
            ):
                if re.search(rf"\b{table}\b", text, re.IGNORECASE):
                    rows = self._db.execute(
                        f"SELECT file FROM {identifier(schema)}.capture WHERE NOT {kind} ORDER BY capture"
                    ).fetchall()
                    what = "no collection was recorded" if kind == "gc" else f"{kind} was not captured"
                    notes += [f"{table}: {what} in {file}" for (file,) in rows]
        return list(dict.fromkeys(notes))


def sides_of(words: Sequence[str]) -> list[SideFiles]:
    """The sides that one or two words name, each as `compare` takes it; a capture bundle alone holds both."""
    if len(words) == 1 and is_bundle(Path(words[0])):
        baseline, candidate, _ = resolve_pair(words[0], None)
        return [baseline, candidate]
    return [resolve(word) for word in words]


def check(text: str, sides: int) -> None:
    """Find the mistakes in SQL before any capture is read. Raises `TracediffError`: see `guard.check`."""
    with scratch() as folder:
        path = folder / "empty.duckdb"
        guard.empty(path, list(_schemas(sides)))
        db = guard.connect(path)
        try:
            guard.check(db, text)
        finally:
            db.close()


def needs_measuring(text: str) -> bool:
    """Whether SQL may name a table that takes a measurement."""
    return re.search(rf"\b({'|'.join(MEASURED)})\b", text, re.IGNORECASE) is not None


def _schemas(sides: int) -> tuple[str, ...]:
    return ("main",) if sides == 1 else SCHEMAS


def _fill_side(
    path: Path,
    schema: str,
    side: SideFiles,
    reading: Reading,
    measured: bool,
    progress: Callable[[str], None],
) -> TracediffError | None:
    number, problem = 0, None
    for run_number, run in enumerate(side.runs):
        first_rank = 0
        for nth, file in enumerate(run.files):
            progress(file.name)
            if run.ranks is not None:
                first_rank = max(first_rank, run.ranks[nth])  # as in reports
            place = Place(schema, number, run_number, run.name, first_rank)
            ranks, found = fill(path, file, place, reading, measured=measured and problem is None)
            number, first_rank, problem = number + 1, first_rank + ranks, problem or found
    return problem


def _make_views(path: Path, schemas: Sequence[tuple[str, bool]]) -> None:
    db = duckdb.connect(path)
    try:
        for schema, measured in schemas:
            rows = rows_schema(schema)
            if measured:
                _view(db, rows, "host_step", "query/rows_host_step", schema)
            for name in (*VIEWS, *(MEASURED_VIEWS if measured else ())):
                _view(db, schema, name, TABLES[name], schema)
    finally:
        db.close()


def _view(db: duckdb.DuckDBPyConnection, target: str, name: str, path: str, schema: str) -> None:
    query = sql(path).replace("{{rows}}", rows_schema(schema)).replace("{{side}}", schema)
    db.execute(f"CREATE VIEW {identifier(target)}.{identifier(name)} AS {query}")
