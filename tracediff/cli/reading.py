"""Options that say how captures are read, the same for every command that reads them."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from tracediff.measure.run import Reading


step_regex_option = click.option(
    "--step-regex", metavar="REGEX", help="NVTX ranges that begin a step; groups number, ctx, tokens, gen."
)
whole_capture_option = click.option(
    "--whole-capture", is_flag=True, help="No step labels: count each capture as one step."
)
memory_limit_option = click.option(
    "--memory-limit",
    metavar="SIZE",
    help="Memory for DuckDB, e.g. 2GiB; the rest spills to a scratch folder in $TMPDIR.",
)
threads_option = click.option("--threads", type=click.IntRange(1), help="Threads for DuckDB.")


def complete_files(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Have the shell complete names of files, for arguments that may be more than a name."""
    return [CompletionItem(incomplete, type="file")]


def min_steps_option(text: str) -> Callable[..., Any]:
    """--min-steps; `text` says what a workload with fewer steps is left out of."""
    return click.option("--min-steps", type=click.IntRange(1), default=3, show_default=True, help=text)


def progress(quiet: bool) -> Callable[[str], None]:
    """What tells the user at a terminal which file is being read."""
    shown = sys.stderr.isatty() and not quiet

    def say(name: str) -> None:
        if shown:
            click.echo(f"reading {name}", err=True)

    return say


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
        step_regex_option,
        whole_capture_option,
        click.option("--host-only", is_flag=True, help="Captures without GPU kernels: measure host time."),
        memory_limit_option,
        threads_option,
    ]
    for option in reversed(options):
        decorated = option(decorated)
    return decorated
