"""A connection that reads the tables of one database file and nothing else, and what goes wrong with a user's SQL.

Two walls: only statements that read are run, and the connection could not do more if they were not: the file is open
read-only, there is no access to other files, no extension can be loaded, and no setting can be changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import duckdb

from tracediff.errors import TracediffError
from tracediff.formats.database import identifier, quoted
from tracediff.query.reference import TABLES, tables

if TYPE_CHECKING:
    import polars as pl


# Waiting for the database in such a way that Ctrl-C is heard at once.

T = TypeVar("T")


def in_thread(work: Callable[[], T], stop: Callable[[], None] | None = None) -> T:
    """Do the work in another thread, so that Ctrl-C and SIGTERM reach this one; return or raise what it does.

    Broken off, `stop` is called until the work has ended; without it the work is left behind, for the process ends.
    """
    pool = ThreadPoolExecutor(1, thread_name_prefix="tracediff")
    running = pool.submit(work)
    try:
        while not running.done():
            wait(
                [running], timeout=0.2
            )  # in turns: a wait without an end never hears of Ctrl-C, see measure/run
    except BaseException:
        while stop is not None and not running.done():
            stop()
            wait([running], timeout=0.2)
        raise
    finally:
        pool.shutdown(wait=running.done())
    return running.result()


# CREATE: of a temporary view or table, and what PIVOT makes of itself; anything else meets a read-only file.
_READING = frozenset({"SELECT", "EXPLAIN", "CREATE"})
# Turned on with a file as its target, it would leave the connection of no use.
_FORBIDDEN = re.compile(r"\benable_logging\b", re.IGNORECASE)
# Types that polars cannot take over, or takes for bytes.
_AS_TEXT = re.compile(r"INTERVAL|UNION|BIT\b|BIGNUM|VARINT|TIME WITH TIME ZONE|VARIANT|GEOMETRY")
_WHOLE = re.compile(r"U?HUGEINT\Z")


@dataclass(frozen=True)
class Answer:
    """Rows of a query, and whether there are more of them than were asked for."""

    frame: pl.DataFrame
    cut: bool


def connect(
    path: Path, *, memory_limit: str | None = None, threads: int | None = None
) -> duckdb.DuckDBPyConnection:
    """Open the database file. Raises `TracediffError`: bad-limit."""
    config: dict[str, str | bool | int | float | list[str]] = {
        "enable_external_access": False,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "allow_community_extensions": False,
        "allow_persistent_secrets": False,
        "python_enable_replacements": False,  # a table is a table, never a variable of this program
    }
    db = duckdb.connect(path, read_only=True, config=config)
    try:
        if memory_limit is not None:
            db.execute(f"SET memory_limit = {quoted(memory_limit)}")
        if threads is not None:
            db.execute(f"SET threads = {int(threads)}")
    except duckdb.Error as error:
        db.close()
        raise TracediffError(
            "bad-limit", f"DuckDB refused a limit: {error}", fix="--memory-limit 2GiB"
        ) from error
    db.execute("SET lock_configuration = true")
    return db


def empty(path: Path, schemas: list[str]) -> None:
    """Make a database file with all tables and no rows: SQL can be checked against it before anything is read."""
    db = duckdb.connect(path)
    for schema in schemas:
        db.execute(f"CREATE SCHEMA IF NOT EXISTS {identifier(schema)}")
        for table in tables():
            columns = ", ".join(f"{identifier(column.name)} {column.type}" for column in table.columns)
            db.execute(f"CREATE TABLE {identifier(schema)}.{identifier(table.name)} ({columns})")
    db.close()


def split(text: str) -> list[str]:
    """The statements of a text, without those that are empty or only comments."""
    raw = text.encode()
    tokens = [start for start, _ in duckdb.tokenize(text)]  # without comments and white space, in bytes
    ends = [start for start in tokens if raw[start : start + 1] == b";"]
    edges = [*zip([0, *(end + 1 for end in ends)], [*ends, len(raw)], strict=True)]
    return [raw[low:high].decode() for low, high in edges if any(low <= start < high for start in tokens)]


def _statements(db: duckdb.DuckDBPyConnection, text: str) -> list[tuple[str, bool]]:
    """The statements of a text, and which of them are a plain SELECT. Raises as `run` does."""
    found = []
    for one in split(text):
        # one word may become several statements (PIVOT); some statements are looked into while they are parsed
        kinds = [part.type.name for part in db.extract_statements(one)]
        refused = [kind for kind in kinds if kind not in _READING]
        if refused or _FORBIDDEN.search(one):
            raise _not_read_only(f"a statement of the kind {(refused or kinds)[0]}")
        found.append((one, kinds == ["SELECT"]))
    return found


def check(db: duckdb.DuckDBPyConnection, text: str) -> None:
    """Find the mistakes in a text that can be seen without rows, on a database of `empty`.

    Raises `TracediffError`: bad-sql, query-not-read-only, no-sql.
    """
    try:
        found = _statements(db, text)
        if not found:
            raise TracediffError(
                "no-sql", "there is no SQL to run", fix="tracediff query CAPTURE 'SELECT ...'"
            )
        for one, select in found:
            db.sql(f"EXPLAIN {one}" if select else one)
    except (duckdb.Error, RuntimeError) as error:
        raise _explain(db, error, text) from error


def run(db: duckdb.DuckDBPyConnection, text: str, limit: int | None = None) -> list[Answer]:
    """Run the statements of a text; the answer of each that has one, at most `limit` rows of it.

    It can be broken off with Ctrl-C. Raises `TracediffError`: bad-sql, query-not-read-only, query-out-of-memory.
    """

    def answers() -> list[Answer]:
        relations = (db.sql(one) for one, _ in _statements(db, text))
        return [_answer(one, limit) for one in relations if one is not None]

    try:
        return in_thread(answers, stop=db.interrupt)
    except (duckdb.Error, RuntimeError) as error:
        raise _explain(db, error, text) from error


def _answer(relation: duckdb.DuckDBPyRelation, limit: int | None) -> Answer:
    import polars as pl

    kinds = [str(kind) for kind in relation.types]
    names = _distinct(relation.columns)
    columns = [
        f"#{number}{'::VARCHAR' if _AS_TEXT.search(kind) else ''} AS {identifier(name)}"
        for number, (name, kind) in enumerate(zip(names, kinds, strict=True), 1)
    ]
    chosen = relation.project(", ".join(columns))
    frame = pl.DataFrame(chosen if limit is None else chosen.limit(limit + 1))
    whole = [name for name, kind in zip(names, kinds, strict=True) if _WHOLE.match(kind)]
    frame = frame.with_columns(_narrow(frame[name]) for name in whole)
    cut = limit is not None and len(frame) > limit
    return Answer(frame.head(limit) if cut and limit is not None else frame, cut)


def _distinct(names: list[str]) -> list[str]:
    """Names of columns, later ones of the same name numbered."""
    seen: set[str] = set()
    out = []
    for name in names:
        number, new = 1, name
        while new in seen:
            number += 1
            new = f"{name}_{number}"
        seen.add(new)
        out.append(new)
    return out


def _narrow(column: pl.Series) -> pl.Series:
    """DuckDB sums integers in 128 bits; those that fit into 64 are whole numbers again, and not decimals."""
    import polars as pl

    narrow = column.cast(pl.Int64, strict=False)
    return narrow if narrow.null_count() == column.null_count() else column


def _not_read_only(what: str) -> TracediffError:
    return TracediffError(
        "query-not-read-only",
        f"captures are read, never changed, and no other file is touched; refused: {what}",
        fix="SELECT, FROM, WITH, VALUES, PIVOT, DESCRIBE, SUMMARIZE, EXPLAIN, CREATE TEMP VIEW; write results with"
        " --csv, --json, --markdown or --parquet FILE",
    )


def _explain(db: duckdb.DuckDBPyConnection, error: Exception, text: str) -> TracediffError:
    said = str(error)
    if isinstance(error, duckdb.ConnectionException):
        return TracediffError("closed", "the captures were closed", fix="open them again")
    if isinstance(error, duckdb.OutOfMemoryException):
        return TracediffError(
            "query-out-of-memory",
            f"the query needs more memory than allowed: {said.splitlines()[0]}",
            fix="raise --memory-limit, or ask for fewer rows",
        )
    if (
        isinstance(error, duckdb.PermissionException)
        or "read-only mode" in said
        or "read only" in said.lower()
    ):
        return _not_read_only(_shortened(said.splitlines()[0]))
    return TracediffError("bad-sql", _shortened(said), fix=_hint(db, said, text))


def _shortened(said: str) -> str:
    """What DuckDB says, without its guesses among tables that are no matter here."""
    lines = [line.rstrip() for line in _without_prefix(said).strip().splitlines()]
    kept = [line for line in lines if line and not (line.startswith("Did you mean") and "pg_" in line)]
    return "\n  ".join(kept)


def _without_prefix(said: str) -> str:
    """The message as if `check` had not put a word before the SQL: the mark below it moves along."""
    found = re.search(r"^LINE 1: EXPLAIN (.*\n)( *)\^", said, re.MULTILINE)
    if found is None or len(found[2]) < len("LINE 1: EXPLAIN "):
        return said
    mark = found[2][len("EXPLAIN ") :]
    return f"{said[: found.start()]}LINE 1: {found[1]}{mark}^{said[found.end() :]}"


def _hint(db: duckdb.DuckDBPyConnection, said: str, text: str) -> str:
    """What there is instead: the columns of the tables that the query names, or the tables."""
    if "Catalog Error: Table" in said or "schema" in said.lower():
        sides = _sides(db)
        place = f" in the schemas {' and '.join(sides)}" if sides else ""
        return f"tables{place}: {', '.join(TABLES)}; tracediff query --schema describes them"
    if "column" in said.lower():
        used = [one for one in tables() if re.search(rf"\b{one.name}\b", text, re.IGNORECASE)]
        if used:
            return "; ".join(
                f"columns of {one.name}: {', '.join(column.name for column in one.columns)}"
                for one in used[:3]
            )
    return "DuckDB's SQL; tracediff query --schema lists tables and columns"


def _sides(db: duckdb.DuckDBPyConnection) -> list[str]:
    rows = db.execute(
        "SELECT schema_name FROM duckdb_schemas() WHERE schema_name IN ('baseline', 'candidate') ORDER BY ALL"
    ).fetchall()
    return [str(name) for (name,) in rows]
