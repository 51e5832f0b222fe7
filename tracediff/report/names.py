"""Kernel names for people: C++ signatures shortened to what tells them apart, rows named from both sides."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from tracediff.model import KernelRow, KernelSide
from tracediff.report import units
from tracediff.report.amounts import NAMED
from tracediff.report.blocks import Cell
from tracediff.report.escape import shorten

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_NAME = re.compile(r"[A-Za-z_]\w{2,}")  # a letter or two alone are no name
_TELLING = re.compile(
    r"(?i)\w*(?:functor|kernel|_op|softmax|norm|reduce)\w*|bf16|bfloat16|half|float8\w*|fp8\w*|e4m3|e5m2"
)
_RETURNS = re.compile(r"^(?:void|std::enable_if<.*?>::type) ")
_UNNAMED = re.compile(r"(?:<unnamed>|\(anonymous namespace\)|\{anonymous\})::")
LONG = 112  # letters of a name in a table
_LEAST = 16  # letters of a name, beside which there is room for what tells it apart
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
    text = without_arguments(_RETURNS.sub("", _UNNAMED.sub("", name)).strip())
    head, angle, rest = text.partition("<")
    scope, _, base = head.strip().rpartition("::")
    if not _NAME.fullmatch(base):
        return name
    if base == "kernel" and scope:  # says something only with what it is of
        base = f"{scope.rpartition('::')[2]}::{base}"
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


class Name(msgspec.Struct, frozen=True):
    """A row's name: of both sides the same, or of each its own. apart: what else tells it from others, ` [64,1,1]`."""

    sides: tuple[str, ...]
    apart: str = ""

    def text(self, width: int | None = None) -> str:
        """With an arrow between the sides, each of which is cut so that all fits a width."""
        if width is None:
            return units.arrow(self.sides) + self.apart
        apart = self.apart if width - len(self.apart) >= _LEAST else ""  # the name is worth more
        return cut(self.sides, width - len(apart)) + apart

    def cell(self, width: int) -> Cell:
        """A cell whose text is cut again where there is less room."""
        return Cell(self.text(width), code=True, sides=() if self.apart else self.sides)


def name(*sides: str) -> Name:
    """One name where both sides share it or one lacks it."""
    return Name(tuple(dict.fromkeys(filter(None, sides))))


def cut(sides: Sequence[str], width: int) -> str:
    """Cut a name, or those of both sides, to `width` characters in all."""
    text = units.arrow(sides)
    if len(sides) != 2 or len(text) <= width:
        return shorten(text, width)
    before, after = sides
    room = width - (len(text) - len(before) - len(after))
    left = max(room // 2, room - len(after)) if len(before) >= len(after) else min(room // 2, len(before))
    return units.arrow((shorten(before, left), shorten(after, room - min(left, len(before)))))


def _one_side(side: KernelSide | None, shortened: bool, first: bool = False) -> str:
    """The kernels of a side; `first`: one of them, and how many more."""
    names = counted(short(one) if shortened else one for one in side.names) if side else []
    return " + ".join([names[0], f"{len(names) - 1} more"] if first and len(names) > 1 else names)


def kernel(row: KernelRow, shortened: bool = True, width: int | None = None) -> str:
    """Name a kernel row: one name where both sides share it, else both with an arrow. Beyond `width` of several kernels the first, and both cut."""
    return _kernel(row, shortened, width).text(width)


def _kernel(row: KernelRow, shortened: bool, width: int | None) -> Name:
    before, after = _one_side(row.baseline, shortened), _one_side(row.candidate, shortened)
    if before == after and shortened and row.match not in ("exact", "name"):
        full = _one_side(row.baseline, False), _one_side(row.candidate, False)
        if apart := _apart(*full):
            return Name((before,), apart)
        before, after, shortened = *full, False
    if width is not None and len(name(before, after).text()) > width:
        before, after = (_one_side(side, shortened, first=True) for side in (row.baseline, row.candidate))
    return name(before, after)


def _apart(before: str, after: str) -> str:
    """` [512 -> 128]`: the words, three at most, that tell apart two names which shorten alike; empty where their words do not pair."""
    one, other = (re.findall(r"\w+", text) for text in (before, after))
    differ = [pair for pair in zip(one, other, strict=False) if pair[0] != pair[1]]
    if len(one) != len(other) or not 0 < len(differ) <= NAMED:
        return ""
    return f" [{' -> '.join(', '.join(words) for words in zip(*differ, strict=True))}]"


def kernels(rows: Sequence[KernelRow], width: int, others: Sequence[KernelRow] = ()) -> list[Name]:
    """Name the rows of a table; those that would look alike (NCCL's, GEMMs by shape) with the grids that they were launched with.

    So are new ones and ones that are gone where a row that is not listed, of `others`, looks alike: the name alone is not new.
    """
    said = [_kernel(row, True, width) for row in rows]
    texts = [one.text(width) for one in said]
    new = [not (row.baseline and row.candidate) for row in rows]
    listed = Counter(texts)
    elsewhere = {kernel(row, width=width) for row in others} if any(new) else set()
    return [
        _with_grids(row, one) if listed[text] > 1 or (alone and text in elsewhere) else one
        for row, one, text, alone in zip(rows, said, texts, new, strict=True)
    ]


def _with_grids(row: KernelRow, name: Name) -> Name:
    said = [grids(side) for side in (row.baseline, row.candidate) if side and side.grids]
    if len(said) == len(name.sides) == 2:  # each name with its own
        return Name(tuple(f"{one} [{grid}]" for one, grid in zip(name.sides, said, strict=True)))
    return Name(name.sides, f" [{units.arrow(said)}]" if said else "")


def grids(side: KernelSide) -> str:
    """`64,1,1`; of several the first: `64,1,1 ...`."""
    return side.grids[0] + (" ..." if len(side.grids) > 1 else "")
