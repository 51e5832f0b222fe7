"""Ranks that were exported apart: their clocks, and who waits for whom."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from msgspec.structs import replace

from fixtures.builders import TraceBuilder
from tests.comparing import compare, show
from tests.tiny import label, reduced
from tracediff.accounting.kernels import EXCHANGES, SENDS, _kinds
from tracediff.execution.clocks import ranks_of_one
from tracediff.execution.run import reduce_file
from tracediff.execution.sides import Reading, Run, Side
from tracediff.report.remarks import rank_clocks

US = 1000
STEPS = 12


def rank(late_us: int, most_us: int, *, ahead_us: int = 0, drift: float = 0.0, calls: tuple[str, ...] = ("ncclAllReduce",),
         kernel: str = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", uneven_us: int = 0) -> TraceBuilder:  # fmt: skip
    """Steps of 1000 us: gemm from 100 to 200 + late, then the collective, which ends at 300 + most on every rank.

    The clock of the export is so far ahead, and gains `drift` of the time. uneven_us: the collective ends so much later in every other step.
    """
    trace = TraceBuilder().process(100).thread(100, 1)

    def at(time_us: float) -> int:
        return round((time_us * (1 + drift) + ahead_us) * US)

    for number in range(STEPS + 1):
        begin = 1000 * number
        trace.range(1, label(number), at(begin), at(begin + 90))
        for part in (0, 1):
            trace.api(
                1,
                "cudaLaunchKernel",
                at(begin + 10 + 20 * part),
                at(begin + 15 + 20 * part),
                corr=2 * number + part,
            )
        for place, call in enumerate(calls):
            start, end = 26 + place / 2, 40 if place == len(calls) - 1 else 26.25 + place / 2
            trace.range(1, call, at(begin + start), at(begin + end), domain="NCCL")
        trace.kernel(2 * number, at(begin + 100), at(begin + 200 + late_us), name="gemm")
        end = begin + 300 + most_us + uneven_us * (number % 2)
        trace.kernel(2 * number + 1, at(begin + 200 + late_us), at(end), name=kernel)
    return trace


def side(folder, name: str, *traces: TraceBuilder, started: tuple[int, ...] = ()) -> Side:
    parts = []
    for number, trace in enumerate(traces):
        (folder / name / str(number)).mkdir(parents=True)
        part = reduced(trace, folder / name / str(number))
        said = {"SESSION_START_NS": (str(started[number]),)} if started else {}
        parts.append(replace(part, meta=part.meta | said))
    return Side(name, [Run(name, parts)])


@pytest.mark.parametrize(
    ("ahead_us", "drift", "near"), [(0, 0, 0), (5000, 0, 0), (-987_654, 0, 0), (5000, 1e-3, 0.5)]
)
def test_ends_of_all_reduces_align_the_clocks(tmp_path, ahead_us, drift, near):
    """Rank 1 comes 30 us late: rank 0 waits for it so long, as in one export."""
    one = show(side(tmp_path, "a", rank(0, 30), rank(30, 30, ahead_us=ahead_us, drift=drift)))
    zero, late = one.ranks
    assert zero.baseline_comm_wait_ns == pytest.approx(30 * US, abs=near * US)
    assert late.baseline_comm_wait_ns == pytest.approx(0, abs=near * US)
    assert late.baseline_caused_wait_ns == pytest.approx(30 * US, abs=near * US)
    assert late.baseline_comm_transfer_ns == pytest.approx(100 * US, rel=2e-3)
    (clock,) = one.rank_clocks
    assert (clock.exports, clock.by, clock.kind, clock.shared) == (2, "collectives", "all-reduces", STEPS)
    assert clock.apart_ns <= near * US
    assert rank_clocks(one)[0].startswith(
        "Capture: the clocks of its 2 exports were aligned on shared all-reduces; 95 % of 12 "
    )


def test_sessions_of_one_clock_need_no_collective_that_ends_everywhere_at_once(tmp_path):
    """A send ends 13 us before it is received: by the start times it does, else they would be taken to end together."""
    sends = {"calls": ("ncclGroupStart", "ncclSend", "ncclGroupEnd"), "kernel": "ncclDevKernel_SendRecv"}
    traces = rank(0, 30, **sends), rank(30, 43, ahead_us=5000, **sends)
    known = show(side(tmp_path, "a", *traces, started=(10**18, 10**18 - 5000 * US)))
    (clock,) = known.rank_clocks
    assert (clock.by, clock.kind, clock.apart_ns) == ("sessions", "collectives", 13 * US)
    assert known.ranks[0].baseline_comm_wait_ns == pytest.approx(30 * US)
    other = show(
        side(tmp_path, "b", *traces, started=(10**18, 10**18 + 7 * 10**9))
    )  # another machine's clock
    (clock,) = other.rank_clocks
    assert (clock.by, clock.apart_ns) == ("collectives", 0)
    assert other.ranks[0].baseline_comm_wait_ns == pytest.approx(17 * US)


@pytest.mark.parametrize(
    ("late_us", "most_us", "waited_us"),
    [
        (30, 0, 30),  # the sender is there at 200 us and waits for the receiver
        (150, 55, 0),  # it is done at 300, when the receiver has not come
    ],
)
def test_sends_that_a_buffer_takes_end_before_they_are_received(tmp_path, late_us, most_us, waited_us):
    """In every other step the receiver ends 200 us later."""
    sends = {"calls": ("ncclGroupStart", "ncclSend", "ncclGroupEnd"), "kernel": "ncclDevKernel_SendRecv"}
    traces = rank(0, 0, **sends), rank(late_us, most_us, ahead_us=7, uneven_us=200, **sends)
    known = show(side(tmp_path, "a", *traces, started=(10**18, 10**18 - 7 * US)))
    assert known.rank_clocks[0].by == "sessions"
    assert known.rank_groups[0].kind == "pipeline"
    assert [row.baseline_comm_wait_ns for row in known.ranks] == pytest.approx([waited_us * US, 0])
    # nothing else tells of their clocks
    assert show(side(tmp_path, "b", *traces)).rank_clocks == [None]


def test_ranks_that_share_nothing_are_not_told_to_wait(tmp_path):
    one = show(side(tmp_path, "a", rank(0, 30), rank(30, 30, uneven_us=200)))
    assert one.rank_clocks == [None] and {row.baseline_comm_wait_ns for row in one.ranks} == {None}
    assert rank_clocks(one) == []


@pytest.mark.parametrize(
    ("calls", "kind", "said"),
    [
        (("ncclGroupStart", "ncclSend", "ncclGroupEnd"), "pipeline", "bubble of the pipeline"),
        (("ncclGroupStart", *("ncclSend", "ncclRecv") * 2, "ncclGroupEnd"), "all-to-all", "waiting for rank 1 in the all-to-all"),
    ],
)  # fmt: skip
def test_sends_are_of_a_pipeline_or_of_an_all_to_all(tmp_path, calls, kind, said):
    how = {"calls": calls, "kernel": "ncclDevKernel_SendRecv"}
    before = side(tmp_path, "a", rank(0, 30, **how), rank(30, 30, ahead_us=9, **how))
    after = side(tmp_path, "b", rank(0, 130, **how), rank(130, 130, ahead_us=9, **how))
    result = compare(before, after)
    (group,) = result.rank_groups
    assert (group.members, group.kind, group.candidate_late) == ([0, 1], kind, 1)
    # rank 0 alone waits, 30 and 130 us
    assert (group.baseline_wait_ns, group.candidate_wait_ns) == pytest.approx((30 * US, 130 * US))
    waiting = [one for one in result.findings if one.cause == "comm"]
    assert [said in one.title.lower() for one in waiting] == [True]


def test_kinds_of_calls():
    one_way = ["ncclGroupStart", "ncclSend", "ncclGroupEnd", "ncclAllReduce", "ncclRecv"]
    assert _kinds(one_way) == ["", SENDS, SENDS, "ncclAllReduce", SENDS]
    both_ways = ["ncclGroupStart", "ncclSend", "ncclRecv", "ncclGroupEnd"]  # of a stage in the middle
    assert _kinds(both_ways)[-1] == SENDS
    everyone = ["ncclGroupStart", *["ncclSend", "ncclRecv"] * 2, "ncclGroupEnd", "ncclCommCount"]
    assert _kinds(everyone)[-2:] == [EXCHANGES, ""]
    assert _kinds(["ncclGroupStart", "ncclAllReduce", "ncclGroupEnd"]) == ["", "ncclAllReduce", ""]
    # torch.profiler tells of no begin of a group, and not of a group around a single send
    steps = ["ncclSend", "ncclRecv"] * 2
    assert _kinds(steps) == [SENDS] * 4
    assert _kinds(["ncclSend", "ncclGroupEnd", "ncclRecv", "ncclGroupEnd"]) == [SENDS] * 4


def test_the_start_of_a_session_is_read(tmp_path):
    path = rank(0, 30).write(tmp_path / "one.sqlite")
    with closing(sqlite3.connect(path)) as export:
        export.execute("DROP TABLE IF EXISTS TARGET_INFO_SESSION_START_TIME")
        export.execute("CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT)")
        export.execute("INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1795821551379290524, '')")
        export.commit()
    assert reduce_file(path, Reading(threads=1)).meta["SESSION_START_NS"] == ("1795821551379290524",)


@pytest.mark.parametrize(
    ("started_us", "uneven_us", "runs", "slugs"),
    [
        (-5000, 0, [("report", 2)], ["ranks-of-one-run"]),
        # recorded at the same time without collectives that end together: the second ends 200 us later in every other step
        (-5000, 200, [("report_0", 1), ("report_1", 1)], ["runs-at-once"]),
        (60_000_000, 0, [("report_0", 1), ("report_1", 1)], []),  # a minute later: a repeat
    ],
)
def test_exports_are_ranks_of_one_run_by_what_they_share_not_by_their_names(
    started_us, uneven_us, runs, slugs, tmp_path
):
    """The clock of the second export is 5000 us ahead, and its session began that much earlier or a minute later."""
    traces = rank(0, 30), rank(30, 30, ahead_us=5000, uneven_us=uneven_us)
    parts = side(tmp_path, "a", *traces, started=(10**18, 10**18 + started_us * US)).parts
    found, notes = ranks_of_one([Run(f"report_{at}", [part]) for at, part in enumerate(parts)])
    assert [(run.name, len(run.parts)) for run in found] == runs
    assert [note.slug for note in notes] == slugs
    if slugs == ["ranks-of-one-run"]:
        assert found[0].firsts() == (0, 1) and found[0].program_ranks == 2


def test_copies_of_a_capture_are_no_ranks(tmp_path):
    (part,) = side(tmp_path, "a", rank(0, 30), started=(10**18,)).parts
    runs = [Run("a", [part]), Run("b", [part])]
    assert ranks_of_one(runs) == (runs, [])
