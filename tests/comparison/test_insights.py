"""Remarks beside the causes: each on a tiny trace that must have it, and on one that must not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fixtures.builders import TraceBuilder
from tests.comparing import compare
from tests.serving import US
from tests.tiny import label, reduced
from tracediff.comparison.insights import hides, late_rank, slower_clock
from tracediff.execution.sides import Run, Side
from tracediff.model import RankSkew, Result
from tracediff.report.first import lines
from tracediff.report.phrases import remarks, with_words


def trace(schedules: Sequence[float], *, kernel_us: float = 100) -> TraceBuilder:
    """Steps of `_schedule` (us each), a launch of 5 us, then six kernels."""
    found = TraceBuilder().process(100).device(0).thread(100, 1)
    now = 0
    for number, schedule in enumerate(schedules):
        begin, launched = now, now + int((schedule + 5) * US)
        found.range(1, "_schedule", begin, launched - 5 * US)
        found.api(1, "cudaGraphLaunch", launched - 5 * US, launched, corr=number + 1)
        at = launched + 2 * US
        for node in range(6):
            found.kernel(number + 1, at, at + int(kernel_us * US), name=f"gemm_{node}", graph_node=100 + node)
            at += int(kernel_us * US)
        found.api(1, "cudaStreamSynchronize", launched, at)
        found.range(1, label(number), begin, at)
        found.gil(1, "hold", begin, launched - 5 * US)
        now = at
    return found


def side(folder: Path, name: str, runs: Sequence[Sequence[float]], **options: Any) -> Side:
    """A side with a run for each list of times of `_schedule`."""
    out = []
    for number, schedules in enumerate(runs):
        place = folder / f"{name}{number}"
        place.mkdir()
        out.append(Run(f"{name}{number}", [reduced(trace(schedules, **options), place)]))
    return Side(name, out)


def steady(many: int = 40, schedule: float = 100, runs: int = 4) -> list[list[float]]:
    """Runs of equal steps, some us apart: no two programs take equally long."""
    return [[schedule + number + step % 3 for step in range(many)] for number in range(runs)]


def told(result: Result) -> list[str]:
    return [one.kind for one in result.insights]


def test_nothing_is_said_of_one_program_twice(tmp_path: Path) -> None:
    assert told(compare(side(tmp_path, "a", steady()), side(tmp_path, "b", steady()))) == []


@pytest.mark.slow
def test_more_host_work_alone_needs_no_remark(tmp_path: Path) -> None:
    found = compare(side(tmp_path, "a", steady()), side(tmp_path, "b", steady(schedule=200)))
    assert found.findings[0].cause == "host_work" and told(found) == []


def test_all_kernels_slower_by_one_factor(tmp_path: Path) -> None:
    found = compare(side(tmp_path, "a", steady()), side(tmp_path, "b", steady(), kernel_us=103))
    (one,) = [one for one in found.insights if one.kind == "slower_clock"]
    assert (one.count, one.low, one.high) == (6, pytest.approx(0.03), pytest.approx(0.03))
    doubt = (
        "Doubt: 6 kernels of equal grids take 3.0 % longer, as at a lower clock or power limit of the GPU."
    )
    assert doubt in lines(found) and remarks(found) == []
    far = with_words(compare(side(tmp_path, "c", steady()), side(tmp_path, "d", steady(), kernel_us=130)))
    advice = next(one.next for one in far.findings if one.cause == "kernel_time")
    assert advice.startswith("compare clocks and power limits of the GPUs")


def kernel(before: float, after: float, *, match: str = "exact", launches: int = 100) -> Any:
    sides = [SimpleNamespace(mean_ns=mean, ns_per_step=before, launches=launches) for mean in (before, after)]
    return SimpleNamespace(match=match, category="gemm", baseline=sides[0], candidate=sides[1])


def test_one_factor_by_hand() -> None:
    alike = [kernel(100, 103), kernel(200, 206.4), kernel(300, 309.3), kernel(50, 51.6), kernel(60, 61.8)]
    found = slower_clock(alike, 100.0, 103.0)
    assert found is not None and (found.low, found.high) == pytest.approx((0.030, 0.032))
    assert slower_clock(alike[:3], 100.0, 103.0) is None  # too few
    assert slower_clock(alike, 100.0, 99.0) is None  # they overlap: together they take less
    assert slower_clock([*alike, kernel(300, 300)], 100.0, 103.0) is None  # a third did not change
    assert (
        slower_clock([kernel(one, 1.004 * one) for one in (1, 2, 3, 4, 5)], 100.0, 103.0) is None
    )  # too little
    assert (
        slower_clock([*alike, kernel(800, 824, match="template")], 100.0, 103.0) is None
    )  # most of the time is in other kernels
    waiting = slower_clock([*alike, kernel(300, 330)], 100.0, 105.0)  # those that wait for memory change less
    assert waiting is not None and (waiting.low, waiting.high) == pytest.approx((0.030, 0.100))
    faster = slower_clock([kernel(one, 0.96 * one) for one in (1, 2, 3, 4, 5)], 100.0, 96.0)
    assert faster is not None and faster.high < 0


def test_host_time_that_hides_by_hand() -> None:
    # all of 494 of 986 us run behind the GPU; at the part of before, 547 / 986, 274 us would be idle
    assert hides((986, 494), (547, 0), 60)
    assert hides((820, 800), (700, 150), 60)
    assert hides((800, 800), (100, 650), 60)  # and the other way
    assert not hides((800, 400), (700, 350), 60)  # half of it is gone, as much of each part
    assert not hides((800, 300), (700, 0), 60)  # most of it is gone
    assert not hides((800, 800), (700, 690), 60)  # next to nothing


def rank_facts(last: float, waits: float) -> Any:
    return SimpleNamespace(
        rank=1,
        baseline_last=0.5,
        candidate_last=last,
        baseline_caused_wait_ns=0.0,
        candidate_caused_wait_ns=waits,
    )


@pytest.mark.parametrize(
    ("share", "waits", "level", "said"),
    [
        (0.95, 300.0, "confirmed", True),
        (0.6, 300.0, "confirmed", False),  # not last in most steps
        (0.95, 5.0, "confirmed", False),  # nobody waits for it to speak of
        (0.95, 300.0, "within_noise", False),
    ],
)
def test_a_rank_that_comes_last(share: float, waits: float, level: str, said: bool) -> None:
    finding: Any = SimpleNamespace(
        level=level, where=SimpleNamespace(rank=1), delta_ns=300.0, cause="host_work"
    )
    step: Any = SimpleNamespace(baseline_ns=1000.0)
    skew = RankSkew("candidate", 2, 100, 300.0, 1, share)
    rows = [SimpleNamespace(rank=0), rank_facts(share, waits)]
    found = late_rank([finding], rows, [skew], step)  # type: ignore[arg-type]
    assert (found is not None) == said
    if found is not None:
        assert (found.rank, found.share, found.other_share) == (1, share, 0.5)
