"""Files of latencies: every form that is read, every one that is refused, and with which words."""

from __future__ import annotations

import json
import time

import pytest

from tests.tiny import ROOT
from tracediff.companions.latencies.read import (
    Wanted,
    choose,
    read,
    read_side,
    recognise,
    settle_unit,
    unit_in,
)
from tracediff.errors import TracediffError

FIXTURES = ROOT / "fixtures"
MS = 1e6


def put(tmp_path, name: str, text: str | bytes):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


READ = {
    "named.json": ('{"times_ms": [1, 2.5]}', "json", "times_ms", "ms", [1 * MS, 2.5 * MS]),
    "stated.json": ('{"unit": "us", "latencies": [10, 20]}', "json", "latencies", "us", [1e4, 2e4]),
    "words.json": ('{"time_unit": "seconds", "latencies": [1]}', "json", "latencies", "s", [1e9]),
    "objects.json": ('[{"iter": 0, "latency_ms": 3}, {"iter": 1, "latency_ms": 4}]', "json", "latency_ms", "ms", [3e6, 4e6]),
    "camel.json": ('[{"latencyMs": 3.5}]', "json", "latencyMs", "ms", [3.5e6]),
    "plain.csv": ("iteration,latency_ms\n0,1.5\n1,2.5\n", "csv", "latency_ms", "ms", [1.5e6, 2.5e6]),
    "semicolon.csv": ("iteration;time_us\n0;1.5\n1;2e1\n", "csv", "time_us", "us", [1500.0, 20_000.0]),
    "tab.tsv": ("i\tLatency (ms)\n0\t1\n", "csv", "Latency (ms)", "ms", [1e6]),
    "bom.csv": (b"\xef\xbb\xbfstep,duration_ns\r\n1,10\r\n2,20\r\n", "csv", "duration_ns", "ns", [10.0, 20.0]),
    "quoted.csv": ('"name","latency_ms"\n"a,b",1\n', "csv", "latency_ms", "ms", [1e6]),
    "one_column.csv": ("latency_ms\n4\n", "csv", "latency_ms", "ms", [4e6]),
    "moments.csv": ("start_ms,end_ms,latency_ms\n1,2,1\n", "csv", "latency_ms", "ms", [1e6]),
    "rate.csv": ("throughput_tok_s,latency_ms\n5,1\n", "csv", "latency_ms", "ms", [1e6]),
    "vllm.json": ('{"avg_latency_s": 1.5, "latencies_s": [1, 2], "percentiles": {"50": 1.5}}', "json", "latencies_s", "s", [1e9, 2e9]),
    "hyperfine.json": (
        json.dumps({"results": [{"command": "a", "mean": 0.2, "times": [0.1, 0.3], "exit_codes": [0, 0]}]}),
        "json", "results.a.times", "s", [1e8, 3e8],
    ),
    "inside.json": ('{"runs": {"decode": {"step_us": [7, 8]}, "flags": ["a"], "none_ms": []}}', "json", "runs.decode.step_us", "us", [7e3, 8e3]),
}  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_a_form_that_is_read(tmp_path, name):
    text, form, column, unit, values = READ[name]
    path = put(tmp_path, name, text)
    found = read(path)
    assert (found.format, found.column, found.unit) == (form, column, unit)
    assert found.ns.tolist() == pytest.approx(values, rel=1e-12)
    assert recognise(path) == form


@pytest.mark.parametrize(("name", "text"), [("list.json", "[1, 2, 3]"), ("lines.txt", "# ms?\r\n1\r\n2\r\n3\r\n"),
                                            ("named.csv", "latency\n1\n2\n3\n"), ("key.json", '{"latencies": [1, 2, 3]}')])  # fmt: skip
def test_without_a_unit_nothing_is_guessed(tmp_path, name, text):
    path = put(tmp_path, name, text)
    with pytest.raises(TracediffError) as caught:
        read(path)
    assert caught.value.slug == "latencies-unit" and f"{name}:ms" in (caught.value.fix or "")
    assert read(path, Wanted(unit="us")).ns.tolist() == [1000.0, 2000.0, 3000.0]
    assert read(path, Wanted(unit="us")).unit_from == "the command line"


def test_a_unit_against_that_of_the_file_is_refused(tmp_path):
    path = put(tmp_path, "a.csv", "latency_ms\n1\n")
    with pytest.raises(TracediffError, match="us was given and the file says ms"):
        read(path, Wanted(unit="us"))
    assert read(path, Wanted(unit="ms")).ns.tolist() == [1e6]
    with pytest.raises(TracediffError, match="the file says us and the name times_ms says ms"):
        read(put(tmp_path, "b.json", '{"unit": "us", "times_ms": [1]}'))
    with pytest.raises(TracediffError, match="the unit is given as parsec"):
        read(put(tmp_path, "c.json", '{"unit": "parsec", "times": [1]}'), Wanted(unit="ms"))


@pytest.mark.parametrize(
    ("name", "unit"),
    [("latency_ms", "ms"), ("time_us", "us"), ("seconds", "s"), ("hostStepTimeMS", "ms"), ("Latency [µs]", "us"), ("t_ns", "ns"),
     ("step_time_ms", "ms"), ("latency", None), ("tok_s", None), ("requests_per_s", None), ("start_ms", None), ("times", None),
     ("items", None), ("status", None)],
)  # fmt: skip
def test_units_in_names(name, unit):
    assert unit_in(name) == unit


def test_the_column_is_chosen_only_where_it_is_clear():
    assert choose(["iteration", "value"], Wanted("f")) == "value"
    assert choose(["a", "b_ms"], Wanted("f")) == "b_ms"
    assert choose(["a_ms", "b_ms"], Wanted("f", "a_ms")) == "a_ms"
    for names, wanted in ((["a_ms", "b_ms"], None), (["a", "b"], None), (["a"], "b"), (["iteration"], None)):
        with pytest.raises(TracediffError) as caught:
            choose(names, Wanted("f", wanted))
        assert caught.value.slug == "latencies-column"
    assert settle_unit("x_ms", None, Wanted("f")) == ("ms", "the name x_ms")


def test_pytest_benchmark_as_it_was_written():
    path = FIXTURES / "latencies/pytest_benchmark.json"
    saved = json.loads(path.read_text())["benchmarks"][1]["stats"]
    with pytest.raises(TracediffError, match=r"benchmarks\.test_sum\.stats\.data, benchmarks\.test_sorted"):
        read(path)
    for asked in ("test_sorted", "benchmarks.test_sorted.stats.data"):
        found = read(path, Wanted(column=asked))
        assert (found.column, found.unit, found.unit_from) == (
            "benchmarks.test_sorted.stats.data", "s", "the file",
        )  # fmt: skip
        assert found.ns.mean() == pytest.approx(saved["mean"] * 1e9)
        assert len(found.ns) == saved["rounds"] == 24


def test_an_object_that_no_name_tells_is_called_by_its_place(tmp_path):
    path = put(tmp_path, "a.json", '{"unit": "ms", "sides": [{"times": [1]}, {"times": [2]}]}')
    with pytest.raises(TracediffError, match=r"sides\.0\.times, sides\.1\.times"):
        read(path)
    assert read(path, Wanted(column="1")).ns.tolist() == [2e6]


REFUSED = {
    "empty.json": ("", "latencies-empty", "is empty"),
    "bom_only.csv": (b"\xef\xbb\xbf\r\n", "latencies-empty", "is empty"),
    "no_values.json": ('{"times_ms": []}', "latencies-empty", "no latency"),
    "header_only.csv": ("latency_ms\n", "latencies-empty", "no latency"),
    "comments.txt": ("# a\n# b\n", "latencies-empty", "no latency"),
    "nan.json": ('{"times_ms": [1, NaN]}', "latencies-bad-value", "value 2 is nan: not finite"),
    "inf.json": ('{"times_ms": [1, Infinity]}', "latencies-bad-value", "value 2 is inf"),
    "nan.csv": ("latency_ms\n1\nnan\n", "latencies-bad-value", "value 2 is nan"),
    "negative.csv": ("latency_ms\n1\n-2\n", "latencies-bad-value", "value 2 is -2.0: negative"),
    "string.json": ('{"times_ms": [1, "2"]}', "latencies-bad-value", "value 2 is '2': no number"),
    "true.json": ('{"times_ms": [1, true]}', "latencies-bad-value", "value 2 is True: no number"),
    "null.json": ('{"times_ms": [1, null]}', "latencies-bad-value", "value 2 is None: no number"),
    "missing.json": ('[{"x_ms": 1}, {"y": 2}]', "latencies-bad-value", "value 2 is None"),
    "word.csv": ("latency_ms\n1\nfoo\n", "latencies-bad-value", "value 2 is 'foo': no number"),
    "hole.csv": ("latency_ms,a\n1,2\n,3\n", "latencies-bad-value", "value 2 is '': no number"),
    "short_row.csv": ("a,latency_ms\n1,2\n3\n", "latencies-bad-value", "line 2 below the header has 1 columns, the header 2"),
    "huge.json": ('{"times_s": [1, 1e30]}', "latencies-bad-value", "value 2 is 1e+30 s: longer than 100 days"),
    "long_digits.json": ('{"times_s": [1' + "0" * 500 + "]}", "latencies-bad-value", "not finite"),
    "comma.csv": ("iteration;latency_ms\n0;1,5\n", "latencies-bad-value", "value 1 is '1,5': no number"),
    "comma.txt": ("1,5\n2,5\n", "latencies-column", "2 numbers a line and no header"),
    "no_header.csv": ("1,2,3\n4,5,6\n", "latencies-column", "no header"),
    "same_names.csv": ("a_ms,a_ms\n1,2\n", "latencies-column", "two of one name"),
    "two.csv": ("a_ms,b_ms\n1,2\n", "latencies-column", "several columns"),
    "lines.json": ('{"latency_ms": 1}\n{"latency_ms": 2}\n', "latencies-unknown-format", "as JSON it is broken"),
    "object.json": ('{"latency_ms": 5}', "latencies-unknown-format", "no latencies of a form"),
    "nested.json": ("[[1], [2]]", "latencies-unknown-format", "no latencies of a form"),
    "cut.json": ('{"times_ms": [1, 2', "latencies-unknown-format", "as JSON it is broken"),
    "deep.json": ("[" * 100_000, "latencies-unknown-format", "as JSON it is broken"),
    "prose.txt": ("it was\nlong ago\n", "latencies-unknown-format", "no latencies of a form"),
    "utf16.csv": ("latency_ms\n1\n".encode("utf-16"), "latencies-unreadable", "no UTF-8"),
    "latin.csv": (b"latency_ms\n1 \xe4\n", "latencies-unreadable", "no UTF-8"),
    "binary.csv": (b"SQLite format 3\x00" + bytes(200), "other-input", "a SQLite file"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_that_is_refused(tmp_path, name):
    text, slug, words = REFUSED[name]
    path = put(tmp_path, name, text)
    with pytest.raises(TracediffError) as caught:
        read(path)
    assert (caught.value.slug, words in caught.value.message) == (slug, True), caught.value.message
    assert name in caught.value.message and caught.value.fix
    assert len(str(caught.value)) < 1000


def test_what_is_too_large_is_refused_at_once(tmp_path, monkeypatch):
    path = put(tmp_path, "many.json", b"[" + b"0," * 8_000_001 + b"0]")
    begin = time.process_time()
    with pytest.raises(TracediffError, match="too many values"):
        read(path, Wanted(unit="ms"))
    with pytest.raises(TracediffError, match="too many values"):
        read(put(tmp_path, "objects.json", b"[" + b"{}," * 2_000_001 + b"{}]"))
    assert time.process_time() - begin < 5
    monkeypatch.setattr("tracediff.companions.latencies.read.MAX_BYTES", 100)
    with pytest.raises(TracediffError, match="the most that is read is 100"):
        read(path, Wanted(unit="ms"))
    monkeypatch.setattr("tracediff.companions.latencies.read.MAX_VALUES", 3)
    with pytest.raises(TracediffError, match="4 latencies, the most that is read is 3"):
        read(put(tmp_path, "four.json", "[1,2,3,4]"), Wanted(unit="ms"))


@pytest.mark.parametrize(
    "path",
    ["kpi/bench_streaming.json", "kpi/serving_summary.json", "kpi/iter_log.log", "torch/loop_a.json.gz",
     "demo/graph_a/graph_a1.sqlite.xz", "README.md"],
)  # fmt: skip
def test_other_files_are_not_taken_for_latencies(path):
    assert recognise(FIXTURES / path) is None


def test_a_side_is_files_and_folders(tmp_path):
    for name in ("b.csv", "a.csv", "notes.md"):
        put(tmp_path, name, "latency_ms\n1\n")
    assert [file.name for file in read_side([tmp_path])] == ["a.csv", "b.csv"]
    assert [file.name for file in read_side([tmp_path / "b.csv", tmp_path / "a.csv"])] == ["b.csv", "a.csv"]
    (tmp_path / "again").mkdir()
    again = (tmp_path / "b.csv").rename(tmp_path / "again/a.csv")
    assert [file.name for file in read_side([tmp_path / "a.csv", again])] == [
        f"{tmp_path.name}/a.csv",
        "again/a.csv",
    ]
    (tmp_path / "empty").mkdir()
    for path, slug in ((tmp_path / "empty", "latencies-empty-folder"), (tmp_path / "none", "not-a-file")):
        with pytest.raises(TracediffError) as caught:
            read_side([path])
        assert caught.value.slug == slug
