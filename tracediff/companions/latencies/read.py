"""Plain measurements: a file with one latency an iteration -> `LatencyFile`. The format is recognised by its content.

    json    a list of numbers or of objects; an object with a list of numbers somewhere in it: {"times_ms": [...]}, {"unit": "us", ...}
    csv     with a header; separated by comma, semicolon or tab
    text    a number a line; lines that begin with # are comments

pytest-benchmark (`--benchmark-json FILE`: benchmarks[].stats.data) and hyperfine (`--export-json FILE`: results[].times) write seconds.
Others, as triton.testing.do_bench(..., return_mode="all") (ms) and torch.utils.benchmark's Measurement.times (s), give lists that say no
unit: it stands behind the name, FILE:ms, and so does a column, FILE:COLUMN or FILE:COLUMN:ms.
"""

from __future__ import annotations

import csv
import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from tracediff.arrays import Floats
from tracediff.errors import TracediffError
from tracediff.formats.files import missing
from tracediff.report.amounts import NAME

MAX_BYTES = 64 << 20
SUFFIXES = (".json", ".csv", ".tsv", ".txt", ".log")
_FORMS = 'a list of numbers, {"times_ms": [...]}, CSV with a header such as latency_ms, or a number a line'
_PEEK = 16 << 20
MAX_VALUES = 2_000_000
MAX_RUNS = 1000
LONGEST_NS = 1e16  # 116 days: beyond it the unit is wrong
# slug -> what to do, where it is always the same
_FIXES = {
    "latencies-unreadable": "give a file with fewer latencies",
    "latencies-empty": "give a file with measurements",
    "latencies-bad-value": "leave out, or mend, what is no measurement; decimals have a point",
    "latencies-unknown-format": _FORMS,
}


class UnsettledError(TracediffError):
    """A file of latencies that an option would settle."""


class Wanted(msgspec.Struct, frozen=True):
    """What is said behind the name of a file or folder: which column or key holds the latencies, and their unit. where: the name, for messages."""

    where: str = ""
    column: str | None = None
    unit: str | None = None

    def error(
        self, slug: str, what: str, fix: str = "", kind: type[TracediffError] = TracediffError
    ) -> TracediffError:
        """The error of this file; `fix`: where the slug alone does not say what to do."""
        return kind(slug, f"{self.where}: {what}", fix=fix or _FIXES[slug])


def split(word: str) -> tuple[Path, Wanted]:
    """A word of the command line -> the path, and what is said of it: FILE, FILE:COLUMN, FILE:UNIT or FILE:COLUMN:UNIT."""
    if Path(word).exists() or ":" not in word:
        return Path(word), Wanted()
    file, _, said = word.partition(":")
    column, _, unit = said.rpartition(":")
    return Path(file), Wanted(file, column or None, unit) if unit in UNITS else Wanted(file, said)


class LatencyFile(msgspec.Struct, frozen=True):
    """The latencies of one run, in the order in which they were measured."""

    name: str  # base name of the file
    format: str
    column: str  # column, or keys with dots between them; '' where the file has only the numbers
    unit: str  # as in the file: ns, us, ms, s
    unit_from: str  # what told it
    digest: str  # SHA-256 of the file
    ns: Floats


class Found(msgspec.Struct, frozen=True):
    """The list of values in a file; `unit`: what the file says, None where only the name can tell."""

    format: str
    name: str  # as `LatencyFile.column`
    values: Sequence[object]
    unit: str | None = None

    @property
    def key(self) -> str:
        """What speaks of the values: the last of the keys."""
        return self.name.rpartition(".")[2]


def read(path: Path, said: Wanted | None = None) -> LatencyFile:
    """Read a file; `said`: which column or key, and the unit where the file says none.

    Raises `TracediffError`: latencies-unreadable, latencies-unknown-format, latencies-empty, latencies-column,
    latencies-unit, latencies-bad-value; other-input where it is a file for another command.
    """
    wanted = replace(said or Wanted(), where=path.name)
    try:
        data = _bytes(path, wanted)
        found = find(data, wanted)
        unit, source = settle_unit(found.key, found.unit, wanted)
        digest = hashlib.sha256(data).hexdigest()
        return LatencyFile(
            path.name, found.format, found.name, unit, source, digest, in_ns(found, unit, wanted)
        )
    except TracediffError:
        from tracediff.formats.recognise import refuse_other

        refuse_other(path, lambda kind: kind.slug in ("latencies", "benchmark"), "no latencies")
        raise


def read_side(words: Sequence[str | Path]) -> list[LatencyFile]:
    """Read files, and the files of folders in the order of their names: each is one run. `words`: as `split` takes them.

    Raises `TracediffError`: not-a-file, latencies-empty-folder, latencies-column, and those of `read`.
    """
    files = [(file, said) for path, said in map(split, map(str, words)) for file in _files(path)]
    if len(files) > MAX_RUNS:
        what = f"{len(files)} files on a side, the most is {MAX_RUNS}"
        raise TracediffError("latencies-empty-folder", what, fix="name the runs of one side")
    read_files = [read(file, said) for file, said in files]
    if len({file.name for file, _ in files}) < len(files):  # a folder a run
        read_files = [
            replace(one, name=f"{file.parent.name}/{one.name}")
            for one, (file, _) in zip(read_files, files, strict=True)
        ]
    # a file of numbers alone says nothing of what they are
    named = [file for file in read_files if file.column]
    other = next((file for file in named if quantity(file.column) != quantity(named[0].column)), None)
    if other is not None:
        raise TracediffError(
            "latencies-column",
            f"the files of one side have different columns: {named[0].column[:60]} in {named[0].name},"
            f" {other.column[:60]} in {other.name}",
            fix="FOLDER:COLUMN with one that every file has, or a folder for each",
        )
    return read_files


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        found = sorted(one for one in path.iterdir() if one.is_file() and one.suffix.lower() in SUFFIXES)
        if not found:
            raise TracediffError(
                "latencies-empty-folder",
                f"{path.name or path}: no file of latencies in this folder ({', '.join(SUFFIXES)})",
                fix="a folder with one file a run",
            )
        return found
    if not path.exists():
        raise missing(path)
    return [path]


def recognise(path: Path) -> str | None:
    """Return what kind of latencies a file holds (`json`, `csv`, `text`), None where it is something else.

    Only lists of numbers, and names that speak of a duration count: a CSV with any number in it does not.
    Looks at no more than the first megabytes; raises nothing.
    """
    try:
        if not path.is_file() or path.suffix.lower() not in SUFFIXES or path.stat().st_size > _PEEK:
            return None
        data = path.read_bytes()
        if b"\0" in data or b'"traceEvents"' in data or b'"format_version"' in data:
            return None
        found = find(data, Wanted(path.name))
    except TracediffError as error:
        unclear = error.slug == "latencies-bad-value" or isinstance(error, UnsettledError)
        return "unclear" if unclear else None
    except OSError:
        return None
    told = found.unit is not None or not found.name or is_latency(found.key)
    return found.format if told and found.values else None


def _bytes(path: Path, wanted: Wanted) -> bytes:
    try:
        if not path.is_file():
            raise wanted.error("latencies-unreadable", "is not a file", "check the path")
        if (size := path.stat().st_size) > MAX_BYTES:
            what = f"{size:,} bytes, the most that is read is {MAX_BYTES:,}"
            raise wanted.error("latencies-unreadable", what)
        return path.read_bytes()
    except OSError as error:
        raise wanted.error("latencies-unreadable", error.strerror or str(error), "check the path") from error


def find(data: bytes, wanted: Wanted) -> Found:
    """The latencies of a file, which is lists of values by name. Commas and braces bound what a hostile one may become in memory.

    Raises `TracediffError`: latencies-unreadable, latencies-empty, latencies-unknown-format, latencies-column, latencies-unit,
    latencies-bad-value.
    """
    if data.count(b",") > 8_000_000 or data.count(b"{") > 2_000_000:
        raise wanted.error("latencies-unreadable", "too many values")
    try:
        text = data.decode("utf-8-sig").strip()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text[:4096]:
        fix = "save it as UTF-8; traces go to tracediff compare"
        raise wanted.error("latencies-unreadable", "is no UTF-8 text", fix)
    if not text:
        raise wanted.error("latencies-empty", "is empty")
    form, unit = "json", None
    if text[0] in "{[":
        value = parse_json(text, wanted)
        lists = dict(_lists(value, "", 0))
        if lists:
            known = any(
                name.startswith(begin) and name.endswith(end) for name in lists for begin, end in _IN_SECONDS
            )
            unit = "s" if known else _stated(value, wanted)
    else:
        form, lists = _of_text(text, wanted)
    named = [name for name, values in lists.items() if _numbers_mostly(values)]
    if not named:
        if not all(lists.values()):
            raise wanted.error("latencies-empty", "there is no latency in it")
        raise wanted.error("latencies-unknown-format", "no latencies of a form that is known here")
    name = choose(named, wanted) if any(named) else ""
    return Found(form, name, lists[name], unit)


def _numbers_mostly(values: Sequence[object]) -> bool:
    """Whether half of a list or more are numbers, also with a decimal comma: one that is none is then named, not passed over."""
    shown = values[:1000]
    good = sum(as_number(one) is not None or _is_number(str(one).replace(",", ".")) for one in shown)
    return bool(shown) and 2 * good >= len(shown)


# JSON: lists of numbers and of objects, and objects that lead to them.

_UNIT_KEYS = ("unit", "units", "time_unit")
# How the names of lists begin and end that known benchmarks write in seconds.
_IN_SECONDS = (("benchmarks.", ".stats.data"), ("results.", ".times"))
_DEEPEST = 8
_FAILURES = (msgspec.MsgspecError, ValueError, RecursionError)


def parse_json(text: str, wanted: Wanted) -> Any:
    """Decode JSON; NaN and Infinity, which Python's json writes, are let through to be named later.

    Raises `TracediffError` (latencies-unknown-format).
    """
    decode = json.loads if "NaN" in text or "Infinity" in text else msgspec.json.decode
    try:
        return decode(text)
    except _FAILURES as error:
        what = f"no latencies of a form that is known here; as JSON it is broken: {error}"
        raise wanted.error("latencies-unknown-format", what) from error


def _lists(value: object, name: str, depth: int) -> Iterator[tuple[str, list[Any]]]:
    """The lists in a value by their keys with dots between them, in order. An object of a list is called by its name or command, else by its place.

    Objects of numbers, one an iteration, are a list a key.
    """
    inner = f"{name}." if name else ""
    if depth > _DEEPEST:
        return
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _lists(one, f"{inner}{key}", depth + 1)
    elif isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
        for key, one in value[0].items():
            if as_number(one) is not None:
                yield f"{inner}{key}", [each.get(key) for each in value]
        for number, one in enumerate(value):
            called = one.get("name") or one.get("command") or number
            yield from _lists(one, f"{inner}{called}", depth + 1)
    elif isinstance(value, list):
        yield name, value


def _stated(value: Any, wanted: Wanted) -> str | None:
    """The unit that the object states, or those of the list; an unknown one is refused, for nothing may be guessed instead."""
    objects = value if isinstance(value, list) else [value]
    told = {str(one[key]) for one in objects if isinstance(one, dict) for key in _UNIT_KEYS if key in one}
    named = {_UNIT_OF.get(one.strip().lower()) for one in told}
    if len(named) > 1 or None in named:
        units = ", ".join(sorted(one[:20] for one in told))
        raise wanted.error("latencies-unit", f"the unit is given as {units}", "ns, us, ms or s, one for all")
    return named.pop() if named else None


# Text: CSV with a header, a number a line.

_MAX_COLUMNS = 512
_NUMBER = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?\Z|[-+]?(nan|inf|infinity)\Z", re.IGNORECASE)


def _of_text(text: str, wanted: Wanted) -> tuple[str, dict[str, list[object]]]:
    """The columns of a text with a header, or its lines, of which each is a number.

    Raises `TracediffError`: latencies-column, latencies-bad-value, latencies-empty.
    """
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    if not lines:
        raise wanted.error("latencies-empty", "there is no latency in it")
    delimiter = next((one for one in ("\t", ";", ",") if one in lines[0]), None)
    if delimiter is None and _is_number(lines[0].strip()):
        return "text", {"": [_value(line) for line in lines]}
    try:
        header, *body = csv.reader(lines, delimiter=delimiter or ",", skipinitialspace=True, strict=True)
    except csv.Error as error:
        raise wanted.error("latencies-bad-value", f"the CSV cannot be read: {error}") from error
    if all(_is_number(cell.strip().replace(",", ".")) for cell in header):
        fix = "begin with a line of names, such as iteration,latency_ms; decimals have a point"
        raise wanted.error("latencies-column", f"{len(header)} numbers a line and no header", fix)
    if len(header) > _MAX_COLUMNS or len(set(header)) < len(header):
        raise wanted.error("latencies-column", "too many columns, or two of one name", "one name a column")
    meant = wanted.column or wanted.unit or any(map(is_latency, header))
    for number, row in enumerate(body, 1):
        if meant and len(row) != len(header):
            what = f"line {number} below the header has {len(row)} columns, the header {len(header)}"
            raise wanted.error("latencies-bad-value", what)
    return "csv", {
        name.strip(): [_value(row[at]) for row in body if at < len(row)] for at, name in enumerate(header)
    }


def _value(cell: str) -> float | str:
    """A number with a decimal point; nan and inf are some, so that they are refused by name."""
    cell = cell.strip()
    return float(cell) if _is_number(cell) else cell


def _is_number(text: str) -> bool:
    return len(text) < 400 and _NUMBER.match(text) is not None


# What the name of a column or key says: whether it is a latency, and in which unit. Nothing is guessed from values.

UNITS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
"""Unit as it is written in options and results -> ns."""

_WORDS = {
    "ns": ("ns", "nsec", "nsecs", "nanosecond", "nanoseconds", "nano", "nanos"),
    "us": ("us", "\u00b5s", "\u03bcs", "usec", "usecs", "microsecond", "microseconds", "micros"),
    "ms": ("ms", "msec", "msecs", "millisecond", "milliseconds", "millis"),
    "s": ("s", "sec", "secs", "second", "seconds"),
}
_UNIT_OF = {word: unit for unit, words in _WORDS.items() for word in words}
_LATENCY = {"latency", "latencies", "time", "times", "duration", "durations", "elapsed", "runtime", "runtimes"}  # fmt: skip
# A number of one of these is no duration, whatever its unit: moments, rates, counters.
_OTHER = {"start", "end", "begin", "stop", "timestamp", "date", "since", "epoch", "per", "throughput", "rate", "qps", "tok", "tokens",
          "req", "requests", "samples", "flops", "tflops", "bytes", "ts", "i", "id", "idx", "index", "n", "rank", "run", "batch",
          "size", "seed", "count"}  # fmt: skip
_COUNTERS = _OTHER | {"iteration", "iter", "step"}
_TOKEN = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z\u00b5\u03bc]+|\d+")


def words(name: str) -> list[str]:
    """Split a name: `latency_ms`, `Latency (ms)` and `latencyMs` all give latency, ms."""
    return [token.lower() for token in _TOKEN.findall(name)]


def unit_in(name: str) -> str | None:
    """Return the unit that a name ends in, `step_time_us` -> us; None for rates, moments and names without one."""
    found = words(name)
    if not found or (len(found) > 1 and set(found[:-1]) & _OTHER):
        return None
    return _UNIT_OF.get(found[-1])


def quantity(name: str) -> str:
    """Return what a name says is measured, without its unit: `Latency (ms)` and `latency_us` are the same, `ttft_ms` is not."""
    found = words(name)
    return " ".join(found[:-1] if len(found) > 1 and found[-1] in _UNIT_OF else found)


def is_latency(name: str) -> bool:
    """Whether a name speaks of a duration: by its unit, or by a word such as latency or time."""
    found = set(words(name))
    return unit_in(name) is not None or (bool(found & _LATENCY) and not found & _OTHER)


def choose(names: Sequence[str], wanted: Wanted) -> str:
    """Return the one column or key that holds the latencies; `names`: those that hold numbers.

    That is what was asked for; else the only one named as a duration, else the only one that is no counter.
    Raises `TracediffError`: latencies-column.
    """
    listed = ", ".join(name[:60] for name in names[:12]) or "none"
    if wanted.column is not None:
        asked = [name for name in names if wanted.column in (name, *name.split("."))]
        if wanted.column in asked or len(asked) == 1:
            return wanted.column if wanted.column in asked else asked[0]
        what = f"no column or key {wanted.column[:60]!r} of numbers"
        raise wanted.error("latencies-column", what, f"there are: {listed}")
    durations = [name for name in names if is_latency(name)]
    rest = durations or [name for name in names if not set(words(name)) <= _COUNTERS]
    if len(rest) == 1:
        return rest[0]
    there, kind = (
        ("several columns or keys", UnsettledError) if rest else ("no column or key", TracediffError)
    )
    what = f"{there} could be the latencies (of numbers: {listed})"
    raise wanted.error("latencies-column", what, f"{wanted.where}:COLUMN", kind)


def settle_unit(name: str, said: str | None, wanted: Wanted) -> tuple[str, str]:
    """Return the unit and what gave it: the command line, the file, or the name of the column. `said`: a unit that the file states.

    Raises `TracediffError`: latencies-unit, also where they differ.
    """
    given = wanted.unit
    named = unit_in(name)
    known = {unit for unit in (said, named) if unit}
    if len(known) > 1:
        what = f"the file says {said} and the name {name[:60]} says {named}"
        raise wanted.error("latencies-unit", what, "mend the file")
    if given is not None:
        if known and given not in known:
            what = f"{given} was given and the file says {known.pop()}"
            raise wanted.error("latencies-unit", what, f"leave :{given} out, or mend the file")
        return given, "the command line"
    if known:
        return known.pop(), "the file" if said else f"the name {name}"
    fix = f"{wanted.where}:ms (or ns, us, s), or name the column latency_ms"
    what = "nothing says whether the numbers are ns, us, ms or s"
    raise wanted.error("latencies-unit", what, fix, UnsettledError)


# Values of a file: each is a time.


def in_ns(found: Found, unit: str, wanted: Wanted) -> Floats:
    """Return the values as ns. Raises `TracediffError`: latencies-bad-value, latencies-unreadable."""
    count = len(found.values)
    if count > MAX_VALUES:
        what = f"{count:,} latencies, the most that is read is {MAX_VALUES:,}"
        raise wanted.error("latencies-unreadable", what, "give fewer of them, such as every tenth")
    out = np.fromiter(_numbers(found, wanted), dtype=np.float64, count=count) * UNITS[unit]
    largest = int(out.argmax())
    if out[largest] > LONGEST_NS:
        what = f"value {largest + 1} is {found.values[largest]} {unit}: longer than 100 days"
        raise wanted.error("latencies-bad-value", what, "check the unit")
    return out


def _numbers(found: Found, wanted: Wanted) -> Iterable[float]:
    for place, value in enumerate(found.values, 1):
        number = as_number(value)
        if number is None or not math.isfinite(number) or number < 0:
            why = "no number" if number is None else "negative" if number < 0 else "not finite"
            raise wanted.error("latencies-bad-value", f"value {place} is {shown(value)}: {why}")
        yield number


def as_number(value: object) -> float | None:
    """Return a number of JSON as a float, None for anything else: a text is no number there."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf


def shown(value: object) -> str:
    """Write a value of the file into a message."""
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= NAME else text[:NAME] + "..."
