"""The search: git bisect asks for commits, each is measured beside GOOD, and the culprit beside its parent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tracediff.bisect.decide import Rule, levels, prior_of
from tracediff.bisect.history import History
from tracediff.model.bisect import Bisect, BisectCommit, BisectProbe

ENDS, PARENT = "ends", "culprit"  # folders of what is no probe


class BudgetSpentError(Exception):
    """No more runs may be made."""


class Measure(Protocol):
    """Measures a commit beside another one."""

    def __call__(self, baseline: BisectCommit, candidate: BisectCommit, rule: Rule, name: str) -> BisectProbe:
        """Raises BudgetSpentError; `TracediffError` for what is no fault of a commit between GOOD and BAD."""


@dataclass
class Search:
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
