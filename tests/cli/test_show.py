"""`tracediff show`: formats, files and exit codes as of `compare`, and its saved report in `tracediff report`."""

from __future__ import annotations

import json
import shutil

import jsonschema
import msgspec

from tests.cli.checks import expect_error, files
from tests.serving import serving
from tests.tiny import FIXTURES
from tracediff.model.show import Show
from tracediff.report.tables import file_names

FORMATS = {"--html": "out.html", "--md": "out.md", "--json": "out.json", "--tables": "tables"}
WORDS = [word for pair in FORMATS.items() for word in pair]
WRITTEN = {"out.html", "out.md", "out.json", *(f"tables/{name}" for name in file_names(Show))}


def test_every_format_and_the_saved_report_the_same(run, good, tmp_path) -> None:
    code, out, err = run("show", good, *WORDS)
    assert code == 0 and " ".join(out.split()).startswith(
        "good: a step takes 707 us. The GPU is idle for 107 us of it (15 %), the largest part from host work in _schedule (100 us)."
    )
    assert [line for line in err.splitlines() if line.startswith("wrote ")] == [
        f"wrote {path} ({option.removeprefix('--')})" for option, path in FORMATS.items()
    ]
    assert files(tmp_path) == {*WRITTEN, "tables", "good.sqlite"}
    first = {name: (tmp_path / name).read_bytes() for name in WRITTEN}
    shutil.move(tmp_path / "out.json", tmp_path / "saved.json")
    code, again, _ = run("report", "saved.json", "-f", *WORDS)
    assert (code, again) == (0, out)
    assert {name: (tmp_path / name).read_bytes() for name in WRITTEN} == first
    code, schema, _ = run("schema")
    jsonschema.Draft202012Validator(json.loads(schema)).validate(json.loads(first["out.json"]))


def test_a_folder_of_runs_with_a_label_and_figures(run, tmp_path) -> None:
    (tmp_path / "runs").mkdir()
    for number, schedule_us in enumerate((100, 120)):
        serving(steps=6, schedule_us=schedule_us).write(tmp_path / "runs" / f"run{number}.sqlite")
    kpi = FIXTURES / "kpi" / "serving_summary.json"
    code, out, _ = run("show", "main=runs", "--json", "a.json", "--kpi", kpi)
    assert code == 0 and out.startswith("main: a step takes 717 us. The GPU is idle for 117 us of it (16 %)")
    assert (
        "2 runs, 12 steps" in out
        and "standard deviation 14.1 us over 2 runs (707.0 to 727.0 us)" in " ".join(out.split())
    )
    report = msgspec.json.decode((tmp_path / "a.json").read_bytes(), type=Show)
    assert [run.name for run in report.input.runs] == ["run0.sqlite", "run1.sqlite"]
    assert report.kpi is not None and report.kpi.source == "serving_summary.json" and report.kpi.rows
    assert str(tmp_path) not in (tmp_path / "a.json").read_text()


def test_it_is_no_comment_and_its_version_is_its_own(run, good, tmp_path) -> None:
    assert run("show", good, "-q", "--json", "a.json")[0] == 0
    expect_error(run("comment", "a.json", "--dry-run"), "one-capture", 2)
    data = json.loads((tmp_path / "a.json").read_text())
    (tmp_path / "b.json").write_text(json.dumps(data | {"format_version": 1}))
    assert "run the report again" in expect_error(run("report", "b.json"), "result-version")
    (tmp_path / "c.json").write_text(json.dumps(data | {"kernels": 7}))
    expect_error(run("report", "c.json"), "not-a-result")
    (tmp_path / "d.json").write_text(json.dumps(data | {"tomorrow": 1}))
    assert run("report", "d.json", "-q", "--json", "e.json")[0] == 0
    assert (tmp_path / "e.json").read_bytes() == (tmp_path / "a.json").read_bytes()


def test_one_step_says_the_same_in_every_format(run, good, tmp_path) -> None:
    code, out, _ = run("show", good, "--step", "3", "--html", "a.html", "--md", "a.md", "--json", "a.json")
    sentence = "Step 3 took 707 us, as long as a typical generation step (707 us)."
    assert code == 0 and out.startswith(sentence)
    assert "What is in the time" not in out
    assert (tmp_path / "a.md").read_text().startswith(f"## {sentence}")
    page = (tmp_path / "a.html").read_text().replace("\u00a0\u00b5s", " us")
    assert f"<h3>{sentence}</h3>" in page and f"<title>{sentence}</title>" in page
    report = msgspec.json.decode((tmp_path / "a.json").read_bytes(), type=Show)
    assert [(one.asked, one.number, one.text) for one in report.chosen] == [("3", 3, sentence)]
    assert run("report", "a.json") == (0, out, "")


def test_steps_that_are_none(run, good) -> None:
    for words in (("--step", "x"), ("--step", "1-3"), ("--worst", "0")):
        code, out, err = run("show", good, *words)
        assert code == 2 and out == "" and "Error" in err
    assert "steps 0 to 5" in expect_error(run("show", good, "--step", "6"), "no-such-step", 2)


def test_one_kernel_in_every_format(run, good, tmp_path) -> None:
    serving(steps=6, kernel_us=250).write(tmp_path / "slow.sqlite")
    files_of = ("--html", "a.html", "--md", "a.md", "--json", "a.json")
    code, out, _ = run("compare", good, "slow.sqlite", "--kernel", "gemm_1", *files_of)
    assert code == 0
    sentence = json.loads((tmp_path / "a.json").read_text())["kernel_answers"][0]["text"]
    assert sentence.startswith("gemm_1 takes 50.0 us more per mean step (200 -> 250 us per step, +25.0 %)")
    assert " ".join(out.split()).startswith(sentence)
    assert sentence.partition("(")[0] in (tmp_path / "a.md").read_text().replace("\\", "")
    assert "<h3>gemm_1 takes 50.0" in (tmp_path / "a.html").read_text()
    assert run("report", "a.json") == (0, out, "")
    expect_error(run("compare", good, "slow.sqlite", "--kernel", "softmax"), "no-such-kernel", 2)
