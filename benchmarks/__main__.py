"""`python -m benchmarks`: this project, the floor and other tools on the same files in one run, as a table of ratios.

Inputs are real captures repeated in time. Figures are of whole commands with all processes that they start.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks import results
from benchmarks.contenders import CONTENDERS
from benchmarks.inputs import ROOT, SHAPES, NoRoomError, Pair, pair
from benchmarks.measuring import Figure, NotMeasuredError, measure
from benchmarks.results import Group, Row
from benchmarks.tools import MissingToolError, Tools

KEPT = ROOT / "benchmarks/results.json"
_MEMORY = 0.85  # of the machine's, with swap, then a contender is stopped before the machine is


@dataclass
class Bounds:
    """How long one contender, and the whole run, may take."""

    limit_s: float
    end: float  # time.monotonic()

    def allowed(self, expected: float | None) -> float:
        """Seconds that a command may take now. Raises `NotMeasuredError` where more are expected."""
        left = min(self.limit_s, self.end - time.monotonic())
        if expected is not None and expected > left:
            raise NotMeasuredError(
                f"not run: would take about {_words(expected)}, {_words(max(left, 0))} allowed"
            )
        if left < 1:
            raise NotMeasuredError("not run: the time of the whole run was up")
        return left


def main() -> None:
    """Measure, print, keep."""
    chosen = _options().parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    known = results.load(chosen.out)
    bounds = Bounds(chosen.limit, time.monotonic() + chosen.budget)
    with tempfile.TemporaryDirectory(prefix="tracediff-benchmark-") as name:
        known = _measure_all(chosen, bounds, Path(name), known)
    print(*results.growth(known), sep="\n")


def _options() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    say = options.add_argument
    say(
        "--sizes",
        nargs="+",
        type=float,
        default=[0.1, 1.0],
        help="million kernels per side of the exports of nsys",
    )
    say(
        "--trace-sizes",
        nargs="+",
        type=float,
        default=[0.01, 0.1],
        help="the same of the traces of torch.profiler",
    )
    say("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    say("--contenders", nargs="+", choices=CONTENDERS, default=list(CONTENDERS))
    say(
        "--rounds",
        type=int,
        default=1,
        help="measure so often, all contenders in turn, and keep the fastest of each",
    )
    say(
        "--limit",
        type=float,
        default=900,
        help="seconds that a contender may take; one that would take more is not run",
    )
    say("--budget", type=float, default=86_400, help="seconds that the whole run may take")
    say(
        "--data",
        type=Path,
        help="a folder whose inputs are used, and where those built are kept; else a temporary one",
    )
    say("--tools", type=Path, help="a folder where the other tools are kept installed; else a temporary one")
    say(
        "--out",
        type=Path,
        default=KEPT,
        help="JSON, and Markdown beside it; pairs measured before are kept in it",
    )
    return options


def _measure_all(chosen: argparse.Namespace, bounds: Bounds, folder: Path, known: list[Group]) -> list[Group]:
    tools = Tools((chosen.tools or folder / "tools").absolute())
    data = (chosen.data or folder / "data").absolute()
    data.mkdir(parents=True, exist_ok=True)
    print(*results.HEAD, sep="\n")
    for shape in chosen.shapes:
        for size in sorted(chosen.trace_sizes if shape == "torch" else chosen.sizes):
            scratch = folder / "pair"
            group = Group(shape, size, 0, results.machine())
            try:
                inputs = pair(shape, int(size * 1e6), data, scratch)
                group.megabytes = round(inputs.megabytes, 1)
                _settle(inputs)
                _measure_pair(group, inputs, chosen, tools, bounds, known)
            except NoRoomError as error:
                group.rows = [
                    Row(name, note=f"not run: {error}")
                    for name in chosen.contenders
                    if shape in CONTENDERS[name].shapes
                ]
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
                if chosen.data is None:
                    shutil.rmtree(data)
                    data.mkdir()
            group.machine["tools"] = tools.versions()
            print(*results.table(group), sep="\n", flush=True)
            known = results.merged(known, [group])
            results.save(chosen.out, known)
    return known


def _settle(inputs: Pair) -> None:
    """Neither the cache nor the page cache is measured on a file that was written a moment ago."""
    os.sync()
    changed = max(path.stat().st_ctime for path in (inputs.baseline, inputs.candidate))
    time.sleep(max(0.0, changed + 3 - time.time()))


def _measure_pair(
    group: Group, inputs: Pair, chosen: argparse.Namespace, tools: Tools, bounds: Bounds, known: list[Group]
) -> None:
    """Measure every contender, `--rounds` times in turn; the fastest of each is kept."""
    names = [
        name for name in CONTENDERS if name in chosen.contenders and group.shape in CONTENDERS[name].shapes
    ]
    rows: dict[str, Row] = {}
    for number in range(chosen.rounds):
        for leavings in (inputs.scratch / "cache", *inputs.scratch.glob("*/*.nsys-cache")):
            shutil.rmtree(leavings, ignore_errors=True)
        for name in names:
            row = _one(name, group, inputs, tools, bounds, rows, known)
            before = rows.get(name)
            if number == 0 or (before and row.seconds and before.seconds and row.seconds < before.seconds):
                rows[name] = row
    group.rows = list(rows.values())


def _one(
    name: str,
    group: Group,
    inputs: Pair,
    tools: Tools,
    bounds: Bounds,
    rows: dict[str, Row],
    known: list[Group],
) -> Row:
    contender = CONTENDERS[name]
    try:
        if contender.after is not None and (
            contender.after not in rows or rows[contender.after].seconds is None
        ):
            raise NotMeasuredError(f"not run: {CONTENDERS[contender.after].title} was not")
        guess = results.expected(known, group.shape, name, group.size)
        figures: list[Figure] = []
        if contender.needs is not None:
            tools.get(contender.needs)
        state = inputs.state()
        for command in contender.commands(inputs, tools):
            limit = bounds.allowed(guess) - sum(one.seconds for one in figures)
            most = _MEMORY * sum(results.memory_mib())
            env = contender.environment(inputs, tools)
            figures.append(measure(command, ROOT, env=env, limit_s=limit, most_mib=most))
        if inputs.state() != state:
            raise NotMeasuredError("it wrote to its input")
    except (NotMeasuredError, MissingToolError) as error:
        return Row(name, note=str(error))
    seconds, cpu_s = sum(one.seconds for one in figures), sum(one.cpu_s for one in figures)
    return Row(name, round(seconds, 3), round(cpu_s, 3), round(max(one.peak_mib for one in figures), 1))


def _words(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 120 else f"{seconds:.0f} s"


if __name__ == "__main__":
    main()
