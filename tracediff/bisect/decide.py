"""Whether a commit is beyond the limit: pairs of runs, an interval that may be looked at after every pair, good or bad."""

from __future__ import annotations

import math
import re
from typing import Literal

import msgspec

from tracediff.arrays import Floats
from tracediff.comparison.gates import parse_gate
from tracediff.comparison.measures import Measure, by_run, parse
from tracediff.comparison.sequential import Known, confidence_sequence

ERROR = 0.05
"""Probability that any answer of a search is wrong."""
FIRST_LOOK = 3  # pairs, before which no prior gives an interval
_PRIOR = 4.0, 400.0  # bounds of the variance of the effect size


class Rule(msgspec.Struct, frozen=True):
    """What is asked of the difference between two commits.

    limit_ns: beyond it a commit is bad; None: half of the difference that is found. share: the limit as a part of the baseline
    instead. direction: -1 where bad is faster, 0 where the difference decides. level: probability of a wrong answer.
    """

    level: float
    limit_ns: float | None = None
    share: float | None = None
    direction: Literal[-1, 0, 1] = 1
    prior: float = _PRIOR[0]


class Seen(Known, frozen=True):
    """What some pairs say of a commit."""

    sd_ns: float
    limit_ns: float
    answer: Literal["good", "bad"] | None


_LIMIT = re.compile(r":\+?\d[\d.]*(?:%|[a-z]*)\Z")


def parse_cause(text: str) -> tuple[Measure, float | None, float | None]:
    """Read MEASURE or MEASURE:+LIMIT: the measure, its limit in ns, and its limit as a share of the baseline; at most one is given.

    Raises `TracediffError`: bad-gate, bad-measure, measure-by-run.
    """
    if not _LIMIT.search(text.strip()):
        return by_run(parse(text)), None, None
    gate = parse_gate(text)
    measure = by_run(gate.measure)
    return (measure, None, gate.limit) if gate.percent else (measure, gate.limit, None)


def levels(commits: int, error: float = ERROR) -> float:
    """The probability of a wrong answer that each of the questions may have: both ends, one a halving, and the culprit's parent."""
    return error / (2 + max(1, math.ceil(math.log2(commits))))


def judge(baseline: Floats, candidate: Floats, rule: Rule) -> Seen:
    """Say what the pairs answer. `baseline[k]` and `candidate[k]` are the measure of one pair, ns per step.

    An answer errs on one side only, so the interval may miss the truth twice as often as the answer may be wrong.
    """
    differences = candidate - baseline
    low, high = confidence_sequence(differences, alpha=2 * rule.level, prior=rule.prior)
    mean, base = float(differences.mean()), float(baseline.mean())
    limit = mean / 2 if rule.limit_ns is None else rule.limit_ns
    if rule.share is not None:
        limit = rule.share * base
    direction = rule.direction or (1 if mean >= 0 else -1)
    worst, best = (low - limit, high - limit) if direction > 0 else (limit - high, limit - low)
    answer: Literal["good", "bad"] | None = "bad" if worst > 0 else "good" if best < 0 else None
    sd = float(differences.std(ddof=1)) if len(differences) > 1 else math.nan
    return Seen(len(differences), base, mean, low, high, sd, limit, answer)


def prior_of(limit_ns: float, sd_ns: float | None) -> float:
    """The variance of the effect size that makes intervals narrowest where commits lie a limit away from it, in units of the noise.

    It is fixed before the pairs that it is used for, so that their intervals stay valid. A clear change then takes
    three pairs where the prior of `confidence_sequence` takes five.
    """
    if not sd_ns:
        return _PRIOR[1]
    return min(max((limit_ns / sd_ns) ** 2, _PRIOR[0]), _PRIOR[1])
