"""Step labels of stacks other than TensorRT-LLM's PyTorch executor."""

from __future__ import annotations

import duckdb
import pytest

from fixtures.builders import TraceBuilder
from tests.tiny import label, reduced
from tracediff.errors import TracediffError
from tracediff.formats.capture import load_capture
from tracediff.trace.labels import PRESETS, SOURCES, from_regex
from tracediff.trace.steps import find_steps

ENGINE, SERVER = 1, 2


def labelled(*texts: str) -> TraceBuilder:
    """A range of 100 ns for each text, 1000 ns apart, with a launch and its kernel in each."""
    trace = TraceBuilder().process(100).thread(100, ENGINE).device(0)
    for index, text in enumerate(texts):
        begin = 1000 * index
        trace.range(ENGINE, text, begin, begin + 100, domain=None)
        launch(trace, begin + 50, index + 1)
    return trace


def launch(trace: TraceBuilder, at: int, corr: int) -> None:
    """A launch of 20 ns whose kernel starts 100 ns after it."""
    trace.api(ENGINE, "cudaLaunchKernel", at, at + 20, corr=corr).kernel(corr, at + 100, at + 300)


def found(trace: TraceBuilder, folder) -> tuple[str, list[tuple]]:
    """The name of the source, and of each step: number, ctx_reqs, ctx_tokens, gen_reqs, start_ns."""
    capture = load_capture(trace.write(folder / "trace.sqlite"), folder)
    source = find_steps(capture).source
    rows = capture.db.execute(
        "SELECT number, ctx_reqs, ctx_tokens, gen_reqs, start_ns FROM step ORDER BY pid, step"
    ).fetchall()
    capture.close()
    return source, rows


@pytest.mark.parametrize(
    ("source", "texts", "says"),
    [
        ("tensorrt-llm-cpp", ["TrtGptModelInflightBatching::forwardAsync"] * 2, [(None,) * 4] * 2),
        ("tensorrt-llm-cpp", ["TrtGptModelInflightBatching::ForwardAsync"] * 2, [(None,) * 4] * 2),
        ("tensorrt-llm-cpp", ["ModelForwardAsync"] * 2, [(None,) * 4] * 2),
        (
            "vllm",
            ["execute_context_2(513)_generation_14(14)", "execute_context_0(0)_generation_16(16)"],
            [(None, 2, 513, 14), (None, 0, 0, 16)],
        ),
        (
            "vllm",
            [
                "execute_20_context_1(sq4sk8sqsq16sqsk32)_generation_16(sq16sk300sqsq16sqsk300)",
                "execute_16_context_0(sq0sk0sqsq0sqsk0)_generation_16(sq16sk316sqsq16sqsk316)",
            ],
            [(None, 1, 4, 16), (None, 0, 0, 16)],
        ),
        (
            "vllm",
            ["execute_new_3_cached_5", "execute_new_0_cached_8"],
            [(None, 3, None, 5), (None, 0, None, 8)],
        ),
        ("vllm", ["gpu_model_runner: preprocess"] * 2, [(None,) * 4] * 2),
        ("sglang", ["scheduler.run_batch"] * 2, [(None,) * 4] * 2),
        (
            "sglang",
            ["step[EXTEND bs=2 toks=107]", "step[TARGET_VERIFY bs=16]", "step[DRAFT_EXTEND_V2 bs=16]"],
            [(None, 2, 107, 0), (None, 0, None, 16), (None,) * 4],
        ),
        ("megatron", ["training_step_7", "training_step_8"], [(7, None, None, None), (8, None, None, None)]),
        (
            "nemo-automodel",
            ["iteration_4_ga_step_0", "iteration_4_ga_step_1", "iteration_5_ga_step_0"],
            [(4, None, None, None), (5, None, None, None)],
        ),
        ("step-range", ["step 12", "step 13"], [(12, None, None, None), (13, None, None, None)]),
        ("lightning", ["[pl][profile]run_training_batch"] * 2, [(None,) * 4] * 2),
        ("lightning", ["[pl][profile][Strategy]SingleDeviceStrategy.predict_step"] * 2, [(None,) * 4] * 2),
    ],
)
def test_stacks(source, texts, says, tmp_path):
    name, rows = found(labelled(*texts), tmp_path)
    assert name == source
    assert [row[:4] for row in rows] == says


def taken(text: str) -> tuple[str, str] | None:
    """The source that takes a name for a label, and what it reads as the number."""
    for one in (*SOURCES, *PRESETS):
        query = "SELECT regexp_extract($1, $2, $3) WHERE regexp_matches($1, $2)"
        if row := duckdb.execute(query, [text, one.pattern, one.number]).fetchone():
            return one.name, row[0].lstrip("0")
    return None


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("step {}", 12), ("Step {}", 12), ("step_{}", 12), ("step_0000{}", 12), ("step{}", 12),
        ("steps{}", 12), ("step #{}", 12), ("step: {}", 12), ("step={}", 12), ("[step {}]", 12),
        ("step {}/100", 12), ("iteration {}", 12), ("iteration{}", 12), ("Iteration_{}", 12),
        ("iteration-{}", 12), ("iter {}", 12), ("iteration[{},16)", 12), ("train_step {}", 12),
        ("training step {}", 12), ("decode_step_{}", 12),
        ("step", None), ("Iteration", None), ("decode_step", None), ("model step", None),
    ],
)  # fmt: skip
def test_ranges_that_users_name(text, number):
    assert taken(text.format(12)) == ("step-range", str(number or ""))


@pytest.mark.parametrize(
    "text",
    [
        "step 3 forward", "optimizer_step", "optimizer.step()", "grad_accum_step_0", "Step Forward",
        "stepwise 3", "iterator 3", "timestep 3", "forward", "gpu_model_runner: forward", "layer 12",
        "scheduler.run_batch_overlap", "[pl][profile]optimizer_step", "execute_model",
    ],
)  # fmt: skip
def test_other_ranges_are_no_steps(text):
    assert taken(text) is None


def test_a_capture_of_other_ranges_is_refused(tmp_path):
    with pytest.raises(TracediffError) as caught:
        found(labelled(*["step 3 forward"] * 3), tmp_path)
    assert caught.value.slug == "no-steps"
    assert "--step-regex" in str(caught.value.fix)


@pytest.mark.parametrize("text", ["scheduler.run_batch", "execute_context_1(888)_generation_0(0)", "step 7"])
def test_a_label_that_occurs_once_around_the_work_is_one_step(text, tmp_path):
    assert [row[4] for row in found(labelled(text), tmp_path)[1]] == [0]


def test_a_label_of_users_that_occurs_once_leaves_it_to_ranges_with_evidence(tmp_path):
    """ "bench step" is around all, "decode_token N" is said four times inside it."""
    trace = labelled(*(f"decode_token {number}" for number in range(4)))
    trace.range(ENGINE, "bench step", -10, 4000, domain=None)
    assert found(trace, tmp_path)[0] == "range 'decode_token N'"


def test_labels_without_work_leave_it_to_the_next_preset(tmp_path):
    trace = labelled("step 1", "step 2")
    trace.process(200).thread(200, SERVER)
    for begin in (0, 500, 900):
        trace.range(SERVER, "scheduler.run_batch", begin, begin + 10, domain=None)
    source, rows = found(trace, tmp_path)
    assert (source, len(rows)) == ("step-range", 2)


def test_a_process_without_work_has_no_steps(tmp_path):
    trace = labelled("step 1", "step 2")
    trace.process(200).thread(200, SERVER)
    trace.range(SERVER, "step 1", 0, 10, domain=None).range(SERVER, "step 2", 20, 30, domain=None)
    assert [row[4] for row in found(trace, tmp_path)[1]] == [0, 1000]


def test_labels_on_another_thread_than_the_launches(tmp_path):
    trace = TraceBuilder().process(100).thread(100, ENGINE).thread(100, SERVER).device(0)
    for index in range(3):
        trace.range(SERVER, f"step {index}", 1000 * index, 1000 * index + 100, domain=None)
        launch(trace, 1000 * index + 50, index + 1)
    assert found(trace, tmp_path)[0] == "step-range"


def test_a_step_inside_a_step_is_a_part_of_it(tmp_path):
    trace = labelled("training step 1", "training step 2")
    for begin in (0, 1000):
        for part in (10, 40):
            trace.range(ENGINE, "model_step", begin + part, begin + part + 20, domain=None)
    assert [row[0] for row in found(trace, tmp_path)[1]] == [1, 2]


def test_tensorrt_llm_comes_first(tmp_path):
    trace = labelled(label(1), label(2))
    for begin in (0, 300, 1000):
        trace.range(ENGINE, "step", begin, begin + 10, domain=None)
    assert found(trace, tmp_path)[0] == "tensorrt-llm"


def test_phases_of_other_stacks(tmp_path):
    """vLLM's labels say what TensorRT-LLM's do: contexts are not compared with generations."""
    texts = [
        "execute_context_4(768)_generation_12(12)",
        "execute_context_0(0)_generation_16(16)",
        "execute_context_1(192)_generation_0(0)",
        "execute_context_0(0)_generation_16(16)",
    ]
    reduction = reduced(labelled(*texts), tmp_path)
    assert reduction.step_source == "vllm"
    assert reduction.periods["phase"].to_list() == ["mixed", "generation", "context"]
    assert reduction.warnings == []


def test_a_pattern_over_two_lines_is_only_a_pattern(tmp_path):
    reduction = reduced(labelled("a 1", "a 2"), tmp_path, step_regex="no\nstep|^a (\\d+)")
    assert reduction.periods["number"].to_list() == [1]


def test_an_empty_regex_is_refused():
    with pytest.raises(TracediffError, match="every range would be a step") as raised:
        from_regex("")
    assert raised.value.slug == "bad-step-regex"
