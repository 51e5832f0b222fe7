"""The `tracediff` command and the list of its subcommands."""

from __future__ import annotations

import gc
import importlib
import io
import os
import re
import signal
import sys
from pathlib import Path
from typing import NoReturn

import click

import tracediff
import tracediff.companions
from tracediff.cli.say import say, say_error
from tracediff.errors import TracediffError
from tracediff.formats import bounds

# name -> short help. The click command of that name is in a module of that name, imported only when used: `tracediff --help`
# must not pay for DuckDB or polars.
COMMANDS = {
    "compare": "Compare a baseline with a candidate and write reports.",
    "timeline": "Write both runs into one trace for Perfetto.",
    "show": "Report what is in the time of a step of one capture.",
    "what-if": "Say what a step would take if something were different.",
    "query": "Run SQL over the tables of one or two captures.",
    "report": "Render a saved result again, without the traces.",
    "history": "Keep results over time and find since which commit what changed.",
    "mcp": "Let an agent ask about captures: a server of the Model Context Protocol.",
    "comment": "Post or update a pull-request comment on GitHub or GitLab.",
    "cache": "Show or clear what is kept of exports read before.",
    "schema": "Print the JSON Schema of a saved result.",
    "demo": "Run the main job on the bundled captures.",
    "inputs": "Say what files are, what they hold, and what could be said of them.",
    "init": "Write a policy, a plan and a CI job to start from.",
    "windows": "Propose iterations to capture, by a log of them.",
    "capture": "Record paired runs under nsys into a bundle.",
    "bisect": "Find the commit that caused a change.",
    "doctor": "Check that this machine can capture.",
    "scrub": "Remove environment, host, user and paths from an export.",
}


GROUPS = {
    "Compare and look": ("compare", "show", "timeline", "what-if", "query", "demo", "inputs"),
    "Results": ("report", "history", "comment", "mcp", "schema"),
    "Record": ("capture", "windows", "doctor", "scrub", "bisect"),
    "Set up": ("init", "cache"),
}
_ONE_SIDE = (
    "A side of several runs is one argument: quote the pattern, 'runs/base_*.sqlite', or give the folder"
)
# Options that people try where there is none of the name.
_SIDES = "the sides are arguments: tracediff compare BASELINE CANDIDATE"
_KERNEL = (
    "tracediff compare A B --kernel NAME, or tracediff query CAPTURE \"FROM kernel WHERE name LIKE '%NAME%'\""
)
_OF_OPTION = {"--baseline": _SIDES, "--candidate": _SIDES, "--kernel": _KERNEL}
_OBJECTS = 250_000  # made and not freed between two collections of garbage: a small comparison keeps 70,000


_ALSO = {"diff": "compare"}  # what other tools call it


def _meant(word: str) -> str:
    """The command that a word stands for: cut short (`cmp`), else misspelt; empty where there is none."""
    from difflib import get_close_matches

    letters = re.compile(".*".join(map(re.escape, word)))
    short = [name for name in COMMANDS if letters.match(name)]
    return next(iter([*short, *get_close_matches(word, COMMANDS, 1)]), _ALSO.get(word, ""))


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        command = getattr(importlib.import_module(f"tracediff.cli.{name}"), name)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Click's own; what is no command may be a file, or another command misspelled."""
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            near = "compare BASELINE CANDIDATE" if Path(args[0]).exists() else _meant(args[0])
            if near:
                ctx.fail(f"No such command {args[0]!r}. Did you mean tracediff {near}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for name, members in GROUPS.items():
            with formatter.section(name):
                formatter.write_dl([(one, COMMANDS[one]) for one in members])


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="""
\b
Begin:
  tracediff demo                                     what it says, on bundled captures
  tracediff inputs run.sqlite                        what a file holds, and what could be said of it
  tracediff compare before.sqlite after.sqlite --html report.html
  tracediff capture --help                           record both sides in turns
""",
)
@click.version_option(tracediff.__version__, prog_name="tracediff")
def cli() -> None:
    """Diff Nsight Systems captures of an LLM inference stack.

    What changed in the time of a step, by how much, why, and can it be believed?
    """


def main() -> None:
    """Run the command line; a `TracediffError` becomes one message on stderr and its exit code, and so does all else that fails."""
    signal.signal(signal.SIGTERM, _terminated)
    bounds.last_resort = _stopped
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller: a file opened later must not take its number
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), "r" if name == "stdin" else "w"))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a name that the terminal has no letters for
    if sys.argv[1:2] not in (["capture"], ["bisect"]):  # what they start is another's program
        # numpy and polars each start a thread a processor, for products and sums of small tables whose last digit depends on how
        # many there are. Before anything imports them.
        for threads in ("OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS"):
            os.environ.setdefault(threads, "1")
    # Nearly all objects that imports make stay: a tenth of a small comparison went into looking through them.
    gc.set_threshold(_OBJECTS)
    try:
        _run()
    except TracediffError as error:
        _fail(error)
    except (click.Abort, KeyboardInterrupt):  # the second where it comes before click listens
        say("aborted")
        _leave(130)
    except _Terminated:
        say("terminated")
        _leave(143)
    except SystemExit:
        raise
    except click.ClickException as error:
        fix = _way_on(error) if isinstance(error, click.UsageError) else ""
        if isinstance(error, click.NoSuchOption) and fix:
            error = click.NoSuchOption(error.option_name, ctx=error.ctx)  # without names spelled alike
        shown = io.StringIO()
        error.show(file=shown)
        for line in shown.getvalue().splitlines():
            say(line)
        if fix:
            say(f"  fix: {fix}")
        sys.exit(error.exit_code)
    except BaseException as error:  # a panic of a library in Rust is no Exception
        if _interrupted(error):
            say("aborted")
            _leave(130)
        if os.environ.get("TRACEDIFF_DEBUG") == "1":
            raise
        from tracediff.cli.unforeseen import explained

        _fail(explained(error, sys.argv[1:], COMMANDS))
    finally:
        # All is said and written: Ctrl-C now ends the interpreter without a traceback of its last steps.
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def program() -> NoReturn:
    """The same as a process of its own, which ends at once: to take all objects apart takes a fortieth of a small comparison."""
    try:
        main()
    except SystemExit as done:
        _leave(int(done.code or 0))
    _leave(0)


def _run() -> None:
    """Run a command until its last word is written: a full disk behind stdout is an error, not a note at the very end."""
    try:
        cli.main(standalone_mode=False)
    except click.exceptions.Exit as done:
        sys.exit(done.exit_code)
    finally:
        if sys.exc_info()[0] in (None, SystemExit):
            sys.stdout.flush()


def _way_on(error: click.UsageError) -> str:
    """What to do instead, where an error of click does not say it; '' of most."""
    command = error.ctx.info_name if error.ctx else None
    if isinstance(error, click.BadOptionUsage) and error.option_name in ("--fail-on", "--warn-on"):
        return f"for example {error.option_name} step:+3%"
    if isinstance(error, click.NoSuchOption):
        return _OF_OPTION.get(error.option_name, "")
    if "unexpected extra argument" not in error.message or command not in GROUPS["Compare and look"]:
        return ""
    # more captures than sides: another command takes two, or a shell has written a pattern out
    one = (
        f"tracediff compare A B takes two captures, {command} one. " if command in ("show", "what-if") else ""
    )
    return one + _ONE_SIDE


def _fail(error: TracediffError) -> NoReturn:
    say_error(error)
    try:
        sys.stdout.flush()
    except OSError:  # what cannot be written is not tried again when the interpreter ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(error.exit_code)


def _stopped(error: TracediffError) -> None:
    """Say an error, and end at once."""
    say_error(error)
    _leave(error.exit_code)


def _interrupted(error: BaseException | None) -> bool:
    """Whether Ctrl-C is behind an error: libraries that it meets while they are imported make another one of it."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__cause__ or error.__context__
    return False


class _Terminated(SystemExit):
    """The process was told to end."""


def _terminated(number: int, frame: object) -> None:
    _end_children()
    raise _Terminated


def _end_children() -> None:
    """End exports that run in threads, so that nobody waits for them or finds them later."""
    if "tracediff.formats.children" in sys.modules:
        sys.modules["tracediff.formats.children"].end_all()


def _leave(status: int) -> NoReturn:
    """End at once: threads may be in the middle of an export, and would be waited for."""
    _end_children()
    if "tracediff.formats.files" in sys.modules:
        sys.modules["tracediff.formats.files"].discard_all()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
