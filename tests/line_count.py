"""How many lines of Python a call runs: what a count says is the same on every machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

Made = TypeVar("Made")


def lines_run(function: Callable[..., Made], *words: Any) -> tuple[int, Made]:
    """Lines run by `function(*words)`, and what it gave."""
    count = 0

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        made = function(*words)
    finally:
        sys.settrace(before)
    return count, made
