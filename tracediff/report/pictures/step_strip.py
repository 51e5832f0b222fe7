"""The step strip: every step in order, both sides, a column as high as the step was long and coloured by what its time was."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from tracediff.model import Result
from tracediff.model.common import ABSENT
from tracediff.model.pictures import StepStrip, StripColumn
from tracediff.model.show import Show
from tracediff.report import palette, units, words
from tracediff.report.drawing import Axis, Drawing, Layout, tick

TITLE = "Every step in order"
_LOG_FROM = 4  # a longest step of more than so many shortest ones gets a logarithmic axis
_WIDEST = 22.0  # column, px
_AXIS = 62.0  # room for the figures of the axis
_HIGH = 76.0  # of a side
_CLICK = 16.0  # least width of what leads to a timeline
_PALE = 0.45  # of the categories beside the named one


def heights(columns: Sequence[StripColumn]) -> Axis:
    """One axis for both sides, px above the foot: from zero, or logarithmic where steps differ much."""
    low, high = max(min(one.median_ns for one in columns), 1), max(one.ns for one in columns)
    if high <= _LOG_FROM * low:
        return Axis(0.0, high * 1.04, 0, _HIGH)
    return Axis(low / 2.5, high * 1.1, 0, _HIGH, log=True)


def named(report: Result | Show) -> str:
    """The category of the first cause beyond noise, '' without one."""
    found = words.listed(report)[0][:1] if isinstance(report, Result) else []
    return next((one.cause if one.cause in palette.BY_KEY else "compute" for one in found), "")


def sides_of(strip: StepStrip) -> list[tuple[str, list[StripColumn]]]:
    """The columns of every side."""
    both = [("baseline", strip.baseline), ("candidate", strip.candidate)]
    return both[:1] if strip.candidate is ABSENT else both


def draw(report: Result | Show, layout: Layout) -> Drawing | None:
    """Lay out the sides above each other, the category of the first cause at the foot; None where there are no steps."""
    strip = report.step_strip
    if strip is None or not all(columns for _, columns in sides_of(strip)):
        return None
    first = named(report)
    if first in strip.categories:
        strip = _with_first(strip, first)
    else:
        first = ""
    sides = sides_of(strip)
    of_ns = heights([one for _, columns in sides for one in columns])
    scale = units.scale_for([of_ns.high])
    runs = [len({one.run for one in columns}) for _, columns in sides]
    places = max(len(columns) + many - 1 for (_, columns), many in zip(sides, runs, strict=True))
    wide = min((layout.width - _AXIS) / places, _WIDEST)
    unit = words.unit(report) if isinstance(report, Result) else "step"
    out = Drawing(layout, TITLE)
    y, drawn = 0.0, []
    for (side, columns), many in zip(sides, runs, strict=True):
        if len(sides) > 1:
            out.write(0, y + 9, side, bold=True)
        out.write(82 if len(sides) > 1 else 0, y + 9, _steps(columns, many, unit), colour="--muted")
        drawn.append(_draw_side(out, strip, columns, (of_ns, scale, wide), y + 22, first))
        y += 22 + _HIGH + (16 if drawn[-1] else 8)
    y = _legend(out, strip, of_ns, y + 2, first, marked=any(drawn))
    out.height = round(y, 1)
    out.description = describe(strip, scale, unit)
    return out


def _with_first(strip: StepStrip, first: str) -> StepStrip:
    """The same with one category before the others."""
    order = sorted(range(len(strip.categories)), key=lambda at: strip.categories[at] != first)

    def sorted_columns(columns: list[StripColumn]) -> list[StripColumn]:
        return [replace(one, parts=[one.parts[at] for at in order]) for one in columns]

    return replace(
        strip,
        categories=[strip.categories[at] for at in order],
        baseline=sorted_columns(strip.baseline),
        candidate=sorted_columns(strip.candidate),
    )


def _steps(columns: Sequence[StripColumn], runs: int, unit: str = "step") -> str:
    many = sum(one.steps for one in columns)
    text = units.counted(many, unit)
    if runs > 1:
        text += f" of {runs} runs"
    width = max(one.steps for one in columns)
    return f"{text}, {width} a column" if width > 1 else text


def _draw_side(
    out: Drawing,
    strip: StepStrip,
    columns: Sequence[StripColumn],
    axis: tuple[Axis, units.Scale, float],
    top: float,
    first: str,
) -> bool:
    """The columns of one side; whether the page has a timeline of any of them. `axis`: with the width of a column."""
    of_ns, scale, wide = axis
    bottom = top + _HIGH
    for mark in of_ns.ticks(6 if of_ns.log else 4):
        if of_ns.at(mark) > 1:
            text = f"{tick(mark, scale)} {scale.unit}"
            out.level(bottom - of_ns.at(mark), text, _AXIS, out.layout.width)
    out.line(f"M{_AXIS} {bottom:.1f}H{out.layout.width:g}", "--muted")
    places: list[tuple[float, StripColumn]] = []
    medians, drawn, titles, links = [], [], [], []
    gap = 1.0 if wide > 5 else 0.0
    x, run = _AXIS, columns[0].run
    for column in columns:
        if column.run != run:
            run = column.run
            out.line(f"M{x + wide / 2:.1f} {top:.1f}V{bottom:.1f}", "--muted", dashed=True)
            x += wide
        places.append((x, column))
        if column.steps > 1:
            medians.append(f"M{x:.1f} {bottom - of_ns.at(column.median_ns):.1f}h{wide:.1f}")
        number = column.timeline
        if number is not None:
            middle = x + (wide - gap) / 2
            drawn.append(f"M{middle:.1f} {bottom + 3:.1f}l4 7h-8z")
            left = min(max(middle - _CLICK / 2, _AXIS), out.layout.width - _CLICK)
            links.append((left, max(wide, _CLICK), _title(strip, column, scale), f"#timeline-{number}"))
        titles.append((x, wide, _title(strip, column, scale), ""))
        x += wide
    for name, path in _layers(strip, places, of_ns, wide - gap, bottom):
        if first and name != first:  # on paper, so that what lies behind does not shine through
            out.line(path, "--paper", 0)
        out.line(path, palette.variable(name), 0, opacity=_PALE if first and name != first else 1.0)
    out.line("".join(medians), "--paper", 2.6)
    out.line("".join(medians), "--ink", 1.2)
    out.line("".join(drawn), "--ink", 0)
    if not out.layout.narrow:
        for x, width, title, href in titles + links:
            out.rect(x, top, width, _HIGH + (11 if href else 0), "none", title=title, href=href)
    return bool(drawn)


def _layers(
    strip: StepStrip, places: Sequence[tuple[float, StripColumn]], of_ns: Axis, wide: float, bottom: float
) -> Iterator[tuple[str, str]]:
    """Areas to be painted over each other: from the foot of all columns to the top of a category, the last category first."""
    columns = [(x, one, of_ns.at(one.ns) / max(one.ns, 1)) for x, one in places]
    for at in range(len(strip.categories), 0, -1):
        tops = [round(2 * (bottom - per_ns * sum(one.parts[:at]))) / 2 for _, one, per_ns in columns]
        under = [round(2 * (bottom - per_ns * sum(one.parts[: at - 1]))) / 2 for _, one, per_ns in columns]
        if tops == under:
            continue  # nothing of it could be seen
        path, end, level = [f"M{places[0][0]:.1f} {bottom:g}"], places[0][0], bottom
        for (x, _, _), top in zip(columns, tops, strict=True):
            if x > end + 0.05:
                path += [f"V{bottom:g}", f"H{x:.1f}"]
                level = bottom
            if top != level:
                path.append(f"V{top:g}")
                level = top
            end = x + wide
            if path[-1].startswith("H"):
                path.pop()
            path.append(f"H{end:.1f}")
        yield strip.categories[at - 1], "".join(path) + f"V{bottom:g}z"


def _title(strip: StepStrip, column: StripColumn, scale: units.Scale) -> str:
    most = max(zip(column.parts, strip.categories, strict=True))
    text = f"{'step' if column.number is None else f'step {column.number}'}"
    if column.phase != "step":
        text += f" ({column.phase})"
    text += f": {scale.time(column.ns)}, {palette.category(most[1]).label} {scale.time(most[0])}"
    if column.steps > 1:
        text += f"; median of {column.steps}: {scale.time(column.median_ns)}"
    return text


def _legend(out: Drawing, strip: StepStrip, of_ns: Axis, y: float, first: str, *, marked: bool) -> float:
    """The categories that make up some of any column, then how to read it."""
    every = [one for _, columns in sides_of(strip) for one in columns]
    totals = [
        (name, sum(one.parts[at] / max(one.ns, 1) for one in every))
        for at, name in enumerate(strip.categories)
    ]
    whole = sum(total for _, total in totals) or 1.0
    shown = [name for name, total in totals if total >= 0.01 * whole or name == first]
    _, y = out.legend(
        (
            (palette.variable(name), _PALE if first and name != first else 1.0, palette.category(name).label, name == first)
            for name in shown
        ),
        0, y,
    )  # fmt: skip
    how = ["Height: step time, log; colours: shares of it." if of_ns.log else "Height: step time."]
    if first:
        how.append("Foot: first cause.")
    if (most := max(one.steps for one in every)) > 1:
        how.append(f"Column: longest of {most} steps, line: median.")
    if marked:
        how.append("\u25b2 has a timeline.")
    return out.paragraph(0, y + 20, " ".join(how), "--muted", most=4)


def describe(strip: StepStrip, scale: units.Scale, unit: str = "step") -> str:
    """The picture in words."""
    said = []
    for side, columns in sides_of(strip):
        longest = max(columns, key=lambda one: one.ns)
        which = "" if longest.number is None else f", step {longest.number}"
        said.append(
            f"{f'{side}: ' * (len(sides_of(strip)) > 1)}{_steps(columns, 1, unit)}, the longest {scale.time(longest.ns)}{which}"
        )
    return "; ".join(said)
