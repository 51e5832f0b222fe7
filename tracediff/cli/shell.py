"""`tracediff shell`: a prompt for SQL over the tables of one or two captures."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracediff.cli.options import complete_files, progress, takes
from tracediff.cli.query import ROWS, print_answer
from tracediff.errors import TracediffError
from tracediff.request import ReadRequest

if TYPE_CHECKING:
    from tracediff.query.reference import Table
    from tracediff.query.tables import Tables

_HELP = """\
SELECT ...;       SQL of DuckDB, over as many lines as it takes, up to the semicolon
.tables           what tables there are
.schema [TABLE]   the columns of a table, with their meaning
.limit N          rows that are shown of an answer, 0 for all
.full on|off      show long texts whole
.quit             end (also Ctrl-D)"""


@click.command(epilog="Example: echo 'SELECT count(*) FROM op;' | tracediff shell run.sqlite")
@click.argument(
    "captures", metavar="CAPTURE [CAPTURE]", nargs=-1, required=True, shell_complete=complete_files
)
@click.option("--history", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="Keep what you type in this file.  [default: it is forgotten]")  # fmt: skip
@click.option(
    "--limit", type=click.IntRange(0), default=ROWS, show_default=True, metavar="N",
    help="Rows that are shown of an answer, 0 for all.",
)  # fmt: skip
@takes(request=ReadRequest)
def shell(captures: tuple[str, ...], history: Path | None, limit: int, request: ReadRequest) -> None:
    """Ask SQL of one or two captures at a prompt; .help lists what else it knows.

    CAPTURE is what `compare` takes. With two, or with a capture bundle, the tables are baseline.NAME and
    candidate.NAME. Nothing but the captures can be read, and nothing changed. Piped input works as well: the exit
    status is then 1 where a statement failed.
    """
    if len(captures) > 2:
        raise click.UsageError("one or two captures are needed")
    from tracediff.query.tables import Tables, sides_of

    sides = sides_of(captures)
    with Tables(sides, request.reading(), progress=progress()) as tables:
        session = _Session(tables, limit)
        for note in (note for side in sides for note in side.notes):
            click.echo(f"note: {note.message} [{note.slug}]", err=True)
        for error in tables.missing.values():
            click.echo(f"note: tables of measured steps are not there: {error}", err=True)
        if sys.stdin.isatty():
            typed = _Typed(history)
            try:
                session.read(typed)
            finally:
                typed.save()
        elif session.read(_piped):
            sys.exit(1)


class _Session:
    """What was typed so far, and how answers are shown."""

    def __init__(self, tables: Tables, limit: int) -> None:
        self._tables = tables
        self._limit = limit
        self._full = False

    def read(self, source: Callable[[bool], str | None]) -> bool:
        """Answer line after line until there are no more or one says so; whether anything failed.

        `source` gives the next line, None after the last; it is told whether a statement is under way.
        """
        pending, failed = "", False
        while True:
            try:
                line = source(bool(pending.strip()))
                if line is None:
                    line, last = "", True
                else:
                    last = False
                    if not pending.strip() and line.strip().startswith("."):
                        if line.split()[0] in (".quit", ".exit"):
                            return failed
                        self._command(line.split())
                        continue
                pending += line
                if last or _complete(pending):
                    text, pending = pending, ""
                    self._answer(text)
            except TracediffError as error:
                failed = True
                click.echo(f"error: {error}", err=True)
            except KeyboardInterrupt:
                if not sys.stdin.isatty():
                    raise
                pending = ""
                click.echo("\ninterrupted", err=True)  # the statement, or what was typed of one
                continue
            if last:
                return failed

    def _answer(self, text: str) -> None:
        for answer in self._tables.run(text, self._limit or None):
            print_answer(answer, full=self._full, more=".limit 0 shows all")
        for note in self._tables.not_captured(text):
            click.echo(f"note: {note}", err=True)

    def _command(self, words: list[str]) -> None:
        from tracediff.query.reference import table, tables

        name, rest = words[0], words[1:]
        if name == ".help":
            click.echo(_HELP)
        elif name == ".tables":
            there = self._tables.names()
            width = max(map(len, there))
            for one in tables():
                if one.name in there:
                    click.echo(f"{one.name:{width}}  {one.text.split('. ')[0].rstrip('.')}")
            if len(self._tables.schemas) > 1:
                click.echo(f"in {' and '.join(self._tables.schemas)}: {self._tables.schemas[0]}.op, ...")
        elif name == ".schema":
            for word in rest or self._tables.names():
                found = table(word.rsplit(".", 1)[-1])
                if found is None:
                    raise _unknown(f"there is no table {word}", ".tables lists them")
                _print_schema(found)
        elif name == ".limit" and len(rest) == 1 and rest[0].isdigit():
            self._limit = int(rest[0])
        elif name == ".full" and rest in (["on"], ["off"]):
            self._full = rest == ["on"]
        else:
            raise _unknown(
                f"{' '.join(words)}: no command of this prompt", ".help lists them; SQL ends with ;"
            )


def _complete(text: str) -> bool:
    """Whether a statement ends with this line: with a semicolon outside strings, names and comments."""
    import duckdb

    tokens = duckdb.tokenize(text)  # where tokens begin, without comments and what is not closed
    if not tokens:
        return not text.strip()
    rest = text.encode()[tokens[-1][0] :].decode()
    after = rest[1:].strip()
    return rest.startswith(";") and (not after or after.startswith(("--", "/*")))


def _print_schema(table: Table) -> None:
    names = max(len(one.name) for one in table.columns)
    kinds = max(len(one.type) for one in table.columns)
    click.echo(f"{table.name}: {table.text}")
    for one in table.columns:
        click.echo(f"  {one.name:{names}}  {one.type:{kinds}}  {one.text}".rstrip())


def _unknown(what: str, fix: str) -> TracediffError:
    return TracediffError("shell-command", what, fix=fix)


def _piped(_: bool) -> str | None:
    return sys.stdin.readline() or None


class _Typed:
    """Lines from a terminal, with editing and the names of tables and columns on the tab key."""

    def __init__(self, history: Path | None) -> None:
        import readline

        from tracediff.query.reference import tables

        self._history = history
        self._words = sorted(
            {one.name for one in tables()} | {column.name for one in tables() for column in one.columns}
        )
        readline.set_completer(self._complete)
        readline.set_completer_delims(" \t\n,.()=<>+-*/;\"'")
        readline.parse_and_bind("tab: complete")
        if history is not None and history.exists():
            readline.read_history_file(history)
        click.echo("SQL ends with a semicolon; .help lists commands, .quit ends", err=True)

    def __call__(self, under_way: bool) -> str | None:
        try:
            return input("      ...> " if under_way else "tracediff> ") + "\n"
        except EOFError:
            click.echo()
            return None

    def save(self) -> None:
        """Write what was typed, where that was asked for; for the user alone."""
        import readline

        if self._history is not None:
            os.close(os.open(self._history, os.O_CREAT | os.O_WRONLY, 0o600))
            readline.write_history_file(self._history)

    def _complete(self, text: str, state: int) -> str | None:
        found = [word for word in self._words if word.startswith(text.lower())]
        return found[state] if state < len(found) else None
