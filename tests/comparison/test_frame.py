"""Phases and what each step counts for: typical, tail and start, by hand and as sums that close."""

from __future__ import annotations

from itertools import count

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.measuring import framed, measured, run, step, steps_of, table
from tracediff.comparison.frame import CellSums, Values, build_frame
from tracediff.errors import TracediffError


def ns_of(frame, weight) -> list[list[float]]:
    """Times of the steps that count, a side."""
    found = frame.steps.with_columns(weight=pl.Series(weight)).filter(pl.col("weight") > 0)
    return [sorted(found.filter(pl.col("side") == side)["ns"].to_list()) for side in range(len(frame.runs))]


# Groups


def test_first_occurrences_are_apart_and_the_extremes_are_not_typical():
    """Of a run: the start (a new kernel), the first step of a key, ten that repeat it: the two slowest and the two fastest of these go."""

    def one() -> list[dict]:
        return [step(90, new=True), step(500, ops=7), *run(20, *range(11, 19), 10, ops=7)]

    (phase,) = (frame := framed([one()], [one()])).phases
    assert phase.judged and phase.repeated and phase.workload == "none"
    assert ns_of(frame, phase.typical) == [list(range(12, 18))] * 2
    assert ns_of(frame, phase.rest) == [[*range(10, 19), 20, 500]] * 2
    assert ns_of(frame, phase.start) == [[90]] * 2
    assert phase.start_share == pytest.approx(1 / 12)
    # mean of the phase: all twelve steps alike
    assert frame.weight[frame.weight > 0] == pytest.approx([1 / 12] * 24)


@pytest.mark.parametrize(("first", "part"), [((200,), 1 / 13), ((1000,), 0.0), ((1000, 900, 800), 3 / 15)])
def test_the_long_steps_that_a_run_begins_with_are_in_no_mean(first: tuple[int, ...], part: float):
    """Beside twelve steps of 100: 1 of 200 adds 8 to the mean of 13 steps, 1 of 1000 adds 69, a tenth being 10; three come back as the program runs."""

    def one() -> list[dict]:
        begin = [step(ns, new=True, cells=[ns]) for ns in first]
        return begin + [step(100, ops=7, cells=[100]) for _ in range(12)]

    (phase,) = (frame := framed([one()], [one()])).phases
    assert ns_of(frame, phase.start if part else frame.begins) == [sorted(first)] * 2
    assert phase.start_share == pytest.approx(part)
    assert frame.begins.any() == (not part)
    assert ns_of(frame, frame.weight) == [sorted([100] * 12 + list(first) * bool(part))] * 2
    (found,) = measured([one()], [one()], idle=1).phases
    assert found.mean.estimate.baseline[0] == pytest.approx(
        100 if not part else (1200 + sum(first)) / (12 + len(first))
    )


def test_too_few_repeated_steps_leave_all_but_the_start():
    """Five steps with keys of their own: none was launched before. A quarter of five is one."""
    one = [step(10 + at, ops=at) for at in range(5)]
    (phase,) = (frame := framed([one], [one])).phases
    assert phase.judged and not phase.repeated
    assert ns_of(frame, phase.typical) == [[11, 12, 13]] * 2
    assert ns_of(frame, phase.rest) == [[10, 11, 12, 13, 14]] * 2


def test_steps_are_slow_for_their_workload():
    """Ops A take 10 to 17 and ops B 80 to 87, after the first of each: four of the 16 go at either end, two of A and two of B."""
    one = [step(10 * ops**3 + at, ops=ops) for ops in (1, 2) for at in (0, *range(8))]
    (phase,) = (frame := framed([one], [one])).phases
    assert phase.workload == "ops"
    assert ns_of(frame, phase.typical) == [[12, 13, 14, 15, 82, 83, 84, 85]] * 2


def test_every_rank_is_cut_by_itself():
    """Rank 1 is always the slower: of each rank's eight steps four are typical, after the first of a key."""
    one = [step(100 * rank + at, rank=rank, device=rank) for at in range(9) for rank in (0, 1)]
    (phase,) = (frame := framed([one], [one])).phases
    assert phase.repeated
    assert ns_of(frame, phase.typical) == [[3, 4, 5, 6, 103, 104, 105, 106]] * 2


@pytest.mark.parametrize(("again", "repeated"), [(2, False), (3, True)])
def test_repeated_steps_need_their_least_number_a_run(again: int, repeated: bool):
    one = [step(10), *run(*[10] * again), *[step(10, ops=20 + at) for at in range(2)]]
    (phase,) = framed([one], [one], min_steps=3).phases
    assert phase.repeated is repeated


@pytest.mark.parametrize(
    ("keys", "steady"),
    [
        ([[1, 1, 1, 1], [1, 1, 1, 1]], True),
        ([[1, 1, 1, 1], [2, 2, 2, 2]], False),  # each run launches its own
        ([[1, 1, 2, 2], [1, 1, 3, 3]], True),  # half of the steps: 1 2 and 1 3
        ([[1, 2, 2, 2], [1, 3, 3, 3]], False),  # a quarter
        ([[0, 1, 1, 2]], True),  # of one run: what other steps launch, 1 1 of 0 1 1 2
        ([[0, 1, 1, 2, 3]], False),
        ([[1, 2, 3, 4]], False),
    ],
)
def test_steps_are_steady_where_half_launch_what_other_runs_do(keys: list[list[int]], steady: bool):
    """All steps are equally long, so all are typical."""
    side = [[step(10, ops=key) for key in own] for own in keys]
    (phase,) = framed(side, side, min_steps=20).phases  # so many repeat on no side: all steps count
    assert not phase.repeated and phase.steady is steady


def test_where_every_step_is_a_first_use_only_the_first_is_a_start():
    """Each loads code: that is what a step of this program does. Of the five after the first one a quarter goes at either end."""
    one = [step(100 + at, new=True, ops=at) for at in range(6)]
    (phase,) = (frame := framed([one], [one])).phases
    assert phase.judged and not phase.repeated and phase.start_share == pytest.approx(1 / 6)
    assert ns_of(frame, phase.start) == [[100]] * 2
    assert ns_of(frame, phase.rest) == [[101, 102, 103, 104, 105]] * 2
    assert ns_of(frame, phase.typical) == [[102, 103, 104]] * 2


def test_a_side_that_loads_code_in_every_step_meets_one_that_does_not():
    """Six first uses against one and five steps after it: five are compared with five, and the start with the start."""
    one = [step(100 + at, new=True, ops=at) for at in range(6)]
    other = [step(50, new=True), *run(10, 11, 12, 13, 14)]
    (phase,) = (frame := framed([one], [other])).phases
    assert ns_of(frame, phase.rest) == [[101, 102, 103, 104, 105], [10, 11, 12, 13, 14]]
    assert ns_of(frame, frame.begins) == [[100], [50]]


def test_whole_captures_are_measured_by_round():
    """One step of 900 ns and 3 rounds, one of 1,000 and 4: 300 and 250 a round; two runs a side have a value each."""
    steps, runs = table([[step(900)], [step(660)]], [[step(1000)], [step(800)]]), (2, 2)
    frame = build_frame(steps, runs, rounds=(3.0, 2.0, 4.0, 4.0))
    (phase,) = frame.phases
    of_steps = Values(np.arange(4), np.zeros(4, np.int64), frame.steps["ns"].to_numpy())
    found = frame.sums(CellSums.of([of_steps], 1), phase.mean, phase.klass, variance=True)
    assert found.means[:, 0] == pytest.approx([(300 + 330) / 2, (250 + 200) / 2])
    assert [side[:, 0].tolist() for side in found.values] == [
        pytest.approx([300, 330]),
        pytest.approx([250, 200]),
    ]


def test_too_few_steps_are_shown_and_not_judged():
    (phase,) = framed([run(10, 11)], [run(10, 11)]).phases
    assert not phase.judged


def test_a_run_whose_only_step_of_a_phase_is_new_to_it_has_no_part_in_the_phase():
    """Two runs of prefills that repeat, and one whose single prefill launched something else."""
    generation, prefill = run(*[5] * 4), [*run(*[50] * 8, phase="context", ops=2)]
    odd = [*generation, step(400, phase="context", ops=3)]
    sides = [[generation + prefill, generation + prefill, odd], [generation + prefill] * 3]
    frame = framed(*sides)
    context = next(one for one in frame.phases if one.phase == "context")
    assert context.repeated
    assert ns_of(frame, context.rest) == [[50] * 16, [50] * 24]
    sums = frame.sums(steps_of(frame), context.rest, context.klass, variance=True)
    assert sums.runs[0].tolist() == [0, 1] and sums.values[0].shape == (2, 1)


def test_such_a_run_does_not_break_the_comparison():
    def generation() -> list[dict]:
        return [step(cells=[5.0]) for _ in range(4)]

    def prefill(many: int, ops: int = 2) -> list[dict]:
        return [step(cells=[50.0], phase="context", ops=ops) for _ in range(many)]

    sides = [[generation() + prefill(8), generation() + prefill(8), generation() + prefill(1, ops=3)]] * 2
    found = measured(*sides, idle=1)
    assert not found.whole.delta.any()
    context = next(one for one in found.phases if one.steps.phase == "context")
    assert context.runs == (2, 2) and not context.tail.estimate.delta.any()


# Which phases are compared


def test_a_phase_of_one_side_and_irregular_steps_are_not_compared():
    common = run(*[10] * 6)
    left = [common + run(*[90] * 5, phase="context"), common]
    right = [common + run(*[3] * 5, phase="irregular")] * 2
    frame = framed(left, right)
    assert [one.phase for one in frame.phases] == ["generation"]
    assert frame.phases[0].share == 1
    assert frame.compared["ns"].unique().to_list() == [10]


def test_a_phase_that_each_side_has_on_another_device_is_not_compared():
    both = run(*[10] * 6, device=0) + run(*[10] * 6, device=1)
    left, right = (both + run(*[90] * 5, phase="context", device=device) for device in (0, 1))
    assert [one.phase for one in framed([left], [right]).phases] == ["generation"]
    assert len(framed([left], [left]).phases) == 2


def test_sides_without_a_common_phase_are_refused():
    with pytest.raises(TracediffError) as caught:
        framed([run(*[10] * 6)], [run(*[10] * 6, phase="context")])
    assert (caught.value.slug, caught.value.exit_code) == ("no-common-strata", 4)


def test_a_run_without_any_compared_step_is_named():
    with pytest.raises(TracediffError, match="run 2 of the candidate") as caught:
        framed([run(*[10] * 6)] * 2, [run(*[10] * 6), run(*[10] * 6, phase="context")])
    assert caught.value.slug == "run-without-steps"


def test_one_side_alone_has_all_its_phases():
    frame = framed([run(*[10] * 6) + run(*[30] * 3, phase="context")])
    assert {one.phase: one.share for one in frame.phases} == pytest.approx(
        {"generation": 2 / 3, "context": 1 / 3}
    )


def test_shares_of_phases_are_means_of_both_sides_with_every_run_alike():
    """Context: half of a run of 4, a tenth of a run of 20, and 3 of 4: ((0.5 + 0.1) / 2 + 0.75) / 2 = 0.525."""

    def mix(generation: int, context: int) -> list[dict]:
        return run(*[10] * generation) + run(*[30] * context, phase="context")

    frame = framed([mix(2, 2), mix(18, 2)], [mix(1, 3)], min_steps=1)
    assert {one.phase: one.share for one in frame.phases} == pytest.approx(
        {"context": 0.525, "generation": 0.475}
    )


# Workload


def test_sides_with_other_workloads_are_compared_at_the_same_one():
    """Prompts of 100 and 800 tokens take 10 and 80, no two with the same ops: the baseline has 10 and 6, the candidate 6 and 10.

    Without the four slowest and fastest of each run these are 6 and 2, and 2 and 6.
    """
    keys = count()

    def prompts(short: int, long: int) -> list[dict]:
        columns = {"phase": "context", "ctx_reqs": 1, "gen_reqs": 0}
        return [
            step(
                (10 if at < short else 80) + at % 2,
                ctx_tokens=100 if at < short else 800,
                ops=next(keys),
                **columns,
            )
            for at in range(short + long)
        ]

    (phase,) = (frame := framed([prompts(10, 6)] * 2, [prompts(6, 10)] * 2)).phases
    assert phase.workload == "tokens"
    means = frame.sums(steps_of(frame), phase.rest, phase.klass, variance=False).means[:, 0]
    assert means == pytest.approx([(10.5 + 80.5) / 2] * 2)


def test_ranks_are_compared_with_one_another_where_a_side_has_more_of_them():
    one = [step(10 * (1 + rank), rank=rank, device=rank) for _ in range(6) for rank in (0, 1)]
    (phase,) = (frame := framed([one], [one])).phases
    assert phase.workload == "none" and len(np.unique(phase.klass)) == 2
    # 10 and 20 on the two ranks, and 10 on the only one: all are of one class
    (phase,) = (frame := framed([one], [[row for row in one if row["rank"] == 0]])).phases
    assert len(np.unique(phase.klass)) == 1
    assert ns_of(frame, phase.rest) == [[10, 10, 10, 10, 10, 10, 20, 20, 20, 20, 20, 20], [10] * 6]


def test_token_counts_that_one_side_does_not_tell_separate_nothing():
    known = [step(10, phase="context", ctx_reqs=1, ctx_tokens=100 * at) for at in range(1, 7)]
    unknown = [step(10, phase="context", ctx_reqs=1) for _ in range(6)]
    frame = framed([known], [unknown])
    assert frame.notes[0] == "label-generation"
    assert frame.steps["ctx_tokens"].null_count() == 12


def test_a_third_side_may_lack_a_phase():
    def one(context: bool) -> list[dict]:
        rows = [step(cells=[10.0 + at % 3]) for at in range(8)]
        return rows + [step(cells=[50.0 + at], phase="context", ops=2) for at in range(6 * context)]

    def sides() -> list[list[list[dict]]]:
        return [[one(True) for _ in range(3)] for _ in range(2)]

    found = measured(*sides(), [one(False), one(False)], idle=1)
    by_phase = {one.steps.phase: one for one in found.phases}
    assert by_phase["generation"].typical.estimate.df == 5 + 4 + 1  # two repeats: one more
    assert by_phase["context"].typical.estimate.df == 5 + 4
    assert (
        np.isfinite(found.whole.half).all() and np.isfinite(by_phase["context"].typical.estimate.half).all()
    )


# Sums of cells


def test_values_of_runs_are_their_distance_from_the_expected_at_their_workload():
    """Two runs of class A (10) and B (20): run 0 has A A B, run 1 has A B B; each 1 slower than usual in run 1.

    Shares A, B: of the candidate's like the baseline's, so 1/2 each (W_A = 2/3 + 1/3 = 1 = W_B). Weights of run 0: 1/6 a step; of run 1 as well.
    M_A = (10 + 10 + 11) / 3 = 31/3, M_B = (20 + 21 + 21) / 3 = 62/3; mean 15.5. Run 0: own 40/6 against (2 * 31/3 + 62/3) / 6 =
    41.33/6: 15.5 - 2 * 1.33/6 = 15.0556; run 1: 53/6 against 51.67/6: 15.9444.
    """
    rows = [[("A", 10), ("A", 10), ("B", 20)], [("A", 11), ("B", 21), ("B", 21)]]
    side = [[step(ns, copies=ord(name)) for name, ns in one] for one in rows]
    frame = framed(side, side, min_steps=1)
    klass = (frame.steps["copies"] - ord("A")).to_numpy().astype(np.int64)
    weight = np.full(12, 1 / 6)
    sums = frame.sums(steps_of(frame), weight, klass, variance=True)
    assert sums.means[:, 0] == pytest.approx([15.5, 15.5])
    assert sums.values[0][:, 0] == pytest.approx([15.5 - 4 / 9, 15.5 + 4 / 9])
    # of so few steps each is a stretch. Run 0, about M: -1/3 -1/3 -2/3, about their own mean 1/9 1/9 -2/9, squares 2/27; run 1 the same.
    # Times w^2 = 1/36, 3 / 2 for the three stretches of a run, and 6 / 4 for six steps of two classes
    assert sums.variance[0][0] == pytest.approx(2 * (2 / 27) / 36 * 3 / 2 * 6 / 4)


def test_rows_of_one_step_and_cell_are_added_up():
    frame = framed([run(10, 10, 10)], [run(10, 10, 10)])
    twice = CellSums.of([Values(np.array([0, 0, 3, -1]), np.array([1, 1, 0, 0]), np.array([4, 5, 6, 9]))], 2)
    merged = twice.merged
    assert (merged.step.tolist(), merged.cell.tolist(), merged.ns.tolist()) == ([0, 3], [1, 0], [9, 6])
    sums = frame.sums(twice, frame.weight, frame.phases[0].klass, variance=True)
    assert sums.means == pytest.approx(np.array([[0, 3], [2, 0]]))
    # the step with 9 and two with nothing: w = 1/3, squares 36 + 9 + 9 = 54, times 3 / 2 for three stretches, and for three steps of a class
    assert sums.variance[0][1] == pytest.approx(54 / 9 * 3 / 2 * 3 / 2)


# Properties


@st.composite
def two_sides(draw: st.DrawFn):
    """One to three runs a side, of both phases, with few keys, some new kernels and three cells: two places of host work, one kernel."""

    def one_run() -> list[dict]:
        rows = [step(cells=[1, 1, 1, 0.0], ops=0) for _ in range(2)]
        many = draw(st.integers(4, 14))
        for _ in range(many):
            rows.append(
                step(
                    cells=[*draw(st.tuples(*[st.integers(0, 10**5)] * 3)), draw(st.integers(-20, 20)) / 100],
                    ops=draw(st.integers(0, 2)),
                    phase=draw(st.sampled_from(["generation", "mixed"])),
                    new=draw(st.integers(0, 9)) == 0,
                    copies=draw(st.integers(1, 2)),
                )
            )
        return rows

    return [[one_run() for _ in range(draw(st.integers(1, 3)))] for _ in range(2)]


def near(value, scale: float = 1e6):
    return pytest.approx(value, abs=1e-9 * scale)


@settings(max_examples=30, deadline=None)
@given(two_sides(), st.booleans())
def test_everything_closes(sides, speed: bool):
    """The typical step and the start, weighted, and the tail are the mean of a phase; phases weighted are the whole; places of host work and kernels the step."""
    found = measured(*sides, idle=2, kernels=1, speed=speed)
    assert found.frame.weight[found.frame.steps["side"].to_numpy() == 0].sum() == pytest.approx(1)
    assert sum(one.steps.share for one in found.phases) == pytest.approx(1)
    means = np.zeros((2, len(found.layout.kinds)))
    for one in found.phases:
        typical, tail, start = one.typical.estimate, one.tail.estimate, one.steps.start_share
        for side, name in enumerate(("baseline", "candidate")):
            usual, mean = (1 - start) * getattr(typical, name), getattr(one.mean.estimate, name)
            assert usual + getattr(tail, name) + start * one.start[side] == near(mean)
            means[side] += one.steps.share * mean
    whole = found.whole
    assert (whole.baseline, whole.candidate) == (near(means[0]), near(means[1]))
    assert whole.delta == near(means[1] - means[0])
    for values in (whole.baseline, whole.candidate, whole.delta, whole.host_speed):
        assert values[1:14].sum() == near(values[0])  # the categories
        assert values[14:17].sum() == near(values[0])  # two places of host work and a kernel
    runs = [one.mean(axis=0) for one in whole.values]
    assert runs[1] - runs[0] == near(whole.delta)


def test_the_interval_of_two_phases_is_that_of_the_mean_of_both():
    """Both are alike, each half of the steps: of two variances a quarter each, so the root of a half of the width of one."""
    one_side = [
        [step(cells=[us * 1000.0], phase=name) for us in [100, 3000] * 6 for name in ("generation", "mixed")]
    ]
    found = measured(one_side, one_side, idle=1)
    assert [one.steps.share for one in found.phases] == [0.5, 0.5]
    widths = [one.mean.estimate.half[0] for one in found.phases]
    assert found.whole.half[0] == pytest.approx(
        widths[0] / np.sqrt(2), rel=0.03
    )  # dependence differs a little
    assert widths[1] == pytest.approx(widths[0], rel=0.03)


@settings(max_examples=20, deadline=None)
@given(two_sides(), st.booleans())
def test_exchanging_the_sides_changes_every_sign(sides, speed: bool):
    one, other = (measured(*both, idle=2, kernels=1, speed=speed) for both in (sides, sides[::-1]))
    assert (one.whole.delta == -other.whole.delta).all()
    assert (one.whole.host_speed == -other.whole.host_speed).all()
    assert (one.whole.half.tolist(), one.whole.p.tolist()) == (
        other.whole.half.tolist(),
        other.whole.p.tolist(),
    )
    for left, right in zip(one.phases, other.phases, strict=True):
        for part, opposite in zip(left.parts, right.parts, strict=True):
            assert (part.estimate.delta == -opposite.estimate.delta).all()
            assert part.estimate.p.tolist() == opposite.estimate.p.tolist()


@settings(max_examples=15, deadline=None)
@given(two_sides())
def test_a_side_against_itself_is_exactly_nothing(sides):
    found = measured(sides[0], sides[0], idle=2, kernels=1, speed=True)
    for one in (found.whole, *(part.estimate for phase in found.phases for part in phase.parts)):
        assert not one.delta.any() and not one.host_speed.any()


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(two_sides(), st.randoms(use_true_random=False))
def test_the_order_of_runs_and_of_rows_is_irrelevant(sides, random):
    one = measured(*sides, idle=2, kernels=1, speed=True).whole
    moved = [random.sample(runs, len(runs)) for runs in sides]
    other = measured(*moved, idle=2, kernels=1, speed=True).whole
    assert (other.delta, other.half) == (near(one.delta), near(one.half))
    rows = table(*sides)
    runs = tuple(len(side) for side in sides)
    mixed = rows[random.sample(range(len(rows)), len(rows))]
    key = ("side", "run", "rank", "device", "start_ns")
    assert build_frame(mixed, runs).steps.equals(build_frame(rows, runs).steps.sort(key))
    assert build_frame(mixed, runs).weight.tolist() == build_frame(rows, runs).weight.tolist()


@pytest.mark.parametrize(
    ("labelled", "before", "workload"), [(True, 2, "ops"), (False, 2, "none"), (True, 10, "none")]
)
def test_what_sides_launch_alone_is_left_out_only_where_both_do_and_labels_tell_requests(
    labelled: bool, before: int, workload: str
):
    """Steps of 30 and 40, and every fifth 60 and then 90, with kernels of its side: 30 more in one of five, or nothing at equal ops.

    Or those of 60 launch what those of 30 do: for the same requests, the candidate alone launches something of its own.
    """

    def one(ops: int, ns: float) -> list[dict]:
        gen = 4 if labelled else None
        rows = [(ops, ns) if at % 5 == 4 else (10 + at % 2, 30 + 10 * (at % 2) + at % 3) for at in range(60)]
        return [step(length, ops=key, gen_reqs=gen) for key, length in rows]

    (phase,) = (frame := framed([one(before, 60)], [one(3, 90)])).phases
    assert phase.workload == workload
    means = frame.sums(steps_of(frame), phase.rest, phase.klass, variance=False).means[:, 0]
    assert means[1] - means[0] == pytest.approx((90 - 60) / 5 * (workload == "none"))
