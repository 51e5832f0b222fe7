"""Rules over counters: each fires beyond its threshold, in the direction of the change, and says both values."""

from __future__ import annotations

import math

import pytest

from tracediff.companions.model import NcuKernel
from tracediff.companions.ncu.reasons import bound, factors, limits, reasons

from .counters import SLOW, STALLS


def kernel(stalls=None, **values) -> NcuKernel:
    """A kernel like SLOW; where only the duration is given, the clock stays."""
    if "duration_ns" in values:
        values = {"cycles": 1.5 * values["duration_ns"], **values}
    merged = {key: value for key, value in {**SLOW, **values}.items() if value is not None}
    return NcuKernel(names=["k"], grids=[], blocks=[], launches=1, values=merged, stalls=STALLS if stalls is None else stalls,
                     bound=bound(merged), limited_by=limits(merged))  # fmt: skip


def fired(before: NcuKernel, after: NcuKernel) -> dict[str, str]:
    return {reason.rule: reason.text for reason in reasons(before, after)}


@pytest.mark.parametrize(
    ("compute", "memory", "expected"),
    [(59.9, 20, "latency"), (0, 0, "latency"), (59.9, 59.9, "latency"), (60, 20, "compute"), (20, 60, "memory"),
     (70, 60.1, "compute_and_memory"), (70, 60, "compute"), (85, 90, "compute_and_memory"), (95, 30, "compute"), (30, 90, "memory")],
)  # fmt: skip
def test_bound(compute, memory, expected):
    assert bound({"compute_pct": compute, "memory_pct": memory}) == expected


def test_no_bound_without_both_throughputs():
    assert bound({"compute_pct": 90.0}) is None and bound({"memory_pct": 90.0}) is None


def test_what_limits_occupancy():
    base = {"waves_per_sm": 4.0, "theoretical_occupancy_pct": 50.0, "limit_registers": 4.0, "limit_shared_mem": 9.0, "limit_warps": 8.0,
            "limit_blocks": 32.0}  # fmt: skip
    assert limits(base) == ["registers"]
    assert limits({**base, "limit_shared_mem": 4.0}) == ["registers", "shared_mem"]
    assert limits({**base, "waves_per_sm": 0.5}) == ["grid", "registers"]
    assert limits({**base, "theoretical_occupancy_pct": 100.0}) == []
    assert limits({}) == []


def test_occupancy_by_the_grid():
    after = kernel(duration_ns=10_000.0, achieved_occupancy_pct=73.7, waves_per_sm=1.0, grid_blocks=1056.0,
                   stalls={**STALLS, "long_scoreboard": 6.0})  # fmt: skip
    assert fired(kernel(), after) == {
        "occupancy": "occupancy 12 -> 74 %: grid 132 -> 1,056 blocks",
        "stall": "long-scoreboard stalls 2.5 x less (15.0 -> 6.0 cycles per instruction)",
    }
    back = fired(after, kernel())
    assert back["occupancy"] == "occupancy 74 -> 12 %: grid 1,056 -> 132 blocks"
    assert back["stall"] == "long-scoreboard stalls 2.5 x more (6.0 -> 15.0 cycles per instruction)"


def test_occupancy_by_registers_and_by_shared_memory():
    many = {"waves_per_sm": 8.0, "theoretical_occupancy_pct": 25.0, "achieved_occupancy_pct": 24.0, "limit_registers": 2.0,
            "registers_per_thread": 128.0}  # fmt: skip
    few = {"waves_per_sm": 4.0, "theoretical_occupancy_pct": 50.0, "achieved_occupancy_pct": 47.0, "limit_registers": 4.0,
           "registers_per_thread": 64.0, "duration_ns": 20_000.0}  # fmt: skip
    assert (
        fired(kernel(**many), kernel(**few))["occupancy"]
        == "occupancy 24 -> 47 %: registers per thread 128 -> 64"
    )
    much = {
        **many,
        "limit_registers": 8.0,
        "limit_shared_mem": 2.0,
        "shared_dynamic_bytes": 96_000.0,
        "shared_static_bytes": 2000.0,
    }
    less = {
        **few,
        "limit_registers": 8.0,
        "limit_shared_mem": 4.0,
        "shared_dynamic_bytes": 48_000.0,
        "shared_static_bytes": 2000.0,
    }
    assert (
        fired(kernel(**much), kernel(**less))["occupancy"]
        == "occupancy 24 -> 47 %: shared memory per block 98.0 -> 50.0 kB"
    )


def test_occupancy_that_moved_the_other_way_or_too_little_is_no_reason():
    assert "occupancy" not in fired(kernel(), kernel(duration_ns=80_000.0, achieved_occupancy_pct=74.0))
    assert "occupancy" not in fired(kernel(), kernel(duration_ns=10_000.0, achieved_occupancy_pct=22.3))
    assert "occupancy" in fired(kernel(), kernel(duration_ns=10_000.0, achieved_occupancy_pct=22.5))


def test_the_clock_explains_a_change_alone():
    """Same cycles at half the clock: nothing about the kernel is a reason."""
    after = kernel(duration_ns=80_000.0, cycles=60_000.0, sm_clock_hz=0.75e9, achieved_occupancy_pct=2.0)
    assert fired(kernel(), after) == {"clock": "SM clock 1.50 -> 0.75 GHz"}


def test_instructions():
    after = kernel(duration_ns=20_000.0, instructions=5e5)
    assert fired(kernel(), after)["instructions"] == "2.0 x fewer instructions (1.00 M -> 500 k)"
    # Not where both sides wait for memory, and not where they are a small part: log(1.2) of log(2) is 26 %.
    busy = {"memory_pct": 90.0}
    assert "instructions" not in fired(kernel(**busy), kernel(**busy, duration_ns=20_000.0, instructions=5e5))
    assert "instructions" not in fired(kernel(), kernel(duration_ns=20_000.0, instructions=1e6 / 1.2))
    assert "instructions" not in fired(kernel(), kernel(duration_ns=80_000.0, instructions=5e5))


def test_traffic_where_memory_is_busy():
    busy = {"memory_pct": 90.0, "dram_pct": 90.0}
    after = kernel(**busy, duration_ns=20_000.0, dram_read_bytes=30e6, dram_write_bytes=20e6)
    assert fired(kernel(**busy), after) == {"dram-traffic": "DRAM traffic 100 -> 50.0 MB"}
    assert "dram-traffic" not in fired(
        kernel(), kernel(duration_ns=20_000.0, dram_read_bytes=30e6, dram_write_bytes=20e6)
    )


def test_waves_divergence_atomics_and_special_functions():
    """Each in its direction only; of waves the fuller last one, and another amount of blocks, are no cause."""
    grid = {"sms": 132.0, "limit_warps": 2.0, "waves_per_sm": 1.0}
    busy = {"duration_ns": 20_000.0, "cycles": 30_000.0}
    cases = {
        "waves": ({**grid, "grid_blocks": 265.0}, {"grid_blocks": 264.0}, "waves 2 -> 1: the last of 2 was 0.4 % full"),
        "divergence": ({"threads_per_instruction": 12.0}, {"threads_per_instruction": 30.0}, "divergence: 12.0 -> 30.0 of 32 threads active per instruction"),
        "atomics": ({"global_atomics": 2e5}, {"global_atomics": 0.0}, "atomics on global memory 200 k -> 0"),
        "special-functions": ({"xu_pct": 90.0}, {"xu_pct": 20.0}, "special functions (XU pipe) 90 -> 20 % of the peak"),
    }  # fmt: skip
    for rule, (before, after, said) in cases.items():
        slow = kernel(**before)
        assert fired(slow, kernel(**{**slow.values, **after, **busy})) == {rule: said}
        worse = kernel(**{**slow.values, **after, "duration_ns": 80_000.0, "cycles": 120_000.0})
        assert rule not in fired(slow, worse)
    fuller = kernel(**grid, grid_blocks=500.0)
    assert fired(fuller, kernel(**{**fuller.values, "grid_blocks": 264.0, **busy})) == {}
    whole = kernel(**grid, grid_blocks=1056.0)  # four whole waves, then three
    assert fired(whole, kernel(**{**whole.values, "grid_blocks": 792.0, **busy})) == {}
    few = kernel(global_atomics=1e4)
    assert fired(few, kernel(**{**few.values, "global_atomics": 0.0, **busy})) == {}
    idle = kernel(xu_pct=40.0)
    assert fired(idle, kernel(**{**idle.values, "xu_pct": 0.0, **busy})) == {}


def test_spills_bank_conflicts_coalescing_and_width():
    slow = kernel(
        local_loads=2e5,
        local_stores=1e5,
        bank_conflict_pct=80.0,
        load_bytes_per_sector=4.0,
        load_bits=16.0,
        global_loads=8e4,
    )
    found = {}
    for changed in ({"local_loads": 0.0, "local_stores": 0.0}, {"bank_conflict_pct": 5.0}, {"load_bytes_per_sector": 32.0},
                    {"load_bits": 128.0, "global_loads": 1e4}):  # fmt: skip
        after = kernel(**{**slow.values, **changed, "duration_ns": 20_000.0, "cycles": 30_000.0})
        found |= fired(slow, after)
        assert (
            set(
                fired(
                    slow, kernel(**{**slow.values, **changed, "duration_ns": 80_000.0, "cycles": 120_000.0})
                )
            )
            == set()
        ), changed
    assert found == {
        "local-memory": "local-memory instructions 300 k -> 0",
        "bank-conflicts": "bank conflicts 80 -> 5.0 % of shared-memory wavefronts",
        "coalescing": "loads use 4 -> 32 of 32 bytes a sector",
        "access-width": "global loads 16 -> 128 bit per thread",
    }


def test_more_sectors_a_request_are_no_reason_where_all_bytes_are_used():
    """Four times as wide loads take four times the sectors: nothing is wasted."""
    before = kernel(load_sectors_per_request=4.0, load_bytes_per_sector=32.0)
    after = kernel(load_sectors_per_request=16.0, load_bytes_per_sector=32.0, duration_ns=80_000.0)
    assert "coalescing" not in fired(before, after)


def test_a_stall_counts_only_where_it_is_a_large_part():
    small = {"long_scoreboard": 2.0, "wait": 10.0, "selected": 1.0}
    after = kernel(duration_ns=20_000.0, stalls={**small, "long_scoreboard": 1.0})
    assert "stall" not in fired(kernel(stalls=small), after)


def test_no_reason_without_counters_and_for_the_same_duration():
    bare = NcuKernel(names=["k"], grids=[], blocks=[], launches=1, values={"duration_ns": 10.0})
    slower = NcuKernel(names=["k"], grids=[], blocks=[], launches=1, values={"duration_ns": 20.0})
    assert reasons(bare, slower) == [] and reasons(bare, bare) == []


def test_factors_multiply_to_the_ratio_of_durations():
    after = kernel(duration_ns=10_000.0, cycles=12_000.0, instructions=5e5)
    found = factors(kernel(), after)
    # instructions 1e6 -> 5e5; cycles per instruction 0.06 -> 0.024; clock 1.5 -> 1.2 GHz, which makes it longer
    assert found == pytest.approx({"instructions": 0.5, "cycles_per_instruction": 0.4, "clock": 1.25})
    assert math.prod(found.values()) == pytest.approx(10_000 / 40_000)
    assert factors(kernel(cycles=None), after) == {}
    assert factors(kernel(instructions=0.0), after) == {}
