"""Which ranges are layers, and what layers are called."""

from __future__ import annotations

import pytest

from tracediff.trace.layers import kind_of, layer_of


@pytest.mark.parametrize(
    ("text", "layer", "kind"),
    [
        ("model.layers.3.mlp", "model.layers.3.mlp", "model.layers.*.mlp"),
        ("{'Module': 'model.layers.3.mlp', 'TrainableParams': 12}", "model.layers.3.mlp", "model.layers.*.mlp"),
        ("transformer.h.11.attn.c_proj", "transformer.h.11.attn.c_proj", "transformer.h.*.attn.c_proj"),
        ("layer 12", "layer 12", "layer *"),
        ("layer 3: qkv", "layer 3: qkv", "layer *: qkv"),
        ("layer12", "layer12", "layer*"),
        ("layer_wise_benchmarks layer_idx 3", "layer_wise_benchmarks layer_idx 3", "layer_wise_benchmarks layer_idx *"),
        ("LlamaDecoderLayer_3", "LlamaDecoderLayer_3", "LlamaDecoderLayer_*"),
        ("model.norm", "model.norm", "model.norm"),
        ("lm_head", "lm_head", "lm_head"),
        ("embed", "embed", "embed"),
        ("transformer.wte", "transformer.wte", "transformer.wte"),
        ("layer 4, seq = 17", "layer 4", "layer *"),
    ],
)  # fmt: skip
def test_ranges_that_are_layers(text, layer, kind):
    assert (layer_of(text), kind_of(layer)) == (layer, kind)


@pytest.mark.parametrize(
    "text",
    [
        "[Executor] _forward_step 31: 0 ctx reqs, 0 ctx tokens, 4 gen reqs", "_prepare_inputs", "_sample_async", "await_response-3",
        "decode_token 7", "ProfilerStep#3", "aten::layer_norm, op_id = 12", "nccl:all_reduce", "prepare_blocks", "attn_metadata.prepare",
    ],
)  # fmt: skip
def test_ranges_that_are_none(text):
    assert layer_of(text) == ""


def test_all_ranges_of_tensorrt_but_the_whole_inference_are_layers():
    assert layer_of("/h.3/MatMul + /h.3/Add", tensorrt=True) == "/h.3/MatMul + /h.3/Add"
    assert layer_of("/h.3/MatMul + /h.3/Add") == ""
    assert layer_of("$$myelin$$/time_embedding/act/sigmoid", tensorrt=True) == "/time_embedding/act/sigmoid"
    assert layer_of("ExecutionContext::enqueue", tensorrt=True) == ""
