"""Which steps go together and where they begin: small tables whose answer can be seen."""

from __future__ import annotations

import polars as pl

from tracediff.comparison.timeline import Pair, median_run, on_axis, pair_steps

COLUMNS = ("side", "run", "part", "period", "rank", "device", "ns", "start_ns", "number", "row")


def table(*rows: tuple) -> pl.DataFrame:
    return pl.DataFrame(
        rows, schema=[(name, pl.String if name == "row" else pl.Int64) for name in COLUMNS], orient="row"
    ).with_columns(gpu="device")


def simple(side: int, steps: list[tuple[str, int]], *, run: int = 0, first: int = 0) -> list[tuple]:
    """Steps (workload, ns) one after another on one device."""
    rows, at = [], first
    for period, (row, ns) in enumerate(steps):
        rows.append((side, run, 0, period, 0, 0, ns, at, period + 10 * side, row))
        at += ns
    return rows


def shown(pairs: list[Pair]) -> list[tuple]:
    return [(pair.number, pair.row, pair.at, *(side[0].period for side in pair.steps)) for pair in pairs]


def test_the_kth_of_a_workload_goes_with_the_kth() -> None:
    baseline = simple(0, [("gen", 10), ("ctx", 50), ("gen", 12), ("gen", 14), ("ctx", 52)])
    candidate = simple(
        1, [("ctx", 40), ("gen", 11), ("gen", 13), ("odd", 5), ("gen", 9), ("gen", 8)], first=7_000
    )
    pairs = on_axis(pair_steps(table(*baseline, *candidate), (0, 0)), origin=100)
    # number, workload, place on the axis, period of the baseline and of the candidate
    assert shown(pairs) == [
        (1, "gen", 100, 0, 1),  # 10 and 11
        (2, "ctx", 111, 1, 0),  # 50 and 40: the candidate's came earlier
        (3, "gen", 161, 2, 2),  # 12 and 13
        (4, "gen", 174, 3, 4),  # 14 and 9; the second ctx of the baseline has no counterpart
    ]
    assert [pair.deltas() for pair in pairs] == [{(0, 0): 1}, {(0, 0): -10}, {(0, 0): 1}, {(0, 0): -5}]
    assert pairs[-1].end() == 188


def test_only_the_chosen_runs_are_paired_and_the_median_is_chosen() -> None:
    runs = [simple(0, [("gen", ns)] * 3, run=run) for run, ns in enumerate((30, 10, 20))]
    steps = table(*(row for run in runs for row in run), *simple(1, [("gen", 5)] * 3))
    assert median_run(steps, 0) == 2 and median_run(steps, 1) == 0
    assert {pair.deltas()[0, 0] for pair in pair_steps(steps, (2, 0))} == {-15}


def two_ranks(side: int, part: int, skew: int, *, first: int = 0) -> list[tuple]:
    """Three steps of 100 ns on ranks 0 and 1, the second `skew` ns later; `part` is the export of the second."""
    rows = []
    for step in range(3):
        rows.append((side, 0, 0, step, 0, 0, 100, first + 100 * step, step, "gen"))
        rows.append(
            (
                side,
                0,
                part,
                3 + step if part == 0 else step,
                1,
                1,
                100,
                first + 100 * step + skew,
                step,
                "gen",
            )
        )
    return rows


def test_ranks_of_one_export_keep_their_distance() -> None:
    pairs = on_axis(pair_steps(table(*two_ranks(0, 0, 30), *two_ranks(1, 0, -20, first=5_000)), (0, 0)))
    for nth, pair in enumerate(pairs):
        assert [(one.rank, one.period, one.offset) for one in pair.steps[0]] == [
            (0, nth, 0),
            (1, 3 + nth, 30),
        ]
        assert [(one.rank, one.period, one.offset) for one in pair.steps[1]] == [
            (0, nth, 0),
            (1, 3 + nth, -20),
        ]
    # the first pair begins late enough for the rank that is ahead; then the axis goes on without holes
    assert [pair.at for pair in pairs] == [20, 120, 220]


def test_ranks_of_other_exports_begin_with_the_pair() -> None:
    """Their clocks have nothing to do with each other."""
    pairs = pair_steps(table(*two_ranks(0, 1, 987_654), *two_ranks(1, 1, -3)), (0, 0))
    assert len(pairs) == 3
    for nth, pair in enumerate(pairs):
        for side in pair.steps:
            assert [(one.part, one.rank, one.period, one.offset) for one in side] == [
                (0, 0, nth, 0),
                (1, 1, nth, 0),
            ]


def test_steps_of_a_device_never_overlap() -> None:
    """The second rank's second step is longer than the pair: what follows waits for it."""
    rows = [
        (0, 0, 0, 0, 0, 0, 100, 0, 0, "gen"), (0, 0, 0, 1, 0, 0, 100, 100, 1, "gen"),
        (0, 0, 0, 2, 1, 1, 150, 40, 0, "gen"), (0, 0, 0, 3, 1, 1, 10, 150, 1, "gen"),
    ]  # fmt: skip
    pairs = on_axis(pair_steps(table(*rows, *simple(1, [("gen", 60), ("gen", 60)])), (0, 0)))
    # rank 1: 40 to 190, then from at + 50 on: 140 + 50 = 190
    assert [pair.at for pair in pairs] == [0, 140]


def test_a_rank_with_another_workload_has_no_delta() -> None:
    baseline = two_ranks(0, 0, 0)
    candidate = [(*row[:-1], "ctx") if row[4] == 1 else row for row in two_ranks(1, 0, 0)]
    for pair in pair_steps(table(*baseline, *candidate), (0, 0)):
        assert pair.deltas() == {(0, 0): 0}


def test_no_counterpart_no_pair() -> None:
    assert pair_steps(table(*simple(0, [("gen", 1)]), *simple(1, [("ctx", 1)])), (0, 0)) == []
