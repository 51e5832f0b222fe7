"""Steps without labels, aligned with a labelled one."""

from __future__ import annotations

import pytest

from tracediff.trace.layers import LayerSequence, align

NAMES = ("embed", "norm", "attend", "norm", "act")


def sequence(layers: int = 2, ns: int = 100) -> LayerSequence:
    """An embedding, then in each layer norm and attend of its attention, norm and act of its MLP."""
    names, of = ["embed"], [""]
    for layer in range(layers):
        names += NAMES[1:]
        of += [f"layers.{layer}.attn"] * 2 + [f"layers.{layer}.mlp"] * 2
    return LayerSequence(3, tuple(names), tuple(of), (ns,) * len(names))


def found(names, references, ns=100):
    return align(names, [ns] * len(names), references)


def test_repeated_layers_are_told_apart_by_their_order():
    one = sequence()
    aligned = found(one.names, [one])
    assert aligned.layers == list(one.layers)
    assert aligned.confidence == 1.0


def test_a_kernel_that_replaces_another_belongs_to_the_layer_around_it():
    one = sequence()
    names = list(one.names)
    names[2] = "flash"  # attend of the first layer: a norm before it, the MLP's norm after
    aligned = found(names, [one])
    assert aligned.layers == [*one.layers[:2], "layers.0", *one.layers[3:]]
    assert aligned.matched == [at != 2 for at in range(9)]
    # 8 of 9 kernels have a counterpart on either side; of attend, which both have, the labelled step has one more: 8 of 9 again, squared
    assert aligned.confidence == pytest.approx(8 / 9 * 8 / 9 * (8 / 9) ** 2)


def test_a_module_of_every_layer_may_be_fused_away():
    """Neither layer lacks more than its keys: of the labelled step's time 6 of 8 have a counterpart, of the other's all."""
    parts = [("norm", "norm"), ("scan", "attn.q"), ("pack", "attn.k"), ("attend", "attn")]
    ops = [(name, f"layers.{layer}.{part}") for layer in range(2) for name, part in parts]
    one = LayerSequence(3, *zip(*ops, strict=True), (100,) * 8)
    aligned = found([name for name in one.names if name != "pack"], [one])
    assert aligned.layers == [layer for _, layer in ops if not layer.endswith("k")]
    assert aligned.confidence == pytest.approx(6 / 8)


def test_another_program_is_not_believed():
    assert found(["gemm_a", "copy", "gemm_b"], [sequence()]).confidence == 0.0


@pytest.mark.parametrize("own", [2, 4])
def test_a_model_of_another_depth_is_not_believed(own):
    """Two layers against four, and four against two: half of the layers have no counterpart."""
    assert found(sequence(own).names, [sequence(6 - own)]).confidence < 0.25


def test_of_several_labelled_steps_the_most_alike_lends_its_layers():
    other = LayerSequence(9, ("copy",) * 9, ("layers.7.mlp",) * 9, (100,) * 9)
    assert found(sequence().names, [other, sequence()]).layers == list(sequence().layers)


def test_there_may_be_nothing_to_align():
    assert found((), [sequence()]) is None
    assert found(sequence().names, []) is None
