"""A run of the plan -> its command line and environment."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePath
from types import MappingProxyType
from urllib.parse import urljoin

import msgspec

from tracediff.capture import machine
from tracediff.capture.machine import TRACES, Features, Nsys
from tracediff.capture.plan import (
    FUNCTIONS,
    LLMAPI_LAUNCH,
    RUN,
    SEED_VARIABLE,
    TRAFFIC_SEED,
    Plan,
    Preset,
    SidePlan,
    Slot,
    preset,
    rank_suffix,
    rank_variable,
    windows_of,
)
from tracediff.errors import TracediffError
from tracediff.formats.bundle import SIDES
from tracediff.formats.lost import FLUSH


class Launch(msgspec.Struct, frozen=True):
    """Everything that a run is started with. `added`: the part of `env` that the plan and the preset add."""

    command: list[str]
    env: dict[str, str]
    added: dict[str, str]
    cwd: Path | None
    client: list[str]
    ready_url: str
    start: str | None
    """What is posted to /start_profile of the server once it is ready."""
    kpi: tuple[str, ...]
    reports: tuple[str, ...]

    def recorded(self, run: Path) -> list[str]:
        """The command line for the manifest: the run's folder by its placeholder, no secrets."""
        return machine.recorded_command([word.replace(str(run), RUN) for word in self.command])


def launch_of(plan: Plan, slot: Slot, nsys: Nsys, run: Path, base: Mapping[str, str]) -> Launch:
    """How a run is started. Warm-ups and controls run the plain command, as users do, with the same seed."""
    side = plan.side(slot.side)
    kind = preset(side.preset)
    folder, seed = str(run), plan.traffic_seed(slot)

    def filled(text: str) -> str:
        return text.replace(RUN, folder).replace(TRAFFIC_SEED, str(seed))

    command = with_reports(kind, [filled(word) for word in side.command], folder)
    added = {name: filled(value) for name, value in side.env.items()}
    profiler: list[str] = []
    if slot.kind == "profiled":
        added = {**additions(kind, plan.steps), **added}
        command = [filled(word) for word in with_flags(kind, command, plan.steps)]
        several = "," in added.get(kind.steps_variable or "", "")
        profiler = [str(nsys.path), *nsys_flags(
            kind, nsys.features, several=several, output=f"{folder}/report{rank_suffix(side.launcher, side.rank_variable)}",
            graph_trace=plan.graph_trace, gpus=_sampled(plan, side), frequency=plan.gpu_metrics_frequency,
            env={"NSYS_MPI_STORE_TEAMS_PER_RANK": "1"} if side.launcher else {}, extra=plan.nsys_flags,
        )]  # fmt: skip
        if side.only_rank is not None:
            profiler = one_rank(profiler, rank_variable(side.launcher, side.rank_variable), side.only_rank)
    if seed is not None:
        added[SEED_VARIABLE] = str(seed)
    return Launch(
        command=wrap(side.launcher, profiler, command),
        env={**base, **added},
        added=added,
        cwd=side.cwd,
        client=[filled(word) for word in side.client],
        ready_url=side.ready_url or kind.ready_url,
        start=_windowed(kind.start, kind, plan.steps)
        if kind.start is not None and slot.kind == "profiled" and side.client
        else None,
        kpi=side.kpi,
        reports=tuple(file for _, file in kind.reports),
    )


def additions(kind: Preset, steps: str | None) -> dict[str, str]:
    """The environment that a preset adds to a profiled run."""
    wanted = steps or kind.default_steps
    window = {kind.steps_variable: wanted} if kind.steps_variable and wanted else {}
    return {**kind.env, **window}


def with_flags(kind: Preset, command: Sequence[str], steps: str | None) -> list[str]:
    """The command with the flags that make it profile itself; one that the user gave, or a part of it, is left alone."""
    words = list(command)
    names = {PurePath(word).name for word in words}
    given = {_option(word) for word in words}
    for word, flags in kind.flags.items():
        if word in names:
            words += [_windowed(flag, kind, steps) for flag in flags if _option(flag) not in given]
    return words


def _option(word: str) -> str:
    """`--a.b=c` -> `--a`."""
    return word.partition("=")[0].partition(".")[0]


def _windowed(text: str, kind: Preset, steps: str | None) -> str:
    ((first, last),) = windows_of(steps or kind.default_steps or "0-1")
    return text.replace("{first}", str(first)).replace("{count}", str(last - first))


def flushes(words: Iterable[str]) -> bool:
    """Whether a command says when nsys writes its buffers of CUDA calls."""
    return any(word.startswith(FLUSH.partition("=")[0]) for word in words)


def nsys_flags(
    kind: Preset,
    features: Features,
    *,
    output: str,
    several: bool = False,
    graph_trace: str = "node",
    gpus: str = "",
    frequency: int | None = None,
    env: Mapping[str, str] = MappingProxyType({}),
    extra: Sequence[str] = (),
) -> list[str]:
    """The words after `nsys`, up to the program. What this nsys cannot do is left out. `several`: the program opens more than one window.

    gpus: whose metrics are sampled, as nsys takes them; frequency: how often, Hz.
    """
    flags = ["profile", "-o", output, "-f", "true"]
    flags += ["-t", ",".join(name for name in TRACES if name in features.traces)]
    if kind.capture_range:
        # `stop` ignores every window after the first
        end = "repeat" if several else "stop"
        flags += ["-c", "cudaProfilerApi", f"--capture-range-end={end}"]
    elif features.flush_interval and not flushes(extra):
        flags.append(FLUSH)
    if features.graph_trace:
        flags.append(f"--cuda-graph-trace={graph_trace}")
    if kind.fork and features.fork_before_exec:
        flags.append("--trace-fork-before-exec=true")
    # No CPU sampling: it costs host time and needs perf permissions that containers do not have.
    flags += ["--sample=none", "--cpuctxsw=none"]
    if kind.functions and features.functions_flag:
        flags.append(f"{features.functions_flag}={FUNCTIONS}")
    if kind.env or env:
        flags += ["-e", ",".join(f"{name}={value}" for name, value in {**kind.env, **env}.items())]
    if gpus and features.gpu_metrics_flag:
        flags.append(f"{features.gpu_metrics_flag}={gpus}")
        flags += [f"--gpu-metrics-frequency={frequency}"] if frequency else []
    return [*flags, *extra]


# Launcher's variable of a rank -> that of its place on its node, which numbers its GPU.
_LOCAL = {
    "OMPI_COMM_WORLD_RANK": "OMPI_COMM_WORLD_LOCAL_RANK", "PMI_RANK": "MPI_LOCALRANKID", "SLURM_PROCID": "SLURM_LOCALID",
}  # fmt: skip


def _sampled(plan: Plan, side: SidePlan) -> str:
    """The GPUs that one nsys samples: all, or with a launcher that of the one rank; '' none."""
    if not plan.gpu_metrics or (side.launcher and side.only_rank is None):
        return ""
    local = _LOCAL.get(rank_variable(side.launcher, side.rank_variable)) if side.launcher else None
    return f"${{{local}}}" if local else "all"


def one_rank(nsys: Sequence[str], variable: str, rank: int) -> list[str]:
    """Words before a program that only the rank runs under nsys: each rank's shell looks which one it is."""
    under = " ".join(f'"{word}"' if "${" in word else shlex.quote(word) for word in nsys)
    return ["sh", "-c", f'if [ "${variable}" = {rank} ]; then exec {under} "$@"; else exec "$@"; fi', "sh"]


def with_reports(kind: Preset, command: Sequence[str], run: str) -> list[str]:
    """The command with the flags for its own reports, unless it has them."""
    words = list(command)
    names = [PurePath(word).name for word in words]
    if kind.program not in names or (kind.subcommand and kind.subcommand not in names):
        return words
    for flag, file in kind.reports:
        if not any(word == flag or word.startswith(f"{flag}=") for word in words):
            words += [flag, f"{run}/{file}"]
    return words


def wrap(launcher: Sequence[str], nsys: Sequence[str], command: Sequence[str]) -> list[str]:
    """Launcher, nsys and program in the order in which each rank gets an nsys of its own.

    `trtllm-llmapi-launch` starts the workers itself, so it goes under nsys; mpirun and srun go over it.
    """
    outer = list(launcher)
    inner = [outer.pop()] if outer and PurePath(outer[-1]).name == LLMAPI_LAUNCH else []
    return [*outer, *nsys, *inner, *command]


def left_out(plan: Plan, features: Features) -> list[str]:
    """What the plan asks for and this nsys cannot do."""
    sides = (plan.baseline, plan.candidate)
    notes = [f"this nsys cannot trace {name}" for name in TRACES if name not in features.traces]
    if not features.graph_trace:
        notes.append("this nsys knows no --cuda-graph-trace")
    if plan.gpu_metrics and not features.gpu_metrics_flag:
        notes.append("this nsys cannot sample GPU metrics")
    if plan.gpu_metrics and any(side.launcher and side.only_rank is None for side in sides):
        notes.append("GPU metrics are sampled by one nsys only: with a launcher, of --only-rank")
    if any(preset(side.preset).fork for side in sides) and not features.fork_before_exec:
        notes.append("this nsys knows no --trace-fork-before-exec: child processes may be missing")
    if any(preset(side.preset).functions for side in sides) and not features.functions_flag:
        notes.append("this nsys cannot label Python functions: steps are inferred from the launches")
    return notes


def need_packages(plan: Plan, base: Mapping[str, str]) -> None:
    """Look for what a program of this package imports, where its Python is there already. Raises `TracediffError`: capture-no-tensorrt-llm."""
    for name in SIDES:
        side = plan.side(name)
        if preset(side.preset).script is None or side.ref:
            continue
        if "tensorrt_llm" not in machine.versions(side.command, {**base, **side.env}, side.cwd):
            raise TracediffError(
                "capture-no-tensorrt-llm",
                f"the Python of the {name}, {side.command[0]}, has no tensorrt_llm",
                fix=f"name the one that has it: --{name} /opt/venv/bin/python; tracediff doctor --python PATH says what it lacks",
            )


def profile_url(ready_url: str, verb: str) -> str:
    """Where a server that answers at `ready_url` is asked to start or stop its profiler."""
    return urljoin(ready_url, f"/{verb}_profile")


def shown(plan: Plan, nsys: Nsys, bundle: Path) -> list[str]:
    """The whole schedule as lines of a shell, for `--plan`; values of unrecorded variables masked."""
    lines = []
    for slot in plan.schedule():
        launch = launch_of(plan, slot, nsys, bundle / "runs" / slot.name, {})
        extra = plan.until is not None and slot.kind == "profiled" and slot.repeat > plan.repeats
        lines.append(f"# {slot.name} (only while {plan.until} is not reached)" if extra else f"# {slot.name}")
        before = f"cd {shlex.quote(str(launch.cwd))} && " if launch.cwd else ""
        public = machine.recorded_env(launch.added)
        for name in sorted(launch.added):
            value = shlex.quote(public[name]) if name in public else "..."
            before += f"{name}={value} "
        lines.append(before + shlex.join(machine.recorded_command(launch.command)))
        if launch.client:
            lines.append(f"#   when {launch.ready_url} answers:")
            if launch.start is not None:
                lines.append(f"#   POST {profile_url(launch.ready_url, 'start')} {launch.start}".rstrip())
            lines.append(before + shlex.join(machine.recorded_command(launch.client)))
    return lines
