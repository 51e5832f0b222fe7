"""Repositories with a planted culprit, and runs of their commits as numbers."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tracediff.bisect.decide import ERROR, Rule, judge
from tracediff.bisect.search import History, Search
from tracediff.model import Tool
from tracediff.model.bisect import Bisect, BisectCommit, BisectProbe, BisectVerdict


def repository(folder: Path, files: Sequence[dict[str, str]]) -> list[str]:
    """A repository with a commit for each set of files, one after the other; their hashes."""
    folder.mkdir(parents=True, exist_ok=True)
    stream = []
    for number, contents in enumerate(files):
        message = f"change {number}"
        stream.append(
            f"commit refs/heads/main\nmark :{number + 1}\ncommitter A <a@b.c> {1_700_000_000 + number} +0000\n"
            f"data {len(message)}\n{message}\n"
        )
        stream += [
            f"M 100644 inline {name}\ndata {len(text.encode())}\n{text}\n" for name, text in contents.items()
        ]
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "fast-import", "--quiet", given="".join(stream))
    git(folder, "checkout", "--quiet", "main")
    return git(folder, "rev-list", "--reverse", "main").split()


def git(folder: Path, *words: str, given: str = "") -> str:
    return subprocess.run(
        ["git", "-C", str(folder), *words], input=given, capture_output=True, text=True, check=True
    ).stdout


class Halving:
    """Commits in a row, halved as git does; those next to a skipped one are asked in its place. Without git, for many searches."""

    def __init__(self, hashes: list[str]) -> None:
        self.hashes = hashes
        self.good, self.bad = BisectCommit(hashes[0]), BisectCommit(hashes[-1])
        self.start()

    def commits(self) -> int:
        return len(self.hashes) - 1

    def start(self, known: Sequence[tuple[BisectCommit, BisectVerdict]] = ()) -> None:
        self.low, self.high, self.skipped = 0, len(self.hashes) - 1, set[int]()
        for one, verdict in known:
            self.mark(one, verdict)

    def mark(self, one: BisectCommit, verdict: BisectVerdict) -> None:
        at = self.hashes.index(one.commit)
        if verdict == "good":
            self.low = max(self.low, at)
        elif verdict == "bad":
            self.high = min(self.high, at)
        else:
            self.skipped.add(at)

    def _open(self) -> list[int]:
        return [one for one in range(self.low + 1, self.high) if one not in self.skipped]

    def culprits(self) -> list[BisectCommit]:
        return [] if self._open() else self.left()

    def left(self) -> list[BisectCommit]:
        return [BisectCommit(self.hashes[one]) for one in range(self.low + 1, self.high + 1)]

    def asked(self) -> BisectCommit:
        return BisectCommit(
            self.hashes[min(self._open(), key=lambda one: abs(2 * one - self.low - self.high))]
        )

    def parent(self, one: BisectCommit) -> BisectCommit:
        return BisectCommit(self.hashes[self.hashes.index(one.commit) - 1])


@dataclass
class Simulated:
    """Measures commits by drawing numbers. level: what a step takes in each commit, us; broken: those that do not build.

    noise: draws what so many runs differ by, us.
    """

    hashes: list[str]
    level: Sequence[float]
    noise: Callable[[int], np.ndarray]
    max_pairs: int = 30
    broken: frozenset[int] = frozenset()
    runs: int = 0
    measured: int = 0

    def __call__(self, baseline: BisectCommit, candidate: BisectCommit, rule: Rule, name: str) -> BisectProbe:
        before, after = (self.hashes.index(one.commit) for one in (baseline, candidate))
        probe = BisectProbe(baseline=baseline, candidate=candidate, folder=name)
        if after in self.broken:
            probe.reason = "build-failed"
            return probe
        self.measured += 1
        times = np.empty((2, 0))
        while times.shape[1] < self.max_pairs:
            pair = np.array([self.level[before], self.level[after]]) + self.noise(2)
            times = np.column_stack([times, 1e3 * pair])
            self.runs += 2
            seen = judge(times[0], times[1], rule)
            if seen.answer:
                break
        probe.pairs, probe.baseline_ns, probe.delta_ns = seen.pairs, seen.baseline_ns, seen.delta_ns
        probe.low_ns, probe.high_ns, probe.sd_ns = seen.low_ns, seen.high_ns, seen.sd_ns
        probe.verdict, probe.reason = seen.answer or "skip", "" if seen.answer else "noise"
        return probe


def search(history: History | Halving, measure: Simulated) -> Search:
    """A search for a change of the step."""
    state = Bisect(
        tool=Tool("tracediff", "0"), measure="step", good=history.good, bad=history.bad, commits=history.commits(),
        error=ERROR, max_pairs=measure.max_pairs,
    )  # fmt: skip
    return Search(state, history, measure)  # type: ignore[arg-type]
