"""`tracediff query` and `tracediff shell`: what is printed, written, refused."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import re
import select
import subprocess
import sys
import time

import polars as pl
import pytest

from fixtures.builders import BROKEN
from tests.cli.checks import expect_error, files
from tests.report.hostile import NAMES
from tests.serving import serving, step_ns
from tests.tiny import CAPTURES, ROOT, label, one_gap

CAPTURE = CAPTURES["graph_a1"]
US = 1000


def answered(done) -> str:
    code, out, err = done
    assert code == 0, err
    return out


def test_a_table_for_reading(run, good):
    out = answered(
        run("query", good, "SELECT phase, count(*) AS steps, sum(period_ns) AS ns FROM period GROUP BY phase")
    )
    # 6 + 1 labels: the last step has no next one
    lines = out.splitlines()
    assert lines[0].split() == ["phase", "steps", "ns"]
    assert lines[2].split() == ["generation", "6", str(int(6 * step_ns()))]
    assert lines[3] == "(1 row)"
    assert len({len(line) for line in lines[:3]}) == 1  # aligned, numbers to the right


def test_two_captures(run, tmp_path):
    before = serving(steps=6).write(tmp_path / "before.sqlite")
    after = serving(steps=6, schedule_us=150).write(tmp_path / "after.sqlite")
    text = "SELECT (SELECT avg(period_ns) FROM candidate.period) - (SELECT avg(period_ns) FROM baseline.period) AS ns"
    assert json.loads(answered(run("query", before, after, text, "--json"))) == [{"ns": 50_000.0}]


def test_every_answer_is_printed_and_the_last_is_written(run, good, tmp_path):
    text = "SELECT 1 AS first; SELECT 2 AS second"
    out = answered(run("query", good, text))
    assert [line.split()[0] for line in out.splitlines() if not set(line) <= set("-─ ")] == [
        "first", "1", "(1", "second", "2", "(1",
    ]  # fmt: skip
    code, out, err = run("query", good, text, "--json")
    assert code == 0 and json.loads(out) == [{"second": 2}]
    assert "note: 2 statements have rows: those of the last are written" in err


def test_folders_and_labels_and_xz(run, good, tmp_path):
    (tmp_path / "runs").mkdir()
    for number in (1, 2):
        serving(steps=6, seed=number).write(tmp_path / "runs" / f"run_{number}.sqlite")
    text = "SELECT run, count(*) AS steps FROM period GROUP BY run ORDER BY run"
    rows = json.loads(answered(run("query", f"some={tmp_path / 'runs'}", text, "--json")))
    assert rows == [{"run": 0, "steps": 6}, {"run": 1, "steps": 6}]
    assert json.loads(answered(run("query", CAPTURE, "SELECT count(*) AS n FROM step", "--json"))) == [
        {"n": 31}
    ]


def test_ranks_exported_apart_are_numbered_over_the_run(run, tmp_path):
    folder = tmp_path / "ranks"
    folder.mkdir()
    for rank in (0, 1):
        serving(steps=4).write(folder / f"run_rank{rank}.sqlite")
    out = answered(run("query", folder, "SELECT capture, run, rank, count(*) AS n FROM period GROUP BY ALL ORDER BY ALL",
                       "--csv"))  # fmt: skip
    assert list(csv.reader(io.StringIO(out))) == [
        ["capture", "run", "rank", "n"], ["0", "0", "0", "4"], ["1", "0", "1", "4"]
    ]  # fmt: skip


def test_a_bundle_holds_both_sides(run):
    bundle = ROOT / "fixtures" / "bundles" / "hog300"
    text = "SELECT (SELECT count(DISTINCT run) FROM baseline.period) AS b, (SELECT count(DISTINCT run) FROM candidate.period) AS c"
    assert json.loads(answered(run("query", bundle, text, "--json"))) == [{"b": 4, "c": 4}]


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


def test_every_form_says_the_same(run, good, tmp_path):
    text = "SELECT step, phase, start_ns, NULL AS nothing FROM step ORDER BY step LIMIT 3"
    rows = json.loads(answered(run("query", good, text, "--json")))
    assert [row["step"] for row in rows] == [0, 1, 2] and rows[0]["nothing"] is None
    table = list(csv.DictReader(io.StringIO(answered(run("query", good, text, "--csv")))))
    assert [int(row["start_ns"]) for row in table] == [row["start_ns"] for row in rows]
    lines = answered(run("query", good, text, "--markdown")).splitlines()
    assert lines[1] == "|-:|-|-:|-:|" and len(lines) == 5
    assert lines[2] == f"| 0 | `generation` | {rows[0]['start_ns']} |  |"
    answered(run("query", good, text, "--parquet", "rows.parquet"))
    frame = pl.read_parquet(tmp_path / "rows.parquet")
    assert frame["start_ns"].to_list() == [row["start_ns"] for row in rows]
    assert frame.schema["start_ns"] == pl.Int64 and frame.schema["step"] == pl.Int32
    for words in (["--csv"], ["--json"], ["--markdown"], []):
        answered(run("query", good, text, *words, "-o", "rows.out", "-f"))
        assert (tmp_path / "rows.out").read_text() == answered(run("query", good, text, *words))


def test_sql_from_stdin(run, good, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("-- a question\nSELECT count(*) AS n\nFROM step;\n"))
    assert json.loads(answered(run("query", good, "-", "--json"))) == [{"n": 7}]


def test_the_schema_needs_no_capture(run):
    assert answered(run("query", "--schema")).encode() == (ROOT / "docs" / "sql.md").read_bytes()


def test_the_definitions_need_no_capture(run):
    page = (ROOT / "docs" / "sql.md").read_text()
    made = re.findall(
        r"^CREATE TABLE accounting\.(\w+)", answered(run("query", "--definitions")), re.MULTILINE
    )
    assert {"period", "busy", "gap", "idle_piece", "idle"} <= {*made}
    assert all(f".sql` | `{name}` |" in page for name in made)


@pytest.mark.parametrize("words", [[], ["only.sqlite"], ["a", "b", "c", "SELECT 1"]])
def test_too_few_or_too_many_words(run, words):
    code, out, err = run("query", *words)
    assert code == 2 and "--schema lists the tables" in err and out == ""


def test_parquet_is_an_output_of_its_own(run, good):
    assert run("query", good, "FROM op", "--parquet", "a.parquet", "--csv")[0] == 2


def test_mistakes_cost_no_reading(run, tmp_path):
    """The file is not even looked into: its content is no export."""
    bad = tmp_path / "bad.sqlite"
    bad.write_bytes(b"nothing of an export")
    before = files(tmp_path)
    text = expect_error(run("query", bad, "SELECT nothing FROM op"), "bad-sql")
    assert "columns of op: capture, start_ns" in text
    expect_error(run("query", bad, "DROP TABLE op"), "query-not-read-only")
    expect_error(run("query", bad, ";"), "no-sql")
    expect_error(run("query", bad, "FROM op"), "not-sqlite")
    assert files(tmp_path) == before


@pytest.mark.parametrize(("name", "slug"), [("not_sqlite", "not-sqlite"), ("zero_tables", "not-nsys")])
def test_an_export_that_cannot_be_used(run, name, slug, tmp_path):
    bad = BROKEN[name](tmp_path / "bad.sqlite")
    expect_error(run("query", bad, "FROM op"), slug)


def test_outputs_are_not_overwritten(run, good, tmp_path):
    (tmp_path / "rows.csv").write_text("mine")
    expect_error(run("query", good, "FROM op", "--csv", "-o", "rows.csv"), "output-exists")
    assert (tmp_path / "rows.csv").read_text() == "mine"
    answered(run("query", good, "SELECT 1 AS x", "--csv", "-o", "rows.csv", "-f"))
    assert (tmp_path / "rows.csv").read_text() == "x\n1\n"


def test_a_capture_without_steps_has_its_events(run, tmp_path):
    path = one_gap().write(tmp_path / "steps.sqlite")
    bare = BROKEN["nvtx_only"](tmp_path / "bare.sqlite")
    assert json.loads(answered(run("query", path, "SELECT count(*) AS n FROM op", "--json"))) == [{"n": 2}]
    assert json.loads(answered(run("query", bare, "SELECT count(*) AS n FROM op", "--json"))) == [{"n": 0}]
    expect_error(run("query", bare, "SELECT count(*) FROM period"), "no-kernels")


def test_not_captured_is_said(run, good):
    code, out, err = run("query", good, "SELECT count(*) AS waits FROM gil WHERE waiting")
    assert code == 0 and "0" in out
    assert "note: gil: gil was not captured in good.sqlite" in err


def test_whole_capture(run, good):
    rows = json.loads(
        answered(run("query", good, "SELECT step, period_ns FROM period", "--json", "--whole-capture"))
    )
    # from the first op to the end of the last: the first op of 7 steps begins 107 us after its step does
    assert rows == [{"step": 0, "period_ns": int(7 * step_ns()) - 107 * US}]
    steps = json.loads(
        answered(run("query", good, "SELECT DISTINCT step FROM op", "--json", "--whole-capture"))
    )
    assert steps == [{"step": 0}]


def test_options_that_exclude_each_other(run, good):
    expect_error(run("query", good, "FROM op", "--host-only", "--whole-capture"), "host-only-steps", 2)


def hostile(tmp_path):
    trace = serving(steps=4)
    for number, name in enumerate([*NAMES, "\x1b]0;title\x07\x1b[31mred"]):
        trace.range(1, name, number * 10 * US, number * 10 * US + 5)
    return trace.write(tmp_path / "hostile.sqlite")


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


def test_hostile_names_of_columns(run, good):
    out = answered(run("query", good, 'SELECT 1 AS "\x1b[31mred"'))
    assert "\x1b" not in out and "\\x1b[31mred" in out


def test_a_spreadsheet_computes_nothing(run, tmp_path):
    trace = serving(steps=4)
    trace.range(1, "=cmd|' /C calc'!A0", 10, 20)
    path = trace.write(tmp_path / "formula.sqlite")
    out = answered(run("query", path, "SELECT text FROM range WHERE text LIKE '%calc%'", "--csv"))
    assert list(csv.reader(io.StringIO(out)))[1] == ["'=cmd|' /C calc'!A0"]


# The shell


def piped(path, text, *words):
    return subprocess.run(
        [sys.executable, "-m", "tracediff", "shell", str(path), *words],
        input=text, capture_output=True, text=True, timeout=120, cwd=ROOT,
    )  # fmt: skip


def test_a_piped_session(good):
    done = piped(
        good,
        "SELECT count(*) AS n\n  FROM step;\n.tables\n.schema gil\nSELECT ';' AS x; -- done\nSELECT 2 AS y",
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:4] == ["n", "-", "7", "(1 row)"]
    assert any(line.startswith("kernel_by_step ") for line in lines)
    assert any(line.split()[:2] == ["waiting", "BOOLEAN"] for line in lines)
    assert lines[-8:] == ["x", "-", ";", "(1 row)", "y", "-", "2", "(1 row)"]


def test_a_mistake_ends_nothing(good):
    done = piped(good, "SELEC 1;\n.foo\n.schema nothing\nSELECT 1 AS x;\n.quit\nSELECT 2 AS y;\n")
    assert done.returncode == 1  # something failed
    assert [word for word in ("[bad-sql]", "[shell-command]") if word not in done.stderr] == []
    assert "Traceback" not in done.stderr
    assert done.stdout.splitlines() == ["x", "-", "1", "(1 row)"]


def test_limit_and_views_last_over_statements(good):
    done = piped(
        good,
        "CREATE TEMP VIEW slow AS FROM op;\n.limit 2\nSELECT start_ns FROM slow;\n.limit 0\nSELECT start_ns FROM slow;\n",
    )
    assert done.returncode == 0, done.stderr
    assert (
        "(the first 2 rows, there are more: .limit 0 shows all)" in done.stdout and "(21 rows)" in done.stdout
    )


def test_a_capture_without_steps_is_said(tmp_path):
    bare = BROKEN["nvtx_only"](tmp_path / "bare.sqlite")
    done = piped(bare, "SELECT count(*) AS n FROM op;\nSELECT count(*) FROM idle;\n")
    assert done.returncode == 1
    assert "note: tables of measured steps are not there" in done.stderr and "[no-kernels]" in done.stderr


def test_at_a_terminal(good, tmp_path):
    """With a prompt, over two lines, broken off with Ctrl-C, left with Ctrl-D; nothing is remembered on disk."""
    home = tmp_path / "home"
    home.mkdir()
    master, slave = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "tracediff", "shell", str(good)], stdin=slave, stdout=slave, stderr=slave, cwd=ROOT,
        env={**os.environ, "HOME": str(home), "TERM": "dumb", "COLUMNS": "80"}, start_new_session=True, close_fds=True,
    )  # fmt: skip
    os.close(slave)
    seen = b""

    def until(word: bytes) -> None:
        nonlocal seen
        deadline = time.monotonic() + 60
        while word not in seen:
            assert time.monotonic() < deadline, seen
            if select.select([master], [], [], 0.2)[0]:
                seen += os.read(master, 65536)
        seen = seen.partition(word)[2]

    try:
        until(b"tracediff> ")
        os.write(master, b"SELECT count(*) AS n\n")
        until(b"...> ")
        os.write(master, b"FROM step;\n")
        until(b"(1 row)")
        until(b"tracediff> ")
        os.write(master, b"SELECT count(*)\n")
        until(b"...> ")
        time.sleep(0.5)  # a signal between the prompt and the wait for a key is heard with the next key
        child.send_signal(2)
        until(b"interrupted")
        until(b"tracediff> ")
        os.write(master, b"SELECT 41 + 1 AS answer;\n")
        until(b"42")
        until(b"tracediff> ")
        os.write(
            master, b"SELECT count(*) FROM range(100000000) a, range(100000) b WHERE a.range + b.range = 3;\n"
        )
        time.sleep(1)
        child.send_signal(2)
        until(b"interrupted")
        until(b"tracediff> ")
        time.sleep(0.5)
        os.write(master, b"\x04")
        assert child.wait(timeout=60) == 0
    finally:
        child.kill()
        child.wait()
        os.close(master)
    assert files(home) == set()


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


def test_a_label_of_a_step_is_masked_in_place(run, good):
    rows = json.loads(
        answered(
            run("query", good, "SELECT DISTINCT place FROM range WHERE text = '" + label(2) + "'", "--json")
        )
    )
    assert rows == [{"place": "[Executor] _forward_step"}]
