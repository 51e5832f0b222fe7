"""Options that say which part of the exports is measured, and where they are read: --steps, --window, --ranks, ..."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from tracediff.cli.cache import cache_option

if TYPE_CHECKING:
    from tracediff.execution.run import Reading
if TYPE_CHECKING:
    from tracediff.compare.gates import Policy
    from tracediff.model import Result


# Options that say how captures are read, the same for every command that reads them.


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
            from tracediff.compare.session import reading_of

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
    from tracediff.formats.selection import selections

    try:
        return selections(steps, window, ranks)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


# Options and judgement of gates, for every command with a `Result`.

_PYPROJECT = Path("pyproject.toml")  # of the working directory: no other folder is looked at


@dataclass(frozen=True)
class Gating:
    """What the command line and the policy ask for."""

    policy: Policy
    annotations: str | None = None

    def judge(self, result: Result) -> Result:
        """Judge every gate as of today (UTC); the outcomes are in the result."""
        from tracediff.compare.gates import judged

        return judged(self.policy, result, datetime.now(UTC).date())


def policy_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add --fail-on, --warn-on, --policy and --no-policy; the command gets `gating`.

    Bad gates and policies are errors before any work is done.
    """

    @functools.wraps(command)
    def wrapped(
        fail_on: tuple[str, ...],
        warn_on: tuple[str, ...],
        policy_file: Path | None,
        no_policy: bool,
        annotations: str | None = None,
        **arguments: Any,
    ) -> None:
        policy = _policy(fail_on, warn_on, policy_file, no_policy)
        command(gating=Gating(policy, annotations), **arguments)

    decorated: Callable[..., None] = wrapped
    options = [
        click.option(
            "--fail-on",
            multiple=True,
            metavar="METRIC:+LIMIT",
            help="Gate, e.g. step:+3%, gc:+200us, launches:+10 or kernel:NAME:+5%; repeatable.",
        ),
        click.option(
            "--warn-on", multiple=True, metavar="METRIC:+LIMIT", help="The same, without failing; repeatable."
        ),
        click.option(
            "--policy",
            "policy_file",
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="Gates and waivers in TOML. [default: [tool.tracediff] of ./pyproject.toml]",
        ),
        click.option("--no-policy", is_flag=True, help="Read no policy from ./pyproject.toml."),
    ]
    for option in reversed(options):
        decorated = option(decorated)
    return decorated


def gate_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add `policy_options` and --annotations."""
    option = click.option(
        "--annotations", type=click.Choice(["github"]), help="Print verdict and gates as annotations."
    )
    return option(policy_options(command))


def _policy(
    fail_on: tuple[str, ...], warn_on: tuple[str, ...], policy_file: Path | None, no_policy: bool
) -> Policy:
    from tracediff.compare.gates import Policy, parse_gate, read_policy

    if policy_file is not None and no_policy:
        raise click.UsageError("--policy and --no-policy exclude each other")
    given = [parse_gate(text) for text in fail_on] + [parse_gate(text, "warning") for text in warn_on]
    if policy_file is not None:
        policy = read_policy(policy_file)
    else:
        policy = Policy() if no_policy else read_policy(_PYPROJECT, required=False)
    return replace(policy, gates=(*policy.gates, *given))


def print_gates(gating: Gating, result: Result) -> None:
    """Print outcomes to stderr, and annotations to stdout, where a runner reads them."""
    from tracediff.report.annotations import inert, render_annotations
    from tracediff.report.escape import visible

    if result.gates is not None:
        for one in result.gates.outcomes:
            warning = " (warning only)" if one.severity == "warning" else ""
            line = f"gate {one.text}: {one.outcome}{warning}: {one.message}"
            click.echo(inert(visible(line)), err=True)
        for note in result.gates.notes:
            click.echo(inert(visible(f"{result.gates.policy}: {note}")), err=True)
    if gating.annotations:
        for line in render_annotations(result):
            click.echo(line)


# Options on latencies that `tracediff latencies` and `tracediff compare` share.


def _warm_up(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    from tracediff.compare.session import is_warm_up

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


def reading_options_latency_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add --column, --unit, --warmup."""
    for option in reversed(_reading("")):
        command = option(command)
    return command


def beside_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add --latencies-baseline, --latencies-candidate and how they are read; the command gets `latencies`."""

    @functools.wraps(command)
    def wrapped(**arguments: Any) -> None:
        from tracediff.compare.session import LatencyOptions

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
