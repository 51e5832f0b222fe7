"""Options and judgement of gates, for every command with a `Result`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from tracediff.measure.policy import Policy
    from tracediff.model import Result

_PYPROJECT = Path("pyproject.toml")  # of the working directory: no other folder is looked at


@dataclass(frozen=True)
class Gating:
    """What the command line and the policy ask for."""

    policy: Policy
    annotations: str | None = None

    def judge(self, result: Result) -> Result:
        """Judge every gate as of today (UTC); the outcomes are in the result."""
        from tracediff.measure.policy import judged

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
    from tracediff.measure.gates import parse_gate
    from tracediff.measure.policy import Policy, read_policy

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
