"""Gates, outputs and limits that cannot be used: said before the work starts, and nothing is written."""

from __future__ import annotations

import pytest

from tests.cli.checks import expect_error, files


@pytest.mark.parametrize(
    "gate",
    ["step", "step:", "step:5", "steps:+5%", "step:+5 %", "step:-5%", "gc:+1h", "generation.p95:+5%", ""],
)
def test_a_bad_gate(gate, run, good, tmp_path):
    before = files(tmp_path)
    text = expect_error(run("compare", good, good, "--fail-on", gate, "--json", "out.json"), "bad-gate", 2)
    assert "fix: for example step:+5%" in text
    assert files(tmp_path) == before


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("good.sqlite", "good.sqlite", "third"),
        ("good.sqlite", "good.sqlite", "--no-such-option"),
        ("good.sqlite", "good.sqlite", "--min-steps", "0"),
        ("good.sqlite", "good.sqlite", "--top", "x"),
    ],
)
def test_usage(words, run, good):
    code, out, err = run("compare", *words)
    assert code == 2 and "Usage:" in err and "Traceback" not in err and out == ""


def test_one_export_has_nothing_to_be_compared_with(run, good):
    text = expect_error(run("compare", good), "candidate-missing", 2)
    assert "fix: tracediff compare" in text


def test_no_such_command(run):
    code, _, err = run("comprae")
    assert code == 2 and "comprae" in err


def test_a_bad_memory_limit(run, good):
    assert "fix: --memory-limit 2GiB" in expect_error(
        run("compare", good, good, "--memory-limit", "a lot"), "bad-limit"
    )


def test_a_bad_memory_limit_of_a_query(run, good):
    words = ("query", good, "SELECT 1", "--memory-limit", "a lot")
    assert "fix: --memory-limit 2GiB" in expect_error(run(*words), "bad-limit")


def test_a_step_regex_that_matches_nothing_tells_what_there_is(run, good):
    """The ranges of the capture are the step labels, whose texts differ most, and _schedule."""
    text = expect_error(run("compare", good, good, "--step-regex", "no such step"), "no-steps")
    assert "N for a number: '[Executor] _forward_step N: N ctx reqs, N ctx tokens, N gen '" in text
    assert text.startswith("error: good.sqlite: ")  # given twice, and the only file of that name
    assert "'_schedule'" in text


# Outputs


@pytest.mark.parametrize("name", ["html", "md", "json", "junit"])
def test_an_output_that_exists(name, run, good, tmp_path):
    kept = tmp_path / f"out.{name}"
    kept.write_text("mine")
    before = files(tmp_path)
    text = expect_error(
        run("compare", good, good, f"--{name}", kept, "--md", "other.md" if name != "md" else kept),
        "output-exists",
    )
    assert "-f" in text
    assert kept.read_text() == "mine" and files(tmp_path) == before


def test_an_output_that_exists_is_overwritten_on_request(run, good, tmp_path):
    kept = tmp_path / "out.json"
    kept.write_text("old")
    code, _, err = run("compare", good, good, "--json", kept, "-f")
    assert code == 0 and kept.read_text().startswith("{"), err


def test_an_output_folder_that_is_missing(run, good, tmp_path):
    before = files(tmp_path)
    text = expect_error(
        run("compare", good, good, "--html", "no/such/out.html", "--json", "out.json"),
        "output-folder-missing",
    )
    assert "fix: mkdir -p" in text
    assert files(tmp_path) == before


def test_an_output_that_is_a_folder(run, good, tmp_path):
    (tmp_path / "folder").mkdir()
    code, _, err = run("compare", good, good, "--json", "folder")
    assert code in (1, 2) and "Traceback" not in err


def test_two_outputs_of_one_name(run, good, tmp_path):
    expect_error(run("compare", good, good, "--json", "out", "--md", "./out"), "output-twice")
    assert not (tmp_path / "out").exists()


def test_an_output_is_checked_before_the_work(run, tmp_path):
    """The inputs are not even looked at: a long comparison must not end with `out.html exists already`."""
    (tmp_path / "out.html").touch()
    expect_error(run("compare", "nowhere.sqlite", "nowhere.sqlite", "--html", "out.html"), "output-exists")


def test_an_output_may_not_be_an_input(run, good):
    before = good.read_bytes()
    expect_error(run("compare", good, good, "--json", good), "output-exists")
    assert good.read_bytes() == before
