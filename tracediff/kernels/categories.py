"""What kind of work a kernel does, from its name: gemm, attention, norm, communication, ...

The rules read the kernel's template (`names.normalise`), so all instances of a template share a
category, and a word in a parameter list or an element type decides nothing. `is_communication` also decides
whether a kernel's time is accounted as communication or as compute.
"""

from __future__ import annotations

import re

from tracediff.kernels import myelin
from tracediff.kernels.names import RULE_CHARS, normalise

CATEGORIES = (
    "gemm", "attention", "norm", "activation", "elementwise", "quantisation", "sampling", "softmax",
    "embedding", "rope", "moe", "kv_cache", "reduction", "communication", "copy", "memset", "other",
)  # fmt: skip

# Kernels that exchange data with, or wait for, another GPU. Matched against the qualified function alone: a
# cutlass kernel whose epilogue reduces across GPUs (device_kernel<GemmAllReduce>) is a GEMM.
_COMMUNICATION = re.compile(
    r"nccl|rccl|nvshmem|rocshmem|msccl"
    r"|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|send_?recv|(?:one|two)_?shot_"
    r"|cross_device_reduce|multimem_|mnnvl|lamport|userbuffers|symm_mem|quickreduce"
    r"|(?:barrier|barrier_all|sync)_on_stream_kernel|deep_ep::(?!layout::)|hybrid_ep::|pplx::"
    r"|a2a(?:dispatch|combine)|moecommkernel|flashinfer::comm::"
)
# These say the word and do local work: a GEMM with a collective's name in it is bound by its math, the
# layout and preparation kernels of an all-to-all run before anything is sent.
_LOCAL = re.compile(r"gemm|matmul|a2aprepare|a2asanitize|moealltoall(?:prepare|memset)|get_dispatch_layout")

# TorchInductor's names list the graph nodes behind a kernel, not what it does: `mm` or `all_reduce` in a
# pointwise kernel is where its input came from. The kind (poi, red, per, tem) decides first.
_INDUCTOR = re.compile(r"triton_(poi|red|per|tem|for|mm|bmm|spl|split_scan)_")
_MOVES = (
    "to_copy|clone|copy|view|permute|transpose|t|cat|stack|slice|split|select|expand|unsqueeze|squeeze|reshape"
    "|constant_pad_nd|index|index_put|slice_scatter"
)
_FILLS = "zeros|ones|full|fill|zero|zeros_like|full_like|new_zeros"
_INDUCTOR_OPS: tuple[tuple[str, str, str], ...] = (
    # kinds, category, operations
    ("tem mm bmm", "attention", r"flex_attention|flash|sdpa|scaled_dot_product"),
    ("tem mm bmm", "gemm", r""),
    ("red per", "norm", r"norm|rsqrt|var_mean|welford"),
    ("red per", "softmax", r"softmax"),
    ("red per spl split_scan", "sampling", r"argmax|topk|sort|multinomial"),
    ("red per spl split_scan", "reduction", r""),
    ("poi for", "activation", r"silu|gelu|sigmoid|relu|tanh"),
    ("poi for", "rope", r"cos.{0,40}sin|sin.{0,40}cos|rotary"),
    ("poi for", "embedding", r"embedding"),
    # Nothing but movement and casts, nothing but constants.
    ("poi for", "copy", rf"\A_*(?:{_MOVES})(?:_+(?:{_MOVES}))*\Z"),
    ("poi for", "memset", rf"\A_*(?:{_FILLS})(?:_+(?:{_FILLS}))*\Z"),
    ("poi for", "elementwise", r""),
)  # fmt: skip

# First match wins, so a fused kernel goes to its most telling part. The subject is lower case.
_RULES: tuple[tuple[str, str], ...] = (
    ("memset", r"\[?(?:cuda )?memset\b"),
    ("copy", r"\[?(?:cuda )?memcpy\b"),
    # Before kv_cache: TensorRT-LLM rotates and writes the cache in one kernel; a write alone is named below.
    # `rope` must not be found in `property`.
    ("rope", r"rope(?!rt)|rotary"),
    # Before attention: reshape_and_cache_flash and concat_and_cache_mla only write. But FlashInfer's
    # BatchDecodeWithPagedKVCacheKernel is attention, so `kvcache` on its own is no evidence.
    ("kv_cache", r"_and_cache|append_?paged|kv_?cache_?(?:append|copy|update|transfer)|update_?kv_?cache"
                 r"|copy_blocks|swap_blocks|set_(?:mla_)?kv_|gather_(?:and_maybe_dequant_)?cache|indexer_k_"
                 r"|transpose4dbatchmajor|shiftkcache|store_kvcache|kv_?buffer"),
    # Before gemm, softmax and sampling: topkGatingSoftmax and grouped expert GEMMs belong to the experts.
    # router_gemm is a plain GEMM.
    ("moe", r"moe|expert|topk_?gating|topk_softmax|routing|router(?!_gemm)|deepseek_v3_topk"
            r"|group_idx_and_topk|grouped_topk|noauxtc|expandinputrows|computestridestma|topk_with_k2"
            r"|token_?permut|get_dispatch_layout"),
    # Before gemm: _gemm_mha_v2, and attention kernels name their cutlass collectives. The last line is linear
    # attention: the gated delta rule and its chunked forms.
    ("attention", r"attn|attention|fmha|mmha|(?:^|[_:])mha(?:$|_)|xqa|sdpa|flash_(?:fwd|bwd)|flashmla"
                  r"|(?:^|[_:])mla(?:$|_)|mqa_logits|batch(?:decode|prefill)|prefillwith|singledecode|decodewith"
                  r"|mergestate|merge_state|variablelengthmerge|\b_fwd(?:_grouped)?_kernel|splitkv|topkperrow"
                  r"|prepare_varlen|delta_?rule|chunk_(?:kda|gla|fwd|bwd|scaled)|fused_recurrent|recompute_w_u"),
    # Before gemm: gptq_marlin_repack only rearranges weights.
    ("quantisation", r"repack|scale_interleave"),
    # Before norm, activation, reduction: a GEMM's epilogue (gemm_relu, prenorm_gemm), the sum of a split K.
    # A namespace is no evidence: fp8_blockscale_gemm::scale_1x128_kernel quantises. Convolutions run as
    # implicit GEMMs.
    ("gemm", r"gem[mv](?!\w*::)|gemvx::|cijk_|wvsplitk|nvjet|matmul|xmma|cutlass::kernel|(?:^|[_:])b?mm(?:$|_)|splitkreduce"
             r"|marlin|dot_kernel|cublas|scudnn|implicit_convolve|fprop|wgrad|dgrad|cudacore|_scaled_mm"
             r"|linear_kernel|device_kernel"),
    # Before quantisation and activation: rms_norm_static_fp8_quant. `normal` is a distribution.
    ("norm", r"norm(?!al(?!iz))|welford|rowwisemoments"),
    # Before softmax: the samplers of FlashInfer and TensorRT-LLM contain one.
    ("sampling", r"sampling|addbiassoftmax"),
    ("softmax", r"softmax"),
    # Before reduction: argmax is greedy sampling, and where an inference step sorts or takes a top-k it is
    # over the vocabulary (the experts' own were caught above).
    ("sampling", r"argmax|top_?k|top_?p|multinomial|penalt|beam|gathertree|stop_?words|lengthcriterion"
                 r"|rejection|draft_?token|speculative|logits|radixfindkth|radix_?sort|bitonicsort|sortkv"
                 r"|distribution_|random|exponential_kernel|curand|bernoulli|gumbel"),
    # Before quantisation: silu_and_mul_quant, as with the norms.
    ("activation", r"silu|gelu|swiglu|geglu|relu|sigmoid|tanh|act_and_mul|activation|gatedact|swish"),
    ("quantisation", r"quant|scale_\d+x\d+|cvt_(?:fp|bf)|_fp[48]_|tofp[48]|2fp[48]|scalematrix|nvfp4"),
    # PyTorch gathers rows of the embedding table with vectorized_gather or an index select.
    ("embedding", r"embedding|vocab|lookup|vectorized_gather|index_?select"),
    ("memset", r"fillfunctor|fill_kernel|memset|zero_?(?:out|fill|kernel)|uninitialized_fill"),
    # Before elementwise: PyTorch copies with its elementwise loop.
    ("copy", r"copy|catarray|concat|chunk_cat|stack_kernel|transpose|permute|split_with_sizes|memcpy|clone"
             r"|reformat|tonchw|tonhwc|slice|index_put|index_kernel|scatter|gather|cast_kernel|convert_kernel"
             r"|d2dcpy|pad_kernel|swizzle"),
    ("reduction", r"reduce|cumsum|cumprod|scankernel|kernel_scan|prefix_?sum|sum_kernel|sum_functor|meanops"
                  r"|histogram"),
    ("elementwise", r"elementwise|pointwise|eltwise|functor|foreach|for_each|multi_tensor_apply"
                    r"|add_?(?:bias|residual)|compare|where_kernel|mask|clamp|arange|range_kernel|_kernel_agent"
                    r"|(?:^|_)(?:add|mul|sub|div)_"),
)  # fmt: skip
_COMPILED = tuple((label, re.compile(pattern)) for label, pattern in _RULES)
_COMPILED_INDUCTOR = tuple((kinds.split(), label, re.compile(ops)) for kinds, label, ops in _INDUCTOR_OPS)

# What a Myelin kernel amounts to, in the order of `myelin.patterns`; nothing known means plain arithmetic.
_MYELIN_LABELS = {
    "GEMM": "gemm", "convolution": "gemm", "LayerNorm": "norm", "RMSNorm": "norm", "softmax": "softmax",
    "top-k": "sampling", "RoPE": "rope", "quantisation": "quantisation", "data movement": "copy",
}  # fmt: skip


def category(name: str) -> str:
    """Return the kind of work of a kernel, one of `CATEGORIES`.

    A fused kernel has the category of its most telling part: the GEMM of a GEMM with an activation, the norm
    of a norm that also quantises. Sources: kernel names of TensorRT-LLM, FlashInfer, vLLM, SGLang, PyTorch,
    DeepGEMM, DeepEP, NCCL and the CUDA libraries, as they stand in captures and in their source.
    """
    return _category(normalise(name)[:RULE_CHARS])


def is_communication(name: str) -> bool:
    """Tell whether a kernel's time is spent on other GPUs: collectives, all-to-all dispatch, barriers.

    Fusions around a collective (all-reduce + residual + norm) count, since the wait for the peers dominates
    them; fusions around a GEMM do not.
    """
    return _is_communication(normalise(name)[:RULE_CHARS].lower())


def _category(template: str) -> str:
    operations = myelin.decode(template)
    if operations is not None:
        return _myelin_category(operations)
    subject = template.lower()
    inductor = _INDUCTOR.match(subject)
    if inductor:
        ops = subject[inductor.end() :].removeprefix("fused_")
        found = (label for kinds, label, p in _COMPILED_INDUCTOR if inductor[1] in kinds and p.search(ops))
        return next(found, "other")
    if _is_communication(subject):
        return "communication"
    return next((label for label, pattern in _COMPILED if pattern.search(subject)), "other")


def _is_communication(subject: str) -> bool:
    if _INDUCTOR.match(subject):
        return False
    path = subject.partition("<")[0]
    return bool(_COMMUNICATION.search(path)) and not _LOCAL.search(path)


def _myelin_category(operations: list[str]) -> str:
    found = myelin.patterns(operations)
    if found:
        return _MYELIN_LABELS.get(found[0], "activation")
    if set(operations) & {"sum", "mean", "reduce max", "reduce min", "reduce", "cumsum"}:
        return "reduction"
    return "elementwise"
