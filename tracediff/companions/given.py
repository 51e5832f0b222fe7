"""What was given beside the traces of a comparison: read before them, and added to the result as a section each.

A companion is imported where its files were given.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tracediff.errors import TracediffError
from tracediff.request import CompareRequest, LatencyOptions, paths, word

if TYPE_CHECKING:
    from tracediff.companions.result import Result

Add = Callable[["Result"], "Result"]


def additions(request: CompareRequest) -> list[Add]:
    """Read all files now, and return what adds a section each to a result.

    Raises `TracediffError`: ncu-one-side, trtexec-one-side, latencies-one-side, kpi-one-side, and those of the readers.
    """
    return [add for read in (_ncu, _trtexec, _latencies, _kpi) if (add := read(request))]


def _ncu(request: CompareRequest) -> Add | None:
    files = word(request.ncu_baseline), word(request.ncu_candidate)
    if not any(files):
        return None
    if not all(files):
        raise TracediffError(
            "ncu-one-side", "a profile of Nsight Compute was given for one side only", fix="give --ncu-baseline and --ncu-candidate", exit_code=2
        )  # fmt: skip
    from tracediff.companions.ncu.compare import compare_ncu
    from tracediff.companions.ncu.read import read

    before, after = (read(Path(file)) for file in files if file)
    return lambda result: replace(result, ncu=compare_ncu(before, after, result.kernels))


def _trtexec(request: CompareRequest) -> Add | None:
    files = word(request.trtexec_baseline), word(request.trtexec_candidate)
    if not any(files):
        return None
    if not all(files):
        raise TracediffError(
            "trtexec-one-side", "files of trtexec were given for one side only", fix="give --trtexec-baseline and --trtexec-candidate", exit_code=2
        )  # fmt: skip
    from tracediff.companions.trtexec.compare import compare_trtexec
    from tracediff.companions.trtexec.read import read

    found = compare_trtexec(*(read(file) for file in files if file))
    return lambda result: replace(result, trtexec=found)


def _latencies(request: CompareRequest) -> Add | None:
    options = request.latencies()
    if options == LatencyOptions(prefix=options.prefix):
        return None
    if not options.baseline or not options.candidate:
        one = options.baseline or options.candidate
        what = (
            "latencies were given for one side only"
            if one
            else "options on latencies were given and no latencies"
        )
        raise TracediffError(
            "latencies-one-side", what, fix="give --latencies-baseline and --latencies-candidate", exit_code=2
        )
    from tracediff.companions.latencies.compare import beside, compare_files

    found = compare_files(options, ("baseline", "candidate"))
    return lambda result: replace(result, latencies=beside(found, result))


def _kpi(request: CompareRequest) -> Add | None:
    files = paths(request.baseline_kpi), paths(request.candidate_kpi)
    if not any(files):
        return None
    if not all(files):
        raise TracediffError(
            "kpi-one-side", "a benchmark report was given for one side only", fix="give --baseline-kpi and --candidate-kpi"
        )  # fmt: skip
    from tracediff.companions.bench.compare import compare_kpi
    from tracediff.companions.bench.read import read

    before, after = ([read(path) for path in side] for side in files)
    return lambda result: replace(
        result, kpi=compare_kpi(before, after, (result.step.baseline_ns, result.step.candidate_ns))
    )
