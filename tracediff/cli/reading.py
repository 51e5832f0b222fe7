"""Arguments and options of the commands that answer questions about captures: query and shell."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from tracediff.measure.run import Reading


def reading_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that say how captures are read; the command gets `reading`, a function that makes a `Reading`."""

    @functools.wraps(command)
    def wrapped(
        step_regex: str | None,
        whole_capture: bool,
        host_only: bool,
        memory_limit: str | None,
        threads: int | None,
        **arguments: Any,
    ) -> None:
        def reading() -> Reading:
            from tracediff.measure.session import reading_of

            return reading_of(step_regex, whole_capture, host_only, memory_limit, threads)

        command(reading=reading, **arguments)

    decorated: Callable[..., None] = wrapped
    options = [
        click.option(
            "--step-regex",
            metavar="REGEX",
            help="NVTX ranges that begin a step; groups number, ctx, tokens, gen.",
        ),
        click.option("--whole-capture", is_flag=True, help="No step labels: count each capture as one step."),
        click.option("--host-only", is_flag=True, help="Captures without GPU kernels: measure host time."),
        click.option(
            "--memory-limit", metavar="SIZE", help="Memory for DuckDB, e.g. 2GiB; the rest spills to disk."
        ),
        click.option("--threads", type=click.IntRange(1), help="Threads for DuckDB."),
    ]
    for option in reversed(options):
        decorated = option(decorated)
    return decorated
