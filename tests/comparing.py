"""Reports of sides with their sentences, as the command line gives them; that of the same reductions is made once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from tracediff.comparison import compare as core
from tracediff.comparison import show as one_side
from tracediff.execution.sides import Side
from tracediff.model import Result
from tracediff.model.show import Show
from tracediff.report.phrases import with_titles, with_words

MOST = 100  # reports that are kept
_MADE: dict[str, tuple[Any, tuple[object, ...]]] = {}


def compare(*arguments, **options) -> Result:
    return _once(lambda: with_words(core.compare(*arguments, **options)), *arguments, *options.items())


def show(*arguments, **options) -> Show:
    return _once(
        lambda: with_titles(one_side.show(*arguments, **options)), "one", *arguments, *options.items()
    )


def _once(make: Callable[[], Any], *given: object) -> Any:
    key = repr([_known(one) for one in given])
    if key not in _MADE:
        if len(_MADE) == MOST:
            del _MADE[next(iter(_MADE))]
        # what it is made of is kept with it: no other reduction gets the identity of one of its own
        _MADE[key] = make(), given
    return _MADE[key][0]


def _known(one: object) -> object:
    """A side by the identities of its reductions, which are large."""
    if isinstance(one, tuple):
        return tuple(_known(part) for part in one)
    if not isinstance(one, Side):
        return one
    runs = [replace(run, parts=[id(part) for part in run.parts]) for run in one.runs]  # type: ignore[misc]
    return replace(one, runs=runs)
