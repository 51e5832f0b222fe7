"""A command line to call, and an export that it can read."""

from __future__ import annotations

import sys

import pytest

from tests.serving import serving
from tracediff.cli.main import main


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Run the command line in `tmp_path`; returns (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)

    def call(*words) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["tracediff", *map(str, words)])
        try:
            main()
            code = 0
        except SystemExit as done:
            code = done.code if isinstance(done.code, int) else 0 if done.code is None else 1
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture
def good(tmp_path):
    return serving(steps=6).write(tmp_path / "good.sqlite")
