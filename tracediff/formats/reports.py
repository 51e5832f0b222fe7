"""Reports of Nsight Systems (.nsys-rep): exported by the user's own nsys, as Parquet where it can.

nsys writes Parquet in half of the time and bytes that SQLite takes. Its help says what it can (`nsys export --help`).
An nsys of 2023.4 leaves META_DATA_CAPTURE, which says how was recorded, out of Parquet: with `--tables` it is taken from
SQLite, so that results are the same. The command line imports this module at its start, so the database is imported late.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Literal

import msgspec

from tracediff.errors import TracediffError
from tracediff.formats import children
from tracediff.formats.files import SQLITE
from tracediff.formats.recognise import HEAD, NSYS_REPORT

Form = Literal["parquet", "sqlite"]
FORMS: tuple[Form, Form] = ("parquet", "sqlite")
PARQUET_FIRST: Form = "parquet"  # SQLite where this nsys, or this report, cannot be had as Parquet
_PARQUETDIR = "parquetdir"
_CAPTURE = "META_DATA_CAPTURE"

# Formats by their first bytes, as their specifications and file(1) have them.
_BEGINS = (
    (SQLITE, "a SQLite file"), (b"\x89PNG\r\n\x1a\n", "a PNG picture"), (b"\xff\xd8\xff", "a JPEG picture"),
    (b"GIF8", "a GIF picture"), (b"%PDF-", "a PDF document"), (b"PK\x03\x04", "a ZIP archive"), (b"\x1f\x8b", "a gzip file"),
    (b"\xfd7zXZ\0", "an xz file"), (b"\x28\xb5\x2f\xfd", "a zstd file"), (b"\x7fELF", "a program or library (ELF)"),
    (b"PAR1", "a Parquet file"), (b"ARROW1", "an Arrow file"), (b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
    (b"NVR\0", "a report of Nsight Compute"),
)  # fmt: skip
_TEXT = frozenset({*range(0x20, 0x7F), *b"\t\n\r\f\x1b", *range(0x80, 0x100)})
_INSTALL = "install Nsight Systems and put nsys on PATH, or set NSYS to it; or give a .sqlite export"


def refuse_no_report(path: Path) -> None:
    """Raise `TracediffError` (empty-file, not-a-report) where a file is surely no report of Nsight Systems.

    What is neither known nor text is left to nsys: what it will write one day is not known here.
    """
    with path.open("rb") as file:
        head = file.read(HEAD)
    if head.startswith(NSYS_REPORT):
        return
    if not head:
        raise TracediffError("empty-file", f"{path.name} is empty (0 bytes)", fix="copy or record it again")
    text = "text" if _TEXT.issuperset(head) else None
    what = next((title for magic, title in _BEGINS if head.startswith(magic)), text)
    if what is not None:
        fix = f"rename it to {path.stem}.sqlite" if what == "a SQLite file" else "give the report itself"
        raise TracediffError(
            "not-a-report",
            f"{path.name} is {what}, and no report of Nsight Systems whatever its name says",
            fix=fix,
        )


def find_nsys() -> Path | None:
    """The nsys of $NSYS, else of PATH, else the newest under /opt/nvidia. None where there is none."""
    named = os.environ.get("NSYS")
    if named:
        return Path(named) if os.access(named, os.X_OK) else None
    on_path = shutil.which("nsys")
    if on_path:
        return Path(on_path)
    installed = Path("/opt/nvidia")
    found = sorted(installed.glob("nsight-systems*/**/bin/nsys")) if installed.is_dir() else []
    return found[-1] if found else None


class Exporter(msgspec.Struct, frozen=True):
    """An nsys, and what of `nsys export` it knows."""

    nsys: Path
    parquet: bool
    tables: bool  # --tables
    json: bool  # --include-json: NVTX payloads as text (bytes of NCCL's calls)

    @classmethod
    def of(cls, nsys: Path) -> Exporter:
        """Read its help; an nsys without an answer is taken for an old one."""
        try:
            done = _run(nsys, ["export", "--help"], 60)
        except OSError:
            return cls(nsys, parquet=False, tables=False, json=False)
        said = done.stdout + done.stderr
        return cls(nsys, _PARQUETDIR in said, "--tables" in said, "--include-json" in said)


def export_report(
    report: Path, folder: Path, name: str, form: Form = PARQUET_FIRST, *, timeout_s: float = 1800
) -> Path:
    """Export a report to `folder`/`name`_pqtdir or, where that cannot be or SQLite is asked for, to `folder`/`name`.sqlite.

    What is there already is replaced, and only by a whole export. Raises `TracediffError`: nsys-missing, nsys-export-failed.
    """
    nsys = find_nsys()
    if nsys is None:
        raise TracediffError("nsys-missing", f"{report.name} needs nsys to be exported", fix=_INSTALL)
    exporter = Exporter.of(nsys)
    with tempfile.TemporaryDirectory(prefix=f".{name}.", suffix=".part", dir=folder) as part:
        if (
            form == "parquet"
            and exporter.parquet
            and (made := _as_parquet(exporter, report, Path(part), timeout_s))
        ):
            return _moved(made, folder / f"{name}_pqtdir")
        made = Path(part) / "report.sqlite"
        done = _export(exporter, report, "sqlite", made, timeout_s)
        if done.returncode != 0 or not made.is_file():
            tail = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["no message"]
            raise TracediffError(
                "nsys-export-failed",
                f"nsys export of {report.name} failed: {tail[0]}",
                fix="export it with the nsys version that recorded it (an older nsys cannot read newer reports)",
            )
        return _moved(made, folder / f"{name}.sqlite")


def _moved(made: Path, out: Path) -> Path:
    if out.is_dir():
        shutil.rmtree(out)
    return made.replace(out)


def _as_parquet(exporter: Exporter, report: Path, part: Path, timeout_s: float) -> Path | None:
    """A folder of Parquet files with META_DATA_CAPTURE; None where SQLite is needed."""
    import duckdb

    from tracediff.formats import columnar
    from tracediff.formats.database import quoted

    made = part / "report_pqtdir"
    with ThreadPoolExecutor(1) as beside:
        capture = beside.submit(_capture_records, exporter, report, part, timeout_s)
        done = _export(exporter, report, _PARQUETDIR, made, timeout_s)
        records = capture.result()
    if done.returncode != 0 or not made.is_dir() or not columnar.is_folder(made):
        return None
    with closing(duckdb.connect()) as db:
        if records:
            db.execute(
                "CREATE TABLE record AS SELECT unnest(?) AS name, unnest(?) AS value",
                [*zip(*records, strict=True)],
            )
            db.execute(f"COPY record TO {quoted(str(made / f'{_CAPTURE}.parquet'))} (FORMAT parquet)")
        try:
            columnar.check_texts(db, made)
        except duckdb.Error:
            return None  # names that are not UTF-8: of SQLite what can be read of them is read
    return made


def _capture_records(exporter: Exporter, report: Path, part: Path, timeout_s: float) -> list[tuple[str, str]]:
    """META_DATA_CAPTURE without the programs' environment; nothing where this nsys cannot export it alone."""
    if not exporter.tables:
        return []
    out = part / "capture.sqlite"
    _export(exporter, report, "sqlite", out, timeout_s, [f"--tables=^{_CAPTURE}$"])
    try:
        with closing(sqlite3.connect(f"{out.absolute().as_uri()}?mode=ro", uri=True)) as db:
            return db.execute(
                f"SELECT name, value FROM {_CAPTURE} WHERE name NOT LIKE '%ENVIRONMENT%'"
            ).fetchall()
    except sqlite3.Error:
        return []
    finally:
        out.unlink(missing_ok=True)


def _export(
    exporter: Exporter, report: Path, kind: str, out: Path, timeout_s: float, more: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    payloads = ["--include-json=true"] if exporter.json else []
    options = ["--type", kind, "--force-overwrite", "true", *payloads, *more, "-o", str(out)]
    try:
        return _run(exporter.nsys, ["export", *options, str(report)], timeout_s)
    except OSError as error:
        raise TracediffError("nsys-export-failed", f"nsys export of {report.name} failed: {error}") from error


def _run(nsys: Path, words: list[str], timeout_s: float) -> subprocess.CompletedProcess[str]:
    return children.run([str(nsys), *words], timeout_s)
