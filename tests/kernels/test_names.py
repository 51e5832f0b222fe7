"""Templates, families and display forms of real kernel names; the laws that hold for any string."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels import samples as k
from tracediff.kernels.names import category, family, is_kernel, normalise, short

# name, template, family
NAMES = [
    # PyTorch: the loop and the operation it was given
    (k.PAIRS[0][0], "at::native::vectorized_elementwise_kernel<CUDAFunctor_add>", "pytorch"),
    (k.PAIRS[1][0], "at::native::vectorized_elementwise_kernel<BinaryFunctor, MulFunctor>", "pytorch"),
    (k.PAIRS[2][0], "at::native::elementwise_kernel<direct_copy_kernel_cuda>", "pytorch"),
    (k.PAIRS[3][0], "at::native::reduce_kernel<ArgMaxOps>", "pytorch"),
    (k.PAIRS[4][0], "at::native::vectorized_layer_norm_kernel", "pytorch"),
    (k.SILU_VECTORIZED, "at::native::vectorized_elementwise_kernel<silu_kernel>", "pytorch"),
    (k.SILU_VECTORIZED_KINETO, "at::native::vectorized_elementwise_kernel<silu_kernel>", "pytorch"),
    (k.SILU_STRIDED, "at::native::elementwise_kernel<silu_kernel>", "pytorch"),
    (k.INDEX_PUT, "at::native::index_elementwise_kernel<index_put_kernel_impl>", "pytorch"),
    (
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::func_wrapper_t<float,"
        " at::native::sum_functor<float, float, float>::operator()(at::TensorIterator&)::{lambda(float,"
        " float)#1}>,"
        " unsigned int, float, 4> >(at::native::ReduceOp<float>)",
        "at::native::reduce_kernel<sum_functor>",
        "pytorch",
    ),
    # cuBLAS and cuBLASLt
    ("nvjet_sm90_tst_64x16_64x16_4x1_v_bz_TNT", "nvjet_tst_TN", "nvjet"),
    ("nvjet_sm90_tst_144x64_64x8_2x1_v_bz_TNN", "nvjet_tst_TN", "nvjet"),
    ("nvjet_tst_192x192_64x4_2x1_v_bz_coopB_TNN", "nvjet_tst_TN", "nvjet"),
    ("nvjet_sm90_tst_64x16_64x16_4x1_v_bz_splitK_TNT", "nvjet_tst_splitK_TN", "nvjet"),
    ("nvjet_sm100_tst_32x64_64x16_4x1_v_bz_splitK_bias_TNN", "nvjet_tst_splitK_bias_TN", "nvjet"),
    ("nvjet_hsh_256x128_64x4_1x2_h_bz_coopA_NNT", "nvjet_hsh_NN", "nvjet"),
    ("nvjet_qqtst_112x128_128x7_2x1_v_bz_coopA_algo2_TNN", "nvjet_qqtst_TN", "nvjet"),
    (
        "nvjet_qqtst_128x256_128x6_2x2_2cta_h_bz_Avec32UE8M0_Bvec32UE8M0_TNT",
        "nvjet_qqtst_Avec32UE8M0_Bvec32UE8M0_TN",
        "nvjet",
    ),
    ("nvjet_sm120_tst_mma_64x64x128_3_32x32x128_tmaAB_alignCD4_bz_TNNN", "nvjet_tst_TN", "nvjet"),
    (k.SPLIT_K_REDUCE, "cublasLt::splitKreduce_kernel", "cublaslt"),
    (
        k.XMMA.format(m=128, n=128),
        "xmma_gemm_bf16bf16_bf16f32_f32_tn_n_segment_k_off_cublas",
        "cublas",
    ),
    (
        "sm80_xmma_gemm_f16f16_f16f32_f32_nn_n_tilesize160x128x32_stage4_warpsize2x2x1_tensor16x8x16_execu"
        "te_kernel_trt",
        "xmma_gemm_f16f16_f16f32_f32_nn_n_trt",
        "tensorrt",
    ),
    (
        "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn",
        "ampere_bf16_s16816gemm_bf16_tn",
        "cublas",
    ),
    ("volta_sgemm_128x64_tn", "volta_sgemm_tn", "cublas"),
    (
        "std::enable_if<!T7, void>::type internal::gemvx::kernel<int, int, __nv_bfloat16, __nv_bfloat16,"
        " float,"
        " (bool)0>(T13)",
        "internal::gemvx::kernel",
        "cublas",
    ),
    # cutlass: 3.x by its class, 2.x by the flat name of its class
    (
        k.GEMM_3X.format(m=128, n=64, k=64, stages=9, cluster=1),
        "cutlass::device_kernel<GemmUniversal>",
        "cutlass",
    ),
    (
        k.KERNEL2.format(m=256, n=128, k=32, stages=3),
        "cutlass::Kernel2<cutlass_tensorop_bf16_s16816gemm_relu_bf16_tn>",
        "cutlass",
    ),
    (
        "cutlass3x_sm100_simt_sgemm_f32_f32_f32_f32_f32_128x128x16_1x1x1_3_tnn_align1_bias_f32_relu",
        "cutlass3x_simt_sgemm_f32_f32_f32_f32_f32_tnn_bias_f32_relu",
        "cutlass",
    ),
    # attention
    (k.FA3, "cutlass::device_kernel<FlashAttnFwdSm90>", "flash-attention"),
    (
        "void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false, false,"
        " cutlass::bfloat16_t>, false, true, false, false, true, false>(flash::Flash_fwd_params)",
        "flash::flash_fwd_splitkv_kernel",
        "flash-attention",
    ),
    (k.SDPA, "cudnn_generated_fort_native_sdpa_flash_fprop_wgmma_f16", "cudnn"),
    (k.DECODE, "flashinfer::BatchDecodeWithPagedKVCacheKernel", "flashinfer"),
    (
        "fmha_v2_flash_attention_bf16_64_128_S_qkv_128_causal_tma_ws_sm90_kernel",
        "fmha_v2_flash_attention_bf16_S_qkv_causal_tma_ws_kernel",
        "tensorrt-llm",
    ),
    (
        "fmhaSm100aKernel_QkvE4m3OBfloat16HQk576HV512PagedKvDenseP32MultiCtasKvCgaVarSeqQ16Kv128StaticSwap"
        "sAbForGen",
        "fmhaSm#Kernel_QkvE4m3OBfloat16HQk#HV#PagedKvDenseP#VarSeqQ#Kv#ForGen",
        "tensorrt-llm",
    ),
    (
        "void mmha::masked_multihead_attention_kernel<__nv_bfloat16, __nv_bfloat16, float,"
        " tensorrt_llm::kernels::KVBlockArray, 128, 256, true>(Multihead_attention_params)",
        "mmha::masked_multihead_attention_kernel",
        "tensorrt-llm",
    ),
    ("kernel_mha", "kernel_mha", "tensorrt-llm"),
    ("_fwd_grouped_kernel_stage1", "_fwd_grouped_kernel_stage1", "triton"),
    # TensorRT-LLM
    (k.BMM, "bmm_MxE4m3_MxE2m1MxE4m3_Fp32_TN_biasFp32M_swiGlu_dynB", "tensorrt-llm"),
    (k.BMM_SMALL, "bmm_MxE4m3_MxE2m1MxE4m3_Fp32_TN_biasFp32M_swiGlu_dynB", "tensorrt-llm"),
    (
        "_ZN12tensorrt_llm3_v17kernels19fp8_blockscale_gemm18scale_1x128_kernelI13__nv_bfloat1613__nv_fp8_"
        "e4m3fLb0EEE"
        "vPT0_PT1_PKT_ii",
        "tensorrt_llm::kernels::fp8_blockscale_gemm::scale_1x128_kernel",
        "tensorrt-llm",
    ),
    (
        "void tensorrt_llm::kernels::applyBiasRopeUpdateKVCacheV2<__nv_bfloat16, __nv_bfloat16, 256, 128,"
        " false,"
        " tensorrt_llm::kernels::KVBlockArray, (tensorrt_llm::kernels::RotaryPositionEmbeddingType)0>",
        "tensorrt_llm::kernels::applyBiasRopeUpdateKVCacheV2",
        "tensorrt-llm",
    ),
    (
        "void moe::dev::finalize::finalizeKernelVecLoad<moe::dev::finalize::KernelParams<cutlass::bfloat16_t,"
        " cutlass::bfloat16_t, 4, true> >(moe::dev::finalize::KernelParams<cutlass::bfloat16_t>)",
        "moe::dev::finalize::finalizeKernelVecLoad",
        "tensorrt-llm",
    ),
    # communication
    (k.PAIRS[5][0], "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "nccl"),
    (
        k.AR_FUSION,
        "flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport",
        "flashinfer",
    ),
    (
        "void deep_ep::internode_ll::dispatch<(bool)1, (bool)1, (int)6144>(void *, void *, int *, long *)",
        "deep_ep::internode_ll::dispatch",
        "deepep",
    ),
    (
        "void <unnamed>::multimem_all_reduce_kernel<c10::BFloat16, (int)16>(T1 *, unsigned long)",
        "multimem_all_reduce_kernel",
        "other",
    ),
    # activations passed as functions
    (k.VLLM_SILU, "vllm::act_and_mul_kernel<silu_kernel>", "vllm"),
    (
        "void flashinfer::activation::act_and_mul_kernel<__half, &silu<float>>(T1 *, const T1 *, int)",
        "flashinfer::activation::act_and_mul_kernel<silu>",
        "flashinfer",
    ),
    (
        "void flashinfer::activation::act_and_mul_kernel<__nv_bfloat16, &(float silu<float>(float const&))>",
        "flashinfer::activation::act_and_mul_kernel<silu>",
        "flashinfer",
    ),
    # generated names
    ("triton_poi_fused_add_3", "triton_poi_fused_add", "triton"),
    (
        "triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_12",
        "triton_red_fused__to_copy_add_mean_mul_pow_rsqrt",
        "triton",
    ),
    ("_fwd_kernel_0d1d2d3de4de", "_fwd_kernel", "triton"),
    (k.CUTE_NORM, "kernel_cutlass_kernel_flashinfernormkernelsrmsnormRMSNormKernel", "flashinfer"),
    ("nvfuser_pointwise_f0_c1_r0_g3", "nvfuser_pointwise", "nvfuser"),
    ("__myl_AddCastMean_0x88399a9d0107bda74f0c8807f8283b69", "__myl_AddCastMean", "myelin"),
    ("__myl_bb1_3_MaxSubExpSumDivMul", "__myl_MaxSubExpSumDivMul", "myelin"),
    ("_gemm_mha_v2_myl3_6", "_gemm_mha_v2", "myelin"),
    ("trt_maxwell_scudnn_128x32_relu_interior_nn_v1", "trt_maxwell_scudnn_relu_interior_nn_v1", "tensorrt"),
    # the rest of the world
    (
        "void deep_gemm::sm90_fp8_gemm_1d2d_impl<(cute::UMMA::Major)0, 0u, 4096u, 1024u>(float*, int*)",
        "deep_gemm::sm90_fp8_gemm_1d2d_impl",
        "deepgemm",
    ),
    (k.SORT, "cub::DeviceRadixSortOnesweepKernel", "cub"),
    (k.UNINITIALIZED_FILL, "thrust::cuda_cub::core::_kernel_agent<__uninitialized_fill>", "thrust"),
    ("void foo(int)::bar<float>(float)", "foo::bar", "other"),
    ("Memcpy DtoD (Device -> Device)", "Memcpy DtoD", "cuda"),
    ("[CUDA memset]", "[CUDA memset]", "cuda"),
    ("", "", "other"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "template", "expected_family"), NAMES)
def test_real_names(name: str, template: str, expected_family: str) -> None:
    assert normalise(name) == template
    assert family(name) == expected_family
    assert normalise(template) == template


@pytest.mark.parametrize(("demangled", "mangled"), k.PAIRS)
def test_a_mangled_name_is_the_same_template(demangled: str, mangled: str) -> None:
    assert normalise(mangled) == normalise(demangled)


DIFFERENT = [
    ("vllm::silu_and_mul_kernel<float>(int)", "vllm::gelu_and_mul_kernel<float>(int)"),
    (k.VLLM_SILU, k.VLLM_SILU.replace("silu", "gelu")),
    (k.PAIRS[0][0], k.SILU_VECTORIZED),
    (k.SILU_VECTORIZED, k.SILU_STRIDED),
    (k.PAIRS[1][0], k.PAIRS[1][0].replace("MulFunctor", "DivFunctor")),
    (k.FA3, k.GEMM_3X.format(m=128, n=64, k=64, stages=9, cluster=1)),
    # the operands' types and layouts, and a split K, are not tuning
    ("nvjet_tst_64x8_64x16_4x1_v_bz_TNT", "nvjet_hsh_64x8_64x16_4x1_v_bz_TNT"),
    ("nvjet_tst_64x8_64x16_4x1_v_bz_TNT", "nvjet_tst_64x8_64x16_4x1_v_bz_NNT"),
    ("nvjet_tst_64x8_64x16_4x1_v_bz_TNT", "nvjet_tst_64x8_64x16_4x1_v_bz_splitK_TNT"),
    # 1x128 is what this kernel computes, not its tile
    (
        "tensorrt_llm::kernels::scale_1x128_kernel<float>(x)",
        "tensorrt_llm::kernels::scale_128x128_kernel<float>(x)",
    ),
    ("_fwd_kernel_stage1", "_fwd_kernel_stage2"),
    ("deep_ep::intranode::dispatch<2>(x)", "deep_ep::internode::dispatch<2>(x)"),
    (k.UNINITIALIZED_FILL, k.UNINITIALIZED_FILL.replace("__uninitialized_fill", "__transform")),
    ("__myl_AddMul_myl0_1", "__myl_AddDiv_myl0_1"),
    (
        "fmhaSm100fKernel_QkvBfloat16OBfloat16H64PagedKvCausalP64VarSeqQ8Kv128StaticSwapsAbForGen",
        "fmhaSm100fKernel_QkvBfloat16OBfloat16H64PagedKvCausalP64VarSeqQ128Kv128PersistentContext",
    ),
]


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_functions_of_a_family_stay_apart(one: str, other: str) -> None:
    assert normalise(one) != normalise(other)


SHORT = [
    (k.SILU_VECTORIZED, "vectorized_elementwise_kernel<silu_kernel>"),
    (k.SPLIT_K_REDUCE, "splitKreduce_kernel"),
    (k.FA3, "device_kernel<FlashAttnFwdSm90 128x128x128>"),
    (k.GEMM_3X.format(m=128, n=64, k=64, stages=9, cluster=2), "device_kernel<GemmUniversal 128x64x64>"),
    (
        k.KERNEL2.format(m=256, n=128, k=32, stages=3),
        "cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8",
    ),
    ("nvjet_sm90_tst_64x16_64x16_4x1_v_bz_splitK_TNT", "nvjet_sm90_tst_64x16_64x16_4x1_v_bz_splitK_TNT"),
    ("void deep_ep::internode_ll::dispatch<(bool)1>(void *)", "internode_ll::dispatch"),
    ("std::enable_if<!T7, void>::type internal::gemvx::kernel<int>(T13)", "gemvx::kernel"),
    (k.CUTE_NORM, "kernel_cutlass_kernel_flashinfernormkernelsrmsnormRMSNormKernel"),
    ("evil\x1b[31m\nname", "evil [31m name"),
    ("", ""),
]


@pytest.mark.parametrize(("name", "expected"), SHORT)
def test_short(name: str, expected: str) -> None:
    assert short(name) == expected


def test_short_cuts_the_middle() -> None:
    assert short("abcdefghijklmnop", width=10) == "abcdef…nop"
    assert short("abcdefghijklmnop", width=16) == "abcdefghijklmnop"
    assert short("abcdefghijklmnop", width=1) == "…"


@given(k.HOSTILE)
def test_a_template_is_its_own_template(name: str) -> None:
    template = normalise(name)
    assert normalise(template) == template
    assert family(template) == family(name)
    assert template.isprintable()


@given(k.HOSTILE, st.integers(-3, 200))
def test_short_fits(name: str, width: int) -> None:
    text = short(name, width)
    assert len(text) <= max(width, 1)
    assert text.isprintable()


SIZES = st.integers(1, 1024)


@given(SIZES, SIZES, SIZES, st.integers(1, 16), st.integers(1, 16), st.integers(1, 4))
def test_numbers_of_a_gemm_are_not_part_of_its_template(
    m: int, n: int, kk: int, stages: int, x: int, y: int
) -> None:
    shape = {"m": m, "n": n, "k": kk, "stages": stages}
    nvjet = normalise(f"nvjet_sm90_tst_{m}x{n}_{kk}x{stages}_{x}x{y}_v_bz_TNT")
    assert nvjet == "nvjet_tst_TN"
    assert normalise(k.GEMM_3X.format(cluster=x, **shape)) == "cutlass::device_kernel<GemmUniversal>"
    kernel2 = normalise(k.KERNEL2.format(**shape))
    assert kernel2 == "cutlass::Kernel2<cutlass_tensorop_bf16_s16816gemm_relu_bf16_tn>"
    assert normalise(k.XMMA.format(m=m, n=n)) == normalise(k.XMMA.format(m=64, n=64))


@pytest.mark.parametrize("piece", ["<", "a<(", "_Z3foo", "__myl_Ab", "a_0", "::", "\x01"])
def test_a_megabyte(piece):
    name = piece * (1_000_000 // len(piece))
    template = normalise(name)
    assert normalise(template) == template
    assert len(short(name)) <= 80


def test_kernels_of_amd_gpus_are_known():
    """Names as hipBLASLt, composable kernel, AITER and vLLM give them."""
    tuned = [
        f"Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT{tile}_MI16x16x1_SN_LDSB1_AFC0_WG64_4_1"
        for tile in ("64x16x64", "256x256x32")
    ]
    assert {normalise(name) for name in tuned} == {"Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs"}
    assert [family(tuned[0]), category(tuned[0])] == ["tensile", "gemm"]
    ck = "void ck_tile::kentry<256, 1, ck_tile::FmhaFwdKernel<int>>(int)"
    assert [family(ck), category("_ZN2ck20kernel_gemm_xdl_cshuffleE")] == ["composable-kernel", "gemm"]
    assert family("aiter::fmoe_bf16_g1u1") == "aiter"
    assert category("void wvSplitK_hf_sml_<__hip_bfloat16, 64>(int)") == "gemm"
    assert category("ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)") == "communication"


@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        ("[memcpy DtoH]", False),
        ("[memset]", False),
        ("[graph 7]", False),
        ("[red]gemm[/red]", True),
        ("gemm", True),
    ],
)
def test_what_is_no_kernel_has_a_name_of_ours(name: str, kernel: bool):
    assert is_kernel(name) is kernel
