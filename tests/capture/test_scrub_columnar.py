"""`tracediff scrub` of a folder of Parquet files: the same rules as of SQLite, and the same rows."""

import sqlite3
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner

from fixtures.builders.columnar import to_folder, write
from tests.capture.test_scrub import SECRETS, private_trace
from tracediff.capture import scrub as scrubbing
from tracediff.capture.scrub import scrub
from tracediff.cli.main import cli
from tracediff.errors import TracediffError
from tracediff.execution.reading import Reading
from tracediff.execution.run import reduce_file
from tracediff.formats import columnar


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


@pytest.mark.parametrize("name", ["run_pqtdir", "run.sqlite"])
def test_what_is_private_goes_and_the_numbers_stay(name: str, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / name
    done = CliRunner().invoke(cli, ["scrub", str(folder), str(out)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    files = sorted(out.iterdir()) if out.is_dir() else [out]
    text = b"\n".join(path.read_bytes() for path in files)
    assert [secret for secret in SECRETS if secret.encode() in text] == []
    assert numbers(out) == numbers(folder)
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []


def test_truth_stays_truth(folder: Path, tmp_path: Path) -> None:
    path = folder / "TARGET_INFO_GPU.parquet"
    write(pl.read_parquet(path).with_columns(isDiscrete=pl.lit(True)), path)
    scrub(folder, tmp_path / "out")
    assert pl.read_parquet(tmp_path / "out" / path.name)["isDiscrete"].to_list() == [True]


def test_measured_tables_are_the_same_of_the_same_types(folder: Path, tmp_path: Path) -> None:
    """Also an id above 2^63, which is negative in SQLite, and no id at all."""
    path = folder / "CUPTI_ACTIVITY_KIND_MEMCPY.parquet"
    rows = pl.read_parquet(path).with_columns(
        virtualAddress=pl.Series([2**64 - 1, *[None] * (pl.read_parquet(path).height - 1)], dtype=pl.UInt64)
    )
    write(rows, path)
    scrub(folder, tmp_path / "out")
    for table in ("CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME"):
        assert pl.read_parquet(tmp_path / "out" / f"{table}.parquet").equals(
            pl.read_parquet(folder / f"{table}.parquet")
        )
    assert rows["virtualAddress"].max() == 2**64 - 1


def test_rows_that_would_change_are_not_put_in_place(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def one_less(path: Path, like: Path, made: Path) -> None:
        columnar.from_sqlite(path, like, made)
        file = made / "CUPTI_ACTIVITY_KIND_KERNEL.parquet"
        write(pl.read_parquet(file)[:-1], file)

    monkeypatch.setattr(
        scrubbing, "columnar", type("Changing", (), {**vars(columnar), "from_sqlite": staticmethod(one_less)})
    )
    with pytest.raises(TracediffError) as refused:
        scrub(folder, tmp_path / "out")
    assert refused.value.slug == "scrub-changed-rows"
    assert not (tmp_path / "out").exists()


def test_only_an_export_is_overwritten(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis").touch()
    with pytest.raises(TracediffError) as refused:
        scrub(folder, tmp_path / "mine", force=True)
    assert refused.value.slug == "output-exists"
    scrub(folder, tmp_path / "out")
    (tmp_path / "out" / "old.parquet").touch()
    scrub(folder, tmp_path / "out", force=True)
    assert not (tmp_path / "out" / "old.parquet").exists()


def test_a_damaged_table(folder: Path, tmp_path: Path) -> None:
    path = folder / "NVTX_EVENTS.parquet"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(TracediffError) as refused:
        scrub(folder, tmp_path / "out")
    assert refused.value.slug == "truncated"
    assert not (tmp_path / "out").exists()
