"""Real captures in Perfetto's own trace processor: what SQL finds is what the comparison and the exports say.

The same questions are answered without the trace processor by decoding the packets, so that something always runs.
"""

from __future__ import annotations

import functools
import lzma
import shutil
import sqlite3
from pathlib import Path

import polars as pl
import pytest

from tests.report.decode import Decoded, decode
from tests.report.trace_processor import TraceProcessor, missing
from tests.tiny import FIXTURES, bundled
from tracediff.comparison.timeline import PairedRuns, Window, read_paired_runs
from tracediff.execution.sides import Reading
from tracediff.formats.inputs import resolve_pair
from tracediff.model import CATEGORIES
from tracediff.report.perfetto import render_perfetto

pytestmark = pytest.mark.slow

PAIRS = {
    "hog300": ("bundles/hog300", None),
    "eager, graph": ("pairs/eager_1.sqlite.xz", "pairs/base_1.sqlite.xz"),
    "two ranks": ("pairs/tp2_1.sqlite.xz", "pairs/tp2_strag_1.sqlite.xz"),
    "gil on one side": ("pairs/hog300_1.sqlite.xz", "pairs/nogil_1.sqlite.xz"),
}
SIDES = ("baseline", "candidate")
BUSY = ("compute", "comm", "memcpy")
needs_processor = pytest.mark.skipif(bool(missing()), reason=missing() or "installed")


@functools.cache
def shown(pair: str) -> PairedRuns:
    baseline, candidate = PAIRS[pair]
    files = resolve_pair(str(FIXTURES / baseline), candidate and str(FIXTURES / candidate))
    return read_paired_runs((files[0], files[1]), Reading(), Window(first=3, last=14))


@functools.cache
def data(pair: str) -> bytes:
    return render_perfetto(shown(pair))


@functools.cache
def decoded(pair: str) -> Decoded:
    return decode(data(pair))


@functools.cache
def path_of(pair: str, side: int) -> Path:
    """The export of the run that is shown."""
    found = resolve_pair(
        str(FIXTURES / PAIRS[pair][0]), PAIRS[pair][1] and str(FIXTURES / str(PAIRS[pair][1]))
    )[side]
    (path,) = next(run.files for run in found.runs if run.name == shown(pair).sides[side].name)
    return path


@functools.cache
def accounting(pair: str, side: int) -> dict[tuple[int, int], dict[str, int]]:
    """(rank, start of the step) -> ns by category, as `tracediff compare` reads the export."""
    reduction = bundled(path_of(pair, side))
    out = {}
    for row in reduction.periods.iter_rows(named=True):
        own = {name: row[name] for name in CATEGORIES if row[name]}
        if pair == "gil on one side":  # then `compare` goes by the column `under` of the idle table
            mine = reduction.idle.filter(pl.col("period") == row["period"])
            under = mine.group_by("under").agg(pl.col("ns").sum())
            own = {name: row[name] for name in BUSY if row[name]}
            own |= dict(under.iter_rows())
        out[row["rank"], row["start_ns"]] = own
    return out


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("side", (0, 1), ids=SIDES)
@pytest.mark.slow
def test_busy_and_idle_time_of_every_step_is_the_accounting(pair: str, side: int) -> None:
    trace = decoded(pair)
    steps = trace.of(SIDES[side], "steps", "step")
    pieces = [*trace.of(SIDES[side], "GPU busy"), *trace.of(SIDES[side], "GPU idle")]
    ranks = {one.path[1] for one in steps}
    assert len(steps) == 12 * len(ranks) and len(ranks) == (2 if pair == "two ranks" else 1)
    for step in steps:
        rank = int(step.path[1].split(",")[0].removeprefix("rank "))
        expected = accounting(pair, side)[rank, int(step.args["capture_start_ns"])]
        assert sum(expected.values()) == step.end - step.start == step.args["step_ns"]
        found: dict[str, int] = {}
        parts = 0
        for one in pieces:
            if one.path[1] == step.path[1] and step.start <= one.start < step.end:
                assert one.end <= step.end
                found[one.name] = found.get(one.name, 0) + one.end - one.start
                parts += 1
        assert found == expected and parts >= len(expected)
        assert {name.removesuffix("_ns"): ns for name, ns in step.args.items() if name.removesuffix("_ns") in CATEGORIES} == expected  # fmt: skip


@pytest.mark.parametrize(
    "pair", ["hog300", "two ranks", *(pytest.param(one, marks=pytest.mark.slow) for one in list(PAIRS)[1::2])]
)
@pytest.mark.parametrize("side", (0, 1), ids=SIDES)
def test_every_op_of_the_export_is_there(pair: str, side: int, tmp_path) -> None:
    """Asked of the export itself: how many ops touch each step, and for how long."""
    plain = tmp_path / "plain.sqlite"
    with lzma.open(path_of(pair, side)) as packed, plain.open("wb") as out:
        shutil.copyfileobj(packed, out)
    trace = decoded(pair)
    streams = trace.of(SIDES[side], "stream")
    with sqlite3.connect(plain) as db:
        present = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        tables = [f"CUPTI_ACTIVITY_KIND_{kind}" for kind in ("KERNEL", "MEMCPY", "MEMSET")]
        rows = " UNION ALL ".join(f'SELECT "start" AS s, "end" AS e, deviceId AS d FROM {name}' for name in tables if name in present)  # fmt: skip
        for step in trace.of(SIDES[side], "steps", "step"):
            device = int(step.path[1].rsplit(" ", 1)[1])
            low = int(step.args["capture_start_ns"])
            high = low + int(step.args["step_ns"])
            expected = db.execute(
                f"SELECT count(*), sum(min(e, :high) - max(s, :low)) FROM ({rows}) WHERE s < :high AND e > :low AND d = :device",
                {"low": low, "high": high, "device": device},
            ).fetchone()
            ops = [
                one for one in streams if one.path[1] == step.path[1] and step.start <= one.start < step.end
            ]
            assert (len(ops), sum(one.end - one.start for one in ops)) == expected


@pytest.mark.parametrize("pair", PAIRS)
def test_the_counter_is_the_difference_of_the_steps(pair: str) -> None:
    trace = decoded(pair)
    deltas: dict[tuple[int, str], list[int]] = {}
    for side in (0, 1):
        for one in trace.of(SIDES[side], "steps", "step"):
            rank = one.path[1].split(",")[0]
            sign = 1 if side else -1
            deltas.setdefault((int(one.args["pair"]), rank), []).append(sign * (one.end - one.start))
    expected: dict[str, list[int]] = {}
    for (_, rank), lengths in sorted(deltas.items()):
        assert len(lengths) == 2
        expected.setdefault(rank, []).append(sum(lengths))
    found: dict[str, list[int]] = {}
    for name, _, value in trace.counters:
        found.setdefault(name, []).append(value)
    assert [*found.values()] == [[*values, 0] for values in expected.values()]


@needs_processor
@pytest.mark.parametrize("pair", ["hog300", "two ranks"])
def test_the_trace_processor_finds_the_same(pair: str) -> None:
    """No error while loading, and slices, durations, arguments, counters and flows as they were written."""
    trace = decoded(pair)
    with TraceProcessor(data(pair)) as processor:
        problems = processor.query(
            "SELECT name, value FROM stats WHERE severity IN ('error', 'data_loss') AND value > 0"
        )
        assert problems == []
        assert processor.query("SELECT count(*) FROM slice WHERE dur <= 0 AND category <> 'about'") == [(0,)]
        found = processor.query(OF_SLICES)
        expected: dict[tuple[str, str, str, str], list[int]] = {}
        for one in trace.slices:
            sums = expected.setdefault((one.path[0], one.path[-1], one.category, one.name), [0, 0])
            sums[0] += 1
            sums[1] += one.end - one.start
        assert {row[:4]: list(row[4:]) for row in found} == expected
        counters = processor.query("SELECT t.name, c.ts, CAST(c.value AS INT) AS value, t.unit FROM counter c JOIN counter_track t ON c.track_id = t.id ORDER BY t.id, c.ts")  # fmt: skip
        assert sorted(counters) == sorted((*one, "ns") for one in trace.counters)
        flows = processor.query("SELECT s.name AS call, e.category FROM flow JOIN slice s ON s.id = slice_out JOIN slice e ON e.id = slice_in")  # fmt: skip
        assert len(flows) == sum(len(one.flows) for one in trace.slices) / 2 > 0
        assert {name.startswith("cu") for name, _ in flows} == {True}
        args = processor.query("SELECT count(*) FROM slice JOIN args USING (arg_set_id) WHERE key LIKE 'debug.%' AND category <> 'about'")  # fmt: skip
        assert args == [(sum(len(one.args) for one in trace.slices),)]


OF_SLICES = """
WITH RECURSIVE up(id, top) AS (
    SELECT t.id, p.name FROM process_track t JOIN process p USING (upid) WHERE t.parent_id IS NULL
    UNION ALL SELECT t.id, up.top FROM track t JOIN up ON t.parent_id = up.id
)
SELECT coalesce(p.name, up.top) AS side, t.name AS track, s.category, s.name, count(*) AS slices, sum(s.dur) AS ns
FROM slice s JOIN track t ON t.id = s.track_id LEFT JOIN process_track pt ON pt.id = t.id
LEFT JOIN process p USING (upid) LEFT JOIN up ON up.id = t.id
WHERE s.category <> 'about' GROUP BY 1, 2, 3, 4
"""


@needs_processor
def test_idle_time_by_cause_in_sql() -> None:
    """The query of docs/investigate.md: idle time by cause and side, checked against the accounting of the export."""
    with TraceProcessor(data("hog300")) as processor:
        rows = processor.query(
            (FIXTURES.parent / "docs/investigate.md").read_text().split("```sql\n")[1].split("```")[0]
        )
    expected: dict[tuple[str, str], int] = {}
    for side in (0, 1):
        for step in decoded("hog300").of(SIDES[side], "steps", "step"):
            for name, ns in accounting("hog300", side)[0, int(step.args["capture_start_ns"])].items():
                if name not in BUSY:
                    expected[SIDES[side], name] = expected.get((SIDES[side], name), 0) + ns
    assert {(row[0].split(":")[0], row[1]): row[2] for row in rows} == expected
    assert (
        expected["candidate", "gil_wait"] > 12 * 250_000 > expected.get(("baseline", "gil_wait"), 0)
    )  # 300 us a step
