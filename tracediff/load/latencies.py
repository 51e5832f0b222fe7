"""Plain measurements: a file with one latency an iteration -> `LatencyFile`. The format is recognised by its content.

    pytest-benchmark   `pytest --benchmark-json FILE`: benchmarks[].stats.data, s an iteration (pytest_benchmark/stats.py)
    hyperfine          `hyperfine --export-json FILE`: results[].times, s (src/benchmark/benchmark_result.rs, 1.x);
                       2.0 previews: results[].measurements[].time_wall_clock, with its unit
    vllm-latency       `vllm bench latency --output-json FILE`: avg_latency, latencies, percentiles, s
                       (benchmarks/benchmark_latency.py)
    iteration-log      TensorRT-LLM's iteration log or statistics (tracediff.load.kpi): host step time of iterations that
                       only generate, ms
    json               a list of numbers or of objects; an object with one list: {"times_ms": [...]}, {"unit": "us", ...}
    jsonl              an object a line
    csv                with a header; separated by comma, semicolon or tab
    text               a number a line; lines that begin with # are comments

triton.testing.do_bench(..., return_mode="all") (python/triton/testing.py) and torch.utils.benchmark's Measurement.times give
Python lists, in ms and in s: saved as JSON they say no unit, so they need --unit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tracediff.errors import TracediffError
from tracediff.load import kpi, latencies_json, latencies_text
from tracediff.load.latencies_found import Found, in_ns
from tracediff.load.latency_names import is_latency, settle_unit

MAX_BYTES = 64 << 20
SUFFIXES = (".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".txt", ".log")
FORMS = 'a list of numbers, {"times_ms": [...]}, CSV with a header such as latency_ms, or a number a line'
_PEEK = 4 << 20
_LOGS = ("iteration-log", "iteration-stats")
_STEP_TIMES: dict[str, Callable[[kpi.Iteration], float | None]] = {
    "host_step_time": lambda one: one.host_ms,
    "device_step_time": lambda one: one.device_ms,
}


@dataclass(frozen=True)
class LatencyFile:
    """The latencies of one run, in the order in which they were measured."""

    name: str  # base name of the file
    format: str
    column: str  # column, key, benchmark or command; '' where the file has only the numbers
    unit: str  # as in the file: ns, us, ms, s
    unit_from: str  # what told it
    digest: str  # SHA-256 of the file
    ns: npt.NDArray[np.float64]
    note: str = ""


def read(path: Path, *, column: str | None = None, unit: str | None = None) -> LatencyFile:
    """Read a file. `column`: which column, key, benchmark or command; `unit`: ns, us, ms or s, where the file says none.

    Raises `TracediffError`: latencies-unreadable, latencies-unknown-format, latencies-empty, latencies-column,
    latencies-unit, latencies-bad-value, latencies-decimal-comma, latencies-no-data; other-input where it is a file for
    another command.
    """
    try:
        return parse(path, column, unit)
    except TracediffError:
        from tracediff.load.recognise import refuse_other

        refuse_other(path, lambda kind: kind.slug in ("latencies", "benchmark"), "no latencies")
        raise


def parse(path: Path, column: str | None = None, unit: str | None = None) -> LatencyFile:
    """`read` without asking what else the file may be: what recognises files asks this."""
    data = _bytes(path)
    where = path.name
    found = _find(data, path, column)
    known, told = settle_unit(found.name, found.unit, unit, where)
    if found.format in ("pytest-benchmark", "hyperfine", "vllm-latency", *_LOGS):
        told = told if told == "--unit" else f"the format {found.format}"
    values = in_ns(found, known, where)
    return LatencyFile(
        where, found.format, found.name, known, told, hashlib.sha256(data).hexdigest(), values, found.note
    )


def recognise(path: Path) -> str | None:
    """Return what kind of latencies a file holds (`pytest-benchmark`, `csv`, ...), None where it is something else.

    Only known producers, lists of numbers, and names that speak of a duration count: a CSV with any number in it does not.
    Looks at no more than the first megabytes; raises nothing.
    """
    try:
        if not path.is_file() or path.suffix.lower() not in SUFFIXES or path.stat().st_size > _PEEK:
            return None
        data = path.read_bytes()
        if b"\0" in data or b'"traceEvents"' in data or b'"format_version"' in data:
            return None
        found = _own(data, None, path.name)
    except TracediffError as error:
        return "unclear" if error.slug in ("latencies-no-data", "latencies-decimal-comma") else None
    except (OSError, UnicodeDecodeError):
        return None
    if found is None or not found.values:
        return None
    told = found.unit is not None or not found.name or is_latency(found.name)
    return found.format if told else None


def _bytes(path: Path) -> bytes:
    try:
        size = path.stat().st_size
        if not path.is_file() or size > MAX_BYTES:
            what = (
                f"{size:,} bytes, the most that is read is {MAX_BYTES:,}"
                if path.is_file()
                else "is not a file"
            )
            raise TracediffError(
                "latencies-unreadable", f"{path.name}: {what}", fix="give a file with fewer latencies"
            )
        return path.read_bytes()
    except OSError as error:
        raise TracediffError(
            "latencies-unreadable", f"{path}: {error.strerror or error}", fix="check the path"
        ) from error


def _find(data: bytes, path: Path, column: str | None) -> Found:
    where = path.name
    if not data.strip(b"\xef\xbb\xbf \t\r\n"):
        raise TracediffError("latencies-empty", f"{where} is empty", fix="give a file with measurements")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in data[:4096]:
        raise TracediffError(
            "latencies-unreadable",
            f"{where} is no UTF-8 text",
            fix="save it as UTF-8; traces go to tracediff compare",
        )
    try:
        found = _own(data, column, where)
    except UnicodeDecodeError as error:
        raise TracediffError(
            "latencies-unreadable", f"{where} is no UTF-8 text: {error.reason}", fix="save it as UTF-8"
        ) from error
    found = found or _iteration_log(path, column)
    if found is None:
        raise TracediffError(
            "latencies-unknown-format",
            f"{where}: no latencies of a form that is known here{_broken(data)}",
            fix=FORMS,
        )
    return found


def _broken(data: bytes) -> str:
    """Say what is wrong with a file that begins like JSON."""
    text = data.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text[:1] not in (b"{", b"["):
        return ""
    try:
        latencies_json.parse(text)
    except ValueError as error:
        return f"; as JSON it is broken: {error}"
    return ""


def _own(data: bytes, column: str | None, where: str) -> Found | None:
    """What JSON and text readers find; commas and braces bound what a hostile file may become in memory."""
    if data.count(b",") > 8_000_000 or data.count(b"{") > 2_000_000:
        raise TracediffError(
            "latencies-unreadable", f"{where}: too many values", fix="give a file with fewer latencies"
        )
    text = data.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text[:1] in (b"{", b"["):
        try:
            value = latencies_json.parse(text)
        except ValueError:
            pass  # an object a line, or a log
        else:
            return latencies_json.find(value, column, where)
    return latencies_text.find(data.decode("utf-8-sig"), column, where)


def _iteration_log(path: Path, column: str | None) -> Found | None:
    """Step times of TensorRT-LLM's own log; those of other ranks and of steps with prompts are another workload."""
    try:
        report = kpi.read(path)
    except TracediffError:
        return None
    name = column or "host_step_time"
    if report.kind not in _LOGS or name not in _STEP_TIMES:
        return None
    rank = min((one.rank for one in report.iterations), default=0)
    mine = [one for one in report.iterations if one.rank == rank and one.generation]
    values = [value for one in mine if (value := _STEP_TIMES[name](one)) is not None]
    if not values:
        return None
    left = len(report.iterations) + report.iterations_left_out - len(values)
    note = (
        f"{left} of {left + len(values)} records left out: other ranks, or not only generating"
        if left
        else ""
    )
    return Found(report.kind, name, values, "ms", note=note)
