"""Reports of sides with their sentences, as the command line gives them."""

from __future__ import annotations

from tracediff.comparison import compare as core
from tracediff.comparison import show as one_side
from tracediff.model import Result
from tracediff.model.show import Show
from tracediff.report.phrases import with_titles, with_words


def compare(*arguments, **options) -> Result:
    return with_words(core.compare(*arguments, **options))


def show(*arguments, **options) -> Show:
    return with_titles(one_side.show(*arguments, **options))
