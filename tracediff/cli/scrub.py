"""`tracediff scrub`: a copy of an export without environment, host, user and paths."""

from __future__ import annotations

from pathlib import Path

import click

from tracediff.capture import scrub as scrubbing


@click.command()
@click.argument("source", metavar="IN", type=click.Path(path_type=Path))
@click.argument("target", metavar="OUT", type=click.Path(path_type=Path))
@click.option("-f", "--overwrite", is_flag=True, help="Overwrite OUT.")
@click.option(
    "--keep-table",
    "keep_tables",
    multiple=True,
    metavar="NAME",
    help="Keep a table that nsys does not write (repeatable). Its text is cleaned like any other.",
)
def scrub(source: Path, target: Path, overwrite: bool, keep_tables: tuple[str, ...]) -> None:
    """Remove environment, host, user and paths from an export, and prove that no measurement changed.

    IN is a .sqlite or .sqlite.xz export; OUT is packed when its name ends in .xz. Every row of every measured
    table is kept; only text in it is cleaned of paths and control characters. Dropped are the environment,
    command arguments beyond an allow-list, output of the traced programs, names of other processes, strings
    that no row refers to, and tables that nsys does not write.
    """
    report = scrubbing.scrub(source, target, force=overwrite, keep_tables=keep_tables)
    same = sum(proof.untouched for proof in report.tables)
    rows = sum(proof.rows_kept for proof in report.tables)
    changed = sum(proof.texts_changed for proof in report.tables)
    click.echo(f"{target}: {len(report.tables)} tables, {rows} rows read back and equal", err=True)
    click.echo(
        f"  {same} tables byte for byte; {changed} texts cleaned; dropped: {report.records_dropped} records,"
        f" {report.strings_dropped} strings, {report.processes_dropped} processes;"
        f" {report.arguments_removed} arguments removed",
        err=True,
    )
    for name in report.dropped_tables:
        click.echo(f"  left out: {name!r} (not a table of nsys; --keep-table to keep it)", err=True)
