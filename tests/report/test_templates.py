"""Compiled templates are kept as Python keeps its own compiled modules."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tracediff.report.templates import html_environment

NAME = "page.html.j2"


@pytest.fixture
def compiled(tmp_path, monkeypatch):
    """The folder of compiled modules, and how to load a template anew."""
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)

    def load() -> list[Path]:
        html_environment.cache_clear()
        html_environment().get_template(NAME)
        return sorted(tmp_path.rglob("*.cache"))

    yield load
    html_environment.cache_clear()


def test_a_template_is_compiled_once(compiled, tmp_path, monkeypatch):
    import tracediff.report.templates as module

    folder = tmp_path / Path(module.__file__).parent.relative_to("/")
    assert compiled() == []  # no folder of compiled modules: nothing is made for templates alone
    folder.mkdir(parents=True)
    (kept,) = compiled()
    monkeypatch.setattr("jinja2.Environment.compile", lambda *_, **__: pytest.fail("compiled again"))
    assert compiled() == [kept]


def test_what_is_not_whole_is_compiled_again(compiled, tmp_path):
    import tracediff.report.templates as module

    (tmp_path / Path(module.__file__).parent.relative_to("/")).mkdir(parents=True)
    (kept,) = compiled()
    whole = kept.read_bytes()
    kept.write_bytes(whole[:100])
    assert compiled() == [kept] and kept.read_bytes() == whole


def test_nothing_is_kept_where_python_keeps_nothing(compiled, tmp_path, monkeypatch):
    import tracediff.report.templates as module

    (tmp_path / Path(module.__file__).parent.relative_to("/")).mkdir(parents=True)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert compiled() == []
