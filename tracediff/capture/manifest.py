"""manifest.json of a bundle: what was run, on what, in which order, and how each run ended.

    tracediff_bundle  1, the version of this format
    tool              the tracediff that recorded it
    created           when the first run was planned (UTC)
    plan              order, seed, repeats, warmup, controls, steps, graph_trace, gpu_metrics, timeout_s,
                      fingerprint
    host              gpus, cuda, os, kernel, machine, cpus, python: as at the beginning
    nsys              version, notes (what this nsys cannot do and was left out)
    sides.SIDE        command, client, launcher (values named like secrets left out), preset, env
                      (allow-list), versions of packages, git {commit, dirty}
    adaptive          with --until: until, max_runs, looks[] {pairs, baseline_ns, delta_ns, low_ns, high_ns,
                      wanted_ns, alpha, method}, stopped (changed | narrow | max_runs, null while it goes on)
    runs[]            index, side, repeat, kind (warmup | profiled | control), folder, status (done | failed),
                      command (the whole line), started, seconds, exit_code, error {slug, message},
                      before, after (GPU clocks, power, temperature), reports, exports, kpi (files
                      in the folder)

Values of variables are recorded for the names in `machine.RECORDED_VARIABLES` only. The file is replaced as a
whole after every run: a reader sees the old or the new one.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import tracediff
from tracediff.capture import machine
from tracediff.capture.nsys import Nsys
from tracediff.capture.plan import SIDES, Plan, SidePlan, Slot
from tracediff.errors import TracediffError
from tracediff.formats.bundle import MANIFEST

NAME = MANIFEST
FORMAT_VERSION = 1
Clock = Callable[[], float]


@dataclass
class RunRecord:
    """How one run went."""

    slot: Slot
    status: str
    command: list[str]
    started: str
    seconds: float
    exit_code: int | None = None
    error: dict[str, str] | None = None
    before: list[dict[str, Any]] | None = None
    after: list[dict[str, Any]] | None = None
    reports: list[str] = field(default_factory=list)
    exports: list[str] = field(default_factory=list)
    kpi: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Return the entry of `runs`."""
        return {
            "index": self.slot.index,
            "side": self.slot.side,
            "repeat": self.slot.repeat,
            "kind": self.slot.kind,
            "folder": f"runs/{self.slot.name}",
            "status": self.status,
            "command": machine.recorded_command(self.command),
            "started": self.started,
            "seconds": round(self.seconds, 3),
            "exit_code": self.exit_code,
            "error": self.error,
            "before": self.before,
            "after": self.after,
            "reports": self.reports,
            "exports": self.exports,
            "kpi": self.kpi,
        }


def timestamp(seconds: float) -> str:
    """Return a time in UTC as ISO 8601."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def fingerprint(plan: Plan) -> str:
    """Return what makes two plans the same for `--resume`. Values of unrecorded variables do not enter it."""
    parts: list[Any] = [_order(plan)]
    for name in SIDES:
        side = plan.side(name)
        parts.append([
            machine.recorded_command(side.command), machine.recorded_command(side.client),
            list(side.launcher),
            side.preset, sorted(side.env), machine.recorded_env(side.env),
        ])  # fmt: skip
    parts.append([plan.steps, plan.graph_trace, plan.gpu_metrics, list(plan.nsys_flags)])
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def _order(plan: Plan) -> dict[str, Any]:
    return {
        "order": plan.order,
        "seed": plan.seed,
        "repeats": plan.repeats,
        "warmup": plan.warmup,
        "controls": plan.controls,
    }


def new(plan: Plan, nsys: Nsys | None, notes: list[str], clock: Clock) -> dict[str, Any]:
    """Return the manifest of a bundle without runs."""
    return {
        "tracediff_bundle": FORMAT_VERSION,
        "tool": f"tracediff {tracediff.__version__}",
        "created": timestamp(clock()),
        "plan": {
            **_order(plan),
            "steps": plan.steps,
            "graph_trace": plan.graph_trace,
            "gpu_metrics": plan.gpu_metrics,
            "timeout_s": plan.timeout_s,
            "fingerprint": fingerprint(plan),
        },
        "host": machine.host(),
        "nsys": {"version": nsys.version if nsys else None, "notes": notes},
        "sides": {name: _side(plan.side(name)) for name in SIDES},
        "runs": [],
    }


def _side(side: SidePlan) -> dict[str, Any]:
    env = {**os.environ, **side.env}
    return {
        "command": machine.recorded_command(side.command),
        "client": machine.recorded_command(side.client),
        "launcher": machine.recorded_command(side.launcher),
        "preset": side.preset,
        "env": machine.recorded_env(env),
        "versions": machine.versions(side.command, env),
        "git": machine.commit(side.cwd or Path.cwd()),
    }


def write(bundle: Path, manifest: dict[str, Any]) -> None:
    """Replace manifest.json as a whole."""
    scratch = bundle / f".{NAME}.part"
    with scratch.open("w", encoding="utf-8") as file:
        json.dump(manifest, file, indent=1)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    scratch.replace(bundle / NAME)


def read(bundle: Path) -> dict[str, Any]:
    """Return the manifest of a bundle.

    Raises `TracediffError`: bundle-manifest, bundle-version.
    """
    try:
        manifest = json.loads((bundle / NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise TracediffError(
            "bundle-manifest", f"{bundle.name}: manifest.json cannot be read: {error}", fix="capture again"
        ) from error
    if not isinstance(manifest, dict) or not isinstance(manifest.get("runs"), list):
        raise TracediffError(
            "bundle-manifest",
            f"{bundle.name}: manifest.json is none of a capture bundle",
            fix="capture again",
        )
    if manifest.get("tracediff_bundle") != FORMAT_VERSION:
        raise TracediffError(
            "bundle-version",
            f"{bundle.name}: bundle format {manifest.get('tracediff_bundle')!r}, known is {FORMAT_VERSION}",
            fix="use the tracediff that recorded it, or compare the folders of its exports",
        )
    return manifest
