"""The Python interface: the same numbers as the command, as typed frames, and a light import."""

from __future__ import annotations

import base64
import gc
import inspect
import json
import re
import subprocess
import sys
import tempfile
from dataclasses import fields
from functools import cache
from html import escape
from html.parser import HTMLParser
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner

import tracediff
from tests.report.hostile import NAMES
from tests.serving import serving, step_ns
from tests.tiny import CAPTURES, ROOT
from tracediff import api
from tracediff.cli.compare import compare
from tracediff.cli.main import cli
from tracediff.cli.query import query
from tracediff.cli.show import show as show_command
from tracediff.cli.what_if import what_if as what_if_command
from tracediff.companions.model import Result, decode
from tracediff.model.show import Show
from tracediff.report.tables import names
from tracediff.request import CompareRequest, OpenRequest, ShowRequest, WhatIfRequest

BEFORE, AFTER = CAPTURES["graph_a1"], CAPTURES["graph_gc"]


@pytest.fixture(scope="module")
def comparison():
    return tracediff.compare(BEFORE, AFTER)


@cache
def _captures():
    return tracediff.open(BEFORE)


def command(*words: object) -> None:
    done = CliRunner().invoke(cli, [*map(str, words)])
    assert done.exit_code == 0, done.output


def test_the_import_is_light():
    """Nothing of weight is imported before something is used."""
    code = "import sys, tracediff; tracediff.__version__; print(sorted({name.partition('.')[0] for name in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    heavy = {"polars", "duckdb", "numpy", "scipy", "jinja2", "rich", "click", "msgspec"}
    assert heavy & set(json.loads(done.stdout.replace("'", '"'))) == set()


def test_what_the_package_offers():
    assert set(tracediff.__all__) <= set(dir(tracediff))
    for name in tracediff.__all__:
        assert getattr(tracediff, name) is not None
    with pytest.raises(AttributeError, match="nothing"):
        tracediff.nothing  # noqa: B018
    assert (ROOT / "tracediff" / "py.typed").exists()


@pytest.mark.parametrize(
    "thing",
    [api.compare, api.open, api.show, api.what_if, api.Comparison, api.Report, api.Projection, api.Captures],
)
def test_everything_public_is_explained(thing):
    members = [thing]
    if inspect.isclass(thing):
        members += [
            getattr(one, "fget", one)
            for name, one in vars(thing).items()
            if not name.startswith("_") and name != "result"
        ]
    for one in members:
        assert inspect.getdoc(one), one
        if inspect.isfunction(one):
            signature = inspect.signature(one)
            assert signature.return_annotation is not inspect.Signature.empty
            assert all(
                parameter.annotation is not inspect.Parameter.empty
                for name, parameter in signature.parameters.items()
                if name != "self"
            )


@pytest.mark.parametrize(
    ("function", "command", "asked"),
    [
        (api.compare, compare, CompareRequest), (api.open, query, OpenRequest), (api.show, show_command, ShowRequest),
        (api.what_if, what_if_command, WhatIfRequest),
    ],
    ids=["compare", "open", "show", "what_if"],
)  # fmt: skip
def test_the_options_are_those_of_the_command(function, command, asked):
    parameters = inspect.signature(function).parameters
    assert [one.name for one in fields(asked) if one.name not in parameters] == []
    given = {one.name: one.default for one in command.params}
    offered = {one.name for one in fields(asked) if one.metadata}
    assert offered <= given.keys()
    assert {name: parameters[name].default for name in offered} == {name: given[name] for name in offered}


def test_a_projection(tmp_path):
    found = tracediff.what_if(AFTER, scale="compute=0.5")
    words = ["what-if", AFTER, "--scale", "compute=0.5", "--json", tmp_path / "command.json", "-q"]
    command(*words)
    found.to_json(tmp_path / "api.json")
    assert (tmp_path / "api.json").read_bytes() == (tmp_path / "command.json").read_bytes()
    assert found.phases["after_ns"][0] < found.phases["before_ns"][0]
    assert found.deciding["after_ns"].sum() == pytest.approx(found.phases["after_ns"].sum())
    assert found.sentence in found.to_markdown().replace("**", "").replace("`", "")
    assert repr(found) == f"<Projection: {found.sentence}>"


def test_the_same_result_as_the_command(comparison, tmp_path):
    out = tmp_path / "command.json"
    command("compare", BEFORE, AFTER, "--json", out, "-q")
    comparison.to_json(tmp_path / "api.json")
    assert (tmp_path / "api.json").read_bytes() == out.read_bytes()
    assert decode(out.read_bytes()) == comparison.result
    assert comparison.verdict == json.loads(out.read_bytes())["verdict"]


def test_what_is_given_beside_the_traces_is_that_of_the_command(tmp_path):
    pairs = {
        "ncu": ("spill255.csv", "spill32.csv"), "trtexec": ("fp32", "fp16"), "latencies": ("same_1", "more_5"),
    }  # fmt: skip
    given = [
        f"{side}={ROOT / 'fixtures' / folder / name}"
        for folder, names in pairs.items()
        for side, name in zip(("baseline", "candidate"), names, strict=True)
    ]
    found = tracediff.compare(BEFORE, AFTER, beside=given)
    words = [word for one in given for word in ("--with", one)]
    command("compare", BEFORE, AFTER, "-q", *words, "--json", tmp_path / "command.json")
    found.to_json(tmp_path / "api.json")
    assert (tmp_path / "api.json").read_bytes() == (tmp_path / "command.json").read_bytes()
    assert found.latencies_rows["statistic"].to_list() == ["mean", "median", "p90", "p99", "min"]
    assert len(found.trtexec_rows) > 0 and len(found.ncu_rows) == 1


@pytest.mark.parametrize("word", ["a.csv", "both=a.csv", "baseline="])
def test_what_stands_beside_says_of_which_side(word):
    with pytest.raises(ValueError, match="is no SIDE=PATH"):
        tracediff.compare(BEFORE, AFTER, beside=word)


def test_latencies_of_one_side_are_an_error_before_any_trace_is_read():
    with pytest.raises(tracediff.TracediffError) as caught:
        tracediff.compare("nowhere", "nowhere", beside=f"baseline={ROOT}/fixtures/latencies/same_1")
    assert caught.value.slug == "with-one-side"


def test_every_table_by_name_and_as_a_property(comparison):
    assert comparison.tables == names(Result)
    for name in comparison.tables:
        frame = comparison.table(name)
        assert isinstance(frame, pl.DataFrame) and frame.columns
        assert getattr(comparison, name).equals(frame)
    assert comparison.findings.height == len(comparison.result.findings) > 0
    assert (
        comparison.findings.schema["delta_ns"] == pl.Float64
        and comparison.findings.schema["rank"] == pl.Int64
    )
    assert comparison.findings["delta_ns"].to_list() == [one.delta_ns for one in comparison.result.findings]
    with pytest.raises(tracediff.TracediffError) as error:
        comparison.table("nothing")
    assert error.value.slug == "no-such-table" and "findings" in error.value.fix
    with pytest.raises(AttributeError, match=r"no table findigs; did you mean findings\?"):
        comparison.findigs  # noqa: B018


def test_reports(comparison, tmp_path):
    comparison.to_html(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text().lower().startswith("<!doctype html>")
    assert comparison.to_markdown(top=3).lstrip()
    with pytest.raises(tracediff.TracediffError) as error:
        comparison.to_html(tmp_path / "report.html")
    assert error.value.slug == "output-exists"
    comparison.to_html(str(tmp_path / "report.html"), overwrite=True)
    with pytest.raises(tracediff.TracediffError) as error:
        comparison.to_json(tmp_path / "nowhere" / "out.json")
    assert error.value.slug == "output-folder-missing"


def test_a_representation_in_one_line(comparison):
    assert comparison.sentence.startswith("Likely slower with graph_gc: mean generation step")
    assert repr(comparison) == f"<Comparison: {comparison.sentence}>"


@pytest.mark.slow
def test_a_bundle_stands_alone():
    comparison = tracediff.compare(ROOT / "fixtures" / "bundles" / "hog300")
    assert comparison.verdict == "regressed"
    assert comparison.result.step.runs.baseline == 4
    assert comparison.findings["cause"][0] == "gil_wait"


def test_errors_have_slugs(tmp_path):
    with pytest.raises(tracediff.TracediffError) as error:
        tracediff.compare(tmp_path / "nowhere.sqlite", AFTER)
    assert error.value.slug == "not-a-file"
    with pytest.raises(tracediff.TracediffError) as error:
        tracediff.compare(BEFORE)
    assert error.value.slug == "candidate-missing"
    with pytest.raises(tracediff.TracediffError) as error:
        tracediff.compare(BEFORE, AFTER, beside=[f"candidate={ROOT}/fixtures/kpi/serving_summary.json"])
    assert error.value.slug == "with-one-side"


def test_options_reach_the_comparison(tmp_path):
    path = serving(steps=6).write(tmp_path / "run.sqlite")
    comparison = tracediff.compare(path, path, steps="2-4", force=True)
    assert comparison.result.inputs.options == {"steps": "2-4", "force": True}
    assert comparison.result.step.steps.baseline == 3
    assert comparison.result.step.baseline_ns == step_ns()


@pytest.mark.slow
def test_one_capture_in_python_is_that_of_the_command(tmp_path):
    report = tracediff.show(AFTER, step=30, worst=2)
    words = ["show", AFTER, "--step", "30", "--worst", "2", "--json", tmp_path / "command.json", "-q"]
    command(*words)
    report.to_json(tmp_path / "api.json")
    assert (tmp_path / "api.json").read_bytes() == (tmp_path / "command.json").read_bytes()
    assert report.tables == names(Show)
    assert report.chosen["asked"].to_list() == ["30", "worst 1", "worst 2"]
    assert report.chosen["number"][0] == 30 and report.sentence == report.chosen["text"][0]
    assert report.idle.height == len(report.result.idle) > 0
    assert repr(report) == f"<Report: {report.sentence}>"
    assert report.to_markdown().startswith("## Step 30 ")
    report.to_html(tmp_path / "report.html")
    with pytest.raises(ValueError, match="is no step"):
        tracediff.show(AFTER, step="x")


_ALLOWED = {
    "div", "style", "p", "b", "h3", "table", "caption", "thead", "tbody", "tfoot", "tr", "th", "td", "data", "ul", "li", "code", "figure", "img", "span",
}  # fmt: skip


class _Tags(HTMLParser):
    """The tags of a piece of HTML with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_a_notebook_shows_a_piece_that_touches_nothing_else(comparison):
    """No scripts, links or ids; every rule of its style sheet is of its own class; the picture is inside."""
    shown = [comparison, tracediff.show(AFTER), tracediff.show(AFTER, worst=2)]
    for one in shown:
        text = one._repr_html_()
        tags = _Tags(text).found
        assert {tag for tag, _ in tags} <= _ALLOWED
        assert {name for _, attributes in tags for name in attributes} <= {
            "class",
            "scope",
            "src",
            "alt",
            "tabindex",
            "data-name",
            "value",
            "title",
        }
        style = re.search(r"(?s)<style>(.*)</style>", text)
        assert style is not None
        selectors = [part for rule in re.findall(r"([^{}]+)\{", style[1]) for part in rule.split(",")]
        assert selectors and all(part.strip().startswith(".tracediff-summary") for part in selectors)
        assert "@" not in style[1] and "url(" not in style[1]
        assert len(text) < 40_000
    html = comparison._repr_html_()
    (picture,) = [attributes["src"] for tag, attributes in _Tags(html).found if tag == "img"]
    kind, _, data = picture.partition(",")
    assert kind == "data:image/svg+xml;base64" and base64.b64decode(data).startswith(b"<svg ")
    assert escape(comparison.result.headline.text.partition(":")[0])[:20] in html
    assert "largest part from" in shown[1]._repr_html_() and "Step " in shown[2]._repr_html_()


def test_open_gives_tables():
    captures = _captures()
    assert captures.op.height == 5216 and captures.op.schema["start_ns"] == pl.Int64
    assert captures.table("STEP").equals(captures.step)
    assert captures.step.height == 31
    period = captures.period
    assert (period["end_ns"] - period["start_ns"]).equals(period["period_ns"].alias("end_ns"))
    assert set(captures.tables) <= set(dir(captures)) and "op" in repr(captures)
    with pytest.raises(AttributeError):
        captures.nothing  # noqa: B018
    with pytest.raises(tracediff.TracediffError) as error:
        captures.table("nothing")
    assert error.value.slug == "no-such-table"


def test_sql():
    captures = _captures()
    frame = captures.sql(
        "SELECT kind, count(*) AS ops, sum(duration_ns) AS ns FROM op GROUP BY kind ORDER BY kind"
    )
    assert frame.schema == {"kind": pl.String, "ops": pl.Int64, "ns": pl.Int64}
    assert frame["ops"].sum() == captures.op.height
    assert frame["ns"].sum() == captures.op["duration_ns"].sum()
    for text, slug in (
        ("SELECT x FROM op", "bad-sql"),
        ("COPY op TO 'x'", "query-not-read-only"),
        ("", "no-sql"),
    ):
        with pytest.raises(tracediff.TracediffError) as error:
            captures.sql(text)
        assert error.value.slug == slug
    rows = captures.schema("gil").rows()
    assert ("waiting", "BOOLEAN", "true: waits for the GIL; false: holds it") in rows


def test_two_captures():
    with tracediff.open(BEFORE, AFTER) as captures:
        assert captures.sql("SELECT count(*) AS n FROM baseline.op")["n"].item() == 5216
        assert captures.table("gc", "baseline").height == 0 < captures.table("gc", "candidate").height
        with pytest.raises(tracediff.TracediffError) as error:
            captures.table("gc")
        assert error.value.slug == "no-such-side"
    with pytest.raises(tracediff.TracediffError) as error:
        _captures().table("gc", "candidate")
    assert error.value.slug == "no-such-side"


def test_nothing_is_left_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    path = serving(steps=4).write(tmp_path / "run.sqlite")

    def left():
        return list(Path(tmp_path / "scratch").iterdir())

    captures = tracediff.open(path)
    assert left()
    captures.close()
    captures.close()  # once more does nothing
    assert not left()
    with pytest.raises(tracediff.TracediffError) as error:
        captures.sql("SELECT 1")
    assert error.value.slug == "closed"
    with tracediff.open(path) as captures:
        kept = captures.op
    assert not left() and kept.height > 0
    captures = tracediff.open(path)
    del captures
    gc.collect()
    assert not left()


def test_hostile_names(tmp_path):
    trace = serving(steps=4)
    for number, name in enumerate(NAMES):
        trace.range(1, name, number * 10, number * 10 + 5)
    path = trace.write(tmp_path / "hostile.sqlite")
    with tracediff.open(path) as captures:
        assert "two\nlines\r\nof it" in captures.range["text"].to_list()  # data as it is
    comparison = tracediff.compare(path, path)
    texts = "".join(comparison.ranges["range"].to_list()) + repr(comparison) + comparison.to_markdown()
    assert "\u202e" not in texts and "\x00" not in texts
    for one in (comparison, tracediff.show(path), tracediff.show(path, step=1)):
        text = one._repr_html_()
        assert not {"\u202e", "\x00"} & set(text)
        assert {tag for tag, _ in _Tags(text).found} <= _ALLOWED
