"""`tracediff completion`: the shell's completion of commands, options and files."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command(
    epilog="""\b
Examples:
  eval "$(tracediff completion bash)"                                  # for this shell; into ~/.bashrc for every one
  tracediff completion zsh > ~/.zfunc/_tracediff                       # a folder of fpath
  tracediff completion fish > ~/.config/fish/completions/tracediff.fish

Bash must be 4.4 or newer.
"""
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that completes tracediff in SHELL."""
    kind = get_completion_class(shell)
    assert kind is not None
    root = click.get_current_context().find_root().command
    click.echo(kind(root, {}, "tracediff", "_TRACEDIFF_COMPLETE").source())
