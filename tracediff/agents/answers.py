"""What each tool is asked and what it answers. Rows are cut from the tables of the result (docs/result.md), under their names.

Times are ns, per step unless a name says otherwise; a delta is candidate - baseline. None: not captured or not known, never zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
import polars as pl
from msgspec import Meta, Struct

from tracediff.errors import visible
from tracediff.model.common import Check, Note, Pair
from tracediff.model.contents import Contents, Problem
from tracediff.model.kernels import LaunchSide
from tracediff.model.observed import Observed
from tracediff.model.result import WhatIfEdit, WhatIfPhase
from tracediff.model.show import ShowStep
from tracediff.report.escape import shorten

MOST_ROWS = 100
MOST_BYTES = 6_000  # of the rows of one table
_CELL, _SENTENCE = 160, 1_000  # characters
_ITEMS = 20  # of a list in a cell
_SQL_FIELDS = ("sql", "query")

# What is asked

_Path = Annotated[
    str, Meta(description="Name as `inputs` lists it: an export, a folder of repeats, a bundle")
]
_Steps = Annotated[str, Meta(description="Only these steps: A-B, or A-B/C-D for each side")]
_Regex = Annotated[str, Meta(description="NVTX ranges that begin a step, where labels are not known")]
_Id = Annotated[str, Meta(description="As `compare` or `show` gave it: r1")]


class InputsAsked(Struct, forbid_unknown_fields=True):
    """What a file or folder is and holds: runs, steps, traces that are missing with the flag that records them. "" lists the top."""

    capture: _Path = ""
    first: Annotated[int, Meta(ge=0, description="Entry of a folder to begin with")] = 0


class CompareAsked(Struct, forbid_unknown_fields=True):
    """Compare a capture or folder of repeats, the baseline, with a candidate, or the sides of one bundle: verdict, phases, ranked findings with ids."""

    capture: _Path
    candidate: Annotated[str, Meta(description='"" where capture is a bundle, which holds both sides')] = ""
    steps: _Steps = ""
    ranks: Annotated[str, Meta(description="Only these ranks: 0,3-7")] = ""
    kernel: Annotated[
        str, Meta(description="Also all that is known of the kernels with this in their name")
    ] = ""
    step_regex: _Regex = ""


class ShowAsked(Struct, forbid_unknown_fields=True):
    """What is in the time of a step of one capture, or of repeats of one program: GPU work, and idle time by cause and place."""

    capture: _Path
    step: Annotated[str, Meta(description="Also this single step, by its number, beside a typical one")] = ""
    worst: Annotated[int, Meta(ge=0, le=10, description="Also so many of the slowest steps, likewise")] = 0
    steps: _Steps = ""
    step_regex: _Regex = ""


class ExplainAsked(Struct, forbid_unknown_fields=True):
    """Everything about one row by its id, such as a finding or a kernel: numbers, values of each run, parts, advice, the step that shows it, and SQL that shows it."""

    id: Annotated[str, Meta(description="r1.findings.0, r1.kernels.12, ...: a result, a table, a row")]


class TableAsked(Struct, forbid_unknown_fields=True):
    """Rows of a table of a result, in pages. `compare` and `show` list the tables."""

    result: _Id
    table: str
    first: Annotated[int, Meta(ge=0)] = 0
    limit: Annotated[int, Meta(ge=1, le=MOST_ROWS)] = 20
    columns: Annotated[list[str], Meta(description="None: all that hold something")] = []
    order_by: Annotated[str, Meta(description="Column of numbers: the largest absolute value first")] = ""
    contains: Annotated[str, Meta(description="Only rows with a text that holds this")] = ""


class QueryAsked(Struct, omit_defaults=True, forbid_unknown_fields=True):
    """Run DuckDB SQL that only reads, over the tables of a capture (`schema` describes them). Of two captures, or of a bundle, they are baseline.NAME and candidate.NAME, and aligned_NAME puts both sides side by side."""

    capture: _Path
    sql: str
    candidate: _Path = ""
    side: Annotated[
        Literal["", "baseline", "candidate"],
        Meta(description="Of a bundle or a pair only this side, its tables without a prefix"),
    ] = ""
    limit: Annotated[int, Meta(ge=1, le=MOST_ROWS)] = 30
    step_regex: _Regex = ""


class SchemaAsked(Struct, forbid_unknown_fields=True):
    """Tables that `query` can be asked of, or the columns of one."""

    table: str = ""


class WhatIfAsked(Struct, forbid_unknown_fields=True):
    """What a step of one capture would take if something were different: its events are replayed with the change, and so waits that were hidden surface."""

    capture: _Path
    without: Annotated[
        list[str],
        Meta(
            description="Causes whose time goes, at a place or all: gc, gil_wait@await_response, kernel:NAME"
        ),
    ] = []
    scale: Annotated[
        list[str], Meta(description="NAME=FACTOR: kernels 'fmha*=0.5', or a cause host_work@_schedule=0.5")
    ] = []
    fuse: Annotated[
        list[str], Meta(description="A+B[=FACTOR]: kernels that follow one another become one")
    ] = []
    graph: Annotated[bool, Meta(description="Kernels between two waits become one CUDA graph")] = False
    ahead: Annotated[bool, Meta(description="The host runs a step ahead of the GPU (--async)")] = False
    steps: _Steps = ""
    step_regex: _Regex = ""


class HistoryAsked(Struct, forbid_unknown_fields=True):
    """Changes of level over commits and drift, in a folder that `tracediff history` keeps."""

    store: _Path
    measures: Annotated[
        list[str], Meta(description="Beside step times: gil_wait, generation.host_work@_schedule")
    ] = []
    program: str = ""


# What is answered


class Rows(Struct, omit_defaults=True):
    """Rows of a table. `left_out`: how many follow; `more`: how to ask for them. A row's id is for `explain`."""

    columns: list[str]
    rows: list[list[Any]]
    left_out: int = 0
    more: str = ""


class Entries(Struct):
    """What a file or folder is. `runs`: the runs that it stands for as one side of a comparison, else why it is none in `problem`."""

    path: str
    kind: str = "folder"
    title: str = ""
    facts: list[str] = []
    entries: Rows | None = None
    runs: list[str] = []
    contents: Contents | None = None
    warnings: list[Note] = []
    problem: Problem | None = None


class Compared(Struct):
    """A comparison. `step`: the change that the headline is of. Rows are the largest; `tables`: how many each has in all."""

    result: str
    baseline: str
    candidate: str
    verdict: str
    verdict_reason: str
    headline: str
    step: Observed
    runs: Pair
    runs_advised: int | None
    phases: Rows
    findings: Rows
    launch: list[LaunchSide]  # baseline, candidate
    remarks: list[str]
    kernel_answers: list[str]
    not_ok: list[Check]
    not_captured: dict[str, list[str]]
    warnings: list[Note]
    tables: dict[str, int]


class Shown(Struct):
    """One side. Rows are the largest; `tables`: how many each has in all."""

    result: str
    capture: str
    sentence: str
    step: ShowStep
    phases: Rows
    accounting: Rows
    idle: Rows
    kernels: Rows
    launch: LaunchSide
    chosen: Rows
    not_captured: list[str]
    warnings: list[Note]
    tables: dict[str, int]


class Explained(Struct):
    """One row: its columns that hold something, the rows of other tables that belong to it, and queries that show it."""

    id: str
    row: dict[str, Any]
    belongs: dict[str, Rows]
    queries: list[QueryAsked]


class Listed(Struct):
    """Rows, and what has to be known of them."""

    rows: Rows
    notes: list[str] = []


class Projected(Struct):
    """The step before and after. low_ns, high_ns: the range in which a program that is really changed so was in 8 of 10 cases."""

    sentence: str
    remarks: list[str]
    edits: list[WhatIfEdit]
    phases: list[WhatIfPhase]
    steps: int
    all_steps: int
    warnings: list[Note]


class HistoryFound(Struct):
    """What changed since which commit, and what drifts; of the newest point's program first."""

    headline: str
    order: str
    programs: list[str]
    points: int
    changes: Rows
    drifts: Rows
    standings: Rows
    torn: list[str]


# How answers are cut


def rows(
    frame: pl.DataFrame,
    columns: Sequence[str] = (),
    *,
    first: int = 0,
    limit: int = MOST_ROWS,
    more: str = "",
) -> Rows:
    """The rows of a frame from `first` on: at most `limit`, and at most what `MOST_BYTES` hold.

    Names are those of the frame; columns that hold nothing are left out where none are asked for.
    """
    page = frame.slice(first, limit)
    names = [name for name in columns if name in page.columns] or [
        name for name in page.columns if len(page) == 0 or _holds(page[name])
    ]
    found: list[list[Any]] = []
    size = 0
    for row in page.select(names).iter_rows():
        cells = [small(_few(cell), longest=_CELL) for cell in row]
        size += len(msgspec.json.encode(cells))
        if found and size > MOST_BYTES:
            break
        found.append(cells)
    left = len(frame) - first - len(found)
    return Rows([visible(name) for name in names], found, max(0, left), more if left > 0 else "")


def record(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row as an object, without what holds nothing."""
    return {name: cell for name, cell in row.items() if cell not in (None, "", [])}


def small(value: Any, field: str = "", longest: int = _SENTENCE) -> Any:
    """Built-in values with short texts in which nothing is unseen, and figures of no more digits than they have a meaning."""
    if isinstance(value, str):
        if field in _SQL_FIELDS:
            return visible(value, keep="\n\t")  # whole, or of no use
        return visible(shorten(" ".join(value.splitlines()), longest))
    if isinstance(value, float):
        return (
            None
            if value != value or abs(value) == float("inf")
            else round(value, 1 if abs(value) >= 100 else 4)
        )
    if isinstance(value, list | tuple):
        return [small(one, field, longest) for one in value]
    if isinstance(value, dict):
        return {visible(str(key)): small(one, str(key), longest) for key, one in value.items()}
    return value if isinstance(value, int | None) else small(str(value), field, longest)


def _few(cell: Any) -> Any:
    """The first values of a list, and how many follow."""
    if not isinstance(cell, list) or len(cell) <= _ITEMS:
        return cell
    return [*cell[:_ITEMS], f"and {len(cell) - _ITEMS} more"]


def _holds(column: pl.Series) -> bool:
    return any(one not in (None, "", []) for one in column.to_list())
