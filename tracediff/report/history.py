"""A history in words: on a terminal and as one offline page."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence

import msgspec
from rich.console import Console

from tracediff.comparison.measures import PHASE, STEP
from tracediff.history.model import CauseChange, ChangeFound, DriftFound, History, PointRow, Segment, Standing
from tracediff.history.policy import FEW, Judged
from tracediff.report import html, templates, units
from tracediff.report.console import has_unicode, print_heading, print_line, print_table
from tracediff.report.escape import markdown_prose, neutral, shorten
from tracediff.report.markdown import report_link

_PHASE = re.compile(rf"({PHASE})(?:\.|\Z)")
_COMMIT = 10  # letters
_NAME = 70
_SOME = 5
_CHANGES = 12  # of a segment on a terminal
_WHY = {
    "no-repository": "no git repository of these commits here (--repo names it)",
    "shallow": "this clone of the repository is shallow (git fetch --unshallow)",
    "no-commit": "the repository holds none of these commits (--repo and --branch name another)",
}
_APART = {
    "side_branch": "on a branch that was merged, not in the first-parent history",
    "unreachable": "not reachable: the history was rewritten, or the commit is of another branch",
}


def amount(value: float, unit: str) -> str:
    """A value per step: a time with three digits, or a count."""
    return units.count(value) if unit == "count" else units.prose([value]).size(value)


def signed(value: float, unit: str) -> str:
    """A difference with its sign."""
    return f"{value:+,.2f}" if unit == "count" else units.prose([value]).signed(value)


def size(delta: float, base: float, unit: str) -> str:
    """A difference and what part of its base that is: `+13.9 us (+2.2 %)`."""
    part = units.change(delta, base)
    return signed(delta, unit) + (f" ({part})" if part else "")


def commit(point: PointRow) -> str:
    """A commit's short name."""
    return point.commit[:_COMMIT]


def between(history: History, change: ChangeFound) -> str:
    """The range of commits that a change lies in."""
    good, bad = history.points[change.good], history.points[change.bad]
    if change.unmeasured is None:
        return f"between {commit(good)} and {commit(bad)}"
    if change.unmeasured == 0:
        return f"in {commit(bad)} ({commit(good)} was still as before)"
    commits = "commit" if change.unmeasured == 1 else "commits"
    return f"after {commit(good)}, by {commit(bad)}: {change.unmeasured} {commits} between them not measured"


def certainty(p: float) -> str:
    """How sure, with the whole search paid for."""
    return f"p {units.probability(p)}"


def direction(change: ChangeFound | CauseChange) -> str:
    """What became of the measure."""
    if change.unit == "count":
        return "more" if change.delta > 0 else "fewer"
    return units.word(change.delta)


def causes(found: ChangeFound | DriftFound, segment: Segment) -> list[str]:
    """Causes with their sizes, and per which steps these are where that is another kind than the change's own."""
    return [_cause(one) + _per(one, found, segment) for one in found.causes]


def _cause(one: CauseChange) -> str:
    """New or gone instead of a part of nothing."""
    name = shorten(one.measure, _NAME)
    if not one.before:
        return f"{name} {signed(one.delta, one.unit)} (new)"
    if not one.after:
        return f"{name} {signed(one.delta, one.unit)} (gone)"
    return f"{name} {size(one.delta, one.before, one.unit)}"


def _per(one: CauseChange, found: ChangeFound | DriftFound, segment: Segment) -> str:
    phase, own = _phase(one.measure, segment), _phase(found.measure, segment)
    return "" if phase == own else f" per {units.step(phase) if phase else 'mean step'}"


def _phase(measure: str, segment: Segment) -> str:
    """Whose steps a measure is of: the only phase's where there is one; '' of the mean step."""
    found, phases = _PHASE.match(measure), segment.program.phases
    if found and measure != STEP:
        return found[1]
    return phases[0] if len(phases) == 1 else ""


def link(point: PointRow) -> str:
    """Where the report of a point can be read; '' of what is no address of a page."""
    try:
        return report_link(point.link) if point.link else ""
    except ValueError:
        return ""


def opened(history: History, change: ChangeFound) -> str:
    """The comparison to open: the report of the first point of the new level, or the file that it was made of."""
    bad = history.points[change.bad]
    if link(bad):
        return link(bad)
    return f"tracediff report {bad.source} --html report.html" if bad.source.endswith(".json") else bad.source


def drift(history: History, one: DriftFound) -> str:
    """A drift in a sentence."""
    first, last = history.points[one.first], history.points[one.last]
    part = units.percent(one.total, one.level - one.total / 2)
    weeks = one.days / 7
    rate = f", {units.percent(one.total / weeks, one.level)} per week" if weeks >= 1 and one.level else ""
    word = "rises" if one.total > 0 else "falls"
    total = (
        f"{abs(one.total):,.2f}"
        if one.unit == "count"
        else units.prose([one.total])
        .interval(abs(one.total), *sorted((abs(one.low), abs(one.high))))
        .lstrip("+")
    )
    return (
        f"{one.measure} {word} slowly by {total} ({part.lstrip('+-')}) from {commit(first)} to {commit(last)}{rate};"
        " no single step explains it"
    )


def headline(history: History) -> str:
    """The first sentence."""
    if not history.segments:
        return "No points."
    segment = history.segments[0]
    newest = _newest(segment)
    if newest is not None:
        first = "".join(causes(newest, segment)[:1])
        if first:
            mixed = _per(newest.causes[0], newest, segment)
            first = f"; {'seen most in' if mixed else 'largest part:'} {first}"
        return (
            f"{newest.measure} is {units.change(newest.delta, newest.before).lstrip('+-')} {direction(newest)} "
            f"({signed(newest.delta, newest.unit)}) {between(history, newest)}{first}."
        )
    if segment.drifts:
        return drift(history, segment.drifts[0]) + "."
    if len(segment.points) < FEW:
        return f"{_many(segment.points, 'point', 'is')} too few to tell a change: about {FEW} are needed."
    return f"No step time changed in {len(segment.points)} points."


def name(segment: Segment) -> str:
    """A segment by its program and machine."""
    gpu = segment.machine.get("gpu", "?")
    gpu = "no known GPU" if gpu == "?" else gpu
    count = segment.machine.get("gpu_count", "1")
    gpus = gpu if count in ("1", "?") else f"{count} x {gpu}"
    driver = segment.machine.get("driver", "?")
    driver = "" if driver == "?" else f", driver {driver}"
    program = f"{segment.program.name}, " if segment.program.name else ""
    phases = ", ".join(segment.program.phases)
    return f"{program}{gpus}{driver}; {segment.program.steps} steps ({phases})"


def differences(history: History) -> list[str]:
    """In what each segment differs from the first one; '' of the first."""
    return [_unlike(segment, history.segments[0]) for segment in history.segments]


def _unlike(segment: Segment, other: Segment) -> str:
    """In what a segment differs from another one."""
    kinds = (
        (_flat(segment), _flat(other)),
        (segment.machine, other.machine),
        (segment.configuration, other.configuration),
    )
    return ", ".join(
        f"{key} {shorten(one.get(key) or 'none', 60)}"
        for one, two in kinds
        for key in dict.fromkeys([*two, *one])
        if one.get(key) != two.get(key)
    )


def _flat(segment: Segment) -> dict[str, str]:
    program = segment.program
    return {"name": program.name, "steps": program.steps, "phases": ", ".join(program.phases)}


def notes(history: History) -> list[str]:
    """What to know about the store and the order; nothing is left out without a word."""
    said = []
    if history.torn:
        files = _many(history.torn, "file", "is")
        said.append(
            f"{files} not whole and left out ({_some(history.torn)}): remove them, and add those results again"
        )
    if history.why and len(history.points) > 1:
        said.append(f"Points are in the order of their commits' times: {_WHY[history.why]}")
    for reason, words in _APART.items():
        commits = list(dict.fromkeys(commit(one) for one in history.points if one.apart == reason))
        if commits:
            said.append(f"Kept apart ({words}): {_some(commits)}")
    for segment in history.segments:
        apart = [history.points[at] for at in segment.left_out]
        if apart:
            labels = sorted({one.pinned or one.baseline or "no baseline" for one in apart})
            said.append(
                f"{_many(apart, 'point', 'was')} measured against another baseline than the pinned {segment.pinned}"
                f" ({', '.join(labels[:5])}): not in its drift"
            )
    return said


def _many(found: Sequence[object], noun: str, verb: str) -> str:
    """So many, with the verb that goes with it: `1 file is`, `2 points were`."""
    return (
        f"1 {noun} {verb}" if len(found) == 1 else f"{len(found)} {noun}s {'are' if verb == 'is' else 'were'}"
    )


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SOME} more" if len(names) > _SOME else ""
    return ", ".join(names[:_SOME]) + more


def judged(history: History, one: Judged) -> str:
    """What `history check` says of one reason, and of which segment unless it is the newest."""
    segment = (one.before or one).segment
    return _reason(history, one) + (f" ({name(history.segments[segment])})" if segment else "")


def _reason(history: History, one: Judged) -> str:
    change, standing = one.change, one.standing
    if one.reason == "change" and change is not None:
        parts = ", ".join(causes(change, history.segments[one.segment])[:3])
        sized = f"{one.measure} {size(change.delta, change.before, change.unit)} {between(history, change)}"
        return f"{sized}, {certainty(change.p)}{'; ' * bool(parts)}{parts}"
    if one.reason == "stands_out" and standing is not None and standing.stands_out is not None:
        beyond = size(standing.stands_out, standing.last - standing.stands_out, standing.unit)
        return (
            f"{one.measure} of the newest point is {beyond} beyond the points before it; one point"
            " alone may be an odd run: measure the commit again, and add that"
        )
    if one.reason == "new_segment" and one.before is not None:
        unlike = _unlike(history.segments[one.segment], history.segments[one.before.segment])
        return f"the newest segment is new ({unlike}); the one before it: {one.before.outcome}: {_reason(history, one.before)}"
    if one.reason == "no_points":
        return "there are no points to judge"
    if one.reason == "no_measure":
        return f"{one.gate}: no point of the newest segment holds {one.measure} (docs/investigate.md#since-which-commit says what a point keeps)"
    if (
        one.reason == "no_pinned"
        or standing is None
        or standing.delta is None
        or standing.baseline is None
        or one.limit is None
    ):
        return f"{one.gate}: the points of the newest segment are not all against one pinned baseline (history add --pinned NAME)"
    gate = f"{one.gate}: {size(standing.delta, standing.baseline, standing.unit)} against the pinned baseline"
    limit = amount(one.limit, standing.unit)
    if one.outcome != "passed":
        return f"{gate} exceeds {limit}" + ("" if one.outcome == "failed" else ", but may be noise")
    newest = standing.last - standing.baseline
    alone = ""
    if newest > one.limit or standing.stands_out is not None:
        alone = f". That is the level of {standing.points} points; the newest point alone: {size(newest, standing.baseline, standing.unit)}"
    return f"{gate}, limit {limit}{alone}"


def standing_row(one: Standing) -> list[str]:
    """A row of the table of where measures stand."""
    against = ["", "", ""]
    if one.baseline is not None and one.delta is not None and one.low is not None and one.high is not None:
        against = [
            amount(one.baseline, one.unit),
            size(one.delta, one.baseline, one.unit),
            f"{signed(one.low, one.unit)} to {signed(one.high, one.unit)}",
        ]
    last = "" if one.last_delta is None else signed(one.last_delta, one.unit)
    return [shorten(one.measure, _NAME), amount(one.last, one.unit), last, *against, str(one.points)]


STANDING = ("measure", "newest", "from the last", "pinned", "since pinned", "95 % CI", "points")


def markdown(history: History) -> str:
    """The summary that the page offers to copy."""
    lines = [f"**{markdown_prose(headline(history))}**", ""]
    for segment in history.segments:
        for one in segment.changes:
            parts = f": {', '.join(causes(one, segment))}" if one.causes else ""
            text = f"{one.measure} {size(one.delta, one.before, one.unit)} {between(history, one)}{parts}"
            lines.append(f"- {markdown_prose(text)}")
        lines += [f"- {markdown_prose(drift(history, one))}" for one in segment.drifts]
    return "\n".join([*lines, *(f"- {markdown_prose(text)}" for text in notes(history))]) + "\n"


def tone(history: History) -> str:
    """How the headline is coloured: by the newest change."""
    segment = history.segments[0] if history.segments else None
    newest = _newest(segment) if segment else None
    if newest is None:
        return "unsure" if segment and segment.drifts else "neutral"
    return "bad" if newest.delta > 0 else "good"


def _newest(segment: Segment) -> ChangeFound | None:
    """The newest change of a measure that has a standing."""
    steps = {one.measure for one in segment.standings}
    return next((one for one in segment.changes if one.measure in steps), None)


def pair(history: History, segments: Sequence[Segment]) -> tuple[int, int]:
    """The two points that the page begins with: around the newest change, else the last two."""
    change = max(
        (one for segment in segments for one in segment.changes), key=lambda one: one.bad, default=None
    )
    if change is not None:
        return change.good, change.bad
    points = _points(segments)
    return points[-2] if len(points) > 1 else points[-1], points[-1]


def accounting(segments: Sequence[Segment], first: int, second: int) -> list[tuple[str, ...]]:
    """Measures of two points beside each other: name, both values and the difference as text; '' where a point has none."""
    rows = []
    for name, (unit, points) in table(segments).items():
        one, other = points.get(first), points.get(second)
        if one is not None or other is not None:
            delta = "" if one is None or other is None else size(other - one, one, unit)
            texts = ("" if value is None else amount(value, unit) for value in (one, other))
            rows.append((name, *texts, delta))
    return rows


def table(segments: Sequence[Segment]) -> dict[str, tuple[str, dict[int, float]]]:
    """Measure -> its unit and its value at each point, over all segments of a program."""
    found: dict[str, tuple[str, dict[int, float]]] = {}
    for segment in segments:
        for row in segment.series:
            found.setdefault(row.measure, (row.unit, {}))[1].update(zip(row.points, row.values, strict=True))
    return found


def _points(segments: Sequence[Segment]) -> list[int]:
    return sorted(at for segment in segments for at in segment.points)


def data(history: History, segments: Sequence[Segment]) -> str:
    """The same for the page's script, as JSON: points, and for each measure its unit and a value for every point."""
    points = _points(segments)
    columns = [
        [name, unit, [None if at not in known else round(known[at], 1) for at in points]]
        for name, (unit, known) in table(segments).items()
    ]
    said = [
        [at, f"{commit(history.points[at])}, {history.points[at].time[:16].replace('T', ' ')}"]
        for at in points
    ]
    return msgspec.json.encode({"points": said, "measures": columns}).decode()


def render_html(history: History) -> str:
    """Return the page."""
    from tracediff.report.pictures import history as drawn

    history = neutral(history)
    return (
        templates.html_environment()
        .get_template("history.html.j2")
        .render(
            r=history,
            groups=drawn.groups(history),
            said=sys.modules[__name__],
            tone=tone(history),
            comment=markdown(history),
            **html.own_files(["history.js"], ["history.css"]),
            **html.helpers(),
        )
    )


def render_terminal(history: History, console: Console) -> None:
    """Print what changed, what drifts, and where everything stands."""
    history = neutral(history)
    print_line(console, (headline(history), "bold"), indent=0)
    unlike = differences(history)
    for segment, words in zip(history.segments, unlike, strict=True):
        span = f"{commit(history.points[segment.points[0]])} to {commit(history.points[segment.points[-1]])}"
        points = "1 point" if len(segment.points) == 1 else f"{len(segment.points)} points, {span}"
        print_heading(console, name(segment))
        print_line(
            console,
            (
                f"{points}; {segment.searched} series searched"
                + (f"; unlike the first: {words}" if words else ""),
                "dim",
            ),
        )
        _changes(history, segment, console)
        for one in segment.drifts:
            print_line(console, (drift(history, one), "yellow"))
            if one.causes:
                print_line(console, "; ".join(causes(one, segment)), indent=4)
        if segment.standings:
            _standings(segment.standings, console)
    said = notes(history)
    if said:
        print_heading(console, "Notes")
    for text in said:
        print_line(console, (text, "yellow"), hang=2)


def _changes(history: History, segment: Segment, console: Console) -> None:
    for one in segment.changes[:_CHANGES]:
        arrow = "" if not has_unicode(console) else ("\u2191 " if one.delta > 0 else "\u2193 ")
        text = f"{arrow}{shorten(one.measure, _NAME)} {size(one.delta, one.before, one.unit)}"
        style = "red" if one.delta > 0 else "green"
        print_line(console, (text, style), f" {between(history, one)}, {certainty(one.p)}", hang=2)
        for text in causes(one, segment):
            print_line(console, text, indent=6)
        print_line(console, (f"open: {opened(history, one)}", "dim"), indent=6)
    left = len(segment.changes) - _CHANGES
    if left > 0:
        print_line(console, (f"{left} older changes: in the page and the JSON", "dim"))


def _standings(standings: Sequence[Standing], console: Console) -> None:
    console.print()
    rows = [standing_row(one) for one in standings]
    used = [column for column in range(len(STANDING)) if column == 0 or any(row[column] for row in rows)]
    print_table(console, [STANDING[one] for one in used], [[row[one] for one in used] for row in rows])
