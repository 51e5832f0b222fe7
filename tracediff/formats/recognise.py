"""What a file is, by what it holds: one table for `tracediff inputs` and for what other commands say of a wrong file.

A recogniser is told the path and the first bytes (unpacked, where the file is .xz or .gz) and reads little more. To add
a kind: a line in `KINDS`, at a place before every kind that would also take the file.
"""

from __future__ import annotations

import gzip
import lzma
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tracediff.companions.ncu.read import MAGIC as NCU_REPORT
from tracediff.errors import TracediffError
from tracediff.formats import columnar
from tracediff.formats.bundle import is_bundle
from tracediff.formats.kineto import peek

HEAD = 1 << 16
_TRACE = "tracediff compare BASELINE CANDIDATE, tracediff show FILE"
# What Nsight Systems writes at the beginning of a report; the version of nsys follows, its numbers joined by @.
NSYS_REPORT = b"NVIDIA Tegra Profiler Report"
_NSYS_VERSION = re.compile(rb"Report (\d+(?:@\d+){1,3})")


@dataclass(frozen=True)
class Kind:
    """A kind of input. `use`: the command that takes it; `side`: whether it can be a side of a comparison of steps."""

    slug: str
    title: str
    use: str
    fits: Callable[[Path, bytes], bool]
    side: bool = False


_OBJECT = re.compile(rb"\s*\{")


def _result(what: str) -> Callable[[Path, bytes], bool]:
    kind = re.compile(rb'"kind"\s*:\s*"' + what.encode() + rb'"')
    return lambda path, head: bool(
        _OBJECT.match(head) and kind.search(head[:200]) and b'"format_version"' in head[:200]
    )


def _saved_result(path: Path, head: bytes) -> bool:
    return re.match(rb'\s*\{\s*"format_version"\s*:\s*\d+\s*,\s*"(?!kind")', head) is not None


def _ncu_csv(path: Path, head: bytes) -> bool:
    return b"==PROF==" in head or (b'"ID"' in head and b'"Kernel Name"' in head)


def _trtexec(path: Path, head: bytes) -> bool:
    from tracediff.companions.trtexec.read import recognise as known

    return bool(head) and known(head) is not None


def _latencies(path: Path, head: bytes) -> bool:
    from tracediff.companions.latencies.read import SUFFIXES, parse
    from tracediff.companions.latencies.read import recognise as known

    if known(path) is not None:
        return True
    if not path.is_file() or path.suffix.lower() not in SUFFIXES or path.stat().st_size > HEAD << 6:
        return False
    try:
        parse(path)
    except TracediffError as error:
        # one of several series, or a unit, is asked for with an option; a table with a bad cell is said to be one
        asked = (error.fix or "").startswith(
            ("--column", "--unit")
        ) and "no column or key" not in error.message
        return asked or (error.slug == "latencies-bad-value" and path.suffix.lower() in (".csv", ".tsv"))
    return True


def _benchmark(path: Path, head: bytes) -> bool:
    from tracediff.companions.bench.read import read

    if not head or b"\0" in head:
        return False
    try:
        read(path)
    except TracediffError:
        return False
    return True


# The first that fits.
KINDS: tuple[Kind, ...] = (
    Kind("bundle", "a bundle of tracediff capture", "tracediff compare FOLDER", lambda path, head: is_bundle(path)),
    Kind("parquetdir", "an export of Nsight Systems (Parquet files)", _TRACE,
         lambda path, head: columnar.form_of(path) == columnar.PARQUET, side=True),
    Kind("arrowdir", "an export of Nsight Systems (Arrow files)", _TRACE,
         lambda path, head: columnar.form_of(path) == columnar.ARROW, side=True),
    Kind("sqlite", "a SQLite file", _TRACE, lambda path, head: head.startswith(b"SQLite format 3\0"), side=True),
    Kind("nsys-report", "a report of Nsight Systems", _TRACE, lambda path, head: head.startswith(NSYS_REPORT), side=True),
    Kind("ncu-report", "a report of Nsight Compute", "tracediff ncu BASELINE CANDIDATE",
         lambda path, head: head.startswith(NCU_REPORT)),
    Kind("torch-trace", "a trace of torch.profiler", _TRACE,
         lambda path, head: head.lstrip()[:1] == b"{" and peek(path) is not None, side=True),
    Kind("show-result", "a saved result of tracediff show", "tracediff report FILE", _result("show")),
    Kind("ncu-result", "a saved result of tracediff ncu", "tracediff report FILE", _result("ncu")),
    Kind("trtexec-result", "a saved result of tracediff trtexec", "tracediff report FILE", _result("trtexec")),
    Kind("latencies-result", "a saved result of tracediff latencies", "tracediff report FILE", _result("latencies")),
    Kind("result", "a saved result of tracediff compare", "tracediff report FILE", _saved_result),
    Kind("ncu-csv", "what ncu --csv printed", "tracediff ncu BASELINE CANDIDATE", _ncu_csv),
    Kind("trtexec", "what trtexec printed or exported", "tracediff trtexec BASELINE CANDIDATE", _trtexec),
    Kind("benchmark", "a benchmark's own report or log",
         "tracediff compare A B --baseline-kpi FILE --candidate-kpi FILE", _benchmark),
    Kind("latencies", "latencies measured without a profiler", "tracediff latencies BASELINE CANDIDATE", _latencies),
)  # fmt: skip


def head_of(path: Path) -> bytes:
    """The first bytes of a file, unpacked; b"" of a folder. Raises `TracediffError`: bad-xz, bad-gzip; OSError."""
    if not path.is_file():
        return b""
    with path.open("rb") as file:
        head = file.read(HEAD)
        packed = packing(head)
        file.seek(0)
        try:
            if packed == "xz":
                with lzma.open(file) as stream:
                    return stream.read(HEAD)
            if packed == "gzip":
                with gzip.open(file) as stream:
                    return stream.read(HEAD)
        except EOFError as error:
            if packed == "gzip":  # as the loader of traces says it
                raise TracediffError(
                    "truncated",
                    f"{path.name} is cut short: its gzip stream has no end",
                    fix="copy or pack it again",
                ) from error
            raise TracediffError(
                "bad-xz", f"{path.name} is not a whole .xz file: {error}", fix="copy or pack it again"
            ) from error
        except (lzma.LZMAError, zlib.error, gzip.BadGzipFile) as error:
            raise TracediffError(
                f"bad-{packed}",
                f"{path.name} is not a whole .{packed[:2]} file: {error}",
                fix="copy or pack it again",
            ) from error
    return head


def packing(head: bytes) -> str:
    """'xz', 'gzip' or ''."""
    return "xz" if head[:6] == b"\xfd7zXZ\0" else "gzip" if head[:2] == b"\x1f\x8b" else ""


def recognise(path: Path) -> Kind | None:
    """What a file or folder is, None where nothing fits.

    Raises `TracediffError`: bad-xz, bad-gzip, mixed-folder; OSError.
    """
    head = head_of(path)
    return next((kind for kind in KINDS if kind.fits(path, head)), None)


def report_version(head: bytes) -> str:
    """The version of nsys that wrote a report, from its first bytes; "" where they do not say."""
    found = _NSYS_VERSION.search(head[:200])
    return found[1].decode().replace("@", ".") if found else ""


def refuse_other(
    path: Path,
    takes: Callable[[Kind], bool] = lambda kind: kind.side,
    wanted: str = "no trace of a program's steps",
) -> None:
    """Raise `TracediffError` (other-input) where a file is known and no side of a comparison of steps.

    Another command says what it `takes`, and in words what the file is not.
    """
    try:
        kind = recognise(path)
    except (TracediffError, OSError):
        return  # the loader says what is wrong with it
    if kind is not None and kind.slug == "torch-trace" and takes(kind):
        with path.open("rb") as file:
            suffix = ".json.gz" if packing(file.read(8)) == "gzip" else ".json"
        raise TracediffError(
            "other-input",
            f"{path.name} is {kind.title}, and its name does not say so",
            fix=f"rename it to {path.stem}{suffix}",
            exit_code=2,
        )
    if kind is not None and not takes(kind):
        raise TracediffError(
            "other-input",
            f"{path.name} is {kind.title}, and {wanted}",
            fix=kind.use,
            exit_code=2,
        )
