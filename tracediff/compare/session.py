"""What is compared beside the traces, where it was given: counters of kernels, engines by trtexec, latencies."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tracediff.errors import TracediffError

if TYPE_CHECKING:
    from tracediff.model import Latencies, LatencySide, Result

UNITS = ("ns", "us", "ms", "s")
Add = Callable[["Result"], "Result"]
_T = TypeVar("_T")


def is_warm_up(value: str) -> bool:
    """Whether a word says how many first iterations of a run are left out: auto, or a number of them."""
    return value == "auto" or (value.isdecimal() and value.isascii() and len(value) < 10)


@dataclass(frozen=True)
class LatencyOptions:
    """How files of latencies are read, and the files of each side: a path a run, or a folder."""

    column: str | None = None
    unit: str | None = None
    warm_up: str = "auto"
    baseline: tuple[Path, ...] = ()
    candidate: tuple[Path, ...] = ()

    def __post_init__(self) -> None:
        """Raise ValueError for what no command line could give."""
        if self.unit not in (None, *UNITS):
            raise ValueError(f"the unit of latencies is one of {', '.join(UNITS)}, not {self.unit!r}")
        if not is_warm_up(self.warm_up):
            raise ValueError(f"warm-up is auto or a number of iterations such as 0, not {self.warm_up!r}")


@dataclass(frozen=True)
class Beside:
    """What was given beside the traces, baseline and candidate; None or no path: not given."""

    ncu: tuple[Path | None, Path | None] = (None, None)
    trtexec: tuple[str | None, str | None] = (None, None)  # words as `load.trtexec.read` takes them
    latencies: LatencyOptions = LatencyOptions()


NOTHING = Beside()


def readers(given: Beside) -> list[Add]:
    """Read all files now, and return what adds their comparisons to a result.

    Raises `TracediffError`: ncu-one-side, trtexec-one-side, latencies-one-side, and those of what reads the files.
    """
    return [_counters(given.ncu), _engines(given.trtexec), _latencies(given.latencies)]


def _as_it_is(result: Result) -> Result:
    return result


def _both(given: tuple[_T | None, _T | None], one_side: TracediffError) -> tuple[_T, _T] | None:
    """What was given for both sides, None where nothing was; raises `one_side` otherwise."""
    baseline, candidate = given
    if baseline is None and candidate is None:
        return None
    if baseline is None or candidate is None:
        raise one_side
    return baseline, candidate


def _give(option: str) -> str:
    return f"give --{option}-baseline and --{option}-candidate"


def _counters(given: tuple[Path | None, Path | None]) -> Add:
    what = "a profile of Nsight Compute was given for one side only"
    files = _both(given, TracediffError("ncu-one-side", what, fix=_give("ncu"), exit_code=2))
    if files is None:
        return _as_it_is
    from tracediff.companions.ncu.read import read

    before, after = map(read, files)

    def add(result: Result) -> Result:
        import msgspec

        from tracediff.companions.ncu.compare import compare_ncu

        return msgspec.structs.replace(result, ncu=compare_ncu(before, after, result.kernels))

    return add


def _engines(given: tuple[str | None, str | None]) -> Add:
    what = "files of trtexec were given for one side only"
    files = _both(given, TracediffError("trtexec-one-side", what, fix=_give("trtexec"), exit_code=2))
    if files is None:
        return _as_it_is
    from tracediff.companions.trtexec.compare import compare_trtexec
    from tracediff.companions.trtexec.read import read

    found = compare_trtexec(*map(read, files))

    def add(result: Result) -> Result:
        import msgspec

        return msgspec.structs.replace(result, trtexec=found)

    return add


def compare_latencies(options: LatencyOptions, labels: tuple[str, str]) -> Latencies:
    """Read and compare both sides. Raises `TracediffError`: those of `read_side` and of `measure.latencies`."""
    from tracediff.companions.latencies import compare as latencies
    from tracediff.companions.latencies.read import read_side

    sides = [
        read_side(paths, column=options.column, unit=options.unit)
        for paths in (options.baseline, options.candidate)
    ]
    return latencies.compare_latencies(sides[0], sides[1], labels, options.warm_up)


def _name_here(error: TracediffError) -> None:
    """Name the options of an error as `tracediff compare` calls them."""
    error.message, error.fix = (
        re.sub(r"--(?=(?:column|unit|warmup)\b)", "--latencies-", text)
        for text in (error.message, error.fix or "")
    )


def _here(side: LatencySide, label: str) -> LatencySide:
    """A side by the label of its traces, and with the option that gave its unit as `tracediff compare` calls it."""
    import msgspec

    runs = [
        msgspec.structs.replace(run, unit_from="--latencies-unit") if run.unit_from == "--unit" else run
        for run in side.runs
    ]
    return msgspec.structs.replace(side, label=label, runs=runs)


def _latencies(options: LatencyOptions) -> Add:
    none = not options.baseline and not options.candidate
    what = (
        "options on latencies were given and no latencies"
        if none
        else "latencies were given for one side only"
    )
    one_side = TracediffError("latencies-one-side", what, fix=_give("latencies"), exit_code=2)
    if _both((options.baseline or None, options.candidate or None), one_side) is None:
        if options != LatencyOptions():
            raise one_side
        return _as_it_is
    try:
        found = compare_latencies(options, ("baseline", "candidate"))
    except TracediffError as error:
        _name_here(error)
        raise

    def add(result: Result) -> Result:
        import msgspec

        from tracediff.companions.latencies.beside import beside

        sides = {
            side: _here(getattr(found, side), getattr(result.inputs, side).label)
            for side in ("baseline", "candidate")
        }
        named = msgspec.structs.replace(found, **sides)
        return msgspec.structs.replace(result, latencies=beside(named, result))

    return add
