"""The bundled captures as tables, each filled once a session."""

from __future__ import annotations

from functools import cache

import pytest

from tests.tiny import CAPTURES
from tracediff.formats.inputs import resolve
from tracediff.query.tables import Tables


@pytest.fixture(scope="session")
def tables_of():
    """Names of bundled captures (one, or baseline and candidate) -> their tables."""
    opened = []

    @cache
    def tables(*names):
        opened.append(Tables([resolve(str(CAPTURES[name])) for name in names]))
        return opened[-1]

    yield tables
    for one in opened:
        one.close()


@pytest.fixture
def ask(tables_of):
    """The rows of a query, on a bundled capture or two."""

    def rows(text, *names):
        (answer,) = tables_of(*names).run(text)
        return answer.frame

    return rows
