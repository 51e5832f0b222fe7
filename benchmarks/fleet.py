"""`python -m benchmarks.fleet [--ranks 64 512] [--repeats 3]`: many ranks, several repeats a side, an export each.

Every export is a tiny capture of its own (another process id, other kernel times), made from one template. On the candidate's
side one rank is slow in every repeat, and one export of the baseline is cut short. Measured is the whole command with its
processes, cold and with what was kept of it; the slow rank must come out as the first outlier.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path

from benchmarks.measuring import measure

ROOT = Path(__file__).parent.parent
STEPS = 10
US = 1000
LATE_US = 150


def template(path: Path) -> None:
    """One rank: steps of 1000 us, a gemm and 24 small kernels, and a collective that ends when all ranks are there."""
    from fixtures.builders import TraceBuilder

    trace = TraceBuilder().process(100).thread(100, 1)
    corr = 0
    for number in range(STEPS + 1):
        begin = 1000 * US * number
        trace.range(1, f"[Executor] _forward_step {number}: 0 ctx reqs, 0 ctx tokens, 4 gen reqs", begin, begin + 90 * US)  # fmt: skip
        for at, length, name in [(100, 200, "gemm"), *((300 + 5 * one, 4, f"small_{one}") for one in range(24)), (430, 400, "ncclDevKernel_AllReduce_Sum")]:  # fmt: skip
            launch = begin + (5 + corr % 26 * 3) * US
            trace.api(1, "cudaLaunchKernel", launch, launch + 2 * US, corr=corr)
            trace.kernel(corr, begin + at * US, begin + (at + length) * US, name=name)
            corr += 1
    trace.write(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA page_size = 512")
        db.execute("VACUUM")


def export(path: Path, plain: Path, number: int, late_us: int) -> None:
    """A copy whose gemm, and with it the start of its collective, is a little later than another one's."""
    shutil.copyfile(plain, path)
    later = late_us * US + number * 7919 % 2000  # ns, up to 2 us: no two ranks are alike
    with closing(sqlite3.connect(path)) as db, db:
        name = "(SELECT id FROM StringIds WHERE value = ?)"
        kernels = "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET"
        db.execute(f'{kernels} "end" = "end" + ? WHERE shortName = {name}', (later - late_us * US, "gemm"))
        # what is late is the host: everything after the gemm begins later, the collective ends where all are there
        db.execute(f'{kernels} start = start + ? WHERE shortName = {name}', (later, "ncclDevKernel_AllReduce_Sum"))  # fmt: skip


def build(folder: Path, ranks: int, repeats: int) -> int:
    """Both sides; the rank that is slow."""
    plain, slow = folder / "template.sqlite", ranks // 3
    template(plain)
    for number, side in enumerate(("baseline", "candidate")):
        for repeat in range(repeats):
            run = folder / side / f"run{repeat}"
            run.mkdir(parents=True)
            for rank in range(ranks):
                late = LATE_US if side == "candidate" and rank == slow else 0
                export(
                    run / f"rank{rank}.sqlite", plain, 1 + rank + ranks * (repeat + repeats * number), late
                )
    bad = folder / "baseline" / "run0" / f"rank{ranks // 2}.sqlite"
    bad.write_bytes(bad.read_bytes()[: bad.stat().st_size // 2])
    return slow


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(prog="python -m benchmarks.fleet", description=__doc__)
    options.add_argument("--ranks", nargs="+", type=int, default=[64, 128, 256, 512])
    options.add_argument("--repeats", type=int, default=3)
    options.add_argument("--scheduler", help="of a Dask cluster, for the cold run")
    chosen = options.parse_args()
    print("| ranks | exports | cold s | ms an export | peak MiB | warm s | ms an export | peak MiB | JSON KB |\n|-|-|-|-|-|-|-|-|-|")  # fmt: skip
    for ranks in chosen.ranks:
        folder = Path(tempfile.mkdtemp(prefix="tracediff-fleet-"))
        try:
            slow = build(folder, ranks, chosen.repeats)
            out = folder / "out.json"
            tool = [
                sys.executable,
                "-m",
                "tracediff",
                "compare",
                str(folder / "baseline"),
                str(folder / "candidate"),
            ]
            tool += ["--skip-unreadable", "--json", str(out), "-f", "-q"]
            how = {"env": {"TRACEDIFF_CACHE": str(folder / "cache")}, "limit_s": 7200, "most_mib": 16_384}
            remote = {"TRACEDIFF_SCHEDULER": chosen.scheduler} if chosen.scheduler else {}
            cold = measure(tool, ROOT, **{**how, "env": {**how["env"], **remote}})
            first = out.read_bytes()
            warm = measure(tool, ROOT, **how)
            assert out.read_bytes() == first
            result = json.loads(first)
            order = sorted(result["ranks"], key=lambda row: -abs(row["outlier"] or 0))
            assert order[0]["rank"] == slow, (order[0], slow)
            assert len(result["inputs"]["baseline"]["left_out"]) == 1
            exports = 2 * ranks * chosen.repeats
            print(
                f"| {ranks} | {exports} | {cold.seconds:.1f} | {1000 * cold.seconds / exports:.0f} | {cold.peak_mib:.0f} |"
                f" {warm.seconds:.1f} | {1000 * warm.seconds / exports:.1f} | {warm.peak_mib:.0f} | {len(first) / 1e3:.0f} |",
                flush=True,
            )
        finally:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
