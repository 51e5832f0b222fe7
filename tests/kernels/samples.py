"""Real kernel names, as nsys, Kineto and CUPTI write them, and strategies for names that nobody wrote.

Names of the captures come with their mangled form, which must mean the same.
"""

from __future__ import annotations

from hypothesis import strategies as st

LAMBDA_6 = "[lambda() (instance 1)]::operator ()() const::[lambda() (instance 6)]::operator ()() const::"

# Demangled by nsys, mangled by the compiler (both from one capture).
PAIRS = (
    (
        "void at::native::vectorized_elementwise_kernel<(int)8, at::native::CUDAFunctor_add<c10::BFloat16>,"
        " std::array<char *, (unsigned long)3>>(int, T2, T3)",
        "_ZN2at6native29vectorized_elementwise_kernelILi8ENS0_15CUDAFunctor_addIN3c108BFloat16EEESt5arrayI"
        "PcLm3E"
        "EEEviT0_T1_",
    ),
    (
        "void at::native::vectorized_elementwise_kernel<(int)8, at::native::BinaryFunctor<c10::BFloat16,"
        " c10::BFloat16, c10::BFloat16, at::native::binary_internal::MulFunctor<float>>, std::array<char *,"
        " (unsigned long)3>>(int, T2, T3)",
        "_ZN2at6native29vectorized_elementwise_kernelILi8ENS0_13BinaryFunctorIN3c108BFloat16ES4_S4_NS0_15b"
        "inary_"
        "internal10MulFunctorIfEEEESt5arrayIPcLm3EEEEviT0_T1_",
    ),
    (
        "void at::native::elementwise_kernel<(int)128, (int)4, void at::native::gpu_kernel_impl_nocast<"
        "at::native::direct_copy_kernel_cuda(at::TensorIteratorBase &)::[lambda() (instance 3)]::operator"
        " ()()"
        " const::[lambda() (instance 12)]::operator ()() const::[lambda(c10::BFloat16) (instance 1)]>("
        "at::TensorIteratorBase &, const T1 &)::[lambda(int) (instance 1)]>(int, T3)",
        "_ZN2at6native18elementwise_kernelILi128ELi4EZNS0_22gpu_kernel_impl_nocastIZZZNS0_23direct_copy_ke"
        "rnel_cu"
        "daERNS_18TensorIteratorBaseEENKUlvE1_clEvENKUlvE10_clEvEUlN3c108BFloat16EE_EEvS4_RKT_EUliE_EEviT1_",
    ),
    (
        "void at::native::reduce_kernel<(int)512, (int)1, at::native::ReduceOp<c10::BFloat16,"
        " at::native::ArgMaxOps<float>, unsigned int, long, (int)4, (int)4>>(T3)",
        "_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIN3c108BFloat16ENS0_9ArgMaxOpsIfEEjlLi4ELi4EE"
        "EEEvT1_",
    ),
    (
        "void at::native::<unnamed>::vectorized_layer_norm_kernel<c10::BFloat16, float, (bool)1>(int, T2,"
        " const T1"
        " *, const T1 *, const T1 *, T2 *, T2 *, T1 *)",
        "_ZN2at6native53_GLOBAL__N__21739cd4_20_layer_norm_kernel_cu_9c5ada8a28vectorized_layer_norm_kerne"
        "lIN3c10"
        "8BFloat16EfLb1EEEviT0_PKT_S8_S8_PS5_S9_PS6_",
    ),
    (
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)",
        "_Z40ncclDevKernel_AllReduce_Sum_bf16_RING_LL24ncclDevKernelArgsStorageILm4096EE",
    ),
    (
        "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cutlass::gemm::GroupProblemShape<"
        "cute::tuple<long, long, long>>, cutlass::gemm::collective::CollectiveMma<int>>>(T1::Params)",
        "_ZN7cutlass13device_kernelINS_4gemm6kernel13GemmUniversalINS1_17GroupProblemShapeIN4cute5tupleIJl"
        "llEEEEE"
        "NS1_10collective13CollectiveMmaINS1_39MainloopSm90ArrayTmaGmmaWarpSpecializedILi12ENS6_IJNS5_1CIL"
        "i1EEESD"
        "_SD_EEENS1_43KernelPtrArrayTmaWarpSpecializedCooperativeEEENS6_IJNSC_ILi128EEENSC_ILi16EEENSC_ILi"
        "64EEEEE"
        "ENS_10bfloat16_tEEEEEEvNT_6ParamsE",
    ),
)

SILU_VECTORIZED = (
    "void at::native::vectorized_elementwise_kernel<(int)8, at::native::<unnamed>::silu_kernel("
    f"at::TensorIteratorBase &)::{LAMBDA_6}[lambda(c10::BFloat16) (instance 1)], std::array<char *, (unsigned"
    " long)2>>(int, T2, T3)"
)
# The same as Kineto writes it, for another element type.
SILU_VECTORIZED_KINETO = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::(anonymous namespace)::silu_kernel("
    "at::TensorIteratorBase&)::{lambda()#1}::operator()() const::{lambda()#5}::operator()() const::"
    "{lambda(c10::Half)#1}, std::array<char*, 2ul> >(int, at::native::(anonymous namespace)::silu_kernel("
    "at::TensorIteratorBase&)::{lambda()#1}, std::array<char*, 2ul>)"
)
SILU_STRIDED = (
    "void at::native::elementwise_kernel<(int)128, (int)4, void at::native::gpu_kernel_impl_nocast<"
    f"at::native::<unnamed>::silu_kernel(at::TensorIteratorBase &)::{LAMBDA_6}[lambda(c10::BFloat16)"
    " (instance 1)]>(at::TensorIteratorBase &, const T1 &)::[lambda(int) (instance 1)]>(int, T3)"
)
INDEX_PUT = (
    "void at::native::index_elementwise_kernel<(int)128, (int)4, void at::native::gpu_index_kernel<void"
    " at::native::index_put_kernel_impl<at::native::OpaqueType<(int)2>>(at::TensorIterator &,"
    " c10::ArrayRef<long>,"
    " c10::ArrayRef<long>)::[lambda(char *, const char *, long) (instance 1)]>(at::TensorIteratorBase &,"
    " c10::ArrayRef<long>, c10::ArrayRef<long>, const T1 &, bool)::[lambda(int) (instance 1)]>(long, T3)"
)
SPLIT_K_REDUCE = (
    "void cublasLt::splitKreduce_kernel<(int)32, (int)16, int, float, __nv_bfloat16, float,"
    " __nv_bfloat16, (bool)0,"
    " float, __nv_bfloat16, __nv_bfloat16, (bool)1, (bool)0, (bool)0,"
    " (bool)0>(cublasLt::cublasSplitKParams<T6>,"
    " const T4 *, const T10 *)"
)
FA3 = (
    "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<flash::CollectiveMain"
    "loopFwdSm90"
    "<(int)2, cute::tuple<cute::C<(int)1>, cute::C<(int)1>, cute::C<(int)1>>, cute::tuple<cute::C<(int)128>,"
    " cute::C<(int)128>, cute::C<(int)128>>, (int)128, cutlass::half_t, float, cutlass::arch::Sm90,"
    " (bool)1>>>>"
    "(T1::Params)"
)
GEMM_3X = (
    "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, int, int, int>,"
    " cutlass::gemm::collective::CollectiveMma<cutlass::gemm::MainloopSm90TmaGmmaWarpSpecialized<{stages},"
    " cute::tuple<cute::C<{cluster}>, cute::C<1>, cute::C<1>>,"
    " cutlass::gemm::KernelTmaWarpSpecializedPingpong>,"
    " cute::tuple<cute::C<{m}>, cute::C<{n}>, cute::C<{k}>>, cutlass::bfloat16_t, cute::tuple<long,"
    " cute::C<1>,"
    " long>>, cutlass::epilogue::collective::CollectiveEpilogue<int>>>(T1::Params)"
)
KERNEL2 = (
    "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_{m}x{n}_{k}x{stages}_tn_align8>("
    "cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_{m}x{n}_{k}x{stages}_tn_align8::Params)"
)
AR_FUSION = (
    "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<("
    "flashinfer::trtllm_allreduce_fusion::AllReduceFusionPattern)1, __nv_bfloat16, 8, false, false>("
    "flashinfer::trtllm_allreduce_fusion::AllReduceFusionParams<__nv_bfloat16>)"
)
DECODE = (
    "void flashinfer::BatchDecodeWithPagedKVCacheKernel<(flashinfer::PosEncodingMode)0, (unsigned int)2,"
    " (unsigned"
    " int)1, (unsigned int)8, (unsigned int)16, (unsigned int)2, (unsigned int)4,"
    " flashinfer::DefaultAttention<(bool)0,"
    " (bool)0, (bool)0, (bool)0>, Params>(T9)"
)
VLLM_SILU = (
    "void vllm::act_and_mul_kernel<c10::BFloat16, __nv_bfloat162, &(c10::BFloat16"
    " vllm::silu_kernel<c10::BFloat16>("
    "c10::BFloat16 const&)), &(__nv_bfloat162 vllm::packed_silu_kernel<__nv_bfloat162>(__nv_bfloat162"
    " const&)),"
    " true, true, false>"
)
BMM = (
    "bmm_MxE4m3_MxE2m1MxE4m3_Fp32_Ab32_Bb32_Cb32_t128x128x256u2_s4_et128x32_m256x128x32_c2x1x1_rM_TN_trans"
    "Out_"
    "schPd2x1x2x3_biasFp32M_bN_tma_ldgstsSf_rgTma_clmp_swiGlu_lbW8_lsfbW4_dynB_sm100f"
)
BMM_SMALL = (
    "bmm_MxE4m3_MxE2m1MxE4m3_Fp32_Ab32_Bb32_Cb32_t128x8x512u2_s3_et128x8_m128x8x32_c1x1x1_rM_TN_transOut_"
    "schPd2x1x2x3_biasFp32M_bN_tma_ldgstsSf_rgTma_clmp_swiGlu_dynB_sm100f"
)
CUTE_NORM = (
    "kernel_cutlass_kernel_flashinfernormkernelsrmsnormRMSNormKernel_object_at__tensorptrbf16gmemalign128o"
    "2880288"
    "01_tensorptrbf16gmemalign16o28801_tensorptrbf16gmemalign128o288028801___True_4__0"
)
XMMA = (
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize{m}x{n}x64_warpgroupsize1x1x1_execute_segment_k_off_"
    "kernel"
    "__5x_cublas"
)
SDPA = (
    "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128_4x1x1_cga1x1x1_kernel0_0"
)
SORT = (
    "void cub::CUB_200301_860_NS::DeviceRadixSortOnesweepKernel<cub::CUB_200301_860_NS::DeviceRadixSortPol"
    "icy<unsigned"
    " long, unsigned int, unsigned int>::Policy900, (bool)0, unsigned long>(T7 *, T7 *)"
)
UNINITIALIZED_FILL = (
    "void thrust::cuda_cub::core::_kernel_agent<thrust::cuda_cub::__parallel_for::ParallelForAgent<"
    "thrust::cuda_cub::__uninitialized_fill::functor<thrust::device_ptr<int>, int>, unsigned long>,"
    " thrust::cuda_cub::__uninitialized_fill::functor<thrust::device_ptr<int>, int>, unsigned long>("
    "thrust::device_ptr<int>, int)"
)

# Pieces that names are made of, brackets that do not match, and what no name should hold.
PIECES = (
    *"<>()[]{},:&*+~#$ _-", "::", "void ", " const", "operator()", "operator<", "->", "&(", "(int)4", "2ul",
    "\x00", "\n", "\x1b[31m", "\u202e", "\u00e9", "0x7f001c", "_0d1d2de", "deadbeef01", "_12", "1x1",
    "_ZN", "_Z3foo", "3fooI", "Li4E", "(anonymous namespace)::", "<unnamed>::", "_GLOBAL__N_1::", "kernel7",
    "at::native::", "elementwise_kernel", "device_kernel<", "act_and_mul_kernel<", "silu_kernel", "nvjet_",
    "sm90_", "xmma_",
    "cutlass_", "cudnn_", "fmha_", "fmhaSm100f", "Static", "MultiCtasKv", "Kernel2<", "bmm_E", "__myl_",
    "triton_poi_fused_", "AddMulMea", "kernel_cutlass_", "_object_at_", "_tensor0", "Memcpy ", " + ", "PWN(",
    "[lambda() ",
)  # fmt: skip
HOSTILE = st.one_of(st.text(), st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
