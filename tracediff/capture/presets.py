"""What each stack needs to be captured: environment, nsys flags, benchmark reports, as a table.

Each row follows the page or the source that is named above it; see docs/stacks.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

from tracediff.errors import TracediffError


@dataclass(frozen=True)
class Preset:
    """How one kind of program is captured."""

    name: str
    steps_variable: str | None = None
    """The variable that makes the program call cudaProfilerStart and cudaProfilerStop around iterations."""
    default_steps: str | None = None
    capture_range: bool = True
    """Capture between cudaProfilerStart and cudaProfilerStop only (`-c cudaProfilerApi`)."""
    range_end: str = "stop"
    env: Mapping[str, str] = field(default_factory=dict)
    fork: bool = True
    program: str | None = None
    """The program whose command line `reports` go on."""
    subcommand: str | None = None
    reports: tuple[tuple[str, str], ...] = ()
    """Flags that make the program write its own figures, and the file in the run's folder."""
    server: bool = False
    """The command is a server: wait for it, run the client, stop it."""
    serving: tuple[str, ...] = ()
    """Words that make a command a server where other commands of the preset are none."""
    ready_url: str = "http://localhost:8000/health"
    flags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Word of a command -> flags that its profiled runs get; {first} and {count} are of the step range."""
    start: str | None = None
    """JSON that is posted to the server's /start_profile before its client runs, with the same two; '' is no body."""
    functions: bool = False
    """nsys puts a range around the functions that `FUNCTIONS` names."""

    def serves(self, command: Sequence[str]) -> bool:
        """Whether a command is a server, which needs a client."""
        return self.server or any(PurePath(word).name in self.serving for word in command)


_TRTLLM: dict[str, Any] = {
    "steps_variable": "TLLM_PROFILE_START_STOP",
    "default_steps": "100-150",
    "env": {"TLLM_PROFILE_RECORD_GC": "1", "TLLM_LLMAPI_ENABLE_NVTX": "1"},
}
_LEGACY: dict[str, Any] = {"default_steps": "100-150", "range_end": "repeat[]"}
_EMULATOR = "tracediff_emulator"
_JSON, _LOG = ("--report_json", "report.json"), ("--iteration_log", "iterations.log")
# vllm-project/vllm vllm/config/profiler.py: a window of engine iterations after start_profile
_VLLM_WINDOW = (
    "--profiler-config.profiler=cuda",
    "--profiler-config.delay_iterations={first}",
    "--profiler-config.max_iterations={count}",
)
_SGLANG_WINDOW = '{"activities": ["CUDA_PROFILER"], "start_step": {first}, "num_steps": {count}}'

FUNCTIONS = Path(__file__).with_name("functions.json")
"""Functions of transformers that begin a step, in nsys's form."""

_ROWS = (
    # any command, from beginning to end
    Preset("any", capture_range=False, fork=False),
    # a program that calls torch.cuda.profiler.start() and stop() itself
    Preset("torch"),
    # python -m tracediff_emulator
    Preset("emulator", "TLLM_PROFILE_START_STOP", "20-50", env={"TLLM_PROFILE_RECORD_GC": "1"}, fork=False,
           program=_EMULATOR, reports=(("--report", "emulator.json"),)),
    Preset("trtllm-bench-throughput", program="trtllm-bench", subcommand="throughput", reports=(_JSON, _LOG), **_TRTLLM),
    Preset("trtllm-bench-latency", program="trtllm-bench", subcommand="latency", reports=(_JSON,), **_TRTLLM),
    # with a client that loads it
    Preset("trtllm-serve", program="trtllm-serve", server=True, **_TRTLLM),
    # vllm-project/vllm docs/contributing/profiling.md; --profile of `vllm bench` calls start_profile
    # (vllm/benchmarks/latency.py, throughput.py), a server is asked by /start_profile
    Preset("vllm", default_steps="50-150", env={"VLLM_WORKER_MULTIPROC_METHOD": "spawn"},
           serving=("serve", "vllm.entrypoints.openai.api_server"), start="",
           flags={"latency": ("--profile", *_VLLM_WINDOW), "throughput": ("--profile", *_VLLM_WINDOW),
                  "serve": _VLLM_WINDOW, "vllm.entrypoints.openai.api_server": _VLLM_WINDOW}),
    # sgl-project/sglang docs/developer_guide/benchmark_and_profiling.md, layer-wise NVTX profiling, method 1;
    # the ranges of the scheduler by python/sglang/srt/environ.py
    Preset("sglang", default_steps="50-150", env={"SGLANG_ENABLE_NVTX_SCHEDULER": "1"},
           serving=("serve", "sglang.launch_server"), ready_url="http://localhost:30000/health", start=_SGLANG_WINDOW),
    # a script that uses transformers, from beginning to end
    Preset("hf", capture_range=False, fork=False, functions=True),
    # C++ benchmarks of the batch manager and of the session
    Preset("gptManagerBenchmark", "TLLM_GPTM_PROFILE_START_STOP", program="gptManagerBenchmark", **_LEGACY),
    Preset("gptSessionBenchmark", "TLLM_GPTS_PROFILE_START_STOP", program="gptSessionBenchmark", **_LEGACY),
)  # fmt: skip
PRESETS: dict[str, Preset] = {row.name: row for row in _ROWS}

# Launcher -> the variable that tells a process its rank.
RANK_VARIABLES = {
    "mpirun": "OMPI_COMM_WORLD_RANK",
    "mpiexec": "OMPI_COMM_WORLD_RANK",
    "orterun": "OMPI_COMM_WORLD_RANK",
    "mpiexec.hydra": "PMI_RANK",
    "srun": "SLURM_PROCID",
}
LLMAPI_LAUNCH = "trtllm-llmapi-launch"
_STEP_RANGE = re.compile(r"(\d+)-(\d+)\Z")


def preset(name: str) -> Preset:
    """The preset of that name. Raises `TracediffError`: plan-preset."""
    if name not in PRESETS:
        raise TracediffError(
            "plan-preset", f"there is no preset {name!r}", fix=f"one of {', '.join(PRESETS)}"
        )
    return PRESETS[name]


def check_steps(text: str) -> str:
    """A step range `A-B`; TensorRT-LLM reads B as the last or as one past the last step, by version.

    Raises `TracediffError`: plan-steps.
    """
    match = _STEP_RANGE.match(text)
    if not match or int(match[1]) >= int(match[2]):
        raise TracediffError(
            "plan-steps",
            f"steps {text!r} is not one range A-B with A below B",
            fix="--steps 100-150 (always a range: newer TensorRT-LLM rejects single numbers)",
        )
    return text


def rank_suffix(launcher: Sequence[str], variable: str | None = None) -> str:
    """What a report's name needs for one report per rank: `` for one process, else `.rank%q{VARIABLE}`.

    Raises `TracediffError`: plan-launcher.
    """
    if not launcher:
        return ""
    name = PurePath(launcher[0]).name
    # trtllm-llmapi-launch without a launcher of its own runs inside an srun step
    known = variable or RANK_VARIABLES.get("srun" if name == LLMAPI_LAUNCH else name)
    if known is None:
        raise TracediffError(
            "plan-launcher",
            f"{launcher[0]}: which variable holds the rank is not known",
            fix=f"set rank_variable in the plan; known are {', '.join(RANK_VARIABLES)}",
        )
    return f".rank%q{{{known}}}"
