"""Two engines compared by trtexec as a section of a report: figures and layers."""

from __future__ import annotations

from collections import Counter
from functools import partial

import msgspec
from msgspec.structs import replace

from tracediff.companions import render
from tracediff.companions.model import (
    Trtexec,
    TrtexecChange,
    TrtexecFigure,
    TrtexecLayers,
    TrtexecRow,
    TrtexecSide,
)
from tracediff.companions.render import table
from tracediff.companions.trtexec import picture
from tracediff.companions.trtexec.compare import NAMES
from tracediff.companions.words import part as part_of
from tracediff.errors import some
from tracediff.kernels.myelin import describe
from tracediff.model import Evidence
from tracediff.report import grammar, names, units, values
from tracediff.report.amounts import LIMIT, NAMED
from tracediff.report.blocks import Block, Cell, Line, Section, Tone, notes, part, terms
from tracediff.report.blocks import Figure as Drawing
from tracediff.report.escape import shorten
from tracediff.report.grammar import say
from tracediff.report.pictures.style import NARROW, WIDE, Later
from tracediff.report.words import VERDICTS

TITLE = "TensorRT engines, by trtexec"
NONE = "-"
NAMELESS = "not in the layer info"
MATCHES = {
    "exact": "same name", "normalised": "same name but for counters", "similar": "joined with other parts", "fused": "fused",
    "split": "split", "regrouped": "regrouped", "added": "added", "removed": "removed",
}  # fmt: skip
_NOTABLE = ("fused", "split", "regrouped", "similar", "added", "removed")
TERMS = terms(grammar.TERMS["trtexec"].items())


class Figure(msgspec.Struct, frozen=True):
    """A line of a table: both sides, the difference and its percentage as text."""

    label: str
    before: str
    after: str
    difference: str
    change: str
    tone: Tone  # slower | faster | noise | untested
    level: Evidence | None = None


class Changed(msgspec.Struct, frozen=True):
    """What is another in the layer info of a row."""

    row: TrtexecRow
    change: TrtexecChange


def section(trtexec: Trtexec) -> Section:
    """The figures with their percentiles, then the layers."""
    sides = f"{side_line('Baseline', trtexec.baseline)}; {side_line('candidate', trtexec.candidate)}."
    blocks: list[Block] = [render.headline(headline(trtexec)), *notes(sides)]
    if trtexec.figures:
        blocks.append(table("trtexec", means(trtexec), VALUES, look="data fixed"))
        tails = [
            _figure(one, key)
            for one in trtexec.figures
            for key in sorted({*one.baseline, *one.candidate} - {"mean"}, key=_order)
        ]
        if tails:
            title = "Medians and percentiles"
            listed = table("trtexec", tails, VALUES, limit=LIMIT, title=title, look="data fixed")
            blocks.append(part(title, [listed], 1, folded=True))
    if trtexec.rows:
        blocks.append(Section("trtexec-layers", "Layers", _layers(trtexec), depth=1))
    blocks += render.warnings(trtexec.warnings)
    return Section("trtexec", TITLE, blocks, depth=1, gist=layers_line(trtexec), menu="trtexec", printed=True)


def _layers(trtexec: Trtexec) -> list[Block]:
    # the rows that say more than a time: those that changed beyond noise, or in what they are
    first = [row for row in trtexec.rows if row.level in picture.SURE or row.match in _NOTABLE or row.changes]
    others = [row for row in trtexec.rows if row not in first]
    ordered = [*first, *others][:LIMIT]
    listed = table(
        "trtexec layers", [*ordered, _whole(trtexec)], VALUES, limit=LIMIT + 1, depth=1 if first else 2
    )
    total = listed.rows[-1]
    foot = replace(total, cells=[total.cells[0], Cell(), *total.cells[2:]])  # which has no match
    listed = replace(listed, rows=listed.rows[:-1], foot=foot, left=len(trtexec.rows) - len(ordered))
    made: list[Block] = [Line([f"{layers_line(trtexec)}."]), Line([say("lead_layers_of_engines")], "lead")]
    if bars := picture.rows(trtexec, [name(row).text(400) for row in trtexec.rows]):
        made.append(Drawing(Later(partial(picture.draw, bars), WIDE, NARROW), "", look="drawn"))
    made += [listed, *([] if first else [Line([say("no_layer_changed")])])]
    if changes := [Changed(row, one) for row in trtexec.rows for one in row.changes]:
        listed = table("trtexec changes", changes, VALUES, limit=LIMIT)
        made.append(part(listed.caption, [listed], 1))
    for kind in ("type", "precision"):
        if of := [one for one in trtexec.groups if one.kind == kind]:
            title = f"Layers by {kind}"
            by = table("trtexec groups", of, VALUES, limit=LIMIT, title=title, look="data sortable")
            made.append(part(title, [by], 1))
    return made


def _whole(trtexec: Trtexec) -> TrtexecRow:
    """All layers, as a row."""
    one, other = trtexec.baseline.total_ns, trtexec.candidate.total_ns
    delta = None if one is None or other is None else other - one
    before, after = (TrtexecLayers(["All layers"], [], [], [], time_ns=ns) for ns in (one, other))
    return TrtexecRow("exact", 1.0, False, before, after, delta_ns=delta, level=None, sentence="")


def means(trtexec: Trtexec) -> list[Figure]:
    """The mean of every figure."""
    return [_figure(one, "mean") for one in trtexec.figures]


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
    tone: Tone = "untested"
    if not delta or level == "within_noise":
        tone = "noise"
    elif level:
        tone = "faster" if (delta > 0) == rate else "slower"
    label = NAMES[one.metric] + ("" if key == "mean" else f", {key}")
    percent = "" if delta is None or not before else units.percent(delta, before)
    return Figure(label, write(before), write(after), difference, percent, tone, level)


def name(row: TrtexecRow) -> names.Name:
    """Name a row as kernels are named; of many layers the first ones."""
    return names.name(*(some(side.names, NAMED) if side else "" for side in (row.baseline, row.candidate)))


def meaning(row: TrtexecRow) -> str:
    """What Myelin's names say in words; '' where there are none of them."""
    names = [one for side in (row.baseline, row.candidate) if side for one in side.names]
    said = list(dict.fromkeys(words for one in names if (words := describe(one))))
    return "; ".join(said[:2])


def headline(trtexec: Trtexec) -> str:
    """The first sentences: the verdict, what changed, by how much, how sure; then the layer that changed most."""
    said = f"{VERDICTS[trtexec.verdict].word}: {trtexec.verdict_reason}"
    row = next((row for row in trtexec.rows if row.level in picture.SURE), None)
    if row is None:
        return said
    like = [one for one in picture.blocks(trtexec, [name(row).text(80) for row in trtexec.rows]) if one.sure]
    most = max(like, key=lambda one: abs(one.delta), default=None)
    if most is None or most.rows == 1:
        largest = say("largest_layer", name=name(row).text(80), became=row.sentence)
    else:
        both = units.prose(most.times).both(*most.times) + part_of(most.delta, most.times[0])
        largest = say("largest_layers", name=most.name, both=both)
    return f"{said} {largest}"


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
    whats = Counter(change.what for row in trtexec.rows for change in row.changes)
    parts += [f"{whats[what]} with another {what}" for what in ("tactic", "precision", "type") if whats[what]]
    return ", ".join(parts)


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


VALUES: dict[str, values.Value] = {
    "difference": lambda row, context: Cell(row.difference, tone=row.tone),
    "layer": lambda row, context: name(row).cell(400),
    "match": lambda row, context: f"{row.match} (reformat)" if row.reformat else row.match,
    "became": lambda row, context: "; ".join(one for one in (row.sentence, meaning(row)) if one),
    "changed": lambda row, context: name(row.row).cell(400),
    "group": lambda row, context: shorten(row.name, 48) or NAMELESS,
}
