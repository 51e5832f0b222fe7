"""What two kernel names have in common: the template they are instances of, its family, a short display form.

All three are read off the same tables. `normalise` is the key of the matching tier `template` and, since
`categories` classifies its result, names of one template also share family and category.
"""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

from tracediff.kernels import myelin

# The grammar of a kernel name: demangled C++, mangled C++ or a flat generated name, read in one pass.

# Types named in one template argument list that are kept; deeper ones never decide what a kernel does.
_MAX_TYPES = 256

# Markers that stand for a bracket group in the outline of a name. `clean` leaves no control character in a
# name, so they cannot come from the name itself.
_ANGLE, _PARENS, _OTHER = "\x01", "\x02", "\x03"
_MARKERS = re.compile("[\x01-\x03]")
_OPENERS = {"(": _PARENS, "[": _OTHER, "{": _OTHER}
# "&" is a parenthesis that only groups: `&(float silu<float>(float const&))`, a function given as argument.
_CLOSES = {")": "(&", "]": "[", "}": "{"}

_BRACKET = re.compile(r"[<>()\[\]{}]")
# Not 2ul or 8u, not a namespace; but thrust's operations are all called `functor`, each in a namespace of its
# own that says which.
_TYPE = re.compile(r"(?<!\w)([A-Za-z_~][\w#]*)(::(?!functor\b))?")
# `operator<(` would open a template argument list that never closes.
_OPERATOR = re.compile(r"operator ?(?:->|<<|>>|<=|>=|<|>)(?=\()")
# Inline and generated namespaces: anonymous ones carry a hash of the source file, CCCL's a version and an
# architecture (CUB_300001_SM_900), TensorRT-LLM's and CCCL's inline ones a version (_v1, _V_300001_SM_900).
_GENERATED_SCOPE = re.compile(
    r"_GLOBAL__N_.*|_INTERNAL_.*|(?:CUB|THRUST)_\d.*|_V_\d.*|_v\d+|_+\d+|const|<unnamed>", re.DOTALL
)
# A memory operation or a fused TensorRT layer is a phrase, not a function.
_PHRASE = re.compile(r"\[?(?:cuda )?mem(?:cpy|set)\b", re.IGNORECASE)
# What a mangled name is cut into: literals, substitutions, template parameters, closures, lengths. Every
# repetition is bounded: hostile runs of one letter must not be searched to their end from each start.
_MANGLED = re.compile(r"L[a-z]n?\d{1,20}E|S[0-9A-Z]{0,3}_|T[0-9A-Z]{0,3}_|E\d{0,4}_|I|E|(\d{1,4})")
_MANGLED_START = re.compile(r"_Z(?:N|L?\d)")


class KernelName(NamedTuple):
    """A kernel name taken apart.

    `scope` are the namespaces (generated ones left out), `function` is the function's own name, `types` the
    class and function names in its template arguments in order of appearance (namespaces, parameter lists and
    lambdas left out), `templated` whether there was such a list at all.
    """

    scope: tuple[str, ...]
    function: str
    types: tuple[str, ...]
    templated: bool


def clean(name: str) -> str:
    """Return the name without control characters, anonymous namespaces and surrounding blanks."""
    if not name.isprintable():
        name = "".join(c if c.isprintable() else " " for c in name)
    # nsys writes <unnamed>, c++filt and Kineto write (anonymous namespace).
    name = name.replace("(anonymous namespace)::", "").replace("<unnamed>::", "")
    return _OPERATOR.sub("operator", name).strip()


def parse(name: str) -> KernelName:
    """Take a kernel name apart, demangled or mangled; every string has an answer.

    Source of the two demangled spellings: nsys (`(int)4`, `<unnamed>`, `[lambda() (instance 1)]`) and
    c++filt (`4`, `(anonymous namespace)`, `{lambda()#1}`); both give the same answer.
    """
    text = clean(name)
    parsed = _parse_demangled(text)
    if not parsed.scope and not parsed.templated:
        demangled = _demangle(parsed.function)
        if demangled is not None:
            return _parse_demangled(demangled)
    return parsed


def _parse_demangled(text: str) -> KernelName:
    outline, groups = _outline(text)
    if _PHRASE.match(text) or " + " in outline:
        return KernelName((), " ".join(_MARKERS.sub("", outline).split()) or text, (), False)
    path, start = _function_path(outline)
    parts = path.split("::")
    function = _MARKERS.sub("", parts[-1]).strip()
    if not function:
        return KernelName((), text, (), False)
    scope = (_MARKERS.sub("", part).strip() for part in parts[:-1])
    kept = tuple(part for part in scope if part and not _GENERATED_SCOPE.fullmatch(part))
    if _ANGLE not in parts[-1]:
        return KernelName(kept, function, (), False)
    # The groups are numbered in the order of their markers in the outline.
    last = outline.count(_ANGLE, 0, start) + path.count(_ANGLE) - 1
    return KernelName(kept, function, tuple(groups[last]), True)


def _outline(text: str) -> tuple[str, list[list[str]]]:
    """Return the name with each outermost bracket group replaced by a marker, and the types in each <>."""
    outline: list[str] = []
    groups: list[list[str]] = []
    stack: list[str] = []
    open_count = dict.fromkeys("<([{&", 0)
    opaque = 0  # open brackets other than < and &: nothing inside them names what the kernel does
    pos = 0

    def emit(end: int) -> None:
        if not stack:
            outline.append(text[pos:end])
        elif not opaque and groups and len(groups[-1]) < _MAX_TYPES:
            groups[-1].extend(m[1] for m in _TYPE.finditer(text, pos, end) if not m[2])

    for match in _BRACKET.finditer(text):
        char, at = match[0], match.start()
        # Inside parentheses < and > may compare; ->, wherever it stands, closes nothing.
        if char in "<>" and (opaque or (char == ">" and text[at - 1 : at] == "-")):
            continue
        if at > pos:
            emit(at)
        pos = at + 1
        if char == "<":
            if not stack:
                outline.append(_ANGLE)
                groups.append([])
        elif char in _OPENERS:
            if not stack:
                outline.append(_OPENERS[char])
            if char == "(" and stack and not opaque and text[at - 1] == "&":
                char = "&"
            else:
                opaque += 1
        else:
            opaque -= _pop(stack, open_count, _CLOSES.get(char, "<"))
            continue
        stack.append(char)
        open_count[char] += 1
    emit(len(text))
    return "".join(outline), groups


def _pop(stack: list[str], open_count: dict[str, int], kinds: str) -> int:
    """Pop up to the innermost bracket of `kinds`; return how many opaque ones went. No such bracket: 0."""
    opaque = 0
    if not any(open_count[kind] for kind in kinds):
        return opaque
    if kinds == "<" and stack[-1] != "<":
        return opaque  # a stray > inside a grouping parenthesis
    while True:
        top = stack.pop()
        open_count[top] -= 1
        opaque += top not in "<&"
        if top in kinds:
            return opaque


def _function_path(outline: str) -> tuple[str, int]:
    """Return the qualified function in an outline, without return type and parameters, and its start."""
    text = outline.rstrip()
    params = text.rfind(_PARENS)
    # The last parameter list is the kernel's own, unless a local name follows it: `f(int)::g<...>`.
    if params >= 0 and "::" not in text[params:]:
        text = text[:params].rstrip()
    if text == outline.rstrip() and not _MARKERS.search(text) and not text.startswith("void "):
        return text, 0
    start = text.rfind(" ") + 1
    return text[start:], start


def _demangle(text: str) -> str | None:
    """Read an Itanium-mangled function as `scope::function<types>`; None when it is not one.

    Profilers leave names mangled that their demangler gives up on (cutlass kernels of several kilobytes), so
    only what `parse` keeps is read: the nested name, and the class names of its template arguments.
    """
    if not _MANGLED_START.match(text):
        return None
    path: list[str] = []
    types: list[str] = []
    in_arguments = False
    pos = 2
    while len(types) < _MAX_TYPES and (match := _MANGLED.search(text, pos)):
        pos = match.end()
        if match[1] is None:
            # The first I opens the function's template arguments, an E before it ends its nested name.
            if match[0] == "E" and path and not in_arguments:
                break
            in_arguments = in_arguments or (match[0] == "I" and bool(path))
            continue
        length = int(match[1])
        identifier = text[pos : pos + length]
        # Enumerators (E0E) look like lengths; no type that matters has fewer than three letters.
        if (in_arguments and length < 3) or len(identifier) < length or not identifier.isidentifier():
            continue
        pos += length
        if not in_arguments:
            path.append(identifier)
            if not text.startswith("_ZN"):
                if text[pos : pos + 1] != "I":  # what follows are the types of its parameters
                    break
                in_arguments = True
        elif not text[pos : pos + 1].isdigit():  # a length right behind it makes it a namespace
            types.append(identifier)
    if not path or path[-1].startswith("_Z"):
        return None
    return "::".join(path) + (f"<{', '.join(types)}>" if types else "")


# A canonical form is reached in one pass, a second one proves it. A name that is still moving after this many
# was built to: it is its own template.
_MAX_PASSES = 6
# Families and categories are decided by the start of a template; no real one is as long.
RULE_CHARS = 2000
# Names whose templates are kept: a capture asks for each of its hundred some ten times.
_NAMES = 1024
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
# NVIDIA's HPC compilers name the kernel of a loop after its file, its line and a counter: nvkernel_main_F1L204_2.
_LINE = re.compile(r"(?:\A|_)F\d{1,9}L\d{1,9}(?:_\d{1,9})*\Z")
# Compilers that number their kernels over: Inductor, Myelin, nvFuser, XLA, NVIDIA's HPC compilers.
_COMPILED = re.compile(
    r"triton_(?:poi|red|per|tem|for|mm|bmm|spl|split_scan)_|_*mye?l?\d*_|nvfuser_|wrapped_[a-z_]+(?:_\d+)*\Z"
    r"|(?:\w+_)?fusion(?:_dot(?:_general)?)?(?:_\d+)*\Z"
)
# Tensile (hipBLASLt, rocBLAS) writes all of its tuning behind the tile: Cijk_Alik_Bljk_BBS_BH_MT64x16x64_MI16x16x1_SN_...
_TENSILE = re.compile(r"(Cijk_\w{1,200}?)_MT\d")
# CuTe DSL appends the layouts of all arguments to the kernel's name.
_CUTE = "kernel_cutlass_"
_CUTE_ARGUMENTS = re.compile(r"_object_at_|_tensor(?:ptr|\d)|_CopyAtom_|_TiledMMA_")

_HEX = re.compile(r"(?=[0-9a-f]{0,64}[a-f])(?=[0-9a-f]{0,64}\d)[0-9a-f]{8,64}\Z")
_DTYPES = re.compile(r"(?:bf16|f16|f32|f64|f8|e4m3|e5m2|fb)+\Z")  # bf16bf16 is hexadecimal too
_POINTER = re.compile(r"0x[0-9a-fA-F]+\Z")
_COUNTER = re.compile(r"(?:\d+|0d[0-9dec]+|myl\d+|)\Z")  # 0d1d2de: specialised arguments of old Triton
_NUMBERED_KERNEL = re.compile(r"(.*kernel)\d+\Z", re.DOTALL)


@functools.lru_cache(maxsize=_NAMES)
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


def is_numbered(name: str) -> bool:
    """Whether a compiler made the name with a number in it, which another build of the same program may not repeat."""
    return bool(_COMPILED.match(name) or _LINE.search(name))


def is_kernel(name: str) -> bool:
    """Whether an op of that name is a kernel: no copy, no memset, no graph traced as a whole. A kernel's own name may begin with a bracket."""
    return not name.startswith(("[memcpy", "[memset", "[graph"))


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
    if tensile := _TENSILE.match(identifier):
        return tensile[1]
    if line := _LINE.search(identifier):
        return identifier[: line.start()] or "F#L#"
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
        ("tensile", r"cijk_"),
        ("composable-kernel", r"ck(?:_tile)?::|ck_"),
        ("aiter", r"(?:\w+::)*aiter|fmoe_"),
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


# What kind of work a kernel does, from its name: gemm, attention, norm, communication, ...
#
# The rules read the kernel's template (`names.normalise`), so all instances of a template share a
# category, and a word in a parameter list or an element type decides nothing. `is_communication` also decides
# whether a kernel's time is accounted as communication or as compute.


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
_COMPILED_RULES = tuple((label, re.compile(pattern)) for label, pattern in _RULES)
_COMPILED_INDUCTOR = tuple((kinds.split(), label, re.compile(ops)) for kinds, label, ops in _INDUCTOR_OPS)

# What a Myelin kernel amounts to, in the order of `myelin.patterns`; nothing known means plain arithmetic.
_MYELIN_LABELS = {
    "GEMM": "gemm", "convolution": "gemm", "LayerNorm": "norm", "RMSNorm": "norm", "softmax": "softmax",
    "top-k": "sampling", "RoPE": "rope", "quantisation": "quantisation", "data movement": "copy",
}  # fmt: skip


# Kernels with generated names, by what reports call all of them -> their category.
GROUPS = {"GEMM": "gemm", "attention": "attention", "NCCL": "communication"}


def category(name: str) -> str:
    """Return the kind of work of a kernel, one of `CATEGORIES`.

    A fused kernel has the category of its most telling part: the GEMM of a GEMM with an activation, the norm
    of a norm that also quantises. Sources: kernel names of TensorRT-LLM, FlashInfer, vLLM, SGLang, PyTorch,
    DeepGEMM, DeepEP, NCCL and the CUDA libraries, as they stand in captures and in their source.
    """
    return _category(normalise(name)[:RULE_CHARS])


# NCCL's kernels. From NCCL 2.19 on one kernel stands for many: its name tells a tree from everything else, which goes by RING, and always
# ends in LL (best_kernel in NCCL's generate.py); before, and in builds with exact names, algorithm and protocol are those that run.
_COLLECTIVE = re.compile(
    r"nccl(?P<shared>Dev)?Kernel_(?P<what>AllReduce|AllGather|ReduceScatter|Broadcast|Reduce)"
    r"(?:_[A-Za-z0-9]+)*?_(?P<algorithm>RING|TREE|NVLS_TREE|NVLS|COLLNET_\w+?|PAT)_(?P<protocol>LL128|LL|SIMPLE)(?![A-Z0-9])"
)
_SPELLED = {
    "AllReduce": "all-reduce", "AllGather": "all-gather", "ReduceScatter": "reduce-scatter", "Broadcast": "broadcast", "Reduce": "reduce",
}  # fmt: skip


def collective(name: str) -> tuple[str, str]:
    """Return which collective a kernel of NCCL runs, and its algorithm and protocol as far as the name tells them; ("", "") others."""
    found = _COLLECTIVE.search(name[:RULE_CHARS])
    if found is None:
        return "", ""
    protocol = "" if found["shared"] and found["protocol"] == "LL" else f" {found['protocol']}"
    return _SPELLED[found["what"]], found["algorithm"] + protocol


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
    return next((label for label, pattern in _COMPILED_RULES if pattern.search(subject)), "other")


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
