"""When the runs of a capture bundle were recorded: the order tells whether a drift could pass for a change."""

from __future__ import annotations

import re
from pathlib import Path

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
