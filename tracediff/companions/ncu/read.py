"""What Nsight Compute measured, from any of its files: a report (.ncu-rep) or the CSV of `ncu --csv`."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from tracediff.errors import TracediffError
from tracediff.formats.selection import own_label

# Units of Nsight Compute's output to one form: ns, byte, per second, and every other unit unscaled.

_TIMES = {
    "nsecond": 1.0, "ns": 1.0, "usecond": 1e3, "us": 1e3, "msecond": 1e6, "ms": 1e6, "second": 1e9, "s": 1e9,
    "sec": 1e9, "minute": 60e9, "hour": 3600e9,
}  # fmt: skip
_PREFIXES = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
# What a prefix may stand before, and what goes without one.
_SCALED = (
    "byte",
    "hz",
    "inst",
    "sector",
    "cycle",
    "request",
    "warp",
    "thread",
    "block",
    "wavefront",
    "flop",
    "op",
)
_PLAIN = frozenset(
    {
        "",
        "%",
        "inst",
        "register",
        "sectors",
        "pass",
        "sample",
        "branches",
        "blocks",
        "warps",
        "bytes",
        "SM",
        "us/1",
    }
)
_WORD = re.compile(rf"([KMGT]?)({'|'.join(_SCALED)})s?\Z", re.IGNORECASE)
# One number: digits, perhaps in groups of three, perhaps with a fraction or an exponent.
_NUMBER = re.compile(r"[-+]?(?:\d+|\d{1,3}(?:,\d{3})+)(?:\.\d+)?(?:[eE][-+]?\d+)?\Z")
# `1,5` or `1.234,5`: a decimal comma, of a machine with another locale.
_DECIMAL_COMMA = re.compile(
    r"[-+]?\d[\d.]*,(?:\d{1,2}|\d{4,})\Z|[-+]?\d{1,3}(?:\.\d{3})+,\d+\Z|[-+]?\d{1,3}(?:\.\d{3}){2,}\Z"
)


def factor(unit: str) -> float | None:
    """What a value in this unit is multiplied with: to ns, byte, hz, or per second; None where it is not known."""
    top, slash, below = unit.strip().partition("/")
    upper = _factor_of_word(top)
    if upper is None:
        return None
    if not slash:
        return upper
    if below in _TIMES:  # a rate: per second
        return upper * 1e9 / _TIMES[below]
    return upper if _factor_of_word(below) == 1.0 else None


def _factor_of_word(word: str) -> float | None:
    if word in _TIMES:
        return _TIMES[word]
    if word in _PLAIN:
        return 1.0
    found = _WORD.match(word)
    if found is None:
        return None
    return _PREFIXES[found[1].upper()]


def number(text: str) -> float | None:
    """Read a number as `ncu` writes it; None where it is not one (`n/a`, a name)."""
    text = text.strip()
    if not _NUMBER.match(text):
        return None
    return float(text.replace(",", ""))


def decimal_comma(text: str) -> bool:
    """Tell whether the text is a number that only a locale with a decimal comma writes."""
    return _DECIMAL_COMMA.match(text.strip()) is not None


# What is read of a launch that Nsight Compute profiled: key, unit, where it comes from, and how to collect it.

Raw = Mapping[str, float]  # metric of ncu -> value, in the units of ncu_units.py
SECTOR_BYTES = 32  # of L1, L2 and device memory, on every GPU that ncu profiles
STALL_PREFIX = "smsp__average_warps_issue_stalled_"
STALL_SUFFIX = "_per_issue_active.ratio"
OPCODES = "sass__inst_executed_per_opcode"
DEVICE = "device__attribute_display_name"


@dataclass(frozen=True)
class Way:
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


@dataclass(frozen=True)
class Metric:
    """A figure of a launch. `section`: of ncu, holds its metrics; `additive`: launches add up."""

    key: str
    unit: str  # ns | byte | hz | % | count | "" (a ratio)
    section: str
    ways: tuple[Way, ...]
    additive: bool = False


def _same(value: float) -> float:
    return value


def _first(*names: str) -> tuple[Way, ...]:
    return tuple(Way((name,), _same) for name in names)


def _sum(*names: str, times: float = 1.0, optional: tuple[str, ...] = ()) -> Way:
    return Way(names, lambda *values: times * sum(values), optional)


def _ratio(above: str, below: str, times: float = 1.0) -> Way:
    return Way((above, below), lambda a, b: times * a / b if b else None)


def _part(part: str, *rest: str) -> Way:
    """`part` in percent of the sum of all."""
    return Way((part, *rest), lambda *values: 100 * values[0] / sum(values) if sum(values) else None)


_L1 = "l1tex__t_sectors_pipe_lsu_mem_"
_WIDTH = "smsp__sass_inst_executed_op_memory_{}b.sum"
_BPS = "smsp__sass_average_data_bytes_per_sector_mem_global_op_{}.ratio"


def _requests(op: str) -> tuple[Way, ...]:
    return (
        _ratio(
            f"l1tex__t_sectors_pipe_lsu_mem_global_op_{op}.sum",
            f"l1tex__t_requests_pipe_lsu_mem_global_op_{op}.sum",
        ),
        *_first(f"l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_{op}.ratio"),
    )


def _executed(op: str, older: str) -> tuple[Way, ...]:
    return _first(f"smsp__sass_inst_executed_op_{op}.sum", f"sass__inst_executed_{older}")


_PEAK_ncu_metrics = "avg.pct_of_peak_sustained_elapsed"
_SOL, _LAUNCH, _OCC, _SCHED, _WARP = (
    "SpeedOfLight",
    "LaunchStats",
    "Occupancy",
    "SchedulerStats",
    "WarpStateStats",
)
_MEM, _TABLES, _INST, _SOURCE = (
    "MemoryWorkloadAnalysis", "MemoryWorkloadAnalysis_Tables", "InstructionStats", "SourceCounters",
)  # fmt: skip

METRICS: tuple[Metric, ...] = (
    Metric("duration_ns", "ns", _SOL, _first("gpu__time_duration.sum"), additive=True),
    Metric("cycles", "count", _SOL, _first("gpc__cycles_elapsed.max"), additive=True),
    Metric("sm_clock_hz", "hz", _SOL, _first("gpc__cycles_elapsed.avg.per_second", "sm__cycles_elapsed.avg.per_second")),
    Metric("dram_clock_hz", "hz", _SOL, _first("dram__cycles_elapsed.avg.per_second")),
    Metric("compute_pct", "%", _SOL, _first(f"sm__throughput.{_PEAK_ncu_metrics}")),
    Metric("memory_pct", "%", _SOL, _first(f"gpu__compute_memory_throughput.{_PEAK_ncu_metrics}")),
    Metric("dram_pct", "%", _SOL, _first(f"gpu__dram_throughput.{_PEAK_ncu_metrics}", f"dram__throughput.{_PEAK_ncu_metrics}")),
    Metric("l2_pct", "%", _SOL, _first(f"lts__throughput.{_PEAK_ncu_metrics}")),
    Metric("l1_pct", "%", _SOL, _first("l1tex__throughput.avg.pct_of_peak_sustained_active")),
    Metric("theoretical_occupancy_pct", "%", _OCC, _first("sm__maximum_warps_per_active_cycle_pct")),
    Metric("achieved_occupancy_pct", "%", _OCC, _first("sm__warps_active.avg.pct_of_peak_sustained_active")),
    Metric("limit_registers", "count", _OCC, _first("launch__occupancy_limit_registers")),
    Metric("limit_shared_mem", "count", _OCC, _first("launch__occupancy_limit_shared_mem")),
    Metric("limit_warps", "count", _OCC, _first("launch__occupancy_limit_warps")),
    Metric("limit_blocks", "count", _OCC, _first("launch__occupancy_limit_blocks")),
    Metric("limit_barriers", "count", _OCC, _first("launch__occupancy_limit_barriers")),
    Metric("waves_per_sm", "", _LAUNCH, _first("launch__waves_per_multiprocessor")),
    Metric("grid_blocks", "count", _LAUNCH, _first("launch__grid_size")),
    Metric("block_threads", "count", _LAUNCH, _first("launch__block_size")),
    Metric("registers_per_thread", "count", _LAUNCH, _first("launch__registers_per_thread")),
    Metric("shared_static_bytes", "byte", _LAUNCH, _first("launch__shared_mem_per_block_static")),
    Metric("shared_dynamic_bytes", "byte", _LAUNCH, _first("launch__shared_mem_per_block_dynamic")),
    Metric("sms", "count", _LAUNCH, _first("launch__sm_count", "device__attribute_multiprocessor_count")),
    Metric("active_warps", "count", _SCHED, _first("smsp__warps_active.avg.per_cycle_active")),
    Metric("eligible_warps", "count", _SCHED, _first("smsp__warps_eligible.avg.per_cycle_active")),
    # The CSV writes the percentage with more digits than the ratio.
    Metric("issued_per_cycle", "", _SCHED, (
        _sum("smsp__issue_active.avg.pct_of_peak_sustained_active", times=0.01),
        *_first("smsp__issue_active.avg.per_cycle_active"))),
    Metric("warp_cycles_per_issue", "count", _WARP, _first("smsp__average_warp_latency_per_inst_issued.ratio")),
    Metric("threads_per_instruction", "count", _WARP, _first("smsp__thread_inst_executed_per_inst_executed.ratio")),
    Metric("dram_read_bytes", "byte", _TABLES, _first("dram__bytes_read.sum"), additive=True),
    Metric("dram_write_bytes", "byte", _TABLES, _first("dram__bytes_write.sum"), additive=True),
    Metric("l2_bytes", "byte", _TABLES,
           (*_first("lts__t_bytes.sum"), _sum("lts__t_sectors.sum", times=SECTOR_BYTES)), additive=True),
    Metric("l1_bytes", "byte", _TABLES,
           (_sum(f"{_L1}global_op_ld.sum", f"{_L1}global_op_st.sum", times=SECTOR_BYTES,
                 optional=(f"{_L1}local_op_ld.sum", f"{_L1}local_op_st.sum")),), additive=True),
    Metric("l2_hit_pct", "%", _MEM, _first("lts__t_sector_hit_rate.pct")),
    Metric("l1_hit_pct", "%", _MEM, _first("l1tex__t_sector_hit_rate.pct")),
    Metric("load_sectors_per_request", "", _TABLES, _requests("ld")),
    Metric("store_sectors_per_request", "", _TABLES, _requests("st")),
    Metric("load_bytes_per_sector", "", _TABLES, _first(_BPS.format("ld"))),
    Metric("store_bytes_per_sector", "", _TABLES, _first(_BPS.format("st"))),
    Metric("sector_efficiency_pct", "%", _SOURCE,
           (_ratio("memory_l2_theoretical_sectors_global_ideal", "memory_l2_theoretical_sectors_global", 100.0),)),
    Metric("bank_conflict_pct", "%", _TABLES,
           (_ratio("l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
                   "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum", 100.0),)),
    Metric("instructions", "count", _INST, _first("smsp__inst_executed.sum", "inst_executed"), additive=True),
    Metric("tensor_pct", "%", "ComputeWorkloadAnalysis", _first(
        "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
        "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active")),
    Metric("wide_access_pct", "%", _SOURCE,
           (_part(_WIDTH.format(128), *(_WIDTH.format(bits) for bits in (64, 32, 16, 8))),)),
    Metric("global_loads", "count", _SOURCE, _executed("global_ld", "global_loads"), additive=True),
    Metric("global_stores", "count", _SOURCE, _executed("global_st", "global_stores"), additive=True),
    Metric("shared_loads", "count", _SOURCE, _executed("shared_ld", "shared_loads"), additive=True),
    Metric("shared_stores", "count", _SOURCE, _executed("shared_st", "shared_stores"), additive=True),
    Metric("local_loads", "count", _SOURCE, _executed("local_ld", "local_loads"), additive=True),
    Metric("local_stores", "count", _SOURCE, _executed("local_st", "local_stores"), additive=True),
    Metric("spill_instructions", "count", _SOURCE,
           (*_first("sass__inst_executed_register_spilling"), *_first("derived__local_spilling_requests")),
           additive=True),
)  # fmt: skip

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
        for way in metric.ways:
            value = way(raw)
            if value is not None:
                found[metric.key] = value
                break
    return found


def stalls(raw: Raw) -> dict[str, float]:
    """Warp state -> cycles an issued instruction; `selected` is the issue itself and no stall."""
    cut = len(STALL_PREFIX), -len(STALL_SUFFIX)
    return {
        name[cut[0] : cut[1]]: value
        for name, value in sorted(raw.items())
        if name.startswith(STALL_PREFIX) and name.endswith(STALL_SUFFIX) and math.isfinite(value)
    }


MAGIC: bytes = b"NVR\x00"
EXPORT = "ncu --import FILE.ncu-rep --csv --page raw > FILE.csv"


@dataclass(frozen=True)
class Launch:
    """One profiled launch. `values`, `stalls`: see ncu_metrics.py; `opcodes`: SASS opcode -> warp instructions."""

    name: str
    grid: str  # 'x,y,z', '' where it is not in the file
    block: str
    values: dict[str, float]
    stalls: dict[str, float] = field(default_factory=dict)
    opcodes: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Profile:
    """All launches of one file, in the order in which they were profiled."""

    file: str  # base name, or the label that was given
    source: str  # report | csv-raw | csv-details
    device: str  # GPU model, '' where it is not in the file
    launches: tuple[Launch, ...]


def launch(
    name: str,
    raw: Mapping[str, float],
    grid: str = "",
    block: str = "",
    opcodes: dict[str, float] | None = None,
) -> Launch:
    """Make a launch of its metrics; grid and block from the metrics where they are not given."""
    return Launch(
        name,
        grid or _shape(raw, "grid"),
        block or _shape(raw, "block"),
        values(raw),
        stalls(raw),
        opcodes or {},
    )


def _shape(raw: Mapping[str, float], kind: str) -> str:
    sizes = [raw.get(f"launch__{kind}_dim_{axis}") for axis in "xyz"]
    return ",".join(str(int(size)) for size in sizes if size is not None) if None not in sizes else ""


def shape(text: str) -> str:
    """Write a shape of the CSV, `(132, 1, 1)`, as `132,1,1`; '' where it is none."""
    sizes = re.findall(r"\d+", text)
    return ",".join(sizes) if len(sizes) == 3 else ""


def read_named(word: str) -> Profile:
    """Read a file that a word of the command line names; `label=PATH` gives it the label in place of its name."""
    label, path = own_label(word)
    profile = read(Path(path))
    return profile if label is None else replace(profile, file=label)


def read(path: Path) -> Profile:
    """Read a file by what it holds, whatever its name.

    Raises `TracediffError`: ncu-no-file, ncu-unknown-file, ncu-empty, other-input, and those of ncu_csv and ncu_report.
    """
    from tracediff.companions.ncu.report_file import read_report

    try:
        with path.open("rb") as file:
            head = file.read(65536)
    except OSError as error:
        what, fix = str(error.strerror or error), "check the path"
        if path.is_dir():
            what, fix = "a folder, and a profile is one file", "name the .ncu-rep or .csv in it"
        raise TracediffError("ncu-no-file", f"{path}: {what}", fix=fix) from error
    if not head.strip():
        raise TracediffError("ncu-empty", f"{path.name} is empty", fix=EXPORT)
    if head.startswith(MAGIC):
        profile = read_report(path)
    elif b'"ID"' in head or b"==PROF==" in head:
        profile = read_csv(path)
    else:
        from tracediff.formats.recognise import refuse_other

        refuse_other(path, lambda kind: kind.slug.startswith("ncu-"), "no profile of Nsight Compute")
        raise TracediffError(
            "ncu-unknown-file",
            f"{path.name} is neither a report of Nsight Compute (.ncu-rep) nor what `ncu --csv` prints",
            fix=EXPORT,
        )
    if not profile.launches:
        raise TracediffError(
            "ncu-empty",
            f"{path.name} holds no profiled kernel",
            fix="check what ncu printed: `No kernels were profiled`, or a missing permission (ERR_NVGPUCTRPERM)",
        )
    return profile


# Labels of ncu's details page to the metrics behind them.

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


# The CSV of `ncu --csv`: `--page raw`, a column a metric, and `--page details`, a row a metric.

_FIELD = 1 << 26  # characters of one cell: instances of a metric can be many
_LEAST = ("ID", "Kernel Name")
_RAW_LEADS = frozenset({
    "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Kernel Time", "Context", "Stream", "Block Size",
    "Grid Size", "Device", "CC", "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg",
})  # fmt: skip


@dataclass
class _Rows:
    """One launch of the details page, while its rows come in."""

    name: str
    grid: str
    block: str
    raw: dict[str, float] = field(default_factory=dict)


def read_csv(path: Path) -> Profile:
    """Read the page, whichever it is.

    Raises `TracediffError`: ncu-csv-shape, ncu-csv-numbers, ncu-csv-unit.
    """
    csv.field_size_limit(_FIELD)
    with path.open("rb") as binary:
        binary.seek(-1, 2)
        if binary.read() not in (b"\n", b"\r"):
            raise _shape_ncu_csv(path, "its last line does not end: cut short?")
    try:
        with path.open(encoding="utf-8", errors="replace", newline="") as file:
            rows = _rows(file)
            header = next(rows, None)
            if header is None or any(name not in header for name in _LEAST):
                raise _shape_ncu_csv(path, "there is no header with ID and Kernel Name")
            if "Metric Name" in header and "Metric Value" in header:
                return _details(path, header, rows)
            if "Metric Name" in header:
                raise _shape_ncu_csv(
                    path, "it is a summary over launches (--print-summary), which has no values of a launch"
                )
            return _raw(path, header, rows)
    except csv.Error as error:
        raise _shape_ncu_csv(path, f"it is no CSV: {error}") from error


def _shape_ncu_csv(path: Path, why: str) -> TracediffError:
    return TracediffError(
        "ncu-csv-shape",
        f"{path.name} is not a page of `ncu --csv` that can be compared: {why}",
        fix=EXPORT,
    )


def _rows(file: Iterator[str]) -> Iterator[list[str]]:
    """Rows from the header on: what ncu and the program printed before it is passed over, as are ncu's own lines."""
    begun = False

    def lines() -> Iterator[str]:
        nonlocal begun
        for line in file:
            begun = begun or line.startswith('"ID"')
            if begun and line.strip() and not line.startswith("=="):
                yield line

    yield from csv.reader(lines())


def _raw(path: Path, header: list[str], rows: Iterator[list[str]]) -> Profile:
    at = {name: column for column, name in enumerate(header)}
    if not any("__" in name for name in header if name not in _RAW_LEADS):
        raise _shape_ncu_csv(path, "its columns are no metrics")
    units = next(rows, [])
    if len(units) != len(header) or units[at["ID"]].strip():
        raise _shape_ncu_csv(path, "the row of units under the header is missing")
    columns = [(name, column) for name, column in at.items() if wanted(name)]
    factors = {column: _factor(path, name, units[column]) for name, column in columns}
    launches: list[Launch] = []
    device = ""
    for cells in rows:
        if len(cells) != len(header):
            raise _shape_ncu_csv(
                path,
                f"launch {len(launches)} has {len(cells)} cells under a header of {len(header)}: cut short?",
            )
        raw = {}
        for name, column in columns:
            value = _number(path, name, cells[column])
            if value is not None:
                raw[name] = value * factors[column]
        launches.append(
            launch(
                cells[at["Kernel Name"]],
                raw,
                shape(cells[at["Grid Size"]]) if "Grid Size" in at else "",
                shape(cells[at["Block Size"]]) if "Block Size" in at else "",
            )
        )
        if DEVICE in at:
            device = device or cells[at[DEVICE]]
    return Profile(path.name, "csv-raw", device, tuple(launches))


def _details(path: Path, header: list[str], rows: Iterator[list[str]]) -> Profile:
    at = {name: column for column, name in enumerate(header)}
    least = 1 + max(at[name] for name in ("ID", "Kernel Name", "Metric Name", "Metric Value"))
    found: dict[str, _Rows] = {}
    for cells in rows:
        if len(cells) < least or not cells[at["ID"]].isdigit():
            continue  # tables of --print-details all that belong to no launch
        key = cells[at["ID"]]
        if key not in found:
            found[key] = _Rows(
                cells[at["Kernel Name"]],
                shape(cells[at["Grid Size"]]) if "Grid Size" in at else "",
                shape(cells[at["Block Size"]]) if "Block Size" in at else "",
            )
        label, unit = cells[at["Metric Name"]], cells[at["Metric Unit"]] if "Metric Unit" in at else ""
        name = metric_of(cells[at["Section Name"]] if "Section Name" in at else "", label, unit)
        if name is None or not wanted(name) or name in found[key].raw:
            continue
        value = _number(path, label, cells[at["Metric Value"]])
        if value is not None:
            found[key].raw[name] = value * _factor(path, label, unit)
    launches = tuple(launch(one.name, one.raw, one.grid, one.block) for one in found.values())
    return Profile(path.name, "csv-details", "", launches)


def _factor(path: Path, name: str, unit: str) -> float:
    found = factor(unit)
    if found is None:
        raise TracediffError(
            "ncu-csv-unit",
            f"{path.name}: the unit {unit[:40]!r} of {name} is not known",
            fix="export it with --print-units base",
        )
    return found


def _number(path: Path, name: str, text: str) -> float | None:
    """The value of a cell; with instances, `5916528 (1125008; ...)`, that before them."""
    text = text.partition(" (")[0].strip()
    found = number(text)
    if found is None and decimal_comma(text):
        raise TracediffError(
            "ncu-csv-numbers",
            f"{path.name}: {name} is {text[:40]!r}: numbers with a decimal comma cannot be told from thousands",
            fix=f"LC_ALL=C {EXPORT}",
        )
    return found
