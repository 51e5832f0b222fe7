"""The order of commits: what git's first-parent history says, where the repository is at hand."""

from __future__ import annotations

import re
import subprocess
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

COMMIT = re.compile(r"[0-9a-f]{7,64}\Z")


@dataclass(frozen=True)
class Commits:
    """The commits of a branch. order: commit -> its place in the first-parent history, the oldest 0; reachable: from the branch at all, sorted.

    problem: why git cannot order points: '' | no-repository | shallow (a clone without its older commits).
    """

    order: dict[str, int] = field(default_factory=dict)
    reachable: tuple[str, ...] = ()
    problem: str = ""

    def full(self, commit: str) -> str:
        """A shortened name in full, where exactly one commit begins so."""
        at = bisect_left(self.reachable, commit)
        found = [one for one in self.reachable[at : at + 2] if one.startswith(commit)]
        return found[0] if len(found) == 1 else commit

    def reaches(self, commit: str) -> bool:
        """Whether the branch has a commit, named in full."""
        at = bisect_left(self.reachable, commit)
        return self.reachable[at : at + 1] == (commit,)


def read(repository: Path, branch: str = "HEAD") -> Commits:
    """Read the history of a branch; without a repository there, an empty one that says so."""
    if _git(repository, "rev-parse", "--is-shallow-repository") not in ("false", "true"):
        return Commits(problem="no-repository")
    if _git(repository, "rev-parse", "--is-shallow-repository") == "true":
        return Commits(problem="shallow")
    main = _git(repository, "rev-list", "--first-parent", branch, "--")
    every = _git(repository, "rev-list", branch, "--")
    if not main or not every:
        return Commits(problem="no-repository")
    newest_first = main.split()
    return Commits(
        {commit: at for at, commit in enumerate(reversed(newest_first))}, tuple(sorted(every.split()))
    )


def identify(repository: Path, commit: str) -> tuple[str, str] | None:
    """The full name of a commit and its time (ISO 8601, UTC); None where the repository does not have it."""
    found = _git(
        repository, "show", "-s", "--format=%H %ct", "--end-of-options", f"{commit}^{{commit}}", "--"
    )
    if not found:
        return None
    name, _, seconds = found.splitlines()[-1].partition(" ")
    return name, datetime.fromtimestamp(int(seconds), UTC).isoformat(timespec="seconds")


def _git(repository: Path, *words: str) -> str | None:
    """What git prints; None where it fails or is not there."""
    command: Sequence[str] = ["git", "-C", str(repository), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
