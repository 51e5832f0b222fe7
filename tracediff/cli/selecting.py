"""Options that say which part of the exports is measured, and where they are read: --steps, --window, --ranks, ..."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from tracediff.cli.cache import cache_option
from tracediff.cli.reading import (
    memory_limit_option,
    min_steps_option,
    step_regex_option,
    threads_option,
    whole_capture_option,
)


def selection_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --steps, --window and --ranks; the command gets `only`, the selection of each of two sides."""

    @click.option(
        "--steps", metavar="A-B", help="Only these steps, by the number in their label (else by their place, from 1); A-B/C-D: for each side.",
    )  # fmt: skip
    @_with_window_and_ranks
    @functools.wraps(command)
    def wrapped(steps: str | None, window: str | None, ranks: str | None, **rest: Any) -> Any:
        return command(only=_selections(steps, window, ranks), **rest)

    return wrapped


def window_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --window and --ranks; the command gets `only`, the selection of each of two sides."""

    @_with_window_and_ranks
    @functools.wraps(command)
    def wrapped(window: str | None, ranks: str | None, **rest: Any) -> Any:
        return command(only=_selections(None, window, ranks), **rest)

    return wrapped


def measured_options(
    min_steps: str, *, steps: bool = True
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add every option that says what of the captures is measured, and how they are read.

    The command gets `step_regex`, `whole_capture`, `only`, `min_steps`, `memory_limit`, `threads`, `cached`, `skip_unreadable`
    and `scheduler`. `min_steps`: what a workload with fewer steps is left out of; `steps`: with --steps, where the
    command has no option of that name itself.
    """
    options = (
        step_regex_option, whole_capture_option, selection_options if steps else window_options,
        min_steps_option(min_steps), memory_limit_option, threads_option, cache_option, reading_where,
    )  # fmt: skip

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def reading_where(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --skip-unreadable and --scheduler."""
    command = click.option(
        "--scheduler", metavar="ADDRESS", help="Read on the workers of a Dask cluster: tcp://HOST:PORT, or a scheduler file.",
    )(command)  # fmt: skip
    return click.option(
        "--skip-unreadable", is_flag=True,
        help="Leave exports out that cannot be read, and say which, instead of ending with an error.",
    )(command)  # fmt: skip


def _with_window_and_ranks(command: Callable[..., Any]) -> Callable[..., Any]:
    command = click.option("--ranks", metavar="LIST", help="Only these ranks: 0,3-7.")(command)
    return click.option(
        "--window", metavar="FROM-TO",
        help="Only steps that lie in this time of the trace whole: 1.5s-2.5s; A-B/C-D: for each side.",
    )(command)  # fmt: skip


def _selections(steps: str | None, window: str | None, ranks: str | None) -> Any:
    from tracediff.load.selection import selections

    try:
        return selections(steps, window, ranks)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
