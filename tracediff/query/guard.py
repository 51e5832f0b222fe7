"""A connection that reads the tables of one database file and nothing else, and what goes wrong with a user's SQL.

Two walls: only statements that read are run, and the connection could not do more if they were not: the file is open
read-only, there is no access to other files, no extension can be loaded, and no setting can be changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import duckdb
import msgspec

from tracediff.errors import TracediffError
from tracediff.formats.database import identifier, set_limits
from tracediff.query.reference import aligned, names, tables

if TYPE_CHECKING:
    import polars as pl

T = TypeVar("T")

# CREATE: of a temporary view or table, and what PIVOT makes of itself; anything else meets a read-only file.
_READING = frozenset({"SELECT", "EXPLAIN", "CREATE"})
# Functions that change what the connection does, or write; a word in a text may well be "checkpoint".
_FORBIDDEN = re.compile(
    r"\b(?:(?:en|dis)able_(?:logging|profil\w*)|write_log|truncate_duckdb_logs|(?:force_)?checkpoint\"?\s*\()",
    re.IGNORECASE,
)
# A macro of such a name would be taken for the function.
_TAKEN = """
SELECT function_name FROM duckdb_functions() WHERE NOT internal INTERSECT SELECT function_name FROM duckdb_functions() WHERE internal
"""
# Types that polars cannot take over, or takes for bytes. Dates: those beyond its calendar make it panic, and no table has any.
_AS_TEXT = re.compile(
    r"INTERVAL|UNION|BIT\b|BIGNUM|VARINT|TIME WITH TIME ZONE|VARIANT|GEOMETRY|DATE|TIMESTAMP"
)
_WHOLE = re.compile(r"U?HUGEINT\Z")


class Answer(msgspec.Struct, frozen=True):
    """Rows of a query, and whether there are more of them than were asked for."""

    frame: pl.DataFrame
    cut: bool


def connect(
    path: Path,
    *,
    memory_limit: str | None = None,
    threads: int | None = None,
    spill: Path | None = None,
    disk: str | None = None,
) -> duckdb.DuckDBPyConnection:
    """Open the database file. `spill`: a folder for what does not fit, `disk`: how much of it, "4GiB".

    Raises `TracediffError`: bad-limit.
    """
    config: dict[str, str | bool | int | float | list[str]] = {
        "enable_external_access": False,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "allow_community_extensions": False,
        "allow_persistent_secrets": False,
        "python_enable_replacements": False,  # a table is a table, never a variable of this program
    }
    if spill is not None:
        config["temp_directory"] = str(spill)
    db = duckdb.connect(path, read_only=True, config=config)
    set_limits(db, memory_limit=memory_limit, threads=threads, max_temp_directory_size=disk)
    db.execute("SET lock_configuration = true")
    return db


def empty(path: Path, schemas: tuple[str, ...]) -> None:
    """Make a database file with all tables and no rows: SQL can be checked against it before anything is read."""
    made = [(schema, one) for schema in schemas for one in tables()]
    made += [("main", one) for one in aligned() if len(schemas) > 1]
    with duckdb.connect(path) as db:
        db.execute("BEGIN" + "".join(f"; CREATE SCHEMA IF NOT EXISTS {identifier(one)}" for one in schemas))
        for schema, table in made:
            columns = ", ".join(f"{identifier(column.name)} {column.type}" for column in table.columns)
            db.execute(f"CREATE TABLE {identifier(schema)}.{identifier(table.name)} ({columns})")
        db.commit()  # once: each waits for the disk


def check(db: duckdb.DuckDBPyConnection, text: str) -> None:
    """Find the mistakes in a text that can be seen without rows, on a database of `empty`.

    Statements that make a view or a table for later ones are run. Raises `TracediffError`: bad-sql, query-not-read-only, no-sql.
    """
    found: list[tuple[str, bool]] = []
    try:
        found = _statements(db, text)
        for one, select in found:
            db.execute(f"EXPLAIN\n{one}" if select else f"\n{one}")
            if not select:
                _refuse_taken_names(db)
    except (duckdb.Error, RuntimeError) as error:
        raise _explained(db, error, text, line=1 if found else 0) from error
    if not found:
        raise TracediffError("no-sql", "there is no SQL to run", fix="tracediff query CAPTURE 'SELECT ...'")


def run(db: duckdb.DuckDBPyConnection, text: str, limit: int | None = None) -> list[Answer]:
    """Run the statements of a text; the answer of each that has one, at most `limit` rows of it. What they make is gone after them.

    It can be broken off with Ctrl-C. Raises `TracediffError`: bad-sql, query-not-read-only, query-out-of-memory.
    """

    def answers(own: duckdb.DuckDBPyConnection) -> Iterator[Answer]:
        for one, select in _statements(own, text):
            relation = own.sql(one)
            if not select:
                _refuse_taken_names(own)
            if relation is not None:
                yield _answer(relation, limit)

    try:
        with db.cursor() as own:
            return in_thread(lambda: list(answers(own)), stop=own.interrupt)
    except (duckdb.Error, RuntimeError) as error:
        raise _explained(db, error, text) from error


def _refuse_taken_names(db: duckdb.DuckDBPyConnection) -> None:
    """Raise `TracediffError` bad-sql where a statement has made a macro that is called like a function of DuckDB."""
    taken = db.execute(_TAKEN).fetchone()
    if taken is not None:
        raise TracediffError(
            "bad-sql",
            f"a macro {taken[0]} would hide the function of that name",
            fix="call it something else",
        )


def in_thread(work: Callable[[], T], stop: Callable[[], None] | None = None) -> T:
    """Do the work in another thread, so that Ctrl-C and SIGTERM reach this one; return or raise what it does.

    Broken off, `stop` is called until the work has ended; without it the work is left behind, for the process ends.
    """
    pool = ThreadPoolExecutor(1, thread_name_prefix="tracediff")
    running = pool.submit(work)
    try:
        while not running.done():
            wait([running], timeout=0.2)  # in turns: polars makes a wait without an end deaf to Ctrl-C
    except BaseException:
        while stop is not None and not running.done():
            stop()
            wait([running], timeout=0.2)
        raise
    finally:
        pool.shutdown(wait=running.done())
    return running.result()


def _statements(db: duckdb.DuckDBPyConnection, text: str) -> list[tuple[str, bool]]:
    """The statements of a text but for empty ones, and which of them are a plain SELECT.

    Raises `TracediffError`: query-not-read-only, bad-sql.
    """
    try:
        raw = text.encode()
    except UnicodeEncodeError:  # a byte of the command line that is no letter
        raise TracediffError(
            "bad-sql", "the SQL is not UTF-8", fix="write it in a terminal or a file of UTF-8"
        ) from None
    tokens = [start for start, _ in duckdb.tokenize(text)]  # without comments and white space, in bytes
    ends = [start for start in tokens if raw[start : start + 1] == b";"]
    edges = zip([0, *(end + 1 for end in ends)], [*ends, len(raw)], strict=True)
    found = []
    for low, high in edges:
        if not any(low <= start < high for start in tokens):
            continue  # nothing, or only a comment
        one = raw[low:high].decode()
        # one word may become several statements (PIVOT); some statements are looked into while they are parsed
        kinds = [part.type.name for part in db.extract_statements(one)]
        refused = [kind for kind in kinds if kind not in _READING]
        if refused or _FORBIDDEN.search(one):
            raise _not_read_only(f"a statement of the kind {(refused or kinds)[0]}")
        found.append((one, kinds == ["SELECT"]))
    return found


def _answer(relation: duckdb.DuckDBPyRelation, limit: int | None) -> Answer:
    import polars as pl

    kinds = [str(kind) for kind in relation.types]
    names: list[str] = []
    for name in relation.columns:  # later ones of the same name are numbered
        new, number = name, 1
        while new in names:
            number += 1
            new = f"{name}_{number}"
        names.append(new)
    casts = ["::VARCHAR" if _AS_TEXT.search(kind) else "" for kind in kinds]
    columns = [
        f"#{number}{cast} AS {identifier(name)}"
        for number, (name, cast) in enumerate(zip(names, casts, strict=True), 1)
    ]
    rows = relation.project(", ".join(columns))
    frame = pl.DataFrame(rows if limit is None else rows.limit(limit + 1))
    # DuckDB sums integers in 128 bits; those that fit into 64 are whole numbers again, and not decimals
    for name, kind in zip(names, kinds, strict=True):
        narrow = frame[name].cast(pl.Int64, strict=False) if _WHOLE.match(kind) else None
        if narrow is not None and narrow.null_count() == frame[name].null_count():
            frame = frame.with_columns(narrow)
    return Answer(frame.head(limit), limit < len(frame)) if limit is not None else Answer(frame, False)


def _not_read_only(what: str) -> TracediffError:
    writes = any(kind in what for kind in ("COPY", "EXPORT"))
    writing = "; write results with --csv, --json, --markdown or --parquet FILE" if writes else ""
    return TracediffError(
        "query-not-read-only",
        f"captures are read, never changed, and no other file is touched; refused: {what}",
        fix="SELECT, FROM, WITH, VALUES, PIVOT, DESCRIBE, SUMMARIZE, EXPLAIN, CREATE TEMP VIEW" + writing,
    )


def _explained(
    db: duckdb.DuckDBPyConnection, error: Exception, text: str, *, line: int = 0
) -> TracediffError:
    """`line`: how many lines `check` had put before the SQL."""
    # without DuckDB's guesses among tables that are no matter here
    lines = [line.rstrip() for line in str(error).splitlines()]
    lines = [line for line in lines if line and not (line.startswith("Did you mean") and "pg_" in line)]
    said = "\n  ".join(lines)
    said = re.sub(
        r"(?<=^  LINE )\d+", lambda at: f"{int(at[0]) - line:{len(at[0])}}", said, flags=re.MULTILINE
    )
    if isinstance(error, duckdb.ConnectionException):
        return TracediffError("closed", "the captures were closed", fix="open them again")
    if isinstance(error, duckdb.OutOfMemoryException):
        return TracediffError(
            "query-out-of-memory",
            f"the query needs more memory than allowed: {lines[0]}",
            fix="raise TRACEDIFF_MEMORY, or ask for fewer rows",
        )
    if isinstance(error, duckdb.PermissionException) or re.search("read.only", said, re.IGNORECASE):
        return _not_read_only(lines[0])
    return TracediffError("bad-sql", said, fix=_hint(db, said, text))


def _hint(db: duckdb.DuckDBPyConnection, said: str, text: str) -> str:
    """What there is instead: the columns of the tables that the query names, or the tables."""
    if "Catalog Error: Table" in said or "schema" in said.lower():
        schemas = [str(name) for (name,) in db.execute(
            "SELECT schema_name FROM duckdb_schemas() WHERE schema_name IN ('baseline', 'candidate') ORDER BY ALL"
        ).fetchall()]  # fmt: skip
        both = [one.name for one in aligned()]
        if not schemas and names(text, both):
            return "two captures are put side by side: tracediff query BASELINE CANDIDATE 'SELECT ... FROM aligned_kernel'"
        place = f" in the schemas {' and '.join(schemas)}" if schemas else ""
        listed = ", ".join(one.name for one in tables())
        of_both = ", ".join(name.removeprefix("aligned_") for name in both)
        more = f"; of both sides aligned_NAME: {of_both}" if schemas else ""
        return f"tables{place}: {listed}{more}; tracediff query --schema describes them"
    used = [one for one in (*tables(), *aligned()) if re.search(rf"\b{one.name}\b", text, re.IGNORECASE)][:3]
    if used and "column" in said.lower():
        return "; ".join(
            f"columns of {one.name}: {', '.join(column.name for column in one.columns)}" for one in used
        )
    return "DuckDB's SQL; tracediff query --schema lists tables and columns"
