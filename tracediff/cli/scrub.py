"""`tracediff scrub`: a copy of an export or a trace without environment, host, user and paths."""

from __future__ import annotations

from pathlib import Path

import click

from tracediff.capture import scrub as scrubbing
from tracediff.capture.scrub import scrub_trace
from tracediff.cli.say import say
from tracediff.formats.bundle import is_bundle
from tracediff.formats.kineto import is_trace_name
from tracediff.formats.recognise import counted
from tracediff.write import refuse_input


@click.command()
@click.argument("source", metavar="IN", type=click.Path(path_type=Path))
@click.argument("target", metavar="OUT", type=click.Path(path_type=Path))
@click.option("-f", "--overwrite", is_flag=True, help="Overwrite OUT.")
@click.option(
    "--keep-table",
    "keep_tables",
    multiple=True,
    metavar="NAME",
    help="Keep a table that tracediff does not read (repeatable). Its text is cleaned like that of names.",
)
@click.option(
    "--keep-kpi", is_flag=True, help="Of a bundle: keep the benchmark reports, as they are. Read them first."
)
def scrub(source: Path, target: Path, overwrite: bool, keep_tables: tuple[str, ...], keep_kpi: bool) -> None:
    """Remove environment, host, user and paths from an export, and prove that no measurement changed.

    IN is an export (.sqlite, .sqlite.xz, or a folder of Parquet files, which becomes SQLite); OUT is packed when its name
    ends in .xz. Kept are the tables, columns and records that tracediff reads, with every row of what was measured. Numbers stay as they are;
    names of kernels, ranges and threads are cleaned of paths, addresses, hosts and control characters. All other text and all bytes go.

    IN may be a trace of torch.profiler (.json, .json.gz): kept are the events that are read of it, with cleaned names.

    IN may be a bundle of `tracediff capture`: OUT is then a folder, a bundle with packed exports, without command
    lines, logs and benchmark reports.
    """
    refuse_input(target, [source])
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
        f"  {same} tables as they were; {changed} values cleaned; dropped: {report.records_dropped} records, {report.strings_dropped} strings"
    )
    tables, columns = (
        counted(len(report.dropped_tables), "table"),
        counted(len(report.dropped_columns), "column"),
    )
    say(f"  left out: {tables} and {columns} that tracediff does not read (--keep-table keeps a table)")
    for name in report.dropped_tables:
        if not name.startswith("ENUM_"):
            say(f"    {name!r}")


def _bundle(source: Path, target: Path, keep_kpi: bool) -> None:
    from tracediff.capture.scrub import scrub_bundle

    report = scrub_bundle(source, target, keep_kpi=keep_kpi)
    say(
        f"{target}: {report.exports} exports, {report.rows} rows read back and equal,"
        f" {report.bytes / 2**20:.1f} MiB"
    )
    if report.left_out:
        say(f"  left out: {len(report.left_out)} benchmark reports (--keep-kpi keeps them), and all logs")
