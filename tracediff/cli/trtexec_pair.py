"""`--trtexec-baseline` and `--trtexec-candidate` of `tracediff compare`: the engines of both sides by trtexec."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tracediff.errors import TracediffError

if TYPE_CHECKING:
    from tracediff.model import Result


def reader(baseline: str | None, candidate: str | None) -> Callable[[Result], Result]:
    """Read and compare both sides now, and return what adds the comparison to a result.

    Raises `TracediffError`: trtexec-one-side, and those of tracediff.load.trtexec.
    """
    if baseline is None and candidate is None:
        return lambda result: result
    if baseline is None or candidate is None:
        raise TracediffError(
            "trtexec-one-side",
            "files of trtexec were given for one side only",
            fix="give --trtexec-baseline and --trtexec-candidate",
            exit_code=2,
        )
    from tracediff.load.trtexec import read
    from tracediff.measure.trtexec import compare_trtexec

    found = compare_trtexec(read(baseline), read(candidate))

    def add(result: Result) -> Result:
        import msgspec

        return msgspec.structs.replace(result, trtexec=found)

    return add
