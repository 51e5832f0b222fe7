"""Sides named by a revision -> a checkout of each, built. The user's own working tree is never touched."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from tracediff.capture import machine
from tracediff.capture.machine import run
from tracediff.capture.plan import Plan, SidePlan
from tracediff.errors import TracediffError
from tracediff.formats import children
from tracediff.formats.bundle import SIDES, SideName

MERGE_BASE = "..."
"""After a revision, as in `git diff main...`: the commit where the other side left it."""


def located(plan: Plan, folder: Path) -> Plan:
    """The plan with commits in place of its revisions, and working directories below FOLDER/SIDE. Makes nothing.

    Raises `TracediffError`: checkout-no-repository, checkout-unknown-ref, plan-invalid.
    """
    if not any(plan.side(name).ref for name in SIDES):
        return plan
    top = root()
    candidate = commit(top, plan.candidate.ref or "HEAD")
    commits = {"candidate": candidate, "baseline": commit(top, plan.baseline.ref or "HEAD", other=candidate)}
    sides = {
        name: replace(side, ref=commits[name], cwd=_inside(side, name, top, folder.resolve() / name))
        for name in SIDES
        if (side := plan.side(name)).ref
    }
    return replace(plan, **sides)


def check_out(plan: Plan, bundle: Path, folder: Path, say: Callable[[str], None]) -> None:
    """Make, or bring up to date, the checkouts of a plan that was `located`, and build them there.

    A checkout that is there is taken again, so that a build may go on with what it left. Builds print to stderr.
    Raises `TracediffError`: checkout-failed, checkout-no-folder, checkout-build-failed.
    """
    for name in SIDES:
        side = plan.side(name)
        if side.ref is None:
            continue
        if side.ref == commit(root(), "HEAD") and (machine.commit(root(), (bundle, folder)) or {}).get(
            "dirty"
        ):
            say(f"warning: what is not committed here is not in the {name}")
        say(f"{name}: {side.ref[:12]} in {folder / name}")
        check_out_side(side, name, folder.resolve() / name)


def check_out_side(side: SidePlan, name: SideName, place: Path, log: int = 2) -> None:
    """Make, or bring up to date, the checkout of one side, and build it. `log`: the file descriptor that its build prints to.

    Raises `TracediffError`: checkout-failed, checkout-no-folder, checkout-build-failed.
    """
    assert side.ref is not None
    worktree(root(), side.ref, place)
    if side.cwd is None or not side.cwd.is_dir():
        below = side.cwd.relative_to(place) if side.cwd else "."
        raise TracediffError(
            "checkout-no-folder", f"{side.ref[:12]} has no folder {below}", fix="mend cwd in the plan"
        )
    if side.build:
        _build(side, name, place, log)


def root() -> Path:
    """The top of the repository that the working directory is in. Raises `TracediffError`: checkout-no-repository."""
    found = run(["git", "rev-parse", "--show-toplevel"])
    if found is None:
        raise TracediffError(
            "checkout-no-repository",
            "revisions were given, and the working directory is in no git repository",
            fix="run it in the checkout; git must be installed and may have to trust the folder (safe.directory)",
        )
    return Path(found.rstrip("\n"))


def commit(root: Path, ref: str, other: str | None = None) -> str:
    """The full name of a commit. `other`: the side that REF... is the merge base with.

    Raises `TracediffError`: checkout-unknown-ref.
    """
    git = ["git", "-C", str(root)]
    name = ref.removesuffix(MERGE_BASE)
    found = run([*git, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}"])
    if found and name != ref and other:
        found = run([*git, "merge-base", found.strip(), other])
    if not found:
        shallow = (run([*git, "rev-parse", "--is-shallow-repository"]) or "").strip() == "true"
        raise TracediffError(
            "checkout-unknown-ref",
            f"git finds no commit for {ref!r}" + (" in this shallow clone" if shallow else ""),
            fix="fetch the whole history: fetch-depth: 0 of actions/checkout, GIT_DEPTH: 0, git fetch --unshallow"
            if shallow
            else "fetch it; a branch of the server is called origin/NAME",
        )
    return found.split()[0]


def _inside(side: SidePlan, name: str, root: Path, place: Path) -> Path:
    """The working directory of a side within its checkout: its top, unless the plan says another folder of the repository."""
    if side.cwd is None:
        return place
    try:
        return place / side.cwd.relative_to(root.resolve())
    except ValueError:
        raise TracediffError(
            "plan-invalid", f"[{name}] has a ref, and its cwd is outside the repository: {side.cwd}", fix="leave cwd out"
        ) from None  # fmt: skip


def worktree(root: Path, commit: str, place: Path) -> None:
    """Check a commit out at a place. Files of a build that git does not track stay; changes of tracked ones do not.

    Raises `TracediffError`: checkout-failed.
    """
    git = ["git", "-C", str(root)]
    if _common(place) == _common(root) and (place / ".git").is_file():
        words = ["git", "-C", str(place), "checkout", "--quiet", "--force", "--detach", commit]
    elif place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise TracediffError(
            "checkout-failed", f"{place.name} exists and is no checkout of this repository", fix="--checkouts names another folder"
        )  # fmt: skip
    else:
        run([*git, "worktree", "prune"])  # of checkouts whose folder somebody removed
        words = [*git, "worktree", "add", "--quiet", "--force", "--detach", str(place), commit]
    done = children.run(words)
    if done.returncode:
        raise TracediffError(
            "checkout-failed", f"git could not check out {commit[:12]}: {done.stderr.strip()[-300:]}", fix="see what git says"
        )  # fmt: skip


def _common(folder: Path) -> Path | None:
    """The git folder that all checkouts of a repository share."""
    if not folder.is_dir():
        return None
    found = run(["git", "-C", str(folder), "rev-parse", "--git-common-dir"])
    return (folder / found.strip()).resolve() if found else None


def _build(side: SidePlan, name: SideName, place: Path, log: int) -> None:
    """Run the build of a side at the top of its checkout; every line of it has to succeed."""
    done = subprocess.run(
        ["sh", "-ec", side.build or ""], cwd=place, env={**os.environ, **side.env}, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False
    )  # fmt: skip
    if done.returncode:
        raise TracediffError(
            "checkout-build-failed",
            f"the build of the {name} ({(side.ref or '')[:12]}) ended with exit code {done.returncode}",
            fix="mend build in the plan, or --build; what it printed stands above",
        )
