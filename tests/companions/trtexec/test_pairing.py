"""Layers of two TensorRT engines: which of them do the same work."""

from __future__ import annotations

import random

import pytest

from tracediff.companions.trtexec.layers import pair
from tracediff.companions.trtexec.read import LayerInfo


def named(*names: str) -> list[LayerInfo]:
    return [LayerInfo(name) for name in names]


def said(
    baseline: list[LayerInfo], candidate: list[LayerInfo]
) -> set[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    return {
        (
            one.match,
            tuple(sorted(baseline[number].name for number in one.baseline)),
            tuple(sorted(candidate[number].name for number in one.candidate)),
        )
        for one in pair(baseline, candidate)
    }


@pytest.mark.parametrize(
    ("before", "after", "rows"),
    [
        (["a"], ["a"], {("exact", ("a",), ("a",))}),
        (["a"], ["b"], {("removed", ("a",), ()), ("added", (), ("b",))}),
        (["a", "b"], ["a + b"], {("fused", ("a", "b"), ("a + b",))}),
        (["a + b"], ["a", "b"], {("split", ("a + b",), ("a", "b"))}),
        (["a", "PWN(b, c)"], ["a + b + c"], {("fused", ("PWN(b, c)", "a"), ("a + b + c",))}),
        (["a + b"], ["b + a"], {("normalised", ("a + b",), ("b + a",))}),
        (["a", "b + c"], ["a + b", "c"], {("regrouped", ("a", "b + c"), ("a + b", "c"))}),
        (["a"], ["a + weights"], {("similar", ("a",), ("a + weights",))}),
        (["__myl_Add_myl5_249"], ["__myl_Add_myl5_201"], {("normalised", ("__myl_Add_myl5_249",), ("__myl_Add_myl5_201",))}),
        (["__myl_Add_myl1_1"], ["__myl_Mul_myl1_1"], {("removed", ("__myl_Add_myl1_1",), ()), ("added", (), ("__myl_Mul_myl1_1",))}),
        (["(Unnamed Layer* 48) [Shuffle]"], ["(Unnamed Layer* 51) [Shuffle]"],
         {("normalised", ("(Unnamed Layer* 48) [Shuffle]",), ("(Unnamed Layer* 51) [Shuffle]",))}),
        (["a", "x"], ["a", "(Unnamed Layer* 1) [Shuffle]"], {("exact", ("a",), ("a",)), ("removed", ("x",), ()),
         ("added", (), ("(Unnamed Layer* 1) [Shuffle]",))}),
        ([], ["a"], {("added", (), ("a",))}),
    ],
)  # fmt: skip
def test_what_becomes_of_layers(before, after, rows):
    assert said(named(*before), named(*after)) == rows


def test_a_reformat_is_no_part_of_the_layer_that_it_feeds():
    reformat = "Reformatting CopyNode for Input Tensor 0 to a + b"
    assert said(named("a", "b"), named(reformat, "a + b")) == {
        ("fused", ("a", "b"), ("a + b",)),
        ("added", (), (reformat,)),
    }
    assert (
        LayerInfo(reformat).reformat and LayerInfo("x", "Reformat").reformat and not LayerInfo("a").reformat
    )


def test_a_region_of_myelin_takes_the_layers_between_its_ends():
    before, after = named("in", "a", "b", "c", "out"), named("in", "{ForeignNode[a...c]}", "out")
    assert ("fused", ("a", "b", "c"), ("{ForeignNode[a...c]}",)) in said(before, after)
    assert [one.confidence for one in pair(before, after) if one.match == "fused"] == [0.6]
    # with one end only it is not known what lies between
    assert ("similar", ("a",), ("{ForeignNode[a...z]}",)) in said(
        named("a", "b"), named("{ForeignNode[a...z]}")
    )


def test_metadata_links_what_names_do_not_say():
    before = [LayerInfo("/q/MatMul", onnx=("/q/MatMul",)), LayerInfo("/s/Softmax", onnx=("/s/Softmax",))]
    after = [LayerInfo("_gemm_mha_v2_myl0_4", "kgen", onnx=("/q/MatMul", "/s/Softmax"))]
    assert said(before, after) == {("fused", ("/q/MatMul", "/s/Softmax"), ("_gemm_mha_v2_myl0_4",))}
    # of two kernels with one name, each meets the one of its own layers
    kernels = [
        [LayerInfo(f"__myl_Add_myl1_{number}", "kgen", onnx=(onnx,)) for number, onnx in enumerate(order)]
        for order in (("/x", "/y"), ("/y", "/x"))
    ]
    found = {
        (kernels[0][one.baseline[0]].onnx, kernels[1][one.candidate[0]].onnx)
        for one in pair(
            kernels[0], [LayerInfo(f"{one.name}9", one.type, onnx=one.onnx) for one in kernels[1]]
        )
    }
    assert found == {(("/x",), ("/x",)), (("/y",), ("/y",))}


def test_layers_of_one_name_are_paired_in_order_and_the_rest_left():
    found = pair(named("a", "a", "a"), named("a", "a"))
    assert [(one.match, one.baseline, one.candidate) for one in found] == [
        ("exact", (0,), (0,)),
        ("exact", (1,), (1,)),
        ("removed", (2,), ()),
    ]
    assert [one.confidence for one in found] == [0.6, 0.6, 0.8]


def test_more_of_a_fused_layer_is_surer():
    whole = next(one for one in pair(named("a", "b"), named("a + b")))
    part = next(one for one in pair(named("a", "b"), named("a + b + c + d")))
    assert whole.confidence == 0.95 and part.confidence == pytest.approx(0.5 + 0.45 / 2, abs=0.006)


PARTS = ("a", "b", "c", "d", "e", "f", "(Unnamed Layer* 3) [Shuffle]", "__myl_AddMul_myl1_2")


@pytest.mark.parametrize("seed", range(30))
def test_every_layer_is_in_one_pairing_and_order_does_not_matter(seed):
    rng = random.Random(seed)

    def engine() -> list[LayerInfo]:
        parts = rng.sample(PARTS, rng.randint(1, len(PARTS)))
        names = []
        while parts:
            size = rng.randint(1, 3)
            names.append(" + ".join(parts[:size]))
            parts = parts[size:]
        return named(*names)

    before, after = engine(), engine()
    found = pair(before, after)
    for side, layers in (("baseline", before), ("candidate", after)):
        numbers = [number for one in found for number in getattr(one, side)]
        assert sorted(numbers) == list(range(len(layers)))
    shuffled = rng.sample(before, len(before)), rng.sample(after, len(after))
    assert said(*shuffled) == said(before, after)
    mirrored = {"fused": "split", "split": "fused", "added": "removed", "removed": "added"}
    assert said(after, before) == {
        (mirrored.get(match, match), two, one) for match, one, two in said(before, after)
    }


def test_ten_thousand_layers_take_no_time():
    before = [LayerInfo(f"/block{number}/Conv") for number in range(10_000)]
    after = [LayerInfo(f"/block{number}/Conv + /block{number + 1}/Conv") for number in range(0, 10_000, 2)]
    assert len(pair(before, after)) == 5_000
