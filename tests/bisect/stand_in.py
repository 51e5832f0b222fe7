"""A stand-in for nsys: the capture of a program is one of those that were made for the level that its checkout names.

Runs of one level differ by their noise; every run of all takes the next capture of its level.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.serving import serving

CAPTURES = 7  # of a level: no pair of runs always meets the same two
_BODY = """
import pathlib, shutil, subprocess, sys
args = sys.argv[1:]
here = pathlib.Path(__file__).parent
if args[0] == "--version":
    print("NVIDIA Nsight Systems version 2025.3.1.90-253135822126v0")
elif args[1:] == ["--help"]:
    print("--capture-range= --cuda-graph-trace= --trace= python-gil" if args[0] == "profile" else "--type= sqlite")
elif args[0] == "profile":
    level = pathlib.Path("level").read_text().strip()
    with (here / "runs").open("a") as file:
        file.write(f"{level}\\n")
    at = 1
    while args[at].startswith("-"):
        at += 1 if "=" in args[at] or args[at].startswith("--") else 2
    code = subprocess.run(args[at:]).returncode
    if code == 0:
        pathlib.Path(args[args.index("-o") + 1] + ".nsys-rep").write_text(level)
    sys.exit(code)
elif args[0] == "export":
    level = pathlib.Path(args[-1]).read_text()
    run = len((here / "runs").read_text().splitlines())
    shutil.copy(here / f"{level}-{run % CAPTURES}.sqlite", args[args.index("-o") + 1])
"""


class StandIn:
    """The stand-in in a folder of its own, and what it was asked for."""

    def __init__(self, folder: Path, levels: Mapping[str, Mapping[str, Any]], noise_us: float = 1.0) -> None:
        folder.mkdir()
        self.path = folder / "nsys"
        self.path.write_text(f"#!{sys.executable} -I\nCAPTURES = {CAPTURES}\n{_BODY}")
        self.path.chmod(0o755)
        for level, knobs in levels.items():
            for number in range(CAPTURES):
                off = noise_us * (-1) ** number * (1 + number) / CAPTURES
                run = {**knobs, "schedule_us": knobs["schedule_us"] + off}
                gpu = run.pop("gpu", "H200")
                serving(steps=8, **run).device(0, gpu).write(folder / f"{level}-{number}.sqlite")

    def runs(self) -> list[str]:
        """The level of every run so far."""
        log = self.path.with_name("runs")
        return log.read_text().split() if log.exists() else []
