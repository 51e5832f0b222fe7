"""Workloads that the comparison leaves out, in words: a step time says nothing about them."""

from __future__ import annotations

from collections.abc import Sequence

from tracediff.model import Result, Stratum
from tracediff.report import units
from tracediff.report.timelines import workload_name

_NAMED = 3  # further ones are summed up


def left_out(result: Result) -> list[str]:
    """One sentence a workload, those with the most step time first; empty where every step was compared."""
    out = [one for one in result.strata if not one.compared]
    out.sort(key=lambda one: -max(one.baseline_share or 0.0, one.candidate_share or 0.0))
    texts = [f"{_size([one])} ({workload_name(one)}): {one.reason}" for one in out[:_NAMED]]
    if out[_NAMED:]:
        texts.append(f"{_size(out[_NAMED:])} of {len(out) - _NAMED} more workloads")
    return [f"Left out of the comparison: {text}." for text in texts]


def _size(strata: Sequence[Stratum]) -> str:
    """Steps and step time of some strata, on both sides."""
    steps = [sum(getattr(one, f"{side}_steps") for one in strata) for side in ("baseline", "candidate")]
    return f"{_shares(strata)}{steps[0]:,} + {steps[1]:,} steps"


def _shares(strata: Sequence[Stratum]) -> str:
    """Their part of the step time of each side; '' where an older result does not know it."""
    sides = [[one.baseline_share for one in strata], [one.candidate_share for one in strata]]
    if any(share is None for side in sides for share in side):
        return ""
    one, other = (units.share(sum(share or 0.0 for share in side)) for side in sides)
    both = (
        f"{one} of both sides'" if one == other else f"{one} of the baseline's and {other} of the candidate's"
    )
    return f"{both} step time, "
