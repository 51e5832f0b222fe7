"""Words that companions share: figures in their sentences, and the reports of their own commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from tracediff.companions.model import LatencyReport, NcuReport, TrtexecReport

if TYPE_CHECKING:
    from rich.console import Console

Report: TypeAlias = NcuReport | TrtexecReport | LatencyReport

# Figures: times in ns, bytes, counts; plain ASCII with three digits.

_SIZES = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3))
_COUNTS = (("G", 1e9), ("M", 1e6), ("k", 1e3))
_TIMES = (("s", 1e9), ("ms", 1e6), ("us", 1e3))


def _digits(value: float) -> str:
    """Three digits, no exponent."""
    decimals = 0 if abs(value) >= 99.95 else 1 if abs(value) >= 9.995 else 2
    return f"{value:,.{decimals}f}"


def _scaled(value: float, units: tuple[tuple[str, float], ...], plain: str) -> str:
    for unit, size in units:
        if abs(value) >= size:
            return f"{_digits(value / size)} {unit}"
    return f"{_digits(value) if value % 1 else f'{value:.0f}'} {plain}".rstrip()


def time(ns: float) -> str:
    """Write a duration."""
    return _scaled(ns, _TIMES, "ns")


def size(value: float) -> str:
    """Write bytes in decimal units."""
    return _scaled(value, _SIZES, "B")


def count(value: float) -> str:
    """Write a count of instructions."""
    return _scaled(value, _COUNTS, "")


def clock(hz: float) -> str:
    """Write a frequency."""
    return f"{hz / 1e9:.2f} GHz"


def percent(value: float) -> str:
    """Write a percentage: whole, with a digit below ten."""
    return f"{value:.0f}" if abs(value) >= 9.95 or value == 0 else f"{value:.1f}"


def both(before: str, after: str) -> str:
    """Write a change; the unit once where both have the same."""
    one, _, unit = before.rpartition(" ")
    same = one and unit == after.rpartition(" ")[2] and unit.isalpha()
    return f"{one if same else before} -> {after}"


def points(before: float, after: float) -> str:
    """Write a change of a percentage."""
    return f"{percent(before)} -> {percent(after)} %"


def times(before: float, after: float) -> str:
    """Write how often the smaller goes into the larger."""
    ratio = max(before, after) / min(before, after)
    return f"{ratio:,.0f} x" if ratio >= 99.5 else f"{ratio:.1f} x" if ratio >= 1.095 else f"{ratio:.2f} x"


def part(delta: float, base: float) -> str:
    """Write a change as a part of its base, in brackets after a blank; empty without a base."""
    return f" ({100 * delta / base:+.1f} %)" if base else ""


def signed(ns: float) -> str:
    """Write a difference of times."""
    return f"{'-' if ns < 0 else '+'}{time(abs(ns))}"


# The report of a companion's own command: its renderer prints it, templates named after its kind write it.


def render_terminal(report: Report, console: Console, top: int = 10) -> None:
    """Print the report; `top`: rows of a table."""
    from tracediff.report import beside
    from tracediff.report.escape import neutral

    section = getattr(neutral(report), report.kind)
    beside.renderer(section).print_report(section, console, top)


def render_markdown(report: Report, top: int = 10) -> str:
    """Fill the template KIND.md.j2; `top`: rows of a table."""
    from tracediff.report import templates, words
    from tracediff.report.escape import markdown_cell, markdown_code

    template = templates.markdown_environment().get_template(f"{report.kind}.md.j2")
    return template.render(**_context(report), words=words, cell=markdown_cell, code=markdown_code, top=top)


def render_html(report: Report) -> str:
    """Fill the template KIND.html.j2."""
    from tracediff.report import beside, templates
    from tracediff.report.html import helpers, own_files

    template = templates.html_environment().get_template(f"{report.kind}.html.j2")
    styles = [beside.renderer(getattr(report, report.kind)).STYLE]
    return template.render(
        **_context(report), comment=render_markdown(report), **own_files(styles=styles), **helpers()
    )


def _context(report: Report) -> dict[str, Any]:
    from tracediff.report import beside
    from tracediff.report.escape import neutral

    found = neutral(report)
    section = getattr(found, found.kind)
    return {"r": found, found.kind: section, f"{found.kind}_words": beside.renderer(section)}
