"""Errors and warnings with a slug: what happened, in which file and table, and what to do about it.

Every slug has an entry in docs/messages.md; a test compares the two lists.
"""

from __future__ import annotations

import re

_SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*\Z")
# C0, DEL, C1, zero-width and direction-changing characters, line separators, marks of annotations, tags, lone surrogates.
_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
    "\U000e0000-\U000e0fff]"
)
_LONGEST_LINE = 1_000  # characters
_MOST_LINES = 50


def visible(text: str, keep: str = "") -> str:
    """Replace every character that cannot be seen by its escape, and break commands to a runner of CI (see `inert`)."""
    if text.isprintable() and "##" not in text:  # nearly every text: nothing to look for
        return text

    def picture(match: re.Match[str]) -> str:
        char = match.group()
        if char in keep:
            return char
        number = ord(char)
        return (
            f"\\x{number:02x}"
            if number < 0x100
            else f"\\u{number:04x}"
            if number < 0x10000
            else f"\\U{number:08x}"
        )

    return inert(_UNSEEN.sub(picture, text))


# `##[...]` of GitHub and Azure, `##vso[...]` of Azure, `##teamcity[...]`: read anywhere in a line, in logs and in files that are printed
_COMMAND = re.compile(r"#(?=#\w*\[)")


def inert(text: str) -> str:
    """Break what a runner of CI takes for a command anywhere in a line, whatever CI this is."""
    return _COMMAND.sub("# ", text)


def guard(text: str) -> str:
    """Make printed lines mere text to a runner: none begins with `::`, none holds `##[` or the like.

    A name of a kernel may begin a line, and `::` is part of many; a zero-width space parts it from the line's start.
    """
    lines = inert(text).split("\n")
    return "\n".join(f"\u200b{line}" if line.lstrip().startswith("::") else line for line in lines)


def some(names: list[str], most: int, last: str = " and ", between: str = ", ") -> str:
    """The first names in a message, and how many more there are: `a, b and 3 more`."""
    more = len(names) - most
    return between.join(names[:most]) + (f"{last}{more} more" if more > 0 else "")


def printable(text: str) -> str:
    """Make a message fit for a terminal or a log, whatever names are in it: nothing unseen, of bounded length.

    A bar stands before every line but the first: no name can begin a line that looks like another message.
    """
    lines = text.split("\n")
    if len(lines) > _MOST_LINES:
        lines = [*lines[: _MOST_LINES - 1], f"... and {len(lines) - _MOST_LINES + 1} more lines"]
    seen = [line[:_LONGEST_LINE] + (" ..." if len(line) > _LONGEST_LINE else "") for line in lines]
    return "\n  | ".join(
        visible(line.removeprefix("  ") if number else line, keep="\t") for number, line in enumerate(seen)
    )


class TracediffError(Exception):
    """A failure the user can act on. The command line prints it without a traceback.

    `slug` names the message in docs/messages.md, `fix` says what to do next (the exact flag where there is
    one), `exit_code` is the process's: 1 error, 2 usage (`UsageError`), 3 gate failed, 4 not comparable.
    """

    def __init__(self, slug: str, message: str, *, fix: str | None = None, exit_code: int = 1) -> None:
        assert _SLUG.match(slug), slug
        super().__init__(slug, message)  # what it is made of again when it comes from another process
        self.slug = slug
        self.message = message
        self.fix = fix
        self.exit_code = exit_code

    def rename(self, name: str, instead: str) -> None:
        """Name a file otherwise, where its base name alone would not tell which one is meant."""
        if instead not in self.message:
            self.message = self.message.replace(name, instead)

    def __str__(self) -> str:
        """What is printed of it, whatever names are in it."""
        fix = f"\n  fix: {printable(self.fix)}" if self.fix else ""
        return f"{printable(self.message)} [{self.slug}]{fix}"


def disk_full(message: str) -> TracediffError:
    """Of a file that is made on the way."""
    return TracediffError("disk-full", message, fix="set TMPDIR to a folder with space")


def no_permission(file: object) -> TracediffError:
    """Of a file, or of none that is known."""
    fix = "read from and write to files and folders that this user may use"
    return TracediffError("no-permission", f"{file or 'a file'}: permission denied", fix=fix)


def not_installed(slug: str, what: str, extra: str) -> TracediffError:
    """Of a package that comes with an extra."""
    return TracediffError(slug, f"{what} is not installed", fix=f"pip install 'tracediff-gpu[{extra}]'")


class UsageError(TracediffError):
    """A mistake in what was given: the process ends with 2."""

    def __init__(self, slug: str, message: str, *, fix: str | None = None) -> None:
        super().__init__(slug, message, fix=fix, exit_code=2)
