"""Two profiles compared: means over launches, what a clear change is, sentences, what was not collected."""

from __future__ import annotations

import pytest

from tracediff.companions.ncu.compare import compare_ncu

from .counters import launch, profile

FAST = {
    "duration_ns": 10_000.0,
    "cycles": 15_000.0,
    "achieved_occupancy_pct": 73.7,
    "waves_per_sm": 1.0,
    "grid_blocks": 1056.0,
}
LESS = {"long_scoreboard": 6.0, "wait": 4.0, "selected": 1.0}


def test_the_sentence():
    (row,) = compare_ncu(profile(launch()), profile(launch(grid="1056,1,1", stalls=LESS, **FAST))).rows
    assert (row.match, row.change, row.delta_ns) == ("name", "faster", -30_000)
    assert row.sentence == (
        "4.0 x faster (40.0 -> 10.0 us): occupancy 12 -> 74 %: grid 132 -> 1,056 blocks; "
        "long-scoreboard stalls 2.5 x less (15.0 -> 6.0 cycles per instruction)"
    )
    assert [(reason.rule, reason.kind) for reason in row.reasons] == [
        ("occupancy", "cause"),
        ("stall", "effect"),
    ]
    assert (
        row.baseline.bound == "latency"
        and row.baseline.limited_by == ["grid"]
        and row.candidate.limited_by == []
    )
    assert "one launch on a side" in row.note


def test_swapped_sides_swap_the_sentence():
    (row,) = compare_ncu(profile(launch(grid="1056,1,1", stalls=LESS, **FAST)), profile(launch())).rows
    assert row.sentence.startswith(
        "4.0 x slower (10.0 -> 40.0 us): occupancy 74 -> 12 %: grid 1,056 -> 132 blocks; long-scoreboard"
    )


def test_values_are_means_over_the_launches_of_a_kernel():
    launches = [launch(duration_ns=ns, dram_read_bytes=read) for ns, read in
                ((30_000.0, 60e6), (50_000.0, 70e6))]  # fmt: skip
    (row,) = compare_ncu(profile(*launches), profile(*launches)).rows
    side = row.baseline
    assert (
        side.launches == 2 and side.values["duration_ns"] == 40_000 and side.values["dram_read_bytes"] == 65e6
    )
    assert (side.duration_min_ns, side.duration_max_ns) == (30_000, 50_000)
    assert row.change == "no_clear_change" and row.sentence == "no clear change: 40.0 -> 40.0 us (0.0 %)"


def test_a_key_that_one_launch_lacks_is_not_collected():
    (row,) = compare_ncu(profile(launch(), launch(l2_bytes=None)), profile(launch())).rows
    assert "l2_bytes" not in row.baseline.values and "l2_bytes" in row.candidate.values


def test_a_clear_change_is_beyond_the_threshold_and_the_spread_of_the_launches():
    def change(before, after):
        sides = [
            profile(*(launch(duration_ns=ns, cycles=1.5 * ns) for ns in times)) for times in (before, after)
        ]
        return compare_ncu(*sides).rows[0].change

    assert change([40_000.0], [41_199.0]) == "no_clear_change"
    assert change([40_000.0], [41_201.0]) == "slower"
    assert change([40_000.0, 44_000.0], [43_900.0, 47_000.0]) == "no_clear_change"  # 44.0 and 43.9 overlap
    assert change([40_000.0, 43_000.0], [44_000.0, 47_000.0]) == "slower"
    assert change([44_000.0, 47_000.0], [40_000.0, 43_000.0]) == "faster"


def test_a_fused_kernel_is_compared_with_the_sum_of_what_it_replaces():
    gate = launch("nvjet_tst_128x256", "64,1,1", duration_ns=40_000.0, dram_read_bytes=100e6)
    up = launch("nvjet_tst_64x256", "64,1,1", duration_ns=42_000.0, dram_read_bytes=104e6)
    both = launch(
        "nvjet_tst_256x256", "128,1,1", duration_ns=70_000.0, dram_read_bytes=150e6, cycles=105_000.0
    )
    (row,) = compare_ncu(profile(gate, up, gate, up), profile(both, both)).rows
    assert row.match == "fused" and row.delta_ns == -12_000
    assert row.baseline.values["duration_ns"] == 82_000 and row.baseline.values["dram_read_bytes"] == 204e6
    # What does not add up is not said of a sum.
    assert (
        "achieved_occupancy_pct" not in row.baseline.values
        and row.baseline.bound is None
        and row.baseline.stalls == {}
    )
    # 12 of 82 us
    assert row.sentence.startswith("2 kernels -> 1: 40.0 us + 42.0 us -> 70.0 us, 15 % less in all")


def _gemms(n: int, small: float, large: float, *, moved: float | None = 2.0, dram: float = 2.0):
    """n launches of a GEMM for each of another that takes `large` us and moves `moved` times the bytes."""
    bytes_ = {} if moved is None else {"l2_bytes": 400e6, "dram_read_bytes": 100e6, "dram_write_bytes": 10e6}
    if moved is None:
        bytes_ = dict.fromkeys(("l2_bytes", "dram_read_bytes", "dram_write_bytes"))
    more = {
        key: value and value * (dram if key.startswith("dram") else moved or 1)
        for key, value in bytes_.items()
    }
    one = launch("nvjet_sm90_tst_256x128_NNT", duration_ns=small * 1e3, cycles=1.5e3 * small, **bytes_)
    other = launch("nvjet_sm90_tst_320x128_NNT", duration_ns=large * 1e3, cycles=1.5e3 * large, **more)
    return profile(*[one] * (2 * n)), profile(*[other] * 2)


def test_one_kernel_twice_that_became_one_is_compared_in_all():
    """2 x 90 = 180 -> 169: 11 of 180 are 6.1 %; the other way round 11 of 169 are 6.5 %."""
    before, after = _gemms(2, 90, 169)
    (row,) = compare_ncu(before, after).rows
    assert (row.match, row.change, row.delta_ns) == ("fused", "faster", -11_000)
    assert row.sentence.startswith("2 kernels -> 1: 2 x 90.0 us -> 169 us, 6.1 % less in all")
    assert (
        "taken for 2 kernels -> 1: 4 launches were profiled against 2" in row.note
        and "2.0 x the bytes" in row.note
    )
    (back,) = compare_ncu(after, before).rows
    assert (back.match, back.change, back.delta_ns) == ("split", "slower", 11_000)
    assert back.sentence.startswith("1 kernel -> 2: 169 us -> 2 x 90.0 us, 6.5 % more in all")
    (dear,) = compare_ncu(*_gemms(3, 40, 130, moved=2.5, dram=2.1)).rows  # 120 -> 130
    assert dear.sentence.startswith("3 kernels -> 1: 3 x 40.0 us -> 130 us, 8.3 % more in all")
    (like,) = compare_ncu(*_gemms(2, 90, 181)).rows
    assert like.change == "no_clear_change" and like.sentence == (
        "2 kernels -> 1: 2 x 90.0 us -> 181 us, no clear change in all (+0.6 %)"
    )


@pytest.mark.parametrize(
    ("n", "moved", "dram"), [(2, 1.0, 1.0), (2, 2.0, 1.4), (2, 1.4, 2.0), (7, 7.0, 7.0), (4, 2.4, 4.0)]
)
def test_counts_alone_fuse_nothing(n, moved, dram):
    """A launch that moves as much as before, or at one of L2 and DRAM does, is one kernel instead of another."""
    (row,) = compare_ncu(*_gemms(n, 90, 169, moved=moved, dram=dram)).rows
    assert row.match == "template" and row.sentence.startswith("1.9 x slower (90.0 -> 169 us)")
    assert "launches were profiled against 2" in row.note


def test_without_the_bytes_nothing_is_claimed_that_counts_could_turn_round():
    (row,) = compare_ncu(*_gemms(2, 90, 169, moved=None)).rows
    assert row.change == "no_clear_change" and row.reasons == []
    assert row.sentence.startswith(
        "90.0 -> 169 us per launch, 4 launches against 2: whether one does the work of 2 was not collected"
    )
    (row,) = compare_ncu(*_gemms(2, 90, 200, moved=None)).rows  # longer than both together
    assert row.change == "slower"


def test_a_kernel_of_one_name_is_never_fused_with_itself():
    small, large = (
        launch(grid="132,1,1", l2_bytes=1e6),
        launch(grid="264,1,1", l2_bytes=2e6, dram_read_bytes=1e9),
    )
    (row,) = compare_ncu(profile(*[small] * 4), profile(*[large] * 2)).rows
    assert row.match == "name"


def test_other_numbers_of_launches_are_said():
    rows = compare_ncu(profile(launch(), launch()), profile(launch("quantize<2>(float*)", **FAST))).rows
    assert "2 launches were profiled against 1" in rows[0].note


def test_added_removed_and_without_a_duration():
    rows = compare_ncu(profile(launch("rms_norm_kernel"), launch()), profile(launch(duration_ns=None))).rows
    assert [(row.match, row.change) for row in rows] == [("exact", "not_collected"), ("removed", "removed")]
    assert rows[1].sentence == "only in the baseline: 40.0 us per launch"


def test_clear_changes_come_first_the_largest_of_all_on_top():
    names = {"a(int)": 41_000.0, "b(int)": 60_000.0, "c(int)": 10_000.0}
    before = profile(*(launch(name) for name in names))
    after = profile(*(launch(name, duration_ns=ns, cycles=1.5 * ns) for name, ns in names.items()))
    assert [row.baseline.names for row in compare_ncu(before, after).rows] == [
        ["c(int)"],
        ["b(int)"],
        ["a(int)"],
    ]


def test_one_missing_section_is_named_and_many_are_the_full_set():
    from tracediff.companions.ncu.metrics import METRICS

    from .counters import SLOW

    whole = {metric.key: SLOW.get(metric.key, 1.0) for metric in METRICS}
    assert compare_ncu(profile(launch(**whole)), profile(launch(**whole))).baseline.missing == []
    one = compare_ncu(profile(launch(**{**whole, "achieved_occupancy_pct": None})), profile(launch(**whole)))
    assert [(group.keys, group.collect_with) for group in one.baseline.missing] == [
        (["achieved_occupancy_pct"], "--section Occupancy")
    ]
    assert one.candidate.missing == []
    nothing = compare_ncu(
        profile(launch(stalls={}, **dict.fromkeys(whole, None) | {"duration_ns": 1e4})),
        profile(launch(**whole)),
    )
    assert [group.collect_with for group in nothing.baseline.missing] == ["--set full"]
    assert "stalls" in nothing.baseline.missing[0].keys


def test_another_gpu_and_other_clocks_are_warned_of():
    other = profile(launch(sm_clock_hz=1.2e9), device="NVIDIA L4")
    assert [note.slug for note in compare_ncu(profile(launch()), other).warnings] == [
        "ncu-devices-differ",
        "ncu-clocks-differ",
    ]
    assert compare_ncu(profile(launch()), profile(launch(sm_clock_hz=1.45e9))).warnings == []


def test_nothing_paired_is_a_warning():
    one, other = (
        profile(launch(a), launch(b))
        for a, b in (("rms_norm_kernel", "softmax_kernel"), ("nvjet_tst_1", "flash_fwd_kernel"))
    )
    found = compare_ncu(one, other)
    assert [note.slug for note in found.warnings] == ["ncu-nothing-paired"]
    assert sorted(row.change for row in found.rows) == ["added", "added", "removed", "removed"]


@pytest.mark.parametrize(
    "gone",
    ["compute_pct", "instructions", "sm_clock_hz", "cycles", "theoretical_occupancy_pct", "waves_per_sm"],
)
def test_any_counter_may_be_missing(gone):
    found = compare_ncu(profile(launch(**{gone: None})), profile(launch(**{**FAST, gone: None}, stalls=LESS)))
    assert found.rows[0].change == "faster"
    assert "occupancy 12 -> 74 %" in found.rows[0].sentence


def test_without_counters_the_sentence_says_so():
    bare = [
        profile(launch(stalls={}, **dict.fromkeys(launch().values) | {"duration_ns": ns}))
        for ns in (40_000.0, 80_000.0)
    ]
    assert compare_ncu(*bare).rows[0].sentence == (
        "2.0 x slower (40.0 -> 80.0 us): the counters that would say why were not collected (ncu --set full)"
    )


def test_kernels_of_other_kinds_are_not_fused():
    """The counts and the bytes of a fusion, 2 to 1; but a GEMM does not become a softmax."""
    before, after = _gemms(2, 90, 169)
    renamed = profile(*(launch("softmax_warp_forward", **one.values) for one in after.launches))
    (row,) = compare_ncu(before, renamed).rows
    assert row.match == "sequence" and row.sentence.startswith("1.9 x slower (90.0 -> 169 us)")
    assert "another kind of kernel (gemm, softmax) with no word of its name in common" in row.note
