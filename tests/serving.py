"""A tiny serving loop as a trace: every time of a step is an argument: deltas can be said in advance."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fixtures.builders import TraceBuilder
from tests.tiny import label, reduced
from tracediff.execution.sides import Run, Side

US = 1000


def serving(
    steps: int = 12,
    *,
    schedule_us: float = 100,
    kernel_us: float = 200,
    kernels: int = 3,
    kernel_name: str = "gemm",
    jitter_us: float = 0.0,
    seed: int = 0,
    gen: int = 4,
    gil: bool = False,
    gc_us: float = 0.0,
    graph: bool = True,
    load_us: float = 0.0,
) -> TraceBuilder:
    """Steps of `_schedule` (host only), then kernels launched together at its end, then a synchronising call.

        thread  |label n ... ---------------------------------------------|label n + 1
                |_schedule (schedule_us)|launch 5 us|sync until the last kernel ends
        device                             2 us|kernel|kernel|kernel|
    One step lasts schedule + 5 + 2 + kernels * kernel_us, whatever the others are: `step_ns`. With `load_us` the first one goes on to
    `_load` for so long, and to launch one kernel more.
    """
    rng = np.random.default_rng(seed)
    trace = TraceBuilder().process(100).device(0).thread(100, 1)
    now = 0
    for number in range(steps + 1):
        extra = int(rng.normal(0, jitter_us * US)) if jitter_us else 0
        begin = now
        schedule = begin + int(schedule_us * US) + extra
        trace.range(1, "_schedule", begin, schedule)
        if gc_us:
            trace.gc(1, begin, begin + int(gc_us * US), generation=2)
        launched = schedule + 5 * US
        corr = number + 1
        trace.api(1, "cudaGraphLaunch", schedule, launched, corr=corr)
        at = launched + 2 * US
        for node in range(kernels):
            trace.kernel(
                corr,
                at,
                at + int(kernel_us * US),
                name=f"{kernel_name}_{node}",
                graph_node=100 + node if graph else None,
            )
            at += int(kernel_us * US)
        if load_us and not number:
            ready = at + int(load_us * US)
            trace.range(1, "_load", at, ready)
            corr = 999_999  # just before the number of the call after it: no call between was lost
            trace.api(1, "cudaLaunchKernel", ready, ready + 5 * US, corr=corr)
            trace.kernel(corr, ready + 7 * US, ready + 7 * US + int(kernel_us * US), name="loaded")
            launched, at = ready + 5 * US, ready + 7 * US + int(kernel_us * US)
        trace.api(1, "cudaStreamSynchronize", launched, at)
        trace.range(1, label(number, gen=gen), begin, at)
        if gil:
            trace.gil(1, "wait", begin + 10 * US, begin + 30 * US)
        now = at
    return trace


def step_ns(schedule_us: float = 100, kernel_us: float = 200, kernels: int = 3) -> float:
    """The length of a step of `serving`, without jitter."""
    return (schedule_us + 5 + 2 + kernels * kernel_us) * US


def run_of(
    folder: Path, name: str, number: int, schedule_us: float, *, jitter_us: float = 2.0, **rest
) -> Run:
    """Run `number` of a program: name and number decide its jitter."""
    place = folder / f"{name}{number}-{schedule_us}"
    place.mkdir()
    seed = sum(map(ord, name)) * 100 + number
    trace = serving(schedule_us=schedule_us, jitter_us=jitter_us, seed=seed, **rest)
    return Run(f"{name}{number}", [reduced(trace, place)])


def runs_of(folder: Path, name: str, schedules_us, **rest) -> Side:
    """A side with one run for each length of `_schedule`; every run has its own jitter."""
    return Side(name, [run_of(folder, name, *one, **rest) for one in enumerate(schedules_us)])
