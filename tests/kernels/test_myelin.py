"""Myelin kernel names spelled out, TensorRT layer names taken apart."""

from __future__ import annotations

import pytest
from hypothesis import given

from tests.kernels import samples as k
from tracediff.kernels.myelin import decode, describe, layer_set, patterns

DESCRIBED = [
    (
        "__myl_bb0_8_ResTraCasAddMeaSubMulMeaAddSqrDivMulMulAddRes_com_vec",
        "LayerNorm: reshape, transpose, cast, add, mean, subtract, multiply, mean, add, sqrt, divide,"
        " multiply,"
        " multiply, add, reshape",
    ),
    (
        "__myl_AddCastMulMeanAddSqrtDivMulCastMul_0x88399a9d0107bda74f0c8807f8283b69",
        "RMSNorm: add, cast, multiply, mean, add, sqrt, divide, multiply, cast, multiply",
    ),
    (
        "__myl_FcAddCastMeanSubMulMeanAddSqrtDivMulCastMulAdd_myl5_249",
        "GEMM + LayerNorm: fully connected, add, cast, mean, subtract, multiply, mean, add, sqrt, divide,"
        " multiply,"
        " cast, multiply, add",
    ),
    (
        "__myl_bb2_1_ResNegExpResAddDivMul",
        "softmax: reshape, negate, exponential, reshape, add, divide, multiply",
    ),
    ("__myl_bb1_3_MaxSubExpSumDivMul", "softmax: maximum, subtract, exponential, sum, divide, multiply"),
    (
        "__myl_MaxrSubExpSumDivMul_myl36_5",
        "softmax: reduce max, subtract, exponential, sum, divide, multiply",
    ),
    # without the reshape it is the gate projection with its SiLU, the GEMM in front
    (
        "__myl_FcNegExpAddDivMulMul_0x35d2df1735d2df1735d2df1735d2df17",
        "GEMM + SiLU: fully connected, negate, exponential, add, divide, multiply, multiply",
    ),
    ("__myl_SlicSiluSlicMul_myl0_4", "SiLU: slice, silu, slice, multiply"),
    (
        "__myl_DivCastErfCastAddMulMulResh_myl0_3",
        "GELU: divide, cast, erf, cast, add, multiply, multiply, reshape",
    ),
    ("__myl_TraConSinCos_myl0_1", "RoPE: transpose, concat, sine, cosine"),
    ("__myl_CorrMulAddRelu_myl0_1", "convolution + ReLU: convolution, multiply, add, relu"),
    ("__myl_ReshTran_myl36_0", "data movement: reshape, transpose"),
    ("__myl_bb0_1_Mov", "data movement: move"),
    ("__myl_Fc_myl2_7", "GEMM: fully connected"),
    ("__myl_AddMul_myl0_1", "add, multiply"),
    ("__myl_AddQzzMulR", "add, qzz?, multiply, r?"),
    ("_gemm_mha_v2_myl3_6", "fused attention"),
    ("__mye8037_gemm_mha_v2", "fused attention"),
    ("_gemv_mha_v1_0xbcebb264", "fused attention"),
    ("__mye4691_myl0_3", None),
    ("/mlp/linear_fc1_14/Gemm_myl5_155", None),
    ("nvjet_sm90_tst_64x16_64x16_4x1_v_bz_TNT", None),
    ("", None),
]


@pytest.mark.parametrize(("name", "expected"), DESCRIBED)
def test_describe(name: str, expected: str | None) -> None:
    assert describe(name) == expected


def test_decode() -> None:
    assert decode("__myl_bb0_8_ResTraCas") == ["reshape", "transpose", "cast"]
    assert decode("_gemm_mha_v2_myl3_6") is None
    assert decode("myl_kernel") is None


def test_a_sigmoid_is_not_a_silu() -> None:
    assert patterns(["negate", "exponential", "add", "divide"]) == ["sigmoid"]
    assert patterns(["sigmoid", "multiply"]) == ["sigmoid"]


LAYERS = [
    ("Conv_63 + Add_64 + Relu_65", {"Conv_63", "Add_64", "Relu_65"}),
    ("node_MatMul_301+node_MatMul_299_myl36_3", {"node_MatMul_301", "node_MatMul_299"}),
    ("PWN(PWN(/act/HardSwish), /act/HardSwish_2)", {"/act/HardSwish", "/act/HardSwish_2"}),
    (
        "PWN(/main/Constant_30_output_0 + (Unnamed Layer* 80) [Shuffle] + /main/Add, /main/Div)",
        {"/main/Constant_30_output_0", "unnamed Shuffle", "/main/Add", "/main/Div"},
    ),
    ("/Reshape + (Unnamed Layer* 48) [Shuffle]", {"/Reshape", "unnamed Shuffle"}),
    ("(Unnamed Layer* 3) [Matrix Multiply]_output", {"unnamed Matrix Multiply"}),
    ("UnnamedLayer12", {"unnamed layer"}),
    ("{ForeignNode[conv1/7x7_s2...loss3/classifier]}", {"ForeignNode[conv1/7x7_s2...loss3/classifier]"}),
    (
        "{ForeignNode[(Unnamed Layer* 132) [Shuffle].../down/Reshape_1 + /down/Transpose_1]}",
        {"ForeignNode[(Unnamed Layer* 132) [Shuffle].../down/Reshape_1 + /down/Transpose_1]"},
    ),
    ("Reformatting CopyNode for Input Tensor 0 to Conv_1 + Relu_2", {"reformat Conv_1", "reformat Relu_2"}),
    ("Reformatting CopyNode for Network Input input_0", {"reformat input_0"}),
    ("Conv_0 input reformatter 0", {"reformat Conv_0"}),
    ("__myl_ReshTran_myl36_0", {"__myl_ReshTran"}),
    ("$$myelin$$/time_embedding/act/sigmoid", {"/time_embedding/act/sigmoid"}),
    ("", set()),
]


@pytest.mark.parametrize(("name", "expected"), LAYERS)
def test_layer_set(name: str, expected: set[str]) -> None:
    assert layer_set(name) == expected


def test_what_a_reformat_moves_is_not_what_the_layer_computes() -> None:
    copied = layer_set("Reformatting CopyNode for Output Tensor 0 to Conv_1")
    assert not copied & layer_set("Conv_1 + Relu_2")


@given(k.HOSTILE)
def test_any_string_has_an_answer(name: str) -> None:
    operations = decode(name)
    assert operations is None or (operations and all(operations))
    assert operations is None or describe(name) is not None
    assert all(layer_set(name))
