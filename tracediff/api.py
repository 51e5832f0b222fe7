"""The Python interface: what `import tracediff` offers. See docs/extend.md#python.

Everything comes as polars frames. Times are ns, and a column that is a time says so in its name; a delta is candidate -
baseline, so positive is slower. Failures are `TracediffError`, with the slugs of docs/messages.md.
"""

from __future__ import annotations

import functools
import inspect
import os
import warnings
import weakref
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Literal, ParamSpec, TypeVar

import polars as pl
from msgspec.structs import replace

from tracediff.companions.model import Result
from tracediff.errors import TracediffError
from tracediff.model import Verdict, encode
from tracediff.model.result import WhatIf
from tracediff.model.show import Show
from tracediff.query import reference
from tracediff.query.tables import Tables, sides_of
from tracediff.request import CompareRequest, OpenRequest, PathLike, ShowRequest, WhatIfRequest
from tracediff.session import compare_request, show_request, what_if_request

_P = ParamSpec("_P")
_Request = TypeVar("_Request")
_Made = TypeVar("_Made")
SideName = Literal["baseline", "candidate"]


class _Tables:
    """What a comparison and the report of one capture have in common: tables by name and as attributes, and files."""

    def __init__(self, result: Result | Show) -> None:
        self.result = result
        self._frames: dict[str, pl.DataFrame] | None = None

    @property
    def tables(self) -> list[str]:
        """The names of all tables; the same for every result of this kind."""
        from tracediff.report.tables import names

        return names(type(self.result))

    def table(self, name: str) -> pl.DataFrame:
        """Return a table of the result, as `--tables` writes it: see docs/result.md.

        An empty table has its columns. Raises `TracediffError`: no-such-table.
        """
        from tracediff.report.tables import frames

        if self._frames is None:
            self._frames = frames(self.result)
        if name not in self._frames:
            raise _no_such_table(name, self.tables)
        return self._frames[name]

    def to_json(self, path: PathLike, *, overwrite: bool = False) -> None:
        """Write the result; `tracediff report` renders it again. Raises `TracediffError`: output-exists, ..."""
        _write(path, encode(self.result), overwrite)

    def __getattr__(self, name: str) -> pl.DataFrame:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self.table(name)
        except TracediffError as error:
            raise AttributeError(error.message) from None

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.tables})


class Comparison(_Tables):
    """Two sides compared. Every table of the result is a frame: `comparison.kernels` is `comparison.table("kernels")`."""

    result: Result

    def __init__(self, result: Result) -> None:
        """`result`: as `compare` makes it, or as `tracediff.companions.model.decode` reads what `to_json` wrote."""
        super().__init__(result)

    @property
    def verdict(self) -> Verdict:
        """improved, regressed, likely_improved, likely_regressed, no_change, inconclusive or not_comparable."""
        return self.result.verdict

    @property
    def sentence(self) -> str:
        """What changed: direction, step, before and after, change; the first line of every report."""
        return self.result.headline.what or self.result.headline.text

    @property
    def verdict_reason(self) -> str:
        """What a repeat would show, and what most limits belief in it."""
        return self.result.verdict_reason

    @property
    def findings(self) -> pl.DataFrame:
        """The ranked causes of the change, a row each: rank, cause, delta_ns, ci_low_ns, ci_high_ns, share, title, level, ..."""
        return self.table("findings")

    def to_html(self, path: PathLike, *, overwrite: bool = False) -> None:
        """Write the report, one offline page. Raises `TracediffError`: output-exists, output-folder-missing, ..."""
        from tracediff.report.html import render_html

        _write(path, render_html(self.result).encode(), overwrite)

    def to_markdown(self, *, top: int = 10) -> str:
        """Return the comment for a pull request, with `top` rows of each table."""
        from tracediff.report.markdown import render_markdown

        return render_markdown(self.result, top=top)

    def __repr__(self) -> str:
        return f"<Comparison: {_visible(self.sentence)}>"

    def _repr_html_(self) -> str:
        from tracediff.report.notebook import comparison_html

        return comparison_html(self.result)


class Report(_Tables):
    """One capture, or repeated runs of one program. Every table of it is a frame: `report.idle` is `report.table("idle")`."""

    result: Show

    def __init__(self, result: Show) -> None:
        """`result`: as `show` makes it; `msgspec.json.decode(data, type=tracediff.model.show.Show)` reads what `to_json` wrote."""
        super().__init__(result)

    @property
    def sentence(self) -> str:
        """How long a step is, and where most of its idle time goes; of a single step that was asked for, why it is longer."""
        return self.result.chosen[0].text if self.result.chosen else self.result.sentence

    @property
    def chosen(self) -> pl.DataFrame:
        """The steps that were asked for, a row each: text, run, number, ns, typical_ns, delta_ns, start_ns, ..."""
        return self.table("chosen")

    def to_html(self, path: PathLike, *, overwrite: bool = False) -> None:
        """Write the report, one offline page. Raises `TracediffError`: output-exists, output-folder-missing, ..."""
        from tracediff.report.show import render_show_html

        _write(path, render_show_html(self.result).encode(), overwrite)

    def to_markdown(self, *, top: int = 10) -> str:
        """Return the report as Markdown, with `top` rows of each table; of single steps these alone."""
        from tracediff.report.show import render_show_markdown

        return render_show_markdown(self.result, top=top)

    def __repr__(self) -> str:
        return f"<Report: {_visible(self.sentence)}>"

    def _repr_html_(self) -> str:
        from tracediff.report.notebook import show_html

        return show_html(self.result)


class Projection:
    """What the steps of a capture would take if something were different."""

    result: WhatIf

    def __init__(self, result: WhatIf) -> None:
        """`result`: as `what_if` makes it."""
        self.result = result

    @property
    def sentence(self) -> str:
        """What a step would take, instead of what, and within which range."""
        from tracediff.report.what_if import headline

        return "".join(headline(self.result))

    @property
    def phases(self) -> pl.DataFrame:
        """Return a row a phase: phase, steps, before_ns, after_ns, low_ns, high_ns."""
        columns = ("phase", "steps", "before_ns", "after_ns", "low_ns", "high_ns")
        return pl.DataFrame([{name: getattr(one, name) for name in columns} for one in self.result.phases])

    @property
    def deciding(self) -> pl.DataFrame:
        """Return what decides a step: phase, cause, before_ns, after_ns, which sum to the step of the phase."""
        rows = [
            (one.phase, cause, one.deciding_before.get(cause, 0.0), one.deciding_after.get(cause, 0.0))
            for one in self.result.phases
            for cause in dict.fromkeys((*one.deciding_before, *one.deciding_after))
        ]
        schema = {"phase": pl.String, "cause": pl.String, "before_ns": pl.Float64, "after_ns": pl.Float64}
        return pl.DataFrame(rows, schema=schema, orient="row")

    def to_json(self, path: PathLike, *, overwrite: bool = False) -> None:
        """Write the result; `tracediff report` renders it again. Raises `TracediffError`: output-exists, ..."""
        _write(path, encode(self.result), overwrite)

    def to_html(self, path: PathLike, *, overwrite: bool = False) -> None:
        """Write the report, one offline page. Raises `TracediffError`: output-exists, output-folder-missing, ..."""
        from tracediff.report.document import render_html

        _write(path, render_html(self.result).encode(), overwrite)

    def to_markdown(self) -> str:
        """Return the report as Markdown."""
        from tracediff.report.document import render_markdown

        return render_markdown(self.result)

    def __repr__(self) -> str:
        return f"<Projection: {_visible(self.sentence)}>"


class Captures:
    """One capture, or baseline and candidate, as tables: see docs/sql.md. Close it when done, or use it in a `with`.

    Of one capture every table is an attribute: `captures.op` is `captures.table("op")`.
    """

    def __init__(self, tables: Tables) -> None:
        """`tables`: what `open` made."""
        self._tables = tables
        self._forget = weakref.finalize(self, tables.close)

    @property
    def tables(self) -> list[str]:
        """The names of the tables that are there: those of measured steps need steps with GPU work."""
        return self._tables.names()

    def table(self, name: str, side: SideName | None = None) -> pl.DataFrame:
        """Return a whole table; `side`: of which of two captures, none for a table of both.

        Raises `TracediffError`: no-such-table, and for a table of measured steps what kept them from being measured.
        """
        found = reference.table(name)
        if found is None:
            raise _no_such_table(name, self.tables)
        schemas = ("main",) if found.aligned else self._tables.schemas
        if (side or "main") not in schemas:
            sides = " or ".join(schemas) if len(schemas) > 1 else "none: there is one capture"
            raise TracediffError(
                "no-such-side", f"table {name} of which side? {sides}", fix="table(NAME, SIDE)"
            )
        return self._tables.table(name.lower(), side or "main")

    def sql(self, query: str) -> pl.DataFrame:
        """Return the rows of a query in DuckDB's SQL (of the last statement, where there are several).

        With two captures the tables are baseline.NAME, candidate.NAME and aligned_NAME. Sums of whole numbers are Int64. Raises
        `TracediffError`: bad-sql, query-not-read-only, query-out-of-memory, no-sql.
        """
        answers = self._tables.run(query)
        if not answers:
            raise TracediffError(
                "no-sql", "the SQL has no statement that gives rows", fix="end it with a SELECT"
            )
        return answers[-1].frame

    def schema(self, table: str) -> pl.DataFrame:
        """Return what the columns of a table are: column, type (of DuckDB), meaning. Raises `TracediffError`: no-such-table."""
        found = reference.table(table)
        if found is None:
            raise _no_such_table(table, self.tables)
        rows = [(one.name, one.type, one.text) for one in found.columns]
        return pl.DataFrame(
            rows, schema={"column": pl.String, "type": pl.String, "meaning": pl.String}, orient="row"
        )

    def close(self) -> None:
        """Forget the tables; what was taken out of them stays."""
        self._forget()

    def __enter__(self) -> Captures:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getattr__(self, name: str) -> pl.DataFrame:
        if reference.table(name) is None or name != name.lower():
            raise AttributeError(_no_such_table(name, self.tables).message)
        return self.table(name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.tables})

    def __repr__(self) -> str:
        return f"<Captures: {', '.join(self.tables)}>"


def _takes_fields_of(
    request: Callable[_P, _Request],
) -> Callable[[Callable[[_Request], _Made]], Callable[_P, _Made]]:
    """Let a function of a request be called with the fields of the request, which are its signature."""

    def decorate(function: Callable[[_Request], _Made]) -> Callable[_P, _Made]:
        @functools.wraps(function)
        def called(*given: _P.args, **named: _P.kwargs) -> _Made:
            return function(request(*given, **named))

        made = inspect.signature(function).return_annotation
        vars(called)["__signature__"] = inspect.signature(request).replace(return_annotation=made)
        return called

    return decorate


@_takes_fields_of(CompareRequest)
def compare(request: CompareRequest) -> Comparison:
    """Compare two sides, as `tracediff compare` does; the options are those of the command.

    Each side is an export (.sqlite, .sqlite.xz), a report (.nsys-rep, with nsys at hand) or a folder of repeats, and may
    be named: "label=PATH". A bundle of `tracediff capture` stands alone, without `candidate`. What was read before is
    taken from the cache, unless `cache` is false. What is left out is
    warned of (`UserWarning`). What is given `beside` the traces ("baseline=PATH", "candidate=PATH") is compared in tables of its own: profiles of Nsight Compute
    (`ncu_rows`, `ncu_rows_reasons`), files of trtexec (`trtexec_figures`, `trtexec_rows`, `trtexec_groups`), latencies measured
    without a profiler (`latencies_rows`, `latencies_checks`; a path a run, or a folder).

    Raises `TracediffError`, with a slug: not-a-file, not-nsys, no-kernels, no-steps, no-common-strata, with-one-side, ...,
    and ValueError where `steps`, `window`, `ranks` or `beside` are spelled otherwise than on the command line.
    """
    return Comparison(
        compare_request(request, keep=True, warn=lambda text: warnings.warn(text, stacklevel=2))
    )


@_takes_fields_of(ShowRequest)
def show(request: ShowRequest) -> Report:
    """Report on one capture, or on repeated runs of one program, as `tracediff show` does; the options are those of the command.

    `step`: a step or several, each beside the typical step of its class: 117, "RUN:117"; `worst`: how many of the steps furthest above
    theirs. Raises `TracediffError`, with a slug: not-a-file, no-steps, no-whole-step, no-such-step, step-of-which-run, ..., and
    ValueError where `step`, `steps`, `window` or `ranks` are spelled otherwise than on the command line.
    """
    return Report(show_request(request, keep=True))


@_takes_fields_of(WhatIfRequest)
def what_if(request: WhatIfRequest) -> Projection:
    """Say what a step of a capture would take if something were different, as `tracediff what-if` does; the options are those of the command.

    `without`, `scale`, `fuse`: a word or several: "gc", "fmha*=0.5", "A+B". Raises `TracediffError`: no-what-if, bad-what-if,
    bad-measure, what-if-nothing, what-if-no-gpu, what-if-not-captured, and those of `show`.
    """
    return Projection(what_if_request(request))


@_takes_fields_of(OpenRequest)
def open(request: OpenRequest) -> Captures:
    """Open a capture, or baseline and candidate, as tables that SQL can be asked of: see docs/sql.md.

    Paths are those of `compare`. The tables are in a scratch folder until they are closed; no other file can be read
    or written through them. Raises `TracediffError`: not-a-file, not-nsys, bad-step-regex, bad-limit, ...
    """
    given = [os.fspath(one) for one in (request.capture, request.candidate) if one is not None]
    return Captures(Tables(sides_of(given), replace(request.reading(), cached=True)))


def _write(path: PathLike, data: bytes, overwrite: bool) -> None:
    from tracediff.write import check_outputs, write_atomically

    check_outputs([Path(path)], overwrite)
    write_atomically(Path(path), data, overwrite)


def _visible(text: str) -> str:
    from tracediff.report.escape import visible

    return visible(text)


def _no_such_table(name: str, there: Sequence[str]) -> TracediffError:
    near = "".join(f"; did you mean {one}?" for one in get_close_matches(name, there, 1))
    said = f"there is no table {_visible(name)}{near}"
    return TracediffError("no-such-table", said, fix=f"tables: {', '.join(there)}")
