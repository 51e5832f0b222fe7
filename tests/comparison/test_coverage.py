"""What was not compared is part of the verdict: captures of which less than half has a counterpart on the other side."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.builders import TraceBuilder
from tests.comparing import compare
from tests.serving import US, serving
from tests.tiny import label, reduced
from tracediff.comparison.verdict import cautious
from tracediff.execution.sides import Run, Side
from tracediff.model import Result, Shares
from tracediff.report.first import headline, reason

SHORT, LONG = 600 * US, 60_000 * US


def more_steps(trace: TraceBuilder, first: int, many: int, **counts: int) -> None:
    """Steps of 60 ms after those of `serving` (the last of them has number `first`), which launch another kernel."""
    now = (first + 1) * SHORT
    for number in range(first + 1, first + many + 2):
        end = now + LONG
        trace.range(1, "_schedule", now, now + 93 * US)
        trace.api(1, "cudaGraphLaunch", now + 93 * US, now + 98 * US, corr=100 + number)
        trace.kernel(100 + number, now + 100 * US, end, name="other", graph_node=100)
        trace.api(1, "cudaStreamSynchronize", now + 98 * US, end)
        trace.range(1, label(number, **counts), now, end)
        now = end


def compared(folder: Path, **counts: int) -> Result:
    """Twenty steps of 600 us on the baseline; ten of them, and twelve of 60 ms, on the candidate."""
    sides = []
    for name, steps, more in (("before", 20, 0), ("after", 10, 12)):
        trace = serving(steps=steps, schedule_us=93, kernel_us=500, kernels=1)
        if more:
            more_steps(trace, steps, more, **counts)
        place = folder / name
        place.mkdir()
        sides.append(Side(name, [Run(name, [reduced(trace, place)])]))
    return compare(*sides)


def test_steps_of_the_same_requests_that_became_slower_are_compared(tmp_path: Path) -> None:
    """They launch another kernel, yet their time is nearly all of the candidate's: it is no mix, and not left out."""
    found = compared(tmp_path, gen=4)
    assert found.step.time_share.candidate > 0.9
    assert abs(found.mix.batch_mix_ns) < 0.01 * found.mix.candidate_raw_ns
    assert found.mix.speed_ns > 20_000 * US


def test_a_phase_that_one_side_lacks_is_in_the_first_sentence(tmp_path: Path) -> None:
    """Ten steps of 600 us are 1 % of the candidate's time: they are the same, the mean of all steps is not."""
    found = compared(tmp_path, ctx=2, tokens=64, gen=4)
    assert found.step.time_share.candidate < 0.02
    assert found.verdict == "inconclusive"
    assert (
        found.mix.batch_mix_ns == pytest.approx(0, abs=100 * US) and found.mix.not_compared_ns > 20_000 * US
    )
    assert headline(found).what.startswith("Unclear with after: generation step 600 -> 600 us")
    # eleven steps of 600 us beside twelve of 60 ms
    assert reason(found).endswith("only 0.9 % of the step time was compared.")


@pytest.mark.parametrize(
    ("verdict", "share", "raw", "said"),
    [
        ("regressed", 0.6, -0.2, "regressed"),
        ("regressed", 0.4, 0.2, "likely_regressed"),
        ("regressed", 0.4, -0.2, "inconclusive"),
        ("likely_improved", 0.4, -0.2, "likely_improved"),
        ("likely_improved", 0.4, 0.2, "inconclusive"),
        ("no_change", 0.4, 0.009, "no_change"),
        ("no_change", 0.4, -0.02, "inconclusive"),
        ("inconclusive", 0.4, 0.2, "inconclusive"),
        ("not_comparable", 0.4, 0.2, "not_comparable"),
    ],
)
def test_less_than_half_is_likely_at_best_and_never_against_the_whole(verdict, share, raw, said) -> None:
    assert cautious(verdict, Shares(1.0, share), raw) == said
    assert cautious(verdict, Shares(share, 1.0), raw) == said


@pytest.mark.parametrize(
    ("verdict", "raw", "said"),
    [
        ("likely_improved", 0.78, "inconclusive"),
        ("likely_improved", 0.09, "likely_improved"),
        ("likely_improved", -0.78, "likely_improved"),
        ("no_change", 0.78, "inconclusive"),
        ("not_comparable", 0.78, "not_comparable"),
    ],
)
def test_kinds_of_steps_that_came_are_no_gain(verdict, raw, said) -> None:
    """Steps of one kind took 72 % less, where all steps as they ran took 78 % more: prompts in smaller chunks are other steps."""
    assert cautious(verdict, Shares(0.97, 0.74), raw, by_launches=True) == said
    assert cautious(verdict, Shares(0.97, 0.74), raw) == verdict
