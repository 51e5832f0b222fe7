"""Outputs that cannot be what they are named: one style of message, before any work is done."""

from __future__ import annotations

import pytest

from tests.cli.checks import expect_error


@pytest.mark.parametrize(
    "option", ["--html", "--md", "--json", "--junit", "--postmortem", "--benchmark-json"]
)
def test_a_folder_is_no_file(option, run, tmp_path):
    (tmp_path / "taken.md").mkdir()
    text = expect_error(run("compare", "no.sqlite", "no.sqlite", option, "taken.md"), "output-is-folder")
    assert "fix: name a file inside it" in text


def test_a_file_is_no_folder(run, tmp_path):
    (tmp_path / "taken").write_text("")
    expect_error(run("compare", "no.sqlite", "no.sqlite", "--tables", "taken"), "output-not-folder")


def test_a_folder_is_no_policy(run, tmp_path):
    (tmp_path / "policy").mkdir()
    expect_error(run("report", "no.json", "--policy", "policy"), "policy-unreadable", 2)


def test_the_report_of_the_demo(run, tmp_path):
    (tmp_path / "taken").mkdir()
    expect_error(run("demo", "--html", "taken"), "output-is-folder")
