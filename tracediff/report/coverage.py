"""What share of each side's step time the numbers speak of, and what is not compared: a bar a side, with names beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tracediff.model import Result, Stratum
from tracediff.model.common import ABSENT
from tracediff.report import units, words
from tracediff.report.causes import run_name

_NAMED = 2  # workloads at most; further ones are summed up
_WORTH_A_NAME = 0.02  # of a side's step time
_LEAST = 0.0005  # less is not worth a word

# Why steps of a workload are not compared, in brackets behind it.
_WHY = {
    "irregular": "no regular phase",
    "baseline_only": "the candidate has none",
    "candidate_only": "the baseline has none",
    "other_ops": "other GPU work",
    "none_typical": "no typical step",
    "first_use": "first use of kernels",
}


@dataclass(frozen=True)
class Left:
    """A part of a side's step time that is not compared, 0 to 1, and what it is."""

    share: float
    text: str


@dataclass(frozen=True)
class Side:
    """A bar: `share` of the side's step time is compared, 0 to 1; the parts of the rest, the largest first."""

    name: str
    share: float
    left: list[Left]

    @property
    def percent(self) -> str:
        """`71 %`; never `100 %` where something is left out."""
        return ">99.9 %" if self.left and self.share >= 0.9995 else units.share(self.share)


def sides(result: Result) -> list[Side]:
    """Return the bar of each side; empty where nothing was compared or an older result does not know the shares."""
    shares = result.step.time_share
    out = [one for one in result.strata if not one.compared]
    known = all(one.baseline_share is not None for one in result.strata)
    if not known or result.verdict == "not_comparable":
        return []
    return [
        _side(result, "baseline", shares.baseline, [(one.baseline_share or 0.0, one) for one in out]),
        _side(
            result,
            "candidate",
            shares.candidate,
            [(0.0 if one.candidate_share in (None, ABSENT) else one.candidate_share, one) for one in out],
        ),
    ]


def _side(result: Result, name: str, share: float, out: Sequence[tuple[float, Stratum]]) -> Side:
    strata = sorted((pair for pair in out if pair[0] > 0), key=lambda pair: -pair[0])
    named = [pair for pair in strata[:_NAMED] if pair[0] >= _WORTH_A_NAME or len(strata) == 1]
    left = [Left(size, _workload(one)) for size, one in named]
    if more := strata[len(named) :]:
        text = units.counted(len(more), "more workload" if named else "workload")
        left.append(Left(sum(size for size, _ in more), f"{text} without a counterpart"))
    rest = 1.0 - share - sum(one.share for one in left)
    if rest > _LEAST:
        left.append(Left(rest, _runs(result, name)))
    return Side(name, share, sorted((one for one in left if one.share > _LEAST), key=lambda one: -one.share))


def _workload(stratum: Stratum) -> str:
    why = _WHY.get(stratum.reason, stratum.reason.replace("_", " "))
    return words.workload_name(stratum, " with ").replace("step", "steps", 1) + (f" ({why})" if why else "")


def _runs(result: Result, side: str) -> str:
    """What the steps are of that no workload accounts for: those of runs that are left out."""
    odd = [run for phase in result.phases for run in phase.odd_runs if run.side == side and run.left_out]
    names = list(dict.fromkeys(run_name(one.run) for one in odd))
    if not names:
        return "other steps"
    return f"{'run' if len(names) == 1 else 'runs'} {', '.join(names)}, unlike the others"
