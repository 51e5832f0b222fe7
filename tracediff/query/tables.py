"""`Tables`: the captures of one or two sides as tables that SQL can be asked of."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from tracediff.capture.bundle import is_bundle
from tracediff.errors import TracediffError
from tracediff.load.database import identifier, sql
from tracediff.load.inputs import SideFiles, resolve, resolve_pair
from tracediff.load.scratch import scratch
from tracediff.measure.run import Reading
from tracediff.query import guard
from tracediff.query.fill import MEASURED_VIEWS, VIEWS, Place, fill, rows_schema
from tracediff.query.guard import Answer
from tracediff.query.patience import in_thread
from tracediff.query.reference import MEASURED, TABLES

if TYPE_CHECKING:
    import polars as pl

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
