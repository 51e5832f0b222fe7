"""`capture --ncu KERNEL`: one launch of a kernel of both sides under Nsight Compute, for `tracediff compare` of the two reports.

FOLDER/baseline.ncu-rep, candidate.ncu-rep, and what each program printed
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from tracediff.capture.plan import Plan
from tracediff.capture.runner import diagnose, exit_error, start
from tracediff.errors import TracediffError, UsageError
from tracediff.formats.bundle import SIDES, SideName


def kernel_commands(plan: Plan, kernel: str, folder: Path) -> dict[SideName, list[str]]:
    """The command line of each side. kernel: a regular expression, as ncu takes it.

    Raises `TracediffError`: plan-invalid, where a side is more than a command that ends.
    """
    found: dict[SideName, list[str]] = {}
    for name in SIDES:
        side = plan.side(name)
        if side.client or side.launcher or side.ref:
            raise UsageError(
                "plan-invalid",
                "--ncu profiles commands that end by themselves: no client of a server, launcher or checkout",
                fix="a short command that launches the kernel: --baseline 'python bench.py'",
            )
        # the kernel is launched again for each group of counters; clocks as in the program
        ncu = ["ncu", "--target-processes", "all", "-k", f"regex:{kernel}", "-c", "1", "--set", "full"]
        found[name] = [*ncu, "--clock-control", "none", "-f", "-o", str(folder / name), *side.command]
    return found


def profile_kernel(plan: Plan, kernel: str, folder: Path, base: Mapping[str, str]) -> list[Path]:
    """Run both sides; their reports.

    Raises `TracediffError`: ncu-missing, plan-invalid, bundle-exists, capture-timeout, capture-exit-code, capture-no-kernel, and those
    of `diagnose`.
    """
    commands = kernel_commands(plan, kernel, folder.absolute())
    ncu = shutil.which(os.environ.get("NCU") or "ncu")
    if ncu is None:
        raise TracediffError("ncu-missing", "there is no ncu", fix="put ncu on PATH, or set NCU to it")
    if folder.exists() and any(folder.iterdir()):
        raise TracediffError("bundle-exists", f"{folder.name} is not empty", fix="-o names another folder")
    folder.mkdir(parents=True, exist_ok=True)
    reports = []
    for name, (_, *words) in commands.items():
        side, report = plan.side(name), folder / f"{name}.ncu-rep"
        child = start([ncu, *words], cwd=side.cwd, env={**base, **side.env}, logs=folder, name=f"{name}-")
        code = child.wait(plan.timeout_s)
        if code is None:
            child.stop()
            raise TracediffError(
                "capture-timeout",
                f"the {name} ran for {plan.timeout_s:g} s",
                fix="a shorter program, or --timeout",
            )
        if code:
            raise diagnose(folder) or exit_error(code, folder / f"{name}-stderr.log", f"the {name}")
        if not report.is_file():
            raise diagnose(folder) or TracediffError(
                "capture-no-kernel",
                f"the {name} launched no kernel whose name fits {kernel!r}",
                fix="a part of the name as `tracediff show` prints it: --ncu gemm",
            )
        reports.append(report)
    return reports
