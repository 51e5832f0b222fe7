"""`tracediff scrub`: a copy of an export or a trace without environment, host, user and paths."""

from __future__ import annotations

from pathlib import Path

import click

from tracediff.capture import scrub as scrubbing
from tracediff.capture.scrub import scrub_trace
from tracediff.cli.say import say
from tracediff.formats.bundle import is_bundle
from tracediff.formats.kineto import is_trace_name


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
@click.option(
    "--keep-kpi", is_flag=True, help="Of a bundle: keep the benchmark reports, as they are. Read them first."
)
def scrub(source: Path, target: Path, overwrite: bool, keep_tables: tuple[str, ...], keep_kpi: bool) -> None:
    """Remove environment, host, user and paths from an export, and prove that no measurement changed.

    IN is an export (.sqlite, .sqlite.xz, or a folder of Parquet files, which becomes SQLite); OUT is packed when its name
    ends in .xz. Every row of every measured table is kept; only text in it is cleaned of paths and control characters, and bytes (NVTX payloads in binary
    form) are removed. Dropped are the environment, command arguments beyond an allow-list, output of the traced
    programs, names of other processes, strings that no row refers to, and tables and columns that nsys does not write.

    IN may be a trace of torch.profiler (.json, .json.gz): kept are the events that are read of it, with cleaned names.

    IN may be a bundle of `tracediff capture`: OUT is then a folder, a bundle with packed exports, without command
    lines, logs and benchmark reports.
    """
    if is_bundle(source):
        _bundle(source, target, keep_kpi)
        return
    if is_trace_name(source):
        trace = scrub_trace(source, target, overwrite=overwrite)
        say(
            f"{target}: {trace.events} events read back and equal; {trace.texts_changed} texts cleaned;"
            f" left out: {trace.left_out} events that are not read"
        )
        return
    report = scrubbing.scrub(source, target, force=overwrite, keep_tables=keep_tables)
    same = sum(proof.untouched for proof in report.tables)
    rows = sum(proof.rows_kept for proof in report.tables)
    changed = sum(proof.texts_changed for proof in report.tables)
    say(f"{target}: {len(report.tables)} tables, {rows} rows read back and equal")
    say(
        f"  {same} tables byte for byte; {changed} texts and bytes cleaned; dropped: {report.records_dropped} records,"
        f" {report.strings_dropped} strings, {report.processes_dropped} processes;"
        f" {report.arguments_removed} arguments removed"
    )
    for name in report.dropped_tables:
        say(f"  left out: {name!r} (not a table of nsys; --keep-table to keep it)")
    for name in report.dropped_columns:
        say(f"  left out: {name!r} (not a column of nsys; --keep-table keeps all of a table)")


def _bundle(source: Path, target: Path, keep_kpi: bool) -> None:
    from tracediff.capture.scrub import scrub_bundle

    report = scrub_bundle(source, target, keep_kpi=keep_kpi)
    say(
        f"{target}: {report.exports} exports, {report.rows} rows read back and equal,"
        f" {report.bytes / 2**20:.1f} MiB"
    )
    if report.left_out:
        say(f"  left out: {len(report.left_out)} benchmark reports (--keep-kpi keeps them), and all logs")
