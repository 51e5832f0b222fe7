"""docs/notebook.ipynb is what its source says, and its outputs are what its code prints."""

from __future__ import annotations

import contextlib
import io
import json
import re
import subprocess
import sys
import warnings

import matplotlib
import polars as pl
import pytest

from docs.make_notebook import NOTEBOOK, SOURCE, cells
from tests.tiny import ROOT


@pytest.fixture(scope="module")
def notebook():
    return json.loads(NOTEBOOK.read_text(encoding="utf-8"))


def printed(cell) -> str:
    return "".join("".join(one["text"]) for one in cell.get("outputs", ()) if one["output_type"] == "stream")


def test_it_is_made_of_its_source(notebook):
    """To make it again: see docs/make_notebook.py."""
    stored = [(one["cell_type"], "".join(one["source"])) for one in notebook["cells"]]
    assert stored == cells(SOURCE.read_text(encoding="utf-8"))


@pytest.mark.slow
def test_it_prints_what_it_shows(notebook, monkeypatch):
    """Every cell, in order, in one namespace, as a notebook runs them; it works from any folder of the checkout."""
    monkeypatch.chdir(ROOT / "docs")
    matplotlib.use("agg")
    space: dict[str, object] = {"__name__": "__main__"}
    checked = 0
    with pl.Config(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*non-interactive.*")
        for cell in notebook["cells"]:
            if cell["cell_type"] != "code":
                continue
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile("".join(cell["source"]), cell["id"], "exec"), space)
            assert out.getvalue() == printed(cell), cell["id"]
            checked += bool(printed(cell))
    assert checked >= 6
    (shown,) = [
        "".join(one["data"]["text/html"]) for cell in notebook["cells"] for one in cell.get("outputs", ())
        if one["output_type"] == "execute_result"
    ]  # fmt: skip
    assert shown == space["comparison"]._repr_html_()


def test_the_figure_is_there(notebook):
    images = [
        one["data"]["image/png"] for cell in notebook["cells"] for one in cell.get("outputs", ())
        if one["output_type"] == "display_data"
    ]  # fmt: skip
    assert len(images) == 1 and images[0].startswith("iVBOR")


def test_it_is_small_and_says_nothing_of_a_machine(notebook):
    text = NOTEBOOK.read_text(encoding="utf-8")
    assert len(text) < 100_000
    assert not re.search(r"/home/|/tmp/|/root/|/work/", text)
    assert not [
        one for cell in notebook["cells"] for one in cell.get("outputs", ()) if one.get("name") == "stderr"
    ]
    assert not [
        one for cell in notebook["cells"] for one in cell.get("outputs", ()) if one["output_type"] == "error"
    ]


def test_captures_are_read_in_jupyter_without_ipywidgets():
    """DuckDB takes a program for Jupyter by these; there it refuses to set its progress bar, even to off."""
    code = """
import sys, types
sys.modules["IPython"] = types.ModuleType("IPython")
sys.modules["IPython"].get_ipython = lambda: types.SimpleNamespace(config={"IPKernelApp": {}})
sys.modules["ipywidgets"] = None
from tracediff.formats.database import connect
print(connect().execute("SELECT current_setting('enable_progress_bar')").fetchone())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert (done.stdout, done.returncode) == ("(False,)\n", 0), done.stderr
