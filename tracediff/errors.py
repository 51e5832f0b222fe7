"""Errors and warnings with a slug: what happened, in which file and table, and what to do about it.

Every slug has an entry in docs/messages.md; a test compares the two lists.
"""

from __future__ import annotations

import re

_SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*\Z")


class TracediffError(Exception):
    """A failure the user can act on. The command line prints it without a traceback.

    `slug` names the message in docs/messages.md, `fix` says what to do next (the exact flag where there is
    one), `exit_code` is the process's: 1 error, 3 gate failed, 4 not comparable.
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
        fix = f"\n  fix: {self.fix}" if self.fix else ""
        return f"{self.message} [{self.slug}]{fix}"
