"""`tracediff windows`: which iterations of a run are worth capturing, by a log of its iterations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracediff.cli.say import say
from tracediff.errors import TracediffError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracediff.companions.bench.windows import Window

_WHY = {"context": "context phase", "generation": "steady generation", "largest_batch": "largest batch"}
_HEAD = ("window", "what", "context requests", "context tokens", "generation tokens", "host time")


@click.command(
    epilog="""
\b
Examples:
  tracediff windows server.log
  tracediff capture plan.toml --windows server.log
"""
)
@click.argument("log", metavar="LOG", type=click.Path(path_type=Path))
def windows(log: Path) -> None:
    """Propose iterations to capture, by the iteration log of an earlier run.

    LOG is what TensorRT-LLM prints with print_iter_log: true, or a file of trtllm-bench --iteration_log.
    """
    found = proposed(log)
    rows = [_HEAD, *map(_row, found)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (text.ljust(width) for text, width in zip(row, widths, strict=True))
        say("  ".join(cells).rstrip(), err=False)
    say(f"means per iteration; next: tracediff capture --steps {steps_of(found)}", err=False)


def proposed(log: Path) -> list[Window]:
    """The windows of a log, at least one. Raises `TracediffError`: no-windows and those of reading it."""
    from tracediff.companions.bench.read import read
    from tracediff.companions.bench.windows import propose

    found = propose(read(log).iterations)
    if not found:
        raise TracediffError(
            "no-windows",
            f"{log.name} has no iteration that says its requests",
            fix="a log of TensorRT-LLM with print_iter_log: true, or a file of trtllm-bench --iteration_log",
        )
    return found


def steps_of(windows: Sequence[Window]) -> str:
    """As `--steps` takes them."""
    return ",".join(f"{one.first}-{one.last}" for one in windows)


def _row(one: Window) -> tuple[str, ...]:
    counts = (one.ctx_reqs, one.ctx_tokens, one.gen_tokens)
    host = "-" if one.host_ms is None else f"{one.host_ms:.4g} ms"
    return (
        steps_of([one]),
        _WHY[one.why],
        *("-" if value is None else f"{value:,.6g}" for value in counts),
        host,
    )
