"""Files are read in every test here, for how they are read is what is tested."""

from __future__ import annotations

import pytest

from tests.tiny import read_once
from tracediff.execution import run


@pytest.fixture(autouse=True)
def _read(no_cache):
    """As above."""


@pytest.fixture
def once(monkeypatch):
    """Of a file that was read alike before its reduction is taken: what is done with it is what is tested."""
    monkeypatch.setattr(run, "reduce_file", read_once)
