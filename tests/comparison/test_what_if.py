"""What a step would take without the first causes of a comparison, on steps of known parts; and the words of edits."""

from __future__ import annotations

import polars as pl
import pytest
from msgspec.structs import replace

from fixtures.builders import TraceBuilder
from tests.comparing import compare
from tests.serving import serving, step_ns
from tests.tiny import label, reduced
from tracediff.comparison.compare import Options
from tracediff.comparison.what_if import parse_edits, range_half, what_if
from tracediff.errors import TracediffError
from tracediff.execution.sides import Run, Side
from tracediff.model.result import WhatIfPhase
from tracediff.report import what_if as words
from tracediff.report.phrases import with_words
from tracediff.whatif.replay import Fuse, Graph, Scale

US = 1000


def side(folder, name: str, **program) -> Side:
    """Three runs with a jitter of 1 us each."""
    runs = []
    for number in range(3):
        place = folder / f"{name}{number}"
        place.mkdir()
        trace = serving(steps=20, jitter_us=1, seed=ord(name[0]) + number, **program)
        runs.append(Run(f"{name}{number}", [reduced(trace, place, graph="all")]))
    return Side(name, runs)


@pytest.mark.slow
def test_each_cause_and_all_of_them_at_the_baselines_level(tmp_path):
    before = side(tmp_path, "before")
    after = side(
        tmp_path, "candidate", schedule_us=400, kernel_us=300
    )  # 300 us in _schedule, 3 x 100 us of kernels
    result = with_words(compare(before, after, Options(what_if=True)))
    first, *others = [one for one in result.findings if one.without is not None]
    whole, base = step_ns(400, 300), step_ns()
    without = {one.where.called or one.where.range: one.without.without_ns for one in (first, *others)}
    assert without.pop("_schedule") == pytest.approx(whole - 300 * US, abs=3 * US)
    assert list(without.values()) == pytest.approx([whole - 100 * US] * len(without), abs=3 * US)
    assert first.without.step_ns == pytest.approx(whole, abs=3 * US)
    # the first three: _schedule and two of three kernels
    assert first.without_first.without_ns == pytest.approx(base + 100 * US, abs=4 * US)
    assert all(one.without_first is None for one in others)
    ranks = [one.rank for one in (first, *others)]
    assert first.without_first.causes == ranks == [1, 2, 3] and first.without.causes == [1]
    assert (
        "Replayed without it: " in first.note
        and "Replayed without causes 1, 2 and 3 together: " in first.note
    )
    assert all(one.without is None for one in compare(before, after).findings)


def kernels(folder, name: str, **us: int) -> Side:
    """Three runs of steps that launch kernels (their times in us) together, 12 us after their start; meanwhile `sample` takes 300 us."""
    runs = []
    for number in range(3):
        trace, now = TraceBuilder().process(100).device(0).thread(100, 1), 0
        for step in range(21):
            trace.api(1, "cudaGraphLaunch", now, now + 10 * US, corr=step + 1)
            trace.range(1, "sample", now + 10 * US, now + 310 * US)
            at = now + 12 * US
            for node, (kernel, length) in enumerate(us.items()):
                trace.kernel(step + 1, at, at + length * US, name=kernel, graph_node=node + 1)
                at += length * US
            end = max(at, now + 310 * US) + number
            trace.api(1, "cudaStreamSynchronize", now + 310 * US, end)
            trace.range(1, label(step), now, end)
            now = end
        place = folder / f"{name}{number}"
        place.mkdir()
        runs.append(Run(f"{name}{number}", [reduced(trace, place, graph="all")]))
    return Side(name, runs)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("after", "delta"),
    [
        ({"fmha": 250}, 150),  # replaced
        ({"fmha": 120, "merge": 90}, 110),  # split
        ({"softmax": 100, "fill": 80}, 80),  # added
    ],
)
def test_kernels_go_to_the_baselines_level(tmp_path, after, delta):
    """The baseline takes 100 us for `softmax` between two GEMMs of 200; that much is left of what stands in its place."""
    before = kernels(tmp_path, "before", gemm=200, softmax=100, out=200)
    candidate = kernels(tmp_path, "candidate", gemm=200, **after, out=200)
    first = compare(before, candidate, Options(what_if=True)).findings[0]
    assert first.delta_ns == pytest.approx(delta * US, abs=US)
    assert first.without.step_ns - first.without.without_ns == pytest.approx(delta * US, abs=US)


@pytest.mark.slow
def test_steps_that_all_load_code_are_replayed_as_what_if_does(tmp_path):
    """Steps at the start of a program are left out only where a phase has others."""
    sides = [kernels(tmp_path, "before", gemm=400), kernels(tmp_path, "candidate", gemm=600)]
    for run in (run for side in sides for run in side.runs):
        run.parts[:] = [
            replace(part, periods=part.periods.with_columns(start_up=pl.lit(value=True)))
            for part in run.parts
        ]
    first = compare(*sides, Options(what_if=True)).findings[0]
    assert first.without.step_ns - first.without.without_ns == pytest.approx(200 * US, abs=5 * US)


@pytest.mark.slow
def test_work_that_only_came_out_of_hiding_is_not_undone(tmp_path):
    """`sample` goes on for 110 us after the kernel, once that is 300 us shorter; it takes as long as before."""
    before, after = kernels(tmp_path, "before", gemm=490), kernels(tmp_path, "after", gemm=190)
    found = compare(before, after, Options(what_if=True)).findings
    grown = [one for one in found if one.cause == "host_work" and one.delta_ns > 0]
    assert [(one.where.range, one.level) for one in grown] == [("sample", "likely")]  # of three runs
    assert grown[0].without is None


def test_the_range_grows_with_the_gain():
    assert range_half(1000, 1000) < range_half(1500, 1000) < range_half(2000, 1000)


def test_a_step_is_not_shorter_than_the_gpu_work_that_stays(tmp_path):
    """5,000 us of host work go. 15 % of that is more than the 607 us that are left, but 600 us of these are kernels."""
    (phase,) = what_if(
        side(tmp_path, "runs", schedule_us=5_000), parse_edits(without=["host_work@_schedule"])
    ).phases
    assert phase.after_ns - range_half(phase.before_ns, phase.after_ns) < 0
    assert phase.low_ns == pytest.approx(min(600 * US, 607 * US * (1 - 1.28 * 0.035)), rel=0.01)


@pytest.mark.parametrize(
    ("after_us", "headline", "remark"),
    [
        (
            1_790,
            "A generation step would take 1,790 us, as now",
            "The step stays about as long: this time was hidden",
        ),
        (
            1_900,
            "would take 1,900 us instead of 1,790 us",
            "The step gets 110 us longer: this time was hidden",
        ),
        (1_000, "would take 1,000 us instead of 1,790 us", "The step gets 790 us shorter."),
        (
            1_400,
            "would take 1,400 us instead of 1,790 us",
            "The step gets 390 us shorter: the rest was hidden",
        ),
    ],
)
def test_words_are_of_the_phase_with_the_most_time(tmp_path, after_us, headline, remark):
    """The other phase loses 5 ms of its 10; nothing of that is said of this one."""
    found = what_if(side(tmp_path, "runs"), parse_edits(scale=["gemm=0.5"]))
    first = WhatIfPhase("generation", 90, 1_790 * US, after_us * US, 900 * US, 2_000 * US, 790 * US, {}, {})
    other = WhatIfPhase("mixed", 10, 10_000 * US, 5_000 * US, 900 * US, 2_000 * US, 5_000 * US, {}, {})
    found.phases = [first, other]
    assert headline in "".join(words.headline(found))
    assert any(remark in one and "790 us per generation step" in one for one in words.sentences(found))


def test_a_projection_of_runs_together(tmp_path):
    found = what_if(side(tmp_path, "runs"), parse_edits(scale=["gemm=0.5"]))
    (phase,) = found.phases
    assert phase.steps == found.steps == 3 * 19  # the first step of each run is left out
    assert phase.before_ns == pytest.approx(step_ns(), abs=US)
    assert phase.after_ns == pytest.approx(step_ns(kernel_us=100), abs=US)
    assert phase.low_ns < phase.after_ns < phase.high_ns
    assert phase.removed_ns == pytest.approx(300 * US, abs=US)
    assert sum(phase.deciding_after.values()) == pytest.approx(phase.after_ns)


@pytest.mark.parametrize(
    ("given", "edit"),
    [
        ({"without": ["launch"]}, Scale(("launch_api",), 0.0)),
        ({"without": ["kernel:fmha"]}, Scale(("compute", "comm", "memcpy"), 0.0, kernel="fmha")),
        ({"scale": ["fmha*=0.5"]}, Scale(("compute", "comm", "memcpy"), 0.5, kernel="fmha*")),
        ({"scale": ["gil=2"]}, Scale(("gil_wait",), 2.0)),
        ({"fuse": ["a + b=0.9"]}, Fuse(("a", "b"), 0.9)),
        ({"graph": True}, Graph()),
    ],
)
def test_words_of_edits(given, edit):
    assert [one.edit for one in parse_edits(**given)] == [edit]


@pytest.mark.parametrize(
    "text",
    ["gemm=nan", "gemm=inf", "gemm=101", "=0.5", "step=0.5", "generation.gc=0.5", "gc@=0.5", "idle=0.5"],
)
def test_what_is_no_edit(text):
    with pytest.raises(TracediffError) as caught:
        parse_edits(scale=[text])
    assert caught.value.slug == "bad-what-if" and caught.value.exit_code == 2


@pytest.mark.slow
def test_a_graph_of_kernels_that_one_call_launches_is_no_change(tmp_path):
    with pytest.raises(TracediffError, match="launched by one call already") as caught:
        what_if(side(tmp_path, "one"), parse_edits(graph=True))
    assert caught.value.slug == "what-if-nothing"
