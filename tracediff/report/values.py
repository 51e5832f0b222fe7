"""Tables as data: a file lists the columns of each, and this module makes cells of rows by it.

A column names a kind, which says how a value is written, and a path, which says where in the row it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from tracediff.model.common import ABSENT, SIDES
from tracediff.model.kernels import KernelSide
from tracediff.report import names, palette, units, words
from tracediff.report.amounts import NAMED, PAGE
from tracediff.report.blocks import EMPTY, Cell, Head, Line, Part, Row, Table
from tracediff.report.causes import place_name
from tracediff.report.escape import shorten

Value = Callable[[Any, "Context"], Any]
_SHARED = {"ns", "times", "signed", "delta", "interval"}  # kinds of times on the scale of the whole table
_SURE = {"level", "verdict"}  # kinds that say how sure a row is
_LEFT = {"verdict", "name", "text", "plain", "list", "cause", "category", "meaning", "opens", "match", "pair", "status", "level", "yes", "said", "bars"}  # fmt: skip
_LOOKS = {"cause": "cause", "category": "cause", "meaning": "what", "pair": "name between", "match": "match", "interval": "ci",
          "name": "name", "opens": "name", "list": "name", "said": "said", "bars": "twin"}  # fmt: skip
_BLANK = Cell()


class Column(msgspec.Struct, frozen=True):
    """A column as it is listed. paths: one, or those of both sides; joins: it belongs to the column before it."""

    head: str
    kind: str
    paths: tuple[str, ...]
    sides: str = ""  # one | two: where only reports with so many sides have it
    joins: bool = False


class Spec(msgspec.Struct, frozen=True):
    """A table as it is listed; field: of the JSON."""

    name: str
    field: str
    title: str
    columns: tuple[Column, ...]


class Context(msgspec.Struct, frozen=True):
    """What values may look at beside their row. per: what times are per; known: what a section found out of all rows of a table."""

    report: Any
    two: bool
    values: Mapping[str, Value]
    step: str = "step"
    per: str = "per step"
    known: dict[str, Any] = msgspec.field(default_factory=dict)


_COLUMN = re.compile(r"(.+?)\s+(\w+)\s+(\S+)(?:\s+(one|two))?")
_HEADER = re.compile(r"\[([^]=]+?)(?: = ([\w.]+))?\] (.+)")


@cache
def listed(file: Path) -> dict[str, Spec]:
    """The tables of a file by name. Raises ValueError for a line that is none of a table."""
    found: dict[str, Spec] = {}
    columns: dict[str, list[Column]] = {}
    name = ""
    for line in file.read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        if header := _HEADER.fullmatch(line):
            name = header[1]
            found[name] = Spec(name, header[2] or name, header[3], ())
            columns[name] = []
            continue
        column = _COLUMN.fullmatch(line)
        if column is None or not name or column[2] not in KINDS:
            raise ValueError(line)
        head, kind, path, sides = column.groups()
        columns[name].append(
            Column(
                head.removeprefix("+"), kind, tuple(path.split("|")), sides or "", joins=head.startswith("+")
            )
        )
    return {key: Spec(key, spec.field, spec.title, tuple(columns[key])) for key, spec in found.items()}


def value(row: Any, path: str, context: Context) -> Any:
    """What a path leads to: None where a part is not known, ABSENT where the report has no such side."""
    if path.startswith("="):
        return context.values[path[1:]](row, context)
    if ".." in path:
        return tuple(value(row, part, context) for part in path.split(".."))
    for part in path.split("."):
        if row is None or row is ABSENT:
            return row
        row = getattr(row, part)
    return row


def table(
    spec: Spec,
    rows: Sequence[Any],
    context: Context,
    limit: int,
    *,
    title: str = "",
    ordered: bool = False,
    scale: units.Scale | None = None,
    ids: Callable[[Any], str] = lambda row: "",
    **settings: Any,
) -> Table:
    """The first rows of a table. ordered: by the size of what they changed by; ids: their anchors.

    scale: of its times, else that of the largest; settings: as those of `Table`.
    """
    shown = rows[:limit]
    columns = [
        _Filled(one, shown, context)
        for one in spec.columns
        if one.sides in ("", "two" if context.two else "one")
    ]
    columns = [one for one in columns if one.holds]
    scale = scale or units.scale_for(
        [ns for one in columns if one.column.kind in _SHARED for ns in one.numbers if ns is not None]
    )
    levels = any(one.column.kind in _SURE for one in columns)
    heads: list[Head] = []
    cells: list[list[Cell]] = [[] for _ in shown]
    said = {"per": context.per, "step": context.step}
    group = ""
    for one in columns:
        group = group if one.column.joins else _worded(one.column.head, said)
        more, parts = one.written(scale, [_level(row) if levels else None for row in shown], group, said)
        heads += more
        for row, part in zip(cells, parts, strict=True):
            row += part
    if ordered:
        heads = [replace(head, sorted=head.part == "delta") for head in heads]
    return Table(
        spec.name,
        _worded(title or spec.title, said),
        heads,
        [
            Row(row, ids(of), (_level(of) or "untested") if levels else "")
            for row, of in zip(cells, shown, strict=True)
        ],
        scale.unit,
        spec.field,
        len(rows) - len(shown),
        **settings,
    )


def _worded(text: str, said: Mapping[str, str]) -> str:
    """The text with its words; the unit stays open."""
    return text.replace("{per}", said["per"]).replace("{step}", said["step"])


def _level(row: Any) -> Any:
    """How sure a row is; None where it was not tested."""
    level = getattr(row, "level", None)
    return None if level is None or level is ABSENT else words.tested_level(row)


class _Filled:
    """A column with the values of its rows."""

    def __init__(self, column: Column, rows: Sequence[Any], context: Context) -> None:
        self.column = column
        self.rows = rows
        sides = [[value(row, path, context) for row in rows] for path in column.paths]
        if column.kind == "launched":  # what a side does not have was launched no time there
            sides = [[0.0 if item is None else item for item in one] for one in sides]
        self.sides = [one for one in sides if any(item is not ABSENT for item in one)] or sides[:1]
        if not context.two:
            self.sides = self.sides[:1]

    @property
    def holds(self) -> bool:
        """Whether any row has a value that is known."""
        return any(_says(item) and item != "?" for side in self.sides for item in side)

    @property
    def numbers(self) -> list[float | None]:
        """Its figures."""
        flat = [
            part
            for side in self.sides
            for item in side
            for part in (item if isinstance(item, tuple) else (item,))
        ]
        return [part if isinstance(part, int | float) else None for part in flat]

    def written(
        self, scale: units.Scale, levels: Sequence[Any], group: str, said: Mapping[str, str]
    ) -> tuple[list[Head], list[list[Cell]]]:
        """Its heads, and of each row the cells."""
        kind, both = self.column.kind, len(self.sides) == 2
        if kind not in _SHARED:
            scale = units.scale_for(self.numbers) if kind in ("each", "spread") else scale
        right, look = kind not in _LEFT, _LOOKS.get(kind, "")
        text, write = _worded(self.column.head, said), WRITERS[kind]
        if not both:
            part: Part = "delta" if self.column.joins else ""
            head = Head(text, scale.unit, group if self.column.joins else "", part, right, look=look)
            return [head], [
                [_cell(write, item, _own(kind, scale, item), row)]
                for item, row in zip(self.sides[0], self.rows, strict=True)
            ]
        heads = [Head("", scale.unit, group, side, right, look=look) for side in SIDES]
        cells = [
            [
                _cell(
                    write, item, _own(kind, scale, *items), row, EMPTY if any(map(_says, items)) else _BLANK
                )
                for item in items
            ]
            for *items, row in zip(*self.sides, self.rows, strict=True)
        ]
        if kind == "times":
            heads += [Head("", scale.unit, group, "delta", True), Head("", "", "", "change", True)]
            for place, row in enumerate(self.rows):
                before, after = (side[place] for side in self.sides)
                cells[place] += difference(
                    before, after, _delta(row, before, after), scale, levels[place], of_both=_of_both(row)
                )
        return heads, cells


def _own(kind: str, scale: units.Scale, *items: Any) -> units.Scale:
    """The scale of a row: its own for times that have their unit beside them, the same on both sides."""
    return (
        units.scale_for([one for one in items if isinstance(one, int | float)]) if kind == "time" else scale
    )


def _says(item: Any) -> bool:
    if isinstance(item, tuple):
        return any(_says(part) for part in item)
    return item is not None and item is not ABSENT and item != "" and item != []


def _delta(row: Any, before: Any, after: Any) -> float | None:
    """The difference that the row has, else that of both sides."""
    own = getattr(row, "delta_ns", ABSENT)
    if own is not ABSENT:
        return own  # type: ignore[no-any-return]
    known = isinstance(before, int | float) and isinstance(after, int | float)
    return after - before if known else None


def _of_both(row: Any) -> bool:
    """Whether both sides have what the row is of, in these steps or in others."""
    return all(isinstance(getattr(row, side, None), KernelSide) for side in ("baseline", "candidate"))


def difference(
    before: Any,
    after: Any,
    delta: float | None,
    scale: units.Scale,
    level: Any = None,
    *,
    of_both: bool = False,
) -> list[Cell]:
    """A difference: its size, and what part of the baseline it is; `of_both`: what one side has none of is neither new nor gone."""
    if delta is None:
        return [EMPTY, Cell(tone="nil")]
    base = before if isinstance(before, int | float) else 0.0
    percent, word = units.change(delta, base) or ("" if of_both or base else "new"), units.word(delta)
    if level == "within_noise":
        percent, word = units.NOISE, "within noise"
    elif not after and not of_both:
        percent = "gone"
    change = Cell(percent, 100 * delta / base if base else "", title=word)
    return [Cell(scale.signed(delta), delta, tone(delta, level)), change if delta else Cell()]


def tone(delta: float, level: Any = None, ends: tuple[float, float] | None = None) -> Any:
    """The colour of a difference: none within noise or of an interval that holds 0, plain ink where it was not tested."""
    return (
        "noise"
        if level == "within_noise" or not delta or (ends and ends[0] <= 0 <= ends[1])
        else "untested"
        if level is None
        else "slower"
        if delta > 0
        else "faster"
    )


def _cell(
    write: Callable[[Any, units.Scale, Any], Cell],
    item: Any,
    scale: units.Scale,
    row: Any,
    empty: Cell = _BLANK,
) -> Cell:
    """A cell; `empty` where there is no value: a dash stands for what the other side alone has."""
    if isinstance(item, Cell):
        return item
    if not _says(item):
        return empty
    return write(item, scale, row)


# How a value of each kind is written; a text stands for a figure that is not known.


def _figure(write: Callable[[float, units.Scale], str]) -> Callable[[Any, units.Scale, Any], Cell]:
    def cell(item: Any, scale: units.Scale, row: Any) -> Cell:
        return Cell(item, tone="nil") if isinstance(item, str) else Cell(write(item, scale), item)

    return cell


def number(value: float) -> str:
    """A number of no known unit: whole ones in full."""
    return f"{value:,.0f}" if value == round(value) and abs(value) < 2**53 else f"{value:,.6g}"


def _rate(unit: float, name: str) -> Callable[[float, units.Scale], str]:
    return lambda item, scale: f"{units.three_digits(item / unit)} {name}"


def _match(item: str, scale: units.Scale, row: Any) -> Cell:
    sure = row.confidence >= 1 or item in ("added", "removed")  # which nothing matches
    return Cell(item, small="" if sure else f"{row.confidence:.2f}", title=f"confidence {row.confidence:.2f}")


def _list(item: Sequence[str | int], scale: units.Scale, row: Any) -> Cell:
    more = len(item) - NAMED
    listed = ", ".join(shorten(str(one), 48) for one in item[:NAMED])
    if more <= 0:
        return Cell(listed, code=True)
    rest = Cell(", ".join(map(str, item[NAMED : PAGE + NAMED])), code=True)
    return Cell(listed, code=True, small=f"and {more} more", more=[Line([rest])])


def _level_cell(item: Any, scale: units.Scale, row: Any) -> Cell:
    same = item == "within_noise" and getattr(row, "delta_ns", None) == 0
    ends = [getattr(row, end, None) or 0.0 for end in ("ci_low_ns", "ci_high_ns")]
    if not same and words.tested_level(row) is None:
        return Cell("not tested")
    word, meaning = words.UNCHANGED if same else words.level_words(item, *ends)
    return Cell(word, title=meaning, mark=f"lv lv-{item}")


def _spread(item: Any, scale: units.Scale, row: Any) -> Cell:
    about = "" if item.sd_ns is None else f" ± {scale.number(item.sd_ns)}"
    return Cell(f"{scale.number(item.mean_ns)}{about}", item.mean_ns)


def _pair(item: tuple[str, str], scale: units.Scale, row: Any) -> Cell:
    before, after = (names.short(one) for one in item)
    return Cell(f"{shorten(before, 44)} -> {shorten(after, 44)}", code=True, title=f"{shorten(before, 160)} -> {shorten(after, 160)}")  # fmt: skip


def _interval(item: tuple[float, float], scale: units.Scale, row: Any) -> Cell:
    return Cell(scale.span(*item)) if None not in item else EMPTY


def _named(text: Callable[[str], str]) -> Callable[[Any, units.Scale, Any], Cell]:
    return lambda item, scale, row: Cell(text(item), swatch=item)


WRITERS: dict[str, Callable[[Any, units.Scale, Any], Cell]] = {
    "name": lambda item, scale, row: Cell(place_name(item), code=True),
    **dict.fromkeys(("text", "figure", "said", "opens", "meaning", "verdict"), lambda item, scale, row: Cell(str(item))),
    "plain": lambda item, scale, row: Cell(item.replace("_", " "), tone="nil" if item == "not_captured" else ""),
    "bars": lambda item, scale, row: Cell(bars=item),
    "list": _list,
    "cause": _named(words.cause),
    "category": _named(lambda key: palette.category(key).label),
    "match": _match,
    "pair": _pair,
    "status": lambda item, scale, row: Cell(item, mark=f"st st-{item}"),
    "level": _level_cell,
    "yes": lambda item, scale, row: Cell("yes" if item else "no"),
    "spread": _spread,
    "interval": _interval,
    **dict.fromkeys(("ns", "each", "times"), _figure(lambda item, scale: scale.number(item))),
    "delta": lambda item, scale, row: Cell(scale.signed(item), item, tone(item, row.level, (row.ci_low_ns, row.ci_high_ns))),
    "signed": _figure(lambda item, scale: scale.signed(item)),
    "time": _figure(lambda item, scale: scale.time(item)),
    "millis": _figure(lambda item, scale: f"{item / 1e6:,.3f}"),
    **dict.fromkeys(("count", "launched"), _figure(lambda item, scale: units.count(item))),
    "int": _figure(lambda item, scale: f"{item:,}"),
    "number": _figure(lambda item, scale: number(item)),
    "size": _figure(lambda item, scale: units.size(round(item))),
    "share": _figure(lambda item, scale: units.share(item)),
    "ratio": _figure(lambda item, scale: f"{item:.2f}"),
    "change": _figure(lambda item, scale: units.percent(item - 1, 1)),
    "flops": _figure(_rate(1e12, "TFLOP/s")),
    "rate": _figure(_rate(1e9, "GB/s")),
}  # fmt: skip
KINDS = set(WRITERS)
