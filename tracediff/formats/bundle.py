"""A capture bundle: its manifest.json, and which exports and benchmark reports belong to which side."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from tracediff.errors import TracediffError
from tracediff.formats.files import read_regular

SideName = Literal["baseline", "candidate"]
SIDES: tuple[SideName, SideName] = ("baseline", "candidate")
RunKind = Literal["warmup", "profiled", "control"]

MANIFEST = "manifest.json"
PART = f".{MANIFEST}.part"  # what a capture leaves that ends while it writes its manifest
FORMAT_VERSION = 1
_MOST_MANIFEST = 64 << 20  # bytes
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?\Z")


class Traffic(msgspec.Struct, kw_only=True, frozen=True):
    """Which requests a run was given: runs with one seed had the same ones, in the same order."""

    pair: int  # of the schedule: the repeat of both sides
    seed: int


class Run(msgspec.Struct, kw_only=True):
    """One run of a manifest. Names of files are those in the run's folder."""

    index: int = 0
    side: SideName
    repeat: int = 0
    kind: RunKind
    folder: str
    status: Literal["done", "failed"]
    command: list[str] = []  # the whole line; values named like secrets left out
    started: str = ""  # UTC, ISO 8601
    seconds: float = 0.0
    exit_code: int | None = None
    error: dict[str, Any] | None = None  # slug, message
    before: list[dict[str, Any]] | None = None  # GPU clocks, power, temperature
    after: list[dict[str, Any]] | None = None
    reports: list[str] = []
    exports: list[str] = []
    kpi: list[str] = []  # reports of the benchmark
    traffic: Traffic | msgspec.UnsetType = msgspec.UNSET  # with --same-traffic


class Manifest(msgspec.Struct, kw_only=True):
    """manifest.json: what was run, on what, in which order, and how each run ended."""

    tracediff_bundle: int = FORMAT_VERSION
    tool: str = ""
    created: str = ""
    plan: dict[
        str, Any
    ] = {}  # order, seed, repeats, warmup, controls, steps, graph_trace, gpu_metrics, timeout_s, same_traffic, fingerprint
    host: dict[str, Any] = {}  # gpus, cuda, os, kernel, machine, cpus, python: as at the beginning
    nsys: dict[str, Any] = {}  # version, notes: what this nsys cannot do and was left out
    sides: dict[
        str, dict[str, Any]
    ] = {}  # command, client, launcher, preset, env (allow-list), versions, git
    runs: list[Run]
    # With --until: until, max_runs, looks[] {pairs, baseline_ns, delta_ns, low_ns, high_ns, wanted_ns, alpha, method},
    # stopped (changed | narrow | max_runs, null while it goes on).
    adaptive: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


class _Version(msgspec.Struct):
    tracediff_bundle: Any


class BundleRun(msgspec.Struct, frozen=True):
    """One finished run."""

    name: str
    exports: tuple[Path, ...]
    kpi: tuple[Path, ...]
    traffic: Traffic | None = (
        None  # what --same-traffic gave it; a run of the other side with this seed had the same
    )


class Bundle(msgspec.Struct, frozen=True):
    """The finished runs of a bundle. `adaptive`: how `--until` ended; empty without it. `unfinished`: what is missing, in words."""

    profiled: Mapping[SideName, tuple[BundleRun, ...]]
    controls: Mapping[SideName, tuple[BundleRun, ...]]
    adaptive: Mapping[str, Any] = msgspec.field(default_factory=dict)
    unfinished: str = ""


def is_bundle(path: Path) -> bool:
    """Whether a folder is a capture bundle."""
    return (path / MANIFEST).is_file()


def read_manifest(bundle: Path) -> Manifest:
    """Read manifest.json. Raises `TracediffError`: bundle-manifest, bundle-version."""
    try:
        data = read_regular(bundle / MANIFEST, _MOST_MANIFEST)
        version = msgspec.json.decode(data, type=_Version).tracediff_bundle
        if version == FORMAT_VERSION:
            return msgspec.json.decode(data, type=Manifest)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _damaged(f"{bundle.name}: manifest.json cannot be read: {error}") from error
    raise TracediffError(
        "bundle-version",
        f"{bundle.name}: bundle format {version!r}, known is {FORMAT_VERSION}",
        fix="use the tracediff that recorded it, or compare the folders of its exports",
    )


def write_manifest(bundle: Path, manifest: Manifest) -> None:
    """Replace manifest.json as a whole: a reader sees the old or the new one."""
    scratch = bundle / PART
    with scratch.open("wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    scratch.replace(bundle / MANIFEST)


def read_bundle(path: Path) -> Bundle:
    """What a bundle holds. Raises `TracediffError`: bundle-manifest, bundle-version, bundle-incomplete."""
    manifest = read_manifest(path)
    done = {
        (kind, side): tuple(
            _finished(path, run)
            for run in manifest.runs
            if (run.status, run.kind, run.side) == ("done", kind, side)
        )
        for kind in ("profiled", "control")
        for side in SIDES
    }
    unfinished = _unfinished(path, manifest)
    for side in SIDES:
        if not done["profiled", side]:
            raise TracediffError(
                "bundle-incomplete",
                f"{path.name}: no finished profiled run of the {side}{unfinished and f': {unfinished}'}",
                fix=f"tracediff capture PLAN -o {path.name} --resume, where it was recorded",
            )
    return Bundle(
        {side: done["profiled", side] for side in SIDES},
        {side: done["control", side] for side in SIDES},
        manifest.adaptive or {},
        unfinished
        and f"{unfinished}. tracediff capture PLAN -o {path.name} --resume makes the others where it was recorded",
    )


_HOLD_ENVIRONMENT = (".nsys-rep", ".qdstrm", ".sqlite", "_pqtdir")


def _unfinished(path: Path, manifest: Manifest) -> str:
    """How many of the planned runs are there, and what of nsys lies raw in the folders of others; '' where none are missing."""
    adaptive = manifest.adaptive or {}
    repeats = adaptive.get("max_runs") or manifest.plan.get("repeats")
    pairs = [repeats, *(manifest.plan.get(name) for name in ("warmup", "controls"))]
    planned = 2 * sum(number for number in pairs if isinstance(number, int))
    done = {Path(run.folder).name for run in manifest.runs if run.status == "done"}
    if len(done) >= planned or adaptive.get("stopped"):
        return ""
    left = [one.relative_to(path) for one in sorted(path.glob("runs/*/report*"))
            if one.name.endswith(_HOLD_ENVIRONMENT) and one.parent.name not in done]  # fmt: skip
    raw = f", and {left[0]} of a run that broke off holds the environment of its program" if left else ""
    return f"{len(done)} of {planned} planned runs are there{raw}"


def recorded(bundle: Path) -> list[dict[str, str]]:
    """The finished profiled runs in the order of recording: run, side, started (a time, or empty).

    The order tells whether a drift could pass for a change.
    """
    return [
        {
            "run": Path(run.folder).name,
            "side": run.side,
            "started": run.started if _TIME.match(run.started) else "",
        }
        for run in read_manifest(bundle).runs
        if run.status == "done" and run.kind == "profiled"
    ]


def in_turns(runs: Sequence[Mapping[str, str]]) -> bool:
    """Whether the sides of `recorded` runs took turns on one machine: a bundle is of one; then no host is faster than the other's."""
    order = [run["side"] for run in runs]
    return (order != sorted(order) and order != sorted(order, reverse=True)) or len(order) == 2


def folder_of(bundle: Path, run: Run) -> Path:
    """The folder of a run. Raises `TracediffError` (bundle-manifest) where it lies outside the bundle."""
    folder = bundle / run.folder
    if "\0" in run.folder or bundle.resolve() not in folder.resolve().parents:
        raise _damaged("a run lies outside the bundle")
    return folder


def _finished(bundle: Path, run: Run) -> BundleRun:
    folder = folder_of(bundle, run)
    exports = [folder / Path(name).name for name in run.exports]
    missing = [path.name for path in exports if not path.exists()]
    if missing:
        raise TracediffError(
            "bundle-incomplete", f"{folder.name}: {missing[0]} is not there", fix="copy the whole bundle"
        )
    kpi = [path for name in run.kpi if (path := folder / Path(name).name).is_file()]
    return BundleRun(folder.name, tuple(exports), tuple(kpi), run.traffic or None)


def _damaged(message: str) -> TracediffError:
    return TracediffError("bundle-manifest", message, fix="capture again")
