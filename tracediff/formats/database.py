"""A DuckDB connection that can read SQLite files without any network.

The scanner comes from the package `duckdb-extension-sqlite-scanner`, built for exactly the pinned DuckDB.
"""

from __future__ import annotations

import contextlib
import functools
import re
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from tracediff.errors import TracediffError

if TYPE_CHECKING:
    import polars as pl

_polars_lock = threading.Lock()


def packaged_scanner() -> Path | None:
    """The scanner file shipped by PyPI for this DuckDB version, or None where the package is not installed."""
    try:
        import duckdb_extension_sqlite_scanner as package
    except ImportError:
        return None
    if package.__file__ is None:
        return None
    found = sorted(Path(package.__file__).parent.glob("extensions/**/sqlite_scanner.duckdb_extension"))
    same_version = [path for path in found if f"v{duckdb.__version__}" in path.parts]
    return next(iter(same_version or found), None)


def connect(
    *,
    memory_limit: str | None = None,
    threads: int | None = None,
    spill: Path | None = None,
    file: Path | None = None,
) -> duckdb.DuckDBPyConnection:
    """Open a database with the SQLite scanner loaded, in memory or in a new `file`.

    `memory_limit` is a DuckDB size ("2GiB"), `spill` a folder for what does not fit. In a file tables are packed while
    they are made (an NVTX row takes some 6 bytes of the 57 that it takes in memory); it is of no use once closed.
    Raises `TracediffError` (scanner-missing, bad-limit) with the fix.
    """
    config: dict[str, Any] = {
        "preserve_insertion_order": False,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        # No SQL of a user runs here, and whoever can write beside DuckDB's own library needs no extension: the signature of the
        # scanner's 35 MB would take 0.1 s of every small comparison.
        "allow_unsigned_extensions": packaged_scanner() is not None,
    }
    if threads == 1:
        config["threads"] = 1  # now: the threads of all processors would be started first
    db = duckdb.connect(":memory:" if file is None else str(file), config=config)
    db.execute("PRAGMA disable_checkpoint_on_shutdown")
    # DuckDB draws one wherever it takes the program for an interactive one. In Jupyter without ipywidgets it draws none,
    # and setting this to anything is an error
    if db.execute("SELECT current_setting('enable_progress_bar')").fetchone() == (True,):
        db.execute("SET enable_progress_bar = false")
    set_limits(db, memory_limit=memory_limit, threads=threads, temp_directory=spill)
    _load_scanner(db)
    return db


def set_limits(db: duckdb.DuckDBPyConnection, **limits: str | int | Path | None) -> None:
    """Set what is given of DuckDB's settings. Raises `TracediffError`: bad-limit; then the connection is closed."""
    try:
        for name, value in limits.items():
            if value is not None:
                db.execute(f"SET {name} = {quoted(str(value))}")
    except duckdb.Error as error:
        db.close()
        raise TracediffError(
            "bad-limit", f"DuckDB refused a limit: {error}", fix="TRACEDIFF_MEMORY=2GiB"
        ) from error


_idle: list[duckdb.DuckDBPyConnection] = []


def in_memory() -> duckdb.DuckDBPyConnection:
    """A database of one thread for a small export: one that `reuse` was given, or a new one."""
    try:
        db = _idle.pop()
    except IndexError:
        db = connect(threads=1)
    db.execute(f"ATTACH ':memory:' AS {_EXPORT}; USE {_EXPORT}")
    return db


def reuse(db: duckdb.DuckDBPyConnection) -> None:
    """Drop the tables of a database that `in_memory` gave, and keep it for the next export; close any other."""
    try:
        db.execute(f"USE memory; DETACH {_EXPORT}")
    except duckdb.Error:
        db.close()
    else:
        _idle.append(db)


_EXPORT = "export"  # holds all tables of an export, so that one statement drops them


def _load_scanner(db: duckdb.DuckDBPyConnection) -> None:
    path = packaged_scanner()
    attempts = ([f"LOAD {quoted(str(path))}"] if path else []) + ["LOAD sqlite"]
    problems = []
    for statement in attempts:
        try:
            db.execute(statement)
            return
        except duckdb.Error as error:
            problems.append(str(error).splitlines()[0])
    raise TracediffError(
        "scanner-missing",
        "DuckDB's SQLite scanner could not be loaded: " + "; ".join(problems),
        fix=f"pip install 'duckdb-extension-sqlite-scanner=={duckdb.__version__}'",
    )


def release_memory(db: duckdb.DuckDBPyConnection) -> None:
    """Return the memory of dropped tables to the system, for what comes next to have: DuckDB keeps it for a while.

    Setting the limit, to what it is, empties its pools, and those of the C library. Dropped ops of 5 million kernels
    are a quarter of the memory of a process.
    """
    row = db.execute("SELECT current_setting('memory_limit')").fetchone()
    assert row is not None
    # the setting is rounded: near the limit there may be too little to spill for it
    with contextlib.suppress(duckdb.OutOfMemoryException):
        db.execute(f"SET memory_limit = {quoted(row[0])}")


def quoted(text: str) -> str:
    """A SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def identifier(name: str) -> str:
    """A quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


@functools.cache
def sql(name: str) -> str:
    """The text of a query: `trace/step` is in tracediff/trace/sql/step.sql."""
    package, file = name.split("/")
    return (Path(__file__).parent.parent / package / "sql" / f"{file}.sql").read_text(encoding="utf-8")


def run_sql(db: duckdb.DuckDBPyConnection, name: str, **literals: str | int) -> duckdb.DuckDBPyConnection:
    """Run a file of sql/; `literals` replace `{{word}}` with a number or a quoted string.

    DuckDB takes no parameters in CREATE statements with several statements a file, hence the substitution;
    every value is quoted here, none comes from the names inside a trace.
    """
    text = {key: str(value) if isinstance(value, int) else quoted(value) for key, value in literals.items()}
    # in one pass: a value may itself hold {{word}}; a word without a value is a KeyError
    return db.execute(re.sub(r"\{\{(\w+)\}\}", lambda word: text[word[1]], sql(name)))


@functools.cache
def _meet_array() -> None:
    """Have polars meet an array, once: it imports numpy with the first, which two threads at once break."""
    import numpy as np
    import polars as pl

    with _polars_lock:
        pl.Series(np.empty(0))


def frame(db: duckdb.DuckDBPyConnection, query: str, parameters: Sequence[int] = ()) -> pl.DataFrame:
    """The rows of a query as a polars frame.

    Integers become Int64 (a hash of 64 bits keeps its bits), other numbers Float64, booleans Boolean, everything else String; SQL NULL becomes null.
    """
    import polars as pl

    _meet_array()
    of = pl.selectors
    # in the text: of the rows of a query that has parameters DuckDB makes a list of constants first, in twenty times the time
    for value in parameters:
        query = query.replace("?", str(int(value)), 1)
    return pl.DataFrame(db.sql(query)).with_columns(
        of.integer().cast(pl.Int64, wrap_numerical=True), (of.float() | of.decimal()).cast(pl.Float64)
    )


def create_table(
    db: duckdb.DuckDBPyConnection, name: str, columns: pl.DataFrame | Mapping[str, Any], *, temporary: bool = False
) -> None:  # fmt: skip
    """Make a table of a polars frame, or of the columns of one.

    By the stream itself, which is read once: of an object that has one DuckDB makes a dataset of pyarrow where that is installed, whose
    filters do not know text as polars keeps it.
    """
    import polars as pl

    _meet_array()
    rows_of_polars = pl.DataFrame(columns).__arrow_c_stream__()  # noqa: F841 DuckDB finds it by its name
    kind = "TEMP TABLE" if temporary else "TABLE"
    db.execute(f"CREATE OR REPLACE {kind} {identifier(name)} AS FROM rows_of_polars")
