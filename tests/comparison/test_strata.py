"""Strata: exact before bucket before phase, what is left out and why, and the mix decomposition by hand."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracediff.comparison.strata import build_strata

SCHEMA = {
    "side": pl.Int64,
    "phase": pl.String,
    "ctx_reqs": pl.Int64,
    "ctx_tokens": pl.Int64,
    "gen_reqs": pl.Int64,
    "ns": pl.Int64,
}


def gen(side: int, requests: int, *times: int) -> list[tuple]:
    """Generation steps of so many requests."""
    return [(side, "generation", 0, 0, requests, ns) for ns in times]


def ctx(side: int, tokens: int | None, *times: int) -> list[tuple]:
    """Context steps of one request with so many tokens."""
    return [(side, "context", 1, tokens, 0, ns) for ns in times]


def strata(*groups: list[tuple], runs=(1, 1), **options):
    rows = [row for group in groups for row in group]
    return build_strata(pl.DataFrame(rows, schema=SCHEMA, orient="row"), runs, **options)


def row(found, *, phase: str = "generation", **shape: str):
    (only,) = [
        one
        for one in found.rows
        if one.phase == phase and all(getattr(one, name) == text for name, text in shape.items())
    ]
    return only


def test_exact_strata():
    # 6 steps of 4 requests and 3 of 8 on each side: weights by the baseline's steps, 6/9 and 3/9
    found = strata(
        gen(0, 4, *[100] * 6), gen(0, 8, *[200] * 3), gen(1, 4, *[110] * 3), gen(1, 8, *[190] * 6),
    )  # fmt: skip
    four, eight = row(found, gen_reqs="4"), row(found, gen_reqs="8")
    assert (four.level, four.baseline_ns, four.candidate_ns, four.delta_ns) == ("exact", 100, 110, 10)
    assert (eight.level, eight.baseline_steps, eight.candidate_steps, eight.delta_ns) == ("exact", 3, 6, -10)
    assert (four.weight, eight.weight) == pytest.approx((6 / 9, 3 / 9))
    # of the step time: 6 x 100 of 600 + 600, and 3 x 110 of 330 + 1140
    assert (four.baseline_share, four.candidate_share) == pytest.approx((0.5, 330 / 1470))
    assert (eight.baseline_share, eight.candidate_share) == pytest.approx((0.5, 1140 / 1470))
    assert sum(found.weights.values()) == pytest.approx(1)
    assert found.warnings == []


def test_mix_by_hand():
    # shares of the baseline 6/9, 3/9; of the candidate 3/9, 6/9. Means 100, 200 and 110, 190.
    found = strata(
        gen(0, 4, *[100] * 6), gen(0, 8, *[200] * 3), gen(1, 4, *[110] * 3), gen(1, 8, *[190] * 6),
    ).mix  # fmt: skip
    assert found.baseline_raw_ns == pytest.approx((600 + 600) / 9)
    assert found.candidate_raw_ns == pytest.approx((330 + 1140) / 9)
    # mix: (3/9 - 6/9) * (100 + 110) / 2 + (6/9 - 3/9) * (200 + 190) / 2 = -35 + 65
    assert found.batch_mix_ns == pytest.approx(30)
    # speed: (6/9 + 3/9) / 2 * 10 + (3/9 + 6/9) / 2 * -10 = 0
    assert found.speed_ns == pytest.approx(0)
    assert found.batch_mix_ns + found.speed_ns == pytest.approx(
        found.candidate_raw_ns - found.baseline_raw_ns
    )


def test_mix_of_a_stratum_on_one_side_only():
    # 3 steps of 4 requests on both sides (100, 130); the candidate has 3 context steps of 700 besides.
    # shares 1, 0 and 0.5, 0.5; the context's mean stands for both sides
    found = strata(gen(0, 4, 100, 100, 100), gen(1, 4, 130, 130, 130), ctx(1, 64, 700, 700, 700))
    # mix: (0.5 - 1) * 115 + 0.5 * 700 = 292.5; speed: 0.75 * 30 + 0.25 * 0 = 22.5; raw 100 -> 415
    assert (found.mix.batch_mix_ns, found.mix.speed_ns) == pytest.approx((292.5, 22.5))
    assert (found.mix.baseline_raw_ns, found.mix.candidate_raw_ns) == pytest.approx((100, 415))
    context = row(found, phase="context")
    assert (context.compared, context.weight, context.reason) == (False, 0.0, "only in the candidate")
    assert context.baseline_ns is None and context.delta_ns is None


def test_one_side_only_is_listed_with_the_side():
    found = strata(gen(0, 4, 1, 1, 1), gen(1, 4, 1, 1, 1), ctx(0, 64, 9, 9, 9))
    assert row(found, phase="context").reason == "only in the baseline"


@pytest.mark.parametrize(
    ("one", "other", "span"),
    # powers of two: 1 | 2 | 3-4 | 5-8 | 9-16 | 17-32
    [(3, 4, "3-4"), (5, 8, "5-8"), (9, 16, "9-16"), (17, 31, "17-31")],
)
def test_sizes_of_one_bucket_are_pooled(one, other, span):
    found = strata(gen(0, one, 10, 10, 10), gen(1, other, 12, 12, 12))
    (pooled,) = found.rows
    assert (pooled.level, pooled.gen_reqs, pooled.compared, pooled.delta_ns) == ("bucket", span, True, 2)
    assert found.warnings == []


@pytest.mark.parametrize(("one", "other"), [(1, 2), (2, 3), (4, 5), (8, 9), (16, 17)])
def test_sizes_of_two_buckets_meet_in_their_phase_only_and_that_is_said(one, other):
    found = strata(gen(0, one, 10, 10, 10), gen(1, other, 12, 12, 12))
    (pooled,) = found.rows
    assert (pooled.level, pooled.gen_reqs) == ("phase", f"{one}-{other}")
    assert [note.slug for note in found.warnings] == ["coarse-strata"]


def test_exact_first_then_the_bucket_of_the_rest():
    # 5 requests on both sides: exact. 6 on one, 7 on the other: the rest of the bucket 5-8.
    found = strata(
        gen(0, 5, 10, 10, 10), gen(0, 6, 20, 20, 20), gen(1, 5, 11, 11, 11), gen(1, 7, 23, 23, 23),
    )  # fmt: skip
    assert {(one.level, one.gen_reqs, one.delta_ns) for one in found.rows} == {
        ("exact", "5", 1),
        ("bucket", "6-7", 3),
    }


def test_a_phase_that_is_compared_takes_no_strays():
    # 64 requests on one side only cannot be compared; the phase is, by its 4-request steps
    found = strata(gen(0, 4, 1, 1, 1), gen(1, 4, 2, 2, 2), gen(0, 64, 9, 9, 9), gen(1, 500, 9, 9, 9))
    assert {(one.gen_reqs, one.compared) for one in found.rows} == {
        ("4", True),
        ("64", False),
        ("500", False),
    }


def test_phases_never_meet():
    found = strata(gen(0, 4, 1, 1, 1), ctx(1, 4, 2, 2, 2))
    assert found.weights == {} and not any(one.compared for one in found.rows)


def test_thin_strata_are_left_out_and_say_so():
    found = strata(gen(0, 4, 1, 1, 1), gen(1, 4, 2, 2, 2), ctx(0, 64, 50, 50), ctx(1, 64, 60))
    context = row(found, phase="context")
    assert not context.compared and context.weight == 0
    assert context.reason.startswith("fewer than 3 steps a run")
    assert (context.baseline_ns, context.candidate_ns) == (50, 60)
    assert (
        strata(gen(0, 4, 1, 1, 1), gen(1, 4, 2, 2, 2), ctx(0, 64, 50), ctx(1, 64, 60), min_steps=1).warnings
        == []
    )


def test_steps_are_counted_by_run():
    # 3 steps a run: with 2 runs of the baseline, 6; five are too thin, and nothing else is there: said
    thin = strata(gen(0, 4, *[1] * 5), gen(1, 4, *[2] * 3), runs=(2, 1))
    assert [note.slug for note in thin.warnings] == ["thin-strata"]
    assert strata(gen(0, 4, *[1] * 6), gen(1, 4, *[2] * 3), runs=(2, 1)).warnings == []


def test_when_all_is_thin_all_is_compared_and_said():
    found = strata(gen(0, 4, 10), gen(1, 4, 12))
    assert [one.compared for one in found.rows] == [True]
    assert [note.slug for note in found.warnings] == ["thin-strata"]


def test_labels_without_tokens_on_one_side():
    # the baseline's older labels know no tokens: 64 and 128 are one stratum on both sides
    found = strata(ctx(0, None, 10, 10, 10), ctx(1, 64, 11, 11, 11), ctx(1, 128, 14, 14, 14))
    (only,) = found.rows
    assert (only.ctx_tokens, only.compared, only.candidate_steps, only.delta_ns) == ("?", True, 6, 2.5)
    assert [note.slug for note in found.warnings] == ["label-generation"]


def test_unlabelled_steps_are_one_stratum():
    rows = [(side, "step", None, None, None, 10 + side) for side in (0, 1) for _ in range(3)]
    (only,) = strata(rows).rows
    assert (only.phase, only.level, only.delta_ns, only.weight) == ("step", "exact", 1, 1.0)


step_rows = st.lists(
    st.tuples(
        st.integers(0, 1), st.sampled_from(["generation", "context", "mixed"]), st.integers(0, 2),
        st.sampled_from([0, 64, 100, 4000]), st.integers(0, 40), st.integers(1, 1000),
    ),
    min_size=1, max_size=60,
)  # fmt: skip


def both_sides(rows) -> bool:
    return {one[0] for one in rows} == {0, 1}


@given(step_rows.filter(both_sides), st.integers(1, 4))
def test_swapping_the_sides_negates_the_mix(rows, min_steps):
    there = strata(rows, min_steps=min_steps)
    back = strata([(1 - one[0], *one[1:]) for one in rows], min_steps=min_steps)
    assert back.mix.batch_mix_ns == pytest.approx(-there.mix.batch_mix_ns, abs=1e-6)
    assert back.mix.speed_ns == pytest.approx(-there.mix.speed_ns, abs=1e-6)
    difference = there.mix.candidate_raw_ns - there.mix.baseline_raw_ns
    assert there.mix.batch_mix_ns + there.mix.speed_ns == pytest.approx(difference, abs=1e-6)

    def shapes(found, sign):
        return sorted(
            (
                *(one.phase, one.ctx_reqs, one.ctx_tokens, one.gen_reqs, one.level, one.compared),
                round(sign * (one.delta_ns or 0.0), 6) + 0.0,
            )
            for one in found.rows
        )

    assert shapes(there, 1) == shapes(back, -1)


@given(step_rows.filter(both_sides), st.integers(1, 4))
def test_every_step_is_in_one_row(rows, min_steps):
    found = strata(rows, min_steps=min_steps)
    for side, name in ((0, "baseline_steps"), (1, "candidate_steps")):
        assert sum(getattr(one, name) for one in found.rows) == sum(one[0] == side for one in rows)
    compared = [one for one in found.rows if one.compared]
    assert all(one.baseline_steps and one.candidate_steps for one in compared)
    assert all(bool(one.reason) != one.compared for one in found.rows)
    assert len(found.members) == len({one[1:5] for one in rows})
    if compared:
        assert sum(one.weight for one in compared) == pytest.approx(1)
        total = sum(one.baseline_steps for one in compared)
        assert all(one.weight == pytest.approx(one.baseline_steps / total) for one in compared)
