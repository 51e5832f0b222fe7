"""The bundled captures, each reduced once a session, and comparisons of them, each made once."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile

# As the command line sets them, before numpy and polars are imported: the same last digits.
os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS"), "1")

from collections.abc import Sequence
from contextlib import closing, suppress
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings

from tests.comparing import compare
from tests.tiny import CAPTURES, bundled
from tracediff.cli.main import _OBJECTS
from tracediff.execution.sides import Run, Side
from tracediff.formats import schema, untrusted
from tracediff.query import apart

# One cache for a run of tests: workers inherit the folder of the process that starts them. Tests of reading switch it off.
if "PYTEST_XDIST_WORKER" not in os.environ:
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # what is started hundreds of times is compiled once
    _KEPT = tempfile.TemporaryDirectory(prefix="tracediff-tests-")
    os.environ["TRACEDIFF_CACHE"] = _KEPT.name

# How long an example takes says more of the machine than of the program. The same examples each time, so that what fails comes
# of the change at hand; `HYPOTHESIS_PROFILE=look-further` draws new ones.
settings.register_profile("tracediff", deadline=None, derandomize=True, max_examples=50)
settings.register_profile("look-further", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "tracediff"))


# As the command line does; and what the tests themselves are made of stays. A tenth of the time went into looking through all that.
gc.set_threshold(_OBJECTS)


def pytest_collection_finish():
    gc.freeze()


def pytest_addoption(parser):
    parser.addoption("--update-golden", action="store_true", help="write tests/cli/golden/*.txt anew")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Tests of a module stay together, as they share what is read and compared; only who has nothing left takes some of another."""
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log)


# Files that take all that they can, and statements that do. All others need no process of their own, of which there would be thousands.
HOSTILE = (
    "tests/formats/test_untrusted.py", "tests/formats/test_bounds.py", "tests/fuzz/", "tests/query/test_apart.py", "tests/query/test_guard.py", "tests/agents/test_desk.py"
)  # fmt: skip


_ASKED = apart._asked


def _examined_here(path: Path, wanted: Sequence[str]) -> untrusted.Examined:
    """As `untrusted.examine`, in this process where all is well."""
    with suppress(Exception), closing(untrusted.open_export(path)) as db:
        found = untrusted._look(path, db, {name.lower() for name in wanted})
        if not found.problem:
            return found
    return untrusted.examine(path, wanted)


def _answered_here(job: dict, within: apart.Bounds) -> list[bool]:
    """As `apart._asked`, of a copy: DuckDB opens a file in one way only in one process."""
    path = Path(job["folder"]) / "asked.duckdb"
    shutil.copy(job["path"], path)
    return apart._answers(job | {"path": str(path)}, within)


def pytest_runtest_setup(item):
    hostile = item.nodeid.startswith(HOSTILE)
    schema.examine = untrusted.examine if hostile else _examined_here
    apart._asked = _ASKED if hostile else _answered_here


@pytest.fixture
def no_cache(monkeypatch):
    """Files are read, whatever another test kept of their like."""
    monkeypatch.setenv("TRACEDIFF_CACHE", "off")


@pytest.fixture(scope="session")
def reduction_of():
    """Name of a bundled capture -> its reduction."""
    return lambda name: bundled(CAPTURES[name])


@pytest.fixture(scope="session")
def side_of(reduction_of):
    """Names of bundled captures -> a side with one run each."""

    def side(*names: str, label: str = "side") -> Side:
        return Side(label, [Run(name, [reduction_of(name)]) for name in names])

    return side


@pytest.fixture(scope="session")
def compared(side_of):
    """Two names, or tuples of names, of bundled captures -> the result of comparing them."""

    @cache
    def result(baseline, candidate):
        sides = [side_of(*([names] if isinstance(names, str) else names)) for names in (baseline, candidate)]
        return compare(*sides)

    return result
