"""`tracediff scrub`: everything private goes, everything measured stays."""

import json
import lzma
import sqlite3
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from fixtures.builders import SCHEMAS, TraceBuilder, two_steps
from fixtures.builders.columnar import to_folder
from tests.oracle.real import captures
from tracediff.capture import scrub as scrubbing
from tracediff.capture.clean import KEPT, REMOVED, Cleaner, gpu_name, metric_name, record_kept
from tracediff.capture.scrub import scrub
from tracediff.cli.main import cli
from tracediff.errors import TracediffError
from tracediff.execution.run import reduce_file
from tracediff.execution.sides import Reading
from tracediff.formats.database import identifier

MEASURED = (
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_RUNTIME",
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
    "NVTX_EVENTS",
)
SECRETS = (
    "hunter2hunter2", "alice", "gpubox17", "corp.example", "llama-secret", "acme", "printed", "sshd", "acf84",
)  # fmt: skip


def private_trace(path: Path) -> Path:
    """A trace that tells everything about its owner."""
    trace = two_steps()
    trace.process(900, "/usr/sbin/sshd").thread(900, 901, "sshd-worker")
    trace.process(100, "/home/alice/bin/python3").thread(100, 103, "python3")
    trace.output(100, "printed by the program of alice")
    meta = {
        "CAPTURE_EVENT_TYPE": "Cuda",
        "PROCESS_0:CUDA_GRAPH_TRACE_OPTIONS:MODE": "Node",
        "PROCESS_0:COMMAND": "/home/alice/venv/bin/python3",
        "PROCESS_0:ARGUMENT_0": "/home/alice/serve.py",
        "PROCESS_0:ARGUMENT_1": "--concurrency",
        "PROCESS_0:ARGUMENT_2": "16",
        "PROCESS_0:ARGUMENT_3": "--model=llama-secret",
        "PROCESS_0:WORKING_DIR": "/srv/acme/runs",
        "PROCESS_0:ENVIRONMENT_VARIABLE": 'API_TOKEN="hunter2hunter2"',
        "DEVICE_DISPLAY_NAME": "gpubox17.corp.example",
        "EXPORT_HOST": "gpubox17",
        "EXPORT_USER": "alice",
        "EXPORT_SCHEMA_VERSION": "3.7.2",
        "EXPORT_PARAM_INPUT_PATH": "/home/alice/a.nsys-rep",
    }
    for key, value in meta.items():
        trace.meta(key, value)
    trace.range(101, "load /home/alice/weights.bin on gpubox17", 1500, 1510)
    trace.range(101, "/model/layers.0/self_attn/MatMul", 1520, 1530, registered=False)
    trace.range(101, "key hunter2hunter2", 1540, 1550, registered=False)
    trace.write(path)
    db = sqlite3.connect(path)
    rows = [("Hostname", "gpubox17"), ("CudaDriverVersion", "13000"), ("DeviceEnvironment", "USER=alice;X=1")]
    for name, value in rows:
        db.execute("INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES (1, 'gpubox17', ?, 1, ?)", (name, value))
    db.execute("UPDATE TARGET_INFO_GPU SET uuid = 'acf84f99-f656', ctrlDevPath = '/dev/nvidia0'")
    db.commit()
    db.close()
    return path


def table(path: Path, name: str) -> list[tuple[Any, ...]]:
    """The rows of a table, packed or not."""
    data = path.read_bytes()
    db = sqlite3.connect(":memory:")
    db.deserialize(lzma.decompress(data) if path.suffix == ".xz" else data)
    return db.execute(f'SELECT * FROM "{name}" ORDER BY rowid').fetchall()


def kept(path: Path, name: str) -> list[tuple[Any, ...]]:
    """The rows of a table in the columns that stay of it, by their names."""
    db = sqlite3.connect(path)
    columns = sorted(row[1] for row in db.execute(f"PRAGMA table_info({name})") if row[1] in KEPT[name])
    return db.execute(f"SELECT {', '.join(map(identifier, columns))} FROM {name} ORDER BY rowid").fetchall()


def names(path: Path) -> set[str]:
    """Everything that the file holds, by name."""
    db = sqlite3.connect(path)
    return {name for (name,) in db.execute("SELECT name FROM sqlite_master")}


@pytest.fixture
def private(tmp_path: Path) -> Path:
    return private_trace(tmp_path / "in.sqlite")


def test_nothing_of_the_owner_is_left(private: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.sqlite"
    before = private.read_bytes()
    report = scrub(private, out)
    assert private.read_bytes() == before
    text = out.read_bytes()
    assert [secret for secret in SECRETS if secret.encode() in text] == []
    assert b"/home" not in text
    assert {"ProcessStreams", "PROCESSES"} <= set(report.dropped_tables)
    assert len(table(out, "ThreadNames")) == len(table(private, "ThreadNames")) - 1  # sshd launches nothing


def test_the_environment_goes_wherever_nsys_keeps_it(tmp_path: Path) -> None:
    """As a record a variable, as one text, as a string with zero bytes between, and in pages freed long ago."""
    secrets = {
        "record": "sk-aaaa1111",
        "text": "sk-bbbb2222",
        "string": "sk-cccc3333",
        "freed": "sk-dddd4444",
    }
    source = two_steps().meta("PROCESS_0:ENVIRONMENT_VARIABLE", f'API_KEY="{secrets["record"]}"')
    path = source.write(tmp_path / "in.sqlite")
    db = sqlite3.connect(path)
    db.execute("PRAGMA secure_delete = OFF")
    agent = f"HOME=/x\nAPI_KEY={secrets['text']}\n"
    db.execute("INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES (1, 'n', 'Environment', 1, ?)", (agent,))
    process = f"HOME=/x\0API_KEY={secrets['string']}\0TERM=xterm\0"
    db.execute("INSERT INTO StringIds VALUES (777, ?)", (process,))
    db.execute("CREATE TABLE gone (text TEXT)")
    db.execute("INSERT INTO gone VALUES (?)", (f"API_KEY={secrets['freed']} " * 2000,))
    db.commit()
    db.execute("DROP TABLE gone")
    db.commit()
    db.close()
    before = path.read_bytes()
    assert [name for name, secret in secrets.items() if secret.encode() not in before] == []
    scrub(path, tmp_path / "out.sqlite")
    scrub(path, tmp_path / "out.sqlite.xz")
    after = (tmp_path / "out.sqlite").read_bytes()
    assert lzma.decompress((tmp_path / "out.sqlite.xz").read_bytes()) == after
    assert [name for name, secret in secrets.items() if secret.encode() in after] == []
    assert b"API_KEY" not in after
    for name in MEASURED:
        assert kept(tmp_path / "out.sqlite", name) == kept(path, name)


def test_measured_rows_stay_but_for_private_words_in_names(private: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.sqlite"
    scrub(private, out)
    for name in MEASURED[:4]:
        assert kept(out, name) == kept(private, name)
    before, after = kept(private, "NVTX_EVENTS"), kept(out, "NVTX_EVENTS")
    changed = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    assert [set(new) - set(old) for old, new in changed] == [{f"key {REMOVED}"}]
    texts = {value for row in after for value in row} | {row[1] for row in table(out, "StringIds")}
    assert f"load weights.bin on {REMOVED}" in texts
    assert "/model/layers.0/self_attn/MatMul" in texts  # a layer, not a path


def test_what_a_comparison_needs_stays(private: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.sqlite"
    scrub(private, out)
    assert table(out, "META_DATA_CAPTURE") == [
        ("CAPTURE_EVENT_TYPE", "Cuda"),
        ("PROCESS_0:CUDA_GRAPH_TRACE_OPTIONS:MODE", "Node"),
    ]
    assert ("EXPORT_SCHEMA_VERSION", "3.7.2") in table(out, "META_DATA_EXPORT")
    assert ("CudaDriverVersion", "13000") in table(out, "TARGET_INFO_SYSTEM_ENV")
    assert [value for row in table(out, "TARGET_INFO_GPU") for value in row if isinstance(value, str)] == [
        "NVIDIA H200"
    ]


def test_strings_that_no_row_uses_are_dropped(private: Path, tmp_path: Path) -> None:
    db = sqlite3.connect(private)
    db.execute("INSERT INTO StringIds VALUES (99999, 'left over')")
    db.commit()
    db.close()
    out = tmp_path / "out.sqlite"
    scrub(private, out)
    kept = {value for _, value in table(out, "StringIds")}
    assert {"gemm", "cudaLaunchKernel_v7000", "_schedule"} <= kept
    assert not kept & {"left over", "sshd-worker", "stdout"}


def test_the_same_input_gives_the_same_bytes_and_twice_is_once(private: Path, tmp_path: Path) -> None:
    for name in ("a.sqlite", "b.sqlite", "c.sqlite.xz"):
        scrub(private, tmp_path / name)
    scrub(tmp_path / "a.sqlite", tmp_path / "again.sqlite")
    once = (tmp_path / "a.sqlite").read_bytes()
    assert once == (tmp_path / "b.sqlite").read_bytes() == (tmp_path / "again.sqlite").read_bytes()
    assert lzma.decompress((tmp_path / "c.sqlite.xz").read_bytes()) == once


def test_foreign_tables_views_and_triggers_stay_behind(tmp_path: Path) -> None:
    source = two_steps().foreign("notes_of_mine", text="by alice").write(tmp_path / "in.sqlite")
    db = sqlite3.connect(source)
    db.executescript(
        "CREATE VIEW NVTX_VIEW AS SELECT 1;"
        "CREATE TRIGGER evil AFTER INSERT ON notes_of_mine BEGIN DELETE FROM NVTX_EVENTS; END;"
        "CREATE INDEX i ON StringIds(value);"
        "CREATE TABLE GPU_DATA (size INTEGER CHECK (size > 0), value TEXT DEFAULT '/home/alice/x');"
        "INSERT INTO GPU_DATA VALUES (1, 'text');"
        "CREATE TABLE CUDA_PROJECT_ALICE (a); CREATE TABLE NVTX_alice (a); CREATE TABLE ENUM_ (a);"
    )
    db.close()
    out = tmp_path / "out.sqlite"
    report = scrub(source, out)
    gone = {"notes_of_mine", "NVTX_VIEW", "evil", "GPU_DATA", "CUDA_PROJECT_ALICE", "NVTX_alice", "ENUM_"}
    assert gone <= set(report.dropped_tables)
    assert not names(out) & {*gone, "i"}
    assert b"alice" not in out.read_bytes().lower()
    assert len(table(out, "NVTX_EVENTS")) == len(table(source, "NVTX_EVENTS"))


def test_a_foreign_table_can_be_kept(tmp_path: Path) -> None:
    source = TraceBuilder().foreign("mine", id=3, path="/home/alice/x.bin").write(tmp_path / "in.sqlite")
    scrub(source, tmp_path / "out.sqlite", keep_tables=["mine"])
    assert table(tmp_path / "out.sqlite", "mine") == [(3, "x.bin")]


def test_bytes_are_removed_wherever_they_are(tmp_path: Path) -> None:
    """`nsys export --include-blobs`: a program's structs, with whatever was in memory between their members."""
    source = two_steps().foreign("mine", id=3, raw=b"alice").write(tmp_path / "in.sqlite")
    db = sqlite3.connect(source)
    db.executescript(
        "ALTER TABLE NVTX_EVENTS ADD COLUMN binaryData BLOB;"
        "UPDATE NVTX_EVENTS SET binaryData = CAST('hunter2hunter2' AS BLOB);"
        "UPDATE NVTX_EVENTS SET text = CAST('hunter2hunter2' AS BLOB) WHERE text IS NOT NULL;"
        "INSERT INTO StringIds VALUES (9999, x'616c696365');"
    )
    db.close()
    out = tmp_path / "out.sqlite"
    scrub(source, out, keep_tables=["mine"])
    assert table(out, "mine") == [(3, None)]
    assert len(table(out, "NVTX_EVENTS")) == len(table(source, "NVTX_EVENTS")) > 0
    assert not any(secret in out.read_bytes() for secret in (b"alice", b"hunter2"))


def test_hostile_names_are_made_visible(tmp_path: Path) -> None:
    hostile = "a\x1b[31mred\u202edetrevni\x00\n<script>"
    source = two_steps().range(101, hostile, 5, 6, registered=False).range(101, hostile, 7, 8)
    scrub(source.write(tmp_path / "in.sqlite"), tmp_path / "out.sqlite")
    seen = "a<U+001B>[31mred<U+202E>detrevni<U+0000><U+000A><script>"
    assert seen in {value for row in table(tmp_path / "out.sqlite", "NVTX_EVENTS") for value in row}
    assert seen in {row[1] for row in table(tmp_path / "out.sqlite", "StringIds")}


@pytest.mark.parametrize("schema", SCHEMAS)
def test_old_exports_are_scrubbed_too(schema: str, tmp_path: Path) -> None:
    source = two_steps(schema).write(tmp_path / "in.sqlite")
    scrub(source, tmp_path / "out.sqlite")
    for name in MEASURED:
        if name in names(source):
            assert kept(tmp_path / "out.sqlite", name) == kept(source, name)


def test_an_existing_file_is_kept_unless_told(private: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.sqlite"
    out.write_text("mine")
    with pytest.raises(TracediffError) as refused:
        scrub(private, out)
    assert refused.value.slug == "output-exists"
    assert out.read_text() == "mine"
    scrub(private, out, force=True)
    scrub(private, private, force=True)
    assert private.read_bytes() == out.read_bytes()


@pytest.mark.parametrize(
    ("name", "data", "slug"),
    [
        ("none.sqlite", None, "not-a-file"),
        ("empty.sqlite", b"", "empty-file"),
        ("text.sqlite", b"hello", "not-sqlite"),
        ("bad.sqlite.xz", b"hello", "bad-xz"),
        ("text.sqlite.xz", lzma.compress(b"hello"), "not-sqlite"),
        ("cut.sqlite", b"SQLite format 3\0" + b"\xff" * 600, "truncated"),
    ],
)
def test_what_is_no_export_is_refused(name: str, data: bytes | None, slug: str, tmp_path: Path) -> None:
    source = tmp_path / name
    if data is not None:
        source.write_bytes(data)
    with pytest.raises(TracediffError) as refused:
        scrub(source, tmp_path / "out.sqlite")
    assert refused.value.slug == slug
    assert [path.name for path in tmp_path.iterdir()] == ([name] if data is not None else [])


def test_a_database_of_something_else_is_refused(tmp_path: Path) -> None:
    db = sqlite3.connect(tmp_path / "other.sqlite")
    db.execute("CREATE TABLE customers (name TEXT)")
    db.close()
    with pytest.raises(TracediffError) as refused:
        scrub(tmp_path / "other.sqlite", tmp_path / "out.sqlite")
    assert refused.value.slug == "not-nsys"


def test_a_damaged_file_is_refused(private: Path, tmp_path: Path) -> None:
    private.write_bytes(private.read_bytes()[:-30_000])
    with pytest.raises(TracediffError) as refused:
        scrub(private, tmp_path / "out.sqlite")
    assert refused.value.slug == "truncated"
    assert not (tmp_path / "out.sqlite").exists()


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = end + 1",
        "DELETE FROM NVTX_EVENTS WHERE rowid = 2",
        "UPDATE StringIds SET value = 'gemn' WHERE value = 'gemm'",
    ],
)
def test_a_row_that_differs_stops_it(
    damage: str, private: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = scrubbing._copy

    def careless(source: sqlite3.Connection, path: Path, *rest: Any) -> None:
        copy(source, path, *rest)
        db = sqlite3.connect(path)
        db.execute(damage)
        db.commit()
        db.close()

    monkeypatch.setattr(scrubbing, "_copy", careless)
    with pytest.raises(TracediffError) as refused:
        scrub(private, tmp_path / "out.sqlite")
    assert refused.value.slug == "scrub-changed-rows"
    assert {path.name for path in tmp_path.iterdir()} == {"in.sqlite"}


def test_records_are_kept_by_name_and_value() -> None:
    said = {
        "COLLECT_CUDA_TRACE": "true", "PROCESS_3:CUDA_GRAPH_TRACE_OPTIONS:MODE": "Node", "EXPORT_PRODUCT_VERSION": "2025.3.1.90-253135822126v0",
        "CpuArchitecture": "x86_64", "RANK": "7",
    }  # fmt: skip
    assert all(record_kept(name, value) for name, value in said.items())
    assert not any(record_kept(name, "alice") for name in said)
    assert not any(record_kept(f"x{name}", value) for name, value in said.items())
    assert (
        gpu_name("NVIDIA A100-SXM4-80GB MIG 1g.10gb of alice")
        == f"NVIDIA A100-SXM4-80GB MIG 1g.10gb {REMOVED} {REMOVED}"
    )
    assert (
        metric_name("Vertex/Tess/Geometry Warps in Flight [Avg Warps per Cycle]")
        and metric_name("of alice") is None
    )


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("/model/layers.0/mlp/Mul + /model/Add", "/model/layers.0/mlp/Mul + /model/Add"),
        ("void f<int, (int)4>(T1 *, T2 / 2)", "void f<int, (int)4>(T1 *, T2 / 2)"),
        ("open /opt/venv/lib/python3/x.py:12", "open x.py:12"),
        ("'/mnt/data/set one'", "'set one'"),
        ("C:\\Users\\bob\\run.exe -v", "run.exe -v"),
        ("~/runs/today", "today"),
        ("GET http://10.1.2.3:8000/v1/models now", f"GET {REMOVED} now"),
        ("to 192.168.0.17:80", f"to {REMOVED}:80"),
        ("cuda 13.0.2.1 and 580.159.04", "cuda <removed> and 580.159.04"),
        ("a/b/c", "a/b/c"),
        ("from fe80::1a2b:3c4d or 2001:db8::8a2e:370:7334", f"from {REMOVED} or {REMOVED}"),
        ("2001:0db8:85a3:0000:0000:8a2e:0370:7334", REMOVED),
        ("mail jane.doe+x@corp.acme.com, node7.hpc.acme.io", f"mail {REMOVED}, {REMOVED}"),
        ("at acme.com", f"at {REMOVED}"),
        ("at::native::add c10::cuda::f 12:34:56 a::b::c", "at::native::add c10::cuda::f 12:34:56 a::b::c"),
        ("torch.nn.functional.linear model.layers.0.mlp backbone.net @cuda.jit", "torch.nn.functional.linear model.layers.0.mlp backbone.net @cuda.jit"),
    ],
)  # fmt: skip
def test_cleaning_text(text: str, clean: str) -> None:
    assert Cleaner().clean(text) == clean


def test_words_that_everybody_has_are_no_secrets() -> None:
    cleaner = Cleaner([("Hostname", "vm"), ("EXPORT_USER", "root"), ("PROCESS_0:USER_NAME", "carolina")])
    assert cleaner.clean("root of vm, carolina; carolinas") == f"root of vm, {REMOVED}; carolinas"


def test_the_command(private: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.sqlite.xz"
    done = CliRunner().invoke(cli, ["scrub", str(private), str(out)])
    assert done.exit_code == 0, done.output
    assert "rows read back and equal" in done.stderr
    assert done.stdout == ""
    again = CliRunner().invoke(cli, ["scrub", str(private), str(out)])
    assert isinstance(again.exception, TracediffError)
    assert CliRunner().invoke(cli, ["scrub", "-f", str(private), str(out)]).exit_code == 0


@pytest.mark.skipif("graph_a1" not in captures(), reason="no real capture here")
@pytest.mark.slow
def test_a_real_capture_compares_equal_to_its_scrubbed_self(tmp_path: Path) -> None:
    source = captures()["graph_a1"]
    scrub(source, tmp_path / "out.sqlite")
    result = tmp_path / "result.json"
    done = CliRunner().invoke(
        cli, ["compare", str(source), str(tmp_path / "out.sqlite"), "--json", str(result), "-q"]
    )
    assert done.exit_code == 0, done.output
    found = json.loads(result.read_text())
    assert found["verdict"] == "no_change"
    assert found["step"]["delta_ns"] == 0
    assert all(value == 0 for value in found["accounting"]["delta"].values())


@pytest.mark.parametrize("form", ["sqlite", "parquet"])
def test_columns_that_nsys_has_not_are_left_out(form: str, tmp_path: Path) -> None:
    source = two_steps().write(tmp_path / "run.sqlite")
    plain = scrub(source, tmp_path / "plain.sqlite")
    with sqlite3.connect(source) as db:
        db.execute("ALTER TABLE NVTX_EVENTS ADD COLUMN customer_4711 TEXT DEFAULT 'of ours'")
        db.execute("ALTER TABLE StringIds ADD COLUMN startAcme INTEGER")
        db.execute("CREATE TABLE GPU_EVENTS (acme INTEGER)")
    db.close()
    folder, out = form == "parquet", tmp_path / "out.sqlite"
    report = scrub(to_folder(source, tmp_path / "run_pqtdir") if folder else source, out)
    assert {"NVTX_EVENTS.customer_4711", "StringIds.startAcme"} <= set(report.dropped_columns)
    assert "GPU_EVENTS" in report.dropped_tables
    digests = {proof.name: proof.digest for proof in report.tables}
    assert folder or digests == {proof.name: proof.digest for proof in plain.tables}
    assert not any(word in out.read_bytes() for word in (b"4711", b"cme", b"of ours"))
    here, there = (reduce_file(path, Reading(threads=1)) for path in (out, tmp_path / "plain.sqlite"))
    assert here.periods.equals(there.periods) and here.ranges.equals(there.ranges)


# What somebody may have written anywhere into an export. A word of its own in each cell.

_NAMES = {("NVTX_EVENTS", "text"), ("StringIds", "value")}  # of kernels, ranges and threads: these stay


def planted(path: Path) -> list[str]:
    """Put a word of its own into a cell of every column, into records of any name, and into names as addresses; the words."""
    words: list[str] = []
    unused = count(10**9)

    def word() -> str:
        words.append(f"q{len(words):04}x")
        return words[-1]

    def insert(table_name: str, /, **values: object) -> None:
        """A row with these values, and numbers where a column must have one."""
        info = db.execute(f"PRAGMA table_info({identifier(table_name)})")
        values = {one[1]: next(unused) for one in info if one[3] or one[5]} | values
        listed = ", ".join(map(identifier, values))
        db.execute(
            f"INSERT INTO {identifier(table_name)} ({listed}) VALUES ({', '.join('?' * len(values))})",
            [*values.values()],
        )

    with closing(sqlite3.connect(path)) as db:
        db.executescript(
            "CREATE TABLE IF NOT EXISTS ENUM_CUDA_MEMCPY_OPER (id INTEGER, name TEXT, label TEXT);"
            "CREATE TABLE IF NOT EXISTS TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT, localTime TEXT);"
            "CREATE TABLE IF NOT EXISTS TARGET_INFO_NIC_INFO (GUID INTEGER, name TEXT, ipAddress TEXT);"
            "CREATE TABLE IF NOT EXISTS TARGET_INFO_GPU_METRICS (typeId INTEGER, metricId INTEGER, metricName TEXT);"
            "CREATE TABLE IF NOT EXISTS DIAGNOSTIC_EVENT (timestamp INTEGER, text TEXT);"
        )
        names = [
            row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
        ]
        for name in names:
            info = db.execute(f"PRAGMA table_info({identifier(name)})").fetchall()
            for _, column, kind, _, _, key in info:
                if (name, column) not in _NAMES and not (
                    key and kind == "INTEGER"
                ):  # an INTEGER PRIMARY KEY takes numbers alone
                    insert(name, **{column: word()})
        for name in {
            "META_DATA_CAPTURE",
            "META_DATA_EXPORT",
            "EXPORT_META_DATA",
            "TARGET_INFO_SYSTEM_ENV",
        } & set(names):
            for record in (
                "CAPTURE_EVENT_TYPE",
                "COLLECT_CUDA_TRACE",
                "RANK",
                "EXPORT_PRODUCT_VERSION",
                "CpuArchitecture",
                "NvDriverVersion",
            ):
                insert(name, name=record, value=word())
                insert(name, name=f"PROCESS_0:{record}", value=f"1.2 {word()}")
            for record in (
                word(),
                f"PROCESS_{word()}:RANK",
                f"COLLECT_{word()}",
                "PROCESS_0:ENVIRONMENT_VARIABLE",
            ):
                insert(name, name=record, value="true")
                insert(name, name=record, value=word())
        event = {"start": 1, "end": 2, "eventType": 59}
        for said in (
            f"mail jane.{word()}@acme.com",
            f"to {word()}.hpc.acme.com",
            f"in /home/{word()}/x",
            f"get https://h/{word()}",
        ):
            insert("NVTX_EVENTS", **event, text=said)
        for told in (
            {word(): 1},
            {"Message size [bytes]": word()},
            {"Message size [bytes]": 5, "of": word()},
        ):
            insert("NVTX_EVENTS", **event, jsonText=json.dumps(told))
        db.commit()
    return words


@pytest.mark.parametrize("schema", SCHEMAS)
def test_no_planted_word_is_left(schema: str, tmp_path: Path) -> None:
    source = two_steps(schema).write(tmp_path / "in.sqlite")
    words = planted(source)
    before = source.read_bytes()
    assert len(words) > 120 and [word for word in words if word.encode() not in before] == []
    report = scrub(source, tmp_path / "out.sqlite")
    after = (tmp_path / "out.sqlite").read_bytes()
    assert [word for word in words if word.encode() in after] == []
    assert {proof.name for proof in report.tables} <= set(KEPT)
