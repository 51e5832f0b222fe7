"""Latencies without a profiler as text: the verdict, the figures, and what to doubt; on a terminal, in Markdown, on a page."""

from __future__ import annotations

from dataclasses import astuple, dataclass

from markupsafe import Markup
from rich.console import Console

from tracediff.companions.model import (
    Latencies,
    LatencyRow,
    LatencyRun,
    LatencySide,
)
from tracediff.model import Check
from tracediff.report import units, words
from tracediff.report.blocks import Code, Strong
from tracediff.report.console import TONES, has_unicode, print_heading, print_line, print_table
from tracediff.report.document import (
    Block,
    Heading,
    Items,
    Number,
    Paragraph,
    Span,
    Table,
    markdown,
)
from tracediff.report.escape import Markdown, shorten
from tracediff.report.pictures import distribution
from tracediff.report.pictures.style import HALF_NARROW, Layout, for_page

STYLE = "latencies.css"
NONE = "not known"
LABELS = {"mean": "mean", "median": "median", "p90": "p90", "p99": "p99", "min": "minimum"}
_LAYOUTS = (Layout("wide-figure", 500.0), HALF_NARROW)
_DRAWN_TO = 0.995  # of the iterations: a single slow one would press all others together


@dataclass(frozen=True)
class Line:
    """A row of the table as text; the change is `~` where it is within noise."""

    label: str
    before: str
    after: str
    delta: str
    change: str
    interval: str
    level: str
    q: str


def headline(found: Latencies) -> str:
    """The first sentence: the verdict, what changed, by how much, how sure."""
    reason = found.verdict_reason
    return f"{words.VERDICTS[found.verdict].word}: {reason[:1].lower()}{reason[1:]}"


def gist(found: Latencies) -> str:
    """The first sentence in a line of a comment."""
    return f"Latencies without a profiler: {headline(found)}"


def scale(found: Latencies) -> units.Scale:
    """Choose the one scale of all figures."""
    return units.scale_for([value for row in found.rows for value in (row.baseline_ns, row.candidate_ns)])


def lines(found: Latencies) -> list[Line]:
    """Write every row."""
    s = scale(found)
    return [_line(row, s) for row in found.rows]


def _line(row: LatencyRow, s: units.Scale) -> Line:
    delta = units.delta(s, row.delta_ns, row.baseline_ns, row.level)
    known = row.ci_low_ns is not None and row.ci_high_ns is not None
    return Line(
        LABELS[row.statistic],
        s.number(row.baseline_ns),
        s.number(row.candidate_ns),
        delta.signed,
        delta.percent,
        f"{s.signed(row.ci_low_ns or 0.0)} to {s.signed(row.ci_high_ns or 0.0)}" if known else NONE,
        words.LEVELS[row.level][0],
        "" if row.q_value is None else units.probability(row.q_value),
    )


def interval_name(found: Latencies) -> str:
    """Name the intervals for what they hold."""
    runs = found.step.runs
    return "95 % CI" if min(runs.baseline, runs.candidate) > 1 else "95 % CI within the runs"


def facts(found: Latencies) -> str:
    """P where the verdict does not say it, runs, iterations and the noise floor of the mean."""
    step = found.step
    parts = []
    if step.p_value is not None and found.verdict not in ("improved", "regressed"):
        parts.append(f"p {units.probability(step.p_value)}")
    parts.append(
        f"{step.runs.baseline} + {step.runs.candidate} runs, {step.steps.baseline:,} + {step.steps.candidate:,} iterations"
    )
    if step.noise_floor_ns is not None:
        floor = (
            f"noise floor {scale(found).time(step.noise_floor_ns)}: identical runs differ by up to this much"
        )
        origin = "assumed" if step.noise_source == "assumed" else "from the repeats and an assumed scatter"
        parts.append(f"{floor} ({origin})")
    return "; ".join(parts)


def source(side: LatencySide) -> str:
    """Say which files a side is, and how they were read."""
    names = [shorten(run.name, 60) for run in side.runs]
    listed = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    read = sorted({_read_as(run) for run in side.runs})
    return f"{listed} ({'; '.join(read[:3])})"


def _read_as(run: LatencyRun) -> str:
    column = f", {shorten(run.column, 60)}" if run.column else ""
    return f"{run.format}{column}, in {run.unit} by {shorten(run.unit_from, 60)}"


def doubtful(found: Latencies) -> list[Check]:
    """The checks that did not pass."""
    return [check for check in found.checks if check.status != "ok"]


def doubts(found: Latencies) -> str:
    """Name the checks that did not pass; empty where all did."""
    bad = [check.name.replace("_", " ") for check in doubtful(found)]
    head = f"{len(bad)} of {len(found.checks)} checks of the measurement did not pass"
    return f"{head}: {', '.join(bad)}" if bad else ""


def passed(found: Latencies) -> str:
    """Count the checks that passed."""
    whole = len(found.checks)
    return f"{whole - len(doubtful(found))} of {whole} checks of the measurement passed"


def _of_check(check: Check) -> tuple[str, str]:
    return (
        f"{check.name.replace('_', ' ')}: ",
        f"baseline {check.baseline}, candidate {check.candidate}: {check.message}",
    )


def outliers(side: LatencySide) -> str:
    """Name the iterations that are farthest out, of all runs."""
    found = [(one, run) for run in side.runs for one in run.largest]
    if not found:
        return ""
    found.sort(key=lambda pair: -pair[0].ns)
    s = units.scale_for([one.ns for one, _ in found])
    several = len(side.runs) > 1
    return ", ".join(
        f"iteration {one.iteration}{f' of {run.name}' if several else ''} {s.time(one.ns)}"
        for one, run in found[:5]
    )


def notes(found: Latencies) -> list[str]:
    """Runs that were left out."""
    runs = [*found.baseline.runs, *found.candidate.runs]
    return [f"{run.name}: left out, far from the other runs of its side" for run in runs if run.left_out]


def traced(found: Latencies) -> list[str]:
    """The iteration beside the traced step of each side."""
    out = []
    for one in found.traced:
        s = units.scale_for([one.unprofiled_ns, one.traced_ns])
        text = f"{one.side}: {s.time(one.unprofiled_ns)} per iteration, {s.time(one.traced_ns)} per step under the profiler"
        if one.cost_ns is not None and one.share is not None:
            text += f": {s.delta(one.cost_ns)} ({100 * one.share:+.1f} %)"
        if one.ci_low_ns is not None and one.ci_high_ns is not None:
            text += f", 95 % CI {s.signed(one.ci_low_ns)} to {s.signed(one.ci_high_ns)}"
        out.append(text)
    return out


def distributions(found: Latencies) -> distribution.Plot:
    """Which part of the iterations took at most so long, up to `_DRAWN_TO` of them."""
    curves: dict[str, distribution.Curve] = {}
    for name, side in _sides(found):
        steps = len(side.quantiles_ns) - 1
        shown = side.quantiles_ns[: int(_DRAWN_TO * steps) + 1]
        curves[name] = [(ns, place / steps) for place, ns in enumerate(shown)]
    unit = scale(found).unit
    figures = [
        f"{row.label} {row.before} -> {row.after} {unit}"
        for row in lines(found)
        if row.label in ("median", "p99")
    ]
    return distribution.Plot("Latencies", ", ".join(figures), curves)


def drawn(found: Latencies) -> Markup:
    """The distributions of both sides, for a wide page and for a telephone."""
    title, plots, what = "Distribution of the latencies", [distributions(found)], "of the iterations took at most so long"  # fmt: skip
    return for_page(lambda layout: distribution.draw(title, plots, layout, what), *_LAYOUTS)


def tail_left_out(found: Latencies) -> bool:
    """Whether the slowest iterations are not drawn."""
    curves = distributions(found).curves
    return any(side.quantiles_ns[-1] > curves[name][-1][0] for name, side in _sides(found))


def _sides(found: Latencies) -> tuple[tuple[str, LatencySide], tuple[str, LatencySide]]:
    return ("baseline", found.baseline), ("candidate", found.candidate)


def print_report(found: Latencies, console: Console, top: int) -> None:
    """Print the report of two sides without traces."""
    _verdict(found, console, indent=0)
    _rest(found, console)


def print_section(found: Latencies, console: Console, top: int) -> None:
    """Print them as a part of a comparison of traces. The names are neutral already."""
    print_heading(console, "Latencies without a profiler")
    _verdict(found, console, indent=2)
    _rest(found, console)


def _verdict(found: Latencies, console: Console, indent: int) -> None:
    verdict = words.VERDICTS[found.verdict]
    sign = verdict.sign if has_unicode(console) else ""
    print_line(console, (f"{sign} {headline(found)}".strip(), f"bold {TONES[verdict.tone]}"), indent=indent)
    print_line(console, (facts(found), "dim"))


def _rest(found: Latencies, console: Console) -> None:
    _table(found, console)
    for line in traced(found):
        print_line(console, ("profiling: ", "dim"), line)
    for text in (found.note, found.step.power_note, *notes(found)):
        if text:
            print_line(console, (text, "dim"))
    for name, side in _sides(found):
        print_line(console, (f"{name}: {source(side)}", "dim"), hang=2)
    print_line(console, (passed(found), "dim"))
    for check in doubtful(found):
        head, text = _of_check(check)
        print_line(console, (head, "yellow"), text, hang=2)
    for name, side in _sides(found):
        if far := outliers(side):
            print_line(console, (f"far out in the {name}: {far}", "dim"), hang=2)


def _table(found: Latencies, console: Console) -> None:
    rows = lines(found)
    head = ("baseline", "candidate", "delta", "change", interval_name(found), "level", "q")
    table = [(scale(found).unit, *head), *map(astuple, rows)]
    if not any(row.q for row in rows):
        table = [line[:-1] for line in table]
    console.print()
    print_table(console, table[0], table[1:], left=(0, 6))
    console.print()


def comment(found: Latencies) -> Markdown:
    """The table and what is to be said of it, as Markdown."""
    return markdown(_blocks(found))


def document(found: Latencies) -> list[Block]:
    """The section of a post-mortem."""
    title = Heading(2, "Latencies without a profiler")
    return [title, Paragraph([Strong(headline(found))]), *_blocks(found)]


def _blocks(found: Latencies) -> list[Block]:
    rows: list[list[Span]] = [
        [
            line.label, Number(line.before), Number(line.after), Number(line.delta), Number(line.change),
            Number(line.interval), line.level + (f", q {line.q}" if line.q else ""),
        ]
        for line in lines(found)
    ]  # fmt: skip
    unit = f"{scale(found).unit} per iteration"
    said = [f"{facts(found)}.", *(f"Profiling, {line}." for line in traced(found)), found.note]
    bad = [["".join(_of_check(check))] for check in doubtful(found)]
    files = ["Baseline ", Code(source(found.baseline)), ", candidate ", Code(source(found.candidate)), "."]
    return [
        Table([unit, "Baseline", "Candidate", "Delta", "Change", interval_name(found), "Level"], rows),
        *(Paragraph([text]) for text in said if text),
        *([Items(bad)] if bad else []),
        Paragraph([f"{passed(found)}. ", *files]),
    ]
