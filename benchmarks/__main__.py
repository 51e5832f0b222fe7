"""`python -m benchmarks [--sizes 0.1 1 5]`: build inputs, measure, print a Markdown table of ratios.

Inputs are real captures repeated in time (fixtures/builders/replicate.py): `graph` has few API calls, `eager` 2.4 API
calls and 6.5 NVTX rows a kernel. Every figure is of a whole command with the processes that it starts: wall seconds,
and the peak of their resident memory together. `warm` is the same comparison again, with what the first one kept.
"""

from __future__ import annotations

import argparse
import lzma
import math
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
SHAPES = {
    "graph": [
        ROOT / "fixtures/demo/graph_a/graph_a1.sqlite.xz",
        ROOT / "fixtures/demo/graph_a/graph_a2.sqlite.xz",
    ],
    "eager": [ROOT / "fixtures/captures/eager_a1.sqlite.xz", ROOT / "fixtures/captures/eager_a2.sqlite.xz"],
}


@dataclass(frozen=True)
class Figure:
    """One command: wall seconds and peak resident memory in MiB, of all its processes together."""

    seconds: float
    peak_mib: float


def measure(command: list[str], cache: Path | None = None) -> Figure:
    """Run a command to its end; raises CalledProcessError where it fails. `cache`: folder of what is kept, None: nothing."""
    begin = time.perf_counter()
    child = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        env={**os.environ, "TRACEDIFF_CACHE": str(cache) if cache else "off"},
    )  # fmt: skip
    peak = 0
    while child.poll() is None:
        peak = max(peak, resident(child.pid))
        time.sleep(0.02)
    seconds = time.perf_counter() - begin
    errors = child.stderr.read() if child.stderr else b""
    if child.returncode != 0:
        raise subprocess.CalledProcessError(child.returncode, command, stderr=errors)
    return Figure(seconds, peak / 2**20)


def resident(pid: int) -> int:
    """Bytes of memory of a process and all that it started; pages that they share count for each of them."""
    total = 0
    try:
        total += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        for task in Path(f"/proc/{pid}/task").iterdir():
            total += sum(resident(int(one)) for one in (task / "children").read_text().split())
    except (OSError, IndexError):
        pass  # ended meanwhile
    return total


def build(shape: str, kernels: int, folder: Path) -> list[Path]:
    """Two replicated exports of at least so many kernels each."""
    from fixtures.builders.replicate import replicate

    out = []
    for packed in SHAPES[shape]:
        path = folder / f"{shape}_{packed.name.split('.')[0]}_{kernels}.sqlite"
        plain = folder / packed.name.removesuffix(".xz")
        plain.write_bytes(lzma.decompress(packed.read_bytes()))
        replicate(plain, path, kernels)
        out.append(path)
    return out


def read_bytes(paths: list[Path]) -> float:
    """Seconds to read the files once, in order."""
    begin = time.perf_counter()
    for path in paths:
        with path.open("rb", buffering=0) as file:
            while file.read(1 << 22):
                pass
    return time.perf_counter() - begin


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    options.add_argument("--sizes", nargs="+", type=float, default=[0.1, 1.0], help="million kernels a side")
    options.add_argument("--shapes", nargs="+", choices=sorted(SHAPES), default=sorted(SHAPES))
    options.add_argument(
        "--rounds", type=int, default=1, help="repeat each measurement and keep the fastest of each"
    )
    chosen = options.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    folder = Path(tempfile.mkdtemp(prefix="tracediff-benchmark-"))
    print(
        "| shape | M kernels a side | MB a side | read bytes s | bare scan s | tracediff s | / scan | warm s | / scan | peak MiB"
        " | scan MiB | naive s |"
    )
    print("|-|-|-|-|-|-|-|-|-|-|-|-|")
    try:
        for shape in chosen.shapes:
            points = []
            for size in chosen.sizes:
                pair = build(shape, int(size * 1e6), folder)
                names = [str(path) for path in pair]
                tool = [
                    sys.executable,
                    "-m",
                    "tracediff",
                    "compare",
                    *names,
                    "--json",
                    str(folder / "out.json"),
                    "-f",
                    "-q",
                ]
                raw = min(read_bytes(pair) for _ in range(chosen.rounds))
                floor = min(
                    (
                        measure([sys.executable, "-m", "benchmarks.floor", *names])
                        for _ in range(chosen.rounds)
                    ),
                    key=_seconds,
                )
                ours = min((measure(tool) for _ in range(chosen.rounds)), key=_seconds)
                time.sleep(2)  # a large file changed just now is not kept
                measure(tool, folder / "cache")
                warm = min((measure(tool, folder / "cache") for _ in range(chosen.rounds)), key=_seconds)
                naive = min(
                    (
                        measure([sys.executable, "-m", "benchmarks.naive", *names])
                        for _ in range(chosen.rounds)
                    ),
                    key=_seconds,
                )
                points.append((size, ours.seconds))
                print(
                    f"| {shape} | {size:g} | {pair[0].stat().st_size / 1e6:.0f} | {raw:.2f} | {floor.seconds:.2f} |"
                    f" {ours.seconds:.2f} | {ours.seconds / floor.seconds:.2f} | {warm.seconds:.2f} |"
                    f" {warm.seconds / floor.seconds:.2f} | {ours.peak_mib:.0f} | {floor.peak_mib:.0f} |"
                    f" {naive.seconds:.2f} |",
                    flush=True,
                )
                for path in folder.glob("*.sqlite"):
                    path.unlink()
            if len(points) > 1:
                (small, fast), (large, slow) = points[0], points[-1]
                print(
                    f"\n{shape}: time grows as size ^ {math.log(slow / fast) / math.log(large / small):.2f}\n",
                    flush=True,
                )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _seconds(figure: Figure) -> float:
    return figure.seconds


if __name__ == "__main__":
    main()
