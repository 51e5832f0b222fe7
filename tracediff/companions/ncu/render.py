"""Kernels compared by their counters as text: figures and sentences, on a terminal, in Markdown, on a page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from rich.console import Console

from tracediff.companions import words as text
from tracediff.companions.model import Ncu, NcuKernel, NcuRow, NcuSide
from tracediff.companions.ncu.metrics import BY_KEY
from tracediff.companions.ncu.reasons import bound as bound_of
from tracediff.companions.ncu.reasons import limits
from tracediff.report import names, units
from tracediff.report.console import print_heading, print_line, print_table
from tracediff.report.escape import shorten
from tracediff.report.tables import LIMIT

STYLE = "ncu.css"
_COLOURS = {"slower": "red", "faster": "green", "added": "yellow", "removed": "yellow"}
_PRINTED, UNFOLDED = 2, 10  # rows whose figures are on the terminal, and in Markdown
NONE = "not collected"
APART = "does not add up"
SAME = "same"
BOUNDS = {
    "compute": "compute",
    "memory": "memory",
    "compute_and_memory": "compute and memory",
    "latency": "latency",
}
LIMITS = {"grid": "grid (less than one wave)", "registers": "registers", "shared_mem": "shared memory",
          "warps": "warps", "blocks": "blocks", "barriers": "barriers"}  # fmt: skip
CHANGES = {"faster": "faster", "slower": "slower", "no_clear_change": "no clear change", "added": "added",
           "removed": "removed", "not_collected": "not collected"}  # fmt: skip
TONES = {"faster": "faster", "slower": "slower"}
GROUPS: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    ("Time and throughput", (
        ("duration_ns", "duration"), ("cycles", "elapsed cycles"), ("sm_clock_hz", "SM clock"), ("dram_clock_hz", "DRAM clock"),
        ("compute_pct", "compute throughput, of peak"), ("memory_pct", "memory throughput, of peak"),
        ("dram_pct", "DRAM throughput, of peak"), ("l2_pct", "L2 throughput, of peak"), ("l1_pct", "L1 throughput, of peak"),
        ("tensor_pct", "tensor pipe active"),
    )),
    ("Launch and occupancy", (
        ("grid_blocks", "blocks in the grid"), ("block_threads", "threads a block"), ("waves_per_sm", "waves an SM"), ("sms", "SMs"),
        ("theoretical_occupancy_pct", "theoretical occupancy"), ("achieved_occupancy_pct", "achieved occupancy"),
        ("registers_per_thread", "registers a thread"), ("shared_static_bytes", "shared memory a block, static"),
        ("shared_dynamic_bytes", "shared memory a block, dynamic"), ("limit_registers", "blocks an SM, by registers"),
        ("limit_shared_mem", "blocks an SM, by shared memory"), ("limit_warps", "blocks an SM, by warps"),
        ("limit_blocks", "blocks an SM, by blocks"), ("limit_barriers", "blocks an SM, by barriers"),
    )),
    ("Schedulers", (
        ("active_warps", "active warps a scheduler"), ("eligible_warps", "eligible warps a scheduler"),
        ("issued_per_cycle", "instructions issued a scheduler and cycle"), ("warp_cycles_per_issue", "warp cycles an issued instruction"),
        ("threads_per_instruction", "active threads an instruction"),
    )),
    ("Memory", (
        ("dram_read_bytes", "DRAM read"), ("dram_write_bytes", "DRAM written"), ("l2_bytes", "L2 traffic"), ("l2_hit_pct", "L2 hit rate"),
        ("l1_bytes", "L1 traffic, global and local"), ("l1_hit_pct", "L1 hit rate"),
        ("load_sectors_per_request", "sectors a global load request"), ("store_sectors_per_request", "sectors a global store request"),
        ("load_bytes_per_sector", "bytes used a sector, global loads"), ("store_bytes_per_sector", "bytes used a sector, global stores"),
        ("sector_efficiency_pct", "global sectors needed of those moved"), ("bank_conflict_pct", "bank conflicts of shared-memory wavefronts"),
    )),
    ("Instructions", (
        ("instructions", "warp instructions"), ("global_loads", "global loads"), ("global_stores", "global stores"),
        ("wide_access_pct", "128-bit of the memory instructions"), ("shared_loads", "shared loads"), ("shared_stores", "shared stores"),
        ("local_loads", "local loads"), ("local_stores", "local stores"), ("spill_instructions", "register spills"),
    )),
)  # fmt: skip


@dataclass(frozen=True)
class Figure:
    """A line of a table: both sides and the change as text."""

    label: str
    before: str
    after: str
    change: str


@dataclass(frozen=True)
class Bar:
    """A warp state or a class of instructions: figures, and widths of bars as a part of the widest, 0 to 1."""

    figure: Figure
    widths: tuple[float, float]


def value(key: str, number: float | None) -> str:
    """Write a value of a key."""
    if number is None:
        return NONE
    unit = BY_KEY[key].unit
    if unit == "ns":
        return text.time(number)
    if unit == "byte":
        return text.size(number)
    if unit == "hz":
        return text.clock(number)
    if unit == "%":
        return f"{text.percent(number)} %"
    if number == int(number) and number < 100_000:
        return f"{number:,.0f}"
    return text.count(number)


def change(before: float | None, after: float | None, percentage: bool = False) -> str:
    """Write the change: points of a percentage, percent of anything else."""
    if before is None or after is None:
        return ""
    if before == after:
        return SAME
    if percentage:
        if abs(after - before) < 0.05:
            return SAME
        return f"{after - before:+.{0 if abs(after - before) >= 9.95 else 1}f} points"
    if not before:
        return ""
    return units.percent(after - before, before) if after < 10 * before else text.times(before, after)


def figures(row: NcuRow) -> list[tuple[str, list[Figure]]]:
    """Group -> the figures that one side at least has."""
    have = _have(row)
    found = []
    for title, keys in GROUPS:
        lines = [_figure(label, key, row) for key, label in keys if key in have]
        if lines:
            found.append((title, lines))
    return found


def _values(side: NcuKernel | None) -> dict[str, float]:
    return side.values if side else {}


def _have(row: NcuRow) -> set[str]:
    """Keys that one side at least has, be it a launch's."""
    sides = [side for side in (row.baseline, row.candidate) if side]
    return {key for side in sides for key in (*side.values, *side.per_launch)}


def side_value(side: NcuKernel | None, key: str) -> str:
    """Write a value of a side; of one that is added up, what a launch has."""
    if side is None:
        return ""
    if key in side.values or key not in side.per_launch:
        return value(key, side.values.get(key))
    number = side.per_launch[key]
    return APART if number is None else f"{value(key, number)} a launch"


def _figure(label: str, key: str, row: NcuRow) -> Figure:
    before, after = _values(row.baseline).get(key), _values(row.candidate).get(key)
    return Figure(
        label,
        side_value(row.baseline, key),
        side_value(row.candidate, key),
        change(before, after, BY_KEY[key].unit == "%"),
    )


def missing(row: NcuRow) -> list[str]:
    """Labels of what neither side of the row has."""
    have = _have(row)
    return [label for _, keys in GROUPS for key, label in keys if key not in have]


def stalls(row: NcuRow, limit: int = 8) -> list[Bar]:
    """Warp states with the most cycles on either side."""
    sides = [side.stalls if side else {} for side in (row.baseline, row.candidate)]
    return _bars(
        sides,
        row,
        limit,
        lambda name: name.replace("_", " "),
        lambda cycles: f"{cycles:.{1 if cycles >= 9.95 else 2}f}",
        apart="stalls",
    )


def instructions(row: NcuRow, limit: int = 8) -> list[Bar]:
    """Classes of instructions, most first."""
    sides = [side.instructions if side else {} for side in (row.baseline, row.candidate)]
    return _bars(sides, row, limit, str, text.count)


def _bars(
    sides: Sequence[dict[str, float]],
    row: NcuRow,
    limit: int,
    label: Callable[[str], str],
    write: Callable[[float], str],
    apart: str = "",
) -> list[Bar]:
    names_ = sorted(
        sides[0].keys() | sides[1].keys(),
        key=lambda name: (-max(side.get(name, 0.0) for side in sides), name),
    )
    shown = [name for name in names_ if any(side.get(name, 0.0) > 0 for side in sides)][:limit]
    most = max((side.get(name, 0.0) for side in sides for name in shown), default=0.0)
    # A side with a breakdown has every state and class: what is not in it is 0, not missing.
    pairs = [[side.get(name, 0.0) if side else None for side in sides] for name in shown]
    none = [APART if side and apart in side.per_launch else NONE for side in (row.baseline, row.candidate)]
    words = [
        [write(number) if number is not None else no for number, no in zip(pair, none, strict=True)]
        for pair in pairs
    ]
    return [
        Bar(
            Figure(label(name), said[0] if row.baseline else "", said[1] if row.candidate else "", change(pair[0], pair[1])),
            ((pair[0] or 0.0) / most, (pair[1] or 0.0) / most),
        )
        for name, pair, said in zip(shown, pairs, words, strict=True)
    ]  # fmt: skip


def name(row: NcuRow, width: int | None = None) -> str:
    """Name a row: one name where both sides share it, else both with an arrow; grids where only they differ."""
    one, other = _name(row.baseline), _name(row.candidate)
    grids = [side.grids for side in (row.baseline, row.candidate) if side]
    if one and one == other and grids[0] != grids[1]:
        label = f"{one}, grid {' -> '.join(' '.join(map(_grid, side[:2])) for side in grids)}"
    else:
        label = two(one, other)
    return label if width is None else shorten(label, width)


def _grid(grid: str) -> str:
    return grid.split(",")[0] if grid.endswith(",1,1") else grid.replace(",", "x")


def _name(side: NcuKernel | None) -> str:
    counts: dict[str, int] = {}
    for one in side.names if side else ():
        shown = names.short(one)
        counts[shown] = counts.get(shown, 0) + 1
    return " + ".join(one if times == 1 else f"{times} x {one}" for one, times in counts.items())


def shape(side: NcuKernel) -> str:
    """Grid, block and launches of a side."""
    parts = [
        f"grid {' '.join(side.grids[:4])}" if side.grids else "",
        f"block {' '.join(side.blocks[:4])}" if side.blocks else "",
    ]
    spread = ""
    if side.launches > 1 and side.duration_min_ns is not None and side.duration_max_ns is not None:
        spread = f", {text.time(side.duration_min_ns)} to {text.time(side.duration_max_ns)}"
    return "; ".join(
        [*filter(None, parts), f"{side.launches} launch{'es' if side.launches != 1 else ''} profiled{spread}"]
    )


def bound(side: NcuKernel | None) -> str:
    """What a side is bound by."""
    if side is None:
        return ""
    if not side.per_launch:
        return BOUNDS.get(side.bound or "", NONE)
    of_launch = bound_of(_launch(side))
    return f"{BOUNDS[of_launch]}, a launch" if of_launch else _apart(side, "compute_pct", "memory_pct")


def _launch(side: NcuKernel) -> dict[str, float]:
    return {key: number for key, number in side.per_launch.items() if number is not None}


def _apart(side: NcuKernel, *keys: str) -> str:
    return APART if all(key in side.per_launch for key in keys) else NONE


def limited(side: NcuKernel | None) -> str:
    """What limits the occupancy of a side."""
    if side is not None and side.per_launch:
        of_launch = _launch(side)
        differ = any(number is None for key, number in side.per_launch.items() if key != "stalls")
        if differ or "theoretical_occupancy_pct" not in of_launch:
            return _apart(side, "theoretical_occupancy_pct")
        return f"{_limits(limits(of_launch))}, a launch"
    if side is None or "theoretical_occupancy_pct" not in side.values:
        return "" if side is None else NONE
    return _limits(side.limited_by)


def _limits(found: Sequence[str]) -> str:
    return ", ".join(LIMITS.get(name, name) for name in found) or "nothing: the most warps fit"


def two(before: str, after: str) -> str:
    """Both sides in one cell."""
    return before or after if before == after or not before or not after else f"{before} -> {after}"


def occupancy(row: NcuRow) -> str:
    """Achieved occupancy of both sides."""
    sides = [side_value(side, "achieved_occupancy_pct") for side in (row.baseline, row.candidate)]
    if all(side.endswith(" %") for side in sides):
        return f"{sides[0].removesuffix(' %')} -> {sides[1]}"
    return two(*sides)


def duration(side: NcuKernel | None) -> str:
    """Duration of a side."""
    return "" if side is None else value("duration_ns", side.values.get("duration_ns"))


def percent(row: NcuRow) -> str:
    """Change of the duration."""
    return (
        units.percent(row.delta_ns, row.baseline.values["duration_ns"])
        if row.delta_ns is not None and row.baseline
        else ""
    )


def factors(row: NcuRow) -> str:
    """What the ratio of durations is made of."""
    labels = {
        "instructions": "instructions",
        "cycles_per_instruction": "cycles an instruction",
        "clock": "clock",
    }
    return " x ".join(
        f"{row.factors[key]:.3g} ({label})" for key, label in labels.items() if key in row.factors
    )


def file_line(label: str, side: NcuSide) -> str:
    """What a side's file is."""
    launches, kernels = (
        f"{number} {word}{'' if number == 1 else ending}"
        for number, word, ending in ((side.launches, "launch", "es"), (side.kernels, "kernel", "s"))
    )
    parts = [f"{launches} of {kernels}", side.device]
    return f"{label}: {side.file} ({', '.join(filter(None, parts))})"


def lacks(ncu: Ncu) -> list[str]:
    """What was not collected, and how to collect it; a line a side and option."""
    lines: dict[str, list[str]] = {}
    for word, side in (("baseline", ncu.baseline), ("candidate", ncu.candidate)):
        for group in side.missing:
            what = f"{', '.join(_labels(group.keys))}: collect with ncu {group.collect_with}"
            lines.setdefault(what, []).append(word)
    return [
        f"not collected on {'both sides' if len(sides) > 1 else f'the {sides[0]}'}: {what}"
        for what, sides in lines.items()
    ]


def _labels(keys: Iterable[str]) -> Sequence[str]:
    labels = {key: label for _, group in GROUPS for key, label in group}
    found = [labels.get(key, key) for key in keys]
    return found if len(found) <= 6 else [*found[:5], f"{len(found) - 5} more"]


def gist(ncu: Ncu) -> str:
    """The first sentence in a line of a comment; empty without kernels."""
    return f"Kernels by hardware counters: {headline(ncu)}" if ncu.rows else ""


def headline(ncu: Ncu) -> str:
    """The first sentence: the kernel that changed most, by how much, why, how sure; then how many others changed."""
    row = next((one for one in ncu.rows if one.change in TONES), None)
    if row is None or row.baseline is None or row.candidate is None:
        kernels = f"of {len(ncu.rows)} kernels" if len(ncu.rows) > 1 else "kernel"
        alone = [f"{text} {kind}" for kind in ("added", "removed") if (text := _count(ncu, kind))]
        said = f"No {kernels} is clearly faster or slower" + (f"; {', '.join(alone)}" if alone else "")
        one = ncu.rows[0].sentence.removeprefix("no clear change: ") if len(ncu.rows) == 1 else ""
        return f"{said}: {one}." if one and not alone else f"{said}."
    launches = f"{row.baseline.launches} + {row.candidate.launches} launches"
    together = row.match in (
        "fused",
        "split",
    )  # several kernels in one: their durations are not compared one by one
    spread = None not in (row.baseline.duration_min_ns, row.candidate.duration_min_ns)
    sure = (
        f"the durations of {launches} do not overlap"
        if spread and not together
        else f"{launches} were profiled"
    )
    if min(row.baseline.launches, row.candidate.launches) < 2:
        sure = "one launch on a side, so its spread is not known"
    others = [
        f"{number} more {kind}" for kind in TONES if (number := _count(ncu, kind) - (row.change == kind))
    ]
    more = f" Also {' and '.join(others)}." if others else ""
    return f"{name(row, 100)}{':' if together else ' is'} {row.sentence}; {sure}.{more}"


def _count(ncu: Ncu, change: str) -> int:
    return sum(row.change == change for row in ncu.rows)


def summary(ncu: Ncu) -> str:
    """One line: how many kernels became faster and slower."""
    counts = {key: sum(row.change == key for row in ncu.rows) for key in CHANGES}
    return (
        ", ".join(f"{counts[key]} {words}" for key, words in CHANGES.items() if counts[key]) or "no kernels"
    )


def kernel_notes(ncu: Ncu) -> dict[int, list[tuple[str, str]]]:
    """Row of the step's kernel table -> anchor and sentence of each row here."""
    found: dict[int, list[tuple[str, str]]] = {}
    for number, row in enumerate(ncu.rows):
        if row.kernel is not None:
            found.setdefault(row.kernel, []).append((f"ncu-{number}", row.sentence))
    return found


def print_report(ncu: Ncu, console: Console, top: int) -> None:
    """Print the report of `tracediff ncu`."""
    print_line(console, (headline(ncu), "bold"), indent=0)
    print_line(console, (file_line("baseline", ncu.baseline), "dim"))
    print_line(console, (file_line("candidate", ncu.candidate), "dim"))
    print_section(ncu, console, top)
    shown = [row for row in ncu.rows if row.delta_ns is not None][:_PRINTED]
    for row in shown:
        _print_figures(row, console)
    if len(ncu.rows) > len(shown):
        print_line(console, ("figures of every kernel: --html, --json", "dim"))


def print_section(ncu: Ncu, console: Console, top: int) -> None:
    """Print a sentence for each of the first rows, and what was not collected. The names are neutral already."""
    print_heading(console, "Kernels by hardware counters")
    for row in ncu.rows[:top]:
        print_line(console, (name(row, 100), "bold"))
        print_line(console, (row.sentence, _COLOURS.get(row.change, "")), indent=5, hang=2)
        if row.note:
            print_line(console, ("note: ", "dim"), row.note, indent=5, hang=2)
    if len(ncu.rows) > top:
        print_line(
            console, (f"{len(ncu.rows) - top} more: in the HTML report and the JSON, or with --top", "dim")
        )
    for warning in ncu.warnings[:LIMIT]:
        print_line(console, (f"{warning.slug}: ", "yellow"), warning.message)
    for line in lacks(ncu):
        print_line(console, (line, "yellow"))


def _print_figures(row: NcuRow, console: Console) -> None:
    print_heading(console, name(row, max(40, console.width - 2)))
    lines = [
        ("bound by", bound(row.baseline), bound(row.candidate), ""),
        ("occupancy limited by", limited(row.baseline), limited(row.candidate), ""),
    ]
    for _, group in figures(row):
        lines += [(one.label, one.before, one.after, one.change) for one in group if one.change != SAME]
    for bar in stalls(row, 4):
        lines.append((f"stall: {bar.figure.label}", bar.figure.before, bar.figure.after, bar.figure.change))
    print_table(console, (), lines)
    if row.factors:
        print_line(console, (f"ratio of durations = {factors(row)}", "dim"))


def tone(ncu: Ncu) -> str:
    """The tone of the whole: good or bad where all clear changes are, unsure where they differ."""
    changes = {row.change for row in ncu.rows if row.change in TONES}
    if len(changes) == 2:
        return "unsure"
    return {"faster": "good", "slower": "bad"}[changes.pop()] if changes else "neutral"
