"""The one place that prints messages: errors, warnings, notes, what was written. Reports print themselves."""

from __future__ import annotations

import click

from tracediff.errors import TracediffError, printable


def say(text: str, *, err: bool = True) -> None:
    """Print a message, on stderr unless told otherwise; names in it are made harmless."""
    click.echo(printable(text), err=err)


def say_error(error: TracediffError) -> None:
    """Print an error and what to do about it."""
    click.echo(f"error: {error}", err=True)
