"""How causes are planted: time that is really spent, and a record of what it took."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field


def busy(ns: int) -> None:
    """Run Python bytecode for `ns`, the GIL held."""
    end = time.perf_counter_ns() + ns
    while time.perf_counter_ns() < end:
        pass


def precise_sleep() -> None:
    """Ask the kernel for 1 ns timer slack on this thread, so that short sleeps end on time."""
    try:
        import ctypes

        ctypes.CDLL(None).prctl(29, 1, 0, 0, 0)  # PR_SET_TIMERSLACK
    except (OSError, AttributeError):
        pass


@dataclass(slots=True)
class Planted:
    """What the planted causes really took, ns a step in which they acted."""

    taken: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    def timed(self, name: str, step: int, act: Callable[[], object]) -> None:
        """Do it and note how long it took."""
        start = time.perf_counter_ns()
        act()
        self.taken.setdefault(name, []).append((step, time.perf_counter_ns() - start))

    def summary(self, first: int, last: int) -> dict[str, dict[str, float]]:
        """Mean time of each cause over all steps first..last, those without it counted as zero."""
        result = {}
        for name, taken in self.taken.items():
            inside = [ns for step, ns in taken if first <= step <= last]
            if inside:
                steps = last - first + 1
                result[name] = {
                    "us_per_step": round(sum(inside) / steps / 1e3, 3),
                    "times": len(inside),
                    "us_each": round(statistics.fmean(inside) / 1e3, 3),
                }
        return result
