"""`tracediff latencies` and the options of `tracediff compare` for measurements without a profiler."""

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
    code, out, err = run("latencies", *pair, "--html", "a.html", "--md", "a.md", "--json", "a.json")
    assert code == 0, err
    said = "mean 10.0 -> 11.0 ms, +1.00 ms per iteration (+10.0 %)"
    assert said in " ".join(out.split())
    saved = json.loads((tmp_path / "a.json").read_text())
    assert saved["kind"] == "latencies" and saved["latencies"]["verdict"] == "regressed"
    assert saved["latencies"]["verdict_reason"].startswith(said)
    assert saved["latencies"]["step"]["delta_ns"] == pytest.approx(1e6)
    assert "mean 10.0 → 11.0" in (tmp_path / "a.html").read_text()
    assert "| mean | 10.040 | 11.040 | +1.000 | +10.0 % |" in (tmp_path / "a.md").read_text()
    assert str(tmp_path) not in (tmp_path / "a.json").read_text()
    code, again, _ = run("report", "a.json", "--html", "b.html", "--md", "b.md", "--json", "b.json")
    assert code == 0 and again == out
    for suffix in ("html", "md", "json"):
        assert (tmp_path / f"a.{suffix}").read_bytes() == (tmp_path / f"b.{suffix}").read_bytes()


def test_the_json_is_what_its_schema_says(run, pair, tmp_path):
    from jsonschema import Draft202012Validator

    run("latencies", *pair, "--json", "a.json")
    _, out, _ = run("schema")
    validator = Draft202012Validator(json.loads(out))
    validator.validate(json.loads((tmp_path / "a.json").read_text()))
    assert not validator.is_valid({"kind": "latencies", "format_version": 1, "tool": 3, "latencies": {}})


def test_units_columns_and_warm_up_are_options(run, tmp_path):
    (tmp_path / "a.json").write_text("[9, 1, 1, 1]")
    (tmp_path / "b.csv").write_text("one_ms,two_ms\n" + "9,5\n" * 4)
    expect_error(run("latencies", "a.json", "a.json"), "latencies-unit")
    expect_error(run("latencies", "b.csv", "b.csv"), "latencies-column")
    code, out, _ = run("latencies", "a.json", "a.json", "--unit", "ms", "--warmup", "1", "--json", "out.json")
    saved = json.loads((tmp_path / "out.json").read_text())["latencies"]
    assert code == 0 and saved["step"]["baseline_ns"] == 1e6 and saved["baseline"]["runs"][0]["trimmed"] == 1
    code, out, _ = run("latencies", "b.csv", "b.csv", "--column", "two_ms")
    assert code == 0 and "5,000.0" in out
    expect_error(run("latencies", "a.json", "a.json", "--unit", "ms", "--warmup", "4"), "latencies-warmup")
    for wrong in ("-1", "some", "1.5", "\u0661"):
        code, _, err = run("latencies", "a.json", "a.json", "--warmup", wrong)
        assert code == 2 and "auto or a number" in err


def test_nothing_is_overwritten_and_nothing_half_written(run, pair, tmp_path):
    (tmp_path / "a.html").write_text("mine")
    before = files(tmp_path)
    expect_error(run("latencies", *pair, "--json", "b.json", "--html", "a.html"), "output-exists")
    assert files(tmp_path) == before and (tmp_path / "a.html").read_text() == "mine"
    assert run("latencies", *pair, "--html", "a.html", "-f", "-q")[0] == 0
    assert "Slower: " in (tmp_path / "a.html").read_text()


@pytest.mark.parametrize(
    ("word", "slug", "code"),
    [("none.csv", "not-a-file", 1), ("empty", "latencies-empty-folder", 1), ("good.sqlite", "other-input", 2),
     ("nan.csv", "latencies-bad-value", 1)],
)  # fmt: skip
def test_bad_input(run, pair, good, tmp_path, word, slug, code):
    (tmp_path / "empty").mkdir()
    (tmp_path / "nan.csv").write_text("latency_ms\nnan\n")
    expect_error(run("latencies", "before", word), slug, code)
    expect_error(run("latencies", word, "before"), slug, code)


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
            assert "tracediff latencies BASELINE CANDIDATE" in error


def test_a_report_of_latencies_has_no_steps(run, pair):
    run("latencies", *pair, "--json", "a.json", "-q")
    expect_error(run("report", "a.json", "--tables", "x"), "one-capture", 2)
    expect_error(run("report", "a.json", "--fail-on", "step:+3%"), "one-capture", 2)
    expect_error(run("comment", "a.json", "--github", "--dry-run"), "not-a-result")


def test_one_column_a_side(run, tmp_path):
    put(tmp_path / "mix" / "a.csv", 10)
    (tmp_path / "mix" / "b.csv").write_text("ttft_ms\n5\n6\n")
    error = expect_error(run("latencies", "mix", "mix/a.csv"), "latencies-column")
    assert "latency_ms in a.csv, ttft_ms in b.csv" in error
    put(tmp_path / "same" / "a.csv", 10)
    (tmp_path / "same" / "b.csv").write_text("Latency (us)\n10000\n10001\n")
    assert run("latencies", "same", "mix/a.csv")[0] == 0


def test_beside_traces_no_option_is_advised(run, good, tmp_path):
    (tmp_path / "bare.txt").write_text("5\n6\n")
    (tmp_path / "two.csv").write_text("a_ms,b_ms\n5,6\n")
    for name, slug, fix in (
        ("bare.txt", "latencies-unit", "name the column latency_ms"),
        ("two.csv", "latencies-column", "keep one of them in the file"),
    ):
        words = ("--with", f"baseline={name}", "--with", f"candidate={name}")
        error = expect_error(run("compare", good, good, *words), slug)
        assert f"fix: {fix}" in error and "--unit" not in error and "--column" not in error


def test_what_is_no_latencies_is_named(run, good, tmp_path):
    from tests.tiny import ROOT

    put(tmp_path / "x" / "a.csv", 10)
    for path, command in (
        (ROOT / "fixtures/ncu/gemm_two.csv", "tracediff ncu"),
        (ROOT / "fixtures/trtexec/fp16/times.json", "tracediff trtexec"),
        (good, "tracediff compare"),
    ):
        assert f"fix: {command}" in expect_error(run("latencies", "x/a.csv", str(path)), "other-input", 2)
    (tmp_path / "bare.csv").write_text("0,4.95\n1,4.96\n")
    error = expect_error(run("latencies", "x/a.csv", "bare.csv"), "latencies-decimal-comma")
    assert "two columns and no header" in error and "begin with a line of names" in error


def test_a_side_may_be_named(run, pair, tmp_path):
    code, _, err = run("latencies", "main=before", "pr=after", "--json", "a.json")
    assert code == 0, err
    found = json.loads((tmp_path / "a.json").read_text())["latencies"]
    assert (found["baseline"]["label"], found["candidate"]["label"]) == ("main", "pr")
