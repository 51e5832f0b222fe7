"""Every format out of one run or one saved result: what is written, where, and what is refused before the work."""

from __future__ import annotations

import json
import re
import shutil
import sys
from xml.etree import ElementTree

import jsonschema
import msgspec
import polars as pl
import pytest
from click.testing import CliRunner

from tests.cli.checks import files
from tests.report import sample
from tests.serving import serving
from tests.tiny import FIXTURES
from tracediff.cli.main import cli
from tracediff.cli.options import progress
from tracediff.companions.model import Result, decode
from tracediff.model import encode
from tracediff.report.tables import file_names

FORMATS = {
    "--html": "out.html",
    "--md": "out.md",
    "--json": "out.json",
    "--postmortem": "incident.md",
    "--tables": "tables",
    "--junit": "gates.xml",
    "--benchmark-json": "benchmark.json",
}
WORDS = [word for pair in FORMATS.items() for word in pair]
WRITTEN = {*FORMATS.values()} - {"tables"} | {
    "incident-waterfall.svg",
    "incident-waterfall.png",
    *(f"tables/{name}" for name in file_names(Result)),
}


def test_somebody_at_a_terminal_sees_what_is_read(monkeypatch, capsys):
    progress()("run.sqlite")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    progress(quiet=True)("run.sqlite")
    assert capsys.readouterr().err == ""
    progress()("run.sqlite")
    assert capsys.readouterr().err == "reading run.sqlite\n"


@pytest.fixture
def saved(tmp_path):
    folder = tmp_path / "saved"
    folder.mkdir()
    (folder / "result.json").write_bytes(encode(sample.full()))
    return folder / "result.json"


def made(folder):
    return files(folder) - {"saved", "saved/result.json", "good.sqlite", "tables"}


@pytest.mark.slow
def test_a_saved_result_becomes_every_format(run, saved, tmp_path):
    code, out, err = run("report", saved, "-q", *WORDS, "--fail-on", "step:+20%")
    assert (code, out) == (0, "")
    assert made(tmp_path) == WRITTEN
    assert all((tmp_path / name).stat().st_size for name in WRITTEN)
    assert err.startswith("gate step:+20%: ") and err.count("\n") == 1  # -q: not what was written
    written = decode((tmp_path / "out.json").read_bytes())
    assert [one.text for one in written.gates.outcomes] == ["step:+20%"]
    assert msgspec.structs.replace(written, gates=None) == sample.full()


@pytest.mark.slow
def test_a_comparison_becomes_every_format_and_the_saved_result_the_same(run, good, tmp_path):
    assert run("compare", good, good, "-q", *WORDS, "--fail-on", "step:+3%")[0] == 0
    first = {name: (tmp_path / name).read_bytes() for name in WRITTEN}
    for name in FORMATS.values():
        if name != "out.json":
            path = tmp_path / name
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    words = [word for pair in FORMATS.items() for word in pair if "out.json" not in pair]
    assert run("report", "out.json", "-q", "-f", *words, "--fail-on", "step:+3%")[0] == 0
    assert {name: (tmp_path / name).read_bytes() for name in WRITTEN} == first


def test_a_post_mortem_alone_is_that_of_the_saved_result(run, good, tmp_path):
    serving(8, kernel_us=400).write(tmp_path / "slow.sqlite")
    assert run("compare", good, "slow.sqlite", "-q", "--postmortem", "incident.md")[0] == 0
    alone = (tmp_path / "incident.md").read_text()
    assert run("compare", good, "slow.sqlite", "-q", "--json", "out.json")[0] == 0
    assert run("report", "out.json", "-q", "-f", "--postmortem", "incident.md")[0] == 0
    assert (tmp_path / "incident.md").read_text() == alone and "of this cause in it" in alone


@pytest.mark.slow
def test_what_is_written_can_be_read_by_others(run, good, tmp_path):
    run("compare", good, good, "-q", *WORDS, "--fail-on", "step:+3%")
    code, schema, _ = run("schema")
    assert code == 0
    jsonschema.Draft202012Validator(json.loads(schema)).validate(
        json.loads((tmp_path / "out.json").read_text())
    )
    result = decode((tmp_path / "out.json").read_bytes())
    events = pl.read_parquet(tmp_path / "tables/timeline_events.parquet")
    assert result.timelines is not None
    packed = [step for one in result.timelines.steps for step in (one.baseline, one.candidate) if step]
    assert len(events) == sum(len(lane.start.split()) for step in packed for lane in step.lanes) > 0
    gpu = events.filter((pl.col("row") == 0) & (pl.col("side") == "baseline") & (pl.col("kind") == "gpu"))
    assert set(gpu["what"]) == {"gemm_0", "gemm_1", "gemm_2"} and set(gpu["length_ns"]) == {200_000}
    assert ElementTree.parse(tmp_path / "gates.xml").getroot().get("tests") == "1"


def test_gates_of_a_saved_result_are_in_every_format(run, saved, tmp_path):
    run("report", saved, "-q", "--fail-on", "gc:+1us", "--warn-on", "step:+1%", "--json", "gated.json")
    code, _, _ = run("report", "gated.json", "-q", "--junit", "g.xml", "--md", "c.md", "--html", "h.html")
    suite = ElementTree.parse(tmp_path / "g.xml").getroot()
    suite = suite if suite.tag == "testsuite" else suite[0]
    assert (code, suite.get("tests"), suite.get("failures")) == (3, "2", "1")
    assert "- Gate `gc:+1us` **failed**: " in (tmp_path / "c.md").read_text()
    assert '<section id="gates">' in (tmp_path / "h.html").read_text()
    assert "- Gate `gc:+1us` **failed**: " in run("comment", "gated.json", "--dry-run")[1]


def test_keys_of_a_later_version_are_ignored(run, tmp_path):
    data = json.loads(encode(sample.full())) | {"tomorrow": 1}
    (tmp_path / "new.json").write_text(json.dumps(data))
    assert run("report", "new.json", "-q", "--json", "again.json")[0] == 0
    assert decode((tmp_path / "again.json").read_bytes()) == sample.full()


@pytest.mark.slow
def test_a_hostile_result_in_every_format(run, saved, tmp_path, monkeypatch):
    """With the annotations of a runner of CI."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    result = sample.large(50)
    name = (
        "::error::a|b\n::error::x\r\n##[add-mask]y ##vso[task.setvariable x=y]z ###teamcity[a 'b']\x00\x1b[31m</script><img src=x onerror=alert(1)>\u202e"
        * 200
    )
    hostile = msgspec.structs.replace(
        result,
        kernels=[
            msgspec.structs.replace(row, baseline=msgspec.structs.replace(row.baseline, names=[name]))
            for row in result.kernels if row.baseline
        ],
        verdict_reason=name,
    )  # fmt: skip
    saved.write_bytes(encode(hostile))
    code, out, _ = run("report", saved, *WORDS, "--fail-on", "step:+1%")
    assert code == 3 and made(tmp_path) == WRITTEN
    assert len((tmp_path / "out.md").read_text()) < 65_536
    assert decode((tmp_path / "out.json").read_bytes()).verdict_reason == name
    for path in WRITTEN:
        if not path.endswith((".parquet", ".png")):
            assert re.search(rb"##\w*\[", (tmp_path / path).read_bytes()) is None, path
        if path.endswith(".png"):  # pixels alone
            assert not re.search(rb"tEXt|iTXt|zTXt", (tmp_path / path).read_bytes()[:200])
        elif path != "out.json" and not path.endswith(".parquet"):
            text = (tmp_path / path).read_bytes()
            assert b"\x00" not in text and b"\x1b" not in text and "\u202e".encode() not in text, path
    assert "\x1b" not in out
    for line in out.splitlines():  # what a runner of GitHub Actions would take for a command
        assert re.search(r"##\w*\[", line) is None
        if line.strip().startswith("::"):
            assert line.startswith(
                ("::notice title=", "::error title=tracediff gate", "::warning title=tracediff")
            )


def bundle(folder, order):
    """A capture bundle by hand: two runs a side, recorded in this order, one failed run and one control."""
    (folder / "runs").mkdir(parents=True)
    runs = [
        {
            "index": 0,
            "side": "baseline",
            "kind": "profiled",
            "status": "failed",
            "folder": "runs/x",
            "started": "2026-11-01T08:00:00+00:00",
        }
    ]
    runs.append(
        {
            "side": "baseline",
            "kind": "control",
            "status": "done",
            "folder": "runs/c",
            "started": "2026-11-01T08:30:00+00:00",
        }
    )
    for hour, (side, name) in enumerate(order):
        (folder / "runs" / name).mkdir()
        serving(steps=6).write(folder / "runs" / name / "r.sqlite")
        runs.append(
            {"index": hour, "side": side, "kind": "profiled", "status": "done", "folder": f"runs/{name}", "exports": ["r.sqlite"],
             "kpi": [], "started": f"2026-11-01T{hour + 9:02}:00:00+00:00" if hour < 3 else "<b>noon</b>"}
        )  # fmt: skip
    data = {"tracediff_bundle": 1, "runs": runs}
    (folder / "manifest.json").write_text(json.dumps(data))
    return folder


@pytest.mark.slow
def test_a_bundle_tells_when_its_runs_were_recorded(run, tmp_path):
    order = [("baseline", "b1"), ("candidate", "c1"), ("candidate", "c2"), ("baseline", "b2")]
    made = bundle(tmp_path / "bundle", order)
    code, _, err = run("compare", made, "-q", "--json", "out.json", "--postmortem", "incident.md")
    assert code == 0, err
    text = (tmp_path / "incident.md").read_text()
    assert "| 2026-11-01 09:00:00 to 2026-11-01 11:00:00 | both sides recorded, 2 + 2 runs |" in text


def test_a_second_file_of_a_kind_is_refused_and_none_is_lost(run, good, tmp_path):
    code, _, err = run("compare", good, good, "--html", "a.html", "--html", "b.html")
    assert code == 2 and "'--html': given 2 times" in err
    assert not list(tmp_path.glob("*.html"))


@pytest.mark.slow
def test_the_demo_writes_what_is_asked_for_as_compare_does(tmp_path, monkeypatch):
    """The same bundle by either command gives the same comment; the page is written where nothing else is asked for."""
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(cli, ["demo", "-q", "--md", "demo.md", "--top", "3"]).exit_code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["demo.md"]
    words = [
        "compare",
        str(FIXTURES / "bundles/hog300"),
        "-q",
        "--md",
        "own.md",
        "--top",
        "3",
        "--policy",
        "none",
    ]
    assert CliRunner().invoke(cli, words).exit_code == 0
    assert (tmp_path / "demo.md").read_text() == (tmp_path / "own.md").read_text()
