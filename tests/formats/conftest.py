"""Fixtures of the tests of formats."""

from __future__ import annotations

import pytest

from tracediff.formats.capture import load_capture


@pytest.fixture(autouse=True)
def _read(no_cache):
    """Files are read in every test here, for what is read of them is what is tested."""


@pytest.fixture
def capture_of(tmp_path):
    """Load a file and close it after the test."""
    opened = []

    def load(path):
        opened.append(load_capture(path, tmp_path))
        return opened[-1]

    yield load
    for capture in opened:
        capture.close()
