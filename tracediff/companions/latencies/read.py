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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from tracediff.errors import TracediffError
from tracediff.formats.files import missing

MAX_BYTES = 64 << 20
SUFFIXES = (".json", ".csv", ".tsv", ".txt", ".log")
_FORMS = 'a list of numbers, {"times_ms": [...]}, CSV with a header such as latency_ms, or a number a line'
_PEEK = 16 << 20
MAX_VALUES = 2_000_000
MAX_RUNS = 1000
LONGEST_NS = 1e16  # 116 days: beyond it the unit is wrong
_SHOWN = 40  # characters of a value in a message
_FIXES = {
    "latencies-unreadable": "give a file with fewer latencies",
    "latencies-empty": "give a file with measurements",
    "latencies-bad-value": "leave out, or mend, what is no measurement",
    "latencies-unknown-format": _FORMS,
}  # slug -> what to do, where it is always the same


class UnsettledError(TracediffError):
    """A file of latencies that an option would settle."""


@dataclass(frozen=True)
class Said:
    """What is said behind the name of a file or folder: which column or key holds the latencies, and their unit."""

    column: str | None = None
    unit: str | None = None


def split(word: str) -> tuple[Path, Said]:
    """A word of the command line -> the path, and what is said of it: FILE, FILE:COLUMN, FILE:UNIT or FILE:COLUMN:UNIT."""
    if Path(word).exists() or ":" not in word:
        return Path(word), Said()
    file, _, said = word.partition(":")
    column, _, unit = said.rpartition(":")
    return Path(file), Said(column or None, unit) if unit in UNITS else Said(said)


@dataclass(frozen=True)
class Wanted:
    """What is said of a file; `where`: its name, for messages."""

    where: str
    column: str | None = None
    unit: str | None = None

    def error(
        self, slug: str, what: str, fix: str = "", kind: type[TracediffError] = TracediffError
    ) -> TracediffError:
        """The error of this file; `fix`: where the slug alone does not say what to do."""
        return kind(slug, f"{self.where}: {what}", fix=fix or _FIXES[slug])


@dataclass(frozen=True)
class LatencyFile:
    """The latencies of one run, in the order in which they were measured."""

    name: str  # base name of the file
    format: str
    column: str  # column, or keys with dots between them; '' where the file has only the numbers
    unit: str  # as in the file: ns, us, ms, s
    unit_from: str  # what told it
    digest: str  # SHA-256 of the file
    ns: npt.NDArray[np.float64]


@dataclass(frozen=True)
class Found:
    """A list of values in a file; `unit`: what the file says, None where only the name can tell."""

    format: str
    name: str  # as `LatencyFile.column`
    values: Sequence[object]
    unit: str | None = None
    place: str = "value"  # what is counted in messages

    @property
    def key(self) -> str:
        """What speaks of the values: the last of the keys."""
        return self.name.rpartition(".")[2]


def read(path: Path, said: Said | None = None) -> LatencyFile:
    """Read a file; `said`: which column or key, and the unit where the file says none.

    Raises `TracediffError`: latencies-unreadable, latencies-unknown-format, latencies-empty, latencies-column,
    latencies-unit, latencies-bad-value, latencies-decimal-comma; other-input where it is a file for another command.
    """
    try:
        return parse(path, said)
    except TracediffError:
        from tracediff.formats.recognise import refuse_other

        refuse_other(path, lambda kind: kind.slug in ("latencies", "benchmark"), "no latencies")
        raise


def parse(path: Path, said: Said | None = None) -> LatencyFile:
    """`read` without asking what else the file may be: what recognises files asks this."""
    said = said or Said()
    wanted = Wanted(path.name, said.column, said.unit)
    data = _bytes(path, wanted)
    found = _find(data, wanted)
    unit, source = settle_unit(found.key, found.unit, wanted)
    digest = hashlib.sha256(data).hexdigest()
    return LatencyFile(path.name, found.format, found.name, unit, source, digest, in_ns(found, unit, wanted))


def read_side(words: Sequence[str | Path]) -> list[LatencyFile]:
    """Read files, and the files of folders in the order of their names: each is one run. `words`: as `split` takes them.

    Raises `TracediffError`: not-a-file, latencies-empty-folder, latencies-column, and those of `read`.
    """
    files = [(file, said) for path, said in map(split, map(str, words)) for file in _files(path)]
    if len(files) > MAX_RUNS:
        what = f"{len(files)} files on a side, the most is {MAX_RUNS}"
        raise TracediffError("latencies-empty-folder", what, fix="name the runs of one side")
    read_files = [read(file, said) for file, said in files]
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
        found = _own(data, Wanted(path.name))
    except TracediffError as error:
        known = error.slug in ("latencies-decimal-comma", "latencies-bad-value")
        return "unclear" if known or isinstance(error, UnsettledError) else None
    except (OSError, UnicodeDecodeError):
        return None
    if found is None or not found.values:
        return None
    told = found.unit is not None or not found.name or is_latency(found.key)
    return found.format if told else None


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


def _find(data: bytes, wanted: Wanted) -> Found:
    if not data.strip(b"\xef\xbb\xbf \t\r\n"):
        raise wanted.error("latencies-empty", "is empty")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text[:4096]:
        fix = "save it as UTF-8; traces go to tracediff compare"
        raise wanted.error("latencies-unreadable", "is no UTF-8 text", fix)
    found = _own(data, wanted)
    if found is not None:
        return found
    broken = ""
    if text.lstrip()[:1] in ("{", "["):
        try:
            parse_json(text.encode())
        except ValueError as error:
            broken = f"; as JSON it is broken: {error}"
    raise wanted.error("latencies-unknown-format", f"no latencies of a form that is known here{broken}")


def _own(data: bytes, wanted: Wanted) -> Found | None:
    """What JSON and text readers find; commas and braces bound what a hostile file may become in memory."""
    if data.count(b",") > 8_000_000 or data.count(b"{") > 2_000_000:
        raise wanted.error("latencies-unreadable", "too many values")
    text = data.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text[:1] in (b"{", b"["):
        try:
            value = parse_json(text)
        except ValueError:
            return None
        else:
            return find_in_json(value, wanted)
    return find_in_text(data.decode("utf-8-sig"), wanted)


# JSON: lists, and objects with a list.

_UNIT_KEYS = ("unit", "units", "time_unit")
# Keys to what known benchmarks write in seconds; of a list of objects any.
_IN_SECONDS = {("benchmarks", "stats", "data"), ("results", "times")}
_DEEPEST = 8
_FAILURES = (msgspec.MsgspecError, ValueError, RecursionError)


def parse_json(data: bytes) -> Any:
    """Decode JSON; NaN and Infinity, which Python's json writes, are let through to be named later.

    Raises `ValueError` where it is none.
    """
    try:
        return msgspec.json.decode(data)
    except _FAILURES as error:
        if b"NaN" not in data and b"Infinity" not in data:
            raise ValueError(str(error)) from error
    try:
        return json.loads(data)
    except _FAILURES as error:
        raise ValueError(str(error)) from error


def find_in_json(value: Any, wanted: Wanted) -> Found | None:
    """Return the latencies in a decoded file, None where it holds none that are known here.

    Raises `TracediffError`: latencies-column, latencies-unit, latencies-empty.
    """
    if isinstance(value, dict):
        return _object(value, wanted)
    if not isinstance(value, list):
        return None
    if value and all(isinstance(one, dict) for one in value):
        return rows(value, wanted)
    return None if value and isinstance(value[0], dict | list) else Found("json", "", value)


def rows(objects: Sequence[Mapping[str, Any]], wanted: Wanted) -> Found:
    """Return the latencies of a list of objects, one an iteration; the key is chosen as a column of a CSV is."""
    first = objects[0]
    numeric = [key for key, value in first.items() if isinstance(key, str) and as_number(value) is not None]
    key = choose(numeric, wanted)
    return Found("json", key, [one.get(key) for one in objects], _stated(objects, wanted), "object")


@dataclass(frozen=True)
class _List:
    """A list of numbers in an object; keys: those that lead to it; names: the keys, and those of objects in lists on the way."""

    keys: tuple[str, ...]
    names: tuple[str, ...]
    values: list[Any]


def _object(value: dict[str, Any], wanted: Wanted) -> Found | None:
    lists = {".".join(one.names): one for one in _lists(value, _List((), (), []))}
    lists = {name: one for name, one in lists.items() if one.values} or lists
    if not lists:
        return None
    asked = [name for name, one in lists.items() if wanted.column in one.names]
    name = asked[0] if len(asked) == 1 else choose(list(lists), wanted)
    unit = "s" if lists[name].keys in _IN_SECONDS else _stated([value], wanted)
    return Found("json", name, lists[name].values, unit)


def _lists(value: object, at: _List) -> Iterator[_List]:
    """The lists of numbers in a value, in order. An object of a list is called by its name or command, else by its place."""
    if len(at.names) > _DEEPEST:
        return
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _lists(one, _List((*at.keys, key), (*at.names, key), []))
    elif isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
        for number, one in enumerate(value):
            name = str(one.get("name") or one.get("command") or number)
            yield from _lists(one, _List(at.keys, (*at.names, name), []))
    elif isinstance(value, list) and (not value or any(as_number(item) is not None for item in value)):
        yield replace(at, values=value)


def _stated(objects: Iterable[Mapping[str, Any]], wanted: Wanted) -> str | None:
    """The unit that objects state; an unknown one is refused, for nothing may be guessed instead."""
    told = {str(one.get(name)) for one in objects for name in _UNIT_KEYS if name in one}
    named = {_UNIT_OF.get(one.strip().lower()) for one in told}
    if len(named) > 1 or None in named:
        units = ", ".join(sorted(one[:20] for one in told))
        raise wanted.error("latencies-unit", f"the unit is given as {units}", "ns, us, ms or s, one for all")
    return named.pop() if named else None


# Text: CSV with a header, a number a line.

_MAX_COLUMNS = 512
_NUMBER = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?\Z|[-+]?(nan|inf|infinity)\Z", re.IGNORECASE)
_DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+\Z")


def find_in_text(text: str, wanted: Wanted) -> Found | None:
    """Return the latencies of a text, None where it is of no form that is known here.

    Raises `TracediffError`: latencies-column, latencies-bad-value, latencies-decimal-comma, latencies-empty.
    """
    kept = [
        (number, line)
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    if not kept:
        raise wanted.error("latencies-empty", "there is no latency in it")
    delimiter = next((one for one in ("\t", ";", ",") if one in kept[0][1]), None)
    if delimiter is None and is_number(kept[0][1].strip()):
        return _numbers_of_lines([(number, line.strip()) for number, line in kept], "text", "", wanted)
    return _csv(kept, delimiter or ",", wanted)


def is_number(text: str) -> bool:
    """Whether a text is a number with a decimal point; nan and inf are, so that they are refused by name."""
    return len(text) < 400 and _NUMBER.match(text) is not None


def _numbers_of_lines(cells: Sequence[tuple[int, str]], form: str, name: str, wanted: Wanted) -> Found:
    values = []
    for number, cell in cells:
        if not is_number(cell):
            if _DECIMAL_COMMA.match(cell):
                raise _comma(wanted, number, cell)
            what = f"line {number} is {shown(cell) or 'empty'}: no number"
            raise wanted.error("latencies-bad-value", what)
        values.append(float(cell))
    # lines that hold no value are left out, so the place of a value is counted among the values
    return Found(form, name, values)


def _comma(wanted: Wanted, line: int, cell: str, *, or_columns: bool = False) -> TracediffError:
    """The error for a decimal comma; `or_columns`: the comma may as well stand between two columns."""
    other, fix = "", "write decimal points, as with LC_ALL=C"
    if or_columns:
        other = ", or two columns and no header"
        fix += "; with two columns begin with a line of names, such as iteration,latency_ms"
    what = f"line {line} has a decimal comma{other}: {shown(cell)}"
    return wanted.error("latencies-decimal-comma", what, fix)


def _csv(kept: Sequence[tuple[int, str]], delimiter: str, wanted: Wanted) -> Found | None:
    lines = (line for _, line in kept)
    try:
        table = list(csv.reader(lines, delimiter=delimiter, skipinitialspace=True, strict=True))
    except csv.Error as error:
        raise wanted.error("latencies-bad-value", f"the CSV cannot be read: {error}") from error
    header, body = [cell.strip() for cell in table[0]], table[1:]
    commas = [cell for cell in header if _DECIMAL_COMMA.match(cell)]
    if all(is_number(cell) or cell in commas for cell in header):
        if delimiter == "," and len(header) == 2:
            raise _comma(wanted, kept[0][0], kept[0][1].strip(), or_columns=True)
        if commas:
            raise _comma(wanted, kept[0][0], commas[0])
        what = f"{len(header)} numbers a line and no header"
        raise wanted.error(
            "latencies-column", what, "begin with a line of names, such as iteration,latency_ms"
        )
    if len(header) > _MAX_COLUMNS or len(set(header)) < len(header):
        raise wanted.error("latencies-column", "too many columns, or two of one name", "one name a column")
    if not body:
        raise wanted.error("latencies-empty", "a header and no line below it")
    numeric = [name for place, name in enumerate(header) if _holds_numbers(body, place)]
    if not numeric and not any(map(is_latency, header)):
        return None
    chosen = choose(numeric, wanted)
    place = header.index(chosen)
    numbers = [number for number, _ in kept[1:]] if len(table) == len(kept) else range(2, len(table) + 1)
    cells = []
    for number, row in zip(numbers, body, strict=True):
        if len(row) != len(header):
            what = f"line {number} has {len(row)} columns, the header {len(header)}"
            raise wanted.error("latencies-bad-value", what)
        cells.append((number, row[place].strip()))
    return _numbers_of_lines(cells, "csv", chosen, wanted)


def _holds_numbers(body: Sequence[Sequence[str]], place: int) -> bool:
    """Whether half of a column or more are numbers: one that is none is then named, not passed over."""
    cells = [row[place].strip() for row in body[:1000] if place < len(row)]
    good = sum(is_number(cell) or _DECIMAL_COMMA.match(cell) is not None for cell in cells)
    return bool(cells) and 2 * good >= len(cells)


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
_MOMENTS = {"start", "end", "begin", "stop", "timestamp", "date", "since", "epoch", "per"}  # fmt: skip
_RATES = {"throughput", "rate", "qps", "tok", "tokens", "req", "requests", "samples", "flops", "tflops", "bytes"}  # fmt: skip
_COUNTERS = {"", "timestamp", "ts", "iteration", "iter", "step", "index", "idx", "id", "i", "n", "run", "rank"}  # fmt: skip
_OTHER = _MOMENTS | _RATES | {"ts", "i", "id", "idx", "index", "n", "rank", "run", "batch", "size", "seed", "count"}  # fmt: skip
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
    return unit_in(name) is not None or (bool(found & _LATENCY) and not found & _MOMENTS)


def choose(names: Sequence[str], wanted: Wanted) -> str:
    """Return the one column or key that holds the latencies; `names`: those that hold numbers.

    That is what was asked for; else the only one named as a duration, else the only one that is no counter.
    Raises `TracediffError`: latencies-column.
    """
    listed = ", ".join(name[:60] for name in names[:12]) or "none"
    if wanted.column is not None:
        if wanted.column in names:
            return wanted.column
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


def in_ns(found: Found, unit: str, wanted: Wanted) -> npt.NDArray[np.float64]:
    """Return the values as ns. Raises `TracediffError`: latencies-empty, latencies-bad-value, latencies-unreadable."""
    count = len(found.values)
    if not count:
        raise wanted.error("latencies-empty", "there is no latency in it")
    if count > MAX_VALUES:
        what = f"{count:,} latencies, the most that is read is {MAX_VALUES:,}"
        raise wanted.error("latencies-unreadable", what, "give fewer of them, such as every tenth")
    out = np.fromiter(_numbers(found, wanted), dtype=np.float64, count=count) * UNITS[unit]
    largest = int(out.argmax())
    if out[largest] > LONGEST_NS:
        what = f"{found.place} {largest + 1} is {found.values[largest]} {unit}: longer than 100 days"
        raise wanted.error("latencies-bad-value", what, "check the unit")
    return out


def _numbers(found: Found, wanted: Wanted) -> Iterable[float]:
    for place, value in enumerate(found.values, 1):
        number = as_number(value)
        if number is None or not math.isfinite(number) or number < 0:
            why = "no number" if number is None else "negative" if number < 0 else "not finite"
            raise wanted.error("latencies-bad-value", f"{found.place} {place} is {shown(value)}: {why}")
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
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
