"""The parts of an observed change: the largest, and what moved the other way."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.builders import TraceBuilder
from tests.comparing import compare
from tests.tiny import label, reduced
from tracediff.execution.sides import Run, Side

US = 1_000


def side(folder: Path, name: str, *, kernel_us: int, host_us: int) -> Side:
    """21 steps: a kernel, the wait for it, and the host until it launches the next."""
    trace, now = TraceBuilder().process(100).device(0).thread(100, 1), 0
    for number in range(21):
        begin, end = now + 10 * US, now + (10 + kernel_us) * US
        trace.api(1, "cudaLaunchKernel", now, now + 5 * US, corr=number + 1)
        trace.kernel(number + 1, begin, end, name="gemm")
        trace.api(1, "cudaStreamSynchronize", now + 5 * US, end)
        after = end + host_us * US
        trace.range(1, label(number), now, after)
        now = after
    (folder / name).mkdir()
    return Side(name, [Run(name, [reduced(trace, folder / name)])])


@pytest.mark.parametrize(
    ("host_us", "why"),
    [
        (
            700,
            "Measured, may be noise: host work in [Executor] _forward_step (-300 us); but +200 us: slower gemm kernels.",
        ),
        (  # the step moves by 1 us of 1,110: without the host it would have moved by 200
            799,
            "Measured, may be noise: host work in [Executor] _forward_step (-201 us); but +200 us: slower gemm kernels.",
        ),
        (  # and by nothing
            800,
            "Measured, may be noise: host work in [Executor] _forward_step (-200 us); but +200 us: slower gemm kernels.",
        ),
        (1_000, "+200 us of it: slower gemm kernels."),
    ],
)
def test_what_is_sure_is_said_though_the_step_moved_the_other_way(host_us: int, why: str, tmp_path: Path):
    """The GPU takes 200 us more; how much less the host takes decides where the step goes."""
    one = side(tmp_path, "one", kernel_us=100, host_us=1_000)
    other = side(tmp_path, "other", kernel_us=300, host_us=host_us)
    result = compare(one, other)
    assert result.step.delta_ns == pytest.approx((host_us - 800) * US, abs=1e-3)
    assert result.headline.why == why


@pytest.mark.parametrize(
    ("kernel_us", "why"),
    [
        (
            130,
            "+30.0 us of it: slower gemm kernels; measured, may be noise: host work in [Executor] _forward_step (+300 us).",
        ),
        (108, "Measured, may be noise: host work in [Executor] _forward_step (+300 us)."),  # 0.7 % of a step
    ],
)
def test_what_is_sure_is_said_however_little_of_a_change_that_may_be_noise(
    kernel_us: int, why: str, tmp_path: Path
):
    """30 of 330 us are the GPU's; the host's 300 may be noise, and so may all of it."""
    one = side(tmp_path, "one", kernel_us=100, host_us=1_000)
    other = side(tmp_path, "other", kernel_us=kernel_us, host_us=1_300)
    result = compare(one, other)
    assert result.verdict == "inconclusive"
    assert result.headline.why == why


def steps_of(folder: Path, name: str, steps: list[tuple[str, int, list[tuple[str, int]]]]) -> Side:
    """Steps of a label, the host's us after the GPU's work, and kernels with their us, one after another."""
    trace, now, corr = TraceBuilder().process(100).device(0).thread(100, 1), 0, 0
    for text, host_us, kernels in steps:
        begin = now
        for kernel, us in kernels:
            corr += 1
            trace.api(1, "cudaLaunchKernel", now, now + 2 * US, corr=corr)
            trace.kernel(corr, now + 3 * US, now + (3 + us) * US, name=kernel)
            now += (4 + us) * US
        trace.api(1, "cudaStreamSynchronize", now - 1 * US, now)
        now += host_us * US
        trace.range(1, text, begin, now)
    (folder / name).mkdir()
    return Side(name, [Run(name, [reduced(trace, folder / name)])])


def test_a_sure_cause_in_rare_steps_is_said_where_most_time_is_in_other_steps(tmp_path: Path):
    """Every fifth of 80 generation steps takes 1,000 us more, 200 in the mean; eight others of 20 to 160 ms hide that in the mean of all."""

    def one(more_us: int) -> list[tuple[str, int, list[tuple[str, int]]]]:
        found = []
        for number in range(81):
            if number % 10 == 5:
                found.append((label(1000 + number, ctx=1), 2_000 * (number + 5), [("prefill", 100)]))
            late = more_us if number % 5 == 4 else 0
            found.append((label(number), 880 + number % 3, [("gemm", 100 + late)]))
        return found

    result = compare(steps_of(tmp_path, "one", one(0)), steps_of(tmp_path, "other", one(1_000)))
    assert (result.verdict, result.observed.of) == ("inconclusive", "typical")
    assert result.headline.why == "+200 us: slower gemm kernels, in rare steps."


def test_steps_that_stop_are_counted_of_those_that_the_mean_has(tmp_path: Path):
    """Of 41 steps every eighth meets a kernel for the first time: five stops of 5 ms are 625 us of each step."""

    def one(stop_us: int) -> list[tuple[str, int, list[tuple[str, int]]]]:
        new = [f"new{number}" if number % 8 == 7 else "gemm" for number in range(42)]
        return [
            (label(number), 500 + stop_us * (name != "gemm") + number % 3, [(name, 100)])
            for number, name in enumerate(new)
        ]

    result = compare(steps_of(tmp_path, "one", one(0)), steps_of(tmp_path, "other", one(5_000)))
    assert result.observed.of == "mean"
    stops = result.observed.stops
    assert stops and (stops.count, stops.total, stops.every) == (5, 41, 8)


def test_what_rare_steps_add_is_said_beside_the_typical_step(tmp_path: Path):
    """Each of 40 steps takes 200 us more, and every fifth 900 us beside: 180 in the mean, less than the typical step has."""

    def one(gemm_us: int, late_us: int) -> list[tuple[str, int, list[tuple[str, int]]]]:
        rare = [late_us if number % 5 == 4 else 100 for number in range(41)]
        return [
            (label(number), 500 + number % 3, [("gemm", gemm_us), ("topk", us)])
            for number, us in enumerate(rare)
        ]

    result = compare(steps_of(tmp_path, "one", one(100, 100)), steps_of(tmp_path, "other", one(300, 1_000)))
    assert result.observed.of == "typical"
    assert (
        result.headline.why
        == "+200 us of it: slower gemm kernels; +180 us: slower topk kernels, in rare steps."
    )


def test_a_sure_cause_of_another_phase_is_said_where_it_changes_more_of_all_steps(tmp_path: Path):
    """One step in three is a prompt's, whose kernel takes 300 us more: 100 of each step, beside a host of 2 to 18 ms. Of the others each takes 20 us less: 13."""

    def one(gemm_us: int, prefill_us: int) -> list[tuple[str, int, list[tuple[str, int]]]]:
        kinds = [(0, ("gemm", gemm_us)), (0, ("gemm", gemm_us)), (1, ("prefill", prefill_us))]
        return [
            (label(number, ctx=ctx), 100 + number % 3 + ctx * (2_000 + 4_000 * (number * 7 % 5)), [kernel])
            for number, (ctx, kernel) in enumerate(kinds * 14)
        ]

    result = compare(steps_of(tmp_path, "one", one(200, 500)), steps_of(tmp_path, "other", one(180, 800)))
    assert result.observed.phase == "generation"
    assert (
        result.headline.why
        == "-20.0 us of it: faster gemm kernels; +300 us per mixed step: slower prefill kernels."
    )
    assert result.headline.cause == "kernel_time"


def test_a_kernel_that_holds_most_of_a_change_is_named_though_no_two_steps_launch_the_same(tmp_path: Path):
    """Each step launches one `pad` more than the last; the GEMM is launched once in each, and takes 300 us more. The host takes 0.5 to 3 ms."""

    def one(gemm_us: int) -> list[tuple[str, int, list[tuple[str, int]]]]:
        return [
            (
                f"step {number}",
                500 + 500 * (number * 7 % 6),
                [("gemm", gemm_us), *[("pad", 1)] * (1 + number)],
            )
            for number in range(30)
        ]

    result = compare(steps_of(tmp_path, "one", one(100)), steps_of(tmp_path, "other", one(400)))
    assert result.step.delta_ns == pytest.approx(300 * US)
    assert result.headline.why == "+300 us of it: slower gemm kernels."
