"""Sure means sure, on recordings under load: nothing sure of one program, and planted causes found first with their size."""

from __future__ import annotations

import json
import tomllib

import polars as pl
import pytest

from benchmarks import nulls
from benchmarks.scoreboard import Found, Score, score
from benchmarks.splits import HOST, Planted, compared, place_for, planted, program, sizes, splits, statements
from tests.tiny import FIXTURES
from tracediff.accounting.reduction import Reduction
from tracediff.model import CATEGORIES

FOLDER = FIXTURES / "traffic"
PAIRS = {
    pair["name"]: pair for pair in tomllib.loads((FOLDER / "truth.toml").read_text(encoding="utf-8"))["pair"]
}


@pytest.fixture(scope="module")
def baseline():
    return program(str(FOLDER / "baseline")).runs


def test_runs_are_dealt_out_once():
    assert sizes(5) == [(2, 3), (2, 2), (1, 1)]
    assert sizes(10) == [(5, 5), (4, 4), (3, 3), (2, 2), (1, 1)]
    assert len(splits(5, (2, 3), 99)) == 10  # 5 over 2
    assert len(splits(5, (2, 2), 99)) == 15  # 5 over 2, 3 over 2, halved
    assert sorted(splits(3, (1, 1), 99)) == [((0,), (1,)), ((0,), (2,)), ((1,), (2,))]
    assert splits(5, (2, 3), 4) == splits(5, (2, 3), 99)[:4]


@pytest.mark.parametrize("ways", [slice(2), pytest.param(slice(2, 10), marks=pytest.mark.slow)])
def test_nothing_sure_of_one_program(baseline, ways):
    """All ten ways to deal five runs out to two and three."""
    said = {split: statements(compared(baseline, split)) for split in splits(5, (2, 3), 10)[ways]}
    assert len(said) in (2, 8)
    assert [one for found in said.values() for one in found] == []


@pytest.mark.parametrize("spread", [False, True])
def test_a_change_that_is_put_in_keeps_the_books_closed(baseline, spread):
    thread, place = place_for(baseline, "generation")
    change = Planted("generation", 10_007, thread, place, spread)
    before, after = baseline[0].parts[0], planted(baseline[0], change).parts[0]
    generation = pl.Series(before.periods["phase"] == "generation")
    longer = _lengths(after) - _lengths(before)
    assert longer.filter(generation).to_list() == [10_007] * int(generation.sum())
    assert set(longer.filter(~generation)) == {0}
    assert (after.periods.select(pl.sum_horizontal(CATEGORIES)).to_series() == _lengths(after)).all()
    grown = {
        cause: int((_idle(after, cause) - _idle(before, cause)).sum()) for cause in HOST
    }  # fmt: skip
    assert sum(grown.values()) == 10_007 * generation.sum()
    assert all(grown.values()) if spread else grown["host_work"] == 10_007 * generation.sum()
    # the pieces of idle time say the same as the steps
    assert (_idle(after, "host_work") == after.periods["host_work"]).all()


def _lengths(part: Reduction) -> pl.Series:
    return part.periods["end_ns"] - part.periods["start_ns"]


def _idle(part: Reduction, cause: str) -> pl.Series:
    ns = part.idle.filter(pl.col("cause") == cause).group_by("period").agg(pl.col("ns").sum())
    return part.periods.join(ns, on="period", how="left", maintain_order="left")["ns"].fill_null(0)


@pytest.fixture(scope="module", params=PAIRS)
def scored(request, baseline) -> Score:
    return score(PAIRS[request.param], baseline, program(str(FOLDER / request.param)).runs)


def test_the_planted_causes_are_first(scored):
    """Of those that are sure; what may be noise stands between them by its size."""
    ranks = [one.rank for one in scored.found]
    assert min(ranks) == 1 and scored.others == [], scored.first
    assert all(one.level != "within_noise" for one in scored.found)


def test_the_first_sentences_name_what_was_planted(scored):
    """A collection in rare steps, and host work in every step, of one phase: each holds a tenth of the change. What got faster is a count."""
    said = {
        "gc": "Python GC in _schedule",
        "host_work": "host work in _schedule",
        "kernel_fused": "fused GEMMs, 16 -> 8 per step",
    }
    for one in scored.found:
        assert said[one.cause] in scored.sentence


def test_the_planted_sizes_are_in_the_intervals(scored):
    for one in scored.found:
        assert abs(one.ns - one.planted_ns) <= one.half, one


def test_the_verdict_is_that_of_the_planted_causes(scored):
    assert scored.verdict == scored.pair["verdict"] == "regressed"


@pytest.mark.parametrize(
    ("ns", "half", "met"),
    [(114.0, 1.0, True), (116.0, 1.0, False), (116.0, 17.0, True), (-100.0, 1.0, False), (None, None, False)],
)
def test_a_size_is_met_within_15_percent_or_inside_the_interval(ns, half, met):
    assert Found("host_work", "", 100.0, ns, half).met is met


def test_few_runs_need_not_be_sure():
    pair = {"verdict": "regressed"}
    assert Score(pair, "likely_regressed", "", "", [], [], 3).right
    assert not Score(pair, "likely_regressed", "", "", [], [], 4).right
    assert Score({"verdict": "no_change"}, "inconclusive", "", "", [], [], 5).right
    assert not Score({"verdict": "no_change"}, "improved", "", "", [], [], 5).right


def test_splits_that_can_be_sure_are_counted_apart():
    """Of two splits one has three runs a side, and says something; its interval does not hold 0, the other's does."""
    phase = {"phase": "step", "step": 1000, "low": 10, "high": 50}
    sure = {
        "split": [[0, 1, 2], [3, 4, 5]],
        "sure": ["step regressed: +30"],
        "verdict": "regressed",
        "likely": [],
        "counts": ["step kernels"],
        "phases": [phase],
    }
    few = {
        "split": [[0], [1]],
        "sure": [],
        "verdict": "likely_regressed",
        "likely": ["whole likely_regressed", "likely gc step typical x"],
        "counts": [],
        "phases": [{**phase, "low": -40, "high": 80}],
    }
    known = {"some": {"runs": 6, "nulls": [sure, few], "power": []}}
    lines = nulls.summary(known)
    assert "2 splits of 1 programs: 1 (50.0 %) have any sure statement" in lines[0]
    assert "Of the 1 with 3 runs per side or more, 1 (100.0 %)" in lines[0]
    assert lines[-2:] == [
        "| 3 | 1 | 1 | 0 | 0 | 1 | 0 of 1 | 2.0 % |",
        "| 1 | 1 | 0 | 1 | 1 | 0 | 1 of 1 | 6.0 % |",
    ]
    lines = nulls.tables(known)
    assert "| some | 6 | 3v3 | 1 | 1 | 0 | 0 | 1 | step | 0 of 1 | 2.0 % |" in lines
    assert "| some | 6 | 1v1 | 1 | 0 | 1 | 1 | 0 | step | 1 of 1 | 6.0 % |" in lines
    assert "| some | step regressed | 1 |" in lines


def test_the_page_shows_what_was_kept():
    page = nulls.PAGE.read_text(encoding="utf-8")
    assert "\n".join(nulls.summary(json.loads(nulls.KEPT.read_text(encoding="utf-8")))) in page
