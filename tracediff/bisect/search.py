"""The search: git bisect asks for commits, each is measured beside GOOD, and the culprit beside its parent.

`git bisect` runs in a worktree of its own, so that no checkout of the user changes.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import msgspec

from tracediff.bisect.decide import Rule, levels, prior_of
from tracediff.capture import checkout
from tracediff.capture.plan import Plan
from tracediff.capture.runner import fingerprint as fingerprint_of_plan
from tracediff.errors import TracediffError, UsageError
from tracediff.formats import children
from tracediff.formats.files import MOST_RESULT, read_regular
from tracediff.model import encode
from tracediff.model.bisect import BISECT_VERSION, Bisect, BisectCommit, BisectProbe, BisectVerdict
from tracediff.write import write_atomically

_CULPRIT = re.compile(r"^# (?:possible )?first bad commit: \[([0-9a-f]{40,64})\]", re.MULTILINE)


def git(folder: Path, *words: str) -> str:
    """What git prints. Raises `TracediffError`: git-failed."""
    done = children.run(["git", "-C", str(folder), *words])
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


class History(msgspec.Struct, frozen=True):
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


# Its folder: the state, which is also the report, and git's own log of it.


STATE, LOG = "bisect.json", "bisect.log"


def fingerprint(plan: Plan, parts: Sequence[Any], cause: Sequence[Any]) -> str:
    """What makes two searches the same: their runs, `.`, their cause. Values of unrecorded variables do not enter it."""
    words = [fingerprint_of_plan(plan), str(plan.baseline.cwd), plan.baseline.build, *parts]
    return ".".join(hashlib.sha256(json.dumps(one).encode()).hexdigest()[:16] for one in (words, list(cause)))


@contextmanager
def opened(folder: Path, fresh: Bisect) -> Iterator[Bisect]:
    """The state of a search to go on with, or a fresh one in an empty folder; nobody else may go on with it meanwhile.

    Raises `TracediffError`: bisect-exists, bisect-changed, bisect-running, bisect-damaged, output-not-writable.
    """
    if (
        folder.exists()
        and not (folder / STATE).exists()
        and (not folder.is_dir() or {*folder.iterdir()} - {folder / ".lock"})
    ):
        raise UsageError(
            "bisect-exists", f"{folder.name} exists and is no search", fix="-o names another folder"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("w")
    except OSError as error:
        raise TracediffError(
            "output-not-writable",
            f"{folder}: {error.strerror or error}",
            fix="-o names a folder that you may write to",
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise TracediffError(
                "bisect-running",
                f"another process searches in {folder.name}",
                fix="wait for it, or -o names another folder",
            ) from None
        state = _read(folder / STATE) if (folder / STATE).exists() else fresh
        runs, other = (one.fingerprint.partition(".")[0] for one in (state, fresh))
        if runs == other and state.ends is None and not state.probes:
            state = fresh  # of nothing answered the cause may be another: the runs stay
        if state.fingerprint != fresh.fingerprint:
            raise UsageError(
                "bisect-changed",
                f"{folder.name} was begun with other commits, another cause, build or capture",
                fix="go on with what it was begun with (--max-pairs and --budget may grow), or use another folder",
            )
        state.max_pairs = fresh.max_pairs
        keep(folder, state)
        yield state


def keep(folder: Path, state: Bisect, log: str = "") -> None:
    """Write the state, and git's log of it where there is one."""
    write_atomically(folder / STATE, encode(state), force=True)
    if log:
        write_atomically(folder / LOG, log.encode(), force=True)


def _read(path: Path) -> Bisect:
    try:
        found = msgspec.json.decode(read_regular(path, MOST_RESULT), type=Bisect)
        if found.format_version == BISECT_VERSION:
            return found
        why = f"format {found.format_version}"
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        why = str(error)
    raise TracediffError(
        "bisect-damaged",
        f"{path.parent.name}/{path.name} cannot be read: {why}",
        fix="-o names another folder",
    )


# The search


ENDS, PARENT = "ends", "culprit"  # folders of what is no probe


class BudgetSpentError(Exception):
    """No more runs may be made."""


class Measure(Protocol):
    """Measures a commit beside another one."""

    def __call__(self, baseline: BisectCommit, candidate: BisectCommit, rule: Rule, name: str) -> BisectProbe:
        """Raises BudgetSpentError; `TracediffError` for what is no fault of a commit between GOOD and BAD."""


class Search(msgspec.Struct):
    """One search. keep: called whenever the state has changed. share: the limit as a part of GOOD's time."""

    state: Bisect
    history: History
    measure: Measure
    keep: Callable[[], None] = lambda: None
    share: float | None = None

    def run(self) -> None:
        """Search until the culprit is found or nothing more can be said; `state.outcome` says which.

        What the state knows is not measured again, but for what a larger `max_pairs` may answer.
        Raises `TracediffError`: git-failed, and those of `measure`.
        """
        state = self.state
        if state.outcome == "found" and self._stands(state.parent):
            return
        self._open_again()
        try:
            if self._differ():
                self._bisect()
        except BudgetSpentError:
            state.outcome = "budget"
            state.culprits = self.history.left() if state.ends else []
        self.keep()

    def _open_again(self) -> None:
        """Forget what ended an earlier search and may end otherwise now."""
        state, stands = self.state, self._stands
        state.outcome, state.culprits = "open", []
        state.probes = [one for one in state.probes if stands(one)]
        state.ends, state.parent = (one if stands(one) else None for one in (state.ends, state.parent))

    def _stands(self, one: BisectProbe | None) -> bool:
        return one is not None and (one.reason != "noise" or one.pairs >= self.state.max_pairs)

    def _rule(self, limit_ns: float | None, prior: float | None = None) -> Rule:
        level = levels(self.state.commits, self.state.error)
        if prior is None:
            return Rule(level, limit_ns, self.share, direction=1 if self.state.limit_given else 0)
        return Rule(level, limit_ns, direction=1 if self._limit() > 0 else -1, prior=prior)

    def _limit(self) -> float:
        assert self.state.limit_ns is not None
        return self.state.limit_ns

    def _differ(self) -> bool:
        """Measure BAD beside GOOD, and what the limit is where none was given."""
        state = self.state
        if state.ends is None:
            state.ends = self.measure(
                state.good, state.bad, self._rule(state.limit_ns if state.limit_given else None), ENDS
            )
            self.keep()
        ends = state.ends
        assert ends.delta_ns is not None
        assert ends.baseline_ns is not None
        if self.share is not None:
            state.limit_ns = self.share * ends.baseline_ns
        elif not state.limit_given:
            state.limit_ns = ends.delta_ns / 2
        if ends.verdict == "bad":
            return True
        low, high = ends.low_ns, ends.high_ns
        unlike = low is not None and high is not None and (low > 0 or high < 0)
        state.outcome = "noise" if ends.verdict == "skip" and unlike else "no_difference"
        return False

    def _bisect(self) -> None:
        state, history = self.state, self.history
        assert state.ends is not None
        prior = prior_of(self._limit(), state.ends.sd_ns)
        history.start([(one.candidate, one.verdict) for one in state.probes])
        while not (found := history.culprits()):
            asked = history.asked()
            probe = self.measure(state.good, asked, self._rule(self._limit(), prior), asked.commit[:12])
            history.mark(asked, probe.verdict)
            state.probes.append(probe)
            self.keep()
        state.culprits = found
        state.outcome = "found" if len(found) == 1 else "ambiguous"
        self.keep()
        if state.outcome == "found":
            self._beside_its_parent(found[0], prior)

    def _beside_its_parent(self, culprit: BisectCommit, prior: float) -> None:
        """Measure the culprit beside its parent, unless that is GOOD: then it was."""
        state = self.state
        parent = self.history.parent(culprit)
        known = [one for one in (state.ends, *state.probes) if one and one.candidate == culprit]
        if parent == state.good and known:
            state.parent = known[0]
        elif state.parent is None:
            state.parent = self.measure(parent, culprit, self._rule(0.0, prior), PARENT)
