"""Classes of steps whose labels count nothing: told apart by what they launch, matched between the sides, and phases like any other."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from string import ascii_letters

import numpy as np
import pytest
from msgspec.structs import replace

from fixtures.builders import TraceBuilder
from tests.comparing import compare, show
from tests.judging import judge
from tests.tiny import reduced
from tracediff.comparison.classes import with_classes
from tracediff.comparison.gates import parse_gate
from tracediff.execution.sides import Run, Side
from tracediff.trace.workloads import classes_of, distance

US = 1000


def test_the_distance_is_the_part_that_only_one_of_both_has():
    # 10 and 9 of one kernel, 0 and 1 of another: 2 of the 20 launches have no counterpart
    assert distance(np.array([[10.0, 0.0], [9.0, 1.0]]), np.array([10.0, 0.0])).tolist() == [0.0, 0.1]
    assert distance(np.zeros((1, 2)), np.zeros(2)).tolist() == [0.0]


def test_classes_are_numbered_by_their_steps_whatever_the_order_of_the_rows():
    bags = np.array([[0.0, 30.0], [10.0, 0.0], [9.0, 1.0], [0.0, 29.0]])
    # the third is within 0.15 of the second: 6 + 1 steps; the first and the last are 2 + 2
    assert classes_of(bags, np.array([2.0, 6.0, 1.0, 2.0])).tolist() == [1, 0, 0, 1]
    assert classes_of(bags[::-1], np.array([2.0, 1.0, 6.0, 2.0])).tolist() == [1, 0, 0, 1]


def engine(
    folder: Path,
    name: str,
    number: int,
    *,
    decode_us: float = 0,
    decode_kernel: str = "gemm",
    prefill_kernel: str = "prompt",
    odd: int = 0,
    prompts: int = 10,
    penalty: int = 0,
    prefills: Collection[int] = range(4, 42, 5),
) -> Run:
    """41 steps: of them `prefills`, every fifth, is a prefill of 13 ms (10 gemm, 10 prompt), the others decodes of 1 ms and `decode_us` (10 gemm).

    Labels say `step N`. `prompts`: launches of prompt in a prefill; `penalty`: further launches in a decode. `odd`: so many of the last steps launch something else. A step: 50 us of host work with some jitter, then the kernels in one row.
    """
    rng = np.random.default_rng(sum(map(ord, name)) * 100 + number)
    trace = TraceBuilder().process(100).device(0).thread(100, 1)
    now, corr = 0, 0
    for step in range(42):
        begin, prefill = now, step in prefills
        each = [(decode_kernel, 95 * US)] * 9 + [(decode_kernel, int((95 + decode_us) * US))]
        each += [("penalty", 5 * US)] * penalty
        if prefill:
            each = [("gemm", 95 * US)] * 10 + [(prefill_kernel, 1200 * US)] * prompts
        if step > 41 - odd - 1 and step < 41:
            each = [(f"once_{ascii_letters[step]}", 95 * US)] * 10
        at = begin + 50 * US + int(rng.normal(0, 2 * US))
        for kernel, ns in each:
            corr += 1
            trace.api(1, "cudaLaunchKernel", begin + corr % 50 * 100, begin + corr % 50 * 100 + 50, corr=corr)
            trace.kernel(corr, at, at + ns, name=kernel)
            at += ns
        trace.api(1, "cudaStreamSynchronize", begin + 6 * US, at).range(1, f"step {step}", begin, at)
        now = at
    (folder / f"{name}{number}").mkdir()
    return Run(f"{name}{number}", [reduced(trace, folder / f"{name}{number}")])


def side(folder: Path, name: str, runs: int = 4, **what) -> Side:
    return Side(name, [engine(folder, name, number, **what) for number in range(runs)])


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Side:
    return side(tmp_path_factory.mktemp("base"), "base")


def phases(one: Side) -> list[dict[str, int]]:
    return [dict(part.periods["phase"].value_counts().iter_rows()) for part in one.parts]


def test_prefills_and_decodes_are_phases(base):
    # of 41 whole steps, 8 are prefills: 4, 9, ..., 39
    assert phases(base) == [{"step": 33, "class-2": 8}] * 4


@pytest.mark.slow
def test_a_change_of_decodes_is_not_hidden_by_prefills(base, tmp_path):
    slower = side(tmp_path, "slower", decode_us=95)
    result = compare(base, slower)
    found = {one.phase: one for one in result.phases}
    assert found["step"].verdict == result.verdict == "regressed"
    assert found["step"].typical.delta_ns == pytest.approx(95 * US, abs=2 * US)
    assert found["step-with-prompt"].verdict == "no_change"
    # of the mean of all, 3.4 ms, it is 2.3 %
    assert result.step.delta_ns / result.step.baseline_ns < 0.03
    outcomes = {
        gate: judge(parse_gate(gate), result).outcome
        for gate in ("step:+3%", "step-with-prompt:+3%", "step-with-prompt.p50:+3%")
    }
    assert outcomes == {
        "step:+3%": "failed",
        "step-with-prompt:+3%": "passed",
        "step-with-prompt.p50:+3%": "passed",
    }


def test_tables_and_causes_are_of_the_steps_of_their_phase(base, tmp_path):
    """A decode launches 10 kernels, a prefill 20, and 8 of 41 steps are prefills: 11.95 in the mean of all steps."""
    result = compare(base, side(tmp_path, "slower", decode_us=95))
    counts = {
        one.phase: (one.baseline.kernels_per_step, one.candidate.calls_per_step, one.candidate.syncs_per_step)
        for one in result.launch.by_phase
    }
    assert counts == {"step": (10, 10, 1), "step-with-prompt": (20, 20, 1)}
    assert result.launch.baseline.kernels_per_step == pytest.approx((33 * 10 + 8 * 20) / 41)
    (cause,) = (one for one in result.findings if one.cause == "kernel_time" and one.where.phase == "step")
    for phase in result.phases:
        rows = [(row, one) for row in result.kernels for one in row.phases if one.phase == phase.phase]
        assert sum(one.baseline_ns for _, one in rows) == pytest.approx(phase.accounting.baseline["compute"])
        assert sum(one.baseline_count for _, one in rows) == counts[phase.phase][0]
        if phase.phase == "step":
            ((_, gemm),) = rows
            assert (gemm.baseline_count, gemm.candidate_count, gemm.level) == (10, 10, cause.level)
            assert (gemm.baseline_ns, gemm.candidate_ns, gemm.delta_ns) == pytest.approx(
                (cause.baseline_ns, cause.candidate_ns, cause.delta_ns)
            )


def test_what_sets_the_phases_apart_is_said(base):
    (note,) = (one for one in show(base).warnings if one.slug == "workload-classes")
    assert note.message.endswith(
        "per step: step: 10 launches; step-with-prompt: 20 launches, alone in launching prompt"
    )


def test_a_side_against_itself_has_the_same_classes_and_no_delta(base):
    result = compare(base, base)
    assert result.verdict == "no_change"
    assert {one.typical.delta_ns for one in result.phases} == {0.0}


def test_exchanging_the_sides_exchanges_the_phases(base, tmp_path):
    other = side(tmp_path, "other", runs=2, decode_kernel="fused", odd=2)
    one, two = compare(base, other), compare(other, base)
    assert [row.phase for row in one.phases] == [row.phase for row in two.phases]
    assert one.step.delta_ns == pytest.approx(-two.step.delta_ns)


def test_renamed_kernels_do_not_part_counterparts(base, tmp_path):
    # prefills share their ten gemm with the decodes of the baseline, and no other name
    other = side(tmp_path, "renamed", runs=2, prefill_kernel="prompt_v2")
    assert phases(with_classes([base, other])[1]) == [{"step": 33, "step-with-prompt": 8}] * 2


def test_what_both_do_most_is_compared_even_where_every_kernel_of_it_changed(base, tmp_path):
    other = side(tmp_path, "new", runs=2, decode_kernel="other")
    assert phases(with_classes([base, other])[1]) == [{"step": 33, "step-with-prompt": 8}] * 2


def test_steps_that_only_one_side_tells_apart_are_one_class_on_both(tmp_path):
    """Prefills of 10 + 3 launches, 10 of them those of a decode: 3 of 23 differ, 0.13. With one launch more per decode 4 of 24: 0.17."""
    one = side(tmp_path, "whole", 1, prompts=3)
    other = side(tmp_path, "parted", 1, prompts=3, penalty=1)
    assert phases(with_classes([other])[0]) == [{"step": 33, "step-with-prompt": 8}]
    for pair in ((one, other), (other, one)):
        assert [phases(found) for found in with_classes(pair)] == [[{"step": 41}]] * 2
    # 5 of them to 0.6 in a mean step of the baseline: 4.4 of 25.6 differ, 0.17, in 8 of 41 steps: they do more than before
    far = side(tmp_path, "far", 1, prompts=5, penalty=1)
    assert [phases(found) for found in with_classes((one, far))] == [[{"step": 41}]] * 2
    # 35 to 0.6: 34.4 + 0 of 55.6 differ, 0.62: now and then these are other steps, in every fifth the step that launches more
    times = {"regular": range(4, 42, 5), "others": (4, 9, 11, 19, 24, 30, 34, 36)}
    many = {name: side(tmp_path, name, 1, prompts=35, penalty=1, prefills=at) for name, at in times.items()}
    assert [phases(with_classes((one, many[name]))[1]) for name in times] == [
        [{"step": 41}],
        [{"step": 33, "step-of-45-launches": 8}],
    ]
    # without the work of the others, a step of its own in every fifth
    alone = side(tmp_path, "alone", 1, prompts=35, decode_kernel="decode")
    assert phases(
        with_classes((side(tmp_path, "none", 1, prefills=(), decode_kernel="decode"), alone))[1]
    ) == [{"step": 33, "step-with-prompt": 8}]


def test_a_rank_that_does_more_is_compared_with_itself(tmp_path):
    """Two ranks of 12 and 13 kernels are one class; where the second has 26, its steps are still those that had 13."""

    def ranks(name: str, *kernels: int) -> Side:
        parts = []
        for rank, count in enumerate(kernels):
            trace = TraceBuilder().process(100).device(0).thread(100, 1)
            for step in range(12):
                begin = step * 1000 * US
                trace.range(1, f"step {step}", begin, begin + 900 * US)
                for number in range(count):
                    at, corr = begin + 20 * US * number, 100 * step + number + 1
                    trace.api(1, "cudaLaunchKernel", at, at + 2 * US, corr=corr)
                    kernel = "gemm" if number % 2 else "norm"
                    trace.kernel(corr, at + 5 * US, at + 15 * US, name=kernel)
            (tmp_path / f"{name}{rank}").mkdir()
            parts.append(reduced(trace, tmp_path / f"{name}{rank}"))
        return Side(name, [Run(name, parts)])

    alike, more = ranks("a", 12, 13), ranks("b", 12, 26)
    assert phases(alike) == phases(with_classes([alike, alike])[0]) == [{"step": 11}] * 2
    one, other = with_classes([alike, more])
    assert phases(one) == phases(other) == [{"step": 11}, {"step-of-20-launches": 11}]  # half way
    found = compare(alike, more).structure
    assert ("kernels", 13, 26) in [(row.kind, row.baseline, row.candidate) for row in found]


def test_steps_whose_work_does_not_recur_are_irregular(tmp_path):
    # 39 and 40 launch kernels of their own; 39 would have been a prefill
    other = side(tmp_path, "odd", runs=1, odd=2)
    assert phases(with_classes([other])[0]) == [{"step": 32, "step-with-prompt": 7, "irregular": 2}]
    reasons = {row.phase: row.reason for row in show(other).strata}
    assert reasons == {"step": "", "step-with-prompt": "", "irregular": "irregular"}


def test_where_hardly_a_step_recurs_nothing_is_told_apart(tmp_path):
    other = side(tmp_path, "odd", runs=1, odd=40)
    assert phases(with_classes([other])[0]) == [{"step": 41}]


def test_a_gate_on_the_step_holds_for_what_the_first_sentence_says(base):
    """The mean fell because rare steps did; the typical step is 5 % slower for sure, and is what is said."""
    result = compare(base, base)
    said = replace(
        result.observed,
        of="typical",
        baseline_ns=1000 * US,
        delta_ns=50 * US,
        ci_low_ns=40 * US,
        ci_high_ns=60 * US,
    )
    mean = replace(
        result.step, baseline_ns=3000 * US, delta_ns=-300 * US, ci_low_ns=-900 * US, ci_high_ns=300 * US
    )
    result = replace(result, verdict="regressed", observed=said, step=mean)
    outcome = judge(parse_gate("step:+3%"), result)
    assert (outcome.outcome, outcome.message) == ("failed", "step +50.0 us (+5.0 %) exceeds 30.0 us")
    assert judge(parse_gate("step:+6%"), result).outcome == "passed"
    unsure = replace(said, ci_low_ns=-10 * US)
    assert judge(parse_gate("step:+3%"), replace(result, observed=unsure)).outcome == "inconclusive"


def test_moments_are_in_the_phases_that_classes_become(tmp_path):
    """Decodes are `step`, prefills that of the kernel that they alone launch: both wait for the host, with their longest moments."""
    (side,) = with_classes([Side("one", [engine(tmp_path, "one", 0)])])
    (part,) = side.parts
    phases = {"step", "step-with-prompt"}
    assert set(part.periods["phase"]) == set(part.moments["phase"]) == phases
