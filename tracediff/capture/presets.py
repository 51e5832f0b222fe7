"""What each stack needs to be captured: environment, nsys flags, benchmark reports, as a table.

The TensorRT-LLM rows follow its source and its performance-analysis guide; see docs/capture.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

from tracediff.errors import TracediffError

TRACES = ("cuda", "nvtx", "python-gil")  # osrt is left out on purpose: it writes gigabytes in seconds

_GC_AND_NVTX = {"TLLM_PROFILE_RECORD_GC": "1", "TLLM_LLMAPI_ENABLE_NVTX": "1"}
_STEPS = "100-150"


@dataclass(frozen=True)
class Preset:
    """How one kind of program is captured."""

    name: str
    about: str
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


_ROWS = (
    Preset(
        "any",
        "any command, captured from beginning to end",
        capture_range=False,
        fork=False,
    ),
    Preset(
        "torch",
        "a program that calls torch.cuda.profiler.start() and stop() itself",
    ),
    Preset(
        "emulator",
        "python -m tracediff.capture.workloads.mini_serve",
        steps_variable="TLLM_PROFILE_START_STOP",
        default_steps="20-50",
        env={"TLLM_PROFILE_RECORD_GC": "1"},
        fork=False,
        program="tracediff.capture.workloads.mini_serve",
        reports=(("--report", "emulator.json"),),
    ),
    Preset(
        "trtllm-bench-throughput",
        "trtllm-bench ... throughput ...",
        steps_variable="TLLM_PROFILE_START_STOP",
        default_steps=_STEPS,
        env=_GC_AND_NVTX,
        program="trtllm-bench",
        subcommand="throughput",
        reports=(("--report_json", "report.json"), ("--iteration_log", "iterations.log")),
    ),
    Preset(
        "trtllm-bench-latency",
        "trtllm-bench ... latency ...",
        steps_variable="TLLM_PROFILE_START_STOP",
        default_steps=_STEPS,
        env=_GC_AND_NVTX,
        program="trtllm-bench",
        subcommand="latency",
        reports=(("--report_json", "report.json"),),
    ),
    Preset(
        "trtllm-serve",
        "trtllm-serve MODEL ..., with a client that loads it",
        steps_variable="TLLM_PROFILE_START_STOP",
        default_steps=_STEPS,
        env=_GC_AND_NVTX,
        program="trtllm-serve",
        server=True,
    ),
    Preset(
        "gptManagerBenchmark",
        "the C++ benchmark of the batch manager (legacy)",
        steps_variable="TLLM_GPTM_PROFILE_START_STOP",
        default_steps=_STEPS,
        range_end="repeat[]",
        program="gptManagerBenchmark",
    ),
    Preset(
        "gptSessionBenchmark",
        "the C++ benchmark of the session (legacy)",
        steps_variable="TLLM_GPTS_PROFILE_START_STOP",
        default_steps=_STEPS,
        range_end="repeat[]",
        program="gptSessionBenchmark",
    ),
)

PRESETS: dict[str, Preset] = {row.name: row for row in _ROWS}

# Launcher -> the variable that tells a process its rank.
RANK_VARIABLES = {
    "mpirun": "OMPI_COMM_WORLD_RANK",
    "mpiexec": "OMPI_COMM_WORLD_RANK",
    "orterun": "OMPI_COMM_WORLD_RANK",
    "mpiexec.hydra": "PMI_RANK",
    "srun": "SLURM_PROCID",
}
_LLMAPI_LAUNCH = "trtllm-llmapi-launch"
_STEP_RANGE = re.compile(r"(\d+)-(\d+)\Z")


@dataclass(frozen=True)
class Features:
    """What an nsys can do, as far as a command line depends on it."""

    traces: frozenset[str] = frozenset(TRACES)
    graph_trace: bool = True
    fork_before_exec: bool = True
    gpu_metrics_flag: str | None = "--gpu-metrics-device"


def preset(name: str) -> Preset:
    """Return the preset of that name. Raises `TracediffError`: plan-preset."""
    if name not in PRESETS:
        raise TracediffError(
            "plan-preset", f"there is no preset {name!r}", fix=f"one of {', '.join(PRESETS)}"
        )
    return PRESETS[name]


def check_steps(text: str) -> str:
    """Return a step range `A-B`; TensorRT-LLM reads B as the last or as one past the last step, by version.

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


def additions(kind: Preset, steps: str | None) -> dict[str, str]:
    """Return the environment that a profiled run gets besides its own."""
    added = dict(kind.env)
    wanted = steps or kind.default_steps
    if kind.steps_variable and wanted:
        added[kind.steps_variable] = check_steps(wanted)
    return added


def nsys_flags(
    kind: Preset,
    features: Features,
    *,
    output: str,
    graph_trace: str = "node",
    gpu_metrics: bool = False,
    extra: Sequence[str] = (),
) -> list[str]:
    """Return the words after `nsys`, up to the program. What this nsys cannot do is left out."""
    flags = ["profile", "-o", output, "-f", "true"]
    flags += ["-t", ",".join(name for name in TRACES if name in features.traces)]
    if kind.capture_range:
        flags += ["-c", "cudaProfilerApi", f"--capture-range-end={kind.range_end}"]
    if features.graph_trace:
        flags.append(f"--cuda-graph-trace={graph_trace}")
    if kind.fork and features.fork_before_exec:
        flags.append("--trace-fork-before-exec=true")
    # No CPU sampling: it costs host time and needs perf permissions that containers do not have.
    flags += ["--sample=none", "--cpuctxsw=none"]
    if kind.env:
        flags += ["-e", ",".join(f"{name}={value}" for name, value in kind.env.items())]
    if gpu_metrics and features.gpu_metrics_flag:
        flags.append(f"{features.gpu_metrics_flag}=all")
    return [*flags, *extra]


def with_reports(kind: Preset, command: Sequence[str], run: str) -> list[str]:
    """Return the command with the flags for its own reports, unless it has them."""
    words = list(command)
    names = [PurePath(word).name for word in words]
    if kind.program not in names or (kind.subcommand and kind.subcommand not in names):
        return words
    for flag, file in kind.reports:
        if not any(word == flag or word.startswith(f"{flag}=") for word in words):
            words += [flag, f"{run}/{file}"]
    return words


def wrap(launcher: Sequence[str], nsys: Sequence[str], command: Sequence[str]) -> list[str]:
    """Return launcher, nsys and program in the order in which each rank gets an nsys of its own.

    `trtllm-llmapi-launch` starts the workers itself, so it goes under nsys; mpirun and srun go over it.
    """
    outer = list(launcher)
    inner = [outer.pop()] if outer and PurePath(outer[-1]).name == _LLMAPI_LAUNCH else []
    return [*outer, *nsys, *inner, *command]


def rank_suffix(launcher: Sequence[str], variable: str | None = None) -> str:
    """Return what a report's name needs for one report a rank: `` for one process, else `.rank%q{VARIABLE}`.

    Raises `TracediffError`: plan-launcher.
    """
    if not launcher:
        return ""
    known = variable or RANK_VARIABLES.get(PurePath(launcher[0]).name)
    if known is None and PurePath(launcher[0]).name == _LLMAPI_LAUNCH:
        known = RANK_VARIABLES["srun"]  # without a launcher of its own it runs inside an srun step
    if known is None:
        raise TracediffError(
            "plan-launcher",
            f"{launcher[0]}: which variable holds the rank is not known",
            fix=f"set rank_variable in the plan; known are {', '.join(RANK_VARIABLES)}",
        )
    return f".rank%q{{{known}}}"
