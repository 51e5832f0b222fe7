"""A comparison from the words that name its inputs to its result: what the command line and the Python interface share."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tracediff.errors import TracediffError
from tracediff.execution.run import Reading, reduce_sides
from tracediff.formats.bundle import recorded
from tracediff.formats.inputs import resolve, resolve_pair
from tracediff.formats.selection import ALL, MIN_STEPS, Selection, spell_ranks, spell_steps, spell_window

if TYPE_CHECKING:
    from tracediff.model import Latencies, LatencySide, Result
if TYPE_CHECKING:
    from tracediff.formats.bundle import Bundle
    from tracediff.model import Result


# What is compared beside the traces, where it was given: counters of kernels, engines by trtexec, latencies.

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


@dataclass(frozen=True)
class Asked:
    """What is compared and how: the arguments and options of `tracediff compare` that change the result."""

    baseline: str
    candidate: str | None = None  # None: `baseline` is a capture bundle
    step_regex: str | None = None
    whole_capture: bool = False
    min_steps: int = MIN_STEPS
    noise: str | None = None
    kpi_baseline: tuple[Path, ...] = ()
    kpi_candidate: tuple[Path, ...] = ()
    host_only: bool = False
    force: bool = False
    memory_limit: str | None = None
    threads: int | None = None
    cached: bool = True
    only: tuple[Selection, Selection] = (
        ALL,
        ALL,
    )  # what is measured of each side; of --noise as of the baseline
    skip_unreadable: bool = False
    scheduler: str | None = None
    beside: Beside = NOTHING


def compare_inputs(
    asked: Asked,
    *,
    keep: bool = False,
    progress: Callable[[str], None] = lambda _: None,
    warn: Callable[[str], None] = lambda _: None,
) -> Result:
    """Find the files, read them, compare the sides.

    `keep`: with the events of some steps, to draw. `progress` is told each file's name before it is read, `warn` what
    was left out. Raises `TracediffError`: those of `readers`, `resolve_pair`, `reduce_sides`, `compare` and `read`,
    host-only-steps, kpi-one-side.
    """
    further = readers(asked.beside)
    reading = reading_of(
        asked.step_regex,
        asked.whole_capture,
        asked.host_only,
        asked.memory_limit,
        asked.threads,
        keep=keep,
        cached=asked.cached,
        only=asked.only,
        skip_unreadable=asked.skip_unreadable,
        scheduler=asked.scheduler,
    )
    *files, bundle = resolve_pair(asked.baseline, asked.candidate)
    if asked.noise:
        files.append(resolve(asked.noise))
    files = [replace(side, only=asked.only[number % 2]) for number, side in enumerate(files)]
    sides = reduce_sides(files, reading, progress, meanwhile=_ready)
    from tracediff.compare.compare import Options, compare

    result = compare(
        sides[0], sides[1], Options(asked.min_steps, asked.force, extra=_said(asked, bundle)),
        noise=sides[2] if asked.noise else None,
    )  # fmt: skip
    if asked.kpi_baseline or asked.kpi_candidate:
        result = _with_kpi(result, asked.kpi_baseline, asked.kpi_candidate)
    elif bundle is not None:
        from tracediff.companions.bench.compare import with_bundle_kpi

        result = with_bundle_kpi(result, bundle, warn)
    for add in further:
        result = add(result)
    return result


def _ready() -> None:
    """Import what compares: half a second, in which the database reads."""
    importlib.import_module("tracediff.compare.compare")
    importlib.import_module("scipy.special")


def reading_of(
    step_regex: str | None,
    whole_capture: bool,
    host_only: bool,
    memory_limit: str | None,
    threads: int | None,
    *,
    keep: bool = False,
    cached: bool = True,
    only: Sequence[Selection] = (),
    skip_unreadable: bool = False,
    scheduler: str | None = None,
) -> Reading:
    """How exports are read; `only`: what is measured of each side. Raises `TracediffError`: host-only-steps, no-steps-to-select."""
    if host_only and whole_capture:
        raise TracediffError(
            "host-only-steps",
            "the host alone is measured between step labels",
            fix="--host-only goes without --whole-capture",
            exit_code=2,
        )
    if whole_capture and any(one.cuts_steps for one in only):
        raise TracediffError(
            "no-steps-to-select",
            "--whole-capture counts each capture as one step: there are none to select",
            fix="--steps and --window go without --whole-capture; --step-regex names what begins a step",
            exit_code=2,
        )
    return Reading(
        step_regex, whole_capture, memory_limit, threads, host_only, keep, cached=cached,
        skip_unreadable=skip_unreadable, scheduler=scheduler,
    )  # fmt: skip


def selected(only: Sequence[Selection]) -> dict[str, object]:
    """What was asked for of the sides, as a result says it; a pair where the sides differ."""
    said: dict[str, object] = {}
    for name, spelled in (("steps", spell_steps), ("window", spell_window), ("ranks", spell_ranks)):
        words = list(dict.fromkeys(spelled(one) or "all" for one in only))
        if words != ["all"]:
            said[name] = "/".join(words)
    return said


def _said(asked: Asked, bundle: Bundle | None) -> dict[str, object]:
    """The options that a result mentions, where they were given."""
    said: dict[str, object] = {
        "step_regex": asked.step_regex, "whole_capture": asked.whole_capture, "host_only": asked.host_only,
        "force": asked.force, "noise": bool(asked.noise), **selected(asked.only),
        "recorded": recorded(Path(asked.baseline)) if bundle is not None else [],
    }  # fmt: skip
    return {name: value for name, value in said.items() if value}


def _with_kpi(result: Result, baseline: tuple[Path, ...], candidate: tuple[Path, ...]) -> Result:
    if not baseline or not candidate:
        raise TracediffError(
            "kpi-one-side",
            "a benchmark report was given for one side only",
            fix="give --baseline-kpi and --candidate-kpi",
        )
    import msgspec

    from tracediff.companions.bench.compare import compare_kpi
    from tracediff.companions.bench.read import read

    kpi = compare_kpi(
        [read(path) for path in baseline], [read(path) for path in candidate],
        step_baseline_ns=result.step.baseline_ns, step_candidate_ns=result.step.candidate_ns,
    )  # fmt: skip
    return msgspec.structs.replace(result, kpi=kpi)
