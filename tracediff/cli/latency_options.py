"""Options on latencies that `tracediff latencies` and `tracediff compare` share."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click


def _warm_up(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    from tracediff.measure.beside import is_warm_up

    if is_warm_up(value):
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

    @functools.wraps(command)
    def wrapped(**arguments: Any) -> None:
        from tracediff.measure.beside import LatencyOptions

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
