"""The views of comparison/sql on tables that a reader adds up by hand.

Both sides have one run of one export. A step of the baseline counts 0.5 (two steps), one of the candidate 0.25 (four), where nothing else is
said; a table by stratum holds sums over these steps.
"""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from tests.tiny import ROOT
from tracediff.comparison.alignment import Alignment, kernel_pairs, match_kernels
from tracediff.kernels.matching import Match, OpKey, PhaseOps
from tracediff.query.reference import ALIGNED

_WHERE = {"run": 0, "part": 0, "stratum": 0}
WEIGHTS = pl.DataFrame([{"side": 0, **_WHERE, "weight": 0.5}, {"side": 1, **_WHERE, "weight": 0.25}])
NO_SHARES = pl.DataFrame(
    schema={
        **dict.fromkeys(("side", "run", "part", "stratum"), pl.Int64),
        "thread": pl.String,
        "share": pl.Float64,
    }
)


def table(columns: str, *rows: tuple, where: bool = True, **schema: Any) -> pl.DataFrame:
    """A frame from rows; the first column is the side, and `where`: run, part and stratum are 0."""
    frame = pl.DataFrame(rows, schema=columns.split(), orient="row", infer_schema_length=None)
    frame = frame.with_columns(**{name: pl.lit(0) for name in _WHERE if where and name not in frame.columns})
    return frame.cast(schema)


def captured(**kinds: tuple[bool, bool]) -> pl.DataFrame:
    rows = [(kind, *sides) for kind, sides in kinds.items()]
    return pl.DataFrame(rows, schema=["kind", "baseline", "candidate"], orient="row")


def rows(view: str, **tables: pl.DataFrame) -> list[dict[str, Any]]:
    found = {
        "stratum_weight": WEIGHTS,
        "thread_share": NO_SHARES,
        "copies": NO_COPIES,
        "step_weight": STEPS,
        "captured": captured(gil=(True, True), cuda_api=(True, False)),
        **tables,
    }
    return Alignment({name: lambda frame=frame: frame for name, frame in found.items()}).rows(view)


def recorded(kind: str, view: str, **tables: pl.DataFrame) -> list[dict[str, Any]]:
    """Rows where both sides recorded the kind. Where one did not, all that is said of it is unknown, and nothing else."""
    both = rows(view, captured=captured(**{kind: (True, True)}), **tables)
    for side, known in (("baseline", (False, True)), ("candidate", (True, False))):
        found = rows(view, captured=captured(**{kind: known}), **tables)
        wanted = [
            {name: None if name.startswith(side) else value for name, value in row.items()} for row in both
        ]
        assert sorted(map(repr, found)) == sorted(map(repr, wanted))
    return both


def only(row: dict[str, Any], *names: str) -> tuple:
    return tuple(row[name] for name in names)


def test_every_file_is_a_view_or_part_of_one():
    files = {path.stem for path in (ROOT / "tracediff" / "comparison" / "sql").glob("*.sql")}
    assert files == {*ALIGNED, "kernel_match", "per_step"}


RANGES = table(
    "side place domain thread count ns outer_ns wait_ns call_ns",
    (0, "schedule", "", "executor", 2, 200, 200, 60, 20), (1, "schedule", "", "executor", 4, 1200, 1200, 800, 40),
    (0, "sample", "", "executor", 2, 80, 20, 0, 0),  # 60 of it inside another range
    (1, "detokenise", "", "worker", 8, 40, 40, 0, 0),
)  # fmt: skip


def test_ranges_of_one_place_and_thread_are_one_row():
    found = rows("aligned_range", ranges=RANGES)
    names = "place", "baseline_count", "baseline_ns", "candidate_count", "candidate_ns", "delta_ns"
    assert [only(row, *names) for row in found] == [
        ("schedule", 1.0, 100.0, 1.0, 300.0, 200.0),
        ("sample", 1.0, 40.0, None, None, -40.0),  # gone
        ("detokenise", None, None, 2.0, 10.0, 10.0),  # new
    ]


def test_what_of_a_range_is_waiting_and_calls_is_told_where_it_was_recorded():
    (row, *_) = rows("aligned_range", ranges=RANGES)
    names = [f"{side}_{what}_ns" for what in ("wait", "call") for side in ("baseline", "candidate")]
    assert only(row, *names) == (30.0, 200.0, 10.0, None)


def test_a_thread_of_several_ranks_counts_once_in_each_of_their_steps():
    share = table("side thread share", (1, "executor", 2.0)).select(NO_SHARES.columns)
    found = {row["place"]: row for row in rows("aligned_range", ranges=RANGES, thread_share=share)}
    assert found["schedule"]["baseline_ns"] == 100.0 and found["schedule"]["candidate_ns"] == 600.0
    assert found["detokenise"]["candidate_ns"] == 10.0


def test_rows_of_uncompared_strata_count_nothing():
    more = RANGES.with_columns(stratum=pl.lit(7))
    assert rows("aligned_range", ranges=pl.concat([RANGES, more])) == rows("aligned_range", ranges=RANGES)
    assert rows("aligned_range", ranges=more) == []


def test_equal_changes_have_one_order():
    alike = [
        (side, *name, 2, 20, 20, 0, 0)
        for side in (0, 1)
        for name in (("a", "", "x"), ("a", "d", "x"), ("a", "", "y"), ("b", "", "x"))
    ]
    orders = {
        tuple(
            only(row, "place", "thread", "domain")
            for row in rows(
                "aligned_range",
                ranges=table("side place domain thread count ns outer_ns wait_ns call_ns", *shuffled),
            )
        )
        for shuffled in (alike, alike[::-1], alike[3:] + alike[:3])
    }
    assert orders == {(("a", "x", ""), ("a", "x", "d"), ("a", "y", ""), ("b", "x", ""))}


def test_gaps():
    gaps = table(
        "side cause under thread place previous next count ns p50_ns p99_ns",
        (0, "gil_wait", "host_work", "executor", "a", "k1", "k2", 2, 60, 20.0, 40.0),
        (0, "host_work", "host_work", "executor", "a", "k1", "k2", 2, 20, 10.0, 20.0),
        (1, "host_work", "host_work", "executor", "a", "k1", "k2", 4, 400, 90.0, 110.0),
    )  # fmt: skip
    names = (
        "cause",
        "baseline_count",
        "baseline_ns",
        "baseline_p50_ns",
        "candidate_ns",
        "candidate_p99_ns",
        "delta_ns",
    )
    known = rows("aligned_gap", gaps=gaps, setting=pl.DataFrame({"with_gil": [True]}))
    assert [only(row, *names) for row in known] == [
        ("host_work", 1.0, 10.0, 10.0, 100.0, 110.0, 90.0),
        ("gil_wait", 1.0, 30.0, 20.0, None, None, -30.0),
    ]
    # without the GIL both gaps of the baseline are host work: 2 + 2 pieces, their quantiles averaged
    (row,) = rows("aligned_gap", gaps=gaps, setting=pl.DataFrame({"with_gil": [False]}))
    assert only(row, *names) == ("host_work", 2.0, 40.0, 15.0, 100.0, 110.0, 60.0)


def test_idle_time_is_of_the_mean_and_of_typical_steps():
    """Steps 0 and 1 of the baseline idle for 100 and 300 ns, the second is the typical one; the candidate's for 500 ns."""
    words = ("host_work", "executor", "schedule", "", "", False)
    idle = table(
        "side period ns count cause thread place holder holder_place copy",
        (0, 0, 100, 1, *words), (0, 1, 300, 2, *words), (1, 0, 500, 1, *words), (1, 0, 40, 4, "gc", "executor", "", "", "", False),
    )  # fmt: skip
    names = "steps", "cause", "baseline_pieces", "baseline_ns", "candidate_pieces", "candidate_ns", "delta_ns"
    assert [only(row, *names) for row in rows("aligned_idle", idle_part=idle, step_weight=STEPS)] == [
        ("", "host_work", 1.5, 200.0, 1.0, 500.0, 300.0),
        ("", "gc", 0.0, 0.0, 4.0, 40.0, 40.0),
        ("decode", "host_work", 2.0, 300.0, 1.0, 500.0, 200.0),
        ("decode", "gc", 0.0, 0.0, 4.0, 40.0, 40.0),
    ]


CALLS = table(
    "side period api kind count ns",
    (0, 0, "cudaLaunchKernel", "launch", 10, 100), (0, 1, "cudaLaunchKernel", "launch", 20, 200),
    (1, 0, "cudaGraphLaunch", "launch", 1, 40), (1, 0, "cudaStreamSynchronize", "sync", 1, 500),
)  # fmt: skip
NO_COPIES = table("side period name memory count bytes", (2, 0, "[memset]", "", 1, 1)).filter(
    pl.col("side") < 2
)
STEPS = pl.DataFrame(
    [("", 0, 0, 0, 0, 0.5), ("", 0, 0, 0, 1, 0.5), ("", 1, 0, 0, 0, 1.0), ("decode", 0, 0, 0, 1, 1.0), ("decode", 1, 0, 0, 0, 1.0)],
    schema=["steps", "side", "run", "part", "period", "weight"], orient="row",
)  # fmt: skip


def test_calls_of_the_mean_step_and_of_that_of_a_phase():
    found = rows("aligned_call", apis=CALLS, step_weight=STEPS)
    names = "steps", "api", "baseline_calls", "baseline_ns", "candidate_calls", "candidate_ns", "delta_ns"
    assert [only(row, *names) for row in found] == [
        ("", "cudaStreamSynchronize", 0.0, 0.0, 1.0, 500.0, 500.0),
        ("", "cudaLaunchKernel", 15.0, 150.0, 0.0, 0.0, -150.0),
        ("", "cudaGraphLaunch", 0.0, 0.0, 1.0, 40.0, 40.0),
        ("decode", "cudaStreamSynchronize", 0.0, 0.0, 1.0, 500.0, 500.0),
        ("decode", "cudaLaunchKernel", 20.0, 200.0, 0.0, 0.0, -200.0),
        ("decode", "cudaGraphLaunch", 0.0, 0.0, 1.0, 40.0, 40.0),
    ]


def test_launches():
    launch = table(
        "side calls graph_launches kernels graph_kernels delay_mean_ns delay_p50_ns delay_p99_ns",
        (0, 20, 0, 20, 0, 5.0, 4.0, 9.0), (1, 4, 4, 80, 80, None, None, None),
    )  # fmt: skip
    weights = WEIGHTS.with_columns(steps=pl.lit(""))
    # of both sides: calls, those of graphs, kernels, those of graphs, copies, their bytes, delays; 2 steps of the baseline, 4 of the candidate
    (row,) = rows("aligned_launch", launch=launch, launch_weight=weights)
    assert tuple(row.values()) == ("", 10, 1, 0, 1, 10, 20, 0, 20, 0, 0, 0, 0, 5, 0, 4, 0, 9, 0)
    (alone,) = rows("aligned_launch", launch=launch.filter(pl.col("side") == 1), launch_weight=weights)
    assert tuple(alone.values()) == ("", 0, 1, 0, 1, 0, 20, 0, 20, *[0] * 10)


def test_launches_of_a_phase_are_those_of_its_own_steps():
    """Decodes launch 10 kernels each, all from graphs, and prefills 30 one by one, in as many steps: 20 in the mean."""
    launch = table(
        "side stratum calls graph_launches kernels graph_kernels delay_mean_ns delay_p50_ns delay_p99_ns",
        (0, 0, 2, 2, 20, 20, 1.0, 1.0, 1.0), (0, 1, 60, 0, 60, 0, 9.0, 9.0, 9.0),
    )  # fmt: skip
    weights = table(
        "side stratum steps weight", (0, 0, "", 0.25), (0, 1, "", 0.25), (0, 0, "decode", 0.5), (0, 1, "prefill", 0.5)
    )  # fmt: skip
    found = rows("aligned_launch", launch=launch, launch_weight=weights)
    names = "steps", "baseline_kernels", "baseline_graph_kernels", "baseline_delay_mean_ns"
    assert [only(row, *names) for row in found if row["steps"]] == [
        ("decode", 10, 10, 1),
        ("prefill", 30, 0, 9),
    ]
    assert only(found[0], *names[:3]) == ("", 20, 5)


def test_transitions_are_kernels_that_went_into_graphs_or_out_of_them():
    transitions = table(
        "side key eager graph", (0, 0, 20, 0), (1, 5, 0, 40), (0, 1, 2, 0), (1, 6, 4, 0), (0, 2, 0, 2), (1, 7, 4, 0),
    )  # fmt: skip
    keys = table(
        "side id name",
        (0, 0, "gemm"),
        (1, 5, "gemm"),
        (0, 1, "norm"),
        (1, 6, "norm"),
        (0, 2, "copy"),
        (1, 7, "copy"),
    )
    found = rows("aligned_transition", transitions=transitions, keys=keys)
    assert [tuple(row.values()) for row in found] == [("copy", 0, 1, 1, 0), ("gemm", 10, 0, 0, 10)]


def test_threads_by_role():
    thread = pl.DataFrame(
        [
            (0, 0, "executor", "worker", ["schedule", "sample"]), (0, 1, "executor", "worker", ["schedule", "update"]),
            (1, 0, "executor", "worker", ["schedule", "sample", "draft"]), (1, 1, "detokeniser", "host", []), (0, 2, "other", "host", []), (1, 2, "other", "host", []),
        ],
        schema={"side": pl.Int64, "number": pl.Int64, "role": pl.String, "process": pl.String, "places": pl.List(pl.String)}, orient="row",
    )  # fmt: skip
    # the detokeniser begins a range in every third step of the candidate: periods 0, 3, 6, 9 of ten
    step = table("side period rank device weight", *((1, at, 0, 0, 0.1) for at in range(10)))
    entered = table(
        "side period thread",
        *((1, at, "detokeniser") for at in (0, 3, 6, 9)),
        *((1, at, "executor") for at in range(10)),
    )
    found = rows("aligned_thread", thread=thread, ranges=RANGES, step=step, entered=entered)
    bursts = {row["role"]: (row["baseline_every"], row["candidate_every"]) for row in found}
    assert bursts == {"detokeniser": (None, 3), "executor": (None, None), "other": (None, None)}
    names = (
        "role",
        "process",
        "baseline_places",
        "candidate_places",
        "baseline_range_ns",
        "candidate_range_ns",
        "score",
        "delta_ns",
    )
    assert [only(row, *names) for row in found] == [
        ("detokeniser", "host", None, [], None, None, None, None),  # its ranges were not recorded
        # two of four places are on both sides; schedule takes 100 ns, sample 10 of its own; then schedule 300
        (
            "executor",
            "worker",
            ["sample", "schedule", "update"],
            ["draft", "sample", "schedule"],
            110.0,
            300.0,
            0.5,
            190.0,
        ),
        ("other", "host", [], [], None, None, 1.0, None),
    ]


def test_holders_of_the_gil_and_waits_for_it():
    gil = table(
        "side thread hold_ns wait_ns",
        (0, "executor", 100, 10),
        (1, "executor", 200, 800),
        (1, "worker", 900, None),
    )
    strata = table("side phase", (0, "decode"), (1, "decode"))
    exposed = pl.DataFrame(
        {"thread": ["executor"], "phase": ["decode"], "baseline_idle_ns": [0.0], "candidate_idle_ns": [150.0]}
    )
    tables = {"gil": gil, "strata": strata, "gil_exposed": exposed}
    assert [tuple(row.values()) for row in recorded("gil", "aligned_gil", **tables)] == [
        ("executor", "decode", 50.0, 5.0, 0.0, 50.0, 200.0, 150.0),
        ("worker", "decode", 0.0, 0.0, 0.0, 225.0, 0.0, 0.0),
    ]


def test_who_waits_for_whom():
    pairs = table(
        "side waiter holder holder_place ns", (0, "executor", "worker", "hash", 20), (1, "executor", "worker", "hash", 400),
        (1, "worker", "executor", "schedule", 8),
    )  # fmt: skip
    assert [tuple(row.values()) for row in recorded("gil", "aligned_gil_pair", gil_pairs=pairs)] == [
        ("executor", "worker", "hash", 10.0, 100.0),
        ("worker", "executor", "schedule", 0.0, 2.0),
    ]


def test_collections_share_the_idle_time_of_their_thread():
    gc = table(
        "side thread generation count ns",
        (0, "executor", "2", 2, 60),
        (0, "executor", "0", 4, 20),
        (1, "executor", "0", 4, 40),
    )
    exposed = pl.DataFrame({"thread": ["executor"], "baseline_idle_ns": [20.0], "candidate_idle_ns": [4.0]})
    assert [tuple(row.values()) for row in recorded("gc", "aligned_gc", gc=gc, gc_exposed=exposed)] == [
        ("executor", "2", 1.0, 30.0, 15.0, 0.0, 0.0, 0.0),  # 30 of 40 ns: 15 of 20 ns of idle time
        ("executor", "0", 2.0, 10.0, 5.0, 1.0, 10.0, 4.0),
    ]


STEP_ROWS = pl.DataFrame(
    [
        (0, 0, 0, 0, "decode", 100, 90.0, 1.0), (0, 0, 0, 0, "decode", 200, 190.0, 1.0), (0, 1, 0, 0, "decode", 600, 500.0, 2.0),
        (1, 0, 0, 0, "decode", 700, 600.0, 1.0), (0, 0, 0, 0, "mixed", 50, 50.0, 0.0), (1, 0, 1, 0, "decode", 900, 300.0, 1.0),
    ],
    schema=["side", "run", "rank", "device", "phase", "ns", "own_ns", "weight"], orient="row",
).with_columns(part=0, period=pl.int_range(pl.len()))  # fmt: skip


def test_steps_by_class():
    decode, mixed = rows("aligned_step", step=STEP_ROWS)
    names = (
        "phase",
        "baseline_steps",
        "baseline_mean_ns",
        "baseline_p50_ns",
        "baseline_run_means_ns",
        "candidate_steps",
        "delta_mean_ns",
    )
    assert only(decode, *names) == ("decode", 3, 300.0, 200.0, [150.0, 600.0], 2, 500.0)
    assert only(mixed, *names) == ("mixed", 1, 50.0, 50.0, [50.0], None, None)
    assert decode["baseline_p90_ns"] == pytest.approx(520)  # 200 + 0.8 x 400


def test_ranks():
    joint = pl.DataFrame(
        [(1, 0, 0, True, 40.0), (1, 1, 0, False, 0.0), (1, 0, 0, False, 0.0), (1, 1, 0, True, 10.0)],
        schema=["side", "rank", "device", "last", "behind_ns"], orient="row",
    )  # fmt: skip
    # two ranks in one export: a rank's waits are of all steps, half of which are its own
    waits = table("side rank wait_ns transfer_ns caused_ns", (1, 0, 40, 8, 0), (1, 1, 0, 8, 40))
    first = pl.DataFrame({"side": [0, 1], "run": [0, 0], "part": [0, 0], "first_rank": [0, 0]})
    # of rank 0: of the three steps of the baseline two say what they send, and one of them what it receives
    messages = pl.DataFrame(
        [(0, 0, 0, 0, "ncclSend", 30), (0, 0, 0, 0, "ncclRecv", 99), (0, 1, 0, 2, "ncclAlltoAll", 45)],
        schema=["side", "run", "part", "period", "name", "bytes"], orient="row",
    )  # fmt: skip
    others = {"joint_step": joint, "collectives": waits, "first_rank": first, "messages": messages}
    zero, one = rows("aligned_rank", step=STEP_ROWS.with_columns(units=1.0), **others)
    # weights 1, 1 and 2
    assert only(zero, "baseline_sent_bytes", "candidate_sent_bytes") == ((30 + 2 * 45) / 4, None)
    # the mean of two runs: 150 and 600
    assert only(zero, "rank", "baseline_ns", "candidate_ns", "delta_ns", "baseline_own_ns") == (
        0,
        375,
        700,
        325,
        320,
    )
    assert only(zero, "candidate_last", "candidate_behind_ns", "candidate_comm_wait_ns", "baseline_last") == (
        0.5,
        40,
        20,
        None,
    )
    assert only(one, "rank", "baseline_ns", "candidate_ns", "delta_ns", "candidate_caused_wait_ns") == (
        1,
        None,
        900,
        None,
        20,
    )
    # two rounds in every step: half of it each
    halved, _ = rows("aligned_rank", step=STEP_ROWS.with_columns(units=2.0), **others)
    assert only(halved, "baseline_ns", "candidate_ns", "baseline_own_ns") == (187.5, 350, 160)


def test_groups_of_ranks():
    """Two groups of two in the second export of a run, whose first rank is number 4; rank 5 makes rank 4 wait, 6 and 7 come together."""
    waits = table(
        "side rank members group calls wait_ns caused_ns", (0, 0, [0, 1], "tp", "ncclAllReduce", 40, 0), (0, 1, [0, 1], "tp", "ncclAllReduce", 0, 40),
        (0, 2, [2, 3], "", "ncclRecv", 0, 0), (0, 3, [2, 3], "", "ncclRecv", 0, 0), (1, 0, [0, 1], "tp", "ncclAllReduce", 80, 0), (1, 1, [0, 1], "tp", "ncclAllReduce", 16, 80),
        (1, 2, [], "", "", 99, 0),
    )  # fmt: skip
    first = pl.DataFrame({"side": [0, 1], "run": [0, 0], "part": [0, 0], "first_rank": [4, 4]})
    found = rows("aligned_group", collectives=waits, first_rank=first)
    # half a step a row of the baseline, which has four ranks: 40 x 0.5 x 4; a quarter of the candidate's three: 96 x 0.25 x 3
    assert [tuple(row.values()) for row in found] == [
        ([4, 5], "tp", "ncclAllReduce", 80, 72, 5, 5, 80, 60),
        ([6, 7], "", "ncclRecv", 0, None, 6, None, 0, None),
    ]


def test_what_only_one_side_recorded_is_not_zero_on_the_other():
    calls = table("side thread call count ns", (0, "executor", "poll", 2, 20), (1, "executor", "read", 4, 40))
    both = recorded("os_calls", "aligned_os_call", os_calls=calls)
    assert [tuple(row.values()) for row in both] == [
        ("executor", "poll", 1.0, 10.0, 0.0, 0.0),
        ("executor", "read", 0.0, 0.0, 1.0, 10.0),
    ]
    assert rows("aligned_os_call", os_calls=calls, captured=captured(os_calls=(False, False))) == []
    switches = captured(context_switches=(True, True))
    (row,) = rows("aligned_off_cpu", off_cpu=calls.head(1), captured=switches)
    assert tuple(row.values()) == ("executor", 1.0, 10.0, 0.0, 0.0)


def test_calls_of_communication_know_their_bytes_or_not():
    calls = table(
        "side library thread call count ns sized bytes", (0, "NCCL", "executor", "AllReduce", 4, 40, 2, 64),
        (1, "NCCL", "executor", "AllReduce", 4, 40, 0, 0), (0, "MPI", "executor", "Barrier", 2, 10, 0, 0),
        (0, "NCCL", "executor", "Send", 2, 8, 0, 0), (1, "NCCL", "worker", "Recv", 4, 16, 0, 0),
    )  # fmt: skip
    found = rows(
        "aligned_comm_call", comm_calls=calls, captured=captured(nccl=(True, True), mpi=(True, False))
    )
    assert [tuple(row.values()) for row in found] == [
        ("NCCL", "executor", "AllReduce", 2.0, 20.0, 32.0, 32.0, 1.0, 10.0, None, None),
        ("NCCL", "executor", "Send", 1.0, 4.0, None, None, 0.0, 0.0, None, None),
        ("NCCL", "worker", "Recv", 0.0, 0.0, None, None, 1.0, 4.0, None, None),
        ("MPI", "executor", "Barrier", 1.0, 5.0, None, None, None, None, None, None),
    ]


def test_host_work_by_what_tells_it_apart():
    work = table(
        "side thread place gil call mpi off_cpu ns", (0, "executor", "a", False, "read", False, True, 20),
        (0, "executor", "a", False, "", False, False, 40), (1, "executor", "a", False, "", False, True, 80),
        (1, "executor", "a", True, "", False, False, 8),
    )  # fmt: skip
    recorded = captured(mpi=(False, False), os_calls=(True, True), context_switches=(False, True))
    found = rows(
        "aligned_host_work", host_work=work, captured=recorded, setting=pl.DataFrame({"with_gil": [True]})
    )
    assert [tuple(row.values()) for row in found] == [
        ("executor", "a", "rest", "", 20.0, None, 0.0, 0.0),
        ("executor", "a", "os_call", "read", 10.0, None, 0.0, 0.0),
        ("executor", "a", "off_cpu", "", None, None, 20.0, 20.0),  # the baseline's switches are not known
    ]
    # where the GIL is no cause, the wait for it is host work
    merged = rows(
        "aligned_host_work", host_work=work, captured=recorded, setting=pl.DataFrame({"with_gil": [False]})
    )
    assert next(row for row in merged if row["kind"] == "rest")["candidate_ns"] == 2.0


def test_memory():
    memory = table("side kind allocations bytes frees freed_bytes", (1, "device", 4, 400, 0, 0))
    peaks = table(
        "side kind bytes least",
        (0, "device", 70, 60),
        (1, "device", 90, 50),
        (1, "device", 80, 55),
        where=False,
    )
    found = recorded("gpu_memory", "aligned_memory", memory=memory, memory_peaks=peaks)
    assert [tuple(row.values()) for row in found] == [
        ("device", 0.0, 0.0, 0.0, 0.0, 70, 60, 1.0, 100.0, 0.0, 0.0, 90, 55)
    ]


def test_payloads():
    payloads = table(
        "side place domain thread count sum low high", (0, "batch", "", "executor", 4, 32.0, 4.0, 12.0),
        (1, "batch", "", "executor", 4, 64.0, 16.0, 16.0), (0, "queue", "", "executor", 2, 2.0, 1.0, 1.0),
    )  # fmt: skip
    batch, queue = rows("aligned_payload", payloads=payloads)
    names = "place", "baseline_count", "baseline_mean", "baseline_low", "candidate_mean", "delta_mean"
    assert only(batch, *names) == ("batch", 2.0, 8.0, 4.0, 16.0, 8.0)
    assert only(queue, *names) == ("queue", 1.0, 1.0, 1.0, None, None)


# Kernels.


def op(name: str, grid: str = "1,1,1") -> OpKey:
    return OpKey(name, grid, "128,1,1")


GEMM, TILED = (
    op("nvjet_sm90_tst_64x16_64x16_4x1_v_bz_TNT"),
    op("nvjet_sm90_tst_128x16_64x11_4x1_v_bz_TNT"),
)  # one template
NORM, SILU, FUSED = op("rms_norm"), op("silu"), op("norm_silu")


@pytest.mark.parametrize(
    ("pairs", "tier", "same"),
    [
        ([((NORM,), (NORM,))], "exact", (True, True, True)),
        ([((NORM,), (op("rms_norm", "2,1,1"),))], "name", (False, True, True)),
        ([((GEMM,), (TILED,))], "template", (False, False, True)),
        ([((NORM,), (SILU,))], "sequence", (False, False, False)),
        ([((NORM, SILU), (FUSED,))], "fused", (False, False, False)),
        ([((FUSED,), (NORM, SILU))], "split", (False, False, False)),
        ([((NORM,), ())], "removed", (None, None, None)),
        ([((), (NORM,))], "added", (None, None, None)),
        # the same two ops, each of which stands for the other: only their names are sure
        ([((NORM,), (op("rms_norm", "2,1,1"),)), ((op("rms_norm", "2,1,1"),), (NORM,))], "name", (False, True, True)),
    ],
)  # fmt: skip
def test_tiers_of_a_match(pairs, tier, same):
    ops = [tuple(one for pair in pairs for one in pair[side]) for side in (0, 1)]
    (row,) = rows(
        "kernel_match", kernel_pair=kernel_pairs([Match("", 0.0, ops[0], ops[1], pairs=tuple(pairs))])
    )
    assert only(row, "match", "same_ops", "same_name", "same_template") == (tier, *same)


def test_kernels_copies_and_the_structure_of_a_step():
    """A step launches a GEMM twice, a copy of 64 bytes and a memset; the candidate's has another tile, and one more copy, of pageable memory."""
    copy, memset = OpKey("[memcpy HtoD]"), OpKey("[memset]")
    sides = [
        {"decode": PhaseOps({(one, one, copy, memset): 4}, {one, copy, memset})} for one in (GEMM, TILED)
    ]
    matching = match_kernels(*sides)
    assert [row.match for row in matching.rows] == ["template", "exact", "exact"]
    gemm = [GEMM.name, TILED.name]
    tables = {
        "kernel_pair": kernel_pairs(matching.rows),
        "kernel_row": pl.DataFrame({
            "row": [0, 1, 2], "kind": ["compute", "memcpy", "memcpy"], "baseline_names": [gemm[:1], [copy.name], [memset.name]],
            "candidate_names": [gemm[1:], [copy.name], [memset.name]], "changed_with": [0, -1, -1],
        }),
        "kernel_sum": pl.DataFrame({
            "steps": [""] * 6, "row": [0, 0, 1, 1, 2, 2], "side": [0, 1] * 3, "count": [2.0, 2.0, 1.0, 2.0, 1.0, 1.0],
            "wall_ns": [200.0, 180.0, 10.0, 20.0, 4.0, 4.0], "share_ns": [200.0, 180.0, 10.0, 15.0, 4.0, 4.0],
        }),
        "copies": table(
            "side period name memory count bytes", (0, 0, copy.name, "pinned", 1, 64), (0, 1, copy.name, "pinned", 1, 64),
            (1, 0, copy.name, "pinned", 1, 64), (1, 0, copy.name, "pageable", 1, 32), (0, 0, memset.name, "", 2, 8),
        ),
        "apis": CALLS, "step_weight": STEPS,
    }  # fmt: skip
    names = "row", "match", "baseline_names", "candidate_names", "baseline_count", "candidate_ns", "delta_ns"
    assert [only(row, *names) for row in rows("aligned_kernel", **tables)] == [
        (0, "template", gemm[:1], gemm[1:], 2.0, 180.0, -20.0),
        (1, "exact", [copy.name], [copy.name], 1.0, 15.0, 5.0),
        (2, "exact", [memset.name], [memset.name], 1.0, 4.0, 0.0),
    ]
    assert [tuple(row.values()) for row in rows("aligned_copy", **tables)] == [
        ("", "[memcpy HtoD]", 1.0, 10.0, 64.0, "pinned", 2.0, 20.0, 96.0, "pageable, pinned", 10.0),
        ("", "[memset]", 1.0, 4.0, 4.0, "", 1.0, 4.0, 0.0, "", 0.0),
    ]
    found = [row for row in rows("aligned_structure", **tables) if row["steps"] == ""]
    assert [only(row, "what", "baseline", "candidate", "delta") for row in found] == [
        ("copies", 1, 2, 1), ("graph_launches", 0, 1, 1), ("kernels", 2, 2, 0), ("launch_calls", 15, 1, -14), ("memsets", 1, 1, 0),
        ("other_calls", 0, 0, 0), ("syncs", 0, 1, 1),
    ]  # fmt: skip
