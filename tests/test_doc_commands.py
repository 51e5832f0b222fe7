"""The commands that docs/tutorial.md and docs/recipes.md mark as runnable do run, and docs/cli.md is current.

A block that begins with ```sh run is run line by line from a folder with `fixtures` in it; ```sh run exit=4 says what each of its
lines exits with. A line that ends in a backslash goes on in the next one.
"""

from __future__ import annotations

import re
import shlex

import pytest

from docs.make_cli import PAGE, render
from tests.tiny import ROOT
from tracediff.cli.main import main

_BLOCK = re.compile(r"^```sh run(?: exit=(\d+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = ("tutorial.md", "recipes.md")


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
    assert len(commands) >= 5
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
        assert captured.out or captured.err, shlex.join(words)


def test_the_page_of_the_command_line_is_current():
    """To update it: python docs/make_cli.py."""
    assert PAGE.read_text(encoding="utf-8") == render()
