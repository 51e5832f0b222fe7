"""Copies: memory that waits for the host, and copies that no longer run beside kernels."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from fixtures.builders import TraceBuilder
from tests.comparing import compare
from tests.judging import judge
from tests.tiny import label, reduced
from tracediff.comparison import cells, places
from tracediff.comparison.candidates import Describe
from tracediff.comparison.gates import parse_gate
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


def test_a_copy_of_other_memory_differs_by_count_and_says_so_everywhere(tmp_path: Path):
    """100 us of pinned memory become 400 of pageable: 400 e^-(2.571 x 0.3) - 100 = 85 us at least, 14 % of the step of 600."""
    pinned, pageable = (
        side(tmp_path, name, copy_us=us, pageable=name == "pageable")
        for name, us in (("pinned", 100), ("pageable", 400))
    )
    result = compare(pinned, pageable)
    (copy,) = [one for one in result.findings if one.cause == "memcpy"]
    assert (copy.level, copy.facts.memory) == ("exact", ["pinned", "pageable"])
    assert copy.title == "exposed memcpy HtoD of pageable memory, pinned before: 1 per step"
    assert copy.next.startswith("pin the host memory")
    assert copy.ci_low_ns == pytest.approx(84.9 * US, abs=1.5 * US)
    assert result.headline.why == "+300 us of it: exposed memcpy HtoD of pageable memory, pinned before."
    assert "1 memcpy HtoD per step with pinned -> pageable memory" in result.headline.counts
    (row,) = [one for one in result.kernels if one.category == "copy"]
    assert (row.level, result.accounting.level["memcpy"]) == ("exact", "exact")
    (back,) = [one for one in compare(pageable, pinned).findings if one.cause == "memcpy"]
    assert back.title == "exposed memcpy HtoD of pinned memory, pageable before: 1 per step" and not back.next
    (same,) = [one for one in compare(pinned, pinned).structure if one.kind == "copies"] or [None]
    assert same is None


def test_a_category_is_as_sure_as_the_place_that_holds_most_of_it():
    """The place holds 30 of the category's 31 us and is likely; of another kind, or of what may be nothing, no level is taken."""
    layout = SimpleNamespace(kinds=["host_work", "gc", "host_work", "gc"])
    rows = [places.Place("idle", (0,)), places.Place("idle", (1,)), places.Place("category", (2,)), places.Place("category", (3,))]  # fmt: skip
    for clear, level in ((True, "likely"), (False, "within_noise")):
        of = SimpleNamespace(delta=np.array([30.0, 2.0, 31.0, 40.0]), clear=np.array([clear] * 4))
        levels = ["likely", "within_noise", "within_noise", "within_noise"]
        places._as_most_of_it(layout, rows, of, levels)
        assert levels == ["likely", "within_noise", level, "within_noise"]


def test_a_copy_that_no_longer_runs_beside_kernels_takes_no_longer(tmp_path: Path):
    """Its 100 us were hidden behind the kernel on a stream of their own; now they are exposed on the kernel's."""
    beside, behind = side(tmp_path, "beside", stream=13), side(tmp_path, "behind")
    result = compare(beside, behind)
    (copy,) = [one for one in result.findings if one.cause == "memcpy"]
    assert copy.delta_ns == pytest.approx(100 * US) and copy.facts.overlap
    assert "one stream" in copy.next and result.headline.why.startswith("+100 us of it: ")
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


def held_up(folder: Path, name: str, call_us: int) -> Side:
    """Steps of a copy of 100 us and, on another stream, a kernel of 500 that is launched after an allocation."""
    trace, now = TraceBuilder().process(100).device(0).thread(100, 1), 0
    for number in range(21):
        launch = now + (5 + call_us) * US
        trace.api(1, "cudaMemcpyAsync", now, now + 5 * US, corr=2 * number + 1)
        trace.memcpy(2 * number + 1, now + 12 * US, now + 112 * US, src="pinned", stream=13)
        trace.api(1, "cudaMallocAsync", now + 5 * US, launch)
        trace.api(1, "cudaLaunchKernel", launch, launch + 5 * US, corr=2 * number + 2)
        end = launch + 507 * US
        trace.kernel(2 * number + 2, launch + 7 * US, end, name="gemm")
        trace.api(1, "cudaStreamSynchronize", launch + 5 * US, end)
        trace.range(1, label(number), now, end)
        now = end
    (folder / name).mkdir()
    return Side(name, [Run(name, [reduced(trace, folder / name)])])


def test_a_copy_that_is_alone_while_a_call_takes_longer_names_the_call(tmp_path: Path):
    """The kernel began 1 us after the copy, and begins 20 us after its end: the allocation takes 120 us, for 1."""
    result = compare(held_up(tmp_path, "quick", 1), held_up(tmp_path, "slow", 120))
    (copy,) = [one for one in result.findings if one.cause == "memcpy"]
    assert copy.delta_ns == pytest.approx(99 * US)
    assert copy.next.startswith("find why cudaMallocAsync takes so long")
    assert (
        "memcpy HtoD overlaps with other work for 99 -> 0 % of its time (cudaMallocAsync takes 1.00 -> 120 us per step)"
        in result.headline.why
    )


def test_copies_behind_other_work_scatter_as_waits_do():
    """Of copies of 100 us: none hidden, 1, and 2 on the candidate alone, where 1 % is the most; a hidden kernel is no copy."""
    hidden = np.array([[0, 0], [1, 1], [1, 2], [50, 50]]) * US
    kernels = SimpleNamespace(
        kinds=["memcpy", "memcpy", "memcpy", "compute"], hidden=hidden, walls=np.full((4, 2), 100 * US)
    )
    assert cells._loose(kernels).tolist() == [[False, False, False, False], [False, False, True, False]]


def test_what_is_seen_of_hidden_copies_scatters_no_more_than_the_step_and_its_rest_leave():
    """A step of 1,000 us scatters by 25, beside 200 us of launch latency by hypot(25, 60) = 65: of copies of 500 us 5 and 13 %, of 100 us 30 at most."""
    kinds = ["step", "memcpy", "launch_latency", "memcpy", "memcpy"]
    layout = SimpleNamespace(categories={"memcpy": 1, "launch_latency": 2}, kernels=[3, 4])
    means = np.array([[1_000, 600, 0, 500, 100], [1_000, 600, 200, 500, 0]]) * US
    usual = np.array([[0, 0, 0.3, 0, 0]] * 2)
    found = cells._loosened(layout, means, usual, np.zeros(len(kinds), np.bool_))
    assert found == pytest.approx(np.array([[0.05, 0.25], [0.13, 0.3]]))


def test_gates_on_copies_count_no_memsets(tmp_path: Path):
    """A step copies 4,096 bytes and sets 4; the candidate's copies twice, 1,024 bytes more."""

    def steps(name: str, sizes: tuple[int, ...]) -> Side:
        trace = TraceBuilder().process(100).device(0).thread(100, 1)
        for number in range(21):
            now = number * 500 * US
            trace.range(1, label(number), now, now + 500 * US)
            for at, size in enumerate((0, 0, *sizes)):
                corr, begin = 10 * number + at + 1, now + 50 * US * at
                trace.api(
                    1, "cudaMemcpyAsync" if at > 1 else "cudaLaunchKernel", begin, begin + 5 * US, corr=corr
                )
                if at == 0:
                    trace.kernel(corr, begin + 6 * US, begin + 40 * US, name="gemm")
                elif at == 1:
                    trace.memset(corr, begin + 6 * US, begin + 8 * US)
                else:
                    trace.memcpy(corr, begin + 6 * US, begin + 20 * US, bytes=size, src="pinned")
        (tmp_path / name).mkdir()
        return Side(name, [Run(name, [reduced(trace, tmp_path / name)])])

    result = compare(steps("one", (4096,)), steps("two", (4096, 1024)))
    assert (result.launch.baseline.copies_per_step, result.launch.candidate.copies_per_step) == (1, 2)
    said = {text: judge(parse_gate(text), result) for text in ("copies:+0", "copies:+1", "copied_bytes:+20%")}
    assert [one.outcome for one in said.values()] == ["failed", "passed", "failed"]
    assert (
        said["copies:+0"].message == "copies +1 per step (+100 %) in the mean of all steps exceeds 0 per step"
    )
    assert (said["copied_bytes:+20%"].baseline, said["copied_bytes:+20%"].delta) == (4096, 1024)
    assert (
        said["copied_bytes:+20%"].message
        == "copied_bytes +1.0 kB per step (+25.0 %) in the mean of all steps exceeds 819 B per step"  # a fifth of 4096
    )


def test_a_little_pinned_memory_on_both_sides_hides_no_change_to_pageable(tmp_path: Path):
    """A row of copies, of 90 bytes of pinned memory before and of 91 of pageable after, of 100; of 89 the rest would be more than little."""

    def memory(before: dict[str, int], after: dict[str, int]) -> list[str]:
        cells_of = SimpleNamespace(copied={("step", 0, 0): before, ("step", 0, 1): after})
        describe = SimpleNamespace(_m=SimpleNamespace(kernels=cells_of))
        return Describe._memory(describe, 0, "step")

    assert memory({"pinned": 100}, {"pageable": 91, "pinned": 9}) == ["pinned", "pageable"]
    assert memory({"pinned": 100}, {"pageable": 89, "pinned": 11}) == ["", "pageable"]
    # 8 bytes of pinned memory are copied on both sides: none of it became pageable
    assert memory({"pinned": 8}, {"pageable": 992, "pinned": 8}) == ["", "pageable"]
    assert memory({"pageable": 992, "pinned": 8}, {"pinned": 8}) == ["pageable", ""]
    assert memory({"pinned": 100}, {"pinned": 60, "pageable": 40}) == ["pinned", "pinned"]


def on_two_streams(folder: Path, name: str, *, alone: bool) -> Side:
    """Steps of two kernels, each of 400 us beside the other one, or of 300 us after it on one stream, 2 us later."""
    trace, now, ns = TraceBuilder().process(100).device(0).thread(100, 1), 0, 300 * US if alone else 400 * US
    for number in range(21):
        for nth in (0, 1):
            at, corr = now + 5 * US * nth, 2 * number + nth + 1
            trace.api(1, "cudaLaunchKernel", at, at + 4 * US, corr=corr)
            start = now + 10 * US + ((ns + 2 * US) * nth if alone else 0)
            trace.kernel(corr, start, start + ns, name="gemm", stream=7 if alone else 7 + nth)
        end = now + 10 * US + (2 * ns + 2 * US if alone else ns)
        trace.api(1, "cudaStreamSynchronize", now + 10 * US, end)
        trace.range(1, label(number), now, end)
        now = end
    (folder / name).mkdir()
    return Side(name, [Run(name, [reduced(trace, folder / name)])])


def test_kernels_that_are_faster_alone_and_no_longer_run_at_once_are_not_slower(tmp_path: Path):
    """Two launches of 400 us at once take 400 us, half of it each; after one another 600, though each takes 300."""
    beside, alone = (on_two_streams(tmp_path, name, alone=name == "alone") for name in ("beside", "alone"))
    result = compare(beside, alone)
    (gemm,) = [one for one in result.findings if one.cause == "kernel_time"]
    assert gemm.delta_ns == pytest.approx(200 * US)
    assert (gemm.facts.overlap.baseline, gemm.facts.overlap.candidate) == pytest.approx((0.5, 0))
    assert "+200 us of it: gemm overlaps with other work for 50 -> 0 % of its time" in result.headline.why
