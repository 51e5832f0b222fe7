"""Which policy a command reads, and that init never makes two."""

from __future__ import annotations

from pathlib import Path

from tests.cli.checks import expect_error
from tests.report import sample
from tracediff.model import encode

GATE = '[tool.tracediff]\nfail-on = ["step:+20%"]\n'


def test_two_policies_are_refused(run, tmp_path):
    Path("full.json").write_bytes(encode(sample.full()))
    assert run("init")[0] == 0
    assert run("report", "full.json", "-q")[0] == 3  # +10.2 %, and the gate that init writes is +3 %
    Path("pyproject.toml").write_text("[tool.other]\n")
    assert run("report", "full.json", "-q")[0] == 3
    Path("pyproject.toml").write_text(GATE)
    expect_error(run("report", "full.json", "-q"), "policy-twice", 2)
    assert run("report", "full.json", "-q", "--policy", "tracediff.toml")[0] == 3
    assert run("report", "full.json", "-q", "--policy", "none")[0] == 0


def test_init_leaves_a_policy_where_it_is(run, tmp_path):
    Path("pyproject.toml").write_text(GATE)
    code, out, _ = run("init", "--gitlab")
    assert code == 0 and out.startswith("the gates stay in [tool.tracediff] of pyproject.toml\n")
    assert {path.name for path in Path().iterdir()} == {"pyproject.toml", "perf", ".gitlab"}


def test_what_is_there_stays_and_what_is_missing_is_written(run):
    assert run("init")[0] == 0
    Path("tracediff.toml").write_text('fail-on = ["launches:+1"]\n')
    code, out, _ = run("init", "--github")
    assert (code, "tracediff.toml is there and stays" in out) == (0, True)
    assert Path("tracediff.toml").read_text() == 'fail-on = ["launches:+1"]\n'
    assert Path(".github/workflows/tracediff.yml").is_file()
