"""Whether a file that is named `.nsys-rep` can be a report: said before nsys is looked for."""

from __future__ import annotations

from pathlib import Path

from tracediff.errors import TracediffError
from tracediff.load.recognise import HEAD, NSYS_REPORT

# Formats by their first bytes, as their specifications and file(1) have them.
_BEGINS = (
    (b"SQLite format 3\0", "a SQLite file"), (b"\x89PNG\r\n\x1a\n", "a PNG picture"), (b"\xff\xd8\xff", "a JPEG picture"),
    (b"GIF8", "a GIF picture"), (b"%PDF-", "a PDF document"), (b"PK\x03\x04", "a ZIP archive"), (b"\x1f\x8b", "a gzip file"),
    (b"\xfd7zXZ\0", "an xz file"), (b"\x28\xb5\x2f\xfd", "a zstd file"), (b"\x7fELF", "a program or library (ELF)"),
    (b"PAR1", "a Parquet file"), (b"ARROW1", "an Arrow file"), (b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
    (b"NVR\0", "a report of Nsight Compute"),
)  # fmt: skip
_TEXT = frozenset({*range(0x20, 0x7F), *b"\t\n\r\f\x1b", *range(0x80, 0x100)})


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
    what = next((title for magic, title in _BEGINS if head.startswith(magic)), None)
    if what is None and _TEXT.issuperset(head):
        what = "text"
    if what is not None:
        fix = f"rename it to {path.stem}.sqlite" if what == "a SQLite file" else "give the report itself"
        raise TracediffError(
            "not-a-report",
            f"{path.name} is {what}, and no report of Nsight Systems whatever its name says",
            fix=fix,
        )
