"""Profiles of Nsight Compute written by hand: the CSV page, and launches."""

from __future__ import annotations

import csv
import io

from tracediff.companions.ncu.metrics import Launch, Profile

LEAD = ["ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size",
        "Device", "CC"]  # fmt: skip
PEAK = "avg.pct_of_peak_sustained_elapsed"


def lead(number: int, name: str, grid: str, block: str) -> list[str]:
    return [str(number), "4242", "secret_process", "secret-host", name, "1", "7", block, grid, "0", "9.0"]


def raw_csv(*launches: tuple[str, str, str, dict[str, tuple[str, str]]], before: str = "") -> str:
    """The raw page: launches are (name, grid, block, metric -> (unit, value as ncu writes it))."""
    names = list(dict.fromkeys(metric for launch in launches for metric in launch[3]))
    units = {metric: unit for launch in launches for metric, (unit, _) in launch[3].items()}
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow(LEAD + names)
    writer.writerow([""] * len(LEAD) + [units[name] for name in names])
    for number, (name, grid, block, metrics) in enumerate(launches):
        writer.writerow(lead(number, name, grid, block) + [metrics.get(one, ("", ""))[1] for one in names])
    return before + out.getvalue()


# A latency-bound launch of one block an SM: 40 us, 1.5 GHz, and round numbers.
SLOW = {
    "duration_ns": 40_000.0, "cycles": 60_000.0, "sm_clock_hz": 1.5e9, "compute_pct": 20.0, "memory_pct": 30.0,
    "dram_pct": 30.0, "l2_pct": 20.0, "theoretical_occupancy_pct": 100.0, "achieved_occupancy_pct": 12.4,
    "limit_registers": 8.0, "limit_shared_mem": 32.0, "limit_warps": 8.0, "limit_blocks": 32.0, "waves_per_sm": 0.125,
    "grid_blocks": 132.0, "block_threads": 256.0, "registers_per_thread": 32.0, "shared_static_bytes": 0.0,
    "shared_dynamic_bytes": 0.0, "active_warps": 2.0, "eligible_warps": 0.1, "issued_per_cycle": 0.1,
    "warp_cycles_per_issue": 20.0, "dram_read_bytes": 60e6, "dram_write_bytes": 40e6, "l2_bytes": 100e6,
    "instructions": 1e6, "local_loads": 0.0, "local_stores": 0.0, "wide_access_pct": 0.0,
}  # fmt: skip
STALLS = {"long_scoreboard": 15.0, "wait": 4.0, "selected": 1.0}


def launch(name="quantize(float*)", grid="132,1,1", block="256,1,1", stalls=None, **values) -> Launch:
    """A launch like SLOW but for what is given; None drops a key."""
    merged = {key: value for key, value in {**SLOW, **values}.items() if value is not None}
    return Launch(name, grid, block, merged, STALLS if stalls is None else stalls)


def profile(*launches: Launch, file="a.csv", device="NVIDIA H200", source="csv-raw") -> Profile:
    return Profile(file, source, device, launches)
