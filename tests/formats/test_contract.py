"""What an export may be and still load: every schema, missing and foreign tables, odd values."""

from __future__ import annotations

import polars as pl
import pytest

from fixtures.builders import BROKEN, SCHEMAS, TraceBuilder, two_steps
from tests.formats.odd_exports import KERNEL, MEMCPY, RUNTIME, SYNC, TWO_STEPS, edit, reduce, written
from tests.tiny import idle, label, reduced, spent
from tracediff.errors import TracediffError
from tracediff.trace.steps import WHOLE_CAPTURE

# Versions


@pytest.mark.parametrize("schema", SCHEMAS)
def test_every_version_gives_the_same_numbers(schema, tmp_path):
    reduction = reduced(two_steps(schema), tmp_path)
    assert reduction.periods["number"].to_list() == [20, 21]
    assert [spent(reduction, period) for period in (0, 1)] == [TWO_STEPS] * 2
    assert idle(reduction, "place", cause="host_work")["_schedule"] == 400
    kernels = reduction.keys.filter(pl.col("kind") == 0)
    assert kernels.select("name", "grid", "block", "registers").rows() == [("gemm", "132,1,1", "128,1,1", 32)]
    versions = {"2019": "", "2020": "", "2.9": "2.9.1", "3.1": "3.1.2", "3.7": "3.7.2", "3.24": "3.24.0"}
    assert reduction.schema_version == versions[schema]
    assert [name for _, name, _, _ in reduction.devices] == ["NVIDIA H200"]


def test_what_a_version_does_not_say_is_not_zero(tmp_path):
    old, new = (
        reduced(two_steps("2019"), tmp_path),
        reduced(two_steps("3.7").kernel(1, 5, 6, graph_node=4), tmp_path),
    )
    assert old.graph_mode == "unknown" and new.graph_mode == "node"
    assert (old.devices[0][2], old.devices[0][3]) == (0, 0)  # SMs and clock came later


# Missing tables


def test_a_missing_gil_trace_and_nvtx_are_said(capture_of, tmp_path):
    trace = TraceBuilder().api(1, "cudaLaunchKernel", 0, 5, corr=1).kernel(1, 10, 20)
    coverage = capture_of(written(tmp_path, trace)).coverage
    assert {
        kind: coverage[kind] for kind in ("kernels", "cuda_api", "nvtx", "gil", "gc", "memcpy", "sync")
    } == {
        "kernels": "captured",
        "cuda_api": "captured",
        "nvtx": "not_captured",
        "gil": "not_captured",
        "gc": "not_captured",
        "memcpy": "not_captured",
        "sync": "not_captured",
    }


def test_a_missing_table_of_a_trace_that_was_asked_for_means_that_nothing_happened(capture_of, tmp_path):
    trace = (
        TraceBuilder()
        .meta("CAPTURE_EVENT_TYPE", "Cuda")
        .api(1, "cudaLaunchKernel", 0, 5, corr=1)
        .kernel(1, 10, 20)
    )
    coverage = capture_of(written(tmp_path, trace)).coverage
    assert (coverage["memcpy"], coverage["sync"]) == ("captured", "captured")


def test_without_api_calls_nothing_is_attributed(capture_of, tmp_path):
    path = written(tmp_path, two_steps().without(RUNTIME))
    assert capture_of(path).coverage["cuda_api"] == "not_captured"
    whole = reduce(path)  # steps are found through launches: there are none, and the capture is one
    assert whole.step_rule == WHOLE_CAPTURE
    (why,) = (note for note in whole.warnings if note.slug == "steps-not-found")
    assert "-t cuda" in why.message
    # kernels 200-500, 1200-1500, 2200-2500, copies 500-540 and 1500-1540: idle 660 twice
    assert spent(whole) == {"compute": 900, "memcpy": 80, "unattributed": 1320}


@pytest.mark.parametrize(
    "table",
    [
        MEMCPY,
        SYNC,
        "ThreadNames",
        "PROCESSES",
        "META_DATA_CAPTURE",
        "META_DATA_EXPORT",
        "TARGET_INFO_GPU",
        "TARGET_INFO_SYSTEM_ENV",
        "DIAGNOSTIC_EVENT",
        "ANALYSIS_DETAILS",
    ],
)
def test_a_table_that_is_not_needed_may_be_missing(table, tmp_path):
    reduction = reduced(two_steps().without(table), tmp_path)
    expected = TWO_STEPS
    if table == MEMCPY:  # 500-600 is the synchronising call now
        expected = {name: ns for name, ns in TWO_STEPS.items() if name != "memcpy"} | {"host_sync": 100}
    assert spent(reduction) == expected
    assert reduction.devices == [] or table != "TARGET_INFO_GPU"


def test_without_strings_kernels_have_no_names(tmp_path):
    trace = TraceBuilder().process(100).thread(100, 1)
    for number in range(3):  # labels inline, not registered
        trace.range(1, label(number), 1000 * number, 1000 * number + 100, domain=None, registered=False)
        trace.api(1, "cudaLaunchKernel", 1000 * number + 10, 1000 * number + 20, corr=number)
        trace.kernel(number, 1000 * number + 30, 1000 * number + 40)
    reduction = reduced(trace.without("StringIds"), tmp_path)
    assert reduction.keys["name"].to_list() == ["[kernel without a name]"]
    assert len(reduction.periods) == 2


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("zero_tables", "not-nsys"),
        ("not_sqlite", "not-sqlite"),
        ("empty_file", "empty-file"),
        ("truncated", "truncated"),
    ],
)
def test_what_cannot_be_measured_is_refused_by_name(name, slug, tmp_path):
    with pytest.raises(TracediffError) as raised:
        reduce(BROKEN[name](tmp_path / "broken.sqlite"))
    assert raised.value.slug == slug
    assert "broken.sqlite" in raised.value.message and raised.value.fix


@pytest.mark.parametrize("name", ["no_kernels", "runtime_without_kernel", "nvtx_only"])
def test_exports_without_kernels_load(name, capture_of, tmp_path):
    capture = capture_of(BROKEN[name](tmp_path / "poor.sqlite"))
    assert capture.coverage["kernels"] == "not_captured"
    assert capture.count("range") > 0


# Missing columns


@pytest.mark.parametrize(
    "column",
    ["registersPerThread", "staticSharedMemory", "graphNodeId", "gridZ", "demangledName", "shortName"],
)
def test_a_column_that_is_missing_is_null(column, tmp_path):
    reduction = reduce(edit(written(tmp_path), f'ALTER TABLE {KERNEL} DROP COLUMN "{column}"'))
    assert spent(reduction) == TWO_STEPS
    (row,) = reduction.keys.filter(pl.col("kind") == 0).to_dicts()
    assert row["name"] == "gemm"  # one of the two names is enough
    if column == "registersPerThread":
        assert row["registers"] is None


def test_columns_in_other_letters_and_more_of_them(tmp_path):
    path = edit(
        written(tmp_path),
        f"ALTER TABLE {KERNEL} RENAME COLUMN streamId TO STREAMID",
        f"ALTER TABLE {KERNEL} ADD COLUMN somethingNew TEXT DEFAULT 'x'",
    )
    assert spent(reduce(path)) == TWO_STEPS


# Foreign things inside


def test_foreign_tables_are_left_alone(tmp_path):
    path = BROKEN["foreign_tables"](tmp_path / "foreign.sqlite")
    before = path.read_bytes()
    assert spent(reduce(path)) == TWO_STEPS
    assert path.read_bytes() == before
    assert sorted(one.name for one in tmp_path.iterdir()) == [
        "foreign.sqlite"
    ]  # no journal, no index, nothing


def test_an_export_is_never_written_to(tmp_path):
    path = written(tmp_path)
    path.chmod(0o444)
    tmp_path.chmod(0o555)
    try:
        before = path.read_bytes(), path.stat().st_mtime_ns
        assert spent(reduce(path)) == TWO_STEPS
        assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    finally:
        tmp_path.chmod(0o755)
