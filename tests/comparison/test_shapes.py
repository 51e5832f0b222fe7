"""Steps of which each launches other kernels than the last, as prompts of different lengths do."""

from __future__ import annotations

from pathlib import Path
from string import ascii_lowercase

import pytest

from fixtures.builders import TraceBuilder
from tests.comparing import compare
from tests.tiny import reduced
from tracediff.execution.sides import Run, Side
from tracediff.report.first import headline

US = 1000


def side(folder: Path, name: str, attention_us: int) -> Side:
    """13 steps, each of 10 attention kernels, of a grid that goes with their time, and 10 GEMMs of 20 us, tiled as no other step's."""
    trace = TraceBuilder().process(100).device(0).thread(100, 1)
    at = 0
    for step in range(13):
        begin = at
        for number in range(20):
            us, kernel = (
                (attention_us, "attention") if number % 2 else (20, f"gemm_{ascii_lowercase[step] * 3}")
            )
            corr = 100 * step + number + 1
            trace.api(1, "cudaLaunchKernel", at, at + 2 * US, corr=corr)
            trace.kernel(corr, at + 3 * US, at + (3 + us) * US, name=kernel, grid=(us, 1, 1))
            at += (us + 4) * US
        trace.range(1, f"step {step}", begin, at)
    (folder / name).mkdir()
    return Side(name, [Run(name, [reduced(trace, folder / name)])])


def test_kernels_that_go_with_shapes_explain_a_step_that_surely_changed(tmp_path):
    result = compare(side(tmp_path, "a", 40), side(tmp_path, "b", 100))
    first = result.findings[0]
    assert (first.cause, first.level) == ("kernel_time", "within_noise")
    assert first.delta_ns == pytest.approx(600 * US, rel=0.02)
    assert "attention" in headline(result).why
