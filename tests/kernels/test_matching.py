"""Kernels of both sides matched: tiers, blocks of a sequence, and every op in rows that sum to it."""

from __future__ import annotations

import time
from collections import Counter
from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracediff.comparison.alignment import match_kernels
from tracediff.kernels.matching import MAX_SEQUENCE, OpKey, PhaseOps, Used

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


# Several workloads

# One layer with a workload's launch shapes: the grids of attention and norm grow with the tokens.
ATTENTION_, NORM_, UP = "attention_kernel", "norm_kernel", "nvjet_sm90_tst_{}_v_bz_TNT"


def layer(tokens: int, *gemms: str) -> tuple[str, ...]:
    """Six ops of which two have the grid of their workload, and its GEMMs."""
    return (
        "embedding",
        "rope",
        f"{ATTENTION_}@{tokens}",
        "reshape",
        f"{NORM_}@{tokens}",
        *gemms,
        "add",
        "sample",
    )


def traffic(baseline: dict, candidate: dict, more: tuple = ((), ())):
    """Match two sides, each {sequence: steps}; `more`: ops outside their sequences."""
    return match_kernels({"mixed": phase(baseline, *more[0])}, {"mixed": phase(candidate, *more[1])})


def test_equal_sequences_match_op_by_op_whichever_is_the_most_common():
    short, long = ("embedding", f"{NORM_32}@8"), ("embedding", f"{NORM_32}@64")
    found = traffic({short: 9, long: 1}, {short: 1, long: 9})
    assert rows(found) == {
        ("exact", (name,), (name,)) for name in ("embedding", f"{NORM_32}@8", f"{NORM_32}@64")
    }


def test_steps_weigh_the_uses_of_a_kernel_in_two_roles():
    # GEMM_A stays in 3 steps; in 1 step two of them become CUTLASS: of its 3 x 1 + 1 x 2 uses 2 are fused
    kept = ("a", "b", "c", "d", GEMM_A, "e", "f")
    fused = ("s", "t", "u", "v", "w", "x", GEMM_A, GEMM_A, "y", "z")
    found = traffic({kept: 3, fused: 1}, {kept: 3, (*fused[:6], CUTLASS, *fused[8:]): 1})
    shares = {found.rows[row].match: share for row, share in found.baseline["mixed", OpKey(GEMM_A)]}
    assert shares == pytest.approx({"exact": 3 / 5, "fused": 2 / 5})


def test_a_kernel_outside_does_what_its_namesake_does():
    # each step's cache is longer, so its grid is another: only one step's was aligned, where it replaces two pairs
    one = ["a", "copy_k", "index", "b", "add_v", "index", "c"]
    other = ["a", "cat@8", "b", "cat@8", "c"]
    found = match(one, other, candidate=["cat@9"])
    assert {
        row.baseline: {op.grid for op in row.candidate} for row in found.rows if len(row.baseline) > 1
    } == {(OpKey("copy_k"), OpKey("index")): {"8", "9"}, (OpKey("add_v"), OpKey("index")): {"8", "9"}}
    assert (
        found.candidate["generation", OpKey("cat", "9")] == found.candidate["generation", OpKey("cat", "8")]
    )
    assert [share for _, share in found.candidate["generation", OpKey("cat", "9")]] == [0.5, 0.5]


def test_a_sequence_is_paired_with_the_most_alike():
    # the norm of both workloads is rewritten: 7 of 8 ops stay, where the other workload shares 6
    found = traffic(
        {layer(8, GEMM_A): 2, layer(64, GEMM_A): 1},
        {
            tuple(name.replace(NORM_, "fast_norm") for name in layer(64, GEMM_A)): 2,
            tuple(name.replace(NORM_, "fast_norm") for name in layer(8, GEMM_A)): 1,
        },
    )
    changed = {row for row in rows(found) if row[0] != "exact"}
    assert changed == {("sequence", (f"{NORM_}@{tokens}",), (f"fast_norm@{tokens}",)) for tokens in (8, 64)}


def test_unlike_sequences_are_not_aligned():
    # two of five ops in common: SILU and SILU_MUL stand at the same place of steps that do something else
    one, other = ("a", "b", SILU, "c@1", "d@1"), ("a", "b", SILU_MUL, "c@2", "d@2")
    half = ("a", "b", "e", "f", "g")
    found = rows(traffic({half: 1, one: 1}, {half: 1, other: 1}))
    assert {row for row in found if row[0] != "exact"} == {
        ("removed", (SILU,), ()), ("added", (), (SILU_MUL,)),
        ("name", ("c@1",), ("c@2",)), ("name", ("d@1",), ("d@2",)),
    }  # fmt: skip


def test_what_nearly_all_steps_do_is_one_workload_however_it_was_rewritten():
    # the same two sequences, now 4 of 5 steps of their sides
    one, other = ("a", "b", SILU, "c@1", "d@1"), ("a", "b", SILU_MUL, "c@2", "d@2")
    half = ("a", "b", "e", "f", "g")
    assert ("sequence", (SILU,), (SILU_MUL,)) in rows(traffic({half: 1, one: 4}, {half: 1, other: 4}))


def test_a_kernel_at_a_grid_that_one_side_never_ran_is_neither_added_nor_removed():
    seen = layer(8, GEMM_A), layer(64, GEMM_A)
    found = rows(traffic({seen[0]: 2, seen[1]: 2}, {seen[0]: 2, seen[1]: 2, layer(96, GEMM_A): 1}))
    assert {tier for tier, *_ in found} == {"exact", "name"}


def test_copies_that_depend_on_the_traffic_are_not_fused_into_a_kernel():
    # one request more is one copy more; with one sequence a side, the copy would have been replaced by SILU
    two, three = ("a", "b", "c", "d", COPY, COPY, "e"), ("a", "b", "c", "d", COPY, COPY, COPY, "e")
    other = ("a", "b", "c", "d", COPY, COPY, SILU, "e")
    found = rows(traffic({two: 1, three: 1}, {two: 1, other: 1}))
    assert {row for row in found if row[0] != "exact"} == {("added", (), (SILU,))}


def test_an_op_that_only_moved_is_the_same():
    found = rows(match([COPY, "a", "b", "c"], ["a", "b", "c", COPY]))
    assert found == {("exact", (name,), (name,)) for name in (COPY, "a", "b", "c")}


# Roles


def test_gemm_variants_at_one_place_of_one_side_are_one_role():
    # the baseline ran 8 and 64 tokens, which take GEMM_A and GEMM_B; the candidate 8 and 96, which take GEMM_A and CUTLASS
    found = traffic({layer(8, GEMM_A): 2, layer(64, GEMM_B): 1}, {layer(8, GEMM_A): 1, layer(96, CUTLASS): 2})
    (role,) = [row for row in rows(found) if GEMM_A in row[1]]
    assert role == ("sequence", (GEMM_A, GEMM_B), (CUTLASS, GEMM_A))  # the most used first
    assert not {"added", "removed"} & {tier for tier, *_ in rows(found)}
    number = next(place for place, row in enumerate(found.rows) if OpKey(GEMM_A) in row.baseline)
    for shares, gemms in ((found.baseline, (GEMM_A, GEMM_B)), (found.candidate, (GEMM_A, CUTLASS))):
        assert all(shares["mixed", OpKey(gemm)] == [(number, 1.0)] for gemm in gemms)


def test_a_role_with_the_same_names_on_both_sides_is_name():
    # both sides know both GEMMs, one workload now takes the other one
    found = rows(traffic(
        {layer(8, GEMM_A): 1, layer(64, GEMM_B): 1}, {layer(8, GEMM_A): 1, layer(64, GEMM_A): 1, layer(96, GEMM_B): 1}
    ))  # fmt: skip
    assert [row[0] for row in found if GEMM_A in row[1]] == ["name"]


def test_two_roles_stay_apart():
    # up and down projection, each with its own variants
    down_8, down_64 = (f"{CUTLASS}@{tokens}" for tokens in (8, 64))
    side = {layer(8, GEMM_A, SILU, down_8): 1, layer(64, GEMM_B, SILU, down_64): 1}
    found = rows(traffic(side, side))
    assert ("exact", (GEMM_B, GEMM_A), (GEMM_B, GEMM_A)) in found  # equally used: by name
    assert ("exact", (down_64, down_8), (down_64, down_8)) in found


def test_a_gemm_that_only_stands_elsewhere_is_no_variant():
    # the second sequence begins in the middle of the first: both launch both GEMMs once
    first = ("a", GEMM_A, "b", "c", "d", "e", "f", CUTLASS, "g")
    second = (*first[6:], *first[:6])
    found = traffic({first: 1, second: 1}, {first: 1, second: 1})
    assert {row[1] for row in rows(found) if row[1][0] in (GEMM_A, CUTLASS)} == {(GEMM_A,), (CUTLASS,)}


def test_a_fusion_of_several_workloads_is_one_row_that_stays_fused():
    # two GEMMs become one in either workload; another role keeps its variants
    def side(*gemms: tuple[str, ...]) -> dict:
        return {
            layer(tokens, f"{GEMM_A}@{tokens}", SILU, *each): 1
            for tokens, each in zip((8, 64), gemms, strict=True)
        }

    found = rows(
        traffic(side((GEMM_B, GEMM_B), (CUTLASS, CUTLASS)), side(("gemm_wide@8",), ("gemm_wide@64",)))
    )
    (fused,) = [row for row in found if row[0] == "fused"]
    assert fused == (
        "fused", (CUTLASS, CUTLASS, GEMM_B, GEMM_B), ("gemm_wide@64", "gemm_wide@8")
    )  # fmt: skip
    assert ("exact", (f"{GEMM_A}@64", f"{GEMM_A}@8"), (f"{GEMM_A}@64", f"{GEMM_A}@8")) in found


def test_the_most_used_variant_stands_for_its_role():
    side = {layer(8, GEMM_A): 1, layer(64, GEMM_B): 5}
    (role,) = [row for row in traffic(side, side).rows if OpKey(GEMM_A) in row.baseline]
    assert role.baseline == (OpKey(GEMM_B), OpKey(GEMM_A))
    assert role.main == ((OpKey(GEMM_B),), (OpKey(GEMM_B),))
    (gone,) = match([GEMM_A], []).rows
    assert gone.main == ((OpKey(GEMM_A),), ())


# Changed blocks


def blocks(found) -> dict[str, int]:
    """First name of a row's baseline, else candidate -> its block."""
    return {(row.baseline or row.candidate)[0].name: row.block for row in found.rows}


def test_rows_between_two_anchors_are_one_block_in_whatever_layer():
    # GEMMs fused, SILU rewritten, nothing unchanged between them; the copy after the anchor changes by itself
    one = [NORM_32, GEMM_A, GEMM_A, SILU, CUTLASS, f"{COPY}@1", "add"] * 2
    other = [NORM_32, GEMM_B, SILU_MUL, CUTLASS, f"{COPY}@2", "add"] * 2
    assert blocks(match(one, other)) == {NORM_32: -1, GEMM_A: 0, SILU: 0, CUTLASS: -1, COPY: 1, "add": -1}


def test_blocks_that_share_a_row_are_one():
    # the GEMM is replaced in both places, once beside SILU and once beside the softmax
    one = ["a", GEMM_A, SILU, "b", GEMM_A, SOFTMAX, "c"]
    other = ["a", CUTLASS, SILU_MUL, "b", CUTLASS, "softmax_fast", "c"]
    assert blocks(match(one, other)) == {"a": -1, GEMM_A: 0, SILU: 0, "b": -1, SOFTMAX: 0, "c": -1}


def test_a_block_of_several_workloads_is_one_where_they_share_a_role():
    def side(variants: tuple[str, str], silu: str) -> dict:
        return {
            layer(tokens, gemm, f"{silu}@{tokens}"): 1 for tokens, gemm in zip((8, 64), variants, strict=True)
        }

    found = traffic(side((GEMM_A, GEMM_B), "silu_kernel"), side(("gemm_x", "gemm_y"), "gelu_kernel"))
    assert {row.block for row in found.rows if "silu_kernel" in row.baseline[0].name} == {0}
    assert {row.block for row in found.rows if row.match == "exact"} == {-1}


def test_what_is_outside_the_sequences_is_in_no_block():
    found = match([GEMM_A], [GEMM_A], baseline=["gone"], candidate=["new"])
    assert {row.block for row in found.rows} == {-1}


# The books

NAMES = [GEMM_A, GEMM_B, CUTLASS, NORM_32, NORM_16, SILU, SILU_MUL, COPY, f"{GEMM_A}@8,1,1"]
sequences = st.lists(st.sampled_from(NAMES), max_size=25)
extras = st.lists(st.sampled_from([*NAMES, "rare_1", "rare_2", SOFTMAX]), max_size=4)


@settings(max_examples=100)
@given(sequences, sequences, extras, extras)
def test_every_op_is_shared_out_whole_and_swapping_the_sides_swaps_the_rows(one, other, more_one, more_other):
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
    back = match(other, one, baseline=more_other, candidate=more_one)
    assert Counter((row.match, row.baseline, row.candidate) for row in found.rows) == swapped_rows(back)


def swapped_rows(found) -> Counter:
    other = {"fused": "split", "split": "fused", "added": "removed", "removed": "added"}
    return Counter((other.get(row.match, row.match), row.candidate, row.baseline) for row in found.rows)


@settings(max_examples=50)
@given(sequences, extras)
def test_a_side_against_itself_is_exact(one, more):
    found = match(one, one, baseline=more, candidate=more)
    assert {row.match for row in found.rows} <= {"exact"}
    assert all(row.baseline == row.candidate for row in found.rows)


# The same of several workloads: sequences with their steps, and ops outside them

workloads = st.tuples(
    st.dictionaries(st.lists(st.sampled_from(NAMES), max_size=8).map(tuple), st.integers(1, 3), max_size=4),
    st.lists(st.sampled_from([*NAMES, "rare_1", f"{SILU}@2", SOFTMAX]), max_size=3).map(tuple),
)


@pytest.mark.slow
@settings(max_examples=100)
@given(workloads, workloads)
def test_several_workloads_share_out_every_op_and_swap_in_any_order_of_runs(one, other):
    def backwards(side):
        return {"mixed": phase(dict(reversed(side[0].items())), *reversed(side[1]))}

    sides = {"mixed": phase(one[0], *one[1])}, {"mixed": phase(other[0], *other[1])}
    there, back = match_kernels(*sides), match_kernels(*sides[::-1])
    assert there == match_kernels(backwards(one), backwards(other))
    for shares, side in zip((there.baseline, there.candidate), sides, strict=True):
        assert {op for _, op in shares} == set(side["mixed"].ops)
        for (_, op), entries in shares.items():
            assert sum(share for _, share in entries) == pytest.approx(1)
            for number, _ in entries:
                row = there.rows[number]
                assert op in (row.baseline if shares is there.baseline else row.candidate)
    assert Counter((row.match, row.baseline, row.candidate) for row in there.rows) == swapped_rows(back)
    grouped = [Counter(row.block >= 0 for row in found.rows) for found in (there, back)]
    assert grouped[0] == grouped[1]


@settings(max_examples=100)
@given(workloads)
def test_several_workloads_against_themselves_are_exact(one):
    side = {"mixed": phase(one[0], *one[1])}
    found = match_kernels(side, side)
    assert {(row.match, row.block) for row in found.rows} <= {("exact", -1)}


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


def test_a_library_update_of_all_kernels_matches_them_by_template_in_a_run_of_any_length():
    """150 launches a side, all under other names: 22,500 cells. One kernel in three is of no template of the other side, and stands between two that are."""
    one, other = [*[NORM_32, GEMM_A, SILU] * 50], [*[NORM_16, GEMM_B, SILU_MUL] * 50]
    assert rows(match(one, other)) == {
        ("template", (NORM_32,), (NORM_16,)),
        ("template", (GEMM_A,), (GEMM_B,)),
        ("sequence", (SILU,), (SILU_MUL,)),
    }
    # without a template in common position says nothing
    assert {row[0] for row in rows(match([GEMM_A] * 150, [SOFTMAX] * 150))} == {"removed", "added"}


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


@pytest.mark.slow
def test_many_long_sequences_end():
    # more than are aligned (the rest joins the most used, the first); a quarter of the ops has a grid of its workload
    def side(norm: str) -> dict:
        ops = [(f"k{n % 12}", f"k{n % 7}", f"k{n % 5}") for n in range(350)]
        return {
            tuple(chain.from_iterable((*three, f"{norm}@{place}") for three in ops)): 40 - place
            for place in range(40)
        }

    begun = time.process_time()
    found = rows(traffic(side("norm_kernel"), side("norm_fast")))
    assert time.process_time() - begun < 10
    assert {("sequence", (f"norm_kernel@{n}",), (f"norm_fast@{n}",)) for n in range(1, 32)} <= found


# Copies, renames, ops at another place


def test_copies_replace_nothing_and_are_fused_with_nothing():
    # two DtoH copies are not one HtoD copy, and no fill kernel is a memset
    one = [GEMM_A, COPY, COPY, SILU, "vectorized_fill_kernel@1,1,1", NORM_32]
    other = [GEMM_A, "[memcpy HtoD]", SILU, "[memset]", NORM_32]
    assert {row for row in rows(match(one, other)) if row[0] != "exact"} == {
        ("removed", (COPY,), ()), ("added", (), ("[memcpy HtoD]",)),
        ("removed", ("vectorized_fill_kernel@1,1,1",), ()), ("added", (), ("[memset]",)),
    }  # fmt: skip


def test_a_copy_kernel_is_not_fused_with_a_copy():
    one, other = [GEMM_A, COPY, "copy_kernel", SILU], [GEMM_A, "[memcpy DtoD]", SILU]
    assert {tier for tier, *_ in rows(match(one, other))} == {"exact", "removed", "added"}


def test_the_same_name_and_grid_elsewhere_is_one_row():
    # the fill moves from behind the GEMM to the end, with another block; no run holds both
    fill = "fill_kernel@8,1,1"
    one = [GEMM_A, f"{fill}@128,1,1", SILU, SOFTMAX, ATTENTION, NORM_32]
    other = [GEMM_A, SILU, SOFTMAX, ATTENTION, NORM_32, f"{fill}@256,1,1"]
    found = match(one, other)
    assert {row for row in rows(found) if row[0] != "exact"} == {
        ("name", (f"{fill}@128,1,1",), (f"{fill}@256,1,1",))
    }
    assert blocks(found)["fill_kernel"] == -1  # nothing beside it changed


def test_as_many_launches_of_a_name_are_one_row_whatever_their_grids():
    """An all-reduce ends in either of two places of steps, with one channel for 24."""
    same = [f"kernel_{number}" for number in range(16)]

    def side(name: str) -> dict[str, PhaseOps]:
        sequences = {tuple(keys(*same[:at], name, *same[at:])): 1 for at in (3, 12)}
        used = {op: Used(1.0, 5_000.0) for op in keys(*same, name)}
        return {"step": PhaseOps(sequences, {*used}, used)}

    found = match_kernels(side("all_reduce@24,1,1"), side("all_reduce@1,1,1"))
    changed = [
        (row.match, len(row.baseline), len(row.candidate)) for row in found.rows if row.match != "exact"
    ]
    assert changed == [("name", 1, 1)]


def used(one: dict[str, tuple[float, float]], other: dict[str, tuple[float, float]]):
    """Match ops outside of sequences, each side op -> (count per step, mean ns)."""
    sides = []
    for side in (one, other):
        of_ops = {key: Used(*side[name]) for name in side for key in keys(name)}
        sides.append({"step": PhaseOps({}, of_ops, of_ops)})
    return match_kernels(*sides)


def test_a_row_is_called_by_its_most_used_kernels():
    # by name the rarest would come first: 1 of 49 launches, and 1 of 40
    found = used(
        {"nvjet_tst_256x16_TNT": (1, 12_000), "nvjet_tst_64x8_TNT": (48, 3_000)},
        {"nvjet_tst_128x224_TNT": (1, 36_000), "nvjet_tst_64x64_TNT": (39, 4_000)},
    )
    (row,) = found.rows
    assert [ops[0].name for ops in (row.baseline, row.candidate)] == [
        "nvjet_tst_64x8_TNT",
        "nvjet_tst_64x64_TNT",
    ]
    assert [ops[0].name for ops in row.main] == ["nvjet_tst_64x8_TNT", "nvjet_tst_64x64_TNT"]


LINE = "nvkernel_relax_F1L{}_2@512,1,1@128,1,1"
POINT = "triton_poi_fused_{}@512,1,1@128,1,1"


@pytest.mark.parametrize("name", [LINE, "F1L{}_2@512,1,1@128,1,1", POINT])
def test_numbers_of_a_compiler_are_told_by_count_and_time(name):
    # 204 takes 10 us, 207 takes 50 us; two lines were added above both: 210 and 213
    found = used(
        {name.format(204): (3, 10_000), name.format(207): (3, 50_000)},
        {name.format(210): (3, 10_300), name.format(213): (3, 49_000)},
    )
    assert rows(found) == {
        ("template", (name.format(204),), (name.format(210),)),
        ("template", (name.format(207),), (name.format(213),)),
    }


@pytest.mark.parametrize(
    ("mine", "theirs", "same"),
    [
        ((2, 30_000), (2, 31_000), True),
        ((2, 30_000), (2, 36_000), False),  # 17 % longer
        ((2, 30_000), (3, 30_000), False),
        ((2, 1_000), (2, 1_000), False),  # tiny kernels of one launch shape all take a microsecond
    ],
)
def test_a_kernel_under_a_name_of_its_own_is_renamed_only_with_equal_numbers(mine, theirs, same):
    found = used({"old_solver@64,1,1@256,1,1": mine}, {"new_relaxation@64,1,1@256,1,1": theirs})
    tiers = {tier for tier, *_ in rows(found)}
    assert tiers == ({"sequence"} if same else {"added", "removed"})


def test_of_two_candidates_of_unlike_names_neither_is_a_rename():
    shape = "@64,1,1@256,1,1"
    found = used(
        {f"old_solver{shape}": (2, 30_000)},
        {f"new_one{shape}": (2, 30_000), f"new_other{shape}": (2, 30_000)},
    )
    assert {tier for tier, *_ in rows(found)} == {"removed", "added"}


def test_renumbered_kernels_are_aligned_in_their_order():
    # a new first kernel renumbers the others: what was 0 is 1, what was 1 is 2
    grids = {0: 8, 1: 16}
    one = [GEMM_A, f"triton_poi_fused_0@{grids[0]}", SOFTMAX, f"triton_poi_fused_1@{grids[1]}", NORM_32]
    other = [
        "triton_poi_fused_0@4", GEMM_A, f"triton_poi_fused_1@{grids[0]}", SOFTMAX, f"triton_poi_fused_2@{grids[1]}", NORM_32,
    ]  # fmt: skip
    found = match(one, other)
    assert {row for row in rows(found) if row[0] != "exact"} == {
        ("added", (), ("triton_poi_fused_0@4",)),
        ("template", ("triton_poi_fused_0@8",), ("triton_poi_fused_1@8",)),
        ("template", ("triton_poi_fused_1@16",), ("triton_poi_fused_2@16",)),
    }
    # what only has another number is no change between its neighbours
    assert [row.block for row in found.rows if row.match == "template"] == [-1, -1]


def test_of_kernels_with_equal_launches_the_equal_number_is_preferred():
    one = [GEMM_A, "triton_poi_fused_3@8", SOFTMAX, "triton_poi_fused_4@8"]
    other = [GEMM_A, "triton_poi_fused_2@8", "triton_poi_fused_3@8", SOFTMAX, "triton_poi_fused_4@8"]
    assert {row for row in rows(match(one, other)) if row[0] != "exact"} == {
        ("added", (), ("triton_poi_fused_2@8",))
    }


def test_a_kernel_whose_grid_grows_from_step_to_step_is_not_split_into_others():
    """Each step has one `cat`, in a grid of its own. Steps 1 and 2 were captured of one side, 2 and 3 of the other, which copies twice more."""
    same = [f"kernel_{number}" for number in range(16)]

    def side(grids: tuple[int, ...], *more: str) -> dict[str, PhaseOps]:
        sequences = {tuple(keys(*same, f"cat@{grid}", *more, "head")): 1 for grid in grids}
        used = {op: Used(1.0, 5_000.0) for op in keys(*same, "head")}
        used |= {op: Used(1 / len(grids), 5_000.0) for op in keys(*(f"cat@{grid}" for grid in grids))}
        used |= {op: Used(2.0, 5_000.0) for op in keys(*more)}
        return {"step": PhaseOps(sequences, {*used}, used)}

    one, other = side((1, 2)), side((2, 3), "copy", "copy")
    for found in (match_kernels(one, other), match_kernels(other, one)):
        changed = {
            (row.match, *sorted({op.name for op in (*row.baseline, *row.candidate)}))
            for row in found.rows
            if row.match != "exact"
        }
        assert changed - {("name", "cat")} in ({("added", "copy")}, {("removed", "copy")})
