"""What reading a hostile name costs: work that grows with its length, and no faster.

Python's own work is counted, not timed: lines run on an input of n and of 4n characters. What regular
expressions do inside is not seen by that, so those are read: no unbounded repeat may hold another.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

from tests.line_count import lines_run
from tracediff.kernels import categories as kernel_categories
from tracediff.kernels import myelin
from tracediff.kernels import names as kernel_names
from tracediff.kernels import names as kernel_syntax
from tracediff.kernels.names import family, normalise, short

FUNCTIONS: list[Callable[[str], object]] = [
    normalise, short, family, kernel_categories.category, kernel_categories.is_communication,
    myelin.decode, myelin.describe, myelin.layer_set,
]  # fmt: skip
REPEATED = [
    "<", "(", ">", "a<", "f<(", "&(", "_", "a_", "::", "a::", "S", "_Z", "1a", "_ZN", "I1", "Ab", "0", "x1",
    "[)", "PWN(", "+", "kernel1", "bf16", "(Unnamed Layer* ", "C<1>, ", "operator<", "norm", " ", "\x00",
]  # fmt: skip
STARTS = ("", "at::native::f<", "__myl_", "nvjet_", "triton_poi_", "_ZN2at", "fmhaSm1", "kernel_cutlass_")


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_work_grows_linearly(function: Callable[[str], object]) -> None:
    for start in STARTS:
        for piece in REPEATED:
            small, large = ((start + piece * n)[:n] for n in (500, 2000))
            assert lines_run(function, large)[0] <= 4.5 * lines_run(function, small)[0] + 200, (start, piece)


def patterns_of(module: ModuleType) -> Iterator[re.Pattern[str]]:
    """Every pattern a module's globals hold, in tuples too."""
    todo: list[object] = list(vars(module).values())
    while todo:
        value = todo.pop()
        if isinstance(value, re.Pattern):
            yield value
        elif isinstance(value, tuple):
            todo.extend(value)


def has_nested_repeat(node: Any, inside: bool = False) -> bool:
    if isinstance(node, re._parser.SubPattern | list | tuple):  # type: ignore[attr-defined]
        items = list(node)
        if len(items) == 2 and str(items[0]) in ("MAX_REPEAT", "MIN_REPEAT"):
            _, high, body = items[1]
            unbounded = str(high) == "MAXREPEAT"
            return (inside and unbounded) or has_nested_repeat(body, inside or unbounded)
        return any(has_nested_repeat(item, inside) for item in items)
    return False


def test_no_pattern_can_backtrack_without_bound() -> None:
    assert has_nested_repeat(re._parser.parse("(?:x|(?:ab*)+)"))  # type: ignore[attr-defined]
    nested = {
        p.pattern
        for module in (kernel_syntax, kernel_names, kernel_categories, myelin)
        for p in patterns_of(module)
        if has_nested_repeat(re._parser.parse(p.pattern))  # type: ignore[attr-defined]
    }
    # `(\w+::)*` and `(_+word)*` cannot match one text in two ways, and see at most RULE_CHARS characters.
    assert all(r"(?:\w+::)*" in p or p.startswith(r"\A_*") for p in nested), nested


@pytest.mark.parametrize("piece", ["<", "a<(", "_Z3foo", "__myl_Ab", "a_0", "::", "\x01"])
def test_a_megabyte(piece: str) -> None:
    name = piece * (1_000_000 // len(piece))
    template = normalise(name)
    assert normalise(template) == template
    assert len(short(name)) <= 80
