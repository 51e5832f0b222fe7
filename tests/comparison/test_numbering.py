"""Numbers that a driver or a profiler gives out anew in each run say nothing: with others, a capture is the same run."""

from __future__ import annotations

import lzma
import sqlite3
from collections.abc import Callable

import pytest

from tests.tiny import FIXTURES
from tracediff.comparison.compare import compare
from tracediff.execution.run import reduce_sides
from tracediff.execution.sides import Reading
from tracediff.formats.inputs import resolve

PAIRS = FIXTURES / "pairs"
TID = 0xFFFFFF  # the thread of a global id, the process stands before it
STRINGS = ("nameId", "demangledName", "shortName", "mangledName", "textId", "jsonTextId")
# What is numbered: its columns in all tables, and their new values.
NUMBERED = {
    "devices": (("deviceId", "srcDeviceId", "dstDeviceId"), "{0} + 3"),
    "streams": (("streamId",), "{0} + 20"),
    "contexts": (("contextId", "srcContextId", "dstContextId"), "{0} + 5"),
    "calls": (("correlationId",), "{0} + 100000"),
    "graph nodes": (("graphNodeId", "originalGraphNodeId"), "iif({0} = 0, 0, {0} + 7777777)"),
    "processes": (("globalPid", "globalTid", "endGlobalTid"), "{0} + (4000 << 24)"),
    "threads": (("globalTid", "endGlobalTid"), f"({{0}} & ~{TID}) | ({TID} - ({{0}} & {TID}))"),
    "strings": (STRINGS, "{0} + 500000"),
    "the clock": (("start", "end", "timestamp"), "{0} + 5000000000000"),
}
# What a part of a capture may have left behind, though other rows tell it: the name of nsys's own domain.
LEFT_BEHIND = "DELETE FROM NVTX_EVENTS WHERE eventType = 75 AND text = 'GIL Trace'"
# Rows of one table that the others point to.
TARGETS = {
    "devices": "UPDATE TARGET_INFO_GPU SET id = id + 3, cuDevice = cuDevice + 3",
    "processes": "UPDATE PROCESSES SET pid = pid + 4000",
    "strings": "UPDATE StringIds SET id = id + 500000",
}


def renumbered(what: str) -> Callable[[sqlite3.Connection], None]:
    names, value = NUMBERED[what]

    def change(db: sqlite3.Connection) -> None:
        tables = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            held = [row[1] for row in db.execute(f'PRAGMA table_info("{table}")') if row[1] in names]
            if held and not table.startswith("ENUM"):
                new = ", ".join(f'"{name}" = {value.format(name)}' for name in held)
                db.execute(f'UPDATE "{table}" SET {new}')
        if what in TARGETS:
            db.execute(TARGETS[what])

    return change


def told(candidate) -> tuple[object, ...]:
    before = PAIRS / ("tp2_1" if "tp2" in candidate.name else "base_1")
    sides = reduce_sides([resolve(f"{before}.sqlite.xz"), resolve(str(candidate))], Reading(threads=1))
    result = compare(*sides)
    causes = [(one.cause, one.delta_ns, one.ci_low_ns, one.where, one.level) for one in result.findings]
    kernels = [(row.baseline, row.candidate, row.match) for row in result.kernels]
    return (result.headline.text, result.accounting, result.structure, causes, kernels)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fused_1", "tp2_strag_1"])
def test_what_is_told_rests_on_no_number_of_a_run(name, tmp_path):
    path = tmp_path / f"{name}.sqlite"
    content = lzma.decompress((PAIRS / f"{name}.sqlite.xz").read_bytes())
    path.write_bytes(content)
    as_recorded = told(path)
    assert as_recorded[3]
    for what in (*NUMBERED, LEFT_BEHIND):
        path.write_bytes(content)
        db = sqlite3.connect(path)
        rows = db.total_changes
        renumbered(what)(db) if what in NUMBERED else db.execute(what)
        assert db.total_changes > rows, what
        db.commit()
        db.close()
        assert told(path) == as_recorded, what
