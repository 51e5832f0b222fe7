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
from functools import cache
from typing import Any

import msgspec
import polars as pl

from tracediff.model import (
    Accounting,
    FindingFacts,
    GateFacts,
    Result,
    TimelineLane,
    TimelineStep,
    VerdictFacts,
)
from tracediff.model.common import ABSENT
from tracediff.model.show import Show
from tracediff.report import palette
from tracediff.report.escape import neutral

Kind = type[Result] | type[Show]
INDEX = "index.csv"
_TEXT, _WHOLE, _NUMBER, _FLAG = pl.String(), pl.Int64(), pl.Float64(), pl.Boolean()
# a spreadsheet computes a cell that begins so, also in full width; a runner of CI takes `::` for a command at the start of a line
_FORMULA = r"^(?:[=+\-@\uff1d\uff0b\uff0d\uff20]|::)"
_JOIN = "; "  # between the values of a list in one CSV cell


def names(kind: Kind) -> list[str]:
    """Return the tables' names in their order; the same for every result, or every report of one capture."""
    return list(_tables(None, kind))


def frames(result: Result | Show) -> dict[str, pl.DataFrame]:
    """Return every table, empty ones with their columns; no control character is left in any text."""
    result = neutral(result)
    return _tables(result, type(result))


def _tables(result: Result | Show | None, kind: Kind) -> dict[str, pl.DataFrame]:
    """All tables of a result; None: those of any, without rows."""
    two = issubclass(kind, Result)
    known = {"key": _TEXT, "text": _TEXT, "value": _NUMBER}
    scalars = [{"key": key} | value for key, value in _scalars(result)] if result else []
    found = {"summary": pl.DataFrame(scalars, known)}
    if two:
        found["accounting"] = _accounting(result.accounting if isinstance(result, Result) else None)
    _lists(found, result, kind, "", two)
    side: dict[str, pl.DataType] = {"side": _TEXT} if two else {}
    found["timeline_events"] = pl.DataFrame(
        _events(result) if result else [],
        {"row": _WHOLE, **side, "kind": _TEXT, "lane": _TEXT, "start_ns": _WHOLE, "length_ns": _WHOLE}
        | {"what": _TEXT, "group": _TEXT, "count": _WHOLE, "inside_ns": _WHOLE},
    )
    return found


def csv(frame: pl.DataFrame) -> bytes:
    """Write a table as CSV: lists joined, and nothing a spreadsheet would take for a formula."""
    lists = [name for name, kind in frame.schema.items() if isinstance(kind, pl.List)]
    texts = [name for name, kind in frame.schema.items() if kind in (_TEXT, pl.List(_TEXT))]
    flat = frame.with_columns(pl.col(name).cast(pl.List(_TEXT)).list.join(_JOIN) for name in lists)
    harmless = flat.with_columns(
        pl.when(pl.col(name).str.contains(_FORMULA))
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
    """Yield each file's name and content; of the many tables, `index.csv` says which hold rows."""
    tables = frames(result)
    rows = [(name, frame.height, frame.width) for name, frame in tables.items()]
    yield INDEX, csv(pl.DataFrame(rows, ["table", "rows", "columns"], orient="row"))
    for name, frame in tables.items():
        yield f"{name}.csv", csv(frame)
        yield f"{name}.parquet", parquet(frame)


def file_names(kind: Kind) -> list[str]:
    """Return the names of all files that `files` yields."""
    return [INDEX, *(f"{name}.{suffix}" for name in names(kind) for suffix in ("csv", "parquet"))]


def _lists(
    found: dict[str, pl.DataFrame], value: Any, struct: type[msgspec.Struct], prefix: str, two: bool
) -> None:
    """Add the lists of structs of a result, also those one level down (gil.rows -> gil_rows)."""
    for key, hint in _fields(struct, two):
        one = None if value is None else getattr(value, key)
        item = _item(hint)
        if _is_struct(item):
            _add(found, prefix + key, item, one or [], two)
        elif _is_struct(hint):
            _lists(found, one, hint, f"{prefix}{key}_", two)


def _add(
    found: dict[str, pl.DataFrame], name: str, struct: type[msgspec.Struct], rows: Sequence[Any], two: bool,
    parents: Sequence[int] | None = None,
) -> None:  # fmt: skip
    """Add a table and those of the lists inside its rows. `parents`: of each row, the row that it belongs to."""
    columns = [] if parents is None else [pl.Series("row", parents, _WHOLE)]
    found[name] = pl.DataFrame()  # before those inside its rows

    def walk(struct: type[msgspec.Struct], values: Sequence[Any], prefix: str) -> None:
        for key, hint in _fields(struct, two):
            known = (getattr(value, key, None) for value in values)
            # a result that was saved before there was such a field has none
            cells = [None if one is msgspec.UNSET else one for one in known]
            item = _item(hint)
            if _is_struct(hint):
                walk(hint, cells, f"{prefix}{key}_")
            elif item is TimelineLane:
                continue  # packed: `timeline_events` holds its events
            elif _is_struct(item):
                inside = [(number, one) for number, many in enumerate(cells) for one in many or ()]
                mine, places = [one for _, one in inside], [number for number, _ in inside]
                _add(found, f"{name}_{prefix}{key}", item, mine, two, places)
            elif item is not None:
                columns.append(pl.Series(prefix + key, cells, pl.List(_type(item)), strict=False))
            elif typing.get_origin(hint) is dict:
                texts = [None if one is None else msgspec.json.encode(one).decode() for one in cells]
                columns.append(pl.Series(prefix + key, texts, _TEXT))
            else:
                columns.append(pl.Series(prefix + key, cells, _type(hint), strict=False))

    walk(struct, rows, "")
    found[name] = pl.DataFrame(columns)


@cache
def _fields(struct: type[msgspec.Struct], two: bool) -> list[tuple[str, Any]]:
    """Names and types of the fields, without `| None`; of one side, without those that only a comparison has.

    What sentences are written from is no table of its own.
    """
    hints = {key: _plain(hint) for key, hint in typing.get_type_hints(struct).items()}
    return [
        (one.name, hints[one.name])
        for one in msgspec.structs.fields(struct)
        if (two or one.default is not ABSENT)
        and hints[one.name] not in (FindingFacts, GateFacts, VerdictFacts)
    ]


def _accounting(books: Accounting | None) -> pl.DataFrame:
    parts = ("baseline", "candidate", "delta", "ci_low", "ci_high", "host_speed")
    hidden = ("hidden_baseline", "hidden_candidate")
    known = books.delta.keys() | books.baseline.keys() | books.candidate.keys() if books else set()
    columns: dict[str, Any] = {"category": [key for key in palette.order(set(known)) if key in known]}
    for name in (*parts, "level", *hidden):
        values = getattr(books, name) if books else {}
        columns[name if name == "level" else f"{name}_ns"] = [values.get(key) for key in columns["category"]]
    texts = {name: _TEXT if name in ("category", "level") else _NUMBER for name in columns}
    return pl.DataFrame(columns, texts)


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
    for row, one in enumerate(result.timelines.steps):
        for side, step in (("baseline", one.baseline), ("candidate", one.candidate)):
            for event in _of_step(step, result.timelines.names):
                yield event | {"row": row} | ({"side": side} if isinstance(result, Result) else {})


def _of_step(step: TimelineStep | None, texts: list[str]) -> Iterator[dict[str, Any]]:
    for lane in step.lanes if step else ():
        of_lane = ("start", "length", "what", "group", "count", "inside")
        *columns, counts, insides = (list(map(int, getattr(lane, name).split())) for name in of_lane)
        empty = [None] * len(columns[0])
        for start, length, what, group, count, inside in zip(
            *columns, counts or empty, insides or empty, strict=True
        ):
            yield {
                "kind": lane.kind, "lane": ", ".join(filter(None, (lane.name, lane.of))), "start_ns": start, "length_ns": length, "what": texts[what],
                "group": texts[group], "count": count, "inside_ns": inside,
            }  # fmt: skip


def _plain(hint: Any) -> Any:
    """Drop `| None`."""
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        rest = [part for part in typing.get_args(hint) if part is not type(None)]
        return rest[0] if len(rest) == 1 else hint
    return hint


def _item(hint: Any) -> Any:
    """The type of the items of a list or a tuple of one type; None of what is neither."""
    return _plain(typing.get_args(hint)[0]) if typing.get_origin(hint) in (list, tuple) else None


def _is_struct(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, msgspec.Struct)


def _type(hint: Any) -> pl.DataType:
    return {int: _WHOLE, float: _NUMBER, bool: _FLAG}.get(hint, _TEXT)
