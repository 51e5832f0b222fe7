"""Parts of captures: whole periods as in the whole capture, ranks by their own numbers, and a result that says what is missing."""

from __future__ import annotations

import polars as pl
import pytest
from msgspec.structs import replace

from tests.comparison.test_ranks import STEPS, US, ranks
from tests.tiny import ROOT, label, one_gap, plain, read, reduced, spent
from tracediff.comparison.compare import compare
from tracediff.errors import TracediffError
from tracediff.execution import cache
from tracediff.execution import run as runs
from tracediff.execution.run import reduce_file, reduce_sides
from tracediff.execution.sides import Reading, Run, Side, steps_table
from tracediff.formats.bundle import SIDES, read_bundle
from tracediff.formats.inputs import SideFiles, one_run, resolve
from tracediff.formats.selection import ALL, ENDLESS, Selection, selections, spell_ranks, spell_steps
from tracediff.model import CATEGORIES

pytestmark = pytest.mark.usefixtures("once")
S = 10**9


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("20-50", [(20, 50)] * 2),
        ("20", [(20, 20)] * 2),
        ("20-", [(20, ENDLESS)] * 2),
        ("20-50/120-150", [(20, 50), (120, 150)]),
    ],
)
def test_steps_are_read(word, found):
    assert [one.steps for one in selections(word, None)] == found
    assert [one.window for one in selections(word, None)] == [None, None]


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("1.5s-2.5s", (1_500_000_000, 2_500_000_000)),
        ("250ms-1s", (250_000_000, S)),
        ("1.1us-3000ns", (1100, 3000)),
        ("2s-", (2 * S, ENDLESS)),
        ("-2s", (0, 2 * S)),
    ],
)
def test_windows_are_read(word, found):
    assert [one.window for one in selections(word, None)] == [found] * 2


def test_ranks_are_read_and_spelled():
    (one, other) = selections("3-/2s-3s", "7,0,3-5")
    assert one.ranks == other.ranks == ((0, 0), (3, 5), (7, 7))
    assert [number for number in range(9) if one.has_rank(number)] == [0, 3, 4, 5, 7]
    assert (spell_steps(one), spell_steps(other)) == ("3-", "2s-3s")
    assert (spell_ranks(one), spell_ranks(ALL)) == ("0,3-5,7", "")


@pytest.mark.parametrize(
    "words",
    [
        ("", None), ("-5", None), ("5-3", None), ("a", None), ("1/2/3", None), ("1-2-3", None), ("1-2s", None), ("1.5-2", None),
        ("1s", None), ("-", None), ("2s-1s", None), ("1h-2h", None), ("1s-2s/", None), ("1-2/", None),
        (None, ""), (None, "-1"), (None, "3-1"), (None, "1,,2"), (None, "٣"),
    ],
)  # fmt: skip
def test_nonsense_is_refused(words):
    with pytest.raises(ValueError):
        selections(*words)


def numbers(reduction) -> list[tuple[int, int]]:
    return reduction.periods.select("rank", "number").rows()


def test_steps_by_their_labels(tmp_path):
    kept = reduced(ranks(), tmp_path, only=Selection(steps=(2, 4)))
    assert numbers(kept) == [(0, 2), (0, 3), (0, 4), (1, 2), (1, 3), (1, 4)]
    assert kept.residual_ns == 0
    assert (kept.measured.steps, kept.measured.all_steps, kept.measured.all_ranks) == (6, 2 * STEPS, 2)
    # as in test_ranks: what a step is made of does not depend on the steps around it being measured
    assert spent(kept) == {
        "compute": 100 * US, "comm": 130 * US, "host_work": 680 * US, "launch_api": 5 * US, "launch_latency": 85 * US
    }  # fmt: skip


def test_steps_without_numbers_count_from_one(tmp_path):
    trace = ranks(1)
    kept = reduced(trace, tmp_path, only=Selection(steps=(2, 3)), step_regex=r"_forward_step")
    # step n begins at n ms + 100 us; the second and the third label are those of 1 and 2 ms
    assert kept.periods["start_ns"].to_list() == [1100 * US, 2100 * US]


def test_a_window_keeps_what_lies_in_it_whole(tmp_path):
    """Periods are [n ms + 100 us, (n + 1) ms + 100 us)."""
    for window, steps in (
        ((1100, 3100), [1, 2]),
        ((1101, 3100), [2]),
        ((1200, 4200), [2, 3]),
        ((0, 1100), [0]),
    ):
        kept = reduced(ranks(1), tmp_path, only=Selection(window=(window[0] * US, window[1] * US)))
        assert kept.periods["number"].to_list() == steps
        assert kept.residual_ns == 0


def test_a_rank_keeps_its_number_and_its_own_host_time(tmp_path):
    whole = reduced(ranks(4), tmp_path)
    kept = reduced(ranks(4), tmp_path, only=Selection(ranks=((1, 1), (3, 3))))
    assert sorted(set(kept.periods["rank"])) == [1, 3]
    assert (kept.measured.ranks, kept.measured.all_ranks) == (2, 4)
    both = [Side("side", [Run("run", [one])]) for one in (whole, kept)]
    for one in both:
        rows = {row.thread: row.baseline for row in compare(one, one).ranges}
        assert rows["executor"].ns_per_step == pytest.approx(
            90 * US
        )  # of four executors, two are not looked at
        assert rows["executor"].count_per_step == pytest.approx(1)
        detokenise = next(row for thread, row in rows.items() if thread != "executor")
        assert detokenise.ns_per_step == pytest.approx(400 * US)


@pytest.mark.parametrize(
    "only",
    [Selection(steps=(30, 44)), Selection(ranks=((1, 1),)), Selection(window=(1, ENDLESS)), "half"],
)  # fmt: skip
def test_kept_periods_of_a_real_capture_are_those_of_the_whole(only, tmp_path):
    path = plain("tp2_a1", tmp_path)
    whole = read(path)
    if only == "half":
        middle = int(whole.periods["start_ns"].median())
        only = Selection(window=(middle, ENDLESS), ranks=((0, 0),))
    kept = reduce_file(path, Reading(threads=1, only=only))
    expected = whole.periods
    if only.steps:
        expected = expected.filter(pl.col("number").is_between(*only.steps))
    if only.window:
        expected = expected.filter(
            (pl.col("start_ns") >= only.window[0]) & (pl.col("end_ns") <= only.window[1])
        )
    expected = expected.filter(pl.col("rank").is_in([rank for rank in (0, 1) if only.has_rank(rank)]))
    columns = [
        "rank",
        "device",
        "number",
        "phase",
        "start_ns",
        "end_ns",
        "start_up",  # of the capture, not of what is kept of it
        *[name for name in CATEGORIES if name in expected.columns],
    ]
    assert len(expected) > 0 and kept.periods.select(columns).equals(expected.select(columns))
    assert kept.residual_ns == 0

    # kernels: those of the same periods, each with the same time
    def by_step(one):
        keys = one.keys.select(pl.col("id").alias("key"), "name", "grid").cast(
            {"key": one.kernels.schema["key"]}
        )
        rows = one.kernels.join(one.periods.select("period", "rank", "start_ns"), on="period").join(
            keys, on="key"
        )
        return rows.group_by("rank", "start_ns", "name", "grid").agg(pl.col("count", "wall_ns").sum()).sort("rank", "start_ns", "name", "grid")  # fmt: skip

    found = by_step(kept)
    assert found.equals(by_step(whole).join(found.select("rank", "start_ns").unique(), on=["rank", "start_ns"], how="semi").sort("rank", "start_ns", "name", "grid"))  # fmt: skip


@pytest.mark.parametrize(
    ("only", "there"),
    [
        (
            Selection(steps=(7, 9)),
            "its whole steps are 0 to 5, from 0.000100 s to 0.006100 s, of ranks 0 to 1",
        ),
        (Selection(window=(S, 2 * S)), "0.006100 s"),
        (Selection(ranks=((5, 9),)), "ranks 0 to 1"),
    ],
)
def test_nothing_selected_says_what_there_is(only, there, tmp_path):
    with pytest.raises(TracediffError, match=r"trace\.sqlite") as raised:
        reduced(ranks(), tmp_path, only=only)
    assert raised.value.slug == "nothing-selected" and there in raised.value.fix


def test_numbers_that_begin_again_do_not_select(tmp_path):
    trace = one_gap()
    for step, number in enumerate((1, 2, 1, 2, 3), 2):
        begin = 1000 * step
        trace.range(1, label(number), begin + 850, begin + 960)
        trace.api(1, "cudaLaunchKernel", begin + 900, begin + 950, corr=10 + step).kernel(10 + step, begin + 1000, begin + 1100)  # fmt: skip
    with pytest.raises(TracediffError) as raised:
        reduced(trace, tmp_path, only=Selection(steps=(1, 1)))
    assert raised.value.slug == "step-numbers-repeat"


def rank_files(folder, count: int = 4, **options):
    """A folder with one export a rank; rank 1 is late."""
    folder.mkdir()
    for rank in range(count):
        ranks(1, **options).write(folder / f"run_rank{rank + 2}.sqlite")
    return folder


def test_exports_of_other_ranks_are_not_even_opened(tmp_path):
    folder = rank_files(tmp_path / "side")
    (folder / "run_rank4.sqlite").write_bytes(b"no export")
    side = replace(resolve(str(folder)), only=Selection(ranks=((2, 3), (5, 5))))
    (one,) = reduce_sides([side], Reading(threads=1))
    assert [part.name for part in one.runs[0].parts] == [
        "run_rank2.sqlite",
        "run_rank3.sqlite",
        "run_rank5.sqlite",
    ]
    assert sorted(set(steps_table([one])["rank"])) == [2, 3, 5]
    (note,) = one.notes
    assert (
        note.slug == "ranks-left-out" and "1 of 4 ranks" in note.message and "--ranks 2-3,5" in note.message
    )


def test_captures_of_a_bundle_are_told_apart_by_the_folders_of_their_runs():
    """All are called report.sqlite.xz; ranks of a run are not, and keep their names."""
    bundle = read_bundle(ROOT / "fixtures" / "bundles" / "hog300")
    sides = [
        SideFiles(name, (one_run(run.name, run.exports),))
        for name in SIDES
        for run in bundle.profiled[name][:1]
    ]
    names = [part.name for side in reduce_sides(sides, Reading(threads=1)) for part in side.runs[0].parts]
    assert names == ["001-baseline-1/report.sqlite.xz", "002-candidate-1/report.sqlite.xz"]


def test_a_result_says_what_is_left_out_on_each_side(tmp_path):
    paths = [rank_files(tmp_path / name) for name in ("one", "other")]
    only = selections("0-2/1-5", "3")
    sides = [replace(resolve(str(path)), only=one) for path, one in zip(paths, only, strict=True)]
    result = compare(*reduce_sides(sides, Reading(threads=1)))
    said = [(note.slug, note.message) for note in result.warnings if note.slug.endswith("left-out")]
    assert [slug for slug, _ in said] == ["ranks-left-out", "steps-left-out"] * 2
    assert "one: 3 of 6 whole steps of the ranks kept are left out (--steps 0-2)" in said[1][1]
    assert "other: 1 of 6 whole steps of the ranks kept are left out (--steps 1-5)" in said[3][1]
    assert [run.steps for side in (result.inputs.baseline, result.inputs.candidate) for run in side.runs] == [
        3,
        5,
    ]
    assert sum(result.accounting.baseline.values()) == pytest.approx(result.step.baseline_ns)


def test_no_rank_of_a_run_is_an_error_before_anything_is_read(tmp_path):
    side = replace(resolve(str(rank_files(tmp_path / "side"))), only=Selection(ranks=((0, 1),)))
    with pytest.raises(TracediffError, match="none of its 4 ranks") as raised:
        reduce_sides([side], Reading())
    assert raised.value.slug == "nothing-selected" and "ranks 2 to 5" in raised.value.fix


def test_ranks_of_exports_with_several_each_are_not_guessed(tmp_path):
    folder = tmp_path / "side"
    folder.mkdir()
    for node in (0, 1):
        ranks(2).write(folder / f"run_rank{node}.sqlite")
    (whole,) = reduce_sides([resolve(str(folder))], Reading(threads=1))
    assert sorted(set(steps_table([whole])["rank"])) == [0, 1, 2, 3]
    with pytest.raises(TracediffError) as raised:
        reduce_sides([replace(resolve(str(folder)), only=Selection(ranks=((1, 1),)))], Reading(threads=1))
    assert raised.value.slug == "ranks-unclear"


@pytest.mark.slow
def test_another_selection_is_another_entry_of_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TRACEDIFF_CACHE", str(tmp_path / "cache"))
    path = ranks(2).write(tmp_path / "run.sqlite")
    read = []
    real = runs.reduce_file
    monkeypatch.setattr(runs, "reduce_file", lambda *args, **more: read.append(1) or real(*args, **more))
    for only in (ALL, Selection(steps=(1, 3)), Selection(steps=(1, 4)), Selection(window=(0, S)), Selection(ranks=((0, 0),))):  # fmt: skip
        for _ in range(2):
            (side,) = reduce_sides([replace(resolve(str(path)), only=only)], Reading(cached=True))
            assert side.parts[0].measured.steps == {ALL: 12, Selection(steps=(1, 3)): 6, Selection(steps=(1, 4)): 8}.get(only, side.parts[0].measured.steps)  # fmt: skip
    assert len(read) == 5
    assert len(cache.entries(tmp_path / "cache")) == 5
