"""The commands that the pages of docs/ mark as runnable do run, and docs/cli.md is current.

A block that begins with ```sh run is run line by line from a folder with `fixtures` in it; ```sh run exit=4 says what each of its
lines exits with. A line that ends in a backslash goes on in the next one.
"""

from __future__ import annotations

import contextlib
import re
import shlex

import pytest

import tracediff
from docs.make_cli import PAGE, render
from tests.tiny import ROOT
from tracediff.cli.main import main

# Exit status, commands, and what the page says that they print, if it says so: lines of it, with ... for others.
_BLOCK = re.compile(
    r"^```sh run(?: exit=(\d+))?\n(.*?)^```$(?:\n^```\n(.*?)^```$)?", re.MULTILINE | re.DOTALL
)
# Page -> how many commands it has at least.
PAGES = {"compare.md": 6, "gate.md": 1, "investigate.md": 11, "record.md": 1, "comparison.md": 4}


def _blocks(page: str) -> list[tuple[int, list[list[str]], list[str]]]:
    """Exit status, commands and quoted lines of each block."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    found = []
    for status, block, quoted in _BLOCK.findall(text):
        lines = block.replace("\\\n", " ").splitlines()
        words = [one for line in lines if (one := shlex.split(line, comments=True))]
        found.append((int(status or 0), words, [line for line in quoted.splitlines() if line.strip("…. ")]))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_the_page_run(page, monkeypatch, capsys, tmp_path):
    (tmp_path / "fixtures").symlink_to(ROOT / "fixtures")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    blocks = _blocks(page)
    assert sum(len(commands) for _, commands, _ in blocks) >= PAGES[page]
    for status, commands, quoted in blocks:
        printed = ""
        for program, *words in commands:
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
            printed += captured.out + captured.err
        assert not [line for line in quoted if line not in printed.splitlines()]


@pytest.mark.slow
def test_the_readme_quotes_what_the_demo_prints_first(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr("sys.argv", ["tracediff", "demo"])
    with contextlib.suppress(SystemExit):
        main()
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    quoted = text.split("What the demo prints first, in a terminal of 120 columns:\n\n```\n")[1].split("```")[
        0
    ]
    assert capsys.readouterr().out.startswith(quoted)


@pytest.mark.slow
@pytest.mark.parametrize(("pair", "cause"), [("gc", "Python GC in _schedule"), ("fused", "fused GEMMs")])
def test_the_other_pairs_of_the_demo_show_other_causes(monkeypatch, capsys, tmp_path, pair, cause):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr("sys.argv", ["tracediff", "demo", "--pair", pair])
    with contextlib.suppress(SystemExit):
        main()
    assert cause in capsys.readouterr().out.splitlines()[1]


def test_the_page_of_the_command_line_is_current():
    """To update it: python docs/make_cli.py."""
    assert PAGE.read_text(encoding="utf-8") == render()


def _pair(candidate: str):
    pairs = ROOT / "fixtures" / "pairs"
    return tracediff.compare(pairs / "base_1.sqlite.xz", pairs / f"{candidate}_1.sqlite.xz").result


@pytest.mark.slow
def test_what_the_comparison_with_other_tools_says_of_this_one():
    """docs/comparison.md states these of one capture a side: work in _schedule, a held GIL, two GEMMs fused."""
    work = _pair("work95")
    first = work.findings[0]
    assert (work.verdict, first.cause, first.where.range) == ("likely_regressed", "host_work", "_schedule")
    assert round(first.delta_ns / 1e3, 1) == 95.5 and round(work.headline.delta_ns / 1e3, 1) == 76.9
    held = _pair("hog300")
    assert (held.verdict, held.findings[0].cause) == ("likely_regressed", "gil_wait")
    assert round(held.headline.delta_ns / 1e3) == 341 and round(held.findings[0].delta_ns / 1e3) == 323
    fused = _pair("fused")
    assert fused.verdict == "inconclusive"
    (row,) = [
        one for one in fused.kernels if one.match == "fused" and round(one.baseline.count_per_step) == 16
    ]
    assert round(row.candidate.count_per_step) == 8 and round(row.delta_ns / 1e3) == -21
