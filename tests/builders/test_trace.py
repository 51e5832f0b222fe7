"""What `TraceBuilder` writes is what nsys would have written."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from fixtures.builders import SCHEMAS, TraceBuilder, global_pid, global_tid, two_steps
from tests.oracle.real import captures, unpacked

KERNEL, RUNTIME = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME"
REAL = captures().get("graph_a1")


def everything(schema: str = "3.7") -> TraceBuilder:
    """A trace with a row of every kind that the version knows."""
    trace = two_steps(schema).gc(101, 10, 20).memset(1, 900, 901).overhead(102, 5, 6).output(100, "hello")
    return trace.kernel(1, 905, 910, graph_node=None if schema == "2019" else 3).meta("COLLECT", "true")


def tables(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Every table with its columns: name, type, not null, primary key."""
    db = sqlite3.connect(path)
    names = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    found = {}
    for name in names:
        info = db.execute(f'PRAGMA table_info("{name}")').fetchall()
        found[name] = [(column, kind, null, key) for _, column, kind, null, _, key in info]
    db.close()
    return found


def columns(path: Path, table: str) -> list[str]:
    return [column for column, *_ in tables(path)[table]]


def rows(path: Path, sql: str) -> list[tuple[Any, ...]]:
    db = sqlite3.connect(path)
    found = db.execute(sql).fetchall()
    db.close()
    return found


@pytest.mark.skipif(REAL is None, reason="no capture graph_a1 here")
def test_3_7_has_the_tables_and_columns_of_a_real_export(tmp_path: Path) -> None:
    assert REAL is not None
    assert tables(everything().write(tmp_path / "t.sqlite")) == tables(unpacked(REAL))


@pytest.mark.parametrize("schema", SCHEMAS)
def test_every_version_can_be_written_and_joined(schema: str, tmp_path: Path) -> None:
    path = everything(schema).write(tmp_path / "t.sqlite")
    joined = rows(
        path,
        f"SELECT count(*) FROM {KERNEL} k JOIN {RUNTIME} r ON k.correlationId = r.correlationId "
        "AND k.globalPid >> 24 = r.globalTid >> 24 JOIN StringIds s ON s.id = k.shortName",
    )
    assert joined == [(4,)]
    assert "COLLECT" in {name for (name,) in _meta(path)} or schema not in ("3.7", "3.24")


def _meta(path: Path) -> list[tuple[Any, ...]]:
    present = [name for name in tables(path) if "META_DATA" in name]
    return [row for name in present for row in rows(path, f"SELECT name FROM {name}")]


def test_how_the_versions_differ(tmp_path: Path) -> None:
    path = {schema: everything(schema).write(tmp_path / f"{schema}.sqlite") for schema in SCHEMAS}
    found = {schema: tables(path[schema]) for schema in SCHEMAS}
    kernel = {schema: columns(path[schema], KERNEL) for schema in SCHEMAS}
    for old in ("2019", "2020"):
        assert not [name for name in found[old] if "META_DATA" in name]
        assert "PROCESSES" not in found[old] and "ANALYSIS_DETAILS" not in found[old]
        assert "mangledName" not in kernel[old] and "sharedMemoryLimitConfig" not in kernel[old]
        assert "callchainId" not in columns(path[old], RUNTIME)
    assert len(columns(path["2019"], "TARGET_INFO_GPU")) == 5
    assert "deviceId" in columns(path["2019"], "TARGET_INFO_GPU")
    assert {kind for _, kind, _, _ in found["2019"][KERNEL]} == {"INT"}
    for schema in SCHEMAS:
        enums = [name for name in found[schema] if name.startswith("ENUM_")]
        assert bool(enums) == (schema in ("3.1", "3.7", "3.24"))
        assert ("ENUM_CUDA_KRENEL_LAUNCH_TYPE" in enums) == (schema == "3.1")
        assert ("greenContextId" in kernel[schema]) == (schema in ("3.7", "3.24"))
        assert ("EXPORT_META_DATA" in found[schema]) == (schema in ("2.9", "3.1"))
        assert ("META_DATA_EXPORT" in found[schema]) == (schema in ("3.7", "3.24"))
        assert ("graphId" in kernel[schema]) == ("clusterX" in kernel[schema]) == (schema == "3.24")
        assert ("eventSyncId" in columns(path[schema], "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION")) == (
            schema == "3.24"
        )
        assert ("binaryData" in columns(path[schema], "NVTX_EVENTS")) == (schema == "3.24")
    assert "CUDA_GRAPH_NODE_EVENTS" in found["3.24"] and "CUDA_GRAPH_EVENTS" in found["3.7"]
    version = "SELECT value FROM META_DATA_EXPORT WHERE name = 'EXPORT_SCHEMA_VERSION'"
    assert rows(path["3.7"], version) == [("3.7.2",)]


def test_an_unknown_version_is_refused() -> None:
    with pytest.raises(ValueError, match=r"unknown schema '4.0': one of 2019, 2020, 2.9, 3.1, 3.7, 3.24"):
        TraceBuilder(schema="4.0")


def test_ids_are_those_of_nsys(tmp_path: Path) -> None:
    path = two_steps().write(tmp_path / "t.sqlite")
    assert rows(path, f"SELECT DISTINCT globalTid, globalTid >> 24 & 16777215 FROM {RUNTIME}") == [
        (global_tid(100, 101), 100)
    ]
    assert rows(path, f"SELECT DISTINCT globalPid FROM {KERNEL}") == [(global_pid(100),)]
    assert rows(path, "SELECT pid, name FROM PROCESSES") == [(100, "python3")]


def test_a_thread_belongs_to_the_process_named_last(tmp_path: Path) -> None:
    trace = TraceBuilder().process(5).api(51, "cudaFree", 0, 1).process(6).api(61, "cudaFree", 0, 1)
    path = trace.api(51, "cudaFree", 2, 3).write(tmp_path / "t.sqlite")
    found = rows(path, f"SELECT globalTid & 16777215, globalTid >> 24 & 16777215 FROM {RUNTIME}")
    assert found == [(51, 5), (61, 6), (51, 5)]


def test_api_names_carry_the_version_of_a_runtime_call(tmp_path: Path) -> None:
    trace = TraceBuilder().api(1, "cudaLaunchKernel", 0, 1).api(1, "cudaFree", 2, 3)
    path = trace.api(1, "cuLaunchKernelEx", 4, 5).write(tmp_path / "t.sqlite")
    sql = f"SELECT value, eventClass FROM {RUNTIME} r JOIN StringIds s ON s.id = r.nameId ORDER BY start"
    assert rows(path, sql) == [("cudaLaunchKernel_v7000", 0), ("cudaFree_v3020", 0), ("cuLaunchKernelEx", 1)]
    (count,) = rows(path, f"SELECT count(DISTINCT correlationId) FROM {RUNTIME}")
    assert count == (3,)


def test_a_domain_is_made_once_in_each_process(tmp_path: Path) -> None:
    trace = TraceBuilder().process(5).range(51, "a", 0, 1, domain="D").range(51, "b", 2, 3, domain="D")
    trace.gil(51, "wait", 4, 5).process(6).range(61, "c", 0, None, domain="D").range(
        61, "d", 0, 1, None, False
    )
    path = trace.write(tmp_path / "t.sqlite")
    sql = (
        "SELECT globalTid >> 24 & 16777215, eventType, domainId, coalesce(n.text, s.value), n.text IS NULL, "
        "n.end FROM NVTX_EVENTS n LEFT JOIN StringIds s ON s.id = n.textId ORDER BY 1, 3, 2 DESC, start"
    )
    assert rows(path, sql) == [
        (5, 75, 1, "D", 0, None),
        (5, 59, 1, "a", 1, 1),
        (5, 59, 1, "b", 1, 3),
        (5, 75, 2, "GIL Trace", 0, None),
        (5, 59, 2, "Waiting for GIL", 1, 5),
        (6, 59, 0, "d", 0, 1),
        (6, 75, 1, "D", 0, None),
        (6, 59, 1, "c", 1, None),
    ]


def test_gc_comes_in_both_forms(tmp_path: Path) -> None:
    path = TraceBuilder().gc(1, 0, 5).gc(1, 10, 15, generation=2).write(tmp_path / "t.sqlite")
    sql = "SELECT text, eventType, rangeId, domainId FROM NVTX_EVENTS ORDER BY start"
    assert rows(path, sql) == [("Python GC", 60, 1, 0), ("Python GC gen2", 59, None, 0)]


def test_copies_know_their_memory(tmp_path: Path) -> None:
    trace = TraceBuilder().memcpy(1, 0, 1).memcpy(2, 2, 3, kind="HtoD", src="pageable", bytes=8)
    trace.memcpy(3, 4, 5, kind="DtoH", dst="pageable").memcpy(4, 6, 7, kind="DtoD")
    path = trace.write(tmp_path / "t.sqlite")
    sql = "SELECT copyKind, srcKind, dstKind, bytes FROM CUPTI_ACTIVITY_KIND_MEMCPY ORDER BY start"
    assert rows(path, sql) == [(1, 1, 2, 4096), (1, 0, 2, 8), (2, 2, 0, 4096), (8, 2, 2, 4096)]


def test_tables_come_with_their_rows_and_go_on_request(tmp_path: Path) -> None:
    path = TraceBuilder().api(1, "cudaFree", 0, 1).write(tmp_path / "t.sqlite")
    assert RUNTIME in tables(path) and KERNEL not in tables(path) and "NVTX_EVENTS" not in tables(path)
    path = two_steps().without(RUNTIME, "StringIds").write(path)
    assert RUNTIME not in tables(path) and "StringIds" not in tables(path) and KERNEL in tables(path)


def test_a_whole_graph_is_one_row(tmp_path: Path) -> None:
    path = TraceBuilder().graph(1, 0, 10).write(tmp_path / "t.sqlite")
    assert rows(path, "SELECT correlationId, start, end FROM CUPTI_ACTIVITY_KIND_GRAPH_TRACE") == [(1, 0, 10)]


def test_given_metadata_replaces_what_the_version_says(tmp_path: Path) -> None:
    trace = TraceBuilder().meta("EXPORT_SCHEMA_VERSION", "9.9.9").meta("RATE_HZ", "0")
    path = trace.write(tmp_path / "t.sqlite")
    sql = "SELECT value FROM META_DATA_EXPORT WHERE name = 'EXPORT_SCHEMA_VERSION'"
    assert rows(path, sql) == [("9.9.9",)]
    assert rows(path, "SELECT * FROM META_DATA_CAPTURE") == [("RATE_HZ", "0")]


def test_the_same_trace_is_the_same_file(tmp_path: Path) -> None:
    first, second = (everything().write(tmp_path / name).read_bytes() for name in ("a.sqlite", "b.sqlite"))
    assert first == second
