"""`tracediff capture --until`: asked after every pair of runs whether the change of a measure is known well enough."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracediff.capture.plan import until_of
from tracediff.formats.bundle import SIDES

if TYPE_CHECKING:
    from tracediff.accounting.reduction import Reduction
    from tracediff.capture.runner import Pair
    from tracediff.comparison.measures import Measure
    from tracediff.comparison.sequential import Look
    from tracediff.execution.sides import Side


@dataclass
class Adaptive:
    """What the runner asks after every pair. Each export is read once."""

    until: str
    max_runs: int
    tell: Callable[[str], None]
    _reduced: dict[Path, Reduction] = field(default_factory=dict)

    def __call__(self, pairs: Sequence[Pair]) -> tuple[dict[str, Any], str | None]:
        """Return the look for the manifest, and why no more runs are needed (None: go on).

        Raises `TracediffError` where an export has no steps to be timed.
        """
        from tracediff.comparison import sequential

        measure, wanted, relative = wanted_of(self.until)
        baseline, candidate = (self._side(name, [pair[name] for pair in pairs]) for name in SIDES)
        times = sequential.run_values(measure, baseline, candidate)
        seen = sequential.look(*times, wanted=wanted, relative=relative)
        self.tell(estimate(seen, measure.text, last=seen.pairs >= self.max_runs))
        record: dict[str, Any] = {
            "pairs": seen.pairs,
            "baseline_ns": round(seen.baseline_ns, 1),
            "delta_ns": round(seen.delta_ns, 1),
            "low_ns": _bound(seen.low_ns),
            "high_ns": _bound(seen.high_ns),
            "wanted_ns": round(seen.wanted_ns, 1),
            "alpha": sequential.ALPHA,
            "method": sequential.METHOD,
        }
        return record, seen.answer

    def _side(self, name: str, runs: Sequence[Sequence[Path]]) -> Side:
        from tracediff.execution.reading import Reading
        from tracediff.execution.run import reduce_file
        from tracediff.execution.sides import Run, Side

        for path in (path for run in runs for path in run if path not in self._reduced):
            self._reduced[path] = reduce_file(path, Reading())
        return Side(
            name,
            [
                Run(run[0].parent.name, [self._reduced[path] for path in run])
                for run in runs
            ],
        )  # fmt: skip


def wanted_of(until: str) -> tuple[Measure, float, bool]:
    """The measure and the half-width of its interval: see `until_of`. Raises `TracediffError`: bad-measure, measure-by-run."""
    from tracediff.comparison.measures import by_run, parse

    text, wanted, relative = until_of(until)
    return by_run(parse(text)), wanted, relative


def _bound(value: float) -> float | None:
    return round(value, 1) if math.isfinite(value) else None


def estimate(seen: Look, name: str = "step", *, last: bool = False) -> str:
    """Return the running estimate of a measure as a line; `last`: no more runs may be made."""
    relative = name == "step"
    scale, unit, digits = (100 / seen.baseline_ns, "%", 2) if relative else (1e-3, "us", 1)
    wanted = f"wanted +-{seen.wanted_ns * scale:.2g} {unit}"
    change = f"after {seen.pairs} pairs: {name} {seen.delta_ns * scale:+.{digits}f} {unit}"
    onward = "--max-runs reached" if last else "going on"
    if not math.isfinite(seen.half_ns):
        return f"{change}, too few pairs for an interval; {wanted}: {onward}"
    low, high = (bound * scale for bound in (seen.low_ns, seen.high_ns))
    interval = f"interval {low:+.{digits}f} to {high:+.{digits}f} {unit}, {wanted}"
    ends = {"changed": f"{name} changed: enough", "narrow": "narrow enough", None: onward}
    return f"{change}, {interval}: {ends[seen.answer]}"
