"""The commands that the pages of docs/ mark as runnable do run, and docs/cli.md is current.

A block that begins with ```sh run is run line by line from a folder with `fixtures` in it; ```sh run exit=4 says what each of its
lines exits with. A line that ends in a backslash goes on in the next one.
"""

from __future__ import annotations

import re
import shlex

import pytest

import tracediff
from docs.make_cli import PAGE, render
from tests.tiny import ROOT
from tracediff.cli.main import main

_BLOCK = re.compile(r"^```sh run(?: exit=(\d+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Page -> how many commands it has at least.
PAGES = {"tutorial.md": 5, "recipes.md": 5, "comparison.md": 3, "latencies.md": 3}


def _commands(page: str) -> list[tuple[int, list[str]]]:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    found = []
    for status, block in _BLOCK.findall(text):
        lines = block.replace("\\\n", " ").splitlines()
        found += [(int(status or 0), shlex.split(line, comments=True)) for line in lines]
    return [(status, words) for status, words in found if words]


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_the_page_run(page, monkeypatch, capsys, tmp_path):
    (tmp_path / "fixtures").symlink_to(ROOT / "fixtures")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRACEDIFF_CACHE", str(tmp_path / "cache"))
    commands = _commands(page)
    assert len(commands) >= PAGES[page]
    for status, (program, *words) in commands:
        assert program == "tracediff"
        monkeypatch.setattr("sys.argv", [program, *words])
        try:
            main()
            code = 0
        except SystemExit as done:
            code = done.code or 0
        captured = capsys.readouterr()
        assert code == status, f"{shlex.join(words)}\n{captured.err}"
        assert captured.out or captured.err or "-q" in words, shlex.join(words)


def test_the_page_of_the_command_line_is_current():
    """To update it: python docs/make_cli.py."""
    assert PAGE.read_text(encoding="utf-8") == render()


def _demo(candidate: str):
    demo = ROOT / "fixtures" / "demo"
    return tracediff.compare(demo / "graph_a/graph_a1.sqlite.xz", demo / f"{candidate}.sqlite.xz").result


def test_what_the_comparison_with_other_tools_says_of_this_one():
    """docs/comparison.md states these: one program against itself, garbage collection, two GEMMs fused."""
    assert _demo("graph_a/graph_a3").verdict == "inconclusive"
    collecting = _demo("graph_gc/graph_gc")
    first = collecting.findings[0]
    assert (collecting.verdict, first.cause, first.where.range) == ("likely_regressed", "gc", "_schedule")
    assert round((first.delta_ns + sum(one.delta_ns for one in first.phases)) / 1e6, 1) == 13.2
    (row,) = [
        one
        for one in _demo("graph_fused/graph_fused_1").kernels
        if one.match == "fused" and round(one.baseline.count_per_step) == 16
    ]
    assert round(row.candidate.count_per_step) == 8 and round(row.delta_ns / 1e3) == -20
