"""The reading side of a capture bundle: which exports and benchmark reports belong to which side."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracediff.errors import TracediffError

if TYPE_CHECKING:
    from tracediff.capture.plan import SideName


MANIFEST = "manifest.json"
_RANK = re.compile(r"[._-]rank[_-]?\d+", re.IGNORECASE)


@dataclass(frozen=True)
class BundleRun:
    """One finished run."""

    name: str
    exports: tuple[Path, ...]
    kpi: tuple[Path, ...]


@dataclass(frozen=True)
class Bundle:
    """The finished runs of a bundle."""

    profiled: Mapping[SideName, tuple[BundleRun, ...]]
    controls: Mapping[SideName, tuple[BundleRun, ...]]
    adaptive: Mapping[str, Any] = field(default_factory=dict)
    """`adaptive` of the manifest: how `--until` ended; empty without it."""

    def kpi(self, side: SideName) -> tuple[Path, ...]:
        """Return the benchmark reports of a side's profiled runs: those of the runs that were traced."""
        return tuple(path for run in self.profiled[side] for path in run.kpi)


def is_bundle(path: Path) -> bool:
    """Return whether a folder is a capture bundle."""
    return (path / MANIFEST).is_file()


def read_bundle(path: Path) -> Bundle:
    """Return what a bundle holds.

    Raises `TracediffError`: bundle-manifest, bundle-version, bundle-incomplete.
    """
    # every side of a comparison is asked whether it is a bundle; few are
    from tracediff.capture import manifest
    from tracediff.capture.plan import SIDES

    data = manifest.read(path)
    found: dict[str, dict[SideName, list[BundleRun]]] = {
        kind: {side: [] for side in SIDES} for kind in ("profiled", "control")
    }
    for run in data["runs"]:
        if isinstance(run, dict) and run.get("status") == "done" and run.get("kind") in found:
            found[run["kind"]][_side(run)].append(_run(path, run))
    for side in SIDES:
        if not found["profiled"][side]:
            raise TracediffError(
                "bundle-incomplete",
                f"{path.name}: no finished profiled run of the {side}",
                fix="tracediff capture ... --resume",
            )
    return Bundle(
        {side: tuple(runs) for side, runs in found["profiled"].items()},
        {side: tuple(runs) for side, runs in found["control"].items()},
        data["adaptive"] if isinstance(data.get("adaptive"), dict) else {},
    )


def _side(run: dict[str, Any]) -> SideName:
    from tracediff.capture.plan import SIDES

    for side in SIDES:
        if run.get("side") == side:
            return side
    raise TracediffError("bundle-manifest", f"a run is of no side: {run.get('side')!r}", fix="capture again")


def folder_of(bundle: Path, run: dict[str, Any]) -> Path:
    """Return the folder of a run of the manifest. Raises `TracediffError`: bundle-manifest."""
    folder = bundle / str(run.get("folder", ""))
    if bundle.resolve() not in folder.resolve().parents:
        raise TracediffError("bundle-manifest", "a run lies outside the bundle", fix="capture again")
    return folder


def _run(bundle: Path, run: dict[str, Any]) -> BundleRun:
    folder = folder_of(bundle, run)
    exports = [folder / Path(name).name for name in run.get("exports", [])]
    missing = [path.name for path in exports if not path.is_file()]
    if missing:
        raise TracediffError(
            "bundle-incomplete", f"{folder.name}: {missing[0]} is not there", fix="copy the whole bundle"
        )
    ranks = [path for path in exports if _RANK.search(path.name)]
    # Several capture windows of one process are no ranks: the first stands for the run.
    chosen = ranks or exports[:1]
    kpi = [folder / Path(name).name for name in run.get("kpi", [])]
    return BundleRun(folder.name, tuple(chosen), tuple(path for path in kpi if path.is_file()))


# When the runs of a capture bundle were recorded: the order tells whether a drift could pass for a change.

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?\Z")


def recorded(bundle: Path) -> list[dict[str, str]]:
    """Return the finished profiled runs in the order of recording: run, side, started (a time, or empty)."""
    from tracediff.capture import manifest

    out = []
    for run in manifest.read(bundle)["runs"]:
        if isinstance(run, dict) and run.get("status") == "done" and run.get("kind") == "profiled":
            started = str(run.get("started", ""))
            name = Path(str(run.get("folder", ""))).name
            out.append(
                {
                    "run": name,
                    "side": str(run.get("side")),
                    "started": started if _TIME.match(started) else "",
                }
            )
    return out
