"""Strata: exact workloads before powers of two, what is not compared and why, and the mix of steps by hand."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.measuring import framed, run, step
from tracediff.comparison.classes import Strata, build_strata, mix, notes_of
from tracediff.errors import TracediffError


def gen(requests: int, *ns: float, **columns) -> list[dict]:
    """Generation steps of so many requests."""
    return run(*ns, gen_reqs=requests, ctx_tokens=0, **columns)


def ctx(tokens: int | None, *ns: float) -> list[dict]:
    """Context steps of one request with so many tokens."""
    return run(*ns, phase="context", ctx_reqs=1, ctx_tokens=tokens, gen_reqs=0, ops=2)


def strata(baseline: list[dict], candidate: list[dict], min_steps: int = 3) -> Strata:
    """Of one run per side."""
    return build_strata(framed([baseline], [candidate], min_steps=min_steps), min_steps)


def warned(*sides: list[list[dict]]) -> list[str]:
    return [note.slug for note in notes_of(framed(*sides))]


def only(found: Strata, **shape: str):
    (row,) = [one for one in found.rows if all(getattr(one, name) == text for name, text in shape.items())]
    return row


MORE_FOURS = gen(4, *[100] * 7) + gen(8, *[200] * 3)
MORE_EIGHTS = gen(4, *[120] * 4) + gen(8, *[190] * 6)


def test_exact_workloads_stand_alone():
    found = strata(MORE_FOURS, MORE_EIGHTS)
    four, eight = only(found, gen_reqs="4"), only(found, gen_reqs="8")
    assert (four.level, four.baseline_ns, four.candidate_ns, four.delta_ns) == ("exact", 100, 120, 20)
    assert (eight.level, eight.baseline_steps, eight.candidate_steps, eight.delta_ns) == ("exact", 3, 6, -10)
    # of the step time: 7 x 100 of 700 + 600, and 4 x 120 of 480 + 1140
    assert (four.baseline_share, four.candidate_share) == pytest.approx((700 / 1300, 480 / 1620))
    assert (eight.baseline_share, eight.candidate_share) == pytest.approx((600 / 1300, 1140 / 1620))
    # no step is a start: 7 and 3 of 10, 4 and 6 of 10. Overlap weights: 0.7 * 0.4 / 1.1 = 14 / 55, and 0.3 * 0.6 / 0.9 = 11 / 55
    assert (four.weight, eight.weight) == pytest.approx((14 / 25, 11 / 25))
    assert warned([MORE_FOURS], [MORE_EIGHTS]) == []


def test_mix_by_hand():
    frame = framed([MORE_FOURS], [MORE_EIGHTS])
    # at equal workload: (100 + 200) / 2 and (120 + 190) / 2
    found = mix(frame, 150, 155)
    assert (found.baseline_raw_ns, found.candidate_raw_ns) == pytest.approx((130, 162))
    assert found.speed_ns == pytest.approx(5)
    # the rest of the raw difference of 32
    assert found.batch_mix_ns == pytest.approx(27)
    assert found.not_compared_ns == pytest.approx(0)


def test_steps_that_are_not_compared_are_no_mix():
    """Ten steps of 100 on both sides; ten more of the same requests launch other ops on each side, and became slower."""
    one, other = (
        gen(4, *[100] * 10) + gen(4, *[length] * 10, ops=ops) for length, ops in ((120, 2), (150, 3))
    )
    found = mix(framed([one], [other]), 100, 100)
    # raw means 110 and 125, all of their difference in steps that were not compared
    assert (found.batch_mix_ns, found.speed_ns, found.not_compared_ns) == pytest.approx((0, 0, 15))


def test_more_first_uses_are_no_mix():
    """Of ten steps two are first uses, then five; they take 100, the others 10. The mean of both sides has 35 % of them."""
    one, other = (gen(4, *[100] * starts, new=True) + gen(4, *[10] * (10 - starts)) for starts in (2, 5))
    frame = framed([one], [other])
    equal = 0.35 * 100 + 0.65 * 10
    found = mix(frame, equal, equal)
    assert (found.baseline_raw_ns, found.candidate_raw_ns) == pytest.approx((28, 55))
    assert (found.first_uses_ns, found.batch_mix_ns) == pytest.approx((0.3 * 90, 0), abs=1e-9)
    assert (found.starts.baseline, found.starts.candidate) == (2, 5)
    assert [own.tolist() for own in frame.first_uses()] == [pytest.approx([-13.5]), pytest.approx([13.5])]


@pytest.mark.parametrize("side", [0, 1])
def test_a_phase_of_one_side_is_listed_with_the_side(side: int):
    both = gen(4, 10, 10, 10)
    sides = [both, both]
    sides[side] = both + ctx(64, 90, 90, 90)
    row = only(strata(*sides), phase="context")
    assert (row.compared, row.weight) == (False, 0.0)
    assert row.reason == ("baseline_only", "candidate_only")[side]
    assert (row.baseline_ns, row.candidate_ns)[1 - side] is None and row.delta_ns is None


def test_irregular_steps_are_listed_and_not_compared():
    steps = gen(4, 10, 10, 10) + run(50, 60, 70, phase="irregular")
    row = only(strata(steps, steps), phase="irregular")
    assert (row.compared, row.weight, row.reason) == (False, 0.0, "irregular")


def test_steps_that_launch_what_the_other_side_never_launched():
    """Eight steps with the same ops on both sides; four more, five times as long, with ops of that side alone.

    Three of the four repeat their ops, as do seven of the eight: too many of ten to be the slowest two.
    """
    one, other = (gen(4, *[100] * 8) + gen(4, *[500] * 4, ops=ops) for ops in (2, 3))
    compared, left = sorted(strata(one, other).rows, key=lambda row: not row.compared)
    assert (compared.baseline_steps, compared.candidate_steps, compared.weight) == (8, 8, pytest.approx(1))
    assert (left.baseline_steps, left.candidate_steps, left.weight) == (4, 4, 0.0)
    assert (compared.reason, left.reason) == ("", "other_ops")


def test_a_step_that_the_other_side_launches_only_for_the_first_time():
    """Ten short and ten long steps, told apart by their ops; one more launches what only the first step of the other side does.

    The other side launches it too, but has nothing to compare it with: its own is of the start, which the baseline lacks.
    """
    both = gen(4, *[100] * 10) + gen(4, *[200] * 10, ops=2)
    rows = strata([*both, *gen(4, 150, ops=3)], [*gen(4, 400, ops=3, new=True), *both]).rows
    assert sorted((row.reason, row.baseline_steps, row.candidate_steps) for row in rows) == [
        ("", 20, 20),
        ("first_use", 0, 1),
        ("none_typical", 1, 0),
    ]


@pytest.mark.parametrize("side", [0, 1])
def test_first_uses_of_one_side_alone(side: int):
    """One step of 200 adds 9 to the mean of eleven. With one of 500 the run begins, which is no workload that the other side lacks."""
    sides = [gen(4, *[100] * 10), gen(4, *[100] * 10)]
    begun = list(sides)
    begun[side] = gen(4, 500, new=True) + sides[side]
    assert [row.compared for row in strata(*begun).rows] == [True]
    sides[side] = gen(4, 200, new=True) + sides[side]
    compared, left = sorted(strata(*sides).rows, key=lambda row: not row.compared)
    assert (compared.baseline_steps, compared.candidate_steps) == (10, 10)
    assert (left.baseline_steps, left.candidate_steps) == (1 - side, side)
    assert left.reason == "first_use"


@pytest.mark.parametrize(
    ("one", "other", "span"),
    # powers of two: 1 | 2 | 3-4 | 5-8 | 9-16 | 17-32
    [(3, 4, "3-4"), (5, 8, "5-8"), (9, 16, "9-16"), (17, 31, "17-31")],
)
def test_sizes_of_one_power_of_two_are_one_row(one: int, other: int, span: str):
    (row,) = strata(gen(one, 10, 10, 10), gen(other, 12, 12, 12)).rows
    assert (row.level, row.gen_reqs, row.compared, row.delta_ns) == ("bucket", span, True, 2)


@pytest.mark.parametrize(
    ("one", "other", "said"),
    # far enough apart for another half of an octave, 4 to 5.6 and so on: then nothing says that they are alike
    [(1, 2, True), (2, 3, True), (4, 6, True), (4, 5, False), (8, 9, False), (8, 17, True)],
)
def test_other_sizes_are_compared_in_their_phase_and_that_is_said(one: int, other: int, said: bool):
    sides = gen(one, 10, 10, 10), gen(other, 12, 12, 12)
    rows = strata(*sides).rows
    assert [(row.gen_reqs, row.compared, row.weight) for row in rows] == [
        (str(one), True, 0.5),
        (str(other), True, 0.5),
    ]
    assert warned(*([side] for side in sides)) == ["coarse-strata"] * said


def test_exact_first_then_the_power_of_two_of_the_rest():
    found = strata(gen(5, 10, 10, 10) + gen(6, 20, 20, 20), gen(5, 11, 11, 11) + gen(7, 23, 23, 23))
    assert {(one.level, one.gen_reqs, one.delta_ns) for one in found.rows} == {
        ("exact", "5", 1),
        ("bucket", "6-7", 3),
    }


def test_a_workload_is_exact_where_every_run_could_have_it_often_enough():
    """Three steps per run: with two runs of the baseline six, and five are too few."""
    other = [gen(4, 2, 2, 2)]
    for last, level in ((2, "bucket"), (3, "exact")):
        (row,) = build_strata(framed([gen(4, 1, 1, 1), gen(4, *[1] * last)], other), 3).rows
        assert row.level == level and row.compared


def test_too_few_steps_are_compared_and_said():
    few, enough = gen(4, 10, 10), gen(4, 10, 10, 10)
    assert [one.compared for one in strata(few, few).rows] == [True]
    assert warned([few], [few]) == warned([few], [enough]) == ["thin-strata"]
    assert warned([enough], [enough]) == []


def test_labels_without_tokens_on_one_side():
    """The baseline's older labels know no tokens: 64 and 128 are one workload on both sides."""
    sides = ctx(None, 10, 10, 10), ctx(64, 11, 11, 11) + ctx(128, 14, 14, 14)
    (row,) = strata(*sides).rows
    assert (row.ctx_tokens, row.compared, row.candidate_steps, row.delta_ns) == ("?", True, 6, 2.5)
    assert warned(*([side] for side in sides)) == ["label-generation"]


def test_unlabelled_steps_are_one_row():
    one, other = (run(*[ns] * 3, phase="step", ctx_reqs=None, gen_reqs=None) for ns in (10, 11))
    (row,) = strata(one, other).rows
    assert (row.phase, row.level, row.delta_ns, row.weight) == ("step", "exact", 1, pytest.approx(1))


steps = st.lists(
    st.builds(
        step,
        st.integers(1, 1000), ops=st.integers(1, 3), phase=st.sampled_from(["generation", "context", "mixed"]),
        ctx_reqs=st.integers(0, 2), ctx_tokens=st.sampled_from([0, 64, 100, 4000]), gen_reqs=st.integers(0, 40),
    ),
    min_size=1, max_size=30,
)  # fmt: skip


def listed(one: list[dict], other: list[dict], min_steps: int) -> Strata:
    try:
        return strata(one, other, min_steps)
    except TracediffError:  # no phase that both sides have
        assume(False)
        raise


@settings(max_examples=50)
@given(steps, steps, st.integers(1, 4))
def test_every_step_is_in_one_row_and_exchanged_sides_exchange_the_rows(one, other, min_steps):
    found = listed(one, other, min_steps)
    assert sum(row.baseline_steps for row in found.rows) == len(one)
    assert sum(row.candidate_steps for row in found.rows) == len(other)
    assert sum(row.weight for row in found.rows) == pytest.approx(1)
    assert all(row.compared == (row.weight > 0) == (not row.reason) for row in found.rows)
    assert found.steps["row"].value_counts().height == len(found.keys) == len(found.rows)

    def shapes(rows, sign):
        return sorted(
            (row.phase, row.ctx_reqs, row.ctx_tokens, row.gen_reqs, row.level, row.compared, round(row.weight, 9),
             round(sign * (row.delta_ns or 0.0), 6) + 0.0)
            for row in rows
        )  # fmt: skip

    assert shapes(found.rows, 1) == shapes(listed(other, one, min_steps).rows, -1)
