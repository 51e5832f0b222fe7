"""What two kernel names have in common: the template they are instances of, its family, a short display form.

All three are read off the same tables. `normalise` is the key of the matching tier `template` and, since
`kernel_categories` classifies its result, names of one template also share family and category.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tracediff.align.kernel_syntax import KernelName, clean, parse

# A canonical form is reached in one pass, a second one proves it. A name that is still moving after this many
# was built to: it is its own template.
_MAX_PASSES = 6
# Families and categories are decided by the start of a template; no real one is as long.
RULE_CHARS = 2000
# Real identifiers reach some 3,000 characters (CuTe DSL); one that is longer than this is left as it is.
_LONGEST_IDENTIFIER = 16_384


class _TypeRule(NamedTuple):
    """Functions whose template arguments say what they compute: `keep` type names belong to the template."""

    function: re.Pattern[str]
    keep: int


# First match wins; matched at the start of `scope::function`. Everything else is told by its function's name.
_TYPE_RULES = (
    # One launcher, hundreds of kernels: the first class is the kernel (GemmUniversal, FlashAttnFwdSm90).
    _TypeRule(re.compile(r"(?:\w+::)*(?:device_kernel|Kernel2?|run_global)\Z"), 1),
    # act_and_mul_kernel<T, &silu>: vLLM, SGLang and FlashInfer pass the activation as a function.
    _TypeRule(re.compile(r"(?:\w+::)*act_and_mul\w*\Z"), 1),
    # PyTorch names the loop (vectorized_elementwise_kernel, reduce_kernel) and passes the operation.
    _TypeRule(re.compile(r"at::"), 3),
    _TypeRule(re.compile(r"thrust::(?:\w+::)*(?:_kernel_agent|static_kernel|parallel_for_kernel)\Z"), 2),
    _TypeRule(re.compile(r"cuEltwise::|c10::cuda::"), 2),
)

# Type names that say how a loop is run (element types, iterators, wrappers), not what it computes.
_PLUMBING = re.compile(
    r"(?:void|bool|char|short|int|long|float|double|signed|unsigned|half|__half\w*|__nv\w+|u?int\d+(?:_t)?"
    r"|float\d+|half_t|bfloat16_t|BFloat16|Half|Float[48]\w*|ComplexHalf|complex|size_t|true|false|const|auto"
    r"|operator|lambda|instance|[A-Z]\d*|Params|Param|Arguments"
    r"|gpu_kernel_\w+|gpu_kernel|gpu_index_kernel|gpu_reduce_kernel\w*|opmath\w*_kernel_with_scalars"
    r"|distribution_\w+_kernel|ReduceOp|func_wrapper_t|OpaqueType|[Aa]rray|tuple|pair|integral_constant"
    r"|TensorIterator\w*|\w*OffsetCalculator|(?:Load|Store)With\w+|TensorListMetadata\w*"
    r"|FusedOptimizerTensorListMetadata|CUDAGeneratorImpl|PhiloxCudaState|curandState\w*|\w*[Pp]olicy\w*|functor"
    r"|enable_\w+|ParallelForAgent|device_ptr|\w*normal_iterator|identity|always_true_predicate|no_stencil_tag"
    r"|ArrayRef|Scalar|SimpleAlgo|plus|NullType)\Z"
)


class _Coded(NamedTuple):
    """A library that codes its tuning into flat names, fields between underscores."""

    start: re.Pattern[str]
    tuning: re.Pattern[str]  # a field that a heuristic or an autotuner chose; the others say what is computed


def _coded(start: str, tuning: str) -> _Coded:
    return _Coded(re.compile(start), re.compile(rf"(?:{tuning})\Z"))


_COMMON = r"\d*|sm\d+[a-z]?|0x[0-9a-fA-F]+"
# A start has to survive the removal of tuning fields, or the template would not be its own template: hence
# `(?:sm\d+_)?xmma`. Sizes (128x64, t128x8x128u2, cga1x1x1, tilesize64x64x64) go by _TILE in all of these.
_CODED = (
    # nvjet_sm90_tst_64x16_64x16_4x1_v_bz_splitK_TNT: types, tile, stages, cluster, raster, layouts. splitK
    # stays: it comes with a second kernel. sm90 goes: cuBLAS 12 wrote no architecture.
    _coded(r"nvjet_", _COMMON + r"|[vh]|bz|coop[AB]|\dcta|algo\d+|mma|tma[AB]*|align\w*"),
    _coded(
        r"(?:sm\d+_)?xmma_|trt_[a-z]+_s|(?:ampere|turing|volta|maxwell|pascal|hopper|blackwell)_",
        _COMMON + r"|\d+x|stages?\d*|align[a-z]?\d+|ldg\d+|f2f|execute|kernel",
    ),
    _coded(
        r"cutlass\d*x?_",
        _COMMON + r"|align\d+|stages?\d*|warpspecialized|cooperative|pingpong|streamk|nosmem|epi|tma",
    ),
    # cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128_4x1x1_cga1x1x1_kernel0_0
    _coded(r"cudnn_", _COMMON + r"|knob|kernel\d+"),
    # fmha_v2_flash_attention_bf16_64_128_S_qkv_128_causal_tma_ws_sm90_kernel; fmha_cutlassF_bf16_aligned_...
    _coded(r"fmha_", _COMMON + r"|k\d+|nl|tiled|rf"),
    # TensorRT-LLM's generated GEMMs: bmm_E4m3_E4m3E4m3_Fp32_t128x8x128u2_s6_..._swiGlu_dynB_sm100f.
    _coded(
        r"[Bb]mm_[A-Z]|[Gg]emm_[A-Z]|GemmGatedActKernel_",
        _COMMON + r"|s\d+|\d+dp\d+b|r[MN]|b[MN]|[ABC]b\d+|b[ABC]\d+|sch\w+|tma\w*|ldgsts\w*|rgTma|clmp"
        r"|transOut|tokSf\w|noShfl\w|l\w*bW\d+|u\d+",
    ),
    _coded(r"nvfuser_", _COMMON + r"|[fcrg]\d+"),
    _coded(r"_*mye?l?\d*_|_+ge[mv]+_mha", _COMMON + r"|bb\d+|myl\d+|mye\d*"),
)
_TILE = re.compile(r"\dx\d")
_GEMM_FIELD = re.compile(r"\w*x\d+(gemm\w*)\Z")
# Layouts: the first two letters are the operands', the rest is how the kernel runs (the same matmul is TNT
# with a 64x8 tile and TNN with a 16x64 one).
_NVJET_LAYOUT = re.compile(r"([NT]{2})[NT]{1,2}\Z")

# TensorRT-LLM's generated attention, one camel-case word: sizes and schedule are tuning, types are not.
_FMHA_GEN = re.compile(r"[Ff]mhaSm")
_FMHA_TUNING = re.compile(
    r"(Bfloat16|E\dm\d|Fp16|Fp32)"
    r"|(?:\d(?:[af](?=Kernel))?|MultiCtasKv(?:Cga)?|HVPerCta|Static|Persistent|SwapsAb|KeepsAb|#)+"
)
# CuTe DSL appends the layouts of all arguments to the kernel's name.
_CUTE = "kernel_cutlass_"
_CUTE_ARGUMENTS = re.compile(r"_object_at_|_tensor(?:ptr|\d)|_CopyAtom_|_TiledMMA_")

_HEX = re.compile(r"(?=[0-9a-f]{0,64}[a-f])(?=[0-9a-f]{0,64}\d)[0-9a-f]{8,64}\Z")
_DTYPES = re.compile(r"(?:bf16|f16|f32|f64|f8|e4m3|e5m2|fb)+\Z")  # bf16bf16 is hexadecimal too
_POINTER = re.compile(r"0x[0-9a-fA-F]+\Z")
_COUNTER = re.compile(r"(?:\d+|0d[0-9dec]+|myl\d+|)\Z")  # 0d1d2de: specialised arguments of old Triton
_NUMBERED_KERNEL = re.compile(r"(.*kernel)\d+\Z", re.DOTALL)


def normalise(name: str) -> str:
    """Return the template that a kernel name is an instance of, as `scope::function` or `...<operation>`.

    Names that differ in template arguments, tiles, hashes, counters, generated namespaces, return type or
    parameters get one answer; functions of one family keep theirs, and a generic launcher (PyTorch's
    elementwise loops, `cutlass::device_kernel`) keeps the operation it was instantiated with.
    `normalise(normalise(x)) == normalise(x)`.
    """
    text = first = clean(name)
    for _ in range(_MAX_PASSES):
        after = _template(parse(text))
        if after == text:
            return text
        text = after
    return first


def short(name: str, width: int = 80) -> str:
    """Return a display form of at most `width` characters: function, operation or tile, no parameters.

    Flat names keep their tile and counter (two of them may stand side by side in a table); a name that does
    not fit loses its middle, since both ends of a generated name tell instances apart.
    """
    parsed = parse(name)
    path = _without_cute_arguments(parsed.function)
    # `kernel`, `dispatch`, `Marlin` mean something only with their namespace.
    if parsed.scope and (len(path) < 10 or path == "kernel"):
        path = f"{parsed.scope[-1]}::{path}"
    inside = ", ".join(_kept_types(parsed, exact=True))
    if inside and (tile := _tile(name)):
        inside += f" {tile}"
    text = f"{path}<{inside}>" if inside else path
    # The class of a cutlass 2.x kernel is a flat name with everything in it; Kernel2 says nothing beside it.
    if inside.startswith("cutlass_"):
        text = inside
    width = max(width, 1)
    if len(text) <= width:
        return text
    tail = (width - 1) * 2 // 5
    return text[: width - 1 - tail] + "…" + (text[-tail:] if tail else "")


def _template(parsed: KernelName) -> str:
    path = "::".join((*parsed.scope, _strip_tuning(parsed.function)))
    types = _kept_types(parsed)
    return f"{path}<{', '.join(types)}>" if types else path


def _kept_types(parsed: KernelName, *, exact: bool = False) -> list[str]:
    """Return the types that are part of the template; `exact` leaves their tuning fields in."""
    if not parsed.types:
        return []
    # Bounded: this is matched against a pattern, and no real path is longer.
    path = "::".join((*parsed.scope, parsed.function))[-RULE_CHARS:]
    count = next((rule.keep for rule in _TYPE_RULES if rule.function.match(path)), 0)
    kept: dict[str, None] = {}
    for name in parsed.types:
        if len(kept) == count:
            break
        stripped = name if exact else _strip_tuning(name)
        if len(name) > 1 and not _PLUMBING.match(name) and not _PLUMBING.match(stripped):
            kept[stripped] = None
    return list(kept)


def _strip_tuning(identifier: str) -> str:
    """Drop from an identifier what tells instances of one kernel apart; never returns an empty string."""
    if len(identifier) > _LONGEST_IDENTIFIER:
        return identifier
    if _FMHA_GEN.match(identifier):
        return _FMHA_TUNING.sub(lambda m: m[1] or "#", identifier)
    identifier = _without_cute_arguments(identifier)
    fields = identifier.split("_")
    coded = next((rule for rule in _CODED if rule.start.match(identifier)), None)
    if coded is not None:
        # Leading underscores are part of the name (__myl_...), other empty fields are not.
        lead = len(identifier) - len(identifier.lstrip("_"))
        kept = [_field(f) for f in fields[lead:] if not coded.tuning.match(f)]
        fields = [""] * lead + [f for f in kept if f and not _is_hash(f)]
        if fields and coded.start.pattern == "nvjet_":
            fields[-1] = _NVJET_LAYOUT.sub(r"\1", fields[-1])
    else:
        fields = [f for f in fields if not _POINTER.match(f) and not _is_hash(f)]
        while fields and _COUNTER.match(fields[-1]):
            fields.pop()
        if fields and (numbered := _NUMBERED_KERNEL.match(fields[-1])):
            fields[-1] = numbered[1]
    return "_".join(fields) if any(fields) else identifier


def _without_cute_arguments(identifier: str) -> str:
    cut = _CUTE_ARGUMENTS.search(identifier) if identifier.startswith(_CUTE) else None
    return identifier[: cut.start()] if cut else identifier


def _is_hash(field: str) -> bool:
    return bool(_HEX.match(field)) and not _DTYPES.match(field)


def _field(field: str) -> str:
    """Return a field of a coded name without its tile: s64x128x16gemm is a gemm, splitK4 is splitK."""
    if _TILE.search(field):
        gemm = _GEMM_FIELD.match(field)
        return gemm[1] if gemm else ""
    return "splitK" if field.startswith("splitK") else field


_EXTENT = r"(?:cute::)?C<(?:\(int\))?(\d{1,4})>"
_TUPLE = re.compile(f"tuple<{_EXTENT}, {_EXTENT}, {_EXTENT}>")


def _tile(name: str) -> str:
    """Return the tile of a cutlass 3.x kernel: the largest of its first shapes, the others are clusters."""
    shapes = [tuple(map(int, match.groups())) for match in _TUPLE.finditer(name, 0, 4 * RULE_CHARS)]
    tile = max(shapes[:4], key=lambda shape: shape[0] * shape[1] * shape[2], default=())
    return "x".join(map(str, tile))


# The subject is the template, in lower case. First match wins; the order matters where one library carries
# another's kernels: FlashInfer ships TensorRT-LLM's, PyTorch wraps cub, vLLM and FA3 instantiate cutlass.
_FAMILIES = tuple(
    (family, re.compile(pattern))
    for family, pattern in (
        ("cuda", r"\[?(?:cuda )?mem(?:cpy|set)\b"),
        ("nccl", r"nccl|rccl"),
        ("nvshmem", r"(?:\w+::)*(?:nvshmem|rocshmem)|(?:barrier|barrier_all|sync)_on_stream_kernel"),
        ("deepep", r"deep_ep::|hybrid_ep::"),
        ("deepgemm", r"deep_gemm::"),
        ("myelin", r"_*mye?l?\d*_|_+ge[mv]+_mha"),
        ("nvjet", r"nvjet"),
        ("cudnn", r"cudnn"),
        # The trt suffix: TensorRT's own copies of the cuBLAS kernels.
        ("tensorrt", r"(?:xmma_|trt_)\w*_trt\Z|trt_(?!llm|edge)|generatednative|genericreformat::|cueltwise::"
                     r"|cuint8::|cuslicelayer::|nvinfer1::"),
        ("cublaslt", r"cublaslt"),
        ("cublas", r"xmma_|(?:ampere|turing|volta|maxwell|pascal|hopper|blackwell)_|cublas|gemv2[tn]|gemvnsp"
                   r"|(?:internal::)?gemvx|gemm(?:sn|k1)|dot_kernel|splitkreduce_kernel"),
        ("flashinfer", r"flashinfer::|kernel_cutlass_kernel_flashinfer"),
        ("flash-attention", r"(?:pytorch_)?flash(?:_|::|attn)|fmha_cutlass|kernel_cutlass_\w*flash_?attn"
                            r"|(?:\w+::)*device_kernel<flash|sm\d+::(?:\w+::)*\w*(?:flash|attn)"),
        ("tensorrt-llm", r"(?:\w+::)?(?:tensorrt_llm|trtllm|trt_edgellm)|fmha_v2|fmhasm|bmm_|gemm_[a-z]"
                         r"|gemmgatedact|kernel_mha|mmha::|moe::dev|fused_moe::|userbuffers"),
        ("vllm", r"vllm::|marlin|(?:\w+::)?gptq|awq"),
        ("sglang", r"sglang::|sgl_"),
        ("cutlass", r"(?:\w+::)*cutlass|kernel_cutlass|cute::|device_kernel|(?:\w+::)*kernel2"),
        ("thrust", r"thrust::"),
        ("cub", r"(?:\w+::)?cub::|device(?:radixsort|scan|reduce|segmented|select|merge)"),
        ("pytorch", r"at::|c10|torch|(?:\w+::)*multi_tensor_apply"),
        ("nvfuser", r"nvfuser|cudacodegen"),
        ("triton", r"triton_|_(?!_)\w*\Z|fused_moe_kernel|kernel_(?:unified_)?attention|chunk_\w+\Z"
                   r"|fused_recurrent|matmul_kernel|\w*_(?:fwd|bwd)_kernel\w*\Z"),
    )
)  # fmt: skip


def family(name: str) -> str:
    """Return the library a kernel comes from (`nvjet`, `cutlass`, `pytorch`, ...), or `other`."""
    subject = normalise(name)[:RULE_CHARS].lower()
    return next((label for label, pattern in _FAMILIES if pattern.match(subject)), "other")
