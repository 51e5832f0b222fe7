"""The registry of kinds of reports: every name in it is there, and nothing that is saved is missing."""

from __future__ import annotations

import inspect
from typing import get_args, get_type_hints

import pytest

from tracediff.cli.outputs import ALONE, BY_NAME, COMPARISON, Kind, named, version


@pytest.mark.parametrize("kind", BY_NAME.values(), ids=lambda kind: kind.name or "comparison")
def test_every_name_of_a_kind_is_there(kind: Kind) -> None:
    for renderer in (*kind.renderers.values(), kind.terminal):
        parameters = inspect.signature(named(renderer)).parameters
        if kind.cut and renderer in (kind.renderers["md"], kind.terminal):
            assert "top" in parameters, renderer
    assert version(kind) == {"": 3, "show": 2, "history": 2}.get(kind.name, 1)


@pytest.mark.parametrize("kind", ALONE, ids=lambda kind: kind.name)
def test_what_is_saved_says_its_kind(kind: Kind) -> None:
    assert get_args(get_type_hints(named(kind.struct))["kind"]) == (kind.name,)


def test_a_comparison_says_none() -> None:
    assert "kind" not in get_type_hints(named(COMPARISON.struct))
