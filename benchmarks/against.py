"""A cold comparison of two exports against a bare scan of them, and against an older commit: `python -m benchmarks.against [REV]`.

Ratios of whole commands in turn on the same files, so that they hold on a slow or busy machine too; the fewest seconds of all
rounds count. `--check` fails where processor seconds, as a multiple of the scan's, are a quarter above what is recorded in
`against.json`; `--record` writes that.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple
from pathlib import Path

from benchmarks.inputs import ROOT, Pair, pair
from benchmarks.measuring import Figure, measure

RECORDED = ROOT / "benchmarks/against.json"
WORSE = 1.25  # times the recorded ratio
_LIMIT_S, _MOST_MIB = 900, 16_000
SCAN, HERE = "bare scan", "this tree"


def best(figures: list[Figure]) -> Figure:
    """The least of each figure."""
    return Figure(*map(min, zip(*map(astuple, figures), strict=True)))


def ratio(figures: dict[str, list[Figure]]) -> float:
    """Processor seconds of this tree, as a multiple of the scan's."""
    return best(figures[HERE]).cpu_s / best(figures[SCAN]).cpu_s


def table(figures: dict[str, list[Figure]]) -> list[str]:
    """Lines of Markdown: a row a command, ratios to the scan."""
    scan = best(figures[SCAN])
    lines = ["| | wall s | of the scan | processor s | of the scan | MiB |", "|-|-|-|-|-|-|"]
    for name, all_of_it in figures.items():
        one = best(all_of_it)
        lines.append(
            f"| {name} | {one.seconds:.2f} | {one.seconds / scan.seconds:.2f} | {one.cpu_s:.2f} | {one.cpu_s / scan.cpu_s:.2f}"
            f" | {one.peak_mib:.0f} |"
        )
    return lines


def verdict(found: float, recorded: float) -> str | None:
    """What is wrong with a ratio; None where it is at most a quarter above the recorded one."""
    if found <= WORSE * recorded:
        return None
    return f"a cold comparison takes {found:.2f} times the processor seconds of a bare scan; {recorded:.2f} is recorded"


@contextmanager
def _checked_out(revision: str | None, folder: Path) -> Iterator[dict[str, Path]]:
    """The trees that are measured, by what they are called; that of a revision is gone afterwards."""
    if revision is None:
        yield {HERE: ROOT}
        return
    git = ["git", "-C", str(ROOT), "worktree"]
    there = folder / "tree"
    subprocess.run([*git, "add", "--detach", "--quiet", str(there), revision], check=True)
    try:
        yield {HERE: ROOT, revision: there}
    finally:
        subprocess.run([*git, "remove", "--force", str(there)], check=True)


def _measured(name: str, tree: Path, inputs: Pair) -> Figure:
    if name == SCAN:
        command = [sys.executable, "-m", "benchmarks.floor", "scan", *inputs.names]
    else:
        out = str(inputs.scratch / "out.json")
        command = [sys.executable, "-m", "tracediff", "compare", *inputs.names, "--json", out, "-f", "-q"]
    # compiled once, as where it is installed
    env = {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "", "TRACEDIFF_CACHE": "off"}
    return measure(command, tree, env=env, limit_s=_LIMIT_S, most_mib=_MOST_MIB)


def main(words: list[str] | None = None) -> int:
    """Measure and print; the exit status."""
    options = argparse.ArgumentParser(prog="python -m benchmarks.against", description=__doc__)
    options.add_argument("revision", nargs="?", help="a commit to measure as well")
    options.add_argument("--size", type=float, default=1.0, help="million kernels a side (1)")
    options.add_argument("--rounds", type=int, default=3, help="all in turn, so often (3)")
    options.add_argument("--data", type=Path, help="a folder that keeps the inputs; else a temporary one")
    options.add_argument(
        "--check", action="store_true", help="fail where the ratio is a quarter above what is recorded"
    )
    options.add_argument("--record", action="store_true", help="record the ratio")  # fmt: skip
    chosen = options.parse_args(words)
    key = f"{chosen.size:g} M"
    recorded = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    if chosen.check and key not in recorded:
        print(f"no ratio of {key} is recorded: python -m benchmarks.against --size {chosen.size:g} --record")
        return 2
    with tempfile.TemporaryDirectory(prefix="tracediff-against-") as name, _checked_out(chosen.revision, Path(name)) as trees:  # fmt: skip
        data = (chosen.data or Path(name) / "data").absolute()
        data.mkdir(parents=True, exist_ok=True)
        inputs = pair("graph", int(chosen.size * 1e6), data, Path(name) / "pair")
        figures: dict[str, list[Figure]] = {SCAN: [], **{one: [] for one in trees}}
        for _ in range(chosen.rounds):
            for one, before in figures.items():
                before.append(_measured(one, trees.get(one, ROOT), inputs))
            # a first round that is good enough needs no second one
            if chosen.check and verdict(ratio(figures), recorded[key]) is None:
                break
    print(*table(figures), sep="\n")
    if chosen.record:
        RECORDED.write_text(json.dumps({**recorded, key: round(ratio(figures), 2)}, indent=1) + "\n")
    problem = verdict(ratio(figures), recorded[key]) if chosen.check else None
    if problem is not None:
        print(problem)
    return problem is not None


if __name__ == "__main__":
    sys.exit(main())
