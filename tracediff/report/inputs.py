"""What files are and what is in them, on a terminal."""

from __future__ import annotations

from rich.console import Console

from tracediff.model.contents import Contents, Input, Inputs
from tracediff.report.escape import neutral
from tracediff.report.terminal import print_line
from tracediff.report.units import count, size

# units whose singular is not the plural without s
_ONE = {"copies": "copy", "switches": "switch", "holds and waits": "hold or wait"}
_LARGEST = 8  # tables and domains that are listed


def render_inputs_terminal(report: Inputs, console: Console, *, tables: bool = False) -> None:
    """Print every input; `tables`: all tables of exports instead of the largest."""
    for number, one in enumerate(neutral(report).inputs):
        if number:
            console.print()
        _input(one, console, tables, 0)


def _input(one: Input, console: Console, tables: bool, indent: int) -> None:
    print_line(console, (one.name, "bold"), f"  {one.title}, {size(one.bytes)}", indent=indent)
    inner = indent + 2
    if one.problem is not None:
        print_line(console, (f"{one.problem.message} [{one.problem.slug}]", "red"), indent=inner)
        if one.problem.fix:
            print_line(console, f"fix: {one.problem.fix}", indent=inner)
    if one.facts:
        print_line(console, "; ".join(one.facts), indent=inner)
    for warning in one.warnings:
        print_line(console, (f"{warning.message} [{warning.slug}]", "yellow"), indent=inner)
    if one.contents is not None:
        _contents(one.contents, console, tables, inner)
    for member in one.members:
        _input(member, console, tables, inner)
    if one.next:
        print_line(console, ("next: ", "bold"), one.next, indent=inner)


def _contents(found: Contents, console: Console, tables: bool, indent: int) -> None:
    print_line(console, "; ".join(_recorded(found)), indent=indent)
    _list(
        console,
        "holds",
        [_held(one.count, one.unit, one.name) for one in found.traces if one.captured],
        indent,
    )
    if found.domains:
        shown = [
            f"{domain.name or 'default'} ({count(domain.ranges)})" for domain in found.domains[:_LARGEST]
        ]
        _list(console, "NVTX domains", _cut(shown, len(found.domains)), indent)
    steps = found.steps
    said = f"{steps.labels} {'label' if steps.labels == 1 else 'labels'} by the rule {steps.rule}" + (
        f", in {steps.processes} processes" if steps.processes > 1 else ""
    ) if steps else "no labels"  # fmt: skip
    _list(console, "steps", [said], indent)
    print_line(console, ("a comparison could say", "bold"), indent=indent)
    for answer in found.answers:
        mark = ("yes ", "green") if answer.yes else ("no  ", "yellow")
        print_line(console, mark, f"{answer.question}: {answer.reason}", indent=indent + 2, hang=4)
    missing = [f"{one.name}: {one.flag}" for one in found.traces if one.flag]
    if missing:
        print_line(console, ("not captured, and what records it", "bold"), indent=indent)
        for text in missing:
            print_line(console, text, indent=indent + 2, hang=4)
    largest = sorted(found.tables, key=lambda table: -table.rows)
    shown = [f"{table.name} {count(table.rows) if table.rows >= 0 else '?'}" for table in largest]
    _list(console, "tables", shown if tables else _cut(shown[:_LARGEST], len(shown)), indent)


def _recorded(found: Contents) -> list[str]:
    words = [f"recorded by {found.recorder} {found.recorder_version}".rstrip()]
    if found.schema_version:
        words.append(f"schema {found.schema_version}")
    if found.driver_version:
        words.append(f"driver {found.driver_version}")
    if found.start_ns is not None and found.end_ns is not None:
        words.append(f"{(found.end_ns - found.start_ns) / 1e9:.3f} s")
    models: dict[str, list[int]] = {}
    for device in found.devices:
        models.setdefault(device.model or "GPU", []).append(device.device)
    words += [f"{len(numbers)} x {model}" for model, numbers in sorted(models.items())] or ["no GPU"]
    words.append(f"{found.processes} processes" if found.processes != 1 else "1 process")
    if found.graph_mode:
        words.append(f"CUDA graphs traced by {found.graph_mode}")
    return words


def _held(number: int, unit: str, name: str) -> str:
    if number == 1:
        one = _ONE.get(unit, unit.removesuffix("s"))
        return f"1 {name.removesuffix(unit)}{one}" if name.endswith(unit) else f"{name} (1 {one})"
    return f"{count(number)} {name}" if name.endswith(unit) else f"{name} ({count(number)} {unit})"


def _list(console: Console, word: str, items: list[str], indent: int) -> None:
    if items:
        print_line(console, (f"{word}: ", "bold"), ", ".join(items), indent=indent, hang=2)


def _cut(shown: list[str], total: int) -> list[str]:
    return shown if total <= len(shown) else [*shown, f"and {total - len(shown)} more"]
