"""Where step labels come from: the range names of the stacks that name their steps, as patterns.

Every pattern was read from the source that writes the range; it is named above it. The order is the order of
trial: a stack's own iteration range before ranges that users name themselves.
"""

from __future__ import annotations

import re
from itertools import pairwise

import msgspec
import numpy as np

from tracediff.arrays import Bools, Hashes, Ints
from tracediff.errors import UsageError
from tracediff.formats.capture import Capture
from tracediff.formats.database import sql
from tracediff.trace.periods import STRUCTURED, cycle, segments
from tracediff.trace.threads import mask


class StepLabels(msgspec.Struct, frozen=True):
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
        raise UsageError("bad-step-regex", "--step-regex is empty: every range would be a step", fix=RE2)
    try:
        compiled = re.compile(text)
    except re.error as error:
        raise UsageError("bad-step-regex", f"--step-regex {text!r}: {error}", fix=RE2) from error
    if all(compiled.search(name) for name in _UNLIKE):
        raise UsageError(
            "bad-step-regex",
            f"--step-regex {text!r} matches any name: every range would be a step, ranges inside others too",
            fix=RE2,
        )
    named = compiled.groupindex
    number = named.get("number", 1 if compiled.groups == 1 and not named else 0)
    return StepLabels(
        f"step-regex:{text}", text, number, named.get("ctx", 0), named.get("tokens", 0), named.get("gen", 0)
    )


# Which ranges label steps, by evidence: for names that no table knows.
#
# A family is what one thread says in one NVTX domain, with numbers masked. Its windows are [start, next start);
# that of its last range ends with the range.


ENOUGH = 5  # points that a family needs to be taken

# What refuses a family, and how far it must go.
MOST_OVERLAPS = 0.05  # ranges that begin before the one before them ended
LEAST_WORKING = 0.8  # windows with a kernel
LEAST_AFTER = 0.5  # ops of the process after the first range began
LEAST_INSIDE = 0.3  # ops launched inside the ranges
LEAST_RANGES, LEAST_NUMBERED = 4, 2

# What gives points.
_RISES, _DISTINCT = 0.9, 0.95  # numbers one above the one before; different numbers
_INSIDE, _MOSTLY_INSIDE = 0.6, 0.9  # ops launched inside the ranges
_WAITED = 0.9  # windows in which the host waits for a result
_ALIKE = 0.6  # ops in classes of windows that occur three times
_POINTS = {"number": 3, "word": 2, "inside": 1, "mostly-inside": 2, "waits": 1, "alike": 1, "part": -2}

# Names that frameworks give to their own functions and to the layers of a model: parts of a step, at best.
LIBRARY = (
    r"^(?:aten|cub|thrust|at|c10|c10d|autograd|FSDP|torch|cudnn|cublas)::|^nccl|^nn\.Module|^autograd::|^Optimizer\."
    r"|^DistributedDataParallel\.|^Thunk:"
)
_PART = re.compile(
    r"(?i)(?<![a-z])(?:layers?|blocks?|attn|attention|mlp|ffn|moe|experts?|norm|embed|embeddings?|linear)(?![a-z])"
)
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_WORD = re.compile(
    r"(?i)(?<![a-z])(?:steps?|iters?|iterations?|forward|batch|batches|tokens?|decode|execute|engine|frames?|ticks?|cycles?|rounds?)(?![a-z])"
)

_NUMBER = re.compile(r"0x[0-9a-fA-F]+|\d+(?:\.\d+)?")  # what `mask` masks
_MOST_NUMBERS = 4  # of a text that are looked at


class Launched(msgspec.Struct, frozen=True):
    """What one process launched, in order: arrays of one length. `result`: instants at which it waited for a copy."""

    start: Ints
    content: Hashes
    ops: Ints
    kernels: Ints
    result: Ints


_NONE = np.zeros(0, np.int64)
NOTHING = Launched(_NONE, np.zeros(0, np.uint64), _NONE, _NONE, _NONE)


class Mark(msgspec.Struct, frozen=True):
    """One thing seen of a family: its points, and the share (or count) that gave or refused them."""

    code: str
    points: int
    value: float


class Family(msgspec.Struct, frozen=True):
    """Ranges of one name on one thread, and what speaks for them."""

    text: str  # numbers masked
    pattern: str  # RE2, the number that rises as its group
    numbered: bool
    count: int
    marks: tuple[Mark, ...]
    refused: Mark | None

    @property
    def score(self) -> int:
        """Points for and against it; a family that is refused has those too."""
        return sum(mark.points for mark in self.marks)

    @property
    def taken(self) -> bool:
        """Whether it may label steps."""
        return self.refused is None and self.score >= ENOUGH


def families(capture: Capture, only: int | None = None) -> list[Family]:
    """Judge every family of the processes that launch work, or of one of them: the best first, those refused last.

    A name is judged where it does best, whatever thread or process that is.
    """
    found = capture.db.execute(
        sql("trace/evidence_range"), {"library": LIBRARY, "least": LEAST_NUMBERED}
    ).fetchnumpy()
    label, start, end = (np.asarray(found[name], np.int64) for name in ("label", "start_ns", "end_ns"))
    if not len(label):
        return []
    launched = _launched(capture)
    texts = dict(capture.db.execute("SELECT label, text FROM range_text").fetchall())
    best: dict[str, tuple[tuple[float, ...], Family]] = {}
    for low, high in pairwise([0, *(np.flatnonzero(np.diff(found["family"])) + 1).tolist(), len(label)]):
        pid = int(found["pid"][low])
        if only not in (None, pid):
            continue
        work = launched.get(pid, NOTHING)
        one = judge([texts[name] for name in label[low:high].tolist()], start[low:high], end[low:high], work)
        # of equal families the numbered one, then the one that holds more, then the earlier one
        held = max((mark.value for mark in one.marks if mark.code.endswith("inside")), default=0.0)
        order = (one.refused is None, one.score, one.numbered, round(held, 2), -int(start[low]))
        if one.text not in best or order > best[one.text][0]:
            best[one.text] = order, one
    ranked = sorted(best.values(), key=lambda pair: (*(-value for value in pair[0]), pair[1].text))
    return [one for _, one in ranked]


def judge(texts: list[str], start: Ints, end: Ints, launched: Launched) -> Family:
    """Judge one family by its ranges, in order of start: their texts, and where they begin and end in ns."""
    group = _rising(texts)
    name = mask(texts[0])
    seen = [
        ("number", group is not None, 1.0),
        ("word", _WORD.search(_CAMEL.sub(" ", name)) is not None, 1.0),
    ]
    refused = _refused_by_ranges(group is not None, start, end)
    waited = 0.0
    if refused is None and len(launched.ops):
        held = _held(start, end, launched)
        seen += [
            ("inside", _INSIDE <= held < _MOSTLY_INSIDE, held),
            ("mostly-inside", held >= _MOSTLY_INSIDE, held),
        ]
        bounds = np.append(start, max(int(end[-1]), int(start[-1]) + 1))
        refused = _refused_by_work(bounds, held, launched)
        if refused is None:
            waited = float(np.mean(np.diff(np.searchsorted(launched.result, bounds)) > 0))
            alike, period = _recurrence(np.searchsorted(launched.start, bounds), launched)
            seen += [("waits", waited >= _WAITED, waited), ("alike", alike >= _ALIKE, alike)]
            seen += [("part", period > 0, period)]
    # no layer gives a result to the host, and the layers of the next step begin to count again
    answers = group is not None and waited >= _WAITED
    if _PART.search(_CAMEL.sub(" ", name)) and not answers:
        refused = Mark("layer", 0, 1)
    marks = tuple(Mark(code, _POINTS[code], value) for code, found, value in seen if found)
    return Family(name, pattern(texts[0], group), group is not None, len(texts), marks, refused)


def _refused_by_ranges(numbered: bool, start: Ints, end: Ints) -> Mark | None:
    if len(start) < (LEAST_NUMBERED if numbered else LEAST_RANGES):
        return Mark("few", 0, len(start))
    overlaps = float(np.mean(start[1:] < end[:-1]))
    return Mark("overlaps", 0, overlaps) if overlaps > MOST_OVERLAPS else None


def _refused_by_work(bounds: Ints, held: float, launched: Launched) -> Mark | None:
    at = np.searchsorted(launched.start, bounds)
    working = float(np.mean(np.diff(_before(launched.kernels)[at]) > 0))
    if working < LEAST_WORKING:
        return Mark("idle", 0, working)
    after = float(launched.ops[at[0] :].sum() / launched.ops.sum())
    if after < LEAST_AFTER:
        return Mark("late", 0, after)
    return Mark("outside", 0, held) if held < LEAST_INSIDE else None


def _held(start: Ints, end: Ints, launched: Launched) -> float:
    """Share of the ops that were launched inside the ranges; where they overlap, 1 at most."""
    before = _before(launched.ops)
    ops = before[np.searchsorted(launched.start, end)] - before[np.searchsorted(launched.start, start)]
    return min(float(ops.sum() / before[-1]), 1.0)


def _before(counts: Ints) -> Ints:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])


def _rising(texts: list[str]) -> int | None:
    """Which number of the texts (0: the first) rises by one from range to range, and is nowhere twice; None: none does."""
    numbers = [_NUMBER.findall(text) for text in texts]
    for at in range(min(len(numbers[0]), _MOST_NUMBERS)):
        # Python reads no number of more than 4,300 digits
        told = [one[at] if at < len(one) and len(one[at]) < 20 else "" for one in numbers]
        values = [int(one) if one.isdigit() else None for one in told]
        rises = sum(b is not None and a is not None and b == a + 1 for a, b in pairwise(values))
        if rises and rises >= _RISES * (len(texts) - 1) and len(set(values)) >= _DISTINCT * len(texts):
            return at
    return None


def pattern(text: str, group: int | None) -> str:
    """A regular expression for the texts of a family, from one of them: fit for a shell's single quotes.

    `group`: which of its numbers is a group of the expression.
    """
    parts = []
    for at, (literal, number) in enumerate(
        zip(_NUMBER.split(text), [*_NUMBER.findall(text), ""], strict=True)
    ):
        parts.append("".join(_escaped(letter) for letter in literal))
        if number:
            hexadecimal = number[:2] == "0x"
            one = "0x[0-9a-fA-F]+" if hexadecimal else r"\d+" if number.isdigit() else r"\d+(?:\.\d+)?"
            parts.append(f"({one})" if at == group else one)
    found = "".join(parts)
    return f"^{found}$"


def _escaped(letter: str) -> str:
    """A letter as itself; what a terminal or a shell's quotes would change is any letter."""
    if letter.isspace() and letter != " ":
        return r"\s"
    if not " " <= letter <= "~" or letter == "'":
        return "."
    return "\\" + letter if letter in r".^$*+?{}[]\|()" else letter


def _recurrence(at: Ints, launched: Launched) -> tuple[float, int]:
    """How windows come again: the share of ops in classes of three windows or more, and after how many windows parts do.

    Window k holds the launches [at[k], at[k + 1]). 0 windows: they are no parts of something longer.
    """
    low, high = int(at[0]), int(at[-1])
    token = np.unique(launched.content[low:high], return_inverse=True)[1].reshape(-1)
    found = segments(at[:-1][np.diff(at) > 0] - low, token, launched.ops[low:high])
    period = cycle(found.kind)
    # a rare window (a prefill) that does not come again after as many belongs to no cycle
    rare = np.flatnonzero(found.kind[: len(found.kind) - period] > 0)
    if not period or not len(rare) or np.mean(found.kind[rare + period] == found.kind[rare]) < STRUCTURED:
        return found.alike, 0
    return found.alike, period


def _launched(capture: Capture) -> dict[int, Launched]:
    """What each process launched."""
    rows = {
        name: np.asarray(one)
        for name, one in capture.db.execute(sql("trace/evidence_launch")).fetchnumpy().items()
    }
    out = {}
    for pid in np.unique(rows["pid"]).tolist():
        part = {name: one[rows["pid"] == pid] for name, one in rows.items()}
        start, working = part["start_ns"].astype(np.int64), part["ops"] > 0
        if working.any():
            out[int(pid)] = Launched(
                start[working], part["content"][working].astype(np.uint64), part["ops"][working].astype(np.int64),
                part["kernels"][working].astype(np.int64),
                results(start, part["reads_back"].astype(np.bool_), part["waits"].astype(np.bool_)),
            )  # fmt: skip
    return out


def results(start: Ints, reads_back: Bools, waits: Bools) -> Ints:
    """When the host waits for a result: the calls that synchronise after a copy to the host, or are one that blocks."""
    copies = np.cumsum(reads_back)
    at = np.flatnonzero(waits)
    return np.asarray(start[at[np.diff(copies[at], prepend=0) > 0]], np.int64)
