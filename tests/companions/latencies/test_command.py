"""Latencies as both sides of `tracediff compare`, and the options of `tracediff compare` for measurements without a profiler."""

from __future__ import annotations

import json

import pytest

from tests.cli.checks import expect_error, files
from tests.serving import serving


def put(path, ms: float, step: float = 0.001):
    """A run of 55 iterations whose mean is so many ms."""
    path.parent.mkdir(exist_ok=True)
    rows = (f"{number},{ms * (1 + step * (number * 7 % 11 - 5))}" for number in range(55))
    path.write_text("iteration,latency_ms\n" + "\n".join(rows), encoding="utf-8")
    return path


@pytest.fixture
def pair(tmp_path):
    for number in range(5):
        put(tmp_path / "before" / f"run{number}.csv", 10 + 0.02 * number)
        put(tmp_path / "after" / f"run{number}.csv", 11 + 0.02 * number)
    return "before", "after"


def test_every_output_says_the_same(run, pair, tmp_path):
    code, out, err = run("compare", *pair, "--html", "a.html", "--md", "a.md", "--json", "a.json")
    assert code == 0, err
    said = "mean 10.0 -> 11.0 ms, +1.00 ms per iteration (+10.0 %)"
    assert said in " ".join(out.split())
    saved = json.loads((tmp_path / "a.json").read_text())
    assert saved["kind"] == "latencies" and saved["latencies"]["verdict"] == "regressed"
    assert saved["latencies"]["verdict_reason"].startswith(said)
    assert saved["latencies"]["step"]["delta_ns"] == pytest.approx(1e6)
    assert "mean 10.0 →\u00a011.0" in (tmp_path / "a.html").read_text()
    assert "| mean | 10.04 -> 11.04 | +1.00 | +10.0 % |" in (tmp_path / "a.md").read_text()
    assert str(tmp_path) not in (tmp_path / "a.json").read_text()
    code, again, _ = run("report", "a.json", "--html", "b.html", "--md", "b.md", "--json", "b.json")
    assert code == 0 and again == out
    for suffix in ("html", "md", "json"):
        assert (tmp_path / f"a.{suffix}").read_bytes() == (tmp_path / f"b.{suffix}").read_bytes()


def test_the_json_is_what_its_schema_says(run, pair, tmp_path):
    from jsonschema import Draft202012Validator

    run("compare", *pair, "--json", "a.json")
    _, out, _ = run("schema")
    validator = Draft202012Validator(json.loads(out))
    validator.validate(json.loads((tmp_path / "a.json").read_text()))
    assert not validator.is_valid({"kind": "latencies", "format_version": 1, "tool": 3, "latencies": {}})


def test_units_and_columns_stand_behind_the_name(run, tmp_path):
    (tmp_path / "a.json").write_text("[9, 1, 1, 1]")
    (tmp_path / "b.csv").write_text("one_ms,two_ms\n" + "9,5\n" * 4)
    expect_error(run("compare", "a.json", "a.json"), "latencies-unit")
    expect_error(run("compare", "b.csv", "b.csv"), "latencies-column")
    code, out, _ = run("compare", "a.json:ms", "a.json:ms", "--json", "out.json")
    saved = json.loads((tmp_path / "out.json").read_text())["latencies"]
    assert code == 0 and saved["step"]["baseline_ns"] == 3e6  # of 9, 1, 1, 1
    code, out, _ = run("compare", "b.csv:two_ms", "b.csv:two_ms:ms")
    assert code == 0 and "5,000.0" in out


def test_nothing_is_overwritten_and_nothing_half_written(run, pair, tmp_path):
    (tmp_path / "a.html").write_text("mine")
    before = files(tmp_path)
    expect_error(run("compare", *pair, "--json", "b.json", "--html", "a.html"), "output-exists")
    assert files(tmp_path) == before and (tmp_path / "a.html").read_text() == "mine"
    assert run("compare", *pair, "--html", "a.html", "-f", "-q")[0] == 0
    assert "Slower: " in (tmp_path / "a.html").read_text()


@pytest.mark.parametrize(
    ("word", "slug", "code"),
    [("none.csv", "not-a-file", 1), ("empty", "latencies-empty-folder", 1), ("good.sqlite", "latencies-as-side", 2),
     ("nan.csv", "latencies-bad-value", 1)],
)  # fmt: skip
def test_bad_input(run, pair, good, tmp_path, word, slug, code):
    (tmp_path / "empty").mkdir()
    (tmp_path / "nan.csv").write_text("latency_ms\nnan\n")
    expect_error(run("compare", "before", word), slug, code)
    expect_error(run("compare", word, "before"), slug, code)


@pytest.mark.slow
def test_beside_a_comparison_of_traces(run, pair, tmp_path):
    serving(steps=12).write(tmp_path / "a.sqlite")
    serving(steps=12, gc_us=50).write(tmp_path / "b.sqlite")
    options = ("--with", "baseline=before", "--with", "candidate=after")
    code, out, err = run("compare", "a.sqlite", "b.sqlite", *options, "--json", "r.json", "--html", "r.html", "--md", "r.md",
                         "--tables", "tables", "--postmortem", "p.md")  # fmt: skip
    assert code == 0, err
    assert "Latencies without a profiler" in out and "mean 10.0 -> 11.0 ms" in " ".join(out.split())
    saved = json.loads((tmp_path / "r.json").read_text())["latencies"]
    assert [one["side"] for one in saved["traced"]] == ["baseline", "candidate"]
    assert 'id="latencies"' in (tmp_path / "r.html").read_text()
    assert "<summary>Latencies without a profiler</summary>" in (tmp_path / "r.md").read_text()
    assert (tmp_path / "tables/latencies_rows.csv").read_text().startswith("statistic,baseline_ns")
    again = run("report", "r.json", "--md", "s.md")
    assert (
        again[0] == 0
        and again[1] == out
        and (tmp_path / "s.md").read_bytes() == (tmp_path / "r.md").read_bytes()
    )
    without = run("compare", "a.sqlite", "b.sqlite", "--md", "t.md")
    assert "Latencies" not in without[1] and "Latencies" not in (tmp_path / "t.md").read_text()


def test_one_side_alone_is_refused(run, good, pair):
    for word, lacks in (("baseline=before", "candidate"), ("candidate=after", "baseline")):
        error = expect_error(run("compare", good, good, "--with", word), "with-one-side", 2)
        assert f"fix: --with {lacks}=PATH" in error


def test_what_stands_beside_no_traces_is_named(run, good, pair, tmp_path):
    (tmp_path / "note.txt").write_text("Only a note.")
    for word, says in (("note.txt", "holds nothing that stands beside traces"), (good, "is a SQLite file")):
        assert says in expect_error(
            run("compare", good, good, "--with", f"baseline={word}"), "with-unknown", 2
        )
    (tmp_path / "mixed").mkdir()
    put(tmp_path / "mixed" / "a.csv", 10)
    (tmp_path / "mixed" / "log.txt").write_text("&&&& RUNNING TensorRT.trtexec\n")
    error = expect_error(run("compare", good, good, "--with", "baseline=mixed"), "with-unclear", 2)
    assert "latencies measured without a profiler and what trtexec printed or exported" in error


def test_latencies_as_a_side_of_traces_point_to_the_command(run, good, pair, tmp_path):
    (tmp_path / "list.json").write_text("[1, 2, 3]")
    for word in ("before", "before/run0.csv", "list.json"):
        for words in (("compare", word, good), ("compare", good, word), ("show", word)):
            error = expect_error(run(*words), "latencies-as-side", 2)
            assert "two of them: tracediff compare BASELINE CANDIDATE" in error


def test_a_report_of_latencies_has_no_steps(run, pair):
    run("compare", *pair, "--json", "a.json", "-q")
    expect_error(run("report", "a.json", "--tables", "x"), "one-capture", 2)
    expect_error(run("report", "a.json", "--fail-on", "step:+3%"), "one-capture", 2)
    expect_error(run("comment", "a.json", "--github", "--dry-run"), "not-a-result")


def test_one_column_a_side(run, tmp_path):
    put(tmp_path / "mix" / "a.csv", 10)
    (tmp_path / "mix" / "b.csv").write_text("ttft_ms\n5\n6\n")
    error = expect_error(run("compare", "mix", "mix/a.csv"), "latencies-column")
    assert "latency_ms in a.csv, ttft_ms in b.csv" in error
    put(tmp_path / "same" / "a.csv", 10)
    (tmp_path / "same" / "b.csv").write_text("Latency (us)\n10000\n10001\n")
    assert run("compare", "same", "mix/a.csv")[0] == 0


def test_beside_traces_the_same_is_advised(run, good, tmp_path):
    (tmp_path / "bare.txt").write_text("5\n6\n")
    (tmp_path / "two.csv").write_text("a_ms,b_ms\n5,6\n")
    for name, slug, fix in (
        ("bare.txt", "latencies-unit", "bare.txt:ms"),
        ("two.csv", "latencies-column", "two.csv:COLUMN"),
    ):
        words = ("--with", f"baseline={name}", "--with", f"candidate={name}")
        error = expect_error(run("compare", good, good, *words), slug)
        assert f"fix: {fix}" in error
    words = ("--with", "baseline=two.csv:a_ms", "--with", "candidate=bare.txt:ms", "--json", "out.json", "-q")
    code, _, err = run("compare", good, good, *words)
    assert code == 0, err
    rows = json.loads((tmp_path / "out.json").read_text())["latencies"]["rows"]
    assert (rows[0]["baseline_ns"], rows[0]["candidate_ns"]) == (5e6, 5.5e6)


def test_what_is_no_latencies_is_named(run, good, tmp_path):
    from tests.tiny import ROOT

    put(tmp_path / "x" / "a.csv", 10)
    for path, slug in (
        (ROOT / "fixtures/ncu/gemm_two.csv", "other-input"),
        (ROOT / "fixtures/trtexec/fp16/times.json", "other-input"),
        (good, "latencies-as-side"),
    ):
        assert "fix: " in expect_error(run("compare", "x/a.csv", str(path)), slug, 2)
    (tmp_path / "bare.csv").write_text("0,4.95\n1,4.96\n")
    error = expect_error(run("compare", "x/a.csv", "bare.csv"), "latencies-column")
    assert "2 numbers a line and no header" in error and "begin with a line of names" in error


def test_a_side_may_be_named(run, pair, tmp_path):
    code, _, err = run("compare", "main=before", "pr=after", "--json", "a.json")
    assert code == 0, err
    found = json.loads((tmp_path / "a.json").read_text())["latencies"]
    assert (found["baseline"]["label"], found["candidate"]["label"]) == ("main", "pr")
