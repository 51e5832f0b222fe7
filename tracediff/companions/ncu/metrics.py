"""What is read of a launch that Nsight Compute profiled: each figure with its unit, its metrics, and the section that collects it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping

import msgspec

from tracediff.companions.ncu.source import SourceLine

EXPORT = "ncu --import FILE.ncu-rep --csv --page raw > FILE.csv"
Raw = Mapping[str, float]  # metric of ncu -> value, in ns, byte, hz, per second
SECTOR_BYTES = 32  # of L1, L2 and device memory, on every GPU that ncu profiles
STALL_PREFIX = "smsp__average_warps_issue_stalled_"
STALL_SUFFIX = "_per_issue_active.ratio"
DEVICE = "device__attribute_display_name"


class Way(msgspec.Struct, frozen=True):
    """One way to compute a key from metrics: all of `names` must be there, those of `optional` may be."""

    names: tuple[str, ...]
    compute: Callable[..., float | None]
    optional: tuple[str, ...] = ()

    def __call__(self, raw: Raw) -> float | None:
        """Compute the key; None where a metric is missing, or the value is none."""
        if any(name not in raw for name in self.names):
            return None
        found = self.compute(
            *(raw[name] for name in self.names), *(raw[name] for name in self.optional if name in raw)
        )
        return found if found is not None and math.isfinite(found) else None


class Metric(msgspec.Struct, frozen=True):
    """A figure of a launch. `section`: of ncu, holds its metrics; `additive`: launches add up."""

    key: str
    label: str
    unit: str  # ns | byte | hz | % | count | "" (a ratio)
    section: str
    ways: tuple[Way, ...]
    additive: bool = False


def _first(*names: str) -> tuple[Way, ...]:
    return tuple(Way((name,), lambda value: value) for name in names)


def _sum(*names: str, times: float = 1.0, optional: tuple[str, ...] = ()) -> Way:
    return Way(names, lambda *values: times * sum(values), optional)


def _ratio(above: str, below: str, times: float = 1.0) -> Way:
    return Way((above, below), lambda a, b: times * a / b if b else None)


def _part(part: str, *rest: str) -> Way:
    """`part` in percent of the sum of all."""
    return Way((part, *rest), lambda *values: 100 * values[0] / sum(values) if sum(values) else None)


_L1 = "l1tex__t_sectors_pipe_lsu_mem_"
_WIDTH = "smsp__sass_inst_executed_op_memory_{}b.sum"
_THREADS = "smsp__thread_inst_executed_per_inst_executed.ratio"
_BPS = "smsp__sass_average_data_bytes_per_sector_mem_global_op_{}.ratio"


def _requests(op: str) -> tuple[Way, ...]:
    where = f"pipe_lsu_mem_global_op_{op}"
    ratio = _ratio(f"l1tex__t_sectors_{where}.sum", f"l1tex__t_requests_{where}.sum")
    return ratio, *_first(f"l1tex__average_t_sectors_per_request_{where}.ratio")


def _load_bits() -> Way:
    """What a thread reads by one load, of sectors that are used: 32 threads that read 16 bits each fill two sectors."""
    where = "pipe_lsu_mem_global_op_ld.sum"
    names = (f"l1tex__t_sectors_{where}", f"l1tex__t_requests_{where}", _BPS.format("ld"), _THREADS)
    return Way(
        names,
        lambda sectors, requests, used, threads: (
            8 * sectors * used / requests / threads if requests and threads and sectors else None
        ),
    )


def _executed(op: str, older: str) -> tuple[Way, ...]:
    return _first(f"smsp__sass_inst_executed_op_{op}.sum", f"sass__inst_executed_{older}")


_PEAK = "avg.pct_of_peak_sustained_elapsed"
_SOL, _LAUNCH, _OCC, _SCHED, _WARP = (
    "SpeedOfLight", "LaunchStats", "Occupancy", "SchedulerStats", "WarpStateStats",
)  # fmt: skip
_MEM, _TABLES, _INST, _SOURCE = (
    "MemoryWorkloadAnalysis", "MemoryWorkloadAnalysis_Tables", "InstructionStats", "SourceCounters",
)  # fmt: skip

GROUPS: dict[str, tuple[Metric, ...]] = {
    "Time and throughput": (
        Metric("duration_ns", "duration", "ns", _SOL, _first("gpu__time_duration.sum"), additive=True),
        Metric("cycles", "elapsed cycles", "count", _SOL, _first("gpc__cycles_elapsed.max"), additive=True),
        Metric("sm_clock_hz", "SM clock", "hz", _SOL, _first("gpc__cycles_elapsed.avg.per_second", "sm__cycles_elapsed.avg.per_second")),
        Metric("dram_clock_hz", "DRAM clock", "hz", _SOL, _first("dram__cycles_elapsed.avg.per_second")),
        Metric("compute_pct", "compute throughput, of peak", "%", _SOL, _first(f"sm__throughput.{_PEAK}")),
        Metric("memory_pct", "memory throughput, of peak", "%", _SOL, _first(f"gpu__compute_memory_throughput.{_PEAK}")),
        Metric("dram_pct", "DRAM throughput, of peak", "%", _SOL, _first(f"gpu__dram_throughput.{_PEAK}", f"dram__throughput.{_PEAK}")),
        Metric("l2_pct", "L2 throughput, of peak", "%", _SOL, _first(f"lts__throughput.{_PEAK}")),
        Metric("l1_pct", "L1 throughput, of peak", "%", _SOL, _first("l1tex__throughput.avg.pct_of_peak_sustained_active")),
        Metric("tensor_pct", "tensor pipe active", "%", "ComputeWorkloadAnalysis", _first(
            "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
            "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active")),
        Metric("tma_pct", "Tensor Memory Accelerator active", "%", "ComputeWorkloadAnalysis",
               _first("sm__pipe_tma_cycles_active.avg.pct_of_peak_sustained_active")),
        Metric("xu_pct", "special functions (XU pipe) active", "%", "ComputeWorkloadAnalysis",
               _first("sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active")),
    ),
    "Launch and occupancy": (
        Metric("grid_blocks", "blocks in the grid", "count", _LAUNCH, _first("launch__grid_size")),
        Metric("block_threads", "threads per block", "count", _LAUNCH, _first("launch__block_size")),
        Metric("waves_per_sm", "waves per SM", "", _LAUNCH, _first("launch__waves_per_multiprocessor")),
        Metric("cluster_blocks", "blocks in a cluster", "count", _LAUNCH, _first("launch__cluster_size")),
        Metric("sms", "SMs", "count", _LAUNCH, _first("launch__sm_count", "device__attribute_multiprocessor_count")),
        Metric("theoretical_occupancy_pct", "theoretical occupancy", "%", _OCC, _first("sm__maximum_warps_per_active_cycle_pct")),
        Metric("achieved_occupancy_pct", "achieved occupancy", "%", _OCC, _first("sm__warps_active.avg.pct_of_peak_sustained_active")),
        Metric("registers_per_thread", "registers per thread", "count", _LAUNCH, _first("launch__registers_per_thread")),
        Metric("shared_static_bytes", "shared memory per block, static", "byte", _LAUNCH, _first("launch__shared_mem_per_block_static")),
        Metric("shared_dynamic_bytes", "shared memory per block, dynamic", "byte", _LAUNCH, _first("launch__shared_mem_per_block_dynamic")),
        Metric("limit_registers", "blocks per SM, by registers", "count", _OCC, _first("launch__occupancy_limit_registers")),
        Metric("limit_shared_mem", "blocks per SM, by shared memory", "count", _OCC, _first("launch__occupancy_limit_shared_mem")),
        Metric("limit_warps", "blocks per SM, by warps", "count", _OCC, _first("launch__occupancy_limit_warps")),
        Metric("limit_blocks", "blocks per SM, by blocks", "count", _OCC, _first("launch__occupancy_limit_blocks")),
        Metric("limit_barriers", "blocks per SM, by barriers", "count", _OCC, _first("launch__occupancy_limit_barriers")),
    ),
    "Schedulers": (
        Metric("active_warps", "active warps per scheduler", "count", _SCHED, _first("smsp__warps_active.avg.per_cycle_active")),
        Metric("eligible_warps", "eligible warps per scheduler", "count", _SCHED, _first("smsp__warps_eligible.avg.per_cycle_active")),
        # The CSV writes the percentage with more digits than the ratio.
        Metric("issued_per_cycle", "instructions issued per scheduler and cycle", "", _SCHED, (
            _sum("smsp__issue_active.avg.pct_of_peak_sustained_active", times=0.01),
            *_first("smsp__issue_active.avg.per_cycle_active"))),
        Metric("warp_cycles_per_issue", "warp cycles per issued instruction", "count", _WARP, _first("smsp__average_warp_latency_per_inst_issued.ratio")),
        Metric("threads_per_instruction", "active threads per instruction", "count", _WARP, _first(_THREADS)),
    ),
    "Memory": (
        Metric("dram_read_bytes", "DRAM read", "byte", _TABLES, _first("dram__bytes_read.sum"), additive=True),
        Metric("dram_write_bytes", "DRAM written", "byte", _TABLES, _first("dram__bytes_write.sum"), additive=True),
        Metric("l2_bytes", "L2 traffic", "byte", _TABLES,
               (*_first("lts__t_bytes.sum"), _sum("lts__t_sectors.sum", times=SECTOR_BYTES)), additive=True),
        Metric("l2_hit_pct", "L2 hit rate", "%", _MEM, _first("lts__t_sector_hit_rate.pct")),
        Metric("l1_bytes", "L1 traffic, global and local", "byte", _TABLES,
               (_sum(f"{_L1}global_op_ld.sum", f"{_L1}global_op_st.sum", times=SECTOR_BYTES,
                     optional=(f"{_L1}local_op_ld.sum", f"{_L1}local_op_st.sum")),), additive=True),
        Metric("l1_hit_pct", "L1 hit rate", "%", _MEM, _first("l1tex__t_sector_hit_rate.pct")),
        Metric("load_sectors_per_request", "sectors per global load request", "", _TABLES, _requests("ld")),
        Metric("store_sectors_per_request", "sectors per global store request", "", _TABLES, _requests("st")),
        Metric("load_bytes_per_sector", "bytes used per sector, global loads", "", _TABLES, _first(_BPS.format("ld"))),
        Metric("store_bytes_per_sector", "bytes used per sector, global stores", "", _TABLES, _first(_BPS.format("st"))),
        Metric("load_bits", "bits per thread, global loads", "count", _TABLES, (_load_bits(),)),
        Metric("global_atomics", "atomics on global memory", "count", _TABLES,
               (_sum(*(f"l1tex__t_requests_pipe_lsu_mem_global_op_{op}.sum" for op in ("atom", "red"))),), additive=True),
        Metric("sector_efficiency_pct", "global sectors needed of those moved", "%", _SOURCE,
               (_ratio("memory_l2_theoretical_sectors_global_ideal", "memory_l2_theoretical_sectors_global", 100.0),)),
        Metric("bank_conflict_pct", "bank conflicts of shared-memory wavefronts", "%", _TABLES,
               (_ratio("l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
                       "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum", 100.0),)),
    ),
    "Instructions": (
        Metric("instructions", "warp instructions", "count", _INST, _first("smsp__inst_executed.sum", "inst_executed"), additive=True),
        Metric("global_loads", "global loads", "count", _SOURCE, _executed("global_ld", "global_loads"), additive=True),
        Metric("global_stores", "global stores", "count", _SOURCE, _executed("global_st", "global_stores"), additive=True),
        Metric("wide_access_pct", "128-bit of the memory instructions", "%", _SOURCE,
               (_part(_WIDTH.format(128), *(_WIDTH.format(bits) for bits in (64, 32, 16, 8))),)),
        Metric("shared_loads", "shared loads", "count", _SOURCE, _executed("shared_ld", "shared_loads"), additive=True),
        Metric("shared_stores", "shared stores", "count", _SOURCE, _executed("shared_st", "shared_stores"), additive=True),
        Metric("local_loads", "local loads", "count", _SOURCE, _executed("local_ld", "local_loads"), additive=True),
        Metric("local_stores", "local stores", "count", _SOURCE, _executed("local_st", "local_stores"), additive=True),
        Metric("spill_instructions", "register spills", "count", _SOURCE,
               (*_first("sass__inst_executed_register_spilling"), *_first("derived__local_spilling_requests")),
               additive=True),
    ),
}  # fmt: skip
METRICS: tuple[Metric, ...] = tuple(one for group in GROUPS.values() for one in group)

BY_KEY: dict[str, Metric] = {metric.key: metric for metric in METRICS}
WANTED: frozenset[str] = frozenset(
    name for metric in METRICS for way in metric.ways for name in (*way.names, *way.optional)
) | frozenset(f"launch__{kind}_dim_{axis}" for kind in ("grid", "block") for axis in "xyz")


def wanted(name: str) -> bool:
    """Tell whether a metric is read at all."""
    return name in WANTED or (name.startswith(STALL_PREFIX) and name.endswith(STALL_SUFFIX))


def values(raw: Raw) -> dict[str, float]:
    """Key -> value of one launch; keys that were not collected are absent."""
    found = {}
    for metric in METRICS:
        value = next((value for way in metric.ways if (value := way(raw)) is not None), None)
        if value is not None:
            found[metric.key] = value
    return found


def stalls(raw: Raw) -> dict[str, float]:
    """Warp state -> cycles per issued instruction; `selected` is the issue itself and no stall."""
    cut = len(STALL_PREFIX), -len(STALL_SUFFIX)
    return {
        name[cut[0] : cut[1]]: value
        for name, value in sorted(raw.items())
        if name.startswith(STALL_PREFIX) and name.endswith(STALL_SUFFIX) and math.isfinite(value)
    }


class Launch(msgspec.Struct, frozen=True):
    """One profiled launch. `values`: by key of `METRICS`; `stalls`: cycles per issued instruction by warp state."""

    name: str
    grid: str  # 'x,y,z', '' where it is not in the file
    block: str
    values: dict[str, float]
    stalls: dict[str, float] = msgspec.field(default_factory=dict)


class Profile(msgspec.Struct, frozen=True):
    """All launches of one file, in the order in which they were profiled."""

    file: str  # base name, or the label that was given
    source: str  # report | csv-raw
    device: str  # GPU model, '' where it is not in the file
    launches: tuple[Launch, ...]
    lines: dict[str, SourceLine] = msgspec.field(
        default_factory=dict
    )  # by name of a kernel; of a report alone


def launch(name: str, raw: Raw, grid: str = "", block: str = "") -> Launch:
    """Make a launch of its metrics; grid and block from the metrics where they are not given."""
    grid, block = grid or _shape(raw, "grid"), block or _shape(raw, "block")
    return Launch(name, grid, block, values(raw), stalls(raw))


def _shape(raw: Raw, kind: str) -> str:
    sizes = [raw.get(f"launch__{kind}_dim_{axis}") for axis in "xyz"]
    return ",".join(str(int(size)) for size in sizes if size is not None) if None not in sizes else ""


# Units of ncu's output to one form: ns, byte, per second, and every other unit unscaled.
_TIMES = {
    "nsecond": 1.0, "ns": 1.0, "usecond": 1e3, "us": 1e3, "msecond": 1e6, "ms": 1e6, "second": 1e9, "s": 1e9,
    "sec": 1e9, "minute": 60e9, "hour": 3600e9,
}  # fmt: skip
_PREFIXES = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
# What a prefix may stand before, and what goes without one.
_SCALED = "byte|hz|inst|sector|cycle|request|warp|thread|block|wavefront|flop|op"
_PLAIN = {"", "%", "inst", "register", "sectors", "pass", "sample", "branches", "blocks", "warps", "bytes", "SM", "us/1"}  # fmt: skip
_WORD = re.compile(rf"([KMGT]?)(?:{_SCALED})s?\Z", re.IGNORECASE)


def factor(unit: str) -> float | None:
    """What a value in this unit is multiplied with: to ns, byte, hz, or per second; None where it is not known."""
    top, slash, below = unit.strip().partition("/")
    upper = _factor_of_word(top)
    if upper is None or not slash:
        return upper
    if below in _TIMES:  # a rate: per second
        return upper * 1e9 / _TIMES[below]
    return upper if _factor_of_word(below) == 1.0 else None


def _factor_of_word(word: str) -> float | None:
    if word in _TIMES or word in _PLAIN:
        return _TIMES.get(word, 1.0)
    found = _WORD.match(word)
    return _PREFIXES[found[1].upper()] if found else None
