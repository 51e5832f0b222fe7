"""`tracediff query`: what is printed, written, refused."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import sys
import time

import polars as pl
import pytest

from tests.report.hostile import NAMES
from tests.serving import serving
from tests.tiny import CAPTURES, ROOT

CAPTURE = CAPTURES["graph_a1"]
US = 1000


def answered(done) -> str:
    code, out, err = done
    assert code == 0, err
    return out


@pytest.mark.slow
def test_rows_are_cut_and_it_is_said(run, good):
    out = answered(run("query", good, "SELECT start_ns FROM op ORDER BY start_ns", "--limit", 2))
    assert len(out.splitlines()) == 5
    assert out.splitlines()[-1] == "(the first 2 rows, there are more: --limit 0 gives all)"
    everything = answered(run("query", good, "SELECT start_ns FROM op", "--limit", 0))
    assert everything.splitlines()[-1] == "(21 rows)"
    code, out, err = run("query", good, "SELECT start_ns FROM op", "--csv", "--limit", 2)
    assert code == 0 and len(out.splitlines()) == 3 and "there are more" in err
    long = answered(run("query", CAPTURE, "SELECT start_ns FROM op"))
    assert long.splitlines()[-1].startswith("(the first 100 rows")
    assert len(answered(run("query", CAPTURE, "SELECT start_ns FROM op", "--csv")).splitlines()) == 1 + 5216


@pytest.mark.slow
def test_every_form_says_the_same(run, good, tmp_path):
    text = "SELECT step, phase, start_ns, NULL AS nothing FROM step ORDER BY step LIMIT 3"
    forms = [["--csv"], ["--json"], ["--markdown"], []]
    said = [answered(run("query", good, text, *words)) for words in forms]
    rows = json.loads(said[1])
    assert [row["step"] for row in rows] == [0, 1, 2] and rows[0]["nothing"] is None
    table = list(csv.DictReader(io.StringIO(said[0])))
    assert [int(row["start_ns"]) for row in table] == [row["start_ns"] for row in rows]
    lines = said[2].splitlines()
    assert lines[1] == "|-:|-|-:|-:|" and len(lines) == 5
    assert lines[2] == f"| 0 | `generation` | {rows[0]['start_ns']} |  |"
    answered(run("query", good, text, "--parquet", "rows.parquet"))
    frame = pl.read_parquet(tmp_path / "rows.parquet")
    assert frame["start_ns"].to_list() == [row["start_ns"] for row in rows]
    assert frame.schema["start_ns"] == pl.Int64 and frame.schema["step"] == pl.Int32
    for words, printed in zip(forms, said, strict=True):
        answered(run("query", good, text, *words, "-o", "rows.out", "-f"))
        assert (tmp_path / "rows.out").read_text() == printed


def test_the_schema_needs_no_capture(run):
    assert answered(run("query", "--schema")).encode() == (ROOT / "docs" / "sql.md").read_bytes()


def test_a_plan_is_drawn_whole_and_a_list_of_tables_names_the_schema(run, good):
    plan = answered(run("query", good, "EXPLAIN SELECT count(*) FROM kernel")).splitlines()
    assert len(plan) >= 5 and {len(line) for line in plan} == {len(plan[0])}  # boxes, none cut
    code, out, err = run("query", good, good, "SHOW TABLES")
    assert code == 0 and "(0 rows)" in out and "tracediff query --schema" in err


def hostile(tmp_path):
    trace = serving(steps=4)
    for number, name in enumerate([*NAMES, "\x1b]0;title\x07\x1b[31mred"]):
        trace.range(1, name, number * 10 * US, number * 10 * US + 5)
    return trace.write(tmp_path / "hostile.sqlite")


@pytest.mark.slow
def test_hostile_names_are_shown_by_their_escapes(run, tmp_path):
    path = hostile(tmp_path)
    for words in ([], ["--full"], ["--markdown"], ["--csv"]):
        out = answered(run("query", path, "SELECT text FROM range", "--limit", 0, *words))
        assert "\x1b" not in out and "\x07" not in out and "\u202e" not in out and "\x00" not in out
        assert "\\x1b" in out.replace("\\\\", "\\")
    texts = [
        row["text"] for row in json.loads(answered(run("query", path, "SELECT text FROM range", "--json")))
    ]
    assert "\x1b]0;title\x07\x1b[31mred" in texts  # JSON has escapes of its own: nothing is lost
    out = answered(run("query", path, "SELECT text FROM range", "--json"))
    assert "\x1b" not in out and "\u202e" not in out


COMMANDS = ("::error::x", "##vso[task.setvariable x=y]", "##teamcity[x]", "##[add-mask]")


def check_no_command(out: str) -> None:
    """No cell is a command to a runner of CI."""
    assert re.search(r"##\w*\[", out) is None
    assert not any(line.lstrip().startswith("::") for line in out.splitlines())


def test_hostile_names_of_columns(run, good):
    out = answered(run("query", good, f'SELECT unnest({list(COMMANDS)}) AS "\x1b[31mred"'))
    assert "\x1b" not in out and "\\x1b[31mred" in out
    check_no_command(out)


def test_a_spreadsheet_computes_nothing(run, tmp_path):
    trace = serving(steps=4)
    trace.range(1, "=cmd|' /C calc'!A0", 10, 20)
    path = trace.write(tmp_path / "formula.sqlite")
    out = answered(run("query", path, "SELECT text FROM range WHERE text LIKE '%calc%'", "--csv"))
    assert list(csv.reader(io.StringIO(out)))[1] == ["'=cmd|' /C calc'!A0"]


# The command line with a load that takes longer than anybody waits.
SLOW = """
import sys, time
import tracediff.query.tables as tables
tables.find_steps = lambda *args, **options: time.sleep(300)
from tracediff.cli.main import main
sys.argv = ["tracediff", *sys.argv[1:]]
main()
"""


@pytest.mark.parametrize(("number", "status", "said"), [(2, 130, "aborted"), (15, 143, "terminated")])
@pytest.mark.parametrize("slow", ["load", "query"])
@pytest.mark.slow
def test_it_ends_at_once_and_cleans_up(number, status, said, slow, good, tmp_path):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    start = ["-c", SLOW] if slow == "load" else ["-m", "tracediff"]
    text = (
        "SELECT 1"
        if slow == "load"
        else "SELECT count(*) FROM range(100000000) a, range(100000) b WHERE a.range + b.range = 3"
    )
    child = subprocess.Popen(
        [sys.executable, *start, "query", str(good), text], stderr=subprocess.PIPE, text=True, cwd=ROOT,
        env={**os.environ, "TMPDIR": str(scratch), "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 60
        while not list(scratch.glob("*/tables.duckdb" if slow == "query" else "*")):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(1.5)
        child.send_signal(number)
        _, errors = child.communicate(timeout=60)
    finally:
        child.kill()
    assert child.returncode == status
    assert errors.strip() == said
    assert not list(scratch.iterdir())


@pytest.mark.parametrize("form", ["--csv", "--json", "--markdown", "--full"])
def test_dates_that_no_calendar_holds_beside_commands(run, good, form):
    """Frames end at the year 9999, DuckDB's dates do not: dates are text."""
    far = "DATE '290000-01-01' AS a, TIMESTAMP 'infinity' AS b, TIMESTAMPTZ '-infinity' AS c, TIMESTAMP_MS '290000-01-01' AS d"
    inside = (
        "[DATE '290000-01-01'] AS e, {f: DATE '5000000-01-01'} AS f, map {DATE '0044-03-15 (BC)': 1} AS g"
    )
    text = f"SELECT unnest({list(COMMANDS)}) AS x, {far}, {inside}, DATE '2026-02-03' AS h"
    out = answered(run("query", good, text, form))
    check_no_command(out)
    if form == "--json":
        assert tuple(row["x"] for row in json.loads(out)) == COMMANDS
    for said in ("290000-01-01", "infinity", "5000000-01-01", "0044-03-15 (BC)", "2026-02-03"):
        assert said in out


def test_texts_that_differ_are_not_cut_until_they_read_alike():
    from tracediff.report.query import _cut

    alike = [f"{'a' * 60}{number}{'b' * 60}" for number in range(2)]
    assert _cut(alike, 40) == alike
    assert _cut(alike[:1] * 2, 40) == ["a" * 26 + "…" + "b" * 13] * 2
