"""Every command that takes a folder says what of it was not taken, and repeats that it took as ranks."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from fixtures.builders import two_steps
from tracediff.cli.main import cli

HINT = "give the folder `par/main` itself"


@pytest.fixture
def folders(tmp_path):
    """`par` with three repeats one folder too deep, and a single run."""
    (tmp_path / "par" / "main").mkdir(parents=True)
    for number in range(3):
        two_steps().write(tmp_path / "par" / "main" / f"a{number}.sqlite")
    return str(tmp_path / "par"), str(two_steps().write(tmp_path / "one.sqlite"))


def run(*words):
    done = CliRunner().invoke(cli, list(words), catch_exceptions=False)
    return " ".join((done.stdout + done.stderr).split())


@pytest.mark.slow
def test_show_and_query_and_inputs_say_that_repeats_are_ranks(folders):
    par, _ = folders
    assert HINT in run("show", par)
    assert HINT in run("query", par, "SELECT count(*) FROM kernel")
    assert HINT in run("inputs", par)
    assert HINT in json.dumps(
        json.loads(CliRunner().invoke(cli, ["inputs", par, "--json"]).stdout)["inputs"][0]["warnings"]
    )


def test_not_comparable_says_how_the_ranks_came_about(folders, tmp_path):
    par, one = folders
    out = tmp_path / "out.json"
    text = run("compare", par, one, "--json", str(out))
    result = json.loads(out.read_text())
    assert result["verdict"] == "not_comparable"
    assert HINT in result["headline"]["text"]
    assert [note["slug"] for note in result["warnings"]].count("taken-as-ranks") == 1
    assert HINT in text


@pytest.mark.parametrize("command", ["inputs", "show"])
def test_traces_beside_exports_are_said(command, tmp_path):
    folder = tmp_path / "mixed"
    folder.mkdir()
    two_steps().write(folder / "a.sqlite")
    (folder / "t.json").write_text('{"schemaVersion": 1, "traceEvents": []}')
    assert "1 torch.profiler trace (t.json)" in run(command, str(folder))
