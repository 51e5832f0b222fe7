"""Options on latencies that `tracediff latencies` and `tracediff compare` share, and reading both sides."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracediff.errors import TracediffError

if TYPE_CHECKING:
    from tracediff.model import Latencies, LatencySide, Result


@dataclass(frozen=True)
class LatencyOptions:
    """How files of latencies are read, and the side's files where they are options."""

    column: str | None
    unit: str | None
    warm_up: str
    baseline: tuple[Path, ...] = ()
    candidate: tuple[Path, ...] = ()


def _warm_up(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    if value == "auto" or (value.isdecimal() and value.isascii() and len(value) < 10):
        return value
    raise click.BadParameter("auto, or a number of iterations such as 0")


def _reading(prefix: str) -> list[Callable[[Any], Any]]:
    of = " of the latencies" if prefix else ""
    return [
        click.option(
            f"--{prefix}column",
            metavar="NAME",
            help=f"Column, key, benchmark or command{of}, where there are several.",
        ),
        click.option(
            f"--{prefix}unit",
            type=click.Choice(["ns", "us", "ms", "s"]),
            help=f"Unit{of}, where the file says none.",
        ),
        click.option(
            f"--{prefix}warmup",
            default="auto",
            show_default=True,
            metavar="N|auto|0",
            callback=_warm_up,
            help="First iterations of each run to leave out.",
        ),
    ]


def reading_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add --column, --unit, --warmup."""
    for option in reversed(_reading("")):
        command = option(command)
    return command


def beside_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add --latencies-baseline, --latencies-candidate and how they are read; the command gets `latencies`."""
    import functools

    @functools.wraps(command)
    def wrapped(**arguments: Any) -> None:
        taken = [
            arguments.pop(f"latencies_{name}")
            for name in ("column", "unit", "warmup", "baseline", "candidate")
        ]
        command(latencies=LatencyOptions(*taken), **arguments)

    decorated: Callable[..., None] = wrapped
    sides = [
        click.option(
            f"--latencies-{side}", metavar="PATH", multiple=True, type=click.Path(path_type=Path), help=text
        )
        for side, text in (
            (
                "baseline",
                "Latencies of the baseline without a profiler: a file a run, or a folder; repeatable (docs/latencies.md).",
            ),
            ("candidate", "The same of the candidate."),
        )
    ]
    for option in reversed([*sides, *_reading("latencies-")]):
        decorated = option(decorated)
    return decorated


def compare_sides(options: LatencyOptions, labels: tuple[str, str]) -> Latencies:
    """Read and compare both sides. Raises `TracediffError`: those of `read_side` and `compare_latencies`."""
    from tracediff.load.latency_sides import read_side
    from tracediff.measure.latencies import compare_latencies

    sides = [
        read_side(paths, column=options.column, unit=options.unit)
        for paths in (options.baseline, options.candidate)
    ]
    return compare_latencies(sides[0], sides[1], labels, options.warm_up)


def _name_here(error: TracediffError) -> None:
    """Name the options of an error as `tracediff compare` calls them."""
    error.message, error.fix = (
        re.sub(r"--(?=(?:column|unit|warmup)\b)", "--latencies-", text)
        for text in (error.message, error.fix or "")
    )


def _here(side: LatencySide, label: str) -> LatencySide:
    """A side by the label of its traces, and with the option that gave its unit as `tracediff compare` calls it."""
    import msgspec

    runs = [
        msgspec.structs.replace(run, unit_from="--latencies-unit") if run.unit_from == "--unit" else run
        for run in side.runs
    ]
    return msgspec.structs.replace(side, label=label, runs=runs)


def reader(options: LatencyOptions) -> Callable[[Result], Result]:
    """Read both sides now, and return what adds their comparison to a result.

    Raises `TracediffError`: latencies-one-side, and those of `compare_sides`.
    """
    if not options.baseline and not options.candidate:
        if options.column or options.unit or options.warm_up != "auto":
            raise TracediffError(
                "latencies-one-side",
                "options on latencies were given and no latencies",
                fix="give --latencies-baseline and --latencies-candidate",
                exit_code=2,
            )
        return lambda result: result
    if not options.baseline or not options.candidate:
        raise TracediffError(
            "latencies-one-side",
            "latencies were given for one side only",
            fix="give --latencies-baseline and --latencies-candidate",
            exit_code=2,
        )
    try:
        found = compare_sides(options, ("baseline", "candidate"))
    except TracediffError as error:
        _name_here(error)
        raise

    def add(result: Result) -> Result:
        import msgspec

        from tracediff.measure.latencies_beside import beside

        sides = {
            side: _here(getattr(found, side), getattr(result.inputs, side).label)
            for side in ("baseline", "candidate")
        }
        named = msgspec.structs.replace(found, **sides)
        return msgspec.structs.replace(result, latencies=beside(named, result))

    return add
