"""Tables as CSV and Parquet, and the JSON Schema."""

from __future__ import annotations

import csv
import io
import json

import jsonschema
import msgspec
import polars as pl
import pytest

from tests.report import sample
from tracediff.cli.schema import build_schema
from tracediff.companions.model import Result
from tracediff.model import FORMAT_VERSION, encode
from tracediff.report import tables, units, values

RESULTS = {
    "full": sample.full(),
    "minimal": sample.minimal(),
    "one_sided": sample.one_sided(),
    "large": sample.large(60),
}


def read(data: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(data.decode(), newline="")))


@pytest.mark.parametrize("result", RESULTS.values(), ids=RESULTS)
def test_every_list_of_the_result_is_a_table(result: Result) -> None:
    frames = tables.frames(result)
    for name, rows in (
        ("kernels", result.kernels), ("gaps", result.gaps), ("ranges", result.ranges), ("findings", result.findings),
        ("launch_apis", result.launch.apis), ("gil_matrix", result.gil.matrix), ("samples", result.samples),
        ("inputs_baseline_runs", result.inputs.baseline.runs), ("warnings", result.warnings),
        ("comparability_checks", result.comparability.checks), ("kpi_rows", result.kpi.rows if result.kpi else []),
    ):  # fmt: skip
        assert len(frames[name]) == len(rows), name
    assert list(frames) == tables.names(Result)
    assert len(frames["findings_evidence_moments"]) == sum(
        len(one.evidence.moments) for one in result.findings
    )


def test_the_tables_are_the_same_whatever_the_result() -> None:
    columns = [{name: frame.schema for name, frame in tables.frames(one).items()} for one in RESULTS.values()]
    assert all(one == columns[0] for one in columns)


def test_the_index_says_which_tables_hold_rows() -> None:
    whole = sample.minimal()
    found = dict(tables.files(whole))
    index = read(found["index.csv"])
    assert [row["table"] for row in index] == tables.names(Result)
    assert {row["table"]: int(row["rows"]) for row in index}["kernels"] == len(whole.kernels)
    assert all(int(row["rows"]) == len(read(found[f"{row['table']}.csv"])) for row in index)
    assert all(
        int(row["columns"]) == found[f"{row['table']}.csv"].partition(b"\n")[0].count(b",") + 1
        for row in index
    )


def test_sums_survive() -> None:
    whole = sample.full()
    frame = pl.read_parquet(io.BytesIO(dict(tables.files(whole))["kernels.parquet"]))
    assert frame["delta_ns"].sum() == pytest.approx(sum(row.delta_ns for row in whole.kernels))
    assert frame["baseline_names"].to_list()[0] == [sample.TICK, sample.MENTION]
    assert frame["baseline_ns_per_step"].null_count() == 1  # the added row has no baseline
    books = read(dict(tables.files(whole))["accounting.csv"])
    assert sum(float(row["candidate_ns"]) for row in books) == pytest.approx(whole.step.candidate_ns)
    assert [row["category"] for row in books][:3] == ["compute", "comm", "memcpy"]


def test_what_was_not_captured_is_empty_and_not_zero() -> None:
    books = {row["category"]: row for row in read(dict(tables.files(sample.one_sided()))["accounting.csv"])}
    assert books["gil_wait"]["baseline_ns"] == "6100.0" and books["gil_wait"]["candidate_ns"] == ""


def test_a_phase_is_a_row_with_its_typical_rare_and_first_steps() -> None:
    whole = sample.full()
    phases = tables.frames(whole)["phases"]
    row = phases.row(by_predicate=pl.col("phase") == "generation", named=True)
    assert (row["verdict"], row["steps_baseline"], row["share"]) == ("regressed", 117, 1.0)
    assert row["typical_candidate_ns"] - row["typical_baseline_ns"] == pytest.approx(row["typical_delta_ns"])
    assert (row["tail_delta_ns"], row["start_delta_ns"]) == (23_500.0, 100_000.0)
    other = phases.row(by_predicate=pl.col("phase") == "context", named=True)
    assert other["verdict"] is None and other["typical_delta_ns"] is None


def test_parts_and_other_phases_belong_to_their_finding() -> None:
    whole = sample.full()
    frames = tables.frames(whole)
    for name in ("parts", "phases"):
        rows = [number for number, one in enumerate(whole.findings) for _ in getattr(one, name)]
        assert rows and frames[f"findings_{name}"]["row"].to_list() == rows
    assert {"cause", "where_kernels_names", "delta_ns", "level", "follows"} <= set(
        frames["findings_parts"].columns
    )
    assert {"phase", "part", "delta_ns", "level"} <= set(frames["findings_phases"].columns)
    assert {"held_baseline", "held_candidate", "part", "host_speed_ns"} <= set(frames["findings"].columns)


def test_a_moment_belongs_to_its_finding() -> None:
    frames = tables.frames(sample.full())
    moments = frames["findings_evidence_moments"]
    assert moments["row"].to_list() == [0, 0, 0, 1]
    assert frames["findings"]["rank"].to_list()[moments["row"][3]] == 2


def test_no_cell_is_a_formula_or_breaks_the_file() -> None:
    names = [
        "=HYPERLINK(1)",
        "+1",
        "-1+1",
        "@SUM(A1)",
        'a,"b"\nc',
        "x\x00y",
        "\u202ex",
        "plain",
        "\uff1d1",
        "\uff0b1",
        "\uff0d1",
        "\uff20A",
        "::x",
    ]
    whole = sample.full()
    ranges = [msgspec.structs.replace(whole.ranges[0], range=name) for name in names]
    result = msgspec.structs.replace(whole, ranges=ranges)
    data = dict(tables.files(result))
    shown = [row["range"] for row in read(data["ranges.csv"])]
    assert shown == [
        "'=HYPERLINK(1)",
        "'+1",
        "'-1+1",
        "'@SUM(A1)",
        'a,"b"\\x0ac',
        "x\\x00y",
        "\\u202ex",
        "plain",
        "'\uff1d1",
        "'\uff0b1",
        "'\uff0d1",
        "'\uff20A",
        "'::x",
    ]
    assert b"\x00" not in data["ranges.csv"]
    exact = pl.read_parquet(io.BytesIO(data["ranges.parquet"]))["range"].to_list()
    assert exact[:4] == names[:4]


def test_negative_numbers_stay_numbers() -> None:
    rows = read(dict(tables.files(sample.full()))["kernels.csv"])
    assert float(rows[0]["delta_ns"]) == -1300.0


def test_the_same_result_gives_the_same_bytes() -> None:
    assert dict(tables.files(sample.full())) == dict(tables.files(sample.full()))
    assert sorted(dict(tables.files(sample.full()))) == sorted(tables.file_names(Result))


# The schema


@pytest.mark.parametrize("result", RESULTS.values(), ids=RESULTS)
def test_results_keep_the_schema(result: Result) -> None:
    jsonschema.Draft202012Validator(build_schema()).validate(json.loads(encode(result)))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("verdict",), "better"),
        (("step", "baseline_ns"), "fast"),
        (("format_version",), FORMAT_VERSION + 1),
        (("findings", 0, "level"), "sure"),
        (("kernels",), None),
    ],
)
def test_the_schema_refuses_what_is_no_result(path: tuple[str | int, ...], value: object) -> None:
    data = json.loads(encode(sample.full()))
    inner = data
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    validator = jsonschema.Draft202012Validator(build_schema())
    assert [list(error.absolute_path) for error in validator.iter_errors(data)] == [list(path)]


def test_the_schema_itself_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(build_schema())


def test_what_a_typical_step_lacks_and_other_steps_have_is_neither_new_nor_gone() -> None:
    """A copy of every tenth step on one side, of each step on the other: 0 -> 1.8 us in the typical step, 0.1 -> 1.1 copies in the mean."""
    scale = units.Scale("us", 1_000, 1)

    def said(before: float, after: float, *, of_both: bool) -> list[str]:
        cells = values.difference(before, after, after - before, scale, "exact", of_both=of_both)
        return [cell.text for cell in cells]

    assert said(0.0, 1_800.0, of_both=True) == ["+1.8", ""]
    assert said(0.0, 1_800.0, of_both=False) == ["+1.8", "new"]
    assert said(1_800.0, 0.0, of_both=True) == ["-1.8", "-100 %"]
    assert said(1_800.0, 0.0, of_both=False) == ["-1.8", "gone"]


def test_what_is_below_zero_on_a_side_changes_by_no_percentage() -> None:
    """Work that begins before its call returns waits for -1.5 us."""
    scale = units.Scale("us", 1_000, 1)
    for before, after, text in ((400.0, -1_500.0, "-1.9"), (-1_500.0, 400.0, "+1.9")):
        assert [cell.text for cell in values.difference(before, after, after - before, scale)] == [text, ""]


def test_a_list_of_many_names_opens_to_the_others() -> None:
    cell = values._list(list("abcdef"), units.scale_for([1.0]), None)
    assert (cell.text, cell.small) == ("a, b, c", "and 3 more")
    assert [one.spans[0].text for one in cell.more] == ["d, e, f"]
    assert values._list(list("abc"), units.scale_for([1.0]), None).more == ()
