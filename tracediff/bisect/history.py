"""The history of a repository: `git bisect` in a worktree of its own, so that no checkout of the user changes."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tracediff.capture import checkout
from tracediff.errors import TracediffError
from tracediff.model.bisect import BisectCommit, BisectVerdict

_CULPRIT = re.compile(r"^# (?:possible )?first bad commit: \[([0-9a-f]{40,64})\]", re.MULTILINE)


def git(folder: Path, *words: str) -> str:
    """What git prints. Raises `TracediffError`: git-failed."""
    done = subprocess.run(
        ["git", "-C", str(folder), *words], capture_output=True, text=True, errors="replace", check=False, stdin=subprocess.DEVNULL
    )  # fmt: skip
    if done.returncode:
        said = " ".join((done.stderr.strip() or done.stdout.strip()).split())
        raise TracediffError(
            "git-failed", f"git {' '.join(words[:2])}: {said[:400] or f'exit code {done.returncode}'}",
            fix="run it by hand in the repository",
        )  # fmt: skip
    return done.stdout


def commit(folder: Path, revision: str) -> BisectCommit:
    """The commit that a revision names. Raises `TracediffError`: checkout-unknown-ref."""
    found = checkout.commit(folder, revision)
    return BisectCommit(found, git(folder, "log", "-1", "--format=%s", found).strip())


@dataclass(frozen=True)
class History:
    """`git bisect` between two commits. tree: its worktree, where git keeps how far it is; no file there is touched by it."""

    repository: Path
    tree: Path
    good: BisectCommit
    bad: BisectCommit
    first_parent: bool = False

    def commits(self) -> int:
        """How many commits come after GOOD up to BAD."""
        return int(
            git(
                self.repository, "rev-list", "--count", *self._walk(), self.bad.commit, f"^{self.good.commit}"
            )
        )

    def start(self, known: Sequence[tuple[BisectCommit, BisectVerdict]] = ()) -> None:
        """Begin anew, and say what is known already. Raises `TracediffError`: git-failed."""
        if not self.tree.exists():
            checkout.worktree(self.repository, self.bad.commit, self.tree)
        git(self.tree, "bisect", "start", "--no-checkout", *self._walk(), self.bad.commit, self.good.commit)
        for one, verdict in known:
            self.mark(one, verdict)

    def mark(self, one: BisectCommit, verdict: BisectVerdict) -> None:
        """Tell git what a commit is. Raises `TracediffError`: git-failed."""
        try:
            git(self.tree, "bisect", verdict, one.commit)
        except TracediffError:  # it also fails where only skipped commits are left
            if not self.culprits():
                raise

    def culprits(self) -> list[BisectCommit]:
        """What git says of the first bad commit: one, those that it may be where commits were skipped, none while it searches."""
        return [self.commit(one) for one in dict.fromkeys(_CULPRIT.findall(self.log()))]

    def asked(self) -> BisectCommit:
        """The commit that git wants to know of."""
        return self.commit("BISECT_HEAD")

    def left(self) -> list[BisectCommit]:
        """The commits that the first bad one is among, as far as is known."""
        out = git(
            self.tree, "rev-list", *self._walk(), "refs/bisect/bad", "--not", "--glob=refs/bisect/good-*"
        )
        return [self.commit(one) for one in out.split()]

    def parent(self, one: BisectCommit) -> BisectCommit:
        """The first parent of a commit."""
        return self.commit(f"{one.commit}^")

    def log(self) -> str:
        """What `git bisect replay` takes."""
        return git(self.tree, "bisect", "log")

    def commit(self, revision: str) -> BisectCommit:
        """The commit that a revision names, in the worktree of the search."""
        return commit(self.tree, revision)

    def _walk(self) -> list[str]:
        return ["--first-parent"] if self.first_parent else []


def remove(repository: Path, tree: Path) -> None:
    """Remove a worktree, and with it what git bisect keeps there."""
    if tree.exists():
        git(repository, "worktree", "remove", "--force", "--force", str(tree.resolve()))
