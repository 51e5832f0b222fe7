"""Which candidates become findings, and which of one place leads."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from msgspec.structs import replace

from fixtures.builders import TraceBuilder
from tests.comparing import compare
from tests.measuring import measured, step
from tests.tiny import label, reduced
from tracediff.comparison.candidates import Candidate, of_launches
from tracediff.comparison.classes import build_strata, mix
from tracediff.comparison.compare import Options
from tracediff.comparison.findings import mix_finding
from tracediff.comparison.places import Judgement, Place
from tracediff.comparison.related import cancels, merged
from tracediff.execution.sides import Run, Side
from tracediff.model import Evidence, FindingFacts, FindingPart, Kernels, Where

US = 1_000.0
PHASES = {
    one.steps.phase: one
    for one in measured(
        *([[step(cells=[1_000 * US], phase=phase) for phase in ("generation", "mixed") * 12]] * 2 for _ in range(2)), idle=1
    ).phases
}  # fmt: skip
"""Steps of 1 ms."""


def candidate(phase: str, part: str, delta: float, half: float, level: Evidence, **more) -> Candidate:
    """Kernels at one place, us."""
    runs = np.zeros(2), np.zeros(2)
    judged = Judgement(
        Place("kernels", (30,)), PHASES[phase], part, baseline=0.0, candidate=0.0, delta=delta * US, low=(delta - half) * US,
        high=(delta + half) * US, host_speed=0.0, p=0.1, q=0.1, level=level, runs=runs,
    )  # fmt: skip
    return Candidate(
        "kernel_fused",
        Where(kernels=Kernels(("a",), ("b",))),
        judged,
        "",
        FindingFacts(),
        level=level,
        **more,
    )


def row(delta: float) -> FindingPart:
    return FindingPart(
        "kernel_time", Where(kernels=Kernels(("a",))), delta * US, delta * US, delta * US, "exact"
    )


def test_counted_kernels_are_a_finding_though_their_rows_cancel():
    """A thousandth of a step of 1 ms is 1 us."""
    both = (row(-20.8), row(20.1))
    assert cancels(candidate("generation", "typical", -0.7, 0.8, "exact", parts=both))
    assert not cancels(candidate("generation", "typical", -0.7, 0.8, "within_noise", parts=both))
    assert not cancels(candidate("generation", "typical", -0.1, 0.8, "exact", parts=(row(-0.9), row(0.8))))


def test_what_is_counted_in_the_phase_of_the_verdict_leads():
    """Its time is unsure, and that of the rare steps and of the other phase larger."""
    counted = candidate("mixed", "typical", -2.0, 6.5, "exact")
    rows = [
        candidate("mixed", "tail", 15.4, 22.9, "within_noise"),
        counted,
        candidate("generation", "typical", -30.0, 1.0, "exact"),
    ]
    judged = [one.judged for one in rows]
    (lead,) = merged(rows, ("mixed", "typical"), judged)
    assert lead.judged is counted.judged
    assert [(one.phase, one.part) for one in lead.elsewhere] == [("generation", "typical"), ("mixed", "tail")]
    (lead,) = merged(rows, ("context", "typical"), judged)  # in none of its own: where it explains most
    assert lead.judged.phase.steps.phase == "generation"


def test_the_function_that_a_cause_names_is_of_its_own_phase(tmp_path):
    """Generation steps launch a graph in 80 us, context steps a kernel in 20, or 40: of both the place is `forward`.

    A step begins with its first kernel: the GPU waits for what a context step launches at the end of a generation step.
    """

    def program(launch_us: int) -> TraceBuilder:
        trace, now = TraceBuilder().process(100).device(0).thread(100, 1), 0
        for number in range(25):
            of_context = number % 2
            call = "cudaLaunchKernel" if of_context else "cudaGraphLaunch"
            launched = now + 1000 * (launch_us if of_context else 80)
            trace.range(1, "forward", now, launched)
            trace.api(1, call, now, launched, corr=number + 1)
            trace.kernel(number + 1, launched, launched + 200_000, graph_node=None if of_context else 7)
            trace.api(1, "cudaStreamSynchronize", launched, launched + 200_000)
            trace.range(1, label(number, ctx=of_context, gen=4 * (1 - of_context)), now, launched + 200_000)
            now = launched + 200_000
        return trace

    result = compare(*(
        Side(name, [Run(f"{name}{run}", [reduced(program(launch_us), tmp_path)]) for run in range(3)])
        for name, launch_us in (("baseline", 20), ("candidate", 40))
    ))  # fmt: skip
    found = [one for one in result.findings if one.cause == "launch_api"]
    assert [(one.where.phase, one.where.range, one.where.api) for one in found] == [
        ("generation", "forward", "cudaLaunchKernel")
    ]
    assert found[0].delta_ns == pytest.approx(20_000, rel=0.6)


def test_a_cause_names_the_function_that_grew_not_that_of_its_longest_piece(tmp_path):
    """Each step launches one kernel in cuLaunchKernelEx, 20 us and once 900, and one in cudaLaunchKernel, 20 us and then 60."""

    def program(launch_us: int) -> TraceBuilder:
        trace, now = TraceBuilder().process(100).device(0).thread(100, 1), 0
        for number in range(25):
            begin = now
            for at, (call, us) in enumerate(
                (("cuLaunchKernelEx", 900 if number == 12 else 20), ("cudaLaunchKernel", launch_us))
            ):
                launched = now + 1000 * us
                trace.api(1, call, now, launched, corr=2 * number + at + 1)
                trace.kernel(2 * number + at + 1, launched, launched + 100_000, name=f"kernel{at}")
                trace.api(1, "cudaStreamSynchronize", launched, launched + 100_000)
                now = launched + 100_000
            trace.range(1, label(number, gen=4), begin, now)
        return trace

    result = compare(*(
        Side(name, [Run(f"{name}{run}", [reduced(program(launch_us), tmp_path)]) for run in range(3)])
        for name, launch_us in (("baseline", 20), ("candidate", 60))
    ))  # fmt: skip
    (found,) = [one for one in result.findings if one.cause == "launch_api"]
    assert (found.where.api, found.delta_ns) == ("cudaLaunchKernel", pytest.approx(40_000))


def test_what_a_kernel_takes_each_is_of_the_step_that_the_cause_is_of(tmp_path):
    """Generation steps have two launches of 20 us, of 30 in the candidate; those with a prompt two of 200 on both sides.

    Over all steps a launch takes 110 us, then 115: the cause in generation steps is +20 us per step, 20 -> 30 us each.
    """

    def program(us: int) -> TraceBuilder:
        trace, now = TraceBuilder().process(100).device(0).thread(100, 1), 0
        for number in range(60):
            begin, of_context = now, number % 2
            for at in range(2):
                corr = 2 * number + at + 1
                trace.api(1, "cudaLaunchKernel", now, now + 1_000, corr=corr)
                done = now + 1_000 + 1_000 * (200 if of_context else us)
                trace.kernel(corr, now + 1_000, done, name="gemm")
                trace.api(1, "cudaStreamSynchronize", now + 1_000, done)
                now = done
            trace.range(1, label(number, ctx=of_context, gen=4), begin, now)
        return trace

    result = compare(*(
        Side(name, [Run(f"{name}{run}", [reduced(program(us), tmp_path)]) for run in range(3)])
        for name, us in (("baseline", 20), ("candidate", 30))
    ))  # fmt: skip
    found = next(one for one in result.findings if one.cause == "kernel_time")
    assert (found.where.phase, found.delta_ns) == ("generation", pytest.approx(20_000))
    assert (found.facts.baseline_mean_ns, found.facts.candidate_mean_ns) == pytest.approx((20_000, 30_000))


def test_what_a_kernel_takes_each_is_of_the_launches_of_that_step(tmp_path):
    """Every fifth step, the longest, has five launches of 20 us, of 30 in the candidate; the others, and so the typical one, have one."""

    def program(us: int) -> TraceBuilder:
        trace, now, corr = TraceBuilder().process(100).device(0).thread(100, 1), 0, 0
        for number in range(60):
            begin = now
            for _ in range(5 if number % 5 == 4 else 1):
                corr += 1
                trace.api(1, "cudaLaunchKernel", now, now + 1_000, corr=corr)
                trace.kernel(corr, now + 1_000, now + 1_000 * (1 + us), name="gemm")
                now += 1_000 * (1 + us)
            trace.api(1, "cudaStreamSynchronize", now - 1_000, now)
            trace.range(1, label(number, gen=4), begin, now)
        return trace

    sides = [
        Side(name, [Run(f"{name}{run}", [reduced(program(us), tmp_path)]) for run in range(3)])
        for name, us in (("baseline", 20), ("candidate", 30))
    ]
    result, asked = compare(*sides), compare(*sides, Options(kernels=("gemm",)))
    found = next(one for one in result.findings if one.cause == "kernel_time" and one.part == "typical")
    assert found.delta_ns == pytest.approx(10_000)
    assert (found.facts.baseline_mean_ns, found.facts.candidate_mean_ns) == pytest.approx((20_000, 30_000))
    # without the last one, 59 steps have 48 + 11 * 5 launches
    assert result.launch.baseline.kernels_per_step == pytest.approx(103 / 59)
    assert (found.evidence.count_baseline, found.evidence.count_candidate) == (1, 1)
    (row,) = result.kernels
    of_row, answer = row.phases[0], asked.kernel_answers[0].phases[0]
    for one in (of_row, answer):
        assert (one.baseline_count, one.candidate_count) == (1, 1)
        assert (one.baseline_ns, one.candidate_ns) == pytest.approx((20_000, 30_000))


def test_how_many_steps_launch_a_kernel_is_no_gain_of_few_runs(tmp_path):
    """Half of the steps sample in a kernel of 40 us, on the other side a fifth: which requests came decides. A GEMM is another one, and slower."""

    def program(gemm: str, us: int, every: int) -> TraceBuilder:
        trace, now, corr = TraceBuilder().process(100).device(0).thread(100, 1), 0, 0
        for number in range(60):
            begin = now
            for name, length in ((gemm, us), *[("sampler", 40)] * (number % every == 0)):
                corr += 1
                trace.api(1, "cudaLaunchKernel", now, now + 1_000, corr=corr)
                trace.kernel(corr, now + 1_000, now + 1_000 * (1 + length), name=name)
                now += 1_000 * (1 + length)
            trace.api(1, "cudaStreamSynchronize", now - 1_000, now)
            trace.range(1, label(number, gen=4), begin, now)
        return trace

    for runs, level in ((1, "within_noise"), (4, "confirmed")):
        result = compare(*(
            Side(name, [Run(f"{name}{run}", [reduced(program(name, us, every), tmp_path)]) for run in range(runs)])
            for name, us, every in (("gemm", 80, 2), ("other_gemm", 160, 5))
        ))  # fmt: skip
        found = {
            name: one for one in result.findings for name in one.where.called[:1] if one.part == "typical"
        }
        assert found["sampler"].level == level
        assert found["gemm"].level != "within_noise" and found["gemm"].delta_ns == pytest.approx(80_000)


def test_runs_without_steps_of_a_phase_count_in_its_mean(tmp_path):
    """The second of four runs has no context steps. On the candidate every fourth takes 3 ms more, but in the last run."""

    def program(context: bool, stop: int) -> TraceBuilder:
        trace, now = TraceBuilder().process(100).device(0).thread(100, 1), 0
        for number in range(80):
            here = context and number % 2
            begin, now = now, now + 1_000 * (100 + stop * bool(context and number % 8 == 2))
            trace.range(1, "_schedule", begin, now)
            trace.api(1, "cudaLaunchKernel", now, now + 1_000, corr=number + 1)
            trace.kernel(number + 1, now + 1_000, now + 101_000, name="gemm")
            now += 101_000
            trace.api(1, "cudaStreamSynchronize", now - 100_000, now)
            trace.range(1, label(number, ctx=here, tokens=8 * here), begin, now)
        return trace

    result = compare(*(
        Side(name, [Run(f"{name}{run}", [reduced(program(run != 1, stop * (run < 3)), tmp_path)]) for run in range(4)])
        for name, stop in (("a", 0), ("b", 3_000))
    ))  # fmt: skip
    found = next(one for one in result.findings if one.where.range == "_schedule")
    assert (found.part, found.where.phase) == ("mean", "mixed")
    assert (found.held.baseline, found.held.candidate, found.held.odd) == (4, 3, ["b3"])


def one_by_one(launched: Callable[[int], list[tuple[str, int]]]) -> TraceBuilder:
    """30 steps, each of the kernels that it launches by its number (name, us), and one of 50 us: the host waits for each."""
    trace, now, corr = TraceBuilder().process(100).device(0).thread(100, 1), 0, 0
    for number in range(30):
        begin = now
        for name, us in (*launched(number), ("silu", 50)):
            corr += 1
            trace.api(1, "cudaLaunchKernel", now, now + 1_000, corr=corr)
            trace.kernel(corr, now + 1_000, now + 1_000 * (1 + us), name=name)
            now += 1_000 * (1 + us)
        trace.api(1, "cudaStreamSynchronize", now, now)
        trace.range(1, label(number), begin, now)
    return trace


@pytest.mark.parametrize(("many", "cause"), [(8, "kernel_added"), (3, "kernel_time")])
def test_launches_that_are_more_and_longer_are_called_by_what_adds_more(many: int, cause: str, tmp_path):
    """2 of 10 us are 8 of 30 us: 6 more at 30 us are 180 us, 20 us more of 2 are 40 us. Of 3 they are 30 and 40 us."""

    programs = (
        one_by_one(lambda _, gemms=gemms, us=us: [("gemm", us)] * gemms)
        for gemms, us in ((2, 10), (many, 30))
    )
    sides = (
        Side(name, [Run(name, [reduced(one, tmp_path)])]) for name, one in zip("ab", programs, strict=True)
    )
    (found,) = (one for one in compare(*sides).findings if one.cause.startswith("kernel"))
    assert (found.cause, found.where.called) == (cause, ("gemm",))


@pytest.mark.parametrize(("mix_us", "told"), [(-11, 1), (9, 0)])
def test_another_mix_is_told_from_a_hundredth_of_the_step_on(mix_us: float, told: int):
    """Of steps of 1 ms."""
    one_side = [[step(cells=[1_000 * US])] * 12]
    found = measured(one_side, one_side, idle=1)
    changed = replace(mix(found.frame, 0, 0), batch_mix_ns=mix_us * US)
    assert changed.baseline_raw_ns == 1_000 * US
    assert len(mix_finding(found, changed, build_strata(found.frame))) == told


def test_more_launches_of_a_longer_kernel_make_no_other_slower():
    """24 more of 65 us beside 48 of 5 us are 1,560 us; as launches of one kernel, 72 of 25 us, they would be 600 us more and 960 us longer."""
    assert of_launches([((48, 48), (5, 5)), ((0, 24), (0, 65))]) == "kernel_added"
    assert of_launches([((48, 48), (5, 5)), ((24, 0), (65, 0))]) == "kernel_removed"
    assert of_launches([((48, 72), (5, 25))]) == "kernel_time"


def test_variants_of_one_library_call_are_more_where_one_of_them_is(tmp_path):
    """A GEMM of 10 us, of another name and 20 us in every other step; the candidate launches the longer one three times more in each."""

    short, long = (
        ("nvjet_sm90_tst_8x64_64x16_4x1_v_bz_TNN", 10),
        ("nvjet_sm90_tst_128x64_64x8_1x2_h_bz_TNN", 20),
    )
    programs = (
        one_by_one(lambda number, more=more: [long if number % 2 else short] * 4 + [long] * more)
        for more in (0, 3)
    )
    sides = (
        Side(name, [Run(name, [reduced(one, tmp_path)])]) for name, one in zip("ab", programs, strict=True)
    )
    found = [one for one in compare(*sides).findings if one.cause.startswith("kernel")]
    assert [one.cause for one in found] == ["kernel_added"]


@pytest.mark.parametrize(("more", "shares"), [(3, ("mixed", 0.0, 0.2)), (0, None)])
def test_steps_that_one_side_never_ran_are_a_mix(more: int, shares: tuple[str, float, float] | None):
    """Three of fifteen steps are of a phase that the baseline never ran: what they add to the mean is told with their share."""
    usual, other = step(cells=[1_000 * US]), step(cells=[3_000 * US], phase="mixed", ctx_reqs=1)
    found = measured([[usual] * 12], [[usual] * 12 + [other] * more], idle=1)
    changed = replace(mix(found.frame, 0, 0), batch_mix_ns=0, not_compared_ns=400 * US * bool(more))
    told = mix_finding(found, changed, build_strata(found.frame))
    assert [one.delta_ns for one in told] == [400 * US] * bool(more)
    assert [(one.phase, one.baseline, one.candidate) for row in told for one in row.facts.shares] == (
        [shares] if shares else []
    )
