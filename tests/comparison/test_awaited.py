"""A thread that waits for another process: whom it waits for, and what that did meanwhile."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from fixtures.builders import TraceBuilder
from tests.comparing import compare
from tests.serving import serving
from tests.tiny import reduced
from tracediff.execution.sides import Run, Side
from tracediff.report.causes import advice, the_thread, title
from tracediff.report.phrases import with_words

US = 1000
STEPS = 12


def traced(wait_us: int, *, how: str, other: str):
    """In each step the executor waits for `wait_us` within `_schedule`; a thread of process 900 is busy with it, but for the last 10 us.

    how: in a range `recv`, or in the OS call `poll` alone. other: what process 900 shows: a range, its GIL (no range at all), a range
    that waits too, or nothing.
    """
    trace = serving(steps=STEPS, schedule_us=wait_us + 50).process(900).thread(900, 9)
    for step in range(STEPS + 1):
        begin = step * (wait_us + 50 + 607) * US
        end = begin + wait_us * US
        if how == "range":
            trace.range(1, "recv", begin, end)
        else:
            trace.os_call(1, "poll", begin, end)
        if other == "gil":
            trace.gil(9, "hold", begin, end - 10 * US)
        elif other:
            trace.range(9, other, begin, end - 10 * US)
    return trace


def first(folder, **shown):
    sides = []
    for name, us in (("before", 100), ("after", 900)):
        (folder / name).mkdir()
        sides.append(Side(name, [Run("run", [reduced(traced(us, **shown), folder / name)])]))
    return with_words(compare(*sides)).findings[0]


@pytest.mark.parametrize(
    ("how", "other", "title", "did"),
    [
        ("range", "render page", "wait in recv for the thread of render page of another process", "works: "),
        ("range", "decode_incrementally", "wait in recv for the detokenizer thread of another process", "is in decode_incrementally"),
        ("range", "gil", "wait in recv for an unnamed thread of another process", "runs Python (holds its GIL)"),
        ("os", "render page", "wait in _schedule for the thread of render page of another process", "works: "),
    ],
)  # fmt: skip
def test_a_wait_for_another_process_names_it(how, other, title, did, tmp_path):
    found = first(tmp_path, how=how, other=other)
    assert found.cause == "host_work" and found.title.lower() == title.lower()
    # all of the wait but 10 us, in every step
    assert (found.facts.awaited.baseline_ns, found.facts.awaited.candidate_ns) == pytest.approx(
        (90 * US, 890 * US), rel=0.1
    )
    assert did in found.note and did in found.next


@pytest.mark.parametrize("who", ["", "executor", "other"])
def test_a_wait_for_a_thread_of_the_same_process_names_it(who: str, tmp_path):
    """It holds their GIL in `decode_incrementally`. Where the executor makes CUDA calls meanwhile, it works and does not wait; where the other one
    launches kernels, both are threads of a pool that launch steps in turn.
    """
    sides = []
    for name, us in (("before", 100), ("after", 900)):
        trace = serving(steps=STEPS, schedule_us=us + 50).thread(100, 9)
        for step in range(STEPS + 1):
            begin = step * (us + 50 + 607) * US
            trace.gil(9, "hold", begin, begin + us * US)
            trace.range(9, "decode_incrementally", begin + 10 * US, begin + us * US)
            call = begin + us // 2 * US
            if who == "executor":
                trace.api(1, "cudaEventRecord", call, call + 500)
            elif who:
                trace.api(9, "cudaLaunchKernel", call, call + 500, corr=900 + step)
                trace.kernel(900 + step, call + 600, call + 700, name="copy")
        (tmp_path / name).mkdir()
        sides.append(Side(name, [Run("run", [reduced(trace, tmp_path / name)])]))
    found = with_words(compare(*sides)).findings[0]
    assert found.cause == "host_work"
    if who:
        assert found.facts.awaited is None
        return
    assert found.title.lower() == "wait in _schedule for the detokenizer thread"
    nowhere = replace(found, where=replace(found.where, range=None))
    assert title(nowhere).lower() == "wait for the detokenizer thread"
    assert the_thread("launcher of device 0") == "the launcher of device 0"
    assert advice(nowhere).startswith("while the thread waits for it, the detokenizer thread ")
    assert "is in decode_incrementally" in found.note and "of another process" not in found.note
    assert found.facts.awaited.near
    assert (found.facts.awaited.baseline_ns, found.facts.awaited.candidate_ns) == pytest.approx(
        (90 * US, 890 * US)
    )


@pytest.mark.parametrize("other", ["recv", ""])
def test_where_the_other_process_shows_no_work_nobody_is_named(other, tmp_path):
    found = first(tmp_path, how="range", other=other)
    assert found.facts.awaited is None
    assert "host work in recv" in found.title.lower() and "at the other end" in found.next


def test_a_range_that_waits_for_nothing_blames_nobody(tmp_path):
    """The other process is as busy, but the executor is in no range and no call that waits."""
    sides = []
    for name, us in (("before", 100), ("after", 900)):
        trace = serving(steps=STEPS, schedule_us=us).process(900).thread(900, 9)
        for step in range(STEPS + 1):
            begin = step * (us + 607) * US
            trace.range(9, "render", begin, begin + us * US)
        (tmp_path / name).mkdir()
        sides.append(Side(name, [Run("run", [reduced(trace, tmp_path / name)])]))
    assert with_words(compare(*sides)).findings[0].facts.awaited is None


def test_of_rounds_a_thread_is_named_by_what_it_does_in_one(tmp_path):
    """20 and 40 launches, 200 and 1,000 us apart; another thread runs Python for 2 and 40 us of it: 1.6 ms of 40 rounds are no 800 us of one."""
    sides = []
    for name, many, apart, held in (("one", 20, 200, 2), ("two", 40, 1_000, 40)):
        trace = TraceBuilder().process(100).device(0).thread(100, 1).thread(100, 2)
        for number in range(many):
            now = apart * US * number
            trace.api(1, "cudaLaunchKernel", now, now + US, corr=number + 1)
            trace.kernel(number + 1, now + 2 * US, now + 12 * US, name="gemm")
            trace.gil(2, "hold", now + 20 * US, now + (20 + held) * US)
        (tmp_path / name).mkdir()
        sides.append(Side(name, [Run(name, [reduced(trace, tmp_path / name, whole_capture=True)])]))
    result = compare(*sides)
    assert result.verdict_facts.rung.kind == "rounds"
    (found,) = [one for one in result.findings if one.cause == "host_work"]
    assert found.delta_ns == pytest.approx(800 * US, rel=0.1) and found.facts.awaited is None
