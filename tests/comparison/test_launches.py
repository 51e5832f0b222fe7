"""Kernels judged by their own launches: whole captures and programs with a single step."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from fixtures.builders import TraceBuilder
from tests.comparing import compare
from tests.tiny import reduced
from tracediff.comparison.launches import deviation
from tracediff.execution.sides import Run, Side
from tracediff.model import KernelRow, KernelSide
from tracediff.report import kernels, sections
from tracediff.report.html import render_html
from tracediff.report.markdown import render_markdown

US = 1000


def capture(folder: Path, name: str, kernels: dict[str, tuple[int, float]]) -> Side:
    """One run without labels: of each kernel so many launches of so many us, every second one 1 us longer, in turns, 5 us apart."""
    trace = TraceBuilder().process(100).device(0).thread(100, 1)
    now, corr = 0, 0
    for number in range(max(many for many, _ in kernels.values())):
        for kernel, (many, us) in kernels.items():
            if number >= many:
                continue
            corr += 1
            ns = int((us + number % 2) * US)
            trace.api(1, "cudaLaunchKernel", now, now + US, corr=corr)
            trace.kernel(corr, now + 2 * US, now + 2 * US + ns, name=kernel)
            now += 5 * US + ns
    (folder / name).mkdir()
    return Side(name, [Run(name, [reduced(trace, folder / name, whole_capture=True)])])


def repeats(folder: Path, name: str, kernels: dict[str, tuple[int, float]], many: int) -> Side:
    """A side of several runs, whose kernels are 0, 10, 20, ... ns longer."""
    runs = [
        capture(
            folder, f"{name}{n}", {key: (count, us + 0.01 * n) for key, (count, us) in kernels.items()}
        ).runs[0]
        for n in range(many)
    ]
    return Side(name, runs)


def rows(result) -> dict:
    return {row.baseline.names[0]: row for row in result.kernels if row.baseline}


@pytest.fixture
def base(tmp_path):
    return capture(tmp_path, "base", {"gemm": (200, 10), "norm": (200, 3), "copy_out": (40, 7)})


def test_a_kernel_that_is_80_percent_faster_changed_by_its_own_launches(base, tmp_path):
    fast = capture(tmp_path, "fast", {"gemm": (200, 1.7), "norm": (200, 3), "copy_out": (40, 7)})
    result = compare(base, fast)
    # 200 * 10.5 + 200 * 3.5 + 40 * 7.5 us = 3.1 ms, and 200 * 8.3 us less; both launched everything as often,
    # 440 launches with 439 gaps of 5 us
    assert result.verdict == "likely_improved"
    assert result.headline.what == (
        "Likely faster with fast: GPU time per capture 3,100 -> 1,440 us (-1,660 us, -53.5 %);"
        " the capture lasts 5,295 -> 3,635 us."
    )
    assert result.headline.why == "-1,660 us of it: faster gemm kernels."
    gemm, norm = rows(result)["gemm"], rows(result)["norm"]
    # 10 and 11 us in turns: 10.5 us with a standard deviation of half a us; 1.7 and 2.7 us: 2.2 us
    assert (gemm.baseline.launches, gemm.candidate.launches) == (200, 200)
    assert (gemm.per_launch.baseline_ns, gemm.per_launch.candidate_ns) == (10_500, 2_200)
    assert gemm.baseline.sd_ns == pytest.approx(500 * (200 / 199) ** 0.5)
    # of one run a side nothing is confirmed
    assert gemm.per_launch.level == "likely" and norm.per_launch.level == "within_noise"
    text = render_markdown(result)
    assert "No kernel changed" not in text and "Nothing changed" not in text
    assert (
        "| `gemm` | 200 | 10,500.0 ± 501.3 -> 2,200.0 ± 501.3 | -79.0 % | likely | 2.100 -> 0.440 |" in text
    )
    assert "per capture" in text and "per step" not in text
    page = render_html(result)
    assert "no kernel changed" not in page.lower() and "faster gemm kernels" in page


def test_captures_of_more_of_the_same_work_are_compared_by_round_and_launch(base, tmp_path):
    longer = capture(tmp_path, "longer", {"gemm": (400, 10), "norm": (400, 3), "copy_out": (40, 7)})
    result = compare(base, longer)
    rung = result.verdict_facts.rung
    assert (rung.kind, rung.baseline_rounds, rung.candidate_rounds) == ("rounds", 200, 400)
    assert "work" not in [one.name for one in result.comparability.checks]
    found = rows(result)
    assert [found["gemm"].baseline.count_per_step, found["gemm"].candidate.count_per_step] == [1, 1]
    assert [found["copy_out"].baseline.count_per_step, found["copy_out"].candidate.count_per_step] == [
        0.2,
        0.1,
    ]
    assert found["gemm"].per_launch.delta_ns == found["norm"].per_launch.delta_ns == 0
    # launched as often on both sides, where all else is launched twice as often: it did another work
    assert found["copy_out"].per_launch is None


def test_rounds_tell_streams_and_the_calls_that_one_side_alone_makes(tmp_path):
    """100 and 200 launches of gemm, on one stream and on two; cudaMalloc after every tenth round of one side: 0.1 of a round. A call in 1 of 40: no."""
    sides = []
    for name, many, streams in (("one", 100, 1), ("two", 200, 2)):
        trace = TraceBuilder().process(100).device(0).thread(100, 1)
        for number in range(many):
            now = 50 * US * number
            trace.api(1, "cudaLaunchKernel", now, now + US, corr=number + 1)
            trace.kernel(number + 1, now + 2 * US, now + 12 * US, name="gemm", stream=7 + number % streams)
            if streams == 2 and number % 10 == 0:
                trace.api(1, "cudaMalloc", now + 20 * US, now + 22 * US)
            if streams == 2 and number % 40 == 0:
                trace.api(1, "cudaMemGetInfo", now + 24 * US, now + 26 * US)
        (tmp_path / name).mkdir()
        sides.append(Side(name, [Run(name, [reduced(trace, tmp_path / name, whole_capture=True)])]))
    found = compare(*sides)
    assert found.verdict_facts.rung.kind == "rounds"
    rows = [(one.kind, one.name, one.baseline, one.candidate) for one in found.structure]
    assert rows == [("allocations", "cudaMalloc", 0, 0.1), ("streams", "", 1, 2)]
    # 99 and 199 rounds of 50 us and 10 us; whole captures have no percentiles of steps
    (rank,) = found.ranks
    assert (rank.baseline_ns, rank.candidate_ns) == pytest.approx((4960 * US / 100, 9960 * US / 200))
    assert {one.id for one in sections.sections(found)}.isdisjoint({"steps", "strata"})


def test_counts_of_a_round_are_of_the_rounds_of_its_device(tmp_path):
    """Two GPUs of one process, 40 rounds of three launches each; then 80 and 20, and those of device 1 launch relu as well."""
    sides = []
    for name, rounds, more in (("one", (40, 40), []), ("two", (80, 20), ["relu"])):
        trace = TraceBuilder().process(100).device(0).device(1).thread(100, 1)
        corr = 0
        for device in (0, 1):
            for number in range(rounds[device]):
                for place, kernel in enumerate(["gemm", "norm", "norm", *more * device]):
                    now, corr = 50 * US * number + 10 * US * place + 5 * US * device, corr + 1
                    trace.api(1, "cudaLaunchKernel", now, now + US, corr=corr)
                    trace.kernel(corr, now + 2 * US, now + 4 * US, name=kernel, device=device)
        (tmp_path / name).mkdir()
        sides.append(Side(name, [Run(name, [reduced(trace, tmp_path / name, whole_capture=True)])]))
    found = compare(*sides)
    rung = found.verdict_facts.rung
    assert (rung.kind, rung.baseline_rounds, rung.candidate_rounds) == ("rounds", 40, 50)
    rows = [(one.kind, one.name, one.device, one.baseline, one.candidate) for one in found.structure]
    assert rows == [("kernels", "", 1, 3, 4), ("kernel", "relu", 1, 0, 1)]


def test_captures_of_different_amounts_of_work_are_named(tmp_path):
    """Three kernels of equal time, launched as often, 1.5 times and 2.2 times as often: no ratio is that of the work."""
    sides = [
        capture(tmp_path, name, {key: (many, 10) for key, many in zip("abc", counts, strict=True)})
        for name, counts in (("short", (100, 100, 100)), ("long", (100, 150, 220)))
    ]
    result = compare(*sides)
    assert result.verdict_facts.rung.kind == "captures"
    (check,) = (one for one in result.comparability.checks if one.name == "work")
    assert check.status == "warn"
    assert "the captures hold different amounts of work: 100 and 220 launches of c" in check.message
    assert result.verdict == "inconclusive"


def test_four_runs_of_other_work_are_neither_faster_nor_slower(tmp_path):
    sides = [
        repeats(tmp_path, name, {"gemm": (many, 10), "norm": (many, 3)}, 4)
        for name, many in (("short", 40), ("long", 80))
    ]
    result = compare(*sides)
    assert result.verdict == "inconclusive"
    assert (result.verdict_facts.rung.baseline_rounds, result.verdict_facts.rung.candidate_rounds) == (40, 80)


def test_four_runs_of_a_whole_capture_are_judged_as_steps_are(tmp_path):
    slow, fast = (repeats(tmp_path, name, {"gemm": (40, us)}, 4) for name, us in (("slow", 10), ("fast", 5)))
    result = compare(slow, fast)
    assert (result.verdict, rows(result)["gemm"].per_launch.level) == ("improved", "confirmed")
    assert compare(fast, slow).verdict == "regressed"
    three = compare(*(Side(one.label, one.runs[:3]) for one in (slow, fast)))
    assert rows(three)["gemm"].per_launch.level == "likely"


def shaped(folder: Path, name: str, factor: float) -> Side:
    """Of one kernel thirty grids, each launched once: 10, 20, ... 300 us times a factor. Of another one forty launches of 500 us."""
    trace = TraceBuilder().process(100).device(0).thread(100, 1)
    now = 0
    launches = [("scale", n, round(10 * n * US * factor)) for n in range(1, 31)]
    for corr, (kernel, grid, ns) in enumerate(launches + [("other", 1, 500 * US)] * 40):
        trace.api(1, "cudaLaunchKernel", now, now + US, corr=corr)
        trace.kernel(corr, now + 2 * US, now + 2 * US + ns, name=kernel, grid=(grid, 1, 1))
        now += 5 * US + ns
    (folder / name).mkdir()
    return Side(name, [Run(name, [reduced(trace, folder / name, whole_capture=True)])])


def test_launch_shapes_of_one_kernel_are_one_row(tmp_path):
    result = compare(shaped(tmp_path, "slow", 1.0), shaped(tmp_path, "fast", 0.5))
    scale = next(row for row in result.launched if row.baseline.names == ["scale"])
    assert len(result.launched) == 2 and len(result.kernels) == 31
    # 10 + 20 + ... + 300 us = 4.65 ms of 30 launches: 155 us each
    assert (scale.baseline.launches, scale.baseline.mean_ns, scale.baseline.ns_per_step) == (
        30,
        155_000,
        4_650_000,
    )
    assert (scale.delta_ns, scale.per_launch.delta_ns) == (-2_325_000, -77_500)
    assert scale.per_launch.level == "likely"
    # each shape was launched once, and took twice as long: single launches of one program differ by 6 % at most
    alone = [row for row in result.kernels if row.baseline.names == ["scale"]]
    told = [row.baseline.mean_ns for row in alone if row.per_launch and row.per_launch.level == "likely"]
    assert sorted(told) == [10_000 * n for n in range(1, 31)]
    assert result.verdict == "likely_improved"


def test_kernels_of_a_library_that_replace_others_have_one_name():
    before = kernel_row("sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize64x64x8_stage3_ffma_cublas")
    after = kernel_row("sm90_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize64x128x32_cublas")
    both = replace(before, candidate=after.baseline, match="sequence")
    assert kernels.launched(both).text() == "GEMM kernels (fp32 -> tf32)"
    # a single one keeps its own, without its tile
    assert kernels.launched(before).text() == "xmma_gemm_f32f32_f32f32_f32_nn_n_ffma_cublas"
    assert kernels.launched(kernel_row("void app::scale<float>(float *)")).text() == "scale"


def kernel_row(name: str) -> KernelRow:
    side = KernelSide([name], 1.0, 10.0, 10.0, launches=1)
    return KernelRow(
        match="removed", confidence=1.0, category="gemm" if "gemm" in name else "other", family="", baseline=side, candidate=None,
        delta_ns=-10.0, ci_low_ns=-10.0, ci_high_ns=-10.0, level="within_noise",
    )  # fmt: skip


def test_as_much_work_is_not_mentioned(base, tmp_path):
    other = capture(tmp_path, "other", {"gemm": (200, 10), "norm": (200, 3), "copy_out": (200, 7)})
    assert not [one for one in compare(base, other).comparability.checks if one.name == "work"]


def test_exchanging_the_sides_changes_signs_alone(base, tmp_path):
    fast = capture(tmp_path, "fast", {"gemm": (200, 2), "norm": (200, 3), "copy_out": (40, 7)})
    results = compare(base, fast), compare(fast, base)
    assert [one.verdict for one in results] == ["likely_improved", "likely_regressed"]
    one, two = map(rows, results)
    for name, row in one.items():
        assert row.per_launch.delta_ns == -two[name].per_launch.delta_ns
        assert (row.per_launch.q_value, row.per_launch.level) == (
            two[name].per_launch.q_value,
            two[name].per_launch.level,
        )


def test_a_capture_against_itself_differs_nowhere(base):
    result = compare(base, base)
    assert result.verdict == "no_change"
    assert {row.per_launch.delta_ns for row in (*result.kernels, *result.launched)} == {0.0}
    assert {row.delta_ns for row in result.launched} == {0.0}


def test_the_deviation_of_launches():
    import numpy as np

    # 1, 2 and 3: mean 2, variance 1; a single launch has none
    assert deviation(np.array([3.0, 1.0]), np.array([6.0, 5.0]), np.array([14.0, 25.0]))[0] == pytest.approx(
        1.0
    )
    assert np.isnan(deviation(np.array([1.0]), np.array([5.0]), np.array([25.0]))[0])
