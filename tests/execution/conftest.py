"""Files are read in every test here, for how they are read is what is tested."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _read(no_cache):
    """As above."""
