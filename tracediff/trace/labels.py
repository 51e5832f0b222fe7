"""Where step labels come from: the range names of the stacks that name their steps, as patterns.

Every pattern was read from the source that writes the range; it is named above it. The order is the order of
trial: a stack's own iteration range before ranges that users name themselves.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tracediff.errors import TracediffError


@dataclass(frozen=True)
class StepLabels:
    """A way to recognise step labels: an RE2 pattern and which of its groups hold what (0: no such group)."""

    name: str
    pattern: str
    number: int = 0
    ctx: int = 0
    tokens: int = 0
    gen: int = 0


# NVIDIA/TensorRT-LLM tensorrt_llm/_torch/pyexecutor/py_executor.py, _forward_step: around the forward pass of
# every iteration. Older versions have no step number or no token count.
TENSORRT_LLM = StepLabels(
    "tensorrt-llm",
    r"_forward_step(?:\s+(\d+))?:\s+(\d+) ctx reqs,(?:\s+(\d+) ctx tokens,)?\s+(\d+) gen reqs",
    number=1, ctx=2, tokens=3, gen=4,
)  # fmt: skip
# pytorch/pytorch torch/profiler/profiler.py, step: a record_function, so in traces of torch.profiler, and an NVTX
# range under torch.autograd.profiler.emit_nvtx.
PROFILER_STEP = StepLabels("profiler-step", r"^ProfilerStep#(\d+)$", number=1)

# One match is enough to know that these are the labels; a single one is an error of its own (one-step).
SOURCES: tuple[StepLabels, ...] = (TENSORRT_LLM, PROFILER_STEP)

# NVIDIA/TensorRT-LLM cpp/tensorrt_llm/batch_manager/trtGptModelInflightBatching.cpp, forwardAsync: the C++
# executor, once an iteration; the name was ModelForwardAsync, then ...::ForwardAsync, then ...::forwardAsync.
# Only where it was built with --nvtx (docs/source/developer-guide/perf-analysis.md).
_TENSORRT_LLM_CPP = StepLabels(
    "tensorrt-llm-cpp", r"^(?:TrtGptModelInflightBatching::[Ff]orwardAsync|ModelForwardAsync)$"
)

# vllm-project/vllm vllm/v1/worker/gpu_worker.py, annotate_profile: around execute_model. An NVTX range with the
# profiler "cuda", a record_function with "torch" (vllm/profiler/wrapper.py). In each bracket the first number is
# tokens. The long form comes with detailed_trace_annotation (vllm/config/profiler.py): all scheduled tokens after
# "execute_", then sums over requests (sq tokens, sk lengths, sqsq and sqsk products).
_VLLM_EXECUTE = StepLabels(
    "vllm",
    r"^execute_(?:\d+_)?context_(\d+)\((?:sq)?(\d+)[^)]*\)_generation_(\d+)\(",
    ctx=1, tokens=2, gen=3,
)  # fmt: skip
# The same function in older versions. New requests are in their context; later chunks of a long prompt
# count as cached.
_VLLM_EXECUTE_OLD = StepLabels("vllm", r"^execute_new_(\d+)_cached_(\d+)$", ctx=1, gen=2)
# vllm-project/vllm vllm/v1/worker/gpu_model_runner.py, execute_model, with VLLM_NVTX_SCOPES_FOR_PROFILING=1
# (NVTX) or VLLM_CUSTOM_SCOPES_FOR_PROFILING=1 (record_function): vllm/v1/utils.py,
# record_function_or_nullcontext. The first scope of a step; "forward", "postprocess" and "sample" follow it.
_VLLM_SCOPE = StepLabels("vllm", r"^gpu_model_runner: preprocess$")

# sgl-project/sglang python/sglang/srt/managers/scheduler.py, run_batch: once an iteration, with every draft
# forward of it inside. An NVTX range with SGLANG_ENABLE_NVTX_SCHEDULER=1 (older: SGLANG_ENABLE_NVTX) and the
# package nvtx, a record_function under torch.profiler: python/sglang/srt/utils/nvtx_utils.py.
_SGLANG_BATCH = StepLabels("sglang", r"^scheduler\.run_batch$")
# sgl-project/sglang python/sglang/srt/model_executor/model_runner.py, _build_step_span_name, around each forward:
# a record_function only. With detailed_annotations of /start_profile sums over requests follow (c_ for context,
# g_ for generation), and MIXED says how many of its requests are which (c=, g=).
_SGLANG_SPAN = StepLabels(
    "sglang",
    r"^step\[(?:(?:EXTEND bs=|MIXED bs=\d+ c=)(\d+))?(?:(?:(?:DECODE|TARGET_VERIFY) bs=| g=)(\d+))?"
    r"(?: (?:toks|c_sq)=(\d+))?(?:[A-Z_0-9]+ bs=\d+)?(?: \w+=\d+)*\]$",
    ctx=1, gen=2, tokens=3,
)  # fmt: skip

# Hugging Face transformers writes no range. nsys puts one around the functions that
# tracediff/capture/functions.json names (--python-functions-trace, in nsys 2023 --python-nvtx-annotations), called
# module.class.function.
# huggingface/transformers src/transformers/generation/utils.py: prepare_inputs_for_generation begins the forward
# pass of the prompt (_prefill) and of every token (_sample, _beam_search, _assisted_decoding).
_HF_GENERATE = StepLabels(
    "hf-generate", r"^transformers\.generation\.utils\.GenerationMixin\.prepare_inputs_for_generation$"
)
# src/transformers/generation/continuous_batching/continuous_api.py (older: one file,
# continuous_batching.py): _generation_step once a batch, in older versions inside _inner_generation_loop.
_HF_BATCHING = StepLabels(
    "hf-continuous-batching",
    r"^transformers\.generation\.continuous_batching(?:\.continuous_api)?\.ContinuousBatchingManager"
    r"\._(?:generation_step|inner_generation_loop)$",
)
# src/transformers/trainer.py, training_step: once a micro-batch; the optimizer's step follows the last one.
_HF_TRAINER = StepLabels("hf-trainer", r"^transformers\.trainer\.Trainer\.training_step$")

# NVIDIA-NeMo/Megatron-Bridge src/megatron/bridge/training/train.py, train: training_step_<step> around each
# iteration (pull request 5642). Megatron-LM names functions of an iteration, not the iteration.
_MEGATRON = StepLabels("megatron", r"^training_step_(\d+)$", number=1)
# NVIDIA-NeMo/Automodel nemo_automodel/recipes/llm/benchmark.py, run_benchmark: a range for each micro-batch
# of an iteration; the first of them begins the step.
_AUTOMODEL = StepLabels("nemo-automodel", r"^iteration_(\d+)_ga_step_0$", number=1)
# deepspeedai/DeepSpeed deepspeed/runtime/engine.py, forward, with instrument_w_nvtx (deepspeed/utils/nvtx.py): the
# function's qualified name, once a micro-batch; DeepSpeedEngine.backward and .step follow it.
_DEEPSPEED = StepLabels("deepspeed", r"^DeepSpeedEngine\.forward$")
# Lightning-AI/pytorch-lightning src/lightning/pytorch/profilers/pytorch.py, start: "[pl][profile]" +
# action, an NVTX range with emit_nvtx=True. The action run_training_batch is from
# src/lightning/pytorch/loops/training_epoch_loop.py, those of a strategy from
# src/lightning/pytorch/trainer/trainer.py; outside fit a batch is one such call.
_LIGHTNING = StepLabels("lightning", r"^\[pl\]\[profile\]run_training_batch\b")
_LIGHTNING_EVAL = StepLabels(
    "lightning", r"^\[pl\]\[profile\]\[Strategy\]\w+\.(?:validation|test|predict)_step\b"
)

# What users call the range around an iteration of their own loop: "iteration12" is from PyTorch's
# introduction (dev-discuss.pytorch.org, "Using Nsight Systems to profile GPU workload") and copied from
# there into many training loops; "step 12" and "step_12" are from Trainer callbacks and benchmark scripts,
# "decode_step" from hand-written engines. Only punctuation and numbers may follow: "step 3 forward" is a
# part.
_WORDS = (
    "train|training|decode|decoding|prefill|generate|generation|inference|engine|executor|model|global|profile"
    "|bench|benchmark|warmup"
)
_NAMED = StepLabels(
    "step-range",
    rf"(?i)^\W*(?:(?:{_WORDS})[\s_.:/-]?)?(?:steps?|iterations?|iter)(?:[\s_:#=\[(-]*(\d+)[\W\d]*|\W*)$",
    number=1,
)

USERS = _NAMED.name  # words that may as well be around a whole run

# Tried after SOURCES; one is taken where at least two of its labels, on one thread, have GPU work.
PRESETS: tuple[StepLabels, ...] = (
    _TENSORRT_LLM_CPP, _VLLM_EXECUTE, _VLLM_EXECUTE_OLD, _VLLM_SCOPE, _SGLANG_BATCH, _SGLANG_SPAN, _MEGATRON,
    _AUTOMODEL, _DEEPSPEED, _LIGHTNING, _LIGHTNING_EVAL, _NAMED, _HF_BATCHING, _HF_TRAINER, _HF_GENERATE,
)  # fmt: skip


_UNLIKE = ("a" * 12, "0" * 12, "~" * 12)  # names that have nothing in common
RE2 = r"for example 'step (?P<number>\d+)': RE2 syntax, without look-around and back-references"


def from_regex(text: str) -> StepLabels:
    """`--step-regex`: groups named number, ctx, tokens, gen say what they hold.

    A lone unnamed group is the number.
    Raises `TracediffError`: bad-step-regex.
    """
    if not text:
        raise TracediffError("bad-step-regex", "--step-regex is empty: every range would be a step", fix=RE2)
    try:
        compiled = re.compile(text)
    except re.error as error:
        raise TracediffError("bad-step-regex", f"--step-regex {text!r}: {error}", fix=RE2) from error
    if all(compiled.search(name) for name in _UNLIKE):
        raise TracediffError(
            "bad-step-regex",
            f"--step-regex {text!r} matches any name: every range would be a step, ranges inside others too",
            fix=RE2,
        )
    named = compiled.groupindex
    number = named.get("number", 1 if compiled.groups == 1 and not named else 0)
    return StepLabels(
        f"step-regex:{text}", text, number, named.get("ctx", 0), named.get("tokens", 0), named.get("gen", 0)
    )
