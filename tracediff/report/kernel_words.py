"""Kernels that were asked for by name, in words and tables, for every output."""

from __future__ import annotations

import math

from msgspec.structs import replace

from tracediff.kernels.names import short
from tracediff.model import KernelAnswer, KernelRow, KernelTypical, Result
from tracediff.report import causes as titles
from tracediff.report import launch_words, measured, names, units, words
from tracediff.report.document import Code, Number, Span, Table, TableOf
from tracediff.report.rows import kernels_by_phase

NOT_RECORDED = "not recorded"


def with_answers(result: Result) -> Result:
    """The result with the sentences of its answers."""
    return replace(
        result, kernel_answers=[replace(one, text=sentence(result, one)) for one in result.kernel_answers]
    )


def sentence(result: Result, one: KernelAnswer) -> str:
    """Say `gemm takes 12.9 us more per mean step (132 -> 145 us, +9.8 %), likely: 16.2 launches, 8.17 -> 8.97 us each`."""
    name, unit, mean = _name(result, one), words.unit(result), _mean_step(result)
    prose, each = (
        units.prose([one.baseline_ns, one.candidate_ns]),
        units.prose([one.baseline_mean_ns, one.candidate_mean_ns]),
    )
    before, after = units.count(one.baseline_count), units.count(one.candidate_count)
    if not one.baseline_count or not one.candidate_count:
        new = bool(one.candidate_count)
        count, ns = (one.candidate_count, one.candidate_ns) if new else (one.baseline_count, one.baseline_ns)
        text = f"{name} is {'new' if new else 'gone'}: {prose.size(ns)} per {mean} in {_launches(count)}"
        return f"{text}, {each.size(one.candidate_mean_ns if new else one.baseline_mean_ns)} each."
    both = f"{_both_sizes(prose, one.baseline_ns, one.candidate_ns)} per {unit}"
    launches = (
        f"{_launches(one.baseline_count)} per {unit}"
        if before == after
        else f"{before} -> {after} launches per {unit}"
    )
    took = f"{launches}, {_both_sizes(each, one.baseline_mean_ns, one.candidate_mean_ns)} each"
    if one.level == "within_noise":
        return f"The change of {name} is within noise: {both}; {took}."
    change = units.change(one.delta_ns, one.baseline_ns)
    how = f"{prose.size(one.delta_ns)} {'more' if one.delta_ns > 0 else 'less'} per {mean}"
    return f"{name} takes {how} ({both}, {change}), {words.LEVELS[one.level][0]}: {took}."


def _mean_step(result: Result) -> str:
    """An answer counts all compared steps, rare ones too."""
    unit = words.unit(result)
    return f"mean {unit}" if unit == "step" else unit


def _both_sizes(prose: units.Prose, before: float, after: float) -> str:
    """`132 -> 145 us`; where both are written alike, once."""
    numbers = (units.three_digits(ns / prose.factor) for ns in (before, after))
    return f"{units.arrow(numbers)} {prose.unit}"


def _launches(count: float) -> str:
    many = units.count(count)
    return f"{many} launch{'' if many == '1' else 'es'}"


def _name(result: Result, one: KernelAnswer) -> str:
    """The kernel; of several how many there are."""
    rows = [result.kernels[at] for at in one.rows]
    said = list(dict.fromkeys(names.kernel(row, width=120) for row in rows))
    if len(said) == 1 and one.partly:
        return one.asked
    return said[0] if len(said) == 1 else f"{one.asked} ({len(said)} kernels)"


def notes(result: Result, one: KernelAnswer) -> list[str]:
    """What no table says."""
    texts = []
    if one.baseline_hidden_ns > 0.5 or one.candidate_hidden_ns > 0.5:
        prose = units.prose([one.baseline_hidden_ns, one.candidate_hidden_ns])
        hidden = _both_sizes(prose, max(one.baseline_hidden_ns, 0.0), max(one.candidate_hidden_ns, 0.0))
        texts.append(
            f"Hidden behind other GPU work: {hidden} per {_mean_step(result)}; the times above are exposed."
        )
    else:
        texts.append("All of its time is exposed: no other GPU work runs beside it.")
    if one.partly:
        many = "One row holds" if len(one.partly) == 1 else f"{len(one.partly)} rows hold"
        texts.append(
            f"{many} other kernels too. The sentence counts the kernels of the name alone; the tables have the time of the whole row."
        )
    elif any(
        len(side.names) > 1
        for at in one.rows
        for side in (result.kernels[at].baseline, result.kernels[at].candidate)
        if side
    ):
        texts.append("A row of several kernels has the time of all of them.")
    return texts


def tables(result: Result, one: KernelAnswer) -> list[Table]:
    """By phase, by match and launch shape, and who launches it."""
    rows, unit = [result.kernels[at] for at in one.rows], words.unit(result)
    phases = TableOf(
        f"Typical {unit} by phase" if unit == "step" else f"Each {unit}",
        ("Phase", "Launches", "Baseline, {}", "Candidate, {}", "Change, {}", "Certainty"),
        "pffffp",
        one.phases,
        lambda row, s: [
            row.phase if unit == "step" else unit, _both(row.baseline_count, row.candidate_count), s.number(row.baseline_ns), s.number(row.candidate_ns),
            s.interval(row.delta_ns, row.ci_low_ns, row.ci_high_ns), words.LEVELS[one.level if result.launched else row.level][0],
        ],
        "kernel_answers.phases",
        lambda row: [row.baseline_ns, row.candidate_ns],
    )  # fmt: skip
    shapes = TableOf(
        f"Mean {unit} by match and grid",
        ("Kernel", "Match", "Grid", "Launches", "Baseline, {}", "Candidate, {}", "Change, {}", "Certainty"),
        "nppffffp",
        rows,
        lambda row, s: [
            names.kernel(row, width=100), f"{row.match} {row.confidence:.2f}", _grids(row), _both(*_counts(row)),
            *(("-" if side is None else s.number(side.ns_per_step)) for side in (row.baseline, row.candidate)),
            s.signed(row.delta_ns), words.LEVELS[row.level][0],
        ],
        "kernels",
        lambda row: [side.ns_per_step for side in (row.baseline, row.candidate) if side],
    )  # fmt: skip
    origins = TableOf(
        "Launched by",
        ("Range", "Thread", "Call", "Baseline", "Candidate"),
        "nnnff",
        one.origins,
        lambda row, s: [
            row.range or NOT_RECORDED, row.thread or NOT_RECORDED, row.api or NOT_RECORDED,
            units.share(row.baseline_share), units.share(row.candidate_share),
        ],
        "kernel_answers.origins",
    )  # fmt: skip
    return [table.first(12) for table in (phases, shapes, origins) if table.rows]


def _both(before: float, after: float) -> str:
    return units.arrow((units.count(before), units.count(after)))


def _counts(row: KernelRow) -> tuple[float, float]:
    one, other = ((side.count_per_step if side else 0.0) for side in (row.baseline, row.candidate))
    return one, other


def _grids(row: KernelRow) -> str:
    """The grids of both sides, of several the first."""
    sides = [
        side.grids[0] + (" ..." if len(side.grids) > 1 else "")
        for side in (row.baseline, row.candidate)
        if side and side.grids
    ]
    return units.arrow(sides) or "-"


def most_changed(result: Result, top: int, width: int | None = None) -> Table | None:
    """The kernels that changed most, else those that no test speaks of; by their launches where they were judged so.

    None where there are none. `width`: of a name.
    """
    if launch_words.by_launch(result):
        return launch_words.table(result, top, width or 112)
    of = kernels_by_phase(result)[0]
    rows = [row for row in of.rows if words.tested_level(row) != "within_noise"]
    rows = [row for row in rows if row.level != "within_noise"] or rows
    shown = rows[:top]
    if not shown:
        return None
    sides = [side for row in shown for side in (row.baseline, row.candidate) if side]
    scale = units.scale_for([side.ns_per_step for side in sides] + [row.delta_ns for row in shown])
    layer = ["Layer"] if result.layers else []
    cells: list[list[Span]] = [
        [Code(name), _match(row), *[Code(measured.layers_of(row)) for _ in layer], *map(Number, _figures(row, scale))]
        for row, name in zip(shown, names.kernels(shown, width=width), strict=True)
    ]  # fmt: skip
    per = words.per_step(of.phase, unit=words.unit(result))
    heads = ["Kernel", "Match", *layer, "Count", "Base", "Cand", "Delta", "Change"]
    title = f"Kernels that {_did(result, of.rows)} ({scale.unit} {per})"
    return Table(heads, cells, title, len(of.rows) - len(shown), "kernels")


def _figures(row: KernelRow, scale: units.Scale) -> list[str]:
    """Count, time of each side, difference and percentage."""
    times = [scale.number(side.ns_per_step) if side else "-" for side in (row.baseline, row.candidate)]
    base = row.baseline.ns_per_step if row.baseline else 0.0
    delta = units.delta(scale, row.delta_ns, base, words.tested_level(row))
    return [_both(*_counts(row)), *times, delta.signed, delta.percent]


def _did(result: Result, rows: list[KernelRow]) -> str:
    """What the rows with the largest differences are: of one side alone, changed, within noise, or never tested."""
    sides = (("baseline", result.coverage.baseline), ("candidate", result.coverage.candidate))
    recorded = [name for name, kinds in sides if kinds.get("kernels") != "not_captured"]
    if len(recorded) == 1:
        return f"were recorded on the {recorded[0]} only"
    levels = {words.tested_level(row) for row in rows}
    if levels - {"within_noise", None}:
        return "changed most"
    if "within_noise" in levels:
        return "differ most, all within noise"
    if any(phase.judged for phase in result.phases):
        return "differ most; not tested, as they depend on the shapes of the steps"
    return "differ most; the steps are too few to test them"


def _match(row: KernelRow) -> str:
    return row.match if row.match in ("exact", "added", "removed") else f"{row.match} {row.confidence:.2f}"


def none_changed(result: Result) -> str:
    """Say that no kernel changed of which that is known, and how many may have."""
    tested = sum(_narrow(row) for row in result.kernels)
    untested = len(result.kernels) - tested
    if not tested:
        return "Kernels: not tested."
    return f"No change in {units.counted(tested, 'kernel row')}{f'; {untested:,} not tested' if untested else ''}."


_NARROW = 0.05  # of the kernel: a row with a wider interval may have changed unseen


def _narrow(row: KernelRow) -> bool:
    """Whether a change of the row would have been seen."""
    longest = max(side.ns_per_step for side in (row.baseline, row.candidate) if side)
    half = (row.ci_high_ns - row.ci_low_ns) / 2
    return words.tested_level(row) is not None and half <= _NARROW * longest


# Launches that differ in every step, though their time is within noise.

_MATCHED = {"added": "{after} added", "removed": "{before} removed"}
_SAID = 3


def recounted(result: Result) -> str:
    """Say `Kernels: 2 GEMMs fused into 1 (16 -> 8 launches per generation step); their time ..., within noise.`; '' of none.

    Of one phase; kernels whose time changed beyond noise are told as causes.
    """
    if result.verdict == "not_comparable":
        return ""
    found: dict[str, list[tuple[KernelRow, KernelTypical]]] = {}
    for row in result.kernels:
        for one in row.phases:
            if one.level == "within_noise" and (one.counted or row.block >= 0):
                found.setdefault(one.phase, []).append((row, one))
    # the phase that the verdict is of before the others
    for phase in sorted(result.phases, key=lambda one: one.phase != result.verdict_facts.phase):
        rows = found.get(phase.phase, [])
        moved = [(row, one) for row, one in rows if one.counted]
        if moved:
            break
    else:
        return ""
    blocks = {row.block for row, _ in moved} - {-1}
    beside = [(row, one) for row, one in rows if not one.counted and row.block in blocks]
    delta = math.fsum(one.delta_ns for _, one in moved + beside)
    per = words.per_step(phase.phase if len(result.phases) > 1 else "", unit=words.unit(result))
    said = [
        f"{_changed(row, one)} ({units.count(one.baseline_count)} -> {units.count(one.candidate_count)} launches {per})"
        for row, one in moved[:_SAID]
    ]
    if len(moved) > _SAID:
        said.append(f"{len(moved) - _SAID} more rows")
    time = units.prose([delta]).signed(delta)
    others = titles.joined(list(dict.fromkeys(_names(row)[0] or _names(row)[1] for row, _ in beside)))
    of = f"together with {others}, which changed beside them, " if others else ""
    return f"Kernels: {', '.join(said)}; {of}their time changed by {time} {per}, within noise."


def _names(row: KernelRow) -> tuple[str, str]:
    """The kernels of a row on both sides as a sentence names them; empty of none."""
    before, after = (
        titles.joined(list(dict.fromkeys(titles.spoken(short(name, 60)) for name in side.names)))
        if side
        else ""
        for side in (row.baseline, row.candidate)
    )
    return before, after


def _changed(row: KernelRow, one: KernelTypical) -> str:
    """`2 GEMMs fused into 1`, `mul and silu fused into triton_silu`, `GEMM launched less often`."""
    before, after = _names(row)
    if row.match in _MATCHED:
        return _MATCHED[row.match].format(before=before, after=after)
    if row.match not in ("fused", "split"):
        often = "more" if one.candidate_count > one.baseline_count else "less"
        return f"{after or before} launched {often} often"
    times = (
        one.baseline_count / one.candidate_count
        if row.match == "fused"
        else one.candidate_count / one.baseline_count
    )
    verb = "fused into" if row.match == "fused" else "split into"
    if before != after or times != round(times):
        return f"{before} {verb} {after}"
    many = f"{times:.0f} {before}s"
    return f"{many} {verb} 1" if row.match == "fused" else f"1 {before} {verb} {times:.0f}"
