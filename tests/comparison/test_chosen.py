"""Single steps beside the typical step of their class, by hand on tiny traces."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from fixtures.builders import TraceBuilder
from tests.comparing import show
from tests.comparison.test_show import near, real
from tests.serving import US, runs_of
from tests.tiny import label, reduced
from tracediff.errors import TracediffError
from tracediff.execution.sides import Run, Side
from tracediff.formats.selection import Pick, read_pick
from tracediff.model.show import Show, StepDiff


def loop(steps: list[dict[str, int]]) -> TraceBuilder:
    """Steps of `schedule` us in `_schedule`, `gc` us of it a collection, 5 us of launching, 2 us until a kernel of `kernel` us.

    ctx, tokens, gen: of the label, `number` where it is not the place; extra: a second kernel of so many us. A step is as long as
    schedule + 5 + 2 + kernel + extra. One more step follows, for the last one is not whole.
    """
    trace = TraceBuilder().process(100).device(0).thread(100, 1)
    now = 0
    for place, step in enumerate([*steps, steps[0]]):
        scheduled = now + step.get("schedule", 100) * US
        launched = scheduled + 5 * US
        trace.range(1, "_schedule", now, scheduled)
        if step.get("gc"):
            trace.gc(1, now + 10 * US, now + (10 + step["gc"]) * US, generation=2)
        trace.api(1, "cudaGraphLaunch", scheduled, launched, corr=place + 1)
        at = launched + 2 * US
        for node, name in enumerate(("gemm", "extra")):
            length = step.get(name, 600 if name == "gemm" else 0) * US
            if length:
                trace.kernel(place + 1, at, at + length, name=name, graph_node=100 + node)
            at += length
        trace.api(1, "cudaStreamSynchronize", launched, at)
        said = label(step.get("number", place), step.get("ctx", 0), step.get("tokens", 0), step.get("gen", 4))
        trace.range(1, said, now, at)
        now = at
    return trace


def of(steps: list[dict[str, int]], folder: Path, *picks: str, worst: int = 0) -> Show:
    side = Side("a", [Run("a", [reduced(loop(steps), folder)])])
    return show(side, None, [read_pick(one) for one in picks], worst)


def closed(one: StepDiff) -> bool:
    """Whether categories and places add up to the step, to the typical step and to their difference."""
    places = math.fsum(place.delta_ns for place in one.places) + one.places_left_out_ns
    return (
        sum(row.ns for row in one.accounting) == one.ns == one.end_ns - one.start_ns
        and math.fsum(row.typical_ns for row in one.accounting) == near(one.typical_ns)
        and math.fsum(row.delta_ns for row in one.accounting) == near(one.delta_ns)
        and places == near(one.delta_ns)
        and one.ns - one.typical_ns == near(one.delta_ns)
    )


def test_a_collection_in_one_step(tmp_path) -> None:
    """Periods are 707 us, from kernel to kernel; that of step 6 ends with 1000 us of a collection before the kernel of step 7."""
    steps = [{} for _ in range(12)]
    steps[7] = {"schedule": 1100, "gc": 1000}
    report = of(steps, tmp_path, "6", worst=1)
    one, worst = report.chosen
    assert (one.number, one.ns) == (6, 1707 * US)
    assert (one.typical_ns, one.delta_ns) == (near(707 * US), near(1000 * US))
    assert one.text == (
        "Step 6 took 1.71 ms, 1.00 ms longer than a typical generation step: Python GC in _schedule 1.00 ms."
    )
    assert (one.start_ns, one.end_ns) == ((6 * 707 + 107) * US, (7 * 707 + 1107) * US)
    assert (one.like, one.start_up, one.ranks) == ("workload", False, [])
    moved = {row.category: (row.ns, row.typical_ns) for row in one.accounting if row.delta_ns}
    assert moved == {"gc": (1000 * US, 0)}
    first = one.places[0]
    assert (first.cause, first.range, first.count, first.typical_count) == ("gc", "_schedule", 1, 0)
    # the collection begins 10 us after the last kernel of step 6
    assert first.longest is not None
    assert (first.longest.start_ns, first.longest.end_ns) == ((7 * 707 + 10) * US, (7 * 707 + 1010) * US)
    assert closed(one)
    assert (worst.asked, worst.number, worst.text) == ("worst 1", 6, one.text)


def test_a_step_as_long_as_the_others_and_a_shorter_one(tmp_path) -> None:
    """Kernels of 600 us, in step 5 of 300 us: 407 us instead of 707; step 3 is as long as the typical one."""
    steps = [{} for _ in range(12)]
    steps[5] = {"gemm": 300}
    report = of(steps, tmp_path, "3", "5")
    assert [one.text for one in report.chosen] == [
        "Step 3 took 707 us, as long as a typical generation step (707 us).",
        "Step 5 took 407 us, 300 us shorter than a typical generation step: kernel gemm 300 us less.",
    ]
    assert all(map(closed, report.chosen))


def test_a_kernel_that_runs_in_one_step_alone(tmp_path) -> None:
    """Step 4 has a second kernel of 250 us: its first use makes it a start-up step."""
    steps = [{} for _ in range(12)]
    steps[4] = {"extra": 250}
    (one,) = of(steps, tmp_path, worst=3).chosen
    assert (one.number, one.start_up, one.ns) == (4, True, 957 * US)
    assert one.text == (
        "Step 4 (warm-up) took 957 us, 250 us longer than a typical generation step: 1 more launch of extra 250 us."
    )
    assert [(place.kernel, place.ns, place.count, place.typical_count) for place in one.places[:1]] == [
        ("extra", 250 * US, 1, 0)
    ]
    assert closed(one)


def test_the_worst_step_is_no_long_prefill(tmp_path) -> None:
    """Prefills of 4000 tokens take 5 ms each, and one of 64,000 tokens 20 ms: alone in its class, it waits no longer than others.

    The step that exceeds its class most is the generation step 20, with 90 us more in `_schedule` before step 21.
    """
    prefill = {"ctx": 1, "tokens": 4000, "gen": 0, "gemm": 5000}
    steps = [prefill if number % 4 == 0 else {} for number in range(32)]
    steps[16] = {**prefill, "tokens": 64_000, "gemm": 20_000}
    steps[22] = {"schedule": 190}
    report = of(steps, tmp_path, "16", worst=2)
    long, *worst = report.chosen
    assert [one.number for one in worst] == [21]
    assert worst[0].text.endswith(
        "90.0 us longer than a typical generation step: host work in _schedule 90.0 us."
    )
    assert (long.like, long.ns, long.typical_ns) == ("phase", 20_107 * US, near(5_107 * US))
    assert all(map(closed, report.chosen))


def test_a_step_like_no_other_is_not_ranked(tmp_path) -> None:
    """One prefill of 5107 us among generation steps: nothing says how long such a step is, so that it is not the worst."""
    steps = [{} for _ in range(12)]
    steps[6] = {"ctx": 1, "tokens": 100, "gen": 0, "gemm": 5000}
    steps[9] = {"schedule": 130}
    report = of(steps, tmp_path, worst=3)
    assert [one.number for one in report.chosen] == [8]
    (note,) = (one for one in report.warnings if one.slug == "steps-not-ranked")
    assert note.message == (
        "steps of phases with fewer than 4 regular ones are not ranked, 1 in all; the longest is step 6 of a, context, 5.107 ms"
    )


@pytest.mark.slow
def test_which_run_and_which_of_equal_numbers(tmp_path) -> None:
    side = runs_of(tmp_path, "a", [100.0, 120.0], jitter_us=0)
    with pytest.raises(TracediffError) as error:
        show(side, None, [Pick("3", "", 3)])
    assert (error.value.slug, error.value.exit_code) == ("step-of-which-run", 2)
    assert "step 3 is in 2 runs: a0:3 (0.707 ms), a1:3 (0.727 ms)" in error.value.message
    for spelled in ("a1:3", "2:3"):
        (one,) = show(side, None, [read_pick(spelled)]).chosen
        assert (one.run, one.ns) == ("a1", 727 * US)
        assert one.text.startswith("Step 3 of a1 took 727 us")
    for spelled, slug in (("a2:3", "no-such-run"), ("3:3", "no-such-run"), ("a1:99", "no-such-step")):
        with pytest.raises(TracediffError) as error:
            show(side, None, [read_pick(spelled)])
        assert (error.value.slug, error.value.exit_code) == (slug, 2)
        assert error.value.message.startswith("no ")  # run of that name, whole step of that number


def test_numbers_that_begin_again(tmp_path) -> None:
    """Numbers 0 to 5 twice; the second step 3 is 50 us longer: its period ends with the `_schedule` of step 4."""
    steps = [{"number": number % 6} for number in range(12)]
    steps[10] |= {"schedule": 150}
    with pytest.raises(TracediffError) as error:
        of(steps, tmp_path, "3")
    assert error.value.slug == "step-number-repeats"
    assert "3#1 (0.707 ms, 0.002228 s), 3#2 (0.757 ms, 0.006470 s)" in error.value.message
    (one,) = of(steps, tmp_path, "3#2").chosen
    assert (one.number, one.ns, one.delta_ns) == (3, 757 * US, near(50 * US))
    with pytest.raises(TracediffError) as error:
        of(steps, tmp_path, "3#3")
    assert error.value.slug == "no-such-step"


def test_one_step_alone_has_no_typical_one(tmp_path) -> None:
    with pytest.raises(TracediffError) as error:
        of([{}], tmp_path, "0")
    assert error.value.slug == "no-typical-step"


def test_a_step_of_two_ranks_is_that_of_the_late_one() -> None:
    """Rank 1 schedules 300 us more in every step; the others wait for it in communication, which is not their own time."""
    report = show(real("straggler"), None, [], 3)
    assert len(report.chosen) == 3
    for one in report.chosen:
        assert [row.rank for row in one.ranks] == [0, 1]
        own = {row.rank: row.own_delta_ns for row in one.ranks}
        assert one.rank == max(own, key=lambda rank: own[rank])
        assert one.ns == next(row.ns for row in one.ranks if row.rank == one.rank)
        assert closed(one)
    excess = [one.delta_ns for one in report.chosen]
    assert excess == sorted(excess, reverse=True)


@pytest.mark.parametrize("name", ["gc", "hog", "eager"])
def test_every_difference_adds_up(name: str) -> None:
    side = real(name)
    report = show(side, None, [], 12)
    assert report.chosen and all(map(closed, report.chosen))
    excess = [one.delta_ns for one in report.chosen if one.like == "workload"]
    assert excess == sorted(excess, reverse=True)


def test_spelling() -> None:
    assert read_pick("17") == Pick("17", "", 17)
    assert read_pick("T_A-A1:17#2") == Pick("T_A-A1:17#2", "T_A-A1", 17, 2)
    assert read_pick("host:8000:3").run == "host:8000"
    for text in ("", "a", "17#0", "-1", "a:", "1.5"):
        with pytest.raises(ValueError, match="is no step"):
            read_pick(text)
