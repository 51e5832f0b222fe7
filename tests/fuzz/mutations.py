"""Ways in which an input differs from what a reader expects: other bytes, values and lines, and changes of an export.

Everything is drawn from a `random.Random`. A change of an export is a small JSON list, [name, argument, ...]: a file of
the corpus says in words what was done to which capture.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from random import Random

from fixtures.builders import HOSTILE_NAMES

INT64 = (-(2**63), 2**63 - 1)
DEEP = 100_000  # levels

# What the loader reads; a mutation anywhere else would test nothing.
COLUMNS: dict[str, tuple[str, ...]] = {
    "CUPTI_ACTIVITY_KIND_KERNEL": (
        "start", "end", "deviceId", "streamId", "correlationId", "globalPid", "demangledName", "shortName",
        "registersPerThread", "gridX", "blockX", "staticSharedMemory", "dynamicSharedMemory", "graphNodeId",
    ),
    "CUPTI_ACTIVITY_KIND_MEMCPY": (
        "start", "end", "deviceId", "streamId", "correlationId", "globalPid", "bytes", "copyKind", "srcKind",
        "dstKind", "graphNodeId",
    ),
    "CUPTI_ACTIVITY_KIND_MEMSET": (
        "start", "end", "deviceId", "streamId", "correlationId", "globalPid", "bytes", "graphNodeId",
    ),
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": ("start", "end", "correlationId", "syncType"),
    "CUPTI_ACTIVITY_KIND_RUNTIME": ("start", "end", "globalTid", "correlationId", "nameId"),
    "NVTX_EVENTS": ("start", "end", "eventType", "text", "globalTid", "textId", "domainId"),
    "StringIds": ("id", "value"),
    "ThreadNames": ("nameId", "globalTid"),
    "META_DATA_CAPTURE": ("name", "value"),
    "META_DATA_EXPORT": ("name", "value"),
    "TARGET_INFO_SYSTEM_ENV": ("name", "value"),
    "TARGET_INFO_GPU": ("id", "name", "smCount", "clockRate", "totalMemory", "cuDevice"),
}  # fmt: skip
TIMED = tuple(table for table, columns in COLUMNS.items() if "end" in columns)
OPS = ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET")

META = ("ThreadNames", "META_DATA_CAPTURE", "META_DATA_EXPORT", "TARGET_INFO_SYSTEM_ENV", "TARGET_INFO_GPU")

# Of a text or of bytes


def wrong_bytes(data: bytes, rng: Random) -> bytes:
    """Some bytes overwritten, left out, put in, repeated, or all cut off at some place."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        at, some = rng.randint(0, len(out)), rng.randint(1, 9)
        match rng.randrange(6):
            case 0:
                out[at : at + some] = rng.randbytes(some)
            case 1:
                del out[at : at + rng.choice((some, 100 * some))]
            case 2:
                out[at:at] = rng.choice(_TOKENS)
            case 3:
                out[at:at] = out[at : at + 10 * some] * rng.choice((1, 1, 50))
            case 4:
                out[at : at + some] = bytes(some) if rng.random() < 0.5 else b"\xff" * some
            case _:
                del out[at if rng.random() < 0.3 else len(out) :]
    return bytes(out)


_TOKENS = [
    *(name.encode("utf-8", "surrogatepass") for name in HOSTILE_NAMES),
    b"\x00", b"\xff\xfe", b"\xed\xa0\x80", b"\x1b[2J", b"\r\n", b'"', b"'", b"\\", b"{", b"[", b"]]", b"<", b"(((((((", b"::", b"%s", b"{{7*7}}", b"0x",
    b"nan", b"inf", b"-1", b"1e999", b"9" * 400, b"1_000", "\u0663".encode(), "\u202e".encode(), b"null", b"true", b"../", b"--", b";", b"/*", b"=", b",", b"\t",
]  # fmt: skip


def other_values(data: bytes, rng: Random) -> bytes:
    """JSON with other values at some places, or without them, or with one of them a hundred thousand levels deep."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return wrong_bytes(data, rng)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        value = _replaced(value, rng, rng.randint(1, 7))
    try:
        text = json.dumps(value)
    except RecursionError:
        return data
    for mark, raw in _RAW.items():
        text = text.replace(f'"{mark}"', raw)
    return text.encode("utf-8", "surrogatepass")


_RAW = {
    "@lists@": "[" * DEEP + "]" * DEEP, "@tables@": '{"a":' * DEEP + "1" + "}" * DEEP, "@long@": "9" * 4_000, "@1e400@": "1e400", "@-0@": "-0",
}  # fmt: skip
_VALUES = [
    None, True, False, "", "x", "12", "-5", "NaN", [], {}, [[]], [None], {"": 1}, 0, -1, 1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64, -(2**63), 10**30,
    0.5, 1e308, 5e-324, float("nan"), float("inf"), -0.0, "\x00", "\ud800", "\u202e", "2026-13-45", "1 ms", "x" * 5_000, *HOSTILE_NAMES, *_RAW,
]  # fmt: skip


def _replaced(value: object, rng: Random, depth: int) -> object:
    """A copy with one place changed: replaced, left out, repeated, or changed places with another."""
    if not depth or not isinstance(value, dict | list) or not value:
        return rng.choice(_VALUES) if rng.random() < 0.9 else rng.randint(*INT64)
    copy: dict | list = dict(value) if isinstance(value, dict) else list(value)
    key = rng.choice(list(value) if isinstance(value, dict) else range(len(value)))
    match rng.randrange(12):
        case 0:
            del copy[key]
        case 1 if isinstance(copy, list):
            copy.insert(rng.randint(0, len(copy)), copy[key])
        case 1 | 2:
            other = rng.choice(list(value) if isinstance(value, dict) else range(len(value)))
            copy[key], copy[other] = copy[other], copy[key]
        case 3 if isinstance(copy, dict):
            copy[rng.choice(("", "x", "__class__", *HOSTILE_NAMES))] = copy.pop(key)
        case _:
            copy[key] = _replaced(value[key], rng, depth - 1)
    return copy


def other_lines(data: bytes, rng: Random) -> bytes:
    """Lines left out, repeated or in another order; numbers and words replaced."""
    lines = data.decode("utf-8", "surrogateescape").split("\n")
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        at = rng.randrange(len(lines))
        match rng.randrange(8):
            case 0 if len(lines) > 1:
                del lines[at]
            case 1:
                lines.insert(rng.randint(0, len(lines)), lines[at])
            case 2:
                other = rng.randrange(len(lines))
                lines[at], lines[other] = lines[other], lines[at]
            case 3:
                lines[at] = lines[at][: rng.randint(0, len(lines[at]))]
            case _:
                words = [match.span() for match in _WORD.finditer(lines[at])]
                low, high = rng.choice(words or [(0, 0)])
                lines[at] = lines[at][:low] + rng.choice(_WORDS) + lines[at][high:]
        lines = lines or [""]
    return "\n".join(lines).encode("utf-8", "surrogateescape")


def other_settings(data: bytes, rng: Random) -> bytes:
    """TOML with another value or key here and there, most of it well-formed; else other lines."""
    lines = data.decode("utf-8", "surrogateescape").split("\n")
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(lines))
        key, sign, _ = lines[at].partition(" = ")
        other = rng.choice([one for one in lines if " = " in one] or ["x = 1"]).partition(" = ")
        match rng.randrange(8):
            case 0:
                return other_lines(data, rng)
            case 1:
                name = rng.choice((other[0], "own", "baseline", "__class__"))
                lines.insert(at, f"{name} = {rng.choice(_SETTINGS)}")
            case 2 if sign:
                lines[at] = f"{key} = {other[2]}"
            case 3:
                lines[at] = ""
            case _ if sign:
                lines[at] = f"{key} = {rng.choice(_SETTINGS)}"
    return "\n".join(lines).encode("utf-8", "surrogateescape")


_SETTINGS = [
    '""', '"x"', "0", "-1", "1", "2000000", "9" * 30, "true", "[]", "[[]]", "{}", '{ a = "x" }', '["x"]', "[1, true]", "1.5", "nan", "inf", "-inf", "1e308",
    "2026-01-01", "2026-01-01T00:00:00Z", "07:32:00", r'"\u0000"', r'"\u001b[31m"', r'"\u202e"', r'"a\nb"', '"step:+0%"', '"step:+1e9%"', '"kernel:*:+1us"',
    '"gc"', '"step:0.0001%"', '"step:99999999999999999999ns"', '"1-999999999999"', '"5-1"', "\"a 'b\"", '"--a"', '"/dev/null"', '"."', '"http://["',
    '"{traffic_seed}"', '"{run}{0}{x.y}"', '"%s"', '"mpirun"', '"srun -n 4"', '"vllm"', '"sglang"', '"torch"', '"transformers"', '"random"', '"sequential"',
]  # fmt: skip
_WORD = re.compile(r"[-+]?\d[\d.]*(?:e[-+]?\d+)?|\w+|[^\w\s]", re.ASCII)
_WORDS = [
    "", "-1", "0", "1", "nan", "inf", "1e999", "1e-320", "9" * 400, "9" * 5_000, "-0.0", "1,5", "1.2.3", "12 34", "us", "%", "xyz", '"', "'", "\x00", "\u0663", "true",
    "2026-02-30", "1970-01-01", "[" * DEEP, "{a=" * DEEP, "a." * 500 + "b", "18446744073709551616", "../..", "/dev/null", *HOSTILE_NAMES,
]  # fmt: skip


def bytes_or(change: Change) -> Change:
    """Mostly a change that knows the form of the input, sometimes one of its bytes."""
    return lambda data, rng: (change if rng.random() < 0.75 else wrong_bytes)(data, rng)


# Of an export: what was changed, drawn

Change = Callable[[bytes, Random], bytes]
Step = list[object]


def drawn(names: tuple[str, ...], rng: Random) -> Step:
    """A change of an export of one of these names."""
    name = rng.choice(names)
    return [name, *_DRAWN[name](rng)]


def _cell(rng: Random, tables: tuple[str, ...] = tuple(COLUMNS)) -> list[str]:
    table = rng.choice(tables)
    return [table, rng.choice(COLUMNS[table])]


def _row(rng: Random) -> int:
    return rng.randint(0, 40)


def _integer(rng: Random) -> int:
    return rng.choice(
        [0, -1, 1, 2**31 - 1, 2**31, -(2**31) - 1, 2**32, 2**53, *INT64, INT64[0] + 1, INT64[1] - 1, rng.randint(*INT64), rng.randint(-100_000, 100_000)]
    )  # fmt: skip


def _value(rng: Random) -> object:
    """A value of a cell; bytes are {"hex": ...}, long texts {"x": length}."""
    return rng.choice(
        [None, _integer(rng), _integer(rng), rng.uniform(-1e6, 1e6), float("nan"), float("inf"), 1e308, {"x": 1_000_000},
         *HOSTILE_NAMES, "12", " 12", "1e3", "0x10", "nan", "-", "", *({"hex": one} for one in ("", "00", "fffe", "3132", "6bff"))]
    )  # fmt: skip


def _table(rng: Random) -> str:
    return rng.choice(list(COLUMNS))


def _timed(rng: Random) -> str:
    return rng.choice(TIMED)


_CORRELATED = (*OPS, "CUPTI_ACTIVITY_KIND_RUNTIME")
_DECLARED = ["TEXT", "REAL", "BLOB", "INTEGER", "NUMERIC", "", "BOOLEAN", "DATE", "VARCHAR(3)", "HUGEINT"]
_PAGES = 1 << 20  # pages are counted modulo those of the file
_DRAWN: dict[str, Callable[[Random], list[object]]] = {
    "set_cell": lambda r: [_cell(r), _row(r), _value(r)],
    "set_meta": lambda r: [_cell(r, META), _row(r), _value(r)],
    "not_utf8": lambda r: [_cell(r), _row(r)],
    "not_utf8_meta": lambda r: [_cell(r, META), _row(r)],
    "set_column": lambda r: [_cell(r), _value(r)],
    "copy_cell": lambda r: [_cell(r), _row(r), _row(r)],
    "drop_table": lambda r: [_table(r)],
    "empty_table": lambda r: [_table(r)],
    "rename_table": lambda r: [_table(r), r.choice(["mine", "KERNEL", 'odd "; --'])],
    "without_rowid": lambda r: [_table(r)],
    "drop_column": lambda r: [_cell(r)],
    "rename_column": lambda r: [_cell(r), r.choice(["mine", "rowid", "UPPER"])],
    "retype": lambda r: [_cell(r), r.choice(_DECLARED)],
    "odd_column": lambda r: [_table(r), r.choice(["rowid", "oid", 'q"uote', "source", "end_ns"])],
    "turn_round": lambda r: [_timed(r), _row(r)],
    "far": lambda r: [_timed(r), _row(r), _integer(r)],
    "long": lambda r: [_timed(r), _row(r), _integer(r)],
    "far_all": lambda r: [_integer(r)],
    "schema_text": lambda r: [_table(r), r.choice([" INTEGER", "(", ",", " TEXT", '"start"', "CREATE TABLE"]), r.choice(["", " BLOB", "((", " AS (1)", '"end"', "CREATE VIEW", "\x00", "," * 3_000, " CHECK (" + "(" * 2_000])],
    # All stay whole numbers of a moderate size: a plain reading of the rows says what the numbers are.
    "move": lambda r: [_timed(r), _row(r), r.randint(-60_000, 60_000)],
    "stretch": lambda r: [_timed(r), _row(r), r.randint(0, 30_000)],
    "delete_row": lambda r: [_table(r), _row(r)],
    "repeat_row": lambda r: [r.choice(_CORRELATED), _row(r)],
    "reverse": lambda r: [_table(r)],
    "relink": lambda r: [[r.choice(_CORRELATED), "correlationId"], _row(r), r.choice([_row(r), r.randint(0, 2**32 - 1)])],
    "name_none": lambda r: [r.choice([["CUPTI_ACTIVITY_KIND_KERNEL", "shortName"], ["NVTX_EVENTS", "textId"]]), _row(r), r.randint(10_000, 20_000)],
    "move_all": lambda r: [r.randint(-(2**40), 2**40)],
    # What was measured stays as it is.
    "vacuum": lambda r: [r.choice([512, 1024, 8192, 65536]), r.choice([0, 1, 2])],
    "index": lambda r: [_cell(r)],
    "newer_column": lambda r: [_table(r)],
    "newer_table": lambda r: [r.choice(["NEWER_EVENTS", "mine", 'odd "; --'])],
    "own_view": lambda r: [_table(r)],
    "spare_pages": lambda r: [r.randint(1, 30)],
    "analyse": lambda r: [],
    # Whole pages, and what SQLite would run: nothing of it may be a number. Pages are chosen last.
    "view": lambda r: [_table(r), r.choice([False, True])],
    "recursion": lambda r: [_table(r), r.choice(["endless", "wide", "blob"])],
    "virtual": lambda r: [_table(r)],
    "trigger": lambda r: [_table(r)],
    "computed": lambda r: [_cell(r)],
    "root": lambda r: [_table(r), _table(r)],  # another page than a root makes a well-formed file
    "page_zero": lambda r: [r.randrange(_PAGES)],
    "page_ff": lambda r: [r.randrange(_PAGES)],
    "page_random": lambda r: [r.randrange(_PAGES), r.randrange(2**32)],
    "page_swap": lambda r: [r.randrange(_PAGES), r.randrange(_PAGES)],
    "page_copy": lambda r: [r.randrange(_PAGES), r.randrange(_PAGES)],
    "pages_cut": lambda r: [r.randrange(_PAGES)],
    # Any bytes: place and length in parts of the file.
    "bytes": lambda r: [r.random(), r.randbytes(r.randint(1, 9)).hex()],
    "cut": lambda r: [r.random()],
}  # fmt: skip
KEPT = ("vacuum", "index", "newer_column", "newer_table", "own_view", "spare_pages", "analyse")
MODERATE = ("move", "stretch", "delete_row", "repeat_row", "reverse", "relink", "name_none", "move_all")
PAGES = ("page_zero", "page_ff", "page_random", "page_swap", "page_copy", "pages_cut")
BYTES = ("bytes", "cut")
RUN = ("view", "recursion", "virtual", "trigger", "computed", "root")
METADATA = ("set_meta", "not_utf8_meta")
ROWS = (
    "set_cell", "not_utf8", "set_column", "copy_cell", "drop_table", "empty_table", "rename_table", "without_rowid", "drop_column", "rename_column",
    "retype", "odd_column", "turn_round", "far", "long", "far_all", "schema_text",
)  # fmt: skip


def loose(source: Path, target: Path) -> Path:
    """The same export with the same declared types and without constraints: any cell may be anything."""
    shutil.copyfile(source, target)
    with contextlib.closing(sqlite3.connect(target)) as db:
        for table in COLUMNS:
            _remade(db, table, {})
        db.commit()
    return target


def changed(source: Path, target: Path, changes: list[Step]) -> Path:
    """Write the changed export: rows and tables first, then pages and bytes. A change that SQLite refuses is left out."""
    shutil.copyfile(source, target)
    late = [one for one in changes if one[0] in (*PAGES, *BYTES)]
    early = [one for one in changes if one not in late]
    if early:
        with contextlib.closing(sqlite3.connect(target, isolation_level=None)) as db:
            db.execute("PRAGMA synchronous = OFF")
            for name, *arguments in early:
                with contextlib.suppress(sqlite3.Error, OverflowError, UnicodeEncodeError, TypeError):
                    _CHANGES[str(name)](db, *arguments)
    if late:
        content = bytearray(target.read_bytes())
        for name, *arguments in late:
            _CHANGES[str(name)](content, *arguments)
        target.write_bytes(content)
    return target


def _page(content: bytearray, number: int) -> slice:
    size = int.from_bytes(content[16:18], "big")
    size = 65536 if size == 1 else size if size in (1 << power for power in range(9, 16)) else 4096
    at = number % max(len(content) // size, 1) * size
    return slice(at, at + size)


def _page_zero(content: bytearray, page: int) -> None:
    content[_page(content, page)] = bytes(len(content[_page(content, page)]))


def _page_ff(content: bytearray, page: int) -> None:
    content[_page(content, page)] = b"\xff" * len(content[_page(content, page)])


def _page_random(content: bytearray, page: int, seed: int) -> None:
    content[_page(content, page)] = Random(seed).randbytes(len(content[_page(content, page)]))


def _page_swap(content: bytearray, page: int, other: int) -> None:
    one, two = _page(content, page), _page(content, other)
    if one.start and two.start:  # the first one holds the header
        content[one], content[two] = content[two], content[one]


def _page_copy(content: bytearray, page: int, over: int) -> None:
    if _page(content, over).start:
        content[_page(content, over)] = content[_page(content, page)]


def _pages_cut(content: bytearray, page: int) -> None:
    del content[max(_page(content, page).start, 1) :]


def _bytes(content: bytearray, where: float, what: str) -> None:
    new = bytes.fromhex(what)
    at = int(where * max(len(content) - len(new), 0))
    content[at : at + len(new)] = new


def _cut(content: bytearray, where: float) -> None:
    del content[int(where * len(content)) :]


def _q(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _columns(db: sqlite3.Connection, table: str) -> dict[str, str]:
    return {row[1]: row[2] for row in db.execute(f"PRAGMA table_info({_q(table)})")}


def _rowid(db: sqlite3.Connection, table: str, row: int) -> int | None:
    ids = [one for (one,) in db.execute(f"SELECT _rowid_ FROM {_q(table)} ORDER BY 1")]
    return ids[row % len(ids)] if ids else None


def _remade(
    db: sqlite3.Connection, table: str, types: dict[str, str], tail: str = "", keys: str = ""
) -> None:
    columns = _columns(db, table) | types
    if not columns:
        return
    declared = ", ".join(f"{_q(name)} {kind}" for name, kind in columns.items())
    db.execute(f"CREATE TABLE remade ({declared}{keys}) {tail}")
    db.execute(f"INSERT INTO remade SELECT * FROM {_q(table)}")
    db.execute(f"DROP TABLE {_q(table)}")
    db.execute(f"ALTER TABLE remade RENAME TO {_q(table)}")


def _set_cell(db: sqlite3.Connection, cell: list[str], row: int, value: object) -> None:
    table, column = cell
    value = _made(value)
    db.execute(f"UPDATE {_q(table)} SET {_q(column)} = ? WHERE _rowid_ = ?", (value, _rowid(db, table, row)))


def _not_utf8(db: sqlite3.Connection, cell: list[str], row: int) -> None:
    table, column = cell
    db.execute(
        f"UPDATE {_q(table)} SET {_q(column)} = CAST(x'6bff66fe' AS TEXT) WHERE _rowid_ = ?",
        (_rowid(db, table, row),),
    )


def _made(value: object) -> object:
    if isinstance(value, dict):
        return bytes.fromhex(value["hex"]) if "hex" in value else "x" * value["x"]
    return value


def _set_column(db: sqlite3.Connection, cell: list[str], value: object) -> None:
    db.execute(f"UPDATE {_q(cell[0])} SET {_q(cell[1])} = ?", (_made(value),))


def _copy_cell(db: sqlite3.Connection, cell: list[str], row: int, other: int) -> None:
    table, column = cell
    (value,) = db.execute(
        f"SELECT {_q(column)} FROM {_q(table)} WHERE _rowid_ = ?", (_rowid(db, table, other),)
    ).fetchone()
    _set_cell(db, cell, row, value)


def _drop_table(db: sqlite3.Connection, table: str) -> None:
    db.execute(f"DROP TABLE {_q(table)}")


def _empty_table(db: sqlite3.Connection, table: str) -> None:
    db.execute(f"DELETE FROM {_q(table)}")


def _rename_table(db: sqlite3.Connection, table: str, name: str) -> None:
    db.execute(f"ALTER TABLE {_q(table)} RENAME TO {_q(name)}")


def _view(db: sqlite3.Connection, table: str, backwards: bool) -> None:
    db.execute(f"ALTER TABLE {_q(table)} RENAME TO {_q('under_' + table)}")
    order = " ORDER BY 1 DESC" if backwards else ""
    db.execute(f"CREATE VIEW {_q(table)} AS SELECT * FROM {_q('under_' + table)}{order}")


def _without_rowid(db: sqlite3.Connection, table: str) -> None:
    columns = _columns(db, table)
    db.execute("ALTER TABLE " + _q(table) + " ADD COLUMN own INTEGER")
    db.execute(f"UPDATE {_q(table)} SET own = _rowid_")
    assert columns
    _remade(db, table, {}, "WITHOUT ROWID", ", PRIMARY KEY (own)")


def _drop_column(db: sqlite3.Connection, cell: list[str]) -> None:
    db.execute(f"ALTER TABLE {_q(cell[0])} DROP COLUMN {_q(cell[1])}")


def _rename_column(db: sqlite3.Connection, cell: list[str], name: str) -> None:
    name = cell[1].upper() if name == "UPPER" else name
    db.execute(f"ALTER TABLE {_q(cell[0])} RENAME COLUMN {_q(cell[1])} TO {_q(name)}")


def _retype(db: sqlite3.Connection, cell: list[str], declared: str) -> None:
    if cell[1] in _columns(db, cell[0]):
        _remade(db, cell[0], {cell[1]: declared})


def _add_column(db: sqlite3.Connection, table: str, name: str) -> None:
    db.execute(f"ALTER TABLE {_q(table)} ADD COLUMN {_q(name)} INTEGER DEFAULT 7")


def _reverse(db: sqlite3.Connection, table: str) -> None:
    db.execute(f"CREATE TABLE turned AS SELECT * FROM {_q(table)} ORDER BY _rowid_ DESC")
    db.execute(f"DELETE FROM {_q(table)}")
    db.execute(f"INSERT INTO {_q(table)} SELECT * FROM turned")
    db.execute("DROP TABLE turned")


def _repeat_row(db: sqlite3.Connection, table: str, row: int) -> None:
    db.execute(
        f"INSERT INTO {_q(table)} SELECT * FROM {_q(table)} WHERE _rowid_ = ?", (_rowid(db, table, row),)
    )


def _delete_row(db: sqlite3.Connection, table: str, row: int) -> None:
    db.execute(f"DELETE FROM {_q(table)} WHERE _rowid_ = ?", (_rowid(db, table, row),))


def _move(db: sqlite3.Connection, table: str, row: int, ns: int) -> None:
    times = db.execute(
        f'SELECT "start", "end" FROM {_q(table)} WHERE _rowid_ = ?', (_rowid(db, table, row),)
    ).fetchone()
    for column, value in zip(("start", "end"), times, strict=True):
        if value is not None:
            _set_cell(db, (table, column), row, _held(value + ns))


def _stretch(db: sqlite3.Connection, table: str, row: int, ns: int) -> None:
    (end,) = db.execute(
        f'SELECT "end" FROM {_q(table)} WHERE _rowid_ = ?', (_rowid(db, table, row),)
    ).fetchone()
    if end is not None:
        _set_cell(db, (table, "end"), row, _held(end + ns))


def _turn_round(db: sqlite3.Connection, table: str, row: int) -> None:
    db.execute(
        f'UPDATE {_q(table)} SET "start" = "end", "end" = "start" WHERE _rowid_ = ?',
        (_rowid(db, table, row),),
    )


def _move_all(db: sqlite3.Connection, ns: int) -> None:
    ns = min(max(ns, INT64[0] + 10_000_000), INT64[1] - 10_000_000)
    for table in TIMED:
        db.execute(f'UPDATE {_q(table)} SET "start" = "start" + ?, "end" = "end" + ?', (ns, ns))


def _held(value: object) -> object:
    return min(max(value, INT64[0]), INT64[1]) if isinstance(value, int) else value


def _schema_text(db: sqlite3.Connection, table: str, old: str, new: str) -> None:
    _schema(db, "sql = replace(sql, ?, ?)", (old, new), table)


def _root(db: sqlite3.Connection, table: str, other: str) -> None:
    (page,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (other,)).fetchone()
    _schema(db, "rootpage = ?", (page,), table)


def _schema(db: sqlite3.Connection, what: str, values: tuple[object, ...], table: str) -> None:
    db.execute("PRAGMA writable_schema = ON")
    db.execute(f"UPDATE sqlite_master SET {what} WHERE name = ?", (*values, table))
    db.execute("PRAGMA writable_schema = OFF")


_QUERIES = {
    "endless": "WITH RECURSIVE n(start) AS (SELECT 1 UNION ALL SELECT start + 1 FROM n) SELECT start, start AS 'end', start AS id, 'x' AS value FROM n",
    "wide": "SELECT a.rowid AS start, 1 AS 'end', 1 AS id, 'x' AS value FROM StringIds a, StringIds b, StringIds c, StringIds d",
    "blob": "SELECT 1 AS start, 2 AS 'end', 1 AS id, hex(zeroblob(200000000)) AS value, 'EXPORT_SCHEMA_VERSION' AS name",
}


def _recursion(db: sqlite3.Connection, table: str, kind: str) -> None:
    db.execute(f"DROP TABLE {_q(table)}")
    db.execute(f"CREATE VIEW {_q(table)} AS {_QUERIES[kind]}")


def _virtual(db: sqlite3.Connection, table: str) -> None:
    names = ", ".join(_q(name) for name in _columns(db, table))
    db.execute(f"DROP TABLE {_q(table)}")
    db.execute(f"CREATE VIRTUAL TABLE {_q(table)} USING fts5({names})")


def _trigger(db: sqlite3.Connection, table: str) -> None:
    db.execute(f"CREATE TRIGGER own AFTER INSERT ON {_q(table)} BEGIN DELETE FROM StringIds; END")


def _computed(db: sqlite3.Connection, cell: list[str]) -> None:
    table, column = cell
    db.execute(f"ALTER TABLE {_q(table)} DROP COLUMN {_q(column)}")
    db.execute(f"ALTER TABLE {_q(table)} ADD COLUMN {_q(column)} AS (12)")


def _vacuum(db: sqlite3.Connection, page_size: int, reclaim: int) -> None:
    db.execute(f"PRAGMA page_size = {page_size}")
    db.execute(f"PRAGMA auto_vacuum = {reclaim}")
    db.execute("VACUUM")


def _index(db: sqlite3.Connection, cell: list[str]) -> None:
    db.execute(f"CREATE INDEX own_index ON {_q(cell[0])} ({_q(cell[1])})")


def _newer_column(db: sqlite3.Connection, table: str) -> None:
    _add_column(db, table, "newer")


def _newer_table(db: sqlite3.Connection, table: str) -> None:
    db.execute(f"CREATE TABLE {_q(table)} (start INTEGER, value TEXT)")
    db.execute(f"INSERT INTO {_q(table)} VALUES (1, 'x'), (NULL, x'ff')")


def _own_view(db: sqlite3.Connection, table: str) -> None:
    db.execute(f"CREATE VIEW own AS SELECT * FROM {_q(table)}")


def _spare_pages(db: sqlite3.Connection, pages: int) -> None:
    db.execute("CREATE TABLE spare (value)")
    db.executemany("INSERT INTO spare VALUES (?)", [("x" * 5_000,)] * pages)
    db.execute("DROP TABLE spare")


def _analyse(db: sqlite3.Connection) -> None:
    db.execute("ANALYZE")


# Names of changes and what does them; some are two draws of one.
_CHANGES: dict[str, Callable[..., None]] = {
    name: globals()[f"_{as_name}"]
    for name in _DRAWN
    for as_name in [{
        "set_meta": "set_cell", "not_utf8_meta": "not_utf8", "relink": "set_cell", "name_none": "set_cell", "odd_column": "add_column",
        "far": "move", "long": "stretch", "far_all": "move_all",
    }.get(name, name)]
}  # fmt: skip
