"""A comparison from the words that name its inputs to its result: what the command line and the Python interface share."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tracediff.capture.bundle_order import recorded
from tracediff.errors import TracediffError
from tracediff.load.inputs import resolve, resolve_pair
from tracediff.load.selection import ALL, MIN_STEPS, Selection, spell_ranks, spell_steps, spell_window
from tracediff.measure.beside import NOTHING, Beside, readers
from tracediff.measure.run import Reading, reduce_sides

if TYPE_CHECKING:
    from tracediff.capture.bundle import Bundle
    from tracediff.model import Result


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
    from tracediff.measure.compare import Options, compare

    result = compare(
        sides[0], sides[1], Options(asked.min_steps, asked.force, extra=_said(asked, bundle)),
        noise=sides[2] if asked.noise else None,
    )  # fmt: skip
    if asked.kpi_baseline or asked.kpi_candidate:
        result = _with_kpi(result, asked.kpi_baseline, asked.kpi_candidate)
    elif bundle is not None:
        from tracediff.measure.bundle_kpi import with_bundle_kpi

        result = with_bundle_kpi(result, bundle, warn)
    for add in further:
        result = add(result)
    return result


def _ready() -> None:
    """Import what compares: half a second, in which the database reads."""
    importlib.import_module("tracediff.measure.compare")
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

    from tracediff.load.kpi import read
    from tracediff.measure.kpi import compare_kpi

    kpi = compare_kpi(
        [read(path) for path in baseline], [read(path) for path in candidate],
        step_baseline_ns=result.step.baseline_ns, step_candidate_ns=result.step.candidate_ns,
    )  # fmt: skip
    return msgspec.structs.replace(result, kpi=kpi)
