"""What users and machines wrote into the tables of metadata never makes an export unreadable; names are read as far as they can be."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import duckdb
import pytest

from fixtures.builders import two_steps
from fixtures.builders.columnar import to_folder
from tests.formats.odd_exports import TWO_STEPS, edit, reduce, written
from tests.tiny import spent
from tracediff.errors import TracediffError
from tracediff.formats.columnar import check_texts
from tracediff.formats.contents import looked_into
from tracediff.formats.schema import METADATA, READ

NAME_VALUE = "name TEXT, value TEXT"
TABLES = {
    "META_DATA_CAPTURE": NAME_VALUE,
    "META_DATA_EXPORT": NAME_VALUE,
    "EXPORT_META_DATA": NAME_VALUE,
    "TARGET_INFO_SYSTEM_ENV": f"globalVid INTEGER, devStateName TEXT, {NAME_VALUE}, nameEnum INTEGER",
    "TARGET_INFO_GPU": "id INTEGER, name TEXT, smCount INTEGER, clockRate INTEGER, totalMemory INTEGER, memoryBandwidth INTEGER",
    "TARGET_INFO_GPU_METRICS": "typeId INTEGER, metricId INTEGER, metricName TEXT",
    "TARGET_INFO_CUDA_DEVICE": "gpuId INTEGER, cudaId INTEGER, pid INTEGER",
    "ThreadNames": "nameId INTEGER, globalTid INTEGER",
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs INTEGER",
    "ANALYSIS_DETAILS": "globalVid INTEGER, duration INTEGER, startTime INTEGER, stopTime INTEGER",
}
DAMAGE = {
    "not UTF-8": "CAST(x'6bff66fe' AS TEXT)",
    "bytes": "x'00ff'",
    "nothing": "NULL",
    "a fraction": "1.5",
    "too large": "9e99",
    "infinite": "9e999",
    "text": "'abc'",
    "huge": f"'{'x' * 3_000_000}'",
}
COLUMNS = {
    table: [column for column in READ[table] if f"{column} " in columns] for table, columns in TABLES.items()
}
MARKER = "not-a-byte-of-UTF-8"


def with_metadata(path, *tables: str):
    """The two steps, with one row of metadata in each of some tables."""
    db = sqlite3.connect(path)
    for table in tables:
        columns = [one.split()[0] for one in TABLES[table].split(", ")]
        db.execute(f"DROP TABLE IF EXISTS {table}")
        db.execute(f"CREATE TABLE {table} ({TABLES[table]})")
        values = ", ".join("'EXPORT_SCHEMA_VERSION'" if one == "name" else "7" for one in columns)
        db.execute(f"INSERT INTO {table} VALUES ({values})")
    # so that the tables of GPU metrics are asked for
    db.execute(
        "CREATE TABLE GPU_METRICS (timestamp INTEGER, typeId INTEGER, metricId INTEGER, value INTEGER)"
    )
    db.execute("INSERT INTO GPU_METRICS VALUES (1, 7, 7, 50)")
    db.commit()
    db.close()
    return path


def with_bytes(folder, to: bytes):
    """Put other bytes in the place of MARKER in all files of a folder."""
    assert len(to) == len(MARKER)
    found = 0
    for file in folder.iterdir():
        data = file.read_bytes()
        found += data.count(MARKER.encode())
        file.write_bytes(data.replace(MARKER.encode(), to))
    assert found
    return folder


BAD = b"k" + b"\xff" * (len(MARKER) - 1)


def test_every_table_of_metadata_is_tried():
    assert set(TABLES) == METADATA


@pytest.mark.parametrize("first", range(len(DAMAGE)))
@pytest.mark.parametrize("odd", [0, 1])
def test_no_value_of_metadata_refuses_a_file(odd: int, first: int, tmp_path):
    """Every second column of every table at once, each damaged in another way: in all cases each column in every way."""
    path = with_metadata(written(tmp_path), *TABLES)
    ways = list(DAMAGE.values())
    damaged = [
        (table, column, ways[(number + first) % len(ways)])
        for table, columns in COLUMNS.items()
        for number, column in enumerate(columns)
        if number % 2 == odd
    ]
    edit(path, *(f"UPDATE {table} SET {column} = {way}" for table, column, way in damaged))
    reduction = reduce(path)
    assert spent(reduction) == TWO_STEPS
    assert reduction.warnings == []


def test_metadata_without_its_columns(tmp_path):
    path = written(tmp_path)
    for table in TABLES:
        edit(
            path,
            f"DROP TABLE IF EXISTS {table}",
            f"CREATE TABLE {table} (other TEXT)",
            f"INSERT INTO {table} VALUES ('anything')",
        )
    assert spent(reduce(path)) == TWO_STEPS


def test_a_bad_value_beside_a_good_one_takes_nothing_away(tmp_path):
    path = with_metadata(written(tmp_path), "TARGET_INFO_SYSTEM_ENV")
    edit(
        path,
        "INSERT INTO TARGET_INFO_SYSTEM_ENV (name, value) VALUES ('HOME', CAST(x'2fff' AS TEXT))",
        "INSERT INTO TARGET_INFO_SYSTEM_ENV (name, value) VALUES ('NvDriverVersion', '580.1')",
    )
    reduction = reduce(path)
    assert reduction.meta["NvDriverVersion"] == ("580.1",)
    with looked_into(path, tmp_path / "looked") as seen:
        assert seen.one("NvDriverVersion") == "580.1"


IN_FOLDERS = [
    (table, column)
    for table, columns in TABLES.items()
    for column in READ[table]
    if f"{column} TEXT" in columns and table != "META_DATA_CAPTURE"  # nsys writes that into no folder
]


@pytest.mark.parametrize("kind", ["name", "value"])
def test_metadata_of_a_folder_that_is_not_utf_8(kind: str, tmp_path):
    """What is no value of a name and a value is a name: of a GPU, of a metric."""
    path = with_metadata(written(tmp_path), *TABLES)
    damaged = [(table, column) for table, column in IN_FOLDERS if (column == "value") == (kind == "value")]
    edit(path, *(f"UPDATE {table} SET {column} = '{MARKER}'" for table, column in damaged))
    reduction = reduce(with_bytes(to_folder(path, tmp_path / "run"), BAD))
    assert spent(reduction) == TWO_STEPS
    assert reduction.warnings == []


# Names that matter: of kernels and of ranges.


def labelled():
    """A range around both steps of `two_steps`, whose text is in its own row."""
    return two_steps().range(101, MARKER, 0, 3000)


@pytest.mark.parametrize("inline", [False, True])
def test_names_that_are_not_utf_8(inline: bool, tmp_path, capture_of):
    path = written(tmp_path, labelled())
    table = "NVTX_EVENTS" if inline else "StringIds"
    if inline:
        edit(
            path,
            "UPDATE NVTX_EVENTS SET text = coalesce(text, (SELECT value FROM StringIds WHERE id = textId)), textId = NULL",
            f"DELETE FROM StringIds WHERE value = '{MARKER}'",
        )
    held = (
        sqlite3.connect(path).execute(f"SELECT count(*) FROM NVTX_EVENTS WHERE text = '{MARKER}'").fetchone()
    )
    assert held == (int(inline),)
    folder = with_bytes(to_folder(path, tmp_path / "run"), BAD)
    with pytest.raises(
        TracediffError, match=f"{table} is damaged, or holds names that are not UTF-8"
    ) as refused:
        reduce(folder)
    assert refused.value.slug == "truncated"
    with closing(duckdb.connect()) as db, pytest.raises(duckdb.Error):
        check_texts(db, folder)
    column = "text" if inline else "value"
    edit(path, f"UPDATE {table} SET {column} = CAST(x'{BAD.hex()}' AS TEXT) WHERE {column} = '{MARKER}'")
    capture = capture_of(path)
    texts = {text for (text,) in capture.db.execute("SELECT text FROM range_text").fetchall()}
    assert "k" + "\ufffd" * (len(MARKER) - 1) in texts
    assert "_schedule" in texts
    assert [(note.slug, note.message.split(": ")[1]) for note in capture.warnings] == [
        ("text-not-utf8", f"1 names in {table} are not UTF-8; what cannot be read of them is shown as \ufffd")
    ]
    assert spent(reduce(path)) == TWO_STEPS
    with looked_into(path, tmp_path / "looked") as seen:
        assert ("k" + "\ufffd" * (len(MARKER) - 1),) in seen.db.execute(
            "SELECT text FROM range_seen"
        ).fetchall()
