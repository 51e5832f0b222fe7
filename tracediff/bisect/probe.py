"""One probe: build two commits, run them in interleaved pairs under the profiler until the difference is clear.

FOLDER/checkouts/baseline is the worktree of GOOD (at the end: of the culprit's parent), built once; FOLDER/checkouts/candidate that of the commit in
question, where git bisect keeps its state. FOLDER/probes has a capture bundle a probe, FOLDER/builds the logs of the builds.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from tracediff.arrays import Floats
from tracediff.bisect.decide import FIRST_LOOK, Rule, Seen, judge
from tracediff.bisect.search import ENDS, BudgetSpentError, git
from tracediff.capture.checkout import check_out_side, located
from tracediff.capture.plan import Plan, plan_from, read_plan
from tracediff.capture.runner import Pair, Runner
from tracediff.comparison.classes import with_classes
from tracediff.comparison.compare import compare
from tracediff.comparison.measures import Measure
from tracediff.comparison.sequential import finite, run_values
from tracediff.errors import TracediffError, UsageError
from tracediff.execution.run import Reduced
from tracediff.execution.sides import Reading, Side
from tracediff.formats.bundle import MANIFEST, SIDES, SideName, read_manifest
from tracediff.model.bisect import BisectCommit, BisectProbe
from tracediff.report.grammar import told

if TYPE_CHECKING:
    from tracediff.capture.machine import Nsys

TREES = "checkouts"
_TAIL = 1 << 16  # bytes of a build's log that are looked at
_REFS = {f"{name}_ref": "HEAD" for name in SIDES}  # each probe has its own
_TRIES = 3  # of a run: nsys loses its connection to the program now and then, and a commit that is skipped is not asked for again
# Errors of the machine or of the command, whatever the commit.
_OF_THE_MACHINE = ("out-of-memory", "disk-full", "bad-limit", "bad-step-regex", "scanner-missing")
# Neither side has what BAD has: it spends no time there.
_NOTHING_THERE = ("no-such-place", "no-such-kernel")


class Watch(msgspec.Struct):
    """Told how a search goes; here it says nothing."""

    building: Callable[[BisectCommit], None] = lambda commit: None
    probing: Callable[[BisectCommit, BisectCommit], None] = lambda baseline, candidate: None
    seen: Callable[[Seen], None] = lambda seen: None
    probed: Callable[[BisectProbe], None] = lambda probe: None


class _BrokenError(Exception):
    """A commit cannot be measured, for a reason of its own."""

    def __init__(self, commit: BisectCommit, slug: str, message: str) -> None:
        super().__init__(commit, slug, message)
        self.commit, self.slug, self.message = commit, slug, message


def plan_of(words: str, build: str | None) -> Plan:
    """The plan of a TOML file, or of a command. Its sides differ in nothing: they are the commits.

    Raises `TracediffError`: bisect-plan, and those of `read_plan`.
    """
    if words.endswith(".toml"):
        plan = read_plan(Path(words), build=build, **_REFS)
    else:
        plan = plan_from({"command": words, "build": build}, Path(), _REFS)
    if plan.baseline != plan.candidate or plan.order == "sequential" or plan.until:
        raise UsageError(
            "bisect-plan",
            "both sides of the plan have to be the same, order pairs of runs, and until is not given",
            fix="command, and what goes with it, at the top of the plan (docs/investigate.md#which-commit)",
        )
    return plan


class Prober(msgspec.Struct):
    """Measures commits. Called as `search.Measure`.

    spent: seconds of all finished probes; budget_s: how many may be spent in all.
    """

    folder: Path
    good: BisectCommit
    measure: Measure
    plan: Plan
    nsys: Nsys
    env: Mapping[str, str]
    max_pairs: int
    reading: Reading = msgspec.field(default_factory=Reading)
    budget_s: float = math.inf
    spent: Callable[[], float] = lambda: 0.0
    watch: Watch = msgspec.field(default_factory=Watch)

    def __call__(self, baseline: BisectCommit, candidate: BisectCommit, rule: Rule, name: str) -> BisectProbe:
        """Build and run both commits until `rule` has its answer or there are `max_pairs` pairs.

        Raises BudgetSpentError; `TracediffError`: bisect-end-broken, git-failed, and what is no fault of a commit.
        """
        if self.spent() >= self.budget_s:
            raise BudgetSpentError
        self.watch.probing(baseline, candidate)
        probe = BisectProbe(baseline=baseline, candidate=candidate, folder=f"probes/{name}")
        looks = _Looks(
            self,
            self.folder / probe.folder,
            rule,
            candidate,
            ends=name == ENDS,
            reduced=Reduced(self.reading),
        )
        began = time.monotonic()
        try:
            plan = self._plan(baseline, candidate)
            try:
                for side, one in zip(SIDES, (baseline, candidate), strict=True):
                    self._build(plan, side, one)
            finally:
                looks.build_seconds = time.monotonic() - began
            self._capture(plan, looks, baseline)
            looks.check()
        except _BrokenError as broken:
            if looks.ends or broken.commit == self.good:
                raise TracediffError(
                    "bisect-end-broken",
                    f"{broken.commit.commit[:12]} cannot be measured: {broken.message} [{broken.slug}]",
                    fix="GOOD and BAD have to build and run; the logs are in builds/ and probes/. Then the same command goes on",
                ) from None
            probe.reason, probe.message = broken.slug, broken.message
        probe.seconds = looks.seconds()
        if looks.last is not None:
            _fill(probe, looks.last)
        self.watch.probed(probe)
        return probe

    def _plan(self, baseline: BisectCommit, candidate: BisectCommit) -> Plan:
        """The plan of two commits: each in a worktree, pairs until it is known."""
        sides = {
            name: msgspec.structs.replace(self.plan.side(name), ref=one.commit)
            for name, one in zip(SIDES, (baseline, candidate), strict=True)
        }
        return located(
            msgspec.structs.replace(
                self.plan, **sides, repeats=FIRST_LOOK, until=self.measure.text, max_runs=self.max_pairs
            ),
            self.folder / TREES,
        )

    def _build(self, plan: Plan, side: SideName, one: BisectCommit) -> None:
        """Have a commit in the worktree of a side, built. Raises _BrokenError."""
        tree = self.folder / TREES / side
        if tree.exists() and (built := _built(tree)).exists():
            if built.read_text() == one.commit:
                return
            built.unlink()
        log = self.folder / "builds" / f"{one.commit[:12]}.log"
        log.parent.mkdir(exist_ok=True)
        if plan.side(side).build:
            self.watch.building(one)
        try:
            with log.open("wb") as file:
                check_out_side(plan.side(side), side, tree.resolve(), file.fileno())
        except TracediffError as error:
            if error.slug == "checkout-failed":  # git's trouble, or the disk's
                raise
            said = _last_line(log)
            raise _BrokenError(one, error.slug, f"{error.message}{': ' * bool(said)}{said}") from None
        _built(tree).write_text(one.commit)

    def _capture(self, plan: Plan, looks: _Looks, baseline: BisectCommit) -> None:
        """Run pairs. Raises _BrokenError, BudgetSpentError."""
        runner = Runner(plan, looks.bundle, self.nsys, self.env, enough=looks)
        looks.bundle.parent.mkdir(exist_ok=True)
        for left in reversed(range(_TRIES)):
            try:
                runner.run(resume=True)
                break
            except TracediffError as error:
                if error.slug == "capture-interrupted":
                    error.fix = "the same command goes on from there"
                if error.slug != "capture-run-failed":
                    raise
                failed = next(run for run in read_manifest(looks.bundle).runs if run.status == "failed")
                said = failed.error or {}
                if left and said.get("slug") != "capture-timeout":
                    continue
                at_fault = baseline if failed.side == "baseline" else looks.candidate
                raise _BrokenError(
                    at_fault, said.get("slug", error.slug), said.get("message", error.message)
                ) from None
        if looks.out_of_budget:
            raise BudgetSpentError


class _Looks(msgspec.Struct):
    """What the runner asks after every pair. Each export is read once."""

    prober: Prober
    bundle: Path
    rule: Rule
    candidate: BisectCommit
    ends: bool  # nothing of them is taken for granted
    reduced: Reduced
    last: Seen | None = None
    out_of_budget: bool = False
    build_seconds: float = 0.0
    _sides: list[Side] = msgspec.field(default_factory=list)

    def __call__(self, pairs: Sequence[Pair]) -> tuple[dict[str, Any], str | None]:
        """Return the look for the manifest, and why no more runs are needed (None: go on). Raises _BrokenError."""
        baseline, candidate = self._values(pairs)
        self.last = seen = judge(baseline, candidate, self.rule)
        self.prober.watch.seen(seen)
        self.out_of_budget = (
            seen.answer is None and self.prober.spent() + self.seconds() >= self.prober.budget_s
        )
        record = seen.recorded(abs(seen.limit_ns - seen.delta_ns), 2 * self.rule.level)
        return record, seen.answer or ("budget" if self.out_of_budget else None)

    def _values(self, pairs: Sequence[Pair]) -> tuple[Floats, Floats]:
        """The measure of every pair. Raises _BrokenError where there is none: the runs of the commit are of another kind."""
        try:
            self._sides = [self.reduced.side(name, [pair[name] for pair in pairs]) for name in SIDES]
            return run_values(self.prober.measure, *with_classes(self._sides))
        except TracediffError as error:
            if error.slug in _NOTHING_THERE and not self.ends:
                return np.zeros(len(pairs)), np.zeros(len(pairs))
            if error.slug in (*_NOTHING_THERE, "no-such-phase") and self.ends:
                error.fix = (
                    f"--cause with {error.fix}; the same command with it goes on with the runs that are there"
                )
                raise
            if error.slug in _OF_THE_MACHINE:
                raise
            raise _BrokenError(self.candidate, error.slug, error.message) from None

    def check(self) -> None:
        """Raise _BrokenError where an answer is one about runs that cannot be compared."""
        if self.last is None or self.last.answer is None:
            return
        try:
            baseline, candidate = self._sides
            found = compare(baseline, candidate).comparability
        except TracediffError as error:
            raise _BrokenError(self.candidate, error.slug, error.message) from None
        failed = [told(one.said) for one in found.checks if one.status == "fail"]
        if not found.comparable:
            raise _BrokenError(self.candidate, "not-comparable", "; ".join(failed))

    def seconds(self) -> float:
        """Of the builds, and of the runs of the bundle so far."""
        if not (self.bundle / MANIFEST).exists():
            return self.build_seconds
        return self.build_seconds + sum(run.seconds for run in read_manifest(self.bundle).runs)


def _built(tree: Path) -> Path:
    """A file beside the index of a worktree, which goes with it: the commit that was built there last."""
    return tree / git(tree, "rev-parse", "--git-path", "tracediff-built").strip()


def _fill(probe: BisectProbe, seen: Seen) -> None:
    """The figures of a probe, and its answer unless there is a reason to skip it."""
    probe.pairs, probe.baseline_ns, probe.delta_ns = seen.pairs, seen.baseline_ns, seen.delta_ns
    probe.low_ns, probe.high_ns = finite(seen.low_ns), finite(seen.high_ns)
    probe.sd_ns = finite(seen.sd_ns)
    if not probe.reason:
        probe.verdict = seen.answer or "skip"
        probe.reason = "" if seen.answer else "noise"


def _last_line(log: Path) -> str:
    """The end of the last line that says something."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL))
        lines = file.read().decode(errors="replace").split("\n")
    return next((line.strip()[-200:] for line in reversed(lines) if line.strip()), "")
