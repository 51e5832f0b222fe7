"""One process, two GPUs: a model cut in two, whose second half waits for the first."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.builders import TraceBuilder
from tests.comparing import compare
from tests.tiny import label, reduced
from tracediff.execution.sides import Run, Side
from tracediff.model.causes import CATEGORIES
from tracediff.report.causes import advice, named

US = 1_000


def side(name: str, first_us: int, folder: Path) -> Side:
    """20 steps of `first_us` on GPU 0 and then 100 us on GPU 1, all launched in the first 20 us; the host waits for GPU 1."""
    (folder / name).mkdir()
    trace = TraceBuilder().process(100).device(0).device(1).thread(100, 1)
    for number in range(20):
        now = number * (first_us + 150) * US
        end = now + (10 + first_us) * US
        trace.range(1, label(number), now, end + 120 * US)
        for device, (name_of, begin, finish) in enumerate(
            (("first_half", now + 10 * US, end), ("second_half", end, end + 100 * US))
        ):
            corr, call = 2 * number + device + 1, now + (1 + 10 * device) * US
            trace.api(1, "cudaLaunchKernel", call, call + 5 * US, corr=corr)
            trace.kernel(corr, begin, finish, name=name_of, device=device)
        trace.api(1, "cudaEventSynchronize", now + 20 * US, end + 105 * US)
    return Side(name, [Run(name, [reduced(trace, folder / name)])])


def test_a_slower_first_half_makes_the_other_gpu_wait(tmp_path) -> None:
    """GPU 1 has its launch from 16 us on and waits 94 -> 394 us for GPU 0, which works 300 us more: 150 us each of the mean of both."""
    sides = [side(name, first, tmp_path) for name, first in (("short", 100), ("long", 400))]
    result = compare(*sides)
    assert result.accounting.delta is not None
    moved = {name: ns for name in CATEGORIES if (ns := result.accounting.delta.get(name))}
    assert moved == pytest.approx({"compute": 150 * US, "dependency": 150 * US})
    waits = next(one for one in result.findings if one.cause == "dependency")
    assert named(waits).startswith("launched work waits for another GPU")
    assert advice(waits).startswith("compare what each GPU does in a step")
