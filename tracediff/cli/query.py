"""`tracediff query`: SQL over the tables of one or two captures."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from tracediff.cli.options import complete_files, progress, takes
from tracediff.cli.say import say
from tracediff.errors import guard
from tracediff.request import ReadRequest, option

if TYPE_CHECKING:
    from tracediff.query.guard import Answer

ROWS = 100  # that are printed where nothing else is said
_MORE = "--limit 0 gives all"
_FILE = click.Path(path_type=Path, dir_okay=False)


@dataclass(frozen=True, kw_only=True)
class Written:
    """What is written of an answer, and where."""

    parquet: Path | None = option(
        None, "Write the rows as Parquet, with their types.", metavar="FILE", type=_FILE
    )
    output: Path | None = option(
        None, "Write to a file instead of stdout.", name="-o --output", metavar="FILE", type=_FILE
    )
    overwrite: bool = option(False, "Overwrite output files.", name="-f --overwrite")
    limit: int | None = option(
        None, f"Rows at most, 0 for all.  [default: {ROWS} as text and Markdown, else all]", metavar="N", minimum=0
    )  # fmt: skip
    full: bool = option(False, "Do not shorten long texts in the table.")
    schema: bool = option(False, "Print every table and column, and stop (Markdown: docs/sql.md).")


@click.command(
    epilog="""
\b
Examples:
  tracediff query run.sqlite "SELECT number, phase, period_ns FROM period ORDER BY period_ns DESC LIMIT 5"
  tracediff query main.sqlite pr.sqlite "FROM aligned_kernel WHERE match = 'added'"
  tracediff query run.sqlite "FROM launch" --parquet launches.parquet
  tracediff query run.sqlite - --json < question.sql
  tracediff query --schema
"""
)
@click.argument("words", metavar="CAPTURE [CAPTURE] SQL", nargs=-1, shell_complete=complete_files)
@click.option("--csv", "form", flag_value="csv", help="CSV instead of a table for reading.")
@click.option("--json", "form", flag_value="json", help="A JSON array with an object a row.")
@click.option("--markdown", "form", flag_value="markdown", help="A Markdown table.")
@takes(written=Written, request=ReadRequest)
def query(words: tuple[str, ...], form: str | None, written: Written, request: ReadRequest) -> None:
    """Run SQL over the tables of one or two captures.

    CAPTURE is what `compare` takes: an export, a report, a folder of repeats. With two, or with a capture bundle, the
    tables are baseline.NAME and candidate.NAME, and aligned_NAME puts both side by side. SQL is DuckDB's; "-" reads it from stdin. Nothing but the captures
    can be read, and nothing changed. `--schema` lists the tables. Of several statements, apart by semicolons, each answer
    is printed; a file and the forms for programs hold the last.
    """
    if written.schema:
        from tracediff.report.query import render_reference

        click.echo(render_reference(), nl=False)
        return
    parquet, output, limit = written.parquet, written.output, written.limit
    if not 2 <= len(words) <= 3:
        raise click.UsageError("one or two captures and the SQL are needed; --schema lists the tables")
    if parquet is not None and (form or output):
        raise click.UsageError(
            "--parquet FILE is an output of its own: it goes without --csv, --json, --markdown, -o"
        )
    from tracediff.query.apart import generous
    from tracediff.query.tables import Tables, check, needs_events, needs_measuring, sides_of
    from tracediff.write import check_outputs

    text = sys.stdin.read() if words[-1] == "-" else words[-1]
    check_outputs([path for path in (parquet, output) if path is not None], written.overwrite, words[:-1])
    if words[-1] != "-" and os.path.exists(words[-1]):  # noqa: PTH110 SQL may be too long for a path
        raise click.UsageError("the SQL comes last: tracediff query CAPTURE [CAPTURE] SQL")
    sides = sides_of(words[:-1])
    reading = replace(request.reading(), cached=True)
    bounds = generous(reading.memory_limit, reading.threads)
    check(text, len(sides), bounds)
    if limit is None:
        limit = ROWS if form in (None, "markdown") and parquet is None else 0
    events, measured = needs_events(text), needs_measuring(text)
    with Tables(sides, reading, events=events, measured=measured, progress=progress()) as tables:
        answers = tables.run(text, limit or None, bounds)
        notes = [f"{note.message} [{note.slug}]" for side in sides for note in side.notes]
        notes += tables.remarks(text)
    form = "parquet" if parquet else form or "text"
    if form == "text" and output is None:
        for answer in answers[:-1]:
            print_answer(answer, full=written.full)
    elif len(answers) > 1:
        notes.append(f"{len(answers)} statements have rows: those of the last are written")
    if answers:
        _write(answers[-1], form, parquet or output, written.overwrite, written.full)
    for note in notes:
        say(f"note: {note}")


def print_answer(answer: Answer, *, full: bool = False) -> None:
    """Print rows for reading, and how many they are."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    click.echo(_text(answer, full, width), nl=False)


def _write(answer: Answer, form: str, path: Path | None, overwrite: bool, full: bool) -> None:
    from tracediff.report import query as rows
    from tracediff.report import tables
    from tracediff.write import write_atomically

    if form == "text" and path is None:
        print_answer(answer, full=full)
        return
    if form == "text":
        data = _text(answer, full, None).encode()
    elif form == "markdown":
        data = rows.markdown(answer.frame, _cut(answer))
    else:
        data = {"csv": rows.csv, "json": rows.json_rows, "parquet": tables.parquet}[form](answer.frame)
        if answer.cut:
            say(_cut(answer))
    if path is None:
        click.echo(data, nl=False)
    else:
        write_atomically(path, data, overwrite)
        say(f"wrote {path} ({_rows(len(answer.frame))})")


def _text(answer: Answer, full: bool, width: int | None) -> str:
    from rich.console import Console

    from tracediff.report.query import PLAN, print_rows

    if answer.frame.columns == PLAN:
        return guard("".join(map(str, answer.frame["explain_value"])))
    console = Console(width=width or 10_000)
    with console.capture() as printed:
        print_rows(answer.frame, console, width=width, full=full)
    return f"{guard(printed.get())}({_cut(answer) or _rows(len(answer.frame))})\n"


def _cut(answer: Answer) -> str:
    return f"the first {_rows(len(answer.frame))}, there are more: {_MORE}" if answer.cut else ""


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"
