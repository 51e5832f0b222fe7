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
        (1_000, "+200 us of it: slower gemm kernels."),
    ],
)
def test_what_is_sure_is_said_though_the_step_moved_the_other_way(host_us: int, why: str, tmp_path: Path):
    """The GPU takes 200 us more; how much less the host takes decides where the step goes."""
    one = side(tmp_path, "one", kernel_us=100, host_us=1_000)
    other = side(tmp_path, "other", kernel_us=300, host_us=host_us)
    result = compare(one, other)
    assert result.step.delta_ns == pytest.approx((host_us - 800) * US)
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
