"""From two reports of nsys to the verdict, against nsys's own exports of them: `python -m benchmarks.reports A.nsys-rep B.nsys-rep`.

Every row is of whole commands with all their processes, in turn, `--rounds` times; the fastest of each is kept. Ratios are
of the first row. The nsys is that of $NSYS or PATH; reports cannot be made larger by repetition, so they are given.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.inputs import ROOT
from benchmarks.measuring import Figure, measure
from tracediff.formats.reports import find_nsys

_LIMIT_S, _MOST_MIB = 900, 16_000
Command = Callable[[Path], list[str]]


def commands(nsys: Path, reports: list[Path]) -> dict[str, Command]:
    """What is measured; each command gets a new folder to write to."""

    def export(folder: Path, report: Path, kind: str) -> str:
        out = folder / f"{report.stem}-{kind}"
        return shlex.join([str(nsys), "export", "-q", "true", "--type", kind, "-o", str(out), str(report)])

    def bare(kind: str, form: str) -> Command:
        return lambda folder: ["sh", "-c", form.format(*(export(folder, one, kind) for one in reports))]

    def compare(folder: Path) -> list[str]:
        names = [str(one) for one in reports]
        return [
            sys.executable,
            "-m",
            "tracediff",
            "compare",
            *names,
            "-q",
            "--json",
            str(folder / "out.json"),
        ]

    return {
        "nsys export to Parquet, one after the other": bare("parquetdir", "{}; {}"),
        "nsys export to Parquet, both at once": bare("parquetdir", "{} & {} & wait"),
        "nsys export to SQLite, one after the other": bare("sqlite", "{}; {}"),
        "tracediff compare": compare,
        "tracediff compare, exported to SQLite": lambda folder: ["env", "TRACEDIFF_EXPORT=sqlite", *compare(folder)],
    }  # fmt: skip


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(prog="python -m benchmarks.reports", description=__doc__)
    options.add_argument("reports", nargs=2, type=Path)
    options.add_argument("--rounds", type=int, default=2)
    chosen = options.parse_args()
    nsys = find_nsys()
    if nsys is None:
        sys.exit("no nsys on PATH or in $NSYS")
    todo = commands(nsys, [one.absolute() for one in chosen.reports])
    found: dict[str, Figure] = {}
    for _ in range(chosen.rounds):
        for title, command in todo.items():
            with tempfile.TemporaryDirectory() as folder:
                env = {"NSYS": str(nsys), "PYTHONPATH": str(ROOT)}
                now = measure(command(Path(folder)), ROOT, env=env, limit_s=_LIMIT_S, most_mib=_MOST_MIB)
            if title not in found or now.seconds < found[title].seconds:
                found[title] = now
    first = next(iter(found.values()))
    print("| | s | / bare exports | CPU s | peak MiB |", "|-|-|-|-|-|", sep="\n")
    for title, figure in found.items():
        print(
            f"| {title} | {figure.seconds:.2f} | {figure.seconds / first.seconds:.2f} | {figure.cpu_s:.1f} | {figure.peak_mib:,.0f} |"
        )


if __name__ == "__main__":
    main()
