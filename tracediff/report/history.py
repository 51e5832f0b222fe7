"""A history in words: a document, and one offline page."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from tracediff.comparison.measures import KERNEL, PHASE, STEP, Measure
from tracediff.errors import some
from tracediff.history.model import CauseChange, ChangeFound, DriftFound, History, PointRow, Segment, Standing
from tracediff.history.policy import FEW, Judged, exit_code
from tracediff.report import blocks, names, units
from tracediff.report.amounts import COMMIT, LIMIT, LISTED, NAME, NAMED
from tracediff.report.blocks import (
    Block,
    Cell,
    Code,
    Figure,
    Items,
    Line,
    Link,
    Section,
    Span,
    Strong,
    Tone,
    grid,
    part,
    terms,
)
from tracediff.report.document import markdown
from tracediff.report.escape import neutral, shorten
from tracediff.report.grammar import TERMS, say
from tracediff.report.markdown import report_link
from tracediff.report.page import Page, render

_PHASE = re.compile(rf"({PHASE})(?:\.|\Z)")
_ONLY = Measure(STEP, STEP).text
_WHY = {
    "no-repository": "no git repository of these commits here (--repo names it)",
    "shallow": "this clone of the repository is shallow (git fetch --unshallow)",
    "no-commit": "the repository holds none of these commits (--repo and --branch name another)",
}
_APART = {
    "side_branch": "on a branch that was merged, not in the first-parent history",
    "unreachable": "not reachable: the history was rewritten, or the commit is of another branch",
}


def amount(value: float | None, unit: str, other: float | None = None) -> str:
    """A value per step: a time with three digits, in the unit that it shares with another; or a count; '' of none."""
    if value is None:
        return ""
    return units.count(value) if unit == "count" else units.both(value, other or 0.0).size(value)


def signed(value: float, unit: str, other: float | None = None) -> str:
    """A difference with its sign, in the unit of what it is a difference of."""
    if unit == "count":
        return f"{round(value, 2):+,.2f}" if abs(value) >= 0.005 else "0"
    return units.both(value, other or 0.0).delta(value)


def size(delta: float | None, base: float | None, unit: str) -> str:
    """A difference and what part of its base that is: `+13.9 us (+2.2 %)`; '' of none."""
    if delta is None:
        return ""
    part = units.change(delta, base)
    return signed(delta, unit, base) + (f" ({part})" if part else "")


def called(measure: str) -> str:
    """A measure as reports name it: steps without labels are of no phase, and C++ signatures are shortened."""
    if measure == _ONLY:
        return say("only_step")
    phase, kernel, signature = measure.partition(f"{KERNEL}:")
    return shorten(f"{phase}{kernel}{names.short(signature)}" if kernel else measure, 2 * NAME)


def commit(point: PointRow) -> str:
    """A commit's short name."""
    return point.commit[:COMMIT]


def between(history: History, change: ChangeFound) -> str:
    """The range of commits that a change lies in."""
    slots = {"good": commit(history.points[change.good]), "bad": commit(history.points[change.bad])}
    if change.unmeasured is None:
        return say("between_commits", **slots)
    if change.unmeasured == 0:
        return say("in_commit", **slots)
    return say("after_commit", commits=units.counted(change.unmeasured, "commit"), **slots)


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
    name = called(one.measure)
    if one.before and one.after:
        return f"{name} {size(one.delta, one.before, one.unit)}"
    word = "gone" if one.before else "new"
    return f"{name} {signed(one.delta, one.unit)} ({word})"


def _per(one: CauseChange, found: ChangeFound | DriftFound, segment: Segment) -> str:
    phase, own = _phase(one.measure, segment), _phase(found.measure, segment)
    if phase == own:
        return ""
    return " per " + (units.step(phase) if phase else "mean step")


def _phase(measure: str, segment: Segment) -> str:
    """Whose steps a measure is of: the only phase's where no mean step stands beside it; '' of the mean step."""
    found, phases = _PHASE.match(measure), segment.program.phases
    if found and measure != STEP:
        return found[1]
    of_all = any(one.measure == STEP for one in segment.standings)
    return phases[0] if len(phases) == 1 and not of_all else ""


def link(point: PointRow) -> str:
    """Where the report of a point can be read; '' of what is no address of a page."""
    try:
        return report_link(point.link) if point.link else ""
    except ValueError:
        return ""


def opened(history: History, change: ChangeFound) -> Span:
    """The comparison to open: the report of the first point of the new level, or the file that it was made of."""
    bad = history.points[change.bad]
    if address := link(bad):
        return Link(address, "", address)
    return Code(
        f"tracediff report {bad.source} --html report.html" if bad.source.endswith(".json") else bad.source
    )


def drift(history: History, one: DriftFound) -> str:
    """A drift in a sentence."""
    weeks = one.days / 7
    slots = {
        "measure": called(one.measure),
        "size": _drifted(one),
        "part": units.percent(abs(one.total), one.level - one.total / 2).removeprefix("+"),
        "first": commit(history.points[one.first]),
        "last": commit(history.points[one.last]),
        "rises": "rises" if one.total > 0 else "falls",
    }
    if weeks >= 1 and one.level:
        return say("drifts_rate", rate=units.percent(one.total / weeks, one.level), **slots)
    return say("drifts", **slots)


def _drifted(one: DriftFound) -> str:
    """How much, without a sign."""
    if one.unit == "count":
        return f"{abs(one.total):,.2f}"
    ends = sorted((abs(one.low), abs(one.high)))
    return units.prose([one.total]).interval(abs(one.total), *ends).removeprefix("+")


def headline(history: History) -> str:
    """The first sentence."""
    if not history.segments:
        return say("no_points")
    segment = history.segments[0]
    newest = _newest(segment)
    if newest is not None:
        return _changed(history, segment, newest)
    if segment.drifts:
        return f"{drift(history, segment.drifts[0])}."
    if len(segment.points) < FEW:
        many = len(segment.points)
        are = "is" if many == 1 else "are"
        return say("few_points", points=units.counted(many, "point"), are=are, few=f"{FEW}")
    return say("unchanged_points", points=f"{len(segment.points)}")


def _changed(history: History, segment: Segment, one: ChangeFound) -> str:
    slots = {
        "measure": called(one.measure),
        "percent": units.change(one.delta, one.before).lstrip("+-"),
        "word": direction(one),
        "size": signed(one.delta, one.unit),
        "between": between(history, one),
    }
    first = causes(one, segment)[:1]
    if not first:
        return say("level_changed", **slots)
    largest = "seen most in" if _per(one.causes[0], one, segment) else "largest part:"
    return say("level_changed_by", largest=largest, cause=first[0], **slots)


def name(segment: Segment) -> str:
    """A segment by its program and machine."""
    gpu = segment.machine.get("gpu", "?")
    gpu = "no known GPU" if gpu == "?" else gpu
    count = segment.machine.get("gpu_count", "1")
    gpus = gpu if count in ("1", "?") else f"{count} x {gpu}"
    driver = segment.machine.get("driver", "?")
    driver = "" if driver == "?" else f", driver {driver}"
    program = f"{segment.program.name}, " if segment.program.name else ""
    phases = "" if segment.program.phases == (STEP,) else f": {', '.join(segment.program.phases)}"
    return f"{program}{gpus}{driver}; steps ({segment.program.steps}){phases}"


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
        said.append(
            say("torn", files=units.counted(len(history.torn), "file"), names=some(history.torn, NAMED))
        )
    if history.why and len(history.points) > 1:
        said.append(say("order", why=_WHY[history.why]))
    for reason, words in _APART.items():
        commits = list(dict.fromkeys(commit(one) for one in history.points if one.apart == reason))
        if commits:
            said.append(say("kept_apart", why=words, commits=some(commits, NAMED)))
    for segment in history.segments:
        apart = [history.points[at] for at in segment.left_out]
        if apart:
            labels = sorted({one.pinned or one.baseline or "no baseline" for one in apart})
            points = units.counted(len(apart), "point")
            said.append(
                say(
                    "other_baseline",
                    points=points,
                    pinned=f"{segment.pinned}",
                    labels=", ".join(labels[:NAMED]),
                )
            )
    return said


def outcome(history: History, said: Sequence[Judged]) -> str:
    """Whether the newest point passes `history check`, in a sentence."""
    passed = "check_passed" if len(history.points) > 1 else "check_passed_alone"
    pattern = {0: passed, 3: "check_failed", 4: "check_unsure"}[exit_code(said)]
    return say(pattern, point=commit(history.points[max(one.points[-1] for one in history.segments)]))


def judged(history: History, one: Judged) -> str:
    """What `history check` says of one reason, and of which segment unless it is the newest."""
    segment = (one.before or one).segment
    return _reason(history, one) + (f" ({name(history.segments[segment])})" if segment else "")


def _reason(history: History, one: Judged) -> str:
    """The pattern of the reason, with all that is known of what was judged."""
    slots = {"gate": one.gate, "measure": called(one.measure)}
    if one.before is not None:
        unlike = _unlike(history.segments[one.segment], history.segments[one.before.segment])
        slots |= {"unlike": unlike, "outcome": one.before.outcome, "reason": _reason(history, one.before)}
    if change := one.change:
        parts = ", ".join(causes(change, history.segments[one.segment])[:3])
        slots |= {
            "size": size(change.delta, change.before, change.unit),
            "between": between(history, change),
            "p": certainty(change.p) + (f"; {parts}" if parts else ""),
        }
    if standing := one.standing:
        unit, base = standing.unit, standing.baseline
        if standing.stands_out is not None:
            slots["size"] = size(standing.stands_out, standing.last - standing.stands_out, unit)
        if one.limit is not None and base is not None:
            slots |= {
                "size": size(standing.delta, base, unit),
                "limit": amount(one.limit, unit),
                "points": f"{standing.points}",
                "newest": size(standing.last - base, base, unit),
            }
    return say(f"judged_{one.reason}", **slots)


# The document: what changed, what drifts, where everything stands.


def _change(history: History, segment: Segment, one: ChangeFound) -> Section:
    """A change of level, what it is made of, and what to open."""
    tone: Tone = "slower" if one.delta > 0 else "faster"
    sized = Cell(f"{called(one.measure)} {size(one.delta, one.before, one.unit)}", tone=tone)
    said: list[Span] = [sized, f" {between(history, one)}, {certainty(one.p)}"]
    return _article(said, one, segment, Line([say("open"), opened(history, one)], "note"))


def _article(said: list[Span], one: ChangeFound | DriftFound, segment: Segment, *after: Block) -> Section:
    parts = [Items([[text] for text in causes(one, segment)])] if one.causes else []
    return Section("", "", [Line(said), *parts, *after], look="change")


def _found(history: History, segment: Segment, most: int | None = None) -> list[Block]:
    """Its changes of level, of many the newest, and its drifts."""
    found: list[Block] = [_change(history, segment, one) for one in segment.changes[:most]]
    if older := len(segment.changes) - len(found):
        found.append(Line([say("older_changes", count=units.counted(older, "older change"))], "note"))
    return found + [
        _article([Cell(drift(history, one), tone="warn"), f", {certainty(one.p)}"], one, segment)
        for one in segment.drifts
    ]


def _standing(segment: Segment) -> list[Block]:
    """Where measures stand; a column that says nothing is left out."""
    columns = {head: [write(one) for one in segment.standings] for head, write in _STANDING.items()}
    shown = {head: texts for head, texts in columns.items() if any(texts)}
    made = grid("standing", list(shown), list(zip(*shown.values(), strict=True)), right=range(1, len(shown)))
    return [replace(made, caption=say("standing"))] if segment.standings else []


_STANDING: dict[str, Callable[[Standing], str]] = {
    "measure": lambda one: called(one.measure),
    "pinned": lambda one: amount(one.baseline, one.unit, one.level),
    "level": lambda one: amount(one.level, one.unit, one.baseline),
    "since pinned": lambda one: size(one.delta, one.baseline, one.unit),
    "95 % CI": lambda one: " to ".join(
        signed(end, one.unit, one.level) for end in (one.low, one.high) if end is not None
    ),
    "points": lambda one: str(one.points),
    "newest": lambda one: amount(one.last, one.unit, one.level),
}


def document(history: History) -> Section:
    """What changed first, what to know, then each segment: also the summary that the page offers to copy."""
    said = [Items([[text] for text in notes(history)], "warn")] if notes(history) else []
    segments = [_segment(history, one, LISTED) for one in history.segments]
    return Section("", "History", [Line([Strong(headline(history))], "first"), *said, *segments])


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


def _pair(history: History, segments: Sequence[Segment]) -> tuple[int, int]:
    """The two points that a page shows beside each other: around the newest change, else the last two."""
    change = max(
        (one for segment in segments for one in segment.changes), key=lambda one: one.bad, default=None
    )
    if change is not None:
        return change.good, change.bad
    points = sorted(at for segment in segments for at in segment.points)
    return points[-2] if len(points) > 1 else points[-1], points[-1]


def beside(history: History, segments: Sequence[Segment]) -> Section:
    """The measures of two points beside each other, those that either of them has."""
    pair, rows = _pair(history, segments), []
    for name, (unit, points) in _measures(segments).items():
        one, other = (points.get(at) for at in pair)
        if one is not None or other is not None:
            delta = None if one is None or other is None else other - one
            sides = amount(one, unit, other), amount(other, unit, one)
            rows.append([shorten(name, 120), *sides, size(delta, one, unit)])
    heads = [say("per_step"), *(commit(history.points[at]) for at in pair), "Delta"]
    made = grid("points", heads, rows[:LIMIT], right=(1, 2, 3), look="data sortable")
    title = say("two_points")
    made = replace(made, caption=title, left=len(rows[LIMIT:]), field="segments.series")
    return Section("", title, [made])


def _measures(segments: Sequence[Segment]) -> dict[str, tuple[str, dict[int, float]]]:
    """Measure -> its unit and its value at each point, over all segments of a program."""
    found: dict[str, tuple[str, dict[int, float]]] = {}
    for segment in segments:
        for row in segment.series:
            found.setdefault(row.measure, (row.unit, {}))[1].update(zip(row.points, row.values, strict=True))
    return found


def render_html(history: History) -> str:
    """Return the page."""
    history = neutral(history)
    text = headline(history)
    of: dict[object, list[Segment]] = {}  # by program, that of the newest point first
    for segment in history.segments:
        of.setdefault(segment.program, []).append(segment)
    programs = [_program(history, number, *segments) for number, segments in enumerate(of.values(), 1)]
    alerts = [Items([[text] for text in notes(history)], "alerts")] if notes(history) else []
    reading = Section("reading", "How to read this", [terms(TERMS["history"].items())], menu="How to read")
    page = Page(
        title=f"History: {text}", heading=text, tone=tone(history), sides=[("points", f"{len(history.points)}")], measured=alerts,
        sections=[*programs, reading], tool=history.tool, comment=markdown([document(history)]), skip=[*programs, reading][0].id,
    )  # fmt: skip
    return render(page)


def _program(history: History, number: int, own: Segment, *others: Segment) -> Section:
    """What changed in each segment of a program, the curves, and two points beside each other."""
    from tracediff.report.pictures.history import charts

    found: list[Block] = [*_segment(history, own).blocks, *(_segment(history, one) for one in others)]
    drawn, more = charts(history, [own, *others])
    left = say("rows_left_short", left=f"{more}", field="series") if more else ""
    found.append(part("", [Figure(chart, "", look="chart") for chart in drawn], columns=True))
    found += [*blocks.notes(left), beside(history, [own, *others])]
    menu = own.program.name or say("program", number=f"{number}")
    return Section(f"program-{number}", name(own), found, menu=menu)


def _segment(history: History, segment: Segment, most: int | None = None) -> Section:
    """What changed in a segment, of many changes the newest, and where it stands."""
    unlike = _unlike(segment, history.segments[0])
    first, last = (commit(history.points[segment.points[at]]) for at in (0, -1))
    slots = {"points": units.counted(len(segment.points), "point"), "searched": f"{segment.searched}"}
    pattern = "segment_of_one" if len(segment.points) == 1 else "segment"
    said = [say(pattern, first=first, last=last, **slots), unlike and say("segment_unlike", unlike=unlike)]
    found = [*blocks.notes(*said), *_found(history, segment, most), *_standing(segment)]
    return Section("", name(segment), found)
