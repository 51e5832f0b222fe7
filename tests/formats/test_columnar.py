"""Folders of Parquet files: the numbers of the SQLite export of the same report, and clear words of what is wrong."""

from __future__ import annotations

import lzma
import os
import shutil
import sqlite3

import msgspec
import polars as pl
import pytest

from fixtures.builders import two_steps
from fixtures.builders.columnar import to_folder, write
from tests.tiny import CAPTURES, FIXTURES, one_gap
from tracediff.errors import TracediffError
from tracediff.execution import cache
from tracediff.execution.run import reduce_file
from tracediff.execution.sides import Reading
from tracediff.formats.capture import load_capture
from tracediff.formats.inputs import resolve
from tracediff.request import CompareRequest
from tracediff.session import compare_request

READING = Reading(threads=1)
PAIRS = {
    "graph": ("demo/graph_a/graph_a1.sqlite.xz", "demo/graph_gc/graph_gc.sqlite.xz"),
    "memory": ("system/mem.sqlite.xz", "system/mem_alloc.sqlite.xz"),
    "ranks": ("captures/tp2_a1.sqlite.xz", "captures/tp2_a1.sqlite.xz"),
}


def without_capture_options(path):
    """What nsys does not write into a folder."""
    with sqlite3.connect(path) as db:
        db.execute("DROP TABLE IF EXISTS META_DATA_CAPTURE")
    db.close()
    return path


def plain(source, to):
    to.parent.mkdir(parents=True, exist_ok=True)
    with lzma.open(source) as packed:
        to.write_bytes(packed.read())
    return without_capture_options(to)


def folder_of(tmp_path, trace=None, name="run_pqtdir"):
    return to_folder((trace or two_steps()).write(tmp_path / "trace.sqlite"), tmp_path / name)


def numbers(baseline, candidate):
    """A whole result without what names the files."""
    result = compare_request(CompareRequest(baseline, candidate, force=True, cache=False), keep=True)
    found = msgspec.to_builtins(result)
    text = msgspec.json.encode(
        {name: part for name, part in found.items() if name != "inputs"}, order="deterministic"
    )
    sides = [
        {key: value for key, value in run.items() if key not in ("bytes", "sha256", "fingerprint")}
        for run in _dicts(found["inputs"])
    ]
    return text, sides


def _dicts(value):
    """Every innermost object of a tree of lists and objects."""
    if isinstance(value, list):
        return [found for part in value for found in _dicts(part)]
    inner = [found for part in value.values() if isinstance(part, list | dict) for found in _dicts(part)]
    return [*inner, {key: part for key, part in value.items() if not isinstance(part, list | dict)}]


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.slow
def test_a_folder_gives_the_result_of_its_sqlite_export(pair, tmp_path):
    """Both are called the same: a name in a warning is a name in the other."""
    folders, files = [], []
    for side, name in zip("ab", PAIRS[pair], strict=True):
        export = plain(FIXTURES / name, tmp_path / "plain" / side / "run.sqlite")
        files.append(export)
        folders.append(to_folder(export, tmp_path / "tables" / side / "run.sqlite"))
    one, two = numbers(*files), numbers(*folders)
    assert one[0] == two[0]
    assert one[1] == two[1]
    assert b'"kernels":[{' in one[0]


def test_the_reductions_are_equal_to_the_last_row(tmp_path):
    export = plain(CAPTURES["graph_a1"], tmp_path / "run.sqlite")
    want = reduce_file(export, READING)
    got = reduce_file(to_folder(export, tmp_path / "tables"), READING)
    assert want.periods.height > 20
    for name in ("periods", "ranges"):
        assert getattr(got, name).equals(getattr(want, name)), name


def test_ids_of_64_bits_are_those_of_sqlite(tmp_path):
    """An id above 2^63 is a negative number in SQLite and an unsigned one in Parquet."""
    trace = one_gap()
    export = trace.write(tmp_path / "trace.sqlite")
    with sqlite3.connect(export) as db:
        for table, column in (("NVTX_EVENTS", "globalTid"), ("CUPTI_ACTIVITY_KIND_RUNTIME", "globalTid"),
                              ("CUPTI_ACTIVITY_KIND_KERNEL", "globalPid"), ("ThreadNames", "globalTid")):  # fmt: skip
            db.execute(f"UPDATE {table} SET {column} = {column} | (1 << 63)")
    db.close()
    want = load_capture(export, tmp_path)
    tids = want.db.execute("SELECT DISTINCT tid FROM api_call").fetchall()
    assert all(tid < 0 for (tid,) in tids)
    got = load_capture(to_folder(export, tmp_path / "tables"), tmp_path)
    for table in ("api_call", "range", "thread", "op_row", "op_key", "device"):
        query = f"SELECT * FROM {table} ORDER BY ALL"
        assert got.db.execute(query).fetchall() == want.db.execute(query).fetchall(), table
    got.close()
    want.close()


def test_a_folder_says_what_it_holds(tmp_path):
    capture = load_capture(folder_of(tmp_path), tmp_path)
    try:
        assert capture.coverage["kernels"] == capture.coverage["memcpy"] == "captured"
        assert capture.schema.version == "3.7.2"
        assert capture.bytes == sum(path.stat().st_size for path in (tmp_path / "run_pqtdir").iterdir())
    finally:
        capture.close()


def test_nothing_is_left_in_the_scratch_folder_and_nothing_written_beside_the_input(tmp_path):
    folder = folder_of(tmp_path)
    before = sorted(path.name for path in folder.iterdir())
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    load_capture(folder, scratch).close()
    assert [path.name for path in scratch.iterdir() if path.name != "spill"] == []
    assert sorted(path.name for path in folder.iterdir()) == before


@pytest.mark.parametrize("name", ["run [1]_pqtdir", "rank=0", "what?*", "it's"])
def test_names_that_mean_something_to_a_database(name, tmp_path):
    reduction = reduce_file(folder_of(tmp_path, name=name), READING)
    assert reduction.periods["kernels" if "kernels" in reduction.periods.columns else "compute"].sum() > 0


# -- which folders are inputs --------------------------------------------------------------------------


def runs(side) -> dict[str, list[str]]:
    return {run.name: [file.name for file in run.files] for run in side.runs}


def mark(folder):
    folder.mkdir(parents=True)
    (folder / "StringIds.parquet").touch()
    return folder


@pytest.mark.parametrize(
    ("name", "label"), [("before_pqtdir", "before"), ("before.parquetdir", "before"), ("tables", "tables")]
)
def test_a_folder_of_tables_is_one_run(name, label, tmp_path):
    side = resolve(str(mark(tmp_path / name)))
    assert (side.label, runs(side)) == (label, {name: [name]})


def test_a_folder_of_tables_is_named_from_within(tmp_path, monkeypatch):
    monkeypatch.chdir(mark(tmp_path / "before_pqtdir"))
    side = resolve(".")
    assert (side.label, runs(side)) == ("before", {"before_pqtdir": ["before_pqtdir"]})


def test_a_folder_of_folders_is_repeats_and_ranks(tmp_path):
    for name in ("a_rank0_pqtdir", "a_rank1_pqtdir", "b_pqtdir"):
        mark(tmp_path / "runs" / name)
    side = resolve(str(tmp_path / "runs"))
    assert runs(side) == {"a_pqtdir": ["a_rank0_pqtdir", "a_rank1_pqtdir"], "b_pqtdir": ["b_pqtdir"]}


def test_exports_of_one_report_are_one_run(tmp_path):
    mark(tmp_path / "runs" / "a_pqtdir")
    mark(tmp_path / "runs" / "b_pqtdir")
    (tmp_path / "runs" / "a.sqlite").touch()
    (tmp_path / "runs" / "b.nsys-rep").touch()
    assert runs(resolve(str(tmp_path / "runs"))) == {"a.sqlite": ["a.sqlite"], "b_pqtdir": ["b_pqtdir"]}


def test_a_folder_of_other_parquet_files_is_no_export(tmp_path):
    (tmp_path / "weather.parquet").touch()
    with pytest.raises(TracediffError) as refused:
        resolve(str(tmp_path))
    assert refused.value.slug == "empty-folder"


@pytest.mark.parametrize("other", ["run.sqlite"])
def test_two_exports_in_one_folder(other, tmp_path):
    (mark(tmp_path / "run_pqtdir") / other).touch()
    with pytest.raises(TracediffError) as refused:
        resolve(str(tmp_path / "run_pqtdir"))
    assert refused.value.slug == "mixed-folder"
    assert "run_pqtdir" in refused.value.message


# -- what is broken ------------------------------------------------------------------------------------


def refusal(folder, scratch) -> TracediffError:
    with pytest.raises(TracediffError) as refused:
        load_capture(folder, scratch).close()
    return refused.value


@pytest.mark.parametrize("kept", [0, 3, 200, -1, -8])
def test_a_file_cut_short(kept, tmp_path):
    folder = folder_of(tmp_path)
    path = folder / "NVTX_EVENTS.parquet"
    path.write_bytes(path.read_bytes()[:kept])
    error = refusal(folder, tmp_path)
    assert error.slug == ("empty-file" if kept == 0 else error.slug)
    assert error.slug in ("empty-file", "truncated", "not-parquet")
    assert "NVTX_EVENTS.parquet" in error.message
    assert str(tmp_path) not in str(error)


@pytest.mark.slow
def test_a_damaged_file_never_ends_in_a_traceback(tmp_path):
    """Every 200th byte of a file turned around, one at a time: refused in words, or harmless."""
    folder = folder_of(tmp_path)
    path = folder / "CUPTI_ACTIVITY_KIND_KERNEL.parquet"
    whole = path.read_bytes()
    refused = 0
    for place in range(0, len(whole), 200):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        try:
            load_capture(folder, tmp_path / str(place)).close()
        except TracediffError as error:
            refused += 1
            assert str(tmp_path) not in str(error)
    assert refused > 1


def test_a_text_file_of_that_name(tmp_path):
    folder = folder_of(tmp_path)
    (folder / "StringIds.parquet").write_text("id,value\n")
    assert refusal(folder, tmp_path).slug == "not-parquet"


def test_names_that_were_left_behind(tmp_path):
    folder = folder_of(tmp_path)
    (folder / "StringIds.parquet").unlink()
    error = refusal(folder, tmp_path)
    assert error.slug == "table-missing"
    assert "StringIds" in error.message


@pytest.mark.parametrize("kind", ["link to nothing", "link to a device", "pipe", "folder"])
def test_a_table_that_is_no_file_is_not_taken_for_not_recorded(kind, tmp_path):
    folder = folder_of(tmp_path)
    table = folder / "CUPTI_ACTIVITY_KIND_MEMCPY.parquet"
    table.unlink()
    if kind == "pipe":
        os.mkfifo(table)
    elif kind == "folder":
        table.mkdir()
    else:
        table.symlink_to("/dev/zero" if "device" in kind else tmp_path / "nowhere")
    error = refusal(folder, tmp_path)
    assert error.slug == "table-missing" and table.name in error.message


def test_a_missing_kind_of_trace_is_not_captured(tmp_path):
    folder = folder_of(tmp_path)
    (folder / "NVTX_EVENTS.parquet").unlink()
    capture = load_capture(folder, tmp_path)
    assert capture.coverage["nvtx"] == "not_captured"
    assert capture.coverage["kernels"] == "captured"
    capture.close()


def test_a_column_of_another_type(tmp_path):
    folder = folder_of(tmp_path)
    path = folder / "NVTX_EVENTS.parquet"
    write(pl.read_parquet(path).with_columns(start=pl.lit("soon")), path)
    assert refusal(folder, tmp_path).slug == "bad-column"


# -- what is kept, and how much memory -----------------------------------------------------------------


def test_the_cache_knows_a_folder_by_its_content(tmp_path):
    folder = folder_of(tmp_path)
    first = cache.key_of(folder, READING)
    assert first is not None
    again = shutil.copytree(folder, tmp_path / "copy" / folder.name)
    assert cache.key_of(again, READING) == first
    strings = pl.read_parquet(folder / "StringIds.parquet")
    write(strings.with_columns(value=pl.col("value") + "!"), folder / "StringIds.parquet")
    assert cache.key_of(folder, READING) != first
    (again / "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION.parquet").unlink(missing_ok=True)
    (again / "CUPTI_ACTIVITY_KIND_EXTRA.parquet").touch()
    assert cache.key_of(again, READING) != first


def test_the_same_tables_as_arrow_files_are_refused(tmp_path):
    folder = folder_of(tmp_path)
    for path in folder.iterdir():
        path.rename(path.with_suffix(".arrow"))
    with pytest.raises(TracediffError, match="--type parquetdir") as refused:
        resolve(str(folder))
    assert refused.value.slug == "arrow-folder" and folder.name in refused.value.message


@pytest.mark.parametrize(
    ("content", "slug"),
    [
        (b"", "empty-file"),
        (b"PAR1" + bytes(100), "truncated"),
        (
            b"PAR1" + b"\x1c" * 5000 + (5000).to_bytes(4, "little") + b"PAR1",
            "truncated",
        ),  # structs in structs
        (b"PAR1" + b"\x15\xff" * 50 + (1 << 20).to_bytes(4, "little") + b"PAR1", "truncated"),
    ],
    ids=["empty", "cut", "nested", "longer than the file"],
)
def test_what_is_no_parquet_opens_no_database(content, slug, tmp_path, monkeypatch):
    folder = folder_of(tmp_path)
    (folder / "NVTX_EVENTS.parquet").write_bytes(content)
    monkeypatch.setattr("tracediff.formats.capture.in_memory", lambda: pytest.fail("opened"))
    with pytest.raises(TracediffError, match=r"NVTX_EVENTS\.parquet") as raised:
        reduce_file(folder, READING)
    assert raised.value.slug == slug


def test_more_rows_than_bytes_can_hold_are_not_read(tmp_path, monkeypatch):
    folder = folder_of(tmp_path)
    rows = pl.DataFrame({"start": pl.repeat(1, 1_100_000, eager=True)})
    rows.write_parquet(folder / "NVTX_EVENTS.parquet")
    assert (folder / "NVTX_EVENTS.parquet").stat().st_size < 20_000
    monkeypatch.setattr("tracediff.formats.capture.in_memory", lambda: pytest.fail("opened"))
    with pytest.raises(TracediffError, match="1,100,000 rows") as raised:
        reduce_file(folder, READING)
    assert raised.value.slug == "too-many"
