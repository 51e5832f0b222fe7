"""SQL in a process of its own: it ends in time, within its memory, and leaves nothing behind for the next question."""

from __future__ import annotations

import os
import time

import pytest
from msgspec.structs import replace

from tracediff.errors import TracediffError
from tracediff.formats.files import scratch
from tracediff.query import apart, guard
from tracediff.query.apart import Bounds, generous

TIGHT = Bounds(4, memory=512 << 20, answer=1 << 20, memory_limit="256MiB", disk="64MiB", threads=2, more="")


@pytest.fixture
def path(tmp_path):
    guard.empty(tmp_path / "tables.duckdb", ("main",))
    return tmp_path / "tables.duckdb"


@pytest.mark.parametrize("how", ["check", "run"])
@pytest.mark.parametrize(
    "text",
    [
        # folded while it is looked at, and deaf to an interruption
        "SELECT levenshtein(repeat('a', 400000), repeat('b', 400000))",
        "CREATE TEMP TABLE t AS SELECT i, i::VARCHAR AS s FROM range(400000000) AS r(i)",
        "CREATE TEMP TABLE t AS SELECT repeat('x', 100000000) AS s FROM range(1000)",
        "SELECT len(list_sort(range(1000000000)))",
        "SELECT length(repeat(repeat('x', 1000000), 1000000))",
        "CREATE TEMP TABLE t AS SELECT sleep_ms(100000)",
        "WITH RECURSIVE t AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM t) SELECT max(i) FROM t",
    ],
)
@pytest.mark.slow
def test_no_statement_gets_around_time_and_memory(text, how, path):
    began = time.monotonic()
    try:
        apart.check(path, text, TIGHT) if how == "check" else apart.run(path, text, 5, TIGHT)
    except TracediffError as error:
        assert error.slug in ("query-too-long", "query-out-of-memory", "bad-sql"), (
            error
        )  # bad-sql: DuckDB's own limit
    else:
        assert how == "check"  # it is only looked at
    assert time.monotonic() - began < 4 + 6
    assert sorted(one.name for one in path.parent.iterdir() if one.name != "spill") == ["tables.duckdb"]


def test_an_answer_is_not_larger_than_it_may_be(path):
    with pytest.raises(TracediffError) as raised:
        apart.run(path, "SELECT repeat('x', 2000000) AS x", None, TIGHT)
    assert raised.value.slug == "query-out-of-memory"
    (answer,) = apart.run(path, "SELECT repeat('x', 2000000) AS x", None, replace(TIGHT, answer=None))
    assert len(answer.frame.item()) == 2_000_000


@pytest.mark.parametrize(
    "text",
    ["CREATE TEMP MACRO sum(x) AS 42", "CREATE TEMP MACRO ms(x) AS x / 1e6; CREATE OR REPLACE TEMP FUNCTION main.count(x) AS 42; SELECT 1",
     'CREATE TEMP MACRO /* a */ "avg" /* b */ (x) AS 42', "CREATE TEMP MACRO range(x) AS TABLE SELECT 1"],
)  # fmt: skip
def test_a_macro_may_not_be_called_like_a_function(text, path, tables_of):
    for ask in (lambda: apart.run(path, text, 5, TIGHT), lambda: apart.check(path, text, TIGHT),
                lambda: tables_of("graph_a1").run(text)):  # fmt: skip
        with pytest.raises(TracediffError, match="would hide the function"):
            ask()


@pytest.mark.parametrize("bounds", [None, TIGHT])
def test_a_question_does_not_change_the_next(bounds, tables_of):
    tables = tables_of("graph_a1")
    for text in (
        "CREATE TEMP MACRO ms(x) AS 42",
        "CREATE TEMP VIEW op AS SELECT 1 AS x",
        "CREATE TEMP TABLE kept AS SELECT 1",
    ):
        tables.run(text, 5, bounds)  # fmt: skip
    (answer,) = tables.run("SELECT count(*) FROM op", 5, bounds)
    assert answer.frame.item() > 1000
    for text in ("SELECT ms(1)", "FROM kept"):
        with pytest.raises(TracediffError):
            tables.run(text, 5, bounds)


@pytest.mark.parametrize(
    "text",
    ["FROM enable_profiling()", "SELECT write_log('x')", "FROM checkpoint()", "FROM FORCE_CHECKPOINT ()", 'FROM "checkpoint"()',
     "FROM truncate_duckdb_logs()", "FROM disable_logging()", "CALL enable_logging(storage = 'file', storage_path = '/tmp/x')"],
)  # fmt: skip
def test_what_writes_or_changes_the_connection_is_refused(text, path):
    with pytest.raises(TracediffError) as raised:
        apart.run(path, text, 5, TIGHT)
    assert raised.value.slug == "query-not-read-only"
    assert apart.run(path, "SELECT 'a checkpoint' AS word", 5, TIGHT)[0].frame.item() == "a checkpoint"


def test_what_a_library_prints_is_no_answer(path, monkeypatch):
    printing = "from tracediff.query import guard; import os; was = guard.run; guard.run = lambda *a: (os.write(1, b'100 %'), was(*a))[1]; "
    monkeypatch.setattr(
        apart, "_PROGRAM", apart._PROGRAM.replace("from tracediff", printing + "from tracediff")
    )
    (answer,) = apart.run(path, "SELECT 1 AS x", 5, TIGHT)
    assert answer.frame.item() == 1


def test_the_answers_of_both_ways_are_the_same(tables_of):
    text = (
        "SELECT sum(i) AS total, avg(i) AS mean, min(i) = 0 AS flag, 'x' AS word, NULL::INTEGER AS nothing, INTERVAL 1 DAY AS span,"
        " [1, 2] AS list, {'a': 1} AS pair, 18446744073709551615::HUGEINT AS large, 'a'::BLOB AS raw FROM range(4) AS t(i); FROM op LIMIT 9"
    )
    here, there = (tables_of("graph_a1").run(text, 7, bounds) for bounds in (None, generous(None, None)))
    assert [(one.cut, one.frame.schema) for one in here] == [(one.cut, one.frame.schema) for one in there]
    assert all(one.frame.equals(other.frame) for one, other in zip(here, there, strict=True))


def test_nothing_is_left_of_what_was_killed(path, monkeypatch):
    with scratch() as folder:
        monkeypatch.setattr("tempfile.tempdir", str(folder))
        with pytest.raises(TracediffError):
            apart.run(
                path,
                "SELECT levenshtein(repeat('a', 400000), repeat('b', 400000))",
                5,
                replace(TIGHT, seconds=1),
            )
        assert list(folder.iterdir()) == []
    assert "levenshtein" not in os.popen("ps -eo args").read()
