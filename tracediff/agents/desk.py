"""What stands behind the tools: one method a tool, the results that were made, and one thread that does the long work."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import polars as pl

from tracediff.agents import answers as a
from tracediff.agents.folders import Folders, Found
from tracediff.api import Comparison, Report
from tracediff.errors import TracediffError
from tracediff.execution.sides import Reading
from tracediff.formats.inputs import SideFiles, resolve
from tracediff.formats.recognise import recognise
from tracediff.model.common import Coverage
from tracediff.model.contents import Problem
from tracediff.query import reference
from tracediff.query.apart import Bounds
from tracediff.query.tables import Tables, check, needs_events, needs_measuring, sides_of
from tracediff.report import phrases
from tracediff.report import what_if as what_if_words
from tracediff.request import CompareRequest, ShowRequest, WhatIfRequest
from tracediff.session import compare_request, history_of, show_request, what_if_request

_Request = TypeVar("_Request")
_Answer = TypeVar("_Answer")
WAIT_S = 45  # for an answer: programs that ask give up after a minute
QUERY_S, _CHECK_S = 30, 10  # for SQL, and for looking at it before anything is read
_MEMORY = "1GiB"  # that DuckDB counts
KEPT = 8  # results
_OPEN = 2  # captures with tables for SQL, which are files of some hundred MB
_ENTRIES = 60  # of a folder in one answer
_SQL = 4_000  # characters of the queries of one answer: names of kernels are long
_LARGEST = 8  # rows of a table in a first answer

_FINDING = (
    "id", "cause", "title", "level", "delta_ns", "ci_low_ns", "ci_high_ns", "share", "where_phase", "part", "where_rank",
)  # fmt: skip
_PHASE = (
    "phase", "verdict", "typical_baseline_ns", "typical_candidate_ns", "typical_delta_ns", "typical_ci_low_ns", "typical_ci_high_ns",
    "typical_noise_floor_ns", "typical_detectable_ns", "tail_delta_ns", "tail_ci_low_ns", "tail_ci_high_ns", "steps_baseline", "steps_candidate",
)  # fmt: skip
_IDLE = (
    "id", "cause", "title", "ns", "share", "count_per_step", "range", "thread", "holder_thread", "holder_range",
)  # fmt: skip
_KERNEL = (
    "id", "baseline_names", "category", "baseline_count_per_step", "baseline_ns_per_step", "baseline_mean_ns", "share"
)  # fmt: skip
_LONG = ("evidence_query", "query", "longest_query")  # SQL, which `explain` gives ready to be asked
_DESCRIBED = (*reference.tables(), *reference.aligned())
_DRAWN = "evidence_crop"  # events of a picture


class Desk:
    """Answers questions about the captures under some folders. Close it when done.

    Every method takes what its tool is asked and returns what it answers, or raises `TracediffError`. `cache`: keep what is read of
    exports, as every command does. Methods may be called from several threads; long work is done one at a time.
    """

    def __init__(self, folders: Folders, *, cache: bool = True, wait_s: float = WAIT_S) -> None:
        self.folders, self._cache, self._wait_s = folders, cache, wait_s
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="tracediff-agents")
        self._lock = threading.Lock()
        self._jobs: OrderedDict[Hashable, Future[Any]] = OrderedDict()
        self._results: OrderedDict[str, tuple[Comparison | Report, list[str]]] = OrderedDict()
        self._made = 0
        self._tables: OrderedDict[Hashable, Tables] = OrderedDict()  # of the thread for long work alone

    def close(self) -> None:
        """Forget all results, and wait for what is being done."""
        self._pool.shutdown(cancel_futures=True)
        for tables in self._tables.values():
            tables.close()

    # Tools

    def inputs(self, asked: a.InputsAsked) -> a.Entries:
        """Raises also what `Folders.find` does."""
        from tracediff.trace.identify import identify

        top = asked.capture.strip("/.") == ""
        path = None if top else self.folders.find(asked.capture)
        if path is not None and (not path.is_dir() or recognise(path) is not None):
            (one,) = identify([self.folders.readable(asked.capture).path]).inputs
            contents = one.contents and msgspec.structs.replace(
                one.contents, tables=[], domains=one.contents.domains[:10]
            )
            return a.Entries(
                asked.capture,
                one.kind,
                one.title,
                one.facts,
                contents=contents,
                warnings=one.warnings,
                problem=one.problem,
            )
        found = [
            (name, _kind(one))
            for name, one in islice(self.folders.entries(asked.capture), asked.first + 10_000)
        ]
        frame = pl.DataFrame(found, schema=["path", "kind"], orient="row")
        more = f"inputs with capture {asked.capture!r} and first {asked.first + _ENTRIES}"
        listed = a.Entries(asked.capture, entries=a.rows(frame, first=asked.first, limit=_ENTRIES, more=more))
        try:
            if path is not None:
                side = resolve(str(self.folders.readable(asked.capture).path))
                listed.runs, listed.warnings = [run.name for run in side.runs][:_ENTRIES], list(side.notes)
        except TracediffError as error:
            listed.problem = Problem(error.slug, error.message, error.fix)
        return listed

    def compare(self, asked: a.CompareAsked) -> a.Compared:
        """Raises also what `compare_request` does, and still-running."""
        found = self._given(asked.capture, asked.candidate)
        request = _request(
            CompareRequest, baseline=found[0].path, candidate=found[1].path if asked.candidate else None,
            steps=asked.steps or None, ranks=asked.ranks or None, kernel=(asked.kernel,) if asked.kernel else (),
            step_regex=asked.step_regex or None, cache=self._cache,
        )  # fmt: skip
        return self._job((asked, found), lambda: self._compare(request, [one.name for one in found]))

    def show(self, asked: a.ShowAsked) -> a.Shown:
        """Raises also what `show_request` does, and still-running."""
        found = self._given(asked.capture)
        request = _request(
            ShowRequest, capture=found[0].path, step=(asked.step,) if asked.step else (), worst=asked.worst or None,
            steps=asked.steps or None, step_regex=asked.step_regex or None,
            cache=self._cache,
        )  # fmt: skip
        return self._job((asked, found), lambda: self._show(request, [one.name for one in found]))

    def explain(self, asked: a.ExplainAsked) -> a.Explained:
        """Raises also no-such-result, no-such-table, no-such-row."""
        name, _, rest = asked.id.partition(".")
        table, _, number = rest.partition(".")
        made, sides = self._result(name)
        frame = self._table(made, table)
        if not number.isdecimal() or not number.isascii() or int(number[:9]) >= len(frame):
            raise TracediffError(
                "no-such-row", f"{asked.id}: {table} has {len(frame)} rows, counted from 0", fix="`table` gives the ids"
            )  # fmt: skip
        row = int(number)
        whole = frame.drop([one for one in frame.columns if one.startswith(_DRAWN)]).row(row, named=True)
        mine = {
            other: made.table(other).filter(pl.col("row") == row).drop("row")
            for other in made.tables
            if other.startswith(f"{table}_") and "row" in made.table(other).columns
        }
        queries = []
        if whole.get("evidence_query"):
            other = sides[1] if len(sides) > 1 else ""
            queries.append(a.QueryAsked(sides[0], whole["evidence_query"], candidate=other))
        for one in mine.get(f"{table}_evidence_moments", pl.DataFrame()).to_dicts():
            if one["query"]:  # of one side: its own capture, or that side of a bundle
                of = {"side": one["side"]} if len(sides) == 1 else {}
                queries.append(
                    a.QueryAsked(sides[len(sides) > 1 and one["side"] == "candidate"], one["query"], **of)
                )
        if whole.get("query"):
            queries.append(a.QueryAsked(sides[0], whole["query"]))
        return a.Explained(
            asked.id,
            {key: cell for key, cell in a.record(whole).items() if key not in _LONG},
            {
                other.removeprefix(f"{table}_"): a.rows(part.drop("query", strict=False), limit=_LARGEST)
                for other, part in mine.items()
                if len(part)
            },
            [
                one
                for number, one in enumerate(queries[:3])
                if sum(len(each.sql) for each in queries[: number + 1]) < _SQL
            ],
        )

    def table(self, asked: a.TableAsked) -> a.Listed:
        """Raises also no-such-result, no-such-table, no-such-column."""
        frame = self._table(self._result(asked.result)[0], asked.table)
        columns = [*frame.columns, "id"]
        for one in (*asked.columns, *filter(None, [asked.order_by])):
            if one not in columns:
                raise TracediffError(
                    "no-such-column", f"{asked.table} has no column {one}", fix=", ".join(columns)
                )
        frame = frame.with_columns(
            id=pl.lit(f"{asked.result}.{asked.table}.") + pl.int_range(pl.len()).cast(pl.String)
        ).select("id", *columns[:-1])
        if asked.contains:
            word = asked.contains.lower()
            frame = frame.filter(
                [word in " ".join(map(str, row)).lower() for row in frame.drop("id").iter_rows()]
            )
        if asked.order_by and frame[asked.order_by].dtype.is_numeric():
            frame = frame.sort(
                pl.col(asked.order_by).abs(), descending=True, nulls_last=True, maintain_order=True
            )
        wanted = asked.columns and ["id", *(one for one in asked.columns if one != "id")]
        hidden = [one for one in frame.columns if one in _LONG or one.startswith(_DRAWN)]
        found = a.rows(frame if wanted else frame.drop(hidden), wanted, first=asked.first, limit=asked.limit)
        if found.left_out:
            found.more = f"table with first {asked.first + len(found.rows)}"
        return a.Listed(found)

    def query(self, asked: a.QueryAsked) -> a.Listed:
        """Raises also bad-sql, query-not-read-only, query-too-long and what loading a capture does."""
        found = self._given(asked.capture, asked.candidate)
        check(asked.sql, len(_sides(asked, found)), _bounds(_CHECK_S))
        return self._job((asked, found), lambda: self._query(asked, found))

    def schema(self, asked: a.SchemaAsked) -> a.Listed:
        """Raises also no-such-table."""
        if not asked.table:
            frame = pl.DataFrame(
                [(one.name, one.text, ", ".join(column.name for column in one.columns)) for one in _DESCRIBED],
                schema=["table", "a row is", "columns"], orient="row",
            )  # fmt: skip
            return a.Listed(
                a.Rows(frame.columns, [list(row) for row in frame.iter_rows()]),
                [
                    "Ids such as pid, tid and step are unique only together with capture. Join GPU and host rows by corr and step, not by time."
                ],
            )
        table = reference.table(asked.table)
        if table is None:
            names = ", ".join(one.name for one in _DESCRIBED)
            raise TracediffError("no-such-table", f"there is no table {asked.table}", fix=names)
        return a.Listed(
            a.Rows(["column", "type", "meaning"], [[one.name, one.type, one.text] for one in table.columns])
        )

    def what_if(self, asked: a.WhatIfAsked) -> a.Projected:
        """Raises also what `what_if_request` does, and still-running."""
        found = self._given(asked.capture)
        request = _request(
            WhatIfRequest, capture=found[0].path, without=asked.without, scale=asked.scale, fuse=asked.fuse, graph=asked.graph,
            ahead=asked.ahead, steps=asked.steps or None, step_regex=asked.step_regex or None, cache=self._cache,
        )  # fmt: skip
        return self._job((asked, found), lambda: _what_if(request))

    def history(self, asked: a.HistoryAsked) -> a.HistoryFound:
        """Raises also what `history_of` does. Git is not asked: a repository can name programs to run."""
        from tracediff.history.analysis import Commits
        from tracediff.report.history import headline, name

        store = self.folders.readable(asked.store)
        found = history_of(
            str(store.path), Commits(problem="no-repository"), asked.measures, asked.program or None
        )

        def table(kind: str) -> a.Rows:
            listed = [
                {"segment": number} | _points(msgspec.to_builtins(one), found.points)
                for number, segment in enumerate(found.segments)
                for one in getattr(segment, kind)
            ]
            return a.rows(pl.DataFrame(listed, infer_schema_length=None), limit=_LARGEST * 2)

        return a.HistoryFound(
            headline(found), found.order, [name(one) for one in found.segments], len(found.points),
            table("changes"), table("drifts"), table("standings"), found.torn,
        )  # fmt: skip

    # Work

    def _compare(self, request: CompareRequest, sides: list[str]) -> a.Compared:
        warned: list[str] = []
        made = Comparison(compare_request(request, keep=True, warn=warned.append))
        result = made.result
        name = self._keep(made, sides)
        inputs = result.inputs
        return a.Compared(
            result=name,
            baseline=inputs.baseline.label,
            candidate=inputs.candidate.label,
            verdict=result.verdict,
            verdict_reason=result.verdict_reason,
            headline=result.headline.text,
            step=result.observed,
            runs=result.step.runs,
            runs_advised=result.step.runs_advised,
            phases=a.rows(made.table("phases"), _PHASE),
            findings=self._first(name, made, "findings", _FINDING),
            launch=[result.launch.baseline, result.launch.candidate],
            remarks=[*phrases.remarks(result), *warned],
            kernel_answers=[one.text for one in result.kernel_answers],
            not_ok=[one for one in result.comparability.checks if one.status != "ok"],
            not_captured=_not_captured(result.coverage),
            warnings=result.warnings[:_LARGEST],
            tables=_sizes(made),
        )

    def _show(self, request: ShowRequest, sides: list[str]) -> a.Shown:
        made = Report(show_request(request, keep=True))
        result = made.result
        name = self._keep(made, sides)
        return a.Shown(
            result=name,
            capture=result.input.label,
            sentence=made.sentence,
            step=result.step,
            phases=a.rows(made.table("phases")),
            accounting=a.rows(made.table("accounting"), ("category", "ns", "share", "hidden_ns")),
            idle=self._first(name, made, "idle", _IDLE),
            kernels=self._first(name, made, "kernels", _KERNEL, "baseline_ns_per_step"),
            launch=result.launch.baseline,
            chosen=a.rows(made.table("chosen"), limit=10),
            not_captured=_not_captured(result.coverage)["baseline"],
            warnings=result.warnings[:_LARGEST],
            tables=_sizes(made),
        )

    def _query(self, asked: a.QueryAsked, found: list[Found]) -> a.Listed:
        events, measured = needs_events(asked.sql), needs_measuring(asked.sql)
        key = (tuple(found), asked.side, asked.step_regex, events, measured)
        tables = self._tables.pop(key, None)
        if tables is None:
            while len(self._tables) >= _OPEN:
                self._tables.popitem(last=False)[1].close()
            reading = Reading(step_regex=asked.step_regex or None, memory_limit=_MEMORY, cached=self._cache)
            tables = Tables(_sides(asked, found), reading, events=events, measured=measured)
        self._tables[key] = tables
        answered = tables.run(asked.sql, asked.limit, _bounds(QUERY_S))
        if not answered:
            raise TracediffError(
                "no-sql", "the SQL has no statement that gives rows", fix="end it with a SELECT"
            )
        answer = answered[-1]
        found_rows = a.rows(answer.frame, answer.frame.columns)
        notes = tables.remarks(asked.sql)
        if answer.cut or found_rows.left_out:
            notes.append(
                f"the first {len(found_rows.rows)} rows; there are more: aggregate, or LIMIT and OFFSET"
            )
        return a.Listed(found_rows, notes)

    def _first(
        self, name: str, made: Comparison | Report, table: str, columns: tuple[str, ...], order_by: str = ""
    ) -> a.Rows:
        """The largest rows of a table, with their ids."""
        asked = a.TableAsked(name, table, limit=_LARGEST, columns=list(columns), order_by=order_by)
        return self.table(asked).rows

    # What is kept

    def _given(self, *names: str) -> list[Found]:
        return [self.folders.readable(name) for name in names if name]

    def _job(self, key: Hashable, work: Callable[[], _Answer]) -> _Answer:
        """What `work` returns, in its turn. The same asked again is the same work, unless it failed. Raises also still-running."""
        key = repr(key)
        with self._lock:
            job = self._jobs.pop(key, None)
            if job is None or (job.done() and job.exception() is not None):
                job = self._pool.submit(work)
            self._jobs[key] = job
            while len(self._jobs) > 4 * KEPT and next(iter(self._jobs.values())).done():
                self._jobs.popitem(last=False)
        if not wait([job], timeout=self._wait_s).done:
            raise TracediffError(
                "still-running",
                f"this takes more than {self._wait_s:.0f} s and goes on",
                fix="ask the same again: the answer waits for you",
            )
        found: _Answer = job.result()
        return found

    def _keep(self, made: Comparison | Report, sides: list[str]) -> str:
        with self._lock:
            self._made += 1
            name = f"r{self._made}"
            self._results[name] = made, sides
            if len(self._results) > KEPT:
                gone, _ = self._results.popitem(last=False)
                for key in [key for key, job in self._jobs.items() if _answers_with(job, gone)]:
                    del self._jobs[key]
        return name

    def _result(self, name: str) -> tuple[Comparison | Report, list[str]]:
        with self._lock:
            if name in self._results:
                self._results.move_to_end(name)
                return self._results[name]
            kept = ", ".join(self._results) or "none"
        raise TracediffError(
            "no-such-result",
            f"{name[:40]}: the last {KEPT} results are kept: {kept}",
            fix="compare or show again",
        )

    def _table(self, made: Comparison | Report, name: str) -> pl.DataFrame:
        if name not in made.tables:
            raise TracediffError(
                "no-such-table", f"there is no table {name[:80]}", fix=", ".join(_sizes(made))
            )
        return made.table(name)


def _bounds(seconds: float) -> Bounds:
    return Bounds(
        seconds, memory=2 << 30, answer=256 << 20, memory_limit=_MEMORY, disk="4GiB", threads=min(os.cpu_count() or 1, 4),
        more="ask for fewer rows or steps",
    )  # fmt: skip


def _what_if(request: WhatIfRequest) -> a.Projected:
    found = what_if_request(request)
    return a.Projected(
        "".join(what_if_words.headline(found)), what_if_words.sentences(found), found.edits, found.phases,
        found.steps, found.all_steps, found.warnings[:_LARGEST],
    )  # fmt: skip


def _answers_with(job: Future[Any], result: str) -> bool:
    """Whether a job has ended with an answer that names a result."""
    return job.done() and job.exception() is None and getattr(job.result(), "result", "") == result


def _request(kind: Callable[..., _Request], **options: Any) -> _Request:
    """Raises `TracediffError`: bad-arguments."""
    try:
        return kind(**options)
    except ValueError as error:
        raise TracediffError("bad-arguments", str(error), fix="as the schema of the tool says") from None


def _sides(asked: a.QueryAsked, found: list[Found]) -> list[SideFiles]:
    sides = sides_of([str(one.path) for one in found])
    if not asked.side:
        return sides
    if len(sides) != 2:
        raise TracediffError(
            "no-such-side", "one capture has no sides: `side` is for a bundle or a pair", fix='side ""'
        )
    return [sides[asked.side == "candidate"]]


def _kind(path: Path) -> str:
    """folder, what a file is, or "" where it is not known or cannot be read."""
    try:
        kind = recognise(path)
        return kind.slug if kind else "folder" if path.is_dir() else ""
    except (TracediffError, OSError):
        return ""


def _not_captured(coverage: Coverage) -> dict[str, list[str]]:
    return {
        side: sorted(name for name, value in kinds.items() if value == "not_captured")
        for side in ("baseline", "candidate")
        if isinstance(kinds := getattr(coverage, side), dict)
    }


def _sizes(made: Comparison | Report) -> dict[str, int]:
    """Rows of the tables that have some; events of pictures are left out."""
    found = {name: len(made.table(name)) for name in made.tables}
    return {
        name: rows for name, rows in found.items() if rows and not name.startswith(("timeline", "step_strip"))
    }


def _points(row: dict[str, Any], points: Iterable[Any]) -> dict[str, Any]:
    """A row of a history, whose numbers of points are commits, and whose causes are their names."""
    commits = [one.commit for one in points]
    for name in ("good", "bad", "first", "last"):
        if isinstance(row.get(name), int):
            row[name] = commits[row[name]]
    if "causes" in row:
        row["causes"] = [one["measure"] for one in row["causes"]]
    return row
