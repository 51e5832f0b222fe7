"""Kernel names for people: C++ signatures shortened to what tells them apart, rows named from both sides."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from tracediff.model import KernelRow, KernelSide
from tracediff.report import units
from tracediff.report.amounts import NAMED
from tracediff.report.escape import shorten
from tracediff.report.grammar import say

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_NAME = re.compile(r"[A-Za-z_]\w{2,}")  # a letter or two alone are no name
_TELLING = re.compile(
    r"(?i)\w*(?:functor|kernel|_op|softmax|norm|reduce)\w*|bf16|bfloat16|half|float8\w*|fp8\w*|e4m3|e5m2"
)
_UNNAMED = re.compile(r"(?:<unnamed>|\(anonymous namespace\)|\{anonymous\})::")
_PLUMBING = ("gpu_kernel_impl", "gpu_kernel_impl_nocast")


def without_arguments(name: str) -> str:
    """Drop the argument list at the end: `f<g(int)>(char *)` -> `f<g(int)>`."""
    if not name.endswith(")"):
        return name
    depth = 0
    for at in range(len(name) - 1, 0, -1):
        depth += {")": 1, "(": -1}.get(name[at], 0)
        if depth == 0:
            return name[:at]
    return name


def short(name: str) -> str:
    """Shorten a C++ signature to its name and the telling template arguments; others stay as they are."""
    if "::" not in name and not name.startswith("void "):
        plain = without_arguments(name)
        return plain if _NAME.fullmatch(plain) else name
    text = without_arguments(_UNNAMED.sub("", name).removeprefix("void ").strip())
    head, angle, rest = text.partition("<")
    base = head.rsplit("::", 1)[-1].strip()
    if not _NAME.fullmatch(base):
        return name
    if not angle:
        return base
    words = [match.group() for match in _IDENTIFIER.finditer(rest)]
    telling = list(
        dict.fromkeys(word for word in words if _TELLING.fullmatch(word) and word not in (base, *_PLUMBING))
    )
    numbers = re.findall(r"(?<![\w.])\d+(?![\w.])", rest.split("::", 1)[0])
    inner = telling[:3] or numbers[:3] or words[:1]
    return f"{base}<{', '.join(inner)}>" if inner else base


def counted(names: Iterable[str]) -> list[str]:
    """Each name once, with how often it is there: `add`, `2 x mul`."""
    return [name if count == 1 else f"{count} x {name}" for name, count in Counter(names).items()]


def some(names: Sequence[str], most: int = NAMED) -> str:
    """The first names, and how many more there are: `add, mul, cast and 3 more`."""
    shown = ", ".join(names[:most])
    return say("and_more", names=shown, count=f"{len(names) - most}") if len(names) > most else shown


def both(before: str, after: str, width: int | None = None) -> str:
    """One name where both sides share it or one lacks it, else both with an arrow; cut to a width."""
    text = units.arrow(filter(None, (before, after)))
    return text if width is None else cut(text, width)


def _one_side(side: KernelSide | None, shortened: bool, first: bool = False) -> str:
    """The kernels of a side; `first`: one of them, and how many more."""
    names = counted(short(name) if shortened else name for name in side.names) if side else []
    return " + ".join([names[0], f"{len(names) - 1} more"] if first and len(names) > 1 else names)


def kernel(row: KernelRow, shortened: bool = True, width: int | None = None) -> str:
    """Name a kernel row: one name where both sides share it, else both with an arrow. Beyond `width` of several kernels the first, and both cut."""
    before, after = _one_side(row.baseline, shortened), _one_side(row.candidate, shortened)
    if before == after and shortened and row.match not in ("exact", "name"):
        full = _one_side(row.baseline, False), _one_side(row.candidate, False)
        if apart := _apart(*full):
            return cut(before, width - len(apart)) + apart if width else before + apart
        before, after, shortened = *full, False
    if width is not None and len(both(before, after)) > width:
        before, after = (_one_side(side, shortened, first=True) for side in (row.baseline, row.candidate))
    return both(before, after, width)


def _apart(before: str, after: str) -> str:
    """` [512 -> 128]`: the words, three at most, that tell apart two names which shorten alike; empty where their words do not pair."""
    one, other = (re.findall(r"\w+", text) for text in (before, after))
    differ = [pair for pair in zip(one, other, strict=False) if pair[0] != pair[1]]
    if len(one) != len(other) or not 0 < len(differ) <= NAMED:
        return ""
    return f" [{' -> '.join(', '.join(words) for words in zip(*differ, strict=True))}]"


def cut(text: str, width: int) -> str:
    """Cut a name to `width` characters; of `before -> after` both."""
    before, arrow, after = text.partition(" -> ")
    if not arrow or len(text) <= width:
        return shorten(text, width)
    room = width - len(arrow)
    left = max(room // 2, room - len(after)) if len(before) >= len(after) else min(room // 2, len(before))
    return f"{shorten(before, left)}{arrow}{shorten(after, room - min(left, len(before)))}"


def kernels(rows: Sequence[KernelRow], width: int | None = None) -> list[str]:
    """Name the rows of a table; those that would look alike (NCCL's, GEMMs by shape) with the grids that they were launched with."""
    said = [kernel(row, width=width) for row in rows]
    many = Counter(said)
    return [_with_grids(row, width) if many[text] > 1 else text for row, text in zip(rows, said, strict=True)]


def _with_grids(row: KernelRow, width: int | None) -> str:
    sides = [_grids(side) for side in (row.baseline, row.candidate) if side and side.grids]
    before, arrow, after = kernel(row).partition(" -> ")
    if len(sides) == 2 and arrow and "[" not in before:  # each name with its own
        text = f"{before} [{sides[0]}] -> {after} [{sides[1]}]"
        return text if width is None else cut(text, width)
    shape = f" [{' -> '.join(dict.fromkeys(sides))}]" if sides else ""
    room = None if width is None else width - len(shape)
    if width is not None and 3 * len(shape) > width:  # the name is worth more
        return kernel(row, width=width)
    return kernel(row, width=room) + shape


def _grids(side: KernelSide) -> str:
    """`64,1,1`; of several the first: `64,1,1 ...`."""
    return side.grids[0] + (" ..." if len(side.grids) > 1 else "")
