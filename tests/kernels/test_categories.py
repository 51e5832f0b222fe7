"""Categories of real kernel names; what decides between communication and compute."""

from __future__ import annotations

import pytest
from hypothesis import given

from tests.kernels import samples as k
from tracediff.kernels.names import CATEGORIES, category, collective, is_communication, normalise

TRT = "void tensorrt_llm::kernels::"
NAMES = {
    "gemm": [
        "nvjet_sm90_tst_64x16_64x16_4x1_v_bz_TNT",
        k.SPLIT_K_REDUCE,
        k.XMMA.format(m=128, n=128),
        k.KERNEL2.format(m=256, n=128, k=32, stages=3),
        k.GEMM_3X.format(m=128, n=64, k=64, stages=9, cluster=1),
        k.PAIRS[6][1],
        k.BMM,
        "cutlass3x_sm100_simt_sgemm_f32_f32_f32_f32_f32_64x64x16_1x1x1_3_tnn_align1_bias_f32_relu",
        "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn",
        "void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 2, 2, false, true>(x)",
        "std::enable_if<!T7, void>::type internal::gemvx::kernel<int>(T13)",
        "void deep_gemm::sm90_fp8_gemm_1d2d_impl<0u, 4096u>(float*)",
        "void deep_gemm::sm90_tf32_hc_prenorm_gemm_impl<24u, 16384u>(unsigned int)",
        "void flashinfer::trtllm_dsv3_router_gemm::router_gemm_kernel<__nv_bfloat16, float, 128, 8, 16>(x)",
        "triton_tem_fused_mm_3",
        "trt_maxwell_scudnn_128x32_relu_interior_nn_v1",
        "__myl_FcNegExpAddDivMulMul_0x35d2df1735d2df1735d2df1735d2df17",
        # a collective in a GEMM's epilogue
        "void cutlass::device_kernel<cutlass::gemm::kernel::GemmAllReduce<int>>(T1::Params)",
    ],
    "attention": [
        k.SDPA,
        k.FA3,
        k.DECODE,
        "void flash::flash_fwd_splitkv_combine_kernel<Flash_fwd_kernel_traits<128, 64, 128, 8>, 4, false>(x)",
        "fmha_v2_flash_attention_bf16_64_128_S_qkv_128_causal_tma_ws_sm90_kernel",
        "fmhaSm100fKernel_QkvBfloat16OBfloat16H64PagedKvCausalP64VarSeqQ8Kv128StaticSwapsAbForGen",
        "void mmha::masked_multihead_attention_kernel<__nv_bfloat16, 128, 256, true>(x)",
        "kernel_mha",
        "_gemm_mha_v2_0xbcebb26412345678bcebb26412345678",
        "__mye8037_gemm_mha_v2",
        "void vllm::merge_attn_states_kernel<c10::BFloat16, 128>(x)",
        "_fwd_grouped_kernel_stage1",
        "kernel_unified_attention_2d",
        "void deep_gemm::sm90_fp8_paged_mqa_logits<1u, 64u>(x)",
        "fused_recurrent_gated_delta_rule_packed_decode_kernel",
    ],
    "norm": [
        k.PAIRS[4][0],
        k.CUTE_NORM,
        "layer_norm_fwd_kernel",
        "void flashinfer::norm::FusedAddRMSNormKernel<(unsigned int)8, __half>(T2 *, T2 *, T2 *)",
        "void vllm::rms_norm_static_fp8_quant_kernel<c10::BFloat16>(x)",
        TRT + "group_rms_norm::GroupRMSNormBaseKernel<__nv_bfloat16, float4, 1, false, false>(x)",
        "triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_12",
        # all_reduce is where its input came from
        "triton_red_fused__to_copy_add_all_reduce_mean_mul_pow_rsqrt_1",
        "__myl_bb0_8_ResTraCasAddMeaSubMulMeaAddSqrDivMulMulAddRes_com_vec",
    ],
    "activation": [
        k.SILU_VECTORIZED,
        k.SILU_STRIDED,
        k.VLLM_SILU,
        "void flashinfer::activation::act_and_mul_kernel<__half, &silu<float>>(T1 *, const T1 *, int)",
        TRT + "cutlass_kernels::doActivationKernel<__nv_bfloat16>(x)",
        "triton_poi_fused_cutlass_scaled_mm_mul_silu_4",
        "__myl_SlicSiluSlicMul_myl0_4",
    ],
    "elementwise": [
        k.PAIRS[0][0],
        k.PAIRS[1][0],
        "triton_poi_fused_add_mul_3",
        "nvfuser_pointwise_f0_c1_r0_g3",
        "generatedNativePointwise",
        "__myl_AddMul_myl0_1",
    ],
    "quantisation": [
        TRT + "fp8_blockscale_gemm::scale_1x128_kernel<__nv_bfloat16, __nv_fp8_e4m3, float, false>(x)",
        TRT + "quantize_with_block_size<(tensorrt_llm::BlockScaleQuantizationType)2, __nv_bfloat16, 32>(int)",
        "void per_token_group_quant_8bit_kernel<c10::BFloat16, c10::Float8_e4m3fn, true, true, float>(x)",
        "void marlin::gptq_marlin_repack_kernel<(int)256, (int)4, (bool)0, (bool)0>(const unsigned int *)",
    ],
    "sampling": [
        k.PAIRS[3][0],
        k.SORT,
        "void flashinfer::sampling::TopKTopPSamplingFromProbKernel<1024u>(float*)",
        "void flashinfer::sampling::OnlineSoftmaxFusedKernel<1024u>(float*)",
        "void at::native::sbtopk::gatherTopK<float, unsigned int, 2, false>(x)",
    ],
    "softmax": [
        "void at::native::<unnamed>::cunn_SoftMaxForward<8, float, float, float,"
        " at::native::<unnamed>::SoftMaxForwardEpilogue>(x)",
        "triton_per_fused__softmax_1",
        "__myl_bb1_3_MaxSubExpSumDivMul",
    ],
    "embedding": [
        "void at::native::vectorized_gather_kernel<(int)16, long>(char *, char *, T2 *, int, long)",
        "void at::native::(anonymous namespace)::indexSelectSmallIndex<float, long, unsigned int, 2, 2,"
        " -2>(x)",
    ],
    "rope": [
        "void vllm::rotary_embedding_kernel<c10::BFloat16, true>(x)",
        TRT + "fusedQKNormRopeKernel<128, false>",
        TRT + "applyBiasRopeUpdateKVCacheV2<__nv_bfloat16, __nv_bfloat16, 256, 128>",
    ],
    "moe": [
        "fused_moe_kernel",
        "void vllm::moe_align_block_size_kernel<int>(x)",
        "void vllm::topk_softmax_kernel<float>(x)",
        TRT + "topkGatingSoftmax<float>(x)",
        TRT + "customMoeRoutingKernel<__nv_bfloat16, float, int, 128, 8, false>",
        TRT + "cutlass_kernels::expandInputRowsKernel<__nv_bfloat16, __nv_bfloat16>",
        TRT + "cutlass_kernels::computeStridesTmaWarpSpecializedKernel<__nv_bfloat16>",
        TRT + "deepseek_v3_topk_kernel<float>",
        TRT + "moe_comm::moeA2APrepareDispatchKernel(x)",
        "void fused_moe::run_global<fused_moe::Fused_Moe_Kernel_sm80<cutlass::bfloat16_t, 32, 128, 64, 4> >",
        "void moe::dev::finalize::finalizeKernel<moe::dev::finalize::KernelParams<float> >(x)",
        "void marlin_moe_wna16::Marlin<1125899906909960l, 562949953487106l>(int4 const*)",
        "void deep_ep::layout::get_dispatch_layout<256, 32>(long const*)",
    ],
    "kv_cache": [
        "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, __nv_bfloat16,"
        " (vllm::Fp8KVCacheDataType)0>(x)",
        "void vllm::concat_and_cache_mla_kernel<__nv_bfloat16, __nv_bfloat16,"
        " (vllm::Fp8KVCacheDataType)0>(x)",
        "void flashinfer::AppendPagedKVCacheKernel<128u, 8u, __half, int>(x)",
    ],
    "reduction": [
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float>,"
        " 4> >(x)",
        "__myl_TranReshMoveMean_myl0_56",
    ],
    "communication": [
        k.PAIRS[5][0],
        k.AR_FUSION,
        "ncclSymkDevKernel_AllReduce_RSxLDMC_AGxSTMC_sum_bf16(ncclSymkDevWorkArgs4K)",
        "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
        "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm *, ncclWorkElem)",
        TRT + "oneShotAllReduceKernel<__nv_bfloat16, 8, true, false>(tensorrt_llm::kernels::AllReduceParams)",
        TRT + "twoShotAllReduceKernel<__nv_bfloat16, 8, true, false>(tensorrt_llm::kernels::AllReduceParams)",
        TRT + "ar_fusion::allreduce_fusion_kernel_twoshot_sync<(int)1, __half, 8, true>(x)",
        TRT + "mnnvl::rmsNormLamport<1, __nv_bfloat16>(x)",
        TRT + "ub::userbuffers_fp16_sum_inplace_gpu_rw<__half, 8>(int)",
        TRT + "moe_comm::moeA2ADispatchKernel<8>(x)",
        TRT + "moe_comm::moeA2ACombineKernel<8>(x)",
        "void flashinfer::trtllm_mnnvl_allreduce::oneshotAllreduceFusionKernel<8, __nv_bfloat16, true>(x)",
        "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*, vllm::RankSignals)",
        "void sglang::cross_device_reduce_2stage<__nv_bfloat16, 8>(sglang::RankData*)",
        "void (anonymous namespace)::all_reduce_one_shot_push_kernel<__nv_bfloat16, 8u, true>(x)",
        "void <unnamed>::multimem_all_reduce_kernel<c10::BFloat16, (int)16>(T1 *, unsigned long)",
        "void deep_ep::internode_ll::combine<(bool)0, (int)6144, (int)11, (int)4>(void *)",
        "void deep_ep::intranode::notify_dispatch<(int)2>(const int *, int *)",
        "flashinfer::comm::ulysses_pcie::UlyssesPcieBarrier(unsigned long *)",
        "void barrier_on_stream_kernel_threadgroup<(threadgroup_t)1>(int, int)",
    ],
    "copy": [
        k.PAIRS[2][0],
        k.INDEX_PUT,
        "Memcpy DtoD (Device -> Device)",
        "[CUDA memcpy HtoD]",
        "void at::native::<unnamed>::CatArrayBatchedCopy<at::native::<unnamed>::OpaqueType<2u>, unsigned"
        " int>(x)",
        "void genericReformat::copyPackedKernel<float, float, (bool)0, (bool)1>(unsigned int)",
        "triton_poi_fused__to_copy_clone_view_2",
        "__myl_ReshTran_myl36_0",
    ],
    "memset": [
        "Memset (Device)",
        "void at::native::vectorized_elementwise_kernel<(int)8, at::native::FillFunctor<c10::BFloat16>>(int)",
        "triton_poi_fused_zeros_0",
        k.UNINITIALIZED_FILL,
    ],
    "other": ["", "mykernel", "void selective_scan_fwd<float>(x)"],
}


def test_every_category_is_tried() -> None:
    assert set(NAMES) == set(CATEGORIES)


@pytest.mark.parametrize(("name", "expected"), [(n, c) for c, names in NAMES.items() for n in names])
def test_real_names(name: str, expected: str) -> None:
    assert category(name) == expected
    assert is_communication(name) == (expected == "communication")


def test_words_that_decide_nothing() -> None:
    # in a parameter list, in an element type, in a word that only sounds like one
    assert category("void mykernel(ncclDevComm *, softmax_params)") == "other"
    assert category("void mykernel<gemm::Shape>(int)") == "other"
    assert category("set_property") == "other"
    assert category("void at::native::<unnamed>::normal_kernel<float>(x)") != "norm"


@given(k.HOSTILE)
def test_a_template_has_one_category(name: str) -> None:
    found = category(name)
    assert found in CATEGORIES
    assert category(normalise(name)) == found
    assert is_communication(name) == (found == "communication")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            ("all-reduce", "RING"),
        ),
        ("ncclDevKernel_AllReduce_Sum_bf16_TREE_LL", ("all-reduce", "TREE")),
        ("ncclDevKernel_AllGather_RING_LL", ("all-gather", "RING")),
        ("ncclDevKernel_AllReduce_Sum_f32_NVLS_SIMPLE", ("all-reduce", "NVLS SIMPLE")),  # exact names
        (
            "ncclKernel_AllReduce_RING_LL_Sum_half(ncclDevComm*, unsigned long, ncclWork*)",
            ("all-reduce", "RING LL"),
        ),
        ("ncclKernel_AllReduce_TREE_LL128_Sum_float", ("all-reduce", "TREE LL128")),
        ("ncclDevKernel_SendRecv", ("", "")),
        ("all_reduce_ring", ("", "")),
    ],
)
def test_algorithms_of_nccl_in_names(name, said):
    """Of one kernel that stands for many protocols (NCCL 2.19 on) none is told."""
    assert collective(name) == said
