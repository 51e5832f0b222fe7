"""`tracediff scrub` of a folder of Parquet files: the same rules as of SQLite, and the same rows."""

import sqlite3
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner

from fixtures.builders.columnar import to_folder, write
from tests.capture.test_scrub import SECRETS, private_trace
from tracediff.capture.scrub import scrub
from tracediff.cli.main import cli
from tracediff.errors import TracediffError
from tracediff.execution.run import reduce_file
from tracediff.execution.sides import Reading


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With META_DATA_CAPTURE, which nsys leaves out: its environment tells which words of ranges are secrets."""
    trace = private_trace(tmp_path / "in.sqlite")
    found = to_folder(trace, tmp_path / "in" / "run_pqtdir")
    with closing(sqlite3.connect(trace)) as db:
        records = db.execute("SELECT name, value FROM META_DATA_CAPTURE").fetchall()
    write(pl.DataFrame(records, ["name", "value"], orient="row"), found / "META_DATA_CAPTURE.parquet")
    return found


def numbers(path: Path) -> list[tuple[object, ...]]:
    return reduce_file(path, Reading(threads=1)).periods.rows()


def test_what_is_private_goes_and_the_numbers_stay(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "run.sqlite"
    done = CliRunner().invoke(cli, ["scrub", str(folder), str(out)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert [secret for secret in SECRETS if secret.encode() in out.read_bytes()] == []
    assert numbers(out) == numbers(folder)
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []


def test_measured_numbers_are_those_of_the_folder(folder: Path, tmp_path: Path) -> None:
    """Also an id above 2^63, which is negative in SQLite, and no id at all."""
    path = folder / "CUPTI_ACTIVITY_KIND_KERNEL.parquet"
    many = pl.read_parquet(path).height
    ids = pl.Series([2**64 - 1, *[None] * (many - 1)], dtype=pl.UInt64)
    write(pl.read_parquet(path).with_columns(graphNodeId=ids), path)
    scrub(folder, tmp_path / "out.sqlite")
    with closing(sqlite3.connect(tmp_path / "out.sqlite")) as db:
        found = [one for (one,) in db.execute(f"SELECT graphNodeId FROM {path.stem} ORDER BY rowid")]
    assert found == [-1, *[None] * (many - 1)]


def test_no_folder_is_written(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(TracediffError) as refused:
        scrub(folder, tmp_path / "out")
    assert refused.value.slug == "scrub-folder"
    (tmp_path / "mine.sqlite").mkdir()
    with pytest.raises(TracediffError) as refused:
        scrub(folder, tmp_path / "mine.sqlite", force=True)
    assert refused.value.slug == "output-is-folder"


def test_a_damaged_table(folder: Path, tmp_path: Path) -> None:
    path = folder / "NVTX_EVENTS.parquet"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(TracediffError) as refused:
        scrub(folder, tmp_path / "out.sqlite")
    assert refused.value.slug == "truncated"
    assert not (tmp_path / "out.sqlite").exists()
