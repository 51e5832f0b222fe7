"""Two engines compared by trtexec as text: figures and layers, on a terminal, in Markdown, on a page."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from rich.console import Console

from tracediff.companions.model import (
    Trtexec,
    TrtexecChange,
    TrtexecFigure,
    TrtexecGroup,
    TrtexecLayers,
    TrtexecRow,
    TrtexecSide,
)
from tracediff.companions.trtexec.compare import NAMES
from tracediff.kernels.myelin import describe
from tracediff.model import Evidence
from tracediff.report import units
from tracediff.report.console import TONES, print_heading, print_line, print_more, print_table, print_warnings
from tracediff.report.escape import shorten
from tracediff.report.words import LEVELS, VERDICTS

STYLE = "ncu.css"
NONE = "-"
NAMELESS = "not in the layer info"
MATCHES = {
    "exact": "same name", "normalised": "same name but for counters", "similar": "joined with other parts", "fused": "fused",
    "split": "split", "regrouped": "regrouped", "added": "added", "removed": "removed",
}  # fmt: skip
_NOTABLE = ("fused", "split", "regrouped", "similar", "added", "removed")
_SURE = ("confirmed", "likely")
_NAMED = 3  # layers of a side that a label names


@dataclass(frozen=True)
class Figure:
    """A line of a table: both sides, the difference and its percentage as text."""

    label: str
    before: str
    after: str
    difference: str
    change: str
    tone: str  # slower | faster | noise | untested
    level: Evidence | None = None


def gist(trtexec: Trtexec) -> str:
    """The first sentences in a line of a comment."""
    return f"TensorRT engines, by trtexec: {headline(trtexec)}"


def means(trtexec: Trtexec) -> list[Figure]:
    """The mean of every figure."""
    return [_figure(one, "mean") for one in trtexec.figures]


def spread(trtexec: Trtexec) -> list[Figure]:
    """Median, percentiles, minimum and maximum of the figures that have them."""
    return [
        _figure(one, key)
        for one in trtexec.figures
        for key in sorted({*one.baseline, *one.candidate} - {"mean"}, key=_order)
    ]


def _order(key: str) -> tuple[int, float]:
    if key in ("median", "min", "max"):
        return {"median": 0, "min": 2, "max": 3}[key], 0.0
    return 1, float(key[1:])


def _figure(one: TrtexecFigure, key: str) -> Figure:
    before, after, delta = (side.get(key) for side in (one.baseline, one.candidate, one.delta))
    rate = one.metric == "throughput"
    scale = units.scale_for([before, after])

    def write(value: float | None) -> str:
        return NONE if value is None else f"{value:,.1f} /s" if rate else scale.time(value)

    difference = (
        "" if delta is None else "0" if not delta else f"{delta:+,.1f} /s" if rate else scale.delta(delta)
    )
    level = one.level if key == "mean" else None
    tone = "untested"
    if not delta or level == "within_noise":
        tone = "noise"
    elif level:
        tone = "faster" if (delta > 0) == rate else "slower"
    label = NAMES[one.metric] + ("" if key == "mean" else f", {key}")
    percent = "" if delta is None or not before else units.percent(delta, before)
    return Figure(label, write(before), write(after), difference, percent, tone, level)


def level(one: Figure | TrtexecRow) -> str:
    """How far a difference can be believed."""
    return LEVELS[one.level][0] if one.level else ""


def name(row: TrtexecRow, width: int | None = None) -> str:
    """Name a row: one name where both sides share it, else both with an arrow."""
    one, other = names_of(row.baseline), names_of(row.candidate)
    label = one if not other or one == other else other if not one else f"{one} -> {other}"
    if width is None or len(label) <= width:
        return label
    if not one or not other or one == other:
        return shorten(label, width)
    room = width - 4
    left = min(len(one), max(room // 2, room - len(other)))
    return f"{shorten(one, left)} -> {shorten(other, room - left)}"


def names_of(side: TrtexecLayers | None) -> str:
    """Name the layers of a side; many are counted."""
    if side is None:
        return ""
    more = len(side.names) - _NAMED
    return ", ".join(side.names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def meaning(row: TrtexecRow) -> str:
    """What Myelin's names say in words; '' where there are none of them."""
    names = [one for side in (row.baseline, row.candidate) if side for one in side.names]
    said = list(dict.fromkeys(words for one in names if (words := describe(one))))
    return "; ".join(said[:2])


def notable(trtexec: Trtexec) -> list[TrtexecRow]:
    """The rows that say more than a time: those that changed beyond noise, or in what they are."""
    return [row for row in trtexec.rows if row.level in _SURE or row.match in _NOTABLE or row.changes]


def changed(trtexec: Trtexec) -> list[tuple[TrtexecRow, TrtexecChange]]:
    """Layers of which the layer info says something else."""
    return [(row, one) for row in trtexec.rows for one in row.changes]


def headline(trtexec: Trtexec) -> str:
    """The first sentences: the verdict, what changed, by how much, how sure; then the layer that changed most."""
    said = f"{VERDICTS[trtexec.verdict].word}: {trtexec.verdict_reason}"
    row = next((row for row in trtexec.rows if row.level in _SURE), None)
    return f"{said} The largest change of a layer is in {name(row, 80)}: {row.sentence}." if row else said


def layers_line(trtexec: Trtexec) -> str:
    """Layers of both sides, and what became of them; '' where they were not compared."""
    if not trtexec.rows:
        return ""
    one, other = trtexec.baseline, trtexec.candidate
    counts = Counter[str](row.match for row in trtexec.rows)
    parts = [
        f"{one.layers:,} -> {other.layers:,} layers",
        f"of them {one.reformats:,} -> {other.reformats:,} reformats",
    ]
    parts += [f"{counts[match]} {MATCHES[match]}" for match in _NOTABLE if counts[match]]
    whats = Counter(change.what for _, change in changed(trtexec))
    parts += [f"{whats[what]} with another {what}" for what in ("tactic", "precision", "type") if whats[what]]
    return ", ".join(parts)


def totals(trtexec: Trtexec) -> tuple[float | None, float | None, float | None]:
    """The sums of the layers of both sides, and their difference."""
    one, other = trtexec.baseline.total_ns, trtexec.candidate.total_ns
    return one, other, None if one is None or other is None else other - one


def scale(trtexec: Trtexec) -> units.Scale:
    """The unit of the tables of layers."""
    sides = [side for row in trtexec.rows for side in (row.baseline, row.candidate) if side]
    return units.scale_for([side.time_ns for side in sides])


def percent(row: TrtexecRow) -> str:
    """Change of a row's time; '' where it has no time on both sides."""
    if row.delta_ns is None or row.baseline is None or row.candidate is None or not row.baseline.time_ns:
        return ""
    return units.percent(row.delta_ns, row.baseline.time_ns)


def groups(trtexec: Trtexec, kind: str) -> list[TrtexecGroup]:
    """The groups of a kind."""
    return [one for one in trtexec.groups if one.kind == kind]


def side_line(word: str, side: TrtexecSide) -> str:
    """What a side's files are."""
    counts = [run.iterations for run in side.runs if run.iterations is not None]
    parts = [
        f"{len(side.runs)} runs" if len(side.runs) > 1 else "",
        ", ".join(dict.fromkeys(file for run in side.runs for file in run.files)),
        f"{sum(counts):,} iterations" if counts else "",
        f"TensorRT {side.version}" if side.version else "",
        side.device,
    ]
    return f"{word}: {side.label} ({'; '.join(filter(None, parts))})"


_TAILED = ("GPU compute time, ", "latency, ")  # figures whose percentiles are printed
_COLOURS = {"slower": "red", "faster": "green"}


def print_report(trtexec: Trtexec, console: Console, top: int) -> None:
    """Print the report of two sides without traces."""
    verdict = VERDICTS[trtexec.verdict]
    print_line(console, (headline(trtexec), f"bold {TONES[verdict.tone]}"), indent=0)
    _print(trtexec, console, top)


def print_section(trtexec: Trtexec, console: Console, top: int) -> None:
    """Print it as a part of a comparison of traces. The names are neutral already."""
    print_heading(console, "TensorRT engines, by trtexec")
    print_line(console, headline(trtexec))
    _print(trtexec, console, top)


def _print(trtexec: Trtexec, console: Console, top: int) -> None:
    print_line(console, (side_line("baseline", trtexec.baseline), "dim"))
    print_line(console, (side_line("candidate", trtexec.candidate), "dim"))
    if trtexec.figures:
        print_heading(console, "trtexec: means per query")
        lines, styles = [], []
        tails = [line for line in spread(trtexec) if line.label.startswith(_TAILED)]
        for one in means(trtexec):
            for line in (one, *(tail for tail in tails if tail.label.startswith(f"{one.label}, "))):
                label = line.label.replace(f"{one.label}, ", "  ")
                lines.append((label, line.before, line.after, line.difference, line.change, level(line)))
                styles.append(_COLOURS.get(line.tone, ""))
        print_table(console, ("", "baseline", "candidate", "delta", "change", ""), lines, styles=styles)
    if trtexec.rows:
        _layers(trtexec, console, top)
    print_warnings(trtexec.warnings, (), console)


def _layers(trtexec: Trtexec, console: Console, top: int) -> None:
    print_heading(console, layers_line(trtexec))
    rows = notable(trtexec)
    for row in rows[:top]:
        colour = (
            "" if not row.delta_ns or row.level == "within_noise" else "red" if row.delta_ns > 0 else "green"
        )
        print_line(console, (name(row, 110), "bold"))
        print_line(console, (row.sentence, colour), indent=5, hang=2)
        for change in row.changes:
            if change.what in ("tactic", "format"):
                before, after = (shorten(one, 90) for one in (change.before, change.after))
                print_line(console, (f"{change.what}: ", "dim"), f"{before} -> {after}", indent=5, hang=2)
        if said := meaning(row):
            print_line(console, (said, "dim"), indent=5, hang=2)
    print_more(console, len(rows) - top)
    if not rows:
        print_line(console, "No layer changed beyond noise, and none is another.")
    unit = scale(trtexec)
    for kind in ("type", "precision"):
        if found := groups(trtexec, kind):
            print_heading(console, f"Layers by {kind} ({unit.unit} per query)")
            lines = [
                (
                    shorten(one.name, 48) or NAMELESS, f"{one.baseline_layers} -> {one.candidate_layers}", *(NONE if ns is None else unit.number(ns) for ns in (one.baseline_ns, one.candidate_ns)),
                    "" if one.delta_ns is None else unit.signed(one.delta_ns),
                )
                for one in found[:top]
            ]  # fmt: skip
            print_table(console, ("", "layers", "baseline", "candidate", "delta"), lines)
