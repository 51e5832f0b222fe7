"""A user's SQL reads the tables and nothing else: no file, no extension, no setting, no change."""

from __future__ import annotations

import duckdb
import pytest

from tracediff.errors import TracediffError
from tracediff.query import guard
from tracediff.query.apart import generous
from tracediff.query.tables import check, needs_measuring

REFUSED = {
    "copy": "COPY op TO '{out}'",
    "copy of a query": "COPY (SELECT 1) TO '{out}' (FORMAT parquet)",
    "copy in": "COPY op FROM '{secret}'",
    "export": "EXPORT DATABASE '{out}'",
    "import": "IMPORT DATABASE '{folder}'",
    "attach": "ATTACH '{out}' AS other",
    "attach sqlite": "ATTACH '{secret}' AS other (TYPE sqlite)",
    "attach memory": "ATTACH ':memory:' AS other",
    "detach": "DETACH tables",
    "install": "INSTALL httpfs",
    "load": "LOAD '{secret}'",
    "update extensions": "UPDATE EXTENSIONS",
    "set": "SET enable_external_access = true",
    "reset": "RESET lock_configuration",
    "pragma": "PRAGMA profiling_output = '{out}'",
    "logging": "CALL enable_logging(storage = 'file', storage_path = '{out}')",
    "logging as a table": "SELECT * FROM enable_logging(storage = 'file', storage_path = '{out}')",
    "secret": "CREATE PERSISTENT SECRET s (TYPE s3)",
    "read_text": "SELECT * FROM read_text('{secret}')",
    "read_blob": "SELECT content FROM read_blob('{secret}')",
    "read_csv": "FROM read_csv('{secret}')",
    "read_json": "FROM read_json('{secret}')",
    "read_parquet": "FROM read_parquet('{secret}')",
    "read_duckdb": "FROM read_duckdb('{other}')",
    "sniff": "FROM sniff_csv('{secret}')",
    "glob": "FROM glob('{folder}/*')",
    "file as a table": "SELECT * FROM '{secret}'",
    "file by a function": "FROM query_table('{secret}')",
    "in a string": "FROM query('FROM read_text(''{secret}'')')",
    "in a subquery": "SELECT (SELECT content FROM read_text('{secret}'))",
    "explained copy": "EXPLAIN ANALYZE COPY op TO '{out}'",
    "second statement": "SELECT 1; COPY op TO '{out}'",
    "table": "CREATE TABLE t AS SELECT 1",
    "drop": "DROP TABLE step",
    "delete": "DELETE FROM step",
    "insert": "INSERT INTO step SELECT * FROM step",
    "update": "UPDATE step SET number = 0",
    "alter": "ALTER TABLE step RENAME TO other",
    "use": "USE memory",
    "vacuum": "VACUUM",
    "checkpoint": "CHECKPOINT",
    "begin": "BEGIN TRANSACTION",
    "prepare": "PREPARE p AS SELECT 1",
    "python variable": "SELECT * FROM SECRET_ROWS",
}  # fmt: skip
SECRET_ROWS = {"a": [1]}  # a variable of this program: no table


@pytest.fixture
def places(tmp_path):
    """Words for the statements above: a file to be kept from, another database, and a path to be written to."""
    secret, other = tmp_path / "secret.csv", tmp_path / "other.duckdb"
    secret.write_text("word\nhidden\n")
    duckdb.connect(other).execute("CREATE TABLE t AS SELECT 'hidden' AS word").close()
    return {"secret": secret, "other": other, "folder": tmp_path, "out": tmp_path / "out.file"}


@pytest.mark.parametrize("what", REFUSED)
def test_refused(what, places, tables_of):
    before = sorted(path.name for path in places["folder"].iterdir())
    text = REFUSED[what].format(**places)
    with pytest.raises(TracediffError) as error:
        tables_of("graph_a1").run(text)
    assert error.value.slug in ("query-not-read-only", "bad-sql")
    assert error.value.fix and "hidden" not in str(error.value)
    assert sorted(path.name for path in places["folder"].iterdir()) == before
    assert tables_of("graph_a1").run("SELECT count(*) FROM step")[0].frame.item() == 31


@pytest.mark.parametrize("what", [one for one in REFUSED if "logging" not in one and one not in (
    "vacuum", "checkpoint", "begin", "prepare", "use", "attach memory", "detach")])  # fmt: skip
def test_refused_by_the_connection_alone(what, places, tmp_path):
    """The second wall: without the list of statements the connection itself does not do it."""
    path = tmp_path / "tables.duckdb"
    guard.empty(path, ("main",))
    before = {one.name: one.stat().st_size for one in tmp_path.iterdir()}
    db = guard.connect(path)
    try:
        with pytest.raises(duckdb.Error) as error:
            db.execute(REFUSED[what].format(**places)).fetchall()
        assert "hidden" not in str(error.value)
    finally:
        db.close()
    assert {one.name: one.stat().st_size for one in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1 AS x", "FROM step LIMIT 1", "VALUES (1)", "TABLE step", "WITH a AS (SELECT 1) FROM a", "DESCRIBE step",
        "SUMMARIZE step", "SHOW TABLES", "EXPLAIN SELECT 1", "EXPLAIN ANALYZE SELECT 1", "PIVOT op ON kind USING count(*)",
        "PIVOT op ON kind USING sum(duration_ns) GROUP BY step", "CREATE TEMP VIEW seen AS FROM op; SELECT count(*) FROM seen",
        "CREATE TEMP TABLE kept AS SELECT 1 AS x; FROM kept", "CREATE TEMP MACRO ms(x) AS x / 1e6; SELECT ms(1)",
        "SELECT 1; -- done", "/* first */ SELECT 1",
    ],
)  # fmt: skip
def test_allowed(text, tables_of):
    answers = tables_of("graph_a1").run(text)
    assert answers[-1].frame.height >= 1


@pytest.mark.parametrize(
    ("text", "slug", "hint"),
    [
        ("SELECT nothing FROM op", "bad-sql", "columns of op: capture, start_ns"),
        ("SELECT * FROM ops", "bad-sql", "tables: op, kernel"),
        ("SELECT", "bad-sql", "--schema"),
        ("SELEC 1", "bad-sql", "--schema"),
        ("SELECT foo(1)", "bad-sql", "--schema"),
        ("SELECT kind, name FROM op GROUP BY kind", "bad-sql", "op"),
        ("COPY op TO 'x'", "query-not-read-only", "--csv"),
        ("", "no-sql", "SELECT"),
        ("-- nothing", "no-sql", "SELECT"),
    ],
)
def test_mistakes_are_found_before_anything_is_read(text, slug, hint):
    with pytest.raises(TracediffError) as error:
        check(text, 1, generous(None, None))
    assert error.value.slug == slug and hint in (error.value.fix or "")


@pytest.mark.slow
def test_two_sides_have_schemas():
    check("SELECT * FROM baseline.op JOIN candidate.op USING (name)", 2, generous(None, None))
    with pytest.raises(TracediffError, match="op does not exist") as error:
        check("SELECT * FROM op", 2, generous(None, None))
    assert "baseline and candidate" in error.value.fix
    with pytest.raises(TracediffError):
        check("SELECT * FROM baseline.op", 1, generous(None, None))


def test_the_mark_of_a_mistake_is_below_it():
    with pytest.raises(TracediffError) as error:
        check("SELECT nme FROM kernel", 1, generous(None, None))
    line, mark = str(error.value.message).splitlines()[-2:]
    assert "EXPLAIN" not in line
    assert line[mark.index("^")] == "n" and line[mark.index("^") :].startswith("nme")


def test_a_failure_while_rows_are_made(tables_of):
    with pytest.raises(TracediffError) as error:
        tables_of("graph_a1").run("SELECT name::INTEGER FROM kernel")
    assert error.value.slug == "bad-sql"
    assert tables_of("graph_a1").run("SELECT 1 AS x")[0].frame["x"].to_list() == [1]


def test_rows_beyond_the_limit(tables_of):
    (answer,) = tables_of("graph_a1").run("SELECT start_ns FROM op ORDER BY start_ns", 3)
    assert answer.cut and answer.frame.height == 3
    (whole,) = tables_of("graph_a1").run("SELECT start_ns FROM op ORDER BY start_ns LIMIT 3", 3)
    assert not whole.cut and whole.frame.equals(answer.frame)


def test_a_few_rows_of_very_many_take_no_memory(tables_of):
    (answer,) = tables_of("graph_a1").run("SELECT i, i::VARCHAR AS s FROM range(1000000000000) AS t(i)", 5)
    assert answer.cut and answer.frame["i"].to_list() == [0, 1, 2, 3, 4]


def test_types(tables_of):
    text = (
        "SELECT sum(i) AS total, count(*) AS n, avg(i) AS mean, min(i) = 0 AS flag, 'x' AS word, NULL::INTEGER AS nothing,"
        " INTERVAL 1 DAY AS span, [1, 2] AS list, 1 AS n, 18446744073709551615::HUGEINT AS large FROM range(4) AS t(i)"
    )
    (answer,) = tables_of("graph_a1").run(text)
    kinds = {name: str(kind) for name, kind in answer.frame.schema.items()}
    assert (
        kinds["total"] == kinds["n"] == "Int64" and kinds["mean"] == "Float64" and kinds["flag"] == "Boolean"
    )
    assert kinds["span"] == "String" and kinds["n_2"] == "Int32" and kinds["large"].startswith("Decimal")
    row = answer.frame.row(0, named=True)
    assert (row["total"], row["n"], row["mean"], row["nothing"], row["list"]) == (6, 4, 1.5, None, [1, 2])
    assert int(row["large"]) == 2**64 - 1


@pytest.mark.parametrize(
    ("text", "needed"),
    [("FROM op", False), ("FROM period", True), ("FROM Idle", True), ("SELECT idler FROM op", False),
     ("FROM baseline.kernel_by_step", True)],
)  # fmt: skip
def test_only_what_is_asked_for_is_measured(text, needed):
    assert needs_measuring(text) is needed
