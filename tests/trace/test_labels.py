"""The table of known labels: which names it takes, and which counts it reads from them.

The names are as the sources write them, which tracediff/trace/labels.py names.
"""

from __future__ import annotations

import duckdb
import pytest

from tracediff.trace.labels import PRESETS, SOURCES

Said = tuple[str, int | None, int | None, int | None, int | None]
GENERATE = "transformers.generation.utils.GenerationMixin.prepare_inputs_for_generation"
BATCHING = "transformers.generation.continuous_batching"


def said(name: str) -> Said | None:
    """The first source that takes a name, in the order of trial: its name, number, ctx, tokens, gen."""
    for source in (*SOURCES, *PRESETS):
        if not duckdb.execute("SELECT regexp_matches(?, ?)", [name, source.pattern]).fetchall()[0][0]:
            continue
        groups = (source.number, source.ctx, source.tokens, source.gen)
        texts = [
            duckdb.execute("SELECT regexp_extract(?, ?, ?)", [name, source.pattern, at]).fetchall()[0][0]
            if at else "" for at in groups
        ]  # fmt: skip
        number, ctx, tokens, gen = (int(text) if text else None for text in texts)
        return source.name, number, ctx, tokens, gen
    return None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("[Executor] _forward_step: 2 ctx reqs, 14 gen reqs", ("tensorrt-llm", None, 2, None, 14)),
        ("[Executor] _forward_step 31: 0 ctx reqs, 16 gen reqs", ("tensorrt-llm", 31, 0, None, 16)),
        ("[Executor] _forward_step 31: 4 ctx reqs, 768 ctx tokens, 12 gen reqs", ("tensorrt-llm", 31, 4, 768, 12)),
        ("ProfilerStep#7", ("profiler-step", 7, None, None, None)),
        ("TrtGptModelInflightBatching::forwardAsync", ("tensorrt-llm-cpp", None, None, None, None)),
        # requests before the bracket, tokens in it
        ("execute_context_1(983)_generation_0(0)", ("vllm", None, 1, 983, 0)),
        ("execute_context_0(0)_generation_64(64)", ("vllm", None, 0, 0, 64)),
        ("execute_context_1(888_788544)_generation_0(0)", ("vllm", None, 1, 888, 0)),
        (
            "execute_1025_context_1(sq1024sk1024sqsq1048576sqsk1048576)_generation_1(sq1sk700sqsq1sqsk700)",
            ("vllm", None, 1, 1024, 1),
        ),
        ("execute_new_3_cached_5", ("vllm", None, 3, None, 5)),
        ("gpu_model_runner: preprocess", ("vllm", None, None, None, None)),
        ("scheduler.run_batch", ("sglang", None, None, None, None)),
        ("step[EXTEND bs=2 toks=107]", ("sglang", None, 2, 107, None)),
        ("step[EXTEND bs=1 toks=107 c_sq=107 c_sqsq=11449 c_sqsk=11449 c_sk=107]", ("sglang", None, 1, 107, None)),
        ("step[DECODE bs=16]", ("sglang", None, None, None, 16)),
        ("step[DECODE bs=2 g_sq=2 g_sqsq=2 g_sqsk=60 g_sk=60]", ("sglang", None, None, None, 2)),
        ("step[TARGET_VERIFY bs=8]", ("sglang", None, None, None, 8)),
        ("step[DRAFT_EXTEND_V2 bs=8]", ("sglang", None, None, None, None)),
        ("step[IDLE bs=0]", ("sglang", None, None, None, None)),
        ("step[MIXED bs=5]", ("sglang", None, None, None, None)),
        (
            "step[MIXED bs=5 c=1 g=4 c_sq=100 c_sk=100 c_sqsq=10000 c_sqsk=10000 g_sq=4 g_sk=80 g_sqsq=4 g_sqsk=80]",
            ("sglang", None, 1, 100, 4),
        ),
        (GENERATE, ("hf-generate", None, None, None, None)),
        (
            f"{BATCHING}.continuous_api.ContinuousBatchingManager._generation_step",
            ("hf-continuous-batching", None, None, None, None),
        ),
        (
            f"{BATCHING}.ContinuousBatchingManager._inner_generation_loop",
            ("hf-continuous-batching", None, None, None, None),
        ),
        ("transformers.trainer.Trainer.training_step", ("hf-trainer", None, None, None, None)),
        ("training_step_40", ("megatron", 40, None, None, None)),
        ("iteration_4_ga_step_0", ("nemo-automodel", 4, None, None, None)),
        ("DeepSpeedEngine.forward", ("deepspeed", None, None, None, None)),
        ("[pl][profile]run_training_batch", ("lightning", None, None, None, None)),
        ("[pl][profile][Strategy]DDPStrategy.validation_step", ("lightning", None, None, None, None)),
        # Trainer callbacks and training loops of users
        ("training_step 12", ("step-range", 12, None, None, None)),
        ("training_step: 12", ("step-range", 12, None, None, None)),
        ("Training_Step_12", ("step-range", 12, None, None, None)),
        ("step[3]", ("step-range", 3, None, None, None)),
    ],
)  # fmt: skip
def test_a_label_and_its_counts(name: str, expected: Said) -> None:
    assert said(name) == expected


@pytest.mark.parametrize(
    "name",
    [
        # parts of a step, and what surrounds it
        "_forward_step", "[Executor] _schedule", "TrtGptModelInflightBatching::forwardSync", "TrtEncoderModel::forwardAsync",
        "execute_model", "execute_context_1", "execute_context_1(983)", "execute_context_a(1)_generation_1(1)",
        "gpu_model_runner: forward", "gpu_model_runner: sample", "schedule: allocate_slots",
        "scheduler.get_next_batch_to_run", "scheduler.run_batch_overlap", "scheduler.process_batch_result",
        "step[EXTEND]", "step[DECODE bs=16", "step[DECODE bs=]", "xstep[DECODE bs=16]",
        "transformers.generation.utils.GenerationMixin._prefill",
        f"{BATCHING}.continuous_api.ContinuousBatchProcessor._generation_step",
        "transformers.trainer.Trainer.evaluation_loop", "my.prepare_inputs_for_generation",
        "iteration_4_ga_step_1", "DeepSpeedEngine.backward", "DeepSpeedEngine.step", "DeepSpeedEngine.allreduce_gradients",
        "[pl][profile]optimizer_step", "ProfilerStep#", "aten::mm", "nccl:all_reduce", "layer 3", "timestep 3",
    ],
)  # fmt: skip
def test_a_name_that_is_no_label(name: str) -> None:
    assert said(name) is None
