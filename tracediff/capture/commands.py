"""A run of the plan -> the command line, the environment and the folders of it."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tracediff.capture import machine
from tracediff.capture.nsys_features import Nsys
from tracediff.capture.plan import SIDES, Plan, Slot
from tracediff.capture.presets import (
    TRACES,
    Features,
    additions,
    nsys_flags,
    preset,
    rank_suffix,
    with_reports,
    wrap,
)  # fmt: skip

RUN = "{run}"  # in a command, a client or an environment value: the folder of the run


@dataclass(frozen=True)
class Launch:
    """Everything that a run is started with."""

    command: list[str]
    env: dict[str, str]
    added: dict[str, str]
    cwd: Path | None
    client: list[str]
    ready_url: str
    kpi: tuple[str, ...]
    reports: tuple[tuple[str, str], ...]
    began: float

    def recorded(self, run: Path) -> list[str]:
        """Return the command line for the manifest: the run's folder by its placeholder."""
        return [word.replace(str(run), RUN) for word in self.command]


def launch_of(plan: Plan, slot: Slot, nsys: Nsys, run: Path, base: Mapping[str, str]) -> Launch:
    """Return how a run is started. Warm-ups and controls run the plain command, as users do."""
    side = plan.side(slot.side)
    kind = preset(side.preset)
    folder = str(run)
    command = with_reports(kind, [word.replace(RUN, folder) for word in side.command], folder)
    added = {name: value.replace(RUN, folder) for name, value in side.env.items()}
    if slot.kind == "profiled":
        added |= {name: value for name, value in additions(kind, plan.steps).items() if name not in side.env}
        words = [str(nsys.path), *nsys_flags(
            kind, nsys.features, output=f"{folder}/report{rank_suffix(side.launcher, side.rank_variable)}",
            graph_trace=plan.graph_trace, gpu_metrics=plan.gpu_metrics and not side.launcher,
            extra=plan.nsys_flags,
        )]  # fmt: skip
        command = wrap(side.launcher, words, command)
    else:
        command = wrap(side.launcher, [], command)
    return Launch(
        command=command,
        env={**base, **added},
        added=added,
        cwd=side.cwd,
        client=[word.replace(RUN, folder) for word in side.client],
        ready_url=side.ready_url,
        kpi=side.kpi,
        reports=kind.reports,
        began=time.time(),
    )


def left_out(plan: Plan, features: Features) -> list[str]:
    """Return what the plan asks for and this nsys cannot do."""
    notes = [f"this nsys cannot trace {name}" for name in TRACES if name not in features.traces]
    if not features.graph_trace:
        notes.append("this nsys knows no --cuda-graph-trace")
    if plan.gpu_metrics and not features.gpu_metrics_flag:
        notes.append("this nsys cannot sample GPU metrics")
    if plan.gpu_metrics and any(plan.side(name).launcher for name in SIDES):
        notes.append("GPU metrics are not sampled with a launcher: a GPU can be sampled by one nsys only")
    if any(preset(plan.side(name).preset).fork for name in SIDES) and not features.fork_before_exec:
        notes.append("this nsys knows no --trace-fork-before-exec: child processes may be missing")
    return notes


def shown(plan: Plan, nsys: Nsys, bundle: Path) -> list[str]:
    """Return the whole schedule as lines of a shell, for `--plan`; values of unrecorded variables masked."""
    lines = []
    for slot in plan.schedule():
        launch = launch_of(plan, slot, nsys, bundle / "runs" / slot.name, {})
        extra = plan.until is not None and slot.kind == "profiled" and slot.repeat > plan.repeats
        lines.append(f"# {slot.name}{f' (only while {plan.until} is not reached)' if extra else ''}")
        where = f"cd {shlex.quote(str(launch.cwd))} && " if launch.cwd else ""
        env = "".join(
            f"{name}={shlex.quote(value) if _public(name) else '...'} "
            for name, value in sorted(launch.added.items())
        )
        lines.append(f"{where}{env}{shlex.join(machine.recorded_command(launch.command))}")
        if launch.client:
            lines.append(f"#   when {launch.ready_url} answers:")
            lines.append(f"{where}{env}{shlex.join(machine.recorded_command(launch.client))}")
    return lines


def _public(name: str) -> bool:
    return name in machine.RECORDED_VARIABLES
