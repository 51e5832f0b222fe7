"""What a command imports: nothing that it does not use. Seconds are not tested, for they say how busy the machine is."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.serving import serving
from tests.tiny import ROOT

# Besides what the command line itself needs. The largest take 0.05 to 0.3 s each.
LIBRARIES = ("duckdb", "polars", "numpy", "scipy", "jinja2", "rich", "msgspec")
# Parts of libraries that a comparison without a page does without.
UNUSED = (
    "matplotlib", "jinja2", "rich", "pyarrow", "pandas", "dask", "distributed", "scipy",
)  # fmt: skip
# What a comparison of exports alone does without.
NOT_ASKED_FOR = (
    "tracediff.companions.latencies.read", "tracediff.companions.trtexec.read", "tracediff.companions.bench.compare",
    "tracediff.capture.runner", "tracediff.capture.plan", "tracediff.execution.processes", "multiprocessing",
)  # fmt: skip

_CODE = """
import json, sys
from tracediff.cli.main import main
sys.argv = ["tracediff", *sys.argv[2:]]
try:
    main()
except SystemExit as done:
    assert not done.code, done.code
finally:
    open("loaded.json", "w").write(json.dumps(sorted(sys.modules)))
"""


def loaded(folder, *words) -> set[str]:
    """The modules in memory at the end of a command. A library that DuckDB and polars use where it is there can be found, and does nothing."""
    (folder / "pyarrow").mkdir()
    for name in ("__init__", "dataset"):
        (folder / "pyarrow" / f"{name}.py").touch()
    subprocess.run(
        [sys.executable, "-c", _CODE, "-", *map(str, words)], check=True, cwd=folder, capture_output=True,
        env={"PYTHONPATH": f"{ROOT}:{folder}", "PATH": "/usr/bin:/bin", "HOME": str(folder)},
    )  # fmt: skip
    return set(json.loads((folder / "loaded.json").read_text()))


@pytest.mark.parametrize(
    ("words", "given", "threads"),
    [
        (("compare", "--help"), {}, ["1", "1"]),
        (("compare", "--help"), {"OPENBLAS_NUM_THREADS": "4", "POLARS_MAX_THREADS": "2"}, ["4", "2"]),
        (("capture", "--help"), {}, [None, None]),
    ],
)  # fmt: skip
def test_one_thread_of_blas_and_polars_but_in_what_is_captured(tmp_path, words, given, threads):
    get = "[__import__('os').environ.get(f'{name}_THREADS') for name in ('OPENBLAS_NUM', 'POLARS_MAX')]"
    code = _CODE.replace("sorted(sys.modules)", get)
    env = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path), **given}
    subprocess.run([sys.executable, "-c", code, "-", *words], check=True, cwd=tmp_path, capture_output=True, env=env)  # fmt: skip
    assert json.loads((tmp_path / "loaded.json").read_text()) == threads


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("start")
    pair = [serving(steps=6).write(folder / f"{name}.sqlite") for name in "ab"]
    return loaded(folder, "compare", *pair, "-q")


@pytest.mark.parametrize("words", [("--version",), ("--help",), ("compare", "--help")])
def test_help_imports_no_library(tmp_path, words):
    found = loaded(tmp_path, *words)
    assert "click" in found
    assert set(LIBRARIES) & found == set()


def test_a_comparison_imports_what_it_computes_with(compared):
    assert {"duckdb", "polars", "numpy", "tracediff.stats.noise"} <= compared


def test_a_comparison_imports_nothing_of_pages_and_no_scipy(compared):
    assert set(UNUSED) & compared == set()


def test_a_comparison_of_exports_imports_nothing_that_was_not_asked_for(compared):
    assert set(NOT_ASKED_FOR) & compared == set()
    assert "tracediff.formats.nsys" in compared


@pytest.mark.slow
def test_a_page_says_nothing_of_a_home_that_cannot_be_written(tmp_path):
    """matplotlib warns there that its cache of fonts stands elsewhere, which is no news of a report."""
    done = subprocess.run(
        [sys.executable, "-m", "tracediff", "demo", "-f", "-q", "--html", "page.html"], cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": "/proc/nowhere", "TRACEDIFF_CACHE": str(tmp_path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert "<svg" in (tmp_path / "page.html").read_text(encoding="utf-8")
