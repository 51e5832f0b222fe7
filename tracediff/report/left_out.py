"""Workloads that are in no mean, in words: a step time says nothing about them."""

from __future__ import annotations

from collections.abc import Sequence

from tracediff.model import Result, Stratum
from tracediff.model.show import Show
from tracediff.report import units
from tracediff.report.timelines import workload_name

_NAMED = 3  # further ones are summed up


def left_out(result: Result | Show) -> list[str]:
    """One sentence per workload, those with the most step time first; empty where every step counts."""
    two = isinstance(result, Result)
    out = [one for one in result.strata if not one.compared]
    out.sort(key=lambda one: -max(one.baseline_share or 0.0, (one.candidate_share or 0.0) if two else 0.0))
    size = _of_both if two else _of_one
    texts = [f"{size([one])} ({workload_name(one)}): {one.reason}" for one in out[:_NAMED]]
    if out[_NAMED:]:
        texts.append(f"{size(out[_NAMED:])} of {len(out) - _NAMED} more workloads")
    return [f"{'Left out of the comparison' if two else 'Not in the mean'}: {text}." for text in texts]


def _of_one(strata: Sequence[Stratum]) -> str:
    share = units.share(sum(one.baseline_share or 0.0 for one in strata))
    return f"{share} of the time of all steps, {units.counted(sum(one.baseline_steps for one in strata), 'step')}"


def _of_both(strata: Sequence[Stratum]) -> str:
    """Steps and step time of some strata, on both sides; no time where an older result does not know it."""
    steps = f"{sum(one.baseline_steps for one in strata):,} + {sum(one.candidate_steps for one in strata):,} steps"
    if any(one.baseline_share is None for one in strata):
        return steps
    one, other = (
        units.share(sum(share or 0.0 for share in shares))
        for shares in zip(*((one.baseline_share, one.candidate_share) for one in strata), strict=True)
    )
    both = (
        f"{one} of both sides'" if one == other else f"{one} of the baseline's and {other} of the candidate's"
    )
    return f"{both} step time, {steps}"
