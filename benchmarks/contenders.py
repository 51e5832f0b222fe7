"""Who is measured, and with which command."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.inputs import ROOT, Pair, as_parquet
from benchmarks.tools import Tools

_HERE = Path(__file__).parent
EXPORTS, TRACES = ("graph", "eager"), ("torch",)


@dataclass(frozen=True)
class Contender:
    """One row of the table: its commands, run one after the other as one figure.

    `needs`: a tool that is not ours. `after`: the contender whose leavings make it warm.
    """

    title: str
    shapes: tuple[str, ...]
    commands: Callable[[Pair, Tools], list[list[str]]]
    needs: str | None = None
    after: str | None = None
    env: dict[str, str] = field(default_factory=dict)

    def environment(self, pair: Pair, tools: Tools) -> dict[str, str]:
        """What is set beside the caller's own environment."""
        cache = {"TRACEDIFF_CACHE": str(pair.scratch / "cache"), "PYTHONPATH": str(ROOT)}
        return cache if self.needs is None else tools.get(self.needs).env


def _floor(what: str) -> Callable[[Pair, Tools], list[list[str]]]:
    return lambda pair, _: [[sys.executable, "-m", "benchmarks.floor", what, *pair.names]]


def _compare(pair: Pair, names: list[str]) -> list[list[str]]:
    out = str(pair.scratch / "out.json")
    return [[sys.executable, "-m", "tracediff", "compare", *names, "--json", out, "-f", "-q"]]


def _ours(pair: Pair, _: Tools) -> list[list[str]]:
    return _compare(pair, pair.names)


def _ours_parquet(pair: Pair, _: Tools) -> list[list[str]]:
    return _compare(pair, as_parquet(pair))  # written before the clock runs


def _script(pair: Pair, tools: Tools) -> list[list[str]]:
    return [[tools.get("pandas").program("python"), str(_HERE / "totals_script.py"), *pair.names]]


def _hta(pair: Pair, tools: Tools) -> list[list[str]]:
    folders = [str(path.parent) for path in (pair.baseline, pair.candidate)]
    return [[tools.get("HolisticTraceAnalysis").program("python"), str(_HERE / "hta_script.py"), *folders]]


def _nsys_ai(pair: Pair, tools: Tools) -> list[list[str]]:
    return [[tools.get("nsys-ai").program("nsys-ai"), "diff", *pair.names, "--no-ai"]]


def _nsys_stats(*reports: str) -> Callable[[Pair, Tools], list[list[str]]]:
    chosen = [word for name in reports for word in ("--report", name)]
    return lambda pair, tools: [
        [tools.get("nsys").program("nsys"), "stats", "-q", "--format", "csv", *chosen, name]
        for name in pair.names
    ]


CONTENDERS = {
    "bytes": Contender("reading the bytes", (*EXPORTS, *TRACES), _floor("bytes")),
    "scan": Contender("bare scan", EXPORTS, _floor("scan")),
    "parse": Contender("bare parse: json.load", TRACES, _floor("parse")),
    "tracediff": Contender("tracediff, cold", (*EXPORTS, *TRACES), _ours),
    "tracediff-warm": Contender("tracediff, warm", (*EXPORTS, *TRACES), _ours, after="tracediff"),
    "tracediff-parquet": Contender("tracediff, cold, the same rows as Parquet", EXPORTS, _ours_parquet),
    "script": Contender("sqlite3 + pandas script", EXPORTS, _script, needs="pandas"),
    "nsys-kernels": Contender(
        "nsys stats, kernel sums", EXPORTS, _nsys_stats("cuda_gpu_kern_sum"), needs="nsys"
    ),
    "nsys-stats": Contender("nsys stats, its default reports", EXPORTS, _nsys_stats(), needs="nsys"),
    "hta": Contender("HTA TraceDiff", TRACES, _hta, needs="HolisticTraceAnalysis"),
    "nsys-ai": Contender("nsys-ai diff, cold", EXPORTS, _nsys_ai, needs="nsys-ai"),
    "nsys-ai-warm": Contender("nsys-ai diff, warm", EXPORTS, _nsys_ai, needs="nsys-ai", after="nsys-ai"),
}
FLOORS = ("scan", "parse")  # what ratios are of
