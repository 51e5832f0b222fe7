"""Kernels of two profiles paired: by what they are, never by how often they were profiled."""

from __future__ import annotations

from tracediff.companions.ncu.compare import Pairing, linked, pair
from tracediff.kernels.matching import OpKey
from tracediff.model import KernelRow, KernelSide

SMALL, LARGE = (
    OpKey("void quantize<1>(int *)", "132,1,1", "256,1,1"),
    OpKey("void quantize<1>(int *)", "1056,1,1", "256,1,1"),
)
OTHER = OpKey("void quantize<2>(int *)", "132,1,1", "256,1,1")
GATE, UP, FUSED = (
    OpKey(f"nvjet_tst_{name}", grid)
    for name, grid in (("128x256", "64,1,1"), ("64x256", "64,1,1"), ("256x256", "128,1,1"))
)
NORM = OpKey("rms_norm_kernel", "8,1,1")


def _pairs(one, other, rows=()):
    return [(found.match, found.baseline, found.candidate) for found in pair(one, other, rows)]


def test_the_same_kernel_whatever_the_number_of_launches():
    assert _pairs([SMALL] * 3, [SMALL] * 5) == [("exact", (SMALL,), (SMALL,))]


def test_another_grid_is_no_fusion_however_many_launches_were_profiled():
    for one, other in ((6, 3), (3, 6), (1, 7), (4, 4)):
        assert _pairs([SMALL] * one, [LARGE] * other) == [("name", (SMALL,), (LARGE,))]


def test_other_template_arguments():
    assert _pairs([SMALL], [OTHER]) == [("template", (SMALL,), (OTHER,))]


def test_two_kernels_of_a_round_become_one():
    assert _pairs([GATE, UP] * 3, [FUSED] * 3) == [("fused", (GATE, UP), (FUSED,))]
    assert _pairs([FUSED] * 2, [GATE, UP] * 4) == [("split", (FUSED,), (GATE, UP))]


def test_a_round_with_a_kernel_that_stays():
    found = _pairs([NORM, GATE, UP] * 2, [NORM, FUSED] * 2)
    assert found == [("exact", (NORM,), (NORM,)), ("fused", (GATE, UP), (FUSED,))]


def test_a_kernel_is_no_part_of_its_own_split():
    """Cheapest for the aligner is a split; but the kernel is still there, and another beside it."""
    assert _pairs([SMALL], [LARGE, NORM]) == [("name", (SMALL,), (LARGE,)), ("added", (), (NORM,))]
    assert _pairs([LARGE, NORM], [SMALL]) == [("name", (LARGE,), (SMALL,)), ("removed", (NORM,), ())]


def test_one_kernel_in_each_file_is_a_pair_whatever_the_names():
    assert _pairs([NORM] * 2, [GATE]) == [("sequence", (NORM,), (GATE,))]


def test_kernels_without_a_like_are_added_and_removed():
    found = _pairs([NORM, SMALL], [SMALL])
    assert ("removed", (NORM,), ()) in found and ("exact", (SMALL,), (SMALL,)) in found


def _side(names, count, grids=()):
    return KernelSide(
        names=list(names), count_per_step=count, ns_per_step=100.0, mean_ns=10.0, grids=list(grids)
    )


def _row(match, baseline, candidate):
    return KernelRow(match=match, confidence=0.7, category="gemm", family="nvjet", baseline=baseline, candidate=candidate,
                     delta_ns=0, ci_low_ns=0, ci_high_ns=0, level="exact")  # fmt: skip


def test_the_rows_of_the_step_decide_and_are_linked():
    """One kernel twice a layer becomes one: its launches alone could not say so."""
    rows = [
        _row("exact", _side([NORM.name], 8), _side([NORM.name], 8)),
        _row("fused", _side([GATE.name], 16), _side([FUSED.name], 8)),
    ]
    assert pair([GATE] * 6, [FUSED] * 3, rows) == [Pairing("fused", 0.7, (GATE, GATE), (FUSED,), 1)]


def test_the_row_of_a_kernel_that_only_one_profile_has():
    rows = [_row("removed", _side([NORM.name], 8), None)]
    found = {one.baseline or one.candidate: one.kernel for one in pair([NORM, SMALL], [SMALL], rows)}
    assert found == {(NORM,): 0, (SMALL,): None}


def test_names_of_the_two_demanglers_are_the_same():
    nsys = "void tensorrt_llm::(anonymous namespace)::scale<__nv_bfloat16, float>(T2*, T3*, const T1*, int)"
    ncu = "void tensorrt_llm::<unnamed>::scale<__nv_bfloat16, float>(T2 *, T3 *, const T1 *, int)"
    key = OpKey(ncu, "132,1,1")
    assert linked([key, NORM], [nsys], []) == [key]


def test_the_grid_decides_between_kernels_of_one_name():
    assert linked([SMALL, LARGE], [SMALL.name], ["1056,1,1"]) == [LARGE]
    assert linked([SMALL, LARGE], [SMALL.name], ["7,1,1"]) == [SMALL, LARGE]


def test_template_arguments_are_one_in_either_spelling():
    """Of two instances that differ in a number alone, each is linked to its own."""
    keys = [
        OpKey(
            f"void quantize_1x128<{number}, {flag}>(const __nv_bfloat16 *, float *, long)",
            "132,1,1",
            "256,1,1",
        )
        for number, flag in ((0, "true"), (1, "true"), (0, "0"))
    ]
    for key, named in zip(keys, ("<(int)0, (bool)1>", "<(int)1, (bool)1>", "<(int)0, (bool)0>"), strict=True):
        assert linked(keys, [f"void quantize_1x128{named}(const __nv_bfloat16 *, float *, long)"], []) == [
            key
        ]
