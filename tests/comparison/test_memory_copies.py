"""Copies: memory that waits for the host, and copies that no longer run beside kernels."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from fixtures.builders import TraceBuilder
from tests.comparing import compare
from tests.tiny import label, reduced
from tracediff.comparison import cells
from tracediff.execution.sides import Run, Side

US = 1_000


def side(folder: Path, name: str, *, copy_us: int = 100, stream: int = 7, pageable: bool = False) -> Side:
    """Steps of a kernel of 500 us and a copy: behind it on its stream, 7, or beside it on another one."""
    trace, now = TraceBuilder().process(100).device(0).thread(100, 1), 0
    for number in range(21):
        launched = now + 12 * US
        trace.api(1, "cudaLaunchKernel", now, now + 5 * US, corr=2 * number + 1)
        trace.kernel(2 * number + 1, launched, launched + 500 * US, name="gemm")
        trace.api(1, "cudaMemcpyAsync", now + 5 * US, now + 10 * US, corr=2 * number + 2)
        begin = launched + (500 * US if stream == 7 else 0)
        trace.memcpy(
            2 * number + 2,
            begin,
            begin + copy_us * US,
            src="pageable" if pageable else "pinned",
            stream=stream,
        )
        end = launched + 500 * US + (copy_us * US if stream == 7 else 0)
        trace.api(1, "cudaStreamSynchronize", now + 10 * US, end)
        trace.range(1, label(number), now, end)
        now = end
    (folder / name).mkdir()
    return Side(name, [Run(name, [reduced(trace, folder / name)])])


@pytest.mark.parametrize(("pageable", "level"), [(False, "likely"), (True, "within_noise")])
def test_copies_of_pageable_memory_scatter_as_waits_do(pageable: bool, level: str, tmp_path: Path):
    """100 -> 130 us. Of pinned memory 0.4 %: 28 us at least. Of pageable memory 30 %: 130 may be 60, and 100 may be 216."""
    sides = [
        side(tmp_path, name, copy_us=us, pageable=pageable) for name, us in (("one", 100), ("other", 130))
    ]
    (copy,) = [one for one in compare(*sides).findings if one.cause == "memcpy"]
    assert (copy.delta_ns, copy.level) == (pytest.approx(30 * US), level)
    arms = (0.01028, 0.01028) if not pageable else (1.1626, 0.5376)  # e^qs - 1 and 1 - e^-qs, q = 2.571
    low = 30 - (100**2 * arms[0] ** 2 + 130**2 * arms[1] ** 2) ** 0.5
    assert copy.ci_low_ns == pytest.approx(low * US, abs=0.3 * US)


def test_a_copy_that_no_longer_runs_beside_kernels_takes_no_longer(tmp_path: Path):
    """Its 100 us were hidden behind the kernel on a stream of their own; now they are exposed on the kernel's."""
    beside, behind = side(tmp_path, "beside", stream=13), side(tmp_path, "behind")
    result = compare(beside, behind)
    (copy,) = [one for one in result.findings if one.cause == "memcpy"]
    assert copy.delta_ns == pytest.approx(100 * US) and copy.facts.overlap
    assert (copy.facts.streams.baseline, copy.facts.streams.candidate) == (2, 1)
    assert (
        "memcpy HtoD overlaps with other work for 100 -> 0 % of its time (2 -> 1 streams per step)"
        in result.headline.why
    )
    back = compare(behind, beside)
    assert (
        "memcpy HtoD overlaps with other work for 0 -> 100 % of its time (1 -> 2 streams per step)"
        in back.headline.why
    )


def test_copies_behind_other_work_scatter_as_waits_do():
    """Of copies of 100 us: none hidden, 2, and 3 on the candidate alone, where 2 % is the most; a hidden kernel is no copy."""
    hidden = np.array([[0, 0], [2, 2], [2, 3], [50, 50]]) * US
    kernels = SimpleNamespace(
        kinds=["memcpy", "memcpy", "memcpy", "compute"], hidden=hidden, walls=np.full((4, 2), 100 * US)
    )
    assert cells._loose(kernels).tolist() == [[False, False, False, False], [False, False, True, False]]
