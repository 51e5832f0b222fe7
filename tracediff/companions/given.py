"""What was given beside the traces of a comparison: read before them, and added to the result as a section each.

A companion is imported where its files were given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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


def _on_both(files: Sequence[object], slug: str, what: str, name: str, exit_code: int = 2) -> bool:
    """Whether something was given on both sides, or nothing; raises `TracediffError` (`slug`) for one side alone."""
    if any(files) and not all(files):
        fix = f"give {name.format('baseline')} and {name.format('candidate')}"
        raise TracediffError(slug, f"{what} for one side only", fix=fix, exit_code=exit_code)
    return all(files)


def _ncu(request: CompareRequest) -> Add | None:
    files = word(request.ncu_baseline), word(request.ncu_candidate)
    if not _on_both(files, "ncu-one-side", "a profile of Nsight Compute was given", "--ncu-{}"):
        return None
    from tracediff.companions.ncu.compare import compare_ncu
    from tracediff.companions.ncu.read import read

    before, after = (read(Path(file)) for file in files if file)
    return lambda result: replace(result, ncu=compare_ncu(before, after, result.kernels))


def _trtexec(request: CompareRequest) -> Add | None:
    files = word(request.trtexec_baseline), word(request.trtexec_candidate)
    if not _on_both(files, "trtexec-one-side", "files of trtexec were given", "--trtexec-{}"):
        return None
    from tracediff.companions.trtexec.compare import compare_trtexec
    from tracediff.companions.trtexec.read import read

    found = compare_trtexec(*(read(file) for file in files if file))
    return lambda result: replace(result, trtexec=found)


def _latencies(request: CompareRequest) -> Add | None:
    options = request.latencies()
    if options == LatencyOptions(prefix=options.prefix):
        return None
    sides = options.baseline, options.candidate
    if not _on_both(sides, "latencies-one-side", "latencies were given", "--latencies-{}"):
        fix = "give --latencies-baseline and --latencies-candidate"
        raise TracediffError(
            "latencies-one-side", "options on latencies were given and no latencies", fix=fix, exit_code=2
        )
    from tracediff.companions.latencies.compare import beside, compare_files

    found = compare_files(options, ("baseline", "candidate"))
    return lambda result: replace(result, latencies=beside(found, result))


def _kpi(request: CompareRequest) -> Add | None:
    files = paths(request.baseline_kpi), paths(request.candidate_kpi)
    if not _on_both(files, "kpi-one-side", "a benchmark report was given", "--{}-kpi", exit_code=1):
        return None
    from tracediff.companions.bench.compare import compare_kpi
    from tracediff.companions.bench.read import read

    before, after = ([read(path) for path in side] for side in files)
    return lambda result: replace(
        result, kpi=compare_kpi(before, after, (result.step.baseline_ns, result.step.candidate_ns))
    )
