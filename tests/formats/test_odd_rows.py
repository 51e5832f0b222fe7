"""Rows that a schema does not foresee: without launch, time or place; text among numbers; odd names."""

from __future__ import annotations

import hashlib

import polars as pl
import pytest

from fixtures.builders import BROKEN, HOSTILE_NAMES, TraceBuilder, global_pid, global_tid, two_steps
from tests.comparing import compare
from tests.formats.odd_exports import KERNEL, MEMCPY, RUNTIME, TWO_STEPS, edit, reduce, written
from tests.tiny import STEP, label, reduced, spent
from tracediff.comparison.compare import Options
from tracediff.errors import TracediffError
from tracediff.execution.sides import Run, Side
from tracediff.trace.identify import identify

# Rows that do not fit together


def test_kernels_without_launch_rows(tmp_path):
    reduction = reduce(BROKEN["kernels_without_launch"](tmp_path / "some.sqlite"))
    # orphans at 600-650 (step 0) and 1600-1650, 1700-1750 (step 1); 540-600 before the first is unattributed,
    # 1540-1600 and 1650-1700 before the others; the next launched kernel comes at 1200, 2200:
    # host_work 650-1100 = 450 and 1750-2100 = 350
    assert spent(reduction, 0) == {
        "compute": 350,
        "memcpy": 40,
        "unattributed": 60,
        "host_work": 450,
        "launch_api": 50,
        "launch_latency": 50,
    }
    assert spent(reduction, 1) == {
        "compute": 400,
        "memcpy": 40,
        "unattributed": 110,
        "host_work": 350,
        "launch_api": 50,
        "launch_latency": 50,
    }
    (note,) = reduction.warnings
    assert note.slug == "kernels-without-launch" and "3 of 6 kernels" in note.message


@pytest.mark.parametrize(("recorded", "said"), [(40, False), (31, False), (28, True)])
def test_a_process_that_launches_after_its_last_gpu_row(recorded: int, said: bool, tmp_path):
    """A step each 1 ms launches a kernel, which ends 900 us later. Of the last nine of forty steps it may not be over; of twelve the rows are lost."""
    trace = TraceBuilder().process(100).device(0).thread(100, 1)
    for number in range(40):
        begin = 1_000_000 * number
        trace.range(1, label(number), begin, begin + 950_000)
        trace.api(1, "cudaLaunchKernel", begin, begin + 5_000, corr=number + 1)
        if number < recorded:
            trace.kernel(number + 1, begin + 10_000, begin + 905_000)
    notes = [note.message for note in reduced(trace, tmp_path).warnings if note.slug == "gpu-rows-end-early"]
    assert len(notes) == said
    if said:  # the 28th kernel ends at 27.905 ms, the last launch is at 39 ms
        assert "for 0.011 s after its last row" in notes[0] and "12 of 40 launches" in notes[0]


@pytest.mark.parametrize(
    ("skipped", "polled", "said"), [(50_000, 0, True), (300, 0, False), (0, 5_000, False)]
)
def test_calls_that_were_made_and_not_recorded(skipped: int, polled: int, said: bool, tmp_path):
    """The numbers of calls run on while nothing is recorded. A program that polls makes many between any two that are recorded."""
    trace = TraceBuilder().process(100).device(0).thread(100, 1)
    for number in range(20):
        corr = number * (polled + 1) + 1 + skipped * (number >= 8)
        begin = 1_000_000 * number
        trace.range(1, label(number), begin, begin + 950_000)
        trace.api(1, "cudaLaunchKernel", begin, begin + 5_000, corr=corr)
        trace.kernel(corr, begin + 10_000, begin + 905_000)
    notes = [note.message for note in reduced(trace, tmp_path).warnings if note.slug == "cuda-calls-lost"]
    assert len(notes) == said
    if said:  # between the calls 8 and 50,009 of 1 to 50,020, at 7 and 8 ms
        assert "from 0.007 to 0.008 s" in notes[0] and "50,000 of 50,020" in notes[0]


def test_calls_that_were_lost_in_several_stretches(tmp_path):
    """None of them holds a third of the calls: of ten calls each that are recorded, 20,000 follow that are not."""
    trace = TraceBuilder().process(100).device(0).thread(100, 1)
    for number in range(60):
        corr = number + 1 + 20_000 * (number // 10)
        trace.range(1, label(number), 1_000_000 * number, 1_000_000 * number + 950_000)
        trace.api(1, "cudaLaunchKernel", 1_000_000 * number, 1_000_000 * number + 5_000, corr=corr)
        trace.kernel(corr, 1_000_000 * number + 10_000, 1_000_000 * number + 905_000)
    (note,) = [one for one in reduced(trace, tmp_path).warnings if one.slug == "cuda-calls-lost"]
    # five stretches: the first behind call 10 at 9 ms, the last before call 51 at 50 ms; the last call is 100,060
    assert "from 0.009 to 0.050 s" in note.message and "100,000 of 100,060" in note.message


@pytest.mark.parametrize(("last", "said"), [(5, "the last 4 of 10 steps"), (8, "")])
def test_steps_without_calls_to_the_end_are_lost(last: int, said: str, tmp_path):
    """Those of step `last` are the last ones. The last step of all may be cut off before it calls."""
    trace = TraceBuilder().process(100).device(0).thread(100, 1)
    for number in range(10):
        trace.range(1, label(number), 1_000_000 * number, 1_000_000 * number + 950_000)
    for number in range(last + 1):
        begin = 1_000_000 * number + 900_000
        trace.api(1, "cudaLaunchKernel", begin, begin + 5_000, corr=number + 1)
        trace.kernel(number + 1, begin + 10_000, begin + 20_000)
    found = [one.message for one in reduced(trace, tmp_path).warnings if one.slug == "cuda-calls-lost"]
    assert [said in one for one in found] == [True] * bool(said)


@pytest.mark.parametrize(("steps", "skipped"), [(False, 50_000), (True, 50_000), (True, 0)])
def test_captures_that_lost_most_calls_are_not_compared(steps, skipped, tmp_path):
    """The length of a capture says nothing of the program then, nor do steps of which most are missing."""
    sides = []
    for name, lost in (("a", 0), ("b", skipped)):
        trace = TraceBuilder().process(100).device(0).thread(100, 1)
        for number in range(5):
            corr = 1 + number + lost * (number > 2)
            if steps:
                trace.range(1, label(number), 1000 * number, 1000 * number + 950)
            trace.api(1, "cudaLaunchKernel", 1000 * number, 1000 * number + 50, corr=corr)
            trace.kernel(corr, 1000 * number + 100, 1000 * number + 600)
        sides.append(Side(name, [Run(name, [reduced(trace, tmp_path)])]))
    (found,) = identify([tmp_path / "trace.sqlite"]).inputs
    assert [note.slug for note in found.warnings] == ["cuda-calls-lost"] * bool(skipped)
    if not skipped:
        compare(*sides)
        return
    assert [one.yes for one in found.contents.answers] == [False]
    with pytest.raises(TracediffError, match="50,000 of 50,005 by their numbers") as refused:
        compare(*sides)
    assert (refused.value.slug, refused.value.exit_code) == ("cuda-calls-lost", 4)
    checks = {one.name: one for one in compare(*sides, Options(force=True)).comparability.checks}
    assert checks["complete"].status == "fail"


def test_graph_launches_without_kernels_are_said(capture_of, tmp_path):
    trace = two_steps().api(101, "cudaGraphLaunch", 620, 640)
    capture = capture_of(written(tmp_path, trace))
    assert [note.slug for note in capture.warnings] == ["graph-kernels-missing"]
    assert capture.coverage["graphs"] == "not_captured"


def loosened(path, table: str):
    """The same file with a table whose columns may be NULL."""
    return edit(
        path,
        f"CREATE TABLE loose AS SELECT * FROM {table}",
        f"DROP TABLE {table}",
        f"ALTER TABLE loose RENAME TO {table}",
    )


def test_a_call_that_was_open_when_the_recording_ended(tmp_path):
    path = edit(
        loosened(written(tmp_path), RUNTIME),
        f'INSERT INTO {RUNTIME} (start, "end", globalTid, correlationId, nameId)'
        f" VALUES (5000, NULL, {global_tid(100, 101)}, 77, 1)",
    )
    reduction = reduce(path)
    assert [spent(reduction, period) for period in (0, 1)] == [TWO_STEPS] * 2
    assert reduction.warnings == []


# Times that cannot be. Beside the two steps there are 1,990 of each kind of row after them, which no step holds.

MANY = 1990
TID, PID = global_tid(100, 101), global_pid(100)


def with_many(tmp_path, *statements: str):
    """The two steps, and many rows of every kind after them; then the statements."""
    path = written(tmp_path)
    for table in (KERNEL, MEMCPY, RUNTIME, "NVTX_EVENTS"):
        loosened(path, table)
    numbers = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {MANY}) "
    return edit(
        path,
        f'INSERT INTO {KERNEL} (start, "end", deviceId, streamId, globalPid)'
        f" {numbers} SELECT 100000 + 100 * i, 100050 + 100 * i, 0, 7, {PID} FROM n",
        f'INSERT INTO {MEMCPY} (start, "end", deviceId, streamId, globalPid, copyKind)'
        f" {numbers} SELECT 100060 + 100 * i, 100070 + 100 * i, 0, 7, {PID}, 1 FROM n",
        f'INSERT INTO {RUNTIME} (start, "end", globalTid, nameId)'
        f" {numbers} SELECT 100000 + 100 * i, 100050 + 100 * i, {TID}, 1 FROM n",
        f'INSERT INTO NVTX_EVENTS (start, "end", eventType, globalTid, text)'
        f" {numbers} SELECT 100000 + 100 * i, 100050 + 100 * i, 59, {TID}, 'piece' FROM n",
        *statements,
    )


ODD = {"backward": '"end" = start - 10', "no end": '"end" = NULL', "no start": "start = NULL"}


TABLES = [KERNEL, MEMCPY, RUNTIME, "NVTX_EVENTS"]
# a range still open inside of another one; without that one, it could have been open at the end
AROUND = f"INSERT INTO NVTX_EVENTS (start, \"end\", eventType, globalTid, text) VALUES (110000, 210000, 59, {TID}, 'around')"


@pytest.mark.parametrize("odd", ODD)
def test_rows_whose_times_cannot_be_are_said_and_not_measured(odd, tmp_path):
    """One in each table. Without times it counts nothing, backward it has no length: the steps before it are as they are."""
    changes = [f"UPDATE {table} SET {ODD[odd]} WHERE start BETWEEN 200000 AND 200099" for table in TABLES]
    reduction = reduce(with_many(tmp_path, AROUND, *changes))
    assert spent(reduction) == TWO_STEPS
    said = [note.message for note in reduction.warnings if note.slug == "odd-rows"]
    assert all(one.startswith("trace.sqlite: of 1,99") for one in said)
    for table in TABLES:
        assert sum(f"rows in {table} 1 " in one for one in said) == 1, (table, said)


@pytest.mark.parametrize(("table", "odd"), [*zip(TABLES, [*ODD, "backward"], strict=True)])
def test_more_than_one_in_a_thousand_of_them_is_an_error(table, odd, tmp_path):
    path = with_many(tmp_path, AROUND, f"UPDATE {table} SET {ODD[odd]} WHERE start BETWEEN 200000 AND 200299")
    with pytest.raises(TracediffError) as raised:
        reduce(path)
    assert raised.value.slug == "bad-time"
    assert table in raised.value.message and " 3 " in raised.value.message


def test_ranges_that_were_never_closed_are_said_where_they_are_many(tmp_path):
    """Nothing around them was closed: they may have been open when the recording ended."""
    three = f"INSERT INTO NVTX_EVENTS (start, eventType, globalTid, text) VALUES (400000, 59, {TID}, 'a'), (400001, 59, {TID}, 'b'), (9, 60, {TID}, 'c')"
    reduction = reduce(with_many(tmp_path, three))
    assert spent(reduction) == TWO_STEPS
    (note,) = (note for note in reduction.warnings if note.slug == "odd-rows")
    assert "3 of 2,000 ranges" in note.message


@pytest.mark.parametrize(
    ("what", "said"),
    [
        (f"INSERT INTO {KERNEL} SELECT * FROM {KERNEL} WHERE start BETWEEN 200000 AND 200199", " 2 are there twice"),
        # launched 2 ms after it began, by a call that has no other kernel
        (
            f"INSERT INTO {RUNTIME} (start, \"end\", globalTid, correlationId, nameId) VALUES (2200000, 2200010, {TID}, 99, 1);"
            f"UPDATE {KERNEL} SET correlationId = 99 WHERE start = 200000",
            " 1 began more than 1 ms before",
        ),
        (
            "UPDATE ANALYSIS_DETAILS SET duration = 300000;"
            f"UPDATE {KERNEL} SET start = 1000300001, \"end\" = 1000300002 WHERE start BETWEEN 200000 AND 200099",
            " 1 began outside of its 0.0003 s of recording",
        ),
    ],
    ids=["twice", "before its launch", "outside"],
)  # fmt: skip
def test_rows_that_are_doubted_are_said(what, said, tmp_path):
    reduction = reduce(with_many(tmp_path, *what.split(";")))
    assert spent(reduction) == TWO_STEPS
    (note,) = (note for note in reduction.warnings if note.slug == "odd-rows")
    assert said in note.message


@pytest.mark.parametrize(("start", "end"), [("7000", "6000"), ("7000", "NULL"), ("NULL", "7000")])
@pytest.mark.parametrize("table", ["OSRT_API", "MPI_P2P_EVENTS"])
def test_calls_of_other_kinds_whose_times_cannot_be(table, start, end, tmp_path):
    path = edit(
        written(tmp_path),
        f'CREATE TABLE {table} (start INT, "end" INT, globalTid INT, nameId INT, textId INT, size INT)',
        f"INSERT INTO {table} VALUES (600, 700, {TID}, 1, 1, 1), ({start}, {end}, {TID}, 1, 1, 1)",
    )
    with pytest.raises(TracediffError) as raised:
        reduce(path)
    assert raised.value.slug == "bad-time" and table[:4] in raised.value.message


@pytest.mark.parametrize("column", ["deviceId", "streamId", "globalPid", "correlationId"])
def test_a_kernel_that_does_not_say_where_it_ran(column, tmp_path):
    """One kernel without device, stream, process or launch: the rest of the capture still counts."""
    path = edit(
        loosened(written(tmp_path), KERNEL), f"UPDATE {KERNEL} SET {column} = NULL WHERE start = 2200"
    )
    reduction = reduce(path)
    assert spent(reduction) == TWO_STEPS
    assert reduction.residual_ns == 0


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        (KERNEL, "start", "'soon'"),
        (KERNEL, "registersPerThread", "'many'"),
        (RUNTIME, "start", "'12x'"),
        ("NVTX_EVENTS", "start", "'later'"),
    ],
)
def test_text_in_a_number_s_column_is_an_error_with_its_name(table, column, value, tmp_path):
    path = edit(written(tmp_path), f'UPDATE {table} SET "{column}" = {value} WHERE rowid = 2')
    with pytest.raises(TracediffError) as raised:
        reduce(path)
    assert raised.value.slug == "bad-column" and raised.value.fix


@pytest.mark.parametrize("value", ["CAST(x'6bff66fe' AS TEXT)", "x'ff'", "'" + "9" * 100_000 + "'"])
@pytest.mark.parametrize("column", ["start", "streamId"])
def test_what_is_no_number_is_an_error_of_a_line_whatever_its_bytes(column, value, tmp_path):
    path = edit(written(tmp_path), f"UPDATE {KERNEL} SET {column} = {value} WHERE rowid = 2")
    with pytest.raises(TracediffError) as raised:
        reduce(path)
    assert raised.value.slug == "bad-column" and len(raised.value.message) < 600


@pytest.mark.parametrize(
    ("table", "start", "end"),
    [
        (KERNEL, 2**63 - 10, 2**63 - 1),  # one row at the end of what 64 bits hold
        (RUNTIME, -(2**63), -(2**63) + 1),
        ("NVTX_EVENTS", -(2**63), 2**63 - 1),  # its length does not fit into them
        (KERNEL, -(2**63), 2**63 - 1),
        (RUNTIME, 1000, 2**62),
        ("NVTX_EVENTS", 2**53, 2**53 + 1),  # a hundred days after the others
    ],
)
def test_times_that_would_overflow_are_an_error(table, start, end, tmp_path):
    path = edit(written(tmp_path), f'UPDATE {table} SET start = {start}, "end" = {end} WHERE rowid = 3')
    with pytest.raises(TracediffError) as raised:
        reduce(path)
    assert raised.value.slug == "bad-time" and "trace.sqlite" in raised.value.message


@pytest.mark.parametrize("moved", [2**61, -(2**61)])
def test_a_clock_that_is_far_from_zero_measures_the_same(moved, tmp_path):
    tables = [KERNEL, MEMCPY, RUNTIME, "NVTX_EVENTS"]
    moves = [f'UPDATE {table} SET start = start + {moved}, "end" = "end" + {moved}' for table in tables]
    reduction = reduce(edit(written(tmp_path), *moves))
    assert [spent(reduction, period) for period in (0, 1)] == [TWO_STEPS] * 2


@pytest.mark.parametrize("moved", [2**62, -(2**62) - 10_000])
def test_a_clock_that_is_too_far_from_zero_is_an_error(moved, tmp_path):
    """However near its times are to each other."""
    tables = [KERNEL, MEMCPY, RUNTIME, "NVTX_EVENTS"]
    moves = [f'UPDATE {table} SET start = start + {moved}, "end" = "end" + {moved}' for table in tables]
    with pytest.raises(TracediffError) as raised:
        reduce(edit(written(tmp_path), *moves))
    assert raised.value.slug == "bad-time"


def test_ranges_and_calls_of_no_thread_are_passed_over(tmp_path):
    path = edit(
        loosened(loosened(written(tmp_path), RUNTIME), "NVTX_EVENTS"),
        "UPDATE NVTX_EVENTS SET globalTid = NULL WHERE start = 700",
        f'INSERT INTO {RUNTIME} (start, "end", globalTid, correlationId, nameId) VALUES (700, 900, NULL, 77, 1)',
    )
    reduction = reduce(path)
    assert [spent(reduction, period) for period in (0, 1)] == [TWO_STEPS] * 2
    places = {period: set(part["place"]) for (period,), part in reduction.idle.group_by("period")}
    assert "_schedule" not in places[0] and "_schedule" in places[1]


def test_calls_that_share_a_correlation_id_are_said(tmp_path):
    """The launch at 1100 gets the id of the one at 100: both kernels are laid to the first, which ended at 150."""
    path = edit(written(tmp_path), f"UPDATE {RUNTIME} SET correlationId = 1 WHERE start = 1100",
                f"UPDATE {KERNEL} SET correlationId = 1 WHERE start = 1200")  # fmt: skip
    reduction = reduce(path)
    (note,) = reduction.warnings
    assert note.slug == "correlation-ids-repeat" and "1 correlation ids" in note.message
    # the first step has both kernels and lasts until the copy at 1500; the kernel at 1200 was launched long before the gap 540-1200
    assert spent(reduction) == {"compute": 600, "memcpy": 40, "dependency": 660}
    assert reduction.residual_ns == 0


@pytest.mark.parametrize("corr", [-1, -(1 << 32) + 1, (1 << 32) + 11, 2**63 - 1, -(2**63)])
def test_a_correlation_id_of_more_than_32_bits_is_none(corr, tmp_path):
    """Added to the number of the process it would be the id of another one's call, 1 << 32 further on."""
    other = two_steps().process(101).thread(101, 901)
    other.api(901, "cudaLaunchKernel", 50, 60, corr=11).kernel(11, 2600, 2610, name="other")
    path = edit(written(tmp_path, other), f"UPDATE {KERNEL} SET correlationId = {corr} WHERE start = 1200")
    reduction = reduce(path)
    assert "1 of 4 kernels" in next(
        n.message for n in reduction.warnings if n.slug == "kernels-without-launch"
    )
    # the kernel at 1200 goes with the op before it on its stream: step 20 lasts from 200 to the copy of step 21 at 1500
    expected = {"compute": 600, "memcpy": 40, "unattributed": 660}
    assert spent(reduction) == expected


def test_a_driver_call_inside_its_runtime_call_shares_its_id_rightly(tmp_path):
    path = written(tmp_path, two_steps().api(101, "cuLaunchKernel", 1110, 1140, corr=11))
    reduction = reduce(path)
    assert reduction.warnings == [] and spent(reduction) == TWO_STEPS


def test_a_graph_with_a_copy_to_pageable_memory_does_not_wait(tmp_path):
    """The call that launches it returns at once, unlike a copy of that kind launched by itself."""
    trace = TraceBuilder().process(100).thread(100, 1)
    for number in range(3):
        at = 1000 * number
        trace.range(1, label(number), at, at + 900)
        trace.api(1, "cudaGraphLaunch", at + 100, at + 150, corr=number).kernel(
            number, at + 200, at + 300, graph_node=1
        )
        trace.memcpy(number, at + 300, at + 400, kind="DtoH", dst="pageable", graph_node=2)
    # the gap 400-1200 of a period 200-1200: host 400-1100, the launching call 1100-1150, 50 more until the kernel
    assert spent(reduced(trace, tmp_path)) == {
        "compute": 100, "memcpy": 100, "host_work": 700, "launch_api": 50, "launch_latency": 50,
    }  # fmt: skip


def test_text_that_is_a_number_is_that_number(tmp_path):
    path = edit(written(tmp_path), f"UPDATE {KERNEL} SET registersPerThread = CAST('32' AS TEXT)")
    assert spent(reduce(path)) == TWO_STEPS


def test_text_that_is_not_utf_8(tmp_path):
    path = edit(
        written(tmp_path), "UPDATE StringIds SET value = CAST(x'6bff66fe' AS TEXT) WHERE value = 'gemm'"
    )
    reduction = reduce(path)
    assert spent(reduction) == TWO_STEPS
    (name,) = reduction.keys.filter(pl.col("kind") == 0)["name"].to_list()
    assert name == "k\ufffdf\ufffd"  # the bytes 6b ff 66 fe
    assert [note.slug for note in reduction.warnings] == ["text-not-utf8"]


def test_a_blob_in_a_text_column_is_read_as_far_as_it_is_text(tmp_path):
    path = edit(written(tmp_path), "UPDATE StringIds SET value = x'67ff' WHERE value = 'gemm'")
    reduction = reduce(path)
    assert reduction.keys.filter(pl.col("kind") == 0)["name"].to_list() == ["g\ufffd"]
    assert [note.slug for note in reduction.warnings] == ["text-not-utf8"]


# Names


def test_hostile_names_pass_through_as_they_are(tmp_path):
    """But for one that is longer than any: its beginning, and what tells it from others that begin so."""
    trace = TraceBuilder().process(100).thread(100, 101)
    now = 0
    for number in range(3):
        trace.range(101, label(number), now, now + 90)
        for place, name in enumerate(HOSTILE_NAMES):
            start, corr = now + 100 * place + 100, 1000 * number + place
            trace.range(101, name, start, start + 90).range(
                101, name, start + 1, start + 80, domain=name or None, registered=False
            )
            trace.api(101, "cudaLaunchKernel", start + 10, start + 20, corr=corr).kernel(
                corr, start + 30, start + 40, name=name
            )
        now += 100 * len(HOSTILE_NAMES) + 200
    reduction = reduced(trace, tmp_path)
    assert len(reduction.periods) == 2 and reduction.residual_ns == 0
    clean = {name.split("\x00")[0] for name in HOSTILE_NAMES}
    short = {name for name in clean if len(name.encode()) <= 65_536}
    (long,) = clean - short
    cut = f"{long[:32_768]} ... {hashlib.md5(long.encode()).hexdigest()}"
    assert set(reduction.keys["name"]) <= set(HOSTILE_NAMES) | short | {cut}
    assert long not in set(reduction.keys["name"]) and cut in set(reduction.keys["name"])
    assert len(reduction.keys) == len(HOSTILE_NAMES)
    # every kernel counts once a step whatever its name
    assert reduction.kernels["count"].to_list() == [1] * 2 * len(HOSTILE_NAMES)
    assert STEP in reduction.ranges["place"].to_list()


def test_a_gc_range_in_another_spelling_is_a_range(tmp_path):
    found = reduced(two_steps().range(101, "my Python GC wrapper", 700, 710), tmp_path)
    assert found.coverage["gc"] == "not_captured"


@pytest.mark.parametrize(
    "statements",
    [
        (
            f"ALTER TABLE {KERNEL} RENAME TO hidden",
            f"CREATE TABLE {KERNEL} AS SELECT * FROM hidden ORDER BY start DESC",
        ),
        (f"ALTER TABLE {KERNEL} ADD COLUMN rowid INTEGER", f"UPDATE {KERNEL} SET rowid = 5"),
        (f"UPDATE {KERNEL} SET rowid = -1 - rowid",),
    ],
    ids=["the last first", "a column of that name", "negative row numbers"],
)
def test_kernels_are_looked_up_by_row_whatever_the_rows_are(tmp_path, statements):
    plain = reduce(written(tmp_path))
    odd = reduce(edit(written(tmp_path), *statements))
    assert spent(odd) == spent(plain) == TWO_STEPS
    assert odd.keys.equals(plain.keys) and odd.kernels.equals(plain.kernels)
