"""What lies beside the exports in the folders of both sides is compared too, without an option."""

from __future__ import annotations

import json
import shutil

import pytest

from tests.cli.checks import expect_error
from tests.serving import serving
from tests.tiny import FIXTURES


@pytest.fixture
def sides(tmp_path):
    """Two folders with a trace and its latencies: 10 and 11 ms per iteration."""
    for side, ms, us in (("before", 10, 100), ("after", 11, 130)):
        folder = tmp_path / side
        folder.mkdir()
        serving(steps=6, schedule_us=us).write(folder / "run.sqlite")
        rows = "\n".join(f"{ms + 0.001 * (number % 7)}" for number in range(60))
        (folder / "requests.csv").write_text(f"latency_ms\n{rows}\n")
    return "before", "after"


def result(run, tmp_path, *words):
    code, _, err = run("compare", *words, "--json", "out.json", "-q", "-f")
    assert code == 0, err
    return json.loads((tmp_path / "out.json").read_text())


@pytest.mark.slow
def test_every_kind_is_known_by_what_it_holds(run, sides, tmp_path):
    for side, profile, engine in (("before", "spill255", "fp32"), ("after", "spill32", "fp16")):
        shutil.copy(FIXTURES / "ncu" / f"{profile}.csv", tmp_path / side / "kernels.txt")
        shutil.copy(FIXTURES / "kpi" / "serving_summary.json", tmp_path / side / "bench.json")
        for file in (FIXTURES / "trtexec" / engine).iterdir():
            shutil.copy(file, tmp_path / side / file.name)
        (tmp_path / side / "notes.md").write_text("Only a note.")
    found = result(run, tmp_path, *sides)
    assert found["latencies"]["step"]["delta_ns"] == pytest.approx(1e6)
    assert (found["ncu"]["baseline"]["file"], found["ncu"]["candidate"]["file"]) == ("kernels.txt",) * 2
    assert found["trtexec"]["verdict"] == "likely_improved"
    assert {row["delta"] for row in found["kpi"]["rows"]} == {0}
    assert found["verdict"] == result(run, tmp_path, "before/run.sqlite", "after/run.sqlite")["verdict"]


def test_a_file_alone_brings_nothing_along(run, sides, tmp_path):
    found = result(run, tmp_path, "before/run.sqlite", "after/*.sqlite")
    assert found["latencies"] is None and found["warnings"] == result(run, tmp_path, *sides)["warnings"]


def test_what_lies_on_one_side_only_is_said_and_no_error(run, sides, tmp_path):
    (tmp_path / "after" / "requests.csv").unlink()
    found = result(run, tmp_path, *sides)
    (note,) = [one for one in found["warnings"] if one["slug"] == "beside-one-side"]
    assert "requests.csv lies beside the baseline" in note["message"] and found["latencies"] is None
    given = result(
        run,
        tmp_path,
        *sides,
        "--with",
        "baseline=before/requests.csv",
        "--with",
        "candidate=before/requests.csv",
    )
    assert given["latencies"]["step"]["delta_ns"] == 0
    assert "beside-one-side" not in [one["slug"] for one in given["warnings"]]


def test_what_cannot_be_read_is_said_and_no_error(run, sides, tmp_path):
    (tmp_path / "after" / "requests.csv").write_text("latency_ms\n1\n-2\n")
    found = result(run, tmp_path, *sides)
    (note,) = [one for one in found["warnings"] if one["slug"] == "beside-left-out"]
    assert "requests.csv: value 2 is -2.0: negative [latencies-bad-value]" in note["message"]
    assert found["latencies"] is None and found["step"]["delta_ns"] == pytest.approx(30_000)
    words = ("--with", "baseline=before/requests.csv", "--with", "candidate=after/requests.csv")
    expect_error(run("compare", *sides, *words), "latencies-bad-value")


@pytest.mark.slow
def test_figures_of_a_benchmark_beside_one_capture(run, sides, tmp_path):
    shutil.copy(FIXTURES / "kpi" / "serving_summary.json", tmp_path / "before" / "bench.json")
    code, _, err = run("show", "before", "--json", "show.json", "-q")
    assert code == 0, err
    assert json.loads((tmp_path / "show.json").read_text())["kpi"]["source"] == "bench.json"
