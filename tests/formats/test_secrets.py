"""The environment, host and user of the traced program stay in the export, out of tables and reports."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.serving import serving
from tracediff.cli.main import cli
from tracediff.formats.capture import load_capture

SECRET = "s3cr3t-t0ken-of-the-user"
HOST, USER = "host-of-the-customer", "user-of-the-customer"
PLANTED = (SECRET, HOST, USER)


def planted(folder: Path) -> Path:
    """An export with what nsys writes of its surroundings."""
    trace = serving(steps=6)
    for name, value in (
        ("PROCESS_0:ENVIRONMENT_VARIABLE", f"HF_TOKEN={SECRET}"),
        ("PROCESS_0:ENVIRONMENT_VARIABLE", "A=b"),
        ("COMMAND_LINE", f"python serve.py --key {SECRET}"),
        ("PROCESS_0:WORKING_DIR", f"/home/{USER}/work"),
        ("PROCESS_0:USER", USER),
        ("PROCESS_1:CUDA_GRAPH_TRACE_OPTIONS:MODE", "Node"),
        ("EXPORT_PARAM_OUTUPT_FILE", f"/home/{USER}/trace.sqlite"),
        ("EXPORT_INPUT_FILE", f"/home/{USER}/{HOST}.nsys-rep"),
    ):
        trace.meta(name, value)
    trace.output(100, f"logged in with {SECRET}").process(4321, f"ssh {USER}@{HOST}")
    path = trace.write(folder / "planted.sqlite")
    with sqlite3.connect(path) as db:
        for name, value in (("Hostname", HOST), ("UserName", USER), ("OsDescription", f"linux on {HOST}"),
                            ("NvDriverVersion", "580.1")):  # fmt: skip
            db.execute("INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES (0, 'System', ?, 0, ?)", (name, value))
    db.close()
    return path


def dump(db) -> str:
    """Every value of every table and view of a DuckDB database."""
    names = [
        name
        for (name,) in db.execute(
            "SELECT table_name FROM duckdb_tables()"
            " UNION SELECT view_name FROM duckdb_views() WHERE NOT internal"
        ).fetchall()
    ]
    assert "op" in names and "meta" in names
    return "\n".join(str(row) for name in names for row in db.execute(f'SELECT * FROM "{name}"').fetchall())


def test_the_plants_are_in_the_export(tmp_path):
    content = planted(tmp_path).read_bytes()
    assert all(word.encode() in content for word in PLANTED)


def test_no_canonical_table_holds_the_surroundings(tmp_path):
    path = planted(tmp_path)
    with sqlite3.connect(
        path
    ) as db:  # what a program printed is its own text among all strings: not its surroundings
        db.execute("DELETE FROM StringIds WHERE value LIKE 'logged in%'")
    db.close()
    capture = load_capture(path, tmp_path)
    content = dump(capture.db)
    capture.close()
    assert [word for word in PLANTED if word in content] == []
    assert "580.1" in content and "Node" in content  # what may be known is there
    assert not [word for word in PLANTED if word in repr(capture.meta)]


@pytest.fixture(scope="module")
def reports(tmp_path_factory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("secret")
    path = planted(folder)
    other = serving(steps=6, schedule_us=140).write(folder / "other.sqlite")
    files = {name: folder / f"out.{name}" for name in ("html", "md", "json", "junit")}
    options = [word for name, file in files.items() for word in (f"--{name}", str(file))]
    done = CliRunner().invoke(cli, ["compare", str(path), str(other), "--fail-on", "step:+500%", *options])
    assert done.exit_code == 0, done.output
    return {name: file.read_text() for name, file in files.items()} | {"terminal": done.output}


def test_no_report_holds_the_surroundings(reports):
    assert set(reports) == {"html", "md", "json", "junit", "terminal"}
    assert min(len(text) for text in reports.values()) > 50
    assert [(name, word) for name, text in reports.items() for word in PLANTED if word in text] == []


def test_no_report_names_a_folder_of_this_machine(reports, tmp_path_factory):
    base = str(tmp_path_factory.getbasetemp())
    assert [name for name, text in reports.items() if name != "terminal" and base in text] == []
