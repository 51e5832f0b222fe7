"""How a dataclass becomes options of a command, and the options that several commands share besides their request."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Container, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import click
from click.shell_completion import CompletionItem

from tracediff.cli.say import say
from tracediff.errors import UsageError
from tracediff.request import BESIDE, MORE, STEPS, option

if TYPE_CHECKING:
    from tracediff.comparison.gates import Policy
    from tracediff.model import Result


_Command = Callable[..., Any]
# The policies of the working directory: no other folder is looked at.
POLICY, PYPROJECT = Path("tracediff.toml"), Path("pyproject.toml")


def takes(*, omit: Container[str] = (), **kinds: type[Any]) -> Callable[[_Command], _Command]:
    """Give a command the arguments and options of dataclasses: `takes(request=CompareRequest)` calls it with `request=`.

    `omit`: fields that this command leaves at their default. A ValueError of a dataclass is an error of usage.
    """

    def add(command: _Command) -> _Command:
        @functools.wraps(command)
        def called(**given: Any) -> Any:
            made = {}
            for name, kind in kinds.items():
                own = {one.name: given.pop(one.name) for one in fields(kind) if one.name in given}
                try:
                    made[name] = kind(**own)
                except ValueError as error:
                    raise click.UsageError(str(error)) from None
            return command(**made, **given)

        decorated: _Command = called
        chosen = [
            (one, _group(kind, one))
            for kind in kinds.values()
            for one in fields(kind)
            if one.name not in omit
        ]
        for one, group in reversed(chosen):
            if not one.kw_only:
                required = one.default is MISSING
                decorated = click.argument(one.name, required=required, shell_complete=complete_files)(
                    decorated
                )
            elif "help" in one.metadata:
                decorated = _option(one, group)(decorated)
        return decorated

    return add


def _once(ctx: click.Context, param: click.Parameter, value: tuple[Path, ...]) -> Path | None:
    """Take one file of a kind: of several all but the last would be lost without a word."""
    if len(value) > 1:
        raise click.BadParameter(
            f"given {len(value)} times: one file of a kind is written in one run", ctx, param
        )
    return value[0] if value else None


class _Count(click.IntRange):
    """A number that fits into 64 bits, times whatever it is compared with."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        count = super().convert(value, param, ctx)
        if count > _MOST:
            self.fail(f"{count} is more than {_MOST}.", param, ctx)
        return count


_MOST = 2**31 - 1


# Groups of options in a help text, in this order; what is in none comes first.
GROUPS = (STEPS, "Output", "Gates", BESIDE, MORE)


class Grouped(click.Command):
    """A command whose help has its options in groups. `first`: names of those that most need, which come before."""

    def __init__(self, *arguments: Any, first: Sequence[str] = (), **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.first = first

    def groups(self, ctx: click.Context) -> dict[str, list[click.Option]]:
        """The options by group, in the order of the help text."""
        found: dict[str, list[click.Option]] = {name: [] for name in ("Options", *GROUPS)}
        for one in self.get_params(ctx):
            if isinstance(one, click.Option):
                group = "" if one.name in self.first else getattr(one, "group", "")
                found[group or "Options"].append(one)
        order = [*self.first, "help"]
        found["Options"].sort(key=lambda one: order.index(one.name) if one.name in order else len(order))
        return {name: options for name, options in found.items() if options}

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Click's own, by group."""
        for name, options in self.groups(ctx).items():
            with formatter.section(name):
                formatter.write_dl([row for one in options if (row := one.get_help_record(ctx))])


class _GroupedOption(click.Option):
    def __init__(self, *names: Any, group: str = "", **how: Any) -> None:
        super().__init__(*names, **how)
        self.group = group


def _group(kind: type[Any], one: Field[Any]) -> str:
    """The group of a field: its own, else that of the class in which it stands."""
    where = next(each for each in kind.__mro__ if one.name in each.__annotations__)
    found: str = one.metadata.get("group", getattr(where, "GROUP", ""))
    return found


def _option(one: Field[Any], group: str) -> _Command:
    """The click option of a field: a switch for a bool, repeatable for a tuple, else a word, number or path."""
    how = {"cls": _GroupedOption, **one.metadata, "group": group}
    name = how.pop("name", f"--{one.name.replace('_', '-')}").split()
    if isinstance(one.default, bool):
        how |= {"is_flag": True, "flag_value": not one.default}
    if one.default == ():
        how["multiple"] = True
    if how.pop("path", False):
        how["type"] = click.Path(path_type=Path)  # what is there already is judged later, with a slug
        if one.default is None:
            return click.option(*name, one.name, multiple=True, callback=_once, **how)
    if how.pop("word", False):
        how["shell_complete"] = complete_files
    if (minimum := how.pop("minimum", None)) is not None:
        how |= {"type": _Count(minimum), "show_default": one.default is not None}
    if choices := how.pop("choices", ()):
        how["type"] = click.Choice(choices)
    return click.option(*name, one.name, default=one.default, **how)


def complete_files(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Have the shell complete names of files, for arguments that may be more than a name."""
    return [CompletionItem(incomplete, type="file")]


def web_address(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """Take what a comment may link to."""
    if not value:
        return value
    from tracediff.report.markdown import report_link

    try:
        return report_link(value)
    except ValueError:
        raise click.BadParameter("an http or https address", param_hint=param.opts[0]) from None


def progress(quiet: bool = False) -> Callable[[str], None]:
    """Say which file is read, to somebody who waits at a terminal."""
    shown = sys.stderr.isatty() and not quiet

    def reading(name: str) -> None:
        if shown:
            say(f"reading {name}")

    return reading


@dataclass(frozen=True, kw_only=True)
class Gating:
    """What a result is held to."""

    GROUP: ClassVar[str] = "Gates"
    fail_on: tuple[str, ...] = option(
        (), "Gate, e.g. step:+3%, gil@_schedule:+50us, launches:+10 or kernel:NAME:+5%; repeatable.", metavar="MEASURE:+LIMIT"
    )  # fmt: skip
    warn_on: tuple[str, ...] = option(
        (), "A gate that never fails: judged and shown; repeatable.", metavar="MEASURE:+LIMIT"
    )
    policy: Path | None = option(
        None, "Gates and waivers in TOML; none: read none. [default: ./tracediff.toml, or [tool.tracediff] of ./pyproject.toml]", metavar="FILE", path=True
    )  # fmt: skip

    def read(self) -> Policy:
        """Raises `TracediffError` for bad gates and policies: call it before any work is done."""
        from msgspec.structs import replace

        from tracediff.comparison.gates import Policy, parse_gate, read_policy

        given = [parse_gate(text) for text in self.fail_on]
        given += [parse_gate(text, "warning") for text in self.warn_on]
        if self.policy == Path("none"):
            policy = Policy()
        else:
            policy = read_policy(self.policy) if self.policy is not None else _policy_here()
        return replace(policy, gates=(*policy.gates, *given))


def _policy_here() -> Policy:
    from tracediff.comparison.gates import read_policy

    own, shared = (read_policy(path, required=False) for path in (POLICY, PYPROJECT))
    if own.source and shared.source:
        raise UsageError(
            "policy-twice",
            f"{POLICY} and [tool.tracediff] of {PYPROJECT} are both here",
            fix=f"keep one of them, or --policy {POLICY}",
        )
    return own if own.source else shared


def judge(policy: Policy, result: Result) -> Result:
    """Judge every gate as of today (UTC); the outcomes are in the result."""
    from tracediff.comparison.gates import judged
    from tracediff.report.phrases import with_messages

    return with_messages(judged(policy, result, datetime.now(UTC).date()))


def print_gates(result: Result) -> None:
    """Print outcomes to stderr, and in GitHub's CI verdict and gates as annotations to stdout, where its runner reads them."""
    from tracediff.report.ci import render_annotations

    if result.gates is not None:
        for one in result.gates.outcomes:
            warning = " (warning only)" if one.severity == "warning" else ""
            line = f"gate {one.text}: {one.outcome}{warning}: {one.message}"
            say(line)
        for note in result.gates.notes:
            say(f"{result.gates.policy}: {note}")
    if os.environ.get("GITHUB_ACTIONS") == "true":
        for line in render_annotations(result):
            click.echo(f"{line}\n", nl=False)
