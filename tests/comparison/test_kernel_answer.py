"""Kernels asked for by name: by hand on tiny traces, and on a real pair what the tables of the comparison hold."""

from __future__ import annotations

import math

import pytest
from msgspec.structs import replace

from fixtures.builders import TraceBuilder
from tests.comparing import compare
from tests.comparison.test_show import near, real
from tests.serving import US, runs_of
from tests.tiny import label, reduced
from tracediff.comparison.compare import Options
from tracediff.comparison.kernel_answer import bearing, rows_named
from tracediff.errors import TracediffError
from tracediff.report.kernels import sentence

STEP = "[Executor] _forward_step"


def sides(folder, *names: str):
    """Three kernels of 200 us a step; in the candidate of 250 us each."""
    before = runs_of(folder, "a", [100.0] * 2, jitter_us=0)
    after = runs_of(folder, "b", [100.0] * 2, jitter_us=0, kernel_us=250)
    return compare(before, after, Options(kernels=names))


def test_one_kernel_and_several(tmp_path) -> None:
    one, all_of_them = sides(tmp_path, "gemm_1", "gemm*").kernel_answers
    assert (one.baseline_count, one.candidate_count) == (1, 1)
    assert (one.baseline_ns, one.candidate_ns, one.delta_ns) == near((200 * US, 250 * US, 50 * US))
    assert (one.baseline_mean_ns, one.candidate_mean_ns) == near((200 * US, 250 * US))
    assert (one.baseline_hidden_ns, one.candidate_hidden_ns) == near((0, 0))
    assert one.text == (
        "gemm_1 takes 50.0 us more per mean step (200 -> 250 us per step, +25.0 %), likely: 1 launch per step, 200 -> 250 us each."
    )
    (phase,) = one.phases
    assert (phase.phase, phase.baseline_count, phase.candidate_count) == ("generation", 1, 1)
    assert (phase.baseline_ns, phase.candidate_ns, phase.delta_ns) == near((200 * US, 250 * US, 50 * US))
    assert [
        (row.range, row.thread, row.api, row.baseline_share, row.candidate_share) for row in one.origins
    ] == [(STEP, "executor", "cudaGraphLaunch", 1, 1)]
    assert (all_of_them.baseline_count, len(all_of_them.rows)) == (3, 3)
    assert all_of_them.delta_ns == near(150 * US)
    assert all_of_them.text.startswith(
        "gemm* (3 kernels) takes 150 us more per mean step (600 -> 750 us per step, +25.0 %)"
    )


def test_a_kernel_is_judged_beside_its_own_time(tmp_path) -> None:
    """Kernels of 200 us, then 250 (and 204), in steps of 100 ms: too little for a cause of the step, and the kernels changed all the same."""

    def changed(kernel_us: int):
        after = runs_of(tmp_path, f"b{kernel_us}", [100_000.0] * 2, jitter_us=0, kernel_us=kernel_us)
        return compare(before, after, Options(kernels=("gemm_1",)))

    before = runs_of(tmp_path, "a", [100_000.0] * 2, jitter_us=0)
    result = changed(250)
    assert not [one for one in result.findings if one.cause == "kernel_time" and one.level != "within_noise"]
    (answer,) = result.kernel_answers
    assert (answer.level, answer.phases[0].level) == ("likely", "likely")
    assert {row.level for row in result.kernels} == {"likely"}
    assert {row.level for row in changed(204).kernels} == {"within_noise"}  # 2 % of its time


def test_a_name_that_no_kernel_has(tmp_path) -> None:
    with pytest.raises(TracediffError) as error:
        sides(tmp_path, "softmax")
    assert (error.value.slug, error.value.exit_code) == ("no-such-kernel", 2)
    assert "gemm_0" in error.value.message


def test_who_launches_a_kernel(tmp_path) -> None:
    """Of three kernels of one name in the step that is whole two begin their call in `work`, one on a thread of its own.

    thread 1 |label 1: work(-190..-110): launch, launch     |label 2
    thread 2 |launch in no range
    """
    trace = TraceBuilder().process(100).thread(100, 1).thread(100, 2)
    trace.range(1, label(1), -200, -100).range(1, "work", -190, -110).range(1, label(2), 850, 960)
    trace.api(1, "cudaLaunchKernel", -180, -170, corr=1).kernel(1, 0, 100, name="k")
    trace.api(1, "cudaLaunchKernelExC_v11060", -160, -150, corr=2).kernel(2, 100, 200, name="k")
    trace.api(2, "cudaLaunchKernel", -140, -130, corr=3).kernel(3, 200, 300, name="k")
    trace.api(1, "cudaLaunchKernel", 900, 950, corr=4).kernel(4, 1000, 1100, name="k")
    rows = reduced(trace, tmp_path).origins.drop("key").rows()
    found = {(place, api): count for _, place, api, count in rows}
    assert found == {
        ("work", "cudaLaunchKernel"): 1,
        ("work", "cudaLaunchKernelExC"): 1,
        ("outside any range", "cudaLaunchKernel"): 1,
    }


def test_a_real_pair_by_its_own_tables() -> None:
    result = compare(real("graph"), real("fused"), Options(kernels=("nvjet", "silu")))
    for one in result.kernel_answers:
        rows = [result.kernels[at] for at in one.rows]
        assert one.delta_ns == near(math.fsum(row.delta_ns for row in rows))
        assert one.baseline_ns == near(math.fsum(row.baseline.ns_per_step for row in rows if row.baseline))
        assert math.fsum(row.baseline_share for row in one.origins) == pytest.approx(1)
        assert math.fsum(row.candidate_share for row in one.origins) == pytest.approx(1)
        assert {row.api for row in one.origins} <= {"cudaGraphLaunch", "cudaLaunchKernel", "cuLaunchKernelEx"}
    # with the time of the mean step: phases weigh as they do there
    nvjet = result.kernel_answers[0]
    assert [row.phase for row in nvjet.phases] == ["generation", "mixed"]
    assert nvjet.phases[0].level == "exact"


def test_names_as_reports_shorten_them() -> None:
    rows = compare(real("graph"), real("fused")).kernels
    shown = rows_named("elementwise_kernel<silu_kernel", rows)
    assert len(shown) == 2
    assert [one.number for one in shown] == [one.number for one in rows_named("silu_kernel", rows)]
    assert rows_named("nothing like it", rows) == []


def test_names_are_taken_as_reports_print_them() -> None:
    """Groups, categories and cut names; a cut name that fits two kernels is none's."""
    sdpa = (
        "cudnn_generated_fort_native_sdpa_sm80_flash_fprop_wmma_f16_knob_3_64x64x64_4x4x1_cga1x1x1_kernel0_0"
    )
    other = (
        "cudnn_generated_fort_native_sdpa_sm80_flash_fprop_wmma_f16_knob_6_128x64x64_4x4x1_cga1x1x1_kernel0_0"
    )
    copy = "void at::native::elementwise_kernel<128, 4, at::native::direct_copy_kernel_cuda(at::TensorIteratorBase &)::[lambda()]>(int, T3)"
    gemms = {"nvjet_sm90_hsh_64x96_64x10_1x2_h_bz_NNT", "my_gemm_kernel"}
    masked, norm = "masked_multihead_attention_kernel", "void vllm::rms_norm_kernel<c10::Half, 8>(float *)"
    every = {sdpa, other, copy, *gemms, masked, norm}
    for name, expected in (
        ("attention", {sdpa, other, masked}), ("GEMM", gemms), ("GEMM kernels", gemms), ("GEMMs", gemms),
        ("gemm", {"my_gemm_kernel"}),  # in lower case no group: the text alone
        ("norm", {norm}), ("NCCL", set()), ("copy", {copy}), ("elementwise_kernel<direct_copy_kernel_cuda>", {copy}),
        ("cudnn_generated_fort_native_sdpa_sm80_flash_fprop_w\u20264_4x4x1_cga1x1x1_kernel0_0", set()),
        ("cudnn_generated_fort_nativ\u20263_64x64x64_4x4x1_cga1x1x1_kernel0_0", {sdpa}),
        ("elementwise_kernel<direct_c\u2026nel_cuda>", {copy}),
        ("elementwise_kernel<direct_c*nel_cuda>", {copy}),  # as advice has it
    ):  # fmt: skip
        assert bearing(name, every) == expected, name
    assert bearing("gemm", gemms - {"my_gemm_kernel"}) == gemms - {"my_gemm_kernel"}, "else the category"


def test_what_stands_in_the_place_of_several_is_in_their_name(tmp_path) -> None:
    """The time that is told is not that of the name alone."""
    result = sides(tmp_path, "gemm*")
    (one,) = result.kernel_answers
    asked = replace(one, asked="cat", text="", instead=["copy", "index_copy"])
    assert sentence(result, asked).startswith("cat (3 kernels, with 2 others in their place) takes ")
    assert sentence(result, replace(asked, instead=[])).startswith("cat (3 kernels) takes ")
