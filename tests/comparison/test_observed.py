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
        (799, "+200 us: slower gemm kernels."),  # the step moves by 1 us of 1,110
        (800, "+200 us: slower gemm kernels."),  # and by nothing
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


def test_a_kernel_that_holds_most_of_a_change_is_named_though_no_two_steps_launch_the_same(tmp_path: Path):
    """Each step launches one `pad` more than the last, so kernels are not tested. The host takes 0.5 to 3 ms, and the GEMM 300 us more."""

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
    assert result.headline.why == "Measured, may be noise: slower gemm kernels (+300 us)."
