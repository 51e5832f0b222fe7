"""Shared by tests: tiny traces through the whole path, and the short words that their assertions use."""

from __future__ import annotations

import hashlib
import lzma
import shutil
from functools import cache
from pathlib import Path

import polars as pl

from fixtures.builders import TraceBuilder
from tracediff.accounting.reduction import Reduction
from tracediff.execution.run import reduce_file, reduce_sides
from tracediff.execution.sides import Reading
from tracediff.formats.inputs import resolve
from tracediff.model import CATEGORIES

ROOT = Path(__file__).parent.parent
FIXTURES = ROOT / "fixtures"
CAPTURES = {
    path.name.removesuffix(".sqlite.xz"): path
    for path in sorted([*FIXTURES.glob("demo/*/*.sqlite.xz"), *FIXTURES.glob("captures/*.sqlite.xz")])
}
# One of each program that differs in what it does; the others are its repeats.
PROGRAMS = ("eager_a1", "graph_a1", "graph_fused_1", "graph_gc", "graph_sleep", "tp2_a1")
STEP = "[Executor] _forward_step"  # how the program names the range of a step label, whatever its numbers


@cache
def bundled(path: Path, *, keep: bool = False) -> Reduction:
    """The reduction of a bundled capture, which the workers of a run of tests read once between them."""
    (side,) = reduce_sides([resolve(str(path))], Reading(keep=keep, cached=True))
    return side.parts[0]


def label(number: int, ctx: int = 0, tokens: int = 0, gen: int = 4) -> str:
    """A TensorRT-LLM step label of the newest generation."""
    return f"{STEP} {number}: {ctx} ctx reqs, {tokens} ctx tokens, {gen} gen reqs"


def one_gap(trace: TraceBuilder | None = None, *, pid: int = 100, tid: int = 1) -> TraceBuilder:
    """One whole period [0, 1000): a kernel, 900 ns of idle device, and the kernel of the next step at 1000.

    device   |first 0-100|             gap 100-1000             |second 1000-1100|
    thread 1 label 1 -200..-100                  label 2 850..960
             launch -150..-120                   launch 900..950
    With a trace given, one more process in it.
    """
    trace = (trace or TraceBuilder()).process(pid).thread(pid, tid)
    trace.range(tid, label(1), -200, -100).range(tid, label(2), 850, 960)
    trace.api(tid, "cudaLaunchKernel", -150, -120, corr=1).kernel(1, 0, 100, name="first")
    return trace.api(tid, "cudaLaunchKernel", 900, 950, corr=2).kernel(2, 1000, 1100, name="second")


def reduced(trace: TraceBuilder, folder: Path, **reading) -> Reduction:
    """Write, load and reduce a trace."""
    return read(trace.write(folder / "trace.sqlite"), **reading)


def read(path: Path, **reading) -> Reduction:
    """The reduction of a file; the same read alike is reduced once."""
    return read_once(path, Reading(threads=1, **reading))


def read_once(path: Path, how: Reading, *rest) -> Reduction:
    """As `reduce_file`, of what was not read so before."""
    if any(rest) or not path.is_file():
        return reduce_file(path, how, *rest)
    key = (path.name, hashlib.blake2b(path.read_bytes()).digest(), how)
    if key not in _REDUCED:
        if len(_REDUCED) == MOST:
            del _REDUCED[next(iter(_REDUCED))]
        _REDUCED[key] = reduce_file(path, how)
    return _REDUCED[key]


MOST = 300  # reductions that are kept
_REDUCED: dict[tuple[str, bytes, Reading], Reduction] = {}


def spent(reduction, period: int = 0) -> dict[str, int]:
    """Category -> ns of one period, without the zeros."""
    row = reduction.periods.row(period, named=True)
    return {name: row[name] for name in CATEGORIES if row[name]}


def only(trace: TraceBuilder, folder: Path) -> dict[str, int]:
    """`spent` of a trace with one whole period; checks that it closes."""
    reduction = reduced(trace, folder)
    assert len(reduction.periods) == 1
    assert reduction.residual_ns == 0
    return spent(reduction)


def idle(reduction, *columns: str, cause: str | None = None) -> dict:
    """Idle ns of all periods by some columns of the idle table (a single column: by its value)."""
    table = reduction.idle if cause is None else reduction.idle.filter(pl.col("cause") == cause)
    sums = table.group_by(columns).agg(pl.col("ns").sum())
    rows = {row[:-1]: row[-1] for row in sums.iter_rows()}
    return {key[0]: ns for key, ns in rows.items()} if len(columns) == 1 else rows


def plain(name: str, folder: Path) -> Path:
    """The unpacked export of a bundled capture."""
    target = folder / f"{name}.sqlite"
    with lzma.open(CAPTURES[name]) as packed, target.open("wb") as out:
        shutil.copyfileobj(packed, out)
    return target
