"""Every list of the result as a table, for a spreadsheet (CSV) or another program (Parquet).

Columns are the fields of the structs; those of a nested struct are joined with `_` (baseline.ns_per_step ->
baseline_ns_per_step). A list of structs inside a row is a table of its own, whose first column, `row`, is the number of that
row (from 0) in the table it belongs to.
"""

from __future__ import annotations

import io
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import msgspec
import polars as pl

from tracediff.model import (
    FindingFacts,
    GapRow,
    KernelRow,
    RangeRow,
    RankRow,
    Result,
    TimelineLane,
    TimelineStep,
    VerdictFacts,
)
from tracediff.model.show import Show, ShowRank
from tracediff.report import palette, words
from tracediff.report.escape import neutral

Kind = type[Result] | type[Show]
_TEXT, _WHOLE, _NUMBER, _FLAG = pl.String(), pl.Int64(), pl.Float64(), pl.Boolean()
_FORMULA = ("=", "+", "-", "@")  # a spreadsheet computes a cell that begins so
_JOIN = "; "  # between the values of a list in one CSV cell


@dataclass
class _Table:
    """A table being filled: column -> type, and its rows."""

    columns: dict[str, pl.DataType]
    rows: list[dict[str, Any]] = field(default_factory=list)


def names(kind: Kind) -> list[str]:
    """Return the tables' names in their order; the same for every result, or every report of one capture."""
    return list(_layout(kind))


def frames(result: Result | Show) -> dict[str, pl.DataFrame]:
    """Return every table, empty ones with their columns; no control character is left in any text."""
    result = neutral(result)
    tables = _layout(_kind(result))
    for name, struct, rows in _lists(result):
        _fill(tables, name, struct, rows, None)
    summary = tables["summary"]
    for key, value in _scalars(result):
        summary.rows.append({"key": key} | value)
    tables["timeline_events"].rows += _events(result)
    if isinstance(result, Result):
        tables["accounting"].rows += _categories(result)
    return {name: pl.DataFrame(table.rows, table.columns) for name, table in tables.items()}


def _categories(result: Result) -> list[dict[str, Any]]:
    books = result.accounting
    known = books.delta.keys() | books.baseline.keys() | books.candidate.keys()
    return [_category(result, key) for key in palette.order(set(known)) if key in known]


def csv(frame: pl.DataFrame) -> bytes:
    """Write a table as CSV: lists joined, and nothing a spreadsheet would take for a formula."""
    lists = [name for name, kind in frame.schema.items() if isinstance(kind, pl.List)]
    texts = [name for name, kind in frame.schema.items() if kind in (_TEXT, pl.List(_TEXT))]
    flat = frame.with_columns(pl.col(name).cast(pl.List(_TEXT)).list.join(_JOIN) for name in lists)
    harmless = flat.with_columns(
        pl.when(pl.col(name).str.slice(0, 1).is_in(_FORMULA))
        .then("'" + pl.col(name))
        .otherwise(pl.col(name))
        .alias(name)
        for name in texts
    )
    return harmless.write_csv().encode()


def parquet(frame: pl.DataFrame) -> bytes:
    """Write a table as Parquet: types and lists as they are."""
    out = io.BytesIO()
    frame.write_parquet(out, compression="zstd")
    return out.getvalue()


def files(result: Result | Show) -> Iterator[tuple[str, bytes]]:
    """Yield each file's name and content."""
    for name, frame in frames(result).items():
        yield f"{name}.csv", csv(frame)
        yield f"{name}.parquet", parquet(frame)


def file_names(kind: Kind) -> list[str]:
    """Return the names of all files that `files` yields."""
    return [f"{name}.{suffix}" for name in names(kind) for suffix in ("csv", "parquet")]


def _kind(result: Result | Show) -> Kind:
    return type(result)


def _layout(kind: Kind) -> dict[str, _Table]:
    numbers = ("baseline_ns", "candidate_ns", "delta_ns", "ci_low_ns", "ci_high_ns")
    hidden = ("hidden_baseline_ns", "hidden_candidate_ns")
    accounting: dict[str, pl.DataType] = {"category": _TEXT}
    accounting |= dict.fromkeys(numbers, _NUMBER) | {"level": _TEXT} | dict.fromkeys(hidden, _NUMBER)
    tables = {"summary": _Table({"key": _TEXT, "text": _TEXT, "value": _NUMBER})}
    two = issubclass(kind, Result)
    if two:
        tables["accounting"] = _Table(accounting)
    for name, struct in _list_fields(kind, ""):
        _declare(tables, name, struct, child=False)
    side: dict[str, pl.DataType] = {"side": _TEXT} if two else {}
    tables["timeline_events"] = _Table(
        {"row": _WHOLE, **side, "kind": _TEXT, "lane": _TEXT, "start_ns": _WHOLE, "length_ns": _WHOLE}
        | {"what": _TEXT, "group": _TEXT, "count": _WHOLE, "inside_ns": _WHOLE}
    )
    return tables


def _declare(tables: dict[str, _Table], name: str, struct: type[msgspec.Struct], child: bool) -> None:
    columns: dict[str, pl.DataType] = {"row": _WHOLE} if child else {}
    tables[name] = _Table(columns)
    _columns(tables, name, struct, "", columns)


def _columns(
    tables: dict[str, _Table],
    name: str,
    struct: type[msgspec.Struct],
    prefix: str,
    columns: dict[str, pl.DataType],
) -> None:
    hints = _fields(struct)
    for key, hint in hints.items():
        inner = _plain(hint)
        if _is_struct(inner):
            _columns(tables, name, inner, f"{prefix}{key}_", columns)
        elif (item := _item(inner)) is TimelineLane:
            continue  # packed: `timeline_events` holds its events
        elif item is not None and _is_struct(item):
            _declare(tables, f"{name}_{prefix}{key}", item, child=True)
        elif item is not None:
            columns[prefix + key] = pl.List(_type(item))
        else:
            columns[prefix + key] = _type(inner)


def _fill(
    tables: dict[str, _Table], name: str, struct: type[msgspec.Struct], values: list[Any], parent: int | None
) -> None:
    table = tables[name]
    for value in values:
        number = len(table.rows)
        row: dict[str, Any] = {} if parent is None else {"row": parent}
        table.rows.append(row)
        _cells(tables, name, struct, value, "", row, number)


def _cells(
    tables: dict[str, _Table], name: str, struct: type[msgspec.Struct], value: Any, prefix: str,
    row: dict[str, Any], number: int,
) -> None:  # fmt: skip
    for key, hint in _fields(struct).items():
        inner, one = _plain(hint), None if value is None else getattr(value, key)
        if _is_struct(inner):
            _cells(tables, name, inner, one, f"{prefix}{key}_", row, number)
        elif (item := _item(inner)) is TimelineLane:
            continue
        elif item is not None and _is_struct(item):
            _fill(tables, f"{name}_{prefix}{key}", item, one or [], number)
        elif isinstance(one, Mapping) or (isinstance(one, list) and item is None):
            row[prefix + key] = msgspec.json.encode(one).decode()
        else:
            row[prefix + key] = one


def _fields(struct: type[msgspec.Struct]) -> dict[str, Any]:
    """Name -> type; what sentences are written from is no table of its own."""
    hints = typing.get_type_hints(struct)
    return {key: hint for key, hint in hints.items() if hint not in (FindingFacts, VerdictFacts)}


def _list_fields(struct: type[msgspec.Struct], prefix: str) -> Iterator[tuple[str, type[msgspec.Struct]]]:
    """Find the lists of structs of the result, also those one level down (gil.rows -> gil_rows)."""
    for key, hint in _fields(struct).items():
        inner = _plain(hint)
        item = _item(inner)
        if item is not None and _is_struct(item):
            yield prefix + key, item
        elif _is_struct(inner):
            yield from _list_fields(inner, f"{prefix}{key}_")


def _lists(result: Result | Show) -> Iterator[tuple[str, type[msgspec.Struct], list[Any]]]:
    def walk(value: Any, struct: type[msgspec.Struct], prefix: str) -> Iterator[Any]:
        for key, hint in _fields(struct).items():
            inner, one = _plain(hint), None if value is None else getattr(value, key)
            item = _item(inner)
            if item is not None and _is_struct(item):
                yield prefix + key, item, one or []
            elif _is_struct(inner):
                yield from walk(one, inner, f"{prefix}{key}_")

    yield from walk(result, _kind(result), "")


def _scalars(result: Result | Show) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what is said once a result: verdict, step, mix, launch, graphs, coverage, options."""

    def walk(value: Any, key: str) -> Iterator[tuple[str, dict[str, Any]]]:
        if isinstance(value, msgspec.Struct):
            for name in value.__struct_fields__:
                yield from walk(getattr(value, name), f"{key}.{name}" if key else name)
        elif isinstance(value, Mapping):
            for name in sorted(value, key=str):
                yield from walk(value[name], f"{key}.{name}")
        elif isinstance(value, bool | str):
            yield key, {"text": str(value).lower() if isinstance(value, bool) else value}
        elif isinstance(value, int | float):
            yield key, {"value": float(value)}

    for name in result.__struct_fields__:
        if name not in ("accounting", "verdict_facts"):
            yield from walk(getattr(result, name), name)


def _events(result: Result | Show) -> Iterator[dict[str, Any]]:
    """Yield every event of the steps that were kept; `row` counts the rows of `timelines_steps`."""
    if result.timelines is None:
        return
    texts = result.timelines.names
    if isinstance(result, Show):
        for row, shown in enumerate(result.timelines.steps):
            yield from (event | {"row": row} for event in _of_step(shown.step, texts))
        return
    for row, one in enumerate(result.timelines.steps):
        for side, step in (("baseline", one.baseline), ("candidate", one.candidate)):
            yield from (event | {"row": row, "side": side} for event in _of_step(step, texts))


def _of_step(step: TimelineStep | None, texts: list[str]) -> Iterator[dict[str, Any]]:
    for lane in step.lanes if step else ():
        packed = [
            getattr(lane, name).split() for name in ("start", "length", "what", "group", "count", "inside")
        ]
        columns = [[int(value) for value in column] for column in packed]
        empty: list[int | None] = [None] * len(columns[0])
        counts, insides = columns[4] or empty, columns[5] or empty
        for start, length, what, group, count, inside in zip(*columns[:4], counts, insides, strict=True):
            yield {
                "kind": lane.kind, "lane": lane.name, "start_ns": start, "length_ns": length, "what": texts[what],
                "group": texts[group], "count": count, "inside_ns": inside,
            }  # fmt: skip


def _category(result: Result, category: str) -> dict[str, Any]:
    books = result.accounting
    row: dict[str, Any] = {"category": category, "level": books.level.get(category)}
    for name in (
        "baseline",
        "candidate",
        "delta",
        "ci_low",
        "ci_high",
        "hidden_baseline",
        "hidden_candidate",
    ):
        row[f"{name}_ns"] = getattr(books, name).get(category)
    return row


def _plain(hint: Any) -> Any:
    """Drop `| None`."""
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        rest = [part for part in typing.get_args(hint) if part is not type(None)]
        return rest[0] if len(rest) == 1 else hint
    return hint


def _item(hint: Any) -> Any:
    """The type of a list's items; None where it is no list."""
    return _plain(typing.get_args(hint)[0]) if typing.get_origin(hint) is list else None


def _is_struct(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, msgspec.Struct)


def _type(hint: Any) -> pl.DataType:
    return {int: _WHOLE, float: _NUMBER, bool: _FLAG}.get(hint, _TEXT)


# The order of rows in every output, how many are shown, and how many are not.

LIMIT = 500  # rows a table shows at most; the JSON holds the rest
RANKS = 64  # the same of ranks: further ones are like the others
OUTLIER = 3.5  # robust standard deviations from which a rank is called one

Row = TypeVar("Row")


@dataclass(frozen=True)
class Shown(Generic[Row]):
    """The rows that a table shows, and how many it leaves out."""

    rows: Sequence[Row]
    left_out: int
    total: int


def cut(rows: Sequence[Row], limit: int = LIMIT) -> Shown[Row]:
    """Keep the first rows."""
    return Shown(rows[:limit], max(0, len(rows) - limit), len(rows))


def kernel_order(row: KernelRow) -> tuple[float, str, str]:
    """Order kernel rows by the size of their change, then by name."""
    return -abs(row.delta_ns), words.kernel(row, shortened=False), row.match


def gap_order(row: GapRow) -> tuple[float, str, str, str, str, str]:
    """Order gap rows by the size of their change, then by what they are."""
    return -abs(row.delta_ns), row.cause, row.thread, row.range, row.previous, row.next


def range_order(row: RangeRow) -> tuple[float, str, str, str]:
    """Order range rows by the size of their change, then by what they are."""
    return -abs(row.delta_ns), row.range, row.domain, row.thread


def rank_order(row: RankRow | ShowRank) -> tuple[float, int, int]:
    """Order ranks: outliers first, those that are furthest from the others; then by their number."""
    far = abs(row.outlier or 0.0)
    return (-far if far >= OUTLIER else 0.0), row.rank, row.device
