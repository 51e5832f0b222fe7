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
    ("held", "without"),
    [
        ((100, 100), True),  # 800 us more, of which it holds the GIL for none
        ((100, 170), True),  # for 70 us
        ((100, 190), False),  # for more
        ((100, 900), False),  # for all: it runs Python
        ((0, 0), False),  # never: it is no thread of Python
    ],
)
def test_a_thread_that_does_not_hold_the_gil_waits_or_runs_native_code(
    held: tuple[int, int], without: bool, tmp_path: Path
):
    """`_schedule` takes 100 -> 900 us."""
    sides = []
    for name, us, hold in zip(("before", "after"), (100, 900), held, strict=True):
        trace = serving(steps=STEPS, schedule_us=us).thread(100, 9)
        for step in range(STEPS + 1):
            begin = step * (us + 607) * US
            trace.gil(9, "hold", begin + us * US, begin + (us + 1) * US)  # another thread, later
            if hold:
                trace.gil(1, "hold", begin, begin + hold * US)
        (tmp_path / name).mkdir()
        sides.append(Side(name, [Run("run", [reduced(trace, tmp_path / name)])]))
    found = with_words(compare(*sides)).findings[0]
    assert found.cause == "host_work" and found.delta_ns == pytest.approx(800 * US)
    assert found.facts.without_gil == without
    assert found.title == (
        "host time without the GIL (a wait, or native code) in _schedule"
        if without
        else "host work in _schedule"
    )
