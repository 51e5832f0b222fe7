"""Reports through `nsys export`: Parquet first, SQLite where it is asked for or needed; whole or not at all."""

from __future__ import annotations

import sqlite3

import polars as pl
import pytest

from fixtures.builders import two_steps
from fixtures.builders.columnar import write
from tests.formats.stand_in_nsys import HELP, StandIn
from tracediff.capture.runner import forget_environment
from tracediff.errors import TracediffError
from tracediff.execution.cache import pack
from tracediff.execution.run import reduce_file, reduce_sides
from tracediff.execution.sides import Reading
from tracediff.formats.capture import load_capture
from tracediff.formats.contents import looked_into
from tracediff.formats.inputs import resolve
from tracediff.formats.reports import export_report


@pytest.fixture
def trace(tmp_path):
    path = two_steps().write(tmp_path / "trace.sqlite")
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE IF NOT EXISTS META_DATA_CAPTURE (name TEXT, value TEXT)")
        db.executemany(
            "INSERT INTO META_DATA_CAPTURE VALUES (?, ?)",
            [("RUN_DURATION_MS", "77"), ("PROCESS_0:ENVIRONMENT_VARIABLE", "API_TOKEN=hunter2")],
        )
    db.close()
    return path


@pytest.fixture
def nsys(tmp_path, trace, monkeypatch):
    found = StandIn(tmp_path / "bin", trace)
    found.use(monkeypatch)
    return found


def exported(report, folder, *form) -> str:
    folder.mkdir(exist_ok=True)
    return export_report(report, folder, "run", *form).name


def test_a_report_gives_the_same_as_parquet_and_as_sqlite(nsys, tmp_path):
    """Also of what nsys leaves out of Parquet: META_DATA_CAPTURE."""
    report = nsys.report(tmp_path / "run.nsys-rep")
    one, two = (reduce_file(report, Reading(threads=1, export=form)) for form in ("parquet", "sqlite"))
    assert sorted(nsys.calls()) == ["capture", "parquetdir", "sqlite"]
    assert one.meta["RUN_DURATION_MS"] == ("77",)
    assert pack(one) == pack(two)


def test_what_sqlite_is_needed_for(nsys, tmp_path):
    report = nsys.report(tmp_path / "run.nsys-rep")
    assert exported(report, tmp_path / "a") == "run_pqtdir"
    assert exported(report, tmp_path / "b", "sqlite") == "run.sqlite"
    assert exported(nsys.report(tmp_path / "no.nsys-rep", "parquetdir"), tmp_path / "c") == "run.sqlite"
    (nsys.folder / "help").write_text("--type= sqlite, hdf, arrowdir")
    assert exported(report, tmp_path / "d") == "run.sqlite"


def test_an_nsys_without_tables_tells_nothing_of_the_capture(nsys, tmp_path):
    (nsys.folder / "help").write_text(HELP.replace("--tables", "--none"))
    assert exported(nsys.report(tmp_path / "run.nsys-rep"), tmp_path / "a") == "run_pqtdir"
    assert nsys.calls() == ["parquetdir"]
    assert not (tmp_path / "a/run_pqtdir/META_DATA_CAPTURE.parquet").exists()


def test_names_that_are_not_utf8_are_read_from_sqlite(nsys, tmp_path):
    """A byte of a name in the Parquet file becomes one that begins no character."""
    names = nsys.folder / "parquetdir" / "StringIds.parquet"
    whole = names.read_bytes()
    at = whole.index(b"gemm") if b"gemm" in whole else whole.index(b"cuda")
    names.write_bytes(whole[:at] + b"\xff" + whole[at + 1 :])
    assert exported(nsys.report(tmp_path / "run.nsys-rep"), tmp_path / "a") == "run.sqlite"


def test_an_export_is_whole_or_not_there(nsys, tmp_path):
    folder = tmp_path / "a"
    exported(nsys.report(tmp_path / "run.nsys-rep"), folder)
    (folder / "run_pqtdir" / "old").touch()
    broken = nsys.report(tmp_path / "no.nsys-rep", "parquetdir,sqlite")
    with pytest.raises(TracediffError) as refused:
        exported(broken, folder)
    assert refused.value.slug == "nsys-export-failed"
    assert [path.name for path in folder.iterdir()] == ["run_pqtdir"]
    assert (folder / "run_pqtdir" / "old").exists()
    exported(tmp_path / "run.nsys-rep", folder)  # replaces it as a whole
    assert not (folder / "run_pqtdir" / "old").exists()


def test_tables_are_counted_as_in_sqlite(nsys, tmp_path):
    report = nsys.report(tmp_path / "run.nsys-rep")
    with looked_into(report, tmp_path) as seen:
        assert seen.rows["CUPTI_ACTIVITY_KIND_KERNEL"] == 5 - seen.any_rows("copies") - seen.any_rows(
            "memsets"
        )
        assert seen.rows["META_DATA_CAPTURE"] >= 1


def test_the_environment_goes_and_all_else_stays(nsys, tmp_path):
    """A record a variable, the agent's environment as one text, and a process's as one string with zero bytes."""
    folder = nsys.folder / "parquetdir"
    names = pl.read_parquet(folder / "StringIds.parquet")
    more = pl.DataFrame({"id": [9001], "value": ["A=1\0API_TOKEN=hunter2"]}, schema=names.schema)
    write(pl.concat([names, more]), folder / "StringIds.parquet")
    write(
        pl.DataFrame({"name": ["CpuCores", "DeviceEnvironment"], "value": ["2", "API_TOKEN=hunter2"]}),
        folder / "TARGET_INFO_SYSTEM_ENV.parquet",
    )
    out = export_report(nsys.report(tmp_path / "run.nsys-rep"), tmp_path, "run")
    forget_environment(out)
    assert not [path.name for path in out.iterdir() if b"hunter2" in path.read_bytes()]
    assert pl.read_parquet(out / "TARGET_INFO_SYSTEM_ENV.parquet").rows() == [("CpuCores", "2")]
    left = pl.read_parquet(out / "StringIds.parquet")
    assert left.schema == names.schema
    assert left.rows() == [*names.rows(), (9001, "")]
    load_capture(out, tmp_path).close()


@pytest.mark.parametrize("memory_limit", [None, "1GiB"])
def test_reports_are_exported_ahead_and_nothing_stays(memory_limit, nsys, tmp_path, monkeypatch):
    """With a limit of memory one is read at a time, and two are exported: the next one while one is read."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    for name in "abc":
        nsys.report(tmp_path / "runs" / f"{name}.nsys-rep", "parquetdir,sqlite" if name == "b" else "")
    reading = Reading(memory_limit=memory_limit, skip_unreadable=True)
    (side,) = reduce_sides([resolve(str(tmp_path / "runs"))], reading)
    assert [run.name for run in side.runs] == ["a.nsys-rep", "c.nsys-rep"]
    assert [(one.name, one.slug) for one in side.left_out] == [("b.nsys-rep", "nsys-export-failed")]
    assert nsys.calls().count("parquetdir") == 3
    assert not list(scratch.iterdir())
    want = reduce_file(tmp_path / "runs" / "a.nsys-rep", reading)
    assert pack(side.runs[0].parts[0]) == pack(want)
