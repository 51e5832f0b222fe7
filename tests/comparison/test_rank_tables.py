"""Which rank is late, how often and by how much, from ranks that were exported apart: no common clock is needed."""

from __future__ import annotations

import polars as pl
import pytest
from msgspec.structs import replace

from fixtures.builders import TraceBuilder
from tests.comparing import compare, show
from tests.comparison.test_ranks import STEPS, US
from tests.comparison.test_ranks import ranks as one_export
from tests.tiny import label, reduced
from tracediff.comparison.tables import skews
from tracediff.execution.sides import Run, Side
from tracediff.formats.selection import Selection
from tracediff.model import RankSkew
from tracediff.report.remarks import rank_skew


def rank(late: dict[int, int], most: int, *, first: int = 0) -> TraceBuilder:
    """A rank whose step lasts 1000 + most us: gemm of 100 us and what it is late, then the collective until all are there.

    `late`: us by step, 0 where not said. Own time is 900 + late, communication 100 + most - late.
    """
    trace = TraceBuilder().process(100).thread(100, 1)
    for number in range(STEPS + 1):
        begin, mine = (1000 + most) * US * number, late.get(number, 0)
        trace.range(1, label(first + number), begin, begin + 90 * US)
        for part in (0, 1):
            trace.api(1, "cudaLaunchKernel", begin + (10 + 5 * part) * US, begin + (15 + 5 * part) * US, corr=2 * number + part)  # fmt: skip
        trace.kernel(2 * number, begin + 100 * US, begin + (200 + mine) * US, name="gemm")
        trace.kernel(2 * number + 1, begin + (200 + mine) * US, begin + (300 + most) * US, name="ncclDevKernel_AllReduce_Sum")  # fmt: skip
    return trace


def side(folder, name: str, late: list[dict[int, int]], most: int, **options) -> Side:
    parts = []
    for number, one in enumerate(late):
        (folder / name / str(number)).mkdir(parents=True)
        parts.append(reduced(rank(one, most, **options), folder / name / str(number)))
    return Side(name, [Run(name, parts)])


ALL = dict.fromkeys(range(STEPS + 1), 60)


def test_the_late_rank_is_the_outlier_though_every_step_is_as_long(tmp_path):
    result = compare(side(tmp_path, "a", [{}] * 5, 0), side(tmp_path, "b", [{}, {}, ALL, {}, {}], 60))
    assert [row.rank for row in result.ranks] == [0, 1, 2, 3, 4]
    assert [row.delta_ns for row in result.ranks] == pytest.approx([60 * US] * 5)  # they all wait
    assert [row.delta_own_ns for row in result.ranks] == pytest.approx([0, 0, 60 * US, 0, 0], abs=1e-6)
    assert [row.candidate_last for row in result.ranks] == [0, 0, 1, 0, 0]
    assert [row.candidate_behind_ns for row in result.ranks] == [None, None, 60 * US, None, None]
    assert [row.baseline_last for row in result.ranks] == [0] * 5  # all alike: nobody is last
    # the spread of ranks that are all alike is taken as 0.01 % of the step of 1060 us
    assert [row.outlier for row in result.ranks] == pytest.approx([0, 0, 60 / 0.106, 0, 0], abs=1e-6)
    before, after = result.rank_skew
    assert (before.late_ns, before.slowest, before.steps, before.ranks) == (0, None, STEPS, 5)
    assert (after.late_ns, after.slowest, after.slowest_share) == (60 * US, 2, 1)
    said = "Candidate: the last of 5 ranks has 60.00 us more own time than the median one; rank 2 most often, in 100 % of"
    assert rank_skew(after).startswith(said)
    # of two the median is between them
    assert "the last of 2 ranks has 60.00 us more own time than the mean of both" in rank_skew(
        replace(after, ranks=2)
    )


def test_how_often_and_by_how_much(tmp_path):
    """Rank 1 is 60 us late in two of six steps, rank 3 30 us in one of the others."""
    late = [{}, {1: 60, 4: 60}, {}, {2: 30, 4: 30}]
    result = compare(*[side(tmp_path, name, late, 60) for name in "ab"])
    rows = result.ranks
    assert [row.baseline_last for row in rows] == pytest.approx([0, 2 / 6, 0, 1 / 6])
    # step 4: 900, 960, 900, 930: the median is 915
    assert rows[1].baseline_behind_ns == pytest.approx((60 + 45) / 2 * US)
    assert rows[3].baseline_behind_ns == pytest.approx(30 * US)
    (skew, _) = result.rank_skew
    assert (skew.slowest, skew.slowest_share) == (1, pytest.approx(2 / 6))
    assert skew.late_ns == pytest.approx((60 + 30 + 45) / 6 * US)


def test_steps_of_one_number_belong_together(tmp_path):
    """The export of rank 1 begins one step later: its step k is step k + 1 of the others."""
    late = [{}, {1: 60}, {2: 60}]
    one = side(tmp_path, "a", late, 60)
    shifted = reduced(rank({0: 60}, 60, first=1), tmp_path / "a" / "1")
    both = Side("b", [Run("b", [one.parts[0], shifted, one.parts[2]])])
    joint = show(both).ranks
    # numbers 0 to 5 of ranks 0 and 2, 1 to 6 of rank 1: its late step is number 1, of six that it shares five
    assert [row.baseline_last for row in joint] == pytest.approx([0, 1 / 5, 1 / 6])


def test_of_ranks_that_are_last_equally_often_the_lowest_is_named():
    steps = {"side": [0] * 4, "run": [0] * 4, "step": [0, 0, 1, 1], "rank": [0, 1, 0, 1]}
    joint = pl.DataFrame({**steps, "last": [False, True, True, False], "behind_ns": [0.0, 10.0, 20.0, 0.0]})
    assert skews(joint) == [RankSkew("baseline", 2, 2, 15.0, 0, 0.5)]
    assert skews(joint.with_columns(rank=pl.lit(0))) == []  # two devices of one rank


def test_a_kernel_that_is_slower_on_one_rank(tmp_path):
    result = compare(side(tmp_path, "a", [{}] * 4, 0), side(tmp_path, "b", [{}, {}, ALL, {}], 60))
    (row,) = result.kernel_ranks
    assert (row.side, row.names, row.kind, row.most_on) == ("candidate", ["gemm"], "compute", 2)
    assert (row.mean_ns, row.most_ns) == pytest.approx((115 * US, 160 * US))
    assert row.imbalance == pytest.approx(160 / 115)


def test_three_ranks_have_no_outlier(tmp_path):
    result = compare(*[side(tmp_path, name, [{}, {}, ALL], 60) for name in "ab"])
    assert [row.outlier for row in result.ranks] == [None] * 3


def test_waits_in_one_export_are_of_all_ranks_or_not_told(tmp_path):
    whole = reduced(one_export(4), tmp_path)
    some = reduced(one_export(4), tmp_path, only=Selection(ranks=((0, 0), (2, 2))))
    assert whole.collectives["rank"].n_unique() == 4 and len(some.collectives) == 0


def test_ranks_of_several_exports_with_several_each(tmp_path):
    """Two exports of two ranks: the second one's are 2 and 3, in waits as well."""
    one = reduced(one_export(2), tmp_path)
    both = Side("side", [Run("run", [one, replace(one, fingerprint="another")])])
    rows = compare(both, both).ranks
    assert [row.rank for row in rows] == [0, 1, 2, 3]
    # as in test_ranks: the first rank of an export waits 30 us for the second, which waits for none
    assert [row.baseline_comm_wait_ns for row in rows] == pytest.approx([30 * US, 0, 30 * US, 0])
