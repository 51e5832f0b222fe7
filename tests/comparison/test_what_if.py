"""What a step would take without the first causes of a comparison, on steps of known parts; and the words of edits."""

from __future__ import annotations

import pytest

from tests.serving import serving, step_ns
from tests.tiny import reduced
from tracediff.comparison.compare import Options, compare
from tracediff.comparison.what_if import parse_edits, range_half, what_if
from tracediff.errors import TracediffError
from tracediff.execution.sides import Run, Side
from tracediff.report.phrases import with_words
from tracediff.whatif.edits import Fuse, Graph, Scale

US = 1000


def side(folder, name: str, **program) -> Side:
    """Three runs with a jitter of 1 us each."""
    runs = []
    for number in range(3):
        place = folder / f"{name}{number}"
        place.mkdir()
        trace = serving(steps=20, jitter_us=1, seed=ord(name[0]) + number, **program)
        runs.append(Run(f"{name}{number}", [reduced(trace, place, graph=True)]))
    return Side(name, runs)


def test_each_cause_and_all_of_them_at_the_baselines_level(tmp_path):
    before = side(tmp_path, "before")
    after = side(
        tmp_path, "candidate", schedule_us=400, kernel_us=300
    )  # 300 us in _schedule, 3 x 100 us of kernels
    result = with_words(compare(before, after, Options(what_if=True)))
    first, *others = [one for one in result.findings if one.without is not None]
    whole, base = step_ns(400, 300), step_ns()
    without = {one.where.kernel or one.where.range: one.without.without_ns for one in (first, *others)}
    assert without.pop("_schedule") == pytest.approx(whole - 300 * US, abs=3 * US)
    assert list(without.values()) == pytest.approx([whole - 100 * US] * len(without), abs=3 * US)
    assert first.without.step_ns == pytest.approx(whole, abs=3 * US)
    # the first three: _schedule and two of three kernels
    assert first.without_first.without_ns == pytest.approx(base + 100 * US, abs=4 * US)
    assert all(one.without_first is None for one in others)
    assert (
        "Replayed without it: " in first.note and "Replayed without the first causes together: " in first.note
    )
    assert all(one.without is None for one in compare(before, after).findings)


def test_the_range_grows_with_the_gain():
    assert range_half(1000, 1000) < range_half(1500, 1000) < range_half(2000, 1000)


def test_a_projection_of_runs_together(tmp_path):
    found = what_if(side(tmp_path, "runs"), parse_edits(scale=["gemm=0.5"]))
    (phase,) = found.phases
    assert phase.steps == 3 * 19  # the first step of each run is left out
    assert phase.before_ns == pytest.approx(step_ns(), abs=US)
    assert phase.after_ns == pytest.approx(step_ns(kernel_us=100), abs=US)
    assert phase.low_ns < phase.after_ns < phase.high_ns
    assert found.removed_ns == pytest.approx(300 * US, abs=US)
    assert sum(phase.deciding_after.values()) == pytest.approx(phase.after_ns)


@pytest.mark.parametrize(
    ("given", "edit"),
    [
        ({"without": ["launch"]}, Scale(("launch_api",), 0.0)),
        ({"without": ["kernel:fmha"]}, Scale(("compute", "comm"), 0.0, kernel="fmha")),
        ({"scale": ["fmha*=0.5"]}, Scale(("compute", "comm"), 0.5, kernel="fmha*")),
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
    assert caught.value.slug in ("bad-what-if", "bad-measure") and caught.value.exit_code == 2
