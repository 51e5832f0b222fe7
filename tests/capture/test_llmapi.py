"""Preset trtllm-llmapi: its program, against a package with the interface of `tensorrt_llm`'s LLM API, under the stand-in for nsys."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.capture.stand_ins import StandIns, manifest_of
from tracediff.capture.launch import need_packages
from tracediff.capture.llmapi import figures, prompts
from tracediff.capture.machine import need_nsys
from tracediff.capture.plan import LLMAPI, plan_from
from tracediff.capture.runner import Runner
from tracediff.companions.bench.read import read
from tracediff.errors import TracediffError

# As tensorrt_llm/llmapi/llm.py, executor/result.py, sampling_params.py and llmapi/llm_utils.py have it: LLM(model, ..., **arguments);
# generate_async(inputs, sampling_params, ..., streaming), no coroutine, whose result is iterated as responses come (in an event loop alone)
# and is itself what comes, its token ids growing; SamplingParams takes keywords alone; options in YAML are merged into the arguments.
# STREAM: tokens of a response, as `stream_interval` makes it.
_PACKAGE = """
import asyncio, dataclasses, json, os, pathlib, types
@dataclasses.dataclass(kw_only=True)
class SamplingParams:
    max_tokens: int = 32
    ignore_eos: bool = False
class RequestOutput:
    def __init__(self, sampling, stream):
        asyncio.get_running_loop()
        self.left, self.stream, self.outputs = sampling.max_tokens, stream, [types.SimpleNamespace(token_ids=[])]
    def __aiter__(self): return self
    async def __anext__(self):
        if not self.left: raise StopAsyncIteration
        await asyncio.sleep(0.001)
        new = min(self.left, self.stream if self.outputs[0].token_ids else 1)
        self.left -= new
        self.outputs[0].token_ids.extend(range(new))
        return self
class LLM:
    def __init__(self, model, tokenizer=None, tensor_parallel_size=1, **kwargs):
        self.seen = {"model": model, "more": kwargs, "inputs": [], "tokens": [], "env": dict(os.environ)}
    def generate_async(self, inputs, sampling_params=None, lora_request=None, streaming=False):
        assert streaming and sampling_params.ignore_eos
        self.seen["inputs"].append(inputs)
        self.seen["tokens"].append(sampling_params.max_tokens)
        return RequestOutput(sampling_params, self.seen["more"].get("stream_interval", 1))
    def shutdown(self):
        pathlib.Path(os.environ["SIDE_SEEN"]).write_text(json.dumps(self.seen))
"""
_UTILS = """
import json
def update_llm_args_with_extra_options(llm_args, extra_llm_api_options):
    if extra_llm_api_options is not None:
        with open(extra_llm_api_options, 'r') as f:
            llm_args = llm_args | json.load(f)
    return llm_args
"""
SIZES = ["--requests", "3", "--input-tokens", "5", "--output-tokens", "4", "--warmup", "1"]


@pytest.fixture
def package(tmp_path: Path) -> Path:
    folder = tmp_path / "packages"
    (folder / "tensorrt_llm" / "llmapi").mkdir(parents=True)
    (folder / "tensorrt_llm" / "__init__.py").write_text(_PACKAGE)
    (folder / "tensorrt_llm" / "llmapi" / "__init__.py").touch()
    (folder / "tensorrt_llm" / "llmapi" / "llm_utils.py").write_text(_UTILS)
    (folder / "tensorrt_llm-1.2.0.dist-info").mkdir()
    (folder / "tensorrt_llm-1.2.0.dist-info" / "METADATA").write_text("Name: tensorrt_llm\nVersion: 1.2.0\n")
    return folder


def run(folder: Path, *words: str, packages: Path | None = None) -> subprocess.CompletedProcess:
    env = {**os.environ, "SIDE_SEEN": str(folder / "seen.json"), "PYTHONPATH": str(packages or "")}
    command = [sys.executable, str(LLMAPI), "--model", "M", *SIZES, *words]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


def test_requests_of_a_seed_are_served_and_their_latencies_written(package: Path, tmp_path: Path) -> None:
    report, more = tmp_path / "report.json", tmp_path / "more.json"
    more.write_text('{"max_batch_size": 8}')
    done = run(tmp_path, "--seed", "7", "--report", str(report), "--options", str(more), packages=package)
    assert done.returncode == 0, done.stderr
    seen = json.loads((tmp_path / "seen.json").read_text())
    assert seen["model"] == "M" and seen["more"] == {"max_batch_size": 8}
    assert seen["inputs"] == prompts(7, 4, 5)  # a warm-up, and three
    assert seen["tokens"] == [4, 4, 4, 4]
    found = read(report)
    assert found.kind == "serving-benchmark" and not found.warnings
    known = {"ttft_mean_ms", "ttft_p99_ms", "tpot_mean_ms", "itl_mean_ms", "output_throughput_tok_s"}
    assert known <= set(found.metrics)
    assert found.metrics["tpot_mean_ms"].value >= 1  # each response is 1 ms after the one before


def test_one_seed_is_one_traffic() -> None:
    assert prompts(1, 3, 8) == prompts(1, 3, 8) != prompts(2, 3, 8)
    assert all(len(one) == 8 for one in prompts(1, 3, 8))


def test_a_response_of_several_tokens_counts_them(package: Path, tmp_path: Path) -> None:
    """Nine tokens in responses of 1, 4, 4: two responses after the first, so TPOT is at least 2 ms / 8, and ITL at least 1 ms."""
    report, more = tmp_path / "report.json", tmp_path / "more.yaml"
    more.write_text('{"stream_interval": 4}')
    words = ["--output-tokens", "9", "--report", str(report), "--options", str(more)]
    done = run(tmp_path, *words, packages=package)
    assert done.returncode == 0, done.stderr
    seen = json.loads((tmp_path / "seen.json").read_text())
    assert seen["tokens"] == [8, 9, 9, 9]  # the warm-up is brief
    found = read(report).metrics
    assert found["tpot_mean_ms"].value == pytest.approx(found["itl_mean_ms"].value / 4)


def test_latencies_worked_out_by_hand() -> None:
    """Two requests of three tokens: sent at 0 s, responses at 1, 2, 4 s; and at 2, 3, 4 s."""
    found = figures([([0.0, 1.0, 2.0, 4.0], 3), ([0.0, 2.0, 3.0, 4.0], 3)])
    assert found["mean_ttft_ms"] == 1500 and found["p99_ttft_ms"] == 2000
    assert found["mean_tpot_ms"] == 1250  # (4 - 1) / 2 and (4 - 2) / 2
    assert found["mean_itl_ms"] == 1250  # of 1, 2, 1, 1 s
    assert found["mean_e2el_ms"] == 4000 and found["output_throughput"] == 6 / 4
    assert figures([([0.0], 0)]) == {"num_prompts": 1, "completed": 0}


@pytest.mark.parametrize("words", [["--requests", "0"], ["--output-tokens", "1"], ["--warmup", "-1"]])
def test_sizes_that_nothing_can_be_measured_of(words: list[str], tmp_path: Path) -> None:
    done = run(tmp_path, *words)
    assert done.returncode == 2 and "is at least" in done.stderr


def test_without_the_package_it_says_so(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert done.returncode == 1 and f"{sys.executable} cannot import tensorrt_llm" in done.stderr


@pytest.mark.slow
def test_a_paired_recording_needs_a_model_alone(stand_ins: StandIns, package: Path, tmp_path: Path) -> None:
    env = {"PYTHONPATH": str(package), "SIDE_SEEN": str(tmp_path / "seen.json")}
    plan = plan_from(
        {
            "baseline": {"command": SIZES}, "candidate": {"command": [sys.executable, *SIZES, "--seed", "3"]}, "env": env,
            "preset": "trtllm-llmapi", "model": "M", "repeats": 1, "min_free_gib": 0, "steps": "5-9",
        },
        Path(),
    )  # fmt: skip
    assert plan.baseline.command[:4] == (sys.executable, str(LLMAPI), "--model", "M")
    assert plan.candidate.command == (sys.executable, str(LLMAPI), "--model", "M", *SIZES, "--seed", "3")
    need_packages(plan, os.environ)
    Runner(plan, tmp_path / "b", need_nsys(), os.environ).run()
    assert [run["kpi"] for run in manifest_of(tmp_path / "b")["runs"]] == [["report.json"]] * 2
    nsys, _ = stand_ins.calls("nsys")
    assert nsys["args"][nsys["args"].index("-c") + 1] == "cudaProfilerApi"
    seen = json.loads((tmp_path / "seen.json").read_text())["env"]
    assert seen["TLLM_PROFILE_START_STOP"] == "5-9" and seen["TLLM_PROFILE_RECORD_GC"] == "1"
    assert seen["TLLM_LLMAPI_ENABLE_NVTX"] == "1"


def test_a_python_without_the_package_is_refused_before_anything_runs() -> None:
    sides = {"baseline": {"command": ""}, "candidate": {"command": ""}}
    plan = plan_from({**sides, "preset": "trtllm-llmapi", "model": "M"}, Path())
    with pytest.raises(TracediffError, match="the Python of the baseline") as caught:
        need_packages(plan, {"PATH": os.environ["PATH"]})
    assert caught.value.slug == "capture-no-tensorrt-llm" and "tracediff doctor --python" in caught.value.fix


def test_a_model_is_of_that_preset_alone() -> None:
    sides = {"baseline": {"command": "a"}, "candidate": {"command": "b"}}
    with pytest.raises(TracediffError, match="no model") as caught:
        plan_from({**sides, "preset": "torch", "model": "M"}, Path())
    assert caught.value.slug == "plan-invalid"
