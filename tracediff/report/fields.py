"""Values of a table's rows that are no field of them, by the names that report/columns.txt gives them; and rows that are put together here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from tracediff.model import (
    Change,
    Delta,
    FindingPart,
    GateOutcome,
    KernelRow,
    Pair,
    Phase,
    Result,
    Shares,
    Verdict,
    causes,
)
from tracediff.model.causes import SURELY
from tracediff.model.common import ABSENT, SIDES, Evidence, Interval
from tracediff.model.host import GpuMetricMean, GpuMetricRow, HostRow, PayloadRow
from tracediff.model.kernels import LayerRow, LimitsRow, Reached
from tracediff.model.result import RunInput
from tracediff.model.show import Show
from tracediff.report import kernels, names, palette, show_words, units, words
from tracediff.report.blocks import Cell
from tracediff.report.first import one_capture, unclear_by
from tracediff.report.grammar import say
from tracediff.report.values import Context, Value, number


class Category(msgspec.Struct, frozen=True):
    """A category of a step; a text stands for a time that is not known. of_change: its part of what the step changed by."""

    category: str | Cell
    meaning: str = ""
    baseline_ns: float | str | None = None
    candidate_ns: float | str | None = ABSENT
    delta_ns: float | None = None
    ci_low_ns: float | None = None
    ci_high_ns: float | None = None
    of_change: float | None = None
    level: Evidence | None = None
    hidden_baseline_ns: float | None = None
    hidden_candidate_ns: float | None = ABSENT
    share: float | None = None  # of the step
    sd_ns: float | None = None


def categories(report: Result) -> tuple[list[Category], Category]:
    """The categories in their order, and the whole step."""
    books, step = report.accounting, report.step
    rows = []
    for key in palette.order(set(books.baseline) | set(books.candidate)):
        if key not in books.baseline and key not in books.candidate and key not in words.OPTIONAL:
            continue
        missing = words.unseen(causes.CAUSES[key].needs)
        delta = books.delta.get(key)
        rows.append(
            Category(
                key,
                palette.category(key).meaning,
                books.baseline.get(key, missing),
                books.candidate.get(key, missing),
                delta,
                books.ci_low.get(key) if delta else None,
                books.ci_high.get(key) if delta else None,
                delta / step.delta_ns if delta and step.delta_ns else None,
                books.level.get(key) if delta else None,
                books.hidden_baseline.get(key),
                books.hidden_candidate.get(key),
            )
        )
    noise = step.ci_low_ns <= 0 <= step.ci_high_ns
    whole = Category(
        Cell(words.WHOLE), "", step.baseline_ns, step.candidate_ns, step.delta_ns, step.ci_low_ns, step.ci_high_ns,
        level="within_noise" if noise else None,
    )  # fmt: skip
    return rows, whole


def of_one(report: Show) -> tuple[list[Category], Category]:
    """The same of one capture, those that it holds."""
    step = report.step
    rows = [
        Category(
            row.category,
            "",
            row.ns,
            share=row.share,
            sd_ns=row.sd_ns,
            hidden_baseline_ns=row.hidden_ns or None,
        )
        for row in report.accounting
    ]
    return rows, Category(Cell("step"), "", step.mean_ns, share=1.0, sd_ns=step.sd_ns)


class Both(msgspec.Struct, frozen=True):
    """A figure on both sides, in words."""

    label: str
    baseline: str
    candidate: str = ABSENT


class Trace(msgspec.Struct, frozen=True):
    """A kind of trace: whether a capture has it, and what records it."""

    label: str
    state: str
    flag: str


class Run(msgspec.Struct, frozen=True):
    """A capture and its side."""

    side: str
    run: RunInput
    step_ns: float | None = None


def captures(result: Result) -> list[Run]:
    """The captures of both sides."""
    sides = (("baseline", result.inputs.baseline), ("candidate", result.inputs.candidate))
    return [Run(f"{name}: {side.label}", run) for name, side in sides for run in side.runs]


# The table of phases: the typical step of each phase, its mean where that differs, then the mean of all steps.

_ALONE = {"typical": "typical step", "mean": "mean step", "all": "all steps, mean"}


class PhaseLine(msgspec.Struct, frozen=True):
    """One row; a text is '' where it says nothing of this row.

    time_share, steps, runs: of both sides. first: the first sentence is of it. compared: not where a check forbids a comparison, or both sides are
    one capture: what a repeat would show is not known of one run.
    """

    phase: str
    kind: Literal["typical", "mean", "all"]
    change: Change
    verdict: Verdict | None = None
    level: Evidence | None = None  # None: not tested
    time_share: str = ""
    steps: str = ""
    runs: str = ""
    unjudged: str = ""  # why there is no verdict, or an unclear one though the interval leaves out 0
    first: bool = False
    compared: bool = True
    common: bool = False  # of the kind of step without a name, where others have one

    @property
    def name(self) -> str:
        """What the row is of: `generation, typical`, `typical step` where labels tell no phases, `capture` of whole ones."""
        if self.phase in ("capture", "round"):
            return self.phase
        if self.phase in ("", "step") and not self.common:
            return _ALONE[self.kind]
        phase = say("most_common") if self.common else self.phase
        return f"{phase}, {self.kind}"

    @property
    def delta_ns(self) -> float:
        """What the row changed by."""
        return self.change.delta_ns

    @property
    def measured(self) -> Interval | None:
        """The change with its interval, where it was judged, the first sentences say it, or it says something: not of too few steps, or noise as large as a whole step."""
        change = self.change
        if not isinstance(change, Interval) or (self.unjudged and not self.verdict) or not self.compared:
            return None
        beyond = change.ci_low_ns < -change.baseline_ns or change.ci_high_ns > change.candidate_ns
        said = self.first or self.verdict
        return None if beyond and change.ci_low_ns <= 0 <= change.ci_high_ns and not said else change


def phase_lines(result: Result) -> list[PhaseLine]:
    """Return the rows: the phase that the verdict is of, then those with the most steps, each followed by its mean where that differs; all steps where there are several phases."""
    leads = result.verdict_facts.phase
    ordered = sorted(result.phases, key=lambda one: (one.phase != leads, -one.share))
    out = [line for phase in ordered for line in _of_phase(phase, result)]
    out = [replace(line, common=words.most_common(result, line.phase)) for line in out]
    if words.whole_captures(result):
        # their one row has the verdict of the result, which also weighs whether both did the same amount of work
        out = [
            replace(line, phase=words.unit(result), unjudged="", verdict=line.verdict and result.verdict)
            for line in out
        ]
    step = result.step
    if len({line.phase for line in out}) != 1:
        out.append(PhaseLine("", "all", step, None, _beyond(step), "", _pair(step.steps), _pair(step.runs)))
    if result.verdict == "not_comparable":
        return [replace(line, verdict=None, level=None, compared=False) for line in out]
    return [replace(line, compared=False) for line in out] if one_capture(result) else out


def _of_phase(phase: Phase, result: Result) -> list[PhaseLine]:
    typical, mean = phase.typical, phase.mean
    if typical is None:
        return []
    verdict = phase.verdict if phase.judged or phase.verdict in words.MOVED else None
    moved: Evidence = "likely" if verdict in words.MOVED else "within_noise"
    of_mean = phase.verdict_of == "mean" and mean is not None
    spoken = result.observed.of if result.observed.phase == phase.phase else ""
    out = [
        PhaseLine(
            phase.phase, "typical", typical, None if of_mean else verdict, _beyond(typical) if of_mean else moved, _pair(phase.time_share, units.both_shares), _pair(phase.steps),
            _pair(phase.runs), "" if verdict else words.TOO_FEW, first=spoken not in ("", "mean"),
        )
    ]  # fmt: skip
    if mean is not None and (of_mean or _differs(mean, typical)):
        shown = verdict if of_mean else None
        level = moved if of_mean else _beyond(mean)
        out.append(PhaseLine(phase.phase, "mean", mean, shown, level, first=spoken == "mean"))
    tested, unclear = unclear_by(phase, result)
    why = say(unclear, phases=f"{tested}") if unclear else ""
    return [replace(line, unjudged=why) if why and line.verdict else line for line in out]


def _differs(mean: Delta, typical: Delta) -> bool:
    sides = ((mean.baseline_ns, typical.baseline_ns), (mean.candidate_ns, typical.candidate_ns))
    return any(abs(one - other) > SURELY * other for one, other in sides)


def _beyond(change: Interval) -> Evidence | None:
    """Within noise where the interval holds 0; else nothing was tested."""
    return "within_noise" if change.ci_low_ns <= 0 <= change.ci_high_ns else None


def _pair(of: Pair | Shares | None, write: Callable[[Any, Any], str] = units.pair) -> str:
    return "" if of is None else write(of.baseline, of.candidate)


# Row classes of tables whose rows are not those of their field: their paths are checked against these.
ROWS: dict[str, type] = {
    "accounting": Category,
    "step": Category,
    "timeline": Category,
    "phases": PhaseLine,
    "launch": Both,
    "coverage": Trace,
    "inputs": Run,
    "captures": Run,
}


_BAR = 20  # letters of the longest bar


def _step_bar(row: Category, context: Context) -> Cell | None:
    """A bar of the colour that timelines have; as text where nothing is drawn."""
    part = row.baseline_ns / context.known["longest"] if isinstance(row.baseline_ns, float) else 0.0
    known = isinstance(row.category, str) and part
    return Cell("\u2588" * round(_BAR * part), bars=(part,), swatch=str(row.category)) if known else None


# Gates


def _outcome(gate: GateOutcome, context: Context) -> Cell:
    tone = {"passed": "ok", "failed": "warn" if gate.severity == "warning" else "fail"}.get(
        gate.outcome, "warn"
    )
    return Cell(
        gate.outcome, mark=f"st st-{tone}", small="warning only" if gate.severity == "warning" else ""
    )


def _gate_interval(gate: GateOutcome, context: Context) -> str:
    if gate.ci_low is None or gate.ci_high is None:
        return ""
    scale = units.scale_for([gate.ci_low, gate.ci_high])
    return f"{scale.signed(gate.ci_low)} to {scale.delta(gate.ci_high)}"


# Kernels


def _launch_change(row: KernelRow, context: Context) -> Cell | None:
    one = row.per_launch
    return Cell(units.percent(one.delta_ns, one.baseline_ns, one.level), one.delta_ns) if one else None


def _of_kernel_time(row: KernelRow, context: Context) -> str:
    whole = context.known["kernel_time"]
    sides = ((side, getattr(row, side)) for side in SIDES)
    return units.arrow(
        units.share(own.ns_per_step if own else 0.0, whole[side]) for side, own in sides if own is not ABSENT
    )


# Layers and limits


def _of_gpu_time(row: LayerRow, context: Context) -> float | None:
    total = sum(one.baseline_ns for one in context.report.layers.rows)
    return row.baseline_ns / total if total else None


def reached(row: Any) -> list[Any]:
    """The sides of a row that are known."""
    return [side for _, side in side_of(row)]


def _known(side: str) -> Value:
    """The part of a row's time that its figures are of; None where that is all of it."""

    def known(row: LimitsRow, context: Context) -> Any:
        one = getattr(row, side)
        return one if one is None or one is ABSENT else one.known if one.known < 0.995 else None

    return known


def _shapes(one: Reached) -> str:
    more = ["..."] * (len(one.shapes) > 1)
    return " ".join([*one.shapes[:1], *more, one.dtype]).rstrip() if one.shapes else ""


# Host and system


def _change_of_one(row: HostRow, context: Context) -> Cell | None:
    if not isinstance(row.mean_delta_ns, float):
        return None
    each = units.scale_for([row.mean_delta_ns])
    said = each.interval(row.mean_delta_ns, row.mean_ci_low_ns, row.mean_ci_high_ns)
    return Cell(f"{said} {each.unit}", row.mean_delta_ns)


def _payload_delta(row: PayloadRow, context: Context) -> Cell | None:
    if row.delta_mean is ABSENT or row.delta_mean is None:
        return None
    sign = "+" if row.delta_mean > 0 else "-" if row.delta_mean else ""
    return Cell(f"{sign}{number(abs(row.delta_mean))}", row.delta_mean)


def _metric(part: str, side: str) -> Value:
    def mean(row: GpuMetricRow, context: Context) -> Any:
        found = getattr(getattr(row, part), side)
        if found is ABSENT or getattr(row, side) is None:
            return found
        return Cell("few samples", tone="nil") if found is None else Cell(f"{found:.1f}", found)

    return mean


def _metric_delta(part: str) -> Value:
    def delta(row: GpuMetricRow, context: Context) -> Cell | None:
        mean: GpuMetricMean = getattr(row, part)
        if mean.delta is None or mean.delta is ABSENT:
            return None
        said = _tenths(mean.delta)
        if mean.ci_low is not None and mean.ci_high is not None:
            said += f" [{_tenths(mean.ci_low)}, {_tenths(mean.ci_high)}]"
        return Cell(said, mean.delta)

    return delta


def _tenths(value: float) -> str:
    return f"{value:+.1f}" if abs(value) >= 0.05 else "0.0"


# Phases


_MOVED = {"bad": "slower", "good": "faster"}  # tone of a verdict -> of its cell


def _phase_verdict(row: PhaseLine, context: Context) -> Cell:
    if row.unjudged or not row.verdict:
        return Cell(row.unjudged)
    said = words.verdict(context.report, row.verdict, row.phase)
    return Cell(said.word, tone=_MOVED.get(said.tone, "noise"), mark=f"chip tone-{said.tone}")  # type: ignore[arg-type]


# Causes


def cause(key: str, small: str = "") -> Cell:
    """A cause with the colour of its category; all kernels have that of compute."""
    return Cell(words.cause(key), swatch="compute" if key.startswith("kernel") else key, small=small)


def _part(row: FindingPart, context: Context) -> Cell:
    places = [value.split(" -> ") for name, value in words.place(row.where) if name != "phase"]
    named = [names.cut(sides, 70) for sides in places]
    return cause(row.cause, ", ".join(named + ["follows from the others"] * row.follows))


# What was read


VALUES: dict[str, Value] = {
    "part": _part,
    "category_label": lambda row, context: (
        palette.category(row.category).label if isinstance(row.category, str) else row.category
    ),
    "step_bar": _step_bar,
    "phase_name": lambda row, context: row.name,
    "phase_verdict": _phase_verdict,
    "phase_repeat": lambda row, context: (one.ci_low_ns, one.ci_high_ns) if (one := row.measured) else None,
    "cause_size": lambda row, context: Cell(words.brief_size(row, context.report), row.delta_ns),
    "cause_evidence": lambda row, context: words.evidence(row, context.report),
    "outcome": _outcome,
    "gate_interval": _gate_interval,
    "waiver": lambda row, context: f"until {row.waiver.expires}: {row.waiver.reason}" if row.waiver else "",
    "waited": lambda row, context: context.known["cells"][row.rank],
    "kernel": lambda row, context: context.known["cells"][id(row)],
    "of_peak": lambda row, context: context.known["of_peak"].get(id(row)),
    "of_kernel_time": _of_kernel_time,
    "layers": lambda row, context: ", ".join(row.layers),
    "launched": lambda row, context: kernels.launched(row).cell(names.LONG),
    "launch_change": _launch_change,
    "launch_evidence": lambda row, context: kernels.launch_evidence(row),
    "full_kernel": lambda row, context: names.kernel(row, width=100),
    "grids": lambda row, context: units.arrow(
        names.grids(one) for one in (row.baseline, row.candidate) if one and one.grids
    ),
    "origin_range": lambda row, context: row.range or Cell("not recorded"),
    "origin_thread": lambda row, context: row.thread or Cell("not recorded"),
    "origin_call": lambda row, context: row.api or Cell("not recorded"),
    "compared": lambda row, context: (
        f"yes, {row.level}" if row.compared else f"no: {row.reason.replace('_', ' ')}"
    ),
    "matched_by": lambda row, context: words.WORKLOADS.get(row.workload, row.workload),
    "layer": lambda row, context: row.layer or "in no known layer",
    "layers_of_kind": lambda row, context: (
        str(sum(one.kind == row.kind for one in context.report.layers.rows)) if row.kind else ""
    ),
    "of_gpu_time": _of_gpu_time,
    "limited": lambda row, context: context.known["cells"][row.kernel],
    "work": lambda row, context: units.arrow(text for one in reached(row) if (text := _shapes(one))),
    **{f"known_{side}": _known(side) for side in SIDES},
    "change_of_one": _change_of_one,
    "host_work": lambda row, context: (
        row.call or Cell({"off_cpu": "on no CPU, in no recorded OS call", "rest": "neither"}[row.kind])
    ),
    "payload_delta": _payload_delta,
    **{f"{part}_{side}": _metric(part, side) for part in ("steps", "busy", "idle") for side in SIDES},
    **{f"{part}_delta": _metric_delta(part) for part in ("steps", "busy", "idle")},
    "names_of_ranks": lambda row, context: " + ".join(row.names),
    "fingerprint": lambda row, context: Cell(row.run.fingerprint[:12], code=True, title=row.run.fingerprint),
    "fact": lambda row, context: show_words.FACTS.get(row.name, row.name),
    "fact_value": lambda row, context: Cell("not recorded", tone="nil") if row.value == "?" else row.value,
    "place": lambda row, context: words.sentence(row.title),
}


def side_of(row: Any) -> list[tuple[str, Any]]:
    """The sides that a row has, by name."""
    sides = ((name, getattr(row, name)) for name in SIDES)
    return [(name, side) for name, side in sides if side is not None and side is not ABSENT]
