"""Labels of ncu's details page to the metrics behind them.

From the section files that Nsight Compute ships (2023.3 to 2025.3). `--print-metric-name name`, and tables of
`--print-details all`, give metrics by name instead: those pass through.
"""

from __future__ import annotations

from tracediff.load.ncu_metrics import STALL_PREFIX, STALL_SUFFIX

_PEAK = "avg.pct_of_peak_sustained_elapsed"
_LABELS = {
    "Duration": "gpu__time_duration.sum",
    "Elapsed Cycles": "gpc__cycles_elapsed.max",
    "SM Frequency": "gpc__cycles_elapsed.avg.per_second",
    "DRAM Frequency": "dram__cycles_elapsed.avg.per_second",
    "Compute (SM) Throughput": f"sm__throughput.{_PEAK}",
    "DRAM Throughput": f"gpu__dram_throughput.{_PEAK}",
    "L2 Cache Throughput": f"lts__throughput.{_PEAK}",
    "L1/TEX Cache Throughput": "l1tex__throughput.avg.pct_of_peak_sustained_active",
    "Theoretical Occupancy": "sm__maximum_warps_per_active_cycle_pct",
    "Achieved Occupancy": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "Block Limit Registers": "launch__occupancy_limit_registers",
    "Block Limit Shared Mem": "launch__occupancy_limit_shared_mem",
    "Block Limit Warps": "launch__occupancy_limit_warps",
    "Block Limit SM": "launch__occupancy_limit_blocks",
    "Block Limit Barriers": "launch__occupancy_limit_barriers",
    "Waves Per SM": "launch__waves_per_multiprocessor",
    "Grid Size": "launch__grid_size",
    "Block Size": "launch__block_size",
    "Registers Per Thread": "launch__registers_per_thread",
    "Static Shared Memory Per Block": "launch__shared_mem_per_block_static",
    "Dynamic Shared Memory Per Block": "launch__shared_mem_per_block_dynamic",
    "# SMs": "launch__sm_count",
    "Active Warps Per Scheduler": "smsp__warps_active.avg.per_cycle_active",
    "Eligible Warps Per Scheduler": "smsp__warps_eligible.avg.per_cycle_active",
    "One or More Eligible": "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "Issued Warp Per Scheduler": "smsp__issue_active.avg.per_cycle_active",
    "Warp Cycles Per Issued Instruction": "smsp__average_warp_latency_per_inst_issued.ratio",
    "Avg. Active Threads Per Warp": "smsp__thread_inst_executed_per_inst_executed.ratio",
    "L1/TEX Hit Rate": "l1tex__t_sector_hit_rate.pct",
    "L2 Hit Rate": "lts__t_sector_hit_rate.pct",
    "Executed Instructions": "smsp__inst_executed.sum",
}
_MEMORY_PEAK = f"gpu__compute_memory_throughput.{_PEAK}"
_WARP_STATES = "Warp State Statistics"


def metric_of(section: str, label: str, unit: str) -> str | None:
    """The metric that a label stands for; None where none is read."""
    if "__" in label:
        return label
    if label == "Memory Throughput":  # two figures of one name: % of the peak, and bytes a second
        return _MEMORY_PEAK if unit == "%" else None
    if section == _WARP_STATES:
        state = label.removeprefix("Stall ").lower().replace(" ", "_")
        if label.startswith("Stall ") or label == "Selected":
            return f"{STALL_PREFIX}{state}{STALL_SUFFIX}"
    return _LABELS.get(label)
