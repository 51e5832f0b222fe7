"""Host time for which a thread that runs Python does not hold the GIL: it waits for a lock, a queue or I/O, or runs native code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.comparing import compare
from tests.serving import serving
from tests.tiny import reduced
from tracediff.execution.sides import Run, Side
from tracediff.report.phrases import with_words

US = 1_000
STEPS = 12


@pytest.mark.parametrize(
    ("held", "kernels", "without"),
    [
        ((100, 100), (300, 300), True),  # 800 us more, of which it holds the GIL for none
        ((100, 170), (300, 300), True),  # for 70 us
        ((100, 190), (300, 300), False),  # for more
        ((100, 900), (300, 300), False),  # for all: it runs Python
        ((0, 0), (300, 300), False),  # never: it is no thread of Python
        (
            (100, 100),
            (300, 100),
            False,
        ),  # the step is 200 us longer alone: what the kernels hid may have come to light
    ],
)
def test_a_thread_that_does_not_hold_the_gil_waits_or_runs_native_code(
    held: tuple[int, int], kernels: tuple[int, int], without: bool, tmp_path: Path
):
    """`_schedule` takes 100 -> 900 us, and each of three kernels so long."""
    sides = []
    for name, us, hold, kernel in zip(("before", "after"), (100, 900), held, kernels, strict=True):
        trace = serving(steps=STEPS, schedule_us=us, kernel_us=kernel).thread(100, 9)
        for step in range(STEPS + 1):
            begin = step * (us + 7 + 3 * kernel) * US
            trace.gil(9, "hold", begin + us * US, begin + (us + 1) * US)  # another thread, later
            if hold:
                trace.gil(1, "hold", begin, begin + hold * US)
        (tmp_path / name).mkdir()
        sides.append(Side(name, [Run("run", [reduced(trace, tmp_path / name)])]))
    found = next(one for one in with_words(compare(*sides)).findings if one.cause == "host_work")
    assert found.delta_ns == pytest.approx(800 * US)
    assert found.facts.without_gil == without
    assert found.title == (
        "host time without the GIL (a wait, or native code) in _schedule"
        if without
        else "host work in _schedule"
    )
