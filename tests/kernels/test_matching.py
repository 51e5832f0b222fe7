"""Kernels of both sides matched: tiers, blocks of a sequence, and every op in rows that sum to it."""

from __future__ import annotations

import time
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracediff.kernels.matching import MAX_SEQUENCE, OpKey, PhaseOps, match_kernels

GEMM_A = "nvjet_sm90_tst_64x16_64x16_4x1_v_bz_TNT"
GEMM_B = "nvjet_sm90_tst_128x16_64x11_4x1_v_bz_TNT"  # the same template, another tile
CUTLASS = "cutlass_80_tensorop_bf16_s16816gemm_bf16_128x64_64x4_tn_align8"
NORM_32 = "void rms_norm_kernel<float, 256>(float*)"
NORM_16 = "void rms_norm_kernel<__nv_bfloat16, 512>(float*)"
SILU = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::silu_kernel, array<char*, 2ul>>(int, T3)"
)
SILU_MUL = "triton_poi_fused_silu_mul_0"
SOFTMAX = "softmax_warp_forward"
ATTENTION = "fmha_v2_flash_attention_bf16_64_128_S_q_paged_kv_256_sm90_kernel"
COPY = "[memcpy DtoH]"


def keys(*names: str) -> list[OpKey]:
    return [OpKey(*name.split("@")) for name in names]  # name@grid@block


def phase(sequences: dict[tuple[str, ...], int], *more: str) -> PhaseOps:
    """A phase from names; `more`: ops outside the sequences."""
    of_ops = {tuple(keys(*names)): steps for names, steps in sequences.items()}
    return PhaseOps(of_ops, {op for sequence in of_ops for op in sequence} | set(keys(*more)))


def match(one, other, **more_ops):
    """Match two sequences of one phase; `more_ops`: ops seen besides, as `baseline=` and `candidate=`."""
    sides = ((one, "baseline"), (other, "candidate"))
    return match_kernels(
        *({"generation": phase({tuple(names): 1}, *more_ops.get(name, ()))} for names, name in sides)
    )


def rows(found) -> set[tuple]:
    """(tier, baseline names, candidate names) of every row."""

    def names(ops):
        return tuple("@".join(part for part in (op.name, op.grid, op.block) if part) for op in ops)

    return {(row.match, names(row.baseline), names(row.candidate)) for row in found.rows}


# Tiers


def test_the_same_kernel_in_the_same_shape_is_exact():
    found = match([f"{GEMM_A}@4,1,1@128,1,1"], [f"{GEMM_A}@4,1,1@128,1,1"])
    assert rows(found) == {("exact", (f"{GEMM_A}@4,1,1@128,1,1",), (f"{GEMM_A}@4,1,1@128,1,1",))}
    assert found.rows[0].confidence == 1.0


@pytest.mark.parametrize(
    ("one", "other", "tier"),
    [
        (f"{GEMM_A}@4,1,1", f"{GEMM_A}@8,1,1", "name"),
        (f"{GEMM_A}@4,1,1@128,1,1", f"{GEMM_A}@4,1,1@256,1,1", "name"),
        (NORM_32, NORM_16, "template"),
        (GEMM_A, GEMM_B, "template"),
        (GEMM_A, CUTLASS, "sequence"),  # one GEMM for another, in its place
        (SILU, SILU_MUL, "sequence"),
    ],
)
def test_tiers_of_one_kernel_in_one_place(one, other, tier):
    found = match([SOFTMAX, one, COPY], [SOFTMAX, other, COPY])
    exact = {("exact", (name,), (name,)) for name in (SOFTMAX, COPY)}
    assert rows(found) == exact | {(tier, (one,), (other,))}


def test_confidence_falls_with_the_tier():
    pairs = [(GEMM_A, GEMM_A), (f"{GEMM_A}@4", f"{GEMM_A}@8"), (GEMM_A, GEMM_B), (GEMM_A, CUTLASS)]
    confidence = [match([one], [other]).rows[0].confidence for one, other in pairs]
    assert confidence == sorted(confidence, reverse=True) and len(set(confidence)) == 4


def test_a_gemm_does_not_become_a_softmax():
    assert rows(match([GEMM_A], [SOFTMAX])) == {("removed", (GEMM_A,), ()), ("added", (), (SOFTMAX,))}


# Blocks


def test_fused_two_to_one():
    # gate and up projection become one GEMM, in each of two layers
    one = [NORM_32, GEMM_A, GEMM_A, SILU, ATTENTION] * 2
    other = [NORM_32, CUTLASS, SILU, ATTENTION] * 2
    found = match(one, other)
    assert ("fused", (GEMM_A, GEMM_A), (CUTLASS,)) in rows(found)
    assert {row[0] for row in rows(found)} == {"exact", "fused"}


def test_split_one_to_two():
    one = [NORM_32, CUTLASS, SILU, ATTENTION] * 2
    other = [NORM_32, GEMM_A, GEMM_A, SILU, ATTENTION] * 2
    assert ("split", (CUTLASS,), (GEMM_A, GEMM_A)) in rows(match(one, other))


def test_pointwise_kernels_fuse_into_one():
    found = match([GEMM_A, SILU, "vectorized_mul_kernel", GEMM_B], [GEMM_A, SILU_MUL, GEMM_B])
    assert ("fused", (SILU, "vectorized_mul_kernel"), (SILU_MUL,)) in rows(found)


def test_a_gemm_is_not_fused_into_a_pointwise_kernel():
    found = rows(match([NORM_32, GEMM_A, SILU, COPY], [NORM_32, SILU_MUL, COPY]))
    assert ("removed", (GEMM_A,), ()) in found
    assert ("sequence", (SILU,), (SILU_MUL,)) in found


def test_the_same_kernel_at_another_grid_beside_a_new_one_is_no_split():
    found = match([GEMM_A, f"{SILU}@8,1,1", COPY], [GEMM_A, f"{SILU}@16,1,1", "vectorized_mul_kernel", COPY])
    assert rows(found) == {
        ("exact", (GEMM_A,), (GEMM_A,)), ("exact", (COPY,), (COPY,)),
        ("name", (f"{SILU}@8,1,1",), (f"{SILU}@16,1,1",)), ("added", (), ("vectorized_mul_kernel",)),
    }  # fmt: skip


def test_added_and_removed():
    found = match([NORM_32, GEMM_A, COPY], [NORM_32, SOFTMAX, GEMM_A])
    assert rows(found) == {
        ("exact", (NORM_32,), (NORM_32,)), ("exact", (GEMM_A,), (GEMM_A,)),
        ("removed", (COPY,), ()), ("added", (), (SOFTMAX,)),
    }  # fmt: skip


def test_more_of_the_same_stays_with_its_kind():
    # the third copy is no new kernel: the row's count changes
    found = match([GEMM_A, COPY, COPY, SILU], [GEMM_A, COPY, COPY, COPY, SILU])
    assert rows(found) == {("exact", (name,), (name,)) for name in (GEMM_A, COPY, SILU)}
    assert rows(match([GEMM_A, COPY, COPY], [GEMM_A, COPY])) == {
        ("exact", (name,), (name,)) for name in (GEMM_A, COPY)
    }


def test_a_kernel_in_two_roles_is_divided_by_its_uses():
    # GEMM_A three times: once it stays, twice it is fused into CUTLASS
    found = match([GEMM_A, NORM_32, GEMM_A, GEMM_A, SILU], [GEMM_A, NORM_32, CUTLASS, SILU])
    shares = {found.rows[row].match: share for row, share in found.baseline["generation", OpKey(GEMM_A)]}
    assert shares == pytest.approx({"exact": 1 / 3, "fused": 2 / 3})


# Outside the modal sequence


def test_ops_that_the_modal_sequence_lacks_are_matched_by_key():
    found = match(
        [GEMM_A], [GEMM_A],
        baseline=["rare", f"{SOFTMAX}@1", NORM_32, "gone"],
        candidate=["rare", f"{SOFTMAX}@2", NORM_16, "new"],
    )  # fmt: skip
    assert rows(found) == {
        ("exact", (GEMM_A,), (GEMM_A,)), ("exact", ("rare",), ("rare",)),
        ("name", (f"{SOFTMAX}@1",), (f"{SOFTMAX}@2",)), ("template", (NORM_32,), (NORM_16,)),
        ("removed", ("gone",), ()), ("added", (), ("new",)),
    }  # fmt: skip


def test_an_op_rare_on_one_side_joins_the_row_that_the_other_side_has_for_it():
    found = match([GEMM_A, COPY], [GEMM_A], candidate=[COPY])
    assert rows(found) == {("exact", (GEMM_A,), (GEMM_A,)), ("exact", (COPY,), (COPY,))}


def test_phases_are_aligned_apart_and_share_their_rows():
    side = {"context": phase({(GEMM_A, NORM_32): 1}), "generation": phase({(GEMM_A,): 1})}
    found = match_kernels(side, side)
    assert len(found.rows) == 2
    assert found.baseline["context", OpKey(GEMM_A)] == found.baseline["generation", OpKey(GEMM_A)]


def test_a_phase_on_one_side_only():
    found = match_kernels({"context": phase({(GEMM_A,): 1})}, {})
    assert rows(found) == {("removed", (GEMM_A,), ())}
    assert match_kernels({}, {}).rows == []


# The books

NAMES = [GEMM_A, GEMM_B, CUTLASS, NORM_32, NORM_16, SILU, SILU_MUL, COPY, f"{GEMM_A}@8,1,1"]
sequences = st.lists(st.sampled_from(NAMES), max_size=25)
extras = st.lists(st.sampled_from([*NAMES, "rare_1", "rare_2", SOFTMAX]), max_size=4)


@settings(max_examples=150)
@given(sequences, sequences, extras, extras)
def test_every_op_is_shared_out_whole(one, other, more_one, more_other):
    found = match(one, other, baseline=more_one, candidate=more_other)
    for shares, names in ((found.baseline, one + more_one), (found.candidate, other + more_other)):
        assert {op for _, op in shares} == set(keys(*names))
        for entries in shares.values():
            assert sum(share for _, share in entries) == pytest.approx(1)
            assert all(share > 0 for _, share in entries)
    for number, row in enumerate(found.rows):
        assert row.baseline or row.candidate
        for shares, ops in ((found.baseline, row.baseline), (found.candidate, row.candidate)):
            holders = {op for (_, op), entries in shares.items() if number in [one for one, _ in entries]}
            assert holders <= set(ops), "an op lies in a row that does not name it"


def swapped_rows(found) -> Counter:
    other = {"fused": "split", "split": "fused", "added": "removed", "removed": "added"}
    return Counter((other.get(row.match, row.match), row.candidate, row.baseline) for row in found.rows)


@settings(max_examples=300)
@given(sequences, sequences, extras, extras)
def test_swapping_the_sides_swaps_the_rows(one, other, more_one, more_other):
    there = match(one, other, baseline=more_one, candidate=more_other)
    back = match(other, one, baseline=more_other, candidate=more_one)
    assert Counter((row.match, row.baseline, row.candidate) for row in there.rows) == swapped_rows(back)


@settings(max_examples=50)
@given(sequences, extras)
def test_a_side_against_itself_is_exact(one, more):
    found = match(one, one, baseline=more, candidate=more)
    assert {row.match for row in found.rows} <= {"exact"}
    assert all(row.baseline == row.candidate for row in found.rows)


# Long and hostile


def layers(count: int, changed: bool) -> list[str]:
    names = [f"kernel_{chr(97 + n % 12)}" for n in range(38)]
    if changed:
        names[7:9] = ["kernel_z"]
    return names * count


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([COPY] * 3000, [COPY, SILU] * 1500),
        ([COPY, GEMM_A] * 1500, [COPY, SILU] * 1500),
        ([str(n) for n in range(3000)], [str(n) for n in range(3000)][::-1]),
        ([f"a{n}" for n in range(3000)], [f"b{n}" for n in range(3000)]),
        (layers(100, False), layers(100, True)),
        ([COPY] * (MAX_SEQUENCE + 1), [SILU] * (MAX_SEQUENCE + 1)),
    ],
    ids=["one of two", "every second", "reversed", "all other", "layers", "too long"],
)
def test_long_sequences_end(one, other):
    begun = time.process_time()
    found = match(one, other)
    assert time.process_time() - begun < 10
    for shares, names in ((found.baseline, one), (found.candidate, other)):
        assert {op for _, op in shares} == set(keys(*names))
        assert all(sum(share for _, share in entries) == pytest.approx(1) for entries in shares.values())


def test_a_change_in_every_layer_of_a_long_sequence_is_found():
    found = rows(match(layers(100, False), layers(100, True)))
    assert {row for row in found if "kernel_z" in row[2]} == {
        ("fused", ("kernel_h", "kernel_i"), ("kernel_z",))
    }


def test_hostile_names_match_themselves():
    names = [
        "",
        " ",
        "<<<>>>",
        "((((",
        "a" * 100_000,
        "x<" * 500,
        ")))(((",
        "\x00",
        "void f<(lambda(int) (instance 1))>(T)",
    ]
    found = match(names, names)
    assert {row.match for row in found.rows} == {"exact"} and len(found.rows) == len(names)
