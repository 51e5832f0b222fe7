"""Profiles of Nsight Compute as both sides of `tracediff compare`, and the options of `tracediff compare` for profiles of Nsight Compute."""

from __future__ import annotations

import json

import pytest

from tests.cli.checks import expect_error, files

from .counters import PEAK, raw_csv

NAME = "k0"  # a kernel of the traces of tests/serving.py


def csv(path, us: float, grid=132, occupancy=12.4, name="quantize(float *)"):
    metrics = {
        "gpu__time_duration.sum": ("us", str(us)), "gpc__cycles_elapsed.max": ("cycle", str(1500 * us)),
        f"sm__throughput.{PEAK}": ("%", "20"), f"gpu__compute_memory_throughput.{PEAK}": ("%", "30"),
        "sm__warps_active.avg.pct_of_peak_sustained_active": ("%", str(occupancy)), "launch__grid_size": ("", str(grid)),
        "launch__waves_per_multiprocessor": ("", str(grid / 1056)), "sm__maximum_warps_per_active_cycle_pct": ("%", "100"),
    }  # fmt: skip
    path.write_text(raw_csv((name, f"({grid}, 1, 1)", "(256, 1, 1)", metrics)), encoding="utf-8")
    return path


@pytest.fixture
def pair(tmp_path):
    return csv(tmp_path / "before.csv", 40.0), csv(tmp_path / "after.csv", 10.0, 1056, 73.7)


def test_every_output_says_the_same(run, pair, tmp_path):
    code, out, err = run("compare", *pair, "--html", "a.html", "--md", "a.md", "--json", "a.json")
    assert code == 0, err
    assert "occupancy 12 -> 74 %: grid 132 -> 1,056 blocks" in " ".join(out.split())
    assert "wrote a.html (html)" in err
    saved = json.loads((tmp_path / "a.json").read_text())
    assert saved["kind"] == "ncu" and saved["ncu"]["rows"][0]["sentence"].startswith(
        "4.0 x faster (40.0 -> 10.0 us)"
    )
    assert (
        "secret" not in (tmp_path / "a.json").read_text()
        and str(tmp_path) not in (tmp_path / "a.json").read_text()
    )
    code, again, _ = run("report", "a.json", "--html", "b.html", "--md", "b.md")
    assert code == 0 and again == out
    for suffix in ("html", "md"):
        assert (tmp_path / f"a.{suffix}").read_bytes() == (tmp_path / f"b.{suffix}").read_bytes()


def test_the_json_is_what_its_schema_says(run, pair, tmp_path):
    from jsonschema import Draft202012Validator

    run("compare", *pair, "--json", "a.json")
    _, out, _ = run("schema")
    Draft202012Validator(json.loads(out)).validate(json.loads((tmp_path / "a.json").read_text()))
    with pytest.raises(Exception, match="is not"):
        Draft202012Validator(json.loads(out)).validate(
            {"kind": "ncu", "format_version": 1, "tool": 3, "ncu": {}}
        )


def test_quiet(run, pair):
    assert run("compare", *pair, "-q") == (0, "", "")


def test_an_output_that_exists_is_kept(run, pair, tmp_path):
    (tmp_path / "a.json").write_text("mine")
    expect_error(run("compare", *pair, "--json", "a.json"), "output-exists")
    assert (tmp_path / "a.json").read_text() == "mine"
    assert run("compare", *pair, "--json", "a.json", "-f")[0] == 0
    expect_error(run("compare", *pair, "--json", "b.x", "--md", "b.x"), "output-twice")


def test_bad_files_leave_nothing(run, pair, tmp_path):
    (tmp_path / "bad.csv").write_text('"ID","Kernel Name"\n')
    before = files(tmp_path)
    expect_error(run("compare", pair[0], tmp_path / "bad.csv", "--html", "a.html"), "ncu-csv-shape")
    expect_error(run("compare", pair[0], tmp_path / "none.csv", "--html", "a.html"), "ncu-no-file")
    assert files(tmp_path) == before


def test_a_saved_report_of_counters_is_no_comparison_of_steps(run, pair):
    run("compare", *pair, "--json", "a.json")
    expect_error(run("report", "a.json", "--postmortem", "p.md"), "one-capture", 2)
    expect_error(run("report", "a.json", "--fail-on", "step:+5%"), "one-capture", 2)
    expect_error(run("comment", "a.json", "--dry-run"), "not-a-result")


def test_in_a_comparison_of_steps(run, good, tmp_path):
    name = _kernel(run, good, tmp_path)
    before, after = (
        csv(tmp_path / "b.csv", 40.0, name=name),
        csv(tmp_path / "a.csv", 10.0, 1056, 73.7, name=name),
    )
    words = ("compare", good, good, "--with", f"baseline={before}", "--with", f"candidate={after}", "--json", "r.json", "--html", "r.html",
             "--tables", "tables")  # fmt: skip
    code, out, err = run(*words)
    assert code == 0, err
    assert "occupancy 12 -> 74 %" in " ".join(out.split())
    result = json.loads((tmp_path / "r.json").read_text())
    (row,) = result["ncu"]["rows"]
    assert name in result["kernels"][row["kernel"]]["baseline"]["names"]
    assert '<a href="#ncu-0">' in (tmp_path / "r.html").read_text()
    assert (tmp_path / "tables" / "ncu_rows.csv").is_file()
    code, again, _ = run("report", "r.json")
    assert code == 0 and again == out
    assert run("report", "r.json", "--md", "again.md")[0] == 0
    assert "occupancy 12 -> 74 %" in (tmp_path / "again.md").read_text()


def _kernel(run, good, tmp_path):
    """A comparison without profiles has no section for them; the name of its first kernel."""
    code, out, _ = run("compare", good, good, "--json", "plain.json")
    assert code == 0 and "hardware counters" not in out
    result = json.loads((tmp_path / "plain.json").read_text())
    assert result["ncu"] is None
    return result["kernels"][0]["baseline"]["names"][0]


def test_one_side_only_is_refused_before_the_work(run, good, pair):
    given = ("compare", good, good, "--with", f"baseline={pair[0]}")
    expect_error(run(*given), "with-one-side", 2)
    expect_error(run(*given, "--with", "candidate=none.csv"), "not-a-file")
    expect_error(run(*given, "--with", f"baseline={pair[1]}"), "with-unclear", 2)


def test_what_is_no_profile_is_named_with_a_fix(run, pair, tmp_path):
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "folder").mkdir()
    (tmp_path / "times.csv").write_text("latency_ms\n5\n6\n")
    for name, slug, said, code in (
        ("empty.csv", "ncu-empty", "empty.csv is empty", 1),
        ("folder", "ncu-no-file", "a profile is one file", 1),
        ("nope.csv", "ncu-no-file", "fix: check the path", 1),
        ("times.csv", "other-input", "fix: tracediff compare BASELINE CANDIDATE", 2),
    ):
        error = expect_error(run("compare", pair[0], name), slug, code)
        assert said in error and "fix: " in error


def test_a_side_may_be_named(run, pair, tmp_path):
    code, _, err = run("compare", f"main={pair[0]}", pair[1], "--json", "a.json")
    assert code == 0, err
    found = json.loads((tmp_path / "a.json").read_text())["ncu"]
    assert found["baseline"]["file"] == "main" and found["candidate"]["file"] == "after.csv"
