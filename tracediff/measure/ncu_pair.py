"""Profiles of Nsight Compute beside a comparison of steps: its kernels by their hardware counters."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tracediff.errors import TracediffError

if TYPE_CHECKING:
    from tracediff.model import Result


def reader(baseline: Path | None, candidate: Path | None) -> Callable[[Result], Result]:
    """Read both files now, and return what adds their comparison to a result.

    Raises `TracediffError`: ncu-one-side, and those of tracediff.load.ncu.
    """
    if baseline is None and candidate is None:
        return lambda result: result
    if baseline is None or candidate is None:
        raise TracediffError(
            "ncu-one-side",
            "a profile of Nsight Compute was given for one side only",
            fix="give --ncu-baseline and --ncu-candidate",
            exit_code=2,
        )
    from tracediff.load.ncu import read

    before, after = read(baseline), read(candidate)

    def add(result: Result) -> Result:
        import msgspec

        from tracediff.measure.ncu import compare_ncu

        return msgspec.structs.replace(result, ncu=compare_ncu(before, after, result.kernels))

    return add
