"""The bundled captures, each reduced once a session, and comparisons of them, each made once."""

from __future__ import annotations

import os

# As the command line sets it, before numpy is imported: the same last digits.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

from functools import cache

import pytest
from hypothesis import settings

from tests.comparing import compare
from tests.tiny import CAPTURES
from tracediff.execution.run import reduce_file
from tracediff.execution.sides import Reading, Run, Side

# Every test reads what it says it reads; tests/execution/test_cache.py sets a folder of its own.
os.environ["TRACEDIFF_CACHE"] = "off"

# How long an example takes says more of the machine than of the program.
settings.register_profile("tracediff", deadline=None)
settings.load_profile("tracediff")


def pytest_addoption(parser):
    parser.addoption("--update-golden", action="store_true", help="write tests/cli/golden/*.txt anew")


@pytest.fixture(scope="session")
def reduction_of():
    """Name of a bundled capture -> its reduction."""
    return cache(lambda name: reduce_file(CAPTURES[name], Reading()))


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
