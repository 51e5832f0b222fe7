"""What inputs are, on a terminal: `tracediff inputs`."""

from __future__ import annotations

from collections import Counter

from rich.console import Console

from tracediff.formats.recognise import counted
from tracediff.model.contents import Contents, Input, Inputs, Steps, Trace
from tracediff.report.amounts import LISTED
from tracediff.report.console import print_line
from tracediff.report.escape import neutral
from tracediff.report.units import count, size

# units whose singular is not the plural without s
_ONE = {"copies": "copy", "switches": "switch", "holds and waits": "hold or wait"}


class _Printer:
    """Prints lines with an indent."""

    def __init__(self, console: Console, tables: bool) -> None:
        self._console, self._tables = console, tables

    def input(self, one: Input, indent: int) -> None:
        line, console, inner = print_line, self._console, indent + 2
        line(console, (one.name, "bold"), f"  {one.title}, {size(one.bytes)}", indent=indent)
        if one.problem is not None:
            line(console, (f"{one.problem.message} [{one.problem.slug}]", "red"), indent=inner)
            if one.problem.fix:
                line(console, f"fix: {one.problem.fix}", indent=inner)
        if one.facts:
            line(console, "; ".join(one.facts), indent=inner)
        for warning in one.warnings:
            line(console, (f"{warning.message} [{warning.slug}]", "yellow"), indent=inner)
        if one.contents is not None:
            self._contents(one.contents, inner)
        for member in one.members:
            self.input(member, inner)
        if one.next:
            line(console, ("next: ", "bold"), one.next, indent=inner)

    def _contents(self, found: Contents, indent: int) -> None:
        line, console = print_line, self._console
        line(console, "; ".join(_recorded(found)), indent=indent)
        self._list("holds", [_amount(one) for one in found.traces if one.captured], indent)
        domains = [f"{domain.name or 'default'} ({count(domain.ranges)})" for domain in found.domains]
        self._list("NVTX domains", _largest(domains), indent)
        self._list("steps", [_steps(found.steps)], indent)
        line(console, ("a comparison could say", "bold"), indent=indent)
        for answer in found.answers:
            mark = ("yes ", "green") if answer.yes else ("no  ", "yellow")
            line(console, mark, f"{answer.question}: {answer.reason}", indent=indent + 2, hang=4)
        missing = [f"{one.name}: {one.flag}" for one in found.traces if one.flag]
        if missing:
            line(console, ("not captured, and what records it", "bold"), indent=indent)
        for text in missing:
            line(console, text, indent=indent + 2, hang=4)
        largest = sorted(found.tables, key=lambda table: -table.rows)
        counts = [count(table.rows) if table.rows >= 0 else "?" for table in largest]
        tables = [f"{table.name} {many}" for table, many in zip(largest, counts, strict=True)]
        self._list("tables", tables if self._tables else _largest(tables), indent)

    def _list(self, word: str, items: list[str], indent: int) -> None:
        if items:
            print_line(self._console, (f"{word}: ", "bold"), ", ".join(items), indent=indent, hang=2)


def render_inputs_terminal(report: Inputs, console: Console, *, tables: bool = False) -> None:
    """Print every input; `tables`: all tables of exports instead of the largest."""
    printer = _Printer(console, tables)
    for number, one in enumerate(neutral(report).inputs):
        if number:
            console.print()
        printer.input(one, 0)


def _recorded(found: Contents) -> list[str]:
    words = [f"recorded by {found.recorder} {found.recorder_version}".rstrip()]
    words += [f"schema {found.schema_version}"] if found.schema_version else []
    words += [f"driver {found.driver_version}"] if found.driver_version else []
    if found.start_ns is not None and found.end_ns is not None:
        words.append(f"{(found.end_ns - found.start_ns) / 1e9:.3f} s")
    models = Counter(device.model or "GPU" for device in found.devices)
    words += [f"{number} x {model}" for model, number in sorted(models.items())] or ["no GPU"]
    words.append(f"{found.processes} processes" if found.processes != 1 else "1 process")
    words += [f"CUDA graphs traced by {found.graph_mode}"] if found.graph_mode else []
    return words


def _steps(steps: Steps | None) -> str:
    if steps is None:
        return "no labels"
    several = f", in {steps.processes} processes" if steps.processes > 1 else ""
    return f"{counted(steps.labels, 'label')} by the rule {steps.rule}{several}"


def _amount(trace: Trace) -> str:
    """`1,234 kernels`; the unit in brackets where the name does not end in it."""
    unit, number = trace.unit, count(trace.count)
    stem = trace.name.removesuffix(unit)
    if trace.count == 1:
        unit, number = _ONE.get(unit, unit.removesuffix("s")), "1"
    return f"{number} {stem}{unit}" if stem != trace.name else f"{trace.name} ({number} {unit})"


def _largest(items: list[str]) -> list[str]:
    return items if len(items) <= LISTED else [*items[:LISTED], f"and {len(items) - LISTED} more"]
