"""Writing the manifest of a bundle; its fields are those of `tracediff.formats.bundle.Manifest`.

Values of variables are recorded for the names in `machine.RECORDED_VARIABLES` only. The file is replaced as a
whole after every run: a reader sees the old or the new one.
"""

from __future__ import annotations

import hashlib
import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

import tracediff
from tracediff.capture import machine
from tracediff.capture.nsys import Nsys
from tracediff.capture.plan import Plan, SidePlan
from tracediff.formats.bundle import MANIFEST, SIDES, Manifest

PART = f".{MANIFEST}.part"  # what a capture leaves that ends while it writes its manifest


def timestamp(seconds: float) -> str:
    """A time in UTC as ISO 8601."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def fingerprint(plan: Plan) -> str:
    """What makes two plans the same for `--resume`. Values of unrecorded variables do not enter it."""
    parts: list[Any] = [_order(plan)]
    for side in (plan.baseline, plan.candidate):
        parts.append([
            machine.recorded_command(side.command), machine.recorded_command(side.client),
            list(side.launcher), side.preset, sorted(side.env), machine.recorded_env(side.env),
        ])  # fmt: skip
    parts.append([plan.steps, plan.graph_trace, plan.gpu_metrics, list(plan.nsys_flags)])
    if plan.same_traffic:
        parts.append("same_traffic")
    if plan.baseline.ref or plan.candidate.ref:
        parts.append([plan.baseline.ref, plan.candidate.ref])
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def _order(plan: Plan) -> dict[str, Any]:
    return {name: getattr(plan, name) for name in ("order", "seed", "repeats", "warmup", "controls")}


def new(plan: Plan, nsys: Nsys, notes: list[str], seconds: float) -> Manifest:
    """The manifest of a bundle without runs, begun at a time."""
    recorded = ("steps", "graph_trace", "gpu_metrics", "timeout_s", "same_traffic")
    return Manifest(
        tool=f"tracediff {tracediff.__version__}",
        created=timestamp(seconds),
        plan={
            **_order(plan),
            **{name: getattr(plan, name) for name in recorded},
            "fingerprint": fingerprint(plan),
        },
        host=machine.host(),
        nsys={"version": nsys.version, "notes": notes},
        sides={name: _side(plan.side(name)) for name in SIDES},
        runs=[],
    )


def _side(side: SidePlan) -> dict[str, Any]:
    env = {**os.environ, **side.env}
    return {
        "command": machine.recorded_command(side.command),
        "client": machine.recorded_command(side.client),
        "launcher": machine.recorded_command(side.launcher),
        "preset": side.preset,
        "env": machine.recorded_env(env),
        "versions": machine.versions(side.command, env, side.cwd),
        "git": machine.commit(side.cwd or Path.cwd()),
    }


def write(bundle: Path, manifest: Manifest) -> None:
    """Replace manifest.json as a whole."""
    scratch = bundle / PART
    with scratch.open("wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    scratch.replace(bundle / MANIFEST)
