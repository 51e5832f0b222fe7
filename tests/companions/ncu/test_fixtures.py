"""Recorded profiles (fixtures/ncu/README.md): the figures are those of the CSV, read here anew, and the sentence names what was planted."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.tiny import ROOT
from tracediff.companions.ncu.source import hottest

FOLDER = ROOT / "fixtures" / "ncu"
# Key of the result -> metric of ncu, and what a unit of it is in ns, bytes or one.
PLAIN = {
    "duration_ns": "gpu__time_duration.sum",
    "dram_read_bytes": "dram__bytes_read.sum",
    "dram_write_bytes": "dram__bytes_write.sum",
    "instructions": "smsp__inst_executed.sum",
    "achieved_occupancy_pct": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "l2_hit_pct": "lts__t_sector_hit_rate.pct",
    "dram_pct": "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "registers_per_thread": "launch__registers_per_thread",
    "grid_blocks": "launch__grid_size",
    "warp_cycles_per_issue": "smsp__average_warp_latency_per_inst_issued.ratio",
}
UNITS = {"us": 1e3, "ms": 1e6, "ns": 1.0, "Mbyte": 1e6, "Gbyte": 1e9, "Kbyte": 1e3, "byte": 1.0}


def mean(name: str, metric: str) -> float:
    """Over the launches of a file, in ns, bytes or one."""
    with (FOLDER / f"{name}.csv").open(newline="") as file:
        names, units, *launches = csv.reader(file)
    at = names.index(metric)
    values = [float(launch[at].replace(",", "")) for launch in launches]
    return UNITS.get(units[at], 1.0) * sum(values) / len(values)


def compared(run, one: str, other: str) -> dict:
    code, _, err = run(
        "compare", FOLDER / f"{one}.csv", FOLDER / f"{other}.csv", "-q", "--json", "out.json", "-f"
    )
    assert code == 0, err
    with Path("out.json").open() as file:
        (row,) = json.load(file)["ncu"]["rows"]
    return row


PAIRS = {
    ("quant_scalar132", "quant_vec1056"): ("occupancy", "grid 132 -> 1,056 blocks"),
    ("trt_132", "trt_1056"): ("occupancy", "grid 132 -> 1,056 blocks"),
    ("spill32", "spill255"): ("local-memory", "register spills 24.4 M -> 0 instructions"),
}


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_the_figures_are_those_of_the_csv(one, other, run):
    row = compared(run, one, other)
    for side, name in (("baseline", one), ("candidate", other)):
        for key, metric in PLAIN.items():
            assert row[side]["values"][key] == pytest.approx(mean(name, metric), rel=1e-9), (name, key)


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_the_first_cause_is_the_planted_one(one, other, run):
    rule, words = PAIRS[one, other]
    first = compared(run, one, other)["reasons"][0]
    assert (first["rule"], first["kind"]) == (rule, "cause")
    assert words in first["text"]


def test_the_vectorised_loads_of_a_new_grid_are_named_too(run):
    """1,835,008 loads of 2 sectors become 229,376 of 16: 64 bytes of 32 threads, then 512."""
    row = compared(run, "quant_scalar132", "quant_vec1056")
    assert [row[side]["values"]["load_bits"] for side in ("baseline", "candidate")] == [16, 128]
    assert row["sentence"].startswith(
        "5.9 x faster (276 -> 46.8 us): occupancy 12 -> 86 %: grid 132 -> 1,056 blocks; global loads 16 -> 128 bit per thread"
    )


PLANTED = {
    "scale_half": ("access-width", "global loads 16 -> 32 bit per thread"),
    "spin": ("waves", "waves 2 -> 1: the last of 2 was 0.4 % full"),  # 264 blocks at once, one is left
    "diverge": ("divergence", "divergence: 16.0 -> 32.0 of 32 threads active per instruction"),
    "count": ("atomics", "atomics on global memory 524 -> 8.45 k"),  # 2^24 / 32 warps; 1,056 x 8 warps
    "gelu": ("special-functions", "special functions (XU pipe) 98 -> 0 % of the peak"),
}


def test_what_was_planted_in_each_of_five_kernels_is_said(run):
    files = (FOLDER / f"planted_{side}.csv" for side in ("before", "after"))
    code, _, err = run("compare", *files, "-q", "--json", "out.json", "-f")
    assert code == 0, err
    rows = json.loads(Path("out.json").read_text())["ncu"]["rows"]
    said = {
        row["baseline"]["names"][0].split("(")[0]: {one["rule"]: one["text"] for one in row["reasons"]}
        for row in rows
    }
    assert {name: said[name].get(rule) for name, (rule, _) in PLANTED.items()} == {
        name: text for name, (_, text) in PLANTED.items()
    }
    back = {rule for name, (rule, _) in PLANTED.items() for rule in said[name] if rule != PLANTED[name][0]}
    assert not back & {rule for rule, _ in PLANTED.values()}, (
        "nothing is said of a kernel that was planted in another"
    )


def test_the_line_with_the_most_stalls_of_a_recorded_source_page():
    """Its lines 31, 33, 39 and 41 have 37, 107, 18,774 and 32 samples, one of a header 20."""
    with (FOLDER / "planted_before_source.csv").open(newline="") as page:
        (line,) = hottest(page).values()
    assert (line.file, line.line, line.stall) == ("k.cu", 39, "long scoreboard")
    assert line.share == pytest.approx(18_774 / 18_950)


def test_by_hand(run):
    """453.344 us is the mean of 454.688 and 452.000; 41.4 is that of the other file: 10.9 times as fast, said as 11."""
    row = compared(run, "spill32", "spill255")
    assert row["baseline"]["values"]["duration_ns"] == 453_344.0
    assert row["sentence"].startswith(
        "11 x faster (453 -> 41.4 us): register spills 24.4 M -> 0 instructions"
    )


def test_two_gemms_that_became_one(run):
    """Twice 89.82 (the mean of six) is 179.6; 168.9, the mean of three, is 6.0 % less: no slower kernel."""
    row = compared(run, "gemm_two", "gemm_fused")
    two, fused = 2 * mean("gemm_two", "gpu__time_duration.sum"), mean("gemm_fused", "gpu__time_duration.sum")
    assert row["delta_ns"] == pytest.approx(fused - two) and 0.0595 < (two - fused) / two < 0.0605
    assert (row["match"], row["change"]) == ("fused", "faster")
    assert row["sentence"] == "2 kernels -> 1: 2 x 89.8 us -> 169 us, 6.0 % less in all"
    assert (row["reasons"][0]["rule"], row["reasons"][0]["kind"]) == ("fused", "cause")
    instructions = [mean(name, "smsp__inst_executed.sum") for name in ("gemm_two", "gemm_fused")]
    assert row["baseline"]["values"]["instructions"] == pytest.approx(2 * instructions[0], rel=1e-9)


def test_the_same_kernel_profiled_again_did_not_change(run):
    row = compared(run, "quant_vec1056", "quant_vec1056_again")
    assert row["sentence"].startswith("no clear change: 46.8 -> 47.2 us")


def test_the_fixtures_tell_nothing_of_the_machine():
    for path in FOLDER.glob("*.csv"):
        header = path.read_text().partition("\n")[0]
        assert not [word for word in ("Process", "Host", 'Time"', "Domain") if word in header], path.name
