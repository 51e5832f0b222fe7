"""`Tables`: the captures of one or two sides as tables that SQL can be asked of."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import duckdb
import polars as pl

from tracediff.accounting.reduce import is_host_only, reduce_capture, reduce_host
from tracediff.accounting.reduction import Reduction
from tracediff.errors import TracediffError, disk_full
from tracediff.execution.run import reduce_sides
from tracediff.execution.sides import Reading, warnings_of
from tracediff.formats.bundle import is_bundle
from tracediff.formats.capture import Capture, load_capture
from tracediff.formats.database import create_table, identifier, quoted, run_sql, sql
from tracediff.formats.files import scratch
from tracediff.formats.inputs import SideFiles, resolve, resolve_pair
from tracediff.formats.lost import calls_lost
from tracediff.kernels.names import category, family
from tracediff.model.common import CALLS_LOST, NO_STEPS, Note
from tracediff.query import apart, guard
from tracediff.query.apart import Bounds
from tracediff.query.guard import Answer, in_thread
from tracediff.query.reference import ALIGNED, EVENTS, MEASURED, names, tables
from tracediff.trace.steps import find_steps
from tracediff.trace.threads import Places, thread_roles

SCHEMAS = ("baseline", "candidate")

# Rows before their names are spelled out, which views do: sql/rows_NAME.sql.
_ROWS = ("window", "op", "api_name", "api_call", "range", "range_text", "domain")
# What a capture may lack without the rest of its tables being of less use.
_WITHOUT_STEPS = frozenset({"no-steps", "one-step", "no-whole-step", "no-kernels", "nothing-recorded"})
_KINDS = ("kernels", "cuda_api", "nvtx", "gil", "gc", "graphs", "memcpy", "sync")
_LISTING = ("show", "information_schema", "duckdb_tables", "duckdb_views", "duckdb_columns")
_OF_KIND = {"gil": "gil", "gil_wait_by_step": "gil", "gc": "gc", "api_call": "cuda_api"}


class Tables:
    """Tables of captures, to be closed when done: they are a database file in a scratch folder.

    One side has its tables in the schema `main`, where they need no prefix; two have theirs in `baseline` and
    `candidate`, and in `main` what puts them side by side, made when SQL first names it. Nothing else can be read,
    and nothing written: see guard.
    """

    def __init__(
        self,
        sides: Sequence[SideFiles],
        reading: Reading | None = None,
        *,
        events: bool = True,
        measured: bool = True,
        progress: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Read one side, or baseline and candidate.

        `events`: the tables of each side; `measured`: also those that take a measurement as `compare` makes it. Raises
        `TracediffError` as loading does; an export without steps or kernels only lacks the tables that need them (see `missing`).
        """
        self._reading = reading = reading or Reading()
        self._sides, self._progress, self._events = sides, progress, events
        self.schemas = _schemas(len(sides))
        self.missing: dict[str, TracediffError] = {}  # schema -> why its measured tables are not there
        # of what the tables lack: calls that the profiler lost, steps that were not found
        self.notes: list[Note] = []
        self.measured = measured
        self._aligned = False
        self._open = ExitStack()
        try:
            path = self._path = self._open.enter_context(scratch()) / "tables.duckdb"

            def read() -> None:
                for schema, side in zip(self.schemas, sides if events else (), strict=events):
                    problem = _fill_side(path, schema, side, reading, measured, self.notes, progress)
                    if problem is not None:
                        self.missing[schema] = problem
                    _make_views(path, schema, measured and schema not in self.missing)

            with _on_disk():
                in_thread(read)
            if not events:
                duckdb.connect(path).close()
            self._connect()
            self._open.callback(lambda: self._db.close())
        except BaseException:
            self._open.close()
            raise

    def _connect(self) -> None:
        self._db = guard.connect(
            self._path, memory_limit=self._reading.memory_limit, threads=self._reading.threads
        )

    def _align(self) -> None:
        """Add the tables of both sides. Raises what reading and comparing them does."""
        from tracediff.comparison.compare import align

        sides = reduce_sides(self._sides, self._reading, self._progress)
        self.notes += [note for note in warnings_of(sides) if note.slug in (CALLS_LOST, NO_STEPS)]
        alignment = align(*sides)
        self._db.close()
        with _on_disk(), duckdb.connect(self._path) as db:
            for name in ALIGNED:
                create_table(db, name, alignment.frame(name))
        self._connect()
        self._aligned = True

    def close(self) -> None:
        """Forget the tables and remove the scratch folder."""
        self._open.close()

    def __enter__(self) -> Tables:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, text: str, limit: int | None = None, bounds: Bounds | None = None) -> list[Answer]:
        """Run SQL; the answer of each statement that has one, at most `limit` rows of it. Errors: see `guard.run`, `apart.run`.

        `bounds`: in a process of its own; None: in this one, without bounds. Raises also what kept a table from being made where the SQL names it: no-steps, no-kernels, ...
        """
        if self.missing and needs_measuring(text):
            raise next(iter(self.missing.values()))
        if needs_aligning(text) and len(self.schemas) > 1 and not self._aligned:
            self._align()
        return (
            guard.run(self._db, text, limit) if bounds is None else apart.run(self._path, text, limit, bounds)
        )

    def names(self) -> list[str]:
        """The tables that are there, in the order of the documentation, without their schema."""
        without = not self.measured or len(self.missing) == len(self.schemas)
        both = ALIGNED if len(self.schemas) > 1 else ()
        return [*EVENTS, *both] if without else [*EVENTS, *MEASURED, *both]

    def table(self, name: str, schema: str = "main") -> pl.DataFrame:
        """A whole table as a frame."""
        (answer,) = self.run(f"FROM {identifier(schema)}.{identifier(name)}")
        return answer.frame

    def remarks(self, text: str) -> list[str]:
        """What to say of the tables: what they lack, and which of those that the SQL names are empty because nothing of the kind was captured."""
        notes = [f"{note.message} [{note.slug}]" for note in self.notes]
        for table, kind in _OF_KIND.items() if self._events else ():
            if names(text, [table]):
                what = "no collection was recorded" if kind == "gc" else f"{kind} was not captured"
                for schema in self.schemas:
                    rows = self._db.execute(
                        f"SELECT file FROM {schema}.capture WHERE NOT {kind} ORDER BY capture"
                    )
                    notes += [f"{table}: {what} in {file}" for (file,) in rows.fetchall()]
        if names(text, _LISTING):
            notes.append(
                "a table is made where SQL names it: the schema (tracediff query --schema) lists all"
            )
        return list(dict.fromkeys(notes))


def sides_of(words: Sequence[str]) -> list[SideFiles]:
    """The sides that one or two words name, each as `compare` takes it; a capture bundle alone holds both."""
    if len(words) == 1 and is_bundle(Path(words[0])):
        return [*resolve_pair(words[0], None)[:2]]
    return [resolve(word) for word in words]


def check(text: str, sides: int, bounds: Bounds) -> None:
    """Find the mistakes in SQL before any capture is read. Raises `TracediffError`: see `apart.check`."""
    with _on_disk(), scratch() as folder:
        guard.empty(folder / "empty.duckdb", _schemas(sides))
        apart.check(folder / "empty.duckdb", text, bounds)


def needs_measuring(text: str) -> bool:
    """Whether SQL may name a table that takes a measurement."""
    return names(text, MEASURED)


def needs_aligning(text: str) -> bool:
    """Whether SQL may name a table of both sides."""
    return names(text, ALIGNED)


def needs_events(text: str) -> bool:
    """Whether SQL may name a table of one side: of two, those have the name of the side before them."""
    of_side = rf'\b({"|".join(SCHEMAS)})"?\s*\.'
    return not needs_aligning(text) or re.search(of_side, text, re.IGNORECASE) is not None


@contextmanager
def _on_disk() -> Iterator[None]:
    """Raise disk-full where the tables cannot be written."""
    try:
        yield
    except (duckdb.Error, pl.exceptions.PolarsError, OSError) as error:
        if os.strerror(errno.ENOSPC) not in str(error):
            raise
        raise disk_full("the tables of the captures could not be written: no space left") from error


def _schemas(sides: int) -> tuple[str, ...]:
    return ("main",) if sides == 1 else SCHEMAS


def _rows_schema(schema: str) -> str:
    return "stored" if schema == "main" else f"stored_{schema}"


def _fill_side(
    database: Path,
    schema: str,
    side: SideFiles,
    reading: Reading,
    measured: bool,
    notes: list[Note],
    progress: Callable[[str], None],
) -> TracediffError | None:
    """Add the rows of every export of a side, and to `notes` what they lack; why it has no measured tables, if so."""
    number, problem = 0, None
    for run_number, run in enumerate(side.runs):
        first_rank = next_rank = 0
        for nth, path in enumerate(run.files):
            progress(path.name)
            if nth == 0 or run.places[nth] != run.places[nth - 1]:  # windows of one process have its ranks
                first_rank = max(next_rank, run.ranks[nth] if run.ranks else 0)  # as in reports
            numbers = {"capture": number, "run": run_number, "first_rank": first_rank}
            with scratch() as folder:
                capture = load_capture(
                    path,
                    folder,
                    memory_limit=reading.memory_limit,
                    threads=reading.threads,
                    export=reading.export,
                )
                try:
                    notes += calls_lost(capture.db, capture.name)[0]
                    capture.db.execute(f"ATTACH {quoted(str(database))} AS out")
                    filling = _Filling(capture, folder, schema, numbers, reading)
                    found = capture.bounded(partial(filling.events, run.name))
                    if measured and problem is None and found is None:
                        ranks, found = capture.bounded(filling.measured)
                        next_rank = max(next_rank, first_rank + ranks)
                    problem = problem or found
                    capture.db.execute("DETACH out")
                finally:
                    capture.close()
            number += 1
    return problem


class _Filling:
    """One export, whose rows go into the database that is attached as `out`."""

    def __init__(
        self, capture: Capture, folder: Path, schema: str, numbers: Mapping[str, int], reading: Reading
    ) -> None:
        self.capture, self.folder, self.schema = capture, folder, schema
        self.numbers, self.reading = numbers, reading

    def events(self, run_name: str) -> TracediffError | None:
        """Rows of what was recorded; why steps cannot be measured, if so."""
        source, problem = self._steps()
        self._words()
        row = {
            "run": self.numbers["run"], "run_name": run_name, "file": self.capture.name,
            "schema_version": self.capture.schema.version, "step_source": source,
        }  # fmt: skip
        row |= {kind: self.capture.coverage[kind] == "captured" for kind in _KINDS}
        self._frame("query_capture", pl.DataFrame(row))
        # rows come in the order that the queries say
        self.capture.db.execute("SET preserve_insertion_order = true")
        for name in _ROWS:
            self._insert(_rows_schema(self.schema), name, sql(f"query/rows_{name}"))
        self._insert_stored(measured=False)
        return problem

    def measured(self) -> tuple[int, TracediffError | None]:
        """Rows of what is measured: how many ranks they are of, or why there are none."""
        try:
            reduction = self._reduction()
        except TracediffError as error:
            if error.slug not in _WITHOUT_STEPS:
                raise
            return 0, error
        self._frame("query_period", reduction.periods)
        self._frame("query_idle", reduction.idle)
        self._frame("query_kernel_time", reduction.kernels)
        self._frame("query_key", reduction.keys)
        self._insert_stored(measured=True)
        return reduction.periods["rank"].n_unique(), None

    def _reduction(self) -> Reduction:
        reduce = reduce_host if is_host_only(self.capture) else reduce_capture
        return reduce(self.capture, step_regex=self.reading.step_regex)

    def _steps(self) -> tuple[str, TracediffError | None]:
        """Tables step, step_text and query_window; where the steps came from, and why there are none if so."""
        db = self.capture.db
        try:
            source = find_steps(self.capture, self.reading.step_regex).source
        except TracediffError as error:
            if error.slug not in _WITHOUT_STEPS:
                raise
            run_sql(db, "query/no_steps")
            return "", error
        run_sql(db, "query/window")
        return source, None

    def _words(self) -> None:
        """Tables of what SQL cannot tell: categories of kernels, places of ranges, roles of threads."""
        db = self.capture.db
        run_sql(db, "query/kernel_number")
        names = [
            str(name) for (name,) in db.execute("SELECT DISTINCT name FROM op_key ORDER BY name").fetchall()
        ]
        words = [(name, category(name), family(name)) for name in names]
        self._frame("query_word", _frame_of(words, name=pl.String, category=pl.String, family=pl.String))
        places = Places(db)
        texts = db.execute("SELECT label, text FROM range_text ORDER BY label").fetchall()
        found = [(int(label), str(text), places.of_label(label)) for label, text in texts]
        self._frame("query_place", _frame_of(found, label=pl.Int64, text=pl.String, place=pl.String))
        launchers: dict[int, list[int]] = {}
        for tid, device in db.execute(sql("query/launcher")).fetchall():
            launchers.setdefault(int(tid), []).append(int(device))
        roles = thread_roles(self.capture, places, launchers)
        found_roles = [(tid, thread.role) for tid, thread in roles.items()]
        self._frame("query_role", _frame_of(found_roles, tid=pl.Int64, role=pl.String))

    def _frame(self, name: str, frame: pl.DataFrame) -> None:
        """A view of a frame, by way of a file, so that DuckDB does not hold it in memory a second time."""
        path = self.folder / f"{name}.parquet"
        frame.write_parquet(path, compression="uncompressed")
        self.capture.db.execute(
            f"CREATE OR REPLACE TEMP VIEW {name} AS FROM read_parquet({quoted(str(path))})"
        )

    def _insert_stored(self, *, measured: bool) -> None:
        for one in tables():
            if one.stored and one.measured is measured:
                self._insert(self.schema, one.name, one.sql)

    def _insert(self, schema: str, name: str, text: str) -> None:
        """Add the rows of a file of sql/ to a table of the database."""
        query = re.sub(r"\{\{(\w+)\}\}", lambda word: str(self.numbers[word[1]]), text)
        target = f"out.{identifier(schema)}.{identifier(name)}"
        db = self.capture.db
        db.execute(f"CREATE SCHEMA IF NOT EXISTS out.{identifier(schema)}")
        db.execute(f"CREATE TABLE IF NOT EXISTS {target} AS {query.rstrip().rstrip(';')} LIMIT 0")
        db.execute(f"INSERT INTO {target} {query}")


def _frame_of(rows: Sequence[tuple[object, ...]], **types: type[pl.DataType]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=types, orient="row")


def _make_views(database: Path, schema: str, measured: bool) -> None:
    rows = _rows_schema(schema)
    views = [(rows, "host_step", sql("query/rows_host_step"))] if measured else []
    views += [
        (schema, one.name, one.sql) for one in tables() if not one.stored and (measured or not one.measured)
    ]
    with duckdb.connect(database) as db:
        for target, name, text in views:
            query = text.replace("{{rows}}", rows).replace("{{side}}", schema)
            db.execute(f"CREATE VIEW {identifier(target)}.{identifier(name)} AS {query}")
